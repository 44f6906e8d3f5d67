//! The power goes out after every single operation of a run, in many ways each; the journal must come back from all.
//!
//! A failing state prints its seed, its moment and its number; the same seed gives the same state again.

use thalweg_journal::sim::{Random, SimDisk};
use thalweg_journal::{Batch, Index, Journal, Log, LogError, Options, Recovered, ReplayFrom};

const OPTIONS: Options = Options {
    segment_bytes: 8 << 10,
    spares: 2,
    bytes_max: 0,
    repair: false,
};

/// What a run did, and at which moment each part of it was promised.
#[derive(Default)]
struct History {
    /// Payload of every frame, from index 1 on.
    payloads: Vec<Vec<u8>>,
    /// Moment, and how many frames had been given to the journal when it began.
    given: Vec<(usize, Index)>,
    /// Moment, and the last frame that was confirmed by then.
    confirmed: Vec<(usize, Index)>,
    /// Moment, and from where replay goes on since then.
    replays: Vec<(usize, ReplayFrom)>,
}

impl History {
    fn at<T: Copy>(list: &[(usize, T)], moment: usize) -> Option<T> {
        list.iter()
            .rev()
            .find(|(at, _)| *at <= moment)
            .map(|(_, value)| *value)
    }
}

fn payload(seed: u64, index: Index) -> Vec<u8> {
    let mut random = Random(seed ^ index.wrapping_mul(0x1234_5678_9abc_def1));
    // Mostly small, some longer than a sector, few longer than a segment.
    let length = match random.below(40) {
        0 => 9_000 + random.below(9_000),
        1..=8 => 300 + random.below(1_500),
        _ => random.below(200),
    };
    (0..length).map(|_| random.next() as u8).collect()
}

fn append(
    journal: &mut Journal<SimDisk>,
    seed: u64,
    history: &mut History,
    disk: &SimDisk,
    count: u64,
) {
    let first = history.payloads.len() as u64 + 1;
    let payloads: Vec<Vec<u8>> = (first..first + count)
        .map(|index| payload(seed, index))
        .collect();
    let batches: Vec<Batch<'_>> = payloads
        .iter()
        .map(|payload| Batch {
            shard: payload.len() as u16,
            payload,
        })
        .collect();
    history.given.push((disk.done(), first + count - 1));
    let places = journal.append(&batches).expect("this disk has no faults");
    assert_eq!(places.len(), batches.len());
    let inventory = journal.inventory();
    let mut read = Vec::new();
    for (place, payload) in places.iter().zip(&payloads) {
        inventory
            .read(*place, payload.len() as u32, &mut read)
            .expect("readable at once");
        assert_eq!(read, *payload);
    }
    history.payloads.extend(payloads);
}

/// A run of random work on a disk: appends, commits, marks, spares, trims, and process deaths in between.
fn run(seed: u64, steps: usize) -> (SimDisk, History) {
    let disk = SimDisk::new(seed);
    let mut random = Random(seed);
    let mut history = History::default();
    let mut journal = open(&disk, None, &mut history);
    for _ in 0..steps {
        match random.below(20) {
            0..=9 => append(&mut journal, seed, &mut history, &disk, 1 + random.below(4)),
            10..=14 => {
                let durable = journal.commit().expect("this disk has no faults");
                assert_eq!(durable, history.payloads.len() as Index);
                history.confirmed.push((disk.done(), durable));
            }
            15 => {
                let before = history.payloads.len() as Index;
                let tip = journal.tip().index;
                // A mark may add a frame of its own.
                history.given.push((disk.done(), before + 1));
                journal.mark().expect("this disk has no faults");
                if journal.tip().index > tip {
                    history.payloads.push(Vec::new());
                }
                history.confirmed.push((disk.done(), before));
            }
            16 => {
                journal
                    .inventory()
                    .make_spare()
                    .expect("this disk has no faults");
            }
            17..=18 => {
                // As if a checkpoint had been made of everything durable.
                let inventory = journal.inventory();
                let from = History::at(&history.replays, usize::MAX)
                    .unwrap_or(ReplayFrom::start(inventory.journal()));
                let through = from.index + random.below(30);
                let to = inventory
                    .read_frames(from, through, &mut |_| {})
                    .expect("whole");
                history.replays.push((disk.done(), to));
                for segment in inventory.sealed() {
                    if segment.last_index < to.index && random.below(3) > 0 {
                        inventory
                            .release(segment.number)
                            .expect("this disk has no faults");
                    }
                }
            }
            _ => {
                drop(journal);
                let replay = History::at(&history.replays, usize::MAX);
                journal = open(&disk, replay, &mut history);
            }
        }
    }
    (disk, history)
}

