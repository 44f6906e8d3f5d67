//! Checkpoints, packs and backups, and what happens when they are damaged.

mod broker;

use std::sync::mpsc::channel;
use std::time::Duration;

use broker::{Broker, PACKING, message, read_all, round, session, written};
use thalweg_model::RetainOp;
use thalweg_records::{Record, Reference, State};
use thalweg_store::backup::{backup, backup_stopped, restore, verify};
use thalweg_store::sim::{Faults, SimDisk};
use thalweg_store::{
    Archive, Batch, CheckpointSettings, Checkpointer, Disk, DiskFile, Journal, Loaded, Log,
    OpenError, Options, OsDisk, Packing, Place, load,
};

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

/// A journal with two checkpoints, packs, and frames behind them; closed.
fn worked(disk: &SimDisk, seed: u64) -> Broker {
    let mut broker = Broker::new(seed);
    let Loaded {
        mut journal,
        mut archive,
        ..
    } = load(disk.clone(), OPTIONS).expect("a new journal");
    for at in 0..120 {
        broker.write(&mut journal);
        if at % 10 == 5 {
            journal.commit().expect("no faults");
            round(&mut archive, &journal);
        }
    }
    journal.commit().expect("no faults");
    broker
}

fn names(disk: &SimDisk, kind: &str) -> Vec<String> {
    disk.contents()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with(kind))
        .collect()
}

fn length(disk: &SimDisk, name: &str) -> usize {
    disk.contents()
        .into_iter()
        .find(|(known, _)| known == name)
        .map_or(0, |(_, bytes)| bytes.len())
}

fn opened(disk: &SimDisk, options: Options) -> Loaded<SimDisk> {
    load(disk.clone(), options).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(disk: &SimDisk) -> String {
    match load(disk.clone(), OPTIONS) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it opened"),
    }
}

#[test]
fn what_was_written_is_loaded_and_every_message_can_be_read() {
    let disk = SimDisk::new(1);
    let broker = worked(&disk, 1);
    assert!(!names(&disk, "pack-").is_empty() && names(&disk, "checkpoint-").len() == 2);
    let loaded = opened(&disk, OPTIONS);
    assert_eq!(
        (loaded.recovered.last_index, loaded.warnings),
        (broker.frames(), vec![])
    );
    assert!(
        loaded.recovered.frames < 20,
        "a checkpoint spares reading {} frames",
        loaded.recovered.frames
    );
    assert!(written(&loaded.state) == *broker.states.last().expect("frames"));
    assert!(read_all(&loaded.journal.inventory(), &loaded.state, "all") > 20);
}

#[test]
fn a_flipped_bit_anywhere_in_the_newest_checkpoint_costs_nothing_and_is_told() {
    let disk = SimDisk::new(2);
    let broker = worked(&disk, 2);
    let newest = names(&disk, "checkpoint-").pop().expect("two");
    for offset in (0..200).chain((200..length(&disk, &newest)).step_by(61)) {
        let damaged = disk.after_kill(offset as u64);
        damaged.flip(&newest, offset, 1 << (offset % 8));
        let loaded = opened(&damaged, OPTIONS);
        assert!(
            written(&loaded.state) == *broker.states.last().expect("frames"),
            "offset {offset}"
        );
        assert!(
            loaded.warnings.len() == 1 && loaded.warnings[0].contains(&newest),
            "{:?}",
            loaded.warnings
        );
        // What is made next replaces the damaged one, not the good one.
        let (mut journal, mut archive) = (loaded.journal, loaded.archive);
        journal
            .append(&[Batch {
                shard: 0,
                payload: &[],
            }])
            .expect("no faults");
        journal.commit().expect("no faults");
        round(&mut archive, &journal);
        assert!(!names(&damaged, "checkpoint-").contains(&newest));
        drop((journal, archive));
        assert_eq!(opened(&damaged, OPTIONS).warnings, Vec::<String>::new());
    }
}

