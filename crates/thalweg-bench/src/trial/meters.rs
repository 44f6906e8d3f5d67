//! What a trial uses: processor time of the broker and of what sends and receives, memory, bytes on the wire.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use crate::brokers::{Running, Usage};
use crate::cell::{Calls, Row, Second};
use crate::net::capture::Captured;
use crate::net::{Network, Wire};

/// Processor nanoseconds of threads, by number.
pub type Cpu = BTreeMap<u32, u64>;

/// The threads of a process that belong to a trial.
#[derive(Clone, Debug)]
pub struct Threads {
    folder: PathBuf,
    /// Those that were there before.
    others: BTreeSet<u32>,
    /// Only those that are in this network namespace.
    namespace: Option<PathBuf>,
}

impl Threads {
    /// All that are there now.
    pub fn of_all() -> BTreeSet<u32> {
        numbers(&PathBuf::from("/proc/self/task"))
    }

    /// Those that came since `others` was taken; in a network only those in its clients' namespace, where this thread is.
    pub fn since(others: &BTreeSet<u32>, in_network: bool) -> Threads {
        let namespace = in_network
            .then(|| fs::read_link("/proc/thread-self/ns/net").ok())
            .flatten();
        Threads {
            folder: PathBuf::from("/proc/self/task"),
            others: others.clone(),
            namespace,
        }
    }

    pub fn of_process(id: u32) -> Threads {
        Threads {
            folder: PathBuf::from(format!("/proc/{id}/task")),
            others: BTreeSet::new(),
            namespace: None,
        }
    }

    /// What they have used.
    pub fn cpu(&self) -> Cpu {
        let is_ours = |number: &u32| {
            !self.others.contains(number)
                && self.namespace.as_ref().is_none_or(|namespace| {
                    fs::read_link(self.folder.join(number.to_string()).join("ns/net"))
                        .is_ok_and(|its| its == *namespace)
                })
        };
        let used = |number: u32| {
            let text =
                fs::read_to_string(self.folder.join(number.to_string()).join("schedstat")).ok()?;
            Some((number, text.split_ascii_whitespace().next()?.parse().ok()?))
        };
        numbers(&self.folder)
            .into_iter()
            .filter(is_ours)
            .filter_map(used)
            .collect()
    }
}

fn numbers(folder: &PathBuf) -> BTreeSet<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// All meters at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub broker: Usage,
    pub client: Cpu,
    pub wire: Option<Wire>,
}

impl Sample {
    pub fn take(broker: &Running, threads: &Threads, network: Option<&Network>) -> Sample {
        // What changes fastest first; to look at all processes and threads takes milliseconds.
        let wire = network
            .and_then(|network| network.reading().ok())
            .map(|reading| reading.sum());
        Sample {
            broker: broker.usage(),
            client: threads.cpu(),
            wire,
        }
    }

    fn client_s(&self) -> f64 {
        self.client.values().sum::<u64>() as f64 / 1e9
    }
}

/// What the meters said.
#[derive(Clone, Debug, Default)]
pub struct Metered {
    /// Each second since the warm-up began, that moment first.
    pub samples: Vec<Sample>,
    /// At the beginning and at the end of the measured phase.
    pub measure: Option<(Sample, Sample)>,
    /// On the wire when the measured phase began, and when the drain was over.
    pub wire: Option<(Wire, Wire)>,
    /// Packets lost by the link and packets that came to it, at the same moments.
    pub link: Option<[(u64, u64); 2]>,
    /// Bytes and frames by their cause, by name.
    pub causes: Vec<(&'static str, f64)>,
    /// What is to be said of meters: time since the warm-up began, words.
    pub notes: Vec<(u64, String)>,
    /// System calls of the broker in the measured phase.
    pub calls: Option<Calls>,
    /// Packets that the emulator was too slow for.
    pub emulator_lost: u64,
    /// Memory of the clients' process at the end, KiB.
    pub client_rss_kib: u64,
    /// The proportional share of it.
    pub client_pss_kib: u64,
}

impl Metered {
    /// Takes what a capture saw in the same time as [`Metered::wire`], unless it missed frames.
    pub fn captured(&mut self, captured: &Captured, at: u64) {
        let Some((from, to)) = self.wire else { return };
        let (seen, carried) = (captured.all().total(), to - from);
        if seen.bytes.abs_diff(carried.bytes) as f64 > MISSED_MAX * carried.bytes as f64 {
            let words = format!(
                "the capture saw {} of {} bytes: no causes of bytes",
                seen.bytes, carried.bytes
            );
            self.notes.push((at, words));
            return;
        }
        self.causes = captured.figures();
    }

