//! Operations of XMPP clients: log in, publish, subscribe, ask.

use std::sync::Arc;
use thalweg_fronts::xmpp::XmppSettings;
use thalweg_fronts::{LoginAnswer, LoginAsk, LoginRefusal};
use thalweg_kernel::Limits;
use thalweg_kernel::access::{Access, Otherwise, Permissions, Rule, Rules};
use thalweg_mqtt::{ConnectOut, PublishOut, QoS, SubscribeOptions};
use thalweg_testbed::mqtt::Mqtt;
use thalweg_testbed::xmpp::{SERVICE, Xmpp};
use thalweg_testbed::{Raw, Settings, Testbed, Who};
use thalweg_xmpp::{Credentials, PeerFault, StartTls};

const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const TEXT: &str = "<text xmlns='urn:thalweg:payload:0'>";

fn bed() -> Testbed {
    Testbed::new(Settings {
        xmpp: Arc::new(settings()),
        ..Settings::default()
    })
}

fn settings() -> XmppSettings {
    XmppSettings {
        secured: true,
        scram: false,
        ..XmppSettings::default()
    }
}

fn mqtt(bed: &mut Testbed, client_id: &str) -> Who<Mqtt> {
    let connect = ConnectOut {
        client_id,
        ..ConnectOut::default()
    };
    let who = bed.open_mqtt(&connect, Some(Access::ALL));
    bed.rest();
    who
}

fn publish(bed: &mut Testbed, who: Who<Mqtt>, topic: &str, payload: &[u8], retain: bool) {
    let publish = PublishOut {
        topic,
        payload,
        retain,
        qos: QoS::AtMostOnce,
        ..PublishOut::default()
    };
    bed.says(who, |client, up| client.publish(&publish, up));
}

fn subscribe(bed: &mut Testbed, who: Who<Mqtt>, filter: &str) {
    let options = SubscribeOptions {
        qos: QoS::AtMostOnce,
        ..SubscribeOptions::default()
    };
    bed.says(who, |client, up| {
        client.subscribe(filter, options, up);
    });
}

/// Topics and payloads that arrived.
fn arrived(bed: &mut Testbed, who: Who<Mqtt>) -> Vec<(String, Vec<u8>)> {
    let got = bed.client(who).got.drain(..);
    got.map(|message| (message.topic.clone(), message.payload.clone()))
        .collect()
}

fn event(to: &str, node: &str, id: &str, payload: &str) -> String {
    format!(
        "<message from='{SERVICE}' to='{to}'><event xmlns='{PUBSUB}#event'><items node='{node}'><item id='{id}'>{payload}</item></items></event></message>"
    )
}

fn jid(bed: &mut Testbed, who: Who<Xmpp>) -> String {
    bed.client(who).jid.clone().expect("bound")
}

#[test]
fn a_message_of_mqtt_is_an_item_and_an_item_is_a_message() {
    let mut bed = bed();
    let (client, sensor) = (bed.xmpp(), mqtt(&mut bed, "sensor"));
    let me = jid(&mut bed, client);
    let answer = bed.xmpp_subscribe(client, "plant/line-7");
    assert!(
        answer.contains("subscription='subscribed'") && answer.contains("type='result'"),
        "{answer}"
    );
    publish(&mut bed, sensor, "plant/line-7", b"21.5", false);
    publish(&mut bed, sensor, "plant/line-8", b"not this", false);
    let expected = event(
        &me,
        "plant/line-7",
        "current",
        &format!("{TEXT}21.5</text>"),
    );
    assert_eq!(bed.xmpp_got(client), [expected]);

    subscribe(&mut bed, sensor, "plant/#");
    let answer = bed.xmpp_publish(
        client,
        "plant/line-9",
        "i1",
        "<t xmlns='urn:t' unit='C'>4</t>",
    );
    assert!(answer.contains("<item id='i1'/>"), "{answer}");
    bed.xmpp_publish(
        client,
        "plant/line-9",
        "i2",
        &format!("{TEXT}a &lt; b</text>"),
    );
    let messages = arrived(&mut bed, sensor);
    let expected: [(&str, &[u8]); 2] = [
        ("plant/line-9", b"<t xmlns='urn:t' unit='C'>4</t>"),
        ("plant/line-9", b"a < b"),
    ];
    assert_eq!(
        messages,
        expected.map(|(topic, payload)| (topic.to_owned(), payload.to_vec()))
    );
}

