//! Kernels, their links and the mail between them.

pub use crate::dice::Dice;
pub use crate::kernels::{Who, draft};
use crate::kernels::{balance, dropped, kernels, session};
use std::collections::{BTreeMap, VecDeque};
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    Answer, Change, CloseReason, Closing, ConsumerEnd, Delivery, Draft, DropReason, Effects,
    Handover, Kernel, KnownAs, LastValueWish, Limits, LinkId, ListSpec, Observed, OpenSession,
    Outcome, Sent, ShardId, ShardMessage, Tag, Ticket, WatchEnd, WatchId, WatchRefused, WatchSpec,
    Wish, home,
};
use thalweg_model::{Message, Properties, Reliability, RetainOp, Span, Time};

/// What came to a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Ready(u64, Option<String>),
    Changed(u64),
    Ended(u64, WatchEnd),
    Read(Ticket, Option<String>),
    /// `address=text`, and whether these are all.
    Listed(Ticket, Vec<String>, bool),
    /// Through a subscription; whether as a retained message.
    Delivered(String, bool),
}

/// What kernels ask for.
#[derive(Default)]
pub struct Out {
    links: Vec<VecDeque<Event>>,
    /// Links whose subscriptions were answered.
    answered: Vec<LinkId>,
}

pub fn text(message: &Message) -> String {
    String::from_utf8_lossy(message.payload()).into_owned()
}

impl Out {
    fn tell(&mut self, link: LinkId, event: Event) {
        self.links[link.0 as usize].push_back(event);
    }
}

impl Effects for Out {
    fn deliver(&mut self, link: LinkId, delivery: &Delivery<'_>) -> Sent {
        let text = String::from_utf8_lossy(delivery.payload).into_owned();
        self.tell(link, Event::Delivered(text, delivery.retain));
        Sent::Room
    }

    fn release(&mut self, _: LinkId, _: Tag) {}

    fn answer(&mut self, link: LinkId, ticket: Ticket, answer: Answer<'_>) {
        match answer {
            Answer::Value(value) => self.tell(link, Event::Read(ticket, value.map(text))),
            Answer::Values { values, complete } => {
                let shown = values
                    .iter()
                    .map(|value| format!("{}={}", value.address(), text(value)))
                    .collect();
                self.tell(link, Event::Listed(ticket, shown, complete));
            }
            _ => self.answered.push(link),
        }
    }

    fn observe(&mut self, link: LinkId, cookie: u64, observed: Observed<'_>) {
        let event = match observed {
            Observed::Ready(value) => Event::Ready(cookie, value.map(text)),
            Observed::Changed => Event::Changed(cookie),
            Observed::Ended(why) => Event::Ended(cookie, why),
        };
        self.tell(link, event);
    }

    fn disconnect(&mut self, _: LinkId, _: CloseReason) {}

    fn hand_over(&mut self, _: LinkId, _: &Handover<'_>) -> Sent {
        Sent::Gone
    }

    fn consumer_ended(&mut self, _: LinkId, _: u16, _: ConsumerEnd) -> bool {
        false
    }

    fn hold(&mut self, _: LinkId, _: u64) {}
}

/// A watch and whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    pub who: Who,
    pub id: WatchId,
    pub cookie: u64,
}

/// See the module.
pub struct World {
    pub now: Time,
    pub kernels: Vec<Kernel>,
    /// Mail is delivered only when that is asked for.
    pub mail_is_slow: bool,
    /// All happens in one moment.
    pub clock_stands: bool,
    out: Out,
    mails: BTreeMap<(u16, u16), VecDeque<ShardMessage>>,
    cookies: u64,
}

/// A draft that becomes the last value.
pub fn retained<'a>(address: &'a str, text: &'a str) -> Draft<'a> {
    Draft {
        retain: RetainOp::Set,
        ..draft(address, text)
    }
}

/// One that clears it.
pub fn clear(address: &str) -> Draft<'_> {
    Draft {
        retain: RetainOp::Clear,
        ..draft(address, "")
    }
}

impl World {
    pub fn new(shards: u16) -> World {
        World::with(shards, Limits::default())
    }

    pub fn with(shards: u16, limits: Limits) -> World {
        let limits = Limits {
            ledger_prefixes: ["a".into(), "b".into()].into(),
            ..limits
        };
        World {
            now: Time::from_secs(1_000),
            kernels: kernels(&limits, shards),
            mail_is_slow: false,
            clock_stands: false,
            out: Out::default(),
            mails: BTreeMap::new(),
            cookies: 0,
        }
    }

