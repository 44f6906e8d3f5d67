//! Addresses that keep several messages: what XMPP shows of them, what others see, and what is there after a restart.

use crate::peer::{Place, Protocol, Stage};
use thalweg_kernel::access::Access;
use thalweg_kernel::{LastValueRule, Limits, Policy};
use thalweg_model::{Filter, Span};
use thalweg_mqtt::{ConnectOut, PublishOut, QoS, SubscribeOptions, WillOut};
use thalweg_testbed::disk::Loss;
use thalweg_testbed::mqtt::Mqtt;
use thalweg_testbed::xmpp::{SERVICE, Xmpp};
use thalweg_testbed::{Settings, Who};

const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";

fn policies(depth: u16, last_value: Option<LastValueRule>) -> std::sync::Arc<[Policy]> {
    let policy = Policy {
        last_value_depth: Some(depth),
        last_value,
        ..Policy::new(Filter::new("a/#").expect("a filter"))
    };
    [policy].into()
}

fn limits(depth: u16) -> Limits {
    Limits {
        journal: true,
        policies: policies(depth, None),
        ..Limits::default()
    }
}

fn stage(shards: u16, limits: Limits) -> Stage {
    Stage::with(Settings {
        shards,
        limits,
        ..Settings::default()
    })
}

fn retain(stage: &mut Stage, who: Who<Mqtt>, topic: &str, payload: &str) {
    send(stage, who, topic, payload, true);
}

fn send(stage: &mut Stage, who: Who<Mqtt>, topic: &str, payload: &str, retain: bool) {
    let publish = PublishOut {
        topic,
        payload: payload.as_bytes(),
        retain,
        qos: QoS::AtLeastOnce,
        ..PublishOut::default()
    };
    stage
        .bed
        .says(who, |client, up| client.publish(&publish, up));
}

/// What a new subscriber of MQTT gets.
fn last_value(stage: &mut Stage, topic: &str) -> Vec<String> {
    let who = stage.bed.mqtt("later");
    stage.bed.says(who, |client, up| {
        client.subscribe(topic, SubscribeOptions::default(), up);
    });
    let got = stage.bed.client(who).got.drain(..);
    let bodies = got.map(|message| String::from_utf8_lossy(&message.payload).into_owned());
    let bodies = bodies.collect();
    stage.bed.lose(who);
    bodies
}

fn text(body: &str) -> String {
    format!("<text xmlns='urn:thalweg:payload:0'>{body}</text>")
}

fn publish(stage: &mut Stage, who: Who<Xmpp>, item: &str) {
    let answer = stage.bed.xmpp_publish(who, "a/b", item, &text(item));
    assert!(answer.contains("type='result'"), "{answer}");
}

fn retract(stage: &mut Stage, who: Who<Xmpp>, item: &str) -> String {
    let action = format!("<retract node='a/b'><item id='{item}'/></retract>");
    stage.bed.xmpp_pubsub(who, "set", &action)
}

/// Names and bodies of the items that a request is answered with.
fn asked(stage: &mut Stage, who: Who<Xmpp>, request: &str) -> Vec<(String, String)> {
    let answer = stage.bed.xmpp_pubsub(who, "get", request);
    assert!(answer.contains("type='result'"), "{answer}");
    let items = answer.split("<item id='").skip(1).map(|item| {
        let (name, rest) = item.split_once('\'').expect("a name");
        let (_, rest) = rest.split_once("payload:0'>").expect("text");
        let body = rest.split_once('<').expect("its end").0;
        (name.to_owned(), body.to_owned())
    });
    items.collect()
}

/// The bodies of a node's items.
fn items(stage: &mut Stage) -> Vec<String> {
    let who = stage.bed.xmpp();
    let all = asked(stage, who, "<items node='a/b'/>");
    stage.bed.lose(who);
    all.into_iter().map(|(_, body)| body).collect()
}

