//! Outputs that wait for batches of the journal.

use super::Links;
use crate::coap::Told;
use thalweg_kernel::{CloseReason, Effects};

impl Links {
    /// A batch is handed over that had no room for more: what waits for it waits for the next one, which one command may
    /// have written down with it. To be called before [`Links::complete`] with its number.
    pub fn follow_full_batch(&mut self, cut: u64) {
        let next = cut + 1;
        for at in 0..self.holding.len() {
            let (batch, id) = self.holding[at];
            if batch != cut {
                continue;
            }
            self.holding[at].0 = next;
            let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
                continue;
            };
            link.held_last = link.held_last.max(next);
            for (_, batch) in &mut link.held {
                *batch = if *batch == cut { next } else { *batch };
            }
        }
    }

    /// A batch could not be kept, because a record of it is too long: whoever waits for it is told good-bye instead. Who
    /// that was is in [`Links::take_ended`].
    pub fn refuse(&mut self, number: u64) {
        let from = self.holding.partition_point(|(batch, _)| *batch < number);
        let to = self.holding.partition_point(|(batch, _)| *batch <= number);
        for (_, id) in self.holding.drain(from..to).collect::<Vec<_>>() {
            let Some(link) = self.get_mut(id) else {
                continue;
            };
            if link.front.is_coap() {
                // One of many peers of a socket: it gets no answer, and asks again.
                continue;
            }
            if let Some(at) = link.held.iter().position(|(_, batch)| *batch == number) {
                // What is acknowledged from there on is not kept.
                let kept = link.held[at].0.saturating_sub(link.gone) as usize;
                link.out.truncate(kept.max(link.sent));
                link.held.truncate(at);
            }
            let session = link.session;
            self.disconnect(id, CloseReason::Kicked);
            if let Some(link) = self.get_mut(id) {
                // The kernel does not know yet.
                link.session = session;
            }
        }
    }

    /// Batches up to this one are as safe as was asked for: what waited for them may leave. Together with
    /// [`Kernel::batch_is_safe`](thalweg_kernel::Kernel::batch_is_safe).
    pub fn complete(&mut self, number: u64) {
        self.coap.completed = self.coap.completed.max(number);
        while let Some(&(batch, id)) = self.holding.front()
            && batch <= number
        {
            self.holding.pop_front();
            let Some(link) = self.get_mut(id) else {
                continue;
            };
            if link.front.is_coap() {
                self.coap.tell(id, Told::Safe);
                continue;
            }
            while link.held.front().is_some_and(|(_, batch)| *batch <= number) {
                link.held.pop_front();
            }
            self.mark_dirty(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Front, LinksLimits};
    use crate::mqtt::{MqttFront, MqttSettings};

    #[test]
    fn what_waits_for_a_batch_that_was_cut_waits_for_the_rest_of_it() {
        let mut links = Links::new(LinksLimits::default());
        let front = MqttFront::new(MqttSettings::default().into(), 1, None);
        let link = links.open(Front::Mqtt(Box::new(front)));
        let answer = |links: &mut Links, batch: u64| {
            links.hold(link, batch);
            links.write(link, |_, out| out.push(batch as u8));
        };
        answer(&mut links, 1);
        // Meanwhile the first is full: later commands are told of the next.
        answer(&mut links, 2);
        answer(&mut links, 3);
        links.follow_full_batch(1);
        let sendable = |links: &Links| links.get(link).expect("open").sendable().to_vec();
        links.complete(1);
        assert_eq!(sendable(&links), []);
        links.complete(2);
        assert_eq!(sendable(&links), [1, 2]);
        links.complete(3);
        assert_eq!(sendable(&links), [1, 2, 3]);
    }
}
