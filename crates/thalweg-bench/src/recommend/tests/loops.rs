//! From results to an answer, and from an answer to what uses it.

use std::io::Cursor;

use thalweg_client::Calibration;

use super::{made, query};
use crate::cell::{Cell, Measured, Row};
use crate::recommend::{Source, calibration, run};
use crate::results::tests::Folder;
use crate::results::{self, Writer};

/// Writes a folder of results.
fn write(folder: &std::path::Path, name: &str, trials: &[(Cell, Row)]) {
    let cells: Vec<Cell> = trials.iter().map(|(cell, _)| cell.clone()).collect();
    let mut writer =
        Writer::open(folder, &results::about(name, &cells), false).expect("a new folder");
    for (cell, row) in trials {
        let found = Measured {
            row: row.clone(),
            ..results::tests::measured(1)
        };
        writer.write(cell, &found).expect("writable");
    }
    writer.finish(false).expect("writable");
}

#[test]
fn what_suite_all_has_written_is_a_source_for_each_study() {
    let folder = Folder::new("recommend-all");
    let mut all = made().trials;
    for (number, (cell, _)) in all.iter_mut().enumerate() {
        cell.axes.insert("number".to_owned(), number.to_string());
    }
    write(&folder.0.join("E1"), "E1", &all[..6]);
    write(&folder.0.join("E2"), "E2", &all[6..]);
    results::write_about(&folder.0, &serde_json::json!({ "suite": "all" })).expect("writable");
    let sources = Source::open_all(&folder.0).expect("it is a folder of folders");
    let count = |source: &Source| (source.about.name.ends_with("E1"), source.trials.len());
    let counts: Vec<(bool, usize)> = sources.iter().map(count).collect();
    assert_eq!(counts, [(true, 6), (false, all.len() - 6)]);
    let one = Source::open_all(&folder.0.join("E2")).expect("one study");
    assert_eq!(one.len(), 1);
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

/// The table of a calibration, and what is told of it.
fn table(source: Source) -> (Vec<serde_json::Value>, String) {
    let (text, told) = calibration(&[source]).expect("there is something");
    Calibration::from_json(&text).expect("the client takes it");
    let file: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    (file["table"].as_array().expect("a list").clone(), told)
}

#[test]
fn a_calibration_that_is_written_is_read_by_the_client() {
    let (lines, told) = table(made());
    assert_eq!(told, "12 cells from 36 trials; 0 trials have no leg for it");
    let of = |protocol: &str| {
        let mut of = lines.iter().filter(|it| it["protocol"] == protocol);
        of.find(|it| it["payload_bytes"] == 60.0 && it["loss_percent"] == 20.0)
            .expect("it was measured")
    };
    // Half of both legs; the mean of the repeats.
    assert_eq!(of("mqtt")["bytes_per_message"], 332.4);
    assert_eq!(of("mqtt")["latency_mean_ms"], 10.5);
    // CoAP's two senders wait by timers of their own.
    assert!(of("coap")["latency_mean_ms"].is_null());
    let paper = Source::paper();
    assert!(
        calibration(&[paper]).is_err(),
        "what was not measured here is no calibration"
    );
    // A leg that was counted by itself is taken as counted.
    let mut source = made();
    for (_, row) in &mut source.trials {
        row.more.insert("publish_leg_bytes".to_owned(), 300_000.0);
        row.more.insert("overhead_bytes".to_owned(), 24.0);
    }
    let (lines, _) = table(source);
    let mut lines = lines.iter();
    assert!(lines.all(|it| it["bytes_per_message"] == 300.0 && it["overhead_bytes"] == 24.0));
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
    let mut trials = made().trials;
    for (cell, _) in &mut trials {
        let (protocol, loss) = (cell.publish.protocol, cell.link.loss);
        cell.experiment = format!("{protocol:?} {:?} {loss}", cell.workload);
    }
    write(&results_folder, "loop", &trials);
    let file = folder.0.join("calibration.json");
    let args = query(&format!(
        "--data {} --write-calibration {}",
        results_folder.display(),
        file.display()
    ));
    let mut told = Vec::new();
    let outcome = run(&args, &mut told).expect("it is written");
    assert_eq!(outcome, crate::command::Outcome::Done);
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("12 cells"), "{told}");

    let written = std::fs::read_to_string(&file).expect("it is there");
    let calibration = Calibration::from_json(&written).expect("it is one");
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
    let with = chooser.explain(Time::ZERO + Span::from_secs(60));
    println!("{with}");
    let mut mqtt = with.estimates.iter().filter(|it| it.protocol == "mqtt");
    assert!(mqtt.any(|it| it.measured_cells > 0), "{with}");
    for words in ["measured cell", "bench recommend --write-calibration"] {
        assert!(with.words.contains(words), "{with}");
    }
}
