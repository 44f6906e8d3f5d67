//! A message passes its group without being queued: nothing waits there, the message is not settled, and the next
//! member can receive it.

use crate::Kernel;
use crate::effects::{Content, Delivery, Effects, Sent};
use crate::groups::group::Member;
use crate::ids::{GroupId, SessionId};
use crate::publish::pipeline::{Draft, Outcome};
use crate::routes::cached::Route;
use thalweg_balance::Head;
use thalweg_model::{Reliability, Time};

impl Kernel {
    /// The same as [`Kernel::spread_fully`], of a message that only one group wants.
    #[inline(never)]
    pub(crate) fn spread_to_group<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        route: &Route,
        draft: &Draft<'_>,
        now: Time,
        fx: &mut E,
    ) -> Outcome {
        let is_passed = route
            .groups()
            .first()
            .is_some_and(|group| self.pass_to_group(*group, draft, now, fx));
        if !is_passed {
            return self.spread_fully(publisher, route, draft, now, fx);
        }
        self.books.matched();
        Outcome::Accepted
    }

    /// Hands a message that has just come to the member that its group chooses; it need not even be kept. What is not
    /// handed over goes the long way (`publish_to_group`), which comes to the same.
    fn pass_to_group<E: Effects>(
        &mut self,
        group_id: GroupId,
        draft: &Draft<'_>,
        now: Time,
        fx: &mut E,
    ) -> bool {
        if draft.reliability != Reliability::AtMostOnce || self.books.has_accounts() {
            return false;
        }
        let here = self.env.shard();
        let Some(group) = self.groups.get_mut(group_id) else {
            return false;
        };
        if !group.is_all_on(here)
            || !group.waiting.is_empty()
            || group.feed().is_some()
            || group.policy().upgrade_reliability
            || group.selectors().is_some()
        {
            return false;
        }
        let Some(seats) = group.seats_mut().filter(|seats| seats.are_plain()) else {
            return false;
        };
        let size = draft.payload.len() as u32;
        // Whatever needs a closer look at the message or the member.
        let mut is_sure = true;
        let sessions = &self.sessions;
        let mut may = |member: &Member| {
            let Some(session) = sessions.get(member.session) else {
                return false;
            };
            is_sure &=
                member.line.is_none() && session.access().is_allow_all() && session.is_trusted();
            session.link().is_some() && !session.connection.is_congested()
        };
        let in_turn = seats.next_in_turn().filter(|(_, member)| may(member));
        let chosen = in_turn.or_else(|| {
            let head = Head {
                queued: 1,
                size,
                turn: 0,
                random: self.env.random(),
                once: false,
                again: false,
                selective: false,
            };
            seats.whose_turn(&head, now, &mut may)
        });
        let Some((place, member)) = chosen.filter(|_| is_sure) else {
            return false;
        };
        let Some(session) = self.sessions.get_mut(member.session) else {
            return false;
        };
        let Some(link) = session.link() else {
            return false;
        };
        let delivery = Delivery {
            subscription_ids: if member.id == 0 {
                &[]
            } else {
                std::slice::from_ref(&member.id)
            },
            ..draft.unsettled()
        };
        let sent = fx.deliver(link, &Content::Passing(draft, now), &delivery);
        match sent {
            Sent::Room => {}
            Sent::Congested => session.connection.congest(),
            Sent::Full => {
                session.connection.congest();
                self.output_changed(member.session);
                return false;
            }
            // The long way finds the same and knows what to do then.
            Sent::TooLarge | Sent::Gone => return false,
        }
        session.counts.note_routed();
        session.counts.note_delivered();
        self.books.routed_without_account();
        self.books.delivered_without_account(draft.payload.len());
        group.counters.arrived += 1;
        group.counters.chosen += 1;
        if let Some(seats) = group.seats_mut() {
            seats.passed(place, in_turn.is_some(), size, now);
        }
        if sent == Sent::Congested {
            self.output_changed(member.session);
        }
        true
    }
}
