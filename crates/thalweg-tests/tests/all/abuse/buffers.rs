//! Bytes that peers leave in connections' buffers: the beginning of a packet, of a CONNECT, of a message in frames. All
//! buffers together have a share of the memory budget, and the connections with the largest are closed. With
//! `THALWEG_ABUSE_SECONDS=60` each test runs for a minute.

use super::memory::{Amqp, GROWTH_MAX, victim};
use super::*;

impl Victim {
    pub(super) fn assert_bounded(self, what: &str, growth_max: u64) {
        let (rss, peak, held) = (
            rss(&self.broker),
            peak(&self.broker),
            self.figure("thalweg_memory_held_bytes") >> 10,
        );
        println!("{what}: {held} KiB held, {rss} KiB resident, {peak} KiB at most");
        assert!(
            peak <= self.rss_before + growth_max,
            "{what}: the broker had {peak} KiB"
        );
        self.assert_unharmed(what, growth_max);
    }
}

/// Opens what `open` opens again and again and keeps it, whether the broker closes it or not; how many there were.
pub(super) fn hoard<T>(least: usize, mut open: impl FnMut(usize) -> T) -> usize {
    // More than that many sockets at once show nothing new.
    const KEPT: usize = 1_500;
    let (until, mut held, mut opened) = (
        Instant::now() + duration(),
        std::collections::VecDeque::new(),
        0,
    );
    while Instant::now() < until || opened < least {
        held.push_back(open(opened));
        opened += 1;
        if held.len() == KEPT {
            held.pop_front();
        }
    }
    opened
}

/// The beginning of a PUBLISH of 15 MiB.
fn half_a_publish(bytes: usize) -> Vec<u8> {
    let mut packet = [&[0x30][..], &varint(15 << 20)].concat();
    packet.extend([0, 1, b't', 0]);
    packet.resize(bytes, b'x');
    packet
}

#[test]
fn half_packets_after_log_in_stay_within_their_share() {
    let Some(victim) = victim() else { return };
    let half = half_a_publish(6 << 20);
    let address = victim.broker.mqtt();
    let opened = hoard(30, |number| {
        let mut stream = abrupt(address).expect("it accepts");
        stream
            .write_all(&hello(&format!("half {number}")))
            .expect("it reads");
        // It may be closed before all of it is sent, and is read no further then.
        stream
            .set_write_timeout(Some(Duration::from_millis(200)))
            .expect("a socket takes options");
        let _ = stream.write_all(&half);
        stream
    });
    // Each is closed once.
    victim.wait_for("thalweg_shard_buffers_closed_total", |closed| closed > 0);
    let closed = victim.figure("thalweg_shard_buffers_closed_total");
    println!("{opened} connections, {closed} closed");
    assert!(closed <= opened as u64);
    victim.assert_bounded("half packets", GROWTH_MAX);
}

#[test]
fn half_connects_stay_within_their_share() {
    let Some(victim) = victim() else { return };
    let address = victim.broker.mqtt();
    let opened = hoard(1_400, |number| {
        let mut stream = abrupt(address).expect("it accepts");
        let will = vec![b'w'; 60_000];
        // Every other one does not even say who it is: the lobby keeps it.
        let mut connect = Connect::new(V5, format!("half {number}"))
            .will("gone", &will, 0, false)
            .bytes();
        if number % 2 == 0 {
            let pairs = (0..60)
                .map(|_| property::user(&"k".repeat(1_000), "v"))
                .collect::<Vec<_>>()
                .concat();
            connect = Connect::new(V5, "").with(pairs).bytes();
        }
        let most = connect.len() - 100;
        stream
            .set_write_timeout(Some(Duration::from_millis(200)))
            .expect("a socket takes options");
        let _ = stream.write_all(&connect[..most]);
        stream
    });
    println!("{opened} connections");
    victim.assert_bounded("half CONNECTs", GROWTH_MAX);
}

#[test]
fn half_messages_of_amqp_stay_within_their_share() {
    let Some(victim) = victim() else { return };
    let address = victim.broker.amqp();
    let part = vec![b'x'; 100 << 10];
    let opened = hoard(10, |_| {
        let mut amqp = Amqp::open(address);
        for channel in 1..=4 {
            amqp.method(channel, 20, 10, b"\0");
            amqp.expect(20, 11);
        }
        for channel in 1..=4 {
            let method = [&[0, 60, 0, 40, 0, 0, 0, 7][..], b"nowhere", b"\0"].concat();
            let header = [&[0, 60, 0, 0][..], &(15_u64 << 20).to_be_bytes(), &[0, 0]].concat();
            let mut bytes = [
                Amqp::frame(1, channel, &method),
                Amqp::frame(2, channel, &header),
            ]
            .concat();
            (0..40).for_each(|_| bytes.extend(Amqp::frame(3, channel, &part)));
            amqp.0
                .set_write_timeout(Some(Duration::from_millis(200)))
                .expect("a socket takes options");
            let _ = amqp.0.write_all(&bytes);
        }
        amqp
    });
    let closed = victim.figure("thalweg_shard_buffers_closed_total");
    println!("{opened} connections, {closed} closed");
    assert!(closed > 0);
    victim.assert_bounded("half messages of AMQP", GROWTH_MAX);
}

