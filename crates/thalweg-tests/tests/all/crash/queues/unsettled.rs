//! A consumer dies with a thousand unsettled deliveries: another one gets exactly those, flagged, in their order.
//!
//! It is told apart by what comes around them: the other consumer has had what came before, and a mark comes behind.

use std::net::SocketAddr;
use std::time::Duration;

use super::amqp::{Amqp, CONFIRM_SELECT, Event, Terms};
use super::stomp::Stomp;
use crate::broker::Broker;
use crate::crash::oracle;

const PATIENCE: Duration = Duration::from_secs(20);
const UNSETTLED: usize = 1000;
const SETTLED: usize = 300;
const OTHERS: usize = 200;
const QUEUE: &str = "work";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tongue {
    Amqp,
    Stomp,
}

/// A consumer of either protocol that settles nothing by itself.
enum Consumer {
    Amqp(Amqp),
    Stomp(Stomp),
}

/// What came: how to settle it, whether it came before, and which it is.
type Came = (String, bool, usize);

impl Consumer {
    fn open(tongue: Tongue, broker: &Broker, prefetch: usize) -> Self {
        match tongue {
            Tongue::Amqp => {
                let mut amqp = Amqp::open(broker.amqp()).expect("it is let in");
                amqp.consume(QUEUE, prefetch as u16, false).expect("it may consume");
                Self::Amqp(amqp)
            }
            Tongue::Stomp => {
                let mut stomp = Stomp::open(broker.stomp()).expect("it is let in");
                stomp.consume(QUEUE, prefetch as u32).expect("it may consume");
                Self::Stomp(stomp)
            }
        }
    }

    /// So many messages; fewer if no more come.
    fn take(&mut self, count: usize) -> Vec<Came> {
        let mut all = Vec::new();
        while all.len() < count {
            let came = match self {
                Self::Amqp(amqp) => match amqp.event(PATIENCE).expect("the broker lives") {
                    Some(Event::Deliver(it)) => Some((it.tag.to_string(), it.redelivered, number(&it.body))),
                    other => panic!("{} of {count} messages had come, and then {other:?}", all.len()),
                },
                Self::Stomp(stomp) => {
                    let frame = stomp.message(PATIENCE).expect("the broker lives");
                    frame.map(|it| (it.header("ack").to_owned(), it.redelivered(), number(&it.body)))
                }
            };
            all.push(came.unwrap_or_else(|| panic!("{} of {count} messages had come, and then no more", all.len())));
        }
        all
    }

    fn ack(&mut self, name: &str) {
        match self {
            Self::Amqp(amqp) => amqp.ack(name.parse().expect("we wrote it"), false),
            Self::Stomp(stomp) => stomp.ack(name),
        }
    }

    /// Waits until the broker has heard all that was said.
    fn is_heard(&mut self) {
        match self {
            Self::Amqp(amqp) => amqp.look(QUEUE).map(drop),
            Self::Stomp(stomp) => stomp.call("BEGIN", &[("transaction", "mark")], b""),
        }
        .expect("the broker lives");
    }

    fn drop_dead(self) {
        match self {
            Self::Amqp(amqp) => amqp.drop_dead(),
            Self::Stomp(stomp) => stomp.drop_dead(),
        }
    }
}

fn number(body: &[u8]) -> usize {
    std::str::from_utf8(body).expect("we send text").parse().expect("we send numbers")
}

/// Puts numbers into the queue, confirmed.
fn put(broker: SocketAddr, numbers: std::ops::Range<usize>) {
    let mut amqp = Amqp::open(broker).expect("it is let in");
    amqp.call(CONFIRM_SELECT).expect("confirms are granted");
    let count = numbers.len() as u64;
    numbers.for_each(|number| amqp.publish("", QUEUE, number.to_string().as_bytes()));
    let mut confirmed = 0;
    while confirmed < count {
        match amqp.event(PATIENCE).expect("the broker lives") {
            Some(Event::Ack(tag, _)) => confirmed = tag,
            other => panic!("a confirmation was awaited and {other:?} came"),
        }
    }
    amqp.close();
}

fn a_consumer_dies(tongue: Tongue, heir: Tongue) {
    if oracle() {
        return;
    }
    let broker = Broker::with().queues().start();
    let mut maker = Amqp::open(broker.amqp()).expect("it is let in");
    maker.declare_queue(QUEUE, Terms::Durable, None).expect("it may declare");
    let all = UNSETTLED + SETTLED;
    put(broker.amqp(), 0..all + OTHERS);

    let mut mortal = Consumer::open(tongue, &broker, UNSETTLED + SETTLED);
    let had = mortal.take(all);
    assert_eq!(numbers(&had), (0..all).collect::<Vec<_>>(), "the first that came are the first that went");
    assert!(had.iter().all(|(_, again, _)| !again), "nothing came before");
    // The other one is there already, and has all that the first one has no credit for.
    let mut other = Consumer::open(heir, &broker, 0);
    let rest = other.take(OTHERS);
    assert_eq!(numbers(&rest), (all..all + OTHERS).collect::<Vec<_>>());
    assert!(rest.iter().all(|(_, again, _)| !again));

    // What is settled goes by no rule that an order could be guessed from. The credit that comes free wants nothing: the
    // queue is empty.
    let is_settled = |number: usize| (number * 7919) % all < SETTLED;
    for (name, _, _) in had.iter().filter(|(_, _, number)| is_settled(*number)) {
        mortal.ack(name);
    }
    mortal.is_heard();
    mortal.drop_dead();

    let again = other.take(UNSETTLED);
    let expected: Vec<usize> = (0..all).filter(|number| !is_settled(*number)).collect();
    assert_eq!(expected.len(), UNSETTLED);
    assert_eq!(numbers(&again), expected, "exactly what was unsettled, in its order");
    assert!(again.iter().all(|(_, again, _)| *again), "all of it says that it came before");
    // Nothing else: what comes next is new.
    put(broker.amqp(), 9_999..10_000);
    assert_eq!(other.take(1).pop().map(|(_, again, number)| (again, number)), Some((false, 9_999)));
    maker.close();
}

fn numbers(all: &[Came]) -> Vec<usize> {
    all.iter().map(|(_, _, number)| *number).collect()
}

#[test]
fn an_amqp_consumer_that_dies_with_a_thousand_unsettled_deliveries_leaves_exactly_those_to_another() {
    a_consumer_dies(Tongue::Amqp, Tongue::Amqp);
}

#[test]
fn a_stomp_consumer_that_dies_with_a_thousand_unsettled_deliveries_leaves_exactly_those_to_another() {
    a_consumer_dies(Tongue::Stomp, Tongue::Stomp);
}

#[test]
fn what_an_amqp_consumer_had_goes_to_a_stomp_consumer() {
    a_consumer_dies(Tongue::Amqp, Tongue::Stomp);
}

#[test]
fn what_a_stomp_consumer_had_goes_to_an_amqp_consumer() {
    a_consumer_dies(Tongue::Stomp, Tongue::Amqp);
}
