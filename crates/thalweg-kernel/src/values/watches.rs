//! Watches, by cell: which watchers an address has on this shard, the value that they share, and how a cell gets that
//! value from other shards (see `cell.rs`).

use crate::books::Delta;
use crate::env::Neutral;
use crate::ids::{LinkId, SessionId, ShardId};
use crate::journal::numbers::shard_of;
use crate::kernel::Map;
use crate::routes::arena::Arena;
use crate::values::history::is_about_another;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_model::{Message, Reliability, RetainOp, Span, Time};

pub(crate) use crate::routes::arena::NONE;

/// Changes that are remembered while a cell begins.
const EARLY_MAX: usize = 64;
/// What was published longer ago than this is not on its way from another shard any more.
const UNDER_WAY_MAX: Span = Span::from_secs(10);

/// All watches of a shard.
pub(crate) struct Watches {
    cells: Arena<Cell>,
    watchers: Arena<Watcher>,
    /// The content filters of those that are filtered.
    conditions: Map<u32, Arc<Predicate>>,
    /// Watchers of all cells.
    count: usize,
    /// Cells that have asked other shards and not been answered by all, by question.
    questions: Map<u32, u32>,
    /// Rights have changed since they were compared last.
    needs_recheck: bool,
    /// Bytes of the messages that cells hold.
    value_bytes: usize,
}

/// The one sink of all watchers of an address on this shard.
pub(crate) struct Cell {
    address: Box<str>,
    /// What came last; a message that clears stands for nothing.
    value: Option<Message>,
    /// The value that the home gave, until it has come here by itself or cannot matter any more.
    unseen: Option<Message>,
    /// It will: its shard knew of the cell when it was published.
    unseen_comes: bool,
    asking: Option<Box<Asking>>,
    /// Its watchers, in the order in which they came.
    first: u32,
    last: u32,
}

/// The questions of a new cell and their answers.
pub(crate) struct Asking {
    question: u32,
    /// Shards that have not answered yet, straight.
    silent: Vec<ShardId>,
    /// Shards that have not answered over the home.
    vouches_missing: usize,
    /// What the home said last, and which shards have answered over it since that is there.
    at_home: Option<Message>,
    answered_since: Vec<ShardId>,
    /// What came here meanwhile, and from where.
    came: VecDeque<(ShardId, Message)>,
}

/// One watch. There may be very many, so it is small: 48 bytes.
pub(crate) struct Watcher {
    cookie: u64,
    /// What waits, for one that takes more than the newest. Made when there is something first.
    #[allow(clippy::box_collection)] // Most have none, and a list is three words more.
    waiting: Option<Box<VecDeque<Message>>>,
    session: SessionId,
    link: LinkId,
    cell: u32,
    /// Its neighbours among the watchers of its cell, and of its session.
    cell_next: u32,
    cell_before: u32,
    session_next: u32,
    session_before: u32,
    /// How many values may be in `waiting`; 0 for one that takes the cell's value, as those without a filter do that take the newest only.
    depth: u16,
    state: WatchState,
    /// Of [`FILTERED`] and [`SURE`].
    flags: u8,
}

/// Its content filter is in `conditions`.
const FILTERED: u8 = 1;
/// It asked to be notified at least once.
const SURE: u8 = 2;

// Each observer of a value has one.
const _: () = assert!(size_of::<Watcher>() <= 48);

/// What a watcher has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchState {
    /// Not every shard routes to it yet.
    ExpectReady,
    Idle,
    /// The cell's value waits for it, or there is something in `waiting`.
    ExpectTake,
}

/// What a watcher is made of.
pub(crate) struct NewWatcher {
    pub session: SessionId,
    pub link: LinkId,
    pub cookie: u64,
    /// How many values wait for it, at least 1.
    pub depth: u16,
    /// The content filter that values must pass.
    pub condition: Option<Arc<Predicate>>,
    /// How surely it asked to be notified.
    pub reliability: Reliability,
    /// The first watcher of its session, or [`NONE`].
    pub session_next: u32,
}

