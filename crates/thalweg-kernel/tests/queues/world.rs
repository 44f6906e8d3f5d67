//! Kernels, their links, the mail between them and their journals.

pub use crate::dice::Dice;
use crate::disk::Disk;
pub use crate::kernels::{Who, draft};
use crate::kernels::{balance, dropped, kernels, session, sum};
pub use crate::recorder::{Apart, Event, Got, payload};
use crate::recorder::{Link, Out};
use crate::slow_mail::SlowMail;
use std::cell::Cell;
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    BindSpec, BindTo, CloseReason, Closing, ConsumeSpec, DeadLetter, Deleted, Draft, DropReason,
    ExchangeKind, ExchangeSpec, Grants, GroupStrategy, Kernel, LastValueWish, Limits, LinkId,
    OpenSession, Outcome, Part, Purged, QueueLimits, QueueSpec, QueueStatus, QueueView, Refusal,
    Settled, ShardId, Subscribed, Tag, Tags, Ticket, Verdict, Will, Wish, exchange_address, home,
    queue_address,
};
use thalweg_model::{Properties, PropertyValue, Reliability, Span, Time};

pub struct World {
    pub now: Time,
    pub kernels: Vec<Kernel>,
    /// Somebody has begun one, and messages are held there.
    pub has_transaction: bool,
    /// Mail between shards moves only when it is carried.
    pub is_slow: bool,
    pub slow: SlowMail,
    /// Commands take no time; otherwise no two happen in one moment.
    pub clock_stands: bool,
    /// Work that a kernel has deferred waits until a test runs it.
    pub turns_wait: bool,
    /// Batches are written, and only [`World::sync`] says that they are safe.
    pub is_disk_slow: bool,
    /// Batches that are safe as soon as all mail has arrived, by shard.
    pub written: Vec<(u16, u64)>,
    limits: Limits,
    /// Rights of clients, by client and user, after a restart or [`World::renew`].
    pub access: fn(&str, Option<&str>) -> Access,
    pub out: Out,
    pub disk: Disk,
    clients: u32,
    pub cookies: u64,
    checks: Cell<u32>,
}

/// A queue's terms beside its name.
#[derive(Clone, Default)]
pub struct Terms {
    pub durable: bool,
    pub exclusive: bool,
    pub auto_delete: bool,
    pub limits: QueueLimits,
}

impl Terms {
    pub fn durable() -> Terms {
        Terms {
            durable: true,
            ..Terms::default()
        }
    }

    pub fn exclusive() -> Terms {
        Terms {
            exclusive: true,
            ..Terms::default()
        }
    }

    pub fn auto_delete() -> Terms {
        Terms {
            auto_delete: true,
            ..Terms::default()
        }
    }

    /// With a change to the limits.
    pub fn with(mut self, change: impl FnOnce(&mut QueueLimits)) -> Terms {
        change(&mut self.limits);
        self
    }
}

/// A consumer's terms; the default is one that settles on line 1, without bounds.
#[derive(Clone, Copy)]
pub struct Taking {
    pub line: u16,
    pub credit: u32,
    pub settles: bool,
    pub exclusive: bool,
    pub priority: i32,
    pub no_local: bool,
    pub filter: Option<&'static str>,
}

impl Default for Taking {
    fn default() -> Self {
        Taking {
            line: 1,
            credit: 0,
            settles: true,
            exclusive: false,
            priority: 0,
            no_local: false,
            filter: None,
        }
    }
}

impl Taking {
    pub fn selected(filter: &'static str) -> Taking {
        Taking {
            filter: Some(filter),
            ..Taking::default()
        }
    }

    pub fn credit(credit: u32) -> Taking {
        Taking {
            credit,
            ..Taking::default()
        }
    }

    pub fn blindly() -> Taking {
        Taking {
            settles: false,
            ..Taking::default()
        }
    }

    pub fn on(line: u16) -> Taking {
        Taking {
            line,
            ..Taking::default()
        }
    }

    pub fn priority(priority: i32) -> Taking {
        Taking {
            priority,
            ..Taking::default()
        }
    }
}

/// One that is written down in durable queues.
pub fn firm<'a>(address: &'a str, text: &'a str) -> Draft<'a> {
    Draft {
        reliability: Reliability::AtLeastOnce,
        ..draft(address, text)
    }
}

