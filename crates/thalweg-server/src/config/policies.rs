//! What is said of shared subscriptions by filter: an entry for each filter, of which the first that fits counts.

use std::path::Path;

use thalweg_kernel::GroupStrategy;
use thalweg_model::{Address, Filter, Span};
use toml::de::{DeTable, DeValue};

use super::kind::{Fault, Kind, Value, Written, fault, show_duration};
use super::nearest::nearest;
use super::sources::written;
use super::words::GroupOrder;

/// An entry of `groups.policies`. What it leaves out is as everywhere else.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupPolicy {
    /// Which shared subscriptions: those whose own filter wants nothing beyond this one.
    pub filter: Filter,
    /// How the next member is chosen.
    pub strategy: Option<GroupStrategy>,
    /// What must stay in order; without a word, and with `off`, members decide.
    pub order: Option<GroupOrder>,
    /// In place of `groups.settle_timeout`; [`Span::FOREVER`] is none.
    pub settle_timeout: Option<Span>,
    /// Whether members get messages as reliably as they subscribed, though they were published with less.
    pub upgrade_qos: Option<bool>,
    /// Deliveries of a message that no member acknowledges before it is given up.
    pub delivery_limit: Option<u32>,
    /// The topic to which messages go that are given up.
    pub dead_letter: Option<Box<str>>,
}

impl GroupPolicy {
    fn new(filter: Filter) -> Self {
        GroupPolicy {
            filter,
            strategy: None,
            order: None,
            settle_timeout: None,
            upgrade_qos: None,
            delivery_limit: None,
            dead_letter: None,
        }
    }
}

/// The policies that `written` means, in its order.
pub(super) fn parse(written: &Written, max: usize) -> Result<Vec<GroupPolicy>, Fault> {
    let loose;
    let entries = match written {
        Written::List(entries) => entries,
        Written::Loose(text) => {
            loose = list_in(text).ok_or_else(|| refuses(&format!("\"{text}\"")))?;
            &loose
        }
        Written::Table(_) => return Err(refuses("a table")),
        Written::Bare(text) | Written::Quoted(text) => return Err(refuses(&format!("\"{text}\""))),
        Written::Other(name) => return Err(refuses(name)),
    };
    if entries.len() > max {
        let mend = format!("Keep at most {max}: a new shared subscription is compared with each");
        return Err(fault(format!("has {} entries", entries.len()), mend));
    }
    let mut policies: Vec<GroupPolicy> = Vec::with_capacity(entries.len());
    for entry in entries {
        let Written::Table(entry) = entry else {
            return Err(refuses("a list of other things"));
        };
        let policy = policy(entry)?;
        if let Some(wider) = policies
            .iter()
            .find(|earlier| earlier.filter.covers(policy.filter.as_str()))
        {
            let (one, other) = (&policy.filter, &wider.filter);
            let what = if one == other {
                format!("names \"{one}\" twice")
            } else {
                format!(
                    "has \"{one}\" after \"{other}\", which is wider, so that it would never count"
                )
            };
            let mend = if one == other {
                "Keep one of the two".into()
            } else {
                format!("Put \"{one}\" first")
            };
            return Err(fault(what, mend));
        }
        policies.push(policy);
    }
    Ok(policies)
}

fn policy(entry: &[(String, Written)]) -> Result<GroupPolicy, Fault> {
    let filter = match entry.iter().find(|(name, _)| name == "filter") {
        Some((_, Written::Quoted(text))) => filter_of(text)?,
        Some(_) => return Err(fault("has an entry whose filter is not text", FILTER_MEND)),
        None => return Err(fault("has an entry without a filter", FILTER_MEND)),
    };
    let mut policy = GroupPolicy::new(filter);
    for (name, written) in entry.iter().filter(|(name, _)| name != "filter") {
        let Some((_, kind, none)) = FIELDS.iter().find(|(field, ..)| field == name) else {
            let names = FIELDS.iter().map(|(field, ..)| *field);
            let mend = match nearest(name, names.chain(["filter"])) {
                Some(near) => format!("Did you mean {near}?"),
                None => "Write filter, strategy, order, settle_timeout, upgrade_qos, delivery_limit and dead_letter".into(),
            };
            return Err(fault(
                format!(
                    "says {name} for \"{}\", which is no part of a policy",
                    policy.filter
                ),
                mend,
            ));
        };
        let is_none = matches!(written, Written::Quoted(text) if Some(text.as_str()) == *none);
        let value = if is_none {
            Value::Length(Span::FOREVER)
        } else {
            field(&policy.filter, name, kind, *none, written)?
        };
        match value {
            Value::Text(word) if name == "strategy" => {
                policy.strategy = GroupStrategy::named(&word)
            }
            Value::Text(topic) if name == "dead_letter" => {
                policy.dead_letter = Some(dead_letter(&policy.filter, &topic)?)
            }
            Value::Text(word) => policy.order = GroupOrder::from_word(&word),
            Value::Number(limit) => policy.delivery_limit = u32::try_from(limit).ok(),
            Value::Length(span) => policy.settle_timeout = Some(span),
            Value::Flag(flag) => policy.upgrade_qos = Some(flag),
            _ => {}
        }
    }
    Ok(policy)
}

