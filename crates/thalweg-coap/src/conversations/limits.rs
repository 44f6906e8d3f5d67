//! Behaviour at each limit.

use super::*;

const CON: Type = Type::Confirmable;

fn bench(change: impl FnOnce(&mut ServerSettings)) -> Bench {
    let mut settings = ServerSettings {
        addresses_are_proven: true,
        ..ServerSettings::default()
    };
    change(&mut settings);
    Bench::new(settings)
}

fn codes(sent: &[Vec<u8>]) -> Vec<Code> {
    sent.iter().map(|datagram| decoded(datagram).code).collect()
}

#[test]
fn a_stranger_finds_no_room_while_all_peers_are_busy() {
    let mut bench = bench(|s| s.peers_max = 2);
    bench.observe(0, &[1]);
    bench.observe(1, &[1]);
    bench.out.clear();
    assert!(bench.feed(2, &put(CON, 1, b"x")).is_none());
    let sent = bench.sent(2);
    assert_eq!(codes(&sent), [Code::SERVICE_UNAVAILABLE]);
    assert_eq!(decoded(&sent[0]).options.uint(option::MAX_AGE), Some(10));
    assert!(bench.feed(2, &put(Type::NonConfirmable, 2, b"x")).is_none());
    assert!(bench.sent(2).is_empty());
    assert_eq!(
        (bench.server.peers(), bench.server.counts().overloaded),
        (2, 2)
    );
}

#[test]
fn requests_that_wait_for_answers_are_limited_per_peer_and_altogether() {
    let mut bench = bench(|s| (s.exchanges_per_peer, s.exchanges_max) = (2, 3));
    let mut accepted = 0;
    for (n, id) in [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)] {
        accepted += usize::from(bench.feed(n, &put(CON, id, b"x")).is_some());
    }
    assert_eq!((accepted, bench.server.counts().overloaded), (3, 2));
    assert_eq!(codes(&bench.sent(0)), [Code::SERVICE_UNAVAILABLE]);
}

#[test]
fn an_application_that_takes_too_long_is_answered_for() {
    let mut bench = bench(|_| {});
    let datagrams = [put(CON, 1, b"x"), put(Type::NonConfirmable, 2, b"x")];
    let exchanges = datagrams
        .each_ref()
        .map(|datagram| bench.feed(0, datagram).expect("a request").exchange);
    bench.wait(Span::from_secs(92));
    assert_eq!(
        codes(&bench.sent(0))[..3],
        [
            Code::EMPTY,
            Code::SERVICE_UNAVAILABLE,
            Code::SERVICE_UNAVAILABLE
        ]
    );
    let notices = bench.notices();
    assert!(
        exchanges
            .iter()
            .all(|exchange| notices.contains(&Notice::ExchangeExpired {
                exchange: *exchange
            }))
    );
    assert!(!bench.respond(exchanges[0], &Response::of(Code::CHANGED)));
    assert_eq!(bench.server.counts().expired, 2);
}

#[test]
fn requests_have_a_rate_per_peer() {
    let mut bench = bench(|s| (s.requests_per_second, s.request_burst) = (10, 5));
    let mut id = 0;
    let mut ask = |bench: &mut Bench, n, kind| {
        id += 1;
        let datagram = put(kind, id, b"x");
        match bench.feed(n, &datagram) {
            Some(request) => bench.respond(request.exchange, &Response::of(Code::CHANGED)),
            None => false,
        }
    };
    let accepted = (0..20).filter(|_| ask(&mut bench, 0, CON)).count();
    assert_eq!(accepted, 5);
    let sent = bench.sent(0);
    let refused: Vec<&Vec<u8>> = sent
        .iter()
        .filter(|d| decoded(d).code == Code::TOO_MANY_REQUESTS)
        .collect();
    assert_eq!(refused.len(), 15);
    assert_eq!(decoded(refused[0]).options.uint(option::MAX_AGE), Some(1));
    assert!(!ask(&mut bench, 0, Type::NonConfirmable));
    assert!(bench.sent(0).is_empty(), "who needs no answer gets none");
    assert!(ask(&mut bench, 1, CON), "others have their own");
    bench.wait(millis(1000));
    assert_eq!((0..20).filter(|_| ask(&mut bench, 0, CON)).count(), 5);
    assert_eq!(bench.server.counts().rate_limited, 31);
}

