//! Shards, the mail between them and the connections to clients. See [`Testbed`].

mod journal;
mod moving;

use crate::client::{Client, Who};
use crate::coap::Peer;
use crate::disk::{Commits, Disk};
use crate::random::Random;
use std::any::Any;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use thalweg_fronts::amqp::AmqpSettings;
use thalweg_fronts::coap::{CoapFront, CoapSettings};
use thalweg_fronts::mqtt::MqttSettings;
use thalweg_fronts::stomp::StompSettings;
use thalweg_fronts::xmpp::XmppSettings;
use thalweg_fronts::zmtp::ZmtpSettings;
use thalweg_fronts::{AnyFront, Link, Links, LinksLimits, LoginAnswer, LoginAsk, Stopped};
use thalweg_kernel::access::{Access, Rules};
use thalweg_kernel::{Fetch, Kernel, Limits, LinkId, ShardId, ShardMessage, Totals, home};
use thalweg_model::{Message, Span, Time};

/// Start time of a testbed: 2026, so that points in time differ from durations.
pub const START: Time = Time::from_secs(1_795_000_000);

/// Configuration of a broker.
#[derive(Clone)]
pub struct Settings {
    pub shards: u16,
    pub limits: Limits,
    pub outputs: LinksLimits,
    pub mqtt: Arc<MqttSettings>,
    pub amqp: Arc<AmqpSettings>,
    pub stomp: Arc<StompSettings>,
    pub zmtp: Arc<ZmtpSettings>,
    pub xmpp: Arc<XmppSettings>,
    /// One datagram socket each, on every shard.
    pub coap: Vec<Arc<CoapSettings>>,
    pub coap_stream: Arc<CoapSettings>,
    /// Rights of anonymous peers over CoAP datagrams.
    pub coap_anonymous: Option<Access>,
    /// Of the kernels' random numbers.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            shards: 1,
            limits: Limits::default(),
            outputs: LinksLimits::default(),
            mqtt: Arc::default(),
            amqp: Arc::default(),
            stomp: Arc::default(),
            zmtp: Arc::default(),
            xmpp: Arc::default(),
            coap: Vec::new(),
            coap_stream: Arc::default(),
            coap_anonymous: Some(Access::ALL),
            seed: 7,
        }
    }
}

/// A kernel with its connections.
pub struct Shard {
    pub kernel: Kernel,
    pub links: Links,
    /// CoAP's datagram sockets, in the order of [`Settings::coap`].
    pub sockets: Vec<LinkId>,
    pipes: HashMap<LinkId, usize>,
    commits: Commits,
    fetches: VecDeque<Fetch>,
}

/// A pending authentication of a client.
#[derive(Debug)]
pub struct Asked {
    pub shard: usize,
    pub link: LinkId,
    pub ask: LoginAsk,
}

/// Mail of a shard to another.
enum Mail {
    /// With a number if it is to be confirmed, else 0.
    Message(ShardMessage, u64),
    /// All up to this number is confirmed.
    Stored(u64),
}

/// A connection and the client at its end.
struct Pipe {
    shard: usize,
    link: Option<LinkId>,
    /// Its front, while it is on the way to `shard`.
    moving: Option<AnyFront>,
    /// Written by the client, not consumed by the broker.
    up: Vec<u8>,
    /// Number of those bytes that the broker has read.
    read: usize,
    /// Arrived at the client, not read by it.
    down: Vec<u8>,
    /// All that arrived, if that is kept.
    received: Vec<u8>,
    /// Bytes in the link's output that the client was shown.
    overheard: usize,
    /// The client does not read.
    is_stalled: bool,
    /// The client is gone, and the broker has not noticed yet.
    is_cut: bool,
    client: Option<Box<dyn Client>>,
}

