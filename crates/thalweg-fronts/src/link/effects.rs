//! What the kernel asks of links, carried out by their fronts' output verbs.

use super::{HEAD_BYTES, LARGE_BYTES, Link, Links};
use crate::front::{ConsumerFate, Fate, Front, Outbound, Undelivered, Variant};
use crate::probe::Mark;
use crate::registry::each_front;
use core::hint::cold_path;
use thalweg_kernel::{
    Answer, CloseReason, ConsumerEnd, Content, Delivery, Effects, LinkId, Observed, Recipient, Run,
    Sent, Tag, Ticket,
};
use thalweg_model::Reliability;

impl Effects for Links {
    #[inline(always)]
    fn deliver(&mut self, id: LinkId, content: &Content<'_>, delivery: &Delivery<'_>) -> Sent {
        if self.probe.is_some() {
            cold_path();
            return self.deliver_measured(id, content, delivery);
        }
        self.deliver_to(id, content, delivery)
    }

    fn deliver_run(&mut self, id: LinkId, run: &Run<'_>) -> Sent {
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            return Sent::Gone;
        };
        let (waiting, needed) = (link.waiting(), run.frames.len());
        let has_room = waiting + needed <= link.max;
        if link.closing || !has_room || self.unflushed > self.unflushed_most {
            return Sent::Full;
        }
        if link.out.len() > LARGE_BYTES && link.out.len() + needed > link.out.capacity() {
            link.make_room(needed, self.limits.output_max);
        }
        let before = link.out.len();
        each_front!(&mut link.front, front => {
            if !Outbound::deliver_run(&mut **front, run, &mut link.out) {
                return Sent::Full;
            }
            self.packets[index_of(&**front)].sent += run.count() as u64;
        });
        let written = link.out.len() - before;
        self.unflushed += written;
        let high = link.high;
        if !link.dirty {
            link.dirty = true;
            self.dirty.push(id);
        }
        self.wrote(id, waiting + written, high)
    }

    fn prioritize(&mut self, id: LinkId) {
        let output_max = self.limits.output_max;
        if let Some(link) = self.get_mut(id) {
            link.prioritized = true;
            let most = link.max_of_its_own();
            (link.high, link.max) = (link.high.min(most), output_max.min(most));
            self.prioritized.push(id);
        }
    }

    fn release(&mut self, id: LinkId, tag: Tag) {
        self.tell(id, |front, out| front.outbound().release(tag, out));
    }

    fn answer(&mut self, id: LinkId, ticket: Ticket, answer: Answer<'_>) {
        // What a front does then may be a command: an input verb follows.
        if let Answer::Published {
            question,
            is_refused,
        } = answer
        {
            self.decided.push((id, question, is_refused));
            return self.wake(id);
        }
        self.tell(id, |front, out| {
            front.outbound().answer(ticket, answer, out)
        });
        self.count_again(id);
        let is_to_wake = |link: &Link| each_front!(&link.front, front => front.is_to_wake());
        if self.get(id).is_some_and(is_to_wake) {
            self.wake(id);
        }
    }

    #[inline]
    fn observe(&mut self, id: LinkId, cookie: u64, observed: Observed<'_>) {
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            return;
        };
        each_front!(&mut link.front, front => Outbound::observe(&mut **front, cookie, observed, &mut link.out));
        if !std::mem::replace(&mut link.woken, true) {
            self.woken.push(id);
        }
    }

    fn disconnect(&mut self, id: LinkId, why: CloseReason) {
        let fate = self.tell(id, |front, out| front.outbound().disconnect(why, out));
        if fate == Some(Fate::LinkEnds)
            && let Some(link) = self.get_mut(id)
        {
            link.closing = true;
            link.session = None;
            self.ended.push((id, why));
        }
    }

    fn consumer_ended(&mut self, id: LinkId, line: u16, ended: ConsumerEnd) -> bool {
        let told = self.tell(id, |front, out| {
            front.outbound().consumer_ended(line, ended, out)
        });
        if told == Some(ConsumerFate::EndsLink)
            && let Some(link) = self.get_mut(id)
        {
            link.closing = true;
        }
        told.is_some_and(|told| told != ConsumerFate::Unsaid)
    }

    #[inline]
    fn hold(&mut self, id: LinkId, number: u64) {
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            return;
        };
        if link.front.holds_each() {
            // Not what follows on the link waits, but one answer: its front asks for the number.
            self.hold = Some(number);
            if std::mem::replace(&mut link.held_last, number) < number {
                self.holding.push_back((number, id));
            }
            return;
        }
        if link.held.back().is_none_or(|(_, batch)| *batch < number) {
            link.held
                .push_back((link.gone + link.out.len() as u64, number));
            self.holding.push_back((number, id));
        }
    }
}

