//! A stage without sockets: CoAP peers, and a few of MQTT, in front of one broker of several shards. A peer does one thing at
//! a time, after which everything comes to rest.

use crate::script::{self, Heard};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use thalweg_coap::{Code, Datagrams, Kind, empty};
use thalweg_fronts::coap::{CoapCounts, CoapFront, CoapSettings, PeerSecurity};
use thalweg_fronts::mqtt::{MqttFront, MqttSettings};
use thalweg_fronts::{Front, Links, LinksLimits, LoginAnswer, LoginAsk, Stopped};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, Limits, LinkId, ShardId};
use thalweg_model::{Span, Time};
use thalweg_mqtt::QoS;

/// 2026, so that moments can be told from lengths of time.
const START: Time = Time::from_secs(1_795_000_000);

/// A CoAP peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who(usize);

/// An MQTT client that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other(usize);

pub struct Shard {
    pub kernel: Kernel,
    pub links: Links,
    socket: LinkId,
}

/// What a peer does with confirmable messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It acknowledges them.
    Polite,
    /// It does nothing.
    Silent,
    /// It rejects every message that is no acknowledgement.
    Rejecting,
}

struct Peer {
    address: SocketAddr,
    shard: usize,
    identity: Option<String>,
    id_last: u16,
    manner: Manner,
    heard: VecDeque<Heard>,
}

struct Pipe {
    shard: usize,
    link: LinkId,
    up: Vec<u8>,
    down: Vec<u8>,
}

struct Device {
    pipe: usize,
    machine: thalweg_mqtt::ClientSide,
    got: Vec<Got>,
    ids: u16,
}

/// A message as an MQTT client got it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Got {
    pub topic: String,
    pub payload: Vec<u8>,
    pub qos: u8,
    pub retain: bool,
    pub content_type: Option<String>,
    pub expiry_secs: Option<u32>,
    pub response_topic: Option<String>,
    pub correlation: Option<Vec<u8>>,
    pub user: Vec<(String, String)>,
}

impl Got {
    pub fn line(&self) -> String {
        format!(
            "{} : {}",
            self.topic,
            String::from_utf8_lossy(&self.payload)
        )
    }
}

pub struct World {
    pub now: Time,
    pub shards: Vec<Shard>,
    peers: Vec<Peer>,
    pipes: Vec<Pipe>,
    devices: Vec<Device>,
    pub asked: Vec<(usize, LinkId, LoginAsk)>,
    /// Whether the journal's batches become safe by themselves.
    pub is_disk_working: bool,
    nonce: u64,
}

impl World {
    pub fn new() -> Self {
        World::with(
            1,
            Limits::default(),
            CoapSettings::default(),
            Some(Access::ALL),
        )
    }

    pub fn shards(shards: u16) -> Self {
        World::with(
            shards,
            Limits::default(),
            CoapSettings::default(),
            Some(Access::ALL),
        )
    }

    pub fn of(settings: CoapSettings) -> Self {
        World::with(1, Limits::default(), settings, Some(Access::ALL))
    }

    pub fn with(
        shards: u16,
        limits: Limits,
        settings: CoapSettings,
        anonymous: Option<Access>,
    ) -> Self {
        let mut world = World::beginning(shards, limits, settings, anonymous);
        world.wait(Span::ZERO);
        world
    }

    /// In which nothing has happened yet: no front has begun.
    pub fn beginning(
        shards: u16,
        limits: Limits,
        settings: CoapSettings,
        anonymous: Option<Access>,
    ) -> Self {
        let settings = Arc::new(settings);
        let shard = |number| {
            let mut links = Links::new(LinksLimits::default());
            let front = CoapFront::new(
                settings.clone(),
                0xC0A9 + u64::from(number),
                anonymous.clone(),
            );
            let socket = links.open(Front::CoapDatagrams(Box::new(front)));
            let kernel = Kernel::new(
                limits.clone(),
                ShardId(number),
                shards,
                7 + u64::from(number),
            );
            Shard {
                kernel,
                links,
                socket,
            }
        };
        World {
            now: START,
            shards: (0..shards).map(shard).collect(),
            peers: Vec::new(),
            pipes: Vec::new(),
            devices: Vec::new(),
            asked: Vec::new(),
            is_disk_working: true,
            nonce: 1,
        }
    }

