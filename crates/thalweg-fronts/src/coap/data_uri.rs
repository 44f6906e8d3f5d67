//! Where a topic's data are, as its configuration says it: a URI reference. Ours are `/ps/data/<levels…>`; others lie
//! elsewhere, and are only passed on. Pure.
//!
//! A level of the path is a level of the address, percent-encoded by RFC 3986.

use crate::address::{in_tenant, read_level, write_level};
use thalweg_model::Address;

/// Where a topic's data are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DataUri {
    /// Here, at this canonical address.
    Here(Box<str>),
    /// At another server, or what calls itself so.
    Elsewhere,
}

/// What the paths of data begin with, without the first slash.
const PATH: &str = "ps/data/";

/// A level that is longer fits no Uri-Path option. RFC 7252 §5.10
const LEVEL_BYTES_MAX: usize = 255;

const ELSEWHERE: &str = "topic-data is neither below /ps/data/ nor a URI with a scheme";
const WRONG_PATH: &str = "topic-data has a level that cannot be read";
const NO_ADDRESS: &str = "topic-data is no address that may be published to";

impl DataUri {
    /// Reads the reference of a topic in a tenant. The error is the peer's diagnostic payload.
    pub(super) fn read(reference: &str, tenant: &str) -> Result<DataUri, &'static str> {
        if has_authority(reference) {
            return Ok(DataUri::Elsewhere);
        }
        let path = reference.strip_prefix('/').unwrap_or(reference);
        let levels = path
            .strip_prefix(PATH)
            .filter(|levels| !levels.is_empty())
            .ok_or(ELSEWHERE)?;
        let mut address = String::with_capacity(reference.len());
        for (at, written) in levels.split('/').enumerate() {
            if at > 0 {
                address.push('/');
            }
            let level = decode_level(written)
                .filter(|level| is_level(level))
                .ok_or(WRONG_PATH)?;
            address.push_str(&write_level(&level));
        }
        if !may_hold_data(&address) {
            return Err(NO_ADDRESS);
        }
        Ok(DataUri::Here(in_its_tenant(tenant, &address)))
    }

    /// The address, if it is one of ours.
    pub(super) fn here(self) -> Option<Box<str>> {
        match self {
            DataUri::Here(address) => Some(address),
            DataUri::Elsewhere => None,
        }
    }

    /// The address that a topic's name is, if it is one; `room/temperature` is what MQTT calls so.
    pub(super) fn of_name(name: &str) -> Option<&str> {
        let fits = |level: &str| !level.is_empty() && is_level(&read_level(level));
        (may_hold_data(name) && name.split('/').all(fits)).then_some(name)
    }

    /// The reference to an address, which is given without its tenant.
    pub(super) fn write(address: &str) -> String {
        let mut out = String::with_capacity(PATH.len() + address.len() + 1);
        write_data_uri(address, &mut out);
        out
    }
}

/// Appends the reference to an address, which is given without its tenant.
pub(super) fn write_data_uri(address: &str, out: &mut String) {
    out.push('/');
    out.push_str(PATH);
    for (at, level) in address.split('/').enumerate() {
        if at > 0 {
            out.push('/');
        }
        encode_level(&read_level(level), out);
    }
}

/// The canonical address of an address in a tenant.
pub(super) fn in_its_tenant(tenant: &str, address: &str) -> Box<str> {
    let mut canonical = String::with_capacity(address.len());
    in_tenant(tenant, address, &mut canonical);
    canonical.into_boxed_str()
}

/// Whether it names a server: `scheme:…` or `//host…`. RFC 3986 §4.2
fn has_authority(reference: &str) -> bool {
    let scheme = reference.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme || reference.starts_with("//")
}

/// Reserved addresses hold what the broker keeps to itself.
fn may_hold_data(address: &str) -> bool {
    Address::check(address).is_ok() && !address.starts_with('$')
}

/// Whether a path can have such a level: dots alone would be removed when the reference is resolved.
fn is_level(level: &str) -> bool {
    level.len() <= LEVEL_BYTES_MAX && level != "." && level != ".."
}

