//! Effects of the kernel as methods: messages out of queues, consumers that end, connections that end.

use super::properties::Outgoing;
use super::{AmqpFront, State};
use crate::front::{ConsumerFate, Fate, Outbound, Undelivered};
use thalweg_amqp::methods::basic;
use thalweg_amqp::{Method, MethodId, ReplyCode, TooLarge};
use thalweg_kernel::{Answer, CloseReason, ConsumerEnd, Content, Delivery, Recipient, Ticket};
use thalweg_model::Message;

/// What a last value has in place of a delivery's number: more than a channel will ever deliver.
const NO_DELIVERY: u64 = 1 << 62;

impl Outbound for AmqpFront {
    #[inline]
    fn deliver(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Undelivered> {
        self.write_message(content, delivery, out)
            .map_err(|_| Undelivered::TooLarge)
    }

    /// It asks for nothing but last values: queues are bound.
    fn answer(&mut self, ch: Ticket, answer: Answer<'_>, out: &mut Vec<u8>) {
        if let Answer::Value(value) = answer {
            self.last_value_read(ch, value, out);
        }
    }

    fn consumer_ended(&mut self, ch: u16, ended: ConsumerEnd, out: &mut Vec<u8>) -> ConsumerFate {
        let number = match ended {
            ConsumerEnd::QueueGone(number) => number,
            ConsumerEnd::NothingCame => {
                // A `basic.get` had to wait for the disk, and what came had expired.
                self.machine
                    .method(ch, &Method::BasicGetEmpty(basic::GetEmpty), out);
                return ConsumerFate::Said;
            }
            ConsumerEnd::Stalled => {
                self.close_stalled(ch, out);
                return ConsumerFate::Said;
            }
        };
        let Some(consumer) = self
            .channels
            .get_mut(ch)
            .and_then(|channel| channel.remove_consumer(number))
        else {
            return ConsumerFate::Unsaid;
        };
        if self.capabilities.consumer_cancel_notify {
            let cancel = basic::Cancel {
                consumer_tag: &consumer.tag,
                no_wait: true,
            };
            self.machine.method(ch, &Method::BasicCancel(cancel), out);
        }
        ConsumerFate::Said
    }

    fn disconnect(&mut self, why: CloseReason, out: &mut Vec<u8>) -> Fate {
        let (code, what) = match why {
            CloseReason::ShuttingDown => (
                ReplyCode::ConnectionForced,
                "broker forced connection closure with reason 'shutdown'",
            ),
            CloseReason::Kicked => (
                ReplyCode::ConnectionForced,
                "an operator has closed the connection",
            ),
            CloseReason::TakenOver => (
                ReplyCode::ConnectionForced,
                "another connection has the same name",
            ),
            CloseReason::NotAuthorized => (
                ReplyCode::NotAllowed,
                "the credentials are not valid any more",
            ),
            CloseReason::QueueFull => (
                ReplyCode::ResourceError,
                "too much waits for this connection",
            ),
            CloseReason::Stalled => (
                ReplyCode::ResourceError,
                "deliveries were not acknowledged in time and go to other consumers",
            ),
            CloseReason::Buffers => (
                ReplyCode::ResourceError,
                "memory for buffers is short and this connection's are the largest",
            ),
        };
        self.machine.close(code, what, MethodId::NONE, out);
        self.state = State::Closed;
        self.channels.clear();
        Fate::LinkEnds
    }

    /// The peer is gone: nothing is sent.
    fn on_silence(&mut self, _: &mut Vec<u8>) {
        if self.state != State::Closing {
            self.fault = Some("the peer is at fault: it missed two heartbeats".into());
        }
        self.state = State::Closed;
    }

    fn on_idle(&mut self, out: &mut Vec<u8>) {
        self.machine.heartbeat(out);
    }

    fn on_blocked(&mut self, why: Option<&str>, out: &mut Vec<u8>) {
        match why {
            Some(_) => self.tell_blocked(why, out),
            None if self.capabilities.blocked => self.machine.unblocked(out),
            None => {}
        }
    }
}

impl AmqpFront {
    #[inline]
    fn write_message(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), TooLarge> {
        let (ch, consumer) = match delivery.to {
            Recipient::Consumer { line, number } => (line, Some(number)),
            Recipient::Get { line } => (line, None),
            Recipient::Subscriber => return Ok(()),
        };
        if !content.is_at(&self.origin.address) {
            self.origin.set(content.address());
        }
        let (exchange, routing_key) = (self.origin.exchange.as_str(), self.origin.key.as_str());
        let Some(channel) = self.channels.get_mut(ch) else {
            return Ok(());
        };
        // The kernel delivers nothing to a consumer that has ended.
        let consumer = consumer.map(|number| channel.consumer(number));
        let counts = match consumer {
            None => channel.get_counts,
            Some(consumer) => consumer.is_some_and(|consumer| consumer.counts),
        };
        let outgoing = Outgoing {
            content,
            expires_in: delivery.expires_in,
            deliveries: if counts { delivery.deliveries } else { 0 },
            cut_address: self.origin.is_cut.then(|| content.address()),
        };
        let (delivery_tag, redelivered) = (delivery.tag, delivery.deliveries > 0);
        let machine = &mut self.machine;
        let Some(consumer) = consumer else {
            let message_count = u32::try_from(delivery.left).unwrap_or(u32::MAX);
            let get_ok = basic::GetOk {
                delivery_tag,
                redelivered,
                exchange,
                routing_key,
                message_count,
            };
            return outgoing
                .with_header(|header| machine.get_ok(ch, &get_ok, header, content.payload(), out));
        };
        let Some(consumer) = consumer else {
            return Ok(());
        };
        let deliver = basic::Deliver {
            consumer_tag: &consumer.tag,
            delivery_tag,
            redelivered,
            exchange,
            routing_key,
        };
        outgoing.with_header(|header| machine.deliver(ch, &deliver, header, content.payload(), out))
    }

    /// The answer to a `basic.get` for a last value.
    fn last_value_read(&mut self, ch: u16, value: Option<&Message>, out: &mut Vec<u8>) {
        // Or the channel has been closed meanwhile.
        let Some(channel) = self
            .channels
            .get_mut(ch)
            .filter(|channel| channel.reads > 0)
        else {
            return;
        };
        channel.reads -= 1;
        channel.get_counts = false;
        let before = out.len();
        let is_written = value.is_some_and(|value| {
            let delivery = Delivery {
                tag: NO_DELIVERY,
                ..Delivery::unsettled(Recipient::Get { line: ch }, value.reliability())
            };
            self.write_message(&Content::Kept(value, None), &delivery, out)
                .is_ok()
        });
        if !is_written {
            out.truncate(before);
            self.machine
                .method(ch, &Method::BasicGetEmpty(basic::GetEmpty), out);
        }
    }

    /// A channel's consumers have not acknowledged in time; the connection and its other channels go on.
    fn close_stalled(&mut self, ch: u16, out: &mut Vec<u8>) {
        let what = "deliveries were not acknowledged in time and go to other consumers";
        self.machine
            .channel_close(ch, ReplyCode::PreconditionFailed, what, MethodId::NONE, out);
        self.channels.remove(ch);
    }
}