    /// A peer at an address of its own, on shard 0, 1, … in turn.
    pub fn peer(&mut self) -> Who {
        let number = self.peers.len();
        self.peer_on(number % self.shards.len())
    }

    pub fn peer_on(&mut self, shard: usize) -> Who {
        let number = self.peers.len();
        let address = SocketAddr::from(([127, 0, 0, 1], 40_000 + number as u16));
        let (manner, heard) = (Manner::Polite, VecDeque::new());
        self.peers.push(Peer {
            address,
            shard,
            identity: None,
            id_last: 100,
            manner,
            heard,
        });
        Who(number)
    }

    /// A peer whom DTLS knows.
    pub fn known_peer(&mut self, identity: &str) -> Who {
        let who = self.peer();
        self.peers[who.0].identity = Some(identity.to_owned());
        who
    }

    pub fn set_manner(&mut self, who: Who, manner: Manner) {
        self.peers[who.0].manner = manner;
    }

    /// Sends a datagram, and lets everything come to rest.
    pub fn sends(&mut self, who: Who, datagram: &[u8]) {
        self.sends_all(who, &[datagram]);
    }

    /// Sends several at once.
    pub fn sends_all(&mut self, who: Who, datagrams: &[&[u8]]) {
        self.now += Span::from_nanos(1000);
        let peer = &self.peers[who.0];
        let Shard {
            kernel,
            links,
            socket,
        } = &mut self.shards[peer.shard];
        let security = || match &peer.identity {
            None => PeerSecurity::None,
            Some(identity) => PeerSecurity::Identified(identity),
        };
        let batch = datagrams
            .iter()
            .map(|datagram| (peer.address, security(), *datagram));
        links.handle_datagrams(*socket, batch, self.now, kernel);
        self.rest();
    }

    /// Sends a request that nobody goes on with before [`World::rest`].
    pub fn says_without_rest(&mut self, who: Who, line: &str) {
        let id = self.next_id(who);
        let request = script::request(line, id, &[who.0 as u8, (id >> 8) as u8, id as u8]);
        self.now += Span::from_nanos(1000);
        let peer = &self.peers[who.0];
        let Shard {
            kernel,
            links,
            socket,
        } = &mut self.shards[peer.shard];
        let datagram = std::iter::once((peer.address, PeerSecurity::None, &request[..]));
        links.handle_datagrams(*socket, datagram, self.now, kernel);
    }

    pub fn next_id(&mut self, who: Who) -> u16 {
        let peer = &mut self.peers[who.0];
        peer.id_last += 1;
        peer.id_last
    }

    /// Sends a request with a token of its own, and forgets nothing of what is heard.
    pub fn says(&mut self, who: Who, line: &str) -> u16 {
        let id = self.next_id(who);
        let token = [who.0 as u8, (id >> 8) as u8, id as u8];
        self.says_with(who, line, id, &token);
        id
    }

    pub fn says_with(&mut self, who: Who, line: &str, id: u16, token: &[u8]) {
        let request = script::request(line, id, token);
        self.sends(who, &request);
    }

    /// Sends a request, and the one message that is heard then.
    #[track_caller]
    pub fn asks(&mut self, who: Who, line: &str) -> String {
        self.asks_raw(who, line).line()
    }

    #[track_caller]
    pub fn asks_raw(&mut self, who: Who, line: &str) -> Heard {
        assert!(
            self.peers[who.0].heard.is_empty(),
            "{:?} was not looked at",
            self.lines(who)
        );
        self.says(who, line);
        self.one(who)
    }

    /// The same with a payload that is no text.
    #[track_caller]
    pub fn asks_bytes(&mut self, who: Who, line: &str, payload: &[u8]) -> Heard {
        let id = self.next_id(who);
        let token = [who.0 as u8, (id >> 8) as u8, id as u8];
        let request = script::request_with(line, Some(payload), id, &token);
        self.sends(who, &request);
        self.one(who)
    }

    /// The only message that is heard.
    #[track_caller]
    pub fn one(&mut self, who: Who) -> Heard {
        let heard = self.heard(who);
        let [only] = &heard[..] else {
            panic!(
                "{:?} instead of one message",
                heard.iter().map(Heard::line).collect::<Vec<_>>()
            )
        };
        only.clone()
    }

