//! What comes to a watched address.
//!
//! A *cell* is the one sink of all watchers of an address on this shard. It holds the address's latest value, once for all
//! of them.
//!
//! **How a cell gets its first value.** Other shards are notified of interest in the address, as for a subscription.
//! What any of them publishes after that comes here; what it published before is at the address's home, or on its way
//! there. Only messages between the same two shards keep their order, so each answers on both ways. Straight to us:
//! what came from it before that was meant for an earlier cell. And over the home, which adds the value that it has
//! then: all that is older is in it. When all have answered, the last of those values and what came here meanwhile are
//! all there is. What is still to come may be older than that value, and is recognised by its time of arrival in the
//! broker (`unseen`).

use crate::books::Delta;
use crate::effects::{Effects, Observed};
use crate::ids::{SessionId, ShardId};
use crate::ledger::DropReason;
use crate::memory::{Kept, cell_cost};
use crate::remote::shards::ShardMessage;
use crate::routes::cached::{Sink, SinkKind};
use crate::values::history::is_about_another;
use crate::values::{Asking, Offered};
use crate::{Kernel, home};
use thalweg_model::{Message, Reliability, RetainOp, Time};

impl Kernel {
    pub(crate) fn cell_of(&self, address: &str) -> Option<u32> {
        self.routes
            .sinks(address)
            .iter()
            .find(|sink| sink.kind == SinkKind::Cell)
            .map(|sink| sink.target)
    }

    /// The newest value that a cell of this shard has seen, if it became the last value of its address.
    pub(crate) fn value_in_cell(&self, address: &str, now: Time) -> Option<&Message> {
        let cell = self.values.watches.cell(self.cell_of(address)?)?;
        if cell.is_beginning() {
            return None;
        }
        cell.value().filter(|value| {
            value.expires() > now
                && match value.retain() {
                    RetainOp::Set => true,
                    RetainOp::None => self.values.is_kept(address, self.env.limits()),
                    RetainOp::Clear => false,
                }
        })
    }

    /// A new cell is put into the route table, and asks for what there is.
    pub(crate) fn begin_cell<E: Effects>(
        &mut self,
        index: u32,
        address: &str,
        now: Time,
        fx: &mut E,
    ) {
        let reliability = Reliability::ExactlyOnce;
        self.routes.insert(
            address,
            Sink {
                target: index,
                id: 0,
                kind: SinkKind::Cell,
                reliability,
                flags: 0,
            },
        );
        let question = self.remote.next_question();
        self.tell_shards(|_| ShardMessage::Watch {
            address: address.into(),
            question,
        });
        let silent: Vec<ShardId> = (0..self.env.shards())
            .map(ShardId)
            .filter(|shard| *shard != self.env.shard())
            .collect();
        // What other shards have sent to the home, if that is here, came before their straight answers.
        let over_home = home(address, self.env.shards()) != self.env.shard();
        let asking = Asking::new(question, silent, over_home);
        self.values.watches.ask(index, asking);
        self.settle_cell_if_answered(question, now, fx);
    }

    /// Another shard has a new cell.
    pub(crate) fn on_watch(&mut self, from: ShardId, address: Box<str>, question: u32, now: Time) {
        self.on_interest(from, &address, true);
        let home = home(&address, self.env.shards());
        self.remote.send(from, ShardMessage::Done { question });
        if home == self.env.shard() {
            self.on_vouch(self.env.shard(), from, &address, question, now);
        } else if home != from {
            self.remote.send(
                home,
                ShardMessage::Vouch {
                    to: from,
                    address,
                    question,
                },
            );
        }
    }

    /// Everything that a shard published before it knew of a cell on another has arrived: the cell may be given the
    /// value.
    pub(crate) fn on_vouch(
        &mut self,
        by: ShardId,
        to: ShardId,
        address: &str,
        question: u32,
        now: Time,
    ) {
        let value = self.values.latest(address, now).cloned();
        self.remote.send(
            to,
            ShardMessage::Vouched {
                by,
                question,
                value,
            },
        );
    }

