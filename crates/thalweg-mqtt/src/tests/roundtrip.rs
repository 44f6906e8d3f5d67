//! Every encoded packet is decoded to the same.

use proptest::prelude::*;

use super::*;

fn text() -> impl Strategy<Value = String> {
    "[^\\x00]{0,30}"
}

fn topic() -> impl Strategy<Value = String> {
    "[^\\x00+#]{1,60}"
}

fn filter() -> impl Strategy<Value = String> {
    "[^\\x00]{0,40}"
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V31), Just(Version::V311), Just(Version::V5)]
}

fn qos() -> impl Strategy<Value = QoS> {
    prop_oneof![
        Just(QoS::AtMostOnce),
        Just(QoS::AtLeastOnce),
        Just(QoS::ExactlyOnce)
    ]
}

fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((text(), text()), 0..4)
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

#[derive(Clone, Debug)]
struct Message {
    dup: bool,
    qos: QoS,
    retain: bool,
    topic: String,
    id: u16,
    payload: Vec<u8>,
    expiry_secs: Option<u32>,
    payload_format: Option<u8>,
    content_type: Option<String>,
    response_topic: Option<String>,
    correlation_data: Option<Vec<u8>>,
    user: Vec<(String, String)>,
    subscription_ids: Vec<u32>,
    allow_alias: bool,
}

prop_compose! {
    fn message()(
        (dup, qos, retain, topic, id, payload) in (any::<bool>(), qos(), any::<bool>(), topic(), 1..=u16::MAX, data()),
        (expiry_secs, payload_format, content_type) in (any::<Option<u32>>(), prop::option::of(0..=1_u8), prop::option::of(text())),
        (response_topic, correlation_data) in (prop::option::of(topic()), prop::option::of(data())),
        (user, subscription_ids, allow_alias) in (pairs(), prop::collection::vec(1..=VARINT_MAX, 0..4), any::<bool>()),
    ) -> Message {
        Message {
            dup, qos, retain, topic, id, payload, expiry_secs, payload_format, content_type, response_topic,
            correlation_data, user, subscription_ids, allow_alias,
        }
    }
}