#[test]
fn every_octet_comes_back() {
    let mut bed = bed();
    let (client, other, sensor) = (bed.xmpp(), bed.xmpp(), mqtt(&mut bed, "sensor"));
    let octets: Vec<u8> = (0..=255).collect();
    bed.xmpp_subscribe(client, "a");
    bed.xmpp_subscribe(other, "b");
    subscribe(&mut bed, sensor, "b");
    publish(&mut bed, sensor, "a", &octets, false);
    let event = bed.xmpp_got(client).pop().expect("an event");
    let from = event.find("<data").expect(&event);
    let until = event.find("</item>").expect(&event);
    bed.xmpp_publish(client, "b", "x", &event[from..until]);
    assert_eq!(arrived(&mut bed, sensor), [("b".to_owned(), octets)]);
    let copy = bed.xmpp_got(other).pop().expect("an event");
    assert!(
        copy.contains(&event[from..until]) && copy.contains("<item id='x'>"),
        "{copy}"
    );
}

#[test]
fn the_last_value_is_the_item_of_its_node() {
    let mut bed = bed();
    let (client, sensor) = (bed.xmpp(), mqtt(&mut bed, "sensor"));
    let me = jid(&mut bed, client);
    publish(&mut bed, sensor, "kept", b"{\"t\":1}", true);
    let json = "<json xmlns='urn:xmpp:json:0'>{&quot;t&quot;:1}</json>";
    let answer = bed.xmpp_subscribe(client, "kept");
    assert!(answer.contains("subscribed"), "{answer}");
    // It says when it was published.
    let delay = "<delay xmlns='urn:xmpp:delay' from='pubsub.localhost' stamp='2026-11-18T11:06:40Z'/></message>";
    let last = event(&me, "kept", "current", json).replace("</message>", delay);
    assert_eq!(bed.xmpp_got(client), [last]);
    let answer = bed.xmpp_pubsub(client, "get", "<items node='kept'/>");
    assert!(
        answer.contains(&format!(
            "<items node='kept'><item id='current'>{json}</item></items>"
        )),
        "{answer}"
    );
    let answer = bed.xmpp_pubsub(
        client,
        "get",
        "<items node='kept'><item id='other'/></items>",
    );
    assert!(answer.contains("<items node='kept'></items>"), "{answer}");
    let answer = bed.xmpp_ask(
        client,
        "get",
        SERVICE,
        "<query xmlns='http://jabber.org/protocol/disco#items'/>",
    );
    assert!(answer.contains("node='kept'"), "{answer}");

    // An item that XMPP publishes is retained, and removed when it is retracted.
    bed.xmpp_publish(client, "mine", "i1", &format!("{TEXT}1</text>"));
    subscribe(&mut bed, sensor, "mine");
    assert_eq!(
        arrived(&mut bed, sensor),
        [("mine".to_owned(), b"1".to_vec())]
    );
    let answer = bed.xmpp_pubsub(
        client,
        "set",
        "<retract node='mine'><item id='i1'/></retract>",
    );
    assert!(answer.contains("type='result'"), "{answer}");
    let answer = bed.xmpp_pubsub(client, "get", "<items node='mine'/>");
    assert!(answer.contains("<items node='mine'></items>"), "{answer}");
}

#[test]
fn a_depth_subscribes_to_what_is_below_a_node() {
    let mut bed = bed();
    let (one, all, sensor) = (bed.xmpp(), bed.xmpp(), mqtt(&mut bed, "sensor"));
    for (who, depth) in [(one, "1"), (all, "all")] {
        let jid = jid(&mut bed, who);
        let action = format!(
            "<subscribe node='plant' jid='{jid}'/><options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#subscription_depth'><value>{depth}</value></field></x></options>"
        );
        let answer = bed.xmpp_pubsub(who, "set", &action);
        assert!(answer.contains("subscribed"), "{answer}");
    }
    publish(&mut bed, sensor, "plant/a", b"1", false);
    publish(&mut bed, sensor, "plant/a/b", b"2", false);
    assert_eq!(bed.xmpp_got(one).len(), 1);
    let events = bed.xmpp_got(all);
    assert!(
        events.len() == 2 && events[1].contains("node='plant/a/b'"),
        "{events:?}"
    );
    // Wildcards are letters like any other.
    bed.xmpp_subscribe(one, "+");
    publish(&mut bed, sensor, "x", b"3", false);
    assert_eq!(bed.xmpp_got(one), [""; 0]);
}

