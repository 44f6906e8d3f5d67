//! Files as a run leaves them, and as a killed one does.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use thalweg_stats::histograms::{self, percentiles};

use super::*;
use crate::cell::{
    Calls, Cell, Leg, Link, Load, Measured, Phases, Protocol, Row, Second, Standing, Workload,
};

/// A folder of its own that goes away.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("thalweg-bench-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A cell that differs by one axis and the repeat.
pub(crate) fn cell(axis: &str, repeat: u32) -> Cell {
    let leg = Leg::of(Protocol::Mqtt, 1);
    Cell {
        experiment: "test".to_owned(),
        axes: BTreeMap::from([("size".to_owned(), axis.to_owned())]),
        repeat,
        seed: 7 + u64::from(repeat),
        system: "thalweg".to_owned(),
        cpus: (Some(0), None),
        publish: leg,
        subscribe: leg,
        link: Link {
            loss: 0.05,
            delay_ns: 1_500,
            ..Link::LOOPBACK
        },
        workload: Workload::Fixed { bytes: 60 },
        load: Load::open(10.0, 2),
        phases: Phases {
            measure_ns: 5_000_000_000,
            ..Phases::default()
        },
        ..Cell::blank()
    }
}

/// What came of it, with `scale` as median in microseconds.
pub(crate) fn measured(scale: u64) -> Measured {
    let values: Vec<u64> = (1..=100).map(|n| scale * 20 * n).collect();
    let response = histograms::of(&values);
    let quantiles = crate::load::books::quantiles(&response);
    let second = Second {
        sent: 20,
        received: 20,
        response_p50_us: 1.0,
        rss_broker_kib: 9,
        ..Second::default()
    };
    Measured {
        row: Row {
            intended: 100,
            sent: 100,
            expected: 100,
            delivered: 99,
            lost: 1,
            seconds: 5.0,
            payload_bytes: 5940,
            response: quantiles,
            service: quantiles,
            lag_p99_us: 12.5,
            cpu_broker_s: 0.1,
            cpu_client_s: 0.2,
            rss_broker_kib: 9,
            switches_broker: 3,
            calls_broker: Some(Calls::Counted(812)),
            wire_bytes: Some(55_400),
            link_lost: Some((5, 100)),
            more: BTreeMap::from([("ack_frames".to_owned(), 3.0)]),
            ..Row::blank(Standing::Valid)
        },
        service: response.clone(),
        response,
        seconds: vec![second; 5],
        events: vec![(1_500_000_000, "broker thalweg: thalweg 0.1.0".to_owned())],
        messages: Default::default(),
    }
}

#[test]
fn what_was_written_is_read_again() {
    let folder = Folder::new("results-whole");
    let cells = [cell("1", 0), cell("2", 0)];
    let mut writer = Writer::open(&folder.0, &about("test", &cells), false).expect("a new folder");
    for (cell, scale) in cells.iter().zip([1, 2]) {
        assert!(!writer.has(cell));
        writer.write(cell, &measured(scale)).expect("writable");
        assert!(writer.has(cell));
    }
    assert!(writer.write(&cells[0], &measured(1)).is_err(), "twice");
    writer.finish(false).expect("writable");
    let found = read(&folder.0).expect("just written");
    let rows: Vec<_> = cells
        .iter()
        .cloned()
        .zip([measured(1).row, measured(2).row])
        .collect();
    assert_eq!(found.trials, rows);
    assert_eq!(found.about["systems"]["thalweg"], "thalweg 0.1.0");
    assert_eq!(found.about["trials"], 2);
    for key in [
        "commit",
        "version",
        "kernel",
        "seeds",
        "cell_order",
        "command_line",
        "sysctls",
        "finished_unix_s",
    ] {
        assert!(!found.about[key].is_null(), "{key}");
    }
    let latencies = histograms(&folder.0, &cells[1].key()).expect("written");
    assert_eq!(latencies, [measured(2).response, measured(2).service]);
    let table = fs::read_to_string(folder.0.join("trials.csv")).expect("written");
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    assert!(lines.len() == 3 && lines.iter().all(|line| line.len() == lines[0].len()));
    let value = |name: &str| {
        lines[1][lines[0]
            .iter()
            .position(|column| *column == name)
            .expect("a column")]
    };
    assert_eq!(
        (
            value("offered"),
            value("delivered"),
            value("loss"),
            value("bytes_l2")
        ),
        ("20", "19.8", "0.05", "55400")
    );
    assert_eq!(
        (value("more"), value("axes"), value("delay_us")),
        ("ack_frames=3", "size=1", "1.5")
    );
    let described = fs::read_to_string(folder.0.join("columns.md")).expect("written");
    assert!(
        lines[0]
            .iter()
            .all(|column| described.contains(&format!("`{column}`")))
    );
}

