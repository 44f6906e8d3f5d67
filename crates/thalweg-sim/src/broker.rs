//! The broker of the simulation: a kernel, its sessions, and what it asks of the world.

use thalweg_kernel::access::Access;
use thalweg_kernel::{
    Answer, CloseReason, ConsumerEnd, Content, Delivery, Draft, Effects, GroupPolicy,
    GroupStrategy, Kernel, LastValueWish, Limits, LinkId, Observed, OpenSession, Sent, SessionId,
    ShardId, Tag, Ticket, Wish, WorkTerms,
};
use thalweg_model::{Filter, Reliability, RetainOp, Span, Time};

use super::random::Random;
use super::scenario::{Job, Scenario};

/// The group's name and filter: every job's address is covered.
const GROUP: &str = "g";
const FILTER: &str = "e5/#";
/// Addresses are of this many keys at the most.
const KEYS_MAX: u64 = 10_000;

/// What the kernel asked for of a worker's connection, in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    Deliver {
        job: usize,
        tag: Tag,
        redelivered: bool,
    },
    /// The second step of an exactly-once message.
    Release(Tag),
    Close(CloseReason),
    /// What follows waits for the journal.
    Hold,
}

pub(super) struct Broker {
    pub(super) kernel: Kernel,
    pub(super) outbox: Outbox,
    publishers: Vec<SessionId>,
    addresses: Vec<String>,
    payload: Vec<u8>,
    /// For the next batch of the journal.
    spare: Vec<u8>,
    ticket: Ticket,
    workers: usize,
    expiry: Span,
}

/// Each with the worker whose connection it is about; numbers beyond are publishers.
#[derive(Default)]
pub(super) struct Outbox(Vec<(usize, Asked)>);

impl Outbox {
    fn push(&mut self, link: LinkId, asked: Asked) {
        self.0.push((link.0 as usize, asked));
    }
}

impl Broker {
    /// A broker with a publisher for each key.
    pub(super) fn new(strategy: GroupStrategy, scenario: &Scenario, now: Time) -> Self {
        let is_journaled = scenario.sync > 0.0;
        let mut limits = Limits {
            group_strategy: strategy,
            group_messages_max: 10_000_000,
            group_bytes_max: 1 << 34,
            journal: is_journaled,
            // Its bars are for members that hang, too.
            group_adaptive_eviction: true,
            ..Limits::default()
        };
        let order = scenario.ordered;
        if let (Some(_), Ok(filter)) = (order, Filter::new(FILTER)) {
            let policy = GroupPolicy::new(filter);
            limits.group_policies = [GroupPolicy { order, ..policy }].into();
        }
        let seed = Random::new(scenario.seed).draw();
        let mut broker = Broker {
            kernel: Kernel::new(limits, ShardId(0), 1, seed),
            outbox: Outbox::default(),
            publishers: Vec::new(),
            addresses: Vec::new(),
            payload: Vec::new(),
            spare: Vec::new(),
            ticket: 0,
            workers: scenario.workers.len(),
            expiry: match is_journaled {
                true => Span::from_secs(3600),
                false => Span::ZERO,
            },
        };
        for key in 0..scenario.keys.clamp(1, KEYS_MAX) {
            let link = (broker.workers as u64 + key) as u32;
            let publisher = broker.open(&format!("publisher-{key}"), link, now);
            broker.publishers.push(publisher);
            broker.addresses.push(format!("e5/{key}"));
        }
        broker
    }

    fn open(&mut self, client: &str, link: u32, now: Time) -> SessionId {
        let open = OpenSession {
            expiry: if (link as usize) < self.workers {
                self.expiry
            } else {
                Span::ZERO
            },
            in_flight_max: Some(u16::MAX),
            ..OpenSession::of_link(client, LinkId(link), Access::ALL, "simulated")
        };
        let opened = self
            .kernel
            .open_session(open, now, &mut self.outbox)
            .expect("sessions are not that many");
        self.kernel.start(opened.session, now, &mut self.outbox);
        opened.session
    }

