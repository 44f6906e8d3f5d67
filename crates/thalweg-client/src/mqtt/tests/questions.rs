//! Requests and last values.

use super::*;

/// A question's number, and the payload of its answer, if there is one.
type Answer = (u64, Result<Option<Vec<u8>>, Refusal>);

fn answered(told: Vec<EventCall>) -> Vec<Answer> {
    let answer = |told| match told {
        EventCall::Answered(id, answer) => Some((
            id.0,
            answer.map(|got: Option<Got>| got.map(|got| got.payload)),
        )),
        _ => None,
    };
    told.into_iter().filter_map(answer).collect()
}

fn reply(pair: &mut Pair, question: &Published, payload: &[u8]) {
    let topic = question
        .response_topic
        .as_deref()
        .expect("it says where answers go");
    let message = PublishOut {
        topic,
        payload,
        correlation_data: question.correlation.as_deref(),
        ..PublishOut::default()
    };
    pair.server
        .side
        .publish(&message, &mut pair.server.out)
        .expect("it fits");
}

#[test]
fn answers_find_their_questions_in_any_order() {
    let mut pair = Pair::up(settings());
    for id in 1..=3 {
        let asked = pair.request(id, &message(id, "rpc/add", b"1+1"));
        assert_eq!(asked, Ok(()));
    }
    assert_eq!(pair.server.published, [], "the way back is first");
    pair.exchange();
    assert_eq!(pair.server.subscriptions[0].0, "responses/gateway");
    let questions = pair.server.published.clone();
    assert_eq!(questions.len(), 3);
    pair.lane.forget(RequestId(2));
    for question in questions.iter().rev() {
        reply(
            &mut pair,
            question,
            &question.correlation.clone().expect("it has one"),
        );
    }
    let stranger = Published {
        correlation: Some(b"?".to_vec()),
        ..questions[0].clone()
    };
    reply(&mut pair, &stranger, b"nobody asked");
    pair.exchange();
    let answers = answered(pair.witness.take());
    assert_eq!(
        answers.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        [3, 1]
    );
    assert_eq!(answers[0].1, Ok(questions[2].correlation.clone()));
    // The way stays open: the next question leaves at once.
    pair.must_request(4, &message(4, "rpc/add", b""));
    pair.exchange();
    assert_eq!(pair.server.published.len(), 4);
}

#[test]
fn the_server_says_where_answers_come() {
    let mut pair = Pair::new(settings());
    pair.server.connack.response_information = Some("tenant/replies/".to_owned());
    pair.server.connack.assigned = Some("auto/7".to_owned());
    pair.opening.client_id.clear();
    pair.reach();
    pair.must_request(1, &message(1, "rpc", b""));
    pair.exchange();
    assert_eq!(
        pair.server.published[0].response_topic.as_deref(),
        Some("tenant/replies/auto-7")
    );
}

#[test]
fn a_question_that_nobody_hears_is_answered_at_once() {
    let mut pair = Pair::up(settings());
    pair.server.reason = ReasonCode::NoMatchingSubscribers;
    pair.must_request(1, &message(1, "rpc", b""));
    pair.exchange();
    assert!(matches!(
        answered(pair.witness.take())[..],
        [(1, Err(Refusal::Denied(_)))]
    ));
}

#[test]
fn a_last_value_is_read_and_nothing_stays_behind() {
    for version in VERSIONS {
        let mut pair = Pair::of_version(version);
        pair.server
            .retained
            .insert("plant/1".to_owned(), b"21.5".to_vec());
        pair.read(1, "plant/1");
        pair.read(2, "plant/none");
        pair.exchange();
        assert_eq!(
            answered(pair.witness.take()),
            [(1, Ok(Some(b"21.5".to_vec())))]
        );
        let before = pair.now;
        pair.wait();
        assert_eq!(answered(pair.witness.take()), [(2, Ok(None))]);
        assert!(pair.now.since(before) < Span::from_secs(1));
        assert_eq!(pair.server.subscriptions, []);
    }
}

#[test]
fn reading_leaves_a_subscription_with_the_same_filter_as_it_is() {
    let mut pair = Pair::up(settings());
    pair.server
        .retained
        .insert("plant/1".to_owned(), b"21.5".to_vec());
    pair.must_subscribe(5, "plant/1", Reliability::ExactlyOnce);
    pair.exchange();
    let before = pair.server.subscriptions.clone();
    pair.witness.take();
    pair.read(1, "plant/1");
    pair.exchange();
    let told = pair.witness.take();
    assert!(
        !told
            .iter()
            .any(|told| matches!(told, EventCall::Received(_))),
        "{told:?}"
    );
    assert_eq!(answered(told), [(1, Ok(Some(b"21.5".to_vec())))]);
    assert_eq!(pair.server.subscriptions, before);
}

#[test]
fn messages_that_come_only_because_of_a_read_are_not_told() {
    let mut pair = Pair::up(settings());
    pair.read(1, "plant/1");
    pair.exchange();
    pair.server
        .deliver("plant/1", b"new", QoS::AtLeastOnce, false, &["plant/1"]);
    pair.exchange();
    assert_eq!(pair.witness.take(), []);
    assert_eq!(pair.server.acks, [("PUBACK", 1)]);
}
