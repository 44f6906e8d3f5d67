//! Translation between the client's terms and MQTT's.

use std::fmt::Write;

use thalweg_model::{Reliability, STAMP_PROPERTY, Span, Stamp};
use thalweg_mqtt::{PublishError, QoS, ReasonCode, TextPairs};

use crate::transport::{Capabilities, LinkFault, Properties, Refusal};

/// Capabilities common to all versions and servers.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    receive_max: Reliability::ExactlyOnce,
    keeps_all: true,
    settles: true,
    wills: true,
    ..Capabilities::STREAM
};

/// The QoS that is as sure.
pub(super) const fn qos(reliability: Reliability) -> QoS {
    match reliability {
        Reliability::AtMostOnce => QoS::AtMostOnce,
        Reliability::AtLeastOnce => QoS::AtLeastOnce,
        Reliability::ExactlyOnce => QoS::ExactlyOnce,
    }
}

/// Returns the reliability of a QoS.
pub(super) const fn reliability(qos: QoS) -> Reliability {
    match qos {
        QoS::AtMostOnce => Reliability::AtMostOnce,
        QoS::AtLeastOnce => Reliability::AtLeastOnce,
        QoS::ExactlyOnce => Reliability::ExactlyOnce,
    }
}

/// Message expiry in seconds; nothing for one without end, or longer than can be said.
pub(super) fn expiry(lifespan: Span) -> Option<u32> {
    u32::try_from(lifespan.secs_ceil())
        .ok()
        .filter(|_| lifespan != Span::FOREVER)
}

/// Session expiry in seconds. §3.1.2.11.2
pub(super) fn session_expiry(session: Span) -> u32 {
    u32::try_from(session.secs_ceil()).unwrap_or(u32::MAX)
}

/// The user properties of a publish: the user's, and the stamp.
pub(super) struct Pairs<'m> {
    pub(super) properties: Properties<'m>,
    pub(super) stamp: Option<&'m str>,
}

impl TextPairs for Pairs<'_> {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        for (name, value) in self.properties.iter() {
            each(name, value);
        }
        if let Some(stamp) = self.stamp {
            each(STAMP_PROPERTY, stamp);
        }
    }
}

/// Sorts received user properties: the stamp, and into `kept` what is the user's.
pub(super) fn sort<'b>(
    pairs: impl Iterator<Item = (&'b str, &'b str)>,
    kept: &mut Vec<u8>,
) -> Option<Stamp> {
    kept.clear();
    let mut stamp = None;
    for (name, value) in pairs {
        match value.parse() {
            Ok(parsed) if name == STAMP_PROPERTY && stamp.is_none() => stamp = Some(parsed),
            _ => {
                Properties::push(name, value, kept);
            }
        }
    }
    stamp
}

/// Maps a reason code of a response to a refusal.
pub(super) fn refusal(reason: ReasonCode, words: Option<&str>) -> Refusal {
    use ReasonCode::*;
    match reason {
        TopicFilterInvalid | TopicNameInvalid => Refusal::Address,
        SharedSubscriptionsNotSupported => {
            Refusal::Unsupported("the server knows no shared subscriptions")
        }
        SubscriptionIdsNotSupported => {
            Refusal::Unsupported("the server knows no subscription identifiers")
        }
        WildcardSubscriptionsNotSupported => Refusal::Unsupported("the server knows no wildcards"),
        ServerBusy
        | ServerUnavailable
        | QuotaExceeded
        | MessageRateTooHigh
        | ReceiveMaximumExceeded => Refusal::Busy(spoken(reason, words)),
        _ => Refusal::Denied(spoken(reason, words)),
    }
}

/// Why a connection was refused or ended.
pub(super) fn link_fault(
    what: &str,
    reason: ReasonCode,
    words: Option<&str>,
    server: Option<&str>,
) -> LinkFault {
    use ReasonCode::*;
    let mut text = format!("{what}: {}", spoken(reason, words));
    if let Some(server) = server {
        let _ = write!(text, "; it names another server: {server}");
    }
    let is_final = matches!(
        reason,
        UnsupportedProtocolVersion
            | ClientIdentifierNotValid
            | BadUserNameOrPassword
            | NotAuthorized
            | Banned
            | BadAuthenticationMethod
            | ServerMoved
            | TopicNameInvalid
            | RetainNotSupported
            | QosNotSupported
    );
    LinkFault {
        words: text,
        is_final,
    }
}

fn spoken(reason: ReasonCode, words: Option<&str>) -> String {
    match words {
        Some(words) => format!("{reason}: {words}"),
        None => reason.to_string(),
    }
}

/// Why a publish was not written.
pub(super) fn not_sent(error: PublishError, overhead: usize) -> Refusal {
    match error {
        PublishError::TooLarge(e) => Refusal::TooLarge {
            limit: (e.packet_bytes_max as usize)
                .min(1 << 28)
                .saturating_sub(overhead),
        },
        PublishError::ReceiveMaximum => Refusal::Window,
        PublishError::QosNotSupported => {
            Refusal::Unsupported("the server does not take this reliability")
        }
        PublishError::RetainNotSupported => Refusal::Unsupported("the server keeps no last values"),
        PublishError::NotConnected => Refusal::NotConnected,
    }
}
