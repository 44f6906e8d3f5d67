//! A stage for plain scenarios: named clients that do one thing at a time, after which everything comes to rest.

use crate::net::{Got, Net, Packet};
use std::collections::VecDeque;
use thalweg_fronts::LinksLimits;
use thalweg_fronts::mqtt::MqttSettings;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, Limits};
use thalweg_model::Span;
use thalweg_mqtt::{
    ConnectOut, DisconnectProps, PublishOut, QoS, ReasonCode, SubscribeOptions, SubscribeOut,
    UnsubscribeOut, Version, WillOut,
};
use thalweg_testbed::disk::Loss;

/// A client that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who(usize);

struct Puppet {
    pipe: usize,
    /// It answers what it receives.
    answers: bool,
    got: Vec<Got>,
    said: VecDeque<Packet>,
    id_last: u16,
}

/// How a client comes in. The default is MQTT 5, a clean start and no session afterwards.
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
    pub net: Net,
    puppets: Vec<Puppet>,
}

impl World {
    pub fn new(shards: u16) -> Self {
        World::with(shards, Limits::default(), LinksLimits::default())
    }

    pub fn with(shards: u16, limits: Limits, outputs: LinksLimits) -> Self {
        World::of(Net::new(
            shards,
            &limits,
            outputs,
            MqttSettings::default(),
            7,
        ))
    }

    pub fn of(net: Net) -> Self {
        World {
            net,
            puppets: Vec::new(),
        }
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
        self.net.is_disk_manual = true;
    }

    /// Everything that was persisted is written.
    pub fn write_disk(&mut self) {
        self.net.write(usize::MAX);
        self.rest();
    }

    /// Everything that is written becomes durable.
    pub fn sync_disk(&mut self) {
        self.net.sync();
        self.rest();
    }

    /// The process ends, and another one takes up what is written; the disk works by itself again.
    pub fn restart(&mut self) {
        let shards = self.net.shards.len() as u16;
        self.restart_with(Loss::Process, shards);
    }

    pub fn restart_with(&mut self, loss: Loss, shards: u16) {
        self.net.crash(loss, shards, |_| ());
        self.net.is_disk_manual = false;
        self.rest();
    }

    /// Acknowledges the receipt of a QoS 2 message by hand.
    pub fn pubrec(&mut self, who: Who, id: u16) {
        let end = &mut self.net.pipes[self.puppets[who.0].pipe];
        end.machine.pubrec(id, ReasonCode::Success, &mut end.up);
        self.rest();
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
        let mut names = (0..).map(|number| format!("{prefix}-{number}"));
        names
            .find(|name| self.net.home_of(name) == shard)
            .expect("some name has that home")
    }

    /// Comes in; what the server said to CONNECT can be [`heard`](World::heard).
    pub fn try_connect(&mut self, name: &str, hello: &Hello<'_>) -> Who {
        let pipe = self.open(name, hello);
        self.puppets.push(Puppet {
            pipe,
            answers: true,
            got: Vec::new(),
            said: VecDeque::new(),
            id_last: 0,
        });
        self.rest();
        Who(self.puppets.len() - 1)
    }

    fn open(&mut self, name: &str, hello: &Hello<'_>) -> usize {
        let pipe = self.net.open(name, hello.access.clone());
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
        let end = &mut self.net.pipes[pipe];
        end.stalled = !hello.reads;
        end.machine
            .connect(&connect, &mut end.up)
            .expect("short strings");
        pipe
    }

    /// Connects and subscribes at QoS 1 without ever reading what the server says.
    pub fn leave_alone(&mut self, name: &str, hello: &Hello<'_>, filter: &str) {
        let pipe = self.open(name, hello);
        self.net.feed(pipe, usize::MAX);
        let options = SubscribeOptions {
            qos: QoS::AtLeastOnce,
            ..SubscribeOptions::default()
        };
        let subscribe = SubscribeOut {
            id: 1,
            filters: &[(filter, options)],
            ..SubscribeOut::default()
        };
        let end = &mut self.net.pipes[pipe];
        end.machine
            .subscribe(&subscribe, &mut end.up)
            .expect("connected");
        self.net.feed(pipe, usize::MAX);
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
        let pipe = self.puppets[who.0].pipe;
        self.net.cut(pipe, usize::MAX);
        self.net.notice(pipe);
        self.rest();
    }

    /// Says good-bye.
    pub fn leave(&mut self, who: Who) {
        let end = &mut self.net.pipes[self.puppets[who.0].pipe];
        end.machine.disconnect(
            ReasonCode::Success,
            &DisconnectProps::default(),
            &mut end.up,
        );
        self.rest();
    }

