//! Written by `cargo xtask amqp-methods` from spec/amqp-0-9-1.toml: change that, not this.
//!
//! Class 30, `access`: realms of AMQP 0-8, which some clients still ask for and nobody uses.

use crate::codec::{Arguments, Malformed, MethodId, put_id, put_short, put_short_str};

/// `access.request`: ask for a ticket to a realm.
///
/// Sent by the client; answered by `access.request-ok`. An extension of RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request<'b> {
    /// Name of the realm.
    pub realm: &'b str,
    /// For this client alone.
    pub exclusive: bool,
    /// The right to declare passively.
    pub passive: bool,
    /// The right to declare.
    pub active: bool,
    /// The right to publish.
    pub write: bool,
    /// The right to consume.
    pub read: bool,
}

impl<'b> Request<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(30, 10);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let realm = a.short_str()?;
        let bits = a.bits()?;
        let exclusive = bits & 1 != 0;
        let passive = bits & 2 != 0;
        let active = bits & 4 != 0;
        let write = bits & 8 != 0;
        let read = bits & 16 != 0;
        Ok(Request {
            realm,
            exclusive,
            passive,
            active,
            write,
            read,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short_str(self.realm, out);
        out.push(
            u8::from(self.exclusive)
                | u8::from(self.passive) << 1
                | u8::from(self.active) << 2
                | u8::from(self.write) << 3
                | u8::from(self.read) << 4,
        );
    }
}

/// `access.request-ok`: grants a ticket, which nothing checks.
///
/// Sent by the server. An extension of RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestOk {
    /// Number that the client repeats in reserved fields.
    pub ticket: u16,
}

impl RequestOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(30, 11);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let ticket = a.short()?;
        Ok(RequestOk { ticket })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(self.ticket, out);
    }
}