#[test]
fn names_of_consumers_and_transactions_stay_within_the_budget() {
    let Some(victim) = victim() else { return };
    let until = Instant::now() + duration();
    let (mut consumers, mut transactions, mut refused, mut held) = (0, 0, 0, Vec::new());
    while Instant::now() < until || held.len() < 2 {
        let mut amqp = Amqp::open(victim.broker.amqp());
        // An exclusive queue of its own name; each consumer has a tag as long as it may be.
        amqp.method(1, 20, 10, b"\0");
        amqp.expect(20, 11);
        amqp.method(1, 50, 10, &[0, 0, 0, 4, 0, 0, 0, 0]);
        let declared = amqp.expect(50, 11);
        let queue = &declared[..1 + usize::from(declared[0])];
        for channel in 2..=20 {
            amqp.method(channel, 20, 10, b"\0");
            amqp.expect(20, 11);
        }
        let mut stomp = abrupt(victim.broker.stomp()).expect("it accepts");
        stomp
            .write_all(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
            .expect("it reads");
        for number in 0..60 {
            let name = format!("{number}-{}", "x".repeat(4_000));
            // Excess bytes are refused with ERROR, after which the broker closes the connection.
            let _ = stomp.write_all(format!("BEGIN\ntransaction:{name}\n\n\0").as_bytes());
            transactions += 1;
        }
        'consumers: for channel in 2..=20 {
            for number in 0..50 {
                let tag = format!("{channel}-{number}-{}", "x".repeat(200));
                let arguments = [
                    &[0, 0][..],
                    queue,
                    &[tag.len() as u8],
                    tag.as_bytes(),
                    &[0, 0, 0, 0, 0],
                ]
                .concat();
                amqp.method(channel, 60, 20, &arguments);
                match amqp.next() {
                    (_, 60, 21, _) => consumers += 1,
                    (_, 20, 40, why) => {
                        let why = String::from_utf8_lossy(&why).into_owned();
                        assert!(why.contains("short of memory"), "{why}");
                        refused += 1;
                        break 'consumers;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        held.push((amqp, stomp));
        if held.len() > 100 {
            held.drain(..50);
        }
    }
    let kept = victim.figure("thalweg_memory_held_bytes");
    println!(
        "{consumers} consumers, {transactions} transactions: {kept} bytes are counted, {refused} channels refused"
    );
    assert!(
        refused > 0 || kept > (19 * 50 * 400 + 60 * 4_000) * held.len() as u64,
        "{kept}"
    );
    victim.assert_bounded("names of consumers and transactions", GROWTH_MAX);
}

#[test]
fn receivers_that_do_not_read_stay_within_their_share() {
    let Some(victim) = victim() else { return };
    let address = victim.broker.mqtt();
    let deaf: Vec<_> = (0..100)
        .map(|number| {
            let mut deaf = abrupt(address).expect("it accepts");
            // The less the system holds for it, the sooner the broker has to.
            socket2::SockRef::from(&deaf)
                .set_recv_buffer_size(4 << 10)
                .expect("a socket takes options");
            let subscription = subscribe(V5, 1, &[], &[("flood", 0)]);
            deaf.write_all(&[hello(&format!("deaf {number}")), subscription].concat())
                .expect("it reads");
            let mut head = [0; 4];
            deaf.read_exact(&mut head).expect("it answers");
            deaf
        })
        .collect();
    victim.wait_for("thalweg_subscriptions", |count| count == 101);
    let mut sender = Talker::tcp(address).named("flood sender");
    let (until, mut sent) = (Instant::now() + duration(), 0);
    let text = "x".repeat(10_000);
    // The system keeps up to 4 MiB for each before the broker has to.
    while Instant::now() < until || sent < 2_000 {
        let topic = if sent % 2 == 0 { "flood" } else { "flood/not" };
        assert_eq!(sender.publish(topic, &text, 1) & 0x80, 0);
        sent += 1;
    }
    let closed = victim.figure("thalweg_shard_buffers_closed_total");
    println!("{sent} messages, {closed} of {} closed", deaf.len());
    assert!(closed > 0 && closed <= deaf.len() as u64);
    victim.assert_bounded("receivers that do not read", GROWTH_MAX);
}
