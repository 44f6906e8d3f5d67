//! `thalweg bench recommend`.

use std::fs;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Outcome, RecommendArgs, Source, advise, calibration, render};
use crate::command;

/// Answers, or writes a calibration.
pub fn run(args: &RecommendArgs, out: &mut dyn Write) -> io::Result<command::Outcome> {
    let mut sources = Vec::new();
    for path in &args.data {
        sources.extend(Source::open_all(path)?);
    }
    if let Some(file) = &args.write_calibration {
        let (text, told) = calibration(&sources).map_err(io::Error::other)?;
        fs::write(file, text)?;
        writeln!(out, "{}: {told}", file.display())?;
        return Ok(command::Outcome::Done);
    }
    let mut query = args.clone();
    if args.interactive {
        query.ask(&mut io::stdin().lock(), &mut io::stderr())?;
    }
    // Without data there are still capabilities, and what the studies say.
    if sources.is_empty() {
        sources.push(Source::paper());
    }
    let advice = advise(&query, &sources);
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since_1970.map_or(0, |it| it.as_secs());
    match args.json {
        true => {
            let json = render::json(&advice, &query, now);
            writeln!(out, "{}", serde_json::to_string_pretty(&json)?)?;
        }
        false => out.write_all(render::text(&advice, &query, now).as_bytes())?,
    }
    Ok(match advice.outcome {
        Outcome::Ranked(_) | Outcome::Stated(_) => command::Outcome::Done,
        Outcome::Refused(refusal) if !refusal.is_broken => command::Outcome::Invalid,
        Outcome::Refused(_) | Outcome::Nothing => command::Outcome::ShapeFailed,
    })
}
