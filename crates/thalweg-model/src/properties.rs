//! What travels beside a payload.

/// The metadata of a message that is not needed for routing. Most messages have none, and then carry no
/// `Properties` at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties {
    /// Media type of the payload, e.g. `application/json`.
    pub content_type: Option<Box<str>>,
    /// The publisher says that the payload is UTF-8 text.
    pub payload_is_text: Option<bool>,
    /// Where an answer goes, as a canonical address.
    pub reply_to: Option<Box<str>>,
    /// What ties an answer to its request; opaque bytes.
    pub correlation: Option<Box<[u8]>>,
    /// The user's own properties: ordered, names may repeat.
    pub user: Vec<(Box<str>, PropertyValue)>,
}

/// A typed property value. Protocols that only know strings write [`PropertyValue::Text`].
#[derive(Clone, Debug, PartialEq)]
pub enum PropertyValue {
    /// UTF-8 text.
    Text(Box<str>),
    /// Truth.
    Bool(bool),
    /// A signed whole number.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// Opaque bytes.
    Bytes(Box<[u8]>),
}

impl Properties {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.content_type.is_none()
            && self.payload_is_text.is_none()
            && self.reply_to.is_none()
            && self.correlation.is_none()
            && self.user.is_empty()
    }

    /// Bytes of memory held, for byte-bounded queues.
    pub fn bytes(&self) -> usize {
        let text = |t: &Option<Box<str>>| t.as_ref().map_or(0, |t| t.len());
        let user = |(name, value): &(Box<str>, PropertyValue)| {
            name.len()
                + 40
                + match value {
                    PropertyValue::Text(text) => text.len(),
                    PropertyValue::Bytes(bytes) => bytes.len(),
                    _ => 0,
                }
        };
        size_of::<Self>()
            + text(&self.content_type)
            + text(&self.reply_to)
            + self.correlation.as_ref().map_or(0, |c| c.len())
            + self.user.iter().map(user).sum::<usize>()
    }
}
