//! The interface of a real broker in this process, asked over real sockets; its clients speak MQTT by hand.

#[path = "../../../thalweg-server/tests/sockets/support/amqp.rs"]
mod amqp;

mod audit;
mod shown;

use amqp::Amqp;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use thalweg_admin::{AdminHandle, AdminSettings, AdminTokens, start};
use thalweg_server::Server;
use thalweg_server::config::Config;

/// Longer than anything here takes; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A broker with two shards and its interface.
struct Broker {
    /// Before the server, which it looks into.
    admin: AdminHandle,
    server: Server,
    token: Option<&'static str>,
    /// Goes last, when nothing writes there any more.
    folder: Folder,
}

/// A folder of its own for each broker, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "thalweg-admin-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Broker {
    fn start(token: Option<&'static str>) -> Self {
        Broker::with(token, &[])
    }

    fn with(token: Option<&'static str>, more: &[&str]) -> Self {
        let folder = Folder::new();
        let sets = [
            "shards=2",
            "listeners.mqtt.bind=127.0.0.1:0",
            "listeners.amqp.bind=127.0.0.1:0",
            "listeners.websocket.enabled=false",
            "sys.interval=1h",
        ];
        let mut sets: Vec<String> = sets
            .iter()
            .chain(more)
            .map(|set| (*set).to_owned())
            .collect();
        sets.push(format!("data_dir={}", folder.file("data").display()));
        let (config, _) =
            Config::from_text(None, std::iter::empty(), &sets).expect("a legal configuration");
        let server = Server::start(config).expect("a server");
        let bind = SocketAddr::from(([127, 0, 0, 1], 0));
        let tokens = AdminTokens {
            admin: token.map(str::to_owned),
            read: None,
        };
        let settings = AdminSettings {
            tokens,
            ..AdminSettings::open(bind)
        };
        let admin = start(server.observer(), settings).expect("an admin interface");
        Broker {
            server,
            admin,
            token,
            folder,
        }
    }

    /// Sends a request as it stands, with what HTTP asks for around it.
    fn ask(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.admin.local_addr()).expect("a connection");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a time limit");
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        for header in headers {
            head.push_str(&format!("{header}\r\n"));
        }
        if let Some(token) = self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        stream.write_all(head.as_bytes()).expect("the head leaves");
        // A body that is refused may not be read to its end.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .expect("a status");
        (status, body.to_owned())
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, &[], b"");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// The status of a request that is refused; the body must say why and how to mend it.
    fn refused(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> u16 {
        let (status, body) = self.ask(method, path, headers, body);
        let fault: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}"));
        assert!(
            fault["error"].is_string() && fault["mend"].is_string(),
            "{path}: {body}"
        );
        status
    }

    fn publish(&self, letter: &Value) -> Value {
        let letter = letter.to_string();
        let (status, body) = self.ask(
            "POST",
            "/v1/publish",
            &["Content-Type: application/json"],
            letter.as_bytes(),
        );
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    fn address(&self, listener: &str) -> &str {
        let (_, address) = self
            .server
            .listening()
            .iter()
            .find(|(name, _)| name == listener)
            .expect("a listener");
        address
    }

    fn client(&self, name: &str) -> Client {
        Client::connect(self.address("mqtt").parse().expect("an address"), name)
    }
}

/// An MQTT 3.1.1 client, byte by byte.
struct Client {
    stream: TcpStream,
}

