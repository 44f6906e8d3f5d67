//! The common API: `publishMessage`, `isPublishSuccess`, and a subscription; MQTT, CoAP, AMQP, STOMP and XMPP alike.

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use futures_core::Stream;
use thalweg_client::{
    BatchSettings, Client, ClientBuilder, ClientError, GroupCounts, Lane, Options, Reliability,
    Retain, Status, SubscribeOptions, Subscription, Success, ThrottleSettings, Ticket, TlsFiles,
    Via, blocking,
};

use super::{Fault, Job, Publisher, Received, Subscriber};
use crate::cell::{ALARM_CLASS, Carrier, Leg, MULTICAST_GROUP, Protocol, word};
use crate::load::{Gave, clock};

/// Publishers: one client or several, that share the flows.
pub struct Publishing {
    clients: Vec<Client>,
    topics: Vec<String>,
    options: Options,
    window: Option<u32>,
    /// Of each flow, messages without an outcome.
    under_way: Vec<u32>,
    /// Tickets without an outcome, oldest first, with the client and the flow.
    open: VecDeque<(Ticket, u32, u32)>,
    not_acknowledged: u64,
    /// When all of `open` was looked at last.
    looked: u64,
}

impl Publishing {
    pub fn connect(job: &Job) -> Result<Publishing, Fault> {
        let (leg, at) = (&job.publish, job.publish_at);
        let client = |number| client_of_flows(job, number, leg, at, "p", number);
        let clients = (0..job.connections).map(client);
        let lifespan = job.extras.lifespan_ms;
        let clients = clients.collect::<Result<Vec<Client>, Fault>>()?;
        Ok(Publishing {
            clients,
            topics: (0..job.flows).map(|flow| job.publish_topic(flow)).collect(),
            options: Options {
                reliability: reliability(&job.publish),
                lifespan: (lifespan > 0).then(|| Duration::from_millis(lifespan.into())),
                ..Options::default()
            },
            window: (job.publish.qos > 0).then_some(job.publish.window.max(1)),
            under_way: vec![0; job.flows as usize],
            open: VecDeque::new(),
            not_acknowledged: 0,
            looked: 0,
        })
    }

    /// Looks at the oldest first: most acknowledgements come in order. Now and then at all.
    fn look(&mut self, through: &mut dyn FnMut(u32)) -> bool {
        let before = self.open.len();
        let now = clock::now();
        let Publishing {
            clients,
            open,
            under_way,
            not_acknowledged,
            looked,
            ..
        } = self;
        let mut settle = |(ticket, client, flow): (Ticket, u32, u32)| {
            let Some(client) = clients.get(client as usize) else {
                return true;
            };
            match client.is_publish_success(ticket) {
                Success::Pending => return false,
                Success::Acknowledged => {}
                Success::Failed | Success::Unknown => *not_acknowledged += 1,
            }
            if let Some(count) = under_way.get_mut(flow as usize) {
                *count = count.saturating_sub(1);
            }
            through(flow);
            true
        };
        while open.front().is_some_and(|first| settle(*first)) {
            open.pop_front();
        }
        if now >= *looked + LOOK_EVERY {
            *looked = now;
            open.retain(|one| !settle(*one));
        }
        open.len() < before
    }

    /// Waits until one of the oldest has an outcome.
    fn wait(&self, until: u64) {
        let (parked, waker) = Parked::new();
        let mut context = Context::from_waker(&waker);
        let mut outcomes: Vec<Pin<Box<dyn Future<Output = Success> + '_>>> = Vec::new();
        for (ticket, client, _) in self.open.iter().take(WAIT_FOR) {
            if let Some(client) = self.clients.get(*client as usize) {
                outcomes.push(Box::pin(client.outcome(*ticket)));
            }
        }
        let mut is_ready = |outcome: &mut Pin<Box<dyn Future<Output = Success> + '_>>| {
            outcome.as_mut().poll(&mut context).is_ready()
        };
        while !outcomes.iter_mut().any(&mut is_ready) && parked.park(until) {}
    }
}

