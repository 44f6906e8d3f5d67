//! A stage without sockets: STOMP clients, and a few of MQTT, in front of one broker of several shards. A client does one
//! thing at a time, after which everything comes to rest.

use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_fronts::mqtt::{MqttFront, MqttSettings};
use thalweg_fronts::stomp::{StompFront, StompSettings};
use thalweg_fronts::{Front, Links, LinksLimits, LoginAnswer, LoginAsk, Stopped};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, Limits, LinkId, ShardId};
use thalweg_model::{Span, Time};
use thalweg_stomp::{
    AckOut, ClientEvent, ClientSide, ConnectOut, FrameLimits, HeaderWriter, SendOut, SubscribeOut,
    Version,
};

/// 2026, so that moments can be told from lengths of time.
const START: Time = Time::from_secs(1_795_000_000);

/// A STOMP client that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who(usize);

/// An MQTT client that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other(usize);

/// What a client hears that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Connected {
        version: Version,
        heart_beat: (u32, u32),
    },
    Receipt(String),
    Error {
        message: String,
        receipt: Option<String>,
        body: String,
    },
    HeartBeat,
}

/// A message as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub subscription: Option<String>,
    pub message_id: String,
    pub ack: Option<String>,
    pub destination: String,
    pub redelivered: bool,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Got {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| &**value)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

struct Shard {
    kernel: Kernel,
    links: Links,
}

/// A connection: what the client wrote and the server has not consumed, and what the client has not looked at.
struct Pipe {
    shard: usize,
    link: Option<LinkId>,
    up: Vec<u8>,
    down: Vec<u8>,
    /// The client does not read.
    stalled: bool,
}

struct Client {
    pipe: usize,
    machine: ClientSide,
    got: VecDeque<Got>,
    heard: VecDeque<Heard>,
    receipts: u32,
}

struct Device {
    pipe: usize,
    machine: thalweg_mqtt::ClientSide,
    got: Vec<(String, Vec<u8>)>,
    properties: Vec<(String, String)>,
    response_topic: Option<String>,
    correlation: Option<Vec<u8>>,
    ids: u16,
}

/// How a client comes in.
#[derive(Clone)]
pub struct Hello<'a> {
    pub connect: ConnectOut<'a>,
    pub access: Option<Access>,
}

impl Default for Hello<'_> {
    fn default() -> Self {
        Hello {
            connect: ConnectOut::default(),
            access: Some(Access::ALL),
        }
    }
}

pub struct World {
    pub now: Time,
    shards: Vec<Shard>,
    pipes: Vec<Pipe>,
    clients: Vec<Client>,
    devices: Vec<Device>,
    pub settings: StompSettings,
    outputs: LinksLimits,
    pub asked: Vec<(LinkId, LoginAsk)>,
    /// Whether the journal's batches become safe by themselves.
    pub is_disk_working: bool,
    nonce: u64,
}

impl World {
    pub fn new() -> Self {
        World::with(1, Limits::default(), StompSettings::default())
    }

    pub fn with(shards: u16, limits: Limits, settings: StompSettings) -> Self {
        let outputs = LinksLimits {
            output_high: 16 << 10,
            output_max: 64 << 10,
            unflushed_max: 1 << 20,
        };
        let shard = |number| Shard {
            kernel: Kernel::new(
                limits.clone(),
                ShardId(number),
                shards,
                7 + u64::from(number),
            ),
            links: Links::new(outputs),
        };
        World {
            now: START,
            shards: (0..shards).map(shard).collect(),
            pipes: Vec::new(),
            clients: Vec::new(),
            devices: Vec::new(),
            settings,
            outputs,
            asked: Vec::new(),
            is_disk_working: true,
            nonce: 1,
        }
    }

    pub fn kernel(&self) -> &Kernel {
        &self.shards[self.queue_shard()].kernel
    }

    fn queue_shard(&self) -> usize {
        self.shards
            .iter()
            .position(|shard| shard.kernel.has_queues())
            .expect("some shard has the queues")
    }

