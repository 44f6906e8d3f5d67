//! What protocols can, in one table; and what a need leaves out, with the reason.

use std::fmt;

use clap::ValueEnum;

use super::choice::Choice;
use crate::cell::{Leg, Protocol};
use crate::studies::group;

/// What an application cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Need {
    /// Nothing that was acknowledged is lost on the way
    AtLeastOnce,
    /// And nothing comes twice
    ExactlyOnce,
    /// Filters with a wildcard for a level
    Wildcards,
    /// Who subscribes later has the last value at once
    Lvc,
    /// Requests to one client, and its answers
    P2p,
    /// Filters that look into payloads
    ContentFilter,
    /// No broker between publisher and subscriber
    Decentralised,
    /// One packet for many subscribers
    Multicast,
    /// Messages that are dropped when they are too old
    Expiry,
    /// Messages that overtake others
    Priority,
    /// Subscribers that share the work
    SharedGroup,
}

/// A protocol as it is spoken: the versions of MQTT differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spoken {
    /// MQTT 3.1.1.
    Mqtt3,
    /// MQTT 5.
    Mqtt5,
    Other(Protocol),
}

/// Whether a protocol meets a need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    Yes,
    /// It does in a way that has to be known.
    With(&'static str),
    /// It does not, and why.
    No(&'static str),
}

/// All that are known.
pub const SPOKEN: [Spoken; 8] = [
    Spoken::Mqtt3,
    Spoken::Mqtt5,
    Spoken::Other(Protocol::Coap),
    Spoken::Other(Protocol::Amqp),
    Spoken::Other(Protocol::Stomp),
    Spoken::Other(Protocol::Zmtp),
    Spoken::Other(Protocol::Dds),
    Spoken::Other(Protocol::Xmpp),
];

/// What this broker adds to stock protocols, where a need leaves none of them.
pub fn extension(need: Need) -> Option<&'static str> {
    match need {
        Need::ContentFilter => Some(
            "Thalweg's extension for this is the predicate subscription (a filter with a condition on the value). It is \
             designed and not in this version: until then subscribers have to filter by themselves",
        ),
        Need::P2p => Some(
            "Thalweg answers requests of MQTT 3.1.1 clients, too, if both agree on a topic: that is emulation",
        ),
        _ => None,
    }
}

impl Spoken {
    /// What a leg speaks.
    pub fn of(leg: &Leg) -> Spoken {
        match leg.protocol {
            Protocol::Mqtt if leg.version < 5 => Spoken::Mqtt3,
            Protocol::Mqtt => Spoken::Mqtt5,
            other => Spoken::Other(other),
        }
    }

