//! Messages of ZeroMQ's PUSH sockets survive `kill -9` with their frames, once the broker has received them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::hand::{Answer, Hand};
use super::ledger;
use super::process::Home;
use crate::broker::free_port;

const PATIENCE: Duration = Duration::from_secs(30);
const MESSAGES: usize = 500;

#[test]
fn what_push_has_sent_outlives_a_killed_broker() {
    if super::oracle() {
        return;
    }
    for (shards, kills) in [(1, 1), (3, 2)] {
        let zmtp = free_port();
        let home = Home::new(&format!("zeromq-{shards}"))
            .set(&format!("shards={shards}"))
            .set(&format!("listeners.zmtp.bind={zmtp}"))
            .set("zmtp.durable=true");
        let mut process = home.start().expect("it starts");
        let expected =
            |number: usize| vec![number.to_string().into_bytes(), Vec::new(), b"job".to_vec()];
        for kill in 0..kills {
            let mut push = Socket::connect(zmtp, "PUSH");
            for number in kill * MESSAGES..(kill + 1) * MESSAGES {
                push.send(&expected(number));
            }
            let end = Instant::now() + PATIENCE;
            let expected = (kill + 1) * MESSAGES + kill;
            while waiting(&home) < expected as u64 {
                assert!(Instant::now() < end, "only {} came in", waiting(&home));
                std::thread::sleep(Duration::from_millis(20));
            }
            // ZeroMQ has no acknowledgements; this one says that what came before it is written down.
            let mut fence = Hand::passing(home.mqtt, "fence");
            assert_eq!(
                fence.publish("$q/zmtp", b"fence", PATIENCE),
                Answer::Puback(0)
            );
            process.kill();
            process = home.start().expect("it starts again");
        }
        let mut pull = Socket::connect(zmtp, "PULL");
        for kill in 0..kills {
            for number in kill * MESSAGES..(kill + 1) * MESSAGES {
                assert_eq!(pull.receive(), expected(number), "{shards} shards");
            }
            assert_eq!(pull.receive(), [b"fence"]);
        }
        assert_eq!(waiting(&home), 0);
        drop(process);
    }
}

/// Messages in the queue of PUSH and PULL.
fn waiting(home: &Home) -> u64 {
    let queues = ledger::get(home.admin, "/v1/queues").expect("a broker that runs answers");
    let all = queues["items"].as_array().expect("a list");
    let queue = all.iter().find(|queue| queue["queue"] == "zmtp");
    queue.map_or(0, |queue| queue["messages"].as_u64().expect("a number"))
}

/// A socket of ZMTP 3.0 by hand. Frames are short.
struct Socket(TcpStream);

impl Socket {
    fn connect(broker: SocketAddr, kind: &str) -> Socket {
        let stream = TcpStream::connect(broker).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut socket = Socket(stream);
        let mut greeting = [0; 64];
        (greeting[0], greeting[9], greeting[10]) = (0xFF, 0x7F, 3);
        greeting[12..16].copy_from_slice(b"NULL");
        socket.0.write_all(&greeting).expect("written");
        let mut ready = b"\x05READY\x0BSocket-Type".to_vec();
        ready.extend_from_slice(&(kind.len() as u32).to_be_bytes());
        ready.extend_from_slice(kind.as_bytes());
        socket.frame(4, &ready);
        socket.0.read_exact(&mut greeting).expect("a greeting");
        assert_eq!(socket.read_frame().0, 4, "READY");
        socket
    }

    fn frame(&mut self, flags: u8, body: &[u8]) {
        let head = [flags, u8::try_from(body.len()).expect("it is short")];
        self.0.write_all(&[&head, body].concat()).expect("written");
    }

    fn send(&mut self, frames: &[Vec<u8>]) {
        for (at, frame) in frames.iter().enumerate() {
            self.frame(u8::from(at + 1 < frames.len()), frame);
        }
    }

    fn read_frame(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).expect("a frame");
        let mut body = vec![0; usize::from(head[1])];
        self.0.read_exact(&mut body).expect("its body");
        (head[0], body)
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            let (flags, body) = self.read_frame();
            frames.push(body);
            if flags == 0 {
                return frames;
            }
        }
    }
}
