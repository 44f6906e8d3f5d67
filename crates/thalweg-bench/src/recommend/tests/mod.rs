mod loops;
mod questions;

use clap::Parser;

use super::field::tests::trial;
use super::sources::SourceKind;
use super::{Advice, RecommendArgs, Source, advise, render};
use crate::cell::{Cell, Protocol, Quantiles, Row, Standing};

/// A line of flags, as it is typed.
#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    args: RecommendArgs,
}

/// A query from its flags.
fn query(flags: &str) -> RecommendArgs {
    let words = std::iter::once("recommend").chain(flags.split_whitespace());
    CommandLine::try_parse_from(words)
        .unwrap_or_else(|error| panic!("{flags}: {error}"))
        .args
}

/// The answer, and its text.
fn ask(flags: &str, sources: &[Source]) -> (Advice, String) {
    let query = query(flags);
    let advice = advise(&query, sources);
    let text = render::text(&advice, &query, 1_795_339_420);
    println!("$ thalweg bench recommend {flags}\n{text}\n");
    (advice, text)
}

fn measured(name: &str, trials: Vec<(Cell, Row)>) -> Source {
    let mut source = Source::new(name, SourceKind::Measured, "a test", trials);
    source.about.finished_unix_s = Some(1_795_300_000);
    source
}

/// Measurements of MQTT and CoAP that cross at some 600 bytes, three repeats each.
fn made() -> Source {
    let mut trials = Vec::new();
    for (payload, mqtt, coap) in [
        (60, 554.0, 334.0),
        (600, 1636.0, 1610.0),
        (2000, 4568.0, 6400.0),
    ] {
        for (loss, repeat) in [(0.0, 0), (0.0, 1), (0.0, 2), (0.2, 0), (0.2, 1), (0.2, 2)] {
            let jitter = 1.0 + 0.004 * (f64::from(repeat) - 1.0);
            let response = Quantiles {
                count: 1000,
                mean: 1000.0 + 100_000.0 * loss * jitter,
                p99: 5000.0 + 900_000.0 * loss,
                ..Quantiles::default()
            };
            for (protocol, bytes) in [(Protocol::Mqtt, mqtt), (Protocol::Coap, coap)] {
                let (mut cell, row) = trial(payload, loss, repeat, bytes * (1.0 + loss) * jitter);
                (cell.publish.protocol, cell.subscribe.protocol) = (protocol, protocol);
                let row = Row {
                    wire_frames: Some(8000),
                    sent: 1000,
                    expected: 1000,
                    seconds: 100.0,
                    cpu_client_s: 0.05,
                    cpu_broker_s: 0.02,
                    rss_broker_kib: 20_000,
                    response,
                    ..row
                };
                trials.push((cell, row));
            }
        }
    }
    measured("made", trials)
}

fn blank(delivered: u64) -> Row {
    Row {
        delivered,
        ..Row::blank(Standing::Valid)
    }
}
