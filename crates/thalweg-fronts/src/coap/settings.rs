//! What the operator decides about CoAP, and what is counted.

use std::sync::Arc;
use thalweg_coap::ServerSettings;
use thalweg_kernel::Safety;
use thalweg_model::Span;

/// What the operator decides about CoAP.
#[derive(Clone, Debug)]
pub struct CoapSettings {
    pub machine: Arc<ServerSettings>,
    /// The tenant whose addresses the paths are; `""` is the default one.
    pub tenant: Box<str>,
    /// Whether `/.well-known/core` says what there is.
    pub discovery: bool,
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
    /// Who is known on one socket at a time.
    pub identities_max: usize,
    /// A session that nobody has used for this long is closed.
    pub session_idle: Span,
    /// Publishes per second of an identity in place of the kernel's limit, or of an address if it is nobody in particular;
    /// 0 is no limit.
    pub publish_rate: Option<u64>,
    /// How safe what clients of this listener are told must be, in place of the kernel's word.
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

impl Default for CoapSettings {
    fn default() -> Self {
        CoapSettings {
            machine: Arc::default(),
            tenant: "".into(),
            discovery: true,
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

macro_rules! counts {
    ($($name:ident $what:literal;)*) => {
        /// What was seen and done on a socket or connection since it was opened; the first few, what is there now.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CoapCounts {
            $(#[doc = $what] pub $name: u64,)*
        }

        impl CoapCounts {
            /// Name and value of each.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            pub fn add(&mut self, other: &CoapCounts) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counts! {
    peers "Peers that are known now.";
    observers "Observations that there are now.";
    identities "Sessions that are open now.";
    datagrams "Datagrams, or messages of a connection, that came.";
    gets "Requests: GET.";
    posts "Requests: POST.";
    puts "Requests: PUT.";
    deletes "Requests: DELETE.";
    fetches "Requests: FETCH.";
    others "Requests with another method.";
    refused "Requests that were answered with 4.xx.";
    failed "Requests that were answered with 5.xx.";
    dropped_waiting "Requests refused because too many waited for a verdict, the kernel or the journal.";
    notifications "Notifications sent, repetitions not counted.";
    conflated "Values that an observer never saw because a newer one took their place here.";
    observers_lost "Observations ended because the observer rejected a notification or did not acknowledge it.";
    confirmable "Confirmable messages sent, repetitions not counted.";
    retransmissions "Repetitions sent.";
    duplicates "Repeated messages that were answered again or ignored.";
    timeouts "Confirmable messages given up.";
    resets "Messages of ours that peers rejected.";
    malformed "What was no message, or made no sense.";
    rate_limited "Requests beyond a peer's rate.";
    overloaded "Requests refused because a limit of exchanges, peers or transfers was reached.";
    peers_displaced "Peers forgotten because others came.";
    calls "Requests to `/rpc` that went out.";
    calls_unanswered "Those that nobody answered in time.";
    takes "Messages taken from queues.";
    takes_returned "Those that went back because the taker did not acknowledge.";
}
