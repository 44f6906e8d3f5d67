//! Peers that may not be where they seem to be: RFC 7252 §11.3, RFC 9175 §2.4.

use super::*;

/// A GET of 8 bytes; the response would be of `len` bytes and some.
fn get_and_answer(bench: &mut Bench, id: u16, len: usize) -> Vec<u8> {
    let datagram = get(Type::Confirmable, id);
    let request = bench.feed(0, &datagram).expect("a request");
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CONTENT,
            options: &[],
            payload: &vec![1; len],
        },
    );
    bench.sent(0).remove(0)
}

#[test]
fn a_large_response_to_an_unproven_address_goes_in_small_blocks_and_with_a_question() {
    let mut bench = Bench::new(ServerSettings::default());
    assert_eq!(
        decoded(&get_and_answer(&mut bench, 1, 100)).payload.len(),
        100
    );
    let datagram = get(Type::Confirmable, 2);
    let request = bench.feed(0, &datagram).expect("a request");
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CONTENT,
            options: &[],
            payload: &body(1000, 1),
        },
    );
    let sent = bench.sent(0);
    let [first, question] = &sent[..] else {
        panic!("{sent:x?}")
    };
    let block = decoded(first)
        .options
        .uint(option::BLOCK2)
        .and_then(Block::decode)
        .expect("in blocks");
    assert!(
        decoded(first).code == Code::CONTENT
            && first.len() <= 152
            && block.more
            && block.size_exponent == 3
    );
    assert_eq!(
        (decoded(question).kind, decoded(question).code),
        (Type::Confirmable, Code::EMPTY)
    );
    // The next block is small, too: so it comes although nothing is proven.
    let next = Block { number: 1, ..block };
    let asked = |id, block: Block| {
        message(Type::Confirmable, Code::GET, id, &[2], |encoder| {
            encoder.uint(option::BLOCK2, block.encode());
        })
    };
    let answer = |bench: &mut Bench, datagram: &[u8]| {
        let request = bench.feed(0, datagram).expect("a request");
        bench.respond(
            request.exchange,
            &Response {
                code: Code::CONTENT,
                options: &[],
                payload: &body(1000, 1),
            },
        );
        bench.sent(0).remove(0)
    };
    let second = answer(&mut bench, &asked(3, next));
    assert_eq!(decoded(&second).payload, &body(1000, 1)[128..256]);
    // Its reset proves where it is: blocks are as large as it likes.
    let mut reset = Vec::new();
    empty(&mut reset, Type::Reset, decoded(question).id);
    assert!(bench.feed(0, &reset).is_none());
    let whole = answer(&mut bench, &get(Type::Confirmable, 4));
    assert_eq!(
        (decoded(&whole).payload.len(), bench.server.counts().resets),
        (1000, 0)
    );
}

#[test]
fn a_response_that_just_fits_is_no_block() {
    let mut bench = Bench::new(ServerSettings::default());
    let sent = get_and_answer(&mut bench, 1, 140);
    let response = decoded(&sent);
    assert_eq!(
        (response.payload.len(), response.options.has(option::BLOCK2)),
        (140, false),
        "{sent:x?}"
    );
}

/// The question whether an observer is where it seems to be is lost five times in a row; another one was answered.
#[test]
fn a_lost_question_does_not_end_what_was_answered_otherwise() {
    let transmission = Transmission {
        nstart: 8,
        ..Transmission::default()
    };
    let mut bench = Bench::new(ServerSettings {
        transmission,
        ..ServerSettings::default()
    });
    let relation = bench.observe(0, &[1]);
    bench.out.clear();
    // With its repetitions it is larger than the bytes that an unproven address is sent.
    let question = |bench: &mut Bench| {
        assert_eq!(
            bench.notify(relation, &[1; 400], Delivery::Confirmable),
            Notified::Busy
        );
        let sent = bench.sent(0);
        let [question] = &sent[..] else {
            panic!("{sent:x?}")
        };
        assert_eq!(decoded(question).code, Code::EMPTY);
        decoded(question).id
    };
    let (lost, answered) = (question(&mut bench), question(&mut bench));
    assert_ne!(lost, answered);
    bench.wait(millis(1_500));
    bench.feed(0, &message(Type::Reset, Code::EMPTY, answered, &[], |_| ()));
    assert_eq!(
        bench.notices(),
        [Notice::Ready {
            relation,
            cookie: 0
        }]
    );
    bench.wait(millis(100_000));
    assert_eq!(
        (bench.notices(), bench.server.counts().timeouts),
        (vec![], 1)
    );
    assert_eq!(
        bench.notify(relation, &[2; 400], Delivery::Confirmable),
        Notified::Sent { confirmable: true }
    );
}

