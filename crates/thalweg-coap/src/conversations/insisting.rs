//! Requirements of the common middleware beyond the specifications' defaults: observers that need every change, timers
//! that follow the round trip, and messages without an answer.

use super::*;

fn settings() -> ServerSettings {
    ServerSettings {
        addresses_are_proven: true,
        ..ServerSettings::default()
    }
}

#[test]
fn an_insistent_notification_is_repeated_sixteen_times_and_never_replaced() {
    let mut bench = Bench::new(settings());
    let relation = bench.observe(0, &[1]);
    bench.out.clear();
    assert_eq!(
        bench.notify(relation, b"one", Delivery::Insistent),
        Notified::Sent { confirmable: true }
    );
    assert_eq!(
        bench.notify(relation, b"two", Delivery::Insistent),
        Notified::Busy
    );
    // Past MAX_RETRANSMIT and the 93 s in which any other message is given up.
    bench.wait(millis(100_000));
    assert_eq!(bench.notices(), [], "it is still on its way");
    let sent = bench.sent(0);
    assert!(sent.len() > 5, "{}", sent.len());
    assert!(
        sent.iter().all(|datagram| datagram == &sent[0]),
        "the same, under its id"
    );
    bench.wait(millis(1_000_000));
    let again = bench.sent(0).len();
    assert_eq!(sent.len() + again, usize::from(Delivery::INSISTING));
    assert!(matches!(
        bench.notices()[..],
        [Notice::ObservationEnded {
            why: ObservationEnd::Silent,
            ..
        }]
    ));
}

#[test]
fn what_waits_behind_an_insistent_notification_may_leave_when_it_is_acknowledged() {
    let mut bench = Bench::new(settings());
    let relation = bench.observe(0, &[1]);
    bench.out.clear();
    let _ = bench.notify(relation, b"one", Delivery::Insistent);
    assert_eq!(
        bench.notify(relation, b"two", Delivery::Insistent),
        Notified::Busy
    );
    bench.wait(millis(50_000));
    bench.answer_all(0, Type::Acknowledgement);
    assert_eq!(
        bench.notices(),
        [Notice::Ready {
            relation,
            cookie: 0
        }]
    );
    assert_eq!(
        bench.notify(relation, b"two", Delivery::Insistent),
        Notified::Sent { confirmable: true }
    );
}

/// A first state, then changes; every registration gets the newest one, and waiting changes follow.
#[derive(Default)]
struct Counting {
    relation: Option<RelationId>,
    waiting: std::collections::VecDeque<Vec<u8>>,
    newest: Vec<u8>,
}

impl Counting {
    fn pump(&mut self, server: &mut ServerSide, now: Time, out: &mut Datagrams) {
        let Some(relation) = self.relation else {
            return;
        };
        while let Some(first) = self.waiting.front() {
            let body = Arc::new(SharedBody::new(Code::CONTENT, &[], first));
            match server.notify(relation, &body, Delivery::Insistent, now, out) {
                Notified::Sent { .. } => drop(self.waiting.pop_front()),
                Notified::Busy => return,
                Notified::Gone => panic!("the observation has ended"),
            }
        }
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
        self.relation = server.observe(request.exchange, 1, None, now).ok();
        let response = Response {
            code: Code::CONTENT,
            options: &[(option::MAX_AGE, Value::Uint(1))],
            payload: &self.newest,
        };
        server.respond(request.exchange, &response, now, out);
    }

    fn on_notice(
        &mut self,
        server: &mut ServerSide,
        notice: Notice,
        now: Time,
        out: &mut Datagrams,
    ) {
        if matches!(notice, Notice::Ready { .. }) {
            match self.waiting.is_empty() {
                true => server.nothing_to_notify(self.relation.expect("there is one")),
                false => self.pump(server, now, out),
            }
        }
    }
}

/// A quarter of everything is lost, Max-Age is a second, and so the observation is registered again and again while changes are
/// under way: each comes once, in order, and no state of a registration comes between.
#[test]
fn who_keeps_all_hears_every_change_once_and_in_order() {
    keeps_all(1);
}

