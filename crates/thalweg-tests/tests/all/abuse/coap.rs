//! Datagrams from everywhere: sources that are made up, requests that are never finished, observers that vanish.
//!
//! An unknown peer is a socket on a loopback address of its own (127.0.0.0/8). Floods are paced: datagrams that
//! overflow a socket's buffer are lost for every client, as on any network, and no broker can prevent that.

use std::net::UdpSocket;
use std::sync::atomic::AtomicUsize;

use thalweg_coap::stream::encode;
use thalweg_coap::{Code, Encoder, Message, Token, Type, option};

use super::*;
use crate::coap_peer::{Ask, Peer};

/// Datagrams that one thread sends at once, and the pause after them: 10,000 a second.
const BURST: usize = 50;
const PAUSE: Duration = Duration::from_millis(5);

/// Largest answer to a peer with an unproven address (docs/protocols/coap.md).
const FACTOR: usize = 3;
const ALLOWANCE: usize = 152;

/// A ping, with its repetitions.
const QUESTION: usize = 4 * (1 + 4);

/// A broker with an ordinary pair of MQTT clients and one of CoAP.
struct Scene {
    victim: Victim,
    address: SocketAddr,
    pair: CoapPair,
}

impl Scene {
    fn with(options: Options) -> Option<Self> {
        let mut victim = Victim::with(options.coap())?;
        let address = victim.broker.coap();
        let pair = CoapPair::start(address);
        // The first requests load code and the allocator's pages, in steps of 2 MB.
        pair.wait_for(300);
        victim.begin_here();
        Some(Self {
            victim,
            address,
            pair,
        })
    }

    fn assert_unharmed(self, what: &str, growth_max: u64) {
        println!("{what}: CoAP pair: {}", self.pair.stop());
        self.victim.assert_unharmed(what, growth_max);
    }

    /// Answered requests, so that all datagrams before them on the shards of these peers have been looked at.
    fn settle(&self) {
        for seed in 0..8 {
            let mut peer = Peer::patient(self.address, seed);
            assert!(
                peer.ask(&Ask::of(Code::GET, &["ps", "data", "nothing"], &[]))
                    .is_some(),
                "it answers"
            );
        }
    }
}

/// A publisher and an observer, one value at a time; fails at the first that is lost or late.
struct CoapPair {
    stop: Arc<AtomicBool>,
    exchanged: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<Duration>>,
}

impl CoapPair {
    fn start(broker: SocketAddr) -> Self {
        let path = ["ps", "data", "pair", "coap"];
        let (mut putter, mut observer) = (Peer::patient(broker, 1), Peer::patient(broker, 2));
        assert!(
            putter
                .ask(&Ask::of(Code::PUT, &path, b"begin"))
                .is_some_and(|answer| answer.code == Code::CREATED)
        );
        let observation = observer.observe(&path, &["qos=1"]);
        assert_eq!(
            observer
                .notification(PATIENCE)
                .expect("it registers")
                .text(),
            "begin"
        );
        let stop = Arc::new(AtomicBool::new(false));
        let exchanged = Arc::new(AtomicUsize::new(0));
        let (stopping, counting) = (Arc::clone(&stop), Arc::clone(&exchanged));
        let thread = std::thread::spawn(move || {
            let mut took = Vec::new();
            while !stopping.load(Ordering::Relaxed) {
                let text = took.len().to_string();
                let begun = Instant::now();
                let answer = putter
                    .ask(&Ask::of(Code::PUT, &path, text.as_bytes()))
                    .expect("it is answered");
                assert_eq!(answer.code, Code::CHANGED, "{}", answer.text());
                // The machine leaves out values that it has notified before, so the next one is the next value.
                let told = observer
                    .notification(3 * PATIENCE)
                    .expect("the observer is told");
                assert_eq!((told.code, told.text()), (Code::CONTENT, text));
                assert!(!observer.has_failed(observation), "the observation lives");
                took.push(begun.elapsed());
                counting.store(took.len(), Ordering::Relaxed);
                std::thread::park_timeout(Duration::from_millis(2));
            }
            took
        });
        Self {
            stop,
            exchanged,
            thread,
        }
    }