    /// All that is heard since this was last asked.
    pub fn heard(&mut self, who: Who) -> Vec<Heard> {
        self.peers[who.0].heard.drain(..).collect()
    }

    pub fn lines(&mut self, who: Who) -> Vec<String> {
        self.heard(who).iter().map(Heard::line).collect()
    }

    /// Acknowledges or rejects.
    pub fn replies(&mut self, who: Who, kind: Kind, id: u16) {
        let mut out = Vec::new();
        empty(&mut out, kind, id);
        self.sends(who, &out);
    }

    pub fn counts(&self) -> CoapCounts {
        let mut counts = CoapCounts::default();
        for shard in &self.shards {
            counts.add(&shard.links.coap_counts(shard.socket).expect("a socket"));
        }
        counts
    }

    /// The server's verdict on whoever asked first.
    pub fn verdict(&mut self, answer: LoginAnswer) {
        let (shard, link, ask) = self.asked.remove(0);
        let Shard { kernel, links, .. } = &mut self.shards[shard];
        match ask {
            LoginAsk::Proven { identity } => {
                links.on_proven(link, &identity, answer, self.now, kernel)
            }
            _ => links.on_login(link, answer, self.now, kernel),
        }
        self.rest();
    }

    pub fn peer_gone(&mut self, who: Who) {
        let peer = &self.peers[who.0];
        let Shard {
            kernel,
            links,
            socket,
        } = &mut self.shards[peer.shard];
        links.on_peer_gone(*socket, peer.address, self.now, kernel);
        self.rest();
    }

    /// Closes the sockets, and says whether nothing is left of them.
    pub fn shut_down(&mut self) {
        for Shard {
            kernel,
            links,
            socket,
        } in &mut self.shards
        {
            links.close(*socket, kernel, self.now);
        }
        self.rest();
    }

    /// Lets time pass, in steps from one deadline to the next.
    pub fn wait(&mut self, span: Span) {
        let end = self.now + span;
        for _ in 0..1_000_000 {
            let next = self.shards.iter().map(|shard| {
                let timeout = shard.links.datagram_timeout(shard.socket);
                timeout.min(shard.kernel.poll_timeout())
            });
            let next = next.min().unwrap_or(Time::NEVER).min(end);
            self.now = next.max(self.now);
            for Shard {
                kernel,
                links,
                socket,
            } in &mut self.shards
            {
                if links.datagram_timeout(*socket) <= self.now {
                    links.on_datagram_timeout(*socket, self.now, kernel);
                }
            }
            self.rest();
            if self.now >= end {
                return;
            }
        }
        panic!("timers never rest");
    }

    /// Everything that was persisted becomes safe.
    pub fn sync(&mut self) {
        for Shard { links, .. } in &mut self.shards {
            while let Some(batch) = links.take_batch(Vec::new()) {
                links.complete(batch.number);
            }
        }
        self.work();
    }

    fn work(&mut self) -> bool {
        let mut happened = false;
        for Shard { kernel, links, .. } in &mut self.shards {
            happened |= links.has_work();
            links.work(self.now, kernel);
        }
        happened
    }

    /// An MQTT 5 client comes in.
    pub fn mqtt(&mut self, name: &str) -> Other {
        self.nonce += 1;
        let front = MqttFront::new(
            Arc::new(MqttSettings::default()),
            self.nonce,
            Some(Access::ALL),
        );
        let shard = usize::from(thalweg_kernel::home(name, self.shards.len() as u16).0);
        let link = self.shards[shard].links.open(Front::Mqtt(Box::new(front)));
        self.pipes.push(Pipe {
            shard,
            link,
            up: Vec::new(),
            down: Vec::new(),
        });
        let pipe = self.pipes.len() - 1;
        let mut machine = thalweg_mqtt::ClientSide::new(1 << 20);
        let connect = thalweg_mqtt::ConnectOut {
            version: thalweg_mqtt::Version::V5,
            client_id: name,
            clean_start: true,
            ..thalweg_mqtt::ConnectOut::default()
        };
        machine
            .connect(&connect, &mut self.pipes[pipe].up)
            .expect("short strings");
        self.devices.push(Device {
            pipe,
            machine,
            got: Vec::new(),
            ids: 0,
        });
        self.rest();
        Other(self.devices.len() - 1)
    }

