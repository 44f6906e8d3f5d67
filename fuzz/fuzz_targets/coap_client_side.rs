//! A server that answers anything in datagrams. The input is a list of steps, as for `coap_server_side`; a datagram may
//! be made to fit what was asked last.
#![no_main]

use std::net::SocketAddr;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use thalweg_coap::{
    Cancel, ClientSettings, ClientSide, Code, Datagrams, Message, RequestId, RequestOut, Value,
    option,
};
use thalweg_wire::{Span, Time};

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 5683);

fn ask(client: &mut ClientSide, what: u8, now: Time, out: &mut Datagrams) -> Option<RequestId> {
    let payload = vec![1; [0, 20, 3000][usize::from(what % 3)]];
    let request = RequestOut {
        code: [Code::GET, Code::PUT, Code::FETCH, Code::POST][usize::from(what >> 2 & 3)],
        confirmable: what & 16 == 0,
        options: &[(option::URI_PATH, Value::Opaque(b"t"))],
        payload: &payload,
        observe: what & 32 != 0,
    };
    if what & 64 != 0 {
        return client.ping(SERVER.into(), now, out).ok();
    }
    client.request(SERVER.into(), &request, now, out).ok()
}

/// The datagram with the id and the token of what was asked.
fn fitting(datagram: &[u8], asked: &[u8]) -> Vec<u8> {
    let (Ok(asked), [first, code, rest @ ..]) = (Message::decode(asked), datagram) else {
        return datagram.to_vec();
    };
    let mut fit = vec![first & 0xF0 | asked.token.len() as u8, *code];
    fit.extend(asked.id.to_be_bytes());
    fit.extend(asked.token.as_slice());
    fit.extend(rest);
    fit
}

fuzz_target!(|input: &[u8]| {
    let settings = ClientSettings {
        response_bytes_max: 4096,
        requests_max: 8,
        ..ClientSettings::default()
    };
    let mut client = ClientSide::new(Arc::new(settings), 1);
    let (mut out, mut now) = (Datagrams::new(), Time::from_secs(1_795_000_000));
    let (mut open, mut asked) = (Vec::new(), Vec::new());
    let mut rest = input;
    while let [step, value, tail @ ..] = rest {
        rest = tail;
        match step % 5 {
            0 => open.extend(ask(&mut client, *value, now, &mut out)),
            1 => {
                now += Span::from_millis(125 * u64::from(*value));
                client.handle_timeout(now, &mut out);
                assert!(client.poll_timeout() > now);
            }
            2 => match (value & 3, open.pop()) {
                (0, Some(request)) => client.register_again(request, now, &mut out),
                (1, Some(request)) => client.cancel(request, Cancel::Deregister, now, &mut out),
                (_, Some(request)) => client.cancel(request, Cancel::Forget, now, &mut out),
                (_, None) => {}
            },
            kind => {
                let (datagram, tail) = rest.split_at(usize::from(*value).min(rest.len()));
                rest = tail;
                let datagram = if kind == 3 {
                    fitting(datagram, &asked)
                } else {
                    datagram.to_vec()
                };
                let _ = client.handle_datagram(SocketAddr::from(SERVER), &datagram, now, &mut out);
            }
        }
        for (_, datagram) in out.iter() {
            assert!(Message::decode(datagram).is_ok());
            asked = datagram.to_vec();
        }
        out.clear();
        while client.poll_event().is_some() {}
        assert!(client.requests() <= 8);
    }
});
