//! Disks that fail, are full, or hold what is not ours.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::{Duration, Instant};

use thalweg_journal::head::Head;
use thalweg_journal::segment::{self, SegmentHead};
use thalweg_journal::sim::{Faults, SimDisk};
use thalweg_journal::{
    Batch, Disk, Journal, Log, LogError, OpenError, Options, OsDisk, Place, SpareKeeper,
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

fn open(disk: &SimDisk) -> Journal<SimDisk> {
    Journal::open(disk.clone(), OPTIONS, None, &mut |_| {})
        .unwrap_or_else(|error| panic!("{error}"))
        .0
}

fn frames(disk: &SimDisk, what: &str) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let opened = Journal::open(disk.clone(), OPTIONS, None, &mut |view| {
        frames.push(view.payload.to_vec())
    });
    opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    frames
}

fn refusal(disk: &SimDisk, options: Options) -> String {
    let before = disk.contents();
    let error = Journal::open(disk.clone(), options, None, &mut |_| {})
        .err()
        .expect("it is refused");
    assert_eq!(disk.contents(), before, "a refusal changes nothing");
    error.to_string()
}

/// Writes and commits until told to stop, counting what was confirmed; the places of all that was given.
fn write(
    journal: &mut Journal<SimDisk>,
    groups: usize,
) -> (Vec<Vec<u8>>, Vec<Place>, usize, Option<LogError>) {
    let (mut given, mut places, mut confirmed) = (Vec::new(), Vec::new(), 0);
    for group in 0..groups {
        let payloads: Vec<Vec<u8>> = (0..3)
            .map(|at| vec![(group * 3 + at) as u8; 100 + group * 60 + at])
            .collect();
        let batches: Vec<Batch<'_>> = payloads
            .iter()
            .map(|payload| Batch { shard: 1, payload })
            .collect();
        given.extend(payloads.iter().cloned());
        match journal.append(&batches) {
            Ok(written) => places.extend(written),
            Err(error) => return (given, places, confirmed, Some(error)),
        }
        // Two groups are under way at once, now and then.
        if group % 3 == 1 {
            continue;
        }
        match journal.commit() {
            Ok(index) => {
                assert_eq!(index as usize, given.len());
                confirmed = given.len();
            }
            Err(error) => return (given, places, confirmed, Some(error)),
        }
    }
    (given, places, confirmed, None)
}

/// Whatever is left of the disk has at least what was confirmed, and nothing that was not given, in order.
fn holds(disk: &SimDisk, given: &[Vec<u8>], confirmed: usize, what: &str) {
    for (at, crashed) in disk.moment().crashes(12, 5).iter().enumerate() {
        let shown = frames(crashed, &format!("{what}, crash {at}"));
        assert!(
            shown.len() >= confirmed,
            "{what}, crash {at}: {confirmed} confirmed, {} there",
            shown.len()
        );
        assert_eq!(shown, given[..shown.len()], "{what}, crash {at}");
    }
}

#[test]
fn one_failed_sync_anywhere_is_survived_and_nothing_is_lost() {
    for turn in 0..40 {
        for is_dir in [false, true] {
            let disk = SimDisk::new(turn);
            let mut journal = open(&disk);
            let (syncs, dir_syncs) = if is_dir {
                (vec![], vec![turn])
            } else {
                (vec![turn], vec![])
            };
            disk.plan(Faults {
                syncs,
                dir_syncs,
                ..Faults::default()
            });
            let (given, places, confirmed, error) = write(&mut journal, 24);
            let what = format!(
                "sync {turn} of {} fails",
                if is_dir { "the directory" } else { "a file" }
            );
            assert!(
                error.is_none(),
                "{what}: {}",
                error.map(|error| error.to_string()).unwrap_or_default()
            );
            holds(&disk, &given, confirmed, &what);
            // Places told before the failure lead to what was moved after it, now and after a restart.
            let mut read = Vec::new();
            let died = disk.after_kill(1);
            drop(journal);
            disk.plan(Faults::default());
            for disk in [&disk, &died] {
                let inventory = open(disk).inventory();
                for (place, payload) in places.iter().zip(&given) {
                    inventory
                        .read(*place, payload.len() as u32, &mut read)
                        .unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(read, *payload, "{what}");
                }
            }
        }
    }
}

