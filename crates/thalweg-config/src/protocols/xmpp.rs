//! `xmpp.*`: the section of XMPP.

use crate::section::section;
use thalweg_model::Span;

section! {
    pub struct Xmpp {
        /// Domain of all XMPP addresses: a client is `user@domain/resource`, the publish-subscribe service
        /// `pubsub.domain`. A client that asks for another domain is refused (host-unknown).
        domain: String = Text, "localhost", NewConnections;
        /// Whether `+` and `#` in the name of a node that an XMPP client subscribes to are wildcards, as in MQTT.
        /// Otherwise they are letters, and `pubsub#subscription_depth` subscribes to what is below a node.
        node_wildcards: bool = Flag, "false", NewConnections;
        /// Whether messages to XMPP users who are not there wait for them. Each user who logs in with a name and sends
        /// presence has a queue that is called `user@domain`, with the limits of all queues and
        /// `xmpp.offline_messages_max`. Without it such messages are refused (service-unavailable), also those to the
        /// bare address of a user who is there.
        offline_messages: bool = Flag, "true", NewConnections;
        /// Most messages that wait for an XMPP user; further ones are refused (service-unavailable, with a text that
        /// says so). They wait in memory. A queue that is there already keeps the bound that it was made with.
        offline_messages_max: u64 = count(1, 1_000_000), "1000", NewConnections;
        /// Whether XMPP clients may send passwords (PLAIN) over connections without TLS: for tests on one machine.
        plaintext_passwords: bool = Flag, "false", NewConnections;
        /// How long a request of an XMPP client to `rpc.domain/ADDRESS` is worth answering. One that is not answered in
        /// time is answered with an error (remote-server-timeout).
        request_timeout: Span = seconds(1, 86_400), "30s", NewConnections;
        /// How long the session of an XMPP client outlives its connection, if the client asks for resumption
        /// (XEP-0198). With the journal it outlives the broker, too. Not longer than `session.expiry_max`.
        resume_max: Option<Span> = seconds(0, 7 * 86_400), "300s" or "off", NewConnections;
        /// Names that every XMPP client has in its roster: MQTT client ids, identities of DTLS, users of XMPP. A
        /// contact is available while its name is online, a user of XMPP while a client of it says so; see
        /// `presence.enabled`.
        roster: Vec<String> = NAMES, "", NewConnections;
        /// Whether SCRAM-SHA-256 is offered to XMPP clients, with TLS and without. Most clients try it first and
        /// nothing else if it fails, so every user needs a SCRAM entry in `access.password_file`. Needs `access.scram`.
        scram: bool = Flag, "false", NewConnections;
        /// Largest stanza of an XMPP client. A client that sends a larger one is disconnected (policy-violation).
        /// Before the log-in it is 8 KiB.
        stanza_bytes_max: usize = size(10_000, 256 * MIB), "1MiB", NewConnections;
    }
}
