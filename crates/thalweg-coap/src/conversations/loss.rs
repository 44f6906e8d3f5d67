//! Invariants over a bad network.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const SEEDS: [u64; 3] = [1, 2, 3];

fn bad_weather(lost: usize) -> Weather {
    Weather {
        lost,
        doubled: 5,
        delay: [5, 400],
    }
}

/// Counts what was asked for; answers some at once, some later, some much later.
#[derive(Default)]
struct Counting {
    done: BTreeMap<u32, usize>,
    later: Vec<(Time, ExchangeId, u32)>,
    dice: Option<Dice>,
}

fn number_of(payload: &[u8]) -> u32 {
    payload
        .first_chunk()
        .map_or(u32::MAX, |bytes| u32::from_be_bytes(*bytes))
}

impl Counting {
    fn respond(
        server: &mut ServerSide,
        exchange: ExchangeId,
        number: u32,
        now: Time,
        out: &mut Datagrams,
    ) {
        let payload = number.to_be_bytes();
        let payload = if number.is_multiple_of(5) {
            &payload[..]
        } else {
            &[]
        };
        server.respond(
            exchange,
            &Response {
                code: Code::CHANGED,
                options: &[],
                payload,
            },
            now,
            out,
        );
    }
}

impl Application for Counting {
    fn on_request(
        &mut self,
        server: &mut ServerSide,
        request: Request<'_>,
        now: Time,
        out: &mut Datagrams,
    ) {
        let number = number_of(&request.payload);
        *self.done.entry(number).or_default() += 1;
        let wait = match self.dice.get_or_insert_with(|| Dice::new(9)).below(10) {
            0..7 => return Counting::respond(server, request.exchange, number, now, out),
            7 | 8 => 30,
            _ => 5000,
        };
        self.later
            .push((now + millis(wait), request.exchange, number));
    }

    fn on_time(&mut self, server: &mut ServerSide, now: Time, out: &mut Datagrams) {
        self.later.retain(|(at, exchange, number)| {
            if *at <= now {
                Counting::respond(server, *exchange, *number, now, out);
            }
            *at > now
        });
    }

    fn next(&self) -> Time {
        self.later
            .iter()
            .map(|(at, ..)| *at)
            .min()
            .unwrap_or(Time::NEVER)
    }
}

/// `each` requests of each of `clients`, one behind the other; returns how many were answered and how many not.
fn publish(
    seed: u64,
    weather: Weather,
    clients: usize,
    each: u32,
    confirmable: bool,
) -> (usize, usize) {
    let settings = ServerSettings {
        addresses_are_proven: true,
        ..ServerSettings::default()
    };
    let mut world = World::new(
        seed,
        weather,
        settings,
        ClientSettings::default(),
        clients,
        Counting::default(),
    );
    let mut next: Vec<u32> = (0..clients as u32).map(|n| n * each).collect();
    let mut waiting: Vec<Option<(RequestId, u32)>> = vec![None; clients];
    let (mut answered, mut failed) = (BTreeSet::new(), BTreeSet::new());
    loop {
        for n in 0..clients {
            for heard in world.take_heard(n) {
                let (request, is_answer) = match heard {
                    Reply::Response(request, code, payload) => {
                        let number = waiting[n].expect("one waits").1;
                        assert_eq!(code, Code::CHANGED, "seed {seed}");
                        assert!(
                            payload.is_empty() || payload == number.to_be_bytes(),
                            "seed {seed}"
                        );
                        (request, true)
                    }
                    Reply::Notice(ClientNotice::Failed { request, .. }) => (request, false),
                    Reply::Notice(ClientNotice::Acknowledged { .. }) => continue,
                    other => panic!("seed {seed}: {other:?}"),
                };
                let (expected, number) = waiting[n].take().expect("one waits");
                assert_eq!(request, expected, "seed {seed}");
                if is_answer {
                    answered.insert(number)
                } else {
                    failed.insert(number)
                };
            }
            if waiting[n].is_none() && next[n] < (n as u32 + 1) * each {
                let payload = next[n].to_be_bytes();
                let options = [(option::URI_PATH, Value::Opaque(b"t"))];
                let request = RequestOut {
                    code: Code::PUT,
                    confirmable,
                    options: &options,
                    payload: &payload,
                    observe: false,
                };
                waiting[n] = Some((world.request(n, &request), next[n]));
                next[n] += 1;
            }
        }
        if waiting.iter().all(Option::is_none) {
            break;
        }
        assert!(
            world.step(Time::NEVER),
            "seed {seed}: all are waiting and nothing will happen"
        );
    }
    let done = &world.application.done;
    for number in &answered {
        assert_eq!(
            done.get(number),
            Some(&1),
            "seed {seed}: request {number} was answered"
        );
    }
    for number in &failed {
        assert!(
            done.get(number).is_none_or(|times| *times == 1),
            "seed {seed}: request {number} failed"
        );
    }
    assert_eq!(answered.len() + failed.len(), clients * each as usize);
    (answered.len(), failed.len())
}

#[test]
fn ten_thousand_requests_at_a_quarter_lost_are_done_once_each() {
    let (answered, failed) = publish(1, bad_weather(25), 10, 1000, true);
    // Both ways: 7/16 of tries fail, and five in a row 1.6 times in a hundred.
    assert!(
        failed < 300 && answered > 9700,
        "{answered} answered, {failed} failed"
    );
}

