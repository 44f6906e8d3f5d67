//! A stream of an XMPP client that sends anything: octet by octet and in two pieces, which must come to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_xmpp::{
    Element, Jid, Limits, Mechanism, ServerEvent, ServerSettings, ServerSide, Tree, parse_document,
};

const HEADER: &[u8] = b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
const LOGIN: &[u8] =
    b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'>=</auth>";
const BIND: &[u8] = b"<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
const ENABLE: &[u8] = b"<enable xmlns='urn:xmpp:sm:3' resume='true'/>";

fn limits() -> Limits {
    Limits {
        handshake_bytes_max: 600,
        stanza_bytes_max: 1 << 10,
        token_bytes_max: 100,
        depth_max: 8,
        attributes_max: 8,
        elements_max: 30,
    }
}

/// What the server makes of `input`, which arrives in these pieces, and what it writes. Every log-in succeeds.
fn hear(input: &[u8], cuts: impl Iterator<Item = usize>) -> (Vec<String>, Vec<u8>) {
    let mut server = ServerSide::new(ServerSettings {
        limits: limits(),
        mechanisms: [Mechanism::Anonymous, Mechanism::ScramSha256]
            .into_iter()
            .collect(),
        management: true,
        ..ServerSettings::default()
    });
    let (mut heard, mut out, mut tree) = (Vec::new(), Vec::new(), Tree::default());
    let mut from = 0;
    for until in cuts {
        loop {
            match server.handle_input(&input[from..until], &mut tree, &mut out) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                    answer(&mut server, &event, &mut out);
                    if !matches!(event, ServerEvent::Consumed) {
                        heard.push(format!("{event:?}"));
                    }
                }
                Ok(None) => break,
                Err(fault) => {
                    heard.push(fault.to_string());
                    return (heard, out);
                }
            }
        }
    }
    (heard, out)
}

fn answer(server: &mut ServerSide, event: &ServerEvent<'_>, out: &mut Vec<u8>) {
    match event {
        ServerEvent::Open(_) => server.open("id", "localhost", out),
        ServerEvent::Login {
            mechanism: Mechanism::Anonymous,
            ..
        }
        | ServerEvent::Response(_) => {
            server.success(None, out);
        }
        ServerEvent::Login { .. } => server.challenge(b"x", out),
        ServerEvent::Bind(_) => {
            if let Ok(jid) = Jid::new(Some("a"), "localhost", Some("r")) {
                server.bound(jid, out);
            }
        }
        ServerEvent::Resume { .. } => server.resume_failed(out),
        ServerEvent::Enable { .. } => server.enabled(Some("sm"), 10, out),
        ServerEvent::Stanza(stanza) => {
            look_at(stanza.element);
            server.put(
                stanza.kind,
                &[("id", &stanza.id().unwrap_or_default())],
                out,
                |_| {},
            );
        }
        ServerEvent::Closed => server.close(out),
        _ => {}
    }
}

/// A copy of an element means the same.
fn look_at(element: Element<'_>) {
    let mut copy = Vec::new();
    element.put(&mut copy);
    let mut tree = Tree::default();
    let limits = Limits {
        stanza_bytes_max: 1 << 16,
        attributes_max: 300,
        ..limits()
    };
    let again = parse_document(&copy, &limits, &mut tree);
    let again = again.unwrap_or_else(|| panic!("{}", copy.escape_ascii()));
    assert!(again.is(element.name(), element.namespace()) && again.text() == element.text());
    assert!(again.attributes().eq(element.attributes()));
    assert_eq!(again.descendants().count(), element.descendants().count());
}

fuzz_target!(|input: &[u8]| {
    let cut = input
        .first()
        .map_or(0, |byte| usize::from(*byte) % (input.len() + 1));
    assert_eq!(
        hear(input, [input.len()].into_iter()),
        hear(input, [cut, input.len()].into_iter())
    );
    // Once more behind a log-in, so that the fuzzer need not find out how.
    let connected = [HEADER, LOGIN, HEADER, BIND, ENABLE, input].concat();
    let whole = hear(&connected, [connected.len()].into_iter());
    assert_eq!(whole, hear(&connected, 1..=connected.len()));
});
