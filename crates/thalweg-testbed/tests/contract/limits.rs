//! Every way to a queue with every limit: what was acknowledged is there, dead or counted as the limit's policy says, what
//! was refused is not there, and the queue never holds more than it may.

use crate::peer::{Peer, Place, Protocol, Stage};
use crate::ways::{ADDRESS, Answer, Publisher, QUEUE, Target, Way, Wish, declare, operator};
use std::collections::HashMap;
use thalweg_amqp::TableWriter;
use thalweg_kernel::{DropReason, GroupStrategy, Ledger, Limits, Overflow, Pressure, QueueView};
use thalweg_model::Span;
use thalweg_testbed::Settings;

/// Number of messages published, and the limit. Their bodies are of two bytes.
const COUNT: usize = 8;
const ROOM: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Queue,
    /// A session of MQTT that is away.
    Session,
    /// A group whose only member is away.
    Group,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    None,
    /// `x-max-length` with a word for `x-overflow`.
    Length(&'static str),
    /// `x-max-length-bytes`.
    Bytes(&'static str),
    /// `x-message-ttl`.
    Ttl,
    /// A lifetime that the publisher gives each message.
    Lifetime,
    /// `x-expires`.
    Expires,
    /// `x-delivery-limit`.
    Deliveries,
    /// `x-max-priority`, and the same with `x-max-length`.
    Priorities,
    PrioritiesAndLength,
    /// The broker's own bound of messages, or of bytes.
    OwnLength(Overflow),
    OwnBytes(Overflow),
}

const OVERFLOWS: [&str; 3] = ["drop-head", "reject-publish", "reject-publish-dlx"];
const OWN_OVERFLOWS: [Overflow; 3] = [
    Overflow::DropNewest,
    Overflow::DropOldest,
    Overflow::Disconnect,
];

#[derive(Clone, Copy, Debug)]
struct Case {
    way: Way,
    holder: Holder,
    limit: Limit,
    /// Messages that the queue drops go to another queue.
    has_dead_letters: bool,
    shards: u16,
}

/// Expected outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    /// It is a dead letter for this reason, or is dropped where there are none.
    GivenUp(&'static str),
    Refused {
        is_dead_letter: bool,
    },
    /// It goes with its queue.
    Ended,
}

impl Limit {
    /// Those that a holder can have.
    fn all(holder: Holder) -> Vec<Limit> {
        let mut all = vec![Limit::Lifetime];
        if holder != Holder::Queue {
            all.extend(OWN_OVERFLOWS.map(Limit::OwnLength));
            all.extend(OWN_OVERFLOWS.map(Limit::OwnBytes));
            return all;
        }
        all.extend(OVERFLOWS.map(Limit::Length));
        all.extend(OVERFLOWS.map(Limit::Bytes));
        all.extend([
            Limit::Ttl,
            Limit::Expires,
            Limit::Deliveries,
            Limit::Priorities,
            Limit::PrioritiesAndLength,
            Limit::OwnLength(Overflow::DropNewest),
            Limit::OwnBytes(Overflow::DropNewest),
        ]);
        all
    }

    fn has_priorities(self) -> bool {
        matches!(self, Limit::Priorities | Limit::PrioritiesAndLength)
    }

    fn write(self, table: &mut TableWriter<'_>) {
        match self {
            Limit::Length(overflow) => {
                table.i64("x-max-length", ROOM as i64);
                table.str("x-overflow", overflow);
            }
            Limit::Bytes(overflow) => {
                table.i64("x-max-length-bytes", 2 * ROOM as i64);
                table.str("x-overflow", overflow);
            }
            Limit::Ttl => _ = table.i64("x-message-ttl", 1000),
            Limit::Expires => _ = table.i64("x-expires", 1000),
            Limit::Deliveries => _ = table.i64("x-delivery-limit", 2),
            Limit::Priorities => _ = table.i64("x-max-priority", 2),
            Limit::PrioritiesAndLength => {
                table.i64("x-max-priority", 2);
                table.i64("x-max-length", ROOM as i64);
            }
            _ => {}
        }
    }

    /// Configuration of the broker.
    fn limits(self, holder: Holder) -> Limits {
        let mut limits = Limits {
            journal: true,
            group_strategy: GroupStrategy::RoundRobin,
            ..Limits::default()
        };
        match (self, holder) {
            (Limit::OwnLength(_), Holder::Queue) => limits.named_queue_messages_max = ROOM as u64,
            (Limit::OwnBytes(_), Holder::Queue) => limits.named_queue_bytes_max = 2 * ROOM as u64,
            (Limit::OwnLength(overflow), _) => {
                limits.overflow = overflow;
                limits.queue_messages_max = ROOM;
                limits.group_messages_max = ROOM;
            }
            // Of a session and a group the whole message is weighed; there is room for some.
            (Limit::OwnBytes(overflow), _) => {
                limits.overflow = overflow;
                limits.queue_bytes_max = 3 * MESSAGE_BYTES;
                limits.group_bytes_max = 3 * MESSAGE_BYTES;
            }
            _ => {}
        }
        limits
    }

    /// Largest number of waiting messages.
    fn depth_max(self, holder: Holder) -> usize {
        match self {
            // Whole messages are weighed; not all fit.
            Limit::OwnBytes(_) if holder != Holder::Queue => COUNT - 1,
            Limit::Length(_) | Limit::Bytes(_) | Limit::PrioritiesAndLength => ROOM,
            Limit::OwnLength(_) | Limit::OwnBytes(_) => ROOM,
            _ => COUNT,
        }
    }

    fn drops_oldest(self, holder: Holder) -> bool {
        match self {
            Limit::Length(overflow) | Limit::Bytes(overflow) => overflow == "drop-head",
            // Groups refuse always.
            Limit::OwnLength(overflow) | Limit::OwnBytes(overflow) => {
                overflow == Overflow::DropOldest && holder == Holder::Session
            }
            _ => false,
        }
    }

    /// Expected outcome of each message, given how many were accepted.
    fn fates(self, holder: Holder, room: usize) -> [Fate; COUNT] {
        let fate = |number: usize| match self {
            Limit::None | Limit::Priorities => Fate::Kept,
            Limit::Length(_) | Limit::Bytes(_) | Limit::OwnLength(_) | Limit::OwnBytes(_) => {
                let drops_oldest = self.drops_oldest(holder);
                let is_kept = match drops_oldest {
                    true => number >= COUNT - room,
                    false => number < room,
                };
                match (is_kept, drops_oldest) {
                    (true, _) => Fate::Kept,
                    (_, true) => Fate::GivenUp("maxlen"),
                    (_, false) => Fate::Refused {
                        is_dead_letter: matches!(
                            self,
                            Limit::Length("reject-publish-dlx")
                                | Limit::Bytes("reject-publish-dlx")
                        ),
                    },
                }
            }
            Limit::Ttl | Limit::Lifetime => Fate::GivenUp("expired"),
            Limit::Expires => Fate::Ended,
            Limit::Deliveries => Fate::GivenUp("delivery_limit"),
            Limit::PrioritiesAndLength => {
                // The oldest of the lowest priority goes first.
                let mut kept: Vec<usize> = Vec::new();
                for number in 0..COUNT {
                    kept.push(number);
                    if kept.len() > ROOM {
                        let before = &kept[..ROOM];
                        let least = before.iter().min_by_key(|it| (priority(**it), **it));
                        let least = *least.expect("some");
                        kept.retain(|it| *it != least);
                    }
                }
                match kept.contains(&number) {
                    true => Fate::Kept,
                    false => Fate::GivenUp("maxlen"),
                }
            }
        };
        std::array::from_fn(fate)
    }
}

/// More than a message of these tests takes, and less than twice that.
const MESSAGE_BYTES: usize = 300;

fn priority(number: usize) -> u8 {
    (number % 3) as u8
}

fn body(number: usize) -> String {
    format!("m{number}")
}

const MEMBER: &str = "member";

fn lay_holder(stage: &mut Stage, case: &Case) {
    match case.holder {
        Holder::Queue => {
            let who = operator(&mut stage.bed);
            declare(&mut stage.bed, who, "dead", |_| {});
            declare(&mut stage.bed, who, QUEUE, |table| {
                case.limit.write(table);
                if case.has_dead_letters {
                    table.str("x-dead-letter-exchange", "");
                    table.str("x-dead-letter-routing-key", "dead");
                }
            });
        }
        Holder::Session | Holder::Group => {
            let shard = stage.bed.queue_shard();
            let name = stage.bed.name_on(MEMBER, shard);
            let peer = stage.connect_as(Protocol::Mqtt5, MEMBER, &name, 100);
            match case.holder {
                Holder::Group => stage.ask_shared(peer, "g", ADDRESS),
                _ => stage.ask(peer, Place::Address(ADDRESS)),
            }
            stage.lose(peer);
        }
    }
}

fn view(stage: &Stage, name: &str) -> Option<QueueView> {
    let (address, mut found) = (Place::Queue(name).topic(), None);
    let shard = stage.bed.queue_shard();
    stage.bed.shards[shard].kernel.for_each_queue(|view| {
        if *view.address == *address {
            found = Some(view);
        }
    });
    found
}

impl Holder {
    /// Number of waiting messages in the operators' statistics.
    fn depth(self, stage: &Stage) -> usize {
        match self {
            Holder::Queue => view(stage, QUEUE).map_or(0, |view| view.messages),
            Holder::Session | Holder::Group => stage.bed.total(|totals| totals.waiting),
        }
    }

    /// All that is there, settled as it comes.
    fn drain(self, stage: &mut Stage) -> Vec<String> {
        match self {
            Holder::Queue => drain(stage, QUEUE),
            Holder::Session | Holder::Group => {
                let shard = stage.bed.queue_shard();
                let name = stage.bed.name_on(MEMBER, shard);
                let peer = stage.connect_as(Protocol::Mqtt5, MEMBER, &name, 100);
                settle_all(stage, peer)
                    .into_iter()
                    .map(|(body, _)| body)
                    .collect()
            }
        }
    }
}

/// Settles what comes until nothing does: bodies, and why each died first.
fn settle_all(stage: &mut Stage, peer: Peer) -> Vec<(String, Option<String>)> {
    let mut all = Vec::new();
    loop {
        let received = stage.received_with_deaths(peer);
        if received.is_empty() {
            return all;
        }
        for (delivery, death) in received {
            stage.acknowledge(peer, &delivery);
            all.push((delivery.body, death));
        }
        stage.bed.run_for(Span::from_millis(10));
    }
}

fn drain_with_deaths(stage: &mut Stage, name: &str) -> Vec<(String, Option<String>)> {
    let peer = stage.connect(Protocol::Amqp, "drains");
    stage.ask(peer, Place::Queue(name));
    let all = settle_all(stage, peer);
    stage.lose(peer);
    all
}

fn drain(stage: &mut Stage, name: &str) -> Vec<String> {
    let all = drain_with_deaths(stage, name);
    all.into_iter().map(|(body, _)| body).collect()
}

/// Has a consumer requeue each message until none comes. Returns the deliveries of each message.
fn requeue_all(stage: &mut Stage) -> HashMap<String, usize> {
    let peer = stage.connect(Protocol::Amqp, "requeues");
    stage.ask(peer, Place::Queue(QUEUE));
    let mut times = HashMap::new();
    for _ in 0..10 * COUNT {
        for delivery in stage.received(peer) {
            *times.entry(delivery.body.clone()).or_default() += 1;
            stage.requeue(peer, &delivery);
        }
    }
    stage.lose(peer);
    times
}

/// Messages dropped by reason, and those expired.
fn gone(stage: &Stage) -> (HashMap<&'static str, u64>, u64) {
    let of = |what: &dyn Fn(&Ledger) -> u64| stage.bed.sum(|kernel| what(kernel.ledger()));
    let reasons = DropReason::ALL.into_iter();
    let dropped = reasons.map(|reason| {
        let count = of(&|ledger| ledger.dropped[reason as usize]);
        (reason.name(), count)
    });
    (
        dropped.filter(|it| it.1 > 0).collect(),
        of(&|ledger| ledger.expired),
    )
}

/// Results of a case.
struct Run {
    answers: Vec<Answer>,
    kept: Vec<String>,
    dead: Vec<(String, Option<String>)>,
    dropped: HashMap<&'static str, u64>,
    expired: u64,
}

fn run(case: &Case) -> Run {
    let mut stage = Stage::with(Settings {
        shards: case.shards,
        limits: case.limit.limits(case.holder),
        zmtp: std::sync::Arc::new(thalweg_fronts::zmtp::ZmtpSettings {
            queue: QUEUE.into(),
            durable: true,
            ..Default::default()
        }),
        ..Settings::default()
    });
    lay_holder(&mut stage, case);
    let held = case.holder;
    let shard = match case.is_local() {
        true => stage.bed.queue_shard(),
        false => (stage.bed.queue_shard() + 1) % usize::from(case.shards),
    };
    let target = match case.holder {
        Holder::Queue => Target::Queue,
        _ => Target::Address,
    };
    let mut publisher = Publisher::new(&mut stage, case.way, target, shard);
    for number in 0..COUNT {
        let wish = Wish {
            lifetime_secs: (case.limit == Limit::Lifetime).then_some(1),
            priority: if case.limit.has_priorities() {
                priority(number)
            } else {
                0
            },
        };
        publisher.publish(&mut stage, &body(number), wish);
        let depth = held.depth(&stage);
        let most = case.limit.depth_max(held);
        assert!(depth <= most, "{case:?}: {depth} wait");
    }
    let mut answers = publisher.answers(&mut stage);
    match case.limit {
        // Sessions are searched for expired messages every five seconds.
        Limit::Ttl | Limit::Lifetime | Limit::Expires => stage.bed.run_for(Span::from_secs(12)),
        Limit::Deliveries => {
            let times = requeue_all(&mut stage);
            assert_eq!(times.len(), COUNT, "{case:?}: {times:?}");
            let first = times[&body(0)];
            assert!((2..=3).contains(&first), "{case:?}: {times:?}");
            assert!(
                times.values().all(|times| *times == first),
                "{case:?}: {times:?}"
            );
        }
        _ => {}
    }
    let depth = held.depth(&stage);
    let kept = match case.limit {
        Limit::Expires => {
            assert!(
                view(&stage, QUEUE).is_none(),
                "{case:?}: the queue is there"
            );
            Vec::new()
        }
        _ => held.drain(&mut stage),
    };
    assert_eq!(kept.len(), depth, "{case:?}: {depth} waited, {kept:?} came");
    let dead = match case.holder {
        Holder::Queue => drain_with_deaths(&mut stage, "dead"),
        _ => Vec::new(),
    };
    // Nothing stays behind, and nothing is answered late.
    assert_eq!(held.depth(&stage), 0, "{case:?}");
    let totals = |of: fn(&thalweg_kernel::Totals) -> usize| stage.bed.total(of);
    assert_eq!(totals(|it| it.waiting + it.in_flight), 0, "{case:?}");
    let late = publisher.answers(&mut stage);
    assert_eq!(late, answers, "{case:?}: answers came late");
    answers = late;
    let (dropped, expired) = gone(&stage);
    Run {
        answers,
        kept,
        dead,
        dropped,
        expired,
    }
}

impl Case {
    /// Whether the publisher is where its receiver is.
    fn is_local(&self) -> bool {
        self.shards == 1 || self.way.is_with_queues()
    }

    fn makes_sense(&self) -> bool {
        let (way, limit) = (self.way, self.limit);
        let target = match self.holder {
            Holder::Queue => Target::Queue,
            _ => Target::Address,
        };
        // At-most-once messages do not wait for an absent receiver.
        (self.holder == Holder::Queue || !way.is_at_most_once(target))
            && (limit != Limit::Lifetime || way.has_lifetimes())
            && (!limit.has_priorities() || way.has_priorities())
    }

    /// Whether what is accepted may find no memory where it goes: on another shard where it is also the last value of its address;
    /// and on the way of dead letters, if memory is used up.
    fn may_lose(&self, pressure: Pressure) -> bool {
        let is_elsewhere = !self.is_local() || self.holder == Holder::Group && self.shards > 1;
        let is_kept_anyway = self.holder != Holder::Queue && self.way.is_last_value();
        let is_dead_letter = self.way.is_dead_letter() && pressure == Pressure::RefuseSessions;
        is_elsewhere && (is_kept_anyway || is_dead_letter)
            || self.way == Way::Rejected && is_dead_letter
    }

    fn answer_to(&self, fate: Fate) -> Answer {
        let is_refused = matches!(fate, Fate::Refused { .. })
            && !self.way.is_dead_letter()
            // Kept as the last value of its address.
            && !(self.holder != Holder::Queue && self.way.is_last_value());
        match is_refused {
            _ if !self.way.hears() => Answer::Nothing,
            true if self.way == Way::Mqtt3 => Answer::Nothing,
            true => Answer::Refused,
            false => Answer::Accepted,
        }
    }
}

/// Compares a case with the law, and with the same path to a queue without limits. Returns the differences.
fn compare(case: &Case, control: &Run) -> Vec<String> {
    let run = run(case);
    let is_weighed = matches!(case.limit, Limit::OwnBytes(_)) && case.holder != Holder::Queue;
    let room = if is_weighed { run.kept.len() } else { ROOM };
    let fates = case.limit.fates(case.holder, room);
    let mut wrong = Vec::new();
    let mut expect = |what: &str, got: String, wanted: String| {
        if got != wanted {
            wrong.push(format!("{what}: {got} instead of {wanted}"));
        }
    };
    if is_weighed {
        expect(
            "some fit",
            (1..COUNT).contains(&room).to_string(),
            "true".into(),
        );
    }
    let answers = fates.map(|fate| case.answer_to(fate));
    expect(
        "answers",
        format!("{:?}", run.answers),
        format!("{answers:?}"),
    );
    let mut kept: Vec<usize> = (0..COUNT).filter(|it| fates[*it] == Fate::Kept).collect();
    if case.limit.has_priorities() {
        kept.sort_by_key(|it| std::cmp::Reverse(priority(*it)));
    }
    let kept: Vec<String> = kept.into_iter().map(body).collect();
    expect("kept", format!("{:?}", run.kept), format!("{kept:?}"));
    let dies = |number: &usize| match fates[*number] {
        Fate::GivenUp(why) => case.has_dead_letters.then_some(why),
        Fate::Refused {
            is_dead_letter: true,
        } => case.has_dead_letters.then_some("maxlen"),
        _ => None,
    };
    let dead: Vec<(String, Option<String>)> = (0..COUNT)
        .filter_map(|number| Some((body(number), Some(dies(&number)?.to_owned()))))
        .collect();
    let mut run_dead = run.dead.clone();
    if case.limit.has_priorities() {
        run_dead.sort();
    }
    expect("dead letters", format!("{run_dead:?}"), format!("{dead:?}"));
    // Beside what the way itself drops.
    let mut dropped = control.dropped.clone();
    let mut expired = control.expired;
    for (number, fate) in fates.into_iter().enumerate() {
        let reason = match fate {
            Fate::Kept => continue,
            Fate::GivenUp("expired") => {
                expired += 1;
                continue;
            }
            Fate::GivenUp("delivery_limit") => DropReason::DeliveryLimit,
            Fate::GivenUp(_) | Fate::Refused { .. } => DropReason::QueueFull,
            Fate::Ended => DropReason::QueueEnded,
        };
        let _ = number;
        *dropped.entry(reason.name()).or_default() += 1;
    }
    let sorted = |map: &HashMap<&'static str, u64>| {
        let mut all: Vec<_> = map.iter().map(|(name, count)| (*name, *count)).collect();
        all.sort();
        format!("{all:?}")
    };
    expect("dropped", sorted(&run.dropped), sorted(&dropped));
    expect("expired", run.expired.to_string(), expired.to_string());
    wrong
}

