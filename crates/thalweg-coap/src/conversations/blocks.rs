//! Bodies in blocks: RFC 7959.

use super::*;

fn proven() -> ServerSettings {
    ServerSettings {
        addresses_are_proven: true,
        ..ServerSettings::default()
    }
}

/// An application that stores PUT bodies, returns them on GET, and echoes POST bodies.
#[derive(Default)]
struct Store {
    value: Vec<u8>,
    requests: usize,
}

impl Application for Store {
    fn on_request(
        &mut self,
        server: &mut ServerSide,
        request: Request<'_>,
        now: Time,
        out: &mut Datagrams,
    ) {
        self.requests += 1;
        let (code, payload) = match request.code {
            Code::PUT => {
                self.value = request.payload.into_owned();
                (Code::CHANGED, Vec::new())
            }
            Code::POST => (Code::CHANGED, request.payload.into_owned()),
            _ => (Code::CONTENT, self.value.clone()),
        };
        server.respond(
            request.exchange,
            &Response {
                code,
                options: &[],
                payload: &payload,
            },
            now,
            out,
        );
    }
}

const PATH: [OptionOut<'_>; 1] = [(option::URI_PATH, Value::Opaque(b"t"))];

fn ask(code: Code, payload: &[u8]) -> RequestOut<'_> {
    RequestOut {
        code,
        confirmable: true,
        options: &PATH,
        payload,
        observe: false,
    }
}

/// Sends a request and waits for its result.
fn exchange<A: Application>(world: &mut World<A>, request: &RequestOut<'_>) -> Reply {
    world.request(0, request);
    loop {
        world.run_for(millis(1000));
        let heard = world
            .take_heard(0)
            .into_iter()
            .find(|h| !matches!(h, Reply::Notice(ClientNotice::Acknowledged { .. })));
        if let Some(heard) = heard {
            return heard;
        }
        assert!(
            world.client(0, |client, _, _| client.requests()) > 0,
            "it ended without a word"
        );
    }
}

fn is_response(heard: &Reply, code: Code, payload: &[u8]) -> bool {
    matches!(heard, Reply::Response(_, c, p) if *c == code && p == payload)
}

#[test]
fn bodies_of_all_sizes_go_both_ways_in_blocks_of_all_sizes() {
    for exponents in [[6, 6], [2, 6], [6, 2], [0, 0], [0, 3]] {
        let [of_server, of_client] = exponents;
        let server = ServerSettings {
            block_exponent_max: of_server,
            ..proven()
        };
        let client = ClientSettings {
            block_exponent_max: of_client,
            ..ClientSettings::default()
        };
        let mut world = World::new(1, Weather::default(), server, client, 1, Store::default());
        for len in [0, 1, 15, 16, 17, 64, 1023, 1024, 1025, 2048, 5000] {
            let body = body(len, 7);
            assert!(
                is_response(
                    &exchange(&mut world, &ask(Code::PUT, &body)),
                    Code::CHANGED,
                    &[]
                ),
                "{exponents:?} {len}"
            );
            assert_eq!(world.application.value, body, "{exponents:?} {len}");
            assert!(
                is_response(
                    &exchange(&mut world, &ask(Code::GET, &[])),
                    Code::CONTENT,
                    &body
                ),
                "{exponents:?} {len}"
            );
            assert!(
                is_response(
                    &exchange(&mut world, &ask(Code::POST, &body)),
                    Code::CHANGED,
                    &body
                ),
                "{exponents:?} {len}"
            );
        }
        assert_eq!(world.server.counts().overloaded, 0);
    }
}

#[test]
fn a_post_is_done_once_however_many_blocks_its_response_has() {
    let mut world = World::new(
        1,
        Weather::default(),
        proven(),
        ClientSettings::default(),
        1,
        Store::default(),
    );
    let body = body(10_000, 7);
    assert!(is_response(
        &exchange(&mut world, &ask(Code::POST, &body)),
        Code::CHANGED,
        &body
    ));
    assert_eq!(world.application.requests, 1);
}

