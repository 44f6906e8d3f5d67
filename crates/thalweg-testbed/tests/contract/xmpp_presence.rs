//! Presence between XMPP and all other protocols.

use crate::peer::{Protocol, Stage};
use std::sync::Arc;
use thalweg_fronts::xmpp::XmppSettings;
use thalweg_kernel::Limits;
use thalweg_kernel::access::{Otherwise, Permission, Rule, Rules};
use thalweg_testbed::xmpp::Xmpp;
use thalweg_testbed::{Settings, Who};
use thalweg_xmpp::Credentials;

fn stage() -> Stage {
    let mut stage = Stage::with(Settings {
        shards: 2,
        limits: Limits {
            presence: true,
            presence_offline: thalweg_model::Span::from_secs(60),
            ..Limits::default()
        },
        ..Settings::default()
    });
    stage.bed.settings.xmpp = Arc::new(XmppSettings {
        roster: ["pump-7".into()].into(),
        ..XmppSettings::clone(&stage.bed.settings.xmpp)
    });
    stage
}

fn juliet(stage: &mut Stage) -> Who<Xmpp> {
    let password = Credentials::Password {
        user: "juliet".into(),
        password: "x".into(),
    };
    stage.bed.open_xmpp(0, password, None)
}

fn said(stage: &mut Stage, who: Who<Xmpp>, attributes: &[(&str, &str)]) -> Vec<String> {
    stage
        .bed
        .says(who, |client, up| client.presence(attributes, up));
    let mut got = stage.bed.xmpp_got(who);
    // What it has said itself.
    got.retain(|stanza| !stanza.starts_with("<presence from='juliet@"));
    got
}

#[test]
fn a_contact_comes_and_goes_with_its_name_whatever_it_speaks() {
    let mut stage = stage();
    let pump = stage.connect_as(Protocol::Mqtt5, "pump", "pump-7", 10);
    let juliet = juliet(&mut stage);
    let roster = stage.bed.xmpp_ask(
        juliet,
        "get",
        "localhost",
        "<query xmlns='jabber:iq:roster'/>",
    );
    assert!(
        roster.contains("<item jid='pump-7@localhost' name='pump-7' subscription='to'/>"),
        "{roster}"
    );
    let told = said(&mut stage, juliet, &[]);
    let from = "<presence from='pump-7@localhost/thalweg' to='juliet@localhost/";
    assert!(
        told.len() == 1 && told[0].starts_with(from) && told[0].contains("<status>MQTT 5.0<"),
        "{told:?}"
    );
    stage.lose(pump);
    let told = stage.bed.xmpp_got(juliet);
    assert!(
        told.len() == 1 && told[0].contains("type='unavailable'"),
        "{told:?}"
    );
    stage.connect_as(Protocol::Mqtt5, "pump", "pump-7", 10);
    let told = stage.bed.xmpp_got(juliet);
    assert!(told.len() == 1 && told[0].contains("<status>"), "{told:?}");
    said(&mut stage, juliet, &[("type", "unavailable")]);
    stage.connect_as(Protocol::Mqtt3, "pump", "pump-7", 10);
    assert_eq!(stage.bed.xmpp_got(juliet), [""; 0]);
}

#[test]
fn a_name_is_a_contact_once_it_is_subscribed_to() {
    let mut stage = stage();
    let juliet = juliet(&mut stage);
    let asked = [("type", "subscribe"), ("to", "meter@localhost")];
    let told = said(&mut stage, juliet, &asked);
    assert!(
        told.iter().any(|it| it.contains("subscription='to'"))
            && told.iter().any(|it| it.contains("type='subscribed'")),
        "{told:?}"
    );
    let meter = stage.connect_as(Protocol::Mqtt5, "meter", "meter", 10);
    assert_eq!(stage.bed.xmpp_got(juliet).len(), 1);
    let asked = [("type", "unsubscribe"), ("to", "meter@localhost")];
    let told = said(&mut stage, juliet, &asked);
    assert!(
        told.iter().any(|it| it.contains("subscription='remove'")),
        "{told:?}"
    );
    stage.lose(meter);
    assert_eq!(stage.bed.xmpp_got(juliet), [""; 0]);

    // As for every other subscriber, what the rules deny is denied.
    let deny = Rule::deny(Permission::Subscribe, "$presence/meter");
    let rules = Rules::new(vec![deny], Otherwise::Allow);
    stage.set_rights("juliet", rules.expect("a filter"));
    let asked = [("type", "subscribe"), ("to", "meter@localhost")];
    let told = said(&mut stage, juliet, &asked);
    assert!(
        told.iter().any(|it| it.contains("type='unsubscribed'")),
        "{told:?}"
    );
}

#[test]
fn a_roster_changes_as_its_client_says() {
    let mut stage = stage();
    let juliet = juliet(&mut stage);
    let change = |stage: &mut Stage, item: &str| {
        let content = format!("<query xmlns='jabber:iq:roster'>{item}</query>");
        let answer = stage.bed.xmpp_ask(juliet, "set", "localhost", &content);
        (answer, stage.bed.xmpp_got(juliet))
    };
    // As clients do it that add a contact: into the roster first, then a subscription.
    let meter = "<item jid='meter@localhost' name='The meter'><group>Sensors</group></item>";
    let (answer, pushed) = change(&mut stage, meter);
    assert!(answer.contains("type='result'"), "{answer}");
    let none = "<item jid='meter@localhost' name='meter' subscription='none'/>";
    assert!(pushed.len() == 1 && pushed[0].contains(none), "{pushed:?}");
    let asked = [("type", "subscribe"), ("to", "meter@localhost")];
    said(&mut stage, juliet, &asked);
    let (_, pushed) = change(&mut stage, meter);
    assert!(pushed[0].contains("subscription='to'"), "{pushed:?}");
    let remove = |name: &str| format!("<item jid='{name}@localhost' subscription='remove'/>");
    let (answer, pushed) = change(&mut stage, &remove("meter"));
    assert!(answer.contains("type='result'"), "{answer}");
    assert!(pushed[0].contains("subscription='remove'"), "{pushed:?}");
    stage.connect_as(Protocol::Mqtt5, "meter", "meter", 10);
    assert_eq!(stage.bed.xmpp_got(juliet), [""; 0]);
    for (item, condition) in [
        (&*remove("meter"), "<item-not-found"),
        (&*remove("pump-7"), "<not-allowed"),
        ("<item jid='meter@elsewhere'/>", "<not-acceptable"),
        ("<item/>", "<bad-request"),
        ("", "<bad-request"),
    ] {
        let (answer, pushed) = change(&mut stage, item);
        assert!(answer.contains(condition) && pushed.is_empty(), "{answer}");
    }
}

#[test]
fn a_user_of_xmpp_is_online_once_for_each_stream() {
    let mut stage = stage();
    let watcher = stage.connect(Protocol::Mqtt5, "watcher");
    stage.ask(watcher, crate::peer::Place::Address("$presence/juliet"));
    let juliet = juliet(&mut stage);
    let bodies = stage.bodies(watcher);
    let is_online = |body: &String| body.contains("\"online\",\"protocol\":\"XMPP 1.0\"");
    // When it is bound, and again when it may be resumed; never offline between.
    assert!(
        !bodies.is_empty() && bodies.iter().all(is_online),
        "{bodies:?}"
    );
    stage.bed.says(juliet, |client, up| client.close(up));
    let bodies = stage.bodies(watcher);
    assert!(
        bodies.len() == 1 && bodies[0].contains("\"offline\""),
        "{bodies:?}"
    );
}
