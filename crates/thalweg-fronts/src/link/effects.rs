//! What the kernel asks of links, carried out by their fronts' output verbs.

use super::{HEAD_BYTES, LARGE_BYTES, Links};
use crate::front::{ConsumerFate, Fate, Front, Outbound, Undelivered, Variant};
use crate::probe::Mark;
use crate::registry::each_front;
use thalweg_kernel::{
    Answer, CloseReason, ConsumerEnd, Delivery, Effects, Handover, LinkId, Observed, Sent, Tag,
    Ticket,
};
use thalweg_model::Reliability;

impl Effects for Links {
    #[inline]
    fn deliver(&mut self, id: LinkId, delivery: &Delivery<'_>) -> Sent {
        self.mark(Mark::KernelDeliver);
        let sent = self.encode(id, delivery);
        self.mark(Mark::FrontOut);
        sent
    }

    fn release(&mut self, id: LinkId, tag: Tag) {
        self.tell(id, |front, out| front.outbound().release(tag, out));
    }

    fn answer(&mut self, id: LinkId, ticket: Ticket, answer: Answer<'_>) {
        self.tell(id, |front, out| {
            front.outbound().answer(ticket, answer, out)
        });
        self.count_again(id);
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

    #[inline]
    fn hand_over(&mut self, id: LinkId, handover: &Handover<'_>) -> Sent {
        let limits = self.limits;
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            return Sent::Gone;
        };
        if link.closing {
            return Sent::Gone;
        }
        // Who asks for one is answered: "there is none" would not be true. Nothing is read above the greater limit.
        let is_asked_for = handover.consumer == 0;
        let high = if is_asked_for {
            limits.output_max
        } else {
            limits.output_high
        };
        if link.waiting() > high || (self.unflushed > self.unflushed_most && !is_asked_for) {
            self.congested.push(id);
            return Sent::Full;
        }
        let needed = handover.message.payload().len() + handover.message.address_len() + HEAD_BYTES;
        if link.out.len() > LARGE_BYTES && link.out.len() + needed > link.out.capacity() {
            link.make_room(needed, limits.output_max);
        }
        let before = link.out.len();
        if let Err(why) = link.front.hand_over(handover, &mut link.out) {
            link.out.truncate(before);
            return self.undelivered(id, why);
        }
        if link.front.defers() {
            self.wake(id);
            return Sent::Room;
        }
        if let Some(kept) = each_front!(&link.front, front => Front::kept_bytes(&**front)) {
            self.kept = self.kept + kept - std::mem::replace(&mut link.kept, kept);
        }
        self.unflushed += link.out.len() - before;
        let (waiting, high) = (link.waiting(), link.high);
        if !link.dirty {
            link.dirty = true;
            self.dirty.push(id);
        }
        self.wrote(id, waiting, high)
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
    #[inline]
    fn encode(&mut self, id: LinkId, delivery: &Delivery<'_>) -> Sent {
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            return Sent::Gone;
        };
        if link.closing {
            return Sent::Gone;
        }
        let waiting = link.waiting();
        let room = if delivery.reliability == Reliability::AtMostOnce {
            // One message larger than the whole buffer still goes into an empty one.
            waiting == 0 || waiting + delivery.payload.len() <= self.limits.output_max
        } else {
            waiting <= self.limits.output_high || delivery.redelivered
        };
        if !room {
            self.congested.push(id);
            return Sent::Full;
        }
        let needed = delivery.payload.len() + delivery.address.len() + HEAD_BYTES;
        if link.out.len() > LARGE_BYTES && link.out.len() + needed > link.out.capacity() {
            link.make_room(needed, self.limits.output_max);
        }
        let before = link.out.len();
        let index;
        let delivered = each_front!(&mut link.front, front => {
            if !is_hot(&**front) {
                return self.deliver_apart(id, delivery);
            }
            // Repeats leave whatever there is: the window bounds them.
            if self.unflushed > self.unflushed_most && !delivery.redelivered {
                self.congested.push(id);
                return Sent::Full;
            }
            index = index_of(&**front);
            Outbound::deliver(&mut **front, delivery, &mut link.out)
        });
        if let Err(why) = delivered {
            return self.undelivered(id, why);
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

    /// The same for all other fronts.
    #[cold]
    fn deliver_apart(&mut self, id: LinkId, delivery: &Delivery<'_>) -> Sent {
        let Some(link) = self.get(id) else {
            return Sent::Gone;
        };
        each_front!(type of link.front, F => self.deliver_as::<F>(id, delivery))
    }

    /// The same for one of them. What is only noted is bounded by its front.
    #[inline]
    fn deliver_as<F: Front>(&mut self, id: LinkId, delivery: &Delivery<'_>) -> Sent {
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            return Sent::Gone;
        };
        let before = link.out.len();
        let Some(front) = F::from_any_mut(&mut link.front) else {
            return Sent::Gone;
        };
        let defers = front.defers();
        if self.unflushed > self.unflushed_most && !delivery.redelivered && !defers {
            self.congested.push(id);
            return Sent::Full;
        }
        if let Err(why) = front.deliver(delivery, &mut link.out) {
            return self.undelivered(id, why);
        }
        self.packets[F::INDEX].sent += 1;
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
    }

    #[cold]
    fn undelivered(&mut self, id: LinkId, why: Undelivered) -> Sent {
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
        self.flush_first |= high != usize::MAX;
        if self.congested.last() != Some(&id) {
            self.congested.push(id);
        }
        Sent::Congested
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