    /// Does something on a shard, and all that follows from it unless mail is slow; then the books must balance.
    pub fn run<R>(&mut self, shard: usize, f: impl FnOnce(&mut Kernel, &mut Out, Time) -> R) -> R {
        self.tick();
        let result = f(&mut self.kernels[shard], &mut self.out, self.now);
        self.gather(shard as u16);
        if !self.mail_is_slow {
            self.deliver_mails();
        }
        self.check();
        result
    }

    /// No two moments are the same, unless the clock stands.
    fn tick(&mut self) {
        if !self.clock_stands {
            self.now += Span::from_nanos(1_000);
        }
    }

    /// Pairs of shards between which something is under way.
    pub fn ways(&self) -> Vec<(u16, u16)> {
        self.mails
            .iter()
            .filter(|(_, mails)| !mails.is_empty())
            .map(|(way, _)| *way)
            .collect()
    }

    /// Delivers the oldest mail between two shards.
    pub fn deliver_mail(&mut self, way: (u16, u16)) {
        let Some(mail) = self.mails.get_mut(&way).and_then(VecDeque::pop_front) else {
            return;
        };
        self.tick();
        self.kernels[usize::from(way.1)].on_shard(ShardId(way.0), mail, self.now, &mut self.out);
        self.gather(way.1);
    }

    /// Takes what a shard has for others.
    fn gather(&mut self, shard: u16) {
        for (to, mail) in self.kernels[usize::from(shard)].take_outbox() {
            let way = (shard, to.0);
            self.mails.entry(way).or_default().push_back(mail);
        }
    }

    /// Delivers all mail.
    pub fn deliver_mails(&mut self) {
        while let Some(way) = self.ways().first() {
            self.deliver_mail(*way);
        }
    }

    /// What every command must leave behind.
    pub fn check(&self) {
        for kernel in &self.kernels {
            kernel.recount().expect("the books are right");
        }
        balance(&self.kernels);
        for kernel in &self.kernels {
            if kernel.totals().watches == 0
                && kernel.totals().retained + kernel.totals().kept_values == 0
            {
                assert_eq!(kernel.bytes_held(), 0, "bytes of nothing");
            }
        }
    }

    // --- sessions

    pub fn connect(&mut self, shard: usize) -> Who {
        self.connect_with(shard, Access::ALL)
    }

    pub fn connect_with(&mut self, shard: usize, access: Access) -> Who {
        self.connect_for(shard, access, Span::ZERO)
    }

    /// A session that outlives its link by this much.
    pub fn connect_for(&mut self, shard: usize, access: Access, expiry: Span) -> Who {
        self.connect_in("", shard, access, expiry)
    }

    /// A session in a tenant.
    pub fn connect_in(&mut self, tenant: &str, shard: usize, access: Access, expiry: Span) -> Who {
        let link = self.new_link();
        let name = format!("client-{}", link.0);
        let open = OpenSession {
            expiry,
            access,
            tenant,
            ..session(&name, link)
        };
        self.start(shard, open).expect("there is room")
    }

    fn new_link(&mut self) -> LinkId {
        self.out.links.push(VecDeque::new());
        LinkId(self.out.links.len() as u32 - 1)
    }