#[test]
fn places_lead_to_moved_frames_at_once() {
    let disk = SimDisk::new(1);
    let mut journal = open(&disk);
    let place = journal
        .append(&[Batch {
            shard: 0,
            payload: b"moved",
        }])
        .unwrap()[0];
    disk.plan(Faults {
        syncs: vec![0],
        ..Faults::default()
    });
    assert_eq!(journal.commit().unwrap(), 1);
    let mut read = Vec::new();
    journal.inventory().read(place, 5, &mut read).unwrap();
    assert_eq!(read, b"moved");
    let mut seen = Vec::new();
    let inventory = journal.inventory();
    inventory
        .read_frames(inventory.oldest(), 1, &mut |view| seen.push(view.place))
        .unwrap();
    assert_eq!(seen.len(), 1);
    assert_ne!(seen, [place], "the frame itself is elsewhere now");
}

#[test]
fn a_failed_sync_whose_rewriting_fails_too_is_final() {
    let mut failures = 0;
    for turn in 0..30 {
        let disk = SimDisk::new(turn);
        let mut journal = open(&disk);
        // The sync, the head of the next segment and of the one tried after it, or the rewritten frames.
        disk.plan(Faults {
            syncs: (turn..turn + 4).collect(),
            ..Faults::default()
        });
        let (given, _, confirmed, error) = write(&mut journal, 24);
        let what = format!("syncs from {turn} on fail");
        if let Some(error) = error {
            failures += 1;
            assert!(matches!(error, LogError::Failed(_)), "{what}: {error}");
            assert!(
                error.to_string().contains("segment-") || error.to_string().contains("segment in"),
                "{error}"
            );
            // And it stays so, even though the disk works again.
            disk.plan(Faults::default());
            assert!(
                matches!(
                    journal.append(&[Batch {
                        shard: 0,
                        payload: b"x"
                    }]),
                    Err(LogError::Failed(_))
                ),
                "{what}"
            );
            assert!(
                matches!(journal.commit(), Err(LogError::Failed(_))),
                "{what}"
            );
            assert!(matches!(journal.mark(), Err(LogError::Failed(_))), "{what}");
        }
        holds(&disk, &given, confirmed, &what);
    }
    assert!(failures > 20, "{failures}");
}

#[test]
fn a_failed_or_short_write_is_survived() {
    for turn in 0..30 {
        for is_short in [false, true] {
            let disk = SimDisk::new(turn);
            let mut journal = open(&disk);
            let (writes, short_writes) = if is_short {
                (vec![], vec![turn, turn + 1])
            } else {
                (vec![turn], vec![])
            };
            disk.plan(Faults {
                writes,
                short_writes,
                ..Faults::default()
            });
            let (given, _, confirmed, error) = write(&mut journal, 20);
            assert!(error.is_none(), "{error:?}");
            holds(
                &disk,
                &given,
                confirmed,
                &format!("write {turn}, short: {is_short}"),
            );
            assert_eq!(frames(&disk.after_kill(1), "killed"), given);
        }
    }
}

