//! One content filter gives the same result for a message, whatever protocol publishes and subscribes: live, as a last
//! value, for messages that wait while their receiver is away, and after a restart.

use crate::peer::{Place, Stage};
use crate::read::coap_deliveries;
use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_amqp::methods::{basic, queue};
use thalweg_amqp::{BasicProperties, FieldValue, Method, TableWriter};
use thalweg_coap::stream::StreamSettings;
use thalweg_fronts::zmtp::ZmtpSettings;
use thalweg_kernel::Limits;
use thalweg_kernel::access::Access;
use thalweg_mqtt::{ConnectOut, PublishOut, QoS, ReasonCode, SubscribeOptions, SubscribeOut};
use thalweg_stomp::SendOut;
use thalweg_testbed::amqp::{Amqp, Hello};
use thalweg_testbed::coap::CoapStream;
use thalweg_testbed::disk::Loss;
use thalweg_testbed::mqtt::{Mqtt, Packet};
use thalweg_testbed::stomp::Stomp;
use thalweg_testbed::xmpp::{Xmpp, items};
use thalweg_testbed::zmtp::Zmtp;
use thalweg_testbed::{Random, Settings, Testbed, Who};
use thalweg_zmtp::SocketType;

const SEED: u64 = 23;
const ADDRESS: &str = "a/b";
const COLOURS: [&str; 3] = ["red", "green", "blue"];

/// Published messages; each number is in the payload.
#[derive(Clone, Copy, Debug)]
struct Sample {
    number: usize,
    n: Option<i32>,
    colour: Option<&'static str>,
    temp: i32,
}

impl Sample {
    fn by_chance(number: usize, random: &mut Random) -> Sample {
        Sample {
            number,
            n: (!random.one_in(4)).then(|| random.below(6) as i32),
            colour: (!random.one_in(4)).then(|| *random.pick(&COLOURS)),
            temp: random.below(30) as i32,
        }
    }

    fn payload(&self) -> String {
        format!(
            r#"{{"number": {}, "sensor": {{"temp": {}}}}}"#,
            self.number, self.temp
        )
    }

    fn headers(&self) -> Vec<(String, String)> {
        let n = self.n.map(|n| ("n".to_owned(), n.to_string()));
        let colour = self.colour.map(|it| ("colour".to_owned(), it.to_owned()));
        n.into_iter().chain(colour).collect()
    }
}

type Says = Box<dyn Fn(&Sample) -> Option<bool>>;

/// A filter, and its meaning as a Rust function.
fn filter(random: &mut Random, depth: usize) -> (String, Says) {
    let number = random.below(6) as i32;
    match random.below(if depth == 0 { 5 } else { 8 }) {
        0 => (
            format!("n > {number}"),
            Box::new(move |it| Some(it.n? > number)),
        ),
        1 => (
            format!("n = {number}"),
            Box::new(move |it| Some(it.n? == number)),
        ),
        2 => {
            let colour = *random.pick(&COLOURS);
            let says = move |it: &Sample| Some(it.colour? == colour);
            (format!("colour = '{colour}'"), Box::new(says))
        }
        3 => {
            let limit = 5 * number;
            let says = move |it: &Sample| Some(it.temp >= limit);
            (format!("payload.sensor.temp >= {limit}"), Box::new(says))
        }
        4 => (
            "colour IS NULL".to_owned(),
            Box::new(|it| Some(it.colour.is_none())),
        ),
        5 => {
            let (text, says) = filter(random, depth - 1);
            (
                format!("NOT ({text})"),
                Box::new(move |it| Some(!says(it)?)),
            )
        }
        which => {
            let ((a, left), (b, right)) = (filter(random, depth - 1), filter(random, depth - 1));
            let (word, decides) = if which == 6 {
                ("AND", false)
            } else {
                ("OR", true)
            };
            let says = move |it: &Sample| match (left(it), right(it)) {
                (Some(truth), _) | (_, Some(truth)) if truth == decides => Some(decides),
                (Some(_), Some(_)) => Some(!decides),
                _ => None,
            };
            (format!("({a}) {word} ({b})"), Box::new(says))
        }
    }
}

struct Clients {
    mqtt: Who<Mqtt>,
    stomp: Who<Stomp>,
    amqp: Who<Amqp>,
}