/// What became of a message for a watcher.
pub(crate) struct Offered {
    pub session: SessionId,
    pub link: LinkId,
    pub cookie: u64,
    pub is_first: bool,
    /// How many may wait for this watcher by itself; 0 if only the cell's value does.
    pub depth: u16,
    /// The next watcher of its cell.
    pub next: u32,
}

impl Default for Watches {
    fn default() -> Self {
        Watches {
            cells: Arena::new(),
            watchers: Arena::new(),
            conditions: Map::default(),
            count: 0,
            questions: Map::default(),
            needs_recheck: false,
            value_bytes: 0,
        }
    }
}

impl Watches {
    /// Watchers of all cells.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the messages that cells hold.
    pub(crate) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Whether rights have changed since watchers were compared with them.
    #[inline]
    pub(crate) fn needs_recheck(&self) -> bool {
        self.needs_recheck
    }

    pub(crate) fn rights_changed(&mut self) {
        self.needs_recheck = self.count > 0;
    }

    /// Watchers are compared with rights now.
    pub(crate) fn rechecked(&mut self) {
        self.needs_recheck = false;
    }

    /// Whether a cell waits for answers of other shards.
    pub(crate) fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    // --- watchers

    #[inline]
    pub(crate) fn get(&self, watch: u32) -> Option<&Watcher> {
        self.watchers.get(watch)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Watcher)> {
        self.watchers.iter()
    }

    /// The first watcher of a cell; the others follow by [`Watcher::next`].
    #[inline]
    pub(crate) fn first_of(&self, cell: u32) -> u32 {
        self.cells.get(cell).map_or(NONE, |cell| cell.first)
    }

    /// Adds the last watcher of a cell and first of its session.
    pub(crate) fn add(&mut self, new: NewWatcher, cell: u32) -> u32 {
        let cell_before = self.cells.get(cell).map_or(NONE, |cell| cell.last);
        let watch = self.watchers.add(Watcher {
            cookie: new.cookie,
            waiting: None,
            session: new.session,
            link: new.link,
            cell,
            cell_next: NONE,
            cell_before,
            session_next: new.session_next,
            session_before: NONE,
            depth: match new.depth {
                0 | 1 => u16::from(new.condition.is_some()),
                depth => depth,
            },
            state: WatchState::ExpectReady,
            flags: (u8::from(new.condition.is_some()) * FILTERED)
                | (u8::from(new.reliability > Reliability::AtMostOnce) * SURE),
        });
        if let Some(condition) = new.condition {
            self.conditions.insert(watch, condition);
        }
        if let Some(next) = self.watchers.get_mut(new.session_next) {
            next.session_before = watch;
        }
        if let Some(before) = self.watchers.get_mut(cell_before) {
            before.cell_next = watch;
        }
        if let Some(cell) = self.cells.get_mut(cell) {
            cell.last = watch;
            if cell_before == NONE {
                cell.first = watch;
            }
        }
        self.count += 1;
        watch
    }

    /// Removes a watcher from its cell and session, with what waits for it.
    pub(crate) fn remove(&mut self, watch: u32) -> Option<Watcher> {
        let watcher = self.watchers.remove(watch)?;
        self.count -= 1;
        if watcher.is_filtered() {
            self.conditions.remove(&watch);
        }
        let watchers = &mut self.watchers;
        if let Some(next) = watchers.get_mut(watcher.cell_next) {
            next.cell_before = watcher.cell_before;
        }
        if let Some(before) = watchers.get_mut(watcher.cell_before) {
            before.cell_next = watcher.cell_next;
        }
        if let Some(next) = watchers.get_mut(watcher.session_next) {
            next.session_before = watcher.session_before;
        }
        if let Some(before) = watchers.get_mut(watcher.session_before) {
            before.session_next = watcher.session_next;
        }
        if let Some(cell) = self.cells.get_mut(watcher.cell) {
            if cell.first == watch {
                cell.first = watcher.cell_next;
            }
            if cell.last == watch {
                cell.last = watcher.cell_before;
            }
        }
        Some(watcher)
    }