/// A broker in memory and its clients.
///
/// A client does one thing at a time; [`rest`](Testbed::rest) then moves everything until nothing moves, so a message
/// that has not arrived by then never will. After each rest the books of all kernels are compared with the actual
/// state.
pub struct Testbed {
    pub now: Time,
    pub shards: Vec<Shard>,
    pub settings: Settings,
    /// Pending authentications; none if [`Testbed::answers_logins`].
    pub asked: Vec<Asked>,
    /// Clients are who they say they are, and may do what [`Testbed::set_rights`] says.
    pub answers_logins: bool,
    rights: BTreeMap<String, Rules>,
    /// Every byte that connections receive is kept: [`Testbed::received`].
    pub keeps_received: bool,
    pub disk: Disk,
    /// Batches are written and synced only when that is asked for.
    pub is_disk_manual: bool,
    /// Most batches end with the turn that wrote to them, as chance has it; otherwise when something is mailed, or when the
    /// disk has nothing else to do.
    pub batch_ends: Option<Random>,
    /// Takes every batch for safe at once, which is wrong.
    pub is_careless: bool,
    /// Messages on disk that cannot be read.
    pub unreadable: Option<fn(&Message) -> bool>,
    /// Publishers that are paused continue at once.
    pub skips_pauses: bool,
    /// Connections that the broker has ended stay until [`Testbed::lose`].
    pub keeps_ended: bool,
    /// The books are compared only when that is asked for.
    pub skips_checks: bool,
    /// So many bytes at the most are shown to the broker at a time.
    pub piece_max: usize,
    /// Messages between shards arrive as a seed says; otherwise all of one sender and receiver, then the next two. Between the
    /// same two always in the order in which they were sent.
    pub mail_order: Option<Random>,
    /// Time that passes when a client does something.
    pub step: Span,
    pipes: Vec<Pipe>,
    pub(crate) peers: Vec<Peer>,
    /// From each shard to each other.
    mail: Vec<VecDeque<Mail>>,
    nonce: u64,
    /// A batch has become complete, and output may leave.
    is_completed: bool,
}

impl Testbed {
    pub fn new(settings: Settings) -> Self {
        let mut bed = Testbed::before_start(settings);
        bed.run_for(Span::ZERO);
        bed
    }

    /// A broker in which nothing has happened: no front has begun.
    pub fn before_start(settings: Settings) -> Self {
        let mut bed = Testbed {
            now: START,
            shards: Vec::new(),
            settings,
            asked: Vec::new(),
            answers_logins: false,
            rights: BTreeMap::new(),
            keeps_received: false,
            disk: Disk::default(),
            is_disk_manual: false,
            batch_ends: None,
            is_careless: false,
            unreadable: None,
            skips_pauses: false,
            keeps_ended: false,
            skips_checks: false,
            piece_max: usize::MAX,
            mail_order: None,
            step: Span::from_nanos(1000),
            pipes: Vec::new(),
            peers: Vec::new(),
            mail: Vec::new(),
            nonce: 1,
            is_completed: false,
        };
        bed.begin();
        bed
    }

    fn begin(&mut self) {
        let Settings {
            shards,
            limits,
            outputs,
            coap,
            coap_anonymous,
            seed,
            ..
        } = &self.settings;
        let count = usize::from(*shards);
        let shard = |number: u16| {
            let mut links = Links::new(*outputs);
            let nonce = 0xC0A9 + self.nonce - 1 + u64::from(number);
            let socket = |settings: &Arc<CoapSettings>| {
                let front = CoapFront::new(settings.clone(), nonce, coap_anonymous.clone());
                links.open(front)
            };
            let sockets = coap.iter().map(socket).collect();
            let seed = seed.wrapping_add(self.nonce - 1 + u64::from(number));
            let mut kernel = Kernel::new(limits.clone(), ShardId(number), *shards, seed);
            kernel.set_neutral(thalweg_fronts::native::neutral);
            Shard {
                kernel,
                links,
                sockets,
                pipes: HashMap::new(),
                commits: Commits::new(count, &self.disk),
                fetches: VecDeque::new(),
            }
        };
        self.shards = (0..*shards).map(shard).collect();
        self.mail = (0..count * count).map(|_| VecDeque::new()).collect();
    }

    /// Replaces the limits of all shards, as a reload does.
    pub fn set_limits(&mut self, limits: Limits) {
        for shard in &mut self.shards {
            shard.kernel.set_limits(limits.clone());
        }
        self.settings.limits = limits;
        self.rest();
    }

