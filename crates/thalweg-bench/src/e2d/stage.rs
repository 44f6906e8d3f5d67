//! Runs a course: network, broker, two clients, steps of loss.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_client::{
    Calibration, Client, ClientError, Objective, Options, Reliability, Span, SubscribeOptions,
    Success, Ticket, Via, blocking,
};

use super::plan::{Course, Goal, topic};
use super::tally::{Tally, payload, publishes_by, receive, subscribes_by};
use super::trial::{Event, Sample, Trial};
use crate::brokers::{self, Running};
use crate::cell::Protocol;
use crate::net::network::name_of_ours;
use crate::net::{Loss, Network, Plan};
use crate::studies::{self, group};

/// Runs a course to its end, or to where it was stopped. What went wrong is in the trial.
pub fn run(course: &Course<'_>, stop: &AtomicBool) -> Trial {
    attempt(course, stop).unwrap_or_else(|error| Trial {
        trouble: error.to_string(),
        ..Trial::default()
    })
}

fn attempt(course: &Course<'_>, stop: &AtomicBool) -> io::Result<Trial> {
    // Where there is a delay there is an emulator, which draws from the seed; else the kernel loses packets.
    let plan = Plan {
        loss: Loss::NONE,
        ..Plan::of(&course.cell.link, course.cell.seed)
    };
    let network = Network::up(&name_of_ours(&course.number.to_string()), &plan)?;
    let mut cell = course.cell.clone();
    // Whatever its clients choose, it speaks both.
    (cell.publish, cell.subscribe) = (studies::plan::mqtt(1), studies::plan::coap(true));
    cell.broker_settings = [("shards".to_owned(), "1".to_owned())].into();
    let broker = brokers::start(&cell, Some(network.broker()))?;
    network
        .client()
        .within(|| play(course, &network, &broker, stop))
}

/// Everything that happens in the clients' namespace.
fn play(
    course: &Course<'_>,
    network: &Network,
    broker: &Running,
    stop: &AtomicBool,
) -> io::Result<Trial> {
    let publisher = client(course, broker, "pub").map_err(words)?;
    let subscriber = if course.args.one_client {
        publisher.clone()
    } else {
        client(course, broker, "sub").map_err(words)?
    };
    let subscription = subscribe(course, &subscriber)?;
    thread::sleep(SETTLE);

    let begun = Instant::now();
    let tally = Tally::new(course, begun);
    let mut log = Log {
        network,
        course,
        publisher: &publisher,
        subscriber: &subscriber,
        begun,
        tally: &tally,
        trial: Trial {
            step: course.step(),
            version: broker.version(),
            ..Trial::default()
        },
        listens_by: String::new(),
    };
    let is_over = AtomicBool::new(false);
    let ended = thread::scope(|scope| -> io::Result<Option<String>> {
        let receiving = scope.spawn(|| receive(subscription, &tally, &is_over));
        let publishing = scope.spawn(|| publish(course, &publisher, &tally, begun, stop));
        let watched = log.watch(stop);
        let tickets = publishing
            .join()
            .map_err(|_| io::Error::other("the publisher panicked"))?;
        drain(course, &publisher, &tally, &tickets, stop);
        is_over.store(true, Ordering::Relaxed);
        for (sequence, ticket) in tickets.iter().enumerate() {
            let outcome = ticket.as_ref().map_or("refused", |ticket| {
                word(publisher.is_publish_success(*ticket))
            });
            tally.outcome(sequence, outcome);
        }
        watched?;
        receiving
            .join()
            .map_err(|_| io::Error::other("the subscriber panicked"))
    })?;
    log.explain();
    let mut trial = log.trial;
    trial.messages = tally.take();
    let at = begun.elapsed();
    trial.events.extend(ended.into_iter().map(|words| Event {
        at,
        what: "trouble".to_owned(),
        words,
    }));
    for client in [&publisher, &subscriber] {
        let status = client.status().unwrap_or_default();
        let words = format!("{:?}", status.counts);
        trial.events.push(Event {
            at,
            what: "counts".to_owned(),
            words,
        });
        for lane in status.lanes {
            trial.events.push(Event {
                at,
                what: "lane".to_owned(),
                words: format!("{lane:?}"),
            });
        }
    }
    if stop.load(Ordering::Relaxed) {
        trial.trouble = "interrupted".to_owned();
    }
    Ok(trial)
}

