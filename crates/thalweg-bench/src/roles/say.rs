//! What roles print: a line each second, a summary.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::cell::{Quantiles, Row};

/// Prints values: as JSON, or as words.
pub struct Say<'a> {
    out: &'a mut dyn Write,
    json: bool,
    quiet: bool,
}

impl<'a> Say<'a> {
    /// To `out`.
    pub fn new(out: &'a mut dyn Write, json: bool, quiet: bool) -> Say<'a> {
        Say { out, json, quiet }
    }

    /// A line: `settings` (what is really done), each `second`, and the `summary` of a role that has no row.
    pub fn line(&mut self, what: &str, values: &[Named]) -> io::Result<()> {
        if self.quiet && what != "summary" {
            return Ok(());
        }
        match self.json {
            true => writeln!(self.out, "{}", json!({ what: object(values) })),
            false => writeln!(self.out, "{}", words(values)),
        }?;
        self.out.flush()
    }

    pub fn summary(&mut self, row: &Row, roles: Roles) -> io::Result<()> {
        if self.json {
            writeln!(self.out, "{}", json!({ "summary": row }))?;
            return self.out.flush();
        }
        let rate = |count: u64| count as f64 / row.seconds.max(1e-9);
        if roles.sends {
            writeln!(
                self.out,
                "sent      {} of {} that were due, {:.1}/s, {} not acknowledged, {} held back, 1 % tried {:.0} us late or more",
                row.sent,
                row.intended,
                rate(row.sent),
                row.unacknowledged,
                row.more.get("held_back").copied().unwrap_or(0.0),
                row.lag_p99_us,
            )?;
        }
        if roles.receives {
            let lost = roles.sends.then(|| format!("{} lost, ", row.lost));
            let lost = lost.unwrap_or_default();
            writeln!(
                self.out,
                "received  {}, {:.1}/s, {} bytes, {lost}{} twice, {} behind a later one, {} of others",
                row.delivered,
                rate(row.delivered),
                row.payload_bytes,
                row.duplicates,
                row.reordered,
                row.more.get("strangers").copied().unwrap_or(0.0),
            )?;
            for (name, of) in [("response", &row.response), ("service", &row.service)] {
                writeln!(self.out, "{name:<9} {}", quantiles(of))?;
            }
        }
        self.out.flush()
    }
}

/// Which halves of a row mean something.
#[derive(Clone, Copy, Debug)]
pub struct Roles {
    pub sends: bool,
    pub receives: bool,
}

fn quantiles(of: &Quantiles) -> String {
    format!(
        "mean {:.0}  p50 {:.0}  p90 {:.0}  p99 {:.0}  p99.9 {:.0}  max {:.0} us",
        of.mean, of.p50, of.p90, of.p99, of.p999, of.max
    )
}

/// A value with its name.
pub type Named = (&'static str, Value);

fn object(values: &[Named]) -> Value {
    let values = values.iter();
    values.map(|(name, value)| (*name, value.clone())).collect()
}

/// Names and values, two blanks between.
fn words(values: &[Named]) -> String {
    let word = |(name, value): &Named| match value {
        Value::String(text) => format!("{name} {text}"),
        value => format!("{name} {value}"),
    };
    values.iter().map(word).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Standing;

    #[test]
    fn a_summary_has_the_halves_that_mean_something() {
        let row = Row {
            sent: 7,
            intended: 8,
            delivered: 6,
            seconds: 2.0,
            ..Row::blank(Standing::Valid)
        };
        for (sends, receives) in [(true, false), (false, true), (true, true)] {
            let mut out = Vec::new();
            let summary = Say::new(&mut out, false, true).summary(&row, Roles { sends, receives });
            summary.expect("a Vec takes it");
            let text = String::from_utf8(out).expect("it is text");
            for (part, is_there) in [
                ("sent      7 of 8", sends),
                ("received  6, 3.0/s", receives),
                ("lost", sends && receives),
            ] {
                assert_eq!(text.contains(part), is_there, "{part}");
            }
        }
    }

    #[test]
    fn json_is_one_object_a_line() {
        let mut out = Vec::new();
        let mut say = Say::new(&mut out, true, false);
        say.line("settings", &[("rate", json!(1))])
            .expect("a Vec takes it");
        say.line("second", &[("sent", json!(1))])
            .expect("a Vec takes it");
        let (sends, receives) = (true, true);
        let summary = say.summary(&Row::blank(Standing::Valid), Roles { sends, receives });
        summary.expect("a Vec takes it");
        let text = String::from_utf8(out).expect("it is text");
        let is_json = |line| serde_json::from_str::<Value>(line).is_ok();
        assert_eq!(text.lines().filter(|line| is_json(line)).count(), 3);
    }
}
