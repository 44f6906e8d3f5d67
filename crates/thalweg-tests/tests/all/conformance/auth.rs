//! Authentication and authorization: passwords, SCRAM-SHA-256 and re-authentication, and refused publishes.

use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::*;
use crate::broker::Broker;

const METHOD: &str = "SCRAM-SHA-256";
const SALT: &[u8] = b"salt of the tests";
const ITERATIONS: u32 = 4096;

/// A broker that knows the user `ada` with the password `pencil`, and denies every user access to `secret/…`.
fn guarded() -> Option<Arc<Broker>> {
    static GUARDED: Kept = OnceLock::new();
    if oracle_deviates("is not configured so") {
        return None;
    }
    Some(kept(&GUARDED, || {
        let salted = salted("pencil");
        let stored = digest::digest(&digest::SHA256, &sign(&salted, b"Client Key"));
        let verifier = format!(
            "ada:{METHOD}${ITERATIONS}:{}${}:{}\n",
            BASE64.encode(SALT),
            BASE64.encode(stored),
            BASE64.encode(sign(&salted, b"Server Key"))
        );
        Broker::with()
            .file("users", &verifier)
            .file("rules", "topic deny secret/#\ntopic readwrite #\nuser ada\ntopic deny secret/#\ntopic readwrite #\n")
            .set("access.password_file", "{folder}/users")
            .set("access.acl_file", "{folder}/rules")
    }))
}

fn salted(password: &str) -> [u8; 32] {
    let mut out = [0; 32];
    let iterations = NonZeroU32::new(ITERATIONS).expect("it is not zero");
    pbkdf2::derive(
        pbkdf2::PBKDF2_HMAC_SHA256,
        iterations,
        SALT,
        password.as_bytes(),
        &mut out,
    );
    out
}

fn sign(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text)
        .as_ref()
        .to_vec()
}

/// The client's half of one SCRAM exchange (RFC 5802 §5).
struct Scram {
    first_bare: String,
    password: &'static str,
}

impl Scram {
    fn new(password: &'static str) -> Self {
        Self {
            first_bare: format!("n=ada,r={}", unique("nonce")),
            password,
        }
    }

    /// The properties of the packet that begins the exchange.
    fn first(&self) -> Vec<u8> {
        said(format!("n,,{}", self.first_bare))
    }

    /// The properties of the client's last packet, and the proof the broker owes in return.
    fn last(&self, server_first: &str) -> (Vec<u8>, String) {
        let nonce = server_first
            .split(',')
            .find_map(|part| part.strip_prefix("r="))
            .expect("a nonce");
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{server_first},{without_proof}", self.first_bare);
        let salted = salted(self.password);
        let key = sign(&salted, b"Client Key");
        let stored = digest::digest(&digest::SHA256, &key);
        let signature = sign(stored.as_ref(), signed.as_bytes());
        let proof: Vec<u8> = key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        let expected = sign(&sign(&salted, b"Server Key"), signed.as_bytes());
        (
            said(format!("{without_proof},p={}", BASE64.encode(proof))),
            format!("v={}", BASE64.encode(expected)),
        )
    }
}

/// Authentication Method and Authentication Data.
fn said(data: String) -> Vec<u8> {
    [
        property::text(property::AUTH_METHOD, METHOD),
        property::text(property::AUTH_DATA, data),
    ]
    .concat()
}

/// The broker's AUTH, which has this reason code and the method of CONNECT; its data.
fn expect_auth(peer: &mut Peer, expected: u8) -> String {
    match peer.next() {
        Packet::Auth { reason, properties } => {
            assert_eq!(reason, expected);
            assert_eq!(properties.text(property::AUTH_METHOD), Some(METHOD));
            properties
                .text(property::AUTH_DATA)
                .unwrap_or_default()
                .to_owned()
        }
        other => panic!("expected AUTH, got {other:?}"),
    }
}

/// Connects as `ada` up to the broker's AUTH.
fn begin(broker: &Arc<Broker>, scram: &Scram) -> (Peer, String) {
    let mut peer = Peer::open_to(Arc::clone(broker), V5);
    peer.send(
        &Connect::new(V5, unique("scram"))
            .with(scram.first())
            .bytes(),
    );
    let challenge = expect_auth(&mut peer, 0x18);
    (peer, challenge)
}

