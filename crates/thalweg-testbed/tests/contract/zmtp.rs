//! Features and limits that only sockets of ZeroMQ have.

use std::sync::Arc;
use thalweg_fronts::zmtp::{CurveSettings, ZmtpSettings};
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
use thalweg_kernel::{DropReason, Limits, LinkId};
use thalweg_model::{Filter, Span};
use thalweg_mqtt::{PublishOut, QoS, SubscribeOptions};
use thalweg_testbed::mqtt::Mqtt;
use thalweg_testbed::zmtp::Zmtp;
use thalweg_testbed::{Settings, Testbed, Who};
use thalweg_zmtp::{ClientMechanism, CurveClient, HEADER_FRAME, KeyPair, SocketType};

const NULL: ClientMechanism = ClientMechanism::Null;

fn bed() -> Testbed {
    Testbed::new(Settings::default())
}

fn publish(bed: &mut Testbed, who: Who<Mqtt>, topic: &str, payload: &[u8], retain: bool) {
    let publish = PublishOut {
        topic,
        payload,
        retain,
        qos: QoS::AtMostOnce,
        ..PublishOut::default()
    };
    bed.mqtt_publish(who, &publish);
}

fn sub(bed: &mut Testbed, prefix: &[u8]) -> Who<Zmtp> {
    let who = bed.zmtp(SocketType::Sub);
    bed.zmtp_subscribe(who, prefix);
    who
}

fn texts(bed: &mut Testbed, who: Who<Zmtp>) -> Vec<Vec<String>> {
    let text = |frame: Vec<u8>| String::from_utf8_lossy(&frame).into_owned();
    let got = bed.zmtp_got(who).into_iter();
    got.map(|frames| frames.into_iter().map(text).collect())
        .collect()
}

#[test]
fn frames_come_back_as_they_were_cut() {
    let mut bed = bed();
    let (publisher, subscriber) = (bed.zmtp(SocketType::Pub), sub(&mut bed, b""));
    let xsub = bed.zmtp(SocketType::Xsub);
    bed.zmtp_subscribe(xsub, b"plant");
    assert_eq!(bed.client(publisher).wanted, [b""]);
    let messages: [&[&[u8]]; 7] = [
        &[b"plant/hall", b"21"],
        &[b"plant/hall", b""],
        &[b"plant/hall", b"21", b"", b"C"],
        &[b"plant 21 C"],
        &[b"plant|21"],
        &[b"plant"],
        &[b"plant/+/\xFF%2B", b"\0\xFF"],
    ];
    for frames in messages {
        bed.zmtp_send(publisher, frames);
    }
    for who in [subscriber, xsub] {
        assert_eq!(bed.zmtp_got(who), messages.map(|it| it.map(<[u8]>::to_vec)));
    }
}

#[test]
fn messages_that_wait_come_back_as_they_were_cut_however_names_alternate() {
    let mut bed = Testbed::new(Settings {
        outputs: thalweg_fronts::LinksLimits {
            output_high: 100,
            output_max: 100,
            ..Default::default()
        },
        ..Settings::default()
    });
    let publisher = bed.zmtp(SocketType::Pub);
    let (quick, slow) = (sub(&mut bed, b""), sub(&mut bed, b""));
    let device = bed.mqtt("device");
    bed.mqtt_subscribe(device, "#", SubscribeOptions::default());
    bed.set_reading(slow, false);
    // The same cut twice, then each behind each other one, then with another name.
    let cuts: [&[&[u8]]; 6] = [
        &[b"a/b", b"1"],
        &[b"a/b 1"],
        &[b"a/b|1"],
        &[b"a/b", b"", b"1"],
        &[b"a/b"],
        &[b"a/bc", b"1"],
    ];
    let orders = (0..36).flat_map(|at| [cuts[at / 6], cuts[at % 6], cuts[at % 6]]);
    let sent: Vec<Vec<Vec<u8>>> = orders.map(|it| it.map(<[u8]>::to_vec)).collect();
    let mut got = Vec::new();
    for frames in &sent {
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        bed.zmtp_send(publisher, &frames);
        got.extend(bed.zmtp_got(quick));
    }
    assert_eq!(got, sent, "what goes straight through");
    bed.set_reading(slow, true);
    bed.rest();
    assert_eq!(bed.zmtp_got(slow), sent, "what waited");
    let topics = bed
        .mqtt_got(device)
        .into_iter()
        .map(|it| (it.topic, it.payload));
    let expected = sent.iter().map(|frames| match &frames[..] {
        [single] if single.len() > 3 => ("a/b".to_owned(), single[4..].to_vec()),
        [first, rest @ ..] => (String::from_utf8_lossy(first).into(), rest.concat()),
        [] => unreachable!("no message is empty"),
    });
    assert!(topics.eq(expected), "what MQTT sees");
}

