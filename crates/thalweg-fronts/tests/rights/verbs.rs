//! The operations that change or use another client's objects, in every protocol that has them, times every reason to
//! deny them. Each operation is first shown to have an effect when nothing is denied; a denied one must leave
//! everything as it was.

use crate::client::{Argument, Mqtt, Target};
use crate::table::{all, all_but, own, within};
use crate::world::{BLUE, Hello, Protocol, Who, World};
use thalweg_amqp::Method;
use thalweg_amqp::methods::{exchange, queue};
use thalweg_kernel::access::{Permissions, Rule, Rules};
use thalweg_model::Span;

const OPERATOR: &str = "svc";
const EVE: &str = "eve";

/// The operator's objects: a queue bound to an exchange, and an exchange between them and another queue. In XMPP,
/// messages to Eve wait in the first queue.
const QUEUE: &str = "eve@localhost";
const LAST: &str = "theirs-last";
const FROM: &str = "theirs-from";
const TO: &str = "theirs-to";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Purge,
    DeleteQueue,
    DeleteExchange,
    Bind,
    Unbind,
    BindExchange,
    UnbindExchange,
    /// Says how many messages wait, and changes nothing.
    DeclareOver,
    /// The same, of a queue with other terms.
    DeclareOtherwise,
    Put,
    Take,
    /// Publishes to the exchange.
    Send,
    /// Writes a message to the user.
    Write,
    /// Is there for messages.
    BeThere,
    /// Makes a node of a key of the exchange, with a form, which changes nothing but is answered.
    MakeNode,
}

/// The object for which a right is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denial {
    Queue,
    From,
    To,
    OtherUser,
    OtherTenant,
}

const VERBS: [(Verb, &[Protocol], &[Denial]); 15] = {
    use Denial::{From, OtherTenant, OtherUser, Queue, To};
    use Protocol::{Amqp, Coap, Mqtt3, Mqtt5, Stomp, Xmpp, Zmtp};
    const AMQP: &[Protocol] = &[Amqp];
    const ALL: &[Protocol] = &[Mqtt3, Mqtt5, Amqp, Stomp, Coap, Zmtp, Xmpp];
    const OF_QUEUE: &[Denial] = &[Queue, OtherUser, OtherTenant];
    const OF_EXCHANGES: &[Denial] = &[From, To, OtherUser, OtherTenant];
    [
        (Verb::Purge, AMQP, OF_QUEUE),
        (Verb::DeleteQueue, AMQP, OF_QUEUE),
        (Verb::DeleteExchange, AMQP, &[From, OtherUser, OtherTenant]),
        (
            Verb::Bind,
            &[Amqp, Stomp],
            &[Queue, From, OtherUser, OtherTenant],
        ),
        (Verb::Unbind, AMQP, &[Queue, From, OtherUser, OtherTenant]),
        (Verb::BindExchange, AMQP, OF_EXCHANGES),
        (Verb::UnbindExchange, AMQP, OF_EXCHANGES),
        // In another tenant it declares another queue.
        (Verb::DeclareOver, AMQP, &[Queue, OtherUser]),
        (Verb::DeclareOtherwise, AMQP, OF_QUEUE),
        (Verb::Put, ALL, OF_QUEUE),
        (Verb::Take, ALL, OF_QUEUE),
        (Verb::Send, ALL, &[From, OtherUser, OtherTenant]),
        (Verb::Write, &[Xmpp], OF_QUEUE),
        (Verb::BeThere, &[Xmpp], OF_QUEUE),
        (Verb::MakeNode, &[Xmpp], &[From, OtherUser]),
    ]
};

/// State that the operator finds afterwards.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// Texts that are in the queue, and in the one behind the second exchange.
    in_queue: Vec<&'static str>,
    in_last: Vec<&'static str>,
    /// Eve has read what waited.
    is_read: bool,
    /// Whether Eve was told the queue's properties.
    is_told: bool,
}

const WAITS: &str = "IT-WAITS";
const KEPT: &str = "TO-THE-KEPT-KEY";
const NEW: &str = "TO-THE-NEW-KEY";
const OF_EVE: &str = "OF-EVE";