#[test]
fn blocks_over_a_bad_network_make_the_same_body() {
    let weather = Weather {
        lost: 25,
        doubled: 10,
        delay: [5, 300],
    };
    let client = ClientSettings {
        response_within: Span::from_secs(200),
        ..ClientSettings::default()
    };
    let server = ServerSettings {
        transfer_idle: Span::from_secs(247),
        ..proven()
    };
    let mut whole = 0;
    for seed in 1..=10 {
        let mut world = World::new(
            seed,
            weather,
            server.clone(),
            client.clone(),
            1,
            Store::default(),
        );
        let sent = body(8000, seed);
        let heard = exchange(&mut world, &ask(Code::PUT, &sent));
        match heard {
            Reply::Response(_, Code::CHANGED, _) => {
                assert_eq!(world.application.value, sent, "seed {seed}")
            }
            // A client may give up; the body must not be there in part.
            _ => assert!(
                world.application.value.is_empty() || world.application.value == sent,
                "seed {seed}"
            ),
        }
        world.application.value = sent.clone();
        match exchange(&mut world, &ask(Code::GET, &[])) {
            Reply::Response(_, code, payload) => {
                assert_eq!((code, payload), (Code::CONTENT, sent), "seed {seed}");
                whole += 1;
            }
            other => assert!(
                matches!(other, Reply::Notice(ClientNotice::Failed { .. })),
                "seed {seed}: {other:?}"
            ),
        }
    }
    assert!(whole >= 7, "{whole}");
}

#[test]
fn a_body_that_changes_on_the_way_is_fetched_again() {
    /// Changes its value when it is asked the third time.
    struct Changing(usize);
    impl Application for Changing {
        fn on_request(
            &mut self,
            server: &mut ServerSide,
            request: Request<'_>,
            now: Time,
            out: &mut Datagrams,
        ) {
            self.0 += 1;
            let payload = body(5000, if self.0 > 2 { 20 } else { 10 });
            server.respond(
                request.exchange,
                &Response {
                    code: Code::CONTENT,
                    options: &[],
                    payload: &payload,
                },
                now,
                out,
            );
        }
    }
    let mut world = World::new(
        1,
        Weather::default(),
        proven(),
        ClientSettings::default(),
        1,
        Changing(0),
    );
    assert!(is_response(
        &exchange(&mut world, &ask(Code::GET, &[])),
        Code::CONTENT,
        &body(5000, 20)
    ));
    assert_eq!(
        world.application.0,
        3 + 5,
        "two blocks of the old one, one that shows the change, five of the new one"
    );
}

#[test]
fn a_body_that_never_stays_is_given_up() {
    struct Restless(u64);
    impl Application for Restless {
        fn on_request(
            &mut self,
            server: &mut ServerSide,
            request: Request<'_>,
            now: Time,
            out: &mut Datagrams,
        ) {
            self.0 += 1;
            let payload = body(5000, self.0);
            server.respond(
                request.exchange,
                &Response {
                    code: Code::CONTENT,
                    options: &[],
                    payload: &payload,
                },
                now,
                out,
            );
        }
    }
    let mut world = World::new(
        1,
        Weather::default(),
        proven(),
        ClientSettings::default(),
        1,
        Restless(0),
    );
    let heard = exchange(&mut world, &ask(Code::GET, &[]));
    assert!(
        matches!(
            heard,
            Reply::Notice(ClientNotice::Failed {
                why: Failure::Body,
                ..
            })
        ),
        "{heard:?}"
    );
}

#[test]
fn a_client_refuses_a_response_that_is_too_large() {
    let client = ClientSettings {
        response_bytes_max: 3000,
        ..ClientSettings::default()
    };
    let app = Store {
        value: body(5000, 1),
        requests: 0,
    };
    let mut world = World::new(1, Weather::default(), proven(), client, 1, app);
    let heard = exchange(&mut world, &ask(Code::GET, &[]));
    assert!(
        matches!(
            heard,
            Reply::Notice(ClientNotice::Failed {
                why: Failure::Body,
                ..
            })
        ),
        "{heard:?}"
    );
    assert_eq!(
        world.application.requests, 1,
        "Size2 said so in the first block"
    );
}

