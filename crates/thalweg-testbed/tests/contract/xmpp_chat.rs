//! Messages between people, and between people and clients of other protocols.

use crate::peer::{Place, Protocol, Stage};
use thalweg_kernel::Limits;
use thalweg_kernel::access::{Otherwise, Permission, Rule, Rules};
use thalweg_testbed::xmpp::Xmpp;
use thalweg_testbed::{Settings, Who};
use thalweg_xmpp::{Credentials, StanzaKind};

const BODY: &str = "<body xmlns='jabber:client'>hello</body>";

fn stage(shards: u16) -> Stage {
    Stage::with(Settings {
        shards,
        limits: Limits {
            journal: true,
            ..Limits::default()
        },
        ..Settings::default()
    })
}

fn connect(stage: &mut Stage, shard: usize, user: &str) -> Who<Xmpp> {
    let password = Credentials::Password {
        user: user.into(),
        password: "x".into(),
    };
    stage.bed.open_xmpp(shard, password, None)
}

/// A client that is there with this priority.
fn online(stage: &mut Stage, shard: usize, user: &str, priority: i8) -> Who<Xmpp> {
    let who = connect(stage, shard, user);
    is_there(stage, who, priority);
    who
}

fn is_there(stage: &mut Stage, who: Who<Xmpp>, priority: i8) {
    let priority = format!("<priority>{priority}</priority>");
    stage.bed.says(who, |client, up| {
        client.send(StanzaKind::Presence, &[], &priority, up);
    });
}

fn say(stage: &mut Stage, who: Who<Xmpp>, to: &str, type_: &str, content: &str) {
    let attributes = [("to", to), ("type", type_), ("id", "m1")];
    let given: Vec<_> = attributes
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    stage.bed.says(who, |client, up| {
        client.send(StanzaKind::Message, &given, content, up);
    });
}

fn jid(stage: &mut Stage, who: Who<Xmpp>) -> String {
    stage.bed.client(who).jid.clone().expect("bound")
}