#[test]
fn a_subscription_ends_when_it_is_given_up() {
    let mut bed = bed();
    let (client, sensor) = (bed.xmpp(), mqtt(&mut bed, "sensor"));
    let me = jid(&mut bed, client);
    bed.xmpp_subscribe(client, "a");
    let answer = bed.xmpp_pubsub(client, "get", "<subscriptions/>");
    assert!(
        answer.contains(&format!("<subscription node='a' jid='{me}'")),
        "{answer}"
    );
    let unsubscribe = format!("<unsubscribe node='a' jid='{me}'/>");
    let answer = bed.xmpp_pubsub(client, "set", &unsubscribe);
    assert!(answer.contains("type='result'"), "{answer}");
    let answer = bed.xmpp_pubsub(client, "set", &unsubscribe);
    assert!(
        answer.contains("<not-subscribed xmlns='http://jabber.org/protocol/pubsub#errors'/>"),
        "{answer}"
    );
    publish(&mut bed, sensor, "a", b"1", false);
    assert_eq!(bed.xmpp_got(client), [""; 0]);
    let answer = bed.xmpp_pubsub(client, "set", "<subscribe node='a' jid='romeo@localhost'/>");
    assert!(answer.contains("<invalid-jid"), "{answer}");
}

#[test]
fn what_the_rules_refuse_is_refused_by_name() {
    let mut bed = bed();
    bed.answers_logins = true;
    let rules = vec![Rule::allow(Permissions::ALL, "open/#")];
    bed.set_rights("juliet", Rules::new(rules, Otherwise::Deny).expect("rules"));
    let password = Credentials::Password {
        user: "juliet".into(),
        password: "x".into(),
    };
    let client = bed.open_xmpp(0, password, None);
    assert!(jid(&mut bed, client).starts_with("juliet@localhost/test-"));
    for (answer, is_granted) in [
        (bed.xmpp_publish(client, "open/a", "i", ""), true),
        (bed.xmpp_publish(client, "shut/a", "i", ""), false),
        (bed.xmpp_subscribe(client, "open/a"), true),
        (bed.xmpp_subscribe(client, "shut/a"), false),
        (
            bed.xmpp_pubsub(client, "get", "<items node='open/a'/>"),
            true,
        ),
        (
            bed.xmpp_pubsub(client, "get", "<items node='shut/a'/>"),
            false,
        ),
        (
            bed.xmpp_pubsub(
                client,
                "set",
                "<retract node='shut/a'><item id='i'/></retract>",
            ),
            false,
        ),
    ] {
        let forbidden =
            "<error type='auth'><forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
        assert_eq!(!is_granted, answer.contains(forbidden), "{answer}");
    }
}

#[test]
fn a_log_in_is_checked_by_whoever_checks_all_others() {
    let mut bed = bed();
    let password = || Credentials::Password {
        user: "juliet".into(),
        password: "secret".into(),
    };
    let allowed = || LoginAnswer::Allowed {
        user: Some("juliet".into()),
        access: Access::ALL,
        expires: None,
        data: None,
    };
    // SCRAM comes first where it is offered.
    bed.settings.xmpp = Arc::new(XmppSettings {
        scram: true,
        ..settings()
    });
    let client = bed.open_xmpp(0, password(), None);
    let asked = bed.asked.first().expect("a question");
    assert!(
        matches!(&asked.ask, LoginAsk::Exchange { method, data, first: true, .. }
        if &**method == "SCRAM-SHA-256" && data.starts_with(b"n,,n=juliet,r="))
    );
    bed.answer_login(LoginAnswer::Refused(LoginRefusal::BadUserOrPassword));
    bed.rest();
    assert_eq!(bed.client(client).fault, Some(PeerFault::LOGIN_REFUSED));

    bed.settings.xmpp = Arc::new(XmppSettings {
        scram: false,
        ..settings()
    });
    let client = bed.open_xmpp(0, password(), None);
    let asked = bed.asked.first().expect("a question");
    assert!(
        matches!(&asked.ask, LoginAsk::Password { user: Some(user), password: Some(password), .. }
        if &**user == "juliet" && **password == *b"secret")
    );
    bed.answer_login(allowed());
    bed.rest();
    assert!(jid(&mut bed, client).starts_with("juliet@localhost/test-"));

    // Nothing is offered that would show the password.
    bed.settings.xmpp = Arc::new(XmppSettings {
        scram: false,
        secured: false,
        ..settings()
    });
    let client = bed.open_xmpp(0, password(), None);
    assert_eq!(bed.client(client).fault, Some(PeerFault::NO_MECHANISM));
}

