//! A feed between a group that loses datagrams, by a seed, and a broker that answers or does not.

use std::collections::BTreeSet;

use thalweg_model::{Filter, Reliability, Span, Time};
use thalweg_mqtt::{ClientSide, ConnectOut, PublishOut, Version};
use thalweg_multicast::{Description, RepairRequest, Sender, SenderSettings};

use super::{Feed, Want};

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn settings(epoch: u64) -> SenderSettings {
    SenderSettings {
        epoch,
        key: [epoch as u8; thalweg_multicast::KEY_BYTES],
        datagram_bytes_max: 300,
        history_bytes_max: 1 << 20,
        history_age_max: Span::from_secs(60),
        heartbeat: Span::from_millis(1000),
    }
}

fn description(epoch: u64, filters: &[&str]) -> Description {
    Description {
        group: ([239, 255, 10, 1], 7500).into(),
        epoch,
        key: settings(epoch).key,
        filters: filters.iter().map(|filter| (*filter).to_owned()).collect(),
        repair: thalweg_multicast::repair_address("poses"),
        heartbeat: Span::from_millis(1000),
        packet_bytes_max: 65_536,
    }
}

fn feed(filter: &str, reliability: Reliability) -> Feed {
    let mut feed = Feed::new(Filter::new(filter).expect("a filter"), reliability);
    feed.asked(ms(0));
    feed
}

fn described(feed: &mut Feed, epoch: u64, filters: &[&str], now: Time) {
    let json = description(epoch, filters).to_json();
    feed.described(json.as_bytes(), now);
}

fn push(sender: &mut Sender, topic: &str, payload: &[u8], now: Time) {
    let (mut client, mut out) = (ClientSide::new(1 << 20), Vec::new());
    let connect = ConnectOut {
        version: Version::V5,
        ..Default::default()
    };
    client.connect(&connect, &mut out).expect("it fits");
    out.clear();
    let publish = PublishOut {
        topic,
        payload,
        ..Default::default()
    };
    client.publish(&publish, &mut out).expect("it fits");
    sender.push(&out, now);
    sender.flush(now);
}

struct World {
    sender: Sender,
    feed: Feed,
    seed: u64,
    got: Vec<u32>,
    fell_back: Option<String>,
    is_standing: bool,
}

impl World {
    /// Gives the feed what the group sends, with a third of the data lost, and answers what it asks for.
    fn turn(&mut self, now: Time, answers: bool) {
        self.sender.on_timer(now);
        while let Some(datagram) = self.sender.poll_transmit() {
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            // Three lost heartbeats in a row would be a group that is out of reach.
            let is_heartbeat = datagram.get(3) == Some(&2);
            if is_heartbeat || !self.seed.is_multiple_of(3) {
                self.feed.datagram(datagram, now);
            }
        }
        if self.feed.timeout() <= now {
            self.feed.timer(now);
        }
        while let Some(want) = self.feed.poll() {
            match want {
                Want::Deliver(message) => {
                    let number = message.payload().try_into().expect("a number");
                    self.got.push(u32::from_be_bytes(number));
                }
                Want::Ask(address, request) if answers => {
                    assert_eq!(address, "$multicast/poses/repair");
                    let request = RepairRequest::from_json(request.as_bytes()).expect("one");
                    let mut answer = Vec::new();
                    self.sender.repair(&request, 1000, now, &mut answer);
                    self.feed.answered(&answer, now);
                }
                Want::Stand => self.is_standing = true,
                Want::FallBack(why) => self.fell_back = Some(why),
                Want::Ask(..) | Want::Join(_) | Want::Leave => {}
            }
        }
    }
}

fn world(seed: u64, reliability: Reliability, answers: bool) -> World {
    let mut world = World {
        sender: Sender::new(&settings(7), ms(0)),
        feed: feed("plant/+/pose", reliability),
        seed,
        got: Vec::new(),
        fell_back: None,
        is_standing: false,
    };
    described(&mut world.feed, 7, &["plant/#"], ms(0));
    // Until something is heard, nothing is promised.
    let mut now = 0;
    while !world.is_standing {
        now += 10;
        world.turn(ms(now), answers);
        assert!(now < 10_000, "nothing was heard");
    }
    for number in 0..300_u32 {
        now += 10;
        let topic = if number.is_multiple_of(2) {
            "plant/7/pose"
        } else {
            "plant/7/log"
        };
        push(&mut world.sender, topic, &number.to_be_bytes(), ms(now));
        world.turn(ms(now), answers);
    }
    for _ in 0..2000 {
        now += 10;
        world.turn(ms(now), answers);
    }
    world
}