#[test]
fn without_any_checkpoint_that_can_be_read_it_refuses_and_a_repair_lists_what_is_missing() {
    let disk = SimDisk::new(3);
    let broker = worked(&disk, 3);
    let checkpoints = names(&disk, "checkpoint-");
    for (name, offset) in checkpoints.iter().zip([20, 4_100]) {
        disk.flip(name, offset, 4);
    }
    let words = refused(&disk);
    assert!(
        words.contains(&checkpoints[1]) && words.contains("--repair"),
        "{words}"
    );
    let repaired = opened(&disk, REPAIR);
    assert_eq!(repaired.recovered.last_index, broker.frames());
    let missing = &repaired.recovered.quarantined;
    assert!(
        missing.len() >= 3,
        "two checkpoints and the frames that were released: {missing:?}"
    );
    let copy = missing[0].quarantine.as_ref().expect("it is kept");
    assert!(copy.contains("quarantine/checkpoint-"), "{copy}");
    let state = written(&repaired.state);
    drop(repaired);
    // From then on it opens as usual, with what is left.
    let again = opened(&disk, OPTIONS);
    assert!(written(&again.state) == state);
    read_all(&again.journal.inventory(), &again.state, "after the repair");
}

#[test]
fn a_checkpoint_of_a_newer_version_or_of_another_journal_is_not_passed_over() {
    let disk = SimDisk::new(4);
    worked(&disk, 4);
    let newest = names(&disk, "checkpoint-").pop().expect("two");
    let newer = disk.after_kill(1);
    let file = newer.open_to_write(&newest).expect("it is there");
    let mut head = vec![0; 4096];
    file.read_full(&mut head, 0).expect("a head");
    head[8] = 9;
    let crc = crc32c::crc32c(&head[..4092]);
    head[4092..].copy_from_slice(&crc.to_le_bytes());
    file.write_full(&head, 0).expect("no faults");
    assert!(refused(&newer).contains("format 9"));

    let other = SimDisk::new(5);
    worked(&other, 5);
    let theirs = names(&other, "checkpoint-").pop().expect("two");
    let bytes = other
        .contents()
        .into_iter()
        .find(|(name, _)| *name == theirs)
        .expect("it is there")
        .1;
    let mixed = disk.after_kill(2);
    names(&mixed, "checkpoint-")
        .iter()
        .for_each(|name| mixed.unlink(name).expect("no faults"));
    mixed.put(&theirs, &bytes);
    assert!(
        refused(&mixed).contains("Files of two journals were mixed"),
        "{}",
        refused(&mixed)
    );
}

#[test]
fn a_flipped_bit_in_a_pack_is_found_at_the_latest_when_the_message_is_read() {
    let disk = SimDisk::new(6);
    let broker = worked(&disk, 6);
    let pack = names(&disk, "pack-")
        .into_iter()
        .max_by_key(|name| length(&disk, name))
        .expect("packs");
    let (mut at_opening, mut at_reading) = (0, 0);
    for offset in (0..4_096)
        .step_by(197)
        .chain((4_096..length(&disk, &pack)).step_by(41))
    {
        let damaged = disk.after_kill(offset as u64);
        damaged.flip(&pack, offset, 0x10);
        match verify(damaged.clone(), OPTIONS) {
            Err(error) => {
                assert!(error.to_string().contains("pack-"), "{error}");
                at_opening += 1;
                let repaired = opened(&damaged, REPAIR);
                assert!(
                    repaired
                        .recovered
                        .quarantined
                        .iter()
                        .any(|damage| damage.quarantine.is_some())
                );
                read_all(
                    &repaired.journal.inventory(),
                    &repaired.state,
                    "what is left after a repair",
                );
            }
            Ok(verified) => {
                at_reading += usize::from(verified.unreadable > 0);
                assert!(verified.unreadable <= 1, "{:?}", verified.faults);
                // What is damaged may not be needed any more.
                assert_eq!(
                    verified.counts.last_values,
                    State::counts(&state_of(&broker)).last_values
                );
            }
        }
    }
    assert!(
        at_opening > 10 && at_reading > 10,
        "{at_opening} at opening, {at_reading} at reading"
    );
}

