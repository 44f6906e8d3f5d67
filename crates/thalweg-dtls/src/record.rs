//! The record layer (RFC 6347 §4.1): headers, and which record numbers were seen.
//!
//! ```text
//!  0        1        3        5               11       13
//! +--------+--------+--------+---------------+--------+----------+
//! | content| version| epoch  | record number | length | fragment |
//! +--------+--------+--------+---------------+--------+----------+
//! ```

use thalweg_wire::Reader;

/// Content types of records.
pub mod content {
    pub const CHANGE_CIPHER_SPEC: u8 = 20;
    pub const ALERT: u8 = 21;
    pub const HANDSHAKE: u8 = 22;
    pub const APPLICATION_DATA: u8 = 23;
}

/// DTLS 1.2 on the wire: the ones' complement of 1.2.
pub const VERSION_1_2: u16 = 0xfefd;

/// DTLS 1.0 on the wire. A HelloVerifyRequest says so whatever comes after it (RFC 6347 §4.2.1).
pub const VERSION_1_0: u16 = 0xfeff;

/// Record numbers have 48 bits.
pub const NUMBER_MAX: u64 = (1 << 48) - 1;

/// The longest text in a record (RFC 5246 §6.2.1).
pub const PLAIN_MAX: usize = 1 << 14;

/// The longest fragment of an encrypted record (RFC 5246 §6.2.3).
const FRAGMENT_MAX: usize = PLAIN_MAX + 2048;

/// A record as it stands in a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Record<'d> {
    pub content: u8,
    pub epoch: u16,
    pub number: u64,
    pub fragment: &'d [u8],
}

impl<'d> Record<'d> {
    /// The next record of a datagram. `None`: there is none; what is left is not DTLS and is passed over in silence
    /// (RFC 6347 §4.1.2.7).
    pub fn take(datagram: &mut Reader<'d>) -> Option<Record<'d>> {
        let content = datagram.u8()?;
        let version = datagram.u16()?;
        let place = datagram.u64()?;
        let fragment = datagram.bytes16()?;
        let (epoch, number) = ((place >> 48) as u16, place & NUMBER_MAX);
        // A client that does not know yet which version is spoken may say the older one.
        let known = version == VERSION_1_2 || version == VERSION_1_0 && epoch == 0;
        (known && fragment.len() <= FRAGMENT_MAX).then_some(Record {
            content,
            epoch,
            number,
            fragment,
        })
    }
}

/// Appends a header; the fragment of `length` bytes comes behind it.
pub fn write_header(
    out: &mut Vec<u8>,
    content: u8,
    version: u16,
    epoch: u16,
    number: u64,
    length: usize,
) {
    debug_assert!(number <= NUMBER_MAX && length <= FRAGMENT_MAX);
    out.push(content);
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&place(epoch, number).to_be_bytes());
    out.extend_from_slice(&(length as u16).to_be_bytes());
}

/// Epoch and record number as one: what nonces and checks of integrity are made of.
pub fn place(epoch: u16, number: u64) -> u64 {
    u64::from(epoch) << 48 | number
}

/// Window of the last 64 received record numbers (RFC 6347 §4.1.2.6).
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayWindow {
    /// The number after the highest one seen.
    next: u64,
    /// Bit 0 is `next - 1`.
    seen: u64,
}

impl ReplayWindow {
    /// Whether a record with this number may be looked at.
    pub fn is_new(&self, number: u64) -> bool {
        match self.next.checked_sub(number + 1) {
            None => true,
            Some(age) => age < 64 && self.seen >> age & 1 == 0,
        }
    }

    /// Remembers a number; only for a record that was authentic.
    pub fn remember(&mut self, number: u64) {
        match (number + 1).checked_sub(self.next) {
            Some(ahead) if ahead > 0 => {
                self.seen = if ahead < 64 {
                    self.seen << ahead | 1
                } else {
                    1
                };
                self.next = number + 1;
            }
            _ => {
                let age = self.next - 1 - number;
                if age < 64 {
                    self.seen |= 1 << age;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_number_passes_once_and_not_when_it_is_old() {
        let mut window = ReplayWindow::default();
        for (number, new) in [
            (0, true),
            (0, false),
            (5, true),
            (3, true),
            (5, false),
            (3, false),
            (70, true),
            (6, false),
            (7, true),
        ] {
            assert_eq!(window.is_new(number), new, "{number}");
            if new {
                window.remember(number);
            }
        }
        window.remember(70 + 64);
        assert!(!window.is_new(70) && window.is_new(71));
        window.remember(NUMBER_MAX);
        assert!(
            !window.is_new(NUMBER_MAX)
                && window.is_new(NUMBER_MAX - 63)
                && !window.is_new(NUMBER_MAX - 64)
        );
    }

    #[test]
    fn what_is_cut_short_or_not_dtls_is_no_record() {
        let mut bytes = Vec::new();
        write_header(&mut bytes, content::HANDSHAKE, VERSION_1_0, 0, 7, 3);
        bytes.extend_from_slice(b"abc");
        let record = Record::take(&mut Reader::new(&bytes)).expect("a record");
        assert_eq!(
            (record.content, record.epoch, record.number, record.fragment),
            (22, 0, 7, &b"abc"[..])
        );
        bytes[4] = 1;
        assert!(
            Record::take(&mut Reader::new(&bytes)).is_none(),
            "1.0 and protected"
        );
        (bytes[2], bytes[4]) = (0xfd, 1);
        assert!(Record::take(&mut Reader::new(&bytes)).is_some_and(|record| record.epoch == 1));
        for len in 0..bytes.len() {
            assert!(
                Record::take(&mut Reader::new(&bytes[..len])).is_none(),
                "{len}"
            );
        }
        bytes[1] = 3;
        assert!(Record::take(&mut Reader::new(&bytes)).is_none());
    }
}
