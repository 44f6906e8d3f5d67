//! Sockets over loopback, with peers of the standard library.

use super::batch::Ability;
use super::*;
use crate::access::BanFile;
use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than anything here takes; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn spec(bind: &str) -> DatagramSpec {
    DatagramSpec {
        name: "coap".into(),
        bind: bind.parse().unwrap(),
        receive_bytes: Some(1 << 20),
        send_bytes: None,
        dscp: None,
        groups: Vec::new(),
    }
}

fn socket(bind: &str) -> (DatagramSocket, SocketAddr) {
    let mut opened = open(&spec(bind), 1).unwrap();
    (
        DatagramSocket::new(opened.sockets.remove(0)).unwrap(),
        opened.local,
    )
}

fn peer(bind: &str) -> UdpSocket {
    let socket = UdpSocket::bind(bind).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn heard(peer: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 70_000];
    let (count, _) = peer.recv_from(&mut buffer).unwrap();
    buffer.truncate(count);
    buffer
}

/// Receives until there are so many.
fn receive(socket: &mut DatagramSocket, wanted: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut inbox = Inbox::default();
    let mut got = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while got.len() < wanted && Instant::now() < deadline {
        socket.on_readable();
        if socket.receive(&mut inbox).is_some() {
            got.extend(
                inbox
                    .datagrams()
                    .map(|datagram| (datagram.from, datagram.bytes.to_vec())),
            );
        }
    }
    got
}

const WAITING: usize = 1 << 20;

/// As a system does that has no calls for batches, or no runs.
fn abilities() -> [Ability; 3] {
    [(true, true), (true, false), (false, false)].map(|(batches, runs)| Ability { batches, runs })
}

#[test]
fn datagrams_of_many_peers_come_in_one_call_with_their_senders() {
    let (mut socket, at) = socket("127.0.0.1:0");
    let peers: Vec<UdpSocket> = (0..10).map(|_| peer("127.0.0.1:0")).collect();
    for (number, peer) in peers.iter().enumerate() {
        peer.send_to(format!("from {number}").as_bytes(), at)
            .unwrap();
    }
    let mut got = receive(&mut socket, 10);
    got.sort();
    let mut sent: Vec<(SocketAddr, Vec<u8>)> = peers
        .iter()
        .enumerate()
        .map(|(n, peer)| (peer.local_addr().unwrap(), format!("from {n}").into()))
        .collect();
    sent.sort();
    assert_eq!(got, sent);
    let counts = socket.counts();
    assert_eq!(
        (counts.received, counts.receive_calls, counts.received_bytes),
        (10, 1, 60)
    );
    assert!(
        !socket.is_readable(),
        "a batch that is not full has emptied the socket"
    );
}

#[test]
fn a_full_batch_leaves_the_socket_readable() {
    let (mut socket, at) = socket("127.0.0.1:0");
    let peers: Vec<UdpSocket> = (0..40).map(|_| peer("127.0.0.1:0")).collect();
    for peer in &peers {
        peer.send_to(b"x", at).unwrap();
    }
    let mut inbox = Inbox::default();
    assert!(socket.receive(&mut inbox).is_some());
    assert_eq!(inbox.datagrams().count(), 32);
    assert!(socket.is_readable());
    assert!(socket.receive(&mut inbox).is_some());
    assert_eq!(inbox.datagrams().count(), 8);
    assert!(!socket.is_readable());
}

