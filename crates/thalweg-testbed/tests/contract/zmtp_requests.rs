//! Requests of ZeroMQ: asked of any protocol, answered by any.

use std::sync::Arc;
use thalweg_amqp::methods::{basic, queue};
use thalweg_amqp::{BasicProperties, Method};
use thalweg_fronts::zmtp::{ZmtpDial, ZmtpSettings};
use thalweg_kernel::Limits;
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
use thalweg_model::Span;
use thalweg_mqtt::{ConnectOut, PublishOut, QoS, SubscribeOptions};
use thalweg_testbed::amqp::{Hello, ServerMethod};
use thalweg_testbed::mqtt::{Mqtt, Received};
use thalweg_testbed::zmtp::Zmtp;
use thalweg_testbed::{Settings, Testbed, Who};
use thalweg_zmtp::{ClientMechanism, SocketType};

type Frames = Vec<Vec<u8>>;

fn bed() -> Testbed {
    with(ZmtpSettings::default(), 1)
}

fn with(zmtp: ZmtpSettings, shards: u16) -> Testbed {
    Testbed::new(Settings {
        shards,
        zmtp: Arc::new(zmtp),
        coap: vec![Arc::default()],
        coap_anonymous: Some(Access::ALL),
        ..Settings::default()
    })
}

fn subscribe(bed: &mut Testbed, who: Who<Mqtt>, filter: &str) {
    let options = SubscribeOptions {
        qos: QoS::AtLeastOnce,
        ..SubscribeOptions::default()
    };
    bed.mqtt_subscribe(who, filter, options);
}

/// Answers as a server of MQTT 5 does.
fn reply(bed: &mut Testbed, who: Who<Mqtt>, to: &Received, payload: &[u8]) {
    let answer = PublishOut {
        topic: to.response_topic.as_deref().expect("where to"),
        correlation_data: to.correlation.as_deref(),
        payload,
        qos: QoS::AtLeastOnce,
        ..PublishOut::default()
    };
    bed.mqtt_publish(who, &answer);
}

fn frames(texts: &[&[u8]]) -> Frames {
    texts.iter().map(|text| text.to_vec()).collect()
}

/// The view of a REP or a client of REQ: the frames after the empty one.
fn bodies(bed: &mut Testbed, who: Who<Zmtp>) -> Vec<String> {
    let got = bed.zmtp_got(who).into_iter();
    let body = |frames: Frames| match &frames[..] {
        [empty, body @ ..] if empty.is_empty() => String::from_utf8_lossy(&body.concat()).into(),
        other => format!("{other:?}"),
    };
    got.map(body).collect()
}

#[test]
fn a_server_of_mqtt_answers_a_req_and_each_answer_finds_its_request() {
    for shards in [1, 3] {
        let mut bed = with(ZmtpSettings::default(), shards);
        let (server, req) = (bed.mqtt("server"), bed.zmtp(SocketType::Req));
        let dealer = bed.zmtp(SocketType::Dealer);
        subscribe(&mut bed, server, "plant/#");
        bed.zmtp_send(req, &[b"", b"plant/pump", b"on", b"now"]);
        bed.zmtp_send(dealer, &[b"7", b"", b"plant/pump", b"one"]);
        bed.zmtp_send(dealer, &[b"plant/pump", b"two"]);
        let mut got = bed.mqtt_got(server);
        let lines: Vec<String> = got.iter().map(Received::line).collect();
        let expected = ["plant/pump : onnow", "plant/pump : one", "plant/pump : two"];
        assert_eq!(lines, expected);
        assert_eq!(got[0].expiry_secs, Some(30));
        got.reverse();
        for got in &got {
            reply(&mut bed, server, got, &[&got.payload[..], b"!"].concat());
        }
        assert_eq!(bed.zmtp_got(req), [frames(&[b"", b"onnow!"])]);
        let expected = [frames(&[b"two!"]), frames(&[b"7", b"", b"one!"])];
        assert_eq!(bed.zmtp_got(dealer), expected);
        // Each once.
        reply(&mut bed, server, &got[0], b"again");
        assert!(bed.zmtp_got(dealer).is_empty());
        bed.check();
    }
}

