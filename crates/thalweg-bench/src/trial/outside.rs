//! A trial whose clients are a program.

use std::collections::HashMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use super::meters::{Metered, Threads, Watch};
use super::{Plan, Played, Stage};
use crate::brokers::{NoBroker, System};
use crate::cell::Standing;
use crate::drivers::program::{Program, ProgramEvent, ReceivedMessage, SentMessage};
use crate::drivers::stock;
use crate::load::schedule::Sizes;
use crate::load::{Books, Got, Header, SECOND, Sent, Times, clock};

/// Starts the program, lets it run, and enters what it says into the books.
pub fn play(stage: &Stage<'_>) -> Result<Played, Standing> {
    let Stage { cell, job, .. } = stage;
    let command = stock::command(cell).map_err(|error| match error {
        NoBroker::Absent(install) => Standing::Absent(install),
        NoBroker::Failed(error) => Standing::Invalid(error.to_string()),
    })?;
    let folder = Folder::make(job.run).map_err(|error| Standing::Invalid(error.to_string()))?;
    let intended = write_schedule(stage, &folder.0)
        .and_then(|intended| write_sizes(stage, &folder.0).map(|()| intended))
        .map_err(|error| Standing::Invalid(error.to_string()))?;
    // Without a broker subscribers are at its end of the link.
    let elsewhere = System::named(&cell.system)
        .filter(|system| system.is_peers)
        .and_then(|_| Some(stage.network?.broker().file()));
    let mut ends = stage.broker.configuration.lines();
    let words = json!({
        "subscribe_space": elsewhere,
        "configuration_publish": ends.next(),
        "configuration_subscribe": ends.next(),
        "cell": cell,
        "run": job.run,
        "publish_at": job.publish_at,
        "subscribe_at": job.subscribe_at,
        "login": job.login,
        "topics": (0..job.flows).map(|flow| job.publish_topic(flow)).collect::<Vec<_>>(),
        "schedule": folder.0.join(SCHEDULE),
        "sizes": folder.0.join(SIZES),
    });
    let mut program = Program::start(command, &words, READY_WITHIN).map_err(Standing::Invalid)?;
    clock::wait(clock::now() + cell.phases.settle_ns, stage.stop);
    let times = Times::new(clock::now() + HEAD_START, &cell.phases);
    program.begin(times.begin).map_err(Standing::Invalid)?;

    let mut heard = ProgramRecord::default();
    let (metered, ended) = watch(stage, &program, times, &mut heard);
    // It may have kept everything to itself until now.
    let _ = program.end();
    let deadline = clock::now() + LAST_WORDS;
    while !heard.is_over && clock::now() < deadline {
        heard.take(program.hear(Duration::from_millis(20)));
    }
    if !heard.is_over {
        heard
            .trouble
            .get_or_insert("the program does not come to an end".to_owned());
    }
    let events = heard
        .notes
        .iter()
        .map(|(at, note)| (at.saturating_sub(times.begin), note.clone()))
        .collect();
    let trouble = heard.trouble.take();
    let unacknowledged = match job.publish.qos {
        0 => 0,
        _ => (heard.sent.len() as u64).saturating_sub(heard.acknowledged),
    };
    let is_stopped = stage.stop.load(Ordering::Relaxed) && ended < times.end;
    Ok(Played {
        overflow: heard.overflow,
        books: heard.books(
            &intended,
            stage.plan,
            times,
            job.run,
            (job.flows, job.copies),
        ),
        times,
        metered,
        unacknowledged,
        counts: Vec::new(),
        events,
        trouble,
        interrupted: is_stopped.then_some(ended),
    })
}

/// What a program has said.
#[derive(Debug, Default)]
struct ProgramRecord {
    sent: Vec<SentMessage>,
    received: Vec<ReceivedMessage>,
    acknowledged: u64,
    overflow: u64,
    notes: Vec<(u64, String)>,
    trouble: Option<String>,
    is_over: bool,
}

impl ProgramRecord {
    fn take(&mut self, said: Option<ProgramEvent>) {
        match said {
            None | Some(ProgramEvent::Ready) => {}
            Some(ProgramEvent::Sent(sent)) => self.sent.push(sent),
            Some(ProgramEvent::Received(received)) => self.received.push(received),
            Some(ProgramEvent::Acknowledged) => self.acknowledged += 1,
            Some(ProgramEvent::Overflow(count)) => self.overflow += count,
            Some(ProgramEvent::Note(words)) => self.notes.push((clock::now(), words)),
            Some(ProgramEvent::End) => self.is_over = true,
            Some(ProgramEvent::Fault(words)) => {
                self.trouble.get_or_insert(words);
                self.is_over = true;
            }
        }
    }

