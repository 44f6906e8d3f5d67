//! A CoAP client behind the interface of a speaker: a publish is a PUT, a subscription observes one resource, and a
//! queue is read by POST requests. Written from the documents, and without the broker's code.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent::Agent;
use super::puppet::Library;
use super::speaker::{Post, Seen, hex, unhex, word};

/// Numbers and media types of the registry, as far as the checks use them.
const FORMATS: [(u64, &str); 3] = [
    (0, "text/plain; charset=utf-8"),
    (42, "application/octet-stream"),
    (50, "application/json"),
];

/// One endpoint of a library.
pub struct Endpoint {
    agent: Agent,
    waiting: RefCell<VecDeque<Seen>>,
    queue: RefCell<Option<String>>,
}

impl Endpoint {
    /// An endpoint that speaks to this address.
    pub fn open(library: Library, address: SocketAddr) -> Self {
        Self::over("udp", library, address)
    }

    /// The same over another transport: `tcp`, `ws`.
    pub fn over(transport: &str, library: Library, address: SocketAddr) -> Self {
        let agent = Agent::open_endpoint(library, address, json!({ "transport": transport }));
        Self {
            agent,
            waiting: RefCell::default(),
            queue: RefCell::default(),
        }
    }

    /// Sends a request with more members for the command; what comes back is the response.
    pub fn request(&self, method: &str, path: &str, more: Value) -> Value {
        let mut command = more;
        command["method"] = json!(method);
        command["path"] = json!(levels_of(path));
        self.agent.tell("request", command)
    }

    /// Publishes to a path below `/ps/data`, sends to one below `/q`.
    pub fn send(&self, path: &str, post: &Post) {
        let method = match post.clear {
            true => "DELETE",
            false if path.starts_with("/q/") => "POST",
            false => "PUT",
        };
        let query: Vec<String> = post
            .expiry
            .iter()
            .map(|seconds| format!("expiry={seconds}"))
            .collect();
        let mut command = json!({ "payload": hex(&post.payload), "query": query });
        if let Some(media_type) = &post.content_type {
            let known = FORMATS.iter().find(|(_, name)| name == media_type);
            command["content_format"] = json!(
                known
                    .expect("a publisher of CoAP is only asked for what has a number")
                    .0
            );
        }
        let answer = self.request(method, path, command);
        let code = word(&answer["code"]);
        assert!(code.starts_with("2."), "{method} {path}: {answer}");
    }

    /// Observes a resource. The value that is there comes as a message if it is wanted.
    pub fn observe(&self, path: &str, last_value: bool) {
        let first = self.agent.tell(
            "observe",
            json!({ "observation": path, "path": levels_of(path) }),
        );
        assert_eq!(first["code"], "2.05", "observing {path}: {first}");
        assert!(first["sequence"].is_u64(), "{path} is observed: {first}");
        if last_value {
            self.waiting.borrow_mut().push_back(seen(path, &first));
        }
    }

    /// Whatever is received from now on is taken from a queue.
    pub fn take_from(&self, path: &str) {
        *self.queue.borrow_mut() = Some(path.to_owned());
    }

    /// The next message, if it comes in time.
    pub fn receive_within(&self, within: Duration) -> Option<Seen> {
        if let Some(seen) = self.waiting.borrow_mut().pop_front() {
            return Some(seen);
        }
        let queue = self.queue.borrow();
        let Some(path) = queue.as_deref() else {
            let event = self.agent.message_within(within)?;
            assert_eq!(event["code"], "2.05", "a notification: {event}");
            return Some(seen(&word(&event["observation"]), &event));
        };
        let deadline = Instant::now() + within;
        loop {
            let answer = self.request("GET", path, json!({}));
            match answer["code"].as_str() {
                Some("2.05") => return Some(seen(path, &answer)),
                // The queue is empty; the request has waited for a while already.
                Some("4.04" | "2.03" | "2.04") if Instant::now() < deadline => {}
                Some("4.04" | "2.03" | "2.04") => return None,
                _ => panic!("taking from {path}: {answer}"),
            }
        }
    }
}

fn seen(path: &str, response: &Value) -> Seen {
    let format = response["content_format"].as_u64();
    let known = format.map(
        |number| match FORMATS.iter().find(|(known, _)| *known == number) {
            Some((_, name)) => (*name).to_owned(),
            None => format!("format {number}"),
        },
    );
    Seen {
        address: path.to_owned(),
        payload: unhex(&word(&response["payload"])),
        content_type: known,
        expiry_ms: response["max_age"].as_u64().map(|seconds| seconds * 1000),
        ..Seen::default()
    }
}

/// The path of a topic name: the same levels. Whatever a level holds is written as in a URI, where `/` and `%` must not stand.
pub fn path_of(topic: &str) -> String {
    let mut path = String::from("/ps/data");
    for level in topic.split('/') {
        path.push('/');
        let mut rest = level;
        while let Some(first) = rest.chars().next() {
            // Characters that a topic name cannot contain are escaped there, and so is a `%` that would look like an
            // escape.
            let (byte, used) = match rest.get(..3) {
                Some("%2F") => ('/', 3),
                Some("%2B") => ('+', 3),
                Some("%23") => ('#', 3),
                Some("%25")
                    if ["2F", "2B", "23", "25", "00"]
                        .iter()
                        .any(|code| rest[3..].starts_with(code)) =>
                {
                    ('%', 3)
                }
                _ => (first, first.len_utf8()),
            };
            match byte {
                '/' => path.push_str("%2F"),
                '%' => path.push_str("%25"),
                other => path.push(other),
            }
            rest = &rest[used..];
        }
    }
    path
}

/// The levels of a path, as options carry them.
fn levels_of(path: &str) -> Vec<String> {
    path.split('/')
        .skip(1)
        .map(|level| level.replace("%2F", "/").replace("%25", "%"))
        .collect()
}

#[test]
fn paths_have_the_levels_of_their_topics() {
    for (topic, path, levels) in [
        ("a/b", "/ps/data/a/b", vec!["ps", "data", "a", "b"]),
        ("/", "/ps/data//", vec!["ps", "data", "", ""]),
        (
            "one%2Fslash",
            "/ps/data/one%2Fslash",
            vec!["ps", "data", "one/slash"],
        ),
        (
            "one%252Fslash",
            "/ps/data/one%252Fslash",
            vec!["ps", "data", "one%2Fslash"],
        ),
        ("100%", "/ps/data/100%25", vec!["ps", "data", "100%"]),
        ("a%2Bb", "/ps/data/a+b", vec!["ps", "data", "a+b"]),
        ("a%2Eb", "/ps/data/a%252Eb", vec!["ps", "data", "a%2Eb"]),
    ] {
        assert_eq!(path_of(topic), path);
        assert_eq!(levels_of(path), levels);
    }
}
