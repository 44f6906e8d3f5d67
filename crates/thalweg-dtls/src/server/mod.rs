//! The server's end, for all peers of one socket.
//!
//! Costs that an unknown address can cause: one answer, shorter than its datagram, and no memory. A peer that can
//! receive at its address can cause a handshake, of which there are at most [`ServerLimits::handshakes_max`], and four
//! failed ones in ten seconds. When all places are taken, those of the network with the most handshakes are evicted
//! first.

mod association;
mod handshake;
mod pace;
mod peers;
#[cfg(test)]
mod tests;

use core::net::SocketAddr;
use core::ops::Range;
use std::fmt;
use std::sync::Arc;

use thalweg_wire::{Reader, Span, Time};

use crate::alert::{self, Alert};
use crate::certificate::Certificate;
use crate::hello::{ClientHello, Cookies};
use crate::message::{CLIENT_HELLO, FINISHED, Piece};
use crate::psk::{PskEntry, PskTable};
use crate::random::Random;
use crate::record::{NUMBER_MAX, PLAIN_MAX, Record, VERSION_1_2, content, write_header};
use association::Association;
use handshake::{Handshake, Opened, wrong_key};
use pace::Pace;
use peers::Peers;

/// Credentials for peers: keys, a certificate or both.
pub struct ServerConfig {
    keys: Option<PskTable>,
    certificate: Option<Box<dyn Certificate>>,
    identity_hint: String,
}

/// The longest hint that RFC 4279 §5.3 requires peers to understand.
const HINT_BYTES_MAX: usize = 128;

impl ServerConfig {
    /// `identity_hint` is sent to clients to choose their identity by (RFC 4279 §5.2); empty: not sent. No secret.
    pub fn new(
        keys: Option<PskTable>,
        certificate: Option<Box<dyn Certificate>>,
        identity_hint: &str,
    ) -> Result<ServerConfig, ConfigFault> {
        if keys.is_none() && certificate.is_none() {
            return Err(ConfigFault::Nobody);
        }
        if identity_hint.len() > HINT_BYTES_MAX {
            return Err(ConfigFault::LongHint);
        }
        Ok(ServerConfig {
            keys,
            certificate,
            identity_hint: identity_hint.to_owned(),
        })
    }
}

/// Why there can be no server with this configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigFault {
    /// There are neither keys nor a certificate.
    Nobody,
    /// The identity hint is longer than peers have to understand.
    LongHint,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigFault::Nobody => {
                f.write_str("DTLS needs a key file, a certificate or both; name one")
            }
            ConfigFault::LongHint => write!(
                f,
                "the identity hint has more than {HINT_BYTES_MAX} bytes; shorten it"
            ),
        }
    }
}

impl std::error::Error for ConfigFault {}

/// Limits of a server for the peers of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Most peers with an association. When one more comes, the one that has been silent longest is evicted.
    pub peers_max: usize,
    /// Handshakes under way. When one more comes, the oldest of the network that has the most goes; among equals, unless
    /// it is younger than two seconds.
    pub handshakes_max: usize,
    /// Longest time of a handshake.
    pub handshake_timeout: Span,
    /// Longest silence of a peer. The default is longer than an observer's (24 hours, RFC 7641 §4.5).
    pub idle_timeout: Span,
    /// The longest datagram of a handshake. (Later ones are as long as their text asks.)
    pub mtu: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            peers_max: 100_000,
            handshakes_max: 1_000,
            handshake_timeout: Span::from_secs(30),
            idle_timeout: Span::from_secs(25 * 3600),
            // The least that every IPv6 path carries, without IPv6's and UDP's headers.
            mtu: 1280 - 48,
        }
    }
}

/// A handshake is given this long even when others, or another one of the same peer, wait for its place.
const HANDSHAKE_YOUNG: Span = Span::from_secs(2);

/// The last record number that a ClientHello may have: behind it are more than a handshake uses.
const HELLO_NUMBER_MAX: u64 = NUMBER_MAX - (1 << 24);

/// Identity of a peer. Equal ones are the same user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerIdentity {
    /// It has the key of this identity.
    Psk(Arc<str>),
    /// It has the key of a certificate with this name.
    Certificate(Arc<str>),
    /// It has no certificate and was not made to have one, or one without a name.
    Unnamed,
}

