//! What waits in a queue with a name or in a group: in memory by priority, and behind that on disk only.
//!
//! *Knows:* order, expiry, what is in memory and what is on disk. *Must never know:* a consumer, a session, the journal, the
//! books; callers book what they are given.
//!
//! A long queue's newcomers wait in memory until they are written; then only their place is kept, and what consumers have
//! taken out of memory is fetched back, some at a time. Only queues do that whose messages leave in the order in which they
//! came and from the front alone: see `depth`.

use super::depth::Asked;
use crate::books::Delta;
use crate::effects::Spot;
use crate::groups::given_back::BackId;
use crate::recount::{Held, same};
use crate::spill::{Spill, Spilled};
use crate::turns::{LANES, STRICT, Turns};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::VecDeque;
use thalweg_model::{Message, Time};
use thalweg_records::{Stored, Waiting};

/// Fewer in memory than this: the next are fetched.
pub(super) const FETCH_BELOW: usize = 256;

/// A message in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub message: Message,
    /// Its place in line.
    pub order: i64,
    /// Names it in the journal; 0 if it is not written down.
    pub serial: u64,
    pub expires: Time,
    /// How often it was delivered.
    pub deliveries: u16,
    /// Of a group: under which it is known who gave it back.
    pub back: BackId,
}

// Each message that waits in a queue has one.
const _: () = assert!(size_of::<Item>() <= 40);

impl Item {
    /// One whose place in line is found later, and that lives as long as its message.
    pub(crate) fn new(message: Message, serial: u64, deliveries: u16) -> Self {
        let expires = message.expires();
        Item {
            message,
            order: 0,
            serial,
            expires,
            deliveries,
            back: 0,
        }
    }
}

/// A place in line: what is served first is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    lane: usize,
    pub order: i64,
}

impl Place {
    pub(crate) fn lane(self) -> usize {
        self.lane
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.lane.cmp(&self.lane)).then(self.order.cmp(&other.order))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The messages that wait in a queue.
pub(crate) struct Backlog {
    /// By priority; one lane if there are none.
    lanes: Vec<VecDeque<Item>>,
    /// Priorities have shares: a lane for each, from the first message on that has one. Otherwise the highest goes first.
    is_shared: bool,
    /// Whose turn it is, once they have lanes.
    turns: Option<Box<Turns>>,
    /// Messages in memory and on disk.
    len: usize,
    payload_bytes: u64,
    /// Memory of what is in `lanes`.
    memory: usize,
    deep: Option<Box<Deep>>,
    /// Rises with each message.
    order_last: i64,
    /// The earliest time a timer is set for.
    expiry_timer: Time,
}

/// What waits behind all that is in memory.
#[derive(Default)]
struct Deep {
    spill: Spill<Item>,
    /// The place in line of the first of all.
    first_order: i64,
    /// Requests for one message that wait for what is being fetched.
    asked: VecDeque<Asked>,
}

/// Messages on disk that a queue loses, and who waited for one.
pub(crate) struct Lost {
    pub serials: Vec<u64>,
    pub memory: usize,
    pub(super) asked: VecDeque<Asked>,
}

impl Backlog {
    pub(crate) fn new(priority_max: u8) -> Self {
        Backlog {
            lanes: (0..=priority_max).map(|_| VecDeque::new()).collect(),
            is_shared: false,
            turns: None,
            len: 0,
            payload_bytes: 0,
            memory: 0,
            deep: None,
            order_last: 0,
            expiry_timer: Time::NEVER,
        }
    }

    /// One in which priorities have shares.
    pub(crate) fn shared() -> Self {
        Backlog {
            is_shared: true,
            ..Backlog::new(0)
        }
    }

    /// Messages that wait, in memory and on disk.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of payload that wait; of what is on disk, of its records.
    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// Memory of what does not wait behind all that is on disk.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Memory that all takes that waits here.
    pub(super) fn memory_held(&self) -> usize {
        self.memory + self.deep.as_deref().map_or(0, |deep| deep.spill.memory())
    }

    /// The place in line of a newcomer.
    #[inline]
    pub(crate) fn next_order(&mut self) -> i64 {
        self.order_last += 1;
        self.order_last
    }

