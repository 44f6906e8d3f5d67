//! A client that keeps its side of the protocol: it remembers what it must across connections, repeats what was not
//! acknowledged, and tells the book what it sent, accepted and was promised.

use crate::book::{Book, Serial, is_traced};
use crate::net::{Got, Net, Packet, Pipe};
use std::collections::{BTreeMap, HashMap};
use thalweg_mqtt::{
    ConnectOut, DisconnectProps, PublishOut, QoS, ReasonCode, RetainHandling, SubscribeOptions,
    SubscribeOut, UnsubscribeOut, Version, WillOut,
};

/// Session expiry of sessions that persist, in seconds; no simulation lasts as long.
pub const PERSISTENT: u32 = 100_000_000;

pub struct Client {
    pub name: String,
    pub number: usize,
    pub version: Version,
    pub pipe: Option<Pipe>,
    /// CONNACK has been looked at.
    pub connected: bool,
    /// Its session outlives its connection.
    pub persistent: bool,
    /// Never ends its session and never unsubscribes: what it is promised can be demanded at the end.
    pub anchor: bool,
    pub session: usize,
    /// Whether its session must be there, or must not, at the next connection; nothing where it cannot know.
    expected: Option<bool>,
    /// The server's answer to that, and when: that survives a crash.
    told: Option<(bool, usize)>,
    /// The broker is a new one, and which session this client had was never told it.
    is_unsure: bool,
    /// The session of the last CONNACK.
    told_session: Option<usize>,
    /// Its session outlives its connection, and not for long.
    is_passing: bool,
    /// It asked for a clean start and was not answered: it will ask again.
    asks_clean: bool,
    receive_max: u16,
    out: BTreeMap<u64, Out>,
    /// Exactly-once deliveries that are not released, by packet identifier.
    in2: HashMap<u16, Serial>,
    questions: HashMap<u16, Question>,
    /// The last question about each filter: what it says holds, whatever an earlier answer says later.
    asked: HashMap<String, u64>,
    id_last: u16,
    order_last: u64,
}

/// A message of ours that is not settled.
struct Out {
    id: u16,
    serial: Serial,
    released: bool,
}

enum Question {
    /// The filters, each with its number in the order of all questions.
    Subscribe(Vec<(String, u64)>),
    Unsubscribe(String, u64),
}

/// Parameters of a client's connection.
pub struct Opening {
    pub clean: bool,
    pub persistent: bool,
    pub receive_max: u16,
    pub topic_alias_max: u16,
    pub will_delay: Option<u32>,
    /// Lifetime of a persistent session, in seconds.
    pub expiry_secs: u32,
}

impl Client {
    pub fn new(number: usize, name: String, version: Version, session: usize) -> Self {
        Client {
            name,
            number,
            version,
            pipe: None,
            connected: false,
            persistent: false,
            anchor: false,
            session,
            expected: None,
            told: None,
            is_unsure: false,
            told_session: None,
            is_passing: false,
            asks_clean: false,
            receive_max: u16::MAX,
            out: BTreeMap::new(),
            in2: HashMap::new(),
            questions: HashMap::new(),
            asked: HashMap::new(),
            id_last: 0,
            order_last: 0,
        }
    }

