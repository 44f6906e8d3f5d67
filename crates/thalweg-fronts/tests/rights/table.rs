//! The rows: made from the axes, run one by one, each in a world of its own.

use crate::client::{Asking, Mqtt, Receiver, Source, Target};
use crate::paths::{Builder, Class, Path, Place, Push, Step, paths};
use crate::world::{BLUE, Hello, Protocol, Who, World};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_kernel::access::{Otherwise, Permission, Permissions, Rule, Rules};
use thalweg_model::Span;

const PUBLISHERS: [Protocol; 7] = [
    Protocol::Mqtt3,
    Protocol::Mqtt5,
    Protocol::Amqp,
    Protocol::Stomp,
    Protocol::Coap,
    Protocol::Zmtp,
    Protocol::Xmpp,
];

/// Payload that must not arrive.
const BODY: &str = "PAYLOAD-OF-OTHERS";

/// The operator, with all rights.
const OPERATOR: &str = "svc";
/// The user whose rights a row revokes.
const EVE: &str = "eve";

/// How a message is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Publish,
    Retain,
    Will,
    /// A request over CoAP or ZeroMQ, answered by its receiver.
    Request,
}

/// When and how a receiver subscribes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Manner {
    /// Before anything is published.
    Live(Asking),
    /// Afterwards: for last values, and messages that wait in a queue.
    Late(Asking),
    /// Another member or consumer has the message, and dies.
    HandOver,
    /// Somebody has taken the message out of its queue, and gives it back.
    Requeue,
    /// Its session is asleep when it is published.
    Resume,
    /// Its session has it in flight, unacknowledged, when the connection breaks.
    Window,
}

/// Why nothing may arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Denial {
    /// The receiver may not receive from this one of the addresses under which it was published.
    ReceiveAddress(usize),
    /// The receiver may not take from the queue.
    TakeQueue,
    /// The receiver may not read from the exchange that was published to.
    ReadExchange,
    /// The receiver is a user with rights of its own, elsewhere.
    OtherReceiver,
    /// The receiver is in another tenant, where it may do everything.
    ReceiverInTenant,
    /// The receiver is another user than the one whose session it says is its own.
    AnothersSession,
    /// The publish is in another tenant, and the receiver uses its full name.
    PublisherInTenant,
    /// The publisher may not publish at the address.
    PublishAddress,
    /// The publisher, who set up the path, may not publish at this one of its addresses.
    PublishLed(usize),
    /// The publisher is a user with rights of its own, elsewhere.
    OtherPublisher,
}

/// When the right is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    /// It was never there.
    Always,
    /// When everything is laid and asked for.
    BeforePublish,
    /// When the message waits.
    AfterPublish,
}

#[derive(Clone, Debug)]
struct Way<'a> {
    path: &'a Path,
    publisher: Protocol,
    mode: Mode,
    receiver: Receiver,
    manner: Manner,
    shards: u16,
    /// Where all of it is; empty for the default tenant.
    tenant: &'static str,
}

impl Way<'_> {
    fn name(&self) -> String {
        let Way {
            path,
            publisher,
            mode,
            receiver,
            manner,
            shards,
            tenant,
        } = self;
        format!(
            "{} by {:?}: {publisher:?} {mode:?} -> {receiver:?} {manner:?} on {shards}{}{tenant}",
            path.name,
            path.builder,
            if tenant.is_empty() { "" } else { " in " }
        )
    }
}

/// Rows of the table: ways that deliver when nothing is denied, and denials of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub ways: usize,
    pub rows: usize,
}

/// Generates all rows of paths that `builder` laid and runs them: as many as expected, a part that is the same each time;
/// or all if the environment says `RIGHTS_TABLE=whole`.
pub fn check(builder: Builder, expected: Count) {
    let is_whole = std::env::var("RIGHTS_TABLE").is_ok_and(|value| value == "whole");
    let paths = paths(builder);
    let mut work: Vec<(Way<'_>, Vec<(Denial, When)>)> = Vec::new();
    for way in paths.iter().flat_map(ways) {
        let mut rows = denials(&way);
        rows.retain(|(denial, when)| is_whole || is_run(&way, *denial, *when));
        if !rows.is_empty() {
            work.push((way, rows));
        }
    }
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Found::default()));
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((way, rows)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run_rows(way, rows, &found);
                }
            });
        }
    });
    let Found { count, dead, leaks } = found
        .into_inner()
        .expect("a row that panics fails the test");
    println!("{builder:?}: {count:?}");
    for (key, (count, example)) in &leaks {
        println!("LEAK {key}: {count} times, as {example}");
    }
    assert!(
        dead.is_empty(),
        "{} ways deliver nothing, as {:#?}",
        dead.len(),
        &dead[..dead.len().min(40)]
    );
    assert!(
        leaks.is_empty(),
        "{} kinds of leaks, see above",
        leaks.len()
    );
    assert!(
        is_whole || count == expected,
        "{count:?} and not {expected:?}"
    );
}

