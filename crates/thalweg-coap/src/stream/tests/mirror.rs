//! Encodes the events of one machine with the other's methods: decoding and encoding must cancel out.

use super::super::frame::copy;
use super::*;

/// Encodes the server's events as a client would.
pub(super) fn by_client(event: &Event<'_>, client: &mut ClientSide, out: &mut Vec<u8>) {
    match event {
        Event::Csm(_) => client.open(out),
        Event::Request(m) => {
            let options = |encoder: &mut Encoder<'_>| copy(m.options, encoder);
            if m.options.uint(option::OBSERVE) == Some(1) {
                client
                    .request_again(m.token, m.code, options, m.payload, out)
                    .expect("small");
            } else if m.code.is_request() {
                let observes = m.options.has(option::OBSERVE);
                client
                    .request(m.code, observes, options, m.payload, out)
                    .expect("small");
            }
        }
        Event::Ping { token, custody } => client.ping(*token, *custody, out),
        Event::Pong { token, custody } => client.pong(*token, *custody, out),
        Event::Release(_) => client.release(out),
        Event::Abort(abort) => client.abort(str::from_utf8(abort.diagnostic).expect("text"), out),
        Event::Ignored => client.keep_alive(out),
    }
}

/// Encodes the client's events as a server would.
pub(super) fn by_server(event: &ClientEvent<'_>, server: &mut ServerSide, out: &mut Vec<u8>) {
    match event {
        ClientEvent::Csm(_) => server.open(out),
        ClientEvent::Response { message: m, .. } | ClientEvent::Request(m) => {
            server
                .respond(
                    m.token,
                    m.code,
                    |encoder| copy(m.options, encoder),
                    m.payload,
                    out,
                )
                .expect("small");
        }
        ClientEvent::Ping { token, custody } => server.ping(*token, *custody, out),
        ClientEvent::Pong { token, custody } => server.pong(*token, *custody, out),
        ClientEvent::Release(release) => {
            let alternatives: Vec<_> = release.alternatives().collect();
            server.release(&alternatives, release.hold_off_seconds(), out);
        }
        ClientEvent::Abort(abort) => {
            server.abort(str::from_utf8(abort.diagnostic).expect("text"), out)
        }
        ClientEvent::Ignored => server.keep_alive(out),
    }
}
