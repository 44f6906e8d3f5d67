//! What clients of XMPP say of themselves: receivers, and when it is forgotten.

use crate::peer::{Place, Protocol, Stage};
use crate::xmpp_personal::stage;
use crate::xmpp_resumption::password;
use thalweg_kernel::access::{Otherwise, Permission, Rule, Rules};
use thalweg_testbed::Who;
use thalweg_testbed::xmpp::Xmpp;
use thalweg_xmpp::StanzaKind;

const RESOURCES: &str = "$presence/juliet/resource/#";

fn connect(stage: &mut Stage, shard: usize, user: &str) -> Who<Xmpp> {
    let who = stage.bed.open_xmpp(shard, password(user), None);
    stage.bed.xmpp_got(who);
    who
}

fn jid(stage: &mut Stage, who: Who<Xmpp>) -> String {
    stage.bed.client(who).jid.clone().expect("bound")
}

fn send(stage: &mut Stage, who: Who<Xmpp>, attributes: &[(&str, &str)], content: &str) {
    stage.bed.says(who, |client, up| {
        client.send(StanzaKind::Presence, attributes, content, up);
    });
}

/// A client of `user` that has subscribed to juliet's presence.
fn contact(stage: &mut Stage, shard: usize, user: &str) -> Who<Xmpp> {
    let who = connect(stage, shard, user);
    let wish = [("type", "subscribe"), ("to", "juliet@localhost")];
    send(stage, who, &wish, "");
    who
}

/// The presences of juliet's resources that came: each stanza behind its two addresses, if they are these.
fn told(stage: &mut Stage, who: Who<Xmpp>, from: &str) -> Vec<String> {
    let to = jid(stage, who);
    let head = format!("<presence from='{from}' to='{to}'");
    let is_told = |stanza: &String| {
        let is_of_name = stanza.contains("/thalweg'") && stanza.contains("type='unavailable'");
        stanza.starts_with("<presence") && !stanza.contains("type='subscribed'") && !is_of_name
    };
    let got = stage.bed.xmpp_got(who).into_iter().filter(is_told);
    got.map(|stanza| stanza.strip_prefix(&head).unwrap_or(&stanza).to_owned())
        .collect()
}

const AWAY: &str = "<show>away</show><status>at &lt;lunch&gt;</status><priority>5</priority>\
                    <c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:c' ver='1'/>";

#[test]
fn contacts_see_what_a_client_says_of_itself() {
    for shards in [1, 3] {
        let mut stage = stage(shards);
        let far = usize::from(shards) - 1;
        let watcher = stage.connect(Protocol::Mqtt5, "watcher");
        stage.ask(watcher, Place::Address(RESOURCES));
        let romeo = contact(&mut stage, far, "romeo");
        let juliet = connect(&mut stage, 0, "juliet");
        let from = jid(&mut stage, juliet);
        // A client of XMPP that has not sent presence is not available.
        assert_eq!(told(&mut stage, romeo, &from), [""; 0]);
        send(&mut stage, juliet, &[], AWAY);
        let away = told(&mut stage, romeo, &from);
        assert_eq!(away.len(), 1, "{away:?}");
        for part in [
            ">away</show>",
            ">at &lt;lunch&gt;</status>",
            ">5</priority>",
            "ver='1'",
        ] {
            assert!(
                away[0].contains(part) && !away[0].contains("type="),
                "{away:?}"
            );
        }
        assert_eq!(stage.bodies(watcher), ["away"]);
        let late = contact(&mut stage, far, "late");
        assert_eq!(told(&mut stage, late, &from), away);
        // No word of ours for a `show` that there is not.
        send(&mut stage, juliet, &[], "<show/>");
        assert_eq!(told(&mut stage, romeo, &from).len(), 1);
        assert_eq!(stage.bodies(watcher), ["available"]);
        // Another resource is another one.
        let other = connect(&mut stage, far, "juliet");
        let of_other = jid(&mut stage, other);
        send(&mut stage, other, &[], "<show>dnd</show>");
        assert_eq!(told(&mut stage, romeo, &of_other).len(), 1);
        send(
            &mut stage,
            juliet,
            &[("type", "unavailable")],
            "<status>bye</status>",
        );
        let gone = told(&mut stage, romeo, &from);
        assert_eq!(gone.len(), 1);
        assert!(
            gone[0].starts_with(" type='unavailable'") && gone[0].contains(">bye</status>"),
            "{gone:?}"
        );
        assert_eq!(stage.bodies(watcher), ["dnd", ""]);
        let last = contact(&mut stage, 0, "last");
        assert!(told(&mut stage, last, &of_other)[0].contains("dnd"));
        let wish = [("type", "unsubscribe"), ("to", "juliet@localhost")];
        send(&mut stage, romeo, &wish, "");
        stage.bed.xmpp_got(romeo);
        send(&mut stage, other, &[], "");
        assert_eq!(told(&mut stage, romeo, &of_other), [""; 0]);
    }
}