#[test]
fn a_rep_answers_requesters_of_mqtt_and_coap() {
    for shards in [1, 3] {
        let mut bed = with(ZmtpSettings::default(), shards);
        let rep = bed.zmtp_named(SocketType::Rep, b"plant/pump");
        let asker = bed.mqtt("asker");
        subscribe(&mut bed, asker, "answers/1");
        let ask = PublishOut {
            topic: "plant/pump",
            payload: b"on?",
            qos: QoS::AtLeastOnce,
            response_topic: Some("answers/1"),
            correlation_data: Some(b"\x01\x02"),
            ..PublishOut::default()
        };
        bed.mqtt_publish(asker, &ask);
        assert_eq!(bed.zmtp_got(rep), [frames(&[b"", b"on?"])]);
        bed.zmtp_send(rep, &[b"", b"it ", b"is"]);
        let got = bed.mqtt_got(asker);
        let answer = got.first().expect("an answer");
        assert_eq!(answer.line(), "answers/1 : it is");
        assert_eq!(answer.correlation.as_deref(), Some(&b"\x01\x02"[..]));

        let shard = bed.home_of("peer");
        let peer = bed.peer(shard, 0);
        bed.rest();
        bed.request(peer, "CON POST /rpc/plant/pump : speed?");
        bed.rest();
        assert_eq!(bodies(&mut bed, rep), ["speed?"]);
        bed.zmtp_send(rep, &[b"", b"9"]);
        let heard: Vec<String> = bed.heard(peer).iter().map(|it| it.line()).collect();
        assert_eq!(heard, ["ACK", "CON 2.05 : 9"], "{shards} shards");
    }
}

#[test]
fn a_server_of_amqp_answers_a_req() {
    let mut bed = bed();
    let hello = Hello {
        channel: 1,
        ..Hello::default()
    };
    let server = bed.open_amqp(&hello, Some(Access::ALL));
    bed.rest();
    let declare = queue::Declare {
        queue: "rpc",
        ..Default::default()
    };
    let consume = basic::Consume {
        queue: "rpc",
        no_ack: true,
        ..Default::default()
    };
    for method in [Method::QueueDeclare(declare), Method::BasicConsume(consume)] {
        bed.amqp_call(server, &method);
    }
    let req = bed.zmtp(SocketType::Req);
    bed.zmtp_send(req, &[b"", b"$q/rpc", b"4"]);
    let got = bed.client(server).got.pop_front().expect("a request");
    assert_eq!(got.text(), "4");
    let asked = got.properties();
    let publish = basic::Publish {
        routing_key: asked.reply_to.expect("where to"),
        ..Default::default()
    };
    let properties = BasicProperties {
        correlation_id: asked.correlation_id,
        ..Default::default()
    };
    bed.amqp_publish(server, &publish, &properties, b"16");
    assert_eq!(bodies(&mut bed, req), ["16"]);
}

#[test]
fn requests_of_one_frame_are_for_the_service_and_wait_for_a_worker() {
    let mut bed = bed();
    let req = bed.zmtp(SocketType::Req);
    bed.zmtp_send(req, &[b"", b"Hello"]);
    let rep = bed.zmtp(SocketType::Rep);
    assert_eq!(bed.zmtp_got(rep), [frames(&[b"", b"Hello"])]);
    bed.zmtp_send(rep, &[b"", b"World", b"", b"2"]);
    assert_eq!(bed.zmtp_got(req), [frames(&[b"", b"World", b"", b"2"])]);
}