fn device(bed: &mut Testbed, client_id: &str, expiry: u32, clean_start: bool) -> Who<Mqtt> {
    let connect = ConnectOut {
        client_id,
        clean_start,
        session_expiry: expiry,
        ..ConnectOut::default()
    };
    let who = bed.open_mqtt(&connect, Some(Access::ALL));
    bed.rest();
    who
}

impl Clients {
    fn connect(bed: &mut Testbed) -> Clients {
        let hello = Hello {
            channel: 1,
            ..Hello::default()
        };
        let mqtt = device(bed, "publisher", 0, true);
        let stomp = bed.open_stomp(&thalweg_stomp::ConnectOut::default(), Some(Access::ALL));
        let amqp = bed.open_amqp(&hello, Some(Access::ALL));
        bed.rest();
        Clients { mqtt, stomp, amqp }
    }

    /// Publishes by the protocol that is next.
    fn publish(&self, bed: &mut Testbed, sample: &Sample) {
        let (payload, headers) = (sample.payload(), sample.headers());
        match sample.number % 3 {
            0 => {
                let publish = PublishOut {
                    topic: ADDRESS,
                    payload: payload.as_bytes(),
                    qos: QoS::AtLeastOnce,
                    user: Some(&headers),
                    ..PublishOut::default()
                };
                bed.mqtt_publish(self.mqtt, &publish);
            }
            1 => {
                let send = SendOut {
                    destination: "/topic/a.b",
                    body: payload.as_bytes(),
                    ..SendOut::default()
                };
                bed.says(self.stomp, |client, up| {
                    let more = |writer: &mut thalweg_stomp::HeaderWriter<'_>| {
                        assert!(writer.put("persistent", "true"));
                        for (name, value) in &headers {
                            assert!(writer.put(name, value));
                        }
                    };
                    client.side.send(&send, more, up)
                });
            }
            _ => {
                let mut buffer = Vec::new();
                let mut writer = TableWriter::new(&mut buffer);
                if let Some(n) = sample.n {
                    writer.value("n", FieldValue::I32(n));
                }
                if let Some(colour) = sample.colour {
                    writer.str("colour", colour);
                }
                let properties = BasicProperties {
                    headers: Some(writer.finish()),
                    delivery_mode: Some(2),
                    ..BasicProperties::default()
                };
                let publish = basic::Publish {
                    exchange: "amq.topic",
                    routing_key: "a.b",
                    ..Default::default()
                };
                bed.amqp_publish(self.amqp, &publish, &properties, payload.as_bytes());
            }
        }
    }
}

fn subscribe(bed: &mut Testbed, who: Who<Mqtt>, topic: &str, filter: &str) -> Vec<ReasonCode> {
    let options = SubscribeOptions {
        qos: QoS::AtLeastOnce,
        ..SubscribeOptions::default()
    };
    let user = [("filter", filter)];
    bed.client(who).said.clear();
    bed.says(who, |client, up| {
        let subscribe = SubscribeOut {
            id: 9000,
            filters: &[(topic, options)],
            user: Some(&user),
            ..SubscribeOut::default()
        };
        client.side.subscribe(&subscribe, up).expect("connected");
    });
    match bed.client(who).said.pop_front() {
        Some(Packet::SubAck { codes, .. }) => codes,
        other => panic!("{other:?}"),
    }
}

fn bind(bed: &mut Testbed, who: Who<Amqp>, name: &str, filter: &str) {
    let declare = queue::Declare {
        queue: name,
        durable: true,
        ..Default::default()
    };
    bed.amqp_call(who, &Method::QueueDeclare(declare));
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    writer.str("x-filter", filter);
    let bind = queue::Bind {
        queue: name,
        exchange: "amq.topic",
        routing_key: "a.b",
        arguments: writer.finish(),
        ..Default::default()
    };
    bed.amqp_call(who, &Method::QueueBind(bind));
}

/// Observes the address over CoAP; what it is answered.
fn observe(bed: &mut Testbed, filter: &str) -> (Who<CoapStream>, String) {
    let who = bed.open_coap(0, Some(Access::ALL));
    let query: String = filter.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let line = format!("GET /ps/data/{ADDRESS}?queue=100&filter={query} observe=0");
    bed.says(who, |client, up| {
        client.csm(StreamSettings::default(), up);
        let request = client.request(&line);
        up.extend(request);
    });
    let answer = bed.client(who).heard();
    let words = answer.iter().map(|heard| {
        let payload = String::from_utf8_lossy(&heard.payload);
        format!("{} {payload}", heard.code)
    });
    (who, words.collect())
}

