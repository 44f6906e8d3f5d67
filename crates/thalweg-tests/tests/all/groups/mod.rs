//! Members of a group that work, stall, break off, come and go, over real connections to a real broker.
//!
//! Workers have threads and sleep as long as their work takes; each delivery goes into one [`log::Log`]. Tests check
//! receivers, counts and order, never durations: those are for `thalweg bench`.

pub mod line;
pub mod log;
pub mod publisher;
pub mod worker;

mod churn;
mod protocols;
mod stalls;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::crash::ledger;

/// Longer than anything here takes; a test that waits for it has failed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The broker's statistics of its only group.
pub fn group(admin: SocketAddr) -> Value {
    let groups = ledger::get(admin, "/v1/groups").expect("the broker runs");
    let items = groups["items"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    assert_eq!(items.len(), 1, "one group: {groups}");
    items[0].clone()
}

/// Looks at the only group until it is as wanted.
pub fn wait_for_group(admin: SocketAddr, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let group = group(admin);
        if is_it(&group) {
            return group;
        }
        assert!(Instant::now() < deadline, "waited for {what}: {group}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// At the end no message waits, and all accepted ones are accounted for.
pub fn assert_books_are_even(admin: SocketAddr) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let books = ledger::get(admin, "/v1/ledger").expect("the broker runs");
        let faults = ledger::faults(&books);
        assert!(faults.is_empty(), "{faults:?}");
        if ledger::queued(&books) == Some(0) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "something stays queued: {books} {}",
            group(admin)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
