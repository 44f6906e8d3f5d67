//! Acknowledgements, responses, repetitions, rejections: RFC 7252 §4 and §5, RFC 7967, 8516, 8768.

use super::*;

const CON: Type = Type::Confirmable;
const NON: Type = Type::NonConfirmable;

fn bench() -> Bench {
    Bench::new(ServerSettings {
        addresses_are_proven: true,
        ..ServerSettings::default()
    })
}

#[test]
fn a_response_at_once_is_in_the_acknowledgement() {
    let mut bench = bench();
    let datagram = put(CON, 7, b"x");
    let request = bench.feed(0, &datagram).expect("a request");
    assert_eq!(
        (request.code, &*request.payload, request.confirmable),
        (Code::PUT, &b"x"[..], true)
    );
    assert!(bench.respond(request.exchange, &Response::of(Code::CHANGED)));
    assert!(
        !bench.respond(request.exchange, &Response::of(Code::CHANGED)),
        "once"
    );
    // 60 44 0007 07: an acknowledgement of five bytes.
    assert_eq!(bench.sent(0), [[0x61, 0x44, 0, 7, 7]]);
    assert_eq!(bench.server.poll_timeout(), Time::NEVER);
}

#[test]
fn a_response_within_the_processing_time_needs_no_empty_acknowledgement() {
    let mut bench = bench();
    let datagram = put(CON, 7, b"x");
    let request = bench.feed(0, &datagram).expect("a request");
    bench.wait(millis(900));
    assert!(bench.sent(0).is_empty());
    bench.respond(request.exchange, &Response::of(Code::CHANGED));
    assert_eq!(bench.sent(0), [[0x61, 0x44, 0, 7, 7]]);
}

#[test]
fn a_late_response_comes_separately_and_is_repeated_until_acknowledged() {
    let mut bench = bench();
    let datagram = put(CON, 7, b"x");
    let request = bench.feed(0, &datagram).expect("a request");
    bench.wait(millis(1001));
    assert_eq!(
        bench.sent(0),
        [[0x60, 0, 0, 7]],
        "the empty acknowledgement"
    );
    assert!(bench.feed(0, &datagram).is_none());
    assert_eq!(
        bench.sent(0),
        [[0x60, 0, 0, 7]],
        "and again for the repetition"
    );
    bench.respond(request.exchange, &Response::of(Code::CHANGED));
    let first = bench.sent(0).remove(0);
    let response = decoded(&first);
    assert_eq!(
        (response.kind, response.code, response.token.as_slice()),
        (CON, Code::CHANGED, &[7][..])
    );
    bench.wait(millis(3001));
    assert_eq!(bench.sent(0), std::slice::from_ref(&first));
    let mut ack = Vec::new();
    empty(&mut ack, Type::Acknowledgement, response.id);
    bench.feed(0, &ack);
    bench.wait(millis(60_000));
    assert!(bench.sent(0).is_empty());
    assert!(bench.feed(0, &datagram).is_none());
    assert_eq!(
        bench.sent(0),
        [[0x60, 0, 0, 7]],
        "the response itself was separate"
    );
}

#[test]
fn the_acknowledgement_leaves_at_once_if_the_application_says_so() {
    let mut bench = bench();
    let datagram = put(CON, 7, b"x");
    let request = bench.feed(0, &datagram).expect("a request");
    let now = bench.now;
    bench
        .server
        .respond_later(request.exchange, now, &mut bench.out);
    bench
        .server
        .respond_later(request.exchange, now, &mut bench.out);
    assert_eq!(bench.sent(0), [[0x60, 0, 0, 7]]);
    bench.respond(request.exchange, &Response::of(Code::CHANGED));
    assert_eq!(decoded(&bench.sent(0)[0]).kind, CON);
}

