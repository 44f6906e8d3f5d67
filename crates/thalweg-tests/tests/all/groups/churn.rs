//! Members that come and go a few hundred times a second while others publish: nothing is lost on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::line::{Came, MqttConnection};
use super::log::{Log, Taken};
use super::publisher::{Publisher, number};
use super::worker::Worker;
use super::*;
use crate::broker::{Broker, BrokerProgram};
use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;
use crate::crash::luck::Luck;

const FILTER: &str = "$share/crew/jobs";
const SEED: u64 = 6;
const JOINS_MIN: usize = 200;

/// How a member leaves.
#[derive(Clone, Copy)]
enum Way {
    /// It settles what it has: that is its own afterwards. [MQTT-3.10.4-3]
    Unsubscribes,
    SaysGoodbye,
    Vanishes,
    Resets,
}

/// Comes, takes a few, and goes, perhaps with something unsettled; again and again.
fn restless(broker: SocketAddr, number_of: u64, log: Log, joins: Arc<AtomicUsize>) -> Worker {
    let mut luck = Luck::new(SEED).of(number_of);
    static NEXT: AtomicU32 = AtomicU32::new(0);
    Worker::run(move |stop| {
        while !stop.load(Ordering::Relaxed) {
            let who = format!("restless{}", NEXT.fetch_add(1, Ordering::Relaxed));
            let mut line = MqttConnection::connect(broker, &Connect::new(V5, &who));
            assert!(line.subscribe(FILTER, 1));
            joins.fetch_add(1, Ordering::Relaxed);
            let until = Instant::now() + Duration::from_micros(500 + 100 * luck.below(40) as u64);
            let settles = !luck.chance(0.2);
            while Instant::now() < until {
                match line.next(Duration::from_millis(1)) {
                    Came::Packet(Packet::Publish(message)) => {
                        log.taken(&who, number(&message.payload), message.dup);
                        if settles {
                            line.send(&ack(PUBACK, message.id));
                            log.settled(number(&message.payload));
                        }
                    }
                    Came::Nothing => {}
                    other => panic!("{who}: {other:?}"),
                }
            }
            match [
                Way::Unsubscribes,
                Way::SaysGoodbye,
                Way::Vanishes,
                Way::Resets,
            ][luck.below(4)]
            {
                Way::Unsubscribes if settles => {
                    let id = line.id();
                    line.send(&unsubscribe(V5, id, &[FILTER]));
                    loop {
                        match line.next(PATIENCE) {
                            Came::Packet(Packet::Publish(message)) => {
                                log.taken(&who, number(&message.payload), message.dup);
                                line.send(&ack(PUBACK, message.id));
                                log.settled(number(&message.payload));
                            }
                            Came::Packet(Packet::Unsuback { .. }) => break,
                            other => panic!("{who}: {other:?}"),
                        }
                    }
                    line.leave();
                }
                Way::Unsubscribes => line.leave(),
                Way::SaysGoodbye => line.leave(),
                Way::Vanishes => line.drop_dead(),
                Way::Resets => line.reset(),
            }
        }
    })
}

fn members_come_and_go(shards: &str) {
    let broker = Broker::with()
        .set("shards", shards)
        .start_as(BrokerProgram::Thalweg);
    let (log, joins) = (Log::default(), Arc::new(AtomicUsize::new(0)));
    let steady = Worker::start(
        broker.mqtt(),
        "steady",
        FILTER,
        Duration::from_millis(1),
        &log,
    );
    let restless: Vec<Worker> = (0..4)
        .map(|number| restless(broker.mqtt(), number, log.clone(), Arc::clone(&joins)))
        .collect();
    let mut publisher = Publisher::new(broker.mqtt(), "jobs");
    let until = Instant::now() + Duration::from_secs(3);
    publisher.publish_until(&log, 20, |count| {
        Instant::now() > until && count >= 300 && joins.load(Ordering::Relaxed) >= JOINS_MIN
    });
    restless.into_iter().for_each(Worker::stop);
    let count = publisher.count;
    // A PUBACK in flight when its connection was reset did not reach the broker, which delivers the message to the next
    // member.
    log.wait_for_all(count);
    let (joins, entries) = (joins.load(Ordering::Relaxed), log.read());
    println!(
        "seed {SEED}, {shards} shards: {joins} joins, {count} messages, {} repeats, steady {}",
        entries.repeats().count(),
        entries.share("steady")
    );
    assert_eq!(entries.unflagged(), Vec::<&Taken>::new());
    drop(entries);
    let group = wait_for_group(broker.admin(), "the queue to be empty", |group| {
        group["waiting"] == 0 && group["members"] == 1 && group["seats"][0]["unsettled"] == 0
    });
    let counter = |name: &str| group["counters"][name].as_u64().expect("a number");
    assert_eq!((counter("dropped"), counter("expired")), (0, 0), "{group}");
    assert_eq!(counter("arrived"), u64::from(count), "{group}");
    // A message in flight to a member of another shard may come back before it was counted as delivered.
    if shards == "1" {
        assert_eq!(
            counter("chosen") - counter("returned"),
            u64::from(count),
            "{group}"
        );
    }
    // Settlements of those who had unsubscribed are not the group's.
    assert!(counter("settled") <= u64::from(count), "{group}");
    assert_books_are_even(broker.admin());
    steady.stop();
}

#[test]
fn members_that_come_and_go_lose_nothing() {
    members_come_and_go("1");
}

#[test]
fn members_that_come_and_go_on_several_shards_lose_nothing() {
    members_come_and_go("3");
}
