//! The broker's own books: read over HTTP, checked, added up over its lives.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// Figures by name, added up over the lives of a broker.
#[derive(Clone, Debug, Default)]
pub struct Sums(BTreeMap<String, i64>);

/// `GET` of the admin interface; `None` without an answer, as from a broker that is killed meanwhile.
pub fn get(admin: SocketAddr, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(admin).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    Some(serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error} in {body}")))
}

/// Sums in `/v1/ledger` that do not balance: in each shard, and in all.
pub fn faults(ledger: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let shards = ledger["shards"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for (at, books) in shards.iter().chain([ledger]).enumerate() {
        let whose = if at < shards.len() {
            format!("shard {at}")
        } else {
            "all shards".to_owned()
        };
        for part in ["publishes", "copies"] {
            match books[part]["unaccounted"].as_i64() {
                Some(0) => {}
                Some(count) => faults.push(format!(
                    "{whose}: {count} of the {part} are unaccounted for: {books}"
                )),
                None => faults.push(format!("{whose}: no `{part}.unaccounted` in {books}")),
            }
        }
    }
    if ledger["shards_silent"] != 0 {
        faults.push(format!("{} shards did not answer", ledger["shards_silent"]));
    }
    faults
}

/// Number of messages that wait or are in flight.
pub fn queued(ledger: &Value) -> Option<i64> {
    Some(ledger["copies"]["waiting"].as_i64()? + ledger["copies"]["in_flight"].as_i64()?)
}

impl Sums {
    /// Adds the last reading of one life.
    pub fn add(&mut self, ledger: &Value) {
        for part in ["publishes", "copies"] {
            for (name, value) in ledger[part].as_object().into_iter().flatten() {
                if let Some(value) = value.as_i64() {
                    *self.0.entry(format!("{part}.{name}")).or_default() += value;
                }
            }
        }
        for (reason, value) in ledger["copies"]["dropped_by_reason"]
            .as_object()
            .into_iter()
            .flatten()
        {
            if let Some(value) = value.as_i64().filter(|value| *value != 0) {
                *self
                    .0
                    .entry(format!("copies.dropped.{reason}"))
                    .or_default() += value;
            }
        }
    }

    /// The figures of the last reading of each life, added up, beside those of the last.
    pub fn table(&self, last: &Value) -> String {
        let mut table = format!("{:<34}{:>14}{:>14}\n", "ledger", "all lives", "the last");
        for (name, sum) in &self.0 {
            let (part, field) = name.split_once('.').unwrap_or((name, ""));
            let now = match field.strip_prefix("dropped.") {
                Some(reason) => &last[part]["dropped_by_reason"][reason],
                None => &last[part][field],
            };
            table += &format!("{name:<34}{sum:>14}{:>14}\n", now.as_i64().unwrap_or(0));
        }
        table
    }
}
