//! Observers: RFC 7641 §3 and §4.

use super::*;

fn settings() -> ServerSettings {
    ServerSettings {
        addresses_are_proven: true,
        ..ServerSettings::default()
    }
}

fn sequence_of(datagram: &[u8]) -> Sequence {
    Sequence::new(
        decoded(datagram)
            .options
            .uint(option::OBSERVE)
            .expect("a notification"),
    )
}

/// An observer of whom a round trip of 10 ms is known.
fn measured(bench: &mut Bench, n: usize) -> RelationId {
    let relation = bench.observe(n, &[1]);
    bench.out.clear();
    assert_eq!(
        bench.notify(relation, b"first", Delivery::Auto),
        Notified::Sent { confirmable: true }
    );
    bench.wait(millis(10));
    assert_eq!(bench.answer_all(n, Type::Acknowledgement), 1);
    relation
}

#[test]
fn a_registration_is_answered_with_observe_and_renewed_with_the_same_token() {
    let mut bench = Bench::new(settings());
    let relation = bench.observe(0, &[1]);
    let first = bench.sent(0).remove(0);
    assert_eq!(decoded(&first).kind, Type::Acknowledgement);
    let again = bench.observe(0, &[1]);
    assert_eq!(again, relation);
    let second = bench.sent(0).remove(0);
    assert!(sequence_of(&second).is_newer_than(sequence_of(&first), 0));
    assert_ne!(bench.observe(0, &[2]), relation);
    assert_eq!(bench.server.relations(), 2);
    assert_eq!(
        bench.server.relation(relation).map(|state| state.cookie),
        Some(0)
    );
}

#[test]
fn a_registration_that_is_not_accepted_or_refused_is_a_plain_get() {
    let mut bench = Bench::new(settings());
    let get = message(Type::Confirmable, Code::GET, 7, &[1], |encoder| {
        encoder.uint(option::OBSERVE, 0);
    });
    let request = bench.feed(0, &get).expect("a request");
    assert_eq!(request.observe, Some(Observe::Register));
    bench.respond(request.exchange, &Response::of(Code::CONTENT));
    assert!(!decoded(&bench.sent(0)[0]).options.has(option::OBSERVE));
    let request = bench.feed(0, &get).expect("a request");
    let relation = bench
        .server
        .observe(request.exchange, 5, None, bench.now)
        .expect("room");
    bench.respond(request.exchange, &Response::of(Code::NOT_FOUND));
    assert!(!decoded(&bench.sent(0)[0]).options.has(option::OBSERVE));
    let peer = request.peer;
    let ended = Notice::ObservationEnded {
        relation,
        cookie: 5,
        peer,
        why: ObservationEnd::Refused,
    };
    assert_eq!(
        (bench.notices(), bench.server.relations()),
        (vec![ended], 0)
    );
    let put = put(Type::Confirmable, 8, b"");
    let request = bench.feed(0, &put).expect("a request");
    assert_eq!(
        bench.server.observe(request.exchange, 5, None, bench.now),
        Err(ObserveRefused::NotAsked)
    );
}

#[test]
fn deregistration_ends_it_without_a_notice() {
    let mut bench = Bench::new(settings());
    let relation = bench.observe(3, &[1]);
    let get = message(Type::Confirmable, Code::GET, 7, &[1], |encoder| {
        encoder.uint(option::OBSERVE, 1);
    });
    let request = bench.feed(3, &get).expect("a request");
    assert_eq!(
        (request.observe, request.relation),
        (Some(Observe::Deregister), Some((relation, 3)))
    );
    bench.respond(request.exchange, &Response::of(Code::CONTENT));
    assert_eq!((bench.notices(), bench.server.relations()), (vec![], 0));
    assert_eq!(bench.notify(relation, b"x", Delivery::Auto), Notified::Gone);
}