fn client(course: &Course<'_>, broker: &Running, role: &str) -> Result<Client, ClientError> {
    let at = |scheme: &str, protocol: Protocol| {
        let address = broker.address(protocol);
        address.map_or_else(String::new, |address| format!("{scheme}://{address}"))
    };
    let (mqtt, coap) = (at("mqtt", Protocol::Mqtt), at("coap", Protocol::Coap));
    let builder = Client::builder()
        .client_id(format!("e2-{role}"))
        .seed(course.cell.seed);
    let Some(goal) = course.goal() else {
        let (name, address) = match course.cell.publish.protocol {
            Protocol::Coap => ("coap", coap),
            _ => ("mqtt", mqtt),
        };
        let via = Via::Protocol(name.to_owned());
        return builder.via(via).broker(&address)?.connect();
    };
    let objective = match goal {
        Goal::Latency => Objective::Latency,
        Goal::Bytes => Objective::Bytes,
    };
    // What our broker does here, where a client assumes RFC 7252's defaults.
    let calibration = Calibration::built_in().with_notifications(Span::from_millis(100), 64);
    builder
        .via(Via::Auto)
        .objective(objective)
        .calibration(calibration)
        .broker(&mqtt)?
        .broker(&coap)?
        .connect()
}

fn subscribe(course: &Course<'_>, client: &Client) -> io::Result<blocking::Subscription> {
    let options = SubscribeOptions {
        reliability: Reliability::AtLeastOnce,
        last_values: false,
        // Each topic has so few messages that states are not skipped; else a broker without insistent notifications could
        // not be reached over CoAP at all.
        keeps_all: false,
        settle_by_hand: false,
    };
    let topics: Vec<String> = (0..course.args.topics).map(topic).collect();
    let filters: Vec<&str> = topics.iter().map(String::as_str).collect();
    blocking::Client::from(client.clone())
        .subscribe_all(&filters, options, ANSWERED_WITHIN)
        .map_err(words)
}

fn publish(
    course: &Course<'_>,
    client: &Client,
    tally: &Tally,
    begun: Instant,
    stop: &AtomicBool,
) -> Vec<Option<Ticket>> {
    let options = Options {
        reliability: Reliability::AtLeastOnce,
        ..Options::default()
    };
    let size = group::payload(course.cell).map_or(0, |bytes| bytes as usize);
    let mut tickets = Vec::new();
    for sequence in 0..course.messages() {
        let due = begun + course.intended(sequence);
        while let Some(left) = due
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            if stop.load(Ordering::Relaxed) {
                return tickets;
            }
            thread::sleep(left.min(LOOK_UP));
        }
        let protocol = publishes_by(client);
        let message = payload(sequence, size);
        let ticket = client
            .publish_message(&message, "", &topic(course.flow(sequence)), &options)
            .ok();
        if ticket.is_some() {
            tally.sent(sequence, &protocol);
        }
        tickets.push(ticket);
    }
    tickets
}

/// Waits for what is still under way, on a link that loses nothing any more.
fn drain(
    course: &Course<'_>,
    client: &Client,
    tally: &Tally,
    tickets: &[Option<Ticket>],
    stop: &AtomicBool,
) {
    let end = Instant::now() + DRAIN;
    let is_pending = |ticket: &Option<Ticket>| {
        ticket.is_some_and(|ticket| client.is_publish_success(ticket) == Success::Pending)
    };
    let wanted = course.messages() as u64;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        if tally.count() >= wanted && !tickets.iter().any(is_pending) {
            // A repetition that comes late is to be seen.
            thread::sleep(SETTLE);
            return;
        }
        thread::sleep(LOOK_UP);
    }
}

