//! A topic's configuration: made of a map, changed by maps, written as one. Draft §2.2.1, §2.4.3, §2.5.

use super::field::Field;
use super::property::{Property, Selection};
use super::refusal::{Refusal, Unfit};
use super::{OBSERVER_CHECK_DEFAULT, walk};
use minicbor::Encoder;
use std::num::NonZeroU32;

/// Configuration of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The application's name of the topic.
    pub name: Box<str>,
    /// The URI reference of its data; empty until it is set.
    pub data: Box<str>,
    /// The resource type of its data.
    pub resource_type: Box<str>,
    /// The Content-Format of its data; any if nothing is said.
    pub content_format: Option<u16>,
    /// Kind of its data.
    pub topic_type: Option<Box<str>>,
    /// When it ends, in seconds since 1970; never if nothing is said.
    pub expiration: Option<u64>,
    /// Most observers of its data; `None`: unlimited.
    pub max_subscribers: Option<u32>,
    /// After how many seconds a notification must be confirmable.
    pub observer_check: Option<NonZeroU32>,
    /// Value of its data before the first publish.
    pub initialize: Option<Box<[u8]>>,
}

impl Configuration {
    /// The configuration that a map makes: of a topic that is being created (§2.4.3), or one that was kept.
    pub fn decode(payload: &[u8]) -> Result<Configuration, Refusal> {
        let mut made = Configuration::blank();
        read(payload, |property, field| {
            made.set(property, field);
            Ok(())
        })?;
        for property in [Property::TopicName, Property::ResourceType] {
            made.field(property)
                .ok_or(Refusal::of(property, Unfit::Missing))?;
        }
        made.checked()
    }

    /// Applies a POST to the topic, §2.5.3: properties that the map does not contain are reset.
    pub fn replaced_by(&self, payload: &[u8]) -> Result<Configuration, Refusal> {
        let kept = Configuration {
            name: self.name.clone(),
            data: self.data.clone(),
            resource_type: self.resource_type.clone(),
            ..Configuration::blank()
        };
        self.overlaid(kept, payload)
    }

    /// Applies an iPATCH to the topic, §2.5.4: properties that the map does not contain stay. Null removes a property;
    /// the draft does not define that, but other merge formats do.
    pub fn patched_by(&self, payload: &[u8]) -> Result<Configuration, Refusal> {
        self.overlaid(self.clone(), payload)
    }

    fn overlaid(&self, mut onto: Configuration, payload: &[u8]) -> Result<Configuration, Refusal> {
        read(payload, |property, field| {
            if !property.is_immutable() {
                onto.set(property, field);
                return Ok(());
            }
            match (self.field(property), field) {
                (Some(is), Some(said)) if is.means(property, said) => Ok(()),
                _ => Err(Refusal::of(property, Unfit::Immutable)),
            }
        })?;
        onto.checked()
    }

    /// Whether it has not ended yet. The draft says nothing about dates that have passed; to make a topic that is gone at
    /// once does not help, least of all a peer whose clock is wrong.
    pub fn check_expiration(&self, now_secs: u64) -> Result<(), Refusal> {
        match self.expiration {
            Some(end) if end <= now_secs => Err(Refusal::of(Property::ExpirationDate, Unfit::Past)),
            _ => Ok(()),
        }
    }

    /// Seconds after which a notification must be confirmable, said or not.
    pub fn observer_check_secs(&self) -> u32 {
        self.observer_check
            .map_or(OBSERVER_CHECK_DEFAULT, NonZeroU32::get)
    }

    /// Whether a property has a value.
    pub fn has(&self, property: Property) -> bool {
        self.field(property).is_some()
    }

