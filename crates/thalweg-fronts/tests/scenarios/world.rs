//! A stage for plain scenarios: named clients that do one thing at a time, after which everything comes to rest.

use thalweg_fronts::LinksLimits;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, Limits};
use thalweg_model::Span;
use thalweg_mqtt::{
    ConnectOut, DisconnectProps, PublishOut, QoS, ReasonCode, SubscribeOptions, Version, WillOut,
};
use thalweg_testbed::disk::Loss;
pub use thalweg_testbed::mqtt::{Packet, Received as Got};
use thalweg_testbed::{Random, Settings, Testbed};

/// A client that is there.
pub type Who = thalweg_testbed::Who<thalweg_testbed::mqtt::Mqtt>;

/// Options of CONNECT. The default is MQTT 5, a clean start and no session afterwards.
#[derive(Clone)]
pub struct Hello<'a> {
    pub version: Version,
    pub clean: bool,
    pub expiry_secs: u32,
    pub receive_max: u16,
    pub will: Option<WillOut<'a>>,
    pub access: Access,
    /// Whether it reads from the beginning.
    pub reads: bool,
}

impl Default for Hello<'_> {
    fn default() -> Self {
        let (version, access) = (Version::V5, Access::ALL);
        Hello {
            version,
            clean: true,
            expiry_secs: 0,
            receive_max: u16::MAX,
            will: None,
            access,
            reads: true,
        }
    }
}

/// A session that stays for an hour and is found again.
pub fn staying() -> Hello<'static> {
    Hello {
        clean: false,
        expiry_secs: 3600,
        ..Hello::default()
    }
}

pub struct World {
    pub bed: Testbed,
}

impl World {
    pub fn new(shards: u16) -> Self {
        World::with(shards, Limits::default(), LinksLimits::default())
    }

    pub fn with(shards: u16, limits: Limits, outputs: LinksLimits) -> Self {
        World::of(Settings {
            shards,
            limits,
            outputs,
            ..Settings::default()
        })
    }

    pub fn of(settings: Settings) -> Self {
        let mut bed = Testbed::before_start(settings);
        bed.batch_ends = Some(Random(7));
        bed.step = Span::ZERO;
        World { bed }
    }

    /// With a journal that is written and synced whenever everything comes to rest.
    pub fn with_journal(shards: u16, limits: Limits) -> Self {
        World::with(
            shards,
            Limits {
                journal: true,
                ..limits
            },
            LinksLimits::default(),
        )
    }

    /// From now on the disk does nothing by itself.
    pub fn stop_disk(&mut self) {
        self.bed.is_disk_manual = true;
    }

    /// Everything that was persisted is written.
    pub fn write_disk(&mut self) {
        self.bed.write_batches(usize::MAX);
        self.rest();
    }

    /// Everything that is written becomes durable.
    pub fn sync_disk(&mut self) {
        self.bed.sync();
        self.rest();
    }

    /// The process ends, and another one takes up what is written; the disk works by itself again.
    pub fn restart(&mut self) {
        let shards = self.bed.shards.len() as u16;
        self.restart_with(Loss::Process, shards);
    }

    pub fn restart_with(&mut self, loss: Loss, shards: u16) {
        self.bed.crash(loss, shards, |_| ());
        self.bed.is_disk_manual = false;
        self.rest();
    }

    /// Acknowledges the receipt of a QoS 2 message by hand.
    pub fn pubrec(&mut self, who: Who, id: u16) {
        self.bed.says(who, |client, up| {
            client.side.pubrec(id, ReasonCode::Success, up)
        });
    }

    /// Publishes and does not wait for the answer.
    pub fn send(&mut self, who: Who, topic: &str, payload: &str, qos: QoS) {
        self.write(
            who,
            &PublishOut {
                qos,
                topic,
                payload: payload.as_bytes(),
                ..PublishOut::default()
            },
        );
        self.rest();
    }

    /// A name whose home is that shard.
    pub fn name_on(&self, shard: usize, prefix: &str) -> String {
        self.bed.name_on(prefix, shard)
    }

