use crate::{Properties, ReasonCode};

/// AUTH as received (MQTT 5 only).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'b> {
    /// `Success`, `ContinueAuthentication` or `ReAuthenticate`.
    pub reason: ReasonCode,
    /// The method; the same as in CONNECT. [MQTT-4.12.0-5]
    pub method: &'b str,
    /// What the method has to say.
    pub data: Option<&'b [u8]>,
    /// All properties, for reason string and user properties.
    pub properties: Properties<'b>,
}