impl Links {
    /// [`Effects::deliver`], with its stages.
    #[inline(never)]
    fn deliver_measured(
        &mut self,
        id: LinkId,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
    ) -> Sent {
        self.mark(Mark::KernelDeliver);
        let sent = self.deliver_to(id, content, delivery);
        self.mark(Mark::FrontOut);
        sent
    }

    /// Inlined, because the kernel knows `to` where it builds the delivery.
    #[inline(always)]
    fn deliver_to(&mut self, id: LinkId, content: &Content<'_>, delivery: &Delivery<'_>) -> Sent {
        match delivery.to {
            Recipient::Subscriber => self.deliver_to_subscriber(id, content, delivery),
            Recipient::Consumer { .. } | Recipient::Get { .. } => {
                self.deliver_to_consumer(id, content, delivery)
            }
        }
    }

    #[inline(always)]
    fn deliver_to_subscriber(
        &mut self,
        id: LinkId,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
    ) -> Sent {
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            cold_path();
            return Sent::Gone;
        };
        if link.closing {
            cold_path();
            return Sent::Gone;
        }
        let waiting = link.waiting();
        let has_room = if delivery.reliability == Reliability::AtMostOnce {
            // One message larger than the whole buffer still goes into an empty one.
            waiting == 0 || waiting + content.payload().len() <= link.max
        } else {
            waiting <= self.limits.output_high || is_urgent(delivery)
        };
        if !has_room {
            cold_path();
            self.congested.push(id);
            return Sent::Full;
        }
        if link.out.len() > LARGE_BYTES && link.out.len() + needed(content) > link.out.capacity() {
            cold_path();
            link.make_room(needed(content), self.limits.output_max);
        }
        let before = link.out.len();
        let index;
        let delivered = each_front!(&mut link.front, front => {
            if !is_hot(&**front) {
                cold_path();
                return self.deliver_apart(id, content, delivery);
            }
            if self.unflushed > self.unflushed_most && !is_urgent(delivery) {
                cold_path();
                self.congested.push(id);
                return Sent::Full;
            }
            index = index_of(&**front);
            Outbound::deliver(&mut **front, content, delivery, &mut link.out)
        });
        if let Err(why) = delivered {
            cold_path();
            return self.undelivered(id, before, why);
        }
        self.packets[index].sent += 1;
        let written = link.out.len() - before;
        self.unflushed += written;
        let (waiting, high) = (waiting + written, link.high);
        if !link.dirty {
            link.dirty = true;
            self.dirty.push(id);
        }
        self.wrote(id, waiting, high)
    }

    // It begins as the one for subscribers does. Written once, that costs a fan-out five instructions for each receiver.
    #[inline(always)]
    fn deliver_to_consumer(
        &mut self,
        id: LinkId,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
    ) -> Sent {
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            cold_path();
            return Sent::Gone;
        };
        if link.closing {
            cold_path();
            return Sent::Gone;
        }
        // Nothing is read above the greater limit.
        let high = match is_urgent(delivery) {
            true => self.limits.output_max,
            false => self.limits.output_high,
        };
        if link.waiting() > high {
            cold_path();
            self.congested.push(id);
            return Sent::Full;
        }
        if link.out.len() > LARGE_BYTES && link.out.len() + needed(content) > link.out.capacity() {
            cold_path();
            link.make_room(needed(content), self.limits.output_max);
        }
        self.write_apart(id, content, delivery)
    }

    /// Writes it for a subscriber whose front has no path of its own in a fan-out.
    #[inline(never)]
    fn deliver_apart(
        &mut self,
        id: LinkId,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
    ) -> Sent {
        self.write_apart(id, content, delivery)
    }

    /// All of it once for each type of front, so that what the type decides costs nothing.
    #[inline(always)]
    fn write_apart(&mut self, id: LinkId, content: &Content<'_>, delivery: &Delivery<'_>) -> Sent {
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            cold_path();
            return Sent::Gone;
        };
        let is_late = self.unflushed > self.unflushed_most && !is_urgent(delivery);
        let before = link.out.len();
        each_front!(&mut link.front, front => {
            // Subscribers of such a front have had theirs by now, and it has no consumers.
            if is_hot(&**front) {
                return Sent::Gone;
            }
            let defers = Front::defers(&**front);
            // What is only noted is bounded by its front.
            if is_late && !defers {
                cold_path();
                self.congested.push(id);
                return Sent::Full;
            }
            let delivered = Outbound::deliver(&mut **front, content, delivery, &mut link.out);
            let index = index_of(&**front);
            if let Some(kept) = Front::kept_after_delivery(&**front) {
                link.keeps(kept, &mut self.kept);
            }
            if let Err(why) = delivered {
                cold_path();
                return self.undelivered(id, before, why);
            }
            self.packets[index].sent += 1;
            if defers {
                self.wake(id);
                return Sent::Room;
            }
            self.unflushed += link.out.len() - before;
            let (waiting, high) = (link.waiting(), link.high);
            if !link.dirty {
                link.dirty = true;
                self.dirty.push(id);
            }
            self.wrote(id, waiting, high)
        })
    }

    #[cold]
    fn undelivered(&mut self, id: LinkId, before: usize, why: Undelivered) -> Sent {
        if let Some(link) = self.get_mut(id) {
            link.out.truncate(before);
        }
        match why {
            Undelivered::TooLarge => Sent::TooLarge,
            Undelivered::NoConsumer => Sent::Gone,
            Undelivered::Full => {
                // Flushed even if nothing is written: then it has room again.
                self.mark_dirty(id);
                self.congested.push(id);
                Sent::Full
            }
        }
    }

    /// A delivery is in the output of a link in which so much waits now.
    #[inline(always)]
    fn wrote(&mut self, id: LinkId, waiting: usize, high: usize) -> Sent {
        if waiting <= self.limits.output_high.min(high) {
            return Sent::Room;
        }
        cold_path();
        self.flush_first |= high != usize::MAX;
        if self.congested.last() != Some(&id) {
            self.congested.push(id);
        }
        Sent::Congested
    }
}

/// Bytes that it takes in an output.
fn needed(content: &Content<'_>) -> usize {
    content.payload().len() + content.address_len() + HEAD_BYTES
}

/// Whether it leaves whatever is not flushed: repeats are bounded by the window, and one who asked is answered, because
/// "there is none" would not be true.
#[inline]
fn is_urgent(delivery: &Delivery<'_>) -> bool {
    match delivery.to {
        Recipient::Subscriber => delivery.deliveries > 0,
        Recipient::Consumer { .. } => false,
        Recipient::Get { .. } => true,
    }
}

/// Whether the front's type says that much is delivered to it.
#[inline(always)]
fn is_hot<F: Front>(_: &F) -> bool {
    F::DELIVERS_MUCH
}

#[inline(always)]
fn index_of<F: Variant>(_: &F) -> usize {
    F::INDEX
}
