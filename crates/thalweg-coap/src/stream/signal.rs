//! Signals: what both ends say about the connection itself. §5

use crate::option::is_critical;
use crate::{Code, Encoder, Options};

/// Option numbers of signals: each signal counts for itself. §11.2
pub(super) mod number {
    pub const CSM_MAX_MESSAGE_SIZE: u16 = 2;
    pub const CSM_BLOCK_WISE_TRANSFER: u16 = 4;
    pub const PING_CUSTODY: u16 = 2;
    pub const RELEASE_ALTERNATIVE_ADDRESS: u16 = 2;
    pub const RELEASE_HOLD_OFF: u16 = 4;
    pub const ABORT_BAD_CSM_OPTION: u16 = 2;
}

/// Announced capabilities of an end: Capabilities and Settings. §5.3
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Csm {
    /// Largest accepted message, from the first byte of its length to the last of its payload.
    pub message_bytes_max: u32,
    /// Whether it understands block-wise transfer.
    pub blockwise: bool,
}

impl Csm {
    /// Defaults of an end that has not announced anything else. §5.3.1
    pub const BASE: Csm = Csm {
        message_bytes_max: 1152,
        blockwise: false,
    };

    /// Whether it takes several blocks of 1024 bytes in one message. §6
    pub const fn takes_bert(self) -> bool {
        self.blockwise && self.message_bytes_max > Csm::BASE.message_bytes_max
    }

    /// Applies the announced values; others stay as they were.
    pub(super) fn update(&mut self, options: Options<'_>) {
        for (option, value) in options {
            match (option, crate::options::uint(value)) {
                (number::CSM_MAX_MESSAGE_SIZE, Some(bytes)) => self.message_bytes_max = bytes,
                (number::CSM_BLOCK_WISE_TRANSFER, _) => self.blockwise = true,
                _ => {}
            }
        }
    }

    pub(super) fn encode(self, encoder: &mut Encoder<'_>) {
        if self.message_bytes_max != Csm::BASE.message_bytes_max {
            encoder.uint(number::CSM_MAX_MESSAGE_SIZE, self.message_bytes_max);
        }
        if self.blockwise {
            encoder.option(number::CSM_BLOCK_WISE_TRANSFER, &[]);
        }
    }
}

/// The peer wishes that the connection ends, in order: answer what it asked, ask nothing new, close. §5.5
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release<'b> {
    options: Options<'b>,
}

impl<'b> Release<'b> {
    pub(super) fn new(options: Options<'b>) -> Release<'b> {
        Release { options }
    }

    /// Where to connect instead: `host:port`, those that are text.
    pub fn alternatives(&self) -> impl Iterator<Item = &'b str> + use<'b> {
        let values = self
            .options
            .iter()
            .filter(|(option, _)| *option == number::RELEASE_ALTERNATIVE_ADDRESS);
        values
            .filter_map(|(_, value)| str::from_utf8(value).ok())
            .filter(|text| !text.is_empty())
    }

    /// For how many seconds not to connect again.
    pub fn hold_off_seconds(&self) -> Option<u32> {
        let value = first(self.options, number::RELEASE_HOLD_OFF)?;
        crate::options::uint(value).filter(|_| value.len() <= 3)
    }
}

/// The peer ends the connection at once. §5.6
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort<'b> {
    /// The option of our CSM that it could not do with.
    pub bad_csm_option: Option<u16>,
    /// Why, in words for a person.
    pub diagnostic: &'b [u8],
}

impl<'b> Abort<'b> {
    pub(super) fn new(options: Options<'b>, diagnostic: &'b [u8]) -> Abort<'b> {
        let bad = first(options, number::ABORT_BAD_CSM_OPTION).and_then(crate::options::uint);
        Abort {
            bad_csm_option: bad.and_then(|bad| u16::try_from(bad).ok()),
            diagnostic,
        }
    }
}

/// Whether a Ping or Pong has Custody.
pub(super) fn has_custody(options: Options<'_>) -> bool {
    first(options, number::PING_CUSTODY).is_some()
}

/// The first critical option that means nothing in this signal. Those that mean something are all elective. §5.2
pub(super) fn critical(options: Options<'_>) -> Option<u16> {
    options
        .iter()
        .map(|(option, _)| option)
        .find(|option| is_critical(*option))
}

/// The value of an option; not with `Options::get`, which checks the lengths of options of requests and responses.
fn first<'b>(options: Options<'b>, number: u16) -> Option<&'b [u8]> {
    options
        .iter()
        .find(|(option, _)| *option == number)
        .map(|(_, value)| value)
}

/// Whether this is a signal that has a meaning.
pub(super) fn is_known(code: Code) -> bool {
    matches!(
        code,
        Code::CSM | Code::PING | Code::PONG | Code::RELEASE | Code::ABORT
    )
}
