//! Encodes the events of one machine with the other's methods: decoding and encoding must cancel out.

use super::*;

/// The headers that are no fields of the frames.
fn further<'b>(
    headers: &Headers<'b>,
) -> Vec<(std::borrow::Cow<'b, str>, std::borrow::Cow<'b, str>)> {
    const FIELDS: &str = "accept-version host login passcode heart-beat version session server user-name destination \
        content-type content-length transaction receipt id ack subscription message-id redelivered";
    headers
        .iter()
        .filter(|(name, _)| !FIELDS.split_whitespace().any(|field| field == name))
        .collect()
}

fn ack_out<'a>(frame: &'a AckFrame<'_>) -> AckOut<'a> {
    let (transaction, receipt) = (frame.transaction.as_deref(), frame.receipt.as_deref());
    match &frame.target {
        AckTarget::Id(id) => AckOut {
            ack: id,
            transaction,
            receipt,
            ..AckOut::default()
        },
        AckTarget::Message {
            message_id,
            subscription,
        } => AckOut {
            ack: "",
            message_id,
            subscription: subscription.as_deref(),
            transaction,
            receipt,
        },
    }
}

/// Encodes the server's events as a client would.
pub(super) fn by_client(event: &Event<'_>, client: &mut ClientSide, out: &mut Vec<u8>) {
    match event {
        Event::Connect(c) => {
            let accept = c.headers.get("accept-version").unwrap_or("1.0".into());
            let versions = || accept.split(',').filter_map(Version::from_name);
            let more = further(&c.headers);
            let headers: Vec<(&str, &str)> = more
                .iter()
                .map(|(name, value)| (&**name, &**value))
                .collect();
            let connect = ConnectOut {
                lowest: versions().min().expect("at least one"),
                highest: versions().max().expect("at least one"),
                host: c.host.as_deref().unwrap_or_default(),
                login: c.login.as_deref(),
                passcode: c.passcode.as_deref(),
                heart_beat: c.heart_beat,
                headers: &headers,
            };
            client.connect(&connect, out);
        }
        Event::Send(s) => {
            let send = SendOut {
                destination: &s.destination,
                transaction: s.transaction.as_deref(),
                receipt: s.receipt.as_deref(),
                content_type: s.content_type.as_deref(),
                body: s.body,
            };
            client.send(
                &send,
                |w| {
                    further(&s.headers)
                        .iter()
                        .for_each(|(n, v)| assert!(w.put(n, v)))
                },
                out,
            );
        }
        Event::Subscribe(s) => {
            let more = further(&s.headers);
            let headers: Vec<(&str, &str)> = more
                .iter()
                .map(|(name, value)| (&**name, &**value))
                .collect();
            let subscribe = SubscribeOut {
                id: s.id.as_deref(),
                destination: &s.destination,
                ack: s.ack,
                receipt: s.receipt.as_deref(),
                headers: &headers,
            };
            client.subscribe(&subscribe, out);
        }
        Event::Unsubscribe(u) => {
            let more = further(&u.headers);
            let headers: Vec<(&str, &str)> = more
                .iter()
                .map(|(name, value)| (&**name, &**value))
                .collect();
            match (&u.id, &u.destination) {
                (Some(id), _) => client.unsubscribe(id, u.receipt.as_deref(), &headers, out),
                (None, Some(destination)) => {
                    client.unsubscribe_destination(destination, u.receipt.as_deref(), out)
                }
                (None, None) => panic!("UNSUBSCRIBE of nothing"),
            }
        }
        Event::Ack(a) => client.ack(&ack_out(a), out),
        Event::Nack(a) => client.nack(&ack_out(a), out),
        Event::Begin(t) => client.begin(&t.transaction, t.receipt.as_deref(), out),
        Event::Commit(t) => client.commit(&t.transaction, t.receipt.as_deref(), out),
        Event::Abort(t) => client.abort(&t.transaction, t.receipt.as_deref(), out),
        Event::Disconnect(d) => client.disconnect(d.receipt.as_deref(), out),
        Event::HeartBeat => client.heart_beat(out),
    }
}

/// Encodes the client's events as a server would.
pub(super) fn by_server(event: &ClientEvent<'_>, server: &mut ServerSide, out: &mut Vec<u8>) {
    match event {
        ClientEvent::Connected(c) => {
            let connected = ConnectedOut {
                session: c.session.as_deref(),
                server: c.server.as_deref(),
                heart_beat: c.heart_beat,
                user: c.user.as_deref(),
                further: &[],
            };
            server.connected(&connected, out);
        }
        ClientEvent::Message(m) => {
            let message = MessageOut {
                subscription: m.subscription.as_deref(),
                message_id: &m.message_id,
                ack: m.ack.as_deref(),
                destination: &m.destination,
                content_type: m.content_type.as_deref(),
                redelivered: m.redelivered,
                body: m.body,
            };
            server.message(
                &message,
                |w| {
                    further(&m.headers)
                        .iter()
                        .for_each(|(n, v)| assert!(w.put(n, v)))
                },
                out,
            );
        }
        ClientEvent::Receipt(id) => server.receipt(id, out),
        ClientEvent::Error(e) => {
            let body = std::str::from_utf8(e.body).expect("text");
            server.error(
                e.message.as_deref().unwrap_or_default(),
                e.receipt_id.as_deref(),
                body,
                out,
            );
        }
        ClientEvent::HeartBeat => server.heart_beat(out),
    }
}
