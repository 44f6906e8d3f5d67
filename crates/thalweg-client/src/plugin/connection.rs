//! The course of a connection, the same for every plugin.

use std::net::{Ipv4Addr, SocketAddr};

use thalweg_model::{Span, Time};

use super::Liveness;
use crate::transport::{Endpoint, Events, LinkFault, Welcome};

/// Connection state of a plugin. Its time is that of the current call into the plugin.
#[derive(Debug)]
pub(crate) struct Connection {
    endpoint: Endpoint,
    payload_bytes_max: usize,
    stage: Stage,
    peer: SocketAddr,
    now: Time,
    opened: Time,
    liveness: Liveness,
    /// A message had to wait for room.
    was_full: bool,
    /// Why a connection that was just opened cannot go on.
    fault: Option<LinkFault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Closed,
    /// The handshake: how long it may take is the engine's affair, the same for all.
    Opening,
    Up,
}

impl Connection {
    /// No connection to this endpoint yet; larger payloads than these bytes will not be published.
    pub(crate) fn new(endpoint: Endpoint, payload_bytes_max: usize) -> Self {
        Connection {
            endpoint,
            payload_bytes_max,
            stage: Stage::Closed,
            peer: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            now: Time::ZERO,
            opened: Time::ZERO,
            liveness: Liveness::default(),
            was_full: false,
            fault: None,
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    /// Where the datagrams go.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Time since the connection was opened.
    pub(crate) fn age(&self) -> Span {
        self.now.since(self.opened)
    }

    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    /// Tells the engine, once, that the peer has let us in.
    pub(crate) fn be_up(&mut self, welcome: &Welcome, events: &mut dyn Events) {
        if !std::mem::replace(&mut self.stage, Stage::Up).is_up() {
            events.up(welcome);
        }
    }

    pub(crate) fn liveness(&mut self) -> &mut Liveness {
        &mut self.liveness
    }

    /// The peer has answered a question of [`super::Plugin::ping`]; returns and tells the round trip.
    pub(crate) fn answered(&mut self, events: &mut dyn Events) -> Option<Span> {
        let span = self.now.since(self.liveness.answered()?);
        events.round_trip(span);
        Some(span)
    }

    /// Makes messages wait; the engine is notified when they may be sent.
    pub(crate) fn hold(&mut self) {
        self.was_full = true;
    }

    pub(crate) fn was_full(&self) -> bool {
        self.was_full
    }

    pub(super) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// A call into the plugin at this time.
    #[inline]
    pub(super) fn at(&mut self, now: Time) {
        self.now = now;
    }

    pub(super) fn open(&mut self, peer: SocketAddr, keep_alive: Span, now: Time) {
        self.stage = Stage::Opening;
        (self.peer, self.now, self.opened) = (peer, now, now);
        self.liveness = Liveness::begin(keep_alive, now);
    }

    pub(super) fn close(&mut self) {
        (self.stage, self.was_full, self.fault) = (Stage::Closed, false, None);
        self.liveness.answered();
    }

    pub(super) fn opened(&mut self, outcome: Result<(), LinkFault>) {
        self.fault = outcome.err();
    }

    /// Why the connection cannot go on, told once.
    pub(super) fn take_fault(&mut self) -> Option<LinkFault> {
        self.fault.take()
    }

    pub(super) fn take_full(&mut self) {
        self.was_full = false;
    }

    /// When the connection has something to do by itself.
    pub(super) fn due(&self) -> Time {
        match (&self.fault, self.stage) {
            (Some(_), _) => Time::ZERO,
            (None, Stage::Up) => self.liveness.due(),
            _ => Time::NEVER,
        }
    }
}

impl Stage {
    fn is_up(self) -> bool {
        self == Stage::Up
    }
}