    /// Enters it into books: messages that were due and never tried are missing.
    fn books(
        mut self,
        intended: &[Vec<(u64, u32)>],
        plan: &Plan,
        times: Times,
        run: u32,
        (flows, copies): (u32, u32),
    ) -> Books {
        let mut sent = Sent::new(times);
        let due = |flow: u32, seq: u32| {
            let (offset, size) = *intended.get(flow as usize)?.get(seq as usize)?;
            Some((times.begin + offset, size))
        };
        // Until when the thread was held back: what was due meanwhile was tried late for the same reason.
        let (is_beside, mut held) = (plan.beside(times).is_some(), 0);
        let mut handed = HashMap::new();
        for &(flow, seq, tried, at) in &self.sent {
            handed.insert((flow, seq), at);
            // Without a schedule it is due when it is sent.
            let (due, has_time) = due(flow, seq).map_or((at, false), |(due, _)| (due, true));
            let is_held_back = match has_time {
                true if is_beside && flow > 0 => at > due + HELD_BACK,
                true => due < held || at > tried + HELD_BACK,
                false => false,
            };
            // A neighbour's large messages stand behind each other: that one is late is what they are for.
            if has_time && !(is_beside && flow > 0) {
                let late = tried.saturating_sub(due.max(held));
                sent.tried(due, due + late);
                if at > tried + HELD_BACK {
                    held = at;
                }
            } else {
                sent.tried_without_time(due);
            }
            if is_held_back {
                sent.held_back(due);
            }
            sent.sent(due, at);
        }
        let in_phase = |(offset, _): &&(u64, u32)| times.counts(times.begin + offset);
        let all = intended.iter().flatten().filter(in_phase).count() as u64;
        sent.intended = sent.intended.max(all);
        let mut got = Got::new(times, flows, copies).beside(plan.beside(times));
        self.received.sort_by_key(|(.., at)| *at);
        for &(copy, flow, seq, at) in &self.received {
            let Some(&sent) = handed.get(&(flow, seq)) else {
                got.stranger();
                continue;
            };
            let unplanned = || (sent, plan.size_without_time(flow, seq));
            let (intended, size) = due(flow, seq).unwrap_or_else(unplanned);
            let header = Header {
                run,
                flow,
                seq,
                intended,
                sent,
            };
            got.came(copy, &header, size as usize, at);
        }
        Books { sent, got }
    }
}

fn watch(
    stage: &Stage<'_>,
    program: &Program,
    times: Times,
    heard: &mut ProgramRecord,
) -> (Metered, u64) {
    let process = program.id().to_string();
    let mut watch = Watch::new(stage, Threads::of_process(&process), times);
    let ended = loop {
        heard.take(program.hear(Duration::from_millis(5)));
        let now = watch.look();
        let copies = heard.sent.len() * stage.job.copies as usize;
        let is_complete = now >= times.end + LINGER && copies > 0 && heard.received.len() >= copies;
        let is_stopped = stage.stop.load(Ordering::Relaxed);
        if is_stopped || heard.is_over || is_complete || now >= times.give_up {
            break now;
        }
    };
    (watch.end(ended, &process), ended)
}

/// Writes the schedule for the program; returns time and size of each message of each flow.
fn write_schedule(stage: &Stage<'_>, folder: &Path) -> std::io::Result<Vec<Vec<(u64, u32)>>> {
    let mut file = BufWriter::new(fs::File::create(folder.join(SCHEDULE))?);
    let mut times = vec![Vec::new(); stage.job.flows as usize];
    for item in stage.plan.schedule().into_iter().flatten() {
        writeln!(file, "{},{},{},{}", item.at, item.flow, item.seq, item.size)?;
        if let Some(flow) = times.get_mut(item.flow as usize) {
            flow.push((item.at, item.size));
        }
    }
    file.flush()?;
    Ok(times)
}

/// Writes the sizes that messages without a schedule take in turn, as [`Plan::size_without_time`] does.
fn write_sizes(stage: &Stage<'_>, folder: &Path) -> std::io::Result<()> {
    let mut file = BufWriter::new(fs::File::create(folder.join(SIZES))?);
    match &stage.plan.sizes {
        Sizes::Fixed(size) => writeln!(file, "{size}")?,
        Sizes::Listed(sizes) => sizes.iter().try_for_each(|size| writeln!(file, "{size}"))?,
    }
    file.flush()
}

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn make(run: u32) -> std::io::Result<Folder> {
        let folder = std::env::temp_dir().join(format!("thalweg-lab-{run:08x}"));
        fs::create_dir_all(&folder)?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SCHEDULE: &str = "schedule.csv";
const SIZES: &str = "sizes.csv";
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Between the word to begin and the beginning: a program has to read it.
const HEAD_START: u64 = 100_000_000;
/// How long it may take to say what it has kept.
const LAST_WORDS: u64 = 30 * SECOND;
/// After everything has come: something that comes again is to be seen.
const LINGER: u64 = 100_000_000;
/// What takes longer from the first try to being handed over was held back, nanoseconds.
const HELD_BACK: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Leg;
    use crate::studies::plan::cell;

    #[test]
    fn what_is_due_while_a_thread_is_held_back_is_not_the_generators_fault() {
        const MS: u64 = 1_000_000;
        let cell = cell("E9", "zmq-peers", Leg::of(crate::cell::Protocol::Zmtp, 0)).open(100.0, 1);
        let plan = Plan::of(&cell.into_cell()).expect("a plan");
        let times = Times {
            begin: SECOND,
            measure: SECOND,
            end: 2 * SECOND,
            give_up: 3 * SECOND,
        };
        let intended = [(0..10_u64)
            .map(|seq| (seq * 10 * MS, 60))
            .collect::<Vec<_>>()];
        let at = |ms: u64| SECOND + ms * MS;
        // The second is not taken for 45 ms; the third to sixth follow at once, the seventh is in time, the eighth is late.
        let sent = [
            (0, 0),
            (10, 55),
            (55, 55),
            (55, 55),
            (55, 55),
            (55, 55),
            (60, 60),
            (77, 77),
            (80, 80),
            (90, 90),
        ];
        let sent = sent
            .iter()
            .enumerate()
            .map(|(seq, (tried, taken))| (0, seq as u32, at(*tried), at(*taken)));
        let heard = ProgramRecord {
            sent: sent.collect(),
            ..ProgramRecord::default()
        };
        let books = heard.books(&intended, &plan, times, 7, (1, 1));
        assert_eq!(
            (books.sent.intended, books.sent.sent, books.sent.held_back),
            (10, 10, 5)
        );
        let lag = books.sent.lag.max();
        assert!(
            (6 * MS..8 * MS).contains(&lag),
            "{lag}: only the eighth was late"
        );
    }
}
