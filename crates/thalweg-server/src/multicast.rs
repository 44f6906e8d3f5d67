//! Groups that are sent what is published: for each a session of the broker's own, whose messages a thread packs into
//! datagrams. The datagrams are those of `thalweg_multicast`; ADR 0100 says why it is done this way.

mod outlet;
mod speaker;

use crate::config::Config;
use crate::connector::Streams;
use crate::observer::Observer;
use crate::threads::OnFailure;
use outlet::Outlet;
use speaker::Speaker;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was sent to a group since the start.
#[derive(Debug, Default)]
pub struct MulticastCounts {
    /// Messages that were packed.
    pub messages: AtomicU64,
    /// Datagrams that the system took, each interface counted.
    pub datagrams: AtomicU64,
    /// Their bytes, without headers of UDP and IP.
    pub bytes: AtomicU64,
    /// Datagrams that the system did not take.
    pub unsent: AtomicU64,
    /// Requests for lost datagrams that were answered.
    pub repairs: AtomicU64,
    /// Datagrams in these answers.
    pub repaired: AtomicU64,
    /// Requests that were not answered: no requests, without a reply address, or too many at a time.
    pub refused: AtomicU64,
}

impl MulticastCounts {
    fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// The sockets of all groups, open before anything is sent; words on what cannot be opened.
pub(crate) fn open(config: &Config) -> Result<Vec<Outlet>, Vec<String>> {
    let mut outlets = Vec::new();
    let mut errors = Vec::new();
    for group in &config.multicast {
        match Outlet::open(group) {
            Ok(outlet) => outlets.push(outlet),
            Err(what) => errors.push(format!("multicast {}: {what}", group.name)),
        }
    }
    match errors.is_empty() {
        true => Ok(outlets),
        false => Err(errors),
    }
}

/// Groups by name, and what was sent to them.
pub(crate) type CountsByGroup = Vec<(String, Arc<MulticastCounts>)>;

/// Counts of all groups, before anything is sent.
pub(crate) fn counts_of(config: &Config) -> CountsByGroup {
    let groups = config.multicast.iter();
    groups
        .map(|group| (group.name.clone(), Arc::default()))
        .collect()
}

/// The running groups. Dropping them ends their threads.
pub(crate) struct Speakers {
    _running: Vec<Speaker>,
}

impl Speakers {
    pub(crate) fn start(
        config: &Config,
        outlets: Vec<Outlet>,
        streams: &Streams,
        observer: &Observer,
        on_failure: &OnFailure,
    ) -> io::Result<Speakers> {
        let groups = config.multicast.iter().zip(observer.multicast());
        let running = groups.zip(outlets).map(|((group, (_, counts)), outlet)| {
            Speaker::start(
                group.clone(),
                outlet,
                counts.clone(),
                streams.clone(),
                observer.clone(),
                on_failure,
            )
        });
        Ok(Speakers {
            _running: running.collect::<io::Result<_>>()?,
        })
    }
}