/// `$q/name`.
pub fn q(name: &str) -> String {
    queue_address("", name)
}

/// `$x/name`.
pub fn x(name: &str) -> String {
    exchange_address("", name)
}

/// A dead letter goes to this queue.
pub fn to_queue(name: &str) -> Option<DeadLetter> {
    Some(DeadLetter {
        exchange: "".into(),
        key: Some(name.into()),
    })
}

pub fn text(name: &str, value: &str) -> (Box<str>, PropertyValue) {
    (name.into(), PropertyValue::Text(value.into()))
}

pub fn headers(user: &[(&str, &str)]) -> Properties {
    Properties {
        user: user.iter().map(|(name, value)| text(name, value)).collect(),
        ..Properties::default()
    }
}

impl World {
    /// One shard, with a journal.
    pub fn new() -> World {
        World::with(1, Limits::default())
    }

    pub fn with(shards: u16, limits: Limits) -> World {
        let ledger_prefixes = ["$q", "$x", "$q@plant", "a", "a%2Fb", "b", "k", "t", "x"]
            .map(Into::into)
            .into();
        World::without_prefixes(
            shards,
            Limits {
                ledger_prefixes,
                ..limits
            },
        )
    }

    pub fn in_turns(shards: u16) -> World {
        World::with(
            shards,
            Limits {
                group_strategy: GroupStrategy::RoundRobin,
                ..Limits::default()
            },
        )
    }

    /// Long queues are on disk only where no books are kept by prefix.
    pub fn without_prefixes(shards: u16, limits: Limits) -> World {
        World::of(
            shards,
            Limits {
                journal: true,
                ..limits
            },
        )
    }

    /// Without a journal, for tests without persistence: time advances with each command, and deferred work waits.
    pub fn unwritten(shards: u16, limits: Limits) -> World {
        World {
            clock_stands: false,
            turns_wait: true,
            ..World::of(shards, limits)
        }
    }

    fn of(shards: u16, limits: Limits) -> World {
        let kernels = kernels(&limits, shards);
        let now = Time::from_secs(1_000);
        World {
            now,
            kernels,
            has_transaction: false,
            is_slow: false,
            slow: SlowMail::default(),
            clock_stands: true,
            turns_wait: false,
            is_disk_slow: false,
            written: Vec::new(),
            limits,
            access: |_, _| Access::ALL,
            out: Out::default(),
            disk: Disk::default(),
            clients: 0,
            cookies: 0,
            checks: Cell::new(0),
        }
    }

    /// The shard of all queues.
    pub fn home(&self) -> usize {
        self.kernels
            .iter()
            .position(Kernel::has_queues)
            .expect("one has them")
    }

    /// Does something on a shard, and all that follows from it; then the books must balance.
    pub fn run<R>(&mut self, shard: usize, f: impl FnOnce(&mut Kernel, &mut Out, Time) -> R) -> R {
        if !self.clock_stands {
            self.now += Span::from_nanos(1_000);
        }
        self.out.shard = shard as u16;
        let result = f(&mut self.kernels[shard], &mut self.out, self.now);
        self.out.batch_last = self.kernels[shard].batch_number();
        self.write();
        self.end_command();
        self.check();
        result
    }

    /// Takes what the shard has for others than its peers, records first.
    pub fn write(&mut self) {
        let from = ShardId(self.out.shard);
        let kernel = &mut self.kernels[usize::from(from.0)];
        if let Some(batch) = kernel.take_batch(Vec::new()) {
            if !batch.bytes.is_empty() {
                let place = self.disk.write(batch.bytes);
                kernel.on_written(batch.frame, place);
            }
            if self.is_slow && !self.is_disk_slow {
                kernel.batch_is_safe(batch.number, self.now, &mut self.out);
            } else if !self.is_disk_slow {
                self.written.push((from.0, batch.number));
            }
        }
        let mails = kernel.take_outbox().into_iter();
        self.out
            .mails
            .extend(mails.map(|(to, mail)| (from, to, mail)));
        let fetches = kernel.take_fetches().into_iter();
        (self.out.fetches).extend(fetches.map(|fetch| (from.0, fetch)));
    }

