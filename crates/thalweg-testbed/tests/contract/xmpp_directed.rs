//! Presence that clients of XMPP send to single addresses.

use crate::peer::{Place, Protocol, Stage};
use crate::xmpp_personal::stage;
use crate::xmpp_resumption::password;
use thalweg_kernel::CloseReason;
use thalweg_kernel::access::{Otherwise, Permission, Rule, Rules};
use thalweg_testbed::Shard;
use thalweg_testbed::Who;
use thalweg_testbed::xmpp::Xmpp;
use thalweg_xmpp::StanzaKind;

/// A client and its address.
type Known = (Who<Xmpp>, String);

fn connect(stage: &mut Stage, shard: usize, user: &str) -> Known {
    let who = stage.bed.open_xmpp(shard, password(user), None);
    send(stage, who, &[], "");
    stage.bed.xmpp_got(who);
    let jid = stage.bed.client(who).jid.clone();
    (who, jid.expect("bound"))
}

fn send(stage: &mut Stage, who: Who<Xmpp>, attributes: &[(&str, &str)], content: &str) {
    stage.bed.says(who, |client, up| {
        client.send(StanzaKind::Presence, attributes, content, up);
    });
}

/// The presences that came from an address, without their heads.
fn told(stage: &mut Stage, (who, jid): &Known, from: &str) -> Vec<String> {
    let head = format!("<presence from='{from}' to='{jid}'");
    let got = stage.bed.xmpp_got(*who);
    let got = got.iter().filter_map(|stanza| stanza.strip_prefix(&head));
    got.map(str::to_owned).collect()
}

const GONE: [&str; 1] = [" type='unavailable'/>"];
const HERE: &str = "><show xmlns='jabber:client'>chat</show></presence>";

/// Juliet, who has said to romeo that she is here, by his full or his bare address.
fn begun(shards: u16, is_full: bool) -> (Stage, Known, Known) {
    let mut stage = stage(shards);
    let romeo = connect(&mut stage, usize::from(shards) - 1, "romeo");
    let juliet = connect(&mut stage, 0, "juliet");
    let to = if is_full {
        &*romeo.1
    } else {
        "romeo@localhost"
    };
    send(&mut stage, juliet.0, &[("to", to)], "<show>chat</show>");
    assert_eq!(told(&mut stage, &romeo, &juliet.1), [HERE]);
    assert_eq!(stage.bed.xmpp_got(juliet.0), [""; 0]);
    (stage, romeo, juliet)
}

#[test]
fn who_got_presence_is_told_when_its_sender_goes_however_it_does() {
    type End = fn(&mut Stage, Who<Xmpp>);
    let ends: [End; 5] = [
        |stage, who| send(stage, who, &[("type", "unavailable")], ""),
        |stage, who| stage.bed.says(who, |client, up| client.close(up)),
        |stage, who| stage.bed.lose(who),
        |stage, who| {
            let name = stage.bed.client(who).resume.clone().expect("it has a name");
            let (at, now) = (stage.bed.shard_of(who), stage.bed.now);
            let Shard { kernel, links, .. } = &mut stage.bed.shards[at];
            assert!(kernel.kick(&name, CloseReason::Kicked, false, now, links));
        },
        // Against the protocol.
        |stage, who| {
            let (_, up) = stage.bed.end(who);
            up.extend_from_slice(b"<a></b>");
        },
    ];
    for shards in [1, 3] {
        for is_full in [true, false] {
            for end in ends {
                let (mut stage, romeo, juliet) = begun(shards, is_full);
                end(&mut stage, juliet.0);
                stage.bed.rest();
                assert_eq!(told(&mut stage, &romeo, &juliet.1), GONE);
            }
        }
    }
}

#[test]
fn a_presence_to_one_address_is_taken_back_or_ends_with_its_stream_once() {
    let (mut stage, romeo, juliet) = begun(2, true);
    let watcher = stage.connect(Protocol::Mqtt5, "watcher");
    stage.ask(watcher, Place::Address("$jid/#"));
    send(
        &mut stage,
        juliet.0,
        &[("to", &romeo.1)],
        "<show>away</show>",
    );
    let back = [("to", &*romeo.1), ("type", "unavailable")];
    send(&mut stage, juliet.0, &back, "<status>bye</status>");
    let said = told(&mut stage, &romeo, &juliet.1);
    assert!(
        said.len() == 2 && said[0].contains("away") && said[1].contains("bye"),
        "{said:?}"
    );
    // Another protocol reads a word.
    assert_eq!(stage.bodies(watcher), ["away", ""]);
    stage.bed.lose(juliet.0);
    stage.bed.rest();
    assert_eq!(told(&mut stage, &romeo, &juliet.1), [""; 0]);
    assert_eq!(stage.bodies(watcher), [""; 0]);
}

