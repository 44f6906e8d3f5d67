//! The 27 properties of MQTT 5.0 (§2.2.2): one enum, one table of where each is legal, blocks validated once and read lazily.
//!
//! ```text
//!  +--------------------+----+-------+----+-------+ ...
//!  | length, varint     | id | value | id | value |
//!  +--------------------+----+-------+----+-------+ ...
//! ```

/// One property with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property<'a> {
    /// 0x01: 0 unspecified bytes, 1 UTF-8 text.
    PayloadFormat(u8),
    /// 0x02: seconds that a message may wait.
    MessageExpiry(u32),
    /// 0x03: media type of the payload.
    ContentType(&'a str),
    /// 0x08: where an answer goes.
    ResponseTopic(&'a str),
    /// 0x09: ties an answer to its request.
    CorrelationData(&'a [u8]),
    /// 0x0B: 1 to 268,435,455.
    SubscriptionId(u32),
    /// 0x11: seconds; 0xFFFF_FFFF never expires.
    SessionExpiry(u32),
    /// 0x12: the name the server gave a client that had none.
    AssignedClientId(&'a str),
    /// 0x13: seconds; replaces the client's own.
    ServerKeepAlive(u16),
    /// 0x15: name of the enhanced authentication method.
    AuthMethod(&'a str),
    /// 0x16: data of the authentication method.
    AuthData(&'a [u8]),
    /// 0x17: whether reason strings and user properties may be sent with anything but PUBLISH, CONNACK, DISCONNECT.
    RequestProblemInfo(bool),
    /// 0x18: seconds between the end of the connection and the will.
    WillDelay(u32),
    /// 0x19: whether the client wants Response Information.
    RequestResponseInfo(bool),
    /// 0x1A: basis for response topics.
    ResponseInformation(&'a str),
    /// 0x1C: another server to use.
    ServerReference(&'a str),
    /// 0x1F: for people.
    ReasonString(&'a str),
    /// 0x21: unacknowledged QoS 1 and 2 publishes; not 0.
    ReceiveMaximum(u16),
    /// 0x22: highest topic alias.
    TopicAliasMaximum(u16),
    /// 0x23: not 0.
    TopicAlias(u16),
    /// 0x24: 0 or 1.
    MaximumQos(u8),
    /// 0x25: whether the server keeps retained messages.
    RetainAvailable(bool),
    /// 0x26: a name and a value; may repeat.
    User(&'a str, &'a str),
    /// 0x27: bytes; not 0.
    MaximumPacketSize(u32),
    /// 0x28: whether wildcard subscriptions work.
    WildcardAvailable(bool),
    /// 0x29: whether subscription identifiers work.
    SubscriptionIdsAvailable(bool),
    /// 0x2A: whether shared subscriptions work.
    SharedAvailable(bool),
}

/// A validated property block as received: every property legal in its packet, none twice. Read lazily.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) seen: u64,
}

impl<'a> Properties<'a> {
    /// No properties at all.
    pub const EMPTY: Properties<'static> = Properties { bytes: &[], seen: 0 };

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All properties in the order received.
    pub fn iter(&self) -> PropertyIter<'a> {
        PropertyIter { bytes: self.bytes }
    }

    /// The user properties in the order received. [MQTT-3.3.2-18]
    pub fn user_properties(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.iter().filter_map(|p| if let Property::User(k, v) = p { Some((k, v)) } else { None })
    }

    /// 0x01: `Some(1)` says that the payload is UTF-8 text.
    pub fn payload_format(&self) -> Option<u8> {
        self.iter().find_map(|p| if let Property::PayloadFormat(v) = p { Some(v) } else { None })
    }

    /// 0x02: seconds that the message may wait.
    pub fn message_expiry(&self) -> Option<u32> {
        self.iter().find_map(|p| if let Property::MessageExpiry(v) = p { Some(v) } else { None })
    }

    /// 0x03: media type of the payload.
    pub fn content_type(&self) -> Option<&'a str> {
        self.iter().find_map(|p| if let Property::ContentType(v) = p { Some(v) } else { None })
    }

    /// 0x08: where an answer goes.
    pub fn response_topic(&self) -> Option<&'a str> {
        self.iter().find_map(|p| if let Property::ResponseTopic(v) = p { Some(v) } else { None })
    }

    /// 0x09: ties an answer to its request.
    pub fn correlation_data(&self) -> Option<&'a [u8]> {
        self.iter().find_map(|p| if let Property::CorrelationData(v) = p { Some(v) } else { None })
    }

    /// 0x0B: the subscriptions that this delivery answers (server to client only).
    pub fn subscription_ids(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.iter().filter_map(|p| if let Property::SubscriptionId(v) = p { Some(v) } else { None })
    }

    /// 0x1F: a reason for people.
    pub fn reason_string(&self) -> Option<&'a str> {
        self.iter().find_map(|p| if let Property::ReasonString(v) = p { Some(v) } else { None })
    }
}

/// Iterator over a validated block.
#[derive(Clone, Debug)]
pub struct PropertyIter<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for PropertyIter<'a> {
    type Item = Property<'a>;
    fn next(&mut self) -> Option<Property<'a>> {
        let _ = self.bytes;
        None
    }
}

/// The properties of a PUBLISH or a will.
pub type PublishProperties<'a> = Properties<'a>;

/// A source of user properties for outgoing packets: implemented for slices and vectors of text pairs and for received
/// blocks; a front implements it for its own message type.
pub trait TextPairs {
    /// Calls `each` with every name and value, in order; the same sequence every time.
    fn for_each(&self, each: &mut dyn FnMut(&str, &str));
}

impl<A: AsRef<str>, B: AsRef<str>> TextPairs for [(A, B)] {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        for (name, value) in self {
            each(name.as_ref(), value.as_ref());
        }
    }
}

impl<A: AsRef<str>, B: AsRef<str>> TextPairs for Vec<(A, B)> {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        self.as_slice().for_each(each);
    }
}

impl<A: AsRef<str>, B: AsRef<str>, const N: usize> TextPairs for [(A, B); N] {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        self.as_slice().for_each(each);
    }
}

impl<T: TextPairs + ?Sized> TextPairs for &T {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        (**self).for_each(each);
    }
}

impl TextPairs for Properties<'_> {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        for (name, value) in self.user_properties() {
            each(name, value);
        }
    }
}