/// A world after Eve has used a verb, or not.
struct Row {
    verb: Option<Verb>,
    protocol: Protocol,
    denial: Option<Denial>,
    /// The right is taken away when Eve is connected already.
    is_late: bool,
    shards: u16,
    tenant: &'static str,
}

impl Row {
    fn rights(&self, denial: Denial) -> Rules {
        let without = |patterns: &[String]| {
            let deny =
                |pattern: &String| Rule::deny(Permissions::ALL, &within(self.tenant, pattern));
            all_but(patterns.iter().map(deny).collect())
        };
        let exchange = |name: &str| [format!("$x/{name}"), format!("$x/{name}/#")];
        match denial {
            Denial::Queue => without(&[format!("$q/{QUEUE}")]),
            Denial::From => without(&exchange(FROM)),
            Denial::To => without(&exchange(TO)),
            Denial::OtherUser => own(self.tenant),
            Denial::OtherTenant => all(),
        }
    }

    fn run(&self) -> Found {
        let mut world = World::new(self.shards, &[self.protocol]);
        world.set_rights(OPERATOR, all());
        world.set_rights(EVE, all());
        let is_other = self.denial == Some(Denial::OtherTenant);
        let eves_tenant = match (is_other, self.tenant) {
            (false, own) => own,
            (true, "") => BLUE,
            (true, _) => "",
        };
        let at_queues = world.bed.queue_shard();
        let connect = |world: &mut World, user, protocol, tenant| {
            let shard = (at_queues + 1) % world.shards();
            let client_id = world.bed.name_on(user, shard);
            let mqtt = Mqtt {
                client_id,
                is_clean: true,
                ..Mqtt::default()
            };
            world.connect(Hello {
                protocol,
                user,
                tenant,
                shard,
                mqtt,
            })
        };
        let operator = connect(&mut world, OPERATOR, Protocol::Amqp, self.tenant);
        for name in [QUEUE, LAST] {
            world.declare(operator, name, &[]);
        }
        world.declare_exchange(operator, FROM, "topic", &[]);
        world.declare_exchange(operator, TO, "topic", &[]);
        world.bind(operator, QUEUE, FROM, "kept", &[]);
        world.bind(operator, LAST, TO, "#", &[]);
        world.bind_exchange(operator, FROM, TO, "kept");
        world.publish(operator, &Target::Queue(QUEUE.into()), WAITS, false);

        let rules = self.denial.map(|denial| self.rights(denial));
        if let (Some(rules), false) = (&rules, self.is_late) {
            world.set_rights(EVE, rules.clone());
        }
        let eve = connect(&mut world, EVE, self.protocol, eves_tenant);
        if let (Some(rules), true) = (&rules, self.is_late) {
            world.set_rights(EVE, rules.clone());
        }
        let refusals_before = world.refusals(eve).len();
        if let Some(verb) = self.verb {
            do_verb(&mut world, eve, self.protocol, verb);
        }
        let refusals = &world.refusals(eve)[refusals_before..];
        let is_told = match self.verb {
            Some(Verb::DeclareOver | Verb::MakeNode) => refusals.is_empty(),
            // Different properties are reported as an error of their own.
            Some(Verb::DeclareOtherwise) => refusals.iter().any(|why| why.starts_with("406")),
            _ => false,
        };

        let to = |key: &str| Target::Exchange(FROM.into(), key.into());
        world.publish(operator, &to("kept"), KEPT, false);
        world.publish(operator, &to("new"), NEW, false);
        world.wait(Span::from_secs(1));
        let is_read = world.saw(eve, WAITS);
        if is_read {
            // Its unsettled deliveries do not count.
            world.lose(eve);
        }
        let mut texts = |queue: &str| {
            let reader = connect(&mut world, OPERATOR, Protocol::Amqp, self.tenant);
            for _ in 0..8 {
                world.get(reader, queue, true);
            }
            [WAITS, KEPT, NEW, OF_EVE]
                .into_iter()
                .filter(|text| world.saw(reader, text))
                .collect()
        };
        Found {
            in_queue: texts(QUEUE),
            in_last: texts(LAST),
            is_read,
            is_told,
        }
    }

