//! Sent, acknowledged and received messages, and the consistency of all of them.

use crate::net::{Got, Packet};
use std::collections::{HashMap, HashSet};
use thalweg_model::{Filter, Span, Time};
use thalweg_mqtt::{QoS, ReasonCode};

/// A message's number, written into its payload; 0 for a will, which has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Serial(pub u64);

impl Serial {
    /// The number in a payload; nothing in a will's or an empty one.
    pub fn of(payload: &[u8]) -> Option<Serial> {
        payload
            .first_chunk::<8>()
            .map(|bytes| Serial(u64::from_le_bytes(*bytes)))
    }
}

/// A message that a client sent.
pub struct Message {
    pub publisher: usize,
    pub topic: String,
    pub qos: QoS,
    pub retain: bool,
    pub expiry_secs: Option<u32>,
    sent_at: Time,
    /// When it was first sent, in the order of the book's events.
    moment: u64,
    /// Number of times that the client sent it.
    transmissions: u32,
    acknowledged: bool,
    /// When it was acknowledged, in the order of the book's events, and the written part of the journal then.
    acknowledged_at: (u64, usize),
}

/// One session of a client: ended by a clean start or by its expiry, after which the client has another.
pub struct Session {
    pub client: usize,
    /// It outlives the broker.
    persistent: bool,
    /// Part of its state at the broker was lost, as the operator allowed.
    vague: bool,
    /// Filters in force since a known time or earlier, their QoS, and the written part of the journal then.
    subscriptions: HashMap<String, (u64, QoS, usize)>,
    /// Filters that were ever asked for, and when the end of the subscription was acknowledged.
    filters: HashMap<String, Option<u64>>,
    /// Number of deliveries of each message.
    accepted: HashMap<Serial, u32>,
    /// Groups it has asked to join.
    groups: HashSet<String>,
    /// Number of times that the server has sent each message to it, on any connection: in all, and without DUP.
    seen: HashMap<Serial, (u32, u32)>,
    /// The last message of each publisher, topic, QoS sent and QoS received.
    newest: HashMap<(usize, String, QoS, QoS), Serial>,
    /// The same of those that have reached the client.
    newest_accepted: HashMap<(usize, String, QoS, QoS), Serial>,
    /// Packet identifiers in use on the connection.
    in_flight: HashMap<u16, Serial>,
    receive_max: u16,
}

#[derive(Default)]
pub struct Book {
    messages: Vec<Message>,
    pub sessions: Vec<Session>,
    moment: u64,
    /// Groups (by their topic's first two levels) of which a member's session ended or unsubscribed.
    pub disturbed: HashSet<String>,
    /// Messages of groups that were given to a member which does not outlive the broker.
    fleeting: HashSet<Serial>,
    /// The part of the journal that is written.
    pub written: usize,
    /// Acknowledgements wait for the journal, and with it for every shard that has a part in it.
    pub is_journaled: bool,
    /// Messages were refused because the journal was full; later ones may have come in before they were repeated.
    pub was_full: bool,
    crashes: usize,
    swallowed: HashSet<(usize, Serial)>,
    group_accepted: HashMap<Serial, u32>,
}

impl Session {
    pub fn is_subscribed(&self, filter: &str) -> bool {
        self.subscriptions.contains_key(filter)
    }

    /// Whether it may be a member of a group.
    pub fn is_in_group(&self) -> bool {
        !self.groups.is_empty()
    }
}

impl Message {
    pub fn payload(&self, serial: Serial) -> Vec<u8> {
        let mut payload = serial.0.to_le_bytes().to_vec();
        payload.resize(8 + (serial.0 % 60) as usize, b'x');
        payload
    }
}

/// Prefix of the topics of groups; there are no other subscriptions to them.
const GROUP_TOPICS: &str = "g/";
/// Topics with last values.
pub const RETAINED_TOPICS: &str = "r/";

impl Book {
    fn message(&self, serial: Serial) -> &Message {
        &self.messages[serial.0 as usize - 1]
    }

    fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    pub fn new_message(
        &mut self,
        publisher: usize,
        topic: &str,
        qos: QoS,
        retain: bool,
        expiry_secs: Option<u32>,
        now: Time,
    ) -> Serial {
        let moment = self.tick();
        self.messages.push(Message {
            publisher,
            topic: topic.to_owned(),
            qos,
            retain,
            expiry_secs,
            sent_at: now,
            moment,
            transmissions: 0,
            acknowledged: false,
            acknowledged_at: (0, 0),
        });
        Serial(self.messages.len() as u64)
    }

