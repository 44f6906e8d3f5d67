//! How `thalweg sub` prints a message: a text with marks, or one of the words `json`, `raw`, `hex`.

use std::io::{self, Write};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use thalweg_client::{Message, Reliability};
use thalweg_model::calendar;
use thalweg_mqtt::{Publish, QoS};

/// How a message is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text with marks, a line feed at the end.
    Marks(Vec<Piece>),
    /// One JSON object per line. A payload that is not UTF-8 is given in hex, as `payload_hex`.
    Json,
    /// The payload's bytes, and nothing between one payload and the next.
    Raw,
    /// The payload in hex, one per line.
    Hex,
}

/// A part of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text as it stands.
    Text(String),
    /// A mark: the letter behind `%`.
    Mark(Mark),
}

macro_rules! marks {
    ($($letter:literal $mark:ident $doc:literal;)*) => {
        /// What a mark stands for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mark {
            $(#[doc = $doc] $mark,)*
        }

        impl Mark {
            fn of(letter: char) -> Option<Mark> {
                match letter {
                    $($letter => Some(Mark::$mark),)*
                    _ => None,
                }
            }

            const LETTERS: &'static [char] = &[$($letter),*];
        }
    };
}

marks! {
    't' Topic "Topic.";
    'p' Payload "Payload, as it came.";
    'x' PayloadHex "Payload in hex.";
    'l' Length "Length of the payload in bytes.";
    'q' Qos "QoS.";
    'r' Retain "1 if the message was retained, else 0.";
    'd' Dup "1 if it may have come before, else 0.";
    'T' Time "Time of arrival, RFC 3339 in UTC.";
    'c' ContentType "Content type.";
    'R' ResponseTopic "Response topic.";
    'C' Correlation "Correlation data in hex.";
    'e' Expiry "Seconds until it expires.";
    'u' UserProperties "User properties as name=value, comma-separated.";
    'i' SubscriptionIds "Subscription identifiers, comma-separated.";
}

/// A message that arrived.
#[derive(Clone, Debug)]
pub struct Arrival<'a> {
    /// Where it was published.
    pub topic: &'a str,
    pub payload: &'a [u8],
    /// With which QoS it came.
    pub qos: QoS,
    /// Whether it was retained.
    pub retain: bool,
    /// Whether it may have come before.
    pub dup: bool,
    /// Media type of the payload.
    pub content_type: Option<&'a str>,
    /// Where an answer goes.
    pub response_topic: Option<&'a str>,
    /// What ties an answer to its question.
    pub correlation: Option<&'a [u8]>,
    /// Seconds until it expires.
    pub expiry_secs: Option<u32>,
    pub user: Vec<(&'a str, &'a str)>,
    /// Subscription identifiers (MQTT 5).
    pub subscription_ids: Vec<u32>,
    pub time: SystemTime,
}

