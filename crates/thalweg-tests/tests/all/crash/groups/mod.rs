//! Groups under `kill -9`: every acknowledged message reaches a member, QoS 2 never reaches a second one, and a group that
//! promises order keeps it, while members freeze, are evicted, and have their connections reset.
//!
//! As elsewhere in these tests a supervisor kills the broker at moments drawn by lot; members and publishers have threads.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

mod book;
mod members;
mod publishers;

use book::Book;
use members::{Habit, member};
use publishers::{publisher, wait_for_quiet};

use super::luck::Luck;
use super::process::Home;
use super::supervisor::{End, Supervisor, Way};
use super::{asked_for, ledger, oracle};

/// From `ready` to the kill, in seconds: long enough for a silent member to be evicted, at times.
const LIFE: (f64, f64) = (0.05, 5.0);
const SHORT_KILLS: u32 = 8;
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn kill_9_loses_nothing_that_groups_hold() {
    short("groups", 11, "1", Way::Kill);
}

#[test]
fn kill_9_loses_nothing_that_groups_hold_on_several_shards() {
    short("groups-shards", 12, "3", Way::Kill);
}

fn short(name: &str, seed: u64, shards: &str, way: Way) {
    if oracle() {
        return;
    }
    let home = Home::new(name).set(&format!("shards={shards}"));
    let verdict = run(home, seed, way, End::AfterKills(SHORT_KILLS));
    println!("{}", verdict.text);
    assert!(verdict.is_clean, "see above");
}

#[test]
fn a_broker_that_forgets_its_groups_is_found_out() {
    if oracle() {
        return;
    }
    let verdict = run(
        Home::new("groups-forgotten").set("shards=1"),
        13,
        Way::Forget,
        End::AfterKills(2),
    );
    assert!(
        verdict.text.contains("lost"),
        "nothing was missed:\n{}",
        verdict.text
    );
}

#[test]
#[ignore = "takes minutes: cargo xtask soak kills"]
fn for_minutes() {
    if oracle() {
        return;
    }
    let (seconds, seed) = asked_for();
    let end = End::At(Instant::now() + Duration::from_secs(seconds));
    let verdict = run(Home::new("groups-long"), seed, Way::Kill, end);
    println!("{}", verdict.text);
    assert!(verdict.is_clean, "the run with seed {seed} found the above");
}

/// State shared by all clients.
struct World {
    mqtt: SocketAddr,
    lives: Arc<AtomicU32>,
    book: Mutex<Book>,
    joined: AtomicU32,
    at_rest: AtomicBool,
    over: AtomicBool,
}

