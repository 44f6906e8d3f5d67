//! Sent frames: logins, publishes and their confirms, requests, heartbeats.

use super::*;
use thalweg_model::Stamp;

#[test]
fn a_login_says_who_where_to_and_how_often_we_speak() {
    let mut pair = Pair::new(AmqpSettings {
        vhost: "plant".to_owned(),
        ..settings()
    });
    pair.opening.user = Some("ada".to_owned());
    pair.opening.password = Some(b"\xFFsecret".to_vec());
    pair.opening.keep_alive = Span::from_secs(10);
    pair.reach();
    assert_eq!(
        pair.server.heard,
        [
            r"PLAIN \x00ada\x00\xffsecret by pump-7",
            "heartbeat 10",
            "vhost plant"
        ]
    );
    assert_eq!(pair.witness.take(), [EventCall::Up(Welcome::default())]);
    assert!(pair.lane.capabilities().stamps && pair.lane.capabilities().requests);
}

#[test]
fn who_is_told_nothing_is_guest_and_who_has_a_certificate_shows_that() {
    for (external, login) in [
        (false, r"PLAIN \x00guest\x00guest by pump-7"),
        (true, "EXTERNAL  by pump-7"),
    ] {
        let mut pair = Pair::new(AmqpSettings {
            external,
            ..settings()
        });
        pair.reach();
        assert_eq!(pair.server.heard[0], login);
    }
}

#[test]
fn who_is_turned_away_hears_why_and_whether_to_come_again() {
    for (code, is_final) in [
        (ReplyCode::AccessRefused, true),
        (ReplyCode::NotAllowed, true),
        (ReplyCode::ConnectionForced, false),
    ] {
        let mut pair = Pair::new(settings());
        pair.server.turns_away = Some((code, "not you"));
        pair.open();
        pair.talk();
        let fault = pair.fault.expect("it was turned away");
        assert!(
            fault.words.contains("not you") && fault.is_final == is_final,
            "{fault:?}"
        );
        assert_eq!(pair.witness.take(), []);
    }
    let mut pair = Pair::new(settings());
    pair.server.mechanisms = "GSSAPI";
    pair.open();
    pair.talk();
    assert!(
        pair.fault
            .is_some_and(|fault| fault.is_final && fault.words.contains("GSSAPI"))
    );
}

#[test]
fn each_reliability_has_its_channel_and_delivery_mode() {
    let mut pair = Pair::up(settings());
    let zero = at_most_once(1, "a/b.c", b"0");
    assert_eq!(pair.publish(&zero), Ok(Departure::Gone));
    assert_eq!(
        pair.publish(&message(2, "$q/work", b"1")),
        Ok(Departure::Awaited)
    );
    pair.exchange();
    assert_eq!(pair.witness.take(), acknowledged([2]));
    let [zero, one] = &pair.server.published[..] else {
        panic!("{:?}", pair.server.published)
    };
    assert_eq!(
        (zero.exchange.as_str(), zero.key.as_str(), zero.is_confirmed),
        ("amq.topic", "a.b%2Ec", false)
    );
    assert_eq!(zero.properties(), BasicProperties::default());
    assert_eq!(
        (one.exchange.as_str(), one.key.as_str(), one.is_confirmed),
        ("", "work", true)
    );
    assert_eq!(
        one.properties(),
        BasicProperties {
            delivery_mode: Some(2),
            ..BasicProperties::default()
        }
    );
    let surest = exactly_once(3, "a", b"");
    assert!(matches!(
        pair.publish(&surest),
        Err(Refusal::Unsupported(_))
    ));
    assert_eq!(pair.publish(&message(4, "a/+", b"")), Err(Refusal::Address));
}

