//! Shards, the queues between them and the byte streams to clients, all in memory and all in virtual time. Nothing moves
//! by itself: whoever owns a [`Net`] says which bytes and which messages move next, and what of the journal is written.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use thalweg_fronts::mqtt::{MqttFront, MqttSettings};
use thalweg_fronts::{Front, Links, LinksLimits, Stopped};
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    Draft, Fetch, Kernel, Limits, LinkId, Part, ShardId, ShardMessage, Totals, home,
};
use thalweg_model::{Filter, Message, Reliability, RetainOp, Time};
use thalweg_mqtt::{ClientSide, PeerFault};
use thalweg_records::State;
use thalweg_testbed::disk::{Commits, Disk, Loss};
pub use thalweg_testbed::mqtt::{PACKET_BYTES_MAX, Packet, Received as Got};

/// One kernel with its links.
pub struct Shard {
    pub kernel: Kernel,
    pub links: Links,
    pipes: HashMap<LinkId, usize>,
    commits: Commits,
    fetches: VecDeque<Fetch>,
}

/// A connection: the client's machine, the bytes under way, and the link at the other end.
pub struct Pipe {
    shard: usize,
    pub machine: ClientSide,
    /// Written by the client, not read by the server yet.
    pub up: Vec<u8>,
    /// Arrived at the client, not looked at yet.
    pub inbox: VecDeque<Packet>,
    /// What the server wrote since somebody last took it, whether it will arrive or not.
    pub tap: Vec<Packet>,
    /// The client is gone; the server has not noticed yet.
    pub cut: bool,
    /// The client does not read.
    pub stalled: bool,
    /// What the server did wrong.
    pub fault: Option<PeerFault>,
    link: Option<LinkId>,
    /// Read by the server, not consumed yet.
    tail: Vec<u8>,
    /// Bytes of the link's output that the machine has seen.
    tapped: usize,
    /// Packets in the link's output: where each ends, counted from the connection's first byte.
    under_way: VecDeque<(usize, Packet)>,
    written: usize,
    flushed: usize,
}

/// Everything.
pub struct Net {
    pub now: Time,
    pub shards: Vec<Shard>,
    pub pipes: Vec<Pipe>,
    /// From each shard to each other: messages, and the number of those that are to be confirmed.
    queues: Vec<VecDeque<(ShardMessage, u64)>>,
    settings: Arc<MqttSettings>,
    limits: Limits,
    outputs: LinksLimits,
    nonce: u64,
    pub disk: Disk,
    /// Whoever owns this says what is written and read; otherwise all of it is, whenever everything moves.
    pub is_disk_manual: bool,
    /// Takes every batch for safe at once, which is wrong.
    pub is_careless: bool,
    /// Batches are handed over when the disk has nothing else to do, and not earlier unless something is mailed.
    pub is_patient: bool,
    /// Messages on disk that cannot be read.
    pub unreadable: Option<fn(&Message) -> bool>,
    /// A batch has become complete, and output may leave.
    is_completed: bool,
    /// Batches are not handed over at the end of each turn: what decides.
    turns: u64,
}

impl Pipe {
    /// Whether the server has closed its end.
    pub fn is_closed(&self) -> bool {
        self.link.is_none()
    }
}

impl Net {
    pub fn new(
        shards: u16,
        limits: &Limits,
        outputs: LinksLimits,
        settings: MqttSettings,
        seed: u64,
    ) -> Self {
        let mut net = Net {
            now: Time::from_secs(1000),
            shards: Vec::new(),
            pipes: Vec::new(),
            queues: Vec::new(),
            settings: Arc::new(settings),
            limits: limits.clone(),
            outputs,
            nonce: 1,
            disk: Disk::default(),
            is_disk_manual: false,
            is_careless: false,
            is_patient: false,
            unreadable: None,
            is_completed: false,
            turns: seed,
        };
        net.begin(shards, seed);
        net
    }

    /// A new process.
    fn begin(&mut self, shards: u16, seed: u64) {
        let shard = |number| Shard {
            kernel: Kernel::new(
                self.limits.clone(),
                ShardId(number),
                shards,
                seed.wrapping_add(u64::from(number)),
            ),
            links: Links::new(self.outputs),
            pipes: HashMap::new(),
            commits: Commits::new(usize::from(shards), &self.disk),
            fetches: VecDeque::new(),
        };
        self.shards = (0..shards).map(shard).collect();
        self.queues = (0..usize::from(shards) * usize::from(shards))
            .map(|_| VecDeque::new())
            .collect();
    }

