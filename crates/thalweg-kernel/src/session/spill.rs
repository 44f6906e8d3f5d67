//! A session's backlog goes to disk, and comes back.

use super::backlog::Refill;
use crate::Kernel;
use crate::books::Delta;
use crate::effects::{Effects, Fetch, Holder};
use crate::entry::Entry;
use crate::ids::SessionId;
use crate::journal::durable::Put;
use crate::ledger::DropReason;
use thalweg_model::{Message, Time};
use thalweg_records::Stored;

impl Kernel {
    /// Whether the copy must go to the part of the queue that is on disk.
    pub(crate) fn goes_to_disk(&self, id: SessionId, entry: &Entry, bytes: usize) -> bool {
        let Some(session) = self.sessions.get(id) else {
            return false;
        };
        if session.backlog.is_behind_disk(&entry.message) {
            return true;
        }
        entry.serial != 0
            && !entry.of_group
            && entry.group().is_none()
            && (self.env.drops_waiting()
                || session.backlog.memory_before(&entry.message) + bytes
                    > self.env.limits().queue_memory_bytes_max)
    }

    /// Puts a newcomer behind all that waits.
    pub(crate) fn push_to_disk(&mut self, id: SessionId, entry: Entry) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.backlog.push_to_disk(entry) {
            self.journal.spills(Holder::Session(id));
        }
    }

    /// A frame of this shard has been written, and its bytes begin at `place`: what of it waits in long queues leaves
    /// memory.
    pub fn on_written(&mut self, frame: u64, place: u64) {
        let mut spilling = self.journal.take_spilling();
        spilling.retain(|holder| match *holder {
            Holder::Session(id) => self.on_session_written(id, frame, place),
            Holder::Queue(_) | Holder::Group(_) => self.on_backlog_written(*holder, frame, place),
        });
        self.journal.set_spilling(spilling);
    }

    /// The same for one session; whether it has messages that are not written yet.
    fn on_session_written(&mut self, id: SessionId, frame: u64, place: u64) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        let books = &self.books;
        let account = |address: &str| books.has_accounts().then(|| books.place_of(address));
        let unloaded = session.backlog.on_written(frame, place, account);
        self.books.entered(Delta::memory(unloaded.entered));
        self.books.left(Delta::memory(unloaded.left));
        unloaded.spills
    }

    /// Brings more of a session's queue into memory if there is room; true if there is something new.
    pub(crate) fn refill(&mut self, id: SessionId) -> bool {
        let question = u64::from(self.remote.next_question());
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        match session.backlog.refill(question) {
            Refill::Nothing => false,
            Refill::Done => true,
            Refill::Fetch(places) => {
                self.journal.fetch(Fetch {
                    holder: Holder::Session(id),
                    question,
                    places,
                });
                false
            }
        }
    }

    /// Messages that were asked for with a [`Fetch`](crate::Fetch); nothing where one could not be read.
    pub fn on_fetched<E: Effects>(
        &mut self,
        holder: Holder,
        question: u64,
        messages: Vec<Option<Message>>,
        now: Time,
        fx: &mut E,
    ) {
        match holder {
            Holder::Session(id) => self.on_session_fetched(id, question, messages, now, fx),
            Holder::Queue(_) | Holder::Group(_) => {
                self.on_backlog_fetched(holder, question, messages, now, fx)
            }
        }
        self.end_command(now, fx);
    }

    fn on_session_fetched<E: Effects>(
        &mut self,
        id: SessionId,
        question: u64,
        messages: Vec<Option<Message>>,
        now: Time,
        fx: &mut E,
    ) {
        let is_asked = |session: &mut super::Session| session.backlog.take_answer(question);
        if !self.sessions.get_mut(id).is_some_and(is_asked) {
            return;
        }
        for message in messages {
            let Some(session) = self.sessions.get_mut(id) else {
                return;
            };
            let Some((stored, place)) = session.backlog.pop_fetched() else {
                break;
            };
            self.books.left(Delta::memory(size_of::<Stored>()));
            if let (None, Some(message)) = (place, &message) {
                self.books.restored_address(message.address());
            }
            let (serial, reliability) = (stored.serial, stored.reliability);
            match message {
                Some(message) if message.expires() > now => {
                    self.books.entered(Delta::memory(message.bytes()));
                    session.backlog.push_back(Entry::restored(stored, message));
                    continue;
                }
                Some(message) => self.book_expired(Some(id), message.address()),
                // Its address was on disk, too.
                None => self.book_drop_on_disk(Some(id), place, DropReason::Unreadable),
            }
            self.books.left(Delta::copy(0));
            self.persist_put(id, serial, reliability, Put::Done);
        }
        self.pump(id, now, fx);
    }
}