    /// All written frames are durable, and later ones as soon as they are written.
    pub fn sync(&mut self) {
        self.is_disk_slow = false;
        for shard in 0..self.kernels.len() {
            self.run(shard, |kernel, out, now| {
                kernel.batch_is_safe(kernel.batch_number() - 1, now, out);
            });
        }
    }

    /// Invariants after every command.
    pub fn check(&self) {
        let copies = balance(&self.kernels);
        for kernel in &self.kernels {
            // Long queues are not counted after every command: that takes a minute and a half.
            self.checks.set(self.checks.get() + 1);
            if copies < 100 || !self.limits.journal || self.checks.get().is_multiple_of(50) {
                kernel.recount().expect("the books are right");
            }
            if !self.limits.journal {
                let values = kernel.totals().retained + kernel.totals().kept_values;
                if kernel.totals().watches + values == 0 {
                    assert_eq!(kernel.bytes_held(), 0, "bytes of nothing");
                }
                // Undelivered notifications of watchers wait, too, and are not counted one by one.
                continue;
            }
            let mut in_queues = 0;
            kernel.for_each_queue(|queue| in_queues += queue.messages);
            let mut elsewhere = 0;
            kernel.for_each_session(|session| elsewhere += session.waiting);
            kernel.for_each_group(self.now, |group| elsewhere += group.waiting);
            assert_eq!(kernel.totals().waiting, in_queues + elsewhere, "what waits");
            if kernel.totals().waiting + kernel.totals().in_flight == 0 && !self.has_transaction {
                assert_eq!(kernel.totals().queued_bytes, 0, "bytes of nothing");
            }
        }
        if !self.limits.journal {
            return;
        }
        // The books by prefix cover all addresses that are used with a journal.
        let outstanding: u64 = self
            .kernels
            .iter()
            .flat_map(|kernel| kernel.accounts().map(|(_, it)| it.outstanding()))
            .sum();
        // Entries that an earlier run left on disk are booked by prefix only when their address is known.
        if !self.limits.ledger_prefixes.is_empty()
            && sum(&self.kernels, |ledger| ledger.restored) == 0
        {
            assert_eq!(outstanding, copies, "the books by prefix");
        }
    }

    // --- sessions

    /// Somebody at the shard of the queues.
    pub fn connect(&mut self, name: &str) -> Who {
        self.connect_with(self.home(), name, Access::ALL, Span::ZERO)
    }

    /// A session that outlives its link by this much.
    pub fn connect_with(&mut self, shard: usize, name: &str, access: Access, expiry: Span) -> Who {
        self.login(shard, "", name, access, expiry, None)
    }

    pub fn connect_in(&mut self, tenant: &str, name: &str) -> Who {
        self.login(self.home(), tenant, name, Access::ALL, Span::ZERO, None)
    }

    pub fn connect_with_will(&mut self, shard: usize, name: &str, will: Will) -> Who {
        self.login(
            shard,
            "",
            name,
            Access::ALL,
            Span::from_secs(3600),
            Some(will),
        )
    }

    /// A session for which so many copies wait while its output is full, also at-most-once ones.
    pub fn connect_with_high_water(&mut self, shard: usize, name: &str, high_water: u32) -> Who {
        let link = self.new_link();
        let grants = Grants {
            high_water,
            ..Grants::default()
        };
        let open = OpenSession {
            grants,
            ..session(name, link)
        };
        let opened = self.run(shard, |kernel, out, now| {
            let opened = kernel.open_session(open, now, out).expect("there is room");
            kernel.start(opened.session, now, out);
            opened
        });
        Who {
            shard,
            session: opened.session,
            link,
        }
    }

    fn login(
        &mut self,
        shard: usize,
        tenant: &str,
        name: &str,
        access: Access,
        expiry: Span,
        will: Option<Will>,
    ) -> Who {
        let open = OpenSession {
            fresh: expiry == Span::ZERO,
            expiry,
            will: will.map(Box::new),
            access,
            tenant,
            ..session(name, self.new_link())
        };
        self.start(shard, open).expect("there is room")
    }