    /// The process ends in the middle of everything, and another one with so many shards takes up what the journal has.
    /// `check` sees what that is.
    pub fn crash(&mut self, loss: Loss, shards: u16, check: impl FnOnce(&State)) {
        for pipe in &mut self.pipes {
            pipe.link = None;
            pipe.cut = true;
            pipe.up.clear();
            pipe.tail.clear();
            pipe.inbox.clear();
            pipe.under_way.clear();
        }
        let state = self.disk.crash(loss);
        check(&state);
        self.nonce += 1;
        self.begin(shards, self.nonce);
        for (number, part) in Part::split(state, shards).into_iter().enumerate() {
            let Shard { kernel, links, .. } = &mut self.shards[number];
            let (disk, unreadable) = (&self.disk, self.unreadable);
            let read = |place, len| {
                disk.read(place, len)
                    .filter(|message| unreadable.is_none_or(|is| !is(message)))
            };
            kernel.restore(part, &mut { read }, &|_, _| Access::ALL, self.now, links);
            self.gather(number);
        }
        while (0..self.queues.len())
            .any(|pair| self.carry(pair / usize::from(shards), pair % usize::from(shards)))
        {
        }
        for number in 0..self.shards.len() {
            let Shard { kernel, links, .. } = &mut self.shards[number];
            kernel.on_timeout(self.now, links);
            self.gather(number);
        }
    }

    /// Where a client's session lives.
    pub fn home_of(&self, client: &str) -> usize {
        usize::from(home(client, self.shards.len() as u16).0)
    }

    /// Connects a client to its home shard; its machine has said nothing yet.
    pub fn open(&mut self, client: &str, access: Access) -> usize {
        let shard = self.home_of(client);
        self.nonce += 1;
        let front = MqttFront::new(self.settings.clone(), self.nonce, Some(access));
        let link = self.shards[shard].links.open(Front::Mqtt(Box::new(front)));
        let number = self.pipes.len();
        self.shards[shard].pipes.insert(link, number);
        self.pipes.push(Pipe {
            shard,
            machine: ClientSide::new(PACKET_BYTES_MAX),
            up: Vec::new(),
            inbox: VecDeque::new(),
            tap: Vec::new(),
            cut: false,
            stalled: false,
            fault: None,
            link: Some(link),
            tail: Vec::new(),
            tapped: 0,
            under_way: VecDeque::new(),
            written: 0,
            flushed: 0,
        });
        number
    }

    /// The server reads at most `count` bytes of what a client wrote. Whether anything happened.
    pub fn feed(&mut self, pipe: usize, count: usize) -> bool {
        let Pipe { up, tail, .. } = &mut self.pipes[pipe];
        let count = count.min(up.len());
        tail.extend(up.drain(..count));
        count > 0 && {
            self.drive(pipe);
            true
        }
    }

    /// Whether the server has read something that it will look at later.
    pub fn is_paused(&self, pipe: usize) -> bool {
        !self.pipes[pipe].tail.is_empty()
    }

    fn drive(&mut self, pipe: usize) {
        let shard = self.pipes[pipe].shard;
        let tail = std::mem::take(&mut self.pipes[pipe].tail);
        let mut used = 0;
        while let Some(link) = self.pipes[pipe].link {
            let Shard { kernel, links, .. } = &mut self.shards[shard];
            let driven = links.drive(link, &tail[used..], self.now, kernel);
            used += driven.consumed;
            self.gather(shard);
            if driven.stopped != Stopped::FlushFirst {
                break;
            }
        }
        let Pipe {
            link, tail: left, ..
        } = &mut self.pipes[pipe];
        if link.is_some() {
            left.extend_from_slice(&tail[used..]);
        }
    }

