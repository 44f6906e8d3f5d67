//! Written by `cargo xtask amqp-methods` from spec/amqp-0-9-1.toml: change that, not this.
//!
//! Class 60, `basic`: publishing, consuming and settling messages.

use crate::codec::{
    Arguments, Malformed, MethodId, Table, put_id, put_long, put_long_long, put_short,
    put_short_str, put_table,
};

/// `basic.qos`: how much may be under way unsettled.
///
/// Sent by the client; answered by `basic.qos-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    /// In bytes; 0: no limit.
    pub prefetch_size: u32,
    /// In messages; 0: no limit.
    pub prefetch_count: u16,
    /// For the whole channel, not for each new consumer.
    pub global: bool,
}

impl Qos {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 10);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let prefetch_size = a.long()?;
        let prefetch_count = a.short()?;
        let bits = a.bits()?;
        let global = bits & 1 != 0;
        Ok(Qos {
            prefetch_size,
            prefetch_count,
            global,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_long(self.prefetch_size, out);
        put_short(self.prefetch_count, out);
        out.push(u8::from(self.global));
    }
}

/// `basic.qos-ok`: the limits are in effect.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QosOk;

impl QosOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 11);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(QosOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `basic.consume`: have a queue's messages delivered.
///
/// Sent by the client; answered by `basic.consume-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consume<'b> {
    /// The queue; empty: the last one declared on the channel.
    pub queue: &'b str,
    /// Name of the consumer; empty: the server makes one up.
    pub consumer_tag: &'b str,
    /// Not what this connection published.
    pub no_local: bool,
    /// A delivery counts as settled when it is sent.
    pub no_ack: bool,
    /// Refuse other consumers of the queue.
    pub exclusive: bool,
    /// No answer is wanted.
    pub no_wait: bool,
    /// Optional arguments, such as `x-priority`.
    pub arguments: Table<'b>,
}

impl<'b> Consume<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 20);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        a.short()?;
        let queue = a.short_str()?;
        let consumer_tag = a.short_str()?;
        let bits = a.bits()?;
        let no_local = bits & 1 != 0;
        let no_ack = bits & 2 != 0;
        let exclusive = bits & 4 != 0;
        let no_wait = bits & 8 != 0;
        let arguments = a.table()?;
        Ok(Consume {
            queue,
            consumer_tag,
            no_local,
            no_ack,
            exclusive,
            no_wait,
            arguments,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(0, out);
        put_short_str(self.queue, out);
        put_short_str(self.consumer_tag, out);
        out.push(
            u8::from(self.no_local)
                | u8::from(self.no_ack) << 1
                | u8::from(self.exclusive) << 2
                | u8::from(self.no_wait) << 3,
        );
        put_table(self.arguments, out);
    }
}

/// `basic.consume-ok`: the consumer exists; deliveries may follow.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumeOk<'b> {
    /// Name of the consumer.
    pub consumer_tag: &'b str,
}

impl<'b> ConsumeOk<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 21);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let consumer_tag = a.short_str()?;
        Ok(ConsumeOk { consumer_tag })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short_str(self.consumer_tag, out);
    }
}

/// `basic.cancel`: end a consumer; RabbitMQ's servers send it too, when the queue is gone.
///
/// Sent by either side; answered by `basic.cancel-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cancel<'b> {
    /// Name of the consumer.
    pub consumer_tag: &'b str,
    /// No answer is wanted.
    pub no_wait: bool,
}

impl<'b> Cancel<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 30);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let consumer_tag = a.short_str()?;
        let bits = a.bits()?;
        let no_wait = bits & 1 != 0;
        Ok(Cancel {
            consumer_tag,
            no_wait,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short_str(self.consumer_tag, out);
        out.push(u8::from(self.no_wait));
    }
}

/// `basic.cancel-ok`: the consumer is gone.
///
/// Sent by either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CancelOk<'b> {
    /// Name of the consumer.
    pub consumer_tag: &'b str,
}

