//! An end of a connection whose other end is libzmq's; `libzmq.py` beside this file has the other ends and checks both.
//!
//! `libzmq listen PORT` takes any client by any mechanism: it answers each subscription with two messages, sends back what a
//! DEALER or REQ sends, and prints the rest. `libzmq dial PORT TYPE MECHANISM` is a SUB, PUSH or DEALER.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use thalweg_zmtp::*;

const SERVER_SECRET: [u8; 32] = [1; 32];
const CLIENT_SECRET: [u8; 32] = [3; 32];

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", port] => {
            for stream in TcpListener::bind(format!("127.0.0.1:{port}"))?.incoming() {
                let (stream, seed) = (stream?, seed()?);
                std::thread::spawn(move || {
                    if let Err(why) = serve(stream, seed) {
                        println!("closed: {why}");
                    }
                });
            }
            Ok(())
        }
        ["dial", port, socket_type, mechanism] => {
            let stream = TcpStream::connect(format!("127.0.0.1:{port}"))?;
            dial(stream, socket_type, mechanism)
        }
        _ => Err(io::Error::other(
            "libzmq listen PORT | dial PORT TYPE NULL|PLAIN|CURVE",
        )),
    }
}

/// 32 octets of /dev/urandom, or of SEED_FILE for a connection that is to be recorded.
fn seed() -> io::Result<[u8; 32]> {
    let file = std::env::var_os("SEED_FILE").unwrap_or("/dev/urandom".into());
    let mut seed = [0; 32];
    File::open(file)?.read_exact(&mut seed)?;
    Ok(seed)
}

/// A socket, what came of it and is not consumed, and what is to leave.
struct Wire {
    stream: TcpStream,
    arrived: Vec<u8>,
    out: Vec<u8>,
}

impl Wire {
    fn of(stream: TcpStream) -> Self {
        let (arrived, out) = (Vec::new(), Vec::new());
        Wire {
            stream,
            arrived,
            out,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        self.flush()?;
        let mut some = [0; 4096];
        match self.stream.read(&mut some)? {
            0 => Err(io::Error::other("the peer is gone")),
            len => {
                self.arrived.extend_from_slice(&some[..len]);
                Ok(())
            }
        }
    }
}

fn serve(stream: TcpStream, seed: [u8; 32]) -> io::Result<()> {
    let keys = KeyPair::from_secret(SERVER_SECRET);
    let mechanisms = ServerMechanisms {
        null: true,
        plain: true,
        curve: Some(CurveServer { keys, seed }),
    };
    let mut wire = Wire::of(stream);
    let mut server = ServerSide::new(Limits::default(), mechanisms);
    server.greet(&mut wire.out);
    let (mut traffic, socket_type) = loop {
        let step = server.handle_input(&wire.arrived, &mut wire.out);
        let Some((consumed, event)) = step.map_err(io::Error::other)? else {
            wire.read()?;
            continue;
        };
        println!("{event:?}");
        match event {
            HandshakeEvent::Login(login) if login.password == b"secret" => {
                server.welcome(&mut wire.out)
            }
            HandshakeEvent::Login(_) => server.error("400", &mut wire.out),
            HandshakeEvent::Peer(peer) => {
                let ours = SocketType::ALL
                    .iter()
                    .rev()
                    .find(|t| t.goes_with(peer.socket_type));
                let ours = Announcement::of(*ours.expect("every type has another"));
                let traffic = server.ready(&ours, &mut wire.out).expect("a peer waits");
                let socket_type = peer.socket_type;
                wire.arrived.drain(..consumed);
                break (traffic, socket_type);
            }
            _ => {}
        }
        wire.arrived.drain(..consumed);
    };
    let echoes = matches!(socket_type, SocketType::Req | SocketType::Dealer);
    talk(&mut wire, &mut traffic, |event, traffic, out| match event {
        Event::Subscribe(prefix) => {
            traffic.frame(prefix, true, out);
            traffic.frame(b"hello", false, out);
            traffic.frame(&[prefix, &[b'x'; 70_000]].concat(), false, out);
        }
        Event::Message(message) if echoes => traffic.forward(message, out),
        _ => {}
    })
}

fn dial(stream: TcpStream, socket_type: &str, mechanism: &str) -> io::Result<()> {
    let mechanism = match mechanism {
        "PLAIN" => ClientMechanism::Plain {
            username: b"ada".to_vec(),
            password: b"secret".to_vec(),
        },
        "WRONG" => ClientMechanism::Plain {
            username: b"ada".to_vec(),
            password: b"wrong".to_vec(),
        },
        "CURVE" => ClientMechanism::Curve(Box::new(CurveClient {
            server: *KeyPair::from_secret(SERVER_SECRET).public(),
            keys: KeyPair::from_secret(CLIENT_SECRET),
            seed: seed()?,
        })),
        _ => ClientMechanism::Null,
    };
    let socket_type = SocketType::from_name(socket_type.as_bytes()).expect("a socket type");
    let ours = Announcement::of(socket_type);
    let mut wire = Wire::of(stream);
    let mut client = ClientSide::new(Limits::default(), mechanism, &ours);
    client.greet(&mut wire.out);
    let mut traffic = loop {
        let step = client.handle_input(&wire.arrived, &mut wire.out);
        let Some((consumed, event)) = step.map_err(io::Error::other)? else {
            wire.read()?;
            continue;
        };
        println!("{event:?}");
        wire.arrived.drain(..consumed);
        if let Some(traffic) = client.traffic() {
            break traffic;
        }
    };
    match socket_type {
        SocketType::Sub => traffic.subscribe(b"a", &mut wire.out),
        _ => {
            traffic.frame(b"a", true, &mut wire.out);
            traffic.frame(&[b'y'; 300], false, &mut wire.out);
            traffic.ping(100, b"are you there?", &mut wire.out);
        }
    }
    talk(&mut wire, &mut traffic, |_, _, _| {})
}

/// Prints each event and lets `answer` have it, until the peer is gone.
fn talk(
    wire: &mut Wire,
    traffic: &mut Traffic,
    mut answer: impl FnMut(Event<'_>, &mut Traffic, &mut Vec<u8>),
) -> io::Result<()> {
    let mut gathered = Gathered::default();
    loop {
        let heard = traffic.handle_input(&wire.arrived, &mut gathered);
        let Some((consumed, event)) = heard.map_err(io::Error::other)? else {
            wire.read()?;
            continue;
        };
        match event {
            Event::Message(message) => {
                let lengths: Vec<usize> = message.frames().map(<[u8]>::len).collect();
                println!("Message{lengths:?}");
            }
            event => println!("{event:?}"),
        }
        if let Event::Ping { context, .. } = event {
            traffic.pong(context, &mut wire.out);
        }
        answer(event, traffic, &mut wire.out);
        wire.arrived.drain(..consumed);
    }
}
