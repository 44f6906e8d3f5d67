//! The broker's promises in each state of a protocol hold after a kill between any two of its steps.

mod groups;
mod last_values;
mod once;
mod stamps;
mod takers;

use thalweg_kernel::Limits;
use thalweg_kernel::access::Access;
use thalweg_model::Span;
use thalweg_testbed::disk::Loss;
use thalweg_testbed::{Client, Settings, Testbed, Who};

/// Journal after a kill: all written frames, or only the durable ones.
const LOSSES: [Loss; 2] = [Loss::Process, Loss::Power(0)];

fn bed(shards: u16) -> Testbed {
    Testbed::new(Settings {
        shards,
        limits: Limits {
            journal: true,
            ..Limits::default()
        },
        ..Settings::default()
    })
}

/// Lets things move one by one until nothing moves, or so many have moved that nothing is `left`. Whether it came to rest.
fn go_on(bed: &mut Testbed, clients: &[Who<()>], left: &mut usize) -> bool {
    let shards = bed.shards.len();
    loop {
        let mut happened = false;
        let mut count = |did: bool| {
            happened |= did;
            *left -= usize::from(did);
            *left == 0
        };
        for who in clients {
            if count(bed.feed(*who, usize::MAX))
                || count(bed.flush(*who, usize::MAX))
                || count(bed.read(*who))
            {
                return false;
            }
        }
        for pair in 0..shards * shards {
            while bed.carry(pair / shards, pair % shards) {
                if count(true) {
                    return false;
                }
            }
        }
        for shard in 0..shards {
            if count(bed.tick(shard)) || count(bed.fetch(shard)) {
                return false;
            }
        }
        if count(bed.write_batches(1)) || count(bed.sync()) {
            return false;
        }
        if !happened {
            return true;
        }
    }
}

/// Lets things move and kills the broker after so many steps, unless it came to rest before; then it has.
fn kill(bed: &mut Testbed, clients: &[Who<()>], after: usize, loss: Loss) -> bool {
    bed.is_disk_manual = true;
    let mut left = after;
    let has_rested = left > 0 && go_on(bed, clients, &mut left);
    bed.crash(loss, bed.settings.shards, |_| ());
    bed.is_disk_manual = false;
    bed.run_for(Span::ZERO);
    has_rested
}

/// Runs a story with a kill after each of its steps; it returns whether it was over before.
fn at_each_step(mut story: impl FnMut(usize) -> bool) {
    let steps = (0..10_000).find(|after| story(*after));
    let steps = steps.expect("a story ends");
    assert!(steps > 5, "it has {steps} steps");
}

fn all<C: Client>(who: Who<C>) -> Who<()> {
    who.cast()
}

fn everything() -> Option<Access> {
    Some(Access::ALL)
}