#[test]
fn a_stream_that_goes_on_says_again_what_it_has_said_to_single_addresses() {
    for shards in [1, 3] {
        for is_noticed in [true, false] {
            let (mut stage, romeo, juliet) = begun(shards, true);
            if is_noticed {
                stage.bed.lose(juliet.0);
                stage.bed.rest();
                assert_eq!(told(&mut stage, &romeo, &juliet.1), GONE);
            }
            let again = stage.bed.xmpp_again(0, password("juliet"), juliet.0);
            assert_eq!(told(&mut stage, &romeo, &juliet.1), [HERE]);
            stage.bed.lose(again);
            stage.bed.rest();
            assert_eq!(told(&mut stage, &romeo, &juliet.1), GONE);
        }
    }
}

#[test]
fn who_is_not_there_is_told_only_that_a_client_has_gone() {
    let (mut stage, romeo, juliet) = begun(3, true);
    stage.bed.lose(romeo.0);
    send(
        &mut stage,
        juliet.0,
        &[("to", &romeo.1)],
        "<show>away</show>",
    );
    stage.bed.lose(juliet.0);
    stage.bed.rest();
    let again = stage.bed.xmpp_again(2, password("romeo"), romeo.0);
    assert_eq!(told(&mut stage, &(again, romeo.1), &juliet.1), GONE);

    // Nothing of it outlives the broker.
    let (mut stage, romeo, _) = begun(3, true);
    let name = stage.bed.client(romeo.0).resume.clone().expect("resumable");
    stage.bed.restart();
    let again = stage.bed.xmpp_resume(2, password("romeo"), None, &name);
    send(&mut stage, again, &[], "");
    let got = stage.bed.xmpp_got(again);
    assert!(
        !got.iter().any(|stanza| stanza.contains("juliet")),
        "{got:?}"
    );
}

#[test]
fn presence_to_one_address_needs_the_right_to_write_there() {
    let mut stage = stage(2);
    let denied = Rule::deny(Permission::Publish, "$jid/romeo@localhost/#");
    stage.set_rights(
        "juliet",
        Rules::new(vec![denied], Otherwise::Allow).expect("a filter"),
    );
    let (romeo, juliet) = (
        connect(&mut stage, 1, "romeo"),
        connect(&mut stage, 0, "juliet"),
    );
    send(&mut stage, juliet.0, &[("to", &romeo.1)], "");
    let got = stage.bed.xmpp_got(juliet.0);
    assert!(
        got.len() == 1
            && got[0].starts_with("<presence type='error'")
            && got[0].contains("<forbidden"),
        "{got:?}"
    );
    stage.bed.lose(juliet.0);
    stage.bed.rest();
    assert_eq!(told(&mut stage, &romeo, &juliet.1), [""; 0]);
}

#[test]
fn what_is_known_of_single_addresses_has_a_limit() {
    let (mut stage, romeo, juliet) = begun(1, true);
    let long = format!("<status>{}</status>", "x".repeat(15 << 10));
    let sent: Vec<String> = (0..5)
        .map(|number| format!("nobody-{number}@localhost"))
        .collect();
    for to in &sent {
        send(&mut stage, juliet.0, &[("to", to)], &long);
    }
    let got = stage.bed.xmpp_got(juliet.0);
    assert!(
        got.len() == 1 && got[0].contains("from='nobody-4@localhost'") && got[0].contains("64 KiB"),
        "{got:?}"
    );
    // What is taken back makes room.
    for (to, attributes) in [(&sent[0], &[("type", "unavailable")][..]), (&sent[4], &[])] {
        let attributes = [&[("to", &**to)], attributes].concat();
        send(&mut stage, juliet.0, &attributes, &long);
    }
    assert_eq!(stage.bed.xmpp_got(juliet.0), [""; 0]);
    stage.bed.lose(juliet.0);
    stage.bed.rest();
    assert_eq!(told(&mut stage, &romeo, &juliet.1), GONE);
}
