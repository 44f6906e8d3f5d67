//! The examples of the specifications, message by message: RFC 7252 appendix A, RFC 7641 appendix A, RFC 7959 §3.

use super::*;

const CON: Type = Type::Confirmable;
const NON: Type = Type::NonConfirmable;
const ACK: Type = Type::Acknowledgement;

fn bench() -> Bench {
    Bench::new(ServerSettings {
        addresses_are_proven: true,
        ..ServerSettings::default()
    })
}

const TEMPERATURE: &[u8] = b"22.3 C";

fn content(payload: &[u8]) -> Response<'_> {
    Response {
        code: Code::CONTENT,
        options: &[],
        payload,
    }
}

fn get_temperature(kind: Type, id: u16, token: &[u8]) -> Vec<u8> {
    message(kind, Code::GET, id, token, |encoder| {
        encoder.option(option::URI_PATH, b"temperature");
    })
}

#[test]
fn figure_16_a_confirmable_request_and_a_piggybacked_response() {
    let mut bench = bench();
    let get = get_temperature(CON, 0x7d34, &[]);
    assert_eq!(get, [&b"\x40\x01\x7d\x34\xbbtemperature"[..]].concat());
    let request = bench.feed(0, &get).expect("a request");
    bench.respond(request.exchange, &content(TEMPERATURE));
    assert_eq!(bench.sent(0), [b"\x60\x45\x7d\x34\xff22.3 C".to_vec()]);
}

#[test]
fn figure_17_the_same_with_a_token() {
    let mut bench = bench();
    let get = get_temperature(CON, 0x7d35, &[0x20]);
    let request = bench.feed(0, &get).expect("a request");
    bench.respond(request.exchange, &content(TEMPERATURE));
    assert_eq!(bench.sent(0), [b"\x61\x45\x7d\x35\x20\xff22.3 C".to_vec()]);
}

/// A client with a GET under way; what it sent.
fn asking(confirmable: bool) -> (ClientSide, RequestId, Vec<u8>) {
    let mut client = ClientSide::new(Arc::default(), 11);
    let mut out = Datagrams::new();
    let options = [(option::URI_PATH, Value::Opaque(b"temperature"))];
    let get = RequestOut {
        code: Code::GET,
        confirmable,
        options: &options,
        payload: &[],
        observe: false,
    };
    let request = client
        .request(server_address(), &get, START, &mut out)
        .expect("room");
    (client, request, out.last().to_vec())
}

#[test]
fn figure_18_a_request_that_is_lost_is_sent_again() {
    let (mut client, _, first) = asking(true);
    let mut out = Datagrams::new();
    client.handle_timeout(client.poll_timeout(), &mut out);
    assert_eq!(out.last(), first);
    let mut bench = bench();
    let request = bench.feed(0, &first).expect("the second one arrives");
    bench.respond(request.exchange, &content(TEMPERATURE));
    let answer = bench.sent(0).remove(0);
    let event = client.handle_datagram(server_address(), &answer, START, &mut Datagrams::new());
    assert!(matches!(event, Some(ClientEvent::Response(r)) if &*r.payload == TEMPERATURE));
}

#[test]
fn figure_19_a_response_that_is_lost_is_sent_again() {
    let (mut client, _, first) = asking(true);
    let mut bench = bench();
    let request = bench.feed(0, &first).expect("a request");
    bench.respond(request.exchange, &content(TEMPERATURE));
    bench.out.clear();
    let mut out = Datagrams::new();
    client.handle_timeout(client.poll_timeout(), &mut out);
    let again = out.last().to_vec();
    let request = bench
        .feed(0, &again)
        .expect("what only reads is read again");
    bench.respond(request.exchange, &content(TEMPERATURE));
    let answer = bench.sent(0).remove(0);
    assert_eq!(
        (decoded(&answer).kind, decoded(&answer).id),
        (ACK, decoded(&first).id)
    );
    assert!(
        client
            .handle_datagram(server_address(), &answer, START, &mut out)
            .is_some()
    );
}

#[test]
fn figure_20_a_separate_response() {
    let (mut client, request, first) = asking(true);
    let mut bench = bench();
    let exchange = bench.feed(0, &first).expect("a request").exchange;
    bench.wait(millis(1000));
    let acknowledgement = bench.sent(0).remove(0);
    let mut out = Datagrams::new();
    assert!(
        client
            .handle_datagram(server_address(), &acknowledgement, START, &mut out)
            .is_none()
    );
    assert_eq!(
        client.poll_event(),
        Some(ClientNotice::Acknowledged { request })
    );
    bench.respond(exchange, &content(TEMPERATURE));
    let response = bench.sent(0).remove(0);
    assert_eq!(
        (decoded(&response).kind, decoded(&response).token),
        (CON, decoded(&first).token)
    );
    assert!(
        client
            .handle_datagram(server_address(), &response, START, &mut out)
            .is_some()
    );
    assert_eq!(out.last(), [0x60, 0, response[2], response[3]]);
    bench.feed(0, out.last());
    assert_eq!(bench.server.poll_timeout(), Time::NEVER);
}

