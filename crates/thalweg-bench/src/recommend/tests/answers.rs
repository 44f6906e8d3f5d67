use std::io::Cursor;
use std::slice::from_ref;

use thalweg_client::Calibration;

use super::super::field::tests::trial;
use super::super::published::blank_cell;
use super::super::sources::SourceKind;
use super::super::{AXES, Choice, Level, Outcome, Point, Source, Standing, calibration, render};
use super::{ask, expected, paper, query};
use crate::cell::{Cell, Leg, Load, Measured, Protocol, Quantiles, Row, Workload};
use crate::results::tests::Folder;
use crate::results::{self, Writer};

/// Own measurements of MQTT and CoAP that cross at some 600 bytes, three repeats each.
fn own() -> Source {
    let mut trials = Vec::new();
    for (payload, mqtt, coap) in [
        (60, 554.0, 334.0),
        (600, 1636.0, 1610.0),
        (2000, 4568.0, 6400.0),
    ] {
        for loss in [0.0, 0.2] {
            for repeat in 0..3 {
                let jitter = 1.0 + 0.004 * (f64::from(repeat) - 1.0);
                let both = 1.0 + loss;
                let (cell, _) = trial(payload, loss, repeat, mqtt * both * jitter);
                let row = |row: Row, bytes: f64| Row {
                    wire_bytes: Some((1000.0 * bytes) as u64),
                    wire_frames: Some(8000),
                    sent: 1000,
                    expected: 1000,
                    seconds: 100.0,
                    cpu_client_s: 0.05,
                    cpu_broker_s: 0.02,
                    rss_broker_kib: 20_000,
                    response: Quantiles {
                        count: 1000,
                        mean: 1000.0 + 100_000.0 * loss * jitter,
                        p99: 5000.0 + 900_000.0 * loss,
                        ..Quantiles::default()
                    },
                    ..row
                };
                let mut other = cell.clone();
                (other.publish.protocol, other.subscribe.protocol) =
                    (Protocol::Coap, Protocol::Coap);
                trials.push((cell, row(blank(1000), mqtt * both * jitter)));
                trials.push((other, row(blank(1000), coap * both * jitter)));
            }
        }
    }
    measured("own", trials)
}

fn blank(delivered: u64) -> Row {
    Row {
        delivered,
        ..Row::blank(crate::cell::Standing::Valid)
    }
}

fn measured(name: &str, trials: Vec<(Cell, Row)>) -> Source {
    Source {
        name: name.to_owned(),
        kind: SourceKind::Measured,
        machine: "a test".to_owned(),
        finished_unix_s: Some(1_795_300_000),
        trials,
        orders: Vec::new(),
        notes: Vec::new(),
    }
}

fn best(advice: &super::Advice) -> String {
    match &advice.outcome {
        Outcome::Ranked(ranking) => ranking.candidates[0].choice.name(),
        _ => panic!("it is no ranking"),
    }
}

#[test]
fn the_crossover_is_told_in_a_sentence_and_lies_where_the_numbers_cross() {
    let (advice, text) = ask(
        "--payload 60B --loss 10% --need at-least-once --objective bytes",
        &[own()],
    );
    assert!(best(&advice).starts_with("CoAP CON"));
    let Outcome::Ranked(ranking) = &advice.outcome else {
        panic!("it is ranked")
    };
    let turn = ranking.turn.as_ref().expect("it turns");
    assert!(
        !turn.is_below && (600.0..700.0).contains(&turn.at),
        "{turn:?}"
    );
    assert!(
        text.contains("Nearest turn: Above about")
            && text.contains("MQTT QoS 1 () would take fewer bytes"),
        "{text}"
    );
    assert!(
        ranking.confidence.is_some_and(|it| it.level == Level::High),
        "{:?}",
        ranking.confidence
    );
    // Both are named to the client, which can follow.
    assert!(
        text.contains("coap://broker")
            && text.contains("mqtt://broker")
            && text.contains("Objective::Bytes"),
        "{text}"
    );
    assert!(
        text.contains("2026-11-21") || text.contains("2026-11-22"),
        "{text}"
    );
}