#[test]
fn a_disk_that_becomes_full_refuses_loses_nothing_and_goes_on_when_there_is_room() {
    // Room that was set aside may still be missing (copy-on-write file systems): at any byte.
    for left in (0..9_000).step_by(211) {
        let disk = SimDisk::new(left);
        let mut journal = open(&disk);
        disk.plan(Faults {
            full_after: Some(left),
            ..Faults::default()
        });
        let mut given: Vec<Vec<u8>> = Vec::new();
        let mut confirmed = 0;
        let mut next = 0u8;
        let mut refused = 0;
        let mut refused_groups: Vec<Vec<Vec<u8>>> = Vec::new();
        while refused == 0 || !next.is_multiple_of(7) {
            let payloads: Vec<Vec<u8>> = (0..3).map(|at| vec![next + at; 150]).collect();
            let batches: Vec<Batch<'_>> = payloads
                .iter()
                .map(|payload| Batch { shard: 0, payload })
                .collect();
            let written = match journal.append(&batches) {
                Ok(places) => places.len(),
                Err(LogError::Full(words)) => {
                    assert!(words.contains("room"), "{words}");
                    refused += 1;
                    0
                }
                Err(error) => panic!("{error}"),
            };
            let mut rest = payloads;
            given.extend(rest.drain(..written));
            next += 3;
            let what = format!("{left} bytes left");
            match journal.commit() {
                Ok(durable) => assert_eq!(durable as usize, given.len(), "{what}"),
                Err(error) => panic!("{what}: {error}"),
            }
            confirmed = confirmed.max(given.len());
            if refused > 0 {
                assert!(journal.fill().full && journal.fill().pressed);
            }
            refused_groups.push(rest);
            for (at, crashed) in disk.moment().crashes(12, 5).iter().enumerate() {
                let shown = frames(crashed, &what);
                assert_eq!(shown[..confirmed], given, "{what}, crash {at}");
                // What was refused may have been written in part; a crash may bring it back, like all that is unconfirmed.
                let back = &shown[confirmed..];
                assert!(
                    back.is_empty() || refused_groups.iter().any(|group| group.starts_with(back)),
                    "{what}, {at}"
                );
            }
        }
        // Somebody made room.
        disk.plan(Faults::default());
        journal
            .append(&[Batch {
                shard: 0,
                payload: b"after",
            }])
            .unwrap();
        journal.commit().unwrap();
        given.push(b"after".to_vec());
        assert!(!journal.fill().full);
        holds(&disk, &given, given.len(), "with room again");
    }
}

#[test]
fn what_was_refused_does_not_come_back_behind_what_was_written_in_its_place() {
    let disk = SimDisk::new(1);
    let mut journal = open(&disk);
    // Room for two of three frames: both get to the disk, and all three are refused.
    disk.plan(Faults {
        full_after: Some(2 * 56),
        ..Faults::default()
    });
    let batches =
        [b"refused1", b"refused2", b"refused3"].map(|payload| Batch { shard: 0, payload });
    assert!(matches!(journal.append(&batches), Err(LogError::Full(_))));
    disk.plan(Faults::default());
    journal
        .append(&[Batch {
            shard: 0,
            payload: b"written1",
        }])
        .unwrap();
    // The second of the refused ones still stands behind it, whole, for its offset and with the next index: only the
    // chain tells that it does not belong there.
    assert_eq!(frames(&disk.after_kill(1), "killed"), [b"written1"]);
}

#[test]
fn the_limit_set_is_kept_pressure_comes_first_and_releasing_ends_it() {
    let options = Options {
        bytes_max: 10 * OPTIONS.segment_bytes,
        ..OPTIONS
    };
    let disk = SimDisk::new(1);
    let (mut journal, _) = Journal::open(disk.clone(), options, None, &mut |_| {}).unwrap();
    let mut was_pressed = false;
    let mut written = 0;
    let error = loop {
        match journal.append(&[Batch {
            shard: 0,
            payload: &[1; 1000],
        }]) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        let fill = journal.fill();
        assert!(!fill.full);
        assert_eq!(fill.pressed, fill.bytes_used * 10 > options.bytes_max * 8);
        was_pressed |= fill.pressed;
        assert!(fill.bytes_used + fill.bytes_spare <= options.bytes_max);
    };
    assert!(was_pressed && error.may_pass(), "{error}");
    assert!(written > 20);
    assert!(
        disk.contents()
            .iter()
            .map(|(_, bytes)| bytes.len() as u64)
            .sum::<u64>()
            <= options.bytes_max
    );
    // Opening a full journal works: that is how it can be emptied.
    drop(journal);
    let (mut journal, recovered) = Journal::open(disk, options, None, &mut |_| {}).unwrap();
    assert_eq!(recovered.frames, written);
    journal.trim_before(recovered.last_index).unwrap();
    assert!(!journal.fill().pressed);
    journal
        .append(&[Batch {
            shard: 0,
            payload: &[1; 1000],
        }])
        .unwrap();
}

