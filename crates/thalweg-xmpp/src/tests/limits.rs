//! Input above a limit is refused with a specific error as soon as it exceeds it, whatever follows.

use super::*;

const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0' to='im.example.com'>";
const LOGIN: &str = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'>=</auth>";
const BIND: &str = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";

fn settings() -> ServerSettings {
    ServerSettings {
        limits: limits(),
        mechanisms: [Mechanism::Anonymous].into_iter().collect(),
        ..ServerSettings::default()
    }
}

/// The last thing that a server says of a stream that goes on with `input` behind the log-in.
fn last(input: &str) -> String {
    let input = [HEADER, LOGIN, HEADER, BIND, input].concat();
    let (events, _) = server_hears(&settings(), input.as_bytes(), &[input.len()]);
    events.last().cloned().unwrap_or_default()
}

#[test]
fn a_stanza_may_be_as_long_as_it_may_and_no_longer() {
    let stanza = |len: usize| {
        let text = "x".repeat(len - "<message><body></body></message>".len());
        format!("<message><body>{text}</body></message>")
    };
    assert!(
        last(&stanza(1000)).starts_with("Stanza"),
        "{}",
        last(&stanza(1000))
    );
    let too_large = PeerFault::STANZA_TOO_LARGE.to_string();
    assert_eq!(last(&stanza(1001)), too_large);
    assert_eq!(last(&stanza(100_000)), too_large);
    // Also if it never ends.
    assert_eq!(last(&stanza(2000)[..1500]), too_large);
}

#[test]
fn strangers_may_say_less() {
    let text = "x".repeat(700);
    let input = format!(
        "{HEADER}<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'>{text}"
    );
    let (events, out) = server_hears(&settings(), input.as_bytes(), &[input.len()]);
    assert_eq!(
        events.last(),
        Some(&PeerFault::STANZA_TOO_LARGE.to_string())
    );
    assert!(out.ends_with(b"</stream:error></stream:stream>"));
}

#[test]
fn depth_attributes_elements_and_tokens_have_limits() {
    let nested = |depth: usize| {
        format!(
            "<message>{}{}</message>",
            "<a>".repeat(depth),
            "</a>".repeat(depth)
        )
    };
    assert!(last(&nested(5)).starts_with("Stanza"));
    assert_eq!(last(&nested(6)), PeerFault::TOO_DEEP.to_string());
    assert_eq!(last(&nested(10_000)), PeerFault::TOO_DEEP.to_string());

    let attributes = |count: usize| {
        let all: String = (0..count).map(|at| format!(" a{at}=''")).collect();
        format!("<message{all}/>")
    };
    assert!(last(&attributes(8)).starts_with("Stanza"));
    assert_eq!(
        last(&attributes(9)),
        PeerFault::TOO_MANY_ATTRIBUTES.to_string()
    );

    let elements = |count: usize| format!("<message>{}</message>", "<a/>".repeat(count));
    assert!(last(&elements(19)).starts_with("Stanza"));
    assert_eq!(
        last(&elements(20)),
        PeerFault::TOO_MANY_ELEMENTS.to_string()
    );

    let value = |len: usize| format!("<message id='{}'/>", "x".repeat(len));
    assert!(
        last(&value(200)).starts_with("Stanza"),
        "{}",
        last(&value(200))
    );
    assert_eq!(last(&value(201)), PeerFault::RESTRICTED.to_string());
}

#[test]
fn declarations_of_one_stanza_have_a_limit() {
    let mut tree = Tree::default();
    let text = |count: usize| {
        let elements: String = (0..count)
            .map(|at| format!("<a xmlns='urn:{at}'/>"))
            .collect();
        format!("<m>{elements}</m>")
    };
    let limits = Limits::default();
    assert!(parse_document(text(200).as_bytes(), &limits, &mut tree).is_some());
    assert!(parse_document(text(300).as_bytes(), &limits, &mut tree).is_none());
}

#[test]
fn log_ins_may_fail_three_times() {
    let wrong = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='GSSAPI'/>";
    let input = [HEADER, wrong, wrong, wrong, LOGIN].concat();
    let (_, out) = server_hears(&settings(), input.as_bytes(), &[input.len()]);
    let out = String::from_utf8(out).expect("UTF-8");
    assert_eq!(out.matches("<invalid-mechanism/>").count(), 3);
    assert!(
        out.contains("<policy-violation") && out.ends_with("</stream:stream>"),
        "{out}"
    );
}

#[test]
fn a_header_may_have_no_more_octets_behind_the_log_in_than_before() {
    // Each stanza costs a copy of its declarations.
    let declarations: String = (0..7)
        .map(|at| format!(" xmlns:a{at}='{}'", "u".repeat(90)))
        .collect();
    let long = HEADER.replace(" version", &format!("{declarations} version"));
    let input = [HEADER, LOGIN, &long].concat();
    let (events, _) = server_hears(&settings(), input.as_bytes(), &[input.len()]);
    assert_eq!(
        events.last(),
        Some(&PeerFault::STANZA_TOO_LARGE.to_string())
    );
}

#[test]
fn memory_of_a_large_stanza_is_counted_while_it_comes_and_given_back_behind_it() {
    let mut server = ServerSide::new(ServerSettings {
        limits: Limits::default(),
        ..settings()
    });
    let (mut tree, mut out) = (Tree::default(), Vec::new());
    let mut hear = |server: &mut ServerSide, input: &str, tree: &mut Tree| {
        let mut used = 0;
        while let Some((len, event)) = server
            .handle_input(&input.as_bytes()[used..], tree, &mut out)
            .expect("it is XMPP")
        {
            used += len;
            serve(server, &event, &mut Vec::new());
        }
        used == input.len()
    };
    let begun = [HEADER, LOGIN, HEADER, BIND].concat();
    assert!(hear(&mut server, &begun, &mut tree));
    let idle = server.gathered_bytes();
    assert!(idle < 1000, "{idle}");

    let attributes: String = (0..64).map(|at| format!(" a{at}=''")).collect();
    let elements = format!("<a{attributes}/>").repeat(1000);
    let stanza = format!("<message>{elements}</message>");
    assert!(!hear(&mut server, &stanza[..stanza.len() - 1], &mut tree));
    assert!(server.gathered_bytes() > 1_000_000);
    assert!(hear(&mut server, &stanza, &mut tree));
    assert_eq!(server.gathered_bytes(), idle);
    assert!(tree.bytes() > 1_000_000);
    tree.clear();
    assert!(tree.bytes() < 20_000);
}
