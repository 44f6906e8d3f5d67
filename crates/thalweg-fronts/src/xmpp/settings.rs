//! What the operator decides about XMPP.

use std::sync::Arc;
use thalweg_kernel::Safety;
use thalweg_model::Span;
use thalweg_xmpp::{Framing, Limits, StartTls};

/// What the operator decides about XMPP.
#[derive(Clone, Debug)]
pub struct XmppSettings {
    pub limits: Limits,
    /// Whether the listener's streams lie in WebSocket messages.
    pub framing: Framing,
    /// The domain of all addresses. A stream to another one is refused.
    pub domain: Box<str>,
    /// Connections are encrypted before the first octet of XMPP, or passwords may be sent in the clear.
    pub secured: bool,
    /// Whether TLS can begin within the stream. Off if `secured`.
    pub starttls: StartTls,
    /// Whether clients without credentials are let in; what they may do is another question.
    pub anonymous: bool,
    /// Whether SCRAM-SHA-256 is offered.
    pub scram: bool,
    /// Whether `+` and `#` in the name of a node are wildcards.
    pub node_wildcards: bool,
    /// How long a session outlives its connection where its client has asked for that (XEP-0198). Zero: not at all.
    pub resume_max: Span,
    /// Octets of answers that a client of XEP-0198 may leave unacknowledged; more ends the stream.
    pub unacknowledged_bytes_max: usize,
    /// Whether messages to users who are not there wait for them, each user's in a queue.
    pub offline_messages: bool,
    /// Messages that may wait for a user; more are refused.
    pub offline_messages_max: u64,
    /// How long a request to another client is worth answering.
    pub request_timeout: Span,
    /// Names that every client has in its roster; their presence is that at `$presence`.
    pub roster: Arc<[Box<str>]>,
    /// Nodes that one answer to a question for all of them lists.
    pub listed_max: usize,
    /// The tenant of all peers; `""` is the default one.
    pub tenant: Box<str>,
    /// Publishes per second of a connection in place of the kernel's limit; 0 is no limit.
    pub publish_rate: Option<u64>,
    /// How safe what is taken from clients of this listener must be, in place of the kernel's word.
    pub safety: Option<Safety>,
}

impl Default for XmppSettings {
    fn default() -> Self {
        XmppSettings {
            limits: Limits::default(),
            framing: Framing::Document,
            domain: "localhost".into(),
            secured: false,
            starttls: StartTls::Off,
            anonymous: false,
            scram: true,
            node_wildcards: false,
            resume_max: Span::from_secs(300),
            unacknowledged_bytes_max: 1 << 20,
            offline_messages: true,
            offline_messages_max: 1000,
            request_timeout: Span::from_secs(30),
            roster: Arc::default(),
            listed_max: 200,
            tenant: "".into(),
            publish_rate: None,
            safety: None,
        }
    }
}
