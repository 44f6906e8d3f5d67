//! Fields of payloads.

use super::{Dice, Sample, parsed};
use crate::{Document, Value};

const JSON: &[u8] =
    br#" {"temp": 21.5, "n": -3, "on": true, "no": null, "s": "a\"\u00e4\ud83d\ude00",
    "deep": {"list": [1, {"x": "y"}, []], "": 7}, "temp": 99} "#;

#[test]
fn fields_are_found_by_path() {
    let document = Document::read(JSON);
    for (path, expected) in [
        ("temp", Value::Float(21.5)),
        ("n", Value::Integer(-3)),
        ("on", Value::Bool(true)),
        ("no", Value::Null),
        ("s", Value::Text("a\"ä😀")),
        ("deep.list.0", Value::Integer(1)),
        ("deep.list.1.x", Value::Text("y")),
        ("deep.list.3", Value::Null),
        ("deep.list", Value::Null),
        ("deep.list.x", Value::Null),
        ("temp.x", Value::Null),
        ("nothing", Value::Null),
    ] {
        assert_eq!(document.value(path), expected, "{path}");
    }
}

#[test]
fn cbor_has_fields_too() {
    // {"a": 1, "b": [-2, 1.5, 2.5(f16)], 3: "x", "t": 1(0), _"in""def"}: {_ "k": true}
    let payload = [
        &[0xa5, 0x61, b'a', 0x01][..],
        &[
            0x61, b'b', 0x83, 0x21, 0xfa, 0x3f, 0xc0, 0, 0, 0xf9, 0x41, 0x00,
        ],
        &[0x03, 0x61, b'x'],
        &[0x61, b't', 0xc1, 0x00],
        &[0x7f, 0x62, b'i', b'n', 0x63, b'd', b'e', b'f', 0xff],
        &[0xbf, 0x61, b'k', 0xf5, 0xff],
    ]
    .concat();
    let document = Document::read(&payload);
    for (path, expected) in [
        ("a", Value::Integer(1)),
        ("b.0", Value::Integer(-2)),
        ("b.1", Value::Float(1.5)),
        ("b.2", Value::Float(2.5)),
        ("3", Value::Text("x")),
        ("t", Value::Integer(0)),
        ("indef.k", Value::Bool(true)),
    ] {
        assert_eq!(document.value(path), expected, "{path}");
    }
}

#[test]
fn what_is_not_a_document_has_no_fields() {
    let deep = "[".repeat(40) + &"]".repeat(40);
    let many = format!("[{}0]", "0,".repeat(5000));
    let long = format!("{{\"a\": 1, \"b\": \"{}\"}}", "x".repeat(70_000));
    for text in [
        "",
        "a",
        "{",
        "{\"a\": 1",
        "{\"a\": 1} x",
        "{\"a\" 1}",
        "{a: 1}",
        "[1,]",
        "[01]",
        "[1.]",
        "[\"\u{1}\"]",
        "[\"\\x\"]",
        "[\"\\ud800\"]",
        "[+1]",
        "[nul]",
        "1 2",
        &deep,
        &many,
        &long,
    ] {
        let document = Document::read(text.as_bytes());
        assert_eq!(document.value("a"), Value::Null, "{text:.20}");
        assert_eq!(document.value("0"), Value::Null, "{text:.20}");
    }
    for bytes in [
        &[0xa1][..],
        &[0x9f],
        &[0x81, 0xff],
        &[0x9b, 255, 255, 255, 255, 255, 255, 255, 255],
        &[0x81, 0x7f],
    ] {
        assert_eq!(Document::read(bytes).value("0"), Value::Null);
    }
}

#[test]
fn a_payload_is_read_when_a_filter_asks_and_not_before() {
    let mut sample = Sample::of(&[("a", Value::Integer(2))]);
    sample.payload = JSON;
    assert!(!parsed("a = 1 AND payload.temp > 20").matches(&sample));
    assert!(sample.read.get().is_none());
    assert!(parsed("a = 2 AND payload.temp > 20 AND payload.deep.list.1.x = 'y'").matches(&sample));
    assert!(sample.read.get().is_some());
}

#[test]
fn no_payload_makes_the_readers_panic() {
    const SEED: u64 = 7;
    let mut dice = Dice::new(SEED);
    let cbor = [
        0xa2, 0x61, b'a', 0x82, 0x01, 0x61, b'x', 0x61, b'b', 0xfb, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    for _ in 0..50_000 {
        let mut bytes = if dice.below(2) == 0 {
            JSON.to_vec()
        } else {
            cbor.to_vec()
        };
        for _ in 0..=dice.below(3) {
            let at = dice.below(bytes.len());
            bytes[at] = dice.below(256) as u8;
        }
        bytes.truncate(1 + dice.below(bytes.len()));
        let _ = Document::read(&bytes).value("deep.list.1.x");
    }
}