trait MapFrames {
    fn map(&self, f: fn(&[u8]) -> Vec<u8>) -> Vec<Vec<u8>>;
}

impl MapFrames for [&[u8]] {
    fn map(&self, f: fn(&[u8]) -> Vec<u8>) -> Vec<Vec<u8>> {
        self.iter().map(|frame| f(frame)).collect()
    }
}

#[test]
fn frames_that_waited_come_back_as_they_were_cut() {
    let mut bed = bed();
    let (push, pull) = (bed.zmtp(SocketType::Push), SocketType::Pull);
    let messages: [&[&[u8]]; 3] = [&[b"one"], &[b"two", b"", b"frames"], &[b""]];
    for frames in messages {
        bed.zmtp_send(push, frames);
    }
    let pull = bed.zmtp(pull);
    assert_eq!(
        bed.zmtp_got(pull),
        messages.map(|frames| MapFrames::map(frames, <[u8]>::to_vec))
    );
}

#[test]
fn mqtt_and_zeromq_meet() {
    let mut bed = bed();
    let (device, publisher) = (bed.mqtt("device"), bed.zmtp(SocketType::Pub));
    let subscriber = sub(&mut bed, b"plant/ha");
    bed.mqtt_subscribe(device, "plant/#", SubscribeOptions::default());
    bed.zmtp_send(publisher, &[b"plant/hall", b"2", b"1"]);
    bed.zmtp_send(publisher, &[b"plant/x rest of it"]);
    let got = bed.mqtt_got(device).into_iter();
    let got: Vec<_> = got.map(|got| (got.topic, got.payload)).collect();
    assert_eq!(
        got,
        [
            ("plant/hall".to_owned(), b"21".to_vec()),
            ("plant/x".to_owned(), b"rest of it".to_vec())
        ]
    );
    texts(&mut bed, subscriber);
    publish(&mut bed, device, "plant/hall/1", b"on", false);
    publish(&mut bed, device, "plant/yard", b"off", false);
    assert_eq!(texts(&mut bed, subscriber), [["plant/hall/1", "on"]]);
}

#[test]
fn subscriptions_count_and_end() {
    let mut bed = bed();
    let (publisher, subscriber) = (bed.zmtp(SocketType::Pub), sub(&mut bed, b"a"));
    bed.zmtp_subscribe(subscriber, b"a");
    let cancel = |bed: &mut Testbed| bed.says(subscriber, |client, up| client.cancel(b"a", up));
    cancel(&mut bed);
    bed.zmtp_send(publisher, &[b"a", b"1"]);
    cancel(&mut bed);
    bed.zmtp_send(publisher, &[b"a", b"2"]);
    cancel(&mut bed);
    assert_eq!(texts(&mut bed, subscriber), [["a", "1"]]);
}

#[test]
fn a_prefix_reaches_into_what_one_frame_says_behind_its_address() {
    let mut bed = bed();
    let publisher = bed.zmtp(SocketType::Pub);
    let subscriber = sub(&mut bed, b"10001 2");
    for text in ["10001 20 C", "10001 30 C", "10002 20 C", "10001"] {
        bed.zmtp_send(publisher, &[text.as_bytes()]);
    }
    bed.zmtp_send(publisher, &[b"10001", b"2"]);
    assert_eq!(texts(&mut bed, subscriber), [["10001 20 C"]]);
}

