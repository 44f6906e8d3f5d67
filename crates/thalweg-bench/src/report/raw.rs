//! The raw files: `run.json`, `trials.csv`, `messages.csv`. Written while a run goes on, read to render it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde_json::Value;

use super::trial::{Message, NEVER, NOBODY, Trial, Verdict};

/// A run as its files have it.
#[derive(Clone, Debug)]
pub struct Run {
    /// About the run and the machine.
    pub about: Value,
    /// What was measured, by number.
    pub trials: Vec<Trial>,
}

/// Writes trials as they come.
#[derive(Debug)]
pub struct Writer {
    trials: BufWriter<File>,
    messages: BufWriter<File>,
}

impl Writer {
    /// Begins the two tables in a folder, which is made.
    pub fn create(folder: &Path) -> io::Result<Writer> {
        fs::create_dir_all(folder)?;
        let mut trials = BufWriter::new(File::create(folder.join("trials.csv"))?);
        let mut messages = BufWriter::new(File::create(folder.join("messages.csv"))?);
        writeln!(trials, "{TRIAL_HEAD}")?;
        writeln!(messages, "{MESSAGE_HEAD}")?;
        Ok(Writer { trials, messages })
    }

    /// Writes a trial and its messages; between some lines and the next it calls `breathe`.
    pub fn write(&mut self, trial: &Trial, breathe: &mut dyn FnMut()) -> io::Result<()> {
        writeln!(self.trials, "{}", trial_line(trial))?;
        for (number, message) in trial.messages.iter().enumerate() {
            writeln!(
                self.messages,
                "{}",
                message_line(trial.number, number, message)
            )?;
            if number % LINES_AT_ONCE == LINES_AT_ONCE - 1 {
                breathe();
            }
        }
        // So that what is there after a power cut is whole.
        self.trials.flush()?;
        self.messages.flush()
    }
}

/// Writes what is known about a run.
pub fn write_about(folder: &Path, about: &Value) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(about)?;
    text.push('\n');
    fs::write(folder.join("run.json"), text)
}

pub fn read(folder: &Path) -> io::Result<Run> {
    let about = fs::read_to_string(folder.join("run.json"))
        .map_err(|error| named(error, folder, "run.json"))
        .and_then(|text| serde_json::from_str(&text).map_err(io::Error::other))?;
    let mut trials = Vec::new();
    for line in lines(folder, "trials.csv", TRIAL_HEAD)? {
        let line = line?;
        trials.push(trial_of(&line).ok_or_else(|| broken(folder, "trials.csv", &line))?);
    }
    trials.sort_by_key(|trial: &Trial| trial.number);
    for line in lines(folder, "messages.csv", MESSAGE_HEAD)? {
        let line = line?;
        let (number, message) =
            message_of(&line).ok_or_else(|| broken(folder, "messages.csv", &line))?;
        if let Ok(at) = trials.binary_search_by_key(&number, |trial| trial.number)
            && let Some(trial) = trials.get_mut(at)
        {
            trial.messages.push(message);
        }
    }
    Ok(Run { about, trials })
}

fn lines(
    folder: &Path,
    name: &str,
    head: &str,
) -> io::Result<impl Iterator<Item = io::Result<String>> + use<>> {
    let file = File::open(folder.join(name)).map_err(|error| named(error, folder, name))?;
    let mut lines = BufReader::new(file).lines();
    match lines.next() {
        Some(Ok(first)) if first == head => Ok(lines),
        _ => Err(io::Error::other(format!(
            "{}/{name} has other columns than this version writes",
            folder.display()
        ))),
    }
}

fn named(error: io::Error, folder: &Path, name: &str) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("{}/{name}: {error}", folder.display()),
    )
}

fn broken(folder: &Path, name: &str, line: &str) -> io::Error {
    io::Error::other(format!(
        "{}/{name}: this line is no line of it: {line}",
        folder.display()
    ))
}

/// Lines that are written without a pause.
const LINES_AT_ONCE: usize = 64;

