//! Late binding by expected completion time: the head of the queue goes to the member that will finish it first, and not
//! before that member is about to be free.

use super::fewest::Fewest;
use super::member::{Member, Out};
use super::rank::Ranks;
use super::report::Credible;
use super::reporting::Reporting;
use super::residual::Residual;
use super::service::{SHORTEST, Service, SizeLaw};
use super::{Choice, Head, MemberView, Parcel, Place, Signal, Step, Terms, length, seconds};
use smallvec::SmallVec;
use thalweg_model::{Span, Time};

/// Assumed service time in seconds without any measurement.
const UNKNOWN: f64 = 0.010;
/// Memory of the rate of arrivals, in seconds.
const RATE_MEMORY: f64 = 2.0;
/// Trade-off between the best choice for one message and the best for all, where members differ much.
const BETA: f64 = 0.6;
/// Estimates closer than this part of a message's time are the same.
const NEARLY: f64 = 0.02;
/// So are times closer than this, in seconds, where work is quick: what peers take to answer is off by as much. It keeps
/// members that acknowledge on receipt, and are not known to, from getting everything in the order of their answers.
const NEAR: f64 = 5e-4;
const QUICK: f64 = 2e-3;
/// Members that one choice looks at, of each kind.
const LOOK_AT: usize = 16;
const LOOK_AT_BUSY: usize = 64;
/// So many that a choice falls on may not have the message before all are asked.
const REFUSALS_MAX: u32 = 8;
/// A member that is believed on its word gets no more than this many times its share.
const SHARE_MAX: u32 = 28; // tenths
/// Seconds of silence before a member may count as overdue, and the same in multiples of its service time.
const SILENCE_MIN: f64 = 2.0;
const SILENCE_SERVICES: f64 = 30.0;
/// And in terms of the longest service that the group has seen of late.
const SILENCE_LONGEST: f64 = 1.5;
/// Patience with a message that another member had before.
const PATIENCE_AGAIN: f64 = 8.0;
/// A member is overdue only if another member has answered within this time, in seconds.
const HEARD_WITHIN: f64 = 0.5;
/// Shortest time before a held message is looked at again.
const LOOK_AGAIN: f64 = 2e-4;
/// Longest time before it is looked again at members that report, or have stopped to.
const LOOK_AT_SUSPENDED: f64 = 1.0;

pub(super) struct Adaptive {
    members: Vec<Option<Box<Member>>>,
    free: Vec<Place>,
    count: usize,
    /// Members that give any information.
    informative: usize,
    /// By unsettled deliveries, then by whose turn was longest ago.
    turns: Fewest,
    turn: u64,
    ranks: Ranks,
    /// Members that do not show their work by acknowledging.
    others: Vec<Place>,
    is_stale: bool,
    refreshed: f64,
    acknowledged: u32,
    hint: Option<Place>,
    scan: usize,
    rate: f64,
    rate_at: f64,
    /// When the first message came.
    first_at: f64,
    recent_rate: f64,
    /// Typical service time of a message.
    typical: f64,
    fastest: f64,
    /// Messages per second that members do one at a time, their way through the network included.
    served: f64,
    residual: Residual,
    sizes: SizeLaw,
    /// Squared coefficient of variation, from reports: a sum and its weight.
    reported: (f64, f64),
    /// The two members with the latest answers, and their times.
    heard: [(Place, f64); 2],
    shared: u32,
    /// Until then a new member may have to wait for its first message.
    trials_end: f64,
    /// Numbers choices, so that each remembers who has refused.
    choice: u64,
}

impl Default for Adaptive {
    fn default() -> Self {
        Adaptive {
            members: Vec::new(),
            free: Vec::new(),
            count: 0,
            informative: 0,
            turns: Fewest::default(),
            turn: 0,
            ranks: Ranks::default(),
            others: Vec::new(),
            is_stale: true,
            refreshed: 0.0,
            acknowledged: 0,
            hint: None,
            scan: 0,
            rate: 0.0,
            rate_at: 0.0,
            first_at: f64::INFINITY,
            recent_rate: 0.0,
            typical: UNKNOWN,
            fastest: UNKNOWN,
            served: 1.0 / UNKNOWN,
            residual: Residual::default(),
            sizes: SizeLaw::default(),
            reported: (1.0, 2.0),
            heard: [(Place::MAX, f64::NEG_INFINITY); 2],
            shared: 0,
            trials_end: 0.0,
            choice: 0,
        }
    }
}