    fn open(&mut self, shard: usize, front: Front) -> usize {
        let link = self.shards[shard].links.open(front);
        self.pipes.push(Pipe {
            shard,
            link: Some(link),
            up: Vec::new(),
            down: Vec::new(),
            stalled: false,
        });
        self.pipes.len() - 1
    }

    /// Sends CONNECT; what the server says to it can be [`heard`](World::heard).
    pub fn try_connect(&mut self, hello: &Hello<'_>) -> Who {
        self.nonce += 1;
        let front = StompFront::new(
            Arc::new(self.settings.clone()),
            self.nonce,
            hello.access.clone(),
        );
        let pipe = self.open(self.queue_shard(), Front::Stomp(Box::new(front)));
        let mut machine = ClientSide::new(FrameLimits::default());
        machine.connect(&hello.connect, &mut self.pipes[pipe].up);
        self.clients.push(Client {
            pipe,
            machine,
            got: VecDeque::new(),
            heard: VecDeque::new(),
            receipts: 0,
        });
        self.rest();
        Who(self.clients.len() - 1)
    }

    pub fn connect_with(&mut self, hello: &Hello<'_>) -> Who {
        let who = self.try_connect(hello);
        let heard = self.heard(who);
        assert!(
            matches!(heard, Some(Heard::Connected { .. })),
            "{heard:?} instead of CONNECTED"
        );
        who
    }

    pub fn connect(&mut self) -> Who {
        self.connect_with(&Hello::default())
    }

    /// The server's verdict on whoever asked first.
    pub fn allow(&mut self, answer: LoginAnswer) {
        let (link, _) = self.asked.remove(0);
        let shard = self.queue_shard();
        let Shard { kernel, links } = &mut self.shards[shard];
        links.on_login(link, answer, self.now, kernel);
        self.rest();
    }

    /// Lets a client write, and everything come to rest.
    pub fn says<R>(
        &mut self,
        who: Who,
        write: impl FnOnce(&mut ClientSide, &mut Vec<u8>) -> R,
    ) -> R {
        let client = &mut self.clients[who.0];
        let result = write(&mut client.machine, &mut self.pipes[client.pipe].up);
        self.rest();
        result
    }

    /// Whatever bytes.
    pub fn writes(&mut self, who: Who, bytes: &[u8]) {
        self.says(who, |_, up| up.extend_from_slice(bytes));
    }

    /// The next name for a receipt.
    fn receipt(&mut self, who: Who) -> String {
        let client = &mut self.clients[who.0];
        client.receipts += 1;
        format!("r{}", client.receipts)
    }

    /// The receipt must be the next thing that is heard.
    pub fn hears_receipt(&mut self, who: Who, receipt: &str) {
        assert_eq!(self.heard(who), Some(Heard::Receipt(receipt.to_owned())));
    }

