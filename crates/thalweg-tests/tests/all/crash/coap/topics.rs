//! One who makes topics as the pubsub draft has it, changes and deletes them, and looks what they are.

use std::time::Duration;

use thalweg_coap::Code;
use thalweg_coap::pubsub::Configuration;

use super::World;
use super::book::Wrong;
use crate::coap_peer::{Answer, Ask, Peer};
use crate::crash::luck::Luck;

/// As many as are known at once.
const TOPICS: usize = 12;

/// State of a topic.
#[derive(Debug)]
struct Topic {
    name: String,
    /// Its id, once its making was answered.
    id: Option<String>,
    /// Possible values of max-subscribers: the last acknowledged, and those that may have been set since.
    most: Vec<u32>,
    /// Its end was asked for and may have come.
    is_ending: bool,
}

/// `None` without an answer, or from a broker that has just started and has not loaded its topics.
fn ask(peer: &mut Peer, code: Code, path: &[&str], body: &[u8]) -> Option<Answer> {
    peer.ask(&Ask::of(code, path, body))
        .filter(|answer| answer.code != Code::SERVICE_UNAVAILABLE)
}

/// Makes, changes, deletes and looks, until there is nothing more to publish; then looks at all once more.
pub fn keep(world: &World, mut luck: Luck) {
    let mut peer = Peer::hasty(world.coap, luck.next());
    let mut topics: Vec<Topic> = Vec::new();
    let mut made = 0;
    while world.goes_on() {
        match (luck.below(6), topics.len()) {
            (0, _) | (_, 0) if topics.len() < TOPICS => {
                made += 1;
                topics.extend(make(world, &mut peer, made));
            }
            (0, _) | (1, TOPICS) => {
                let at = luck.below(topics.len());
                delete(world, &mut peer, &mut topics, at);
            }
            (1, _) => {
                let at = luck.below(topics.len());
                change(
                    world,
                    &mut peer,
                    &mut topics[at],
                    1 + luck.below(1000) as u32,
                );
            }
            _ => {
                let at = luck.below(topics.len());
                look(world, &mut peer, &mut topics, at);
            }
        }
        std::thread::sleep(Duration::from_secs_f64(luck.between((0.0, 0.01))));
    }
    for at in (0..topics.len()).rev() {
        look(world, &mut peer, &mut topics, at);
    }
}

/// A topic whose creation was answered. If it was not, the topic is abandoned, and its name not used again.
fn make(world: &World, peer: &mut Peer, number: u32) -> Option<Topic> {
    let name = format!("topic{number}");
    let body = [
        &[0xa3, 0x00][..],
        &text(&name),
        &[0x02],
        &text("core.ps.data"),
        &[0x06],
        &uint(number),
    ]
    .concat();
    let began = world.life();
    let answer = ask(peer, Code::POST, &["ps"], &body);
    let mut book = world.book();
    book.topics += 1;
    match answer {
        Some(Answer {
            code: Code::CREATED,
            location,
            ..
        }) => {
            return Some(Topic {
                name,
                id: location.last().cloned(),
                most: vec![number],
                is_ending: false,
            });
        }
        // A broker before this one has made it and was killed before it could say so.
        Some(Answer {
            code: Code::CONFLICT,
            ..
        }) if began != world.life() => {}
        Some(answer) => book.breach(
            Wrong::Refused,
            format!("{name}: {} {}", answer.code, answer.text()),
        ),
        None => {}
    }
    None
}

fn change(world: &World, peer: &mut Peer, topic: &mut Topic, most: u32) {
    let Some(id) = topic.id.clone() else { return };
    if topic.is_ending {
        return;
    }
    topic.most.push(most);
    let body = [&[0xa1, 0x06][..], &uint(most)].concat();
    let answer = ask(peer, Code::IPATCH, &["ps", &id], &body);
    world.book().topics += 1;
    match answer {
        Some(Answer {
            code: Code::CHANGED,
            ..
        }) => topic.most = vec![most],
        Some(answer) => {
            let story = format!(
                "{topic:?} cannot be changed: {} {}",
                answer.code,
                answer.text()
            );
            world.book().breach(Wrong::Topic, story);
        }
        None => {}
    }
}

fn delete(world: &World, peer: &mut Peer, topics: &mut Vec<Topic>, at: usize) {
    let Some(id) = topics[at].id.clone() else {
        return;
    };
    let was_ending = std::mem::replace(&mut topics[at].is_ending, true);
    let began = world.life();
    let answer = ask(peer, Code::DELETE, &["ps", &id], &[]);
    world.book().topics += 1;
    match answer {
        Some(Answer {
            code: Code::DELETED,
            ..
        }) => {
            let gone = topics.swap_remove(at);
            // It must stay deleted; its id is not used again.
            let answer = ask(peer, Code::GET, &["ps", &id], &[]);
            if let Some(answer) = answer.filter(|answer| answer.code != Code::NOT_FOUND) {
                world.book().breach(
                    Wrong::Topic,
                    format!("{gone:?} was deleted and is there: {}", answer.code),
                );
            }
        }
        Some(Answer {
            code: Code::NOT_FOUND,
            ..
        }) if was_ending || began != world.life() => {
            topics.swap_remove(at);
        }
        Some(answer) => {
            let topic = topics.swap_remove(at);
            let story = format!(
                "{topic:?} cannot be deleted: {} {}",
                answer.code,
                answer.text()
            );
            world.book().breach(Wrong::Topic, story);
        }
        None => {}
    }
}

fn look(world: &World, peer: &mut Peer, topics: &mut Vec<Topic>, at: usize) {
    let Some(id) = topics[at].id.clone() else {
        return;
    };
    let answer = ask(peer, Code::GET, &["ps", &id], &[]);
    let mut book = world.book();
    book.topics += 1;
    let topic = &topics[at];
    match answer {
        Some(Answer {
            code: Code::CONTENT,
            payload,
            ..
        }) => {
            let found = Configuration::decode(&payload).ok();
            let is_right = found.as_ref().is_some_and(|found| {
                *found.name == *topic.name
                    && found
                        .max_subscribers
                        .is_some_and(|most| topic.most.contains(&most))
            });
            if !is_right {
                book.breach(Wrong::Topic, format!("{topic:?} is {found:?}"));
            }
        }
        Some(Answer {
            code: Code::NOT_FOUND,
            ..
        }) if topic.is_ending => {
            topics.swap_remove(at);
        }
        Some(answer) => {
            book.breach(
                Wrong::Topic,
                format!("{topic:?}: {} {}", answer.code, answer.text()),
            );
            topics.swap_remove(at);
        }
        None => {}
    }
}

/// A text of CBOR, of up to 255 bytes.
fn text(text: &str) -> Vec<u8> {
    [
        &[0x78, u8::try_from(text.len()).expect("a short text")],
        text.as_bytes(),
    ]
    .concat()
}

/// A number of CBOR.
fn uint(number: u32) -> Vec<u8> {
    [&[0x1a][..], &number.to_be_bytes()].concat()
}