impl Publisher for Publishing {
    fn publish(&mut self, flow: u32, payload: &[u8]) -> Result<Gave, Fault> {
        let Some(topic) = self.topics.get(flow as usize) else {
            return Ok(Gave::Taken);
        };
        let mut under_way = self.under_way.get_mut(flow as usize);
        if let (Some(window), Some(count)) = (self.window, &under_way)
            && **count >= window
        {
            return Ok(Gave::Full);
        }
        let number = flow % self.clients.len().max(1) as u32;
        let Some(client) = self.clients.get(number as usize) else {
            return Ok(Gave::Taken);
        };
        let ticket = match client.publish_message(payload, "", topic, &self.options) {
            Ok(ticket) => ticket,
            Err(ClientError::Full) => return Ok(Gave::Full),
            Err(error) => return Err(format!("publishing: {error}")),
        };
        if let (Some(_), Some(count)) = (self.window, &mut under_way) {
            **count += 1;
            self.open.push_back((ticket, number, flow));
        }
        Ok(Gave::Taken)
    }

    fn turn(
        &mut self,
        until: u64,
        listens: bool,
        through: &mut dyn FnMut(u32),
    ) -> Result<(), Fault> {
        if self.look(through) && listens || until <= clock::now() {
            return Ok(());
        }
        match (listens, self.open.is_empty()) {
            (true, false) => self.wait(until.min(clock::now() + LOOK_EVERY)),
            // The client's buffer is full, or nothing is under way: no event will wake this thread.
            (true, true) => clock::sleep_until(until.min(clock::now() + ROOM_EVERY)),
            // Nothing waits for acknowledgements here: forty trials abreast that looked each millisecond took half a
            // core.
            (false, _) => clock::sleep_until(until),
        }
        self.look(through);
        Ok(())
    }

    fn unsettled(&self) -> u64 {
        match self.window {
            Some(_) => self.open.len() as u64,
            None => summed(&self.clients)(|status| status.load.messages as u64) as u64,
        }
    }

    fn unacknowledged(&self) -> u64 {
        self.open.len() as u64 + self.not_acknowledged
    }

    fn counts(&self) -> Vec<(&'static str, f64)> {
        let sum = summed(&self.clients);
        vec![
            ("connections_publish", self.clients.len() as f64),
            ("publish_repeated", sum(|status| status.counts.repeated)),
            ("publish_failed", sum(|status| status.counts.failed)),
            (
                "publish_bytes_sent",
                sum(|it| of_lanes(it, |lane| lane.bytes_sent)),
            ),
            ("reconnects_publish", sum(reconnects)),
        ]
    }
}

/// A sum of something that the clients' statuses say.
fn summed(clients: &[Client]) -> impl Fn(fn(&Status) -> u64) -> f64 {
    let statuses: Vec<Status> = clients.iter().filter_map(|it| it.status().ok()).collect();
    move |of| statuses.iter().map(of).sum::<u64>() as f64
}

/// Subscribers: one client or several for each copy.
pub struct Subscribing {
    subscriptions: Vec<(u32, Subscription)>,
    clients: Vec<Client>,
    parked: Arc<Parked>,
    waker: Waker,
    /// The waker belongs to this thread.
    thread: thread::ThreadId,
}

impl Subscribing {
    pub fn connect(job: &Job) -> Result<Subscribing, Fault> {
        let options = SubscribeOptions {
            reliability: reliability(&job.subscribe),
            last_values: false,
            // Over Observe, only our broker keeps what was not taken in time (and only confirmable).
            keeps_all: job.subscribe.protocol != Protocol::Coap
                || job.keeps_all && job.subscribe.qos > 0,
            settle_by_hand: false,
        };
        if job.writes_first {
            write_first(job)?;
        }
        let (mut subscriptions, mut clients) = (Vec::new(), Vec::new());
        // A filter with a wildcard gets everything over one connection.
        let connections = if job.extras.wildcard {
            1
        } else {
            job.connections
        };
        for copy in 0..job.copies {
            for number in 0..connections {
                let name = copy * connections + number;
                let client =
                    client_of_flows(job, number, &job.subscribe, job.subscribe_at, "s", name)?;
                let topics = job.filters((0..job.flows).filter(|it| it % connections == number));
                // A message of a group comes once, to any of them.
                let copy = if job.extras.shared { 0 } else { copy };
                let at_once = job.multicast.map_or(FILTERS_AT_ONCE, |_| 1);
                let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
                for filters in topics.chunks(at_once) {
                    let (group, options) = (MULTICAST_GROUP, options.clone());
                    let subscription = match filters {
                        [filter] if job.multicast.is_some() => {
                            confirmed(client.subscribe_by_multicast(group, filter, options))
                        }
                        _ => confirmed(client.subscribe_all(filters, options)),
                    };
                    subscriptions.push((copy, subscription?));
                }
                clients.push(client);
            }
        }
        let (parked, waker) = Parked::new();
        let subscribing = Subscribing {
            subscriptions,
            clients,
            parked,
            waker,
            thread: thread::current().id(),
        };
        subscribing.objection().map_or(Ok(subscribing), Err)
    }