#[test]
fn a_non_confirmable_request_gets_a_non_confirmable_response_with_an_id_of_the_server() {
    let mut bench = bench();
    let datagrams = [put(NON, 7, b"x"), put(NON, 8, b"x")];
    let mut ids = Vec::new();
    for datagram in &datagrams {
        let request = bench.feed(0, datagram).expect("a request");
        bench.wait(millis(2000));
        bench.respond(request.exchange, &Response::of(Code::CHANGED));
        let sent = bench.sent(0);
        assert_eq!(sent.len(), 1);
        assert_eq!(
            (decoded(&sent[0]).kind, decoded(&sent[0]).code),
            (NON, Code::CHANGED)
        );
        ids.push(decoded(&sent[0]).id);
    }
    assert_eq!(ids[1], ids[0].wrapping_add(1));
    assert!(
        bench.feed(0, &datagrams[0]).is_none(),
        "a repetition is ignored"
    );
    assert!(bench.sent(0).is_empty());
}

#[test]
fn a_repetition_is_answered_again_for_as_long_as_an_exchange_lives() {
    let mut bench = bench();
    let datagram = put(CON, 7, b"x");
    let request = bench.feed(0, &datagram).expect("a request");
    assert!(
        bench.feed(0, &datagram).is_none(),
        "while the answer is on its way there is silence"
    );
    assert!(bench.sent(0).is_empty());
    let location = [(option::LOCATION_PATH, Value::Opaque(b"there"))];
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CREATED,
            options: &location,
            payload: b"made",
        },
    );
    let first = bench.sent(0);
    bench.wait(Span::from_secs(246));
    assert!(bench.feed(0, &datagram).is_none());
    assert_eq!(bench.sent(0), first, "byte for byte");
    assert!(bench.feed(1, &datagram).is_some(), "another peer");
    bench.wait(Span::from_secs(2));
    assert!(
        bench.feed(0, &datagram).is_some(),
        "the id may be used again"
    );
}

#[test]
fn a_non_confirmable_message_is_remembered_for_a_shorter_time() {
    let mut bench = bench();
    let datagram = put(NON, 7, b"x");
    let request = bench.feed(0, &datagram).expect("a request");
    bench.respond(request.exchange, &Response::of(Code::CHANGED));
    bench.wait(Span::from_secs(144));
    assert!(bench.feed(0, &datagram).is_none());
    bench.wait(Span::from_secs(2));
    assert!(bench.feed(0, &datagram).is_some());
}

#[test]
fn another_message_with_an_id_of_before_is_no_repetition() {
    let mut bench = bench();
    let (first, second) = (put(CON, 7, b"x"), put(CON, 7, b"y"));
    for datagram in [&first, &second] {
        let request = bench.feed(0, datagram).expect("a request");
        bench.respond(request.exchange, &Response::of(Code::CHANGED));
    }
    assert!(bench.feed(0, &first).is_none() && bench.feed(0, &second).is_none());
    assert_eq!(bench.server.counts().duplicates, 2);
}

#[test]
fn what_only_reads_is_read_again() {
    let mut bench = bench();
    let datagram = get(CON, 7);
    for _ in 0..2 {
        let request = bench.feed(0, &datagram).expect("a request");
        assert!(
            bench.feed(0, &datagram).is_none(),
            "while it waits it is a repetition"
        );
        bench.respond(request.exchange, &Response::of(Code::CONTENT));
    }
    assert_eq!(bench.server.bytes().remembered, 0);
}

#[test]
fn a_ping_is_answered_with_a_reset() {
    let mut bench = bench();
    bench.feed(0, &[0x40, 0, 0x12, 0x34]);
    assert_eq!(bench.sent(0), [[0x70, 0, 0x12, 0x34]]);
    assert_eq!(
        bench.server.peers(),
        0,
        "a stranger who pings is not remembered"
    );
}

