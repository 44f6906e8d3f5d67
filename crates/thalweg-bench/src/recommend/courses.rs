//! E2d as measurements: each way at each loss, beside the client that chooses by itself.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::choice::ADAPTIVE;
use super::published::blank_cell;
use super::sources::TrialsAndNotes;
use crate::cell::{Cell, Leg, Link, Load, Protocol, Quantiles, Row, Standing, Workload};
use crate::e2::plan::Way;
use crate::e2::raw;
use crate::e2::trial::Trial;

/// The courses of a folder, a trial for each loss of each; and what has to be known of them. Where the messages are not
/// there any more, from the means that the report keeps.
pub fn trials(folder: &Path, about: &Value) -> io::Result<TrialsAndNotes> {
    let setting = Setting {
        rate: about["rate_per_s"].as_f64().unwrap_or_default(),
        flows: about["flows"].as_u64().unwrap_or(1) as u32,
        step_s: about["step_s"].as_f64().unwrap_or_default(),
    };
    if folder.join("messages.csv").exists() {
        let run = raw::read(folder)?;
        return Ok((
            run.trials
                .iter()
                .flat_map(|trial| of_course(&setting, trial))
                .collect(),
            Vec::new(),
        ));
    }
    let path = folder.join("findings.json");
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let findings: Value = serde_json::from_slice(&fs::read(&path).map_err(named)?)?;
    let note =
        "messages.csv is not there: means over repeats, as findings.json has them".to_owned();
    Ok((of_findings(&setting, about, &findings), vec![note]))
}

/// What all courses of a run have in common.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// Messages a second, over all topics.
    rate: f64,
    flows: u32,
    step_s: f64,
}

impl Setting {
    fn cell(self, way: Way, payload: u32, delay: Duration, loss: f64, repeat: u32) -> Cell {
        let leg = |protocol| Leg {
            protocol,
            qos: 1,
            version: 5,
            window: 20,
        };
        // Who chooses may come to publish and to listen by either.
        let (publish, subscribe) = match way {
            Way::Mqtt => (Protocol::Mqtt, Protocol::Mqtt),
            Way::Coap => (Protocol::Coap, Protocol::Coap),
            Way::Adaptive(_) => (Protocol::Mqtt, Protocol::Coap),
        };
        let client = match way {
            Way::Adaptive(goal) => Some((ADAPTIVE.to_owned(), goal.name().to_owned())),
            Way::Mqtt | Way::Coap => None,
        };
        Cell {
            experiment: "E2d".to_owned(),
            axes: client.into_iter().collect(),
            repeat,
            system: "thalweg".to_owned(),
            publish: leg(publish),
            subscribe: leg(subscribe),
            link: Link {
                namespaces: true,
                loss,
                delay_ns: delay.as_nanos() as u64,
                ..Link::LOOPBACK
            },
            workload: Workload::Fixed { bytes: payload },
            load: Load::Open {
                rate: self.rate / f64::from(self.flows.max(1)),
                flows: self.flows,
                arrivals: "periodic".to_owned(),
            },
            ..blank_cell()
        }
    }
}

