//! A lobby on loopback. Clients block with a timeout; nothing sleeps.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::*;
use crate::listen::Bind;
use crate::threads::tests::failures;
use crate::transport::certificates::{Authority, Folder, server_files};
use crate::transport::client::{TlsClientFiles, TlsConnector, websocket};
use crate::transport::proxy::{ProxyRule, ProxyVersions};
use crate::transport::tls::{ClientCertificates, TlsAcceptor};
use crate::transport::websocket::WebSocketSettings;
use crate::transport::{Filtered, Transport};

const PATIENCE: Duration = Duration::from_secs(60);
/// What the test's protocol calls a first packet: 0x10, a length, and so many bytes.
const HELLO: &[u8] = b"\x10\x04name";

fn route(input: &[u8], _: usize) -> Route {
    match input {
        [0x10, length, rest @ ..] if rest.len() >= usize::from(*length) => {
            Route::Key(u64::from(*length) + 100)
        }
        [0x10, ..] => Route::NeedMore,
        _ => Route::NotOurs("the first byte is not 0x10"),
    }
}

struct Deliveries(mpsc::Sender<(u64, Arrival)>);

impl Deliver for Deliveries {
    fn deliver(&self, key: u64, arrival: Arrival) {
        let _ = self.0.send((key, arrival));
    }

    fn make_room(&self, _: u64) {}
}

struct Bench {
    lobby: LobbyHandle,
    arrivals: mpsc::Receiver<(u64, Arrival)>,
    address: SocketAddr,
}

fn tcp(name: &str) -> ListenerSpec {
    ListenerSpec::new(name, Bind::Tcp("127.0.0.1:0".parse().unwrap()), route)
}

fn bench(spec: ListenerSpec, settings: LobbySettings) -> Bench {
    let listener = Listener::bind(spec).unwrap();
    let address = listener
        .local_address()
        .unwrap_or_else(|| "127.0.0.1:0".parse().unwrap());
    let (sender, arrivals) = mpsc::channel();
    let lobby = Lobby::start(
        vec![listener],
        settings,
        Box::new(Deliveries(sender)),
        &failures().0,
    )
    .unwrap();
    Bench {
        lobby,
        arrivals,
        address,
    }
}

impl Bench {
    fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    fn arrival(&self) -> (u64, Arrival) {
        self.arrivals.recv_timeout(PATIENCE).expect("one arrives")
    }

    fn counts(&self) -> LobbyCounts {
        self.lobby.counters().read()
    }