    // --- who may do what

    /// Sets a user's rights, also for its sessions, as a reload of the rules does. Without a name it is the anonymous
    /// user; a user without an entry may do everything.
    pub fn set_rights(&mut self, user: &str, rules: Rules) {
        self.rights.insert(user.into(), rules);
        for Shard { kernel, .. } in &mut self.shards {
            kernel.renew_access(|client, user| access_of(&self.rights, client, user));
        }
        // Without sessions nothing else changes.
        if !self.pipes.is_empty() || !self.peers.is_empty() {
            self.rest();
        }
    }

    /// Answers the oldest pending authentication.
    pub fn answer_login(&mut self, answer: LoginAnswer) {
        let asked = self.asked.remove(0);
        self.admit(asked, answer);
        self.rest();
    }

    fn admit(&mut self, asked: Asked, answer: LoginAnswer) {
        let Asked { shard, link, ask } = asked;
        let Shard { kernel, links, .. } = &mut self.shards[shard];
        match ask {
            LoginAsk::Proven { identity } => {
                links.on_proven(link, &identity, answer, self.now, kernel)
            }
            _ => links.on_login(link, answer, self.now, kernel),
        }
        // A request may have waited for the answer, and its batch is not written before its mail is numbered.
        self.gather(shard);
    }

    // --- places

    /// The shard where a client's session or an address's last value is.
    pub fn home_of(&self, name: &str) -> usize {
        usize::from(home(name, self.shards.len() as u16).0)
    }

    /// A name that is at home on a shard.
    pub fn name_on(&self, stem: &str, shard: usize) -> String {
        let mut names = (0..).map(|number| format!("{stem}-{number}"));
        names
            .find(|name| self.home_of(name) == shard)
            .expect("some name has that home")
    }

    /// The shard of all queues.
    pub fn queue_shard(&self) -> usize {
        self.shards
            .iter()
            .position(|shard| shard.kernel.has_queues())
            .expect("one has them")
    }

    // --- connections

    /// Opens a connection on a shard.
    pub fn open<C: Client>(&mut self, shard: usize, front: AnyFront, client: C) -> Who<C> {
        let link = self.shards[shard].links.open(front);
        let number = self.pipes.len();
        self.shards[shard].pipes.insert(link, number);
        self.pipes.push(Pipe {
            shard,
            link: Some(link),
            moving: None,
            up: Vec::new(),
            read: 0,
            down: Vec::new(),
            received: Vec::new(),
            overheard: 0,
            is_stalled: false,
            is_cut: false,
            client: Some(Box::new(client)),
        });
        Who::new(number)
    }

    pub(crate) fn next_nonce(&mut self) -> u64 {
        self.nonce += 1;
        self.nonce
    }

    pub fn client<C: Client>(&mut self, who: Who<C>) -> &mut C {
        self.end(who).0
    }

    /// A client, and the bytes that it has written.
    pub fn end<C: Client>(&mut self, who: Who<C>) -> (&mut C, &mut Vec<u8>) {
        let pipe = &mut self.pipes[who.pipe];
        let client: &mut dyn Any = pipe.client.as_deref_mut().expect("it is there");
        (
            client.downcast_mut().expect("a Who is made with it"),
            &mut pipe.up,
        )
    }

    /// Lets a client write, and does not wait for anything.
    pub fn write<C: Client, R>(
        &mut self,
        who: Who<C>,
        write: impl FnOnce(&mut C, &mut Vec<u8>) -> R,
    ) -> R {
        let (client, up) = self.end(who);
        write(client, up)
    }

    /// Lets a client write, and everything come to rest.
    pub fn says<C: Client, R>(
        &mut self,
        who: Who<C>,
        write: impl FnOnce(&mut C, &mut Vec<u8>) -> R,
    ) -> R {
        self.now += self.step;
        let result = self.write(who, write);
        self.rest();
        result
    }

    /// Whether the broker has closed the connection, or the client has.
    pub fn is_closed<C>(&self, who: Who<C>) -> bool {
        let pipe = &self.pipes[who.pipe];
        pipe.link.is_none() && pipe.moving.is_none()
    }

