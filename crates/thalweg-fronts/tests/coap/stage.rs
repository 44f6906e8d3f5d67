//! Connections of CoAP in front of one broker of several shards. A client does one thing at a time, after which everything
//! comes to rest.

use std::sync::Arc;
use thalweg_coap::stream::{StreamSettings, encode};
use thalweg_coap::{Code, Token};
use thalweg_fronts::LoginAnswer;
use thalweg_fronts::coap::{CoapCounts, CoapSettings};
use thalweg_kernel::access::Access;
use thalweg_kernel::{CloseReason, Effects, Kernel, Limits};
use thalweg_model::Span;
use thalweg_mqtt::{QoS, SubscribeOptions};
use thalweg_testbed::coap::{CoapStream, ReceivedMessage, StreamReply, stream_request};
use thalweg_testbed::mqtt::Mqtt;
use thalweg_testbed::{Settings, Testbed};

pub type Who = thalweg_testbed::Who<CoapStream>;

pub struct Stage {
    pub bed: Testbed,
    opened: Vec<Who>,
    listener: Option<thalweg_testbed::Who<Mqtt>>,
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
        let mut bed = Testbed::before_start(Settings {
            shards,
            limits,
            coap_stream: Arc::new(settings),
            ..Settings::default()
        });
        // Some tests check the output to a connection that is being closed.
        bed.keeps_ended = true;
        Stage {
            bed,
            opened: Vec::new(),
            listener: None,
        }
    }

    /// A connection on which nothing has been said, on shard 0, 1, … in turn.
    pub fn opens(&mut self, anonymous: Option<Access>) -> Who {
        let shard = self.opened.len() % self.bed.shards.len();
        let who = self.bed.open_coap(shard, anonymous);
        self.opened.push(who);
        self.wait(Span::ZERO);
        who
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
        self.bed.says(who, |client, up| client.csm(takes, up));
    }

    /// Sends bytes, and lets everything come to rest.
    pub fn sends(&mut self, who: Who, bytes: &[u8]) {
        self.bed.says(who, |_, up| up.extend_from_slice(bytes));
    }

    /// The request that a line says, with a token of its own.
    pub fn request(&mut self, who: Who, line: &str) -> Vec<u8> {
        self.bed.client(who).request(line)
    }

    pub fn says(&mut self, who: Who, line: &str) {
        let request = self.request(who, line);
        self.sends(who, &request);
    }

    pub fn says_as(&mut self, who: Who, line: &str, token: &[u8]) {
        self.sends(who, &stream_request(line, None, token));
    }

    /// Sends a request, and returns the one message that comes then.
    #[track_caller]
    pub fn asks(&mut self, who: Who, line: &str) -> String {
        assert!(
            self.bed.client(who).said.is_empty(),
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
    pub fn asks_bytes(&mut self, who: Who, line: &str, payload: &[u8]) -> ReceivedMessage {
        self.sends(who, &stream_request(line, Some(payload), &[0xAA]));
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

    /// All messages received since the last call, a line for each.
    pub fn lines(&mut self, who: Who) -> Vec<String> {
        let line = |said| match said {
            StreamReply::Response(heard) => ReceivedMessage::line(&heard)
                .trim_start_matches("ACK ")
                .to_owned(),
            StreamReply::Signal(line) => line,
        };
        self.bed.client(who).said.drain(..).map(line).collect()
    }

    /// The same, responses only.
    pub fn heard(&mut self, who: Who) -> Vec<ReceivedMessage> {
        self.bed.client(who).heard()
    }

    pub fn set_reading(&mut self, who: Who, reads: bool) {
        self.bed.set_reading(who, reads);
    }

    pub fn set_ponging(&mut self, who: Who, pongs: bool) {
        self.bed.client(who).answers_pings = pongs;
    }

    /// Bytes that wait for a client to take them.
    pub fn waiting(&self, who: Who) -> usize {
        self.bed.waiting(who)
    }

    /// Bytes of a client that were not read.
    pub fn unread(&self, who: Who) -> usize {
        self.bed.unread(who)
    }

    pub fn is_connected(&self, who: Who) -> bool {
        self.bed.link(who).is_some_and(|link| link.is_connected())
    }

    pub fn is_closing(&self, who: Who) -> bool {
        self.bed.link(who).is_some_and(|link| link.closing)
    }

    pub fn holds_input(&self, who: Who) -> bool {
        self.bed.link(who).is_some_and(|link| link.holds_input())
    }

    pub fn fault(&self, who: Who) -> Option<String> {
        self.bed.link(who)?.fault()
    }

    pub fn counts(&self) -> CoapCounts {
        let mut counts = CoapCounts::default();
        for who in &self.opened {
            if !self.bed.is_closed(*who) {
                let links = &self.bed.shards[self.bed.shard_of(*who)].links;
                let its = thalweg_fronts::coap::counts(links, self.bed.link_id(*who));
                counts.add(&its.expect("a connection of CoAP"));
            }
        }
        counts
    }

    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.bed.shards.iter().map(|shard| &shard.kernel)
    }

    /// Sessions that are there without a connection: one for each shard.
    pub fn desks(&self) -> usize {
        self.bed.shards.len()
    }

    pub fn close(&mut self, who: Who) {
        self.bed.lose(who);
    }

    pub fn disconnect(&mut self, who: Who, why: CloseReason) {
        let (shard, link) = (self.bed.shard_of(who), self.bed.link_id(who));
        self.bed.shards[shard].links.disconnect(link, why);
        self.bed.rest();
    }

    pub fn silence(&mut self, who: Who) {
        let (shard, link) = (self.bed.shard_of(who), self.bed.link_id(who));
        self.bed.shards[shard].links.on_silence(link);
        self.bed.rest();
    }

    /// The server's answer to the oldest pending login.
    pub fn verdict(&mut self, answer: LoginAnswer) {
        self.bed.answer_login(answer);
    }

    /// Lets time pass, in steps from one deadline to the next.
    pub fn wait(&mut self, span: Span) {
        self.bed.run_for(span);
    }

    /// Everything that was persisted becomes safe.
    pub fn sync(&mut self) {
        self.bed.write_all();
        self.bed.rest();
    }

    pub fn rest(&mut self) {
        self.bed.rest();
    }

    /// An MQTT client subscribes.
    pub fn listens(&mut self, filter: &str) {
        let who = self.bed.mqtt(&self.bed.name_on("listener", 0));
        let options = SubscribeOptions {
            qos: QoS::AtMostOnce,
            ..SubscribeOptions::default()
        };
        self.bed.mqtt_subscribe(who, filter, options);
        self.listener = Some(who);
    }

    /// Reply address of the request that the listener received.
    pub fn reply_address(&mut self) -> String {
        let who = self.listener.expect("somebody listens");
        let last = self.bed.client(who).last.response_topic.take();
        last.expect("a request was heard")
    }

    pub fn publishes(&mut self, topic: &str, payload: &[u8]) {
        let publish = thalweg_mqtt::PublishOut {
            topic,
            payload,
            ..thalweg_mqtt::PublishOut::default()
        };
        let who = self.listener.expect("somebody listens");
        self.bed.mqtt_publish(who, &publish);
    }
}
