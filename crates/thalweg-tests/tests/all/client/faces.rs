//! The async interface with and without a runtime, and its common parts with the blocking one.

use std::sync::Arc;
use std::time::Duration;

use thalweg_client::blocking::wait;
use thalweg_client::{Client, ClientError, Options, Reliability, SubscribeOptions, Success};

use super::{PATIENCE, connect, subscribe, take};
use crate::broker::Broker;

#[test]
fn futures_need_no_runtime() {
    let broker = Broker::start();
    let url = format!("mqtt://{}", broker.mqtt());
    wait(async {
        let client = Client::builder()
            .broker(&url)
            .expect("a URL")
            .connect()
            .expect("it starts");
        let mut heard = client
            .subscribe("a/#", SubscribeOptions::default())
            .await
            .expect("it is confirmed");
        assert_eq!(
            client.publish("a/b", b"1", &Options::default()).await,
            Ok(Success::Acknowledged)
        );
        assert_eq!(
            heard.next().await.expect("it was published").payload(),
            b"1"
        );
        client
            .flush(PATIENCE)
            .await
            .expect("nothing is outstanding");
        client
            .close(PATIENCE)
            .await
            .expect("nothing is outstanding");
        assert_eq!(heard.next().await, None);
    });
}

#[test]
fn a_burst_at_most_once_is_there_for_who_takes_it_later() {
    let broker = Broker::start();
    let url = format!("mqtt://{}", broker.mqtt());
    let client = connect(&[&url]);
    let wish = SubscribeOptions {
        reliability: Reliability::AtMostOnce,
        ..SubscribeOptions::default()
    };
    let mut heard = client
        .subscribe_timeout("burst/#", wish, PATIENCE)
        .expect("it is confirmed");
    let options = Options {
        reliability: Reliability::AtMostOnce,
        ..Options::default()
    };
    for number in 0..3_000 {
        client
            .publish("burst/a", number.to_string().as_bytes(), &options)
            .expect("there is room");
    }
    // Behind them on the same connection: when this one is acknowledged the broker has had all of them.
    client
        .publish("burst/end", b"3000", &Options::default())
        .expect("there is room");
    client.flush(PATIENCE).expect("nothing is outstanding");
    let numbers: Vec<u32> = take(&mut heard, 3_001)
        .iter()
        .map(|text| text.parse().expect("a number"))
        .collect();
    assert_eq!(numbers, (0..=3_000).collect::<Vec<_>>());
    assert_eq!(client.status().expect("it runs").counts.receive_dropped, 0);
}

#[test]
fn in_tokio_many_tasks_publish_at_once() {
    let broker = Broker::start();
    let url = format!("mqtt://{}", broker.mqtt());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let client = Client::builder()
            .broker(&url)
            .expect("a URL")
            .connect()
            .expect("it starts");
        let mut heard = client
            .subscribe("t/+", SubscribeOptions::default())
            .await
            .expect("it is confirmed");
        let tasks: Vec<_> = (0..20)
            .map(|task| {
                let client = client.clone();
                tokio::spawn(async move {
                    for number in 0..10 {
                        let payload = format!("{task} {number}");
                        let success = client
                            .publish(
                                &format!("t/{task}"),
                                payload.as_bytes(),
                                &Options::default(),
                            )
                            .await;
                        assert_eq!(success, Ok(Success::Acknowledged));
                    }
                })
            })
            .collect();
        let mut next = [0; 20];
        for _ in 0..200 {
            let message = tokio::time::timeout(PATIENCE, heard.next())
                .await
                .expect("in time")
                .expect("a message");
            let text = String::from_utf8_lossy(message.payload()).into_owned();
            let (task, number) = text.split_once(' ').expect("two numbers");
            let task: usize = task.parse().expect("a number");
            assert_eq!(number, next[task].to_string(), "order of task {task}");
            next[task] += 1;
        }
        for task in tasks {
            task.await.expect("no panic");
        }
    });
}