#[test]
fn a_reset_ends_it_whatever_kind_the_notification_was() {
    for delivery in [Delivery::Confirmable, Delivery::NonConfirmable] {
        let mut bench = Bench::new(settings());
        let relation = bench.observe(0, &[1]);
        let other = bench.observe(0, &[2]);
        bench.out.clear();
        assert!(matches!(
            bench.notify(relation, b"x", delivery),
            Notified::Sent { .. }
        ));
        let sent = bench.sent(0).remove(0);
        let mut reset = Vec::new();
        empty(&mut reset, Type::Reset, decoded(&sent).id);
        bench.feed(0, &reset);
        let notices = bench.notices();
        assert!(
            matches!(notices[..], [Notice::ObservationEnded { relation: r, why: ObservationEnd::Reset, .. }] if r == relation),
            "{delivery:?}: {notices:?}"
        );
        assert!(bench.server.relation(other).is_some());
        assert_eq!(
            bench.server.poll_timeout(),
            START + Span::from_secs(86_400),
            "only the check of the other"
        );
    }
}

#[test]
fn a_reset_of_something_else_ends_nothing() {
    let mut bench = Bench::new(settings());
    let relation = bench.observe(0, &[1]);
    assert!(matches!(
        bench.notify(relation, b"x", Delivery::NonConfirmable),
        Notified::Sent { .. }
    ));
    let id = decoded(bench.out.last()).id;
    for other in [id.wrapping_add(1), id.wrapping_sub(1), 0] {
        let mut reset = Vec::new();
        empty(&mut reset, Type::Reset, other);
        bench.feed(0, &reset);
    }
    assert_eq!(bench.server.relations(), 1);
}

#[test]
fn while_one_is_in_flight_the_newest_state_waits_and_takes_the_place_of_the_next_repetition() {
    let mut bench = Bench::new(settings());
    let relation = bench.observe(0, &[1]);
    bench.out.clear();
    assert_eq!(
        bench.notify(relation, b"one", Delivery::Confirmable),
        Notified::Sent { confirmable: true }
    );
    assert_eq!(
        bench.notify(relation, b"two", Delivery::Confirmable),
        Notified::Busy
    );
    let first = bench.sent(0).remove(0);
    bench.wait(millis(3001));
    assert!(bench.sent(0).is_empty(), "the old state is not repeated");
    assert_eq!(
        bench.notices(),
        [Notice::Ready {
            relation,
            cookie: 0
        }]
    );
    assert_eq!(
        bench.notify(relation, b"three", Delivery::Confirmable),
        Notified::Sent { confirmable: true }
    );
    let second = bench.sent(0).remove(0);
    assert_eq!(decoded(&second).payload, b"three");
    assert_ne!(decoded(&second).id, decoded(&first).id);
    assert!(sequence_of(&second).is_newer_than(sequence_of(&first), 0));
    // Attempts go on counting: three repetitions more, and it is over.
    bench.wait(millis(90_000));
    let sent = bench.sent(0);
    assert_eq!((sent.len(), sent.iter().all(|d| *d == second)), (3, true));
    assert!(matches!(
        bench.notices()[..],
        [Notice::ObservationEnded {
            why: ObservationEnd::Silent,
            ..
        }]
    ));
}

#[test]
fn the_reset_of_a_state_that_was_replaced_still_counts() {
    let mut bench = Bench::new(settings());
    let relation = bench.observe(0, &[1]);
    bench.out.clear();
    let _ = bench.notify(relation, b"one", Delivery::Confirmable);
    let _ = bench.notify(relation, b"two", Delivery::Confirmable);
    let first = bench.sent(0).remove(0);
    bench.wait(millis(3001));
    let _ = bench.notify(relation, b"two", Delivery::Confirmable);
    let mut reset = Vec::new();
    empty(&mut reset, Type::Reset, decoded(&first).id);
    bench.feed(0, &reset);
    assert_eq!(bench.server.relations(), 0);
    bench.out.clear();
    bench.wait(millis(90_000));
    assert!(bench.sent(0).is_empty(), "and nothing is repeated any more");
}

#[test]
fn an_acknowledgement_makes_ready_for_the_newest_state() {
    let mut bench = Bench::new(settings());
    let relation = bench.observe(9, &[1]);
    bench.out.clear();
    let _ = bench.notify(relation, b"one", Delivery::Confirmable);
    assert_eq!(
        bench.notify(relation, b"two", Delivery::Confirmable),
        Notified::Busy
    );
    assert_eq!(
        bench.notify(relation, b"three", Delivery::Confirmable),
        Notified::Busy
    );
    assert_eq!(bench.answer_all(9, Type::Acknowledgement), 1);
    assert_eq!(
        bench.notices(),
        [Notice::Ready {
            relation,
            cookie: 9
        }]
    );
    assert_eq!(
        bench.notify(relation, b"three", Delivery::Confirmable),
        Notified::Sent { confirmable: true }
    );
    assert_eq!(bench.answer_all(9, Type::Acknowledgement), 1);
    assert_eq!(bench.notices(), []);
}

