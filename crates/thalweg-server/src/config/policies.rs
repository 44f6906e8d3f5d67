//! What is said of shared subscriptions by filter: an entry for each filter, of which the first that fits counts.

use serde_json::Value;
use thalweg_kernel::GroupStrategy;
use thalweg_model::{Filter, Span};

use super::choices::GroupOrder;
use super::kind::{Fault, fault};
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
    mend_first: "Write filter = \"jobs/#\" in it, a filter as in a subscription",
    keys: keys_of::<GroupPolicy>,
    check: each_can_count,
};

/// An entry behind a wider one would never be looked at.
fn each_can_count(entries: &[Value]) -> Result<(), Fault> {
    let mut earlier: Vec<Filter> = Vec::with_capacity(entries.len());
    for one in entries
        .iter()
        .filter_map(|entry| Filter::from_value(entry["filter"].clone()))
    {
        match earlier.iter().find(|wider| wider.covers(one.as_str())) {
            Some(same) if *same == one => {
                return Err(fault(
                    format!("names \"{one}\" twice"),
                    "Keep one of the two",
                ));
            }
            Some(wider) => {
                let what = format!(
                    "has \"{one}\" after \"{wider}\", which is wider, so that it would never count"
                );
                return Err(fault(what, format!("Put \"{one}\" first")));
            }
            None => earlier.push(one),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::section::Setting;
    use crate::config::*;
    use thalweg_kernel::GroupStrategy;
    use thalweg_model::Span;

    fn load(text: &str, sets: &[&str]) -> Result<(Config, Origins), Vec<ConfigError>> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Config::from_text(
            Some((std::path::Path::new("t.toml"), text)),
            std::iter::empty(),
            &sets,
        )
    }

    #[test]
    fn policies_keep_their_order_and_read_back_as_they_are_shown() {
        let text = "[groups]\nstrategy = \"round_robin\"\n\n[[groups.policies]]\nfilter = \"plant/+/jobs\"\nstrategy = \"LBECT\"\n\
                    order = \"publisher\"\n[[groups.policies]]\nfilter = \"plant/#\"\nsettle_timeout = \"off\"\nupgrade_qos = true\ndelivery_limit = 5\n\
                    dead_letter = \"plant/dead\"\n\
                    [[groups.policies]]\nfilter = \"#\"\nstrategy = \"hash_topic\"\norder = \"off\"\nsettle_timeout = \"90s\"\n";
        let (config, origins) = load(text, &[]).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(config.groups.strategy, GroupStrategy::RoundRobin);
        let [jobs, plant, rest] = config.groups.policies.as_slice() else {
            panic!("{:?}", config.groups.policies)
        };
        assert_eq!(
            (jobs.strategy, jobs.order),
            (Some(GroupStrategy::Adaptive), Some(GroupOrder::Publisher))
        );
        assert_eq!(
            (plant.strategy, plant.settle_timeout, plant.upgrade_qos),
            (None, Some(Span::FOREVER), Some(true))
        );
        assert_eq!(
            (plant.delivery_limit, plant.dead_letter.as_deref()),
            (Some(5), Some("plant/dead"))
        );
        assert_eq!(
            (rest.order, rest.settle_timeout),
            (Some(GroupOrder::Off), Some(Span::from_secs(90)))
        );
        assert_eq!(origins.of("groups.policies").to_string(), "t.toml:4");
        let (again, _) =
            load(&config.to_toml(&origins), &[]).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(again, config);
        let set = format!(
            "groups.policies={}",
            KeyKind::Tables(&super::POLICIES).show(&config.groups.policies.to_value())
        );
        let (outside, _) = load("", &[&set]).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(outside.groups.policies, config.groups.policies);
    }

    #[test]
    fn mistakes_in_policies_name_the_entry_and_the_part_that_is_wrong() {
        let policy = |rest: &str| format!("[[groups.policies]]\n{rest}");
        let list = "Write [{ filter = \"jobs/#\", strategy = \"round-robin\" }], or tables [[groups.policies]].";
        for (text, wanted) in [
            (
                policy("strategy = \"random\""),
                "has an entry without a filter. Write filter = \"jobs/#\" in it, a filter as in a subscription.".to_owned(),
            ),
            (
                policy("filter = 5"),
                "has an entry whose filter is not text. Write filter = \"jobs/#\" in it, a filter as in a subscription.".into(),
            ),
            (
                policy("filter = \"$share/g/a\""),
                "names \"$share/g/a\", which is a shared subscription, not a filter of topics. Write the filter that stands \
                 behind the group's name."
                    .into(),
            ),
            (
                policy("filter = \"a\"\nstrategy = \"fastest\""),
                format!(
                    "has \"a\", whose strategy is \"fastest\", which is not a strategy. Write {}.",
                    KeyKind::Strategy.expectation()
                ),
            ),
            (
                policy("filter = \"a\"\norder = \"key\""),
                "has \"a\", whose order is \"key\", which is not one of its words. Write publisher, topic or off.".into(),
            ),
            (
                policy("filter = \"a\"\nsettle_timeout = 5"),
                "has \"a\", whose settle_timeout is \"5\", which is not a duration with its unit. Write a duration from 1s to 7d, \
                 such as 10s, 5m or 1h, or \"off\"."
                    .into(),
            ),
            (
                policy("filter = \"a\"\ndead_letter = \"dead/#\""),
                "has \"a\", whose dead_letter \"dead/#\" is not a topic. Write a topic without wildcards, such as jobs/dead, or \
                 $q/dead for a queue."
                    .into(),
            ),
            (
                policy("filter = \"a\"\nstratgy = \"score\""),
                "says stratgy for \"a\", which is no part of a policy. Did you mean strategy?".into(),
            ),
            (
                policy("filter = \"a/#\"\n[[groups.policies]]\nfilter = \"a/b\""),
                "has \"a/b\" after \"a/#\", which is wider, so that it would never count. Put \"a/b\" first.".into(),
            ),
            (
                policy("filter = \"a\"\n[[groups.policies]]\nfilter = \"a\""),
                "names \"a\" twice. Keep one of the two.".into(),
            ),
            ("[groups.policies]\nfilter = \"a\"".into(), format!("is a table, which is not a list of policies. {list}")),
            (
                "groups.policies = [\"a\"]".into(),
                format!("is a list of other things, which is not a list of policies. {list}"),
            ),
        ] {
            let errors = load(&text, &[]).expect_err(&text);
            let errors: Vec<String> = errors.iter().map(ConfigError::to_string).collect();
            assert_eq!(errors, [format!("t.toml:1: groups.policies {wanted}")], "{text}");
        }
        for set in [
            "groups.policies=a=random",
            "groups.policies=[]\nshards = 2",
            "groups.policies={}",
        ] {
            assert_eq!(
                load("", &[set]).map_err(|errors| errors.len()),
                Err(1),
                "{set}"
            );
        }
        let near = load("[[groups.polices]]\nfilter = \"a\"", &[]).expect_err("no such table");
        assert_eq!(
            near.iter().map(ConfigError::to_string).collect::<Vec<_>>(),
            ["t.toml:1: groups.polices is not a setting. Did you mean groups.policies?"]
        );
    }

    #[test]
    fn every_name_of_a_strategy_is_understood_and_the_names_of_others_are_told() {
        for word in GroupStrategy::WORDS {
            let strategy = GroupStrategy::named(word).expect("its own name");
            for name in strategy.aliases().iter().chain([word]) {
                let (config, _) = load("", &[&format!("groups.strategy={name}")])
                    .unwrap_or_else(|errors| panic!("{errors:?}"));
                assert_eq!(config.groups.strategy, strategy, "{name}");
                assert!(
                    reference().contains(&format!("`{name}`")),
                    "{name} is not in the reference"
                );
            }
        }
        assert_eq!(
            load("", &[]).map(|(config, _)| config.groups.strategy).ok(),
            Some(GroupStrategy::Adaptive)
        );
    }
}
