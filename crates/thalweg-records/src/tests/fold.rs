//! Effect of each record on a state.

use super::{encoded, message, reference, rewritten, session};
use crate::{BodyRecord, StoredSession, WillRecord};
use crate::{
    Contradiction, Counts, KeptAs, MessageRecord, Record, Reference, SessionRecord, State,
    SubscriptionRecord,
};
use std::borrow::Cow;
use thalweg_model::{Properties, PropertyValue, Reliability, RetainOp, Span, Time};

/// A state to which records are applied at rising places.
#[derive(Default)]
struct Journal {
    state: State,
    place: u64,
}

impl Journal {
    fn with_session() -> Self {
        Journal::default().and(&session(1))
    }

    fn and(mut self, record: &Record<'_>) -> Self {
        self.write(record);
        assert_eq!(self.state.contradictions, []);
        self
    }

    fn and_message(self, references: &[Reference<'_>]) -> Self {
        self.and(&Record::Message(message(references)))
    }

    fn write(&mut self, record: &Record<'_>) -> u64 {
        let (bytes, place) = (encoded(record), self.place);
        self.state.apply_frame(&bytes, place).expect("a record");
        self.place += bytes.len() as u64;
        place
    }

    fn session(&self) -> &StoredSession {
        &self.state.sessions[&1]
    }

    fn waiting(&self) -> Vec<u64> {
        self.session()
            .waiting
            .iter()
            .map(|entry| entry.serial)
            .collect()
    }

    /// Error of a contradictory record.
    fn refuses(mut self, record: &Record<'_>) -> Contradiction {
        let before = rewritten(&self.state);
        let place = self.write(record);
        assert_eq!(self.state.contradiction_count, 1);
        assert_eq!(self.state, before, "nothing else has changed");
        assert_eq!(self.state.contradictions[0].place, place);
        self.state.contradictions[0]
    }
}

#[test]
fn a_message_waits_where_it_was_written() {
    let mut journal = Journal::with_session();
    let references = [Reference {
        subscription_ids: Cow::Borrowed(&[4]),
        retain: true,
        redelivered: true,
        ..reference(1, 7)
    }];
    let expires = Time::from_nanos(5_000_000_001);
    let record = Record::Message(MessageRecord {
        expires,
        ..message(&references)
    });
    let place = journal.write(&record);
    let entry = journal.session().waiting.iter().next().expect("it waits");
    assert_eq!(
        (entry.serial, entry.place, entry.len),
        (7, place, encoded(&record).len() as u32)
    );
    assert_eq!(
        (entry.expires_secs, entry.subscription_id),
        (6, 4),
        "an expiry is rounded up"
    );
    assert_eq!(
        (entry.reliability, entry.retain, entry.deliveries),
        (Reliability::AtLeastOnce, true, 1)
    );
    assert_eq!((&entry.rare, journal.state.serial_last), (&None, 7));
}

#[test]
fn a_message_with_a_tag_is_in_flight_at_once() {
    let references = [Reference {
        tag: 3,
        ..reference(1, 7)
    }];
    let journal = Journal::with_session().and_message(&references);
    assert_eq!(
        (journal.waiting(), journal.session().window[&3].entry.serial),
        (vec![], 7)
    );
}

#[test]
fn one_message_is_in_as_many_queues_as_it_has_references() {
    let references = [reference(1, 1), reference(2, 2), reference(9, 3)];
    let journal = Journal::with_session()
        .and(&session(2))
        .and(&Record::Group {
            queue: 9,
            name: "g",
            filter: "a/+",
        })
        .and_message(&references);
    let counts = Counts {
        sessions: 2,
        subscriptions: 0,
        entries: 3,
        last_values: 0,
        groups: 1,
    };
    assert_eq!(journal.state.counts(), counts);
    assert_eq!(journal.state.live().count(), 3);
}

#[test]
fn sent_received_and_settled_take_an_entry_through_the_window() {
    let references = [[reference(1, 1)], [reference(1, 2)]];
    let journal = Journal::with_session()
        .and_message(&references[0])
        .and_message(&references[1]);
    let journal = journal.and(&Record::Sent {
        queue: 1,
        serial: 1,
        tag: 5,
    });
    assert_eq!(
        (journal.waiting(), journal.session().window[&5].received),
        (vec![2], false)
    );
    let journal = journal.and(&Record::Received { queue: 1, tag: 5 });
    let slot = &journal.session().window[&5];
    assert!(slot.received);
    assert_eq!(
        (slot.entry.serial, slot.entry.place, slot.entry.len),
        (1, 0, 0),
        "no message is needed any more"
    );
    let journal = journal.and(&Record::Settled { queue: 1, tag: 5 });
    assert_eq!(
        (journal.waiting(), journal.session().window.len()),
        (vec![2], 0)
    );
}

#[test]
fn an_entry_may_be_sent_or_removed_out_of_line() {
    let references = [
        reference(1, 1),
        reference(1, 2),
        reference(1, 3),
        reference(1, 4),
    ];
    let journal = Journal::with_session()
        .and_message(&references)
        .and(&Record::Sent {
            queue: 1,
            serial: 3,
            tag: 1,
        })
        .and(&Record::Removed {
            queue: 1,
            serial: 2,
        });
    assert_eq!(journal.waiting(), [1, 4]);
}

#[test]
fn an_entry_that_returns_from_a_member_to_its_group_is_first_in_line_again() {
    let (one, two) = ([reference(9, 1)], [reference(9, 2)]);
    let journal = Journal::with_session()
        .and(&Record::Group {
            queue: 9,
            name: "g",
            filter: "a/+",
        })
        .and_message(&one)
        .and_message(&two)
        .and(&Record::Moved {
            from: 9,
            serial: 1,
            to: 1,
            tag: 4,
            redelivered: false,
            grant: None,
        });
    let slot = &journal.session().window[&4];
    assert_eq!(
        (slot.entry.serial, slot.entry.group(), slot.entry.deliveries),
        (1, 9, 0)
    );
    let journal = journal.and(&Record::Moved {
        from: 1,
        serial: 1,
        to: 9,
        tag: 0,
        redelivered: true,
        grant: None,
    });
    let group = &journal.state.groups[&9].waiting;
    assert!(
        group
            .iter()
            .map(|entry| (entry.serial, entry.deliveries))
            .eq([(1, 1), (2, 0)])
    );
    assert!(group.iter().all(|entry| entry.group() == 0) && journal.session().window.is_empty());
}

#[test]
fn how_often_an_entry_was_delivered_goes_with_it() {
    let group = Record::Group {
        queue: 9,
        name: "g",
        filter: "f",
    };
    let moved = |from, to, tag| Record::Moved {
        from,
        serial: 1,
        to,
        tag,
        redelivered: true,
        grant: None,
    };
    let journal = Journal::with_session()
        .and(&group)
        .and_message(&[reference(9, 1)])
        .and(&Record::Returned {
            queue: 9,
            serial: 1,
            deliveries: 300,
        })
        .and(&moved(9, 1, 4));
    assert_eq!(journal.session().window[&4].entry.deliveries, 300);
    let rewritten = rewritten(&journal.state);
    assert_eq!(rewritten.sessions[&1].window[&4].entry.deliveries, 300);
    let journal = journal.and(&moved(1, 9, 0));
    let deliveries = journal.state.groups[&9].waiting.iter();
    assert!(deliveries.map(|entry| entry.deliveries).eq([300]));
    journal.refuses(&Record::Returned {
        queue: 9,
        serial: 2,
        deliveries: 1,
    });
}

#[test]
fn a_session_that_ends_takes_all_it_had() {
    let references = [
        reference(1, 1),
        Reference {
            tag: 1,
            ..reference(1, 2)
        },
    ];
    let journal = Journal::with_session()
        .and_message(&references)
        .and(&Record::Held {
            queue: 1,
            ticket: 4,
        })
        .and(&Record::SessionEnded { queue: 1 });
    assert_eq!(journal.state.counts(), Counts::default());
    assert_eq!(
        (journal.state.queue_last, journal.state.serial_last),
        (1, 2),
        "numbers are never used again"
    );
}

#[test]
fn a_session_that_is_written_again_keeps_queue_and_subscriptions() {
    let references = [reference(1, 1)];
    let subscription = SubscriptionRecord {
        queue: 1,
        filter: "a/#",
        group: None,
        reliability: Reliability::AtLeastOnce,
        no_local: false,
        retain_as_published: false,
        id: 0,
        condition: None,
    };
    let mut properties = Properties::default();
    properties
        .user
        .push(("k".into(), PropertyValue::Integer(-4)));
    let body = BodyRecord {
        properties: Some(Cow::Owned(properties.clone())),
        ..super::body("will/1", b"gone")
    };
    let will = WillRecord {
        body,
        delay: Span::from_secs(5),
        due: Time::from_secs(9),
        expires_in: None,
    };
    let Record::Session(again) = session(1) else {
        unreachable!()
    };
    let again = SessionRecord {
        expires_at: Time::from_secs(99),
        will: Some(will),
        access: &[1],
        ..again
    };
    let journal = Journal::with_session()
        .and_message(&references)
        .and(&Record::Subscribed(subscription))
        .and(&Record::Session(again));
    let session = journal.session();
    assert_eq!((session.waiting.len(), session.subscriptions.len()), (1, 1));
    assert_eq!(
        (session.expires_at, &*session.access),
        (Time::from_secs(99), &[1][..])
    );
    let will = session.will.as_ref().expect("a will");
    assert_eq!(
        (&*will.address, will.due, &will.properties),
        ("will/1", Time::from_secs(9), &Some(Box::new(properties)))
    );
    assert_eq!(rewritten(&journal.state), journal.state);
}

#[test]
fn a_subscription_is_known_by_filter_and_group() {
    let subscription = |group, id| {
        Record::Subscribed(SubscriptionRecord {
            queue: 1,
            filter: "a/#",
            group,
            reliability: Reliability::AtLeastOnce,
            no_local: true,
            retain_as_published: true,
            id,
            condition: None,
        })
    };
    let journal = Journal::with_session()
        .and(&subscription(None, 1))
        .and(&subscription(Some("g"), 2))
        .and(&subscription(None, 3));
    let ids = |journal: &Journal| {
        journal
            .session()
            .subscriptions
            .iter()
            .map(|s| s.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&journal), [3, 2]);
    let journal = journal.and(&Record::Unsubscribed {
        queue: 1,
        filter: "a/#",
        group: None,
    });
    assert_eq!(ids(&journal), [2]);
}

#[test]
fn a_message_is_held_until_it_is_released() {
    let held = MessageRecord {
        held: Some((1, 12)),
        ..message(&[])
    };
    let journal = Journal::with_session()
        .and(&Record::Message(held))
        .and(&Record::Held {
            queue: 1,
            ticket: 3,
        });
    assert_eq!(journal.session().held, [3, 12]);
    assert_eq!(
        journal
            .and(&Record::Released {
                queue: 1,
                ticket: 3
            })
            .session()
            .held,
        [12]
    );
}

#[test]
fn an_address_keeps_what_its_messages_say_and_what_was_there_before() {
    let value = |kept: Option<(u64, u64)>, retain| {
        let body = BodyRecord {
            retain,
            ..super::body("a/b", b"1")
        };
        Record::Message(MessageRecord {
            body,
            is_last_value: true,
            kept: kept.map(|(number, oldest)| KeptAs { number, oldest }),
            ..message(&[])
        })
    };
    let set = |number, oldest| value(Some((number, oldest)), RetainOp::Set);
    let forgotten = |first, last, and_last| Record::Forgotten {
        address: "a/b",
        first,
        last,
        and_last,
    };
    let numbers = |journal: &Journal| -> Vec<u64> {
        let kept = journal.state.kept.get("a/b").into_iter().flatten();
        kept.map(|(number, ..)| *number).collect()
    };
    let mut journal = Journal::default();
    let first = journal.write(&value(None, RetainOp::Set));
    journal.write(&set(1, 0));
    let third = journal.write(&set(2, 0));
    assert_eq!(numbers(&journal), [0, 1, 2]);
    assert_eq!(journal.state.kept["a/b"][0].1, first);
    assert_eq!(journal.state.live().count(), 4);
    // The oldest go, one by one or all those that the depth leaves out.
    journal.write(&set(3, 1));
    assert_eq!(numbers(&journal), [1, 2, 3]);
    journal.write(&forgotten(2, 2, false));
    assert_eq!(numbers(&journal), [1, 3]);
    journal.write(&forgotten(3, 3, true));
    assert_eq!(numbers(&journal), [1]);
    assert!(journal.state.last_values.is_empty());
    journal.write(&set(4, 4));
    assert_eq!(numbers(&journal), [4]);
    assert!(!journal.state.live().any(|(place, _)| place == third));
    // A message without a place ends what is kept beside it; so does one that clears.
    journal.write(&value(None, RetainOp::Set));
    assert_eq!(
        (numbers(&journal).len(), journal.state.last_values.len()),
        (0, 1)
    );
    journal.write(&set(5, 5));
    journal.write(&value(None, RetainOp::Clear));
    assert_eq!(journal.state.live().count(), 0);
    journal.write(&set(6, 0));
    assert_eq!(numbers(&journal), [6]);
    journal.write(&Record::Cleared { address: "a/b" });
    assert_eq!(journal.state.live().count(), 0);

    // A checkpoint says the same, and what is lost is in no list.
    journal.write(&value(None, RetainOp::Set));
    journal.write(&set(7, 0));
    let mut again = Journal::default();
    journal.state.write(&mut |record| {
        again.write(record);
    });
    assert_eq!(again.state, journal.state);
    assert_eq!(again.state.forget(|_| true), 3);
    assert_eq!(again.state.live().count(), 0);
    assert_eq!(journal.state.contradictions, []);
}

#[test]
fn a_last_value_is_the_latest_until_it_is_cleared() {
    let value = |retain| {
        let body = BodyRecord {
            retain,
            ..super::body("a/b", b"1")
        };
        Record::Message(MessageRecord {
            body,
            is_last_value: true,
            ..message(&[])
        })
    };
    let mut journal = Journal::default();
    journal.write(&value(RetainOp::Set));
    let second = journal.write(&value(RetainOp::Set));
    assert_eq!(journal.state.last_values["a/b"].0, second);
    journal.write(&value(RetainOp::Clear));
    assert_eq!(journal.state.counts(), Counts::default());
    journal.write(&value(RetainOp::Set));
    journal.write(&Record::Cleared { address: "a/b" });
    assert_eq!(journal.state.counts(), Counts::default());
    assert_eq!(journal.state.contradictions, []);
}

#[test]
fn what_cannot_be_true_is_told_and_changes_nothing() {
    let references = [
        reference(1, 1),
        Reference {
            tag: 2,
            ..reference(1, 2)
        },
    ];
    let journal = || Journal::with_session().and_message(&references);
    let twice = [reference(1, 1)];
    for (record, what, number) in [
        (
            Record::Sent {
                queue: 8,
                serial: 1,
                tag: 1,
            },
            "an unknown session",
            0,
        ),
        (
            Record::Sent {
                queue: 1,
                serial: 2,
                tag: 1,
            },
            "an entry that does not wait",
            2,
        ),
        (
            Record::Received { queue: 1, tag: 9 },
            "a tag that is free",
            9,
        ),
        (
            Record::Settled { queue: 1, tag: 9 },
            "a tag that is free",
            9,
        ),
        (
            Record::Removed {
                queue: 1,
                serial: 9,
            },
            "an unknown entry",
            9,
        ),
        (
            Record::Released {
                queue: 1,
                ticket: 2,
            },
            "a message that is not held",
            2,
        ),
        (Record::SessionEnded { queue: 8 }, "an unknown session", 0),
        (Record::GroupEnded { queue: 8 }, "an unknown group", 0),
        (
            Record::Group {
                queue: 1,
                name: "g",
                filter: "f",
            },
            "a group with a session's number",
            0,
        ),
        (
            Record::Unsubscribed {
                queue: 1,
                filter: "f",
                group: None,
            },
            "an unknown subscription",
            0,
        ),
        (
            Record::Moved {
                from: 1,
                serial: 1,
                to: 8,
                tag: 0,
                redelivered: false,
                grant: None,
            },
            "an unknown queue",
            1,
        ),
        (
            Record::Moved {
                from: 1,
                serial: 7,
                to: 1,
                tag: 0,
                redelivered: false,
                grant: None,
            },
            "an unknown entry",
            7,
        ),
        (
            Record::Message(message(&twice)),
            "an entry that waits already",
            1,
        ),
    ] {
        let contradiction = journal().refuses(&record);
        assert_eq!(
            (contradiction.what, contradiction.number),
            (what, number),
            "{record:?}"
        );
    }
}

#[test]
fn a_reference_to_nobody_does_not_cost_the_others() {
    let references = [reference(1, 1), reference(8, 2), reference(1, 3)];
    let mut journal = Journal::with_session();
    journal.write(&Record::Message(MessageRecord {
        held: Some((1, 1)),
        ..message(&references)
    }));
    assert_eq!(
        (journal.waiting(), journal.session().held.len()),
        (vec![1, 3], 1)
    );
    assert_eq!(journal.state.contradiction_count, 1);
}

#[test]
fn contradictions_are_all_counted_but_not_all_kept() {
    let mut journal = Journal::default();
    for _ in 0..1_000 {
        journal.write(&Record::Settled { queue: 1, tag: 1 });
    }
    assert_eq!(
        (
            journal.state.contradiction_count,
            journal.state.contradictions.len()
        ),
        (1_000, 100)
    );
}
