//! The committer: groups, what is told when, and a log that is full or fails.
#![allow(clippy::unwrap_used)]

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use thalweg_store::committer::{
    Committer, CommitterHandle, CommitterSettings, Event, Submission, Sync,
};
use thalweg_store::sim::{Faults, SimDisk};
use thalweg_store::{Fill, Journal, Options, Place};

const OPTIONS: Options = Options {
    segment_bytes: 64 << 10,
    spares: 2,
    bytes_max: 0,
    repair: false,
};
/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, PartialEq, Debug)]
enum Completion {
    Written {
        shard: u16,
        numbers: Vec<u64>,
        places: Vec<Place>,
        sync_follows: bool,
    },
    Durable {
        shard: u16,
        number: u64,
    },
    Failed(String),
    Pressure(Fill),
}

/// Lets the committer's thread wait inside an event, so that a group gathers behind it.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    is_closed: bool,
    /// Events that may pass although it is closed.
    permits: u32,
}

impl Gate {
    fn set(&self, is_closed: bool) {
        *self.0.0.lock().unwrap() = GateState {
            is_closed,
            permits: 0,
        };
        self.0.1.notify_all();
    }

    /// Lets one event pass, whether it waits already or is still on its way here.
    fn let_one_pass(&self) {
        self.0.0.lock().unwrap().permits += 1;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let state = self.0.0.lock().unwrap();
        let mut state = self
            .0
            .1
            .wait_while(state, |state| state.is_closed && state.permits == 0)
            .unwrap();
        state.permits = state.permits.saturating_sub(1);
    }
}

fn start(
    disk: &SimDisk,
    options: Options,
    settings: CommitterSettings,
) -> (Committer, Receiver<Completion>, Gate) {
    let (journal, _) = Journal::open(disk.clone(), options, None, &mut |_| {}).unwrap();
    let (tell, told) = channel();
    let gate = Gate::default();
    let inner = gate.clone();
    let committer = Committer::start(Box::new(journal), settings, move |event| {
        let told = match event {
            Event::Written {
                shard,
                written,
                spent,
                sync_follows,
            } => {
                assert_eq!(spent.len(), written.len());
                assert!(
                    spent
                        .drain(..)
                        .all(|memory| memory.is_empty() && memory.capacity() > 0)
                );
                let (numbers, places) = written.iter().copied().unzip();
                Completion::Written {
                    shard,
                    numbers,
                    places,
                    sync_follows,
                }
            }
            Event::Durable { shard, number } => Completion::Durable { shard, number },
            Event::Failed(error) => Completion::Failed(error.to_string()),
            Event::Pressure(fill) => Completion::Pressure(fill),
            _ => return,
        };
        let _ = tell.send(told);
        inner.pass();
    });
    (committer.unwrap(), told, gate)
}

fn submit(handle: &CommitterHandle, shard: u16, number: u64, sync: Sync) -> bool {
    handle.submit(Submission {
        shard,
        number,
        payload: format!("{shard}:{number}").into_bytes(),
        sync,
    })
}

fn shown(disk: &SimDisk, options: Options) -> Vec<String> {
    let mut shown = Vec::new();
    Journal::open(disk.clone(), options, None, &mut |view| {
        shown.push(String::from_utf8_lossy(view.payload).into_owned());
    })
    .unwrap();
    shown
}

/// The disk as a power cut leaves it: only what was synced.
fn after_power_cut(disk: &SimDisk) -> SimDisk {
    disk.moment().power_cut(1)
}

