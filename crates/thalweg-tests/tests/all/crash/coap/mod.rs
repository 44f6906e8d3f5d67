//! CoAP under `kill -9`: an answered confirmable PUT reaches a durable subscriber and is the result of GET, an answered
//! POST into a queue reaches a consumer, and topics have the configuration that was acknowledged.
//!
//! As with queues (`crash::queues`), each client has a thread and a supervisor kills the broker. Start reading at [`run`].

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

mod book;
mod clients;
mod topics;

use book::{Book, Way as Path, Wrong};

use super::book::Wrong as TollWrong;
use super::disk::Disk;
use super::ledger;
use super::luck::Luck;
use super::process::Home;
use super::supervisor::{End, Supervisor, Way};
use super::{UNSAFE, asked_for, oracle};
use crate::broker::free_port;

const SHORT_KILLS: u32 = 15;
const SHORT_CUTS: u32 = 3;

/// After the last publish: if no message comes for so long, none will.
const SILENCE: Duration = Duration::from_secs(8);
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn kill_9_loses_nothing_that_coap_acknowledged() {
    if oracle() {
        return;
    }
    let verdict = run(
        Home::new("coap"),
        1,
        Way::Kill,
        End::AfterKills(SHORT_KILLS),
    );
    println!("{}", verdict.text);
    assert!(verdict.book.counted().is_empty(), "see above");
}

#[test]
fn a_broker_that_forgets_what_coap_told_it_is_found_out() {
    if oracle() {
        return;
    }
    let verdict = run(
        Home::new("coap-forgotten"),
        2,
        Way::Forget,
        End::AfterKills(4),
    );
    let kinds = [Wrong::Lost, Wrong::Value, Wrong::Topic, Wrong::Session];
    let missed = kinds.map(|wrong| (wrong, verdict.book.count(wrong)));
    assert!(
        missed.iter().all(|(_, count)| *count > 0),
        "{missed:?}:\n{}",
        verdict.text
    );
}

#[test]
fn a_power_cut_loses_nothing_that_coap_acknowledged() {
    let Some(verdict) = cuts("coap-power", 3, End::AfterKills(SHORT_CUTS), &[]) else {
        return;
    };
    println!("{}", verdict.text);
    assert!(verdict.book.counted().is_empty(), "see above");
}

#[test]
fn a_power_cut_loses_what_coap_acknowledged_without_fsync() {
    let Some(verdict) = cuts("coap-no-fsync", 4, End::AfterKills(4), &UNSAFE) else {
        return;
    };
    assert!(
        verdict.book.count(Wrong::Lost) > 0,
        "nothing was lost, so this would not have seen it:\n{}",
        verdict.text
    );
}

#[test]
#[ignore = "takes minutes: cargo xtask soak kills"]
fn for_minutes() {
    if oracle() {
        return; // It does not speak CoAP.
    }
    let (seconds, seed) = asked_for();
    let end = End::At(Instant::now() + Duration::from_secs(seconds));
    let verdict = run(Home::new("coap-long"), seed, Way::Kill, end);
    println!("{}", verdict.text);
    assert!(
        verdict.book.counted().is_empty(),
        "the run with seed {seed} found the above"
    );
}

#[test]
#[ignore = "takes minutes: cargo xtask soak power-cuts"]
fn power_cuts_for_minutes() {
    let (seconds, seed) = asked_for();
    let end = End::At(Instant::now() + Duration::from_secs(seconds));
    let verdict = cuts("coap-power-long", seed, end, &[]).expect("this machine can mount an image");
    println!("{}", verdict.text);
    assert!(
        verdict.book.counted().is_empty(),
        "the run with seed {seed} found the above"
    );
}

fn cuts(name: &str, seed: u64, end: End, sets: &[&str]) -> Option<Verdict> {
    if oracle() {
        return None;
    }
    let home = Home::new(name);
    let disk = match Disk::image(&home, 512) {
        Ok(disk) => disk,
        Err(why) => {
            println!("SKIPPED {name}: no image can be mounted here: {why}");
            return None;
        }
    };
    let home = home.on(disk.path().join("data"));
    let home = sets.iter().fold(home, |home, set| home.set(set));
    Some(run(home, seed, Way::Cut(Box::new(disk)), end))
}

/// Results of a run.
struct Verdict {
    book: Book,
    text: String,
    /// Kept until the test has judged.
    _home: Home,
}

/// State shared by all clients.
struct World {
    coap: std::net::SocketAddr,
    mqtt: std::net::SocketAddr,
    /// Number of starts of the broker; it rises only while none runs.
    lives: Arc<AtomicU32>,
    book: Mutex<Book>,
    opened: AtomicBool,
    at_rest: AtomicBool,
    over: AtomicBool,
}