#[test]
fn what_makes_no_sense_is_reset_if_it_is_confirmable_and_ignored_otherwise() {
    let response = message(CON, Code::CONTENT, 7, &[], |_| {});
    for (datagram, reset) in [
        (&response[..], true),
        (&[0x40, 0xE1, 0, 7], true),    // 7.01, a signal
        (&[0x40, 0x21, 0, 7], true),    // 1.01, reserved
        (&[0x49, 1, 0, 7], true),       // a token of nine bytes
        (&[0x40, 1, 0, 7, 0xFF], true), // a payload marker and no payload
        (&[0x40, 0, 0, 7, 1], true),    // empty, with more
        (&[0x50, 0x45, 0, 7], false),   // a response that is not confirmable
        (&[0x50, 0, 0, 7], false),      // empty and not confirmable
        (&[0x50, 0xE1, 0, 7], false),
        (&[0x60, 1, 0, 7], false), // a request in an acknowledgement
        (&[0x70, 1, 0, 7], false), // a request in a reset
        (&[0x60, 0, 0, 7], false), // an acknowledgement of nothing
        (&[0x70, 0, 0, 7], false), // a reset of nothing
        (&[0x80, 1, 0, 7], false), // version 2
        (&[0x40, 1, 0], false),    // too short
        (&[], false),
    ] {
        let mut bench = bench();
        assert!(bench.feed(0, datagram).is_none(), "{datagram:x?}");
        let sent = bench.sent(0);
        assert_eq!(
            sent,
            if reset {
                vec![vec![0x70, 0, 0, 7]]
            } else {
                vec![]
            },
            "{datagram:x?}"
        );
    }
}

#[test]
fn unknown_critical_options_are_refused_and_elective_ones_are_not() {
    for (number, kind, code) in [
        (9, CON, Some(Code::BAD_OPTION)), // OSCORE
        (65001, CON, Some(Code::BAD_OPTION)),
        (option::PROXY_URI, CON, Some(Code::PROXYING_NOT_SUPPORTED)),
        (
            option::PROXY_SCHEME,
            CON,
            Some(Code::PROXYING_NOT_SUPPORTED),
        ),
        (9, NON, None),
    ] {
        let mut bench = bench();
        let datagram = message(kind, Code::GET, 7, &[1], |encoder| {
            encoder.option(number, b"x");
        });
        assert!(bench.feed(0, &datagram).is_none(), "{number}");
        let codes: Vec<Code> = bench.sent(0).iter().map(|d| decoded(d).code).collect();
        assert_eq!(codes, code.into_iter().collect::<Vec<_>>(), "{number}");
    }
    let mut bench = bench();
    let datagram = message(CON, Code::GET, 7, &[1], |encoder| {
        encoder.option(65000, b"x");
    });
    assert!(bench.feed(0, &datagram).is_some());
    let repeated = message(CON, Code::GET, 8, &[1], |encoder| {
        encoder
            .option(option::ACCEPT, &[1])
            .option(option::ACCEPT, &[2]);
    });
    assert!(
        bench.feed(0, &repeated).is_none(),
        "Accept must not be repeated"
    );
}

#[test]
fn an_application_may_understand_more() {
    let mut settings = ServerSettings {
        addresses_are_proven: true,
        ..ServerSettings::default()
    };
    settings.understood_options.extend([9, 65001]);
    let mut bench = Bench::new(settings);
    let datagram = message(CON, Code::GET, 7, &[1], |encoder| {
        encoder.option(9, b"x").option(65001, b"y");
    });
    assert!(bench.feed(0, &datagram).is_some());
}

#[test]
fn a_hop_limit_of_zero_is_refused() {
    let mut bench = bench();
    for (limit, code) in [(0, Some(Code::BAD_REQUEST)), (1, None)] {
        let datagram = message(CON, Code::GET, 7 + u16::from(limit), &[1], |encoder| {
            encoder.option(option::HOP_LIMIT, &[limit]);
        });
        assert_eq!(bench.feed(0, &datagram).is_none(), code.is_some());
        assert_eq!(bench.sent(0).first().map(|d| decoded(d).code), code);
    }
}

