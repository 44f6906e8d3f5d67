//! Every cell of `docs/interop.md` that live subscribers can show: each library publishes, each receives, and the
//! results equal the capability records. A test per group of aspects; each names all cells that fail, not only the
//! first.

use serde_json::{Value, json};
use thalweg_fronts::capabilities::{Aspect, Cell, Rule, expected};

use super::protocol::{ONE_EACH, Protocol, SOCKETS, SPEAKERS, everybody, who_can};
use super::puppet::Library;
use super::speaker::{Place, Post, Seen, Speaker, broker};

/// A publish and how to look at what becomes of it.
struct Case {
    aspect: Aspect,
    place: Place,
    post: Post,
    look: fn(&Case, Cell, &Seen) -> Result<(), String>,
}

/// Entry of a cell for two speakers.
fn cell(from: &Speaker, to: &Speaker, aspect: Aspect) -> Cell {
    expected(
        from.protocol.capabilities(),
        to.protocol.capabilities(),
        aspect,
    )
}

/// All subscribers get all cases.
fn listen(subscribers: &[Speaker], filter: &str, cases: &[Case]) {
    let places: Vec<&Place> = cases.iter().map(|case| &case.place).collect();
    subscribers
        .iter()
        .for_each(|subscriber| subscriber.listen(&Place::plain(filter), &places));
}