/// In three blocks each: the next body does not take the place of one of which blocks are still asked for.
#[test]
fn who_keeps_all_hears_every_change_in_blocks() {
    keeps_all(2500);
}

fn keeps_all(bytes: usize) {
    let weather = Weather {
        lost: 25,
        doubled: 5,
        delay: [5, 20],
    };
    let quick = Transmission {
        ack_timeout: millis(200),
        max_retransmit: 10,
        ..Transmission::default()
    };
    // Ten repetitions take longer than the default.
    let fetch_within = Span::from_secs(600);
    let server = ServerSettings {
        transmission: quick.clone(),
        fetch_within,
        ..settings()
    };
    let client = ClientSettings {
        transmission: quick,
        ..ClientSettings::default()
    };
    for seed in 1..=10 {
        let mut world = World::new(
            seed,
            weather,
            server.clone(),
            client.clone(),
            1,
            Counting::default(),
        );
        world.weather.lost = 0;
        let get = RequestOut {
            code: Code::GET,
            confirmable: true,
            options: &[],
            payload: &[],
            observe: true,
        };
        let request = world.request(0, &get);
        world.client(0, |client, _, _| client.keep_all(request));
        world.run_for(millis(500));
        world.weather.lost = weather.lost;
        for n in 0..100_u8 {
            world.serve(|app, server, now, out| {
                app.newest = vec![n; bytes];
                app.waiting.push_back(vec![n; bytes]);
                app.pump(server, now, out);
            });
            world.run_for(millis(700));
        }
        world.run_for(millis(2_000_000));
        let told = world.take_heard(0).into_iter();
        let told: Vec<Vec<u8>> = told
            .filter_map(|heard| {
                if let Reply::Notification(_, _, body) = heard {
                    Some(body)
                } else {
                    None
                }
            })
            .collect();
        // The first is the state at the first registration: nothing.
        let expected: Vec<Vec<u8>> = std::iter::once(Vec::new())
            .chain((0..100).map(|n| vec![n; bytes]))
            .collect();
        let short = |all: &[Vec<u8>]| {
            all.iter()
                .map(|body| (body.len(), body.first().copied()))
                .collect::<Vec<_>>()
        };
        assert_eq!(short(&told), short(&expected), "seed {seed}");
        assert_eq!(told, expected, "seed {seed}");
    }
}

#[test]
fn what_is_told_has_no_token_and_an_answer_to_it_is_passed_over() {
    let mut client = ClientSide::new(Arc::new(ClientSettings::default()), 9);
    let (mut out, mut datagrams) = (Vec::new(), Datagrams::new());
    let options = [
        (option::URI_PATH, Value::Opaque(b"t")),
        (option::NO_RESPONSE, Value::Uint(26)),
    ];
    client
        .tell(server_address(), Code::PUT, &options, b"x", START, &mut out)
        .expect("there is room");
    let told = decoded(&out);
    assert_eq!(
        (told.kind, told.token.len(), told.payload),
        (Type::NonConfirmable, 0, &b"x"[..])
    );
    assert_eq!(client.unanswered(server_address()), out.len() as u32);
    // A server that does not know No-Response.
    let answer = message(Type::NonConfirmable, Code::CHANGED, 77, &[], |_| {});
    assert_eq!(
        client.handle_datagram(server_address(), &answer, START, &mut datagrams),
        None
    );
    assert!(datagrams.is_empty(), "it is not rejected");
    assert_eq!(
        (client.requests(), client.unanswered(server_address())),
        (0, 0)
    );
    let large = client.tell(
        server_address(),
        Code::PUT,
        &options,
        &[0; 1025],
        START,
        &mut out,
    );
    assert_eq!(large, Err(RequestRefused::TooLarge));
}