    /// A client sends a message, perhaps again.
    pub fn sending(&mut self, serial: Serial) -> &Message {
        let message = &mut self.messages[serial.0 as usize - 1];
        message.transmissions += 1;
        if is_traced() {
            let Message {
                publisher,
                topic,
                qos,
                retain,
                ..
            } = &*message;
            println!(
                "client {publisher} sends message {} on {topic} {qos:?} retain {retain}",
                serial.0
            );
        }
        message
    }

    pub fn acknowledged(&mut self, serial: Serial, reason: ReasonCode) {
        assert!(
            !reason.is_error(),
            "message {} was refused: {reason:?}",
            serial.0
        );
        let at = (self.tick(), self.written);
        if is_traced() {
            println!(
                "message {} is acknowledged: {reason:?}, {} batches written",
                serial.0, self.written
            );
        }
        let message = &mut self.messages[serial.0 as usize - 1];
        message.acknowledged = true;
        message.acknowledged_at = at;
    }

    /// The broker is gone, and the next one has the state written by `kept`. `vague`: part of that is lost.
    pub fn crash(&mut self, kept: usize, vague: bool) {
        self.crashes += 1;
        for session in &mut self.sessions {
            // A message that was about to be sent may be sent anew, and so may those already sent.
            session.seen.values_mut().for_each(|(_, fresh)| *fresh = 0);
            session.newest = session.newest_accepted.clone();
            session.vague |= vague;
            if vague {
                session
                    .subscriptions
                    .retain(|_, (.., written)| *written <= kept);
            }
        }
        for message in self
            .messages
            .iter_mut()
            .filter(|message| vague && message.acknowledged_at.1 > kept)
        {
            message.acknowledged = false;
        }
    }

    pub fn make_vague(&mut self, session: usize) {
        self.sessions[session].vague = true;
    }

    pub fn is_vague(&self, session: usize) -> bool {
        self.sessions[session].vague
    }

    /// A client has taken a message for the repetition of another one.
    pub fn swallowed(&mut self, session: usize, got: &Got) {
        if let Some(serial) = Serial::of(&got.payload) {
            self.sessions[session].accepted.entry(serial).or_insert(0);
            self.swallowed.insert((session, serial));
        }
    }

    pub fn new_session(&mut self, client: usize, persistent: bool) -> usize {
        if let Some(old) = self
            .sessions
            .iter()
            .rposition(|session| session.client == client)
        {
            let groups = std::mem::take(&mut self.sessions[old].groups);
            self.disturbed.extend(groups);
        }
        self.sessions.push(Session {
            client,
            persistent,
            vague: false,
            subscriptions: HashMap::new(),
            filters: HashMap::new(),
            accepted: HashMap::new(),
            groups: HashSet::new(),
            seen: HashMap::new(),
            newest: HashMap::new(),
            newest_accepted: HashMap::new(),
            in_flight: HashMap::new(),
            receive_max: u16::MAX,
        });
        self.sessions.len() - 1
    }

    pub fn new_connection(&mut self, session: usize, receive_max: u16) {
        let session = &mut self.sessions[session];
        session.in_flight.clear();
        session.receive_max = receive_max;
    }

    pub fn subscribing(&mut self, session: usize, filter: &str) {
        self.sessions[session].groups.extend(group_of(filter));
        self.sessions[session]
            .filters
            .insert(filter.to_owned(), None);
    }

    pub fn subscribed(&mut self, session: usize, filter: &str, qos: QoS) {
        let (moment, written) = (self.tick(), self.written);
        let subscription = self.sessions[session]
            .subscriptions
            .entry(filter.to_owned());
        subscription.or_insert((moment, qos, written)).1 = qos;
    }

    pub fn unsubscribed(&mut self, session: usize, filter: &str) {
        let moment = self.tick();
        self.sessions[session]
            .filters
            .insert(filter.to_owned(), Some(moment));
    }

    pub fn unsubscribing(&mut self, session: usize, filter: &str) {
        self.disturbed.extend(group_of(filter));
        self.sessions[session].subscriptions.remove(filter);
    }