#[test]
fn figure_21_a_separate_response_to_a_client_that_has_forgotten() {
    let mut bench = bench();
    let get = get_temperature(CON, 0x7d38, &[0x31]);
    let exchange = bench.feed(0, &get).expect("a request").exchange;
    bench.wait(millis(1000));
    bench.respond(exchange, &content(TEMPERATURE));
    let response = bench.sent(0).remove(1);
    // The client has restarted and does not know the message.
    let mut client = ClientSide::new(Arc::default(), 12);
    let mut out = Datagrams::new();
    assert!(
        client
            .handle_datagram(server_address(), &response, START, &mut out)
            .is_none()
    );
    assert_eq!(out.last(), [0x70, 0, response[2], response[3]]);
    bench.feed(0, out.last());
    bench.wait(millis(100_000));
    assert!(bench.sent(0).is_empty(), "it is not repeated");
}

#[test]
fn figure_22_neither_is_confirmable() {
    let (mut client, _, first) = asking(false);
    assert_eq!(decoded(&first).kind, NON);
    let mut bench = bench();
    let request = bench.feed(0, &first).expect("a request");
    bench.respond(request.exchange, &content(TEMPERATURE));
    let response = bench.sent(0).remove(0);
    assert_eq!(decoded(&response).kind, NON);
    assert!(
        client
            .handle_datagram(server_address(), &response, START, &mut Datagrams::new())
            .is_some()
    );
}

#[test]
fn rfc_7641_figure_3_an_observation_and_its_renewal() {
    let mut bench = bench();
    let register = |id| {
        message(CON, Code::GET, id, &[0x4a], |encoder| {
            encoder
                .uint(option::OBSERVE, 0)
                .option(option::URI_PATH, b"temperature");
        })
    };
    let get = register(0x1633);
    let request = bench.feed(0, &get).expect("a request");
    let relation = bench
        .server
        .observe(request.exchange, 0, None, bench.now)
        .expect("room");
    let max_age = [(option::MAX_AGE, Value::Uint(15))];
    let with_age = |payload| Response {
        code: Code::CONTENT,
        options: &max_age,
        payload,
    };
    bench.respond(request.exchange, &with_age(b"18.5 Cel"));
    let first = bench.sent(0).remove(0);
    assert_eq!(
        (
            decoded(&first).kind,
            decoded(&first).options.uint(option::MAX_AGE)
        ),
        (ACK, Some(15))
    );
    let _ = bench.notify(relation, b"19.2 Cel", Delivery::NonConfirmable);
    let second = bench.sent(0).remove(0);
    assert_eq!(
        (decoded(&second).kind, decoded(&second).token.as_slice()),
        (NON, &[0x4a][..])
    );
    let of = |datagram: &[u8]| {
        Sequence::new(
            decoded(datagram)
                .options
                .uint(option::OBSERVE)
                .expect("a notification"),
        )
    };
    assert!(of(&second).is_newer_than(of(&first), 0));
    // Max-Age has passed: the client registers again, with the same token.
    bench.wait(Span::from_secs(30));
    let again = register(0x1635);
    let request = bench.feed(0, &again).expect("a request");
    assert_eq!(request.relation, Some((relation, 0)));
    bench
        .server
        .observe(request.exchange, 0, None, bench.now)
        .expect("room");
    bench.respond(request.exchange, &with_age(b"22.3 Cel"));
    let third = bench.sent(0).remove(0);
    assert!(of(&third).is_newer_than(of(&second), 0));
    assert_eq!(bench.server.relations(), 1);
}

#[test]
fn rfc_7641_figure_4_an_observation_of_what_is_deleted() {
    let mut bench = bench();
    let relation = bench.observe(0, &[0x4a]);
    bench.out.clear();
    let gone = Arc::new(SharedBody::new(Code::NOT_FOUND, &[], b""));
    bench
        .server
        .end_observation(relation, Some(&gone), bench.now, &mut bench.out);
    let last = bench.sent(0).remove(0);
    assert_eq!(
        (decoded(&last).code, decoded(&last).token.as_slice()),
        (Code::NOT_FOUND, &[0x4a][..])
    );
}

