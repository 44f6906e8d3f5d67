//! Frames as bytes: what makes one valid, and what does not.

use thalweg_journal::frame::{self, FrameDraft, FrameHeader, HEADER_BYTES, Seed};
use thalweg_journal::sim::SimDisk;
use thalweg_journal::{Batch, Disk, DiskFile, Journal, Log, Options, Place};

const SEED_A: (u64, u64) = (0x1111, 7);

fn seed((salt, number): (u64, u64)) -> Seed {
    Seed::new(salt, number)
}

fn draft(index: u64, prev_hash: u64, payload: &[u8]) -> FrameDraft<'_> {
    FrameDraft {
        shard: 5,
        epoch: 2,
        index,
        durable_through: index / 2,
        prev_hash,
        payload,
    }
}

#[test]
fn a_frame_reads_back_as_it_was_written() {
    for length in [0, 1, 7, 8, 9, 255, 70_000] {
        let payload = vec![0xEE; length];
        let mut bytes = Vec::new();
        let hash = frame::encode(&draft(9, 77, &payload), seed(SEED_A), 4096, &mut bytes);
        assert_eq!(bytes.len(), frame::frame_bytes(length));
        assert_eq!(bytes.len() % 8, 0);
        let header = FrameHeader::read(&bytes, seed(SEED_A), 4096).unwrap();
        let read = &bytes[HEADER_BYTES..HEADER_BYTES + length];
        assert!(header.fits(read));
        assert_eq!((header.shard, header.epoch, header.index), (5, 2, 9));
        assert_eq!((header.durable_through, header.prev_hash), (4, 77));
        assert_eq!(header.chain(read), hash);
    }
}

/// The layout of the crate's head, byte for byte: what is on disks already must stay readable.
#[test]
fn the_bytes_of_a_frame_stay_as_they_are() {
    let mut bytes = Vec::new();
    let hash = frame::encode(
        &draft(3, 0x0807_0605_0403_0201, b"thalweg"),
        seed(SEED_A),
        4096,
        &mut bytes,
    );
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let fields = [
        "54774672",
        "01",
        "00",
        "0500",
        "07000000",
        "02000000",
        "0300000000000000",
        "0100000000000000",
    ];
    assert!(hex.starts_with(&fields.concat()), "{hex}");
    assert_eq!(hex[64..80], *"0102030405060708", "{hex}");
    assert!(hex.ends_with("7468616c77656700"), "{hex}");
    assert_eq!(
        (&hex[80..96], format!("{hash:016x}").as_str()),
        (PINNED.0, PINNED.1),
        "checksums or chain changed"
    );
}

/// Payload and header checksum, and the chain hash after it.
const PINNED: (&str, &str) = ("8264598156d50222", "fc37ba613bd732a7");

#[test]
fn a_frame_is_valid_only_where_it_was_written() {
    let mut bytes = Vec::new();
    frame::encode(&draft(3, 0, b"here"), seed(SEED_A), 4096, &mut bytes);
    let valid = |at: (u64, u64), offset| FrameHeader::read(&bytes, seed(at), offset).is_some();
    assert!(valid(SEED_A, 4096));
    assert!(!valid(SEED_A, 4104), "another offset");
    assert!(!valid((0x1111, 8), 4096), "another segment");
    assert!(!valid((0x1112, 7), 4096), "another life of the same file");
}

#[test]
fn any_flipped_bit_of_a_header_is_noticed() {
    let mut bytes = Vec::new();
    frame::encode(&draft(3, 0, b"here"), seed(SEED_A), 4096, &mut bytes);
    for bit in 0..HEADER_BYTES * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(
            FrameHeader::read(&bytes, seed(SEED_A), 4096).is_none(),
            "bit {bit}"
        );
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn moved_frames_keep_their_chain() {
    let mut bytes = Vec::new();
    let first = frame::encode(&draft(1, 0, b"first"), seed(SEED_A), 8000, &mut bytes);
    let offset = 8000 + bytes.len() as u64;
    let second = frame::encode(
        &draft(2, first, b"second, longer"),
        seed(SEED_A),
        offset,
        &mut bytes,
    );
    let to = Seed::new(0x2222, 8);
    frame::move_frames(&mut bytes, (seed(SEED_A), 8000), (to, 4096));
    let header = FrameHeader::read(&bytes, to, 4096).unwrap();
    assert_eq!(header.chain(b"first"), first);
    let rest = &bytes[header.frame_bytes()..];
    let header = FrameHeader::read(rest, to, 4096 + header.frame_bytes() as u64).unwrap();
    assert_eq!(
        (header.prev_hash, header.chain(b"second, longer")),
        (first, second)
    );
}

/// Somebody publishes a piece of a journal as a message: even of this journal and this segment.
#[test]
fn a_payload_that_looks_like_frames_is_not_taken_for_some() {
    let options = Options {
        segment_bytes: 64 << 10,
        ..Options::default()
    };
    let disk = SimDisk::new(1);
    let (mut journal, _) = Journal::open(disk.clone(), options, None, &mut |_| {}).unwrap();
    for payload in [&b"one"[..], b"two", b"three"] {
        journal.append(&[Batch { shard: 0, payload }]).unwrap();
        journal.commit().unwrap();
    }
    let tip = journal.tip().place.0 as usize & (Place::SPAN as usize - 1);
    let mut copied = vec![0; tip];
    disk.open("segment-0000000000000001")
        .unwrap()
        .read_full(&mut copied, 0)
        .unwrap();
    let place = journal
        .append(&[Batch {
            shard: 0,
            payload: &copied,
        }])
        .unwrap()[0];
    // The frame around it is torn: what it carries must not count as frames behind a damage.
    let killed = disk.after_kill(1);
    killed.flip(
        "segment-0000000000000001",
        (place.0 & (Place::SPAN - 1)) as usize - 1,
        1,
    );
    let (_, recovered) = Journal::open(killed, options, None, &mut |_| {}).unwrap();
    assert_eq!(recovered.last_index, 3);
    assert_eq!(recovered.dropped_tail, None, "nothing behind it is a frame");
}