#[test]
fn workers_share_what_is_asked_one_at_a_time_each() {
    for name in [&b"plant/pump"[..], b"$q/pumps"] {
        let mut bed = bed();
        let one = bed.zmtp_named(SocketType::Rep, name);
        let two = bed.zmtp_named(SocketType::Router, name);
        let dealer = bed.zmtp(SocketType::Dealer);
        for text in [b"1", b"2", b"3", b"4"] {
            bed.zmtp_send(dealer, &[text, b"", name, text]);
        }
        let (first, second) = (bodies(&mut bed, one), bodies(&mut bed, two));
        assert_eq!((first.len(), second.len()), (1, 1), "{first:?} {second:?}");
        for _ in 0..2 {
            for who in [one, two] {
                bed.zmtp_send(who, &[b"", b"done"]);
            }
        }
        // Answers to nothing change nothing.
        bed.zmtp_send(one, &[b"", b"done"]);
        let mut got: Vec<Vec<u8>> = bed
            .zmtp_got(dealer)
            .into_iter()
            .map(|mut it| it.remove(0))
            .collect();
        got.sort();
        assert_eq!(got, frames(&[b"1", b"2", b"3", b"4"]));
        bed.check();
    }
}

#[test]
fn what_a_lost_worker_held_goes_to_another_and_is_answered_once() {
    for name in [&b"plant/pump"[..], b"$q/pumps"] {
        let mut bed = bed();
        let lost = bed.zmtp_named(SocketType::Rep, name);
        let req = bed.zmtp(SocketType::Req);
        bed.zmtp_send(req, &[b"", name, b"on"]);
        assert_eq!(bodies(&mut bed, lost), ["on"]);
        let other = bed.zmtp_named(SocketType::Rep, name);
        assert!(bodies(&mut bed, other).is_empty());
        bed.lose(lost);
        bed.rest();
        assert_eq!(bodies(&mut bed, other), ["on"]);
        bed.zmtp_send(other, &[b"", b"done"]);
        assert_eq!(bodies(&mut bed, req), ["done"]);
    }
}

#[test]
fn a_worker_with_a_window_answers_in_any_order() {
    let settings = ZmtpSettings {
        worker_window: 3,
        ..ZmtpSettings::default()
    };
    let mut bed = with(settings, 1);
    let router = bed.zmtp_named(SocketType::Router, b"$q/pumps");
    let dealer = bed.zmtp(SocketType::Dealer);
    for text in [b"1", b"2", b"3", b"4"] {
        bed.zmtp_send(dealer, &[text, b"", b"$q/pumps", text]);
    }
    let got = bed.zmtp_got(router);
    assert_eq!(got.len(), 3);
    for asked in got.iter().rev() {
        bed.zmtp_send(router, &[&asked[0], b"", &asked[2]]);
    }
    bed.zmtp_send(router, &[b"unknown", b"", b"x"]);
    let got: Vec<Vec<u8>> = bed.zmtp_got(dealer).iter().map(|it| it.concat()).collect();
    assert_eq!(got, frames(&[b"33", b"22", b"11"]));
    assert_eq!(bed.zmtp_got(router).len(), 1);
}

#[test]
fn workers_and_clients_of_majordomo_meet() {
    let mut bed = bed();
    let (worker, client) = (bed.zmtp(SocketType::Dealer), bed.zmtp(SocketType::Req));
    // An unknown worker is asked to register again.
    bed.zmtp_send(worker, &[b"", b"MDPW01", b"\x04"]);
    let disconnect = frames(&[b"", b"MDPW01", b"\x05"]);
    assert_eq!(bed.zmtp_got(worker), std::slice::from_ref(&disconnect));
    bed.zmtp_send(worker, &[b"", b"MDPW01", b"\x01", b"echo"]);
    bed.zmtp_send(client, &[b"", b"MDPC01", b"echo", b"Hello", b"world"]);
    let got = bed.zmtp_got(worker);
    let [asked] = &got[..] else {
        panic!("{got:?}");
    };
    assert_eq!(asked[..3], frames(&[b"", b"MDPW01", b"\x02"]));
    assert_eq!(asked[4..], frames(&[b"", b"Hello", b"world"]));
    bed.zmtp_send(worker, &[b"", b"MDPW01", b"\x04"]);
    assert_eq!(bed.zmtp_got(worker), [frames(&[b"", b"MDPW01", b"\x04"])]);
    bed.zmtp_send(
        worker,
        &[b"", b"MDPW01", b"\x03", &asked[3], b"", b"Hello", b"you"],
    );
    let expected = frames(&[b"", b"MDPC01", b"echo", b"Hello", b"you"]);
    assert_eq!(bed.zmtp_got(client), [expected]);

    // A worker that leaves returns its messages.
    bed.zmtp_send(client, &[b"", b"MDPC01", b"echo", b"again"]);
    assert_eq!(bed.zmtp_got(worker).len(), 1);
    let other = bed.zmtp(SocketType::Dealer);
    bed.zmtp_send(other, &[b"", b"MDPW01", b"\x01", b"echo"]);
    bed.zmtp_send(worker, &[b"", b"MDPW01", b"\x05"]);
    assert_eq!(bed.zmtp_got(other).len(), 1);
    // READY twice is against the rules.
    bed.zmtp_send(other, &[b"", b"MDPW01", b"\x01", b"echo"]);
    assert_eq!(bed.zmtp_got(other), [disconnect]);
    bed.check();
}

