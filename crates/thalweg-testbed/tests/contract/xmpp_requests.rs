//! Requests of XMPP's clients to clients of other protocols, and theirs to clients of XMPP.

use crate::peer::Stage;
use thalweg_amqp::methods::{basic, queue};
use thalweg_amqp::{BasicProperties, Method};
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
use thalweg_model::Span;
use thalweg_mqtt::{PublishOut, QoS, SubscribeOptions};
use thalweg_testbed::amqp::Hello;
use thalweg_testbed::mqtt::{Mqtt, Received};
use thalweg_testbed::xmpp::Xmpp;
use thalweg_testbed::{Settings, Who};
use thalweg_xmpp::Credentials;

const QUESTION: &str = "<text xmlns='urn:thalweg:payload:0'>on?</text>";
const PUMP: &str = "rpc.localhost/plant/pump";

fn stage(shards: u16) -> Stage {
    Stage::with(Settings {
        shards,
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

fn serve(stage: &mut Stage, filter: &str) -> Who<Mqtt> {
    let who = stage.bed.mqtt("server");
    let options = SubscribeOptions {
        qos: QoS::AtLeastOnce,
        ..SubscribeOptions::default()
    };
    stage.bed.mqtt_subscribe(who, filter, options);
    who
}

/// Answers as a server of MQTT 5 does.
fn reply(stage: &mut Stage, who: Who<Mqtt>, to: &Received, payload: &[u8]) {
    let answer = PublishOut {
        topic: to.response_topic.as_deref().expect("where to"),
        correlation_data: to.correlation.as_deref(),
        payload,
        qos: QoS::AtLeastOnce,
        ..PublishOut::default()
    };
    stage.bed.mqtt_publish(who, &answer);
}

fn ask(stage: &mut Stage, who: Who<Xmpp>, to: &str, id: &str, content: &str) {
    let bed = &mut stage.bed;
    bed.says(who, |client, up| client.request("get", to, id, content, up));
}

fn jid(stage: &mut Stage, who: Who<Xmpp>) -> String {
    stage.bed.client(who).jid.clone().expect("bound")
}

fn is_error(answers: &[String], id: &str, condition: &str) -> bool {
    let [answer] = answers else {
        return false;
    };
    answer.contains("type='error'")
        && answer.contains(&format!("id='{id}'"))
        && answer.contains(condition)
}

#[test]
fn a_server_of_mqtt_answers_a_client_of_xmpp() {
    for shards in [1, 3] {
        let mut stage = stage(shards);
        let juliet = connect(&mut stage, usize::from(shards) - 1, "juliet");
        let me = jid(&mut stage, juliet);
        ask(&mut stage, juliet, PUMP, "q0", QUESTION);
        let got = stage.bed.xmpp_got(juliet);
        assert!(is_error(&got, "q0", "<service-unavailable"), "{got:?}");
        let server = serve(&mut stage, "plant/#");
        for id in ["q1", "q2"] {
            ask(&mut stage, juliet, PUMP, id, QUESTION);
        }
        let mut got = stage.bed.mqtt_got(server);
        let lines: Vec<String> = got.iter().map(Received::line).collect();
        assert_eq!(lines, ["plant/pump : on?"; 2], "{shards}");
        assert_eq!(got[0].expiry_secs, Some(30));
        got.reverse();
        for (request, id, answer) in [(&got[0], "q2", "yes"), (&got[1], "q1", "")] {
            reply(&mut stage, server, request, answer.as_bytes());
            let head = format!("<iq type='result' id='{id}' to='{me}' from='{PUMP}'");
            let expected = match answer {
                "" => format!("{head}/>"),
                answer => {
                    format!("{head}><text xmlns='urn:thalweg:payload:0'>{answer}</text></iq>")
                }
            };
            assert_eq!(stage.bed.xmpp_got(juliet), [expected], "{shards}");
        }
        // JSON stays JSON, and an element what it was.
        ask(
            &mut stage,
            juliet,
            PUMP,
            "q3",
            "<set xmlns='urn:pump' to='9'/>",
        );
        let got = stage.bed.mqtt_got(server);
        assert_eq!(got[0].payload, b"<set xmlns='urn:pump' to='9'/>");
        reply(&mut stage, server, &got[0], b"{\"to\":9}");
        let answer = stage.bed.xmpp_got(juliet);
        let json = "<json xmlns='urn:xmpp:json:0'>{&quot;to&quot;:9}</json>";
        assert!(answer.len() == 1 && answer[0].contains(json), "{answer:?}");
        // Not answered in time; what comes then is a message from nowhere.
        ask(&mut stage, juliet, PUMP, "q4", QUESTION);
        stage.bed.run_for(Span::from_secs(31));
        let answer = stage.bed.xmpp_got(juliet);
        assert!(
            is_error(&answer, "q4", "<remote-server-timeout"),
            "{answer:?}"
        );
        stage.bed.check();
    }
}

#[test]
fn a_server_of_amqp_answers_a_client_of_xmpp() {
    let mut stage = stage(1);
    let hello = Hello {
        channel: 1,
        ..Hello::default()
    };
    let server = stage.bed.open_amqp(&hello, Some(Access::ALL));
    stage.bed.rest();
    let declare = queue::Declare {
        queue: "rpc",
        ..Default::default()
    };
    let consume = basic::Consume {
        queue: "rpc",
        no_ack: true,
        ..Default::default()
    };
    for method in [Method::QueueDeclare(declare), Method::BasicConsume(consume)] {
        stage.bed.amqp_call(server, &method);
    }
    let juliet = connect(&mut stage, 0, "juliet");
    ask(&mut stage, juliet, "rpc.localhost/$q/rpc", "q1", QUESTION);
    let got = stage.bed.client(server).got.pop_front().expect("a request");
    assert_eq!(got.text(), "on?");
    let asked = got.properties();
    let publish = basic::Publish {
        routing_key: asked.reply_to.expect("where to"),
        ..Default::default()
    };
    let properties = BasicProperties {
        correlation_id: asked.correlation_id,
        ..Default::default()
    };
    stage.bed.amqp_publish(server, &publish, &properties, b"16");
    let answer = stage.bed.xmpp_got(juliet);
    assert!(
        answer.len() == 1
            && answer[0].contains("type='result' id='q1'")
            && answer[0].contains(">16<"),
        "{answer:?}"
    );
}

/// A client of XMPP that is there answers requests to its user and to itself.
#[test]
fn a_client_of_xmpp_answers_one_of_mqtt() {
    for shards in [1, 3] {
        let mut stage = stage(shards);
        let pump = connect(&mut stage, usize::from(shards) - 1, "pump");
        stage.bed.says(pump, |client, up| client.presence(&[], up));
        let asker = serve(&mut stage, "answers/+");
        let me = jid(&mut stage, pump);
        for (to, correlation) in [
            ("$jid/pump@localhost".to_owned(), Some(&b"\x01\xff"[..])),
            (format!("$jid/{me}"), Some(b"")),
            (format!("$jid/{me}"), None),
        ] {
            let publish = PublishOut {
                topic: &to,
                payload: b"on?",
                qos: QoS::AtLeastOnce,
                response_topic: Some("answers/1"),
                correlation_data: correlation,
                ..PublishOut::default()
            };
            stage.bed.mqtt_publish(asker, &publish);
            let got = stage.bed.xmpp_got(pump);
            let head = format!("<iq from='rpc.localhost/answers/1' to='{me}' type='set' id='");
            assert!(
                got.len() == 1 && got[0].starts_with(&head) && got[0].contains(QUESTION),
                "{to}: {got:?}"
            );
            let (id, _) = got[0][head.len()..].split_once('\'').expect("an id");
            let from = "rpc.localhost/answers/1";
            stage.bed.says(pump, |client, up| {
                client.request(
                    "result",
                    from,
                    id,
                    "<json xmlns='urn:xmpp:json:0'>9</json>",
                    up,
                );
            });
            let got = stage.bed.mqtt_got(asker);
            assert_eq!(got.len(), 1, "{to}");
            assert_eq!(got[0].line(), "answers/1 : 9");
            assert_eq!(got[0].correlation.as_deref(), correlation);
            assert_eq!(stage.bed.xmpp_got(pump), [""; 0]);
        }
        stage.bed.check();
    }
}

/// Asking is publishing to the address and receiving at the own one; answering is publishing where the answer goes.
#[test]
fn requests_need_rights() {
    let own = "$jid/juliet@localhost/#";
    let all = [
        Permission::Publish,
        Permission::Subscribe,
        Permission::Receive,
    ];
    for (asks, receives, condition) in [
        (true, true, None),
        (false, true, Some("<forbidden")),
        (true, false, Some("<forbidden")),
    ] {
        let mut stage = stage(1);
        let mut rules = Vec::new();
        if asks {
            rules.push(Rule::allow(Permission::Publish, "plant/pump"));
        }
        if receives {
            rules.extend(all.map(|right| Rule::allow(right, own)));
        }
        stage.set_rights("juliet", Rules::new(rules, Otherwise::Deny).expect("rules"));
        let server = serve(&mut stage, "plant/pump");
        let juliet = connect(&mut stage, 0, "juliet");
        ask(&mut stage, juliet, PUMP, "q1", QUESTION);
        let got = stage.bed.mqtt_got(server);
        let answers = stage.bed.xmpp_got(juliet);
        match condition {
            None => assert_eq!((got.len(), answers.len()), (1, 0)),
            Some(condition) => {
                assert!(
                    got.is_empty() && is_error(&answers, "q1", condition),
                    "{answers:?}"
                );
            }
        }
        // An answer to no question is a publish.
        stage.bed.says(juliet, |client, up| {
            client.request("result", PUMP, "c-", QUESTION, up);
        });
        assert_eq!(stage.bed.mqtt_got(server).len(), usize::from(asks));
    }
}

/// A request is given up in its time on the connection that goes on with the stream.
#[test]
fn requests_outlive_their_connection() {
    let mut stage = stage(1);
    let server = serve(&mut stage, "plant/pump");
    let juliet = connect(&mut stage, 0, "juliet");
    for id in ["q1", "q2"] {
        ask(&mut stage, juliet, PUMP, id, QUESTION);
    }
    stage.bed.lose(juliet);
    let got = stage.bed.mqtt_got(server);
    let password = Credentials::Password {
        user: "juliet".into(),
        password: "x".into(),
    };
    let again = stage.bed.xmpp_again(0, password, juliet);
    stage.bed.xmpp_got(again);
    reply(&mut stage, server, &got[0], b"1");
    let answers = stage.bed.xmpp_got(again);
    assert!(
        answers.len() == 1 && answers[0].contains("type='result' id='q1'"),
        "{answers:?}"
    );
    stage.bed.run_for(Span::from_secs(31));
    let answers = stage.bed.xmpp_got(again);
    assert!(
        is_error(&answers, "q2", "<remote-server-timeout"),
        "{answers:?}"
    );
}
