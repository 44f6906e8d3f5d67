//! Headers of SEND as what we know of a message, and back into headers of MESSAGE.

use super::address::TOPIC_EXCHANGE;
use super::{Dialect, Trouble};
use crate::address::{self, Place};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::borrow::Cow;
use thalweg_kernel::{Content, Delivery};
use thalweg_model::{Details, Properties, PropertyValue, Reliability, RetainOp, Span, Time};
use thalweg_stomp::{HeaderWriter, Headers};

/// Names that mean something, so that no property of a user can have one.
const RESERVED: [&str; 28] = [
    "ack",
    "amqp-message-id",
    "app-id",
    "content-encoding",
    "content-length",
    "content-type",
    "correlation-id",
    "correlation-id-encoding",
    "destination",
    "expiration",
    "expires",
    "id",
    "message",
    "message-id",
    "persistent",
    "priority",
    "receipt",
    "receipt-id",
    "redelivered",
    "reply-to",
    "retain",
    "selector",
    "subscription",
    "timestamp",
    "transaction",
    "type",
    "user-id",
    "x-reply-to-topic",
];

fn is_reserved(name: &str) -> bool {
    RESERVED.binary_search(&name).is_ok()
}

/// What SEND says of its message.
#[derive(Debug, Default)]
pub(super) struct SendHeaders<'b> {
    pub(super) is_persistent: bool,
    pub(super) priority: u8,
    pub(super) expires_in: Option<Span>,
    pub(super) retain: RetainOp,
    /// As the peer wrote it.
    pub(super) reply_to: Option<Cow<'b, str>>,
    /// All but `reply_to`.
    pub(super) properties: Properties,
}

