//! The last values against a plain map, scans that are interrupted, limits and expiry.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use thalweg_kernel::last_value::{LastValues, Limits, Refused, ScanCursor};
use thalweg_model::{Filter, Message, Reliability, RetainOp, Time};

/// Enough randomness for tests; a seed reproduces a run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    /// `a!` and `a.` sort between `a` and `a/`, `a0` behind.
    fn address(&mut self) -> String {
        let levels: Vec<_> = (0..1 + self.roll(4))
            .map(|_| ["", "a", "a!", "a.", "a0", "b", "$a", "é"][self.roll(8)])
            .collect();
        let address = levels.join("/");
        if address.is_empty() {
            "a".into()
        } else {
            address
        }
    }

    /// A prefix filter of the beginning of an address.
    fn prefix(&mut self) -> String {
        let address = self.address();
        let mut end = self.roll(address.len() + 1);
        while !address.is_char_boundary(end) {
            end -= 1;
        }
        Filter::prefix(&address[..end]).map_or_else(|_| address, |filter| filter.as_str().into())
    }

    fn filter(&mut self) -> String {
        let address = self.address();
        let mut levels: Vec<&str> = address.split('/').collect();
        for level in &mut levels {
            if self.roll(3) == 0 {
                *level = "+";
            }
        }
        match self.roll(3) {
            0 => *levels.last_mut().expect("a text has a level") = "#",
            1 => levels.push("#"),
            _ => {}
        }
        levels.join("/")
    }
}

fn message(address: &str, payload: &str, expires: Time) -> Message {
    let (reliability, retain) = (Reliability::AtMostOnce, RetainOp::Set);
    Message::new(
        address,
        payload.as_bytes(),
        reliability,
        retain,
        expires,
        Time::ZERO,
        0,
        None,
    )
}

fn keep(values: &mut LastValues, address: &str) {
    assert!(matches!(
        values.set(message(address, "x", Time::NEVER)),
        Ok(None)
    ));
}

/// Scans in calls of `steps` and returns the addresses seen.
fn scan(values: &LastValues, filter: &str, steps: usize, now: Time) -> Vec<String> {
    let mut seen = Vec::new();
    let mut cursor = ScanCursor::default();
    loop {
        let before = seen.len();
        let done = values.scan(filter, &mut cursor, steps, now, |message| {
            seen.push(message.address().to_owned());
            ControlFlow::Continue(())
        });
        assert!(seen.len() - before <= steps);
        if done {
            return seen;
        }
    }
}

