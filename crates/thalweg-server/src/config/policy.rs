//! What is asked of messages by filter: of the entries that match an address and set a field the last one counts.

use std::fmt::Write;

use serde_json::Value;
use thalweg_kernel::{Exceed, LastValueRule, RatePer};
use thalweg_model::{Filter, Reliability, Span};

use super::choices::Fsync;
use super::kind::{Fault, ensure};
use super::section::{keys_of, section, settings_by_serde};
use super::settings::Config;
use super::tables::Tables;

section! {
    /// An entry of `policy`. What it leaves out is as entries before it say, and else as everywhere.
    pub struct Policy {
        /// Which messages: those whose address it matches.
        filter: Filter = Form(&FILTER), "", Now;
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
}

settings_by_serde!(Policy);

pub static POLICY: Tables = Tables {
    title: "a list of policies",
    entry: "a policy",
    max: (1000, ": a new address is compared with each"),
    takes: "[[policy]] with filter, lifespan_max, priority_min, reliability_min, reliability_max, last_value, last_value_depth, fsync, rate, \
            rate_bytes, rate_burst, rate_per and rate_exceed, or \
            [{ filter = \"plant/#\", lifespan_max = \"30s\" }]",
    mend: "Write [{ filter = \"plant/#\", lifespan_max = \"30s\" }], or tables [[policy]]",
    first: (
        "a filter",
        "Write filter = \"plant/#\" in it, a filter as in a subscription",
    ),
    keys: keys_of::<Policy>,
    check: can_hold,
};

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
