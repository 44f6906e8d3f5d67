//! Messages of ZeroMQ sockets.

use super::{BATCH, Bench, PAYLOAD, TOPIC};
use std::sync::Arc;
use thalweg_fronts::zmtp::{ZmtpFront, ZmtpSettings};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Limits, LinkId};
use thalweg_mqtt::{SubscribeOptions, SubscribeOut, Version};
use thalweg_zmtp::{Announcement, ClientMechanism, ClientSide, SocketType, Traffic};

/// Address and payload in one frame.
const ONE_FRAME: &[u8] = b"plant/line-7/temperature xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/// A socket that has shaken hands, and its end of what follows.
struct Socket {
    link: LinkId,
    traffic: Traffic,
}

impl Socket {
    fn connect(bench: &mut Bench, kind: SocketType) -> Self {
        let front = ZmtpFront::new(Arc::new(ZmtpSettings::default()), 1, Some(Access::ALL));
        let link = bench.links.open(front);
        let limits = thalweg_zmtp::Limits::default();
        let mut client = ClientSide::new(limits, ClientMechanism::Null, &Announcement::of(kind));
        let (mut up, mut down) = (Vec::new(), Vec::new());
        client.greet(&mut up);
        let traffic = loop {
            bench.drive(link, &std::mem::take(&mut up));
            bench.commit();
            down.extend(bench.take(link));
            while let Some((consumed, _)) = client.handle_input(&down, &mut up).expect("legal") {
                down.drain(..consumed);
            }
            if let Some(traffic) = client.traffic() {
                break traffic;
            }
        };
        Socket { link, traffic }
    }

    fn subscriber(bench: &mut Bench) -> Self {
        let mut socket = Socket::connect(bench, SocketType::Sub);
        let mut up = Vec::new();
        socket.traffic.subscribe(b"plant/", &mut up);
        bench.drive(socket.link, &up);
        bench.take(socket.link);
        socket
    }

    /// A batch of one message.
    fn batch(&mut self, frames: &[&[u8]]) -> Vec<u8> {
        let mut input = Vec::new();
        for _ in 0..BATCH {
            for (at, frame) in frames.iter().enumerate() {
                self.traffic.frame(frame, at + 1 < frames.len(), &mut input);
            }
        }
        input
    }
}

/// The message, cut into these frames, from a `from` to as many sockets.
fn pass(from: SocketType, frames: &[&[u8]], to: impl Fn(&mut Bench) -> Socket, many: u32, n: u32) {
    let mut bench = Bench::new(Limits::default());
    let receivers: Vec<Socket> = (0..many).map(|_| to(&mut bench)).collect();
    let mut sender = Socket::connect(&mut bench, from);
    let input = sender.batch(frames);
    for _ in 0..n / BATCH {
        bench.drive(sender.link, &input);
        bench.links.take_dirty(&mut bench.dirty);
        for receiver in &receivers {
            let delivered = bench.discard(receiver.link);
            assert_eq!(delivered, input.len(), "all are delivered as they were cut");
        }
    }
    assert_eq!(bench.kernel.totals().waiting, 0);
}

pub(super) fn two_frames(count: u32) {
    let frames = [TOPIC.as_bytes(), &PAYLOAD];
    pass(SocketType::Pub, &frames, Socket::subscriber, 1, count);
}

pub(super) fn one_frame(count: u32) {
    pass(SocketType::Pub, &[ONE_FRAME], Socket::subscriber, 1, count);
}

pub(super) fn fan_out(count: u32) {
    let frames = [TOPIC.as_bytes(), &PAYLOAD];
    pass(SocketType::Pub, &frames, Socket::subscriber, 100, count);
}

pub(super) fn push_pull(count: u32) {
    let puller = |bench: &mut Bench| Socket::connect(bench, SocketType::Pull);
    pass(SocketType::Push, &[&PAYLOAD], puller, 1, count);
}

pub(super) fn to_mqtt(count: u32) {
    let mut bench = Bench::new(Limits::default());
    let (receiver, mut client) = bench.connect("receiver", Version::V311);
    let subscribe = SubscribeOut {
        id: 1,
        filters: &[("plant/+/temperature", SubscribeOptions::default())],
        ..SubscribeOut::default()
    };
    let mut bytes = Vec::new();
    client.subscribe(&subscribe, &mut bytes).expect("small");
    bench.drive(receiver, &bytes);
    bench.take(receiver);
    let mut sender = Socket::connect(&mut bench, SocketType::Pub);
    let input = sender.batch(&[TOPIC.as_bytes(), &PAYLOAD]);
    // Either has four bytes beside topic and payload.
    for _ in 0..count / BATCH {
        bench.drive(sender.link, &input);
        bench.links.take_dirty(&mut bench.dirty);
        assert_eq!(bench.discard(receiver), input.len(), "all are delivered");
    }
}
