//! Deliveries and their receivers, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::PATIENCE;

/// Others that take nothing for so long have nothing to take: the one that waits for them has it all.
const OTHERS_WITHIN: Duration = Duration::from_secs(5);

/// A message as a member got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub who: String,
    pub number: u32,
    pub again: bool,
}

/// Written by all members, read by the test.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<(Mutex<Entries>, Condvar)>);

#[derive(Debug, Default)]
pub struct Entries {
    pub all: Vec<Taken>,
    /// All messages that were settled by a receiver.
    pub settled: BTreeSet<u32>,
    /// Nothing more will be published.
    pub is_over: bool,
}

impl Log {
    pub fn read(&self) -> MutexGuard<'_, Entries> {
        self.0.0.lock().expect("no holder panics")
    }

    pub fn taken(&self, who: &str, number: u32, again: bool) {
        self.read().all.push(Taken {
            who: who.to_owned(),
            number,
            again,
        });
        self.0.1.notify_all();
    }

    pub fn settled(&self, number: u32) {
        self.read().settled.insert(number);
        self.0.1.notify_all();
    }

    /// Waits until it is so; false if that takes too long.
    pub fn wait(&self, is_it: impl Fn(&Entries) -> bool) -> bool {
        let waiting = |entries: &mut Entries| !is_it(entries);
        let (_entries, waited) = self
            .0
            .1
            .wait_timeout_while(self.read(), PATIENCE, waiting)
            .expect("no holder panics");
        !waited.timed_out()
    }

    /// All that a test publishes is published.
    pub fn over(&self) {
        self.read().is_over = true;
        self.0.1.notify_all();
    }

    /// Waits until others than `who` have taken so many more, or there is nothing more to take.
    pub fn wait_for_others(&self, who: &str, count: usize) {
        let of_others = |entries: &Entries| entries.all.len() - entries.share(who);
        let entries = self.read();
        let enough = of_others(&entries) + count;
        let waiting = |entries: &mut Entries| !entries.is_over && of_others(entries) < enough;
        let _unused = self
            .0
            .1
            .wait_timeout_while(entries, OTHERS_WITHIN, waiting)
            .expect("no holder panics");
    }

    /// Waits until each of the first `count` messages is settled.
    pub fn wait_for_all(&self, count: u32) {
        let all_settled =
            self.wait(|entries| entries.settled.range(1..=count).count() == count as usize);
        let entries = self.read();
        let missing: Vec<u32> = (1..=count)
            .filter(|number| !entries.settled.contains(number))
            .collect();
        assert!(
            all_settled,
            "of {count} these were settled by nobody: {missing:?}; {:?}",
            entries.shares()
        );
    }
}

impl Entries {
    /// Number of deliveries to each receiver.
    pub fn shares(&self) -> BTreeMap<&str, usize> {
        let mut shares = BTreeMap::new();
        for taken in &self.all {
            *shares.entry(taken.who.as_str()).or_default() += 1;
        }
        shares
    }

    pub fn share(&self, who: &str) -> usize {
        self.shares().get(who).copied().unwrap_or(0)
    }

    /// Those that came as a repeat.
    pub fn repeats(&self) -> impl Iterator<Item = &Taken> {
        self.all.iter().filter(|taken| taken.again)
    }

    /// Those that came twice, the second time without being called a repeat.
    pub fn unflagged(&self) -> Vec<&Taken> {
        let mut seen = BTreeSet::new();
        self.all
            .iter()
            .filter(|taken| !seen.insert(taken.number) && !taken.again)
            .collect()
    }
}
