//! A message, as content filters ask about it.

use crate::env::Neutral;
use crate::publish::draft::Draft;
use std::borrow::Cow;
use std::cell::OnceCell;
use thalweg_filter::{Document, Field, Own, Value};
use thalweg_model::{Details, Message, Properties, PropertyValue};

/// What a publish says. Made once for all filters that are asked, and only if one is; its payload is read when the first of
/// them names a field of it.
pub(crate) struct Subject<'a> {
    address: &'a str,
    payload: &'a [u8],
    priority: u8,
    properties: Option<Cow<'a, Properties>>,
    document: OnceCell<Document<'a>>,
}

impl<'a> Subject<'a> {
    pub(crate) fn of_draft(draft: &'a Draft<'a>, neutral: Neutral) -> Self {
        Subject {
            address: draft.address,
            payload: draft.payload,
            priority: draft.priority,
            properties: draft.properties.map(neutral),
            document: OnceCell::new(),
        }
    }

    pub(crate) fn of_message(message: &'a Message, neutral: Neutral) -> Self {
        Subject {
            address: message.address(),
            payload: message.payload(),
            priority: message.priority(),
            properties: message.properties().map(neutral),
            document: OnceCell::new(),
        }
    }

    pub(crate) fn of_sample(
        address: &'a str,
        (payload, properties): (&'a [u8], &'a Properties),
    ) -> Self {
        Subject {
            address,
            payload,
            priority: 0,
            properties: Some(Cow::Borrowed(properties)),
            document: OnceCell::new(),
        }
    }

    /// In our words, whatever its publisher's are.
    pub(crate) fn properties(&self) -> Option<&Properties> {
        self.properties.as_deref()
    }

    fn own(&self, own: Own) -> Value<'_> {
        match own {
            Own::Address => return Value::Text(self.address),
            Own::Priority => return Value::Integer(self.priority.into()),
            _ => {}
        }
        let Some(properties) = self.properties() else {
            return Value::Null;
        };
        let detail = |of: fn(&Details) -> &Option<Box<str>>| {
            text(properties.details.as_ref().and_then(|it| of(it).as_deref()))
        };
        match own {
            Own::Address | Own::Priority => Value::Null,
            Own::ContentType => text(properties.content_type.as_deref()),
            Own::ReplyTo => text(properties.reply_to.as_deref()),
            Own::CorrelationId => {
                let id = properties.correlation.as_deref();
                text(id.and_then(|id| std::str::from_utf8(id).ok()))
            }
            Own::MessageId => detail(|details| &details.message_id),
            Own::Kind => detail(|details| &details.kind),
            Own::AppId => detail(|details| &details.app_id),
            Own::UserId => detail(|details| &details.user_id),
            Own::Timestamp => {
                let details = properties.details.as_ref();
                let secs = details.and_then(|it| it.timestamp_secs);
                secs.map_or(Value::Null, |secs| Value::Integer(secs as i64))
            }
        }
    }
}

fn text(text: Option<&str>) -> Value<'_> {
    text.map_or(Value::Null, Value::Text)
}

impl thalweg_filter::Subject for Subject<'_> {
    fn value(&self, field: &Field) -> Value<'_> {
        match field {
            Field::Own(own) => self.own(*own),
            Field::Payload(path) => self
                .document
                .get_or_init(|| Document::read(self.payload))
                .value(path),
            Field::Header(name) => {
                let mut user = self.properties().into_iter().flat_map(|it| &it.user);
                match user.find(|(known, _)| known == name) {
                    Some((_, PropertyValue::Text(text))) => Value::Text(text),
                    Some((_, PropertyValue::Bool(value))) => Value::Bool(*value),
                    Some((_, PropertyValue::Integer(value))) => Value::Integer(*value),
                    Some((_, PropertyValue::Float(value))) => Value::Float(*value),
                    Some((_, PropertyValue::Bytes(_) | PropertyValue::Nothing)) | None => {
                        Value::Null
                    }
                }
            }
        }
    }
}