impl<'b> CancelOk<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 31);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let consumer_tag = a.short_str()?;
        Ok(CancelOk { consumer_tag })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short_str(self.consumer_tag, out);
    }
}

/// `basic.publish`: a message for an exchange.
///
/// Sent by the client, with content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Publish<'b> {
    /// The exchange; empty: the default one, which routes by queue name.
    pub exchange: &'b str,
    /// What the exchange routes by.
    pub routing_key: &'b str,
    /// Return it if no queue takes it.
    pub mandatory: bool,
    /// Return it if no consumer takes it at once.
    pub immediate: bool,
}

impl<'b> Publish<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 40);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        a.short()?;
        let exchange = a.short_str()?;
        let routing_key = a.short_str()?;
        let bits = a.bits()?;
        let mandatory = bits & 1 != 0;
        let immediate = bits & 2 != 0;
        Ok(Publish {
            exchange,
            routing_key,
            mandatory,
            immediate,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(0, out);
        put_short_str(self.exchange, out);
        put_short_str(self.routing_key, out);
        out.push(u8::from(self.mandatory) | u8::from(self.immediate) << 1);
    }
}

/// `basic.return`: a message that nobody took comes back.
///
/// Sent by the server, with content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Return<'b> {
    /// Why, as a number.
    pub reply_code: u16,
    /// Cause in words, for people.
    pub reply_text: &'b str,
    /// Where it was published to.
    pub exchange: &'b str,
    /// With which routing key.
    pub routing_key: &'b str,
}

impl<'b> Return<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 50);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let reply_code = a.short()?;
        let reply_text = a.short_str()?;
        let exchange = a.short_str()?;
        let routing_key = a.short_str()?;
        Ok(Return {
            reply_code,
            reply_text,
            exchange,
            routing_key,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(self.reply_code, out);
        put_short_str(self.reply_text, out);
        put_short_str(self.exchange, out);
        put_short_str(self.routing_key, out);
    }
}

/// `basic.deliver`: a message for a consumer.
///
/// Sent by the server, with content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deliver<'b> {
    /// The consumer that receives it.
    pub consumer_tag: &'b str,
    /// Number by which it is settled, from 1 in each channel.
    pub delivery_tag: u64,
    /// It may have been delivered before.
    pub redelivered: bool,
    /// Where it was published to.
    pub exchange: &'b str,
    /// With which routing key.
    pub routing_key: &'b str,
}

impl<'b> Deliver<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 60);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let consumer_tag = a.short_str()?;
        let delivery_tag = a.long_long()?;
        let bits = a.bits()?;
        let redelivered = bits & 1 != 0;
        let exchange = a.short_str()?;
        let routing_key = a.short_str()?;
        Ok(Deliver {
            consumer_tag,
            delivery_tag,
            redelivered,
            exchange,
            routing_key,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short_str(self.consumer_tag, out);
        put_long_long(self.delivery_tag, out);
        out.push(u8::from(self.redelivered));
        put_short_str(self.exchange, out);
        put_short_str(self.routing_key, out);
    }
}

/// `basic.get`: one message, if there is one.
///
/// Sent by the client; answered by `basic.get-ok` or `basic.get-empty`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Get<'b> {
    /// The queue; empty: the last one declared on the channel.
    pub queue: &'b str,
    /// It counts as settled when it is sent.
    pub no_ack: bool,
}

impl<'b> Get<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 70);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        a.short()?;
        let queue = a.short_str()?;
        let bits = a.bits()?;
        let no_ack = bits & 1 != 0;
        Ok(Get { queue, no_ack })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(0, out);
        put_short_str(self.queue, out);
        out.push(u8::from(self.no_ack));
    }
}

