//! Every strategy of a group with every combination of events: reliability, sessions that persist or do not, a member
//! that crashes with its messages, a process that ends with more or less of its journal written.

use crate::world::{Got, Packet};
use crate::world::{Hello, Who, World, staying};
use std::collections::BTreeMap;
use thalweg_kernel::{GroupStrategy, Limits};
use thalweg_model::Span;
use thalweg_mqtt::QoS;
use thalweg_testbed::disk::Loss;

const MEMBERS: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Case {
    strategy: &'static str,
    qos: QoS,
    /// Whether members' sessions outlive their connections.
    stay: bool,
    shards: u16,
    /// Whether the first member holds what it gets and loses its connection.
    crashes: bool,
    /// The process ends with so many of its last batches written, if it does.
    written: Option<usize>,
}

/// Deliveries to members, in order: the member, whether it settled then, whether the message was flagged.
#[derive(Default)]
struct Book {
    seen: BTreeMap<String, Vec<(usize, bool, bool)>>,
    /// Acknowledgements to the publisher hold.
    kept: Vec<String>,
    /// And those from before a restart that members' sessions did not outlive.
    excused: Vec<String>,
}

impl Book {
    fn note(&mut self, member: usize, answers: bool, got: Vec<Got>) {
        for got in got {
            let text = String::from_utf8(got.payload).expect("text");
            self.seen
                .entry(text)
                .or_default()
                .push((member, answers, got.dup));
        }
    }

    fn check(&self, case: &Case) {
        for (text, seen) in &self.seen {
            let first = seen[0].0;
            if case.qos == QoS::ExactlyOnce {
                assert!(
                    seen.iter().all(|it| it.0 == first),
                    "{case:?}: {text} went to two members: {seen:?}"
                );
            }
            if case.qos == QoS::AtMostOnce {
                assert_eq!(seen.len(), 1, "{case:?}: {text}");
            }
            // That it was sent is written lazily at least once, so a restart may have lost that.
            let is_known = case.qos == QoS::ExactlyOnce || case.written.is_none();
            let unflagged = seen.iter().filter(|(_, _, dup)| !dup).count();
            assert!(
                unflagged <= 1 || !is_known,
                "{case:?}: {text} came again and was not flagged: {seen:?}"
            );
        }
        for text in self.kept.iter().filter(|text| !self.excused.contains(text)) {
            let seen = self.seen.get(text).map_or(&[][..], Vec::as_slice);
            // Exactly-once messages stay with the member that received them.
            let is_done =
                |(_, answers, _): &(usize, bool, bool)| *answers || case.qos == QoS::ExactlyOnce;
            assert!(
                seen.iter().any(is_done),
                "{case:?}: {text} was acknowledged and is lost: {seen:?}"
            );
        }
    }
}

struct Run {
    case: Case,
    world: World,
    names: Vec<String>,
    members: Vec<Who>,
    answers: [bool; MEMBERS],
    publisher: Who,
    book: Book,
    number: u32,
}

impl Run {
    fn new(case: Case) -> Run {
        let group_strategy = GroupStrategy::named(case.strategy).expect("its own name");
        let mut world = World::with_journal(
            case.shards,
            Limits {
                group_strategy,
                ..Limits::default()
            },
        );
        let names = (0..MEMBERS)
            .map(|at| world.name_on(at % usize::from(case.shards), &format!("m{at}")))
            .collect();
        let publisher = world.connect("p");
        let answers = [!case.crashes, true, true];
        let mut run = Run {
            case,
            world,
            names,
            members: Vec::new(),
            answers,
            publisher,
            book: Book::default(),
            number: 0,
        };
        run.members = (0..MEMBERS).map(|at| run.join(at)).collect();
        run
    }

    fn join(&mut self, at: usize) -> Who {
        let hello = if self.case.stay {
            staying()
        } else {
            Hello::default()
        };
        let (who, present) = self.world.connect_with(&self.names[at], &hello);
        self.world.answer(who, self.answers[at]);
        if !present {
            self.world.subscribe(who, "$share/g/t", self.case.qos);
        }
        who
    }

    fn publish(&mut self, count: u32) {
        for _ in 0..count {
            let text = self.next();
            self.world
                .publish(self.publisher, "t", &text, self.case.qos);
            self.keep(text);
        }
        self.rest();
    }

    fn next(&mut self) -> String {
        self.number += 1;
        self.number.to_string()
    }

    fn keep(&mut self, text: String) {
        if self.case.qos > QoS::AtMostOnce {
            self.book.kept.push(text);
        }
    }

    /// Time for the awaited member, and for held messages.
    fn rest(&mut self) {
        for _ in 0..4 {
            self.world.wait(Span::from_millis(300));
        }
        self.note();
    }

    fn note(&mut self) {
        for (at, who) in self.members.iter().enumerate() {
            let got = self.world.messages(*who);
            self.book.note(at, self.answers[at], got);
        }
    }

    fn crash(&mut self) {
        self.world.lose(self.members[0]);
        self.answers[0] = true;
        self.rest();
        self.publish(4);
        self.members[0] = self.join(0);
        self.rest();
    }

    fn restart(&mut self, written: usize) {
        self.world.stop_disk();
        while self.world.heard(self.publisher).is_some() {}
        let sent: Vec<String> = (0..4).map(|_| self.next()).collect();
        for text in &sent {
            self.world.send(self.publisher, "t", text, self.case.qos);
        }
        self.world.bed.write_batches(written);
        if written > 1 {
            self.world.bed.sync();
        }
        self.world.rest();
        self.note();
        let mut sent = sent.into_iter();
        while let Some(said) = self.world.heard(self.publisher) {
            let is_kept = match said {
                Packet::PubAck { reason, .. } | Packet::PubRec { reason, .. } => !reason.is_error(),
                _ => continue,
            };
            let text = sent.next().expect("no more answers than messages");
            if is_kept {
                self.keep(text);
            }
        }
        if !self.case.stay {
            self.book.excused = self.book.kept.clone();
        }
        self.world.restart_with(Loss::Process, self.case.shards);
        self.note();
        self.answers = [true; MEMBERS];
        self.members = (0..MEMBERS).map(|at| self.join(at)).collect();
        self.publisher = self.world.connect("p");
        self.rest();
    }
}

fn run(case: Case) {
    let mut run = Run::new(case);
    run.publish(9);
    if case.crashes {
        run.crash();
    }
    if let Some(written) = case.written {
        run.restart(written);
    }
    run.publish(6);
    run.book.check(&case);
    run.world.bed.check();
}

#[test]
fn whatever_the_strategy_nothing_acknowledged_is_lost_and_nothing_exactly_once_comes_twice() {
    for strategy in GroupStrategy::WORDS.iter().copied() {
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            for (stay, shards) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
                for crashes in [false, true] {
                    for written in [None, Some(0), Some(1), Some(3), Some(usize::MAX)] {
                        run(Case {
                            strategy,
                            qos,
                            stay,
                            shards,
                            crashes,
                            written,
                        });
                    }
                }
            }
        }
    }
}
