//! What the report of E2d says: verdicts, regret, steps, drawings, explanations.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::drawing;
use super::plan::{Goal, Way};
use super::raw::{self, Run};
use super::trial::{StepSum, Trial};
use crate::command::Outcome;
use crate::paper::plate::Plate;
use crate::report::Found;
use crate::report::document::{Document, Table};
use crate::report::stat::mean;

/// Courses of one payload and one delay.
struct Condition<'r> {
    payload: usize,
    delay: Duration,
    trials: Vec<&'r Trial>,
}

/// An adaptive way beside the best fixed one of each step.
#[derive(Debug)]
struct Regret {
    goal: Goal,
    /// By step: adaptive, MQTT, CoAP.
    costs: Vec<[f64; 3]>,
    overall: f64,
    /// Of single repeats, least and greatest.
    range: (f64, f64),
    /// Most switches in a step, of publisher and subscriber.
    switches: (u64, u64),
}

/// Renders a folder anew from its raw files.
pub fn render(folder: &Path) -> io::Result<Found> {
    // Without the messages of the run its files stay as they are.
    let findings_file = folder.join("findings.json");
    if !folder.join("messages.csv").exists() && findings_file.exists() {
        let json: Value =
            serde_json::from_str(&fs::read_to_string(&findings_file)?).map_err(io::Error::other)?;
        let is_held = json["checks"]
            .as_array()
            .into_iter()
            .flatten()
            .all(|check| check["held"] == json!(true));
        let outcome = if is_held {
            Outcome::Done
        } else {
            Outcome::ShapeFailed
        };
        return Ok(Found {
            summary: fs::read_to_string(folder.join("summary.md"))?,
            json,
            outcome,
        });
    }
    let run = raw::read(folder)?;
    let (document, json, outcome) = findings(&run);
    let summary = document.markdown();
    fs::write(folder.join("summary.md"), &summary)?;
    fs::write(folder.join("report.html"), document.html())?;
    fs::write(
        folder.join("findings.json"),
        format!("{}\n", serde_json::to_string_pretty(&json)?),
    )?;
    for (name, svg) in drawings(&run) {
        fs::write(folder.join(name), svg)?;
    }
    Ok(Found {
        summary,
        json,
        outcome,
    })
}

/// The drawings as files: each objective in each condition, first repeat.
fn drawings(run: &Run) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for condition in conditions(run) {
        for goal in [Goal::Bytes, Goal::Latency] {
            if let Some(plate) = condition.drawing(goal) {
                let name = format!(
                    "{}-{}B-{}ms.svg",
                    goal.name(),
                    condition.payload,
                    condition.delay.as_millis()
                );
                all.push((name, plate.file()));
            }
        }
    }
    all
}

fn findings(run: &Run) -> (Document, Value, Outcome) {
    let mut document = Document {
        title: "E2d: the protocol chosen while the loss changes".to_owned(),
        ..Document::default()
    };
    about(run, &mut document);
    let conditions = conditions(run);
    let mut verdicts = Table::new(&["condition", "what", "bar", "ours", "verdict"]);
    let mut rows = Vec::new();
    let mut is_held = true;
    for condition in &conditions {
        for (what, bar, ours, held) in condition.checks() {
            is_held &= held;
            rows.push(json!({ "condition": condition.name(), "what": what, "bar": bar, "ours": ours, "held": held }));
            let verdict = if held { "held" } else { "above the bar" };
            verdicts.row([condition.name(), what, bar, ours, verdict.to_owned()]);
        }
    }
    document.heading("What came out");
    document.table(verdicts);
    for condition in &conditions {
        condition.describe(&mut document);
    }
    troubles(run, &mut document);
    let costs: Vec<Value> = conditions.iter().map(Condition::json).collect();
    let is_judged = !rows.is_empty();
    let json = json!({ "about": run.about, "checks": rows, "conditions": costs });
    let outcome = match (is_held, is_judged && unmeasured(run).is_empty()) {
        (false, _) => Outcome::ShapeFailed,
        (true, true) => Outcome::Done,
        (true, false) => Outcome::Invalid,
    };
    (document, json, outcome)
}

