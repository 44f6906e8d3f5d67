//! A queue in chunks is like a sorted list.

use crate::{Stored, Waiting};
use proptest::prelude::*;
use std::collections::BTreeSet;
use thalweg_model::Reliability;

/// An entry whose every field follows from its serial.
fn entry(serial: u64) -> Stored {
    let mixed = serial.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let has = |bit: u64| mixed >> bit & 3 == 0;
    Stored {
        serial,
        place: if has(0) { mixed } else { serial * 300 },
        len: if has(2) { u32::MAX } else { 300 },
        expires_secs: if has(4) { mixed as u32 } else { 0 },
        subscription_id: if has(6) { mixed as u32 >> 3 } else { 0 },
        reliability: [
            Reliability::AtMostOnce,
            Reliability::AtLeastOnce,
            Reliability::ExactlyOnce,
        ][serial as usize % 3],
        retain: has(8),
        deliveries: if has(10) { (mixed >> 20) as u16 } else { 0 },
        rare: has(12).then(|| Box::new((mixed >> 40, vec![1; serial as usize % 4]))),
    }
}

proptest! {
    #[test]
    fn any_insertions_and_removals_keep_it_sorted_and_complete(
        start in 0..3_000u64,
        operations in prop::collection::vec((any::<bool>(), 0..4_000u64), 0..3_000),
    ) {
        let mut waiting: Waiting = (0..start).map(entry).collect();
        let mut model: BTreeSet<u64> = (0..start).collect();
        for (is_insert, serial) in operations {
            if is_insert {
                prop_assert_eq!(waiting.insert(entry(serial)).is_ok(), model.insert(serial));
            } else {
                prop_assert_eq!(waiting.remove(serial).is_some(), model.remove(&serial));
            }
            prop_assert_eq!(waiting.len(), model.len());
        }
        prop_assert!(waiting.iter().eq(model.iter().copied().map(entry)));
        waiting.retain(|entry| entry.serial % 5 != 0);
        model.retain(|serial| serial % 5 != 0);
        prop_assert_eq!(waiting.len(), model.len());
        while let Some(first) = waiting.pop_front() {
            prop_assert_eq!(Some(first), model.pop_first().map(entry));
        }
        prop_assert!(model.is_empty() && waiting.is_empty());
    }
}

#[test]
fn an_entry_takes_forty_bytes() {
    assert_eq!(size_of::<Stored>(), 40);
}

#[test]
fn taking_every_second_one_out_leaves_the_rest_in_line() {
    let mut waiting: Waiting = (0..10_000).map(entry).collect();
    for serial in (0..10_000).filter(|serial| serial % 16 != 0).rev() {
        assert_eq!(waiting.remove(serial), Some(entry(serial)));
    }
    assert!(
        waiting
            .into_iter()
            .map(|entry| entry.serial)
            .eq((0..10_000).step_by(16))
    );
}
