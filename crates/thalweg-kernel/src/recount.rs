//! Counts what a kernel holds from what is there, so that tests can compare the books with it after each step.

use crate::Kernel;
use crate::groups::group::Group;
use crate::values::Cell;
use std::ops::AddAssign;

/// Copies of messages, and the memory that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub waiting: usize,
    /// Sent and not settled.
    pub in_flight: usize,
    pub bytes: usize,
}

impl AddAssign for Held {
    fn add_assign(&mut self, other: Held) {
        self.waiting += other.waiting;
        self.in_flight += other.in_flight;
        self.bytes += other.bytes;
    }
}

/// An error that says what differs.
pub(crate) fn same(what: &str, booked: usize, counted: usize) -> Result<(), String> {
    if booked == counted {
        Ok(())
    } else {
        Err(format!("{what}: {booked} are booked, {counted} are there"))
    }
}

impl Group {
    fn recount(&self) -> Result<Held, String> {
        self.waiting.recount()
    }
}

impl Kernel {
    /// Counts anew, message by message, what the kernel holds, and compares it with the books; the error names the first
    /// difference. For tests: it looks at everything there is.
    pub fn recount(&self) -> Result<(), String> {
        let mut held = self.recount_queues()?;
        let (mut subscriptions, mut online) = (0, 0);
        for (_, session) in self.sessions.iter() {
            held += session
                .recount()
                .map_err(|why| format!("session {}: {why}", session.client()))?;
            subscriptions += session.subscriptions.len();
            online += usize::from(session.link().is_some());
        }
        for group in self.groups.iter() {
            held += group
                .recount()
                .map_err(|why| format!("group {}: {why}", group.key()))?;
        }
        let mut watches = 0;
        for (_, watcher) in self.values.watches.iter() {
            watches += 1;
            match watcher.waiting() {
                Some(waiting) => {
                    held.waiting += waiting.len();
                    held.bytes += waiting.iter().map(|message| message.bytes()).sum::<usize>();
                }
                None => held.waiting += usize::from(watcher.expects_take()),
            }
        }
        let cells = self.values.watches.cells().map(Cell::bytes);
        same("copies that wait", self.books.waiting(), held.waiting)?;
        same("copies in flight", self.books.in_flight(), held.in_flight)?;
        same("bytes of copies", self.books.bytes_held(), held.bytes)?;
        same("sessions online", self.sessions.online(), online)?;
        same(
            "subscriptions",
            self.sessions.subscriptions(),
            subscriptions,
        )?;
        same("watches", self.values.watches.count(), watches)?;
        same(
            "bytes of watched values",
            self.values.watches.value_bytes(),
            cells.sum(),
        )?;
        same(
            "bytes of earlier values",
            self.values.history.bytes(),
            self.values.history.recount(),
        )?;
        for (what, values) in ["kept", "last"].into_iter().zip(self.values.stores()) {
            same(
                &format!("bytes of {what} values"),
                values.bytes(),
                values.recount(),
            )?;
        }
        Ok(())
    }
}