    /// Connects; the server's answer can be read by [`heard`](World::heard).
    pub fn try_connect(&mut self, name: &str, hello: &Hello<'_>) -> Who {
        let who = self.open(name, hello);
        self.rest();
        who
    }

    /// Writes CONNECT and does not wait.
    pub fn open(&mut self, name: &str, hello: &Hello<'_>) -> Who {
        let connect = ConnectOut {
            version: hello.version,
            client_id: name,
            clean_start: hello.clean,
            keep_alive: 0,
            will: hello.will,
            session_expiry: hello.expiry_secs,
            receive_max: hello.receive_max,
            ..ConnectOut::default()
        };
        let who = self.bed.open_mqtt(&connect, Some(hello.access.clone()));
        self.bed.set_stalled(who, !hello.reads);
        who
    }

    /// Connects and subscribes at QoS 1 without ever reading what the server says.
    pub fn leave_alone(&mut self, name: &str, hello: &Hello<'_>, filter: &str) {
        let who = self.open(name, hello);
        self.bed.feed(who, usize::MAX);
        let options = SubscribeOptions {
            qos: QoS::AtLeastOnce,
            ..SubscribeOptions::default()
        };
        self.ask(who, filter, options);
        self.bed.feed(who, usize::MAX);
    }

    /// Comes in; whether a session was there already.
    pub fn connect_with(&mut self, name: &str, hello: &Hello<'_>) -> (Who, bool) {
        let who = self.try_connect(name, hello);
        match self.heard(who) {
            Some(Packet::ConnAck {
                present,
                reason: ReasonCode::Success,
            }) => (who, present),
            other => panic!("{name}: {other:?} instead of CONNACK"),
        }
    }

    pub fn connect(&mut self, name: &str) -> Who {
        self.connect_with(name, &Hello::default()).0
    }

    /// Goes without a word, and the server notices.
    pub fn lose(&mut self, who: Who) {
        self.bed.cut(who, usize::MAX);
        self.bed.notice(who);
        self.rest();
    }

    pub fn leave(&mut self, who: Who) {
        let (reason, none) = (ReasonCode::Success, DisconnectProps::default());
        self.bed
            .says(who, |client, up| client.side.disconnect(reason, &none, up));
    }

    /// Stops or starts to answer messages; those received meanwhile stay unanswered.
    pub fn answer(&mut self, who: Who, answers: bool) {
        self.bed.client(who).acknowledges = answers;
    }

    /// Acknowledges a QoS 1 message by hand.
    pub fn puback(&mut self, who: Who, id: u16) {
        self.bed.says(who, |client, up| {
            client.side.puback(id, ReasonCode::Success, up)
        });
    }

    /// Stops or starts to read.
    pub fn read(&mut self, who: Who, reads: bool) {
        self.bed.set_reading(who, reads);
    }

    /// Writes SUBSCRIBE and does not wait; the packet identifier.
    pub fn ask(&mut self, who: Who, filter: &str, options: SubscribeOptions) -> u16 {
        self.bed
            .write(who, |client, up| client.subscribe(filter, options, up))
    }

    /// Subscribes; what the server says to it.
    pub fn subscribe_with(
        &mut self,
        who: Who,
        filter: &str,
        options: SubscribeOptions,
    ) -> ReasonCode {
        let asked = self.ask(who, filter, options);
        self.rest();
        match self.heard(who) {
            Some(Packet::SubAck { id, codes }) if id == asked => codes[0],
            other => panic!("{other:?} instead of SUBACK {asked}"),
        }
    }

    pub fn subscribe(&mut self, who: Who, filter: &str, qos: QoS) {
        let code = self.subscribe_with(
            who,
            filter,
            SubscribeOptions {
                qos,
                ..SubscribeOptions::default()
            },
        );
        assert!(!code.is_error(), "{filter} was refused: {code:?}");
    }

    /// Writes UNSUBSCRIBE and does not wait.
    pub fn ask_to_end(&mut self, who: Who, filter: &str) {
        self.bed
            .write(who, |client, up| client.unsubscribe(filter, up));
    }

