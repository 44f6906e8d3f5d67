//! Memory that sockets of ZeroMQ and clients of XMPP make the broker keep: it stays within the budget, and clients
//! above it are closed or refused. With `THALWEG_ABUSE_SECONDS=60` each test runs for a minute.

use thalweg_zmtp::{
    Announcement, ClientMechanism, ClientSide, CurveClient, CurveServer, KeyPair, Limits,
    ServerMechanisms, ServerSide, SocketType,
};

use super::buffers::hoard;
use super::memory::{BUDGET, GROWTH_MAX};
use super::*;
use crate::broker::free_port;

/// The greeting of ZMTP 3.1 without security.
pub(super) const GREETING: &[u8; 64] = &{
    let mut greeting = [0; 64];
    greeting[0] = 0xFF;
    greeting[8] = 1;
    greeting[9] = 0x7F;
    greeting[10] = 3;
    greeting[11] = 1;
    let mechanism = b"NULL";
    let mut at = 0;
    while at < mechanism.len() {
        greeting[12 + at] = mechanism[at];
        at += 1;
    }
    greeting
};

/// The header of a stream of XMPP.
pub(super) const STREAM: &[u8] = b"<?xml version='1.0'?><stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";

/// All that a client of XMPP says until it is bound, by parts.
pub(super) fn xmpp_log_in() -> Vec<Vec<u8>> {
    let auth =
        &b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'>=</auth>"[..];
    let bind = &b"<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>"[..];
    vec![[STREAM, auth].concat(), [STREAM, bind].concat()]
}

/// A frame of ZMTP: of a command, of a message's last part or of one that has more behind it.
fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    match u8::try_from(body.len()) {
        Ok(short) => [&[flags, short], body].concat(),
        Err(_) => [&[flags | 2][..], &(body.len() as u64).to_be_bytes(), body].concat(),
    }
}

const LAST: u8 = 0;
const MORE: u8 = 1;
const COMMAND: u8 = 4;

/// READY of a socket of this type.
pub(super) fn ready(socket: &str) -> Vec<u8> {
    let kind = [&(socket.len() as u32).to_be_bytes()[..], socket.as_bytes()].concat();
    frame(COMMAND, &[&b"\x05READY\x0bSocket-Type"[..], &kind].concat())
}

/// Writes as much as the broker takes; whether that was all.
fn offer(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .expect("a socket takes options");
    stream.write_all(bytes).is_ok()
}

/// Reads until `answer` comes; what was read. Nothing if the broker closes the connection instead.
fn wait_for(stream: &mut TcpStream, answer: &[u8]) -> Option<String> {
    let mut said = Vec::new();
    while !said.windows(answer.len()).any(|part| part == answer) {
        let mut more = [0; 1_024];
        let count = stream.read(&mut more).ok().filter(|count| *count > 0)?;
        said.extend_from_slice(&more[..count]);
    }
    Some(String::from_utf8_lossy(&said).into_owned())
}

/// Greeting and HELLO of a client of CURVE that knows the server's public key.
pub(super) fn curve_hello(server_secret: &[u8; 32]) -> Vec<u8> {
    let keys = KeyPair::from_secret(*server_secret);
    let mechanism = ClientMechanism::Curve(Box::new(CurveClient {
        server: *keys.public(),
        keys: KeyPair::from_secret([1; 32]),
        seed: [2; 32],
    }));
    let curve = CurveServer {
        keys,
        seed: [3; 32],
    };
    let mechanisms = ServerMechanisms {
        curve: Some(curve),
        ..ServerMechanisms::default()
    };
    let ours = Announcement::of(SocketType::Sub);
    let mut client = ClientSide::new(Limits::default(), mechanism, &ours);
    let mut server = ServerSide::new(Limits::default(), mechanisms);
    let (mut up, mut down) = (Vec::new(), Vec::new());
    client.greet(&mut up);
    server.greet(&mut down);
    server.handle_input(&up, &mut down).expect("a greeting");
    client.handle_input(&down, &mut up).expect("a greeting");
    up
}

