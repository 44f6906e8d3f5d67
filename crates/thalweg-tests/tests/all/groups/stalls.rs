//! A member that falls silent or breaks off loses exactly what it had not settled, to the others.

use std::time::Duration;

use super::line::{Came, MqttConnection};
use super::log::{Log, Taken};
use super::publisher::{Publisher, number};
use super::worker::Worker;
use super::*;
use crate::broker::{Broker, BrokerProgram};
use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;

const FILTER: &str = "$share/crew/jobs";
const WORK: Duration = Duration::from_millis(4);

/// A member whose thread is the test.
struct Hand {
    line: MqttConnection,
    log: Log,
}

impl Hand {
    fn join(broker: &Broker, who: &str, log: &Log) -> Hand {
        let mut line = MqttConnection::connect(broker.mqtt(), &Connect::lasting(V5, who));
        assert!(line.subscribe(FILTER, 1));
        Hand {
            line,
            log: log.clone(),
        }
    }

    /// The next message, which is recorded and not settled; `None` at the end of the connection, after its DISCONNECT.
    fn take(&mut self, told: &mut Option<u8>) -> Option<Message> {
        loop {
            match self.line.next(PATIENCE) {
                Came::Packet(Packet::Publish(message)) => {
                    self.log
                        .taken("hand", number(&message.payload), message.dup);
                    return Some(message);
                }
                Came::Packet(Packet::Disconnect { reason, .. }) => *told = Some(reason),
                Came::End => return None,
                other => panic!("{other:?}"),
            }
        }
    }

    fn settle(&mut self, message: &Message) {
        self.line.send(&ack(PUBACK, message.id));
        self.log.settled(number(&message.payload));
    }
}

/// Publishes from a thread of its own until it is stopped; returns the number of messages.
fn publishing(
    broker: &Broker,
    log: &Log,
    ahead: usize,
) -> (Worker, std::sync::mpsc::Receiver<u32>) {
    let (teller, told) = std::sync::mpsc::channel();
    let (mut publisher, log) = (Publisher::new(broker.mqtt(), "jobs"), log.clone());
    let worker = Worker::run(move |stop| {
        publisher.publish_until(&log, ahead, |_| {
            stop.load(std::sync::atomic::Ordering::Relaxed)
        });
        teller.send(publisher.count).expect("the test waits for it");
    });
    (worker, told)
}

#[test]
fn a_frozen_member_is_closed_and_its_messages_go_to_others_and_it_is_on_trial_when_it_comes_back() {
    let broker = Broker::with()
        .set("shards", "1")
        .set("groups.adaptive_eviction", "true")
        .start_as(BrokerProgram::Thalweg);
    let log = Log::default();
    let others = ["one", "two"].map(|who| Worker::start(broker.mqtt(), who, FILTER, WORK, &log));
    let mut hand = Hand::join(&broker, "frozen", &log);
    let (publisher, published) = publishing(&broker, &log, 6);
    let mut told = None;
    for _ in 0..20 {
        let message = hand.take(&mut told).expect("it works");
        std::thread::sleep(WORK);
        hand.settle(&message);
    }
    // From here on it reads nothing.
    wait_for_group(broker.admin(), "the silent one to be closed", |group| {
        group["counters"]["stalls"] == 1
    });
    // The log is read by a thread of the test's.
    assert!(broker.wait_for_log("frozen", PATIENCE), "the log names it");
    let mut with_it: Vec<u32> = Vec::new();
    // When it resumes, its messages are no longer assigned to it.
    hand.log = Log::default();
    while let Some(message) = hand.take(&mut told) {
        assert!(!message.dup);
        with_it.push(number(&message.payload));
    }
    assert_eq!(told, Some(0x97), "Quota exceeded");
    assert!((1..=2).contains(&with_it.len()), "{with_it:?} were with it");
    publisher.stop();
    let count = published.recv().expect("it was told");
    log.wait_for_all(count);
    for number in &with_it {
        let entries = log.read();
        let elsewhere: Vec<&Taken> = entries
            .all
            .iter()
            .filter(|taken| taken.number == *number && taken.who != "hand")
            .collect();
        assert!(
            matches!(elsewhere[..], [taken] if taken.again),
            "{number} was with it: {elsewhere:?}"
        );
    }
    assert_eq!(
        log.read().repeats().count(),
        with_it.len(),
        "nothing else is repeated"
    );
    assert_eq!(log.read().unflagged(), Vec::<&Taken>::new());

    // It comes back: one message at first, however much waits.
    let log = Log::default();
    drop(others);
    wait_for_group(broker.admin(), "the others to leave", |group| {
        group["members"] == 1
    });
    let connect = Connect::lasting(V5, "frozen");
    let mut publisher = Publisher::new(broker.mqtt(), "jobs");
    publisher.publish_many(20);
    let (line, present) =
        MqttConnection::open(broker.mqtt(), &connect).expect("the broker is there");
    assert!(present, "its session outlives its connection");
    let mut hand = Hand {
        line,
        log: log.clone(),
    };
    let first = hand.take(&mut told).expect("it may work again");
    publisher.publish_many(5);
    assert!(
        hand.line.until_pong().is_some_and(|more| more.is_empty()),
        "one, and no more before it has settled that"
    );
    hand.settle(&first);
    for _ in 1..25 {
        let message = hand.take(&mut told).expect("it works");
        hand.settle(&message);
    }
    log.wait_for_all(25);
    let order: Vec<u32> = log.read().all.iter().map(|taken| taken.number).collect();
    assert_eq!(order, (1..=25).collect::<Vec<u32>>());
    hand.line.leave();
    assert_books_are_even(broker.admin());
}

