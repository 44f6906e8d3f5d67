//! The server's end of all conversations over one datagram socket.

mod event;
mod settings;

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_wire::{Span, Time};

pub use event::*;
pub use settings::{EchoForObserve, ServerSettings};

use crate::{Datagrams, Response, SharedBody};

/// The server's end of all conversations over one datagram socket: datagrams in, events out; verbs write datagrams.
///
/// A request comes out of [`ServerSide::handle_datagram`] once, however often it was sent. [`ServerSide::respond`] may
/// be called at once or later; the machine sees to acknowledgements, repetitions, blocks, and which request it was.
/// Call [`ServerSide::poll_event`] until nothing comes after each call of `handle_datagram`, `handle_timeout` and
/// `notify`, and [`ServerSide::handle_timeout`] at [`ServerSide::poll_timeout`].
#[derive(Debug)]
pub struct ServerSide {
    settings: Arc<ServerSettings>,
    counts: ServerCounts,
}

impl ServerSide {
    /// A machine without peers. `seed` chooses message ids and the keys of hashes: nobody outside should know it.
    pub fn new(settings: Arc<ServerSettings>, seed: u64) -> Self {
        let _ = seed;
        ServerSide { settings, counts: ServerCounts::default() }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Arc<ServerSettings> {
        &self.settings
    }

    /// Other settings from now on. What they limit and is there already stays.
    pub fn set_settings(&mut self, settings: Arc<ServerSettings>) {
        self.settings = settings;
    }

    /// Takes one datagram. The event borrows from the datagram only, so the machine can be used while it is held.
    pub fn handle_datagram<'b>(
        &mut self,
        from: SocketAddr,
        datagram: &'b [u8],
        now: Time,
        out: &mut Datagrams,
    ) -> Option<Event<'b>> {
        let _ = (from, datagram, now, out);
        None
    }

    /// Answers a request: in its acknowledgement if that has not left, separately (confirmable or not as the request
    /// was) otherwise. Says whether the request still waited.
    pub fn respond(&mut self, exchange: ExchangeId, response: &Response<'_>, now: Time, out: &mut Datagrams) -> bool {
        let _ = (exchange, response, now, out);
        false
    }

    /// Says that the answer will take long: the acknowledgement leaves now.
    pub fn respond_later(&mut self, exchange: ExchangeId, now: Time, out: &mut Datagrams) {
        let _ = (exchange, now, out);
    }

    /// Says that there will be no answer: a confirmable request is acknowledged and no more.
    pub fn ignore(&mut self, exchange: ExchangeId, now: Time, out: &mut Datagrams) {
        let _ = (exchange, now, out);
    }

    /// Accepts the observation that this request asked for; `respond` to it with 2.05 or 2.03 is the first notification.
    /// `cookie` is the application's name for it, `check` how long it may go unconfirmed if not
    /// `ServerSettings::confirm_within`. If the peer observes with this token already, that observation goes on.
    pub fn observe(
        &mut self,
        exchange: ExchangeId,
        cookie: u64,
        check: Option<Span>,
        now: Time,
    ) -> Result<RelationId, ObserveRefused> {
        let _ = (exchange, cookie, check, now);
        Err(ObserveRefused::NotAsked)
    }

    /// Tells an observer of a new state. On [`Notified::Busy`] keep the newest state until [`Notice::Ready`].
    pub fn notify(
        &mut self,
        relation: RelationId,
        body: &Arc<SharedBody>,
        delivery: Delivery,
        now: Time,
        out: &mut Datagrams,
    ) -> Notified {
        let _ = (relation, body, delivery, now, out);
        Notified::Gone
    }

    /// Takes back a `notify` that was refused as busy: there is nothing to say any more, and no notice will come.
    pub fn nothing_to_notify(&mut self, relation: RelationId) {
        let _ = relation;
    }

    /// Ends an observation, with a last notification that says why, such as 4.04, or without a word: the next thing the
    /// observer hears of it is then silence. There is no notice.
    pub fn end_observation(&mut self, relation: RelationId, last: Option<&Arc<SharedBody>>, now: Time, out: &mut Datagrams) {
        let _ = (relation, last, now, out);
    }

    /// What is known of an observation.
    pub fn relation(&self, relation: RelationId) -> Option<RelationState> {
        let _ = relation;
        None
    }

    /// Where a peer is.
    pub fn peer_address(&self, peer: PeerId) -> Option<SocketAddr> {
        let _ = peer;
        None
    }

    /// Says that a peer is where it seems to be.
    pub fn prove(&mut self, peer: PeerId) {
        let _ = peer;
    }

    /// Says that nobody is at an address any more: everything that goes on with it ends, observations with notices.
    pub fn peer_gone(&mut self, address: SocketAddr) {
        let _ = address;
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Datagrams) {
        let _ = (now, out);
    }

    /// When something will be due; [`Time::NEVER`] if nothing will.
    pub fn poll_timeout(&self) -> Time {
        Time::NEVER
    }

    /// What happened beside requests.
    pub fn poll_event(&mut self) -> Option<Notice> {
        None
    }

    /// How many peers are known.
    pub fn peers(&self) -> usize {
        0
    }

    /// How many observations there are.
    pub fn relations(&self) -> usize {
        0
    }

    /// What was seen and done.
    pub fn counts(&self) -> ServerCounts {
        self.counts
    }

    /// Memory by what it is for.
    pub fn bytes(&self) -> ServerBytes {
        ServerBytes::default()
    }
}