/// Parameters of a choice.
#[derive(Clone, Copy)]
struct View {
    now: f64,
    /// A sent message cannot be withdrawn.
    once: bool,
    again: bool,
    queued: f64,
    factor: f64,
    level: u32,
    pressing: u32,
    /// Squared coefficient of variation of reporting members.
    variation: f64,
}

/// Times that are no further apart than this are the same, beside what a message takes at that member.
fn near(member: &Member) -> f64 {
    if member.service < QUICK {
        NEAR
    } else {
        NEARLY * member.service
    }
}

impl Adaptive {
    fn get(&self, place: Place) -> Option<&Member> {
        self.members.get(place as usize)?.as_deref()
    }

    fn get_mut(&mut self, place: Place) -> Option<&mut Member> {
        self.members.get_mut(place as usize)?.as_deref_mut()
    }

    fn variation(&self) -> f64 {
        self.reported.0 / self.reported.1
    }

    pub(super) fn join(&mut self, terms: Terms, now: Time) -> Place {
        let place = self.free.pop().unwrap_or(self.members.len() as Place);
        self.turn += 1;
        let member = Member::new(terms, self.turn, self.typical, seconds(now));
        if member.signal != Signal::Silent {
            self.becomes_heard();
            self.informative += 1;
        }
        self.turns.insert(place, 0);
        match self.members.get_mut(place as usize) {
            Some(slot) => *slot = Some(Box::new(member)),
            None => self.members.push(Some(Box::new(member))),
        }
        self.count += 1;
        self.is_stale = true;
        place
    }

    /// The first sign of life from any member: what the others may have to do matters from now on.
    fn becomes_heard(&mut self) {
        if self.informative > 0 {
            return;
        }
        let variation = self.variation();
        for member in self.members.iter_mut().flatten() {
            let law = member.law(variation);
            member.reporting.catch_up(&law);
        }
    }

    pub(super) fn retune(&mut self, place: Place, terms: Terms, now: Time) {
        let now = seconds(now);
        let Some(member) = self.get_mut(place) else {
            return;
        };
        let signal = member.retune(terms, now);
        self.set_signal(place, signal, now);
        self.is_stale = true;
        self.mark(place);
    }

    pub(super) fn leave(&mut self, place: Place) {
        let Some(member) = self.members.get_mut(place as usize).and_then(Option::take) else {
            return;
        };
        self.informative -= usize::from(member.signal != Signal::Silent);
        self.turns.remove(place);
        self.free.push(place);
        self.count -= 1;
        self.is_stale = true;
    }

    pub(super) fn arrived(&mut self, now: Time) {
        let now = seconds(now);
        let passed = ((now - self.rate_at) / RATE_MEMORY).max(0.0);
        self.rate_at = now;
        if self.first_at == f64::INFINITY {
            self.first_at = now;
        }
        // Nearly always a few thousandths.
        let keep = if passed < 0.05 {
            1.0 - passed + passed * passed / 2.0
        } else {
            (-passed).exp()
        };
        self.rate = self.rate * keep + 1.0 / RATE_MEMORY;
    }

    pub(super) fn round_trip(&mut self, place: Place, least: Span, jitter: Span) {
        if let Some(member) = self.get_mut(place) {
            member.way = length(least) / 2.0;
            member.jitter = length(jitter);
        }
    }

    pub(super) fn blocked(&mut self, place: Place, blocked: bool) {
        if let Some(member) = self.get_mut(place) {
            member.blocked = blocked;
            self.mark(place);
        }
    }

    /// Tells the ranks what a member can have.
    fn mark(&mut self, place: Place) {
        let Some(member) = self.members.get(place as usize).and_then(Option::as_deref) else {
            return;
        };
        let open = !member.blocked && member.signal == Signal::Acknowledges;
        let idle = open
            && if member.probation {
                member.out.is_empty()
            } else {
                member.is_idle()
            };
        let partly =
            open && !idle && !member.probation && (member.out.len() as u32) < member.window(0, 0);
        self.ranks.set(member.rank, idle, partly);
    }

    /// Changes the member's place among those with the fewest unsettled, around `change`.
    fn turned(&mut self, place: Place, takes_turn: bool, change: impl FnOnce(&mut Member)) {
        let Some(member) = self
            .members
            .get_mut(place as usize)
            .and_then(Option::as_deref_mut)
        else {
            return;
        };
        let before = member.out.len();
        change(member);
        if takes_turn {
            self.turn += 1;
            member.turn = self.turn;
        }
        let after = member.out.len();
        if takes_turn || before != after {
            self.turns.remove(place);
            self.turns.insert(place, after);
        }
    }

