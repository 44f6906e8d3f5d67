//! Limits, and refusals beyond them.

use crate::script::Stage;
use crate::world::{Hello, World};
use thalweg_fronts::stomp::StompSettings;
use thalweg_kernel::Limits;
use thalweg_kernel::access::{Otherwise, Permissions, Rule, Rules};
use thalweg_model::Span;
use thalweg_stomp::{SendOut, SubscribeOut};

#[test]
fn what_the_rules_do_not_allow_ends_in_an_error() {
    let rules = [Rule::allow(Permissions::ALL, "mine/#")];
    let access = Rules::new(rules.into(), Otherwise::Deny)
        .expect("legal")
        .compile("c", None);
    let hello = Hello {
        access: Some(access),
        ..Hello::default()
    };
    let mut world = World::new();
    let who = world.connect_with(&hello);
    world.send_headers(who, "/topic/mine.x", "fine", &[("receipt", "1")]);
    world.hears_receipt(who, "1");
    world.send_headers(who, "/topic/yours", "no", &[("receipt", "2")]);
    let (message, body) = world.hears_error(who, Some("2"));
    assert_eq!(message, "access_refused");
    assert!(body.contains("/topic/yours"), "{body}");
    for destination in ["/topic/yours", "/queue/theirs", "/topic/#"] {
        let who = world.connect_with(&hello);
        let subscribe = SubscribeOut {
            id: Some("1"),
            destination,
            ..SubscribeOut::default()
        };
        assert_eq!(
            world.refused(who, &subscribe).0,
            "access_refused",
            "{destination}"
        );
    }
}

#[test]
fn a_selector_must_be_one() {
    let mut world = World::new();
    let with = |selector: &'static str| [("selector", selector)];
    let (wrong, right) = (with("colour = = red"), with("colour = 'red'"));
    let subscribe = SubscribeOut {
        id: Some("1"),
        destination: "/topic/a",
        headers: &right,
        ..SubscribeOut::default()
    };
    for (destination, headers, message, body) in [
        ("/topic/a", &wrong, "Invalid selector", "at byte 9"),
        ("/queue/a", &wrong, "Invalid selector", "at byte 9"),
        ("/amq/queue/$g/g/a", &wrong, "Invalid selector", "at byte 9"),
    ] {
        let who = world.connect();
        let subscribe = SubscribeOut {
            destination,
            headers,
            ..subscribe
        };
        let (said, why) = world.refused(who, &subscribe);
        assert_eq!(said, message);
        assert!(why.contains(body), "{why}");
    }
    world.settings.selectors_refused = true;
    let who = world.connect();
    assert_eq!(world.refused(who, &subscribe).0, "not_implemented");
}

#[test]
fn a_connection_has_so_many_subscriptions_transactions_and_bytes() {
    let settings = StompSettings {
        subscriptions_max: 2,
        transactions_max: 1,
        destination_bytes_max: 20,
        ..StompSettings::default()
    };
    let mut world = World::with(1, Limits::default(), settings);
    let who = world.connect();
    world.listen(who, "1", "/topic/a");
    world.listen(who, "2", "/topic/a");
    let third = SubscribeOut {
        id: Some("3"),
        destination: "/topic/a",
        ..SubscribeOut::default()
    };
    assert_eq!(world.refused(who, &third).0, "too many subscriptions");
    let who = world.connect();
    world.listen(who, "1", "/topic/a");
    let again = SubscribeOut {
        id: Some("1"),
        ..third
    };
    assert_eq!(
        world.refused(who, &again).0,
        "Duplicated subscription identifier"
    );
    let who = world.connect();
    world.writes(
        who,
        b"BEGIN\ntransaction:1\n\n\0BEGIN\ntransaction:2\nreceipt:r\n\n\0",
    );
    assert_eq!(world.hears_error(who, Some("r")).0, "too many transactions");
    let who = world.connect();
    world.writes(
        who,
        b"SEND\ndestination:/topic/aaaaaaaaaaaaaaaaaaaa\nreceipt:r\n\n\0",
    );
    assert_eq!(world.hears_error(who, Some("r")).0, "Invalid destination");
}

#[test]
fn what_a_slow_reader_cannot_take_waits_in_its_queue() {
    let mut world = World::new();
    let (slow, sender) = (world.connect(), world.connect());
    world.listen(slow, "1", "/queue/q");
    world.read(slow, false);
    let body = "x".repeat(1000);
    for _ in 0..200 {
        world.send(sender, "/queue/q", &body);
    }
    assert!(
        world.output_of(slow) < 20 << 10,
        "{} bytes wait",
        world.output_of(slow)
    );
    world.read(slow, true);
    assert_eq!(world.messages(slow).len(), 200);
}

#[test]
fn a_full_queue_that_refuses_says_so_to_whoever_waits_for_an_answer() {
    let mut world = World::new();
    let who = world.connect();
    let limits = [("x-max-length", "1"), ("x-overflow", "reject-publish")];
    world.send_headers(who, "/queue/q", "1", &limits);
    world.send(who, "/queue/q", "dropped");
    assert!(!world.is_closed(who));
    let send = SendOut {
        destination: "/queue/q",
        receipt: Some("r"),
        body: b"refused",
        ..SendOut::default()
    };
    world.send_with(who, &send, |_| ());
    assert_eq!(world.hears_error(who, Some("r")).0, "resource_error");
    let taker = world.connect();
    world.listen(taker, "1", "/queue/q");
    assert_eq!(world.texts(taker), ["1"]);
}

#[test]
fn a_publisher_over_its_rate_is_read_more_slowly() {
    let settings = StompSettings {
        publish_rate: Some(10),
        ..StompSettings::default()
    };
    let mut world = World::with(1, Limits::default(), settings);
    let who = world.connect();
    world.listen(who, "1", "/topic/a");
    let mut frames = Vec::new();
    for _ in 0..100 {
        frames.extend_from_slice(b"SEND\ndestination:/topic/a\n\nx\0");
    }
    world.writes(who, &frames);
    let at_once = world.messages(who).len();
    assert!(at_once < 50, "{at_once}");
    for _ in 0..20 {
        world.wait(Span::from_secs(1));
    }
    assert_eq!(at_once + world.messages(who).len(), 100);
}

#[test]
fn no_script_makes_a_connection_panic_or_grow_without_bound() {
    const SCRIPTS: u64 = 20_000;
    const SCRIPTS_PER_STAGE: u64 = 20;
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for number in 0..SCRIPTS / SCRIPTS_PER_STAGE {
        let mut stage = Stage::new(number as u8);
        for _ in 0..SCRIPTS_PER_STAGE {
            let script: Vec<u8> = (0..next() % 60).map(|_| (next() >> 20) as u8).collect();
            stage.play(&script);
        }
        stage.end();
    }
}