    /// Waits until the pair has exchanged so many values.
    fn wait_for(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.exchanged.load(Ordering::Relaxed) < count {
            assert!(
                Instant::now() < deadline && !self.thread.is_finished(),
                "the pair exchanges values"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn stop(self) -> Exchanged {
        self.stop.store(true, Ordering::Relaxed);
        let mut took = self.thread.join().expect("the pair lost nothing");
        assert!(!took.is_empty());
        took.sort();
        Exchanged(took)
    }
}

/// A socket on a random loopback address that receives and never answers.
fn stranger(luck: &mut Luck) -> UdpSocket {
    let address = [
        127,
        1 + luck.below(250) as u8,
        luck.below(256) as u8,
        1 + luck.below(250) as u8,
    ];
    let socket = UdpSocket::bind(SocketAddr::from((address, 0))).expect("all of 127/8 is ours");
    socket
        .set_nonblocking(true)
        .expect("a fresh socket takes options");
    socket
}

/// Waits for one datagram.
fn wait_for_answer(socket: &UdpSocket) {
    let wait = || {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.recv(&mut [0; 2048])?;
        socket.set_nonblocking(true)
    };
    wait().expect("the broker answers");
}

/// Bytes that have come to a socket, and how many datagrams.
fn heard(socket: &UdpSocket) -> (usize, usize) {
    let (mut bytes, mut count, mut datagram) = (0, 0, [0; 2048]);
    while let Ok(length) = socket.recv(&mut datagram) {
        bytes += length;
        count += 1;
    }
    (bytes, count)
}

/// A request as it is on the wire.
fn request(
    kind: Type,
    code: Code,
    id: u16,
    levels: &[&str],
    observes: bool,
    payload: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    let token = Token::new(&id.to_be_bytes()).expect("two bytes are a token");
    let mut encoder = Encoder::start(&mut out, kind, code, id, token);
    if observes {
        encoder.uint(option::OBSERVE, 0);
    }
    for level in levels {
        encoder.option(option::URI_PATH, level.as_bytes());
    }
    encoder.payload(payload);
    out
}

/// Any of the things that a flood consists of.
fn anything(luck: &mut Luck) -> Vec<u8> {
    let id = luck.below(65_536) as u16;
    let name = format!("flood{}", luck.below(20_000));
    let path = ["ps", "data", "flood", &name];
    let kind = [Type::Confirmable, Type::NonConfirmable][luck.below(2)];
    match luck.below(8) {
        0 | 1 => request(
            Type::NonConfirmable,
            Code::PUT,
            id,
            &path,
            false,
            &[b'x'; 60],
        ),
        2 => request(Type::Confirmable, Code::PUT, id, &path, false, &[b'x'; 60]),
        3 => request(kind, Code::GET, id, &path, false, &[]),
        4 => request(
            kind,
            Code::GET,
            id,
            &["ps", "data", "pair", "coap"],
            true,
            &[],
        ),
        5 => request(kind, Code::GET, id, &path, true, &[]),
        6 => request(
            Type::Confirmable,
            Code::POST,
            id,
            &["rpc", "pair", "nobody"],
            false,
            &[b'x'; 20],
        ),
        _ => {
            let length = 1 + luck.below(80);
            luck.bytes(length)
        }
    }
}

/// Sends `datagram` from as many addresses as two threads manage, at the rate of a flood; returns the counts sent and
/// received.
fn flood(
    address: SocketAddr,
    datagram: impl Fn(&mut Luck) -> Vec<u8> + Send + Sync + 'static,
) -> (usize, usize, usize) {
    let sums = Arc::new(Mutex::new((0, 0, 0)));
    let summed = Arc::clone(&sums);
    again_and_again(2, move |_, luck| {
        let sockets: Vec<UdpSocket> = (0..BURST).map(|_| stranger(luck)).collect();
        let sent: usize = sockets
            .iter()
            .map(|it| it.send_to(&datagram(luck), address).unwrap_or(0))
            .sum();
        std::thread::sleep(PAUSE);
        let heard: usize = sockets.iter().map(|it| heard(it).0).sum();
        let mut sums = summed.lock().expect("no holder panics");
        *sums = (sums.0 + BURST, sums.1 + sent, sums.2 + heard);
    });
    *sums.lock().expect("no holder panics")
}

#[test]
fn a_flood_of_made_up_sources_stays_within_its_limits() {
    let options = Broker::with()
        .set("coap.peers_max", "4096")
        .set("coap.duplicates_max", "8192")
        .set("coap.observations_max", "2000")
        .set("retained.messages_max", "5000");
    let Some(scene) = Scene::with(options) else {
        return;
    };
    let (count, sent, heard) = flood(scene.address, anything);
    let (peers, observations) = ["thalweg_coap_peers", "thalweg_coap_observations"]
        .map(|it| scene.victim.figure(it))
        .into();
    println!(
        "{count} datagrams from as many sources, {sent} bytes in, {heard} out within 5 ms; {peers} peers, {observations} \
         observations, {} displaced, growth {} KiB",
        scene.victim.figure("thalweg_coap_peers_displaced_total"),
        scene.victim.growth(),
    );
    assert!(peers <= 4096, "{peers}");
    assert!(observations <= 2001, "{observations}");
    assert!(heard <= FACTOR * sent, "{heard} bytes for {sent}");
    scene.assert_unharmed("flood of made-up sources", 48 << 10);
}

#[test]
fn nobody_is_made_to_hear_much_more_than_was_said_in_his_name() {
    let options = Broker::with()
        .set("coap.ack_timeout", "100ms")
        .set("coap.max_retransmit", "4");
    let Some(scene) = Scene::with(options) else {
        return;
    };
    let mut luck = Luck::new(Luck::seed());
    let mut peer = Peer::patient(scene.address, 7);
    for (level, size) in [
        ("small", 20),
        ("middle", 110),
        ("large", 1000),
        ("huge", 20_000),
    ] {
        let answer = peer.ask(&Ask::of(
            Code::PUT,
            &["ps", "data", "loud", level],
            &vec![b'x'; size],
        ));
        assert!(
            answer.is_some_and(|answer| answer.code == Code::CREATED),
            "{level}"
        );
    }
    let get = |kind: Type, levels: &[&str]| request(kind, Code::GET, 7, levels, false, &[]);
    let (con, non) = (Type::Confirmable, Type::NonConfirmable);
    let kinds: [(&str, Vec<u8>); 13] = [
        (
            "CON GET, 20 bytes",
            get(con, &["ps", "data", "loud", "small"]),
        ),
        (
            "CON GET, 1,000 bytes",
            get(con, &["ps", "data", "loud", "large"]),
        ),
        (
            "NON GET, 1,000 bytes",
            get(non, &["ps", "data", "loud", "large"]),
        ),
        (
            "CON GET, 20,000 bytes",
            get(con, &["ps", "data", "loud", "huge"]),
        ),
        ("CON GET, list of values", get(con, &["ps", "data"])),
        (
            "CON GET, /.well-known/core",
            get(con, &[".well-known", "core"]),
        ),
        (
            "CON FETCH, list",
            request(con, Code::FETCH, 7, &["ps", "data"], false, &[]),
        ),
        (
            "CON GET, observe empty",
            request(
                con,
                Code::GET,
                7,
                &["ps", "data", "loud", "none"],
                true,
                &[],
            ),
        ),
        (
            "NON GET, observe 20 bytes",
            request(
                non,
                Code::GET,
                7,
                &["ps", "data", "loud", "small"],
                true,
                &[],
            ),
        ),
        (
            "NON GET, observe 110 bytes",
            request(
                non,
                Code::GET,
                7,
                &["ps", "data", "loud", "middle"],
                true,
                &[],
            ),
        ),
        (
            "CON GET, observe 1,000 bytes",
            request(
                con,
                Code::GET,
                7,
                &["ps", "data", "loud", "large"],
                true,
                &[],
            ),
        ),
        ("ping", vec![0x40, 0, 0, 7]),
        ("CON, malformed", vec![0x4f, 1, 0, 7, 1]),
    ];
    let mut worst = Vec::new();
    for (what, datagram) in &kinds {
        let strangers: Vec<UdpSocket> = (0..20).map(|_| stranger(&mut luck)).collect();
        strangers.iter().for_each(|it| {
            it.send_to(datagram, scene.address)
                .expect("a datagram leaves");
        });
        scene.settle();
        // Every state of an observed value is notified, confirmably, as long as it is not acknowledged…
        for round in 0..10 {
            for (level, size) in [
                ("small", 20),
                ("middle", 110),
                ("large", 1000),
                ("none", 1000),
            ]
            .iter()
            .filter(|_| what.contains("observe"))
            {
                let answer = peer.ask(&Ask::of(
                    Code::PUT,
                    &["ps", "data", "loud", level],
                    &vec![b'a' + round; *size],
                ));
                assert!(answer.is_some(), "{level}");
            }
        }
        // …until they are given up.
        scene
            .victim
            .wait_for("thalweg_coap_observations", |count| count == 1);
        scene.settle();
        let each: Vec<(usize, usize)> = strangers.iter().map(heard).collect();
        let (most, datagrams) = each.iter().copied().max().expect("there are strangers");
        println!(
            "{what}: {} bytes said, {most} bytes heard in {datagrams} datagrams",
            datagram.len()
        );
        worst.push((*what, datagram.len(), most));
        let _ = peer.ask(&Ask::of(Code::DELETE, &["ps", "data", "loud", "none"], &[]));
    }
    for (what, said, heard) in worst {
        // An observer's answer, and a notification with its repetitions; larger ones are asked for by a ping.
        let notified = if what.contains("observe") {
            ALLOWANCE + QUESTION
        } else {
            0
        };
        let most = ALLOWANCE.max(FACTOR * said) + notified + QUESTION;
        assert!(
            heard <= most,
            "{what}: {heard} bytes for {said}, {most} would be right"
        );
    }
    scene.assert_unharmed("answers to strangers", 32 << 10);
}

#[test]
fn one_peer_takes_no_more_than_its_share_of_observations_and_calls() {
    let Some(scene) = Scene::with(Broker::with()) else {
        return;
    };
    // A responder that gets requests and never answers.
    let mut mute = Talker::tcp(scene.victim.broker.mqtt()).named("mute");
    assert_eq!(mute.subscribe("mute", 0), 0);
    let mut luck = Luck::new(Luck::seed());
    let greedy = stranger(&mut luck);
    let mut codes = std::collections::BTreeMap::<String, u32>::new();
    let acknowledge = |greedy: &UdpSocket, codes: &mut std::collections::BTreeMap<String, u32>| {
        let mut datagram = [0; 2048];
        while let Ok(length) = greedy.recv(&mut datagram) {
            let Ok(message) = Message::decode(&datagram[..length]) else {
                continue;
            };
            *codes.entry(message.code.to_string()).or_default() += 1;
            if message.kind == Type::Confirmable {
                let [high, low] = message.id.to_be_bytes();
                let _ = greedy.send_to(&[0x60, 0, high, low], scene.address);
            }
        }
    };
    for id in 0..2000 {
        let name = format!("{}", id % 700);
        let _ = greedy.send_to(
            &request(
                Type::Confirmable,
                Code::GET,
                id,
                &["ps", "data", "many", &name],
                true,
                &[],
            ),
            scene.address,
        );
        if id % 20 == 0 {
            scene.settle();
            acknowledge(&greedy, &mut codes);
        }
    }
    scene.settle();
    acknowledge(&greedy, &mut codes);
    let observations = scene.victim.figure("thalweg_coap_observations");
    println!("2000 registrations of one peer: {observations} observations, answers {codes:?}");
    assert_eq!(observations, 256 + 1);
    codes.clear();
    for id in 3000..3500 {
        let _ = greedy.send_to(
            &request(
                Type::Confirmable,
                Code::POST,
                id,
                &["rpc", "mute"],
                false,
                b"?",
            ),
            scene.address,
        );
        if id % 20 == 0 {
            scene.settle();
            acknowledge(&greedy, &mut codes);
        }
    }
    scene.settle();
    acknowledge(&greedy, &mut codes);
    println!("500 calls of one peer: answers {codes:?}");
    // A peer may have 256 requests open; what is beyond is refused.
    assert!(
        codes.get("5.03").is_some_and(|count| *count >= 200),
        "{codes:?}"
    );
    scene.assert_unharmed("a greedy peer", 32 << 10);
}

#[test]
fn bodies_that_are_never_finished_fill_their_share_of_memory_and_no_more() {
    let options = Broker::with().set("coap.transfers_bytes_max", "4MiB");
    let Some(scene) = Scene::with(options) else {
        return;
    };
    let mut luck = Luck::new(Luck::seed());
    let mut codes = std::collections::BTreeMap::<String, u32>::new();
    let (mut sent, mut most) = (0, 0);
    // 400 of 64 KiB: more than six times what there is room for.
    let uploaders: Vec<UdpSocket> = (0..400).map(|_| stranger(&mut luck)).collect();
    for number in 0..64_u16 {
        for some in uploaders.chunks(20) {
            for uploader in some {
                let mut out = Vec::new();
                let token = Token::new(&[1]).expect("a byte is a token");
                let mut encoder =
                    Encoder::start(&mut out, Type::Confirmable, Code::PUT, number, token);
                for level in ["ps", "data", "unfinished"] {
                    encoder.option(option::URI_PATH, level.as_bytes());
                }
                encoder.uint(option::BLOCK1, u32::from(number) << 4 | 0b1110);
                encoder.payload(&[b'x'; 1024]);
                sent += uploader.send_to(&out, scene.address).unwrap_or(0);
            }
            std::thread::sleep(Duration::from_millis(2));
            let mut datagram = [0; 2048];
            for uploader in some {
                while let Ok(length) = uploader.recv(&mut datagram) {
                    let Ok(message) = Message::decode(&datagram[..length]) else {
                        continue;
                    };
                    *codes.entry(message.code.to_string()).or_default() += 1;
                }
            }
        }
        most = most.max(scene.victim.growth());
    }
    println!(
        "{sent} bytes in bodies that are never finished: answers {codes:?}, growth {most} KiB at the most"
    );
    assert!(
        codes.get("5.03").is_some_and(|count| *count > 0),
        "{codes:?}"
    );
    assert!(
        codes.get("2.31").is_some_and(|count| *count > 1000),
        "{codes:?}"
    );
    // 4 MiB of bodies, and the allocator's reserve.
    assert!(most < 24 << 10, "{most} KiB");
    scene.assert_unharmed("bodies never finished", 24 << 10);
}

/// A block of a body as it stands in a stream, by number.
fn stream_block(number: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let options = |encoder: &mut Encoder<'_>| {
        for level in ["ps", "data", "unfinished"] {
            encoder.option(option::URI_PATH, level.as_bytes());
        }
        encoder.uint(option::BLOCK1, number << 4 | 0b1110);
    };
    let token = Token::new(&[1]).expect("a byte is a token");
    encode(&mut out, Code::PUT, token, options, &[b'x'; 1024]);
    out
}

#[test]
fn bodies_that_never_end_over_connections_stay_within_the_budget() {
    let options = Broker::with().set("limits.memory_bytes_max", "64MiB");
    let Some(scene) = Scene::with(options) else {
        return;
    };
    // Capabilities and settings, without any.
    let csm = [0, 0xE1];
    let blocks: Vec<Vec<u8>> = (0..1024).map(stream_block).collect();
    // 1 MiB each, which never ends: four times the budget in all.
    let opened = buffers::hoard(250, |_| {
        let mut stream = abrupt(scene.address).expect("it accepts");
        stream
            .set_write_timeout(Some(Duration::from_millis(500)))
            .expect("a socket takes options");
        let _ = stream.write_all(&[&csm[..], &blocks.concat()].concat());
        stream
    });
    println!("{opened} connections with bodies that never end");
    scene.assert_unharmed("bodies that never end", (64 + 64) << 10);
}

#[test]
fn a_flood_of_pings_is_answered_with_no_more_bytes_than_it_has() {
    let Some(scene) = Scene::with(Broker::with()) else {
        return;
    };
    for (what, datagram) in [
        ("pings", vec![0x40, 0, 0, 7]),
        (
            "pings with 21 bytes more",
            [&[0x40, 0, 0, 7][..], &[b'x'; 21]].concat(),
        ),
    ] {
        let one = stranger(&mut Luck::new(7));
        one.send_to(&datagram, scene.address)
            .expect("a datagram leaves");
        wait_for_answer(&one);
        let (count, sent, heard) = flood(scene.address, move |_| datagram.clone());
        println!("{count} {what} from as many sources: {sent} bytes in, {heard} out within 5 ms");
        assert!(heard <= sent, "{what}: {heard} bytes for {sent}");
    }
    scene.assert_unharmed("flood of pings", 32 << 10);
}

#[test]
fn a_storm_of_resets_and_acknowledgements_ends_only_what_is_the_senders_own() {
    let Some(scene) = Scene::with(Broker::with()) else {
        return;
    };
    let address = scene.address;
    // One who has all message IDs of its own to reset, and many who have none.
    let (count, sent, heard) = flood(address, |luck| {
        let [high, low] = (luck.below(65_536) as u16).to_be_bytes();
        vec![[0x70, 0x60][luck.below(2)], 0, high, low]
    });
    let own = stranger(&mut Luck::new(9));
    let path = ["ps", "data", "pair", "coap"];
    own.send_to(
        &request(Type::Confirmable, Code::GET, 7, &path, true, &[]),
        address,
    )
    .expect("a datagram leaves");
    scene.settle();
    for id in 0..=u16::MAX {
        let [high, low] = id.to_be_bytes();
        let _ = own.send_to(&[0x70, 0, high, low], address);
        if id % 500 == 0 {
            std::thread::sleep(PAUSE);
        }
    }
    println!(
        "{count} resets and acknowledgements of nothing: {sent} bytes in, {heard} out; then 65,536 of one observer"
    );
    assert_eq!(heard, 0, "nobody answers a reset or an acknowledgement");
    scene
        .victim
        .wait_for("thalweg_coap_observations", |count| count == 1);
    scene.assert_unharmed("storm of resets", 32 << 10);
}

#[test]
fn options_beyond_all_numbers_and_paths_of_thousands_of_levels_are_refused() {
    let Some(scene) = Scene::with(Broker::with()) else {
        return;
    };
    let head = |id: usize| vec![0x40, 0x03, (id >> 8) as u8, id as u8];
    let (count, sent, heard) = flood(scene.address, move |luck| {
        let head = head(luck.below(65_536));
        match luck.below(5) {
            // The largest delta there is, once and twice: the second is beyond 65,535.
            0 => [&head[..], &[0xe0, 0xff, 0xff]].concat(),
            1 => [&head[..], &[0xe0, 0xfe, 0xf2], &[0xe0, 0xff, 0xff]].concat(),
            // A value that is said to be longer than any datagram.
            2 => [&head[..], &[0xbe, 0xff, 0xff], b"x"].concat(),
            // 1,400 empty levels.
            3 => [&head[..], &[0xb0], &[0; 1400]].concat(),
            // So many unknown options, one number each.
            _ => [&head[..], &[0x10; 1400]].concat(),
        }
    });
    println!("{count} datagrams of wild options: {sent} bytes in, {heard} out within 5 ms");
    // The largest datagram of all: 65,000 levels.
    let mut luck = Luck::new(5);
    for id in 0..10 {
        let huge = [&[0x40, 0x03, 0, id][..], &[0xb0], &vec![0; 65_000]].concat();
        let _ = stranger(&mut luck).send_to(&huge, scene.address);
    }
    scene.settle();
    assert!(heard <= FACTOR * sent, "{heard} bytes for {sent}");
    scene.assert_unharmed("wild options", 32 << 10);
}

#[test]
fn observers_that_vanish_are_forgotten_after_max_retransmit() {
    const VANISHED: u64 = 500;
    let options = Broker::with()
        .set("coap.ack_timeout", "150ms")
        .set("coap.max_retransmit", "3");
    let Some(scene) = Scene::with(options) else {
        return;
    };
    let mut luck = Luck::new(Luck::seed());
    for _ in 0..VANISHED {
        let observer = stranger(&mut luck);
        let _ = observer.send_to(
            &request(
                Type::Confirmable,
                Code::GET,
                7,
                &["ps", "data", "seen"],
                true,
                &[],
            ),
            scene.address,
        );
        // One by one, so that none is lost in a full buffer.
        wait_for_answer(&observer);
    }
    scene
        .victim
        .wait_for("thalweg_coap_observations", |count| count == VANISHED + 1);
    let begun = Instant::now();
    let mut peer = Peer::patient(scene.address, 3);
    assert!(
        peer.ask(&Ask::of(Code::PUT, &["ps", "data", "seen"], b"x"))
            .is_some()
    );
    scene
        .victim
        .wait_for("thalweg_coap_observations", |count| count == 1);
    let lost = scene.victim.figure("thalweg_coap_observations_lost_total");
    let again = scene.victim.figure("thalweg_coap_retransmissions_total");
    println!(
        "{VANISHED} observers that vanished were forgotten after {:?}, {again} repetitions",
        begun.elapsed()
    );
    assert_eq!(lost, VANISHED);
    assert!(again >= 3 * VANISHED, "{again}");
    scene.assert_unharmed("observers that vanish", 16 << 10);
}