#[test]
fn responses_that_are_not_wanted_are_not_sent() {
    // RFC 7967 §2.1: 2 for 2.xx, 8 for 4.xx, 16 for 5.xx.
    for (wish, code, kind, comes) in [
        (2, Code::CHANGED, NON, false),
        (2, Code::NOT_FOUND, NON, true),
        (26, Code::SERVICE_UNAVAILABLE, NON, false),
        (0, Code::CHANGED, NON, true),
        (2, Code::CHANGED, CON, false),
        (8, Code::CHANGED, CON, true),
    ] {
        let mut bench = bench();
        let datagram = message(kind, Code::PUT, 7, &[1], |encoder| {
            encoder.uint(option::NO_RESPONSE, wish);
        });
        let request = bench.feed(0, &datagram).expect("a request");
        bench.respond(request.exchange, &Response::of(code));
        let codes: Vec<Code> = bench.sent(0).iter().map(|d| decoded(d).code).collect();
        let expected = match (comes, kind) {
            (true, _) => vec![code],
            (false, CON) => vec![Code::EMPTY],
            (false, _) => vec![],
        };
        assert_eq!(codes, expected, "{wish} {code} {kind:?}");
        assert!(bench.feed(0, &datagram).is_none(), "it is remembered");
    }
}

#[test]
fn a_request_may_be_ignored() {
    let mut bench = bench();
    for (kind, sent) in [(CON, 1), (NON, 0)] {
        let datagram = put(kind, 7, b"x");
        let request = bench.feed(0, &datagram).expect("a request");
        bench
            .server
            .ignore(request.exchange, bench.now, &mut bench.out);
        assert_eq!(bench.sent(0).len(), sent);
        assert_eq!(bench.server.poll_timeout(), Time::NEVER);
    }
}

#[test]
fn tokens_come_back_as_they_came_also_if_there_is_none() {
    let mut bench = bench();
    for len in 0..=8 {
        let token = body(len, 5);
        let datagram = message(CON, Code::GET, len as u16, &token, |_| {});
        let request = bench.feed(0, &datagram).expect("a request");
        bench.respond(request.exchange, &Response::of(Code::CONTENT));
        assert_eq!(decoded(&bench.sent(0)[0]).token.as_slice(), token);
    }
}

#[test]
fn a_client_acknowledges_a_response_again_whose_acknowledgement_was_lost() {
    let mut client = ClientSide::new(Arc::default(), 3);
    let (mut out, now) = (Datagrams::new(), Time::from_secs(1));
    let request = RequestOut {
        code: Code::GET,
        confirmable: true,
        options: &[],
        payload: &[],
        observe: false,
    };
    client
        .request(server_address(), &request, now, &mut out)
        .expect("room");
    let sent = out.last().to_vec();
    let (id, token) = (decoded(&sent).id, decoded(&sent).token);
    out.clear();
    let mut ack = Vec::new();
    empty(&mut ack, Type::Acknowledgement, id);
    assert!(
        client
            .handle_datagram(server_address(), &ack, now, &mut out)
            .is_none()
    );
    let response = message(CON, Code::CONTENT, 99, token.as_slice(), |_| {});
    for is_first in [true, false] {
        let event = client.handle_datagram(server_address(), &response, now, &mut out);
        assert_eq!(event.is_some(), is_first);
        assert_eq!(out.last(), [0x60, 0, 0, 99]);
        out.clear();
    }
    let foreign = message(CON, Code::CONTENT, 100, &[1, 2, 3], |_| {});
    client.handle_datagram(server_address(), &foreign, now, &mut out);
    assert_eq!(
        out.last(),
        [0x70, 0, 0, 100],
        "what nobody waits for is rejected"
    );
}

#[test]
fn a_client_takes_a_response_that_overtakes_its_acknowledgement() {
    let mut client = ClientSide::new(Arc::default(), 3);
    let (mut out, now) = (Datagrams::new(), Time::from_secs(1));
    let request = RequestOut {
        code: Code::GET,
        confirmable: true,
        options: &[],
        payload: &[],
        observe: false,
    };
    client
        .request(server_address(), &request, now, &mut out)
        .expect("room");
    let sent = out.last().to_vec();
    let response = message(
        CON,
        Code::CONTENT,
        99,
        decoded(&sent).token.as_slice(),
        |_| {},
    );
    assert!(
        client
            .handle_datagram(server_address(), &response, now, &mut out)
            .is_some()
    );
    assert_eq!((client.poll_timeout(), client.requests()), (Time::NEVER, 0));
}