#[test]
fn what_a_client_has_said_ends_with_its_connection() {
    for shards in [1, 3] {
        let mut stage = stage(shards);
        let far = usize::from(shards) - 1;
        let romeo = contact(&mut stage, far, "romeo");
        for is_lost in [false, true] {
            let juliet = connect(&mut stage, 0, "juliet");
            let from = jid(&mut stage, juliet);
            send(&mut stage, juliet, &[], AWAY);
            assert_eq!(told(&mut stage, romeo, &from).len(), 1);
            match is_lost {
                true => stage.bed.lose(juliet),
                false => stage.bed.says(juliet, |client, up| client.close(up)),
            }
            stage.bed.rest();
            assert_eq!(told(&mut stage, romeo, &from), [" type='unavailable'/>"]);
            if is_lost {
                // It goes on, and says the same without being asked.
                stage.bed.xmpp_again(0, password("juliet"), juliet);
                let again = told(&mut stage, romeo, &from);
                assert!(again.len() == 1 && again[0].contains("away"), "{again:?}");
            }
        }
    }
}

#[test]
fn a_restart_forgets_what_clients_have_said() {
    for shards in [1, 3] {
        let mut stage = stage(shards);
        let juliet = connect(&mut stage, 0, "juliet");
        send(&mut stage, juliet, &[], AWAY);
        stage.bed.restart();
        let romeo = contact(&mut stage, usize::from(shards) - 1, "romeo");
        assert_eq!(told(&mut stage, romeo, ""), [""; 0]);
        let watcher = stage.connect(Protocol::Mqtt5, "watcher");
        stage.ask(watcher, Place::Address(RESOURCES));
        assert_eq!(stage.bodies(watcher), [""; 0]);
    }
}

#[test]
fn who_may_not_read_it_is_not_told_and_nobody_can_say_it_for_another() {
    let mut stage = stage(2);
    let denied = Rule::deny(Permission::Receive, "$presence/+/resource/+");
    let rules = Rules::new(vec![denied], Otherwise::Allow).expect("a filter");
    stage.set_rights("romeo", rules);
    let romeo = contact(&mut stage, 1, "romeo");
    let friend = contact(&mut stage, 1, "friend");
    let juliet = connect(&mut stage, 0, "juliet");
    let from = jid(&mut stage, juliet);
    send(&mut stage, juliet, &[], AWAY);
    assert_eq!(told(&mut stage, romeo, &from), [""; 0]);
    assert_eq!(told(&mut stage, friend, &from).len(), 1);
    let liar = stage.connect(Protocol::Mqtt5, "liar");
    let (_, resource) = from.split_once('/').expect("a full address");
    let address = format!("$presence/juliet/resource/{resource}");
    for body in ["dnd", ""] {
        stage.publish(liar, Place::Address(&address), body);
        assert_eq!(told(&mut stage, friend, &from), [""; 0]);
    }
}

#[test]
fn a_presence_has_a_limit_and_needs_the_setting() {
    let mut stage = stage(1);
    let romeo = contact(&mut stage, 0, "romeo");
    let juliet = connect(&mut stage, 0, "juliet");
    let long = format!("<status>{}</status>", "x".repeat(16 << 10));
    send(&mut stage, juliet, &[], &long);
    let got = stage.bed.xmpp_got(juliet);
    assert!(
        got.len() == 1 && got[0].contains("type='error'") && got[0].contains("16 KiB"),
        "{got:?}"
    );
    assert_eq!(told(&mut stage, romeo, ""), [""; 0]);

    let mut stage = Stage::new(1);
    let juliet = connect(&mut stage, 0, "juliet");
    send(&mut stage, juliet, &[], AWAY);
    let got = stage.bed.xmpp_got(juliet);
    assert!(
        !got.iter().any(|stanza| stanza.contains("error")),
        "{got:?}"
    );
}