impl Client {
    /// With clean session 0, so that its session outlives it.
    fn connect(address: SocketAddr, name: &str) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a time limit");
        let mut client = Client { stream };
        let mut body = b"\x00\x04MQTT\x04\x00\x00\x3C".to_vec();
        text(&mut body, name);
        client.send(0x10, &body);
        let (kind, body) = client.receive().expect("CONNACK");
        assert_eq!((kind, body.get(1)), (0x20, Some(&0)), "CONNACK refuses");
        client
    }

    fn subscribe(&mut self, filter: &str) {
        let mut body = vec![0, 1];
        text(&mut body, filter);
        body.push(1);
        self.send(0x82, &body);
        assert_eq!(self.receive(), Some((0x90, vec![0, 1, 1])));
    }

    fn send(&mut self, first: u8, body: &[u8]) {
        let length = u8::try_from(body.len()).expect("a short packet");
        assert!(length < 128);
        self.stream
            .write_all(&[&[first, length], body].concat())
            .expect("a packet leaves");
    }

    /// The next packet; nothing at the end.
    fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).ok()?;
        let mut body = vec![0; usize::from(head[1])];
        self.stream.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }
}

fn text(into: &mut Vec<u8>, text: &str) {
    into.extend((text.len() as u16).to_be_bytes());
    into.extend(text.as_bytes());
}

fn names(page: &Value, field: &str) -> Vec<String> {
    let items = page["items"].as_array().expect("a list");
    items
        .iter()
        .map(|item| item[field].as_str().expect("a name").to_owned())
        .collect()
}

