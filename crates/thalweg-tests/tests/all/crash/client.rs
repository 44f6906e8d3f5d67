//! A client as the specification requires: it keeps its session state over connections, and after a reconnect it does
//! what clause 4.4 says. Its other behaviour is its [`Habit`].
//!
//! Written against sockets and the hand-made packets of `conformance::packet`: nothing of our codec.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use super::book::{Book, Moment, Use, Wrong};
use super::habit::Habit;
use super::luck::Luck;
use crate::conformance::packet::*;

/// Longest absence of a persistent session.
const SESSION_EXPIRY: u32 = 3600;

/// Between two attempts to connect.
const RETRY_NS: Moment = 8_000_000;

/// A connection that is not greeted within this is given up; the broker may have died with it half made.
const GREETED_WITHIN_NS: Moment = 15_000_000_000;

pub struct Client {
    pub name: String,
    pub version: Version,
    pub habit: Habit,
    /// Book of its received messages; `None` if they are not counted.
    pub reception: Option<usize>,
    pub presence: Presence,
    pub luck: Luck,
    link: Option<Link>,
    connect_at: Moment,
    pub session: Session,
    /// In the order of their first sending.
    outgoing: VecDeque<Outgoing>,
    /// Packet identifiers of QoS 2 messages that were taken and not yet released.
    held: HashMap<u16, String>,
    next_id: u16,
    /// SUBSCRIBE and UNSUBSCRIBE not yet acknowledged; the first is under way.
    asks: VecDeque<Ask>,
    /// Whether it was ever greeted.
    pub was_online: bool,
}

/// A client's record of its session at the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// There is none, or it was ended with an acknowledgement.
    None,
    /// The last CONNECT was not answered, so who knows.
    Unsure,
    /// CONNACK said that it is there.
    Exists,
}

/// How long a client stays and stays away, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Presence {
    pub stays: (f64, f64),
    pub away: (f64, f64),
    /// Probability that it sends DISCONNECT.
    pub polite: f64,
}

impl Presence {
    pub const ALWAYS: Self = Self {
        stays: (1e6, 1e6),
        away: (0.0, 0.0),
        polite: 0.0,
    };
}

/// Output of a client's [`Client::act`].
pub struct Link {
    socket: TcpStream,
    pub greeted: bool,
    opened: Moment,
    pub leaves_at: Moment,
    unread: Vec<u8>,
    unsent: Vec<u8>,
    /// Acknowledgements that it keeps back a little, in their order.
    owed: VecDeque<(Moment, Vec<u8>)>,
    /// The packet identifier of the first of the client's `asks`.
    asked: Option<u16>,
}

struct Outgoing {
    id: u16,
    stream: usize,
    number: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// QoS 1: PUBACK is awaited.
    Sent,
    /// QoS 2: PUBREC is awaited.
    Offered,
    /// QoS 2: PUBREL went, PUBCOMP is awaited.
    Released,
}

/// A change of a subscription: the claim in the client's reception, by its place there.
#[derive(Clone, Debug)]
pub enum Ask {
    Subscribe {
        filter: String,
        qos: u8,
        claim: Option<usize>,
    },
    Unsubscribe {
        claim: usize,
    },
}

impl Client {
    pub fn new(name: &str, version: Version, habit: Habit, presence: Presence, luck: Luck) -> Self {
        Self {
            name: name.to_owned(),
            version,
            habit,
            reception: None,
            presence,
            luck,
            link: None,
            connect_at: 0,
            session: Session::None,
            outgoing: VecDeque::new(),
            held: HashMap::new(),
            next_id: 0,
            asks: VecDeque::new(),
            was_online: false,
        }
    }