    /// The busiest thread of the clients, and all of them, as a part of the measured time.
    pub fn client_parts(&self, seconds: f64) -> (f64, f64) {
        let Some((from, to)) = &self.measure else {
            return (0.0, 0.0);
        };
        let used = to
            .client
            .iter()
            .map(|(thread, used)| used - from.client.get(thread).copied().unwrap_or(0).min(*used));
        let (busiest, all) = used.fold((0, 0), |(busiest, all), used| {
            (busiest.max(used), all + used)
        });
        let whole = (seconds * 1e9).max(1.0);
        (busiest as f64 / whole, all as f64 / whole)
    }

    /// Writes it into a row.
    pub fn fill(&self, row: &mut Row) {
        if let Some((from, to)) = &self.measure {
            row.cpu_broker_s = (to.broker.cpu_s - from.broker.cpu_s).max(0.0);
            row.cpu_client_s = (to.client_s() - from.client_s()).max(0.0);
            row.switches_broker = to.broker.switches.saturating_sub(from.broker.switches);
            let all = self.samples.iter().chain([from, to]);
            row.rss_broker_kib = all
                .clone()
                .map(|sample| sample.broker.rss_kib)
                .max()
                .unwrap_or(0);
            let pss = all.map(|sample| sample.broker.pss_kib).max().unwrap_or(0);
            row.more.insert("pss_broker_kib".to_owned(), pss as f64);
        }
        row.calls_broker.clone_from(&self.calls);
        row.more
            .insert("rss_client_kib".to_owned(), self.client_rss_kib as f64);
        row.more
            .insert("pss_client_kib".to_owned(), self.client_pss_kib as f64);
        let (busiest, all) = self.client_parts(row.seconds);
        row.more.insert("client_busiest_thread".to_owned(), busiest);
        row.more.insert("client_all_threads".to_owned(), all);
        if let Some((from, to)) = self.wire {
            let carried = to - from;
            (row.wire_bytes, row.wire_frames) = (Some(carried.bytes), Some(carried.frames));
        }
        if let Some([(lost_before, came_before), (lost, came)]) = self.link {
            row.link_lost = Some((
                lost.saturating_sub(lost_before),
                came.saturating_sub(came_before),
            ));
        }
    }

    /// What the rows of seconds say of use.
    pub fn seconds(&self) -> Vec<Second> {
        let between = |two: &[Sample]| {
            let [from, to] = two else {
                return Second::default();
            };
            let wire = |sample: &Sample| sample.wire.map_or(0, |wire| wire.bytes);
            Second {
                cpu_broker_s: (to.broker.cpu_s - from.broker.cpu_s).max(0.0),
                cpu_client_s: (to.client_s() - from.client_s()).max(0.0),
                rss_broker_kib: to.broker.rss_kib,
                wire_bytes: wire(to).saturating_sub(wire(from)),
                ..Second::default()
            }
        };
        self.samples.windows(2).map(between).collect()
    }
}

/// What is under way when a phase begins may be on either side of the border; a part of all bytes.
const MISSED_MAX: f64 = 0.002;

/// Resident memory and the proportional share of it of a process, KiB.
pub fn memory(process: &str) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let line = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    (line("Rss:").unwrap_or(0), line("Pss:").unwrap_or(0))
}
