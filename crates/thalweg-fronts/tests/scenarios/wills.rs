//! Wills.

use crate::world::{Hello, World, staying};
use thalweg_model::Span;
use thalweg_mqtt::{PublishOut, QoS, WillOut};

fn with_will(delay_secs: u32) -> Hello<'static> {
    let message = PublishOut {
        qos: QoS::AtLeastOnce,
        topic: "will",
        payload: b"gone",
        ..PublishOut::default()
    };
    Hello {
        will: Some(WillOut {
            message,
            delay_secs,
        }),
        ..staying()
    }
}

#[test]
fn a_will_waits_for_its_delay_and_is_forgotten_when_the_session_goes_on() {
    let mut world = World::new(2);
    let watcher = world.connect("watcher");
    world.subscribe(watcher, "will", QoS::AtLeastOnce);
    let (client, _) = world.connect_with("c", &with_will(10));
    world.lose(client);
    world.wait(Span::from_secs(9));
    let (client, _) = world.connect_with("c", &with_will(10));
    world.wait(Span::from_secs(20));
    assert_eq!(world.texts(watcher), [""; 0], "the session went on in time");
    world.lose(client);
    world.wait(Span::from_secs(9));
    assert_eq!(world.texts(watcher), [""; 0]);
    world.wait(Span::from_secs(2));
    assert_eq!(world.texts(watcher), ["gone"]);
}

#[test]
fn a_good_bye_takes_the_will_back() {
    let mut world = World::new(1);
    let watcher = world.connect("watcher");
    world.subscribe(watcher, "will", QoS::AtLeastOnce);
    let (client, _) = world.connect_with("c", &with_will(0));
    world.leave(client);
    world.wait(Span::from_secs(20));
    assert_eq!(world.texts(watcher), [""; 0]);
}

#[test]
fn the_end_of_the_session_does_not_wait_for_the_will_delay() {
    let mut world = World::new(2);
    let watcher = world.connect("watcher");
    world.subscribe(watcher, "will", QoS::AtLeastOnce);
    let (client, _) = world.connect_with(
        "c",
        &Hello {
            expiry_secs: 5,
            ..with_will(1000)
        },
    );
    world.lose(client);
    world.wait(Span::from_secs(6));
    assert_eq!(world.texts(watcher), ["gone"]);
    let (client, _) = world.connect_with("c", &with_will(1000));
    // A clean start ends the session that was there. [MQTT-3.1.3-9]
    world.connect_with("c", &Hello::default());
    assert!(world.is_closed(client));
    assert_eq!(world.texts(watcher), ["gone"]);
}

#[test]
fn a_takeover_publishes_a_will_without_delay() {
    let mut world = World::new(1);
    let watcher = world.connect("watcher");
    world.subscribe(watcher, "will", QoS::AtLeastOnce);
    world.connect_with("c", &with_will(0));
    world.connect_with("c", &staying());
    assert_eq!(world.texts(watcher), ["gone"]);
}
