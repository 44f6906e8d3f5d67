//! What is run: steps of loss, by MQTT, by CoAP and by clients that choose. A step is a cell; those that follow each other on
//! one link are a course.

use std::time::Duration;

use clap::{Args, Parser, ValueEnum};

use crate::cell::{Cell, Link, word};
use crate::net::{Loss, units};
use crate::studies::plan::{self, Budget, by, coap, mqtt};

/// What only E2d takes.
#[derive(Args, Clone, Debug)]
pub struct CourseArgs {
    /// E2d: how long each loss lasts, instead of what the budget says: 30 s in quick, else 120 s
    #[arg(long, value_name = "TIME", value_parser = step)]
    pub step: Option<Duration>,
    /// E2d: losses, one after the other
    #[arg(long, value_name = "LOSSES", value_parser = units::loss, value_delimiter = ',', default_value = "0%,20%,5%,25%,0%")]
    pub losses: Vec<Loss>,
    /// E2d: sizes of messages, such as 60B,600B
    #[arg(long, value_name = "SIZES", value_parser = payload, value_delimiter = ',', default_value = "60B")]
    pub payload: Vec<u32>,
    /// E2d: what adaptive clients are after
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        value_delimiter = ',',
        default_value = "bytes,latency"
    )]
    pub objective: Vec<Goal>,
    /// E2d: one-way delays of the link, such as 0,50ms; anything but 0 is emulated
    #[arg(long, value_name = "TIMES", value_parser = units::span, value_delimiter = ',', default_value = "0")]
    pub delay: Vec<Duration>,
    /// E2d: messages, over all topics
    #[arg(long, value_name = "RATE", value_parser = units::frequency, default_value = "5/s")]
    pub rate: f64,
    /// E2d: topics, each of which gets every so-manieth message; CoAP needs some 10 s between two of one topic
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), default_value_t = 50)]
    pub topics: u32,
    /// E2d: no adaptive client, only MQTT and CoAP all along
    #[arg(long)]
    pub fixed_only: bool,
    /// E2d: courses that run at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200), default_value_t = 24)]
    pub abreast: u32,
}

impl Default for CourseArgs {
    /// What the command line has where nothing is said.
    fn default() -> Self {
        #[derive(Parser)]
        struct Alone {
            #[command(flatten)]
            course: CourseArgs,
        }
        Alone::parse_from(["E2d"]).course
    }
}

fn step(text: &str) -> Result<Duration, String> {
    let step = units::span(text)?;
    match step >= Duration::from_secs(1) {
        true => Ok(step),
        false => Err("a step is at least 1 s".to_owned()),
    }
}

fn payload(text: &str) -> Result<u32, String> {
    let size = u32::try_from(units::size(text)?).map_err(|error| error.to_string())?;
    match size >= 4 {
        true => Ok(size),
        false => Err("a message has at least 4 bytes: its number".to_owned()),
    }
}

/// What is to be small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// Bytes on the wire per message
    Bytes,
    /// Time from the intended publish to the subscriber's having it
    Latency,
}

/// The axis of what an adaptive client is after; others do not have it.
pub const ADAPTIVE: &str = "adaptive";
/// The axis of which step of its course a cell is, from 1.
pub const STEP: &str = "step";

/// The cells of these courses, with as many repeats as the budget says.
pub fn cells(args: &CourseArgs, budget: Budget, seed: u64) -> Vec<Cell> {
    let step = args
        .step
        .unwrap_or(Duration::from_secs(by(budget, 30, 120, 120)));
    let losses: Vec<String> = args.losses.iter().map(Loss::to_string).collect();
    let course = format!("{} of {} s", losses.join(" "), step.as_secs_f64());
    let goals: &[Goal] = match args.fixed_only {
        true => &[],
        false => &args.objective,
    };
    let mut ways = vec![(mqtt(1), mqtt(1), None), (coap(true), coap(true), None)];
    // Who chooses may come to publish and to listen by either.
    ways.extend(goals.iter().map(|goal| (mqtt(1), coap(true), Some(*goal))));
    let (mut cells, repeats) = (Vec::new(), by(budget, 1, 3, 5));
    for bytes in &args.payload {
        for delay in &args.delay {
            for (publish, subscribe, goal) in &ways {
                for (number, loss) in (1..).zip(&args.losses) {
                    let mut draft = plan::cell("E2d", "thalweg", *publish)
                        .payload(*bytes)
                        .at("delay", format!("{} ms", delay.as_secs_f64() * 1e3))
                        .at("course", &course)
                        .at(STEP, number)
                        .at("loss", loss)
                        .open(args.rate / f64::from(args.topics), args.topics)
                        .with(|cell| {
                            cell.subscribe = *subscribe;
                            cell.link = Link {
                                loss: loss.part(),
                                delay_ns: delay.as_nanos() as u64,
                                ..Link::CABLE
                            };
                            cell.phases = plan::phases(2.0, 0.0, step.as_secs_f64(), 100.0);
                        });
                    if let Some(goal) = goal {
                        draft = draft.at("way", "mqtt-or-coap").at(ADAPTIVE, word(*goal));
                    }
                    cells.extend(plan::repeats(&draft.into_cell(), repeats, seed));
                }
            }
        }
    }
    cells
}