impl PeerIdentity {
    /// The name, which serves as the user's.
    pub fn name(&self) -> Option<&Arc<str>> {
        match self {
            PeerIdentity::Psk(name) | PeerIdentity::Certificate(name) => Some(name),
            PeerIdentity::Unnamed => None,
        }
    }
}

/// Events of a server, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A handshake is complete.
    Ready {
        /// Address of the peer.
        peer: SocketAddr,
        /// Authenticated identity of the peer.
        identity: PeerIdentity,
    },
    /// A text came; [`Output::text`] has it.
    Received {
        /// Address of the peer.
        peer: SocketAddr,
        /// Authenticated identity of the peer.
        identity: PeerIdentity,
        /// Where the text is.
        text: Range<usize>,
    },
    /// An association is over; what belongs to it must be forgotten (RFC 7252 §9.1: an answer must not leave in another
    /// one).
    Closed {
        /// Address of the peer.
        peer: SocketAddr,
        /// Why the association ended.
        why: Ended,
    },
    /// A handshake failed. For the log; there is nothing to forget.
    Refused {
        /// Address of the peer.
        peer: SocketAddr,
        /// Cause in words, for the log.
        why: String,
    },
}

/// Why an association is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The peer said so.
    ByPeer,
    /// The peer has a new one: its [`Event::Ready`] follows.
    Replaced,
    /// No datagram came for [`ServerLimits::idle_timeout`].
    Idle,
    /// There were [`ServerLimits::peers_max`], and another one came.
    Crowded,
    /// Its key was changed or taken away.
    KeyChanged,
}

/// Results of a call: datagrams to send, texts, events. The caller keeps one and clears it.
#[derive(Debug, Default)]
pub struct Output {
    wire: Vec<u8>,
    /// To whom, and where in `wire` the datagram ends.
    datagrams: Vec<(SocketAddr, usize)>,
    plain: Vec<u8>,
    events: Vec<Event>,
}

impl Output {
    /// The datagrams to send, in order.
    pub fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        let mut begins = 0;
        self.datagrams.iter().map(move |(to, ends)| {
            (
                *to,
                &self.wire[std::mem::replace(&mut begins, *ends)..*ends],
            )
        })
    }

    /// Events of the call, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The text of a [`Event::Received`].
    pub fn text(&self, text: &Range<usize>) -> &[u8] {
        self.plain.get(text.clone()).unwrap_or_default()
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.wire.clear();
        self.datagrams.clear();
        self.plain.clear();
        self.events.clear();
    }

    fn send(&mut self, to: SocketAddr, datagram: &[u8]) {
        self.write(to, |wire| wire.extend_from_slice(datagram));
    }

    fn write(&mut self, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>)) {
        let begins = self.wire.len();
        write(&mut self.wire);
        if self.wire.len() > begins {
            self.datagrams.push((to, self.wire.len()));
        }
    }
}

/// Counters since the server was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// ClientHellos that were answered with a cookie.
    pub cookies: u64,
    /// Handshakes that were completed.
    pub completed: u64,
    /// Handshakes that failed or took too long.
    pub failed: u64,
    /// Handshakes that were not begun or were given up because there were too many.
    pub crowded: u64,
    /// Records of no association, replayed or not authentic.
    pub discarded: u64,
}

/// There is no association with this peer, or the text is longer than a record may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSent;

/// The server's end of DTLS for all peers of one socket.
pub struct ServerSide {
    config: Arc<ServerConfig>,
    limits: ServerLimits,
    random: Random,
    cookies: Cookies,
    pace: Pace,
    peers: Peers,
    counts: Counts,
}

impl ServerSide {
    /// A server without peers; each socket has its own. `seed` are secret random bytes, for it alone.
    pub fn new(config: Arc<ServerConfig>, limits: ServerLimits, seed: [u8; 32]) -> ServerSide {
        let mut random = Random::new(seed);
        let (cookies, pace) = (Cookies::new(&random.bytes()), Pace::new(&random.bytes()));
        ServerSide {
            config,
            limits,
            random,
            cookies,
            pace,
            peers: Peers::default(),
            counts: Counts::default(),
        }
    }

