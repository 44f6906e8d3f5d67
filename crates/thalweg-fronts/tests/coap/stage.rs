//! A stage without sockets for connections of CoAP: clients in front of one broker of several shards. A client does one
//! thing at a time, after which everything comes to rest.

use crate::script::{self, Heard};
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_coap::stream::{StreamSettings, decode, encode};
use thalweg_coap::{Code, Kind, Message, Token, option};
use thalweg_fronts::coap::{CoapCounts, CoapSettings, CoapStreamFront};
use thalweg_fronts::mqtt::{MqttFront, MqttSettings};
use thalweg_fronts::{Front, Links, LinksLimits, LoginAnswer, LoginAsk, Stopped};
use thalweg_kernel::access::Access;
use thalweg_kernel::{CloseReason, Effects, Kernel, Limits, LinkId, ShardId};
use thalweg_model::{Span, Time};
use thalweg_mqtt::QoS;

/// 2026, so that moments can be told from lengths of time.
const START: Time = Time::from_secs(1_795_000_000);
/// Below so much the server says that an output has drained.
const LOW: usize = 128 << 10;

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who(usize);

struct Shard {
    kernel: Kernel,
    links: Links,
}

/// What a client has heard.
enum Said {
    Response(Heard),
    Signal(String),
}

struct End {
    shard: usize,
    link: LinkId,
    is_open: bool,
    up: Vec<u8>,
    down: Vec<u8>,
    said: VecDeque<Said>,
    /// It takes what is sent to it.
    reads: bool,
    /// It answers Pings.
    pongs: bool,
    token: u16,
}

/// An MQTT client that is there, and the last thing it got.
struct Listener {
    link: LinkId,
    machine: thalweg_mqtt::ClientSide,
    up: Vec<u8>,
    down: Vec<u8>,
    response_topic: Option<String>,
}

pub struct Stage {
    pub now: Time,
    shards: Vec<Shard>,
    settings: Arc<CoapSettings>,
    ends: Vec<End>,
    listener: Option<Listener>,
    pub asked: Vec<(usize, LinkId, LoginAsk)>,
    /// Whether the journal's batches become safe by themselves.
    pub is_disk_working: bool,
}

impl Stage {
    pub fn new() -> Self {
        Stage::with(1, Limits::default(), CoapSettings::default())
    }

    pub fn shards(shards: u16) -> Self {
        Stage::with(shards, Limits::default(), CoapSettings::default())
    }

    pub fn of(settings: CoapSettings) -> Self {
        Stage::with(1, Limits::default(), settings)
    }

    pub fn with(shards: u16, limits: Limits, settings: CoapSettings) -> Self {
        let shard = |number| Shard {
            kernel: Kernel::new(
                limits.clone(),
                ShardId(number),
                shards,
                7 + u64::from(number),
            ),
            links: Links::new(LinksLimits::default()),
        };
        Stage {
            now: START,
            shards: (0..shards).map(shard).collect(),
            settings: Arc::new(settings),
            ends: Vec::new(),
            listener: None,
            asked: Vec::new(),
            is_disk_working: true,
        }
    }

    /// A connection on which nothing has been said, on shard 0, 1, … in turn.
    pub fn opens(&mut self, anonymous: Option<Access>) -> Who {
        let number = self.ends.len();
        let shard = number % self.shards.len();
        let front = CoapStreamFront::new(
            self.settings.clone(),
            0xC0A9_0000_0000 + 77 * number as u64,
            anonymous,
        );
        let link = self.shards[shard]
            .links
            .open(Front::CoapStream(Box::new(front)));
        self.ends.push(End {
            shard,
            link,
            is_open: true,
            up: Vec::new(),
            down: Vec::new(),
            said: VecDeque::new(),
            reads: true,
            pongs: true,
            token: 0,
        });
        self.wait(Span::ZERO);
        Who(number)
    }

    /// A connection that has exchanged CSMs.
    pub fn connects(&mut self) -> Who {
        self.connects_with(StreamSettings::default())
    }

    pub fn connects_with(&mut self, takes: StreamSettings) -> Who {
        let who = self.opens(Some(Access::ALL));
        self.says_csm(who, takes);
        assert!(self.is_connected(who));
        who
    }

    pub fn says_csm(&mut self, who: Who, takes: StreamSettings) {
        let mut csm = Vec::new();
        thalweg_coap::stream::ClientSide::new(takes).open(&mut csm);
        self.sends(who, &csm);
    }

