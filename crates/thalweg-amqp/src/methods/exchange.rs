//! Written by `cargo xtask amqp-methods` from spec/amqp-0-9-1.toml: change that, not this.
//!
//! Class 40, `exchange`: where messages are published to.

use crate::codec::{
    Arguments, Malformed, MethodId, Table, put_id, put_short, put_short_str, put_table,
};

/// `exchange.declare`: make sure that an exchange exists.
///
/// Sent by the client; answered by `exchange.declare-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declare<'b> {
    /// Name of the exchange.
    pub exchange: &'b str,
    /// Direct, fanout, topic, headers.
    pub kind: &'b str,
    /// Only ask whether it exists.
    pub passive: bool,
    /// It survives a restart.
    pub durable: bool,
    /// It goes with its last binding.
    pub auto_delete: bool,
    /// Nobody may publish to it.
    pub internal: bool,
    /// No answer is wanted.
    pub no_wait: bool,
    /// Optional arguments, such as `alternate-exchange`.
    pub arguments: Table<'b>,
}

impl<'b> Declare<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(40, 10);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        a.short()?;
        let exchange = a.short_str()?;
        let kind = a.short_str()?;
        let bits = a.bits()?;
        let passive = bits & 1 != 0;
        let durable = bits & 2 != 0;
        let auto_delete = bits & 4 != 0;
        let internal = bits & 8 != 0;
        let no_wait = bits & 16 != 0;
        let arguments = a.table()?;
        Ok(Declare {
            exchange,
            kind,
            passive,
            durable,
            auto_delete,
            internal,
            no_wait,
            arguments,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(0, out);
        put_short_str(self.exchange, out);
        put_short_str(self.kind, out);
        out.push(
            u8::from(self.passive)
                | u8::from(self.durable) << 1
                | u8::from(self.auto_delete) << 2
                | u8::from(self.internal) << 3
                | u8::from(self.no_wait) << 4,
        );
        put_table(self.arguments, out);
    }
}

/// `exchange.declare-ok`: the exchange exists as declared.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeclareOk;

impl DeclareOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(40, 11);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(DeclareOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `exchange.delete`: remove an exchange and its bindings.
///
/// Sent by the client; answered by `exchange.delete-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delete<'b> {
    /// Name of the exchange.
    pub exchange: &'b str,
    /// Only if it has no bindings.
    pub if_unused: bool,
    /// No answer is wanted.
    pub no_wait: bool,
}

impl<'b> Delete<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(40, 20);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        a.short()?;
        let exchange = a.short_str()?;
        let bits = a.bits()?;
        let if_unused = bits & 1 != 0;
        let no_wait = bits & 2 != 0;
        Ok(Delete {
            exchange,
            if_unused,
            no_wait,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(0, out);
        put_short_str(self.exchange, out);
        out.push(u8::from(self.if_unused) | u8::from(self.no_wait) << 1);
    }
}

/// `exchange.delete-ok`: the exchange is gone.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteOk;

impl DeleteOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(40, 21);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(DeleteOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `exchange.bind`: let one exchange feed another.
///
/// Sent by the client; answered by `exchange.bind-ok`. An extension of RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bind<'b> {
    /// The exchange that receives.
    pub destination: &'b str,
    /// The exchange that feeds it.
    pub source: &'b str,
    /// The binding key, matched as the exchange's type says.
    pub routing_key: &'b str,
    /// No answer is wanted.
    pub no_wait: bool,
    /// Which messages, for exchanges that match headers.
    pub arguments: Table<'b>,
}

impl<'b> Bind<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(40, 30);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        a.short()?;
        let destination = a.short_str()?;
        let source = a.short_str()?;
        let routing_key = a.short_str()?;
        let bits = a.bits()?;
        let no_wait = bits & 1 != 0;
        let arguments = a.table()?;
        Ok(Bind {
            destination,
            source,
            routing_key,
            no_wait,
            arguments,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(0, out);
        put_short_str(self.destination, out);
        put_short_str(self.source, out);
        put_short_str(self.routing_key, out);
        out.push(u8::from(self.no_wait));
        put_table(self.arguments, out);
    }
}

/// `exchange.bind-ok`: the binding is in effect.
///
/// Sent by the server. An extension of RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindOk;

impl BindOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(40, 31);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(BindOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `exchange.unbind`: remove a binding between exchanges.
///
/// Sent by the client; answered by `exchange.unbind-ok`. An extension of RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unbind<'b> {
    /// The exchange that receives.
    pub destination: &'b str,
    /// The exchange that feeds it.
    pub source: &'b str,
    /// That of the binding.
    pub routing_key: &'b str,
    /// No answer is wanted.
    pub no_wait: bool,
    /// Those of the binding.
    pub arguments: Table<'b>,
}

impl<'b> Unbind<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(40, 40);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        a.short()?;
        let destination = a.short_str()?;
        let source = a.short_str()?;
        let routing_key = a.short_str()?;
        let bits = a.bits()?;
        let no_wait = bits & 1 != 0;
        let arguments = a.table()?;
        Ok(Unbind {
            destination,
            source,
            routing_key,
            no_wait,
            arguments,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(0, out);
        put_short_str(self.destination, out);
        put_short_str(self.source, out);
        put_short_str(self.routing_key, out);
        out.push(u8::from(self.no_wait));
        put_table(self.arguments, out);
    }
}

/// `exchange.unbind-ok`: the binding is gone.
///
/// Sent by the server. An extension of RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnbindOk;

impl UnbindOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(40, 51);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(UnbindOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}