/// What `look` finds, as soon as it finds something.
fn until<T>(look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not come to pass");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn lists_show_the_clients_of_all_shards() {
    let broker = Broker::start(None);
    let mut clients: Vec<Client> = (0..6).map(|n| broker.client(&format!("car-{n}"))).collect();
    clients[0].subscribe("road/+/speed");
    clients[1].subscribe("$share/crew/road/#");
    clients[2].subscribe("$share/crew/road/#");

    let all = ["car-0", "car-1", "car-2", "car-3", "car-4", "car-5"];
    let sessions = broker.get("/v1/sessions");
    assert_eq!(names(&sessions, "client"), all);
    assert_eq!(
        (&sessions["total"], &sessions["next"]),
        (&json!(6), &Value::Null)
    );
    let shards: BTreeSet<u64> = sessions["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|s| s["shard"].as_u64())
        .collect();
    assert_eq!(shards.len(), 2, "both shards have clients");
    let connections = broker.get("/v1/connections?listener=mqtt");
    assert_eq!(names(&connections, "client"), all);
    assert_eq!(connections["items"][0]["transport"], "tcp");
    assert!(connections["items"][0]["bytes_in"].as_u64() > Some(0));

    // Page by page, following the hints.
    let mut path = "/v1/sessions?limit=4".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = broker.get(&path);
        seen.extend(names(&page, "client"));
        match page["next"].as_str() {
            Some(next) => path = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, all);
    assert_eq!(
        names(&broker.get("/v1/sessions?client=car-3"), "client"),
        ["car-3"]
    );
    assert_eq!(
        names(&broker.get("/v1/sessions?client=bus*"), "client"),
        [""; 0]
    );
    assert_eq!(
        names(&broker.get("/v1/sessions?filter=road/%2B/speed"), "client"),
        ["car-0"]
    );

    assert_eq!(
        names(
            &broker.get("/v1/subscriptions?topic=road/a1/speed"),
            "client"
        ),
        ["car-0", "car-1", "car-2"]
    );
    assert_eq!(
        names(&broker.get("/v1/subscriptions?filter=road/%23"), "client"),
        ["car-1", "car-2"]
    );
    let shared = broker.get("/v1/subscriptions?client=car-1");
    assert_eq!(
        (&shared["items"][0]["group"], &shared["items"][0]["qos"]),
        (&json!("crew"), &json!(1))
    );
    let groups = broker.get("/v1/groups");
    assert_eq!(groups["items"][0]["group"], "crew");
    assert_eq!(
        (
            &groups["items"][0]["filter"],
            &groups["items"][0]["members"]
        ),
        (&json!("road/#"), &json!(2))
    );
    assert_eq!(
        (
            &groups["items"][0]["strategy"],
            &groups["items"][0]["order"]
        ),
        (&json!("adaptive"), &Value::Null)
    );
    let seats = &groups["items"][0]["seats"];
    assert_eq!(
        (
            &seats[0]["client"],
            &seats[1]["client"],
            &seats[1]["online"]
        ),
        (&json!("car-1"), &json!("car-2"), &json!(true))
    );
    assert_eq!(
        names(&broker.get("/v1/groups?group=cr*"), "group"),
        ["crew"]
    );
    assert_eq!(
        broker.get("/v1/groups?group=crew&members=1")["items"][0]["seats_left_out"],
        1
    );
    assert_eq!(broker.get("/v1/groups?group=cre")["total"], 0);
    assert_eq!(
        broker.get("/v1/overview?groups=1")["busiest_groups"][0]["group"],
        "crew"
    );
    assert_eq!(broker.get("/v1/overview")["busiest_groups"], json!([]));
    assert_eq!(
        broker.refused("GET", "/v1/groups?limit=10000&members=11", &[], b""),
        400
    );
    assert_eq!(
        broker.refused("GET", "/v1/sessions?members=1", &[], b""),
        400
    );

    let one = broker.get("/v1/session/car-0");
    assert_eq!(one["session"]["connected"], true);
    assert_eq!(one["connection"]["listener"], "mqtt");
    assert_eq!(one["subscriptions"][0]["filter"], "road/+/speed");
    assert_eq!(broker.refused("GET", "/v1/session/nobody", &[], b""), 404);
    assert_eq!(
        broker.refused("GET", "/v1/groups?client=car-1", &[], b""),
        400
    );
}

#[test]
fn a_message_from_the_interface_reaches_subscribers_and_is_kept() {
    let broker = Broker::start(None);
    let mut clients: Vec<Client> = (0..4).map(|n| broker.client(&format!("car-{n}"))).collect();
    for client in &mut clients {
        client.subscribe("road/#");
    }
    let letter = json!({"topic": "road/a1", "payload": "icy", "qos": 1, "retain": true});
    assert_eq!(broker.publish(&letter)["published"], true);
    for client in &mut clients {
        let (kind, body) = client.receive().expect("PUBLISH");
        assert_eq!(kind & 0xF6, 0x32, "QoS 1");
        assert!(body.starts_with(b"\x00\x07road/a1") && body.ends_with(b"icy"));
    }
    let kept = broker.get("/v1/retained?filter=road/%2B");
    assert_eq!(
        (&kept["items"][0]["topic"], &kept["items"][0]["payload"]),
        (&json!("road/a1"), &json!("icy"))
    );
    assert_eq!(kept["is_whole"], true);

    // Copies that nobody has acknowledged are in flight, and on the books.
    let books = broker.get("/v1/ledger");
    assert_eq!(
        (&books["copies"]["routed"], &books["copies"]["in_flight"]),
        (&json!(4), &json!(4))
    );
    assert_eq!(books["copies"]["unaccounted"], 0);
    assert_eq!(broker.get("/v1/session/car-1")["queue"]["in_flight"], 1);
    let overview = broker.get("/v1/overview?sessions=2");
    assert_eq!(overview["longest_queues"].as_array().map(Vec::len), Some(2));
    assert_eq!(overview["sessions_online"], 4);

    let clear = json!({"topic": "road/a1", "retain": true});
    broker.publish(&clear);
    assert_eq!(
        broker.get("/v1/retained?filter=road/%2B")["items"],
        json!([])
    );
}

#[test]
fn books_are_kept_for_each_client_and_for_the_prefixes_that_have_some() {
    let broker = Broker::with(None, &["ledger.prefixes=road,road/a1,rail"]);
    let mut clients: Vec<Client> = (0..4).map(|n| broker.client(&format!("car-{n}"))).collect();
    for client in &mut clients {
        client.subscribe("road/#");
    }
    for topic in ["road/a1/speed", "road/a10", "road"] {
        broker.publish(&json!({"topic": topic, "payload": "x", "qos": 1}));
    }
    for client in &mut clients {
        // The three arrive in any order, for their homes are on different shards. One is acknowledged.
        let (_, body) = client.receive().expect("PUBLISH");
        let topic_len = usize::from(body[1]);
        client.send(0x40, &body[2 + topic_len..4 + topic_len]);
    }
    let first = broker.get("/v1/ledger?client=car-0");
    let settled = |row: &Value| row["delivered"] == 1 && row["in_flight"] == 2;
    let row =
        until(|| Some(broker.get("/v1/ledger?client=car-0")["items"][0].clone()).filter(settled));
    assert_eq!(first["total"], 1);
    assert_eq!(
        (&row["routed"], &row["queued"], &row["unaccounted"]),
        (&json!(3), &json!(2), &json!(0))
    );
    assert_eq!(
        (&row["durable"], &row["connected"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(
        names(&broker.get("/v1/ledger?client=car-*&limit=2"), "client"),
        ["car-0", "car-1"]
    );
    assert_eq!(
        broker.refused("GET", "/v1/ledger?client=nobody", &[], b""),
        404
    );

    // A message is in the books of the longest prefix of whole levels, over all shards.
    let books = broker.get("/v1/ledger?prefix=*");
    assert_eq!(names(&books, "prefix"), ["rail", "road", "road/a1"]);
    let routed: Vec<&Value> = (0..3).map(|n| &books["items"][n]["routed"]).collect();
    assert_eq!(routed, [&json!(0), &json!(8), &json!(4)]);
    assert_eq!(
        broker.get("/v1/ledger?prefix=road")["items"][0]["routed"],
        8
    );
    assert_eq!(
        broker.refused("GET", "/v1/ledger?prefix=sea", &[], b""),
        404
    );
    assert_eq!(
        broker.refused("GET", "/v1/ledger?prefix=road&client=car-0", &[], b""),
        400
    );
    let (_, metrics) = broker.ask("GET", "/metrics", &[], b"");
    assert!(
        metrics.contains("thalweg_prefix_copies_routed_total{prefix=\"road/a1\"} 4\n"),
        "{metrics}"
    );
}

#[test]
fn the_journal_says_how_it_is_and_makes_checkpoints_and_backups() {
    let broker = Broker::start(None);
    let mut client = broker.client("car-1");
    client.subscribe("road/#");
    broker.publish(&json!({"topic": "road/a1", "payload": "icy", "qos": 1, "retain": true}));
    client.receive().expect("PUBLISH");
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    // Delivering at QoS 0 does not wait for the disk.
    let journal = until(|| {
        let journal = broker.get("/v1/journal");
        let is_written =
            number(&journal["written"]["frames"]) > 0 && number(&journal["written"]["syncs"]) > 0;
        is_written.then_some(journal)
    });
    assert_eq!(journal["state"], "ready");
    assert!(number(&journal["disk"]["bytes_used"]) > 0, "{journal}");

    let post = |path: &str, body: &Value| {
        let body = body.to_string();
        let (status, answer) = broker.ask(
            "POST",
            path,
            &["Content-Type: application/json"],
            body.as_bytes(),
        );
        (
            status,
            serde_json::from_str::<Value>(&answer).unwrap_or_else(|_| panic!("{path}: {answer}")),
        )
    };
    let (status, checkpoint) = post("/v1/journal/checkpoint", &json!({}));
    assert_eq!(status, 200, "{checkpoint}");
    assert!(
        checkpoint["done"]
            .as_str()
            .is_some_and(|words| words.starts_with("checkpoint at frame ")),
        "{checkpoint}"
    );

    let target = broker.folder.file("backup");
    let (status, backup) = post("/v1/journal/backup", &json!({ "target": target }));
    assert_eq!(status, 200, "{backup}");
    assert_eq!(
        (
            &backup["sessions"],
            &backup["subscriptions"],
            &backup["last_values"]
        ),
        (&json!(1), &json!(1), &json!(1))
    );
    documented(&backup, include_str!("../../../../docs/admin-api.md"));
    let files = std::fs::read_dir(&target).expect("it was made").count();
    assert!(
        files as u64 >= number(&backup["files_linked"]) + number(&backup["files_copied"]),
        "{backup}"
    );
    let (status, refusal) = post("/v1/journal/backup", &json!({ "target": target }));
    assert_eq!(
        status, 409,
        "a target with something in it is left alone: {refusal}"
    );
    assert_eq!(
        post("/v1/journal/backup", &json!({"target": "backup"})).0,
        400
    );
    assert_eq!(
        broker.refused("POST", "/v1/journal/checkpoint", &[], b""),
        403,
        "no web page may do this"
    );

    let (_, metrics) = broker.ask("GET", "/metrics", &[], b"");
    assert!(
        metrics.contains("thalweg_journal_enabled 1\n")
            && metrics.contains("thalweg_journal_failed 0\n")
    );
}

#[test]
fn without_a_journal_there_is_nothing_to_show_or_to_save() {
    let broker = Broker::with(None, &["journal.enabled=false"]);
    assert_eq!(broker.refused("GET", "/v1/journal", &[], b""), 409);
    assert_eq!(
        broker.refused("POST", "/v1/journal/checkpoint", &["X-Thalweg: 1"], b""),
        409
    );
    let target = json!({ "target": broker.folder.file("backup") }).to_string();
    assert_eq!(
        broker.refused(
            "POST",
            "/v1/journal/backup",
            &["X-Thalweg: 1"],
            target.as_bytes()
        ),
        409
    );
    assert!(!broker.folder.file("backup").exists());
    assert_eq!(broker.ask("GET", "/readyz", &[], b"").0, 200);
    let (_, metrics) = broker.ask("GET", "/metrics", &[], b"");
    assert!(metrics.contains("thalweg_journal_enabled 0\n"));
}

#[test]
fn a_trace_says_who_would_get_it_and_sends_nothing() {
    let broker = Broker::start(None);
    let mut clients: Vec<Client> = (0..4).map(|n| broker.client(&format!("car-{n}"))).collect();
    clients[0].subscribe("road/#");
    clients[1].subscribe("road/a1");
    let trace = broker.get("/v1/trace?topic=road/a1&from=car-3");
    assert_eq!(
        (&trace["outcome"], &trace["receivers"], &trace["dry_run"]),
        (&json!("accepted"), &json!(2), &json!(true))
    );
    let rows = trace["rows"].as_array().expect("rows");
    let receivers: BTreeSet<&str> = rows
        .iter()
        .filter(|row| row["span"] == "front.out")
        .filter_map(|row| row["subject"].as_str())
        .collect();
    assert_eq!(receivers, BTreeSet::from(["car-0", "car-1"]));
    assert_eq!(broker.get("/v1/trace?topic=rail")["outcome"], "no_match");
    assert_eq!(broker.get("/v1/ledger")["copies"]["routed"], 0);
    assert_eq!(broker.refused("GET", "/v1/trace", &[], b""), 400);
    assert_eq!(
        broker.refused("GET", "/v1/trace?topic=road/%23", &[], b""),
        400
    );
    assert_eq!(
        broker.refused("GET", "/v1/trace?topic=road&from=nobody", &[], b""),
        404
    );
}

#[test]
fn a_kick_ends_the_connection_and_forgets_if_asked() {
    let broker = Broker::start(None);
    let mut client = broker.client("car 1");
    let kick = |path| {
        let (status, body) = broker.ask("DELETE", path, &["X-Thalweg: 1"], b"");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).expect("JSON")
    };
    assert_eq!(
        broker.refused("DELETE", "/v1/connections/car%201", &[], b""),
        403
    );
    assert_eq!(
        kick("/v1/connections/car%201"),
        json!({"client": "car 1", "disconnected": true, "forgotten": false})
    );
    assert_eq!(client.receive(), None);
    let view = broker.get("/v1/session/car%201");
    assert_eq!(
        (&view["session"]["connected"], &view["connection"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(
        kick("/v1/connections/car%201?forget=true")["disconnected"],
        false
    );
    assert_eq!(
        broker.refused("DELETE", "/v1/connections/car%201", &["X-Thalweg: 1"], b""),
        404
    );
}

#[test]
fn every_link_of_the_front_page_answers_and_every_field_is_documented() {
    let broker = Broker::start(None);
    let mut client = broker.client("car-1");
    client.subscribe("$share/crew/road/#");
    broker.publish(&json!({"topic": "rail", "payload_base64": "/wAB", "retain": true}));
    let documents = include_str!("../../../../docs/admin-api.md");
    let (status, page) = broker.ask("GET", "/", &[], b"");
    assert_eq!(status, 200);
    let links: Vec<&str> = page
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(links.len() >= 10);
    for link in links
        .into_iter()
        .chain(["/v1/session/car-1", "/v1/overview?sessions=5"])
    {
        let path = link.split('?').next().unwrap_or(link);
        assert!(
            documents.contains(path.trim_end_matches("car-1")),
            "{path} is not in docs/admin-api.md"
        );
        if link != "/metrics" {
            documented(&broker.get(link), documents);
        }
    }
}

/// Each member's name stands in the document, but for names that are data.
fn documented(value: &Value, documents: &str) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| documented(item, documents)),
        Value::Object(members) => {
            for (name, member) in members {
                assert!(
                    documents.contains(&format!("`{name}`")),
                    "`{name}` is not in docs/admin-api.md"
                );
                if !["lobby", "dropped_by_reason", "values"].contains(&name.as_str()) {
                    documented(member, documents);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn metrics_count_what_is_there() {
    let broker = Broker::start(None);
    let mut client = broker.client("car-1");
    client.subscribe("road/#");
    broker.publish(&json!({"topic": "road/a1", "payload": "icy"}));
    client.receive().expect("PUBLISH");
    let (status, text) = broker.ask("GET", "/metrics", &[], b"");
    assert_eq!(status, 200);
    let has = |line: &str| {
        assert!(
            text.lines().any(|there| there == line),
            "{line} is not in\n{text}"
        )
    };
    has("thalweg_sessions_online 1");
    has("thalweg_connections{listener=\"mqtt\"} 1");
    has("thalweg_subscriptions 1");
    has("thalweg_copies_routed_total 1");
    has("thalweg_copies_delivered_total 1");
    has("thalweg_lobby_admitted_total 1");
    has("thalweg_shards_answering 2");
    has("# TYPE thalweg_stage_seconds histogram");
}

#[test]
fn metrics_count_reports_of_load_whoever_sends_them() {
    let broker = Broker::start(None);
    let mut client = broker.client("car-1");
    for report in [
        r#"{"msgsInQueue":3,"processingTimePerMsg":25.0}"#,
        r#"{"msgsInQueue":-3}"#,
        "idle",
    ] {
        let mut body = Vec::new();
        text(&mut body, "$load/report");
        body.extend([0, 1]);
        body.extend(report.as_bytes());
        client.send(0x32, &body);
        assert_eq!(client.receive(), Some((0x40, vec![0, 1])), "PUBACK");
    }
    let (_, metrics) = broker.ask("GET", "/metrics", &[], b"");
    for line in [
        "thalweg_load_reports_total{verdict=\"taken\"} 1",
        "thalweg_load_reports_total{verdict=\"refused\"} 2",
        "thalweg_load_terms_ignored_total 0",
    ] {
        assert!(
            metrics.lines().any(|there| there == line),
            "{line} is not in\n{metrics}"
        );
    }
}

#[test]
fn with_a_token_only_probes_come_in_without_it() {
    let mut broker = Broker::start(Some("a secret"));
    assert_eq!(broker.ask("GET", "/v1/sessions", &[], b"").0, 200);
    broker.token = None;
    assert_eq!(broker.ask("GET", "/healthz", &[], b"").0, 200);
    assert_eq!(broker.ask("GET", "/readyz", &[], b"").0, 200);
    for path in ["/", "/metrics", "/v1/sessions", "/v1/nothing"] {
        assert_eq!(broker.refused("GET", path, &[], b""), 401, "{path}");
    }
    assert_eq!(
        broker.refused(
            "GET",
            "/v1/sessions",
            &["Authorization: Bearer a secre"],
            b""
        ),
        401
    );
    assert_eq!(
        broker.refused("POST", "/v1/publish", &["X-Thalweg: 1"], b"{}"),
        401
    );
}

#[test]
fn silent_connections_do_not_keep_a_probe_out() {
    let broker = Broker::start(None);
    let silent: Vec<TcpStream> = (0..2 * thalweg_admin::CONNECTIONS_MAX)
        .map(|_| TcpStream::connect(broker.admin.local_addr()).expect("the system accepts for us"))
        .collect();
    for path in ["/healthz", "/readyz", "/v1/overview"] {
        assert_eq!(broker.ask("GET", path, &[], b"").0, 200, "{path}");
    }
    drop(silent);
}

#[test]
fn over_its_unix_socket_the_interface_asks_for_no_token() {
    let mut broker = Broker::start(Some("a secret"));
    broker.token = None;
    let path = broker.folder.file("admin.sock");
    let tokens = AdminTokens {
        admin: Some("a secret".into()),
        read: None,
    };
    let unix_socket = Some((path.clone(), 0o600));
    let settings = AdminSettings {
        tokens,
        unix_socket,
        ..AdminSettings::open(([127, 0, 0, 1], 0).into())
    };
    let admin = start(broker.server.observer(), settings.clone()).expect("a socket of its own");
    let mode = std::fs::metadata(&path)
        .expect("the socket is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).expect("a connection");
    stream
        .write_all(b"GET /v1/overview HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .expect("it leaves");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(broker.refused("GET", "/v1/overview", &[], b""), 401);

    let taken = start(broker.server.observer(), settings.clone()).expect_err("it is in use");
    assert!(taken.contains("admin.unix_socket"), "{taken}");
    admin.stop();
    assert!(!path.exists());
    // What a killed process leaves behind is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a file that nobody listens on"));
    start(broker.server.observer(), settings)
        .expect("it is replaced")
        .stop();
}

#[test]
fn with_a_certificate_the_interface_speaks_https() {
    let folder = Folder::new();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    std::fs::write(folder.file("cert.pem"), made.cert.pem()).expect("written");
    std::fs::write(folder.file("key.pem"), made.signing_key.serialize_pem()).expect("written");
    let sets = [
        format!(
            "admin.tls.certificate={}",
            folder.file("cert.pem").display()
        ),
        format!("admin.tls.key={}", folder.file("key.pem").display()),
    ];
    let broker = Broker::with(None, &[&sets[0], &sets[1]]);
    let settings = AdminSettings {
        tls: broker.server.admin_tls(),
        ..AdminSettings::open(([127, 0, 0, 1], 0).into())
    };
    let admin = start(broker.server.observer(), settings).expect("an interface");
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(made.cert.der().clone())
        .expect("it is a root to us");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let session = rustls::ClientConnection::new(Arc::new(client), name).expect("a session");
    let stream = TcpStream::connect(admin.local_addr()).expect("a connection");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    let mut stream = rustls::StreamOwned::new(session, stream);
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("it leaves");
    let mut answer = Vec::new();
    // The server may end without close_notify.
    let _ = stream.read_to_end(&mut answer);
    assert!(
        answer.starts_with(b"HTTP/1.1 200 "),
        "{}",
        answer.escape_ascii()
    );
}

#[test]
fn what_cannot_be_done_is_said_in_words() {
    let broker = Broker::start(None);
    let json = ["Content-Type: application/json"];
    assert_eq!(broker.refused("GET", "/v1/nothing", &[], b""), 404);
    assert_eq!(broker.refused("GET", "/v1/publish", &[], b""), 405);
    assert_eq!(
        broker.refused("GET", "/v1/sessions?limit=10001", &[], b""),
        400
    );
    assert_eq!(
        broker.refused(
            "POST",
            "/v1/publish",
            &["Content-Type: text/plain"],
            b"{\"topic\":\"a\"}"
        ),
        403
    );
    assert_eq!(
        broker.refused("POST", "/v1/publish", &json, b"{\"topic\":\"a/#\"}"),
        400
    );
    assert_eq!(
        broker.refused("POST", "/v1/publish", &json, b"topic=a"),
        400
    );
    let deep = format!("{{\"topic\":\"{}\"}}", "a/".repeat(500));
    assert_eq!(
        broker.refused("POST", "/v1/publish", &json, deep.as_bytes()),
        400
    );
    let large = vec![b' '; thalweg_admin::BODY_BYTES_MAX + 1];
    assert_eq!(broker.refused("POST", "/v1/publish", &json, &large), 413);
}

#[test]
fn shards_that_hang_are_left_out_and_requests_that_wait_for_them_are_bounded() {
    let broker = Broker::start(None);
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("nobody panicked");
    let (hangs, hanging) = mpsc::channel();
    let (observer, shards_gate) = (broker.server.observer(), gate.clone());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            observer.on_shards(move |_| {
                let _ = hangs.send(());
                drop(shards_gate.lock());
            })
        });
        (0..2).for_each(|_| hanging.recv().expect("both shards hang"));
        // Our own look below takes a place, too, so a caller may have to come again.
        let ask_until_answered = || loop {
            let (status, body) = broker.ask("GET", "/v1/ledger", &[], b"");
            if status == 200 {
                return serde_json::from_str::<Value>(&body).expect("JSON");
            }
            assert_eq!(status, 503, "{body}");
        };
        let callers: Vec<_> = (0..thalweg_admin::REQUESTS_MAX)
            .map(|_| scope.spawn(ask_until_answered))
            .collect();
        // Once all are under way, one more is too many; the process still says that it lives.
        let deadline = Instant::now() + PATIENCE;
        while broker.refused("GET", "/v1/nothing", &[], b"") != 503 {
            assert!(Instant::now() < deadline, "the bound is never reached");
        }
        assert_eq!(broker.ask("GET", "/healthz", &[], b"").0, 200);
        for caller in callers {
            assert_eq!(caller.join().expect("an answer")["shards_silent"], 2);
        }
        assert_eq!(broker.refused("GET", "/readyz", &[], b""), 503);
        assert_eq!(
            broker.refused(
                "POST",
                "/v1/publish",
                &["X-Thalweg: 1"],
                b"{\"topic\":\"a\"}"
            ),
            503
        );
        drop(closed);
    });
    assert_eq!(broker.ask("GET", "/readyz", &[], b"").0, 200);
}

#[test]
fn a_start_that_fails_says_how_to_mend_it() {
    let broker = Broker::start(None);
    let attempt =
        |bind: SocketAddr| start(broker.server.observer(), AdminSettings::open(bind)).err();
    let open = attempt(SocketAddr::from(([0, 0, 0, 0], 0))).expect("refused");
    assert!(open.contains("admin.token"), "{open}");
    let taken = attempt(broker.admin.local_addr()).expect("refused");
    assert!(
        taken.contains("another program") && taken.contains("admin.bind"),
        "{taken}"
    );
}

#[test]
fn after_a_stop_nobody_listens_and_its_port_is_free() {
    let Broker { server, admin, .. } = Broker::start(None);
    let bind = admin.local_addr();
    admin.stop();
    assert!(TcpStream::connect(bind).is_err());
    start(server.observer(), AdminSettings::open(bind))
        .expect("the port is free")
        .stop();
}