    /// Connects, whether or not another connection is still open. CONNECT reaches the server and CONNACK is written at
    /// once, so that both agree on which session it is.
    pub fn connect(&mut self, opening: &Opening, net: &mut Net, book: &mut Book) {
        self.drop_pipe(net, 0);
        let pipe = net.connect(&self.name);
        let will_topic = format!("n/will/{}", self.number);
        let will = opening.will_delay.map(|delay_secs| WillOut {
            message: PublishOut {
                qos: QoS::AtLeastOnce,
                topic: &will_topic,
                payload: b"will",
                ..PublishOut::default()
            },
            delay_secs,
        });
        let v5 = self.version == Version::V5;
        let clean = if v5 {
            opening.clean
        } else {
            opening.clean || !opening.persistent
        } || self.asks_clean;
        let connect = ConnectOut {
            version: self.version,
            client_id: &self.name,
            clean_start: clean,
            keep_alive: 0,
            will,
            session_expiry: if opening.persistent {
                opening.expiry_secs
            } else {
                0
            },
            receive_max: opening.receive_max,
            topic_alias_max: opening.topic_alias_max,
            ..ConnectOut::default()
        };
        self.pipe = Some(pipe);
        // MQTT 3 has one flag for both: a session that starts clean ends with its connection. [MQTT3-3.1.2-6]
        self.persistent = opening.persistent && (v5 || !clean);
        self.receive_max = if v5 { opening.receive_max } else { u16::MAX };
        let (end, up) = net.end(pipe);
        end.machine.connect(&connect, up).expect("short strings");
        while net.feed(pipe, 7) {}
        let answer = net.client(pipe).tap.first();
        let Some(Packet::ConnAck {
            present,
            reason: ReasonCode::Success,
        }) = answer
        else {
            panic!("{}: CONNECT was answered with {answer:?}", self.name);
        };
        let present = *present;
        assert!(
            !(present && clean),
            "{}: a session is present although a clean start was asked for",
            self.name
        );
        if is_traced() {
            let Client {
                name,
                persistent,
                expected,
                ..
            } = &*self;
            println!(
                "{name} connects: clean {clean}, persistent {persistent}, present {present}, expected {expected:?}"
            );
        }
        let lost = !present && !clean && self.expected == Some(true);
        assert!(
            !lost,
            "{}: a session that should have lived on is gone",
            self.name
        );
        let back = present && self.expected == Some(false);
        assert!(!back, "{}: a session that has ended is back", self.name);
        if !present {
            self.session = book.new_session(self.number, self.persistent);
            self.out.clear();
            self.in2.clear();
        } else if self.is_unsure {
            // It may be this one or one before.
            self.session = book.new_session(self.number, self.persistent);
            book.make_vague(self.session);
        }
        self.is_unsure = false;
        let for_ever = self.persistent && (!v5 || opening.expiry_secs == PERSISTENT);
        self.is_passing = self.persistent && !for_ever;
        self.expected = for_ever.then_some(true);
        self.told = self.told.filter(|told| told.0 && present && for_ever);
        self.asks_clean = clean;
        self.questions.clear();
        book.new_connection(self.session, self.receive_max);
    }

    /// The connection is gone, with all bytes in flight except the first `arriving` bytes to the server.
    pub fn drop_pipe(&mut self, net: &mut Net, arriving: usize) {
        if let Some(pipe) = self.pipe.take() {
            net.leave(pipe, arriving);
        }
        self.connected = false;
        self.questions.clear();
    }

    /// The broker is gone. The next one has the state written by `kept`.
    pub fn crash(&mut self, kept: usize) {
        self.pipe = None;
        self.connected = false;
        self.questions.clear();
        self.told = self.told.filter(|told| told.1 <= kept);
        self.expected = self.told.map(|told| told.0);
        self.is_unsure = self.told_session != Some(self.session);
    }

    /// Says good-bye and goes.
    pub fn disconnect(&mut self, with_will: bool, net: &mut Net) {
        let Some(pipe) = self.pipe else { return };
        let reason = if with_will {
            ReasonCode::DisconnectWithWill
        } else {
            ReasonCode::Success
        };
        // Nothing may come in between: a machine that has said good-bye does not see what the server still writes.
        net.feed(pipe, usize::MAX);
        if net.is_paused(pipe) {
            return;
        }
        let (end, up) = net.end(pipe);
        end.machine
            .disconnect(reason, &DisconnectProps::default(), up);
        net.feed(pipe, usize::MAX);
        self.drop_pipe(net, usize::MAX);
    }

    pub fn subscribe(
        &mut self,
        filters: &[(String, QoS)],
        last_values: bool,
        net: &mut Net,
        book: &mut Book,
    ) {
        let Some(pipe) = self.usable(net) else { return };
        for (filter, _) in filters {
            book.subscribing(self.session, filter);
        }
        let id = self.next_id();
        let handling = if last_values {
            RetainHandling::Send
        } else {
            RetainHandling::DoNotSend
        };
        let options = |qos: QoS| SubscribeOptions {
            qos,
            retain_handling: handling,
            ..SubscribeOptions::default()
        };
        let list: Vec<_> = filters
            .iter()
            .map(|(filter, qos)| (filter.as_str(), options(*qos)))
            .collect();
        let (end, up) = net.end(pipe);
        let subscribe = SubscribeOut {
            id,
            filters: &list,
            ..SubscribeOut::default()
        };
        end.machine.subscribe(&subscribe, up).expect("small");
        let asked = filters
            .iter()
            .map(|(filter, _)| (filter.clone(), self.ask(filter)))
            .collect();
        self.questions.insert(id, Question::Subscribe(asked));
    }