    /// The server writes a packet to a session's connection.
    pub fn on_wire(&mut self, number: usize, packet: &Packet, now: Time) {
        let Packet::Publish(got) = packet else { return };
        let Some(serial) = Serial::of(&got.payload) else {
            return;
        };
        let message = &self.messages[serial.0 as usize - 1];
        let session = &mut self.sessions[number];
        let who = format!(
            "client {} session {number}, message {} on {}",
            session.client, serial.0, message.topic
        );
        if is_traced() {
            println!("{} {who} {:?} {got:?}", now.nanos(), message.qos);
        }
        assert_eq!(got.topic, message.topic, "{who}: the topic has changed");
        assert_eq!(
            got.payload,
            message.payload(serial),
            "{who}: the payload has changed"
        );
        assert!(
            got.qos <= message.qos,
            "{who}: QoS {:?} has become {:?}",
            message.qos,
            got.qos
        );
        let in_group = message.topic.starts_with(GROUP_TOPICS);
        let retained = message.topic.starts_with(RETAINED_TOPICS);
        let wanted = |(filter, gone): (&String, &Option<u64>)| {
            gone.is_none_or(|gone| message.moment < gone)
                && Filter::new(filter).is_ok_and(|f| f.matches(&message.topic))
        };
        let asked_for = in_group || session.vague || session.filters.iter().any(wanted);
        assert!(
            asked_for,
            "{who}: sent although no subscription wants it any more"
        );
        if in_group && !session.persistent {
            self.fleeting.insert(serial);
        }
        let (times, fresh) = session.seen.entry(serial).or_default();
        if got.dup {
            assert!(
                *times > 0 || in_group || session.vague,
                "{who}: DUP is set although it was never sent before [MQTT-3.3.1-3]"
            );
        } else if !in_group && !retained {
            let allowed = if message.qos == QoS::AtLeastOnce {
                message.transmissions
            } else {
                1
            };
            assert!(
                *fresh < allowed,
                "{who}: sent {} times without DUP",
                *fresh + 1
            );
        }
        *times += 1;
        *fresh += u32::from(!got.dup);
        let is_first = *times == 1;
        if let (Some(left), Some(all)) = (got.expiry_secs, message.expiry_secs) {
            assert!(left <= all, "{who}: {left} s of {all} s are left");
        }
        if let Some(all) = message.expiry_secs
            && !got.dup
            && message.transmissions == 1
        {
            let late = message.sent_at + Span::from_secs(u64::from(all) + LATE_SECS);
            assert!(now <= late, "{who}: sent after it had expired");
        }
        // The publisher's repetition was accepted again, perhaps after later messages.
        let comes_once =
            message.qos == QoS::ExactlyOnce && message.expiry_secs.is_none() && !self.was_full;
        let once = message.transmissions == 1 || comes_once;
        if is_first && once && !in_group && !retained {
            let key = (
                message.publisher,
                message.topic.clone(),
                message.qos,
                got.qos,
            );
            let newest = session.newest.entry(key).or_default();
            assert!(
                *newest < serial,
                "{who}: message {} overtook it [MQTT-4.6.0-6]",
                newest.0
            );
            *newest = serial;
        }
        if got.qos > QoS::AtMostOnce {
            let old = session.in_flight.insert(got.id, serial);
            assert!(
                old.is_none(),
                "{who}: packet identifier {} is in use for {old:?} [MQTT-2.2.1-4]",
                got.id
            );
            let (used, max) = (session.in_flight.len(), usize::from(session.receive_max));
            assert!(
                used <= max,
                "{who}: {used} in flight, {max} allowed [MQTT-3.3.4-9]"
            );
        }
    }

    /// A client's last acknowledgement of an identifier has left.
    pub fn settled(&mut self, session: usize, id: u16) {
        self.sessions[session].in_flight.remove(&id);
    }