/// Looks at everything each second, changes the loss when its step is over.
struct Log<'a> {
    network: &'a Network,
    course: &'a Course<'a>,
    publisher: &'a Client,
    subscriber: &'a Client,
    begun: Instant,
    tally: &'a Tally,
    trial: Trial,
    /// The protocol that most of the subscriber's subscriptions were last seen on.
    listens_by: String,
}

impl Log<'_> {
    fn watch(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let (steps, step) = (&self.course.args.losses, self.course.step());
        for (number, loss) in steps.iter().enumerate() {
            let from = step * number as u32;
            self.wait_for(from, stop);
            self.sample(true)?;
            self.network.set_loss(*loss)?;
            let mut at = from + SAMPLES;
            while at + SAMPLES / 2 < from + step && !stop.load(Ordering::Relaxed) {
                self.wait_for(at, stop);
                self.sample(false)?;
                at += SAMPLES;
            }
            self.wait_for((from + step).saturating_sub(SAMPLES / 4), stop);
            self.explain();
        }
        self.wait_for(step * steps.len() as u32, stop);
        self.sample(true)?;
        Ok(())
    }

    fn wait_for(&self, at: Duration, stop: &AtomicBool) {
        while let Some(left) = at
            .checked_sub(self.begun.elapsed())
            .filter(|left| !left.is_zero())
        {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(left.min(LOOK_UP));
        }
    }

    /// Counting packets takes a program of its own, so that is done at the borders of steps only.
    fn sample(&mut self, with_tallies: bool) -> io::Result<()> {
        let wire = self.network.reading()?.sum();
        let at = self.begun.elapsed();
        let before = self.trial.samples.last().cloned().unwrap_or_default();
        let counted = match with_tallies {
            true => self.network.lost()?,
            false => None,
        };
        let (lost, came) = counted.unwrap_or((before.lost, before.came));
        let (publisher, subscriber) = (
            self.publisher.status().unwrap_or_default(),
            self.subscriber.status().unwrap_or_default(),
        );
        let listens_by = subscribes_by(&subscriber);
        // What moved between two looks and stayed counts; a subscriber has no counter of its own for that.
        let moved = ![&listens_by, &self.listens_by].contains(&&String::new())
            && listens_by != self.listens_by;
        let switches = (
            publisher.counts.switches,
            before.switches.1 + u64::from(moved),
        );
        self.tally.listens_by(&listens_by);
        self.listens_by = listens_by;
        if switches.0 != before.switches.0 || moved {
            self.explain();
        }
        self.trial.samples.push(Sample {
            at,
            bytes: wire.bytes,
            frames: wire.frames,
            came,
            lost,
            switches,
        });
        Ok(())
    }

    fn explain(&mut self) {
        if self.course.goal().is_none() {
            return;
        }
        let at = self.begun.elapsed();
        for (what, client) in [
            ("explain-publisher", self.publisher),
            ("explain-subscriber", self.subscriber),
        ] {
            let words = client.explain().map_or_else(
                |error| error.to_string(),
                |explanation| explanation.to_string(),
            );
            self.trial.events.push(Event {
                at,
                what: what.to_owned(),
                words,
            });
        }
    }
}

fn word(success: Success) -> &'static str {
    match success {
        Success::Pending => "pending",
        Success::Acknowledged => "acknowledged",
        Success::Failed => "failed",
        Success::Unknown => "unknown",
    }
}

fn words(error: ClientError) -> io::Error {
    io::Error::other(format!("the client: {error}"))
}

/// For all subscriptions, on a link that loses nothing yet.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
/// Between being subscribed and the first message, and after the last.
const SETTLE: Duration = Duration::from_secs(2);
/// The most that is waited for messages after the last step; CoAP gives an exchange up after 93 s.
const DRAIN: Duration = Duration::from_secs(100);
const SAMPLES: Duration = Duration::from_secs(1);
const LOOK_UP: Duration = Duration::from_millis(20);