/// What a trial is; the columns from `delivered` on are for readers and are reckoned again from the messages.
const TRIAL_HEAD: &str = "trial,part,scenario,point,variant,repeat,seed,qos,period_ms,service_ms,counted_s,bars,\
limit_mean_ms,limit_p99_ms,limit_wait_ms,virtual_ms,verdict,why,achieved,lag_p99_us,wake_mean_us,wake_p99_us,wake_max_us,reports,\
worker_bytes,closed,incident_us,delivered,lost,repeated,processed_twice,wait_mean_ms,response_mean_ms,response_p99_ms,\
ratio_mean,ratio_p99";

const MESSAGE_HEAD: &str = "trial,seq,t_intended_us,t_sent_us,t_received_us,t_taken_us,t_done_us,member,deliveries,\
t_again_us,marked,t_resent_us,processed";

fn trial_line(trial: &Trial) -> String {
    let service: Vec<String> = trial.service_ms.iter().map(f64::to_string).collect();
    let maybe = |pair: Option<(f64, f64)>| {
        pair.map_or(String::new(), |(mean, p99)| format!("{mean};{p99}"))
    };
    let delivered = trial
        .messages
        .iter()
        .filter(|message| message.deliveries > 0)
        .count();
    let (mean, p99) = trial.response();
    let (ratio_mean, ratio_p99) = trial.ratio();
    let fields = [
        trial.number.to_string(),
        plain(&trial.part),
        plain(&trial.scenario),
        plain(&trial.point),
        plain(&trial.variant),
        trial.repeat.to_string(),
        trial.seed.to_string(),
        trial.qos.to_string(),
        trial.period_ms.to_string(),
        service.join(";"),
        format!("{};{}", trial.counted.0, trial.counted.1),
        maybe(trial.bars),
        trial.limit_ms.0.to_string(),
        trial.limit_ms.1.to_string(),
        trial.limit_wait_ms.to_string(),
        maybe(trial.virtual_ms),
        trial.verdict.word().to_owned(),
        plain(&trial.why),
        trial.achieved.to_string(),
        trial.lag_p99_us.to_string(),
        trial.wake_us.0.to_string(),
        trial.wake_us.1.to_string(),
        trial.wake_us.2.to_string(),
        trial.reports.to_string(),
        trial.worker_bytes.to_string(),
        trial.closed.to_string(),
        micros(trial.incident),
        delivered.to_string(),
        trial.lost().to_string(),
        trial.repeated().to_string(),
        trial.processed_twice().to_string(),
        format!("{:.3}", trial.wait_mean()),
        format!("{mean:.3}"),
        format!("{p99:.3}"),
        format!("{ratio_mean:.3}"),
        format!("{ratio_p99:.3}"),
    ];
    fields.join(",")
}

fn trial_of(line: &str) -> Option<Trial> {
    let fields: Vec<&str> = line.split(',').collect();
    let mut fields = fields.into_iter();
    let mut next = || fields.next();
    let pair = |text: &str| {
        text.split_once(';')
            .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
    };
    Some(Trial {
        number: next()?.parse().ok()?,
        part: next()?.to_owned(),
        scenario: next()?.to_owned(),
        point: next()?.to_owned(),
        variant: next()?.to_owned(),
        repeat: next()?.parse().ok()?,
        seed: next()?.parse().ok()?,
        qos: next()?.parse().ok()?,
        period_ms: next()?.parse().ok()?,
        service_ms: next()?
            .split(';')
            .map(|each| each.parse().ok())
            .collect::<Option<_>>()?,
        counted: pair(next()?)?,
        bars: pair(next()?),
        limit_ms: (next()?.parse().ok()?, next()?.parse().ok()?),
        limit_wait_ms: next()?.parse().ok()?,
        virtual_ms: pair(next()?),
        verdict: {
            let word = next()?;
            Verdict::ALL
                .into_iter()
                .find(|verdict| verdict.word() == word)?
        },
        why: next()?.to_owned(),
        achieved: next()?.parse().ok()?,
        lag_p99_us: next()?.parse().ok()?,
        wake_us: (
            next()?.parse().ok()?,
            next()?.parse().ok()?,
            next()?.parse().ok()?,
        ),
        reports: next()?.parse().ok()?,
        worker_bytes: next()?.parse().ok()?,
        closed: next()?.parse().ok()?,
        incident: nanos(next()?)?,
        messages: Vec::new(),
    })
}