#[test]
fn requests_over_networks_from_good_to_awful_are_done_once_each() {
    for seed in SEEDS {
        for lost in [0, 10, 50] {
            let (_, failed) = publish(seed, bad_weather(lost), 3, 100, true);
            assert!(
                lost > 0 || failed == 0,
                "seed {seed}: {failed} failed without loss"
            );
        }
    }
}

#[test]
fn requests_that_are_not_confirmable_are_done_at_most_once() {
    for seed in SEEDS {
        let (answered, failed) = publish(seed, bad_weather(25), 4, 200, false);
        assert!(
            answered > 200 && failed > 50,
            "seed {seed}: {answered} {failed}"
        );
    }
}

/// A state that changes, and its observers.
struct Stateful {
    state: u32,
    payload_len: usize,
    delivery: Delivery,
    changes: Vec<Time>,
    relations: Vec<RelationId>,
}

impl Stateful {
    fn payload(&self) -> Vec<u8> {
        let mut payload = body(self.payload_len.max(4), u64::from(self.state));
        payload[..4].copy_from_slice(&self.state.to_be_bytes());
        payload
    }

    fn tell(&self, server: &mut ServerSide, relation: RelationId, now: Time, out: &mut Datagrams) {
        let options = [(option::MAX_AGE, Value::Uint(20))];
        let body = Arc::new(SharedBody::new(Code::CONTENT, &options, &self.payload()));
        let _ = server.notify(relation, &body, self.delivery, now, out);
    }
}

impl Application for Stateful {
    fn on_request(
        &mut self,
        server: &mut ServerSide,
        request: Request<'_>,
        now: Time,
        out: &mut Datagrams,
    ) {
        if request.observe == Some(Observe::Register) {
            let relation = server
                .observe(request.exchange, 7, None, now)
                .expect("room");
            if request.relation.is_none() {
                self.relations.push(relation);
            }
        }
        let options = [(option::MAX_AGE, Value::Uint(20))];
        let payload = self.payload();
        server.respond(
            request.exchange,
            &Response {
                code: Code::CONTENT,
                options: &options,
                payload: &payload,
            },
            now,
            out,
        );
    }

    fn on_notice(
        &mut self,
        server: &mut ServerSide,
        notice: Notice,
        now: Time,
        out: &mut Datagrams,
    ) {
        match notice {
            Notice::Ready { relation, .. } | Notice::CheckDue { relation, .. } => {
                self.tell(server, relation, now, out)
            }
            Notice::ObservationEnded { relation, .. } => {
                self.relations.retain(|other| *other != relation)
            }
            other => panic!("it answers at once: {other:?}"),
        }
    }

    fn on_time(&mut self, server: &mut ServerSide, now: Time, out: &mut Datagrams) {
        self.changes.pop();
        self.state += 1;
        for relation in self.relations.clone() {
            self.tell(server, relation, now, out);
        }
    }

    fn next(&self) -> Time {
        self.changes.last().copied().unwrap_or(Time::NEVER)
    }
}

/// A hundred changes, four observers; each must end with the last state, and never see states go back.
fn observe(seed: u64, delivery: Delivery, payload_len: usize, lost: usize) -> usize {
    let mut dice = Dice::new(seed);
    let mut at = START + Span::from_secs(1);
    let mut changes: Vec<Time> = std::iter::from_fn(|| {
        at += millis(dice.below(4000) as u64);
        Some(at)
    })
    .take(100)
    .collect();
    changes.reverse();
    let app = Stateful {
        state: 0,
        payload_len,
        delivery,
        changes,
        relations: Vec::new(),
    };
    let mut world = World::new(
        seed,
        bad_weather(lost),
        ServerSettings::default(),
        ClientSettings::default(),
        4,
        app,
    );
    let get = RequestOut {
        code: Code::GET,
        confirmable: true,
        options: &[(option::URI_PATH, Value::Opaque(b"t"))],
        payload: &[],
        observe: true,
    };
    (0..4).for_each(|n| {
        world.request(n, &get);
    });
    let mut seen = 0;
    let mut newest = [0; 4];
    // The changes take some 200 s; what was lost then is repeated or registered again.
    for _ in 0..2000 {
        world.run_for(millis(500));
        for (n, newest) in newest.iter_mut().enumerate() {
            for heard in world.take_heard(n) {
                match heard {
                    Reply::Notification(_, code, payload) => {
                        assert_eq!(code, Code::CONTENT);
                        let state = number_of(&payload);
                        assert_eq!(
                            payload[4..],
                            body(payload_len.max(4), u64::from(state))[4..],
                            "seed {seed}"
                        );
                        assert!(state >= *newest, "seed {seed}: {state} after {newest}");
                        *newest = state;
                        seen += 1;
                    }
                    // A client whose datagrams are all lost tries again, as an application would.
                    Reply::Notice(ClientNotice::Failed { .. }) | Reply::Response(..) => {
                        world.request(n, &get);
                    }
                    Reply::Notice(_) => {}
                }
            }
        }
    }
    assert_eq!(newest, [100; 4], "seed {seed}");
    seen
}

#[test]
fn observers_over_a_bad_network_end_with_the_last_state() {
    for seed in SEEDS {
        observe(seed, Delivery::Confirmable, 4, 25);
        observe(seed, Delivery::Auto, 4, 25);
    }
}

#[test]
fn observers_over_a_good_network_see_most_states() {
    let seen = observe(1, Delivery::Auto, 4, 0);
    assert!(seen > 300, "{seen}");
}

#[test]
fn large_states_go_in_blocks_and_end_with_the_last() {
    for seed in SEEDS {
        observe(seed, Delivery::Confirmable, 3000, 10);
    }
}