    /// A shard knows of a cell of ours: the straight answer.
    pub(crate) fn on_watch_known<E: Effects>(
        &mut self,
        from: ShardId,
        question: u32,
        now: Time,
        fx: &mut E,
    ) {
        let Some(index) = self.values.watches.asked_by(question) else {
            return;
        };
        let at_home = self.value_if_home(index, now);
        self.values.watches.answered(question, from, at_home);
        self.settle_cell_if_answered(question, now, fx);
    }

    /// The same over the home, which has this value.
    pub(crate) fn on_vouched<E: Effects>(
        &mut self,
        by: ShardId,
        question: u32,
        value: Option<Message>,
        now: Time,
        fx: &mut E,
    ) {
        self.values.watches.vouched(question, by, value);
        self.settle_cell_if_answered(question, now, fx);
    }

    /// The value of a cell's address if this is its home.
    fn value_if_home(&self, index: u32, now: Time) -> Option<Option<Message>> {
        let address = self.values.watches.cell(index)?.address();
        let is_home = home(address, self.env.shards()) == self.env.shard();
        is_home.then(|| self.values.latest(address, now).cloned())
    }

    fn settle_cell_if_answered<E: Effects>(&mut self, question: u32, now: Time, fx: &mut E) {
        if let Some(index) = self.values.watches.take_answered(question) {
            self.settle_cell(index, now, fx);
        }
    }

    /// All that a cell begins with is here.
    fn settle_cell<E: Effects>(&mut self, index: u32, now: Time, fx: &mut E) {
        let at_home = self.value_if_home(index, now);
        let (own, neutral) = (self.env.shard(), self.env.neutral());
        let watches = &mut self.values.watches;
        let Some(changes) = watches.settle(index, own, at_home, now, neutral) else {
            return;
        };
        let mut at = watches.first_of(index);
        while let Some(watcher) = self.values.watches.get(at) {
            let next = watcher.next();
            self.begin_watcher(at, &changes, fx);
            at = next;
        }
    }

    /// A further watcher of a cell.
    pub(crate) fn begin_watcher_at_once<E: Effects>(&mut self, watch: u32, now: Time, fx: &mut E) {
        let watches = &self.values.watches;
        let cell = watches.get(watch).and_then(|it| watches.cell(it.cell()));
        let Some(cell) = cell.filter(|cell| !cell.is_beginning()) else {
            return;
        };
        let value = cell.value().filter(|value| value.expires() > now);
        let value: Vec<Message> = value.cloned().into_iter().collect();
        self.begin_watcher(watch, &value, fx);
    }

    /// A watcher is in force; `changes` are what it begins with and what followed that.
    fn begin_watcher<E: Effects>(&mut self, watch: u32, changes: &[Message], fx: &mut E) {
        let Some(watcher) = self.values.watches.begin(watch) else {
            return;
        };
        let (id, link, cookie, depth) = (
            watcher.session(),
            watcher.link(),
            watcher.cookie(),
            usize::from(watcher.depth()),
        );
        let passes = |message| self.passes_filter_of(watch, message, &mut None);
        let told: Vec<&Message> = changes
            .iter()
            .filter(|message| self.may_be_told(id, message) && passes(message))
            .collect();
        let (first, rest) = match (depth, &told[..]) {
            (_, []) => (None, &[][..]),
            (0 | 1, [.., last]) => (Some(*last), &[][..]),
            (_, [first, rest @ ..]) => (Some(*first), &rest[rest.len().saturating_sub(depth)..]),
        };
        let first = first.filter(|first| first.retain() != RetainOp::Clear);
        if let Some(first) = first {
            let address = self.books.address_of(first);
            self.book_routed(Some(id), address);
            self.book_delivered(id, address, first.payload().len());
        }
        fx.observe(link, cookie, Observed::Ready(first));
        for message in rest {
            self.offer_to_watcher(watch, message, fx);
        }
    }