    /// Stops or starts to answer messages; those received meanwhile stay unanswered.
    pub fn answer(&mut self, who: Who, answers: bool) {
        self.puppets[who.0].answers = answers;
    }

    /// Acknowledges a QoS 1 message by hand.
    pub fn puback(&mut self, who: Who, id: u16) {
        let end = &mut self.net.pipes[self.puppets[who.0].pipe];
        end.machine.puback(id, ReasonCode::Success, &mut end.up);
        self.rest();
    }

    /// Stops or starts to read.
    pub fn read(&mut self, who: Who, reads: bool) {
        self.net.pipes[self.puppets[who.0].pipe].stalled = !reads;
        self.rest();
    }

    /// Writes SUBSCRIBE and does not wait; the packet identifier.
    pub fn ask(&mut self, who: Who, filter: &str, options: SubscribeOptions) -> u16 {
        let puppet = &mut self.puppets[who.0];
        puppet.id_last += 1;
        let id = puppet.id_last;
        let end = &mut self.net.pipes[puppet.pipe];
        let subscribe = SubscribeOut {
            id,
            filters: &[(filter, options)],
            ..SubscribeOut::default()
        };
        end.machine
            .subscribe(&subscribe, &mut end.up)
            .expect("connected");
        id
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
        let puppet = &mut self.puppets[who.0];
        puppet.id_last += 1;
        let unsubscribe = UnsubscribeOut {
            id: puppet.id_last,
            filters: &[filter],
            ..UnsubscribeOut::default()
        };
        let end = &mut self.net.pipes[puppet.pipe];
        end.machine
            .unsubscribe(&unsubscribe, &mut end.up)
            .expect("connected");
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
        let puppet = &mut self.puppets[who.0];
        puppet.id_last += 1;
        let end = &mut self.net.pipes[puppet.pipe];
        let publish = PublishOut {
            id: puppet.id_last,
            ..*publish
        };
        end.machine
            .publish(&publish, &mut end.up)
            .expect("connected, and the server has room");
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

    /// Publishes at QoS 1; whether it was refused because nobody has room for it.
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
        std::mem::take(&mut self.puppets[who.0].got)
    }

    /// Their payloads as text.
    pub fn texts(&mut self, who: Who) -> Vec<String> {
        self.messages(who)
            .into_iter()
            .map(|got| String::from_utf8(got.payload).expect("text"))
            .collect()
    }

    /// The oldest packet that is no message and was not heard yet.
    pub fn heard(&mut self, who: Who) -> Option<Packet> {
        self.puppets[who.0].said.pop_front()
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&self, who: Who) -> bool {
        self.net.pipes[self.puppets[who.0].pipe].is_closed()
    }

    pub fn pipe(&self, who: Who) -> usize {
        self.puppets[who.0].pipe
    }

    /// Time goes by.
    pub fn wait(&mut self, span: Span) {
        self.net.now += span;
        self.rest();
    }

    /// A sum over all shards.
    pub fn sum(&self, of: impl Fn(&Kernel) -> u64) -> u64 {
        self.net.sum(of)
    }

    /// Everything moves until nothing moves.
    pub fn rest(&mut self) {
        loop {
            let mut happened = self.net.settle();
            for puppet in &mut self.puppets {
                happened |= puppet.look(&mut self.net);
            }
            if !happened {
                return;
            }
        }
    }
}

impl Puppet {
    /// Takes what has arrived. Whether there was anything.
    fn look(&mut self, net: &mut Net) -> bool {
        let end = &mut net.pipes[self.pipe];
        assert_eq!(end.fault, None, "the server breaks the protocol");
        let mut happened = false;
        while let Some(packet) = end.inbox.pop_front() {
            happened = true;
            match packet {
                Packet::Publish(got) => {
                    match got.qos {
                        _ if !self.answers => {}
                        QoS::AtMostOnce => {}
                        QoS::AtLeastOnce => {
                            end.machine.puback(got.id, ReasonCode::Success, &mut end.up)
                        }
                        QoS::ExactlyOnce => {
                            end.machine.pubrec(got.id, ReasonCode::Success, &mut end.up)
                        }
                    }
                    self.got.push(got);
                }
                Packet::PubRel { id } => end.machine.pubcomp(id, ReasonCode::Success, &mut end.up),
                Packet::PubRec { id, reason } => {
                    if !reason.is_error() {
                        end.machine.pubrel(id, ReasonCode::Success, &mut end.up);
                    }
                    self.said.push_back(Packet::PubRec { id, reason });
                }
                other => self.said.push_back(other),
            }
        }
        happened
    }
}