/// Courses of which no repeat counts: what they should have shown was not measured.
fn unmeasured(run: &Run) -> Vec<&Trial> {
    let is_alike = |one: &Trial, other: &Trial| {
        (one.way, one.payload, one.delay) == (other.way, other.payload, other.delay)
    };
    let has_one = |trial: &Trial| {
        run.trials
            .iter()
            .any(|other| is_alike(trial, other) && other.counts())
    };
    run.trials.iter().filter(|trial| !has_one(trial)).collect()
}

fn conditions(run: &Run) -> Vec<Condition<'_>> {
    let mut all: Vec<Condition<'_>> = Vec::new();
    for trial in run.trials.iter().filter(|trial| trial.counts()) {
        match all
            .iter_mut()
            .find(|it| it.payload == trial.payload && it.delay == trial.delay)
        {
            Some(condition) => condition.trials.push(trial),
            None => {
                all.push(Condition {
                    payload: trial.payload,
                    delay: trial.delay,
                    trials: vec![trial],
                });
            }
        }
    }
    all.sort_by_key(|condition| (condition.delay, condition.payload));
    all
}

impl Trial {
    /// Whether it came to its end, and messages were published when they should.
    pub fn counts(&self) -> bool {
        self.trouble.is_empty() && self.late(self.period()) * 100 <= self.messages.len()
    }

    /// From one message to the next.
    fn period(&self) -> Duration {
        let period = self
            .messages
            .get(1)
            .zip(self.messages.first())
            .map(|(two, one)| two.intended - one.intended);
        period.unwrap_or_default()
    }

    /// What a message of a step cost.
    fn cost(&self, step: usize, goal: Goal) -> f64 {
        let sum = self.sum(step);
        match goal {
            Goal::Bytes => sum.bytes,
            Goal::Latency => sum.mean,
        }
    }
}

