//! Clients that publish, take, read and subscribe.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use thalweg_coap::Code;

use super::World;
use super::book::{Mark, Way, Wrong, payload};
use crate::coap_peer::{Answer, Ask, Peer};
use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;
use crate::crash::luck::Luck;

const QUEUE: &str = "jobs";

/// A queue without consumers until publishing has ended, so that at each kill messages are waiting: the speed of
/// consumers does not decide whether a broker that loses messages is found out.
const LATER: &str = "later";
const INTO_LATER: f64 = 0.05;

/// Between two publishes of one client, so that many clients meet in one commit and not one client in each.
const PAUSE: (f64, f64) = (0.0, 0.008);

/// Publishes on its streams, one message after the other.
pub fn publish(world: &World, streams: &[usize], mut luck: Luck) {
    let mut peer = Peer::hasty(world.coap, luck.next());
    while world.goes_on() {
        let stream = streams[luck.below(streams.len())];
        put(world, &mut peer, stream, &mut luck);
        std::thread::sleep(Duration::from_secs_f64(luck.between(PAUSE)));
    }
}

/// One message, repeated until it is answered or given up; true if it was acknowledged.
fn put(world: &World, peer: &mut Peer, stream: usize, luck: &mut Luck) -> bool {
    let began = world.life();
    let (mark, name, way) = {
        let mut book = world.book();
        (
            book.send(stream, began),
            book.streams[stream].name.clone(),
            book.streams[stream].way,
        )
    };
    let size = match way {
        // Some in blocks; what is taken from a queue in small ones, too, because a peer that the broker does not know yet
        // gets such.
        _ if luck.chance(0.03) => 1500 + luck.below(4000),
        Way::Queue if luck.chance(0.2) => 200 + luck.below(700),
        _ => 20 + luck.below(200),
    };
    let body = payload(mark, size);
    let levels: Vec<&str> = name.split('/').collect();
    let (code, path) = match way {
        Way::Queue if luck.chance(INTO_LATER) => (Code::POST, vec!["q", LATER]),
        Way::Queue => (Code::POST, vec!["q", QUEUE]),
        Way::Kept | Way::Loose => (Code::PUT, [&["ps", "data"], &levels[..]].concat()),
    };
    let ask = Ask {
        confirmable: way != Way::Loose,
        ..Ask::of(code, &path, &body)
    };
    let answer = peer.ask(&ask);
    let ended = world.life();
    let is_fine = matches!(
        answer,
        Some(Answer {
            code: Code::CREATED | Code::CHANGED,
            ..
        })
    );
    let mut book = world.book();
    book.finish(mark, ended, is_fine);
    match answer {
        _ if is_fine || way == Way::Loose => {}
        None if began == ended => {
            book.breach(Wrong::Stuck, format!("{name}: {mark:?} was not answered"))
        }
        None => {}
        // The other blocks went to a broker that is no more.
        Some(Answer {
            code: Code::REQUEST_ENTITY_INCOMPLETE,
            ..
        }) if began != ended => {}
        Some(answer) => book.breach(
            Wrong::Refused,
            format!("{name}: {mark:?}: {} {}", answer.code, answer.text()),
        ),
    }
    is_fine
}

/// Takes from the queue until all is over, and at the end from the other one, too; publishes now and then, on its own stream:
/// the answer to that says that what was acknowledged before is settled for good.
pub fn take(world: &World, own: usize, mut luck: Luck) {
    let mut peer = Peer::hasty(world.coap, luck.next());
    let mut taken: Vec<Mark> = Vec::new();
    let mut since = world.life();
    let mut is_jobs_turn = true;
    while !world.is_over() {
        let began = world.life();
        if began != since {
            (taken, since) = (Vec::new(), began);
        }
        let queue = if is_jobs_turn { QUEUE } else { LATER };
        let answer = peer.ask(&Ask::of(Code::GET, &["q", queue], &[]));
        let ended = world.life();
        match answer {
            Some(Answer {
                code: Code::CONTENT,
                payload,
                ..
            }) => {
                let mark = world.book().take(&payload, ended);
                taken.extend(mark.filter(|_| began == ended));
            }
            Some(Answer {
                code: Code::NOT_FOUND,
                ..
            }) => {
                is_jobs_turn = !(is_jobs_turn && world.is_at_rest());
                std::thread::sleep(Duration::from_millis(10));
            }
            // The other blocks were with a broker that is no more: the message is in the queue again.
            Some(Answer {
                code: Code::REQUEST_ENTITY_INCOMPLETE,
                ..
            }) if began != ended => {}
            Some(answer) => {
                world.book().breach(
                    Wrong::Refused,
                    format!("taking: {} {}", answer.code, answer.text()),
                );
            }
            None if began == ended && !world.is_over() => {
                world
                    .book()
                    .breach(Wrong::Stuck, "nobody said what is in the queue".to_owned());
            }
            None => {}
        }
        if luck.chance(0.3)
            && !world.is_at_rest()
            && put(world, &mut peer, own, &mut luck)
            && world.life() == since
        {
            world.book().settled(&taken, since);
            taken.clear();
        }
    }
}

