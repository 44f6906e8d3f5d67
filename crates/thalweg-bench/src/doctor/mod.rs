//! `thalweg bench doctor`: what this machine can measure, what it cannot, and what each lack means.
//!
//! *Knows:* the machine. *Must never know:* any result.

mod looks;
mod parts;

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Map, json};

use crate::brokers::{NoBroker, System};
use crate::cell::word;
use crate::command::Outcome;
use crate::drivers::stock;
use crate::report::document::{Document, Table};

pub use parts::install;

/// `thalweg bench doctor`
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Install what is missing: brokers and what networks are made with by apt-get (as root), stock client libraries by pip
    /// into a folder of their own
    #[arg(long)]
    install: bool,
}

impl DoctorArgs {
    /// Whether it changes the system, and does not only look at it.
    pub fn installs(&self) -> bool {
        self.install
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Good,
    /// It can be measured, with the restriction that is said.
    Limited,
    /// It cannot be measured.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Look {
    pub what: &'static str,
    pub found: String,
    pub state: State,
    /// What it means for measurements; empty if nothing.
    pub means: String,
}

/// Runs the command: 0 if everything can be measured with what is there, 1 if some suite cannot run at all.
pub fn run(args: &DoctorArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    if args.install {
        install(out)?;
    }
    let looks = looks::everything();
    let of = |system: &'static System| (system.name.as_str(), system.version());
    let systems: Vec<_> = System::all().iter().map(of).collect();
    let clients = stock::versions();
    match args.json {
        true => {
            let state = |(name, found): &(&str, Result<String, NoBroker>)| {
                let (word, words) = state(found);
                ((*name).to_owned(), json!({ word: words }))
            };
            let all = json!({
                "looks": looks,
                "systems": systems.iter().map(state).collect::<Map<_, _>>(),
                "stock_clients": clients.iter().map(state).collect::<Map<_, _>>(),
            });
            writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        }
        false => {
            let mut document = Document {
                title: "What this machine can measure".to_owned(),
                ..Document::default()
            };
            let mut table = Table::new(&["what", "found", "state", "what that means"]);
            for Look {
                what,
                found,
                state,
                means,
            } in looks.clone()
            {
                table.row([what.to_owned(), found, word(state), means]);
            }
            document.table(table);
            let mut table = Table::new(&["program", "version, or what installs it"]);
            let systems = systems.iter().map(|it| ("", it));
            let clients = clients.iter().map(|it| ("stock client: ", it));
            for (kind, (name, found)) in systems.chain(clients) {
                let words = match state(found) {
                    ("version", version) => version,
                    (word, words) => format!("{word}: {words}"),
                };
                table.row([format!("{kind}{name}"), words]);
            }
            document.table(table);
            out.write_all(document.markdown().as_bytes())?;
        }
    }
    let is_missing = looks.iter().any(|look| look.state == State::Missing);
    Ok(if is_missing {
        Outcome::Failed
    } else {
        Outcome::Done
    })
}

/// Its version, what installs it, or what is wrong with it.
fn state(found: &Result<String, NoBroker>) -> (&'static str, String) {
    match found {
        Ok(version) => ("version", version.clone()),
        Err(NoBroker::Absent(install)) => ("absent", install.clone()),
        Err(NoBroker::Failed(error)) => ("broken", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_the_same_in_words_and_as_json() {
        let said = |json| {
            let (mut out, install) = (Vec::new(), false);
            let outcome = run(&DoctorArgs { json, install }, &mut out).expect("it can look");
            (String::from_utf8(out).expect("text"), outcome)
        };
        let (words, outcome) = said(false);
        println!("{words}");
        let (text, _) = said(true);
        let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let looks = all["looks"].as_array().expect("a list");
        for look in looks {
            assert!(words.contains(look["what"].as_str().expect("a word")));
        }
        let is_missing = looks.iter().any(|look| look["state"] == "missing");
        assert_eq!(outcome == Outcome::Failed, is_missing);
        for System { name, .. } in System::all() {
            assert!(words.contains(name) && all["systems"][name].is_object());
        }
    }
}