fn state_of(broker: &Broker) -> State {
    let mut state = State::default();
    state
        .apply_frame(broker.states.last().expect("frames"), 0)
        .expect("records");
    state
}

#[test]
fn a_missing_pack_or_segment_that_is_needed_is_refused_and_a_repair_goes_on_without() {
    let disk = SimDisk::new(7);
    worked(&disk, 7);
    let needed = |kind: &str| {
        let candidates = names(&disk, kind).into_iter().filter(|name| {
            let without = disk.after_kill(3);
            without.unlink(name).expect("no faults");
            load(without, OPTIONS).is_err()
        });
        candidates.collect::<Vec<_>>()
    };
    let (packs, segments) = (needed("pack-"), needed("segment-"));
    assert!(!packs.is_empty() && !segments.is_empty());
    for name in packs.iter().chain(&segments) {
        let without = disk.after_kill(4);
        without.unlink(name).expect("no faults");
        let words = refused(&without);
        assert!(words.contains("--repair"), "{words}");
        let repaired = opened(&without, REPAIR);
        assert!(!repaired.recovered.quarantined.is_empty());
        read_all(
            &repaired.journal.inventory(),
            &repaired.state,
            "what is left",
        );
        drop(repaired);
        opened(&without, OPTIONS);
    }
}

#[test]
fn a_whole_frame_of_unknown_records_is_refused_and_a_repair_lists_it() {
    let disk = SimDisk::new(28);
    let broker = worked(&disk, 28);
    let Loaded { mut journal, .. } = opened(&disk, OPTIONS);
    journal
        .append(&[Batch {
            shard: 0,
            payload: &[0x77, 2, 0, 0],
        }])
        .expect("there is room");
    journal.commit().expect("no faults");
    drop(journal);
    let words = refused(&disk);
    assert!(
        words.contains("an unknown kind")
            && words.contains(&format!("frame {}", broker.frames() + 1)),
        "{words}"
    );
    let repaired = opened(&disk, REPAIR);
    assert_eq!(repaired.recovered.quarantined.len(), 1);
    assert!(written(&repaired.state) == *broker.states.last().expect("frames"));
    drop(repaired);
    opened(&disk, OPTIONS);
}

#[test]
fn what_was_never_finished_is_removed() {
    let disk = SimDisk::new(8);
    worked(&disk, 8);
    disk.put("checkpoint-00000000000000ff.new", b"half a checkpoint");
    disk.put("pack-00000000000000ff.new", b"half a pack");
    disk.put("somebody.new", b"not ours");
    opened(&disk, OPTIONS);
    let left: Vec<String> = disk
        .contents()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|n| n.ends_with(".new"))
        .collect();
    assert_eq!(left, ["somebody.new"]);
}

#[test]
fn a_checkpoint_that_finds_no_room_or_a_fault_costs_nothing_and_is_made_later() {
    let disk = SimDisk::new(9);
    let broker = worked(&disk, 9);
    let used: usize = disk.contents().iter().map(|(_, bytes)| bytes.len()).sum();
    let loaded = opened(&disk, OPTIONS);
    let (mut journal, mut archive) = (loaded.journal, loaded.archive);
    journal
        .append(&[Batch {
            shard: 0,
            payload: &[],
        }])
        .expect("there is room");
    journal.commit().expect("no faults");
    let inventory = journal.inventory();
    let try_round = |archive: &mut Archive<SimDisk>| {
        thalweg_store::checkpointer::round(archive, &inventory, inventory.durable(), &PACKING)
    };
    disk.plan(Faults {
        capacity: Some(used as u64),
        ..Faults::default()
    });
    // Giving up the older of two may make room; an error is all right, too.
    let full = try_round(&mut archive);
    assert!(
        full.as_ref().err().is_none_or(|error| error.is_full),
        "{full:?}"
    );
    for faults in [
        Faults {
            syncs: vec![0, 1, 2],
            ..Faults::default()
        },
        Faults {
            dir_syncs: vec![0],
            ..Faults::default()
        },
        Faults {
            writes: vec![0],
            ..Faults::default()
        },
    ] {
        let again = opened(&disk.after_kill(5), OPTIONS);
        assert!(written(&again.state) == *broker.states.last().expect("frames"));
        disk.plan(faults.clone());
        let _ = try_round(&mut archive);
        disk.plan(Faults::default());
        journal
            .append(&[Batch {
                shard: 0,
                payload: &[],
            }])
            .expect("there is room");
        journal.commit().expect("no faults");
    }
    try_round(&mut archive).expect("no faults any more");
    drop((journal, archive));
    let again = opened(&disk, OPTIONS);
    assert!(
        again.recovered.frames <= 1
            && written(&again.state) == *broker.states.last().expect("frames")
    );
}

