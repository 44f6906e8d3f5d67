//! Shards, the queues between them and the byte streams to clients, all in memory and all in virtual time. Nothing moves
//! by itself: whoever owns a [`Net`] says which bytes and which messages move next.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use thalweg_fronts::mqtt::{MqttFront, MqttSettings};
use thalweg_fronts::{Front, Links, LinksLimits, Stopped};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Draft, Kernel, Limits, LinkId, ShardId, ShardMessage, Totals, home};
use thalweg_model::{Filter, Reliability, RetainOp, Time};
use thalweg_mqtt::{ClientEvent, ClientSide, PeerFault, QoS, ReasonCode};

/// Largest packet a simulated client takes.
const PACKET_BYTES_MAX: u32 = 1 << 20;

/// A packet of the server, taken apart and owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    ConnAck { present: bool, reason: ReasonCode },
    Publish(Got),
    PubAck { id: u16, reason: ReasonCode },
    PubRec { id: u16, reason: ReasonCode },
    PubRel { id: u16 },
    PubComp { id: u16 },
    SubAck { id: u16, codes: Vec<ReasonCode> },
    UnsubAck { id: u16, codes: Vec<ReasonCode> },
    PingResp,
    Disconnect(ReasonCode),
    Auth,
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub topic: String,
    pub payload: Vec<u8>,
    pub qos: QoS,
    pub retain: bool,
    pub dup: bool,
    pub id: u16,
    pub expiry_secs: Option<u32>,
}

/// One kernel with its links.
pub struct Shard {
    pub kernel: Kernel,
    pub links: Links,
    pipes: HashMap<LinkId, usize>,
}

/// A connection: the client's machine, the bytes under way, and the link at the other end.
pub struct Pipe {
    shard: usize,
    pub machine: ClientSide,
    /// Written by the client, not read by the server yet.
    pub up: Vec<u8>,
    /// Arrived at the client, not looked at yet.
    pub inbox: VecDeque<Packet>,
    /// What the server wrote since somebody last took it, whether it will arrive or not.
    pub tap: Vec<Packet>,
    /// The client is gone; the server has not noticed yet.
    pub cut: bool,
    /// The client does not read.
    pub stalled: bool,
    /// What the server did wrong.
    pub fault: Option<PeerFault>,
    link: Option<LinkId>,
    /// Read by the server, not consumed yet.
    tail: Vec<u8>,
    /// Bytes of the link's output that the machine has seen.
    tapped: usize,
    /// Packets in the link's output: where each ends, counted from the connection's first byte.
    under_way: VecDeque<(usize, Packet)>,
    written: usize,
    flushed: usize,
}

/// Everything.
pub struct Net {
    pub now: Time,
    pub shards: Vec<Shard>,
    pub pipes: Vec<Pipe>,
    queues: Vec<VecDeque<ShardMessage>>,
    settings: Arc<MqttSettings>,
    output_low: usize,
    nonce: u64,
}

impl Pipe {
    /// Whether the server has closed its end.
    pub fn is_closed(&self) -> bool {
        self.link.is_none()
    }
}

impl Net {
    pub fn new(shards: u16, limits: &Limits, outputs: LinksLimits, settings: MqttSettings, seed: u64) -> Self {
        let shard = |number| Shard {
            kernel: Kernel::new(limits.clone(), ShardId(number), shards, seed.wrapping_add(u64::from(number))),
            links: Links::new(outputs),
            pipes: HashMap::new(),
        };
        Net {
            now: Time::from_secs(1000),
            shards: (0..shards).map(shard).collect(),
            pipes: Vec::new(),
            queues: (0..usize::from(shards) * usize::from(shards)).map(|_| VecDeque::new()).collect(),
            settings: Arc::new(settings),
            output_low: outputs.output_high / 2,
            nonce: 1,
        }
    }

    /// Where a client's session lives.
    pub fn home_of(&self, client: &str) -> usize {
        usize::from(home(client, self.shards.len() as u16).0)
    }