    /// A message for a watched address, and the shard that sent it, if another did.
    pub(crate) fn offer_to_cell<E: Effects>(
        &mut self,
        index: u32,
        message: &Message,
        from: Option<ShardId>,
        fx: &mut E,
    ) {
        if self.values.watches.needs_recheck() {
            self.recheck_watches(fx);
        }
        if message.retain() == RetainOp::Clear && self.is_about_another_than(index, message) {
            return;
        }
        let own = self.env.shard();
        if !self.values.watches.came(index, message, from, own) {
            return;
        }
        if self.values.watches.has_conditions() || !message.origins().is_empty() {
            return self.offer_to_selected(index, message, fx);
        }
        let mut at = self.values.watches.first_of(index);
        while let Some(next) = self.offer_to_watcher(at, message, fx) {
            at = next;
        }
    }

    /// Whether a message that clears leaves the value of a cell as it is: it forgets one that was there before.
    #[cold]
    fn is_about_another_than(&self, index: u32, message: &Message) -> bool {
        let cell = self.values.watches.cell(index);
        let value = cell
            .filter(|cell| !cell.is_beginning())
            .and_then(|cell| cell.value());
        value.is_some_and(|value| {
            value.retain() != RetainOp::Clear
                && is_about_another(message, value, self.env.neutral())
        })
    }

    /// The same where not each watcher is told: a loop of its own, so that elsewhere nothing is asked of each.
    #[inline(never)]
    fn offer_to_selected<E: Effects>(&mut self, index: u32, message: &Message, fx: &mut E) {
        let mut at = self.values.watches.first_of(index);
        let mut subject = None;
        while let Some(watcher) = self.values.watches.get(at) {
            let next = watcher.next();
            if self.may_be_told(watcher.session(), message)
                && (!watcher.is_filtered() || self.passes_filter_of(at, message, &mut subject))
            {
                self.offer_to_watcher(at, message, fx);
            }
            at = next;
        }
    }

    /// Whether a watcher, who may see the address, may receive from the message's origins as well.
    #[inline]
    pub(crate) fn may_be_told(&self, id: SessionId, message: &Message) -> bool {
        let origins = message.origins();
        origins.is_empty()
            || self
                .sessions
                .get(id)
                .is_some_and(|session| session.access().may_receive_from(origins))
    }

    /// A copy for one watcher. For one who wants the newest only, that is in the cell already. The next watcher of the cell.
    #[inline(always)]
    fn offer_to_watcher<E: Effects>(
        &mut self,
        watch: u32,
        message: &Message,
        fx: &mut E,
    ) -> Option<u32> {
        let offered = self.values.watches.offer(watch, message)?;
        let (id, is_first) = (offered.session, offered.is_first);
        if offered.depth > 0 {
            self.bound_watcher(watch, &offered, message);
        } else if is_first {
            self.books.entered(Delta::copy(0));
        } else {
            let address = self.books.address_of(message);
            self.book_drop(Some(id), address, DropReason::Conflated);
        }
        let address = self.books.address_of(message);
        self.book_routed(Some(id), address);
        if is_first {
            fx.observe(offered.link, offered.cookie, Observed::Changed);
        }
        Some(offered.next)
    }

    /// Counts a message that was queued for a watcher, and drops the oldest beyond its depth.
    #[inline(never)]
    fn bound_watcher(&mut self, watch: u32, offered: &Offered, message: &Message) {
        // Short memory makes it like the others.
        let (max, why) = match self.env.drops_waiting() {
            true => (1, DropReason::Memory),
            false if offered.depth == 1 => (1, DropReason::Conflated),
            false => (usize::from(offered.depth), DropReason::QueueFull),
        };
        self.books.entered(Delta::copy(message.bytes()));
        while let Some(oldest) = self.values.watches.pop_beyond(watch, max) {
            self.books.left(Delta::copy(oldest.bytes()));
            self.book_drop(Some(offered.session), oldest.address(), why);
        }
    }

    /// A cell has lost its last watcher.
    pub(crate) fn end_cell(&mut self, index: u32) {
        let Some(cell) = self.values.watches.remove_cell(index) else {
            return;
        };
        let address = cell.address();
        self.env.left(Kept::Watches, cell_cost(address));
        self.routes.remove(address, |sink| {
            sink.kind == SinkKind::Cell && sink.target == index
        });
        self.withdraw_interest(address);
    }
}