    pub fn mqtt_publish(&mut self, other: Other, publish: &thalweg_mqtt::PublishOut<'_>) {
        self.now += Span::from_nanos(1000);
        let device = &mut self.devices[other.0];
        device.ids += 1;
        let publish = thalweg_mqtt::PublishOut {
            id: device.ids,
            ..*publish
        };
        device
            .machine
            .publish(&publish, &mut self.pipes[device.pipe].up)
            .expect("connected");
        self.rest();
    }

    /// Publishes text.
    pub fn mqtt_says(&mut self, other: Other, topic: &str, text: &str, qos: QoS, retain: bool) {
        let publish = thalweg_mqtt::PublishOut {
            topic,
            payload: text.as_bytes(),
            qos,
            retain,
            ..thalweg_mqtt::PublishOut::default()
        };
        self.mqtt_publish(other, &publish);
    }

    pub fn mqtt_subscribe(&mut self, other: Other, filter: &str) {
        let device = &mut self.devices[other.0];
        device.ids += 1;
        let options = thalweg_mqtt::SubscribeOptions {
            qos: QoS::ExactlyOnce,
            retain_as_published: true,
            ..thalweg_mqtt::SubscribeOptions::default()
        };
        let subscribe = thalweg_mqtt::SubscribeOut {
            id: device.ids,
            filters: &[(filter, options)],
            ..thalweg_mqtt::SubscribeOut::default()
        };
        device
            .machine
            .subscribe(&subscribe, &mut self.pipes[device.pipe].up)
            .expect("connected");
        self.rest();
    }

    /// Messages received since this was last asked.
    pub fn mqtt_messages(&mut self, other: Other) -> Vec<Got> {
        std::mem::take(&mut self.devices[other.0].got)
    }

    /// The only one.
    #[track_caller]
    pub fn mqtt_message(&mut self, other: Other) -> Got {
        let got = self.mqtt_messages(other);
        let [only] = &got[..] else {
            panic!("{got:?} instead of one message")
        };
        only.clone()
    }

    pub fn mqtt_lines(&mut self, other: Other) -> Vec<String> {
        self.mqtt_messages(other).iter().map(Got::line).collect()
    }

