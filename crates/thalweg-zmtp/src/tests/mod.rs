//! Tests of both ends.

mod bytewise;
mod curve;
mod handshake;
mod mutations;
mod properties;
mod traffic;
mod transcripts;

use crate::*;

fn mechanisms() -> ServerMechanisms {
    ServerMechanisms {
        null: true,
        plain: true,
        curve: Some(CurveServer {
            keys: KeyPair::from_secret([1; 32]),
            seed: [2; 32],
        }),
    }
}

fn curve() -> ClientMechanism {
    ClientMechanism::Curve(Box::new(CurveClient {
        server: *KeyPair::from_secret([1; 32]).public(),
        keys: KeyPair::from_secret([3; 32]),
        seed: [4; 32],
    }))
}

fn plain() -> ClientMechanism {
    ClientMechanism::Plain {
        username: b"ada".to_vec(),
        password: b"secret".to_vec(),
    }
}

/// Every way for a client to show who it is.
fn client_mechanisms() -> [ClientMechanism; 3] {
    [ClientMechanism::Null, plain(), curve()]
}

/// Both ends behind a handshake, which they do with each other.
fn pair(mechanism: ClientMechanism, client: SocketType, server: SocketType) -> (Traffic, Traffic) {
    let ours = Announcement::of(client);
    let mut client = ClientSide::new(Limits::default(), mechanism, &ours);
    let mut accepting = ServerSide::new(Limits::default(), mechanisms());
    let (mut there, mut back) = (Vec::new(), Vec::new());
    client.greet(&mut there);
    accepting.greet(&mut back);
    let mut ready = None;
    for _ in 0..8 {
        while let Some((consumed, event)) =
            accepting.handle_input(&there, &mut back).expect("valid")
        {
            match event {
                HandshakeEvent::Login(login) => {
                    assert_eq!(
                        (login.username, login.password),
                        (&b"ada"[..], &b"secret"[..])
                    );
                    accepting.welcome(&mut back);
                }
                HandshakeEvent::Peer(peer) => {
                    assert_eq!(peer.socket_type, ours.socket_type);
                    ready = accepting.ready(&Announcement::of(server), &mut back);
                }
                _ => {}
            }
            there.drain(..consumed);
        }
        while let Some((consumed, _)) = client.handle_input(&back, &mut there).expect("valid") {
            back.drain(..consumed);
        }
    }
    assert!(there.is_empty() && back.is_empty());
    let client = client.traffic().expect("the handshake is over");
    (client, ready.expect("the handshake is over"))
}

/// A server's end whose client has shaken hands by NULL.
fn server_for(client: SocketType) -> Traffic {
    let server = *SocketType::ALL
        .iter()
        .find(|t| t.goes_with(client))
        .expect("one");
    pair(ClientMechanism::Null, client, server).1
}

/// Text of one event: events borrow from data that is gone when they are compared.
fn words(event: &Event<'_>) -> String {
    format!("{event:?}")
}

/// All events of a server whose client sends `input`, of which the first `cuts[0]` octets arrive first and so on; and
/// its output. Every login and every peer is accepted.
fn server_hears(input: &[u8], cuts: &[usize]) -> (Vec<String>, Vec<u8>) {
    let limits = Limits {
        handshake_bytes_max: 600,
        command_bytes_max: 200,
        message_bytes_max: 1000,
    };
    let mut server = ServerSide::new(limits, mechanisms());
    let (mut heard, mut out) = (Vec::new(), Vec::new());
    server.greet(&mut out);
    let mut traffic: Option<Traffic> = None;
    let mut from = 0;
    let mut gathered = Gathered::default();
    for &until in cuts {
        loop {
            let arrived = &input[from..until];
            let consumed = match &mut traffic {
                None => server.handle_input(arrived, &mut out).map(|step| {
                    step.map(|(consumed, event)| {
                        match &event {
                            HandshakeEvent::Login(_) => server.welcome(&mut out),
                            HandshakeEvent::Peer(_) => {
                                let ours = Announcement::of(SocketType::Xpub);
                                traffic = server.ready(&ours, &mut out);
                            }
                            _ => {}
                        }
                        heard.push(format!("{event:?}"));
                        consumed
                    })
                }),
                Some(traffic) => traffic.handle_input(arrived, &mut gathered).map(|step| {
                    step.map(|(consumed, event)| {
                        if let Event::Ping { context, .. } = event {
                            traffic.pong(context, &mut out);
                        }
                        heard.push(words(&event));
                        consumed
                    })
                }),
            };
            match consumed {
                Ok(Some(consumed)) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                }
                Ok(None) => break,
                Err(fault) => {
                    heard.push(fault.to_string());
                    return (heard, out);
                }
            }
        }
    }
    (heard, out)
}

/// The same for a client of this mechanism.
fn client_hears(
    mechanism: ClientMechanism,
    input: &[u8],
    cuts: &[usize],
) -> (Vec<String>, Vec<u8>) {
    let ours = Announcement::of(SocketType::Sub);
    let mut client = ClientSide::new(Limits::default(), mechanism, &ours);
    let (mut heard, mut out) = (Vec::new(), Vec::new());
    client.greet(&mut out);
    let mut traffic: Option<Traffic> = None;
    let mut from = 0;
    let mut gathered = Gathered::default();
    for &until in cuts {
        loop {
            let arrived = &input[from..until];
            let consumed = match &mut traffic {
                None => client.handle_input(arrived, &mut out).map(|step| {
                    step.map(|(consumed, event)| {
                        heard.push(format!("{event:?}"));
                        traffic = client.traffic();
                        consumed
                    })
                }),
                Some(traffic) => traffic.handle_input(arrived, &mut gathered).map(|step| {
                    step.map(|(consumed, event)| {
                        heard.push(words(&event));
                        consumed
                    })
                }),
            };
            match consumed {
                Ok(Some(consumed)) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                }
                Ok(None) => break,
                Err(fault) => {
                    heard.push(fault.to_string());
                    return (heard, out);
                }
            }
        }
    }
    (heard, out)
}
