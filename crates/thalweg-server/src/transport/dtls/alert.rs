//! Alerts (RFC 5246 §7.2): what a peer is told when it goes no further, and why, for the log.

use std::borrow::Cow;

/// A fatal alert, and the reason in words.
#[derive(Debug)]
pub(super) struct Alert {
    pub description: u8,
    pub why: Cow<'static, str>,
}

pub(super) const WARNING: u8 = 1;
pub(super) const FATAL: u8 = 2;

pub(super) const CLOSE_NOTIFY: u8 = 0;
pub(super) const UNEXPECTED_MESSAGE: u8 = 10;
pub(super) const HANDSHAKE_FAILURE: u8 = 40;
pub(super) const BAD_CERTIFICATE: u8 = 42;
pub(super) const CERTIFICATE_REVOKED: u8 = 44;
pub(super) const CERTIFICATE_EXPIRED: u8 = 45;
pub(super) const CERTIFICATE_UNKNOWN: u8 = 46;
pub(super) const ILLEGAL_PARAMETER: u8 = 47;
pub(super) const UNKNOWN_CA: u8 = 48;
pub(super) const DECODE_ERROR: u8 = 50;
pub(super) const DECRYPT_ERROR: u8 = 51;
pub(super) const PROTOCOL_VERSION: u8 = 70;
pub(super) const INTERNAL_ERROR: u8 = 80;
pub(super) const NO_RENEGOTIATION: u8 = 100;

impl Alert {
    pub fn new(description: u8, why: impl Into<Cow<'static, str>>) -> Alert {
        Alert { description, why: why.into() }
    }

    /// The peer's bytes are not what the message says they are.
    pub fn malformed(why: &'static str) -> Alert {
        Alert::new(DECODE_ERROR, why)
    }
}

/// An alert's name, for what a peer sends us.
pub(super) fn name(description: u8) -> &'static str {
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
        115 => "unknown_psk_identity",
        _ => "an alert without a name here",
    }
}
