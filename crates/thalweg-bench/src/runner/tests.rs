//! Runs whose trials only pretend.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::thread;

use super::*;
use crate::cell::Load;
use crate::results::tests::{Folder, cell, measured};
use crate::results::{about, read};

const MANNER: Manner = Manner {
    side_by_side: 4,
    is_quiet: true,
};

/// Measures cells into a folder as `trial` does.
fn measure(folder: &Folder, cells: &[Cell], trial: &Trial<'_>) -> bool {
    let mut writer = Writer::open(&folder.0, &about("test", cells), false).expect("a new folder");
    run(cells, &mut writer, MANNER, &AtomicBool::new(false), trial).expect("it ran")
}

fn cells() -> Vec<Cell> {
    (0..12).map(|n| cell(&(n % 4).to_string(), n / 4)).collect()
}

#[test]
fn every_cell_is_measured_once_and_no_more_than_four_at_a_time() {
    let (folder, cells) = (Folder::new("runner-all"), cells());
    let [now, most] = [const { AtomicUsize::new(0) }; 2];
    let seen = Mutex::new(Vec::new());
    let trial = |cell: &Cell, _: &AtomicBool| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        seen.lock().expect("no panic").push(cell.key());
        thread::yield_now();
        now.fetch_sub(1, Ordering::SeqCst);
        let mut found = measured(1);
        if cell.repeat == 1 {
            found.row.standing = Standing::Absent("apt-get install it".to_owned());
        }
        found
    };
    assert!(!measure(&folder, &cells, &trial), "it was not stopped");
    let keys: BTreeSet<String> = cells.iter().map(Cell::key).collect();
    let seen = seen.into_inner().expect("no panic");
    assert_eq!((seen.len(), BTreeSet::from_iter(seen)), (12, keys));
    assert!(most.into_inner() <= 4);
    let trials = read(&folder.0).expect("written").trials;
    let count = (trials.len(), crate::cell::valid(&trials).count());
    assert_eq!(count, (12, 8), "what does not count is written");
}

#[test]
fn cells_of_much_load_come_first_and_alone() {
    let open = |name: &str, rate| Cell {
        load: Load::open(rate, 1),
        ..cell(name, 0)
    };
    let flood = Cell {
        load: Load::Flood { flows: 1 },
        ..cell("flood", 0)
    };
    let cells = [
        open("tiny1", 10.0),
        open("big", 5000.0),
        open("tiny2", 10.0),
        flood,
    ];
    let folder = Folder::new("runner-alone");
    let (running, seen) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let trial = |cell: &Cell, _: &AtomicBool| {
        let beside = running.fetch_add(1, Ordering::SeqCst);
        let size = cell.axes["size"].clone();
        seen.lock().expect("no panic").push((size, beside));
        running.fetch_sub(1, Ordering::SeqCst);
        measured(1)
    };
    measure(&folder, &cells, &trial);
    let seen = seen.into_inner().expect("no panic");
    let first = ["big", "flood"].map(|name| (name.to_owned(), 0));
    assert_eq!(seen[..2], first, "{seen:?}");
}

#[test]
fn an_interrupted_run_keeps_what_counts_and_is_resumed() {
    let (folder, cells) = (Folder::new("runner-stop"), cells());
    let about = about("test", &cells);
    let mut writer = Writer::open(&folder.0, &about, false).expect("a new folder");
    let (stop, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    // The sixth trial sees Ctrl-C and is cut short; whatever runs beside it comes to its end or is cut short, too.
    let trial = |_: &Cell, stop: &AtomicBool| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        if number == 5 {
            stop.store(true, Ordering::SeqCst);
        }
        let mut found = measured(1);
        if number >= 5 {
            found.row.standing = Standing::Invalid("interrupted".to_owned());
        }
        found
    };
    let is_interrupted = run(&cells, &mut writer, MANNER, &stop, &trial).expect("it ran");
    writer.finish(true).expect("writable");
    drop(writer);
    let found = read(&folder.0).expect("a valid partial result");
    let kept = found.trials.len();
    assert!(is_interrupted && (1..=5).contains(&kept), "{kept}");
    let mut standings = found.trials.iter().map(|(_, row)| &row.standing);
    assert!(standings.all(|standing| *standing == Standing::Valid));
    assert_eq!(found.about["interrupted"], true);

    let mut writer = Writer::open(&folder.0, &about, true).expect("resumed");
    let (stop, again) = (AtomicBool::new(false), AtomicUsize::new(0));
    let good = |_: &Cell, _: &AtomicBool| {
        again.fetch_add(1, Ordering::SeqCst);
        measured(1)
    };
    assert!(!run(&cells, &mut writer, MANNER, &stop, &good).expect("it ran"));
    assert_eq!(again.into_inner(), 12 - kept);
    assert_eq!(read(&folder.0).expect("whole").trials.len(), 12);
}

#[test]
fn a_folder_that_cannot_be_written_ends_the_run() {
    let (folder, cells) = (Folder::new("runner-full"), cells());
    let mut writer = Writer::open(&folder.0, &about("test", &cells), false).expect("a new folder");
    std::fs::remove_dir_all(&folder.0).expect("there");
    let stop = AtomicBool::new(false);
    assert!(run(&cells, &mut writer, MANNER, &stop, &|_, _| measured(1)).is_err());
    assert!(stop.into_inner(), "those that still measure are told");
}