impl Message {
    fn out(&self) -> PublishOut<'_> {
        PublishOut {
            dup: self.dup,
            qos: self.qos,
            retain: self.retain,
            topic: &self.topic,
            id: self.id,
            payload: &self.payload,
            expiry_secs: self.expiry_secs,
            payload_format: self.payload_format,
            content_type: self.content_type.as_deref(),
            response_topic: self.response_topic.as_deref(),
            correlation_data: self.correlation_data.as_deref(),
            user: if self.user.is_empty() {
                None
            } else {
                Some(&self.user)
            },
            subscription_ids: &self.subscription_ids,
            allow_alias: self.allow_alias,
        }
    }

    fn is(&self, p: &Publish<'_>, v5: bool, to_client: bool) {
        assert_eq!(
            (p.qos, p.retain, p.topic.as_str()),
            (self.qos, self.retain, self.topic.as_str())
        );
        assert_eq!(p.dup, self.dup && self.qos != QoS::AtMostOnce);
        assert_eq!(
            p.id,
            if self.qos == QoS::AtMostOnce {
                0
            } else {
                self.id
            }
        );
        assert_eq!(p.payload, self.payload);
        let props = &p.properties;
        if v5 {
            assert_eq!(props.message_expiry(), self.expiry_secs);
            assert_eq!(props.payload_format(), self.payload_format);
            assert_eq!(props.content_type(), self.content_type.as_deref());
            assert_eq!(props.response_topic(), self.response_topic.as_deref());
            assert_eq!(props.correlation_data(), self.correlation_data.as_deref());
            let user: Vec<_> = self
                .user
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .collect();
            assert_eq!(props.user_properties().collect::<Vec<_>>(), user);
            let ids = if to_client {
                self.subscription_ids.clone()
            } else {
                Vec::new()
            };
            assert_eq!(props.subscription_ids().collect::<Vec<_>>(), ids);
        } else {
            assert!(props.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-20]
    #[test]
    fn publish_survives_both_ways(version in version(), messages in prop::collection::vec(message(), 1..6)) {
        let limits = ServerLimits { receive_max: 100, ..limits() };
        let connect = ConnectOut { version, client_id: "c", topic_alias_max: 3, ..ConnectOut::default() };
        let (mut client, mut server) = pair(&connect, ServerLimits { packet_bytes_max: 1 << 16, ..limits });
        for message in &messages {
            let mut wire = Vec::new();
            client.publish(&message.out(), &mut wire).expect("it fits");
            let Event::Publish(p) = server_event(&mut server, &wire) else { panic!("not PUBLISH") };
            message.is(&p, version.is_v5(), false);
            wire.clear();
            server.publish(&message.out(), &mut wire).expect("it fits");
            let ClientEvent::Publish(p) = client_event(&mut client, &wire) else { panic!("not PUBLISH") };
            message.is(&p, version.is_v5(), true);
        }
    }

    #[test]
    fn connect_survives(
        version in version(), id in text(), clean in any::<bool>(), keep_alive: u16,
        will in prop::option::of((message(), any::<u32>())),
        login in prop::option::of((text(), prop::option::of(data()))),
        (session_expiry, receive_max, packet_bytes_max, topic_alias_max) in
            (any::<u32>(), 1..=u16::MAX, prop::option::of(1..=u32::MAX), any::<u16>()),
        (response, problem, user) in (any::<bool>(), any::<bool>(), pairs()),
        method in prop::option::of((text(), prop::option::of(data()))),
    ) {
        prop_assume!(version.is_v5() || !id.is_empty());
        let sent = ConnectOut {
            version, client_id: &id, clean_start: clean, keep_alive,
            will: will.as_ref().map(|(m, delay_secs)| WillOut { message: m.out(), delay_secs: *delay_secs }),
            username: login.as_ref().map(|(name, _)| name.as_str()),
            password: login.as_ref().and_then(|(_, password)| password.as_deref()),
            session_expiry, receive_max, packet_bytes_max, topic_alias_max,
            request_response_info: response, request_problem_info: problem, user: Some(&user),
            auth_method: method.as_ref().map(|(name, _)| name.as_str()),
            auth_data: method.as_ref().and_then(|(_, data)| data.as_deref()),
        };
        let mut wire = Vec::new();
        ClientSide::new(1 << 20).connect(&sent, &mut wire).expect("it fits");
        prop_assert_eq!(peek_connect(&wire, 1 << 20), Peek::ClientId(&id));
        let mut server = ServerSide::new(ServerLimits::default());
        let Event::Connect(c) = server_event(&mut server, &wire) else { panic!("not CONNECT") };
        let mut again = Vec::new();
        mirror::by_client(&Event::Connect(c.clone()), &mut ClientSide::new(1 << 20), &mut again);
        prop_assert_eq!(&again, &wire);
        prop_assert_eq!((c.client_id, c.keep_alive, c.username, c.password), (id.as_str(), keep_alive, sent.username, sent.password));
        if version.is_v5() {
            prop_assert_eq!((c.session_expiry, c.receive_max, c.packet_bytes_max), (session_expiry, receive_max, packet_bytes_max));
            prop_assert_eq!((c.auth_method, c.auth_data), (sent.auth_method, sent.auth_data));
        }
    }

    #[test]
    fn connack_survives(
        present: bool, (expiry, server_keep_alive) in any::<(Option<u32>, Option<u16>)>(), qos in qos(),
        flags: [bool; 4], assigned in prop::option::of(text()), info in prop::option::of(text()),
        reference in prop::option::of(text()), reason in prop::option::of(text()), user in pairs(),
    ) {
        let (mut client, mut server) = (ClientSide::new(1 << 20), ServerSide::new(limits()));
        let (mut there, mut back) = (Vec::new(), Vec::new());
        let connect = ConnectOut { clean_start: false, request_response_info: true, ..ConnectOut::default() };
        client.connect(&connect, &mut there).expect("it fits");
        server_event(&mut server, &there);
        let sent = ConnAck {
            session_present: present, session_expiry: expiry, server_keep_alive, maximum_qos: qos,
            retain_available: flags[0], wildcard_available: flags[1], subscription_ids_available: flags[2],
            shared_available: flags[3], assigned_client_id: assigned.as_deref(), response_information: info.as_deref(),
            server_reference: reference.as_deref(), reason_string: reason.as_deref(), user: Some(&user),
            ..ConnAck::default()
        };
        server.connack(&sent, &mut back);
        let ClientEvent::ConnAck(a) = client_event(&mut client, &back) else { panic!("not CONNACK") };
        let got = a.values;
        prop_assert_eq!((got.session_present, got.session_expiry, got.server_keep_alive, got.maximum_qos),
            (present, expiry, server_keep_alive, qos));
        prop_assert_eq!([got.retain_available, got.wildcard_available, got.subscription_ids_available, got.shared_available], flags);
        prop_assert_eq!((got.assigned_client_id, got.response_information, got.server_reference, got.reason_string),
            (sent.assigned_client_id, sent.response_information, sent.server_reference, sent.reason_string));
        prop_assert_eq!((got.receive_max, got.packet_bytes_max, got.topic_alias_max), (3, Some(4096), 4));
        let got: Vec<_> = a.properties.user_properties().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        prop_assert_eq!(got, user);
    }

    #[test]
    fn subscribe_and_unsubscribe_survive(
        version in version(), id in 1..=u16::MAX, user in pairs(), subscription_id in prop::option::of(1..=VARINT_MAX),
        filters in prop::collection::vec((filter(), qos(), any::<(bool, bool)>(), 0..3_u8), 1..5),
    ) {
        let v5 = version.is_v5();
        let (mut client, mut server) = pair(
            &ConnectOut { version, client_id: "c", ..ConnectOut::default() },
            ServerLimits { packet_bytes_max: 1 << 16, ..limits() },
        );
        let filters: Vec<(&str, SubscribeOptions)> = filters.iter().map(|(filter, qos, (no_local, retain_as_published), handling)| {
            let retain_handling = match handling {
                0 => RetainHandling::Send,
                1 => RetainHandling::SendIfNew,
                _ => RetainHandling::DoNotSend,
            };
            let all = SubscribeOptions { qos: *qos, no_local: *no_local, retain_as_published: *retain_as_published, retain_handling };
            (filter.as_str(), if v5 { all } else { SubscribeOptions { qos: *qos, ..SubscribeOptions::default() } })
        }).collect();
        let mut wire = Vec::new();
        client.subscribe(&SubscribeOut { id, filters: &filters, subscription_id, user: Some(&user) }, &mut wire).expect("it fits");
        let Event::Subscribe(s) = server_event(&mut server, &wire) else { panic!("not SUBSCRIBE") };
        prop_assert_eq!(s.id, id);
        prop_assert_eq!(s.subscription_id, subscription_id.filter(|_| v5));
        prop_assert_eq!(s.filters().collect::<Vec<_>>(), filters.clone());
        let names: Vec<&str> = filters.iter().map(|(name, _)| *name).collect();
        wire.clear();
        client.unsubscribe(&UnsubscribeOut { id, filters: &names, user: Some(&user) }, &mut wire).expect("it fits");
        let Event::Unsubscribe(u) = server_event(&mut server, &wire) else { panic!("not UNSUBSCRIBE") };
        prop_assert_eq!(u.filters().collect::<Vec<_>>(), names);
    }

    #[test]
    fn acknowledgements_and_goodbyes_survive(
        id in 1..=u16::MAX, codes in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        reason_string in prop::option::of(text()), user in pairs(),
    ) {
        let (mut client, mut server) = plain_pair(Version::V5);
        let info = Info { reason_string: reason_string.as_deref(), user: Some(&user) };
        let of = |packet: PacketType, sender: Sender| -> Vec<ReasonCode> {
            let legal: Vec<_> = ReasonCode::ALL.iter().copied().filter(|code| code.belongs_to(packet, sender)).collect();
            codes.iter().map(|index| *index.get(&legal)).collect()
        };
        for packet in [PacketType::PubAck, PacketType::PubRec, PacketType::PubRel, PacketType::PubComp] {
            let reason = of(packet, Sender::Server)[0];
            let mut wire = Vec::new();
            server.ack_with(packet, id, reason, &info, &mut wire);
            let (ClientEvent::PubAck(a) | ClientEvent::PubRec(a) | ClientEvent::PubRel(a) | ClientEvent::PubComp(a)) =
                client_event(&mut client, &wire) else { panic!("not an acknowledgement") };
            prop_assert_eq!((a.id, a.reason, a.properties.reason_string()), (id, reason, info.reason_string));
            wire.clear();
            client.ack_with(packet, id, reason, &info, &mut wire);
            let (Event::PubAck { id: i, reason: r, .. } | Event::PubRec { id: i, reason: r, .. } | Event::PubRel { id: i, reason: r }
                | Event::PubComp { id: i, reason: r }) = server_event(&mut server, &wire) else { panic!("not an acknowledgement") };
            prop_assert_eq!((i, r), (id, reason));
        }
        let mut wire = Vec::new();
        let sent = of(PacketType::SubAck, Sender::Server);
        server.suback_with(id, &sent, &info, &mut wire);
        let ClientEvent::SubAck(a) = client_event(&mut client, &wire) else { panic!("not SUBACK") };
        prop_assert_eq!((a.id, a.codes().collect::<Vec<_>>(), a.properties.reason_string()), (id, sent, info.reason_string));
        let mut wire = Vec::new();
        let sent = of(PacketType::UnsubAck, Sender::Server);
        server.unsuback_with(id, &sent, &info, &mut wire);
        let ClientEvent::UnsubAck(a) = client_event(&mut client, &wire) else { panic!("not UNSUBACK") };
        prop_assert_eq!((a.id, a.codes().collect::<Vec<_>>()), (id, sent));
        let mut wire = Vec::new();
        let sent = of(PacketType::Disconnect, Sender::Server)[0];
        let props = DisconnectProps { reason_string: info.reason_string, user: info.user, ..DisconnectProps::default() };
        server.disconnect(sent, &props, &mut wire);
        let ClientEvent::Disconnect(d) = client_event(&mut client, &wire) else { panic!("not DISCONNECT") };
        prop_assert_eq!((d.reason, d.properties.reason_string()), (sent, info.reason_string));
    }
}
