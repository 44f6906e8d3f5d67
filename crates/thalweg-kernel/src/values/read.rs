//! One-time reads of last values.
//!
//! One value is at its address's home, or in a cell of this shard. A list is put together from all shards, step by step, so
//! that no turn of any gets long; it holds the first values in byte order, as many as were asked for.

use crate::effects::{Answer, Effects};
use crate::ids::{LinkId, SessionId, ShardId, Ticket};
use crate::remote::shards::{Asker, ShardMessage};
use crate::values::last_value::{LastValues, ScanCursor};
use crate::values::watch::may_see;
use crate::{Kernel, home};
use std::ops::ControlFlow;
use thalweg_model::{Filter, Message, Time};

use crate::access::Permission;

/// Values that a list looks at in one go, in each store.
const STEPS_MAX: usize = 1024;
/// Values that it takes in one go, from each store.
const TAKE_MAX: usize = 512;
/// Lists that are put together at the same time; more are answered with nothing, and as incomplete.
const LISTS_MAX: usize = 256;
/// Lists that go on in one turn.
pub(crate) const LISTS_PER_TURN: usize = 8;

/// A list that is being put together.
pub(crate) struct List {
    asker: Asker,
    filter: Box<str>,
    max: usize,
    /// What was remembered, then what was retained, in no order.
    found: [Vec<Message>; 2],
    /// Where it stands with this shard's own values, unless it is through.
    here: Option<Box<ListCursor>>,
    /// Other shards that have not told all.
    shards_missing: usize,
}

/// Where a list stands in the two stores of one shard.
#[derive(Clone, Debug)]
pub struct ListCursor {
    /// One for each store; nothing when it is through.
    cursors: [Option<ScanCursor>; 2],
    /// How many more of each can be of use.
    wanted: [usize; 2],
}

impl ListCursor {
    fn new(max: usize) -> Self {
        // One more tells that these are not all.
        let wanted = max.saturating_add(1);
        ListCursor {
            cursors: [Some(ScanCursor::default()), Some(ScanCursor::default())],
            wanted: [wanted; 2],
        }
    }

    fn is_through(&self) -> bool {
        self.cursors
            .iter()
            .zip(self.wanted)
            .all(|(cursor, wanted)| cursor.is_none() || wanted == 0)
    }
}

/// Which last values a list has.
#[derive(Clone, Copy, Debug)]
pub struct ListSpec<'a> {
    /// The filter that their addresses match.
    pub filter: &'a str,
    /// How many there are at the most: the first in byte order.
    pub max: usize,
}

impl Kernel {
    /// Asks for the last value of an address. The answer is [`Answer::Value`], maybe before this
    /// returns. False, and no answer, if the session may not have it.
    pub fn read_last_value<E: Effects>(
        &mut self,
        id: SessionId,
        link: LinkId,
        ticket: Ticket,
        address: &str,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let Some(asker) = self.reader(id, link, ticket, address) else {
            return false;
        };
        let home = home(address, self.env.shards());
        let here = match home == self.env.shard() {
            true => self.values.latest(address, now),
            false => self.value_in_cell(address, now),
        };
        if here.is_some() || home == self.env.shard() {
            let value = here.filter(|value| self.may_be_told(id, value));
            fx.answer(link, ticket, Answer::Value(value));
        } else {
            self.remote.send(
                home,
                ShardMessage::Read {
                    asker,
                    address: address.into(),
                },
            );
        }
        true
    }

    /// The requester of what an address has, if it may see that.
    #[inline]
    fn reader(&self, id: SessionId, link: LinkId, ticket: Ticket, address: &str) -> Option<Asker> {
        let session = self.sessions.get(id)?;
        may_see(session, address).then(|| self.asker(id, link, ticket))?
    }

