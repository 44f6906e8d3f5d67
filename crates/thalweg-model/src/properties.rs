//! Properties of a message besides its payload.

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
    /// Correlation data of a request or answer; opaque bytes.
    pub correlation: Option<Box<[u8]>>,
    /// The user's own properties: ordered, names may repeat.
    pub user: Vec<(Box<str>, PropertyValue)>,
    /// Properties that few messages have.
    pub details: Option<Box<Details>>,
    /// The publisher's own encoding of its metadata. Where it is given, what it says is not repeated in the other fields; they
    /// only say what the broker added (see [`Details::deaths`]).
    pub native: Option<NativeProperties>,
}

/// Metadata as its publisher encoded it: the same protocol gives it back unchanged, others decode it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeProperties {
    /// Number of the encoding; the fronts share the numbering.
    pub dialect: u8,
    /// Metadata as its protocol encodes it.
    pub bytes: Box<[u8]>,
}

/// Metadata that few messages have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// The publisher's name for the message.
    pub message_id: Option<Box<str>>,
    /// Encoding of the payload besides its media type, e.g. `gzip`.
    pub content_encoding: Option<Box<str>>,
    /// Type of the message, defined by the publisher.
    pub kind: Option<Box<str>>,
    /// The program that published it.
    pub app_id: Option<Box<str>>,
    /// The user who published it.
    pub user_id: Option<Box<str>>,
    /// When the publisher says that it was made, in seconds since 1970.
    pub timestamp_secs: Option<u64>,
    /// Queues that gave it up, the latest first; one entry per queue and reason.
    pub deaths: Vec<Death>,
    /// The addresses under which it was published before the present one: exchanges and dead letters lead it on. Set by
    /// the broker only; never sent to a peer.
    pub origins: Vec<Box<str>>,
    /// How many messages its address keeps, this one among them, unless a policy says; 0 and 1 are one. Set by the broker only, never
    /// by or for a peer.
    pub keeps: u16,
    /// Which of several sources of its address it is of. Each has as many kept messages there as its newest says, beside those of the
    /// others. Set by the broker only, as `keeps` is.
    pub source: Option<Box<str>>,
}

/// A queue gave a message up, and it went on as a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// Address of the queue that it died in.
    pub queue: Box<str>,
    /// Why it left the queue.
    pub reason: DeathReason,
    /// Number of times in that queue for that reason.
    pub count: u64,
    /// The address the message was published to when it came into that queue.
    pub address: Box<str>,
    /// When it happened first, in seconds since 1970.
    pub first_secs: u64,
    /// The life it was given by its publisher, in milliseconds, if it died of that.
    pub lifetime_ms: Option<u64>,
}

/// Why a queue gave a message up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DeathReason {
    /// A consumer would not have it.
    Rejected = 0,
    /// Its time ran out.
    Expired = 1,
    /// The queue was full.
    Overflow = 2,
    /// It was delivered as often as it may be.
    DeliveryLimit = 3,
}

impl Details {
    /// What a message is called whose publisher gave it no name.
    pub const UNNAMED: &str = "current";

    /// The type of a message that clears not its address but the message whose name it has.
    pub const RETRACT: &str = "retract";

    /// The name of the message that this one, which clears, is about; nothing if it clears its address.
    pub fn retracts(&self) -> Option<&str> {
        let is_retraction = self.kind.as_deref() == Some(Details::RETRACT);
        self.message_id.as_deref().filter(|_| is_retraction)
    }
}

impl Properties {
    /// Adds an address to [`Details::origins`], once.
    pub fn add_origin(&mut self, address: &str) -> &mut Details {
        let details = self.details.get_or_insert_default();
        if !details.origins.iter().any(|known| **known == *address) {
            details.origins.push(address.into());
        }
        details
    }
}

impl DeathReason {
    /// The reason of that number.
    pub fn from_number(number: u8) -> Option<Self> {
        [
            DeathReason::Rejected,
            DeathReason::Expired,
            DeathReason::Overflow,
            DeathReason::DeliveryLimit,
        ]
        .get(usize::from(number))
        .copied()
    }
}

/// A typed property value. Protocols that only know strings write [`PropertyValue::Text`].
#[derive(Clone, Debug, PartialEq)]
pub enum PropertyValue {
    /// UTF-8 text.
    Text(Box<str>),
    /// A truth value, `true` or `false`.
    Bool(bool),
    /// A signed whole number.
    Integer(i64),
    /// A number of double precision.
    Float(f64),
    /// Bytes without a known encoding.
    Bytes(Box<[u8]>),
    /// A name without a value.
    Nothing,
}

impl Properties {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.content_type.is_none()
            && self.payload_is_text.is_none()
            && self.reply_to.is_none()
            && self.correlation.is_none()
            && self.user.is_empty()
            && self.details.is_none()
            && self.native.is_none()
    }

    /// Bytes of memory held, for byte-bounded queues.
    #[inline(never)] // Most messages have none and should pay for nothing but that question.
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
            + self.details.as_ref().map_or(0, |details| details.bytes())
            + self.native.as_ref().map_or(0, |native| native.bytes.len())
    }
}

impl Details {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Details::default()
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let Details {
            message_id,
            content_encoding,
            kind,
            app_id,
            user_id,
            timestamp_secs: _,
            deaths,
            origins,
            keeps: _,
            source,
        } = self;
        let texts = [message_id, content_encoding, kind, app_id, user_id, source]
            .into_iter()
            .flatten();
        let deaths = deaths
            .iter()
            .map(|death| size_of::<Death>() + death.queue.len() + death.address.len());
        let origins = origins
            .iter()
            .map(|origin| size_of::<Box<str>>() + origin.len());
        size_of::<Self>()
            + texts.map(|text| text.len()).sum::<usize>()
            + deaths.sum::<usize>()
            + origins.sum::<usize>()
    }
}
