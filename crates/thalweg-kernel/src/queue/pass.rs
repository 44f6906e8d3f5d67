//! A message that nobody has to keep goes straight through its queue.

use crate::Kernel;
use crate::effects::{Content, Effects, Handover, Sent};
use crate::publish::Draft;
use thalweg_model::Time;

impl Kernel {
    /// Hands a message that has just come from the queue of this index to its only consumer, if nothing waits and the
    /// consumer settles nothing. If it is not handed over, it goes the long way.
    pub(crate) fn pass<E: Effects>(&mut self, index: u32, draft: &Draft<'_>, now: Time, fx: &mut E) -> bool {
        let Some(queue) = self.queues.get_mut(index as usize).and_then(Option::as_deref_mut) else { return false };
        let ([to], []) = (&queue.consumers[..], &queue.groups[..]) else { return false };
        let Some(session) = self.sessions.get_mut(to.session) else { return false };
        let Some(link) = session.link.filter(|_| !session.congested && queue.ready == 0) else { return false };
        let Some(line) = session.lines.as_deref_mut().and_then(|lines| lines.get_mut(to.line)) else { return false };
        let Some(consumer) = line.consumer(to.number) else { return false };
        // Whatever needs the message in a form that can be kept, or a look at its address.
        if consumer.settles || consumer.no_local || !session.access.is_allow_all() || self.accounts.are_kept() {
            return false;
        }
        let expires = draft.expires_in.map_or(Time::NEVER, |span| now + span);
        let until = queue.limits.message_ttl.map_or(expires, |ttl| expires.min(now + ttl));
        let handover = Handover {
            line: to.line,
            consumer: to.number,
            tag: line.tag_last + 1,
            settles: false,
            deliveries: 0,
            message: Content::Passing(draft, expires),
            expires_in: (until != Time::NEVER).then(|| until.since(now)),
            left: 0,
        };
        match fx.hand_over(link, &handover) {
            Sent::Room => {}
            Sent::Congested => session.congested = true,
            Sent::Full | Sent::Gone => {
                session.congested = true;
                return false;
            }
            // The long way comes to the same and knows what to do then.
            Sent::TooLarge => return false,
        }
        line.tag_last += 1;
        queue.order_last += 1;
        queue.came += 1;
        queue.went += 1;
        session.routed += 1;
        session.delivered += 1;
        self.ledger.routed += 1;
        self.ledger.delivered += 1;
        self.ledger.delivered_bytes += draft.payload.len() as u64;
        true
    }
}