    pub fn unsubscribe(&mut self, filter: &str, net: &mut Net, book: &mut Book) {
        let Some(pipe) = self.usable(net) else { return };
        let id = self.next_id();
        let (end, up) = net.end(pipe);
        let unsubscribe = UnsubscribeOut {
            id,
            filters: &[filter],
            ..UnsubscribeOut::default()
        };
        end.machine.unsubscribe(&unsubscribe, up).expect("small");
        let number = self.ask(filter);
        self.questions
            .insert(id, Question::Unsubscribe(filter.to_owned(), number));
        book.unsubscribing(self.session, filter);
    }

    pub fn publish(
        &mut self,
        topic: &str,
        qos: QoS,
        retain: bool,
        expiry_secs: Option<u32>,
        net: &mut Net,
        book: &mut Book,
    ) {
        let Some(pipe) = self.usable(net) else { return };
        let may = qos == QoS::AtMostOnce
            || self.out.len() < usize::from(net.client(pipe).machine.offer().receive_max);
        if !may || net.client(pipe).machine.send_quota() == 0 {
            return;
        }
        let expiry_secs = expiry_secs.filter(|_| self.version == Version::V5);
        let now = net.now;
        let serial = book.new_message(self.number, topic, qos, retain, expiry_secs, now);
        let id = if qos == QoS::AtMostOnce {
            0
        } else {
            self.next_id()
        };
        self.write_publish(pipe, id, serial, false, net, book);
        if id != 0 {
            self.order_last += 1;
            self.out.insert(
                self.order_last,
                Out {
                    id,
                    serial,
                    released: false,
                },
            );
        }
    }

    fn write_publish(
        &self,
        pipe: Pipe,
        id: u16,
        serial: Serial,
        dup: bool,
        net: &mut Net,
        book: &mut Book,
    ) {
        let message = book.sending(serial);
        let payload = message.payload(serial);
        let publish = PublishOut {
            dup,
            qos: message.qos,
            retain: message.retain,
            topic: &message.topic,
            id,
            payload: &payload,
            expiry_secs: message.expiry_secs,
            allow_alias: true,
            ..PublishOut::default()
        };
        let (end, up) = net.end(pipe);
        // An error says that the server has ended the connection, which we have not read yet.
        let _ = end.machine.publish(&publish, up);
    }

    /// The connection, if it is open as far as the client knows and its machine has not seen the end of it.
    fn usable(&self, net: &mut Net) -> Option<Pipe> {
        self.pipe
            .filter(|pipe| self.connected && net.client(*pipe).machine.is_connected())
    }

    fn ask(&mut self, filter: &str) -> u64 {
        self.order_last += 1;
        self.asked.insert(filter.to_owned(), self.order_last);
        self.order_last
    }

    fn next_id(&mut self) -> u16 {
        loop {
            // Few, so that what is forgotten too early or too late is noticed.
            let last = if self.out.len() + self.questions.len() < 15 {
                30
            } else {
                400
            };
            self.id_last = if self.id_last >= last {
                1
            } else {
                self.id_last + 1
            };
            let id = self.id_last;
            if !self.questions.contains_key(&id) && !self.out.values().any(|out| out.id == id) {
                return id;
            }
        }
    }

    /// Looks at what has arrived, at most `count` packets. Whether anything happened.
    pub fn look(&mut self, count: usize, net: &mut Net, book: &mut Book) -> bool {
        let Some(pipe) = self.pipe else { return false };
        for looked in 0..count {
            match net.client(pipe).inbox.pop_front() {
                Some(packet) => self.on_packet(pipe, packet, net, book),
                None if net.is_closed(pipe) => {
                    self.drop_pipe(net, 0);
                    return true;
                }
                None => return looked > 0,
            }
        }
        true
    }

