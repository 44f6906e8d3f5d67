//! `xmpp.*`: the section of XMPP.

use crate::config::declare::{MIB, given, keys, prefix, seconds};
use crate::config::keys::Key;
use crate::config::keys::Reload::NewConnections;
use crate::config::kind::Kind::{Flag, Names, Size, Text};
use crate::config::landing::{Field, Landing, land, protocol};
use thalweg_model::Span;

/// `xmpp.*`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Xmpp {
    /// The domain of all addresses, in lower case.
    pub domain: String,
    /// Whether `+` and `#` in the name of a node are wildcards.
    pub node_wildcards: bool,
    /// Whether messages to users who are not there wait.
    pub offline_messages: bool,
    /// Whether PLAIN is offered without TLS.
    pub plaintext_passwords: bool,
    /// How long a session outlives its connection, if its client asks for that.
    pub resume_max: Option<Span>,
    /// Names that every client has in its roster.
    pub roster: Vec<String>,
    /// Whether SCRAM-SHA-256 is offered.
    pub scram: bool,
    /// Octets of the largest stanza.
    pub stanza_bytes_max: usize,
}

keys! {
    protocol xmpp.domain: Text, default "localhost", NewConnections;
        "Domain of all XMPP addresses: a client is `user@domain/resource`, the publish-subscribe service `pubsub.domain`. A \
         client that asks for another domain is refused (host-unknown).";
    protocol xmpp.node_wildcards: Flag, default "false", NewConnections;
        "Whether `+` and `#` in the name of a node that an XMPP client subscribes to are wildcards, as in MQTT. Otherwise they \
         are letters, and `pubsub#subscription_depth` subscribes to what is below a node.";
    protocol xmpp.offline_messages: Flag, default "true", NewConnections;
        "Whether messages to XMPP users who are not there wait for them. Each user who logs in with a name and sends presence has \
         a queue that is called `user@domain`, with the limits of all queues. Without it such messages are refused \
         (service-unavailable), also those to the bare address of a user who is there.";
    protocol xmpp.plaintext_passwords: Flag, default "false", NewConnections;
        "Whether XMPP clients may send passwords (PLAIN) over connections without TLS: for tests on one machine.";
    protocol xmpp.resume_max: seconds(0, 7 * 86_400), default "300s" none "off", NewConnections;
        "How long the session of an XMPP client outlives its connection, if the client asks for resumption (XEP-0198). With the \
         journal it outlives the broker, too. Not longer than `session.expiry_max`.";
    protocol xmpp.roster: Names { max: 1000 }, default "", NewConnections;
        "Names that every XMPP client has in its roster: MQTT client ids, identities of DTLS, users of XMPP. A contact is \
         available while its name is online; see `presence.enabled`.";
    protocol xmpp.scram: Flag, default "false", NewConnections;
        "Whether SCRAM-SHA-256 is offered to XMPP clients, with TLS and without. Most clients try it first and nothing else if it \
         fails, so every user needs a SCRAM entry in `access.password_file`. Needs `access.scram`.";
    protocol xmpp.stanza_bytes_max: Size { min: 10_000, max: 256 * MIB }, default "1MiB", NewConnections;
        "Largest stanza of an XMPP client. A client that sends a larger one is disconnected (policy-violation). Before the \
         log-in it is 8 KiB.";
}
