//! Versions, and the one that both ends choose.

/// A version of the protocol. Until CONNECT has been read it is 1.0, the one without escapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// STOMP 1.0.
    #[default]
    V10,
    /// STOMP 1.1.
    V11,
    /// STOMP 1.2.
    V12,
}

impl Version {
    /// Every version, lowest first.
    pub const ALL: [Version; 3] = [Version::V10, Version::V11, Version::V12];

    /// `1.0`, `1.1` or `1.2`.
    pub const fn name(self) -> &'static str {
        match self {
            Version::V10 => "1.0",
            Version::V11 => "1.1",
            Version::V12 => "1.2",
        }
    }

    /// The version with this name.
    pub fn from_name(name: &str) -> Option<Version> {
        Version::ALL
            .into_iter()
            .find(|version| version.name() == name)
    }

    /// The highest version in the list of `accept-version`; without the header the client speaks 1.0. `None`: we have
    /// nothing in common. [1.2#Protocol_Negotiation]
    pub(crate) fn negotiate(accept: Option<&str>) -> Option<Version> {
        let Some(accept) = accept else {
            return Some(Version::V10);
        };
        accept
            .split(',')
            .filter_map(|name| Version::from_name(name.trim()))
            .max()
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Value of `accept-version` in our CONNECT and of `version` in our refusals.
pub(crate) const VERSIONS: &str = "1.0,1.1,1.2";

/// Intervals at which we must send and may expect heart-beats, in milliseconds, 0 never: computed from both
/// `heart-beat` headers, seen from the side with `ours`. [1.2#Heart-beating]
pub fn heart_beats(ours: (u32, u32), theirs: (u32, u32)) -> (u32, u32) {
    let agree = |can: u32, wants: u32| {
        if can == 0 || wants == 0 {
            0
        } else {
            can.max(wants)
        }
    };
    (agree(ours.0, theirs.1), agree(theirs.0, ours.1))
}

/// Reads the value of `heart-beat`: two numbers of milliseconds. Spaces are tolerated.
pub(crate) fn parse_heart_beat(value: &str) -> Option<(u32, u32)> {
    let (can, wants) = value.split_once(',')?;
    let number =
        |text: &str| parse_number(text.as_bytes()).and_then(|number| u32::try_from(number).ok());
    Some((number(can)?, number(wants)?))
}

/// A whole number without a sign, spaces around it tolerated.
#[inline]
pub(crate) fn parse_number(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    let mut number: u64 = 0;
    for digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(value))?;
    }
    (!digits.is_empty()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_chosen() {
        for (accept, expected) in [
            (None, Some(Version::V10)),
            (Some("1.0"), Some(Version::V10)),
            (Some("1.2,1.1,1.0"), Some(Version::V12)),
            (Some("1.1, 1.0"), Some(Version::V11)),
            (Some("1.1,2.0"), Some(Version::V11)),
            (Some("2.0"), None),
            (Some(""), None),
        ] {
            assert_eq!(Version::negotiate(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn heart_beats_are_the_slower_wish_of_the_two_or_none() {
        assert_eq!(heart_beats((10, 20), (30, 40)), (40, 30));
        assert_eq!(heart_beats((50, 60), (30, 40)), (50, 60));
        assert_eq!(heart_beats((0, 20), (30, 40)), (0, 30));
        assert_eq!(heart_beats((10, 20), (0, 0)), (0, 0));
    }

    #[test]
    fn the_heart_beat_header_is_two_numbers() {
        assert_eq!(parse_heart_beat("10000,0"), Some((10000, 0)));
        assert_eq!(parse_heart_beat("1, 2"), Some((1, 2)));
        for broken in ["", "1", "1,", "-1,2", "+1,2", "1,2,3", "1,99999999999"] {
            assert_eq!(parse_heart_beat(broken), None, "{broken}");
        }
    }
}