    /// The place in line before all of a message's priority.
    pub(crate) fn order_before(&self, message: &Message) -> i64 {
        let behind = self
            .deep
            .as_deref()
            .map_or(self.order_last, |deep| deep.first_order);
        let first = self
            .lanes
            .get(self.lane_of(message))
            .and_then(VecDeque::front);
        first.map_or(behind, |item| item.order) - 1
    }

    fn lane_of(&self, message: &Message) -> usize {
        usize::from(message.priority()).min(self.lanes.len() - 1)
    }

    // --- in memory

    /// When the oldest of the firsts of the priorities came.
    pub(crate) fn oldest(&self) -> Option<Time> {
        let heads = self.lanes.iter().filter_map(VecDeque::front);
        heads.map(|item| item.message.ingress()).min()
    }

    /// The next, if it is in memory: the oldest of the highest priority, or of that whose turn it is.
    pub(crate) fn first(&self) -> Option<&Item> {
        self.lanes.get(self.next_lane()?)?.front()
    }

    /// Whether a message of this priority may have to go before others.
    #[inline]
    pub(super) fn tells_apart(&self, priority: u8) -> bool {
        self.lanes.len() > 1 || (self.is_shared && priority > 0)
    }

    /// All that is in memory, without what waits to be written.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.lanes.iter().flatten()
    }

    /// Puts an item where its order says.
    pub(crate) fn insert(&mut self, item: Item) -> Delta {
        self.note_priority(&item);
        let lane = self.lane_of(&item.message);
        if let (Some(turns), Some(true)) = (
            &mut self.turns,
            self.lanes.get(lane).map(VecDeque::is_empty),
        ) {
            turns.begin(lane);
        }
        self.put_back(item)
    }

    /// The same of what has not left after all: whose turn it is stays as it was.
    pub(crate) fn put_back(&mut self, item: Item) -> Delta {
        let delta = Delta::copy(item.message.bytes());
        let lane = self.lane_of(&item.message);
        self.came(&item);
        let Some(lane) = self.lanes.get_mut(lane) else {
            return delta;
        };
        if lane.back().is_none_or(|last| last.order < item.order) {
            lane.push_back(item);
        } else if lane.front().is_none_or(|first| item.order < first.order) {
            lane.push_front(item);
        } else {
            let at = lane.partition_point(|other| other.order < item.order);
            lane.insert(at, item);
        }
        delta
    }

    /// Puts an item behind all others that are in memory.
    pub(crate) fn push_back(&mut self, mut item: Item) -> Delta {
        item.order = self.next_order();
        self.insert(item)
    }

    // --- priorities with shares

