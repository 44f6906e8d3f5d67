//! Watches of an address's latest value.
//!
//! A session that has subscribed is sent what comes, and has a queue and a window for it. A *watch* is for readers who ask
//! when they are ready for more, and for whom the newest value makes the older ones worthless: nothing is kept for each but
//! a mark that there is something. The values are with the *cell* of the address (`cell.rs`), which stands in the route
//! table for all watchers of this shard. Watches end with their session's link.

use crate::Kernel;
use crate::access::Permission;
use crate::books::Delta;
use crate::effects::{Effects, Observed, WatchEnd};
use crate::ids::{LinkId, SessionId, WatchId};
use crate::ledger::DropReason;
use crate::memory::{Kept, WATCHER, cell_cost};
use crate::publish::subject::Subject;
use crate::session::Session;
use crate::timers::TimerKey;
use crate::values::NewWatcher;
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_model::{Address, Message, Reliability, RetainOp, Time};

pub(crate) use crate::values::NONE;

/// What has happened at a watched address.
#[derive(Clone, Debug)]
pub enum Change {
    /// This was published there.
    Value(Message),
    /// Its last value was cleared.
    Gone,
}

/// Why there is no watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchRefused {
    /// The access rules do not allow it, or there is no such session with a link.
    Denied,
    /// It is no address, or longer or deeper than one may be.
    BadAddress,
    /// There are as many watches as there may be.
    TooMany,
    Overloaded,
}

/// What a reader watches.
#[derive(Clone, Copy, Debug)]
pub struct WatchSpec<'a> {
    /// The link to which values of this watch are sent.
    pub link: LinkId,
    /// The reader's name for it.
    pub cookie: u64,
    pub address: &'a str,
    /// With 1 (or 0) a newer value takes the place of one that was not taken yet; with more the newest so many wait, in
    /// their order.
    pub depth: u16,
    /// The content filter that values must pass. Nothing says of a cleared value what it was: that it is gone passes every one.
    pub condition: Option<&'a Arc<Predicate>>,
    /// How surely the reader asks to be notified. It notifies itself, with [`Limits::reliability_at`](crate::Limits::reliability_at);
    /// this is what operators are shown.
    pub reliability: Reliability,
}

impl Kernel {
    /// Watches an address for a session.
    ///
    /// [`Observed::Ready`] comes once every shard routes to it, maybe before this returns, with the value of that
    /// moment; from then on nothing that is published there goes unnoticed.
    pub fn watch<E: Effects>(
        &mut self,
        id: SessionId,
        spec: WatchSpec<'_>,
        now: Time,
        fx: &mut E,
    ) -> Result<WatchId, WatchRefused> {
        let WatchSpec { address, .. } = spec;
        let session = self
            .sessions
            .get(id)
            .filter(|session| session.link().is_some())
            .ok_or(WatchRefused::Denied)?;
        if Address::check(address).is_err() || !self.is_address_within_limits(address) {
            return Err(WatchRefused::BadAddress);
        }
        if !may_see(session, address) || !self.is_told_here(address) {
            return Err(WatchRefused::Denied);
        }
        if self.values.watches.count() >= self.env.limits().watches_max {
            return Err(WatchRefused::TooMany);
        }
        let known = self.cell_of(address);
        let cell_bytes = known.map_or(cell_cost(address), |_| 0);
        let condition_bytes = spec.condition.map_or(0, |it| it.bytes());
        if !self
            .env
            .may_keep_much(WATCHER + cell_bytes + condition_bytes)
        {
            return Err(WatchRefused::Overloaded);
        }
        let cell = known.unwrap_or_else(|| {
            self.env.entered(Kept::Watches, cell_cost(address));
            self.values.watches.add_cell(address)
        });
        let watch = self.add_watcher(id, &spec, cell);
        if self.env.limits().reliability_at(address, spec.reliability) < spec.reliability {
            self.books.downgraded();
        }
        match known {
            None => self.begin_cell(cell, address, now, fx),
            Some(_) => self.begin_watcher_at_once(watch, now, fx),
        }
        Ok(WatchId(watch))
    }

    /// Whether an address is neither too long nor too deep. One with fewer bytes than levels are allowed need not be counted.
    pub(crate) fn is_address_within_limits(&self, address: &str) -> bool {
        let limits = self.env.limits();
        let levels = || address.bytes().filter(|byte| *byte == b'/').count() + 1;
        address.len() <= limits.address_bytes_max
            && (address.len() < limits.levels_max || levels() <= limits.levels_max)
    }

    fn add_watcher(&mut self, id: SessionId, spec: &WatchSpec<'_>, cell: u32) -> u32 {
        let Some(session) = self.sessions.get_mut(id) else {
            return NONE;
        };
        let new = NewWatcher {
            session: id,
            link: spec.link,
            cookie: spec.cookie,
            depth: spec.depth,
            condition: spec.condition.cloned(),
            reliability: spec.reliability,
            session_next: session.first_watch(),
        };
        let watch = self.values.watches.add(new, cell);
        session.set_first_watch(watch);
        let condition_bytes = spec.condition.map_or(0, |it| it.bytes());
        self.env.entered(Kept::Watches, WATCHER + condition_bytes);
        watch
    }

