//! The draft's own examples byte for byte, refusals and their reasons, and unusual maps.

use super::*;
use proptest::prelude::*;
use std::num::NonZeroU32;

/// The examples of §2.4 and §2.5, as CBOR.
const CREATE: &str = "a200726c6976696e672d726f6f6d2d73656e736f72026c636f72652e70732e64617461";
const CREATED: &str = "a300726c6976696e672d726f6f6d2d73656e736f7201702f70732f646174612f31626430643664026c636f72652e70732e64617461";
const GOT: &str = "a700726c6976696e672d726f6f6d2d73656e736f7201702f70732f646174612f31626430643664026c636f72652e70732e6461\
                   7461031870046b74656d706572617475726505c11a6428c57f061864";
const FETCH_TOPIC: &str = "a109820103";
const FETCHED: &str = "a201702f70732f646174612f31626430643664031870";
const FETCH_COLLECTION: &str = "a2006b74656d7065726174757265026c636f72652e70732e64617461";
const POST: &str = "a600726c6976696e672d726f6f6d2d73656e736f7201702f70732f646174612f31626430643664026c636f72652e70732e6461\
                    7461031870046b74656d706572617475726505c11a644c41df";
const IPATCH: &str = "a205c11a65dfc8ff0605";
const IPATCHED: &str = "a800726c6976696e672d726f6f6d2d73656e736f7201702f70732f646174612f31626430643664026c636f72652e70732e\
                        64617461031870046b74656d706572617475726505c11a65dfc8ff0605071a00015180";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"))
        .collect()
}

fn read(hex: &str) -> Configuration {
    Configuration::decode(&bytes(hex)).expect("legal")
}

fn written(configuration: &Configuration) -> Vec<u8> {
    let mut out = Vec::new();
    configuration.encode(&mut out);
    out
}

/// The words with which a map for a new topic is refused.
fn refused(hex: &str) -> String {
    Configuration::decode(&bytes(hex))
        .expect_err("illegal")
        .to_string()
}

#[test]
fn a_topic_is_made_as_in_the_drafts_example() {
    let mut topic = read(CREATE);
    assert_eq!(
        (&*topic.name, &*topic.data, &*topic.resource_type),
        ("living-room-sensor", "", RT_DATA)
    );
    assert_eq!(written(&topic), bytes(CREATE));
    topic.data = "/ps/data/1bd0d6d".into();
    assert_eq!(written(&topic), bytes(CREATED));
    assert_eq!(topic.observer_check_secs(), 86_400);
}

#[test]
fn every_property_is_where_the_drafts_example_has_it() {
    let topic = read(GOT);
    assert_eq!(topic.content_format, Some(112));
    assert_eq!(topic.topic_type.as_deref(), Some("temperature"));
    assert_eq!(topic.expiration, Some(1_680_393_599));
    assert_eq!(topic.max_subscribers, Some(100));
    assert_eq!(
        (topic.observer_check, topic.initialize.as_deref()),
        (None, None)
    );
    assert_eq!(written(&topic), bytes(GOT));
}

#[test]
fn a_part_is_answered_as_in_the_drafts_example() {
    let selection = Selection::decode(&bytes(FETCH_TOPIC)).expect("legal");
    let mut out = Vec::new();
    read(GOT).encode_selected(selection, &mut out);
    assert_eq!(out, bytes(FETCHED));
    // The list alone, as before the map; unknown labels are left out.
    assert_eq!(Selection::decode(&bytes("820103")), Ok(selection));
    assert_eq!(Selection::decode(&bytes("a1098401030a20")), Ok(selection));
    assert_eq!(Selection::decode(&bytes("a10980")), Ok(Selection::NONE));
}

#[test]
fn a_post_replaces_and_an_ipatch_changes_as_in_the_drafts_examples() {
    let posted = read(GOT).replaced_by(&bytes(POST)).expect("legal");
    assert_eq!(
        written(&posted),
        bytes(POST),
        "max-subscribers has gone back to its default"
    );
    let mut topic = posted;
    topic.observer_check = NonZeroU32::new(86_400);
    let patched = topic.patched_by(&bytes(IPATCH)).expect("legal");
    assert_eq!(written(&patched), bytes(IPATCHED));
}

#[test]
fn a_post_need_not_repeat_what_cannot_be_changed() {
    let topic = read(GOT);
    let posted = topic.replaced_by(&bytes("a1031832")).expect("legal");
    assert_eq!(
        (&posted.name, &posted.data, &posted.resource_type),
        (&topic.name, &topic.data, &topic.resource_type)
    );
    assert_eq!((posted.content_format, posted.expiration), (Some(50), None));
    // With and without the first slash it is the same reference: "ps/data/1bd0d6d".
    let without_slash = bytes("a1016f70732f646174612f31626430643664");
    assert!(topic.replaced_by(&without_slash).is_ok() && topic.patched_by(&without_slash).is_ok());
}