/// For each type of message and each kind of address: the receivers, and the answer.
#[test]
fn messages_go_where_rfc_6121_says() {
    for shards in [1, 3] {
        let known = ["", "normal", "chat", "headline", "groupchat", "error"].map(|it| (it, it));
        // Others are as good as `normal`; these are how the front itself marks stanzas of other kinds.
        let unknown = ["iq:get", "presence:unavailable"].map(|it| (it, "normal"));
        for (said, type_) in [&known[..], &unknown].concat() {
            for content in [BODY, "<active xmlns='urn:chat'/>"] {
                let mut stage = stage(shards);
                let last = usize::from(shards) - 1;
                let romeo = online(&mut stage, 0, "romeo", 0);
                let juliet = online(&mut stage, last, "juliet", 5);
                let shy = online(&mut stage, 0, "juliet", -1);
                let from = jid(&mut stage, romeo);
                let (full, hidden) = (jid(&mut stage, juliet), jid(&mut stage, shy));
                let gone = connect(&mut stage, 0, "juliet");
                let gone_jid = jid(&mut stage, gone);
                stage.bed.lose(gone);
                let waits = content == BODY && matches!(type_, "" | "normal" | "chat");
                let is_taken = type_ != "groupchat";
                for (to, arrives) in [
                    ("juliet@localhost", is_taken.then_some(juliet)),
                    (&full, is_taken.then_some(juliet)),
                    (&hidden, is_taken.then_some(shy)),
                    (&gone_jid, waits.then_some(juliet)),
                ] {
                    say(&mut stage, romeo, to, said, content);
                    for who in [juliet, shy] {
                        let got = stage.bed.xmpp_got(who);
                        let expected = usize::from(arrives == Some(who));
                        assert_eq!(got.len(), expected, "{type_} {to} {shards}: {got:?}");
                        if let [stanza] = &*got {
                            assert!(stanza.contains(&format!("from='{from}'")), "{stanza}");
                            assert!(stanza.contains(content), "{stanza}");
                            let is_typed = stanza.contains(&format!("type='{type_}'"));
                            assert!(is_typed != type_.is_empty(), "{stanza}");
                            assert!(
                                stanza.contains("id='m1'") && !stanza.contains("<delay"),
                                "{stanza}"
                            );
                        }
                    }
                    let answer = stage.bed.xmpp_got(romeo);
                    assert_eq!(
                        answer.len(),
                        usize::from(!is_taken),
                        "{type_} {to}: {answer:?}"
                    );
                }
                // Those who are not known here.
                for (to, condition) in [
                    ("mercutio@localhost", "service-unavailable"),
                    ("mercutio@verona", "remote-server-not-found"),
                ] {
                    say(&mut stage, romeo, to, type_, content);
                    let answer = stage.bed.xmpp_got(romeo);
                    let is_lost = !waits && is_taken && to.ends_with("localhost");
                    if type_ == "error" || is_lost {
                        assert_eq!(answer, [""; 0], "{to}");
                    } else {
                        assert!(answer[0].contains(condition), "{answer:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_message_waits_for_its_user_and_survives_the_broker() {
    for (shards, restarts) in [(1, false), (3, false), (1, true), (3, true)] {
        let mut stage = stage(shards);
        let mut juliet = online(&mut stage, usize::from(shards) - 1, "juliet", 0);
        stage.bed.says(juliet, |client, up| client.close(up));
        let romeo = connect(&mut stage, 0, "romeo");
        say(&mut stage, romeo, "juliet@localhost", "chat", BODY);
        say(&mut stage, romeo, "juliet@localhost", "headline", BODY);
        assert_eq!(stage.bed.xmpp_got(romeo), [""; 0]);
        if restarts {
            stage.bed.restart();
        } else {
            stage.bed.run_for(thalweg_model::Span::from_secs(5));
        }
        juliet = connect(&mut stage, 0, "juliet");
        assert_eq!(stage.bed.xmpp_got(juliet), [""; 0], "before presence");
        is_there(&mut stage, juliet, 0);
        let got = stage.bed.xmpp_got(juliet);
        assert_eq!(got.len(), 1, "{got:?}");
        assert!(
            got[0].contains("<body xmlns='jabber:client'>hello</body><delay xmlns='urn:xmpp:delay' from='localhost' stamp='2026-11-18T"),
            "{got:?}"
        );
        // Once.
        stage.bed.says(juliet, |client, up| client.close(up));
        let again = online(&mut stage, 0, "juliet", 0);
        assert_eq!(stage.bed.xmpp_got(again), [""; 0]);
    }
}

/// Requests to other clients, and their answers, go to resources that are there.
#[test]
fn clients_ask_each_other() {
    for shards in [1, 3] {
        let mut stage = stage(shards);
        let romeo = online(&mut stage, 0, "romeo", 0);
        let juliet = online(&mut stage, usize::from(shards) - 1, "juliet", -1);
        let (from, to) = (jid(&mut stage, romeo), jid(&mut stage, juliet));
        let ping = "<ping xmlns='urn:xmpp:ping'/>";
        stage.bed.says(romeo, |client, up| {
            client.request("get", &to, "p1", ping, up)
        });
        let got = stage.bed.xmpp_got(juliet);
        let head = format!("<iq from='{from}' to='{to}' type='get' id='p1'>");
        assert_eq!(got, [format!("{head}{ping}</iq>")], "{shards}");
        stage.bed.says(juliet, |client, up| {
            client.request("result", &from, "p1", "", up)
        });
        let got = stage.bed.xmpp_got(romeo);
        let answer = format!("<iq from='{to}' to='{from}' type='result' id='p1'/>");
        assert_eq!(got, [answer], "{shards}");
        stage.bed.says(juliet, |client, up| client.close(up));
        stage.bed.says(romeo, |client, up| {
            client.request("get", &to, "p2", ping, up)
        });
        let got = stage.bed.xmpp_got(romeo);
        assert!(
            got.len() == 1 && got[0].contains("id='p2'") && got[0].contains("<service-unavailable"),
            "{got:?}"
        );
    }
}

#[test]
fn no_more_messages_wait_than_the_operator_allows() {
    for shards in [1, 3] {
        let mut stage = stage(shards);
        stage.bed.settings.xmpp = std::sync::Arc::new(thalweg_fronts::xmpp::XmppSettings {
            offline_messages_max: 2,
            ..thalweg_fronts::xmpp::XmppSettings::clone(&stage.bed.settings.xmpp)
        });
        let juliet = online(&mut stage, usize::from(shards) - 1, "juliet", 0);
        stage.bed.says(juliet, |client, up| client.close(up));
        for user in ["romeo", "paris"] {
            let sender = connect(&mut stage, 0, user);
            let refused = match user {
                "romeo" => 1,
                _ => 3,
            };
            for _ in 0..3 {
                say(&mut stage, sender, "juliet@localhost", "chat", BODY);
            }
            let answers = stage.bed.xmpp_got(sender);
            assert_eq!(answers.len(), refused, "{shards}: {answers:?}");
            for answer in answers {
                assert!(
                    answer.contains("<service-unavailable ")
                        && answer.contains("xmpp.offline_messages_max"),
                    "{answer}"
                );
            }
        }
        let again = online(&mut stage, 0, "juliet", 0);
        assert_eq!(stage.bed.xmpp_got(again).len(), 2);
        // Then there is room again.
        let romeo = connect(&mut stage, 0, "romeo");
        say(&mut stage, romeo, "juliet@localhost", "chat", BODY);
        assert_eq!(stage.bed.xmpp_got(romeo), [""; 0]);
        assert_eq!(stage.bed.xmpp_got(again).len(), 1);
    }
}

/// An unacknowledged message of a resource goes to another one, marked as a redelivery.
#[test]
fn a_message_that_is_delivered_again_says_so() {
    let mut stage = stage(1);
    let first = online(&mut stage, 0, "juliet", 0);
    stage.bed.set_reading(first, false);
    let romeo = connect(&mut stage, 0, "romeo");
    say(&mut stage, romeo, "juliet@localhost", "chat", BODY);
    let second = online(&mut stage, 0, "juliet", 0);
    assert_eq!(stage.bed.xmpp_got(second), [""; 0]);
    stage.bed.lose(first);
    let got = stage.bed.xmpp_got(second);
    assert_eq!(got.len(), 1, "{got:?}");
    assert!(
        got[0].contains("<header name='Redelivered'>true</header>")
            && got[0].contains("<delay xmlns='urn:xmpp:delay' from='localhost' stamp="),
        "{got:?}"
    );
}

/// A user's messages are in the queue that has its address as a name.
#[test]
fn other_protocols_send_and_take_messages() {
    for protocol in Protocol::CONSUMERS {
        if protocol == Protocol::Xmpp || !protocol.can_name_queue("juliet@localhost") {
            continue;
        }
        let mut stage = stage(2);
        let juliet = online(&mut stage, 0, "juliet", 0);
        let other = stage.connect(protocol, "other");
        stage.publish(other, Place::Queue("juliet@localhost"), "hi there");
        let got = stage.bed.xmpp_got(juliet);
        assert_eq!(got.len(), 1, "{protocol:?}: {got:?}");
        assert!(
            got[0].contains("from='localhost'")
                && got[0].contains("type='chat'")
                && got[0].contains("<body>hi there</body>"),
            "{protocol:?}: {got:?}"
        );
        stage.bed.says(juliet, |client, up| client.close(up));
        stage.ask(other, Place::Queue("juliet@localhost"));
        let romeo = connect(&mut stage, 0, "romeo");
        say(&mut stage, romeo, "juliet@localhost", "chat", BODY);
        assert_eq!(stage.bodies(other), ["hello"], "{protocol:?}");
    }
}

/// Without the right to publish to a user's queue nothing is sent; without the right to take from it nothing is read.
#[test]
fn messages_need_rights() {
    let rules = |rules: &[(Permission, &str)]| {
        let rules = rules
            .iter()
            .map(|(right, pattern)| Rule::allow(*right, pattern));
        Rules::new(rules.collect(), Otherwise::Deny).expect("rules")
    };
    let mut stage = stage(2);
    stage.set_rights(
        "romeo",
        rules(&[(Permission::Publish, "$q/juliet@localhost")]),
    );
    stage.set_rights(
        "tybalt",
        rules(&[(Permission::Publish, "$q/romeo@localhost")]),
    );
    let juliet = online(&mut stage, 0, "juliet", 0);
    let (romeo, tybalt) = (
        online(&mut stage, 0, "romeo", 0),
        connect(&mut stage, 0, "tybalt"),
    );
    say(&mut stage, romeo, "juliet@localhost", "chat", BODY);
    assert_eq!(stage.bed.xmpp_got(juliet).len(), 1);
    say(&mut stage, tybalt, "juliet@localhost", "chat", BODY);
    let answer = stage.bed.xmpp_got(tybalt);
    assert!(answer[0].contains("<forbidden"), "{answer:?}");
    assert_eq!(stage.bed.xmpp_got(juliet), [""; 0]);
    // Romeo may not take from his own queue, nor see his address.
    say(&mut stage, juliet, "romeo@localhost", "chat", BODY);
    let to = jid(&mut stage, romeo);
    say(&mut stage, juliet, &to, "headline", BODY);
    assert_eq!(stage.bed.xmpp_got(romeo), [""; 0]);
}

/// Two resources share the messages, and those unacknowledged by one go to the other when its session ends.
#[test]
fn a_message_is_one_resources() {
    let mut stage = stage(2);
    let (one, other) = (
        online(&mut stage, 0, "juliet", 0),
        online(&mut stage, 1, "juliet", 3),
    );
    let romeo = connect(&mut stage, 0, "romeo");
    for _ in 0..10 {
        say(&mut stage, romeo, "juliet@localhost", "chat", BODY);
    }
    let (first, second) = (
        stage.bed.xmpp_got(one).len(),
        stage.bed.xmpp_got(other).len(),
    );
    assert_eq!(first + second, 10);
    stage.bed.set_reading(one, false);
    for _ in 0..10 {
        say(&mut stage, romeo, "juliet@localhost", "chat", BODY);
    }
    let before = stage.bed.xmpp_got(other).len();
    stage.bed.lose(one);
    stage.bed.run_for(thalweg_model::Span::from_secs(301));
    assert_eq!(before + stage.bed.xmpp_got(other).len(), 10);
}