#[test]
fn last_values_come_on_a_new_prefix_if_that_is_wanted() {
    for last_values in [false, true] {
        let mut bed = bed();
        bed.settings.zmtp = Arc::new(ZmtpSettings {
            last_values,
            retains: Filter::new("plant/last").into_iter().collect(),
            ..ZmtpSettings::default()
        });
        let device = bed.mqtt("device");
        publish(&mut bed, device, "plant/hall", b"21", true);
        publish(&mut bed, device, "yard", b"3", true);
        let publisher = bed.zmtp(SocketType::Pub);
        bed.zmtp_send(publisher, &[b"plant/last", b"1"]);
        bed.zmtp_send(publisher, &[b"plant/not", b"1"]);
        let subscriber = sub(&mut bed, b"pl");
        let expected: &[[&str; 2]] = if last_values {
            &[["plant/hall", "21"], ["plant/last", "1"]]
        } else {
            &[]
        };
        let mut got = texts(&mut bed, subscriber);
        got.sort();
        assert_eq!(got, expected);
    }
}

#[test]
fn a_subscriber_that_does_not_keep_up_has_a_mark_and_the_rest_is_counted() {
    let mut bed = Testbed::new(Settings {
        outputs: thalweg_fronts::LinksLimits {
            output_high: 1000,
            output_max: 2000,
            ..Default::default()
        },
        zmtp: Arc::new(ZmtpSettings {
            high_water: 10,
            ..ZmtpSettings::default()
        }),
        ..Settings::default()
    });
    let (publisher, slow) = (bed.zmtp(SocketType::Pub), sub(&mut bed, b"a"));
    let quick = sub(&mut bed, b"a");
    bed.set_reading(slow, false);
    for number in 0..1000 {
        bed.zmtp_send(publisher, &[b"a", format!("{number:04}").as_bytes()]);
    }
    assert_eq!(bed.zmtp_got(quick).len(), 1000);
    bed.set_reading(slow, true);
    bed.rest();
    let got = texts(&mut bed, slow);
    let dropped = bed.sum(|kernel| kernel.ledger().dropped[DropReason::QueueFull as usize]);
    assert_eq!(got.len() as u64 + dropped, 1000);
    assert!((10..400).contains(&got.len()), "{} came", got.len());
    let numbers: Vec<&String> = got.iter().map(|frames| &frames[1]).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
}

#[test]
fn logins_are_checked_and_other_sockets_are_refused() {
    let mut bed = bed();
    let plain = |name: &[u8]| ClientMechanism::Plain {
        username: name.to_vec(),
        password: b"x".to_vec(),
    };
    let who = bed.open_zmtp(SocketType::Sub, plain(b"eve"), None);
    assert_eq!(bed.asked.len(), 1);
    let answer =
        thalweg_fronts::LoginAnswer::Refused(thalweg_fronts::LoginRefusal::BadUserOrPassword);
    bed.answer_login(answer);
    bed.rest();
    assert_eq!(bed.client(who).refused.as_deref(), Some(&b"400"[..]));
    assert!(bed.is_closed(who));
    for socket in [SocketType::Client, SocketType::Pair] {
        let who = bed.zmtp(socket);
        assert!(bed.is_closed(who), "{socket:?}");
    }
    // A socket without credentials is anonymous, and the authenticator is asked.
    let who = bed.open_zmtp(SocketType::Sub, NULL, None);
    bed.answer_login(thalweg_fronts::LoginAnswer::Refused(
        thalweg_fronts::LoginRefusal::NotAuthorized,
    ));
    bed.rest();
    assert!(bed.client(who).refused.is_some() && bed.is_closed(who));
}