impl World {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no holder panics")
    }

    fn life(&self) -> u32 {
        self.lives.load(Ordering::Acquire)
    }

    /// Waits for the subscriber; true while there is something to publish.
    fn goes_on(&self) -> bool {
        while !self.opened.load(Ordering::Acquire) && !self.is_at_rest() {
            std::thread::sleep(Duration::from_millis(5));
        }
        !self.is_at_rest()
    }

    fn is_at_rest(&self) -> bool {
        self.at_rest.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// A whole run on a fresh folder.
fn run(home: Home, seed: u64, way: Way, end: End) -> Verdict {
    println!("THALWEG_CRASH_SEED={seed}");
    let begun = Instant::now();
    let luck = Luck::new(seed);
    let mut book = Book::default();
    let publishers = ["p0", "p1", "p2", "p3"]
        .map(|who| [0, 1].map(|at| book.stream(&format!("c/{who}/{at}"), Path::Kept)));
    let loose = book.stream("c/loose/0", Path::Loose);
    let putters = ["q0", "q1"].map(|who| book.stream(who, Path::Queue));
    let takers = ["t0", "t1"].map(|who| book.stream(who, Path::Queue));
    book.promises = home.promises.clone();
    let coap = free_port();
    let home = home
        .set(&format!("listeners.coap.bind={coap}"))
        .set("coap.auto_declare_queues=true");
    let supervisor = Supervisor::start(home.clone(), luck.of(0), way, end, begun);
    let world = World {
        coap,
        mqtt: home.mqtt,
        lives: supervisor.lives(),
        book: Mutex::new(book),
        opened: AtomicBool::new(false),
        at_rest: AtomicBool::new(false),
        over: AtomicBool::new(false),
    };
    let (mut toll, last, way) = std::thread::scope(|scope| {
        let world = &world;
        let mut number = 0;
        let mut own_luck = || {
            number += 1;
            luck.of(number)
        };
        let mut stopping = Vec::new();
        for streams in publishers {
            let luck = own_luck();
            stopping.push(scope.spawn(move || clients::publish(world, &streams, luck)));
        }
        let luck = own_luck();
        stopping.push(scope.spawn(move || clients::publish(world, &[loose], luck)));
        for stream in putters {
            let luck = own_luck();
            stopping.push(scope.spawn(move || clients::publish(world, &[stream], luck)));
        }
        let luck = own_luck();
        stopping.push(scope.spawn(move || topics::keep(world, luck)));
        for own in takers {
            let luck = own_luck();
            scope.spawn(move || clients::take(world, own, luck));
        }
        let luck = own_luck();
        scope.spawn(move || clients::read(world, luck));
        scope.spawn(move || clients::subscribe(world));
        let outcome = supervisor.join();
        world.at_rest.store(true, Ordering::Release);
        if outcome.1.is_some() {
            stopping
                .into_iter()
                .for_each(|client| client.join().expect("clients do not fail"));
            settle(world, home.admin);
        }
        world.over.store(true, Ordering::Release);
        outcome
    });
    let mut book = world.book.into_inner().expect("no holder panics");
    if let Some(process) = &last {
        let last_ledger = ledger::get(home.admin, "/v1/ledger").expect("a broker at rest answers");
        let mut wrong = ledger::faults(&last_ledger);
        if book.counted().is_empty()
            && book.missing().is_empty()
            && ledger::queued(&last_ledger) != Some(0)
        {
            let queues = ledger::get(home.admin, "/v1/queues").map(|queues| queues.to_string());
            wrong.push(format!("everybody has got everything, and yet something is queued: {last_ledger} {queues:?}"));
        }
        toll.wrong
            .extend(wrong.into_iter().map(|story| (TollWrong::Ledger, story)));
        if process.log().contains("panicked") {
            toll.wrong.push((TollWrong::Broker, process.log()));
        }
    }
    let state = last.as_ref().map_or(String::new(), |process| {
        format!("the last broker said:\n{}", process.log())
    });
    drop(last);
    drop(way);
    book.close();
    for (wrong, story) in std::mem::take(&mut toll.wrong) {
        book.breach(
            if wrong == TollWrong::Ledger {
                Wrong::Ledger
            } else {
                Wrong::Broker
            },
            story,
        );
    }
    let [kept, loose, queued] =
        [Path::Kept, Path::Loose, Path::Queue].map(|way| book.acknowledged(way));
    let mut text = format!(
        "seed {seed}: {} kills ({} before ready) in {:.1} s; PUT: {} acknowledged, {} came; not confirmable: {} answered, {} \
         came; queue: {} acknowledged, {} taken, {} of them again after a kill\n\
         {} requests given up, {} deliveries with DUP, {} values read, {} answers about topics\n",
        toll.kills,
        toll.kills_at_start,
        begun.elapsed().as_secs_f64(),
        kept.0,
        kept.1,
        loose.0,
        loose.1,
        queued.0,
        queued.1,
        book.came_back,
        book.given_up,
        book.repeated,
        book.readings,
        book.topics,
    );
    if book.counted().is_empty() {
        text += "no breach";
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
        text += &format!("the data is in {}\n", home.data.display());
    }
    Verdict {
        book,
        text,
        _home: home,
    }
}

/// Publishers have stopped, all clients stay, and outstanding messages arrive.
fn settle(world: &World, admin: std::net::SocketAddr) {
    let begun = Instant::now();
    while begun.elapsed() < SETTLED_WITHIN {
        std::thread::sleep(Duration::from_millis(50));
        let (is_complete, heard) = {
            let book = world.book();
            // After a breach there is no point in waiting longer.
            let silence = if book.counted().is_empty() {
                SILENCE
            } else {
                SILENCE / 4
            };
            let last = book.last_heard.unwrap_or(begun).max(begun);
            (book.missing().is_empty(), last.elapsed() < silence)
        };
        // A request that was given up may have been executed, and its message waits in the queue.
        let is_empty = || {
            ledger::get(admin, "/v1/ledger")
                .as_ref()
                .and_then(ledger::queued)
                == Some(0)
        };
        if !heard || is_complete && is_empty() {
            break;
        }
    }
}