    /// A watcher is in force from now on.
    pub(crate) fn begin(&mut self, watch: u32) -> Option<&Watcher> {
        let watcher = self.watchers.get_mut(watch)?;
        watcher.state = WatchState::Idle;
        Some(watcher)
    }

    /// A message for a watcher. For one that takes the newest only, it is in the cell already.
    #[inline(always)]
    pub(crate) fn offer(&mut self, watch: u32, message: &Message) -> Option<Offered> {
        let watcher = self.watchers.get_mut(watch)?;
        let is_first = watcher.state == WatchState::Idle;
        watcher.state = WatchState::ExpectTake;
        if watcher.depth > 0 {
            let waiting = watcher.waiting.get_or_insert_default();
            waiting.push_back(message.clone());
        }
        Some(Offered {
            session: watcher.session,
            link: watcher.link,
            cookie: watcher.cookie,
            is_first,
            depth: watcher.depth,
            next: watcher.cell_next,
        })
    }

    /// Takes the oldest of what waits for a watcher by itself, if that is more than `max`.
    pub(crate) fn pop_beyond(&mut self, watch: u32, max: usize) -> Option<Message> {
        let waiting = self.watchers.get_mut(watch)?.waiting.as_mut()?;
        match waiting.len() > max {
            true => waiting.pop_front(),
            false => None,
        }
    }

    /// Takes the oldest of what waits for a watcher, and what leaves memory with it; of which session the watcher is.
    #[inline]
    pub(crate) fn take(&mut self, watch: u32) -> Option<(SessionId, Message, Delta)> {
        let watcher = self.watchers.get_mut(watch)?;
        if watcher.state != WatchState::ExpectTake {
            return None;
        }
        let Some(waiting) = &mut watcher.waiting else {
            watcher.state = WatchState::Idle;
            let value = self.cells.get(watcher.cell)?.value.clone()?;
            return Some((watcher.session, value, Delta::copy(0)));
        };
        let message = waiting.pop_front()?;
        if waiting.is_empty() {
            watcher.waiting = None;
            watcher.state = WatchState::Idle;
        }
        let left = Delta::copy(message.bytes());
        Some((watcher.session, message, left))
    }

    /// The oldest of what waits for a watcher.
    pub(crate) fn next_for(&self, watch: u32) -> Option<&Message> {
        let watcher = self.watchers.get(watch).filter(|it| it.expects_take())?;
        match &watcher.waiting {
            Some(waiting) => waiting.front(),
            None => self.cells.get(watcher.cell)?.value.as_ref(),
        }
    }

    /// Whether some watcher has a content filter.
    #[inline]
    pub(crate) fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// The content filter of a watcher, if it has one.
    #[cold]
    pub(crate) fn condition(&self, watch: u32) -> Option<&Arc<Predicate>> {
        let watcher = self.watchers.get(watch)?;
        watcher.is_filtered().then(|| self.conditions.get(&watch))?
    }

    // --- cells

    #[inline]
    pub(crate) fn cell(&self, cell: u32) -> Option<&Cell> {
        self.cells.get(cell)
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().map(|(_, cell)| cell)
    }

    /// Adds the cell of an address, which has no watcher yet and has asked nothing.
    pub(crate) fn add_cell(&mut self, address: &str) -> u32 {
        self.cells.add(Cell {
            address: address.into(),
            value: None,
            unseen: None,
            unseen_comes: false,
            asking: None,
            first: NONE,
            last: NONE,
        })
    }

    /// Whether a cell has lost its last watcher.
    pub(crate) fn is_unwatched(&self, cell: u32) -> bool {
        self.cells.get(cell).is_some_and(|cell| cell.first == NONE)
    }

    /// Removes a cell, its value and what it has asked.
    pub(crate) fn remove_cell(&mut self, cell: u32) -> Option<Cell> {
        let cell = self.cells.remove(cell)?;
        self.value_bytes -= cell.bytes();
        if let Some(asking) = &cell.asking {
            self.questions.remove(&asking.question);
        }
        Some(cell)
    }

