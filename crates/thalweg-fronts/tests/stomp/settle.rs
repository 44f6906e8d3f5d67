//! ACK and NACK.

use crate::world::{Got, Hello, Who, World};
use thalweg_fronts::stomp::StompSettings;
use thalweg_kernel::Limits;
use thalweg_stomp::{AckMode, ConnectOut, SubscribeOut, Version};

fn taking<'a>(ack: AckMode, headers: &'a [(&'a str, &'a str)]) -> SubscribeOut<'a> {
    SubscribeOut {
        id: Some("1"),
        destination: "/queue/q",
        ack,
        headers,
        ..SubscribeOut::default()
    }
}

fn send_numbers(world: &mut World, count: usize) {
    let sender = world.connect();
    for number in 0..count {
        world.send_headers(
            sender,
            "/queue/q",
            &number.to_string(),
            &[("persistent", "true")],
        );
    }
}

/// Deliveries to a new consumer: texts, and whether they are flagged as redelivered.
fn left(world: &mut World) -> Vec<(String, bool)> {
    let who = world.connect();
    world.listen(who, "1", "/queue/q");
    world
        .messages(who)
        .iter()
        .map(|got| (got.text().to_owned(), got.redelivered))
        .collect()
}

fn texts(got: &[Got]) -> Vec<&str> {
    got.iter().map(Got::text).collect()
}

#[test]
fn each_message_is_acknowledged_for_itself_and_the_rest_comes_again_flagged_and_in_order() {
    let mut world = World::new();
    let who = world.connect();
    world.subscribe(who, &taking(AckMode::ClientIndividual, &[]));
    send_numbers(&mut world, 4);
    let got = world.messages(who);
    assert_eq!(texts(&got), ["0", "1", "2", "3"]);
    assert!(
        got.iter()
            .all(|got| got.ack.is_some() && got.header("persistent") == Some("true"))
    );
    world.ack(who, &got[1]);
    world.ack(who, &got[3]);
    world.lose(who);
    assert_eq!(
        left(&mut world),
        [("0".to_owned(), true), ("2".to_owned(), true)]
    );
}

#[test]
fn a_thousand_unsettled_messages_of_a_lost_consumer_come_again_in_order_and_only_those() {
    let mut world = World::new();
    let who = world.connect();
    world.subscribe(
        who,
        &taking(AckMode::ClientIndividual, &[("prefetch-count", "1000")]),
    );
    send_numbers(&mut world, 1200);
    let got = world.messages(who);
    assert_eq!(got.len(), 1000);
    world.ack(who, &got[7]);
    world.lose(who);
    let again = left(&mut world);
    let numbers: Vec<usize> = again
        .iter()
        .map(|(text, _)| text.parse().expect("a number"))
        .collect();
    assert_eq!(
        numbers,
        (0..1200).filter(|number| *number != 7).collect::<Vec<_>>()
    );
    // One more was delivered for the one that was acknowledged.
    assert_eq!(
        again.iter().filter(|(_, redelivered)| *redelivered).count(),
        1000
    );
    assert!(again[..1000].iter().all(|(_, redelivered)| *redelivered));
}

#[test]
fn an_acknowledgement_speaks_for_all_before_it_in_client_mode() {
    for version in Version::ALL {
        let mut world = World::new();
        let connect = ConnectOut {
            lowest: version,
            highest: version,
            ..ConnectOut::default()
        };
        let who = world.connect_with(&Hello {
            connect,
            ..Hello::default()
        });
        world.subscribe(who, &taking(AckMode::Client, &[]));
        send_numbers(&mut world, 4);
        let got = world.messages(who);
        assert_eq!(texts(&got), ["0", "1", "2", "3"], "in {version}");
        assert_eq!(got[0].ack.is_some(), version == Version::V12);
        world.ack(who, &got[2]);
        world.lose(who);
        assert_eq!(left(&mut world), [("3".to_owned(), true)], "in {version}");
    }
}

