//! One lane: its transport, what it has to write, and how its connection does.

use std::collections::VecDeque;

use thalweg_model::{Reliability, Span, Time};

use super::interface::LaneState;
use super::outbox::Key;
use super::settings::EngineSettings;
use crate::pace::{Batcher, Throttle};
use crate::transport::{Capabilities, DeliveryId, MessageId, Output, SubscriptionId, Transport};

/// A connection must have been up so long before the next back-off starts from the beginning.
const STEADY: Span = Span::from_secs(10);

/// After so many messages in a row on which a transport gave up, its connection is made anew.
pub(super) const GIVE_UPS_MAX: u32 = 3;

/// Assumed round trip before the first measurement.
const ROUND_TRIP_UNKNOWN: Span = Span::from_millis(500);

pub(super) struct Lane {
    pub transport: Box<dyn Transport>,
    pub out: Output,
    pub link: Link,
}

/// The engine's state of a lane and its connection.
#[derive(Debug)]
pub(super) struct Link {
    pub way: usize,
    /// Number of its host, from 1 on: lanes to one host reach one broker.
    pub host: u32,
    pub state: LaneState,
    /// Since when it is in this state.
    pub since: Time,
    /// Counts connections, so that what belongs to an earlier one is recognized.
    pub connection: u32,
    pub ups: u64,
    pub capabilities: Capabilities,
    /// When it may be connected again.
    pub retry_at: Time,
    pub attempt: u32,
    /// Trying again as we are makes no sense.
    pub is_final: bool,
    /// Messages in flight, in the order of sending.
    pub flight: VecDeque<Key>,
    /// Of these, under the protocol's own exactly once.
    pub pinned: usize,
    /// Messages that were in flight when another lane took over: a late acknowledgement still counts.
    pub former: VecDeque<Key>,
    /// The transport takes more messages.
    pub has_room: bool,
    /// The peer asked us to wait until then.
    pub resume_at: Time,
    /// Number of consecutive times that it did.
    pub busy: u32,
    /// Messages in a row on which the transport gave up.
    pub give_ups: u32,
    /// The round trip, smoothed by an eighth (RFC 6298 §2.3); None before the first measurement.
    pub round_trip: Option<Span>,
    /// Number of round trips measured.
    pub answers: u64,
    /// Number of pings sent; answers come in order.
    pub questions: u64,
    /// When a message was last sent at most once.
    pub gone_at: Option<Time>,
    /// Time since which the lane is not needed.
    pub unneeded: Option<Time>,
    /// Subscriptions of which the peer may still have messages for us, although they are elsewhere now; and when we say
    /// that they are.
    pub remnants: Vec<(SubscriptionId, Time)>,
    pub throttle: Throttle,
    pub batcher: Batcher,
    /// Why it was lost, or could not be made, the last time.
    pub words: String,
}

impl Lane {
    pub fn new(
        transport: Box<dyn Transport>,
        way: usize,
        host: u32,
        settings: &EngineSettings,
    ) -> Self {
        let link = Link {
            way,
            host,
            state: LaneState::Idle,
            since: Time::ZERO,
            connection: 0,
            ups: 0,
            capabilities: transport.capabilities(),
            retry_at: Time::ZERO,
            attempt: 0,
            is_final: false,
            flight: VecDeque::new(),
            pinned: 0,
            former: VecDeque::new(),
            has_room: true,
            resume_at: Time::ZERO,
            busy: 0,
            give_ups: 0,
            round_trip: None,
            answers: 0,
            questions: 0,
            gone_at: None,
            unneeded: None,
            remnants: Vec::new(),
            throttle: Throttle::new(settings.throttle),
            batcher: Batcher::new(settings.batch),
            words: String::new(),
        };
        Lane {
            transport,
            out: Output::default(),
            link,
        }
    }

