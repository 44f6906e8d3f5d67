//! The buffer on disk: what was taken is found again, whenever the power goes; and it never takes more than it may.
#![cfg(feature = "disk")]

use std::collections::BTreeMap;

use thalweg_client::spool::{Disk, DiskSettings, Memory, Recovered, Spool, SpoolError, WhenFull};
use thalweg_journal::sim::{Faults, Random, SimDisk};

const SETTINGS: DiskSettings = DiskSettings {
    bytes_max: DiskSettings::BYTES_MIN,
    when_full: WhenFull::Refuse,
    repair: false,
};
const MEMORY: DiskSettings = DiskSettings {
    when_full: WhenFull::Memory,
    ..SETTINGS
};

type Entries = BTreeMap<u64, Vec<u8>>;

fn open(disk: &SimDisk, settings: DiskSettings) -> (Disk<SimDisk>, Recovered, Entries) {
    let mut spool = Disk::open_on(disk.clone(), settings).expect("the buffer opens");
    let (recovered, entries) = shown(&mut spool);
    (spool, recovered, entries)
}

fn shown(spool: &mut Disk<SimDisk>) -> (Recovered, Entries) {
    let mut entries = Entries::new();
    let recovered = spool
        .recover(&mut |id, entry| {
            assert!(
                entries.last_key_value().is_none_or(|(last, _)| *last < id),
                "in the order of identifiers"
            );
            entries.insert(id, entry.to_vec());
        })
        .expect("what is in it can be read");
    (recovered, entries)
}

/// Different for each identifier and seed, of any length up to `bytes_max`.
fn entry(id: u64, seed: u64, bytes_max: u64) -> Vec<u8> {
    let mut random = Random(id ^ seed << 32);
    let bytes = random.below(bytes_max + 1);
    (0..bytes).map(|_| random.next() as u8).collect()
}

#[test]
fn what_waits_is_found_again_and_what_is_settled_is_not() {
    let disk = SimDisk::new(1);
    let (mut spool, recovered, entries) = open(&disk, SETTINGS);
    assert_eq!((recovered.next_sequence, entries.len()), (1, 0));
    for id in 1..=10 {
        spool.append(id, &entry(id, 1, 100)).expect("room");
    }
    spool.commit().expect("a disk");
    for id in [1, 2, 3, 7] {
        spool.settled(id);
    }
    assert!(spool.is_dirty());
    spool.commit().expect("a disk");
    assert!(!spool.is_dirty());
    spool.settled(10);
    // An orderly end writes what is not written yet.
    drop(spool);
    let (_spool, again, entries) = open(&disk, SETTINGS);
    assert_eq!(again.publisher, recovered.publisher);
    assert!(again.next_sequence > 10);
    let expected: Entries = [4, 5, 6, 8, 9].map(|id| (id, entry(id, 1, 100))).into();
    assert_eq!(entries, expected);
}

#[test]
fn two_spools_are_two_publishers() {
    let (_a, a, _) = open(&SimDisk::new(1), SETTINGS);
    let (_b, b, _) = open(&SimDisk::new(2), SETTINGS);
    assert_ne!(a.publisher, b.publisher);
    assert_eq!(
        Memory::new(7).recover(&mut |_, _| {}),
        Ok(Recovered {
            publisher: 7,
            next_sequence: 1
        })
    );
}

/// What had been said and answered when so many operations of the disk were done.
#[derive(Clone, Default)]
struct Known {
    done: usize,
    /// Committed and not settled.
    waits: Entries,
    /// Settled before a commit that has returned.
    gone: Vec<u64>,
    publisher: Option<u64>,
    /// The highest identifier that was committed.
    highest: u64,
}

/// A gateway's life: turns of publishes and settlements, restarts in between.
struct Life {
    disk: SimDisk,
    random: Random,
    seed: u64,
    now: Known,
    /// All that was ever appended.
    said: Entries,
    known: Vec<Known>,
}

impl Life {
    fn note(&mut self) {
        self.now.done = self.disk.done();
        self.known.push(self.now.clone());
    }