/// Opens it; from then on what was shown counts as confirmed.
fn open(disk: &SimDisk, replay: Option<ReplayFrom>, history: &mut History) -> Journal<SimDisk> {
    let (journal, recovered) =
        Journal::open(disk.clone(), OPTIONS, replay, &mut |_| {}).expect("it opens");
    assert_eq!(
        recovered.last_index,
        history.payloads.len() as Index,
        "a process that dies loses nothing written"
    );
    history.confirmed.push((disk.done(), recovered.last_index));
    journal
}

/// Opens a disk after a crash and holds what it shows against the history; the frames it ended with.
fn check(
    disk: &SimDisk,
    history: &History,
    moment: usize,
    replay: Option<ReplayFrom>,
    extra: &[Vec<u8>],
    what: &str,
) -> (Journal<SimDisk>, Recovered) {
    let first = replay.map_or(1, |replay| replay.index);
    let mut next = first;
    let confirmed = History::at(&history.confirmed, moment).unwrap_or(0);
    let given = History::at(&history.given, moment).unwrap_or(0);
    let mut errors = Vec::new();
    let opened = Journal::open(disk.clone(), OPTIONS, replay, &mut |view| {
        let wanted = history.payloads.get(view.index as usize - 1);
        let is_right = view.index == next && wanted.is_some_and(|wanted| wanted == view.payload);
        let is_extra = view.index > confirmed && extra.iter().any(|extra| extra == view.payload);
        if !(is_right || is_extra && view.index == next) {
            errors.push(format!(
                "frame {} with {} bytes where {next} belongs",
                view.index,
                view.payload.len()
            ));
        }
        next = view.index + 1;
    });
    let (journal, recovered) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(errors, Vec::<String>::new(), "{what}");
    assert!(
        next > confirmed,
        "{what}: {confirmed} was confirmed, and only {} is there",
        next - 1
    );
    assert!(
        next - 1 <= given + extra.len() as u64,
        "{what}: {given} were given, and {} are there",
        next - 1
    );
    assert_eq!(recovered.last_index, next - 1, "{what}");
    (journal, recovered)
}

fn every_crash_is_survived(seed: u64, steps: usize, crashes: usize) -> usize {
    let (disk, history) = run(seed, steps);
    let mut states = 0;
    disk.moments(|moment, then| {
        let replay = History::at(&history.replays, moment);
        for (at, crashed) in then
            .crashes(crashes, seed ^ moment as u64)
            .into_iter()
            .enumerate()
        {
            let what = format!("seed {seed}, moment {moment}, crash {at}");
            states += 1;
            let (mut journal, recovered) = check(&crashed, &history, moment, replay, &[], &what);
            // Writing goes on, and what is confirmed now survives the next cut too, together with all before it.
            let new = [vec![0xAA; 100], vec![0xBB; 700], vec![0xCC; 9_000]];
            let batches: Vec<Batch<'_>> = new
                .iter()
                .map(|payload| Batch { shard: 7, payload })
                .collect();
            journal
                .append(&batches)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            let durable = journal
                .commit()
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(durable, recovered.last_index + 3, "{what}");
            drop(journal);
            let mut shown = Vec::new();
            let again = crashed.moment().power_cut(seed);
            let result = Journal::open(again, OPTIONS, replay, &mut |view| {
                shown.push(view.payload.to_vec())
            });
            let (_, second) =
                result.unwrap_or_else(|error| panic!("{what}, opened again: {error}"));
            assert_eq!(second.last_index, durable, "{what}, opened again");
            assert_eq!(shown[shown.len() - 3..], new, "{what}, opened again");
            // And the power may go out while the journal is being opened.
            if states % 50 == 0 {
                crashed.moments(|inner, then| {
                    if inner % 3 == 0 {
                        for twice in then.crashes(4, seed ^ inner as u64) {
                            check(
                                &twice,
                                &history,
                                moment,
                                replay,
                                &new,
                                &format!("{what}, again at {inner}"),
                            );
                        }
                    }
                });
            }
        }
    });
    states
}

