//! A client of XMPP behind the interface of a speaker: a publish is an item of XEP-0060, a subscription is to a node and its
//! depth. Written from the documents, and without the broker's code.

use serde_json::{Value, json};

use super::agent::Agent;
use super::speaker::{Post, Seen, hex, unhex, word};

pub fn send(agent: &Agent, node: &str, post: &Post) {
    if post.clear {
        agent.tell("purge", json!({ "node": node }));
        return;
    }
    let mut command = json!({ "node": node, "payload": hex(&post.payload), "keep": post.keep });
    if let Some(media_type) = &post.content_type {
        command["content_type"] = json!(media_type);
    }
    if let Some(seconds) = post.expiry {
        command["expiry"] = json!(seconds);
    }
    agent.tell("publish", command);
}

/// Subscribes to a node and a depth if all wildcards are at the end, else to a node whose name has them.
pub fn subscribe(agent: &Agent, filter: &str) {
    let is_node = |node: &&str| !node.contains(['+', '#']);
    let below = |end: &str| filter.strip_suffix(end).filter(is_node);
    let command = match (below("/+"), below("/#")) {
        (Some(node), _) => json!({ "node": node, "depth": "1" }),
        (_, Some(node)) => json!({ "node": node, "depth": "all" }),
        _ => json!({ "node": filter }),
    };
    agent.tell("subscribe", command);
}

pub fn seen(event: &Value) -> Seen {
    Seen {
        address: word(&event["node"]),
        payload: unhex(&word(&event["payload"])),
        content_type: event["content_type"].as_str().map(str::to_owned),
        redelivered: event["redelivered"] == true,
        ..Seen::default()
    }
}