/// `basic.get-ok`: the message asked for.
///
/// Sent by the server, with content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetOk<'b> {
    /// Number by which it is settled, from 1 in each channel.
    pub delivery_tag: u64,
    /// It may have been delivered before.
    pub redelivered: bool,
    /// Where it was published to.
    pub exchange: &'b str,
    /// With which routing key.
    pub routing_key: &'b str,
    /// Messages that are left.
    pub message_count: u32,
}

impl<'b> GetOk<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 71);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let delivery_tag = a.long_long()?;
        let bits = a.bits()?;
        let redelivered = bits & 1 != 0;
        let exchange = a.short_str()?;
        let routing_key = a.short_str()?;
        let message_count = a.long()?;
        Ok(GetOk {
            delivery_tag,
            redelivered,
            exchange,
            routing_key,
            message_count,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_long_long(self.delivery_tag, out);
        out.push(u8::from(self.redelivered));
        put_short_str(self.exchange, out);
        put_short_str(self.routing_key, out);
        put_long(self.message_count, out);
    }
}

/// `basic.get-empty`: the queue has no message.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetEmpty;

impl GetEmpty {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 72);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        a.short_str()?;
        Ok(GetEmpty)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short_str("", out);
    }
}

/// `basic.ack`: settled; from a server: a publish is confirmed.
///
/// Sent by either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// The delivery to reject; 0 with `multiple`: all so far.
    pub delivery_tag: u64,
    /// All up to it.
    pub multiple: bool,
}

impl Ack {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 80);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let delivery_tag = a.long_long()?;
        let bits = a.bits()?;
        let multiple = bits & 1 != 0;
        Ok(Ack {
            delivery_tag,
            multiple,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_long_long(self.delivery_tag, out);
        out.push(u8::from(self.multiple));
    }
}

/// `basic.reject`: reject a delivery: requeue or drop it.
///
/// Sent by the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reject {
    /// The delivery to reject.
    pub delivery_tag: u64,
    /// Back into the queue, not dropped.
    pub requeue: bool,
}

impl Reject {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 90);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let delivery_tag = a.long_long()?;
        let bits = a.bits()?;
        let requeue = bits & 1 != 0;
        Ok(Reject {
            delivery_tag,
            requeue,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_long_long(self.delivery_tag, out);
        out.push(u8::from(self.requeue));
    }
}

/// `basic.recover-async`: have everything unsettled delivered again; no answer.
///
/// Sent by the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoverAsync {
    /// To whomever, not to this client.
    pub requeue: bool,
}

impl RecoverAsync {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 100);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let bits = a.bits()?;
        let requeue = bits & 1 != 0;
        Ok(RecoverAsync { requeue })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        out.push(u8::from(self.requeue));
    }
}

/// `basic.recover`: have everything unsettled delivered again.
///
/// Sent by the client; answered by `basic.recover-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recover {
    /// To whomever, not to this client.
    pub requeue: bool,
}

impl Recover {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 110);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let bits = a.bits()?;
        let requeue = bits & 1 != 0;
        Ok(Recover { requeue })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        out.push(u8::from(self.requeue));
    }
}

/// `basic.recover-ok`: unsettled deliveries are being redelivered.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoverOk;

impl RecoverOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 111);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(RecoverOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `basic.nack`: not taken; from a server: a publish is lost.
///
/// Sent by either side. An extension of RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nack {
    /// The delivery to reject; 0 with `multiple`: all so far.
    pub delivery_tag: u64,
    /// All up to it.
    pub multiple: bool,
    /// Back into the queue, not dropped.
    pub requeue: bool,
}

impl Nack {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(60, 120);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let delivery_tag = a.long_long()?;
        let bits = a.bits()?;
        let multiple = bits & 1 != 0;
        let requeue = bits & 2 != 0;
        Ok(Nack {
            delivery_tag,
            multiple,
            requeue,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_long_long(self.delivery_tag, out);
        out.push(u8::from(self.multiple) | u8::from(self.requeue) << 1);
    }
}
