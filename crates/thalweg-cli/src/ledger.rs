//! `thalweg ledger`: where every message went.

use std::fmt::Write as _;
use std::io::Write;

use serde_json::Value;

use crate::admin_api::{AdminApi, list, number, text};
use crate::cli::LedgerArgs;
use crate::failure::Failure;

/// Runs the command; the books go to `out`.
pub fn run(args: &LedgerArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let api = AdminApi::new(&args.admin)?;
    let asked: Option<(&str, &str)> = match (&args.client, &args.prefix) {
        (Some(client), _) => Some(("client", client)),
        (None, Some(prefix)) => Some(("prefix", prefix)),
        (None, None) => None,
    };
    let query: Vec<(&str, &str)> = asked
        .into_iter()
        .chain(asked.map(|_| ("limit", ROWS_MAX)))
        .collect();
    let books = api.json("/v1/ledger", &query)?;
    let shown = match (args.json, asked) {
        (true, _) => format!("{books:#}\n"),
        (false, Some((name, _))) => rows(&books, name),
        (false, None) => whole(&books),
    };
    out.write_all(shown.as_bytes())?;
    Ok(out.flush()?)
}

/// The books of the broker: what came in and what became of it, so that both sides can be compared.
fn whole(books: &Value) -> String {
    let mut shown = String::new();
    for (part, sources, ends) in [
        (
            "publishes",
            &[
                ("received", "received from clients"),
                ("by_the_broker", "by the broker itself"),
            ][..],
            &["matched", "unmatched", "refused", "repeated"][..],
        ),
        (
            "copies",
            &[
                ("routed", "routed to receivers"),
                ("restored", "left by the run before"),
            ][..],
            &["delivered", "waiting", "in_flight", "expired", "dropped"][..],
        ),
    ] {
        let group = books.get(part).unwrap_or(&Value::Null);
        let _ = writeln!(shown, "{part}");
        for (name, title) in sources {
            line(&mut shown, "+", title, number(group, name));
        }
        for name in ends {
            line(
                &mut shown,
                "-",
                &name.replace('_', " "),
                number(group, name),
            );
            if *name == "dropped" {
                let reasons = group.get("dropped_by_reason").and_then(Value::as_object);
                let reasons = reasons
                    .into_iter()
                    .flatten()
                    .filter_map(|(name, count)| Some((name, count.as_f64()?)));
                for (reason, count) in reasons.filter(|(_, count)| *count > 0.0) {
                    let _ = writeln!(shown, "      {reason:<24}{count:>14}");
                }
            }
        }
        line(&mut shown, "=", "unaccounted", number(group, "unaccounted"));
    }
    silent(&mut shown, books);
    shown
}

fn line(shown: &mut String, sign: &str, title: &str, count: f64) {
    let _ = writeln!(shown, "  {sign} {title:<26}{count:>14}");
}

/// The books of clients or prefixes, a row each.
fn rows(books: &Value, named_by: &str) -> String {
    let heads = [
        named_by,
        "routed",
        "restored",
        "delivered",
        "waiting or in flight",
        "expired",
        "dropped",
        "because",
    ];
    let mut table = vec![heads.map(str::to_owned)];
    for row in list(books, "items") {
        let count = |name: &str| number(row, name).to_string();
        let reasons = row.get("dropped_by_reason").and_then(Value::as_object);
        let reasons: Vec<String> = reasons
            .into_iter()
            .flatten()
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        table.push([
            safe(text(row, named_by)),
            count("routed"),
            count("restored"),
            count("delivered"),
            count("queued"),
            count("expired"),
            count("dropped"),
            reasons.join(", "),
        ]);
    }
    let mut widths = [0; 8];
    for row in &table {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut shown = String::new();
    for row in &table {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Names and reasons begin where their heads do, numbers end there.
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                7 => write!(line, "  {cell}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        let _ = writeln!(shown, "{}", line.trim_end());
    }
    let (there, all) = (list(books, "items").len() as f64, number(books, "total"));
    if all > there {
        let _ = writeln!(
            shown,
            "\n{} more are not shown; ask for fewer, such as --{named_by} 'a*'",
            all - there
        );
    }
    silent(&mut shown, books);
    shown
}

fn silent(shown: &mut String, books: &Value) {
    let silent = number(books, "shards_silent");
    if silent > 0.0 {
        let _ = writeln!(
            shown,
            "\n{silent} shards did not answer; their part is missing"
        );
    }
}

/// Names come from clients; they must not command our terminal.
fn safe(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

/// What the admin API shows at the most.
const ROWS_MAX: &str = "10000";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_came_in_stands_above_what_became_of_it() {
        let books = json!({
            "publishes": {"received": 5, "by_the_broker": 1, "matched": 4, "unmatched": 2, "refused": 0, "repeated": 0, "unaccounted": 0},
            "copies": {"routed": 8, "restored": 2, "delivered": 6, "waiting": 1, "in_flight": 1, "expired": 0, "dropped": 2,
                "dropped_by_reason": {"queue_full": 2, "memory": 0}, "unaccounted": 0},
            "shards_silent": 1,
        });
        let expected = "\
publishes
  + received from clients                  5
  + by the broker itself                   1
  - matched                                4
  - unmatched                              2
  - refused                                0
  - repeated                               0
  = unaccounted                            0
copies
  + routed to receivers                    8
  + left by the run before                 2
  - delivered                              6
  - waiting                                1
  - in flight                              1
  - expired                                0
  - dropped                                2
      queue_full                           2
  = unaccounted                            0

1 shards did not answer; their part is missing
";
        assert_eq!(whole(&books), expected);
    }

    #[test]
    fn clients_are_rows_that_cannot_command_the_terminal() {
        let books = json!({
            "items": [
                {"client": "car-\u{1b}1", "routed": 100, "restored": 0, "delivered": 98, "queued": 1, "expired": 0, "dropped": 1,
                    "dropped_by_reason": {"queue_full": 1}},
                {"client": "b", "routed": 1, "restored": 2, "delivered": 3, "queued": 0, "expired": 0, "dropped": 0,
                    "dropped_by_reason": {}},
            ],
            "total": 3, "shards_silent": 0,
        });
        let expected = "\
client  routed  restored  delivered  waiting or in flight  expired  dropped  because
car-?1     100         0         98                     1        0        1  queue_full 1
b            1         2          3                     0        0        0

1 more are not shown; ask for fewer, such as --client 'a*'
";
        assert_eq!(rows(&books, "client"), expected);
    }
}
