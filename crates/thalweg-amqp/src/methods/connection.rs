//! Written by `cargo xtask amqp-methods` from spec/amqp-0-9-1.toml: change that, not this.
//!
//! Class 10, `connection`: the connection itself; always on channel 0.

use std::fmt;

use crate::codec::{
    Arguments, Malformed, MethodId, Table, put_id, put_long, put_long_str, put_octet, put_short,
    put_short_str, put_table,
};

/// `connection.start`: who the server is and how one may authenticate.
///
/// Sent by the server; answered by `connection.start-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start<'b> {
    /// 0.
    pub version_major: u8,
    /// 9.
    pub version_minor: u8,
    /// Name, version and capabilities of the server.
    pub server_properties: Table<'b>,
    /// SASL mechanisms, separated by spaces.
    pub mechanisms: &'b [u8],
    /// Locales, separated by spaces.
    pub locales: &'b [u8],
}

impl<'b> Start<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 10);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let version_major = a.octet()?;
        let version_minor = a.octet()?;
        let server_properties = a.table()?;
        let mechanisms = a.long_str()?;
        let locales = a.long_str()?;
        Ok(Start {
            version_major,
            version_minor,
            server_properties,
            mechanisms,
            locales,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_octet(self.version_major, out);
        put_octet(self.version_minor, out);
        put_table(self.server_properties, out);
        put_long_str(self.mechanisms, out);
        put_long_str(self.locales, out);
    }
}

/// `connection.start-ok`: who the client is, and its credentials.
///
/// Sent by the client.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct StartOk<'b> {
    /// Name, version and capabilities of the client.
    pub client_properties: Table<'b>,
    /// The chosen SASL mechanism.
    pub mechanism: &'b str,
    /// What the mechanism says first.
    pub response: &'b [u8],
    /// One of the locales that the server offered.
    pub locale: &'b str,
}

impl<'b> StartOk<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 11);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let client_properties = a.table()?;
        let mechanism = a.short_str()?;
        let response = a.long_str()?;
        let locale = a.short_str()?;
        Ok(StartOk {
            client_properties,
            mechanism,
            response,
            locale,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_table(self.client_properties, out);
        put_short_str(self.mechanism, out);
        put_long_str(self.response, out);
        put_short_str(self.locale, out);
    }
}

impl fmt::Debug for StartOk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartOk")
            .field("client_properties", &self.client_properties)
            .field("mechanism", &self.mechanism)
            .field("response", &format_args!("[{} bytes]", self.response.len()))
            .field("locale", &self.locale)
            .finish()
    }
}

/// `connection.secure`: another step of the SASL mechanism.
///
/// Sent by the server; answered by `connection.secure-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Secure<'b> {
    /// What the mechanism asks.
    pub challenge: &'b [u8],
}

impl<'b> Secure<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 20);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let challenge = a.long_str()?;
        Ok(Secure { challenge })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_long_str(self.challenge, out);
    }
}

/// `connection.secure-ok`: the client's next step of the SASL mechanism.
///
/// Sent by the client.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SecureOk<'b> {
    /// What the mechanism answers.
    pub response: &'b [u8],
}

impl<'b> SecureOk<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 21);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let response = a.long_str()?;
        Ok(SecureOk { response })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_long_str(self.response, out);
    }
}

impl fmt::Debug for SecureOk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecureOk")
            .field("response", &format_args!("[{} bytes]", self.response.len()))
            .finish()
    }
}

/// `connection.tune`: the limits that the server offers.
///
/// Sent by the server; answered by `connection.tune-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tune {
    /// Highest channel number; 0: no limit.
    pub channel_max: u16,
    /// Largest frame in bytes, its eight bytes of overhead included; 0: no limit.
    pub frame_max: u32,
    /// Seconds of silence that are suspicious; 0: none.
    pub heartbeat: u16,
}

