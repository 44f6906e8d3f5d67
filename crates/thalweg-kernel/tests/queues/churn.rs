//! Members of a group come and go, freeze and come back: every message is processed once, and no available member is
//! idle for long while messages wait.

use crate::crew::{Crew, Membership};
use crate::world::World;
use thalweg_kernel::{GroupStrategy, Limits};

const KINDS: [Membership; 3] = [Membership::Stays, Membership::Goes, Membership::Consumes];

/// Runs a crew for so many milliseconds at about 85 % of its full capacity.
fn run(
    seed: u64,
    strategy: GroupStrategy,
    filter: &str,
    count: usize,
    freezes: bool,
    lasts: u32,
) -> Crew {
    let world = World::without_prefixes(
        1,
        Limits {
            group_strategy: strategy,
            ..Limits::default()
        },
    );
    let kinds: Vec<(Membership, u32)> = (0..count)
        .map(|at| (KINDS[at % 3], 8 + at as u32 % 4))
        .collect();
    let mut crew = Crew::new(world, seed, filter, &kinds);
    for _ in 0..lasts {
        // Ten milliseconds a message: so many a millisecond.
        if crew.dice.roll(1_000) < count * 85 {
            let key = crew.dice.roll(4);
            crew.publish(key);
        }
        let at = crew.dice.roll(count);
        match crew.dice.roll(400) {
            0..3 => {
                let away = 1 + crew.dice.roll(300) as u32;
                crew.go(at, away);
            }
            3 => crew.leave_and_join(at),
            4 if freezes && crew.dice.roll(3) == 0 => crew.freeze(at, 2_500),
            _ => {}
        }
        crew.step();
    }
    crew.finish_all();
    assert!(
        crew.done.values().all(|times| *times == 1),
        "seed {seed}: {:?}",
        crew.done
    );
    let totals = crew.world.kernels[0].totals();
    assert_eq!(
        (totals.waiting, totals.in_flight, totals.queued_bytes),
        (0, 0, 0),
        "seed {seed}"
    );
    crew
}

#[test]
fn everything_is_done_once_and_nobody_is_idle_beside_a_queue() {
    for seed in 0..6 {
        let crew = run(
            seed,
            GroupStrategy::Adaptive,
            "t/#",
            3 + seed as usize,
            false,
            1_500,
        );
        assert!(crew.losses > 3, "seed {seed}: {}", crew.losses);
        assert!(
            crew.idle_longest <= 50,
            "seed {seed}: idle for {} ms",
            crew.idle_longest
        );
    }
}

#[test]
fn everything_is_done_once_where_members_freeze() {
    let mut frozen = 0;
    for seed in 20..24 {
        let crew = run(
            seed,
            GroupStrategy::Adaptive,
            "t/#",
            4 + seed as usize % 4,
            true,
            1_500,
        );
        frozen += crew
            .workers
            .iter()
            .filter(|worker| worker.was_frozen)
            .count();
    }
    assert!(frozen > 2);
}

#[test]
fn everything_is_done_once_whatever_the_strategy() {
    for (seed, strategy) in [
        GroupStrategy::RoundRobin,
        GroupStrategy::LeastOutstanding,
        GroupStrategy::Sticky,
        GroupStrategy::Random,
        GroupStrategy::Weighted,
        GroupStrategy::Score,
        GroupStrategy::HashAddress,
        GroupStrategy::HashPublisher,
    ]
    .into_iter()
    .enumerate()
    {
        run(40 + seed as u64, strategy, "t/#", 4, true, 600);
    }
}
