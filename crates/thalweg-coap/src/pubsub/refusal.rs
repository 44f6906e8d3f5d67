//! Why a map is refused, in words that go back to the peer as diagnostic payload. RFC 7252 §5.5.2.

use super::property::Property;
use super::{PAYLOAD_BYTES_MAX, TEXT_BYTES_MAX};
use crate::Code;
use std::fmt;

/// Error in a peer's configuration, and the property that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The property; nothing when it is the payload as a whole.
    pub property: Option<Property>,
    /// Why the value does not fit.
    pub why: Unfit,
}

/// Kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is not well-formed CBOR, or ends early, or something stands behind it.
    Damaged,
    /// Lists and maps are nested too deeply.
    TooDeep,
    /// It is longer than we read.
    TooLong,
    /// It is something else than a map.
    NoMap,
    /// A label is a text; since revision -19 labels are numbers.
    TextLabel,
    /// There is no property with this label; §2.4.3: what is unrecognized is refused.
    Unknown(i128),
    /// It is there twice.
    Twice,
    /// Its value has another type than §4 says.
    WrongType,
    /// It must be there.
    Missing,
    /// It stays what it was when the topic was made, §2.5.3.
    Immutable,
    /// It must not be empty.
    Empty,
    /// Its value is out of range.
    OutOfRange,
    /// The topic would have ended already.
    Past,
    /// There must be a Content-Format when there is a first value, §2.2.1.
    FormatMissing,
    /// The list of wanted properties is something else than a list.
    NoList,
    /// There is no list of wanted properties.
    ListMissing,
    /// There are two lists of wanted properties.
    ListTwice,
}

impl Refusal {
    pub(super) const fn of(property: Property, why: Unfit) -> Refusal {
        Refusal {
            property: Some(property),
            why,
        }
    }

    pub(super) const fn of_payload(why: Unfit) -> Refusal {
        Refusal {
            property: None,
            why,
        }
    }

    /// The code of the answer; this is its diagnostic payload.
    pub fn code(self) -> Code {
        match (self.property, self.why) {
            (None, Unfit::TooLong) => Code::REQUEST_ENTITY_TOO_LARGE,
            // §2.4.3: "such as 4.00".
            _ => Code::BAD_REQUEST,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.property.map_or("the payload", Property::name);
        match (self.property, self.why) {
            (_, Unfit::Damaged) => write!(f, "{name} is not well-formed CBOR"),
            (_, Unfit::TooDeep) => write!(f, "{name} is nested too deeply"),
            (None, Unfit::TooLong) => write!(f, "{name} is longer than {PAYLOAD_BYTES_MAX} bytes"),
            (Some(_), Unfit::TooLong) => write!(f, "{name} is longer than {TEXT_BYTES_MAX} bytes"),
            (_, Unfit::NoMap) => write!(f, "{name} is not a CBOR map"),
            (_, Unfit::TextLabel) => write!(f, "{name} has a label that is not a number"),
            (_, Unfit::Unknown(label)) => write!(f, "there is no property {label}"),
            (_, Unfit::Twice) => write!(f, "{name} is there twice"),
            (_, Unfit::WrongType) => write!(f, "{name} has the wrong type"),
            (_, Unfit::Missing) => write!(f, "{name} is missing"),
            (_, Unfit::Immutable) => write!(f, "{name} cannot be changed"),
            (_, Unfit::Empty) => write!(f, "{name} is empty"),
            (_, Unfit::OutOfRange) => write!(f, "{name} is out of range"),
            (_, Unfit::Past) => write!(f, "{name} has passed"),
            (_, Unfit::FormatMissing) => write!(f, "initialize needs topic-content-format"),
            (_, Unfit::NoList) => write!(f, "conf-filter is not an array"),
            (_, Unfit::ListMissing) => write!(f, "conf-filter is missing"),
            (_, Unfit::ListTwice) => write!(f, "conf-filter is there twice"),
        }
    }
}

impl std::error::Error for Refusal {}
