//! `thalweg sub --work`: a worker. It processes each message, acknowledges after that, and tells the broker how it keeps up.
//!
//! ```text
//!  PUBLISH ──> waiting ──> a free hand ──> Done ──> owed, in order of arrival ──> PUBACK, PUBREC
//!                 │                          │
//!                 └──────── Reporter ────────┴──> PINGREQ with a report, `lb` on an acknowledgement, or $load/report
//! ```
//!
//! This thread is the only one that talks to the broker; hands are threads that do the work and tell the link. At QoS 1 and
//! 2 what waits is bounded by our Receive Maximum, at QoS 0 by [`WAITING_MAX`].

use std::collections::{HashSet, VecDeque};
use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use thalweg_mqtt::load::{self, Report, Spelling};
use thalweg_mqtt::{
    ClientEvent, Info, PacketType, Publish, PublishOut, QoS, ReasonCode, ReportRules, Reporter,
    Version,
};

use crate::brokers::interrupted;
use crate::cli::{OnFailure, ReportBy, SubArgs};
use crate::failure::Failure;
use crate::format::Arrival;
use crate::link::{Happening, Link, Reply, Step, Terms, ask, judge, tell_interrupts};

/// What a hand tells when it has done what it was given.
#[derive(Debug)]
pub struct Done {
    number: u64,
    /// How long it took.
    spent: Duration,
    /// Why it could not be done.
    failure: Option<String>,
    /// What is printed for it.
    line: Vec<u8>,
}

/// What the broker hears of us in CONNECT.
fn terms(args: &SubArgs) -> Terms {
    let work = &args.work;
    // A broker that binds late sends little ahead whatever we say; one that does not should not fill us up.
    let receive_max = work
        .receive_max
        .unwrap_or((3 * work.concurrency).max(RECEIVE_MAX_LEAST));
    Terms {
        receive_max,
        concurrency: work.concurrency,
        acknowledges: args.qos() != QoS::AtMostOnce,
    }
}

/// Works until the count, the time or the user ends it.
pub fn run(args: &SubArgs, filters: &[String], out: &mut dyn Write) -> Result<(), Failure> {
    let mut link = Link::open(args, terms(args))?;
    tell_interrupts(&link)?;
    ask(&mut link, filters, args)?;
    let work = &args.work;
    let is_announced = link.reply().machine.offer().load_reports;
    let carrier = Carrier::choose(
        work.report,
        is_announced,
        args.qos(),
        args.connect.mqtt_version,
    )?;
    let rules = ReportRules {
        every: Some(work.report_every),
        concurrency: work.concurrency,
        ..ReportRules::default()
    };
    let mut foreman = Foreman {
        args,
        filters,
        out: BufWriter::new(out),
        hands: Hands::start(task(args), work.concurrency, &link.teller()),
        waiting: VecDeque::new(),
        owed: VecDeque::new(),
        released: HashSet::new(),
        began: Instant::now(),
        reporter: Reporter::new(rules, Duration::ZERO),
        carrier,
        taken: 0,
        done: 0,
        failed: 0,
        dropped: 0,
        is_granted: false,
        leaving: None,
    };
    let result = foreman.run(&mut link);
    foreman.out.flush()?;
    foreman.remarks();
    let goodbye = link.close();
    result.and(goodbye)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    Ping,
    Acknowledgement,
    Message,
    None,
}

impl Carrier {
    /// The best there is. A broker that has not said so is never sent what MQTT does not know. §3.12
    fn choose(
        wish: ReportBy,
        is_announced: bool,
        qos: QoS,
        version: Version,
    ) -> Result<Carrier, Failure> {
        let acknowledges = version.is_v5() && qos != QoS::AtMostOnce;
        Ok(match wish {
            ReportBy::Auto | ReportBy::Pingreq if is_announced => Carrier::Ping,
            ReportBy::Pingreq => {
                eprintln!(
                    "note: the broker does not announce that it takes reports in PINGREQ; there will be none"
                );
                Carrier::None
            }
            ReportBy::Auto | ReportBy::Ack if acknowledges => Carrier::Acknowledgement,
            ReportBy::Ack => {
                return Err(Failure::usage("--report ack needs MQTT 5 and QoS 1 or 2")
                    .mend("Acknowledgements carry it in a user property"));
            }
            ReportBy::Publish => Carrier::Message,
            ReportBy::Auto | ReportBy::Off => Carrier::None,
        })
    }
}