#[test]
fn answers_are_remembered_up_to_a_number_and_a_size() {
    let mut bench = bench(|s| (s.remembered_max, s.remembered_bytes_max) = (10, 100));
    for id in 0..50 {
        let datagram = put(CON, id, b"x");
        let request = bench.feed(0, &datagram).expect("a request");
        bench.respond(
            request.exchange,
            &Response {
                code: Code::CHANGED,
                options: &[],
                payload: &[1; 30],
            },
        );
    }
    assert_eq!(bench.server.counts().remembered_displaced, 47);
    assert!(
        bench.feed(0, &put(CON, 49, b"x")).is_none(),
        "the newest are still known"
    );
    assert!(
        bench.feed(0, &put(CON, 40, b"x")).is_some(),
        "the oldest are not"
    );
}

#[test]
fn observations_are_limited_per_peer_and_altogether() {
    let mut bench = bench(|s| (s.relations_per_peer, s.relations_max) = (2, 3));
    let mut register = |n, token: u8| {
        let get = message(CON, Code::GET, u16::from(token), &[token], |encoder| {
            encoder.uint(option::OBSERVE, 0);
        });
        let request = bench.feed(n, &get).expect("a request");
        let refused = bench
            .server
            .observe(request.exchange, 0, None, bench.now)
            .err();
        bench.respond(request.exchange, &Response::of(Code::CONTENT));
        let observes = decoded(&bench.sent(n)[0]).options.has(option::OBSERVE);
        assert_eq!(observes, refused.is_none());
        refused
    };
    assert_eq!(
        [1, 2, 3].map(|token| register(0, token)),
        [None, None, Some(ObserveRefused::TooManyOfPeer)]
    );
    assert_eq!(
        [1, 2].map(|token| register(1, token)),
        [None, Some(ObserveRefused::TooMany)]
    );
    assert_eq!(register(0, 1), None, "a renewal is no new one");
}

#[test]
fn separate_responses_wait_for_nstart_and_for_room() {
    let mut bench = bench(|s| s.waiting_per_peer = 2);
    let datagrams: Vec<Vec<u8>> = (0..5).map(|id| put(CON, id, b"x")).collect();
    let exchanges: Vec<ExchangeId> = datagrams
        .iter()
        .map(|datagram| bench.feed(0, datagram).expect("a request").exchange)
        .collect();
    bench.wait(millis(1001));
    bench.out.clear();
    for exchange in exchanges {
        assert!(bench.respond(exchange, &Response::of(Code::CHANGED)));
    }
    assert_eq!(bench.server.counts().responses_dropped, 2);
    for _ in 0..3 {
        assert_eq!(bench.out.len(), 1, "one at a time");
        assert_eq!(bench.answer_all(0, Type::Acknowledgement), 1);
    }
    assert!(bench.out.is_empty());
}

#[test]
fn confirmable_messages_in_flight_are_limited_altogether() {
    let mut bench = bench(|s| s.sendings_max = 2);
    let relations: Vec<RelationId> = (0..3).map(|n| bench.observe(n, &[1])).collect();
    let sent: Vec<Notified> = relations
        .iter()
        .map(|r| bench.notify(*r, b"x", Delivery::Confirmable))
        .collect();
    assert_eq!(
        sent[1..],
        [Notified::Sent { confirmable: true }, Notified::Busy]
    );
}