/// A connected `ada`.
fn ada(broker: &Arc<Broker>) -> Peer {
    let scram = Scram::new("pencil");
    let (mut peer, challenge) = begin(broker, &scram);
    let (answer, owed) = scram.last(&challenge);
    peer.send(&auth(0x18, &answer));
    let connack = peer.connack();
    assert_eq!(connack.code, 0);
    assert_eq!(connack.properties.text(property::AUTH_METHOD), Some(METHOD));
    assert_eq!(
        connack.properties.text(property::AUTH_DATA),
        Some(owed.as_str()),
        "the broker proves itself too"
    );
    peer
}

/// [MQTT-4.12.0-2] [MQTT-4.12.0-3] [MQTT-4.12.0-5] [MQTT-3.15.2-1] [MQTT-3.2.0-1]
#[test]
fn scram_lets_in_who_knows_the_password() {
    let Some(broker) = guarded() else { return };
    assert_eq!(ada(&broker).until_pong(), []);
}

/// The exchange has no words for explanations in packets that must stay small. [MQTT-3.15.2-2] [MQTT-3.15.2-3]
#[test]
fn auth_keeps_within_the_clients_packet_size() {
    let Some(broker) = guarded() else { return };
    let scram = Scram::new("pencil");
    let connect = Connect::new(V5, unique("scram")).with(scram.first());
    // Method, and the longest data that SCRAM needs here.
    let mut peer = Peer::open_to(broker, V5).taking_at_most(200);
    peer.send(
        &connect
            .with(property::four(property::MAXIMUM_PACKET_SIZE, 200))
            .bytes(),
    );
    let challenge = expect_auth(&mut peer, 0x18);
    peer.send(&auth(0x18, &scram.last(&challenge).0));
    assert_eq!(peer.connack().code, 0);
}

/// [MQTT-4.12.0-4] [MQTT-4.13.2-1] [MQTT-3.2.2-7]
#[test]
fn scram_refuses_who_does_not() {
    let Some(broker) = guarded() else { return };
    let scram = Scram::new("crayon");
    let (mut peer, challenge) = begin(&broker, &scram);
    peer.send(&auth(0x18, &scram.last(&challenge).0));
    match peer.ending() {
        Ending::Connack(code) => assert!([0x86, 0x87].contains(&code), "{code:#04x}"),
        other => panic!("{other:?}"),
    }
}

/// [MQTT-4.12.0-3] [MQTT-4.12.0-5] [MQTT-3.15.2-1] [MQTT-3.15.1-1] [MQTT-4.12.0-4] [MQTT-3.14.0-1]
#[test]
fn an_auth_that_does_not_belong_ends_the_exchange() {
    let Some(broker) = guarded() else { return };
    let other_method = property::text(property::AUTH_METHOD, "SCRAM-SHA-1");
    let mut reserved = auth(0x18, &said("x".into()));
    reserved[0] |= 2;
    for bytes in [
        auth(0x18, &other_method),
        auth(0x18, &[]),
        auth(0x19, &said("x".into())),
        auth(0x00, &said("x".into())),
        auth(0x77, &said("x".into())),
        auth(0x18, &said("not scram".into())),
        reserved,
    ] {
        let (mut peer, _) = begin(&broker, &Scram::new("pencil"));
        peer.send(&bytes);
        match peer.ending() {
            Ending::Connack(code) => assert!(
                [0x81, 0x82, 0x86, 0x87, 0x8C].contains(&code),
                "{code:#04x}"
            ),
            Ending::Silent => {}
            Ending::Disconnect(code) => panic!("DISCONNECT {code:#04x} before CONNACK"),
        }
    }
}

