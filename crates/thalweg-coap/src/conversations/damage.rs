//! Peers that send anything.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const SEED: u64 = 20;
const ROUNDS: usize = 30_000;

fn samples() -> Vec<Vec<u8>> {
    let block = |number: u32, more| {
        Block {
            number,
            more,
            size_exponent: 0,
        }
        .encode()
    };
    vec![
        put(Type::Confirmable, 1, b"payload"),
        put(Type::NonConfirmable, 2, b"payload"),
        get(Type::Confirmable, 3),
        message(Type::Confirmable, Code::GET, 4, &[1], |e| {
            e.uint(option::OBSERVE, 0)
                .option(option::URI_PATH, b"t")
                .uint(option::BLOCK2, block(0, false));
        }),
        message(Type::Confirmable, Code::GET, 5, &[1], |e| {
            e.uint(option::OBSERVE, 1).option(option::URI_PATH, b"t");
        }),
        with_payload(
            message(Type::Confirmable, Code::POST, 6, &[2], |e| {
                e.option(option::URI_PATH, b"t")
                    .uint(option::BLOCK1, block(0, true))
                    .uint(option::SIZE1, 40);
            }),
            &[7; 16],
        ),
        with_payload(
            message(Type::Confirmable, Code::POST, 7, &[2], |e| {
                e.option(option::URI_PATH, b"t")
                    .uint(option::BLOCK1, block(1, false));
            }),
            &[7; 9],
        ),
        message(Type::Confirmable, Code::POST, 8, &[2], |e| {
            e.option(option::URI_PATH, b"t")
                .uint(option::BLOCK2, block(1, false));
        }),
        message(Type::Confirmable, Code::FETCH, 9, &[2], |e| {
            e.uint(option::OBSERVE, 0)
                .uint(option::HOP_LIMIT, 3)
                .option(option::ECHO, &[1; 12])
                .uint(option::NO_RESPONSE, 2);
        }),
        vec![0x60, 0, 0, 1],
        vec![0x70, 0, 0, 1],
        vec![0x40, 0, 0, 1],
    ]
}

fn damaged(dice: &mut Dice, samples: &[Vec<u8>]) -> Vec<u8> {
    let mut datagram = samples[dice.below(samples.len())].clone();
    for _ in 0..dice.below(4) {
        let at = dice.below(datagram.len().max(1));
        match dice.below(4) {
            0 if !datagram.is_empty() => datagram[at] = dice.throw() as u8,
            1 => datagram.truncate(at),
            2 => datagram.insert(at.min(datagram.len()), dice.throw() as u8),
            _ if !datagram.is_empty() => datagram[at] ^= 1 << dice.below(8),
            _ => {}
        }
    }
    datagram
}

