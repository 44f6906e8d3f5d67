//! What a trial uses: processor time of the broker and of what sends and receives, memory, bytes on the wire.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use super::Stage;
use crate::brokers::{Usage, memory};
use crate::cell::{Calls, Row, Second};
use crate::load::{SECOND, Times, clock};
use crate::net::Wire;
use crate::net::capture::{Capture, Captured};

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

    pub fn of_process(process: &str) -> Threads {
        Threads {
            folder: PathBuf::from(format!("/proc/{process}/task")),
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
    fn client_s(&self) -> f64 {
        self.client.values().sum::<u64>() as f64 / 1e9
    }
}

/// Looks at all meters of a trial while it runs.
pub struct Watch<'a> {
    stage: &'a Stage<'a>,
    threads: Threads,
    times: Times,
    metered: Metered,
    from: Option<Sample>,
    to: Option<Sample>,
    /// When the next second is over.
    next: u64,
    link_before: Option<(u64, u64)>,
    overflow_before: u64,
}

impl<'a> Watch<'a> {
    pub fn new(stage: &'a Stage<'a>, threads: Threads, times: Times) -> Watch<'a> {
        let mut watch = Watch {
            stage,
            threads,
            times,
            metered: Metered::default(),
            from: None,
            to: None,
            next: times.begin,
            link_before: None,
            overflow_before: 0,
        };
        watch.overflow_before = watch.overflow();
        watch
    }

    fn sample(&self) -> Sample {
        // What changes fastest first; to look at all processes and threads takes milliseconds.
        let wire = self.wire();
        Sample {
            broker: self.stage.broker.usage(),
            client: self.threads.cpu(),
            wire,
        }
    }

    /// Bytes and frames on the wire so far.
    fn wire(&self) -> Option<Wire> {
        Some(self.stage.network?.reading().ok()?.sum())
    }

    /// Packets lost and packets that came so far, both directions.
    fn link_counts(&self) -> Option<(u64, u64)> {
        self.stage.network?.lost().ok()?
    }

    /// Packets that never came to an emulated link.
    fn overflow(&self) -> u64 {
        let emulated = self.stage.network.filter(|network| network.is_emulated());
        emulated.map_or(0, |network| network.overflow().unwrap_or(0))
    }

    /// Takes the samples that are due; what time it is.
    pub fn look(&mut self) -> u64 {
        let (now, times) = (clock::now(), self.times);
        if self.from.is_none() && now + EARLY >= times.measure {
            self.link_before = self.link_counts();
            // Without a warm-up nothing is under way yet, and nothing may be missed.
            if times.measure > times.begin {
                clock::sleep_until(times.measure);
            }
            let wire = self.wire();
            drop(self.stage.capture.map(Capture::mark));
            self.from = Some(Sample {
                wire,
                ..self.sample()
            });
            self.stage.calls.inspect(|calls| calls.begin());
        } else if self.to.is_none() && now >= times.end {
            self.stage.calls.inspect(|calls| calls.pause());
            self.to = Some(self.sample());
        }
        if now >= self.next {
            let sample = self.sample();
            self.metered.samples.push(sample);
            self.next += SECOND;
        }
        now
    }

    /// When to look again, at the latest.
    pub fn look_at(&self, now: u64) -> u64 {
        let borders = [self.times.measure.saturating_sub(EARLY), self.times.end];
        let border = borders.into_iter().filter(|at| *at > now).min();
        let next = self.next.max(now + 1_000_000);
        next.min(now + clock::LOOK_UP)
            .min(border.unwrap_or(u64::MAX))
    }

    /// What there was, when the drain was over; the clients are in this process.
    pub fn end(mut self, ended: u64, process: &str) -> Metered {
        let mut metered = std::mem::take(&mut self.metered);
        if let Some(from) = self.from.take() {
            metered.wire = from.wire.zip(self.wire());
            if let Some(capture) = self.stage.capture {
                let after = ended.saturating_sub(self.times.begin);
                metered.captured(&capture.mark(), after);
            }
            let link = self.link_before.zip(self.link_counts());
            metered.link = link.map(|(before, after)| [before, after]);
            metered.emulator_lost = self.overflow().saturating_sub(self.overflow_before);
            let to = self.to.take().unwrap_or_else(|| self.sample());
            metered.measure = Some((from, to));
        }
        (metered.client_rss_kib, metered.client_pss_kib) = memory(process);
        metered
    }
}

/// How long before the measured phase the counters of the link are read: that takes a program of its own.
const EARLY: u64 = 80_000_000;

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
    pub causes: Vec<(String, f64)>,
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

    /// Writes what was used in each second into its row.
    pub fn fill_seconds(&self, rows: &mut Vec<Second>) {
        let count = rows.len().max(self.samples.len().saturating_sub(1));
        rows.resize(count, Second::default());
        let wire = |sample: &Sample| sample.wire.map_or(0, |wire| wire.bytes);
        for (row, (from, to)) in rows
            .iter_mut()
            .zip(self.samples.iter().zip(self.samples.iter().skip(1)))
        {
            row.cpu_broker_s = (to.broker.cpu_s - from.broker.cpu_s).max(0.0);
            row.cpu_client_s = (to.client_s() - from.client_s()).max(0.0);
            row.rss_broker_kib = to.broker.rss_kib;
            row.wire_bytes = wire(to).saturating_sub(wire(from));
        }
    }
}

/// What is under way when a phase begins may be on either side of the border; a part of all bytes.
const MISSED_MAX: f64 = 0.002;