#[test]
fn a_client_of_majordomo_learns_which_services_have_workers() {
    for shards in [1, 3] {
        let mut bed = with(ZmtpSettings::default(), shards);
        let client = bed.zmtp(SocketType::Req);
        let code = |bed: &mut Testbed, inquiry: &[u8], about: &[u8]| {
            bed.zmtp_send(client, &[b"", b"MDPC01", inquiry, about]);
            let got = bed.zmtp_got(client);
            let [answer] = &got[..] else {
                panic!("{got:?}");
            };
            assert_eq!(answer[..3], frames(&[b"", b"MDPC01", inquiry]));
            String::from_utf8_lossy(&answer[3]).into_owned()
        };
        for service in [&b"echo"[..], b"$q/jobs"] {
            let worker = bed.zmtp(SocketType::Dealer);
            assert_eq!(code(&mut bed, b"mmi.service", service), "404");
            bed.zmtp_send(worker, &[b"", b"MDPW01", b"\x01", service]);
            bed.rest();
            assert_eq!(code(&mut bed, b"mmi.service", service), "200");
            bed.zmtp_send(worker, &[b"", b"MDPW01", b"\x05"]);
            bed.rest();
            assert_eq!(code(&mut bed, b"mmi.service", service), "404");
        }
        // Any server counts, and nothing else does.
        let server = bed.mqtt("server");
        subscribe(&mut bed, server, "plant/#");
        bed.rest();
        assert_eq!(code(&mut bed, b"mmi.service", b"plant/pump"), "200");
        assert_eq!(code(&mut bed, b"mmi.service", b"plan"), "404");
        assert_eq!(code(&mut bed, b"mmi.service", b""), "404");
        assert_eq!(code(&mut bed, b"mmi.other", b"echo"), "501");
        bed.check();
    }
}

#[test]
fn a_request_is_given_up_after_its_time_and_there_are_only_so_many() {
    let settings = ZmtpSettings {
        request_timeout: Span::from_secs(5),
        requests_max: 2,
        heart_beat: Span::ZERO,
        ..ZmtpSettings::default()
    };
    let mut bed = with(settings, 1);
    let (server, dealer) = (bed.mqtt("server"), bed.zmtp(SocketType::Dealer));
    subscribe(&mut bed, server, "a");
    let ask = |bed: &mut Testbed| bed.zmtp_send(dealer, &[b"a", b"?"]);
    for _ in 0..3 {
        ask(&mut bed);
    }
    let got = bed.mqtt_got(server);
    assert_eq!(got.len(), 2);
    assert_eq!(bed.sum(|kernel| kernel.ledger().refused), 1);
    bed.run_for(Span::from_secs(6));
    reply(&mut bed, server, &got[0], b"late");
    assert!(bed.zmtp_got(dealer).is_empty());
    ask(&mut bed);
    assert_eq!(bed.mqtt_got(server).len(), 1);
    // Without a responder no request waits.
    for _ in 0..3 {
        bed.zmtp_send(dealer, &[b"nobody", b"?"]);
    }
    assert_eq!(bed.sum(|kernel| kernel.ledger().refused), 1);
}

