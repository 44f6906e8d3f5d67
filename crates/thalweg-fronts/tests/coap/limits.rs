//! Limits of peers, whatever they send: no panic, no unbounded growth, no effect on others.

use crate::world::{Manner, World};
use std::sync::Arc;
use thalweg_coap::{ServerSettings, option};
use thalweg_fronts::coap::CoapSettings;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Exceed, Limits, Policy};
use thalweg_model::{Filter, Reliability, Span};
use thalweg_mqtt::QoS;

/// A generator whose seed is printed when a test fails.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

const LINES: [&str; 16] = [
    "CON GET /ps/data/a observe=0",
    "NON GET /ps/data/a observe=1",
    "CON PUT /ps/data/a ct=50 max-age=9 : text",
    "NON POST /ps/data/a?qos=2&h.k=v&expiry=3&retain=0 : text",
    "CON DELETE /ps/data/a",
    "CON FETCH /ps/data?filter=%2B/%23 accept=60",
    "CON PUT /ps/data/a if-match=01020304 if-none-match : text",
    "CON GET /ps/data/a etag=01020304 accept=50",
    "CON GET /ps",
    "CON POST /ps ct=606 : \u{a2}",
    "CON IPATCH /ps/abcdefgh ct=606 : x",
    "CON GET /.well-known/core?rt=core.ps*",
    "CON POST /q/work : job",
    "CON GET /q/work",
    "CON POST /rpc/a : ask",
    "CON PUT /ps/data/a block1=0+/64 : 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
];

#[test]
fn damaged_datagrams_do_no_harm_and_good_ones_are_answered_afterwards() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let settings = CoapSettings {
            auto_declare_queues: true,
            ..CoapSettings::default()
        };
        let mut world = World::with(
            1 + seed as u16 % 3,
            Limits::default(),
            settings,
            Some(Access::ALL),
        );
        let peers: Vec<_> = (0..4).map(|_| world.peer()).collect();
        let app = world.mqtt("app");
        world.mqtt_subscribe(app, "#");
        for peer in &peers {
            let manners = [Manner::Polite, Manner::Silent, Manner::Rejecting];
            world.set_manner(*peer, manners[random.below(3)]);
        }
        for _ in 0..150 {
            let peer = peers[random.below(peers.len())];
            let line = LINES[random.below(LINES.len())];
            let id = 1 + random.below(40) as u16;
            let mut datagram = thalweg_testbed::coap::request(line, id, &[random.below(4) as u8]);
            for _ in 0..random.below(4) {
                let at = random.below(datagram.len());
                match random.below(4) {
                    0 => datagram[at] = random.next() as u8,
                    1 => datagram.truncate(at.max(1)),
                    2 => datagram.insert(at, random.next() as u8),
                    _ => datagram[at] ^= 1 << random.below(8),
                }
            }
            world.sends(peer, &datagram);
            if random.below(8) == 0 {
                world.wait(Span::from_millis(random.below(20_000) as u64));
            }
        }
        world.wait(Span::from_secs(200));
        for peer in &peers {
            world.lines(*peer);
        }
        let good = world.peer();
        assert!(
            world
                .asks(good, "CON PUT /ps/data/good : x")
                .starts_with("ACK 2."),
            "seed {seed}"
        );
        assert_eq!(
            world.asks(good, "CON GET /ps/data/good"),
            "ACK 2.05 : x",
            "seed {seed}"
        );
        world.shut_down();
    }
}