#[test]
fn a_client_pings_and_hears_of_resets() {
    let mut world = World::new(
        1,
        Weather::default(),
        ServerSettings::default(),
        ClientSettings::default(),
        1,
        Echoing,
    );
    let ping = world
        .client(0, |client, now, out| {
            client.ping(server_address(), now, out)
        })
        .expect("room");
    world.run_for(millis(10));
    assert_eq!(
        world.take_heard(0),
        [Reply::Notice(ClientNotice::Pong { request: ping })]
    );
    let get = RequestOut {
        code: Code::GET,
        confirmable: false,
        options: &[],
        payload: &[],
        observe: false,
    };
    let mut out = Datagrams::new();
    let mut client = ClientSide::new(Arc::default(), 3);
    let request = client
        .request(server_address(), &get, Time::ZERO, &mut out)
        .expect("room");
    let reset = [0x70, 0, out.last()[2], out.last()[3]];
    assert!(
        client
            .handle_datagram(server_address(), &reset, Time::ZERO, &mut out)
            .is_none()
    );
    assert_eq!(
        client.poll_event(),
        Some(ClientNotice::Failed {
            request,
            why: Failure::Reset
        })
    );
}

#[test]
fn a_client_gives_up_after_max_transmit_wait() {
    let mut client = ClientSide::new(Arc::default(), 3);
    let (mut out, start) = (Datagrams::new(), Time::from_secs(1));
    let get = RequestOut {
        code: Code::GET,
        confirmable: true,
        options: &[],
        payload: &[],
        observe: false,
    };
    let request = client
        .request(server_address(), &get, start, &mut out)
        .expect("room");
    let mut now = start;
    while client.poll_timeout() != Time::NEVER {
        now = client.poll_timeout();
        client.handle_timeout(now, &mut out);
    }
    assert_eq!(out.len(), 5);
    assert!((62..=93).contains(&now.since(start).secs()), "{now:?}");
    assert_eq!(
        client.poll_event(),
        Some(ClientNotice::Failed {
            request,
            why: Failure::Unacknowledged
        })
    );
    assert_eq!(client.requests(), 0);
}

#[test]
fn a_response_whose_fate_matters_is_confirmable_and_its_fate_is_told_once() {
    for (kind, answer, fate) in [
        (
            CON,
            Some(Type::Acknowledgement),
            Notice::ResponseConfirmed { cookie: 9 },
        ),
        (
            NON,
            Some(Type::Acknowledgement),
            Notice::ResponseConfirmed { cookie: 9 },
        ),
        (CON, Some(Type::Reset), Notice::ResponseLost { cookie: 9 }),
        (CON, None, Notice::ResponseLost { cookie: 9 }),
    ] {
        let mut bench = bench();
        let datagram = get(kind, 7);
        let request = bench.feed(0, &datagram).expect("a request");
        let response = Response {
            code: Code::CONTENT,
            options: &[],
            payload: b"take it",
        };
        assert!(bench.server.respond_confirmed(
            request.exchange,
            9,
            &response,
            bench.now,
            &mut bench.out
        ));
        assert!(!bench.server.respond_confirmed(
            request.exchange,
            9,
            &response,
            bench.now,
            &mut bench.out
        ));
        let sent = bench.sent(0);
        let acknowledged = sent
            .first()
            .is_some_and(|first| decoded(first).code == Code::EMPTY);
        assert_eq!(acknowledged, kind == CON);
        let last = decoded(sent.last().expect("a response"));
        assert_eq!((last.kind, last.payload), (CON, &b"take it"[..]));
        assert_eq!(bench.notices(), []);
        match answer {
            Some(answer) => {
                let mut datagram = Vec::new();
                empty(&mut datagram, answer, last.id);
                bench.feed(0, &datagram);
                bench.feed(0, &datagram);
            }
            None => bench.wait(Span::from_secs(94)),
        }
        assert_eq!(bench.notices(), [fate], "{kind:?} {answer:?}");
        assert!(
            bench.feed(0, &datagram).is_none(),
            "a repetition takes nothing more"
        );
    }
}