    pub fn shard_of<C>(&self, who: Who<C>) -> usize {
        self.pipes[who.pipe].shard
    }

    /// The name of a connection that is open.
    pub fn link_id<C>(&self, who: Who<C>) -> LinkId {
        self.pipes[who.pipe].link.expect("it is open")
    }

    /// A connection that is open.
    pub fn link<C>(&self, who: Who<C>) -> Option<&Link> {
        let Pipe { shard, link, .. } = &self.pipes[who.pipe];
        let link = (*link)?;
        self.shards[*shard].links.get(link)
    }

    /// Bytes that wait for a client.
    pub fn waiting<C>(&self, who: Who<C>) -> usize {
        self.link(who).map_or(0, |link| link.waiting())
    }

    /// Bytes of a client that the broker has not consumed.
    pub fn unread<C>(&self, who: Who<C>) -> usize {
        self.pipes[who.pipe].up.len()
    }

    /// All that a connection received, if [`Testbed::keeps_received`].
    pub fn received<C>(&self, who: Who<C>) -> &[u8] {
        &self.pipes[who.pipe].received
    }

    /// Stops or starts to read.
    pub fn set_reading<C>(&mut self, who: Who<C>, reads: bool) {
        self.set_stalled(who, !reads);
        self.rest();
    }

    /// The same, and nothing else happens.
    pub fn set_stalled<C>(&mut self, who: Who<C>, is_stalled: bool) {
        self.pipes[who.pipe].is_stalled = is_stalled;
    }

    pub fn is_stalled<C>(&self, who: Who<C>) -> bool {
        self.pipes[who.pipe].is_stalled
    }

    pub fn lose<C>(&mut self, who: Who<C>) {
        self.close(who);
        self.rest();
    }

    /// The connection breaks, and nothing else happens.
    pub fn close<C>(&mut self, who: Who<C>) {
        self.close_pipe(who.pipe);
    }

    fn close_pipe(&mut self, number: usize) {
        self.overhear(number);
        let pipe = &mut self.pipes[number];
        pipe.moving = None;
        let Some(link) = pipe.link.take() else { return };
        pipe.up.clear();
        let Shard {
            kernel,
            links,
            pipes,
            ..
        } = &mut self.shards[pipe.shard];
        pipes.remove(&link);
        links.close(link, kernel, self.now);
        let shard = pipe.shard;
        self.gather(shard);
    }

    /// The client's connection breaks. `arriving` bytes that the broker has not read still reach it; it notices the end
    /// of the connection later ([`Testbed::notice`]).
    pub fn cut<C>(&mut self, who: Who<C>, arriving: usize) {
        let pipe = &mut self.pipes[who.pipe];
        pipe.is_cut = true;
        pipe.up.truncate(pipe.read.saturating_add(arriving));
        pipe.down.clear();
    }

    /// The broker notices that a client is gone. Whether anything happened.
    pub fn notice<C>(&mut self, who: Who<C>) -> bool {
        let gone = self.pipes[who.pipe].is_cut && !self.is_closed(who);
        if gone {
            while self.feed(who, usize::MAX) {}
            self.close(who);
        }
        gone
    }

    // --- what moves

    /// At most `count` more bytes of a client arrive. Whether anything happened.
    pub fn feed<C>(&mut self, who: Who<C>, count: usize) -> bool {
        self.feed_pipe(who.pipe, count)
    }