#[test]
fn a_place_that_an_fsync_error_moved_is_found_even_in_a_pack() {
    let disk = SimDisk::new(10);
    let Loaded {
        mut journal,
        mut archive,
        ..
    } = load(disk.clone(), OPTIONS).expect("a new journal");
    let mut payload = Vec::new();
    session(1).encode(&mut payload);
    journal
        .append(&[Batch {
            shard: 0,
            payload: &payload,
        }])
        .expect("there is room");
    journal.commit().expect("no faults");
    payload.clear();
    let references = [Reference {
        queue: 1,
        serial: 1,
        ..Reference::default()
    }];
    message("a/b", &[7; 300], RetainOp::None, &references).encode(&mut payload);
    let place = journal
        .append(&[Batch {
            shard: 0,
            payload: &payload,
        }])
        .expect("there is room")[0];
    disk.plan(Faults {
        syncs: vec![0],
        ..Faults::default()
    });
    journal.commit().expect("it is written again elsewhere");
    disk.plan(Faults::default());
    let inventory = journal.inventory();
    for _ in 0..6 {
        for _ in 0..4 {
            let mut filler = Vec::new();
            message("a/b", &[1; 3_000], RetainOp::None, &[]).encode(&mut filler);
            journal
                .append(&[Batch {
                    shard: 0,
                    payload: &filler,
                }])
                .expect("there is room");
        }
        journal.commit().expect("no faults");
        round(&mut archive, &journal);
    }
    assert_eq!(
        names(&disk, "pack-").len(),
        1,
        "what is left of the segment is one message"
    );
    assert!(!names(&disk, "segment-").contains(&"segment-0000000000000002".to_owned()));
    let mut record = Vec::new();
    inventory
        .read(place, payload.len() as u32, &mut record)
        .expect("where it was first");
    assert_eq!(record, payload);
}