/// Results of the rows so far.
#[derive(Default)]
struct Found {
    count: Count,
    /// Ways that deliver nothing though nothing is denied.
    dead: Vec<String>,
    /// By kind of row: how many leak, and an example.
    leaks: BTreeMap<String, (usize, String)>,
}

fn run_rows(way: &Way<'_>, rows: &[(Denial, When)], found: &Mutex<Found>) {
    let control = run(way, None);
    let is_alive = control.is_ok();
    let rows = if is_alive { rows } else { &[] };
    let leaking: Vec<_> = rows
        .iter()
        .filter(|row| run(way, Some(**row)).is_ok())
        .collect();
    let mut found = found.lock().expect("a row that panics fails the test");
    found.count.ways += 1;
    found.count.rows += rows.len();
    if let Err(why) = control {
        found.dead.push(format!("{}: {why}", way.name()));
    }
    for (denial, when) in leaking {
        let Path { name, builder, .. } = way.path;
        let key = format!("{name} by {builder:?} | {denial:?} | {when:?}");
        found.leaks.entry(key).or_insert((0, way.name())).0 += 1;
    }
}

/// Whether a row is run each time: all combinations of protocols, paths and denials, but only a part of those that are
/// equal for the kernel.
fn is_run(way: &Way<'_>, denial: Denial, when: When) -> bool {
    let name = format!("{} {denial:?} {when:?}", way.name());
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
    });
    let part = match (when, way.shards) {
        (When::Always, 3) if way.publisher == Protocol::Mqtt3 || way.mode == Mode::Will => 6,
        (When::Always, 3) if way.path.class == Class::Dead => 4,
        (When::Always, 3) => 1,
        _ => 16,
    };
    // Their queues and subscriptions are the kernel's as everyone's.
    let is_late_comer = |protocol| matches!(protocol, Protocol::Zmtp | Protocol::Xmpp);
    let part = match is_late_comer(way.publisher) || is_late_comer(way.receiver.protocol()) {
        true => part * 3,
        false => part,
    };
    (hash >> 32) % part == 0
}

/// Every way along a path that makes sense.
fn ways(path: &Path) -> Vec<Way<'_>> {
    let mut ways = Vec::new();
    for (shards, tenant) in [(1, ""), (3, ""), (1, BLUE), (3, BLUE)] {
        for publisher in PUBLISHERS {
            if !path.target.can_be_said_in(publisher)
                || (path.name == "headers exchange" && !has_headers(publisher))
            {
                continue;
            }
            for mode in [Mode::Publish, Mode::Retain, Mode::Will, Mode::Request] {
                let is_mqtt = matches!(publisher, Protocol::Mqtt3 | Protocol::Mqtt5);
                if (mode == Mode::Will && !is_mqtt)
                    || (mode == Mode::Retain && path.name != "plain")
                    || (mode == Mode::Request
                        && !matches!(publisher, Protocol::Coap | Protocol::Zmtp))
                    // A REQ has no header frame.
                    || (mode == Mode::Request && path.name == "headers exchange")
                    || (publisher.has_one_tenant() && !tenant.is_empty())
                    // CoAP names exchanges of the default tenant alone, and no queues of another in requests.
                    || (publisher == Protocol::Coap
                        && !tenant.is_empty()
                        && match path.target {
                            Target::Exchange(..) => true,
                            Target::Queue(_) => mode == Mode::Request,
                            _ => false,
                        })
                {
                    continue;
                }
                for receiver in Receiver::ALL {
                    if receiver.protocol().has_one_tenant() && !tenant.is_empty() {
                        continue;
                    }
                    for manner in manners(&path.source, receiver, mode) {
                        // A client that holds a group's message unsettled uses MQTT.
                        let is_held =
                            matches!(path.source, Source::Address(_)) && manner == Manner::HandOver;
                        if is_held && !tenant.is_empty() {
                            continue;
                        }
                        // A queue is bound to a direct exchange by one key.
                        let binds = !receiver.protocol().has_one_tenant();
                        if path.name.starts_with("direct")
                            && manner == Manner::Live(Asking::ByWildcard)
                            && binds
                        {
                            continue;
                        }
                        // A prefix has what was published under the address that was named first, too, and may.
                        if path.name == "topic exchange, subscribed to, by CC"
                            && receiver == Receiver::Sub
                            && manner == Manner::Live(Asking::ByWildcard)
                        {
                            continue;
                        }
                        // A PUB's messages do not wait for an absent receiver, and are not sent again; nor does a dead
                        // letter of a PUSH.
                        let is_kept = matches!(manner, Manner::Resume | Manner::Window) || is_held;
                        let is_once =
                            !matches!(path.target, Target::Queue(_)) || path.class == Class::Dead;
                        if is_kept
                            && is_once
                            && (publisher, mode) == (Protocol::Zmtp, Mode::Publish)
                        {
                            continue;
                        }
                        ways.push(Way {
                            path,
                            publisher,
                            mode,
                            receiver,
                            manner,
                            shards,
                            tenant,
                        });
                    }
                }
            }
        }
    }
    ways
}

