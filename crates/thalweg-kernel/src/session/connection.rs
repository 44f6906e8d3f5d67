//! The link of a session, and what holds for it.

use super::{Grants, Meters};
use crate::ids::LinkId;
use crate::limits::Limits;
use thalweg_model::Time;

/// See the module. Without a link, what held for the last one.
pub(crate) struct Connection {
    link: Option<LinkId>,
    /// How often the session was opened: distinguishes a link from an earlier one of the same number.
    openings: u32,
    in_flight_max: u16,
    /// The link's output is above its high-water mark; nothing that can wait is sent.
    congested: bool,
    /// The peer is sent messages that have priorities: little is in its output, and the rest waits by them.
    prioritized: bool,
    /// The operator has given it a rate: what is sent at most once waits, too.
    held_back: bool,
    /// The link was ended for a full queue; what follows from that is still to come, in [`Kernel::work`](crate::Kernel::work).
    thrown_out: bool,
    /// When the session was made, or its last link ended.
    since: Time,
    dialect: &'static str,
    /// Where its presence is published, if it is.
    told: Option<Box<PresenceAddresses>>,
    grants: Grants,
    meters: Option<Box<Meters>>,
}

/// Addresses at which a peer is told of.
struct PresenceAddresses {
    /// Whether it is here.
    presence: Option<Box<str>>,
    /// What it says of itself, if it has.
    described: Option<Box<str>>,
}

/// What a peer brings with a new link.
pub(super) struct Arrival {
    pub link: LinkId,
    pub dialect: &'static str,
    pub presence: Option<Box<str>>,
    pub grants: Grants,
    /// Unsettled deliveries that the receiver allows, if it says so.
    pub in_flight_max: Option<u16>,
}

impl Connection {
    pub(super) fn none(in_flight_max: u16, now: Time) -> Self {
        Connection {
            link: None,
            openings: 0,
            in_flight_max: in_flight_max.max(1),
            congested: false,
            prioritized: false,
            held_back: false,
            thrown_out: false,
            since: now,
            dialect: "",
            told: None,
            grants: Grants::default(),
            meters: None,
        }
    }

    /// True if there was no link before.
    pub(super) fn attach(&mut self, arrival: Arrival, limits: &Limits, now: Time) -> bool {
        self.openings = self.openings.wrapping_add(1);
        self.meters = Meters::new(limits, &arrival.grants, now);
        self.dialect = arrival.dialect;
        self.told = arrival.presence.map(|address| {
            Box::new(PresenceAddresses {
                presence: Some(address),
                described: None,
            })
        });
        self.grants = arrival.grants;
        let in_flight_max = arrival.in_flight_max.unwrap_or(limits.in_flight_max);
        self.in_flight_max = in_flight_max.max(1);
        (self.congested, self.prioritized, self.held_back) = (false, false, false);
        self.link.replace(arrival.link).is_none()
    }

    /// False if there was no link.
    pub(super) fn detach(&mut self, now: Time) -> bool {
        self.since = now;
        self.link.take().is_some()
    }

    #[inline(always)]
    pub(crate) fn link(&self) -> Option<LinkId> {
        self.link
    }

    /// Which of the session's links it is.
    pub(crate) fn opening(&self) -> u32 {
        self.openings
    }

    pub(crate) fn since(&self) -> Time {
        self.since
    }

    #[inline]
    pub(crate) fn in_flight_max(&self) -> u16 {
        self.in_flight_max
    }

    /// How operators see the peer.
    pub(crate) fn dialect(&self) -> &'static str {
        self.dialect
    }

    pub(crate) fn grants(&self) -> &Grants {
        &self.grants
    }

    /// [`Grants::high_water`].
    #[inline(always)]
    pub(crate) fn high_water(&self) -> u32 {
        self.grants.high_water
    }

    pub(crate) fn presence(&self) -> Option<&str> {
        self.told.as_ref()?.presence.as_deref()
    }

    /// The peer has said more of itself at an address.
    pub(super) fn describe(&mut self, address: &str) {
        if let Some(told) = &mut self.told {
            told.described = Some(address.into());
        }
    }

    /// Where the peer has said more of itself; from now on it has not.
    pub(super) fn take_described(&mut self) -> Option<Box<str>> {
        self.told.as_mut()?.described.take()
    }

    /// Its presence is not published any more.
    pub(crate) fn forget_presence(&mut self) {
        if let Some(told) = &mut self.told {
            told.presence = None;
        }
    }

    #[inline(always)]
    pub(crate) fn is_congested(&self) -> bool {
        self.congested
    }

    /// The output is above its high-water mark.
    #[inline]
    pub(crate) fn congest(&mut self) {
        self.congested = true;
    }

    #[inline]
    pub(crate) fn set_congested(&mut self, congested: bool) {
        self.congested = congested;
    }

    /// Messages that are sent to it have priorities; its link, if that is news.
    pub(crate) fn prioritize(&mut self) -> Option<LinkId> {
        match std::mem::replace(&mut self.prioritized, true) {
            true => None,
            false => self.link,
        }
    }

    #[inline]
    pub(crate) fn is_prioritized(&self) -> bool {
        self.prioritized
    }

    pub(crate) fn hold_back_at_most_once(&mut self) {
        self.held_back = true;
    }

    /// Whether what is sent at most once waits while the output is full, or the rate is used up.
    #[inline]
    pub(crate) fn keeps_at_most_once(&self) -> bool {
        self.grants.high_water > 0 || self.prioritized || self.held_back
    }

    /// What follows from the link's end is still to come.
    pub(super) fn throw_out(&mut self) {
        self.thrown_out = true;
    }

    /// It comes now, if it is still to come.
    pub(super) fn take_thrown_out(&mut self) -> bool {
        std::mem::take(&mut self.thrown_out)
    }

    /// Whether its publishes have a rate that they must not exceed.
    #[inline]
    pub(crate) fn is_metered(&self) -> bool {
        self.meters.is_some()
    }

    /// The publisher waits until then, once it has published something else.
    pub(crate) fn pause_before_next(&mut self, until: Time) {
        self.meters.get_or_insert_default().pause_until = until;
    }

    /// Meters a publish; when it exceeds a rate, when the publisher may go on.
    #[inline]
    pub(crate) fn pause(&mut self, bytes: usize, now: Time) -> Option<Time> {
        match &mut self.meters {
            None => None,
            Some(meters) => meters.pause(bytes as u64, now),
        }
    }
}