/// Why we take no more.
enum Leaving {
    /// All that was asked for is done, or the time is over.
    Content,
    /// The user wants it.
    Interrupted,
    /// A command has failed.
    Failed(Failure),
}

/// A message that came and is not acknowledged.
struct Owed {
    number: u64,
    id: u16,
    qos: QoS,
    outcome: Option<ReasonCode>,
}

struct Foreman<'a, 'o> {
    args: &'a SubArgs,
    filters: &'a [String],
    out: BufWriter<&'o mut dyn Write>,
    hands: Hands,
    waiting: VecDeque<Job>,
    owed: VecDeque<Owed>,
    /// QoS 2 identifiers whose PUBREC left and whose PUBREL has not come. [MQTT-4.3.3-10]
    released: HashSet<u16>,
    began: Instant,
    reporter: Reporter,
    carrier: Carrier,
    taken: u64,
    done: u64,
    failed: u64,
    dropped: u64,
    is_granted: bool,
    leaving: Option<Leaving>,
}

impl Foreman<'_, '_> {
    fn run(&mut self, link: &mut Link) -> Result<(), Failure> {
        let deadline = self.args.timeout.map(|timeout| self.began + timeout);
        while self.leaving.is_none() || self.hands.busy > 0 {
            self.report(link);
            let deadline = deadline.filter(|_| self.leaving.is_none());
            let until = [deadline, self.report_at()].into_iter().flatten().min();
            let step = link.step(until, &mut |event, reply| self.on(event, reply))?;
            match step {
                Step::Worked(done) => self.worked(done, &mut link.reply())?,
                Step::Interrupted => self.leave(Leaving::Interrupted),
                Step::TimedOut if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                    if !self.is_granted {
                        return Err(Failure::new(
                            "the broker did not answer the subscription in time",
                        ));
                    }
                    self.leave(Leaving::Content);
                }
                Step::TimedOut | Step::Moved => {}
            }
            self.hand_out();
        }
        self.verdict()
    }

    fn on(&mut self, event: ClientEvent<'_>, reply: &mut Reply<'_>) -> Result<(), Failure> {
        match event {
            ClientEvent::Publish(publish) => self.take(&publish, reply)?,
            ClientEvent::PubRel(release) => {
                self.released.remove(&release.id);
                reply
                    .machine
                    .pubcomp(release.id, ReasonCode::Success, reply.out);
            }
            ClientEvent::SubAck(ack) => {
                self.is_granted = true;
                judge(&ack, self.filters, self.args.qos())?;
            }
            _ => {}
        }
        Ok(())
    }

    fn take(&mut self, publish: &Publish<'_>, reply: &mut Reply<'_>) -> Result<(), Failure> {
        if publish.qos == QoS::ExactlyOnce && self.released.contains(&publish.id) {
            // Ours since the PUBREC, which it did not see.
            reply
                .machine
                .pubrec(publish.id, ReasonCode::Success, reply.out);
            return Ok(());
        }
        let is_enough = self.args.count.is_some_and(|count| self.taken >= count);
        if is_enough || self.leaving.is_some() {
            // Not acknowledged, so that another worker has it when we are gone.
            return Ok(());
        }
        if publish.qos == QoS::AtMostOnce && self.waiting.len() >= WAITING_MAX {
            self.dropped += 1;
            return Ok(());
        }
        let mut line = Vec::new();
        if self.args.work.exec.is_none() {
            self.args
                .format
                .write(&Arrival::new(publish, SystemTime::now()), &mut line)?;
        }
        let order = self.args.work.exec.is_some().then(|| Order::of(publish));
        self.waiting.push_back(Job {
            number: self.taken,
            line,
            order,
        });
        if publish.qos != QoS::AtMostOnce {
            self.owed.push_back(Owed {
                number: self.taken,
                id: publish.id,
                qos: publish.qos,
                outcome: None,
            });
        }
        self.taken += 1;
        self.reporter.received(self.began.elapsed());
        self.hand_out();
        Ok(())
    }

    /// Gives what waits to hands that are free.
    fn hand_out(&mut self) {
        while self.hands.is_free()
            && let Some(job) = self.waiting.pop_front()
        {
            self.reporter.started();
            self.hands.give(job);
        }
    }

    fn worked(&mut self, done: Done, reply: &mut Reply<'_>) -> Result<(), Failure> {
        self.hands.busy -= 1;
        self.done += 1;
        self.reporter.finished(1, done.spent);
        // Before the broker hears of it: what is acknowledged was printed.
        self.out.write_all(&done.line)?;
        self.out.flush()?;
        let mut outcome = Some(ReasonCode::Success);
        if let Some(words) = done.failure {
            self.failed += 1;
            eprintln!("note: message {}: {words}", done.number + 1);
            outcome = match self.args.work.on_failure {
                OnFailure::Discard => Some(ReasonCode::Unspecified),
                OnFailure::Stop => {
                    self.leave(Leaving::Failed(Failure::new(format!(
                        "message {}: {words}",
                        done.number + 1
                    ))));
                    None
                }
            };
        }
        if let Ok(at) = self
            .owed
            .binary_search_by_key(&done.number, |owed| owed.number)
            && let Some(owed) = self.owed.get_mut(at)
        {
            owed.outcome = outcome;
        }
        self.acknowledge(reply);
        if self.args.count.is_some_and(|count| self.done >= count) {
            self.leave(Leaving::Content);
        }
        Ok(())
    }

    /// Acknowledges what is done, in the order in which it came. [MQTT-4.6.0-2] [MQTT-4.6.0-3]
    fn acknowledge(&mut self, reply: &mut Reply<'_>) {
        while let Some(Owed {
            id,
            qos,
            outcome: Some(reason),
            ..
        }) = self.owed.front()
        {
            let packet = if *qos == QoS::ExactlyOnce {
                PacketType::PubRec
            } else {
                PacketType::PubAck
            };
            let now = self.began.elapsed();
            if self.carrier == Carrier::Acknowledgement && self.reporter.is_due(now) {
                let user = [(load::ACK_PROPERTY, self.reporter.report(now).brief().text())];
                let info = Info {
                    user: Some(&user),
                    ..Info::default()
                };
                reply
                    .machine
                    .ack_with(packet, *id, *reason, &info, reply.out);
            } else {
                reply
                    .machine
                    .ack_with(packet, *id, *reason, &Info::default(), reply.out);
            }
            if *qos == QoS::ExactlyOnce && !reason.is_error() {
                self.released.insert(*id);
            }
            self.owed.pop_front();
        }
    }

    fn report(&mut self, link: &mut Link) {
        let now = self.began.elapsed();
        if matches!(self.carrier, Carrier::Acknowledgement | Carrier::None)
            || !self.reporter.is_due(now)
        {
            return;
        }
        let report = Report {
            concurrency: Some(self.args.work.concurrency),
            ..self.reporter.report(now).full()
        };
        match self.carrier {
            Carrier::Ping => link.ping_with(&report),
            _ => {
                let payload = report.json(Spelling::Listing);
                let message = PublishOut {
                    topic: load::ADDRESS,
                    payload: &payload,
                    ..PublishOut::default()
                };
                let Reply { machine, out } = link.reply();
                // The next report will say it.
                let _ = machine.publish(&message, out);
            }
        }
    }

    /// When a report will be due if nothing happens.
    fn report_at(&self) -> Option<Instant> {
        match self.carrier {
            Carrier::Ping | Carrier::Message => self
                .reporter
                .poll_timeout(self.began.elapsed())
                .map(|at| self.began + at),
            Carrier::Acknowledgement | Carrier::None => None,
        }
    }

    /// Takes no more and gives back what nobody has begun with; what is in process is finished.
    fn leave(&mut self, why: Leaving) {
        for _ in self.waiting.drain(..) {
            self.reporter.given_up();
        }
        self.leaving.get_or_insert(why);
    }

    fn verdict(&mut self) -> Result<(), Failure> {
        let (done, failed) = (self.done, self.failed);
        match self.leaving.take() {
            Some(Leaving::Failed(failure)) => Err(failure.mend(
                "What was not acknowledged goes to others; --on-failure discard would go on",
            )),
            Some(Leaving::Interrupted) if self.args.count.is_some_and(|count| done < count) => {
                Err(interrupted())
            }
            _ if failed > 0 => Err(Failure::new(format!(
                "{failed} of {done} messages failed and were discarded"
            ))),
            _ => match self.args.count {
                Some(count) if done < count => Err(Failure::new(format!(
                    "{done} of {count} messages were processed in time"
                ))),
                _ => Ok(()),
            },
        }
    }

    fn remarks(&self) {
        if self.dropped > 0 {
            eprintln!(
                "note: {} messages of QoS 0 were dropped, because {WAITING_MAX} waited already; with -q 1 they wait at the broker",
                self.dropped
            );
        }
    }
}

