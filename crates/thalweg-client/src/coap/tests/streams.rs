//! The lane over a stream. RFC 8323

use thalweg_coap::stream::{Requests, StreamEvent, StreamRequest, StreamSettings};

use super::*;
use crate::pair::{FarEnd, acknowledged};

/// A broker at the other end of a connection.
struct Server {
    side: Requests,
    book: Book,
    observers: Vec<(RelationId, String)>,
    out: Vec<u8>,
}

type Pair = crate::pair::Pair<CoapStream, Server>;

impl Pair {
    fn up(settings: CoapSettings) -> Pair {
        let book = Book {
            announces: true,
            ..Book::default()
        };
        let server = Server {
            side: Requests::new(Arc::default(), StreamSettings::default(), 1),
            book,
            observers: Vec::new(),
            out: Vec::new(),
        };
        let lane = CoapStream::new(endpoint(5683, Medium::Stream), settings);
        let mut pair = Pair::of(lane, server, "gateway");
        (pair.round_trip, pair.last_values) = (Span::from_millis(10), true);
        pair.reach();
        assert!(matches!(pair.witness.take()[..], [EventCall::Up(_)]));
        pair
    }
}

impl FarEnd for Server {
    /// Every test has one connection.
    fn accept(&mut self) {}

    fn hear(&mut self, bytes: &[u8], now: Time) {
        let (mut rest, mut out) = (bytes, std::mem::take(&mut self.out));
        while let Some((consumed, event)) =
            self.side.handle_input(rest, now, &mut out).expect("legal")
        {
            rest = &rest[consumed..];
            if let StreamEvent::Request(request) = event {
                self.on_request(request, now, &mut out);
            }
        }
        assert!(rest.is_empty());
        self.out = out;
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

impl Server {
    fn on_request(&mut self, request: StreamRequest<'_>, now: Time, out: &mut Vec<u8>) {
        let (options, exchange) = (&request.options, request.exchange);
        let path = path(options);
        let (code, payload) = if path == ".well-known/core" {
            let (code, payload) = self.book.well_known();
            (code, payload.to_vec())
        } else if path.starts_with("rpc/") {
            (Code::CONTENT, b"answer".to_vec())
        } else if request.code == Code::GET {
            let address = self.book.address(options).expect("data");
            if request.observe == Some(Observe::Register) {
                let relation = self.side.observe(exchange, 1).expect("it was asked for");
                self.observers.push((relation, address.clone()));
            } else if request.observe == Some(Observe::Deregister) {
                self.observers.clear();
            }
            match self.book.values.get(&address) {
                Some(kept) => {
                    let options = kept.options(true);
                    let response = Response {
                        code: Code::CONTENT,
                        options: &options,
                        payload: &kept.payload,
                    };
                    self.side.respond(exchange, &response, now, out);
                    return;
                }
                None if request.observe.is_some() => (Code::CONTENT, Vec::new()),
                None => (Code::NOT_FOUND, Vec::new()),
            }
        } else {
            let (code, changed) = self.book.publish(request.code, options, &request.payload);
            let response = Response {
                code,
                options: &[],
                payload: &[],
            };
            self.side.respond(exchange, &response, now, out);
            for (relation, address) in &self.observers {
                if Some(address) == changed.as_ref()
                    && let Some(kept) = self.book.values.get(address)
                {
                    let body = SharedBody::new(Code::CONTENT, &kept.options(false), &kept.payload);
                    let _ = self.side.notify(*relation, &body, out);
                }
            }
            return;
        };
        self.side.respond(
            exchange,
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

#[test]
fn a_stream_carries_publishes_questions_and_last_values() {
    let mut pair = Pair::up(settings());
    assert!(pair.lane.capabilities().stamps && pair.lane.capabilities().keeps_order);
    assert_eq!(pair.publish(&message(1, "a", b"1")), Ok(Departure::Awaited));
    let zero = at_most_once(2, "a", b"2");
    assert_eq!(pair.publish(&zero), Ok(Departure::Gone));
    pair.exchange();
    assert_eq!(pair.witness.take(), acknowledged([1]));
    assert_eq!(pair.server.book.published.len(), 2);
    assert_eq!(pair.server.book.queries, ["qos=0"]);
    pair.must_request(1, &message(3, "add", b""));
    pair.read(2, "a");
    pair.read(3, "none");
    pair.exchange();
    let told = pair.witness.take();
    let [
        EventCall::Answered(RequestId(1), Ok(Some(answer))),
        EventCall::Answered(RequestId(2), Ok(Some(value))),
        EventCall::Answered(RequestId(3), Ok(None)),
    ] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!(
        (answer.payload.as_slice(), value.payload.as_slice()),
        (&b"answer"[..], &b"2"[..])
    );
}

#[test]
fn a_stream_carries_subscriptions() {
    let mut pair = Pair::up(settings());
    pair.must_publish(&message(1, "a", b"old"));
    pair.lane
        .subscribe(&wish(5, "a"), pair.now, &mut pair.out)
        .expect("it goes");
    pair.must_publish(&message(2, "a", b"new"));
    pair.must_publish(&message(3, "a", b"new"));
    pair.exchange();
    let told = pair.witness.take();
    assert!(told.contains(&EventCall::Subscribed(SubscriptionId(5), Ok(()))));
    let got = told.iter().filter_map(|told| {
        if let EventCall::Received(got) = told {
            Some(got)
        } else {
            None
        }
    });
    let got: Vec<_> = got
        .map(|got| (got.payload.as_slice(), got.is_last_value))
        .collect();
    assert_eq!(
        got,
        [
            (&b"old"[..], true),
            (&b"new"[..], false),
            (&b"new"[..], false)
        ]
    );
    pair.unsubscribe(5);
    pair.exchange();
    assert_eq!(pair.server.observers, []);
}

#[test]
fn silence_is_broken_by_ping_and_a_dead_server_is_noticed() {
    let mut pair = Pair::up(settings());
    let since = pair.now;
    pair.now = pair.lane.poll_timeout();
    assert!(pair.now.since(since) <= Span::from_secs(60));
    pair.timeout().expect("it lives");
    pair.witness.round_trips.clear();
    pair.exchange();
    assert_eq!(pair.witness.round_trips, [Span::from_millis(10)]);
    pair.now = pair.lane.poll_timeout();
    pair.timeout().expect("it is asked");
    pair.now = pair.lane.poll_timeout();
    assert!(pair.timeout().is_err());
}

#[test]
fn what_is_larger_than_the_server_takes_is_refused() {
    let mut pair = Pair::up(settings());
    let limit = pair.lane.capabilities().payload_bytes_max;
    assert_eq!(
        pair.publish(&message(1, "a", &vec![0; limit])),
        Ok(Departure::Awaited)
    );
    let refused = pair.publish(&message(2, "a", &vec![0; limit + 512]));
    assert_eq!(refused, Err(Refusal::TooLarge { limit }));
}

/// Length and token length, code, token, a byte before each level, marker: RFC 8323 §3.2 demands no less.
#[test]
fn a_publish_in_a_stream_is_as_small_as_can_be() {
    let mut pair = Pair::up(settings());
    pair.must_publish(&message(1, "a/b", b"21.5"));
    let minimum = 2 + 1 + 1 + 3 + 5 + 2 + 2 + 1 + 4;
    assert_eq!(pair.out.bytes.len(), minimum);
}