    /// The oldest change that waits in a watch; nothing if there is none. After [`Observed::Changed`] a reader takes
    /// until there is nothing left, now or later: it is not told again before.
    pub fn take_watched(&mut self, watch: WatchId, now: Time) -> Option<Change> {
        let watches = &self.values.watches;
        if watches.needs_recheck() {
            let watcher = watches.get(watch.0)?;
            if !self.may_still_see(watcher.session(), watcher.cell()) {
                // What becomes of it is seen to when rights are compared.
                return None;
            }
        }
        loop {
            if self.env.rates_subscribers() && !self.pay_for_watched(watch.0, now) {
                return None;
            }
            let (id, message, left) = self.values.watches.take(watch.0)?;
            self.books.left(left);
            if message.properties().is_some() && !self.may_be_told(id, &message) {
                // It replaces the value of which this reader was notified.
                self.book_drop(Some(id), message.address(), DropReason::Conflated);
                continue;
            }
            if message.expires() <= now && message.retain() != RetainOp::Clear {
                self.book_expired(Some(id), message.address());
                continue;
            }
            self.book_had(id, &message);
            return Some(match message.retain() {
                RetainOp::Clear => Change::Gone,
                RetainOp::Set | RetainOp::None => Change::Value(message),
            });
        }
    }

    /// Spends what a watcher's next change takes of its rate. If there is no room for that, it is told again when there is, and has
    /// the value of that time. That a value is gone does not wait.
    #[cold]
    #[inline(never)]
    fn pay_for_watched(&mut self, watch: u32, now: Time) -> bool {
        let watches = &self.values.watches;
        let (Some(watcher), Some(next)) = (watches.get(watch), watches.next_for(watch)) else {
            return true;
        };
        let (id, next) = (watcher.session(), next.clone());
        if next.retain() == RetainOp::Clear || next.expires() <= now || !self.may_be_told(id, &next)
        {
            return true;
        }
        let toll = self.toll(&next, now);
        let can_pay = self.can_pay(toll.as_ref(), id);
        match (can_pay, &toll) {
            (true, _) => self.pay_toll(toll, id),
            (false, Some(toll)) => {
                let key = TimerKey::Watch(watch);
                self.agenda.set_timer(toll.free_at(), key);
            }
            (false, None) => {}
        }
        can_pay
    }

    /// There may be room for what waits.
    pub(crate) fn tell_watcher_again<E: Effects>(&mut self, watch: u32, fx: &mut E) {
        let watcher = self.values.watches.get(watch);
        if let Some(watcher) = watcher.filter(|it| it.expects_take()) {
            fx.observe(watcher.link(), watcher.cookie(), Observed::Changed);
        }
    }

    pub fn unwatch(&mut self, watch: WatchId, now: Time) {
        let _ = now;
        self.remove_watcher(watch.0, DropReason::Unwatched);
    }

    /// Forgets a watcher; what waits for it is dropped.
    fn remove_watcher(&mut self, watch: u32, why: DropReason) {
        let condition = self.values.watches.condition(watch);
        let condition_bytes = condition.map_or(0, |it| it.bytes());
        let Some(watcher) = self.values.watches.remove(watch) else {
            return;
        };
        self.env.left(Kept::Watches, WATCHER + condition_bytes);
        let id = watcher.session();
        if let Some(session) = self.sessions.get_mut(id)
            && session.first_watch() == watch
        {
            session.set_first_watch(watcher.next_of_session());
        }
        for message in watcher.waiting().into_iter().flatten() {
            self.books.left(Delta::copy(message.bytes()));
            self.book_drop(Some(id), message.address(), why);
        }
        if watcher.waiting().is_none() && watcher.expects_take() {
            let cell = self.values.watches.cell(watcher.cell());
            let address: Box<str> = cell.map(|cell| cell.address().into()).unwrap_or_default();
            self.books.left(Delta::copy(0));
            self.book_drop(Some(id), &address, why);
        }
        if self.values.watches.is_unwatched(watcher.cell()) {
            self.end_cell(watcher.cell());
        }
    }

    /// A session, or its link, ends: its watches with it.
    pub(crate) fn end_watches<E: Effects>(&mut self, id: SessionId, fx: &mut E) {
        while let Some(watch) = self
            .sessions
            .get(id)
            .map(|session| session.first_watch())
            .filter(|watch| *watch != NONE)
        {
            self.end_watch(watch, WatchEnd::SessionEnded, DropReason::SessionEnded, fx);
        }
    }

    fn end_watch<E: Effects>(&mut self, watch: u32, why: WatchEnd, reason: DropReason, fx: &mut E) {
        let Some(watcher) = self.values.watches.get(watch) else {
            return;
        };
        let (link, cookie) = (watcher.link(), watcher.cookie());
        self.remove_watcher(watch, reason);
        fx.observe(link, cookie, Observed::Ended(why));
    }

