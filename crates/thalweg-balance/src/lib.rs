//! Chooses which member of a group gets its next message, and when.
//!
//! *Knows:* places (members by number), sizes, times, acknowledgements and reports. *Must never know:* a session, a
//! message, a queue. A group reports events and asks for a choice. Time is a parameter. Values from peers are checked
//! in `report`; numbers inside are finite.
//!
//! `strategy` has the names. `turns` are strategies that need no estimate, `score` is the thesis's. `adaptive` is ours:
//! messages stay in the group's queue until the member that will finish first is about to be free; `member` says when
//! that is, from `service` (how long messages take), `residual` (how long one that has begun still takes), `reporting`
//! and `work` (what is left at members that do not acknowledge), `parallel` (several handlers, declared or not),
//! `handshake` (exactly-once messages: the step in which a member works, and what the journal takes). `rank`
//! keeps members in the order of their speed and `fewest` in that of their unsettled deliveries, so that a choice looks
//! at few.
#![forbid(unsafe_code)]

mod adaptive;
mod fewest;
mod handshake;
mod member;
mod parallel;
mod rank;
mod report;
mod reporting;
mod residual;
mod score;
mod service;
mod strategy;
mod turns;
mod work;

pub use report::LoadReport;
pub use strategy::GroupStrategy;

use adaptive::Adaptive;
use score::Score;
use thalweg_model::{Span, Time};
use turns::Turns;

/// Messages of a group's queue that are looked at when its head must wait for a member.
pub const LOOK_AHEAD: usize = 64;

/// A member of a group, as its balancer numbers it; used again after the member has left.
pub type Place = u32;

/// Properties of a member when it joins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Unsettled deliveries it allows.
    pub window_max: u32,
    /// Whether deliveries to it are settled.
    pub settles: bool,
    /// Whether it settles a delivery after processing (true) or on receipt (false), as it declares; `None`: to be
    /// measured.
    pub when_done: Option<bool>,
    /// Its part in the weighted strategy.
    pub weight: u16,
    /// Handlers that work side by side, as it says.
    pub concurrency: u16,
    /// Interval of its reports.
    pub report_every: Span,
    /// It is not overdue before it has been silent for so long.
    pub patience: Span,
    /// The network's part of a round trip; zero if unknown.
    pub round_trip: Span,
    /// Jitter of the round trip.
    pub jitter: Span,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            window_max: u32::MAX,
            settles: true,
            when_done: None,
            weight: 1,
            concurrency: 1,
            report_every: Span::from_secs(60),
            patience: Span::ZERO,
            round_trip: Span::ZERO,
            jitter: Span::ZERO,
        }
    }
}

/// The message at the head of a group's queue.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Messages in the queue, this one among them.
    pub queued: usize,
    /// Its size in bytes.
    pub size: u32,
    /// Number by which strategies with fixed assignments choose.
    pub turn: u64,
    pub random: u64,
    /// Once sent it can never go to another member.
    pub once: bool,
    /// It has been with a member that did not settle it.
    pub again: bool,
    /// Some members never take a message like it, whatever room they have: all are asked before one is chosen.
    pub selective: bool,
}

/// A message that went to a member.
#[derive(Clone, Copy, Debug)]
pub struct Parcel {
    /// Tag of its acknowledgement.
    pub tag: u64,
    /// Its size in bytes.
    pub size: u32,
    /// Whether it is acknowledged.
    pub settles: bool,
    /// Whether another member had it before.
    pub again: bool,
}

/// Decision about the head of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It goes to this member.
    Send(Place),
    /// It waits for a better member; ask again when something happens, or at this time.
    Hold(Time),
    /// No member can have it; ask again after the next event.
    Nobody,
}

/// Source of a member's estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// By its acknowledgements, which come when it is done.
    Acknowledges,
    Reports,
    Silent,
}

