//! Sixteen questions and their answers.

use std::path::Path;

use super::super::{Advice, Outcome, Ranking, Source, Standing};
use super::{ask, expected, paper};

/// Measured with `thalweg bench run examples/scenarios/point.yaml …` on a machine with other work: README there.
fn own() -> Source {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../bench-results/2026-11-22-point"
    );
    Source::open(Path::new(folder)).expect("it is in the repository")
}

fn ranking(advice: &Advice) -> &Ranking {
    match &advice.outcome {
        Outcome::Ranked(ranking) => ranking,
        _ => panic!("it is no ranking"),
    }
}

fn names(advice: &Advice) -> Vec<String> {
    ranking(advice)
        .candidates
        .iter()
        .map(|it| it.choice.name())
        .collect()
}

fn places(advice: &Advice) -> Vec<String> {
    match &advice.outcome {
        Outcome::Stated(stated) => stated.places.iter().map(|names| names.join("=")).collect(),
        _ => panic!("it rests on numbers"),
    }
}

/// The first is better than all others, and not by chance.
fn is_clear(advice: &Advice) -> bool {
    ranking(advice)
        .candidates
        .iter()
        .skip(1)
        .all(|it| it.standing == Standing::Worse)
}

#[test]
fn g1_little_loss_latency_mqtt_qos_1() {
    let (advice, text) = ask(
        "--payload 60B --loss 0% --need at-least-once --objective latency",
        &[paper()],
    );
    assert_eq!(places(&advice), ["MQTT", "CoAP"]);
    assert!(
        text.contains("QoS 1") && text.contains("no confidence"),
        "{text}"
    );
    let (advice, text) = ask(
        "--payload 60B --loss 0% --need at-least-once --objective latency",
        &[paper(), own()],
    );
    let mqtt = ranking(&advice)
        .candidates
        .iter()
        .find(|it| it.choice.name().starts_with("MQTT"))
        .expect("it is there");
    // A millisecond on a machine with other work: the data do not contradict, and do not prove.
    assert!(
        mqtt.standing != Standing::Worse && text.contains("Study B says"),
        "{text}"
    );
}

#[test]
fn g2_small_messages_much_loss_bytes_coap() {
    let (advice, text) = ask(
        "--payload 60B --loss 25% --need at-least-once --objective bytes",
        &[paper(), expected()],
    );
    assert_eq!(names(&advice)[..2], ["CoAP CON (any)", "MQTT QoS 1 (any)"]);
    assert!(
        is_clear(&advice) && text.contains("542 B a message") && text.contains("computed"),
        "{text}"
    );
    assert!(text.contains("Study B says the same"), "{text}");
    // Measured, ten messages a second over one TCP connection acknowledge each other: the gap closes at 25 %.
    let (advice, text) = ask(
        "--payload 60B --loss 25% --need at-least-once --objective bytes",
        &[own()],
    );
    let coap = ranking(&advice)
        .candidates
        .iter()
        .find(|it| it.choice.name().starts_with("CoAP"))
        .expect("it is there");
    assert!(
        coap.standing != Standing::Worse && text.contains("Study B says"),
        "{text}"
    );
    let (advice, _) = ask(
        "--payload 60B --loss 10% --need at-least-once --objective bytes",
        &[own()],
    );
    assert!(names(&advice)[0].starts_with("CoAP CON") && is_clear(&advice));
}

#[test]
fn g3_large_messages_much_loss_bytes_mqtt() {
    let (advice, text) = ask(
        "--payload 4kB --loss 25% --need at-least-once --objective bytes",
        &[paper(), expected()],
    );
    assert_eq!(names(&advice)[..2], ["MQTT QoS 1 (any)", "CoAP CON (any)"]);
    assert!(
        is_clear(&advice) && text.contains("11600 B a message"),
        "{text}"
    );
    let (advice, _) = ask(
        "--payload 4kB --loss 25% --need at-least-once --objective bytes",
        &[own()],
    );
    assert!(names(&advice)[0].starts_with("MQTT QoS 1") && is_clear(&advice));
}