    /// Waits until the thread's counts are as wanted.
    fn until(&self, is_so: impl Fn(&LobbyCounts) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(&self.counts()) {
            assert!(Instant::now() < end, "{:?}", self.counts());
            std::thread::yield_now();
        }
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads until the other end closes.
fn read_to_end(mut stream: impl Read) -> Vec<u8> {
    let mut got = Vec::new();
    match stream.read_to_end(&mut got) {
        Ok(_) => got,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => got,
        Err(error) => panic!("the other end does not close: {error}"),
    }
}

fn in_pieces(mut stream: impl Write, bytes: &[u8]) {
    for byte in bytes {
        stream.write_all(&[*byte]).unwrap();
    }
}

#[test]
fn a_first_packet_in_single_bytes_is_handed_over_whole_and_the_socket_works() {
    let bench = bench(tcp("mqtt"), LobbySettings::default());
    let mut client = bench.connect();
    in_pieces(&client, HELLO);
    let (key, mut arrival) = bench.arrival();
    assert_eq!((key, arrival.input.as_slice()), (104, HELLO));
    assert!(arrival.transport.is_plain());
    assert_eq!(arrival.peer.address, Some(client.local_addr().unwrap()));
    assert_eq!(arrival.peer.local, Some(bench.address));
    assert_eq!(&*arrival.peer.listener.name, "mqtt");
    assert_eq!(arrival.peer.certificate_name, None);
    let Socket::Tcp(stream) = &arrival.socket else {
        panic!("a TCP socket")
    };
    assert!(
        stream.nodelay().unwrap(),
        "accepted sockets inherit the option of the listening one"
    );
    assert_eq!(
        arrival.socket.read(&mut [0]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    // It can be watched by another poll.
    let poll = mio::Poll::new().unwrap();
    poll.registry()
        .register(&mut arrival.socket, mio::Token(0), mio::Interest::READABLE)
        .unwrap();
    arrival.socket.write_all(b"welcome").unwrap();
    let mut got = [0; 7];
    client.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"welcome");
    bench.until(|counts| counts.waiting == 0);
    assert_eq!((bench.counts().accepted, bench.counts().delivered), (1, 1));
}

#[test]
fn a_unix_socket_is_a_listener_like_any_other() {
    let folder = Folder::new();
    let path = folder.file("broker.sock");
    let bind = Bind::Unix {
        path: path.clone(),
        mode: 0o600,
    };
    let bench = bench(
        ListenerSpec::new("unix", bind, route),
        LobbySettings::default(),
    );
    in_pieces(UnixStream::connect(&path).unwrap(), HELLO);
    let (key, arrival) = bench.arrival();
    assert_eq!((key, arrival.peer.address), (104, None));
    assert!(matches!(arrival.socket, Socket::Unix(_)));
    bench.lobby.stop();
    assert!(!path.exists(), "the socket's file goes with the listener");
}

/// A client behind filters that says `HELLO` after its handshakes, one byte at a time in both directions.
fn say_hello_through(filters: &mut Filtered, mut stream: &TcpStream) {
    let mut wire = Vec::new();
    filters.encode(HELLO, &mut wire).unwrap();
    in_pieces(stream, &std::mem::take(&mut wire));
    while filters.is_handshaking() {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        filters.handle_input(&byte, &mut Vec::new()).unwrap();
        filters.take_output(&mut wire);
        in_pieces(stream, &std::mem::take(&mut wire));
    }
}

#[test]
fn proxy_header_tls_and_websocket_are_passed_one_byte_at_a_time() {
    let folder = Folder::new();
    let authority = Authority::new(&folder, "authority");
    let files = server_files(&folder, &authority, ClientCertificates::Required);
    let websocket_settings = Arc::new(WebSocketSettings::default());
    let mut spec = tcp("wss");
    spec.proxy = Some(believed());
    spec.tls = Some(Arc::new(TlsAcceptor::new(files).unwrap()));
    spec.websocket = Some(websocket_settings.clone());
    let bench = bench(spec, LobbySettings::default());

    let client = bench.connect();
    in_pieces(&client, b"PROXY TCP4 192.0.2.7 198.51.100.9 43981 8883\r\n");
    let identity = Some(authority.issue(&folder, "client", "pump-7", "pump.test"));
    let files = TlsClientFiles {
        ca: Some(authority.file.clone()),
        identity,
        ..TlsClientFiles::default()
    };
    let tls = TlsConnector::new(&files)
        .unwrap()
        .connect("localhost")
        .unwrap();
    let layer = websocket("localhost", "/mqtt", "mqtt", &websocket_settings);
    let Transport::Filtered(mut filters) = Filtered::stack(Some(tls), Some(layer)) else {
        panic!("filters")
    };
    say_hello_through(&mut filters, &client);

    let (key, arrival) = bench.arrival();
    assert_eq!((key, arrival.input.as_slice()), (104, HELLO));
    assert_eq!(
        arrival.peer.address,
        Some("192.0.2.7:43981".parse().unwrap())
    );
    assert_eq!(
        arrival.peer.local,
        Some("198.51.100.9:8883".parse().unwrap())
    );
    assert_eq!(arrival.peer.certificate_name.as_deref(), Some("pump-7"));
    let Transport::Filtered(mut server) = arrival.transport else {
        panic!("filters")
    };
    let mut wire = arrival.output;
    server.encode(b"welcome", &mut wire).unwrap();
    let mut socket = arrival.socket;
    socket.write_all(&wire).unwrap();
    let mut plain = Vec::new();
    while plain.is_empty() {
        let mut bytes = [0; 512];
        let read = (&client).read(&mut bytes).unwrap();
        filters.handle_input(&bytes[..read], &mut plain).unwrap();
    }
    assert_eq!(plain, b"welcome");
}

/// A rule that takes any header from here.
fn believed() -> ProxyRule {
    ProxyRule {
        trusted: vec!["127.0.0.1".parse().unwrap()],
        ..ProxyRule::default()
    }
}

#[test]
fn the_certificate_name_of_a_proxy_header_counts_only_where_the_listener_takes_it() {
    for takes_identity in [false, true] {
        let rule = ProxyRule {
            takes_identity,
            ..believed()
        };
        let bench = bench(
            ListenerSpec {
                proxy: Some(rule),
                ..tcp("mqtt")
            },
            LobbySettings::default(),
        );
        let name = certificate_name_behind(&bench);
        assert_eq!(name.as_deref(), takes_identity.then_some("pump-7"));
    }
}

fn certificate_name_behind(bench: &Bench) -> Option<Arc<str>> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x1d".to_vec();
    header.extend([192, 0, 2, 7, 198, 51, 100, 9, 0xAB, 0xCD, 0x07, 0x5B]);
    header.extend(b"\x20\0\x0e\x03\0\0\0\0\x22\0\x06pump-7");
    let mut client = bench.connect();
    client.write_all(&[&header, HELLO].concat()).unwrap();
    let (_, arrival) = bench.arrival();
    assert_eq!(arrival.input, HELLO);
    arrival.peer.certificate_name
}

#[test]
fn whoever_says_too_little_is_dropped_at_the_timeout_and_others_are_not() {
    let settings = LobbySettings {
        connect_timeout: Duration::from_secs(1),
        ..LobbySettings::default()
    };
    let bench = bench(tcp("mqtt"), settings);
    let slow: Vec<_> = (0..3).map(|_| bench.connect()).collect();
    in_pieces(&slow[1], &HELLO[..3]);
    // One that writes at once, but on a machine that had no time for it so long, comes again.
    let again = Duration::from_secs(2);
    let mut tries = (0..30).filter_map(|_| {
        let mut good = bench.connect();
        let _ = good.write_all(HELLO);
        Some((good, bench.arrivals.recv_timeout(again).ok()?.1.socket))
    });
    let (mut good, mut socket) = tries.next().expect("it is let in");
    for client in slow {
        assert_eq!(read_to_end(client), b"");
    }
    assert!(bench.counts().timed_out >= 3);
    socket.write_all(b"x").unwrap();
    good.read_exact(&mut [0]).unwrap();
}

#[test]
fn a_storm_beyond_handshakes_max_is_refused_at_once_and_counted() {
    let bench = bench(tcp("mqtt"), full_with(4));
    let mut waiting: Vec<_> = (0..4).map(|_| bench.connect()).collect();
    for _ in 0..60 {
        assert_eq!(read_to_end(bench.connect()), b"");
    }
    assert_eq!(bench.counts().refused_handshakes, 60);
    // Those who were there first are served, and then there is room again.
    waiting[2].write_all(HELLO).unwrap();
    bench.arrival();
    let mut next = bench.connect();
    next.write_all(HELLO).unwrap();
    bench.arrival();
    assert_eq!((bench.counts().accepted, bench.counts().delivered), (65, 2));
}

/// So many places on each listener, and no connection counts as silent.
fn full_with(handshakes_max: usize) -> LobbySettings {
    LobbySettings {
        handshakes_max,
        silence_max: Duration::MAX,
        ..LobbySettings::default()
    }
}

/// Connects from another address of this machine, which is another network.
fn connect_from(address: &str, to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::new(address.parse().unwrap(), 0).into())
        .unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let is_open =
        matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    is_open
}

#[test]
fn in_a_full_lobby_the_network_with_most_makes_room_for_another() {
    let bench = bench(tcp("mqtt"), full_with(6));
    let mut silent: VecDeque<_> = (0..6).map(|_| bench.connect()).collect();
    bench.until(|counts| counts.waiting == 6);
    let mut others = Vec::new();
    for _ in 0..3 {
        let mut client = connect_from("127.0.0.2", bench.address);
        // It is said in two parts, so that it needs a place.
        client.write_all(&HELLO[..2]).unwrap();
        others.push(client);
        assert_eq!(
            read_to_end(silent.pop_front().unwrap()),
            b"",
            "the oldest goes"
        );
    }
    assert!(silent.iter().all(is_open), "and nobody else");
    // Now both have three.
    assert_eq!(read_to_end(connect_from("127.0.0.2", bench.address)), b"");
    assert_eq!(read_to_end(bench.connect()), b"");
    let third = connect_from("127.0.0.3", bench.address);
    assert_eq!(
        read_to_end(silent.pop_front().unwrap()),
        b"",
        "of two with as many the one that was silent for longer"
    );
    for mut client in others.into_iter().chain(silent).chain([third]) {
        let rest = if is_of(&client, "127.0.0.2") {
            &HELLO[2..]
        } else {
            HELLO
        };
        client.write_all(rest).unwrap();
        assert_eq!(bench.arrival().1.input, HELLO);
    }
    let counts = bench.counts();
    assert_eq!(
        (
            counts.displaced,
            counts.refused_handshakes,
            counts.timed_out,
            counts.hung_up
        ),
        (4, 2, 0, 0)
    );
    assert_eq!((counts.accepted, counts.delivered), (12, 6));
}

fn is_of(client: &TcpStream, address: &str) -> bool {
    client.local_addr().unwrap().ip().to_string() == address
}

/// A listener with TLS: its answer to a first flight says that the lobby has heard it.
fn tls_bench(
    folder: &Folder,
    spec: ListenerSpec,
    settings: LobbySettings,
) -> (Bench, TlsConnector) {
    let authority = Authority::new(folder, "authority");
    let files = server_files(folder, &authority, ClientCertificates::None);
    let tls = Some(Arc::new(TlsAcceptor::new(files).unwrap()));
    let files = TlsClientFiles {
        ca: Some(authority.file.clone()),
        identity: None,
        ..TlsClientFiles::default()
    };
    (
        bench(ListenerSpec { tls, ..spec }, settings),
        TlsConnector::new(&files).unwrap(),
    )
}

/// Says `first` and then a ClientHello, and waits until that was heard.
fn is_heard(mut client: &TcpStream, first: &str, connector: &TlsConnector) {
    let Transport::Filtered(mut filters) =
        Filtered::stack(Some(connector.connect("localhost").unwrap()), None)
    else {
        panic!("filters")
    };
    let mut wire = first.as_bytes().to_vec();
    filters.take_output(&mut wire);
    client.write_all(&wire).unwrap();
    client.read_exact(&mut [0]).unwrap();
}

#[test]
fn who_says_something_is_not_the_oldest_any_more() {
    let folder = Folder::new();
    let (bench, connector) = tls_bench(&folder, tcp("mqtts"), full_with(3));
    let clients: Vec<_> = (0..3).map(|_| bench.connect()).collect();
    bench.until(|counts| counts.waiting == 3);
    is_heard(&clients[0], "", &connector);
    let _other = connect_from("127.0.0.2", bench.address);
    assert_eq!(read_to_end(&clients[1]), b"");
    assert!(is_open(&clients[2]));
    assert_eq!(bench.counts().displaced, 1);
}

#[test]
fn whoever_is_silent_makes_room_for_anybody() {
    let bench = bench(
        tcp("mqtt"),
        LobbySettings {
            silence_max: Duration::ZERO,
            ..full_with(2)
        },
    );
    let mut clients: VecDeque<_> = (0..2).map(|_| bench.connect()).collect();
    for _ in 0..4 {
        clients.push_back(bench.connect());
        assert_eq!(read_to_end(clients.pop_front().unwrap()), b"");
    }
    assert!(clients.iter().all(is_open));
    assert_eq!(
        (bench.counts().displaced, bench.counts().refused_handshakes),
        (4, 0)
    );
}

#[test]
fn each_listener_has_places_of_its_own() {
    let bench = bench(tcp("mqtt"), full_with(2));
    let other = Listener::bind(tcp("other")).unwrap();
    let address = other.local_address().unwrap();
    bench.lobby.reload(LobbyReload {
        add: vec![other],
        ..LobbyReload::default()
    });
    let full: Vec<_> = (0..2).map(|_| bench.connect()).collect();
    assert_eq!(read_to_end(bench.connect()), b"");
    let client = connect(address);
    bench.until(|counts| counts.waiting == 3);
    // A listener of the same name begins anew; who waits for the old one stays.
    bench.lobby.reload(LobbyReload {
        add: vec![Listener::bind(tcp("mqtt")).unwrap()],
        ..LobbyReload::default()
    });
    bench.until(|_| TcpStream::connect(bench.address).is_err());
    for (waiting, name) in full
        .iter()
        .zip(["mqtt", "mqtt"])
        .chain([(&client, "other")])
    {
        in_pieces(waiting, HELLO);
        assert_eq!(&*bench.arrival().1.peer.listener.name, name);
    }
    bench.until(|counts| counts.waiting == 0);
    assert_eq!(bench.counts().displaced, 0);
}

#[test]
fn behind_a_balancer_the_network_of_the_header_counts() {
    let folder = Folder::new();
    let spec = ListenerSpec {
        proxy: Some(believed()),
        ..tcp("mqtts")
    };
    let (bench, connector) = tls_bench(&folder, spec, full_with(3));
    let clients: Vec<_> = ["192.0.2.8", "192.0.2.7", "192.0.2.7"]
        .iter()
        .map(|source| {
            let client = bench.connect();
            is_heard(
                &client,
                &format!("PROXY TCP4 {source} 198.51.100.9 1 2\r\n"),
                &connector,
            );
            client
        })
        .collect();
    let _newcomer = bench.connect();
    // 192.0.2.7 has two, and its older one ends: behind the reason comes the end of the stream.
    read_to_end(&clients[1]);
    assert_eq!(
        (bench.counts().displaced, bench.counts().refused_handshakes),
        (1, 0)
    );
}

#[test]
fn addresses_of_one_ipv6_network_count_as_one() {
    let occupancy = Arc::new(address::Occupancy::new(&Arc::default()));
    let mut slots: Vec<_> = (0..3).map(|_| occupancy.enter(9, 9).unwrap()).collect();
    let admitted: Vec<_> = ["2001:db8::1", "2001:db8::2:3", "2001:db8:0:1::1"]
        .iter()
        .zip(&mut slots)
        .map(|(address, slot)| slot.occupy(address.parse().unwrap(), 1))
        .collect();
    assert_eq!(admitted, [true, false, true]);
}

#[test]
fn thousands_of_connects_at_once_all_arrive() {
    let bench = bench(tcp("mqtt"), LobbySettings::default());
    let address = bench.address;
    let client = std::thread::spawn(move || {
        for _ in 0..2_000 {
            connect(address).write_all(HELLO).unwrap();
        }
    });
    for _ in 0..2_000 {
        assert_eq!(bench.arrival().0, 104);
    }
    client.join().unwrap();
    assert_eq!(bench.counts().delivered, 2_000);
}

#[test]
fn bytes_of_another_protocol_and_endless_first_packets_are_handed_over_with_key_0() {
    let bench = bench(
        tcp("mqtt"),
        LobbySettings {
            connect_bytes_max: 64,
            ..LobbySettings::default()
        },
    );
    let mut http = bench.connect();
    http.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let (key, arrival) = bench.arrival();
    assert_eq!(
        (key, arrival.input.as_slice()),
        (0, &b"GET / HTTP/1.1\r\n\r\n"[..])
    );
    let mut endless = bench.connect();
    endless
        .write_all(&[&[0x10, 0xff], &[b'x'; 62][..]].concat())
        .unwrap();
    let (key, arrival) = bench.arrival();
    assert_eq!((key, arrival.input.len()), (0, 64));
    assert_eq!(bench.counts().unrouted, 2);
}

#[test]
fn a_listener_has_so_many_places_and_a_closed_connection_frees_one() {
    let bench = bench(
        ListenerSpec {
            connections_max: 2,
            ..tcp("mqtt")
        },
        LobbySettings::default(),
    );
    let mut clients: Vec<_> = (0..2).map(|_| bench.connect()).collect();
    clients
        .iter_mut()
        .for_each(|client| client.write_all(HELLO).unwrap());
    let (_, first) = bench.arrival();
    let _second = bench.arrival();
    assert_eq!(read_to_end(bench.connect()), b"");
    assert_eq!(bench.counts().refused_connections, 1);
    drop(first);
    bench.connect().write_all(HELLO).unwrap();
    let _third = bench.arrival();
    // All listeners together have so many, too.
    let settings = Some(LobbySettings {
        connections_max: 3,
        ..LobbySettings::default()
    });
    let other = Listener::bind(tcp("other")).unwrap();
    let address = other.local_address().unwrap();
    bench.lobby.reload(LobbyReload {
        settings,
        add: vec![other],
        ..LobbyReload::default()
    });
    connect(address).write_all(HELLO).unwrap();
    let _fourth = bench.arrival();
    assert_eq!(read_to_end(connect(address)), b"");
    assert_eq!(bench.counts().refused_connections, 2);
}

#[test]
fn one_address_has_so_many_places_and_behind_a_balancer_the_real_address_counts() {
    let spec = ListenerSpec {
        connections_per_address_max: 1,
        ..tcp("mqtt")
    };
    let plain = bench(spec.clone(), LobbySettings::default());
    plain.connect().write_all(HELLO).unwrap();
    let (_, first) = plain.arrival();
    assert_eq!(read_to_end(plain.connect()), b"");
    assert_eq!(plain.counts().refused_address, 1);
    drop(first);
    plain.connect().write_all(HELLO).unwrap();
    plain.arrival();

    let balanced = bench(
        ListenerSpec {
            proxy: Some(believed()),
            ..spec
        },
        LobbySettings::default(),
    );
    let say = |source: &str| {
        let mut client = balanced.connect();
        client
            .write_all(format!("PROXY TCP4 {source} 198.51.100.9 1 2\r\n").as_bytes())
            .unwrap();
        client.write_all(HELLO).map(|()| client)
    };
    let _clients = [say("192.0.2.7"), say("192.0.2.8")];
    let _arrivals = [balanced.arrival(), balanced.arrival()];
    // The second write may find the connection reset already.
    let _ = say("192.0.2.8").map(read_to_end);
    balanced.until(|counts| counts.refused_address == 1);
}

#[test]
fn beyond_the_rate_connections_wait_and_none_is_lost() {
    let spec = ListenerSpec {
        connects_per_second_max: 100,
        connects_burst: 2,
        ..tcp("mqtt")
    };
    let bench = bench(spec, LobbySettings::default());
    let before = Instant::now();
    let mut clients = Vec::new();
    // On a busy machine the first ones may come more slowly than the rate lets them in.
    while clients.len() < 6 || bench.counts().paused_by_rate == 0 {
        let mut client = bench.connect();
        client.write_all(HELLO).unwrap();
        clients.push(client);
        assert!(clients.len() < 10_000, "none ever waits");
    }
    for _ in &clients {
        bench.arrival();
    }
    let waits = clients.len() as u64 - 2;
    assert!(
        before.elapsed() >= Duration::from_millis(10 * waits - 5),
        "{waits} had to wait for 10 ms each"
    );
}

#[test]
fn a_refusal_in_http_is_read_whole_even_if_the_peer_sends_on() {
    let spec = ListenerSpec {
        websocket: Some(Arc::new(WebSocketSettings::default())),
        ..tcp("ws")
    };
    let bench = bench(spec, LobbySettings::default());
    let mut client = bench.connect();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    client.write_all(&[b'x'; 40_000]).unwrap();
    let answer = String::from_utf8(read_to_end(&client)).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 426 ") && answer.ends_with("address bar\n"),
        "{answer}"
    );
    drop(client);
    bench.until(|counts| counts.failed_websocket == 1 && counts.waiting == 0);
    let counts = bench.counts();
    assert_eq!(
        (counts.failed_websocket, counts.hung_up, counts.timed_out),
        (1, 0, 0)
    );
}

