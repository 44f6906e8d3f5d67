//! What is to be said of system calls that were to be counted.

use std::collections::BTreeMap;

use crate::cell::{CallCounter, Cell, Row, Standing};

/// By what they were counted, or why not; nothing if they were not asked for.
pub fn said<'a>(trials: impl Iterator<Item = (&'a Cell, &'a Row)>) -> Vec<String> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut by_perf, mut by_strace) = (0, 0);
    for (cell, row) in trials.filter(|(_, row)| row.standing == Standing::Valid) {
        let Some(calls) = &row.calls_broker else {
            continue;
        };
        match (calls.count(), cell.calls) {
            (None, _) => *reasons.entry(calls.why()).or_default() += 1,
            (Some(_), Some(CallCounter::Strace)) => by_strace += 1,
            (Some(_), _) => by_perf += 1,
        }
    }
    let mut said = Vec::new();
    if by_perf > 0 {
        said.push(format!(
            "System calls of the broker were counted by perf in {by_perf} trials, in the measured phase."
        ));
    }
    if by_strace > 0 {
        said.push(format!(
            "System calls of the broker were counted by strace in {by_strace} trials, which stops the broker twice at every \
             call: nothing else in these trials says how fast it is."
        ));
    }
    said.extend(reasons.iter().map(|(why, count)| {
        format!("System calls of the broker are not known in {count} trials: {why}.")
    }));
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Calls;
    use crate::results::tests::cell as invented;

    #[test]
    fn what_was_not_counted_is_told_with_its_reason_and_strace_with_what_it_does() {
        let row = |calls: Option<Calls>| Row {
            calls_broker: calls,
            ..Row::blank(Standing::Valid)
        };
        let cell = |by: Option<CallCounter>| {
            let mut cell = invented("loss", 0);
            by.into_iter().for_each(|by| cell.count_calls(by));
            cell
        };
        let trials = [
            (cell(None), row(None)),
            (cell(Some(CallCounter::Perf)), row(Some(Calls::Counted(9)))),
            (
                cell(Some(CallCounter::Perf)),
                row(Some(Calls::Uncounted("perf is not installed".to_owned()))),
            ),
            (
                cell(Some(CallCounter::Perf)),
                row(Some(Calls::Uncounted("perf is not installed".to_owned()))),
            ),
            (
                cell(Some(CallCounter::Strace)),
                row(Some(Calls::Counted(9))),
            ),
        ];
        assert_ne!(
            trials[1].0.key(),
            trials[4].0.key(),
            "a broker that is slowed is another point"
        );
        assert_eq!(trials[0].0.key(), trials[1].0.key());
        let all = said(trials.iter().map(|(cell, row)| (cell, row)));
        let words = [
            "by perf in 1 trials",
            "by strace in 1 trials",
            "not known in 2 trials: perf is not installed",
        ];
        assert_eq!(all.len(), words.len());
        assert!(
            all.iter()
                .zip(words)
                .all(|(said, words)| said.contains(words)),
            "{all:?}"
        );
        assert!(said(trials.iter().take(1).map(|(cell, row)| (cell, row))).is_empty());
    }
}