#[test]
fn a_segment_before_a_gap_is_taken_away_after_a_restart_too() {
    let disk = SimDisk::new(11);
    let Loaded {
        mut journal,
        mut archive,
        ..
    } = load(disk.clone(), OPTIONS).expect("a new journal");
    let write = |journal: &mut Journal<SimDisk>, records: &[Record<'_>]| {
        let mut payload = Vec::new();
        records
            .iter()
            .for_each(|record| record.encode(&mut payload));
        journal
            .append(&[Batch {
                shard: 0,
                payload: &payload,
            }])
            .expect("there is room");
        journal.commit().expect("no faults");
    };
    // The first segment is full of what is needed, those behind it are not.
    write(&mut journal, &[session(1)]);
    for serial in 1..=2 {
        let references = [Reference {
            queue: 1,
            serial,
            ..Reference::default()
        }];
        write(
            &mut journal,
            &[message("a", &[1; 1_900], RetainOp::None, &references)],
        );
    }
    let packing = Packing {
        live_percent_min: 10,
        ..PACKING
    };
    let round = |archive: &mut Archive<SimDisk>, journal: &Journal<SimDisk>| {
        let inventory = journal.inventory();
        thalweg_store::checkpointer::round(archive, &inventory, inventory.durable(), &packing)
            .expect("no faults")
    };
    for _ in 0..4 {
        for _ in 0..3 {
            write(
                &mut journal,
                &[message("a", &[1; 3_000], RetainOp::None, &[])],
            );
        }
        round(&mut archive, &journal);
    }
    let gap = names(&disk, "segment-");
    assert!(
        gap.contains(&"segment-0000000000000001".to_owned())
            && !gap.contains(&"segment-0000000000000002".to_owned())
    );
    drop((journal, archive));
    let Loaded {
        mut journal,
        mut archive,
        ..
    } = load(disk.clone(), OPTIONS).expect("it has a gap and no fault");
    write(
        &mut journal,
        &[
            Record::Removed {
                queue: 1,
                serial: 1,
            },
            Record::Removed {
                queue: 1,
                serial: 2,
            },
        ],
    );
    round(&mut archive, &journal);
    write(
        &mut journal,
        &[message("a", &[1; 3_000], RetainOp::None, &[])],
    );
    round(&mut archive, &journal);
    assert!(!names(&disk, "segment-").contains(&"segment-0000000000000001".to_owned()));
}

/// A directory of the operating system that is gone afterwards.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("thalweg-archive-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    fn disk(&self, name: &str) -> OsDisk {
        OsDisk::at(self.0.join(name)).expect("a directory")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_backup_of_a_running_journal_is_as_it_was_then_whatever_happens_to_the_original() {
    let folder = Folder::new("running");
    let (source, target, restored) = (
        folder.disk("source"),
        folder.disk("backup"),
        folder.disk("restored"),
    );
    let mut broker = Broker::new(20);
    let Loaded {
        mut journal,
        mut archive,
        ..
    } = load(source, OPTIONS).expect("a new journal");
    for at in 0..150 {
        broker.write(&mut journal);
        if at % 10 == 5 {
            journal.commit().expect("a disk");
            round(&mut archive, &journal);
        }
    }
    journal.commit().expect("a disk");
    let inventory = journal.inventory();
    let made = backup(&mut archive, &inventory, inventory.durable(), &target).expect("a backup");
    assert_eq!(made.index, broker.frames());
    assert!(made.files_linked > 2 && made.files_copied == 1, "{made:?}");
    let then = broker.frames();
    // The original uses its segments again.
    for at in 0..300 {
        broker.write(&mut journal);
        if at % 10 == 5 {
            journal.commit().expect("a disk");
            round(&mut archive, &journal);
        }
    }
    let done = restore(&target, &restored, OPTIONS, true).expect("it can be restored");
    let verified = done.verified.expect("it was asked for");
    assert_eq!(
        (verified.index, verified.unreadable, verified.faults),
        (then, 0, vec![])
    );
    assert_eq!(verified.counts, made.counts);
    assert!(verified.messages > 10);
    let loaded = load(restored, OPTIONS).expect("it opens");
    assert!(written(&loaded.state) == broker.states[then as usize]);
}

#[test]
fn a_stopped_journal_is_backed_up_and_a_restored_one_goes_on() {
    let disk = SimDisk::new(12);
    let broker = worked(&disk, 12);
    let (target, restored) = (SimDisk::new(13), SimDisk::new(14));
    let made = backup_stopped(disk.clone(), &target, OPTIONS).expect("a backup");
    assert_eq!(made.index, broker.frames());
    assert_eq!(names(&target, "checkpoint-").len(), 1);
    let done = restore(&target, &restored, OPTIONS, false).expect("it can be restored");
    assert_eq!(
        (done.files, done.verified),
        (made.files_linked + made.files_copied, None)
    );
    let mut broker = broker;
    let Loaded {
        mut journal,
        mut archive,
        state,
        ..
    } = opened(&restored, OPTIONS);
    assert!(written(&state) == *broker.states.last().expect("frames"));
    for _ in 0..40 {
        broker.write(&mut journal);
        journal.commit().expect("no faults");
        round(&mut archive, &journal);
    }
    drop((journal, archive));
    let loaded = opened(&restored, OPTIONS);
    assert!(written(&loaded.state) == *broker.states.last().expect("frames"));
    read_all(&loaded.journal.inventory(), &loaded.state, "after going on");
}