#[test]
fn random_stores_hold_and_find_what_a_plain_map_does() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let mut values = LastValues::new(Limits::NONE);
        let mut model: BTreeMap<String, (String, Time)> = BTreeMap::new();
        for step in 0..300u64 {
            let now = Time::from_secs(step);
            let address = dice.address();
            match dice.roll(10) {
                0..6 => {
                    let expires = if dice.roll(2) == 0 {
                        Time::NEVER
                    } else {
                        Time::from_secs(step + dice.roll(60) as u64)
                    };
                    let payload = format!("{step}");
                    let previous = values.set(message(&address, &payload, expires)).unwrap();
                    let expected = model.insert(address, (payload, expires));
                    assert_eq!(
                        previous.map(|m| m.payload().to_vec()),
                        expected.map(|(payload, _)| payload.into_bytes()),
                        "seed {seed}"
                    );
                }
                6..8 => {
                    assert_eq!(
                        values.clear(&address).is_some(),
                        model.remove(&address).is_some(),
                        "seed {seed}"
                    );
                }
                8 => {
                    let gone = model
                        .values()
                        .filter(|(_, expires)| *expires <= now)
                        .count();
                    let max = dice.roll(5);
                    let dropped = values.expire(now, max, |_| ());
                    assert_eq!(dropped, gone.min(max), "seed {seed}");
                    // The store chooses the order: those that expired first.
                    model.retain(|address, (_, expires)| {
                        *expires > now || values.get(address, Time::ZERO).is_some()
                    });
                }
                _ => {
                    let found = values
                        .get(&address, now)
                        .map(|m| String::from_utf8_lossy(m.payload()).into_owned());
                    let expected = model.get(&address).filter(|(_, expires)| *expires > now);
                    assert_eq!(
                        found.as_ref(),
                        expected.map(|(payload, _)| payload),
                        "seed {seed}"
                    );
                }
            }
            assert_eq!(values.count(), model.len());
            let next = model
                .values()
                .map(|(_, expires)| *expires)
                .min()
                .unwrap_or(Time::NEVER);
            assert_eq!(values.expiry_next(), next, "seed {seed}");
            let filter = match dice.roll(4) {
                0 => dice.prefix(),
                _ => dice.filter(),
            };
            let plain = Filter::from_canonical(&filter).unwrap();
            let expected: Vec<_> = model
                .iter()
                .filter(|(address, (_, expires))| *expires > now && plain.matches(address))
                .map(|(address, _)| address.clone())
                .collect();
            let steps = [1, 2, 3, 1000][dice.roll(4)];
            assert_eq!(
                scan(&values, &filter, steps, now),
                expected,
                "seed {seed}, filter {filter}, {steps} steps"
            );
        }
        for address in model.keys() {
            assert!(values.clear(address).is_some());
        }
        assert_eq!(
            (values.count(), values.bytes(), values.expiry_next()),
            (0, 0, Time::NEVER)
        );
    }
}

#[test]
fn a_scan_survives_changes_between_its_calls() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let mut values = LastValues::new(Limits::NONE);
        for n in 0..200 {
            if n % 3 != 0 {
                keep(&mut values, &format!("s/{n:03}/x"));
            }
        }
        let mut throughout: Vec<bool> = (0..200).map(|n| n % 3 != 0).collect();
        let mut seen = vec![0; 200];
        let mut cursor = ScanCursor::default();
        while !values.scan(
            "s/+/#",
            &mut cursor,
            1 + seed as usize % 7,
            Time::ZERO,
            |message| {
                let n: usize = message.address()[2..5].parse().unwrap();
                seen[n] += 1;
                ControlFlow::Continue(())
            },
        ) {
            for _ in 0..3 {
                let n = dice.roll(200);
                throughout[n] = false;
                let address = format!("s/{n:03}/x");
                if values.clear(&address).is_none() {
                    keep(&mut values, &address);
                }
            }
        }
        for n in 0..200 {
            assert!(seen[n] <= 1, "seed {seed}: {n} seen {} times", seen[n]);
            assert!(
                seen[n] == 1 || !throughout[n],
                "seed {seed}: {n} was there all the time and not seen"
            );
        }
    }
}

#[test]
fn a_scan_that_is_broken_off_goes_on_behind_the_last_value_it_gave() {
    let mut values = LastValues::new(Limits::NONE);
    for address in ["a", "a!", "a/1", "a/2", "a/3", "b"] {
        keep(&mut values, address);
    }
    let mut cursor = ScanCursor::default();
    let mut seen = Vec::new();
    for _ in 0..4 {
        assert!(
            !values.scan("a/#", &mut cursor, 100, Time::ZERO, |message| {
                seen.push(message.address().to_owned());
                ControlFlow::Break(())
            })
        );
    }
    assert_eq!(seen, ["a", "a/1", "a/2", "a/3"]);
    for _ in 0..2 {
        assert!(
            values.scan("a/#", &mut cursor, 100, Time::ZERO, |_| unreachable!(
                "the scan is complete"
            ))
        );
    }
}