impl Tune {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 30);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let channel_max = a.short()?;
        let frame_max = a.long()?;
        let heartbeat = a.short()?;
        Ok(Tune {
            channel_max,
            frame_max,
            heartbeat,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(self.channel_max, out);
        put_long(self.frame_max, out);
        put_short(self.heartbeat, out);
    }
}

/// `connection.tune-ok`: the limits that hold.
///
/// Sent by the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TuneOk {
    /// Highest channel number; 0: no limit.
    pub channel_max: u16,
    /// Largest frame in bytes, its eight bytes of overhead included; 0: no limit.
    pub frame_max: u32,
    /// Seconds of silence that are suspicious; 0: none.
    pub heartbeat: u16,
}

impl TuneOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 31);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        let channel_max = a.short()?;
        let frame_max = a.long()?;
        let heartbeat = a.short()?;
        Ok(TuneOk {
            channel_max,
            frame_max,
            heartbeat,
        })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short(self.channel_max, out);
        put_long(self.frame_max, out);
        put_short(self.heartbeat, out);
    }
}

/// `connection.open`: enter a virtual host.
///
/// Sent by the client; answered by `connection.open-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open<'b> {
    /// Name of the virtual host.
    pub virtual_host: &'b str,
}

impl<'b> Open<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 40);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let virtual_host = a.short_str()?;
        a.short_str()?;
        a.bits()?;
        Ok(Open { virtual_host })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short_str(self.virtual_host, out);
        put_short_str("", out);
        out.push(0);
    }
}

/// `connection.open-ok`: the connection can be used.
///
/// Sent by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOk;

impl OpenOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 41);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'_>) -> Result<Self, Malformed> {
        a.short_str()?;
        Ok(OpenOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short_str("", out);
    }
}

/// `connection.close`: end the connection and all its channels.
///
/// Sent by either side; answered by `connection.close-ok`.
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
    pub const ID: MethodId = MethodId::new(10, 50);

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

/// `connection.close-ok`: the end is confirmed; the socket can be closed.
///
/// Sent by either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloseOk;

impl CloseOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 51);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(CloseOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `connection.blocked`: publishing is held back.
///
/// Sent by the server. An extension of RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocked<'b> {
    /// What the server is short of.
    pub reason: &'b str,
}

impl<'b> Blocked<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 60);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let reason = a.short_str()?;
        Ok(Blocked { reason })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_short_str(self.reason, out);
    }
}

/// `connection.unblocked`: publishes are accepted again.
///
/// Sent by the server. An extension of RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unblocked;

impl Unblocked {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 61);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(Unblocked)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}

/// `connection.update-secret`: credentials that replace those which expire.
///
/// Sent by the client; answered by `connection.update-secret-ok`. An extension of RabbitMQ.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct UpdateSecret<'b> {
    /// The new secret, in the form of the mechanism.
    pub new_secret: &'b [u8],
    /// Cause in words, for logs.
    pub reason: &'b str,
}

impl<'b> UpdateSecret<'b> {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 70);

    #[inline]
    pub(crate) fn decode(a: &mut Arguments<'b>) -> Result<Self, Malformed> {
        let new_secret = a.long_str()?;
        let reason = a.short_str()?;
        Ok(UpdateSecret { new_secret, reason })
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
        put_long_str(self.new_secret, out);
        put_short_str(self.reason, out);
    }
}

impl fmt::Debug for UpdateSecret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateSecret")
            .field(
                "new_secret",
                &format_args!("[{} bytes]", self.new_secret.len()),
            )
            .field("reason", &self.reason)
            .finish()
    }
}

/// `connection.update-secret-ok`: the new credentials hold.
///
/// Sent by the server. An extension of RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateSecretOk;

impl UpdateSecretOk {
    /// Class and method id.
    pub const ID: MethodId = MethodId::new(10, 71);

    #[inline]
    pub(crate) fn decode(_: &mut Arguments<'_>) -> Result<Self, Malformed> {
        Ok(UpdateSecretOk)
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_id(Self::ID, out);
    }
}