#[test]
fn a_finished_run_that_is_kept_compressed_is_read_and_resumed() {
    let folder = Folder::new("results-compressed");
    let cells = [cell("1", 0), cell("1", 1)];
    let about = about("test", &cells);
    let mut writer = Writer::open(&folder.0, &about, false).expect("a new folder");
    writer.write(&cells[0], &measured(1)).expect("writable");
    drop(writer);
    let before = read(&folder.0).expect("written").trials;
    let plain = folder.0.join("cells.jsonl");
    let file = fs::File::create(folder.0.join("cells.jsonl.gz")).expect("writable");
    let mut gzip = GzEncoder::new(file, Compression::best());
    gzip.write_all(&fs::read(&plain).expect("written"))
        .and_then(|()| gzip.finish())
        .expect("writable");
    fs::remove_file(&plain).expect("it was there");
    assert!(has_trials(&folder.0));
    assert_eq!(read(&folder.0).expect("compressed").trials, before);
    let mut writer = Writer::open(&folder.0, &about, true).expect("resumed");
    assert!(writer.has(&cells[0]));
    writer.write(&cells[1], &measured(1)).expect("writable");
    drop(writer);
    let after = read(&folder.0).expect("written").trials;
    assert_eq!((after.len(), &after[..1]), (2, &before[..]));
}

#[test]
fn a_killed_run_is_resumed_where_its_last_whole_line_is() {
    let folder = Folder::new("results-torn");
    let cells = [cell("1", 0), cell("1", 1), cell("1", 2)];
    let about = about("test", &cells);
    let mut writer = Writer::open(&folder.0, &about, false).expect("a new folder");
    writer.write(&cells[0], &measured(1)).expect("writable");
    writer.write(&cells[1], &measured(1)).expect("writable");
    drop(writer);
    let before = read(&folder.0).expect("written").trials;
    // At each byte of the last line the process might have been killed; the other tables are ahead of it.
    let whole = fs::read(folder.0.join("cells.jsonl")).expect("written");
    let first = whole
        .iter()
        .position(|byte| *byte == b'\n')
        .expect("two lines")
        + 1;
    for end in [first, first + 1, (first + whole.len()) / 2, whole.len() - 1] {
        fs::write(folder.0.join("cells.jsonl"), &whole[..end]).expect("writable");
        assert_eq!(
            read(&folder.0).expect("whole lines only").trials,
            before[..1],
            "cut at {end}"
        );
        assert!(
            Writer::open(&folder.0, &about, false).is_err(),
            "there are results"
        );
        let mut writer = Writer::open(&folder.0, &about, true).expect("resumed");
        assert_eq!(
            [0, 1, 2].map(|at| writer.has(&cells[at])),
            [true, false, false]
        );
        writer.write(&cells[1], &measured(1)).expect("writable");
        writer.finish(false).expect("writable");
        assert_eq!(read(&folder.0).expect("written").trials, before);
        for (name, lines) in [
            ("trials.csv", 3),
            ("timeseries.csv", 11),
            ("resources.csv", 21),
            ("events.jsonl", 2),
        ] {
            let text = fs::read_to_string(folder.0.join(name)).expect("written");
            assert_eq!(text.lines().count(), lines, "{name} cut at {end}");
        }
    }
    assert_eq!(
        read(&folder.0).expect("written").about["resumed"]
            .as_array()
            .map(Vec::len),
        Some(4)
    );
}

#[test]
fn a_folder_of_another_scenario_is_refused() {
    let folder = Folder::new("results-other");
    let ours = about("test", &[cell("1", 0)]);
    drop(Writer::open(&folder.0, &ours, false).expect("a new folder"));
    let other = about("test", &[cell("2", 0)]);
    let refusal = Writer::open(&folder.0, &other, true)
        .expect_err("another scenario")
        .to_string();
    assert!(refusal.contains("another scenario"), "{refusal}");
    let shuffled = [cell("1", 1), cell("1", 0)];
    assert_eq!(
        hash(&shuffled),
        hash(&[cell("1", 0), cell("1", 1)]),
        "the order does not count"
    );
    let strange = Folder::new("results-strange");
    fs::create_dir_all(&strange.0).expect("writable");
    fs::write(strange.0.join("letter.txt"), "dear").expect("writable");
    assert!(
        Writer::open(&strange.0, &ours, true).is_err(),
        "a folder of something else"
    );
}

#[test]
fn percentiles_are_written_as_other_programs_read_them() {
    let text = percentiles(&measured(1).response);
    let values: Vec<Vec<f64>> = text
        .lines()
        .skip(2)
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            line.split_whitespace()
                .map(|field| field.parse().expect("a number"))
                .collect()
        })
        .collect();
    let at = |q: f64| {
        values
            .iter()
            .find(|line| line[1] >= q)
            .map(|line| line[0])
            .expect("a line")
    };
    assert!(
        (at(0.5) - 1.0).abs() < 0.01 && (at(0.9) - 1.8).abs() < 0.03,
        "{text}"
    );
    assert!(
        values
            .last()
            .is_some_and(|line| line[1] == 1.0 && line[2] == 100.0 && line.len() == 3),
        "{text}"
    );
    assert!(text.contains("Total count    =          100]"), "{text}");
    assert!(percentiles(&histograms::of(&[])).contains("Total count"));
}

#[test]
fn names_of_files_have_an_end() {
    let long = "x".repeat(400);
    assert!(
        latency::file_name(&long).len() < 200
            && latency::file_name(&long) != latency::file_name(&"x".repeat(401))
    );
    assert_eq!(latency::file_name("short"), "short");
}
