//! Members of a group whose sessions last: one works, one freezes now and then, one's connection is reset.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::World;
use super::book::ReadMessage;
use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;
use crate::crash::luck::Luck;
use crate::groups::line::{Came, MqttConnection};

const GLANCE: Duration = Duration::from_millis(5);
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(8);
const SESSION_EXPIRY: u32 = 3600;
/// Members may be silent for two seconds.
const FROZEN: (f64, f64) = (1.5, 4.0);

/// Failures of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    Works,
    /// It stops reading and acknowledging for seconds.
    Freezes,
    /// Its connection is reset, often while it has something unsettled.
    Resets,
    /// Its session ends with its connection.
    Passes,
}

/// A connection to the broker of this life, with the session kept; `None` while there is none.
pub fn connect(world: &World, who: &str) -> Option<(MqttConnection, bool, u32)> {
    let expiry = property::four(property::SESSION_EXPIRY, SESSION_EXPIRY);
    open(world, &Connect::new(V5, who).clean(false).with(expiry))
}

fn open(world: &World, connect: &Connect) -> Option<(MqttConnection, bool, u32)> {
    let life = world.life();
    match MqttConnection::open(world.mqtt, connect) {
        // One that began before a broker's end and was finished by the next has no life.
        Some((line, present)) if world.life() == life => Some((line, present, life)),
        _ => {
            std::thread::sleep(RETRY);
            None
        }
    }
}

/// A member of the group, until all is over.
pub fn member(world: &World, who: &'static str, filter: &str, habit: Habit, mut luck: Luck) {
    // Identifiers of QoS 2 messages that were taken and not yet released.
    let mut held: BTreeMap<u16, (usize, u32)> = BTreeMap::new();
    let mut was_greeted = false;
    let mut is_subscribed = false;
    while !world.is_over() {
        let opened = match habit {
            Habit::Passes => open(world, &Connect::new(V5, who).clean(true)),
            _ => connect(world, who),
        };
        let Some((mut line, present, life)) = opened else {
            continue;
        };
        if habit == Habit::Passes {
            is_subscribed = false;
        } else if was_greeted && !present {
            world
                .book()
                .breach("session lost", format!("{who} had a session"));
            held.clear();
            is_subscribed = false;
        }
        was_greeted = true;
        if !is_subscribed {
            is_subscribed = line.subscribe(filter, 2);
            if !is_subscribed {
                continue;
            }
            if habit != Habit::Passes {
                world.joined();
            }
        }
        // Once in a life of a few seconds, or twice.
        let accident = Instant::now() + Duration::from_secs_f64(luck.between((0.3, 2.0)));
        while world.life() == life && !world.is_over() {
            let is_due = habit != Habit::Works && !world.is_at_rest() && Instant::now() >= accident;
            if is_due && habit == Habit::Freezes {
                world.book().note(who, format_args!("freezes"));
                let until = Instant::now() + Duration::from_secs_f64(luck.between(FROZEN));
                while Instant::now() < until
                    && world.life() == life
                    && !world.is_at_rest()
                    && !world.is_over()
                {
                    std::thread::sleep(GLANCE);
                }
                world.book().note(who, format_args!("wakes up"));
                // Messages in its socket may now be assigned to another member.
                while let Came::Packet(packet) = line.next(Duration::ZERO) {
                    if matches!(packet, Packet::Disconnect { reason: 0x97, .. }) {
                        world.book().evictions += 1;
                    }
                }
                line.drop_dead();
                break;
            }
            match line.next(GLANCE) {
                Came::Packet(Packet::Publish(message)) => {
                    if !take(world, who, life, &mut held, &message) {
                        break;
                    }
                    std::thread::sleep(Duration::from_micros(500 + 100 * luck.below(30) as u64));
                    if is_due && message.qos == 1 {
                        let mut book = world.book();
                        book.note(who, format_args!("resets its connection"));
                        book.resets += 1;
                        drop(book);
                        line.reset();
                        break;
                    }
                    let text = String::from_utf8_lossy(&message.payload);
                    world.book().note(who, format_args!("settles {text}"));
                    line.send(&ack(
                        if message.qos == 2 { PUBREC } else { PUBACK },
                        message.id,
                    ));
                }
                Came::Packet(Packet::Ack {
                    kind: PUBREL, id, ..
                }) => {
                    held.remove(&id);
                    line.send(&ack(PUBCOMP, id));
                }
                Came::Packet(Packet::Disconnect { reason, .. }) => match reason {
                    0x97 => world.book().evictions += 1,
                    0x8B | 0x8E => {}
                    _ => world
                        .book()
                        .breach("disconnected", format!("{who}: {reason:#04x}")),
                },
                Came::Packet(other) => world
                    .book()
                    .breach("protocol", format!("{who} got {other:?}")),
                Came::Nothing => {}
                Came::End => break,
            }
        }
    }
}

/// Writes down what came; false if the broker that sent it is no more.
fn take(
    world: &World,
    who: &'static str,
    life: u32,
    held: &mut BTreeMap<u16, (usize, u32)>,
    message: &Message,
) -> bool {
    let text = String::from_utf8_lossy(&message.payload);
    let mut words = text
        .split(' ')
        .map(|word| word.parse::<u32>().expect("publishers send three numbers"));
    let mut word = || words.next().expect("publishers send three numbers");
    let heard = ReadMessage {
        stream: word() as usize,
        number: word(),
        attempt: word(),
        dup: message.dup,
        life,
    };
    let mut book = world.book();
    // Messages in a socket when the broker died may have been delivered to another since.
    if world.life() != life {
        return false;
    }
    if message.qos == 2 {
        let mine = (heard.stream, heard.number);
        match held.insert(message.id, mine) {
            Some(known) if known == mine => return true,
            Some(known) => {
                let story = format!(
                    "{who}: identifier {} was {known:?} and is now {mine:?}",
                    message.id
                );
                book.breach("identifier reused", story);
            }
            None => {}
        }
    }
    book.hear(who, heard);
    true
}