#[test]
fn silence_ends_all_observations_of_a_peer() {
    let mut bench = Bench::new(settings());
    let relations = [bench.observe(0, &[1]), bench.observe(0, &[2])];
    let other = bench.observe(1, &[1]);
    let _ = bench.notify(relations[0], b"x", Delivery::Confirmable);
    bench.wait(millis(94_000));
    let ended = bench.notices().len();
    assert_eq!((ended, bench.server.relations()), (2, 1));
    assert!(bench.server.relation(other).is_some());
    assert_eq!(bench.server.counts().timeouts, 1);
}

#[test]
fn an_observer_that_is_heard_of_is_told_the_newest_three_times_before_it_is_taken_for_gone() {
    let transmission = Transmission {
        nstart: 4,
        ..settings().transmission
    };
    let mut bench = Bench::new(ServerSettings {
        transmission,
        ..settings()
    });
    let [unlucky, other] = [bench.observe(0, &[1]), bench.observe(0, &[2])];
    bench.out.clear();
    for round in 0..3_u8 {
        // All five of it are lost, while the other observation's arrive.
        assert_eq!(
            bench.notify(unlucky, &[round], Delivery::Confirmable),
            Notified::Sent { confirmable: true }
        );
        let lost = bench.sent(0);
        for _ in 0..94 {
            bench.wait(millis(1_000));
            bench.out.clear();
            if !matches!(
                bench.notify(other, b"x", Delivery::Confirmable),
                Notified::Sent { .. }
            ) {
                // The first one was given up and goes before.
                continue;
            }
            let id = decoded(&bench.sent(0)[0]).id;
            assert_ne!(id, decoded(&lost[0]).id);
            bench.feed(
                0,
                &message(Type::Acknowledgement, Code::EMPTY, id, &[], |_| ()),
            );
        }
        let notices = bench.notices();
        match round {
            0 | 1 => assert_eq!(notices, [Notice::Ready { relation: unlucky, cookie: 0 }], "it is told the newest"),
            _ => assert!(notices.iter().any(|notice| matches!(
                notice,
                Notice::ObservationEnded { relation, why: ObservationEnd::Silent, .. } if *relation == unlucky
            ))),
        }
    }
    assert_eq!(bench.server.counts().timeouts, 3);
}

#[test]
fn silence_may_be_tolerated_for_a_while() {
    let mut bench = Bench::new(ServerSettings {
        observer_tolerance: 1,
        ..settings()
    });
    let relation = bench.observe(0, &[1]);
    let _ = bench.notify(relation, b"x", Delivery::Confirmable);
    bench.wait(millis(94_000));
    assert_eq!(
        bench.notices(),
        [Notice::Ready {
            relation,
            cookie: 0
        }],
        "it has missed a state"
    );
    assert!(matches!(
        bench.notify(relation, b"y", Delivery::Auto),
        Notified::Sent { confirmable: true }
    ));
    bench.wait(millis(94_000));
    assert!(matches!(
        bench.notices()[..],
        [Notice::ObservationEnded { .. }]
    ));
}

#[test]
fn the_first_notification_measures_and_of_sixteen_one_is_confirmable() {
    let mut bench = Bench::new(ServerSettings {
        notifications_per_round_trip: 0,
        ..settings()
    });
    let relation = measured(&mut bench, 0);
    let mut kinds = Vec::new();
    for n in 0..48_u8 {
        let Notified::Sent { confirmable } = bench.notify(relation, &[n], Delivery::Auto) else {
            panic!("{n}: it is never busy, because each is acknowledged")
        };
        kinds.push(confirmable);
        bench.answer_all(0, Type::Acknowledgement);
    }
    let confirmable: Vec<usize> = (0..48).filter(|n| kinds[*n]).collect();
    assert_eq!(confirmable, [15, 31, 47]);
}