    /// Sends bytes, and lets everything come to rest.
    pub fn sends(&mut self, who: Who, bytes: &[u8]) {
        self.now += Span::from_nanos(1000);
        self.ends[who.0].up.extend_from_slice(bytes);
        self.rest();
    }

    /// The request that a line says, with a token of its own.
    pub fn request(&mut self, who: Who, line: &str) -> Vec<u8> {
        let end = &mut self.ends[who.0];
        end.token += 1;
        let token = end.token.to_be_bytes();
        request(line, None, &token)
    }

    pub fn says(&mut self, who: Who, line: &str) {
        let request = self.request(who, line);
        self.sends(who, &request);
    }

    pub fn says_as(&mut self, who: Who, line: &str, token: &[u8]) {
        self.sends(who, &request(line, None, token));
    }

    /// Sends a request, and the one message that is heard then.
    #[track_caller]
    pub fn asks(&mut self, who: Who, line: &str) -> String {
        assert!(
            self.ends[who.0].said.is_empty(),
            "{:?} was not looked at",
            self.lines(who)
        );
        self.says(who, line);
        let mut lines = self.lines(who);
        lines.retain(|line| line != "ping");
        assert_eq!(lines.len(), 1, "{lines:?} instead of one message");
        lines.remove(0)
    }

    #[track_caller]
    pub fn asks_bytes(&mut self, who: Who, line: &str, payload: &[u8]) -> Heard {
        self.sends(who, &request(line, Some(payload), &[0xAA]));
        let mut heard = self.heard(who);
        assert_eq!(heard.len(), 1);
        heard.remove(0)
    }

    pub fn signals(&mut self, who: Who, code: Code) {
        let mut bytes = Vec::new();
        encode(&mut bytes, code, Token::EMPTY, |_| {}, &[]);
        self.sends(who, &bytes);
    }