impl<'b> SendHeaders<'b> {
    /// Reads the headers of a SEND: of each name the first counts.
    pub(super) fn read(headers: &Headers<'b>, now: Time) -> Result<SendHeaders<'b>, Trouble> {
        let mut said = SendHeaders::default();
        let mut correlation: Option<Cow<'b, str>> = None;
        let mut is_base64 = false;
        let mut seen = Seen::default();
        for (name, value) in headers.iter() {
            match &*name {
                "destination" | "content-length" | "receipt" | "transaction" => {}
                "persistent" if seen.is_first(0) => {
                    said.is_persistent = value.eq_ignore_ascii_case("true")
                }
                "priority" if seen.is_first(1) => {
                    said.priority = number::<u64>(&name, &value)?.min(255) as u8
                }
                "expiration" if seen.is_first(2) => {
                    said.expires_in = Some(Span::from_millis(number(&name, &value)?));
                }
                // ActiveMQ's; 0 is never.
                "expires" if said.expires_in.is_none() => match number::<u64>(&name, &value)? {
                    0 => {}
                    millis => said.expires_in = Some(moment(millis).since(now)),
                },
                "retain" if seen.is_first(3) => {
                    said.retain = match &*value {
                        "set" => RetainOp::Set,
                        "clear" => RetainOp::Clear,
                        _ => return Err(wrong(&name, &value, "set or clear")),
                    }
                }
                "content-type" => keep(&mut said.properties.content_type, &value),
                "reply-to" if said.reply_to.is_none() => said.reply_to = Some(value),
                "correlation-id" if correlation.is_none() => correlation = Some(value),
                "correlation-id-encoding" => is_base64 = value == "base64",
                "amqp-message-id" => keep(&mut said.details().message_id, &value),
                "content-encoding" => keep(&mut said.details().content_encoding, &value),
                "type" => keep(&mut said.details().kind, &value),
                "app-id" => keep(&mut said.details().app_id, &value),
                "user-id" => keep(&mut said.details().user_id, &value),
                "timestamp" if said.details().timestamp_secs.is_none() => {
                    said.details().timestamp_secs = Some(seconds(number(&name, &value)?));
                }
                name if is_reserved(name) => {}
                _ => {
                    let user = &mut said.properties.user;
                    if !user.iter().any(|(known, _)| **known == *name) {
                        user.push((name.into(), PropertyValue::Text(value.into())));
                    }
                }
            }
        }
        if let Some(text) = correlation {
            let bytes = match is_base64 {
                true => BASE64
                    .decode(&*text)
                    .map_err(|_| wrong("correlation-id", &text, "base64"))?,
                false => text.into_owned().into_bytes(),
            };
            said.properties.correlation = Some(bytes.into());
        }
        Ok(said)
    }

    fn details(&mut self) -> &mut Details {
        self.properties.details.get_or_insert_default()
    }
}

/// Which headers have been seen.
#[derive(Default)]
struct Seen(u8);

impl Seen {
    fn is_first(&mut self, number: u8) -> bool {
        let is_first = self.0 & 1 << number == 0;
        self.0 |= 1 << number;
        is_first
    }
}

fn keep(field: &mut Option<Box<str>>, value: &str) {
    if field.is_none() {
        *field = Some(value.into());
    }
}

fn number<N: std::str::FromStr>(name: &str, value: &str) -> Result<N, Trouble> {
    value
        .trim()
        .parse()
        .map_err(|_| wrong(name, value, "a whole number"))
}

fn wrong(name: &str, value: &str, should: &str) -> Trouble {
    Trouble::new(
        "precondition_failed",
        format!("header '{name}' is '{value}', but should be {should}\n"),
    )
}

/// A moment given in milliseconds since 1970.
fn moment(millis: u64) -> Time {
    Time::from_nanos(millis.saturating_mul(1_000_000))
}

/// RabbitMQ writes `timestamp` in seconds, ActiveMQ in milliseconds. As seconds this is the year 5138.
const SECONDS_MAX: u64 = 100_000_000_000;

fn seconds(timestamp: u64) -> u64 {
    if timestamp < SECONDS_MAX {
        timestamp
    } else {
        timestamp / 1000
    }
}

/// Writes what is known of a message beside what every MESSAGE says.
pub(super) fn write(
    content: &Content<'_>,
    delivery: &Delivery<'_>,
    properties: &Properties,
    dialect: Dialect,
    w: &mut HeaderWriter<'_>,
) {
    if delivery.deliveries == 0 && dialect == Dialect::RabbitMq {
        // RabbitMQ always says it, and some clients count on that.
        w.put("redelivered", "false");
    }
    if content.reliability() != Reliability::AtMostOnce {
        w.put("persistent", "true");
    }
    if content.priority() > 0 {
        w.put_display("priority", content.priority());
    }
    if let Some(left) = delivery.expires_in {
        w.put_display("expiration", left.nanos().div_ceil(1_000_000));
        if dialect == Dialect::ActiveMq {
            w.put_display("expires", content.expires().nanos() / 1_000_000);
        }
    }
    if let Some(correlation) = &properties.correlation {
        match std::str::from_utf8(correlation) {
            Ok(text) if !text.contains('\0') => {
                w.put("correlation-id", text);
            }
            _ => {
                w.put("correlation-id", &BASE64.encode(correlation));
                w.put("correlation-id-encoding", "base64");
            }
        }
    }
    if let Some(reply_to) = &properties.reply_to {
        let mut destination = String::with_capacity(reply_to.len() + 16);
        super::address::write_reply(reply_to, dialect, &mut destination);
        w.put("reply-to", &destination);
    }
    if let Some(details) = &properties.details {
        write_details(details, dialect, w);
    }
    for (name, value) in properties
        .user
        .iter()
        .filter(|(name, _)| !is_reserved(name))
    {
        match value {
            PropertyValue::Text(text) => w.put(name, text),
            PropertyValue::Bool(truth) => w.put_display(name, truth),
            PropertyValue::Integer(number) => w.put_display(name, number),
            PropertyValue::Float(number) => w.put_display(name, number),
            // Headers are text.
            PropertyValue::Bytes(_) | PropertyValue::Nothing => false,
        };
    }
}

fn write_details(details: &Details, dialect: Dialect, w: &mut HeaderWriter<'_>) {
    let texts = [
        ("amqp-message-id", &details.message_id),
        ("content-encoding", &details.content_encoding),
        ("type", &details.kind),
        ("app-id", &details.app_id),
        ("user-id", &details.user_id),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            w.put(name, value);
        }
    }
    if let Some(seconds) = details.timestamp_secs {
        let in_millis = dialect == Dialect::ActiveMq;
        w.put_display(
            "timestamp",
            if in_millis {
                seconds.saturating_mul(1000)
            } else {
                seconds
            },
        );
    }
    // Where it died first; the rest of its history is no text.
    if let Some(death) = details.deaths.last() {
        let reason = match death.reason {
            thalweg_model::DeathReason::Rejected => "rejected",
            thalweg_model::DeathReason::Expired => "expired",
            thalweg_model::DeathReason::Overflow => "maxlen",
            thalweg_model::DeathReason::DeliveryLimit => "delivery_limit",
        };
        w.put("x-first-death-reason", reason);
        if let Place::Queue { name, .. } = address::place(&death.queue) {
            w.put("x-first-death-queue", &name);
        }
        match address::place(&death.address) {
            Place::Queue { .. } => w.put("x-first-death-exchange", ""),
            Place::Exchange { name, .. } => w.put("x-first-death-exchange", &name),
            Place::Plain { .. } => w.put("x-first-death-exchange", TOPIC_EXCHANGE),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_are_in_order() {
        assert!(RESERVED.is_sorted());
        assert!(is_reserved("ack") && is_reserved("x-reply-to-topic") && !is_reserved("x"));
    }

    #[test]
    fn timestamps_are_read_in_seconds_and_in_milliseconds() {
        assert_eq!(seconds(1_700_000_000), 1_700_000_000);
        assert_eq!(seconds(1_700_000_000_123), 1_700_000_000);
    }
}
