//! Connections that move to their home shard over real sockets: no byte is lost, limits count each once, and a server that
//! stops waits for none that is on the way.

use crate::wanderer::Wanderer;
use crate::{PATIENCE, address};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;
use thalweg_fronts::{AnyFront, FrontSettings};
use thalweg_kernel::access::Access;
use thalweg_server::config::Config;
use thalweg_server::{Server, StartOptions};

const SHARDS: usize = 4;

struct Wanderers;

impl FrontSettings for Wanderers {
    fn stream_front(self: Arc<Self>, _: u64, _: Option<Access>) -> Option<AnyFront> {
        Some(AnyFront::extension(Wanderer::default()))
    }
}

fn start(sets: &[&str]) -> Server {
    let own = [
        "listeners.home.kind=extension",
        "listeners.home.bind=127.0.0.1:0",
        "listeners.mqtt.enabled=false",
        "listeners.websocket.enabled=false",
        "journal.enabled=false",
        "shards=4",
    ];
    let sets: Vec<String> = own.iter().chain(sets).map(|set| (*set).into()).collect();
    let (config, _) =
        Config::from_text(None, std::iter::empty(), &sets).expect("the settings are right");
    let mut options = StartOptions::default();
    options
        .extensions
        .insert("home".into(), Arc::new(Wanderers));
    Server::start_with(config, options).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// A connection that has said all this at once.
fn connect(server: &Server, words: &str) -> BufReader<TcpStream> {
    let mut socket = TcpStream::connect(address(server, "home")).expect("it accepts");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    // One that is over a limit is closed, perhaps before this.
    let _ = socket.write_all(words.as_bytes());
    BufReader::new(socket)
}

/// The next line; empty where the connection has ended.
fn hears(socket: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    match socket.read_line(&mut line) {
        Ok(_) => line.trim_end().to_owned(),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => String::new(),
        Err(error) => panic!("nothing comes: {error}"),
    }
}

/// Whether the first line was answered, by whichever shard it came to.
fn is_let_in(socket: &mut BufReader<TcpStream>) -> bool {
    hears(socket).ends_with(": from here")
}

#[test]
fn what_was_read_with_the_first_bytes_is_answered_at_home() {
    let server = start(&[]);
    for home in 0..2 * SHARDS {
        let mut socket = connect(&server, &format!("HOME {}\none\ntwo\nthr", home + 1));
        let home = home % SHARDS;
        assert!(is_let_in(&mut socket));
        let heard = [(); 2].map(|()| hears(&mut socket));
        assert_eq!(heard, [format!("{home}: one"), format!("{home}: two")]);
        socket.get_mut().write_all(b"ee\n").expect("it is open");
        assert_eq!(hears(&mut socket), format!("{home}: three"));
    }
}

#[test]
fn a_connection_that_moves_is_counted_once_and_no_more_when_it_has_gone() {
    let server = start(&["limits.connections_max=2"]);
    let words = |home: usize| format!("HOME {}\nhello\n", home + 1);
    let mut open: Vec<_> = (0..2).map(|home| connect(&server, &words(home))).collect();
    for (home, socket) in open.iter_mut().enumerate() {
        assert!(is_let_in(socket));
        assert_eq!(hears(socket), format!("{home}: hello"));
    }
    assert_eq!(hears(&mut connect(&server, &words(3))), "", "two are open");
    for round in 0..8 {
        open.remove(0);
        let end = Instant::now() + PATIENCE;
        let socket = loop {
            let mut socket = connect(&server, &words(round % SHARDS));
            if is_let_in(&mut socket) {
                break socket;
            }
            assert!(
                Instant::now() < end,
                "no place became free in round {round}"
            );
        };
        open.push(socket);
    }
    let links = server.observer().on_shards(|inside| inside.links.len());
    assert!(links.iter().sum::<usize>() <= 3, "{links:?}");
}

#[test]
fn a_server_stops_with_connections_on_the_way() {
    let server = start(&[]);
    let mut open: Vec<_> = (0..40)
        .map(|home| connect(&server, &format!("HOME {}\nhello\n", home + 1)))
        .collect();
    server.stop();
    for socket in &mut open {
        while !hears(socket).is_empty() {}
    }
}
