//! How both ends write: methods, content, and the words of a close.

use crate::codec::frame::{self, put_frame, put_whole};
use crate::codec::{put_id, put_long_long};
use crate::methods::{Method, ReplyCode, basic, channel, connection};
use crate::{MethodId, PeerFault};

/// Appends a method frame.
#[inline]
pub(crate) fn put_method(channel: u16, method: &Method<'_>, out: &mut Vec<u8>) {
    put_frame(frame::METHOD, channel, out, |out| method.encode(out));
}

/// Appends `basic.ack`.
#[inline]
pub(crate) fn put_ack(channel: u16, delivery_tag: u64, multiple: bool, out: &mut Vec<u8>) {
    put_frame(frame::METHOD, channel, out, |out| {
        put_id(basic::Ack::ID, out);
        put_long_long(delivery_tag, out);
        out.push(multiple.into());
    });
}

/// Appends `connection.close`.
pub(crate) fn put_connection_close(
    code: ReplyCode,
    what: &str,
    cause: MethodId,
    out: &mut Vec<u8>,
) {
    let text = reply_text(code, what);
    let (reply_code, class_id, method_id) = (code.code(), cause.class, cause.method);
    let close = connection::Close {
        reply_code,
        reply_text: &text,
        class_id,
        method_id,
    };
    put_method(0, &Method::ConnectionClose(close), out);
}

/// Appends `channel.close`.
pub(crate) fn put_channel_close(
    number: u16,
    code: ReplyCode,
    what: &str,
    cause: MethodId,
    out: &mut Vec<u8>,
) {
    let text = reply_text(code, what);
    let (reply_code, class_id, method_id) = (code.code(), cause.class, cause.method);
    let close = channel::Close {
        reply_code,
        reply_text: &text,
        class_id,
        method_id,
    };
    put_method(number, &Method::ChannelClose(close), out);
}

pub(crate) fn put_heartbeat(out: &mut Vec<u8>) {
    put_whole(frame::HEARTBEAT, 0, &[], out);
}

/// RabbitMQ's form, which clients show and tests look for: the name of the code, a dash, the words.
pub(crate) fn reply_text(code: ReplyCode, what: &str) -> String {
    match code {
        ReplyCode::ReplySuccess => what.to_owned(),
        _ => format!("{} - {what}", code.name()),
    }
}

impl PeerFault {
    /// What the peer is told: the name of the code, a dash, the words.
    pub fn reply_text(&self) -> String {
        reply_text(self.code, &self.what)
    }
}