#[test]
fn somebody_elses_reset_proves_nothing() {
    let mut bench = Bench::new(ServerSettings::default());
    let first = get_and_answer(&mut bench, 1, 1000);
    let mut reset = Vec::new();
    empty(&mut reset, Type::Reset, decoded(&first).id.wrapping_add(7));
    bench.feed(0, &reset);
    assert!(get_and_answer(&mut bench, 2, 1000).len() <= 152);
}

/// The demand for Echo that a later block gets, which is too large for an unproven address.
fn demand(bench: &mut Bench, id: u16) -> Vec<u8> {
    let datagram = message(Type::Confirmable, Code::GET, id, &[1], |encoder| {
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
    let request = bench.feed(0, &datagram).expect("a request");
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CONTENT,
            options: &[],
            payload: &body(3000, 1),
        },
    );
    bench.sent(0).remove(0)
}

#[test]
fn a_later_block_that_is_large_needs_a_proven_address() {
    let mut bench = Bench::new(ServerSettings::default());
    let demand = demand(&mut bench, 2);
    let echo = decoded(&demand).options.get(option::ECHO).expect("an Echo");
    assert_eq!(
        (decoded(&demand).code, echo.len()),
        (Code::UNAUTHORIZED, 12)
    );
    assert_eq!(bench.server.counts().echo_demanded, 1);
    let datagram = message(Type::Confirmable, Code::GET, 3, &[1], |encoder| {
        encoder.option(option::ECHO, echo);
    });
    let request = bench.feed(0, &datagram).expect("a request");
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CONTENT,
            options: &[],
            payload: &[1; 1000],
        },
    );
    assert_eq!(decoded(&bench.sent(0)[0]).payload.len(), 1000);
    assert_eq!(
        decoded(&get_and_answer(&mut bench, 4, 1000)).payload.len(),
        1000,
        "from now on"
    );
}

#[test]
fn a_larger_request_earns_a_larger_response() {
    let mut bench = Bench::new(ServerSettings::default());
    for (id, padding, comes) in [(1, 200, true), (2, 100, false)] {
        let datagram = message(Type::Confirmable, Code::GET, id, &[1], |encoder| {
            encoder.option(option::URI_QUERY, &vec![b'x'; padding]);
        });
        let request = bench.feed(0, &datagram).expect("a request");
        bench.respond(
            request.exchange,
            &Response {
                code: Code::CONTENT,
                options: &[],
                payload: &[1; 500],
            },
        );
        assert_eq!(decoded(&bench.sent(0)[0]).payload.len() == 500, comes);
    }
}

#[test]
fn an_echo_of_somebody_else_or_of_long_ago_proves_nothing() {
    let mut bench = Bench::new(ServerSettings::default());
    let demand = demand(&mut bench, 1);
    let echo = decoded(&demand)
        .options
        .get(option::ECHO)
        .expect("an Echo")
        .to_vec();
    let with_echo = |id| {
        message(Type::Confirmable, Code::GET, id, &[1], |encoder| {
            encoder.option(option::ECHO, &echo);
        })
    };
    let is_proven = |bench: &mut Bench, n: usize, id| {
        let datagram = with_echo(id);
        let request = bench.feed(n, &datagram).expect("a request");
        bench.respond(
            request.exchange,
            &Response {
                code: Code::CONTENT,
                options: &[],
                payload: &[1; 1000],
            },
        );
        decoded(&bench.sent(n)[0]).payload.len() == 1000
    };
    assert!(!is_proven(&mut bench, 1, 2));
    bench.wait(Span::from_secs(62));
    assert!(!is_proven(&mut bench, 0, 3));
}