    fn set_signal(&mut self, place: Place, signal: Signal, now: f64) {
        if signal != Signal::Silent {
            self.becomes_heard();
        }
        let Some(member) = self
            .members
            .get_mut(place as usize)
            .and_then(Option::as_deref_mut)
        else {
            return;
        };
        if member.signal == signal {
            return;
        }
        self.informative -= usize::from(member.signal != Signal::Silent);
        self.informative += usize::from(signal != Signal::Silent);
        if member.signal == Signal::Acknowledges {
            // Whatever is out may be done already.
            let (every, way) = (length(member.terms.report_every).max(0.001), member.way);
            if member.reporting.last.is_none() {
                member.reporting = Reporting::new(now, every);
            }
            member.reporting.work.at = member.reporting.work.at.max(now + way);
            // The conclusion from its acknowledgements was wrong; its own report counts at once.
            member.knowledge = Service::new(now);
            if member.reporting.each > 0.0 {
                member.knowledge.learn(member.reporting.each, now);
                member.service = member.reporting.each;
            }
        }
        member.signal = signal;
        self.is_stale = true;
    }

    pub(super) fn sent(&mut self, place: Place, parcel: &Parcel, now: Time) {
        let Parcel {
            tag,
            size,
            settles,
            again,
        } = *parcel;
        let now = seconds(now);
        let (factor, variation, is_heard) = (
            self.sizes.factor(size),
            self.variation(),
            self.informative > 0,
        );
        self.turned(place, true, |member| {
            if settles {
                let alone = member.out.is_empty();
                member.out.push_back(Out {
                    tag,
                    sent: now,
                    factor,
                    size,
                    alone,
                    again,
                    recorded: None,
                });
                member.ahead += factor;
            }
            if member.signal != Signal::Acknowledges || !settles {
                if is_heard {
                    member.reporting.sent(factor, &member.law(variation), now);
                } else {
                    member.reporting.sent_unheard(factor, now);
                }
            }
            member.share += 1;
        });
        if !settles
            && self
                .get(place)
                .is_some_and(|member| member.signal == Signal::Acknowledges)
        {
            let member = self.get(place);
            let reports = member.is_some_and(|member| member.reporting.last.is_some());
            self.set_signal(
                place,
                if reports {
                    Signal::Reports
                } else {
                    Signal::Silent
                },
                now,
            );
        }
        self.shared += 1;
        if self.shared as usize >= 64 * self.count.max(1) {
            self.shared /= 2;
            self.members
                .iter_mut()
                .flatten()
                .for_each(|member| member.share /= 2);
        }
        if settles {
            self.mark(place);
        }
    }

    pub(super) fn taken_back(&mut self, place: Place, tag: u64, now: Time) {
        let now = seconds(now);
        self.turned(place, false, |member| {
            if member.take(tag).is_some() && member.out.is_empty() {
                member.last = member.last.max(now - member.way);
            }
        });
        self.mark(place);
    }

    pub(super) fn stepped(&mut self, place: Place, tag: u64, step: Step, now: Time) -> bool {
        let at = seconds(now);
        let Some(member) = self.get_mut(place) else {
            return false;
        };
        match step {
            Step::Left => member.left(tag, at),
            Step::Released => member.released(tag, at),
            Step::Recorded => {
                let Some(before) = member.recorded(tag, at) else {
                    return false;
                };
                if member.handshake.works_first() {
                    member.handshake.recorded(tag, before, at);
                    return self.is_done(place, tag, at);
                }
            }
        }
        false
    }

    pub(super) fn acknowledged(&mut self, place: Place, tag: u64, now: Time) -> bool {
        let now = seconds(now);
        let Some(member) = self.get_mut(place) else {
            return false;
        };
        let (last, way) = (member.last, member.way);
        member.handshake.completed(tag, last, way, now) || self.is_done(place, tag, now)
    }

