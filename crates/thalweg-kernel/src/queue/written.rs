//! Queues, exchanges and bindings in the journal.
//!
//! There each is a group: a number, a name and a filter. The name says what it is, and no group that sessions share can
//! have it, because such names hold no `/`. The filter is a text of lines: the address first, then one term a line.
//! What waits in a queue are the group's entries.

use super::binding::To;
use super::declare::NewQueue;
use super::delivered::Mark;
use super::exchange::Exchange;
use super::maker::StoredMaker;
use super::spec::{DeadLetter, ExchangeKind, QueueLimits, QueueOverflow};
use super::{Item, Queue};
use crate::Kernel;
use crate::access::Access;
use crate::effects::Safety;
use crate::ids::{BindingId, QueueId};
use crate::ledger::DropReason;
use std::fmt::Write;
use thalweg_model::syntax::ONE_LINE;
use thalweg_model::{Message, PropertyValue, Span, Time};
use thalweg_records::{Stored, StoredGroup, Waiting};

const QUEUE: &str = "/queue";
const EXCHANGE: &str = "/exchange";
const BINDING: &str = "/binding";

/// What one of them is, by its name in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoredTerms {
    /// Restored first: bindings need both ends.
    Exchange,
    Queue,
    Binding,
}

impl StoredTerms {
    /// Nothing if it is a group that sessions share, or something else.
    pub(crate) fn of(group: &StoredGroup) -> Option<Self> {
        match &*group.name {
            QUEUE => Some(StoredTerms::Queue),
            EXCHANGE => Some(StoredTerms::Exchange),
            BINDING => Some(StoredTerms::Binding),
            _ => None,
        }
    }
}

/// A text of lines.
#[derive(Default)]
pub(super) struct Lines(String);

impl Lines {
    pub(super) fn add(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(name);
        self.0.push('=');
        ONE_LINE.write(value, &mut self.0);
    }

    fn add_number(&mut self, name: &str, value: impl Into<u64>) {
        let mut text = String::new();
        let _ = write!(text, "{}", value.into());
        self.add(name, &text);
    }
}

/// Shows `f` name and value of each line.
fn each_line(text: &str, mut f: impl FnMut(&str, String)) {
    for line in text.split('\n') {
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let mut read = String::new();
        ONE_LINE.read(value, &mut read);
        f(name, read);
    }
}

impl Kernel {
    pub(super) fn persist_queue(&mut self, queue_id: QueueId, safety: Safety) {
        let Some(queue) = self.queues.get(queue_id) else {
            return;
        };
        let terms = queue_terms(queue);
        self.journal
            .write_group(queue.number, QUEUE, &terms, safety);
    }

    pub(super) fn persist_exchange(&mut self, address: &str, exchange: &Exchange, safety: Safety) {
        let mut lines = Lines::default();
        lines.add("address", address);
        lines.add_number("kind", exchange.kind as u8);
        lines.add_number("auto-delete", exchange.auto_delete);
        lines.add_number("internal", exchange.internal);
        if let Some(alternate) = &exchange.alternate {
            lines.add("alternate", alternate);
        }
        exchange.made_by.write(&mut lines);
        self.journal
            .write_group(exchange.number, EXCHANGE, &lines.0, safety);
    }

    pub(super) fn persist_binding(&mut self, index: BindingId, safety: Safety) {
        let Some(binding) = self.binding(index) else {
            return;
        };
        let mut lines = Lines::default();
        lines.add("address", &binding.exchange);
        match &binding.to {
            To::Queue(queue) => {
                let Some(queue) = self.queues.get(*queue) else {
                    return;
                };
                lines.add("queue", &queue.address);
            }
            To::Exchange(address) => lines.add("exchange", address),
        }
        lines.add("key", &binding.key);
        binding.made_by.write(&mut lines);
        for (name, value) in &binding.arguments {
            lines.add("name", name);
            match value {
                PropertyValue::Nothing => lines.add("nothing", ""),
                PropertyValue::Text(text) => lines.add("text", text),
                PropertyValue::Bool(truth) => lines.add_number("bool", *truth),
                PropertyValue::Integer(number) => lines.add("integer", &number.to_string()),
                PropertyValue::Float(number) => lines.add_number("float", number.to_bits()),
                PropertyValue::Bytes(bytes) => {
                    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    lines.add("bytes", &hex);
                }
            }
        }
        self.journal
            .write_group(binding.number, BINDING, &lines.0, safety);
    }

