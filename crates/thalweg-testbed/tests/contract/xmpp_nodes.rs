//! Configuration, affiliations, subscription options and the fate of items (XEP-0060), on one shard and on several.

use crate::peer::{Place, Protocol, Stage};
use thalweg_kernel::access::{Otherwise, Permission, Permissions, Rule, Rules};
use thalweg_kernel::{Limits, Policy};
use thalweg_model::{Filter, Reliability, Span};
use thalweg_testbed::xmpp::{SERVICE, Xmpp, items};
use thalweg_testbed::{Settings, Who};
use thalweg_xmpp::Credentials;

const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
const TEXT: &str = "<text xmlns='urn:thalweg:payload:0'>1</text>";

fn juliet(stage: &mut Stage) -> Who<Xmpp> {
    let password = Credentials::Password {
        user: "juliet".into(),
        password: "x".into(),
    };
    stage.bed.open_xmpp(0, password, None)
}

fn owner(stage: &mut Stage, who: Who<Xmpp>, kind: &str, action: &str) -> String {
    let content = format!("<pubsub xmlns='{OWNER}'>{action}</pubsub>");
    stage.bed.xmpp_ask(who, kind, SERVICE, &content)
}

fn form(fields: &[(&str, &str)]) -> String {
    let field = |(name, value): &(&str, &str)| {
        format!("<field var='{name}'><value>{value}</value></field>")
    };
    let fields: String = fields.iter().map(field).collect();
    format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>")
}

/// Names and values of a form.
fn fields(answer: &str) -> Vec<(String, String)> {
    let between = |text: &str, from: &str, until: &str| {
        let (_, rest) = text.split_once(from)?;
        Some(rest.split_once(until)?.0.to_owned())
    };
    answer
        .split("<field ")
        .skip(2)
        .map(|field| {
            (
                between(field, "var='", "'").expect("a name"),
                between(field, "<value>", "</value>").expect("a value"),
            )
        })
        .collect()
}

fn is_done(answer: &str) -> bool {
    answer.contains("type='result'")
}

/// Each value that a form shows can be asked for, when a node is made and later; any other is refused by its name.
#[test]
fn what_a_node_is_like_can_be_asked_for_and_nothing_else() {
    let mut stage = Stage::new(2);
    for rules in [None, Some(Permissions::ALL)] {
        if let Some(all) = rules {
            let rules = vec![Rule::allow(all, "#"), Rule::deny(all, "other")];
            stage.set_rights("juliet", Rules::new(rules, Otherwise::Deny).expect("rules"));
        }
        let who = juliet(&mut stage);
        let shown = owner(&mut stage, who, "get", "<configure node='a/b'/>");
        let default = owner(&mut stage, who, "get", "<default/>");
        let all = fields(&shown);
        assert_eq!((all.len(), &all), (16, &fields(&default)), "{shown}");
        for (name, value) in &all {
            let other = match value.as_str() {
                "1" if !name.ends_with("max_items") => "0",
                "0" => "1",
                _ => "something",
            };
            for (value, is_granted) in [(value.as_str(), true), (other, false)] {
                let form = form(&[(name, value)]);
                let configure = format!("<configure node='a/b'>{form}</configure>");
                let create = format!("<create node='a/b'/><configure>{form}</configure>");
                for answer in [
                    owner(&mut stage, who, "set", &configure),
                    stage.bed.xmpp_pubsub(who, "set", &create),
                ] {
                    assert_eq!(is_done(&answer), is_granted, "{name} {value}: {answer}");
                    let is_named = answer.contains("<not-acceptable") && answer.contains(name);
                    assert!(is_granted || is_named, "{answer}");
                }
                // As a condition of a publish. Two fields are choices of each publish.
                let is_choice = name.ends_with("persist_items");
                let publish = format!(
                    "<publish node='a/b'><item id='i'>{TEXT}</item></publish><publish-options>{form}</publish-options>"
                );
                let answer = stage.bed.xmpp_pubsub(who, "set", &publish);
                assert_eq!(
                    is_done(&answer),
                    is_granted || is_choice,
                    "{name}: {answer}"
                );
            }
        }
        let unknown = form(&[("pubsub#title", "Verona")]);
        let answer = owner(
            &mut stage,
            who,
            "set",
            &format!("<configure node='a/b'>{unknown}</configure>"),
        );
        assert!(answer.contains("<not-acceptable"), "{answer}");
    }
}

