//! Personal nodes (XEP-0163): receivers of their items, by contacts, capabilities and rights.

use crate::peer::{Place, Protocol, Stage};
use thalweg_kernel::Limits;
use thalweg_kernel::access::{Otherwise, Permission, Rule, Rules};
use thalweg_testbed::xmpp::{SERVICE, Xmpp};
use thalweg_testbed::{Settings, Who};
use thalweg_xmpp::{Credentials, StanzaKind};

const TUNE: &str = "http://jabber.org/protocol/tune";
const JULIET: &str = "juliet@localhost";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";

pub fn stage(shards: u16) -> Stage {
    Stage::with(Settings {
        shards,
        limits: Limits {
            presence: true,
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

/// Sends presence with capabilities of this version and returns what comes; a request for them is answered by these nodes.
fn announce(stage: &mut Stage, who: Who<Xmpp>, ver: &str, nodes: &[&str]) -> Vec<String> {
    let caps = format!(
        "<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:c' ver='{ver}'/>"
    );
    stage.bed.says(who, |client, up| {
        client.send(StanzaKind::Presence, &[], &caps, up);
    });
    let mut got = stage.bed.xmpp_got(who);
    // What it has said itself.
    let jid = stage.bed.client(who).jid.clone().expect("bound");
    got.retain(|stanza| !stanza.starts_with(&format!("<presence from='{jid}'")));
    let node = format!("node='urn:c#{ver}'");
    if let Some(at) = got.iter().position(|stanza| stanza.contains(&node)) {
        let request = got.remove(at);
        let (_, rest) = request.split_once("id='").expect("an id");
        let id = rest.split_once('\'').expect("an id").0;
        let features: String = nodes
            .iter()
            .map(|node| format!("<feature var='{node}+notify'/><feature var='{node}'/>"))
            .collect();
        let info = format!(
            "<query xmlns='http://jabber.org/protocol/disco#info' {node}>{features}</query>"
        );
        stage.bed.says(who, |client, up| {
            let attributes = [("type", "result"), ("id", id), ("to", "localhost")];
            client.send(StanzaKind::Iq, &attributes, &info, up);
        });
        got.extend(stage.bed.xmpp_got(who));
    }
    got
}

fn subscribe(stage: &mut Stage, who: Who<Xmpp>, type_: &str) {
    let attributes = [("type", type_), ("to", JULIET)];
    stage
        .bed
        .says(who, |client, up| client.presence(&attributes, up));
}

fn listens(title: &str) -> String {
    format!("<tune xmlns='{TUNE}'><title>{title}</title></tune>")
}

fn publish(stage: &mut Stage, who: Who<Xmpp>, to: &str, title: &str) -> String {
    let item = format!("<item id='current'>{}</item>", listens(title));
    let action =
        format!("<pubsub xmlns='{PUBSUB}'><publish node='{TUNE}'>{item}</publish></pubsub>");
    stage.bed.xmpp_ask(who, "set", to, &action)
}

/// The titles of events of juliet's, which must be as XEP-0163 has them; other stanzas are left out.
fn titles(stage: &mut Stage, who: Who<Xmpp>, also: Vec<String>) -> Vec<String> {
    let mut titles = Vec::new();
    for stanza in also.into_iter().chain(stage.bed.xmpp_got(who)) {
        if !stanza.contains("pubsub#event") {
            continue;
        }
        let jid = stage.bed.client(who).jid.clone().expect("bound");
        let head = format!("<message from='{JULIET}' to='{jid}' type='headline'>");
        let node = format!("<items node='{TUNE}'>");
        assert!(
            stanza.starts_with(&head) && stanza.contains(&node),
            "{stanza}"
        );
        titles.push(match stanza.split_once("<title>") {
            Some((_, rest)) => rest.split_once('<').expect("a title").0.to_owned(),
            None => {
                assert!(stanza.contains("<retract id='current'/>"), "{stanza}");
                "gone".to_owned()
            }
        });
    }
    titles
}

#[test]
fn contacts_get_the_items_that_their_clients_are_interested_in() {
    for shards in [1, 3] {
        let mut stage = stage(shards);
        let juliet = connect(&mut stage, 0, "juliet");
        let other = connect(&mut stage, usize::from(shards) - 1, "juliet");
        let romeo = connect(&mut stage, usize::from(shards) - 1, "romeo");
        let sensor = stage.connect(Protocol::Mqtt5, "sensor");
        let address = format!("$pep/{JULIET}/{TUNE}");
        stage.ask(sensor, Place::Address(&address));
        announce(&mut stage, juliet, "1", &["urn:other"]);
        announce(&mut stage, other, "1", &[TUNE]);
        announce(&mut stage, romeo, "1", &[TUNE]);

        // No contact yet; the user's own clients need not be.
        let answer = publish(&mut stage, juliet, "", "one");
        let result = format!(
            "from='{JULIET}'><pubsub xmlns='{PUBSUB}'><publish node='{TUNE}'><item id='current'/>"
        );
        assert!(answer.contains(&result), "{answer}");
        assert_eq!(titles(&mut stage, juliet, Vec::new()), [""; 0]);
        assert_eq!(titles(&mut stage, other, Vec::new()), ["one"]);
        assert_eq!(titles(&mut stage, romeo, Vec::new()), [""; 0]);
        assert_eq!(stage.bodies(sensor), [listens("one")]);

        // The last item comes with the contact, each that follows at once.
        subscribe(&mut stage, romeo, "subscribe");
        assert_eq!(titles(&mut stage, romeo, Vec::new()), ["one"], "{shards}");
        publish(&mut stage, juliet, JULIET, "two");
        assert_eq!(titles(&mut stage, romeo, Vec::new()), ["two"]);
        // The same capabilities change nothing, others do.
        assert_eq!(announce(&mut stage, romeo, "1", &[]), [""; 0]);
        announce(&mut stage, romeo, "2", &["urn:other"]);
        publish(&mut stage, juliet, "", "three");
        assert_eq!(titles(&mut stage, romeo, Vec::new()), [""; 0]);
        let got = announce(&mut stage, romeo, "3", &[TUNE]);
        assert_eq!(titles(&mut stage, romeo, got), ["three"]);

        // A user with read access requests the items; only their owner changes them.
        let items = format!("<pubsub xmlns='{PUBSUB}'><items node='{TUNE}'/></pubsub>");
        let answer = stage.bed.xmpp_ask(romeo, "get", JULIET, &items);
        assert!(
            answer.contains(&format!("from='{JULIET}'"))
                && answer.contains("<item id='current'>")
                && answer.contains("three"),
            "{answer}"
        );
        let retract = format!(
            "<pubsub xmlns='{PUBSUB}'><retract node='{TUNE}'><item id='current'/></retract></pubsub>"
        );
        for content in [
            retract.clone(),
            format!("<pubsub xmlns='{OWNER}'><delete node='{TUNE}'/></pubsub>"),
        ] {
            let answer = stage.bed.xmpp_ask(romeo, "set", JULIET, &content);
            assert!(answer.contains("<forbidden"), "{answer}");
        }
        assert!(publish(&mut stage, romeo, JULIET, "no").contains("<forbidden"));
        let answer = stage.bed.xmpp_ask(juliet, "set", JULIET, &retract);
        assert!(answer.contains("type='result'"), "{answer}");
        assert_eq!(titles(&mut stage, romeo, Vec::new()), ["gone"]);

        // Not a contact any more; and not available.
        subscribe(&mut stage, romeo, "unsubscribe");
        publish(&mut stage, juliet, "", "four");
        assert_eq!(titles(&mut stage, romeo, Vec::new()), [""; 0]);
        subscribe(&mut stage, romeo, "subscribe");
        assert_eq!(titles(&mut stage, romeo, Vec::new()), ["four"]);
        let gone = [("type", "unavailable")];
        stage
            .bed
            .says(romeo, |client, up| client.presence(&gone, up));
        publish(&mut stage, juliet, "", "five");
        assert_eq!(titles(&mut stage, romeo, Vec::new()), [""; 0]);
        stage.bed.check();
    }
}

#[test]
fn interests_outlive_the_connection_and_the_broker() {
    let mut stage = stage(1);
    let juliet = connect(&mut stage, 0, "juliet");
    let romeo = connect(&mut stage, 0, "romeo");
    announce(&mut stage, romeo, "1", &[TUNE]);
    subscribe(&mut stage, romeo, "subscribe");
    stage.bed.lose(romeo);
    publish(&mut stage, juliet, "", "one");
    let password = || Credentials::Password {
        user: "romeo".into(),
        password: "x".into(),
    };
    let romeo = stage.bed.xmpp_again(0, password(), romeo);
    assert!(stage.bed.client(romeo).is_resumed);
    assert_eq!(titles(&mut stage, romeo, Vec::new()), ["one"]);
    publish(&mut stage, juliet, "", "two");
    assert_eq!(titles(&mut stage, romeo, Vec::new()), ["two"]);

    let name = stage.bed.client(romeo).resume.clone().expect("a name");
    stage.bed.restart();
    let romeo = stage.bed.xmpp_resume(0, password(), None, &name);
    let juliet = connect(&mut stage, 0, "juliet");
    publish(&mut stage, juliet, "", "three");
    assert_eq!(titles(&mut stage, romeo, Vec::new()), ["three"]);
    // Notifications end for nodes that the client has dropped from its interests.
    announce(&mut stage, romeo, "2", &[]);
    publish(&mut stage, juliet, "", "four");
    assert_eq!(titles(&mut stage, romeo, Vec::new()), [""; 0]);
}

/// An item that has waited for its client comes although the client has dropped the node from its interests, and what waits
/// behind it comes too.
#[test]
fn a_late_item_holds_nothing_up() {
    for shards in [1, 2] {
        let mut stage = Stage::with(Settings {
            shards,
            limits: Limits {
                presence: true,
                in_flight_max: 1,
                ..Limits::default()
            },
            ..Settings::default()
        });
        let juliet = connect(&mut stage, 0, "juliet");
        let romeo = connect(&mut stage, usize::from(shards) - 1, "romeo");
        announce(&mut stage, romeo, "1", &[TUNE]);
        subscribe(&mut stage, romeo, "subscribe");
        stage.bed.xmpp_subscribe(romeo, "a/b");
        stage.bed.xmpp_got(romeo);
        stage.bed.client(romeo).acknowledges = false;
        publish(&mut stage, juliet, "", "one");
        publish(&mut stage, juliet, "", "two");
        stage.bed.xmpp_publish(juliet, "a/b", "i", "<t xmlns='u'/>");
        let mut next = stage.bed.client(romeo).got.pop_front();
        announce(&mut stage, romeo, "2", &[]);
        let expected = ["<title>one</title>", "<title>two</title>", "<t xmlns='u'/>"];
        let mut came = Vec::new();
        while let Some((number, stanza)) = next {
            came.extend(expected.iter().copied().find(|it| stanza.contains(it)));
            stage
                .bed
                .says(romeo, |client, up| client.acknowledge(number, up));
            next = stage.bed.client(romeo).got.pop_front();
        }
        assert_eq!(came, expected, "{shards}");
        stage.bed.check();
    }
}

#[test]
fn an_account_says_what_it_has_and_the_rules_say_who_sees_it() {
    let mut stage = stage(1);
    let juliet = connect(&mut stage, 0, "juliet");
    publish(&mut stage, juliet, "", "one");
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    let items = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    for user in ["juliet", "romeo"] {
        let asker = connect(&mut stage, 0, user);
        let answer = stage.bed.xmpp_ask(asker, "get", JULIET, info);
        let found = [
            "<identity category='pubsub' type='pep'/>",
            "pubsub#filtered-notifications'",
        ];
        assert!(found.iter().all(|it| answer.contains(it)), "{answer}");
        let answer = stage.bed.xmpp_ask(asker, "get", JULIET, items);
        let item = format!("<item jid='{JULIET}' node='{TUNE}'/>");
        assert!(answer.contains(&item), "{answer}");
    }
    // A node of the same name at the service is another one.
    let items = format!("<pubsub xmlns='{PUBSUB}'><items node='{TUNE}'/></pubsub>");
    let answer = stage.bed.xmpp_ask(juliet, "get", SERVICE, &items);
    assert!(!answer.contains("one"), "{answer}");
    // Options that cannot be fulfilled are refused.
    let form = |model: &str| {
        format!(
            "<pubsub xmlns='{PUBSUB}'><publish node='urn:secret'><item><a xmlns='b'/></item></publish><publish-options>\
            <x xmlns='jabber:x:data' type='submit'><field var='pubsub#access_model'><value>{model}</value></field></x>\
            </publish-options></pubsub>"
        )
    };
    let answer = stage.bed.xmpp_ask(juliet, "set", "", &form("whitelist"));
    let says = answer.contains("precondition-not-met") && answer.contains("rules say who may read");
    assert!(says, "{answer}");
    let answer = stage.bed.xmpp_ask(juliet, "set", "", &form("presence"));
    assert!(answer.contains("type='result'"), "{answer}");
    let action =
        format!("<pubsub xmlns='{PUBSUB}'><subscribe node='{TUNE}' jid='{JULIET}'/></pubsub>");
    let answer = stage.bed.xmpp_ask(juliet, "set", JULIET, &action);
    assert!(answer.contains("unsupported"), "{answer}");

    let deny = Rule::deny(Permission::Subscribe, "$pep/juliet@localhost/#");
    let rules = Rules::new(vec![deny], Otherwise::Allow);
    stage.set_rights("romeo", rules.expect("a filter"));
    let romeo = connect(&mut stage, 0, "romeo");
    announce(&mut stage, romeo, "1", &[TUNE]);
    subscribe(&mut stage, romeo, "subscribe");
    publish(&mut stage, juliet, "", "two");
    assert_eq!(titles(&mut stage, romeo, Vec::new()), [""; 0]);
    let answer = stage.bed.xmpp_ask(romeo, "get", JULIET, &items);
    assert!(answer.contains("<forbidden"), "{answer}");
}