/// Whether a protocol's publishers can send a header of their own.
fn has_headers(publisher: Protocol) -> bool {
    matches!(publisher, Protocol::Amqp | Protocol::Stomp | Protocol::Zmtp)
}

fn manners(source: &Source, receiver: Receiver, mode: Mode) -> Vec<Manner> {
    use Receiver::{AmqpConsume, AmqpGet, Coap, Mqtt3, Mqtt5, Pull, Rep, Stomp, Sub, Xmpp};
    let is_mqtt = matches!(receiver, Mqtt3 | Mqtt5);
    let mut manners = Vec::new();
    let mut add = |receivers: &[Receiver], manner| {
        if receivers.contains(&receiver) {
            manners.push(manner);
        }
    };
    match source {
        Source::Queue(_) => {
            let consumers = [Mqtt3, Mqtt5, AmqpConsume, Stomp, Pull, Rep];
            add(&consumers, Manner::Live(Asking::Exactly));
            for manner in [
                Manner::Late(Asking::Exactly),
                Manner::HandOver,
                Manner::Requeue,
            ] {
                add(&consumers, manner);
                add(&[AmqpGet, Coap], manner);
            }
        }
        Source::Address(_) if mode == Mode::Retain => {
            add(&[Mqtt3, Mqtt5, Coap], Manner::Late(Asking::Exactly));
            add(&[Mqtt3, Mqtt5], Manner::Late(Asking::ByWildcard));
            let first = Manner::Late(Asking::WithLastValue);
            add(&[AmqpConsume, AmqpGet, Stomp, Sub, Xmpp], first);
            let only = Manner::Late(Asking::LastValueOnly);
            add(&[AmqpGet, Stomp, Coap, Xmpp], only);
        }
        Source::Address(address) => {
            let is_plain = !address.starts_with('$');
            let subscribers = [Mqtt3, Mqtt5, AmqpConsume, AmqpGet, Stomp, Sub];
            add(&subscribers, Manner::Live(Asking::Exactly));
            add(&subscribers, Manner::Live(Asking::ByWildcard));
            add(&[Xmpp], Manner::Live(Asking::Exactly));
            if address.contains('/') {
                add(&[Xmpp], Manner::Live(Asking::ByWildcard));
            }
            if is_plain {
                add(&[Coap], Manner::Live(Asking::Exactly));
                // Nothing is got from a group; one consumes.
                for manner in [Manner::Live(Asking::InGroup), Manner::HandOver] {
                    add(&[Mqtt3, Mqtt5, AmqpConsume, Stomp, Rep], manner);
                }
            }
            if is_mqtt {
                manners.extend([Manner::Resume, Manner::Window]);
            }
        }
    }
    manners
}