#[test]
fn faults_of_tls_and_of_the_proxy_header_are_counted_and_end_the_connection() {
    let folder = Folder::new();
    let authority = Authority::new(&folder, "authority");
    let files = server_files(&folder, &authority, ClientCertificates::None);
    let tls = bench(
        ListenerSpec {
            tls: Some(Arc::new(TlsAcceptor::new(files).unwrap())),
            ..tcp("mqtts")
        },
        LobbySettings::default(),
    );
    let mut client = tls.connect();
    client.write_all(HELLO).unwrap();
    // An alert record (RFC 8446 §6) says goodbye.
    assert_eq!(read_to_end(client).first(), Some(&0x15));
    assert_eq!(tls.counts().failed_tls, 1);

    let proxy = bench(
        ListenerSpec {
            proxy: Some(believed()),
            ..tcp("mqtt")
        },
        LobbySettings::default(),
    );
    let mut client = proxy.connect();
    client.write_all(HELLO).unwrap();
    assert_eq!(read_to_end(client), b"");
    assert_eq!(proxy.counts().failed_proxy, 1);

    let rule = ProxyRule {
        versions: ProxyVersions::V1,
        trusted: vec!["192.0.2.1".parse().unwrap()],
        ..believed()
    };
    let stranger = bench(
        ListenerSpec {
            proxy: Some(rule),
            ..tcp("mqtt")
        },
        LobbySettings::default(),
    );
    let mut client = stranger.connect();
    client.write_all(b"PROXY UNKNOWN\r\n").unwrap();
    assert_eq!(read_to_end(client), b"");
    assert_eq!(stranger.counts().failed_proxy, 1);
}