#[test]
fn what_cannot_be_changed_is_refused() {
    let topic = read(GOT);
    for (map, name) in [
        ("a1006178", "topic-name"),
        ("a1016178", "topic-data"),
        ("a1026178", "resource-type"),
    ] {
        let words = format!("{name} cannot be changed");
        assert_eq!(
            topic
                .replaced_by(&bytes(map))
                .expect_err("immutable")
                .to_string(),
            words
        );
        assert_eq!(
            topic
                .patched_by(&bytes(map))
                .expect_err("immutable")
                .to_string(),
            words
        );
    }
    assert_eq!(
        topic
            .patched_by(&bytes("a100f6"))
            .expect_err("immutable")
            .to_string(),
        "topic-name cannot be changed"
    );
}

#[test]
fn null_takes_a_property_away() {
    let patched = read(GOT).patched_by(&bytes("a203f606f6")).expect("legal");
    assert_eq!(
        (patched.content_format, patched.max_subscribers),
        (None, None)
    );
    assert_eq!(patched.topic_type.as_deref(), Some("temperature"));
}

#[test]
fn a_filter_wants_every_property_it_names() {
    let filter = TopicFilter::decode(&bytes(FETCH_COLLECTION)).expect("legal");
    let mut topic = read(CREATED);
    assert!(!filter.matches(&topic));
    topic.name = "temperature".into();
    assert!(filter.matches(&topic));
    topic.resource_type = "x".into();
    assert!(!filter.matches(&topic));
}

#[test]
fn a_filter_of_nothing_wants_all_and_one_of_something_unknown_wants_none() {
    let topic = read(GOT);
    for (filter, matches) in [
        ("a0", true),
        ("a1061864", true),
        ("a1061863", false),
        ("a1016f70732f646174612f31626430643664", true), // topic-data without the slash
        ("a107190e10", false),                          // observer-check is not there
        ("a107f6", false),
        ("a10982010 3", true),
        ("a109820107", false),               // observer-check must be there
        ("a109810a", false),                 // what nobody knows
        ("a10a83010203", false),             // a label nobody knows, with a list
        ("a120a16161c11a00000000", false),   // another, with a map and a tag
        ("a10a9f5f4100ff7f6161ffff", false), // strings in pieces
        ("a205c11a6428c57f0318 70", true),
    ] {
        let filter = TopicFilter::decode(&bytes(&filter.replace(' ', ""))).expect(filter);
        assert_eq!(filter.matches(&topic), matches, "{filter:?}");
    }
}

#[test]
fn what_makes_no_topic_is_refused_in_words() {
    for (map, words) in [
        ("", "the payload is not well-formed CBOR"),
        ("a2", "the payload is not well-formed CBOR"),
        ("a0", "topic-name is missing"),
        ("a1006178", "resource-type is missing"),
        ("a1026178", "topic-name is missing"),
        ("a200f6026178", "topic-name is missing"),
        ("820000", "the payload is not a CBOR map"),
        ("6178", "the payload is not a CBOR map"),
        ("a2006178026178ff", "the payload is not well-formed CBOR"),
        ("a20061780261", "the payload is not well-formed CBOR"),
        ("a2006178026178a0", "the payload is not well-formed CBOR"),
        ("a2006178006178", "topic-name is there twice"),
        ("a20061780060", "topic-name is there twice"),
        ("a20060026178", "topic-name is empty"),
        ("a20005026178", "topic-name has the wrong type"),
        ("a2004178026178", "topic-name has the wrong type"),
        ("a2007f6178ff026178", "topic-name has the wrong type"),
        ("a20061ff026178", "the payload is not well-formed CBOR"), // not UTF-8
        (
            "a16a746f7069632d6e616d656178",
            "the payload has a label that is not a number",
        ),
        ("a3006178026178182a00", "there is no property 42"),
        ("a30061780261783903e700", "there is no property -1000"),
        (
            "a30061780261783bffffffffffffffff00",
            "there is no property -18446744073709551616",
        ),
        ("a3006178026178098101", "there is no property 9"),
        (
            "a30061780261780320",
            "topic-content-format has the wrong type",
        ),
        (
            "a3006178026178031a00010000",
            "topic-content-format is out of range",
        ),
        ("a300617802617805c101", ""),
        ("a3006178026178050a", ""),
        ("a300617802617805c1fb41d90a314fe00000", ""),
        ("a300617802617805c120", "expiration-date is out of range"),
        (
            "a300617802617805c1fb7ff8000000000000",
            "expiration-date is out of range",
        ),
        (
            "a300617802617805c11bffffffffffffffff",
            "expiration-date is out of range",
        ),
        (
            "a300617802617805c06174",
            "expiration-date has the wrong type",
        ),
        (
            "a300617802617805c16174",
            "expiration-date has the wrong type",
        ),
        ("a300617802617806f5", "max-subscribers has the wrong type"),
        (
            "a3006178026178061b0000000100000000",
            "max-subscribers is out of range",
        ),
        ("a3006178026178060 0", ""),
        ("a30061780261780700", "observer-check is out of range"),
        ("a300617802617808f5", "initialize has the wrong type"),
        (
            "a3006178026178084180",
            "initialize needs topic-content-format",
        ),
        ("a400617802617803183c084180", ""),
        ("bf006178026178ff", ""),
        ("bf006178026178", "the payload is not well-formed CBOR"),
        ("bf006178ff", "resource-type is missing"),
    ] {
        let map = map.replace(' ', "");
        match words {
            "" => assert!(Configuration::decode(&bytes(&map)).is_ok(), "{map}"),
            words => assert_eq!(refused(&map), words, "{map}"),
        }
    }
}