#[test]
fn the_fate_of_a_response_is_told_also_if_it_cannot_be_sent() {
    let mut bench = bench();
    let datagrams = [get(CON, 1), get(CON, 2)];
    for (cookie, datagram) in datagrams.iter().enumerate() {
        let request = bench.feed(0, datagram).expect("a request");
        let response = Response::of(Code::CONTENT);
        bench.server.respond_confirmed(
            request.exchange,
            cookie as u64,
            &response,
            bench.now,
            &mut bench.out,
        );
    }
    bench.server.peer_gone(client_address(0));
    assert_eq!(
        bench.notices(),
        [0, 1].map(|cookie| Notice::ResponseLost { cookie })
    );
    let datagram = message(CON, Code::GET, 7, &[1], |encoder| {
        encoder.uint(option::NO_RESPONSE, 2);
    });
    let request = bench.feed(0, &datagram).expect("a request");
    bench.server.respond_confirmed(
        request.exchange,
        5,
        &Response::of(Code::CONTENT),
        bench.now,
        &mut bench.out,
    );
    assert_eq!(bench.notices(), [Notice::ResponseLost { cookie: 5 }]);
}

/// Requests block `number` of the response to [`get`]; returns whether the application was asked.
fn ask_for(bench: &mut Bench, id: u16, number: u32) -> bool {
    let next = message(CON, Code::GET, id, &[2], |encoder| {
        encoder.option(option::URI_PATH, b"t");
        encoder.uint(
            option::BLOCK2,
            Block {
                number,
                more: false,
                size_exponent: 6,
            }
            .encode(),
        );
    });
    bench.feed(0, &next).is_some()
}

/// Answers a request of client `n` with three blocks, whose fate matters.
fn answer_in_three(bench: &mut Bench, n: usize, id: u16) -> Vec<u8> {
    let datagram = get(CON, id);
    let request = bench.feed(n, &datagram).expect("a request");
    let payload = body(3000, u64::from(id));
    let response = Response {
        code: Code::CONTENT,
        options: &[],
        payload: &payload,
    };
    bench.server.respond_confirmed(
        request.exchange,
        id.into(),
        &response,
        bench.now,
        &mut bench.out,
    );
    payload
}

#[test]
fn a_response_in_blocks_has_arrived_when_its_first_was_acknowledged_and_its_last_was_asked_for() {
    for acknowledged_first in [true, false] {
        let mut bench = bench();
        let payload = answer_in_three(&mut bench, 0, 1);
        let first = bench.sent(0).pop().expect("the first block");
        let mut acknowledgement = Vec::new();
        empty(
            &mut acknowledgement,
            Type::Acknowledgement,
            decoded(&first).id,
        );
        if acknowledged_first {
            bench.feed(0, &acknowledgement);
        }
        for number in 1..3_u32 {
            assert_eq!(bench.notices(), [], "{number}");
            assert!(
                !ask_for(&mut bench, 10 + number as u16, number),
                "it is not taken again"
            );
            let part = payload
                .chunks(1024)
                .nth(number as usize)
                .expect("three blocks");
            assert_eq!(decoded(&bench.sent(0)[0]).payload, part);
        }
        if !acknowledged_first {
            assert_eq!(bench.notices(), []);
            bench.feed(0, &acknowledgement);
        }
        assert_eq!(bench.notices(), [Notice::ResponseConfirmed { cookie: 1 }]);
        // The answer with the last block may have been lost.
        for id in [12, 13] {
            assert!(!ask_for(&mut bench, id, 2));
            assert_eq!(decoded(&bench.sent(0)[0]).payload, &payload[2048..]);
        }
        bench.feed(0, &acknowledgement);
        bench.wait(Span::from_secs(300));
        assert_eq!(bench.notices(), [], "its fate is told once");
    }
}

#[test]
fn a_response_of_which_not_all_blocks_are_fetched_is_lost_and_served_no_more() {
    let mut bench = bench();
    answer_in_three(&mut bench, 0, 1);
    bench.answer_all(0, Type::Acknowledgement);
    assert!(!ask_for(&mut bench, 2, 1));
    bench.wait(Span::from_secs(59));
    assert_eq!(bench.notices(), []);
    bench.wait(Span::from_secs(2));
    assert_eq!(bench.notices(), [Notice::ResponseLost { cookie: 1 }]);
    assert!(ask_for(&mut bench, 3, 2), "the application is asked");
}

