//! Queues: declare, bind, purge, delete.

use super::arguments::{self, Arguments};
use super::exchange::{is_reserved, not_default};
use super::fault::{Fault, argument_name};
use super::{Request, address};
use crate::address::{Place, place};
use std::borrow::Cow;
use thalweg_amqp::methods::queue::{
    Bind, BindOk, Declare, DeclareOk, Delete, DeleteOk, Purge, PurgeOk, Unbind, UnbindOk,
};
use thalweg_amqp::{Method, ReplyCode, Table};
use thalweg_kernel::{
    BindSpec, BindTo, Deleted, QueueLimits, QueueSpec, QueueStatus, Refusal, exchange_address,
    queue_address,
};
use thalweg_model::Span;

/// Names that the server makes up begin so.
const GENERATED: &str = "amq.gen-";

/// A purge of which so many messages are dropped, and so many not yet.
pub(super) struct Purging {
    count: u64,
    left: u64,
}

impl Request<'_, '_> {
    pub(super) fn declare_queue(&mut self, declare: &Declare<'_>) -> Result<(), Fault> {
        let queue = address::in_one_line(declare.queue);
        let declare = &Declare {
            queue: &queue,
            ..*declare
        };
        let (name, status) = if self.is_direct_reply(declare.queue) {
            (
                Cow::Borrowed(declare.queue),
                QueueStatus {
                    existed: true,
                    messages: 0,
                    consumers: 1,
                },
            )
        } else if declare.passive {
            let name = self.queue_name(declare.queue)?;
            let address = queue_address(self.tenant(), &name);
            let status = self.cx.kernel.inspect_queue(self.session, &address);
            let status =
                status.map_err(|refusal| self.about_queue(&name, "configure").fault(refusal))?;
            self.cx.kernel.note_queue_use(&address, self.cx.now);
            (name, status)
        } else {
            self.declare_new_queue(declare)?
        };
        if let Some(channel) = self.channel() {
            channel.queue_last = name.as_ref().into();
        }
        if !declare.no_wait {
            let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
            self.answer(&Method::QueueDeclareOk(DeclareOk {
                queue: &name,
                message_count: count(status.messages),
                consumer_count: status.consumers,
            }));
        }
        Ok(())
    }