#[test]
fn what_is_too_long_or_too_deep_is_refused() {
    let mut long_name = bytes("a2026178007904 01".replace(' ', "").as_str());
    long_name.extend([b'x'; 1_025]);
    let refusal = Configuration::decode(&long_name).expect_err("too long");
    assert_eq!(
        (refusal.to_string().as_str(), refusal.code()),
        (
            "topic-name is longer than 1024 bytes",
            crate::Code::BAD_REQUEST
        )
    );

    let mut long_value = bytes("a400617802617803183c08594000");
    long_value.extend([0; 16_384]);
    let refusal = Configuration::decode(&long_value).expect_err("too long");
    assert_eq!(refusal.code(), crate::Code::REQUEST_ENTITY_TOO_LARGE);

    let deep = format!("a10a{}00", "81".repeat(9));
    assert_eq!(
        TopicFilter::decode(&bytes(&deep))
            .expect_err("too deep")
            .why,
        Unfit::TooDeep
    );
    let deep = format!("a10a{}00", "c1".repeat(9));
    assert_eq!(
        TopicFilter::decode(&bytes(&deep))
            .expect_err("too deep")
            .why,
        Unfit::TooDeep
    );
    for (depth, fits) in [(7, true), (8, false)] {
        let nested = format!("a10a{}00", "81".repeat(depth));
        assert_eq!(
            TopicFilter::decode(&bytes(&nested)).is_ok(),
            fits,
            "{depth}"
        );
    }
}

#[test]
fn what_makes_no_filter_is_refused() {
    for (map, words) in [
        ("a2006178006178", "topic-name is there twice"),
        ("a10005", "topic-name has the wrong type"),
        ("a10a81ff", "the payload is not well-formed CBOR"), // an end of a list that has a length
        ("a10aff", "the payload is not well-formed CBOR"),
        ("a10a8100ff", "the payload is not well-formed CBOR"),
        ("a1090a", "conf-filter is not an array"),
        ("80", "the payload is not a CBOR map"),
    ] {
        assert_eq!(
            TopicFilter::decode(&bytes(map))
                .expect_err("illegal")
                .to_string(),
            words,
            "{map}"
        );
    }
}

#[test]
fn a_slash_in_front_is_left_out_of_references_only() {
    let topic = Configuration {
        topic_type: Some("/t".into()),
        ..read(GOT)
    };
    assert!(
        !TopicFilter::decode(&bytes("a1046174"))
            .expect("legal")
            .matches(&topic)
    );
    assert!(
        TopicFilter::decode(&bytes("a104622f74"))
            .expect("legal")
            .matches(&topic)
    );
}

#[test]
fn a_count_that_is_not_true_costs_nothing() {
    for map in [
        "bbffffffffffffffff",
        "bbffffffffffffffff006178",
        "a10a9bffffffffffffffff00",
        "a1099bffffffffffffffff00",
    ] {
        assert_eq!(
            TopicFilter::decode(&bytes(map)).expect_err("short").why,
            Unfit::Damaged,
            "{map}"
        );
    }
}

