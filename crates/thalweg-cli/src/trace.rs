//! `thalweg trace`: who would receive a message, stage by stage, from the admin API's dry run.

use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::admin_api::{AdminApi, list, number, text};
use crate::cli::{AdminArgs, topic_name};
use crate::failure::Failure;
use crate::top::nanos;

/// `thalweg trace`
#[derive(Args, Debug)]
pub struct TraceArgs {
    /// The topic a message would be published to
    #[arg(value_name = "TOPIC", value_parser = topic_name)]
    pub topic: String,
    /// The client that would publish it, to apply its rights
    #[arg(long, value_name = "CLIENT")]
    pub from: Option<String>,
    /// Its payload: what content filters would say of it
    #[arg(long, value_name = "TEXT")]
    pub payload: Option<String>,
    /// Its headers, which content filters see as well
    #[arg(long, value_name = "NAME:VALUE,...")]
    pub headers: Option<String>,
    /// Look again every second until Ctrl-C
    #[arg(long)]
    pub live: bool,
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Runs the command; the table goes to `out`.
pub fn run(args: &TraceArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let api = AdminApi::new(&args.admin)?;
    let mut query = vec![("topic", args.topic.as_str())];
    query.extend(args.from.as_deref().map(|client| ("from", client)));
    query.extend(args.payload.as_deref().map(|text| ("payload", text)));
    query.extend(args.headers.as_deref().map(|pairs| ("headers", pairs)));
    loop {
        let table = table(&api.json("/v1/trace", &query)?);
        if !args.live {
            out.write_all(table.as_bytes())?;
            return Ok(out.flush()?);
        }
        write!(out, "\x1b[H{}\x1b[J", table.replace('\n', "\x1b[K\n"))?;
        out.flush()?;
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The dry run as a table. Times are what a stage took lately, since nothing is really sent.
fn table(trace: &Value) -> String {
    let mut table = String::new();
    let from = trace
        .get("from")
        .and_then(Value::as_str)
        .map(|client| format!(" from {}", safe(client)));
    let outcome = match text(trace, "outcome") {
        "denied" => "refused",
        "no_match" => "nobody would receive it",
        "accepted" => "accepted",
        other => other,
    };
    let _ = writeln!(
        table,
        "{}{}: {outcome}; {} receivers, {} groups (nothing was sent)\n",
        safe(text(trace, "topic")),
        from.unwrap_or_default(),
        number(trace, "receivers"),
        number(trace, "groups"),
    );
    let rows: Vec<[String; 6]> = list(trace, "rows").iter().map(row).collect();
    let heads = [
        "stage",
        "shard",
        "whom or what",
        "mean",
        "p99 below",
        "decision",
    ]
    .map(str::to_owned);
    let mut widths = [0; 6];
    for row in std::iter::once(&heads).chain(&rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in std::iter::once(&heads).chain(&rows) {
        let [stage, shard, subject, mean, p99, decision] = row;
        let [w0, w1, w2, w3, w4, _] = widths;
        let _ = writeln!(
            table,
            "{stage:<w0$}  {shard:>w1$}  {subject:<w2$}  {mean:>w3$}  {p99:>w4$}  {decision}"
        );
    }
    let silent = number(trace, "shards_silent");
    if silent > 0.0 {
        let _ = writeln!(
            table,
            "\n{silent} shards did not answer; their receivers are missing"
        );
    }
    table
}

fn row(row: &Value) -> [String; 6] {
    let optional = |name: &str| row.get(name).and_then(Value::as_f64);
    let time = |name: &str| optional(name).map_or_else(|| "-".to_owned(), nanos);
    let shard = optional("shard").map_or_else(|| "-".to_owned(), |shard| shard.to_string());
    let words = |name: &str| safe(text(row, name));
    [
        words("span"),
        shard,
        words("subject"),
        time("nanos_mean"),
        time("nanos_p99"),
        words("decision"),
    ]
}

/// Names come from clients; they must not command our terminal.
fn safe(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_are_aligned_under_the_names_of_the_stages() {
        let trace = json!({
            "topic": "a/b", "from": "me", "outcome": "accepted", "receivers": 1, "groups": 0,
            "rows": [
                {"span": "kernel.publish", "shard": 0, "subject": "a/b", "decision": "1 receivers", "nanos_mean": 85, "nanos_p99": 12_800},
                {"span": "front.out", "shard": null, "subject": "rece\u{7}iver", "decision": "delivered at once", "nanos_mean": null},
            ],
        });
        let expected = "\
a/b from me: accepted; 1 receivers, 0 groups (nothing was sent)

stage           shard  whom or what  mean  p99 below  decision
kernel.publish      0  a/b           85ns     12.8µs  1 receivers
front.out           -  rece?iver        -          -  delivered at once
";
        assert_eq!(table(&trace), expected);
    }
}