#[test]
fn notifications_keep_the_pace_of_round_trips() {
    let mut bench = Bench::new(ServerSettings {
        notification_burst: 2,
        confirm_every: 255,
        ..settings()
    });
    let relation = measured(&mut bench, 0);
    let mut sent = 0;
    let start = bench.now;
    // As fast as it goes for a second, at 10 ms the round trip.
    let mut ready = true;
    while bench.now.since(start) < millis(1000) {
        while ready && bench.notify(relation, b"x", Delivery::NonConfirmable) != Notified::Busy {
            sent += 1;
            assert!(sent < 1000, "there is no pace");
        }
        let next = bench.server.poll_timeout();
        bench.wait(next.since(bench.now));
        ready = bench.notices()
            == [Notice::Ready {
                relation,
                cookie: 0,
            }];
    }
    assert!((95..=105).contains(&sent), "{sent}");
}

#[test]
fn without_a_measured_round_trip_the_pace_is_slow() {
    let mut bench = Bench::new(ServerSettings {
        notification_burst: 1,
        ..settings()
    });
    let relation = bench.observe(0, &[1]);
    assert!(matches!(
        bench.notify(relation, b"x", Delivery::NonConfirmable),
        Notified::Sent { confirmable: false }
    ));
    assert_eq!(
        bench.notify(relation, b"y", Delivery::NonConfirmable),
        Notified::Busy
    );
    bench.wait(millis(2999));
    assert_eq!(bench.notices(), []);
    bench.wait(millis(2));
    assert_eq!(
        bench.notices(),
        [Notice::Ready {
            relation,
            cookie: 0
        }]
    );
}

#[test]
fn many_observations_of_one_peer_take_turns() {
    let mut bench = Bench::new(settings());
    let relations: Vec<RelationId> = (1..=20).map(|token| bench.observe(0, &[token])).collect();
    bench.out.clear();
    let mut told = vec![0; relations.len()];
    let mut pending: Vec<RelationId> = relations.clone();
    for _ in 0..200 {
        for relation in std::mem::take(&mut pending) {
            if matches!(
                bench.notify(relation, b"x", Delivery::Confirmable),
                Notified::Sent { .. }
            ) {
                told[relations
                    .iter()
                    .position(|r| *r == relation)
                    .expect("one of them")] += 1;
            }
        }
        bench.wait(millis(10));
        bench.answer_all(0, Type::Acknowledgement);
        pending = bench
            .notices()
            .into_iter()
            .map(|notice| match notice {
                Notice::Ready { relation, .. } => relation,
                other => panic!("{other:?}"),
            })
            .collect();
        // After the notice the observer is due for another notification.
        for relation in &relations {
            if !pending.contains(relation)
                && bench
                    .server
                    .relation(*relation)
                    .is_some_and(|state| !state.in_flight)
            {
                pending.push(*relation);
            }
        }
    }
    let (least, most) = (
        told.iter().min().expect("some"),
        told.iter().max().expect("some"),
    );
    assert!(*least >= 9 && *most <= 11, "{told:?}");
}

#[test]
fn who_has_nothing_to_say_after_all_lets_the_next_one() {
    let mut bench = Bench::new(settings());
    let relations: Vec<RelationId> = (1..=8).map(|token| bench.observe(0, &[token])).collect();
    bench.out.clear();
    for relation in &relations {
        let _ = bench.notify(*relation, b"x", Delivery::Confirmable);
    }
    bench.answer_all(0, Type::Acknowledgement);
    let mut woken = Vec::new();
    loop {
        let notices = bench.notices();
        if notices.is_empty() {
            break;
        }
        for notice in notices {
            let Notice::Ready { relation, .. } = notice else {
                panic!("{notice:?}")
            };
            woken.push(relation);
            bench.server.nothing_to_notify(relation);
        }
    }
    assert_eq!(woken, relations[1..]);
}

#[test]
fn a_confirmable_notification_is_due_every_day() {
    let mut bench = Bench::new(ServerSettings {
        confirm_every: 255,
        ..settings()
    });
    let relation = measured(&mut bench, 0);
    bench.wait(Span::from_secs(86_390));
    assert_eq!(
        bench.notify(relation, b"x", Delivery::NonConfirmable),
        Notified::Sent { confirmable: false }
    );
    bench.wait(Span::from_secs(20));
    assert_eq!(
        bench.notices(),
        [Notice::CheckDue {
            relation,
            cookie: 0
        }]
    );
    bench.out.clear();
    assert_eq!(
        bench.notify(relation, b"x", Delivery::NonConfirmable),
        Notified::Sent { confirmable: true }
    );
    bench.answer_all(0, Type::Acknowledgement);
    bench.wait(Span::from_secs(86_390));
    assert_eq!(bench.notices(), []);
    bench.wait(Span::from_secs(20));
    assert_eq!(
        bench.notices(),
        [Notice::CheckDue {
            relation,
            cookie: 0
        }]
    );
}

