use super::*;
use proptest::prelude::*;
use std::num::NonZeroU32;

fn made(name: &str) -> Configuration {
    Configuration {
        name: name.into(),
        data: "".into(),
        resource_type: "core.ps.data".into(),
        content_format: None,
        topic_type: None,
        expiration: None,
        max_subscribers: None,
        observer_check: None,
        initialize: None,
    }
}

fn payload(configuration: &Configuration) -> Vec<u8> {
    let mut out = Vec::new();
    configuration.encode(&mut out);
    out
}

const MAX: usize = 100;

/// Makes a topic as a front does.
#[track_caller]
fn make(topics: &mut Topics, configuration: Configuration) -> TopicId {
    let (id, configuration) = topics.plan(configuration, MAX, 0).expect("it can be made");
    assert_eq!(
        topics.apply(id.as_str(), Some(&payload(&configuration))),
        Ok(Applied::New)
    );
    id
}

/// Two shards of one broker, which hear what the other says.
fn two_shards() -> [Topics; 2] {
    [Topics::new("", 0), Topics::new("", 1)]
}

/// Tells every shard what the others have to say about their observers.
fn announce(shards: &mut [Topics]) {
    for from in 0..shards.len() {
        for (id, count) in shards[from].take_announcements() {
            let address = shards[from].counted_at(id);
            let (_, number) = address.rsplit_once('/').expect("$ps/<id>/<shard>");
            for topics in shards.iter_mut() {
                topics.apply_count(id.as_str(), number, count.to_string().as_bytes());
            }
        }
    }
}

#[test]
fn a_topic_is_found_by_id_and_by_the_address_of_its_data() {
    let mut topics = Topics::new("", 0);
    let id = make(&mut topics, made("living-room-sensor"));
    let topic = topics.at("living-room-sensor").expect("by address");
    assert_eq!(&*topic.configuration.data, "/ps/data/living-room-sensor");
    assert_eq!(topics.find(id.as_str()).map(|(found, _)| found), Some(id));
    assert_eq!(&*topics.kept_at(id), format!("$ps/{id}"));
    assert_eq!(
        topics.apply(id.as_str(), None),
        Ok(Applied::Gone(Some("living-room-sensor".into())))
    );
    assert!(topics.at("living-room-sensor").is_none() && topics.find(id.as_str()).is_none());
    assert_eq!(topics.apply(id.as_str(), None), Ok(Applied::Unknown));
}

#[test]
fn a_tenants_topics_have_its_addresses() {
    let mut topics = Topics::new("blue", 3);
    let id = make(&mut topics, made("a/b"));
    assert!(topics.at("$t@blue/a/b").is_some() && topics.at("a/b").is_none());
    assert_eq!(&*topics.kept_at(id), format!("$t@blue/$ps/{id}"));
    assert_eq!(&*topics.counted_at(id), format!("$t@blue/$ps/{id}/3"));
}

#[test]
fn the_same_name_has_the_same_id_everywhere() {
    let [one, other] = two_shards();
    let ids = ["a", "b", "", "living-room-sensor"].map(|name| {
        let id = one.plan(made(name), MAX, 0).expect("free").0;
        assert_eq!(other.plan(made(name), MAX, 0).expect("free").0, id);
        id
    });
    assert_eq!(BTreeSet::from(ids).len(), 4);
    // It is kept in the journal as a name: it must not change with our next version.
    assert_eq!(TopicId::of("living-room-sensor", 0).as_str(), "0vpq9t75");
}

#[test]
fn a_name_and_an_address_are_used_once() {
    let mut topics = Topics::new("", 0);
    make(&mut topics, made("a"));
    assert_eq!(topics.plan(made("a"), MAX, 0), Err(Unplanned::NameInUse));
    let same_data = Configuration {
        data: "ps/data/a".into(),
        ..made("b")
    };
    assert_eq!(topics.plan(same_data, MAX, 0), Err(Unplanned::AddressInUse));
    let (_, planned) = topics
        .plan(
            Configuration {
                data: "ps/data/e".into(),
                ..made("e")
            },
            MAX,
            0,
        )
        .expect("free");
    assert_eq!(
        &*planned.data, "/ps/data/e",
        "kept as a path from the root, whatever it is resolved against"
    );
    // Who does not say where its data are gets another place.
    make(
        &mut topics,
        Configuration {
            data: "/ps/data/c".into(),
            ..made("d")
        },
    );
    let (id, planned) = topics.plan(made("c"), MAX, 0).expect("free");
    assert_eq!(&*planned.data, format!("/ps/data/topics/{id}"));
}

