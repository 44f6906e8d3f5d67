//! What is there, as the interface shows it: queues, exchanges, listeners, the configuration.

use super::*;
use std::net::UdpSocket;

#[test]
fn queues_and_exchanges_are_listed_with_what_they_hold_and_where_it_goes() {
    let broker = Broker::with(None, &["tenants=plant"]);
    let mut amqp = Amqp::connect(broker.address("amqp"), 0);
    amqp.declare_queue("jobs");
    amqp.declare_queue("jobs.late");
    amqp.bind("jobs", "amq.topic", "road.#");
    amqp.publish("", "jobs", b"one");
    let connections = broker.get("/v1/connections?listener=amqp");
    assert_eq!(connections["items"][0]["connection_name"], "tests");
    let properties = json!({"connection_name": "tests", "product": "by hand"});
    assert_eq!(connections["items"][0]["client_properties"], properties);
    let mut other = Amqp::connect_to(broker.address("amqp"), "plant", 0);
    other.declare_queue("jobs");
    // Messages from anywhere go into queues that want them.
    broker.publish(&json!({"topic": "road/a1", "payload": "four", "qos": 1}));

    let settled = |page: &Value| page["items"][0]["messages"] == 2;
    let queues = until(|| Some(broker.get("/v1/queues")).filter(settled));
    assert_eq!(names(&queues, "queue"), ["jobs", "jobs.late", "jobs"]);
    assert_eq!(names(&queues, "tenant"), ["/", "/", "plant"]);
    let first = &queues["items"][0];
    assert_eq!(
        (&first["address"], &first["bytes"], &first["came"]),
        (&json!("$q/jobs"), &json!(7), &json!(2))
    );
    assert_eq!(
        (&first["unsettled"], &first["consumers"], &first["went"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!(
        (&first["durable"], &first["exclusive_to"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(first["limits"]["overflow"], "drop-head");
    assert_eq!(
        names(&broker.get("/v1/queues?queue=jobs.*"), "queue"),
        ["jobs.late"]
    );
    assert_eq!(
        names(&broker.get("/v1/queues?tenant=plant"), "address"),
        ["$q@plant/jobs"]
    );
    assert_eq!(broker.get("/v1/queues?limit=1")["total"], 3);
    assert_eq!(broker.refused("GET", "/v1/queues?client=a", &[], b""), 400);

    let exchanges = broker.get("/v1/exchanges?tenant=/");
    let kinds: Vec<String> = names(&exchanges, "exchange")
        .into_iter()
        .zip(names(&exchanges, "kind"))
        .map(|(n, k)| n + " " + &k)
        .collect();
    for wanted in [
        "amq.direct direct",
        "amq.fanout fanout",
        "amq.headers headers",
        "amq.topic topic",
    ] {
        assert_eq!(
            kinds.iter().filter(|kind| *kind == wanted).count(),
            1,
            "{wanted} in {kinds:?}"
        );
    }
    let topic = &broker.get("/v1/exchanges?exchange=amq.topic")["items"][0];
    assert_eq!(topic["bindings"], 1);
    assert_eq!(
        topic["bound"],
        json!([{"to": "$q/jobs", "key": "road.#", "arguments": {}}])
    );

    let sessions = broker.get("/v1/sessions");
    assert_eq!(names(&sessions, "dialect"), ["AMQP 0-9-1"; 2]);
    let books = broker.get("/v1/ledger");
    assert_eq!(
        (&books["copies"]["waiting"], &books["copies"]["unaccounted"]),
        (&json!(2), &json!(0))
    );
    let (_, metrics) = broker.ask("GET", "/metrics", &[], b"");
    for line in [
        "thalweg_queues 3",
        "thalweg_queues_messages 2",
        "thalweg_queues_payload_bytes 7",
        "thalweg_queue_messages{queue=\"$q/jobs\"} 2",
        "thalweg_bindings 1",
        "thalweg_protocol_connections{protocol=\"AMQP 0-9-1\"} 2",
    ] {
        assert!(
            metrics.lines().any(|there| there == line),
            "{line} is not in\n{metrics}"
        );
    }
    let filter = [amqp::short("x-filter"), b"S".to_vec(), amqp::long(b"n > 3")].concat();
    amqp.consume_with("jobs.late", &filter);
    let late = broker.get("/v1/queues?queue=jobs.late");
    let client = &connections["items"][0]["client"];
    let filters = &late["items"][0]["filters"];
    assert_eq!(*filters, json!([{"client": client, "filter": "n > 3"}]));
    let trace = broker.get("/v1/trace?topic=$q/jobs.late&headers=n:3");
    let row = trace["rows"].as_array().and_then(|rows| {
        let mut rows = rows.iter().filter_map(|row| row["decision"].as_str());
        rows.find(|decision| decision.ends_with("does not pass the filter n > 3"))
    });
    assert!(row.is_some(), "{trace}");
    let limits = broker.get("/v1/limits");
    let used = |key: &str| {
        let rows = limits["items"].as_array().expect("a list");
        rows.iter()
            .find(|row| row["key"] == key)
            .map(|row| row["used"].clone())
    };
    assert_eq!(
        (used("queues.count_max"), used("queues.messages_max")),
        (Some(json!(3)), Some(json!(2)))
    );
    let documents = include_str!("../../../../docs/admin-api.md");
    for page in [&queues, &late, &exchanges, &broker.get("/v1/exchanges")] {
        documented(page, documents);
    }
}

#[test]
fn the_configuration_in_force_is_shown_without_secrets() {
    let broker = Broker::with(None, &["admin.read_token=a-token-of-some-length"]);
    let shown = broker.get("/v1/config");
    let value = |name: &str| shown["values"][name].as_str().expect("a value").to_owned();
    assert_eq!(value("admin.read_token"), "\"(hidden)\"");
    assert_eq!(value("admin.token"), "");
    assert_eq!(value("listeners.mqtt.kind"), "\"mqtt\"");
}

#[test]
fn listeners_are_shown_with_what_came_in_datagrams() {
    let broker = Broker::with(None, &["listeners.coap.bind=127.0.0.1:0"]);
    let listeners = broker.get("/v1/listeners");
    documented(&listeners, include_str!("../../../../docs/admin-api.md"));
    assert_eq!(names(&listeners, "listener"), ["amqp", "coap", "mqtt"]);
    let coap = &listeners["items"][1];
    assert_eq!(
        (&coap["kind"], &coap["transport"], &coap["anonymous"]),
        (&json!("coap"), &json!("udp"), &json!(true))
    );
    assert_eq!(
        (
            &coap["datagrams"]["sockets"],
            &coap["datagrams"]["received"]
        ),
        (&json!(2), &json!(0))
    );
    assert!(listeners["items"][2].get("datagrams").is_none());
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    peer.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    // An empty confirmable message, which is answered with a reset. RFC 7252 §4.3
    peer.send_to(
        &[0x40, 0, 1, 2],
        coap["address"].as_str().expect("an address"),
    )
    .expect("sent");
    let mut answer = [0; 10];
    let count = peer.recv(&mut answer).expect("an answer");
    assert_eq!(answer.get(..count), Some(&[0x70, 0, 1, 2][..]));
    // The answer arrives a moment before it is counted.
    let deadline = Instant::now() + PATIENCE;
    let counts = loop {
        let counts = broker.get("/v1/listeners")["items"][1]["datagrams"].clone();
        if counts["sent"] == 1 || Instant::now() > deadline {
            break counts;
        }
    };
    assert_eq!(
        (&counts["received"], &counts["sent"], &counts["unsent"]),
        (&json!(1), &json!(1), &json!(0))
    );
    let (_, metrics) = broker.ask("GET", "/metrics", &[], b"");
    for line in [
        "thalweg_datagrams_received_total{listener=\"coap\"} 1",
        "thalweg_datagrams_sent_bytes_total{listener=\"coap\"} 4",
    ] {
        assert!(
            metrics.lines().any(|there| there == line),
            "{line} is not in\n{metrics}"
        );
    }
}

#[test]
fn observations_are_listed_with_what_they_asked_for_and_what_they_are_offered() {
    let more = [
        "listeners.coap.enabled=true",
        "listeners.coap.bind=127.0.0.1:0",
        "coap.observe_empty=true",
        "policy=[{ filter = \"a\", reliability_max = \"at-most-once\" }]",
    ];
    let broker = Broker::with(None, &more);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    for (token, query) in [(1, "qos=1"), (2, "qos=1"), (3, "qos=0")] {
        // CON GET /ps/data/a?qos=…, Observe 0
        let head = [0x41, 0x01, 0, token, token, 0x60];
        let path = [&b"\x52ps\x04data\x01a\x45"[..], query.as_bytes()].concat();
        let request = [&head[..], &path].concat();
        socket
            .send_to(&request, broker.address("coap"))
            .expect("sent");
        let mut answer = [0; 64];
        let (_, _) = socket.recv_from(&mut answer).expect("an answer");
        assert_eq!(answer[1], 0x45, "2.05");
    }
    // Each shard has a session beside it, for topics and answers.
    let sessions = broker.get("/v1/sessions");
    let mut sessions = sessions["items"].as_array().into_iter().flatten();
    let of_client = sessions.find(|it| it["dialect"] == "CoAP");
    let client = of_client.and_then(|it| it["client"].as_str());
    let client = client.expect("a name");
    let mut rows = Vec::new();
    let mut path = "/v1/subscriptions?topic=a&limit=1".to_owned();
    while let page @ Value::Object(_) = broker.get(&path) {
        assert_eq!(page["total"], 3);
        rows.push(page["items"][0].clone());
        match page["next"].as_str() {
            Some(next) => path = next.to_owned(),
            None => break,
        }
    }
    let of = |key: &str| rows.iter().map(|row| &row[key]).collect::<Vec<_>>();
    assert_eq!(of("client"), [client; 3]);
    assert_eq!(of("filter"), ["a"; 3]);
    assert_eq!(of("qos"), [1, 1, 0]);
    assert_eq!(of("qos_offered"), [0; 3]);
    let numbers: BTreeSet<u64> = of("observation")
        .iter()
        .filter_map(|it| it.as_u64())
        .collect();
    assert_eq!(numbers.len(), 3);
    let one = broker.get(&format!("/v1/session/{client}"));
    assert_eq!(one["subscriptions"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        names(&broker.get("/v1/subscriptions?topic=b"), "filter"),
        [""; 0]
    );
    let metrics = broker.ask("GET", "/metrics", &[], b"").1;
    assert!(metrics.contains("\nthalweg_subscriptions_downgraded_total 2\n"));
}
