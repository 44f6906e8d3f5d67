//! `basic.consume`, `get`, `cancel` and `qos`: taking from queues.

use super::arguments::{self, Arguments};
use super::channel::{Channel, Consumer};
use super::fault::Fault;
use super::{AmqpFront, Request, address};
use crate::address::{DOTTED, in_tenant};
use std::borrow::Cow;
use std::sync::Arc;
use thalweg_amqp::methods::basic::{
    Cancel, CancelOk, Consume, ConsumeOk, Get, GetEmpty, Qos, QosOk,
};
use thalweg_amqp::{Method, ReplyCode};
use thalweg_kernel::{ConsumeSpec, QueueLimits, QueueSpec, Refusal, queue_address};

/// Tags that the server makes up begin so.
const GENERATED: &str = "amq.ctag-";

impl Request<'_, '_> {
    pub(super) fn qos(&mut self, qos: Qos) -> Result<(), Fault> {
        if qos.prefetch_size != 0 {
            let what = format!("prefetch_size!=0 ({})", qos.prefetch_size);
            return Err(Fault::new(ReplyCode::NotImplemented, what));
        }
        if qos.global {
            // As RabbitMQ reads it: for all consumers of the channel together.
            let max = u32::from(qos.prefetch_count);
            self.cx
                .kernel
                .set_line_credit(self.session, self.ch, max, self.cx.now, self.cx.links);
        } else if let Some(channel) = self.channel() {
            // For each consumer that begins from now on.
            channel.prefetch = qos.prefetch_count;
        }
        self.answer(&Method::BasicQosOk(QosOk));
        Ok(())
    }

