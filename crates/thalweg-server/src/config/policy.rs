//! What is asked of messages by filter: of the entries that match an address and set a field the last one counts.

use std::fmt::Write;

use serde_json::Value;
use thalweg_kernel::{Exceed, LastValueRule, RatePer};
use thalweg_model::{Filter, Reliability, Span};

use super::choices::Fsync;
use super::kind::{Fault, fault};
use super::load::get;
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
        rate: Option<u64> = Rate, "" or "unlimited", Now;
        /// Bytes of payload per second, likewise.
        rate_bytes: Option<u64> = SizeRate, "" or "unlimited", Now;
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
    mend_first: "Write filter = \"plant/#\" in it, a filter as in a subscription",
    keys: keys_of::<Policy>,
    check: can_hold,
};

/// What is asked can be done.
fn can_hold(entries: &[Value]) -> Result<(), Fault> {
    for entry in entries {
        if entry["reliability_min"] == "exactly-once" {
            let filter = entry["filter"].as_str().unwrap_or_default();
            let what = format!(
                "asks for \"{filter}\" to be published exactly once, which only a publisher itself can do"
            );
            return Err(fault(what, "Write reliability_min = \"at-least-once\""));
        }
    }
    rates_can_hold(entries)
}

/// A rate lets something through, and what says more of rates is about one.
fn rates_can_hold(entries: &[Value]) -> Result<(), Fault> {
    let said = |entry: &Value, key: &str| !entry[key].is_null();
    let has_rate = |entry: &Value| RATES.iter().any(|key| said(entry, key));
    for entry in entries {
        let filter = entry["filter"].as_str().unwrap_or_default();
        if let Some(key) = RATES.iter().find(|key| entry[**key].as_u64() == Some(0)) {
            let what = format!("has \"{filter}\", whose {key} is 0/s, which lets nothing through");
            return Err(fault(
                what,
                "Write 1/s or more, or deny the topic by access rules",
            ));
        }
        if entry["rate_per"] == "subscriber" && entry["rate_exceed"] == "reject" {
            let what = format!(
                "has \"{filter}\", where what is beyond a subscriber's rate is to be rejected, which nobody would hear"
            );
            return Err(fault(what, "Write rate_exceed = \"throttle\" or \"drop\""));
        }
        if let Some(key) = OF_RATES.iter().find(|key| said(entry, key))
            && !entries.iter().any(has_rate)
        {
            let what = format!("says {key} for \"{filter}\", and no entry has a rate");
            return Err(fault(
                what,
                "Write rate = \"100/s\", or rate_bytes = \"1MiB/s\"",
            ));
        }
    }
    Ok(())
}

const RATES: [&str; 2] = ["rate", "rate_bytes"];
const OF_RATES: [&str; 3] = ["rate_burst", "rate_per", "rate_exceed"];