/// Subscribes a socket to a prefix.
fn listen_by_zmtp(bed: &mut Testbed, prefix: &str, filter: &str) -> Who<Zmtp> {
    let who = bed.zmtp(SocketType::Xsub);
    bed.zmtp_subscribe(who, format!("{prefix}\0{filter}").as_bytes());
    who
}

fn got_by_zmtp(bed: &mut Testbed, who: Who<Zmtp>) -> Vec<usize> {
    let got = bed.zmtp_got(who);
    numbers(got.iter().map(|frames| &frames[1][..]))
}

/// The action that subscribes to the node of the address, or changes the options of that.
fn options(filter: &str) -> String {
    let filter = filter.replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<options node='{ADDRESS}' jid='JID'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#subscribe_options</value></field><field var='x-filter'><value>{filter}</value></field></x></options>"
    )
}

fn subscribe_by_xmpp(bed: &mut Testbed, who: Who<Xmpp>, filter: &str) -> String {
    let subscribe = bed.client(who).subscribe(ADDRESS);
    let jid = bed.client(who).jid.clone().expect("bound");
    let action = format!("{subscribe}{}", options(filter).replace("JID", &jid));
    bed.xmpp_pubsub(who, "set", &action)
}

fn got_by_xmpp(bed: &mut Testbed, who: Who<Xmpp>) -> Vec<usize> {
    let stanzas = bed.xmpp_got(who);
    let items: Vec<_> = stanzas.iter().flat_map(|stanza| items(stanza)).collect();
    numbers(items.iter().map(|item| &item.payload[..]))
}