    pub fn support(self, need: Need) -> Support {
        use Need::{
            AtLeastOnce, ContentFilter, Decentralised, ExactlyOnce, Expiry, Lvc, Multicast, P2p,
            Priority, SharedGroup, Wildcards,
        };
        use Protocol::{Amqp, Coap, Dds, Mqtt, Stomp, Xmpp, Zmtp};
        use Spoken::{Mqtt3, Mqtt5, Other};
        use Support::{No, With, Yes};
        match (need, self) {
            (ContentFilter, Other(Dds)) => No(
                "content-filtered topics are an optional profile of DDS; Cyclone DDS, which is measured here, has no SQL filters",
            ),
            (ContentFilter, Other(Amqp)) => {
                No("a headers exchange looks at headers for equality, never into the payload")
            }
            (ContentFilter, Other(Stomp)) => {
                No("`selector` is a header that some brokers know; it looks at headers")
            }
            (ContentFilter, _) => No("filters see the topic only"),

            (AtLeastOnce, Other(Zmtp)) => {
                No("PUB/SUB drops what a subscriber is too slow for, or misses while it is away")
            }
            (AtLeastOnce, Other(Xmpp)) => No(
                "core XMPP does not acknowledge; that is XEP-0198 or XEP-0184, which are not used here",
            ),
            (AtLeastOnce, _) => Yes,

            (ExactlyOnce, Mqtt3 | Mqtt5) => With("QoS 2"),
            (ExactlyOnce, Other(Dds)) => {
                With("reliable writers number their samples; while both live")
            }
            (ExactlyOnce, Other(Coap | Amqp | Stomp)) => No(
                "a repetition after a lost acknowledgement is a second message; Thalweg's client and broker recognise it by a stamp",
            ),
            (ExactlyOnce, Other(_)) => No("it has no acknowledgements"),

            (Wildcards, Mqtt3 | Mqtt5) => Yes,
            (Wildcards, Other(Amqp)) => {
                With("by a topic exchange: `*` is a word, `#` is any number")
            }
            (Wildcards, Other(Stomp)) => {
                With("the broker's matter: RabbitMQ and Thalweg have them under /topic")
            }
            (Wildcards, Other(Coap)) => No("one observes one resource"),
            (Wildcards, Other(Zmtp)) => {
                No("a filter is a prefix of bytes, no wildcard for a level")
            }
            (Wildcards, Other(Dds)) => {
                No("a reader names one topic; only partitions have wildcards")
            }
            (Wildcards, Other(_)) => No("one subscribes to nodes by name, or to a collection"),

            (Lvc, Mqtt3 | Mqtt5) => With("retained messages"),
            (Lvc, Other(Coap)) => With("a resource is its last value"),
            (Lvc, Other(Amqp)) => With("a plugin of the broker (a last-value exchange)"),
            (Lvc, Other(Stomp)) => {
                No("nothing of it; on Thalweg what an MQTT client retained comes over STOMP, too")
            }
            (Lvc, Other(Zmtp)) => With("a pattern that has to be programmed in the proxy"),
            (Lvc, Other(Dds)) => With("durability transient-local"),
            (Lvc, Other(_)) => With("last item of a node"),

            (P2p, Mqtt3) => {
                No("plain MQTT cannot address a client: only by topics that applications agree on")
            }
            (P2p, Mqtt5) => {
                With("emulated: response topic and correlation data, through the broker")
            }
            (P2p, Other(Dds)) => With("DDS-RPC, where the implementation has it"),
            (P2p, Other(Stomp)) => With("reply queues, the broker's matter"),
            (P2p, Other(_)) => Yes,

            (Decentralised, Other(Zmtp | Dds)) => Yes,
            (Decentralised, Other(Coap)) => {
                With("the device is the server itself: resources, no topics")
            }
            (Decentralised, _) => No("it needs a broker"),

            (Multicast, Other(Dds)) => Yes,
            (Multicast, Other(Zmtp)) => With("PGM or EPGM, where libzmq was built with it"),
            (Multicast, Other(Coap)) => No("requests can be multicast, notifications cannot"),
            (Multicast, _) => No("it lives on connections"),

            (Expiry, Mqtt5) => With("Message Expiry Interval"),
            (Expiry, Other(Amqp)) => {
                With("`expiration`, checked at the head of a queue in some brokers")
            }
            (Expiry, Other(Stomp)) => With("a header `expires`, the broker's matter"),
            (Expiry, Other(Dds)) => With("LifeSpan"),
            (Expiry, Other(Coap)) => No("Max-Age says how long a value is fresh and drops nothing"),
            (Expiry, _) => No("nothing of it"),

            (Priority, Other(Amqp)) => With("`priority`, in queues that were declared with levels"),
            (Priority, Other(Dds)) => With("Transport Priority"),
            (Priority, Other(Stomp)) => With("a header `priority`, the broker's matter"),
            (Priority, Other(Zmtp)) => No("ZMQ_TOS marks packets, messages stay in order"),
            (Priority, _) => No("nothing of it"),

            (SharedGroup, Mqtt5) => With("$share"),
            (SharedGroup, Mqtt3) => {
                With("$share where the broker has it for MQTT 3.1.1, as Thalweg and mosquitto do")
            }
            (SharedGroup, Other(Amqp | Stomp)) => With("consumers of one queue"),
            (SharedGroup, Other(Zmtp)) => With("PUSH/PULL sockets, in turn only"),
            (SharedGroup, Other(Coap | Dds | Xmpp | Mqtt)) => {
                No("every subscriber gets everything")
            }
        }
    }
}

