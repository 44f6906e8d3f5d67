//! Messages that differ in their payloads alone and came one behind the other: what is the same of all is done once.

use crate::Kernel;
use crate::effects::{Effects, Native, Sent};
use crate::ids::SessionId;
use crate::publish::draft::Draft;
use crate::routes::cached::{Goes, NO_LOCAL, Receiver};
use thalweg_model::{Reliability, RetainOp, Time};

/// Messages at most once of one publisher to one address.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// What they have in common; its payload and its native form are not looked at.
    pub like: &'a Draft<'a>,
    /// In which encoding they came.
    pub dialect: u8,
    /// All of them as they came.
    pub frames: &'a [u8],
    /// Where each is in `frames`, by rising offset.
    pub cuts: &'a [Cut],
}

/// Where a message of a run is: behind the one before, up to the end of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Offset of the payload.
    pub payload: u32,
    /// Offset of what follows the message.
    pub end: u32,
}

impl<'a> Run<'a> {
    /// How many messages it has.
    pub fn count(&self) -> usize {
        self.cuts.len()
    }

    /// The messages one by one.
    pub fn drafts(&self) -> impl Iterator<Item = Draft<'a>> + use<'a> {
        let Run {
            like,
            dialect,
            frames,
            cuts,
        } = *self;
        let mut at = 0;
        cuts.iter().map(move |cut| {
            let end = cut.end as usize;
            let frame = frames.get(at..end).unwrap_or_default();
            at = end;
            Draft {
                payload: frames.get(cut.payload as usize..end).unwrap_or_default(),
                native: Some(Native { dialect, frame }),
                ..*like
            }
        })
    }

    /// Its first messages: as many as have at most so many bytes together, and one at least.
    fn within(self, bytes_max: usize) -> Self {
        let fit = |cut: &Cut| cut.end as usize <= bytes_max;
        let count = self.cuts.partition_point(fit).max(1);
        let cuts = self.cuts.get(..count).unwrap_or(self.cuts);
        let end = cuts.last().map_or(0, |cut| cut.end as usize);
        Run {
            frames: self.frames.get(..end).unwrap_or(self.frames),
            cuts,
            ..self
        }
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        let len = |cut: &Cut| (cut.end - cut.payload) as usize;
        self.cuts.iter().map(len).sum()
    }

    /// Whether nothing has to be known of it that [`Kernel::publish`] looks at and [`Kernel::publish_run`] does not.
    fn is_plain(&self) -> bool {
        let reply_to = self.like.properties.and_then(|it| it.reply_to.as_ref());
        self.like.reliability == Reliability::AtMostOnce
            && self.like.retain == RetainOp::None
            && self.like.stamp.is_none()
            && reply_to.is_none()
    }
}

impl Kernel {
    /// Publishes the first messages of a run, each as [`Kernel::publish`] does; how many. Receivers that take them as they
    /// came get all at once. All copies together have at most `copies_bytes_max` bytes, unless those of one message have more.
    ///
    /// Where each has to be looked at by itself nothing happens, and it returns 0.
    #[inline(never)]
    pub fn publish_run<E: Effects>(
        &mut self,
        id: SessionId,
        run: Run<'_>,
        copies_bytes_max: usize,
        now: Time,
        fx: &mut E,
    ) -> usize {
        if !run.is_plain() || self.env.is_short() || self.books.has_accounts() {
            return 0;
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return 0;
        };
        if session.connection.is_metered() {
            return 0;
        }
        let Some(route) = session.memo.route_of(run.like.address, &self.routes) else {
            return 0;
        };
        let copies = route.receivers().len().max(1);
        let run = run.within(copies_bytes_max / copies);
        match (route.goes(), route.queues()) {
            (Goes::ToReceivers, _) => {}
            (Goes::ToQueue, &[queue]) => {
                return match self.pass_run(queue, &run, now, fx) {
                    true => self.run_received(id, &run),
                    false => 0,
                };
            }
            _ => return 0,
        }
        let taken = self.run_received(id, &run);
        let bytes = run.payload_bytes();
        let mut rest: Vec<u32> = Vec::new();
        for (at, receiver) in route.receivers().iter().enumerate() {
            if !self.spread_run(id, receiver, &run, bytes, fx) {
                rest.push(at as u32);
            }
        }
        if !rest.is_empty() {
            for draft in run.drafts() {
                self.spread_to_some(id, (&route, &rest), &draft, now, fx);
            }
        }
        taken
    }

    /// Books that the messages of a run came, and were wanted; how many.
    fn run_received(&mut self, id: SessionId, run: &Run<'_>) -> usize {
        let count = run.count();
        if let Some(session) = self.sessions.get_mut(id) {
            session.counts.run_received(count);
        }
        self.books.run_received(count, run.payload_bytes());
        count
    }

    /// Hands a run to one receiver; false, and nothing has happened, if it has to get the messages one by one.
    #[inline]
    fn spread_run<E: Effects>(
        &mut self,
        publisher: SessionId,
        receiver: &Receiver,
        run: &Run<'_>,
        payload_bytes: usize,
        fx: &mut E,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(receiver.session) else {
            // It has ended.
            return true;
        };
        let Some(link) = session.link().filter(|_| session.backlog.is_empty()) else {
            return false;
        };
        let is_own = receiver.flags & NO_LOCAL != 0 && receiver.session == publisher;
        if is_own || receiver.has_identifiers() {
            return false;
        }
        let is_congested = match fx.deliver_run(link, run) {
            Sent::Room => false,
            Sent::Congested => true,
            Sent::Full | Sent::TooLarge | Sent::Gone => return false,
        };
        session.counts.run_delivered(run.count());
        self.books.run_delivered(run.count(), payload_bytes);
        if is_congested {
            self.congest(receiver.session);
        }
        true
    }
}