#[test]
fn an_item_lasts_as_its_publish_says() {
    for shards in [1, 3] {
        let mut stage = Stage::new(shards);
        let who = juliet(&mut stage);
        let get = "<items node='a/b'/>";
        for (option, value, is_kept, is_kept_later) in [
            ("pubsub#persist_items", "false", false, false),
            ("pubsub#persist_items", "true", true, true),
            ("pubsub#item_expire", "30", true, false),
            ("pubsub#item_expire", "max", true, true),
        ] {
            let form = form(&[(option, value)]);
            let publish = format!(
                "<publish node='a/b'><item id='i'>{TEXT}</item></publish><publish-options>{form}</publish-options>"
            );
            owner(&mut stage, who, "set", "<purge node='a/b'/>");
            let answer = stage.bed.xmpp_pubsub(who, "set", &publish);
            assert!(is_done(&answer), "{answer}");
            let answer = stage.bed.xmpp_pubsub(who, "get", get);
            assert_eq!(
                answer.contains("<item id='i'>"),
                is_kept,
                "{option} {value}"
            );
            stage.bed.run_for(Span::from_secs(31));
            let answer = stage.bed.xmpp_pubsub(who, "get", get);
            assert_eq!(
                answer.contains("<item id='i'>"),
                is_kept_later,
                "{option} {value}"
            );
        }
    }
}

/// Retraction of an existing item and of a missing one, purge and delete: answer, notification and remaining items.
#[test]
fn items_go_by_their_names() {
    for shards in [1, 3] {
        let mut stage = Stage::new(shards);
        let (who, reader) = (juliet(&mut stage), juliet(&mut stage));
        stage.bed.xmpp_subscribe(reader, "a/b");
        let mqtt = stage.connect(Protocol::Mqtt5, "mqtt");
        stage.ask(mqtt, Place::Address("a/b"));
        for (action, notified) in [
            (
                "<retract node='a/b'><item id='i1'/></retract>",
                "<items node='a/b'><retract id='i1'/></items>",
            ),
            ("<purge node='a/b'/>", "<purge node='a/b'/>"),
            ("<delete node='a/b'/>", "<delete node='a/b'/>"),
        ] {
            stage.bed.xmpp_publish(who, "a/b", "i1", TEXT);
            assert_eq!(stage.bed.xmpp_got(reader).len(), 1);
            let answer =
                stage
                    .bed
                    .xmpp_pubsub(who, "set", "<retract node='a/b'><item id='i0'/></retract>");
            assert!(answer.contains("<item-not-found"), "{answer}");
            let query = "<query xmlns='http://jabber.org/protocol/disco#items' node='a/b'/>";
            let listed = stage.bed.xmpp_ask(who, "get", SERVICE, query);
            assert!(listed.contains("name='i1'"), "{listed}");
            let answer = match action.starts_with("<retract") {
                true => stage.bed.xmpp_pubsub(who, "set", action),
                false => owner(&mut stage, who, "set", action),
            };
            assert!(is_done(&answer), "{action}: {answer}");
            let events = stage.bed.xmpp_got(reader);
            assert!(
                events.len() == 1 && events[0].contains(notified),
                "{events:?}"
            );
            let left = stage.bed.xmpp_pubsub(who, "get", "<items node='a/b'/>");
            assert!(!left.contains("<item "), "{left}");
            assert_eq!(stage.bodies(mqtt), ["1", ""]);
        }
        // Values that MQTT retains and clears.
        let answer =
            stage
                .bed
                .xmpp_pubsub(who, "set", "<retract node='$q/n'><item id='i1'/></retract>");
        assert!(answer.contains("<feature-not-implemented"), "{answer}");
    }
}