/// A course, loss by loss. What comes twice (0 % at the beginning and at the end) is one trial: the two are not
/// independent.
fn of_course(setting: &Setting, trial: &Trial) -> Vec<(Cell, Row)> {
    let mut losses: Vec<u32> = trial
        .steps
        .iter()
        .map(|loss| loss.as_millionths())
        .collect();
    losses.sort_unstable();
    losses.dedup();
    let standing = match trial.counts() {
        true => Standing::Valid,
        false if trial.trouble.is_empty() => {
            Standing::GeneratorLimited("messages were published late".to_owned())
        }
        false => Standing::Invalid(trial.trouble.clone()),
    };
    let of_loss = |millionths: u32| {
        let steps: Vec<usize> = (0..trial.steps.len())
            .filter(|step| {
                trial
                    .steps
                    .get(*step)
                    .is_some_and(|it| it.as_millionths() == millionths)
            })
            .collect();
        let sums: Vec<_> = steps.iter().map(|step| trial.sum(*step)).collect();
        let published: usize = sums.iter().map(|sum| sum.published).sum();
        let received: usize = sums.iter().map(|sum| sum.received).sum();
        let weighed = |of: &dyn Fn(usize) -> (f64, usize)| {
            let parts = (0..sums.len()).map(of).filter(|(_, weight)| *weight > 0);
            let (sum, all) = parts.fold((0.0, 0), |(sum, all), (it, weight)| {
                (sum + it * weight as f64, all + weight)
            });
            if all > 0 { sum / all as f64 } else { f64::NAN }
        };
        let per_message = |of: fn(&crate::e2::trial::StepSum) -> f64| {
            weighed(&|at| {
                sums.get(at)
                    .map_or((0.0, 0), |sum| (of(sum), sum.published))
            }) * published as f64
        };
        let micros = |millis: f64| millis * 1e3;
        // Percentiles are never averaged.
        let alone = |of: fn(&crate::e2::trial::StepSum) -> f64| match sums.as_slice() {
            [sum] => micros(of(sum)),
            _ => f64::NAN,
        };
        let mean = weighed(&|at| {
            sums.get(at)
                .map_or((0.0, 0), |sum| (sum.mean, sum.received))
        });
        let row = Row {
            intended: published as u64,
            sent: published as u64,
            expected: published as u64,
            delivered: received as u64,
            lost: published.saturating_sub(received) as u64,
            seconds: setting.step_s * sums.len() as f64,
            wire_bytes: Some(per_message(|sum| sum.bytes).round() as u64),
            wire_frames: Some(per_message(|sum| sum.frames).round() as u64),
            response: Quantiles {
                count: received as u64,
                mean: micros(mean),
                sd: f64::NAN,
                p50: alone(|sum| sum.p50),
                p90: alone(|sum| sum.p90),
                p99: alone(|sum| sum.p99),
                p999: f64::NAN,
                max: alone(|sum| sum.max),
            },
            ..Row::blank(standing.clone())
        };
        let loss = f64::from(millionths) / 1e6;
        (
            setting.cell(
                trial.way,
                trial.payload as u32,
                trial.delay,
                loss,
                trial.repeat,
            ),
            row,
        )
    };
    losses
        .into_iter()
        .map(of_loss)
        .filter(|(_, row)| row.sent > 0)
        .collect()
}