/// A message on its way to a hand.
struct Job {
    number: u64,
    line: Vec<u8>,
    /// For the command, if there is one.
    order: Option<Order>,
}

/// What a command gets of a message.
struct Order {
    payload: Vec<u8>,
    environment: Vec<(&'static str, String)>,
}

impl Order {
    fn of(publish: &Publish<'_>) -> Order {
        let digit = |is: bool| u8::from(is).to_string();
        let mut environment = vec![
            ("THALWEG_TOPIC", publish.topic.as_str().to_owned()),
            ("THALWEG_QOS", (publish.qos as u8).to_string()),
            ("THALWEG_RETAINED", digit(publish.retain)),
            ("THALWEG_DUPLICATE", digit(publish.dup)),
        ];
        let texts = [
            ("THALWEG_CONTENT_TYPE", publish.properties.content_type()),
            (
                "THALWEG_RESPONSE_TOPIC",
                publish.properties.response_topic(),
            ),
        ];
        environment.extend(
            texts
                .into_iter()
                .filter_map(|(name, text)| Some((name, text?.to_owned()))),
        );
        Order {
            payload: publish.payload.to_vec(),
            environment,
        }
    }
}

/// What is done for a message.
#[derive(Clone, Debug)]
enum Task {
    /// Nothing: it is printed.
    Print,
    Wait(Duration),
    Run(String),
}

fn task(args: &SubArgs) -> Task {
    match (&args.work.exec, args.work.work_time) {
        (Some(command), _) => Task::Run(command.clone()),
        (None, Some(time)) => Task::Wait(time),
        (None, None) => Task::Print,
    }
}

/// Threads that do the work.
struct Hands {
    jobs: Sender<Job>,
    busy: usize,
    count: usize,
}

impl Hands {
    fn start(task: Task, count: u16, teller: &SyncSender<Happening>) -> Hands {
        let (jobs, given) = channel();
        let given = Arc::new(Mutex::new(given));
        for _ in 0..count {
            let (task, given, teller) = (task.clone(), given.clone(), teller.clone());
            thread::spawn(move || work(&task, &given, &teller));
        }
        Hands {
            jobs,
            busy: 0,
            count: usize::from(count),
        }
    }