#[test]
fn everything_that_a_message_says_is_said() {
    let mut pair = Pair::up(settings());
    let mut properties = Vec::new();
    Properties::push("room", "12", &mut properties);
    Properties::push("room", "13", &mut properties);
    let sent = Outbound {
        retain: crate::message::Retain::Set,
        lifespan: Span::from_nanos(1_500_000_001),
        priority: 7,
        content_type: Some("text/plain"),
        properties: Properties(&properties),
        reply_to: Some("answers/here"),
        correlation: Some(b"\xFF\x00"),
        stamp: Some(Stamp {
            publisher: 0xAB,
            sequence: 0x10,
        }),
        ..message(1, "a", b"x")
    };
    pair.must_publish(&sent);
    pair.must_publish(&Outbound {
        correlation: Some(b"7"),
        reply_to: Some("$q/answers"),
        ..message(2, "a", b"x")
    });
    pair.exchange();
    let said = pair.server.published[0].properties();
    let table: Vec<(&str, FieldValue<'_>)> = said.headers.expect("there are some").iter().collect();
    let expected = [
        ("x-stamp", FieldValue::LongStr(b"ab-10")),
        ("x-correlation-id", FieldValue::Bytes(b"\xFF\x00")),
        ("x-retain", FieldValue::LongStr(b"set")),
        ("room", FieldValue::LongStr(b"12")),
        ("room", FieldValue::LongStr(b"13")),
    ];
    assert_eq!(table, expected);
    let plain = BasicProperties {
        content_type: Some("text/plain"),
        delivery_mode: Some(2),
        priority: Some(7),
        reply_to: Some("$a/answers/here"),
        expiration: Some("1501"),
        ..BasicProperties::default()
    };
    assert_eq!(
        BasicProperties {
            headers: None,
            ..said
        },
        plain
    );
    let said = pair.server.published[1].properties();
    assert_eq!(
        (said.correlation_id, said.reply_to),
        (Some(&b"7"[..]), Some("answers"))
    );
}

#[test]
fn what_cannot_be_said_is_refused_and_nothing_is_written() {
    let mut pair = Pair::up(settings());
    let mut reserved = Vec::new();
    Properties::push("CC", "everybody", &mut reserved);
    let long = "x".repeat(256);
    let refused = [
        Outbound {
            properties: Properties(&reserved),
            ..message(1, "a", b"")
        },
        Outbound {
            content_type: Some(&long),
            ..message(1, "a", b"")
        },
        Outbound {
            reply_to: Some(&long),
            ..message(1, "a", b"")
        },
        Outbound {
            address: &long,
            ..message(1, "a", b"")
        },
        Outbound {
            payload: &vec![0; settings().payload_bytes_max + 1],
            ..message(1, "a", b"")
        },
    ];
    for message in refused {
        assert!(pair.publish(&message).is_err());
        assert!(pair.out.is_empty());
    }
    // Nothing of that has taken a number.
    pair.must_publish(&message(2, "a", b""));
    pair.exchange();
    assert_eq!(pair.witness.take(), acknowledged([2]));
}

#[test]
fn confirms_of_many_and_out_of_order_reach_whom_they_mean() {
    let mut pair = Pair::up(settings());
    pair.server.holds_confirms = true;
    for id in 10..20 {
        pair.must_publish(&message(id, "a", b""));
    }
    pair.exchange();
    pair.server
        .side
        .ack(CONFIRMED, 3, false, &mut pair.server.out);
    pair.server
        .side
        .nack(CONFIRMED, 4, false, &mut pair.server.out);
    pair.server
        .side
        .ack(CONFIRMED, 6, true, &mut pair.server.out);
    pair.exchange();
    let told = pair.witness.take();
    assert_eq!(told[0], EventCall::Settled(12, Settled::Acknowledged));
    assert!(matches!(
        &told[1],
        EventCall::Settled(13, Settled::Refused(Refusal::Busy(_)))
    ));
    assert_eq!(told[2..], acknowledged([10, 11, 14, 15]));
    pair.server
        .side
        .ack(CONFIRMED, 0, true, &mut pair.server.out);
    pair.exchange();
    assert_eq!(pair.witness.take(), acknowledged(16..20));
    // Confirms of unknown or repeated numbers settle no message.
    pair.server
        .side
        .ack(CONFIRMED, 99, false, &mut pair.server.out);
    pair.server
        .side
        .ack(CONFIRMED, 1, false, &mut pair.server.out);
    pair.exchange();
    assert_eq!(pair.witness.take(), []);
}

#[test]
fn a_window_holds_and_opens() {
    let mut pair = Pair::up(AmqpSettings {
        unconfirmed_max: 4,
        ..settings()
    });
    pair.server.holds_confirms = true;
    for id in 0..4 {
        assert_eq!(pair.publish(&message(id, "a", b"")), Ok(Departure::Awaited));
    }
    assert_eq!(pair.publish(&message(4, "a", b"")), Err(Refusal::Window));
    // A publish without confirms may be sent.
    let zero = at_most_once(5, "a", b"");
    assert_eq!(pair.publish(&zero), Ok(Departure::Gone));
    pair.exchange();
    assert_eq!(pair.witness.take(), []);
    pair.server
        .side
        .ack(CONFIRMED, 2, true, &mut pair.server.out);
    pair.exchange();
    assert_eq!(
        pair.witness.take(),
        [acknowledged([0, 1]), vec![EventCall::Room]].concat()
    );
    assert_eq!(pair.publish(&message(4, "a", b"")), Ok(Departure::Awaited));
}

#[test]
fn a_broker_that_is_short_of_something_is_left_in_peace() {
    let mut pair = Pair::up(settings());
    let zero = at_most_once(1, "a", b"");
    pair.server
        .side
        .blocked("low on disk", &mut pair.server.out);
    pair.exchange();
    assert_eq!(pair.witness.take(), [EventCall::Pressed]);
    assert_eq!(pair.publish(&zero), Err(Refusal::Window));
    pair.server.side.unblocked(&mut pair.server.out);
    pair.exchange();
    assert_eq!(pair.witness.take(), [EventCall::Room]);
    assert_eq!(pair.publish(&zero), Ok(Departure::Gone));

    for (active, told) in [(false, EventCall::Pressed), (true, EventCall::Room)] {
        pair.server
            .answer(CONFIRMED, Method::ChannelFlow(channel::Flow { active }));
        pair.exchange();
        assert_eq!(pair.witness.take(), [told]);
        assert_eq!(pair.publish(&message(2, "a", b"")).is_ok(), active);
    }
    assert_eq!(pair.server.heard, ["2 flow-ok false", "2 flow-ok true"]);
}

/// Some messages, of which one is not allowed, sent again as often as it is said that they may be.
#[test]
fn a_forbidden_message_is_found_and_the_others_arrive() {
    let mut pair = Pair::up(settings());
    pair.server.forbidden_key = Some("secret");
    let addresses = ["a", "b", "secret", "c", "d"];
    let mut waiting: VecDeque<usize> = (0..addresses.len()).collect();
    let mut denied = Vec::new();
    let mut acknowledged = 0;
    for _ in 0..40 {
        while let Some(&at) = waiting.front() {
            match pair.publish(&message(at as u64, addresses[at], b"")) {
                Ok(_) => _ = waiting.pop_front(),
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::Window);
                    break;
                }
            }
        }
        pair.exchange();
        let mut again = Vec::new();
        for told in pair.witness.take() {
            match told {
                EventCall::Settled(_, Settled::Acknowledged) => acknowledged += 1,
                EventCall::Settled(id, Settled::Refused(Refusal::Busy(_))) => {
                    again.push(id as usize)
                }
                EventCall::Settled(id, Settled::Refused(why)) => denied.push((id, why)),
                EventCall::Room => {}
                other => panic!("{other:?}"),
            }
        }
        again
            .into_iter()
            .rev()
            .for_each(|at| waiting.push_front(at));
    }
    let words = "ACCESS_REFUSED - access to exchange 'amq.topic' refused".to_owned();
    assert_eq!(denied, [(2, Refusal::Denied(words))]);
    assert_eq!(acknowledged, 4);
    let mut keys: Vec<&str> = pair
        .server
        .published
        .iter()
        .map(|published| published.key.as_str())
        .collect();
    keys.dedup();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys, ["a", "b", "c", "d"]);
    assert!(pair.fault.is_none());
}