#[test]
fn what_has_been_done_is_answered_in_small_blocks_rather_than_asked_for_again() {
    let mut bench = Bench::new(ServerSettings::default());
    let datagram = put(Type::Confirmable, 1, b"x");
    let request = bench.feed(0, &datagram).expect("a request");
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CHANGED,
            options: &[],
            payload: &body(2000, 1),
        },
    );
    let sent = bench.sent(0).remove(0);
    let first = decoded(&sent);
    let block = first
        .options
        .uint(option::BLOCK2)
        .and_then(Block::decode)
        .expect("in blocks");
    assert!(
        first.code == Code::CHANGED && sent.len() <= 152 && block.size_exponent == 3,
        "{sent:x?}"
    );
    // Asking for a large block later earns none.
    let options = decoded(&datagram).options;
    let later = message(Type::Confirmable, Code::PUT, 9, &[1], |encoder| {
        for (number, value) in options.iter() {
            encoder.option(number, value);
        }
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
    assert!(bench.feed(0, &later).is_none());
    let sent = bench.sent(0).remove(0);
    let block = decoded(&sent)
        .options
        .uint(option::BLOCK2)
        .and_then(Block::decode)
        .expect("in blocks");
    assert_eq!(
        (block.number, block.size_exponent, decoded(&sent).payload),
        (8, 3, &body(2000, 1)[1024..1152])
    );
    // One that fits into a block, but not into what is allowed.
    let datagram = put(Type::Confirmable, 2, b"y");
    let request = bench.feed(0, &datagram).expect("a request");
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CHANGED,
            options: &[],
            payload: &body(500, 1),
        },
    );
    let sent = bench.sent(0).remove(0);
    assert!(
        decoded(&sent).code == Code::CHANGED
            && sent.len() <= 152
            && decoded(&sent).payload.len() == 128,
        "{sent:x?}"
    );
}

#[test]
fn an_acknowledgement_proves_an_address() {
    let mut bench = Bench::new(ServerSettings::default());
    let relation = bench.observe(0, &[1]);
    bench.out.clear();
    let _ = bench.notify(relation, b"x", Delivery::NonConfirmable);
    assert_eq!(
        bench.answer_all(0, Type::Acknowledgement),
        1,
        "confirmable, although it need not be"
    );
    assert_eq!(
        decoded(&get_and_answer(&mut bench, 2, 1000)).code,
        Code::CONTENT
    );
}

#[test]
fn dtls_proves_an_address() {
    let settings = ServerSettings {
        addresses_are_proven: true,
        ..ServerSettings::default()
    };
    assert_eq!(
        decoded(&get_and_answer(&mut Bench::new(settings), 1, 1000)).code,
        Code::CONTENT
    );
    let mut bench = Bench::new(ServerSettings::default());
    let datagram = get(Type::Confirmable, 1);
    let request = bench.feed(0, &datagram).expect("a request");
    bench.server.prove(request.peer);
    bench.respond(
        request.exchange,
        &Response {
            code: Code::CONTENT,
            options: &[],
            payload: &[1; 1000],
        },
    );
    assert_eq!(decoded(&bench.sent(0)[0]).code, Code::CONTENT);
}

