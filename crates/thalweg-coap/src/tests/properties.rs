//! Round trips of all messages: encoded and decoded they are equal, and decoded and encoded they are the same bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn kind() -> impl Strategy<Value = Type> {
    use Type::*;
    prop_oneof![
        Just(Confirmable),
        Just(NonConfirmable),
        Just(Acknowledgement),
        Just(Reset)
    ]
}

fn code() -> impl Strategy<Value = Code> {
    any::<u8>()
        .prop_map(Code)
        .prop_filter("a code that may travel", |code| {
            *code != Code::EMPTY && !code.is_reserved()
        })
}

fn token() -> impl Strategy<Value = Token> {
    vec(any::<u8>(), 0..=8).prop_map(|bytes| Token::new(&bytes).expect("at most eight"))
}

/// Options in any order, their lengths and the distances of their numbers around what takes a byte more.
fn options() -> impl Strategy<Value = Vec<(u16, Vec<u8>)>> {
    let number = prop_oneof![0..40u16, 240..300u16, any::<u16>(), Just(u16::MAX)];
    let len = prop_oneof![0..20usize, 260..280usize, Just(1000)];
    let value = (len, any::<u8>())
        .prop_map(|(len, byte)| (0..len).map(|i| byte.wrapping_add(i as u8)).collect());
    vec((number, value), 0..12)
}

/// Payloads that bring the length of a stream's message across 13, 269 and 65805.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![8 => 0..40usize, 2 => 220..280usize, 1 => 64_900..65_900usize];
    (len, any::<u8>()).prop_map(|(len, byte)| vec![byte; len])
}

fn borrowed(options: &[(u16, Vec<u8>)]) -> Vec<(u16, &[u8])> {
    options
        .iter()
        .map(|(number, value)| (*number, &value[..]))
        .collect()
}

fn sorted(options: &[(u16, Vec<u8>)]) -> Vec<(u16, &[u8])> {
    let mut options = borrowed(options);
    options.sort_by_key(|(number, _)| *number);
    options
}