    fn is_free(&self) -> bool {
        self.busy < self.count
    }

    fn give(&mut self, job: Job) {
        self.busy += 1;
        // Hands live as long as the link, and so as long as we give.
        let _ = self.jobs.send(job);
    }
}

fn work(task: &Task, given: &Mutex<Receiver<Job>>, teller: &SyncSender<Happening>) {
    loop {
        let job = match given.lock() {
            Ok(given) => given.recv(),
            Err(_) => return,
        };
        let Ok(Job {
            number,
            line,
            order,
        }) = job
        else {
            return;
        };
        let begin = Instant::now();
        let failure = match task {
            Task::Print => None,
            Task::Wait(time) => {
                thread::sleep(*time);
                None
            }
            Task::Run(command) => order.and_then(|order| run_command(command, &order).err()),
        };
        let done = Done {
            number,
            spent: begin.elapsed(),
            failure,
            line,
        };
        if teller.send(Happening::Worked(done)).is_err() {
            return;
        }
    }
}

/// Runs the command to its end. The error says why the message counts as not processed.
fn run_command(command: &str, order: &Order) -> Result<(), String> {
    let (shell, switch) = if cfg!(windows) {
        ("cmd", "/C")
    } else {
        ("sh", "-c")
    };
    let mut child = Command::new(shell)
        .args([switch, command])
        .envs(order.environment.iter().map(|(name, text)| (name, text)))
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("the command cannot be started: {error}"))?;
    // A command that does not read its input, or not all of it, is no failure; so what it does not take is dropped.
    let unread = child
        .stdin
        .take()
        .and_then(|mut input| input.write_all(&order.payload).err());
    let status = child
        .wait()
        .map_err(|error| format!("the command cannot be waited for: {error}"))?;
    match (status.success(), unread) {
        (true, Some(error)) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(format!(
            "the command could not be given the payload: {error}"
        )),
        (true, _) => Ok(()),
        (false, _) => Err(format!("the command failed: {status}")),
    }
}