#[test]
fn a_node_keeps_as_many_items_as_the_policy_says() {
    for shards in [1, 3] {
        let mut stage = stage(shards, limits(3));
        let (who, reader) = (stage.bed.xmpp(), stage.bed.xmpp());
        stage.bed.xmpp_subscribe(reader, "a/b");
        for item in ["i1", "i2", "i3", "i4", "i5"] {
            publish(&mut stage, who, item);
            stage.bed.xmpp_publish(who, "elsewhere", item, &text(item));
        }
        stage.bed.xmpp_got(reader);
        assert_eq!(items(&mut stage), ["i3", "i4", "i5"], "{shards}");
        assert_eq!(asked(&mut stage, who, "<items node='elsewhere'/>").len(), 1);
        let names = |all: Vec<(String, String)>| all.into_iter().map(|(name, _)| name);
        let newest = asked(&mut stage, who, "<items node='a/b' max_items='2'/>");
        assert_eq!(Vec::from_iter(names(newest)), ["i4", "i5"]);
        let one = asked(&mut stage, who, "<items node='a/b'><item id='i4'/></items>");
        assert_eq!(Vec::from_iter(names(one)), ["i4"]);
        let query = "<query xmlns='http://jabber.org/protocol/disco#items' node='a/b'/>";
        let listed = stage.bed.xmpp_ask(who, "get", SERVICE, query);
        assert_eq!(listed.matches("name='i").count(), 3, "{listed}");

        // One of the same name takes its place, as the newest.
        let answer = stage.bed.xmpp_publish(who, "a/b", "i4", &text("again"));
        assert!(answer.contains("type='result'"), "{answer}");
        assert_eq!(items(&mut stage), ["i3", "i5", "again"]);
        assert_eq!(last_value(&mut stage, "a/b"), ["again"]);

        // An earlier one is retracted; the last value stays.
        stage.bed.xmpp_got(reader);
        assert!(retract(&mut stage, who, "i1").contains("<item-not-found"));
        assert!(retract(&mut stage, who, "i3").contains("type='result'"));
        let told = stage.bed.xmpp_got(reader);
        assert!(
            told.len() == 1 && told[0].contains("<retract id='i3'/>"),
            "{told:?}"
        );
        assert_eq!(items(&mut stage), ["i5", "again"]);
        assert_eq!(last_value(&mut stage, "a/b"), ["again"]);
        // The last value itself; what was before it does not become it again.
        assert!(retract(&mut stage, who, "i4").contains("type='result'"));
        assert_eq!(items(&mut stage), ["i5"]);
        assert_eq!(last_value(&mut stage, "a/b"), [""; 0]);
        publish(&mut stage, who, "i6");
        assert_eq!(items(&mut stage), ["i5", "i6"]);

        // What MQTT retains is among them, and an empty message ends all.
        let sensor = stage.bed.mqtt("sensor");
        retain(&mut stage, sensor, "a/b", "v1");
        stage.bed.run_for(Span::from_millis(10));
        retain(&mut stage, sensor, "a/b", "v2");
        let all = asked(&mut stage, who, "<items node='a/b'/>");
        let bodies: Vec<&str> = all.iter().map(|(_, body)| &**body).collect();
        assert_eq!(bodies, ["i6", "v1", "v2"]);
        assert!(
            all[1].0.starts_with("current-") && all[2].0 == "current",
            "{all:?}"
        );
        assert!(retract(&mut stage, who, "current").contains("type='result'"));
        assert_eq!(items(&mut stage), ["i6", "v1"]);
        retain(&mut stage, sensor, "a/b", "");
        assert_eq!(items(&mut stage), [""; 0]);
        let kept = |stage: &Stage| stage.bed.total(|totals| totals.kept_messages);
        assert_eq!(kept(&stage), 0);
        publish(&mut stage, who, "i7");
        let purge = format!("<pubsub xmlns='{OWNER}'><purge node='a/b'/></pubsub>");
        stage.bed.xmpp_ask(who, "set", SERVICE, &purge);
        assert_eq!((items(&mut stage).len(), kept(&stage)), (0, 0));
        stage.bed.check();
    }
}

/// A reader of CoAP that observes the address has the last value until that is retracted itself.
#[test]
fn an_observer_is_told_of_the_last_value_alone() {
    for shards in [1, 3] {
        let mut stage = stage(shards, limits(3));
        let observer = stage.connect(Protocol::Coap, "observer");
        stage.ask(observer, Place::Address("a/b"));
        let who = stage.bed.xmpp();
        for item in ["i1", "i2"] {
            publish(&mut stage, who, item);
            assert_eq!(stage.bodies(observer), [item], "{shards}");
        }
        let watches = |stage: &Stage| stage.bed.total(|totals| totals.watches);
        assert!(retract(&mut stage, who, "i1").contains("type='result'"));
        assert_eq!((stage.bodies(observer), watches(&stage)), (Vec::new(), 1));
        publish(&mut stage, who, "i3");
        assert_eq!(stage.bodies(observer), ["i3"]);
        retract(&mut stage, who, "i3");
        assert_eq!(watches(&stage), 0);
        stage.bed.check();
    }
}