#[test]
fn what_is_no_address_has_its_data_somewhere_else() {
    let topics = Topics::new("", 0);
    for name in ["a/+", "$SYS/x", "/a", "a\0b"] {
        let (id, planned) = topics.plan(made(name), MAX, 0).expect("free");
        assert_eq!(&*planned.data, format!("/ps/data/topics/{id}"), "{name:?}");
    }
    let (_, planned) = topics.plan(made("a b/ü"), MAX, 0).expect("free");
    assert_eq!(&*planned.data, "/ps/data/a%20b/%C3%BC");
}

#[test]
fn data_of_another_server_are_only_passed_on() {
    let mut topics = Topics::new("", 0);
    let elsewhere = Configuration {
        data: "coap://other/x".into(),
        ..made("a")
    };
    let first_value = Configuration {
        initialize: Some([0].into()),
        content_format: Some(42),
        ..elsewhere.clone()
    };
    assert_eq!(
        topics.plan(first_value, MAX, 0),
        Err(Unplanned::InitializeElsewhere)
    );
    let id = make(&mut topics, elsewhere);
    assert_eq!(
        topics.get(id).map(|topic| topic.address.as_deref()),
        Some(None)
    );
    assert_eq!(topics.apply(id.as_str(), None), Ok(Applied::Gone(None)));
}

#[test]
fn there_are_no_more_topics_than_there_may_be() {
    let mut topics = Topics::new("", 0);
    for name in ["a", "b"] {
        let (id, planned) = topics.plan(made(name), 2, 0).expect("there is room");
        topics
            .apply(id.as_str(), Some(&payload(&planned)))
            .expect("legal");
    }
    assert_eq!(topics.plan(made("c"), 2, 0), Err(Unplanned::Full));
    assert_eq!(topics.plan(made("a"), 2, 0), Err(Unplanned::NameInUse));
    assert_eq!(topics.len(), 2);
}

#[test]
fn a_change_is_planned_and_then_applied() {
    let mut topics = Topics::new("", 0);
    let id = make(
        &mut topics,
        Configuration {
            content_format: Some(60),
            ..made("a")
        },
    );
    let patch = [0xA1, 6, 5]; // {6: 5}
    let patched = topics
        .plan_change(id, Change::Patch, &patch, 0)
        .expect("legal");
    assert_eq!(
        (patched.max_subscribers, patched.content_format),
        (Some(5), Some(60))
    );
    let replaced = topics
        .plan_change(id, Change::Replace, &patch, 0)
        .expect("legal");
    assert_eq!(
        (replaced.max_subscribers, replaced.content_format),
        (Some(5), None)
    );
    assert_eq!(
        topics.get(id).expect("there").configuration.max_subscribers,
        None,
        "planned is not done"
    );
    assert_eq!(
        topics.apply(id.as_str(), Some(&payload(&patched))),
        Ok(Applied::Changed)
    );
    assert_eq!(
        topics.apply(id.as_str(), Some(&payload(&patched))),
        Ok(Applied::Same)
    );
    assert_eq!(topics.at("a").expect("there").configuration, patched);
    let nobody = TopicId::of("nobody", 0);
    assert_eq!(
        topics.plan_change(nobody, Change::Patch, &patch, 0),
        Err(Unplanned::NoTopic)
    );
}

#[test]
fn topics_end_at_their_date() {
    let mut topics = Topics::new("", 0);
    let late = make(
        &mut topics,
        Configuration {
            expiration: Some(200),
            ..made("late")
        },
    );
    let early = make(
        &mut topics,
        Configuration {
            expiration: Some(100),
            ..made("early")
        },
    );
    make(&mut topics, made("for ever"));
    assert_eq!(topics.next_expiry(), Some(100));
    assert_eq!(topics.expired(99).count(), 0);
    assert_eq!(topics.expired(100).collect::<Vec<_>>(), [early]);
    topics.apply(early.as_str(), None).expect("there");
    let sooner = topics
        .plan_change(late, Change::Patch, &[0xA1, 5, 0xC1, 24, 150], 149)
        .expect("legal");
    topics
        .apply(late.as_str(), Some(&payload(&sooner)))
        .expect("legal");
    assert_eq!(
        (
            topics.next_expiry(),
            topics.expired(150).collect::<Vec<_>>()
        ),
        (Some(150), vec![late])
    );
    // A date that has passed is refused; one that stays as it is is accepted.
    let passed = topics.plan_change(late, Change::Patch, &[0xA1, 5, 0xC1, 24, 151], 160);
    assert_eq!(
        passed.map_err(|why| why.to_string()),
        Err("expiration-date has passed".to_owned())
    );
    assert!(
        topics
            .plan_change(late, Change::Patch, &[0xA1, 6, 1], 160)
            .is_ok()
    );
    let dead = Configuration {
        expiration: Some(160),
        ..made("dead")
    };
    assert_eq!(
        topics.plan(dead, MAX, 160).map_err(Unplanned::code),
        Err(Code::BAD_REQUEST)
    );
    let unlimited = topics
        .plan_change(late, Change::Patch, &[0xA1, 5, 0xF6], 0)
        .expect("legal");
    topics
        .apply(late.as_str(), Some(&payload(&unlimited)))
        .expect("legal");
    assert_eq!(topics.next_expiry(), None);
}

