//! STOMP clients, and a few of MQTT, in front of one broker. A client does one thing at a time, after which everything comes
//! to rest.

use std::sync::Arc;
use thalweg_fronts::stomp::StompSettings;
use thalweg_fronts::{LinksLimits, LoginAnswer};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, Limits};
use thalweg_model::Span;
use thalweg_mqtt::{QoS, SubscribeOptions};
use thalweg_stomp::{ClientSide, ConnectOut, HeaderWriter, SendOut, SubscribeOut};
use thalweg_testbed::mqtt::{Mqtt, Received};
use thalweg_testbed::stomp::Stomp;
pub use thalweg_testbed::stomp::{Got, ServerFrame};
use thalweg_testbed::{Settings, Testbed};

pub type Who = thalweg_testbed::Who<Stomp>;

pub type Other = thalweg_testbed::Who<Mqtt>;

/// Parameters of a client's connection.
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
    pub bed: Testbed,
    /// Of connections that are opened from now on.
    pub settings: StompSettings,
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
        let mut bed = Testbed::new(Settings {
            shards,
            limits,
            outputs,
            ..Settings::default()
        });
        bed.step = Span::ZERO;
        World { bed, settings }
    }

    pub fn kernel(&self) -> &Kernel {
        &self.bed.shards[self.bed.queue_shard()].kernel
    }

    /// Sends CONNECT; the server's answer can be read by [`heard`](World::heard).
    pub fn try_connect(&mut self, hello: &Hello<'_>) -> Who {
        self.bed.settings.stomp = Arc::new(self.settings.clone());
        let who = self.bed.open_stomp(&hello.connect, hello.access.clone());
        self.bed.rest();
        who
    }

    pub fn connect_with(&mut self, hello: &Hello<'_>) -> Who {
        let who = self.try_connect(hello);
        let heard = self.heard(who);
        assert!(
            matches!(heard, Some(ServerFrame::Connected { .. })),
            "{heard:?} instead of CONNECTED"
        );
        who
    }

    pub fn connect(&mut self) -> Who {
        self.connect_with(&Hello::default())
    }

    /// The server's answer to the oldest pending login.
    pub fn allow(&mut self, answer: LoginAnswer) {
        self.bed.answer_login(answer);
    }

    /// Lets a client write, and everything come to rest.
    pub fn says<R>(
        &mut self,
        who: Who,
        write: impl FnOnce(&mut ClientSide, &mut Vec<u8>) -> R,
    ) -> R {
        self.bed.says(who, |client, up| write(&mut client.side, up))
    }

    pub fn writes(&mut self, who: Who, bytes: &[u8]) {
        self.says(who, |_, up| up.extend_from_slice(bytes));
    }

    /// The receipt must be the next frame.
    pub fn hears_receipt(&mut self, who: Who, receipt: &str) {
        assert_eq!(
            self.heard(who),
            Some(ServerFrame::Receipt(receipt.to_owned()))
        );
    }

    pub fn send_with(
        &mut self,
        who: Who,
        send: &SendOut<'_>,
        more: impl FnOnce(&mut HeaderWriter<'_>),
    ) {
        self.says(who, |side, up| side.send(send, more, up));
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
        let receipt = self.bed.client(who).next_receipt();
        let subscribe = SubscribeOut {
            receipt: Some(&receipt),
            ..*subscribe
        };
        self.says(who, |side, up| side.subscribe(&subscribe, up));
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
        self.says(who, |side, up| side.subscribe(&subscribe, up));
        self.hears_error(who, Some("no"))
    }

    /// ERROR must be the next frame, followed by the end of the connection.
    pub fn hears_error(&mut self, who: Who, about: Option<&str>) -> (String, String) {
        match self.heard(who) {
            Some(ServerFrame::Error {
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
        let receipt = self.bed.client(who).next_receipt();
        self.says(who, |side, up| {
            side.unsubscribe(id, Some(&receipt), headers, up)
        });
        self.hears_receipt(who, &receipt);
    }

    pub fn ack(&mut self, who: Who, got: &Got) {
        self.ack_in(who, got, None);
    }

    pub fn ack_in(&mut self, who: Who, got: &Got, transaction: Option<&str>) {
        self.says(who, |side, up| side.ack(&got.ack_in(transaction), up));
    }

    pub fn nack(&mut self, who: Who, got: &Got) {
        self.says(who, |side, up| side.nack(&got.ack_in(None), up));
    }

    /// The messages received since this was last asked.
    pub fn messages(&mut self, who: Who) -> Vec<Got> {
        self.bed.client(who).got.drain(..).collect()
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

    pub fn heard(&mut self, who: Who) -> Option<ServerFrame> {
        self.bed.client(who).heard.pop_front()
    }

    pub fn is_closed(&self, who: Who) -> bool {
        self.bed.is_closed(who)
    }

    pub fn read(&mut self, who: Who, reads: bool) {
        self.bed.set_reading(who, reads);
    }

    /// Bytes that wait for a client.
    pub fn output_of(&self, who: Who) -> usize {
        self.bed.waiting(who)
    }

    /// Pending output for a client that does not read.
    pub fn unread(&mut self, who: Who) -> Vec<u8> {
        self.bed.link(who).expect("open").sendable().to_vec()
    }

    /// Goes without a word.
    pub fn lose(&mut self, who: Who) {
        self.bed.lose(who);
    }

    /// The server's timers of a connection: how long the client may be silent, and how long the server may be.
    pub fn limits_of(&self, who: Who) -> (Option<Span>, Option<Span>) {
        let (links, link) = (
            &self.bed.shards[self.bed.shard_of(who)].links,
            self.bed.link_id(who),
        );
        (links.silence_max(link), links.idle_write(link))
    }

    /// The server's timer says that nothing was sent for long.
    pub fn idle(&mut self, who: Who) {
        let (shard, link, now) = (self.bed.shard_of(who), self.bed.link_id(who), self.bed.now);
        self.bed.shards[shard].links.on_idle(link, now);
        self.bed.rest();
    }

    /// The server's timer says that nothing was received for long.
    pub fn silent(&mut self, who: Who) {
        let (shard, link) = (self.bed.shard_of(who), self.bed.link_id(who));
        self.bed.shards[shard].links.on_silence(link);
        self.bed.rest();
    }

    pub fn wait(&mut self, span: Span) {
        self.bed.wait(span);
    }

    /// Everything that was persisted becomes safe.
    pub fn sync(&mut self) {
        self.bed.write_all();
    }

    pub fn rest(&mut self) {
        self.bed.rest();
    }

    /// Connects an MQTT 5 client.
    pub fn mqtt(&mut self, name: &str) -> Other {
        self.bed.mqtt(name)
    }

    pub fn mqtt_publish(&mut self, other: Other, publish: &thalweg_mqtt::PublishOut<'_>) {
        self.bed.mqtt_publish(other, publish);
    }

    pub fn mqtt_subscribe(&mut self, other: Other, filter: &str) {
        let options = SubscribeOptions {
            qos: QoS::AtLeastOnce,
            ..SubscribeOptions::default()
        };
        self.bed.mqtt_subscribe(other, filter, options);
    }

    /// Topics and payloads received since this was last asked.
    pub fn mqtt_messages(&mut self, other: Other) -> Vec<(String, Vec<u8>)> {
        let got = self.bed.mqtt_got(other).into_iter();
        got.map(|got| (got.topic, got.payload)).collect()
    }

    /// The message that was received last.
    pub fn mqtt_last(&mut self, other: Other) -> Received {
        self.bed.client(other).last.clone()
    }
}