    /// Sends a Ping; its token as `lines` shows it.
    pub fn pings(&mut self, who: Who, custody: bool) -> String {
        let mut bytes = Vec::new();
        let options = |encoder: &mut thalweg_coap::Encoder<'_>| {
            if custody {
                encoder.option(2, &[]);
            }
        };
        encode(
            &mut bytes,
            Code::PING,
            Token::new(&[0x99]).expect("short"),
            options,
            &[],
        );
        self.sends(who, &bytes);
        "99".to_owned()
    }

    /// All that was heard since this was last asked, a line for each.
    pub fn lines(&mut self, who: Who) -> Vec<String> {
        let line = |said| match said {
            Said::Response(heard) => Heard::line(&heard).trim_start_matches("ACK ").to_owned(),
            Said::Signal(line) => line,
        };
        self.ends[who.0].said.drain(..).map(line).collect()
    }

    /// The same, responses only.
    pub fn heard(&mut self, who: Who) -> Vec<Heard> {
        let response = |said| match said {
            Said::Response(heard) => Some(heard),
            Said::Signal(_) => None,
        };
        self.ends[who.0]
            .said
            .drain(..)
            .filter_map(response)
            .collect()
    }

    pub fn set_reading(&mut self, who: Who, reads: bool) {
        self.ends[who.0].reads = reads;
        self.rest();
    }

    pub fn set_ponging(&mut self, who: Who, pongs: bool) {
        self.ends[who.0].pongs = pongs;
    }

    /// Bytes that wait for a client to take them.
    pub fn waiting(&self, who: Who) -> usize {
        self.link(who).map_or(0, |link| link.waiting())
    }

    /// Bytes of a client that were not read.
    pub fn unread(&self, who: Who) -> usize {
        self.ends[who.0].up.len()
    }

    fn link(&self, who: Who) -> Option<&thalweg_fronts::Link> {
        let End { shard, link, .. } = &self.ends[who.0];
        self.shards[*shard].links.get(*link)
    }

    pub fn is_connected(&self, who: Who) -> bool {
        self.link(who).is_some_and(|link| link.is_connected())
    }

    pub fn is_closing(&self, who: Who) -> bool {
        self.link(who).is_some_and(|link| link.closing)
    }

    pub fn holds_input(&self, who: Who) -> bool {
        self.link(who).is_some_and(|link| link.holds_input())
    }

    pub fn fault(&self, who: Who) -> Option<String> {
        self.link(who)?.fault()
    }

    pub fn counts(&self) -> CoapCounts {
        let mut counts = CoapCounts::default();
        for End {
            shard,
            link,
            is_open,
            ..
        } in &self.ends
        {
            if *is_open {
                counts.add(
                    &self.shards[*shard]
                        .links
                        .coap_counts(*link)
                        .expect("a connection of CoAP"),
                );
            }
        }
        counts
    }

    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.shards.iter().map(|shard| &shard.kernel)
    }

    /// Sessions that are there without a connection: one for each shard.
    pub fn desks(&self) -> usize {
        self.shards.len()
    }

    pub fn close(&mut self, who: Who) {
        let End {
            shard,
            link,
            is_open,
            ..
        } = &mut self.ends[who.0];
        let Shard { kernel, links } = &mut self.shards[*shard];
        *is_open = false;
        links.close(*link, kernel, self.now);
        self.rest();
    }

    pub fn disconnect(&mut self, who: Who, why: CloseReason) {
        let End { shard, link, .. } = &self.ends[who.0];
        self.shards[*shard].links.disconnect(*link, why);
        self.rest();
    }

    pub fn silence(&mut self, who: Who) {
        let End { shard, link, .. } = &self.ends[who.0];
        self.shards[*shard].links.on_silence(*link);
        self.rest();
    }

    /// The server's verdict on whoever asked first.
    pub fn verdict(&mut self, answer: LoginAnswer) {
        let (shard, link, _) = self.asked.remove(0);
        let Shard { kernel, links } = &mut self.shards[shard];
        links.on_login(link, answer, self.now, kernel);
        self.rest();
    }

    /// Lets time pass, in steps from one deadline to the next.
    pub fn wait(&mut self, span: Span) {
        let end = self.now + span;
        for _ in 0..100_000 {
            let mut next = end;
            for End {
                shard,
                link,
                is_open,
                ..
            } in &self.ends
            {
                if *is_open {
                    next = next.min(self.shards[*shard].links.datagram_timeout(*link));
                }
            }
            next = self
                .shards
                .iter()
                .map(|shard| shard.kernel.poll_timeout())
                .min()
                .unwrap_or(end)
                .min(next);
            self.now = next.max(self.now);
            for End {
                shard,
                link,
                is_open,
                ..
            } in &self.ends
            {
                let Shard { kernel, links } = &mut self.shards[*shard];
                if *is_open && links.datagram_timeout(*link) <= self.now {
                    links.on_datagram_timeout(*link, self.now, kernel);
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
        self.rest();
    }

    /// An MQTT client subscribes.
    pub fn listens(&mut self, filter: &str) {
        let front = MqttFront::new(Arc::new(MqttSettings::default()), 3, Some(Access::ALL));
        let link = self.shards[0].links.open(Front::Mqtt(Box::new(front)));
        let mut machine = thalweg_mqtt::ClientSide::new(1 << 20);
        let connect = thalweg_mqtt::ConnectOut {
            version: thalweg_mqtt::Version::V5,
            client_id: "listener",
            clean_start: true,
            ..thalweg_mqtt::ConnectOut::default()
        };
        let mut up = Vec::new();
        machine.connect(&connect, &mut up).expect("short strings");
        self.listener = Some(Listener {
            link,
            machine,
            up,
            down: Vec::new(),
            response_topic: None,
        });
        self.rest();
        let options = thalweg_mqtt::SubscribeOptions {
            qos: QoS::AtMostOnce,
            ..thalweg_mqtt::SubscribeOptions::default()
        };
        let subscribe = thalweg_mqtt::SubscribeOut {
            id: 1,
            filters: &[(filter, options)],
            ..thalweg_mqtt::SubscribeOut::default()
        };
        let listener = self.listener.as_mut().expect("just made");
        listener
            .machine
            .subscribe(&subscribe, &mut listener.up)
            .expect("connected");
        self.rest();
    }

    /// Where the last message that the listener got wants its answer.
    pub fn reply_address(&mut self) -> String {
        self.listener
            .as_mut()
            .and_then(|listener| listener.response_topic.take())
            .expect("a request was heard")
    }

    /// The listener publishes.
    pub fn publishes(&mut self, topic: &str, payload: &[u8]) {
        let publish = thalweg_mqtt::PublishOut {
            topic,
            payload,
            ..thalweg_mqtt::PublishOut::default()
        };
        let listener = self.listener.as_mut().expect("somebody listens");
        listener
            .machine
            .publish(&publish, &mut listener.up)
            .expect("connected");
        self.rest();
    }

    /// Everything moves until nothing moves.
    pub fn rest(&mut self) {
        for _ in 0..100_000 {
            let mut happened = false;
            for number in 0..self.ends.len() {
                happened |= self.feed(number);
            }
            happened |= self.carry();
            for Shard { kernel, links } in &mut self.shards {
                happened |= links.has_work();
                links.work(self.now, kernel);
            }
            for number in 0..self.ends.len() {
                happened |= self.flush(number);
            }
            happened |= self.hear_listener();
            if !happened {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    fn feed(&mut self, number: usize) -> bool {
        let End {
            shard,
            link,
            up,
            is_open,
            ..
        } = &mut self.ends[number];
        if up.is_empty() || !*is_open {
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
            self.asked.extend(
                links
                    .take_logins()
                    .into_iter()
                    .map(|(link, ask)| (number, link, ask)),
            );
            links.take_ended();
            for (to, message) in links.take_outbox() {
                happened = true;
                let Shard { kernel, links } = &mut self.shards[usize::from(to.0)];
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

    /// What was written reaches the client, if it reads.
    fn flush(&mut self, number: usize) -> bool {
        let End {
            shard,
            link: id,
            down,
            said,
            reads,
            pongs,
            up,
            is_open,
            ..
        } = &mut self.ends[number];
        let Shard { kernel, links } = &mut self.shards[*shard];
        let Some(link) = links.get_mut(*id).filter(|_| *reads && *is_open) else {
            return false;
        };
        let count = link.sendable().len();
        down.extend_from_slice(link.sendable());
        link.advance(count);
        if link.waiting() <= LOW {
            links.on_drained(*id, self.now, kernel);
        }
        let mut used = 0;
        while let Some((len, message)) =
            decode(&down[used..], usize::MAX).expect("the server writes what can be read")
        {
            used += len;
            let token: String = message
                .token
                .as_slice()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let words = String::from_utf8_lossy(message.payload);
            let words = if words.is_empty() {
                String::new()
            } else {
                format!(" : {words}")
            };
            let signal = match message.code {
                Code::CSM => continue,
                Code::PING => {
                    if *pongs {
                        encode(up, Code::PONG, message.token, |_| {}, &[]);
                    }
                    "ping".to_owned()
                }
                Code::PONG if message.options.is_empty() => format!("pong {token}"),
                Code::PONG => format!("pong {token} custody"),
                Code::RELEASE => format!("release{words}"),
                Code::ABORT => format!("abort{words}"),
                code => {
                    said.push_back(Said::Response(Heard {
                        kind: Kind::Acknowledgement,
                        code,
                        id: 0,
                        token: message.token.as_slice().to_vec(),
                        options: message
                            .options
                            .iter()
                            .map(|(number, value)| (number, value.to_vec()))
                            .collect(),
                        payload: message.payload.to_vec(),
                    }));
                    continue;
                }
            };
            said.push_back(Said::Signal(signal));
        }
        down.drain(..used);
        count > 0 || !up.is_empty() && links.get(*id).is_some_and(|link| !link.closing) && used > 0
    }

    fn hear_listener(&mut self) -> bool {
        let Some(Listener {
            link: id,
            machine,
            up,
            down,
            response_topic,
        }) = &mut self.listener
        else {
            return false;
        };
        let Shard { kernel, links } = &mut self.shards[0];
        let used = links.drive(*id, up, self.now, kernel).consumed;
        up.drain(..used);
        let Some(link) = links.get_mut(*id) else {
            return false;
        };
        let count = link.sendable().len();
        down.extend_from_slice(link.sendable());
        link.advance(count);
        let mut done = 0;
        while let Some((consumed, event)) = machine.handle_input(&down[done..]).expect("a packet") {
            done += consumed;
            let thalweg_mqtt::ClientEvent::Publish(publish) = event else {
                continue;
            };
            for property in publish.properties.iter() {
                if let thalweg_mqtt::Property::ResponseTopic(topic) = property {
                    *response_topic = Some(topic.into());
                }
            }
        }
        down.drain(..done);
        used + count > 0
    }
}

/// Writes the request that a line says.
fn request(line: &str, payload: Option<&[u8]>, token: &[u8]) -> Vec<u8> {
    let datagram = script::request_with(line, payload, 0, token);
    let message = Message::decode(&datagram).expect("it was just encoded");
    let mut out = Vec::new();
    let options = |encoder: &mut thalweg_coap::Encoder<'_>| {
        for (number, value) in message.options.iter() {
            encoder.option(number, value);
        }
    };
    assert!(message.code != Code::EMPTY && option::URI_PATH > 0);
    encode(
        &mut out,
        message.code,
        message.token,
        options,
        message.payload,
    );
    out
}