#[test]
fn whoever_hangs_up_early_leaves_nothing_behind() {
    let bench = bench(tcp("mqtt"), LobbySettings::default());
    in_pieces(bench.connect(), &HELLO[..2]);
    bench.until(|counts| counts.hung_up == 1 && counts.waiting == 0);
}

#[test]
fn a_reload_adds_changes_and_removes_listeners_without_dropping_anybody() {
    let bench = bench(tcp("mqtt"), LobbySettings::default());
    let mut client = bench.connect();
    client.write_all(HELLO).unwrap();
    let (_, mut arrival) = bench.arrival();
    let patient = bench.connect();

    let other = Listener::bind(tcp("other")).unwrap();
    let address = other.local_address().unwrap();
    bench.lobby.reload(LobbyReload {
        add: vec![other],
        ..LobbyReload::default()
    });
    connect(address).write_all(HELLO).unwrap();
    assert_eq!(&*bench.arrival().1.peer.listener.name, "other");

    let change = vec![ListenerSpec {
        connections_max: 0,
        ..tcp("mqtt")
    }];
    bench.lobby.reload(LobbyReload {
        change,
        ..LobbyReload::default()
    });
    bench.until(|_| {
        // The command is taken at the next turn; until then connections are let in.
        let mut probe = bench.connect();
        let _ = probe.set_read_timeout(Some(Duration::from_millis(20)));
        matches!(probe.read(&mut [0]), Ok(0))
    });

    bench.lobby.reload(LobbyReload {
        remove: vec!["mqtt".into()],
        ..LobbyReload::default()
    });
    bench.until(|_| TcpStream::connect(bench.address).is_err());
    in_pieces(&patient, HELLO);
    assert_eq!(
        bench.arrival().0,
        104,
        "whoever waited when the listener went is served"
    );
    arrival.socket.write_all(b"x").unwrap();
    client.read_exact(&mut [0]).unwrap();
}

