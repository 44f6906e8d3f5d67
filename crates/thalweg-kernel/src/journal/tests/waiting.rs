//! A queue in chunks is like a sorted list.

use crate::journal::{Stored, Waiting};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn entry(serial: u64) -> Stored {
    Stored { serial, ..Stored::default() }
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
        prop_assert!(waiting.iter().map(|entry| entry.serial).eq(model.iter().copied()));
        while let Some(entry) = waiting.pop_front() {
            prop_assert_eq!(Some(entry.serial), model.pop_first());
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
    assert!(waiting.into_iter().map(|entry| entry.serial).eq((0..10_000).step_by(16)));
}
