//! Listeners that need not say what they are, because their names do.

/// What the listeners that exist without being mentioned have instead of the defaults above.
pub(super) const LISTENER_PRESETS: &[(&str, &str)] = &[
    ("listeners.mqtt.bind", "127.0.0.1:1883"),
    ("listeners.websocket.bind", "127.0.0.1:8083"),
    ("listeners.websocket.transport", "ws"),
    ("listeners.amqp.bind", "127.0.0.1:5672"),
    ("listeners.amqp.kind", "amqp"),
    ("listeners.stomp.bind", "127.0.0.1:61613"),
    ("listeners.stomp.kind", "stomp"),
    ("listeners.coap.bind", "127.0.0.1:5683"),
    ("listeners.coap.kind", "coap"),
    ("listeners.coap.transport", "udp"),
    ("listeners.coap-tcp.bind", "127.0.0.1:5683"),
    ("listeners.coap-tcp.kind", "coap"),
    ("listeners.zmtp.bind", "127.0.0.1:5555"),
    ("listeners.zmtp.kind", "zmtp"),
    ("listeners.xmpp.bind", "127.0.0.1:5222"),
    ("listeners.xmpp.kind", "xmpp"),
];

/// The listeners that exist without being mentioned.
pub(super) const LISTENERS_BUILT_IN: [&str; 2] = ["mqtt", "websocket"];

/// Those that do so only where no other listener is mentioned: an operator who has configured an MQTT listener may have
/// another broker on these ports, or a reason to open no other.
///
/// `zmtp` is not among them: port 5555 is what examples of ZeroMQ bind themselves. Nor is `xmpp`, whose domain is to be chosen.
pub(super) const LISTENERS_UNLESS_OTHERS: [&str; 4] = ["amqp", "coap", "coap-tcp", "stomp"];