    /// Takes what a shard wants done and looks at what it wrote.
    fn gather(&mut self, shard: usize) {
        let count = self.shards.len();
        let Shard {
            kernel,
            commits,
            fetches,
            ..
        } = &mut self.shards[shard];
        let mail: Vec<_> = kernel
            .take_outbox()
            .into_iter()
            .map(|(to, message)| {
                let number = if message.is_reliable() {
                    commits.number_mail(usize::from(to.0))
                } else {
                    0
                };
                (usize::from(to.0), message, number)
            })
            .collect();
        fetches.extend(kernel.take_fetches());
        self.turns = self
            .turns
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // What is mailed is written first.
        if !mail.is_empty() || (self.turns >> 62 != 0 && !self.is_patient) {
            self.close_batch(shard);
        }
        for (to, message, number) in mail {
            self.queues[shard * count + to].push_back((message, number));
        }
        self.look_at_disk();
        assert!(
            self.shards[shard].links.take_logins().is_empty(),
            "nobody has credentials here"
        );
        self.clean(shard);
    }

    /// Whether there was anything in it, or anybody waits for it.
    fn close_batch(&mut self, shard: usize) -> bool {
        let Shard {
            kernel, commits, ..
        } = &mut self.shards[shard];
        let batch = kernel.take_batch(Vec::new());
        let any = batch.is_some();
        if let Some(batch) = batch {
            commits.hand_over(shard, batch, &mut self.disk);
        }
        any
    }

    /// Tells the shards what is written and safe by now.
    fn look_at_disk(&mut self) {
        for shard in 0..self.shards.len() {
            let Shard {
                kernel, commits, ..
            } = &mut self.shards[shard];
            let (gathering, nothing) = (kernel.batch_number(), kernel.batch_len() == 0);
            for (to, mail) in commits.look(shard, &self.disk, gathering, nothing) {
                self.shards[to].commits.on_stored(shard, mail);
            }
        }
        let now = self.now;
        for Shard {
            links,
            commits,
            kernel,
            ..
        } in &mut self.shards
        {
            let completed = if self.is_careless {
                commits.complete_blindly()
            } else {
                commits.complete()
            };
            if let Some(number) = completed {
                links.complete(number);
                kernel.batch_is_safe(number, now);
                self.is_completed = true;
            }
        }
        for shard in 0..self.shards.len() {
            self.clean(shard);
        }
    }

    /// Writes up to `count` batches. Whether there were any.
    pub fn write(&mut self, count: usize) -> bool {
        let (handed_over, written, _) = self.disk.counts();
        if handed_over == written {
            for shard in 0..self.shards.len() {
                self.close_batch(shard);
            }
        }
        let mut any = false;
        for _ in 0..count {
            let Some((shard, number, place)) = self.disk.write() else {
                break;
            };
            self.shards[shard].kernel.on_written(number, place);
            any = true;
        }
        self.look_at_disk();
        any
    }

    /// Makes durable what is written. Whether there was anything.
    pub fn sync(&mut self) -> bool {
        let any = self.disk.sync();
        self.look_at_disk();
        any
    }

    /// Everything that was persisted is written and durable. Whether anything was not.
    pub fn write_all(&mut self) -> bool {
        let mut any = false;
        for shard in 0..self.shards.len() {
            any |= self.close_batch(shard);
        }
        any | self.write(usize::MAX) | self.sync()
    }

    /// Brings a shard the messages that it asked for first. Whether it asked for any.
    pub fn fetch(&mut self, shard: usize) -> bool {
        let now = self.now;
        let Some(fetch) = self.shards[shard].fetches.pop_front() else {
            return false;
        };
        let unreadable = self.unreadable;
        let read = |(place, len): &(u64, u32)| {
            self.disk
                .read(*place, *len)
                .filter(|message| unreadable.is_none_or(|is| !is(message)))
        };
        let messages = fetch.places.iter().map(read).collect();
        let Shard { kernel, links, .. } = &mut self.shards[shard];
        kernel.on_fetched(fetch.holder, fetch.question, messages, now, links);
        self.gather(shard);
        true
    }

    /// Whether anything waits for the journal.
    pub fn is_anything_unsafe(&self) -> bool {
        self.shards
            .iter()
            .any(|shard| shard.commits.is_waiting() || !shard.fetches.is_empty())
    }