/// A socket, unless the broker has no memory left for one.
fn zmtp(broker: SocketAddr, socket: &str) -> Option<TcpStream> {
    let mut stream = abrupt(broker).expect("it accepts");
    let _ = stream.write_all(&[&GREETING[..], &ready(socket)].concat());
    wait_for(&mut stream, b"READY").map(|_| stream)
}

/// A client of XMPP and its address, unless the broker has no memory left for one.
fn xmpp(broker: SocketAddr) -> Option<(TcpStream, String)> {
    let mut stream = abrupt(broker).expect("it accepts");
    let _ = stream.write_all(&xmpp_log_in().concat());
    let said = wait_for(&mut stream, b"</jid>")?;
    let (_, rest) = said.split_once("<jid>").expect("an address");
    let (jid, _) = rest.split_once("</jid>").expect("an address");
    Some((stream, jid.into()))
}

/// A broker that speaks both, and where it speaks XMPP.
fn victim() -> Option<(Victim, SocketAddr)> {
    let xmpp = free_port();
    let options = Broker::with()
        .zmtp()
        .set("listeners.xmpp.bind", &xmpp.to_string())
        .set("limits.memory_bytes_max", &format!("{BUDGET}MiB"));
    Some((Victim::with(options)?, xmpp))
}

#[test]
fn half_handshakes_of_zmtp_and_xmpp_stay_within_their_share() {
    let Some((victim, xmpp)) = victim() else {
        return;
    };
    let zmtp = victim.broker.zmtp();
    // The longest command that a frame can announce, and an opening that never ends.
    let mut command = [&GREETING[..], &[COMMAND | 2], &(1_u64 << 20).to_be_bytes()].concat();
    command.extend_from_slice(b"\x05READY\x0bSocket-Type\0\0\0\x03SUB");
    command.resize(120_000, b'x');
    let mut stream = STREAM[..STREAM.len() - 1].to_vec();
    stream.extend_from_slice(b" a='");
    stream.resize(120_000, b'x');
    let mut auth = [
        STREAM,
        b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>",
    ]
    .concat();
    auth.resize(120_000, b'x');
    let opened = hoard(1_400, |number| {
        let (address, bytes) = match number % 3 {
            0 => (zmtp, &command),
            1 => (xmpp, &stream),
            _ => (xmpp, &auth),
        };
        let mut stream = abrupt(address).expect("it accepts");
        offer(&mut stream, bytes);
        stream
    });
    println!("{opened} connections");
    victim.assert_bounded("half handshakes of ZMTP and XMPP", GROWTH_MAX);
}

#[test]
fn half_messages_of_zmtp_and_stanzas_of_xmpp_stay_within_their_share() {
    let Some((victim, address)) = victim() else {
        return;
    };
    let parts: Vec<u8> = (0..4)
        .flat_map(|_| frame(MORE, &vec![b'x'; 1 << 20]))
        .collect();
    let mut stanza = b"<message to='pubsub.localhost'><body>".to_vec();
    stanza.resize(4 << 20, b'x');
    let mut admitted = [0; 2];
    let opened = hoard(60, |number| {
        let (mut stream, bytes) = match number % 2 {
            0 => (zmtp(victim.broker.zmtp(), "PUB")?, &parts),
            _ => (xmpp(address)?.0, &stanza),
        };
        admitted[number % 2] += 1;
        offer(&mut stream, bytes);
        Some(stream)
    });
    println!("{opened} connections, {admitted:?} admitted");
    assert!(admitted.iter().all(|count| *count > 0), "{admitted:?}");
    victim.assert_bounded("half messages of ZMTP and XMPP", GROWTH_MAX);
}