    /// A client accepts a message: its application sees it.
    pub fn accepted(&mut self, number: usize, got: &Got) {
        let Some(serial) = Serial::of(&got.payload) else {
            return;
        };
        let message = self.message(serial);
        let (in_group, retained) = (
            message.topic.starts_with(GROUP_TOPICS),
            message.topic.starts_with(RETAINED_TOPICS),
        );
        let key = (
            message.publisher,
            message.topic.clone(),
            message.qos,
            got.qos,
        );
        let session = &mut self.sessions[number];
        let newest = session.newest_accepted.entry(key).or_default();
        *newest = serial.max(*newest);
        let times = session.accepted.entry(serial).or_insert(0);
        *times += 1;
        let who = format!(
            "client {} session {number}, message {}",
            session.client, serial.0
        );
        if got.qos == QoS::ExactlyOnce && !retained {
            assert!(
                *times == 1 || session.vague,
                "{who} on {}: accepted {times} times at QoS 2",
                got.topic
            );
        }
        if in_group {
            let all = self.group_accepted.entry(serial).or_insert(0);
            *all += 1;
            let fleeting = self.crashes > 0 && self.fleeting.contains(&serial);
            let once = got.qos == QoS::ExactlyOnce && !fleeting && !session.vague;
            assert!(
                !once || *all == 1,
                "{who}: accepted {all} times in its group at QoS 2"
            );
        }
    }

    /// Everything has been delivered that will be: what was promised to a session that still lives must be there.
    pub fn check_promises(&self, number: usize) {
        let session = &self.sessions[number];
        for (at, message) in self.messages.iter().enumerate() {
            let serial = Serial(at as u64 + 1);
            if !message.acknowledged
                || message.expiry_secs.is_some()
                || message.topic.starts_with(GROUP_TOPICS)
            {
                continue;
            }
            if self.swallowed.contains(&(number, serial)) {
                continue;
            }
            let promised = session
                .subscriptions
                .iter()
                .any(|(filter, (since, qos, _))| {
                    *qos > QoS::AtMostOnce
                        && *since < message.moment
                        && Filter::new(filter).is_ok_and(|filter| filter.matches(&message.topic))
                });
            let times = session.accepted.get(&serial).copied().unwrap_or(0);
            assert!(
                !promised || times > 0,
                "client {} session {number}: message {} on {} was acknowledged and is lost",
                session.client,
                serial.0,
                message.topic
            );
        }
    }

    /// Every message of a group has reached a member, if there was one at all times. `since`: when the group's members
    /// that stay were subscribed.
    pub fn check_group(&self, group: &str, anchors: &[usize]) {
        let since = anchors
            .iter()
            .filter_map(|session| self.sessions[*session].subscriptions.get(group))
            .map(|s| s.0);
        let Some(since) = since.min() else { return };
        let Some(name) = group_of(group) else { return };
        for (at, message) in self.messages.iter().enumerate() {
            let serial = Serial(at as u64 + 1);
            let undisturbed = message.qos == QoS::AtLeastOnce || !self.disturbed.contains(&name);
            let undisturbed =
                undisturbed && !self.swallowed.iter().any(|swallowed| swallowed.1 == serial);
            let of_group = message.topic.starts_with(&format!("{name}/"));
            if of_group && message.acknowledged && message.moment > since && undisturbed {
                let times = self.group_accepted.get(&serial).copied().unwrap_or(0);
                assert!(
                    times > 0,
                    "group {name}: message {} {:?} was acknowledged and is lost",
                    serial.0,
                    message.qos
                );
            }
        }
    }

    /// The last values at the end: `found` is what a new subscriber got.
    pub fn check_last_values(&self, found: &HashMap<String, Serial>) {
        for (at, message) in self.messages.iter().enumerate() {
            let serial = Serial(at as u64 + 1);
            if !message.retain || !message.acknowledged {
                continue;
            }
            let value = found
                .get(&message.topic)
                .map(|value| (self.message(*value), *value));
            let Some((value, number)) = value else {
                panic!("{} has no last value", message.topic)
            };
            // A message that was sent again may have come in again after a later one.
            let earlier =
                self.is_journaled && value.acknowledged && value.acknowledged_at.0 < message.moment;
            let same =
                value.publisher == message.publisher && number < serial && value.transmissions == 1;
            let stale = same || earlier;
            assert!(
                !stale,
                "{}: {} is kept although its publisher sent {} later",
                message.topic, number.0, serial.0
            );
        }
    }
}

/// `g/x` of `$share/name/g/x/#`.
fn group_of(filter: &str) -> Option<String> {
    let rest = filter.strip_prefix("$share/")?.split_once('/')?.1;
    Some(rest.trim_end_matches("/#").to_owned())
}

/// Whether the run is to be printed.
pub fn is_traced() -> bool {
    static TRACED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *TRACED.get_or_init(|| std::env::var_os("THALWEG_SIM_TRACE").is_some())
}

/// Longest time of a message before the server reads it, in seconds.
const LATE_SECS: u64 = 30;