#[test]
fn a_check_may_be_due_sooner_and_a_renewal_may_change_that() {
    let mut bench = Bench::new(settings());
    let get = message(Type::Confirmable, Code::GET, 7, &[1], |encoder| {
        encoder.uint(option::OBSERVE, 0);
    });
    for check in [1000, 60] {
        let request = bench.feed(0, &get).expect("a request");
        bench
            .server
            .observe(request.exchange, 0, Some(Span::from_secs(check)), bench.now)
            .expect("room");
        bench.respond(request.exchange, &Response::of(Code::CONTENT));
    }
    bench.wait(Span::from_secs(59));
    assert_eq!(bench.notices(), []);
    bench.wait(Span::from_secs(2));
    assert!(matches!(bench.notices()[..], [Notice::CheckDue { .. }]));
}

#[test]
fn the_last_notification_says_why_and_has_no_observe() {
    let mut bench = Bench::new(settings());
    let relation = bench.observe(0, &[1]);
    bench.out.clear();
    let _ = bench.notify(relation, b"x", Delivery::Confirmable);
    bench.out.clear();
    let gone = Arc::new(SharedBody::new(Code::NOT_FOUND, &[], b""));
    bench
        .server
        .end_observation(relation, Some(&gone), bench.now, &mut bench.out);
    let sent = bench.sent(0).remove(0);
    let last = decoded(&sent);
    assert_eq!(
        (last.kind, last.code, last.token.as_slice()),
        (Type::Confirmable, Code::NOT_FOUND, &[1][..])
    );
    assert!(!last.options.has(option::OBSERVE));
    assert_eq!((bench.server.relations(), bench.notices()), (0, vec![]));
    bench.wait(millis(3001));
    assert_eq!(
        bench.sent(0),
        [sent],
        "it is repeated until it is acknowledged"
    );
}

#[test]
fn a_notification_before_the_response_to_the_registration_waits_for_it() {
    let mut bench = Bench::new(settings());
    let get = message(Type::Confirmable, Code::GET, 7, &[1], |encoder| {
        encoder.uint(option::OBSERVE, 0);
    });
    let request = bench.feed(0, &get).expect("a request");
    let relation = bench
        .server
        .observe(request.exchange, 4, None, bench.now)
        .expect("room");
    assert_eq!(
        bench.notify(relation, b"new", Delivery::Auto),
        Notified::Busy
    );
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CONTENT,
            options: &[],
            payload: b"old",
        },
    );
    assert_eq!(
        bench.notices(),
        [Notice::Ready {
            relation,
            cookie: 4
        }]
    );
}

