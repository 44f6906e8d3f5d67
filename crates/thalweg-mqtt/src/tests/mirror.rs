//! Encodes the events of one machine with the other's methods: decoding and encoding must cancel out.

use super::*;

fn publish_out<'a>(p: &'a Publish<'_>, subscription_ids: &'a [u32]) -> PublishOut<'a> {
    PublishOut {
        dup: p.dup,
        qos: p.qos,
        retain: p.retain,
        topic: p.topic.as_str(),
        id: p.id,
        payload: p.payload,
        expiry_secs: p.properties.message_expiry(),
        payload_format: p.properties.payload_format(),
        content_type: p.properties.content_type(),
        response_topic: p.properties.response_topic(),
        correlation_data: p.properties.correlation_data(),
        user: Some(&p.properties),
        subscription_ids,
        allow_alias: p.properties.topic_alias().is_some(),
    }
}

fn ack_out(
    packet: PacketType,
    id: u16,
    reason: ReasonCode,
    load: &Option<Load>,
    client: &mut ClientSide,
    out: &mut Vec<u8>,
) {
    let user = load.map(|load| [(load::ACK_PROPERTY, load.expect("a report").text())]);
    let info = Info {
        user: user.as_ref().map(|user| user as &dyn TextPairs),
        ..Info::default()
    };
    client.ack_with(packet, id, reason, &info, out);
}

/// Encodes the server's events as a client would.
pub(super) fn by_client(event: &Event<'_>, client: &mut ClientSide, out: &mut Vec<u8>) {
    let none = Info::default();
    match event {
        Event::Connect(c) => {
            let will = c.will.as_ref().map(|w| WillOut {
                message: PublishOut {
                    qos: w.qos,
                    retain: w.retain,
                    topic: w.topic,
                    payload: w.payload,
                    expiry_secs: w.properties.message_expiry(),
                    payload_format: w.properties.payload_format(),
                    content_type: w.properties.content_type(),
                    response_topic: w.properties.response_topic(),
                    correlation_data: w.properties.correlation_data(),
                    user: Some(&w.properties),
                    ..PublishOut::default()
                },
                delay_secs: w.delay_secs,
            });
            let connect = ConnectOut {
                version: c.version,
                client_id: c.client_id,
                clean_start: c.clean_start,
                keep_alive: c.keep_alive,
                will,
                username: c.username,
                password: c.password,
                session_expiry: c.session_expiry,
                receive_max: c.receive_max,
                packet_bytes_max: c.packet_bytes_max,
                topic_alias_max: c.topic_alias_max,
                request_response_info: c.request_response_info,
                request_problem_info: c.request_problem_info,
                user: Some(&c.properties),
                auth_method: c.auth_method,
                auth_data: c.auth_data,
            };
            client.connect(&connect, out).expect("it fits");
        }
        Event::Publish(p) => client.publish(&publish_out(p, &[]), out).expect("it fits"),
        Event::PubAck { id, reason, load } => {
            ack_out(PacketType::PubAck, *id, *reason, load, client, out)
        }
        Event::PubRec { id, reason, load } => {
            ack_out(PacketType::PubRec, *id, *reason, load, client, out)
        }
        Event::PubRel { id, reason } => {
            client.ack_with(PacketType::PubRel, *id, *reason, &none, out)
        }
        Event::PubComp { id, reason } => {
            client.ack_with(PacketType::PubComp, *id, *reason, &none, out)
        }
        Event::Subscribe(s) => {
            let filters: Vec<_> = s.filters().collect();
            let user = Some(&s.properties as &dyn TextPairs);
            let s = SubscribeOut {
                id: s.id,
                filters: &filters,
                subscription_id: s.subscription_id,
                user,
            };
            client.subscribe(&s, out).expect("it fits");
        }
        Event::Unsubscribe(u) => {
            let filters: Vec<_> = u.filters().collect();
            let u = UnsubscribeOut {
                id: u.id,
                filters: &filters,
                user: Some(&u.properties),
            };
            client.unsubscribe(&u, out).expect("it fits");
        }
        Event::PingReq(PingReq::Report(report)) => assert!(client.ping_with(report, out)),
        Event::PingReq(_) => client.ping(out),
        Event::PassedOver => {}
        Event::Disconnect(d) => {
            let props = DisconnectProps {
                reason_string: d.properties.reason_string(),
                user: Some(&d.properties),
                server_reference: None,
                session_expiry: d.session_expiry,
            };
            client.disconnect(d.reason, &props, out);
        }
        Event::Auth(a) => client.auth(a.reason, a.method, a.data, out),
    }
}

/// Encodes the client's events as a server would.
pub(super) fn by_server(event: &ClientEvent<'_>, server: &mut ServerSide, out: &mut Vec<u8>) {
    let mut ack = |packet: PacketType, ack: &Ack<'_>| {
        let user = (ack.properties.user_properties().next().is_some())
            .then_some(&ack.properties as &dyn TextPairs);
        let info = Info {
            reason_string: ack.properties.reason_string(),
            user,
        };
        server.ack_with(packet, ack.id, ack.reason, &info, out);
    };
    match event {
        ClientEvent::PubAck(a) => ack(PacketType::PubAck, a),
        ClientEvent::PubRec(a) => ack(PacketType::PubRec, a),
        ClientEvent::PubRel(a) => ack(PacketType::PubRel, a),
        ClientEvent::PubComp(a) => ack(PacketType::PubComp, a),
        ClientEvent::ConnAck(c) => server.connack(
            &ConnAck {
                user: Some(&c.properties),
                ..c.values
            },
            out,
        ),
        ClientEvent::Publish(p) => {
            let ids: Vec<u32> = p.properties.subscription_ids().collect();
            server.publish(&publish_out(p, &ids), out).expect("it fits");
        }
        ClientEvent::SubAck(s) => {
            let codes: Vec<_> = s.codes().collect();
            let info = Info {
                reason_string: s.properties.reason_string(),
                user: Some(&s.properties),
            };
            server.suback_with(s.id, &codes, &info, out);
        }
        ClientEvent::UnsubAck(s) => {
            let codes: Vec<_> = s.codes().collect();
            let info = Info {
                reason_string: s.properties.reason_string(),
                user: Some(&s.properties),
            };
            server.unsuback_with(s.id, &codes, &info, out);
        }
        ClientEvent::PingResp => server.pingresp(out),
        ClientEvent::Disconnect(d) => {
            let props = DisconnectProps {
                reason_string: d.properties.reason_string(),
                user: Some(&d.properties),
                server_reference: d.server_reference,
                session_expiry: None,
            };
            server.disconnect(d.reason, &props, out);
        }
        ClientEvent::Auth(a) => server.auth(a.reason, a.method, a.data, out),
    }
}
