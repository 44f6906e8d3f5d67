//! `pong` and `relay`: what comes goes on.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::flow::outcome;
use super::say::Say;
use crate::cell::Cell;
use crate::command::Outcome;
use crate::drivers::{self, Job};
use crate::load::{Gave, SECOND, clock};

/// Publishes what is received, to the same flow, until `count`, until `until`, or until `stop`.
pub fn run(
    cell: &Cell,
    job: &Job,
    count: Option<u64>,
    say: &mut Say<'_>,
    stop: &AtomicBool,
) -> io::Result<Outcome> {
    let mut publisher = drivers::publisher(cell.driver, job).map_err(io::Error::other)?;
    let mut subscriber = drivers::subscriber(cell.driver, job).map_err(io::Error::other)?;
    say.line(
        "settings",
        &[
            ("driver", json!(cell.driver)),
            ("receives_from", json!(job.subscribe_at)),
            ("receives_by", json!(job.subscribe)),
            ("filters", json!(job.subscribe_topic(0))),
            ("publishes_to", json!(job.publish_at)),
            ("publishes_by", json!(job.publish)),
            ("topics", json!(job.publish_topic(0))),
            ("flows", json!(job.flows)),
        ],
    )?;
    clock::be_exact();
    let begun = clock::now();
    let end = begun.saturating_add(cell.phases.measure_ns);
    let mut next = begun + SECOND;
    let (mut received, mut answered, mut strangers, mut before) = (0, 0, 0, (0, 0));
    let mut waiting: VecDeque<(u32, Vec<u8>)> = VecDeque::new();
    let is_enough = |answered: u64| count.is_some_and(|count| answered >= count);
    while !stop.load(Ordering::Relaxed) && clock::now() < end && !is_enough(answered) {
        // What waits for room is looked after soon; else there is time until something comes.
        let is_idle = waiting.is_empty() && publisher.unsettled() == 0;
        let until = clock::now() + if is_idle { LOOK_UP } else { ROOM };
        let heard = subscriber.receive(until, &mut |message| {
            let flow = message.topic.rsplit('/').next();
            match flow.and_then(|flow| flow.parse::<u32>().ok()) {
                Some(flow) if flow < job.flows => {
                    received += 1;
                    waiting.push_back((flow, message.payload.to_vec()));
                }
                _ => strangers += 1,
            }
        });
        heard.map_err(io::Error::other)?;
        // In order: who is behind one that has no room waits, too.
        while let Some((flow, payload)) = waiting.front() {
            let gave = publisher.publish(*flow, payload);
            if gave.map_err(io::Error::other)? == Gave::Full {
                break;
            }
            waiting.pop_front();
            answered += 1;
        }
        let turned = publisher.turn(0, false, &mut |_| {});
        turned.map_err(io::Error::other)?;
        if clock::now() >= next {
            say.line(
                "second",
                &[
                    ("s", json!((next - begun) / SECOND)),
                    ("received", json!(received - before.0)),
                    ("answered", json!(answered - before.1)),
                    ("waiting", json!(waiting.len())),
                ],
            )?;
            before = (received, answered);
            next += SECOND;
        }
    }
    // What was given leaves before the end.
    let deadline = clock::now() + SECOND;
    while publisher.unsettled() > 0 && clock::now() < deadline {
        let turned = publisher.turn(clock::now() + ROOM, true, &mut |_| {});
        turned.map_err(io::Error::other)?;
    }
    let unacknowledged = match job.publish.qos {
        0 => 0,
        _ => publisher.unacknowledged(),
    };
    say.line(
        "summary",
        &[
            ("received", json!(received)),
            ("answered", json!(answered)),
            ("unacknowledged", json!(unacknowledged)),
            ("of_others", json!(strangers)),
            ("seconds", json!((clock::now() - begun) as f64 / 1e9)),
        ],
    )?;
    Ok(outcome(stop))
}

/// How long one waits for messages before other things are looked after, nanoseconds.
const LOOK_UP: u64 = 20_000_000;
/// The same while something waits for room.
const ROOM: u64 = 200_000;
