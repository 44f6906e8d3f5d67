//! A consumer of a line is a member of a group.

use super::hand_over::HandedOver;
use super::line::Source;
use crate::Kernel;
use crate::effects::{Effects, Holder};
use crate::groups::group::LineMember;
use crate::ids::{GroupId, SessionId};
use crate::journal::durable::Pending;
use crate::ledger::DropReason;
use crate::publish::deliver::parcel;
use crate::queue::Item;
use thalweg_model::{Reliability, Time};

impl Kernel {
    /// A new message of a group for a member that takes like from a queue.
    pub(crate) fn offer_to_line<E: Effects>(
        &mut self,
        group_id: GroupId,
        id: SessionId,
        to: LineMember,
        mut new: Item,
        now: Time,
        fx: &mut E,
    ) {
        let (number, reliability) = (self.group_number(group_id), new.message.reliability());
        if number != 0 && reliability > Reliability::AtMostOnce {
            new.serial = self.journal.next_serial();
        }
        let serial = new.serial;
        let key = (id, to.line, to.consumer);
        let back = match self.hand_to_member(group_id, id, to, new, now, fx) {
            Ok(HandedOver::Unsettled(_)) => None,
            Ok(HandedOver::Done(item)) => {
                self.order_settled(group_id, key, &item.message);
                return;
            }
            Err(item) => Some(item),
        };
        if serial != 0 {
            self.journal.refer(Pending {
                handed: back.is_none(),
                ..Pending::new(number, serial, reliability, 0)
            });
        }
        if let Some(item) = back {
            match self.groups.get_mut(group_id) {
                Some(group) => self.books.entered(group.waiting.push_back(item)),
                None => self.book_drop(None, item.message.address(), DropReason::GroupEnded),
            }
            // No member holds its key, and another member may have room.
            self.order_changed(group_id);
            self.look_at_group(group_id, now);
        }
    }

    /// The same of one that waited; returned if the output does not take it.
    pub(crate) fn give_to_line<E: Effects>(
        &mut self,
        group_id: GroupId,
        id: SessionId,
        to: LineMember,
        item: Item,
        now: Time,
        fx: &mut E,
    ) -> Option<Item> {
        let back = item.back;
        self.note_delivery(Holder::Group(group_id), item.serial, id, fx);
        let key = (id, to.line, to.consumer);
        match self.hand_to_member(group_id, id, to, item, now, fx) {
            Ok(HandedOver::Unsettled(_)) => None,
            Ok(HandedOver::Done(item)) => {
                self.order_settled(group_id, key, &item.message);
                self.forget_given_back(group_id, back);
                self.persist_group_removed(group_id, item.serial);
                None
            }
            Err(item) => Some(item),
        }
    }

    fn hand_to_member<E: Effects>(
        &mut self,
        group_id: GroupId,
        id: SessionId,
        to: LineMember,
        item: Item,
        now: Time,
        fx: &mut E,
    ) -> Result<HandedOver, Item> {
        let mut parcel = parcel(&item.message, 0, item.deliveries > 0);
        let (key, source) = ((id, to.line, to.consumer), Source::Group(group_id));
        let toll = self.toll(&item.message, now);
        let handed_over = self.hand_over(key, source, item, 0, now, fx)?;
        self.pay_toll(toll, id);
        if let HandedOver::Unsettled(tag) = handed_over {
            (parcel.tag, parcel.settles) = (tag, true);
        }
        self.group_line_sent(group_id, id, to, &parcel, now);
        Ok(handed_over)
    }

    /// A consumer has left a group.
    pub(crate) fn group_lost_member<E: Effects>(
        &mut self,
        group_id: GroupId,
        now: Time,
        fx: &mut E,
    ) {
        self.seat_if_stale(group_id, now);
        self.tell_membership(group_id, 0);
        self.hand_over_waiting(group_id, now, fx);
        self.forget_group_if_empty(group_id, now, fx);
    }
}