/// Every reason why nothing may arrive on a way, and when it begins to hold.
fn denials(way: &Way<'_>) -> Vec<(Denial, When)> {
    let Way {
        path,
        publisher,
        receiver,
        manner,
        tenant,
        ..
    } = way;
    let (is_in_one, was_in_one) = (
        receiver.protocol().has_one_tenant(),
        publisher.has_one_tenant(),
    );
    let mut rows = Vec::new();
    let waits = !matches!(manner, Manner::Live(_));
    let mut whenever = |denial| {
        rows.push((denial, When::Always));
        rows.push((denial, When::BeforePublish));
        if waits {
            rows.push((denial, When::AfterPublish));
        }
    };
    if path.builder != Builder::Publisher {
        // A queue keeps what an exchange leads to it under the address at which it came, and is judged by that alone.
        let has_queue = matches!(
            receiver,
            Receiver::AmqpConsume | Receiver::AmqpGet | Receiver::Stomp
        ) && !matches!(manner, Manner::Live(Asking::InGroup) | Manner::HandOver);
        let judged = if path.class == Class::Redirected && has_queue {
            1
        } else {
            path.judged.len()
        };
        for at in 0..judged {
            whenever(Denial::ReceiveAddress(at));
        }
        if matches!(&path.source, Source::Queue(name) if name.starts_with("$q/theirs")) {
            whenever(Denial::TakeQueue);
        }
        if matches!(path.target.meant(), Target::Exchange(..)) {
            whenever(Denial::ReadExchange);
        }
        whenever(Denial::OtherReceiver);
        if !is_in_one {
            rows.push((Denial::ReceiverInTenant, When::Always));
        }
        if !was_in_one && tenant.is_empty() {
            rows.push((Denial::PublisherInTenant, When::Always));
        }
        if matches!(manner, Manner::Resume | Manner::Window) {
            rows.push((Denial::AnothersSession, When::Always));
        }
    }
    if path.builder == Builder::Operator {
        rows.push((Denial::PublishAddress, When::Always));
        rows.push((Denial::PublishAddress, When::BeforePublish));
    }
    if path.builder == Builder::Publisher {
        for at in 0..path.led.len() {
            rows.push((Denial::PublishLed(at), When::Always));
            rows.push((Denial::PublishLed(at), When::BeforePublish));
        }
    }
    if path.builder != Builder::Receiver {
        rows.push((Denial::OtherPublisher, When::Always));
        rows.push((Denial::OtherPublisher, When::BeforePublish));
    }
    rows
}

pub fn all() -> Rules {
    Rules::allow_all()
}

pub fn all_but(denied: Vec<Rule>) -> Rules {
    Rules::new(denied, Otherwise::Allow).expect("filters")
}

/// Rights to a user's own objects, and to subscribe to anything, as with mosquitto.
pub fn own(tenant: &str) -> Rules {
    let mut rules = vec![Rule::allow(Permission::Subscribe, &within(tenant, "#"))];
    for place in ["begin", "middle", "end", "out"] {
        for tree in ["$q", "$x"] {
            for pattern in [
                format!("{tree}/mine-{place}"),
                format!("{tree}/mine-{place}/#"),
            ] {
                rules.push(Rule::allow(Permissions::ALL, &within(tenant, &pattern)));
            }
        }
    }
    Rules::new(rules, Otherwise::Deny).expect("filters")
}

/// The rights that a denial leaves to Eve.
fn rights(path: &Path, denial: Denial, tenant: &str) -> Rules {
    let deny = |permissions: Permissions, pattern: &str| {
        all_but(vec![Rule::deny(permissions, &within(tenant, pattern))])
    };
    match denial {
        Denial::ReceiveAddress(at) => deny(Permission::Receive.into(), &path.judged[at]),
        Denial::TakeQueue => {
            let Source::Queue(queue) = &path.source else {
                panic!("no queue")
            };
            deny(Permission::Take.into(), queue)
        }
        Denial::ReadExchange => {
            let Target::Exchange(name, _) = path.target.meant() else {
                panic!("no exchange")
            };
            let deny = |pattern: String| Rule::deny(Permissions::READ, &within(tenant, &pattern));
            all_but(vec![
                deny(format!("$x/{name}")),
                deny(format!("$x/{name}/#")),
            ])
        }
        Denial::OtherReceiver | Denial::OtherPublisher => own(tenant),
        Denial::ReceiverInTenant | Denial::PublisherInTenant | Denial::AnothersSession => all(),
        Denial::PublishAddress => deny(Permission::Publish.into(), &path.target.address()),
        // A user that may declare a queue may also bind it.
        Denial::PublishLed(at) if path.led[at].starts_with("$q/") => {
            deny(Permissions::ALL, &path.led[at])
        }
        Denial::PublishLed(at) => deny(Permission::Publish.into(), &path.led[at]),
    }
}