/// Reads all values, again and again.
pub fn read(world: &World, mut luck: Luck) {
    let mut peer = Peer::hasty(world.coap, luck.next());
    while !world.is_over() {
        let streams = world.book().streams.len();
        for stream in 0..streams {
            let (floor, name) = {
                let book = world.book();
                if book.streams[stream].way != Way::Kept {
                    continue;
                }
                (book.floor(stream), book.streams[stream].name.clone())
            };
            let levels: Vec<&str> = ["ps", "data"].into_iter().chain(name.split('/')).collect();
            let answer = peer.ask(&Ask::of(Code::GET, &levels, &[]));
            let life = world.life();
            match answer {
                Some(Answer {
                    code: Code::CONTENT,
                    payload,
                    ..
                }) => {
                    world.book().read(stream, floor, Some(&payload), life);
                }
                Some(Answer {
                    code: Code::NOT_FOUND,
                    ..
                }) => world.book().read(stream, floor, None, life),
                // Later blocks are of another value than the first: read again.
                Some(_) | None => {}
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Holds a durable MQTT session that subscribes to everything at QoS 1.
pub fn subscribe(world: &World) {
    let mut had_session = false;
    while !world.is_over() {
        if let Some(()) = stay(world, &mut had_session) {
            return;
        }
        std::thread::sleep(Duration::from_millis(8));
    }
}

/// One connection, until it ends or all is over.
fn stay(world: &World, had_session: &mut bool) -> Option<()> {
    let Ok(mut stream) = TcpStream::connect(world.mqtt) else {
        return None;
    };
    stream.set_nodelay(true).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .ok()?;
    let connect = Connect::new(V5, "durable")
        .clean(false)
        .with(property::four(property::SESSION_EXPIRY, 86_400));
    if stream.write_all(&connect.bytes()).is_err() {
        return None;
    }
    let (mut unread, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    let begun = Instant::now();
    let mut is_greeted = false;
    loop {
        while let Some(packet) = read_packet(&mut unread) {
            let answer = match packet {
                Packet::Connack { flags, code: 0, .. } => {
                    is_greeted = true;
                    let is_present = flags & 1 == 1;
                    if *had_session && !is_present {
                        world
                            .book()
                            .breach(Wrong::Session, "the durable session is gone".to_owned());
                    }
                    if is_present && *had_session {
                        Vec::new()
                    } else {
                        super_subscribe()
                    }
                }
                Packet::Suback { .. } => {
                    *had_session = true;
                    world.opened.store(true, Ordering::Release);
                    Vec::new()
                }
                Packet::Publish(message) => {
                    world.book().hear(&message.payload, message.dup);
                    if message.qos == 1 {
                        ack(PUBACK, message.id)
                    } else {
                        Vec::new()
                    }
                }
                _ => Vec::new(),
            };
            if stream.write_all(&answer).is_err() {
                return None;
            }
        }
        if world.is_over() {
            return Some(());
        }
        if !is_greeted && begun.elapsed() > Duration::from_secs(15) {
            world
                .book()
                .breach(Wrong::Stuck, "no CONNACK came".to_owned());
            return None;
        }
        match stream.read(&mut chunk) {
            Ok(0) => return None,
            Ok(count) => unread.extend(&chunk[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return None,
        }
    }
}

fn super_subscribe() -> Vec<u8> {
    crate::conformance::packet::subscribe(V5, 1, &[], &[("c/#", 1)])
}

fn read_packet(unread: &mut Vec<u8>) -> Option<Packet> {
    crate::conformance::packet::read(V5, unread)
}
