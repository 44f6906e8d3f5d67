//! Requests over a connection: answers, blocks, observations, Pings that wait.

use std::sync::Arc;

use thalweg_wire::{Span, Time};

use super::*;
use crate::{
    Block, ExchangeId, Notified, ObserveRefused, OptionOut, RelationId, Response, ServerSettings,
    SharedBody, Value,
};

const NOW: Time = Time::from_secs(1_795_000_000);

/// A client that takes so much, and a server with its requests.
struct Talk {
    client: ClientSide,
    server: Requests,
    now: Time,
    back: Vec<u8>,
}

/// A response as the client got it.
#[derive(Debug, PartialEq, Eq)]
struct Got {
    token: Token,
    code: Code,
    options: Vec<(u16, Vec<u8>)>,
    payload: Vec<u8>,
}

impl Got {
    fn block(&self, number: u16) -> Option<(u32, bool, u8)> {
        let (_, value) = self.options.iter().find(|(known, _)| *known == number)?;
        let value = value
            .iter()
            .fold(0, |number, byte| number << 8 | u32::from(*byte));
        Block::decode_bert(value).map(|block| (block.number, block.more, block.size_exponent))
    }

    fn has(&self, number: u16) -> bool {
        self.options.iter().any(|(known, _)| *known == number)
    }
}

impl Talk {
    fn new(client: StreamSettings, settings: ServerSettings) -> Talk {
        let server = Requests::new(Arc::new(settings), StreamSettings::default(), 7);
        let (mut talk, mut there) = (
            Talk {
                client: ClientSide::new(client),
                server,
                now: NOW,
                back: Vec::new(),
            },
            Vec::new(),
        );
        talk.client.open(&mut there);
        assert_eq!(talk.hears(&there), [StreamEvent::Opened]);
        let back = std::mem::take(&mut talk.back);
        assert!(matches!(
            client_event(&mut talk.client, &back),
            ClientEvent::Csm(_)
        ));
        talk
    }

    fn plain() -> Talk {
        Talk::new(StreamSettings::default(), ServerSettings::default())
    }

    /// Everything in these bytes.
    fn hears<'b>(&mut self, mut bytes: &'b [u8]) -> Vec<StreamEvent<'b>> {
        let mut events = Vec::new();
        while let Some((consumed, event)) = self
            .server
            .handle_input(bytes, self.now, &mut self.back)
            .expect("the client does nothing wrong")
        {
            bytes = &bytes[consumed..];
            events.push(event);
        }
        assert!(bytes.is_empty(), "half a message");
        events
    }

    /// A request, and the server's decoding of it.
    fn asks(
        &mut self,
        code: Code,
        options: &[(u16, u32)],
        payload: &[u8],
    ) -> (Token, Option<Asked>) {
        self.asks_as(None, code, options, payload)
    }

    fn asks_as(
        &mut self,
        token: Option<u8>,
        code: Code,
        options: &[(u16, u32)],
        payload: &[u8],
    ) -> (Token, Option<Asked>) {
        let mut there = Vec::new();
        let write = |encoder: &mut Encoder<'_>| {
            let path = [(option::URI_PATH, None)];
            let mut all: Vec<_> = options
                .iter()
                .map(|(number, value)| (*number, Some(*value)))
                .chain(path)
                .collect();
            all.sort();
            for (number, value) in all {
                match value {
                    Some(value) => encoder.uint(number, value),
                    None => encoder.option(number, b"a"),
                };
            }
        };
        let token = match token {
            Some(token) => {
                let token = Token::new(&[token]).expect("short");
                encode(&mut there, code, token, write, payload);
                token
            }
            None => self
                .client
                .request(code, false, write, payload, &mut there)
                .expect("it may ask"),
        };
        let events = self.hears(&there);
        let [event] = &events[..] else {
            panic!("{events:?}")
        };
        let asked = match event {
            StreamEvent::Request(request) => Some(Asked {
                exchange: request.exchange,
                payload: request.payload.to_vec(),
                ended: request.ended,
                observe: request.observe.is_some(),
            }),
            StreamEvent::Nothing => None,
            other => panic!("{other:?}"),
        };
        (token, asked)
    }

    fn asks_for(&mut self, code: Code, options: &[(u16, u32)], payload: &[u8]) -> Asked {
        self.asks(code, options, payload)
            .1
            .expect("a request for the application")
    }

    fn answers(&mut self, exchange: ExchangeId, code: Code, payload: &[u8]) {
        let response = Response {
            code,
            options: &[],
            payload,
        };
        assert!(
            self.server
                .respond(exchange, &response, self.now, &mut self.back)
        );
    }

    /// All messages that the server has written, its CSM left out.
    fn got(&mut self) -> Vec<Got> {
        let back = std::mem::take(&mut self.back);
        let (mut bytes, mut all) = (&back[..], Vec::new());
        while let Some((len, message)) =
            decode(bytes, usize::MAX).expect("the server writes what can be read")
        {
            bytes = &bytes[len..];
            if message.code == Code::CSM {
                continue;
            }
            let options = message
                .options
                .iter()
                .map(|(number, value)| (number, value.to_vec()))
                .collect();
            all.push(Got {
                token: message.token,
                code: message.code,
                options,
                payload: message.payload.to_vec(),
            });
        }
        assert!(bytes.is_empty());
        all
    }

    #[track_caller]
    fn one(&mut self) -> Got {
        let mut all = self.got();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }
}

