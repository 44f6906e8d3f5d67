//! The server's end of all conversations over one datagram socket.

mod awaited;
mod event;
mod exchange;
mod notify;
mod receive;
mod refuse;
mod respond;
mod settings;

use core::net::SocketAddr;
use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::quality::FixedState;
use thalweg_wire::{Span, Time};

pub use event::*;
pub use settings::{ALL_COAP_NODES, EchoForObserve, ServerSettings};

use self::awaited::Awaited;
use self::exchange::Exchanges;
use crate::blockwise::{KeptResponses, Transfers};
use crate::dedup::Remembered;
use crate::echo::Echo;
use crate::endpoint::{Endpoint, Owner};
use crate::observe::Relation;
use crate::slots::{NONE, Slots};
use crate::timers::{Timer, TimerKind};
use crate::{Datagrams, NoResponse, option};

/// The server's end of all conversations over one datagram socket: datagrams in, events out; verbs write datagrams.
///
/// A request comes out of [`ServerSide::handle_datagram`] once, however often it was sent. [`ServerSide::respond`] may
/// be called at once or later; the machine sees to acknowledgements, repetitions, blocks, and which request it was.
/// Call [`ServerSide::poll_event`] until nothing comes after each call of `handle_datagram`, `handle_timeout` and
/// `notify`, and [`ServerSide::handle_timeout`] at [`ServerSide::poll_timeout`].
#[derive(Debug)]
pub struct ServerSide {
    settings: Arc<ServerSettings>,
    /// Bit n: the option n is understood.
    understood: u64,
    exchange_lifetime: Span,
    non_lifetime: Span,
    hasher: FixedState,
    echo: Echo,
    endpoint: Endpoint,
    relations: Slots<Relation>,
    exchanges: Exchanges,
    /// Responses whose outcome the application asked for.
    awaited: Slots<Awaited>,
    remembered: Remembered,
    transfers: Transfers,
    kept: KeptResponses,
    notices: VecDeque<Notice>,
    /// The time that the last call passed in.
    now: Time,
    /// Answers that are not sent to the datagram that is handled: those that say that it failed, if it came to a group.
    unwanted: NoResponse,
    counts: ServerCounts,
}

/// Peers and answers that are forgotten for their age in one go.
const FORGOTTEN_AT_ONCE: usize = 1024;

/// Notices that the empty list of them keeps room for.
const NOTICES_KEPT: usize = 4096;
/// Datagrams in the output above which what is due waits, so that answers are read in between.
const REPEATED_AT_ONCE: usize = 256;

impl ServerSide {
    /// A machine without peers. `seed` chooses message ids and the keys of hashes; it must be secret.
    pub fn new(settings: Arc<ServerSettings>, seed: u64) -> Self {
        let transmission = settings.transmission.clone();
        let mut endpoint = Endpoint::new(
            transmission,
            settings.waiting_per_peer,
            settings.sendings_max,
            seed,
        );
        let key = [endpoint.throw(), endpoint.throw() ^ seed];
        let mut server = ServerSide {
            understood: 0,
            exchange_lifetime: Span::ZERO,
            non_lifetime: Span::ZERO,
            hasher: FixedState::with_seed(endpoint.throw()),
            echo: Echo::new(key, settings.echo_lifetime),
            endpoint,
            relations: Slots::default(),
            exchanges: Exchanges::default(),
            awaited: Slots::default(),
            remembered: Remembered::default(),
            transfers: Transfers::default(),
            kept: KeptResponses::default(),
            notices: VecDeque::new(),
            now: Time::ZERO,
            unwanted: NoResponse::NONE,
            counts: ServerCounts::default(),
            settings: settings.clone(),
        };
        server.set_settings(settings);
        server
    }

    /// The settings in force.
    pub fn settings(&self) -> &Arc<ServerSettings> {
        &self.settings
    }

    /// Replaces the settings. Existing peers and observations above a new limit stay.
    pub fn set_settings(&mut self, settings: Arc<ServerSettings>) {
        let own = [option::BLOCK1, option::BLOCK2];
        let understood = settings
            .understood_options
            .iter()
            .chain(&own)
            .filter(|number| **number < 64);
        self.understood = understood.fold(0, |bits, number| bits | 1 << number);
        self.exchange_lifetime = settings.transmission.exchange_lifetime();
        self.non_lifetime = settings.transmission.non_lifetime();
        self.echo.set_lifetime(settings.echo_lifetime);
        self.endpoint.transmission = settings.transmission.clone();
        self.endpoint.waiting_per_peer = settings.waiting_per_peer;
        self.endpoint.sendings_max = settings.sendings_max;
        self.settings = settings;
    }