/// The form of a node says what the policy says, and takes nothing else.
#[test]
fn the_configuration_of_a_node_is_the_policy() {
    let mut stage = stage(1, limits(3));
    let who = stage.bed.xmpp();
    let form = |value: &str| {
        format!(
            "<pubsub xmlns='{OWNER}'><configure node='a/b'><x xmlns='jabber:x:data' type='submit'>\
             <field var='pubsub#max_items'><value>{value}</value></field></x></configure></pubsub>"
        )
    };
    let get = format!("<pubsub xmlns='{OWNER}'><configure node='a/b'/></pubsub>");
    let shown = stage.bed.xmpp_ask(who, "get", SERVICE, &get);
    let says = |shown: &str, name: &str, value: &str| {
        let (_, rest) = shown.split_once(name).expect("the field");
        let (_, rest) = rest.split_once("<value>").expect("a value");
        assert!(rest.starts_with(value), "{name}: {rest}");
    };
    says(&shown, "pubsub#max_items", "3<");
    says(&shown, "pubsub#persist_items", "1<");
    for (value, is_so) in [("3", true), ("max", true), ("1", false), ("5", false)] {
        let answer = stage.bed.xmpp_ask(who, "set", SERVICE, &form(value));
        assert_eq!(answer.contains("type='result'"), is_so, "{value}: {answer}");
    }
    stage.bed.set_limits(Limits {
        policies: policies(3, Some(LastValueRule::Off)),
        ..limits(3)
    });
    let shown = stage.bed.xmpp_ask(who, "get", SERVICE, &get);
    says(&shown, "pubsub#persist_items", "0<");
}

/// Also with another number of shards, and with a depth that has changed meanwhile.
#[test]
fn what_is_kept_is_there_after_a_kill() {
    for (shards, later) in [(1, 1), (1, 3), (3, 2)] {
        let mut stage = stage(shards, limits(3));
        let crash = |stage: &mut Stage, depth: u16| {
            stage.bed.settings.limits = limits(depth);
            stage.bed.crash(Loss::Process, later, |_| ());
            stage.bed.check();
        };
        let publish = |stage: &mut Stage, item: &str| {
            let who = stage.bed.xmpp();
            publish(stage, who, item);
            stage.bed.lose(who);
        };
        for item in ["i1", "i2", "i3", "i4", "i5"] {
            publish(&mut stage, item);
        }
        let who = stage.bed.xmpp();
        retract(&mut stage, who, "i4");
        crash(&mut stage, 3);
        assert_eq!(items(&mut stage), ["i3", "i5"], "{shards} {later}");
        assert_eq!(last_value(&mut stage, "a/b"), ["i5"]);
        publish(&mut stage, "i6");
        publish(&mut stage, "i7");
        assert_eq!(items(&mut stage), ["i5", "i6", "i7"]);
        crash(&mut stage, 2);
        assert_eq!(items(&mut stage), ["i6", "i7"]);
        // What a lower depth has dropped does not come back with a higher one.
        crash(&mut stage, 3);
        assert_eq!(items(&mut stage), ["i6", "i7"]);
        // The last value goes alone.
        let who = stage.bed.xmpp();
        retract(&mut stage, who, "i7");
        crash(&mut stage, 3);
        assert_eq!(items(&mut stage), ["i6"]);
        assert_eq!(last_value(&mut stage, "a/b"), [""; 0]);
        publish(&mut stage, "i8");
        crash(&mut stage, 1);
        assert_eq!(items(&mut stage), ["i8"]);
        // The value that was there before the depth is the first of them.
        crash(&mut stage, 3);
        publish(&mut stage, "i9");
        assert_eq!(items(&mut stage), ["i8", "i9"]);
        crash(&mut stage, 3);
        assert_eq!(items(&mut stage), ["i8", "i9"]);
        let who = stage.bed.mqtt("sensor");
        retain(&mut stage, who, "a/b", "");
        crash(&mut stage, 3);
        assert_eq!(
            (items(&mut stage).len(), last_value(&mut stage, "a/b").len()),
            (0, 0)
        );
    }
}