/// Most messages of QoS 0 that wait here.
const WAITING_MAX: usize = 10_000;
/// Enough for the way to the broker and back while a message is in process.
const RECEIVE_MAX_LEAST: u16 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_broker_that_announced_it_gets_reports_in_pings() {
        let choose = |wish, is_announced, qos, version| {
            Carrier::choose(wish, is_announced, qos, version).ok()
        };
        let (zero, one) = (QoS::AtMostOnce, QoS::AtLeastOnce);
        let table = [
            (ReportBy::Auto, true, zero, Version::V5, Some(Carrier::Ping)),
            (ReportBy::Auto, true, one, Version::V5, Some(Carrier::Ping)),
            (
                ReportBy::Auto,
                false,
                one,
                Version::V5,
                Some(Carrier::Acknowledgement),
            ),
            (
                ReportBy::Auto,
                false,
                zero,
                Version::V5,
                Some(Carrier::None),
            ),
            (
                ReportBy::Auto,
                false,
                one,
                Version::V311,
                Some(Carrier::None),
            ),
            (
                ReportBy::Pingreq,
                false,
                one,
                Version::V5,
                Some(Carrier::None),
            ),
            (
                ReportBy::Ack,
                true,
                one,
                Version::V5,
                Some(Carrier::Acknowledgement),
            ),
            (ReportBy::Ack, true, zero, Version::V5, None),
            (ReportBy::Ack, false, one, Version::V311, None),
            (
                ReportBy::Publish,
                false,
                zero,
                Version::V31,
                Some(Carrier::Message),
            ),
            (ReportBy::Off, true, one, Version::V5, Some(Carrier::None)),
        ];
        for (wish, is_announced, qos, version, carrier) in table {
            assert_eq!(
                choose(wish, is_announced, qos, version),
                carrier,
                "{wish:?} {is_announced} {qos:?} {version}"
            );
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_command_gets_payload_and_topic_and_its_exit_code_counts() {
        let order = |payload: &[u8]| Order {
            payload: payload.to_vec(),
            environment: vec![("THALWEG_TOPIC", "a b/$HOME".to_owned())],
        };
        let check = r#"test "$(cat)" = "it's" && test "$THALWEG_TOPIC" = 'a b/$HOME'"#;
        assert_eq!(run_command(check, &order(b"it's")), Ok(()));
        let words = run_command(check, &order(b"other")).expect_err("the payload differs");
        assert!(words.contains("exit status: 1"), "{words}");
        // More than a pipe holds, and nobody reads it.
        assert_eq!(run_command("true", &order(&vec![b'x'; 1_000_000])), Ok(()));
    }
}