#[test]
fn resources_of_a_user_are_told_of_each_other() {
    for shards in [1, 3] {
        let mut stage = stage(shards);
        let far = usize::from(shards) - 1;
        let one = connect(&mut stage, 0, "juliet");
        let two = connect(&mut stage, far, "juliet");
        let (of_one, of_two) = (jid(&mut stage, one), jid(&mut stage, two));
        send(&mut stage, one, &[], AWAY);
        // RFC 6121, 4.2.2: also of itself.
        assert!(told(&mut stage, one, &of_one)[0].contains("away"));
        // Not available, and so not told.
        assert_eq!(told(&mut stage, two, &of_one), [""; 0]);
        send(&mut stage, two, &[], "<show>dnd</show>");
        let at_two = told(&mut stage, two, &of_one);
        let has = |part: &str| at_two.iter().any(|stanza| stanza.contains(part));
        assert!(
            at_two.len() == 2 && has("away") && has(&of_two),
            "{at_two:?}"
        );
        let at_one = told(&mut stage, one, &of_two);
        assert!(at_one.len() == 1 && at_one[0].contains("dnd"), "{at_one:?}");
        // A contact of itself that is none any more is still told.
        for type_ in ["subscribe", "unsubscribe"] {
            let wish = [("type", type_), ("to", "juliet@localhost")];
            send(&mut stage, one, &wish, "");
            stage.bed.xmpp_got(one);
        }
        send(&mut stage, two, &[("type", "unavailable")], "");
        for who in [one, two] {
            assert_eq!(told(&mut stage, who, &of_two), [" type='unavailable'/>"]);
        }
        send(&mut stage, one, &[], "");
        assert_eq!(told(&mut stage, two, &of_one), [""; 0]);
        send(&mut stage, two, &[], "");
        assert_eq!(told(&mut stage, two, &of_one).len(), 2);
        stage.bed.lose(one);
        stage.bed.rest();
        assert_eq!(told(&mut stage, two, &of_one), [" type='unavailable'/>"]);
        // What was said while it was away comes when it goes on, before what it says again itself.
        send(&mut stage, two, &[], "<show>xa</show>");
        let again = stage.bed.xmpp_again(far, password("juliet"), one);
        let heard = told(&mut stage, again, &of_one);
        assert!(
            heard.iter().any(|stanza| stanza.contains("xa"))
                && heard.last().unwrap().starts_with("/>"),
            "{heard:?}"
        );
    }
}

#[test]
fn own_resources_are_a_matter_of_rights_and_end_with_the_broker() {
    let mut stage = stage(2);
    let denied = Rule::deny(Permission::Subscribe, "$presence/juliet/resource/+");
    let rules = Rules::new(vec![denied], Otherwise::Allow).expect("a filter");
    stage.set_rights("juliet", rules);
    let one = connect(&mut stage, 0, "juliet");
    let two = connect(&mut stage, 1, "juliet");
    for who in [one, two] {
        send(&mut stage, who, &[], AWAY);
    }
    for who in [one, two] {
        assert_eq!(told(&mut stage, who, ""), [""; 0]);
    }
    stage.set_rights(
        "juliet",
        Rules::new(vec![], Otherwise::Allow).expect("rules"),
    );
    let one = connect(&mut stage, 0, "juliet");
    send(&mut stage, one, &[], "");
    assert_eq!(told(&mut stage, one, "").len(), 3);
    let name = stage.bed.client(one).resume.clone().expect("resumable");
    stage.bed.restart();
    let again = stage.bed.xmpp_resume(0, password("juliet"), None, &name);
    assert_eq!(told(&mut stage, again, ""), [""; 0]);
    send(&mut stage, again, &[], "");
    let from = jid(&mut stage, again);
    // Its subscription has outlived the broker: it is told at once, and by the last value.
    assert_eq!(told(&mut stage, again, &from), ["/>", "/>"]);
}