/// By the study CoAP, by arithmetic MQTT on a present kernel: a user with numbers of his own gets both.
#[test]
fn g4_much_loss_latency_is_coap_by_the_study_and_the_difference_is_noted() {
    let flags = "--payload 60B --loss 25% --need at-least-once --objective latency";
    let (advice, _) = ask(flags, &[paper()]);
    assert_eq!(places(&advice), ["CoAP", "MQTT"]);
    let (advice, text) = ask(flags, &[expected()]);
    assert_eq!(names(&advice)[0], "MQTT QoS 1 (any)");
    assert!(text.contains("does not tell these apart"), "{text}");
    let slow = ranking(&advice)
        .candidates
        .iter()
        .find(|it| it.choice.name() == "CoAP CON (any)")
        .expect("it is there");
    assert_eq!(
        slow.standing,
        Standing::Worse,
        "with the timers of RFC 7252"
    );
    // Measured with CoAP's timers adapted: as the study says.
    let (advice, text) = ask(flags, &[own()]);
    assert!(
        names(&advice)[0].starts_with("CoAP CON") && text.contains("Study B says"),
        "{text}"
    );
}

#[test]
fn g5_small_messages_at_a_high_rate_built_by_oneself_zmtp() {
    let (advice, _) = ask(
        "--payload 36B --custom-ok --objective throughput",
        &[paper()],
    );
    let names = names(&advice);
    assert!(
        names[0].starts_with("ZMTP")
            && names[1].starts_with("MQTT")
            && names[2].starts_with("AMQP"),
        "{names:?}"
    );
    assert!(
        names[3].starts_with("XMPP") && is_clear(&advice),
        "{names:?}"
    );
}

#[test]
fn g6_the_same_off_the_shelf_mqtt() {
    let (advice, text) = ask("--payload 36B --objective throughput", &[paper()]);
    assert!(names(&advice)[0].starts_with("MQTT QoS 0") && is_clear(&advice));
    assert!(
        text.contains("ZMTP: it is a library and no broker"),
        "{text}"
    );
}

#[test]
fn g7_images_off_the_shelf_amqp_and_mqtt_tie() {
    let (advice, text) = ask("--payload 60kB --objective throughput", &[paper()]);
    let tied: Vec<(&str, Standing)> = ranking(&advice)
        .candidates
        .iter()
        .map(|it| (it.choice.system.as_str(), it.standing))
        .collect();
    assert_eq!(
        tied,
        [
            ("rabbitmq", Standing::Best),
            ("mosquitto", Standing::NotToldApart),
            ("ejabberd", Standing::Worse)
        ]
    );
    assert!(text.contains("A tie: "), "{text}");
}

/// Below some 200 bytes the study's own numbers put Turbo before Multicast; the answer says where that turns.
#[test]
fn g8_small_messages_to_seven_throughput_multicast_then_turbo() {
    let (advice, text) = ask(
        "--payload 512B --fanout 7 --objective throughput",
        &[paper()],
    );
    assert_eq!(
        names(&advice)[..2],
        [
            "DDS reliable, multicast (rti-connext)",
            "DDS reliable, turbo (rti-connext)"
        ]
    );
    assert!(is_clear(&advice));
    let turn = ranking(&advice).turn.as_ref().expect("the order turns");
    assert!(
        turn.is_below && turn.then.name().contains("turbo") && (128.0..256.0).contains(&turn.at),
        "{turn:?}"
    );
    assert!(text.contains("Nearest turn: Below about"), "{text}");
}

#[test]
fn g9_small_flood_from_one_to_one_turbo() {
    let (advice, _) = ask(
        "--payload 64B --pairs 1 --fanout 1 --objective throughput",
        &[paper()],
    );
    assert_eq!(names(&advice)[0], "DDS reliable, turbo (rti-connext)");
    assert!(is_clear(&advice));
}

#[test]
fn g10_a_bursty_neighbour_a_peer_and_not_mqtt() {
    let (advice, _) = ask(
        "--payload 64B --bursty-neighbour --objective latency",
        &[paper()],
    );
    let names = names(&advice);
    assert!(
        names[0].starts_with("DDS reliable") && names[1].starts_with("MQTT"),
        "{names:?}"
    );
    assert!(is_clear(&advice));
    let (advice, _) = ask(
        "--payload 64B --bursty-neighbour --custom-ok --no-broker --objective latency",
        &[paper()],
    );
    assert!(
        advice
            .left_out
            .iter()
            .any(|(name, why)| name.starts_with("MQTT") && why[0].contains("it needs a broker"))
    );
}