#[test]
fn a_request_that_is_too_large_is_refused_with_the_size_that_is_not() {
    let settings = ServerSettings {
        transfer_bytes_max: 2000,
        ..proven()
    };
    let mut world = World::new(
        1,
        Weather::default(),
        settings.clone(),
        ClientSettings::default(),
        1,
        Store::default(),
    );
    let heard = exchange(&mut world, &ask(Code::PUT, &body(2001, 1)));
    assert!(
        matches!(heard, Reply::Response(_, Code::REQUEST_ENTITY_TOO_LARGE, _)),
        "{heard:?}"
    );
    assert_eq!(
        world.server.counts().datagrams,
        1,
        "Size1 said so in the first block"
    );
    // One that does not announce its size.
    let mut bench = Bench::new(settings);
    let block = |number: u32, id| {
        let head = message(Type::Confirmable, Code::PUT, id, &[1], |encoder| {
            encoder.uint(
                option::BLOCK1,
                Block {
                    number,
                    more: true,
                    size_exponent: 6,
                }
                .encode(),
            );
        });
        with_payload(head, &[0; 1024])
    };
    bench.feed(0, &block(0, 1));
    bench.feed(0, &block(1, 2));
    let sent = bench.sent(0);
    assert_eq!(decoded(&sent[0]).code, Code::CONTINUE);
    let refusal = decoded(&sent[1]);
    assert_eq!(refusal.code, Code::REQUEST_ENTITY_TOO_LARGE);
    assert_eq!(refusal.options.uint(option::SIZE1), Some(2000));
}

#[test]
fn a_block_without_those_before_it_is_refused() {
    let mut bench = Bench::new(proven());
    let head = message(Type::Confirmable, Code::PUT, 1, &[1], |encoder| {
        encoder.uint(
            option::BLOCK1,
            Block {
                number: 3,
                more: false,
                size_exponent: 2,
            }
            .encode(),
        );
    });
    assert!(bench.feed(0, &with_payload(head, b"tail")).is_none());
    assert_eq!(
        decoded(&bench.sent(0)[0]).code,
        Code::REQUEST_ENTITY_INCOMPLETE
    );
}

#[test]
fn blocks_that_are_illegal_are_bad_requests() {
    for (number, value) in [
        (option::BLOCK1, 7),
        (option::BLOCK2, 7),
        (option::BLOCK1, 8 | 2),
    ] {
        let mut bench = Bench::new(proven());
        let head = message(Type::Confirmable, Code::PUT, 1, &[1], |encoder| {
            encoder.uint(number, value);
        });
        assert!(
            bench
                .feed(0, &with_payload(head, b"not 64 bytes"))
                .is_none()
        );
        assert_eq!(
            decoded(&bench.sent(0)[0]).code,
            Code::BAD_REQUEST,
            "{number} {value}"
        );
    }
}

#[test]
fn a_block_is_remembered_so_that_its_repetition_does_not_count_twice() {
    let mut bench = Bench::new(proven());
    let block = |number: u32, more, id| {
        let head = message(Type::Confirmable, Code::PUT, id, &[1], |encoder| {
            encoder.uint(
                option::BLOCK1,
                Block {
                    number,
                    more,
                    size_exponent: 0,
                }
                .encode(),
            );
        });
        with_payload(head, &[number as u8; 16])
    };
    bench.feed(0, &block(0, true, 1));
    bench.feed(0, &block(1, true, 2));
    bench.feed(0, &block(1, true, 2));
    let sent = bench.sent(0);
    assert_eq!((sent.len(), &sent[1]), (3, &sent[2]));
    let last = block(2, false, 3);
    let request = bench.feed(0, &last).expect("it is whole");
    assert_eq!(request.payload.len(), 48);
    bench.respond(request.exchange, &Response::of(Code::CHANGED));
    let answer = bench.sent(0);
    let block = decoded(&answer[0])
        .options
        .uint(option::BLOCK1)
        .and_then(Block::decode);
    assert_eq!(
        block,
        Some(Block {
            number: 2,
            more: false,
            size_exponent: 0
        })
    );
}

#[test]
fn request_tags_keep_bodies_apart() {
    let mut bench = Bench::new(proven());
    let block = |tag: u8, number: u32, more, id| {
        let head = message(Type::Confirmable, Code::PUT, id, &[1], |encoder| {
            encoder.uint(
                option::BLOCK1,
                Block {
                    number,
                    more,
                    size_exponent: 0,
                }
                .encode(),
            );
            encoder.option(option::REQUEST_TAG, &[tag]);
        });
        with_payload(head, &[tag; 16])
    };
    for (tag, id) in [(1, 1), (2, 2)] {
        assert!(bench.feed(0, &block(tag, 0, true, id)).is_none());
    }
    for (tag, id) in [(2, 3), (1, 4)] {
        let last = block(tag, 1, false, id);
        let request = bench.feed(0, &last).expect("it is whole");
        assert_eq!(*request.payload, [tag; 32]);
    }
}