    fn run(&mut self, settings: DiskSettings, turns: usize) {
        let (mut spool, recovered, entries) = open(&self.disk, settings);
        assert!(
            self.now
                .publisher
                .is_none_or(|publisher| publisher == recovered.publisher)
        );
        assert_eq!(
            entries, self.now.waits,
            "between processes that end orderly nothing changes"
        );
        self.now.publisher = Some(recovered.publisher);
        self.note();
        let mut next = recovered.next_sequence;
        assert!(next > self.now.highest);
        for _ in 0..turns {
            let mut appended = Entries::new();
            for _ in 0..self.random.below(6) {
                let entry = entry(
                    next,
                    self.seed,
                    [40, 400, 4000][self.random.below(3) as usize],
                );
                self.said.insert(next, entry.clone());
                if spool.append(next, &entry).is_ok() {
                    appended.insert(next, entry);
                }
                next += 1 + self.random.below(2);
            }
            // Half of those that wait, most of the time the oldest ones.
            let mut settled = Vec::new();
            for id in self.now.waits.keys().copied() {
                if self.random.below(if settled.len() < 4 { 2 } else { 20 }) == 0 {
                    settled.push(id);
                }
            }
            for id in &settled {
                spool.settled(*id);
                self.now.waits.remove(id);
            }
            // From here on these may be gone from the disk, though nothing promises it.
            self.note();
            spool.commit().expect("a disk with room");
            self.now.highest = appended
                .last_key_value()
                .map_or(self.now.highest, |(id, _)| *id);
            self.now.waits.extend(appended);
            self.now.gone.extend(settled);
            self.note();
        }
    }
}

#[test]
fn power_may_go_after_any_operation_of_the_disk() {
    for seed in 1..=3 {
        let mut life = Life {
            disk: SimDisk::new(seed),
            random: Random(seed),
            seed,
            now: Known::default(),
            said: Entries::new(),
            known: Vec::new(),
        };
        for _ in 0..4 {
            life.run(SETTINGS, 30);
        }
        let (known, said) = (&life.known, &life.said);
        let mut opened = 0;
        life.disk.moments(|at, moment| {
            // What was last known at this moment, and what was said next: that may or may not be there.
            let before = known
                .iter()
                .rev()
                .find(|known| known.done <= at)
                .cloned()
                .unwrap_or_default();
            for (nth, left) in moment.crashes(4, seed ^ at as u64).into_iter().enumerate() {
                let (mut spool, recovered, entries) = open(&left, SETTINGS);
                opened += 1;
                let place = format!("seed {seed}, operation {at}, crash {nth}");
                assert!(
                    before
                        .publisher
                        .is_none_or(|known| known == recovered.publisher),
                    "{place}: who we are"
                );
                assert!(
                    recovered.next_sequence > before.highest,
                    "{place}: numbers are not given twice"
                );
                for (id, entry) in &before.waits {
                    assert_eq!(
                        entries.get(id),
                        Some(entry),
                        "{place}: message {id} was safe"
                    );
                }
                for id in &before.gone {
                    assert!(
                        !entries.contains_key(id),
                        "{place}: message {id} was settled, and that was committed"
                    );
                }
                for (id, entry) in &entries {
                    assert_eq!(
                        said.get(id),
                        Some(entry),
                        "{place}: message {id} was never said so"
                    );
                    assert!(recovered.next_sequence > *id, "{place}");
                }
                // And it goes on.
                let id = recovered.next_sequence;
                spool.append(id, b"afterwards").expect("room");
                spool.commit().expect("a disk");
                let (_, _, after) = open(&left.after_kill(at as u64), SETTINGS);
                assert_eq!(after.len(), entries.len() + 1, "{place}");
                assert_eq!(
                    after.get(&id).map(Vec::as_slice),
                    Some(&b"afterwards"[..]),
                    "{place}"
                );
            }
        });
        assert!(
            opened > 500,
            "{opened} crashes are too few to mean anything"
        );
    }
}

#[test]
fn a_full_buffer_says_so_and_takes_again_when_messages_are_settled() {
    let disk = SimDisk::new(3);
    let (mut spool, ..) = open(&disk, SETTINGS);
    let mut taken = 0;
    let refused = loop {
        let result = spool
            .append(taken + 1, &[7; 200])
            .and_then(|()| spool.commit());
        match result {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&refused, SpoolError::Full(words) if words.contains("full")),
        "{refused}"
    );
    // Half of the bytes, each message with what it costs.
    assert_eq!(taken, (SETTINGS.bytes_max / 2) / (200 + 69));
    for id in 1..=taken / 2 {
        spool.settled(id);
    }
    spool.commit().expect("room");
    for id in taken + 2..taken + 2 + taken / 2 {
        spool.append(id, &[8; 200]).expect("room again");
        spool.commit().expect("room again");
    }
    assert!(spool.status().bytes_used <= SETTINGS.bytes_max);
    let too_large = vec![0; SETTINGS.entry_bytes_max() + 1];
    assert!(matches!(
        spool.append(u64::MAX / 2, &too_large),
        Err(SpoolError::TooLarge { .. })
    ));
}

