//! A broker whose disk fails, fills up or was tampered with: each has its defined end, and a sentence that names it.

use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::disk::Disk;
use super::hand::{Answer, Hand, PATIENCE};
use super::ledger;
use super::oracle;
use super::process::{Home, Process};

const TOPIC: &str = "faults/a";
const NO_SYNC_OF: &str = "fdatasync,fsync";

// --- the disk does not sync

#[test]
fn one_failed_sync_loses_nothing() {
    let Some(home) = home("sync-once") else {
        return;
    };
    let Some(failing) = failing(&home, NO_SYNC_OF, "EIO", "25") else {
        return;
    };
    let mut process = failing.start().expect("its first syncs work");
    Hand::lasting(home.mqtt, "sleeper").subscribe(TOPIC).leave();
    let mut publisher = Hand::passing(home.mqtt, "publisher");
    let (sent, _) = publisher.publish_numbers(TOPIC, 100, |number, _| number >= 120);
    assert_eq!(
        sent.len(),
        121,
        "one failed sync is survived:\n{}",
        process.log()
    );
    assert!(process.ended().is_none());
    let log = process.kill();
    assert!(
        log.contains("os error 5"),
        "the failed sync is told:\n{log}"
    );
    assert_eq!(what_waits(&home), sent);
}

#[test]
fn syncs_that_keep_failing_end_the_broker_before_it_acknowledges() {
    let Some(home) = home("sync-always") else {
        return;
    };
    let Some(failing) = failing(&home, NO_SYNC_OF, "EIO", "25+") else {
        return;
    };
    let mut process = failing.start().expect("its first syncs work");
    Hand::lasting(home.mqtt, "sleeper").subscribe(TOPIC).leave();
    let mut publisher = Hand::passing(home.mqtt, "publisher");
    let (sent, last) = publisher.publish_numbers(TOPIC, 100, |number, _| number >= 500);
    assert!(
        !matches!(last, Answer::Puback(0 | 0x10)),
        "acknowledged without a sync:\n{}",
        process.log()
    );
    let status = process.wait_for_end(PATIENCE);
    let log = process.log();
    let status = status.unwrap_or_else(|| panic!("it goes on:\n{log}"));
    assert!(
        status.code().is_some_and(|code| code != 0),
        "it ended with {status}:\n{log}"
    );
    assert!(
        log.contains("os error 5") && !log.contains("panicked"),
        "it says why it ends:\n{log}"
    );
    let waits = what_waits(&home);
    assert!(
        sent.is_subset(&waits),
        "acknowledged and lost: {:?}",
        sent.difference(&waits)
    );
}

#[test]
fn a_broker_whose_journal_fails_before_it_is_ready_never_says_that_it_is() {
    // From which sync on they fail: the start takes a few.
    for from in 1..=8 {
        let Some(home) = home(&format!("sync-never-{from}")) else {
            return;
        };
        let Some(failing) = failing(&home, NO_SYNC_OF, "EIO", &format!("{from}+")) else {
            return;
        };
        match failing.start() {
            Err(why) => assert!(!why.contains(" INFO ready: "), "{why}"),
            Ok(process) => {
                let log = process.kill();
                let before = log.split(" INFO ready: ").next().unwrap_or_default();
                assert!(!before.contains("the journal has failed"), "{log}");
            }
        }
    }
}

// --- the disk is full