    /// Opens a session and starts it; nothing if it is refused.
    fn start(&mut self, shard: usize, open: OpenSession<'_>) -> Option<Who> {
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

    /// A session of this name, whose peer is known by another one; nothing if it is refused.
    pub fn open(
        &mut self,
        shard: usize,
        client: &str,
        known_as: Option<KnownAs<'_>>,
        fresh: bool,
        expiry: Span,
    ) -> Option<Who> {
        self.open_as(None, shard, client, known_as, fresh, expiry)
    }

    pub fn open_as(
        &mut self,
        user: Option<&str>,
        shard: usize,
        client: &str,
        known_as: Option<KnownAs<'_>>,
        fresh: bool,
        expiry: Span,
    ) -> Option<Who> {
        let link = self.new_link();
        let open = OpenSession {
            fresh,
            expiry,
            user: user.map(Into::into),
            known_as,
            ..session(client, link)
        };
        self.start(shard, open)
    }

    pub fn leave(&mut self, who: Who) {
        self.close(who, Closing::Clean);
    }

    pub fn close(&mut self, who: Who, how: Closing) {
        self.run(who.shard, |kernel, out, now| {
            kernel.close_link(who.session, who.link, how, None, now, out)
        });
    }

    pub fn subscribe(&mut self, who: Who, filter: &str) {
        let wish = Wish {
            filter,
            group: None,
            reliability: Reliability::AtMostOnce,
            no_local: false,
            retain_as_published: false,
            last_values: LastValueWish::Always,
            id: 0,
        };
        self.run(who.shard, |kernel, out, now| {
            kernel.subscribe(who.session, 1, &[wish], now, out)
        });
    }

    /// How many of its subscriptions were answered since this was asked last.
    pub fn answers(&mut self, who: Who) -> usize {
        self.out
            .answered
            .extract_if(.., |link| *link == who.link)
            .count()
    }

    pub fn publish(&mut self, who: Who, draft: Draft<'_>) -> Outcome {
        self.run(who.shard, |kernel, out, now| {
            kernel.publish(who.session, draft, now, out).outcome
        })
    }

    /// Not retained.
    pub fn say(&mut self, who: Who, address: &str, text: &str) -> Outcome {
        self.publish(who, draft(address, text))
    }

    pub fn say_with(
        &mut self,
        who: Who,
        address: &str,
        text: &str,
        properties: &Properties,
    ) -> Outcome {
        self.publish(
            who,
            Draft {
                properties: Some(properties),
                ..draft(address, text)
            },
        )
    }

    // --- watches

    pub fn try_watch(
        &mut self,
        who: Who,
        address: &str,
        depth: u16,
    ) -> Result<Watch, WatchRefused> {
        self.cookies += 1;
        let cookie = self.cookies;
        let spec = WatchSpec {
            link: who.link,
            cookie,
            address,
            depth,
        };
        let id = self.run(who.shard, |kernel, out, now| {
            kernel.watch(who.session, spec, now, out)
        })?;
        Ok(Watch { who, id, cookie })
    }

    pub fn watch(&mut self, who: Who, address: &str, depth: u16) -> Watch {
        self.try_watch(who, address, depth).expect("it may watch")
    }

    /// Watches, and says what it begins with.
    pub fn begin(&mut self, who: Who, address: &str, depth: u16) -> (Watch, Option<String>) {
        let watch = self.watch(who, address, depth);
        match &self.events(who)[..] {
            [.., Event::Ready(cookie, value)] if *cookie == watch.cookie => (watch, value.clone()),
            other => panic!("{other:?} instead of the beginning"),
        }
    }

    pub fn take(&mut self, watch: Watch) -> Option<Change> {
        let change = self.run(watch.who.shard, |kernel, _, now| {
            kernel.take_watched(watch.id, now)
        });
        self.check();
        change
    }

    /// All that waits; `-` where the value is gone.
    pub fn take_all(&mut self, watch: Watch) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(change) = self.take(watch) {
            all.push(match change {
                Change::Value(message) => text(&message),
                Change::Gone => "-".into(),
            });
        }
        all
    }

    pub fn unwatch(&mut self, watch: Watch) {
        self.run(watch.who.shard, |kernel, _, now| {
            kernel.unwatch(watch.id, now)
        });
    }

    /// What came to a link since this was asked last.
    pub fn events(&mut self, who: Who) -> Vec<Event> {
        self.out.links[who.link.0 as usize].drain(..).collect()
    }

    // --- reading

    /// Nothing if it may not.
    pub fn read(&mut self, who: Who, address: &str) -> Option<Option<String>> {
        let may = self.run(who.shard, |kernel, out, now| {
            kernel.read_last_value(who.session, who.link, 9, address, now, out)
        });
        match &self.events(who)[..] {
            [Event::Read(9, value)] if may => Some(value.clone()),
            [] if !may => None,
            other => panic!("{other:?} instead of an answer"),
        }
    }

    /// Nothing if it may not.
    pub fn list(&mut self, who: Who, filter: &str, max: usize) -> Option<(Vec<String>, bool)> {
        let may = self.run(who.shard, |kernel, out, now| {
            kernel.list_last_values(who.session, who.link, 8, ListSpec { filter, max }, now, out)
        });
        while let Some(shard) = self.kernels.iter().position(Kernel::has_work) {
            self.run(shard, |kernel, out, now| kernel.work(now, out));
        }
        match &self.events(who)[..] {
            [Event::Listed(8, values, complete)] if may => Some((values.clone(), *complete)),
            [] if !may => None,
            other => panic!("{other:?} instead of an answer"),
        }
    }

    pub fn keep_last(&mut self, shard: usize, address: &str, keep: bool) -> bool {
        self.run(shard, |kernel, _, _| kernel.keep_last(address, keep))
    }

    // --- time

    pub fn wait(&mut self, span: Span) {
        self.now += span;
        for shard in 0..self.kernels.len() {
            self.run(shard, |kernel, out, now| {
                kernel.on_timeout(now, out);
                kernel.work(now, out);
            });
        }
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        dropped(&self.kernels, reason)
    }
}

/// An address whose home is that shard.
pub fn address_at(shard: u16, shards: u16) -> String {
    let all = (0..).map(|number| format!("a/{number}"));
    all.into_iter()
        .find(|address| home(address, shards) == ShardId(shard))
        .expect("one of them is")
}