    /// Everything moves until nothing moves.
    pub fn rest(&mut self) {
        for _ in 0..100_000 {
            let mut happened = false;
            for pipe in 0..self.pipes.len() {
                happened |= self.feed(pipe);
            }
            happened |= self.carry();
            happened |= self.work();
            happened |= self.flush();
            for device in &mut self.devices {
                happened |= device.look(&mut self.pipes[device.pipe]);
            }
            if !happened {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    fn feed(&mut self, number: usize) -> bool {
        let Pipe {
            shard, link, up, ..
        } = &mut self.pipes[number];
        if up.is_empty() {
            return false;
        }
        let Shard { kernel, links, .. } = &mut self.shards[*shard];
        let mut used = 0;
        loop {
            let driven = links.drive(*link, &up[used..], self.now, kernel);
            used += driven.consumed;
            links.take_dirty(&mut Vec::new());
            if driven.stopped != Stopped::FlushFirst {
                break;
            }
        }
        up.drain(..used);
        used > 0
    }

    /// Messages between shards, timers, the journal, and questions about peers.
    fn carry(&mut self) -> bool {
        let mut happened = false;
        for number in 0..self.shards.len() {
            let Shard { kernel, links, .. } = &mut self.shards[number];
            if kernel.poll_timeout() <= self.now {
                kernel.on_timeout(self.now, links);
                happened = true;
            }
            happened |= kernel.has_work();
            kernel.work(self.now, links);
            self.asked.extend(
                links
                    .take_logins()
                    .into_iter()
                    .map(|(link, ask)| (number, link, ask)),
            );
            links.take_ended();
            for (to, message) in links.take_outbox() {
                happened = true;
                let Shard { kernel, links, .. } = &mut self.shards[usize::from(to.0)];
                kernel.on_shard(ShardId(number as u16), message, self.now, links);
            }
        }
        if self.is_disk_working {
            for Shard { links, .. } in &mut self.shards {
                while let Some(batch) = links.take_batch(Vec::new()) {
                    links.complete(batch.number);
                }
            }
        }
        happened
    }

    /// Datagrams reach their peers, and the bytes of links theirs.
    fn flush(&mut self) -> bool {
        let mut happened = false;
        let mut replies: Vec<(usize, Vec<u8>)> = Vec::new();
        for (number, Shard { links, socket, .. }) in self.shards.iter_mut().enumerate() {
            let mut out = Datagrams::new();
            links.take_datagrams(*socket, &mut out);
            for (to, bytes) in out.iter() {
                happened = true;
                let Some(at) = self.peers.iter().position(|peer| peer.address == to) else {
                    continue;
                };
                let peer = &mut self.peers[at];
                assert_eq!(peer.shard, number, "a peer is on one shard");
                let heard = Heard::read(bytes);
                let is_ours = matches!(heard.kind, Kind::Confirmable | Kind::NonConfirmable)
                    && heard.code != Code::EMPTY;
                let reply = match peer.manner {
                    Manner::Polite if heard.kind == Kind::Confirmable => {
                        Some(Kind::Acknowledgement)
                    }
                    Manner::Rejecting if is_ours => Some(Kind::Reset),
                    _ => None,
                };
                if let Some(kind) = reply {
                    let mut reply = Vec::new();
                    empty(&mut reply, kind, heard.id);
                    replies.push((at, reply));
                }
                peer.heard.push_back(heard);
            }
        }
        for (at, reply) in replies {
            let Peer { address, shard, .. } = self.peers[at];
            let Shard {
                kernel,
                links,
                socket,
            } = &mut self.shards[shard];
            let security = match &self.peers[at].identity {
                None => PeerSecurity::None,
                Some(identity) => PeerSecurity::Identified(identity),
            };
            links.handle_datagrams(
                *socket,
                std::iter::once((address, security, &reply[..])),
                self.now,
                kernel,
            );
        }
        for Pipe {
            shard, link, down, ..
        } in &mut self.pipes
        {
            let Some(link) = self.shards[*shard].links.get_mut(*link) else {
                continue;
            };
            let count = link.sendable().len();
            down.extend_from_slice(link.sendable());
            link.advance(count);
            happened |= count > 0;
        }
        happened
    }
}

impl Device {
    fn look(&mut self, pipe: &mut Pipe) -> bool {
        let mut used = 0;
        while let Some((consumed, event)) = self
            .machine
            .handle_input(&pipe.down[used..])
            .expect("a packet")
        {
            used += consumed;
            match event {
                thalweg_mqtt::ClientEvent::Publish(publish) => {
                    let mut got = Got {
                        topic: publish.topic.as_str().into(),
                        payload: publish.payload.to_vec(),
                        qos: publish.qos as u8,
                        retain: publish.retain,
                        ..Got::default()
                    };
                    for property in publish.properties.iter() {
                        match property {
                            thalweg_mqtt::Property::User(name, value) => {
                                got.user.push((name.into(), value.into()))
                            }
                            thalweg_mqtt::Property::ContentType(text) => {
                                got.content_type = Some(text.into())
                            }
                            thalweg_mqtt::Property::MessageExpiry(secs) => {
                                got.expiry_secs = Some(secs)
                            }
                            thalweg_mqtt::Property::ResponseTopic(topic) => {
                                got.response_topic = Some(topic.into())
                            }
                            thalweg_mqtt::Property::CorrelationData(data) => {
                                got.correlation = Some(data.into())
                            }
                            _ => {}
                        }
                    }
                    self.got.push(got);
                    match publish.qos {
                        QoS::AtMostOnce => {}
                        QoS::AtLeastOnce => {
                            self.machine.puback(
                                publish.id,
                                thalweg_mqtt::ReasonCode::Success,
                                &mut pipe.up,
                            );
                        }
                        QoS::ExactlyOnce => {
                            self.machine.pubrec(
                                publish.id,
                                thalweg_mqtt::ReasonCode::Success,
                                &mut pipe.up,
                            );
                        }
                    }
                }
                thalweg_mqtt::ClientEvent::PubRel(ack) => {
                    self.machine
                        .pubcomp(ack.id, thalweg_mqtt::ReasonCode::Success, &mut pipe.up);
                }
                _ => {}
            }
        }
        pipe.down.drain(..used);
        used > 0
    }
}