#[test]
fn who_waits_for_a_verdict_or_the_journal_is_bounded() {
    let settings = CoapSettings {
        waiting_max: 3,
        ..CoapSettings::default()
    };
    let mut world = World::with(1, Limits::default(), settings.clone(), None);
    let who = world.known_peer("sensor");
    for _ in 0..5 {
        world.says(who, "CON GET /ps/data/a");
    }
    let answer = thalweg_fronts::LoginAnswer::Allowed {
        user: None,
        access: Access::ALL,
        expires: None,
        data: None,
    };
    world.verdict(answer);
    assert_eq!(
        (world.lines(who).len(), world.counts().dropped_waiting),
        (3, 2),
        "the rest was as if lost"
    );
    let limits = Limits {
        journal: true,
        ..Limits::default()
    };
    let mut world = World::with(1, limits, settings, Some(Access::ALL));
    let who = world.peer();
    world.bed.is_disk_manual = true;
    for _ in 0..5 {
        world.says(who, "CON PUT /ps/data/a : x");
    }
    assert_eq!(world.lines(who), ["ACK 5.03 max-age=5"; 2]);
    world.sync();
    world.rest();
    assert_eq!(world.lines(who).len(), 3);
    assert_eq!(world.asks(who, "CON GET /ps/data/a"), "ACK 2.05 : x");
}

#[test]
fn a_body_beyond_the_limit_is_refused() {
    let machine = ServerSettings {
        transfer_bytes_max: 100,
        ..ServerSettings::default()
    };
    let mut world = World::of(CoapSettings {
        machine: Arc::new(machine),
        ..CoapSettings::default()
    });
    let who = world.peer();
    let block = "0123456789abcdef".repeat(4);
    assert_eq!(
        world.asks(who, &format!("CON PUT /ps/data/a block1=0+/64 : {block}")),
        "ACK 2.31 block1=0+/64"
    );
    let answer = world.asks(who, &format!("CON PUT /ps/data/a block1=1+/64 : {block}"));
    assert!(answer.starts_with("ACK 4.13"), "{answer}");
    assert_eq!(world.asks(who, "CON GET /ps/data/a"), "ACK 4.04");
}

#[test]
fn an_observer_says_what_is_confirmable_and_the_operator_what_is_shown() {
    let mut world = World::of(CoapSettings {
        discovery: false,
        ..CoapSettings::default()
    });
    let (one, two, app) = (world.peer(), world.peer(), world.mqtt("app"));
    assert_eq!(world.asks(one, "CON GET /.well-known/core"), "ACK 4.04");
    world.asks(one, "CON GET /ps/data/a?qos=0 observe=0");
    world.asks(two, "CON GET /ps/data/a?qos=1 observe=0");
    world.mqtt_says(app, "a", "0", QoS::AtLeastOnce, true);
    world.lines(one);
    world.lines(two);
    for (text, qos) in [("1", QoS::AtMostOnce), ("2", QoS::AtLeastOnce)] {
        world.mqtt_says(app, "a", text, qos, false);
        assert_eq!(world.lines(one), [format!("NON 2.05 observe : {text}")]);
        assert_eq!(world.lines(two), [format!("CON 2.05 observe : {text}")]);
    }
    assert_eq!(
        world.asks(one, "CON GET /ps/data"),
        "ACK 2.05 ct=40 : </ps/data/a>"
    );
}

#[test]
fn a_policy_bounds_how_surely_observers_are_notified_from_below_and_above() {
    let bound = |min, max| Policy {
        reliability_min: min,
        reliability_max: max,
        ..Policy::new(Filter::new("a").expect("a filter"))
    };
    let (once, at_most) = (Reliability::AtLeastOnce, Reliability::AtMostOnce);
    for (policy, auto, confirmable) in [
        (bound(None, None), "NON", "CON"),
        (bound(Some(once), None), "CON", "CON"),
        (bound(Some(once), Some(at_most)), "NON", "NON"),
    ] {
        let told = policy.reliability_max.map_or("", |_| " offered=0");
        let limits = Limits {
            policies: [policy].into(),
            ..Limits::default()
        };
        let mut world = World::with(1, limits, CoapSettings::default(), Some(Access::ALL));
        let (one, two, app) = (world.peer(), world.peer(), world.mqtt("app"));
        for (who, query) in [(one, ""), (two, "?qos=1")] {
            let answer = world.asks(who, &format!("CON GET /ps/data/a{query} observe=0"));
            assert_eq!(answer, format!("ACK 2.05 observe{told}"));
        }
        world.mqtt_says(app, "a", "0", QoS::AtLeastOnce, true);
        world.lines(one);
        world.lines(two);
        world.mqtt_says(app, "a", "1", QoS::AtMostOnce, false);
        assert_eq!(world.lines(one), [format!("{auto} 2.05 observe : 1")]);
        assert_eq!(
            world.lines(two),
            [format!("{confirmable} 2.05 observe : 1")]
        );
    }
}

