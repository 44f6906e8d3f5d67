//! Requirements between any two protocols of one broker; `amqp.rs` and `stomp.rs` list the pairs.

use std::time::Duration;

use thalweg_client::blocking::Client;
use thalweg_client::{ClientError, Options, Reliability, Retain, SubscribeOptions, Success};

use super::{PATIENCE, builder, connect, subscribe, take};

/// Properties of a message reach the subscriber, whatever the protocols.
pub(super) fn what_is_said_comes_along(publisher: &str, listener: &str) {
    let (publisher, listener) = (connect(&[publisher]), connect(&[listener]));
    let mut heard = subscribe(&listener, "plant/+/temperature/#");
    let options = Options {
        content_type: Some("application/json".to_owned()),
        properties: vec![
            ("room".to_owned(), "12".to_owned()),
            ("a: b\\c".to_owned(), "d\ne".to_owned()),
        ],
        lifespan: Some(Duration::from_secs(60)),
        priority: 7,
        correlation: Some(b"7".to_vec()),
        reply_to: Some("answers/1.a".to_owned()),
        ..Options::default()
    };
    let payload = b"{\"t\": 21.5}\0\n";
    assert_eq!(
        publisher.publish("plant/1/temperature/x.y", payload, &options),
        Ok(Success::Acknowledged)
    );
    let message = heard
        .next_timeout(PATIENCE)
        .expect("it goes on")
        .expect("it comes");
    assert_eq!(
        (message.topic(), message.payload()),
        ("plant/1/temperature/x.y", &payload[..])
    );
    assert_eq!(message.content_type(), Some("application/json"));
    let mut properties: Vec<_> = message.properties().collect();
    properties.sort_unstable();
    assert_eq!(properties, [("a: b\\c", "d\ne"), ("room", "12")]);
    assert_eq!(
        (message.correlation(), message.reply_to()),
        (Some(&b"7"[..]), Some("answers/1.a"))
    );
}

/// Levels with everything that means something in one of the protocols.
pub(super) fn topics_survive(publisher: &str, listener: &str) {
    let (publisher, listener) = (connect(&[publisher]), connect(&[listener]));
    let mut heard = subscribe(&listener, "odd/#");
    for topic in [
        "odd/1.5",
        "odd/a b/ä",
        "odd/100%",
        "odd/%2E/%25",
        "odd/a%2Fb",
        "odd/*/>",
        "odd//x/",
        "odd/a:b\\c",
    ] {
        assert_eq!(
            publisher.publish(topic, b"x", &Options::default()),
            Ok(Success::Acknowledged),
            "{topic}"
        );
        let message = heard
            .next_timeout(PATIENCE)
            .expect("it goes on")
            .expect("it comes");
        assert_eq!(message.topic(), topic);
    }
}

pub(super) fn questions_are_answered(asker: &str, answerer: &str) {
    let (asker, answerer) = (connect(&[asker]), connect(&[answerer]));
    let mut questions = subscribe(&answerer, "ask/#");
    let answering = std::thread::spawn(move || {
        for _ in 0..3 {
            let question = questions
                .next_timeout(PATIENCE)
                .expect("it goes on")
                .expect("it comes");
            let to = question.reply_to().expect("an answer is wanted").to_owned();
            let correlation = question.correlation().map(<[u8]>::to_vec);
            let options = Options {
                correlation,
                reliability: Reliability::AtMostOnce,
                ..Options::default()
            };
            answerer
                .publish(&to, &[question.payload(), b"!"].concat(), &options)
                .expect("it goes");
        }
        answerer.flush(PATIENCE).expect("it has left");
    });
    for payload in [b"one", b"two", b"3.0"] {
        let answer = asker
            .request("ask/me", payload, &Options::default(), PATIENCE)
            .expect("it is answered");
        assert_eq!(answer.payload(), [&payload[..], b"!"].concat());
    }
    answering.join().expect("it answered");
}