    pub fn send_with(
        &mut self,
        who: Who,
        send: &SendOut<'_>,
        more: impl FnOnce(&mut HeaderWriter<'_>),
    ) {
        self.says(who, |machine, up| machine.send(send, more, up));
    }

    /// Sends without asking for anything.
    pub fn send(&mut self, who: Who, destination: &str, body: &str) {
        self.send_headers(who, destination, body, &[]);
    }

    pub fn send_headers(
        &mut self,
        who: Who,
        destination: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) {
        let send = SendOut {
            destination,
            body: body.as_bytes(),
            ..SendOut::default()
        };
        self.send_with(who, &send, |w| {
            for (name, value) in headers {
                assert!(w.put(name, value));
            }
        });
    }

    /// Subscribes with a receipt.
    pub fn subscribe(&mut self, who: Who, subscribe: &SubscribeOut<'_>) {
        let receipt = self.receipt(who);
        let subscribe = SubscribeOut {
            receipt: Some(&receipt),
            ..*subscribe
        };
        self.says(who, |machine, up| machine.subscribe(&subscribe, up));
        self.hears_receipt(who, &receipt);
    }

    pub fn listen(&mut self, who: Who, id: &str, destination: &str) {
        self.subscribe(
            who,
            &SubscribeOut {
                id: Some(id),
                destination,
                ..SubscribeOut::default()
            },
        );
    }

    /// Subscribes and must be refused; what was said.
    pub fn refused(&mut self, who: Who, subscribe: &SubscribeOut<'_>) -> (String, String) {
        let subscribe = SubscribeOut {
            receipt: Some("no"),
            ..*subscribe
        };
        self.says(who, |machine, up| machine.subscribe(&subscribe, up));
        self.hears_error(who, Some("no"))
    }

    /// ERROR must be the next thing that is heard, and then the end.
    pub fn hears_error(&mut self, who: Who, about: Option<&str>) -> (String, String) {
        match self.heard(who) {
            Some(Heard::Error {
                message,
                receipt,
                body,
            }) => {
                assert_eq!(receipt.as_deref(), about, "{message}: {body}");
                assert!(self.is_closed(who), "the connection stays open after ERROR");
                (message, body)
            }
            other => panic!("{other:?} instead of ERROR"),
        }
    }

    pub fn unsubscribe(&mut self, who: Who, id: &str, headers: &[(&str, &str)]) {
        let receipt = self.receipt(who);
        self.says(who, |machine, up| {
            machine.unsubscribe(id, Some(&receipt), headers, up)
        });
        self.hears_receipt(who, &receipt);
    }

    pub fn ack(&mut self, who: Who, got: &Got) {
        self.ack_in(who, got, None);
    }

    pub fn ack_in(&mut self, who: Who, got: &Got, transaction: Option<&str>) {
        let ack = ack_of(got, transaction);
        self.says(who, |machine, up| machine.ack(&ack, up));
    }

    pub fn nack(&mut self, who: Who, got: &Got) {
        let ack = ack_of(got, None);
        self.says(who, |machine, up| machine.nack(&ack, up));
    }

    /// The messages received since this was last asked.
    pub fn messages(&mut self, who: Who) -> Vec<Got> {
        self.clients[who.0].got.drain(..).collect()
    }

    /// The only message received since this was last asked.
    pub fn message(&mut self, who: Who) -> Got {
        let messages = self.messages(who);
        let [only] = &messages[..] else {
            panic!("{messages:?} instead of one message")
        };
        only.clone()
    }

    pub fn texts(&mut self, who: Who) -> Vec<String> {
        self.messages(who)
            .iter()
            .map(|got| got.text().to_owned())
            .collect()
    }

    pub fn heard(&mut self, who: Who) -> Option<Heard> {
        self.clients[who.0].heard.pop_front()
    }

    pub fn is_closed(&self, who: Who) -> bool {
        self.pipes[self.clients[who.0].pipe].link.is_none()
    }

    pub fn read(&mut self, who: Who, reads: bool) {
        let pipe = self.clients[who.0].pipe;
        self.pipes[pipe].stalled = !reads;
        self.rest();
    }

    /// Bytes that wait for a client.
    pub fn output_of(&self, who: Who) -> usize {
        let pipe = &self.pipes[self.clients[who.0].pipe];
        let link = pipe
            .link
            .and_then(|link| self.shards[pipe.shard].links.get(link));
        link.map_or(0, |link| link.waiting())
    }

    /// What is written for a client that does not read.
    pub fn unread(&mut self, who: Who) -> Vec<u8> {
        let pipe = &self.pipes[self.clients[who.0].pipe];
        let link = pipe
            .link
            .and_then(|link| self.shards[pipe.shard].links.get_mut(link));
        link.expect("open").sendable().to_vec()
    }

    /// Goes without a word.
    pub fn lose(&mut self, who: Who) {
        let pipe = self.clients[who.0].pipe;
        self.close(pipe);
        self.rest();
    }

    /// What the server's timers say of a connection: how long it may be silent, and how long it may hear nothing.
    pub fn limits_of(&self, who: Who) -> (Option<Span>, Option<Span>) {
        let pipe = &self.pipes[self.clients[who.0].pipe];
        let links = &self.shards[pipe.shard].links;
        let link = pipe.link.expect("open");
        (links.silence_max(link), links.idle_write(link))
    }

    /// The server's timer says that nothing was sent for long.
    pub fn idle(&mut self, who: Who) {
        let pipe = &self.pipes[self.clients[who.0].pipe];
        self.shards[pipe.shard]
            .links
            .on_idle(pipe.link.expect("open"), self.now);
        self.rest();
    }

    /// The server's timer says that nothing was received for long.
    pub fn silent(&mut self, who: Who) {
        let pipe = &self.pipes[self.clients[who.0].pipe];
        self.shards[pipe.shard]
            .links
            .on_silence(pipe.link.expect("open"));
        self.rest();
    }

    pub fn wait(&mut self, span: Span) {
        self.now += span;
        self.rest();
    }

    /// Everything that was persisted becomes safe.
    pub fn sync(&mut self) {
        for Shard { links, .. } in &mut self.shards {
            while let Some(batch) = links.take_batch(Vec::new()) {
                links.complete(batch.number);
            }
        }
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
        let pipe = self.open(shard, Front::Mqtt(Box::new(front)));
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
            properties: Vec::new(),
            response_topic: None,
            correlation: None,
            ids: 0,
        });
        self.rest();
        Other(self.devices.len() - 1)
    }

    pub fn mqtt_publish(&mut self, other: Other, publish: &thalweg_mqtt::PublishOut<'_>) {
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

    pub fn mqtt_subscribe(&mut self, other: Other, filter: &str) {
        let device = &mut self.devices[other.0];
        device.ids += 1;
        let options = thalweg_mqtt::SubscribeOptions {
            qos: thalweg_mqtt::QoS::AtLeastOnce,
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

    /// Topics and payloads received since this was last asked.
    pub fn mqtt_messages(&mut self, other: Other) -> Vec<(String, Vec<u8>)> {
        std::mem::take(&mut self.devices[other.0].got)
    }

    /// What the last message said: user properties, response topic, correlation data.
    #[allow(clippy::type_complexity)] // Said once.
    pub fn mqtt_properties(
        &self,
        other: Other,
    ) -> (&[(String, String)], Option<&str>, Option<&[u8]>) {
        let device = &self.devices[other.0];
        (
            &device.properties,
            device.response_topic.as_deref(),
            device.correlation.as_deref(),
        )
    }

    /// Everything moves until nothing moves.
    pub fn rest(&mut self) {
        loop {
            let mut happened = false;
            for pipe in 0..self.pipes.len() {
                happened |= self.feed(pipe);
            }
            happened |= self.carry();
            for pipe in 0..self.pipes.len() {
                happened |= self.flush(pipe);
            }
            for client in &mut self.clients {
                happened |= client.look(&mut self.pipes[client.pipe]);
            }
            for device in &mut self.devices {
                happened |= device.look(&mut self.pipes[device.pipe]);
            }
            if !happened {
                return;
            }
        }
    }

    fn feed(&mut self, number: usize) -> bool {
        let Pipe {
            shard,
            link: Some(link),
            up,
            ..
        } = &mut self.pipes[number]
        else {
            return false;
        };
        if up.is_empty() {
            return false;
        }
        let Shard { kernel, links } = &mut self.shards[*shard];
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
            let Shard { kernel, links } = &mut self.shards[number];
            if kernel.poll_timeout() <= self.now {
                kernel.on_timeout(self.now, links);
                happened = true;
            }
            happened |= kernel.has_work();
            kernel.work(self.now, links);
            for pipe in &self.pipes {
                if let (true, Some(link)) = (
                    pipe.shard == number,
                    pipe.link.and_then(|link| links.get_mut(link)),
                ) && link.pause_until.is_some_and(|until| until <= self.now)
                {
                    link.pause_until = None;
                }
            }
            self.asked.extend(links.take_logins());
            links.take_ended();
            assert!(
                links.take_fetches().is_empty(),
                "nothing is long enough to be on disk only"
            );
            for (to, message) in links.take_outbox() {
                happened = true;
                let Shard { kernel, links } = &mut self.shards[usize::from(to.0)];
                kernel.on_shard(ShardId(number as u16), message, self.now, links);
            }
        }
        if self.is_disk_working {
            self.sync();
        }
        happened
    }

    fn flush(&mut self, number: usize) -> bool {
        let Pipe {
            shard,
            link: Some(id),
            down,
            stalled,
            ..
        } = &mut self.pipes[number]
        else {
            return false;
        };
        if *stalled {
            return false;
        }
        let Shard { kernel, links } = &mut self.shards[*shard];
        let Some(link) = links.get_mut(*id) else {
            return false;
        };
        let count = link.sendable().len();
        down.extend_from_slice(link.sendable());
        link.advance(count);
        let (waiting, closing) = (link.waiting(), link.closing);
        if waiting == 0 && closing {
            self.close(number);
            return true;
        }
        if count > 0 && waiting <= self.outputs.output_high / 2 {
            links.on_drained(*id, self.now, kernel);
        }
        count > 0
    }

    fn close(&mut self, number: usize) {
        let pipe = &mut self.pipes[number];
        pipe.up.clear();
        if let Some(link) = pipe.link.take() {
            let Shard { kernel, links } = &mut self.shards[pipe.shard];
            links.close(link, kernel, self.now);
        }
    }
}

fn ack_of<'a>(got: &'a Got, transaction: Option<&'a str>) -> AckOut<'a> {
    AckOut {
        ack: got.ack.as_deref().unwrap_or_default(),
        message_id: &got.message_id,
        subscription: got.subscription.as_deref(),
        transaction,
        receipt: None,
    }
}

impl Client {
    fn look(&mut self, pipe: &mut Pipe) -> bool {
        let mut used = 0;
        loop {
            let event = match self.machine.handle_input(&pipe.down[used..]) {
                Ok(Some((consumed, event))) => {
                    used += consumed;
                    event
                }
                Ok(None) => break,
                Err(fault) => panic!("the server breaks the protocol: {fault}"),
            };
            match event {
                ClientEvent::Connected(connected) => self.heard.push_back(Heard::Connected {
                    version: connected.version,
                    heart_beat: connected.heart_beat,
                }),
                ClientEvent::Message(message) => self.got.push_back(Got {
                    subscription: message.subscription.map(Into::into),
                    message_id: message.message_id.into(),
                    ack: message.ack.map(Into::into),
                    destination: message.destination.into(),
                    redelivered: message.redelivered,
                    headers: message
                        .headers
                        .iter()
                        .map(|(name, value)| (name.into(), value.into()))
                        .collect(),
                    body: message.body.to_vec(),
                }),
                ClientEvent::Receipt(receipt) => {
                    self.heard.push_back(Heard::Receipt(receipt.into()))
                }
                ClientEvent::Error(error) => self.heard.push_back(Heard::Error {
                    message: error.message.unwrap_or_default().into(),
                    receipt: error.receipt_id.map(Into::into),
                    body: String::from_utf8_lossy(error.body).into(),
                }),
                ClientEvent::HeartBeat => self.heard.push_back(Heard::HeartBeat),
            }
        }
        // A frame ends with NUL; a line feed behind it is no sign of life of its own.
        pipe.down.drain(..used);
        used > 0
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
            if let thalweg_mqtt::ClientEvent::Publish(publish) = event {
                self.got
                    .push((publish.topic.as_str().into(), publish.payload.to_vec()));
                self.properties.clear();
                (self.response_topic, self.correlation) = (None, None);
                for property in publish.properties.iter() {
                    match property {
                        thalweg_mqtt::Property::User(name, value) => {
                            self.properties.push((name.into(), value.into()))
                        }
                        thalweg_mqtt::Property::ResponseTopic(topic) => {
                            self.response_topic = Some(topic.into())
                        }
                        thalweg_mqtt::Property::CorrelationData(data) => {
                            self.correlation = Some(data.into())
                        }
                        _ => {}
                    }
                }
                if publish.qos == thalweg_mqtt::QoS::AtLeastOnce {
                    self.machine.puback(
                        publish.id,
                        thalweg_mqtt::ReasonCode::Success,
                        &mut pipe.up,
                    );
                }
            }
        }
        pipe.down.drain(..used);
        used > 0
    }
}
