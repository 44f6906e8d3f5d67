//! Both ends with a network between them that loses, doubles and reorders, as a seed says.

use std::collections::VecDeque;

use thalweg_mqtt::{ClientSide, ConnectOut, Publish, PublishOut, Version};
use thalweg_wire::{Span, Time};

use crate::datagram::{Content, Seal};
use crate::*;

const KEY: [u8; KEY_BYTES] = [3; KEY_BYTES];
const EPOCH: u64 = 77;
const HEARTBEAT: Span = Span::from_millis(1000);
const PACKET_BYTES_MAX: u32 = 40_000;

fn ms(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn settings() -> SenderSettings {
    SenderSettings {
        epoch: EPOCH,
        key: KEY,
        datagram_bytes_max: 300,
        history_bytes_max: 1 << 20,
        history_age_max: Span::from_secs(60),
        heartbeat: HEARTBEAT,
    }
}

fn sender() -> Sender {
    Sender::new(&settings(), ms(0))
}

fn receiver_with(change: impl FnOnce(&mut ReceiverSettings)) -> Receiver {
    let description = Description {
        group: "239.255.10.1:7500".parse().expect("an address"),
        epoch: EPOCH,
        key: KEY,
        filters: Vec::new(),
        repair: repair_address("x"),
        heartbeat: HEARTBEAT,
        packet_bytes_max: PACKET_BYTES_MAX,
    };
    let mut settings = ReceiverSettings::for_group(&description, true);
    change(&mut settings);
    Receiver::new(&description, settings, ms(0))
}

fn receiver(is_reliable: bool) -> Receiver {
    receiver_with(|settings| settings.is_reliable = is_reliable)
}

/// A PUBLISH with a payload that begins with a number and is so long.
fn packet(number: u32, length: usize) -> Vec<u8> {
    let mut client = ClientSide::new(1 << 20);
    let mut out = Vec::new();
    let connect = ConnectOut {
        version: Version::V5,
        ..Default::default()
    };
    client.connect(&connect, &mut out).expect("it fits");
    out.clear();
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(length.max(4), number as u8);
    let publish = PublishOut {
        topic: "plant/7/pose",
        payload: &payload,
        ..Default::default()
    };
    client.publish(&publish, &mut out).expect("it fits");
    out
}

fn numbers(receiver: &mut Receiver) -> Vec<u32> {
    let mut found = Vec::new();
    while let Some(packet) = receiver.next_packet() {
        let (length, publish) = Publish::decode(packet, PACKET_BYTES_MAX)
            .expect("a PUBLISH")
            .expect("whole");
        assert_eq!(length, packet.len());
        let (number, rest) = publish.payload.split_first_chunk().expect("a number");
        let number = u32::from_be_bytes(*number);
        assert!(rest.iter().all(|byte| *byte == number as u8));
        found.push(number);
    }
    found
}

fn transmitted(sender: &mut Sender) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    while let Some(datagram) = sender.poll_transmit() {
        datagrams.push(datagram.to_vec());
    }
    datagrams
}