#[test]
fn what_came_of_a_body_in_blocks_is_forgotten_after_a_while() {
    let mut bench = Bench::new(proven());
    let head = message(Type::Confirmable, Code::PUT, 1, &[1], |encoder| {
        encoder.uint(
            option::BLOCK1,
            Block {
                number: 0,
                more: true,
                size_exponent: 0,
            }
            .encode(),
        );
    });
    bench.feed(0, &with_payload(head, &[0; 16]));
    assert!(bench.server.bytes().transfers > 0);
    bench.wait(Span::from_secs(61));
    let head = message(Type::Confirmable, Code::PUT, 2, &[1], |encoder| {
        encoder.uint(
            option::BLOCK1,
            Block {
                number: 1,
                more: false,
                size_exponent: 0,
            }
            .encode(),
        );
    });
    bench.out.clear();
    assert!(bench.feed(0, &with_payload(head, &[0; 3])).is_none());
    assert_eq!(
        decoded(&bench.sent(0)[0]).code,
        Code::REQUEST_ENTITY_INCOMPLETE
    );
}

#[test]
fn a_block_behind_the_end_is_a_bad_request() {
    let mut bench = Bench::new(proven());
    let get = message(Type::Confirmable, Code::GET, 1, &[1], |encoder| {
        encoder.uint(
            option::BLOCK2,
            Block {
                number: 2,
                more: false,
                size_exponent: 0,
            }
            .encode(),
        );
    });
    let request = bench.feed(0, &get).expect("a request");
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CONTENT,
            options: &[],
            payload: &[1; 32],
        },
    );
    assert_eq!(decoded(&bench.sent(0)[0]).code, Code::BAD_REQUEST);
}

#[test]
fn further_blocks_of_an_unsafe_response_are_gone_after_a_while() {
    let settings = ServerSettings {
        kept_responses_max: 1,
        ..proven()
    };
    let mut bench = Bench::new(settings);
    let first = put_and_answer(&mut bench, 0);
    assert_eq!(first.0, Code::CHANGED);
    assert_eq!(ask_for_block(&mut bench, 0, 1), Code::CHANGED);
    bench.wait(Span::from_secs(61));
    assert_eq!(
        ask_for_block(&mut bench, 0, 1),
        Code::REQUEST_ENTITY_INCOMPLETE
    );
    // The kept response of one client makes room for another's.
    put_and_answer(&mut bench, 1);
    put_and_answer(&mut bench, 2);
    assert_eq!(
        ask_for_block(&mut bench, 1, 1),
        Code::REQUEST_ENTITY_INCOMPLETE
    );
    assert_eq!(ask_for_block(&mut bench, 2, 1), Code::CHANGED);
}

fn put_and_answer(bench: &mut Bench, n: usize) -> (Code, usize) {
    let datagram = put(Type::Confirmable, 50 + n as u16, b"x");
    let request = bench.feed(n, &datagram).expect("a request");
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CHANGED,
            options: &[],
            payload: &body(1500, 1),
        },
    );
    let sent = bench.sent(n);
    (decoded(&sent[0]).code, decoded(&sent[0]).payload.len())
}