/// What a level of a path says; nothing if that is no text, or if it was the end of the path already.
fn decode_level(written: &str) -> Option<String> {
    let mut level = Vec::with_capacity(written.len());
    let mut bytes = written.bytes();
    while let Some(byte) = bytes.next() {
        level.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            b'?' | b'#' => return None,
            byte => byte,
        });
    }
    String::from_utf8(level).ok()
}

/// Appends a level as a path has it: what RFC 3986 §3.3 lets stand stands.
fn encode_level(level: &str, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in level.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_reference_below_the_data_is_an_address() {
        for (reference, address) in [
            ("/ps/data/1bd0d6d", "1bd0d6d"),
            ("ps/data/a/b", "a/b"),
            ("/ps/data/a//b/", "a//b/"),
            ("/ps/data/a%2Fb/%2b/+/%23", "a%2Fb/%2B/%2B/%23"),
            ("/ps/data/gr%C3%BC%C3%9Fe", "grüße"),
            ("/ps/data/grüße", "grüße"),
            ("/ps/data/100%25", "100%"),
            ("/ps/data/ps/data", "ps/data"),
            ("/ps/data/a:b", "a:b"),
        ] {
            assert_eq!(
                DataUri::read(reference, ""),
                Ok(DataUri::Here(address.into())),
                "{reference}"
            );
        }
        assert_eq!(
            DataUri::read("/ps/data/a/b", "blue"),
            Ok(DataUri::Here("$t@blue/a/b".into()))
        );
    }

    #[test]
    fn a_reference_with_a_server_is_somebody_elses() {
        for reference in [
            "coap://host/ps/data/a",
            "coaps+tcp://[::1]:5684/x",
            "//host/ps/data/a",
            "http:x",
        ] {
            assert_eq!(
                DataUri::read(reference, ""),
                Ok(DataUri::Elsewhere),
                "{reference}"
            );
        }
    }

    #[test]
    fn any_other_reference_is_refused() {
        for (reference, why) in [
            ("/ps/h9392", ELSEWHERE),
            ("/ps/data", ELSEWHERE),
            ("/ps/data/", ELSEWHERE),
            ("data/a", ELSEWHERE),
            ("../data/a", ELSEWHERE),
            ("1a:b", ELSEWHERE),
            ("/ps/data/a?x=1", WRONG_PATH),
            ("/ps/data/a#b", WRONG_PATH),
            ("/ps/data/a/../b", WRONG_PATH),
            ("/ps/data/%2E", WRONG_PATH),
            ("/ps/data/%FF", WRONG_PATH),
            ("/ps/data/%4", WRONG_PATH),
            ("/ps/data/%+1", WRONG_PATH),
            ("/ps/data/$SYS/x", NO_ADDRESS),
        ] {
            assert_eq!(DataUri::read(reference, ""), Err(why), "{reference}");
        }
        let long = format!("/ps/data/{}", "x".repeat(256));
        assert_eq!(DataUri::read(&long, ""), Err(WRONG_PATH));
    }

    #[test]
    fn a_name_that_is_an_address_is_the_address() {
        for name in ["room2", "room2/temp", "living-room-sensor", "a%2Fb", "ü"] {
            assert_eq!(DataUri::of_name(name), Some(name));
        }
        let long = "x".repeat(256);
        for name in [
            "a/+", "a#", "$SYS", "a//b", "/a", "a/", "..", "a/./b", "a\0", &long,
        ] {
            assert_eq!(DataUri::of_name(name), None, "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(levels in prop::collection::vec("\\PC{0,6}|[+#/%$. ]{0,4}|%2F", 1..5)) {
            let address = levels.iter().map(|level| write_level(level)).collect::<Vec<_>>().join("/");
            prop_assume!(may_hold_data(&address) && levels.iter().all(|level| is_level(level)));
            prop_assert_eq!(DataUri::read(&DataUri::write(&address), ""), Ok(DataUri::Here(address.into())));
        }
    }
}