    /// Opens a session and starts it; nothing if it is refused.
    pub fn start(&mut self, shard: usize, open: OpenSession<'_>) -> Option<Who> {
        let link = open.link;
        let session = self.run(shard, |kernel, out, now| {
            let session = kernel.open_session(open, now, out).ok()?.session;
            kernel.start(session, now, out);
            Some(session)
        })?;
        Some(Who {
            shard,
            session,
            link,
        })
    }

    /// A name whose home is that shard.
    pub fn name_on(&mut self, shard: usize) -> String {
        loop {
            self.clients += 1;
            let name = format!("client-{}", self.clients);
            if usize::from(home(&name, self.kernels.len() as u16).0) == shard {
                return name;
            }
        }
    }

    pub fn new_link(&mut self) -> LinkId {
        self.out.links.push(Link {
            room: usize::MAX,
            bytes_max: usize::MAX,
            ..Link::default()
        });
        LinkId(self.out.links.len() as u32 - 1)
    }

    /// Its link is lost.
    pub fn lose(&mut self, who: Who) {
        self.close(who, Closing::Lost);
    }

    pub fn close(&mut self, who: Who, how: Closing) {
        self.run(who.shard, |kernel, out, now| {
            kernel.close_link(who.session, who.link, how, None, now, out)
        });
    }

    pub fn subscribe(
        &mut self,
        who: Who,
        filter: &str,
        group: Option<&str>,
        reliability: Reliability,
    ) -> Subscribed {
        self.ask_for(who, &wish(filter, group, reliability));
        let answer = self.out.link(who.link).subscribed.pop();
        answer.expect("every subscribe is answered")
    }

    /// The same with a content filter.
    pub fn subscribe_if(
        &mut self,
        who: Who,
        (filter, group): (&str, Option<&str>),
        reliability: Reliability,
        condition: Option<&str>,
    ) -> Subscribed {
        let condition = condition.map(|text| Arc::new(Predicate::parse(text).expect("a filter")));
        let wish = wish(filter, group, reliability);
        self.run(who.shard, |kernel, out, now| {
            kernel.subscribe_if(who.session, 1, &[wish], condition, now, out)
        });
        let answer = self.out.link(who.link).subscribed.pop();
        answer.expect("every subscribe is answered")
    }

    /// Subscribes without waiting for the answer.
    pub fn ask_for(&mut self, who: Who, wish: &Wish<'_>) {
        self.run(who.shard, |kernel, out, now| {
            kernel.subscribe(who.session, 1, std::slice::from_ref(wish), now, out)
        });
    }

    /// Number of its subscriptions answered since the last call.
    pub fn answers(&mut self, who: Who) -> usize {
        self.out.link(who.link).subscribed.drain(..).count()
    }

    /// Texts of what comes to a receiver, which settles each after it has come, until nothing more does.
    pub fn works(&mut self, who: Who) -> Vec<String> {
        let mut texts = Vec::new();
        loop {
            let got = self.got(who);
            if got.is_empty() {
                return texts;
            }
            for got in got {
                match got.is_delivery {
                    true => drop(self.settle_delivery(who, got.tag)),
                    false => self.ack(who, got.tag),
                }
                texts.push(got.text);
            }
            self.wait(Span::from_millis(1));
        }
    }

    /// Settles what came through a subscription.
    pub fn settle_delivery(&mut self, who: Who, tag: u64) -> Settled {
        self.run(who.shard, |kernel, out, now| {
            kernel.settle(who.session, tag as Tag, Verdict::Accept, now, out)
        })
    }

    pub fn unsubscribe(&mut self, who: Who, filter: &str, group: Option<&str>) {
        self.run(who.shard, |kernel, out, now| {
            kernel.unsubscribe(who.session, 1, &[(filter, group)], now, out)
        });
    }

    // --- queues and exchanges

    pub fn declare(&mut self, who: Who, name: &str, terms: &Terms) -> Result<QueueStatus, Refusal> {
        let Terms {
            durable,
            exclusive,
            auto_delete,
            limits,
        } = terms.clone();
        let spec = QueueSpec {
            address: &q(name),
            durable,
            exclusive,
            is_named_by_broker: false,
            auto_delete,
            limits,
        };
        self.run(who.shard, |kernel, out, now| {
            kernel.declare_queue(who.session, &spec, now, out)
        })
    }