#[test]
fn a_message_that_stays_does_not_keep_the_room_of_those_that_go() {
    let disk = SimDisk::new(4);
    let (mut spool, recovered, _) = open(&disk, SETTINGS);
    spool.append(1, b"the one that nobody takes").expect("room");
    let mut next = 2;
    let mut used_max = 0;
    // Forty times what the buffer may have, with a few thousand waiting at most.
    for _ in 0..400 {
        for id in next..next + 100 {
            spool.append(id, &entry(id, 4, 2000)).expect("room");
        }
        spool.commit().expect("room");
        for id in next..next + 100 {
            spool.settled(id);
        }
        next += 100;
        used_max = used_max.max(spool.status().bytes_used);
    }
    spool.commit().expect("room");
    assert!(used_max <= SETTINGS.bytes_max, "{used_max}");
    let (_, again, entries) = open(&disk.after_kill(4), SETTINGS);
    assert_eq!(
        entries,
        Entries::from([(1, b"the one that nobody takes".to_vec())])
    );
    assert_eq!(again.publisher, recovered.publisher);
    assert!(again.next_sequence >= next);
}

#[test]
fn half_of_the_buffer_can_be_full_of_messages_that_stay_while_others_pass() {
    let disk = SimDisk::new(5);
    let (mut spool, ..) = open(&disk, SETTINGS);
    let mut stay = Entries::new();
    let mut bytes = 0;
    let mut next = 1;
    // Every second message stays, until a third of all is taken by them; then others pass, again and again.
    while bytes < SETTINGS.bytes_max / 3 {
        let message = entry(next, 5, 8000);
        bytes += message.len() as u64 + 69;
        spool.append(next, &message).expect("room");
        spool.append(next + 1, &[1; 700]).expect("room");
        spool.commit().expect("room");
        spool.settled(next + 1);
        stay.insert(next, message);
        next += 2;
    }
    for id in next..next + 3000 {
        spool.append(id, &entry(id, 6, 4000)).expect("room");
        spool.commit().expect("room");
        spool.settled(id);
    }
    assert!(spool.status().bytes_used <= SETTINGS.bytes_max);
    drop(spool);
    let (.., entries) = open(&disk.after_kill(5), SETTINGS);
    assert_eq!(entries, stay);
}

#[test]
fn a_gateway_that_restarts_for_ever_does_not_fill_its_disk() {
    let mut disk = SimDisk::new(6);
    let mut publisher = None;
    for round in 0..100 {
        let (mut spool, recovered, entries) = open(&disk, SETTINGS);
        assert_eq!(
            *publisher.get_or_insert(recovered.publisher),
            recovered.publisher
        );
        assert_eq!(entries.len(), round.min(3));
        spool
            .append(recovered.next_sequence, b"one for each process")
            .expect("room");
        spool.commit().expect("room");
        if round >= 3 {
            spool.settled(*entries.first_key_value().expect("three").0);
            spool.commit().expect("room");
        }
        assert!(
            spool.status().bytes_used <= SETTINGS.bytes_max,
            "process {round}"
        );
        // Not dropped before: killed.
        disk = disk.after_kill(round as u64);
        std::mem::forget(spool);
    }
}