    /// When a message may be given to it: now or before, at once; [`Time::NEVER`] while only an event can change it.
    pub fn sends_at(&self, settings: &EngineSettings, now: Time) -> Time {
        let link = &self.link;
        let limit = settings.in_flight_max.min(link.throttle.window()) as usize;
        if link.state != LaneState::Up
            || !link.has_room
            || link.flight.len() >= limit
            || self.out.unsent().len() >= settings.high_water
        {
            return Time::NEVER;
        }
        link.resume_at.max(link.throttle.next_send(now))
    }
}

impl Lane {
    /// Pings the peer; returns the ping's number and bytes. Once it is answered, all that the peer sent before has arrived,
    /// where the transport keeps order. [`u64::MAX`] stands for a ping that could not be sent.
    pub fn question(&mut self, now: Time) -> (u64, usize) {
        match self.transport.probe(now, &mut self.out) {
            0 => (u64::MAX, 0),
            bytes => {
                self.link.questions += 1;
                (self.link.questions, bytes)
            }
        }
    }
}

impl Link {
    /// A question was answered, ours or the transport's own.
    pub fn answered(&mut self) {
        self.answers = (self.answers + 1).min(self.questions);
    }

    /// Nobody waits for the answers that are missing any more: they are lost.
    pub fn forgo_answers(&mut self) {
        self.answers = self.questions;
    }

    pub fn is_up(&self) -> bool {
        self.state == LaneState::Up
    }

    /// Whether it has, or is about to have, a connection.
    pub fn is_open(&self) -> bool {
        matches!(
            self.state,
            LaneState::Connecting | LaneState::Opening | LaneState::Up
        )
    }

    pub fn enter(&mut self, state: LaneState, now: Time) {
        (self.state, self.since) = (state, now);
    }

    /// Something was answered after so long.
    pub fn measured(&mut self, span: Span) {
        let smoothed = self.round_trip.map_or(span.nanos(), |old| {
            old.nanos() - old.nanos() / 8 + span.nanos() / 8
        });
        self.round_trip = Some(Span::from_nanos(smoothed));
    }

    /// How long messages in flight are awaited after another lane took over: twice the round trip and a second.
    pub fn drain(&self, settings: &EngineSettings) -> Span {
        let round_trip = self.round_trip.unwrap_or(ROUND_TRIP_UNKNOWN);
        let span = Span::from_nanos(
            round_trip
                .nanos()
                .saturating_mul(2)
                .saturating_add(1_000_000_000),
        );
        span.min(settings.drain_max)
    }

    /// Takes a message out of those in flight.
    pub fn landed(&mut self, id: MessageId) -> Option<Key> {
        // Nearly always the first: acknowledgements come in order.
        let at = self.flight.iter().position(|key| key.id == id)?;
        self.flight.remove(at)
    }

    /// The connection is over: when it may be made again. `random`: any number.
    pub fn back_off(&mut self, settings: &EngineSettings, random: u64, is_final: bool, now: Time) {
        if self.state == LaneState::Up && now.since(self.since) >= STEADY {
            self.attempt = 0;
        }
        let longest = settings.backoff_max.nanos().max(1);
        let full = settings
            .backoff_min
            .nanos()
            .saturating_mul(1 << self.attempt.min(30))
            .min(longest);
        // Trying again is useless as far as the peer says; but passwords get corrected, so it is tried, rarely.
        let full = if is_final {
            longest.saturating_mul(2)
        } else {
            full
        };
        let half = (full / 2).max(1);
        self.retry_at = now + Span::from_nanos(half + random % half);
        self.attempt = self.attempt.saturating_add(1);
        self.is_final = is_final;
    }
}

/// Events of a transport during a call, handled after it has returned.
#[derive(Debug)]
pub(super) enum Todo {
    Up {
        session_present: bool,
    },
    Subscribed(
        SubscriptionId,
        Result<Reliability, crate::transport::Refusal>,
    ),
    Unsubscribed(SubscriptionId, crate::transport::Refusal),
    Settle(DeliveryId),
    /// Acknowledged by a lane that had it before another one got it.
    Former(Key),
}
