//! One bit of any file changes: the change is refused with a message, or repaired with a list of what is lost, or it is
//! where nothing matters. Never is a confirmed frame missing or different without a word.
#![allow(clippy::unwrap_used)]

use thalweg_journal::sim::{Random, SimDisk};
use thalweg_journal::{Batch, Damage, Index, Journal, Log, OpenError, Options, Recovered};

const OPTIONS: Options = Options {
    segment_bytes: 8 << 10,
    spares: 2,
    bytes_max: 0,
    repair: false,
};
const REPAIR: Options = Options {
    repair: true,
    ..OPTIONS
};
const HEAD: usize = 4096;

type Frames = Vec<(Index, Vec<u8>)>;

/// Several segments of confirmed frames; the last segment is begun anew by a second opening and has frames too.
fn journal(seed: u64, is_marked: bool) -> (SimDisk, Frames) {
    let disk = SimDisk::new(seed);
    let mut random = Random(seed);
    let mut frames: Frames = Vec::new();
    for opening in 0..2 {
        let (mut journal, _) = Journal::open(disk.clone(), OPTIONS, None, &mut |_| {}).unwrap();
        for _ in 0..[30, 4][opening] {
            let payload: Vec<u8> = (0..random.below(700))
                .map(|_| random.next() as u8)
                .collect();
            journal
                .append(&[Batch {
                    shard: 3,
                    payload: &payload,
                }])
                .unwrap();
            frames.push((frames.len() as Index + 1, payload));
            if random.below(3) == 0 {
                journal.commit().unwrap();
            }
        }
        // One larger than a segment.
        if opening == 0 {
            let payload = vec![0x5A; 20_000];
            journal
                .append(&[Batch {
                    shard: 3,
                    payload: &payload,
                }])
                .unwrap();
            frames.push((frames.len() as Index + 1, payload));
        }
        journal.commit().unwrap();
        if is_marked {
            journal.mark().unwrap();
            frames.push((frames.len() as Index + 1, Vec::new()));
        }
    }
    (disk, frames)
}

fn open(disk: &SimDisk, options: Options) -> (Result<Recovered, OpenError>, Frames) {
    let mut shown = Vec::new();
    let result = Journal::open(disk.clone(), options, None, &mut |view| {
        shown.push((view.index, view.payload.to_vec()));
    });
    (result.map(|(_, recovered)| recovered), shown)
}

fn covers(damages: &[Damage], index: Index) -> bool {
    let covers = |damage: &Damage| match (damage.first_index, damage.last_index) {
        (0, _) => false,
        (first, Some(last)) => (first..=last).contains(&index),
        (first, None) => index >= first,
    };
    damages.iter().any(covers)
}

/// Checks a changed disk; true if the change was noticed.
fn check(changed: &SimDisk, name: &str, frames: &Frames, what: &str) -> bool {
    let kept = changed.after_kill(1);
    let (result, shown) = open(&kept, OPTIONS);
    let error = match result {
        // The last frame is the mark, and holds nothing.
        Ok(_) => {
            assert!(
                shown == *frames || shown == frames[..frames.len() - 1],
                "{what}: silently different"
            );
            return shown != *frames;
        }
        Err(error) => error,
    };
    let words = error.to_string();
    assert!(words.contains(name), "{what}: {words}");
    for (name, bytes) in changed.contents() {
        let is_same = kept
            .contents()
            .iter()
            .any(|(kept_name, kept)| *kept_name == name && *kept == bytes);
        assert!(is_same, "{what}: refusing changed {name}");
    }
    if matches!(error, OpenError::File { .. }) && !words.contains("--repair")
        || words.contains("move it elsewhere")
    {
        // Not ours, as far as we can tell: a repair does not touch it either.
        assert!(open(&kept, REPAIR).0.is_err(), "{what}: {words}");
        return true;
    }
    let (result, shown) = open(&kept, REPAIR);
    let recovered = result.unwrap_or_else(|error| panic!("{what}: repair: {error}"));
    assert!(!recovered.quarantined.is_empty(), "{what}");
    for frame in &shown {
        assert!(
            frames.contains(frame),
            "{what}: frame {} was never written like this",
            frame.0
        );
    }
    assert!(shown.is_sorted_by(|a, b| a.0 < b.0), "{what}: out of order");
    for (index, _) in frames.iter().take(frames.len() - 1) {
        let is_there = shown.iter().any(|(shown, _)| shown == index);
        assert!(
            is_there || covers(&recovered.quarantined, *index),
            "{what}: {index} is missing and not listed in {:?}",
            recovered.quarantined
        );
    }
    for damage in &recovered.quarantined {
        if let Some(copy) = &damage.quarantine {
            let copied = kept
                .contents()
                .into_iter()
                .find(|(name, _)| copy.ends_with(name.as_str()));
            assert!(
                copied.is_some_and(|(_, bytes)| bytes.len() as u64 <= damage.bytes),
                "{what}"
            );
        }
    }
    // The same again until a checkpoint was made, and then on.
    let (result, again) = open(&kept, REPAIR);
    assert!(
        result.is_ok(),
        "{what}: {:?}",
        result.map_err(|error| error.to_string())
    );
    assert_eq!(again, shown, "{what}");
    true
}