#[test]
fn a_worker_goes_on_when_a_requester_is_gone() {
    let mut bed = bed();
    let rep = bed.zmtp_named(SocketType::Rep, b"a");
    let (gone, stays) = (bed.zmtp(SocketType::Req), bed.zmtp(SocketType::Req));
    bed.zmtp_send(gone, &[b"", b"a", b"1"]);
    bed.lose(gone);
    bed.rest();
    bed.zmtp_send(stays, &[b"", b"a", b"2"]);
    assert_eq!(bodies(&mut bed, rep), ["1"]);
    bed.zmtp_send(rep, &[b"", b"one"]);
    assert_eq!(bodies(&mut bed, rep), ["2"]);
    bed.zmtp_send(rep, &[b"", b"two"]);
    assert_eq!(bodies(&mut bed, stays), ["two"]);
    // A publish, which is not a request, has no answer.
    let device = bed.mqtt("device");
    bed.mqtt_publish(
        device,
        &PublishOut {
            topic: "a",
            payload: b"3",
            ..PublishOut::default()
        },
    );
    assert_eq!(bodies(&mut bed, rep), ["3"]);
    bed.zmtp_send(rep, &[b"", b"three"]);
    bed.check();
}

#[test]
fn members_of_other_protocols_share_with_workers() {
    let mut bed = bed();
    let rep = bed.zmtp_named(SocketType::Rep, b"a/b");
    let member = bed.mqtt("member");
    subscribe(&mut bed, member, "$share/zmtp/a/b");
    let dealer = bed.zmtp(SocketType::Dealer);
    for _ in 0..4 {
        bed.zmtp_send(dealer, &[b"a/b", b"?"]);
        for _ in bodies(&mut bed, rep) {
            bed.zmtp_send(rep, &[b"", b"rep"]);
        }
        for got in bed.mqtt_got(member) {
            reply(&mut bed, member, &got, b"member");
        }
    }
    let got: Vec<Vec<u8>> = bed.zmtp_got(dealer).concat();
    for who in [&b"rep"[..], b"member"] {
        assert_eq!(got.iter().filter(|it| **it == who).count(), 2, "{got:?}");
    }
}

#[test]
fn asking_serving_and_answering_need_their_rights() {
    let rights = |permission, pattern: &str| {
        Rules::new(vec![Rule::deny(permission, pattern)], Otherwise::Allow).expect("a filter")
    };
    let plain = |user: &str| ClientMechanism::Plain {
        username: user.as_bytes().to_vec(),
        password: b"x".to_vec(),
    };
    let denials = [
        ("req", Permission::Publish, "$q/zmtp-requests"),
        ("rep", Permission::Take, "$q/zmtp-requests"),
        ("rep", Permission::Publish, "$q/+"),
        ("", Permission::Publish, "none"),
    ];
    for (user, permission, pattern) in denials {
        let mut bed = bed();
        bed.answers_logins = true;
        if !user.is_empty() {
            bed.set_rights(user, rights(permission, pattern));
        }
        let rep = bed.open_zmtp(SocketType::Rep, plain("rep"), None);
        let req = bed.open_zmtp(SocketType::Req, plain("req"), None);
        bed.zmtp_send(req, &[b"", b"?"]);
        let asked = bodies(&mut bed, rep);
        bed.zmtp_send(rep, &[b"", b"!"]);
        let answered = bodies(&mut bed, req);
        let expected = (
            user.is_empty() || (user, permission) == ("rep", Permission::Publish),
            user.is_empty(),
        );
        let seen = (!asked.is_empty(), !answered.is_empty());
        assert_eq!(seen, expected, "{user} {permission:?}");
        assert_eq!(bed.is_closed(rep), permission == Permission::Take);
    }
    for permission in [Permission::Subscribe, Permission::Receive] {
        let mut bed = bed();
        bed.answers_logins = true;
        bed.set_rights("rep", rights(permission, "a"));
        let rep = bed.open_zmtp(SocketType::Dealer, plain("rep"), None);
        bed.zmtp_send(rep, &[b"", b"MDPW01", b"\x01", b"a"]);
        let req = bed.open_zmtp(SocketType::Req, plain("req"), None);
        bed.zmtp_send(req, &[b"", b"a", b"?"]);
        assert!(bed.zmtp_got(rep).is_empty(), "{permission:?}");
    }
}

