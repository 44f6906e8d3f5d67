//! Names come back byte by byte, whichever protocols write and read them.

use crate::peer::{Place, Protocol, Stage};

/// Addresses in the canonical rendering. No protocol that is spoken here can say more than UTF-8 without NUL.
const ADDRESSES: [&str; 14] = [
    "a",
    "a/b/c",
    "a.b/c",
    "a%2Fb/c",
    "a%2Bb/%23",
    "a%25b/c%",
    "a b/c d",
    "a*b/c>d",
    "*/x",
    "a:b/c\\d",
    "ü/日本/🦀",
    "a?b=c&d/e",
    "\"a\"/'b'",
    "a//b",
];

const QUEUES: [&str; 10] = [
    "q", "a.b", "a/b", "a%2Fb", "a b", "ü🦀", "*", "a:b\\c", "a?b&c", "$q",
];

#[test]
fn addresses_come_back_between_each_two_protocols() {
    for address in ADDRESSES {
        let place = Place::Address(address);
        let mut stage = Stage::new(1);
        let readers = Protocol::ALL.map(|protocol| stage.connect(protocol, "reader"));
        for reader in readers {
            stage.ask(reader, place);
            stage.bodies(reader);
        }
        for protocol in Protocol::ALL {
            let publisher = stage.connect(protocol, "publisher");
            let body = format!("by {protocol:?}");
            stage.publish(publisher, place, &body);
            for reader in readers {
                let received = stage.received(reader);
                let [delivery] = &received[..] else {
                    panic!("{address:?} {protocol:?} -> {reader:?}: {received:?}")
                };
                assert_eq!(delivery.body, body, "{address:?} -> {reader:?}");
                if let Some(known) = &delivery.address {
                    assert_eq!(known, address, "{protocol:?} -> {reader:?}");
                }
                stage.acknowledge(reader, delivery);
            }
        }
    }
}

#[test]
fn queues_are_found_by_their_names_in_each_two_protocols() {
    for name in QUEUES {
        let place = Place::Queue(name);
        let able = || {
            Protocol::ALL
                .into_iter()
                .filter(|it| it.can_name_queue(name))
        };
        for to in able() {
            let mut stage = Stage::new(1);
            stage.declare(name);
            for protocol in able() {
                let (publisher, reader) =
                    (stage.connect(protocol, "publisher"), stage.connect(to, "r"));
                let body = format!("by {protocol:?}");
                stage.publish(publisher, place, &body);
                stage.ask(reader, place);
                let received = stage.received(reader);
                let [delivery] = &received[..] else {
                    panic!("{name:?} {protocol:?} -> {to:?}: {received:?}")
                };
                assert_eq!(delivery.body, body, "{name:?} -> {to:?}");
                if let Some(known) = &delivery.address {
                    let address = thalweg_kernel::queue_address("", name);
                    assert_eq!(*known, *address, "{protocol:?} -> {to:?}");
                }
                stage.acknowledge(reader, delivery);
                stage.lose(reader);
            }
        }
    }
}