/// Feeds a block and gives what Block1 of the answer says, with its code.
fn put_block(bench: &mut Bench, id: u16, block: Block, payload: &[u8]) -> (Code, Option<Block>) {
    let head = message(CON, Code::PUT, id, &[id as u8], |encoder| {
        encoder
            .option(option::URI_PATH, b"options")
            .uint(option::BLOCK1, block.encode());
    });
    let datagram = with_payload(head, payload);
    if let Some(request) = bench.feed(0, &datagram) {
        bench.respond(request.exchange, &Response::of(Code::CHANGED));
    }
    let answer = bench.sent(0).remove(0);
    (
        decoded(&answer).code,
        decoded(&answer)
            .options
            .uint(option::BLOCK1)
            .and_then(Block::decode),
    )
}

fn block(number: u32, more: bool, size: usize) -> Block {
    Block {
        number,
        more,
        size_exponent: Block::size_exponent_for(size),
    }
}

/// Asks for a block and gives what Block2 of the answer says, with how large it is.
fn get_block(
    bench: &mut Bench,
    id: u16,
    wanted: Option<Block>,
    whole: &[u8],
) -> (Option<Block>, usize) {
    let get = message(CON, Code::GET, id, &[id as u8], |encoder| {
        encoder.option(option::URI_PATH, b"status");
        if let Some(wanted) = wanted {
            encoder.uint(option::BLOCK2, wanted.encode());
        }
    });
    let request = bench.feed(0, &get).expect("a request");
    bench.respond(request.exchange, &content(whole));
    let answer = bench.sent(0).remove(0);
    (
        decoded(&answer)
            .options
            .uint(option::BLOCK2)
            .and_then(Block::decode),
        decoded(&answer).payload.len(),
    )
}

#[test]
fn rfc_7959_figure_2_a_simple_block_wise_get() {
    let settings = ServerSettings {
        addresses_are_proven: true,
        block_exponent_max: 3,
        ..ServerSettings::default()
    };
    let mut bench = Bench::new(settings);
    let whole = body(300, 1);
    assert_eq!(
        get_block(&mut bench, 1, None, &whole),
        (Some(block(0, true, 128)), 128)
    );
    assert_eq!(
        get_block(&mut bench, 2, Some(block(1, false, 128)), &whole),
        (Some(block(1, true, 128)), 128)
    );
    assert_eq!(
        get_block(&mut bench, 3, Some(block(2, false, 128)), &whole),
        (Some(block(2, false, 128)), 44)
    );
}

#[test]
fn rfc_7959_figures_3_and_4_negotiation_early_and_late() {
    let whole = body(300, 1);
    let mut early = bench();
    assert_eq!(
        get_block(&mut early, 1, Some(block(0, false, 64)), &whole),
        (Some(block(0, true, 64)), 64)
    );
    assert_eq!(
        get_block(&mut early, 2, Some(block(4, false, 64)), &whole),
        (Some(block(4, false, 64)), 44)
    );
    let settings = ServerSettings {
        addresses_are_proven: true,
        block_exponent_max: 3,
        ..ServerSettings::default()
    };
    let mut late = Bench::new(settings);
    assert_eq!(
        get_block(&mut late, 1, None, &whole),
        (Some(block(0, true, 128)), 128)
    );
    assert_eq!(
        get_block(&mut late, 2, Some(block(2, false, 64)), &whole),
        (Some(block(2, true, 64)), 64)
    );
}

#[test]
fn rfc_7959_figure_7_a_simple_atomic_block_wise_put() {
    let mut bench = bench();
    let whole = body(300, 1);
    let at = |number: usize| &whole[number * 128..whole.len().min(number * 128 + 128)];
    assert_eq!(
        put_block(&mut bench, 1, block(0, true, 128), at(0)),
        (Code::CONTINUE, Some(block(0, true, 128)))
    );
    assert_eq!(
        put_block(&mut bench, 2, block(1, true, 128), at(1)),
        (Code::CONTINUE, Some(block(1, true, 128)))
    );
    assert_eq!(
        put_block(&mut bench, 3, block(2, false, 128), at(2)),
        (Code::CHANGED, Some(block(2, false, 128)))
    );
    assert_eq!(bench.server.counts().requests, 1);
}

#[test]
fn rfc_7959_figure_9_an_atomic_put_whose_blocks_become_smaller() {
    let settings = ServerSettings {
        addresses_are_proven: true,
        block_exponent_max: 1,
        ..ServerSettings::default()
    };
    let mut bench = Bench::new(settings);
    let whole = body(300, 1);
    assert_eq!(
        put_block(&mut bench, 1, block(0, true, 128), &whole[..128]),
        (Code::CONTINUE, Some(block(0, true, 32)))
    );
    for number in 4..10 {
        let start = number as usize * 32;
        let is_last = number == 9;
        let part = &whole[start..whole.len().min(start + 32)];
        let answer = put_block(&mut bench, number as u16, block(number, !is_last, 32), part);
        let code = if is_last {
            Code::CHANGED
        } else {
            Code::CONTINUE
        };
        assert_eq!(answer, (code, Some(block(number, !is_last, 32))));
    }
}