    pub(super) fn consume(&mut self, consume: &Consume<'_>) -> Result<(), Fault> {
        let name = self.queue_name(consume.queue)?;
        let tag: Cow<'_, str> = match consume.consumer_tag {
            "" => Cow::Owned(self.fresh_name(GENERATED)),
            tag => Cow::Borrowed(tag),
        };
        let Some(consumers_max) = self.front().map(|front| front.settings.consumers_max) else {
            return Ok(());
        };
        let Some(channel) = self.channel() else {
            return Ok(());
        };
        if channel
            .consumers
            .iter()
            .any(|consumer| *consumer.tag == *tag)
        {
            return Err(Fault::new(
                ReplyCode::NotAllowed,
                format!("attempt to reuse consumer tag '{tag}'"),
            ));
        }
        if channel.consumers.len() >= consumers_max {
            return Err(Fault::precondition(format!(
                "a channel has at most {consumers_max} consumers"
            )));
        }
        if !self
            .cx
            .links
            .may_keep(self.cx.id, Consumer::bytes(&tag), self.cx.kernel)
        {
            return Err(self.about_queue(&name, "read").fault(Refusal::Short));
        }
        let thing = self.about_queue(&name, "read").thing();
        let arguments = Arguments {
            table: consume.arguments,
            thing: &thing,
        };
        let filter = arguments.selector()?.map(Arc::new);
        let priority = arguments.consumer_priority()?;
        let reply_queue = if name == address::DIRECT_REPLY {
            Some(self.reply_queue(consume)?)
        } else {
            None
        };
        let source = if let Some(queue) = &reply_queue {
            queue_address(self.tenant(), queue)
        } else {
            address::group_source(self.tenant(), &name)
                .unwrap_or_else(|| queue_address(self.tenant(), &name))
        };
        // `basic.consume-ok` is written before the first message, and withdrawn if there is no consumer after all.
        let counts = self.counts(&source);
        let Some(number) = self.add_consumer(&tag, counts) else {
            return Ok(());
        };
        if let (Some(queue), Some(channel)) = (reply_queue, self.channel()) {
            channel.reply = Some((queue.into(), number));
        }
        let before = self
            .cx
            .links
            .get(self.cx.id)
            .map_or(0, |link| link.output().len());
        if !consume.no_wait {
            self.answer(&Method::BasicConsumeOk(ConsumeOk { consumer_tag: &tag }));
        }
        let credit = self
            .channel()
            .map_or(0, |channel| u32::from(channel.prefetch));
        let spec = ConsumeSpec {
            source: &source,
            line: self.ch,
            consumer: number,
            credit,
            settles: !consume.no_ack,
            exclusive: consume.exclusive,
            priority,
            no_local: consume.no_local,
            filter,
        };
        self.cx
            .kernel
            .consume(self.session, &spec, self.cx.now, self.cx.links)
            .map_err(|refusal| {
                self.cx.links.take_back(self.cx.id, before);
                if let Some(channel) = self.channel() {
                    channel.remove_consumer(number);
                }
                AmqpFront::count_kept(self.cx);
                match refusal {
                    Refusal::InUse => Fault::new(
                        ReplyCode::AccessRefused,
                        format!("{thing} in exclusive use"),
                    ),
                    refusal => self.about_queue(&name, "read").fault(refusal),
                }
            })
    }

    /// Whether a queue's deliveries tell how often there were some before: quorum queues' do.
    fn counts(&self, address: &str) -> bool {
        self.cx
            .kernel
            .queue_limits(address)
            .is_some_and(|limits| &*limits.label == arguments::QUORUM)
    }

    fn add_consumer(&mut self, tag: &str, counts: bool) -> Option<u32> {
        let channel = self.channel()?;
        // Numbers rise, so that they can be searched; four thousand million consumers are more than a channel sees.
        channel.consumer_last = channel.consumer_last.checked_add(1)?;
        let number = channel.consumer_last;
        channel.consumers.push(Consumer {
            number,
            tag: tag.into(),
            counts,
        });
        channel.consumer_bytes += Consumer::bytes(tag);
        AmqpFront::count_kept(self.cx);
        Some(number)
    }

    /// Makes the queue of a channel's replies, which ends with its consumer.
    fn reply_queue(&mut self, consume: &Consume<'_>) -> Result<String, Fault> {
        if !consume.no_ack {
            return Err(Fault::precondition("reply consumer cannot acknowledge"));
        }
        if self
            .channel()
            .is_some_and(|channel| channel.reply.is_some())
        {
            return Err(Fault::precondition("reply consumer already set"));
        }
        let name = self.fresh_name(&format!("{}.", address::DIRECT_REPLY));
        let address = queue_address(self.tenant(), &name);
        let limits = QueueLimits::default();
        let spec = QueueSpec {
            address: &address,
            durable: false,
            exclusive: true,
            is_named_by_broker: true,
            auto_delete: true,
            limits,
        };
        let declared =
            self.cx
                .kernel
                .declare_queue(self.session, &spec, self.cx.now, self.cx.links);
        declared.map_err(|refusal| self.about_queue(&name, "configure").fault(refusal))?;
        Ok(name)
    }

    pub(super) fn cancel(&mut self, cancel: &Cancel<'_>) -> Result<(), Fault> {
        if let Some(number) = self
            .channel()
            .and_then(|channel| channel.number_of(cancel.consumer_tag))
        {
            self.cx
                .kernel
                .cancel(self.session, self.ch, number, self.cx.now, self.cx.links);
            if let Some(channel) = self.channel() {
                channel.remove_consumer(number);
            }
            AmqpFront::count_kept(self.cx);
        }
        if !cancel.no_wait {
            let consumer_tag = cancel.consumer_tag;
            self.answer(&Method::BasicCancelOk(CancelOk { consumer_tag }));
        }
        Ok(())
    }

    pub(super) fn get(&mut self, get: &Get<'_>) -> Result<(), Fault> {
        if let Some(key) = get.queue.strip_prefix(LAST_VALUES) {
            return self.get_last_value(get.queue, key);
        }
        let name = self.queue_name(get.queue)?;
        let address = queue_address(self.tenant(), &name);
        let counts = self.counts(&address);
        if let Some(channel) = self.channel() {
            channel.get_counts = counts;
        }
        // The message itself is written during the call, see `deliver`.
        let taken = self.cx.kernel.take_one(
            self.session,
            self.ch,
            &address,
            !get.no_ack,
            self.cx.now,
            self.cx.links,
        );
        match taken {
            Ok(Some(_)) => {}
            Ok(None) => self.answer(&Method::BasicGetEmpty(GetEmpty)),
            Err(Refusal::InUse) => {
                let thing = self.about_queue(&name, "read").thing();
                return Err(Fault::new(
                    ReplyCode::AccessRefused,
                    format!("{thing} in exclusive use"),
                ));
            }
            Err(refusal) => return Err(self.about_queue(&name, "read").fault(refusal)),
        }
        Ok(())
    }
}

impl Request<'_, '_> {
    /// What was retained last under a key of the exchange of topics: as if a queue held it, from which it is never taken. A
    /// publish and its value may be on different shards, so the answer may come later.
    fn get_last_value(&mut self, queue: &str, key: &str) -> Result<(), Fault> {
        let mut address = String::new();
        in_tenant(self.tenant(), "", &mut address);
        DOTTED.read_address(key, &mut address);
        let Some(channel) = self.channel() else {
            return Ok(());
        };
        channel.reads += 1;
        let ticket = self.ch;
        if self.cx.kernel.read_last_value(
            self.session,
            self.cx.id,
            ticket,
            &address,
            self.cx.now,
            self.cx.links,
        ) {
            return Ok(());
        }
        if let Some(channel) = self.channel() {
            channel.reads -= 1;
        }
        Err(self.about_queue(queue, "read").fault(Refusal::Denied))
    }
}

/// Begins the names by which last values are asked for, with `basic.get`; a key of the exchange of topics follows.
const LAST_VALUES: &str = "$last/";

impl Channel {
    fn number_of(&self, tag: &str) -> Option<u32> {
        self.consumers
            .iter()
            .find(|consumer| *consumer.tag == *tag)
            .map(|consumer| consumer.number)
    }
}
