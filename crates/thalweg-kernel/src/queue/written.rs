//! Queues in the journal: terms (see `journal::terms`), and entries.

use super::delivered::Mark;
use super::spec::{DeadLetter, QueueOverflow};
use super::terms::Terms;
use super::{Item, Queue};
use crate::Kernel;
use crate::access::Access;
use crate::effects::Safety;
use crate::ids::QueueId;
use crate::journal::terms::{QUEUE, TermLines, each_line};
use crate::timers::TimerKey;
use crate::topology::StoredMaker;
use thalweg_model::{Message, Span, Time};
use thalweg_records::{Stored, StoredGroup, Waiting};

impl Kernel {
    pub(super) fn persist_queue(&mut self, queue_id: QueueId, safety: Safety) {
        let Some(queue) = self.queues.get(queue_id) else {
            return;
        };
        let terms = queue_terms(queue);
        self.journal
            .write_group(queue.journal_number(), QUEUE, terms.text(), safety);
    }

    // --- a new process

    pub(crate) fn restore_queue(
        &mut self,
        number: u64,
        stored: StoredGroup,
        read: &mut dyn FnMut(u64, u32) -> Option<Message>,
        access: &dyn Fn(&str, Option<&str>) -> Access,
        now: Time,
    ) {
        let (terms, delivered_to, made_by) = read_terms(&stored.filter, number);
        let idle = terms.limits.idle_expiry;
        let queue_id = self.add_queue(terms, now);
        self.set_queues_maker(queue_id, made_by.compile(access));
        self.books.restored(stored.waiting.len());
        // What comes from now on has not been delivered.
        let serial_last = self.journal.serial_last();
        if let Some(queue) = self.queues.get_mut(queue_id).filter(|_| delivered_to > 0) {
            queue.mark = Mark::restored(delivered_to.min(serial_last));
            self.persist_queue(queue_id, Safety::Lazy);
        }
        let waiting = flagged(stored.waiting, delivered_to);
        if let Err(waiting) = self.restore_deep(queue_id, waiting) {
            for item in self.read_restored(number, &waiting, read) {
                let Some(queue) = self.queues.get_mut(queue_id) else {
                    return;
                };
                let expires = queue.terms.expiry_of(&item.message);
                let order = queue.backlog.next_order();
                let delta = queue.backlog.insert(Item {
                    order,
                    expires,
                    ..item
                });
                self.books.entered(delta);
            }
        }
        if let Some(idle) = idle {
            let key = TimerKey::QueueIdle(queue_id);
            self.agenda.set_timer(now + idle, key);
        }
        self.watch_expiry(queue_id);
    }
}

/// Flags those that may have been delivered.
pub(crate) fn flagged(waiting: Waiting, delivered_to: u64) -> Waiting {
    if waiting
        .iter()
        .next()
        .is_none_or(|first| first.serial > delivered_to)
    {
        return waiting;
    }
    let mut flagged = Waiting::default();
    for stored in waiting {
        let may_be_delivered = u16::from(stored.serial <= delivered_to);
        let deliveries = stored.deliveries.max(may_be_delivered);
        let _ = flagged.insert(Stored {
            deliveries,
            ..stored
        });
    }
    flagged
}

fn queue_terms(queue: &Queue) -> TermLines {
    let (terms, limits) = (&queue.terms, &queue.terms.limits);
    let mut lines = TermLines::default();
    lines.add("address", &terms.address);
    lines.add_number("auto-delete", terms.auto_delete);
    lines.add("delivered", &queue.mark.serial().to_string());
    let numbers = [
        ("ttl-ms", limits.message_ttl.map(Span::millis)),
        ("idle-ms", limits.idle_expiry.map(Span::millis)),
        ("messages", limits.messages_max),
        ("bytes", limits.bytes_max),
        ("deliveries", limits.deliveries_max.map(u64::from)),
        (
            "priority",
            (limits.priority_max > 0).then(|| u64::from(limits.priority_max)),
        ),
        (
            "overflow",
            (limits.overflow != QueueOverflow::DropHead).then_some(limits.overflow as u64),
        ),
        ("single", limits.single_active.then_some(1)),
        ("priority-shares", limits.priority_shares.then_some(1)),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            lines.add_number(name, number);
        }
    }
    if let Some(dead_letter) = &limits.dead_letter {
        lines.add("dead-letter", &dead_letter.exchange);
        if let Some(key) = &dead_letter.key {
            lines.add("dead-letter-key", key);
        }
    }
    if !limits.label.is_empty() {
        lines.add("label", &limits.label);
    }
    terms.made_by.write(&mut lines);
    lines
}

/// The terms of the queue of that number, the highest serial that may have been delivered (journals of earlier versions do not
/// say it, so all may), and who said where its dead letters go.
fn read_terms(text: &str, number: u64) -> (Terms, u64, StoredMaker) {
    let mut made_by = StoredMaker::default();
    let mut terms = Terms::plain("", number);
    let limits = &mut terms.limits;
    let mut delivered_to = u64::MAX;
    each_line(text, |name, value| {
        let number: Option<u64> = value.parse().ok();
        match name {
            "address" => terms.address = value.into(),
            "auto-delete" => terms.auto_delete = value == "1",
            "delivered" => delivered_to = number.unwrap_or(u64::MAX),
            "ttl-ms" => limits.message_ttl = number.map(Span::from_millis),
            "idle-ms" => limits.idle_expiry = number.map(Span::from_millis),
            "messages" => limits.messages_max = number,
            "bytes" => limits.bytes_max = number,
            "deliveries" => {
                limits.deliveries_max = number.and_then(|number| number.try_into().ok())
            }
            "priority" => {
                limits.priority_max = number
                    .and_then(|number| number.try_into().ok())
                    .unwrap_or(0)
            }
            "overflow" => {
                limits.overflow = match number {
                    Some(1) => QueueOverflow::RejectPublish,
                    Some(2) => QueueOverflow::RejectPublishDeadLetter,
                    _ => QueueOverflow::DropHead,
                }
            }
            "single" => limits.single_active = true,
            "priority-shares" => limits.priority_shares = true,
            "dead-letter" => {
                limits.dead_letter = Some(DeadLetter {
                    exchange: value.into(),
                    key: None,
                })
            }
            "dead-letter-key" => {
                if let Some(dead_letter) = &mut limits.dead_letter {
                    dead_letter.key = Some(value.into());
                }
            }
            // Journals of earlier versions name the kind that needs no name.
            "label" if value != "classic" => limits.label = value.into(),
            _ => made_by.read(name, &value),
        }
    });
    (terms, delivered_to, made_by)
}