    /// A member has processed a message.
    fn is_done(&mut self, place: Place, tag: u64, now: f64) -> bool {
        let mut taken = None;
        self.turned(place, false, |member| taken = member.take(tag));
        let Some((_, out)) = taken else { return false };
        if self.heard[0].0 != place {
            self.heard[1] = self.heard[0];
        }
        self.heard[0] = (place, now);
        let (typical, deviation) = (self.typical, self.residual.variation().sqrt());
        let Some(member) = self
            .members
            .get_mut(place as usize)
            .and_then(Option::as_deref_mut)
        else {
            return false;
        };
        let completed = now - member.way;
        let took = (completed - (out.sent + member.way).max(member.last)).max(0.0);
        let sojourn = (completed - out.sent - member.way).max(0.0);
        let waited = member.last > out.sent + member.way;
        if let Some((_, before)) = out.recorded
            && !out.again
            && !member.handshake.works_first()
        {
            member.handshake.learn(before, took - before);
        }
        if out.alone && (member.out.is_empty() || member.parallel.found) {
            member.parallel.alone(sojourn);
        } else if waited {
            member
                .parallel
                .gap((completed - member.last).max(0.0), 2.0 * member.jitter);
        }
        member.last = member.last.max(completed);
        // The time of a probation message shows how long it was silent, not how fast it is.
        let was_silent = member.probation;
        (member.probation, member.until) = (false, 0.0);
        let signal = member.judge(sojourn, typical);
        if signal == Signal::Acknowledges && (waited || !member.parallel.found) && !was_silent {
            let sample = took / out.factor;
            let is_doubtful = member.is_doubtful();
            if member.knowledge.samples() >= 3 && !is_doubtful {
                let times = took / member.service.max(SHORTEST);
                self.sizes.learn(out.size, times);
                self.residual.learn(times / out.factor);
            }
            member.knowledge.learn(sample, now);
            member.service = if is_doubtful {
                typical
            } else {
                member.knowledge.mean(typical, now)
            };
            member.set_window(deviation);
        }
        self.hint = Some(place);
        self.acknowledged += 1;
        self.set_signal(place, signal, now);
        self.mark(place);
        true
    }

    pub(super) fn reported(&mut self, place: Place, report: Credible, now: Time) -> bool {
        let now = seconds(now);
        self.becomes_heard();
        let (typical, variation) = (self.typical, self.variation());
        let deviation = variation.sqrt();
        let Some(member) = self
            .members
            .get_mut(place as usize)
            .and_then(Option::as_deref_mut)
        else {
            return false;
        };
        if let Some(concurrency) = report.concurrency {
            member.terms.concurrency = concurrency;
            member.parallel.declare(concurrency);
        }
        let law = member.law(variation);
        let learnt = member.reporting.reported(report, &law, now);
        if let Some(learnt) = learnt
            && member.signal != Signal::Acknowledges
        {
            let before = member.service;
            member
                .knowledge
                .learn_reported(learnt.each, learnt.processed, deviation, typical, now);
            member.service = member.knowledge.mean(typical, now);
            if member.knowledge.samples() > 1 {
                let error = (learnt.each - before) / before;
                let sample = (learnt.processed.min(300.0) * error * error).min(25.0);
                let keep = 1.0 - 1.0 / 64.0;
                self.reported = (
                    self.reported.0 * keep + sample,
                    self.reported.1 * keep + 1.0,
                );
            }
        }
        if member.signal == Signal::Silent {
            self.set_signal(place, Signal::Reports, now);
        }
        // A member that reports much and does nothing has no effect.
        self.is_stale |= learnt.is_some()
            && self
                .get(place)
                .is_some_and(|member| member.knowledge.samples() < 8);
        true
    }