#[test]
fn a_policy_s_rate_is_told_with_the_time_until_there_is_room_and_for_its_topic_alone() {
    for (exceed, elsewhere) in [
        (Exceed::Reject, "ACK 2.01"),
        (Exceed::Throttle, "ACK 4.29 max-age=5"),
    ] {
        let policy = Policy {
            rate_bytes: Some(2),
            rate_exceed: Some(exceed),
            ..Policy::new(Filter::new("a").expect("a filter"))
        };
        let limits = Limits {
            policies: [policy].into(),
            ..Limits::default()
        };
        let mut world = World::with(1, limits, CoapSettings::default(), Some(Access::ALL));
        let who = world.peer();
        assert_eq!(
            world.asks(who, "CON PUT /ps/data/a : 123456789012"),
            "ACK 2.01"
        );
        let again = world.asks(who, "CON PUT /ps/data/a : 1");
        assert!(again.starts_with("ACK 4.29 max-age="), "{again}");
        assert_eq!(
            world.asks(who, "CON PUT /ps/data/b : 1"),
            elsewhere,
            "{exceed:?}"
        );
        world.wait(Span::from_secs(6));
        assert_eq!(world.asks(who, "CON PUT /ps/data/a : 1"), "ACK 2.04");
    }
}

#[test]
fn one_stranger_does_not_use_up_the_rate_of_others() {
    let mut world = World::of(CoapSettings {
        publish_rate: Some(2),
        ..CoapSettings::default()
    });
    let (hasty, calm) = (world.peer(), world.peer());
    for _ in 0..20 {
        world.says(hasty, "CON PUT /ps/data/a : x");
    }
    assert!(
        world
            .lines(hasty)
            .iter()
            .any(|line| line.starts_with("ACK 4.29"))
    );
    assert_eq!(world.asks(calm, "CON PUT /ps/data/b : x"), "ACK 2.01");
}

