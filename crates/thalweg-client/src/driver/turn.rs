//! The loop of a client's thread.

#[cfg(feature = "multicast")]
mod groups;
mod notices;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::Token;
use thalweg_model::{Reliability, Time};

use super::farewell::Farewell;
use super::handle::{Shared, span_of};
use super::inbox::{Command, Inbox};
use super::lane_socket::{LaneSocket, Means, READ_BYTES};
use super::reply::Reply;
use super::resolve::Resolved;
use super::security::Security;
use crate::adaptive::Explanation;
use crate::client::{ClientError, Lane, PeerCounts, Status};
use crate::engine::{Action, DeliveryToken, Draft, Engine, Full, LaneState, Success, Wish};
use crate::events::EventQueue;
use crate::lanes_of;
use crate::message::Message;
use crate::plugin::PluginSettings;
use crate::subscription::Mailbox;
use crate::ticket::lock;
use crate::transport::{Endpoint, Medium, MessageId, Refusal, RequestId, SubscriptionId};

/// The bell's place among what the poll watches; lanes have their numbers, farewells count down from it.
pub(super) const BELL: Token = Token(usize::MAX);

/// Most rounds of lanes and engine before the inbox is looked at again.
const ROUNDS_MAX: usize = 16;

/// Bytes of drafts that are given to the engine before it sends: so that what was copied is still near when it is sent.
const DRAFT_BYTES_PER_TURN: usize = 256 << 10;

/// Failures whose words are remembered, and how many of them the status shows.
const FAILURES_KEPT: usize = 1024;
const FAILURES_SHOWN: usize = 64;

pub(super) struct Driver {
    shared: Arc<Shared>,
    poll: mio::Poll,
    engine: Engine,
    security: Security,
    dscp: Option<u8>,
    plugins: PluginSettings,
    lines: Vec<LaneSocket>,
    /// Those whose connections brokers have accepted, as far as the engine has told.
    up: HashSet<usize>,
    farewells: Vec<(Token, Farewell)>,
    next_farewell: usize,
    /// Drafts that the engine has not taken, from `backlog_at` on, and how many they are.
    backlog: Vec<u8>,
    backlog_at: usize,
    backlog_messages: usize,
    /// The engine has no room: the backlog waits.
    is_full: bool,
    /// Ways of the engine, by number of destination less one.
    ways: Vec<u32>,
    subscriptions: HashMap<SubscriptionId, Entry>,
    questions: HashMap<RequestId, Reply<Result<Option<Message>, Refusal>>>,
    next_question: u64,
    flushes: Vec<Flush>,
    closing: Option<Closing>,
    taken: Vec<DeliveryToken>,
    commands: Vec<Command>,
    scratch: Vec<u8>,
    /// Error of the disk in the last notification.
    trouble: String,
    #[cfg(feature = "multicast")]
    groups: groups::Groups,
    /// Of a peer. It ends after the sockets above.
    hub: Option<PeerHub>,
}

struct Entry {
    mailbox: Arc<Mailbox>,
    /// As it was asked for.
    filter: String,
    /// The handle that waits for the broker's answer.
    reply: Option<Reply<Result<Reliability, Refusal>>>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.mailbox.end(None);
    }
}

/// Keeps the hub of a peer alive, and counts its connections.
pub(crate) type PeerHub = Box<dyn Fn() -> PeerCounts + Send>;

/// Somebody waits until all that was given before has its outcome.
struct Flush {
    /// The last of these messages.
    through: MessageId,
    /// Number of them without an outcome.
    outstanding: usize,
    until: Time,
    reply: Reply<Result<(), ClientError>>,
}

struct Closing {
    until: Time,
    reply: Vec<Reply<Result<(), ClientError>>>,
    /// The engine has said goodbye.
    is_said: bool,
    outcome: Result<(), ClientError>,
}

