//! What is said of shared subscriptions by filter: an entry for each filter, of which the first that fits counts.

use serde_json::Value;
use thalweg_kernel::GroupStrategy;
use thalweg_model::{Filter, Span};

use super::choices::GroupOrder;
use super::kind::{Fault, ensure, fault};
use super::section::{Setting, keys_of, section, settings_by_serde};
use super::tables::Tables;

section! {
    /// An entry of `groups.policies`. What it leaves out is as everywhere else.
    pub struct GroupPolicy {
        /// Which shared subscriptions: those whose own filter wants nothing beyond this one.
        filter: Filter = Form(&FILTER), "", Now;
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
        dead_letter: Option<String> = Form(&TOPIC), "", Now;
    }
}

settings_by_serde!(GroupPolicy);

pub static POLICIES: Tables = Tables {
    title: "a list of policies",
    entry: "a policy",
    max: (1000, ": a new shared subscription is compared with each"),
    takes: "[[groups.policies]] with filter, strategy, order, settle_timeout, upgrade_qos, delivery_limit and dead_letter, or \
            [{ filter = \"jobs/#\", strategy = \"round-robin\" }]",
    mend: "Write [{ filter = \"jobs/#\", strategy = \"round-robin\" }], or tables [[groups.policies]]",
    first: (
        "a filter",
        "Write filter = \"jobs/#\" in it, a filter as in a subscription",
    ),
    keys: keys_of::<GroupPolicy>,
    check: each_can_count,
};

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