#[test]
fn every_crash_state_of_random_runs_is_survived() {
    let seeds = std::env::var("THALWEG_STORE_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok())
        .unwrap_or(6u64);
    let states: usize = (1..=seeds)
        .map(|seed| every_crash_is_survived(seed, 60, 12))
        .sum();
    println!("{states} crash states");
    assert!(
        states > 1_000,
        "only {states}: the disk does not give states any more"
    );
}

#[test]
fn the_same_seed_gives_the_same_run_and_the_same_crashes() {
    let picture = || {
        let (disk, _) = run(3, 30);
        let mut all = Vec::new();
        disk.moments(|_, then| all.extend(then.crashes(5, 9).iter().map(SimDisk::contents)));
        all
    };
    assert!(picture() == picture());
}

/// The control: a store that confirms without syncing must lose something, or the simulated disk proves nothing.
#[test]
fn without_syncing_confirmed_frames_are_lost() {
    let disk = SimDisk::new(1);
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS, None, &mut |_| {}).unwrap();
    journal
        .append(&[Batch {
            shard: 0,
            payload: b"never synced",
        }])
        .unwrap();
    let mut lost = 0;
    for crashed in disk.moment().crashes(20, 1) {
        let (_, recovered) = Journal::open(crashed, OPTIONS, None, &mut |_| {}).unwrap();
        lost += usize::from(recovered.last_index == 0);
    }
    assert!(lost > 0);
}

#[test]
fn a_torn_group_at_the_end_is_dropped_and_told() {
    let disk = SimDisk::new(5);
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS, None, &mut |_| {}).unwrap();
    let payloads = [vec![1; 600], vec![2; 600], vec![3; 600]];
    let batches: Vec<Batch<'_>> = payloads
        .iter()
        .map(|payload| Batch { shard: 0, payload })
        .collect();
    journal.append(&batches[..1]).unwrap();
    journal.commit().unwrap();
    let places = journal.append(&batches[1..]).unwrap();
    let second = places[0].0 as usize & ((1 << 26) - 1);
    let killed = disk.after_kill(1);
    killed.flip("segment-0000000000000001", second, 1);
    let mut shown = Vec::new();
    let (_, recovered) = Journal::open(killed, OPTIONS, None, &mut |view| {
        shown.push(view.payload.to_vec())
    })
    .unwrap();
    assert_eq!(shown, payloads[..1]);
    let tail = recovered.dropped_tail.expect("it is told");
    assert_eq!((tail.first_index, tail.frames_seen), (2, 2));
    assert!(
        tail.to_string().contains("segment-0000000000000001"),
        "{tail}"
    );
}

#[test]
fn openings_that_come_to_nothing_leave_no_trail_of_segments() {
    let disk = SimDisk::new(6);
    for _ in 0..20 {
        Journal::open(disk.clone(), OPTIONS, None, &mut |_| {}).unwrap();
    }
    let segments = disk
        .contents()
        .iter()
        .filter(|(name, _)| name.starts_with("segment-"))
        .count();
    assert_eq!(segments, 1);
}

#[test]
fn read_from_shows_durable_frames_from_an_index_on_and_trim_lets_go() {
    let disk = SimDisk::new(7);
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS, None, &mut |_| {}).unwrap();
    for at in 0..100u8 {
        journal
            .append(&[Batch {
                shard: 1,
                payload: &[at; 300],
            }])
            .unwrap();
    }
    journal.commit().unwrap();
    journal
        .append(&[Batch {
            shard: 1,
            payload: &[100; 300],
        }])
        .unwrap();
    let seen = |journal: &Journal<SimDisk>, from: Index| -> Result<Vec<Index>, LogError> {
        let mut seen = Vec::new();
        journal.read_from(from, &mut |view| {
            assert_eq!(view.payload, [view.index as u8 - 1; 300]);
            seen.push(view.index);
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(seen)
    };
    assert_eq!(seen(&journal, 41).unwrap(), (41..=100).collect::<Vec<_>>());
    assert_eq!(seen(&journal, 101).unwrap(), []);
    journal.trim_before(60).unwrap();
    assert_eq!(seen(&journal, 60).unwrap(), (60..=100).collect::<Vec<_>>());
    let error = seen(&journal, 1).unwrap_err().to_string();
    assert!(error.contains("frames 1 to"), "{error}");
    assert!(journal.inventory().release(u64::MAX).is_err());
}