impl fmt::Display for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spoken::Mqtt3 => f.write_str("MQTT 3.1.1"),
            Spoken::Mqtt5 => f.write_str("MQTT 5"),
            Spoken::Other(protocol) => f.write_str(group::name(*protocol)),
        }
    }
}

impl Need {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Why a protocol is left out; none, if it is not.
pub fn obstacles(spoken: Spoken, needs: &[Need], no_broker: bool, custom_ok: bool) -> Vec<String> {
    let mut out: Vec<String> = needs
        .iter()
        .filter_map(|need| match spoken.support(*need) {
            Support::No(why) => Some(format!("{}: {why}", need.name())),
            _ => None,
        })
        .collect();
    if no_broker && let Support::No(why) = spoken.support(Need::Decentralised) {
        out.push(format!("no broker is wanted: {why}"));
    }
    if !custom_ok && spoken == Spoken::Other(Protocol::Zmtp) {
        out.push(
            "it is a library and no broker: you have to build one with it (--custom-ok)".to_owned(),
        );
    }
    out
}

/// Why one of the choices of a protocol is left out although the protocol is not.
pub fn obstacle(choice: &Choice, needs: &[Need]) -> Option<&'static str> {
    let is_exact = choice
        .protocols()
        .iter()
        .all(|leg| leg.protocol == Protocol::Mqtt);
    match choice.qos() {
        0 if needs
            .iter()
            .any(|need| matches!(need, Need::AtLeastOnce | Need::ExactlyOnce)) =>
        {
            Some("it may lose messages (at-least-once)")
        }
        1 if is_exact && needs.contains(&Need::ExactlyOnce) => {
            Some("it may repeat messages (exactly-once)")
        }
        _ => None,
    }
}

/// What has to be known of a protocol that is not left out.
pub fn conditions(spoken: Spoken, needs: &[Need]) -> Vec<String> {
    needs
        .iter()
        .filter_map(|need| match spoken.support(*need) {
            Support::With(what) => Some(format!("{}: {what}", need.name())),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_studies_say_of_protocols_is_in_the_table() {
        // A19, A20, A21, A22, C1, C5.
        for spoken in SPOKEN {
            assert!(
                matches!(spoken.support(Need::ContentFilter), Support::No(_)),
                "{spoken}"
            );
        }
        assert!(matches!(Spoken::Mqtt3.support(Need::P2p), Support::No(_)));
        assert!(
            matches!(Spoken::Mqtt5.support(Need::P2p), Support::With(it) if it.contains("emulated"))
        );
        for protocol in [Protocol::Amqp, Protocol::Xmpp, Protocol::Zmtp] {
            assert_eq!(Spoken::Other(protocol).support(Need::P2p), Support::Yes);
        }
        let decentralised: Vec<Spoken> = SPOKEN
            .into_iter()
            .filter(|it| it.support(Need::Decentralised) == Support::Yes)
            .collect();
        assert_eq!(
            decentralised,
            [Spoken::Other(Protocol::Zmtp), Spoken::Other(Protocol::Dds)]
        );
        assert!(matches!(
            Spoken::Other(Protocol::Zmtp).support(Need::AtLeastOnce),
            Support::No(_)
        ));
    }

    #[test]
    fn every_exclusion_has_a_reason_of_its_own_words() {
        for spoken in SPOKEN {
            for need in Need::value_variants() {
                if let Support::No(why) | Support::With(why) = spoken.support(*need) {
                    assert!(why.len() > 3, "{spoken} {need:?}");
                }
            }
        }
        assert!(
            obstacles(Spoken::Other(Protocol::Zmtp), &[], false, false)
                .iter()
                .any(|it| it.contains("--custom-ok"))
        );
        assert!(obstacles(Spoken::Other(Protocol::Zmtp), &[], true, true).is_empty());
    }
}
