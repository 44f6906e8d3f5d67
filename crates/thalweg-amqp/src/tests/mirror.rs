//! Encodes the decoded events again.

use super::*;
use crate::methods::{basic, connection};

/// The code and words of a close, as verbs want them.
fn words(code: u16, text: &str) -> (ReplyCode, &str) {
    let code = ReplyCode::of(code).expect("a code that we know");
    (
        code,
        text.strip_prefix(&format!("{} - ", code.name()))
            .unwrap_or(text),
    )
}

/// A client that sends the server's events.
pub(super) fn by_client(event: &Event<'_>, client: &mut ClientSide, out: &mut Vec<u8>) {
    match event {
        Event::ProtocolHeader => client.connect(out),
        Event::StartOk(s) => client.start_ok(s.client_properties, s.mechanism, s.response, out),
        Event::SecureOk(ok) => client.secure_ok(ok.response, out),
        Event::TuneOk {
            channel_max,
            frame_max,
            heartbeat,
        } => {
            let (channel_max, frame_max, heartbeat) = (*channel_max, *frame_max, *heartbeat);
            client.tune_ok(
                ServerOffer {
                    channel_max,
                    frame_max,
                    heartbeat,
                },
                out,
            );
        }
        Event::Open { vhost } => client.open(vhost, out),
        Event::CloseConnection { code, text, cause } => {
            let (code, what) = words(*code, text);
            client.close(code, what, *cause, out);
        }
        Event::CloseConnectionOk => client.close_ok(out),
        Event::UpdateSecret(connection::UpdateSecret { new_secret, reason }) => {
            client.update_secret(new_secret, reason, out);
        }
        Event::ChannelOpen(ch) => client.channel_open(*ch, out),
        Event::ChannelClose {
            ch,
            code,
            text,
            cause,
        } => {
            let (code, what) = words(*code, text);
            client.channel_close(*ch, code, what, *cause, out);
        }
        Event::ChannelCloseOk(ch) => client.channel_close_ok(*ch, out),
        Event::Heartbeat => client.heartbeat(out),
        Event::Method {
            ch,
            method: Method::BasicAck(ack),
        } => client.ack(*ch, ack.delivery_tag, ack.multiple, out),
        Event::Method { ch, method } => client.method(*ch, method, out),
        Event::Publish(p) => {
            let Publish {
                exchange,
                routing_key,
                mandatory,
                immediate,
                ..
            } = *p;
            let publish = basic::Publish {
                exchange,
                routing_key,
                mandatory,
                immediate,
            };
            let before = out.len();
            client
                .publish(p.ch, &publish, ContentHeader::Raw(p.header), p.payload, out)
                .expect("it fits");
            let mut again = Vec::new();
            client
                .publish(
                    p.ch,
                    &publish,
                    ContentHeader::Properties(&p.properties),
                    p.payload,
                    &mut again,
                )
                .expect("it fits");
            assert_eq!(out[before..], again);
        }
        Event::ChannelFault(_) | Event::Consumed => {}
    }
}

/// A server that sends the client's events.
pub(super) fn by_server(event: &ClientEvent<'_>, server: &mut ServerSide, out: &mut Vec<u8>) {
    match event {
        ClientEvent::Start(s) => {
            let text = |bytes| std::str::from_utf8(bytes).expect("text");
            server.start(
                s.server_properties,
                text(s.mechanisms),
                text(s.locales),
                out,
            );
        }
        ClientEvent::Secure { challenge } => server.secure(challenge, out),
        ClientEvent::Tune(_) => server.tune(out),
        ClientEvent::OpenOk => server.open_ok(out),
        ClientEvent::CloseConnection { code, text, cause } => {
            let (code, what) = words(*code, text);
            server.close(code, what, *cause, out);
        }
        ClientEvent::CloseConnectionOk => server.close_ok(out),
        ClientEvent::UpdateSecretOk => server.update_secret_ok(out),
        ClientEvent::Blocked { reason } => server.blocked(reason, out),
        ClientEvent::Unblocked => server.unblocked(out),
        ClientEvent::ChannelOpenOk(ch) => server.channel_open_ok(*ch, out),
        ClientEvent::ChannelClose {
            ch,
            code,
            text,
            cause,
        } => {
            let (code, what) = words(*code, text);
            server.channel_close(*ch, code, what, *cause, out);
        }
        ClientEvent::ChannelCloseOk(ch) => server.channel_close_ok(*ch, out),
        ClientEvent::Heartbeat => server.heartbeat(out),
        ClientEvent::Content {
            ch,
            method,
            properties,
            payload,
            header,
        } => {
            let mut say = |header: ContentHeader<'_>| {
                let mut out = Vec::new();
                let said = match method {
                    Method::BasicDeliver(deliver) => {
                        server.deliver(*ch, deliver, header, payload, &mut out)
                    }
                    Method::BasicGetOk(get_ok) => {
                        server.get_ok(*ch, get_ok, header, payload, &mut out)
                    }
                    Method::BasicReturn(return_) => {
                        server.return_(*ch, return_, header, payload, &mut out)
                    }
                    other => panic!("{other:?} has no content"),
                };
                said.expect("it fits");
                out
            };
            let said = say(ContentHeader::Raw(header));
            assert_eq!(said, say(ContentHeader::Properties(properties)));
            out.extend(said);
        }
        ClientEvent::Method {
            ch,
            method: Method::BasicAck(ack),
        } => server.ack(*ch, ack.delivery_tag, ack.multiple, out),
        ClientEvent::Method {
            ch,
            method: Method::BasicNack(nack),
        } => {
            server.nack(*ch, nack.delivery_tag, nack.multiple, out);
        }
        ClientEvent::Method { ch, method } => server.method(*ch, method, out),
        ClientEvent::ChannelFault(_) | ClientEvent::Consumed | ClientEvent::WrongProtocol(_) => {}
    }
}