    fn feed_pipe(&mut self, number: usize, count: usize) -> bool {
        let now = self.now;
        let pipe = &mut self.pipes[number];
        let Some(id) = pipe.link else {
            return false;
        };
        let shard = pipe.shard;
        let links = &mut self.shards[shard].links;
        if let Some(link) = links.get_mut(id)
            && link
                .pause_until
                .is_some_and(|until| until <= now || self.skips_pauses)
        {
            link.pause_until = None;
        }
        let mut up = std::mem::take(&mut pipe.up);
        let end = up.len().min(pipe.read.saturating_add(count));
        let is_new = end > pipe.read;
        let (mut used, mut shown) = (0, 0);
        // As in the server: a connection that has sent nothing is not asked.
        while shown < end {
            shown = shown.saturating_add(self.piece_max).min(end);
            loop {
                let Shard { kernel, links, .. } = &mut self.shards[shard];
                let driven = links.drive(id, &up[used..shown], now, kernel);
                used += driven.consumed;
                self.gather(shard);
                if let Stopped::Rehome(key) = driven.stopped
                    && self.detach(number, key)
                {
                    self.pipes[number].up = up.split_off(used);
                    self.pipes[number].read = shown - used;
                    return true;
                }
                if driven.stopped == Stopped::Upgrade {
                    // The client's next octets would be of TLS, which is not simulated.
                    (used, shown) = (end, end);
                }
                let goes_on = matches!(driven.stopped, Stopped::FlushFirst | Stopped::Rehome(_));
                if !goes_on || self.pipes[number].link.is_none() {
                    break;
                }
            }
            if self.pipes[number].link.is_none() {
                return true;
            }
        }
        up.drain(..used);
        self.pipes[number].up = up;
        self.pipes[number].read = end - used;
        // Input that was handled in part continues once its pause is over.
        let link = self.shards[shard].links.get(id);
        let goes_on = link.and_then(|link| link.pause_until);
        is_new || used > 0 || goes_on.is_some_and(|until| until <= now)
    }

    /// At most `count` bytes reach a client, which does not look at them. Whether anything happened.
    pub fn flush<C>(&mut self, who: Who<C>, count: usize) -> bool {
        self.flush_pipe(who.pipe, count)
    }

    fn flush_pipe(&mut self, number: usize, count: usize) -> bool {
        let now = self.now;
        let Pipe {
            shard,
            link: Some(id),
            down,
            received,
            overheard,
            is_stalled,
            is_cut: false,
            ..
        } = &mut self.pipes[number]
        else {
            return false;
        };
        let (id, shard) = (*id, *shard);
        let Shard { kernel, links, .. } = &mut self.shards[shard];
        let Some(link) = links.get_mut(id) else {
            return false;
        };
        let count = match is_stalled {
            true => 0,
            false => count.min(link.sendable().len()),
        };
        down.extend_from_slice(&link.sendable()[..count]);
        if self.keeps_received {
            received.extend_from_slice(&link.sendable()[..count]);
        }
        link.advance(count);
        *overheard = overheard.saturating_sub(count);
        let (waiting, reads) = (link.waiting(), !*is_stalled);
        if waiting == 0 && link.closing && !self.keeps_ended {
            self.close_pipe(number);
            return true;
        }
        if reads && count > 0 && waiting <= link.output_high() / 2 {
            links.on_drained(id, now, kernel);
        }
        self.gather(shard);
        count > 0
    }

    /// A client reads what has arrived. Whether it did anything.
    pub fn read<C>(&mut self, who: Who<C>) -> bool {
        self.look(who.pipe)
    }

    fn look(&mut self, number: usize) -> bool {
        let pipe = &mut self.pipes[number];
        let before = (pipe.up.len(), pipe.down.len());
        if pipe.down.is_empty() {
            return false;
        }
        if let Some(client) = &mut pipe.client {
            client.receive(&mut pipe.down, &mut pipe.up);
        }
        (pipe.up.len(), pipe.down.len()) != before
    }

    /// Executes the requests of a shard.
    pub(crate) fn gather(&mut self, shard: usize) {
        let count = self.shards.len();
        let Shard {
            kernel,
            links,
            commits,
            fetches,
            ..
        } = &mut self.shards[shard];
        let mail: Vec<_> = kernel
            .take_outbox()
            .into_iter()
            .map(|(to, message)| {
                let to = usize::from(to.0);
                let number = if message.is_reliable() {
                    commits.number_mail(to)
                } else {
                    0
                };
                (to, message, number)
            })
            .collect();
        fetches.extend(kernel.take_fetches());
        let mut written = Vec::new();
        links.take_dirty(&mut written);
        links.take_congested(&mut Vec::new());
        links.take_ended();
        let logins = links.take_logins();
        self.asked.extend(
            logins
                .into_iter()
                .map(|(link, ask)| Asked { shard, link, ask }),
        );
        // Mail is sent after its journal entries are written.
        let mut ends = self.batch_ends.as_mut();
        if !mail.is_empty() || ends.as_mut().is_some_and(|random| !random.one_in(4)) {
            self.close_batch(shard);
        }
        for (to, message, number) in mail {
            self.mail[shard * count + to].push_back(Mail::Message(message, number));
        }
        self.look_at_disk();
        for link in written {
            if let Some(pipe) = self.shards[shard].pipes.get(&link) {
                self.overhear(*pipe);
            }
        }
    }