#[test]
fn requests_that_wait_are_bounded_by_their_queue() {
    let limits = Limits {
        named_queue_messages_max: 10,
        ..Limits::default()
    };
    let mut bed = Testbed::new(Settings {
        limits,
        ..Settings::default()
    });
    let dealer = bed.zmtp(SocketType::Dealer);
    for _ in 0..2_000 {
        bed.zmtp_send(dealer, &[b"", b"x"]);
    }
    assert_eq!(bed.total(|totals| totals.waiting), 10);
    bed.check();
}

#[test]
fn the_broker_connects_to_sockets_that_bind() {
    let mut bed = bed();
    bed.answers_logins = true;
    let dial = |socket_type| ZmtpDial {
        settings: Arc::default(),
        socket_type,
        user: "plant".into(),
        identity: b"thalweg".as_slice().into(),
        prefixes: vec![b"a/".as_slice().into()],
        service: b"calc".as_slice().into(),
    };
    // A publisher, a subscriber, and a server that others ask.
    let publisher = bed.zmtp_dialed(dial(SocketType::Sub), SocketType::Pub);
    let subscriber = bed.zmtp_dialed(dial(SocketType::Pub), SocketType::Sub);
    assert_eq!(bed.client(publisher).wanted, [b"a/"]);
    bed.zmtp_subscribe(subscriber, b"a");
    bed.zmtp_send(publisher, &[b"a/b", b"1"]);
    assert_eq!(bed.zmtp_got(subscriber), [frames(&[b"a/b", b"1"])]);
    let server = bed.zmtp_dialed(dial(SocketType::Dealer), SocketType::Rep);
    let req = bed.zmtp(SocketType::Req);
    bed.zmtp_send(req, &[b"", b"calc", b"2"]);
    assert_eq!(bodies(&mut bed, server), ["2"]);
    bed.zmtp_send(server, &[b"", b"4"]);
    assert_eq!(bodies(&mut bed, req), ["4"]);
    // Its rights are those of its user.
    let deny = Rule::deny(Permission::Publish, "a/#");
    let rules = Rules::new(vec![deny], Otherwise::Allow).expect("a filter");
    bed.set_rights("plant", rules);
    bed.zmtp_send(publisher, &[b"a/b", b"2"]);
    assert!(bed.zmtp_got(subscriber).is_empty());
    // Socket types that do not match end the connection.
    let wrong = bed.zmtp_dialed(dial(SocketType::Sub), SocketType::Pull);
    assert!(bed.is_closed(wrong));
    bed.check();
}

#[test]
fn what_is_kept_of_a_request_counts_until_it_is_answered_or_given_up() {
    let kept = |bed: &Testbed| bed.shards[0].links.kept_bytes();
    let mut bed = bed();
    let (server, dealer) = (bed.mqtt("server"), bed.zmtp(SocketType::Dealer));
    let rep = bed.zmtp_named(SocketType::Rep, b"plant/fan");
    subscribe(&mut bed, server, "plant/pump");
    let before = kept(&bed);
    let envelope = [b'7'; 5_000];
    let asks = |bed: &mut Testbed, address: &[u8]| {
        bed.zmtp_send(dealer, &[&envelope, b"", address, b"on?"]);
    };
    for _ in 0..3 {
        asks(&mut bed, b"plant/pump");
    }
    assert!(kept(&bed) > before + 3 * envelope.len());
    let got = bed.mqtt_got(server);
    for got in &got[..2] {
        reply(&mut bed, server, got, b"yes");
    }
    assert_eq!(bed.zmtp_got(dealer).len(), 2);
    assert!((before + envelope.len()..before + 2 * envelope.len()).contains(&kept(&bed)));
    bed.run_for(Span::from_secs(60));
    assert_eq!(kept(&bed), before, "it was given up");
    asks(&mut bed, b"plant/nowhere");
    assert_eq!(kept(&bed), before, "nothing asks there");

    // A worker's requests, too.
    let asker = bed.mqtt("asker");
    let correlation = [b'c'; 5_000];
    let ask = PublishOut {
        topic: "plant/fan",
        payload: b"on?",
        qos: QoS::AtLeastOnce,
        response_topic: Some("answers/1"),
        correlation_data: Some(&correlation),
        ..PublishOut::default()
    };
    bed.mqtt_publish(asker, &ask);
    assert!(kept(&bed) > before + correlation.len());
    bed.zmtp_send(rep, &[b"", b"yes"]);
    assert_eq!(kept(&bed), before, "it is answered");
}

