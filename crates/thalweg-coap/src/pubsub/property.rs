//! The properties of a topic, their labels and their types; sets of them. Draft §2.2.1, §4.

use super::refusal::{Refusal, Unfit};
use super::walk;
use minicbor::Decoder;
use minicbor::data::Type;

/// A property of a topic; its number is its label in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Property {
    /// The application's name of the topic. Required, never changes.
    TopicName = 0,
    /// Where its data are: a URI reference. Required, but the broker may choose it; never changes.
    TopicData = 1,
    /// The resource type of its data. Required, never changes.
    ResourceType = 2,
    /// The Content-Format of its data.
    TopicContentFormat = 3,
    /// Kind of the data, such as `temperature`.
    TopicType = 4,
    /// When the topic ends, in seconds since 1970.
    ExpirationDate = 5,
    /// Most concurrent observers of its data.
    MaxSubscribers = 6,
    /// Seconds after which a notification must be confirmable.
    ObserverCheck = 7,
    /// The first value of its data.
    Initialize = 8,
}

/// The label of the list of properties that are asked for.
const CONF_FILTER: i128 = 9;

/// CBOR type of a property's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A text that is not empty.
    Text,
    /// An unsigned number within bounds.
    Number {
        min: u64,
        max: u64,
    },
    /// Tag 1 and a number of seconds.
    Date,
    Bytes,
}

impl Property {
    /// All of them, in the order of their labels.
    pub const ALL: [Property; 9] = [
        Property::TopicName,
        Property::TopicData,
        Property::ResourceType,
        Property::TopicContentFormat,
        Property::TopicType,
        Property::ExpirationDate,
        Property::MaxSubscribers,
        Property::ObserverCheck,
        Property::Initialize,
    ];

    /// The label in the map.
    pub const fn label(self) -> u8 {
        self as u8
    }

    /// The property with a label.
    pub fn with_label(label: i128) -> Option<Property> {
        usize::try_from(label)
            .ok()
            .and_then(|at| Property::ALL.get(at).copied())
    }

    /// Name in the draft.
    pub const fn name(self) -> &'static str {
        match self {
            Property::TopicName => "topic-name",
            Property::TopicData => "topic-data",
            Property::ResourceType => "resource-type",
            Property::TopicContentFormat => "topic-content-format",
            Property::TopicType => "topic-type",
            Property::ExpirationDate => "expiration-date",
            Property::MaxSubscribers => "max-subscribers",
            Property::ObserverCheck => "observer-check",
            Property::Initialize => "initialize",
        }
    }

    /// Whether it stays as it was when the topic was made, §2.5.3.
    pub const fn is_immutable(self) -> bool {
        matches!(
            self,
            Property::TopicName | Property::TopicData | Property::ResourceType
        )
    }

    /// Draft §4, Table 1; the bounds follow from the meaning of the number.
    pub(super) const fn shape(self) -> Shape {
        match self {
            Property::TopicName
            | Property::TopicData
            | Property::ResourceType
            | Property::TopicType => Shape::Text,
            Property::TopicContentFormat => Shape::Number {
                min: 0,
                max: u16::MAX as u64,
            },
            Property::ExpirationDate => Shape::Date,
            Property::MaxSubscribers => Shape::Number {
                min: 0,
                max: u32::MAX as u64,
            },
            // §2.2.1: greater than 0.
            Property::ObserverCheck => Shape::Number {
                min: 1,
                max: u32::MAX as u64,
            },
            Property::Initialize => Shape::Bytes,
        }
    }
}

/// A set of properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection(u16);

impl Selection {
    /// A selection of no property.
    pub const NONE: Selection = Selection(0);
    /// A selection of every property.
    pub const ALL: Selection = Selection((1 << Property::ALL.len()) - 1);

    /// This set and one more.
    #[must_use]
    pub const fn with(self, property: Property) -> Selection {
        Selection(self.0 | 1 << property.label())
    }

    /// Whether a property is in it.
    pub const fn contains(self, property: Property) -> bool {
        self.0 & 1 << property.label() != 0
    }

    /// The payload of FETCH to a topic: a map with the list of properties that are wanted, §2.5.2.
    ///
    /// The list alone is taken as well, as in revisions before the map. Unknown labels are left out: such a
    /// property is not there to be answered.
    pub fn decode(payload: &[u8]) -> Result<Selection, Refusal> {
        if walk::is_list(payload) {
            return walk::read_whole(payload, |input| Ok(read_list(input)?.0));
        }
        let mut selection = None;
        walk::read_map(payload, |label, input| {
            if label != CONF_FILTER {
                return Err(Refusal::of_payload(Unfit::Unknown(label)));
            }
            if selection.replace(read_list(input)?.0).is_some() {
                return Err(Refusal::of_payload(Unfit::ListTwice));
            }
            Ok(())
        })?;
        selection.ok_or(Refusal::of_payload(Unfit::ListMissing))
    }

    /// Whether a label is that of a list of properties.
    pub(super) fn is_label(label: i128) -> bool {
        label == CONF_FILTER
    }
}

impl FromIterator<Property> for Selection {
    fn from_iter<I: IntoIterator<Item = Property>>(properties: I) -> Self {
        properties
            .into_iter()
            .fold(Selection::NONE, Selection::with)
    }
}

/// The properties a list names, and whether it names unknown ones.
pub(super) fn read_list(input: &mut Decoder<'_>) -> Result<(Selection, bool), Refusal> {
    if !matches!(input.datatype(), Ok(Type::Array | Type::ArrayIndef)) {
        return Err(Refusal::of_payload(Unfit::NoList));
    }
    let count = input.array().map_err(walk::damaged)?;
    let (mut selection, mut strangers) = (Selection::NONE, false);
    walk::repeat(input, count, |input| {
        match Property::with_label(walk::read_label(input)?) {
            Some(property) => selection = selection.with(property),
            None => strangers = true,
        }
        Ok(())
    })?;
    Ok((selection, strangers))
}