    /// Takes another configuration, and ends what rests on a key that is no longer there. Associations with certificates
    /// stay, as TLS connections do.
    pub fn renew(&mut self, config: Arc<ServerConfig>, out: &mut Output) {
        self.config = config;
        for place in self.peers.all() {
            let psk = self
                .peers
                .association(place)
                .and_then(|association| association.psk.clone());
            if !self.is_current(&psk) {
                self.end(place, Ended::KeyChanged, out);
            }
        }
    }

    /// Takes a datagram from the socket.
    pub fn handle_datagram(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        now: Time,
        out: &mut Output,
    ) {
        let mut rest = Reader::new(datagram);
        let mut greeted = false;
        while let Some(record) = Record::take(&mut rest) {
            match (record.epoch, record.content) {
                (0, content::HANDSHAKE) => {
                    self.take_handshake(from, &record, &mut greeted, now, out)
                }
                (0, content::ALERT) => self.take_plain_alert(from, record.fragment, out),
                // The epoch of the client's next record implies its change of keys.
                (0, content::CHANGE_CIPHER_SPEC) => {}
                (1, _) => self.take_protected(from, &record, now, out),
                _ => self.counts.discarded += 1,
            }
        }
    }

    /// Appends a datagram with a text for a peer to `datagram`. It is at most [`RECORD_OVERHEAD_MAX`](crate::RECORD_OVERHEAD_MAX) longer than the
    /// text.
    pub fn encrypt(
        &mut self,
        to: SocketAddr,
        text: &[u8],
        datagram: &mut Vec<u8>,
    ) -> Result<(), NotSent> {
        self.seal(to, content::APPLICATION_DATA, text, datagram)
    }

    pub(crate) fn seal(
        &mut self,
        to: SocketAddr,
        content: u8,
        text: &[u8],
        datagram: &mut Vec<u8>,
    ) -> Result<(), NotSent> {
        let association = self
            .peers
            .place(&to)
            .and_then(|place| self.peers.association(place))
            .ok_or(NotSent)?;
        let fits = text.len() <= PLAIN_MAX && association.seal(content, text, datagram);
        if fits { Ok(()) } else { Err(NotSent) }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due; [`Time::NEVER`] when nothing waits.
    pub fn poll_timeout(&self) -> Time {
        let wake = self.peers.first_wake().map_or(Time::NEVER, |(at, _)| at);
        let idle = self
            .peers
            .quietest()
            .map_or(Time::NEVER, |(heard, _)| heard + self.limits.idle_timeout);
        wake.min(idle)
    }

    /// Sends again what was not answered, gives up what has taken too long and forgets who has been silent too long.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Output) {
        while let Some((at, place)) = self.peers.first_wake() {
            if at > now {
                break;
            }
            let Some(peer) = self.peers.address(place) else {
                break;
            };
            let mtu = self.limits.mtu;
            if self
                .peers
                .handshake(place)
                .is_some_and(|it| it.handle_timeout(peer, mtu, now, out))
            {
                self.peers.reschedule(place);
            } else {
                self.give_up(
                    place,
                    "the peer did not finish the handshake in time".into(),
                    out,
                );
            }
        }
        while let Some((heard, place)) = self.peers.quietest() {
            if heard + self.limits.idle_timeout > now {
                break;
            }
            self.end(place, Ended::Idle, out);
        }
    }

    /// Ends the association with a peer by an alert. Gives no event.
    pub fn close(&mut self, peer: SocketAddr, out: &mut Output) {
        if let Some(place) = self.peers.place(&peer) {
            self.say_goodbye(place, out);
            self.peers.dissociate(place);
            self.peers.forget_empty(place);
        }
    }

    /// Ends all associations, because what peers are known by changes as a whole; each gives its event.
    pub fn end_all(&mut self, out: &mut Output) {
        for place in self.peers.all() {
            self.end(place, Ended::KeyChanged, out);
        }
    }

    /// Ends all associations, as the server does when it stops. Gives no events.
    pub fn close_all(&mut self, out: &mut Output) {
        for place in self.peers.all() {
            if let Some(peer) = self.peers.address(place) {
                self.close(peer, out);
            }
        }
    }

    /// Identity of a peer; `None` without an association.
    pub fn identity(&mut self, peer: SocketAddr) -> Option<&PeerIdentity> {
        let place = self.peers.place(&peer)?;
        self.peers
            .association(place)
            .map(|association| &association.identity)
    }