    fn declare_new_queue<'d>(
        &mut self,
        declare: &Declare<'d>,
    ) -> Result<(Cow<'d, str>, QueueStatus), Fault> {
        let name = match declare.queue {
            "" => Cow::Owned(self.fresh_name(GENERATED)),
            name => Cow::Borrowed(name),
        };
        let address = queue_address(self.tenant(), &name);
        let is_there =
            || self.cx.kernel.inspect_queue(self.session, &address) != Err(Refusal::NoQueue);
        if is_reserved(declare.queue) && !is_there() {
            return Err(self
                .about_queue(&name, "configure")
                .fault(Refusal::Reserved));
        }
        let thing = self.about_queue(&name, "configure").thing();
        let arguments = Arguments {
            table: declare.arguments,
            thing: &thing,
        };
        arguments.check_quorum(declare.durable, declare.exclusive, declare.auto_delete)?;
        let spec = QueueSpec {
            address: &address,
            durable: declare.durable,
            exclusive: declare.exclusive,
            is_named_by_broker: declare.queue.is_empty(),
            auto_delete: declare.auto_delete,
            limits: arguments.queue_limits(self.tenant())?,
        };
        let declared =
            self.cx
                .kernel
                .declare_queue(self.session, &spec, self.cx.now, self.cx.links);
        let status = declared.map_err(|refusal| match refusal {
            Refusal::Differs("durable") => inequivalent_flag("durable", &thing, declare.durable),
            Refusal::Differs("exclusive") => {
                self.about_queue(&name, "configure").fault(Refusal::Locked)
            }
            Refusal::Differs("auto_delete") => {
                inequivalent_flag("auto_delete", &thing, declare.auto_delete)
            }
            Refusal::Differs(what) => {
                let current = self
                    .cx
                    .kernel
                    .queue_limits(&address)
                    .cloned()
                    .unwrap_or_default();
                inequivalent_term(what, &thing, &spec.limits, &current)
            }
            refusal => self.about_queue(&name, "configure").fault(refusal),
        })?;
        Ok((name, status))
    }

    pub(super) fn bind_queue(&mut self, bind: &Bind<'_>) -> Result<(), Fault> {
        self.relate_queue(
            bind.queue,
            bind.exchange,
            bind.routing_key,
            bind.arguments,
            true,
        )?;
        if !bind.no_wait {
            self.answer(&Method::QueueBindOk(BindOk));
        }
        Ok(())
    }

    pub(super) fn unbind_queue(&mut self, unbind: &Unbind<'_>) -> Result<(), Fault> {
        self.relate_queue(
            unbind.queue,
            unbind.exchange,
            unbind.routing_key,
            unbind.arguments,
            false,
        )?;
        self.answer(&Method::QueueUnbindOk(UnbindOk));
        Ok(())
    }

    fn relate_queue(
        &mut self,
        queue: &str,
        exchange: &str,
        key: &str,
        table: Table<'_>,
        bound: bool,
    ) -> Result<(), Fault> {
        let (queue, exchange) = (
            &*address::in_one_line(queue),
            &*address::in_one_line(exchange),
        );
        not_default(exchange)?;
        let name = self.queue_name(queue)?;
        // Nothing at all means the queue's name: the last one declared, by its own name.
        let key = if queue.is_empty() && key.is_empty() {
            Cow::Owned(name.to_string())
        } else {
            Cow::Borrowed(key)
        };
        let source = exchange_address(self.tenant(), exchange);
        let target = queue_address(self.tenant(), &name);
        let arguments = Arguments { table, thing: "" };
        arguments.check_rule()?;
        if bound {
            arguments.filter()?;
        }
        let wants_last_values = bound && arguments.wants_last_values();
        let arguments = arguments.neutral();
        let to_queue = BindTo::Queue(&target);
        let spec = BindSpec {
            exchange: &source,
            to: to_queue,
            key: &key,
            arguments: &arguments,
        };
        let mut done = self.set_binding(&spec, bound);
        if wants_last_values && done.is_ok() {
            done = self
                .cx
                .kernel
                .recall(self.session, &spec, self.cx.now, self.cx.links)
                .map(drop);
        }
        done.map_err(|refusal| match refusal {
            Refusal::NoExchange => self.about_exchange(exchange, "read").fault(refusal),
            refusal => self.about_queue(&name, "write").fault(refusal),
        })
    }

    pub(super) fn purge_queue(&mut self, purge: &Purge<'_>) -> Result<(), Fault> {
        let name = self.queue_name(purge.queue)?;
        let address = queue_address(self.tenant(), &name);
        let before = self.front().and_then(|front| front.purge.take());
        let left = before.as_ref().map(|before| before.left);
        let purged = self
            .cx
            .kernel
            .purge_queue(self.session, &address, left, self.cx.now, self.cx.links)
            .map_err(|refusal| self.about_queue(&name, "read").fault(refusal))?;
        let count = before.map_or(0, |before| before.count) + purged.count;
        if purged.left > 0 {
            let left = purged.left;
            self.is_in_part = true;
            if let Some(front) = self.front() {
                front.purge = Some(Box::new(Purging { count, left }));
            }
            return Ok(());
        }
        if !purge.no_wait {
            let message_count = u32::try_from(count).unwrap_or(u32::MAX);
            self.answer(&Method::QueuePurgeOk(PurgeOk { message_count }));
        }
        Ok(())
    }

    pub(super) fn delete_queue(&mut self, delete: &Delete<'_>) -> Result<(), Fault> {
        let queue = address::in_one_line(delete.queue);
        let name = self.queue_name(&queue)?;
        let address = queue_address(self.tenant(), &name);
        let Delete {
            if_unused,
            if_empty,
            ..
        } = *delete;
        let deleted = self.cx.kernel.delete_queue(
            self.session,
            &address,
            if_unused,
            if_empty,
            self.cx.now,
            self.cx.links,
        );
        let count = match deleted {
            Ok(Deleted::Gone(count)) => count,
            Ok(Deleted::InPart) => {
                self.is_in_part = true;
                return Ok(());
            }
            // What is not there needs no deleting.
            Err(Refusal::NoQueue) => 0,
            Err(refusal) => return Err(self.about_queue(&name, "configure").fault(refusal)),
        };
        if !delete.no_wait {
            let message_count = u32::try_from(count).unwrap_or(u32::MAX);
            self.answer(&Method::QueueDeleteOk(DeleteOk { message_count }));
        }
        Ok(())
    }

    /// The queue that is meant: an empty name is the last one that was declared on the channel.
    pub(super) fn queue_name<'n>(&mut self, name: &'n str) -> Result<Cow<'n, str>, Fault> {
        if !name.is_empty() {
            return Ok(Cow::Borrowed(name));
        }
        match self.channel() {
            Some(channel) if !channel.queue_last.is_empty() => {
                Ok(Cow::Owned(channel.queue_last.to_string()))
            }
            _ => Err(Fault::new(
                ReplyCode::NotFound,
                "no previously declared queue",
            )),
        }
    }

    /// Whether this is the pseudo queue, which exists for every connection, or the queue behind it of one client: a
    /// server may check whether its client still waits.
    fn is_direct_reply(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(address::DIRECT_REPLY) else {
            return false;
        };
        let is_there = || {
            self.cx
                .kernel
                .inspect_queue(self.session, &queue_address(self.tenant(), name))
        };
        rest.is_empty()
            || (rest.starts_with('.') && matches!(is_there(), Ok(_) | Err(Refusal::Locked)))
    }
}