#[test]
fn g11_a_thousand_characters_by_limiting_resource() {
    let of = |objective: &str| {
        places(
            &ask(
                &format!("--payload 1000B --rate 4/s --objective {objective}"),
                &[paper()],
            )
            .0,
        )
    };
    assert_eq!(of("cpu")[0], "MQTT");
    assert_eq!(of("memory"), ["AMQP=MQTT", "STOMP"]);
    assert_eq!(of("energy"), ["MQTT", "STOMP", "AMQP"]);
    assert_eq!(of("latency")[0], "STOMP");
    assert_eq!(of("balanced")[0], "MQTT");
}

#[test]
fn g12_small_messages_processor_stomp() {
    let (advice, text) = ask("--payload 250B --rate 4/s --objective cpu", &[paper()]);
    assert_eq!(places(&advice)[0], "STOMP");
    assert!(
        text.contains("elsewhere: from 350 characters on MQTT"),
        "{text}"
    );
    // The study says nothing between 300 and 350 characters.
    let (advice, _) = ask("--payload 320B --rate 4/s --objective cpu", &[paper()]);
    assert!(matches!(advice.outcome, Outcome::Refused(_)));
}

#[test]
fn g13_uneven_members_score_and_even_ones_round_robin_as_well() {
    let (advice, text) = ask("--members 25ms,25ms,50ms --objective latency", &[paper()]);
    assert!(names(&advice)[0].starts_with("`score`") && is_clear(&advice));
    assert!(text.contains("strategy = \"score\""), "{text}");
    let (advice, _) = ask("--members 25ms,25ms,25ms --objective latency", &[paper()]);
    let tied: Vec<&str> = ranking(&advice)
        .candidates
        .iter()
        .filter(|it| it.standing != Standing::Worse)
        .filter_map(|it| it.choice.strategy())
        .collect();
    assert!(
        tied.contains(&"score") && tied.contains(&"round-robin") && tied.len() == 2,
        "{tied:?}"
    );
}

#[test]
fn g14_filters_on_content_exclude_all_stock_protocols() {
    let (advice, text) = ask(
        "--payload 60B --need content-filter",
        &[paper(), expected()],
    );
    assert!(matches!(advice.outcome, Outcome::Nothing));
    assert_eq!(advice.left_out.len(), 8);
    assert!(
        text.contains("predicate subscription") && text.contains("not in this version"),
        "{text}"
    );
}

#[test]
fn g15_requests_to_one_client_exclude_plain_mqtt_and_note_the_emulation() {
    let (advice, text) = ask(
        "--payload 60B --loss 25% --need p2p,at-least-once --objective bytes",
        &[expected()],
    );
    assert!(
        advice
            .left_out
            .iter()
            .any(|(name, why)| name == "MQTT 3.1.1" && why[0].starts_with("p2p:"))
    );
    let mqtt5 = advice
        .conditions
        .iter()
        .find(|(name, _)| name == "MQTT 5")
        .expect("it is not left out");
    assert!(
        mqtt5
            .1
            .iter()
            .any(|it| it.contains("emulated: response topic"))
    );
    assert!(names(&advice)[0].starts_with("CoAP"), "{text}");
}

#[test]
fn g16_outside_of_what_was_measured_it_refuses_and_says_what_would_measure_it() {
    let flags = "--payload 64kB --loss 40% --rate 1/s --pairs 10 --rtt 20ms --need at-least-once --objective bytes";
    let (advice, text) = ask(flags, &[paper(), expected()]);
    let Outcome::Refused(refusal) = &advice.outcome else {
        panic!("{text}")
    };
    assert_eq!(
        refusal.command,
        "thalweg bench run examples/scenarios/point.yaml --set workload.size=64kB --set load.rate=1/s --set load.flows=10 \
         --set topology.link.loss=40% --set topology.link.delay=10ms --out point"
    );
    let reasons = refusal.reasons.join("\n");
    assert!(
        reasons.contains("64 kB is asked for, known from 20 B to 16 kB"),
        "{reasons}"
    );
    assert!(reasons.contains("40 % loss is asked for"), "{reasons}");
    assert!(text.contains("No answer"), "{text}");
    // Who wants one all the same is told that it is none.
    let (advice, text) = ask(&format!("{flags} --extrapolate"), &[paper(), expected()]);
    assert!(
        ranking(&advice)
            .candidates
            .iter()
            .all(|it| it.figures.iter().all(|(_, figure)| figure.is_stretched))
    );
    assert!(
        text.contains("lie outside of what was measured") && text.contains("thalweg bench run"),
        "{text}"
    );
}
