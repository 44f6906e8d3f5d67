//! `thalweg ban`: writes the ban file.

use std::time::SystemTime;

use thalweg_server::access::{add_ban, remove_ban};

use crate::cli::BanArgs;
use crate::failure::Failure;
use crate::format::rfc3339;

pub fn run(args: &BanArgs) -> Result<(), Failure> {
    let BanArgs {
        file, kind, name, ..
    } = args;
    let in_words = |error: thalweg_server::access::AccessError| Failure::new(error.to_string());
    if args.delete {
        return match remove_ban(file, *kind, name).map_err(in_words)? {
            true => told(format!("{kind} {name} is not banned any more")),
            false => Err(Failure::new(format!(
                "{} does not ban {kind} {name}",
                file.display()
            ))),
        };
    }
    let until = match args.time {
        Some(time) => {
            let until = SystemTime::now().checked_add(time);
            let until = until.ok_or_else(|| Failure::usage("--for is too long"))?;
            // Whole seconds, as the file has them.
            let text = rfc3339(until);
            let (seconds, _) = text.split_at(SECONDS.min(text.len()));
            Some(format!("{seconds}Z"))
        }
        None => None,
    };
    add_ban(file, *kind, name, until.as_deref()).map_err(in_words)?;
    match until {
        Some(until) => told(format!("{kind} {name} is banned until {until}")),
        None => told(format!("{kind} {name} is banned")),
    }
}

fn told(words: String) -> Result<(), Failure> {
    eprintln!("{words}; a running broker reads the file within seconds");
    Ok(())
}

/// Letters of `2026-12-01T00:00:00`.
const SECONDS: usize = 19;