    fn name(&self) -> String {
        let Row {
            verb,
            protocol,
            denial,
            is_late,
            shards,
            tenant,
        } = self;
        format!("{verb:?} in {protocol:?}, {denial:?}, late: {is_late}, on {shards} in '{tenant}'")
    }
}

fn do_verb(world: &mut World, eve: Who, protocol: Protocol, verb: Verb) {
    let in_queue = Target::Queue(QUEUE.into());
    match verb {
        Verb::Purge => world.call(
            eve,
            &Method::QueuePurge(queue::Purge {
                queue: QUEUE,
                ..Default::default()
            }),
        ),
        Verb::DeleteQueue => world.call(
            eve,
            &Method::QueueDelete(queue::Delete {
                queue: QUEUE,
                ..Default::default()
            }),
        ),
        Verb::DeleteExchange => world.call(
            eve,
            &Method::ExchangeDelete(exchange::Delete {
                exchange: FROM,
                ..Default::default()
            }),
        ),
        Verb::Bind if protocol == Protocol::Stomp => world.stomp_bind(eve, QUEUE, FROM, "new"),
        Verb::Bind => world.bind(eve, QUEUE, FROM, "new", &[]),
        Verb::Unbind => world.call(
            eve,
            &Method::QueueUnbind(queue::Unbind {
                queue: QUEUE,
                exchange: FROM,
                routing_key: "kept",
                ..Default::default()
            }),
        ),
        Verb::BindExchange => world.bind_exchange(eve, FROM, TO, "new"),
        Verb::UnbindExchange => world.call(
            eve,
            &Method::ExchangeUnbind(exchange::Unbind {
                destination: TO,
                source: FROM,
                routing_key: "kept",
                ..Default::default()
            }),
        ),
        Verb::DeclareOver => world.declare(eve, QUEUE, &[]),
        Verb::DeclareOtherwise => {
            world.declare(eve, QUEUE, &[("x-max-length", Argument::Number(1))])
        }
        Verb::Put => world.publish(eve, &in_queue, OF_EVE, false),
        Verb::Take => world.take(eve, QUEUE),
        Verb::Send => {
            let to = Target::Exchange(FROM.into(), "kept".into());
            world.publish(eve, &to, OF_EVE, false);
        }
        Verb::Write => world.write_message(eve, QUEUE, OF_EVE),
        Verb::BeThere => world.be_there(eve),
        Verb::MakeNode => world.make_node(eve, &format!("$x/{FROM}/kept")),
    }
}

#[test]
fn no_verb_does_what_is_denied() {
    let (mut verbs, mut rows) = (0, 0);
    let (mut idle, mut leaks) = (Vec::new(), Vec::new());
    for (verb, protocols, denials) in VERBS {
        for &protocol in protocols {
            for (shards, tenant) in [(1, ""), (3, ""), (1, BLUE), (3, BLUE)] {
                // CoAP names exchanges of the default tenant alone.
                let is_named = !protocol.has_one_tenant()
                    && (protocol != Protocol::Coap || verb != Verb::Send);
                if !is_named && !tenant.is_empty() {
                    continue;
                }
                let row = |verb, denial, is_late| Row {
                    verb,
                    protocol,
                    denial,
                    is_late,
                    shards,
                    tenant,
                };
                let untouched = row(None, None, false).run();
                assert_eq!(untouched.in_queue, [WAITS, KEPT]);
                assert_eq!(untouched.in_last, [KEPT]);
                verbs += 1;
                let done = row(Some(verb), None, false);
                if done.run() == untouched {
                    idle.push(done.name());
                }
                for &denial in denials {
                    if denial == Denial::OtherTenant && protocol.has_one_tenant() {
                        continue;
                    }
                    let lates: &[bool] = match denial {
                        Denial::OtherTenant => &[false],
                        _ => &[false, true],
                    };
                    for &is_late in lates {
                        rows += 1;
                        let denied = row(Some(verb), Some(denial), is_late);
                        let found = denied.run();
                        if found != untouched {
                            leaks.push(format!("{}: {found:?}", denied.name()));
                        }
                    }
                }
            }
        }
    }
    assert!(idle.is_empty(), "without effect: {idle:#?}");
    assert!(leaks.is_empty(), "{leaks:#?}");
    assert_eq!((verbs, rows), (104, 526));
}
