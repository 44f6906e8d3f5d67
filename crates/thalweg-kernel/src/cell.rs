//! What comes to a watched address.
//!
//! A *cell* is the one sink of all watchers of an address on this shard. It holds the address's latest value, once for all
//! of them.
//!
//! **How a cell learns where it begins.** Other shards are told that the address is wanted here, as of a subscription. What
//! any of them publishes after that comes here; what it published before is at the address's home, or on its way there.
//! Only messages between the same two shards keep their order, so each answers on both ways. Straight to us: what came
//! from it before that was meant for an earlier cell. And over the home, which adds the value that it has then: all that is
//! older is in it. When all have answered, the last of those values and what came here meanwhile are all there is. What is
//! still to come may be older than that value, and is recognised by its time of arrival in the broker (`unseen`).

use crate::books::Delta;
use crate::effects::{Effects, Observed};
use crate::ids::{SessionId, ShardId};
use crate::ledger::DropReason;
use crate::memory::{Kept, cell_cost};
use crate::numbers::shard_of;
use crate::route_cache::{Sink, SinkKind};
use crate::shards::ShardMessage;
use crate::watch::{NONE, WatchState};
use crate::{Kernel, home};
use std::collections::VecDeque;
use thalweg_model::{Message, Reliability, RetainOp, Span, Time};

/// Changes that are remembered while a cell begins.
const EARLY_MAX: usize = 64;
/// What was published longer ago than this is not on its way from another shard any more.
const UNDER_WAY_MAX: Span = Span::from_secs(10);

/// See the module.
pub(crate) struct Cell {
    pub(crate) address: Box<str>,
    /// What came last; a message that clears stands for nothing.
    pub(crate) value: Option<Message>,
    /// The value that the home gave, until it has come here by itself or cannot matter any more.
    unseen: Option<Message>,
    /// It will: its shard knew of us when it was published.
    unseen_comes: bool,
    asking: Option<Box<Asking>>,
    /// Its watchers, in the order in which they came.
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// A cell that begins.
struct Asking {
    question: u32,
    /// Shards that have not answered yet, straight.
    silent: Vec<ShardId>,
    /// How many have not answered over the home.
    vouches_missing: usize,
    /// What the home said last, and which shards have answered over it since that is there.
    at_home: Option<Message>,
    answered_since: Vec<ShardId>,
    /// What came here meanwhile, and from where.
    came: VecDeque<(ShardId, Message)>,
}

impl Cell {
    /// Bytes of the messages that it holds for all watchers.
    pub(crate) fn bytes(&self) -> usize {
        let came = self.asking.as_ref().map_or(0, |asking| asking.came_bytes());
        came + self.value.as_ref().map_or(0, Message::bytes)
    }

