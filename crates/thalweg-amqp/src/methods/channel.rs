//! Written by `cargo xtask amqp-methods` from spec/amqp-0-9-1.toml: change that, not this.
//!
//! Class 20, `channel`: one conversation within a connection.

use crate::codec::{
    Arguments, Malformed, MethodId, put_id, put_long_str, put_short, put_short_str,
};

/// `channel.open`: begin a channel with this number.
///
/// Sent by the client; answered by `channel.open-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open;

impl Open {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(20, 10);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        a.short_str()?;
        Ok(Open)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short_str("", out);
    }
}

/// `channel.open-ok`: the channel can be used.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOk;

impl OpenOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(20, 11);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        a.long_str()?;
        Ok(OpenOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_long_str(b"", out);
    }
}

/// `channel.flow`: pause or resume content.
///
/// Sent by either side; answered by `channel.flow-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Whether content may flow.
    pub active: bool,
}

impl Flow {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(20, 20);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let bits = a.bits()?;
        let active = bits & 1 != 0;
        Ok(Flow { active })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        out.push(u8::from(self.active));
    }
}

/// `channel.flow-ok`: the flow is as asked.
///
/// Sent by either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowOk {
    /// Whether content may be sent.
    pub active: bool,
}

impl FlowOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(20, 21);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let bits = a.bits()?;
        let active = bits & 1 != 0;
        Ok(FlowOk { active })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        out.push(u8::from(self.active));
    }
}

/// `channel.close`: end the channel; the connection goes on.
///
/// Sent by either side; answered by `channel.close-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Close<'b> {
    /// Why, as a number.
    pub reply_code: u16,
    /// Cause in words, for people.
    pub reply_text: &'b str,
    /// Class of the method at fault; 0: none.
    pub class_id: u16,
    /// Method at fault; 0: none.
    pub method_id: u16,
}

impl<'b> Close<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(20, 40);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let reply_code = a.short()?;
        let reply_text = a.short_str()?;
        let class_id = a.short()?;
        let method_id = a.short()?;
        Ok(Close {
            reply_code,
            reply_text,
            class_id,
            method_id,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(self.reply_code, out);
        put_short_str(self.reply_text, out);
        put_short(self.class_id, out);
        put_short(self.method_id, out);
    }
}

/// `channel.close-ok`: the end of the channel is confirmed; its number is free.
///
/// Sent by either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloseOk;

impl CloseOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(20, 41);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(CloseOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}