impl World {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no holder panics")
    }

    /// Number of starts of the broker; it rises only while none runs.
    fn life(&self) -> u32 {
        self.lives.load(Ordering::Acquire)
    }

    fn joined(&self) {
        self.joined.fetch_add(1, Ordering::AcqRel);
    }

    fn is_at_rest(&self) -> bool {
        self.at_rest.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

struct Verdict {
    is_clean: bool,
    text: String,
    /// Kept until the test has judged.
    _home: Home,
}

const FREE: &str = "$share/free/f/#";
const ORDERED: &str = "$share/ordered/o/#";
/// Most messages here go to a member whose session ends with its connection.
const PASSING: &str = "$share/passing/p/#";

const MEMBERS: [(&str, &str, Habit); 11] = [
    ("stays", PASSING, Habit::Works),
    (book::PASSES, PASSING, Habit::Passes),
    ("free-1", FREE, Habit::Works),
    ("free-2", FREE, Habit::Works),
    ("free-frozen", FREE, Habit::Freezes),
    ("free-reset", FREE, Habit::Resets),
    ("ordered-1", ORDERED, Habit::Works),
    ("ordered-2", ORDERED, Habit::Works),
    ("ordered-3", ORDERED, Habit::Works),
    ("ordered-frozen", ORDERED, Habit::Freezes),
    ("ordered-reset", ORDERED, Habit::Resets),
];

fn run(home: Home, seed: u64, way: Way, end: End) -> Verdict {
    println!("THALWEG_CRASH_SEED={seed}");
    let begun = Instant::now();
    let luck = Luck::new(seed);
    let forgets = matches!(way, Way::Forget);
    let home = home.set(r#"groups.policies=[{ filter = "o/#", order = "publisher" }]"#);
    // Members freeze, and a run is short.
    let home = home.set("groups.adaptive_eviction=true");
    let mut book = Book::new(begun, home.folder().join("trail"));
    book.promises = home.promises.clone();
    let publishers = [
        (
            "p-free-1",
            vec![book.stream("f/a", 1, false), book.stream("f/b", 2, false)],
        ),
        (
            "p-free-2",
            vec![book.stream("f/c", 1, false), book.stream("f/d", 2, false)],
        ),
        ("p-ordered-1", vec![book.stream("o/a", 1, true)]),
        ("p-ordered-2", vec![book.stream("o/b", 1, true)]),
        ("p-ordered-3", vec![book.stream("o/c", 1, true)]),
        ("p-passing", vec![book.stream("p/a", 1, false)]),
    ];
    // Deliveries to members of other shards are not recorded as delivered.
    book.knows_who_passes = home.has("shards=1");
    let supervisor = Supervisor::with_lives(home.clone(), luck.of(0), way, end, begun, LIFE);
    let world = World {
        mqtt: home.mqtt,
        lives: supervisor.lives(),
        book: Mutex::new(book),
        joined: AtomicU32::new(0),
        at_rest: AtomicBool::new(false),
        over: AtomicBool::new(false),
    };
    let (mut toll, last, _) = std::thread::scope(|scope| {
        let world = &world;
        for (at, (who, filter, habit)) in MEMBERS.into_iter().enumerate() {
            let luck = luck.of(1 + at as u64);
            scope.spawn(move || member(world, who, filter, habit, luck));
        }
        // Without a member there is no group.
        wait_for_quiet(SETTLED_WITHIN, || {
            world.joined.load(Ordering::Acquire) >= MEMBERS.len() as u32 - 1
        });
        let threads: Vec<_> = publishers
            .iter()
            .enumerate()
            .map(|(at, (who, streams))| {
                let luck = luck.of(100 + at as u64);
                scope.spawn(move || publisher(world, who, streams, luck))
            })
            .collect();
        let outcome = supervisor.join();
        world.at_rest.store(true, Ordering::Release);
        // Where the way is to forget, nothing more comes.
        if outcome.1.is_some() && !forgets {
            wait_for_quiet(SETTLED_WITHIN, || {
                threads
                    .iter()
                    .all(std::thread::ScopedJoinHandle::is_finished)
                    && world.book().missing().is_empty()
                    && ledger::get(home.admin, "/v1/ledger")
                        .is_some_and(|books| ledger::queued(&books) == Some(0))
            });
        }
        world.over.store(true, Ordering::Release);
        outcome
    });
    let mut book = world.book.into_inner().expect("no holder panics");
    book.close();
    let state = last.as_ref().map_or(String::new(), |process| {
        let groups = ledger::get(home.admin, "/v1/groups").unwrap_or_default();
        format!(
            "the last broker said:\n{}its groups: {groups:#}\n",
            process.log()
        )
    });
    if let Some(process) = &last {
        let books = ledger::get(home.admin, "/v1/ledger").expect("a broker at rest answers");
        let groups = ledger::get(home.admin, "/v1/groups").expect("a broker at rest answers");
        for fault in ledger::faults(&books) {
            book.breach("ledger", fault);
        }
        if book.is_clean() && ledger::queued(&books) != Some(0) {
            book.breach(
                "ledger",
                format!(
                    "everybody has got everything, and yet something is queued: {books} {groups}"
                ),
            );
        }
        if process.log().contains("panicked") {
            book.breach("broker", process.log());
        }
    }
    drop(last);
    for (wrong, story) in std::mem::take(&mut toll.wrong) {
        book.breach("broker", format!("{wrong:?}: {story}"));
    }
    let mut text = format!(
        "seed {seed}: {} kills ({} before ready) in {:.1} s; acknowledged {} at QoS 1, {} at QoS 2; {} deliveries, {} \
         repeats, {} of them not marked; {} resets, {} evictions seen\n",
        toll.kills,
        toll.kills_at_start,
        begun.elapsed().as_secs_f64(),
        book.acknowledged_count(1),
        book.acknowledged_count(2),
        book.deliveries,
        book.repeats,
        book.unflagged,
        book.resets,
        book.evictions,
    );
    if book.is_clean() {
        text += "no breach";
        book.trail.forget();
    } else {
        let kills: Vec<String> = toll
            .killed_at
            .iter()
            .map(|at| format!("{:.3}", at.as_secs_f64()))
            .collect();
        text += &format!(
            "BREACHES (kills at {}):\n{}{state}",
            kills.join(" "),
            book.stories()
        );
        text += &format!(
            "all is in {}, the data in {}\n",
            book.trail.path().display(),
            home.data.display()
        );
    }
    Verdict {
        is_clean: book.is_clean(),
        text,
        _home: home,
    }
}