#[test]
fn keys_of_curve_are_users_and_others_are_refused() {
    let (server, known) = (KeyPair::from_secret([1; 32]), KeyPair::from_secret([2; 32]));
    let curve = |keys: &KeyPair| {
        ClientMechanism::Curve(Box::new(CurveClient {
            server: *server.public(),
            keys: keys.clone(),
            seed: [9; 32],
        }))
    };
    for has_users in [true, false] {
        let mut bed = bed();
        bed.answers_logins = true;
        bed.set_rights("meter", but_publish("secret/#"));
        bed.settings.zmtp = Arc::new(ZmtpSettings {
            curve: Some(Arc::new(CurveSettings {
                keys: server.clone(),
                random: [3; 32],
                users: has_users.then(|| [(*known.public(), "meter".into())].into()),
            })),
            ..ZmtpSettings::default()
        });
        let subscriber = sub(&mut bed, b"");
        let publisher = bed.open_zmtp(SocketType::Pub, curve(&known), None);
        bed.zmtp_send(publisher, &[b"secret/1", b"x"]);
        bed.zmtp_send(publisher, &[b"open", b"1", &[7; 70_000]]);
        let got = bed.zmtp_got(subscriber);
        // Only a key with a user has that user's rights.
        assert_eq!(got.len(), if has_users { 1 } else { 2 });
        assert_eq!(got.last().expect("one")[2], [7; 70_000]);
        let stranger = KeyPair::from_secret([4; 32]);
        let stranger = bed.open_zmtp(SocketType::Sub, curve(&stranger), Some(Access::ALL));
        let is_in = bed.client(stranger).traffic.is_some();
        assert_eq!((is_in, bed.is_closed(stranger)), (!has_users, has_users));
        // An encrypted message is a message like others.
        if is_in {
            bed.zmtp_subscribe(stranger, b"o");
            bed.zmtp_send(publisher, &[b"open", b"2"]);
            assert_eq!(texts(&mut bed, stranger), [["open", "2"]]);
        }
        bed.check();
    }
}

fn but_publish(pattern: &str) -> Rules {
    let rule = Rule::deny(Permission::Publish, pattern);
    Rules::new(vec![rule], Otherwise::Allow).expect("a filter")
}

#[test]
fn heart_beats_go_both_ways_and_silence_ends_a_connection() {
    let mut bed = bed();
    let who = sub(&mut bed, b"a");
    bed.says(who, |client, up| {
        let traffic = client.traffic.as_mut().expect("it is open");
        traffic.ping(0, b"ctx", up);
    });
    assert_eq!(bed.client(who).pongs, 1);
    bed.run_for(Span::from_secs(65));
    assert_eq!(bed.client(who).pings, 2);
    let link = LinkId(0);
    let silence_max = |bed: &Testbed| bed.shards[0].links.silence_max(link);
    assert_eq!(silence_max(&bed), Some(Span::from_secs(90)));
    bed.says(who, |client, up| {
        let traffic = client.traffic.as_mut().expect("it is open");
        traffic.ping(50, b"", up);
    });
    assert_eq!(silence_max(&bed), Some(Span::from_secs(5)));
    bed.shards[0].links.on_silence(link);
    bed.rest();
    assert!(bed.is_closed(who));
}

#[test]
fn inverted_matching_leaves_out_what_begins_with_a_prefix() {
    let mut bed = bed();
    bed.settings.zmtp = Arc::new(ZmtpSettings {
        invert_matching: true,
        ..ZmtpSettings::default()
    });
    let (publisher, subscriber) = (bed.zmtp(SocketType::Pub), sub(&mut bed, b"a"));
    for first in [b"a/1", b"b/1"] {
        bed.zmtp_send(publisher, &[first, b"1"]);
    }
    bed.says(subscriber, |client, up| client.cancel(b"a", up));
    bed.zmtp_send(publisher, &[b"a/2", b"2"]);
    assert_eq!(texts(&mut bed, subscriber), [["b/1", "1"], ["a/2", "2"]]);
}

