//! What a receiver asks for, as JSON, and the answer: datagrams as they were sent, each after its length in two bytes.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use thalweg_wire::Reader;

use crate::description::{epoch_of, epoch_to_text};

/// Most ranges of one request.
pub const RANGES_MAX: usize = 64;

/// Numbers of datagrams that have been missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairRequest {
    /// Number of the sender's start of which they are.
    pub epoch: u64,
    /// At most [`RANGES_MAX`], in rising order.
    pub ranges: Vec<RangeInclusive<u64>>,
}

/// Why a text is not a [`RepairRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotARequest(String);

impl fmt::Display for NotARequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a request for lost datagrams: {}", self.0)
    }
}

impl std::error::Error for NotARequest {}

/// The fields as they are written.
#[derive(Serialize, Deserialize)]
struct Written {
    epoch: String,
    ranges: Vec<(u64, u64)>,
}

impl RepairRequest {
    /// As one line of JSON.
    pub fn to_json(&self) -> String {
        let written = Written {
            epoch: epoch_to_text(self.epoch),
            ranges: self
                .ranges
                .iter()
                .map(|it| (*it.start(), *it.end()))
                .collect(),
        };
        serde_json::to_string(&written).expect("numbers and texts are JSON")
    }

    /// Reads what [`RepairRequest::to_json`] wrote.
    pub fn from_json(json: &[u8]) -> Result<Self, NotARequest> {
        let wrong = |what: &str| NotARequest(what.to_owned());
        let written: Written =
            serde_json::from_slice(json).map_err(|error| NotARequest(error.to_string()))?;
        let epoch = epoch_of(&written.epoch).ok_or_else(|| wrong("its epoch is no number"))?;
        let ranges = written.ranges;
        if ranges.is_empty() || ranges.len() > RANGES_MAX {
            return Err(wrong("it must have 1 to 64 ranges"));
        }
        let is_rising = ranges.is_sorted_by(|(_, end), (start, _)| end < start)
            && ranges.iter().all(|(start, end)| start <= end);
        if !is_rising {
            return Err(wrong("its ranges do not rise"));
        }
        let ranges = ranges.into_iter().map(|(start, end)| start..=end).collect();
        Ok(RepairRequest { epoch, ranges })
    }
}

/// Appends a datagram to an answer.
pub(crate) fn put(datagram: &[u8], answer: &mut Vec<u8>) {
    answer.extend_from_slice(&(datagram.len() as u16).to_be_bytes());
    answer.extend_from_slice(datagram);
}

/// The datagrams of an answer, up to where it is cut off.
pub(crate) fn datagrams_of(answer: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut fields = Reader::new(answer);
    std::iter::from_fn(move || fields.bytes16())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let request = RepairRequest {
            epoch: 1,
            ranges: vec![3..=7, 9..=9],
        };
        let json = request.to_json();
        assert_eq!(
            json,
            r#"{"epoch":"0000000000000001","ranges":[[3,7],[9,9]]}"#
        );
        assert_eq!(RepairRequest::from_json(json.as_bytes()), Ok(request));
    }

    #[test]
    fn requests_that_ask_for_too_much_are_refused() {
        let of = |ranges: &str| {
            let json = format!("{{\"epoch\":\"0000000000000001\",\"ranges\":[{ranges}]}}");
            RepairRequest::from_json(json.as_bytes())
        };
        assert!(of("[1,1]").is_ok());
        for wrong in ["", "[2,1]", "[1,3],[3,4]", "[5,6],[1,2]", "[-1,2]", "[1]"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        let many = |count: u64| {
            let ranges: Vec<String> = (0..count).map(|at| format!("[{0},{0}]", 2 * at)).collect();
            of(&ranges.join(","))
        };
        assert!(many(64).is_ok() && many(65).is_err());
    }

    #[test]
    fn an_answer_that_is_cut_off_ends_there() {
        let mut answer = Vec::new();
        put(b"abc", &mut answer);
        put(b"de", &mut answer);
        let read = |answer| datagrams_of(answer).collect::<Vec<_>>();
        assert_eq!(read(&answer), [&b"abc"[..], b"de"]);
        assert_eq!(read(&answer[..8]), [b"abc"]);
        assert!(read(b"\0").is_empty());
    }
}