#[test]
fn a_full_disk_refuses_publishes_and_goes_on_delivering() {
    let Some(home) = home("full") else { return };
    let disk = match Disk::memory(&home, 96) {
        Ok(disk) => disk,
        Err(why) => return println!("SKIPPED a_full_disk…: nothing can be mounted here: {why}"),
    };
    let home = home
        .on(disk.path().join("data"))
        .set("queue.bytes_max=1GiB")
        .set("queue.messages_max=1000000");
    let home = super::SMALL_SEGMENTS
        .iter()
        .fold(home, |home, set| home.set(set));
    let mut process = home.start().expect("there is room at first");
    Hand::lasting(home.mqtt, "sleeper").subscribe(TOPIC).leave();
    let mut publisher = Hand::passing(home.mqtt, "publisher");
    let refused = |_, answer| matches!(answer, Answer::Puback(code) if code >= 0x80);
    let (sent, last) = publisher.publish_numbers(TOPIC, 64 * 1024, |number, answer| {
        number > 4000 || refused(number, answer)
    });
    assert_eq!(
        last,
        Answer::Puback(0x97),
        "quota exceeded, after {} messages:\n{}",
        sent.len(),
        process.log()
    );
    assert!(
        sent.len() > 100,
        "a disk of 96 MiB holds more than {} messages of 64 KiB",
        sent.len()
    );
    // Every further one, too; nothing else suffers.
    assert_eq!(
        publisher.publish(TOPIC, &[b'x'; 64 * 1024], PATIENCE),
        Answer::Puback(0x97)
    );
    assert!(process.ended().is_none(), "{}", process.log());
    let mut sleeper = Hand::lasting(home.mqtt, "sleeper");
    assert!(sleeper.session_present);
    assert_eq!(
        sleeper.take(sent.len()),
        sent,
        "what was acknowledged is delivered"
    );
    sleeper.leave();
    // With the queue drained there is room again, without a restart.
    let deadline = Instant::now() + PATIENCE;
    let mut answer = Answer::Silence;
    while Instant::now() < deadline && !matches!(answer, Answer::Puback(0)) {
        answer = publisher.publish(TOPIC, b"7777|", PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(
        answer,
        Answer::Puback(0),
        "it does not recover:\n{}",
        process.log()
    );
    assert!(process.ended().is_none(), "{}", process.log());
    let books = ledger::get(home.admin, "/v1/ledger").expect("a broker at rest answers");
    assert_eq!(ledger::faults(&books), Vec::<String>::new());
    process.kill();
    assert_eq!(what_waits(&home), BTreeSet::from([7777]));
    drop(disk);
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_by_name() {
    let Some(home) = home("read-only") else {
        return;
    };
    let disk = match Disk::memory(&home, 8) {
        Ok(disk) => disk,
        Err(why) => {
            return println!(
                "SKIPPED a_directory_that_cannot…: nothing can be mounted here: {why}"
            );
        }
    };
    disk.read_only().expect("what was mounted can be remounted");
    let home = home.on(disk.path().join("data"));
    refused(&home, &[&disk.path().display().to_string()]);
}

// --- another process holds the folder

#[test]
fn a_second_broker_on_the_same_directory_is_refused_with_the_pid_of_the_first() {
    let Some(home) = home("second") else { return };
    let first = home.start().expect("the first one starts");
    let second = Home::new("second-other").on(home.data.clone());
    refused(&second, &[&first.pid().to_string()]);
    assert!(first.stop().is_some_and(|status| status.success()));
}

#[test]
fn a_foreign_file_in_the_journal_is_refused_by_name_and_left_alone() {
    let Some(home) = home("foreign") else { return };
    let (_, segment) = killed_with(&home, 20);
    let foreign = segment.with_file_name("segment-00000000000000ff");
    std::fs::write(&foreign, "Dear diary,").expect("the folder is writable");
    refused(&home, &["segment-00000000000000ff", "it does not begin as"]);
    assert_eq!(
        std::fs::read_to_string(&foreign).expect("it is still there"),
        "Dear diary,"
    );
}

#[test]
fn a_file_of_a_newer_version_is_refused_by_name() {
    let Some(home) = home("newer") else { return };
    let (sent, segment) = killed_with(&home, 20);
    let before = std::fs::read(&segment).expect("the segment can be read");
    let mut bytes = before.clone();
    bytes[8..12].copy_from_slice(&99_u32.to_le_bytes());
    let sum = crc32c(&bytes[..4092]);
    bytes[4092..4096].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&segment, &bytes).expect("the folder is writable");
    let name = segment
        .file_name()
        .expect("it has one")
        .to_string_lossy()
        .into_owned();
    refused(&home, &[&name, "format 99"]);
    assert!(
        std::fs::read(&segment).expect("it is still there") == bytes,
        "it was touched"
    );
    std::fs::write(&segment, before).expect("the folder is writable");
    assert_eq!(what_waits(&home), sent);
}

// --- bytes are wrong

#[test]
fn a_torn_end_is_dropped_and_said_so() {
    let Some(home) = home("torn") else { return };
    let (sent, segment) = killed_with(&home, 50);
    let frames = frames(&segment);
    let mut file = open(&segment);
    // The beginning of a frame that was being written when the power went: its place holds an older one's bytes.
    let mut piece = vec![0; 100];
    file.seek(SeekFrom::Start(frames[3]))
        .and_then(|_| file.read_exact(&mut piece))
        .expect("a frame is there");
    let end = end_of(&segment);
    file.seek(SeekFrom::Start(end))
        .and_then(|_| file.write_all(&piece))
        .expect("the segment is writable");
    assert_eq!(what_waits(&home), sent);
}

#[test]
fn an_end_that_never_reached_the_disk_is_dropped_and_said_so() {
    let Some(home) = home("end") else { return };
    let (sent, segment) = killed_with(&home, 50);
    let frames = frames(&segment);
    // From the first bytes of the payload of the last frame but nine on, there is what was there before: zeroes.
    let from = frames[frames.len() - 10] + 52;
    let zeroes = vec![0; (end_of(&segment) - from) as usize];
    let mut file = open(&segment);
    file.seek(SeekFrom::Start(from))
        .and_then(|_| file.write_all(&zeroes))
        .expect("the segment is writable");
    let mut process = home.start().expect("a torn end is no reason not to start");
    assert!(
        process.log().contains("dropped"),
        "what was dropped is told:\n{}",
        process.log()
    );
    let waits = Hand::lasting(home.mqtt, "sleeper").take_numbers(TOPIC);
    assert!(process.ended().is_none());
    let most = waits.iter().copied().max().unwrap_or(0);
    assert!(
        waits.len() >= 30 && waits.is_subset(&sent) && waits.len() as u32 == most + 1,
        "a prefix, not {waits:?}"
    );
}

#[test]
fn a_file_cut_short_stops_the_start_until_repair() {
    let Some(home) = home("short") else { return };
    let (sent, segment) = killed_with(&home, 50);
    let frames = frames(&segment);
    // A torn write changes what is in a file and never how long it is: this is no crash's doing.
    open(&segment)
        .set_len(frames[frames.len() - 10] + 20)
        .expect("the segment is writable");
    let name = segment
        .file_name()
        .expect("it has one")
        .to_string_lossy()
        .into_owned();
    refused(&home, &[&name, "--repair"]);
    let process = home
        .clone()
        .flag("--repair")
        .start()
        .expect("with --repair it starts");
    assert!(
        process.log().contains(&name),
        "the loss is listed:\n{}",
        process.log()
    );
    let waits = Hand::lasting(home.mqtt, "sleeper").take_numbers(TOPIC);
    assert!(waits.len() >= 30 && waits.is_subset(&sent), "{waits:?}");
}

#[test]
fn a_flipped_bit_in_the_middle_stops_the_start_until_repair_lists_the_loss() {
    let Some(home) = home("flipped") else { return };
    let (sent, segment) = killed_with(&home, 200);
    let frames = frames(&segment);
    let at = frames[frames.len() / 2] + 60;
    let mut file = open(&segment);
    let mut byte = [0];
    file.seek(SeekFrom::Start(at))
        .and_then(|_| file.read_exact(&mut byte))
        .expect("a frame is there");
    byte[0] ^= 0x10;
    file.seek(SeekFrom::Start(at))
        .and_then(|_| file.write_all(&byte))
        .expect("the segment is writable");
    let name = segment
        .file_name()
        .expect("it has one")
        .to_string_lossy()
        .into_owned();
    refused(&home, &[&name, "--repair"]);
    refused(&home, &[&name, "--repair"]);
    let repairing = home.clone().flag("--repair");
    let mut process = repairing.start().expect("with --repair it starts");
    let log = process.log();
    assert!(
        log.contains(&name) && log.contains("frame"),
        "the loss is listed:\n{log}"
    );
    let waits = Hand::lasting(home.mqtt, "sleeper").take_numbers(TOPIC);
    assert!(process.ended().is_none());
    let lost: Vec<_> = sent.difference(&waits).collect();
    assert!(
        !lost.is_empty() && lost.len() <= 3,
        "one frame held one message; lost are {lost:?}"
    );
    assert!(process.stop().is_some_and(|status| status.success()));
    // It is mended for good.
    assert!(what_waits(&home).is_empty());
}

// --- what the tests above are made of

fn home(name: &str) -> Option<Home> {
    (!oracle()).then(|| Home::new(&format!("fault-{name}")))
}

/// The same broker, one of whose system calls fails.
fn failing(home: &Home, calls: &str, error: &str, when: &str) -> Option<Home> {
    let works = Command::new("strace")
        .args(["-D", "-qq", "-o", "/dev/null", "true"])
        .status();
    if !works.is_ok_and(|status| status.success()) {
        println!("SKIPPED: strace does not work here");
        return None;
    }
    let (trace, inject) = (
        format!("trace={calls}"),
        format!("inject={calls}:error={error}:when={when}"),
    );
    let strace = [
        "strace",
        "-D",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        &trace,
        "-e",
        &inject,
    ];
    Some(home.clone().wrapped(&strace))
}

/// A broker that took so many messages for an offline session, one at a time, and was killed when they were marked as durable; what it
/// acknowledged, and the segment that holds them.
fn killed_with(home: &Home, count: u32) -> (BTreeSet<u32>, PathBuf) {
    let process = home.start().expect("a fresh broker starts");
    Hand::lasting(home.mqtt, "sleeper").subscribe(TOPIC).leave();
    let mut publisher = Hand::passing(home.mqtt, "publisher");
    let (sent, _) = publisher.publish_numbers(TOPIC, 100, |number, _| number + 1 == count);
    assert_eq!(sent.len() as u32, count, "{}", process.log());
    // After a quiet moment the broker writes down that all of this is durable.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut segments = Vec::new();
        find_segments(&home.data, &mut segments);
        let holding = segments
            .into_iter()
            .max_by_key(|segment| frames(segment).len())
            .expect("there is a segment");
        if ends_with_a_mark(&holding) {
            process.kill();
            return (sent, holding);
        }
        assert!(Instant::now() < deadline, "no mark: {}", process.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts the broker as it is; what waits for the session.
fn what_waits(home: &Home) -> BTreeSet<u32> {
    let process: Process = home.start().unwrap_or_else(|why| panic!("{why}"));
    let mut sleeper = Hand::lasting(home.mqtt, "sleeper");
    assert!(
        sleeper.session_present,
        "the session is lost:\n{}",
        process.log()
    );
    let waits = sleeper.take_numbers(TOPIC);
    sleeper.leave();
    assert!(process.stop().is_some_and(|status| status.success()));
    waits
}

/// A start that ends at once, non-zero, and says all of `words`.
fn refused(home: &Home, words: &[&str]) {
    let mut process = home.spawn();
    let status = process.wait_for_end(Duration::from_secs(20));
    let log = process.log();
    let status = status.unwrap_or_else(|| panic!("it starts all the same:\n{log}"));
    assert!(
        status.code().is_some_and(|code| code != 0),
        "{status}:\n{log}"
    );
    for word in words {
        assert!(log.contains(word), "no `{word}` in:\n{log}");
    }
    assert!(!log.contains("panicked"), "{log}");
}

fn find_segments(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            find_segments(&path, found);
        } else if entry.file_name().to_string_lossy().starts_with("segment-") {
            found.push(path);
        }
    }
}

/// Where each frame of a segment begins: after the head, at multiples of eight, with their magic (docs/journal.md).
fn frames(segment: &Path) -> Vec<u64> {
    let bytes = std::fs::read(segment).expect("the segment can be read");
    let words = bytes.chunks_exact(8).enumerate().skip(4096 / 8);
    words
        .filter(|(_, word)| word.starts_with(b"TwFr"))
        .map(|(at, _)| at as u64 * 8)
        .collect()
}

/// Where the last frame of a segment begins, and the length of its payload.
fn last_frame(segment: &Path) -> (u64, u64) {
    let bytes = std::fs::read(segment).expect("the segment can be read");
    let last = *frames(segment).last().expect("it has frames");
    let length = &bytes[last as usize + 8..last as usize + 12];
    let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
    (last, u64::from(length))
}

/// Where the last frame of a segment ends.
fn end_of(segment: &Path) -> u64 {
    let (last, length) = last_frame(segment);
    last + 48 + length.next_multiple_of(8)
}

/// Whether the last frame is empty: such a one says that those before it are durable.
fn ends_with_a_mark(segment: &Path) -> bool {
    last_frame(segment).1 == 0
}

fn open(path: &Path) -> std::fs::File {
    let open = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path);
    open.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// CRC-32C by its definition, so that a file can be made that is whole and yet newer.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32| {
        if sum & 1 == 1 {
            (sum >> 1) ^ 0x82F6_3B78
        } else {
            sum >> 1
        }
    };
    !bytes.iter().fold(!0_u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum))
    })
}

#[test]
fn the_checksum_is_the_one_of_its_definition() {
    assert_eq!(crc32c(b"123456789"), 0xE306_9283);
}
