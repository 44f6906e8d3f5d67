//! A broker in memory whose MQTT clients see its output at once, and get it later. Nothing moves by itself: the owner
//! of a [`Net`] decides which bytes and which messages move next, and which part of the journal is written.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use thalweg_fronts::LinksLimits;
use thalweg_fronts::mqtt::MqttSettings;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Draft, Limits};
use thalweg_model::{Filter, Reliability, RetainOp, Time};
use thalweg_mqtt::{ClientSide, PeerFault};
use thalweg_testbed::mqtt::PACKET_BYTES_MAX;
pub use thalweg_testbed::mqtt::{Packet, Received as Got};
use thalweg_testbed::{Client, Settings, Shard, Testbed, Who};

pub type Pipe = Who<End>;

/// The client's end of a connection. Its machine sees what the broker has written; it looks at what has arrived.
pub struct End {
    pub machine: ClientSide,
    /// Arrived at the client, not looked at yet.
    pub inbox: VecDeque<Packet>,
    /// The broker's output since it was last taken, whether it will arrive or not.
    pub tap: Vec<Packet>,
    /// Protocol errors of the broker.
    pub fault: Option<PeerFault>,
    /// Written, and not a whole packet yet.
    rest: Vec<u8>,
    /// Packets that have not arrived: where each ends, counted from the connection's first byte.
    under_way: VecDeque<(usize, Packet)>,
    written: usize,
    arrived: usize,
}

impl Client for End {
    fn receive(&mut self, down: &mut Vec<u8>, _: &mut Vec<u8>) {
        self.arrived += down.len();
        down.clear();
        let arrived = self.arrived;
        while let Some((_, packet)) = self.under_way.pop_front_if(|(end, _)| *end <= arrived) {
            self.inbox.push_back(packet);
        }
    }

    fn overhear(&mut self, written: &[u8]) {
        self.rest.extend_from_slice(written);
        let mut used = 0;
        while self.fault.is_none() {
            match self.machine.handle_input(&self.rest[used..]) {
                Ok(Some((consumed, event))) => {
                    used += consumed;
                    let packet = Packet::of(&event);
                    self.tap.push(packet.clone());
                    self.under_way.push_back((self.written + used, packet));
                }
                Ok(None) => break,
                Err(fault) => self.fault = Some(fault),
            }
        }
        self.written += used;
        self.rest.drain(..used);
    }
}

pub struct Net {
    bed: Testbed,
    pub pipes: Vec<Pipe>,
}

impl Deref for Net {
    type Target = Testbed;

    fn deref(&self) -> &Testbed {
        &self.bed
    }
}

impl DerefMut for Net {
    fn deref_mut(&mut self) -> &mut Testbed {
        &mut self.bed
    }
}

impl Net {
    pub fn new(
        shards: u16,
        limits: &Limits,
        outputs: LinksLimits,
        settings: MqttSettings,
        seed: u64,
    ) -> Self {
        let bed = Testbed::before_start(Settings {
            shards,
            limits: limits.clone(),
            outputs,
            mqtt: Arc::new(settings),
            seed,
            ..Settings::default()
        });
        Net {
            bed,
            pipes: Vec::new(),
        }
    }

    /// Connects a client to its home shard; its machine has said nothing yet.
    pub fn connect(&mut self, client: &str) -> Pipe {
        let front = self.mqtt_front(Some(Access::ALL));
        let end = End {
            machine: ClientSide::new(PACKET_BYTES_MAX),
            inbox: VecDeque::new(),
            tap: Vec::new(),
            fault: None,
            rest: Vec::new(),
            under_way: VecDeque::new(),
            written: 0,
            arrived: 0,
        };
        let shard = self.home_of(client);
        let pipe = self.open(shard, front, end);
        self.pipes.push(pipe);
        pipe
    }

    /// Stops or starts to read.
    pub fn turn(&mut self, pipe: Pipe) {
        let is_stalled = self.is_stalled(pipe);
        self.set_stalled(pipe, !is_stalled);
    }

    /// At most `count` bytes arrive at the client.
    pub fn arrive(&mut self, pipe: Pipe, count: usize) {
        self.flush(pipe, count);
        self.read(pipe);
    }

    /// The client disconnects, and bytes in flight to it are lost. See [`Testbed::cut`].
    pub fn leave(&mut self, pipe: Pipe, arriving: usize) {
        self.cut(pipe, arriving);
        let end = self.client(pipe);
        end.inbox.clear();
        end.under_way.clear();
    }

    /// Forgets all last values, as if each had been cleared by a publish at its home.
    pub fn clear_last_values(&mut self) {
        let now = self.bed.now;
        let all = Filter::new("#").expect("legal");
        for Shard { kernel, links, .. } in &mut self.bed.shards {
            for message in kernel.last_values_matching(&all, usize::MAX, now) {
                let draft = Draft {
                    retain: RetainOp::Clear,
                    ..Draft::new(message.address(), b"", Reliability::AtMostOnce)
                };
                kernel.publish_own(draft, now, links);
            }
        }
    }

    /// Copies that wait, counted one by one.
    pub fn copies_waiting(&self) -> u64 {
        let mut waiting = 0;
        for Shard { kernel, .. } in &self.shards {
            kernel.for_each_session(|session| waiting += session.waiting as u64);
            kernel.for_each_group(Time::ZERO, |group| waiting += group.waiting as u64);
        }
        waiting
    }

    /// The books of all shards as one line: copies routed or restored, and their outcomes. In flight are copies that
    /// were sent and are not settled.
    pub fn copies(&self) -> (u64, u64) {
        let routed = self.sum(|kernel| kernel.ledger().routed + kernel.ledger().restored);
        let done = self.sum(|kernel| {
            let ledger = kernel.ledger();
            ledger.delivered + ledger.expired + ledger.dropped_total()
        });
        (routed, done)
    }
}