#[test]
fn a_full_file_system_is_opened_with_what_little_room_there_is() {
    let disk = SimDisk::new(1);
    let big = Options {
        segment_bytes: 64 << 10,
        spares: 0,
        ..OPTIONS
    };
    let (mut journal, _) = Journal::open(disk.clone(), big, None, &mut |_| {}).unwrap();
    journal
        .append(&[Batch {
            shard: 0,
            payload: b"kept",
        }])
        .unwrap();
    journal.commit().unwrap();
    drop(journal);
    disk.plan(Faults {
        capacity: Some((64 << 10) + (20 << 10)),
        ..Faults::default()
    });
    let (mut journal, recovered) = Journal::open(disk.clone(), big, None, &mut |_| {}).unwrap();
    assert_eq!(recovered.frames, 1);
    journal
        .append(&[Batch {
            shard: 0,
            payload: b"small",
        }])
        .unwrap();
    drop(journal);
    disk.plan(Faults {
        capacity: Some(72 << 10),
        ..Faults::default()
    });
    let words = refusal(&disk, big);
    assert!(
        words.contains("no room") && words.contains("nothing is lost"),
        "{words}"
    );
}

#[test]
fn spares_are_made_used_and_recycled() {
    let disk = SimDisk::new(1);
    let mut journal = open(&disk);
    let inventory = journal.inventory();
    assert!(inventory.make_spare().unwrap() && inventory.make_spare().unwrap());
    assert!(!inventory.make_spare().unwrap(), "two are wanted");
    assert_eq!(journal.fill().bytes_spare, 2 * OPTIONS.segment_bytes);
    for _ in 0..8 {
        journal
            .append(&[Batch {
                shard: 0,
                payload: &[1; 2000],
            }])
            .unwrap();
    }
    assert_eq!(journal.fill().bytes_spare, 0);
    journal.commit().unwrap();
    journal.trim_before(7).unwrap();
    assert_eq!(journal.fill().bytes_spare, 2 * OPTIONS.segment_bytes);
    let frames = frames_from(&disk.after_kill(1), &journal);
    assert!(frames.iter().all(|frame| *frame == [1; 2000]));
}

#[test]
fn a_spare_keeper_makes_up_for_what_is_taken() {
    let disk = SimDisk::new(1);
    let mut journal = open(&disk);
    let keeper = SpareKeeper::start(journal.inventory()).unwrap();
    let two_spares = |journal: &Journal<SimDisk>| {
        let began = Instant::now();
        while journal.fill().bytes_spare < 2 * OPTIONS.segment_bytes {
            assert!(began.elapsed() < Duration::from_secs(20), "no spares came");
            std::thread::yield_now();
        }
    };
    two_spares(&journal);
    for _ in 0..4 {
        journal
            .append(&[Batch {
                shard: 0,
                payload: &[1; 2000],
            }])
            .unwrap();
    }
    two_spares(&journal);
    drop(keeper);
}

fn frames_from(disk: &SimDisk, journal: &Journal<SimDisk>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let from = Some(journal.inventory().oldest());
    Journal::open(disk.clone(), OPTIONS, from, &mut |view| {
        frames.push(view.payload.to_vec())
    })
    .unwrap();
    frames
}

