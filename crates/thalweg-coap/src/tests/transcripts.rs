//! Recorded and made datagrams of both sides: each is read, and written again byte for byte.

use thalweg_wire::testkit::{Mark, TranscriptLine, parse_transcript};

use super::*;

/// The transcripts of datagrams, line by line.
pub(crate) fn lines() -> Vec<(&'static str, TranscriptLine)> {
    let files = [
        ("datagrams", include_str!("../../transcripts/datagrams.txt")),
        ("clients", include_str!("../../transcripts/clients.txt")),
        ("refused", include_str!("../../transcripts/refused.txt")),
    ];
    let parse = |(name, text)| {
        let lines = parse_transcript(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        lines.into_iter().map(move |line| (name, line))
    };
    files.into_iter().flat_map(parse).collect()
}

#[test]
fn every_datagram_is_read_and_written_again_byte_for_byte() {
    for (name, line) in lines() {
        let at = format!("transcripts/{name}.txt:{}", line.number);
        match (Message::decode(&line.bytes), &line.mark) {
            (Ok(message), Mark::Canonical) => {
                let mut again = Vec::new();
                message.encode(&mut again);
                assert_eq!(again, line.bytes, "{at}: {message:?}");
            }
            (Err(error), Mark::Faulty(why)) => {
                assert_eq!(format!("{:?}", error.why), *why, "{at}");
                let silent = matches!(error.why, Malformed::HeadCutShort | Malformed::Version);
                assert_eq!(
                    (error.kind.is_none(), error.id.is_none()),
                    (silent, silent),
                    "{at}"
                );
            }
            (other, _) => panic!("{at}: {other:?}"),
        }
    }
}

#[test]
fn every_way_of_being_malformed_is_met_somewhere() {
    let all = [
        Malformed::HeadCutShort,
        Malformed::Version,
        Malformed::TokenLength,
        Malformed::TokenCutShort,
        Malformed::CodeReserved,
        Malformed::EmptyWithMore,
        Malformed::OptionCutShort,
        Malformed::OptionReserved,
        Malformed::OptionNumber,
        Malformed::PayloadMissing,
    ];
    for why in all {
        let met = lines()
            .iter()
            .any(|(_, line)| line.mark == Mark::Faulty(format!("{why:?}")));
        assert!(met, "{why:?}: {why}");
    }
}

#[test]
fn what_is_needed_to_reset_a_malformed_message_is_said() {
    let error = Message::decode(&[0x40, 0x01, 0x12, 0x34, 0xFF]).expect_err("no payload");
    assert_eq!(
        (error.kind, error.id),
        (Some(Type::Confirmable), Some(0x1234))
    );
    let error = Message::decode(&[0x5F, 0x01, 0x12, 0x34]).expect_err("no such token");
    assert_eq!(
        (error.kind, error.id),
        (Some(Type::NonConfirmable), Some(0x1234))
    );
}

#[test]
fn options_are_found_by_number() {
    let lines = lines();
    let datagram = &lines
        .iter()
        .find(|(_, line)| line.bytes.starts_with(&[0x40, 5]))
        .expect("FETCH")
        .1
        .bytes;
    let options = Message::decode(datagram).expect("legal").options;
    for (number, value) in options {
        assert_eq!(options.get(number), Some(value), "{number}");
        assert!(
            options.has(number) && !options.has(number + 1000),
            "{number}"
        );
        assert!(option::name(number).is_some(), "{number}");
    }
    assert_eq!(options.iter().count(), 24);
    assert_eq!(options.uint(option::CONTENT_FORMAT), Some(60));
    assert_eq!(options.uint(option::OBSERVE), Some(0));
    assert_eq!(options.uint(option::NO_RESPONSE), Some(2));
    assert_eq!(
        (options.get(2), options.uint(2), options.has(2)),
        (None, None, false)
    );
    assert_eq!(
        options.refused(|number| option::name(number).is_some()),
        None
    );
    assert_eq!(
        options.refused(|number| number != option::ACCEPT),
        Some(option::ACCEPT)
    );
    // An unknown elective option is ignored.
    assert_eq!(options.refused(|number| number != option::ETAG), None);
}

#[test]
fn options_of_illegal_length_count_as_not_understood() {
    let read = |bytes: &'static [u8]| Options::decode(bytes).expect("legal").0;
    let all = |_| true;
    // An ETag of nine bytes and one of one; ETag is elective.
    let options = read(b"\x49123456789\x01x");
    assert_eq!(
        (options.get(option::ETAG), options.refused(all)),
        (Some(&b"x"[..]), None)
    );
    assert_eq!(options.iter().count(), 2);
    // Uri-Host without a host, Accept of three bytes: critical.
    assert_eq!(read(b"\x30").refused(all), Some(option::URI_HOST));
    assert_eq!(read(b"\xd3\x04\0\0\x28").refused(all), Some(option::ACCEPT));
    assert_eq!(read(b"\xd3\x04\0\0\x28").uint(option::ACCEPT), None);
    // Leading zeros are legal as long as there is room.
    assert_eq!(read(b"\xd2\x04\0\x28").uint(option::ACCEPT), Some(40));
}

#[test]
fn an_option_that_must_not_be_repeated_counts_once() {
    let options = Options::decode(b"\x31a\x01b").expect("legal").0;
    assert_eq!(options.get(option::URI_HOST), Some(&b"a"[..]));
    assert_eq!(options.refused(|_| true), Some(option::URI_HOST));
    // Content-Format twice is elective, Uri-Path twice is a path.
    assert_eq!(
        Options::decode(b"\xc0\x00")
            .expect("legal")
            .0
            .refused(|_| true),
        None
    );
    let path = Options::decode(b"\xb1a\x01b\x00").expect("legal").0;
    assert_eq!(path.refused(|_| true), None);
    assert_eq!(
        path.all(option::URI_PATH).collect::<Vec<_>>(),
        [&b"a"[..], b"b", b""]
    );
}
