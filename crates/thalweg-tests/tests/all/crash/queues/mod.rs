//! Queues of AMQP and STOMP under `kill -9`: what was confirmed is consumed, what was settled does not come again, and
//! queues, exchanges and bindings are there after each start.
//!
//! As with MQTT (`crash::run`), clients of all kinds hold a broker to its word while a supervisor kills it; here each has a
//! thread, because their protocols are conversations. Start reading at [`run`].

use std::time::{Duration, Instant};

pub mod amqp;
mod book;
mod changes;
mod coap;
mod content;
mod publishers;
pub mod stomp;
mod survey;
mod takers;
mod unsettled;
mod ways;
mod world;

use book::{Book, Wrong};
use publishers::Way as Route;
use survey::Topology;
use takers::Manner;
use world::World;

use super::book::Wrong as TollWrong;
use super::disk::Disk;
use super::ledger;
use super::luck::Luck;
use super::process::Home;
use super::supervisor::{End, Supervisor, Way};
use super::trail::Trail;
use super::{asked_for, oracle};
use crate::broker::free_port;

const SHORT_KILLS: u32 = 15;

/// After the last publish: if no message comes for so long, none will.
const SILENCE: Duration = Duration::from_secs(8);
const SETTLED_WITHIN: Duration = Duration::from_secs(90);

/// How long to wait for messages that should not come.
const LISTENING: Duration = Duration::from_millis(300);

#[test]
fn kill_9_loses_no_confirmed_message() {
    if oracle() {
        return;
    }
    let verdict = run(
        Home::new("queues"),
        1,
        Way::Kill,
        End::AfterKills(SHORT_KILLS),
        everything,
    );
    println!("{}", verdict.text);
    assert!(verdict.book.counted().is_empty(), "see above");
}

#[test]
fn a_broker_that_forgets_its_queues_is_found_out() {
    if oracle() {
        return;
    }
    let verdict = run(
        Home::new("queues-forgotten"),
        2,
        Way::Forget,
        End::AfterKills(4),
        something_waits,
    );
    let (topology, lost) = (
        verdict.book.count(Wrong::Topology),
        verdict.book.count(Wrong::Lost),
    );
    assert!(
        topology > 0 && lost > 0,
        "{topology} parts, {lost} messages were missed:\n{}",
        verdict.text
    );
}

#[test]
fn what_mqtt_publishes_into_queues_survives_with_one_shard() {
    mixed(1, 3);
}

#[test]
fn what_mqtt_publishes_into_queues_survives_with_three_shards() {
    mixed(3, 4);
}

fn mixed(shards: u32, seed: u64) {
    if oracle() {
        return;
    }
    let home = Home::new(&format!("queues-mixed-{shards}")).set(&format!("shards={shards}"));
    let verdict = run(home, seed, Way::Kill, End::AfterKills(4), mqtt_and_queues);
    println!("{}", verdict.text);
    assert!(verdict.book.counted().is_empty(), "see above");
}

#[test]
fn what_groups_of_mqtt_take_from_a_queue_is_not_lost() {
    if oracle() {
        return;
    }
    let verdict = run(
        Home::new("queues-groups"),
        7,
        Way::Kill,
        End::AfterKills(6),
        groups,
    );
    println!("{}", verdict.text);
    assert!(verdict.book.counted().is_empty(), "see above");
}

#[test]
fn a_power_cut_loses_no_confirmed_message() {
    let Some(verdict) = cuts("queues-power", 5, End::AfterKills(3), &[], everything) else {
        return;
    };
    println!("{}", verdict.text);
    assert!(verdict.book.counted().is_empty(), "see above");
}

#[test]
fn a_power_cut_loses_confirmed_messages_without_fsync() {
    let end = End::AfterKills(4);
    let unsafe_sets = &super::UNSAFE;
    let Some(verdict) = cuts("queues-no-fsync", 6, end, unsafe_sets, something_waits) else {
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
        return; // It speaks neither.
    }
    let (seconds, seed) = asked_for();
    let end = End::At(Instant::now() + Duration::from_secs(seconds));
    let verdict = run(Home::new("queues-long"), seed, Way::Kill, end, everything);
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
    let verdict = cuts("queues-power-long", seed, end, &[], everything)
        .expect("this machine can mount an image");
    println!("{}", verdict.text);
    assert!(
        verdict.book.counted().is_empty(),
        "the run with seed {seed} found the above"
    );
}