#[test]
fn what_waits_is_written_in_one_group_and_told_once_per_shard() {
    let disk = SimDisk::new(1);
    let (committer, told, gate) = start(&disk, OPTIONS, CommitterSettings::default());
    let handle = committer.handle();
    gate.set(true);
    assert!(submit(&handle, 0, 1, Sync::Now));
    assert!(matches!(
        told.recv_timeout(PATIENCE),
        Ok(Completion::Written { shard: 0, .. })
    ));
    // The committer stands in that event; these gather.
    for number in 2..=50 {
        submit(
            &handle,
            (number % 2) as u16,
            number,
            if number == 50 { Sync::Now } else { Sync::Lazy },
        );
    }
    gate.set(false);
    assert_eq!(
        told.recv_timeout(PATIENCE),
        Ok(Completion::Durable {
            shard: 0,
            number: 1
        })
    );
    let group: Vec<Completion> = (0..4)
        .map(|_| told.recv_timeout(PATIENCE).unwrap())
        .collect();
    for (at, shard) in [(0, 0u16), (1, 1)] {
        let Completion::Written {
            shard: of,
            numbers,
            places,
            sync_follows,
        } = &group[at]
        else {
            panic!("{group:?}")
        };
        assert_eq!(*of, shard);
        assert_eq!(
            *numbers,
            (2..=50)
                .filter(|number| number % 2 == u64::from(shard))
                .collect::<Vec<_>>()
        );
        assert!(places.is_sorted() && *sync_follows);
    }
    assert_eq!(
        group[2..],
        [
            Completion::Durable {
                shard: 0,
                number: 50
            },
            Completion::Durable {
                shard: 1,
                number: 49
            }
        ]
    );
    assert!(committer.stop().is_some());
    let mut wanted: Vec<String> = (2..=50)
        .map(|number| format!("{}:{number}", number % 2))
        .collect();
    wanted.insert(0, "0:1".to_owned());
    // The mark at the end.
    wanted.push(String::new());
    assert_eq!(shown(&after_power_cut(&disk), OPTIONS), wanted);
}

#[test]
fn durable_is_told_only_when_a_power_cut_would_keep_it() {
    let disk = SimDisk::new(2);
    let (committer, told, gate) = start(&disk, OPTIONS, CommitterSettings::default());
    let handle = committer.handle();
    gate.set(true);
    for number in 1..=20 {
        submit(&handle, 3, number, Sync::Now);
        loop {
            let event = told.recv_timeout(PATIENCE).unwrap();
            let kept = shown(&after_power_cut(&disk), OPTIONS);
            if let Completion::Durable {
                shard: 3,
                number: durable,
            } = event
            {
                assert!(
                    kept.contains(&format!("3:{durable}")),
                    "{durable} not in {kept:?}"
                );
            }
            gate.let_one_pass();
            if event == (Completion::Durable { shard: 3, number }) {
                break;
            }
        }
    }
    gate.set(false);
    drop(committer);
}

#[test]
fn lazy_batches_are_written_at_once_and_synced_by_the_interval() {
    let disk = SimDisk::new(3);
    let interval = Duration::from_millis(30);
    let settings = CommitterSettings {
        lazy_interval: Some(interval),
        ..CommitterSettings::default()
    };
    let (committer, told, _) = start(&disk, OPTIONS, settings);
    let began = Instant::now();
    submit(&committer.handle(), 0, 1, Sync::Lazy);
    let written = told.recv_timeout(PATIENCE).unwrap();
    assert!(
        matches!(
            written,
            Completion::Written {
                sync_follows: false,
                ..
            }
        ),
        "{written:?}"
    );
    assert_eq!(shown(&disk.after_kill(1), OPTIONS), ["0:1"]);
    assert_eq!(
        told.recv_timeout(PATIENCE),
        Ok(Completion::Durable {
            shard: 0,
            number: 1
        })
    );
    assert!(began.elapsed() >= interval);
    drop(committer);
}

