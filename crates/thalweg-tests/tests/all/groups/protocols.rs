//! One group, members of three protocols: slow members get less, whatever their protocol.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::log::{Log, Taken};
use super::publisher::{Publisher, number};
use super::worker::{GLANCE, Work, Worker};
use super::*;
use crate::broker::{Broker, BrokerProgram};
use crate::crash::queues::amqp::{Amqp, Event};
use crate::crash::queues::stomp::Stomp;

const FILTER: &str = "$share/crew/jobs";
const QUEUE: &str = "$g/crew/jobs";
const QUICK: Duration = Duration::from_millis(4);
/// Ten times as slow as each of two others.
const SLOW: Work = Work::Behind(20);

/// What a consumer does with its messages.
#[derive(Clone, Copy)]
enum Habit {
    Works(Work),
    /// It gives everything back.
    Requeues,
}

fn amqp(broker: &Broker, who: &str, habit: Habit, log: &Log) -> Worker {
    let mut channel = Amqp::open(broker.amqp()).expect("it opens");
    channel
        .consume(QUEUE, 20, false)
        .expect("a group can be consumed");
    let (who, log) = (who.to_owned(), log.clone());
    Worker::run(move |stop| {
        while !stop.load(Ordering::Relaxed) {
            match channel.event(GLANCE).expect("it stays open") {
                Some(Event::Deliver(message)) => {
                    log.taken(&who, number(&message.body), message.redelivered);
                    match habit {
                        Habit::Works(work) => {
                            work.do_it(&who, &log);
                            channel.ack(message.tag, false);
                            log.settled(number(&message.body));
                        }
                        Habit::Requeues => channel.reject(message.tag, true),
                    }
                }
                Some(other) => panic!("{who}: {other:?}"),
                None => {}
            }
        }
        channel.close();
    })
}

fn stomp(broker: &Broker, who: &str, habit: Habit, log: &Log) -> Worker {
    let mut connection = Stomp::open(broker.stomp()).expect("it opens");
    connection
        .consume(QUEUE, 20)
        .expect("a group can be consumed");
    let (who, log) = (who.to_owned(), log.clone());
    Worker::run(move |stop| {
        while !stop.load(Ordering::Relaxed) {
            if let Some(message) = connection.message(GLANCE).expect("it stays open") {
                log.taken(&who, number(&message.body), message.redelivered());
                match habit {
                    Habit::Works(work) => {
                        work.do_it(&who, &log);
                        connection.ack(message.header("ack"));
                        log.settled(number(&message.body));
                    }
                    Habit::Requeues => connection.reject(message.header("ack"), true),
                }
            }
        }
        connection.close();
    })
}

fn broker() -> Broker {
    Broker::with()
        .queues()
        .set("shards", "1")
        .start_as(BrokerProgram::Thalweg)
}

#[test]
fn shares_follow_speed_across_protocols() {
    const MEMBERS: [&str; 3] = ["mqtt", "amqp", "stomp"];
    for slow in MEMBERS {
        let (broker, log) = (broker(), Log::default());
        let work = |who: &str| match who == slow {
            true => SLOW,
            false => QUICK.into(),
        };
        let workers = [
            Worker::start(broker.mqtt(), "mqtt", FILTER, work("mqtt"), &log),
            amqp(&broker, "amqp", Habit::Works(work("amqp")), &log),
            stomp(&broker, "stomp", Habit::Works(work("stomp")), &log),
        ];
        let mut publisher = Publisher::new(broker.mqtt(), "jobs");
        publisher.publish_until(&log, 6, |count| count == 400);
        log.wait_for_all(400);
        let entries = log.read();
        println!("{slow} is slow: {:?}", entries.shares());
        for other in MEMBERS.into_iter().filter(|who| *who != slow) {
            assert!(
                3 * entries.share(slow) < entries.share(other),
                "{slow} is slow: {:?}",
                entries.shares()
            );
        }
        assert!(
            entries.share(slow) > 0,
            "{slow} works, too: {:?}",
            entries.shares()
        );
        assert_eq!(
            entries.all.len(),
            400,
            "each came once: {:?}",
            entries.repeats().collect::<Vec<_>>()
        );
        drop(entries);
        workers.into_iter().for_each(Worker::stop);
        assert_books_are_even(broker.admin());
    }
}

#[test]
fn what_a_consumer_gives_back_goes_to_somebody_else() {
    for who in ["amqp", "stomp"] {
        let (broker, log) = (broker(), Log::default());
        let picky = match who {
            "amqp" => amqp(&broker, who, Habit::Requeues, &log),
            _ => stomp(&broker, who, Habit::Requeues, &log),
        };
        let worker = Worker::start(broker.mqtt(), "mqtt", FILTER, QUICK, &log);
        let mut publisher = Publisher::new(broker.mqtt(), "jobs");
        publisher.publish_until(&log, 4, |count| count >= 100 && log.read().share(who) > 0);
        log.wait_for_all(publisher.count);
        let entries = log.read();
        println!("{who} gives back: {:?}", entries.shares());
        let unmarked: Vec<&Taken> = entries.unflagged();
        assert_eq!(unmarked, Vec::<&Taken>::new(), "{who}");
        assert!(entries.share(who) > 0, "{who} got nothing to give back");
        assert_eq!(
            entries.share("mqtt"),
            publisher.count as usize,
            "{who}: {:?}",
            entries.shares()
        );
        drop(entries);
        picky.stop();
        worker.stop();
        assert_books_are_even(broker.admin());
    }
}