#[test]
fn whatever_comes_a_server_goes_on() {
    let mut dice = Dice::new(SEED);
    let samples = samples();
    let settings = ServerSettings {
        peers_max: 4,
        exchanges_max: 8,
        exchanges_per_peer: 4,
        remembered_max: 50,
        remembered_bytes_max: 2000,
        relations_max: 8,
        relations_per_peer: 3,
        waiting_per_peer: 2,
        sendings_max: 10,
        transfer_bytes_max: 100,
        transfers_max: 3,
        kept_responses_max: 2,
        answer_within: Span::from_secs(20),
        ..ServerSettings::default()
    };
    let mut bench = Bench::new(settings);
    let mut open: VecDeque<(ExchangeId, Option<Observe>)> = VecDeque::new();
    let mut relations: Vec<RelationId> = Vec::new();
    // Ids of the machine's own messages, so that some acknowledgements fit.
    let mut ids = vec![(0, 0)];
    for round in 0..ROUNDS {
        let n = dice.below(7);
        let mut datagram = damaged(&mut dice, &samples);
        if dice.below(4) == 0 {
            let (peer, id): (usize, u16) = ids[dice.below(ids.len())];
            datagram = vec![[0x60, 0x70][dice.below(2)], 0, (id >> 8) as u8, id as u8];
            bench.feed(peer, &datagram);
        } else if let Some(request) = bench.feed(n, &datagram) {
            assert!(request.code.is_request(), "seed {SEED} round {round}");
            open.push_back((request.exchange, request.observe));
        }
        while open.len() > 5 || (!open.is_empty() && dice.below(3) > 0) {
            let (exchange, observe) = open.pop_front().expect("there is one");
            if observe.is_some()
                && let Ok(relation) = bench
                    .server
                    .observe(exchange, round as u64, None, bench.now)
            {
                relations.push(relation);
            }
            let code = [Code::CONTENT, Code::CHANGED, Code::NOT_FOUND][dice.below(3)];
            let payload = vec![1; [0, 10, 200, 3000][dice.below(4)]];
            match dice.below(10) {
                0 => bench.server.ignore(exchange, bench.now, &mut bench.out),
                1 => bench
                    .server
                    .respond_later(exchange, bench.now, &mut bench.out),
                _ => drop(bench.respond(
                    exchange,
                    &Response {
                        code,
                        options: &[],
                        payload: &payload,
                    },
                )),
            }
        }
        if dice.below(3) == 0 && !relations.is_empty() {
            let relation = relations[dice.below(relations.len())];
            let delivery = [
                Delivery::Auto,
                Delivery::Confirmable,
                Delivery::NonConfirmable,
            ][dice.below(3)];
            let payload = vec![1; [0, 10, 300, 2000][dice.below(4)]];
            match dice.below(12) {
                0 => bench
                    .server
                    .end_observation(relation, None, bench.now, &mut bench.out),
                1 => bench.server.nothing_to_notify(relation),
                2 => bench.server.peer_gone(client_address(n)),
                _ => drop(bench.notify(relation, &payload, delivery)),
            }
            relations.retain(|relation| bench.server.relation(*relation).is_some());
        }
        if dice.below(5) == 0 {
            bench.wait(millis(dice.below(4000) as u64));
        }
        bench.notices();
        for (to, datagram) in bench.out.iter() {
            let m = Message::decode(datagram)
                .unwrap_or_else(|e| panic!("seed {SEED} round {round}: {e} {datagram:x?}"));
            if let Some(peer) = (0..7).find(|n| client_address(*n) == to) {
                ids.push((peer, m.id));
            }
        }
        ids.drain(..ids.len().saturating_sub(20));
        bench.out.clear();
        assert!(
            bench.server.peers() <= 4 && bench.server.relations() <= 8,
            "seed {SEED} round {round}"
        );
    }
    // When all is over nothing is left but what is remembered.
    bench.wait(Span::from_secs(200));
    for relation in relations {
        bench
            .server
            .end_observation(relation, None, bench.now, &mut bench.out);
    }
    // Timers of ended exchanges may still fire.
    bench.wait(Span::from_secs(2 * 86_400));
    assert_eq!(
        (bench.server.relations(), bench.server.poll_timeout()),
        (0, Time::NEVER),
        "seed {SEED}"
    );
    assert_eq!(bench.server.peers(), 0, "seed {SEED}");
    assert!(
        bench.server.counts().requests > 1000,
        "{:?}",
        bench.server.counts()
    );
}