    /// Shows a client what the broker has written for it since.
    fn overhear(&mut self, number: usize) {
        let Pipe {
            shard,
            link: Some(link),
            overheard,
            client: Some(client),
            ..
        } = &mut self.pipes[number]
        else {
            return;
        };
        if let Some(link) = self.shards[*shard].links.get(*link) {
            let known = link.output().len() - link.waiting() + *overheard;
            // A refused connection is closed.
            client.overhear(link.output().get(known..).unwrap_or_default());
            *overheard = link.waiting();
        }
    }

    /// The oldest message from one shard to another arrives. Whether there was one.
    pub fn carry(&mut self, from: usize, to: usize) -> bool {
        let count = self.shards.len();
        let (message, number) = match self.mail[from * count + to].pop_front() {
            None => return false,
            Some(Mail::Message(message, number)) => (message, number),
            Some(Mail::Stored(number)) => {
                self.shards[to].commits.on_stored(from, number);
                self.look_at_disk();
                return true;
            }
        };
        let Shard {
            kernel,
            links,
            commits,
            ..
        } = &mut self.shards[to];
        kernel.on_shard(ShardId(from as u16), message, self.now, links);
        if number != 0 {
            let forwarded = kernel.take_forwarded();
            commits.owe(kernel.batch_number(), from, number, forwarded);
        }
        self.gather(to);
        true
    }

    pub(crate) fn carry_all(&mut self) -> bool {
        let (count, mut happened) = (self.shards.len(), false);
        loop {
            let full = (0..self.mail.len()).filter(|pair| !self.mail[*pair].is_empty());
            let pair = match &mut self.mail_order {
                None => full.min(),
                Some(random) => {
                    let full: Vec<usize> = full.collect();
                    (!full.is_empty()).then(|| *random.pick(&full))
                }
            };
            let Some(pair) = pair else { return happened };
            happened |= self.carry(pair / count, pair % count);
        }
    }

    /// Whether the broker has read something of a client that it will look at later.
    pub fn is_paused<C>(&self, who: Who<C>) -> bool {
        self.pipes[who.pipe].read > 0
    }

    /// Whether a message is between two shards.
    pub fn is_anything_between_shards(&self) -> bool {
        self.mail.iter().any(|mail| !mail.is_empty())
    }

    /// A shard runs due timers and deferred work. Returns whether anything happened.
    pub fn tick(&mut self, shard: usize) -> bool {
        let now = self.now;
        let Shard { kernel, links, .. } = &mut self.shards[shard];
        let mut happened = kernel.has_work() | links.has_work();
        if kernel.poll_timeout() <= now {
            kernel.on_timeout(now, links);
            happened = true;
        }
        kernel.work(now, links);
        links.work(now, kernel);
        links.sweep(now);
        self.gather(shard);
        if self.answers_logins {
            for asked in std::mem::take(&mut self.asked) {
                let answer = answer_of(&self.rights, &asked.ask);
                self.admit(asked, answer);
                happened = true;
            }
        }
        happened
    }