/// What exists was declared with the other of two values.
pub(super) fn inequivalent_flag(what: &'static str, thing: &str, received: bool) -> Fault {
    let (name, current) = (argument_name(what), !received);
    Fault::precondition(format!(
        "inequivalent arg '{name}' for {thing}: received '{received}' but current is '{current}'"
    ))
}

/// What exists was declared with another argument.
fn inequivalent_term(
    what: &'static str,
    thing: &str,
    received: &QueueLimits,
    current: &QueueLimits,
) -> Fault {
    let name = argument_name(what);
    let whole = |value: &Option<String>| match value {
        None => "none".to_owned(),
        Some(value) => {
            let kind = if value.bytes().all(|byte| byte.is_ascii_digit()) {
                "signedint"
            } else {
                "longstr"
            };
            format!("the value '{value}' of type '{kind}'")
        }
    };
    let words = match (term(name, received), term(name, current)) {
        (Some(received), Some(current)) => {
            format!("received '{received}' but current is '{current}'")
        }
        (received, current) => format!(
            "received {} but current is {}",
            whole(&received),
            whole(&current)
        ),
    };
    Fault::precondition(format!("inequivalent arg '{name}' for {thing}: {words}"))
}

/// An argument's value, as it would have been said.
fn term(name: &str, limits: &QueueLimits) -> Option<String> {
    let millis = |span: Option<Span>| span.map(|span| (span.nanos() / 1_000_000).to_string());
    match name {
        "x-message-ttl" => millis(limits.message_ttl),
        "x-expires" => millis(limits.idle_expiry),
        "x-max-length" => limits.messages_max.map(|max| max.to_string()),
        "x-max-length-bytes" => limits.bytes_max.map(|max| max.to_string()),
        "x-overflow" => Some(arguments::overflow_name(limits.overflow).into()),
        "x-dead-letter-exchange" => {
            limits
                .dead_letter
                .as_ref()
                .map(|letter| match place(&letter.exchange) {
                    Place::Exchange { name, .. } => name.into_owned(),
                    _ => letter.exchange.to_string(),
                })
        }
        "x-dead-letter-routing-key" => limits.dead_letter.as_ref()?.key.as_deref().map(Into::into),
        "x-max-priority" => (limits.priority_max > 0).then(|| limits.priority_max.to_string()),
        "x-single-active-consumer" => Some(limits.single_active.to_string()),
        "x-delivery-limit" => limits.deliveries_max.map(|max| max.to_string()),
        "x-queue-type" => (!limits.label.is_empty()).then(|| limits.label.to_string()),
        _ => None,
    }
}
