//! `/queue/`, `/amq/queue/`, `/temp-queue/`, `/reply-queue/`.

use crate::world::{ServerFrame, World};
use thalweg_fronts::stomp::StompSettings;
use thalweg_kernel::Limits;
use thalweg_model::Span;
use thalweg_mqtt::{PublishOut, QoS};
use thalweg_stomp::{AckMode, SendOut, SubscribeOut};

#[test]
fn a_queue_is_made_by_whoever_uses_it_first_and_keeps_what_nobody_takes() {
    let mut world = World::new();
    let sender = world.connect();
    for text in ["1", "2", "3"] {
        world.send(sender, "/queue/work", text);
    }
    let taker = world.connect();
    world.listen(taker, "1", "/queue/work");
    let got = world.messages(taker);
    assert_eq!(
        got.iter().map(|got| got.text()).collect::<Vec<_>>(),
        ["1", "2", "3"]
    );
    assert!(
        got.iter()
            .all(|got| got.destination == "/queue/work" && !got.redelivered && got.ack.is_none())
    );
    let ids: std::collections::HashSet<_> = got.iter().map(|got| &got.message_id).collect();
    assert_eq!(ids.len(), 3, "message-id is unique");
}

#[test]
fn consumers_of_a_queue_share_what_comes() {
    let mut world = World::new();
    let (sender, one, two) = (world.connect(), world.connect(), world.connect());
    world.listen(one, "1", "/queue/work");
    world.listen(two, "1", "/queue/work");
    for number in 0..10 {
        world.send(sender, "/queue/work", &number.to_string());
    }
    let (first, second) = (world.texts(one), world.texts(two));
    assert_eq!(first.len() + second.len(), 10);
    assert_eq!((first.len(), second.len()), (5, 5));
}

#[test]
fn what_is_not_declared_cannot_be_consumed_as_amq_queue() {
    let mut world = World::new();
    let who = world.connect();
    let subscribe = SubscribeOut {
        id: Some("1"),
        destination: "/amq/queue/nothing",
        ..SubscribeOut::default()
    };
    let (message, body) = world.refused(who, &subscribe);
    assert_eq!(message, "not_found");
    assert!(
        body.contains("/amq/queue/nothing: there is no such queue"),
        "{body}"
    );
    let who = world.connect();
    world.send(who, "/queue/something", "x");
    world.listen(who, "1", "/amq/queue/something");
    let got = world.message(who);
    assert_eq!(
        (got.text(), &*got.destination),
        ("x", "/amq/queue/something")
    );
}

#[test]
fn headers_say_what_a_new_queue_is_like_and_must_agree_with_what_is_there() {
    let mut world = World::new();
    let who = world.connect();
    let limited = SubscribeOut {
        id: Some("1"),
        destination: "/queue/short",
        ack: AckMode::ClientIndividual,
        headers: &[
            ("x-max-length", "2"),
            ("x-message-ttl", "60000"),
            ("prefetch-count", "1"),
        ],
        ..SubscribeOut::default()
    };
    world.subscribe(who, &limited);
    for text in ["1", "2", "3", "4"] {
        world.send(who, "/queue/short", text);
    }
    let got = world.message(who);
    assert_eq!(got.text(), "1");
    world.ack(who, &got);
    assert_eq!(
        world.texts(who),
        ["3"],
        "the queue keeps two and gives the oldest up"
    );
    let other = world.connect();
    world.listen(other, "1", "/queue/short");
    let third = world.connect();
    let differs = SubscribeOut {
        headers: &[("x-max-length", "3")],
        ..limited
    };
    let (message, body) = world.refused(third, &differs);
    assert_eq!(message, "precondition_failed");
    assert!(body.contains("it exists with another"), "{body}");
    let fourth = world.connect();
    let wrong = SubscribeOut {
        headers: &[("x-max-length", "many")],
        ..limited
    };
    let (_, body) = world.refused(fourth, &wrong);
    assert!(body.contains("header 'x-max-length' is 'many'"), "{body}");
}