fn ask_for_block(bench: &mut Bench, n: usize, number: u32) -> Code {
    let id = 100 + bench.server.counts().datagrams as u16;
    let datagram = message(Type::Confirmable, Code::PUT, id, &[1], |encoder| {
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
    assert!(bench.feed(n, &datagram).is_none());
    decoded(&bench.sent(n)[0]).code
}

#[test]
fn a_large_notification_has_its_first_block_and_the_rest_is_asked_for() {
    let mut bench = Bench::new(proven());
    let relation = bench.observe(0, &[1]);
    bench.out.clear();
    let payload = body(2500, 1);
    let _ = bench.notify(relation, &payload, Delivery::Confirmable);
    let sent = bench.sent(0).remove(0);
    let first = decoded(&sent);
    let block = first.options.uint(option::BLOCK2).and_then(Block::decode);
    assert_eq!(
        block,
        Some(Block {
            number: 0,
            more: true,
            size_exponent: 6
        })
    );
    assert_eq!(
        (first.options.uint(option::SIZE2), first.payload),
        (Some(2500), &payload[..1024])
    );
    let tag = first
        .options
        .get(option::ETAG)
        .expect("one is made")
        .to_vec();
    let get = message(Type::Confirmable, Code::GET, 1, &[2], |encoder| {
        encoder.option(option::URI_PATH, b"t");
        encoder.uint(
            option::BLOCK2,
            Block {
                number: 1,
                more: false,
                size_exponent: 6,
            }
            .encode(),
        );
    });
    assert!(
        bench.feed(0, &get).is_none(),
        "it is served from what was notified"
    );
    let sent = bench.sent(0).remove(0);
    let second = decoded(&sent);
    assert_eq!(
        (second.options.get(option::ETAG), second.payload),
        (Some(&tag[..]), &payload[1024..2048])
    );
    assert!(!second.options.has(option::OBSERVE));
}

#[test]
fn an_observer_may_ask_for_small_blocks() {
    let mut bench = Bench::new(proven());
    let get = message(Type::Confirmable, Code::GET, 1, &[1], |encoder| {
        encoder.uint(option::OBSERVE, 0);
        encoder.uint(
            option::BLOCK2,
            Block {
                number: 0,
                more: false,
                size_exponent: 1,
            }
            .encode(),
        );
    });
    let request = bench.feed(0, &get).expect("a request");
    let relation = bench
        .server
        .observe(request.exchange, 0, None, bench.now)
        .expect("room");
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CONTENT,
            options: &[],
            payload: &[1; 40],
        },
    );
    for _ in 0..2 {
        let sent = bench.sent(0).remove(0);
        let m = decoded(&sent);
        let block = m.options.uint(option::BLOCK2).and_then(Block::decode);
        assert_eq!(
            (block.map(|b| (b.size_exponent, b.more)), m.payload),
            (Some((1, true)), &[1; 32][..])
        );
        assert!(m.options.has(option::OBSERVE) && m.options.has(option::ETAG));
        let _ = bench.notify(relation, &[1; 40], Delivery::Confirmable);
    }
}

#[test]
fn blocks_of_a_notification_and_of_a_newer_answer_are_not_mixed() {
    let mut bench = Bench::new(proven());
    let relation = bench.observe(0, &[1]);
    let (old, new) = (body(2500, 10), body(2500, 20));
    let _ = bench.notify(relation, &old, Delivery::Confirmable);
    bench.out.clear();
    let ask = |number: u32, id| {
        message(Type::Confirmable, Code::GET, id, &[2], |encoder| {
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
        })
    };
    let first = ask(0, 1);
    let request = bench
        .feed(0, &first)
        .expect("the first block is the application's");
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CONTENT,
            options: &[],
            payload: &new,
        },
    );
    bench.out.clear();
    assert!(bench.feed(0, &ask(1, 2)).is_none());
    assert_eq!(decoded(&bench.sent(0)[0]).payload, &new[1024..2048]);
    bench.answer_all(0, Type::Acknowledgement);
    bench.wait(Span::from_secs(62));
    assert!(
        bench.feed(0, &ask(1, 3)).is_some(),
        "what is not kept any more is asked for"
    );
}

#[test]
fn an_error_is_an_error_whichever_block_was_asked_for() {
    let mut bench = Bench::new(proven());
    let get = message(Type::Confirmable, Code::GET, 1, &[1], |encoder| {
        encoder.uint(
            option::BLOCK2,
            Block {
                number: 2,
                more: false,
                size_exponent: 0,
            }
            .encode(),
        );
    });
    let request = bench.feed(0, &get).expect("a request");
    bench.respond(
        request.exchange,
        &Response {
            code: Code::NOT_FOUND,
            options: &[],
            payload: b"no value",
        },
    );
    let sent = bench.sent(0).remove(0);
    assert_eq!(
        (decoded(&sent).code, decoded(&sent).payload),
        (Code::NOT_FOUND, &b"no value"[..])
    );
}

/// Many bodies of one client in parallel, each block 50 ms after the one before, as over any network beyond the local
/// one.
#[test]
fn bodies_in_parallel_over_a_network_with_delay_all_arrive() {
    let weather = Weather {
        delay: [25, 25],
        ..Weather::default()
    };
    let transmission = Transmission {
        nstart: 64,
        ..Transmission::default()
    };
    let client = ClientSettings {
        transmission,
        ..ClientSettings::default()
    };
    let mut world = World::new(1, weather, proven(), client, 1, Store::default());
    let body = body(3000, 7);
    let paths: Vec<[u8; 2]> = (0..64).map(|n| [b'a' + n / 8, b'a' + n % 8]).collect();
    for path in &paths {
        let options = [(option::URI_PATH, Value::Opaque(path))];
        let request = RequestOut {
            code: Code::PUT,
            confirmable: true,
            options: &options,
            payload: &body,
            observe: false,
        };
        world.request(0, &request);
    }
    world.run_for(millis(150));
    let heard = world.take_heard(0);
    let changed = heard
        .iter()
        .filter(|heard| matches!(heard, Reply::Response(_, Code::CHANGED, _)))
        .count();
    assert_eq!(
        (changed, world.application.requests),
        (64, 64),
        "three round trips: {heard:?}"
    );
}

