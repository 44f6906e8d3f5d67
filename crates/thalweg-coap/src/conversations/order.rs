//! Requests behind each other: several under way, taken in order.

use super::*;

/// An application that records the first byte of each PUT, and may refuse one.
#[derive(Default)]
struct Log {
    taken: Vec<u8>,
    refuses: Option<(u8, Code)>,
}

impl Application for Log {
    fn on_request(
        &mut self,
        server: &mut ServerSide,
        request: Request<'_>,
        now: Time,
        out: &mut Datagrams,
    ) {
        let number = request.payload[0];
        let code = match self.refuses {
            Some((refused, code)) if refused == number => code,
            _ => {
                assert!(request.payload.iter().all(|byte| *byte == number), "mixed");
                self.taken.push(number);
                Code::CHANGED
            }
        };
        server.respond(request.exchange, &Response::of(code), now, out);
    }
}

fn proven() -> ServerSettings {
    ServerSettings {
        addresses_are_proven: true,
        transfer_idle: Span::from_secs(247),
        ..ServerSettings::default()
    }
}

fn world(seed: u64, weather: Weather, refuses: Option<(u8, Code)>) -> World<Log> {
    let transmission = Transmission {
        nstart: 64,
        ack_timeout: Span::from_secs(1),
        max_retransmit: 5,
        adaptive_least: Some(millis(100)),
        ..Transmission::default()
    };
    let client = ClientSettings {
        transmission,
        ..ClientSettings::default()
    };
    let log = Log {
        refuses,
        ..Log::default()
    };
    World::new(seed, weather, proven(), client, 1, log)
}

/// Puts bodies of these sizes, each behind the one before. The first byte of each is its number.
fn put_all(world: &mut World<Log>, sizes: &[usize]) -> Vec<RequestId> {
    let mut requests: Vec<RequestId> = Vec::new();
    for (number, size) in sizes.iter().enumerate() {
        let before = requests.last().copied();
        let payload = vec![number as u8; *size];
        let request = RequestOut {
            code: Code::PUT,
            confirmable: true,
            options: &[(option::URI_PATH, Value::Opaque(b"t"))],
            payload: &payload,
            observe: false,
        };
        let id = world.client(0, |client, now, out| {
            client.request_after(server_address(), &request, before, now, out)
        });
        requests.push(id.expect("there is room"));
    }
    requests
}

fn far() -> Weather {
    Weather {
        delay: [25, 25],
        ..Weather::default()
    }
}

#[test]
fn a_chain_of_bodies_takes_the_time_of_one() {
    let mut world = world(1, far(), None);
    put_all(&mut world, &[2000; 20]);
    world.run_for(millis(100));
    assert_eq!(world.application.taken, (0..20).collect::<Vec<u8>>());
    assert_eq!(world.take_heard(0).len(), 20, "two round trips of 50 ms");
    assert_eq!(world.server.counts().refused, 0);
}

#[test]
fn a_chain_stays_in_order_whatever_is_lost_doubled_or_overtaken() {
    let weather = Weather {
        lost: 25,
        doubled: 10,
        delay: [5, 60],
    };
    let (mut refused, mut lost) = (0, 0);
    for seed in 1..=40 {
        let mut world = world(seed, weather, None);
        let sizes: Vec<usize> = (0..40).map(|n| 1 + n * 977 % 3000).collect();
        put_all(&mut world, &sizes);
        world.run_for(Span::from_secs(600));
        let taken = &world.application.taken;
        assert!(taken.is_sorted_by(|a, b| a < b), "seed {seed}: {taken:?}");
        let heard = world.take_heard(0);
        assert_eq!(heard.len(), 40, "seed {seed}: each ends");
        let changed = heard
            .iter()
            .filter(|heard| matches!(heard, Reply::Response(_, Code::CHANGED, _)));
        assert!(changed.count() <= world.application.taken.len());
        refused += world.server.counts().refused;
        lost += 40 - world.application.taken.len();
    }
    assert!(refused > 100, "some came too soon: {refused}");
    assert!(lost <= 40, "those behind one that was given up: {lost}");
}

#[test]
fn what_comes_behind_a_request_that_is_put_off_is_not_taken() {
    let code = Code::SERVICE_UNAVAILABLE;
    let mut world = world(3, far(), Some((2, code)));
    let requests = put_all(&mut world, &[10, 10, 10, 2000, 10]);
    world.run_for(Span::from_secs(1));
    assert_eq!(world.application.taken, [0, 1]);
    let changed = |n: usize| Reply::Response(requests[n], Code::CHANGED, Vec::new());
    let failed = |n: usize| {
        let (request, why) = (requests[n], Failure::Order);
        Reply::Notice(ClientNotice::Failed { request, why })
    };
    let mut heard = world.take_heard(0);
    let put_off = Reply::Response(requests[2], code, Vec::new());
    for one in [changed(0), changed(1), put_off, failed(3), failed(4)] {
        let at = heard.iter().position(|heard| *heard == one);
        heard.remove(at.unwrap_or_else(|| panic!("{one:?}: {heard:?}")));
    }
    assert_eq!(heard, []);
}

#[test]
fn what_comes_behind_a_request_that_is_refused_for_good_is_taken() {
    let mut world = world(4, far(), Some((1, Code::FORBIDDEN)));
    put_all(&mut world, &[10, 10, 10, 2000, 10]);
    world.run_for(Span::from_secs(1));
    assert_eq!(world.application.taken, [0, 2, 3, 4]);
    assert_eq!(world.take_heard(0).len(), 5);
}

#[test]
fn a_message_is_taken_after_the_one_that_it_names_and_a_refusal_is_remembered() {
    let mut bench = Bench::new(proven());
    let put = |id: u16, after: Option<u16>| {
        let head = message(Type::Confirmable, Code::PUT, id, &[id as u8], |encoder| {
            encoder.option(option::URI_PATH, b"t");
            if let Some(after) = after {
                encoder.uint(option::AFTER, after.into());
            }
        });
        with_payload(head, &[1])
    };
    let code = |bench: &mut Bench| decoded(&bench.sent(0)[0]).code;
    assert!(bench.feed(0, &put(2, Some(1))).is_none());
    assert_eq!(code(&mut bench), Code::PRECONDITION_FAILED);
    let first = put(1, None);
    let exchange = bench.feed(0, &first).expect("a request").exchange;
    assert!(bench.feed(0, &put(2, Some(1))).is_none(), "a late copy");
    assert_eq!(code(&mut bench), Code::PRECONDITION_FAILED);
    // The one before need not have been answered.
    let (second, third) = (put(3, Some(1)), put(4, Some(3)));
    let waiting = bench.feed(0, &second).expect("it is its turn").exchange;
    bench.respond(exchange, &Response::of(Code::CHANGED));
    bench.respond(waiting, &Response::of(Code::SERVICE_UNAVAILABLE));
    bench.out.clear();
    assert!(bench.feed(0, &third).is_none(), "3 was not taken");
    assert_eq!(code(&mut bench), Code::PRECONDITION_FAILED);
    assert!(bench.feed(0, &put(5, Some(1))).is_some(), "1 was");
    assert!(bench.feed(1, &put(6, Some(1))).is_none(), "of another peer");
    bench.wait(Span::from_secs(3));
    assert!(bench.feed(0, &put(7, Some(1))).is_none(), "too long ago");
}