#[test]
fn messages_expire_in_the_queue() {
    let mut world = World::new();
    let who = world.connect();
    world.send_headers(who, "/queue/q", "soon", &[("expiration", "1000")]);
    let at = world.bed.now.nanos() / 1_000_000 + 5000;
    world.send_headers(who, "/queue/q", "later", &[("expires", &at.to_string())]);
    world.send_headers(who, "/queue/q", "gone", &[("expires", "1")]);
    world.send_headers(who, "/queue/q", "never", &[("expires", "0")]);
    world.wait(Span::from_secs(2));
    world.listen(who, "1", "/queue/q");
    let got = world.messages(who);
    let expected = [("later", Some("3000")), ("never", None)];
    assert_eq!(
        got.iter()
            .map(|got| (got.text(), got.header("expiration")))
            .collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn a_queue_with_priorities_gives_the_urgent_first() {
    let mut world = World::new();
    let who = world.connect();
    for (text, priority) in [("a", "0"), ("b", "9"), ("c", "4")] {
        world.send_headers(
            who,
            "/queue/q",
            text,
            &[("x-max-priority", "9"), ("priority", priority)],
        );
    }
    world.listen(who, "1", "/queue/q");
    let got = world.messages(who);
    let seen: Vec<_> = got
        .iter()
        .map(|got| (got.text(), got.header("priority")))
        .collect();
    assert_eq!(seen, [("b", Some("9")), ("c", Some("4")), ("a", None)]);
}

#[test]
fn a_question_is_answered_through_a_temporary_queue() {
    let mut world = World::new();
    let (asks, answers) = (world.connect(), world.connect());
    world.listen(answers, "1", "/queue/rpc");
    world.send_headers(
        asks,
        "/queue/rpc",
        "2+2",
        &[("reply-to", "/temp-queue/mine"), ("correlation-id", "c7")],
    );
    let question = world.message(answers);
    let reply_to = question
        .header("reply-to")
        .expect("somewhere to answer to")
        .to_owned();
    assert!(reply_to.starts_with("/reply-queue/"), "{reply_to}");
    assert_eq!(question.header("correlation-id"), Some("c7"));
    world.send_headers(answers, &reply_to, "4", &[("correlation-id", "c7")]);
    let answer = world.message(asks);
    assert_eq!(
        (answer.text(), answer.subscription.as_deref()),
        ("4", Some("/temp-queue/mine"))
    );
    assert_eq!(
        (answer.header("correlation-id"), &*answer.destination),
        (Some("c7"), "/temp-queue/mine")
    );
    world.send_headers(
        asks,
        "/queue/rpc",
        "3+3",
        &[("reply-to", "/temp-queue/mine")],
    );
    assert_eq!(
        world.message(answers).header("reply-to"),
        Some(&*reply_to),
        "the queue is used again"
    );
    world.unsubscribe(asks, "/temp-queue/mine", &[]);
    world.send_headers(
        asks,
        "/queue/rpc",
        "4+4",
        &[("reply-to", "/temp-queue/mine")],
    );
    assert_eq!(world.message(answers).header("reply-to"), Some(&*reply_to));
    world.send(answers, &reply_to, "8");
    assert_eq!(world.texts(asks), ["8"], "it is listened to again");
    world.lose(asks);
    world.send(answers, &reply_to, "too late");
    assert!(
        !world.is_closed(answers),
        "an answer that nobody waits for is nobody's fault"
    );
}

#[test]
fn a_temporary_queue_can_be_subscribed_to_first() {
    let mut world = World::new();
    let (asks, answers) = (world.connect(), world.connect());
    world.listen(asks, "my-answers", "/temp-queue/mine");
    world.listen(answers, "1", "/queue/rpc");
    world.send_headers(asks, "/queue/rpc", "?", &[("reply-to", "/temp-queue/mine")]);
    let reply_to = world
        .message(answers)
        .header("reply-to")
        .expect("somewhere")
        .to_owned();
    world.send(answers, &reply_to, "!");
    let answer = world.message(asks);
    assert_eq!(
        (answer.text(), answer.subscription.as_deref()),
        ("!", Some("my-answers"))
    );
    world.send(asks, "/temp-queue/mine", "to myself");
    assert_eq!(world.texts(asks), ["to myself"]);
}

#[test]
fn an_answer_can_go_to_any_destination() {
    let mut world = World::new();
    let (asks, answers) = (world.connect(), world.connect());
    world.listen(answers, "1", "/queue/rpc");
    for reply_to in ["/queue/answers", "/topic/answers.7"] {
        world.listen(asks, reply_to, reply_to);
        world.send_headers(asks, "/queue/rpc", "?", &[("reply-to", reply_to)]);
        let shown = world
            .message(answers)
            .header("reply-to")
            .expect("somewhere")
            .to_owned();
        assert_eq!(shown, reply_to);
        world.send(answers, &shown, "!");
        assert_eq!(world.message(asks).subscription.as_deref(), Some(reply_to));
    }
}

#[test]
fn a_requester_of_mqtt_is_answered() {
    let mut world = World::new();
    let (device, answers) = (world.mqtt("device"), world.connect());
    world.mqtt_subscribe(device, "answers/7");
    world.listen(answers, "1", "/topic/rpc");
    let question = PublishOut {
        qos: QoS::AtLeastOnce,
        topic: "rpc",
        payload: b"?",
        response_topic: Some("answers/7"),
        correlation_data: Some(&[0xFF, 0]),
        ..PublishOut::default()
    };
    world.mqtt_publish(device, &question);
    let got = world.message(answers);
    assert_eq!(got.header("reply-to"), Some("/topic/answers.7"));
    let encoding = (
        "correlation-id-encoding",
        got.header("correlation-id-encoding")
            .expect("bytes are no text"),
    );
    let correlation = (
        "correlation-id",
        got.header("correlation-id").expect("a correlation"),
    );
    world.send_headers(answers, "/topic/answers.7", "!", &[correlation, encoding]);
    assert_eq!(
        world.mqtt_messages(device),
        [("answers/7".to_owned(), b"!".to_vec())]
    );
    assert_eq!(
        world.mqtt_last(device).correlation.as_deref(),
        Some(&[0xFF, 0][..])
    );
}

#[test]
fn mqtt_reaches_queues_by_their_address() {
    let mut world = World::new();
    let (device, who) = (world.mqtt("device"), world.connect());
    world.send(who, "/queue/q", "for mqtt");
    world.mqtt_subscribe(device, "$share/q/$q/q");
    assert_eq!(
        world.mqtt_messages(device),
        [("$q/q".to_owned(), b"for mqtt".to_vec())]
    );
    world.send(who, "/queue/r", "first");
    world.mqtt_publish(
        device,
        &PublishOut {
            qos: QoS::AtLeastOnce,
            topic: "$q/r",
            payload: b"by mqtt",
            ..PublishOut::default()
        },
    );
    world.listen(who, "1", "/queue/r");
    assert_eq!(world.texts(who), ["first", "by mqtt"]);
}

#[test]
fn a_queue_that_is_deleted_takes_its_subscribers_along() {
    let mut world = World::new();
    let durable = SubscribeOut {
        id: Some("d"),
        destination: "/topic/a",
        headers: &[("durable", "true")],
        ..SubscribeOut::default()
    };
    let (one, two) = (world.connect(), world.connect());
    world.subscribe(one, &durable);
    world.subscribe(two, &durable);
    world.unsubscribe(one, "d", &[("durable", "true")]);
    let (message, body) = world.hears_error(two, None);
    assert_eq!(message, "Server cancelled subscription");
    assert!(body.contains("/topic/a"), "{body}");
    assert!(!world.is_closed(one));
}

#[test]
fn the_first_message_waits_for_the_queue_that_was_deleted_meanwhile() {
    let mut world = World::new();
    let (sender, other) = (world.connect(), world.connect());
    let passing = SubscribeOut {
        id: Some("1"),
        destination: "/queue/q",
        headers: &[("auto-delete", "true"), ("durable", "false")],
        ..SubscribeOut::default()
    };
    world.subscribe(other, &passing);
    world.send(sender, "/queue/q", "1");
    assert_eq!(world.texts(other), ["1"]);
    world.unsubscribe(other, "1", &[]);
    world.send(sender, "/queue/q", "2");
    world.listen(other, "1", "/queue/q");
    assert_eq!(world.texts(other), ["2"], "the queue is made again by SEND");
}

#[test]
fn a_receipt_waits_until_the_message_is_safe() {
    let limits = Limits {
        journal: true,
        ..Limits::default()
    };
    let mut world = World::with(1, limits, StompSettings::default());
    let who = world.connect();
    world.send(who, "/queue/q", "the queue is there now");
    world.bed.is_disk_manual = true;
    let send = SendOut {
        destination: "/queue/q",
        receipt: Some("safe"),
        body: b"x",
        ..SendOut::default()
    };
    world.send_with(who, &send, |_| ());
    assert_eq!(world.heard(who), None, "nothing is safe yet");
    world.sync();
    world.rest();
    assert_eq!(world.heard(who), Some(ServerFrame::Receipt("safe".into())));
}

#[test]
fn the_receipt_of_a_subscription_comes_before_its_first_message() {
    for destination in ["/queue/q", "/topic/t"] {
        let mut world = World::new();
        let (sender, who) = (world.connect(), world.connect());
        world.send_headers(
            sender,
            destination,
            "m",
            &[("persistent", "true"), ("retain", "set")],
        );
        world.read(who, false);
        let subscribe = format!(
            "SUBSCRIBE\nid:1\ndestination:{destination}\nx-last-value:true\nreceipt:r\n\n\0"
        );
        world.writes(who, subscribe.as_bytes());
        let unread = String::from_utf8(world.unread(who)).expect("text");
        let commands: Vec<&str> = unread
            .split('\0')
            .filter_map(|frame| frame.trim_start().lines().next())
            .collect();
        assert_eq!(commands, ["RECEIPT", "MESSAGE"], "{destination}: {unread}");
    }
}

#[test]
fn the_receipt_of_a_read_comes_before_its_answer() {
    let mut world = World::new();
    let who = world.connect();
    world.read(who, false);
    world.writes(
        who,
        b"SUBSCRIBE\nid:1\ndestination:/topic/t\nx-last-value:only\nreceipt:r\n\n\0",
    );
    let unread = String::from_utf8(world.unread(who)).expect("text");
    assert!(
        unread.find("RECEIPT").expect("it comes") < unread.find("MESSAGE").expect("it comes"),
        "{unread}"
    );
}

#[test]
fn a_subscription_that_is_refused_has_no_receipt() {
    let mut world = World::new();
    let (one, two) = (world.connect(), world.connect());
    let only = SubscribeOut {
        id: Some("1"),
        destination: "/queue/q",
        headers: &[("activemq.exclusive", "true")],
        ..SubscribeOut::default()
    };
    world.subscribe(one, &only);
    world.refused(two, &only);
}

#[test]
fn truths_may_begin_with_a_capital() {
    let mut world = World::new();
    let (one, two) = (world.connect(), world.connect());
    let named = |id: &'static str| SubscribeOut {
        id: Some(id),
        destination: "/topic/t",
        headers: &[("durable", "True"), ("auto-delete", "False")],
        ..SubscribeOut::default()
    };
    world.subscribe(one, &named("d"));
    world.lose(one);
    world.send_headers(two, "/topic/t", "kept", &[("persistent", "True")]);
    world.subscribe(two, &named("d"));
    let got = world.message(two);
    assert_eq!(
        (got.text(), got.header("persistent")),
        ("kept", Some("true"))
    );
    let wrong = SubscribeOut {
        id: Some("w"),
        headers: &[("durable", "yes")],
        ..named("w")
    };
    let (_, body) = world.refused(two, &wrong);
    assert!(body.contains("header 'durable' is 'yes'"), "{body}");
}

#[test]
fn a_persistent_subscription_is_a_durable_one() {
    let mut world = World::new();
    let (one, two) = (world.connect(), world.connect());
    let persistent = SubscribeOut {
        id: Some("d"),
        destination: "/topic/t",
        headers: &[("persistent", "true")],
        ..SubscribeOut::default()
    };
    world.subscribe(one, &persistent);
    world.lose(one);
    world.send(two, "/topic/t", "kept");
    world.subscribe(two, &persistent);
    assert_eq!(world.texts(two), ["kept"]);
    world.unsubscribe(two, "d", &[("persistent", "true")]);
    world.send(two, "/topic/t", "nobody's");
    world.subscribe(two, &persistent);
    assert_eq!(
        world.texts(two),
        [""; 0],
        "UNSUBSCRIBE has deleted its queue"
    );
}