/// Main function of the client's thread.
pub(super) fn run(driver: Driver, shared: Arc<Shared>) {
    // However this thread ends, no handle keeps waiting.
    let _last_words = LastWords(shared.clone());
    // Sockets, buffer and the lock of its folder are free when this returns: a handle that is notified of the end may
    // reuse them.
    let Some(closing) = driver.run() else { return };
    shared.tickets.end();
    for reply in closing.reply {
        reply.send(closing.outcome.clone());
    }
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        poll: mio::Poll,
        engine: Engine,
        security: Security,
        dscp: Option<u8>,
        plugins: PluginSettings,
        hub: Option<PeerHub>,
    ) -> Driver {
        Driver {
            lines: (0..engine.lanes()).map(LaneSocket::new).collect(),
            up: HashSet::new(),
            shared,
            poll,
            engine,
            security,
            dscp,
            plugins,
            farewells: Vec::new(),
            next_farewell: BELL.0 - 1,
            backlog: Vec::new(),
            backlog_at: 0,
            backlog_messages: 0,
            is_full: false,
            ways: Vec::new(),
            subscriptions: HashMap::new(),
            questions: HashMap::new(),
            next_question: 1,
            flushes: Vec::new(),
            closing: None,
            taken: Vec::new(),
            commands: Vec::new(),
            scratch: vec![0; READ_BYTES],
            trouble: String::new(),
            #[cfg(feature = "multicast")]
            groups: groups::Groups::default(),
            hub,
        }
    }

    /// Runs until the client is closed; returns the handles to notify, once all resources are released.
    fn run(mut self) -> Option<Closing> {
        let mut events = mio::Events::with_capacity(64);
        loop {
            let now = self.shared.clock.now();
            self.take_inbox(now);
            if self.engine.poll_timeout() <= now {
                self.engine.handle_timeout(now);
            }
            let is_busy = self.work(now);
            self.look_after_flushes(now);
            self.watch_buffer();
            if self.look_after_closing(now) {
                break;
            }
            if !self.sleep(&mut events, is_busy) {
                break;
            }
        }
        lock(&self.shared.inbox).is_closed = true;
        self.closing.take()
    }

    /// Takes what handles have put in.
    fn take_inbox(&mut self, now: Time) {
        let shared = self.shared.clone();
        let (resolved, room) = {
            let mut inbox = lock(&shared.inbox);
            // Two pieces of memory take turns: nothing is copied under the lock.
            if self.backlog_at >= self.backlog.len() {
                self.backlog.clear();
                self.backlog_at = 0;
                self.backlog_messages = std::mem::take(&mut inbox.messages);
                std::mem::swap(&mut self.backlog, &mut inbox.drafts);
            }
            std::mem::swap(&mut self.commands, &mut inbox.commands);
            std::mem::swap(&mut self.taken, &mut inbox.taken);
            let room = self.tell_room(&mut inbox);
            (std::mem::take(&mut inbox.resolved), room)
        };
        room.into_iter().for_each(std::task::Waker::wake);
        for Resolved { lane, outcome } in resolved {
            let Driver {
                lines,
                engine,
                poll,
                security,
                dscp,
                scratch,
                ..
            } = self;
            if let Some(line) = lines.get_mut(lane) {
                line.resolved(
                    outcome,
                    engine,
                    &Means {
                        registry: poll.registry(),
                        security,
                        dscp: *dscp,
                        scratch,
                    },
                    now,
                );
            }
        }
        let mut taken = std::mem::take(&mut self.taken);
        for token in taken.drain(..) {
            #[cfg(feature = "multicast")]
            self.taken_of_group(token);
            self.engine.settle(token, now);
        }
        self.taken = taken;
        // Commands run in order, but before messages: a handle that subscribes and then publishes receives its own
        // message. Closes and flushes count the messages given before them.
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain(..) {
            self.obey(command, now);
        }
        self.commands = commands;
        self.give_drafts(now);
        self.engine.turn(now);
    }

    /// Tells handles how full the buffer is; returns whom to wake, because there is room.
    fn tell_room(&self, inbox: &mut Inbox) -> Vec<std::task::Waker> {
        let (load, limits) = (self.engine.load(), self.shared.limits);
        inbox.behind_messages = load.messages + self.backlog_messages;
        inbox.behind_bytes = load.bytes + (self.backlog.len() - self.backlog_at);
        let has_room = inbox.messages + inbox.behind_messages < limits.messages_max
            && inbox.drafts.len() + inbox.behind_bytes < limits.bytes_max;
        if has_room {
            std::mem::take(&mut inbox.room_wakers)
        } else {
            Vec::new()
        }
    }

    /// Gives the engine what it has room for.
    fn give_drafts(&mut self, now: Time) {
        let end = self.backlog_at + DRAFT_BYTES_PER_TURN;
        while !self.is_full && self.backlog_at < end {
            let Some((mut draft, rest)) =
                self.backlog.get(self.backlog_at..).and_then(Draft::decode)
            else {
                break;
            };
            let mut failed = None;
            if let Some(at) = draft.way.checked_sub(1) {
                draft.way = self.ways.get(at as usize).copied().unwrap_or(0);
            }
            match self.engine.publish(&draft, now) {
                Err(Full::Buffer) => {
                    self.is_full = true;
                    break;
                }
                Ok(()) => {
                    let is_kept = draft.reliability != Reliability::AtMostOnce && draft.way == 0;
                    if !is_kept && self.shared.limits.has_disk {
                        self.shared.stored.never(draft.id, || {});
                        self.shared.stored.wake();
                    }
                }
                Err(Full::TooLarge) => {
                    failed = Some((
                        draft.id,
                        "it is larger than there can ever be room for".into(),
                    ))
                }
                Err(Full::Spool(fault)) => failed = Some((draft.id, fault.to_string())),
            }
            self.backlog_messages = self.backlog_messages.saturating_sub(1);
            self.backlog_at = self.backlog.len() - rest.len();
            if let Some((id, why)) = failed {
                self.note_failure(id, why.clone());
                self.settle(id, Success::Failed, Some(why));
            }
        }
    }

    fn obey(&mut self, command: Command, now: Time) {
        match command {
            Command::Open(url) => {
                let transports = lanes_of(url.scheme.protocol())
                    .map_or_else(Vec::new, |lanes| lanes(&url, &self.plugins));
                let way = self.engine.add_way(transports, now);
                self.ways.push(way);
                while self.lines.len() < self.engine.lanes() {
                    self.lines.push(LaneSocket::new(self.lines.len()));
                }
            }
            Command::Subscribe {
                id,
                filter,
                options,
                mailbox,
                reply,
            } => {
                self.subscriptions.insert(
                    id,
                    Entry {
                        mailbox,
                        filter: filter.clone(),
                        reply: Some(reply),
                    },
                );
                let wish = Wish {
                    subscription: id,
                    way: 0,
                    filter: &filter,
                    reliability: options.reliability,
                    last_values: options.last_values,
                    keeps_all: options.keeps_all,
                    settle_by_hand: options.settle_by_hand,
                };
                self.engine.subscribe(&wish, now);
            }
            #[cfg(feature = "multicast")]
            Command::SubscribeByGroup(by) => self.subscribe_by_group(*by, now),
            Command::Unsubscribe(id) => {
                #[cfg(feature = "multicast")]
                self.leave_group(id, now);
                if self.subscriptions.remove(&id).is_some() {
                    self.engine.unsubscribe(id, now);
                }
            }
            Command::Request {
                draft,
                timeout,
                reply,
            } => {
                if let Some((draft, _)) = Draft::decode(&draft) {
                    let question = self.ask(reply);
                    self.engine
                        .request(question, &draft, now + span_of(timeout), now);
                }
            }
            Command::Read {
                address,
                timeout,
                reply,
            } => {
                let question = self.ask(reply);
                self.engine
                    .read(question, 0, &address, now + span_of(timeout), now);
            }
            Command::Flush { timeout, reply } => {
                // Earlier settlements are reported first, so that they are not counted twice.
                self.tell_all(now);
                let inbox = lock(&self.shared.inbox);
                let through = inbox.next_id.saturating_sub(1);
                let outstanding =
                    self.engine.load().messages + self.backlog_messages + inbox.messages;
                drop(inbox);
                self.flushes.push(Flush {
                    through,
                    outstanding,
                    until: now + span_of(timeout),
                    reply,
                });
            }
            Command::Close { timeout, reply } => {
                lock(&self.shared.inbox).is_closed = true;
                let until = now + span_of(timeout);
                match &mut self.closing {
                    Some(closing) => {
                        closing.until = closing.until.min(until);
                        closing.reply.extend(reply);
                    }
                    none => {
                        let reply = reply.into_iter().collect();
                        *none = Some(Closing {
                            until,
                            reply,
                            is_said: false,
                            outcome: Ok(()),
                        });
                    }
                }
            }
            Command::Status(answer_to) => {
                // The handle may have been dropped.
                let _ = answer_to.send(self.status());
            }
            Command::Explain(answer_to) => {
                let _ = answer_to.send(self.explain(now));
            }
        }
    }

    fn ask(&mut self, reply: Reply<Result<Option<Message>, Refusal>>) -> RequestId {
        let question = RequestId(self.next_question);
        self.next_question += 1;
        self.questions.insert(question, reply);
        question
    }

    /// Lets engine and lanes do what they can; `true` if more could be done at once.
    fn work(&mut self, now: Time) -> bool {
        for _ in 0..ROUNDS_MAX {
            let mut moved = false;
            while let Some(action) = self.engine.poll_action() {
                moved = true;
                self.act(action, now);
            }
            self.tell_all(now);
            #[cfg(feature = "multicast")]
            {
                moved |= self.work_on_groups(now);
            }
            let Driver {
                lines,
                engine,
                poll,
                security,
                dscp,
                scratch,
                ..
            } = self;
            let mut means = Means {
                registry: poll.registry(),
                security,
                dscp: *dscp,
                scratch,
            };
            for line in lines.iter_mut() {
                moved |= line.work(engine, &mut means, now);
            }
            if !self.is_full && self.backlog_at < self.backlog.len() {
                self.give_drafts(now);
                self.engine.turn(now);
                moved = true;
            }
            if !moved {
                self.farewells.retain_mut(|(_, farewell)| {
                    let is_over = farewell.work(&mut self.scratch, now);
                    if is_over {
                        farewell.socket.deregister(self.poll.registry());
                    }
                    !is_over
                });
                return false;
            }
        }
        true
    }

    fn act(&mut self, action: Action, now: Time) {
        let Driver {
            lines,
            engine,
            poll,
            security,
            dscp,
            scratch,
            shared,
            ..
        } = self;
        let means = Means {
            registry: poll.registry(),
            security,
            dscp: *dscp,
            scratch,
        };
        match action {
            Action::Connect(lane) => {
                if let Some(line) = lines.get_mut(lane) {
                    line.connect(engine, shared, &means, now);
                }
            }
            Action::Disconnect(lane) => {
                let farewell = lines
                    .get_mut(lane)
                    .and_then(|line| line.disconnect(engine, &means, now));
                if let Some(mut farewell) = farewell {
                    // Known to the poll by another name now, so that the lane's next socket is not taken for it.
                    farewell.socket.deregister(poll.registry());
                    let token = Token(self.next_farewell);
                    self.next_farewell -= 1;
                    if farewell.socket.register(poll.registry(), token).is_ok() {
                        self.farewells.push((token, farewell));
                    }
                }
            }
        }
    }

    fn tell_all(&mut self, now: Time) {
        while let Some(notice) = self.engine.poll_notice() {
            #[cfg(feature = "multicast")]
            let Some(notice) = self.tell_groups(notice, now) else {
                continue;
            };
            self.tell(notice, now);
        }
    }

    /// Answers who waits for outcomes.
    fn look_after_flushes(&mut self, now: Time) {
        if self.flushes.is_empty() {
            return;
        }
        let mut waiting = Vec::new();
        for flush in std::mem::take(&mut self.flushes) {
            if flush.outstanding == 0 {
                flush.reply.send(Ok(()));
            } else if flush.until <= now {
                flush.reply.send(Err(ClientError::TimedOut));
            } else {
                waiting.push(flush);
            }
        }
        self.flushes = waiting;
    }

    /// Whether every message that was given has its outcome.
    fn is_idle(&self) -> bool {
        self.engine.load().messages == 0
            && self.backlog_at >= self.backlog.len()
            && lock(&self.shared.inbox).messages == 0
    }

    /// Ends the client in steps; `true` when it is over.
    fn look_after_closing(&mut self, now: Time) -> bool {
        let is_idle = self.closing.is_some() && self.is_idle();
        let Some(closing) = &mut self.closing else {
            return false;
        };
        let is_said = closing.is_said;
        if !is_said && (is_idle || closing.until <= now) {
            closing.is_said = true;
            if !is_idle {
                closing.outcome = Err(ClientError::TimedOut);
            }
            self.engine.close(now);
            // Reports known outcomes, then disconnects; the farewells send the rest.
            self.work(now);
            self.subscriptions.clear();
            self.questions.clear();
            #[cfg(feature = "multicast")]
            self.leave_groups();
        }
        is_said && self.farewells.is_empty()
    }

    /// Waits until something is to be done; `false` if the system does not let us.
    fn sleep(&mut self, events: &mut mio::Events, is_busy: bool) -> bool {
        let now = self.shared.clock.now();
        let mut wake_at = self.engine.poll_timeout();
        for line in &self.lines {
            wake_at = wake_at.min(line.poll_timeout(&self.engine, now));
        }
        for (_, farewell) in &self.farewells {
            wake_at = wake_at.min(farewell.until);
        }
        for flush in &self.flushes {
            wake_at = wake_at.min(flush.until);
        }
        #[cfg(feature = "multicast")]
        {
            wake_at = wake_at.min(self.groups.timeout());
        }
        match &self.closing {
            Some(closing) if !closing.is_said => wake_at = wake_at.min(closing.until),
            // All goodbyes left at once: it is over, and nothing else would wake us.
            Some(_) if self.farewells.is_empty() => wake_at = now,
            _ => {}
        }
        let shared = &self.shared;
        let may_sleep = !is_busy && wake_at > now;
        let timeout = match may_sleep {
            false => Some(Duration::ZERO),
            true => {
                // First said, then looked: see `Shared::ring`.
                shared.is_asleep.store(true, Ordering::SeqCst);
                let mut inbox = lock(&shared.inbox);
                // Settlements of this turn have freed space.
                let room = self.tell_room(&mut inbox);
                let is_empty = (inbox.messages == 0 || self.backlog_at < self.backlog.len())
                    && inbox.commands.is_empty()
                    && inbox.taken.is_empty()
                    && inbox.resolved.is_empty();
                drop(inbox);
                room.into_iter().for_each(std::task::Waker::wake);
                match (is_empty, wake_at) {
                    (false, _) => Some(Duration::ZERO),
                    (true, Time::NEVER) => None,
                    (true, wake_at) => Some(Duration::from_nanos(wake_at.since(now).nanos())),
                }
            }
        };
        let polled = self.poll.poll(events, timeout);
        shared.is_asleep.store(false, Ordering::SeqCst);
        if let Err(error) = polled
            && error.kind() != std::io::ErrorKind::Interrupted
        {
            return false;
        }
        for event in events.iter() {
            if let Some(line) = self.lines.get_mut(event.token().0) {
                // An error or the peer's end is found by reading.
                let is_readable = event.is_readable() || event.is_error() || event.is_read_closed();
                line.wake(
                    is_readable,
                    event.is_writable() || event.is_error(),
                    event.is_read_closed(),
                );
                continue;
            }
            #[cfg(feature = "multicast")]
            self.wake_group(event.token());
        }
        true
    }

    fn status(&self) -> Status {
        let lane = |at: usize| {
            let status = self.engine.lane_status(at)?;
            let line = self.lines.get(at)?;
            Some(Lane {
                protocol: status.protocol,
                place: place(status.endpoint),
                state: status.state,
                publishes: status.publishes,
                subscriptions: status.subscriptions,
                session_present: line.session_present,
                under_way: status.under_way,
                connections: status.connections,
                trouble: status.words.to_owned(),
                bytes_sent: line.bytes_sent,
                bytes_received: line.bytes_received,
                network: line.reading,
            })
        };
        Status {
            lanes: (0..self.engine.lanes()).filter_map(lane).collect(),
            load: self.engine.load(),
            counts: self.engine.counts(),
            buffer: self.engine.spool_status(),
            failures: {
                let failures = lock(&self.shared.failures);
                failures
                    .iter()
                    .skip(failures.len().saturating_sub(FAILURES_SHOWN))
                    .cloned()
                    .collect()
            },
            peers: self.hub.as_ref().map(|count| count()).unwrap_or_default(),
            #[cfg(feature = "multicast")]
            groups: self.groups.status(),
            #[cfg(not(feature = "multicast"))]
            groups: Vec::new(),
        }
    }

    fn explain(&self, now: Time) -> Explanation {
        let mut explanation = self.engine.explain(now).unwrap_or_else(|| {
            let protocol = self
                .engine
                .lane_status(0)
                .map_or("", |status| status.protocol);
            Explanation {
                words: format!("{protocol}: there is no other way.\n"),
                ..Explanation::default()
            }
        });
        // Name the brokers that were not reached: that may be the reason.
        for status in (0..self.engine.lanes()).filter_map(|lane| self.engine.lane_status(lane)) {
            if status.state != LaneState::Up && !status.words.is_empty() {
                let (protocol, place, words) =
                    (status.protocol, place(status.endpoint), status.words);
                explanation
                    .words
                    .push_str(&format!("{protocol} at {place} is not reached: {words}.\n"));
            }
        }
        explanation
    }
}

fn place(endpoint: &Endpoint) -> String {
    match &endpoint.medium {
        Medium::Unix(path) => path.display().to_string(),
        _ if endpoint.host.contains(':') => format!("[{}]:{}", endpoint.host, endpoint.port),
        _ => format!("{}:{}", endpoint.host, endpoint.port),
    }
}

/// Notifies the handles however the thread ends.
struct LastWords(Arc<Shared>);

impl Drop for LastWords {
    fn drop(&mut self) {
        let (commands, wakers) = {
            let mut inbox = lock(&self.0.inbox);
            (inbox.is_closed, inbox.is_over) = (true, true);
            (
                std::mem::take(&mut inbox.commands),
                std::mem::take(&mut inbox.room_wakers),
            )
        };
        // Their replies and mailboxes say it.
        for command in commands {
            if let Command::Subscribe { mailbox, .. } = command {
                mailbox.end(None);
            }
        }
        self.0.tickets.end();
        self.0.events.iter().for_each(EventQueue::end);
        self.0.stored.wake();
        wakers.into_iter().for_each(std::task::Waker::wake);
    }
}