    /// A queue that must be new.
    pub fn queue(&mut self, who: Who, name: &str, terms: &Terms) {
        let status = self.declare(who, name, terms).expect("it may be declared");
        assert_eq!(
            status,
            QueueStatus {
                existed: false,
                messages: 0,
                consumers: 0
            }
        );
    }

    pub fn inspect(&self, who: Who, name: &str) -> Result<QueueStatus, Refusal> {
        self.kernels[who.shard].inspect_queue(who.session, &q(name))
    }

    /// Number of messages that wait in a queue.
    pub fn waits(&self, name: &str) -> usize {
        self.view(name).expect("there is such a queue").messages
    }

    pub fn view(&self, name: &str) -> Option<QueueView> {
        let (address, mut found) = (q(name), None);
        self.kernels[self.home()].for_each_queue(|view| {
            if *view.address == *address {
                found = Some(view);
            }
        });
        found
    }

    pub fn exchange(&mut self, who: Who, name: &str, kind: ExchangeKind) {
        let spec = exchange_spec(kind);
        self.declare_exchange(who, name, &spec)
            .expect("it may be declared");
    }

    /// The spec's address is replaced.
    pub fn declare_exchange(
        &mut self,
        who: Who,
        name: &str,
        spec: &ExchangeSpec<'_>,
    ) -> Result<(), Refusal> {
        let address = x(name);
        let spec = ExchangeSpec {
            address: &address,
            ..spec.clone()
        };
        self.run(who.shard, |kernel, out, _| {
            kernel.declare_exchange(who.session, &spec, out)
        })
    }

    pub fn bind(&mut self, who: Who, exchange: &str, queue: &str, key: &str) {
        self.bind_with(who, exchange, queue, key, &[])
            .expect("it may be bound");
    }

    pub fn bind_with(
        &mut self,
        who: Who,
        exchange: &str,
        queue: &str,
        key: &str,
        arguments: &[(Box<str>, PropertyValue)],
    ) -> Result<(), Refusal> {
        self.bind_to(who, exchange, BindTo::Queue(&q(queue)), key, arguments)
    }

    pub fn unbind(
        &mut self,
        who: Who,
        exchange: &str,
        queue: &str,
        key: &str,
    ) -> Result<(), Refusal> {
        let spec = BindSpec {
            exchange: &x(exchange),
            to: BindTo::Queue(&q(queue)),
            key,
            arguments: &[],
        };
        self.run(who.shard, |kernel, out, _| {
            kernel.unbind(who.session, &spec, out)
        })
    }

    /// From exchange to exchange.
    pub fn lead(
        &mut self,
        who: Who,
        from: &str,
        to: &str,
        key: &str,
        arguments: &[(Box<str>, PropertyValue)],
    ) -> Result<(), Refusal> {
        self.bind_to(who, from, BindTo::Exchange(&x(to)), key, arguments)
    }

    fn bind_to(
        &mut self,
        who: Who,
        exchange: &str,
        to: BindTo<'_>,
        key: &str,
        arguments: &[(Box<str>, PropertyValue)],
    ) -> Result<(), Refusal> {
        let spec = BindSpec {
            exchange: &x(exchange),
            to,
            key,
            arguments,
        };
        self.run(who.shard, |kernel, out, _| {
            kernel.bind(who.session, &spec, out)
        })
    }

    /// All of a deletion; how many messages were in the queue.
    pub fn delete_queue(&mut self, who: Who, name: &str) -> Result<u64, Refusal> {
        loop {
            if let Deleted::Gone(messages) = self.delete_some(who, name)? {
                return Ok(messages);
            }
        }
    }

    /// One call of a deletion.
    pub fn delete_some(&mut self, who: Who, name: &str) -> Result<Deleted, Refusal> {
        self.run(who.shard, |kernel, out, now| {
            kernel.delete_queue(who.session, &q(name), false, false, now, out)
        })
    }

    /// One call of a purge, of which an earlier one left so many.
    pub fn purge_some(
        &mut self,
        who: Who,
        name: &str,
        left: Option<u64>,
    ) -> Result<Purged, Refusal> {
        self.run(who.shard, |kernel, out, now| {
            kernel.purge_queue(who.session, &q(name), left, now, out)
        })
    }

