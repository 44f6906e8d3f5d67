//! What waits in readers is bounded by bytes: a reliable writer waits then, and nothing of it is lost.
#![cfg(feature = "cyclone")]

use std::time::Duration;
use thalweg_dds::cyclone::{
    Participant, Reader, SampleKind, Topic, Unwritten, WAITING_BYTES_MAX, Writer,
};
use thalweg_dds::qos::Qos;
use thalweg_dds::settings::DdsSettings;
use thalweg_server::config::Config;

const SIZE: usize = 1 << 20;
/// More than fit, with what is under way and what the writer keeps.
const MANY: u32 = 200;
const ROUNDS_MAX: usize = 3000;
const MOMENT: Duration = Duration::from_millis(10);

fn participant(domain: u32) -> Participant {
    let sets = [format!("dds.domain={domain}")];
    let read = Config::from_text(None, std::iter::empty(), &sets);
    let (config, _) = read.expect("the settings are right");
    let settings = DdsSettings::of(&config.protocols.dds).expect("they can be used");
    Participant::new(&settings.xml(), &settings.types).expect("it joins")
}

/// A writer and a reader, in participants of their own, that match.
fn pair(domain: u32, is_reliable: bool) -> (Participant, Writer, Participant, Reader) {
    let topic = Topic {
        name: "Large".into(),
        type_name: "Large".into(),
        is_keyless: true,
    };
    let (near, far) = (participant(domain), participant(domain));
    let offer = Qos {
        is_reliable,
        representations: vec![0],
        ..Qos::default()
    };
    let writer = near.writer(&topic, &offer).expect("a writer");
    let request = Qos::of_reader_for(&offer, Duration::ZERO);
    let reader = far.reader(&topic, &request, 1, false).expect("a reader");
    let is_matched = |_: &usize| {
        std::thread::sleep(MOMENT);
        writer.opposites() == 1 && reader.opposites() == 1
    };
    assert!((0..ROUNDS_MAX).any(|round| is_matched(&round)), "no match");
    (near, writer, far, reader)
}

/// Writes samples with numbers, from this one on, as long as there is room; the number of the next.
fn fill(writer: &Writer, first: u32) -> u32 {
    let mut bytes = vec![0; SIZE];
    for number in first..first + MANY {
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        match writer.write(SampleKind::Data, &bytes, [0; 16]) {
            Ok(()) => writer.flush(),
            Err(Unwritten::Slow) => return number,
            Err(Unwritten::Failed(error)) => panic!("{error}"),
        }
        assert!(Reader::waiting_bytes() <= WAITING_BYTES_MAX + SIZE);
    }
    first + MANY
}

/// The same until the readers are full: on a busy machine a writer waits for acknowledgements, too.
fn fill_up(writer: &Writer, first: u32) -> u32 {
    let mut next = first;
    for _ in 0..ROUNDS_MAX {
        next = fill(writer, next);
        if Reader::waiting_bytes() > WAITING_BYTES_MAX {
            return fill(writer, next);
        }
    }
    panic!("{} bytes wait", Reader::waiting_bytes());
}

/// What a thread of the library has in hand is freed when it has put it down, which may be after the reader's end.
fn is_empty_soon() -> bool {
    (0..ROUNDS_MAX).any(|_| {
        let is_empty = Reader::waiting_bytes() == 0;
        if !is_empty {
            std::thread::sleep(MOMENT);
        }
        is_empty
    })
}

/// Takes what comes within a moment, again and again.
fn taken(far: &Participant, reader: &Reader, is_enough: impl Fn(&[u32]) -> bool) -> Vec<u32> {
    let mut numbers = Vec::new();
    for _ in 0..ROUNDS_MAX {
        if is_enough(&numbers) {
            return numbers;
        }
        // It reports what was discovered until that is taken.
        far.take_discovered(|_| ());
        far.wait(MOMENT);
        reader.take(|sample| {
            let number = sample.bytes[4..8].try_into().expect("four bytes");
            numbers.push(u32::from_le_bytes(number));
        });
    }
    panic!("these have come: {numbers:?}");
}

// The count is of the process, so this is one test.
#[test]
fn a_reader_holds_no_more_than_so_many_bytes() {
    let (near, writer, far, reader) = pair(147, true);
    let written = fill_up(&writer, 0);
    let most = (WAITING_BYTES_MAX / SIZE) as u32;
    assert!((most..MANY).contains(&written), "{written}");
    let numbers = taken(&far, &reader, |it| it.len() == written as usize);
    assert_eq!(numbers, Vec::from_iter(0..written));
    assert!(is_empty_soon(), "{} bytes", Reader::waiting_bytes());
    // It goes on, and ends though a writer waits for it.
    let next = fill_up(&writer, written);
    assert!(next - written >= most, "{next} after {written}");
    drop((reader, far));
    assert!(is_empty_soon(), "{} bytes", Reader::waiting_bytes());
    drop((writer, near));

    // What is not reliable is lost instead.
    let (_near, writer, far, reader) = pair(148, false);
    assert_eq!(fill(&writer, 0), MANY);
    let numbers = taken(&far, &reader, |it| !it.is_empty());
    assert!(numbers.is_sorted() && numbers.len() <= most as usize);
}
