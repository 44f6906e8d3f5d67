//! Runs a course: network, broker, two clients, steps of loss.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use thalweg_client::{
    Calibration, Client, ClientError, LaneState, Objective, Options, Reliability, Span, Status,
    SubscribeOptions, Success, Ticket, Via, blocking,
};

use super::plan::{Course, Goal, topic};
use super::trial::{Message, Sample, Trial};
use crate::brokers::{self, Running};
use crate::cell::{Link, Protocol};
use crate::load::{SECOND, clock};
use crate::net::Network;
use crate::net::network::name_of_ours;
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
    let link = Link {
        loss: 0.0,
        ..course.cell.link
    };
    let name = name_of_ours(&course.number.to_string());
    let network = Network::up(&name, &link, course.cell.seed)?;
    let mut cell = course.cell.clone();
    // Whatever its clients choose, it speaks both.
    (cell.publish, cell.subscribe) = (studies::plan::mqtt(1), studies::plan::coap(true));
    cell.broker_settings = [("shards".to_owned(), "1".to_owned())].into();
    let broker = brokers::start(&cell, Some(network.broker()))?;
    network.client().within(|| {
        let publisher = client(course, &broker, "pub").map_err(words)?;
        let subscriber = client(course, &broker, "sub").map_err(words)?;
        let subscription = subscribe(course, &subscriber)?;
        thread::sleep(SETTLE);
        let stage = Stage {
            network: &network,
            course,
            publisher,
            subscriber,
            begun: clock::now(),
            trial: Mutex::new(Trial {
                step: course.step().as_nanos() as u64,
                version: broker.version.clone(),
                messages: messages(course),
                ..Trial::default()
            }),
            stop,
        };
        stage.play(subscription)
    })
}

/// All that is to be published, and has not been yet.
fn messages(course: &Course<'_>) -> Vec<Message> {
    let message = |sequence| Message {
        flow: course.flow(sequence),
        intended: course.intended(sequence).as_nanos() as u64,
        ..Message::default()
    };
    (0..course.messages()).map(message).collect()
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

/// Two clients at work, and what they and the one who looks write down.
struct Stage<'a> {
    network: &'a Network,
    course: &'a Course<'a>,
    publisher: Client,
    subscriber: Client,
    begun: u64,
    trial: Mutex<Trial>,
    stop: &'a AtomicBool,
}

