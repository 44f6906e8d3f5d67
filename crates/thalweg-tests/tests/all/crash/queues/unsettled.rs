//! A consumer dies with a thousand unsettled deliveries: another one gets exactly those, flagged, in their order.
//!
//! It is identified by its neighbours: the other consumer has received the earlier messages, and a mark follows.

use std::net::SocketAddr;
use std::time::Duration;

use super::amqp::{Amqp, CONFIRM_SELECT, Event, Terms};
use super::stomp::Stomp;
use crate::broker::{Broker, free_port};
use crate::crash::oracle;
use crate::crash::process::Home;

const PATIENCE: Duration = Duration::from_secs(20);
const UNSETTLED: usize = 1000;
const SETTLED: usize = 300;
const ALL: usize = UNSETTLED + SETTLED;
const OTHERS: usize = 200;
const QUEUE: &str = "work";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tongue {
    Amqp,
    Stomp,
}

/// A consumer of either protocol that settles only on request, and its deliveries.
struct Consumer {
    link: Link,
    had: Vec<Came>,
}

enum Link {
    Amqp(Amqp),
    Stomp(Stomp),
}

/// Where AMQP and STOMP are spoken.
type Addresses = (SocketAddr, SocketAddr);

/// A delivery: its settlement id, its redelivered flag, and its number.
type Came = (String, bool, usize);

impl Consumer {
    fn open(tongue: Tongue, (amqp, stomp): Addresses, prefetch: usize) -> Self {
        let link = match tongue {
            Tongue::Amqp => {
                let mut amqp = Amqp::open(amqp).expect("it is let in");
                amqp.consume(QUEUE, prefetch as u16, false)
                    .expect("it may consume");
                Link::Amqp(amqp)
            }
            Tongue::Stomp => {
                let mut stomp = Stomp::open(stomp).expect("it is let in");
                stomp
                    .consume(QUEUE, prefetch as u32)
                    .expect("it may consume");
                Link::Stomp(stomp)
            }
        };
        Self {
            link,
            had: Vec::new(),
        }
    }

    /// So many messages; fewer if no more come.
    fn take(&mut self, count: usize) -> Vec<Came> {
        let mut all = Vec::new();
        while all.len() < count {
            let came = match &mut self.link {
                Link::Amqp(amqp) => match amqp.event(PATIENCE).expect("the broker lives") {
                    Some(Event::Deliver(it)) => {
                        Some((it.tag.to_string(), it.redelivered, number(&it.body)))
                    }
                    other => panic!(
                        "{} of {count} messages had come, and then {other:?}",
                        all.len()
                    ),
                },
                Link::Stomp(stomp) => {
                    let frame = stomp.message(PATIENCE).expect("the broker lives");
                    frame.map(|it| {
                        (
                            it.header("ack").to_owned(),
                            it.redelivered(),
                            number(&it.body),
                        )
                    })
                }
            };
            all.push(came.unwrap_or_else(|| {
                panic!(
                    "{} of {count} messages had come, and then no more",
                    all.len()
                )
            }));
        }
        all
    }

    /// Settles what [`is_settled`] selects, and waits until the broker has processed it.
    fn settle(&mut self) {
        for (name, _, _) in self.had.iter().filter(|(_, _, number)| is_settled(*number)) {
            match &mut self.link {
                Link::Amqp(amqp) => amqp.ack(name.parse().expect("we wrote it"), false),
                Link::Stomp(stomp) => stomp.ack(name),
            }
        }
        match &mut self.link {
            Link::Amqp(amqp) => amqp.look(QUEUE).map(drop),
            Link::Stomp(stomp) => stomp.call("BEGIN", &[("transaction", "mark")], b""),
        }
        .expect("the broker lives");
    }

    fn drop_dead(self) {
        match self.link {
            Link::Amqp(amqp) => amqp.drop_dead(),
            Link::Stomp(stomp) => stomp.drop_dead(),
        }
    }
}

