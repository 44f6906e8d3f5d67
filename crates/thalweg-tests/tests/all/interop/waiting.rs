//! Messages that wait in a queue: each protocol sends, each consumes; the remaining lifetime, and redeliveries after a
//! consumer is gone. MQTT reaches a queue `q` as `$q/q` and consumes from it as `$share/q/$q/q`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use thalweg_fronts::capabilities::{Aspect, Cell, ContentTypeModel, Rule, expected};

use super::protocol::{ONE_EACH, Protocol, SPEAKERS, who_can};
use super::puppet::{Library, PATIENCE};
use super::speaker::{Post, Speaker, broker};
use crate::abuse::figure;
use crate::broker::Broker;
use crate::server::home::wait_until;

const HOUR_MS: u64 = 3_600_000;

fn declarer(broker: &Broker) -> Speaker {
    Speaker::open(broker, (Protocol::Amqp, Library::Pika))
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn what_any_library_sends_to_a_queue_any_takes_from_it() {
    let Some(broker) = broker() else { return };
    let declarer = declarer(&broker);
    let senders = Speaker::all(&broker, &SPEAKERS);
    for (number, who) in SPEAKERS.into_iter().enumerate() {
        let queue = format!("taken by {number}");
        declarer.declare(&queue);
        for sender in &senders {
            sender.send_to_queue(&queue, &Post::new(format!("{sender:?}")));
        }
        let taker = Speaker::open(&broker, who);
        taker.consume(&queue, true);
        for sender in &senders {
            let seen = taker.receive();
            assert_eq!(
                String::from_utf8_lossy(&seen.payload),
                format!("{sender:?}"),
                "to {taker:?}, in order"
            );
            taker.settle(&seen);
        }
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn lifetimes_count_while_a_message_waits() {
    let Some(broker) = broker() else { return };
    let declarer = declarer(&broker);
    let senders = Speaker::all(&broker, &ONE_EACH);
    let queue = |from: usize, to: usize| format!("expiry.{from}.{to}");
    for (from, sender) in senders.iter().enumerate() {
        for to in 0..ONE_EACH.len() {
            declarer.declare(&queue(from, to));
            for (payload, expiry) in [("short", Some(1)), ("long", Some(3600)), ("end", None)] {
                sender.send_to_queue(
                    &queue(from, to),
                    &Post {
                        expiry,
                        ..Post::new(payload)
                    },
                );
            }
        }
    }
    // The short ones of those that can say how long a message lives.
    let can_say = |sender: &&Speaker| sender.protocol.capabilities().expiry.is_some();
    let short = (senders.iter().filter(can_say).count() * ONE_EACH.len()) as u64;
    wait_until("the short ones have expired", || {
        figure(broker.admin(), "thalweg_copies_expired_total") == short
    });
    let mut wrong = Vec::new();
    for (from, sender) in senders.iter().enumerate() {
        for (to, who) in ONE_EACH.into_iter().enumerate() {
            let taker = Speaker::open(&broker, who);
            taker.consume(&queue(from, to), false);
            let cell = expected(
                sender.protocol.capabilities(),
                taker.protocol.capabilities(),
                Aspect::Expiry,
            );
            let mut seen = Vec::new();
            while let Some(message) = taker.receive_within(PATIENCE) {
                let end = message.payload == b"end";
                seen.push(message);
                if end {
                    break;
                }
            }
            let long = seen.iter().find(|message| message.payload == b"long");
            let left = long.and_then(|message| message.expiry_ms);
            let short_came = seen.iter().any(|message| message.payload == b"short");
            let holds = match cell {
                Cell::Unsaid => seen.len() == 3,
                Cell::Dropped => !short_came && long.is_some() && left.is_none(),
                Cell::Rule(Rule::AsSent) => !short_came && left == Some(HOUR_MS),
                Cell::Rule(Rule::SecondsLeft) => {
                    !short_came
                        && left.is_some_and(|left| {
                            (1_000..HOUR_MS).contains(&left) && left % 1000 == 0
                        })
                }
                _ => !short_came && left.is_some_and(|left| (1..HOUR_MS).contains(&left)),
            };
            if !holds {
                wrong.push(format!("{sender:?} to {taker:?} ({cell:?}): {seen:?}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cells are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn what_a_lost_consumer_had_comes_again() {
    let Some(broker) = broker() else { return };
    let declarer = declarer(&broker);
    let senders = Speaker::all(&broker, &ONE_EACH);
    let takers =
        who_can(&SPEAKERS, |can| can.redelivered.is_some()).filter(|(protocol, library)| {
            // Of the libraries of MQTT here only this one can leave something unsettled.
            !matches!(protocol, Protocol::Mqtt3 | Protocol::Mqtt5)
                || *library == Library::PahoPython
        });
    let mut wrong = Vec::new();
    for (number, who) in takers.enumerate() {
        for (from, sender) in senders.iter().enumerate() {
            let queue = format!("again.{from}.{number}");
            declarer.declare(&queue);
            let lost = Speaker::open_with(&broker, who, true);
            lost.consume(&queue, true);
            for payload in ["one", "two", "three"] {
                sender.send_to_queue(&queue, &Post::new(payload));
            }
            // A subscriber of MQTT or XMPP is a member of a group, and is given one until it is known how long that takes.
            let had = match who.0 {
                Protocol::Mqtt3 | Protocol::Mqtt5 | Protocol::Xmpp => 1,
                _ => 3,
            };
            for _ in 0..had {
                assert!(
                    !lost.receive().redelivered,
                    "{sender:?} to {lost:?}: the first time"
                );
            }
            lost.cut();
            let other = Speaker::open(&broker, who);
            other.consume(&queue, true);
            let cell = expected(
                sender.protocol.capabilities(),
                other.protocol.capabilities(),
                Aspect::Redelivery,
            );
            let mut seen = Vec::new();
            while seen.len() < 3 {
                let Some(message) = other.receive_within(PATIENCE) else {
                    break;
                };
                other.settle(&message);
                seen.push((
                    String::from_utf8_lossy(&message.payload).into_owned(),
                    message.redelivered,
                ));
            }
            let flagged = |number: usize| cell == Cell::Exact && number < had;
            let payloads = ["one", "two", "three"].into_iter().enumerate();
            let wanted: Vec<_> = payloads
                .map(|(number, payload)| (payload.to_owned(), flagged(number)))
                .collect();
            if seen != wanted {
                wrong.push(format!("{sender:?} to {other:?} ({cell:?}): {seen:?}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cells are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_queue_is_shared_by_consumers_of_every_protocol() {
    let Some(broker) = broker() else { return };
    declarer(&broker).declare("work");
    // Whoever asks for each message, as CoAP does, comes too late for one that others wait for.
    let takers: Vec<_> = who_can(&ONE_EACH, |can| can.redelivered.is_some()).collect();
    let takers = Speaker::all(&broker, &takers);
    takers.iter().for_each(|taker| taker.consume("work", true));
    let senders = Speaker::all(&broker, &ONE_EACH);
    for number in 0..200usize {
        senders[number % senders.len()].send_to_queue("work", &Post::new(format!("{number}")));
    }
    let mut shares = vec![Vec::new(); takers.len()];
    let quiet = Duration::from_millis(10);
    let deadline = std::time::Instant::now() + PATIENCE;
    while shares.iter().map(Vec::len).sum::<usize>() < 200 && std::time::Instant::now() < deadline {
        for (share, taker) in shares.iter_mut().zip(&takers) {
            while let Some(message) = taker.receive_within(quiet) {
                taker.settle(&message);
                share.push(String::from_utf8_lossy(&message.payload).into_owned());
            }
        }
    }
    let all: BTreeSet<&String> = shares.iter().flatten().collect();
    assert_eq!(all.len(), 200, "none is lost: {shares:?}");
    assert_eq!(
        shares.iter().map(Vec::len).sum::<usize>(),
        200,
        "none comes twice: {shares:?}"
    );
    // The takers of MQTT are one group, of which one member may take all. It is passed over in the queue's turns while its
    // member has yet to acknowledge, so how much each has is decided by the libraries' speed; that each has its turn is not.
    let (of_mqtt, others) = shares.split_at(2);
    assert!(
        !of_mqtt.concat().is_empty() && others.iter().all(|share| !share.is_empty()),
        "every protocol has its turn: {shares:?}"
    );
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn priorities_of_one_protocol_order_what_another_takes() {
    let Some(broker) = broker() else { return };
    let declarer = declarer(&broker);
    let senders = ONE_EACH
        .into_iter()
        .filter(|(protocol, _)| protocol.capabilities().priority_max.is_some());
    let senders: Vec<Speaker> = senders.map(|who| Speaker::open(&broker, who)).collect();
    for (number, who) in ONE_EACH.into_iter().enumerate() {
        let queue = format!("priority.{number}");
        let limits = json!([["x-max-priority", ["int", 9]]]);
        declarer.agent().tell(
            "declare",
            json!({ "queue": queue, "durable": true, "arguments": limits }),
        );
        for sender in &senders {
            for priority in [1, 5, 9, 3] {
                let post = Post {
                    priority: Some(priority),
                    ..Post::new([priority])
                };
                sender.send_to_queue(&queue, &post);
            }
        }
        let taker = Speaker::open(&broker, who);
        taker.consume(&queue, true);
        let seen: Vec<u8> = (0..4 * senders.len())
            .map(|_| {
                let message = taker.receive();
                taker.settle(&message);
                message.payload[0]
            })
            .collect();
        assert_eq!(seen, [9, 9, 5, 5, 3, 3, 1, 1], "to {taker:?}");
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn what_one_protocol_refuses_is_a_dead_letter_for_the_others() {
    let Some(broker) = broker() else { return };
    let declarer = declarer(&broker);
    let sender = Speaker::open(&broker, (Protocol::Mqtt5, Library::PahoPython));
    for (number, refuser) in [
        (Protocol::Amqp, Library::Amqplib),
        (Protocol::Stomp, Library::StompPy),
    ]
    .into_iter()
    .enumerate()
    {
        for (to, who) in ONE_EACH.into_iter().enumerate() {
            let (queue, dead) = (
                format!("refused.{number}.{to}"),
                format!("dead.{number}.{to}"),
            );
            declarer.declare(&dead);
            let limits = json!([
                ["x-dead-letter-exchange", ["text", ""]],
                ["x-dead-letter-routing-key", ["text", dead]]
            ]);
            declarer.agent().tell(
                "declare",
                json!({ "queue": queue, "durable": true, "arguments": limits }),
            );
            let post = Post {
                content_type: Some("text/plain".to_owned()),
                correlation: Some(b"c".to_vec()),
                ..Post::new(queue.clone())
            };
            sender.send_to_queue(&queue, &post);
            let refuser = Speaker::open(&broker, refuser);
            refuser.consume(&queue, true);
            refuser.refuse(&refuser.receive());
            let taker = Speaker::open(&broker, who);
            taker.consume(&dead, true);
            let seen = taker.receive();
            assert_eq!(seen.payload, post.payload, "{refuser:?} to {taker:?}");
            let capabilities = taker.protocol.capabilities();
            let hears_type = capabilities.content_type != ContentTypeModel::No;
            assert_eq!(
                seen.content_type.is_some(),
                hears_type,
                "{refuser:?} to {taker:?}: {seen:?}"
            );
        }
    }
}
