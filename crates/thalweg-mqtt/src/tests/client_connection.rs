//! A client's side with its bytes: packets are seen once and in order, however they come.

use super::*;

/// CONNACK and three publishes of QoS 0, as a server writes them.
fn said() -> Vec<u8> {
    let mut server = ServerSide::new(limits());
    let mut wire = Vec::new();
    let mut client = ClientSide::new(1 << 20);
    let hello = ConnectOut::default();
    client.connect(&hello, &mut wire).expect("CONNECT fits");
    let connected = server.handle_input(&wire).expect("CONNECT is valid");
    assert!(connected.is_some());
    let mut said = Vec::new();
    server.connack(&ConnAck::default(), &mut said);
    for payload in [&b"1"[..], b"22", b"333"] {
        let message = PublishOut {
            topic: "t",
            payload,
            ..PublishOut::default()
        };
        server.publish(&message, &mut said).expect("it fits");
    }
    said
}

fn open() -> ClientConnection {
    ClientConnection::open(&ConnectOut::default()).expect("CONNECT fits")
}

/// What is seen of these bytes: lengths of payloads, 0 for the CONNACK.
fn seen(connection: &mut ClientConnection, bytes: &[u8], stops_at: Option<usize>) -> Vec<usize> {
    let mut seen = Vec::new();
    let result = connection.receive(
        bytes,
        &mut |_, _, event| {
            seen.push(match event {
                ClientEvent::Publish(publish) => publish.payload.len(),
                _ => 0,
            });
            Ok::<_, PeerFault>(seen.last() != stops_at.as_ref())
        },
        |fault| fault,
    );
    assert_eq!(result, Ok(()));
    seen
}

#[test]
fn packets_are_seen_once_and_in_order_whole_and_byte_by_byte() {
    let said = said();
    assert_eq!(seen(&mut open(), &said, None), [0, 1, 2, 3]);
    for size in 1..said.len() {
        let mut connection = open();
        let all: Vec<usize> = said
            .chunks(size)
            .flat_map(|bytes| seen(&mut connection, bytes, None))
            .collect();
        assert_eq!(all, [0, 1, 2, 3], "{size} bytes at a time");
    }
}

#[test]
fn what_was_not_looked_at_is_kept_for_later() {
    let said = said();
    let (mut connection, cut) = (open(), said.len() - 1);
    assert_eq!(seen(&mut connection, &said[..cut], Some(0)), [0]);
    assert!(connection.has_more());
    assert_eq!(seen(&mut connection, &[], None), [1, 2]);
    assert!(!connection.has_more(), "the last one is not whole");
    assert_eq!(seen(&mut connection, &said[cut..], None), [3]);
}

#[test]
fn a_fault_is_answered_and_ends_the_connection() {
    let (mut connection, mut said) = (open(), said());
    // A second CONNACK.
    said.extend_from_slice(&said.clone());
    connection.out.clear();
    let result = connection.receive(&said, &mut |_, _, _| Ok(true), |fault| fault.what);
    assert!(result.is_err());
    assert_eq!(connection.out.first(), Some(&0xE0), "DISCONNECT");
    assert!(seen(&mut connection, &said, None).is_empty());
}

#[test]
fn no_more_is_published_than_the_server_has_room_for() {
    let (mut connection, said) = (open(), said());
    seen(&mut connection, &said, None);
    let quota = usize::from(connection.side.send_quota());
    let mut publish = |qos| connection.publish("t", b"x", qos);
    for _ in 0..quota {
        assert_eq!(publish(QoS::AtLeastOnce), Ok(true));
    }
    assert_eq!(publish(QoS::ExactlyOnce), Ok(false));
    assert_eq!(publish(QoS::AtMostOnce), Ok(true));
}