#[test]
fn a_peer_without_a_sign_of_life_is_told_no_more_than_the_allowance() {
    let settings = ClientSettings {
        probing_allowance: 500,
        ..ClientSettings::default()
    };
    let mut client = ClientSide::new(Arc::new(settings), 9);
    let mut out = Vec::new();
    let mut tell = |client: &mut ClientSide, now| {
        client.tell(server_address(), Code::PUT, &[], &[0; 95], now, &mut out)
    };
    for _ in 0..5 {
        assert_eq!(tell(&mut client, START), Ok(()));
    }
    assert_eq!(tell(&mut client, START), Err(RequestRefused::Probing));
    // PROBING_RATE: a byte a second.
    assert_eq!(tell(&mut client, START + Span::from_secs(100)), Ok(()));
    assert_eq!(out.len(), 600);
}

/// Round trips of 20 ms: a lost message is sent again after a tenth of a second, where RFC 7252 waits for two.
#[test]
fn first_waits_follow_the_round_trip() {
    let adaptive = Transmission {
        adaptive_least: Some(millis(100)),
        ..Transmission::default()
    };
    let client = ClientSettings {
        transmission: adaptive,
        ..ClientSettings::default()
    };
    let weather = Weather {
        lost: 0,
        doubled: 0,
        delay: [10, 10],
    };
    let mut world = World::new(3, weather, settings(), client, 1, Echoing);
    let put = RequestOut {
        code: Code::PUT,
        confirmable: true,
        options: &[],
        payload: b"x",
        observe: false,
    };
    for _ in 0..10 {
        world.request(0, &put);
        world.run_for(millis(100));
    }
    assert_eq!(world.clients[0].take_round_trip(), Some(millis(20)));
    assert_eq!(world.clients[0].retransmissions(), 0);
    world.weather.lost = 100;
    world.request(0, &put);
    world.run_for(millis(160));
    assert_eq!(world.clients[0].retransmissions(), 1);
    assert_eq!(world.clients[0].confirmable(), 11);
    world.weather.lost = 0;
    world.take_heard(0);
    world.run_for(millis(400));
    assert!(matches!(world.take_heard(0)[..], [Reply::Response(..)]));
    // A repeated message gives no sample of the round trip (Karn).
    assert_eq!(world.clients[0].take_round_trip(), None);
}

/// Round trips of 0 to 40 ms and a quarter lost: an answer to a repetition often comes sooner than half the mean. Taken for a
/// late one to the first, it measures the wait before the repetition, and waits grow without end.
#[test]
fn first_waits_do_not_follow_themselves() {
    for seed in 1..=10 {
        let adaptive = Transmission {
            nstart: 16,
            adaptive_least: Some(millis(100)),
            ..Transmission::default()
        };
        let client = ClientSettings {
            transmission: adaptive,
            ..ClientSettings::default()
        };
        let weather = Weather {
            lost: 0,
            doubled: 0,
            delay: [0, 20],
        };
        let mut world = World::new(seed, weather, settings(), client, 1, Echoing);
        let put = RequestOut {
            code: Code::PUT,
            confirmable: true,
            options: &[],
            payload: b"x",
            observe: false,
        };
        world.request(0, &put);
        world.run_for(millis(100));
        world.weather.lost = 25;
        for _ in 0..300 {
            world.request(0, &put);
            world.run_for(millis(200));
        }
        world.run_for(millis(5_000));
        let answers = world
            .take_heard(0)
            .iter()
            .filter(|heard| matches!(heard, Reply::Response(..)))
            .count();
        assert!(
            answers >= 297,
            "seed {seed}: {answers} of 301 were answered"
        );
    }
}

/// Observations of one client in a plant: values come round, and a quarter of everything is lost.
struct Plant {
    relations: Vec<Option<RelationId>>,
    /// Of each that has ended: when, and why.
    ended: Vec<(Time, u64, ObservationEnd)>,
    waiting: Vec<std::collections::VecDeque<Vec<u8>>>,
    delivery: Delivery,
}

impl Plant {
    fn new(observations: usize, delivery: Delivery) -> Self {
        let waiting = vec![Default::default(); observations];
        Plant {
            relations: vec![None; observations],
            ended: Vec::new(),
            waiting,
            delivery,
        }
    }