#[test]
fn strangers_are_let_in_where_there_are_rules_for_them() {
    let mut bed = bed();
    bed.answers_logins = true;
    let rules = vec![Rule::allow(Permissions::ALL, "open/#")];
    bed.set_rights("", Rules::new(rules, Otherwise::Deny).expect("rules"));
    for anonymous in [true, false] {
        bed.settings.xmpp = Arc::new(XmppSettings {
            anonymous,
            ..settings()
        });
        let client = bed.open_xmpp(0, Credentials::Anonymous, None);
        let is_bound = bed.client(client).jid.is_some();
        assert_eq!(is_bound, anonymous, "{:?}", bed.client(client).fault);
        if anonymous {
            let answer = bed.xmpp_publish(client, "open/a", "i", "");
            assert!(answer.contains("type='result'"), "{answer}");
            let answer = bed.xmpp_publish(client, "shut/a", "i", "");
            assert!(answer.contains("<forbidden"), "{answer}");
        }
    }
}

#[test]
fn tls_begins_within_a_stream_and_what_came_before_it_is_forgotten() {
    let mut bed = bed();
    bed.answers_logins = true;
    let password = || Credentials::Password {
        user: "juliet".into(),
        password: "x".into(),
    };
    for starttls in [StartTls::Offered, StartTls::Required] {
        bed.settings.xmpp = Arc::new(XmppSettings {
            secured: false,
            starttls,
            ..settings()
        });
        // PLAIN, which is offered behind TLS alone.
        let client = bed.open_xmpp(0, password(), None);
        assert!(jid(&mut bed, client).starts_with("juliet@localhost/test-"));
        // A log-in that an attacker slips in between, in the same packet: it would be taken for the client's.
        let front = bed.xmpp_front(Some(Access::ALL));
        let raw = bed.open(0, front, Raw::default());
        let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'>=</auth>";
        let starttls = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
        bed.says(raw, |_, up| {
            up.extend_from_slice(format!("{HEADER}{starttls}{auth}").as_bytes())
        });
        let heard = String::from_utf8_lossy(&bed.client(raw).received).into_owned();
        assert!(bed.is_closed(raw), "{heard}");
        let refused = heard.contains("<policy-violation");
        assert!(
            refused && !heard.contains("<proceed") && !heard.contains("<success"),
            "{heard}"
        );
    }
    // Nothing goes before TLS where it is required.
    let front = bed.xmpp_front(Some(Access::ALL));
    let raw = bed.open(0, front, Raw::default());
    let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'>=</auth>";
    bed.says(raw, |_, up| {
        up.extend_from_slice(format!("{HEADER}{auth}").as_bytes())
    });
    let heard = String::from_utf8_lossy(&bed.client(raw).received).into_owned();
    assert!(
        heard.contains("<required/>") && heard.contains("<encryption-required/>"),
        "{heard}"
    );
}

#[test]
fn an_anonymous_client_need_not_say_anything() {
    let mut bed = bed();
    for message in ["/>", "></auth>", ">=</auth>", ">dHJhY2U=</auth>"] {
        let front = bed.xmpp_front(Some(Access::ALL));
        let raw = bed.open(0, front, Raw::default());
        let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'";
        bed.says(raw, |_, up| {
            up.extend_from_slice(format!("{HEADER}{auth}{message}").as_bytes())
        });
        let heard = String::from_utf8_lossy(&bed.client(raw).received).into_owned();
        assert!(
            heard.contains("<success") && !heard.contains("<challenge"),
            "{message}: {heard}"
        );
    }
}