/// The same from the report's means; of adaptive clients only what they were after.
fn of_findings(setting: &Setting, about: &Value, findings: &Value) -> Vec<(Cell, Row)> {
    let losses: Vec<f64> = about["losses"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|loss| Some(loss.as_str()?.trim_end_matches('%').parse::<f64>().ok()? / 100.0))
        .collect();
    let messages = (setting.rate * setting.step_s).round().max(1.0);
    let mut found: Vec<(Cell, Row)> = Vec::new();
    for condition in findings["conditions"].as_array().into_iter().flatten() {
        let payload = condition["payload"].as_u64().unwrap_or_default() as u32;
        let delay = Duration::from_secs_f64(
            condition["delay_ms"].as_f64().unwrap_or_default().max(0.0) / 1e3,
        );
        for regret in condition["regrets"].as_array().into_iter().flatten() {
            let objective = regret["objective"].as_str().unwrap_or_default();
            let Some(adaptive) = Way::named(&format!("adaptive-{objective}")) else {
                continue;
            };
            let costs = regret["costs_adaptive_mqtt_coap"]
                .as_array()
                .into_iter()
                .flatten();
            // The first time that a loss comes: later ones of the same are not independent.
            for (at, cost) in costs.enumerate() {
                let Some(&loss) = losses.get(at) else {
                    continue;
                };
                if losses.iter().take(at).any(|before| *before == loss) {
                    continue;
                }
                for (way, number) in [adaptive, Way::Mqtt, Way::Coap].into_iter().zip(0..) {
                    let Some(cost) = cost[number as usize].as_f64() else {
                        continue;
                    };
                    let cell = setting.cell(way, payload, delay, loss, 0);
                    let row = match found.iter_mut().find(|(known, _)| *known == cell) {
                        Some((_, row)) => row,
                        None => {
                            let count = messages as u64;
                            let row = Row {
                                sent: count,
                                delivered: count,
                                ..Row::blank(Standing::Valid)
                            };
                            found.push((cell, row));
                            match found.last_mut() {
                                Some((_, row)) => row,
                                None => continue,
                            }
                        }
                    };
                    match objective {
                        "bytes" => row.wire_bytes = Some((cost * messages).round() as u64),
                        _ => {
                            row.response = Quantiles {
                                count: messages as u64,
                                mean: cost * 1e3,
                                ..Quantiles::UNKNOWN
                            }
                        }
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::e2::plan::Goal;
    use crate::e2::trial::tests::trial;

    const SETTING: Setting = Setting {
        rate: 10.0,
        flows: 2,
        step_s: 1.0,
    };

    #[test]
    fn a_course_is_a_trial_for_each_loss() {
        let of = |way, millis, bytes| of_course(&SETTING, &trial(way, millis, bytes));
        let found = of(Way::Coap, 7, 334);
        let losses: Vec<f64> = found.iter().map(|(cell, _)| cell.link.loss).collect();
        assert_eq!(losses, [0.0, 0.2]);
        let (cell, row) = &found[1];
        assert_eq!(
            (cell.publish.protocol, cell.subscribe.protocol),
            (Protocol::Coap, Protocol::Coap)
        );
        assert_eq!(
            cell.load,
            Load::Open {
                rate: 5.0,
                flows: 2,
                arrivals: "periodic".to_owned()
            }
        );
        assert_eq!(
            (row.sent, row.delivered, row.wire_bytes),
            (10, 10, Some(3340))
        );
        assert!(
            (row.response.mean - 7000.0).abs() < 1e-6 && (row.response.p99 - 7000.0).abs() < 1e-6
        );
        let (cell, _) = of(Way::Adaptive(Goal::Bytes), 7, 334).remove(0);
        assert_eq!(cell.axes.get(ADAPTIVE).map(String::as_str), Some("bytes"));
    }

    #[test]
    fn a_loss_that_comes_twice_is_one_trial_without_percentiles() {
        let mut course = trial(Way::Mqtt, 5, 554);
        course.steps[1] = course.steps[0];
        let found = of_course(&SETTING, &course);
        assert_eq!(found.len(), 1);
        let row = &found[0].1;
        assert_eq!((row.sent, row.wire_bytes), (20, Some(11_080)));
        assert!(row.response.p99.is_nan() && (row.response.mean - 5000.0).abs() < 1e-6);
    }

    #[test]
    fn means_of_a_report_are_taken_where_messages_are_gone() {
        let about = json!({ "losses": ["0%", "20%", "0%"] });
        let findings = json!({ "conditions": [{ "payload": 60, "delay_ms": 50.0, "regrets": [
            { "objective": "bytes", "costs_adaptive_mqtt_coap": [[355.0, 554.0, 331.0], [494.0, 619.0, 462.0], [1, 1, 1]] },
            { "objective": "latency", "costs_adaptive_mqtt_coap": [[2.3, 1.4, 1.9], [113.0, 560.0, 67.6], [1, 1, 1]] },
        ] }] });
        let found = of_findings(&SETTING, &about, &findings);
        // Two losses of MQTT, CoAP and two adaptive clients.
        assert_eq!(found.len(), 8);
        let of = |way, loss| {
            let wanted = SETTING.cell(way, 60, Duration::from_millis(50), loss, 0);
            found
                .iter()
                .find(|(cell, _)| *cell == wanted)
                .map(|(_, row)| row)
                .expect("it is there")
        };
        let coap = of(Way::Coap, 0.2);
        assert_eq!(
            (coap.wire_bytes, coap.response.mean),
            (Some(4620), 67_600.0)
        );
        let bytes = of(Way::Adaptive(Goal::Bytes), 0.2);
        assert_eq!((bytes.wire_bytes, bytes.response.count), (Some(4940), 0));
    }
}