fn cuts(
    name: &str,
    seed: u64,
    end: End,
    sets: &[&str],
    cast: fn(&mut Book) -> Cast,
) -> Option<Verdict> {
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
    Some(run(home, seed, Way::Cut(Box::new(disk)), end, cast))
}

/// Results of a run.
struct Verdict {
    book: Book,
    text: String,
    /// Kept until the test has judged.
    _home: Home,
}

/// Everybody who takes part.
#[derive(Default)]
struct Cast {
    topology: Topology,
    publishers: Vec<(&'static str, Publisher, Vec<Route>)>,
    takers: Vec<(Consumer, Manner)>,
}

type Publisher = fn(&World, &str, &[Route], Luck);
type Consumer = fn(&World, &Manner, Luck);

/// A whole run on a fresh folder.
fn run(home: Home, seed: u64, way: Way, end: End, cast: fn(&mut Book) -> Cast) -> Verdict {
    println!("THALWEG_CRASH_SEED={seed}");
    let begun = Instant::now();
    let luck = Luck::new(seed);
    let mut book = Book::new(begun, Trail::new(home.folder().join("trail")));
    book.promises = home.promises.clone();
    let Cast {
        topology,
        publishers,
        takers,
    } = cast(&mut book);
    let (amqp, stomp, coap) = (free_port(), free_port(), free_port());
    let home = home
        .set(&format!("listeners.amqp.bind={amqp}"))
        .set(&format!("listeners.stomp.bind={stomp}"));
    let home = home.set(&format!("listeners.coap.bind={coap}"));
    let mut world = World::new([amqp, stomp, home.mqtt, coap, home.admin], book);
    let supervisor = Supervisor::start(home.clone(), luck.of(0), way, end, begun);
    world.lives = supervisor.lives();
    let (mut toll, last, way) = std::thread::scope(|scope| {
        let world = &world;
        let topology = &topology;
        scope.spawn(move || survey::survey(world, topology));
        let mut number = 0;
        let mut own_luck = || {
            number += 1;
            luck.of(number)
        };
        let publishers: Vec<_> = publishers
            .into_iter()
            .map(|(who, publisher, routes)| {
                let luck = own_luck();
                scope.spawn(move || publisher(world, who, &routes, luck))
            })
            .collect();
        for (taker, manner) in takers {
            let luck = own_luck();
            scope.spawn(move || taker(world, &manner, luck));
        }
        let outcome = supervisor.join();
        world.rest();
        if outcome.1.is_some() {
            publishers
                .into_iter()
                .for_each(|publisher| publisher.join().expect("publishers do not fail"));
            settle(world);
        }
        world.end();
        outcome
    });
    if let Some(process) = &last {
        let last_ledger = ledger::get(home.admin, "/v1/ledger").expect("a broker at rest answers");
        let mut wrong = ledger::faults(&last_ledger);
        if world.book().counted().is_empty() && ledger::queued(&last_ledger) != Some(0) {
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
        format!(
            "the last broker said:\n{}its threads at the end:\n{}",
            process.log(),
            process.threads()
        )
    });
    drop(last);
    drop(way);
    let mut book = world.into_book();
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
    let mut text = format!(
        "seed {seed}: {} kills ({} before ready) in {:.1} s; {} messages confirmed, {} transactions committed; \
         {} deliveries, {} of them again, {} of what had been settled\n",
        toll.kills,
        toll.kills_at_start,
        begun.elapsed().as_secs_f64(),
        book.confirmed_count(),
        book.committed_count(),
        book.heard,
        book.redelivered,
        book.forgotten,
    );
    if book.counted().is_empty() {
        text += "no breach";
        book.trail().forget();
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
            book.trail().path().display(),
            home.data.display()
        );
    }
    Verdict {
        book,
        text,
        _home: home,
    }
}