#[test]
fn a_large_notification_is_preceded_by_a_question_of_four_bytes() {
    let mut bench = Bench::new(ServerSettings::default());
    let relation = bench.observe(0, &[1]);
    bench.out.clear();
    assert_eq!(
        bench.notify(relation, &[1; 500], Delivery::Auto),
        Notified::Busy
    );
    assert_eq!(
        bench.notify(relation, &[1; 500], Delivery::Auto),
        Notified::Busy
    );
    let sent = bench.sent(0);
    assert_eq!(
        (sent.len(), sent[0].len(), decoded(&sent[0]).code),
        (1, 4, Code::EMPTY)
    );
    let mut reset = Vec::new();
    empty(&mut reset, Type::Reset, decoded(&sent[0]).id);
    bench.feed(0, &reset);
    assert_eq!(
        bench.notices(),
        [Notice::Ready {
            relation,
            cookie: 0
        }]
    );
    assert!(matches!(
        bench.notify(relation, &[1; 500], Delivery::Auto),
        Notified::Sent { .. }
    ));
}

#[test]
fn a_notification_whose_repetitions_would_be_too_much_is_preceded_by_a_question_too() {
    for (len, is_sent) in [(10, true), (100, false)] {
        let mut bench = Bench::new(ServerSettings::default());
        let relation = bench.observe(0, &[1]);
        bench.out.clear();
        let notified = bench.notify(relation, &vec![1; len], Delivery::Auto);
        assert_eq!(matches!(notified, Notified::Sent { .. }), is_sent, "{len}");
        bench.wait(Span::from_secs(94));
        assert!(
            bench.sent(0).iter().map(Vec::len).sum::<usize>() <= 152,
            "{len}"
        );
    }
}

#[test]
fn a_repetition_does_not_become_large_before_its_peer_has_shown_itself() {
    let mut bench = Bench::new(ServerSettings::default());
    let relation = bench.observe(0, &[1]);
    bench.out.clear();
    let _ = bench.notify(relation, b"small", Delivery::Auto);
    let first = bench.sent(0).remove(0);
    assert_eq!(
        bench.notify(relation, &[1; 500], Delivery::Auto),
        Notified::Busy
    );
    for _ in 0..2 {
        bench.now = bench.server.poll_timeout();
        bench.server.handle_timeout(bench.now, &mut bench.out);
        assert_eq!(
            bench.notices(),
            [Notice::Ready {
                relation,
                cookie: 0
            }]
        );
        assert_eq!(
            bench.notify(relation, &[1; 500], Delivery::Auto),
            Notified::Busy
        );
        assert_eq!(bench.sent(0), std::slice::from_ref(&first), "as it was");
    }
    let mut acknowledgement = Vec::new();
    empty(
        &mut acknowledgement,
        Type::Acknowledgement,
        decoded(&first).id,
    );
    bench.feed(0, &acknowledgement);
    assert_eq!(
        bench.notices(),
        [Notice::Ready {
            relation,
            cookie: 0
        }]
    );
    assert!(matches!(
        bench.notify(relation, &[1; 500], Delivery::Auto),
        Notified::Sent { .. }
    ));
}

#[test]
fn whoever_does_not_answer_the_question_observes_no_more() {
    let mut bench = Bench::new(ServerSettings::default());
    let relation = bench.observe(0, &[1]);
    bench.out.clear();
    let _ = bench.notify(relation, &[1; 500], Delivery::Auto);
    bench.wait(Span::from_secs(94));
    assert_eq!(
        bench.sent(0).iter().map(Vec::len).sum::<usize>(),
        20,
        "that is all a victim gets"
    );
    assert!(matches!(
        bench.notices()[..],
        [Notice::ObservationEnded {
            why: ObservationEnd::Silent,
            ..
        }]
    ));
}

