//! What the operator decides about CoAP, and what is counted.

use crate::protocol::{FrontMetric, ShowCount};
use std::sync::Arc;
use thalweg_coap::ServerSettings;
use thalweg_kernel::Safety;
use thalweg_model::{Reliability, Span};

/// What the operator decides about CoAP.
#[derive(Clone, Debug)]
pub struct CoapSettings {
    pub machine: Arc<ServerSettings>,
    /// The tenant whose addresses the paths are; `""` is the default one.
    pub tenant: Box<str>,
    /// Whether `/.well-known/core` says what there is.
    pub discovery: bool,
    /// The longest time until a request to a group is answered. RFC 7252 §8.2: Leisure
    pub leisure: Span,
    /// How long a value that does not expire is said to be fresh, in seconds. Clients ask or register again after that.
    pub max_age_secs: u32,
    /// How many changes of an address wait for an observer that says nothing about it; 1 keeps the latest only.
    pub queue: u16,
    /// How many may, whatever an observer says.
    pub queue_max: u16,
    /// Which notifications are confirmable.
    pub notify: Notify,
    /// A notification is confirmable at least this often. RFC 7641 §4.5
    pub observer_check: Span,
    /// Whether notifications that fit into one message have an ETag, too: it costs five bytes.
    pub notify_etag: bool,
    /// Whether an address without a value can be observed: answered with an empty payload, and notified of the first.
    pub observe_empty: bool,
    /// Whether a PUT to an address that no topic has is a publish; otherwise 4.04.
    pub auto_create: bool,
    /// Whether `/ps/<levels…>` that is no topic is an address, as EMQX's clients write it.
    pub emqx_paths: bool,
    /// Whether a POST to a queue that does not exist makes it.
    pub auto_declare_queues: bool,
    /// How long the taker of a queue's message may be silent before it goes back; the kernel's limit must not be shorter.
    pub take_timeout: Span,
    /// Messages of queues that are taken and not acknowledged, of one socket or connection.
    pub takes_max: usize,
    /// How long an answer to `/rpc` is waited for.
    pub rpc_timeout: Span,
    /// Requests to `/rpc` that wait for an answer, of one shard.
    pub rpc_waiting_max: usize,
    /// Requests that wait for the kernel, for a verdict or for the journal, of one socket or connection.
    pub waiting_max: usize,
    /// Bytes of them that are kept meanwhile.
    pub waiting_bytes_max: usize,
    /// Values and topics that one answer lists.
    pub list_max: usize,
    pub topics_max: usize,
    /// Observations of one socket or connection.
    pub observers_max: usize,
    /// Most identities of one socket at a time.
    pub identities_max: usize,
    /// A session that was unused for this long is closed.
    pub session_idle: Span,
    /// Publishes per second of an identity, or of an anonymous peer's address, in place of the kernel's limit; 0 is no
    /// limit.
    pub publish_rate: Option<u64>,
    /// How safe answers to clients of this listener must be, in place of the kernel's setting.
    pub safety: Option<Safety>,
    /// The longest a connection may be silent, if there is a limit.
    pub silence_max: Option<Span>,
}

/// Which notifications are confirmable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// Those of messages that are at least once.
    #[default]
    Auto,
    Confirmable,
    /// As few as may be.
    NonConfirmable,
}

impl Notify {
    /// The surest class that it asks for.
    pub(super) fn reliability(self) -> Reliability {
        match self {
            Notify::NonConfirmable => Reliability::AtMostOnce,
            Notify::Auto | Notify::Confirmable => Reliability::AtLeastOnce,
        }
    }
}

impl Default for CoapSettings {
    fn default() -> Self {
        CoapSettings {
            machine: Arc::default(),
            tenant: "".into(),
            discovery: true,
            leisure: Span::from_secs(5),
            max_age_secs: 60,
            queue: 1,
            queue_max: 1024,
            notify: Notify::Auto,
            observer_check: Span::from_secs(86_400),
            notify_etag: false,
            observe_empty: true,
            auto_create: true,
            emqx_paths: true,
            auto_declare_queues: false,
            take_timeout: Span::from_secs(120),
            takes_max: 10_000,
            rpc_timeout: Span::from_secs(30),
            rpc_waiting_max: 10_000,
            waiting_max: 16_384,
            waiting_bytes_max: 16 << 20,
            list_max: 1000,
            topics_max: 100_000,
            observers_max: 1_000_000,
            identities_max: 1_000_000,
            session_idle: Span::from_secs(300),
            publish_rate: None,
            safety: None,
            silence_max: None,
        }
    }
}