#[test]
fn without_an_interval_nothing_is_synced_until_the_end() {
    let disk = SimDisk::new(4);
    let settings = CommitterSettings {
        lazy_interval: None,
        ..CommitterSettings::default()
    };
    let (committer, told, _) = start(&disk, OPTIONS, settings);
    submit(&committer.handle(), 0, 1, Sync::Lazy);
    assert!(matches!(
        told.recv_timeout(PATIENCE),
        Ok(Completion::Written { .. })
    ));
    // Longer than the quiet after which a mark would be written, were anything durable.
    assert!(told.recv_timeout(Duration::from_millis(250)).is_err());
    assert_eq!(shown(&after_power_cut(&disk), OPTIONS), [""; 0]);
    assert!(committer.stop().is_some());
    assert_eq!(
        told.recv_timeout(PATIENCE),
        Ok(Completion::Durable {
            shard: 0,
            number: 1
        })
    );
    assert_eq!(shown(&after_power_cut(&disk), OPTIONS), ["0:1", ""]);
}

#[test]
fn a_quiet_moment_puts_the_last_durability_on_record() {
    let disk = SimDisk::new(5);
    let (committer, told, _) = start(&disk, OPTIONS, CommitterSettings::default());
    submit(&committer.handle(), 0, 1, Sync::Now);
    while told.recv_timeout(PATIENCE)
        != Ok(Completion::Durable {
            shard: 0,
            number: 1,
        })
    {}
    let began = Instant::now();
    while shown(&after_power_cut(&disk), OPTIONS) != ["0:1", ""] {
        assert!(began.elapsed() < PATIENCE, "no mark came");
        std::thread::yield_now();
    }
    drop(committer);
    assert_eq!(
        shown(&after_power_cut(&disk), OPTIONS),
        ["0:1", ""],
        "and only one"
    );
}

#[test]
fn stopping_writes_and_syncs_what_is_queued_and_takes_no_more() {
    let disk = SimDisk::new(6);
    let (committer, told, gate) = start(
        &disk,
        OPTIONS,
        CommitterSettings {
            group_frames_max: 7,
            ..Default::default()
        },
    );
    let handle = committer.handle();
    gate.set(true);
    submit(&handle, 0, 1, Sync::Now);
    assert!(told.recv_timeout(PATIENCE).is_ok());
    assert!(handle.submit_all((2..=100).map(|number| Submission {
        shard: 0,
        number,
        payload: format!("0:{number}").into_bytes(),
        sync: Sync::Lazy,
    })));
    gate.set(false);
    assert!(committer.stop().is_some());
    assert!(!submit(&handle, 0, 101, Sync::Now));
    let kept = shown(&after_power_cut(&disk), OPTIONS);
    assert_eq!(kept.len(), 101);
    assert_eq!(kept[99], "0:100");
}

#[test]
fn a_failing_disk_is_told_once_and_nothing_is_taken_any_more() {
    let disk = SimDisk::new(7);
    let (committer, told, _) = start(&disk, OPTIONS, CommitterSettings::default());
    let handle = committer.handle();
    disk.plan(Faults {
        syncs: (0..9).collect(),
        ..Faults::default()
    });
    submit(&handle, 0, 1, Sync::Now);
    assert!(matches!(
        told.recv_timeout(PATIENCE),
        Ok(Completion::Written { .. })
    ));
    let Ok(Completion::Failed(words)) = told.recv_timeout(PATIENCE) else {
        panic!("it fails")
    };
    assert!(words.contains("segment"), "{words}");
    assert!(handle.has_failed());
    assert!(!submit(&handle, 0, 2, Sync::Now));
    drop(committer);
    assert!(told.try_recv().is_err());
}

