//! The lane over a stream. RFC 8323

use thalweg_coap::stream::{Requests, StreamEvent, StreamSettings};

use super::*;

/// A lane, and a broker at the other end of its connection.
struct Pair {
    lane: CoapStream,
    side: Requests,
    book: Book,
    observers: Vec<(RelationId, String)>,
    out: Output,
    heard: Witness,
    now: Time,
}

impl Pair {
    fn up(settings: CoapSettings) -> Pair {
        let book = Book {
            announces: true,
            ..Book::default()
        };
        let side = Requests::new(
            Arc::new(ServerSettings::default()),
            StreamSettings::default(),
            1,
        );
        let mut pair = Pair {
            lane: CoapStream::new(endpoint(Medium::Stream), settings),
            side,
            book,
            observers: Vec::new(),
            out: Output::default(),
            heard: Witness::default(),
            now: Time::from_secs(1000),
        };
        pair.lane.open(
            &opening("gateway"),
            broker_address(),
            pair.now,
            &mut pair.out,
        );
        pair.exchange();
        assert!(matches!(pair.heard.take()[..], [Told::Up(_)]));
        pair
    }

    fn exchange(&mut self) {
        loop {
            let there = std::mem::take(&mut self.out.bytes);
            self.out.clear();
            let mut back = Vec::new();
            let mut rest = &there[..];
            while let Some((consumed, event)) = self
                .side
                .handle_input(rest, self.now, &mut back)
                .expect("legal")
            {
                rest = &rest[consumed..];
                if let StreamEvent::Request(request) = event {
                    self.on_request(request, &mut back);
                }
            }
            assert!(rest.is_empty());
            if back.is_empty() {
                return;
            }
            self.now += Span::from_millis(10);
            let consumed = self
                .lane
                .handle_input(&back, self.now, &mut self.out, &mut self.heard);
            assert_eq!(consumed, Ok(back.len()));
        }
    }

    fn on_request(&mut self, request: thalweg_coap::stream::StreamRequest<'_>, out: &mut Vec<u8>) {
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
                    self.side.respond(exchange, &response, self.now, out);
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
            self.side.respond(exchange, &response, self.now, out);
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
            self.now,
            out,
        );
    }

    fn publish(&mut self, message: &Outbound<'_>) -> Result<Departure, Refusal> {
        self.lane.publish(message, self.now, &mut self.out)
    }
}

#[test]
fn a_stream_carries_publishes_questions_and_last_values() {
    let mut pair = Pair::up(settings());
    assert!(pair.lane.capabilities().stamps && pair.lane.capabilities().keeps_order);
    assert_eq!(pair.publish(&message(1, "a", b"1")), Ok(Departure::Awaited));
    let zero = Outbound {
        reliability: Reliability::AtMostOnce,
        ..message(2, "a", b"2")
    };
    assert_eq!(pair.publish(&zero), Ok(Departure::Gone));
    pair.exchange();
    assert_eq!(pair.heard.take(), [Told::Settled(1, Settled::Acknowledged)]);
    assert_eq!(pair.book.published.len(), 2);
    assert_eq!(pair.book.queries, ["qos=0"]);
    pair.lane
        .request(
            RequestId(1),
            &message(3, "add", b""),
            pair.now,
            &mut pair.out,
        )
        .expect("it goes");
    pair.lane
        .read(RequestId(2), "a", pair.now, &mut pair.out)
        .expect("it goes");
    pair.lane
        .read(RequestId(3), "none", pair.now, &mut pair.out)
        .expect("it goes");
    pair.exchange();
    let told = pair.heard.take();
    let [
        Told::Answered(RequestId(1), Ok(Some(answer))),
        Told::Answered(RequestId(2), Ok(Some(value))),
        Told::Answered(RequestId(3), Ok(None)),
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
    pair.publish(&message(1, "a", b"old")).expect("it goes");
    pair.lane
        .subscribe(&wish(5, "a"), pair.now, &mut pair.out)
        .expect("it goes");
    pair.publish(&message(2, "a", b"new")).expect("it goes");
    pair.publish(&message(3, "a", b"new")).expect("it goes");
    pair.exchange();
    let told = pair.heard.take();
    assert!(told.contains(&Told::Subscribed(SubscriptionId(5), Ok(()))));
    let got = told.iter().filter_map(|told| {
        if let Told::Received(got) = told {
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
    pair.lane
        .unsubscribe(SubscriptionId(5), pair.now, &mut pair.out);
    pair.exchange();
    assert_eq!(pair.observers, []);
}

#[test]
fn silence_is_broken_by_ping_and_a_dead_server_is_noticed() {
    let mut pair = Pair::up(settings());
    let since = pair.now;
    pair.now = pair.lane.poll_timeout();
    assert!(pair.now.since(since) <= Span::from_secs(60));
    pair.lane
        .handle_timeout(pair.now, &mut pair.out, &mut pair.heard)
        .expect("it lives");
    pair.heard.round_trips.clear();
    pair.exchange();
    assert_eq!(pair.heard.round_trips, [Span::from_millis(10)]);
    pair.now = pair.lane.poll_timeout();
    pair.lane
        .handle_timeout(pair.now, &mut pair.out, &mut pair.heard)
        .expect("it is asked");
    pair.now = pair.lane.poll_timeout();
    assert!(
        pair.lane
            .handle_timeout(pair.now, &mut pair.out, &mut pair.heard)
            .is_err()
    );
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
    pair.publish(&message(1, "a/b", b"21.5")).expect("it goes");
    let minimum = 2 + 1 + 1 + 3 + 5 + 2 + 2 + 1 + 4;
    assert_eq!(pair.out.bytes.len(), minimum);
}
