//! XMPP streams that go on over another connection (XEP-0198).

use crate::peer::{Peer, Place, Protocol, Stage};
use std::sync::Arc;
use thalweg_fronts::xmpp::XmppSettings;
use thalweg_kernel::Limits;
use thalweg_testbed::xmpp::{Xmpp, items};
use thalweg_testbed::{Settings, Who};
use thalweg_xmpp::{Credentials, Framing};

const ADDRESS: Place<'_> = Place::Address("a/b");

pub fn password(user: &str) -> Credentials {
    Credentials::Password {
        user: user.into(),
        password: "x".into(),
    }
}

/// A subscriber that has had "1" and does not read any more, while "2" and "3" are published.
fn begun(shards: u16) -> (Stage, Peer, Who<Xmpp>) {
    let mut stage = Stage::with(Settings {
        shards,
        limits: Limits {
            journal: true,
            ..Limits::default()
        },
        ..Settings::default()
    });
    let publisher = stage.connect(Protocol::Mqtt5, "publisher");
    let shard = usize::from(shards) - 1;
    let reader = stage.bed.open_xmpp(shard, password("juliet"), None);
    stage.bed.xmpp_subscribe(reader, "a/b");
    stage.publish(publisher, ADDRESS, "1");
    assert_eq!(got(&mut stage, reader), ["1"]);
    stage.bed.set_reading(reader, false);
    for body in ["2", "3"] {
        stage.publish(publisher, ADDRESS, body);
    }
    (stage, publisher, reader)
}

fn got(stage: &mut Stage, reader: Who<Xmpp>) -> Vec<String> {
    let stanzas = stage.bed.xmpp_got(reader);
    let items = stanzas.iter().flat_map(|stanza| items(stanza));
    items
        .map(|item| String::from_utf8(item.payload).expect("text"))
        .collect()
}

/// The items, and whether each may have come before.
fn marked(stage: &mut Stage, reader: Who<Xmpp>) -> Vec<(String, bool)> {
    let stanzas = stage.bed.xmpp_got(reader);
    let marked = stanzas.iter().flat_map(|stanza| {
        let header = "<headers xmlns='http://jabber.org/protocol/shim'><header name='Redelivered'>true</header></headers>";
        let delay = "<delay xmlns='urn:xmpp:delay' from='pubsub.localhost' stamp='2026-";
        let is_again = stanza.contains(header);
        assert_eq!(is_again, stanza.contains(delay), "{stanza}");
        let bodies = items(stanza).into_iter().map(|item| item.payload);
        bodies.map(move |body| (String::from_utf8(body).expect("text"), is_again))
    });
    marked.collect()
}

#[test]
fn what_did_not_arrive_comes_over_the_next_connection_and_nothing_twice() {
    for shards in [1, 3] {
        // The broker has noticed that the connection is lost, or not yet.
        for is_noticed in [true, false] {
            let (mut stage, publisher, reader) = begun(shards);
            let jid = stage.bed.client(reader).jid.clone();
            if is_noticed {
                stage.bed.lose(reader);
            }
            stage.publish(publisher, ADDRESS, "4");
            let again = stage.bed.xmpp_again(0, password("juliet"), reader);
            assert!(stage.bed.client(again).is_resumed, "{shards} {is_noticed}");
            assert_eq!(stage.bed.client(again).jid, jid);
            // Messages sent before are marked as redelivered.
            let marks = |body: &str, is_again: bool| (body.to_owned(), is_again);
            assert_eq!(
                marked(&mut stage, again),
                [marks("2", true), marks("3", true), marks("4", !is_noticed)],
                "{shards}"
            );
            stage.publish(publisher, ADDRESS, "5");
            assert_eq!(marked(&mut stage, again), [marks("5", false)]);
            let answer = stage.bed.xmpp_pubsub(again, "get", "<subscriptions/>");
            assert!(answer.contains("node='a/b'"), "{answer}");
            // And once more.
            stage.bed.lose(again);
            stage.publish(publisher, ADDRESS, "6");
            let last = stage.bed.xmpp_again(0, password("juliet"), again);
            assert_eq!(got(&mut stage, last), ["6"]);
        }
    }
}