#[test]
fn what_suite_all_has_written_is_a_source_for_each_study() {
    let folder = Folder::new("recommend-all");
    let mut all = own().trials;
    for (number, (cell, _)) in all.iter_mut().enumerate() {
        cell.axes.insert("number".to_owned(), number.to_string());
    }
    for (study, trials) in [("E1", &all[..6]), ("E2", &all[6..])] {
        let cells: Vec<Cell> = trials.iter().map(|(cell, _)| cell.clone()).collect();
        let mut writer = Writer::open(&folder.0.join(study), &results::about(study, &cells), false)
            .expect("a new folder");
        for (cell, row) in trials {
            let found = Measured {
                row: row.clone(),
                ..results::tests::measured(1)
            };
            writer.write(cell, &found).expect("writable");
        }
        writer.finish(false).expect("writable");
    }
    results::write_about(&folder.0, &serde_json::json!({ "suite": "all" })).expect("writable");
    let sources = Source::open_all(&folder.0).expect("it is a folder of folders");
    let counts: Vec<(bool, usize)> = sources
        .iter()
        .map(|source| (source.name.ends_with("E1"), source.trials.len()))
        .collect();
    assert_eq!(counts, [(true, 6), (false, all.len() - 6)]);
    assert_eq!(
        Source::open_all(&folder.0.join("E2"))
            .expect("one study")
            .len(),
        1
    );
}

#[test]
fn nothing_that_keeps_the_bound_is_an_answer_even_where_some_choices_were_not_measured() {
    // A third protocol, measured elsewhere only.
    let mut source = own();
    let (cell, row) = source.trials[0].clone();
    let mut other = cell;
    (other.publish.protocol, other.subscribe.protocol) = (Protocol::Amqp, Protocol::Amqp);
    other.workload = Workload::Fixed { bytes: 16_000 };
    source.trials.push((other, row));
    // One of which nothing but the mean is known, as of a course of E2d.
    for at in 0..source.trials.len() {
        let (mut cell, mut row) = source.trials[at].clone();
        (cell.publish.qos, cell.subscribe.qos) = (2, 2);
        row.response.p99 = f64::NAN;
        source.trials.push((cell, row));
    }
    let (advice, text) = ask(
        "--payload 60B --loss 0% --objective bytes --p99-max 1us",
        &[source],
    );
    assert!(
        matches!(&advice.outcome, Outcome::Refused(it) if it.is_broken),
        "{text}"
    );
    assert!(
        text.contains("Nothing that was measured keeps the bounds"),
        "{text}"
    );
}

#[test]
fn a_trial_in_which_nothing_came_in_time_has_no_rate() {
    let (cell, row) = own().trials[0].clone();
    let of = |row: &Row| {
        crate::recommend::Metric::Throughput.of(&cell, row, &crate::energy::PROFILES[0])
    };
    assert_eq!(
        of(&Row {
            delivered: 1000,
            late: 0,
            ..row.clone()
        }),
        Some(10.0)
    );
    assert_eq!(
        of(&Row {
            delivered: 0,
            late: 0,
            ..row.clone()
        }),
        None
    );
    assert_eq!(
        of(&Row {
            delivered: 1000,
            late: 1000,
            ..row
        }),
        None
    );
}

#[test]
fn equal_ones_tie_and_the_answer_is_the_same_whatever_the_order_of_the_data() {
    let flags = "--payload 600B --loss 0% --need at-least-once --objective bytes";
    let (advice, text) = ask(flags, &[own()]);
    let Outcome::Ranked(ranking) = &advice.outcome else {
        panic!("it is ranked")
    };
    assert_eq!(ranking.candidates[1].standing, Standing::Equal);
    assert!(
        text.contains("A tie: CoAP CON") && ranking.confidence.is_none(),
        "{text}"
    );
    let mut turned = own();
    turned.trials.reverse();
    let query = query(flags);
    let json =
        |source: Source| render::json(&super::advise(&query, &[source]), &query, 0).to_string();
    assert_eq!(json(own()), json(own()));
    let again = json(turned);
    let of = |text: &str| {
        serde_json::from_str::<serde_json::Value>(text).expect("JSON")["candidates"].clone()
    };
    for (one, other) in of(&json(own()))
        .as_array()
        .expect("a list")
        .iter()
        .zip(of(&again).as_array().expect("a list"))
    {
        assert_eq!(
            (&one["choice"]["name"], &one["standing"]),
            (&other["choice"]["name"], &other["standing"])
        );
    }
}

