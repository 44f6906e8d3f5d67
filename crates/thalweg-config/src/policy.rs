//! What is asked by filter: of messages, where of the entries that match an address and set a field the last one counts, and of
//! shared subscriptions, where the first that fits does.

use std::fmt::Write;

use serde_json::Value;
use thalweg_kernel::{Exceed, GroupStrategy, LastValueRule, RatePer};
use thalweg_model::{Filter, Reliability, Span};

use super::choices::{Fsync, GroupOrder};
use super::kind::{Fault, KeyKind, ensure, fault};
use super::section::{Setting, keys_of, section};
use super::settings::Config;

section! {
    /// An entry of `policy`. What it leaves out is as entries before it say, and else as everywhere.
    pub struct Policy {
        /// Which messages: those whose address it matches.
        filter: Filter = FILTER, "", Now;
        /// How long messages live at most; [`Span::FOREVER`] ends what entries before it say.
        lifespan_max: Option<Span> = millis(1, 10 * 365 * 86_400_000), "" or "unlimited", Now;
        /// The least priority that messages have.
        priority_min: Option<u8> = count(0, 9), "", Now;
        /// How reliably messages are taken at least: [`Reliability::ExactlyOnce`] is refused.
        reliability_min: Option<Reliability> = Word(Reliability::WORDS), "", Now;
        /// How reliably subscribers are sent them at most.
        reliability_max: Option<Reliability> = Word(Reliability::WORDS), "", Now;
        /// Whether messages become last values.
        last_value: Option<LastValueRule> = Word(LastValueRule::WORDS), "", Now;
        /// How many messages an address keeps, the last value among them.
        last_value_depth: Option<u16> = count(1, 1000), "", Now;
        /// What acknowledgements wait for.
        fsync: Option<Fsync> = Word(Fsync::WORDS), "", Now;
        /// Messages per second; `u64::MAX` ends what entries before it say.
        rate: Option<u64> = RATE, "" or "unlimited", Now;
        /// Bytes of payload per second, likewise.
        rate_bytes: Option<u64> = SIZE_RATE, "" or "unlimited", Now;
        /// How much of either rate may come at once.
        rate_burst: Option<Span> = millis(1, 3_600_000), "", Now;
        /// Whose messages are counted together.
        rate_per: Option<RatePer> = Word(RatePer::WORDS), "", Now;
        /// What happens beyond a rate.
        rate_exceed: Option<Exceed> = Word(Exceed::WORDS), "", Now;
    }

    /// An entry of `groups.policies`. What it leaves out is as everywhere else.
    pub struct GroupPolicy {
        /// Which shared subscriptions: those whose own filter wants nothing beyond this one.
        filter: Filter = FILTER, "", Now;
        /// How the next member is chosen.
        strategy: Option<GroupStrategy> = Strategy, "", Now;
        /// What must stay in order; without a word, and with `off`, members decide.
        order: Option<GroupOrder> = Word(GroupOrder::WORDS), "", Now;
        /// In place of `groups.settle_timeout`; [`Span::FOREVER`] is none.
        settle_timeout: Option<Span> = SETTLE_TIMEOUT, "" or "off", Now;
        /// Whether members get messages as reliably as they subscribed, though they were published with less.
        upgrade_qos: Option<bool> = Flag, "", Now;
        /// Deliveries of a message that no member acknowledges before it is given up.
        delivery_limit: Option<u32> = count(1, 60_000), "", Now;
        /// The topic to which messages go that are given up.
        dead_letter: Option<String> = TOPIC, "", Now;
    }
}

pub const POLICY: KeyKind = KeyKind::Tables("policies", keys_of::<Policy>, can_hold);

/// What is asked can be done, a rate lets something through, and what says more of rates is about one.
fn can_hold(entries: &[Value]) -> Result<(), Fault> {
    let said = |entry: &Value, key: &&str| !entry[*key].is_null();
    let has_rate = |entry: &Value| RATES.iter().any(|key| said(entry, key));
    let has_rate = entries.iter().any(has_rate);
    for entry in entries {
        let filter = entry["filter"].as_str().unwrap_or_default();
        ensure!(entry["reliability_min"] != "exactly-once";
            "asks for \"{filter}\" to be published exactly once, which only a publisher itself can do";
            "Write reliability_min = \"at-least-once\"");
        for key in RATES {
            ensure!(entry[key] != 0;
                "has \"{filter}\", whose {key} is 0/s, which lets nothing through";
                "Write 1/s or more, or deny the topic by access rules");
        }
        ensure!(entry["rate_per"] != "subscriber" || entry["rate_exceed"] != "reject";
            "has \"{filter}\", where what is beyond a subscriber's rate is to be rejected, which nobody would hear";
            "Write rate_exceed = \"throttle\" or \"drop\"");
        for key in ["rate_burst", "rate_per", "rate_exceed"] {
            ensure!(has_rate || !said(entry, &key);
                "says {key} for \"{filter}\", and no entry has a rate";
                "Write rate = \"100/s\", or rate_bytes = \"1MiB/s\"");
        }
    }
    Ok(())
}

const RATES: [&str; 2] = ["rate", "rate_bytes"];

impl Config {
    /// Explains what the policies say of an address: each field with the entry that gives it. `None` if no policy matches it and
    /// it has one level only: then it is more likely a misspelt key than an address.
    pub(super) fn explain_address(&self, address: &str) -> Option<String> {
        let matches = |at: &usize| self.policy[*at].filter.matches(address);
        let matching: Vec<usize> = (0..self.policy.len()).filter(matches).collect();
        if matching.is_empty() && !address.contains('/') {
            return None;
        }
        let entries = self.tree()["policy"].take();
        let mut text = format!("{address}\n");
        for key in keys_of::<Policy>().iter().skip(1) {
            let name = &key.name;
            let mut said = matching.iter().rev().map(|at| (at, &entries[*at][name]));
            let _ = match said.find(|(_, value)| !value.is_null()) {
                Some((at, value)) => {
                    let (value, filter) = (key.show(value), &self.policy[*at].filter);
                    let number = at + 1;
                    writeln!(text, "  {name:<20} {value} (policy {number}, \"{filter}\")")
                }
                None => writeln!(text, "  {name:<20} no policy"),
            };
        }
        Some(text)
    }
}

pub const GROUP_POLICIES: KeyKind =
    KeyKind::Tables("group-policies", keys_of::<GroupPolicy>, each_can_count);

/// An entry behind a wider one would never be looked at.
fn each_can_count(entries: &[Value]) -> Result<(), Fault> {
    let filter_of = |entry: &Value| Filter::from_value(entry["filter"].clone());
    let filters: Vec<Filter> = entries.iter().filter_map(filter_of).collect();
    for (at, one) in filters.iter().enumerate() {
        let mut earlier = filters[..at].iter();
        if let Some(wider) = earlier.find(|wider| wider.covers(one.as_str())) {
            ensure!(wider != one; "names \"{one}\" twice"; "Keep one of the two");
            let behind = format!("has \"{one}\" after \"{wider}\", which is wider");
            let what = format!("{behind}, so that it would never count");
            return Err(fault(what, format!("Put \"{one}\" first")));
        }
    }
    Ok(())
}