#[test]
fn a_topic_lets_no_more_observe_than_it_says() {
    let mut topics = Topics::new("", 0);
    make(
        &mut topics,
        Configuration {
            max_subscribers: Some(2),
            ..made("a")
        },
    );
    assert_eq!(
        [(); 3].map(|()| topics.take_seat("a")),
        [Seat::Taken, Seat::Taken, Seat::None]
    );
    topics.give_seat_back("a");
    assert_eq!(topics.take_seat("a"), Seat::Taken);
    assert_eq!(topics.at("a").expect("there").observers(), 2);
    // Addresses without a topic, and topics without a limit, have room for all.
    make(&mut topics, made("b"));
    assert_eq!(
        [topics.take_seat("b"), topics.take_seat("c")],
        [Seat::Taken, Seat::Taken]
    );
    make(
        &mut topics,
        Configuration {
            max_subscribers: Some(0),
            ..made("d")
        },
    );
    assert_eq!(topics.take_seat("d"), Seat::None);
}

#[test]
fn shards_tell_each_other_about_observers_of_limited_topics() {
    let mut shards = two_shards();
    let limited = Configuration {
        max_subscribers: Some(2),
        ..made("a")
    };
    for topics in &mut shards {
        make(topics, limited.clone());
        make(topics, made("b"));
    }
    assert_eq!(
        (shards[0].take_seat("a"), shards[0].take_seat("b")),
        (Seat::Taken, Seat::Taken)
    );
    announce(&mut shards);
    assert_eq!(
        (shards[1].take_seat("a"), shards[1].take_seat("a")),
        (Seat::Taken, Seat::None)
    );
    announce(&mut shards);
    assert_eq!(shards[0].take_seat("a"), Seat::None);
    shards[1].give_seat_back("a");
    announce(&mut shards);
    assert_eq!(shards[0].take_seat("a"), Seat::Taken);
    announce(&mut shards);
    assert!(
        shards
            .iter_mut()
            .all(|topics| topics.take_announcements().is_empty()),
        "nothing is said twice"
    );
}

#[test]
fn the_last_seat_given_twice_is_taken_back_by_the_higher_shard() {
    let mut shards = two_shards();
    let id = shards.each_mut().map(|topics| {
        make(
            topics,
            Configuration {
                max_subscribers: Some(1),
                ..made("a")
            },
        )
    })[0];
    assert_eq!(
        shards.each_mut().map(|topics| topics.take_seat("a")),
        [Seat::Taken, Seat::Taken]
    );
    assert_eq!(shards.each_ref().map(|topics| topics.surplus(id)), [0, 0]);
    announce(&mut shards);
    assert_eq!(shards.each_ref().map(|topics| topics.surplus(id)), [0, 1]);
}

#[test]
fn a_lower_limit_leaves_some_too_many() {
    let mut shards = two_shards();
    let id = shards.each_mut().map(|topics| make(topics, made("a")))[0];
    for _ in 0..3 {
        assert_eq!(
            shards.each_mut().map(|topics| topics.take_seat("a")),
            [Seat::Taken, Seat::Taken]
        );
    }
    for topics in &mut shards {
        let limited = topics
            .plan_change(id, Change::Patch, &[0xA1, 6, 4], 0)
            .expect("legal");
        topics
            .apply(id.as_str(), Some(&payload(&limited)))
            .expect("legal");
    }
    // Counts were of no interest before there was a limit; now they are said.
    announce(&mut shards);
    assert_eq!(shards.each_ref().map(|topics| topics.surplus(id)), [0, 2]);
    shards[1].give_seat_back("a");
    shards[1].give_seat_back("a");
    announce(&mut shards);
    assert_eq!(shards.each_ref().map(|topics| topics.surplus(id)), [0, 0]);
    assert_eq!(
        shards.each_mut().map(|topics| topics.take_seat("a")),
        [Seat::None, Seat::None]
    );
}