fn number(body: &[u8]) -> usize {
    std::str::from_utf8(body)
        .expect("we send text")
        .parse()
        .expect("we send numbers")
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

/// The selection follows no pattern that an order could be guessed from.
fn is_settled(number: usize) -> bool {
    (number * 7919) % ALL < SETTLED
}

/// A consumer that has had [`ALL`], and settled what [`is_settled`]; more than it has credit for waits.
fn one_with_a_thousand_unsettled(tongue: Tongue, addresses: Addresses) -> Consumer {
    let mut maker = Amqp::open(addresses.0).expect("it is let in");
    maker
        .declare_queue(QUEUE, Terms::Durable, None)
        .expect("it may declare");
    maker.close();
    put(addresses.0, 0..ALL + OTHERS);
    let mut mortal = Consumer::open(tongue, addresses, ALL);
    let had = mortal.take(ALL);
    assert_eq!(
        numbers(&had),
        (0..ALL).collect::<Vec<_>>(),
        "the first that came are the first that went"
    );
    assert!(
        had.iter().all(|(_, again, _)| !again),
        "nothing came before"
    );
    mortal.had = had;
    mortal
}

fn a_consumer_dies(tongue: Tongue, heir: Tongue) {
    if oracle() {
        return;
    }
    let broker = Broker::with().queues().start();
    let addresses = (broker.amqp(), broker.stomp());
    let mut mortal = one_with_a_thousand_unsettled(tongue, addresses);
    // The other consumer is there already, and has everything beyond the first one's credit. So freed credit gets no
    // message.
    let mut other = Consumer::open(heir, addresses, 0);
    let rest = other.take(OTHERS);
    assert_eq!(numbers(&rest), (ALL..ALL + OTHERS).collect::<Vec<_>>());
    assert!(rest.iter().all(|(_, again, _)| !again));
    mortal.settle();
    mortal.drop_dead();

    let again = other.take(UNSETTLED);
    assert_eq!(
        numbers(&again),
        (0..ALL)
            .filter(|number| !is_settled(*number))
            .collect::<Vec<_>>()
    );
    assert!(
        again.iter().all(|(_, again, _)| *again),
        "all of it says that it came before"
    );
    // Nothing else: what comes next is new.
    put(addresses.0, 9_999..10_000);
    assert_eq!(
        other
            .take(1)
            .pop()
            .map(|(_, again, number)| (again, number)),
        Some((false, 9_999))
    );
}

fn all_die(tongue: Tongue, heir: Tongue) {
    if oracle() {
        return;
    }
    let addresses = (free_port(), free_port());
    let home = Home::new(&format!("queues-unsettled-{tongue:?}"))
        .set(&format!("listeners.amqp.bind={}", addresses.0))
        .set(&format!("listeners.stomp.bind={}", addresses.1));
    let process = home.start().expect("it starts");
    let mut mortal = one_with_a_thousand_unsettled(tongue, addresses);
    mortal.settle();
    // Settlements are written with the next frame.
    put(addresses.0, 9_999..10_000);
    process.kill();

    let _process = home.start().expect("it starts on what it left");
    let mut other = Consumer::open(heir, addresses, 0);
    let expected: Vec<usize> = (0..ALL + OTHERS)
        .filter(|it| *it >= ALL || !is_settled(*it))
        .chain([9_999])
        .collect();
    let again = other.take(expected.len());
    assert_eq!(
        numbers(&again),
        expected,
        "all that was not settled, in its order"
    );
    assert!(
        again
            .iter()
            .all(|(_, again, number)| *again || *number >= ALL),
        "what was delivered says so"
    );
    let flagged = again
        .iter()
        .filter(|(_, again, number)| *again && *number >= ALL)
        .count();
    assert!(
        flagged <= ALL,
        "{flagged} say so that nobody had: more than twice what was delivered"
    );
    put(addresses.0, 10_000..10_001);
    assert_eq!(
        other
            .take(1)
            .pop()
            .map(|(_, again, number)| (again, number)),
        Some((false, 10_000))
    );
}

fn numbers(all: &[Came]) -> Vec<usize> {
    all.iter().map(|(_, _, number)| *number).collect()
}

#[test]
fn an_amqp_consumer_that_dies_with_a_thousand_unsettled_deliveries_leaves_exactly_those_to_another()
{
    a_consumer_dies(Tongue::Amqp, Tongue::Amqp);
}

#[test]
fn a_stomp_consumer_that_dies_with_a_thousand_unsettled_deliveries_leaves_exactly_those_to_another()
{
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

#[test]
fn after_a_kill_exactly_what_an_amqp_consumer_had_not_settled_comes_again() {
    all_die(Tongue::Amqp, Tongue::Stomp);
}

#[test]
fn after_a_kill_exactly_what_a_stomp_consumer_had_not_settled_comes_again() {
    all_die(Tongue::Stomp, Tongue::Amqp);
}
