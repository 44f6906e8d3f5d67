//! For all texts: what is written is read as it was meant.

use proptest::prelude::*;

use super::*;
use crate::escape;

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V10), Just(Version::V11), Just(Version::V12)]
}

/// Texts with many special characters.
fn nasty() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![
            Just('\n'),
            Just('\r'),
            Just(':'),
            Just('\\'),
            Just('n'),
            Just('c'),
            Just('r'),
            Just('\0'),
            any::<char>()
        ],
        0..12,
    )
    .prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn escaping_and_unescaping_cancel_out(text in nasty(), version in version()) {
        let mut out = Vec::new();
        escape::put(&text, version, &mut out);
        prop_assert!(!out.contains(&b'\n') && !out.contains(&0));
        prop_assert!(version == Version::V10 || escape::is_valid(&out, version));
        let raw = String::from_utf8(out).expect("escaping keeps UTF-8");
        let back = escape::unescape(&raw, version);
        let sayable = text.replace('\0', " ");
        let sayable = if version == Version::V10 { sayable.replace('\n', " ") } else { sayable };
        prop_assert_eq!(back.as_deref(), Some(&*sayable));
    }

    #[test]
    fn unescaping_and_the_check_agree(raw in nasty(), version in version()) {
        if version != Version::V10 {
            prop_assert_eq!(escape::unescape(&raw, version).is_some(), escape::is_valid(raw.as_bytes(), version));
        }
    }

    #[test]
    fn what_a_client_sends_is_what_the_server_hears(
        destination in "[^\r\n\0]{0,20}",
        headers in proptest::collection::vec((nasty(), nasty()), 0..6),
        body in proptest::collection::vec(any::<u8>(), 0..100),
        version in version(),
    ) {
        let (client, _) = pair(version);
        let mut server = ServerSide::new(ServerLimits::default());
        let (mut there, mut wire) = (Vec::new(), Vec::new());
        ClientSide::new(FrameLimits::default())
            .connect(&ConnectOut { lowest: version, highest: version, ..ConnectOut::default() }, &mut there);
        server_event(&mut server, &there);
        server.connected(&ConnectedOut::default(), &mut Vec::new());
        let mut said = Vec::new();
        let send = SendOut { destination: &destination, body: &body, receipt: Some("r"), ..SendOut::default() };
        client.send(&send, |w| {
            for (name, value) in &headers {
                if w.put(name, value) {
                    said.push((name.clone(), value.clone()));
                }
            }
        }, &mut wire);
        let Event::Send(s) = server_event(&mut server, &wire) else { panic!("not SEND") };
        let padded = version == Version::V10;
        prop_assert_eq!(&*s.destination, if padded { destination.trim_start_matches(' ') } else { &destination });
        prop_assert_eq!(s.body, &body[..]);
        prop_assert_eq!(s.frame, &wire[..]);
        // The first three are destination, content-length and receipt.
        let heard: Vec<_> = s.headers.iter().skip(3).map(|(n, v)| (n.into_owned(), v.into_owned())).collect();
        prop_assert_eq!(heard, said);
    }

    #[test]
    fn what_1_2_cannot_say_is_nul_and_nothing_else(name in nasty(), value in nasty()) {
        let sayable = !name.is_empty() && !name.contains('\0') && !value.contains('\0');
        prop_assert_eq!(escape::can_say(&name, &value, Version::V12), sayable);
    }
}