#[test]
fn constraints_leave_out_what_breaks_them_and_what_cannot_be_shown_to_keep_them() {
    let own = own();
    let (advice, text) = ask(
        "--payload 60B --loss 20% --p99-max 100ms --objective bytes",
        from_ref(&own),
    );
    assert!(
        matches!(&advice.outcome, Outcome::Refused(it) if it.is_broken),
        "{text}"
    );
    assert!(
        text.contains("Nothing that was measured keeps the bounds") && !text.contains("bench run"),
        "{text}"
    );
    let (advice, _) = ask(
        "--payload 60B --loss 0% --p99-max 100ms --objective bytes",
        from_ref(&own),
    );
    assert!(best(&advice).starts_with("CoAP"));
    let (advice, _) = ask(
        "--payload 60B --loss 0% --p99-max 100ms --objective bytes",
        &[expected()],
    );
    assert!(
        matches!(&advice.outcome, Outcome::Refused(it) if !it.is_broken && it.reasons[0].contains("99th percentile")),
        "nobody knows the percentile"
    );
    // 10 pairs, one message a second: MQTT needs 44 kbit/s, CoAP 27.
    let (advice, text) = ask(
        "--payload 60B --loss 0% --bandwidth 30kbit --objective latency",
        &[own],
    );
    assert!(
        best(&advice).starts_with("CoAP") && text.contains("it needs 44.3 kbit/s of 30"),
        "{text}"
    );
}

#[test]
fn exactly_once_leaves_qos_2_only() {
    let (advice, text) = ask(
        "--payload 60B --loss 0% --need exactly-once --objective bytes",
        &[expected()],
    );
    assert_eq!(best(&advice), "MQTT QoS 2 (any)");
    assert!(text.contains("it may repeat messages"), "{text}");
}

#[test]
fn weights_and_energy_are_answered_and_energy_is_called_modelled() {
    let (advice, text) = ask(
        "--payload 60B --loss 0% --weights latency=2,bytes=1",
        &[own()],
    );
    assert!(
        best(&advice).starts_with("CoAP") && text.contains("Weighed: latency, bytes."),
        "{text}"
    );
    let (_, text) = ask(
        "--payload 60B --loss 0% --objective energy --energy-profile telosb",
        &[own()],
    );
    assert!(text.contains("(modelled)"), "{text}");
    let (_, text) = ask("--payload 60B --loss 0%", &[own()]);
    assert!(
        text.contains("Weighed: latency, bytes, cpu, memory, energy."),
        "{text}"
    );
}

/// A machine's own numbers come first, and the study's word is added.
#[test]
fn measurements_come_before_published_numbers() {
    let (advice, text) = ask(
        "--payload 60B --loss 0% --need at-least-once --objective latency",
        &[paper(), own()],
    );
    let Outcome::Ranked(ranking) = &advice.outcome else {
        panic!("{text}")
    };
    assert_eq!(ranking.source.name, "own");
    assert!(text.contains("Study B says"), "{text}");
}

#[test]
fn who_is_asked_answers_what_the_flags_say() {
    let mut asked = query("--data paper --objective latency");
    let mut told = Vec::new();
    let answers = "60B\nsoon\n1/s\n10\n\n15%\n20ms\n\nat-least-once, wildcards\nbytes\n";
    asked
        .ask(&mut Cursor::new(answers), &mut told)
        .expect("it can be read");
    let flags = query(
        "--data paper --payload 60B --rate 1/s --pairs 10 --loss 15% --rtt 20ms --need at-least-once,wildcards --objective bytes",
    );
    assert_eq!(asked.words(), flags.words());
    assert!(String::from_utf8_lossy(&told).contains("soon: a rate of messages"));
}

#[test]
fn a_calibration_that_is_written_is_read_by_the_client() {
    let (text, told) = calibration(&[own()]).expect("there is something");
    assert_eq!(told, "12 cells from 36 trials; 0 trials have no leg for it");
    Calibration::from_json(&text).expect("the client takes it");
    let file: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let table = file["table"].as_array().expect("a list");
    let of = |protocol: &str| {
        let mut of = table.iter().filter(|it| it["protocol"] == protocol);
        of.find(|it| it["payload_bytes"] == 60.0 && it["loss_percent"] == 20.0)
            .expect("it was measured")
            .clone()
    };
    // Half of both legs; the mean of the repeats.
    assert_eq!(of("mqtt")["bytes_per_message"], 332.4);
    assert_eq!(of("mqtt")["latency_mean_ms"], 10.5);
    // CoAP's two senders wait by timers of their own.
    assert!(of("coap")["latency_mean_ms"].is_null());
    assert!(
        calibration(&[paper()]).is_err(),
        "what was not measured here is no calibration"
    );
}