    /// Number of peers with an association.
    pub fn peers(&self) -> usize {
        self.peers.associations()
    }

    /// Number of handshakes in progress.
    pub fn handshakes(&self) -> usize {
        self.peers.handshakes()
    }

    /// Counters since the server was created.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Messages that came without protection. Of a datagram's hellos the first is looked at, or the answers to many
    /// would be more than the question.
    fn take_handshake(
        &mut self,
        from: SocketAddr,
        record: &Record<'_>,
        greeted: &mut bool,
        now: Time,
        out: &mut Output,
    ) {
        let mut rest = Reader::new(record.fragment);
        while let Some(piece) = Piece::take(&mut rest) {
            if piece.kind == CLIENT_HELLO {
                // Ours would be numbered from there (RFC 6347 §4.2.1), and run out of numbers.
                if std::mem::replace(greeted, true) || record.number > HELLO_NUMBER_MAX {
                    self.counts.discarded += 1;
                    continue;
                }
                self.take_client_hello(from, record.number, &piece, now, out);
                continue;
            }
            let place = self.peers.place(&from);
            match place.and_then(|place| self.peers.handshake(place)) {
                Some(handshake) => handshake.add(piece, false),
                None => self.counts.discarded += 1,
            }
        }
        if let Some(place) = self.peers.place(&from) {
            self.step(place, now, out);
        }
    }

    fn take_client_hello(
        &mut self,
        from: SocketAddr,
        record: u64,
        message: &Piece<'_>,
        now: Time,
        out: &mut Output,
    ) {
        // A hello in pieces would have to be kept before its cookie is known. Those of small devices are whole.
        let hello = if message.is_whole() {
            ClientHello::read(message.bytes)
        } else {
            Err("in pieces")
        };
        let Ok(hello) = hello else {
            self.counts.discarded += 1;
            return;
        };
        // A copy of the hello that began a handshake. The cookie proved the sender's address when it was valid; another
        // cookie now would make another hello of it, and another transcript.
        let known = self.peers.place(&from).filter(|_| !hello.cookie.is_empty());
        if let Some(handshake) = known.and_then(|place| self.peers.handshake(place))
            && handshake.began_with(hello.random)
        {
            handshake.send(from, self.limits.mtu, out);
            return;
        }
        if !self.cookies.is_good(from, &hello, now) {
            self.counts.cookies += 1;
            out.write(from, |wire| {
                self.cookies
                    .ask(from, &hello, record, message.sequence, now, wire)
            });
            return;
        }
        if let Some(place) = self.peers.place(&from) {
            // Signatures are expensive: repeated hellos do not bring them faster.
            if self
                .peers
                .handshake(place)
                .is_some_and(|it| it.began_at() + HANDSHAKE_YOUNG > now)
            {
                self.counts.crowded += 1;
                return;
            }
            if self
                .peers
                .association(place)
                .is_some_and(|it| it.began_with(hello.cookie))
            {
                return;
            }
        }
        if !(self.pace.may_begin(&from, now) && self.make_room(from, now, out)) {
            self.counts.crowded += 1;
            return;
        }
        let timeout = self.limits.handshake_timeout;
        match Handshake::start(
            self.config.clone(),
            &hello,
            message,
            record,
            &mut self.random,
            now,
            timeout,
        ) {
            Ok(mut handshake) => {
                handshake.send(from, self.limits.mtu, out);
                self.peers.begin(from, handshake, now);
            }
            Err(alert) => {
                self.counts.failed += 1;
                out.write(from, |wire| {
                    write_header(wire, content::ALERT, VERSION_1_2, 0, record, 2);
                    wire.extend_from_slice(&[alert::FATAL, alert.description]);
                });
                out.events.push(Event::Refused {
                    peer: from,
                    why: alert.why.into_owned(),
                });
            }
        }
    }

    /// False: there are too many handshakes, and none of them has to go for this one.
    fn make_room(&mut self, from: SocketAddr, now: Time, out: &mut Output) -> bool {
        let replaces = self
            .peers
            .place(&from)
            .is_some_and(|place| self.peers.handshake(place).is_some());
        if replaces || self.peers.handshakes() < self.limits.handshakes_max {
            return true;
        }
        let Some((began, place, is_greedy)) = self.peers.next_to_go(&from) else {
            return false;
        };
        let goes = is_greedy || began + HANDSHAKE_YOUNG <= now;
        if goes {
            self.counts.crowded += 1;
            self.give_up(
                place,
                "too many handshakes are under way, and this was the oldest".into(),
                out,
            );
        }
        goes
    }