/// Publishers have stopped, all clients stay, and outstanding messages arrive.
fn settle(world: &World) {
    let begun = Instant::now();
    let mut looked = Instant::now();
    while begun.elapsed() < SETTLED_WITHIN {
        std::thread::sleep(Duration::from_millis(20));
        let book = world.book();
        // After a breach there is no point in waiting longer.
        let silence = if book.counted().is_empty() {
            SILENCE
        } else {
            SILENCE / 4
        };
        if book.last_heard.max(looked).elapsed() > silence {
            break;
        }
        let is_quiet = book.last_heard.elapsed() > LISTENING;
        if is_quiet && book.missing().is_empty() {
            break;
        }
        if !is_quiet {
            looked = Instant::now();
        }
    }
}

/// A cast under construction.
struct Casting<'a> {
    book: &'a mut Book,
    cast: Cast,
}

impl Casting<'_> {
    fn queue(&mut self, name: &'static str, dead: Option<&'static str>) -> usize {
        self.cast.topology.queues.push((name, dead));
        self.book.queue(name)
    }

    fn route(
        &mut self,
        who: &str,
        exchange: &'static str,
        key: &'static str,
        queues: &[usize],
    ) -> Route {
        Route {
            stream: self.book.stream(who, queues),
            exchange,
            key,
        }
    }

    fn publisher(&mut self, who: &'static str, publisher: Publisher, routes: Vec<Route>) {
        self.cast.publishers.push((who, publisher, routes));
    }

    fn taker(&mut self, taker: Consumer, manner: Manner) {
        self.cast.takers.push((taker, manner));
    }
}

/// Headers of a durable subscription of STOMP.
const WATCHED: &str = "/topic/m.#";

const RESTLESS: ((f64, f64), (f64, f64)) = ((0.1, 1.0), (0.0, 0.3));
const STEADY: ((f64, f64), (f64, f64)) = ((2.0, 20.0), (0.0, 0.1));

