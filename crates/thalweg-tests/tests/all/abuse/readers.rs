//! Receivers that do not read, and publishers that do not stop.

use std::io::{Read, Write};

use super::*;

/// A connected subscriber that reads its CONNACK and SUBACK and then nothing.
fn deaf(address: SocketAddr, client: &str, filter: &str, qos: u8) -> TcpStream {
    let mut stream = abrupt(address).expect("it accepts");
    // Small, so that the broker notices soon.
    let _ = socket2::SockRef::from(&stream).set_recv_buffer_size(4096);
    let connect = Connect::new(V5, client).with(property::four(property::SESSION_EXPIRY, 60));
    stream
        .write_all(&[connect.bytes(), subscribe(V5, 1, &[], &[(filter, qos)])].concat())
        .expect("it reads");
    let (mut unread, mut buffer) = (Vec::new(), [0; 256]);
    loop {
        match read(V5, &mut unread) {
            Some(Packet::Suback { codes, .. }) => {
                assert_eq!(codes, [qos]);
                break;
            }
            Some(_) => {}
            None => {
                let got = stream.read(&mut buffer).expect("it answers");
                unread.extend_from_slice(&buffer[..got]);
            }
        }
    }
    stream
}

#[test]
fn a_qos_0_flood_costs_receivers_that_do_not_read_and_nobody_else() {
    let Some(victim) = Victim::with(Broker::with()) else {
        return;
    };
    let address = victim.broker.mqtt();
    let deaf: Vec<_> = (0..20)
        .map(|number| deaf(address, &format!("deaf{number}"), "flood/#", 0))
        .collect();
    let batch: Vec<u8> = (0..200)
        .flat_map(|number| Publish::new(format!("flood/{number}"), [b'x'; 1000]).bytes(V5))
        .collect();
    let peak = watch(&victim, 2, move |number| {
        let mut stream = abrupt(address).expect("it accepts");
        stream
            .write_all(&hello(&format!("flooder{number}")))
            .expect("it reads");
        let until = Instant::now() + duration();
        let mut sent = 0;
        // At least as much as fills every output.
        while Instant::now() < until || sent < 6_000 {
            stream.write_all(&batch).expect("the broker reads on");
            sent += 200;
        }
        sent
    });
    println!("{} messages, growth {} KiB at the most", peak.1, peak.0);
    // 20 outputs of 1 MiB each and 2 MiB under way to each shard, and what allocators keep of their earlier sizes: 20 to 60
    // MiB as a rule, 95 where threads rarely had a processor. Without limits it would be 20 copies of 12 MB at least.
    const GROWTH_MAX: u64 = 128 << 10;
    assert!(peak.0 < GROWTH_MAX, "{} KiB", peak.0);
    // What they did not get is counted, once the broker has read it.
    victim.wait_for("thalweg_copies_dropped_total", |dropped| dropped > 0);
    drop(deaf);
    victim.assert_unharmed("QoS 0 flood with 20 deaf receivers", GROWTH_MAX);
}

#[test]
fn a_qos_1_flood_fills_the_queues_of_receivers_that_do_not_read_up_to_their_limit() {
    let options = Broker::with()
        .set("queue.publisher_pace_max", "0s")
        .set("queue.messages_max", "2000")
        .set("queue.bytes_max", "1MiB");
    let Some(victim) = Victim::with(options) else {
        return;
    };
    let address = victim.broker.mqtt();
    let deaf: Vec<_> = (0..10)
        .map(|number| deaf(address, &format!("deaf{number}"), "flood", 1))
        .collect();
    let peak = watch(&victim, 2, move |number| {
        let mut flooder = Talker::tcp(address).named(&format!("flooder{number}"));
        let until = Instant::now() + duration();
        let mut sent = 0;
        // At least as many as fill the queues.
        while Instant::now() < until || sent < 2_500 {
            let burst: Vec<u8> = (1..=100)
                .flat_map(|id| Publish::new("flood", [b'x'; 500]).qos(1, id).bytes(V5))
                .collect();
            flooder.send(&burst);
            for id in 1..=100 {
                // Refused once all receivers are full: quota exceeded.
                let reason = flooder.answer(PUBACK, id);
                assert!(matches!(reason, 0 | 0x97), "{reason:#x}");
            }
            sent += 100;
        }
        sent
    });
    println!("{} messages, growth {} KiB at the most", peak.1, peak.0);
    assert!(peak.0 < 64 << 10, "{} KiB", peak.0);
    victim.wait_for("thalweg_copies_dropped_total", |dropped| dropped > 0);
    drop(deaf);
    // A receiver that comes back finds its queue, as long as it may be and no longer.
    let mut back = Talker::tcp(address);
    let connect = Connect::new(V5, "deaf0")
        .clean(false)
        .with(property::four(property::SESSION_EXPIRY, 60));
    assert!(back.connect(&connect).session_present);
    let mut count = 0;
    loop {
        let messages = back.until_pong();
        if messages.is_empty() {
            break;
        }
        for message in messages {
            assert_eq!(message.qos, 1);
            back.send(&ack(PUBACK, message.id));
            count += 1;
        }
    }
    println!("{count} messages had waited for one receiver");
    assert!((1000..=2000 + 1024).contains(&count), "{count}");
    victim.assert_unharmed("QoS 1 flood with 10 deaf receivers", 64 << 10);
}

/// Runs floods side by side and samples the broker's memory: returns the largest growth in KiB, and the messages sent.
fn watch(
    victim: &Victim,
    threads: usize,
    flood: impl Fn(usize) -> u64 + Send + Sync + 'static,
) -> (u64, u64) {
    let flood = Arc::new(flood);
    let threads: Vec<_> = (0..threads)
        .map(|number| {
            let flood = Arc::clone(&flood);
            std::thread::spawn(move || flood(number))
        })
        .collect();
    let mut most = 0;
    while threads.iter().any(|thread| !thread.is_finished()) {
        most = most.max(victim.growth());
        std::thread::park_timeout(Duration::from_millis(10));
    }
    (
        most,
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no flooder was cut off"))
            .sum(),
    )
}