/// A member as operators see it.
#[derive(Clone, Copy, Debug)]
pub struct MemberView {
    /// Source of the estimate.
    pub signal: Signal,
    /// Service time of a message at the member.
    pub service: Span,
    /// Deliveries that are not settled.
    pub unsettled: usize,
    /// It gets nothing for now.
    pub suspended: bool,
    /// The network's part, there and back; zero if unknown.
    pub round_trip: Span,
}

/// Where an exactly-once message stands between being sent and being acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has left: until then it waited for the journal.
    Left,
    /// The member has recorded it.
    Recorded,
    /// The release has left: until then it waited for the journal.
    Released,
}

/// A group's choice of members. Its methods must be called in the order of time.
pub struct Balancer(StrategyState);

enum StrategyState {
    Turns(Turns),
    Score(Score),
    Adaptive(Box<Adaptive>),
}

impl Balancer {
    pub fn new(strategy: GroupStrategy) -> Self {
        Balancer(match strategy {
            GroupStrategy::Score => StrategyState::Score(Score::default()),
            GroupStrategy::Adaptive => StrategyState::Adaptive(Box::default()),
            plain => StrategyState::Turns(Turns::new(plain)),
        })
    }

    pub fn join(&mut self, terms: Terms, now: Time) -> Place {
        match &mut self.0 {
            StrategyState::Turns(turns) => turns.join(terms),
            StrategyState::Score(score) => score.join(now),
            StrategyState::Adaptive(adaptive) => adaptive.join(terms, now),
        }
    }

    /// Replaces a member's terms. Network measurements stay.
    pub fn retune(&mut self, place: Place, terms: Terms, now: Time) {
        match &mut self.0 {
            StrategyState::Turns(turns) => turns.retune(place, terms),
            StrategyState::Score(_) => {}
            StrategyState::Adaptive(adaptive) => adaptive.retune(place, terms, now),
        }
    }

    /// A member is gone, or has a new link: whatever was known of it is forgotten.
    pub fn leave(&mut self, place: Place) {
        match &mut self.0 {
            StrategyState::Turns(turns) => turns.leave(place),
            StrategyState::Score(score) => score.leave(place),
            StrategyState::Adaptive(adaptive) => adaptive.leave(place),
        }
    }

    /// A message came into the group.
    #[inline]
    pub fn arrived(&mut self, now: Time) {
        if let StrategyState::Adaptive(adaptive) = &mut self.0 {
            adaptive.arrived(now);
        }
    }

    /// A message went to a member.
    pub fn sent(&mut self, place: Place, parcel: &Parcel, now: Time) {
        match &mut self.0 {
            StrategyState::Turns(turns) => turns.sent(place, parcel.settles),
            StrategyState::Score(score) => score.sent(place, now),
            StrategyState::Adaptive(adaptive) => adaptive.sent(place, parcel, now),
        }
    }

    /// A member has acknowledged what was sent under that tag. False if it is not known.
    pub fn acknowledged(&mut self, place: Place, tag: u64, now: Time) -> bool {
        match &mut self.0 {
            StrategyState::Turns(turns) => turns.settled(place),
            StrategyState::Score(_) => true,
            StrategyState::Adaptive(adaptive) => adaptive.acknowledged(place, tag, now),
        }
    }

    /// An exactly-once message that was sent under that tag has come so far. True if its member may have the next one.
    pub fn stepped(&mut self, place: Place, tag: u64, step: Step, now: Time) -> bool {
        match &mut self.0 {
            StrategyState::Adaptive(adaptive) => adaptive.stepped(place, tag, step, now),
            _ => false,
        }
    }

    /// The message with that tag was returned unsettled, or went to another member.
    pub fn taken_back(&mut self, place: Place, tag: u64, now: Time) {
        match &mut self.0 {
            StrategyState::Turns(turns) => {
                turns.settled(place);
            }
            StrategyState::Score(_) => {}
            StrategyState::Adaptive(adaptive) => adaptive.taken_back(place, tag, now),
        }
    }