#[test]
fn a_disk_that_others_have_filled_is_said_and_nothing_is_lost() {
    let disk = SimDisk::new(7);
    let (mut spool, ..) = open(&disk, SETTINGS);
    spool.append(1, &[1; 1000]).expect("room");
    spool.commit().expect("room");
    disk.plan(Faults {
        capacity: Some(0),
        full_after: Some(0),
        ..Faults::default()
    });
    spool
        .append(2, &[2; 1000])
        .expect("it is the commit that finds out");
    let refused = spool.commit().expect_err("no room on the disk");
    assert!(matches!(&refused, SpoolError::Full(_)), "{refused}");
    assert!(
        spool.status().trouble.contains("room"),
        "{:?}",
        spool.status()
    );
    assert_eq!(spool.len(), 1, "what was not taken is forgotten");
    disk.plan(Faults::default());
    spool.append(3, &[3; 1000]).expect("room");
    assert!(!spool.status().trouble.is_empty(), "not tried again yet");
    spool.commit().expect("room again");
    assert_eq!(spool.status().trouble, "");
    let (.., entries) = open(&disk.after_kill(7), SETTINGS);
    assert_eq!(entries.keys().copied().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn with_memory_as_refuge_messages_are_taken_and_written_when_there_is_room() {
    let disk = SimDisk::new(8);
    let (mut spool, ..) = open(&disk, MEMORY);
    spool.append(1, &[1; 1000]).expect("room");
    spool.commit().expect("room");
    disk.plan(Faults {
        capacity: Some(0),
        full_after: Some(0),
        ..Faults::default()
    });
    for id in 2..=50 {
        spool.append(id, &entry(id, 8, 1000)).expect("memory");
        spool.commit().expect("memory");
    }
    for id in 2..=30 {
        spool.settled(id);
    }
    assert_eq!((spool.status().kept, spool.status().unsaved), (1, 20));
    assert!(spool.is_dirty());
    let (.., entries) = open(&disk.after_kill(8), MEMORY);
    assert_eq!(
        entries.len(),
        1,
        "a process that dies now loses what is in memory only"
    );
    disk.plan(Faults::default());
    for _ in 0..100 {
        spool.commit().expect("room");
    }
    assert_eq!((spool.status().kept, spool.status().unsaved), (21, 0));
    assert_eq!(spool.status().trouble, "");
    let (.., entries) = open(&disk.after_kill(8), MEMORY);
    let expected: Entries = (31..=50)
        .map(|id| (id, entry(id, 8, 1000)))
        .chain([(1, vec![1; 1000])])
        .collect();
    assert_eq!(entries, expected);
}

#[test]
fn numbers_are_not_given_twice_even_if_they_were_used_in_memory_only() {
    let disk = SimDisk::new(9);
    let (mut spool, recovered, _) = open(&disk, MEMORY);
    disk.plan(Faults {
        capacity: Some(0),
        full_after: Some(0),
        ..Faults::default()
    });
    let mut id = recovered.next_sequence;
    let mut taken = 0_u64;
    let refused = loop {
        if let Err(error) = spool.append(id, b"").and_then(|()| spool.commit()) {
            break error;
        }
        spool.settled(id);
        taken = id;
        id += 1;
    };
    assert!(matches!(refused, SpoolError::Full(_)), "{refused}");
    assert!(taken > 30_000, "{taken}");
    let (_, again, _) = open(&disk.after_kill(9), MEMORY);
    assert!(
        again.next_sequence > taken,
        "{} follows {taken}",
        again.next_sequence
    );
}

#[test]
fn a_sync_that_fails_is_survived_and_a_disk_that_fails_for_good_is_said() {
    let disk = SimDisk::new(10);
    let (mut spool, ..) = open(&disk, SETTINGS);
    disk.plan(Faults {
        syncs: vec![0],
        ..Faults::default()
    });
    spool.append(1, b"written twice").expect("room");
    spool.commit().expect("the same again elsewhere");
    assert!(!spool.status().trouble.is_empty());
    spool.commit().expect("nothing is wrong any more");
    assert_eq!(spool.status().trouble, "");
    disk.plan(Faults {
        syncs: (0..100).collect(),
        ..Faults::default()
    });
    spool
        .append(2, b"never safe")
        .expect("it is the commit that finds out");
    assert!(matches!(spool.commit(), Err(SpoolError::Failed(_))));
    assert!(
        matches!(spool.append(3, b""), Err(SpoolError::Failed(_))),
        "now and for ever"
    );
    let left = disk.moment().power_cut(10);
    let (.., entries) = open(&left, SETTINGS);
    assert_eq!(
        entries.get(&1).map(Vec::as_slice),
        Some(&b"written twice"[..])
    );
    assert!(!entries.contains_key(&3));
}

#[test]
fn one_process_at_a_time() {
    let disk = SimDisk::new(11);
    let (spool, ..) = open(&disk, SETTINGS);
    let refused = Disk::open_on(disk.clone(), SETTINGS).err();
    assert!(
        matches!(&refused, Some(SpoolError::Locked(words)) if words.contains("4711")),
        "{refused:?}"
    );
    drop(spool);
    open(&disk, SETTINGS);
}

#[test]
fn damage_is_told_from_a_torn_end() {
    let disk = SimDisk::new(12);
    let (mut spool, ..) = open(&disk, SETTINGS);
    for id in 1..=3 {
        spool.append(id, &[id as u8; 300]).expect("room");
        spool.commit().expect("a disk");
    }
    drop(spool);
    let (name, bytes) = disk
        .contents()
        .into_iter()
        .filter(|(name, _)| name.starts_with("segment-"))
        .find(|(_, bytes)| bytes.windows(300).any(|window| window == [2; 300]))
        .expect("the segment that has them");
    let at = bytes
        .windows(300)
        .position(|window| window == [2; 300])
        .expect("the entry");
    disk.flip(&name, at + 100, 1);
    let refused = Disk::open_on(disk.clone(), SETTINGS).err();
    assert!(
        matches!(&refused, Some(SpoolError::Damaged(words)) if words.contains("repair")),
        "{refused:?}"
    );
    let (mut spool, _, entries) = open(
        &disk,
        DiskSettings {
            repair: true,
            ..SETTINGS
        },
    );
    assert_eq!(entries.keys().copied().collect::<Vec<_>>(), [1, 3]);
    spool.commit().expect("what is left is sound");
    assert!(
        spool.status().trouble.contains("damaged"),
        "{:?}",
        spool.status()
    );
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let small = DiskSettings {
        bytes_max: 4096,
        ..SETTINGS
    };
    assert!(matches!(
        Disk::open_on(SimDisk::new(13), small),
        Err(SpoolError::Settings(_))
    ));
}