#[test]
fn every_way_to_a_queue_keeps_every_limit() {
    let (mut cases, mut wrong) = (0, Vec::new());
    for holder in [Holder::Queue, Holder::Session, Holder::Group] {
        for (way, shards) in Way::ALL.into_iter().flat_map(|way| [(way, 1), (way, 2)]) {
            let case = |limit, has_dead_letters| Case {
                way,
                holder,
                limit,
                has_dead_letters,
                shards,
            };
            if !case(Limit::None, false).makes_sense() {
                continue;
            }
            let control = run(&case(Limit::None, false));
            let all: Vec<String> = (0..COUNT).map(body).collect();
            assert_eq!(control.kept, all, "{way:?} to {holder:?} on {shards}");
            for limit in Limit::all(holder) {
                for has_dead_letters in [false, true] {
                    let case = case(limit, has_dead_letters);
                    if !case.makes_sense() || has_dead_letters && holder != Holder::Queue {
                        continue;
                    }
                    cases += 1;
                    let found = compare(&case, &control);
                    if !found.is_empty() {
                        wrong.push(format!("{case:?}: {found:#?}"));
                    }
                }
            }
        }
    }
    println!("{cases} cases");
    assert!(
        wrong.is_empty(),
        "{} of {cases}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Memory is short from the fourth message on, and is not when all have been published: nothing is lost that was accepted.
#[test]
fn no_way_to_a_queue_loses_what_it_accepts_while_memory_is_short() {
    let mut wrong = Vec::new();
    for holder in [Holder::Queue, Holder::Session, Holder::Group] {
        for (way, shards) in Way::ALL.into_iter().flat_map(|way| [(way, 1), (way, 2)]) {
            // A queue with a bound of its own waits in memory, one without on disk.
            for limit in [Limit::None, Limit::Ttl] {
                for pressure in [Pressure::DropWaiting, Pressure::RefuseSessions] {
                    let case = Case {
                        way,
                        holder,
                        limit,
                        has_dead_letters: false,
                        shards,
                    };
                    if case.makes_sense() && (holder == Holder::Queue || limit == Limit::None) {
                        wrong.extend(be_short(&case, pressure));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

fn be_short(case: &Case, pressure: Pressure) -> Option<String> {
    let mut stage = Stage::with(Settings {
        shards: case.shards,
        limits: Limits {
            journal: true,
            group_strategy: GroupStrategy::RoundRobin,
            ..Limits::default()
        },
        zmtp: std::sync::Arc::new(thalweg_fronts::zmtp::ZmtpSettings {
            queue: QUEUE.into(),
            durable: true,
            ..Default::default()
        }),
        ..Settings::default()
    });
    let held = case.holder;
    match held {
        Holder::Queue => {
            let who = operator(&mut stage.bed);
            declare(&mut stage.bed, who, QUEUE, |table| {
                if case.limit == Limit::Ttl {
                    table.i64("x-message-ttl", 3_600_000);
                }
            });
        }
        _ => lay_holder(&mut stage, case),
    }
    let shard = match case.is_local() {
        true => stage.bed.queue_shard(),
        false => (stage.bed.queue_shard() + 1) % usize::from(case.shards),
    };
    let target = match case.holder {
        Holder::Queue => Target::Queue,
        _ => Target::Address,
    };
    let mut publisher = Publisher::new(&mut stage, case.way, target, shard);
    let set = |stage: &mut Stage, pressure| {
        for shard in &mut stage.bed.shards {
            shard.kernel.set_pressure(pressure);
        }
    };
    for number in 0..COUNT {
        if number == ROOM {
            set(&mut stage, pressure);
        }
        publisher.publish(&mut stage, &body(number), Wish::default());
    }
    set(&mut stage, Pressure::None);
    stage.bed.run_for(Span::from_secs(10));
    let answers = publisher.answers(&mut stage);
    let depth = held.depth(&stage);
    let kept = held.drain(&mut stage);
    let (dropped, _) = gone(&stage);
    let mut wrong = Vec::new();
    if kept.len() != depth {
        wrong.push(format!("{depth} waited"));
    }
    let mut lost = 0;
    for (number, answer) in answers.iter().enumerate() {
        let times = kept.iter().filter(|it| **it == body(number)).count();
        let is_right = match answer {
            Answer::Accepted => times == 1 || times == 0 && case.may_lose(pressure),
            Answer::Refused => times == 0,
            Answer::Nothing => times <= 1,
        };
        lost += usize::from(*answer != Answer::Refused && times == 0);
        if !is_right {
            wrong.push(format!(
                "{} was {answer:?} and is there {times} times",
                body(number)
            ));
        }
    }
    let short = dropped
        .get(DropReason::Memory.name())
        .copied()
        .unwrap_or_default();
    if lost as u64 > short {
        wrong.push(format!("{lost} are gone unheard, {short} counted"));
    }
    (!wrong.is_empty())
        .then(|| format!("{case:?} {pressure:?}: {wrong:?}; {answers:?}, {kept:?}, {dropped:?}"))
}