/// Members of one group by these ways get everything, each message once.
pub(super) fn a_group_shares(publisher: &str, members: &[&str]) {
    let publisher = connect(&[publisher]);
    let clients: Vec<Client> = members.iter().map(|url| connect(&[url])).collect();
    let mut members: Vec<_> = clients
        .iter()
        .map(|client| subscribe(client, "$share/crew/jobs/+"))
        .collect();
    for number in 0..200_u32 {
        let payload = number.to_string();
        publisher
            .give(payload.as_bytes(), "", "jobs/x", &Options::default())
            .expect("there is room");
    }
    let mut came: Vec<u32> = Vec::new();
    let mut shares = vec![0; members.len()];
    while came.len() < 200 {
        for (member, share) in members.iter_mut().zip(&mut shares) {
            assert_eq!(member.ended(), None);
            // Whoever has none just now lets the others go on.
            while let Ok(Some(message)) = member.next_timeout(Duration::from_millis(10)) {
                came.push(
                    std::str::from_utf8(message.payload())
                        .expect("digits")
                        .parse()
                        .expect("a number"),
                );
                *share += 1;
            }
        }
    }
    came.sort_unstable();
    assert_eq!(came, (0..200).collect::<Vec<u32>>());
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
}

/// Messages published while a client with a session is away wait for it.
pub(super) fn sessions_keep_what_comes(url: &str, publisher: &str) {
    let publisher = connect(&[publisher]);
    let start = || {
        let session = builder(&[url])
            .client_id("pump-7")
            .session(Duration::from_secs(60));
        session
            .connect_blocking()
            .expect("a client starts without a network")
    };
    let client = start();
    let mut heard = subscribe(&client, "kept/#");
    assert_eq!(
        publisher.publish("kept/a", b"1", &Options::default()),
        Ok(Success::Acknowledged)
    );
    assert_eq!(take(&mut heard, 1), ["1"]);
    client.close(PATIENCE).expect("nothing is outstanding");
    drop(heard);
    assert_eq!(
        publisher.publish("kept/a", b"2", &Options::default()),
        Ok(Success::Acknowledged)
    );
    let client = start();
    let mut heard = subscribe(&client, "kept/#");
    let mut came = take(&mut heard, 1);
    if came == ["1"] {
        // The client was closed before its settlement reached the broker.
        came = take(&mut heard, 1);
    }
    assert_eq!(came, ["2"]);
}

/// A last value set over one protocol is the first message of a subscriber over another.
pub(super) fn last_values_come_first(publisher: &str, listener: &str) {
    let (publisher, listener) = (connect(&[publisher]), connect(&[listener]));
    let keep = Options {
        retain: Retain::Set,
        ..Options::default()
    };
    assert_eq!(
        publisher.publish("room/a", b"21.5", &keep),
        Ok(Success::Acknowledged)
    );
    let mut heard = listener
        .subscribe_timeout("room/+", SubscribeOptions::default(), PATIENCE)
        .expect("it can be had");
    assert_eq!(take(&mut heard, 1), ["21.5"]);
    let forget = Options {
        retain: Retain::Clear,
        ..Options::default()
    };
    assert_eq!(
        publisher.publish("room/a", b"", &forget),
        Ok(Success::Acknowledged)
    );
}