    /// Ends the watches of those who may not see any more what they watch.
    pub(crate) fn recheck_watches<E: Effects>(&mut self, fx: &mut E) {
        self.values.watches.rechecked();
        let all = self.values.watches.iter();
        let ended = all.filter(|(_, it)| !self.may_still_see(it.session(), it.cell()));
        let ended: Vec<u32> = ended.map(|(watch, _)| watch).collect();
        for watch in ended {
            self.end_watch(watch, WatchEnd::NotAuthorized, DropReason::AccessDenied, fx);
        }
    }

    /// Whether a message passes a watcher's content filter; `subject` is made for the first of a message's watchers that asks.
    #[inline(never)]
    pub(crate) fn passes_filter_of<'a>(
        &self,
        watch: u32,
        message: &'a Message,
        subject: &mut Option<Subject<'a>>,
    ) -> bool {
        let Some(condition) = self.values.watches.condition(watch) else {
            return true;
        };
        message.retain() == RetainOp::Clear
            || condition.matches(
                subject.get_or_insert_with(|| Subject::of_message(message, self.env.neutral())),
            )
    }

    /// How many watch a cell; for operators.
    pub(crate) fn watchers_of(&self, cell: u32) -> usize {
        let watches = &self.values.watches;
        let first = watches.get(watches.first_of(cell));
        std::iter::successors(first, |it| watches.get(it.next())).count()
    }

    fn may_still_see(&self, id: SessionId, cell: u32) -> bool {
        let Some(session) = self.sessions.get(id) else {
            return false;
        };
        let Some(cell) = self.values.watches.cell(cell) else {
            return false;
        };
        session.access().is_allow_all() || may_see(session, cell.address())
    }
}

/// Whether a session may watch or read an address.
pub(crate) fn may_see(session: &Session, address: &str) -> bool {
    session.access().allows(Permission::Subscribe, address)
        && session.access().allows(Permission::Receive, address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::{
        Answer, CloseReason, ConsumerEnd, Content, Delivery, Limits, Observed, OpenSession, Sent,
        ShardId, Tag, Ticket,
    };

    #[test]
    fn a_further_watcher_of_an_address_costs_less_than_64_bytes() {
        let (mut kernel, reader) = kernel();
        watch(&mut kernel, reader, "site/device/temperature");
        let before = structures(&kernel);
        for _ in 0..100_000 {
            watch(&mut kernel, reader, "site/device/temperature");
        }
        let each = (structures(&kernel) - before) as f64 / 100_000.0;
        assert!(each <= 64.0, "{each}");
    }

    #[test]
    fn a_watch_on_an_address_of_its_own_costs_less_than_300_bytes() {
        // Tables double now and then; these are moments shortly before and after.
        for count in [50_000, 100_000, 120_000] {
            let (mut kernel, reader) = kernel();
            let before = structures(&kernel);
            for number in 0..count {
                watch(
                    &mut kernel,
                    reader,
                    &format!("site-{}/device-{number}/temperature", number % 97),
                );
            }
            let each = (structures(&kernel) - before) as f64 / f64::from(count);
            assert!(each <= 300.0, "{each} with {count}");
        }
    }

    /// What watches take beside the values themselves.
    fn structures(kernel: &Kernel) -> usize {
        let watches = &kernel.values.watches;
        let addresses = watches
            .cells()
            .map(|cell| (cell.address().len() + 8).next_multiple_of(16).max(32));
        watches.structure_bytes() + addresses.sum::<usize>() + kernel.routes.bytes()
    }

    fn watch(kernel: &mut Kernel, reader: SessionId, address: &str) {
        let spec = WatchSpec {
            link: LinkId(0),
            cookie: 0,
            address,
            depth: 1,
            condition: None,
            reliability: Reliability::AtLeastOnce,
        };
        kernel
            .watch(reader, spec, Time::ZERO, &mut Nowhere)
            .expect("it may watch");
    }

    fn kernel() -> (Kernel, SessionId) {
        let mut kernel = Kernel::new(Limits::default(), ShardId(0), 1, 7);
        let open = OpenSession::of_link("reader", LinkId(0), Access::ALL, "none");
        let reader = kernel
            .open_session(open, Time::ZERO, &mut Nowhere)
            .expect("there is room")
            .session;
        (kernel, reader)
    }

    struct Nowhere;

    impl Effects for Nowhere {
        fn deliver(&mut self, _: LinkId, _: &Content<'_>, _: &Delivery<'_>) -> Sent {
            Sent::Gone
        }

        fn release(&mut self, _: LinkId, _: Tag) {}

        fn answer(&mut self, _: LinkId, _: Ticket, _: Answer<'_>) {}

        fn observe(&mut self, _: LinkId, _: u64, _: Observed<'_>) {}

        fn disconnect(&mut self, _: LinkId, _: CloseReason) {}

        fn consumer_ended(&mut self, _: LinkId, _: u16, _: ConsumerEnd) -> bool {
            false
        }

        fn hold(&mut self, _: LinkId, _: u64) {}
    }
}
