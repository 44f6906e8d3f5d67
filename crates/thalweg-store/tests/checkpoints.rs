//! The power goes out after every operation of a run with checkpoints, packs and releases: whatever was confirmed is
//! found again, and every message that is still needed can be read.

mod broker;

use broker::{Broker, read_all, round, written};
use thalweg_store::sim::{Random, SimDisk};
use thalweg_store::{Index, Loaded, Log, Options, Reclaimed, load};

const OPTIONS: Options = Options {
    segment_bytes: 8 << 10,
    spares: 2,
    bytes_max: 0,
    repair: false,
};

/// What was written and promised, and at which moment.
struct Run {
    broker: Broker,
    given: Vec<(usize, Index)>,
    confirmed: Vec<(usize, Index)>,
    reclaimed: Reclaimed,
    checkpoints: usize,
}

fn at(list: &[(usize, Index)], moment: usize) -> Index {
    list.iter()
        .rev()
        .find(|(at, _)| *at <= moment)
        .map_or(0, |(_, index)| *index)
}

fn open(disk: &SimDisk, what: &str) -> Loaded<SimDisk> {
    load(disk.clone(), OPTIONS).unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn run(seed: u64, steps: usize) -> (SimDisk, Run) {
    let disk = SimDisk::new(seed);
    let mut random = Random(seed.wrapping_mul(7_919));
    let mut run = Run {
        broker: Broker::new(seed),
        given: Vec::new(),
        confirmed: Vec::new(),
        reclaimed: Reclaimed::default(),
        checkpoints: 0,
    };
    let Loaded {
        mut journal,
        mut archive,
        ..
    } = open(&disk, "a new journal");
    for _ in 0..steps {
        match random.below(20) {
            0..=11 => {
                run.given.push((disk.done(), run.broker.frames() + 1));
                run.broker.write(&mut journal);
            }
            12..=14 => {
                let durable = journal.commit().expect("this disk has no faults");
                run.confirmed.push((disk.done(), durable));
            }
            15 => {
                let before = run.broker.frames();
                run.given.push((disk.done(), before + 1));
                let tip = journal.tip().index;
                journal.mark().expect("this disk has no faults");
                if journal.tip().index > tip {
                    run.broker.marked();
                }
                run.confirmed.push((disk.done(), before));
            }
            16..=18 => {
                let round = round(&mut archive, &journal);
                run.checkpoints += 1;
                let (sum, more) = (&mut run.reclaimed, round.reclaimed);
                assert_eq!((more.lost, round.contradictions), (0, 0));
                sum.segments_released += more.segments_released;
                sum.segments_packed += more.segments_packed;
                sum.packs_written += more.packs_written;
                sum.packs_removed += more.packs_removed;
            }
            _ => {
                drop((journal, archive));
                let again = open(&disk, "a process that died");
                assert_eq!(
                    again.recovered.last_index,
                    run.broker.frames(),
                    "it loses nothing that was written"
                );
                run.confirmed.push((disk.done(), run.broker.frames()));
                (journal, archive) = (again.journal, again.archive);
            }
        }
    }
    (disk, run)
}

/// Opens a disk after a crash and holds it against the run.
fn check(disk: &SimDisk, run: &Run, moment: usize, what: &str) -> Index {
    let loaded = open(disk, what);
    let last = loaded.recovered.last_index;
    let (confirmed, given) = (at(&run.confirmed, moment), at(&run.given, moment));
    assert!(
        (confirmed..=given).contains(&last),
        "{what}: frame {last} is the last of {confirmed} to {given}"
    );
    assert!(
        written(&loaded.state) == run.broker.states[last as usize],
        "{what}: another state after frame {last}"
    );
    assert_eq!(loaded.warnings, Vec::<String>::new(), "{what}");
    let inventory = loaded.journal.inventory();
    read_all(&inventory, &loaded.state, what);
    // And two rounds later, with whatever they take away.
    let (mut journal, mut archive) = (loaded.journal, loaded.archive);
    for _ in 0..2 {
        journal
            .append(&[thalweg_store::Batch {
                shard: 1,
                payload: &[],
            }])
            .expect("there is room");
        journal.commit().expect("this disk has no faults");
        assert_eq!(round(&mut archive, &journal).reclaimed.lost, 0, "{what}");
        read_all(&inventory, &loaded.state, what);
    }
    drop((journal, archive));
    let again = open(disk, what);
    assert!(
        written(&again.state) == run.broker.states[last as usize],
        "{what}: another state after two rounds"
    );
    last
}

/// The power goes out once more, while the journal is opened, in the rounds behind that, or when it is opened again.
fn check_twice(disk: &SimDisk, run: &Run, last: Index, seed: u64, what: &str) -> usize {
    let mut states = 0;
    disk.moments(|moment, then| {
        for (at, crashed) in then
            .crashes(3, seed ^ moment as u64)
            .into_iter()
            .enumerate()
        {
            let what = format!("{what}, again at moment {moment}, crash {at}");
            let loaded = open(&crashed, &what);
            assert!(loaded.recovered.last_index >= last, "{what}");
            assert!(
                written(&loaded.state) == run.broker.states[last as usize],
                "{what}: another state"
            );
            read_all(&loaded.journal.inventory(), &loaded.state, &what);
            states += 1;
        }
    });
    states
}

#[test]
fn every_crash_state_of_runs_with_checkpoints_and_packs_is_survived() {
    let seeds = std::env::var("THALWEG_STORE_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok())
        .unwrap_or(3u64);
    let (mut states, mut twice, mut all) = (0, 0, Reclaimed::default());
    for seed in 1..=seeds {
        let (disk, run) = run(seed, 90);
        all.segments_released += run.reclaimed.segments_released;
        all.segments_packed += run.reclaimed.segments_packed;
        all.packs_written += run.reclaimed.packs_written;
        all.packs_removed += run.reclaimed.packs_removed;
        disk.moments(|moment, then| {
            for (at, crashed) in then
                .crashes(3, seed ^ moment as u64)
                .into_iter()
                .enumerate()
            {
                let what = format!("seed {seed}, moment {moment}, crash {at}");
                let last = check(&crashed, &run, moment, &what);
                states += 1;
                if states % 150 == 0 {
                    twice += check_twice(&crashed, &run, last, seed, &what);
                }
            }
        });
    }
    println!("{states} crash states, {twice} of a second crash, {all}");
    assert!(states > 1_000, "only {states}");
    // If these do not happen, nothing was tested.
    assert!(
        all.segments_released > 0 && all.segments_packed > 0 && all.packs_removed > 0,
        "{all}"
    );
}

#[test]
fn what_is_kept_is_bounded_by_what_is_needed() {
    let disk = SimDisk::new(9);
    let mut broker = Broker::new(9);
    let Loaded {
        mut journal,
        mut archive,
        ..
    } = open(&disk, "a new journal");
    let mut longest = 0;
    for _ in 0..60 {
        for _ in 0..12 {
            broker.write(&mut journal);
        }
        journal.commit().expect("this disk has no faults");
        round(&mut archive, &journal);
        let names: Vec<String> = disk.contents().into_iter().map(|(name, _)| name).collect();
        let count = |kind: &str| names.iter().filter(|name| name.starts_with(kind)).count();
        assert_eq!(
            (
                count("checkpoint-") <= 2,
                names.iter().any(|name| name.ends_with(".new"))
            ),
            (true, false)
        );
        longest = longest.max(names.len());
    }
    let state = open_again(journal, archive, &disk);
    let needed: u64 = state.live().map(|(_, len)| u64::from(len)).sum();
    let bytes: u64 = disk
        .contents()
        .iter()
        .map(|(_, bytes)| bytes.len() as u64)
        .sum();
    println!("{longest} files at most, {bytes} bytes for {needed} that are needed");
    assert!(
        bytes < 8 * needed + (200 << 10),
        "{bytes} bytes for {needed} that are needed"
    );
}

fn open_again(
    journal: thalweg_store::Journal<SimDisk>,
    archive: thalweg_store::Archive<SimDisk>,
    disk: &SimDisk,
) -> thalweg_records::State {
    drop((journal, archive));
    open(disk, "opened again").state
}
