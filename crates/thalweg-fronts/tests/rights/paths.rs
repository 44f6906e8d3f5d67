//! The paths from a publish to a receiver, and the clients that set them up.

use crate::client::{Argument, Source, Target};

/// The client that sets up a path: binds, redirects, and declares all that belongs to neither publisher nor receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Builder {
    Operator,
    Receiver,
    Publisher,
}

/// Owner of a queue or exchange, by its place on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Begin,
    Middle,
    End,
    /// No place: what joins places. Always done by the builder.
    Joint,
}

/// A declaration of AMQP.
#[derive(Clone, Debug)]
pub enum Step {
    Queue(String, Vec<(&'static str, Argument)>),
    Exchange(String, &'static str, Vec<(&'static str, Argument)>),
    /// Exchange, queue, key, arguments.
    Bind(String, String, &'static str, Vec<(&'static str, Argument)>),
    BindExchange(String, String, &'static str),
}

/// Step after publishing that makes the message go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    Nothing,
    Wait,
    /// The operator rejects what is in a middle queue, or the first.
    Reject,
    /// The operator publishes one more to the same target.
    Fill,
}

/// How the last queue or address of a path is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Direct,
    /// Another exchange publishes it again, at an address that is subscribed to.
    Redirected,
    /// As a dead letter.
    Dead,
}

#[derive(Clone, Debug)]
pub struct Path {
    pub name: &'static str,
    pub builder: Builder,
    pub class: Class,
    pub steps: Vec<(Place, Step)>,
    pub target: Target,
    pub source: Source,
    /// The addresses under which the message was published on its way, by which its receivers are judged.
    pub judged: Vec<String>,
    /// The addresses to which it is led, by which who lays the path is judged.
    pub led: Vec<String>,
    pub push: Push,
    /// The queue from which it is pushed on.
    pub pushed_from: String,
}

impl Builder {
    pub fn owns(self, place: Place) -> bool {
        match self {
            Builder::Operator => false,
            Builder::Receiver => place != Place::Begin,
            Builder::Publisher => place != Place::End,
        }
    }
}

/// Where plain messages are published.
pub const SECRET: &str = "secret/plan";

/// The one key of all exchanges.
const KEY: &str = "plan";

/// Ways in which a queue dead-letters a message: one that is published to, and one that is bound.
const DEATHS: [(&str, &str, Push); 4] = [
    ("expires", "bound, expires", Push::Wait),
    ("rejected", "bound, rejected", Push::Reject),
    ("pushed out", "bound, pushed out", Push::Fill),
    ("never in", "bound, never in", Push::Nothing),
];