proptest! {
    #[test]
    fn a_message_is_read_as_it_was_meant(
        kind in kind(),
        code in code(),
        id in any::<u16>(),
        token in token(),
        options in options(),
        payload in payload(),
    ) {
        let mut out = b"before".to_vec();
        let mut encoder = Encoder::start(&mut out, kind, code, id, token);
        encoder.unordered(&mut borrowed(&options));
        encoder.payload(&payload);
        let datagram = &out[6..];
        let message = Message::decode(datagram).expect("we wrote it");
        prop_assert_eq!((message.kind, message.code, message.id, message.token), (kind, code, id, token));
        prop_assert_eq!(message.options.iter().collect::<Vec<_>>(), sorted(&options));
        prop_assert_eq!(message.payload, &payload[..]);
        let mut again = Vec::new();
        message.encode(&mut again);
        prop_assert_eq!(again, datagram);
    }

    #[test]
    fn a_message_in_a_stream_is_read_as_it_was_meant(
        code in any::<u8>().prop_map(Code),
        token in token(),
        options in options(),
        payload in payload(),
        behind in vec(any::<u8>(), 0..4),
    ) {
        let mut out = b"before".to_vec();
        let write = |encoder: &mut Encoder<'_>| { encoder.unordered(&mut borrowed(&options)); };
        let len = stream::encode(&mut out, code, token, write, &payload);
        prop_assert_eq!(out.len(), 6 + len);
        let whole = out[6..].to_vec();
        out.extend(&behind);
        let (consumed, message) = stream::decode(&out[6..], len).expect("we wrote it").expect("all of it");
        prop_assert_eq!(consumed, len);
        prop_assert_eq!((message.code, message.token, message.payload), (code, token, &payload[..]));
        prop_assert_eq!(message.options.iter().collect::<Vec<_>>(), sorted(&options));
        prop_assert_eq!(stream::decode(&whole, len - 1), Err(Malformed::TooLarge));
        prop_assert_eq!(stream::decode(&whole[..len - 1], len), Ok(None));

        // The same over WebSocket, and back.
        let (taken, parts) = stream::next_for_websocket(&out[6..]).expect("we wrote it");
        prop_assert_eq!(taken, len);
        let one = [&[parts.first][..], parts.rest].concat();
        prop_assert_eq!(stream::decode_websocket(&one), Ok(message));
        let mut direct = Vec::new();
        stream::encode_websocket(&mut direct, code, token, write, &payload);
        prop_assert_eq!(&direct, &one);
        let mut back = Vec::new();
        prop_assert_eq!(stream::append_from_websocket(&one, &mut back), Ok(()));
        prop_assert_eq!(back, whole);
    }

    #[test]
    fn what_is_read_is_written_as_it_was(datagram in vec(any::<u8>(), 0..64)) {
        // Version 1, so that it has a chance.
        let mut datagram = datagram;
        if let Some(first) = datagram.first_mut() { *first = *first & 0x37 | 0x40; }
        if let Ok(message) = Message::decode(&datagram) {
            let mut again = Vec::new();
            message.encode(&mut again);
            prop_assert_eq!(again, datagram);
        }
    }

    #[test]
    fn finding_an_option_agrees_with_going_through_all(options in options(), wanted in 0..300u16) {
        let mut out = Vec::new();
        Encoder::body(&mut out).unordered(&mut borrowed(&options));
        let (read, rest) = Options::decode(&out).expect("we wrote it");
        prop_assert!(rest.is_empty());
        let legal = |(number, value): &(u16, &[u8])| *number == wanted && option::is_legal_length(*number, value.len());
        let expected: Vec<&[u8]> = sorted(&options).into_iter().filter(legal).map(|(_, value)| value).collect();
        prop_assert_eq!(read.all(wanted).collect::<Vec<_>>(), expected.clone());
        prop_assert_eq!(read.get(wanted), expected.first().copied());
        prop_assert_eq!(read.has(wanted), options.iter().any(|(number, _)| *number == wanted));
    }

    #[test]
    fn an_address_is_the_same_after_it_was_written(
        scheme in 0..6usize,
        host in "[a-z0-9é%. -]{1,12}",
        port in 1..=u16::MAX,
        path in vec("[^\u{0}]{0,12}", 0..5),
        query in vec("[^\u{0}]{0,12}", 0..5),
    ) {
        let scheme = uri::Scheme::ALL[scheme];
        let uri = uri::Uri { scheme, host, port, path, query };
        let again = uri::Uri::parse(&uri.to_string()).expect("an address");
        // One empty level is the same resource as none.
        let expected = if uri.path == [""] { uri::Uri { path: vec![], ..uri } } else { uri };
        prop_assert_eq!(again, expected);
    }

    #[test]
    fn links_are_read_as_they_were_written(
        links in vec(("[^>]{0,12}", vec(("[a-z]{1,6}", proptest::option::of(".{0,12}")), 0..4)), 0..4),
    ) {
        let mut out = Vec::new();
        let mut writer = link_format::LinkWriter::new(&mut out);
        for (target, attributes) in &links {
            writer.link(target);
            for (name, value) in attributes {
                match value {
                    Some(value) => writer.text(name, value),
                    None => writer.flag(name),
                };
            }
        }
        let text = String::from_utf8(out).expect("text");
        let read: Vec<_> = link_format::Links::new(&text).collect::<Result<_, _>>().expect("a list");
        let own = |link: link_format::Link<'_>| {
            let attributes = link.attributes().map(|(name, value)| (name.to_owned(), value.map(|value| value.into_owned())));
            (link.target.to_owned(), attributes.collect::<Vec<_>>())
        };
        prop_assert_eq!(read.into_iter().map(own).collect::<Vec<_>>(), links);
    }

    #[test]
    fn any_text_is_a_list_of_links_or_is_not(text in "[<>;,=\"\\\\a b]{0,24}") {
        for link in link_format::Links::new(&text).flatten() {
            let _ = link.attributes().count();
        }
        let _ = uri::Uri::parse(&format!("coap://{text}"));
    }
}