/// Sends one message along a way. An error says what became of it instead of arriving.
fn run(way: &Way<'_>, denied: Option<(Denial, When)>) -> Result<(), String> {
    let Way {
        path,
        publisher,
        mode,
        receiver: how,
        manner,
        shards,
        tenant,
    } = *way;
    let mut world = World::new(shards, &[publisher, how.protocol()]);
    let at_queues = world.bed.queue_shard();
    let (publisher_at, receiver_at) = (
        (at_queues + 1) % world.shards(),
        (at_queues + 2) % world.shards(),
    );
    let denial = denied.map(|(denial, _)| denial);
    let is_about_publisher = matches!(
        denial,
        Some(Denial::PublishAddress | Denial::PublishLed(_) | Denial::OtherPublisher)
    ) || (denied.is_none() && path.builder == Builder::Publisher);
    let (publishes, receives) = if is_about_publisher {
        (EVE, OPERATOR)
    } else {
        (OPERATOR, EVE)
    };
    let other_tenant = if tenant.is_empty() { BLUE } else { "" };
    let (their_tenant, eves_tenant) = match denial {
        Some(Denial::ReceiverInTenant) => (tenant, other_tenant),
        Some(Denial::PublisherInTenant) => (other_tenant, tenant),
        _ => (tenant, tenant),
    };
    let tenant_of = |user| {
        if user == EVE {
            eves_tenant
        } else {
            their_tenant
        }
    };

    world.set_rights(OPERATOR, all());
    world.set_rights(EVE, all());
    let change = |world: &mut World, when| {
        if let Some((denial, at)) = denied
            && at == when
        {
            world.set_rights(EVE, rights(path, denial, tenant));
        }
    };
    change(&mut world, When::Always);
    let hello = |world: &World, protocol, user: &'static str, shard, stem: &str| Hello {
        protocol,
        user,
        tenant: tenant_of(user),
        shard,
        mqtt: Mqtt {
            client_id: world.bed.name_on(&format!("{user}-{stem}"), shard),
            is_clean: true,
            ..Mqtt::default()
        },
    };

    // The path is laid.
    let tool = |world: &mut World, user| {
        let hello = hello(world, Protocol::Amqp, user, at_queues, "tool");
        world.connect(hello)
    };
    let operator = tool(&mut world, OPERATOR);
    let builder = if path.builder == Builder::Operator {
        operator
    } else {
        tool(&mut world, EVE)
    };
    for (place, step) in &path.steps {
        let is_builders = *place == Place::Joint || path.builder.owns(*place);
        lay(
            &mut world,
            if is_builders { builder } else { operator },
            step,
        );
    }

    // The receiver asks.
    let source = match denial {
        Some(Denial::PublisherInTenant) => in_full(&path.source),
        _ => path.source.clone(),
    };
    let asks_first = match denial {
        Some(Denial::AnothersSession) => OPERATOR,
        _ => receives,
    };
    let mut hello_of_receiver = hello(&world, how.protocol(), asks_first, receiver_at, "receiver");
    if matches!(manner, Manner::Resume | Manner::Window) {
        hello_of_receiver.mqtt.is_kept = true;
        hello_of_receiver.mqtt.is_clean = how == Receiver::Mqtt5;
    }
    let receiver = world.connect(hello_of_receiver);
    let asks_for = |world: &mut World, asking| {
        world.ask(receiver, how, &source, asking);
        if denial == Some(Denial::PublisherInTenant) {
            world.ask(receiver, how, &path.source, asking);
        }
    };
    let mut other: Option<Who> = None;
    match manner {
        Manner::Live(asking) => asks_for(&mut world, asking),
        Manner::Late(_) | Manner::Requeue => {}
        Manner::HandOver => {
            other = Some(holder(&mut world, operator, &path.source, receiver_at, how));
        }
        Manner::Resume => {
            asks_for(&mut world, Asking::Exactly);
            world.lose(receiver);
        }
        Manner::Window => {
            let Source::Address(filter) = &source else {
                panic!("no address")
            };
            world.subscribe(receiver, filter, true);
            world.stall(receiver);
        }
    }

    // The message is published, and goes on.
    change(&mut world, When::BeforePublish);
    let hello = hello(&world, publisher, publishes, publisher_at, "publisher");
    publish(&mut world, &path.target, mode, hello);
    match path.push {
        Push::Nothing => {}
        Push::Wait => world.wait(Span::from_secs(2)),
        Push::Fill => world.publish(operator, &path.target, "another", false),
        Push::Reject => {
            world.consume(operator, &path.pushed_from, false);
            world.reject_all(operator, false);
        }
    }
    if let (Manner::Requeue, Source::Queue(address)) = (manner, &path.source) {
        let hello = world.hello_like(operator);
        let who = world.connect(hello);
        world.get(who, address.strip_prefix("$q/").unwrap_or(address), false);
        other = Some(who);
    }
    change(&mut world, When::AfterPublish);
    let mut asked = Asking::Exactly;
    match manner {
        Manner::Live(asking) => asked = asking,
        Manner::Late(asking) => {
            asks_for(&mut world, asking);
            asked = asking;
        }
        Manner::HandOver => {
            asked = Asking::InGroup;
            asks_for(&mut world, asked);
            let other = other.expect("it holds the message");
            if denied.is_none() && !world.saw(other, BODY) {
                return Err("nobody holds it".into());
            }
            world.lose(other);
        }
        Manner::Requeue => {
            asks_for(&mut world, asked);
            let other = other.expect("it holds the message");
            if denied.is_none() && !world.saw(other, BODY) {
                return Err("nobody holds it".into());
            }
            world.reject_all(other, true);
        }
        Manner::Resume | Manner::Window => {
            world.lose(receiver);
            if denial == Some(Denial::AnothersSession) {
                world.become_user(receiver, EVE);
            }
            world.resume(receiver);
        }
    }
    world.poll(receiver, how, &source, asked);
    if denial == Some(Denial::PublisherInTenant) {
        world.poll(receiver, how, &path.source, asked);
    }
    world.wait(Span::from_secs(5));
    if world.saw(receiver, BODY) {
        return Ok(());
    }
    Err(format!(
        "{:?} {:?} {:?}",
        world.refusals(operator),
        world.refusals(builder),
        world.refusals(receiver)
    ))
}