/// Declares [`CoapCounts`], and the metrics that show them.
macro_rules! counts {
    ($($metric:literal $([$label:literal])? in $unit:literal: $help:literal = $($name:ident $value:literal),+;)*) => {
        /// What was seen and done on a socket or connection since it was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CoapCounts {
            $($(pub $name: u64,)+)*
        }

        pub(super) static METRICS: [FrontMetric; [$($metric),*].len()] = [$(FrontMetric {
            name: $metric,
            label: counts!(@maybe $($label)?),
            values: &[$($value),+],
            unit: $unit,
            help: $help,
        },)*];

        impl CoapCounts {
            /// Each with its metric, in their order.
            pub(super) fn show(&self, show: &mut ShowCount<'_>) {
                let counts: [&[u64]; METRICS.len()] = [$(&[$(self.$name),+],)*];
                for (metric, counts) in METRICS.iter().zip(counts) {
                    for (value, count) in metric.values.iter().zip(counts) {
                        show(metric, value, *count);
                    }
                }
            }

            pub fn add(&mut self, other: &CoapCounts) {
                $($(self.$name += other.$name;)+)*
            }
        }
    };
    (@maybe) => { None };
    (@maybe $text:literal) => { Some($text) };
}

counts! {
    "thalweg_coap_peers" in "peers": "CoAP peers that are remembered." = peers "";
    "thalweg_coap_observations" in "observations": "Observations." = observers "";
    "thalweg_coap_identities" in "identities": "Identities that CoAP peers act as." = identities "";
    "thalweg_coap_messages_total" in "messages": "Datagrams, or messages of a connection, that came." = datagrams "";
    "thalweg_coap_requests_total"["method"] in "requests": "Requests, repeated ones not counted." =
        gets "GET", puts "PUT", posts "POST", deletes "DELETE", fetches "FETCH", others "other";
    "thalweg_coap_errors_total"["class"] in "answers":
        "Answers that say that something is wrong: with the request (4.xx) or here (5.xx)." =
        refused "4.xx", failed "5.xx";
    "thalweg_coap_turned_away_total"["reason"] in "requests":
        "Requests that were not looked at: beyond their peer's rate, or because too much was going on." =
        rate_limited "rate_limited", overloaded "overloaded", dropped_waiting "waiting";
    "thalweg_coap_peers_displaced_total" in "peers": "Peers forgotten because others came." = peers_displaced "";
    "thalweg_coap_notifications_total" in "notifications": "Notifications, repetitions not counted." = notifications "";
    "thalweg_coap_conflated_total" in "states":
        "States not sent to an observer because a newer one replaced them in the front." = conflated "";
    "thalweg_coap_observations_lost_total" in "observations":
        "Observations ended because a notification was rejected or not acknowledged." = observers_lost "";
    "thalweg_coap_confirmable_total" in "messages": "Confirmable messages sent, repetitions not counted." = confirmable "";
    "thalweg_coap_retransmissions_total" in "messages": "Confirmable messages sent again." = retransmissions "";
    "thalweg_coap_timeouts_total" in "messages":
        "Confirmable messages given up without an acknowledgement." = timeouts "";
    "thalweg_coap_resets_total" in "messages": "Messages of ours that peers rejected." = resets "";
    "thalweg_coap_duplicates_total" in "messages": "Repeated messages of peers, answered again or ignored." = duplicates "";
    "thalweg_coap_malformed_total" in "datagrams": "Datagrams that were no CoAP message, or made no sense." = malformed "";
    "thalweg_coap_calls_total"["outcome"] in "requests":
        "Requests through /rpc that went out, and those of them that were not answered in time." =
        calls "made", calls_unanswered "unanswered";
    "thalweg_coap_takes_total"["outcome"] in "messages":
        "Messages that CoAP clients took from queues, and those of them that went back unacknowledged." =
        takes "taken", takes_returned "returned";
}
