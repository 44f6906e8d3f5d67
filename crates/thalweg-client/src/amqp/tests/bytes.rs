//! However the bytes are cut, and whatever they are.

use super::*;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % below.max(1) as u64) as usize
    }
}

/// Some of everything; what was told, and every byte that came.
fn conversation(chunk: Box<dyn FnMut() -> usize>) -> Vec<Told> {
    let mut pair = Pair::new(AmqpSettings {
        unconfirmed_max: 8,
        ..settings()
    });
    pair.chunk = chunk;
    pair.server.forbidden_key = Some("secret");
    pair.connect();
    let mut told = Vec::new();
    for (id, filter) in [(1, "a/#"), (2, "$q/nowhere"), (3, "$share/g/a")] {
        pair.subscribe(id, filter, Reliability::AtLeastOnce)
            .expect("it can be said");
    }
    pair.exchange();
    let large = vec![b'x'; 200_000];
    for id in 0..6 {
        let address = if id == 4 { "secret" } else { "a/b" };
        let payload: &[u8] = if id == 2 { &large } else { b"21.5" };
        pair.publish(&message(id, address, payload))
            .expect("it goes");
    }
    pair.lane
        .request(
            RequestId(1),
            &message(9, "ask", b""),
            pair.now,
            &mut pair.out,
        )
        .expect("it can be asked");
    pair.exchange();
    told.extend(pair.witness.take());
    for got in &told {
        if let Told::Received(Got {
            delivery: Some(delivery),
            ..
        }) = got
        {
            pair.lane.settle(*delivery, pair.now, &mut pair.out);
        }
    }
    let question = pair.server.published.last().expect("it was asked").clone();
    pair.server.reply(&question, b"!");
    pair.server.side.blocked("", &mut pair.server.out);
    pair.server.side.unblocked(&mut pair.server.out);
    pair.lane
        .unsubscribe(SubscriptionId(1), pair.now, &mut pair.out);
    pair.exchange();
    told.extend(pair.witness.take());
    assert_eq!(pair.fault, None);
    // How often there is room again depends on what comes together.
    told.retain(|told| *told != Told::Room);
    told
}

#[test]
fn cuts_change_nothing() {
    let whole = conversation(Box::new(|| usize::MAX));
    assert!(whole.len() > 12, "{whole:?}");
    for seed in 0..20 {
        let mut dice = Dice(seed);
        assert_eq!(
            conversation(Box::new(move || 1 + dice.roll(60))),
            whole,
            "seed {seed}"
        );
    }
}

/// One byte at a time, and at every byte a cut.
#[test]
fn a_cut_at_every_byte_changes_nothing() {
    let run = |chunk: Box<dyn FnMut() -> usize>| {
        let mut pair = Pair::new(settings());
        pair.chunk = chunk;
        pair.connect();
        pair.subscribe(1, "a/#", Reliability::AtLeastOnce)
            .expect("it can be said");
        pair.publish(&message(1, "a/b", b"21.5")).expect("it goes");
        pair.exchange();
        pair.publish(&message(2, "a/b", b"21.5")).expect("it goes");
        pair.exchange();
        pair.witness.take()
    };
    let whole = run(Box::new(|| usize::MAX));
    assert_eq!(run(Box::new(|| 1)), whole);
    for cut in 1..600 {
        let mut left = cut;
        let chunk = move || {
            let chunk = if left == 0 { usize::MAX } else { left };
            left = 0;
            chunk
        };
        assert_eq!(run(Box::new(chunk)), whole, "cut at {cut}");
    }
}

/// What a broken or hostile broker says: the lane may give up, and nothing else.
#[test]
fn nonsense_ends_a_connection_at_worst() {
    let mut pair = Pair::up(settings());
    pair.subscribed(1, "a");
    let mut good = Vec::new();
    for id in 0..4 {
        pair.publish(&message(id, "a", b"21.5")).expect("it goes");
        let said = std::mem::take(&mut pair.out.bytes);
        pair.out.clear();
        pair.server.hear(&said);
    }
    good.append(&mut pair.server.out);
    pair.server.side.close(
        ReplyCode::ConnectionForced,
        "goodbye",
        MethodId::NONE,
        &mut good,
    );
    let mut gave_up = 0;
    for seed in 0..1000 {
        let mut dice = Dice(seed);
        let mut bytes = good.clone();
        for _ in 0..1 + dice.roll(4) {
            let at = dice.roll(bytes.len());
            match dice.roll(3) {
                0 => bytes[at] = dice.roll(256) as u8,
                1 => _ = bytes.remove(at),
                _ => bytes.insert(at, dice.roll(256) as u8),
            }
        }
        let mut pair = Pair::up(settings());
        pair.subscribed(1, "a");
        for id in 0..4 {
            pair.publish(&message(id, "a", b"21.5")).expect("it goes");
        }
        let handled = pair
            .lane
            .handle_input(&bytes, pair.now, &mut pair.out, &mut pair.witness);
        gave_up += usize::from(handled.is_err());
    }
    assert!(gave_up > 300, "{gave_up}");
}