#[test]
fn what_is_not_ours_is_refused_and_never_touched() {
    let ours = SimDisk::new(1);
    drop(open(&ours));
    let (_, bytes) = ours.contents().remove(0);
    let head = SegmentHead::read(&bytes, 1).unwrap();
    let newer = {
        let mut newer = Head::new(segment::MAGIC, segment::VERSION + 1, head.journal);
        newer.put(32, 2u64.to_le_bytes());
        newer.sealed().to_vec()
    };
    let mut other = SegmentHead {
        journal: head.journal ^ 1,
        number: 2,
        ..head
    }
    .sealed()
    .to_vec();
    other.resize(bytes.len(), 0);
    let cases: [(&str, &[u8], &str); 6] = [
        (
            "segment-0000000000000002",
            b"#!/bin/sh\n",
            "does not begin as a file of this name does",
        ),
        (
            "segment-0000000000000002",
            &[0; 8192],
            "does not begin as a file of this name does",
        ),
        (
            "segment-0000000000000002",
            &newer,
            "format 2, and this program reads format 1",
        ),
        ("segment-0000000000000002", &other, "belongs to journal"),
        ("segment-0000000000000002", &bytes, "renamed or copied"),
        ("segment-1.bak", &bytes, "segment-1.bak"),
    ];
    for (name, content, wanted) in cases {
        let mixed = ours.after_kill(1);
        mixed.put(name, content);
        for options in [OPTIONS, REPAIR] {
            let words = refusal(&mixed, options);
            assert!(
                words.contains(name) || words.contains("segment-0000000000000001"),
                "{words}"
            );
            assert!(words.contains(wanted), "{words}");
        }
    }
    // Files whose names are no concern of ours do no harm.
    let mixed = ours.after_kill(1);
    mixed.put("README", b"hello");
    open(&mixed);
    assert!(
        mixed
            .contents()
            .iter()
            .any(|(name, bytes)| name == "README" && bytes == b"hello")
    );
}

#[test]
fn a_segment_put_back_after_a_repair_is_refused_and_not_removed() {
    let disk = SimDisk::new(1);
    let mut journal = open(&disk);
    for _ in 0..6 {
        journal
            .append(&[Batch {
                shard: 0,
                payload: &[1; 2000],
            }])
            .unwrap();
    }
    journal.commit().unwrap();
    let from = Some(journal.tip());
    drop(journal);
    let last = disk
        .contents()
        .into_iter()
        .rfind(|(name, _)| name.starts_with("segment-"))
        .unwrap();
    disk.unlink(&last.0).unwrap();
    Journal::open(disk.clone(), OPTIONS, from, &mut |_| {})
        .err()
        .expect("the checkpoint needs it");
    Journal::open(disk.clone(), REPAIR, from, &mut |_| {}).unwrap();
    Journal::open(disk.clone(), REPAIR, from, &mut |_| {}).unwrap();
    disk.put(&last.0, &last.1);
    let before = disk.contents();
    for options in [OPTIONS, REPAIR] {
        let error = Journal::open(disk.clone(), options, from, &mut |_| {})
            .err()
            .expect("refused")
            .to_string();
        assert!(
            error.contains(&last.0) && error.contains("went on without"),
            "{error}"
        );
    }
    assert_eq!(disk.contents(), before);
}

#[test]
fn a_read_only_directory_is_refused_with_advice() {
    let disk = SimDisk::new(1);
    drop(open(&disk));
    disk.plan(Faults {
        read_only: true,
        ..Faults::default()
    });
    let words = refusal(&disk, OPTIONS);
    assert!(
        words.contains("sim/") && words.contains("able to write"),
        "{words}"
    );
}

#[test]
fn a_second_process_is_refused_and_told_who_has_the_directory() {
    let disk = SimDisk::new(1);
    let journal = open(&disk);
    let words = refusal(&disk, OPTIONS);
    assert!(words.contains("process 4711"), "{words}");
    drop(journal);
    open(&disk);
}

#[test]
fn impossible_settings_are_refused() {
    for options in [
        Options {
            segment_bytes: 4096,
            ..OPTIONS
        },
        Options {
            segment_bytes: 10_000,
            ..OPTIONS
        },
        Options {
            segment_bytes: 128 << 20,
            ..OPTIONS
        },
        Options {
            bytes_max: 10_000,
            ..OPTIONS
        },
    ] {
        let error = Journal::open(SimDisk::new(1), options, None, &mut |_| {})
            .err()
            .expect("it is refused");
        assert!(matches!(error, OpenError::Options(_)), "{error}");
    }
}

