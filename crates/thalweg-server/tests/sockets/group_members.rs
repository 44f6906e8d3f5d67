//! Members of a shared subscription over real sockets: what lies in the socket of one that does not read is little, and
//! the others get the rest. Nothing here sleeps; reads wait with a limit.

use crate::support::folder::Folder;
use crate::{PATIENCE, address};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use thalweg_server::Server;

const TOPIC: &[u8] = b"jobs/1";
const PAYLOAD: usize = 100;
/// PUBLISH with QoS 0: two bytes of fixed header, the topic with its length, the payload.
const PACKET: usize = 2 + 2 + TOPIC.len() + PAYLOAD;

#[test]
fn a_member_that_does_not_read_keeps_little_from_the_others_and_goes_on_when_it_reads_again() {
    const FIRST: usize = 20_000;
    const BATCHES: usize = 20;
    const BATCH: usize = 10;
    let (server, _folder) = start();
    let mut silent = Member::join(address(&server, "mqtt"), "silent", Some(4096));
    let mut diligent = Member::join(address(&server, "mqtt"), "diligent", None);
    let mut publisher = connect(address(&server, "mqtt"), "publisher", None);

    publish(&mut publisher, FIRST);
    // What the other one has: its receive buffer, and what was in its output when its socket was found full.
    let most = FIRST - 400;
    let since = Instant::now();
    while diligent.got() < most {
        diligent.read(PATIENCE);
        assert!(
            since.elapsed() < PATIENCE,
            "{} of {FIRST} after {PATIENCE:?}",
            diligent.got()
        );
    }

    // Nothing is lost: what one does not have, the other one has.
    read_all(&mut silent, &mut diligent, FIRST);

    // And now that it reads it gets its turns again, as it did before.
    let before = silent.got();
    for batch in 1..=BATCHES {
        publish(&mut publisher, BATCH);
        read_all(&mut silent, &mut diligent, FIRST + batch * BATCH);
    }
    let late = silent.got() - before;
    assert!(
        late >= BATCHES * BATCH / 4,
        "the one who reads again got {late} of {}",
        BATCHES * BATCH
    );
    drop(server);
}

/// Reads until each of so many messages has come to one of them.
fn read_all(one: &mut Member, other: &mut Member, all: usize) {
    let since = Instant::now();
    while one.got() + other.got() < all {
        one.read(Duration::from_millis(2));
        other.read(Duration::from_millis(2));
        assert!(
            since.elapsed() < PATIENCE,
            "{} and {} of {all}",
            one.got(),
            other.got()
        );
    }
    assert_eq!(one.got() + other.got(), all, "none came twice");
}

/// A subscriber with QoS 0, of which nothing is known but its socket.
struct Member {
    stream: TcpStream,
    bytes: usize,
}

impl Member {
    fn join(address: SocketAddr, name: &str, receive_buffer: Option<usize>) -> Member {
        let mut stream = connect(address, name, receive_buffer);
        let filter = b"$share/g/jobs/+";
        let mut packet = vec![
            0x82,
            2 + 2 + filter.len() as u8 + 1,
            0,
            1,
            0,
            filter.len() as u8,
        ];
        packet.extend_from_slice(filter);
        packet.push(0);
        stream.write_all(&packet).expect("it leaves");
        let mut suback = [0; 5];
        stream.read_exact(&mut suback).expect("an answer");
        assert_eq!(suback, [0x90, 3, 0, 1, 0]);
        Member { stream, bytes: 0 }
    }

    fn read(&mut self, patience: Duration) {
        self.stream
            .set_read_timeout(Some(patience))
            .expect("a time limit");
        match self.stream.read(&mut [0; 64 << 10]) {
            Ok(0) => panic!("closed after {} messages", self.got()),
            Ok(count) => self.bytes += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn got(&self) -> usize {
        self.bytes / PACKET
    }
}

fn connect(address: SocketAddr, name: &str, receive_buffer: Option<usize>) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    if let Some(bytes) = receive_buffer {
        // Before it is connected, so that it holds from the beginning.
        socket.set_recv_buffer_size(bytes).expect("a small buffer");
    }
    socket.connect(&address.into()).expect("a connection");
    let mut stream = TcpStream::from(socket);
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    let mut packet = vec![0x10, 12 + name.len() as u8, 0, 4];
    packet.extend_from_slice(b"MQTT\x04\x02\x00\x00\x00");
    packet.push(name.len() as u8);
    packet.extend_from_slice(name.as_bytes());
    stream.write_all(&packet).expect("it leaves");
    let mut connack = [0; 4];
    stream.read_exact(&mut connack).expect("an answer");
    assert_eq!(connack, [0x20, 2, 0, 0]);
    stream
}

fn publish(stream: &mut TcpStream, count: usize) {
    let mut packet = vec![0x30, (PACKET - 2) as u8, 0, TOPIC.len() as u8];
    packet.extend_from_slice(TOPIC);
    packet.resize(PACKET, b'x');
    stream.write_all(&packet.repeat(count)).expect("they leave");
}

fn start() -> (Server, Folder) {
    const SETS: [&str; 4] = [
        "shards=1",
        "listeners.mqtt.bind=127.0.0.1:0",
        "listeners.websocket.enabled=false",
        "journal.enabled=false",
    ];
    let folder = Folder::new("members");
    let server = Server::start(folder.configuration(&SETS, &[]));
    (server.expect("a server"), folder)
}