#[test]
fn a_full_buffer_refuses_and_who_waits_gets_room() {
    let broker = Broker::start();
    let limits = thalweg_client::BufferSettings {
        messages_max: 10,
        ..Default::default()
    };
    // Nobody listens at the port of a listener that is not there.
    let nowhere = crate::broker::free_port();
    let client = super::builder(&[&format!("mqtt://{nowhere}")])
        .buffer(limits.clone())
        .connect_blocking()
        .expect("it starts");
    let tickets: Vec<_> = (0..10)
        .map(|_| {
            client
                .publish_message(b"x", "", "a", &Options::default())
                .expect("there is room for ten")
        })
        .collect();
    assert_eq!(
        client.publish_message(b"x", "", "a", &Options::default()),
        Err(ClientError::Full)
    );
    assert!(
        tickets
            .iter()
            .all(|ticket| client.is_publish_success(*ticket) == Success::Pending)
    );
    assert_eq!(client.close(Duration::ZERO), Err(ClientError::TimedOut));

    let url = format!("mqtt://{}", broker.mqtt());
    let client = super::builder(&[&url])
        .buffer(limits)
        .connect_blocking()
        .expect("it starts");
    let listener = connect(&[&url]);
    let mut heard = subscribe(&listener, "a");
    for number in 0..500 {
        client
            .give(format!("{number}").as_bytes(), "", "a", &Options::default())
            .expect("waits for room");
    }
    let wanted: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    assert_eq!(take(&mut heard, 500), wanted);
    client.flush(PATIENCE).expect("all were acknowledged");
    assert_eq!(client.status().expect("it runs").counts.acknowledged, 500);
}

#[test]
fn what_cannot_be_said_is_refused_at_once() {
    let client = connect(&[&format!("mqtt://{}", crate::broker::free_port())]);
    for topic in ["", "a/+", "#", "a\0", &"x".repeat(65_536)] {
        assert!(matches!(
            client.publish_message(b"", "", topic, &Options::default()),
            Err(ClientError::Invalid(_))
        ));
    }
    let large = vec![0; 17 << 20];
    assert!(matches!(
        client.publish_message(&large, "", "a", &Options::default()),
        Err(ClientError::TooLarge { .. })
    ));
    assert!(Client::builder().connect().is_err());
    assert!(Client::builder().broker("gopher://a").is_err());
}

#[test]
fn after_close_everything_says_so_and_nobody_hangs() {
    let client = connect(&[&format!("mqtt://{}", crate::broker::free_port())]);
    let waiting = {
        let client = client.clone();
        let ticket = client
            .publish_message(b"x", "", "a", &Options::default())
            .expect("there is room");
        std::thread::spawn(move || client.outcome(ticket, PATIENCE))
    };
    let asking = {
        let client = client.clone();
        std::thread::spawn(move || client.subscribe("a", SubscribeOptions::default()).map(drop))
    };
    assert_eq!(
        client.flush(Duration::from_millis(1)),
        Err(ClientError::TimedOut)
    );
    assert_eq!(client.close(Duration::ZERO), Err(ClientError::TimedOut));
    assert_eq!(client.close(Duration::ZERO), Ok(()));
    assert_eq!(waiting.join().expect("no panic"), Success::Unknown);
    assert_eq!(asking.join().expect("no panic"), Err(ClientError::Closed));
    assert_eq!(
        client.publish_message(b"x", "", "a", &Options::default()),
        Err(ClientError::Closed)
    );
    assert_eq!(client.status().map(drop), Err(ClientError::Closed));
}

#[test]
fn the_last_handle_ends_the_thread() {
    let broker = Broker::start();
    let client = connect(&[&format!("mqtt://{}", broker.mqtt())]);
    let name = "ends-the-thread";
    let mut heard = subscribe(&client, name);
    drop(client);
    // A subscription is a handle, too.
    let other = connect(&[&format!("mqtt://{}", broker.mqtt())]);
    assert_eq!(
        other.publish(name, b"1", &Options::default()),
        Ok(Success::Acknowledged)
    );
    assert_eq!(take(&mut heard, 1), ["1"]);
}

#[test]
fn threads_share_a_client_and_each_ones_messages_stay_in_order() {
    let broker = Broker::start();
    let client = Arc::new(connect(&[&format!("mqtt://{}", broker.mqtt())]));
    let mut heard = subscribe(&client, "order/+");
    let options = Options {
        reliability: Reliability::AtLeastOnce,
        ..Options::default()
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (client, options) = (client.clone(), options.clone());
            scope.spawn(move || {
                for number in 0..1_000 {
                    let payload = format!("{number}");
                    client
                        .give(payload.as_bytes(), "", &format!("order/{thread}"), &options)
                        .expect("there is room");
                }
            });
        }
        let mut next = [0; 4];
        for _ in 0..4_000 {
            let message = heard
                .next_timeout(PATIENCE)
                .expect("in time")
                .expect("it goes on");
            let thread: usize = message.topic()["order/".len()..].parse().expect("a number");
            assert_eq!(
                String::from_utf8_lossy(message.payload()),
                next[thread].to_string()
            );
            next[thread] += 1;
        }
    });
}
