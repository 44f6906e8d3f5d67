//! A stream of an XMPP server that sends anything: all at once and in two pieces, which must come to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_xmpp::{
    ClientEvent, ClientSettings, ClientSide, Credentials, Framing, Limits, TlsPolicy, Tree,
};

const HEADER: &[u8] = b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
const LOGIN: &[u8] = b"<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>ANONYMOUS</mechanism></mechanisms></stream:features><success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>";
const BOUND: &[u8] = b"<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/></stream:features><iq type='result' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>a@localhost/r</jid></bind></iq>";

fn hear(input: &[u8], first: usize, credentials: Credentials) -> (Vec<String>, Vec<u8>) {
    let mut client = ClientSide::new(ClientSettings {
        limits: Limits {
            stanza_bytes_max: 1 << 10,
            depth_max: 8,
            ..Limits::default()
        },
        framing: Framing::Document,
        domain: "localhost".into(),
        tls: TlsPolicy::IfOffered,
        credentials,
        resource: None,
        nonce: [1; 24],
        management: true,
        acknowledges: true,
    });
    let (mut heard, mut out, mut tree) = (Vec::new(), Vec::new(), Tree::default());
    client.open(&mut out);
    let mut from = 0;
    for until in [first, input.len()] {
        loop {
            match client.handle_input(&input[from..until], &mut tree, &mut out) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                    match event {
                        // What comes with <proceed/> is a fault, and is none if it comes later.
                        ClientEvent::StartTls => return (heard, out),
                        ClientEvent::Consumed => {}
                        event => heard.push(format!("{event:?}")),
                    }
                }
                Ok(None) => break,
                Err(fault) if fault == thalweg_xmpp::PeerFault::EARLY => return (heard, out),
                Err(fault) => {
                    heard.push(fault.to_string());
                    break;
                }
            }
        }
    }
    (heard, out)
}

fuzz_target!(|input: &[u8]| {
    let cut = input
        .first()
        .map_or(0, |byte| usize::from(*byte) % (input.len() + 1));
    let password = || Credentials::Password {
        user: "a".into(),
        password: "b".into(),
    };
    let (whole, pieces) = (
        hear(input, input.len(), password()),
        hear(input, cut, password()),
    );
    // The end of the stream is written where the fault is found, or not at all.
    assert_eq!(whole.0, pieces.0);
    let connected = [HEADER, LOGIN, HEADER, BOUND, input].concat();
    let before = connected.len() - input.len();
    assert_eq!(
        hear(&connected, connected.len(), Credentials::Anonymous).0,
        hear(&connected, before + cut, Credentials::Anonymous).0
    );
});
