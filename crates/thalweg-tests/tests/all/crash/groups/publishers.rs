//! Publishers whose sessions last: what was not acknowledged goes again, until it is.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::World;
use super::members::connect;
use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;
use crate::crash::luck::Luck;
use crate::groups::line::{Came, MqttConnection};

/// Number of messages in flight.
const WINDOW: usize = 8;
/// Publishers wait when so many messages are undelivered.
const UNHEARD_MAX: usize = 120;
const GLANCE: Duration = Duration::from_millis(2);

struct Outgoing {
    id: u16,
    stream: usize,
    number: u32,
    attempt: u32,
    released: bool,
}

/// Publishes into its streams until the world rests and everything is acknowledged.
pub fn publisher(world: &World, who: &'static str, streams: &[usize], mut luck: Luck) {
    let mut outgoing: VecDeque<Outgoing> = VecDeque::new();
    let mut next_id = 0_u16;
    let mut was_greeted = false;
    while !world.is_over() {
        if world.is_at_rest() && outgoing.is_empty() {
            return;
        }
        let Some((mut line, present, life)) = connect(world, who) else {
            continue;
        };
        if was_greeted && !present {
            let mut book = world.book();
            book.breach("session lost", format!("{who} had a session"));
            // Nor does it have the messages.
            book.unheard = 0;
        }
        was_greeted = true;
        for it in &mut outgoing {
            it.attempt += 1;
            let bytes = if it.released {
                ack(PUBREL, it.id)
            } else {
                publish(world, it, present)
            };
            line.send(&bytes);
        }
        while world.life() == life && !world.is_over() {
            if world.is_at_rest() && outgoing.is_empty() {
                line.leave();
                return;
            }
            let is_full = outgoing.len() >= WINDOW
                || world.is_at_rest()
                || world.book().unheard > UNHEARD_MAX;
            if !is_full && luck.chance(0.7) {
                let stream = streams[luck.below(streams.len())];
                next_id = next_id % 60_000 + 1;
                let number = world.book().send(stream);
                let it = Outgoing {
                    id: next_id,
                    stream,
                    number,
                    attempt: 1,
                    released: false,
                };
                line.send(&publish(world, &it, false));
                outgoing.push_back(it);
            }
            match line.next(GLANCE) {
                Came::Packet(Packet::Ack {
                    kind, id, reason, ..
                }) => {
                    acknowledged(world, who, &mut line, &mut outgoing, (kind, id, reason));
                }
                Came::Packet(Packet::Disconnect { reason: 0x8B, .. }) => {}
                Came::Packet(other) => world
                    .book()
                    .breach("protocol", format!("{who} got {other:?}")),
                Came::Nothing => {}
                Came::End => break,
            }
        }
    }
}

fn publish(world: &World, it: &Outgoing, dup: bool) -> Vec<u8> {
    let mut book = world.book();
    let (topic, qos) = (book.of(it.stream).topic, book.of(it.stream).qos);
    let publish =
        Publish::new(topic, format!("{} {} {}", it.stream, it.number, it.attempt)).qos(qos, it.id);
    book.note(
        topic,
        format_args!(
            "is sent <{}#{}> attempt {}",
            it.stream, it.number, it.attempt
        ),
    );
    if dup {
        publish.dup().bytes(V5)
    } else {
        publish.bytes(V5)
    }
}

fn acknowledged(
    world: &World,
    who: &str,
    line: &mut MqttConnection,
    outgoing: &mut VecDeque<Outgoing>,
    (kind, id, reason): (u8, u16, u8),
) {
    let Some(at) = outgoing.iter().position(|it| it.id == id) else {
        return world.book().breach(
            "protocol",
            format!("{who}: {kind:#04x} of {id}, which is not under way"),
        );
    };
    // 0x10: no subscriber yet. 0x92: it was released before.
    if reason >= 0x80 && !(kind == PUBCOMP && reason == 0x92) {
        world
            .book()
            .breach("refused", format!("{who}: {kind:#04x} with {reason:#04x}"));
    }
    if kind == PUBREC {
        outgoing[at].released = true;
        return line.send(&ack(PUBREL, id));
    }
    let it = outgoing.remove(at).expect("just found");
    let mut book = world.book();
    book.note(
        who,
        format_args!("is acknowledged <{}#{}>", it.stream, it.number),
    );
    if reason == 0x10 {
        return book.breach(
            "nobody there",
            format!(
                "<{}#{}>: PUBACK says that nobody subscribes",
                it.stream, it.number
            ),
        );
    }
    book.acknowledged(it.stream, it.number);
}

/// Waits until it is so; false if that takes longer.
pub fn wait_for_quiet(within: Duration, is_quiet: impl Fn() -> bool) -> bool {
    let until = Instant::now() + within;
    while Instant::now() < until {
        if is_quiet() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}