    /// Connects a client to its home shard; its machine has said nothing yet.
    pub fn open(&mut self, client: &str, access: Access) -> usize {
        let shard = self.home_of(client);
        self.nonce += 1;
        let front = MqttFront::new(self.settings.clone(), self.nonce, Some(access));
        let link = self.shards[shard].links.open(Front::Mqtt(Box::new(front)));
        let number = self.pipes.len();
        self.shards[shard].pipes.insert(link, number);
        self.pipes.push(Pipe {
            shard,
            machine: ClientSide::new(PACKET_BYTES_MAX),
            up: Vec::new(),
            inbox: VecDeque::new(),
            tap: Vec::new(),
            cut: false,
            stalled: false,
            fault: None,
            link: Some(link),
            tail: Vec::new(),
            tapped: 0,
            under_way: VecDeque::new(),
            written: 0,
            flushed: 0,
        });
        number
    }

    /// The server reads at most `count` bytes of what a client wrote. Whether anything happened.
    pub fn feed(&mut self, pipe: usize, count: usize) -> bool {
        let Pipe { up, tail, .. } = &mut self.pipes[pipe];
        let count = count.min(up.len());
        tail.extend(up.drain(..count));
        count > 0 && {
            self.drive(pipe);
            true
        }
    }

    fn drive(&mut self, pipe: usize) {
        let shard = self.pipes[pipe].shard;
        let tail = std::mem::take(&mut self.pipes[pipe].tail);
        let mut used = 0;
        while let Some(link) = self.pipes[pipe].link {
            let Shard { kernel, links, .. } = &mut self.shards[shard];
            let driven = links.drive(link, &tail[used..], self.now, kernel);
            used += driven.consumed;
            self.gather(shard);
            if driven.stopped != Stopped::FlushFirst {
                break;
            }
        }
        let Pipe { link, tail: left, .. } = &mut self.pipes[pipe];
        if link.is_some() {
            left.extend_from_slice(&tail[used..]);
        }
    }

    /// Takes what a shard wants done and looks at what it wrote.
    fn gather(&mut self, shard: usize) {
        let count = self.shards.len();
        for (to, message) in self.shards[shard].links.take_outbox() {
            self.queues[shard * count + usize::from(to.0)].push_back(message);
        }
        assert!(self.shards[shard].links.take_logins().is_empty(), "nobody has credentials here");
        let mut dirty = Vec::new();
        self.shards[shard].links.take_dirty(&mut dirty);
        self.shards[shard].links.take_congested(&mut Vec::new());
        for (link, _) in self.shards[shard].links.take_ended() {
            dirty.push(link);
        }
        for link in dirty {
            let Some(&pipe) = self.shards[shard].pipes.get(&link) else { continue };
            self.look(pipe);
            if self.pipes[pipe].cut {
                continue;
            }
            let done = self.shards[shard].links.get(link).is_some_and(|link| link.closing && link.output().is_empty());
            if done {
                self.close(pipe);
            }
        }
    }

    /// Lets the client's machine see what the server has just written.
    fn look(&mut self, number: usize) {
        let pipe = &mut self.pipes[number];
        let Some(link) = pipe.link.and_then(|link| self.shards[pipe.shard].links.get(link)) else { return };
        while pipe.fault.is_none() {
            match pipe.machine.handle_input(&link.output()[pipe.tapped..]) {
                Ok(Some((consumed, event))) => {
                    pipe.tapped += consumed;
                    pipe.written += consumed;
                    let packet = own(&event);
                    pipe.tap.push(packet.clone());
                    pipe.under_way.push_back((pipe.written, packet));
                }
                Ok(None) => break,
                Err(fault) => pipe.fault = Some(fault),
            }
        }
    }