/// Affiliations are rights, and so are the ways to make and change a node.
#[test]
fn affiliations_are_rights() {
    let [publish, subscribe, receive] = [
        Permission::Publish,
        Permission::Subscribe,
        Permission::Receive,
    ];
    for (given, name) in [
        (&[publish, subscribe, receive][..], "publisher"),
        (&[publish], "publish-only"),
        (&[subscribe, receive], "member"),
        (&[], "outcast"),
    ] {
        let mut stage = Stage::new(1);
        let allowed = given.iter().map(|right| Rule::allow(*right, "a/b"));
        let rules = Rules::new(allowed.collect(), Otherwise::Deny).expect("rules");
        stage.set_rights("juliet", rules);
        let who = juliet(&mut stage);
        let answer = stage
            .bed
            .xmpp_pubsub(who, "get", "<affiliations node='a/b'/>");
        let expected = format!("<affiliation node='a/b' affiliation='{name}'/>");
        assert!(answer.contains(&expected), "{answer}");
        let publishes = given.contains(&publish);
        for (answer, is_granted) in [
            (
                stage.bed.xmpp_pubsub(who, "set", "<create node='a/b'/>"),
                publishes,
            ),
            (
                owner(
                    &mut stage,
                    who,
                    "set",
                    &format!("<configure node='a/b'>{}</configure>", form(&[])),
                ),
                publishes,
            ),
            (
                owner(&mut stage, who, "get", "<configure node='a/b'/>"),
                !given.is_empty(),
            ),
            (
                owner(&mut stage, who, "set", "<purge node='a/b'/>"),
                publishes,
            ),
            (
                owner(&mut stage, who, "set", "<delete node='a/b'/>"),
                publishes,
            ),
            (
                stage
                    .bed
                    .xmpp_pubsub(who, "set", "<retract node='a/b'><item id='i'/></retract>"),
                // There is no such item, if the client may know that.
                publishes && !given.contains(&subscribe),
            ),
            (
                stage.bed.xmpp_pubsub(who, "get", "<items node='a/b'/>"),
                given.contains(&subscribe),
            ),
            (
                owner(&mut stage, who, "get", "<affiliations node='a/b'/>"),
                false,
            ),
            (
                owner(&mut stage, who, "get", "<subscriptions node='a/b'/>"),
                false,
            ),
        ] {
            assert_eq!(is_done(&answer), is_granted, "{name}: {answer}");
        }
    }
}

#[test]
fn a_subscription_has_options() {
    for shards in [1, 3] {
        let mut stage = Stage::new(shards);
        let publisher = stage.connect(Protocol::Mqtt5, "publisher");
        let who = juliet(&mut stage);
        let jid = stage.bed.client(who).jid.clone().expect("bound");
        stage.bed.xmpp_subscribe(who, "a/b");
        let options = format!("<options node='a/b' jid='{jid}'");
        let answer = stage.bed.xmpp_pubsub(who, "get", &format!("{options}/>"));
        let shown = fields(&answer);
        assert_eq!(shown.len(), 8, "{answer}");
        let set = |stage: &mut Stage, name: &str, value: &str| {
            let form = form(&[(name, value)]);
            stage
                .bed
                .xmpp_pubsub(who, "set", &format!("{options}>{form}</options>"))
        };
        for (name, value) in &shown {
            assert!(is_done(&set(&mut stage, name, value)), "{name}");
            // A single word is a filter, true where the header of that name is.
            let answer = set(&mut stage, name, "something (");
            assert!(
                answer.contains("<invalid-options") && answer.contains(name),
                "{answer}"
            );
        }
        let arrives = |stage: &mut Stage| {
            stage.bed.xmpp_got(who);
            stage.publish(publisher, Place::Address("a/b"), "1");
            stage
                .bed
                .xmpp_got(who)
                .iter()
                .any(|stanza| items(stanza).len() == 1)
        };
        assert!(arrives(&mut stage));
        assert!(is_done(&set(&mut stage, "pubsub#deliver", "0")));
        assert!(!arrives(&mut stage));
        let answer = stage.bed.xmpp_pubsub(who, "get", "<subscriptions/>");
        assert!(answer.contains("node='a/b'"), "{answer}");
        assert!(is_done(&set(&mut stage, "pubsub#deliver", "true")));
        assert!(arrives(&mut stage));
        let lease = "2036-01-01T00:00:00Z";
        assert!(is_done(&set(&mut stage, "pubsub#expire", lease)));
        let answer = stage.bed.xmpp_pubsub(who, "get", "<subscriptions/>");
        assert!(answer.contains(&format!("expiry='{lease}'")), "{answer}");
    }
}