    /// An alert without protection means something only while nothing is protected.
    fn take_plain_alert(&mut self, from: SocketAddr, fragment: &[u8], out: &mut Output) {
        let place = self.peers.place(&from);
        let place = place.filter(|place| self.peers.handshake(*place).is_some());
        match (place, fragment) {
            (Some(place), [alert::FATAL, description]) => {
                self.give_up(
                    place,
                    format!("the peer gave up: {}", alert::name(*description)),
                    out,
                );
            }
            _ => self.counts.discarded += 1,
        }
    }

    fn take_protected(
        &mut self,
        from: SocketAddr,
        record: &Record<'_>,
        now: Time,
        out: &mut Output,
    ) {
        let Some(place) = self.peers.place(&from) else {
            self.counts.discarded += 1;
            return;
        };
        // While an association is being replaced, a record may belong to the old one or to the new one.
        let opened = self
            .peers
            .handshake(place)
            .map(|handshake| handshake.open(record));
        if let Some(Opened::Yes(content, plain)) = opened {
            self.take_last_messages(place, content, &plain, now, out);
            return;
        }
        let start = out.plain.len();
        match self
            .peers
            .association(place)
            .map(|association| association.open(record, &mut out.plain))
        {
            Some(Opened::Yes(content, _)) => {
                self.peers.heard(place, now);
                if content == content::APPLICATION_DATA {
                    let Some(association) = self.peers.association(place) else {
                        return;
                    };
                    association.is_confirmed();
                    let (identity, text) = (association.identity.clone(), start..out.plain.len());
                    out.events.push(Event::Received {
                        peer: from,
                        identity,
                        text,
                    });
                } else {
                    let plain = out.plain.split_off(start);
                    self.take_control(place, content, &plain, out);
                }
            }
            Some(Opened::Passed | Opened::No) | None => {
                self.counts.discarded += 1;
                let shows = |it: &mut Handshake| it.shows_another_key(record);
                if matches!(opened, Some(Opened::No))
                    && self.peers.handshake(place).is_some_and(shows)
                {
                    self.refuse(place, wrong_key(), out);
                }
            }
        }
    }

    /// Handles input under the keys of an incomplete handshake: Finished, or an alert.
    fn take_last_messages(
        &mut self,
        place: usize,
        content: u8,
        plain: &[u8],
        now: Time,
        out: &mut Output,
    ) {
        match (content, plain) {
            (content::HANDSHAKE, _) => {
                let mut rest = Reader::new(plain);
                while let Some(piece) = Piece::take(&mut rest) {
                    if let Some(handshake) = self.peers.handshake(place) {
                        handshake.add(piece, true);
                    }
                }
                self.step(place, now, out);
            }
            (
                content::ALERT,
                [alert::FATAL, description] | [_, description @ alert::CLOSE_NOTIFY],
            ) => {
                self.give_up(
                    place,
                    format!("the peer gave up: {}", alert::name(*description)),
                    out,
                );
            }
            _ => self.counts.discarded += 1,
        }
    }