#[test]
fn a_header_frame_carries_properties_and_expiry_both_ways() {
    let mut bed = bed();
    bed.settings.zmtp = Arc::new(ZmtpSettings {
        header_frame: true,
        ..ZmtpSettings::default()
    });
    let (device, publisher) = (bed.mqtt("device"), bed.zmtp(SocketType::Pub));
    let (subscriber, push) = (sub(&mut bed, b"z"), bed.zmtp(SocketType::Push));
    bed.mqtt_subscribe(device, "m/#", SubscribeOptions::default());
    bed.zmtp_send(
        publisher,
        &[
            b"m/1",
            b"content-type:text/plain\nexpiry:60\nk:v:w\n",
            b"2",
            b"1",
        ],
    );
    bed.zmtp_send(publisher, &[b"m/2", b""]);
    bed.zmtp_send(publisher, &[b"m/3 one frame"]);
    let got = bed.mqtt_got(device);
    let lines: Vec<String> = got.iter().map(|got| got.line()).collect();
    assert_eq!(lines, ["m/1 : 21", "m/2 : ", "m/3 : one frame"]);
    assert_eq!(got[0].content_type.as_deref(), Some("text/plain"));
    assert_eq!(got[0].expiry_secs, Some(60));
    assert_eq!(got[0].user, [("k".to_owned(), "v:w".to_owned())]);
    let message = PublishOut {
        topic: "z",
        payload: b"x",
        content_type: Some("a/b"),
        expiry_secs: Some(9),
        ..PublishOut::default()
    };
    bed.mqtt_publish(device, &message);
    bed.zmtp_send(publisher, &[b"z", b"k:v\n", b"1", b"2"]);
    bed.zmtp_send(publisher, &[b"z 3"]);
    let expected: [&[&str]; 3] = [
        &["z", "content-type:a/b\nexpiry:9\n", "x"],
        &["z", "k:v\n", "1", "2"],
        &["z", "", "3"],
    ];
    assert_eq!(texts(&mut bed, subscriber), expected);
    bed.zmtp_send(push, &[b"k:v\n", b"job"]);
    let pull = bed.zmtp(SocketType::Pull);
    assert_eq!(texts(&mut bed, pull), [["k:v\n", "job"]]);
}

#[test]
fn sockets_that_announce_header_frames_have_them_and_others_none() {
    let mut bed = bed();
    let device = bed.mqtt("device");
    bed.mqtt_subscribe(device, "m/#", SubscribeOptions::default());
    let announcing = |bed: &mut Testbed, socket| {
        let client = Zmtp::announcing(NULL, socket, b"", &[(HEADER_FRAME, b"1")]);
        bed.connect_zmtp(client, Some(Access::ALL))
    };
    let with = announcing(&mut bed, SocketType::Sub);
    bed.zmtp_subscribe(with, b"m/");
    let without = sub(&mut bed, b"m/");
    let publisher = announcing(&mut bed, SocketType::Pub);
    bed.zmtp_send(publisher, &[b"m/1", b"k:v\n", b"1"]);
    let publisher = bed.zmtp(SocketType::Pub);
    bed.zmtp_send(publisher, &[b"m/2", b"k:v\n", b"2"]);
    let expected: [&[&str]; 2] = [&["m/1", "k:v\n", "1"], &["m/2", "", "k:v\n", "2"]];
    assert_eq!(texts(&mut bed, with), expected);
    let expected: [&[&str]; 2] = [&["m/1", "1"], &["m/2", "k:v\n", "2"]];
    assert_eq!(texts(&mut bed, without), expected);
    let got = bed.mqtt_got(device);
    assert_eq!(got[0].user, [("k".to_owned(), "v".to_owned())]);
    let payloads: Vec<&[u8]> = got.iter().map(|got| &*got.payload).collect();
    assert_eq!(payloads, [&b"1"[..], b"k:v\n2"]);
    bed.check();
}

