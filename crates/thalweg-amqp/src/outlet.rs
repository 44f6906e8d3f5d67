//! Output of both ends: methods, content, and close methods.

use crate::codec::frame::{self, put_frame, put_whole};
use crate::codec::{fitting, put_id, put_long_long};
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

/// Appends `basic.deliver` as [`basic::Deliver::encode`] would. Each message is sent with one, so what stands between its
/// texts is put together before it is appended.
#[inline]
pub(crate) fn put_deliver(channel: u16, deliver: &basic::Deliver<'_>, out: &mut Vec<u8>) {
    let (consumer, exchange, key) = (
        fitting(deliver.consumer_tag),
        fitting(deliver.exchange),
        fitting(deliver.routing_key),
    );
    let size = 16 + consumer.len() + exchange.len() + key.len();
    let [c1, c2] = channel.to_be_bytes();
    let [s1, s2, s3, s4] = (size as u32).to_be_bytes();
    let [i1, i2] = basic::Deliver::ID.class.to_be_bytes();
    let [i3, i4] = basic::Deliver::ID.method.to_be_bytes();
    let [t1, t2, t3, t4, t5, t6, t7, t8] = deliver.delivery_tag.to_be_bytes();
    let (redelivered, exchange_len) = (u8::from(deliver.redelivered), exchange.len() as u8);
    let consumer_len = consumer.len() as u8;
    out.extend_from_slice(&[
        frame::METHOD,
        c1,
        c2,
        s1,
        s2,
        s3,
        s4,
        i1,
        i2,
        i3,
        i4,
        consumer_len,
    ]);
    out.extend_from_slice(consumer);
    out.extend_from_slice(&[t1, t2, t3, t4, t5, t6, t7, t8, redelivered, exchange_len]);
    // The default exchange has no name.
    if !exchange.is_empty() {
        out.extend_from_slice(exchange);
    }
    out.push(key.len() as u8);
    out.extend_from_slice(key);
    out.push(frame::END);
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
    /// The reply text for the peer: the name of the code, a dash, the words.
    pub fn reply_text(&self) -> String {
        reply_text(self.code, &self.what)
    }
}
