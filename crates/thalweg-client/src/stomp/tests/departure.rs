//! Sent frames: logins, publishes and their receipts, causes of ERROR, requests, heart-beats.

use super::*;
use thalweg_model::Stamp;

fn denied(id: u64) -> EventCall {
    EventCall::Settled(
        id,
        Settled::Refused(Refusal::Denied("access_refused: as it is".to_owned())),
    )
}

#[test]
fn a_login_says_who_where_to_and_how_often_we_speak() {
    let mut pair = Pair::new(StompSettings {
        vhost: "plant".to_owned(),
        ..settings()
    });
    pair.opening.user = Some("ada".to_owned());
    pair.opening.password = Some(b"secret".to_vec());
    pair.opening.keep_alive = Span::from_secs(10);
    pair.reach();
    let login = r#"Some("plant") (Some("ada"), Some("secret")) Some("pump-7") (10000, 10000)"#;
    assert_eq!(pair.server.heard, [login]);
    assert_eq!(pair.witness.take(), [EventCall::Up(Welcome::default())]);
    assert!(pair.lane.capabilities().stamps);
    // Without credentials the login is `guest`; without a virtual host the broker's name is used.
    let mut pair = Pair::new(StompSettings {
        vhost: String::new(),
        ..settings()
    });
    pair.opening.client_id = String::new();
    pair.server.announces_stamps = false;
    pair.reach();
    assert!(
        pair.server.heard[0].starts_with(r#"Some("broker") (Some("guest"), Some("guest")) None"#)
    );
    assert!(!pair.lane.capabilities().stamps);
}

#[test]
fn who_is_turned_away_hears_why() {
    let mut pair = Pair::new(settings());
    pair.server.turns_away = Some("Bad CONNECT");
    pair.open();
    pair.talk();
    let words = "the broker ends the connection: Bad CONNECT: as it is".to_owned();
    assert_eq!(
        pair.fault,
        Some(LinkFault {
            words,
            is_final: true
        })
    );
}

#[test]
fn each_reliability_has_its_headers() {
    let mut pair = Pair::up(settings());
    let zero = at_most_once(1, "a/b.c", b"0");
    assert_eq!(pair.publish(&zero), Ok(Departure::Gone));
    assert_eq!(
        pair.out.bytes,
        b"SEND\ndestination:/topic/a.b%2Ec\ncontent-length:1\n\n0\0"
    );
    assert_eq!(
        pair.publish(&message(2, "$q/work", b"1\x002")),
        Ok(Departure::Awaited)
    );
    pair.exchange();
    assert_eq!(pair.witness.take(), acknowledged([2]));
    let one = &pair.server.sent[1];
    assert_eq!(
        (one.destination.as_str(), one.receipt.as_deref()),
        ("/amq/queue/work", Some("1"))
    );
    assert_eq!(
        (one.header("persistent"), one.body.as_slice()),
        (Some("true"), &b"1\x002"[..])
    );
    let surest = exactly_once(3, "a", b"");
    assert!(matches!(
        pair.publish(&surest),
        Err(Refusal::Unsupported(_))
    ));
}

#[test]
fn everything_that_a_message_says_is_said() {
    let mut pair = Pair::up(settings());
    let mut properties = Vec::new();
    Properties::push("room: \n\\", "1:2\r\n", &mut properties);
    let sent = Outbound {
        retain: crate::message::Retain::Clear,
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
    let said = &pair.server.sent[0];
    assert_eq!(said.content_type.as_deref(), Some("text/plain"));
    for (name, value) in [
        ("x-stamp", "ab-10"),
        ("priority", "7"),
        ("expiration", "1501"),
        ("retain", "clear"),
        ("reply-to", "/topic/answers.here"),
        ("correlation-id", "/wA="),
        ("correlation-id-encoding", "base64"),
        ("room: \n\\", "1:2\r\n"),
    ] {
        assert_eq!(said.header(name), Some(value), "{name}");
    }
    let said = &pair.server.sent[1];
    assert_eq!(
        (
            said.header("correlation-id"),
            said.header("correlation-id-encoding")
        ),
        (Some("7"), None)
    );
    assert_eq!(said.header("reply-to"), Some("/amq/queue/answers"));
}

#[test]
fn what_cannot_be_said_is_refused_and_nothing_is_written() {
    let mut pair = Pair::up(settings());
    let encoded = |name: &str, value: &str| {
        let mut properties = Vec::new();
        Properties::push(name, value, &mut properties);
        properties
    };
    let properties = [
        encoded("receipt", "1"),
        encoded("", "x"),
        encoded("x", "\0"),
        encoded("x-stamp", "1-1"),
    ];
    let mut refused: Vec<Outbound<'_>> = properties
        .iter()
        .map(|it| Outbound {
            properties: Properties(it),
            ..message(1, "a", b"")
        })
        .collect();
    let large = vec![0; settings().payload_bytes_max + 1];
    refused.push(message(1, "", b""));
    refused.push(message(1, "a/#", b""));
    refused.push(Outbound {
        content_type: Some("\0"),
        ..message(1, "a", b"")
    });
    refused.push(Outbound {
        reply_to: Some("$t@blue/a"),
        ..message(1, "a", b"")
    });
    refused.push(message(1, "a", &large));
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
fn receipts_come_in_any_order_and_a_window_holds_and_opens() {
    let mut pair = Pair::up(StompSettings {
        unconfirmed_max: 4,
        ..settings()
    });
    pair.server.holds_receipts = true;
    for id in 10..14 {
        assert_eq!(pair.publish(&message(id, "a", b"")), Ok(Departure::Awaited));
    }
    assert_eq!(pair.publish(&message(14, "a", b"")), Err(Refusal::Window));
    pair.exchange();
    assert_eq!(pair.server.held, ["1", "2", "3", "4"]);
    for id in ["3", "9", "x", "3", "1", "2"] {
        pair.server.side.receipt(id, &mut pair.server.out);
    }
    pair.exchange();
    assert_eq!(
        pair.witness.take(),
        [acknowledged([12, 10, 11]), vec![EventCall::Room]].concat()
    );
    assert_eq!(pair.publish(&message(14, "a", b"")), Ok(Departure::Awaited));
}

#[test]
fn an_error_that_names_its_receipt_blames_whom_it_means() {
    let mut pair = Pair::up(settings());
    pair.server.forbidden = Some("/topic/secret");
    for (id, address) in [(1, "a"), (2, "secret"), (3, "b")] {
        pair.must_publish(&message(id, address, b""));
    }
    pair.talk();
    assert_eq!(
        pair.witness.take(),
        [acknowledged([1]), vec![denied(2)]].concat()
    );
    let words = "the broker ends the connection: access_refused: as it is".to_owned();
    assert_eq!(
        pair.fault,
        Some(LinkFault {
            words,
            is_final: false
        })
    );
    // A subscription likewise.
    pair.connect();
    pair.must_subscribe(7, "secret", Reliability::AtLeastOnce);
    pair.talk();
    let why = Refusal::Denied("access_refused: as it is".to_owned());
    assert_eq!(
        pair.witness.take(),
        [EventCall::Subscribed(SubscriptionId(7), Err(why))]
    );
}

/// Messages and a subscription, of which one each is not allowed, sent again after each connection as the engine does it. The
/// broker ends the connection without a word about which.
fn search(forbidden: &'static str) -> (Vec<EventCall>, usize) {
    let mut pair = Pair::new(settings());
    pair.server.forbidden = Some(forbidden);
    pair.server.names_receipts = false;
    let addresses = ["a", "b", "secret", "c", "d"];
    let filters = ["x", "hidden", "y"];
    let (mut unsettled, mut wanted) = ((0..addresses.len()).collect::<Vec<_>>(), vec![0, 1, 2]);
    let (mut verdicts, mut connections) = (Vec::new(), 0);
    while connections < 10 && (pair.fault.is_some() || connections == 0) {
        connections += 1;
        pair.connect();
        for id in &wanted {
            pair.must_subscribe(*id, filters[*id as usize], Reliability::AtLeastOnce);
        }
        let mut waiting: VecDeque<usize> = unsettled.iter().copied().collect();
        for _ in 0..20 {
            while let Some(&at) = waiting.front()
                && pair.fault.is_none()
                && pair
                    .publish(&message(at as u64, addresses[at], b""))
                    .is_ok()
            {
                waiting.pop_front();
            }
            pair.talk();
            for told in pair.witness.take() {
                match &told {
                    EventCall::Settled(id, outcome) => {
                        unsettled.retain(|at| *at as u64 != *id);
                        if *outcome != Settled::Acknowledged {
                            verdicts.push(told);
                        }
                    }
                    EventCall::Subscribed(SubscriptionId(id), Err(_)) => {
                        wanted.retain(|wanted| wanted != id);
                        verdicts.push(told);
                    }
                    EventCall::Subscribed(..) | EventCall::Room => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    assert_eq!((unsettled, pair.fault), (vec![], None));
    let mut arrived: Vec<&str> = pair
        .server
        .sent
        .iter()
        .map(|sent| sent.destination.as_str())
        .collect();
    arrived.sort_unstable();
    arrived.dedup();
    verdicts.push(EventCall::Pressed);
    (verdicts, arrived.len())
}

#[test]
fn a_culprit_is_found_though_nobody_names_it() {
    let (verdicts, arrived) = search("/topic/secret");
    assert_eq!(
        (verdicts, arrived),
        (vec![denied(2), EventCall::Pressed], 4)
    );
    let (verdicts, arrived) = search("/topic/hidden");
    let why = Refusal::Denied("access_refused: as it is".to_owned());
    assert_eq!(
        verdicts,
        [
            EventCall::Subscribed(SubscriptionId(1), Err(why)),
            EventCall::Pressed
        ]
    );
    assert_eq!(arrived, 5);
}

/// A message without a receipt is forbidden; the one with a receipt must not fail for it.
#[test]
fn who_only_stood_beside_the_culprit_is_not_blamed() {
    let mut pair = Pair::new(settings());
    pair.server.forbidden = Some("/topic/secret");
    pair.server.names_receipts = false;
    pair.connect();
    let zero = at_most_once(1, "secret", b"");
    pair.must_publish(&zero);
    pair.must_publish(&message(2, "a", b""));
    pair.talk();
    assert_eq!(pair.witness.take(), []);
    assert!(pair.fault.is_some());
    pair.connect();
    pair.must_publish(&message(2, "a", b""));
    assert_eq!(
        pair.publish(&Outbound {
            address: "b",
            ..zero
        }),
        Err(Refusal::Window),
        "one at a time"
    );
    pair.exchange();
    assert_eq!(
        pair.witness.take(),
        [acknowledged([2]), vec![EventCall::Room]].concat()
    );
    assert_eq!(
        pair.publish(&Outbound {
            address: "b",
            ..zero
        }),
        Ok(Departure::Gone)
    );
}

#[test]
fn questions_are_answered_to_a_queue_of_our_own() {
    let mut pair = Pair::up(settings());
    for request in [1, 2, 3] {
        pair.must_request(request, &message(request, "ask", b"?"));
    }
    pair.lane.forget(RequestId(3));
    pair.exchange();
    for question in pair.server.sent.clone().into_iter().rev() {
        assert_eq!(question.header("reply-to"), Some(ANSWERS));
        let correlation = question
            .header("correlation-id")
            .expect("there is one")
            .to_owned();
        let headers = vec![("correlation-id".to_owned(), correlation)];
        let answer = Sent {
            destination: ANSWERS.to_owned(),
            headers,
            body: b"!".to_vec(),
            ..Sent::default()
        };
        pair.server.message(ANSWERS, false, &answer, false);
    }
    pair.exchange();
    let answered: Vec<u64> = pair
        .witness
        .take()
        .into_iter()
        .map(|told| match told {
            EventCall::Answered(RequestId(id), Ok(Some(got)))
                if got.payload == b"!" && got.delivery.is_none() =>
            {
                id
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(answered, [2, 1]);
}

#[test]
fn a_probe_measures_the_way() {
    let mut pair = Pair::up(settings());
    pair.witness.round_trips.clear();
    assert_eq!(
        pair.lane.probe(pair.now, &mut pair.out),
        pair.out.bytes.len()
    );
    assert_eq!(pair.lane.probe(pair.now, &mut pair.out), 0, "one at a time");
    pair.now += Span::from_millis(35);
    pair.exchange();
    assert_eq!(pair.witness.round_trips, [Span::from_millis(35)]);
}

#[test]
fn silence_is_broken_and_not_suffered() {
    let mut pair = Pair::new(settings());
    pair.opening.keep_alive = Span::from_secs(10);
    pair.server.heart_beat = (4000, 20_000);
    pair.connect();
    let start = pair.now;
    // The client sends every 20 s and the broker every 10 s: the broker could send more often, but the client does not
    // ask for it.
    pair.now += Span::from_secs(10);
    assert_eq!(pair.lane.poll_timeout(), pair.now);
    pair.timeout().expect("all is well");
    assert_eq!(pair.out.bytes, b"\n");
    pair.exchange();
    pair.server.side.heart_beat(&mut pair.server.out);
    pair.exchange();
    pair.now = start + Span::from_secs(39);
    pair.timeout().expect("it was heard of");
    pair.now = start + Span::from_secs(40);
    let fault = pair.timeout().expect_err("it is gone");
    assert_eq!(
        fault,
        LinkFault {
            words: "the broker has not been heard of for 30 s".to_owned(),
            is_final: false
        }
    );
    // Nobody promised anything.
    assert_eq!(Pair::up(settings()).lane.poll_timeout(), Time::NEVER);
}