    /// All of a purge; how many messages.
    pub fn purge(&mut self, who: Who, name: &str) -> Result<u64, Refusal> {
        let mut purged = self.purge_some(who, name, None)?;
        let mut count = purged.count;
        while purged.left > 0 {
            purged = self.purge_some(who, name, Some(purged.left))?;
            count += purged.count;
        }
        Ok(count)
    }

    // --- messages

    pub fn publish(&mut self, who: Who, draft: Draft<'_>) -> Outcome {
        let (outcome, question) = self.run(who.shard, |kernel, out, now| {
            let published = kernel.publish(who.session, draft, now, out);
            (published.outcome, kernel.question())
        });
        self.decided(who, outcome, question)
    }

    /// The outcome in the end, if other shards are asked about a publish.
    pub fn decided(&mut self, who: Who, outcome: Outcome, question: u64) -> Outcome {
        if outcome != Outcome::Asked {
            return outcome;
        }
        let batch = self.out.batch_last;
        let link = self.out.link(who.link);
        (link.held, link.held_in) = (true, batch);
        match link.published.iter().find(|(of, _)| *of == question) {
            Some((_, true)) => Outcome::Refused,
            _ => Outcome::Accepted,
        }
    }

    /// At least once, into a queue.
    pub fn put(&mut self, who: Who, queue: &str, text: &str) -> Outcome {
        self.publish(who, firm(&q(queue), text))
    }

    /// At least once, through an exchange.
    pub fn send(&mut self, who: Who, exchange: &str, key: &str, text: &str) -> Outcome {
        self.send_with(who, exchange, key, text, None)
    }

    pub fn send_with(
        &mut self,
        who: Who,
        exchange: &str,
        key: &str,
        text: &str,
        properties: Option<&Properties>,
    ) -> Outcome {
        let mut address = String::new();
        // The exchanges are where the queues are.
        self.kernels[self.home()]
            .address_in(&x(exchange), key, &mut address)
            .expect("an address");
        self.publish(
            who,
            Draft {
                properties,
                ..firm(&address, text)
            },
        )
    }

    pub fn consume(&mut self, who: Who, queue: &str, number: u32, taking: Taking) {
        self.consume_from(who, &q(queue), number, taking)
            .expect("it may consume");
    }

    pub fn consume_from(
        &mut self,
        who: Who,
        source: &str,
        number: u32,
        taking: Taking,
    ) -> Result<(), Refusal> {
        let Taking {
            line,
            credit,
            settles,
            exclusive,
            priority,
            no_local,
            filter,
        } = taking;
        let filter = filter.map(|text| Arc::new(Predicate::parse(text).expect("a filter")));
        let spec = ConsumeSpec {
            source,
            line,
            consumer: number,
            credit,
            settles,
            exclusive,
            priority,
            no_local,
            filter,
        };
        self.run(who.shard, |kernel, out, now| {
            kernel.consume(who.session, &spec, now, out)
        })
    }

    pub fn cancel(&mut self, who: Who, line: u16, consumer: u32) -> bool {
        self.run(who.shard, |kernel, out, now| {
            kernel.cancel(who.session, line, consumer, now, out)
        })
    }

    pub fn settle(
        &mut self,
        who: Who,
        line: u16,
        tag: u64,
        multiple: bool,
        verdict: Verdict,
    ) -> Settled {
        self.run(who.shard, |kernel, out, now| {
            let tags = Tags::new(tag, multiple);
            kernel.settle_line(who.session, line, tags, verdict, now, out)
        })
    }

    /// Settles one of line 1.
    pub fn ack(&mut self, who: Who, tag: u64) {
        self.judge(who, tag, Verdict::Accept);
    }

    /// One of line 1 is not wanted.
    pub fn reject(&mut self, who: Who, tag: u64) {
        self.judge(who, tag, Verdict::Reject);
    }

    /// One of line 1 is to come again.
    pub fn requeue(&mut self, who: Who, tag: u64) {
        self.judge(who, tag, Verdict::Requeue);
    }