impl<'a> Arrival<'a> {
    /// What a PUBLISH brings.
    pub fn new(publish: &'a Publish<'_>, time: SystemTime) -> Arrival<'a> {
        let properties = &publish.properties;
        Arrival {
            topic: publish.topic.as_str(),
            payload: publish.payload,
            qos: publish.qos,
            retain: publish.retain,
            dup: publish.dup,
            content_type: properties.content_type(),
            response_topic: properties.response_topic(),
            correlation: properties.correlation_data(),
            expiry_secs: properties.message_expiry(),
            user: properties.user_properties().collect(),
            subscription_ids: properties.subscription_ids().collect(),
            time,
        }
    }

    /// What a message brings, whatever protocol it came by.
    pub fn of(message: &'a Message, time: SystemTime) -> Arrival<'a> {
        Arrival {
            topic: message.topic(),
            payload: message.payload(),
            qos: match message.reliability() {
                Reliability::AtMostOnce => QoS::AtMostOnce,
                Reliability::AtLeastOnce => QoS::AtLeastOnce,
                Reliability::ExactlyOnce => QoS::ExactlyOnce,
            },
            retain: message.is_last_value(),
            dup: message.is_repeated(),
            content_type: message.content_type(),
            response_topic: message.reply_to(),
            correlation: message.correlation(),
            expiry_secs: message
                .lifespan()
                .map(|left| u32::try_from(left.secs_ceil()).unwrap_or(u32::MAX)),
            user: message.properties().collect(),
            subscription_ids: Vec::new(),
            time,
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text {
            "json" => return Ok(Format::Json),
            "raw" => return Ok(Format::Raw),
            "hex" => return Ok(Format::Hex),
            _ => {}
        }
        let (mut pieces, mut plain) = (Vec::new(), String::new());
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '%' => match letters.next() {
                    Some('%') => plain.push('%'),
                    Some(letter) => {
                        let known = || {
                            Mark::LETTERS
                                .iter()
                                .map(|letter| format!("%{letter}"))
                                .collect::<Vec<_>>()
                        };
                        let mark = Mark::of(letter).ok_or_else(|| {
                            format!(
                                "%{letter} is not a mark; there are {} and %%",
                                known().join(" ")
                            )
                        })?;
                        if !plain.is_empty() {
                            pieces.push(Piece::Text(std::mem::take(&mut plain)));
                        }
                        pieces.push(Piece::Mark(mark));
                    }
                    None => {
                        return Err("it ends with a single %; write %% for a percent sign".into());
                    }
                },
                '\\' => match letters.next() {
                    Some('n') => plain.push('\n'),
                    Some('t') => plain.push('\t'),
                    Some('\\') => plain.push('\\'),
                    Some('0') => plain.push('\0'),
                    _ => {
                        return Err("a backslash stands before n, t, 0 or another backslash".into());
                    }
                },
                letter => plain.push(letter),
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Format::Marks(pieces))
    }
}

impl Format {
    pub fn write(&self, arrival: &Arrival<'_>, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Format::Raw => out.write_all(arrival.payload),
            Format::Hex => writeln!(out, "{}", hex(arrival.payload)),
            Format::Json => {
                serde_json::to_writer(&mut *out, &JsonMessage::new(arrival))?;
                out.write_all(b"\n")
            }
            Format::Marks(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => out.write_all(text.as_bytes())?,
                        Piece::Mark(mark) => mark.write(arrival, out)?,
                    }
                }
                out.write_all(b"\n")
            }
        }
    }
}

impl Mark {
    fn write(self, arrival: &Arrival<'_>, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Mark::Topic => out.write_all(arrival.topic.as_bytes()),
            Mark::Payload => out.write_all(arrival.payload),
            Mark::PayloadHex => out.write_all(hex(arrival.payload).as_bytes()),
            Mark::Length => write!(out, "{}", arrival.payload.len()),
            Mark::Qos => write!(out, "{}", arrival.qos as u8),
            Mark::Retain => write!(out, "{}", u8::from(arrival.retain)),
            Mark::Dup => write!(out, "{}", u8::from(arrival.dup)),
            Mark::Time => out.write_all(rfc3339(arrival.time).as_bytes()),
            Mark::ContentType => out.write_all(arrival.content_type.unwrap_or_default().as_bytes()),
            Mark::ResponseTopic => {
                out.write_all(arrival.response_topic.unwrap_or_default().as_bytes())
            }
            Mark::Correlation => {
                out.write_all(hex(arrival.correlation.unwrap_or_default()).as_bytes())
            }
            Mark::Expiry => arrival
                .expiry_secs
                .map_or(Ok(()), |seconds| write!(out, "{seconds}")),
            Mark::UserProperties => {
                let pairs: Vec<_> = arrival
                    .user
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                out.write_all(pairs.join(",").as_bytes())
            }
            Mark::SubscriptionIds => {
                let ids: Vec<_> = arrival
                    .subscription_ids
                    .iter()
                    .map(u32::to_string)
                    .collect();
                out.write_all(ids.join(",").as_bytes())
            }
        }
    }
}

/// The JSON form; the order of the fields is the order in the text.
#[derive(Serialize)]
struct JsonMessage<'a> {
    time: String,
    topic: &'a str,
    qos: u8,
    retain: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dup: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry_secs: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    user_properties: Vec<(&'a str, &'a str)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subscription_ids: Vec<u32>,
}