    /// Looks at what a shard's links have written, and closes those that are done.
    fn clean(&mut self, shard: usize) {
        let mut dirty = Vec::new();
        self.shards[shard].links.take_dirty(&mut dirty);
        self.shards[shard].links.take_congested(&mut Vec::new());
        for (link, _) in self.shards[shard].links.take_ended() {
            dirty.push(link);
        }
        for link in dirty {
            let Some(&pipe) = self.shards[shard].pipes.get(&link) else {
                continue;
            };
            self.look(pipe);
            if self.pipes[pipe].cut {
                continue;
            }
            let done = self.shards[shard]
                .links
                .get(link)
                .is_some_and(|link| link.closing && link.output().is_empty());
            if done {
                self.close(pipe);
            }
        }
    }

    /// Lets the client's machine see what the server has just written.
    fn look(&mut self, number: usize) {
        let pipe = &mut self.pipes[number];
        let Some(link) = pipe
            .link
            .and_then(|link| self.shards[pipe.shard].links.get(link))
        else {
            return;
        };
        while pipe.fault.is_none() {
            match pipe.machine.handle_input(&link.output()[pipe.tapped..]) {
                Ok(Some((consumed, event))) => {
                    pipe.tapped += consumed;
                    pipe.written += consumed;
                    let packet = Packet::of(&event);
                    pipe.tap.push(packet.clone());
                    pipe.under_way.push_back((pipe.written, packet));
                }
                Ok(None) => break,
                Err(fault) => pipe.fault = Some(fault),
            }
        }
    }

    /// At most `count` bytes arrive at the client. Whether anything happened.
    pub fn flush(&mut self, number: usize, count: usize) -> bool {
        let now = self.now;
        let pipe = &mut self.pipes[number];
        let (Some(id), false, false) = (pipe.link, pipe.stalled, pipe.cut) else {
            return false;
        };
        let shard = pipe.shard;
        let Shard { kernel, links, .. } = &mut self.shards[shard];
        let Some(link) = links.get_mut(id) else {
            return false;
        };
        let count = count.min(link.sendable().len());
        link.advance(count);
        pipe.flushed += count;
        if link.output().is_empty() {
            // A machine that is closed reads nothing more, but the bytes have left.
            pipe.written = pipe.flushed;
            pipe.tapped = 0;
        }
        while pipe
            .under_way
            .front()
            .is_some_and(|(end, _)| *end <= pipe.flushed)
        {
            pipe.inbox
                .extend(pipe.under_way.pop_front().map(|(_, packet)| packet));
        }
        let waiting = link.waiting();
        if waiting == 0 && link.closing {
            self.close(number);
            return true;
        }
        if waiting <= self.outputs.output_high / 2 {
            links.on_drained(id, now, kernel);
        }
        self.gather(shard);
        count > 0
    }

    /// The client goes away without a word. `arriving` bytes of what it wrote still reach the server, which notices the
    /// end of the connection later ([`Net::notice`]).
    pub fn cut(&mut self, pipe: usize, arriving: usize) {
        let pipe = &mut self.pipes[pipe];
        pipe.cut = true;
        pipe.up.truncate(arriving);
        pipe.inbox.clear();
        pipe.under_way.clear();
    }

    /// The server notices that a client is gone. Whether anything happened.
    pub fn notice(&mut self, pipe: usize) -> bool {
        let gone = self.pipes[pipe].cut && self.pipes[pipe].link.is_some();
        if gone {
            while self.feed(pipe, usize::MAX) {}
            self.close(pipe);
        }
        gone
    }

    fn close(&mut self, number: usize) {
        self.look(number);
        let now = self.now;
        let pipe = &mut self.pipes[number];
        let Some(link) = pipe.link.take() else { return };
        let shard = pipe.shard;
        pipe.up.clear();
        pipe.tail.clear();
        let Shard {
            kernel,
            links,
            pipes,
            ..
        } = &mut self.shards[shard];
        pipes.remove(&link);
        links.close(link, kernel, now);
        self.gather(shard);
    }

    /// The oldest message from one shard to another arrives. Whether there was one.
    pub fn carry(&mut self, from: usize, to: usize) -> bool {
        let count = self.shards.len();
        let Some((message, number)) = self.queues[from * count + to].pop_front() else {
            return false;
        };
        let Shard {
            kernel,
            links,
            commits,
            ..
        } = &mut self.shards[to];
        kernel.on_shard(ShardId(from as u16), message, self.now, links);
        if number != 0 {
            commits.owe(kernel.batch_number(), from, number);
        }
        self.gather(to);
        true
    }