    /// One of them is gone, and what it held.
    pub(super) fn persist_ended(&mut self, number: u64) {
        if number != 0 {
            let safety = self.env.limits().safety;
            self.journal.end_group(number, safety);
        }
    }

    // --- a new process

    /// Takes up what an earlier run left of a queue, exchange or binding.
    pub(crate) fn restore_terms(
        &mut self,
        number: u64,
        stored: StoredGroup,
        read: &mut dyn FnMut(u64, u32) -> Option<Message>,
        access: &dyn Fn(&str, Option<&str>) -> Access,
        now: Time,
    ) {
        match StoredTerms::of(&stored) {
            Some(StoredTerms::Exchange) => self.restore_exchange(number, &stored.filter, access),
            Some(StoredTerms::Queue) => self.restore_queue(number, stored, read, access, now),
            Some(StoredTerms::Binding)
                if self
                    .restore_binding(number, &stored.filter, access)
                    .is_none() =>
            {
                // One of its ends is gone; the record that says so was lost with the machine.
                self.persist_ended(number);
            }
            Some(StoredTerms::Binding) | None => {}
        }
    }

    fn restore_exchange(
        &mut self,
        number: u64,
        text: &str,
        access: &dyn Fn(&str, Option<&str>) -> Access,
    ) {
        let mut made_by = StoredMaker::default();
        let mut exchange = Exchange {
            number,
            ..Exchange::predeclared(ExchangeKind::Direct)
        };
        let mut address = String::new();
        each_line(text, |name, value| match name {
            "address" => address = value,
            "kind" => exchange.kind = kind_of(&value),
            "auto-delete" => exchange.auto_delete = value == "1",
            "internal" => exchange.internal = value == "1",
            "alternate" => exchange.alternate = Some(value.into()),
            _ => made_by.read(name, &value),
        });
        exchange.made_by = made_by.compile(access);
        self.add_exchange(&address, exchange);
    }

    fn restore_queue(
        &mut self,
        number: u64,
        stored: StoredGroup,
        read: &mut dyn FnMut(u64, u32) -> Option<Message>,
        access: &dyn Fn(&str, Option<&str>) -> Access,
        now: Time,
    ) {
        let (address, auto_delete, limits, delivered_to, made_by) =
            read_queue_terms(&stored.filter);
        let ttl = limits.message_ttl;
        let idle = limits.idle_expiry;
        let new = NewQueue {
            address: &address,
            number,
            durable: true,
            auto_delete,
            owner: None,
            limits,
        };
        let queue_id = self.add_queue(new, now);
        self.set_queues_maker(queue_id, made_by.compile(access));
        self.books.restored(stored.waiting.len());
        // What comes from now on has not been delivered.
        let serial_last = self.journal.serial_last();
        if let Some(queue) = self.queues.get_mut(queue_id).filter(|_| delivered_to > 0) {
            queue.mark = Mark::restored(delivered_to.min(serial_last));
            self.persist_queue(queue_id, Safety::Lazy);
        }
        let waiting = match self.restore_deep(queue_id, flagged(stored.waiting, delivered_to)) {
            Ok(()) => return self.after_restore(queue_id, idle, now),
            Err(waiting) => waiting,
        };
        for Stored {
            serial,
            place,
            len,
            deliveries,
            ..
        } in waiting
        {
            let Some(message) = read(place, len) else {
                self.book_drop(None, "", DropReason::Unreadable);
                self.journal.remove(number, serial, Safety::Lazy);
                continue;
            };
            self.books.restored_address(message.address());
            let ingress = message.ingress();
            let expires = message
                .expires()
                .min(ttl.map_or(Time::NEVER, |ttl| ingress + ttl));
            let Some(queue) = self.queues.get_mut(queue_id) else {
                return;
            };
            let order = queue.backlog.next_order();
            let delta = queue.backlog.insert(Item {
                order,
                expires,
                ..Item::new(message, serial, deliveries)
            });
            self.books.entered(delta);
        }
        self.after_restore(queue_id, idle, now);
    }