/// Which step of its course a cell is, from 0.
pub fn step_of(cell: &Cell) -> usize {
    let number = cell.axes.get(STEP).and_then(|number| number.parse().ok());
    number.map_or(0, |number: usize| number.saturating_sub(1))
}

/// A run of one way through all steps.
#[derive(Clone, Debug)]
pub struct Course<'a> {
    /// Its number in the run.
    pub number: usize,
    /// What all of its steps have in common is this one's.
    pub cell: &'a Cell,
    /// The steps that are wanted, in their order. All of them are run: each begins where the one before has ended.
    pub due: Vec<&'a Cell>,
    pub args: &'a CourseArgs,
}

/// The courses that these cells are steps of.
pub fn courses<'a>(cells: &'a [Cell], args: &'a CourseArgs) -> Vec<Course<'a>> {
    let mut courses: Vec<(String, Course<'a>)> = Vec::new();
    for cell in cells {
        let mut alike = cell.clone();
        alike
            .axes
            .retain(|axis, _| ![STEP, "loss"].contains(&axis.as_str()));
        let (name, number) = (alike.key(), courses.len());
        match courses.iter_mut().find(|(known, _)| *known == name) {
            Some((_, course)) => course.due.push(cell),
            None => {
                let due = vec![cell];
                let course = Course {
                    number,
                    cell,
                    due,
                    args,
                };
                courses.push((name, course));
            }
        }
    }
    let sorted = |(_, mut course): (String, Course<'a>)| {
        course.due.sort_by_key(|cell| step_of(cell));
        course
    };
    courses.into_iter().map(sorted).collect()
}

impl Course<'_> {
    /// How long each step lasts.
    pub fn step(&self) -> Duration {
        Duration::from_nanos(self.cell.phases.measure_ns)
    }

    /// What its client is after, if that chooses.
    pub fn goal(&self) -> Option<Goal> {
        Goal::from_str(self.cell.axes.get(ADAPTIVE)?, false).ok()
    }

    /// Messages that will be published.
    pub fn messages(&self) -> usize {
        let seconds = self.step().as_secs_f64() * self.args.losses.len() as f64;
        (seconds * self.args.rate).round() as usize
    }

    /// When a message is to be published, since the beginning.
    pub fn intended(&self, sequence: usize) -> Duration {
        // In the middle of its slot, so that no message falls on the moment at which the loss changes.
        Duration::from_secs_f64((sequence as f64 + 0.5) / self.args.rate)
    }

    /// Which topic a message goes to.
    pub fn flow(&self, sequence: usize) -> u32 {
        sequence as u32 % self.args.topics
    }
}

/// The topic of a flow.
pub fn topic(flow: u32) -> String {
    format!("e2/{flow:02}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn every_way_goes_through_all_steps_in_every_repeat() {
        let args = CourseArgs {
            payload: vec![60, 600],
            delay: vec![Duration::ZERO, Duration::from_millis(50)],
            ..CourseArgs::default()
        };
        let mut cells = cells(&args, Budget::Standard, 1);
        plan::shuffle(&mut cells, 1);
        let courses = courses(&cells, &args);
        assert_eq!(courses.len(), 4 * 2 * 2 * 3);
        for course in &courses {
            let losses: Vec<f64> = course.due.iter().map(|cell| cell.link.loss).collect();
            assert_eq!(losses, [0.0, 0.2, 0.05, 0.25, 0.0]);
            let seed = 1 + u64::from(course.cell.repeat);
            assert!(
                course.due.iter().all(|cell| cell.seed == seed),
                "all ways of a repeat draw from one seed"
            );
        }
        let chosen = |goal| courses.iter().filter(move |it| it.goal() == Some(goal));
        assert_eq!(chosen(Goal::Bytes).count(), chosen(Goal::Latency).count());
        // One step that is wanted is one step that is written, of a course that is run whole.
        let wanted: Vec<Cell> = cells
            .into_iter()
            .filter(|cell| step_of(cell) == 3)
            .collect();
        let courses = super::courses(&wanted, &args);
        assert!(
            courses
                .iter()
                .all(|it| it.due.len() == 1 && it.messages() == 3000)
        );
    }

    #[test]
    fn no_message_falls_on_a_change_of_loss() {
        let args = CourseArgs {
            step: Some(Duration::from_secs(10)),
            topics: 10,
            ..CourseArgs::default()
        };
        let cells = cells(&args, Budget::Quick, 1);
        let course = courses(&cells, &args).remove(0);
        assert_eq!(course.messages(), 250);
        assert_eq!(course.intended(49), Duration::from_millis(9900));
        assert_eq!(course.intended(50), Duration::from_millis(10_100));
        assert_eq!(topic(course.flow(13)), "e2/03");
    }

    #[test]
    fn a_step_too_short_and_a_message_too_small_are_refused_in_words() {
        assert!(step("500ms").is_err_and(|why| why.contains("at least 1 s")));
        assert!(payload("3B").is_err_and(|why| why.contains("at least 4 bytes")));
        assert_eq!(
            (step("20s"), payload("4B")),
            (Ok(Duration::from_secs(20)), Ok(4))
        );
    }
}
