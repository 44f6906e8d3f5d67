//! CoAP peers, and a few of MQTT, in front of one broker of several shards. A peer does one thing at a time, after which
//! everything comes to rest.

use std::sync::Arc;
use thalweg_coap::{Type, empty};
use thalweg_fronts::LoginAnswer;
use thalweg_fronts::coap::{CoapCounts, CoapSettings};
use thalweg_kernel::Limits;
use thalweg_kernel::access::Access;
use thalweg_model::Span;
use thalweg_mqtt::{QoS, SubscribeOptions};
pub use thalweg_testbed::coap::{Manner, PeerId as Who, ReceivedMessage};
use thalweg_testbed::coap::{request, request_with};
use thalweg_testbed::mqtt::Mqtt;
pub use thalweg_testbed::mqtt::Received as Got;
use thalweg_testbed::{Settings, Testbed};

pub type Other = thalweg_testbed::Who<Mqtt>;

pub struct World {
    pub bed: Testbed,
    peers: usize,
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
        let bed = Testbed::before_start(Settings {
            shards,
            limits,
            coap: vec![Arc::new(settings)],
            coap_anonymous: anonymous,
            ..Settings::default()
        });
        World { bed, peers: 0 }
    }

    /// A peer at an address of its own, on shard 0, 1, … in turn.
    pub fn peer(&mut self) -> Who {
        self.peer_on(self.peers % self.bed.shards.len())
    }

    pub fn peer_on(&mut self, shard: usize) -> Who {
        self.peers += 1;
        self.bed.peer(shard, 0)
    }

    /// A peer whom DTLS knows.
    pub fn known_peer(&mut self, identity: &str) -> Who {
        let who = self.peer();
        self.bed.set_identity(who, identity);
        who
    }

    pub fn set_manner(&mut self, who: Who, manner: Manner) {
        self.bed.set_manner(who, manner);
    }

    /// Sends a datagram, and lets everything come to rest.
    pub fn sends(&mut self, who: Who, datagram: &[u8]) {
        self.sends_all(who, &[datagram]);
    }

    /// Sends several at once.
    pub fn sends_all(&mut self, who: Who, datagrams: &[&[u8]]) {
        self.bed.send_datagrams(who, datagrams);
    }

    /// Sends a request that is not processed before [`World::rest`].
    pub fn says_without_rest(&mut self, who: Who, line: &str) {
        let id = self.next_id(who);
        let request = request(line, id, &[who.0 as u8, (id >> 8) as u8, id as u8]);
        self.bed.now += Span::from_nanos(1000);
        self.bed.write_datagrams(who, &[&request]);
    }

    pub fn next_id(&mut self, who: Who) -> u16 {
        self.bed.next_id(who)
    }

    /// Sends a request with a token of its own, and keeps all received messages.
    pub fn says(&mut self, who: Who, line: &str) -> u16 {
        let id = self.next_id(who);
        let token = [who.0 as u8, (id >> 8) as u8, id as u8];
        self.says_with(who, line, id, &token);
        id
    }

    pub fn says_with(&mut self, who: Who, line: &str, id: u16, token: &[u8]) {
        let request = request(line, id, token);
        self.sends(who, &request);
    }

    /// Sends a request, and returns the one message that comes then.
    #[track_caller]
    pub fn asks(&mut self, who: Who, line: &str) -> String {
        self.asks_raw(who, line).line()
    }

    #[track_caller]
    pub fn asks_raw(&mut self, who: Who, line: &str) -> ReceivedMessage {
        assert!(
            self.bed.unheard(who).is_empty(),
            "{:?} was not looked at",
            self.lines(who)
        );
        self.says(who, line);
        self.one(who)
    }

    /// The same with a payload that is no text.
    #[track_caller]
    pub fn asks_bytes(&mut self, who: Who, line: &str, payload: &[u8]) -> ReceivedMessage {
        let id = self.next_id(who);
        let token = [who.0 as u8, (id >> 8) as u8, id as u8];
        let request = request_with(line, Some(payload), id, &token);
        self.sends(who, &request);
        self.one(who)
    }

    /// Returns the only message received.
    #[track_caller]
    pub fn one(&mut self, who: Who) -> ReceivedMessage {
        let heard = self.heard(who);
        let [only] = &heard[..] else {
            panic!(
                "{:?} instead of one message",
                heard.iter().map(ReceivedMessage::line).collect::<Vec<_>>()
            )
        };
        only.clone()
    }

    /// All messages received since the last call.
    pub fn heard(&mut self, who: Who) -> Vec<ReceivedMessage> {
        self.bed.heard(who)
    }

    pub fn lines(&mut self, who: Who) -> Vec<String> {
        self.heard(who).iter().map(ReceivedMessage::line).collect()
    }

    pub fn replies(&mut self, who: Who, kind: Type, id: u16) {
        let mut out = Vec::new();
        empty(&mut out, kind, id);
        self.sends(who, &out);
    }

    pub fn counts(&self) -> CoapCounts {
        self.bed.datagram_counts()
    }

    /// The server's answer to the oldest pending login.
    pub fn verdict(&mut self, answer: LoginAnswer) {
        self.bed.answer_login(answer);
    }

    pub fn peer_gone(&mut self, who: Who) {
        self.bed.peer_gone(who);
    }

    pub fn shut_down(&mut self) {
        self.bed.close_sockets();
    }

    /// Lets time pass, in steps from one deadline to the next.
    pub fn wait(&mut self, span: Span) {
        self.bed.run_for(span);
    }

    /// Everything that was persisted becomes safe.
    pub fn sync(&mut self) {
        self.bed.write_all();
    }

    pub fn rest(&mut self) {
        self.bed.rest();
    }

    /// An MQTT 5 client comes in.
    pub fn mqtt(&mut self, name: &str) -> Other {
        self.bed.mqtt(name)
    }

    pub fn mqtt_publish(&mut self, other: Other, publish: &thalweg_mqtt::PublishOut<'_>) {
        self.bed.mqtt_publish(other, publish);
    }

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
        let options = SubscribeOptions {
            qos: QoS::ExactlyOnce,
            retain_as_published: true,
            ..SubscribeOptions::default()
        };
        self.bed.mqtt_subscribe(other, filter, options);
    }

    /// Messages received since this was last asked.
    pub fn mqtt_messages(&mut self, other: Other) -> Vec<Got> {
        self.bed.mqtt_got(other)
    }

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
}