#[test]
fn each_datagram_arrives_whole_whatever_the_system_can_do() {
    for ability in abilities() {
        let (mut socket, _) = socket("127.0.0.1:0");
        socket.set_ability(ability);
        let peers: Vec<UdpSocket> = (0..3).map(|_| peer("127.0.0.1:0")).collect();
        let at = |n: usize| peers[n].local_addr().unwrap();
        // Runs, a run with a short end, singles longer and shorter than the run's datagrams, an empty one.
        let plan: Vec<(usize, usize)> = vec![
            (0, 900),
            (1, 60),
            (1, 60),
            (1, 60),
            (1, 20),
            (1, 60),
            (2, 0),
            (2, 60),
            (2, 61),
            (0, 1200),
            (0, 1200),
            (0, 1),
            (1, 40_000),
            (1, 40_000),
            (2, 65_000),
            (0, 60),
            (0, 60),
        ];
        let datagrams: Vec<(usize, Vec<u8>)> = plan
            .iter()
            .enumerate()
            .map(|(number, (peer, len))| (*peer, vec![number as u8; *len]))
            .collect();
        socket.send(
            datagrams
                .iter()
                .map(|(peer, bytes)| (at(*peer), &bytes[..])),
            WAITING,
        );
        for (peer, bytes) in &datagrams {
            assert!(
                heard(&peers[*peer]) == *bytes,
                "{ability:?}: {} bytes",
                bytes.len()
            );
        }
        let counts = socket.counts();
        assert_eq!((counts.sent, counts.waiting), (plan.len() as u64, 0));
        let calls = counts.send_calls;
        match ability {
            Ability { batches: false, .. } => assert_eq!(calls, plan.len() as u64),
            Ability { runs: false, .. } => {
                assert_eq!(calls, 1, "nothing of it needs a call of its own")
            }
            _ => assert!(calls < plan.len() as u64 / 2, "{calls} calls"),
        }
    }
}

#[test]
fn a_long_run_to_one_peer_is_few_calls_and_comes_back_as_single_datagrams() {
    let (mut sender, _) = socket("127.0.0.1:0");
    if !sender.ability().runs {
        return eprintln!("this system has no GSO: nothing to test");
    }
    let (mut receiver, at) = socket("127.0.0.1:0");
    let datagrams: Vec<Vec<u8>> = (0..200u8).map(|number| vec![number; 100]).collect();
    sender.send(datagrams.iter().map(|bytes| (at, &bytes[..])), WAITING);
    assert_eq!(sender.counts().sent, 200);
    assert_eq!(
        sender.counts().send_calls,
        1,
        "four messages of up to 64 datagrams"
    );
    let got: Vec<Vec<u8>> = receive(&mut receiver, 200)
        .into_iter()
        .map(|(_, bytes)| bytes)
        .collect();
    assert!(got == datagrams);
    assert!(
        receiver.counts().receive_calls <= 4,
        "they were joined: {:?}",
        receiver.counts()
    );
}

#[test]
fn datagrams_of_peers_by_turns_leave_as_runs_and_in_each_peers_order() {
    let (mut socket, _) = socket("127.0.0.1:0");
    if !socket.ability().runs {
        return eprintln!("this system has no GSO: nothing to test");
    }
    let peers: Vec<UdpSocket> = (0..10).map(|_| peer("127.0.0.1:0")).collect();
    let datagrams: Vec<(SocketAddr, Vec<u8>)> = (0..20u8)
        .flat_map(|round| {
            peers
                .iter()
                .map(move |peer| (peer.local_addr().unwrap(), vec![round; 30]))
        })
        .collect();
    socket.send(
        datagrams.iter().map(|(to, bytes)| (*to, &bytes[..])),
        WAITING,
    );
    assert_eq!((socket.counts().sent, socket.counts().send_calls), (200, 1));
    for peer in &peers {
        for round in 0..20u8 {
            assert_eq!(heard(peer), [round; 30]);
        }
    }
}

#[test]
fn a_peer_is_answered_from_the_address_it_asked() {
    for ability in abilities() {
        let (mut socket, at) = socket("0.0.0.0:0");
        socket.set_ability(ability);
        let peers: Vec<UdpSocket> = (0..4).map(|_| peer("127.0.0.1:0")).collect();
        for (number, peer) in peers.iter().enumerate() {
            // Connected, so that an answer from elsewhere does not reach it.
            peer.connect(("127.0.0.".to_owned() + &(number + 1).to_string(), at.port()))
                .unwrap();
            peer.send(b"ask").unwrap();
        }
        let asked = receive(&mut socket, 4);
        assert_eq!(asked.len(), 4);
        socket.send(
            asked.iter().map(|(from, _)| (*from, &b"answer"[..])),
            WAITING,
        );
        for peer in &peers {
            let mut buffer = [0; 10];
            assert_eq!(peer.recv(&mut buffer).unwrap(), 6, "{ability:?}");
        }
    }
}

