//! What must hold whatever it takes.

use thalweg_bench::sim::rows::{churn, condition, exactly_once};
use thalweg_bench::sim::scenario::{Acks, Reports};
use thalweg_bench::sim::table::{Verdict, rules};
use thalweg_bench::sim::{Scenario, run};
use thalweg_kernel::GroupStrategy;

#[test]
fn liars_nobodys_word_exactly_once_and_churn_are_within_their_bars() {
    // Ten seconds of churn here; the ten minutes are in the whole table.
    let missed: Vec<_> = rules(10_000).into_iter().filter(|row| row.verdict == Verdict::Missed).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn an_exactly_once_message_never_reaches_a_second_member_whenever_it_is_recorded() {
    for acks in [Acks::Processed, Acks::Recorded, Acks::Receipt] {
        let scenario = Scenario { messages: 8_000, ..exactly_once(acks) };
        assert_eq!(run(&scenario, GroupStrategy::Adaptive).moved, 0, "{acks:?}");
    }
}

#[test]
fn without_any_word_from_anybody_the_order_is_that_of_round_robin() {
    let scenario = Scenario { messages: 5_000, ..Scenario::base(0.8, 10, 2.0).at_most_once(Reports::Never) };
    let order = |strategy| run(&scenario, strategy).taken.into_iter().map(|(who, _)| who).collect::<Vec<_>>();
    assert_eq!(order(GroupStrategy::Adaptive), order(GroupStrategy::RoundRobin));
}

#[test]
fn a_run_is_the_same_every_time() {
    let scenario = Scenario { messages: 3_000, ..churn(1000.0, 2.0) };
    let [first, second] = [(); 2].map(|()| run(&scenario, GroupStrategy::Adaptive));
    assert_eq!(first.taken, second.taken);
    assert_eq!(first.mean, second.mean);
    assert!(first.moved > 0, "members left with messages");
}

#[test]
fn every_strategy_serves_everybody_at_least_once() {
    let base = condition("a member frozen for 10 s").expect("there is").scenario;
    for word in GroupStrategy::WORDS {
        let strategy = GroupStrategy::named(word).expect("its own name");
        let mut scenario = Scenario { messages: 3_000, ..base.clone() }.at_load(0.3);
        scenario.incidents.iter_mut().for_each(|incident| (incident.at, incident.lasts) = (2.0, 3.0));
        let got = run(&scenario, strategy);
        assert_eq!(got.lost, 0, "{word}");
        assert_eq!(got.unflagged, 0, "{word}");
    }
}