/// A subscription that a policy, or its stream, has sent less surely than it asks for is answered with its options.
#[test]
fn a_subscriber_is_told_how_surely_items_come() {
    let ceiling = Policy {
        reliability_max: Some(Reliability::AtMostOnce),
        ..Policy::new(Filter::new("t/#").expect("a filter"))
    };
    for shards in [1, 3] {
        let mut stage = Stage::with(Settings {
            shards,
            limits: Limits {
                policies: [ceiling.clone()].into(),
                ..Limits::default()
            },
            ..Settings::default()
        });
        let who = juliet(&mut stage);
        let jid = stage.bed.client(who).jid.clone().expect("bound");
        let (less, more) = ("at-most-once", "at-least-once");
        for (node, asked, told, holds) in [
            ("t/a", "", Some(less), less),
            ("t/b", more, Some(less), less),
            ("t/c", less, None, less),
            ("$q/t", "", None, more),
            ("a", "", None, more),
            ("b", less, None, less),
        ] {
            let wish = form(&[("x-reliability", asked)]);
            let options = match asked {
                "" => String::new(),
                _ => format!("<options>{wish}</options>"),
            };
            let action = format!("<subscribe node='{node}' jid='{jid}'/>{options}");
            let answer = stage.bed.xmpp_pubsub(who, "set", &action);
            let value = |answer: &str| {
                let has =
                    |(name, value): (String, String)| (name == "x-reliability").then_some(value);
                fields(answer).into_iter().find_map(has)
            };
            assert!(
                is_done(&answer) && answer.contains("subscribed"),
                "{answer}"
            );
            assert_eq!(value(&answer).as_deref(), told, "{node}: {answer}");
            let get = format!("<options node='{node}' jid='{jid}'/>");
            let answer = stage.bed.xmpp_pubsub(who, "get", &get);
            assert_eq!(value(&answer).as_deref(), Some(holds), "{node}: {answer}");
        }
        let change = |stage: &mut Stage, node: &str, wish: &str| {
            let form = form(&[("x-reliability", wish)]);
            let set = format!("<options node='{node}' jid='{jid}'>{form}</options>");
            stage.bed.xmpp_pubsub(who, "set", &set)
        };
        let answer = change(&mut stage, "t/c", more);
        assert!(is_done(&answer) && answer.contains(less), "{answer}");
        let answer = change(&mut stage, "b", more);
        assert!(is_done(&answer) && !answer.contains("<options"), "{answer}");
        // What is not acknowledged is repeated where it is at least once.
        let publisher = stage.connect(Protocol::Mqtt5, "publisher");
        stage.bed.set_reading(who, false);
        for address in ["t/a", "t/c", "a", "b"] {
            stage.publish(publisher, Place::Address(address), address);
        }
        stage.bed.lose(who);
        let password = Credentials::Password {
            user: "juliet".into(),
            password: "x".into(),
        };
        let again = stage.bed.xmpp_again(0, password, who);
        let stanzas = stage.bed.xmpp_got(again);
        let items = stanzas.iter().flat_map(|stanza| items(stanza));
        let bodies: Vec<_> = items.map(|item| item.payload).collect();
        assert_eq!(bodies, [b"a", b"b"]);
        stage.bed.check();
    }
}