/// A worker answers to any address, with rights of its own.
#[test]
fn no_worker_publishes_where_its_requester_may_not() {
    let mut bed = bed();
    bed.answers_logins = true;
    let rules = [
        Rule::allow(Permission::Publish, "plant/pump"),
        Rule::allow(Permission::Publish, "$q/pumps"),
        Rule::allow(Permission::Publish, "plant/log"),
        Rule::allow(Permission::Receive, "replies/#"),
    ];
    let rules = Rules::new(rules.into(), Otherwise::Deny).expect("filters");
    bed.set_rights("mallory", rules);
    let watcher = bed.mqtt("watcher");
    for filter in ["plant/valve/#", "plant/log", "replies/#"] {
        subscribe(&mut bed, watcher, filter);
    }
    let worker = bed.zmtp_named(SocketType::Rep, b"plant/pump");
    let connect = ConnectOut {
        client_id: "mallory",
        username: Some("mallory"),
        password: Some(b"x"),
        ..ConnectOut::default()
    };
    let mallory = bed.open_mqtt(&connect, None);
    bed.rest();
    for (topic, is_answered) in [
        ("plant/valve/set", false),
        ("$q/valves", false),
        ("plant/log", true),
        ("replies/1", true),
    ] {
        let request = PublishOut {
            topic: "plant/pump",
            response_topic: Some(topic),
            payload: b"open",
            qos: QoS::AtLeastOnce,
            ..PublishOut::default()
        };
        bed.mqtt_publish(mallory, &request);
        let asked = bodies(&mut bed, worker);
        assert_eq!(!asked.is_empty(), is_answered, "{topic}");
        bed.zmtp_send(worker, &[b"", b"open"]);
        let got = bed.mqtt_got(watcher);
        let lines: Vec<String> = got.iter().map(Received::line).collect();
        let expected = format!("{topic} : open");
        assert_eq!(lines, is_answered.then_some(expected).as_slice());
    }

    // AMQP: a queue of its own, one that is another's, and one that it may take from.
    let taker = bed.zmtp_named(SocketType::Rep, b"$q/pumps");
    for reply_to in ["valves", "", "amq.rabbitmq.reply-to"] {
        let hello = Hello {
            response: b"\0mallory\0x".to_vec(),
            channel: 1,
            ..Hello::default()
        };
        let client = bed.open_amqp(&hello, None);
        bed.rest();
        let declare = queue::Declare {
            exclusive: true,
            ..queue::Declare::default()
        };
        bed.client(client).said.clear();
        bed.amqp_call(client, &Method::QueueDeclare(declare));
        let Some(ServerMethod::Declared { queue, .. }) = bed.client(client).said.pop_front() else {
            panic!("it may declare a queue of its own");
        };
        let source = if reply_to.is_empty() {
            &queue
        } else {
            reply_to
        };
        if reply_to != "valves" {
            let consume = basic::Consume {
                queue: source,
                no_ack: true,
                ..basic::Consume::default()
            };
            bed.amqp_call(client, &Method::BasicConsume(consume));
        }
        let publish = basic::Publish {
            routing_key: "pumps",
            ..basic::Publish::default()
        };
        let properties = BasicProperties {
            reply_to: Some(source),
            ..BasicProperties::default()
        };
        bed.amqp_publish(client, &publish, &properties, b"open");
        let asked = bodies(&mut bed, taker);
        assert_eq!(asked.is_empty(), reply_to == "valves", "{reply_to}");
        bed.zmtp_send(taker, &[b"", b"open"]);
        let answers = bed.client(client).got.drain(..).count();
        assert_eq!(answers, usize::from(reply_to != "valves"), "{reply_to}");
    }
    bed.check();
}