    /// Moves everything until nothing moves, in no time. Whether anything happened.
    pub fn rest(&mut self) -> bool {
        for round in 0..100_000 {
            let mut happened = false;
            for pipe in 0..self.pipes.len() {
                happened |= self.arrive_pipe(pipe);
                happened |= self.feed_pipe(pipe, usize::MAX);
                happened |= self.flush_pipe(pipe, usize::MAX);
                happened |= self.look(pipe);
            }
            happened |= self.carry_all();
            for shard in 0..self.shards.len() {
                happened |= self.tick(shard);
                happened |= !self.is_disk_manual && self.fetch(shard);
            }
            happened |= self.exchange_datagrams();
            happened |= !self.is_disk_manual && self.write_all();
            happened |= std::mem::take(&mut self.is_completed);
            happened |= self.is_anything_between_shards();
            if !happened {
                if !self.skips_checks {
                    self.check();
                }
                return round > 0;
            }
        }
        panic!("it never comes to rest");
    }

    /// Compares the books of all kernels with the actual state.
    #[track_caller]
    pub fn check(&self) {
        for (number, Shard { kernel, .. }) in self.shards.iter().enumerate() {
            if let Err(why) = kernel.recount() {
                panic!("the books of shard {number} are wrong: {why}");
            }
            let (ledger, totals) = (kernel.ledger(), kernel.totals());
            let came = ledger.routed + ledger.restored;
            let gone = ledger.delivered + ledger.expired + ledger.dropped_total();
            let open = (totals.waiting + totals.in_flight) as u64;
            assert_eq!(
                came.wrapping_sub(gone),
                open,
                "the books of shard {number} do not balance: {ledger:?}"
            );
        }
    }

    // --- time

    /// Time goes by in one leap.
    pub fn wait(&mut self, span: Span) {
        self.now += span;
        self.rest();
    }

    /// Time goes by from one deadline to the next.
    pub fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        for _ in 0..1_000_000 {
            let kernels = self.shards.iter().map(|shard| shard.kernel.poll_timeout());
            let links = self.timed_links();
            let links = links.map(|(shard, link)| self.shards[shard].links.next_timer(link));
            let next = kernels.chain(links).min().unwrap_or(Time::NEVER);
            self.now = next.min(end).max(self.now);
            self.on_datagram_timeouts();
            self.rest();
            if self.now >= end {
                return;
            }
        }
        panic!("timers never rest");
    }

    /// CoAP's sockets and connections do what is due.
    pub(crate) fn on_datagram_timeouts(&mut self) {
        for (shard, link) in self.timed_links().collect::<Vec<_>>() {
            let Shard { kernel, links, .. } = &mut self.shards[shard];
            if links.next_timer(link) <= self.now {
                links.on_timer(link, self.now, kernel);
                let next = links.next_timer(link);
                assert!(next > self.now, "what is due is done: {link:?}");
            }
        }
    }

    /// CoAP's sockets, and all connections.
    fn timed_links(&self) -> impl Iterator<Item = (usize, LinkId)> {
        let sockets =
            self.shards.iter().enumerate().flat_map(|(number, shard)| {
                shard.sockets.iter().map(move |socket| (number, *socket))
            });
        let pipes = self.pipes.iter();
        sockets.chain(pipes.filter_map(|pipe| Some((pipe.shard, pipe.link?))))
    }

    /// A sum of totals over all shards.
    pub fn total(&self, of: impl Fn(&Totals) -> usize) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| of(&shard.kernel.totals())).sum()
    }

    /// A sum over all shards.
    pub fn sum(&self, of: impl Fn(&Kernel) -> u64) -> u64 {
        self.shards.iter().map(|shard| of(&shard.kernel)).sum()
    }
}

fn access_of(rights: &BTreeMap<String, Rules>, client: &str, user: Option<&str>) -> Access {
    let rules = rights.get(user.unwrap_or_default());
    rules.map_or(Access::ALL, |rules| rules.compile(client, user))
}

/// Passwords are not looked at: clients are who they say they are.
fn answer_of(rights: &BTreeMap<String, Rules>, ask: &LoginAsk) -> LoginAnswer {
    let (client, user) = match ask {
        LoginAsk::Password { client, user, .. } => (&**client, user.as_deref()),
        LoginAsk::Proven { identity } => ("", Some(&**identity)),
        other => panic!("nobody proves it like this here: {other:?}"),
    };
    LoginAnswer::Allowed {
        user: user.map(Into::into),
        access: access_of(rights, client, user),
        expires: None,
        data: None,
    }
}