fn lay(world: &mut World, who: Who, step: &Step) {
    match step {
        Step::Queue(name, arguments) => world.declare(who, name, arguments),
        Step::Exchange(name, kind, arguments) => world.declare_exchange(who, name, kind, arguments),
        Step::Bind(exchange, queue, key, arguments) => {
            world.bind(who, queue, exchange, key, arguments)
        }
        Step::BindExchange(from, to, key) => world.bind_exchange(who, from, to, key),
    }
}

/// Canonical form of a name in the default tenant.
pub fn within(tenant: &str, address: &str) -> String {
    if tenant.is_empty() {
        return address.into();
    }
    match address.split_at_checked(2) {
        Some((tree @ ("$q" | "$x"), rest)) => format!("{tree}@{tenant}{rest}"),
        _ => format!("$t@{tenant}/{address}"),
    }
}

/// The same name in another tenant, in full.
fn in_full(source: &Source) -> Source {
    match source {
        Source::Address(address) => Source::Address(within(BLUE, address)),
        Source::Queue(address) => Source::Queue(within(BLUE, address)),
    }
}

/// Somebody of the operator's who gets the next message and does not settle it.
fn holder(
    world: &mut World,
    operator: Who,
    source: &Source,
    shard: usize,
    beside: Receiver,
) -> Who {
    match source {
        Source::Queue(address) => {
            let hello = world.hello_like(operator);
            let other = world.connect(hello);
            world.consume(other, address.strip_prefix("$q/").unwrap_or(address), false);
            other
        }
        Source::Address(address) => {
            let mqtt = Mqtt {
                client_id: world.bed.name_on("holder", shard),
                is_clean: true,
                ..Mqtt::default()
            };
            let hello = Hello {
                protocol: Protocol::Mqtt5,
                user: OPERATOR,
                tenant: "",
                shard,
                mqtt,
            };
            let other = world.connect(hello);
            let group = beside.group();
            world.subscribe(other, &format!("$share/{group}/{address}"), true);
            other
        }
    }
}

fn publish(world: &mut World, target: &Target, mode: Mode, mut hello: Hello) {
    if mode == Mode::Will {
        hello.mqtt.will = Some((target.address(), BODY.into(), false));
        let who = world.connect(hello);
        world.lose(who);
    } else {
        let who = world.connect(hello);
        match mode {
            Mode::Request => world.request(who, target, BODY),
            _ => world.publish(who, target, BODY, mode == Mode::Retain),
        }
    }
}