#[test]
fn whatever_happens_every_observer_ends_with_the_last_value() {
    for seed in 0..100 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let limits = Limits {
            journal: seed % 2 == 0,
            ..Limits::default()
        };
        let mut world = World::with(
            1 + seed as u16 % 3,
            limits,
            CoapSettings::default(),
            Some(Access::ALL),
        );
        let observers: Vec<_> = (0..6).map(|_| world.peer()).collect();
        let publishers: Vec<_> = (0..3).map(|_| world.peer()).collect();
        let apps = [world.mqtt("one"), world.mqtt("two"), world.mqtt("three")];
        let paths = ["a", "b/c"];
        let mut last = [String::new(), String::new()];
        let mut watched: Vec<Option<usize>> = vec![None; observers.len()];
        for step in 0..120 {
            let at = random.below(2);
            match random.below(10) {
                0 => {
                    let who = random.below(observers.len());
                    world.set_manner(observers[who], Manner::Polite);
                    let queue = ["", "?queue=3"][random.below(2)];
                    let line = format!("CON GET /ps/data/{}{queue} observe=0", paths[at]);
                    let id = world.next_id(observers[who]);
                    world.says_with(observers[who], &line, id, b"same");
                    watched[who] = Some(at);
                }
                1 => {
                    let who = random.below(observers.len());
                    world.set_manner(
                        observers[who],
                        [Manner::Polite, Manner::Silent][random.below(2)],
                    );
                }
                2 => world.wait(Span::from_millis(random.below(3000) as u64)),
                3 => world.bed.is_disk_manual = !world.bed.is_disk_manual,
                4..7 => {
                    last[at] = step.to_string();
                    let app = apps[random.below(3)];
                    let qos =
                        [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce][random.below(3)];
                    world.mqtt_says(app, paths[at], &last[at].clone(), qos, true);
                }
                _ => {
                    last[at] = step.to_string();
                    let kind = ["CON", "NON"][random.below(2)];
                    let line = format!("{kind} PUT /ps/data/{} : {}", paths[at], last[at]);
                    world.says(publishers[random.below(3)], &line);
                }
            }
        }
        world.bed.is_disk_manual = false;
        for observer in &observers {
            world.set_manner(*observer, Manner::Polite);
        }
        world.wait(Span::from_secs(200));
        for (who, at) in observers.iter().zip(watched) {
            let Some(at) = at else { continue };
            let heard = world.heard(*who);
            // As clients do: what is repeated late has a lower number. RFC 7641 §3.4
            let shown = heard
                .iter()
                .filter(|heard| heard.token == b"same" && heard.uint(option::OBSERVE).is_some());
            let shown = shown.max_by_key(|heard| heard.uint(option::OBSERVE));
            let shown = shown.map(|heard| String::from_utf8_lossy(&heard.payload).into_owned());
            assert_eq!(
                shown.as_deref(),
                Some(&*last[at]),
                "seed {seed}, {who:?} of {}",
                paths[at]
            );
        }
    }
}

/// An operator who looks for the fault of a client finds it in the metrics: also what the machine answers by itself.
#[test]
fn refused_blocks_are_counted_as_errors() {
    let machine = ServerSettings {
        transfer_bytes_max: 100,
        ..ServerSettings::default()
    };
    let settings = CoapSettings {
        machine: Arc::new(machine),
        ..CoapSettings::default()
    };
    let mut world = World::with(1, Limits::default(), settings, Some(Access::ALL));
    let who = world.peer();
    let gap = "CON PUT /ps/data/a block1=3+/16 : 0123456789abcdef";
    assert!(world.asks(who, gap).starts_with("ACK 4.08"));
    let too_large = "CON PUT /ps/data/a block1=1+/128 : 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
                     0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    assert!(world.asks(who, too_large).starts_with("ACK 4.13"));
    assert_eq!((world.counts().refused, world.counts().failed), (2, 0));
}

#[test]
fn what_waits_for_a_batch_that_is_not_kept_is_answered_with_an_error() {
    let limits = Limits {
        journal: true,
        ..Limits::default()
    };
    let mut world = World::with(1, limits, CoapSettings::default(), Some(Access::ALL));
    let (who, other) = (world.peer(), world.peer());
    world.bed.is_disk_manual = true;
    let number = world.bed.shards[0].kernel.batch_number();
    let id = world.says(who, "CON PUT /ps/data/a : 1");
    world.says(other, "CON PUT /ps/data/b : 1");
    assert_eq!(world.lines(who), [""; 0], "nothing is safe yet");
    world.bed.shards[0].links.refuse(number);
    world.rest();
    let not_kept = "ACK 5.00";
    assert_eq!(world.lines(who), [not_kept]);
    assert_eq!(world.lines(other), [not_kept], "it is in the same batch");
    world.says_with(
        who,
        "CON PUT /ps/data/a : 1",
        id,
        &[0, (id >> 8) as u8, id as u8],
    );
    assert_eq!(
        world.lines(who),
        [not_kept],
        "a repetition is told the same"
    );
    world.sync();
    world.rest();
    assert_eq!(world.lines(who), [""; 0], "and nothing else later");
    world.bed.is_disk_manual = false;
    assert_eq!(world.asks(who, "CON PUT /ps/data/a : 2"), "ACK 2.04");
}
