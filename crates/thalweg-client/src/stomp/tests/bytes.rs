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

/// Some of everything, up to an ERROR; what was told.
fn conversation(chunk: Box<dyn FnMut() -> usize>) -> Vec<Told> {
    let mut pair = Pair::new(StompSettings {
        unconfirmed_max: 8,
        ..settings()
    });
    pair.chunk = chunk;
    pair.server.forbidden = Some("/topic/secret");
    pair.connect();
    let mut told = Vec::new();
    for (id, filter) in [(1, "a/#"), (2, "$q/work"), (3, "$share/g/a")] {
        pair.subscribe(id, filter, Reliability::AtLeastOnce)
            .expect("it can be said");
    }
    pair.exchange();
    for id in 0..4 {
        pair.publish(&message(id, "a/b", b"\n\0\n"))
            .expect("it goes");
    }
    pair.lane.probe(pair.now, &mut pair.out);
    pair.server.side.heart_beat(&mut pair.server.out);
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
    pair.publish(&message(9, "secret", b"")).expect("it goes");
    pair.exchange();
    told.extend(pair.witness.take());
    assert!(pair.fault.is_some());
    told
}

#[test]
fn cuts_change_nothing() {
    let whole = conversation(Box::new(|| usize::MAX));
    assert_eq!(whole.len(), 3 + 2 * 4 + 1, "{whole:?}");
    assert_eq!(conversation(Box::new(|| 1)), whole);
    for seed in 0..20 {
        let mut dice = Dice(seed);
        assert_eq!(
            conversation(Box::new(move || 1 + dice.roll(60))),
            whole,
            "seed {seed}"
        );
    }
    for cut in 1..1000 {
        let mut left = cut;
        let chunk = move || {
            let chunk = if left == 0 { usize::MAX } else { left };
            left = 0;
            chunk
        };
        assert_eq!(conversation(Box::new(chunk)), whole, "cut at {cut}");
    }
}

/// What a broken or hostile broker says: the lane may give up, and nothing else.
#[test]
fn nonsense_ends_a_connection_at_worst() {
    let prepared = || {
        let mut pair = Pair::up(settings());
        pair.subscribed(1, "a");
        for id in 0..4 {
            pair.publish(&message(id, "a", b"21.5")).expect("it goes");
        }
        let said = std::mem::take(&mut pair.out.bytes);
        pair.out.clear();
        pair.server.hear(&said);
        pair
    };
    let mut good = prepared();
    good.server
        .side
        .error("resource_error", Some("4"), "later", &mut good.server.out);
    let good = good.server.out;
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
        let mut pair = prepared();
        let handled = pair
            .lane
            .handle_input(&bytes, pair.now, &mut pair.out, &mut pair.witness);
        gave_up += usize::from(handled.is_err());
    }
    assert!(gave_up > 300, "{gave_up}");
}