fn manner(
    who: &'static str,
    (queue, name): (usize, &'static str),
    prefetch: u16,
    (stays, away): ((f64, f64), (f64, f64)),
) -> Manner {
    Manner {
        who,
        queue,
        name,
        prefetch,
        alone: false,
        rejects: false,
        requeues: 0.0,
        stays,
        away,
    }
}

/// All ways into queues and out of them, at once.
fn everything(book: &mut Book) -> Cast {
    let mut casting = Casting {
        book,
        cast: Cast::default(),
    };
    let orders = casting.queue("orders", None);
    let left = casting.queue("left", None);
    let right = casting.queue("right", None);
    let dead = casting.queue("dead", None);
    let rough = casting.queue("rough", Some("dead"));
    let bank = casting.queue("bank", None);
    let till = casting.queue("till", None);
    let vault = casting.queue("vault", None);
    let mixed = casting.queue("mixed", None);
    let deep = casting.queue("deep", None);
    let shared = casting.queue("shared", None);
    casting.book.dead_letters(rough, dead);
    casting.book.moves(till, vault);
    let topology = &mut casting.cast.topology;
    topology.exchanges = vec![("events", "topic"), ("pairs", "direct")];
    topology.bindings = vec![
        ("events", "left", "e.#"),
        ("events", "right", "e.both.*"),
        ("pairs", "bank", "b"),
        ("pairs", "till", "b"),
        ("amq.topic", "mixed", "m.#"),
    ];

    for who in ["default-1", "default-2"] {
        let routes = vec![
            casting.route(who, "", "orders", &[orders]),
            casting.route(who, "", "rough", &[rough]),
        ];
        casting.publisher(who, publishers::confirmed, routes);
    }
    let routes = vec![
        casting.route("topic", "events", "e.both.x", &[left, right]),
        casting.route("topic", "events", "e.left.x", &[left]),
    ];
    casting.publisher("topic", publishers::confirmed, routes);
    for who in ["tx-1", "tx-2"] {
        let routes = vec![
            casting.route(who, "pairs", "b", &[bank, till]),
            casting.route(who, "", "bank", &[bank]),
            casting.route(who, "", "till", &[till]),
        ];
        casting.publisher(who, publishers::transactions, routes);
    }
    let routes = vec![
        casting.route("long", "", "deep", &[deep]),
        casting.route("long", "", "shared", &[shared]),
    ];
    casting.publisher("long", publishers::confirmed, routes);
    casting.publisher("changer", changes::changer, Vec::new());
    let routes = vec![
        casting.route("stomp", "", "/queue/orders", &[orders]),
        casting.route("stomp", "", "/amq/queue/rough", &[rough]),
        casting.route("stomp", "", "/exchange/pairs/b", &[bank, till]),
        casting.route("stomp", "", "/exchange/events/e.both.y", &[left, right]),
    ];
    casting.publisher("stomp", publishers::receipts, routes);
    let routes = vec![
        casting.route("mqtt", "", "m/one", &[mixed]),
        casting.route("mqtt", "", "m/two", &[mixed]),
        casting.route("mqtt", "", "$q/orders", &[orders]),
        casting.route("mqtt", "", "$q/shared", &[shared]),
    ];
    casting.publisher("mqtt", publishers::quality_1, routes);

    let rejecting = |manner: Manner| Manner {
        rejects: true,
        requeues: 0.04,
        ..manner
    };
    let alone = |manner: Manner| Manner {
        alone: true,
        ..manner
    };
    casting.taker(
        takers::pushed,
        alone(manner("clerk", (orders, "orders"), 30, RESTLESS)),
    );
    casting.taker(
        takers::pushed,
        manner("left-amqp", (left, "left"), 20, RESTLESS),
    );
    casting.taker(
        takers::by_stomp,
        manner("left-stomp", (left, "left"), 20, RESTLESS),
    );
    casting.taker(
        takers::asked_for,
        manner("right-get", (right, "right"), 0, STEADY),
    );
    casting.taker(
        takers::pushed,
        manner("right-amqp", (right, "right"), 5, RESTLESS),
    );
    casting.taker(
        takers::pushed,
        rejecting(manner("rough-amqp", (rough, "rough"), 10, RESTLESS)),
    );
    casting.taker(
        takers::by_stomp,
        rejecting(manner("rough-stomp", (rough, "rough"), 10, RESTLESS)),
    );
    casting.taker(
        takers::by_stomp,
        manner("undertaker", (dead, "dead"), 0, RESTLESS),
    );
    casting.taker(
        takers::pushed,
        alone(manner("bank-alone", (bank, "bank"), 100, STEADY)),
    );
    casting.taker(
        |world, manner, luck| takers::mover(world, manner, Some("vault"), luck),
        manner("mover-1", (till, "till"), 10, RESTLESS),
    );
    casting.taker(
        |world, manner, luck| takers::mover(world, manner, Some("vault"), luck),
        manner("mover-2", (till, "till"), 10, RESTLESS),
    );
    casting.taker(
        takers::pushed,
        manner("vault-amqp", (vault, "vault"), 50, RESTLESS),
    );
    casting.taker(
        |world, manner, luck| takers::mover(world, manner, None, luck),
        manner("vault-tx", (vault, "vault"), 20, RESTLESS),
    );
    casting.taker(
        takers::by_stomp,
        manner("mixed-stomp", (mixed, "mixed"), 20, RESTLESS),
    );
    casting.taker(
        takers::pushed,
        manner("mixed-amqp", (mixed, "mixed"), 20, RESTLESS),
    );
    // Away most of the time, so that much waits; without a limit, so that much is unsettled.
    casting.taker(
        takers::pushed,
        alone(manner(
            "deep-alone",
            (deep, "deep"),
            0,
            ((0.2, 0.4), (0.5, 2.5)),
        )),
    );
    casting.taker(
        takers::by_mqtt,
        manner("shared-mqtt-1", (shared, "shared"), 0, RESTLESS),
    );
    casting.taker(
        takers::by_mqtt,
        manner("shared-mqtt-2", (shared, "shared"), 0, STEADY),
    );
    casting.taker(
        takers::pushed,
        manner("shared-amqp", (shared, "shared"), 10, RESTLESS),
    );
    casting.cast
}

/// The same with a queue from which nothing is consumed before publishing has ended, so that at each kill something waits,
/// however fast other consumers are.
fn something_waits(book: &mut Book) -> Cast {
    let cast = everything(book);
    let mut casting = Casting { book, cast };
    let later = casting.queue("later", None);
    let routes = vec![casting.route("for-later", "", "later", &[later])];
    casting.publisher("for-later", publishers::confirmed, routes);
    casting.taker(
        |world, manner, luck| {
            while !world.is_at_rest() {
                std::thread::sleep(LISTENING);
            }
            takers::pushed(world, manner, luck);
        },
        manner("later", (later, "later"), 50, STEADY),
    );
    casting.cast
}

/// MQTT publishers, and consumers of AMQP and STOMP.
fn mqtt_and_queues(book: &mut Book) -> Cast {
    let mut casting = Casting {
        book,
        cast: Cast::default(),
    };
    let mixed = casting.queue("mixed", None);
    let all = casting.queue("all", None);
    // The queue of a durable subscription, whose name clients need not know.
    let watch = casting.book.queue("watch");
    casting.cast.topology.subscriptions = vec![WATCHED];
    casting.cast.topology.bindings =
        vec![("amq.topic", "mixed", "m.*.#"), ("amq.topic", "all", "m.#")];
    casting.cast.topology.exchanges = vec![("amq.topic", "topic")];
    for who in ["mqtt-1", "mqtt-2", "mqtt-3", "mqtt-4"] {
        let topics = match who {
            "mqtt-1" => ["m/a/b", "m/a"],
            "mqtt-2" => ["m/b/b", "m/b"],
            "mqtt-3" => ["m/c/b", "m/c"],
            _ => ["m/d/b", "m/d"],
        };
        let routes = topics
            .iter()
            .map(|topic| casting.route(who, "", topic, &[mixed, all, watch]))
            .collect();
        casting.publisher(who, publishers::quality_1, routes);
    }
    casting.taker(
        takers::pushed,
        Manner {
            alone: true,
            ..manner("all", (all, "all"), 50, RESTLESS)
        },
    );
    casting.taker(
        takers::by_stomp,
        manner("watch", (watch, WATCHED), 50, RESTLESS),
    );
    casting.taker(
        takers::pushed,
        manner("mixed-amqp", (mixed, "mixed"), 20, RESTLESS),
    );
    casting.taker(
        takers::by_stomp,
        manner("mixed-stomp", (mixed, "mixed"), 20, RESTLESS),
    );
    casting.cast
}

/// Members of an MQTT group, and consumers of AMQP and STOMP, at one queue.
fn groups(book: &mut Book) -> Cast {
    let mut casting = Casting {
        book,
        cast: Cast::default(),
    };
    let shared = casting.queue("shared", None);
    let routes = vec![casting.route("amqp", "", "shared", &[shared])];
    casting.publisher("amqp", publishers::confirmed, routes);
    let routes = vec![casting.route("mqtt", "", "$q/shared", &[shared])];
    casting.publisher("mqtt", publishers::quality_1, routes);
    casting.taker(
        takers::by_mqtt,
        manner("shared-mqtt-1", (shared, "shared"), 0, RESTLESS),
    );
    casting.taker(
        takers::by_mqtt,
        manner("shared-mqtt-2", (shared, "shared"), 0, STEADY),
    );
    casting.taker(
        takers::by_mqtt,
        manner("shared-mqtt-3", (shared, "shared"), 0, RESTLESS),
    );
    casting.taker(
        takers::pushed,
        manner("shared-amqp", (shared, "shared"), 10, RESTLESS),
    );
    casting.taker(
        takers::by_stomp,
        manner("shared-stomp", (shared, "shared"), 10, RESTLESS),
    );
    casting.cast
}