#[test]
fn a_scan_looks_only_at_the_stretch_that_begins_like_its_filter() {
    let mut values = LastValues::new(Limits::NONE);
    for n in 0..10_000 {
        keep(&mut values, &format!("other/{n}"));
        keep(&mut values, &format!("site!{n}"));
    }
    for n in 0..5 {
        keep(&mut values, &format!("site/{n}/temperature"));
    }
    keep(&mut values, "site");
    let complete_in = |filter: &str, steps: usize| {
        values.scan(
            filter,
            &mut ScanCursor::default(),
            steps,
            Time::ZERO,
            |_| ControlFlow::Continue(()),
        )
    };
    assert!(complete_in("site/#", 7));
    assert!(complete_in("site/+/temperature", 6));
    assert!(complete_in("other/77", 1));
    assert!(complete_in("site/+/nothing", 6));
    assert!(!complete_in("#", 20_000));
    assert!(complete_in("#", 20_007));
}

#[test]
fn text_that_is_no_filter_finds_nothing() {
    let mut values = LastValues::new(Limits::NONE);
    keep(&mut values, "a");
    for filter in ["", "a/#/b", "a#", "a\0b", "a+\0"] {
        assert!(values.scan(
            filter,
            &mut ScanCursor::default(),
            1,
            Time::ZERO,
            |_| unreachable!("{filter}")
        ));
    }
}

#[test]
fn limits_refuse_new_addresses_and_let_known_ones_go_on() {
    let mut values = LastValues::new(Limits {
        count_max: 2,
        bytes_max: usize::MAX,
    });
    keep(&mut values, "a");
    keep(&mut values, "b");
    assert_eq!(
        values.set(message("c", "x", Time::NEVER)).unwrap_err(),
        Refused::Count
    );
    assert!(
        values
            .set(message("a", "y", Time::NEVER))
            .unwrap()
            .is_some()
    );
    values.clear("b").unwrap();
    keep(&mut values, "c");

    // Longer than the inline part of a kept message, so that each byte counts.
    let of = |len: usize| message("a", &"y".repeat(len), Time::NEVER);
    values.set(of(100)).unwrap();
    let bytes = values.bytes();
    values.set_limits(Limits {
        count_max: 100,
        bytes_max: bytes + 10,
    });
    assert_eq!(
        values.set(message("d", "x", Time::NEVER)).unwrap_err(),
        Refused::Bytes
    );
    assert_eq!(values.set(of(111)).unwrap_err(), Refused::Bytes);
    assert_eq!(values.get("a", Time::ZERO).unwrap().payload().len(), 100);
    assert!(values.set(of(110)).is_ok());
    assert_eq!(values.bytes(), bytes + 10);
    assert_eq!(values.count(), 2);

    // Lowered below what is held: a value may still shrink or stay, not grow.
    values.set_limits(Limits {
        count_max: 0,
        bytes_max: 0,
    });
    assert!(values.set(of(100)).is_ok());
    assert!(values.set(of(100)).is_ok());
    assert!(values.set(of(101)).is_err());
    assert_eq!(values.bytes(), bytes);
}

#[test]
fn an_expired_value_is_silent_at_once_and_gone_when_expire_comes() {
    let mut values = LastValues::new(Limits::NONE);
    for n in 1..=10 {
        values
            .set(message(&format!("a/{n}"), "x", Time::from_secs(n)))
            .unwrap();
    }
    keep(&mut values, "a/0");
    let now = Time::from_secs(4);
    assert!(values.get("a/4", now).is_none());
    assert!(values.get("a/5", now).is_some());
    assert_eq!(scan(&values, "a/+", 100, now).len(), 7);
    assert_eq!(values.expiry_next(), Time::from_secs(1));
    assert_eq!(values.expire(now, 3, |_| ()), 3);
    assert_eq!(values.expire(now, 3, |_| ()), 1);
    assert_eq!(values.expiry_next(), Time::from_secs(5));

    // A new value takes its predecessor's expiry along.
    values.set(message("a/5", "y", Time::NEVER)).unwrap();
    assert_eq!(values.expire(Time::from_secs(100), 100, |_| ()), 5);
    assert_eq!(values.count(), 2);
    assert_eq!(values.expire(Time::NEVER, 100, |_| ()), 0);
}