    /// A worker connects and joins the group.
    pub(super) fn join(
        &mut self,
        worker: usize,
        reliability: Reliability,
        terms: WorkTerms,
        now: Time,
    ) -> SessionId {
        let session = self.open(&format!("worker-{worker}"), worker as u32, now);
        if terms != WorkTerms::default() {
            self.kernel.set_work_terms(session, None, terms, now);
        }
        let wish = Wish {
            filter: FILTER,
            group: Some(GROUP),
            reliability,
            no_local: false,
            retain_as_published: false,
            last_values: LastValueWish::Never,
            id: 0,
        };
        self.kernel
            .subscribe(session, 1, &[wish], now, &mut self.outbox);
        session
    }

    /// A message is published.
    pub(super) fn publish(
        &mut self,
        number: usize,
        job: &Job,
        reliability: Reliability,
        now: Time,
    ) {
        self.payload.clear();
        self.payload.extend((number as u64).to_le_bytes());
        self.payload.resize((job.size as usize).max(8), 0);
        let at = (job.key % KEYS_MAX) as usize;
        let (publisher, address) = (self.publishers[at], &self.addresses[at]);
        if reliability == Reliability::ExactlyOnce {
            self.ticket = self.ticket.checked_add(1).unwrap_or(1);
        }
        let draft = Draft {
            address,
            payload: &self.payload,
            reliability,
            retain: RetainOp::None,
            expires_in: None,
            priority: 0,
            properties: None,
            ticket: self.ticket,
            native: None,
            stamp: None,
        };
        self.kernel.publish(publisher, draft, now, &mut self.outbox);
        if reliability == Reliability::ExactlyOnce {
            self.kernel
                .release(publisher, self.ticket, &mut self.outbox);
        }
    }

    pub(super) fn fire(&mut self, now: Time) {
        self.kernel.on_timeout(now, &mut self.outbox);
        if self.kernel.has_work() {
            self.kernel.work(now, &mut self.outbox);
        }
    }

    /// What the kernel has asked for since it was last looked at; `asked` is emptied first. The number of the batch that
    /// what is held in it waits for.
    pub(super) fn asked(&mut self, asked: &mut Vec<(usize, Asked)>) -> u64 {
        let batch = self.kernel.batch_number();
        // What is persisted is as safe as the scenario says; it is not read again here.
        self.spare = (self.kernel.take_batch(std::mem::take(&mut self.spare)))
            .map_or_else(Vec::new, |batch| batch.bytes);
        self.spare.clear();
        asked.clear();
        std::mem::swap(asked, &mut self.outbox.0);
        asked.retain(|(worker, _)| *worker < self.workers);
        batch
    }
}

/// The number of the job in a payload.
fn number(payload: &[u8]) -> usize {
    payload
        .first_chunk()
        .map_or(usize::MAX, |bytes| u64::from_le_bytes(*bytes) as usize)
}

impl Effects for Outbox {
    fn deliver(&mut self, link: LinkId, content: &Content<'_>, delivery: &Delivery<'_>) -> Sent {
        let asked = Asked::Deliver {
            job: number(content.payload()),
            tag: delivery.tag as Tag,
            redelivered: delivery.deliveries > 0,
        };
        self.push(link, asked);
        Sent::Room
    }

    fn release(&mut self, link: LinkId, tag: Tag) {
        self.push(link, Asked::Release(tag));
    }

    fn answer(&mut self, _: LinkId, _: Ticket, _: Answer<'_>) {}

    fn observe(&mut self, _: LinkId, _: u64, _: Observed<'_>) {}

    fn disconnect(&mut self, link: LinkId, why: CloseReason) {
        self.push(link, Asked::Close(why));
    }

    // One shard, no queues with names, no last values: nothing of the rest is ever asked for.

    fn consumer_ended(&mut self, _: LinkId, _: u16, _: ConsumerEnd) -> bool {
        false
    }

    fn hold(&mut self, link: LinkId, _: u64) {
        self.push(link, Asked::Hold);
    }
}