    fn set_value(&mut self, cell: u32, value: Option<Message>) {
        let Some(cell) = self.cells.get_mut(cell) else {
            return;
        };
        let bytes = |value: &Option<Message>| value.as_ref().map_or(0, Message::bytes);
        self.value_bytes += bytes(&value);
        self.value_bytes -= bytes(&cell.value);
        cell.value = value;
    }

    /// A cell asks the shards that are `silent`, straight and over the home if that is another shard.
    pub(crate) fn ask(&mut self, cell: u32, asking: Asking) {
        self.questions.insert(asking.question, cell);
        if let Some(cell) = self.cells.get_mut(cell) {
            cell.asking = Some(Box::new(asking));
        }
    }

    /// The cell that has asked.
    pub(crate) fn asked_by(&self, question: u32) -> Option<u32> {
        self.questions.get(&question).copied()
    }

    fn asking(&mut self, question: u32) -> Option<&mut Asking> {
        let cell = *self.questions.get(&question)?;
        self.cells.get_mut(cell)?.asking.as_deref_mut()
    }

    /// A shard has answered straight; if the home is here, it has `at_home`.
    pub(crate) fn answered(
        &mut self,
        question: u32,
        from: ShardId,
        at_home: Option<Option<Message>>,
    ) {
        let Some(asking) = self.asking(question) else {
            return;
        };
        asking.silent.retain(|shard| *shard != from);
        if let Some(at_home) = at_home {
            // Its answer over the home is the same: the home is here.
            asking.note(from, at_home);
        }
    }

    /// A shard has answered over the home, which has `value`.
    pub(crate) fn vouched(&mut self, question: u32, by: ShardId, value: Option<Message>) {
        if let Some(asking) = self.asking(question) {
            asking.vouches_missing -= 1;
            asking.note(by, value);
        }
    }

    /// The cell that has asked, if all have answered.
    pub(crate) fn take_answered(&mut self, question: u32) -> Option<u32> {
        let asking = self.asking(question)?;
        if !asking.silent.is_empty() || asking.vouches_missing > 0 {
            return None;
        }
        self.questions.remove(&question)
    }

    /// A cell has all that it begins with: the changes, oldest first, the last of which is its value.
    pub(crate) fn settle(
        &mut self,
        cell: u32,
        own: ShardId,
        at_home: Option<Option<Message>>,
        now: Time,
        neutral: Neutral,
    ) -> Option<Vec<Message>> {
        let settled = self.cells.get_mut(cell)?;
        let mut asking = settled.asking.take()?;
        if let Some(at_home) = at_home {
            asking.note(own, at_home);
        }
        self.value_bytes -= asking.came_bytes();
        let (mut changes, unseen) = asking.in_order(own);
        changes.retain(|message| message.expires() > now || message.retain() == RetainOp::Clear);
        let changes = without_retractions_of_others(changes, neutral);
        if let Some((unseen, comes)) = unseen {
            (settled.unseen, settled.unseen_comes) = (Some(unseen), comes);
        }
        self.set_value(cell, changes.last().cloned());
        Some(changes)
    }

    /// A message for a cell, sent by another shard if there is `from`; `own` is this one. Whether it is the cell's value from
    /// now on, for its watchers; otherwise it is older, or the cell has not begun.
    #[inline]
    pub(crate) fn came(
        &mut self,
        cell: u32,
        message: &Message,
        from: Option<ShardId>,
        own: ShardId,
    ) -> bool {
        let Some(to) = self.cells.get_mut(cell) else {
            return false;
        };
        if let Some(asking) = &mut to.asking {
            if from.is_some_and(|from| asking.silent.contains(&from)) {
                return false;
            }
            self.value_bytes += message.bytes();
            asking
                .came
                .push_back((from.unwrap_or(own), message.clone()));
            if asking.came.len() > EARLY_MAX
                && let Some((_, oldest)) = asking.came.pop_front()
            {
                self.value_bytes -= oldest.bytes();
            }
            return false;
        }
        if let (Some(unseen), Some(from)) = (&to.unseen, from) {
            if is_same(unseen, message) {
                to.unseen = None;
                return false;
            }
            if is_older(message, from, unseen, to.unseen_comes) {
                // The watchers began with something newer.
                return false;
            }
            if message.ingress() > unseen.ingress() + UNDER_WAY_MAX {
                to.unseen = None;
            }
        }
        self.set_value(cell, Some(message.clone()));
        true
    }