    /// Asks for all messages that an address keeps, oldest first; of most addresses that is the last value alone. The answer
    /// is [`Answer::Values`], maybe before this returns. False, and no answer, if the session may not have them.
    pub fn read_kept<E: Effects>(
        &mut self,
        id: SessionId,
        link: LinkId,
        ticket: Ticket,
        address: &str,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let Some(asker) = self.reader(id, link, ticket, address) else {
            return false;
        };
        let home = home(address, self.env.shards());
        if home == self.env.shard() {
            let kept = self.values.kept(address, now);
            self.on_read_kept(asker, kept, fx);
        } else {
            let address = address.into();
            self.remote
                .send(home, ShardMessage::ReadKept { asker, address });
        }
        true
    }

    pub(crate) fn on_read_kept<E: Effects>(
        &mut self,
        asker: Asker,
        mut values: Vec<Message>,
        fx: &mut E,
    ) {
        if self.is_there(&asker) {
            values.retain(|value| self.may_read(asker.session(), value));
            let complete = true;
            let answer = Answer::Values { values, complete };
            fx.answer(asker.link(), asker.ticket(), answer);
        }
    }

    pub(crate) fn on_read<E: Effects>(
        &mut self,
        asker: Asker,
        value: Option<&Message>,
        fx: &mut E,
    ) {
        if self.is_there(&asker) {
            let value = value.filter(|value| self.may_read(asker.session(), value));
            fx.answer(asker.link(), asker.ticket(), Answer::Value(value));
        }
    }

    /// Whether a session may have a value that was looked up for it: its rights may have changed since it asked.
    fn may_read(&self, id: SessionId, value: &Message) -> bool {
        self.sessions
            .get(id)
            .is_some_and(|session| session.access().may_receive(value))
    }

    /// Asks for the last values of all addresses that match. The
    /// answer is [`Answer::Values`], maybe before this returns. False, and no answer, if the
    /// session may not have them or this is no filter.
    pub fn list_last_values<E: Effects>(
        &mut self,
        id: SessionId,
        link: LinkId,
        ticket: Ticket,
        wanted: ListSpec<'_>,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let ListSpec { filter, max } = wanted;
        let Some(asker) = self.asker(id, link, ticket) else {
            return false;
        };
        let Ok(checked) = Filter::from_canonical(filter) else {
            return false;
        };
        let Some(session) = self.sessions.get(id) else {
            return false;
        };
        let grants = self.env.limits().wildcards_enabled && session.connection.grants().wildcards;
        if !session.access().allows(Permission::Subscribe, filter)
            || (checked.has_wildcard() && !grants)
        {
            return false;
        }
        if self.values.list_count() >= LISTS_MAX {
            let (values, complete) = (Vec::new(), false);
            fx.answer(link, ticket, Answer::Values { values, complete });
            return true;
        }
        let max = max.min(self.env.limits().list_max);
        let question = self.remote.next_question();
        let at = Box::new(ListCursor::new(max));
        let mut list = List {
            asker,
            filter: filter.into(),
            max,
            found: Default::default(),
            here: None,
            shards_missing: 0,
        };
        let home = home(filter, self.env.shards());
        let is_asked = |shard| checked.has_wildcard() || shard == home;
        for shard in (0..self.env.shards())
            .map(ShardId)
            .filter(|shard| is_asked(*shard))
        {
            if shard == self.env.shard() {
                list.here = Some(at.clone());
            } else {
                list.shards_missing += 1;
                self.remote.send(
                    shard,
                    ShardMessage::List {
                        question,
                        filter: filter.into(),
                        at: at.clone(),
                    },
                );
            }
        }
        self.values.add_list(question, list);
        self.go_on_with_list(question, now, fx);
        true
    }

    /// Looks at some more of this shard's own values.
    pub(crate) fn go_on_with_list<E: Effects>(&mut self, question: u32, now: Time, fx: &mut E) {
        let Some(list) = self.values.list_mut(question) else {
            return;
        };
        if let Some(mut at) = list.here.take() {
            let filter = list.filter.clone();
            let found = self.list_some(&filter, &mut at, now);
            self.add_to_list(question, found, &mut at);
            if !at.is_through()
                && let Some(list) = self.values.list_mut(question)
            {
                list.here = Some(at);
                self.agenda.put_off_list(question);
            }
        }
        self.finish_list(question, fx);
    }