    /// Does what is due, as far as not too much leaves at once; the rest is due still.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Datagrams) {
        self.now = now;
        while out.len() < REPEATED_AT_ONCE
            && let Some(timer) = self.endpoint.timers.pop(now)
        {
            if timer.is_of(self.timer_generation(timer)) {
                match timer.kind {
                    TimerKind::Sending => self.sending_due(timer.index, now, out),
                    TimerKind::Check => self.check(timer.index, now),
                    TimerKind::Pace => self.pace_due(timer.index, now),
                    TimerKind::Request => {}
                }
            }
        }
        self.attend_exchanges(now, out);
        self.transfers.forget_old(self.settings.transfer_idle, now);
        self.kept.forget_old(self.settings.transfer_idle, now);
        self.tell_dropped();
        self.remembered
            .forget_old(self.exchange_lifetime, now, FORGOTTEN_AT_ONCE);
        self.endpoint
            .peers
            .forget_idle(self.settings.peer_idle, now, FORGOTTEN_AT_ONCE);
    }

    /// The generation of the record that a timer was set for: another than the timer's if that record is gone.
    fn timer_generation(&self, timer: Timer) -> u32 {
        match timer.kind {
            TimerKind::Sending => self.endpoint.sendings.generation(timer.index),
            TimerKind::Check => self.relations.generation(timer.index),
            TimerKind::Pace | TimerKind::Request => {
                self.endpoint.peers.slots.generation(timer.index)
            }
        }
    }

    /// Removes stale timers, if there may be many.
    #[inline]
    fn tidy_timers(&mut self) {
        if self.endpoint.timers.are_many() {
            let mut timers = std::mem::take(&mut self.endpoint.timers);
            timers.tidy(|timer| timer.is_of(self.timer_generation(timer)));
            self.endpoint.timers = timers;
        }
    }

    /// When something will be due; [`Time::NEVER`] if nothing will.
    pub fn poll_timeout(&self) -> Time {
        let blocks = self.transfers.next().min(self.kept.next());
        self.endpoint
            .timers
            .next()
            .min(self.exchanges.next())
            .min(blocks)
    }

    /// Returns the next event that is not a request.
    pub fn poll_event(&mut self) -> Option<Notice> {
        if self.notices.is_empty() && self.notices.capacity() > NOTICES_KEPT {
            self.notices = VecDeque::new();
        }
        self.notices.pop_front()
    }

    /// Says that a peer is where it seems to be.
    pub fn prove(&mut self, peer: PeerId) {
        if let Some(peer) = self.endpoint.peers.slots.get_mut(peer.0) {
            peer.proven = true;
        }
    }

    /// Reports that the peer at an address is gone: its exchanges end, its observations with notices.
    /// The next peer at this address is another, and gets nothing that was meant for the one before: neither
    /// an answer that is still to come nor one that was kept or remembered. RFC 7252 §9.1
    pub fn peer_gone(&mut self, address: SocketAddr) {
        let peers = &mut self.endpoint.peers;
        let peer = peers.find(address, peers.hash(address));
        peers.rename(peer);
        let Some(peer) = peer else { return };
        self.drop_exchanges(peer);
        while let Some(owner) = self.endpoint.drop_one(peer) {
            if let Owner::Awaited(awaited) = owner {
                self.tell_fate(awaited, false);
            }
        }
        self.kept.forget_awaited(peer);
        self.tell_dropped();
        // Messages in flight were removed with it.
        let mut index = self
            .endpoint
            .peers
            .slots
            .get(peer)
            .map_or(NONE, |peer| peer.relations);
        while let Some(relation) = self.relations.get_mut(index) {
            relation.sending = NONE;
            index = relation.next;
        }
        // Nothing is left that could leave because of this.
        self.end_all(
            peer,
            ObservationEnd::PeerGone,
            self.now,
            &mut Datagrams::new(),
        );
        if let Some(record) = self.endpoint.peers.slots.get_mut(peer) {
            record.proven = self.settings.addresses_are_proven;
            record.asked = None;
            record.round_trip = 0;
        }
    }

    /// These answers are not awaited any more.
    fn drop_exchanges(&mut self, peer: u32) {
        while let Some(index) = self
            .endpoint
            .peers
            .slots
            .get(peer)
            .map(|peer| peer.exchanges)
        {
            let id = ExchangeId {
                index,
                generation: self.exchanges.slots.generation(index),
            };
            let Some(exchange) = self.close(id) else {
                return;
            };
            self.tell_fate(exchange.awaited, false);
        }
    }

    /// Number of known peers.
    pub fn peers(&self) -> usize {
        self.endpoint.peers.slots.len()
    }

    /// Number of current observations.
    pub fn relations(&self) -> usize {
        self.relations.len()
    }

    /// Counters since the server was created.
    pub fn counts(&self) -> ServerCounts {
        ServerCounts {
            peers_displaced: self.endpoint.peers.displaced,
            remembered_displaced: self.remembered.displaced,
            transfers_displaced: self.transfers.displaced,
            confirmable: self.endpoint.counts.confirmable,
            retransmissions: self.endpoint.counts.retransmissions,
            timeouts: self.endpoint.counts.timeouts,
            ..self.counts
        }
    }

    /// Memory in use, by purpose.
    pub fn bytes(&self) -> ServerBytes {
        ServerBytes {
            peers: self.endpoint.peers.bytes(),
            relations: self.relations.bytes(),
            sendings: self.endpoint.sending_bytes(),
            timers: self.endpoint.timers.bytes() + self.notices.capacity() * size_of::<Notice>(),
            exchanges: self.exchanges.bytes(),
            remembered: self.remembered.bytes(),
            transfers: self.transfers.bytes() + self.kept.bytes(),
        }
    }
}