    fn judge(&mut self, who: Who, tag: u64, verdict: Verdict) {
        let settled = self.settle(who, 1, tag, false, verdict);
        assert_eq!(settled, Settled::Known, "tag {tag}");
    }

    /// Asks for one message on line 1.
    pub fn take(&mut self, who: Who, queue: &str, settles: bool) -> Result<Option<u64>, Refusal> {
        self.run(who.shard, |kernel, out, now| {
            kernel.take_one(who.session, 1, &q(queue), settles, now, out)
        })
    }

    /// Takes one message by itself, from any shard.
    pub fn take_apart(&mut self, who: Who, queue: &str) -> Result<Option<Apart>, Refusal> {
        match (self.ask_apart(who, queue), self.taken(who)) {
            (Ok(()), Some((7, taken))) => taken,
            (Err(refusal), None) => Err(refusal),
            other => panic!("{other:?} instead of one answer"),
        }
    }

    /// The same without waiting for the answer.
    pub fn ask_apart(&mut self, who: Who, queue: &str) -> Result<(), Refusal> {
        self.ask_apart_if(who, queue, None)
    }

    /// The same of the first that passes a content filter.
    pub fn ask_apart_if(
        &mut self,
        who: Who,
        queue: &str,
        filter: Option<&str>,
    ) -> Result<(), Refusal> {
        let filter = filter.map(|text| Arc::new(Predicate::parse(text).expect("a filter")));
        self.run(who.shard, |kernel, out, now| {
            kernel.take_apart(who.session, who.link, 7, (&q(queue), filter), now, out)
        })
    }

    /// Has a queue made if there is none, from any shard.
    pub fn make_queue(&mut self, who: Who, queue: &str) -> Result<(), Refusal> {
        let asked = self.run(who.shard, |kernel, out, now| {
            kernel.make_queue(who.session, who.link, 6, (&q(queue), None), now, out)
        });
        match (asked, self.out.link(who.link).made.pop_front()) {
            (Ok(()), Some((6, made))) => made,
            (Err(refusal), None) => Err(refusal),
            other => panic!("{other:?} instead of one answer"),
        }
    }

    /// The next answer to a client that polls messages.
    pub fn taken(&mut self, who: Who) -> Option<(Ticket, Result<Option<Apart>, Refusal>)> {
        self.out.link(who.link).taken.pop_front()
    }

    pub fn settle_taken(&mut self, who: Who, taken: &Apart, verdict: Verdict) {
        self.run(who.shard, |kernel, out, now| {
            kernel.settle_taken(taken.id, verdict, now, out)
        });
    }

    /// All that came to a link since this was asked last.
    pub fn events(&mut self, who: Who) -> Vec<Event> {
        self.out.link(who.link).events.drain(..).collect()
    }

    /// Messages that arrived since the last call.
    pub fn got(&mut self, who: Who) -> Vec<Got> {
        self.out.link(who.link).got.drain(..).collect()
    }

    pub fn texts(&mut self, who: Who) -> Vec<String> {
        self.got(who).into_iter().map(|got| got.text).collect()
    }

    /// Takes all that waits in a queue out of it, one by one, and settles it: texts in their order.
    pub fn drain(&mut self, queue: &str) -> Vec<Got> {
        let who = self.connect("drain");
        while self.take(who, queue, false).expect("it may take").is_some() {}
        let got = self.got(who);
        self.lose(who);
        got
    }

    pub fn drain_texts(&mut self, queue: &str) -> Vec<String> {
        self.drain(queue).into_iter().map(|got| got.text).collect()
    }

    /// Consumers that ended since this was asked last.
    pub fn ended(&mut self, who: Who) -> Vec<(u16, u32)> {
        std::mem::take(&mut self.out.link(who.link).ended)
    }

    /// From now on one of its lines can be ended alone.
    pub fn let_lines_end(&mut self, who: Who) {
        self.out.link(who.link).ends_lines = true;
    }

    /// Lines that were ended for their silence.
    pub fn lines_ended(&mut self, who: Who) -> Vec<u16> {
        self.out.link(who.link).lines_ended.clone()
    }

    /// Whether what a link is sent waits for the journal since this was asked last.
    pub fn was_held(&mut self, who: Who) -> bool {
        std::mem::take(&mut self.out.link(who.link).held)
    }