/// All paths that a builder can lay.
pub fn paths(builder: Builder) -> Vec<Path> {
    let name = |place| {
        if builder.owns(place) {
            "mine"
        } else {
            "theirs"
        }
    };
    let (begin, middle, end) = (
        name(Place::Begin).to_owned() + "-begin",
        name(Place::Middle).to_owned() + "-middle",
        name(Place::End).to_owned() + "-end",
    );
    let mut paths = Vec::new();
    let queue = |name: &str| Source::Queue(format!("$q/{name}"));
    let own = |name: &str| format!("$q/{name}");
    let at = |exchange: &str| format!("$x/{exchange}/{KEY}");
    let blank = |name, target: Target, source| Path {
        name,
        builder,
        class: Class::Direct,
        steps: Vec::new(),
        judged: vec![target.address()],
        led: Vec::new(),
        target,
        source,
        push: Push::Nothing,
        pushed_from: String::new(),
    };
    let plain = || Target::Plain(SECRET.into());
    let address = |text: &str| Source::Address(text.into());
    let make = |place, name: &str| (place, Step::Queue(name.into(), Vec::new()));
    let open = |place, name: &str, kind| (place, Step::Exchange(name.into(), kind, Vec::new()));
    let join = |exchange: &str, queue: &str, key| {
        (
            Place::Joint,
            Step::Bind(exchange.into(), queue.into(), key, Vec::new()),
        )
    };
    let lead = |from: &str, to: &str, key| {
        (
            Place::Joint,
            Step::BindExchange(from.into(), to.into(), key),
        )
    };

    if builder == Builder::Operator {
        paths.push(blank("plain", plain(), address(SECRET)));
        paths.push(blank(
            "through the default exchange",
            Target::Alias(SECRET.into()),
            address(SECRET),
        ));
        paths.push(Path {
            steps: vec![make(Place::Begin, &begin)],
            ..blank(
                "queue by its name",
                Target::Queue(begin.clone()),
                queue(&begin),
            )
        });
        let copied = |header, target| Target::Copied(header, Box::new(target));
        paths.push(blank(
            "plain, by CC",
            copied("CC", plain()),
            address(SECRET),
        ));
        paths.push(blank(
            "through the default exchange, by BCC",
            copied("BCC", Target::Alias(SECRET.into())),
            address(SECRET),
        ));
        paths.push(Path {
            steps: vec![make(Place::Begin, &begin)],
            // A queue has a message under the address that its publisher named first.
            judged: vec!["$q/cover.x".into()],
            ..blank(
                "queue by its name, by BCC",
                copied("BCC", Target::Queue(begin.clone())),
                queue(&begin),
            )
        });
        paths.push(Path {
            steps: vec![open(Place::Begin, &begin, "topic")],
            ..blank(
                "topic exchange, subscribed to, by CC",
                copied("CC", Target::Exchange(begin.clone(), KEY.into())),
                address(&at(&begin)),
            )
        });
        for (name, kind) in [
            ("topic exchange, subscribed to", "topic"),
            ("direct exchange, subscribed to", "direct"),
        ] {
            paths.push(Path {
                steps: vec![open(Place::Begin, &begin, kind)],
                ..blank(
                    name,
                    Target::Exchange(begin.clone(), KEY.into()),
                    address(&at(&begin)),
                )
            });
        }
    }
    if builder != Builder::Publisher {
        for (name, key) in [
            ("bound to amq.topic", "secret.plan"),
            ("bound to amq.topic by #", "#"),
        ] {
            paths.push(Path {
                steps: vec![make(Place::End, &end), join("amq.topic", &end, key)],
                ..blank(name, plain(), queue(&end))
            });
        }
        paths.push(Path {
            steps: vec![
                make(Place::End, &end),
                open(Place::Middle, &middle, "topic"),
                lead("amq.topic", &middle, "secret.plan"),
                join(&middle, &end, "#"),
            ],
            ..blank(
                "amq.topic bound to an exchange, queue",
                plain(),
                queue(&end),
            )
        });
        let under = format!("$x/{middle}/{SECRET}");
        paths.push(Path {
            steps: vec![
                open(Place::Middle, &middle, "topic"),
                lead("amq.topic", &middle, "secret.plan"),
            ],
            class: Class::Redirected,
            judged: vec![SECRET.into(), under.clone()],
            led: vec![under.clone()],
            ..blank(
                "amq.topic bound to an exchange, subscribed to",
                plain(),
                address(&under),
            )
        });
    }
    for (name, kind) in [
        ("direct exchange", "direct"),
        ("topic exchange", "topic"),
        ("fanout exchange", "fanout"),
        ("headers exchange", "headers"),
    ] {
        let arguments = match kind {
            "headers" => {
                vec![
                    ("x-match", Argument::Text("all".into())),
                    ("match", Argument::Text("yes".into())),
                ]
            }
            _ => Vec::new(),
        };
        paths.push(Path {
            steps: vec![
                open(Place::Begin, &begin, kind),
                make(Place::End, &end),
                (
                    Place::Joint,
                    Step::Bind(begin.clone(), end.clone(), KEY, arguments),
                ),
            ],
            led: vec![own(&end)],
            ..blank(
                name,
                Target::Exchange(begin.clone(), KEY.into()),
                queue(&end),
            )
        });
    }
    paths.push(Path {
        steps: vec![
            open(Place::Begin, &begin, "topic"),
            make(Place::End, &end),
            join(&begin, &end, KEY),
        ],
        judged: vec![format!("$x/{begin}/cover/x")],
        led: vec![own(&end)],
        ..blank(
            "topic exchange, by BCC",
            Target::Copied("BCC", Box::new(Target::Exchange(begin.clone(), KEY.into()))),
            queue(&end),
        )
    });
    paths.push(Path {
        steps: vec![
            open(Place::Begin, &begin, "topic"),
            open(Place::Middle, &middle, "fanout"),
            lead(&begin, &middle, KEY),
            make(Place::End, &end),
            join(&middle, &end, ""),
        ],
        led: vec![own(&end)],
        ..blank(
            "exchange bound to an exchange, queue",
            Target::Exchange(begin.clone(), KEY.into()),
            queue(&end),
        )
    });
    paths.push(Path {
        steps: vec![
            open(Place::Begin, &begin, "direct"),
            lead(&begin, "amq.topic", KEY),
        ],
        class: Class::Redirected,
        judged: vec![at(&begin), KEY.into()],
        led: vec![KEY.into()],
        ..blank(
            "exchange bound to amq.topic",
            Target::Exchange(begin.clone(), KEY.into()),
            address(KEY),
        )
    });
    if builder != Builder::Receiver {
        let alternate = |to: &str| vec![("alternate-exchange", Argument::Text(to.into()))];
        paths.push(Path {
            steps: vec![
                open(Place::Middle, &middle, "fanout"),
                make(Place::End, &end),
                join(&middle, &end, ""),
                (
                    Place::Begin,
                    Step::Exchange(begin.clone(), "direct", alternate(&middle)),
                ),
            ],
            led: vec![own(&end)],
            ..blank(
                "alternate exchange, queue",
                Target::Exchange(begin.clone(), KEY.into()),
                queue(&end),
            )
        });
        paths.push(Path {
            steps: vec![(
                Place::Begin,
                Step::Exchange(begin.clone(), "direct", alternate("amq.topic")),
            )],
            class: Class::Redirected,
            judged: vec![at(&begin), KEY.into()],
            led: vec![KEY.into()],
            ..blank(
                "amq.topic as alternate exchange",
                Target::Exchange(begin.clone(), KEY.into()),
                address(KEY),
            )
        });
    }
    for (from_queue, bound, push) in DEATHS {
        let terms = |exchange: &str, key: &str| {
            let mut terms = vec![
                ("x-dead-letter-exchange", Argument::Text(exchange.into())),
                ("x-dead-letter-routing-key", Argument::Text(key.into())),
            ];
            match push {
                Push::Wait => terms.push(("x-message-ttl", Argument::Number(1000))),
                Push::Fill => terms.push(("x-max-length", Argument::Number(1))),
                Push::Nothing => terms.push(("x-max-length", Argument::Number(0))),
                Push::Reject => {}
            }
            terms
        };
        // The queue that gives up is the target, or is bound to amq.topic.
        let ways: &[bool] = match builder {
            Builder::Operator => &[false, true],
            Builder::Receiver => &[true],
            Builder::Publisher => &[false],
        };
        for &is_bound in ways {
            let (place, from, target) = match is_bound {
                true => (Place::Middle, &middle, plain()),
                false => (Place::Begin, &begin, Target::Queue(begin.clone())),
            };
            let name = if is_bound { bound } else { from_queue };
            let dead = |exchange: &str, key: &str| {
                (place, Step::Queue(from.clone(), terms(exchange, key)))
            };
            let bind = is_bound.then(|| join("amq.topic", from, "secret.plan"));
            let first = target.address();
            let mut dies =
                |suffix: &'static str, mut steps: Vec<(Place, Step)>, source, last: String| {
                    steps.extend(bind.clone());
                    paths.push(Path {
                        steps,
                        class: Class::Dead,
                        judged: vec![first.clone(), last.clone()],
                        led: vec![last],
                        push,
                        pushed_from: from.clone(),
                        ..blank(named(name, suffix), target.clone(), source)
                    });
                };
            dies(
                "queue",
                vec![make(Place::End, &end), dead("", &end)],
                queue(&end),
                own(&end),
            );
            dies(
                "amq.topic",
                vec![dead("amq.topic", "open.plan")],
                address("open/plan"),
                "open/plan".into(),
            );
            let exchange = format!("{}-out", name_of(place, builder));
            dies(
                "exchange and queue",
                vec![
                    (
                        place,
                        Step::Exchange(exchange.clone(), "fanout", Vec::new()),
                    ),
                    make(Place::End, &end),
                    join(&exchange, &end, ""),
                    dead(&exchange, KEY),
                ],
                queue(&end),
                at(&exchange),
            );
        }
    }
    paths
}

fn name_of(place: Place, builder: Builder) -> &'static str {
    if builder.owns(place) {
        "mine"
    } else {
        "theirs"
    }
}

/// The names of dead letters' paths, which live as long as the table.
fn named(name: &'static str, suffix: &'static str) -> &'static str {
    format!("{name}, to {suffix}").leak()
}
