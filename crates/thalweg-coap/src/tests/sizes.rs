//! Messages take the bytes that the specification says they must, and not one more.

use super::*;

/// Head, token, one byte before each level, marker. RFC 7252 §3
#[test]
fn a_publish_of_60_bytes_costs_the_analytic_minimum() {
    let payload = [b'x'; 60];
    for token in [
        Token::EMPTY,
        Token::from_number(1),
        Token::from_number(0x1234),
    ] {
        for levels in [
            &["ps", "data", "plant", "temp"][..],
            &["a"],
            &["ps", "data", "a-level-of-13"],
        ] {
            let mut out = Vec::new();
            let mut encoder = Encoder::start(&mut out, Type::Confirmable, Code::PUT, 7, token);
            levels.iter().for_each(|level| {
                encoder.option(option::URI_PATH, level.as_bytes());
            });
            encoder.payload(&payload);
            let level_bytes = |level: &&str| 1 + usize::from(level.len() > 12) + level.len();
            let minimum =
                4 + token.len() + levels.iter().map(level_bytes).sum::<usize>() + 1 + payload.len();
            assert_eq!(out.len(), minimum, "{levels:?}");
            assert_eq!(Message::decode(&out).map(|m| m.payload.len()), Ok(60));
        }
    }
}

#[test]
fn an_acknowledgement_is_four_bytes_and_an_answer_its_token_more() {
    let mut out = Vec::new();
    empty(&mut out, Type::Acknowledgement, 0xABCD);
    assert_eq!(out, [0x60, 0, 0xAB, 0xCD]);
    out.clear();
    let token = Token::from_number(9);
    Encoder::start(
        &mut out,
        Type::Acknowledgement,
        Code::CHANGED,
        0xABCD,
        token,
    )
    .payload(&[]);
    assert_eq!(out, [0x61, 0x44, 0xAB, 0xCD, 9]);
}

/// Two bytes of length and token length, code, token: RFC 8323 §3.2. No kind, no id.
#[test]
fn in_a_stream_a_publish_of_60_bytes_costs_a_byte_less() {
    let mut out = Vec::new();
    let options = |encoder: &mut Encoder<'_>| {
        encoder.option(option::URI_PATH, b"a");
    };
    let len = stream::encode(
        &mut out,
        Code::PUT,
        Token::from_number(1),
        options,
        &[b'x'; 60],
    );
    assert_eq!((len, out.len()), (2 + 1 + 1 + 2 + 1 + 60, len));
}

#[test]
fn numbers_are_written_in_as_few_bytes_as_they_need() {
    for (value, len) in [
        (0, 0),
        (1, 1),
        (255, 1),
        (256, 2),
        (65_535, 2),
        (65_536, 3),
        (1 << 24, 4),
        (u32::MAX, 4),
    ] {
        let mut out = Vec::new();
        Encoder::body(&mut out).uint(option::MAX_AGE, value);
        assert_eq!(out.len(), 2 + len, "{value}");
        let (options, _) = Options::decode(&out).expect("legal");
        assert_eq!(options.uint(option::MAX_AGE), Some(value));
    }
}

#[test]
fn a_decoded_message_is_small() {
    assert_eq!(size_of::<Token>(), 9);
    assert!(
        size_of::<Message<'_>>() <= 56,
        "{}",
        size_of::<Message<'_>>()
    );
    assert!(size_of::<Result<Message<'_>, DecodeError>>() <= 56);
}
