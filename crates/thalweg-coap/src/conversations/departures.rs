//! Somebody else at the same address: RFC 7252 §9.1 matches messages within one association of DTLS only.

use super::*;

fn bench() -> Bench {
    Bench::new(ServerSettings {
        addresses_are_proven: true,
        ..ServerSettings::default()
    })
}

fn get(id: u16, block: Option<u32>) -> Vec<u8> {
    message(Type::Confirmable, Code::GET, id, &[9], |encoder| {
        encoder.option(option::URI_PATH, b"t");
        if let Some(number) = block {
            encoder.uint(
                option::BLOCK2,
                Block {
                    number,
                    more: false,
                    size_exponent: 6,
                }
                .encode(),
            );
        }
    })
}

#[test]
fn an_answer_that_is_still_to_come_is_not_for_whoever_comes_next() {
    for waits in [0, 1500] {
        let mut bench = bench();
        let (first, second) = (get(1, None), put(Type::NonConfirmable, 2, b"x"));
        let exchanges =
            [&first, &second].map(|datagram| bench.feed(0, datagram).expect("a request").exchange);
        bench.wait(millis(waits));
        bench.sent(0);
        bench.server.peer_gone(client_address(0));
        for exchange in exchanges {
            assert!(!bench.respond(
                exchange,
                &Response {
                    code: Code::CONTENT,
                    options: &[],
                    payload: b"secret"
                }
            ));
        }
        bench.wait(millis(400_000));
        assert!(bench.sent(0).is_empty(), "waits {waits}");
        assert!(
            bench.feed(0, &first).is_some(),
            "it can ask, and is answered"
        );
    }
}

#[test]
fn what_was_kept_in_blocks_is_not_served_to_whoever_comes_next() {
    let mut bench = bench();
    let request = message(Type::Confirmable, Code::GET, 1, &[9], |encoder| {
        encoder
            .uint(option::OBSERVE, 0)
            .option(option::URI_PATH, b"t");
    });
    let exchange = bench.feed(0, &request).expect("a request").exchange;
    bench
        .server
        .observe(exchange, 0, None, bench.now)
        .expect("accepted");
    bench.respond(
        exchange,
        &Response {
            code: Code::CONTENT,
            options: &[],
            payload: &body(3000, 1),
        },
    );
    assert!(
        bench.feed(0, &get(2, Some(1))).is_none(),
        "its own peer is served"
    );
    assert_eq!(decoded(&bench.sent(0)[1]).payload.len(), 1024);
    bench.server.peer_gone(client_address(0));
    assert!(
        bench.feed(0, &get(3, Some(1))).is_some(),
        "the application is asked, and says who may"
    );
    assert!(bench.sent(0).is_empty());
}

#[test]
fn what_was_answered_is_not_repeated_to_whoever_comes_next_with_the_same_datagram() {
    let mut bench = bench();
    let request = put(Type::Confirmable, 7, b"x");
    let exchange = bench.feed(0, &request).expect("a request").exchange;
    bench.respond(
        exchange,
        &Response {
            code: Code::CHANGED,
            options: &[],
            payload: b"for the first",
        },
    );
    assert!(bench.feed(0, &request).is_none(), "a repetition");
    bench.sent(0);
    bench.server.peer_gone(client_address(0));
    assert!(bench.feed(0, &request).is_some(), "somebody else's request");
    assert!(bench.sent(0).is_empty());
}

#[test]
fn an_upload_is_not_continued_by_whoever_comes_next() {
    let mut bench = bench();
    let part = |id: u16, number: u32, more: bool| {
        let block = Block {
            number,
            more,
            size_exponent: 6,
        };
        let datagram = message(Type::Confirmable, Code::PUT, id, &[9], |encoder| {
            encoder.option(option::URI_PATH, b"t");
            encoder.uint(option::BLOCK1, block.encode());
        });
        with_payload(datagram, &body(if more { 1024 } else { 10 }, 1))
    };
    assert!(bench.feed(0, &part(1, 0, true)).is_none());
    assert_eq!(decoded(&bench.sent(0)[0]).code, Code::CONTINUE);
    bench.server.peer_gone(client_address(0));
    assert!(bench.feed(0, &part(2, 1, false)).is_none());
    assert_eq!(
        decoded(&bench.sent(0)[0]).code,
        Code::REQUEST_ENTITY_INCOMPLETE
    );
}

#[test]
fn what_was_kept_for_somebody_whose_record_had_to_go_is_not_served_either() {
    let settings = ServerSettings {
        peers_max: 1,
        addresses_are_proven: true,
        ..ServerSettings::default()
    };
    let mut bench = Bench::new(settings);
    let post = |id: u16, block: Option<u32>| {
        message(Type::Confirmable, Code::POST, id, &[9], |encoder| {
            if let Some(number) = block {
                encoder.uint(
                    option::BLOCK2,
                    Block {
                        number,
                        more: false,
                        size_exponent: 6,
                    }
                    .encode(),
                );
            }
        })
    };
    let exchange = bench.feed(0, &post(1, None)).expect("a request").exchange;
    bench.respond(
        exchange,
        &Response {
            code: Code::CONTENT,
            options: &[],
            payload: &body(3000, 1),
        },
    );
    let exchange = bench
        .feed(1, &post(1, None))
        .expect("there is room for one")
        .exchange;
    bench.respond(exchange, &Response::of(Code::CHANGED));
    bench.server.peer_gone(client_address(0));
    bench.sent(0);
    assert!(bench.feed(0, &post(3, Some(1))).is_none());
    assert_eq!(
        decoded(&bench.sent(0)[0]).code,
        Code::REQUEST_ENTITY_INCOMPLETE
    );
}
