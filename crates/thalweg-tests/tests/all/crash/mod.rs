//! Nothing acknowledged is ever lost: the broker as a process that is killed, or whose disk fails, while clients hold it
//! to its word.
//!
//! A [`crowd::Crowd`] of clients publishes and subscribes; a [`supervisor::Supervisor`] kills the broker with `kill -9`
//! and restarts it on its data; a [`book::Book`] compares acknowledgements with deliveries. Start reading at [`run`].
//!
//! The short form is an ordinary test. `cargo xtask soak kills --minutes 3 --seed 1` is the long one; the broker's part can be
//! played by mosquitto (`THALWEG_TEST_BROKER=mosquitto`), which loses what it acknowledged: so the run can fail.
//!
//! The seed decides who does what and when; where exactly a kill meets the broker is the machine's choice.

use std::time::{Duration, Instant};

mod book;
mod cast;
mod client;
mod coap;
mod crowd;
mod disk;
mod faults;
mod gateway;
mod groups;
mod habit;
mod hand;
mod interop;
pub mod ledger;
pub mod luck;
mod power;
mod process;
pub mod queues;
mod stamped;
mod supervisor;
mod trail;
mod xmpp;
mod zeromq;

use book::{Book, Wrong};
use client::Client;
use crowd::Crowd;
use luck::Luck;
use process::Home;
use supervisor::{End, Supervisor, Way};
use trail::Trail;

use crate::broker::BrokerProgram;

/// Settings under which a broker acknowledges what the disk does not have, and no checkpoint brings it there by the way.
const UNSAFE: [&str; 3] = [
    "journal.fsync=never",
    "journal.checkpoint_interval=1h",
    "journal.checkpoint_bytes=1GiB",
];

/// Settings under which a small disk holds several segments.
const SMALL_SEGMENTS: [&str; 2] = [
    "journal.segment_bytes=1MiB",
    "journal.checkpoint_bytes=4MiB",
];

const SHORT_KILLS: u32 = 15;

#[test]
fn kill_9_loses_nothing_that_was_acknowledged() {
    if oracle() {
        return; // mosquitto loses a lot: `THALWEG_TEST_BROKER=mosquitto cargo xtask soak kills` shows it.
    }
    let verdict = run(
        Home::new("short"),
        1,
        Way::Kill,
        End::AfterKills(SHORT_KILLS),
    );
    println!("{}", verdict.text);
    assert!(verdict.book.counted().is_empty(), "see above");
}

#[test]
fn a_broker_that_forgets_is_found_out() {
    if oracle() {
        return;
    }
    let verdict = run(Home::new("forgetful"), 2, Way::Forget, End::AfterKills(4));
    let sessions = verdict.book.count(Wrong::SessionLost);
    let messages = verdict.book.count(Wrong::Lost) + verdict.book.count(Wrong::Retained);
    assert!(
        sessions > 0 && messages > 0,
        "{sessions} sessions, {messages} messages were missed:\n{}",
        verdict.text
    );
}

#[test]
fn a_broker_that_is_left_alone_is_found_to_be_right() {
    if oracle() {
        return;
    }
    let verdict = run(
        Home::new("spared"),
        3,
        Way::Spare,
        End::At(Instant::now() + Duration::from_secs(3)),
    );
    println!("{}", verdict.text);
    assert!(verdict.book.counted().is_empty(), "see above");
}

#[test]
#[ignore = "takes minutes: cargo xtask soak kills"]
fn for_minutes() {
    let (seconds, seed) = asked_for();
    let end = End::At(Instant::now() + Duration::from_secs(seconds));
    let verdict = run(Home::new("long"), seed, Way::Kill, end);
    println!("{}", verdict.text);
    assert!(
        verdict.book.counted().is_empty(),
        "the run with seed {seed} found the above"
    );
}

/// Duration and seed of a run.
fn asked_for() -> (u64, u64) {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect(name))
    };
    (
        number("THALWEG_CRASH_SECONDS", 180),
        number("THALWEG_CRASH_SEED", 1),
    )
}

/// Makes those who take part, and writes them into the book.
type Cast = fn(&mut Book, &Luck) -> Vec<Client>;