/// Last values are read by themselves, and that there is none is an answer, wherever their homes are.
pub(super) fn last_values_are_read(publisher: &str, reader: &str) {
    let (publisher, reader) = (connect(&[publisher]), connect(&[reader]));
    let how = Options {
        content_type: Some("text/plain".into()),
        retain: Retain::Set,
        ..Options::default()
    };
    for topic in [
        "read/a",
        "read/b.c",
        "read/d e",
        "read/100%",
        "g",
        "read//h",
    ] {
        assert_eq!(reader.last_value(topic), Ok(None), "{topic}");
        // A message that is not retained is no last value, even if it comes right now.
        assert_eq!(
            publisher.publish(topic, b"0", &Options::default()),
            Ok(Success::Acknowledged)
        );
        assert_eq!(reader.last_value(topic), Ok(None), "{topic}");
        assert_eq!(
            publisher.publish(topic, b"21.5", &how),
            Ok(Success::Acknowledged)
        );
        let value = reader
            .last_value(topic)
            .expect("it is answered")
            .expect("there is one");
        assert_eq!(
            (value.topic(), value.payload(), value.is_last_value()),
            (topic, &b"21.5"[..], true)
        );
        assert_eq!(value.content_type(), Some("text/plain"));
        let properties: Vec<_> = value
            .properties()
            .filter(|(name, _)| *name != "x-retain")
            .collect();
        assert!(properties.is_empty(), "{properties:?}");
        let forget = Options {
            retain: Retain::Clear,
            ..Options::default()
        };
        assert_eq!(
            publisher.publish(topic, b"", &forget),
            Ok(Success::Acknowledged)
        );
        assert_eq!(reader.last_value(topic), Ok(None), "{topic}");
    }
    assert!(matches!(
        reader.last_value("$q/work"),
        Err(ClientError::Refused(_)) | Ok(None)
    ));
    // Several at once, each with its own answer.
    for topic in 0..8 {
        assert_eq!(
            publisher.publish(&format!("read/{topic}"), topic.to_string().as_bytes(), &how),
            Ok(Success::Acknowledged)
        );
    }
    let readers: Vec<_> = (0..12_u32)
        .map(|topic| {
            let reader = reader.clone();
            std::thread::spawn(move || (topic, reader.last_value(&format!("read/{topic}"))))
        })
        .collect();
    for reader in readers {
        let (topic, value) = reader.join().expect("no panic");
        let payload = value
            .expect("it is answered")
            .map(|value| value.payload().to_vec());
        assert_eq!(payload, (topic < 8).then(|| topic.to_string().into_bytes()));
    }
}

/// Published over two ways, exactly once: each message has its stamp, and comes once and in order.
pub(super) fn stamps_come_along(ways: &[&str], listener: &str) {
    let (publisher, listener) = (connect(ways), connect(&[listener]));
    let mut heard = subscribe(&listener, "stamped");
    let surely = Options {
        reliability: Reliability::ExactlyOnce,
        ..Options::default()
    };
    for number in 0..100_u32 {
        publisher
            .give(number.to_string().as_bytes(), "", "stamped", &surely)
            .expect("there is room");
    }
    publisher.flush(PATIENCE).expect("everything arrives");
    let mut stamps = Vec::new();
    for number in 0..100_u32 {
        let message = heard
            .next_timeout(PATIENCE)
            .expect("it goes on")
            .expect("it comes");
        assert_eq!(message.payload(), number.to_string().as_bytes());
        stamps.push(message.stamp().expect("it was stamped"));
    }
    let (first, last) = (stamps[0], stamps[99]);
    assert!(
        stamps
            .iter()
            .all(|stamp| stamp.publisher == first.publisher)
    );
    assert!(
        stamps.is_sorted() && last.sequence - first.sequence == 99,
        "{first} to {last}"
    );
}

/// One of several messages is not allowed: it fails, and the others arrive in order.
pub(super) fn what_is_forbidden_fails_alone(url: &str) {
    let (publisher, listener) = (connect(&[url]), connect(&[url]));
    let mut heard = subscribe(&listener, "fine/+");
    let topics = ["fine/1", "fine/2", "secret/plans", "fine/3", "fine/4"];
    let tickets: Vec<_> = topics
        .iter()
        .map(|topic| {
            publisher
                .give(topic.as_bytes(), "", topic, &Options::default())
                .expect("there is room")
        })
        .collect();
    let outcomes: Vec<Success> = tickets
        .into_iter()
        .map(|ticket| publisher.outcome(ticket, PATIENCE))
        .collect();
    let [yes, no] = [Success::Acknowledged, Success::Failed];
    assert_eq!(outcomes, [yes, yes, no, yes, yes]);
    let mut came = Vec::new();
    while came.len() < 4 {
        for topic in take(&mut heard, 1) {
            // Messages after the forbidden one may have been accepted before, and were sent again.
            if !came.contains(&topic) {
                came.push(topic);
            }
        }
    }
    assert_eq!(came, ["fine/1", "fine/2", "fine/3", "fine/4"]);
    let refused = publisher.subscribe_timeout("secret/#", SubscribeOptions::default(), PATIENCE);
    assert!(refused.is_err(), "it may not be read either");
}