    /// Recomputes slowly changing values: the typical service time, and the fast members.
    fn refresh(&mut self, now: f64) {
        (self.is_stale, self.refreshed, self.acknowledged) = (false, now, 0);
        let mut known: Vec<f64> = Vec::new();
        let deviation = self.residual.variation().sqrt();
        let believed = self
            .members
            .iter()
            .flatten()
            .filter(|member| !member.is_doubtful());
        known.extend(believed.filter_map(|member| member.knowledge.own()));
        if !known.is_empty() {
            let middle = known.len() / 2;
            let (_, median, _) = known.select_nth_unstable_by(middle, f64::total_cmp);
            self.typical = *median;
        }
        let typical = self.typical;
        let mut order = Vec::with_capacity(self.count);
        self.others.clear();
        self.served = 0.0;
        let mut over: SmallVec<[Place; 4]> = SmallVec::new();
        for (place, member) in self.members.iter_mut().enumerate() {
            let Some(member) = member else { continue };
            member.service = if member.is_doubtful() {
                typical
            } else {
                member.knowledge.mean(typical, now)
            };
            member.set_window(deviation);
            // The only measurement of members with several handlers is the time between two messages.
            let handlers = if member.parallel.found {
                1.0
            } else {
                member.handlers()
            };
            self.served +=
                handlers / (member.service + 2.0 * member.way + member.handshake.journal());
            order.push((
                member.service + member.way,
                handlers / member.service,
                handlers,
                place as Place,
            ));
            if member.signal != Signal::Acknowledges {
                self.others.push(place as Place);
            }
            if member.signal == Signal::Reports && member.reporting.is_over(now) {
                over.push(place as Place);
            }
        }
        self.ranks.rebuild(&mut order);
        self.fastest = order.first().map_or(UNKNOWN, |first| first.0);
        for (rank, (_, _, _, place)) in order.into_iter().enumerate() {
            if let Some(member) = self.get_mut(place) {
                member.rank = rank as u32;
            }
            self.mark(place);
        }
        for place in over {
            self.set_signal(place, Signal::Silent, now);
        }
    }

    fn see(&mut self, head: &Head, now: Time) -> View {
        let now = seconds(now);
        let few = 16.max(self.count as u32 / 2);
        if self.is_stale || self.acknowledged >= few || now - self.refreshed > 0.25 {
            self.refresh(now);
        }
        let (queued, count) = (head.queued as f64, self.count.max(1) as f64);
        let quiet = ((now - self.rate_at) / RATE_MEMORY).max(0.0);
        let rate = if quiet < 0.05 {
            self.rate
        } else {
            self.rate * (-quiet).exp()
        };
        // A young group has seen little of its memory's time; the first message says nothing of the rate.
        let seen = 1.0 - (-((now - self.first_at) / RATE_MEMORY).max(0.025)).exp();
        let rate = if seen > 0.99 {
            rate
        } else {
            (rate - (1.0 - seen) / RATE_MEMORY).max(0.0) / seen
        };
        self.recent_rate = rate;
        let load = rate / self.served.max(1e-9);
        let theta = (4.0 * (1.0 - load)).clamp(0.1, 2.0);
        View {
            now,
            once: head.once,
            again: head.again,
            queued,
            factor: self.sizes.factor(head.size),
            // A message that cannot be withdrawn is not sent ahead, unless the journal's time would be idle time.
            level: ((queued / (theta * count)) as u32).min(if head.once { 1 } else { u32::MAX }),
            pressing: if head.once {
                0
            } else {
                (0.05 * queued / count) as u32
            },
            variation: self.variation(),
        }
    }

    pub(super) fn has_room(&mut self, place: Place, head: &Head, now: Time) -> bool {
        let view = self.see(head, now);
        self.get(place)
            .is_some_and(|member| self.is_open(member, &view, 1))
    }

    /// Whether a member can have a message: in pass 0 one for which it is about to be free, in pass 1 one within its
    /// allowed lead.
    #[inline(always)]
    fn is_open(&self, member: &Member, view: &View, pass: u32) -> bool {
        if member.blocked || view.now < member.until {
            return false;
        }
        let count = member.out.len() as u32;
        if view.once {
            let ahead = member
                .handshake
                .ahead(member.service, pass > 0 && view.level > 0);
            if f64::from(count) >= member.handlers() + f64::from(ahead) {
                return false;
            }
        }
        match member.signal {
            Signal::Silent => count < member.terms.window_max,
            Signal::Acknowledges => {
                let (level, pressing) = if pass == 0 {
                    (0, 0)
                } else {
                    (view.level, view.pressing)
                };
                count < member.window(level, pressing)
            }
            Signal::Reports => {
                if count >= member.terms.window_max || member.is_suspended(view.variation, view.now)
                {
                    return false;
                }
                !self.has_had_its_share(member) && self.excess(member, view, pass) <= 0.0
            }
        }
    }

    /// Whether a member that is believed on its word has had as much more than others as it may.
    fn has_had_its_share(&self, member: &Member) -> bool {
        let fair = self.shared as u64 * u64::from(SHARE_MAX) / 10 + 3 * self.count as u64;
        self.count > 3 && u64::from(member.share) * self.count as u64 > fair
    }

