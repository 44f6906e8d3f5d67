//! `thalweg bench doctor`: what this machine can measure, what it cannot, and what each lack means.
//!
//! *Knows:* the machine. *Must never know:* any result.

mod looks;
mod parts;

use std::io::{self, Write};

use clap::Args;
use serde_json::json;

use crate::brokers::{NoBroker, System};
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Good,
    /// It can be measured, with the restriction that is said.
    Limited,
    /// It cannot be measured.
    Missing,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Good => "good",
            State::Limited => "limited",
            State::Missing => "missing",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    let of = |it: &'static System| (it.name.as_str(), it.install.as_str(), it.version());
    let systems: Vec<_> = System::all().iter().map(of).collect();
    let clients = stock::versions();
    match args.json {
        true => {
            let state = |found: &Result<String, NoBroker>| match found {
                Ok(version) => json!({ "version": version }),
                Err(NoBroker::Absent(install)) => json!({ "absent": install }),
                Err(NoBroker::Failed(error)) => json!({ "broken": error.to_string() }),
            };
            let systems = systems
                .iter()
                .map(|(name, _, found)| ((*name).to_owned(), state(found)));
            let clients = clients
                .iter()
                .map(|(name, found)| ((*name).to_owned(), state(found)));
            let looks = looks.iter().map(|look| {
                let Look {
                    what,
                    found,
                    state,
                    means,
                } = look;
                json!({ "what": what, "found": found, "state": state.word(), "means": means })
            });
            let all = json!({
                "looks": looks.collect::<Vec<_>>(),
                "systems": systems.collect::<serde_json::Map<_, _>>(),
                "stock_clients": clients.collect::<serde_json::Map<_, _>>(),
            });
            writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        }
        false => {
            let mut document = Document {
                title: "What this machine can measure".to_owned(),
                ..Document::default()
            };
            let mut table = Table::new(&["what", "found", "state", "what that means"]);
            for look in &looks {
                table.row([
                    look.what.to_owned(),
                    look.found.clone(),
                    look.state.word().to_owned(),
                    look.means.clone(),
                ]);
            }
            document.table(table);
            let mut table = Table::new(&["program", "version, or what installs it"]);
            let words = |found: &Result<String, NoBroker>| match found {
                Ok(version) => version.clone(),
                Err(NoBroker::Absent(install)) => format!("absent: {install}"),
                Err(NoBroker::Failed(error)) => format!("broken: {error}"),
            };
            for (name, _, found) in &systems {
                table.row([(*name).to_owned(), words(found)]);
            }
            for (name, found) in &clients {
                table.row([format!("stock client: {name}"), words(found)]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_the_same_in_words_and_as_json() {
        let said = |json| {
            let mut out = Vec::new();
            let outcome = run(
                &DoctorArgs {
                    json,
                    install: false,
                },
                &mut out,
            )
            .expect("it can look");
            (String::from_utf8(out).expect("text"), outcome)
        };
        let (words, outcome) = said(false);
        println!("{words}");
        let (text, _) = said(true);
        let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let looks = all["looks"].as_array().expect("a list");
        assert!(
            looks
                .iter()
                .all(|look| words.contains(look["what"].as_str().expect("a word")))
        );
        let is_missing = looks.iter().any(|look| look["state"] == "missing");
        assert_eq!(
            outcome,
            if is_missing {
                Outcome::Failed
            } else {
                Outcome::Done
            }
        );
        for System { name, .. } in System::all() {
            assert!(words.contains(name) && all["systems"][name].is_object());
        }
    }
}