/// Datagrams of so many packets of this length each, each packet with datagrams of its own.
fn datagrams(sender: &mut Sender, packets: std::ops::Range<u32>, length: usize) -> Vec<Vec<u8>> {
    for number in packets {
        sender.push(&packet(number, length), ms(0));
        sender.flush(ms(0));
    }
    transmitted(sender)
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn small_packets_share_a_datagram_and_large_ones_span_several() {
    let mut sender = sender();
    for number in 0..6 {
        sender.push(&packet(number, 4), ms(0));
    }
    sender.push(&packet(6, 1000), ms(0));
    sender.push(&packet(7, 4), ms(0));
    sender.flush(ms(0));
    let datagrams = transmitted(&mut sender);
    assert_eq!(datagrams.len(), 5);
    let (last, full) = datagrams.split_last().expect("there are some");
    assert!(full.iter().all(|it| it.len() == 300) && last.len() < 300);
    let mut receiver = receiver(false);
    for datagram in &datagrams {
        assert_eq!(receiver.on_datagram(datagram, ms(0)), Ok(()));
    }
    assert_eq!(numbers(&mut receiver), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(receiver.counts().packets, 8);
}

#[test]
fn who_comes_in_the_middle_of_a_packet_begins_with_the_next() {
    let mut sender = sender();
    sender.push(&packet(0, 700), ms(0));
    sender.push(&packet(1, 4), ms(0));
    sender.flush(ms(0));
    let datagrams = transmitted(&mut sender);
    let mut receiver = receiver(true);
    for datagram in &datagrams[1..] {
        receiver.on_datagram(datagram, ms(0)).expect("it is ours");
    }
    assert_eq!(numbers(&mut receiver), [1]);
    assert_eq!(receiver.counts().lost, 0, "what came before is not lost");
}

#[test]
fn a_best_effort_receiver_skips_what_is_late_and_counts_it() {
    let mut sender = sender();
    let sent = datagrams(&mut sender, 0..5, 400);
    assert_eq!(sent.len(), 10);
    let mut receiver = receiver(false);
    // Of packet 1 the second half is missing, of packet 3 the first.
    for at in [0, 1, 2, 4, 5, 7, 8, 9] {
        receiver.on_datagram(&sent[at], ms(0)).expect("it is ours");
    }
    assert_eq!(numbers(&mut receiver), [0]);
    assert_eq!(receiver.poll_timeout(), ms(20));
    receiver.on_timer(ms(19));
    assert!(numbers(&mut receiver).is_empty());
    receiver.on_timer(ms(20));
    assert_eq!(numbers(&mut receiver), [2]);
    // The second gap has its own time.
    receiver.on_timer(receiver.poll_timeout());
    assert_eq!(numbers(&mut receiver), [4]);
    assert_eq!(receiver.poll_timeout(), Time::NEVER);
    assert_eq!(receiver.counts().lost, 2);
    assert_eq!(receiver.poll_request(), None);
    // Too late.
    receiver.on_datagram(&sent[3], ms(50)).expect("it is ours");
    assert!(numbers(&mut receiver).is_empty());
    assert_eq!(receiver.counts().duplicates, 1);
}

#[test]
fn a_reliable_receiver_asks_once_and_goes_on_in_order() {
    let mut sender = sender();
    let sent = datagrams(&mut sender, 0..8, 4);
    let mut receiver = receiver(true);
    for at in [0, 2, 3, 6] {
        receiver.on_datagram(&sent[at], ms(0)).expect("it is ours");
    }
    assert_eq!(numbers(&mut receiver), [0]);
    receiver.on_timer(ms(19));
    assert_eq!(receiver.poll_request(), None);
    receiver.on_timer(ms(20));
    let request = receiver.poll_request().expect("it is time");
    assert_eq!(request.ranges, [1..=1, 4..=5]);
    assert_eq!(receiver.poll_request(), None);
    let mut answer = Vec::new();
    assert_eq!(sender.repair(&request, 1 << 16, ms(21), &mut answer), 3);
    receiver.on_answer(&answer, ms(21)).expect("it is ours");
    assert_eq!(numbers(&mut receiver), [1, 2, 3, 4, 5, 6]);
    // The answer's heartbeat told of the last one, and there is no waiting for it.
    let request = receiver.poll_request().expect("it has been told");
    assert_eq!(request.ranges, [7..=7]);
    sender.repair(&request, 1 << 16, ms(22), &mut answer);
    receiver.on_answer(&answer, ms(22)).expect("it is ours");
    assert_eq!(numbers(&mut receiver), [7]);
    let expected = ReceiverCounts {
        datagrams: 8,
        // The second answer stands behind the first.
        duplicates: 3,
        requests: 2,
        packets: 8,
        ..ReceiverCounts::default()
    };
    assert_eq!(*receiver.counts(), expected);
}

#[test]
fn the_loss_of_the_last_datagram_shows_with_a_heartbeat() {
    let mut sender = sender();
    let sent = datagrams(&mut sender, 0..3, 4);
    let mut receiver = receiver(true);
    receiver.on_datagram(&sent[0], ms(0)).expect("it is ours");
    // Heartbeats come quickly at first, then at the interval.
    let mut times = Vec::new();
    for _ in 0..8 {
        let now = sender.poll_timeout();
        sender.on_timer(now);
        times.push(now.nanos() as f64 / 1e6);
        for datagram in transmitted(&mut sender) {
            receiver.on_datagram(&datagram, now).expect("it is ours");
        }
    }
    assert_eq!(
        times,
        [62.5, 125.0, 250.0, 500.0, 1000.0, 2000.0, 3000.0, 4000.0]
    );
    receiver.on_timer(ms(83));
    let request = receiver.poll_request().expect("it is missing");
    assert_eq!(request.ranges, [1..=2]);
    assert_eq!(receiver.silent_at(), ms(7000));
}

#[test]
fn a_receiver_learns_how_many_messages_were_never_sent_since_it_is_there() {
    let mut sender = sender();
    sender.set_unsent_messages(10);
    let (mut receivers, mut beats) = (Vec::new(), Vec::new());
    // There is always data, and a heartbeat all the same.
    for now in (0..4000).step_by(10) {
        sender.push(&packet(now, 4), ms(now.into()));
        sender.flush(ms(now.into()));
        sender.on_timer(ms(now.into()));
        if now % 1000 == 500 {
            sender.set_unsent_messages(10 + u64::from(now));
            receivers.push(receiver(false));
        }
        for datagram in transmitted(&mut sender) {
            if datagram[3] == 2 {
                beats.push(now);
            }
            for receiver in &mut receivers {
                let taken = receiver.on_datagram(&datagram, ms(now.into()));
                taken.expect("it is ours");
            }
        }
    }
    assert!(
        beats.windows(2).all(|pair| pair[1] - pair[0] <= 1000) && beats.len() < 10,
        "{beats:?}"
    );
    let unsent: Vec<u64> = receivers.iter().map(|it| it.counts().unsent).collect();
    assert_eq!(unsent, [2000, 1000, 0, 0]);
    // An old heartbeat takes nothing back.
    let seal = Seal::new(&KEY, EPOCH);
    let (next, oldest) = (400, 0);
    let old = Content::Heartbeat {
        next,
        oldest,
        unsent: 10,
    };
    let taken = receivers[0].on_datagram(&seal.seal(&old, 0), ms(4000));
    taken.expect("it is ours");
    assert_eq!(receivers[0].counts().unsent, 2000);
    assert_eq!(receivers[0].counts().lost, 0);
}

#[test]
fn what_the_sender_has_dropped_is_given_up_when_it_is_known() {
    let mut sender = Sender::new(
        &SenderSettings {
            history_bytes_max: 250,
            ..settings()
        },
        ms(0),
    );
    let sent = datagrams(&mut sender, 0..10, 4);
    let mut receiver = receiver(true);
    receiver.on_datagram(&sent[0], ms(0)).expect("it is ours");
    receiver.on_datagram(&sent[9], ms(0)).expect("it is ours");
    receiver.on_timer(ms(20));
    let request = receiver.poll_request().expect("it is time");
    assert_eq!(request.ranges, [1..=8]);
    let mut answer = Vec::new();
    let count = sender.repair(&request, 1 << 16, ms(20), &mut answer);
    assert_eq!(count, 3, "9 has come, and 6 to 8 are within 250 bytes");
    receiver.on_answer(&answer, ms(20)).expect("it is ours");
    // Nothing is asked for that is not there: the timer gives it up.
    receiver.on_timer(receiver.poll_timeout());
    assert_eq!(receiver.poll_request(), None);
    assert_eq!(numbers(&mut receiver), [0, 6, 7, 8, 9]);
    assert_eq!(receiver.counts().lost, 5);
}

#[test]
fn old_datagrams_are_dropped_and_answers_are_bounded() {
    let mut sender = sender();
    let sent = datagrams(&mut sender, 0..10, 4);
    let all = RepairRequest {
        epoch: EPOCH,
        ranges: vec![0..=u64::MAX],
    };
    let mut answer = Vec::new();
    assert_eq!(sender.repair(&all, 1 << 16, ms(60_000), &mut answer), 10);
    answer.clear();
    assert_eq!(sender.repair(&all, 308, ms(60_000), &mut answer), 4);
    assert!(answer.len() <= 308);
    answer.clear();
    assert_eq!(sender.repair(&all, 1 << 16, ms(60_001), &mut answer), 0);
    // A heartbeat is always there.
    let mut receiver = receiver(true);
    receiver.on_datagram(&sent[0], ms(0)).expect("it is ours");
    receiver.on_answer(&answer, ms(60_001)).expect("it is ours");
    receiver.on_timer(ms(60_021));
    assert_eq!(receiver.counts().lost, 9);
}

#[test]
fn a_request_without_an_answer_is_repeated_less_and_less_and_then_given_up() {
    let mut sender = sender();
    let sent = datagrams(&mut sender, 0..3, 4);
    let mut receiver = receiver_with(|settings| settings.attempts = 3);
    receiver.on_datagram(&sent[0], ms(0)).expect("it is ours");
    receiver.on_datagram(&sent[2], ms(0)).expect("it is ours");
    let mut asked = Vec::new();
    while receiver.poll_timeout() != Time::NEVER {
        let now = receiver.poll_timeout();
        receiver.on_timer(now);
        if receiver.poll_request().is_some() {
            asked.push(now);
        }
    }
    assert_eq!(asked, [ms(20), ms(270), ms(770)]);
    assert_eq!(numbers(&mut receiver), [0, 2]);
    assert_eq!(receiver.counts().lost, 1);
}

#[test]
fn what_is_held_behind_a_gap_is_bounded() {
    let mut sender = sender();
    let sent = datagrams(&mut sender, 0..100, 200);
    let mut receiver = receiver_with(|settings| settings.held_bytes_max = 2000);
    receiver.on_datagram(&sent[0], ms(0)).expect("it is ours");
    for datagram in &sent[2..] {
        receiver.on_datagram(datagram, ms(0)).expect("it is ours");
    }
    let expected: Vec<u32> = (0..100).filter(|number| *number != 1).collect();
    assert_eq!(numbers(&mut receiver), expected);
    assert_eq!(receiver.counts().lost, 1);
}

#[test]
fn another_epoch_is_told_apart_and_an_answer_can_say_so() {
    let mut sender = Sender::new(
        &SenderSettings {
            epoch: EPOCH + 1,
            key: [4; KEY_BYTES],
            ..settings()
        },
        ms(0),
    );
    let sent = datagrams(&mut sender, 0..1, 4);
    let mut receiver = receiver(true);
    assert_eq!(
        receiver.on_datagram(&sent[0], ms(5)),
        Err(Refused::OtherEpoch)
    );
    let request = RepairRequest {
        epoch: receiver.epoch(),
        ranges: vec![0..=0],
    };
    let mut answer = Vec::new();
    assert_eq!(sender.repair(&request, 1 << 16, ms(0), &mut answer), 0);
    assert_eq!(receiver.on_answer(&answer, ms(5)), Err(Refused::OtherEpoch));
    assert_eq!(receiver.counts().refused, 2);
    assert!(!receiver.has_begun());
    assert_eq!(receiver.silent_at(), ms(3000), "nothing was heard");
}

#[test]
fn who_has_the_key_and_lies_gets_no_further_than_the_stream() {
    let seal = Seal::new(&KEY, EPOCH);
    let data = |number, piece: &[u8]| {
        let content = Content::Data {
            number,
            first: Some(0),
            piece,
        };
        seal.seal(&content, number)
    };
    let mut receiver = receiver(true);
    // A length that never ends, one that is too long, and then a packet.
    for (number, piece) in [
        &[0x30, 255, 255, 255, 255][..],
        &[0x30, 255, 255, 3],
        &packet(5, 4),
    ]
    .into_iter()
    .enumerate()
    {
        let datagram = data(number as u64, piece);
        receiver
            .on_datagram(&datagram, ms(0))
            .expect("it is sealed");
    }
    assert_eq!(numbers(&mut receiver), [5]);
    assert_eq!(receiver.counts().broken, 2);
    let end = Content::Heartbeat {
        next: u64::MAX,
        oldest: u64::MAX,
        unsent: u64::MAX,
    };
    let heartbeat = seal.seal(&end, 0);
    receiver
        .on_datagram(&heartbeat, ms(0))
        .expect("it is sealed");
    receiver
        .on_datagram(&data(u64::MAX - 1, &[0]), ms(0))
        .expect("it is sealed");
    receiver.on_timer(ms(20));
    assert_eq!(receiver.poll_request(), None);
    assert_eq!(receiver.poll_timeout(), Time::NEVER);
    receiver
        .on_datagram(&data(7, &packet(6, 4)), ms(30))
        .expect("it is sealed");
    assert!(numbers(&mut receiver).is_empty());
}

/// A network in steps of a millisecond, an answer to requests within two, and a clock that runs until nothing happens.
struct Network {
    random: Random,
    loss_percent: u64,
    /// When each arrives, and what it is.
    on_the_way: Vec<(u64, Vec<u8>)>,
}

impl Network {
    fn send(&mut self, datagram: &[u8], now: u64) {
        if self.random.below(100) < self.loss_percent {
            return;
        }
        let copies = 1 + u64::from(self.random.below(20) == 0);
        for _ in 0..copies {
            let late = self.random.below(10);
            self.on_the_way.push((now + late, datagram.to_vec()));
        }
    }

    fn arrived(&mut self, now: u64) -> Vec<Vec<u8>> {
        let on_the_way = std::mem::take(&mut self.on_the_way);
        let (arrived, later): (Vec<_>, _) = on_the_way.into_iter().partition(|(at, _)| *at <= now);
        self.on_the_way = later;
        arrived.into_iter().map(|(_, datagram)| datagram).collect()
    }
}

/// Sends 300 packets of many lengths; returns which arrived, and the counts.
fn run(seed: u64, loss_percent: u64, is_reliable: bool) -> (Vec<u32>, ReceiverCounts) {
    let mut sender = sender();
    let mut receiver = receiver(is_reliable);
    let mut network = Network {
        random: Random(seed),
        loss_percent,
        on_the_way: Vec::new(),
    };
    // Both know where the stream begins.
    sender.on_timer(ms(0));
    for datagram in transmitted(&mut sender) {
        receiver.on_datagram(&datagram, ms(0)).expect("it is ours");
    }
    let mut arrived = Vec::new();
    let mut answers = VecDeque::new();
    for now in 1..20_000 {
        if now <= 300 {
            let length = [10, 50, 290, 900, 5000][network.random.below(5) as usize];
            sender.push(&packet(now as u32, length), ms(now));
            if network.random.below(3) == 0 {
                sender.flush(ms(now));
            }
        }
        if now >= 300 {
            sender.flush(ms(now));
        }
        sender.on_timer(ms(now));
        for datagram in transmitted(&mut sender) {
            network.send(&datagram, now);
        }
        for datagram in network.arrived(now) {
            receiver
                .on_datagram(&datagram, ms(now))
                .expect("it is ours");
        }
        while answers.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, answer)) = answers.pop_front()
        {
            let answer: Vec<u8> = answer;
            receiver.on_answer(&answer, ms(now)).expect("it is ours");
        }
        if receiver.poll_timeout() <= ms(now) {
            receiver.on_timer(ms(now));
        }
        if let Some(request) = receiver.poll_request() {
            let json = request.to_json();
            let request = RepairRequest::from_json(json.as_bytes()).expect("we wrote it");
            let mut answer = Vec::new();
            sender.repair(&request, 4000, ms(now), &mut answer);
            answers.push_back((now + 2, answer));
        }
        arrived.extend(numbers(&mut receiver));
    }
    (arrived, *receiver.counts())
}

#[test]
fn with_repair_everything_arrives_once_and_in_order() {
    for seed in 1..=10 {
        for loss in [0, 2, 30] {
            let (arrived, counts) = run(seed, loss, true);
            assert_eq!(
                arrived,
                (1..=300).collect::<Vec<_>>(),
                "{seed} {loss} {counts:?}"
            );
            assert_eq!((counts.lost, counts.broken), (0, 0));
        }
    }
}

#[test]
fn without_repair_what_arrives_is_whole_and_in_order_and_the_rest_is_counted() {
    for seed in 1..=10 {
        let (arrived, counts) = run(seed, 0, false);
        assert_eq!(arrived.len(), 300);
        assert_eq!(counts.lost, 0);
        let (arrived, counts) = run(seed, 5, false);
        assert!(arrived.is_sorted_by(|a, b| a < b), "{arrived:?}");
        assert!((100..300).contains(&arrived.len()), "{}", arrived.len());
        assert!(counts.lost > 0 && counts.broken == 0, "{counts:?}");
    }
}