    /// Seconds of work that a member that reports has beyond what it may have ahead.
    fn excess(&self, member: &Member, view: &View, pass: u32) -> f64 {
        let left = member.reporting.work.drained(view.now + member.way).mean;
        let service = member.service;
        if pass == 0 && view.variation <= 0.25 {
            return left - service / 4.0;
        }
        let backlog = view.queued / (2.0 * self.count as f64);
        let interval = member.reporting.usual_gap();
        left - (0.5 + 8.0 * view.variation + backlog.min(3.0 + 0.1 * interval / service)) * service
    }

    /// The next member in turn, in a group that sends no reports and has nothing to settle.
    #[inline]
    pub(super) fn next_in_turn(&self) -> Option<Place> {
        let first = if self.informative == 0 {
            self.turns.first()?
        } else {
            return None;
        };
        self.get(first)
            .is_some_and(|member| !member.blocked && member.out.is_empty())
            .then_some(first)
    }

    /// The latest arrival went to that member.
    #[inline]
    pub(super) fn took_turn(&mut self, place: Place, size: u32, now: Time) {
        self.arrived(now);
        let factor = self.sizes.factor(size);
        self.turn += 1;
        let turn = self.turn;
        self.turns.first_to_the_back();
        if let Some(member) = self.get_mut(place) {
            member.turn = turn;
            member.reporting.sent_unheard(factor, seconds(now));
        }
    }

    pub(super) fn choose(
        &mut self,
        head: &Head,
        now: Time,
        may: &mut dyn FnMut(Place) -> bool,
    ) -> Choice {
        if self.count == 0 {
            return Choice::Nobody;
        }
        if self.informative == 0 {
            let open = |place: &Place| {
                self.get(*place).is_some_and(|member| {
                    let count = member.out.len();
                    let is_free = !head.once || (count as f64) < member.handlers();
                    is_free && !member.blocked && (count as u32) < member.terms.window_max
                })
            };
            // Nearly always it is the first.
            if let Some(first) = self
                .turns
                .first()
                .filter(|place| open(place) && may(*place))
            {
                return Choice::Send(first);
            }
            let next = self
                .turns
                .iter()
                .skip(1)
                .find(|place| open(place) && may(*place));
            return next.map_or(Choice::Nobody, Choice::Send);
        }
        let view = self.see(head, now);
        self.choice += 1;
        let mut refusals = if head.selective { REFUSALS_MAX } else { 0 };
        loop {
            if refusals == REFUSALS_MAX {
                // Many may not have it: all are asked at once.
                (0..self.members.len() as Place)
                    .filter(|place| !may(*place))
                    .for_each(|place| self.refuse(place));
            }
            match self.choose_among(&view) {
                Choice::Send(place) if !may(place) => self.refuse(place),
                choice => return choice,
            }
            refusals += 1;
        }
    }

    fn has_refused(&self, member: &Member) -> bool {
        member.refused == self.choice
    }

    /// A member may not have the message that is being chosen for.
    fn refuse(&mut self, place: Place) {
        let choice = self.choice;
        if let Some(member) = self.get_mut(place) {
            member.refused = choice;
        }
    }