#[test]
fn a_file_that_a_backup_shares_is_never_written_again() {
    let path = std::env::temp_dir().join(format!("thalweg-store-shared-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let (disk, backup) = (
        OsDisk::at(path.join("journal")).unwrap(),
        OsDisk::at(path.join("backup")).unwrap(),
    );
    let open = || Journal::open(disk.clone(), OPTIONS, None, &mut |_| {});
    let write = |journal: &mut Journal<OsDisk>| {
        for _ in 0..8 {
            journal
                .append(&[Batch {
                    shard: 0,
                    payload: &[1; 2000],
                }])
                .unwrap();
        }
        journal.commit().unwrap();
    };
    let (mut journal, _) = open().unwrap();
    write(&mut journal);
    let sealed = journal.inventory().sealed();
    for segment in &sealed {
        let name = format!("segment-{:016x}", segment.number);
        disk.hard_link(&name, &backup, &name).unwrap();
    }
    let kept = || {
        let mut kept: Vec<_> = fs::read_dir(backup.path())
            .unwrap()
            .map(|file| fs::read(file.unwrap().path()).unwrap())
            .collect();
        kept.sort();
        kept
    };
    let before = kept();
    assert!(before.len() > 2);
    journal.trim_before(u64::MAX).unwrap();
    write(&mut journal);
    assert!(kept() == before, "released, taken as a spare and written");
    drop(journal);

    // We died after the renaming, before it was seen that the file is shared.
    let name = format!("segment-{:016x}", sealed[0].number);
    backup
        .hard_link(&name, &disk, "spare-00000000000000ff")
        .unwrap();
    let from = Journal::open(disk.clone(), REPAIR, None, &mut |_| {})
        .unwrap()
        .0
        .tip();
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS, Some(from), &mut |_| {}).unwrap();
    write(&mut journal);
    assert!(kept() == before, "found as a spare and written");
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn the_disk_of_the_operating_system_does_the_same() {
    let path = std::env::temp_dir().join(format!("thalweg-store-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let disk = OsDisk::at(&path).unwrap();
    let options = Options {
        segment_bytes: 64 << 10,
        spares: 1,
        ..OPTIONS
    };
    let (mut journal, recovered) = Journal::open(disk.clone(), options, None, &mut |_| {}).unwrap();
    assert!(recovered.is_new);
    let payloads: Vec<Vec<u8>> = (0..200u8)
        .map(|at| vec![at; 1000 + usize::from(at) * 500])
        .collect();
    let batches: Vec<Batch<'_>> = payloads
        .iter()
        .map(|payload| Batch { shard: 9, payload })
        .collect();
    let places = journal.append(&batches).unwrap();
    assert_eq!(journal.commit().unwrap(), 200);
    journal.mark().unwrap();
    let mut read = Vec::new();
    for (place, payload) in places.iter().zip(&payloads) {
        journal
            .inventory()
            .read(*place, payload.len() as u32, &mut read)
            .unwrap();
        assert_eq!(read, *payload);
    }
    let error = Journal::open(disk.clone(), options, None, &mut |_| {})
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains(&format!("process {}", std::process::id())),
        "{error}"
    );
    assert!(error.contains(&path.display().to_string()), "{error}");
    assert!(journal.inventory().make_spare().unwrap());
    drop(journal);

    let mut shown = Vec::new();
    let (mut journal, recovered) = Journal::open(disk, options, None, &mut |view| {
        shown.push(view.payload.to_vec())
    })
    .unwrap();
    assert_eq!(
        (recovered.epoch, recovered.last_index, recovered.is_new),
        (2, 201, false)
    );
    assert_eq!(shown[..200], payloads);
    journal.trim_before(201).unwrap();
    assert!(journal.fill().bytes_limit > journal.fill().bytes_used);
    assert!(fs::read_dir(&path).unwrap().count() <= 6);
    drop(journal);
    fs::remove_dir_all(&path).unwrap();
}