#[test]
fn what_a_reset_member_had_goes_to_others_at_once() {
    let broker = Broker::with()
        .set("shards", "1")
        .start_as(BrokerProgram::Thalweg);
    let log = Log::default();
    let others = ["one", "two"].map(|who| Worker::start(broker.mqtt(), who, FILTER, WORK, &log));
    let mut publisher = Publisher::new(broker.mqtt(), "jobs");
    for round in 1..=10 {
        let mut hand = Hand::join(&broker, "reset", &log);
        let before = log.read().repeats().count();
        // Until it has one that it does not settle.
        let mut with_it: Vec<u32> = Vec::new();
        while with_it.is_empty() {
            publisher.publish();
            let came = hand.line.until_pong().expect("it stays");
            with_it.extend(came.iter().map(|packet| match packet {
                Packet::Publish(message) => number(&message.payload),
                other => panic!("{other:?}"),
            }));
        }
        hand.line.reset();
        wait_for_group(broker.admin(), "the reset to be noticed", |group| {
            group["members_online"] == 2
        });
        // Its messages go to others without a further event.
        log.wait_for_all(publisher.count);
        let entries = log.read();
        let again: Vec<u32> = entries
            .repeats()
            .skip(before)
            .map(|taken| taken.number)
            .collect();
        assert!(again.len() <= 2, "round {round}: {again:?} came again");
        let missing: Vec<_> = with_it
            .iter()
            .filter(|number| !again.contains(number))
            .collect();
        assert!(
            missing.is_empty(),
            "round {round}: {missing:?} did not come again as repeats: {again:?}"
        );
        assert_eq!(entries.unflagged(), Vec::<&Taken>::new());
    }
    let counters = group(broker.admin())["counters"].clone();
    assert_eq!(
        (&counters["stalls"], &counters["dropped"]),
        (&0.into(), &0.into()),
        "{counters}"
    );
    others.into_iter().for_each(Worker::stop);
    assert_books_are_even(broker.admin());
}

/// Leaving in order is no reason to lose what was acknowledged to its publisher.
#[test]
fn what_a_member_has_when_it_unsubscribes_and_leaves_goes_to_others() {
    let broker = Broker::with()
        .set("shards", "1")
        .start_as(BrokerProgram::Thalweg);
    let log = Log::default();
    let mut hand = MqttConnection::connect(broker.mqtt(), &Connect::new(V5, "hand"));
    assert!(hand.subscribe(FILTER, 1));
    let mut publisher = Publisher::new(broker.mqtt(), "jobs");
    publisher.publish_many(3);
    let had = hand.until_pong().expect("it stays");
    assert!(!had.is_empty());
    let other = Worker::start(broker.mqtt(), "other", FILTER, WORK, &log);
    let id = hand.id();
    hand.send(&unsubscribe(V5, id, &[FILTER]));
    hand.leave();
    log.wait_for_all(3);
    assert_eq!(log.read().repeats().count(), had.len());
    other.stop();
    assert_books_are_even(broker.admin());
}
