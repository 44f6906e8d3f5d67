//! `pong` and `relay`: what comes goes on.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::flow::leg;
use super::say::Say;
use crate::cell::Driver;
use crate::command::Outcome;
use crate::drivers::{self, Job};
use crate::load::{Gave, SECOND, clock};

/// Publishes what is received, to the same flow, until `count`, until `until`, or until `stop`.
pub fn run(
    driver: Driver,
    job: &Job,
    count: Option<u64>,
    lasts: u64,
    say: &mut Say<'_>,
    stop: &AtomicBool,
) -> io::Result<Outcome> {
    let mut publisher = drivers::publisher(driver, job).map_err(io::Error::other)?;
    let mut subscriber = drivers::subscriber(driver, job).map_err(io::Error::other)?;
    say.settings(&[
        ("driver", json!(driver)),
        (
            "receives",
            json!(format!("{} by {}", job.subscribe_at, leg(&job.subscribe))),
        ),
        ("filters", json!(job.subscribe_topic(0))),
        (
            "publishes",
            json!(format!("{} by {}", job.publish_at, leg(&job.publish))),
        ),
        ("topics", json!(job.publish_topic(0))),
        ("flows", json!(job.flows)),
    ])?;
    clock::be_exact();
    let begun = clock::now();
    let end = begun.saturating_add(lasts);
    let mut next = begun + SECOND;
    let (mut received, mut answered, mut strangers, mut before) = (0, 0, 0, (0, 0));
    let mut waiting: VecDeque<(u32, Vec<u8>)> = VecDeque::new();
    let is_enough = |answered: u64| count.is_some_and(|count| answered >= count);
    while !stop.load(Ordering::Relaxed) && clock::now() < end && !is_enough(answered) {
        // What waits for room is looked after soon; else there is time until something comes.
        let until = clock::now()
            + if waiting.is_empty() && publisher.unsettled() == 0 {
                LOOK_UP
            } else {
                ROOM
            };
        let heard = subscriber.receive(until, &mut |message| match message
            .topic
            .rsplit('/')
            .next()
            .and_then(|flow| flow.parse::<u32>().ok())
        {
            Some(flow) if flow < job.flows => {
                received += 1;
                waiting.push_back((flow, message.payload.to_vec()));
            }
            _ => strangers += 1,
        });
        heard.map_err(io::Error::other)?;
        for _ in 0..waiting.len() {
            let Some((flow, payload)) = waiting.pop_front() else {
                break;
            };
            match publisher
                .publish(flow, &payload)
                .map_err(io::Error::other)?
            {
                Gave::Taken => answered += 1,
                Gave::Full => {
                    // In order: who is behind it waits, too.
                    waiting.push_front((flow, payload));
                    break;
                }
            }
        }
        publisher
            .turn(0, false, &mut |_| {})
            .map_err(io::Error::other)?;
        if clock::now() >= next {
            say.second(&[
                ("s", json!((next - begun) / SECOND)),
                ("received", json!(received - before.0)),
                ("answered", json!(answered - before.1)),
                ("waiting", json!(waiting.len())),
            ])?;
            before = (received, answered);
            next += SECOND;
        }
    }
    // What was given leaves before the end.
    let deadline = clock::now() + SECOND;
    while publisher.unsettled() > 0 && clock::now() < deadline {
        publisher
            .turn(clock::now() + ROOM, true, &mut |_| {})
            .map_err(io::Error::other)?;
    }
    say.end(&[
        ("received", json!(received)),
        ("answered", json!(answered)),
        (
            "unacknowledged",
            json!(if job.publish.qos > 0 {
                publisher.unacknowledged()
            } else {
                0
            }),
        ),
        ("of_others", json!(strangers)),
        ("seconds", json!((clock::now() - begun) as f64 / 1e9)),
    ])?;
    Ok(if stop.load(Ordering::Relaxed) {
        Outcome::Interrupted
    } else {
        Outcome::Done
    })
}

/// How long one waits for messages before other things are looked after, nanoseconds.
const LOOK_UP: u64 = 20_000_000;
/// The same while something waits for room.
const ROOM: u64 = 200_000;
