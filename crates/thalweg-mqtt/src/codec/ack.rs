use crate::TextPairs;

/// What an acknowledgement, SUBACK, UNSUBACK or DISCONNECT may say for people (MQTT 5 only; left out when it would not
/// fit the peer's Maximum Packet Size, or when the peer asked for no problem information).
#[derive(Clone, Copy, Default)]
pub struct Info<'a> {
    /// A reason in words.
    pub reason_string: Option<&'a str>,
    /// User properties.
    pub user: Option<&'a dyn TextPairs>,
}