    /// Appends it as a map of all that is said.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_selected(Selection::ALL, out);
    }

    /// Appends the selected properties as a map, §2.5.2. Labels ascend and numbers are short, so that equal
    /// configurations are equal bytes (RFC 8949 §4.2.1).
    pub fn encode_selected(&self, selection: Selection, out: &mut Vec<u8>) {
        let fields = || {
            Property::ALL
                .into_iter()
                .filter(|property| selection.contains(*property))
                .filter_map(|property| Some((property, self.field(property)?)))
        };
        let mut encoder = Encoder::new(out);
        let mut write = || {
            encoder.map(fields().count() as u64)?;
            for (property, field) in fields() {
                encoder.u8(property.label())?;
                field.write(property, &mut encoder)?;
            }
            Ok::<_, minicbor::encode::Error<_>>(())
        };
        // A Vec takes everything: its error has no values.
        let _: Result<(), minicbor::encode::Error<core::convert::Infallible>> = write();
    }

    fn blank() -> Configuration {
        Configuration {
            name: "".into(),
            data: "".into(),
            resource_type: "".into(),
            content_format: None,
            topic_type: None,
            expiration: None,
            max_subscribers: None,
            observer_check: None,
            initialize: None,
        }
    }

    /// Checks the rules that concern several properties.
    fn checked(self) -> Result<Configuration, Refusal> {
        // §2.2.1: when there is a first value, there must be its format.
        if self.initialize.is_some() && self.content_format.is_none() {
            return Err(Refusal::of(
                Property::TopicContentFormat,
                Unfit::FormatMissing,
            ));
        }
        Ok(self)
    }

    pub(super) fn field(&self, property: Property) -> Option<Field<'_>> {
        match property {
            Property::TopicName => said(&self.name),
            Property::TopicData => said(&self.data),
            Property::ResourceType => said(&self.resource_type),
            Property::TopicContentFormat => self
                .content_format
                .map(|format| Field::Number(format.into())),
            Property::TopicType => self.topic_type.as_deref().map(Field::Text),
            Property::ExpirationDate => self.expiration.map(Field::Number),
            Property::MaxSubscribers => self.max_subscribers.map(|max| Field::Number(max.into())),
            Property::ObserverCheck => self
                .observer_check
                .map(|seconds| Field::Number(seconds.get().into())),
            Property::Initialize => self.initialize.as_deref().map(Field::Bytes),
        }
    }

    /// Takes over a value that [`Field::read`] has found to be one of this property.
    fn set(&mut self, property: Property, field: Option<Field<'_>>) {
        let text = match field {
            Some(Field::Text(text)) => Some(Box::from(text)),
            _ => None,
        };
        let number = match field {
            Some(Field::Number(number)) => Some(number),
            _ => None,
        };
        // The bounds of numbers are those of their types: `Property::shape` says them.
        let small = number.and_then(|number| u32::try_from(number).ok());
        match property {
            Property::TopicName => self.name = text.unwrap_or_default(),
            Property::TopicData => self.data = text.unwrap_or_default(),
            Property::ResourceType => self.resource_type = text.unwrap_or_default(),
            Property::TopicContentFormat => {
                self.content_format = small.and_then(|format| u16::try_from(format).ok())
            }
            Property::TopicType => self.topic_type = text,
            Property::ExpirationDate => self.expiration = number,
            Property::MaxSubscribers => self.max_subscribers = small,
            Property::ObserverCheck => self.observer_check = small.and_then(NonZeroU32::new),
            Property::Initialize => {
                self.initialize = match field {
                    Some(Field::Bytes(bytes)) => Some(bytes.into()),
                    _ => None,
                }
            }
        }
    }
}

fn said(text: &str) -> Option<Field<'_>> {
    (!text.is_empty()).then_some(Field::Text(text))
}

/// Reads a map of properties, each at most once (RFC 8949 §5.6).
fn read(
    payload: &[u8],
    mut each: impl FnMut(Property, Option<Field<'_>>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut seen = Selection::NONE;
    walk::read_map(payload, |label, input| {
        // §2.4.3: what is unrecognized is refused; conf-filter is no property of a topic.
        let property =
            Property::with_label(label).ok_or(Refusal::of_payload(Unfit::Unknown(label)))?;
        if seen.contains(property) {
            return Err(Refusal::of(property, Unfit::Twice));
        }
        seen = seen.with(property);
        let field = Field::read(property, input)?;
        each(property, field)
    })
}