    /// Whether it waits for all that the last command has persisted and sent to other shards.
    pub fn was_held_behind_all(&mut self, who: Who) -> bool {
        let batch = self.out.batch_last;
        self.was_held(who) && self.out.link(who.link).held_in == batch
    }

    /// Remaining capacity of an output in messages.
    pub fn set_room(&mut self, who: Who, room: usize) {
        self.out.link(who.link).room = room;
    }

    /// The output has capacity for so many more, and the kernel is notified.
    pub fn make_room(&mut self, who: Who, room: usize) {
        self.set_room(who, room);
        self.run(who.shard, |kernel, out, now| {
            kernel.link_writable(who.session, who.link, now, out)
        });
    }

    /// The peer takes no longer messages.
    pub fn set_bytes_max(&mut self, who: Who, bytes: usize) {
        self.out.link(who.link).bytes_max = bytes;
    }

    // --- time and crashes

    /// Time advances, and due timers run.
    pub fn wait(&mut self, span: Span) {
        self.now += span;
        for shard in 0..self.kernels.len() {
            let mut has_more = true;
            while has_more {
                self.run(shard, |kernel, out, now| kernel.on_timeout(now, out));
                has_more = self.kernels[shard].poll_timeout() <= self.now + Span::from_nanos(1);
                self.now += Span::from_nanos(u64::from(has_more));
            }
            if self.turns_wait {
                self.run(shard, |kernel, out, now| kernel.work(now, out));
            }
        }
    }

    /// The process ends, and another one takes up what was written.
    pub fn restart(&mut self) {
        self.restart_as(self.kernels.len() as u16);
    }

    pub fn restart_as(&mut self, shards: u16) {
        self.out.mails.clear();
        self.slow.under_way.clear();
        self.out.fetches.clear();
        for link in &mut self.out.links {
            link.closed = Some(CloseReason::ShuttingDown);
        }
        self.kernels = kernels(&self.limits, shards);
        let parts = Part::split(self.disk.fold(), shards);
        for (shard, part) in parts.into_iter().enumerate() {
            self.out.shard = shard as u16;
            let (disk, kernel) = (&self.disk, &mut self.kernels[shard]);
            kernel.restore(
                part,
                &mut |place, len| disk.read(place, len),
                &self.access,
                self.now,
                &mut self.out,
            );
            self.write();
        }
        self.end_command();
        self.check();
        self.wait(Span::ZERO);
    }

    /// The rules have changed.
    pub fn renew(&mut self, access: fn(&str, Option<&str>) -> Access) {
        self.access = access;
        (0..self.kernels.len())
            .for_each(|shard| self.run(shard, |kernel, _, _| kernel.renew_access(access)));
    }

    /// Number of entries in the journal.
    pub fn entries_written(&self) -> usize {
        self.disk.state.counts().entries
    }

    /// Queues, exchanges, bindings and groups in the journal.
    pub fn groups_written(&self) -> usize {
        self.disk.state.counts().groups
    }

    /// Why a link was ended, if it was.
    pub fn closed(&mut self, who: Who) -> Option<CloseReason> {
        self.out.link(who.link).closed
    }

    /// Number of messages that wait in groups.
    pub fn waiting_in_groups(&self) -> usize {
        let mut waiting = 0;
        self.kernels
            .iter()
            .for_each(|kernel| kernel.for_each_group(self.now, |group| waiting += group.waiting));
        waiting
    }

    pub fn expired(&self) -> usize {
        sum(&self.kernels, |ledger| ledger.expired) as usize
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        dropped(&self.kernels, reason)
    }
}

/// A subscription that gets no last values.
pub fn wish<'a>(filter: &'a str, group: Option<&'a str>, reliability: Reliability) -> Wish<'a> {
    Wish {
        filter,
        group,
        reliability,
        no_local: false,
        retain_as_published: false,
        last_values: LastValueWish::Never,
        id: 0,
    }
}

/// A durable exchange of a kind; its address is filled in later.
pub fn exchange_spec(kind: ExchangeKind) -> ExchangeSpec<'static> {
    ExchangeSpec {
        address: "",
        kind,
        durable: true,
        auto_delete: false,
        internal: false,
        alternate: None,
    }
}