impl Condition<'_> {
    fn name(&self) -> String {
        format!("{} B, {} ms", self.payload, self.delay.as_millis())
    }

    fn of(&self, way: Way) -> impl Iterator<Item = &Trial> {
        self.trials
            .iter()
            .copied()
            .filter(move |trial| trial.way == way)
    }

    fn steps(&self) -> usize {
        self.trials.first().map_or(0, |trial| trial.steps.len())
    }

    fn cost(&self, way: Way, step: usize, goal: Goal) -> f64 {
        mean(self.of(way).map(|trial| trial.cost(step, goal)))
    }

    fn regret(&self, goal: Goal) -> Option<Regret> {
        self.of(Way::Adaptive(goal)).next()?;
        let costs: Vec<[f64; 3]> = (0..self.steps())
            .map(|step| {
                [Way::Adaptive(goal), Way::Mqtt, Way::Coap].map(|way| self.cost(way, step, goal))
            })
            .collect();
        let best: f64 = costs.iter().map(|[_, mqtt, coap]| mqtt.min(*coap)).sum();
        let of = |spent: f64| spent / best - 1.0;
        let spent = |trial: &Trial| {
            (0..self.steps())
                .map(|step| trial.cost(step, goal))
                .sum::<f64>()
        };
        let singles: Vec<f64> = self
            .of(Way::Adaptive(goal))
            .map(|trial| of(spent(trial)))
            .collect();
        let sums = || {
            self.of(Way::Adaptive(goal))
                .flat_map(|trial| (0..self.steps()).map(|step| trial.sum(step)))
        };
        Some(Regret {
            goal,
            overall: of(costs.iter().map(|[adaptive, ..]| adaptive).sum()),
            costs,
            range: (
                singles.iter().copied().fold(f64::INFINITY, f64::min),
                singles.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ),
            switches: (
                sums().map(|sum| sum.switches.0).max().unwrap_or(0),
                sums().map(|sum| sum.switches.1).max().unwrap_or(0),
            ),
        })
    }

    fn checks(&self) -> Vec<(String, String, String, bool)> {
        let mut all = Vec::new();
        for way in [Way::Mqtt, Way::Coap] {
            let messages: usize = self.of(way).map(|trial| trial.messages.len()).sum();
            let lost: usize = self.of(way).map(Trial::lost).sum();
            if messages > 0 {
                let ours = format!("{} of {messages}", messages - lost);
                all.push((
                    format!("delivered, {} all along", way.name()),
                    "all".to_owned(),
                    ours,
                    lost == 0,
                ));
            }
        }
        for goal in [Goal::Bytes, Goal::Latency] {
            let Some(regret) = self.regret(goal) else {
                continue;
            };
            all.push((
                format!("regret, {}", goal.name()),
                format!(
                    "at most {:.0} % above the best fixed protocol of each step",
                    REGRET_MAX * 100.0
                ),
                format!(
                    "{} (repeats {} to {})",
                    part(regret.overall),
                    part(regret.range.0),
                    part(regret.range.1)
                ),
                regret.overall <= REGRET_MAX,
            ));
            all.push((
                format!("switches, {}", goal.name()),
                format!("at most {SWITCHES_MAX} per step"),
                format!(
                    "publisher {}, subscriber {}",
                    regret.switches.0, regret.switches.1
                ),
                regret.switches.0.max(regret.switches.1) <= SWITCHES_MAX,
            ));
            let mine = || self.of(Way::Adaptive(goal));
            let counts = [
                ("lost", mine().map(Trial::lost).sum::<usize>()),
                (
                    "repeated",
                    mine().map(|trial| trial.duplicates() as usize).sum(),
                ),
                ("out of order", mine().map(Trial::out_of_order).sum()),
            ];
            let messages: usize = mine().map(|trial| trial.messages.len()).sum();
            for (what, count) in counts {
                all.push((
                    format!("{what}, {}", goal.name()),
                    "0".to_owned(),
                    format!("{count} of {messages}"),
                    count == 0,
                ));
            }
        }
        all
    }

    fn describe(&self, document: &mut Document) {
        document.heading(format!(
            "Payload {} B, delay {} ms one way",
            self.payload,
            self.delay.as_millis()
        ));
        for goal in [Goal::Bytes, Goal::Latency] {
            let Some(regret) = self.regret(goal) else {
                continue;
            };
            let unit = if goal == Goal::Bytes {
                "bytes per message"
            } else {
                "mean latency, ms"
            };
            let mut table = Table::new(&[
                "step",
                "loss",
                &format!("adaptive, {unit}"),
                "mqtt",
                "coap",
                "best fixed",
                "regret",
            ]);
            for (step, &[adaptive, mqtt, coap]) in regret.costs.iter().enumerate() {
                let best = mqtt.min(coap);
                table.row([
                    (step + 1).to_string(),
                    self.loss(step),
                    number(adaptive),
                    number(mqtt),
                    number(coap),
                    if mqtt <= coap { "mqtt" } else { "coap" }.to_owned(),
                    part(adaptive / best - 1.0),
                ]);
            }
            document.text(format!(
                "Objective {}: regret {}.",
                regret.goal.name(),
                part(regret.overall)
            ));
            document.table(table);
            if let Some(svg) = self.drawing(goal).map(|plate| plate.svg()) {
                document.chart(
                    svg,
                    format!(
                        "Objective {}, repeat 0: loss of the link, the protocol by which the publisher publishes and that of \
                         most subscriptions, each message's latency, bytes on the wire per message over ten seconds.",
                        goal.name()
                    ),
                    "",
                );
            }
        }
        let mut table = Table::new(&[
            "way",
            "repeat",
            "step",
            "loss asked",
            "lost on the link",
            "published",
            "received",
            "mean ms",
            "50 %",
            "90 %",
            "99 %",
            "max",
            "B/message",
            "frames",
            "switches",
            "published over",
        ]);
        for trial in &self.trials {
            for (step, loss) in trial.steps.iter().enumerate() {
                table.row(step_row(trial, step, &loss.to_string(), &trial.sum(step)));
            }
        }
        document.table(table);
        let mut table = Table::new(&[
            "way",
            "repeat",
            "messages",
            "lost",
            "repeated",
            "out of order",
            "not acknowledged",
            "late",
        ]);
        for trial in &self.trials {
            table.row([
                trial.way.name().to_owned(),
                trial.repeat.to_string(),
                trial.messages.len().to_string(),
                trial.lost().to_string(),
                trial.duplicates().to_string(),
                trial.out_of_order().to_string(),
                trial.unacknowledged().to_string(),
                trial.late(trial.period()).to_string(),
            ]);
        }
        document.table(table);
        self.words(document);
    }

    /// What the clients of the first repeat said of their choices.
    fn words(&self, document: &mut Document) {
        for goal in [Goal::Bytes, Goal::Latency] {
            let Some(trial) = self
                .of(Way::Adaptive(goal))
                .min_by_key(|trial| trial.repeat)
            else {
                continue;
            };
            let mut table = Table::new(&["s", "who", "explain()"]).of_sentences();
            let said = trial
                .events
                .iter()
                .filter(|event| event.what.starts_with("explain"))
                .take(EXPLAINED_MAX);
            for event in said {
                let who = event.what.trim_start_matches("explain-").to_owned();
                table.row([
                    format!("{:.0}", event.at.as_secs_f64()),
                    who,
                    event.words.replace('\n', " "),
                ]);
            }
            if !table.rows.is_empty() {
                document.text(format!("What the clients said, objective {}:", goal.name()));
            }
            document.table(table);
        }
    }

    fn loss(&self, step: usize) -> String {
        self.trials
            .first()
            .and_then(|trial| trial.steps.get(step))
            .map_or_else(String::new, ToString::to_string)
    }

    fn drawing(&self, goal: Goal) -> Option<Plate> {
        let trial = self
            .of(Way::Adaptive(goal))
            .min_by_key(|trial| trial.repeat)?;
        let fixed: Vec<&Trial> = [Way::Mqtt, Way::Coap]
            .into_iter()
            .filter_map(|way| self.of(way).min_by_key(|trial| trial.repeat))
            .collect();
        drawing::course(
            trial,
            &fixed,
            &format!("objective {}, {}", goal.name(), self.name()),
        )
    }

    fn json(&self) -> Value {
        let regrets = [Goal::Bytes, Goal::Latency]
            .into_iter()
            .filter_map(|goal| self.regret(goal))
            .map(|regret| {
                json!({
                    "objective": regret.goal.name(),
                    "regret": regret.overall,
                    "costs_adaptive_mqtt_coap": regret.costs,
                })
            });
        json!({
            "payload": self.payload,
            "delay_ms": self.delay.as_secs_f64() * 1e3,
            "regrets": regrets.collect::<Vec<_>>(),
        })
    }
}