#[test]
fn observers_must_prove_their_address_if_the_settings_say_so_or_the_table_fills() {
    let get = message(Type::Confirmable, Code::GET, 7, &[1], |encoder| {
        encoder.uint(option::OBSERVE, 0);
    });
    let demands = |settings: ServerSettings, crowd: usize| {
        let mut bench = Bench::new(settings);
        for n in 1..=crowd {
            let datagram = put(Type::NonConfirmable, 1, b"");
            let request = bench.feed(n, &datagram).expect("a request");
            bench
                .server
                .ignore(request.exchange, bench.now, &mut bench.out);
        }
        bench.feed(0, &get).is_none()
    };
    let settings = |echo_for_observe| ServerSettings {
        peers_max: 10,
        echo_for_observe,
        ..ServerSettings::default()
    };
    assert!(demands(settings(EchoForObserve::Always), 0));
    assert!(!demands(settings(EchoForObserve::Auto), 4));
    assert!(demands(settings(EchoForObserve::Auto), 5));
    assert!(!demands(settings(EchoForObserve::Never), 9));
    let proven = ServerSettings {
        addresses_are_proven: true,
        ..settings(EchoForObserve::Always)
    };
    assert!(!demands(proven, 9));
}

#[test]
fn a_client_repeats_an_echo_by_itself() {
    struct Large;
    impl Application for Large {
        fn on_request(
            &mut self,
            server: &mut ServerSide,
            request: Request<'_>,
            now: Time,
            out: &mut Datagrams,
        ) {
            let payload = body(3000, 1);
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
    let settings = ServerSettings {
        echo_for_observe: EchoForObserve::Always,
        ..ServerSettings::default()
    };
    let mut world = World::new(
        1,
        Weather::default(),
        settings,
        ClientSettings::default(),
        1,
        Large,
    );
    let get = RequestOut {
        code: Code::GET,
        confirmable: true,
        options: &[],
        payload: &[],
        observe: true,
    };
    let request = world.request(0, &get);
    world.run_for(millis(1000));
    assert_eq!(
        world.take_heard(0),
        [Reply::Response(request, Code::CONTENT, body(3000, 1))]
    );
    assert_eq!(world.server.counts().echo_demanded, 1);
}

#[test]
fn a_flood_of_made_up_addresses_leaves_observers_and_memory_alone() {
    let settings = ServerSettings {
        peers_max: 1000,
        remembered_max: 2000,
        ..ServerSettings::default()
    };
    let mut bench = Bench::new(settings);
    let relation = bench.observe(0, &[1]);
    bench.out.clear();
    let _ = bench.notify(relation, b"x", Delivery::Auto);
    bench.answer_all(0, Type::Acknowledgement);
    let mut before = 0;
    for round in 0..10_u16 {
        for n in 1..5000_usize {
            let from = SocketAddr::from(([10, 9, (n >> 8) as u8, n as u8], 1000 + round));
            let datagram = match n % 3 {
                0 => put(Type::Confirmable, round, b"flood"),
                1 => message(Type::Confirmable, Code::GET, round, &[1], |encoder| {
                    encoder.uint(option::OBSERVE, 0);
                }),
                _ => {
                    let head = message(Type::Confirmable, Code::POST, round, &[1], |encoder| {
                        encoder.uint(
                            option::BLOCK1,
                            Block {
                                number: 0,
                                more: true,
                                size_exponent: 2,
                            }
                            .encode(),
                        );
                    });
                    with_payload(head, &[0; 64])
                }
            };
            let sent = datagram.len();
            let event = bench
                .server
                .handle_datagram(from, &datagram, bench.now, &mut bench.out);
            if let Some(Event::Request(request)) = event {
                bench.respond(
                    request.exchange,
                    &Response {
                        code: Code::CONTENT,
                        options: &[],
                        payload: &[1; 600],
                    },
                );
            }
            assert!(
                bench.out.bytes() <= 152.max(3 * sent),
                "{} for {sent}",
                bench.out.bytes()
            );
            bench.out.clear();
        }
        bench.wait(millis(100));
        let bytes = bench.server.bytes().total();
        if round == 2 {
            before = bytes;
        }
        assert!(
            round < 3 || bytes <= before + before / 4,
            "round {round}: {bytes} after {before}"
        );
    }
    assert!(bench.server.peers() <= 1000 && bench.server.counts().peers_displaced > 10_000);
    assert!(matches!(
        bench.notify(relation, b"y", Delivery::Auto),
        Notified::Sent { .. }
    ));
}
