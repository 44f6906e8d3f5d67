//! Written by `cargo xtask amqp-methods` from spec/amqp-0-9-1.toml: change that, not this.
//!
//! Class 85, `confirm`: publisher confirms, an extension of RabbitMQ.

use crate::codec::{Arguments, Malformed, MethodId, put_id};

/// `confirm.select`: confirm every publish on this channel from now on.
///
/// Sent by the client; answered by `confirm.select-ok`. An extension of RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// No answer is wanted.
    pub no_wait: bool,
}

impl Select {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(85, 10);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let bits = a.bits()?;
        let no_wait = bits & 1 != 0;
        Ok(Select { no_wait })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        out.push(u8::from(self.no_wait));
    }
}

/// `confirm.select-ok`: publishes on this channel are confirmed.
///
/// Sent by the server. An extension of RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectOk;

impl SelectOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(85, 11);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(SelectOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}
