//! Bytes in any pieces mean the same, and bytes without meaning do no harm.

use crate::peer::{Place, Protocol, Stage};
use thalweg_fronts::AnyFront;
use thalweg_kernel::access::Access;
use thalweg_testbed::{Random, Raw, Settings, Testbed};

const SCRIPTS: u64 = 400;

/// Two clients' view of a conversation of which the broker reads so many bytes at a time.
fn conversation(protocol: Protocol, piece_max: usize) -> Vec<String> {
    let mut stage = Stage::new(1);
    stage.bed.piece_max = piece_max;
    stage.declare("work");
    let (one, two) = (
        stage.connect_as(protocol, "one", "one", 3),
        stage.connect_as(protocol, "two", "two", 3),
    );
    let mut seen = Vec::new();
    let places = [
        Place::Address("a/b"),
        Place::Queue("work"),
        Place::Address("ü/x y"),
    ];
    for place in places {
        if !matches!(
            (protocol, place),
            (Protocol::Coap | Protocol::CoapStream, Place::Queue(_))
        ) {
            stage.ask(two, place);
        }
        for body in ["", "1", "a longer one \n\r\0 with odd bytes"] {
            stage.publish(one, place, body);
            for delivery in stage.received(two) {
                stage.acknowledge(two, &delivery);
                seen.push(format!("{delivery:?}"));
            }
        }
        seen.push(format!("closed {}", stage.is_closed(two)));
    }
    seen
}

#[test]
fn one_byte_at_a_time_means_the_same() {
    for protocol in Protocol::ALL {
        let whole = conversation(protocol, usize::MAX);
        assert!(whole.len() > 6, "{protocol:?}: {whole:?}");
        for piece_max in [1, 2, 3, 7] {
            assert_eq!(
                conversation(protocol, piece_max),
                whole,
                "{protocol:?} in pieces of {piece_max}"
            );
        }
    }
}

/// Beginnings of conversations, so that random bytes get beyond the first frame.
const BEGINNINGS: [&[u8]; 7] = [
    b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a",
    b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x01a",
    b"AMQP\x00\x00\x09\x01",
    b"CONNECT\naccept-version:1.2\nhost:/\n\n\0",
    b"\x00\xe1",
    b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
      \x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB",
    b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'><auth \
      xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'>=</auth><stream:stream xmlns='jabber:client' \
      xmlns:stream='http://etherx.jabber.org/streams' version='1.0'><iq type='set' id='b'><bind \
      xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>",
];

fn front(bed: &mut Testbed, number: usize) -> AnyFront {
    let anonymous = Some(Access::ALL);
    match number {
        0 | 1 => bed.mqtt_front(anonymous),
        2 => bed.amqp_front(anonymous),
        3 => bed.stomp_front(anonymous),
        4 => bed.coap_stream_front(anonymous),
        5 => bed.zmtp_front(anonymous),
        _ => bed.xmpp_front(anonymous),
    }
}

#[test]
fn random_bytes_neither_panic_nor_fill_the_memory() {
    let mut random = Random(18);
    for (number, beginning) in BEGINNINGS.iter().enumerate() {
        for _ in 0..SCRIPTS / 50 {
            let mut bed = Testbed::new(Settings {
                coap: vec![Default::default()],
                ..Settings::default()
            });
            let peer = bed.peer(0, 0);
            for _ in 0..50 {
                let front = front(&mut bed, number);
                let shard = bed.queue_shard();
                let who = bed.open(shard, front, Raw::default());
                let mut bytes = beginning.to_vec();
                if random.one_in(3) {
                    let at = random.below(bytes.len());
                    bytes[at] = random.next() as u8;
                }
                bytes.extend((0..random.below(80)).map(|_| random.next() as u8));
                bed.says(who, |_, up| up.extend_from_slice(&bytes));
                bed.send_datagrams(peer, &[&bytes]);
                let received = bed.client(who).received.len();
                assert!(received < 64 << 10, "{received} bytes for {bytes:?}");
                if random.one_in(2) {
                    bed.lose(who);
                }
            }
            let held = bed.sum(|kernel| kernel.bytes_held() as u64);
            assert!(held < 1 << 20, "{held} bytes held");
        }
    }
}
