//! Files as a person reads them.

mod broker;

use broker::{Broker, round};
use thalweg_store::inspect::{Inspected, inspect};
use thalweg_store::sim::SimDisk;
use thalweg_store::{Disk, Loaded, Log, Options, load};

const OPTIONS: Options = Options {
    segment_bytes: 16 << 10,
    spares: 2,
    bytes_max: 0,
    repair: false,
};

fn worked() -> (SimDisk, Broker) {
    let (disk, mut broker) = (SimDisk::new(1), Broker::new(1));
    let Loaded {
        mut journal,
        mut archive,
        ..
    } = load(disk.clone(), OPTIONS).expect("a new journal");
    for _ in 0..20 {
        for _ in 0..8 {
            broker.write(&mut journal);
        }
        journal.commit().expect("no faults");
        round(&mut archive, &journal);
    }
    (disk, broker)
}

fn newest(disk: &SimDisk, kind: &str) -> String {
    let names = disk
        .contents()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with(kind));
    names.max().expect("there is one")
}

fn text(disk: &SimDisk, name: &str, records: bool) -> (String, Inspected) {
    let mut out = Vec::new();
    let found = inspect(&disk.open(name).expect("it is there"), records, &mut out).expect("memory");
    (String::from_utf8(out).expect("text"), found)
}

#[test]
fn a_segment_shows_its_head_its_frames_and_its_records() {
    let (disk, broker) = worked();
    let name = newest(&disk, "segment-");
    let (short, found) = text(&disk, &name, false);
    assert!(
        short.starts_with(&format!("segment {} of journal ", &name[8..])),
        "{short}"
    );
    assert!(
        short.contains(&format!("\nframe {} at offset ", broker.frames())),
        "{short}"
    );
    assert!(
        short.contains("shard 0, epoch 1")
            && short.contains(" message")
            && short.contains("frames end at offset")
    );
    assert_eq!(
        (
            short
                .lines()
                .filter(|line| line.starts_with("frame "))
                .count() as u64,
            found.damages
        ),
        (found.entries, 0)
    );
    let (long, again) = text(&disk, &name, true);
    assert_eq!(again, found);
    assert_eq!(
        long.lines().count() as u64,
        short.lines().count() as u64 + found.records
    );
    assert!(
        long.contains("message \"some/address\" AtLeastOnce from 9 at 2026-11-18T"),
        "{long}"
    );
}

#[test]
fn a_checkpoint_and_a_pack_show_what_they_hold() {
    let (disk, broker) = worked();
    let (checkpoint, found) = text(&disk, &newest(&disk, "checkpoint-"), true);
    assert!(
        checkpoint.starts_with(&format!(
            "checkpoint as of frame {} of journal",
            broker.frames()
        )),
        "{checkpoint}"
    );
    assert!(
        checkpoint.contains("  session 1: client \"client\", expiry ")
            && checkpoint.contains("  last-value \"value/")
    );
    assert_eq!(found.damages, 0);
    let (pack, found) = text(&disk, &newest(&disk, "pack-"), true);
    assert!(
        pack.starts_with("pack ") && pack.contains("last value: Set"),
        "{pack}"
    );
    assert_eq!((found.entries, found.damages), (found.records, 0));
}

#[test]
fn damage_is_shown_with_its_offset_and_what_is_behind_it_too() {
    let (disk, _) = worked();
    let name = newest(&disk, "segment-");
    let (whole, before) = text(&disk, &name, false);
    let second = whole
        .lines()
        .filter(|line| line.starts_with("frame "))
        .nth(1)
        .expect("several frames");
    let offset: usize = second
        .split("offset ")
        .nth(1)
        .and_then(|rest| rest.split(':').next())
        .expect("an offset")
        .parse()
        .expect("a number");
    disk.flip(&name, offset + 60, 1);
    let (damaged, found) = text(&disk, &name, false);
    assert!(
        damaged.contains(&format!("DAMAGE at offset {offset}: ")),
        "{damaged}"
    );
    assert!(
        damaged.contains("does not match its checksum") && damaged.contains("DAMAGED in 1 places"),
        "{damaged}"
    );
    assert_eq!((found.entries, found.damages), (before.entries - 1, 1));
}

#[test]
fn a_flipped_bit_in_a_checkpoint_or_a_pack_is_shown() {
    let (disk, _) = worked();
    for kind in ["checkpoint-", "pack-"] {
        let name = newest(&disk, kind);
        let length = disk
            .contents()
            .into_iter()
            .find(|(known, _)| *known == name)
            .map_or(0, |(_, bytes)| bytes.len());
        for offset in (8..length).step_by(53) {
            disk.flip(&name, offset, 0x20);
            let (words, found) = text(&disk, &name, true);
            // Padding behind a record is not looked at.
            assert!(
                found.damages > 0 && words.contains("DAMAGE"),
                "{name} at {offset}: {words}"
            );
            disk.flip(&name, offset, 0x20);
        }
    }
}

#[test]
fn other_files_are_called_what_they_are() {
    let (disk, _) = worked();
    disk.put("letter", b"Dear Sir or Madam");
    disk.put("nothing", b"");
    assert!(
        text(&disk, "letter", true)
            .0
            .contains("does not begin as a segment")
    );
    assert!(text(&disk, "nothing", true).0.contains("kept ready"));
    disk.put("cut", b"THALWSEG");
    assert!(text(&disk, "cut", true).0.contains("DAMAGE at offset 0"));
}