/// Every publisher publishes every case, every subscriber looks at it.
fn play(publishers: &[Speaker], subscribers: &[Speaker], cases: &[Case]) {
    let mut wrong = Vec::new();
    let mut looked = 0;
    for from in publishers {
        for case in cases
            .iter()
            .filter(|case| cell(from, from, case.aspect) != Cell::Unsaid)
        {
            from.publish(&case.place, &case.post);
            for to in subscribers {
                let seen = to.receive();
                let cell = cell(from, to, case.aspect);
                let mut verdict = same("payload", &seen.payload, &case.post.payload);
                if case.aspect != Aspect::LongAddress {
                    let address = case.place.to(to.protocol).to_owned();
                    verdict = verdict.and_then(|()| same("address", &seen.address, &address));
                }
                if let Err(why) = verdict.and_then(|()| (case.look)(case, cell, &seen)) {
                    wrong.push(format!(
                        "{:?}, {from:?} to {to:?} ({cell:?}): {why}\n    {seen:?}",
                        case.aspect
                    ));
                }
                looked += 1;
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {looked} cells are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, seen: &T, said: &T) -> Result<(), String> {
    if seen == said {
        return Ok(());
    }
    let shown = |value: &T| format!("{value:?}").chars().take(120).collect::<String>();
    Err(format!(
        "{what} is {} and should be {}",
        shown(seen),
        shown(said)
    ))
}

fn nothing_more(_: &Case, _: Cell, _: &Seen) -> Result<(), String> {
    Ok(())
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn payloads_are_exact_between_all_libraries() {
    let Some(broker) = broker() else { return };
    let speakers = Speaker::all(&broker, &everybody());
    let case = |place: &str, payload: Vec<u8>| Case {
        aspect: Aspect::Payload,
        place: Place::plain(place),
        post: Post::new(payload),
        look: nothing_more,
    };
    let small =
        [(0..=255).collect(), Vec::new(), vec![0; 3]].map(|payload| case("pay/load", payload));
    listen(&speakers, "pay/load", &small);
    play(&speakers, &speakers, &small);
    drop(speakers);
    // A megabyte; go-coap and node-coap fail on notifications in blocks, whoever sends them.
    let publishers = Speaker::all(&broker, &[&ONE_EACH[..], &SOCKETS[..1]].concat());
    let can = |library: &Library| !matches!(library, Library::GoCoap | Library::NodeCoap);
    let subscribers: Vec<_> = everybody()
        .into_iter()
        .filter(|(_, library)| can(library))
        .collect();
    let subscribers = Speaker::all(&broker, &subscribers);
    let large = [case(
        "pay/large",
        (0..=255u8).cycle().take(1_000_000).collect(),
    )];
    listen(&subscribers, "pay/large", &large);
    play(&publishers, &subscribers, &large);
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn addresses_are_exact_or_written_in_the_other_syntax() {
    let Some(broker) = broker() else { return };
    let speakers = Speaker::all(&broker, &everybody());
    let mut cases: Vec<Case> = [
        Place::plain("address/plain"),
        Place::of("a.b/c.d", "a%2Eb.c%2Ed"),
        Place::of("spBv1.0/group/NDATA", "spBv1%2E0.group.NDATA"),
        Place::of("/leading", ".leading"),
        Place::of("trailing/", "trailing."),
        Place::of("empty//level", "empty..level"),
        Place::of("/", "."),
        // In STOMP's dialect a slash in a topic is an error.
        Place {
            stomp: "/topic/literal%2Fslash".into(),
            ..Place::of("literal%2Fslash", "literal/slash")
        },
        Place {
            stomp: "/topic/escaped%252Fslash".into(),
            ..Place::of("escaped%252Fslash", "escaped%2Fslash")
        },
        Place::of("hundred%", "hundred%"),
        Place::of("dot%2Eescaped", "dot%252Eescaped"),
        Place::of("plus%2Bsign", "plus+sign"),
        Place::of("star/*", "star.*"),
        Place::of("star/a*b", "star.a*b"),
        Place::of("ünï/кирилл/水", "ünï.кирилл.水"),
        Place::of("with space/x", "with space.x"),
    ]
    .into_iter()
    .map(|place| Case {
        aspect: Aspect::Address,
        place,
        post: Post::new("x"),
        look: nothing_more,
    })
    .collect();
    // 300 bytes.
    let long = format!("long/{}/{}", "x".repeat(147), "x".repeat(147));
    cases.push(Case {
        aspect: Aspect::LongAddress,
        place: Place::plain(&long),
        post: Post::new("x"),
        look: |case, cell, seen| match cell {
            Cell::Rule(Rule::CutKey) => {
                same(
                    "x-address",
                    &seen.whole_address.as_ref(),
                    &Some(&case.place.mqtt),
                )?;
                same("length is short", &(seen.address.len() <= 255), &true)?;
                same("beginning", &seen.address.starts_with("long.xxxxx"), &true)
            }
            Cell::Exact => same("length", &(seen.address.len() >= 300), &true),
            _ => same("address", &seen.address, &case.place.stomp)
                .or(same("address", &seen.address, &case.place.mqtt))
                .or(same("address", &seen.address, &case.place.coap)),
        },
    });
    listen(&speakers, "#", &cases);
    play(&speakers, &speakers, &cases);
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn reserved_addresses_are_hidden_from_wildcards_of_every_protocol() {
    let Some(broker) = broker() else { return };
    let speakers = Speaker::all(&broker, &ONE_EACH);
    let subscribers: Vec<_> = who_can(&ONE_EACH, |can| can.syntax.wildcards.is_some()).collect();
    let subscribers = Speaker::all(&broker, &subscribers);
    subscribers
        .iter()
        .for_each(|speaker| speaker.subscribe(&Place::plain("#"), false));
    for from in &speakers {
        // CoAP cannot name them at all.
        if from.protocol != Protocol::Coap {
            from.publish(&Place::plain("$hidden/x"), &Post::new("hidden"));
        }
        from.publish(&Place::plain("seen/x"), &Post::new("seen"));
        for to in &subscribers {
            assert_eq!(to.receive().payload, b"seen", "{from:?} to {to:?}");
        }
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn wildcards_match_alike_in_every_syntax() {
    let Some(broker) = broker() else { return };
    let speakers = Speaker::all(&broker, &everybody());
    let subscribers: Vec<_> = who_can(&SPEAKERS, |can| can.syntax.wildcards.is_some()).collect();
    let subscribers = Speaker::all(&broker, &subscribers);
    for speaker in &subscribers {
        for filter in ["plant/+/temperature", "car/#", "+/+/+/deep", "end"] {
            speaker.subscribe(&Place::plain(filter), false);
        }
    }
    let topics = [
        ("plant/1/temperature", true),
        ("plant//temperature", true),
        ("plant/1/humidity", false),
        ("plant/1/temperature/raw", false),
        ("car", true),
        ("car/7/door/left", true),
        ("cart", false),
        ("a/b/c/deep", true),
        ("a/b/deep", false),
        ("end", true),
    ];
    for from in &speakers {
        for (topic, _) in topics {
            from.publish(&Place::plain(topic), &Post::new(topic));
        }
        for to in &subscribers {
            // Subscriptions of one client have no order among each other everywhere.
            let wanted = topics.iter().filter(|(_, matches)| *matches);
            let mut wanted: Vec<&[u8]> = wanted.map(|(topic, _)| topic.as_bytes()).collect();
            let seen: Vec<Vec<u8>> = wanted.iter().map(|_| to.receive().payload).collect();
            let mut seen: Vec<&[u8]> = seen.iter().map(Vec::as_slice).collect();
            wanted.sort_unstable();
            seen.sort_unstable();
            assert_eq!(seen, wanted, "{from:?} to {to:?}");
        }
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn order_holds_between_all_libraries() {
    let Some(broker) = broker() else { return };
    let speakers = Speaker::all(&broker, &everybody());
    let place = Place::plain("order/x");
    speakers
        .iter()
        .for_each(|speaker| speaker.listen(&Place::plain("order/#"), &[&place]));
    for from in &speakers {
        for number in 0..30u8 {
            from.publish(&place, &Post::new([number]));
        }
        for to in &speakers {
            let mut seen = vec![to.receive().payload[0]];
            while seen.last() != Some(&29) {
                seen.push(to.receive().payload[0]);
            }
            match cell(from, to, Aspect::Order) {
                Cell::Rule(Rule::NewestValue) => {
                    assert!(
                        seen.is_sorted_by(|one, next| one < next),
                        "{from:?} to {to:?}: {seen:?}"
                    )
                }
                _ => assert!(
                    seen.iter().copied().eq(0..30),
                    "{from:?} to {to:?}: {seen:?}"
                ),
            }
        }
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn what_is_said_beside_the_payload_arrives_as_the_records_say() {
    let Some(broker) = broker() else { return };
    let speakers = Speaker::all(&broker, &everybody());
    let text = |value: &str| json!(["text", value]);
    let user = |pairs: &[(&str, Value)]| {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect()
    };
    let case = |aspect: Aspect, post: Post, look: fn(&Case, Cell, &Seen) -> Result<(), String>| {
        let mut post = post;
        post.payload = format!("{aspect:?}").into_bytes();
        // A CoAP observer is notified of a changed content format of its resource, and of no change after that.
        Case {
            aspect,
            place: Place::plain(&format!("said/{aspect:?}")),
            post,
            look,
        }
    };
    let cases = [
        case(
            Aspect::ContentType,
            Post {
                content_type: Some("text/x-thing; charset=utf-8".to_owned()),
                ..Post::default()
            },
            |case, cell, seen| match cell {
                Cell::Exact => same("content type", &seen.content_type, &case.post.content_type),
                Cell::Rule(Rule::OctetStream) => same(
                    "content type",
                    &seen.content_type.as_deref(),
                    &Some("application/octet-stream"),
                ),
                _ => same("content type", &seen.content_type, &None),
            },
        ),
        case(
            Aspect::RegisteredType,
            Post {
                content_type: Some("application/json".to_owned()),
                ..Post::default()
            },
            |case, cell, seen| match cell {
                Cell::Exact => same("content type", &seen.content_type, &case.post.content_type),
                _ => same("content type", &seen.content_type, &None),
            },
        ),
        case(
            Aspect::TextProperty,
            Post {
                user: user(&[
                    ("colour", text("blue")),
                    ("colon", text("a:b")),
                    ("lines", text("one\ntwo\\three")),
                    ("ünï", text("€")),
                    ("empty", text("")),
                ]),
                ..Post::default()
            },
            |case, cell, seen| match cell {
                Cell::Exact => same("properties", &sorted(&seen.user), &sorted(&case.post.user)),
                _ => same("properties", &seen.user, &Vec::new()),
            },
        ),
        case(
            Aspect::RepeatedProperty,
            Post {
                user: user(&[("twice", text("1")), ("twice", text("2"))]),
                ..Post::default()
            },
            |case, cell, seen| match cell {
                Cell::Exact => same("properties", &seen.user, &case.post.user),
                Cell::Rule(Rule::FirstOfName) => {
                    same("properties", &seen.user, &case.post.user[..1].to_vec())
                }
                _ => same("properties", &seen.user, &Vec::new()),
            },
        ),
        case(
            Aspect::TypedProperty,
            Post {
                user: user(&[
                    ("number", json!(["int", 42])),
                    ("negative", json!(["int", -7])),
                    ("truth", json!(["bool", true])),
                ]),
                ..Post::default()
            },
            |case, cell, seen| match cell {
                Cell::Exact => same("properties", &sorted(&seen.user), &sorted(&case.post.user)),
                Cell::Rule(Rule::AsText) => {
                    let texts =
                        case.post.user.iter().map(|(name, value)| {
                            (name.clone(), json!(["text", value[1].to_string()]))
                        });
                    same(
                        "properties",
                        &sorted(&seen.user),
                        &sorted(&texts.collect::<Vec<_>>()),
                    )
                }
                _ => same("properties", &seen.user, &Vec::new()),
            },
        ),
        case(
            Aspect::BinaryProperty,
            Post {
                user: user(&[("bytes", json!(["bytes", "00ff10"]))]),
                ..Post::default()
            },
            |case, cell, seen| match cell {
                Cell::Exact => same("properties", &seen.user, &case.post.user),
                _ => same("properties", &seen.user, &Vec::new()),
            },
        ),
        case(
            Aspect::Correlation,
            Post {
                correlation: Some("corr-ü:1".as_bytes().to_vec()),
                ..Post::default()
            },
            correlation_holds,
        ),
        case(
            Aspect::BinaryCorrelation,
            Post {
                correlation: Some(vec![0, 255, 16, 0]),
                ..Post::default()
            },
            correlation_holds,
        ),
        case(
            Aspect::Priority,
            Post {
                priority: Some(7),
                ..Post::default()
            },
            |case, cell, seen| match cell {
                Cell::Exact => same(
                    "priority",
                    &seen.priority,
                    &case.post.priority.map(u64::from),
                ),
                _ => same("priority", &seen.priority, &None),
            },
        ),
    ];
    listen(&speakers, "said/#", &cases);
    play(&speakers, &speakers, &cases);
}

fn correlation_holds(case: &Case, cell: Cell, seen: &Seen) -> Result<(), String> {
    if cell == Cell::Dropped {
        return same("correlation", &seen.correlation, &None);
    }
    same("correlation", &seen.correlation, &case.post.correlation)?;
    match cell {
        Cell::Rule(Rule::CorrelationHeader) => same("form", &seen.correlation_form, &"header"),
        Cell::Rule(Rule::CorrelationBase64) => same("form", &seen.correlation_form, &"base64"),
        _ => Ok(()),
    }
}

/// Names are in no order where they are unique.
fn sorted(user: &[(String, Value)]) -> Vec<(String, Value)> {
    let mut user = user.to_vec();
    user.sort_by(|(one, _), (other, _)| one.cmp(other));
    user
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn last_values_reach_whoever_comes_later() {
    let Some(broker) = broker() else { return };
    let publishers = Speaker::all(&broker, &SPEAKERS);
    let place = |number: usize| Place::plain(&format!("last/{number}"));
    for (number, from) in publishers.iter().enumerate() {
        for value in ["old", "new"] {
            let payload = format!("{value} {number}");
            from.publish(
                &place(number),
                &Post {
                    keep: true,
                    ..Post::new(payload)
                },
            );
        }
        if from.protocol == Protocol::Coap {
            continue; // Each of its publishes is kept.
        }
        // Whatever is not kept changes nothing, least of all when it is empty.
        from.publish(&place(number), &Post::new("passing"));
        if !matches!(from.protocol, Protocol::Mqtt3 | Protocol::Mqtt5) {
            from.publish(&place(number), &Post::new(""));
        }
    }
    let mut wrong = Vec::new();
    for to in Speaker::all(&broker, &everybody()) {
        match to.protocol.capabilities().syntax.wildcards {
            Some(_) => to.subscribe(&Place::plain("last/+"), true),
            None if to.protocol == Protocol::Zmtp => to.subscribe(&Place::plain("last/"), true),
            None => (0..publishers.len()).for_each(|number| to.subscribe(&place(number), true)),
        }
        let mut seen: Vec<String> = Vec::new();
        while seen.len() < publishers.len() {
            let Some(message) = to.receive_within(super::puppet::PATIENCE) else {
                break;
            };
            seen.push(format!(
                "{} {}",
                message.address,
                String::from_utf8_lossy(&message.payload)
            ));
        }
        let mut wanted: Vec<String> = (0..publishers.len())
            .map(|number| format!("{} new {number}", place(number).to(to.protocol)))
            .collect();
        seen.sort();
        wanted.sort();
        if seen != wanted {
            wrong.push(format!("{to:?} got {seen:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "wanted `new` of each publisher {publishers:?}:\n{}",
        wrong.join("\n")
    );
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn last_values_are_cleared_by_every_protocol() {
    let Some(broker) = broker() else { return };
    let publishers = Speaker::all(&broker, &ONE_EACH);
    let place = |number: usize| Place::plain(&format!("cleared/{number}"));
    for (number, from) in publishers.iter().enumerate() {
        // Set by one protocol, cleared by the next.
        let setter = &publishers[(number + 1) % publishers.len()];
        setter.publish(
            &place(number),
            &Post {
                keep: true,
                ..Post::new("old")
            },
        );
        from.publish(
            &place(number),
            &Post {
                clear: true,
                ..Post::default()
            },
        );
    }
    let mark = Place::plain("cleared/mark");
    publishers[0].publish(
        &mark,
        &Post {
            keep: true,
            ..Post::new("mark")
        },
    );
    for to in Speaker::all(&broker, &ONE_EACH) {
        if to.protocol == Protocol::Coap {
            for (number, from) in publishers.iter().enumerate() {
                let answer = to.endpoint().request("GET", &place(number).coap, json!({}));
                assert_eq!(
                    answer["code"], "4.04",
                    "{to:?}, cleared by {from:?}: {answer}"
                );
            }
            assert_eq!(
                to.endpoint().request("GET", &mark.coap, json!({}))["payload"],
                "6d61726b"
            );
            continue;
        }
        to.subscribe(&Place::plain("cleared/+"), true);
        let seen = to.receive();
        assert_eq!(seen.payload, b"mark", "{to:?}: {seen:?}");
        assert!(
            to.receive_within(std::time::Duration::from_millis(100))
                .is_none(),
            "{to:?} gets nothing else"
        );
    }
}