impl Stage<'_> {
    fn play(self, subscription: blocking::Subscription) -> io::Result<Trial> {
        let is_over = AtomicBool::new(false);
        let (stage, is_over) = (&self, &is_over);
        let ended = thread::scope(|scope| {
            let panicked = |_| io::Error::other("a client of the course panicked");
            let receiving = scope.spawn(move || stage.receive(subscription, is_over));
            let publishing = scope.spawn(move || stage.publish());
            let watched = stage.watch();
            let tickets = publishing.join().map_err(panicked)?;
            stage.drain(&tickets);
            is_over.store(true, Ordering::Relaxed);
            for (message, ticket) in stage.trial().messages.iter_mut().zip(&tickets) {
                let outcome = ticket.map(|ticket| stage.publisher.is_publish_success(ticket));
                message.outcome = match outcome {
                    None => "refused",
                    Some(Success::Pending) => "pending",
                    Some(Success::Acknowledged) => "acknowledged",
                    Some(Success::Failed) => "failed",
                    Some(Success::Unknown) => "unknown",
                };
            }
            watched?;
            receiving.join().map_err(panicked)
        })?;
        self.explain();
        if let Some(why) = ended {
            self.tell("trouble", &why);
        }
        for client in [&self.publisher, &self.subscriber] {
            let status = client.status().unwrap_or_default();
            self.tell("counts", &format!("{:?}", status.counts));
            for lane in status.lanes {
                self.tell("lane", &format!("{lane:?}"));
            }
        }
        let trial = self.trial.into_inner();
        let mut trial = trial.unwrap_or_else(PoisonError::into_inner);
        if self.stop.load(Ordering::Relaxed) {
            trial.trouble = "interrupted".to_owned();
        }
        Ok(trial)
    }

    fn trial(&self) -> MutexGuard<'_, Trial> {
        self.trial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since(&self) -> u64 {
        clock::now() - self.begun
    }

    fn tell(&self, what: &str, words: &str) {
        let event = (self.since(), format!("{what}: {words}"));
        self.trial().events.push(event);
    }

    fn publish(&self) -> Vec<Option<Ticket>> {
        let options = Options {
            reliability: Reliability::AtLeastOnce,
            ..Options::default()
        };
        let size = group::payload(self.course.cell).map_or(0, |bytes| bytes as usize);
        let mut tickets = Vec::new();
        for sequence in 0..self.course.messages() {
            let due = self.course.intended(sequence).as_nanos() as u64;
            clock::wait(self.begun + due, self.stop);
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let status = self.publisher.status().unwrap_or_default();
            let by = status.lanes.iter().find(|lane| lane.publishes);
            let topic = topic(self.course.flow(sequence));
            let payload = payload(sequence, size);
            let published = self
                .publisher
                .publish_message(&payload, "", &topic, &options);
            let now = self.since();
            if let (Ok(_), Some(message)) = (&published, self.trial().messages.get_mut(sequence)) {
                message.sent = Some(now);
                message.published_over =
                    by.map_or_else(String::new, |lane| lane.protocol.to_owned());
            }
            tickets.push(published.ok());
        }
        tickets
    }

    /// Takes messages until told to stop. Returns why the subscription has ended, if it did by itself.
    fn receive(
        &self,
        mut subscription: blocking::Subscription,
        stop: &AtomicBool,
    ) -> Option<String> {
        while !stop.load(Ordering::Relaxed) {
            match subscription.next_timeout(LOOK_UP) {
                Ok(Some(message)) => self.received(message.payload()),
                Ok(None) => {
                    let unsaid = || "the subscription has ended".to_owned();
                    return Some(subscription.ended().unwrap_or_else(unsaid));
                }
                // Nothing came for a moment.
                Err(_) => {}
            }
        }
        None
    }

    /// A payload came. What is none of ours is left alone: a test of this would see a message missing.
    fn received(&self, payload: &[u8]) {
        let (now, mut trial) = (self.since(), self.trial());
        let Trial {
            messages,
            received,
            listens_by,
            ..
        } = &mut *trial;
        let sequence = payload.first_chunk().map(|head| u32::from_be_bytes(*head));
        let message = sequence.and_then(|sequence| messages.get_mut(sequence as usize));
        let Some(message) = message else { return };
        message.copies += 1;
        if message.copies == 1 {
            message.received = Some(now);
            message.rank = Some(*received);
            listens_by.clone_into(&mut message.received_over);
            *received += 1;
        }
    }

    /// Waits for what is still under way, on a link that loses nothing any more.
    fn drain(&self, tickets: &[Option<Ticket>]) {
        let end = clock::now() + DRAIN;
        let is_pending =
            |ticket: &Ticket| self.publisher.is_publish_success(*ticket) == Success::Pending;
        while clock::now() < end && !self.stop.load(Ordering::Relaxed) {
            let has_all = self.trial().received >= self.course.messages() as u64;
            if has_all && !tickets.iter().flatten().any(is_pending) {
                // A repetition that comes late is to be seen.
                thread::sleep(SETTLE);
                return;
            }
            thread::sleep(LOOK_UP);
        }
    }

    /// Looks at everything each second, changes the loss when its step is over.
    fn watch(&self) -> io::Result<()> {
        let step = self.course.step().as_nanos() as u64;
        let mut end = 0;
        for loss in &self.course.args.losses {
            let from = end;
            end += step;
            self.wait_for(from);
            self.sample(true)?;
            self.network.set_loss(*loss)?;
            let mut at = from + SECOND;
            while at + SECOND / 2 < end && !self.stop.load(Ordering::Relaxed) {
                self.wait_for(at);
                self.sample(false)?;
                at += SECOND;
            }
            self.wait_for(end.saturating_sub(SECOND / 4));
            self.explain();
        }
        self.wait_for(end);
        self.sample(true)
    }

    fn wait_for(&self, at: u64) {
        clock::wait(self.begun + at, self.stop);
    }

    /// Counting packets takes a program of its own, so that is done at the borders of steps only.
    fn sample(&self, with_tallies: bool) -> io::Result<()> {
        let wire = self.network.reading()?.sum();
        let at = self.since();
        let before = self.trial().samples.last().cloned().unwrap_or_default();
        let counted = match with_tallies {
            true => self.network.lost()?,
            false => None,
        };
        let publisher = self.publisher.status().unwrap_or_default();
        let listens_by = subscribes_by(&self.subscriber.status().unwrap_or_default());
        let listened_by = std::mem::replace(&mut self.trial().listens_by, listens_by.clone());
        // What moved between two looks and stayed counts; a subscriber has no counter of its own for that.
        let moved = listens_by != listened_by && !listens_by.is_empty() && !listened_by.is_empty();
        let switches = (
            publisher.counts.switches,
            before.switches.1 + u64::from(moved),
        );
        if switches != before.switches {
            self.explain();
        }
        self.trial().samples.push(Sample {
            at,
            wire,
            link: counted.unwrap_or(before.link),
            switches,
        });
        Ok(())
    }

    fn explain(&self) {
        if self.course.goal().is_none() {
            return;
        }
        for (what, client) in [
            ("explain-publisher", &self.publisher),
            ("explain-subscriber", &self.subscriber),
        ] {
            let words = client.explain();
            let words = words.map_or_else(|error| error.to_string(), |words| words.to_string());
            self.tell(what, &words);
        }
    }
}

/// A payload: the sequence, then letters.
fn payload(sequence: usize, size: usize) -> Vec<u8> {
    let mut payload = (sequence as u32).to_be_bytes().to_vec();
    payload.extend((4..size).map(|at| b'a' + (at % 26) as u8));
    payload
}

/// The protocol that most subscriptions of a client are on.
fn subscribes_by(status: &Status) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let up = status.lanes.iter();
    for lane in up.filter(|lane| lane.state == LaneState::Up) {
        *counts.entry(lane.protocol).or_default() += lane.subscriptions;
    }
    counts.retain(|_, count| *count > 0);
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map_or_else(String::new, |(name, _)| name.to_owned())
}

fn words(error: ClientError) -> io::Error {
    io::Error::other(format!("the client: {error}"))
}

/// For all subscriptions, on a link that loses nothing yet.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
/// Between being subscribed and the first message, and after the last.
const SETTLE: Duration = Duration::from_secs(2);
/// The most that is waited for messages after the last step; CoAP gives an exchange up after 93 s.
const DRAIN: u64 = 100 * SECOND;
const LOOK_UP: Duration = Duration::from_millis(20);