impl<'a> JsonMessage<'a> {
    fn new(arrival: &Arrival<'a>) -> JsonMessage<'a> {
        let text = std::str::from_utf8(arrival.payload).ok();
        JsonMessage {
            time: rfc3339(arrival.time),
            topic: arrival.topic,
            qos: arrival.qos as u8,
            retain: arrival.retain,
            dup: arrival.dup,
            payload: text,
            payload_hex: text.is_none().then(|| hex(arrival.payload)),
            content_type: arrival.content_type,
            response_topic: arrival.response_topic,
            correlation_hex: arrival.correlation.map(hex),
            expiry_secs: arrival.expiry_secs,
            user_properties: arrival.user.clone(),
            subscription_ids: arrival.subscription_ids.clone(),
        }
    }
}

/// Two lower-case digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|half| DIGITS.get(half as usize))
        .collect()
}

/// The bytes that two hex digits each stand for; nothing if these are other characters, or an odd number of them.
pub fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let half = |digit: u8| char::from(digit).to_digit(16);
    pairs
        .iter()
        .map(|[high, low]| u8::try_from(half(*high)? << 4 | half(*low)?).ok())
        .collect()
}

/// A moment as `2026-11-20T13:37:00.123Z` (RFC 3339), in UTC.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    calendar::rfc3339(since.as_secs(), Some(since.subsec_millis().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: &str, arrival: &Arrival<'_>) -> String {
        let mut out = Vec::new();
        let format: Format = format
            .parse()
            .unwrap_or_else(|error| panic!("{format}: {error}"));
        format
            .write(arrival, &mut out)
            .expect("a vector takes everything");
        String::from_utf8(out).expect("the test prints text")
    }

    fn arrival(payload: &[u8]) -> Arrival<'_> {
        Arrival {
            topic: "a/b",
            payload,
            qos: QoS::AtLeastOnce,
            retain: true,
            dup: false,
            content_type: None,
            response_topic: None,
            correlation: None,
            expiry_secs: None,
            user: Vec::new(),
            subscription_ids: Vec::new(),
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_181_820_123),
        }
    }

    #[test]
    fn marks_are_replaced() {
        let table = [
            ("%t %p", "a/b 21.5\n"),
            ("%q%r%d %l", "110 4\n"),
            ("%x", "32312e35\n"),
            ("100%% \\t\\\\%t", "100% \t\\a/b\n"),
            ("[%c|%R|%C|%e|%u|%i]", "[|||||]\n"),
            ("%T", "2026-11-20T13:37:00.123Z\n"),
            ("", "\n"),
            ("hex", "32312e35\n"),
            ("raw", "21.5"),
        ];
        for (format, text) in table {
            assert_eq!(printed(format, &arrival(b"21.5")), text, "{format}");
        }
    }

    #[test]
    fn json_is_one_object_per_line_and_binary_is_hex() {
        let start =
            "{\"time\":\"2026-11-20T13:37:00.123Z\",\"topic\":\"a/b\",\"qos\":1,\"retain\":true,";
        assert_eq!(
            printed("json", &arrival(b"a\"b")),
            format!("{start}\"payload\":\"a\\\"b\"}}\n")
        );
        assert_eq!(
            printed("json", &arrival(&[0xff, 0])),
            format!("{start}\"payload_hex\":\"ff00\"}}\n")
        );
    }

    #[test]
    fn a_format_that_means_nothing_is_refused_in_words() {
        for (format, words) in [
            ("%z", "%z is not a mark"),
            ("50%", "single %"),
            ("\\q", "backslash"),
        ] {
            let error = format.parse::<Format>().expect_err(format);
            assert!(error.contains(words), "{format}: {error}");
        }
    }

    #[test]
    fn hex_is_read_as_it_is_written() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(hex(&all).as_bytes()), Some(all));
        assert_eq!(from_hex(b"00fF"), Some(vec![0, 255]));
        assert_eq!(
            (from_hex(b"0"), from_hex(b"+1"), from_hex(b"0g")),
            (None, None, None)
        );
    }

    #[test]
    fn dates_are_right_around_leap_days() {
        let table = [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_735_603_200, "2024-12-31"),
            (1_735_689_600, "2025-01-01"),
            (4_107_542_400, "2100-03-01"),
        ];
        for (seconds, date) in table {
            let shown = rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(shown.split('T').next(), Some(date), "{seconds}");
        }
    }
}
