//! The raw files of E2d: `run.json`, `trials.csv`, `messages.csv`, `timeline.csv`, `events.jsonl`.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::plan::Way;
use super::trial::{Event, Message, Sample, Trial};
use crate::net::Loss;

/// A run as its files have it.
#[derive(Clone, Debug)]
pub struct Run {
    /// About the run and the machine.
    pub about: Value,
    /// What happened, by number.
    pub trials: Vec<Trial>,
}

/// Writes trials as they come.
#[derive(Debug)]
pub struct Writer {
    trials: BufWriter<File>,
    messages: BufWriter<File>,
    timeline: BufWriter<File>,
    events: BufWriter<File>,
}

impl Writer {
    /// Begins the tables in a folder, which is made.
    pub fn create(folder: &Path) -> io::Result<Writer> {
        fs::create_dir_all(folder)?;
        let begin = |name: &str, head: &str| -> io::Result<BufWriter<File>> {
            let mut file = BufWriter::new(File::create(folder.join(name))?);
            if !head.is_empty() {
                writeln!(file, "{head}")?;
            }
            Ok(file)
        };
        Ok(Writer {
            trials: begin("trials.csv", TRIAL_HEAD)?,
            messages: begin("messages.csv", MESSAGE_HEAD)?,
            timeline: begin("timeline.csv", SAMPLE_HEAD)?,
            events: begin("events.jsonl", "")?,
        })
    }

    pub fn write(&mut self, trial: &Trial) -> io::Result<()> {
        let steps: Vec<String> = trial
            .steps
            .iter()
            .map(|loss| loss.as_millionths().to_string())
            .collect();
        writeln!(
            self.trials,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            trial.number,
            trial.way.name(),
            trial.payload,
            micros(trial.delay),
            trial.repeat,
            trial.seed,
            steps.join(";"),
            micros(trial.step),
            trial.trouble.replace([',', '\n', '\r'], " "),
            trial.messages.len(),
            trial.lost(),
            trial.duplicates(),
            trial.out_of_order(),
            trial.unacknowledged(),
        )?;
        for (sequence, message) in trial.messages.iter().enumerate() {
            writeln!(
                self.messages,
                "{},{sequence},{},{},{},{},{},{},{},{}",
                trial.number,
                message.flow,
                micros(message.intended),
                maybe(message.sent.map(micros)),
                maybe(message.received.map(micros)),
                maybe(message.rank),
                message.copies,
                message.protocol,
                message.outcome,
            )?;
        }
        for sample in &trial.samples {
            writeln!(
                self.timeline,
                "{},{},{},{},{},{},{},{},{},{},{}",
                trial.number,
                micros(sample.at),
                sample.loss.as_millionths(),
                sample.bytes,
                sample.frames,
                sample.came,
                sample.lost,
                sample.publishes,
                sample.subscribes,
                sample.switches.0,
                sample.switches.1,
            )?;
        }
        for event in &trial.events {
            let line = json!({ "trial": trial.number, "t_us": micros(event.at), "what": event.what, "words": event.words });
            writeln!(self.events, "{line}")?;
        }
        // So that what is there after a power cut is whole.
        self.trials.flush()?;
        self.messages.flush()?;
        self.timeline.flush()?;
        self.events.flush()
    }
}

pub fn read(folder: &Path) -> io::Result<Run> {
    let about = serde_json::from_str(&text(folder, "run.json")?)?;
    let mut trials: Vec<Trial> = table(folder, "trials.csv", TRIAL_HEAD, trial_of)?;
    trials.sort_by_key(|trial| trial.number);
    let place = |trials: &[Trial], number: usize| {
        trials
            .binary_search_by_key(&number, |trial| trial.number)
            .ok()
    };
    for (number, message) in table(folder, "messages.csv", MESSAGE_HEAD, message_of)? {
        if let Some(trial) = place(&trials, number).and_then(|at| trials.get_mut(at)) {
            trial.messages.push(message);
        }
    }
    for (number, sample) in table(folder, "timeline.csv", SAMPLE_HEAD, sample_of)? {
        if let Some(trial) = place(&trials, number).and_then(|at| trials.get_mut(at)) {
            trial.samples.push(sample);
        }
    }
    for line in text(folder, "events.jsonl")?.lines() {
        let value: Value = serde_json::from_str(line)?;
        let (Some(number), Some(at)) = (value["trial"].as_u64(), value["t_us"].as_u64()) else {
            continue;
        };
        let words = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        if let Some(trial) = place(&trials, number as usize).and_then(|at| trials.get_mut(at)) {
            trial.events.push(Event {
                at: Duration::from_micros(at),
                what: words("what"),
                words: words("words"),
            });
        }
    }
    Ok(Run { about, trials })
}

fn text(folder: &Path, name: &str) -> io::Result<String> {
    fs::read_to_string(folder.join(name)).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{}/{name}: {error}", folder.display()),
        )
    })
}