#[test]
fn who_moves_a_topic_by_hand_moves_it_away_from_its_observers() {
    let mut topics = Topics::new("", 0);
    let id = make(
        &mut topics,
        Configuration {
            max_subscribers: Some(1),
            ..made("a")
        },
    );
    assert_eq!(topics.take_seat("a"), Seat::Taken);
    let moved = Configuration {
        data: "/ps/data/b".into(),
        max_subscribers: Some(1),
        ..made("a")
    };
    assert_eq!(
        topics.apply(id.as_str(), Some(&payload(&moved))),
        Ok(Applied::Changed)
    );
    assert!(topics.at("a").is_none());
    assert_eq!(
        [topics.take_seat("b"), topics.take_seat("b")],
        [Seat::Taken, Seat::None]
    );
}

#[test]
fn two_names_that_want_one_id_get_two() {
    let mut topics = Topics::new("", 0);
    // As if another name had taken what "a" would have.
    let taken = TopicId::of("a", 0);
    let other = Configuration {
        data: "/ps/data/other".into(),
        ..made("other")
    };
    topics
        .apply(taken.as_str(), Some(&payload(&other)))
        .expect("legal");
    assert_eq!(make(&mut topics, made("a")), TopicId::of("a", 1));
    topics.apply(taken.as_str(), None).expect("an id");
    assert_eq!(
        topics.plan(made("a"), MAX, 0),
        Err(Unplanned::NameInUse),
        "also when the first id is free again"
    );
}

#[test]
fn who_observed_before_there_was_a_topic_is_counted() {
    let mut topics = Topics::new("", 0);
    let id = make(
        &mut topics,
        Configuration {
            max_subscribers: Some(1),
            ..made("a")
        },
    );
    topics.set_observers("a", 3);
    assert_eq!((topics.surplus(id), topics.take_seat("a")), (2, Seat::None));
}

#[test]
fn what_is_no_count_changes_nothing() {
    let mut topics = Topics::new("", 1);
    let id = make(
        &mut topics,
        Configuration {
            max_subscribers: Some(1),
            ..made("a")
        },
    );
    let id = id.as_str();
    for (id, shard, count) in [
        (id, "1", "5"), // our own
        (id, "x", "5"),
        (id, "65536", "5"),
        (id, "1024", "5"),
        (id, "0", "-1"),
        (id, "0", "many"),
        ("00000000", "0", "5"),
        ("x", "0", "5"),
    ] {
        assert!(
            !topics.apply_count(id, shard, count.as_bytes()),
            "{id} {shard} {count}"
        );
    }
    assert!(!topics.apply_count(id, "0", b"\xff"));
    assert_eq!(topics.take_seat("a"), Seat::Taken);
}

#[test]
fn what_anybody_may_have_published_is_no_topic_unless_it_is_one() {
    let mut topics = Topics::new("", 0);
    let id = make(&mut topics, made("a"));
    let good = payload(&Configuration {
        data: "/ps/data/x".into(),
        ..made("x")
    });
    for (id, bytes) in [
        ("x", &good[..]),
        ("ABCDEFGH", &good),
        ("aaaaaaaaa", &good),
        (id.as_str(), b"online"),
        (id.as_str(), b""),
        (id.as_str(), &good[..5]),
        (id.as_str(), &payload(&made("without data"))),
        (
            id.as_str(),
            &payload(&Configuration {
                data: "/ps/data/$SYS".into(),
                ..made("x")
            }),
        ),
    ] {
        assert!(topics.apply(id, Some(bytes)).is_err(), "{id} {bytes:?}");
    }
    assert_eq!(&*topics.at("a").expect("as before").configuration.name, "a");
}