#[test]
fn what_is_due_leaves_in_portions_so_that_answers_are_heard_in_between() {
    let mut bench = bench(|_| {});
    let relations: Vec<RelationId> = (0..1000).map(|n| bench.observe(n, &[1])).collect();
    for relation in relations {
        let notified = bench.notify(relation, b"x", Delivery::Confirmable);
        assert_eq!(notified, Notified::Sent { confirmable: true });
    }
    bench.out.clear();
    // All have waited for longer than ACK_TIMEOUT * ACK_RANDOM_FACTOR, and none for twice ACK_TIMEOUT.
    bench.now += millis(3500);
    let mut sent = Vec::new();
    while bench.server.poll_timeout() <= bench.now {
        bench.server.handle_timeout(bench.now, &mut bench.out);
        sent.push(bench.out.len());
        bench.out.clear();
    }
    assert_eq!(sent.iter().sum::<usize>(), 1000);
    assert!(sent.iter().all(|count| *count <= 256), "{sent:?}");
}

/// The first of several blocks of a PUT, with an Echo if that is not empty.
fn first_block(id: u16, echo: &[u8]) -> Vec<u8> {
    let head = message(CON, Code::PUT, id, &[1], |encoder| {
        encoder.uint(
            option::BLOCK1,
            Block {
                number: 0,
                more: true,
                size_exponent: 0,
            }
            .encode(),
        );
        if !echo.is_empty() {
            encoder.option(option::ECHO, echo);
        }
    });
    with_payload(head, &[0; 16])
}

#[test]
fn made_up_addresses_take_no_more_than_half_of_the_places_of_bodies() {
    let mut bench = bench(|s| {
        s.transfers_max = 8;
        s.addresses_are_proven = false;
    });
    for n in 1..100 {
        bench.feed(n, &first_block(1, &[]));
        let expected = match n {
            ..=5 => Code::CONTINUE,
            _ => Code::UNAUTHORIZED,
        };
        assert_eq!(codes(&bench.sent(n)), [expected], "{n}");
    }
    // A peer with a proven address finds space.
    bench.feed(0, &first_block(1, &[]));
    let demand = bench.sent(0).remove(0);
    let echo = decoded(&demand).options.get(option::ECHO).expect("an Echo");
    bench.feed(0, &first_block(2, echo));
    assert_eq!(codes(&bench.sent(0)), [Code::CONTINUE]);
    assert_eq!(bench.server.counts().transfers_displaced, 0);
}

#[test]
fn who_takes_a_peers_address_leaves_it_half_of_its_bodies() {
    let mut bench = bench(|s| {
        s.transfers_per_peer = 8;
        s.addresses_are_proven = false;
    });
    let first = |id: u16, echo: &[u8]| {
        let head = message(CON, Code::PUT, id, &[1], |encoder| {
            encoder.option(option::URI_PATH, format!("{id}").as_bytes());
            encoder.uint(
                option::BLOCK1,
                Block {
                    number: 0,
                    more: true,
                    size_exponent: 0,
                }
                .encode(),
            );
            if !echo.is_empty() {
                encoder.option(option::ECHO, echo);
            }
        });
        with_payload(head, &[0; 16])
    };
    for id in 1..=5 {
        bench.feed(0, &first(id, &[]));
        assert_eq!(codes(&bench.sent(0)), [Code::CONTINUE], "{id}");
    }
    // The answer goes to the peer's address, so no other host can know it.
    bench.feed(0, &first(6, &[]));
    let demand = bench.sent(0).remove(0);
    let echo = decoded(&demand).options.get(option::ECHO).expect("an Echo");
    for (id, echo, expected) in [
        (7, echo, Code::CONTINUE),
        (8, &[][..], Code::UNAUTHORIZED),
        (9, &[0; 12], Code::UNAUTHORIZED),
        (10, echo, Code::CONTINUE),
    ] {
        bench.feed(0, &first(id, echo));
        assert_eq!(codes(&bench.sent(0)), [expected], "{id}");
    }
}

#[test]
fn block_transfers_are_limited_altogether() {
    let mut bench = bench(|s| s.transfers_max = 2);
    let datagram = |id| first_block(id, &[]);
    for n in 0..3 {
        bench.feed(n, &datagram(1));
    }
    assert_eq!(codes(&bench.sent(2)), [Code::SERVICE_UNAVAILABLE]);
    bench.wait(millis(2001));
    bench.feed(2, &datagram(2));
    assert_eq!(codes(&bench.sent(2)), [Code::CONTINUE]);
    assert_eq!(bench.server.counts().transfers_displaced, 1);
}