fn numbers<'a>(payloads: impl Iterator<Item = &'a [u8]>) -> Vec<usize> {
    payloads
        .map(|payload| {
            let text = String::from_utf8_lossy(payload).into_owned();
            let digits = text.trim_start_matches(r#"{"number": "#);
            digits
                .split([',', '}'])
                .next()
                .and_then(|it| it.parse().ok())
                .expect("a number")
        })
        .collect()
}

fn got_by_mqtt(bed: &mut Testbed, who: Who<Mqtt>) -> Vec<usize> {
    let got = bed.mqtt_got(who);
    numbers(got.iter().map(|it| &it.payload[..]))
}

fn stage(shards: u16) -> Stage {
    Stage::with(Settings {
        shards,
        limits: Limits {
            journal: true,
            ..Limits::default()
        },
        zmtp: Arc::new(ZmtpSettings {
            filters: true,
            ..ZmtpSettings::default()
        }),
        ..Settings::default()
    })
}

#[test]
fn one_filter_says_the_same_whoever_asks_and_whenever() {
    let mut random = Random(SEED);
    let mut passed = 0;
    for round in 0..12 {
        let shards = 1 + round % 2;
        let mut stage = stage(shards as u16);
        let (text, says) = filter(&mut random, 2);
        let bed = &mut stage.bed;
        let clients = Clients::connect(bed);
        let names = [0, 1].map(|shard| bed.name_on("device", shard % shards));
        let live = device(bed, &names[0], 3600, true);
        let away = device(bed, &format!("{}-away", names[1]), 3600, true);
        for who in [live, away] {
            assert_eq!(
                subscribe(bed, who, "a/#", &text),
                [ReasonCode::GrantedQos1],
                "{text}"
            );
        }
        bind(bed, clients.amqp, "bound", &text);
        let headers = [("selector", &*text)];
        let listen = thalweg_stomp::SubscribeOut {
            id: Some("s"),
            destination: "/topic/a.b",
            headers: &headers,
            ..thalweg_stomp::SubscribeOut::default()
        };
        bed.says(clients.stomp, |client, up| {
            client.side.subscribe(&listen, up)
        });
        let (observer, _) = observe(bed, &text);
        let socket = listen_by_zmtp(bed, "a/", &text);
        let contact = bed.xmpp();
        let subscribed = subscribe_by_xmpp(bed, contact, &text);
        assert!(subscribed.contains("type='result'"), "{subscribed}");
        bed.lose(away);
        let samples: Vec<Sample> = (0..24)
            .map(|at| Sample::by_chance(at, &mut random))
            .collect();
        let expected = |from: usize, to: usize| -> Vec<usize> {
            let wanted = samples[from..to].iter().filter(|it| says(it) == Some(true));
            wanted.map(|it| it.number).collect()
        };
        for sample in &samples[..12] {
            clients.publish(bed, sample);
        }
        passed += expected(0, 12).len();
        let what = format!("seed {SEED}, round {round}: {text}");
        assert_eq!(got_by_mqtt(bed, live), expected(0, 12), "MQTT, {what}");
        let got: Vec<_> = bed.client(clients.stomp).got.drain(..).collect();
        assert_eq!(
            numbers(got.iter().map(|it| &it.body[..])),
            expected(0, 12),
            "STOMP, {what}"
        );
        let heard = coap_deliveries(bed.client(observer).heard());
        let observed = numbers(heard.iter().map(|it| it.body.as_bytes()));
        assert_eq!(observed, expected(0, 12), "CoAP, {what}");
        assert_eq!(got_by_zmtp(bed, socket), expected(0, 12), "ZMTP, {what}");
        assert_eq!(got_by_xmpp(bed, contact), expected(0, 12), "XMPP, {what}");
        // Another process: what waited is there, and subscriptions and bindings have their filters.
        bed.crash(Loss::Process, shards as u16, |_| ());
        let clients = Clients::connect(&mut stage.bed);
        for sample in &samples[12..] {
            clients.publish(&mut stage.bed, sample);
        }
        let back = device(&mut stage.bed, &format!("{}-away", names[1]), 3600, false);
        let mut waited = got_by_mqtt(&mut stage.bed, back);
        waited.sort_unstable();
        assert_eq!(waited, expected(0, 24), "MQTT after a restart, {what}");
        let reader = stage.connect(crate::peer::Protocol::Amqp, "reader");
        stage.ask(reader, Place::Queue("bound"));
        let bodies = stage.bodies(reader);
        let queued: BTreeSet<usize> = numbers(bodies.iter().map(|it| it.as_bytes()))
            .into_iter()
            .collect();
        assert_eq!(
            queued,
            expected(0, 24).into_iter().collect(),
            "AMQP, {what}"
        );
    }
    assert!(passed > 20, "{passed}");
}

#[test]
fn last_values_pass_a_filter_too() {
    let mut bed = stage(2).bed;
    let publisher = device(&mut bed, "publisher", 0, true);
    for (topic, payload) in [
        ("r/1", r#"{"t": 1}"#),
        ("r/2", r#"{"t": 2}"#),
        ("r/3", "none"),
    ] {
        let publish = PublishOut {
            topic,
            payload: payload.as_bytes(),
            retain: true,
            ..PublishOut::default()
        };
        bed.mqtt_publish(publisher, &publish);
    }
    let who = device(&mut bed, "late", 0, true);
    for (filter, expected) in [
        ("payload.t > 1", &["r/2"][..]),
        ("payload.t IS NULL", &["r/3"]),
    ] {
        assert_eq!(
            subscribe(&mut bed, who, "r/#", filter),
            [ReasonCode::GrantedQos1]
        );
        let topics: Vec<_> = bed.mqtt_got(who).into_iter().map(|it| it.topic).collect();
        assert_eq!(
            topics, expected,
            "the later filter stands in place of the first"
        );
    }
    let publish = PublishOut {
        topic: "r/2",
        payload: br#"{"t": 3}"#,
        ..PublishOut::default()
    };
    bed.mqtt_publish(publisher, &publish);
    assert!(bed.mqtt_got(who).is_empty());
}

#[test]
fn what_is_no_filter_is_refused() {
    let mut bed = stage(1).bed;
    let who = device(&mut bed, "c", 0, true);
    let refused = [ReasonCode::TopicFilterInvalid];
    for filter in ["$share/g/$q/a", "$share/g/a", "a"] {
        assert_eq!(subscribe(&mut bed, who, filter, "n >"), refused);
        let granted = [ReasonCode::GrantedQos1];
        assert_eq!(subscribe(&mut bed, who, filter, "n > 1"), granted);
    }
    let (_, answer) = observe(&mut bed, "n >");
    assert!(
        answer.contains("4.00") && answer.contains("wrong at byte 3"),
        "{answer}"
    );
    let contact = bed.xmpp();
    let answer = subscribe_by_xmpp(&mut bed, contact, "n >");
    assert!(
        answer.contains("<invalid-options") && answer.contains("at byte 3:"),
        "{answer}"
    );
    let socket = listen_by_zmtp(&mut bed, "a", "n >");
    assert!(bed.is_closed(socket));
}

#[test]
fn an_observer_gets_the_last_value_that_passes_and_hears_that_it_is_gone() {
    let mut bed = stage(2).bed;
    let publisher = device(&mut bed, "publisher", 0, true);
    let publish = |bed: &mut Testbed, payload: &str| {
        let publish = PublishOut {
            topic: ADDRESS,
            payload: payload.as_bytes(),
            retain: true,
            ..PublishOut::default()
        };
        bed.mqtt_publish(publisher, &publish);
    };
    publish(&mut bed, r#"{"number": 1, "t": 1}"#);
    let (none, answer) = observe(&mut bed, "payload.t > 1");
    assert!(!answer.contains("number"), "{answer}");
    let (one, answer) = observe(&mut bed, "payload.t = 1");
    assert!(answer.contains(r#""number": 1"#), "{answer}");
    let mut expect = |payload: &str, expected: [&[&str]; 2]| {
        publish(&mut bed, payload);
        for (who, expected) in [none, one].into_iter().zip(expected) {
            let heard = bed.client(who).heard();
            let codes: Vec<String> = heard.iter().map(|it| it.code.to_string()).collect();
            assert_eq!(codes, expected, "{payload}");
        }
    };
    expect(r#"{"number": 2, "t": 2}"#, [&["2.05"], &[]]);
    expect(r#"{"number": 3, "t": 1}"#, [&[], &["2.05"]]);
    expect("", [&["4.04"], &["4.04"]]);
}

#[test]
fn filters_of_one_prefix_stand_side_by_side() {
    let mut bed = stage(1).bed;
    let publisher = device(&mut bed, "publisher", 0, true);
    let publish = |bed: &mut Testbed, n: usize| {
        let payload = format!(r#"{{"number": {n}}}"#);
        let publish = PublishOut {
            topic: ADDRESS,
            payload: payload.as_bytes(),
            ..PublishOut::default()
        };
        bed.mqtt_publish(publisher, &publish);
    };
    let socket = listen_by_zmtp(&mut bed, "a/", "payload.number < 2");
    bed.zmtp_subscribe(socket, b"a/\0payload.number > 3");
    (0..6).for_each(|n| publish(&mut bed, n));
    assert_eq!(got_by_zmtp(&mut bed, socket), [0, 1, 4, 5]);
    bed.zmtp_subscribe(socket, b"a/");
    (0..6).for_each(|n| publish(&mut bed, n));
    assert_eq!(got_by_zmtp(&mut bed, socket), [0, 1, 2, 3, 4, 5]);
    bed.says(socket, |client, up| {
        client.cancel(b"a/", up);
        client.cancel(b"a/\0payload.number < 2", up);
    });
    (0..6).for_each(|n| publish(&mut bed, n));
    assert_eq!(got_by_zmtp(&mut bed, socket), [4, 5]);
    bed.says(socket, |client, up| {
        client.cancel(b"a/\0payload.number > 3", up)
    });
    (0..6).for_each(|n| publish(&mut bed, n));
    assert!(bed.zmtp_got(socket).is_empty());
}

#[test]
fn a_subscription_of_xmpp_can_have_another_filter() {
    let mut bed = stage(1).bed;
    let publisher = device(&mut bed, "publisher", 0, true);
    let contact = bed.xmpp();
    let jid = bed.client(contact).jid.clone().expect("bound");
    subscribe_by_xmpp(&mut bed, contact, "payload.number > 3");
    let mut get = |filter: Option<&str>| {
        if let Some(filter) = filter {
            let action = options(filter).replace("JID", &jid);
            let answer = bed.xmpp_pubsub(contact, "set", &action);
            assert!(answer.contains("type='result'"), "{answer}");
        }
        let action = format!("<options node='{ADDRESS}' jid='{jid}'/>");
        let answer = bed.xmpp_pubsub(contact, "get", &action);
        for n in 0..6 {
            let payload = format!(r#"{{"number": {n}}}"#);
            let publish = PublishOut {
                topic: ADDRESS,
                payload: payload.as_bytes(),
                ..PublishOut::default()
            };
            bed.mqtt_publish(publisher, &publish);
        }
        (answer, got_by_xmpp(&mut bed, contact))
    };
    let (answer, got) = get(None);
    assert!(
        answer.contains("<value>payload.number &gt; 3</value>"),
        "{answer}"
    );
    assert_eq!(got, [4, 5]);
    assert_eq!(get(Some("payload.number = 1")).1, [1]);
    assert_eq!(get(Some("")).1, [0, 1, 2, 3, 4, 5]);
}