    fn after_restore(&mut self, queue_id: QueueId, idle: Option<Span>, now: Time) {
        if let Some(idle) = idle {
            self.agenda
                .set_timer(now + idle, crate::timers::TimerKey::QueueIdle(queue_id));
        }
        self.watch_expiry(queue_id);
    }

    fn restore_binding(
        &mut self,
        number: u64,
        text: &str,
        access: &dyn Fn(&str, Option<&str>) -> Access,
    ) -> Option<()> {
        let mut made_by = StoredMaker::default();
        let (mut exchange, mut key, mut to_queue, mut to_exchange) =
            (String::new(), String::new(), None, None);
        let mut arguments: Vec<(Box<str>, PropertyValue)> = Vec::new();
        each_line(text, |name, value| {
            let mut argument = |value: PropertyValue| {
                if let Some(last) = arguments.last_mut() {
                    last.1 = value;
                }
            };
            match name {
                "address" => exchange = value,
                "key" => key = value,
                "queue" => to_queue = Some(value),
                "exchange" => to_exchange = Some(value),
                "text" => argument(PropertyValue::Text(value.into())),
                "bool" => argument(PropertyValue::Bool(value == "1")),
                "integer" => argument(PropertyValue::Integer(value.parse().unwrap_or(0))),
                "float" => argument(PropertyValue::Float(f64::from_bits(
                    value.parse().unwrap_or(0),
                ))),
                "bytes" => argument(PropertyValue::Bytes(from_hex(&value))),
                "name" => arguments.push((value.into(), PropertyValue::Nothing)),
                _ => made_by.read(name, &value),
            }
        });
        let to = match (to_queue, to_exchange) {
            (Some(address), _) => To::Queue(self.queues.find(&address)?),
            (None, Some(address)) => {
                self.exchange_kind(&address)?;
                To::Exchange(address.into())
            }
            (None, None) => return None,
        };
        let (kind, _) = self.exchange_kind(&exchange)?;
        let index = self.add_binding(&exchange, kind, to, &key, &arguments, number);
        self.set_bindings_maker(index, made_by.compile(access));
        Some(())
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

fn queue_terms(queue: &Queue) -> String {
    let limits = &queue.limits;
    let mut lines = Lines::default();
    lines.add("address", &queue.address);
    lines.add_number("auto-delete", queue.auto_delete);
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
    queue.made_by.write(&mut lines);
    lines.0
}

/// Address, whether it ends with its last consumer, limits, the highest serial that may have been delivered (journals of
/// earlier versions do not say it, so all may), and who said where its dead letters go.
fn read_queue_terms(text: &str) -> (String, bool, QueueLimits, u64, StoredMaker) {
    let mut made_by = StoredMaker::default();
    let (mut address, mut auto_delete, mut limits) = (String::new(), false, QueueLimits::default());
    let mut delivered_to = u64::MAX;
    each_line(text, |name, value| {
        let number: Option<u64> = value.parse().ok();
        match name {
            "address" => address = value,
            "auto-delete" => auto_delete = value == "1",
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
    (address, auto_delete, limits, delivered_to, made_by)
}

fn kind_of(number: &str) -> ExchangeKind {
    let kinds = [
        ExchangeKind::Direct,
        ExchangeKind::Fanout,
        ExchangeKind::Topic,
        ExchangeKind::Headers,
    ];
    number
        .parse()
        .ok()
        .and_then(|number: usize| kinds.get(number))
        .copied()
        .unwrap_or(ExchangeKind::Direct)
}

pub(super) fn from_hex(text: &str) -> Box<[u8]> {
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        std::str::from_utf8(pair)
            .ok()
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    pairs.iter().filter_map(byte).collect()
}