fn step_row(trial: &Trial, step: usize, loss: &str, sum: &StepSum) -> Vec<String> {
    let by: Vec<String> = sum
        .protocols
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    vec![
        trial.way.name().to_owned(),
        trial.repeat.to_string(),
        (step + 1).to_string(),
        loss.to_owned(),
        part(sum.loss),
        sum.published.to_string(),
        sum.received.to_string(),
        number(sum.mean),
        number(sum.p50),
        number(sum.p90),
        number(sum.p99),
        number(sum.max),
        number(sum.bytes),
        format!("{:.2}", sum.frames),
        format!("{} / {}", sum.switches.0, sum.switches.1),
        by.join(", "),
    ]
}

fn about(run: &Run, document: &mut Document) {
    let word = |key: &str| match &run.about[key] {
        Value::String(text) => text.clone(),
        Value::Null => "?".to_owned(),
        other => other.to_string(),
    };
    document.text(format!(
        "Thalweg {} ({}), {} of {} courses count, seed {}. {} with {} cores, kernel {}; load before: {}. It took {} s.",
        word("version"),
        if run.about["is_optimised"] == json!(true) { "optimised build" } else { "debug build" },
        run.trials.iter().filter(|trial| trial.counts()).count(),
        run.trials.len(),
        word("seed"),
        word("cpu"),
        word("cores"),
        word("kernel"),
        word("load_average_at_start"),
        run.about["lasted_s"].as_f64().map_or("?".to_owned(), |seconds| format!("{seconds:.0}")),
    ));
    document.text(format!(
        "A publisher and a subscriber ({}) go through a link that loses packets in both directions; every packet may be lost, \
         acknowledgements too. {} messages a second over {} topics, at least once, steps of {} s. Latency is from the time at \
         which a message should have been published until the subscriber has it. Bytes are those of all Ethernet frames that \
         both sides sent, lost ones included, per message published in the step; what set the connections up before the first \
         step is not in it, what a switch costs is. Loss is made by {}.",
        if run.about["one_client"] == json!(true) { "one client" } else { "two clients" },
        word("rate_per_s"),
        word("flows"),
        word("step_s"),
        "nftables where there is no delay, else by an emulator in user space with the seed",
    ));
    document.text(
        "Regret: by how much the adaptive client's costs, summed over the steps, are above those of the better fixed protocol \
         of each step, which nobody knows beforehand.",
    );
}