#[test]
fn a_batch_that_is_too_long_is_refused_and_all_others_are_written() {
    let disk = SimDisk::new(9);
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS, None, &mut |_| {}).unwrap();
    journal.set_payload_bytes_max(1000);
    let (tell, told) = channel();
    let committer = Committer::start(
        Box::new(journal),
        CommitterSettings::default(),
        move |event| {
            let told = match event {
                Event::Durable { shard, number } => (shard, number, true),
                Event::Refused {
                    shard,
                    number,
                    error,
                } => {
                    assert!(error.to_string().contains("1001 bytes"), "{error}");
                    (shard, number, false)
                }
                Event::Failed(error) => panic!("{error}"),
                _ => return,
            };
            let _ = tell.send(told);
        },
    )
    .unwrap();
    let handle = committer.handle();
    // In one group, or in several: it comes to the same.
    let all = (1..=30_u64).flat_map(|number| [0, 1].map(|shard| (shard, number)));
    assert!(handle.submit_all(all.map(|(shard, number)| {
        let is_long = shard == 1 && number % 10 == 5;
        let payload = if is_long {
            vec![b'x'; 1001]
        } else {
            format!("{shard}:{number}").into_bytes()
        };
        Submission {
            shard,
            number,
            payload,
            sync: Sync::Now,
        }
    })));
    let (mut refused, mut ends) = (Vec::new(), [0, 0]);
    while ends != [30, 30] {
        let (shard, number, durable) = told.recv_timeout(PATIENCE).expect("it goes on");
        match durable {
            true => ends[usize::from(shard)] = number,
            false => refused.push((shard, number)),
        }
    }
    assert_eq!(refused, [(1, 5), (1, 15), (1, 25)]);
    assert!(!handle.has_failed());
    assert!(committer.stop().is_some());
    // Beside them there may be the mark of an orderly end.
    assert_eq!(
        shown(&after_power_cut(&disk), OPTIONS)
            .iter()
            .filter(|text| !text.is_empty())
            .count(),
        57
    );
}

#[test]
fn a_full_log_holds_what_it_has_says_so_and_goes_on_when_there_is_room() {
    let options = Options {
        segment_bytes: 8 << 10,
        bytes_max: 64 << 10,
        ..OPTIONS
    };
    let disk = SimDisk::new(8);
    let (journal, _) = Journal::open(disk.clone(), options, None, &mut |_| {}).unwrap();
    let inventory = journal.inventory();
    let (tell, told) = channel();
    let committer = Committer::start(
        Box::new(journal),
        CommitterSettings::default(),
        move |event| {
            let told = match event {
                Event::Durable { shard, number } => Completion::Durable { shard, number },
                Event::Failed(error) => Completion::Failed(error.to_string()),
                Event::Pressure(fill) => Completion::Pressure(fill),
                _ => return,
            };
            let _ = tell.send(told);
        },
    )
    .unwrap();
    let handle = committer.handle();
    for number in 1..=60 {
        handle.submit(Submission {
            shard: 0,
            number,
            payload: vec![number as u8; 1000],
            sync: Sync::Now,
        });
    }
    let mut last = 0;
    let mut was_full = false;
    let mut is_over = false;
    while last < 60 || !is_over {
        match told.recv_timeout(PATIENCE).expect("it goes on") {
            Completion::Durable { number, .. } => {
                assert!(number > last);
                last = number;
            }
            Completion::Pressure(fill) if fill.full => was_full = true,
            Completion::Pressure(fill) => is_over = was_full && !fill.full,
            other => panic!("{other:?}"),
        }
        // As messages are taken.
        if was_full {
            for segment in inventory.sealed() {
                inventory.release(segment.number).unwrap();
            }
        }
    }
    assert!(was_full);
    assert!(committer.stop().is_some());
}

#[test]
fn a_committer_that_panics_takes_nothing_any_more() {
    let disk = SimDisk::new(9);
    let (journal, _) = Journal::open(disk, OPTIONS, None, &mut |_| {}).unwrap();
    let committer = Committer::start(Box::new(journal), CommitterSettings::default(), |_| {
        panic!("on purpose")
    })
    .unwrap();
    let handle = committer.handle();
    submit(&handle, 0, 1, Sync::Now);
    let began = Instant::now();
    while !handle.has_failed() {
        assert!(began.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    assert!(!submit(&handle, 0, 2, Sync::Now));
}