#[test]
fn questions_are_answered_on_their_channel() {
    let mut pair = Pair::up(settings());
    for request in [1, 2, 3] {
        pair.must_request(request, &message(request, "ask", b"?"));
    }
    pair.lane.forget(RequestId(3));
    pair.exchange();
    assert_eq!(
        pair.server.heard,
        ["1 consume amq.rabbitmq.reply-to no-ack"]
    );
    for question in pair.server.published.clone().iter().rev() {
        pair.server
            .reply(question, &[question.payload.as_slice(), b"!"].concat());
    }
    pair.exchange();
    let answered: Vec<u64> = pair
        .witness
        .take()
        .into_iter()
        .map(|told| match told {
            EventCall::Answered(RequestId(id), Ok(Some(got)))
                if got.payload == b"?!" && got.subscription.is_none() =>
            {
                id
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(answered, [2, 1]);
    // The channel is closed: pending requests fail, and the next request has its consumer again.
    let question = message(4, "ask", b"?");
    pair.must_request(4, &question);
    pair.exchange();
    pair.server.close_channel(
        PLAIN,
        ReplyCode::PreconditionFailed,
        "fast reply consumer",
        basic::Publish::ID,
    );
    pair.exchange();
    assert!(matches!(
        &pair.witness.take()[..],
        [EventCall::Answered(RequestId(4), Err(_)), ..]
    ));
    pair.must_request(5, &question);
    pair.exchange();
    assert_eq!(
        pair.server.heard.last().map(String::as_str),
        Some("1 consume amq.rabbitmq.reply-to no-ack")
    );
}

#[test]
fn a_probe_measures_the_way() {
    let mut pair = Pair::up(settings());
    pair.witness.round_trips.clear();
    assert_eq!(pair.lane.probe(pair.now, &mut pair.out), 13);
    assert_eq!(pair.lane.probe(pair.now, &mut pair.out), 0, "one at a time");
    pair.now += Span::from_millis(35);
    pair.exchange();
    assert_eq!(pair.witness.round_trips, [Span::from_millis(35)]);
}

#[test]
fn silence_is_broken_and_not_suffered() {
    let mut pair = Pair::new(settings());
    pair.opening.keep_alive = Span::from_secs(10);
    pair.connect();
    let start = pair.now;
    assert_eq!(pair.lane.poll_timeout(), start + Span::from_secs(5));
    pair.now += Span::from_secs(5);
    pair.timeout().expect("all is well");
    pair.exchange();
    assert_eq!(pair.server.heard, ["heartbeat"]);
    pair.now += Span::from_secs(14);
    pair.server.side.heartbeat(&mut pair.server.out);
    pair.exchange();
    pair.now += Span::from_secs(19);
    pair.timeout().expect("it was heard of");
    pair.now += Span::from_secs(1);
    let fault = pair.timeout().expect_err("it is gone");
    assert_eq!(
        fault,
        LinkFault {
            words: "the broker has not been heard of for 20 s".to_owned(),
            is_final: false
        }
    );
}