    fn changes(&mut self, at: usize, body: Vec<u8>) {
        if self.delivery != Delivery::Insistent {
            self.waiting[at].clear();
        }
        self.waiting[at].push_back(body);
    }

    fn pump(&mut self, at: usize, server: &mut ServerSide, now: Time, out: &mut Datagrams) {
        let Some(relation) = self.relations[at] else {
            return;
        };
        while let Some(first) = self.waiting[at].front() {
            let body = Arc::new(SharedBody::new(Code::CONTENT, &[], first));
            match server.notify(relation, &body, self.delivery, now, out) {
                Notified::Sent { .. } => drop(self.waiting[at].pop_front()),
                Notified::Busy => return,
                Notified::Gone => panic!("it was told that the observation has ended"),
            }
        }
    }
}

impl Application for Plant {
    fn on_request(
        &mut self,
        server: &mut ServerSide,
        request: Request<'_>,
        now: Time,
        out: &mut Datagrams,
    ) {
        let at = usize::from(request.options.get(option::URI_PATH).expect("a path")[0]);
        self.relations[at] = server.observe(request.exchange, at as u64, None, now).ok();
        server.respond(request.exchange, &Response::of(Code::CONTENT), now, out);
    }

    fn on_notice(
        &mut self,
        server: &mut ServerSide,
        notice: Notice,
        now: Time,
        out: &mut Datagrams,
    ) {
        match notice {
            Notice::Ready { relation, cookie } => match self.waiting[cookie as usize].is_empty() {
                true => server.nothing_to_notify(relation),
                false => self.pump(cookie as usize, server, now, out),
            },
            Notice::ObservationEnded { cookie, why, .. } => {
                self.relations[cookie as usize] = None;
                self.ended.push((now, cookie, why));
            }
            _ => {}
        }
    }
}

#[test]
fn every_change_comes_soon_whatever_is_lost() {
    comes_soon(Delivery::Insistent, 60, [0, 2]);
}

#[test]
fn states_in_blocks_come_soon_whatever_is_lost() {
    comes_soon(Delivery::Confirmable, 2000, [50, 52]);
}

/// Five values a second over fifty observations, for five minutes: none is without news for thirty seconds.
fn comes_soon(delivery: Delivery, bytes: usize, delay: [usize; 2]) {
    let adaptive = Transmission {
        nstart: 64,
        adaptive_least: Some(millis(100)),
        ..Transmission::default()
    };
    // Addresses have to be proven: while messages are lost, so are the questions.
    let server = ServerSettings {
        transmission: adaptive.clone(),
        ..ServerSettings::default()
    };
    let client = ClientSettings {
        transmission: Transmission {
            nstart: 16,
            ..adaptive
        },
        ..ClientSettings::default()
    };
    for seed in 1..=10 {
        let weather = Weather {
            lost: 0,
            doubled: 0,
            delay,
        };
        let mut world = World::new(
            seed,
            weather,
            server.clone(),
            client.clone(),
            1,
            Plant::new(50, delivery),
        );
        let observe = |world: &mut World<Plant>, at: usize| {
            let path = [at as u8];
            let options = [(option::URI_PATH, Value::Opaque(&path))];
            let get = RequestOut {
                code: Code::GET,
                confirmable: true,
                options: &options,
                payload: &[],
                observe: true,
            };
            let request = world.request(0, &get);
            if delivery == Delivery::Insistent {
                world.client(0, |client, _, _| client.keep_all(request));
            }
            request
        };
        let mut requests: Vec<_> = (0..50).map(|at| observe(&mut world, at)).collect();
        world.run_for(millis(4_000));
        let _ = world.take_heard(0);
        world.weather.lost = 25;
        let mut heard = [0; 50];
        for n in 0..1_500_u32 {
            let at = n as usize % 50;
            world.serve(|app, server, now, out| {
                let mut body = vec![7; bytes];
                body[..4].copy_from_slice(&n.to_be_bytes());
                app.changes(at, body);
                app.pump(at, server, now, out);
            });
            world.run_for(millis(200));
            for news in world.take_heard(0) {
                let of = |request| requests.iter().position(|it| *it == request);
                match news {
                    Reply::Notification(request, _, body) if body.len() >= 4 => {
                        let at = of(request).expect("one of ours");
                        heard[at] = u32::from_be_bytes([body[0], body[1], body[2], body[3]]);
                    }
                    Reply::Notice(ClientNotice::Failed { request, .. }) => {
                        let at = of(request).expect("one of ours");
                        requests[at] = observe(&mut world, at);
                    }
                    _ => {}
                }
            }
            let late: Vec<usize> = (0..50).filter(|at| heard[*at] + 150 < n).collect();
            assert!(
                late.is_empty(),
                "seed {seed} at {n}: {late:?}; ended: {:?}",
                world.application.ended
            );
        }
    }
}