/// The whole loop: results in a folder, the command that writes a calibration, a client that loads it, meets such a network
/// and says that measured cells spoke.
#[test]
fn a_client_that_loads_a_written_calibration_says_that_it_was_used() {
    use thalweg_client::adaptive::{Candidate, Chooser, NetworkReading, Sent};
    use thalweg_client::coap::{Coap, CoapSettings};
    use thalweg_client::mqtt::{Mqtt, MqttSettings};
    use thalweg_client::{BrokerUrl, Constraints, Objective, Reliability, Span, Time};

    let folder = Folder::new("calibration-loop");
    let results_folder = folder.0.join("results");
    let named = |(cell, row): (Cell, Row)| {
        let name = format!(
            "{:?} {:?} {}",
            cell.publish.protocol, cell.workload, cell.link.loss
        );
        (
            Cell {
                experiment: name,
                ..cell
            },
            row,
        )
    };
    let trials: Vec<(Cell, Row)> = own().trials.into_iter().map(named).collect();
    let cells: Vec<Cell> = trials.iter().map(|(cell, _)| cell.clone()).collect();
    let mut writer =
        Writer::open(&results_folder, &results::about("loop", &cells), false).expect("writable");
    for (cell, row) in trials {
        writer
            .write(
                &cell,
                &Measured {
                    row,
                    ..results::tests::measured(1)
                },
            )
            .expect("written");
    }
    writer.finish(false).expect("finished");
    let file = folder.0.join("calibration.json");
    let args = query(&format!(
        "--data {} --write-calibration {}",
        results_folder.display(),
        file.display()
    ));
    let mut told = Vec::new();
    assert_eq!(
        super::super::run(&args, &mut told).expect("it is written"),
        crate::command::Outcome::Done
    );
    assert!(
        String::from_utf8_lossy(&told).contains("12 cells"),
        "{}",
        String::from_utf8_lossy(&told)
    );

    let loaded = Calibration::from_json(&std::fs::read_to_string(&file).expect("it is there"))
        .expect("it is one");
    let explained = |calibration: Calibration| {
        let place = |url: &str| url.parse::<BrokerUrl>().expect("legal").endpoint();
        let mqtt = Mqtt::new(place("mqtt://127.0.0.1"), MqttSettings::default());
        let coap = Coap::new(place("coap://127.0.0.1"), CoapSettings::default());
        let candidates = [Candidate::new(0, &mqtt), Candidate::new(1, &coap)];
        let (wanted, bounds) = (Objective::Bytes, Constraints::default());
        let mut chooser = Chooser::new(wanted, bounds, calibration, &candidates, 1, Time::ZERO);
        for candidate in &candidates {
            chooser.up(candidate.lane, &candidate.capabilities, Time::ZERO);
        }
        // Ten messages a second of 60 B for a minute, a round trip of a millisecond: what a client on such a network sees.
        for tenth in 0..600_u64 {
            let now = Time::ZERO + Span::from_millis(100 * tenth);
            let sent = Sent {
                payload_bytes: 60,
                reliability: Reliability::AtLeastOnce,
                wire_bytes: 79,
                topic_hash: 1,
            };
            chooser.sent(0, &sent, now);
            let reading = NetworkReading {
                round_trip: Span::from_millis(1),
                round_trip_min: Span::from_millis(1),
                sent_segments: tenth,
                frames_sent: 2 * tenth,
                frames_received: 2 * tenth,
                ..NetworkReading::default()
            };
            chooser.network(0, &reading, now);
            chooser.decide(now);
        }
        chooser.explain(Time::ZERO + Span::from_secs(60))
    };
    let with = explained(loaded);
    println!("{with}");
    assert!(
        with.estimates
            .iter()
            .any(|it| it.protocol == "mqtt" && it.measured_cells > 0),
        "{with}"
    );
    assert!(
        with.words.contains("measured cell")
            && with.words.contains("bench recommend --write-calibration"),
        "{with}"
    );
}

#[test]
fn a_leg_that_was_counted_by_itself_is_taken_as_counted() {
    let mut source = own();
    for (_, row) in &mut source.trials {
        row.more.insert("publish_leg_bytes".to_owned(), 300_000.0);
        row.more.insert("overhead_bytes".to_owned(), 24.0);
    }
    let (text, _) = calibration(&[source]).expect("there is something");
    let file: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(
        file["table"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|it| it["bytes_per_message"] == 300.0 && it["overhead_bytes"] == 24.0)
    );
}

