//! Alerts (RFC 5246 §7.2): what a peer is sent when the association fails, and the cause for the log.

use std::borrow::Cow;

/// A fatal alert, and the reason in words.
#[derive(Debug)]
pub struct Alert {
    /// The description that is sent, one of the numbers here.
    pub description: u8,
    /// Cause in words, for the log; never sent.
    pub why: Cow<'static, str>,
}

pub(crate) const WARNING: u8 = 1;
pub(crate) const FATAL: u8 = 2;

/// Nothing more will come.
pub const CLOSE_NOTIFY: u8 = 0;
/// A message that has no place there.
pub const UNEXPECTED_MESSAGE: u8 = 10;
/// Nothing in common, or something required is missing.
pub const HANDSHAKE_FAILURE: u8 = 40;
/// A certificate that cannot be read.
pub const BAD_CERTIFICATE: u8 = 42;
/// A certificate that its authority has taken back.
pub const CERTIFICATE_REVOKED: u8 = 44;
/// A certificate that is not valid now.
pub const CERTIFICATE_EXPIRED: u8 = 45;
/// A certificate that is unacceptable for another reason.
pub const CERTIFICATE_UNKNOWN: u8 = 46;
/// A field that says what it must not.
pub const ILLEGAL_PARAMETER: u8 = 47;
/// A certificate of an authority that is not trusted.
pub const UNKNOWN_CA: u8 = 48;
/// A message that is not what its lengths say.
pub const DECODE_ERROR: u8 = 50;
/// A signature or Finished that does not fit: another key.
pub const DECRYPT_ERROR: u8 = 51;
/// A version that is not spoken.
pub const PROTOCOL_VERSION: u8 = 70;
/// Not the peer's fault.
pub const INTERNAL_ERROR: u8 = 80;
/// An association is not renegotiated.
pub const NO_RENEGOTIATION: u8 = 100;
/// An answer to an extension that was not offered.
pub const UNSUPPORTED_EXTENSION: u8 = 110;

impl Alert {
    /// The description that is sent, and the cause for the log.
    pub fn new(description: u8, why: impl Into<Cow<'static, str>>) -> Alert {
        Alert {
            description,
            why: why.into(),
        }
    }

    /// The peer's bytes are not what the message says they are.
    pub(crate) fn malformed(why: &'static str) -> Alert {
        Alert::new(DECODE_ERROR, why)
    }
}

/// Name of an alert that a peer has sent.
pub(crate) fn name(description: u8) -> &'static str {
    match description {
        CLOSE_NOTIFY => "close_notify",
        UNEXPECTED_MESSAGE => "unexpected_message",
        20 => "bad_record_mac",
        HANDSHAKE_FAILURE => "handshake_failure",
        BAD_CERTIFICATE => "bad_certificate",
        CERTIFICATE_REVOKED => "certificate_revoked",
        CERTIFICATE_EXPIRED => "certificate_expired",
        CERTIFICATE_UNKNOWN => "certificate_unknown",
        ILLEGAL_PARAMETER => "illegal_parameter",
        UNKNOWN_CA => "unknown_ca",
        DECODE_ERROR => "decode_error",
        DECRYPT_ERROR => "decrypt_error",
        PROTOCOL_VERSION => "protocol_version",
        INTERNAL_ERROR => "internal_error",
        90 => "user_canceled",
        NO_RENEGOTIATION => "no_renegotiation",
        UNSUPPORTED_EXTENSION => "unsupported_extension",
        115 => "unknown_psk_identity",
        _ => "an alert without a name here",
    }
}