#[test]
fn a_backup_may_end_in_a_segment_that_is_no_longer_written() {
    let (disk, target, restored) = (SimDisk::new(25), SimDisk::new(26), SimDisk::new(27));
    let mut broker = Broker::new(25);
    let Loaded {
        mut journal,
        mut archive,
        ..
    } = load(disk, OPTIONS).expect("a new journal");
    for _ in 0..60 {
        broker.write(&mut journal);
    }
    journal.commit().expect("no faults");
    let inventory = journal.inventory();
    assert!(inventory.sealed().len() > 3);
    let made = backup(&mut archive, &inventory, 7, &target).expect("a backup");
    assert_eq!((made.index, made.files_copied), (7, 0));
    let verified = restore(&target, &restored, OPTIONS, true)
        .expect("restored")
        .verified
        .expect("asked for");
    // The rest of that segment is durable, too, and comes along.
    assert!(
        verified.index >= 7 && verified.unreadable == 0,
        "{verified:?}"
    );
    assert!(written(&opened(&restored, OPTIONS).state) == broker.states[verified.index as usize]);
}

#[test]
fn an_empty_journal_can_be_backed_up_too() {
    let (disk, target, restored) = (SimDisk::new(15), SimDisk::new(16), SimDisk::new(17));
    backup_stopped(disk, &target, OPTIONS).expect("a backup");
    let verified = restore(&target, &restored, OPTIONS, true)
        .expect("restored")
        .verified
        .expect("asked for");
    assert_eq!((verified.index, verified.messages), (0, 0));
}

#[test]
fn nothing_is_restored_or_backed_up_over_other_files() {
    let disk = SimDisk::new(18);
    worked(&disk, 18);
    let occupied = SimDisk::new(19);
    occupied.put("precious", b"data");
    assert!(
        backup_stopped(disk.clone(), &occupied, OPTIONS)
            .expect_err("it is not empty")
            .words
            .contains("not empty")
    );
    assert!(matches!(
        restore(&disk, &occupied, OPTIONS, true),
        Err(OpenError::Options(_))
    ));
    assert!(matches!(
        restore(&occupied, &SimDisk::new(20), OPTIONS, true),
        Err(OpenError::Options(_))
    ));
}