#[test]
fn what_asks_for_no_list_is_refused() {
    for (map, words) in [
        ("a0", "conf-filter is missing"),
        ("a10901", "conf-filter is not an array"),
        ("a10001", "there is no property 0"),
        ("a2098101098101", "conf-filter is there twice"),
        ("8201", "the payload is not well-formed CBOR"),
        ("820103ff", "the payload is not well-formed CBOR"),
        ("816178", "the payload has a label that is not a number"),
        ("01", "the payload is not a CBOR map"),
    ] {
        assert_eq!(
            Selection::decode(&bytes(map))
                .expect_err("illegal")
                .to_string(),
            words,
            "{map}"
        );
    }
}

#[test]
fn a_date_that_has_passed_is_refused() {
    let topic = read(GOT);
    assert!(topic.check_expiration(1_680_393_598).is_ok());
    assert_eq!(
        topic
            .check_expiration(1_680_393_599)
            .expect_err("now")
            .to_string(),
        "expiration-date has passed"
    );
    assert!(read(CREATE).check_expiration(u64::MAX).is_ok());
}

fn text() -> impl Strategy<Value = Box<str>> {
    prop_oneof![
        "[a-z/ ]{1,30}",
        "\\PC{1,8}",
        Just("x".repeat(TEXT_BYTES_MAX))
    ]
    .prop_map(Into::into)
}

fn configuration() -> impl Strategy<Value = Configuration> {
    let numbers = (
        proptest::option::of(any::<u16>()),
        proptest::option::of(0..=253_402_300_799u64),
        proptest::option::of(any::<u32>()),
        proptest::option::of(1..=u32::MAX),
    );
    let texts = (
        text(),
        prop_oneof![Just(Box::from("")), text()],
        text(),
        proptest::option::of(text()),
    );
    let first = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300));
    (texts, numbers, first).prop_map(|(texts, numbers, first)| Configuration {
        name: texts.0,
        data: texts.1,
        resource_type: texts.2,
        topic_type: texts.3,
        content_format: numbers.0,
        expiration: numbers.1,
        max_subscribers: numbers.2,
        observer_check: numbers.3.and_then(NonZeroU32::new),
        initialize: first.filter(|_| numbers.0.is_some()).map(Into::into),
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(topic in configuration()) {
        prop_assert_eq!(Configuration::decode(&written(&topic)), Ok(topic));
    }

    #[test]
    fn a_topic_is_replaced_and_patched_by_itself_without_a_change(topic in configuration()) {
        let map = written(&topic);
        prop_assert_eq!(topic.replaced_by(&map), Ok(topic.clone()));
        prop_assert_eq!(topic.patched_by(&map), Ok(topic));
    }

    #[test]
    fn patches_change_what_they_name_and_nothing_else(topic in configuration(), other in configuration(), which in 0u16..512) {
        let selection = Property::ALL.into_iter()
            .filter(|property| which & 1 << property.label() != 0 && !property.is_immutable())
            .collect::<Selection>();
        let mut patch = Vec::new();
        other.encode_selected(selection, &mut patch);
        let patched = match topic.patched_by(&patch) {
            Ok(patched) => patched,
            Err(refusal) => {
                prop_assert_eq!(refusal.why, Unfit::FormatMissing);
                return Ok(());
            }
        };
        for property in Property::ALL {
            let of = if selection.contains(property) && other.has(property) { &other } else { &topic };
            prop_assert_eq!(patched.field(property), of.field(property), "{:?}", property);
        }
    }

    #[test]
    fn a_topic_matches_the_filter_that_it_is(topic in configuration(), other in configuration()) {
        let filter = TopicFilter::decode(&written(&topic)).expect("legal");
        prop_assert!(filter.matches(&topic));
        if topic.name != other.name {
            prop_assert!(!filter.matches(&other));
        }
    }

    #[test]
    fn damage_is_refused_or_read_as_something_legal(
        topic in configuration(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        let whole = written(&topic);
        let mut damaged = whole.clone();
        damaged[at.index(whole.len())] = byte;
        if let Ok(read) = Configuration::decode(&damaged) {
            // Whatever was read can be written and is read the same.
            prop_assert_eq!(Configuration::decode(&written(&read)), Ok(read));
        }
        prop_assert!(Configuration::decode(&whole[..cut.index(whole.len())]).is_err());
    }

    #[test]
    fn anything_at_all_is_survived(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
        let topic = read(GOT);
        let _ = Configuration::decode(&payload);
        let _ = topic.replaced_by(&payload);
        let _ = topic.patched_by(&payload);
        let _ = TopicFilter::decode(&payload);
        let _ = Selection::decode(&payload);
    }
}