    /// At most `count` bytes arrive at the client. Whether anything happened.
    pub fn flush(&mut self, number: usize, count: usize) -> bool {
        let now = self.now;
        let pipe = &mut self.pipes[number];
        let (Some(id), false, false) = (pipe.link, pipe.stalled, pipe.cut) else { return false };
        let shard = pipe.shard;
        let Shard { kernel, links, .. } = &mut self.shards[shard];
        let Some(link) = links.get_mut(id) else { return false };
        let count = count.min(link.sendable().len());
        link.advance(count);
        pipe.flushed += count;
        if link.output().is_empty() {
            // A machine that is closed reads nothing more, but the bytes have left.
            pipe.written = pipe.flushed;
            pipe.tapped = 0;
        }
        while pipe.under_way.front().is_some_and(|(end, _)| *end <= pipe.flushed) {
            pipe.inbox.extend(pipe.under_way.pop_front().map(|(_, packet)| packet));
        }
        let waiting = link.waiting();
        if waiting == 0 && link.closing {
            self.close(number);
            return true;
        }
        if waiting <= self.output_low {
            links.on_drained(id, now, kernel);
        }
        self.gather(shard);
        count > 0
    }

    /// The client goes away without a word. `arriving` bytes of what it wrote still reach the server, which notices the
    /// end of the connection later ([`Net::notice`]).
    pub fn cut(&mut self, pipe: usize, arriving: usize) {
        let pipe = &mut self.pipes[pipe];
        pipe.cut = true;
        pipe.up.truncate(arriving);
        pipe.inbox.clear();
        pipe.under_way.clear();
    }

    /// The server notices that a client is gone. Whether anything happened.
    pub fn notice(&mut self, pipe: usize) -> bool {
        let gone = self.pipes[pipe].cut && self.pipes[pipe].link.is_some();
        if gone {
            while self.feed(pipe, usize::MAX) {}
            self.close(pipe);
        }
        gone
    }

    fn close(&mut self, number: usize) {
        self.look(number);
        let now = self.now;
        let pipe = &mut self.pipes[number];
        let Some(link) = pipe.link.take() else { return };
        let shard = pipe.shard;
        pipe.up.clear();
        pipe.tail.clear();
        let Shard { kernel, links, pipes } = &mut self.shards[shard];
        pipes.remove(&link);
        links.close(link, kernel, now);
        self.gather(shard);
    }

    /// The oldest message from one shard to another arrives. Whether there was one.
    pub fn carry(&mut self, from: usize, to: usize) -> bool {
        let count = self.shards.len();
        let Some(message) = self.queues[from * count + to].pop_front() else { return false };
        let Shard { kernel, links, .. } = &mut self.shards[to];
        kernel.on_shard(ShardId(from as u16), message, self.now, links);
        self.gather(to);
        true
    }

    /// Bytes in a connection's output that have not left.
    pub fn output_of(&self, pipe: usize) -> usize {
        let pipe = &self.pipes[pipe];
        let link = pipe.link.and_then(|link| self.shards[pipe.shard].links.get(link));
        link.map_or(0, |link| link.waiting())
    }

    /// Whether a message is between two shards.
    pub fn is_anything_between_shards(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// A shard does what is due, and what it had put off. Whether anything happened.
    pub fn tick(&mut self, shard: usize) -> bool {
        let now = self.now;
        let Shard { kernel, links, pipes } = &mut self.shards[shard];
        let mut happened = kernel.has_work();
        if kernel.poll_timeout() <= now {
            kernel.on_timeout(now, links);
            happened = true;
        }
        kernel.work(now, links);
        let mut rested: Vec<usize> = Vec::new();
        for (link, pipe) in &*pipes {
            let Some(link) = links.get_mut(*link) else { continue };
            if link.pause_until.is_some_and(|until| until <= now) {
                link.pause_until = None;
                rested.push(*pipe);
            }
        }
        rested.sort_unstable(); // A map's order is not the seed's.
        self.gather(shard);
        for pipe in rested {
            self.drive(pipe);
            happened = true;
        }
        happened
    }

    /// Moves everything that can move without a client's doing, in no time. Whether anything happened.
    pub fn settle(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut happened = false;
            for pipe in 0..self.pipes.len() {
                if self.pipes[pipe].link.is_some() {
                    happened |= self.feed(pipe, usize::MAX) | self.flush(pipe, usize::MAX);
                }
            }
            let count = self.shards.len();
            for pair in 0..count * count {
                while self.carry(pair / count, pair % count) {
                    happened = true;
                }
            }
            for shard in 0..count {
                happened |= self.tick(shard);
            }
            if !happened {
                return any;
            }
            any = true;
        }
    }