#[test]
fn what_receivers_see_of_a_stamp_is_of_no_use_to_publish_under() {
    for socket in [SocketType::Pub, SocketType::Push] {
        let mut bed = bed();
        bed.settings.zmtp = Arc::new(ZmtpSettings {
            header_frame: true,
            ..ZmtpSettings::default()
        });
        let (victim, thief) = (bed.zmtp(socket), bed.zmtp(socket));
        let reader = match socket {
            SocketType::Pub => sub(&mut bed, b"a"),
            _ => bed.zmtp(SocketType::Pull),
        };
        let says = |bed: &mut Testbed, who, header: &str, text: &str| {
            let frames = [b"a", header.as_bytes(), text.as_bytes()];
            let skipped = usize::from(socket == SocketType::Push);
            bed.zmtp_send(who, &frames[skipped..]);
            let got = texts(bed, reader).pop();
            got.map(|frames| frames[1 - skipped].clone())
        };
        let seen = says(&mut bed, victim, "x-stamp:abc-1\n", "1").expect("it arrives");
        let seen = seen.strip_prefix("x-stamp:").expect("it is shown");
        let (number, sequence) = seen.split_once('-').expect("it is a stamp");
        assert_eq!((number == "abc", sequence), (false, "1\n"));
        // The other has the same user: it uses up what it takes for the publisher's sequences.
        let forged = says(
            &mut bed,
            thief,
            &format!("x-stamp:{number}-ffffffff\n"),
            "f",
        );
        let forged = forged.expect("it arrives");
        assert!(
            !forged.contains(number),
            "nor can it speak as the publisher"
        );
        assert_eq!(
            says(&mut bed, victim, "x-stamp:abc-2\n", "2"),
            Some(format!("x-stamp:{number}-2\n")),
            "the publisher's next message arrives"
        );
        assert_eq!(
            says(&mut bed, victim, "x-stamp:abc-2\n", "2"),
            None,
            "and is still taken once"
        );
        let damaged = says(&mut bed, victim, "x-stamp:no\nk:v\nx-stamp:abc-9\n", "3");
        assert_eq!(damaged.as_deref(), Some("k:v\n"));
    }
}

#[test]
fn what_has_no_address_is_refused_and_counted() {
    let mut bed = bed();
    let (publisher, subscriber) = (bed.zmtp(SocketType::Pub), sub(&mut bed, b""));
    bed.zmtp_send(publisher, &[b"", b"body"]);
    bed.zmtp_send(publisher, &[b" body"]);
    bed.zmtp_send(publisher, &[b"a", b"body"]);
    assert_eq!(texts(&mut bed, subscriber), [["a", "body"]]);
    assert_eq!(bed.sum(|kernel| kernel.ledger().refused), 2);
}

#[test]
fn more_subscriptions_than_a_session_may_have_are_not_in_force() {
    let mut bed = Testbed::new(Settings {
        limits: Limits {
            subscriptions_max: 2,
            ..Limits::default()
        },
        ..Settings::default()
    });
    let (publisher, subscriber) = (bed.zmtp(SocketType::Pub), sub(&mut bed, b"a"));
    for prefix in [b"b", b"c"] {
        bed.zmtp_subscribe(subscriber, prefix);
    }
    for first in [b"a", b"b", b"c"] {
        bed.zmtp_send(publisher, &[first, b"1"]);
    }
    assert_eq!(texts(&mut bed, subscriber), [["a", "1"], ["b", "1"]]);
}

#[test]
fn a_large_message_leaves_no_memory_behind_that_is_not_counted() {
    let mut bed = bed();
    let (publisher, subscriber) = (bed.zmtp(SocketType::Pub), sub(&mut bed, b""));
    let before = bed.link(publisher).expect("it is open").buffered();
    // A frame of 512 KiB to which more belongs, a PING, and the last frame.
    bed.says(publisher, |client, up| {
        let traffic = client.traffic.as_mut().expect("it is open");
        traffic.frame(b"a", true, up);
        traffic.frame(&[b'x'; 512 << 10], true, up);
        traffic.ping(0, b"", up);
    });
    assert!(bed.link(publisher).expect("it is open").buffered() > 512 << 10);
    bed.says(publisher, |client, up| {
        let traffic = client.traffic.as_mut().expect("it is open");
        traffic.frame(b"last", false, up);
    });
    assert_eq!(bed.zmtp_got(subscriber).len(), 1);
    let after = bed.link(publisher).expect("it is open").buffered();
    assert!(after <= before + (64 << 10), "{before} {after}");
}
