//! Namespaces by their short names.

/// Stanzas between client and server.
pub const CLIENT: &str = "jabber:client";
/// The stream's root, its features and its errors.
pub const STREAMS: &str = "http://etherx.jabber.org/streams";
/// Conditions of stream errors.
pub const STREAM_ERRORS: &str = "urn:ietf:params:xml:ns:xmpp-streams";
/// Conditions of stanza errors.
pub const STANZA_ERRORS: &str = "urn:ietf:params:xml:ns:xmpp-stanzas";
/// STARTTLS and its answers.
pub const TLS: &str = "urn:ietf:params:xml:ns:xmpp-tls";
/// SASL's exchange of messages.
pub const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
/// XEP-0440.
pub const CHANNEL_BINDING: &str = "urn:xmpp:sasl-cb:0";
/// Binding of a resource.
pub const BIND: &str = "urn:ietf:params:xml:ns:xmpp-bind";
/// The session of RFC 3921, which means nothing any more.
pub const SESSION: &str = "urn:ietf:params:xml:ns:xmpp-session";
/// Begin and end of streams over WebSocket.
pub const FRAMING: &str = "urn:ietf:params:xml:ns:xmpp-framing";
/// XEP-0198.
pub const MANAGEMENT: &str = "urn:xmpp:sm:3";
/// XEP-0199.
pub const PING: &str = "urn:xmpp:ping";
/// The prefix `xml`.
pub const XML: &str = "http://www.w3.org/XML/1998/namespace";

/// The same text as a constant, where it is a namespace that most streams have.
pub(crate) fn known(uri: &str) -> Option<&'static str> {
    [
        CLIENT,
        STREAMS,
        SASL,
        TLS,
        BIND,
        MANAGEMENT,
        PING,
        FRAMING,
        XML,
        "http://jabber.org/protocol/pubsub",
        "http://jabber.org/protocol/pubsub#event",
        "http://jabber.org/protocol/disco#info",
        "jabber:x:data",
        "jabber:iq:roster",
    ]
    .into_iter()
    .find(|known| *known == uri)
}