#[test]
fn a_body_beyond_those_that_a_peer_may_have_under_way_is_refused_with_words_and_the_others_arrive()
{
    let mut bench = Bench::new(ServerSettings {
        transfers_per_peer: 4,
        ..proven()
    });
    let block = |path: u8, id: u16, number: u32, more: bool| {
        let head = message(Type::Confirmable, Code::PUT, id, &[path], |encoder| {
            encoder.option(option::URI_PATH, &[path]);
            encoder.uint(
                option::BLOCK1,
                Block {
                    number,
                    more,
                    size_exponent: 0,
                }
                .encode(),
            );
        });
        with_payload(head, &[7; 16])
    };
    for path in 0..5 {
        assert!(
            bench
                .feed(0, &block(path, u16::from(path), 0, true))
                .is_none()
        );
    }
    let sent = bench.sent(0);
    let codes: Vec<Code> = sent.iter().map(|bytes| decoded(bytes).code).collect();
    let refused = decoded(&sent[4]);
    assert_eq!(
        codes,
        [[Code::CONTINUE; 4].as_slice(), &[Code::SERVICE_UNAVAILABLE]].concat()
    );
    assert_eq!(refused.options.uint(option::MAX_AGE), Some(1));
    assert_eq!(
        refused.payload,
        b"too many bodies of this client are under way"
    );
    for path in 0..4 {
        let last = block(path, 10 + u16::from(path), 1, false);
        let request = bench.feed(0, &last).expect("the whole body");
        assert_eq!(request.payload.len(), 32);
    }
    assert!(bench.feed(0, &block(4, 20, 0, true)).is_none());
    assert_eq!(
        decoded(&bench.sent(0)[0]).code,
        Code::CONTINUE,
        "there is room again"
    );
}

/// RFC 7252 §5.5.2: words for a person. Each is counted, or a fault of blocks would not be found.
#[test]
fn refused_blocks_have_words_and_are_counted() {
    let mut bench = Bench::new(ServerSettings {
        transfer_bytes_max: 20,
        ..proven()
    });
    let block = |id: u16, number: u32| {
        let head = message(Type::Confirmable, Code::PUT, id, &[1], |encoder| {
            encoder.uint(
                option::BLOCK1,
                Block {
                    number,
                    more: true,
                    size_exponent: 0,
                }
                .encode(),
            );
        });
        with_payload(head, &[7; 16])
    };
    let unknown = message(Type::Confirmable, Code::PUT, 3, &[1], |encoder| {
        encoder.option(2049, b"x");
    });
    let zero_hops = message(Type::Confirmable, Code::PUT, 4, &[1], |encoder| {
        encoder.option(option::HOP_LIMIT, &[0]);
    });
    let cases = [
        (
            block(1, 1),
            Code::REQUEST_ENTITY_TOO_LARGE,
            "the body may have 20 bytes at most",
        ),
        (block(2, 0), Code::CONTINUE, ""),
        (
            unknown,
            Code::BAD_OPTION,
            "option 2049 is critical and not supported",
        ),
        (zero_hops, Code::BAD_REQUEST, "Hop-Limit 0 is not legal"),
    ];
    for (datagram, code, words) in cases {
        assert!(bench.feed(0, &datagram).is_none());
        let sent = bench.sent(0);
        let answer = decoded(&sent[0]);
        assert_eq!(
            (answer.code, core::str::from_utf8(answer.payload)),
            (code, Ok(words))
        );
    }
    bench.server.set_settings(Arc::new(proven()));
    assert!(bench.feed(0, &block(5, 3)).is_none());
    let sent = bench.sent(0);
    let words = "the blocks before this one are not here; begin again with the first";
    assert_eq!(decoded(&sent[0]).code, Code::REQUEST_ENTITY_INCOMPLETE);
    assert_eq!(core::str::from_utf8(decoded(&sent[0]).payload), Ok(words));
    assert_eq!(
        (bench.server.counts().refused, bench.server.counts().failed),
        (4, 0)
    );
}