#[test]
fn the_server_says_what_it_is() {
    let mut bed = bed();
    let client = bed.xmpp();
    for (to, content, expected) in [
        (
            "localhost",
            "<query xmlns='http://jabber.org/protocol/disco#items'/>",
            "jid='pubsub.localhost'",
        ),
        (
            SERVICE,
            "<query xmlns='http://jabber.org/protocol/disco#info'/>",
            "category='pubsub' type='service'",
        ),
        (
            "localhost",
            "<query xmlns='http://jabber.org/protocol/disco#info'/>",
            "category='server'",
        ),
        (
            "localhost",
            "<ping xmlns='urn:xmpp:ping'/>",
            "type='result'",
        ),
        (SERVICE, "<ping xmlns='urn:xmpp:ping'/>", "type='result'"),
        (
            "localhost",
            "<query xmlns='jabber:iq:version'/>",
            "<name>Thalweg</name>",
        ),
        (
            "localhost",
            "<query xmlns='jabber:iq:roster'/>",
            "<query xmlns='jabber:iq:roster'></query>",
        ),
        (
            "localhost",
            "<what xmlns='urn:what'/>",
            "<service-unavailable",
        ),
        (
            "romeo@localhost",
            "<query xmlns='jabber:iq:version'/>",
            "<service-unavailable",
        ),
    ] {
        let answer = bed.xmpp_ask(client, "get", to, content);
        assert!(
            answer.contains(expected) && answer.contains("id='q'"),
            "{answer}"
        );
    }
    let answer = bed.xmpp_pubsub(client, "set", "<create/>");
    assert!(answer.contains("<create node='instant/"), "{answer}");
    let answer = bed.xmpp_pubsub(client, "get", "<what/>");
    assert!(answer.contains("<feature-not-implemented"), "{answer}");
    bed.says(client, |client, up| {
        client.message("romeo@localhost", "<body>hello</body>", up)
    });
    let answer = bed.xmpp_got(client);
    assert!(
        answer.len() == 1 && answer[0].contains("type='error'"),
        "{answer:?}"
    );
}

#[test]
fn a_stream_ends_with_its_reason() {
    let mut bed = bed();
    let client = bed.xmpp();
    bed.says(client, |_, up| {
        up.extend_from_slice(b"<message><!-- no --></message>")
    });
    assert_eq!(bed.client(client).closed.as_deref(), Some("restricted-xml"));

    let client = bed.xmpp();
    bed.says(client, |client, up| client.close(up));
    assert_eq!(bed.client(client).closed.as_deref(), Some(""));
    assert!(bed.is_closed(client));
}

#[test]
fn a_subscription_that_is_refused_is_not_counted() {
    let mut bed = Testbed::new(Settings {
        xmpp: Arc::new(settings()),
        limits: Limits {
            subscriptions_max: 1,
            ..Limits::default()
        },
        ..Settings::default()
    });
    let who = bed.xmpp();
    let kept = |bed: &Testbed| bed.shards[0].links.kept_bytes();
    let answer = bed.xmpp_subscribe(who, "a");
    assert!(answer.contains("type='result'"), "{answer}");
    let before = kept(&bed);
    let answer = bed.xmpp_subscribe(who, "b");
    assert!(answer.contains("too-many-subscriptions"), "{answer}");
    assert_eq!(kept(&bed), before);
}

#[test]
fn a_stanza_that_is_incomplete_counts_as_buffered() {
    let mut bed = bed();
    let client = bed.xmpp();
    let buffered = |bed: &Testbed| bed.link(client).expect("it is open").buffered();
    let idle = buffered(&bed);
    let attributes: String = (0..64).map(|at| format!(" a{at}=''")).collect();
    let elements = format!("<a{attributes}/>").repeat(1000);
    bed.says(client, |_, up| {
        up.extend_from_slice(format!("<message>{elements}").as_bytes())
    });
    assert!(buffered(&bed) > idle + 1_000_000);
    bed.says(client, |_, up| up.extend_from_slice(b"</message>"));
    assert!(buffered(&bed) < idle + 10_000);
}