#[test]
fn what_is_lost_is_repaired_and_what_was_not_asked_for_stays_away() {
    for seed in 1..20 {
        let world = world(seed, Reliability::AtLeastOnce, true);
        let expected: Vec<u32> = (0..300).step_by(2).collect();
        assert_eq!(world.got, expected, "seed {seed}");
        let counts = world.feed.counts();
        assert!(counts.requests > 0 && counts.lost == 0, "{counts:?}");
        assert_eq!(world.fell_back, None);
        assert!(world.feed.is_standing());
    }
}

#[test]
fn at_most_once_losses_are_counted_and_nothing_is_asked_for() {
    for seed in 1..20 {
        let world = world(seed, Reliability::AtMostOnce, true);
        let counts = world.feed.counts();
        assert!(counts.requests == 0 && counts.lost > 50, "{counts:?}");
        let once: BTreeSet<u32> = world.got.iter().copied().collect();
        assert!(once.len() == world.got.len() && world.got.is_sorted());
        assert!(once.len() > 50 && once.len() < 150, "seed {seed}");
    }
}

#[test]
fn what_nobody_answers_is_lost_and_counted() {
    let world = world(3, Reliability::AtLeastOnce, false);
    let counts = world.feed.counts();
    assert!(counts.requests > 0 && counts.lost > 0, "{counts:?}");
    assert!(world.got.len() < 150 && world.got.is_sorted());
}

#[test]
fn a_feed_falls_back_once_and_says_why() {
    let fallen = |feed: &mut Feed| {
        let mut wants: Vec<Want> = std::iter::from_fn(|| feed.poll()).collect();
        let Some(Want::FallBack(why)) = wants.pop() else {
            panic!("{wants:?}")
        };
        feed.fall_back("again");
        assert_eq!((feed.poll(), feed.timeout()), (None, Time::NEVER));
        (wants, why)
    };
    let group = description(7, &[]).group;
    let mut of = feed("plant/#", Reliability::AtLeastOnce);
    of.timer(ms(4999));
    assert_eq!(of.poll(), None);
    of.timer(ms(5000));
    assert!(fallen(&mut of).1.contains("does not describe"));
    let mut of = feed("plant/#", Reliability::AtLeastOnce);
    described(&mut of, 7, &["plant/+", "other/#"], ms(1));
    assert!(fallen(&mut of).1.contains("does not carry all"));
    let mut of = feed("plant/#", Reliability::AtLeastOnce);
    of.described(b"{}", ms(1));
    assert!(fallen(&mut of).1.contains("not the description"));
    // Joined, and silent.
    let mut of = feed("plant/#", Reliability::AtLeastOnce);
    described(&mut of, 7, &["plant/#"], ms(1));
    of.timer(ms(3000));
    assert_eq!(of.poll(), Some(Want::Join(group)));
    assert_eq!(of.poll(), None);
    of.timer(ms(3001));
    let (wants, why) = fallen(&mut of);
    assert!(
        why.contains("nothing of the group") && wants == [Want::Leave],
        "{why}"
    );
    // The group is no more.
    let mut of = feed("plant/#", Reliability::AtLeastOnce);
    described(&mut of, 7, &["plant/#"], ms(1));
    of.described(b"", ms(2));
    let (wants, why) = fallen(&mut of);
    assert!(why.contains("no longer") && wants == [Want::Join(group), Want::Leave]);
}

#[test]
fn another_start_of_the_sender_is_followed_where_it_is() {
    let mut feed = feed("plant/#", Reliability::AtMostOnce);
    described(&mut feed, 7, &["plant/#"], ms(0));
    let of = |epoch: u64, payload: &[u8]| {
        let mut sender = Sender::new(&settings(epoch), ms(1));
        push(&mut sender, "plant/1", payload, ms(1));
        sender.poll_transmit().expect("one").to_vec()
    };
    let (old, new) = (of(7, b"old"), of(8, b"new"));
    feed.datagram(&old, ms(1));
    described(&mut feed, 8, &["plant/#"], ms(2));
    feed.datagram(&old, ms(2));
    feed.datagram(&new, ms(2));
    let wants: Vec<Want> = std::iter::from_fn(|| feed.poll()).collect();
    let payloads = |want: &Want| match want {
        Want::Deliver(message) => Some(message.payload().to_vec()),
        _ => None,
    };
    let came: Vec<Vec<u8>> = wants.iter().filter_map(payloads).collect();
    assert_eq!(came, [b"old", b"new"]);
    // It joined once: the group has the same address.
    let joins = wants.iter().filter(|want| matches!(want, Want::Join(_)));
    assert_eq!((joins.count(), wants.contains(&Want::Leave)), (1, false));
    let counts = feed.counts();
    assert_eq!((counts.datagrams, counts.refused), (2, 1));
}