fn message_line(trial: u32, number: usize, message: &Message) -> String {
    let member = if message.member == NOBODY {
        String::new()
    } else {
        message.member.to_string()
    };
    format!(
        "{trial},{number},{},{},{},{},{},{member},{},{},{},{},{}",
        micros(message.intended),
        micros(message.sent),
        micros(message.received),
        micros(message.taken),
        micros(message.done),
        message.deliveries,
        micros(message.again),
        message.marked,
        micros(message.resent),
        message.processed,
    )
}

fn message_of(line: &str) -> Option<(u32, Message)> {
    let mut fields = line.split(',');
    let mut next = || fields.next();
    let trial = next()?.parse().ok()?;
    let _number = next()?;
    let message = Message {
        intended: nanos(next()?)?,
        sent: nanos(next()?)?,
        received: nanos(next()?)?,
        taken: nanos(next()?)?,
        done: nanos(next()?)?,
        member: match next()? {
            "" => NOBODY,
            member => member.parse().ok()?,
        },
        deliveries: next()?.parse().ok()?,
        again: nanos(next()?)?,
        marked: next()?.parse().ok()?,
        resent: nanos(next()?)?,
        processed: next()?.parse().ok()?,
    };
    Some((trial, message))
}

/// Microseconds; nothing for what did not happen.
fn micros(nanos: u64) -> String {
    if nanos == NEVER {
        String::new()
    } else {
        (nanos / 1000).to_string()
    }
}

fn nanos(micros: &str) -> Option<u64> {
    if micros.is_empty() {
        Some(NEVER)
    } else {
        micros.parse::<u64>().ok()?.checked_mul(1000)
    }
}

/// Words without what separates columns and lines.
fn plain(words: &str) -> String {
    words.replace([',', '\n', '\r'], " ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A trial of two messages, of which the second was lost.
    pub(crate) fn trial(number: u32) -> Trial {
        let got = Message {
            sent: 1_050_000,
            received: 1_200_000,
            taken: 1_300_000,
            done: 26_300_000,
            member: 2,
            deliveries: 2,
            again: 5_000_000,
            marked: 1,
            resent: 5_000_000,
            processed: 1,
            ..Message::due(1_000_000)
        };
        Trial {
            number,
            part: "core".to_owned(),
            scenario: "S2".to_owned(),
            point: "d=10.44ms".to_owned(),
            variant: "score".to_owned(),
            repeat: 1,
            seed: 101,
            qos: 1,
            period_ms: 10.44,
            service_ms: vec![25.0, 25.0, 50.0],
            counted: (0.0, f64::INFINITY),
            bars: Some((1.1, 1.12)),
            limit_ms: (20.5, 30.0),
            limit_wait_ms: 0.5,
            virtual_ms: Some((21.5, 31.0)),
            verdict: Verdict::GeneratorLimited,
            why: "late, very late".to_owned(),
            achieved: 0.5,
            lag_p99_us: 50.0,
            wake_us: (1.0, 2.5, 3.0),
            reports: 7,
            worker_bytes: 900,
            closed: 1,
            incident: 2_000_000,
            messages: vec![got, Message::due(11_000_000)],
        }
    }

    #[test]
    fn what_was_written_is_read_again() {
        let folder = std::env::temp_dir().join(format!("thalweg-bench-raw-{}", std::process::id()));
        let mut writer = Writer::create(&folder).expect("the temporary folder is writable");
        let trials = [trial(0), trial(1)];
        for trial in trials.iter().rev() {
            writer.write(trial, &mut || {}).expect("writable");
        }
        write_about(&folder, &serde_json::json!({ "seed": 1 })).expect("writable");
        let run = read(&folder).expect("it was just written");
        let _ = fs::remove_dir_all(&folder);
        let [mut first, mut second] = trials;
        (first.why, second.why) = ("late  very late".to_owned(), "late  very late".to_owned());
        assert_eq!(
            (run.about["seed"].as_u64(), run.trials),
            (Some(1), vec![first, second])
        );
    }

    #[test]
    fn a_line_that_is_none_is_told() {
        assert!(trial_of("1,core").is_none());
        assert!(message_of("1,2,3").is_none());
        assert!(message_of("1,0,x,,,,,,0,,1,,0").is_none());
        assert!(message_of("1,0,5,,,,,,0,,1,,0").is_some());
    }
}