#[test]
fn a_flipped_bit_anywhere_is_refused_or_does_not_matter() {
    let (mut noticed, mut harmless) = (0, 0);
    for seed in 1..=2 {
        let (disk, frames) = journal(seed, true);
        let mut random = Random(seed);
        for (name, bytes) in disk.contents() {
            let mut offset = 0;
            while offset < bytes.len() {
                let mask = 1 << random.below(8);
                let changed = disk.after_kill(seed);
                changed.flip(&name, offset, mask);
                let what = format!("seed {seed}, {name}, offset {offset}, mask {mask:#x}");
                if check(&changed, &name, &frames, &what) {
                    noticed += 1
                } else {
                    harmless += 1
                }
                // Every byte of the fields of the head, and samples of the rest.
                offset += if offset < 112 {
                    1
                } else {
                    1 + random.below(90) as usize
                };
            }
        }
    }
    println!("{noticed} noticed, {harmless} harmless");
    assert!(
        noticed > 1_000 && harmless > 100,
        "{noticed} noticed, {harmless} harmless"
    );
}

#[test]
fn a_flip_in_the_last_group_looks_like_a_torn_end_until_a_mark_is_written() {
    let flipped = |is_marked| {
        let disk = SimDisk::new(1);
        let (mut journal, _) = Journal::open(disk.clone(), OPTIONS, None, &mut |_| {}).unwrap();
        let place = journal
            .append(&[Batch {
                shard: 0,
                payload: b"confirmed",
            }])
            .unwrap()[0];
        journal.commit().unwrap();
        if is_marked {
            journal.mark().unwrap();
        }
        let killed = disk.after_kill(1);
        killed.flip(
            "segment-0000000000000001",
            place.0 as usize & ((1 << 26) - 1),
            0x10,
        );
        open(&killed, OPTIONS).0
    };
    // The limit, documented in the crate's head: nothing on disk says that this frame was ever durable.
    let dropped = flipped(false)
        .unwrap()
        .dropped_tail
        .expect("and it is told");
    assert_eq!(dropped.first_index, 1);
    // The mark is that word.
    let error = flipped(true).unwrap_err();
    assert!(
        matches!(&error, OpenError::Damaged(damage) if damage.first_index == 1),
        "{error}"
    );
}

#[test]
fn a_mark_is_written_once_and_only_when_there_is_something_to_say() {
    let disk = SimDisk::new(1);
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS, None, &mut |_| {}).unwrap();
    journal.mark().unwrap();
    assert_eq!(journal.tip().index, 1);
    journal
        .append(&[Batch {
            shard: 0,
            payload: b"one",
        }])
        .unwrap();
    journal.mark().unwrap();
    journal.mark().unwrap();
    assert_eq!(journal.tip().index, 3);
}

#[test]
fn a_file_cut_short_anywhere_is_refused() {
    let (disk, frames) = journal(3, true);
    for (name, bytes) in disk.contents() {
        if !name.starts_with("segment-") {
            continue;
        }
        for cut in (0..bytes.len()).step_by(97) {
            let changed = SimDisk::new(1);
            for (other, bytes) in disk.contents() {
                changed.put(&other, if other == name { &bytes[..cut] } else { &bytes });
            }
            assert!(
                check(&changed, &name, &frames, &format!("{name} cut at {cut}")),
                "{name} cut at {cut}"
            );
        }
    }
}

#[test]
fn a_missing_segment_is_refused_and_a_repair_lists_its_frames() {
    let (disk, frames) = journal(4, true);
    let names: Vec<String> = disk
        .contents()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("segment-"))
        .collect();
    assert!(names.len() > 4);
    for missing in &names[..names.len() - 1] {
        let changed = SimDisk::new(1);
        for (name, bytes) in disk.contents() {
            if name != *missing {
                changed.put(&name, &bytes);
            }
        }
        check(&changed, missing, &frames, &format!("without {missing}"));
    }
}

#[test]
fn a_damaged_stretch_costs_only_the_frames_in_it() {
    let (disk, frames) = journal(5, true);
    let changed = disk.after_kill(1);
    changed.flip("segment-0000000000000001", HEAD + 60, 1);
    let (result, shown) = open(&changed, REPAIR);
    let recovered = result.unwrap();
    assert_eq!(recovered.quarantined.len(), 1);
    let damage = &recovered.quarantined[0];
    assert_eq!((damage.first_index, damage.last_index), (1, Some(1)));
    assert_eq!(shown, frames[1..]);
    assert!(damage.to_string().contains("frame 1"), "{damage}");
}