/// From a stream over TCP to one over WebSocket and back: an answer is sent again in the form of the new connection.
#[test]
fn a_stream_goes_on_over_another_framing() {
    let (mut stage, publisher, reader) = begun(2);
    let frame = |stage: &mut Stage, framing| {
        stage.bed.settings.xmpp = Arc::new(XmppSettings {
            framing,
            ..XmppSettings::clone(&stage.bed.settings.xmpp)
        });
    };
    stage
        .bed
        .says(reader, |client, up| client.ask("<create/>", up));
    let mut last = reader;
    for (framing, more) in [(Framing::Elements, "4"), (Framing::Document, "5")] {
        stage.bed.lose(last);
        frame(&mut stage, framing);
        stage.publish(publisher, ADDRESS, more);
        let again = stage.bed.xmpp_again(0, password("juliet"), last);
        assert!(stage.bed.client(again).is_resumed, "{more}");
        let stanzas = stage.bed.xmpp_got(again);
        let created = stanzas
            .iter()
            .any(|stanza| stanza.contains("<create node='instant/"));
        assert_eq!(created, more == "4", "{stanzas:?}");
        let bodies = stanzas.iter().flat_map(|stanza| items(stanza));
        let bodies: Vec<Vec<u8>> = bodies.map(|item| item.payload).collect();
        assert_eq!(bodies.last().map(|body| &**body), Some(more.as_bytes()));
        stage
            .bed
            .says(again, |client, up| client.ask("<create/>", up));
        assert_eq!(stage.bed.xmpp_got(again).len(), 1);
        last = again;
    }
}

#[test]
fn what_was_not_acknowledged_comes_after_the_broker_has_died() {
    for shards in [1, 3] {
        let (mut stage, _, reader) = begun(shards);
        stage.bed.restart();
        let publisher = stage.connect(Protocol::Mqtt5, "publisher");
        stage.publish(publisher, ADDRESS, "4");
        let again = stage.bed.xmpp_again(0, password("juliet"), reader);
        // The counts are lost, and so the stream is another one.
        assert!(!stage.bed.client(again).is_resumed);
        assert_eq!(got(&mut stage, again), ["2", "3", "4"], "{shards}");
        let answer = stage.bed.xmpp_pubsub(again, "get", "<subscriptions/>");
        assert!(answer.contains("node='a/b'"), "{answer}");
        stage.publish(publisher, ADDRESS, "5");
        assert_eq!(got(&mut stage, again), ["5"]);
    }
}

#[test]
fn a_stream_ends_with_its_time_its_good_bye_or_for_another_user() {
    let (mut stage, _, reader) = begun(1);
    stage.bed.lose(reader);
    let other = stage.bed.xmpp_again(0, password("romeo"), reader);
    assert!(!stage.bed.client(other).is_resumed);
    assert_eq!(got(&mut stage, other), [""; 0]);

    let (mut stage, _, reader) = begun(1);
    stage.bed.lose(reader);
    stage.bed.run_for(thalweg_model::Span::from_secs(301));
    let late = stage.bed.xmpp_again(0, password("juliet"), reader);
    assert!(!stage.bed.client(late).is_resumed);
    assert_eq!(got(&mut stage, late), [""; 0]);

    let (mut stage, _, reader) = begun(1);
    let sessions = |stage: &Stage| {
        stage.bed.sum(|kernel| {
            let mut count = 0;
            kernel.for_each_session(|_| count += 1);
            count
        })
    };
    let before = sessions(&stage);
    stage.bed.says(reader, |client, up| client.close(up));
    assert_eq!(sessions(&stage), before - 1);
}

#[test]
fn a_client_that_acknowledges_no_answers_is_let_go() {
    let mut stage = Stage::new(1);
    stage.bed.settings.xmpp = Arc::new(XmppSettings {
        unacknowledged_bytes_max: 10,
        ..XmppSettings::clone(&stage.bed.settings.xmpp)
    });
    let client = stage.bed.open_xmpp(0, password("juliet"), None);
    stage
        .bed
        .says(client, |client, up| client.ask("<create/>", up));
    let closed = stage.bed.client(client).closed.clone();
    assert_eq!(closed.as_deref(), Some("policy-violation"));
}