#[test]
fn whatever_comes_a_client_goes_on() {
    let mut dice = Dice::new(SEED);
    let settings = ClientSettings {
        response_bytes_max: 500,
        requests_max: 20,
        ..ClientSettings::default()
    };
    let mut client = ClientSide::new(Arc::new(settings), 5);
    let (mut out, mut now) = (Datagrams::new(), Time::from_secs(100));
    let mut asked: VecDeque<Vec<u8>> = VecDeque::new();
    let mut open: Vec<RequestId> = Vec::new();
    for round in 0..ROUNDS {
        if dice.below(3) == 0 {
            let payload = vec![1; [0, 10, 3000][dice.below(3)]];
            let request = RequestOut {
                code: [Code::GET, Code::PUT, Code::FETCH][dice.below(3)],
                confirmable: dice.below(3) > 0,
                options: &[(option::URI_PATH, Value::Opaque(b"t"))],
                payload: &payload,
                observe: dice.below(2) == 0,
            };
            open.extend(client.request(server_address(), &request, now, &mut out));
            open.extend(if dice.below(9) == 0 {
                client.ping(server_address(), now, &mut out).ok()
            } else {
                None
            });
        }
        // An answer that fits what was asked, and is damaged then.
        let question = asked
            .get(dice.below(asked.len()))
            .cloned()
            .unwrap_or_else(|| vec![0x40, 1, 0, 0]);
        let (id, token) = Message::decode(&question).map_or((0, Token::EMPTY), |m| (m.id, m.token));
        let kind = [
            Type::Acknowledgement,
            Type::Confirmable,
            Type::NonConfirmable,
            Type::Reset,
        ][dice.below(4)];
        let code = [
            Code::CONTENT,
            Code::CONTINUE,
            Code::CHANGED,
            Code::UNAUTHORIZED,
            Code::EMPTY,
        ][dice.below(5)];
        let value = Block {
            number: dice.below(4) as u32,
            more: dice.below(2) == 0,
            size_exponent: dice.below(8) as u8,
        };
        let choice = dice.below(16);
        let datagram = message(kind, code, id, token.as_slice(), |e| {
            if choice & 1 != 0 {
                e.option(option::ETAG, &[1]);
            }
            if choice & 2 != 0 {
                e.uint(option::OBSERVE, round as u32 & 0xFFFF);
            }
            if choice & 4 != 0 {
                e.uint(option::BLOCK2, value.encode());
            }
            if choice & 8 != 0 {
                e.uint(option::BLOCK1, value.encode())
                    .option(option::ECHO, &[7]);
            }
        });
        let datagram = with_payload(datagram, &vec![2; [0, 16, 64, 1024][dice.below(4)]]);
        let datagram = if dice.below(2) == 0 {
            damaged(&mut dice, &[datagram])
        } else {
            datagram
        };
        client.handle_datagram(server_address(), &datagram, now, &mut out);
        if dice.below(6) == 0 && !open.is_empty() {
            let request = open[dice.below(open.len())];
            let how = [Cancel::Forget, Cancel::Deregister][dice.below(2)];
            match dice.below(3) {
                0 => client.register_again(request, now, &mut out),
                _ => client.cancel(request, how, now, &mut out),
            }
        }
        if dice.below(8) == 0 {
            now += millis(dice.below(10_000) as u64);
            while client.poll_timeout() <= now {
                client.handle_timeout(now, &mut out);
            }
        }
        while let Some(notice) = client.poll_event() {
            let _ = notice;
        }
        open.drain(..open.len().saturating_sub(10));
        for (_, datagram) in out.iter() {
            assert!(
                Message::decode(datagram).is_ok(),
                "seed {SEED} round {round}: {datagram:x?}"
            );
            asked.push_back(datagram.to_vec());
        }
        asked.drain(..asked.len().saturating_sub(8));
        out.clear();
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..20)) {
        let mut bench = Bench::new(ServerSettings::default());
        let mut client = ClientSide::new(Arc::default(), 1);
        for datagram in &datagrams {
            if let Some(request) = bench.feed(0, datagram) {
                bench.respond(request.exchange, &Response::of(Code::CONTENT));
            }
            client.handle_datagram(server_address(), datagram, bench.now, &mut bench.out);
            bench.wait(millis(100));
        }
    }

    #[test]
    fn shared_and_plain_encodings_say_the_same(
        tag in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..8)),
        format in proptest::option::of(any::<u16>()),
        age in proptest::option::of(any::<u32>()),
        payload in proptest::collection::vec(any::<u8>(), 0..1100),
        observe in 0_u32..1 << 24,
        exponent in 0_u8..7,
    ) {
        let mut options = Vec::new();
        if let Some(tag) = &tag {
            options.push((option::ETAG, Value::Opaque(&tag[..])));
        }
        if let Some(format) = format {
            options.push((option::CONTENT_FORMAT, Value::Uint(u32::from(format))));
        }
        if let Some(age) = age {
            options.push((option::MAX_AGE, Value::Uint(age)));
        }
        let shared = SharedBody::new(Code::CONTENT, &options, &payload);
        let mut datagram = message(Type::Confirmable, Code::CONTENT, 1, &[1], |_| {});
        shared.write(Some(observe), exponent, &mut datagram);
        let read = decoded(&datagram);
        let size = 16 << exponent;
        prop_assert_eq!(read.payload, &payload[..payload.len().min(size)]);
        prop_assert_eq!(read.options.uint(option::OBSERVE), Some(observe));
        prop_assert_eq!(read.options.has(option::BLOCK2), payload.len() > size);
        prop_assert_eq!(read.options.uint(option::CONTENT_FORMAT), format.map(u32::from));
        prop_assert_eq!(read.options.uint(option::MAX_AGE), age);
        if let Some(tag) = &tag {
            prop_assert_eq!(read.options.get(option::ETAG), Some(&tag[..]));
        } else {
            prop_assert_eq!(read.options.has(option::ETAG), payload.len() > size);
        }
        prop_assert!(datagram.len() <= 5 + 8 + shared.encoded_len(exponent));
    }
}
