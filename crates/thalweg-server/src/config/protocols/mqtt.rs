//! `mqtt.*`: the section of MQTT.

use crate::config::declare::{given, keep_alive, keys, prefix};
use crate::config::keys::Key;
use crate::config::keys::Reload::NewConnections;
use crate::config::kind::Kind::{Count, Flag, Text, Word};
use crate::config::kind::Value;
use crate::config::landing::{Field, Landing, land, protocol};
use crate::config::words::words;
use thalweg_model::Span;

/// `mqtt.*`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mqtt {
    /// Receive Maximum granted to clients.
    pub receive_maximum: u16,
    /// Most unacknowledged messages towards a client.
    pub inflight_max: u16,
    /// Topic aliases a client may set.
    pub topic_alias_maximum: u16,
    /// Topic aliases we set towards a client.
    pub topic_alias_out_max: u16,
    /// Longest keep-alive; [`Span::ZERO`] accepts the client's. In whole seconds.
    pub keep_alive_max: Span,
    /// Keep-alive for clients that ask for none; [`Span::ZERO`] leaves them without. In whole seconds.
    pub keep_alive_default: Span,
    /// Highest QoS granted: 0, 1 or 2.
    pub maximum_qos: u8,
    /// Whether `$share/…` is allowed.
    pub shared_subscriptions: bool,
    /// Whether `+` and `#` are allowed.
    pub wildcard_subscriptions: bool,
    /// Whether subscription identifiers are allowed.
    pub subscription_identifiers: bool,
    /// Response Information for clients that ask; empty is none.
    pub response_information: String,
    /// Where clients are told to go instead; empty serves them here.
    pub server_reference: String,
    /// Whether clients may report their load in PINGREQ.
    pub load_reports: LoadReports,
}

words! {
    /// Whether MQTT 5 clients may report their load in PINGREQ.
    LoadReports {
        /// They may, and are told so when they connect.
        Announced = "announced",
        /// They may not: as the specification has it, such a packet is malformed.
        Off = "off",
    }
}

keys! {
    protocol mqtt.receive_maximum: Count { min: 1, max: 65_535 }, default "1024", NewConnections;
        "QoS 1 and 2 messages that an MQTT 5 client may have on the way to us without an answer.";
    protocol mqtt.inflight_max: Count { min: 1, max: 65_535 }, default "1024", NewConnections;
        "QoS 1 and 2 messages on the way to a client without an answer. MQTT 5 clients can lower it by Receive \
         Maximum; MQTT 3 clients cannot say, so lower it here for small devices.";
    protocol mqtt.topic_alias_maximum: Count { min: 0, max: 65_535 }, default "64", NewConnections;
        "Topic aliases that an MQTT 5 client may use towards us. Each costs memory for one topic per connection; 0 \
         offers none.";
    protocol mqtt.topic_alias_out_max: Count { min: 0, max: 65_535 }, default "16", NewConnections;
        "Topic aliases that we use towards an MQTT 5 client that allows them; 0 uses none.";
    protocol mqtt.keep_alive_max: keep_alive(), default "0s", NewConnections;
        "Longest keep-alive that MQTT 5 clients may ask for; a longer one is replaced by this in CONNACK. MQTT 3 \
         clients keep theirs. 0s accepts any.";
    protocol mqtt.keep_alive_default: keep_alive(), default "0s", NewConnections;
        "Keep-alive for MQTT 5 clients that ask for none; CONNACK says so. 0s leaves them without, so that a vanished \
         peer is found out only by TCP.";
    protocol mqtt.maximum_qos: Count { min: 0, max: 2 }, default "2", NewConnections;
        "Highest QoS accepted and granted.";
    protocol mqtt.shared_subscriptions: Flag, default "true", NewConnections;
        "Whether clients may share subscriptions ($share/group/filter). MQTT 3 clients may too.";
    protocol mqtt.wildcard_subscriptions: Flag, default "true", NewConnections;
        "Whether clients may subscribe with `+` and `#`.";
    protocol mqtt.subscription_identifiers: Flag, default "true", NewConnections;
        "Whether MQTT 5 clients may attach identifiers to their subscriptions.";
    protocol mqtt.response_information: Text, default "", NewConnections;
        "Response Information for MQTT 5 clients that ask for it, usually a topic prefix that the client may \
         receive answers under. Not set: none.";
    protocol mqtt.server_reference: Text, default "", NewConnections;
        "Address of another server. If set, new clients are not served here: MQTT 5 clients are sent there with \
         \"use another server\", MQTT 3 clients refused with \"server unavailable\".";
    protocol mqtt.load_reports: Word(LoadReports::WORDS), default "announced", NewConnections;
        "Whether MQTT 5 clients that are members of shared subscriptions may report in PINGREQ how much they have to do. \
         `announced` says so to every client when it connects (user property `x-lb-report`) and takes reports from all; \
         `off` treats such a packet as what it is to the specification, malformed. Reports in PUBACK and to `$load/report` \
         need no leave.";
}