    /// A member has said how it is. False if that cannot be true and is ignored.
    pub fn reported(&mut self, place: Place, report: &LoadReport, now: Time) -> bool {
        let Some(report) = report.credible() else {
            return false;
        };
        match &mut self.0 {
            StrategyState::Turns(_) => true,
            StrategyState::Score(score) => score.reported(place, report, now),
            StrategyState::Adaptive(adaptive) => adaptive.reported(place, report, now),
        }
    }

    /// Whether a member's output takes no more for now, or it has no link.
    pub fn blocked(&mut self, place: Place, blocked: bool) {
        match &mut self.0 {
            StrategyState::Turns(turns) => turns.blocked(place, blocked),
            StrategyState::Score(score) => score.blocked(place, blocked),
            StrategyState::Adaptive(adaptive) => adaptive.blocked(place, blocked),
        }
    }

    /// Round trip to a member, measured apart from the messages.
    pub fn round_trip(&mut self, place: Place, least: Span, jitter: Span) {
        if let StrategyState::Adaptive(adaptive) = &mut self.0 {
            adaptive.round_trip(place, least, jitter);
        }
    }

    /// The next member, if only the numbers of sent messages matter and no member has unsettled ones: the same that
    /// [`Balancer::choose`] would choose if it may.
    #[inline]
    pub fn next_in_turn(&self) -> Option<Place> {
        match &self.0 {
            StrategyState::Adaptive(adaptive) => adaptive.next_in_turn(),
            _ => None,
        }
    }

    /// A message that came just now and is not settled went to the member whose turn it was: the same as
    /// [`Balancer::arrived`] and [`Balancer::sent`].
    #[inline]
    pub fn took_turn(&mut self, place: Place, size: u32, now: Time) {
        if let StrategyState::Adaptive(adaptive) = &mut self.0 {
            adaptive.took_turn(place, size, now);
        }
    }

    /// Chooses the member for the head of the queue. `may` returns whether a member can have this message at all.
    pub fn choose(&mut self, head: &Head, now: Time, may: &mut dyn FnMut(Place) -> bool) -> Choice {
        match &mut self.0 {
            StrategyState::Turns(turns) => turns.choose(head, may),
            StrategyState::Score(score) => score.choose(now, may),
            StrategyState::Adaptive(adaptive) => adaptive.choose(head, now, may),
        }
    }

    /// Whether this member, to which order binds the message, can have it now.
    pub fn has_room(&mut self, place: Place, head: &Head, now: Time) -> bool {
        match &mut self.0 {
            StrategyState::Turns(_) | StrategyState::Score(_) => true,
            StrategyState::Adaptive(adaptive) => adaptive.has_room(place, head, now),
        }
    }

    /// Members that have been silent for so long that what they hold should go to others.
    pub fn overdue(&mut self, now: Time, found: &mut Vec<Place>) {
        if let StrategyState::Adaptive(adaptive) = &mut self.0 {
            adaptive.overdue(now, found);
        }
    }

    /// Whether any member has unsettled messages.
    pub fn has_unsettled(&self) -> bool {
        match &self.0 {
            StrategyState::Adaptive(adaptive) => adaptive.has_unsettled(),
            _ => false,
        }
    }

    /// A member that has just joined was silent before: it gets nothing before that time, and then one message at a time
    /// until it acknowledges one.
    pub fn on_trial(&mut self, place: Place, until: Time) {
        if let StrategyState::Adaptive(adaptive) = &mut self.0 {
            adaptive.on_trial(place, until);
        }
    }

    /// Returns the estimate of a member; `None` if the strategy makes none.
    pub fn view(&self, place: Place, now: Time) -> Option<MemberView> {
        match &self.0 {
            StrategyState::Adaptive(adaptive) => adaptive.view(place, now),
            _ => None,
        }
    }
}

/// Seconds since the start of the clock.
fn seconds(time: Time) -> f64 {
    time.nanos() as f64 * 1e-9
}

/// Seconds of a span; very long ones are cut.
fn length(span: Span) -> f64 {
    (span.nanos() as f64 * 1e-9).min(1e6)
}