    /// Bytes in a connection's output that have not left.
    pub fn output_of(&self, pipe: usize) -> usize {
        let pipe = &self.pipes[pipe];
        let link = pipe
            .link
            .and_then(|link| self.shards[pipe.shard].links.get(link));
        link.map_or(0, |link| link.waiting())
    }

    /// Whether a message is between two shards.
    pub fn is_anything_between_shards(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// A shard does what is due, and what it had put off. Whether anything happened.
    pub fn tick(&mut self, shard: usize) -> bool {
        let now = self.now;
        let Shard {
            kernel,
            links,
            pipes,
            ..
        } = &mut self.shards[shard];
        let mut happened = kernel.has_work();
        if kernel.poll_timeout() <= now {
            kernel.on_timeout(now, links);
            happened = true;
        }
        kernel.work(now, links);
        let mut rested: Vec<usize> = Vec::new();
        for (link, pipe) in &*pipes {
            let Some(link) = links.get_mut(*link) else {
                continue;
            };
            if link.pause_until.is_some_and(|until| until <= now) {
                link.pause_until = None;
                rested.push(*pipe);
            }
        }
        rested.sort_unstable(); // A map's order is not the seed's.
        self.gather(shard);
        for pipe in rested {
            self.drive(pipe);
            happened = true;
        }
        happened
    }

    /// Moves everything that can move without a client's doing, in no time. Whether anything happened.
    pub fn settle(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut happened = false;
            for pipe in 0..self.pipes.len() {
                if self.pipes[pipe].link.is_some() {
                    happened |= self.feed(pipe, usize::MAX) | self.flush(pipe, usize::MAX);
                }
            }
            let count = self.shards.len();
            for pair in 0..count * count {
                while self.carry(pair / count, pair % count) {
                    happened = true;
                }
            }
            for shard in 0..count {
                happened |= self.tick(shard);
                happened |= !self.is_disk_manual && self.fetch(shard);
            }
            happened |= !self.is_disk_manual && self.write_all();
            happened |= std::mem::take(&mut self.is_completed);
            if !happened {
                return any;
            }
            any = true;
        }
    }

    /// Forgets all last values, as if each had been cleared by a publish at its home.
    pub fn clear_last_values(&mut self) {
        let now = self.now;
        let all = Filter::new("#").expect("legal");
        for Shard { kernel, links, .. } in &mut self.shards {
            for message in kernel.last_values_matching(&all, usize::MAX, now) {
                let draft = Draft {
                    address: message.address(),
                    payload: b"",
                    reliability: Reliability::AtMostOnce,
                    retain: RetainOp::Clear,
                    priority: 0,
                    expires_in: None,
                    properties: None,
                    ticket: 0,
                    native: None,
                    stamp: None,
                };
                kernel.publish_own(draft, now, links);
            }
        }
    }

    /// Counts the books of all shards anew.
    pub fn recount(&self) {
        for Shard { kernel, .. } in &self.shards {
            kernel.recount().expect("the books are right");
        }
    }

    /// A sum over all shards.
    pub fn sum(&self, of: impl Fn(&Kernel) -> u64) -> u64 {
        self.shards.iter().map(|shard| of(&shard.kernel)).sum()
    }

    /// A sum of totals over all shards.
    pub fn total(&self, of: impl Fn(&Totals) -> usize) -> usize {
        self.shards
            .iter()
            .map(|shard| of(&shard.kernel.totals()))
            .sum()
    }

    /// Copies that wait, counted one by one.
    pub fn waiting(&self) -> u64 {
        let mut waiting = 0;
        for Shard { kernel, .. } in &self.shards {
            kernel.for_each_session(|session| waiting += session.waiting as u64);
            kernel.for_each_group(Time::ZERO, |group| waiting += group.waiting as u64);
        }
        waiting
    }

    /// The books of all shards, as one line says them: copies routed or restored, and what became of them. In flight are
    /// copies that were sent and are not settled.
    pub fn copies(&self) -> (u64, u64) {
        let routed = self.sum(|kernel| kernel.ledger().routed + kernel.ledger().restored);
        let done = self.sum(|kernel| {
            let ledger = kernel.ledger();
            ledger.delivered + ledger.expired + ledger.dropped_total()
        });
        (routed, done)
    }
}