#[test]
fn each_item_has_a_life_of_its_own() {
    for shards in [1, 3] {
        let mut stage = stage(shards, limits(3));
        let who = stage.bed.xmpp();
        for (item, secs) in [("i1", "max"), ("i2", "30"), ("i3", "60")] {
            let action = format!(
                "<publish node='a/b'><item id='{item}'>{}</item></publish><publish-options>\
                 <x xmlns='jabber:x:data' type='submit'><field var='pubsub#item_expire'><value>{secs}</value></field></x>\
                 </publish-options>",
                text(item)
            );
            stage.bed.xmpp_pubsub(who, "set", &action);
        }
        stage.bed.run_for(Span::from_secs(31));
        assert_eq!(items(&mut stage), ["i1", "i3"]);
        assert_eq!(last_value(&mut stage, "a/b"), ["i3"]);
        stage.bed.run_for(Span::from_secs(40));
        assert_eq!(stage.bed.total(|totals| totals.kept_messages), 1);
        for is_again in [false, true] {
            if is_again {
                stage.bed.crash(Loss::Process, shards, |_| ());
            }
            assert_eq!(items(&mut stage), ["i1"], "{shards} {is_again}");
            assert_eq!(last_value(&mut stage, "a/b"), [""; 0]);
        }
        stage.bed.check();
    }
}

/// Those of a policy that keeps what was not retained are in memory only; a lower depth applies at once.
#[test]
fn messages_that_were_not_retained_are_kept_where_a_policy_says_so() {
    for shards in [1, 3] {
        let keep = |depth| Limits {
            policies: policies(depth, Some(LastValueRule::Keep)),
            ..limits(depth)
        };
        let mut stage = stage(shards, keep(4));
        let sensor = stage.bed.mqtt("sensor");
        for (body, is_retained) in [("r1", true), ("u2", false), ("u3", false), ("r4", true)] {
            send(&mut stage, sensor, "a/b", body, is_retained);
        }
        send(&mut stage, sensor, "a/b", "u5", false);
        assert_eq!(items(&mut stage), ["u2", "u3", "r4", "u5"], "{shards}");
        assert_eq!(last_value(&mut stage, "a/b"), ["r4"]);
        stage.bed.set_limits(keep(3));
        assert_eq!(items(&mut stage), ["u3", "r4", "u5"]);
        stage.bed.set_limits(keep(9));
        send(&mut stage, sensor, "a/b", "u6", false);
        assert_eq!(items(&mut stage), ["u3", "r4", "u5", "u6"]);
        // They are not kept any more.
        stage.bed.set_limits(limits(9));
        assert_eq!(items(&mut stage), ["r4"]);
        stage.bed.set_limits(limits(1));
        assert_eq!(items(&mut stage), ["r4"]);
        assert_eq!(stage.bed.total(|totals| totals.kept_messages), 0);
        stage.bed.crash(Loss::Process, shards, |_| ());
        assert_eq!(items(&mut stage), ["r4"]);
        stage.bed.check();
    }
}

#[test]
fn earlier_messages_count_in_the_limits_and_give_way() {
    let mut stage = stage(
        1,
        Limits {
            retained_messages_max: 6,
            ..limits(5)
        },
    );
    let who = stage.bed.xmpp();
    for item in ["i1", "i2", "i3", "i4", "i5", "i6", "i7"] {
        publish(&mut stage, who, item);
    }
    let held = |stage: &Stage| {
        stage
            .bed
            .total(|totals| totals.retained + totals.kept_messages)
    };
    assert_eq!(items(&mut stage), ["i3", "i4", "i5", "i6", "i7"]);
    assert_eq!(held(&stage), 6);
    // A new address finds no room, and one that is there goes on.
    let sensor = stage.bed.mqtt("sensor");
    retain(&mut stage, sensor, "a/c", "1");
    assert_eq!(last_value(&mut stage, "a/c"), [""; 0]);
    publish(&mut stage, who, "i8");
    assert_eq!(items(&mut stage), ["i4", "i5", "i6", "i7", "i8"]);
    stage.bed.set_limits(Limits {
        retained_messages_max: 4,
        ..limits(5)
    });
    publish(&mut stage, who, "i9");
    assert_eq!(items(&mut stage), ["i7", "i8", "i9"]);
    assert_eq!(held(&stage), 4);
    stage.bed.check();
}

#[test]
fn a_will_is_kept_beside_what_was_there() {
    let mut stage = stage(2, limits(3));
    let connect = ConnectOut {
        client_id: "sensor",
        clean_start: true,
        will: Some(WillOut {
            message: PublishOut {
                topic: "a/b",
                payload: b"gone",
                retain: true,
                ..PublishOut::default()
            },
            delay_secs: 0,
        }),
        ..ConnectOut::default()
    };
    let sensor = stage.bed.open_mqtt(&connect, Some(Access::ALL));
    stage.bed.rest();
    retain(&mut stage, sensor, "a/b", "here");
    stage.bed.lose(sensor);
    stage.bed.run_for(Span::from_secs(1));
    assert_eq!(items(&mut stage), ["here", "gone"]);
    assert_eq!(last_value(&mut stage, "a/b"), ["gone"]);
    stage.bed.check();
}
