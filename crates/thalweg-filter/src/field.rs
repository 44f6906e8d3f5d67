//! Names in a filter, and the fields of a message that they mean.

/// Field of a message that a name means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// A header: a user property, by its name.
    Header(Box<str>),
    /// A field of the payload by its path: keys and positions with dots between them.
    Payload(Box<str>),
    Own(Own),
}

/// Fields besides headers that every message has, or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Own {
    Address,
    Priority,
    ContentType,
    ReplyTo,
    CorrelationId,
    MessageId,
    /// Type of the message, defined by the publisher.
    Kind,
    AppId,
    UserId,
    /// In seconds since 1970.
    Timestamp,
}

/// Names of their own: ours begin with `$`, the others are those of JMS.
const OWN: [(&str, Own); 15] = [
    ("$address", Own::Address),
    ("$priority", Own::Priority),
    ("$content_type", Own::ContentType),
    ("$reply_to", Own::ReplyTo),
    ("$correlation_id", Own::CorrelationId),
    ("$message_id", Own::MessageId),
    ("$type", Own::Kind),
    ("$app_id", Own::AppId),
    ("$user_id", Own::UserId),
    ("$timestamp", Own::Timestamp),
    ("JMSPriority", Own::Priority),
    ("JMSReplyTo", Own::ReplyTo),
    ("JMSCorrelationID", Own::CorrelationId),
    ("JMSMessageID", Own::MessageId),
    ("JMSType", Own::Kind),
];

const PAYLOAD: &str = "payload.";

impl Field {
    /// Returns the field that a name means; `None` if it begins with `$` and is unknown.
    pub fn of(name: &str) -> Option<Field> {
        if let Some((_, own)) = OWN.iter().find(|(known, _)| *known == name) {
            return Some(Field::Own(*own));
        }
        match name.strip_prefix(PAYLOAD) {
            Some(path) => Some(Field::Payload(path.into())),
            None if name.starts_with('$') => None,
            None => Some(Field::Header(name.into())),
        }
    }
}