#[test]
fn a_lease_ends_and_says_so() {
    let mut stage = Stage::new(2);
    let who = juliet(&mut stage);
    let jid = stage.bed.client(who).jid.clone().expect("bound");
    // The bed's clock begins at 11:06:40.
    let form = form(&[("pubsub#expire", "2026-11-18T11:10:00Z")]);
    let action = format!("<subscribe node='a/b' jid='{jid}'/><options>{form}</options>");
    let answer = stage.bed.xmpp_pubsub(who, "set", &action);
    assert!(answer.contains("expiry='2026-11-18T11:10:00Z'"), "{answer}");
    stage.bed.run_for(Span::from_secs(201));
    let ended = stage.bed.xmpp_got(who);
    assert!(
        ended.len() == 1 && ended[0].contains("subscription='none'"),
        "{ended:?}"
    );
    let publisher = stage.connect(Protocol::Mqtt5, "publisher");
    stage.publish(publisher, Place::Address("a/b"), "1");
    assert_eq!(stage.bed.xmpp_got(who), [""; 0]);
    let past = action.replace("2026-", "2025-");
    let answer = stage.bed.xmpp_pubsub(who, "set", &past);
    assert!(answer.contains("<invalid-options"), "{answer}");
}

/// Of two subscriptions to a node, which differ in depth, one is ended or changed by its `subid` alone.
#[test]
fn a_subscription_is_named_by_its_subid() {
    let mut stage = Stage::new(2);
    let who = juliet(&mut stage);
    let jid = stage.bed.client(who).jid.clone().expect("bound");
    let publisher = stage.connect(Protocol::Mqtt5, "publisher");
    for depth in ["0", "all"] {
        let form = form(&[("pubsub#subscription_depth", depth)]);
        let action = format!("<subscribe node='a/b' jid='{jid}'/><options>{form}</options>");
        let answer = stage.bed.xmpp_pubsub(who, "set", &action);
        assert!(is_done(&answer), "{answer}");
    }
    let mut ask = |name: &str, kind: &str, jid: &str, subid: &str| {
        let action = format!("<{name} node='a/b'{jid}{subid}/>");
        stage.bed.xmpp_pubsub(who, kind, &action)
    };
    let own = format!(" jid='{jid}'");
    for (name, kind) in [("unsubscribe", "set"), ("options", "get")] {
        for (jid, subid, condition) in [
            (
                &*own,
                "",
                "<bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/><subid-required",
            ),
            (&*own, " subid='99'", "<invalid-subid"),
            ("", "", "<jid-required"),
            (" jid='romeo@localhost'", "", "<forbidden"),
        ] {
            let answer = ask(name, kind, jid, subid);
            assert!(answer.contains(condition), "{name} {jid} {subid}: {answer}");
        }
    }
    let answer = ask("unsubscribe", "set", &own, " subid='2'");
    assert!(is_done(&answer), "{answer}");
    // The other one is left, and is the only one that can be meant.
    let answer = ask("options", "get", &own, "");
    assert!(is_done(&answer), "{answer}");
    for (address, arrived) in [("a/b/c", 0), ("a/b", 1)] {
        stage.publish(publisher, Place::Address(address), "1");
        assert_eq!(stage.bed.xmpp_got(who).len(), arrived, "{address}");
    }
    let mut ask = |name: &str, kind: &str, subid: &str| {
        let action = format!("<{name} node='a/b' jid='{jid}'{subid}/>");
        stage.bed.xmpp_pubsub(who, kind, &action)
    };
    assert!(is_done(&ask("unsubscribe", "set", "")));
    let answer = ask("unsubscribe", "set", " subid='1'");
    assert!(answer.contains("<not-subscribed"), "{answer}");
}

/// Actions that are not there are refused by the feature that would be them, and those of the wrong kind as malformed.
#[test]
fn what_is_not_there_is_named() {
    let mut stage = Stage::new(1);
    let who = juliet(&mut stage);
    for (kind, action, condition) in [
        (
            "set",
            "<collection node='a'/>",
            "<unsupported feature='collections' xmlns='http://jabber.org/protocol/pubsub#errors'/>",
        ),
        ("set", "<items node='a'/>", "<bad-request"),
        ("get", "<publish node='a'/>", "<bad-request"),
        ("set", "<dance/>", "<feature-not-implemented"),
    ] {
        let answer = stage.bed.xmpp_pubsub(who, kind, action);
        assert!(answer.contains(condition), "{action}: {answer}");
    }
    let answer = owner(&mut stage, who, "get", "<purge node='a'/>");
    assert!(answer.contains("<bad-request"), "{answer}");
}