    fn choose_among(&mut self, view: &View) -> Choice {
        // The member that will be done first, of those that are free or about to be. Nearly as soon is as soon: one near the
        // first takes turns with it. Nearness to the best one so far would make a chain of any length.
        let (mut first, mut margin) = (f64::INFINITY, 0.0);
        let mut equals: SmallVec<[(f64, u64, Place, f64); 2 * LOOK_AT]> = SmallVec::new();
        let mut look = |place: Place| -> bool {
            let Some(member) = self.get(place) else {
                return false;
            };
            if self.has_refused(member) || !self.is_open(member, view, 0) {
                return false;
            }
            let start = member.start(&self.residual, view.now);
            let done = start + member.takes() * view.factor;
            if done < first {
                (first, margin) = (done, near(member));
            }
            if done < first + margin {
                equals.push((done, member.turn, place, start));
            }
            true
        };
        let _ = self
            .ranks
            .idle()
            .filter(|place| look(*place))
            .take(LOOK_AT)
            .count();
        let _ = self
            .ranks
            .partly()
            .filter(|place| look(*place))
            .take(LOOK_AT)
            .count();
        let others = self.others.len();
        for step in 0..others.min(LOOK_AT_BUSY) {
            if let Some(place) = self.others.get((self.scan + step) % others) {
                look(*place);
            }
        }
        if others > LOOK_AT_BUSY {
            self.scan = (self.scan + LOOK_AT_BUSY) % others;
        }
        let again = Choice::Hold(self.again(view.now));
        let near_first = equals.iter().filter(|(done, ..)| *done < first + margin);
        // Messages that a lost member did not settle go to the member with the latest answer: the one that was silent
        // for longest may be the next to be lost.
        let in_turn = |(_, turn, ..): &&(f64, u64, Place, f64)| {
            if view.again { u64::MAX - turn } else { *turn }
        };
        if let Some((done, _, place, start)) = near_first.min_by_key(in_turn) {
            if self.better_wait(view, *place, *start, (*done, margin)) {
                return again;
            }
            return Choice::Send(*place);
        }
        // No member is free: those that may have something ahead.
        if view.level > 0 || view.pressing > 0 || others > 0 {
            let mut best: Option<(f64, u64, Place)> = None;
            let len = self.ranks.order().len();
            let steps = len.min(LOOK_AT_BUSY);
            let from = if len > LOOK_AT_BUSY {
                self.scan % len
            } else {
                0
            };
            let order =
                (0..steps).filter_map(|step| self.ranks.order().get((from + step) % len).copied());
            for place in order.chain(self.hint) {
                let Some(member) = self.get(place) else {
                    continue;
                };
                if self.has_refused(member) || !self.is_open(member, view, 1) {
                    continue;
                }
                let start = member.start(&self.residual, view.now);
                if start.is_finite()
                    && best.is_none_or(|best| (start, member.turn) < (best.0, best.1))
                {
                    best = Some((start, member.turn, place));
                }
            }
            if len > LOOK_AT_BUSY {
                self.scan = (from + steps) % len;
            }
            if let Some((_, _, place)) = best {
                return Choice::Send(place);
            }
        }
        // Work at members that report shrinks with time; a member that stopped reporting drops out before long, one on trial
        // has to wait. With all others something happens first.
        let mut later = f64::INFINITY;
        if self.ranks.order().len() > LOOK_AT_BUSY && others > 0 {
            // Not all were looked at.
            return again;
        }
        for member in self.others.iter().filter_map(|place| self.get(*place)) {
            let could = member.signal == Signal::Reports
                && (member.out.len() as u32) < member.terms.window_max;
            if !could
                || member.blocked
                || self.has_refused(member)
                || self.has_had_its_share(member)
            {
                continue;
            }
            // Work is done no faster than time goes by.
            let after = if member.is_suspended(view.variation, view.now) {
                LOOK_AT_SUSPENDED
            } else {
                self.excess(member, view, 1)
                    .clamp(self.pause(), LOOK_AT_SUSPENDED.max(self.pause()))
            };
            later = later.min(view.now + after);
        }
        if view.now < self.trials_end {
            let untils = self.members.iter().flatten().map(|member| member.until);
            later = untils
                .filter(|until| *until > view.now)
                .fold(later, f64::min);
        }
        if later < f64::INFINITY {
            return Choice::Hold(Time::from_nanos((later * 1e9) as u64 + 1));
        }
        // A member will acknowledge something and can have it then.
        let is_open = |member: &Member| !member.blocked && !self.has_refused(member);
        if self.members.iter().flatten().any(|member| is_open(member)) {
            Choice::Hold(Time::NEVER)
        } else {
            Choice::Nobody
        }
    }

    /// When a message that is held should be looked at again.
    fn again(&self, now: f64) -> Time {
        Time::from_nanos(((now + self.pause()) * 1e9) as u64)
    }

    fn pause(&self) -> f64 {
        (0.3 * self.fastest).max(LOOK_AGAIN)
    }