#[test]
fn every_address_in_version_6_means_version_4_too() {
    let Ok(mut opened) = open(&spec("[::]:0"), 1) else {
        return;
    };
    let mut socket = DatagramSocket::new(opened.sockets.remove(0)).unwrap();
    let port = opened.local.port();
    let one = peer("127.0.0.1:0");
    one.connect(("127.0.0.2", port)).unwrap();
    one.send(b"by 4").unwrap();
    let other = peer("[::1]:0");
    other.connect(("::1", port)).unwrap();
    other.send(b"by 6").unwrap();
    let got = receive(&mut socket, 2);
    assert!(
        got.iter()
            .any(|(from, _)| *from == one.local_addr().unwrap()),
        "a plain IPv4 address: {got:?}"
    );
    socket.send(got.iter().map(|(from, bytes)| (*from, &bytes[..])), WAITING);
    assert_eq!(
        (heard(&one), heard(&other)),
        (b"by 4".to_vec(), b"by 6".to_vec())
    );
}

#[test]
fn what_the_system_does_not_take_waits_in_order_and_no_more_than_it_may() {
    let (mut socket, _) = socket("127.0.0.1:0");
    let peer = peer("127.0.0.1:0");
    let at = peer.local_addr().unwrap();
    socket.block();
    socket.send((0..10u8).map(|_| (at, &b"four"[..])), 5 * (4 + 64));
    assert_eq!(
        (
            socket.counts().waiting,
            socket.counts().unsent_waiting,
            socket.counts().sent
        ),
        (5, 5, 0)
    );
    socket.on_writable(WAITING);
    assert_eq!((socket.counts().waiting, socket.counts().sent), (0, 5));
    for _ in 0..5 {
        assert_eq!(heard(&peer), b"four");
    }
}

#[test]
fn a_datagram_that_cannot_be_sent_is_counted_and_those_behind_it_leave() {
    for ability in abilities() {
        let (mut socket, _) = socket("127.0.0.1:0");
        socket.set_ability(ability);
        let peer = peer("127.0.0.1:0");
        let at = peer.local_addr().unwrap();
        let too_long = vec![0; 65_530];
        let nowhere: SocketAddr = "255.255.255.255:9".parse().unwrap();
        let list: [(SocketAddr, &[u8]); 4] =
            [(at, b"one"), (at, &too_long), (nowhere, b"x"), (at, b"two")];
        socket.send(list, WAITING);
        assert_eq!(
            (heard(&peer), heard(&peer)),
            (b"one".to_vec(), b"two".to_vec()),
            "{ability:?}"
        );
        let counts = socket.counts();
        assert_eq!(
            (
                counts.sent,
                counts.unsent_too_large,
                counts.unsent_unreachable
            ),
            (2, 1, 1),
            "{counts:?}"
        );
    }
}

#[test]
fn a_peer_that_is_gone_does_not_stop_the_others() {
    let (mut socket, at) = socket("127.0.0.1:0");
    let gone = peer("127.0.0.1:0").local_addr().unwrap();
    let there = peer("127.0.0.1:0");
    for _ in 0..3 {
        socket.send(
            [(gone, &b"x"[..]), (there.local_addr().unwrap(), b"y")],
            WAITING,
        );
        assert_eq!(heard(&there), b"y");
    }
    there.send_to(b"z", at).unwrap();
    assert_eq!(receive(&mut socket, 1).len(), 1);
}

#[test]
fn what_is_not_read_in_time_is_counted() {
    let small = DatagramSpec {
        receive_bytes: Some(4096),
        ..spec("127.0.0.1:0")
    };
    let mut opened = open(&small, 1).unwrap();
    let mut socket = DatagramSocket::new(opened.sockets.remove(0)).unwrap();
    let peer = peer("127.0.0.1:0");
    for _ in 0..200 {
        peer.send_to(&[0; 500], opened.local).unwrap();
    }
    // Over loopback a datagram is there, or lost, when it is sent.
    let mut inbox = Inbox::default();
    let mut got = 0;
    while socket.receive(&mut inbox).is_some() {
        got += inbox.datagrams().count();
        socket.on_readable();
    }
    // The count comes with a datagram that found room after the others had not.
    peer.send_to(b"after", opened.local).unwrap();
    got += receive(&mut socket, 1).len();
    assert!(got < 100, "{got} found room in 4 KiB");
    assert_eq!(
        socket.counts().overflown + got as u64,
        201,
        "{:?}",
        socket.counts()
    );
}