#[test]
fn verification_finds_a_message_that_cannot_be_read() {
    let disk = SimDisk::new(21);
    worked(&disk, 21);
    let loaded = opened(&disk, OPTIONS);
    let (place, len) = loaded
        .state
        .last_values
        .values()
        .copied()
        .min()
        .expect("values");
    let total = loaded
        .state
        .live()
        .map(|(place, _)| place)
        .collect::<std::collections::HashSet<_>>()
        .len() as u64;
    drop(loaded);
    let mut damaged = 0;
    for (name, bytes) in disk.contents() {
        // The record may be in a pack or in a segment still: wherever its bytes are.
        if !(name.starts_with("pack-") || name.starts_with("segment-")) {
            continue;
        }
        let segment = format!("segment-{:016x}", Place(place).number());
        let offset = if name == segment {
            Some(Place(place).0 as usize % (1 << 26))
        } else {
            None
        };
        let line = |line: &[u8]| {
            let number = |from: usize, len: usize| {
                line[from..from + len]
                    .iter()
                    .rev()
                    .fold(0u64, |number, byte| number << 8 | u64::from(*byte))
            };
            (number(0, 8) == place).then(|| number(8, 4) as usize)
        };
        let offset = offset.or_else(|| {
            let records = u64::from_le_bytes(bytes[40..48].try_into().ok()?) as usize;
            name.starts_with("pack-").then(|| {
                bytes[4096..4096 + 16 * records]
                    .chunks_exact(16)
                    .find_map(line)
            })?
        });
        if let Some(offset) = offset {
            disk.flip(&name, offset + len as usize - 1, 1);
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    let verified = verify(disk, OPTIONS).expect("it opens");
    assert_eq!((verified.unreadable, verified.messages), (1, total - 1));
    assert!(
        verified.faults[0].contains("checksum"),
        "{:?}",
        verified.faults
    );
}

#[test]
fn the_thread_makes_checkpoints_by_time_by_size_and_when_asked() {
    let disk = SimDisk::new(22);
    let Loaded {
        mut journal,
        archive,
        ..
    } = load(disk.clone(), OPTIONS).expect("a new journal");
    let inventory = journal.inventory();
    let (rounds, heard) = channel();
    let durable = {
        let inventory = journal.inventory();
        move || inventory.durable()
    };
    let settings = CheckpointSettings {
        every_bytes: 64 << 10,
        every: Duration::from_secs(3600),
        look: Duration::from_millis(1),
        packing: PACKING,
        ..CheckpointSettings::default()
    };
    let on_round = move |round: &Result<thalweg_store::Round, thalweg_store::CheckpointError>| {
        let _ = rounds.send(
            round
                .as_ref()
                .map(|round| round.index)
                .map_err(ToString::to_string),
        );
    };
    let checkpointer =
        Checkpointer::start(archive, inventory, settings, durable, on_round).expect("a thread");
    let mut broker = Broker::new(22);
    for _ in 0..5 {
        broker.write(&mut journal);
    }
    assert_eq!(
        checkpointer.checkpoint_now().expect("no faults").index,
        0,
        "what is not durable is not in it"
    );
    journal.commit().expect("no faults");
    assert_eq!(checkpointer.checkpoint_now().expect("no faults").index, 5);
    while heard.try_recv().is_err() {
        broker.write(&mut journal);
        journal.commit().expect("no faults");
        assert!(
            broker.frames() < 10_000,
            "64 KiB of segments bring none about"
        );
    }
    let target = SimDisk::new(23);
    let handle = checkpointer.handle().expect("it runs");
    assert_eq!(
        handle.backup(target).expect("a backup").index,
        broker.frames()
    );
    checkpointer.stop();
    assert!(
        handle
            .checkpoint_now()
            .expect_err("it was stopped")
            .words
            .contains("stopped")
    );
    drop(journal);
    assert!(written(&opened(&disk, OPTIONS).state) == *broker.states.last().expect("frames"));
}

#[test]
fn the_thread_makes_a_checkpoint_when_it_is_time_and_there_is_anything_new() {
    let disk = SimDisk::new(24);
    let Loaded {
        mut journal,
        archive,
        ..
    } = load(disk, OPTIONS).expect("a new journal");
    let (rounds, heard) = channel();
    let inventory = journal.inventory();
    let durable = {
        let inventory = journal.inventory();
        move || inventory.durable()
    };
    let settings = CheckpointSettings {
        every: Duration::from_millis(5),
        look: Duration::from_millis(1),
        ..CheckpointSettings::default()
    };
    let on_round = move |round: &Result<thalweg_store::Round, thalweg_store::CheckpointError>| {
        let _ = rounds.send(
            round
                .as_ref()
                .map(|round| round.index)
                .map_err(ToString::to_string),
        );
    };
    let _checkpointer =
        Checkpointer::start(archive, inventory, settings, durable, on_round).expect("a thread");
    assert!(
        heard.recv_timeout(Duration::from_millis(60)).is_err(),
        "nothing is new"
    );
    Broker::new(24).write(&mut journal);
    journal.commit().expect("no faults");
    assert_eq!(heard.recv_timeout(Duration::from_secs(20)), Ok(Ok(1)));
    assert!(
        heard.recv_timeout(Duration::from_millis(60)).is_err(),
        "nothing is new"
    );
}