    /// Handles records of an association that are not application data.
    fn take_control(&mut self, place: usize, content: u8, plain: &[u8], out: &mut Output) {
        match (content, plain) {
            (content::ALERT, [_, alert::CLOSE_NOTIFY] | [alert::FATAL, _]) => {
                self.end(place, Ended::ByPeer, out)
            }
            (content::HANDSHAKE, _) => {
                let kind = Piece::take(&mut Reader::new(plain)).map(|piece| piece.kind);
                let Some(peer) = self.peers.address(place) else {
                    return;
                };
                let Some(association) = self.peers.association(place) else {
                    return;
                };
                match kind {
                    // Ours did not come (RFC 6347 §4.2.4).
                    Some(FINISHED) => {
                        out.write(peer, |wire| {
                            association.write_last_flight(wire);
                        });
                    }
                    // RFC 5246 §7.2.2: the client goes on or closes.
                    Some(CLIENT_HELLO) => out.write(peer, |wire| {
                        association.seal(
                            content::ALERT,
                            &[alert::WARNING, alert::NO_RENEGOTIATION],
                            wire,
                        );
                    }),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Goes on with a handshake as far as its messages reach.
    fn step(&mut self, place: usize, now: Time, out: &mut Output) {
        let Some(handshake) = self.peers.handshake(place) else {
            return;
        };
        match handshake.step() {
            Ok(true) => self.complete(place, now, out),
            Ok(false) => {
                if let Some((content, number, fragment)) = handshake.take_early() {
                    let record = Record {
                        content,
                        epoch: 1,
                        number,
                        fragment: &fragment,
                    };
                    // One that does not open may be older than this handshake. If it is not, it comes again.
                    if let Opened::Yes(content, plain) = handshake.open(&record) {
                        self.take_last_messages(place, content, &plain, now, out);
                    }
                }
            }
            Err(alert) => self.refuse(place, alert, out),
        }
    }

    fn complete(&mut self, place: usize, now: Time, out: &mut Output) {
        let Some(peer) = self.peers.address(place) else {
            return;
        };
        let psk = self
            .peers
            .handshake(place)
            .and_then(|handshake| handshake.psk().cloned());
        // The files may have been read again since the key was looked up.
        if !self.is_current(&psk) {
            let alert = Alert::new(alert::DECRYPT_ERROR, "the peer's key has just been changed");
            return self.refuse(place, alert, out);
        }
        let Some(done) = self.peers.take_handshake(place).and_then(Handshake::finish) else {
            return;
        };
        self.pace.has_completed(&peer);
        let identity = done.identity.clone();
        let mut association = Association::new(done);
        out.write(peer, |wire| {
            association.write_last_flight(wire);
        });
        self.counts.completed += 1;
        if self.peers.associate(place, association, now).is_some() {
            out.events.push(Event::Closed {
                peer,
                why: Ended::Replaced,
            });
        }
        out.events.push(Event::Ready { peer, identity });
        while self.peers.associations() > self.limits.peers_max.max(1) {
            let Some((_, quietest)) = self.peers.quietest() else {
                break;
            };
            self.end(quietest, Ended::Crowded, out);
        }
    }

    /// Ends a handshake with an alert.
    fn refuse(&mut self, place: usize, alert: Alert, out: &mut Output) {
        let Some(peer) = self.peers.address(place) else {
            return;
        };
        if let Some(handshake) = self.peers.handshake(place) {
            out.write(peer, |wire| handshake.write_alert(alert.description, wire));
        }
        self.give_up(place, alert.why.into_owned(), out);
    }

    /// Ends a handshake without a word.
    fn give_up(&mut self, place: usize, why: String, out: &mut Output) {
        let Some(peer) = self.peers.address(place) else {
            return;
        };
        if let Some(handshake) = self.peers.take_handshake(place) {
            self.counts.failed += 1;
            out.events.push(Event::Refused {
                peer,
                why: format!("{why} ({})", handshake.suite()),
            });
        }
        self.peers.forget_empty(place);
    }

    /// Ends an association by an alert to the peer.
    fn end(&mut self, place: usize, why: Ended, out: &mut Output) {
        let Some(peer) = self.peers.address(place) else {
            return;
        };
        self.say_goodbye(place, out);
        if self.peers.dissociate(place).is_some() {
            out.events.push(Event::Closed { peer, why });
        }
        self.peers.forget_empty(place);
    }

    fn say_goodbye(&mut self, place: usize, out: &mut Output) {
        if let (Some(peer), Some(association)) =
            (self.peers.address(place), self.peers.association(place))
        {
            out.write(peer, |wire| {
                association.seal(content::ALERT, &[alert::WARNING, alert::CLOSE_NOTIFY], wire);
            });
        }
    }

    fn is_current(&self, psk: &Option<Arc<PskEntry>>) -> bool {
        let Some(entry) = psk else { return true };
        self.config
            .keys
            .as_ref()
            .is_some_and(|table| table.still_has(entry))
    }
}

/// Says how many peers there are; keys stay where they are.
impl fmt::Debug for ServerSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (peers, handshakes) = (self.peers(), self.handshakes());
        f.debug_struct("ServerSide")
            .field("peers", &peers)
            .field("handshakes", &handshakes)
            .finish_non_exhaustive()
    }
}
