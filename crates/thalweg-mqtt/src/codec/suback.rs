use crate::{Properties, ReasonCode};

/// SUBACK or UNSUBACK as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubAck<'b> {
    /// The packet identifier of the request.
    pub id: u16,
    /// Reason string and user properties (MQTT 5).
    pub properties: Properties<'b>,
    pub(crate) codes: &'b [u8],
}

impl<'b> SubAck<'b> {
    /// One outcome per filter, in the order of the request; none for an UNSUBACK of MQTT 3.
    pub fn codes(&self) -> impl ExactSizeIterator<Item = ReasonCode> + use<'b> {
        self.codes.iter().map(|byte| ReasonCode::from_byte(*byte).unwrap_or(ReasonCode::Unspecified))
    }
}
