//! Each protocol over each of its transports: its messages reach an MQTT client, and the other way round.

use thalweg_client::blocking::Client;
use thalweg_client::{Options, Reliability, Retain, Success, TlsFiles};

use super::{PATIENCE, builder, connect, subscribe, take};
use crate::broker::Broker;

/// Publishes by `client` and listens by MQTT, then the other way round.
fn both_directions(broker: &Broker, client: &Client) {
    let other = connect(&[&format!("mqtt://{}", broker.mqtt())]);
    for (publisher, listener) in [(client, &other), (&other, client)] {
        let mut heard = subscribe(listener, "plant/1/temperature");
        for reliability in [
            Reliability::AtMostOnce,
            Reliability::AtLeastOnce,
            Reliability::ExactlyOnce,
        ] {
            let options = Options {
                reliability,
                ..Options::default()
            };
            for number in 0..5 {
                let ticket = publisher
                    .publish_message(
                        number.to_string().as_bytes(),
                        "",
                        "plant/1/temperature",
                        &options,
                    )
                    .expect("there is room");
                let wanted = match reliability {
                    Reliability::AtMostOnce => Success::Unknown,
                    _ => Success::Acknowledged,
                };
                assert_eq!(
                    publisher.outcome(ticket, PATIENCE),
                    wanted,
                    "{reliability:?}"
                );
                assert_eq!(publisher.is_publish_success(ticket), wanted);
                assert_eq!(take(&mut heard, 1), [number.to_string()], "{reliability:?}");
            }
        }
        heard.unsubscribe();
    }
    client.close(PATIENCE).expect("nothing is outstanding");
}

#[test]
fn mqtt_5_and_3_1_1_over_tcp() {
    let broker = Broker::start();
    for version in [5, 4] {
        let url = format!("mqtt://{}", broker.mqtt());
        both_directions(
            &broker,
            &builder(&[&url])
                .mqtt_version(version)
                .connect_blocking()
                .expect("it starts"),
        );
    }
}

#[test]
fn mqtt_over_websocket() {
    let broker = Broker::start();
    both_directions(
        &broker,
        &connect(&[&format!("ws://{}/mqtt", broker.websocket())]),
    );
}

#[test]
fn mqtt_over_tls_and_websocket_over_tls() {
    let broker = Broker::with().encrypted().start();
    for url in [
        format!("mqtts://localhost:{}", broker.tls().port()),
        format!("wss://localhost:{}/mqtt", broker.secure_websocket().port()),
    ] {
        let files = TlsFiles {
            ca: Some(broker.authority()),
            ..TlsFiles::default()
        };
        both_directions(
            &broker,
            &builder(&[&url])
                .tls(files)
                .connect_blocking()
                .expect("it starts"),
        );
    }
}

#[test]
fn mqtt_over_a_unix_socket() {
    let broker = Broker::with()
        .set("listeners.local.transport", "unix")
        .set("listeners.local.bind", "{folder}/broker.sock")
        .start_for_queues();
    let Some(broker) = broker else { return };
    let path = broker.folder().join("broker.sock");
    both_directions(&broker, &connect(&[&format!("unix://{}", path.display())]));
    both_directions(&broker, &connect(&[&path.display().to_string()]));
}

#[test]
fn coap_over_udp_and_tcp() {
    let Some(broker) = Broker::with().coap().start_for_queues() else {
        return;
    };
    for scheme in ["coap", "coap+tcp"] {
        both_directions(
            &broker,
            &connect(&[&format!("{scheme}://{}", broker.coap())]),
        );
    }
}

#[test]
fn amqp_and_stomp() {
    let Some(broker) = Broker::with().queues().start_for_queues() else {
        return;
    };
    for url in [
        format!("amqp://{}", broker.amqp()),
        format!("stomp://{}", broker.stomp()),
        format!("stomp+ws://{}", broker.stomp_websocket()),
    ] {
        both_directions(&broker, &connect(&[&url]));
    }
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_in_words() {
    let broker = Broker::with().encrypted().start();
    let client = connect(&[&format!("mqtts://localhost:{}", broker.tls().port())]);
    let ticket = client
        .publish_message(b"secret", "", "a", &Options::default())
        .expect("there is room");
    let trouble = loop {
        let status = client.status().expect("it runs");
        assert_eq!(client.is_publish_success(ticket), Success::Pending);
        match status.lanes.first().map(|lane| lane.trouble.clone()) {
            Some(trouble) if !trouble.is_empty() => break trouble,
            _ => std::thread::yield_now(),
        }
    };
    assert!(trouble.contains("certificate"), "{trouble}");
}

#[test]
fn last_values_and_questions() {
    let Some(broker) = Broker::with().coap().start_for_queues() else {
        return;
    };
    let mqtt = connect(&[&format!("mqtt://{}", broker.mqtt())]);
    let coap = connect(&[&format!("coap://{}", broker.coap())]);
    let retained = Options {
        retain: Retain::Set,
        ..Options::default()
    };
    assert_eq!(
        mqtt.publish("room/a", b"21.5", &retained),
        Ok(Success::Acknowledged)
    );
    for client in [&mqtt, &coap] {
        let value = client
            .last_value("room/a")
            .expect("it is answered")
            .expect("there is one");
        assert_eq!(
            (value.topic(), value.payload(), value.is_last_value()),
            ("room/a", &b"21.5"[..], true)
        );
        assert_eq!(client.last_value("room/b"), Ok(None));
    }

    let worker = connect(&[&format!("mqtt://{}", broker.mqtt())]);
    let mut questions = subscribe(&worker, "double");
    let answering = std::thread::spawn(move || {
        let question = questions.next().expect("somebody asks");
        let number: u32 = String::from_utf8_lossy(question.payload())
            .parse()
            .expect("a number is asked");
        let options = Options {
            correlation: question.correlation().map(<[u8]>::to_vec),
            ..Options::default()
        };
        let reply_to = question
            .reply_to()
            .expect("a question says where its answer goes");
        worker.publish(reply_to, (number * 2).to_string().as_bytes(), &options)
    });
    let answer = mqtt
        .request("double", b"21", &Options::default(), PATIENCE)
        .expect("it is answered");
    assert_eq!(answer.payload(), b"42");
    assert_eq!(
        answering.join().expect("no panic"),
        Ok(Success::Acknowledged)
    );
}

#[test]
fn another_broker_is_a_url_away() {
    let (near, far) = (Broker::start(), Broker::start());
    let client = connect(&[&format!("mqtt://{}", near.mqtt())]);
    let listener = connect(&[&format!("mqtt://{}", far.mqtt())]);
    let mut heard = subscribe(&listener, "a");
    let destination = format!("mqtt://{}", far.mqtt());
    let ticket = client
        .publish_message(b"hello", &destination, "a", &Options::default())
        .expect("there is room");
    assert_eq!(client.outcome(ticket, PATIENCE), Success::Acknowledged);
    assert_eq!(take(&mut heard, 1), ["hello"]);
    assert!(
        client
            .publish_message(b"hello", "http://nowhere", "a", &Options::default())
            .is_err()
    );
}