/// Results of a run.
struct Verdict {
    book: Book,
    text: String,
    /// Kept until the test has judged.
    _home: Home,
}

/// A whole run on a fresh folder.
fn run(home: Home, seed: u64, way: Way, end: End) -> Verdict {
    run_with(home, seed, way, end, cast::everything)
}

fn run_with(home: Home, seed: u64, way: Way, end: End, cast: Cast) -> Verdict {
    println!("THALWEG_CRASH_SEED={seed}");
    let begun = Instant::now();
    let luck = Luck::new(seed);
    let mut book = Book::new(begun, Trail::new(home.folder().join("trail")));
    book.promises = home.promises.clone();
    let clients = cast(&mut book, &luck);
    let mut crowd = Crowd::new(book, home.mqtt, clients);
    let supervisor = Supervisor::start(home.clone(), luck.of(0), way, end, begun);
    crowd.go_on(|| supervisor.is_done());
    let (mut toll, last, way) = supervisor.join();
    let mut last_ledger = serde_json::Value::Null;
    if last.is_some() {
        crowd.settle(|| {
            if home.kind != BrokerProgram::Thalweg {
                return true;
            }
            last_ledger = ledger::get(home.admin, "/v1/ledger").expect("a broker at rest answers");
            ledger::queued(&last_ledger) == Some(0)
        });
    }
    if let (Some(process), BrokerProgram::Thalweg) = (&last, home.kind) {
        let mut wrong = ledger::faults(&last_ledger);
        if crowd.book.counted().is_empty() && ledger::queued(&last_ledger) != Some(0) {
            wrong.push(format!("everybody has got everything, and yet the ledger has something queued: {last_ledger}"));
        }
        if process.log().contains("panicked") {
            wrong.push(process.log());
        }
        toll.wrong
            .extend(wrong.into_iter().map(|story| (Wrong::Ledger, story)));
        toll.ledger.add(&last_ledger);
    }
    let state = last.as_ref().map_or(String::new(), |process| {
        format!(
            "the last broker said:\n{}its threads at the end:\n{}",
            process.log(),
            process.threads()
        )
    });
    drop(last);
    drop(way);
    let mut book = crowd.book;
    for (wrong, story) in std::mem::take(&mut toll.wrong) {
        book.breach(wrong, story);
    }
    toll.ready_after.sort();
    let ready = |part: f64| {
        toll.ready_after
            .get(((toll.ready_after.len().max(1) - 1) as f64 * part) as usize)
    };
    let mut text = format!(
        "seed {seed}: {} rounds, {} kills ({} of them before ready) in {:.0} s; ready after {:.0?} (median), {:.0?} (longest)\n\
         acknowledged: {} at QoS 1, {} at QoS 2; sent again by publishers {}, received again at QoS 1 {}\n\
         retained messages read {} times, {} wills published, {} sessions ended on purpose\n",
        toll.rounds,
        toll.kills,
        toll.kills_at_start,
        begun.elapsed().as_secs_f64(),
        ready(0.5).copied().unwrap_or_default(),
        ready(1.0).copied().unwrap_or_default(),
        book.acknowledged(1),
        book.acknowledged(2),
        book.retransmitted,
        book.repeated,
        book.readings,
        book.wills_published(),
        book.sessions_ended,
    );
    text += &toll.ledger.table(&last_ledger);
    if book.counted().is_empty() {
        text += "no breach";
        book.trail.forget();
    } else {
        let kills: Vec<String> = toll
            .killed_at
            .iter()
            .map(|at| format!("{:.3}", at.as_secs_f64()))
            .collect();
        text += &format!(
            "BREACHES (kills at {}):\n{}",
            kills.join(" "),
            book.stories()
        );
        text += &state;
        text += &format!(
            "every packet is in {}, the data in {}\n",
            book.trail.path().display(),
            home.data.display()
        );
    }
    Verdict {
        book,
        text,
        _home: home,
    }
}

fn oracle() -> bool {
    std::env::var_os("THALWEG_TEST_BROKER").is_some_and(|broker| broker != "thalweg")
}