#[test]
fn subscriptions_are_acknowledged_apart() {
    let mut world = World::new();
    let who = world.connect();
    let take = |id: &'static str| SubscribeOut {
        id: Some(id),
        ..taking(AckMode::Client, &[("prefetch-count", "1")])
    };
    world.subscribe(who, &take("1"));
    world.subscribe(who, &take("2"));
    send_numbers(&mut world, 3);
    let got = world.messages(who);
    let of = |got: &[Got]| {
        got.iter()
            .map(|got| got.subscription.clone().expect("one"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (texts(&got), of(&got)),
        (vec!["0", "1"], vec!["1".to_owned(), "2".to_owned()])
    );
    world.ack(who, &got[1]);
    let next = world.message(who);
    assert_eq!(
        (next.text(), next.subscription.as_deref()),
        ("2", Some("2")),
        "the other one has not settled its own"
    );
}

#[test]
fn what_is_not_wanted_goes_back_or_away() {
    let mut world = World::new();
    let who = world.connect();
    world.subscribe(
        who,
        &taking(AckMode::ClientIndividual, &[("prefetch-count", "1")]),
    );
    send_numbers(&mut world, 2);
    let got = world.message(who);
    world.nack(who, &got);
    let again = world.message(who);
    assert_eq!(
        (again.text(), again.redelivered),
        ("0", true),
        "NACK puts it back where it was"
    );
    world.writes(
        who,
        format!("NACK\nid:{}\nrequeue:false\n\n\0", again.ack.expect("1.2")).as_bytes(),
    );
    let next = world.message(who);
    assert_eq!((next.text(), next.redelivered), ("1", false));
    world.lose(who);
    assert_eq!(
        left(&mut world),
        [("1".to_owned(), true)],
        "what was rejected is gone"
    );
}

#[test]
fn what_is_rejected_becomes_a_dead_letter() {
    let mut world = World::with(
        1,
        Limits::default(),
        StompSettings {
            nack_requeues: false,
            ..Default::default()
        },
    );
    let who = world.connect();
    let headers = [
        ("x-dead-letter-exchange", ""),
        ("x-dead-letter-routing-key", "dead"),
    ];
    world.subscribe(who, &taking(AckMode::ClientIndividual, &headers));
    world.listen(who, "dead", "/queue/dead");
    send_numbers(&mut world, 1);
    let got = world.message(who);
    world.nack(who, &got);
    let dead = world.message(who);
    assert_eq!(
        (dead.text(), dead.subscription.as_deref()),
        ("0", Some("dead"))
    );
    assert_eq!(dead.header("x-first-death-reason"), Some("rejected"));
    assert_eq!(dead.header("x-first-death-queue"), Some("q"));
    assert_eq!(dead.header("x-first-death-exchange"), Some(""));
    assert_eq!(dead.destination, "/queue/dead");
}

#[test]
fn no_more_than_the_prefetch_count_is_unsettled() {
    for header in ["prefetch-count", "activemq.prefetchSize"] {
        let mut world = World::new();
        let who = world.connect();
        world.subscribe(who, &taking(AckMode::Client, &[(header, "3")]));
        send_numbers(&mut world, 10);
        let got = world.messages(who);
        assert_eq!(texts(&got), ["0", "1", "2"]);
        world.ack(who, &got[1]);
        assert_eq!(world.texts(who), ["3", "4"]);
    }
}

#[test]
fn unsubscribe_gives_back_what_was_not_acknowledged() {
    let mut world = World::new();
    let who = world.connect();
    world.subscribe(who, &taking(AckMode::Client, &[]));
    send_numbers(&mut world, 2);
    let got = world.messages(who);
    world.unsubscribe(who, "1", &[]);
    world.ack(who, &got[1]);
    assert!(
        !world.is_closed(who),
        "an acknowledgement that crosses the end is no fault"
    );
    assert_eq!(
        left(&mut world),
        [("0".to_owned(), true), ("1".to_owned(), true)]
    );
}

#[test]
fn what_was_never_delivered_cannot_be_acknowledged() {
    for id in ["1-2", "nonsense", ""] {
        let mut world = World::new();
        let who = world.connect();
        world.subscribe(who, &taking(AckMode::Client, &[]));
        send_numbers(&mut world, 1);
        assert_eq!(world.message(who).ack.as_deref(), Some("1-1"));
        world.writes(who, format!("ACK\nid:{id}\nreceipt:r\n\n\0").as_bytes());
        let (message, _) = world.hears_error(who, Some("r"));
        assert_eq!(message, "Message not found", "{id}");
    }
}

#[test]
fn acknowledging_twice_or_needlessly_does_no_harm() {
    let mut world = World::new();
    let who = world.connect();
    world.subscribe(who, &taking(AckMode::ClientIndividual, &[]));
    send_numbers(&mut world, 1);
    let got = world.message(who);
    world.ack(who, &got);
    world.ack(who, &got);
    world.listen(who, "auto", "/queue/auto");
    world.send(who, "/queue/auto", "x");
    let got = world.message(who);
    world.writes(who, format!("ACK\nid:{}\n\n\0", got.message_id).as_bytes());
    assert!(!world.is_closed(who));
}

#[test]
fn a_consumer_of_higher_priority_is_served_first() {
    let mut world = World::new();
    let (low, high) = (world.connect(), world.connect());
    let ack = AckMode::ClientIndividual;
    world.subscribe(low, &taking(ack, &[]));
    world.subscribe(
        high,
        &taking(ack, &[("x-priority", "5"), ("prefetch-count", "2")]),
    );
    send_numbers(&mut world, 3);
    let (first, rest): (Vec<_>, Vec<_>) = (world.texts(high), world.texts(low));
    assert_eq!(
        (first, rest),
        (vec!["0".to_owned(), "1".to_owned()], vec!["2".to_owned()])
    );
}

#[test]
fn a_1_0_client_may_leave_out_the_id() {
    let mut world = World::new();
    let connect = ConnectOut {
        lowest: Version::V10,
        highest: Version::V10,
        ..ConnectOut::default()
    };
    let who: Who = world.connect_with(&Hello {
        connect,
        ..Hello::default()
    });
    world.subscribe(
        who,
        &SubscribeOut {
            id: None,
            ..taking(AckMode::Client, &[])
        },
    );
    send_numbers(&mut world, 1);
    let got = world.message(who);
    assert_eq!(
        (got.subscription.as_deref(), &*got.destination),
        (None, "/queue/q")
    );
    world.ack(who, &got);
    world.says(who, |machine, up| {
        machine.unsubscribe_destination("/queue/q", Some("r"), up)
    });
    world.hears_receipt(who, "r");
    send_numbers(&mut world, 1);
    assert_eq!(world.texts(who), [""; 0]);
}

#[test]
fn what_python_writes_for_false_is_false_and_nonsense_is_an_error() {
    let mut world = World::new();
    let who = world.connect();
    world.subscribe(who, &taking(AckMode::ClientIndividual, &[]));
    send_numbers(&mut world, 1);
    let got = world.message(who);
    world.writes(
        who,
        format!("NACK\nid:{}\nrequeue:False\n\n\0", got.ack.expect("1.2")).as_bytes(),
    );
    assert_eq!(
        world.texts(who),
        [""; 0],
        "it is rejected and does not come again"
    );
    send_numbers(&mut world, 1);
    let got = world.message(who);
    world.writes(
        who,
        format!(
            "NACK\nid:{}\nrequeue:no\nreceipt:r\n\n\0",
            got.ack.expect("1.2")
        )
        .as_bytes(),
    );
    let (_, body) = world.hears_error(who, Some("r"));
    assert!(body.contains("header 'requeue' is 'no'"), "{body}");
    assert_eq!(left(&mut world), [("0".to_owned(), true)]);
}