    /// Forgets all last values, as if each had been cleared by a publish at its home.
    pub fn clear_last_values(&mut self) {
        let now = self.now;
        let all = Filter::new("#").expect("legal");
        for Shard { kernel, links, .. } in &mut self.shards {
            for message in kernel.last_values_matching(&all, usize::MAX, now) {
                let draft = Draft {
                    address: message.address(),
                    payload: b"",
                    reliability: Reliability::AtMostOnce,
                    retain: RetainOp::Clear,
                    expires_in: None,
                    properties: None,
                    ticket: 0,
                    native: None,
                };
                kernel.publish_own(draft, now, links);
            }
        }
    }

    /// A sum over all shards.
    pub fn sum(&self, of: impl Fn(&Kernel) -> u64) -> u64 {
        self.shards.iter().map(|shard| of(&shard.kernel)).sum()
    }

    /// A sum of totals over all shards.
    pub fn total(&self, of: impl Fn(&Totals) -> usize) -> usize {
        self.shards.iter().map(|shard| of(&shard.kernel.totals())).sum()
    }

    /// Copies that wait, counted one by one.
    pub fn waiting(&self) -> u64 {
        let mut waiting = 0;
        for Shard { kernel, .. } in &self.shards {
            kernel.for_each_session(|session| waiting += session.waiting as u64);
            kernel.for_each_group(|group| waiting += group.waiting as u64);
        }
        waiting
    }

    /// The books of all shards, as one line says them: copies routed, and what became of them. In flight are copies that
    /// were sent and are not settled.
    pub fn copies(&self) -> (u64, u64) {
        let routed = self.sum(|kernel| kernel.ledger().routed);
        let done = self.sum(|kernel| {
            let ledger = kernel.ledger();
            ledger.delivered + ledger.expired + ledger.dropped_total()
        });
        (routed, done)
    }
}

fn own(event: &ClientEvent<'_>) -> Packet {
    match event {
        ClientEvent::ConnAck(ack) => Packet::ConnAck { present: ack.values.session_present, reason: ack.values.reason },
        ClientEvent::Publish(publish) => Packet::Publish(Got {
            topic: publish.topic.as_str().to_owned(),
            payload: publish.payload.to_vec(),
            qos: publish.qos,
            retain: publish.retain,
            dup: publish.dup,
            id: publish.id,
            expiry_secs: publish.properties.message_expiry(),
        }),
        ClientEvent::PubAck(ack) => Packet::PubAck { id: ack.id, reason: ack.reason },
        ClientEvent::PubRec(ack) => Packet::PubRec { id: ack.id, reason: ack.reason },
        ClientEvent::PubRel(ack) => Packet::PubRel { id: ack.id },
        ClientEvent::PubComp(ack) => Packet::PubComp { id: ack.id },
        ClientEvent::SubAck(ack) => Packet::SubAck { id: ack.id, codes: ack.codes().collect() },
        ClientEvent::UnsubAck(ack) => Packet::UnsubAck { id: ack.id, codes: ack.codes().collect() },
        ClientEvent::PingResp => Packet::PingResp,
        ClientEvent::Disconnect(disconnect) => Packet::Disconnect(disconnect.reason),
        ClientEvent::Auth(_) => Packet::Auth,
    }
}
