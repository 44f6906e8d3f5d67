//! `mqtt.*`: the section of MQTT.

use crate::choices::words;
use crate::section::section;
use thalweg_model::Span;

section! {
    pub struct Mqtt {
        /// QoS 1 and 2 messages that an MQTT 5 client may have on the way to us without an answer.
        receive_maximum: u16 = count(1, 65_535), "1024", NewConnections;
        /// QoS 1 and 2 messages on the way to a client without an answer. MQTT 5 clients can lower it by Receive
        /// Maximum; MQTT 3 clients cannot say, so lower it here for small devices.
        inflight_max: u16 = count(1, 65_535), "1024", NewConnections;
        /// Topic aliases that an MQTT 5 client may use towards us. Each costs memory for one topic per connection; 0
        /// offers none.
        topic_alias_maximum: u16 = count(0, 65_535), "64", NewConnections;
        /// Topic aliases that we use towards an MQTT 5 client that allows them; 0 uses none.
        topic_alias_out_max: u16 = count(0, 65_535), "16", NewConnections;
        /// Longest keep-alive that MQTT 5 clients may ask for; a longer one is replaced by this in CONNACK. MQTT 3
        /// clients keep theirs. 0s accepts any.
        keep_alive_max: Span = KEEP_ALIVE, "0s", NewConnections;
        /// Keep-alive for MQTT 5 clients that ask for none; CONNACK says so. 0s leaves them without, so that a vanished
        /// peer is found out only by TCP.
        keep_alive_default: Span = KEEP_ALIVE, "0s", NewConnections;
        /// Highest QoS accepted and granted.
        maximum_qos: u8 = count(0, 2), "2", NewConnections;
        /// Whether clients may share subscriptions ($share/group/filter). MQTT 3 clients may too.
        shared_subscriptions: bool = Flag, "true", NewConnections;
        /// Whether clients may subscribe with `+` and `#`.
        wildcard_subscriptions: bool = Flag, "true", NewConnections;
        /// Whether MQTT 5 clients may attach identifiers to their subscriptions.
        subscription_identifiers: bool = Flag, "true", NewConnections;
        /// Response Information for MQTT 5 clients that ask for it, usually a topic prefix that the client may receive
        /// answers under. Not set: none.
        response_information: String = Text, "", NewConnections;
        /// Address of another server. If set, new clients are not served here: MQTT 5 clients are sent there with "use
        /// another server", MQTT 3 clients refused with "server unavailable".
        server_reference: String = Text, "", NewConnections;
        /// Whether MQTT 5 clients that are members of shared subscriptions may report in PINGREQ how much they have to
        /// do. `announced` says so to every client when it connects (user property `x-lb-report`) and takes reports
        /// from all; `off` treats such a packet as what it is to the specification, malformed. Reports in PUBACK and to
        /// `$load/report` need no leave.
        load_reports: LoadReports = Word(LoadReports::WORDS), "announced", NewConnections;
    }
}

words! {
    /// Whether MQTT 5 clients may report their load in PINGREQ.
    pub enum LoadReports {
        /// They may, and are told so when they connect.
        Announced = "announced",
        /// They may not: as the specification has it, such a packet is malformed.
        Off = "off",
    }
}
