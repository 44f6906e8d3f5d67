//! Filters of a collection's topics. Draft §2.4.2.

use super::configuration::Configuration;
use super::field::Field;
use super::property::{Property, Selection, read_list};
use super::refusal::{Refusal, Unfit};
use super::walk;

/// The payload of FETCH to a collection: topics in which each of these properties is there with this value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicFilter {
    wanted: Vec<(Property, Value)>,
    /// Properties that must be there, whatever they say: a list as in FETCH of a topic, which the draft refers to
    /// without saying what it means here.
    present: Selection,
    /// Something is asked for that no topic can have.
    nothing: bool,
}

/// A [`Field`] of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(Box<str>),
    Number(u64),
    Bytes(Box<[u8]>),
}

impl TopicFilter {
    /// Reads a filter. Unknown properties are no error: no topic has them.
    pub fn decode(payload: &[u8]) -> Result<TopicFilter, Refusal> {
        let mut filter = TopicFilter::default();
        let mut seen = Selection::NONE;
        walk::read_map(payload, |label, input| {
            if Selection::is_label(label) {
                let (present, strangers) = read_list(input)?;
                filter.present = present;
                filter.nothing |= strangers;
                return Ok(());
            }
            let Some(property) = Property::with_label(label) else {
                filter.nothing = true;
                return walk::skip(input);
            };
            if seen.contains(property) {
                return Err(Refusal::of(property, Unfit::Twice));
            }
            seen = seen.with(property);
            match Field::read(property, input)? {
                Some(field) => filter.wanted.push((property, Value::of(field))),
                None => filter.nothing = true,
            }
            Ok(())
        })?;
        Ok(filter)
    }

    /// Whether a topic is asked for.
    pub fn matches(&self, topic: &Configuration) -> bool {
        !self.nothing
            && Property::ALL
                .into_iter()
                .all(|property| !self.present.contains(property) || topic.has(property))
            && self.wanted.iter().all(|(property, value)| {
                topic
                    .field(*property)
                    .is_some_and(|is| is.means(*property, value.field()))
            })
    }
}

impl Value {
    fn of(field: Field<'_>) -> Value {
        match field {
            Field::Text(text) => Value::Text(text.into()),
            Field::Number(number) => Value::Number(number),
            Field::Bytes(bytes) => Value::Bytes(bytes.into()),
        }
    }

    fn field(&self) -> Field<'_> {
        match self {
            Value::Text(text) => Field::Text(text),
            Value::Number(number) => Field::Number(*number),
            Value::Bytes(bytes) => Field::Bytes(bytes),
        }
    }
}
