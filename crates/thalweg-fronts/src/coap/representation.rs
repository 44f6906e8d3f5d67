//! A message as a response shows it: Content-Format, ETag, Max-Age. And back: what a request says of its payload.

use crate::{native, stamp};
use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};
use thalweg_coap::content_format;
use thalweg_model::{Message, Properties, Time};

/// Begins the media type of a Content-Format that has no name here, so that its number comes back.
const NUMBERED: &str = "application/x-coap-content-format-";
/// The Content-Format of a media type that has no number: octet-stream.
const OCTET_STREAM: u16 = 42;
/// The Content-Format of text.
const TEXT: u16 = 0;

/// What a message looks like to a CoAP client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Representation {
    /// What its payload is; nothing if its publisher did not say.
    pub(super) content_format: Option<u16>,
    /// The same for the same payload and format.
    pub(super) etag: [u8; 4],
    /// For how many seconds it is fresh.
    pub(super) max_age_secs: u32,
    /// Its publisher's name for it.
    pub(super) stamp: Option<StampBytes>,
}

/// Options that show a message, at the most.
pub(super) const OPTIONS_MAX: usize = 4;

/// A stamp as the option has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StampBytes([u8; 16], usize);

impl StampBytes {
    pub(super) fn as_slice(&self) -> Option<&[u8]> {
        self.0.get(..self.1)
    }
}

impl Representation {
    /// What `message` looks like now. A message that does not expire is fresh for `max_age_secs`.
    pub(super) fn of(message: &Message, max_age_secs: u32, now: Time) -> Self {
        let content_format = message.properties().and_then(format_of);
        let max_age_secs = match message.expires() {
            Time::NEVER => max_age_secs,
            // Rounded down: it must not be thought fresh when it has expired.
            expires => {
                u32::try_from(expires.since(now).nanos() / 1_000_000_000).unwrap_or(u32::MAX)
            }
        };
        let stamp = message.properties().and_then(stamp::carried).map(|stamp| {
            let (bytes, len) = stamp.to_bytes();
            StampBytes(bytes, len)
        });
        Representation {
            content_format,
            etag: etag(message.payload(), content_format),
            max_age_secs,
            stamp,
        }
    }

    /// The same of this format, if its publisher did not say what it is.
    pub(super) fn or_format(self, format: Option<u16>) -> Self {
        Representation {
            content_format: self.content_format.or(format),
            ..self
        }
    }
}

/// The Content-Format of a message with these properties.
pub(super) fn format_of(properties: &Properties) -> Option<u16> {
    let properties: Cow<'_, Properties> = native::neutral(properties);
    match (
        properties.content_type.as_deref(),
        properties.payload_is_text,
    ) {
        (Some(media_type), _) => Some(number_of(media_type)),
        (None, Some(true)) => Some(TEXT),
        (None, _) => None,
    }
}

/// The Content-Format of a media type.
fn number_of(media_type: &str) -> u16 {
    let numbered = || media_type.strip_prefix(NUMBERED)?.parse().ok();
    content_format::number(media_type)
        .or_else(numbered)
        .unwrap_or(OCTET_STREAM)
}

/// The media type of a Content-Format.
pub(super) fn media_type_of(number: u16) -> Cow<'static, str> {
    match content_format::media_type(number) {
        Some(media_type) => Cow::Borrowed(media_type),
        None => Cow::Owned(format!("{NUMBERED}{number}")),
    }
}

/// Distinguishes representations. A peer gains nothing by a collision, so the hash need not be a cryptographic one.
fn etag(payload: &[u8], content_format: Option<u16>) -> [u8; 4] {
    let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
    hasher.write_u32(content_format.map_or(u32::MAX, u32::from));
    hasher.write(payload);
    let hash = hasher.finish();
    ((hash >> 32) as u32 ^ hash as u32).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_model::{Reliability, RetainOp, Span};

    fn message(payload: &[u8], content_type: Option<&str>, expires: Time) -> Message {
        let properties = Properties {
            content_type: content_type.map(Into::into),
            ..Properties::default()
        };
        let properties = content_type.map(|_| Box::new(properties));
        Message::new(
            "a",
            payload,
            Reliability::AtMostOnce,
            RetainOp::Set,
            expires,
            Time::ZERO,
            0,
            properties,
        )
    }

    fn look(payload: &[u8], content_type: Option<&str>) -> Representation {
        Representation::of(&message(payload, content_type, Time::NEVER), 60, Time::ZERO)
    }

    #[test]
    fn a_content_format_comes_back_whether_it_has_a_name_or_not() {
        for number in [0, 40, 41, 42, 47, 50, 60, 112, 11542, 606, 65000, 65535] {
            let media_type = media_type_of(number);
            assert_eq!(
                look(b"x", Some(&media_type)).content_format,
                Some(number),
                "{media_type}"
            );
        }
        for (media_type, number) in [
            ("application/json", 50),
            ("text/plain;charset=utf-8", 0),
            ("text/plain", 0),
            ("application/cbor", 60),
            ("video/mp4", 42),
            ("", 42),
        ] {
            assert_eq!(
                look(b"x", Some(media_type)).content_format,
                Some(number),
                "{media_type}"
            );
        }
        assert_eq!(look(b"x", None).content_format, None);
    }

    #[test]
    fn an_etag_is_of_payload_and_format() {
        let mut seen = std::collections::HashSet::new();
        let payloads: Vec<Vec<u8>> = (0..40)
            .map(|len| vec![0; len])
            .chain((0..250).map(|byte| vec![byte + 1]))
            .collect();
        for payload in &payloads {
            for content_type in [
                None,
                Some("application/json"),
                Some("text/plain;charset=utf-8"),
            ] {
                let etag = look(payload, content_type).etag;
                assert_eq!(etag, look(payload, content_type).etag);
                assert!(seen.insert(etag), "{payload:?} {content_type:?}");
            }
        }
    }

    #[test]
    fn a_value_is_fresh_no_longer_than_it_lives() {
        let second = 1_000_000_000;
        for (left, secs) in [
            (0, 0),
            (second - 1, 0),
            (second, 1),
            (90 * second, 90),
            (u64::MAX / 2, u32::MAX),
        ] {
            let message = message(b"x", None, Time::from_secs(100) + Span::from_nanos(left));
            assert_eq!(
                Representation::of(&message, 60, Time::from_secs(100)).max_age_secs,
                secs
            );
        }
        assert_eq!(look(b"x", None).max_age_secs, 60);
    }
}