#[test]
fn idle_peers_are_forgotten_and_those_with_observations_are_not() {
    let mut bench = bench(|_| {});
    bench.observe(0, &[1]);
    for n in 1..100 {
        let datagram = put(CON, 1, b"x");
        let request = bench.feed(n, &datagram).expect("a request");
        bench.respond(request.exchange, &Response::of(Code::CHANGED));
    }
    assert_eq!(bench.server.peers(), 100);
    bench.wait(Span::from_secs(301));
    bench.server.handle_timeout(bench.now, &mut bench.out);
    assert_eq!(bench.server.peers(), 1);
    assert!(
        bench.feed(50, &put(CON, 1, b"x")).is_some(),
        "its answer is forgotten as well by then"
    );
}

#[test]
fn settings_may_change_on_the_way() {
    let mut bench = bench(|_| {});
    assert!(bench.feed(0, &put(CON, 1, b"x")).is_some());
    let mut settings = ServerSettings {
        requests_per_second: 1,
        request_burst: 1,
        ..ServerSettings::default()
    };
    settings.understood_options.clear();
    bench.server.set_settings(Arc::new(settings));
    assert!(bench.feed(0, &put(CON, 2, b"x")).is_none());
    assert_eq!(
        codes(&bench.sent(0)),
        [Code::BAD_OPTION],
        "Uri-Path is not understood any more"
    );
}

#[test]
fn a_client_has_limits_too() {
    let settings = ClientSettings {
        requests_max: 3,
        waiting_per_peer: 1,
        peers_max: 2,
        ..ClientSettings::default()
    };
    let mut client = ClientSide::new(Arc::new(settings), 1);
    let mut out = Datagrams::new();
    let get = RequestOut {
        code: Code::GET,
        confirmable: true,
        options: &[],
        payload: &[],
        observe: false,
    };
    let mut ask = |n| {
        client
            .request(client_address(n), &get, Time::ZERO, &mut out)
            .err()
    };
    assert_eq!(
        [0, 0, 0].map(&mut ask),
        [None, None, Some(RequestRefused::TooMany)],
        "the queue to one peer"
    );
    assert_eq!(
        [1, 2].map(&mut ask),
        [None, Some(RequestRefused::TooMany)],
        "all requests"
    );
    let options = [(option::URI_QUERY, Value::Opaque(&[b'x'; 255][..])); 4];
    let large = RequestOut {
        options: &options,
        ..get
    };
    let mut client = ClientSide::new(Arc::default(), 1);
    let refused = client.request(client_address(0), &large, Time::ZERO, &mut out);
    assert_eq!(refused, Err(RequestRefused::TooLarge));
}

#[test]
fn a_peer_that_does_not_answer_is_probed_slowly() {
    let mut client = ClientSide::new(Arc::default(), 1);
    let mut out = Datagrams::new();
    let non = RequestOut {
        code: Code::PUT,
        confirmable: false,
        options: &[],
        payload: &[0; 84],
        observe: false,
    };
    let mut ask =
        |client: &mut ClientSide, now| client.request(client_address(0), &non, now, &mut out);
    let start = Time::from_secs(1);
    let sent = (0..1000)
        .filter(|_| ask(&mut client, start).is_ok())
        .count();
    assert_eq!(sent, 40, "4096 bytes");
    assert_eq!(
        ask(&mut client, start + Span::from_secs(2)),
        Err(RequestRefused::Probing)
    );
    let later = (0..10)
        .filter(|_| ask(&mut client, start + Span::from_secs(200)).is_ok())
        .count();
    assert_eq!(later, 2, "a byte a second");
    let mut sign = Vec::new();
    empty(&mut sign, Type::NonConfirmable, 1);
    client.handle_datagram(client_address(0), &sign, start, &mut Datagrams::new());
    assert!(
        ask(&mut client, start + Span::from_secs(200)).is_ok(),
        "it is there"
    );
}