/// [MQTT-3.1.2-30] [MQTT-3.14.0-1]
#[test]
fn nothing_but_auth_and_disconnect_may_come_before_connack() {
    let Some(broker) = guarded() else { return };
    let topic = unique("early");
    let mut watcher = ada(&broker);
    watcher.subscribe(&topic, 0);
    for bytes in [
        Publish::new(&topic, "early").bytes(V5),
        subscribe(V5, 1, &[], &[("a", 0)]),
        pingreq(),
        disconnect(),
    ] {
        let (mut peer, _) = begin(&broker, &Scram::new("pencil"));
        peer.send(&bytes);
        match peer.ending() {
            Ending::Silent | Ending::Connack(0x82) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(watcher.messages_until_own_mark(), []);
}

/// [MQTT-4.12.1-1] [MQTT-4.12.0-5] [MQTT-3.15.2-1]
#[test]
fn a_client_may_authenticate_again_while_messages_flow() {
    let Some(broker) = guarded() else { return };
    let topic = unique("flow");
    let mut peer = ada(&broker);
    peer.subscribe(&topic, 1);
    for _ in 0..2 {
        let scram = Scram::new("pencil");
        peer.send(&auth(0x19, &scram.first()));
        let challenge = expect_auth(&mut peer, 0x18);
        peer.publish(&Publish::new(&topic, "meanwhile").qos(1, 1));
        let message = peer.message();
        assert_eq!(message.text(), "meanwhile");
        peer.settle(&message);
        let (answer, owed) = scram.last(&challenge);
        peer.send(&auth(0x18, &answer));
        assert_eq!(expect_auth(&mut peer, 0x00), owed);
    }
    assert_eq!(peer.until_pong(), []);
}

/// [MQTT-4.12.1-2] [MQTT-4.12.1-1]
#[test]
fn a_second_authentication_that_fails_ends_the_connection() {
    let Some(broker) = guarded() else { return };
    let scram = Scram::new("crayon");
    let mut peer = ada(&broker);
    peer.send(&auth(0x19, &scram.first()));
    let challenge = expect_auth(&mut peer, 0x18);
    peer.send(&auth(0x18, &scram.last(&challenge).0));
    // 0x86 is for CONNACK only.
    peer.expect_end(&[0x87]);

    let mut peer = ada(&broker);
    peer.send(&auth(
        0x19,
        &property::text(property::AUTH_METHOD, "SCRAM-SHA-1"),
    ));
    peer.expect_end(&[0x82, 0x8C]);
}

/// [MQTT-3.1.4-2] [MQTT-3.2.2-7] [MQTT-3.2.2-6] [MQTT3-3.2.2-5] [MQTT3-3.2.2-4]
#[test]
fn a_wrong_password_is_refused_and_a_right_one_is_not() {
    let Some(broker) = guarded() else { return };
    for version in BOTH {
        let connect = |user: &str, password: &str| {
            let mut peer = Peer::open_to(Arc::clone(&broker), version);
            peer.send(
                &Connect::new(version, unique("pw"))
                    .user_name(user)
                    .password(password)
                    .bytes(),
            );
            peer
        };
        assert_eq!(connect("ada", "pencil").connack().code, 0);
        for (user, password) in [
            ("ada", "crayon"),
            ("ada", ""),
            ("eve", "pencil"),
            ("", "pencil"),
        ] {
            match connect(user, password).ending() {
                Ending::Connack(code) => {
                    assert!(
                        if version == V5 { [0x86, 0x87] } else { [4, 5] }.contains(&code),
                        "{code:#04x}"
                    );
                }
                other => panic!("{user} {password}: {other:?}"),
            }
        }
    }
}

/// [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-4.3.3-9]
#[test]
fn a_publish_that_is_not_allowed_is_refused_with_its_code() {
    let Some(broker) = guarded() else { return };
    let mut peer = ada(&broker);
    assert_eq!(peer.publish(&Publish::new("secret/x", "x").qos(1, 1)), 0x87);
    assert_eq!(peer.publish(&Publish::new("secret/x", "x").qos(2, 2)), 0x87);
    // The refused identifier is free: the next PUBLISH with it is another message.
    let topic = unique("open");
    peer.subscribe(&topic, 0);
    assert_eq!(peer.publish(&Publish::new(&topic, "new").qos(2, 2)), 0);
    assert_eq!(peer.message().text(), "new");
    peer.publish(&Publish::new("secret/x", "x"));
    assert_eq!(peer.until_pong(), [], "QoS 0 has no answer to carry a code");
}

/// [MQTT3-3.3.5-2]
#[test]
fn a_publish_that_is_not_allowed_is_acknowledged_or_ends_the_connection_in_mqtt_311() {
    let Some(broker) = guarded() else { return };
    let (mut peer, _) =
        Peer::open_to(Arc::clone(&broker), V311).accepted(&Connect::new(V311, unique("c")));
    peer.send(&Publish::new("secret/x", "x").qos(1, 1).bytes(V311));
    peer.send(&Publish::new("secret/x", "x").qos(2, 2).bytes(V311));
    assert_eq!(peer.ack(PUBACK, 1), 0);
    assert_eq!(peer.ack(PUBREC, 2), 0);
    peer.send(&ack(PUBREL, 2));
    assert_eq!(peer.ack(PUBCOMP, 2), 0);
}