    pub fn unsubscribe(&mut self, who: Who, filter: &str) {
        self.ask_to_end(who, filter);
        self.rest();
        let heard = self.heard(who);
        assert!(
            matches!(heard, Some(Packet::UnsubAck { .. })),
            "{heard:?} instead of UNSUBACK"
        );
    }

    /// Writes PUBLISH and does not wait.
    pub fn write(&mut self, who: Who, publish: &PublishOut<'_>) {
        self.bed
            .write(who, |client, up| client.publish(publish, up));
    }

    /// Publishes; the reason of the first acknowledgement, `Success` at QoS 0.
    pub fn publish_with(&mut self, who: Who, publish: &PublishOut<'_>) -> ReasonCode {
        self.write(who, publish);
        self.rest();
        if publish.qos == QoS::AtMostOnce {
            return ReasonCode::Success;
        }
        match self.heard(who) {
            Some(Packet::PubAck { reason, .. }) => reason,
            Some(Packet::PubRec { reason, .. }) => {
                let last = self.heard(who);
                assert!(
                    reason.is_error() || matches!(last, Some(Packet::PubComp { .. })),
                    "{last:?}"
                );
                reason
            }
            other => panic!("{other:?} instead of an acknowledgement"),
        }
    }

    pub fn publish(&mut self, who: Who, topic: &str, payload: &str, qos: QoS) {
        let reason = self.publish_with(
            who,
            &PublishOut {
                qos,
                topic,
                payload: payload.as_bytes(),
                ..PublishOut::default()
            },
        );
        assert!(!reason.is_error(), "{topic} was refused: {reason:?}");
    }

    /// Publishes at QoS 1; returns whether it was refused for lack of space.
    pub fn is_refused(&mut self, who: Who, topic: &str, payload: &str) -> bool {
        let (qos, payload) = (QoS::AtLeastOnce, payload.as_bytes());
        let reason = self.publish_with(
            who,
            &PublishOut {
                qos,
                topic,
                payload,
                ..PublishOut::default()
            },
        );
        assert!(
            matches!(reason, ReasonCode::Success | ReasonCode::QuotaExceeded),
            "{reason:?}"
        );
        reason.is_error()
    }

    /// Publishes with the retain flag at QoS 1.
    pub fn retain(&mut self, who: Who, topic: &str, payload: &str) {
        let (payload, qos) = (payload.as_bytes(), QoS::AtLeastOnce);
        let reason = self.publish_with(
            who,
            &PublishOut {
                qos,
                retain: true,
                topic,
                payload,
                ..PublishOut::default()
            },
        );
        assert!(!reason.is_error(), "{topic} was refused: {reason:?}");
    }

    /// The messages received since this was last asked.
    pub fn messages(&mut self, who: Who) -> Vec<Got> {
        self.bed.mqtt_got(who)
    }

    /// Their payloads as text.
    pub fn texts(&mut self, who: Who) -> Vec<String> {
        self.messages(who)
            .into_iter()
            .map(|got| String::from_utf8(got.payload).expect("text"))
            .collect()
    }

    /// Returns the oldest unread packet that is no PUBLISH.
    pub fn heard(&mut self, who: Who) -> Option<Packet> {
        self.bed.client(who).said.pop_front()
    }

    /// Whether these bytes came on its connection, if all are kept.
    pub fn has_received(&self, who: Who, bytes: &[u8]) -> bool {
        let received = self.bed.received(who);
        received.windows(bytes.len()).any(|part| part == bytes)
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&self, who: Who) -> bool {
        self.bed.is_closed(who)
    }

    pub fn wait(&mut self, span: Span) {
        self.bed.wait(span);
    }

    /// A sum over all shards.
    pub fn sum(&self, of: impl Fn(&Kernel) -> u64) -> u64 {
        self.bed.sum(of)
    }

    /// Everything moves until nothing moves.
    pub fn rest(&mut self) {
        self.bed.rest();
    }
}
