//! The thread of a group: reads its session, sends datagrams, answers those who have missed some.

use super::MulticastCounts;
use super::outlet::Outlet;
use crate::clock;
use crate::config::Multicast;
use crate::connector::Streams;
use crate::observer::Observer;
use crate::protocols::own::{self, Incoming, OwnSession};
use crate::threads::{self, OnFailure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg_kernel::{Draft, DropReason};
use thalweg_model::{Reliability, RetainOp, Span, Time};
use thalweg_multicast::{
    Description, KEY_BYTES, RepairRequest, Sender, SenderSettings, address, repair_address,
};

/// A running group. Dropping it ends its thread.
pub(super) struct Speaker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What ends the thread.
#[derive(Default)]
struct Shared {
    is_stopping: AtomicBool,
    stream: Mutex<Option<UnixStream>>,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    fn set_stream(&self, stream: Option<UnixStream>) -> Option<UnixStream> {
        let mut held = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, stream)
    }
}

impl Speaker {
    pub(super) fn start(
        config: Multicast,
        outlet: Outlet,
        counts: Arc<MulticastCounts>,
        streams: Streams,
        observer: Observer,
        on_failure: &OnFailure,
    ) -> io::Result<Speaker> {
        let shared = Arc::<Shared>::default();
        let group = Group {
            config,
            outlet,
            counts,
            observer,
            shared: shared.clone(),
        };
        let thread = threads::spawn("multicast", on_failure, move || group.run(&streams))?;
        Ok(Speaker {
            shared,
            thread: Some(thread),
        })
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        if let Some(stream) = self.shared.set_stream(None) {
            // It may be gone already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Group {
    config: Multicast,
    outlet: Outlet,
    counts: Arc<MulticastCounts>,
    observer: Observer,
    shared: Arc<Shared>,
}

/// A message at the repair address.
struct Question {
    request: Option<RepairRequest>,
    reply_to: Option<String>,
    correlation: Option<Vec<u8>>,
}

impl Group {
    fn run(&self, streams: &Streams) {
        let name = &self.config.name;
        // What was told of the last failure: the same is told once.
        let mut told = String::new();
        while !self.shared.is_stopping() {
            let front = |nonce| own::front(nonce, OWN_PACKET_BYTES_MAX);
            let listener = format!("multicast {name}");
            let opened = streams
                .open_as(&listener, Some(&self.config.user), front)
                .and_then(|stream| {
                    stream.set_nonblocking(true)?;
                    self.shared.set_stream(Some(stream.try_clone()?));
                    Ok(stream)
                });
            let why = match opened {
                Ok(_) if self.shared.is_stopping() => return,
                Ok(stream) => self.serve(stream, &mut told),
                Err(error) => error.to_string(),
            };
            if self.shared.is_stopping() {
                return;
            }
            // What follows is of another epoch, so receivers know that they have missed something.
            if why != told {
                tracing::warn!(
                    group = name,
                    why,
                    "nothing is sent to a multicast group, retrying"
                );
                told = why;
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    /// One session, which has a key of its own; why it ended. Once it speaks, what was `told` of failures is past.
    fn serve(&self, mut stream: UnixStream, told: &mut String) -> String {
        let config = &self.config;
        let mut key = [0; KEY_BYTES];
        crate::random::fill(&mut key);
        let settings = SenderSettings {
            epoch: crate::random::u64(),
            key,
            datagram_bytes_max: config.datagram_bytes_max,
            history_bytes_max: config.history_bytes_max,
            history_age_max: config.history_age_max,
            heartbeat: config.heartbeat,
        };
        let mut sender = Sender::new(&settings, clock::now());
        let mut filters: Vec<String> = config.filters.iter().map(ToString::to_string).collect();
        let repair = repair_address(&config.name);
        filters.push(repair.clone());
        let mut session = OwnSession::new(filters, config.packet_bytes_max as u32);
        let mut budget = Budget::new(config.rate_max);
        let mut buffer = vec![0; READ_BYTES];
        let mut written = 0;
        let unsent = Arc::<AtomicU64>::default();
        let mut is_speaking = false;
        let mut is_failing = false;
        loop {
            match stream.write(&session.out[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return error.to_string(),
            }
            if written == session.out.len() {
                session.out.clear();
                written = 0;
            }
            let due = if is_speaking {
                sender.poll_timeout()
            } else {
                Time::NEVER
            };
            wait(&stream, !session.out.is_empty(), due.since(clock::now()));
            if self.shared.is_stopping() {
                return String::new();
            }
            let count = match stream.read(&mut buffer) {
                Ok(0) => return "its session was ended".into(),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return error.to_string(),
            };
            let now = clock::now();
            let (mut questions, mut granted) = (Vec::new(), None);
            let input = buffer.get(..count).unwrap_or_default();
            let taken = session.on_input(input, &mut |incoming| match incoming {
                Incoming::Subscribed(outcomes) => granted = Some(outcomes),
                Incoming::Message(message) if message.address == repair => {
                    questions.push(Question {
                        request: RepairRequest::from_json(message.payload).ok(),
                        reply_to: message.reply_to.map(Into::into),
                        correlation: message.correlation.map(Into::into),
                    });
                }
                Incoming::Message(message) => {
                    MulticastCounts::add(&self.counts.messages, 1);
                    sender.push(message.packet, now);
                }
            });
            if let Err(why) = taken {
                return why;
            }
            if let Some(granted) = granted {
                if let Err(why) = self.describe(&settings, &granted) {
                    return why;
                }
                is_speaking = true;
                told.clear();
            }
            if is_speaking {
                sender.flush(now);
                if sender.poll_timeout() <= now {
                    sender.set_unsent_messages(unsent.load(Ordering::Relaxed));
                    self.ask_for_unsent(&session.client, &unsent);
                }
                sender.on_timer(now);
                self.transmit(&mut sender, &mut budget, &mut is_failing);
            }
            for question in questions {
                self.answer(&question, &mut sender, &mut session);
            }
        }
    }

    /// Tells receivers where the group is and its key, which is what only they may know who may read all that is sent.
    fn describe(&self, settings: &SenderSettings, granted: &[bool]) -> Result<(), String> {
        let config = &self.config;
        let filters = config.filters.iter().zip(granted);
        let (allowed, denied): (Vec<_>, Vec<_>) = filters.partition(|(_, is_granted)| **is_granted);
        let names = |filters: &[(&thalweg_model::Filter, &bool)]| -> Vec<String> {
            filters.iter().map(|(it, _)| it.to_string()).collect()
        };
        let allowed = names(&allowed);
        if !denied.is_empty() {
            tracing::warn!(
                group = config.name,
                user = config.user,
                filters = names(&denied).join(", "),
                "not sent to a multicast group: access rules do not let its user subscribe"
            );
        }
        if allowed.is_empty() {
            return Err(format!(
                "access rules let the user '{}' subscribe to none of its filters",
                config.user
            ));
        }
        if granted.last() == Some(&false) {
            tracing::warn!(
                group = config.name,
                user = config.user,
                "lost datagrams cannot be asked for: access rules do not let the user of the multicast group \
                 subscribe to its repair topic"
            );
        }
        tracing::info!(
            group = config.name,
            address = %self.outlet.group(),
            interfaces = config.interfaces.join(", "),
            filters = allowed.join(", "),
            "sending to a multicast group"
        );
        let description = Description {
            group: self.outlet.group(),
            epoch: settings.epoch,
            key: settings.key,
            filters: allowed,
            repair: repair_address(&config.name),
            heartbeat: config.heartbeat,
            packet_bytes_max: config.packet_bytes_max as u32,
        };
        let (address, json) = (address(&config.name), description.to_json());
        self.observer.on_first_shard(move |inside| {
            let draft = Draft {
                retain: RetainOp::Set,
                ..Draft::new(&address, json.as_bytes(), Reliability::AtLeastOnce)
            };
            inside.kernel.publish_own(draft, inside.now, inside.links);
        });
        Ok(())
    }

    /// Has the session's count of what never came here written down, for the next heartbeat.
    fn ask_for_unsent(&self, client: &str, unsent: &Arc<AtomicU64>) {
        let (name, unsent) = (client.to_owned(), unsent.clone());
        self.observer.on_home_of(client, move |inside| {
            if let Some(view) = inside.kernel.session_view(&name) {
                let denied = view.account.dropped[DropReason::AccessDenied as usize];
                let count = view.account.dropped_total() - denied;
                unsent.store(count, Ordering::Relaxed);
            }
        });
    }

    /// Sends what is ready, no faster than it may be. Meanwhile nothing is read, so what comes waits in the broker.
    fn transmit(&self, sender: &mut Sender, budget: &mut Budget, is_failing: &mut bool) {
        while let Some(datagram) = sender.poll_transmit() {
            budget.wait(datagram.len(), &self.shared);
            for (interface, sent) in self.outlet.send(datagram) {
                match sent {
                    Ok(()) => {
                        MulticastCounts::add(&self.counts.datagrams, 1);
                        MulticastCounts::add(&self.counts.bytes, datagram.len());
                    }
                    Err(error) => {
                        MulticastCounts::add(&self.counts.unsent, 1);
                        if !std::mem::replace(is_failing, true) {
                            let group = &self.config.name;
                            tracing::warn!(group, interface, %error, "a datagram could not be sent; further ones are counted");
                        }
                    }
                }
            }
        }
    }

    fn answer(&self, question: &Question, sender: &mut Sender, session: &mut OwnSession) {
        let counts = &self.counts;
        let (Some(request), Some(reply_to)) = (&question.request, &question.reply_to) else {
            return MulticastCounts::add(&counts.refused, 1);
        };
        // A receiver that asks for too much waits for an answer in vain, and asks again.
        if session.out.len() > ANSWERS_BYTES_MAX {
            return MulticastCounts::add(&counts.refused, 1);
        }
        let mut answer = Vec::new();
        let repaired = sender.repair(request, ANSWER_BYTES_MAX, clock::now(), &mut answer);
        match session.answer(reply_to, question.correlation.as_deref(), &answer) {
            true => {
                MulticastCounts::add(&counts.repairs, 1);
                MulticastCounts::add(&counts.repaired, repaired);
            }
            false => MulticastCounts::add(&counts.refused, 1),
        }
    }
}

/// Waits until the stream has something or takes something, or for so long.
fn wait(stream: &UnixStream, has_output: bool, span: Span) {
    let mut flags = PollFlags::IN;
    if has_output {
        flags |= PollFlags::OUT;
    }
    let span = Duration::from_nanos(span.nanos().min(LOOK_AFTER.nanos()));
    // It fits: the span is bounded.
    let timeout = Timespec::try_from(span).ok();
    // An interrupted wait is a short one.
    let _ = poll(&mut [PollFd::new(stream, flags)], timeout.as_ref());
}

/// Bytes per second, of which a few may leave at once.
struct Budget {
    rate: Option<u64>,
    /// When everything that was sent has been paid for.
    paid_at: Time,
}

impl Budget {
    fn new(rate: Option<u64>) -> Budget {
        Budget {
            rate,
            paid_at: Time::ZERO,
        }
    }

    /// When so many bytes may be sent; they count as sent then.
    fn take(&mut self, bytes: usize, now: Time) -> Time {
        let Some(rate) = self.rate else {
            return now;
        };
        let nanos = (bytes as u64).saturating_mul(1_000_000_000) / rate.max(1);
        let start = self.paid_at.max(now - AT_ONCE);
        self.paid_at = start + Span::from_nanos(nanos);
        start.max(now)
    }

    fn wait(&mut self, bytes: usize, shared: &Shared) {
        let at = self.take(bytes, clock::now());
        loop {
            let left = Duration::from_nanos(at.since(clock::now()).nanos());
            if left.is_zero() || shared.is_stopping() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }
}

/// What packets of the session itself may have: answers.
const OWN_PACKET_BYTES_MAX: usize = 1 << 20;
/// Bytes of one answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Bytes of answers that the broker has not taken, beyond which there are no more.
const ANSWERS_BYTES_MAX: usize = 1 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Time before a session is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest wait for the stream.
const LOOK_AFTER: Span = Span::from_secs(60);
/// So much of the rate may leave without a pause: a receiver's buffer has room for it.
const AT_ONCE: Span = Span::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Time {
        Time::from_secs(1000) + Span::from_millis(millis)
    }

    #[test]
    fn a_rate_spreads_datagrams_and_forgives_no_more_than_a_little_silence() {
        let mut budget = Budget::new(Some(1_000_000));
        // A millisecond each; five may leave at once, and the one after them.
        let times: Vec<Time> = (0..8).map(|_| budget.take(1000, ms(0))).collect();
        let expected = [0, 0, 0, 0, 0, 0, 1, 2].map(ms);
        assert_eq!(times, expected);
        let times: Vec<Time> = (0..8).map(|_| budget.take(1000, ms(5000))).collect();
        let expected = [0, 0, 0, 0, 0, 0, 1, 2].map(|at| ms(5000 + at));
        assert_eq!(times, expected);
        assert_eq!(Budget::new(None).take(usize::MAX, ms(1)), ms(1));
    }
}