fn dead_letter(filter: &Filter, topic: &str) -> Result<Box<str>, Fault> {
    match Address::check(topic) {
        Ok(()) => Ok(topic.into()),
        Err(_) => Err(fault(
            format!("has \"{filter}\", whose dead_letter \"{topic}\" is not a topic"),
            "Write a topic without wildcards, such as jobs/dead, or $q/dead for a queue",
        )),
    }
}

fn field(
    filter: &Filter,
    name: &str,
    kind: &Kind,
    none: Option<&str>,
    written: &Written,
) -> Result<Value, Fault> {
    kind.parse(written, Path::new("")).map_err(|wrong| {
        let or = none.map_or_else(String::new, |none| format!(", or \"{none}\""));
        fault(
            format!("has \"{filter}\", whose {name} {}", wrong.what),
            format!("{}{or}", wrong.mend),
        )
    })
}

/// `policies` as they would be written in a file, each in one line.
pub(super) fn show(policies: &[GroupPolicy]) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let entries = policies.iter().map(|policy| {
        let span = |span: Span| {
            quoted(&if span == Span::FOREVER {
                "off".to_owned()
            } else {
                show_duration(span)
            })
        };
        let fields = [
            Some(format!("filter = {}", quoted(policy.filter.as_str()))),
            policy
                .strategy
                .map(|strategy| format!("strategy = {}", quoted(strategy.name()))),
            policy
                .order
                .map(|order| format!("order = {}", quoted(order.word()))),
            policy
                .settle_timeout
                .map(|timeout| format!("settle_timeout = {}", span(timeout))),
            policy
                .upgrade_qos
                .map(|upgrade| format!("upgrade_qos = {upgrade}")),
            policy
                .delivery_limit
                .map(|limit| format!("delivery_limit = {limit}")),
            policy
                .dead_letter
                .as_ref()
                .map(|topic| format!("dead_letter = {}", quoted(topic))),
        ];
        format!(
            "{{ {} }}",
            fields.into_iter().flatten().collect::<Vec<_>>().join(", ")
        )
    });
    format!("[{}]", entries.collect::<Vec<_>>().join(", "))
}

pub(super) fn filter_of(filter: &str) -> Result<Filter, Fault> {
    if filter.starts_with("$share/") {
        let what =
            format!("names \"{filter}\", which is a shared subscription, not a filter of topics");
        return Err(fault(
            what,
            "Write the filter that stands behind the group's name",
        ));
    }
    Filter::new(filter).map_err(|error| {
        let what = format!("names \"{filter}\", which is not a topic filter: {error}");
        fault(
            what,
            "Write a filter as in a subscription, such as telemetry/#",
        )
    })
}

/// What to write, in words.
pub(super) fn expectation(max: usize) -> String {
    format!(
        "at most {max} tables [[groups.policies]] with filter, strategy, order, settle_timeout, upgrade_qos, delivery_limit and dead_letter, or {EXAMPLE}, \
         which is how it is written outside the file, too"
    )
}

/// Outside the file a list is written as in it.
pub(super) fn list_in(text: &str) -> Option<Vec<Written>> {
    let document = format!("list = {text}");
    let table = DeTable::parse(&document).ok()?;
    match table
        .get_ref()
        .iter()
        .next()
        .map(|(_, value)| value.get_ref())
    {
        Some(DeValue::Array(items)) if table.get_ref().len() == 1 => {
            Some(items.iter().map(written).collect())
        }
        _ => None,
    }
}

fn refuses(given: &str) -> Fault {
    fault(
        format!("is {given}, which is not a list of policies"),
        format!("Write {EXAMPLE}, or tables [[groups.policies]]"),
    )
}

/// The parts of a policy beside its filter, what each takes, and the word for none.
const FIELDS: &[(&str, Kind, Option<&str>)] = &[
    ("strategy", Kind::Strategy, None),
    ("order", Kind::Word(GroupOrder::WORDS), None),
    (
        "settle_timeout",
        super::declare::SETTLE_TIMEOUT,
        Some("off"),
    ),
    ("upgrade_qos", Kind::Flag, None),
    (
        "delivery_limit",
        Kind::Count {
            min: 1,
            max: 60_000,
        },
        None,
    ),
    ("dead_letter", Kind::Text, None),
];

const EXAMPLE: &str = "[{ filter = \"jobs/#\", strategy = \"round-robin\" }]";
const FILTER_MEND: &str = "Write filter = \"jobs/#\" in it, a filter as in a subscription";

#[cfg(test)]
mod tests {
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
        let set = format!("groups.policies={}", super::show(&config.groups.policies));
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
                    Kind::Strategy.expectation()
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
        let near = load("[[groups.policy]]\nfilter = \"a\"", &[]).expect_err("no such table");
        assert_eq!(
            near.iter().map(ConfigError::to_string).collect::<Vec<_>>(),
            ["t.toml:1: groups.policy is not a setting. Did you mean groups.policies?"]
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