#[test]
fn two_topics_with_one_address_are_the_same_one_on_every_shard() {
    let mut topics = [Topics::new("", 0), Topics::new("", 1)];
    let of = |name: &str| Configuration {
        data: "/ps/data/same".into(),
        ..made(name)
    };
    let (a, b) = (TopicId::of("a", 0), TopicId::of("b", 0));
    let (pa, pb) = (payload(&of("a")), payload(&of("b")));
    for (shard, order) in [[(a, &pa), (b, &pb)], [(b, &pb), (a, &pa)]]
        .iter()
        .enumerate()
    {
        for (id, payload) in order {
            assert_eq!(
                topics[shard].apply(id.as_str(), Some(payload)),
                Ok(Applied::New)
            );
        }
    }
    let names = topics.each_ref().map(|topics| {
        topics
            .at("same")
            .expect("one of them")
            .configuration
            .name
            .clone()
    });
    assert_eq!(names[0], names[1]);
    let (owner, other) = if *names[0] == *"a" {
        (a, "b")
    } else {
        (b, "a")
    };
    for topics in &mut topics {
        topics.apply(owner.as_str(), None).expect("there");
        assert_eq!(
            &*topics.at("same").expect("the other").configuration.name,
            other
        );
        topics
            .apply(TopicId::of(other, 0).as_str(), None)
            .expect("there");
        assert!(topics.at("same").is_none());
        assert_eq!(topics.contested, 0);
    }
}

#[test]
fn topics_are_listed_in_the_order_of_their_ids() {
    let mut topics = Topics::new("", 0);
    for name in ["a", "b", "c", "d"] {
        let topic_type = (name != "b").then(|| "t".into());
        make(
            &mut topics,
            Configuration {
                topic_type,
                observer_check: NonZeroU32::new(9),
                ..made(name)
            },
        );
    }
    let all: Vec<TopicId> = topics
        .matching(&TopicFilter::default())
        .map(|(id, _)| id)
        .collect();
    assert!(all.len() == 4 && all.is_sorted());
    let filter = TopicFilter::decode(&[0xA1, 4, 0x61, b't']).expect("legal");
    assert!(
        topics
            .matching(&filter)
            .all(|(_, topic)| *topic.configuration.name != *"b")
    );
    assert_eq!(topics.matching(&filter).count(), 3);
}

/// What can happen to topics.
#[derive(Clone, Debug)]
enum Step {
    Make(usize, Option<usize>, Option<u64>, Option<u32>),
    Delete(usize),
    Expire(u64),
    Take(usize),
    Give(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let small = 0..6usize;
    prop_oneof![
        (
            small.clone(),
            prop::option::of(small.clone()),
            prop::option::of(0..50u64),
            prop::option::of(0..3u32)
        )
            .prop_map(|(name, data, end, max)| Step::Make(name, data, end, max)),
        small.clone().prop_map(Step::Delete),
        (0..50u64).prop_map(Step::Expire),
        small.clone().prop_map(Step::Take),
        small.prop_map(Step::Give),
    ]
}

proptest! {
    #[test]
    fn the_ways_to_a_topic_agree(steps in prop::collection::vec(step(), 0..60)) {
        let mut topics = Topics::new("", 0);
        for step in steps {
            match step {
                // Not planned: as if other shards had made them.
                Step::Make(name, data, expiration, max_subscribers) => {
                    let data = data.map_or("coap://x/".into(), |data| format!("/ps/data/{data}").into());
                    let topic = Configuration { data, expiration, max_subscribers, ..made(&name.to_string()) };
                    topics.apply(TopicId::of(&name.to_string(), 0).as_str(), Some(&payload(&topic))).expect("legal");
                }
                Step::Delete(name) => {
                    topics.apply(TopicId::of(&name.to_string(), 0).as_str(), None).expect("an id");
                }
                Step::Expire(now) => {
                    for id in topics.expired(now).collect::<Vec<_>>() {
                        topics.apply(id.as_str(), None).expect("there");
                    }
                    prop_assert!(topics.next_expiry().is_none_or(|end| end > now));
                }
                Step::Take(address) => drop(topics.take_seat(&address.to_string())),
                Step::Give(address) => topics.give_seat_back(&address.to_string()),
            }
            let mut here = 0;
            let mut addresses = BTreeSet::new();
            for (id, topic) in &topics.by_id {
                let end = topic.configuration.expiration;
                prop_assert_eq!(end.is_some(), topics.expiring.iter().any(|(at, of)| of == id && Some(*at) == end));
                if let Some(address) = &topic.address {
                    here += 1;
                    addresses.insert(address.clone());
                    let owner = topics.by_address.get(address).expect("it has an owner");
                    prop_assert!(owner <= id);
                    prop_assert_eq!(topics.by_id[owner].address.as_ref(), Some(address));
                }
            }
            prop_assert_eq!(topics.by_address.len(), addresses.len());
            prop_assert_eq!(topics.contested, here - addresses.len());
            prop_assert_eq!(topics.expiring.len(), topics.by_id.values().filter(|t| t.configuration.expiration.is_some()).count());
            prop_assert!(topics.changed_counts.iter().all(|id| topics.by_id.contains_key(id)));
        }
    }
}