    /// The item at this place of all, one priority behind the other as their turns are.
    pub(crate) fn get(&self, at: usize) -> Option<&Item> {
        let (lane, at) = self.lane_at(at);
        self.lanes.get(lane)?.get(at)
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<(Item, Delta)> {
        let (lane, at) = self.lane_at(at);
        let item = self.lanes.get_mut(lane)?.remove(at)?;
        self.left(&item);
        let bytes = item.message.bytes();
        Some((item, Delta::copy(bytes)))
    }

    /// What was removed is served: the next turn is another's.
    pub(crate) fn take_turn(&mut self, priority: u8) {
        if let Some(turns) = &mut self.turns {
            turns.take(usize::from(priority).min(STRICT));
        }
    }

    /// The place of what is there in its lane, as [`Backlog::get`] counts.
    pub(crate) fn index_of(&self, place: Place, at: usize) -> usize {
        let before = self.in_turn().take_while(|lane| *lane != place.lane);
        at + before.map(|lane| self.lanes[lane].len()).sum::<usize>()
    }

    /// Orders places by when they are served; the least is next.
    pub(crate) fn rank(&self, place: Place) -> (u64, usize, i64) {
        let last = self.lanes.len() - 1;
        let (due, lane) = match &self.turns {
            Some(turns) => turns.rank(place.lane),
            None => (0, last.saturating_sub(place.lane)),
        };
        (due, lane, place.order)
    }

    /// The first place that has not been looked at, by what was seen of each lane.
    pub(super) fn first_unseen(&self, seen: impl Fn(usize) -> i64) -> Option<Place> {
        let mut lanes = self.in_turn();
        lanes.find_map(|lane| self.first_behind(lane, seen(lane)))
    }

    /// The lane that is served next: the highest, if they have no turns.
    fn next_lane(&self) -> Option<usize> {
        let waits = |lane: &usize| self.lanes.get(*lane).is_some_and(|it| !it.is_empty());
        match &self.turns {
            Some(turns) => turns.next(waits),
            None => (0..self.lanes.len()).rev().find(waits),
        }
    }

    /// Lanes, that of the next turn first.
    fn in_turn(&self) -> impl Iterator<Item = usize> {
        let mut lanes: SmallVec<[usize; LANES]> = (0..self.lanes.len()).rev().collect();
        if let Some(turns) = &self.turns {
            lanes.sort_by_key(|lane| turns.rank(*lane));
        }
        lanes.into_iter()
    }

    fn lane_at(&self, mut at: usize) -> (usize, usize) {
        if self.turns.is_some() {
            for lane in self.in_turn() {
                let len = self.lanes[lane].len();
                if at < len {
                    return (lane, at);
                }
                at -= len;
            }
        }
        (0, at)
    }

    /// Priorities have lanes from the first message on that has one.
    #[inline]
    fn note_priority(&mut self, item: &Item) {
        if self.is_shared && item.message.priority() > 0 {
            self.tell_priorities_apart();
        }
    }

    fn tell_priorities_apart(&mut self) {
        if self.turns.is_none() {
            self.turns = Some(Box::default());
            self.lanes.resize_with(LANES, VecDeque::new);
            if let Some(turns) = &mut self.turns {
                turns.begin(0);
            }
        }
    }

    /// Whether all wait in the order in which they came, or by priority; true if that was otherwise.
    pub(crate) fn keep_in_line(&mut self, is_in_line: bool) -> bool {
        let changes = self.is_shared == is_in_line;
        if changes {
            (self.is_shared, self.turns) = (!is_in_line, None);
            let lanes = std::mem::replace(&mut self.lanes, vec![VecDeque::new()]);
            let mut items: Vec<Item> = lanes.into_iter().flatten().collect();
            items.sort_by_key(|item| item.order);
            for item in items {
                self.left(&item);
                let _ = self.insert(item);
            }
        }
        changes
    }

    // --- places

    /// The place of a message.
    pub(crate) fn place_of(&self, item: &Item) -> Place {
        Place {
            lane: self.lane_of(&item.message),
            order: item.order,
        }
    }

    /// The first place in memory behind this order of a lane.
    pub(super) fn first_behind(&self, lane: usize, order: i64) -> Option<Place> {
        let items = self.lanes.get(lane)?;
        let at = items.partition_point(|item| item.order <= order);
        let order = items.get(at)?.order;
        Some(Place { lane, order })
    }

    /// What is in memory at a place, and where in its lane: what has come back may have the place of something else.
    pub(crate) fn run_at(&self, place: Place) -> impl Iterator<Item = (usize, &Item)> {
        let lane = self.lanes.get(place.lane).into_iter();
        lane.flat_map(move |lane| {
            let first = lane.partition_point(|item| item.order < place.order);
            let behind = lane.iter().enumerate().skip(first);
            behind.take_while(move |(_, item)| item.order == place.order)
        })
    }

    pub(super) fn take_at(&mut self, place: Place, at: usize) -> Option<Item> {
        let item = self.lanes.get_mut(place.lane)?.remove(at)?;
        self.left(&item);
        Some(item)
    }

    /// Nothing of it is written down any more.
    pub(crate) fn forget_serials(&mut self) {
        let all = self.lanes.iter_mut().flatten();
        all.for_each(|item| item.serial = 0);
    }

    /// Bytes of all that waits: memory, and for what is on disk the memory of its place and its record.
    pub(crate) fn bytes(&self) -> usize {
        self.memory + self.deep.as_deref().map_or(0, |deep| deep.spill.bytes())
    }

    /// Puts many items where their orders say, in one pass over those that they come between: one by one, each would move
    /// up to half of these.
    pub(super) fn insert_all(&mut self, mut items: Vec<Item>) {
        items.iter().for_each(|item| self.note_priority(item));
        items.sort_by_key(|item| item.order);
        let mut by_lane: Vec<Vec<Item>> = self.lanes.iter().map(|_| Vec::new()).collect();
        for item in items {
            self.came(&item);
            if let Some(lane) = by_lane.get_mut(self.lane_of(&item.message)) {
                lane.push(item);
            }
        }
        for (lane, mut items) in self.lanes.iter_mut().zip(by_lane) {
            let Some(last) = items.last() else {
                continue;
            };
            let end = lane.partition_point(|other| other.order < last.order);
            let mut before: Vec<Item> = lane.drain(..end).collect();
            while let Some(item) = items.pop() {
                while let Some(other) = before.pop_if(|other| other.order > item.order) {
                    lane.push_front(other);
                }
                lane.push_front(item);
            }
            before
                .into_iter()
                .rev()
                .for_each(|other| lane.push_front(other));
        }
    }

    /// Takes what [`Backlog::first`] shows.
    pub(crate) fn pop(&mut self) -> Option<Item> {
        let lane = self.next_lane()?;
        let item = self.lanes.get_mut(lane)?.pop_front()?;
        self.take_turn(item.message.priority());
        self.left(&item);
        Some(item)
    }

    /// Puts an item back where it was: its priority is the next again.
    pub(super) fn give_back(&mut self, item: Item) -> Delta {
        self.note_priority(&item);
        let lane = self.lane_of(&item.message);
        if let Some(turns) = &mut self.turns {
            turns.give_back(lane);
        }
        self.put_back(item)
    }

    /// Takes the one that is given up first when there is no room: the oldest of the lowest priority.
    pub(super) fn pop_least(&mut self) -> Option<Item> {
        let item = self.lanes.iter_mut().find_map(VecDeque::pop_front)?;
        self.left(&item);
        Some(item)
    }

    /// Whether the first message of a priority has expired.
    pub(crate) fn is_head_expired(&self, now: Time) -> bool {
        let mut heads = self.lanes.iter().filter_map(VecDeque::front);
        heads.any(|item| item.message.expires() <= now)
    }

    /// Takes a head whose time is over.
    pub(crate) fn pop_expired(&mut self, now: Time) -> Option<Item> {
        let is_over = |item: &mut Item| item.expires <= now;
        let item = self
            .lanes
            .iter_mut()
            .find_map(|lane| lane.pop_front_if(is_over))?;
        self.left(&item);
        Some(item)
    }

    fn came(&mut self, item: &Item) {
        self.len += 1;
        self.payload_bytes += item.message.payload().len() as u64;
        self.memory += item.message.bytes();
    }

    fn left(&mut self, item: &Item) {
        self.len -= 1;
        self.payload_bytes = self
            .payload_bytes
            .saturating_sub(item.message.payload().len() as u64);
        self.memory = self.memory.saturating_sub(item.message.bytes());
        if self.len == 0 {
            for lane in &mut self.lanes {
                if lane.capacity() > 1024 {
                    lane.shrink_to(64);
                }
            }
        }
    }

    /// Drops up to `left` items, and says how many more it could have dropped.
    pub(super) fn clear_some(&mut self, mut left: usize) -> usize {
        for lane in &mut self.lanes {
            let some = left.min(lane.len());
            lane.drain(..some);
            left -= some;
        }
        left
    }

    // --- expiry

    /// When a head's time is over for which no timer is set yet; one is, from now on.
    pub(super) fn expiry_to_watch(&mut self) -> Option<Time> {
        let heads = self.lanes.iter().filter_map(VecDeque::front);
        let due = heads.map(|item| item.expires).min()?;
        self.is_earlier(due).then_some(due)
    }

    /// Whether a timer is to be set for that time, as none is that fires before; one is, from now on.
    pub(super) fn is_earlier(&mut self, due: Time) -> bool {
        let is_earlier = due < self.expiry_timer;
        self.expiry_timer = self.expiry_timer.min(due);
        is_earlier
    }

    /// The timer has fired.
    pub(super) fn expiry_timer_fired(&mut self) {
        self.expiry_timer = Time::NEVER;
    }

    /// More has expired than was given up: true if a timer is to be set for the rest, and none is but that from now on.
    pub(super) fn expire_again(&mut self) -> bool {
        std::mem::replace(&mut self.expiry_timer, Time::ZERO) != Time::ZERO
    }

    // --- on disk

    /// Whether something waits behind what is in memory.
    #[inline]
    pub(crate) fn is_deep(&self) -> bool {
        self.deep.is_some()
    }

    /// Puts a newcomer behind all that waits; true if it is to be looked after from now on when a batch is written.
    pub(crate) fn push_deep(&mut self, item: Item) -> bool {
        self.len += 1;
        self.payload_bytes += item.message.payload().len() as u64;
        let order = item.order;
        let deep = self.deep.get_or_insert_with(|| {
            Box::new(Deep {
                first_order: order,
                ..Deep::default()
            })
        });
        deep.spill.push(item)
    }

    /// The newcomer has been persisted.
    pub(crate) fn found_spot(&mut self, serial: u64, spot: Spot) {
        if let Some(deep) = self.deep.as_deref_mut() {
            deep.spill.found_spot(serial, spot);
        }
    }

    /// A frame has been written whose bytes begin at `place`: how much memory that frees, and whether the queue is still to be
    /// looked after.
    pub(crate) fn on_written(&mut self, frame: u64, place: u64) -> (usize, bool) {
        let Some(deep) = self.deep.as_deref_mut() else {
            return (0, false);
        };
        let mut released = 0;
        let is_watched = deep.spill.on_written(frame, place, |message, len| {
            released += message.bytes().saturating_sub(size_of::<Stored>());
            // Of what is on disk the record's length is known, not the payload's.
            self.payload_bytes =
                self.payload_bytes - message.payload().len() as u64 + u64::from(len);
        });
        (released, is_watched)
    }

    /// What to fetch, under the number `question`, if fewer than `below` are in memory; nothing if there is no need to. What was
    /// never on disk comes at once.
    pub(crate) fn refill(&mut self, question: u64, below: usize) -> Option<Vec<(u64, u32)>> {
        let in_memory: usize = self.lanes.iter().map(VecDeque::len).sum();
        let deep = self.deep.as_deref_mut()?;
        if deep.spill.is_fetching() || in_memory >= below {
            return None;
        }
        let places = deep.spill.fetch(question);
        if places.is_none() {
            // What is left has not even been written yet.
            let fresh = self.deep.take().map(|deep| deep.spill.into_fresh());
            for item in fresh.into_iter().flatten() {
                self.len -= 1;
                self.payload_bytes -= item.message.payload().len() as u64;
                let _ = self.insert(item);
            }
        }
        places
    }

    /// An answer has come; false if it is not that of the question that is open.
    pub(crate) fn is_answered(&mut self, question: u64) -> bool {
        let deep = self.deep.as_deref_mut();
        deep.is_some_and(|deep| deep.spill.take_answer(question))
    }

    /// The first of those that were fetched, and its place in line. It waits here no longer.
    pub(crate) fn pop_fetched(&mut self) -> Option<(Stored, i64)> {
        let deep = self.deep.as_deref_mut()?;
        let stored = deep.spill.pop_fetched()?;
        let order = deep.first_order;
        deep.first_order += 1;
        if deep.spill.len() == 0 && deep.asked.is_empty() {
            self.deep = None;
        }
        self.len -= 1;
        self.payload_bytes = self.payload_bytes.saturating_sub(u64::from(stored.len));
        Some((stored, order))
    }

    /// Adds what an earlier run left; all goes by serial then.
    pub(crate) fn restore(&mut self, mut items: Vec<Item>) -> Delta {
        let bytes = items.iter().map(|item| item.message.bytes()).sum();
        let delta = Delta::copies(items.len(), bytes);
        items.extend(std::iter::from_fn(|| self.pop()));
        items.sort_by_key(|item| item.serial);
        for item in items {
            let _ = self.push_back(item);
        }
        delta
    }

    /// Lets a request for one message wait, if more comes from disk.
    pub(super) fn ask(&mut self, asked: Asked) -> bool {
        match self.deep.as_deref_mut() {
            Some(deep) if deep.spill.is_fetching() => {
                deep.asked.push_back(asked);
                true
            }
            _ => false,
        }
    }

    pub(super) fn take_asked(&mut self) -> VecDeque<Asked> {
        let deep = self.deep.as_deref_mut();
        deep.map(|deep| std::mem::take(&mut deep.asked))
            .unwrap_or_default()
    }

    /// Drops of what is on disk, the first first, `most` messages or few more.
    pub(crate) fn drop_deep(&mut self, most: usize) -> Option<Lost> {
        let deep = self.deep.as_deref_mut()?;
        let spill = &mut deep.spill;
        // What is being fetched goes whole.
        let mut on_disk: Vec<Stored> = spill.forget_question().into();
        while on_disk.len() < most
            && let Some(stored) = spill.pop_stored()
        {
            on_disk.push(stored);
        }
        let mut fresh: Vec<Item> = Vec::new();
        while on_disk.len() + fresh.len() < most
            && let Some(item) = spill.pop_fresh()
        {
            fresh.push(item);
        }
        let count = on_disk.len() + fresh.len();
        deep.first_order += count as i64;
        let asked = std::mem::take(&mut deep.asked);
        if deep.spill.len() == 0 {
            self.deep = None;
        }
        let records = on_disk.iter().map(|stored| u64::from(stored.len));
        let payloads = fresh.iter().map(|item| item.message.payload().len() as u64);
        self.len -= count;
        self.payload_bytes = self
            .payload_bytes
            .saturating_sub(records.chain(payloads).sum::<u64>());
        let memory = fresh.iter().map(|item| item.message.bytes()).sum::<usize>();
        let serials = on_disk.iter().map(|stored| stored.serial);
        Some(Lost {
            serials: serials
                .chain(fresh.iter().map(|item| item.serial))
                .collect(),
            memory: on_disk.len() * size_of::<Stored>() + memory,
            asked,
        })
    }

    /// What an earlier run left stays on disk, by serial.
    pub(crate) fn restore_deep(&mut self, waiting: Waiting) -> Delta {
        let count = waiting.len();
        self.len += count;
        self.payload_bytes += waiting
            .iter()
            .map(|stored| u64::from(stored.len))
            .sum::<u64>();
        self.order_last += count as i64;
        if let Some(deep) = self.deep.as_deref_mut() {
            waiting.iter().for_each(|stored| deep.spill.insert(stored));
        } else if count > 0 {
            self.deep = Some(Box::new(Deep {
                spill: Spill::restored(waiting),
                first_order: 1,
                ..Deep::default()
            }));
        }
        Delta::copies(count, count * size_of::<Stored>())
    }

    /// The serials of those that were delivered, and the first of those that were not, as far as `to`.
    pub(super) fn delivered(&self, to: u64) -> (Vec<u64>, u64) {
        let (mut delivered, mut first_of_others) = (Vec::new(), u64::MAX);
        let in_memory = |item: &&Item| item.deliveries > 0 || item.serial <= to;
        let in_memory = self
            .lanes
            .iter()
            .flat_map(|lane| lane.iter().take_while(in_memory));
        let on_disk = self
            .deep
            .iter()
            .flat_map(|deep| deep.entries())
            .take_while(|(serial, _)| *serial <= to);
        for (serial, is_delivered) in in_memory
            .map(|item| (item.serial, item.deliveries > 0))
            .chain(on_disk)
        {
            match is_delivered {
                _ if serial == 0 || serial > to => {}
                true => delivered.push(serial),
                false => first_of_others = first_of_others.min(serial),
            }
        }
        (delivered, first_of_others)
    }

    /// What waits, counted from what is there.
    pub(crate) fn recount(&self) -> Result<Held, String> {
        let in_memory: usize = self.items().map(|item| item.message.bytes()).sum();
        let deep = self.deep.as_deref();
        deep.map_or(Ok(()), |deep| deep.spill.recount())?;
        let (on_disk, memory) = deep.map_or((0, 0), |deep| (deep.spill.len(), deep.spill.memory()));
        let waiting = self.items().count() + on_disk;
        same("messages that wait", self.len, waiting)?;
        same("bytes in memory", self.memory, in_memory)?;
        if on_disk == 0 {
            let payloads = self.items().map(|item| item.message.payload().len());
            let booked = self.payload_bytes as usize;
            same("bytes of payloads", booked, payloads.sum::<usize>())?;
        }
        Ok(Held {
            waiting,
            in_flight: 0,
            bytes: in_memory + memory,
        })
    }
}

impl Deep {
    /// Serials, and whether each may have been delivered.
    fn entries(&self) -> impl Iterator<Item = (u64, bool)> {
        let (on_disk, fresh) = self.spill.parts();
        let on_disk = on_disk.map(|stored| (stored.serial, stored.deliveries > 0));
        on_disk.chain(fresh.map(|item| (item.serial, item.deliveries > 0)))
    }
}

impl Spilled for Item {
    fn serial(&self) -> u64 {
        self.serial
    }