fn troubles(run: &Run, document: &mut Document) {
    let mut table = Table::new(&["course", "why it does not count"]).of_sentences();
    for trial in run.trials.iter().filter(|trial| !trial.counts()) {
        let why = if trial.trouble.is_empty() {
            "messages were published late"
        } else {
            trial.trouble.as_str()
        };
        table.row([
            format!(
                "{} {} B {} ms #{}",
                trial.way.name(),
                trial.payload,
                trial.delay.as_millis(),
                trial.repeat
            ),
            why.to_owned(),
        ]);
    }
    if !table.rows.is_empty() {
        document.heading("What did not count");
        document.table(table);
    }
    for trial in unmeasured(run)
        .into_iter()
        .filter(|trial| trial.trouble.is_empty() && trial.repeat == 0)
    {
        let Way::Adaptive(goal) = trial.way else {
            continue;
        };
        let title = format!(
            "objective {}, {} B, does not count",
            goal.name(),
            trial.payload
        );
        if let Some(svg) = drawing::course(trial, &[], &title).map(|plate| plate.svg()) {
            document.chart(
                svg,
                format!(
                    "Objective {}, {} B, {} ms: this course does not count, because {} of its {} messages were published late. \
                     It is drawn to show what happened, and says nothing of the choice.",
                    goal.name(),
                    trial.payload,
                    trial.delay.as_millis(),
                    trial.late(trial.period()),
                    trial.messages.len()
                ),
                "",
            );
        }
    }
}

fn part(value: f64) -> String {
    if value.is_finite() {
        format!("{:.1} %", value * 100.0)
    } else {
        "-".to_owned()
    }
}

