//! Written by `cargo xtask amqp-methods` from spec/amqp-0-9-1.toml: change that, not this.
//!
//! Class 50, `queue`: queues, where messages wait.

use crate::codec::{
    Arguments, Malformed, MethodId, Table, put_id, put_long, put_short, put_short_str, put_table,
};

/// `queue.declare`: make sure that a queue exists.
///
/// Sent by the client; answered by `queue.declare-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declare<'b> {
    /// Name of the queue; empty: the server makes one up.
    pub queue: &'b str,
    /// Only ask whether it exists.
    pub passive: bool,
    /// It survives a restart.
    pub durable: bool,
    /// For this connection alone, and gone with it.
    pub exclusive: bool,
    /// It goes with its last consumer.
    pub auto_delete: bool,
    /// No answer is wanted.
    pub no_wait: bool,
    /// Optional arguments, such as `x-message-ttl`.
    pub arguments: Table<'b>,
}

impl<'b> Declare<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(50, 10);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        a.short()?;
        let queue = a.short_str()?;
        let bits = a.bits()?;
        let passive = bits & 1 != 0;
        let durable = bits & 2 != 0;
        let exclusive = bits & 4 != 0;
        let auto_delete = bits & 8 != 0;
        let no_wait = bits & 16 != 0;
        let arguments = a.table()?;
        Ok(Declare {
            queue,
            passive,
            durable,
            exclusive,
            auto_delete,
            no_wait,
            arguments,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(0, out);
        put_short_str(self.queue, out);
        out.push(
            u8::from(self.passive)
                | u8::from(self.durable) << 1
                | u8::from(self.exclusive) << 2
                | u8::from(self.auto_delete) << 3
                | u8::from(self.no_wait) << 4,
        );
        put_table(self.arguments, out);
    }
}

/// `queue.declare-ok`: the queue exists as declared.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeclareOk<'b> {
    /// Name of the queue.
    pub queue: &'b str,
    /// Messages that are ready.
    pub message_count: u32,
    /// Number of its consumers.
    pub consumer_count: u32,
}

impl<'b> DeclareOk<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(50, 11);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let queue = a.short_str()?;
        let message_count = a.long()?;
        let consumer_count = a.long()?;
        Ok(DeclareOk {
            queue,
            message_count,
            consumer_count,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short_str(self.queue, out);
        put_long(self.message_count, out);
        put_long(self.consumer_count, out);
    }
}

/// `queue.bind`: let an exchange feed a queue.
///
/// Sent by the client; answered by `queue.bind-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bind<'b> {
    /// The queue; empty: the last one declared on the channel.
    pub queue: &'b str,
    /// Name of the exchange.
    pub exchange: &'b str,
    /// The binding key, matched as the exchange's type says.
    pub routing_key: &'b str,
    /// No answer is wanted.
    pub no_wait: bool,
    /// Which messages, for exchanges that match headers.
    pub arguments: Table<'b>,
}

impl<'b> Bind<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(50, 20);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        a.short()?;
        let queue = a.short_str()?;
        let exchange = a.short_str()?;
        let routing_key = a.short_str()?;
        let bits = a.bits()?;
        let no_wait = bits & 1 != 0;
        let arguments = a.table()?;
        Ok(Bind {
            queue,
            exchange,
            routing_key,
            no_wait,
            arguments,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(0, out);
        put_short_str(self.queue, out);
        put_short_str(self.exchange, out);
        put_short_str(self.routing_key, out);
        out.push(u8::from(self.no_wait));
        put_table(self.arguments, out);
    }
}

/// `queue.bind-ok`: the binding is in effect.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindOk;

impl BindOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(50, 21);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(BindOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `queue.purge`: drop the messages that are ready.
///
/// Sent by the client; answered by `queue.purge-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purge<'b> {
    /// The queue; empty: the last one declared on the channel.
    pub queue: &'b str,
    /// No answer is wanted.
    pub no_wait: bool,
}

impl<'b> Purge<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(50, 30);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        a.short()?;
        let queue = a.short_str()?;
        let bits = a.bits()?;
        let no_wait = bits & 1 != 0;
        Ok(Purge { queue, no_wait })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(0, out);
        put_short_str(self.queue, out);
        out.push(u8::from(self.no_wait));
    }
}

/// `queue.purge-ok`: the messages are gone.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeOk {
    /// Number of messages removed.
    pub message_count: u32,
}

impl PurgeOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(50, 31);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let message_count = a.long()?;
        Ok(PurgeOk { message_count })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_long(self.message_count, out);
    }
}

/// `queue.delete`: remove a queue with its messages.
///
/// Sent by the client; answered by `queue.delete-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delete<'b> {
    /// The queue; empty: the last one declared on the channel.
    pub queue: &'b str,
    /// Only if it has no consumers.
    pub if_unused: bool,
    /// Only if it has no messages.
    pub if_empty: bool,
    /// No answer is wanted.
    pub no_wait: bool,
}

impl<'b> Delete<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(50, 40);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        a.short()?;
        let queue = a.short_str()?;
        let bits = a.bits()?;
        let if_unused = bits & 1 != 0;
        let if_empty = bits & 2 != 0;
        let no_wait = bits & 4 != 0;
        Ok(Delete {
            queue,
            if_unused,
            if_empty,
            no_wait,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(0, out);
        put_short_str(self.queue, out);
        out.push(
            u8::from(self.if_unused) | u8::from(self.if_empty) << 1 | u8::from(self.no_wait) << 2,
        );
    }
}

/// `queue.delete-ok`: the queue is gone.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteOk {
    /// How many messages went with it.
    pub message_count: u32,
}

impl DeleteOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(50, 41);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let message_count = a.long()?;
        Ok(DeleteOk { message_count })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_long(self.message_count, out);
    }
}

/// `queue.unbind`: remove a binding of a queue.
///
/// Sent by the client; answered by `queue.unbind-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unbind<'b> {
    /// The queue; empty: the last one declared on the channel.
    pub queue: &'b str,
    /// Name of the exchange.
    pub exchange: &'b str,
    /// That of the binding.
    pub routing_key: &'b str,
    /// Those of the binding.
    pub arguments: Table<'b>,
}

impl<'b> Unbind<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(50, 50);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        a.short()?;
        let queue = a.short_str()?;
        let exchange = a.short_str()?;
        let routing_key = a.short_str()?;
        let arguments = a.table()?;
        Ok(Unbind {
            queue,
            exchange,
            routing_key,
            arguments,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(0, out);
        put_short_str(self.queue, out);
        put_short_str(self.exchange, out);
        put_short_str(self.routing_key, out);
        put_table(self.arguments, out);
    }
}

/// `queue.unbind-ok`: the binding is gone.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnbindOk;

impl UnbindOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(50, 51);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(UnbindOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}