    /// Bytes of memory that cells and watchers take, values apart.
    #[cfg(test)]
    pub(crate) fn structure_bytes(&self) -> usize {
        self.cells.bytes() + self.watchers.bytes()
    }
}

impl Watcher {
    #[inline]
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    #[inline]
    pub(crate) fn link(&self) -> LinkId {
        self.link
    }

    /// The reader's name for it.
    #[inline]
    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    #[inline]
    pub(crate) fn cell(&self) -> u32 {
        self.cell
    }

    #[inline]
    pub(crate) fn depth(&self) -> u16 {
        self.depth
    }

    /// Whether it has a content filter.
    #[inline]
    pub(crate) fn is_filtered(&self) -> bool {
        self.flags & FILTERED != 0
    }

    /// How surely it asked to be notified.
    pub(crate) fn reliability(&self) -> Reliability {
        match self.flags & SURE {
            0 => Reliability::AtMostOnce,
            _ => Reliability::AtLeastOnce,
        }
    }

    /// Whether something waits for it.
    pub(crate) fn expects_take(&self) -> bool {
        self.state == WatchState::ExpectTake
    }

    /// The next watcher of its cell.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.cell_next
    }

    /// The next watcher of its session.
    pub(crate) fn next_of_session(&self) -> u32 {
        self.session_next
    }

    /// What waits for it by itself; nothing if only the cell's value does.
    pub(crate) fn waiting(&self) -> Option<&VecDeque<Message>> {
        self.waiting.as_deref()
    }
}

impl Cell {
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What came last; a message that clears stands for nothing.
    pub(crate) fn value(&self) -> Option<&Message> {
        self.value.as_ref()
    }

    /// Whether it has not got all that it begins with.
    pub(crate) fn is_beginning(&self) -> bool {
        self.asking.is_some()
    }

    /// Bytes of the messages that it holds for all watchers.
    pub(crate) fn bytes(&self) -> usize {
        let came = self.asking.as_ref().map_or(0, |asking| asking.came_bytes());
        came + self.value.as_ref().map_or(0, Message::bytes)
    }
}

impl Asking {
    /// Asks shards straight, and over the home if `over_home`.
    pub(crate) fn new(question: u32, silent: Vec<ShardId>, over_home: bool) -> Self {
        Asking {
            question,
            vouches_missing: if over_home { silent.len() } else { 0 },
            silent,
            at_home: None,
            answered_since: Vec::new(),
            came: VecDeque::new(),
        }
    }

    /// The home has this value, and has the answer of that shard.
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

/// Drops messages that clear another value than the one before them.
fn without_retractions_of_others(changes: Vec<Message>, neutral: Neutral) -> Vec<Message> {
    let mut left: Vec<Message> = Vec::with_capacity(changes.len());
    for message in changes {
        let is_idle = left
            .last()
            .is_some_and(|value| is_about_another(&message, value, neutral));
        if !is_idle {
            left.push(message);
        }
    }
    left
}

/// Whether a message from some shard was published before the value that a cell began with, which has not come here; with
/// `comes`, it will. Many messages have the same time: what a shard read at once.
fn is_older(message: &Message, from: ShardId, unseen: &Message, comes: bool) -> bool {
    let is_before_it = comes && from.0 == shard_of(unseen.publisher());
    message.ingress() < unseen.ingress() || (is_before_it && message.ingress() == unseen.ingress())
}

/// Whether both are one message. A last value whose life was cut short is a copy.
pub(crate) fn is_same(a: &Message, b: &Message) -> bool {
    a.is_same(b)
        || (a.ingress() == b.ingress()
            && a.publisher() == b.publisher()
            && a.payload() == b.payload())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_is_small() {
        assert_eq!(size_of::<Watcher>(), 48);
        assert!(size_of::<Cell>() <= 56, "{}", size_of::<Cell>());
    }
}