impl Config {
    /// Explains what the policies say of an address: each field with the entry that gives it. `None` if no policy matches it and
    /// it has one level only: then it is more likely a misspelt key than an address.
    pub(super) fn explain_address(&self, address: &str) -> Option<String> {
        let matching: Vec<(usize, &Policy)> = (1..)
            .zip(&self.policy)
            .filter(|(_, policy)| policy.filter.matches(address))
            .collect();
        if matching.is_empty() && !address.contains('/') {
            return None;
        }
        let tree = self.tree();
        let entries = get(&tree, "policy").cloned().unwrap_or_default();
        let mut text = format!("{address}\n");
        for key in keys_of::<Policy>().iter().skip(1) {
            let value = |at: usize| entries.get(at - 1).and_then(|entry| entry.get(&key.name));
            let said = matching.iter().rev().find_map(|(at, policy)| {
                let value = value(*at).filter(|value| !value.is_null())?;
                Some((at, policy, value))
            });
            let _ = match said {
                Some((at, policy, value)) => {
                    let (name, value, filter) = (&key.name, key.show(value), &policy.filter);
                    writeln!(text, "  {name:<20} {value} (policy {at}, \"{filter}\")")
                }
                None => writeln!(text, "  {:<20} no policy", key.name),
            };
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::*;
    use thalweg_model::Span;

    fn load(text: &str) -> Result<(Config, Origins), Vec<ConfigError>> {
        let file = Some((std::path::Path::new("t.toml"), text));
        Config::from_text(file, std::iter::empty(), &[])
    }

    const TEXT: &str = "[[policy]]\nfilter = \"plant/#\"\nlifespan_max = \"30s\"\npriority_min = 4\nreliability_min = \"at-least-once\"\nlast_value = \"keep\"\n\
                        rate = \"200/s\"\nrate_bytes = \"1MiB/s\"\nrate_per = \"topic\"\nrate_burst = \"2s\"\n\
                        [[policy]]\nfilter = \"plant/+/x\"\nlifespan_max = \"unlimited\"\nfsync = \"interval\"\n\
                        last_value_depth = 20\nrate = \"unlimited\"\nrate_exceed = \"drop\"\n";

    #[test]
    fn policies_keep_their_order_and_read_back_as_they_are_shown() {
        let (config, origins) = load(TEXT).unwrap_or_else(|errors| panic!("{errors:?}"));
        let [plant, x] = config.policy.as_slice() else {
            panic!("{:?}", config.policy)
        };
        assert_eq!(
            (plant.lifespan_max, plant.priority_min, plant.last_value),
            (
                Some(Span::from_secs(30)),
                Some(4),
                Some(thalweg_kernel::LastValueRule::Keep)
            )
        );
        assert_eq!(
            (x.lifespan_max, x.priority_min, x.fsync),
            (Some(Span::FOREVER), None, Some(Fsync::Interval))
        );
        assert_eq!(
            (plant.last_value_depth, x.last_value_depth),
            (None, Some(20))
        );
        assert_eq!(
            (plant.rate, plant.rate_bytes, plant.rate_burst),
            (Some(200), Some(1 << 20), Some(Span::from_secs(2)))
        );
        assert_eq!(
            (plant.rate_per, plant.rate_exceed),
            (Some(thalweg_kernel::RatePer::Address), None)
        );
        assert_eq!(
            (x.rate, x.rate_exceed),
            (Some(u64::MAX), Some(thalweg_kernel::Exceed::Drop))
        );
        let (again, _) =
            load(&config.to_toml(&origins)).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(again, config);
    }

    #[test]
    fn an_address_is_explained_by_the_policy_that_gives_each_field() {
        let (config, origins) = load(TEXT).unwrap_or_else(|errors| panic!("{errors:?}"));
        let explain = |name: &str| {
            config
                .explain(&origins, name)
                .map_err(|error| error.to_string())
        };
        assert_eq!(
            explain("plant/7/x").as_deref(),
            Ok("plant/7/x\n  \
                lifespan_max         \"unlimited\" (policy 2, \"plant/+/x\")\n  \
                priority_min         4 (policy 1, \"plant/#\")\n  \
                reliability_min      \"at-least-once\" (policy 1, \"plant/#\")\n  \
                reliability_max      no policy\n  \
                last_value           \"keep\" (policy 1, \"plant/#\")\n  \
                last_value_depth     20 (policy 2, \"plant/+/x\")\n  \
                fsync                \"interval\" (policy 2, \"plant/+/x\")\n  \
                rate                 \"unlimited\" (policy 2, \"plant/+/x\")\n  \
                rate_bytes           \"1MiB/s\" (policy 1, \"plant/#\")\n  \
                rate_burst           \"2s\" (policy 1, \"plant/#\")\n  \
                rate_per             \"topic\" (policy 1, \"plant/#\")\n  \
                rate_exceed          \"drop\" (policy 2, \"plant/+/x\")\n")
        );
        assert!(explain("plant").is_ok_and(|text| text.contains("\"30s\" (policy 1")));
        assert!(
            explain("office/7").is_ok_and(|text| text.contains("priority_min         no policy"))
        );
        assert!(
            explain("queue.overflw")
                .is_err_and(|error| error.contains("Did you mean queue.overflow?"))
        );
    }

    /// The tables are made of what fronts declare; a field that none is about would be left out in silence.
    #[test]
    fn a_document_says_of_each_field_what_it_is_in_each_protocol() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("docs/policies.md")).expect("it is there");
        let heads: Vec<&str> = text
            .lines()
            .filter(|it| it.starts_with("| protocol |"))
            .collect();
        for key in super::keys_of::<Policy>().iter().skip(1) {
            let name = format!("`{}`", key.name);
            assert!(heads.iter().any(|it| it.contains(&name)), "{name}");
            let row = format!("\n| {name}");
            let among = format!(", {name}");
            let is_described = text.contains(&row) || text.contains(&among);
            assert!(is_described, "{name}");
        }
    }

    #[test]
    fn rates_that_make_no_sense_are_refused_with_their_line() {
        for (field, wrong) in [
            (
                "reliability_min = \"exactly-once\"",
                "asks for \"a/#\" to be published exactly once, which only a publisher itself can do. Write",
            ),
            (
                "rate = \"0/s\"",
                "has \"a/#\", whose rate is 0/s, which lets nothing through. Write 1/s or more",
            ),
            (
                "rate = \"fast\"",
                "has \"a/#\", whose rate is \"fast\", which is not a rate. Write a number per second",
            ),
            (
                "rate_bytes = \"-1/s\"",
                "whose rate_bytes is \"-1/s\", which is not a rate",
            ),
            (
                "rate = \"1/s\"\nrate_burst = \"0s\"",
                "whose rate_burst is 0s, which is out of range",
            ),
            (
                "rate = \"1/s\"\nrate_per = \"planet\"",
                "whose rate_per is \"planet\", which is not one of its words",
            ),
            (
                "rate = \"1/s\"\nrate_per = \"subscriber\"\nrate_exceed = \"reject\"",
                "where what is beyond a subscriber's rate is to be rejected, which nobody would hear. Write rate_exceed",
            ),
            (
                "rate_exceed = \"drop\"",
                "says rate_exceed for \"a/#\", and no entry has a rate. Write rate =",
            ),
        ] {
            let errors = load(&format!("\n[[policy]]\nfilter = \"a/#\"\n{field}\n"))
                .map(|(config, _)| config.policy)
                .expect_err(field);
            let [error] = errors.as_slice() else {
                panic!("{errors:?}")
            };
            let text = error.to_string();
            assert!(text.starts_with("t.toml:2: policy "), "{text}");
            assert!(text.contains(wrong), "{text}");
        }
    }
}
