//! Requests and answers across protocols: each asks by its own means, and each answers as its servers do, independently
//! of the requester. Above all an unmodified AMQP server answers an MQTT 5 requester.

use serde_json::json;
use thalweg_fronts::capabilities::{Aspect, Cell, expected};

use super::protocol::{Protocol, SPEAKERS, who_can};
use super::puppet::Library;
use super::speaker::{Place, Post, Seen, Speaker, broker};

fn ask_and_answer(
    asker: &Speaker,
    server: &Speaker,
    place: &Place,
    reply_to: String,
    correlation: &[u8],
) {
    let pair = format!("{asker:?} asks {server:?} with answers to {reply_to}");
    let question = Post {
        reply_to: Some(reply_to),
        correlation: Some(correlation.to_vec()),
        ..Post::new(format!("question of {pair}"))
    };
    asker.publish(place, &question);
    let seen: Seen = server.receive();
    assert_eq!(seen.payload, question.payload, "{pair}");
    assert_eq!(
        seen.correlation.as_deref(),
        Some(correlation),
        "{pair}: {seen:?}"
    );
    let answer = Post::new(format!("answer for {pair}"));
    server.answer(&seen, &answer);
    let heard = asker.receive();
    assert_eq!(
        String::from_utf8_lossy(&heard.payload),
        String::from_utf8_lossy(&answer.payload),
        "{pair}: {seen:?}"
    );
    assert_eq!(
        heard.correlation.as_deref(),
        Some(correlation),
        "{pair}: {heard:?}"
    );
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn whoever_can_ask_is_answered_by_whoever_can_answer() {
    let Some(broker) = broker() else { return };
    let can = |protocol: Protocol| protocol.capabilities().reply_to.is_some();
    let speakers = || SPEAKERS.into_iter().filter(|(protocol, _)| can(*protocol));
    let servers: Vec<(Place, Speaker)> = speakers()
        .enumerate()
        .map(|(number, who)| {
            (
                Place::plain(&format!("service/{number}")),
                Speaker::open(&broker, who),
            )
        })
        .collect();
    servers
        .iter()
        .for_each(|(place, server)| server.subscribe(place, false));
    for (number, who) in speakers().enumerate() {
        let asker = Speaker::open(&broker, who);
        let reply_to = asker.answers(&format!("of{number}"));
        for (place, server) in &servers {
            let cell = expected(
                asker.protocol.capabilities(),
                server.protocol.capabilities(),
                Aspect::Reply,
            );
            assert!(
                matches!(cell, Cell::Exact | Cell::Rule(_)),
                "{asker:?} {server:?}: {cell:?}"
            );
            ask_and_answer(&asker, server, place, reply_to.clone(), b"first");
            ask_and_answer(
                &asker,
                server,
                place,
                reply_to.clone(),
                "zweite-ü".as_bytes(),
            );
        }
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_request_of_its_own_is_answered_by_whoever_can_answer() {
    let Some(broker) = broker() else { return };
    let servers = who_can(&SPEAKERS, |can| can.reply_to.is_some());
    let servers: Vec<(Place, Speaker)> = servers
        .enumerate()
        .map(|(number, who)| {
            (
                Place::plain(&format!("asked/{number}")),
                Speaker::open(&broker, who),
            )
        })
        .collect();
    servers
        .iter()
        .for_each(|(place, server)| server.subscribe(place, false));
    for who in who_can(&SPEAKERS, |can| can.request.is_some()) {
        let mut asker = Speaker::open(&broker, who);
        for (place, server) in &servers {
            // The library blocks until the answer, so another thread must give it.
            let there = place.clone();
            let asking = std::thread::spawn(move || {
                let answer = asker.request(&there, b"?");
                (asker, answer)
            });
            let seen = server.receive();
            assert_eq!(seen.payload, b"?", "{who:?} asks {server:?}");
            server.answer(&seen, &Post::new("!"));
            let (back, answer) = asking.join().expect("the library is answered");
            asker = back;
            assert_eq!(answer, b"!", "{asker:?} asks {server:?}");
        }
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn bytes_that_are_no_text_tie_an_answer_to_its_request() {
    let Some(broker) = broker() else { return };
    for server in [
        (Protocol::Mqtt5, Library::Mqttjs),
        (Protocol::Amqp, Library::Pika),
        (Protocol::Stomp, Library::StompPy),
    ] {
        let place = Place::plain(&format!("binary/{:?}", server.0));
        let server = Speaker::open(&broker, server);
        server.subscribe(&place, false);
        let asker = Speaker::open(&broker, (Protocol::Mqtt5, Library::PahoPython));
        let reply_to = asker.answers(&format!("{:?}", server.protocol));
        ask_and_answer(&asker, &server, &place, reply_to, &[0, 255, 1, 254]);
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn direct_reply_to_is_answered_by_every_protocol() {
    let Some(broker) = broker() else { return };
    let servers = [
        (Protocol::Mqtt5, Library::PahoPython),
        (Protocol::Amqp, Library::Amqp091Go),
        (Protocol::Stomp, Library::StompPy),
    ];
    for (number, who) in servers.into_iter().enumerate() {
        let place = Place::plain(&format!("direct/{number}"));
        let server = Speaker::open(&broker, who);
        server.subscribe(&place, false);
        for library in [Library::Pika, Library::Amqplib, Library::Amqp091Go] {
            let asker = Speaker::open(&broker, (Protocol::Amqp, library));
            let direct = "amq.rabbitmq.reply-to";
            asker.agent().tell(
                "consume",
                json!({ "queue": direct, "no_ack": true, "tag": "direct" }),
            );
            asker.agent().tell(
                "publish",
                json!({
                    "exchange": "amq.topic", "key": place.amqp, "payload": "3f", "same_channel": true,
                    "properties": { "reply_to": direct, "correlation_id": "7" },
                }),
            );
            let seen = server.receive();
            server.answer(&seen, &Post::new("!"));
            let heard = asker.receive();
            assert_eq!(
                (heard.payload, heard.correlation),
                (b"!".to_vec(), Some(b"7".to_vec())),
                "{asker:?} {server:?} {seen:?}"
            );
        }
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn topics_of_stomp_and_of_mqtt_take_answers() {
    let Some(broker) = broker() else { return };
    let server = Speaker::open(&broker, (Protocol::Amqp, Library::Pika));
    let place = Place::plain("topic/service");
    server.subscribe(&place, false);
    let asker = Speaker::open(&broker, (Protocol::Stomp, Library::StompPy));
    let answers = Place::plain("stomp/answers/1.5".replace('.', "-").as_str());
    asker.subscribe(&answers, false);
    ask_and_answer(&asker, &server, &place, answers.stomp.clone(), b"7");
    // The alias holds nothing of a connection: an answer that comes later, by another one, arrives, too.
    let requester = Speaker::open(&broker, (Protocol::Mqtt5, Library::PahoGo5));
    let reply_to = requester.answers("later");
    requester.publish(
        &place,
        &Post {
            reply_to: Some(reply_to),
            correlation: Some(b"8".to_vec()),
            ..Post::new("?")
        },
    );
    let seen = server.receive();
    server.cut();
    let other = Speaker::open(&broker, (Protocol::Amqp, Library::Amqplib));
    other.answer(&seen, &Post::new("late"));
    assert_eq!(requester.receive().payload, b"late");
}