#[test]
fn peers_that_are_gone_observe_no_more() {
    let mut bench = Bench::new(settings());
    let relations = [bench.observe(0, &[1]), bench.observe(0, &[2])];
    let _ = bench.notify(relations[0], b"x", Delivery::Confirmable);
    bench.out.clear();
    bench.server.peer_gone(client_address(0));
    bench.server.peer_gone(client_address(1));
    let whys: Vec<_> = bench
        .notices()
        .into_iter()
        .map(|notice| match notice {
            Notice::ObservationEnded { why, .. } => why,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(whys, [ObservationEnd::PeerGone; 2]);
    bench.wait(millis(100_000));
    assert!(bench.sent(0).is_empty());
}

#[test]
fn what_observers_share_is_encoded_once_and_means_what_was_said() {
    for (options, payload) in [
        (&[][..], &b""[..]),
        (&[(option::ETAG, Value::Opaque(&[1, 2]))], b"x"),
        (
            &[
                (option::CONTENT_FORMAT, Value::Uint(50)),
                (option::MAX_AGE, Value::Uint(300)),
            ],
            b"{}",
        ),
        (
            &[
                (option::ETAG, Value::Opaque(&[9])),
                (option::MAX_AGE, Value::Uint(0)),
                (2048, Value::Opaque(b"z")),
            ],
            b"p",
        ),
    ] {
        let shared = SharedBody::new(Code::CONTENT, options, payload);
        for observe in [None, Some(0), Some(1), Some(300), Some(0xFF_FFFF)] {
            let mut datagram = message(Type::Confirmable, Code::CONTENT, 1, &[1], |_| {});
            shared.write(observe, 6, &mut datagram);
            let read = decoded(&datagram);
            assert_eq!(read.payload, payload);
            assert_eq!(read.options.uint(option::OBSERVE), observe);
            let others: Vec<u16> = read
                .options
                .iter()
                .map(|o| o.0)
                .filter(|n| *n != option::OBSERVE)
                .collect();
            assert_eq!(others, options.iter().map(|o| o.0).collect::<Vec<_>>());
            assert!(datagram.len() <= 5 + shared.encoded_len(6));
        }
    }
}

#[test]
fn a_client_that_forgets_is_not_notified_for_long() {
    let app = loss_free();
    let mut world = World::new(
        1,
        Weather::default(),
        settings(),
        ClientSettings::default(),
        1,
        app,
    );
    let get = RequestOut {
        code: Code::GET,
        confirmable: true,
        options: &[],
        payload: &[],
        observe: true,
    };
    let request = world.request(0, &get);
    world.run_for(millis(100));
    assert_eq!(
        (world.server.relations(), world.take_heard(0).len()),
        (1, 1)
    );
    world.client(0, |client, now, out| {
        client.cancel(request, Cancel::Forget, now, out)
    });
    world.serve(|app, server, now, out| app.tell(server, now, out));
    world.run_for(millis(100));
    assert_eq!(world.server.relations(), 0, "its reset said so");
    assert_eq!(world.take_heard(0), []);
}

#[test]
fn a_client_deregisters_with_the_token_of_the_observation() {
    let mut world = World::new(
        1,
        Weather::default(),
        settings(),
        ClientSettings::default(),
        1,
        loss_free(),
    );
    let get = RequestOut {
        code: Code::GET,
        confirmable: true,
        options: &[],
        payload: &[],
        observe: true,
    };
    let request = world.request(0, &get);
    world.run_for(millis(100));
    world.client(0, |client, now, out| {
        client.cancel(request, Cancel::Deregister, now, out)
    });
    world.run_for(millis(100));
    assert_eq!(world.server.relations(), 0);
    assert!(
        matches!(world.take_heard(0)[..], [Reply::Notification(..), Reply::Response(r, ..)] if r == request)
    );
}

#[test]
fn a_client_registers_again_after_max_age_and_some_seconds() {
    let mut world = World::new(
        1,
        Weather::default(),
        settings(),
        ClientSettings::default(),
        1,
        loss_free(),
    );
    let get = RequestOut {
        code: Code::GET,
        confirmable: true,
        options: &[],
        payload: &[],
        observe: true,
    };
    let request = world.request(0, &get);
    // 60 s, and 5 to 15 more.
    world.run_for(millis(64_900));
    assert_eq!(world.server.counts().requests, 1);
    world.run_for(millis(10_200));
    assert_eq!(world.server.counts().requests, 2);
    world.client(0, |client, now, out| {
        client.register_again(request, now, out)
    });
    world.run_for(millis(100));
    assert_eq!(
        (world.server.counts().requests, world.server.relations()),
        (3, 1)
    );
}

/// An application with one observable state.
struct Plain {
    relations: Vec<RelationId>,
}

fn loss_free() -> Plain {
    Plain {
        relations: Vec::new(),
    }
}

impl Plain {
    fn tell(&self, server: &mut ServerSide, now: Time, out: &mut Datagrams) {
        let body = Arc::new(SharedBody::new(Code::CONTENT, &[], b"new"));
        for relation in &self.relations {
            let _ = server.notify(*relation, &body, Delivery::Auto, now, out);
        }
    }
}

impl Application for Plain {
    fn on_request(
        &mut self,
        server: &mut ServerSide,
        request: Request<'_>,
        now: Time,
        out: &mut Datagrams,
    ) {
        if request.observe == Some(Observe::Register) {
            self.relations.push(
                server
                    .observe(request.exchange, 0, None, now)
                    .expect("room"),
            );
        }
        server.respond(request.exchange, &Response::of(Code::CONTENT), now, out);
    }
}

#[test]
fn the_response_to_a_registration_that_has_ended_meanwhile_is_a_plain_one() {
    let mut bench = Bench::new(settings());
    let register = |id| {
        message(Type::Confirmable, Code::GET, id, &[1], |encoder| {
            encoder.uint(option::OBSERVE, 0);
        })
    };
    let get = register(7);
    let request = bench.feed(0, &get).expect("a request");
    let first = bench
        .server
        .observe(request.exchange, 1, None, bench.now)
        .expect("room");
    bench
        .server
        .end_observation(first, None, bench.now, &mut bench.out);
    // Its place is taken by that of another.
    let second = bench.observe(1, &[1]);
    bench.out.clear();
    bench.respond(request.exchange, &Response::of(Code::CONTENT));
    assert!(!decoded(&bench.sent(0)[0]).options.has(option::OBSERVE));
    assert!(bench.server.relation(first).is_none() && bench.server.relation(second).is_some());
}

#[test]
fn a_late_response_to_a_renewal_takes_the_place_of_what_is_in_flight() {
    let mut bench = Bench::new(settings());
    let relation = bench.observe(0, &[1]);
    let _ = bench.notify(relation, b"old", Delivery::Confirmable);
    bench.out.clear();
    let get = message(Type::Confirmable, Code::GET, 7, &[1], |encoder| {
        encoder.uint(option::OBSERVE, 0);
    });
    let request = bench.feed(0, &get).expect("a request");
    bench
        .server
        .observe(request.exchange, 1, None, bench.now)
        .expect("room");
    bench
        .server
        .respond_later(request.exchange, bench.now, &mut bench.out);
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CONTENT,
            options: &[],
            payload: b"new",
        },
    );
    assert_eq!(bench.answer_all(0, Type::Acknowledgement), 1);
    bench.wait(Span::from_secs(100));
    assert!(
        bench.sent(0).is_empty()
            && bench
                .server
                .relation(relation)
                .is_some_and(|state| !state.in_flight)
    );
}