    fn message(&self) -> &Message {
        &self.message
    }

    fn stored(self, place: u64, len: u32) -> Stored {
        Stored {
            serial: self.serial,
            place,
            len,
            reliability: self.message.reliability(),
            deliveries: self.deliveries,
            ..Stored::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_model::{Reliability, RetainOp};

    fn item(order: i64) -> Item {
        let message = Message::new(
            "$q/q",
            b"x",
            Reliability::AtLeastOnce,
            RetainOp::None,
            Time::NEVER,
            Time::ZERO,
            0,
            None,
        )
        .with_priority((order % 7) as u8);
        Item {
            message,
            order,
            serial: 0,
            expires: Time::NEVER,
            deliveries: 0,
            back: 0,
        }
    }

    fn backlog(priority_max: u8, orders: impl Iterator<Item = i64>) -> Backlog {
        let mut backlog = Backlog::new(priority_max);
        orders.for_each(|order| {
            let _ = backlog.insert(item(order));
        });
        backlog
    }

    fn drained(mut backlog: Backlog) -> Vec<i64> {
        std::iter::from_fn(|| backlog.pop().map(|item| item.order)).collect()
    }

    #[test]
    fn many_at_once_are_where_each_would_be() {
        for priority_max in [0, 2] {
            for (there, back) in [(0..0, 1), (0..40, 1), (0..40, 2), (30..60, 3), (90..99, 4)] {
                let returning: Vec<i64> =
                    (0..100).filter(|order| order % (back + 1) == 0).collect();
                let there = || there.clone().filter(|order| order % (back + 1) != 0);
                let one_by_one = backlog(priority_max, there().chain(returning.iter().copied()));
                let mut at_once = backlog(priority_max, there());
                at_once.insert_all(returning.iter().rev().copied().map(item).collect());
                assert_eq!(
                    (at_once.len, at_once.payload_bytes, at_once.memory),
                    (one_by_one.len, one_by_one.payload_bytes, one_by_one.memory)
                );
                assert_eq!(drained(at_once), drained(one_by_one));
            }
        }
    }

    #[test]
    fn of_a_shared_one_each_priority_has_its_turns_and_what_came_back_is_the_next() {
        let mut backlog = Backlog::shared();
        // Each of 0 to 6, in turn.
        (0..700).for_each(|order| _ = backlog.insert(item(order)));
        let mut counts = [0; 7];
        for _ in 0..127 {
            let first = backlog.first().map(|item| item.order);
            let next = backlog.pop().expect("there are more");
            assert_eq!(Some(next.order), first);
            let _ = backlog.give_back(next);
            let again = backlog.pop().expect("it is back");
            assert_eq!(Some(again.order), first);
            counts[usize::from(again.message.priority())] += 1;
        }
        assert_eq!(counts, [1, 2, 4, 8, 16, 32, 64]);
        assert!(backlog.tells_apart(0));
        // What was handed out before any waited has its lane, too.
        for returns in [0, 1] {
            let mut backlog = Backlog::shared();
            let _ = backlog.insert(item(0));
            match returns {
                0 => _ = backlog.give_back(item(6)),
                _ => backlog.insert_all(vec![item(6)]),
            }
            assert_eq!(drained(backlog), [6, 0]);
        }
        assert!(!Backlog::shared().tells_apart(0) && Backlog::shared().tells_apart(1));
        assert!(!Backlog::new(0).tells_apart(9) && Backlog::new(1).tells_apart(0));
    }
}