    /// Whether faster members would finish all that waits before this one could finish one message, which is `done`. For
    /// a member that is done sooner by no more than the margin no message waits: it could be held while all are free.
    fn better_wait(
        &self,
        view: &View,
        place: Place,
        start: f64,
        (done, margin): (f64, f64),
    ) -> bool {
        let Some(member) = self.get(place) else {
            return false;
        };
        if member.rank == 0
            || member.parallel.found
            || (member.signal == Signal::Reports && view.variation > 0.25)
        {
            return false;
        }
        let (capacity, handlers) = self.ranks.before(member.rank);
        if handlers < 1.0 {
            return false;
        }
        let part = if start > member.way + member.service / 4.0 {
            1.0
        } else {
            (1.0 - self.recent_rate / capacity + BETA / handlers.sqrt()).clamp(0.0, 1.0)
        };
        if part <= 0.0 {
            return false;
        }
        let faster = self
            .ranks
            .order()
            .get(..member.rank as usize)
            .unwrap_or_default();
        let looked = faster.len().min(LOOK_AT_BUSY);
        // Of many, some stand for all.
        let scale = faster.len() as f64 / looked.max(1) as f64;
        let stride = faster.len() / looked.max(1);
        let enough = view.queued / part / scale;
        let mut messages = 0.0;
        for at in 0..looked {
            let Some(other) = faster.get(at * stride).and_then(|place| self.get(*place)) else {
                continue;
            };
            if self.has_refused(other) {
                continue;
            }
            // Even if it were free now.
            if other.way + other.service * view.factor >= done || other.blocked {
                continue;
            }
            // Nothing goes to it before others have had their share.
            let is_sated = other.signal == Signal::Reports && self.has_had_its_share(other);
            if is_sated || other.is_suspended(view.variation, view.now) {
                continue;
            }
            let theirs = other.start(&self.residual, view.now) + other.takes() * view.factor;
            if theirs < done - margin {
                messages += 1.0 + ((done - theirs) * other.handlers() / other.service).floor();
                if messages >= enough {
                    return true;
                }
            }
        }
        false
    }

    pub(super) fn overdue(&mut self, now: Time, found: &mut Vec<Place>) {
        let now = seconds(now);
        let (deviation, longest) = (self.residual.variation().sqrt(), self.residual.longest());
        for (place, member) in self.members.iter().enumerate() {
            let Some(member) = member else { continue };
            let Some(first) = member.out.front() else {
                continue;
            };
            let silence = now - member.last.max(first.sent);
            // Where work has taken that long of late, it may again.
            let services =
                (SILENCE_SERVICES * (1.0 + 2.0 * deviation)).max(SILENCE_LONGEST * longest);
            let patience = services * member.service * first.factor;
            // The message itself may have silenced the other member.
            let patience = patience.max(SILENCE_MIN).max(length(member.terms.patience))
                * if first.again { PATIENCE_AGAIN } else { 1.0 };
            if silence <= patience {
                continue;
            }
            let heard =
                |(other, at): &(Place, f64)| *other as usize != place && now - at <= HEARD_WITHIN;
            if self.heard.iter().any(heard) {
                found.push(place as Place);
            }
        }
    }

    pub(super) fn has_unsettled(&self) -> bool {
        self.members
            .iter()
            .flatten()
            .any(|member| !member.out.is_empty())
    }

    pub(super) fn on_trial(&mut self, place: Place, until: Time) {
        let until = seconds(until);
        if let Some(member) = self.get_mut(place) {
            (member.probation, member.until) = (true, until);
        }
        self.trials_end = self.trials_end.max(until);
        self.mark(place);
    }

    pub(super) fn view(&self, place: Place, now: Time) -> Option<MemberView> {
        let member = self.get(place)?;
        let now = seconds(now);
        Some(MemberView {
            signal: member.signal,
            service: Span::from_nanos((member.service * 1e9) as u64),
            unsettled: member.out.len(),
            round_trip: Span::from_nanos((2e9 * member.way) as u64),
            suspended: member.blocked
                || now < member.until
                || member.is_suspended(self.variation(), now),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Balancer, GroupStrategy};

    #[test]
    fn what_comes_is_for_who_has_waited_longest_and_what_comes_again_for_who_showed_up_last() {
        let mut balancer = Balancer::new(GroupStrategy::Adaptive);
        let mut now = Time::from_secs(1);
        let places: Vec<Place> = (0..3)
            .map(|_| balancer.join(Terms::default(), now))
            .collect();
        for (tag, place) in places.iter().copied().enumerate() {
            balancer.sent(
                place,
                &Parcel {
                    tag: tag as u64,
                    size: 1,
                    settles: true,
                    again: false,
                },
                now,
            );
            now += Span::from_millis(10);
            assert!(balancer.acknowledged(place, tag as u64, now));
        }
        let head = Head {
            queued: 1,
            size: 1,
            turn: 0,
            random: 0,
            once: false,
            again: false,
            selective: false,
        };
        assert_eq!(
            balancer.choose(&head, now, &mut |_| true),
            Choice::Send(places[0])
        );
        let again = true;
        let head = Head { again, ..head };
        assert_eq!(
            balancer.choose(&head, now, &mut |_| true),
            Choice::Send(places[2])
        );
    }
}