    pub fn is_greeted(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.greeted)
    }

    /// Nothing of its own is unacknowledged.
    pub fn is_quiet(&self) -> bool {
        self.outgoing.is_empty() && self.asks.is_empty()
    }

    pub fn in_flight(&self) -> usize {
        self.outgoing.len()
    }

    pub fn ask(&mut self, ask: Ask) {
        self.asks.push_back(ask);
    }

    pub fn is_asking(&self) -> bool {
        !self.asks.is_empty()
    }

    /// Everything a client does in a turn. True if something came or went.
    pub fn turn(&mut self, broker: SocketAddr, book: &mut Book, at_rest: bool) -> bool {
        let now = book.now();
        if self.link.is_none() {
            if now >= self.connect_at || at_rest {
                self.connect(broker, book);
            }
            return false;
        }
        let before = self.link.as_ref().map_or(0, |link| link.unsent.len());
        let came = self.receive(book);
        if self.is_greeted() {
            self.pay_owed(now, at_rest);
            self.ask_next(book);
            Habit::act(self, book, at_rest);
            if !at_rest && self.link.as_ref().is_some_and(|link| now >= link.leaves_at) {
                self.leave(book);
                return true;
            }
        } else if self
            .link
            .as_ref()
            .is_some_and(|link| now > link.opened + GREETED_WITHIN_NS)
        {
            let story = format!(
                "{} was not greeted within {} s",
                self.name,
                GREETED_WITHIN_NS / 1_000_000_000
            );
            book.breach(Wrong::Stuck, story);
            self.lose(book);
        }
        let went = self
            .link
            .as_ref()
            .is_some_and(|link| link.unsent.len() > before);
        self.flush(book);
        came || went
    }

    // --- coming and going

    fn connect(&mut self, broker: SocketAddr, book: &mut Book) {
        let now = book.now();
        self.connect_at = now + RETRY_NS;
        let Ok(socket) = TcpStream::connect(broker) else {
            return;
        };
        socket
            .set_nodelay(true)
            .expect("a fresh socket takes options");
        socket
            .set_nonblocking(true)
            .expect("a fresh socket takes options");
        let stays = self.luck.between(self.presence.stays);
        let mut link = Link {
            socket,
            greeted: false,
            opened: now,
            leaves_at: now + (stays * 1e9) as Moment,
            unread: Vec::new(),
            unsent: Vec::new(),
            owed: VecDeque::new(),
            asked: None,
        };
        let mut connect = Connect::new(self.version, &self.name);
        let clean = Habit::begins_anew(self);
        if !clean {
            connect = connect.clean(false);
            if self.version == Version::V5 {
                connect = connect.with(property::four(property::SESSION_EXPIRY, SESSION_EXPIRY));
            }
        }
        connect = Habit::will(self, connect, book);
        link.unsent = connect.bytes();
        book.trail
            .note(now, &self.name, format_args!("> CONNECT clean {clean}"));
        self.link = Some(link);
        self.flush(book);
    }

    fn greeted(&mut self, flags: u8, code: u8, book: &mut Book) {
        // MQTT 3.1 has no word for it: what the client expects is what it gets.
        let present =
            flags & 1 == 1 || (self.version == Version::V31 && self.session == Session::Exists);
        let now = book.now();
        book.trail.note(
            now,
            &self.name,
            format_args!("< CONNACK {code:#04x} session present {present}"),
        );
        if code != 0 {
            book.breach(
                Wrong::Refused,
                format!("{}: CONNECT was refused with {code:#04x}", self.name),
            );
            return self.lose(book);
        }
        if let Some(link) = &mut self.link {
            link.greeted = true;
        }
        self.was_online = true;
        if Habit::begins_anew(self) {
            if present {
                book.breach(
                    Wrong::Protocol,
                    format!("{}: session present after a clean start", self.name),
                );
            }
            self.forget(book);
            self.session = Session::None;
            return Habit::greeted(self, book, false);
        }
        match (self.session, present) {
            (Session::Exists, false) => {
                let story = format!(
                    "{} had a session; CONNACK at {} knows none",
                    self.name,
                    now as f64 / 1e9
                );
                book.breach(Wrong::SessionLost, story);
                self.forget(book);
            }
            (Session::None, true) => {
                let story = format!(
                    "{} had ended its session; CONNACK at {} knows one",
                    self.name,
                    now as f64 / 1e9
                );
                book.breach(Wrong::SessionRevived, story);
            }
            (_, false) => self.forget(book),
            (_, true) => {}
        }
        self.session = Session::Exists;
        self.send_again(present, book);
        Habit::greeted(self, book, present);
    }

    /// Unacknowledged messages are sent again, in the order of their first time [MQTT-4.4.0-1, 4.6.0-1].
    fn send_again(&mut self, present: bool, book: &mut Book) {
        let now = book.now();
        let all: Vec<(u16, usize, u32, Stage)> = self
            .outgoing
            .iter()
            .map(|it| (it.id, it.stream, it.number, it.stage))
            .collect();
        book.retransmitted += all.len() as u64;
        for (id, stream, number, stage) in all {
            if stage == Stage::Released {
                book.trail.note(
                    now,
                    &self.name,
                    format_args!("> PUBREL {id} again <{stream}#{number}>"),
                );
                self.write(&ack(PUBREL, id));
            } else {
                self.write_publish(id, stream, number, present, book);
            }
        }
    }

    /// The broker has no session of this client any more: the client's own state of it is void, too.
    fn forget(&mut self, book: &mut Book) {
        self.held.clear();
        // A PUBREC was seen, so the message is the broker's; PUBREL has nothing to release any more.
        for it in self
            .outgoing
            .iter()
            .filter(|it| it.stage == Stage::Released)
        {
            book.done(it.stream, it.number);
        }
        self.outgoing.retain(|it| it.stage != Stage::Released);
        let Some(reception) = self.reception else {
            return;
        };
        let now = book.now();
        let mine = &book.receptions[reception];
        let wanted: Vec<(String, u8)> = match mine.shared {
            true => mine
                .claims
                .first()
                .map(|claim| (claim.filter.clone(), claim.qos))
                .into_iter()
                .collect(),
            false => {
                let live = mine
                    .claims
                    .iter()
                    .filter(|it| !it.ended && it.withdrawn == 0 && it.granted > 0);
                live.map(|claim| (claim.filter.clone(), claim.qos))
                    .collect()
            }
        };
        if !mine.shared {
            book.end_claims(reception);
        }
        if self.was_online && self.session == Session::Exists && !Habit::begins_anew(self) {
            book.trail.note(
                now,
                &self.name,
                format_args!("subscribes anew to {wanted:?}"),
            );
            self.asks.clear();
            self.asks
                .extend(wanted.into_iter().map(|(filter, qos)| Ask::Subscribe {
                    filter,
                    qos,
                    claim: None,
                }));
        }
    }

    /// Leaves of its own accord, politely or not.
    pub fn leave(&mut self, book: &mut Book) {
        let now = book.now();
        let polite = self.luck.chance(self.presence.polite);
        book.trail
            .note(now, &self.name, format_args!("leaves, DISCONNECT {polite}"));
        if polite {
            self.write(&disconnect());
            self.flush(book);
        }
        self.lose(book);
        let away = self.luck.between(self.presence.away);
        self.connect_at = now + (away * 1e9) as Moment;
    }

    /// The connection is over.
    fn lose(&mut self, book: &mut Book) {
        let Some(link) = self.link.take() else { return };
        let _ = link.socket.shutdown(Shutdown::Both);
        let now = book.now();
        self.connect_at = now + RETRY_NS;
        if !link.greeted {
            let would_be = if Habit::begins_anew(self) {
                Session::None
            } else {
                Session::Exists
            };
            if self.session != would_be {
                self.session = Session::Unsure;
            }
        }
        book.trail
            .note(now, &self.name, format_args!("is disconnected"));
        Habit::lost(self, book, link.greeted);
    }

    // --- what comes

    fn receive(&mut self, book: &mut Book) -> bool {
        let Some(link) = &mut self.link else {
            return false;
        };
        let mut chunk = [0; 16 * 1024];
        let mut open = true;
        let mut came = false;
        // Not for ever: the others want their turn.
        for _ in 0..16 {
            match link.socket.read(&mut chunk) {
                Ok(0) => open = false,
                Ok(count) => {
                    link.unread.extend(&chunk[..count]);
                    came = true;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => open = false,
            }
            break;
        }
        let mut unread = std::mem::take(&mut link.unread);
        while let Some(packet) = read(self.version, &mut unread) {
            self.take(packet, book);
            if self.link.is_none() {
                return true;
            }
        }
        if let Some(link) = &mut self.link {
            link.unread = unread;
        }
        if !open {
            self.lose(book);
        }
        came
    }

    fn take(&mut self, packet: Packet, book: &mut Book) {
        match packet {
            Packet::Connack { flags, code, .. } => self.greeted(flags, code, book),
            Packet::Publish(message) => self.take_publish(message, book),
            Packet::Ack {
                kind, id, reason, ..
            } => self.take_ack(kind, id, reason, book),
            Packet::Suback { id, codes, .. } => self.take_answer(id, &codes, book),
            Packet::Unsuback { id, codes, .. } => self.take_answer(id, &codes, book),
            Packet::Disconnect { reason, .. } => {
                let now = book.now();
                book.trail
                    .note(now, &self.name, format_args!("< DISCONNECT {reason:#04x}"));
                // 0x8E: taken over by our own next connection. 0x8B: the broker goes.
                if !matches!(reason, 0x8B | 0x8E) {
                    book.breach(
                        Wrong::Refused,
                        format!("{} was disconnected with {reason:#04x}", self.name),
                    );
                }
            }
            Packet::Pingresp => {}
            Packet::Auth { .. } => book.breach(Wrong::Protocol, format!("{} got AUTH", self.name)),
        }
    }

    fn take_publish(&mut self, message: Message, book: &mut Book) {
        let now = book.now();
        let Message {
            id,
            qos,
            dup,
            retain,
            ..
        } = message;
        let (mark, topic) = (mark(&message), &message.topic);
        let line =
            format_args!("< PUBLISH {id} QoS {qos} dup {dup} retain {retain} {mark} {topic}");
        book.trail.note(now, &self.name, line);
        let answer = match qos {
            0 => None,
            1 => Some(ack(PUBACK, id)),
            _ => Some(ack(PUBREC, id)),
        };
        let is_news = qos < 2 || self.is_not_held(&message, book);
        if is_news
            && !Habit::hear(self, &message, book)
            && let Some(reception) = self.reception
        {
            book.hear(reception, &self.name, self.version, &message);
        }
        self.owe(now, answer);
    }

    /// QoS 2, method A: a message whose packet identifier is held is one that was taken before.
    fn is_not_held(&mut self, message: &Message, book: &mut Book) -> bool {
        let mark = mark(message);
        match self.held.insert(message.id, mark.clone()) {
            None => true,
            Some(before) if before == mark => {
                if !message.dup {
                    book.breach(
                        Wrong::Content,
                        format!("{mark} came to {} again without DUP", self.name),
                    );
                }
                false
            }
            Some(before) => {
                let id = message.id;
                let story = format!(
                    "{mark} came to {} as {id} before {before} was released",
                    self.name
                );
                book.breach(Wrong::Protocol, story);
                true
            }
        }
    }

    fn take_ack(&mut self, kind: u8, id: u16, reason: u8, book: &mut Book) {
        let now = book.now();
        if kind == PUBREL {
            let released = self.held.remove(&id);
            book.trail.note(
                now,
                &self.name,
                format_args!("< PUBREL {id} {}", released.unwrap_or_default()),
            );
            return self.owe(now, Some(ack(PUBCOMP, id)));
        }
        let wanted: &[Stage] = match kind {
            PUBACK => &[Stage::Sent],
            PUBREC => &[Stage::Offered, Stage::Released],
            _ => &[Stage::Released],
        };
        let Some(at) = self
            .outgoing
            .iter()
            .position(|it| it.id == id && wanted.contains(&it.stage))
        else {
            let story = format!(
                "{} got acknowledgement {kind:#04x} of {id}, which it does not wait for",
                self.name
            );
            return book.breach(Wrong::Protocol, story);
        };
        let (stream, number) = (self.outgoing[at].stream, self.outgoing[at].number);
        let word = ["PUBACK", "PUBREC", "PUBREL", "PUBCOMP"][usize::from(kind >> 4) - 4];
        book.trail.note(
            now,
            &self.name,
            format_args!("< {word} {id} {reason:#04x} <{stream}#{number}>"),
        );
        // To a PUBREL that repeats one whose PUBCOMP got lost, "not found" (0x92) is the right answer.
        if reason >= 0x80 && !(kind == PUBCOMP && reason == 0x92) {
            self.outgoing.remove(at);
            let story = format!(
                "{}: <{stream}#{number}> was refused with {reason:#04x}",
                self.name
            );
            return book.breach(Wrong::Refused, story);
        }
        match kind {
            PUBREC => {
                self.outgoing[at].stage = Stage::Released;
                book.taken(stream, number);
                book.trail.note(
                    now,
                    &self.name,
                    format_args!("> PUBREL {id} <{stream}#{number}>"),
                );
                self.write(&ack(PUBREL, id));
            }
            PUBACK => {
                self.outgoing.remove(at);
                book.taken(stream, number);
            }
            _ => {
                self.outgoing.remove(at);
                book.done(stream, number);
            }
        }
    }

    // --- subscriptions

    fn ask_next(&mut self, book: &mut Book) {
        if self.link.as_ref().is_none_or(|link| link.asked.is_some()) {
            return;
        }
        let Some(ask) = self.asks.front().cloned() else {
            return;
        };
        let now = book.now();
        let id = self.new_id();
        match ask {
            Ask::Subscribe { filter, qos, claim } => {
                book.trail.note(
                    now,
                    &self.name,
                    format_args!("> SUBSCRIBE {id} {filter} QoS {qos}"),
                );
                self.write(&subscribe(self.version, id, &[], &[(&filter, qos)]));
                if let (Some(reception), None) = (self.reception, claim) {
                    let claims = &mut book.receptions[reception].claims;
                    let new = super::book::Claim {
                        filter: filter.clone(),
                        qos,
                        requested: now,
                        ..Default::default()
                    };
                    claims.push(new);
                    self.asks[0] = Ask::Subscribe {
                        filter,
                        qos,
                        claim: Some(claims.len() - 1),
                    };
                }
                Habit::subscribing(self, book);
            }
            Ask::Unsubscribe { claim } => {
                let Some(reception) = self.reception else {
                    return;
                };
                let claim = &mut book.receptions[reception].claims[claim];
                if claim.withdrawn == 0 {
                    claim.withdrawn = now;
                }
                let filter = claim.filter.clone();
                book.trail
                    .note(now, &self.name, format_args!("> UNSUBSCRIBE {id} {filter}"));
                self.write(&unsubscribe(self.version, id, &[&filter]));
            }
        }
        if let Some(link) = &mut self.link {
            link.asked = Some(id);
        }
    }

    fn take_answer(&mut self, id: u16, codes: &[u8], book: &mut Book) {
        let now = book.now();
        book.trail.note(
            now,
            &self.name,
            format_args!("< SUBACK or UNSUBACK {id} {codes:02x?}"),
        );
        let Some(link) = &mut self.link else { return };
        if link.asked.take() != Some(id) {
            return book.breach(
                Wrong::Protocol,
                format!("{} did not ask for SUBACK or UNSUBACK {id}", self.name),
            );
        }
        if codes.iter().any(|code| *code >= 0x80) {
            book.breach(
                Wrong::Refused,
                format!(
                    "{}: a subscription was answered with {codes:02x?}",
                    self.name
                ),
            );
        }
        match (self.asks.pop_front(), self.reception) {
            (
                Some(Ask::Subscribe {
                    claim: Some(claim), ..
                }),
                Some(reception),
            ) => {
                book.receptions[reception].claims[claim].granted = now;
            }
            (Some(Ask::Unsubscribe { claim }), Some(reception)) => {
                book.receptions[reception].claims[claim].gone = now;
            }
            _ => {}
        }
    }

    // --- what goes

    /// Publishes a new message of `stream`.
    pub fn publish(&mut self, stream: usize, size: usize, book: &mut Book) {
        let number = book.send(stream, size);
        let id = self.new_id();
        let stage = if book.streams[stream].qos == 1 {
            Stage::Sent
        } else {
            Stage::Offered
        };
        self.outgoing.push_back(Outgoing {
            id,
            stream,
            number,
            stage,
        });
        self.write_publish(id, stream, number, false, book);
    }

    fn write_publish(&mut self, id: u16, stream: usize, number: u32, dup: bool, book: &mut Book) {
        let now = book.now();
        let it = &book.streams[stream];
        let mut publish =
            Publish::new(it.address(number), book.payload(stream, number)).qos(it.qos, id);
        (publish.dup, publish.retain) = (dup, it.retain());
        if let (Some(expiry), Version::V5) = (it.expiry, self.version) {
            publish = publish.with(property::four(property::MESSAGE_EXPIRY, expiry));
        }
        let size = publish.payload.len();
        let erases = it.kind == Use::Erased && size == 0;
        book.trail.note(
            now,
            &self.name,
            format_args!(
                "> PUBLISH {id} QoS {} dup {dup} <{stream}#{number}> {size} bytes, erases {erases}",
                it.qos
            ),
        );
        self.write(&publish.bytes(self.version));
    }

    fn owe(&mut self, now: Moment, answer: Option<Vec<u8>>) {
        let Some(answer) = answer else { return };
        // Most are sent at once; some keep messages in flight for a while, so that a kill finds them there.
        let delay = if self.luck.chance(0.03) {
            self.luck.between((0.0, 0.2))
        } else {
            0.0
        };
        let Some(link) = &mut self.link else { return };
        // In the order of the packets that they answer [MQTT-4.6.0-2]: none overtakes one that is kept back.
        let earliest = link.owed.back().map_or(0, |(due, _)| *due);
        link.owed
            .push_back((earliest.max(now + (delay * 1e9) as Moment), answer));
    }

    fn pay_owed(&mut self, now: Moment, at_rest: bool) {
        let Some(link) = &mut self.link else { return };
        while link
            .owed
            .front()
            .is_some_and(|(due, _)| *due <= now || at_rest)
        {
            let (_, answer) = link.owed.pop_front().expect("there is a first");
            link.unsent.extend(answer);
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(link) = &mut self.link {
            link.unsent.extend(bytes);
        }
    }

    fn flush(&mut self, book: &mut Book) {
        let Some(link) = &mut self.link else { return };
        while !link.unsent.is_empty() {
            match link.socket.write(&link.unsent) {
                Ok(count) => drop(link.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Bytes before the end are read first: they may hold acknowledgements.
                Err(_) => {
                    self.receive(book);
                    return self.lose(book);
                }
            }
        }
    }

    fn new_id(&mut self) -> u16 {
        loop {
            self.next_id = self.next_id.wrapping_add(1).max(1);
            if !self.outgoing.iter().any(|it| it.id == self.next_id) {
                return self.next_id;
            }
        }
    }
}

/// Name of a message in the trail: `<stream#number>` from its payload's head.
fn mark(message: &Message) -> String {
    let head = message
        .payload
        .split(|byte| *byte == b'|')
        .next()
        .unwrap_or_default();
    let head = String::from_utf8_lossy(&head[..head.len().min(40)]).into_owned();
    let mut words = head.split(' ');
    match (words.next(), words.next()) {
        (Some(stream), Some(number))
            if words.next().is_some_and(|size| size.parse::<u32>().is_ok()) =>
        {
            format!("<{stream}#{number}>")
        }
        _ => format!("<{}>", head.replace(' ', "#")),
    }
}