    fn statuses(&self) -> impl Iterator<Item = Status> {
        self.clients.iter().filter_map(|it| it.status().ok())
    }
}

fn confirmed(
    subscribed: impl Future<Output = Result<Subscription, ClientError>>,
) -> Result<Subscription, Fault> {
    within(ANSWERED_WITHIN, subscribed)
        .ok_or_else(|| "the subscriptions were not confirmed".to_owned())?
        .map_err(|error| format!("subscribing: {error}"))
}

impl Subscriber for Subscribing {
    fn receive(&mut self, until: u64, hear: &mut dyn FnMut(Received<'_>)) -> Result<(), Fault> {
        if self.thread != thread::current().id() {
            (self.parked, self.waker) = Parked::new();
            self.thread = thread::current().id();
        }
        loop {
            let mut context = Context::from_waker(&self.waker);
            let mut came = false;
            for (copy, subscription) in &mut self.subscriptions {
                for _ in 0..AT_ONCE {
                    match pin!(&mut *subscription).poll_next(&mut context) {
                        Poll::Pending => break,
                        Poll::Ready(None) => {
                            let why = subscription.ended();
                            let why = why.as_deref().unwrap_or("the client was closed");
                            return Err(format!("the subscription has ended: {why}"));
                        }
                        Poll::Ready(Some(message)) => {
                            came = true;
                            let (copy, at) = (*copy, clock::now());
                            let (topic, payload) = (message.topic(), message.payload());
                            hear(Received {
                                copy,
                                topic,
                                payload,
                                at,
                            });
                        }
                    }
                }
            }
            if came || !self.parked.park(until) {
                return Ok(());
            }
        }
    }

    fn overflow(&self) -> u64 {
        let dropped = |status: Status| {
            let of_groups = status.groups.iter().map(|group| group.counts.dropped);
            status.counts.receive_dropped + of_groups.sum::<u64>()
        };
        self.statuses().map(dropped).sum()
    }

    fn objection(&self) -> Option<Fault> {
        let mut groups = self.statuses().flat_map(|status| status.groups);
        let group = groups.find(|group| !group.is_heard)?;
        Some(format!("not received by multicast: {}", group.why_not))
    }

    fn counts(&self) -> Vec<(&'static str, f64)> {
        let sum = summed(&self.clients);
        let mut counts = vec![
            ("connections_subscribe", self.clients.len() as f64),
            // What the client has left out because it was marked as a repetition.
            (
                "receive_duplicates_in_client",
                sum(|it| it.counts.duplicates),
            ),
            (
                "subscribe_bytes_received",
                sum(|it| of_lanes(it, |lane| lane.bytes_received)),
            ),
            ("reconnects_subscribe", sum(reconnects)),
        ];
        if self.statuses().any(|status| !status.groups.is_empty()) {
            counts.extend([
                (
                    "multicast_requests",
                    sum(|it| of_groups(it, |of| of.requests)),
                ),
                ("multicast_lost", sum(|it| of_groups(it, |of| of.lost))),
                ("multicast_unsent", sum(|it| of_groups(it, |of| of.unsent))),
            ]);
        }
        counts
    }
}

fn of_groups(status: &Status, what: fn(&GroupCounts) -> u64) -> u64 {
    status.groups.iter().map(|group| what(&group.counts)).sum()
}

fn of_lanes(status: &Status, what: fn(&Lane) -> u64) -> u64 {
    status.lanes.iter().map(what).sum()
}

fn reconnects(status: &Status) -> u64 {
    of_lanes(status, |lane| lane.connections.saturating_sub(1))
}

/// Writes something to every topic, so that it is there: a server of RFC 7641 answers 4.04 to an observation of a
/// resource that does not exist, and ejabberd makes a node when something is published to it.
fn write_first(job: &Job) -> Result<(), Fault> {
    let leg = Leg {
        qos: 1,
        ..job.subscribe
    };
    let writer = client(job, &leg, job.subscribe_at, "w", 0)?;
    let topics: Vec<String> = (0..job.flows)
        .map(|flow| job.subscribe_topic(flow))
        .collect();
    publish_all(&writer, &topics, &[], Retain::No)
}

/// Publishes at least once, and waits until all is acknowledged.
pub fn publish_all(
    client: &Client,
    topics: &[String],
    payload: &[u8],
    retain: Retain,
) -> Result<(), Fault> {
    let options = Options {
        reliability: Reliability::AtLeastOnce,
        retain,
        ..Options::default()
    };
    let mut under_way = VecDeque::new();
    let settle = |under_way: &mut VecDeque<Ticket>, least: usize| {
        while under_way.len() > least
            && let Some(ticket) = under_way.pop_front()
        {
            match within(ANSWERED_WITHIN, client.outcome(ticket)) {
                Some(Success::Acknowledged) => {}
                other => return Err(format!("publishing before the load: {other:?}")),
            }
        }
        Ok(())
    };
    for topic in topics {
        settle(&mut under_way, BEFORE_AT_ONCE)?;
        loop {
            match client.publish_message(payload, "", topic, &options) {
                Ok(ticket) => break under_way.push_back(ticket),
                // The client's buffer is full: half of it leaves.
                Err(ClientError::Full) if !under_way.is_empty() => {
                    let half = under_way.len() / 2;
                    settle(&mut under_way, half)?;
                }
                Err(error) => return Err(format!("publishing to {topic}: {error}")),
            }
        }
    }
    settle(&mut under_way, 0)
}

/// Connects one client; it is up when this returns, or will be: what is published before waits.
pub fn client(
    job: &Job,
    leg: &Leg,
    at: SocketAddr,
    role: &str,
    number: u32,
) -> Result<Client, Fault> {
    up(
        connect(builder(job, leg, role, number)?, job, leg, at)?,
        leg,
    )
}

/// Connects the client of the flows from this one on: alarms have a listener and a class of their own.
fn client_of_flows(
    job: &Job,
    first: u32,
    leg: &Leg,
    at: SocketAddr,
    role: &str,
    number: u32,
) -> Result<Client, Fault> {
    let Some(at) = job.alarms_at.filter(|_| first == 0) else {
        return client(job, leg, at, role, number);
    };
    let builder = builder(job, leg, role, number)?.dscp(ALARM_CLASS);
    up(connect(builder, job, leg, at)?, leg)
}

/// A client that is not connected yet.
pub fn builder(job: &Job, leg: &Leg, role: &str, number: u32) -> Result<ClientBuilder, Fault> {
    let mut builder = Client::builder()
        .client_id(format!("{}-{:08x}-{role}{number}", job.role, job.run))
        .via(Via::Protocol(scheme(leg.protocol)?.to_owned()))
        .mqtt_version(if leg.version == 5 { 5 } else { 4 })
        // A keep-alive in the middle of a trial would be counted among its bytes.
        .keep_alive(KEEP_ALIVE)
        .receive_buffer(RECEIVE_BUFFER)
        .seed(job.seed.wrapping_add(u64::from(number)));
    if let Some(interface) = job.multicast {
        builder = builder.multicast_interface(interface);
    }
    if job.extras.turbo {
        builder = builder.turbo(BatchSettings::TURBO);
    }
    if job.extras.throttle {
        builder = builder.throttle(ThrottleSettings::AUTO);
    }
    if let Some((user, password)) = &job.login {
        builder = builder.credentials(user.clone(), password.clone());
    }
    if job.ca.is_some() {
        let ca = job.ca.clone();
        builder = builder.tls(TlsFiles {
            ca,
            ..TlsFiles::default()
        });
    }
    Ok(builder)
}

/// Begins to connect a client.
pub fn connect(
    builder: ClientBuilder,
    job: &Job,
    leg: &Leg,
    at: SocketAddr,
) -> Result<Client, Fault> {
    let url = format!("{}://{at}", carried(leg.protocol, job.extras.carrier)?);
    let client = builder.broker(&url).and_then(ClientBuilder::connect);
    client.map_err(|error| format!("connecting to {url}: {error}"))
}

/// Waits until it is connected, so that nothing of that falls into the trial. CoAP over UDP has no connection.
fn up(client: Client, leg: &Leg) -> Result<Client, Fault> {
    if leg.protocol == Protocol::Coap {
        return Ok(client);
    }
    let end = clock::now() + ANSWERED_WITHIN.as_nanos() as u64;
    loop {
        let status = client.status().map_err(|error| error.to_string())?;
        if status.lanes.iter().any(|lane| lane.connections > 0) {
            return Ok(client);
        }
        if clock::now() > end {
            let trouble = status.lanes.first().map(|lane| &*lane.trouble);
            return Err(format!("no connection: {}", trouble.unwrap_or_default()));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The scheme of a protocol that the common client speaks.
pub fn scheme(protocol: Protocol) -> Result<&'static str, Fault> {
    match protocol {
        Protocol::Mqtt => Ok("mqtt"),
        Protocol::Coap => Ok("coap"),
        Protocol::Amqp => Ok("amqp"),
        Protocol::Stomp => Ok("stomp"),
        Protocol::Xmpp => Ok("xmpp"),
        other => Err(format!("the common client does not speak {other:?}")),
    }
}

/// The scheme of a protocol over what carries it.
pub fn carried(protocol: Protocol, carrier: Option<Carrier>) -> Result<String, Fault> {
    use Protocol::{Amqp, Mqtt, Stomp, Xmpp};
    match (scheme(protocol), protocol, carrier) {
        (plain, _, None) => plain.map(str::to_owned),
        (Ok(plain), Mqtt | Amqp | Stomp | Xmpp, Some(Carrier::Tls)) => Ok(format!("{plain}s")),
        (_, Mqtt, Some(carrier)) => Ok(word(carrier)),
        (Ok(plain), Stomp | Xmpp, Some(carrier)) => Ok(format!("{plain}+{}", word(carrier))),
        (_, other, Some(carrier)) => {
            Err(format!("{other:?} is not measured over {}", word(carrier)))
        }
    }
}

/// What the client calls it.
pub fn reliability(leg: &Leg) -> Reliability {
    match leg.qos {
        0 => Reliability::AtMostOnce,
        1 => Reliability::AtLeastOnce,
        _ => Reliability::ExactlyOnce,
    }
}

/// A future, at most so long.
pub fn within<F: Future>(time: Duration, future: F) -> Option<F::Output> {
    let (parked, waker) = Parked::new();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let until = clock::now() + time.as_nanos() as u64;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        if !parked.park(until) {
            return None;
        }
    }
}

/// A thread that sleeps until it is woken.
struct Parked {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Parked {
    fn new() -> (Arc<Parked>, Waker) {
        let parked = Arc::new(Parked {
            thread: thread::current(),
            is_woken: AtomicBool::new(false),
        });
        (parked.clone(), Waker::from(parked))
    }

    /// Sleeps; false if the time has come without a wake-up.
    fn park(&self, until: u64) -> bool {
        // A thread is unparked by others, too; only the flag counts.
        while !self.is_woken.swap(false, Ordering::Acquire) {
            let left = until.saturating_sub(clock::now());
            if left == 0 {
                return false;
            }
            thread::park_timeout(Duration::from_nanos(left));
        }
        true
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Says goodbye, so that a broker that goes on has nothing left of us.
pub fn close(client: &Client) {
    let _ = blocking::Client::from(client.clone()).close(Duration::from_millis(500));
}

/// How often all tickets are looked at, nanoseconds.
const LOOK_EVERY: u64 = 1_000_000;
/// How often a full buffer is tried again, nanoseconds.
const ROOM_EVERY: u64 = 100_000;
/// Tickets whose outcome is waited for at once.
const WAIT_FOR: usize = 16;
/// Messages of one subscription before the next one has its turn.
const AT_ONCE: usize = 256;
/// Messages before the load that are under way at once.
const BEFORE_AT_ONCE: usize = 500;
const FILTERS_AT_ONCE: usize = 100;
/// Bytes a subscription may hold untaken: a flood that its taker is late for is counted late, not thrown away by our client.
const RECEIVE_BUFFER: usize = 256 << 20;
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
const KEEP_ALIVE: Duration = Duration::from_secs(1800);