/// Floods of one machine and offered loads of it answer different questions.
#[test]
fn floods_have_no_latency_to_recommend_by() {
    let leg = Leg {
        protocol: Protocol::Mqtt,
        qos: 0,
        version: 5,
        window: 20,
    };
    let cell = Cell {
        publish: leg,
        subscribe: leg,
        workload: Workload::Fixed { bytes: 60 },
        load: Load::Flood { flows: 4 },
        ..blank_cell()
    };
    let response = Quantiles {
        count: 10,
        mean: 100.0,
        ..Quantiles::default()
    };
    let row = Row {
        seconds: 1.0,
        response,
        ..blank(10)
    };
    let source = measured("flood", vec![(cell, row)]);
    let (advice, _) = ask("--payload 60B --objective latency", from_ref(&source));
    assert!(matches!(advice.outcome, Outcome::Refused(_)));
    let (advice, text) = ask("--payload 60B --rate 5/s --objective throughput", &[source]);
    assert_eq!(best(&advice), "MQTT QoS 0 ()");
    assert!(
        text.contains("10 messages/s") && text.contains("nothing to compare"),
        "{text}"
    );
}

/// The results that ship: what E2d measured answers a question of loss.
#[test]
fn e2d_answers_which_protocol_and_whether_to_let_the_client_choose() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../bench-results/2026-11-22-standard/E2d");
    let source = Source::open(&folder).expect("it is there");
    let (advice, text) = ask(
        "--payload 60B --loss 10% --need at-least-once --objective bytes",
        &[source],
    );
    let Outcome::Ranked(ranking) = &advice.outcome else {
        panic!("{text}")
    };
    let names: Vec<String> = ranking
        .candidates
        .iter()
        .map(|it| it.choice.name())
        .collect();
    let ours = "our client, choosing MQTT or CoAP for bytes (thalweg)";
    assert!(
        names.len() == 4 && names.iter().any(|name| name == ours),
        "{names:?}"
    );
    assert!(
        text.contains("confidence") || text.contains("tie"),
        "{text}"
    );
}

/// A question of throughput that was not measured is answered by a search.
#[test]
fn a_refusal_of_throughput_names_the_search_for_it() {
    let (_, text) = ask(
        "--payload 64kB --need at-least-once --loss 1% --objective throughput",
        &[expected()],
    );
    assert!(
        text.contains("thalweg bench saturate examples/scenarios/point.yaml"),
        "{text}"
    );
}

/// The scenario that ships gives the very cell that is asked for.
#[test]
fn the_command_of_a_refusal_can_be_run_and_measures_the_point() {
    let flags = "--payload 64kB --loss 40% --rate 0.5/s --pairs 12 --fanout 3 --rtt 25ms --bandwidth 2mbit --system mosquitto --objective bytes";
    let (advice, text) = ask(flags, &[expected()]);
    let Outcome::Refused(refusal) = &advice.outcome else {
        panic!("{text}")
    };
    let mut words = refusal.command.split(' ').peekable();
    let prefix: Vec<&str> = words.by_ref().take(3).collect();
    assert_eq!(prefix, ["thalweg", "bench", "run"]);
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(words.next().expect("a file"));
    let mut set = Vec::new();
    while let Some(word) = words.next() {
        let value = words.next().expect("each flag has one");
        if word == "--set" {
            let (key, value) = value.split_once('=').expect("KEY=VALUE");
            set.push((key.to_owned(), value.to_owned()));
        }
    }
    let cells = crate::scenario::cells(&file, &set).expect("it is a scenario");
    assert_eq!(cells.len(), 3 * 7, "three repeats of seven ways");
    let query = query(flags);
    for cell in &cells {
        let point = Point::of(cell, &blank(1)).expect("it has a size");
        for axis in AXES {
            let asked = query.on(axis).unwrap_or(point.on(axis));
            assert!(
                axis.is_near(point.on(axis), asked),
                "{axis:?}: {} instead of {asked}",
                point.on(axis)
            );
        }
        assert_eq!(
            (cell.link.rate, cell.system.as_str()),
            (Some(2_000_000), "mosquitto")
        );
        assert!(
            Choice::of(cell).variant.is_empty(),
            "{:?}",
            Choice::of(cell)
        );
    }
}