    fn on_packet(&mut self, pipe: Pipe, packet: Packet, net: &mut Net, book: &mut Book) {
        match packet {
            Packet::ConnAck { .. } => {
                self.connected = true;
                self.asks_clean = false;
                if is_traced() {
                    println!("{} sees CONNACK", self.name);
                }
                self.told = (!self.is_passing).then_some((self.persistent, book.written));
                self.told_session = Some(self.session);
                self.repeat(pipe, net, book);
            }
            Packet::Publish(got) => self.on_publish(pipe, &got, net, book),
            Packet::PubAck { id, reason } => {
                let out = self.take(id, &format!("PUBACK {id}"));
                if reason != ReasonCode::QuotaExceeded {
                    book.acknowledged(out.serial, reason);
                }
            }
            Packet::PubRec {
                id,
                reason: ReasonCode::QuotaExceeded,
            } => {
                // The journal is full.
                self.take(id, &format!("PUBREC {id}"));
            }
            Packet::PubRec { id, reason } => {
                let Some(out) = self.out.values_mut().find(|out| out.id == id) else {
                    panic!("{}: PUBREC {id} although nothing waits for it", self.name);
                };
                out.released = true;
                book.acknowledged(out.serial, reason);
                let (end, up) = net.end(pipe);
                end.machine.pubrel(id, ReasonCode::Success, up);
            }
            Packet::PubRel { id } => {
                self.in2.remove(&id);
                book.settled(self.session, id);
                let (end, up) = net.end(pipe);
                end.machine.pubcomp(id, ReasonCode::Success, up);
            }
            Packet::PubComp { id } => {
                self.take(id, &format!("PUBCOMP {id}"));
            }
            Packet::SubAck { id, codes } => {
                let Some(Question::Subscribe(filters)) = self.questions.remove(&id) else {
                    panic!("{}: SUBACK {id} although nothing was asked", self.name);
                };
                assert_eq!(codes.len(), filters.len());
                for ((filter, number), code) in filters.iter().zip(&codes) {
                    assert!(
                        !code.is_error(),
                        "{}: {filter} was refused: {code:?}",
                        self.name
                    );
                    let qos = match code {
                        ReasonCode::GrantedQos1 => QoS::AtLeastOnce,
                        ReasonCode::GrantedQos2 => QoS::ExactlyOnce,
                        _ => QoS::AtMostOnce,
                    };
                    if self.asked.get(filter) == Some(number) {
                        book.subscribed(self.session, filter, qos);
                    }
                }
            }
            Packet::UnsubAck { id, .. } => {
                let Some(Question::Unsubscribe(filter, number)) = self.questions.remove(&id) else {
                    panic!("{}: UNSUBACK {id} out of the blue", self.name);
                };
                if self.asked.get(&filter) == Some(&number) {
                    book.unsubscribed(self.session, &filter);
                }
            }
            Packet::Disconnect(reason) => {
                assert!(
                    matches!(
                        reason,
                        ReasonCode::SessionTakenOver | ReasonCode::QuotaExceeded
                    ),
                    "{}: the server says {reason:?}",
                    self.name
                );
            }
            Packet::PingResp | Packet::Auth => {
                panic!("{}: {packet:?} was not asked for", self.name)
            }
        }
    }

    fn take(&mut self, id: u16, what: &str) -> Out {
        let Some(order) = self
            .out
            .iter()
            .find(|(_, out)| out.id == id)
            .map(|(order, _)| *order)
        else {
            panic!("{}: {what} although nothing waits for it", self.name);
        };
        self.out.remove(&order).expect("found just now")
    }

    /// [MQTT-4.4.0-1]: what is not acknowledged is sent again, in its order.
    fn repeat(&mut self, pipe: Pipe, net: &mut Net, book: &mut Book) {
        for out in self.out.values() {
            if out.released {
                let (end, up) = net.end(pipe);
                end.machine.pubrel(out.id, ReasonCode::Success, up);
            } else {
                self.write_publish(pipe, out.id, out.serial, true, net, book);
            }
        }
    }

    fn on_publish(&mut self, pipe: Pipe, got: &Got, net: &mut Net, book: &mut Book) {
        let (end, up) = net.end(pipe);
        match got.qos {
            QoS::AtMostOnce => book.accepted(self.session, got),
            QoS::AtLeastOnce => {
                book.accepted(self.session, got);
                book.settled(self.session, got.id);
                end.machine.puback(got.id, ReasonCode::Success, up);
            }
            QoS::ExactlyOnce => {
                let serial = Serial::of(&got.payload);
                match self.in2.get(&got.id) {
                    // The broker has forgotten what it sent, and this client takes something new for a repetition.
                    Some(known) if book.is_vague(self.session) && serial != Some(*known) => {
                        book.swallowed(self.session, got);
                    }
                    // [MQTT-4.3.3-10]: until it is released, the same identifier is the same message.
                    Some(known) => assert_eq!(
                        (*known, serial.unwrap_or_default()),
                        (*known, *known),
                        "{}: packet identifier {} was used for another message before it was released",
                        self.name,
                        got.id
                    ),
                    None => {
                        self.in2.insert(got.id, serial.unwrap_or_default());
                        book.accepted(self.session, got);
                    }
                }
                end.machine.pubrec(got.id, ReasonCode::Success, up);
            }
        }
    }

    /// Nothing of ours waits for the server.
    pub fn is_idle(&self) -> bool {
        self.out.is_empty() && self.questions.is_empty()
    }
}