fn table<T>(
    folder: &Path,
    name: &str,
    head: &str,
    row: fn(&[&str]) -> Option<T>,
) -> io::Result<Vec<T>> {
    let path = folder.join(name);
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut lines = BufReader::new(File::open(&path).map_err(named)?).lines();
    if lines.next().transpose()?.as_deref() != Some(head) {
        return Err(io::Error::other(format!(
            "{} has other columns than this version writes",
            path.display()
        )));
    }
    lines
        .map(|line| {
            let line = line?;
            row(&line.split(',').collect::<Vec<_>>()).ok_or_else(|| {
                io::Error::other(format!(
                    "{}: this line is no line of it: {line}",
                    path.display()
                ))
            })
        })
        .collect()
}

fn micros(span: Duration) -> u64 {
    span.as_micros() as u64
}

fn maybe<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn span(text: &str) -> Option<Duration> {
    Some(Duration::from_micros(text.parse().ok()?))
}

/// Empty is none; else it has to be a number.
fn optional<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    if text.is_empty() {
        Some(None)
    } else {
        text.parse().ok().map(Some)
    }
}

fn trial_of(fields: &[&str]) -> Option<Trial> {
    let [
        number,
        way,
        payload,
        delay,
        repeat,
        seed,
        steps,
        step,
        trouble,
        ..,
    ] = fields
    else {
        return None;
    };
    let steps: Option<Vec<Loss>> = steps
        .split(';')
        .map(|loss| Some(Loss::millionths(loss.parse().ok()?)))
        .collect();
    Some(Trial {
        number: number.parse().ok()?,
        way: Way::named(way)?,
        payload: payload.parse().ok()?,
        delay: span(delay)?,
        repeat: repeat.parse().ok()?,
        seed: seed.parse().ok()?,
        steps: steps?,
        step: span(step)?,
        trouble: (*trouble).to_owned(),
        messages: Vec::new(),
        samples: Vec::new(),
        events: Vec::new(),
    })
}

fn message_of(fields: &[&str]) -> Option<(usize, Message)> {
    let &[
        number,
        _,
        flow,
        intended,
        sent,
        received,
        rank,
        copies,
        protocol,
        outcome,
    ] = fields
    else {
        return None;
    };
    let message = Message {
        flow: flow.parse().ok()?,
        intended: span(intended)?,
        sent: optional::<u64>(sent)?.map(Duration::from_micros),
        received: optional::<u64>(received)?.map(Duration::from_micros),
        rank: optional(rank)?,
        copies: copies.parse().ok()?,
        protocol: protocol.to_owned(),
        outcome: outcome.to_owned(),
    };
    Some((number.parse().ok()?, message))
}

fn sample_of(fields: &[&str]) -> Option<(usize, Sample)> {
    let &[
        number,
        at,
        loss,
        bytes,
        frames,
        came,
        lost,
        publishes,
        subscribes,
        one,
        other,
    ] = fields
    else {
        return None;
    };
    let sample = Sample {
        at: span(at)?,
        loss: Loss::millionths(loss.parse().ok()?),
        bytes: bytes.parse().ok()?,
        frames: frames.parse().ok()?,
        came: came.parse().ok()?,
        lost: lost.parse().ok()?,
        publishes: publishes.to_owned(),
        subscribes: subscribes.to_owned(),
        switches: (one.parse().ok()?, other.parse().ok()?),
    };
    Some((number.parse().ok()?, sample))
}

/// The columns from `messages` on are for readers and are reckoned again.
const TRIAL_HEAD: &str = "trial,way,payload_bytes,delay_us,repeat,seed,loss_ppm,step_us,trouble,messages,lost,duplicates,\
out_of_order,unacknowledged";
const MESSAGE_HEAD: &str =
    "trial,seq,flow,t_intended_us,t_sent_us,t_received_us,rank,copies,protocol,outcome";
const SAMPLE_HEAD: &str = "trial,t_us,loss_ppm,bytes,frames,link_came,link_lost,publishes,subscribes,publisher_switches,\
subscriber_switches";

#[cfg(test)]
mod tests {
    use super::super::trial::tests::trial;
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let folder = std::env::temp_dir().join(format!("thalweg-e2-raw-{}", std::process::id()));
        let mut one = trial(Way::Mqtt, 5, 554);
        one.messages[2].received = None;
        one.messages[2].rank = None;
        one.messages[2].copies = 0;
        let two = Trial {
            number: 1,
            way: Way::Coap,
            trouble: "too late".to_owned(),
            ..trial(Way::Coap, 7, 334)
        };
        let mut writer = Writer::create(&folder).expect("a folder for a moment");
        writer.write(&two).expect("written");
        writer.write(&one).expect("written");
        fs::write(folder.join("run.json"), "{\"suite\":\"E2d\"}").expect("written");
        let run = read(&folder).expect("read");
        assert_eq!(run.trials, [one, two]);
        fs::write(
            folder.join("timeline.csv"),
            format!("{SAMPLE_HEAD}\n0,1,2\n"),
        )
        .expect("written");
        assert!(
            read(&folder).is_err_and(|error| error.to_string().contains("0,1,2")),
            "a torn line is told"
        );
        let _ = fs::remove_dir_all(folder);
    }
}