#[test]
fn stop_closes_listeners_and_whoever_waits() {
    let bench = bench(tcp("mqtt"), LobbySettings::default());
    let waiting = bench.connect();
    bench.until(|counts| counts.accepted == 1);
    bench.lobby.stop();
    assert_eq!(read_to_end(waiting), b"");
    assert!(TcpStream::connect(bench.address).is_err());
}

/// A broker's process with 32 descriptors; says where it listens, greets whoever says hello, ends with its input.
#[test]
#[ignore = "a child of when_descriptors_run_out_peers_are_turned_away_at_once_and_later_served_again"]
fn child_with_few_descriptors() {
    let Bench {
        lobby,
        arrivals,
        address,
    } = bench(tcp("mqtt"), LobbySettings::default());
    println!("\nADDRESS {address}");
    let greeter = std::thread::spawn(move || {
        for (_, mut arrival) in arrivals {
            let _ = arrival.socket.write_all(b"welcome");
        }
    });
    read_to_end(io::stdin());
    let counts = lobby.counters().read();
    assert!(counts.refused_descriptors >= 1, "{counts:?}");
    lobby.stop();
    greeter.join().unwrap();
}

#[test]
fn when_descriptors_run_out_peers_are_turned_away_at_once_and_later_served_again() {
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -n 32; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "lobby::tests::child_with_few_descriptors",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Kept to the end: the child may not lose its output.
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let address = lines
        .find_map(|line| line.strip_prefix("ADDRESS ")?.parse().ok())
        .unwrap();
    let mut silent: Vec<_> = (0..40).map(|_| connect(address)).collect();
    assert_eq!(
        read_to_end(silent.pop().unwrap()),
        b"",
        "the last one is turned away"
    );
    drop(silent);
    let end = Instant::now() + PATIENCE;
    loop {
        let mut client = connect(address);
        let _ = client.write_all(HELLO);
        if read_to_end(&client) == b"welcome" {
            break;
        }
        assert!(Instant::now() < end, "nobody is let in again");
    }
    drop(child.stdin.take());
    let said: Vec<_> = lines.collect();
    assert!(child.wait().unwrap().success(), "{said:?}");
}

/// A destination to which no connection is delivered.
struct Abyss;

impl Deliver for Abyss {
    fn deliver(&self, _: u64, _: Arrival) {
        // Unwinds like a panic, without its message in the test output.
        std::panic::resume_unwind(Box::new("a bug elsewhere"));
    }

    fn make_room(&self, _: u64) {}
}

#[test]
fn a_lobby_that_panics_is_reported() {
    let (on_failure, failures) = failures();
    let listener = Listener::bind(tcp("mqtt")).unwrap();
    let address = listener.local_address().unwrap();
    let lobby = Lobby::start(
        vec![listener],
        LobbySettings::default(),
        Box::new(Abyss),
        &on_failure,
    )
    .unwrap();
    let mut client = connect(address);
    client.write_all(HELLO).unwrap();
    assert_eq!(
        failures.recv_timeout(PATIENCE).map(|failure| failure.what),
        Ok("thread lobby".to_owned())
    );
    lobby.stop();
}