/// Delays of 200 changes, four seconds apart, at an observer of every change that loses a quarter of all datagrams each
/// way; in milliseconds, sorted.
fn latenesses(transmission: &Transmission, seed: u64) -> Vec<u64> {
    let server = ServerSettings {
        transmission: transmission.clone(),
        ..ServerSettings::default()
    };
    let weather = Weather {
        lost: 0,
        doubled: 0,
        delay: [25, 30],
    };
    let mut world = World::new(
        seed,
        weather,
        server,
        ClientSettings::default(),
        1,
        Plant::new(1, Delivery::Insistent),
    );
    let options = [(option::URI_PATH, Value::Opaque(&[0]))];
    let get = RequestOut {
        code: Code::GET,
        confirmable: true,
        options: &options,
        payload: &[],
        observe: true,
    };
    let observation = world.request(0, &get);
    world.client(0, |client, _, _| client.keep_all(observation));
    world.run_for(millis(4_000));
    let _ = world.take_heard(0);
    world.weather.lost = 25;
    let (mut made, mut late) = (Vec::new(), Vec::new());
    while late.len() < 200 && made.len() < 2_000 {
        if made.len() < 200 {
            let number = made.len() as u32;
            world.serve(|app, server, now, out| {
                app.changes(0, number.to_be_bytes().to_vec());
                app.pump(0, server, now, out);
            });
        }
        made.push(world.now);
        for _ in 0..400 {
            world.run_for(millis(10));
            for news in world.take_heard(0) {
                let Reply::Notification(_, _, body) = news else {
                    continue;
                };
                let Ok(number) = body.try_into().map(u32::from_be_bytes) else {
                    continue;
                };
                assert_eq!(
                    number as usize,
                    late.len(),
                    "seed {seed}: each once, in order"
                );
                late.push(world.now.since(made[number as usize]).nanos() / 1_000_000);
            }
        }
    }
    late.sort_unstable();
    late
}

/// One confirmable notification at a time, as RFC 7252 has it (NSTART 1): only the waits differ.
#[test]
fn an_observer_behind_a_lossy_link_is_not_late_by_minutes() {
    let plain = Transmission::default();
    let adaptive = Transmission {
        adaptive_least: Some(millis(100)),
        ..plain.clone()
    };
    let of = |transmission: &Transmission| {
        let runs: Vec<Vec<u64>> = (1..=10)
            .map(|seed| latenesses(transmission, seed))
            .collect();
        assert!(
            runs.iter().all(|run| run.len() == 200),
            "{:?}",
            runs.iter().map(Vec::len).collect::<Vec<_>>()
        );
        let mut all = runs.concat();
        all.sort_unstable();
        (all[all.len() / 2], all[all.len() - 1])
    };
    let ((slow, slowest), (quick, quickest)) = (of(&plain), of(&adaptive));
    println!(
        "median and worst lateness: {slow} and {slowest} ms, adaptive {quick} and {quickest} ms"
    );
    assert!(slow > 10_000, "{slow}");
    assert!(quick < 1_000 && quickest < 120_000, "{quick} {quickest}");
}
