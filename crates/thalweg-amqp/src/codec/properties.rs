//! The properties of a message (§4.2.6.1): sixteen flags, then the properties whose flags are set.

use super::arguments::{Arguments, put_short_bytes};
use super::{Malformed, Table, put_long_long, put_octet, put_short, put_short_str, put_table};

/// The properties of a message.
///
/// Strings longer than 255 bytes are cut when they are encoded: the wire has one byte for their length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicProperties<'b> {
    /// MIME type of the body.
    pub content_type: Option<&'b str>,
    /// MIME content encoding of the body.
    pub content_encoding: Option<&'b str>,
    /// The application's own headers.
    pub headers: Option<Table<'b>>,
    /// 1: transient, 2: persistent.
    pub delivery_mode: Option<u8>,
    /// 0 to 9, and up to 255 with RabbitMQ.
    pub priority: Option<u8>,
    /// Correlation id, which a reply repeats. Bytes: clients put raw identifiers here.
    pub correlation_id: Option<&'b [u8]>,
    /// Where replies go, by convention a queue's name.
    pub reply_to: Option<&'b str>,
    /// Lifespan of the message: milliseconds as decimal text.
    pub expiration: Option<&'b str>,
    /// The application's name for the message.
    pub message_id: Option<&'b str>,
    /// When the message was made, in seconds since 1970.
    pub timestamp: Option<u64>,
    /// The application's kind of message; `type` on paper.
    pub kind: Option<&'b str>,
    /// User id of the publisher; RabbitMQ checks it against the login.
    pub user_id: Option<&'b str>,
    /// Name of the publishing application; not verified.
    pub app_id: Option<&'b str>,
    /// Reserved; `cluster-id` in AMQP 0-8.
    pub cluster_id: Option<&'b str>,
}

const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const HEADERS: u16 = 1 << 13;
const DELIVERY_MODE: u16 = 1 << 12;
const PRIORITY: u16 = 1 << 11;
const CORRELATION_ID: u16 = 1 << 10;
const REPLY_TO: u16 = 1 << 9;
const EXPIRATION: u16 = 1 << 8;
const MESSAGE_ID: u16 = 1 << 7;
const TIMESTAMP: u16 = 1 << 6;
const KIND: u16 = 1 << 5;
const USER_ID: u16 = 1 << 4;
const APP_ID: u16 = 1 << 3;
const CLUSTER_ID: u16 = 1 << 2;
/// One is reserved, the other says that more flags follow, of which class `basic` has none.
const UNDEFINED: u16 = 0b11;

impl<'b> BasicProperties<'b> {
    /// The properties of a content header as it was received (`Event::Publish::header`).
    pub fn of_header(header: &'b [u8]) -> Result<Self, Malformed> {
        super::HeaderStart::split(header)
            .ok_or(Malformed::Truncated)?
            .properties()
    }

    #[inline]
    pub(crate) fn decode(bytes: &'b [u8]) -> Result<Self, Malformed> {
        let mut p = BasicProperties::default();
        p.fill(bytes)?;
        Ok(p)
    }

    /// As [`BasicProperties::decode`], where they will stay: they are too large to be moved about. Empty before.
    #[inline]
    pub(crate) fn fill(&mut self, bytes: &'b [u8]) -> Result<(), Malformed> {
        let mut arguments = Arguments::new(bytes);
        let a = &mut arguments;
        let flags = a.short()?;
        if flags & CONTENT_TYPE != 0 {
            self.content_type = Some(a.short_str()?);
        }
        if flags & CONTENT_ENCODING != 0 {
            self.content_encoding = Some(a.short_str()?);
        }
        if flags & HEADERS != 0 {
            self.headers = Some(a.table()?);
        }
        if flags & DELIVERY_MODE != 0 {
            self.delivery_mode = Some(a.octet()?);
        }
        if flags & PRIORITY != 0 {
            self.priority = Some(a.octet()?);
        }
        // The rest is rare; one test passes it by.
        if flags & !(CONTENT_TYPE | CONTENT_ENCODING | HEADERS | DELIVERY_MODE | PRIORITY) != 0 {
            self.decode_rest(flags, a)?;
        }
        a.end()
    }

    fn decode_rest(&mut self, flags: u16, a: &mut Arguments<'b>) -> Result<(), Malformed> {
        if flags & UNDEFINED != 0 {
            return Err(Malformed::PropertyFlags);
        }
        if flags & CORRELATION_ID != 0 {
            self.correlation_id = Some(a.short_bytes()?);
        }
        if flags & REPLY_TO != 0 {
            self.reply_to = Some(a.short_str()?);
        }
        if flags & EXPIRATION != 0 {
            self.expiration = Some(a.short_str()?);
        }
        if flags & MESSAGE_ID != 0 {
            self.message_id = Some(a.short_str()?);
        }
        if flags & TIMESTAMP != 0 {
            self.timestamp = Some(a.long_long()?);
        }
        if flags & KIND != 0 {
            self.kind = Some(a.short_str()?);
        }
        if flags & USER_ID != 0 {
            self.user_id = Some(a.short_str()?);
        }
        if flags & APP_ID != 0 {
            self.app_id = Some(a.short_str()?);
        }
        if flags & CLUSTER_ID != 0 {
            self.cluster_id = Some(a.short_str()?);
        }
        Ok(())
    }

    /// Appends flags and properties.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        let flags = flag(self.content_type.is_some(), CONTENT_TYPE)
            | flag(self.content_encoding.is_some(), CONTENT_ENCODING)
            | flag(self.headers.is_some(), HEADERS)
            | flag(self.delivery_mode.is_some(), DELIVERY_MODE)
            | flag(self.priority.is_some(), PRIORITY)
            | flag(self.correlation_id.is_some(), CORRELATION_ID)
            | flag(self.reply_to.is_some(), REPLY_TO)
            | flag(self.expiration.is_some(), EXPIRATION)
            | flag(self.message_id.is_some(), MESSAGE_ID)
            | flag(self.timestamp.is_some(), TIMESTAMP)
            | flag(self.kind.is_some(), KIND)
            | flag(self.user_id.is_some(), USER_ID)
            | flag(self.app_id.is_some(), APP_ID)
            | flag(self.cluster_id.is_some(), CLUSTER_ID);
        put_short(flags, out);
        let text = |value: Option<&str>, out: &mut Vec<u8>| {
            if let Some(value) = value {
                put_short_str(value, out);
            }
        };
        text(self.content_type, out);
        text(self.content_encoding, out);
        if let Some(headers) = self.headers {
            put_table(headers, out);
        }
        if let Some(mode) = self.delivery_mode {
            put_octet(mode, out);
        }
        if let Some(priority) = self.priority {
            put_octet(priority, out);
        }
        if let Some(id) = self.correlation_id {
            put_short_bytes(id, out);
        }
        text(self.reply_to, out);
        text(self.expiration, out);
        text(self.message_id, out);
        if let Some(timestamp) = self.timestamp {
            put_long_long(timestamp, out);
        }
        text(self.kind, out);
        text(self.user_id, out);
        text(self.app_id, out);
        text(self.cluster_id, out);
    }
}