fn number(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "-".to_owned(),
        _ if value >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

/// This project's bars: at most so much.
const REGRET_MAX: f64 = 0.15;
const SWITCHES_MAX: u64 = 2;
const EXPLAINED_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::super::trial::tests::trial;
    use super::*;

    fn run_of(adaptive_bytes: u64) -> Run {
        let mut trials = vec![
            trial(Way::Mqtt, 5, 554),
            trial(Way::Coap, 7, 334),
            trial(Way::Adaptive(Goal::Bytes), 6, adaptive_bytes),
        ];
        for (number, trial) in trials.iter_mut().enumerate() {
            trial.number = number;
        }
        Run {
            about: json!({ "suite": "E2d" }),
            trials,
        }
    }

    #[test]
    fn regret_is_against_the_better_one_of_each_step() {
        let run = run_of(367);
        let condition = &conditions(&run)[0];
        let regret = condition.regret(Goal::Bytes).expect("there is one");
        assert!(
            (regret.overall - (367.0 / 334.0 - 1.0)).abs() < 1e-9,
            "{regret:?}"
        );
        assert!(condition.regret(Goal::Latency).is_none(), "it was not run");
        assert_eq!(findings(&run).2, Outcome::Done);
        assert_eq!(findings(&run_of(400)).2, Outcome::ShapeFailed, "20 % above");
    }

    #[test]
    fn a_lost_message_is_above_the_bar() {
        let mut run = run_of(334);
        run.trials[2].messages[4].copies = 0;
        assert_eq!(findings(&run).2, Outcome::ShapeFailed);
        run.trials[2].messages[4].copies = 2;
        assert_eq!(
            findings(&run).2,
            Outcome::ShapeFailed,
            "so is one that came twice"
        );
    }

    type Change = fn(&mut Trial);

    /// Every check has courses for which it says no.
    #[test]
    fn every_check_says_no_to_courses_that_refute_it() {
        let run = |change: Change| {
            let goals = [Goal::Bytes, Goal::Latency];
            let fixed = [trial(Way::Mqtt, 5, 554), trial(Way::Coap, 7, 334)];
            let mut trials: Vec<Trial> = fixed
                .into_iter()
                .chain(goals.map(|goal| trial(Way::Adaptive(goal), 5, 334)))
                .collect();
            trials.iter_mut().for_each(change);
            Run {
                about: json!({ "suite": "E2d" }),
                trials,
            }
        };
        let checks = |change: Change| conditions(&run(change))[0].checks();
        let refuting: [(&str, Change); 6] = [
            ("delivered", |trial| trial.messages[3].copies = 0),
            ("lost", |trial| trial.messages[3].copies = 0),
            ("repeated", |trial| trial.messages[3].copies = 2),
            ("out of order", |trial| {
                trial.messages[4].rank = Some(6);
                trial.messages[6].rank = Some(4);
            }),
            ("switches", |trial| trial.samples[1].switches.1 = 3),
            ("regret", |trial| {
                if matches!(trial.way, Way::Adaptive(_)) {
                    trial
                        .samples
                        .iter_mut()
                        .for_each(|sample| sample.bytes *= 2);
                    for message in &mut trial.messages {
                        message.received = message.received.map(|at| at + Duration::from_millis(9));
                    }
                }
            }),
        ];
        let good = checks(|_| {});
        assert_eq!(good.len(), 2 + 2 * 5);
        for (what, _, ours, held) in good {
            assert!(held, "{what}: {ours}");
            let (_, change) = refuting
                .iter()
                .find(|(word, _)| what.starts_with(word))
                .unwrap_or_else(|| panic!("{what}: nothing refutes it"));
            let (.., held) = checks(*change)
                .into_iter()
                .find(|(other, ..)| *other == what)
                .expect("it stays");
            assert!(!held, "{what}");
        }
    }

    #[test]
    fn what_did_not_come_to_its_end_does_not_count() {
        let mut run = run_of(334);
        for trial in &mut run.trials {
            trial.trouble = "interrupted".to_owned();
        }
        let (document, _, outcome) = findings(&run);
        assert_eq!(outcome, Outcome::Invalid);
        assert!(document.markdown().contains("interrupted"));
    }

    #[test]
    fn a_course_published_late_is_shown_and_judged_by_nobody() {
        let mut run = run_of(400);
        let adaptive = &mut run.trials[2];
        for message in &mut adaptive.messages {
            message.sent = message.sent.map(|sent| sent + Duration::from_secs(1));
        }
        let (document, _, outcome) = findings(&run);
        assert_eq!(
            outcome,
            Outcome::Invalid,
            "the fixed ones count, but what was asked for was not measured"
        );
        let html = document.html();
        assert!(html.contains("<svg") && html.contains("does not count"));
        assert!(!html.contains("regret, bytes"));
    }
}