    pub(crate) fn new(address: &str) -> Self {
        Cell {
            address: address.into(),
            value: None,
            unseen: None,
            unseen_comes: false,
            asking: None,
            first: NONE,
            last: NONE,
        }
    }
}

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
        let cell = self
            .watches
            .cells
            .get(self.cell_of(address)?)
            .filter(|cell| cell.asking.is_none())?;
        cell.value.as_ref().filter(|value| {
            value.expires() > now
                && match value.retain() {
                    RetainOp::Set => true,
                    RetainOp::None => self.is_kept(address),
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
        let vouches_missing = if home(address, self.env.shards()) == self.env.shard() {
            0
        } else {
            silent.len()
        };
        let asking = Asking {
            question,
            silent,
            vouches_missing,
            at_home: None,
            answered_since: Vec::new(),
            came: VecDeque::new(),
        };
        if let Some(cell) = self.watches.cells.get_mut(index) {
            cell.asking = Some(Box::new(asking));
        }
        self.watches.questions.insert(question, index);
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

    /// What a shard has published before it knew of a cell on another is here: that one may have what there is.
    pub(crate) fn on_vouch(
        &mut self,
        by: ShardId,
        to: ShardId,
        address: &str,
        question: u32,
        now: Time,
    ) {
        let value = self.last_value_of(address, now).cloned();
        self.remote.send(
            to,
            ShardMessage::Vouched {
                by,
                question,
                value,
            },
        );
    }

    fn asking(&mut self, question: u32) -> Option<&mut Asking> {
        let index = *self.watches.questions.get(&question)?;
        self.watches.cells.get_mut(index)?.asking.as_deref_mut()
    }

    /// A shard knows of a cell of ours: the straight answer.
    pub(crate) fn on_watch_known<E: Effects>(
        &mut self,
        from: ShardId,
        question: u32,
        now: Time,
        fx: &mut E,
    ) {
        let Some(&index) = self.watches.questions.get(&question) else {
            return;
        };
        let at_home = self.value_if_home(index, now);
        let Some(asking) = self.asking(question) else {
            return;
        };
        asking.silent.retain(|shard| *shard != from);
        if let Some(at_home) = at_home {
            // Its answer over the home is the same: the home is here.
            asking.note(from, at_home);
        }
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
        let Some(asking) = self.asking(question) else {
            return;
        };
        asking.vouches_missing -= 1;
        asking.note(by, value);
        self.settle_cell_if_answered(question, now, fx);
    }

    /// The value of a cell's address if this is its home.
    fn value_if_home(&self, index: u32, now: Time) -> Option<Option<Message>> {
        let cell = self.watches.cells.get(index)?;
        let is_home = home(&cell.address, self.env.shards()) == self.env.shard();
        is_home.then(|| self.last_value_of(&cell.address, now).cloned())
    }

    fn settle_cell_if_answered<E: Effects>(&mut self, question: u32, now: Time, fx: &mut E) {
        let is_answered = self
            .asking(question)
            .is_some_and(|it| it.silent.is_empty() && it.vouches_missing == 0);
        if is_answered && let Some(index) = self.watches.questions.remove(&question) {
            self.settle_cell(index, now, fx);
        }
    }

    /// All that a cell begins with is here.
    fn settle_cell<E: Effects>(&mut self, index: u32, now: Time, fx: &mut E) {
        let at_home = self.value_if_home(index, now);
        let Some(cell) = self.watches.cells.get_mut(index) else {
            return;
        };
        let Some(mut asking) = cell.asking.take() else {
            return;
        };
        if let Some(at_home) = at_home {
            asking.note(self.env.shard(), at_home);
        }
        self.watches.value_bytes -= asking.came_bytes();
        let (mut changes, unseen) = asking.in_order(self.env.shard());
        changes.retain(|message| message.expires() > now || message.retain() == RetainOp::Clear);
        let Some(cell) = self.watches.cells.get_mut(index) else {
            return;
        };
        if let Some((unseen, comes)) = unseen {
            (cell.unseen, cell.unseen_comes) = (Some(unseen), comes);
        }
        let mut at = cell.first;
        self.set_cell_value(index, changes.last().cloned());
        while let Some(watcher) = self.watches.watchers.get(at) {
            let next = watcher.cell_next;
            self.begin_watcher(at, &changes, fx);
            at = next;
        }
    }

    /// A further watcher of a cell.
    pub(crate) fn begin_watcher_at_once<E: Effects>(&mut self, watch: u32, now: Time, fx: &mut E) {
        let Some(watcher) = self.watches.watchers.get(watch) else {
            return;
        };
        let Some(cell) = self
            .watches
            .cells
            .get(watcher.cell)
            .filter(|cell| cell.asking.is_none())
        else {
            return;
        };
        let value: Vec<Message> = cell
            .value
            .iter()
            .filter(|value| value.expires() > now)
            .cloned()
            .collect();
        self.begin_watcher(watch, &value, fx);
    }

    /// A watcher is in force; `changes` are what it begins with and what followed that.
    fn begin_watcher<E: Effects>(&mut self, watch: u32, changes: &[Message], fx: &mut E) {
        let Some(watcher) = self.watches.watchers.get_mut(watch) else {
            return;
        };
        let (id, link, cookie, depth) = (
            watcher.session,
            watcher.link,
            watcher.cookie,
            usize::from(watcher.depth),
        );
        watcher.state = WatchState::Idle;
        let told: Vec<&Message> = changes
            .iter()
            .filter(|message| self.may_be_told(id, message))
            .collect();
        let (first, rest) = match (depth, &told[..]) {
            (_, []) => (None, &[][..]),
            (1, [.., last]) => (Some(*last), &[][..]),
            (_, [first, rest @ ..]) => (Some(*first), &rest[rest.len().saturating_sub(depth)..]),
        };
        let first = first.filter(|first| first.retain() != RetainOp::Clear);
        if let Some(first) = first {
            let address = if self.books.has_accounts() {
                first.address()
            } else {
                ""
            };
            self.book_routed(Some(id), address);
            self.book_delivered(id, address, first.payload().len());
        }
        fx.observe(link, cookie, Observed::Ready(first));
        for message in rest {
            self.offer_to_watcher(watch, message, fx);
        }
    }

    fn set_cell_value(&mut self, index: u32, value: Option<Message>) {
        let Some(cell) = self.watches.cells.get_mut(index) else {
            return;
        };
        let bytes = |value: &Option<Message>| value.as_ref().map_or(0, Message::bytes);
        self.watches.value_bytes += bytes(&value);
        self.watches.value_bytes -= bytes(&cell.value);
        cell.value = value;
    }

    /// A message for a watched address, and the shard that sent it, if another did.
    pub(crate) fn offer_to_cell<E: Effects>(
        &mut self,
        index: u32,
        message: &Message,
        from: Option<ShardId>,
        fx: &mut E,
    ) {
        if self.watches.recheck {
            self.recheck_watches(fx);
        }
        let Some(cell) = self.watches.cells.get_mut(index) else {
            return;
        };
        if let Some(asking) = &mut cell.asking {
            if from.is_some_and(|from| asking.silent.contains(&from)) {
                return;
            }
            self.watches.value_bytes += message.bytes();
            asking
                .came
                .push_back((from.unwrap_or(self.env.shard()), message.clone()));
            if asking.came.len() > EARLY_MAX
                && let Some((_, oldest)) = asking.came.pop_front()
            {
                self.watches.value_bytes -= oldest.bytes();
            }
            return;
        }
        if let (Some(unseen), Some(from)) = (&cell.unseen, from) {
            if is_same(unseen, message) {
                cell.unseen = None;
                return;
            }
            if is_older(message, from, unseen, cell.unseen_comes) {
                // The watchers began with something newer.
                return;
            }
            if message.ingress() > unseen.ingress() + UNDER_WAY_MAX {
                cell.unseen = None;
            }
        }
        let (mut at, is_moved) = (cell.first, !message.origins().is_empty());
        self.set_cell_value(index, Some(message.clone()));
        while let Some(watcher) = self.watches.watchers.get(at) {
            let next = watcher.cell_next;
            if !is_moved || self.may_be_told(watcher.session, message) {
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
                .is_some_and(|session| session.access.may_receive_from(origins))
    }

    /// A copy for one watcher. For one who wants the newest only, that is in the cell already.
    fn offer_to_watcher<E: Effects>(&mut self, watch: u32, message: &Message, fx: &mut E) {
        let Some(watcher) = self.watches.watchers.get_mut(watch) else {
            return;
        };
        let id = watcher.session;
        let is_first = watcher.state == WatchState::Idle;
        watcher.state = WatchState::ExpectTake;
        if watcher.depth > 1 {
            let bytes = message.bytes();
            // Short memory makes it like the others.
            let short = self.env.drops_waiting();
            let (max, why) = match short {
                true => (1, DropReason::Memory),
                false => (usize::from(watcher.depth), DropReason::QueueFull),
            };
            let waiting = watcher.waiting.get_or_insert_default();
            waiting.push_back(message.clone());
            self.books.entered(Delta::copy(bytes));
            while let Some(waiting) = self
                .watches
                .watchers
                .get_mut(watch)
                .and_then(|it| it.waiting.as_mut())
                && waiting.len() > max
                && let Some(oldest) = waiting.pop_front()
            {
                self.books.left(Delta::copy(oldest.bytes()));
                self.book_drop(Some(id), oldest.address(), why);
            }
        } else if is_first {
            self.books.entered(Delta::copy(0));
        } else {
            let address = if self.books.has_accounts() {
                message.address()
            } else {
                ""
            };
            self.book_drop(Some(id), address, DropReason::Conflated);
        }
        let address = if self.books.has_accounts() {
            message.address()
        } else {
            ""
        };
        self.book_routed(Some(id), address);
        if is_first && let Some(watcher) = self.watches.watchers.get(watch) {
            fx.observe(watcher.link, watcher.cookie, Observed::Changed);
        }
    }

    /// A cell has lost its last watcher.
    pub(crate) fn end_cell(&mut self, index: u32) {
        self.set_cell_value(index, None);
        let Some(cell) = self.watches.cells.remove(index) else {
            return;
        };
        self.env.left(Kept::Watches, cell_cost(&cell.address));
        if let Some(asking) = cell.asking {
            self.watches.questions.remove(&asking.question);
            self.watches.value_bytes -= asking.came_bytes();
        }
        self.routes.remove(&cell.address, |sink| {
            sink.kind == SinkKind::Cell && sink.target == index
        });
        if !self.is_wanted_here(&cell.address) {
            let (filter, question) = (cell.address, 0); // Nobody waits for the answer.
            self.tell_shards(|_| ShardMessage::Interest {
                filter: filter.clone(),
                wanted: false,
                question,
            });
        }
    }
}

impl Asking {
    /// The home has this value, and has heard from that shard.
    fn note(&mut self, by: ShardId, at_home: Option<Message>) {
        let is_known = match (&self.at_home, &at_home) {
            (Some(known), Some(value)) => is_same(known, value),
            (known, value) => known.is_none() && value.is_none(),
        };
        if !is_known {
            self.at_home = at_home;
            self.answered_since.clear();
        }
        self.answered_since.push(by);
    }

    fn came_bytes(&self) -> usize {
        self.came.iter().map(|(_, message)| message.bytes()).sum()
    }

    /// What the home has and what came here in the order in which it was published, without what came before the home's;
    /// and the home's if it did not come here, and whether it will.
    fn in_order(self, own: ShardId) -> (Vec<Message>, Option<(Message, bool)>) {
        let mut came: Vec<(ShardId, Message)> = self.came.into();
        let plain = |came: Vec<(ShardId, Message)>| {
            came.into_iter()
                .map(|(_, message)| message)
                .collect::<Vec<_>>()
        };
        let Some(value) = self.at_home else {
            return (plain(came), None);
        };
        if let Some(at) = came
            .iter()
            .position(|(_, message)| is_same(message, &value))
        {
            came.drain(..at);
            return (plain(came), None);
        }
        let shard = ShardId(shard_of(value.publisher()));
        // What it said over the home comes behind all that it published before it knew of us.
        let comes = shard != own && !self.answered_since.contains(&shard);
        came.retain(|(from, message)| !is_older(message, *from, &value, comes));
        let mut changes = plain(came);
        changes.insert(0, value.clone());
        (changes, Some((value, comes)))
    }
}

/// Whether a message from some shard was published before the value that a cell began with, which has not come here; with
/// `comes`, it will. Many messages have the same time: what a shard read at once.
fn is_older(message: &Message, from: ShardId, unseen: &Message, comes: bool) -> bool {
    let is_before_it = comes && from.0 == shard_of(unseen.publisher());
    message.ingress() < unseen.ingress() || (is_before_it && message.ingress() == unseen.ingress())
}

/// Whether both are one message. A last value whose life was cut short is a copy.
fn is_same(a: &Message, b: &Message) -> bool {
    a.is_same(b)
        || (a.ingress() == b.ingress()
            && a.publisher() == b.publisher()
            && a.payload() == b.payload())
}