#[test]
fn a_peer_stays_with_one_socket_and_many_peers_spread() {
    let opened = open(&spec("127.0.0.1:0"), 4).unwrap();
    let mut sockets: Vec<DatagramSocket> = opened
        .sockets
        .into_iter()
        .map(|socket| DatagramSocket::new(socket).unwrap())
        .collect();
    let peers: Vec<UdpSocket> = (0..64).map(|_| peer("127.0.0.1:0")).collect();
    let mut home: Vec<HashSet<SocketAddr>> = vec![HashSet::new(); 4];
    for _ in 0..5 {
        for peer in &peers {
            peer.send_to(b"here", opened.local).unwrap();
        }
        for (socket, home) in sockets.iter_mut().zip(&mut home) {
            let mut inbox = Inbox::default();
            while {
                socket.on_readable();
                socket.receive(&mut inbox).is_some()
            } {
                home.extend(inbox.datagrams().map(|datagram| datagram.from));
            }
        }
    }
    assert_eq!(
        home.iter().map(HashSet::len).sum::<usize>(),
        64,
        "nobody is at two sockets: {home:?}"
    );
    let used = home.iter().filter(|home| !home.is_empty()).count();
    // By chance alone, 64 peers leave one of four sockets out about once in 25 million runs.
    assert_eq!(used, 4, "{home:?}");
}

#[test]
fn nothing_comes_from_and_goes_to_a_banned_address() {
    let path = std::env::temp_dir().join(format!("thalweg-banned-port-{}", std::process::id()));
    std::fs::write(&path, "address 127.0.0.2/31\n").unwrap();
    let bans = BanFile::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (mut socket, at) = socket("127.0.0.1:0");
    let (banned, free) = (peer("127.0.0.2:0"), peer("127.0.0.1:0"));
    socket.set_bans(Some(Arc::new(bans)));
    for _ in 0..3 {
        banned.send_to(b"let me in", at).unwrap();
    }
    free.send_to(b"here", at).unwrap();
    let got = receive(&mut socket, 1);
    assert_eq!(got, [(free.local_addr().unwrap(), b"here".to_vec())]);
    let answers = [&banned, &free].map(|peer| (peer.local_addr().unwrap(), &b"answer"[..]));
    socket.send(answers, 1 << 20);
    assert_eq!(heard(&free), b"answer");
    let counts = socket.counts();
    assert_eq!((counts.received, counts.banned), (4, 3));
    assert_eq!((counts.sent, counts.unsent_banned), (1, 1));
    // A burst of the banned alone is something that was received: it counts among what a port reads at a time.
    banned.send_to(b"again", at).unwrap();
    socket.on_readable();
    let mut inbox = Inbox::default();
    assert_eq!(socket.receive(&mut inbox), Some(1));
    assert_eq!(inbox.datagrams().count(), 0);
    socket.set_bans(None);
    banned.send_to(b"and again", at).unwrap();
    assert_eq!(receive(&mut socket, 1).len(), 1);
}

#[test]
fn all_sockets_of_a_listener_have_its_class_of_service() {
    let marked = DatagramSpec {
        dscp: Some(8),
        ..spec("127.0.0.1:0")
    };
    for socket in open(&marked, 2).unwrap().sockets {
        assert_eq!(socket2::SockRef::from(&socket).tos_v4().unwrap(), 8 << 2);
    }
}

#[test]
fn a_taken_port_is_noticed_whoever_has_it() {
    for shards in [1, 3] {
        let first = open(&spec("127.0.0.1:0"), shards).unwrap();
        let again = DatagramSpec {
            bind: first.local,
            ..spec("127.0.0.1:0")
        };
        let words = open(&again, shards).unwrap_err().to_string();
        assert!(
            words.contains("is taken") && words.contains("--set listeners.coap.bind="),
            "{words}"
        );
    }
    let foreign = peer("127.0.0.1:0");
    let again = DatagramSpec {
        bind: foreign.local_addr().unwrap(),
        ..spec("127.0.0.1:0")
    };
    assert!(open(&again, 2).is_err());
}