    /// Some values of this shard's stores.
    pub(crate) fn list_some(
        &self,
        filter: &str,
        at: &mut ListCursor,
        now: Time,
    ) -> [Vec<Message>; 2] {
        let ListCursor {
            cursors: [remembered, retained],
            wanted: [wanted_remembered, wanted_retained],
        } = at;
        let [from_remembered, from_retained] = self.values.stores();
        [
            some(from_remembered, filter, remembered, wanted_remembered, now),
            some(from_retained, filter, retained, wanted_retained, now),
        ]
    }

    /// Another shard has looked at some of its values.
    pub(crate) fn on_listed<E: Effects>(
        &mut self,
        from: ShardId,
        question: u32,
        found: [Vec<Message>; 2],
        mut at: Box<ListCursor>,
        fx: &mut E,
    ) {
        self.add_to_list(question, found, &mut at);
        let Some(list) = self.values.list_mut(question) else {
            return;
        };
        if at.is_through() {
            list.shards_missing -= 1;
            self.finish_list(question, fx);
        } else {
            self.remote.send(
                from,
                ShardMessage::List {
                    question,
                    filter: list.filter.clone(),
                    at,
                },
            );
        }
    }

    fn add_to_list(&mut self, question: u32, found: [Vec<Message>; 2], at: &mut ListCursor) {
        let Some(list) = self.values.list_mut(question) else {
            return;
        };
        let session = self.sessions.get(list.asker.session());
        let asker = session.filter(|session| session.uid() == list.asker.uid());
        let Some(asker) = asker else {
            // Its requester is gone.
            self.values.remove_list(question);
            return;
        };
        for ((all, found), wanted) in list.found.iter_mut().zip(found).zip(&mut at.wanted) {
            let before = all.len() + found.len();
            all.extend(
                found
                    .into_iter()
                    .filter(|value| asker.access().may_receive(value)),
            );
            // What it may not have does not count.
            *wanted += before - all.len();
        }
    }

    /// Answers when all is there.
    fn finish_list<E: Effects>(&mut self, question: u32, fx: &mut E) {
        let is_done = |list: &List| list.here.is_none() && list.shards_missing == 0;
        if !self.values.list(question).is_some_and(is_done) {
            return;
        }
        let Some(List {
            asker,
            max,
            found: [mut values, retained],
            ..
        }) = self.values.remove_list(question)
        else {
            return;
        };
        if !self.is_there(&asker) {
            return;
        }
        // Where both have one, the remembered one is the newer: it comes first, and sorting leaves it there.
        values.extend(retained);
        values.retain(|value| self.may_read(asker.session(), value));
        values.sort_by(|a, b| a.address().cmp(b.address()));
        values.dedup_by(|later, earlier| later.address() == earlier.address());
        // A store that has more than that has given one more.
        let complete = values.len() <= max;
        values.truncate(max);
        let answer = Answer::Values { values, complete };
        fx.answer(asker.link(), asker.ticket(), answer);
    }
}

/// Some values of a store.
fn some(
    store: &LastValues,
    filter: &str,
    cursor: &mut Option<ScanCursor>,
    wanted: &mut usize,
    now: Time,
) -> Vec<Message> {
    let Some(at) = cursor.as_mut().filter(|_| *wanted > 0) else {
        return Vec::new();
    };
    let (mut found, max) = (Vec::new(), TAKE_MAX.min(*wanted));
    let is_through = store.scan(filter, at, STEPS_MAX, now, |message| {
        found.push(message.clone());
        if found.len() >= max {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    *wanted -= found.len();
    if is_through {
        *cursor = None;
    }
    found
}