#[test]
fn a_response_that_is_fetched_too_slowly_is_lost_however_busily() {
    let mut bench = bench();
    answer_in_three(&mut bench, 0, 1);
    bench.answer_all(0, Type::Acknowledgement);
    for id in 2..8 {
        bench.wait(Span::from_secs(19));
        assert!(!ask_for(&mut bench, id, 1));
    }
    assert_eq!(bench.notices(), []);
    bench.wait(Span::from_secs(7));
    assert_eq!(bench.notices(), [Notice::ResponseLost { cookie: 1 }]);
    assert!(ask_for(&mut bench, 9, 2));
}

#[test]
fn a_response_is_lost_when_its_first_block_is_and_is_served_no_more() {
    for kind in [Some(Type::Reset), None] {
        let mut bench = bench();
        answer_in_three(&mut bench, 0, 1);
        match kind {
            Some(kind) => assert_eq!(bench.answer_all(0, kind), 1),
            None => bench.wait(Span::from_secs(94)),
        }
        assert_eq!(bench.notices(), [Notice::ResponseLost { cookie: 1 }]);
        bench.wait(Span::from_secs(300));
        assert_eq!(bench.notices(), [], "its fate is told once");
        assert!(ask_for(&mut bench, 3, 1), "the application is asked");
    }
}

#[test]
fn a_response_whose_blocks_had_to_make_room_is_lost_whether_its_first_was_acknowledged_or_not() {
    for acknowledged in [true, false] {
        let settings = ServerSettings {
            kept_responses_max: 1,
            addresses_are_proven: true,
            ..ServerSettings::default()
        };
        let mut bench = Bench::new(settings);
        answer_in_three(&mut bench, 0, 1);
        let first = bench.sent(0).pop().expect("the first block");
        let mut acknowledgement = Vec::new();
        empty(
            &mut acknowledgement,
            Type::Acknowledgement,
            decoded(&first).id,
        );
        if acknowledged {
            bench.feed(0, &acknowledgement);
        }
        answer_in_three(&mut bench, 1, 2);
        assert_eq!(bench.notices(), [Notice::ResponseLost { cookie: 1 }]);
        // Numbers of those that are over are used again, but not while a message of theirs is under way.
        answer_in_three(&mut bench, 2, 3);
        assert_eq!(bench.notices(), [Notice::ResponseLost { cookie: 2 }]);
        bench.feed(0, &acknowledgement);
        assert_eq!(bench.notices(), [], "{acknowledged}");
        assert!(ask_for(&mut bench, 9, 1));
    }
}

#[test]
fn a_response_is_lost_when_the_same_is_asked_anew_or_its_client_goes() {
    let mut bench = bench();
    answer_in_three(&mut bench, 0, 1);
    bench.answer_all(0, Type::Acknowledgement);
    let newer = answer_in_three(&mut bench, 0, 2);
    assert_eq!(bench.notices(), [Notice::ResponseLost { cookie: 1 }]);
    bench.answer_all(0, Type::Acknowledgement);
    assert!(!ask_for(&mut bench, 3, 1));
    assert_eq!(decoded(&bench.sent(0)[0]).payload, &newer[1024..2048]);
    bench.server.peer_gone(client_address(0));
    assert_eq!(bench.notices(), [Notice::ResponseLost { cookie: 2 }]);
}

#[test]
fn a_response_that_is_too_large_to_be_kept_is_lost_at_once() {
    let settings = ServerSettings {
        kept_responses_bytes_max: 2999,
        addresses_are_proven: true,
        ..ServerSettings::default()
    };
    let mut bench = Bench::new(settings);
    answer_in_three(&mut bench, 0, 1);
    assert_eq!(bench.notices(), [Notice::ResponseLost { cookie: 1 }]);
    bench.answer_all(0, Type::Acknowledgement);
    assert_eq!(bench.notices(), []);
}
