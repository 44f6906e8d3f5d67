//! Protocol versions and qualities of service.

/// The protocol version that a connection speaks, chosen by the client in CONNECT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// MQTT 3.1: protocol name `MQIsdp`, level 3.
    V31,
    /// MQTT 3.1.1: protocol name `MQTT`, level 4.
    #[default]
    V311,
    /// MQTT 5.0: protocol name `MQTT`, level 5.
    V5,
}

impl Version {
    /// The protocol level byte of CONNECT, without the bridge bit.
    pub const fn level(self) -> u8 {
        match self {
            Version::V31 => 3,
            Version::V311 => 4,
            Version::V5 => 5,
        }
    }

    /// The protocol name of CONNECT.
    pub const fn protocol_name(self) -> &'static str {
        match self {
            Version::V31 => "MQIsdp",
            Version::V311 | Version::V5 => "MQTT",
        }
    }

    /// Whether packets carry properties and reason codes.
    #[inline]
    pub const fn is_v5(self) -> bool {
        matches!(self, Version::V5)
    }

    /// Whether a PUBLISH of the one version is byte for byte a PUBLISH of the other.
    #[inline]
    pub const fn same_encoding(self, other: Version) -> bool {
        self.is_v5() == other.is_v5()
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Version::V31 => "3.1",
            Version::V311 => "3.1.1",
            Version::V5 => "5.0",
        })
    }
}

/// Quality of service of one hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// 0: sent once, never acknowledged.
    #[default]
    AtMostOnce = 0,
    /// 1: repeated until acknowledged.
    AtLeastOnce = 1,
    /// 2: a two-step handshake; arrives once.
    ExactlyOnce = 2,
}

impl QoS {
    /// The QoS with this number; `None` for 3 and above. [MQTT-3.3.1-4]
    #[inline]
    pub const fn from_bits(bits: u8) -> Option<QoS> {
        match bits {
            0 => Some(QoS::AtMostOnce),
            1 => Some(QoS::AtLeastOnce),
            2 => Some(QoS::ExactlyOnce),
            _ => None,
        }
    }
}