#[test]
fn subscriptions_of_zmtp_and_xmpp_stay_within_the_budget() {
    let Some((victim, address)) = victim() else {
        return;
    };
    let (long, mut refused) = ("x".repeat(3_000), 0);
    let mut admitted = [0; 2];
    let opened = hoard(3, |number| {
        let (mut stream, jid) = match number % 3 {
            0 | 1 => (zmtp(victim.broker.zmtp(), "SUB")?, None),
            _ => {
                let (stream, jid) = xmpp(address)?;
                (stream, Some(jid))
            }
        };
        admitted[usize::from(jid.is_some())] += 1;
        // The broker closes it, or refuses each by an answer, which nothing reads.
        let is_all_taken = (0..3_000).all(|at| {
            let subscribe = match &jid {
                None => {
                    let command = format!("\x09SUBSCRIBE{number}/{at}/{long}");
                    frame(COMMAND, command.as_bytes())
                }
                Some(jid) => format!(
                    "<iq type='set' to='pubsub.localhost' id='{at}'><pubsub xmlns='http://jabber.org/protocol/pubsub'><subscribe node='{number}/{at}/{long}' jid='{jid}'/></pubsub></iq>"
                )
                .into_bytes(),
            };
            offer(&mut stream, &subscribe)
        });
        refused += usize::from(!is_all_taken);
        Some(stream)
    });
    println!("{opened} connections, {admitted:?} admitted, {refused} closed");
    assert!(admitted.iter().all(|count| *count > 0), "{admitted:?}");
    victim.assert_bounded("subscriptions of ZMTP and XMPP", GROWTH_MAX);
}

#[test]
fn subscribers_of_zmtp_that_do_not_read_cost_a_bounded_memory() {
    const DEAF: u64 = 20;
    // Outputs of 1 MiB for each, and 100 messages that wait for all of them.
    let options = Broker::with()
        .zmtp()
        .set("queue.output_bytes_max", "1MiB")
        .set("zmtp.high_water", "100");
    let Some(victim) = Victim::with(options) else {
        return;
    };
    let address = victim.broker.zmtp();
    let deaf: Vec<_> = (0..DEAF)
        .map(|_| {
            let mut stream = zmtp(address, "SUB").expect("there is memory");
            assert!(offer(&mut stream, &frame(COMMAND, b"\x09SUBSCRIBEflood")));
            stream
        })
        .collect();
    // The pair's receiver has one, too.
    victim.wait_for("thalweg_subscriptions", |count| count == DEAF + 1);
    let message = [frame(MORE, b"flood"), frame(LAST, &[b'x'; 10_000])].concat();
    let batch = message.repeat(100);
    let mut publisher = zmtp(address, "PUB").expect("there is memory");
    let (until, mut sent) = (Instant::now() + duration(), 0);
    // At least ten times what the system's buffers, outputs and backlogs of all hold.
    while Instant::now() < until || sent < 6_000 {
        publisher.write_all(&batch).expect("the broker reads on");
        sent += 100;
    }
    victim.wait_for("thalweg_publishes_received_total", |count| count >= sent);
    let dropped = victim.figure("thalweg_copies_dropped_total");
    println!("{sent} messages to {DEAF} subscribers, {dropped} copies dropped");
    assert!(dropped > 0, "what they did not get is counted");
    victim.assert_bounded("a flood of ZMTP", 80 << 10);
    drop(deaf);
}

#[test]
fn requests_that_nothing_answers_stay_within_the_budget() {
    let Some((victim, _)) = victim() else { return };
    let mut deaf = Talker::tcp(victim.broker.mqtt()).named("a server that does not answer");
    assert_eq!(deaf.subscribe("asked", 0), 0);
    let tag = frame(MORE, &vec![b't'; 100_000]);
    let request = [
        tag,
        frame(MORE, b""),
        frame(MORE, b"asked"),
        frame(LAST, b"?"),
    ]
    .concat();
    let mut admitted = 0;
    let opened = hoard(10, |_| {
        let mut dealer = zmtp(victim.broker.zmtp(), "DEALER")?;
        admitted += 1;
        (0..200).all(|_| offer(&mut dealer, &request));
        Some(dealer)
    });
    assert!(admitted > 0);
    let kept = victim.figure("thalweg_memory_held_bytes") >> 10;
    println!("{opened} connections, {admitted} admitted, {kept} KiB are counted");
    victim.assert_bounded("requests without answers", GROWTH_MAX);
}
