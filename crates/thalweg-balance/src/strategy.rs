//! The names of strategies, ours and those of other brokers.

/// Strategy by which a group chooses a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupStrategy {
    /// Each member in turn: the one whose last message is oldest.
    RoundRobin,
    /// Whichever has the fewest unsettled deliveries.
    LeastOutstanding,
    /// The same member until it cannot take more.
    Sticky,
    /// A member drawn by a seeded generator.
    Random,
    /// By publisher: one publisher's messages go to one member while membership stays.
    HashPublisher,
    /// By address: one address's messages go to one member while membership stays.
    HashAddress,
    /// Each member in turn, in proportion to the weights they named.
    Weighted,
    /// By what members report of their backlog, exactly as the thesis has it that introduced such reports.
    Score,
    /// The member that is expected to finish first, by acknowledgements, reports and other observations of the broker.
    #[default]
    Adaptive,
}

/// Names by rising strategy, the first of each its own.
const NAMES: &[(GroupStrategy, &[&str])] = &[
    (
        GroupStrategy::RoundRobin,
        &[
            "round-robin",
            "rr",
            "round-robin-per-group",
            "alternating",
            "turn",
            "single-active-round-robin",
        ],
    ),
    (
        GroupStrategy::LeastOutstanding,
        &[
            "least-outstanding",
            "least-inflight",
            "least-connections",
            "least-request",
            "least-pending",
        ],
    ),
    (
        GroupStrategy::Sticky,
        &["sticky", "failover", "single-active-consumer"],
    ),
    (
        GroupStrategy::Random,
        &["random", "local", "prefer-local", "local-only"],
    ),
    (
        GroupStrategy::HashPublisher,
        &["hash-client", "hash-clientid", "hash-publisher", "hash"],
    ),
    (
        GroupStrategy::HashAddress,
        &["hash-topic", "hash-address", "consistent-hash"],
    ),
    (
        GroupStrategy::Weighted,
        &["weighted", "weighted-round-robin", "wrr"],
    ),
    (GroupStrategy::Score, &["score", "state-aware"]),
    (
        GroupStrategy::Adaptive,
        &["adaptive", "lbect", "expected-completion-time", "dynamic"],
    ),
];

impl GroupStrategy {
    pub const WORDS: &'static [&'static str] = &[
        "adaptive",
        "round-robin",
        "random",
        "sticky",
        "least-outstanding",
        "weighted",
        "hash-client",
        "hash-topic",
        "score",
    ];

    /// The names that others have for a strategy.
    pub fn aliases(self) -> &'static [&'static str] {
        let own = NAMES.iter().find(|(strategy, _)| *strategy == self);
        own.and_then(|(_, names)| names.get(1..))
            .unwrap_or_default()
    }

    /// The strategy of that name; upper case, `_`, spaces and a leading `strategy` do not matter.
    pub fn named(name: &str) -> Option<Self> {
        let mut plain = String::with_capacity(name.len());
        for word in name
            .split(['-', '_', ' ', '.'])
            .filter(|word| !word.is_empty())
        {
            if !plain.is_empty() {
                plain.push('-');
            }
            plain.extend(word.chars().map(|letter| letter.to_ascii_lowercase()));
        }
        let is = |(_, names): &&(GroupStrategy, &[&str])| names.contains(&plain.as_str());
        NAMES.iter().find(is).map(|(strategy, _)| *strategy)
    }

    pub fn name(self) -> &'static str {
        let own = NAMES.iter().find(|(strategy, _)| *strategy == self);
        own.and_then(|(_, names)| names.first())
            .copied()
            .unwrap_or_default()
    }

    /// Whether a message's origin or address decides who has it.
    pub(crate) fn binds(self) -> bool {
        matches!(
            self,
            GroupStrategy::HashPublisher | GroupStrategy::HashAddress
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_brokers_are_understood() {
        for (name, strategy) in [
            ("round_robin", GroupStrategy::RoundRobin),
            ("round_robin_per_group", GroupStrategy::RoundRobin),
            ("hash_clientid", GroupStrategy::HashPublisher),
            ("hash_topic", GroupStrategy::HashAddress),
            ("prefer_local", GroupStrategy::Random),
            ("least_inflight", GroupStrategy::LeastOutstanding),
            ("Sticky", GroupStrategy::Sticky),
            ("LBECT", GroupStrategy::Adaptive),
        ] {
            assert_eq!(GroupStrategy::named(name), Some(strategy), "{name}");
        }
        assert_eq!(GroupStrategy::named("fastest"), None);
    }

    #[test]
    fn every_strategy_is_found_by_its_own_name_and_no_name_is_given_twice() {
        let mut seen = Vec::new();
        for (strategy, names) in NAMES {
            assert_eq!(GroupStrategy::named(strategy.name()), Some(*strategy));
            seen.extend_from_slice(names);
        }
        assert_eq!(GroupStrategy::WORDS.len(), NAMES.len());
        for word in GroupStrategy::WORDS {
            assert_eq!(
                GroupStrategy::named(word).map(GroupStrategy::name),
                Some(*word)
            );
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