#[test]
fn the_slow_pace_ends_when_a_round_trip_is_measured() {
    let mut bench = Bench::new(settings());
    let relations: Vec<RelationId> = (1..=20).map(|token| bench.observe(0, &[token])).collect();
    bench.out.clear();
    let sent = relations
        .iter()
        .filter(|r| bench.notify(**r, b"x", Delivery::Auto) != Notified::Busy)
        .count();
    assert_eq!(sent, 1 + 4, "a confirmable one, and a burst");
    bench.wait(millis(10));
    assert_eq!(bench.answer_all(0, Type::Acknowledgement), 1);
    let start = bench.now;
    let mut told = 0;
    while told < 15 {
        while let Some(notice) = bench.server.poll_event() {
            let Notice::Ready { relation, .. } = notice else {
                panic!("{notice:?}")
            };
            told +=
                u32::from(bench.notify(relation, b"x", Delivery::NonConfirmable) != Notified::Busy);
        }
        if told < 15 {
            let next = bench.server.poll_timeout();
            bench.wait(next.since(bench.now));
        }
    }
    assert!(
        bench.now.since(start) < millis(150),
        "{:?}",
        bench.now.since(start)
    );
}

#[test]
fn nobody_overtakes_those_that_wait() {
    let mut bench = Bench::new(settings());
    let [first, second, third] = [1, 2, 3].map(|token| bench.observe(0, &[token]));
    bench.out.clear();
    let sent =
        [first, second, third].map(|relation| bench.notify(relation, b"x", Delivery::Confirmable));
    assert_eq!(
        sent,
        [
            Notified::Sent { confirmable: true },
            Notified::Busy,
            Notified::Busy
        ]
    );
    bench.answer_all(0, Type::Acknowledgement);
    assert_eq!(
        bench.notify(first, b"y", Delivery::Confirmable),
        Notified::Busy,
        "although there is room"
    );
    assert_eq!(
        bench.notices()[0],
        Notice::Ready {
            relation: second,
            cookie: 0
        }
    );
    assert_eq!(
        bench.notify(second, b"x", Delivery::Confirmable),
        Notified::Sent { confirmable: true }
    );
}
