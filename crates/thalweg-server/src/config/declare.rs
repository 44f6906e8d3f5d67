//! How the table of keys is written: the macro that makes it, and kinds and numbers that several entries share.

use thalweg_model::Span;

use super::kind::Kind::{self, Duration, Size};

/// Declares `KEYS`. An entry reads: scope, path of the field (which is the name of the key too), kind, default, the
/// word for "none" if there is one, when a change applies; documentation.
macro_rules! keys {
    ($($scope:ident $first:ident $(. $more:ident)*: $kind:expr,
        default $default:literal $(none $none:literal)? $(secret $secret:literal)?, $reload:ident; $doc:literal;)+) => {
        pub(in crate::config) static KEYS: &[Key] = &[$(
            Key {
                name: concat!(prefix!($scope), stringify!($first) $(, ".", stringify!($more))*),
                kind: $kind,
                default: $default,
                none: given!($($none)?),
                secret: matches!(given!($($secret)?), Some(true)),
                reload: $reload,
                doc: $doc,
                field: $scope!($first $(. $more)*),
            },
        )+];
    };
}

macro_rules! prefix {
    (broker) => {
        ""
    };
    (protocol) => {
        ""
    };
    (listener) => {
        "listeners.<name>."
    };
}

macro_rules! given {
    () => {
        None
    };
    ($value:literal) => {
        Some($value)
    };
}

pub(super) use {given, keys, prefix};

/// MQTT's own limit is a Remaining Length of 268,435,455 behind a fixed header of five bytes ([MQTT5-1.5.5]).
pub(super) const fn packet_bytes() -> Kind {
    Size {
        min: 64,
        max: 268_435_460,
    }
}

/// What one message may take: a body is gathered before it is passed on.
pub(super) const fn message_bytes() -> Kind {
    Size {
        min: KIB,
        max: 512 * MIB,
    }
}

/// Keep-alive crosses the wire as whole seconds in two bytes ([MQTT5-3.1.2.10], AMQP 0-9-1 `connection.tune`).
pub(super) const fn keep_alive() -> Kind {
    Duration {
        min: Span::ZERO,
        max: Span::from_secs(65_535),
        step: Span::from_secs(1),
    }
}

/// Expiry crosses the wire as whole seconds in four bytes, of which the last value means "never".
pub(super) const fn expiry(least: u64) -> Kind {
    Duration {
        min: Span::from_secs(least),
        max: Span::from_secs(0xFFFF_FFFE),
        step: Span::from_secs(1),
    }
}

pub(super) const fn seconds(least: u64, most: u64) -> Kind {
    Duration {
        min: Span::from_secs(least),
        max: Span::from_secs(most),
        step: NANO,
    }
}

/// How long a member may take.
pub(super) const SETTLE_TIMEOUT: Kind = seconds(1, 7 * 86_400);

pub(super) const NANO: Span = Span::from_nanos(1);
pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
pub(super) const TIB: u64 = 1 << 40;