struct Asked {
    exchange: ExchangeId,
    payload: Vec<u8>,
    ended: Option<u64>,
    observe: bool,
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

fn block(number: u32, more: bool, size_exponent: u8) -> u32 {
    Block {
        number,
        more,
        size_exponent,
    }
    .encode()
}

fn taking(message_bytes_max: u32, blockwise: bool) -> StreamSettings {
    StreamSettings {
        message_bytes_max,
        blockwise,
    }
}

#[test]
fn requests_are_answered_by_token_in_whatever_order_and_once() {
    let mut talk = Talk::plain();
    let (first, one) = talk.asks(Code::GET, &[], &[]);
    let (second, two) = talk.asks(Code::PUT, &[], b"x");
    let (one, two) = (one.expect("one").exchange, two.expect("two").exchange);
    talk.answers(two, Code::CHANGED, &[]);
    talk.answers(one, Code::CONTENT, b"v");
    assert!(
        !talk
            .server
            .respond(one, &Response::of(Code::CONTENT), NOW, &mut talk.back)
    );
    let got = talk.got();
    assert_eq!(
        got.iter()
            .map(|got| (got.token, got.code))
            .collect::<Vec<_>>(),
        [(second, Code::CHANGED), (first, Code::CONTENT)]
    );
    assert_eq!(talk.server.waiting(), 0);
}

#[test]
fn what_is_not_understood_or_not_wanted_is_not_carried_out_or_not_answered() {
    let mut talk = Talk::plain();
    for (options, code) in [
        (&[(option::OSCORE, 1)][..], Code::BAD_OPTION),
        (&[(option::PROXY_SCHEME, 1)], Code::PROXYING_NOT_SUPPORTED),
        (&[(option::HOP_LIMIT, 0)], Code::BAD_REQUEST),
        (&[(option::BLOCK1, block(0, true, 6))], Code::BAD_REQUEST),
        (&[(option::BLOCK1, block(0, true, 7))], Code::BAD_REQUEST),
    ] {
        // An empty Hop-Limit is no option at all; this one has a byte.
        let (token, asked) = match options[0] {
            (option::HOP_LIMIT, _) => {
                let mut there = Vec::new();
                let token = Token::new(&[9]).expect("short");
                encode(
                    &mut there,
                    Code::PUT,
                    token,
                    |e| _ = e.option(option::HOP_LIMIT, &[0]),
                    &[],
                );
                assert_eq!(talk.hears(&there), [StreamEvent::Nothing]);
                (token, None)
            }
            _ => talk.asks(Code::PUT, options, b"x"),
        };
        assert!(asked.is_none());
        let got = talk.one();
        assert_eq!((got.token, got.code), (token, code), "{options:?}");
    }
    let quiet = talk
        .asks_for(Code::PUT, &[(option::NO_RESPONSE, 2)], b"x")
        .exchange;
    talk.answers(quiet, Code::CHANGED, &[]);
    assert!(talk.got().is_empty());
    let quiet = talk
        .asks_for(Code::PUT, &[(option::NO_RESPONSE, 2)], b"x")
        .exchange;
    talk.answers(quiet, Code::FORBIDDEN, &[]);
    assert_eq!(talk.one().code, Code::FORBIDDEN);
}

#[test]
fn a_body_is_whole_if_the_client_takes_it_and_in_the_largest_blocks_otherwise() {
    let body = text(5000);
    for (takes, first) in [
        (taking(1 << 20, true), None),
        (taking(5100, false), None),
        (taking(4200, true), Some((7, 4096))),
        (taking(1153, true), Some((7, 1024))),
        (taking(1152, true), Some((6, 1024))),
        (taking(700, true), Some((5, 512))),
    ] {
        let mut talk = Talk::new(takes, ServerSettings::default());
        let asked = talk.asks_for(Code::GET, &[], &[]);
        talk.answers(asked.exchange, Code::CONTENT, &body);
        let mut got = talk.one();
        let Some((exponent, len)) = first else {
            assert!(got.payload == body && !got.has(option::BLOCK2), "{takes:?}");
            continue;
        };
        assert_eq!(
            (got.block(option::BLOCK2), got.payload.len()),
            (Some((0, true, exponent)), len),
            "{takes:?}"
        );
        assert!(got.has(option::ETAG) && got.has(option::SIZE2));
        let (etag, mut all) = (got.options[0].clone(), got.payload.clone());
        while let Some((_, true, exponent)) = got.block(option::BLOCK2) {
            let next = (all.len()
                / Block {
                    number: 0,
                    more: false,
                    size_exponent: exponent,
                }
                .size()) as u32;
            let asked = talk.asks_for(
                Code::GET,
                &[(option::BLOCK2, block(next, false, exponent))],
                &[],
            );
            talk.answers(asked.exchange, Code::CONTENT, &body);
            got = talk.one();
            assert_eq!(got.options[0], etag);
            all.extend_from_slice(&got.payload);
        }
        assert!(all == body, "{takes:?}");
    }
    let mut talk = Talk::new(taking(1152, false), ServerSettings::default());
    let asked = talk.asks_for(Code::GET, &[], &[]);
    talk.answers(asked.exchange, Code::CONTENT, &body);
    assert_eq!(
        talk.one().code,
        Code::INTERNAL_SERVER_ERROR,
        "it takes no blocks"
    );
}

#[test]
fn blocks_have_the_size_that_was_asked_for_and_not_more_than_we_like() {
    let mut talk = Talk::plain();
    for (asked, answer, len) in [
        ((2, 2), (2, true, 2), 64),
        ((0, 7), (0, false, 7), 300),
        ((4, 2), (4, false, 2), 44),
    ] {
        let asked = talk.asks_for(
            Code::GET,
            &[(option::BLOCK2, block(asked.0, false, asked.1))],
            &[],
        );
        talk.answers(asked.exchange, Code::CONTENT, &text(300));
        let got = talk.one();
        assert_eq!(
            (got.block(option::BLOCK2), got.payload.len()),
            (Some(answer), len)
        );
    }
    let asked = talk.asks_for(Code::GET, &[(option::BLOCK2, block(5, false, 2))], &[]);
    talk.answers(asked.exchange, Code::CONTENT, &text(300));
    assert_eq!(talk.one().code, Code::BAD_REQUEST, "there is no such block");
    let mut talk = Talk::new(
        taking(1 << 20, true),
        ServerSettings {
            block_exponent_max: 4,
            ..ServerSettings::default()
        },
    );
    let asked = talk.asks_for(Code::GET, &[(option::BLOCK2, block(1, false, 7))], &[]);
    talk.answers(asked.exchange, Code::CONTENT, &text(3000));
    let got = talk.one();
    assert_eq!(
        (got.block(option::BLOCK2), got.payload.len()),
        (Some((4, true, 4)), 256),
        "the same place"
    );
}

#[test]
fn bodies_of_requests_are_put_together_from_blocks_of_any_kind() {
    let mut talk = Talk::plain();
    let body = text(9000);
    for (exponent, sizes) in [
        (7, &[4096, 1024, 3880][..]),
        (6, &[1024; 9][..]),
        (2, &[64; 141][..]),
    ] {
        let unit = Block {
            number: 0,
            more: false,
            size_exponent: exponent,
        }
        .size();
        let (mut at, mut whole) = (0, None);
        for size in sizes {
            let end = body.len().min(at + size);
            let value = block((at / unit) as u32, end < body.len(), exponent);
            let (_, asked) = talk.asks(Code::PUT, &[(option::BLOCK1, value)], &body[at..end]);
            if let Some(asked) = asked {
                whole = Some(asked.payload);
                talk.answers(asked.exchange, Code::CHANGED, &[]);
            }
            let got = talk.one();
            assert_eq!(
                got.code,
                if end < body.len() {
                    Code::CONTINUE
                } else {
                    Code::CHANGED
                }
            );
            assert_eq!(
                got.block(option::BLOCK1)
                    .map(|(number, more, _)| (number, more)),
                Some(((at / unit) as u32, end < body.len()))
            );
            at = end;
        }
        assert!(whole.is_some_and(|whole| whole == body), "{exponent}");
    }
    let (_, gap) = talk.asks(Code::PUT, &[(option::BLOCK1, block(3, false, 6))], b"x");
    assert!(gap.is_none());
    assert_eq!(talk.one().code, Code::REQUEST_ENTITY_INCOMPLETE);
}

#[test]
fn a_body_that_is_too_large_is_refused_whole_or_in_blocks() {
    let settings = || ServerSettings {
        transfer_bytes_max: 2000,
        ..ServerSettings::default()
    };
    let mut talk = Talk::new(StreamSettings::default(), settings());
    assert!(talk.asks(Code::PUT, &[], &text(2001)).1.is_none());
    let got = talk.one();
    assert_eq!(
        (got.code, got.options),
        (
            Code::REQUEST_ENTITY_TOO_LARGE,
            vec![(option::SIZE1, vec![0x07, 0xD0])]
        )
    );
    assert!(
        talk.asks(
            Code::PUT,
            &[(option::BLOCK1, block(0, true, 6))],
            &text(1024)
        )
        .1
        .is_none()
    );
    assert_eq!(talk.one().code, Code::CONTINUE);
    assert!(
        talk.asks(
            Code::PUT,
            &[(option::BLOCK1, block(1, true, 6))],
            &text(1024)
        )
        .1
        .is_none()
    );
    assert_eq!(talk.one().code, Code::REQUEST_ENTITY_TOO_LARGE);
    talk.asks_for(Code::PUT, &[], &text(2000));
}

#[test]
fn the_answer_to_what_must_not_be_done_twice_is_kept_for_its_blocks() {
    let mut talk = Talk::new(taking(1152, true), ServerSettings::default());
    let asked = talk.asks_for(Code::POST, &[], b"q");
    talk.answers(asked.exchange, Code::CONTENT, &text(1500));
    assert_eq!(talk.one().block(option::BLOCK2), Some((0, true, 6)));
    assert!(
        talk.asks(Code::POST, &[(option::BLOCK2, block(1, false, 6))], &[])
            .1
            .is_none()
    );
    let got = talk.one();
    assert_eq!(
        (got.block(option::BLOCK2), got.payload),
        (Some((1, false, 6)), text(1500)[1024..].to_vec())
    );
    talk.now += Span::from_secs(61);
    talk.server.handle_timeout(talk.now, &mut talk.back);
    assert!(
        talk.asks(Code::POST, &[(option::BLOCK2, block(1, false, 6))], &[])
            .1
            .is_none()
    );
    assert_eq!(
        talk.one().code,
        Code::REQUEST_ENTITY_INCOMPLETE,
        "nobody asked for too long"
    );
    assert_eq!(talk.server.poll_timeout(), Time::NEVER);
}

fn observing(talk: &mut Talk, token: u8, cookie: u64) -> Result<RelationId, ObserveRefused> {
    let (_, asked) = talk.asks_as(Some(token), Code::GET, &[(option::OBSERVE, 0)], &[]);
    let asked = asked.expect("a request");
    let relation = talk.server.observe(asked.exchange, cookie);
    talk.answers(asked.exchange, Code::CONTENT, b"0");
    relation
}

fn body(payload: &[u8]) -> SharedBody {
    let options: [OptionOut<'_>; 1] = [(option::CONTENT_FORMAT, Value::Uint(50))];
    SharedBody::new(Code::CONTENT, &options, payload)
}

#[test]
fn an_observer_is_told_with_rising_numbers_until_it_says_no_more() {
    let mut talk = Talk::plain();
    let relation = observing(&mut talk, 5, 77).expect("there is room");
    assert_eq!(talk.server.cookie(relation), Some(77));
    for (state, number) in [(&b""[..], 2), (b"21", 3), (&text(2000), 4)] {
        if number == 2 {
            assert_eq!(talk.one().options, [(option::OBSERVE, vec![1])]);
        }
        assert_eq!(
            talk.server.notify(relation, &body(state), &mut talk.back),
            Notified::Sent { confirmable: false }
        );
        let got = talk.one();
        assert_eq!(
            (got.token.as_slice(), got.payload.as_slice()),
            (&[5][..], state)
        );
        assert!(
            got.options.contains(&(option::OBSERVE, vec![number]))
                && got.options.contains(&(option::CONTENT_FORMAT, vec![50]))
        );
        assert!(!got.has(option::BLOCK2));
    }
    let (_, asked) = talk.asks_as(Some(5), Code::GET, &[(option::OBSERVE, 1)], &[]);
    assert_eq!(
        asked.map(|asked| (asked.ended, asked.observe)),
        Some((Some(77), true))
    );
    assert_eq!(
        talk.server.notify(relation, &body(b"x"), &mut talk.back),
        Notified::Gone
    );
    assert_eq!(talk.server.relations(), 0);
}

#[test]
fn a_token_observes_one_thing_and_a_refusal_ends_it() {
    let mut talk = Talk::new(
        StreamSettings::default(),
        ServerSettings {
            relations_per_peer: 2,
            ..ServerSettings::default()
        },
    );
    let first = observing(&mut talk, 5, 1).expect("there is room");
    let (_, again) = talk.asks_as(Some(5), Code::GET, &[(option::OBSERVE, 0)], &[]);
    let again = again.expect("a request");
    assert_eq!(again.ended, Some(1));
    let second = talk
        .server
        .observe(again.exchange, 2)
        .expect("there is room");
    talk.answers(again.exchange, Code::NOT_FOUND, &[]);
    assert_eq!(
        [first, second].map(|relation| talk.server.cookie(relation)),
        [None, None]
    );
    assert!(
        talk.got()
            .iter()
            .all(|got| got.code != Code::NOT_FOUND || !got.has(option::OBSERVE))
    );
    assert!(observing(&mut talk, 6, 3).is_ok() && observing(&mut talk, 7, 4).is_ok());
    assert_eq!(
        observing(&mut talk, 8, 5),
        Err(ObserveRefused::TooManyOfPeer)
    );
    let plain = talk.asks_for(Code::GET, &[], &[]).exchange;
    assert_eq!(talk.server.observe(plain, 9), Err(ObserveRefused::NotAsked));
    talk.got();
    let relation = observing(&mut talk, 6, 10).expect("in place of the one before");
    talk.got();
    talk.server.end_observation(
        relation,
        Some(&SharedBody::new(Code::NOT_FOUND, &[], b"gone")),
        &mut talk.back,
    );
    let last = talk.one();
    assert_eq!(
        (last.code, last.options.len(), last.payload.as_slice()),
        (Code::NOT_FOUND, 0, &b"gone"[..])
    );
}

#[test]
fn a_notification_that_is_too_large_is_its_first_block_and_the_rest_is_fetched() {
    let mut talk = Talk::new(taking(1152, true), ServerSettings::default());
    let relation = observing(&mut talk, 5, 1).expect("there is room");
    talk.got();
    assert_eq!(
        talk.server
            .notify(relation, &body(&text(1500)), &mut talk.back),
        Notified::Sent { confirmable: false }
    );
    let got = talk.one();
    assert_eq!(
        (got.block(option::BLOCK2), got.payload.len()),
        (Some((0, true, 6)), 1024)
    );
    assert!(got.has(option::OBSERVE) && got.has(option::ETAG));
    // Some repeat Observe and the token then.
    let further = [(option::OBSERVE, 0), (option::BLOCK2, block(1, false, 6))];
    let (_, asked) = talk.asks_as(Some(5), Code::GET, &further, &[]);
    let asked = asked.expect("the application shows it again");
    assert_eq!((asked.ended, asked.observe), (None, false));
    talk.answers(asked.exchange, Code::CONTENT, &text(1500));
    let rest = talk.one();
    assert_eq!(
        (rest.block(option::BLOCK2), rest.payload.len()),
        (Some((1, false, 6)), 476)
    );
    assert!(!rest.has(option::OBSERVE));
    assert_eq!(talk.server.relations(), 1);
}

#[test]
fn a_ping_with_custody_waits_for_what_was_asked_before_it() {
    let mut talk = Talk::plain();
    let ping = |talk: &mut Talk, token: u8, custody| {
        let mut there = Vec::new();
        let write = |encoder: &mut Encoder<'_>| {
            if custody {
                encoder.option(2, &[]);
            }
        };
        encode(
            &mut there,
            Code::PING,
            Token::new(&[token]).expect("short"),
            write,
            &[],
        );
        talk.hears(&there);
        talk.got()
            .iter()
            .map(|got| (got.code, got.token.as_slice()[0], got.has(2)))
            .collect::<Vec<_>>()
    };
    assert_eq!(ping(&mut talk, 1, true), [(Code::PONG, 1, true)]);
    let (one, two) = (
        talk.asks_for(Code::GET, &[], &[]).exchange,
        talk.asks_for(Code::GET, &[], &[]).exchange,
    );
    assert_eq!(ping(&mut talk, 2, true), []);
    assert_eq!(ping(&mut talk, 3, false), [(Code::PONG, 3, false)]);
    let three = talk.asks_for(Code::GET, &[], &[]).exchange;
    talk.answers(two, Code::CONTENT, &[]);
    assert_eq!(talk.one().code, Code::CONTENT);
    talk.answers(one, Code::CONTENT, &[]);
    assert_eq!(
        talk.got().iter().map(|got| got.code).collect::<Vec<_>>(),
        [Code::CONTENT, Code::PONG]
    );
    talk.answers(three, Code::CONTENT, &[]);
    assert_eq!(talk.one().code, Code::CONTENT);
}

#[test]
fn an_answer_is_confirmed_by_the_pong_behind_its_last_block() {
    let mut talk = Talk::new(taking(1152, true), ServerSettings::default());
    let asked = talk.asks_for(Code::GET, &[], &[]);
    let response = |payload| Response {
        code: Code::CONTENT,
        options: &[],
        payload,
    };
    assert!(talk.server.respond_confirmed(
        asked.exchange,
        300,
        &response(b"small"),
        NOW,
        &mut talk.back
    ));
    let got = talk.got();
    assert_eq!(
        got.iter().map(|got| got.code).collect::<Vec<_>>(),
        [Code::CONTENT, Code::PING]
    );
    let mut there = Vec::new();
    talk.client.pong(got[1].token, true, &mut there);
    assert_eq!(talk.hears(&there), [StreamEvent::Confirmed { cookie: 300 }]);
    assert_eq!(talk.hears(&there), [StreamEvent::Nothing], "once");
    // libcoap's Pongs have no token.
    there.clear();
    talk.client.pong(Token::EMPTY, true, &mut there);
    assert_eq!(
        talk.hears(&there),
        [StreamEvent::Nothing],
        "of nothing that waits"
    );
    for cookie in [7, 8] {
        let asked = talk.asks_for(Code::GET, &[], &[]);
        assert!(talk.server.respond_confirmed(
            asked.exchange,
            cookie,
            &response(b"small"),
            NOW,
            &mut talk.back
        ));
    }
    assert_eq!(talk.hears(&there), [StreamEvent::Confirmed { cookie: 7 }]);
    assert_eq!(talk.hears(&there), [StreamEvent::Confirmed { cookie: 8 }]);
    talk.got();
    let asked = talk.asks_for(Code::GET, &[], &[]);
    let long = text(1500);
    assert!(talk.server.respond_confirmed(
        asked.exchange,
        301,
        &response(&long),
        NOW,
        &mut talk.back
    ));
    assert_eq!(talk.one().payload.len(), 1024, "no Ping yet");
    assert!(
        talk.asks(Code::GET, &[(option::BLOCK2, block(1, false, 6))], &[])
            .1
            .is_none(),
        "it is not taken again"
    );
    let got = talk.got();
    assert_eq!(
        (got[0].payload.len(), got[1].code, got[1].token),
        (476, Code::PING, Token::from_number(301))
    );
    let quiet = talk.asks_for(Code::GET, &[(option::NO_RESPONSE, 2)], &[]);
    assert!(!talk.server.respond_confirmed(
        quiet.exchange,
        302,
        &response(b"x"),
        NOW,
        &mut talk.back
    ));
    assert!(talk.got().is_empty());
}

#[test]
fn who_asks_too_often_is_told_when_to_ask_again() {
    let settings = ServerSettings {
        requests_per_second: 2,
        request_burst: 3,
        ..ServerSettings::default()
    };
    let mut talk = Talk::new(StreamSettings::default(), settings);
    let codes = |talk: &mut Talk| {
        let (_, asked) = talk.asks(Code::GET, &[], &[]);
        if let Some(asked) = asked {
            talk.answers(asked.exchange, Code::CONTENT, &[]);
        }
        talk.one()
    };
    assert!((0..3).all(|_| codes(&mut talk).code == Code::CONTENT));
    let refused = codes(&mut talk);
    assert_eq!(
        (refused.code, refused.options),
        (Code::TOO_MANY_REQUESTS, vec![(option::MAX_AGE, vec![1])])
    );
    talk.now += Span::from_millis(500);
    assert_eq!(codes(&mut talk).code, Code::CONTENT);
    assert_eq!(codes(&mut talk).code, Code::TOO_MANY_REQUESTS);
}

#[test]
fn what_is_not_answered_in_time_is_answered_for_the_application_unless_it_said_so() {
    let mut talk = Talk::plain();
    let (forgotten, long) = (
        talk.asks_for(Code::GET, &[], &[]).exchange,
        talk.asks_for(Code::POST, &[], &[]).exchange,
    );
    talk.server.respond_later(long);
    assert_eq!(talk.server.poll_timeout(), NOW + Span::from_secs(90));
    talk.now += Span::from_secs(90);
    talk.server.handle_timeout(talk.now, &mut talk.back);
    assert_eq!(talk.one().code, Code::SERVICE_UNAVAILABLE);
    assert!(!talk.server.respond(
        forgotten,
        &Response::of(Code::CONTENT),
        talk.now,
        &mut talk.back
    ));
    assert_eq!(talk.server.poll_timeout(), Time::NEVER);
    talk.answers(long, Code::CONTENT, &[]);
}

#[test]
fn after_release_the_connection_is_done_when_everything_is_answered() {
    let mut talk = Talk::plain();
    let asked = talk.asks_for(Code::GET, &[], &[]);
    let mut there = Vec::new();
    talk.client.release(&mut there);
    assert_eq!(talk.hears(&there), [StreamEvent::Released]);
    assert!(talk.server.is_released() && !talk.server.is_done());
    talk.answers(asked.exchange, Code::CONTENT, &[]);
    assert!(talk.server.is_done());
}
