//! Measurements as the adaptive client reads them: `calibration.json`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use thalweg_client::Calibration;

use super::Source;
use super::axes::{Axis, Point};
use super::sources::SourceKind;
use crate::cell::{Cell, Driver, Load, Protocol, Row, Standing};

/// The calibration that ships, with a table of what was measured, and what was taken, in a line. Coefficients of protocols,
/// timers and energy are those that ship: a laboratory's cells correct the model where they are, and nowhere else.
pub fn calibration(sources: &[Source]) -> Result<(String, String), String> {
    let mut cells: BTreeMap<Key, Vec<Leg>> = BTreeMap::new();
    let mut left_out = 0_usize;
    let measured = sources
        .iter()
        .filter(|it| it.about.kind == SourceKind::Measured);
    for (cell, row) in measured.flat_map(|it| &it.trials) {
        match leg(cell, row) {
            Some((key, leg)) => cells.entry(key).or_default().push(leg),
            None => left_out += 1,
        }
    }
    if cells.is_empty() {
        return Err(
            "no trial of these data has a publisher's leg that was counted: one protocol on both legs, namespaces, \
                    an open loop, fan-out 1, and valid"
                .to_owned(),
        );
    }
    let mut file: Value = serde_json::from_str(&Calibration::built_in().to_json())
        .map_err(|error| format!("calibration: {error}"))?;
    let overhead = |protocol: &str, medium: &str| {
        let of = file["protocols"].as_array().into_iter().flatten();
        let mut of = of.filter(|it| it["protocol"] == protocol && it["medium"] == medium);
        of.next()
            .and_then(|it| it["overhead_bytes"].as_f64())
            .unwrap_or(40.0)
    };
    let table: Vec<Value> = cells
        .iter()
        .map(|(key, legs)| line(key, legs, overhead(key.0, key.1)))
        .collect();
    let trials: usize = cells.values().map(Vec::len).sum();
    let told = format!(
        "{} cells from {trials} trials; {left_out} trials have no leg for it",
        table.len()
    );
    let names: Vec<String> = sources
        .iter()
        .map(|it| format!("{} ({})", it.about.name, it.about.machine))
        .collect();
    file["source"] = json!(format!(
        "thalweg bench recommend --write-calibration: {told}; {}; a leg is half of both where it was not counted by itself; \
         all but the table as it ships",
        names.join(", ")
    ));
    file["table"] = json!(table);
    let text = serde_json::to_string_pretty(&file).map_err(|error| error.to_string())? + "\n";
    Calibration::from_json(&text).map_err(|error| error.to_string())?;
    Ok((text, told))
}

/// A cell of the client's table: protocol, medium, reliability, and in thousandths, so that they can be compared, what
/// [`SITUATION`] names.
type Key = (&'static str, &'static str, u8, [u64; 4]);

const SITUATION: [&str; 4] = [
    "payload_bytes",
    "loss_percent",
    "round_trip_ms",
    "rate_per_s",
];

/// Per message on the publisher's leg.
#[derive(Clone, Copy, Debug)]
struct Leg {
    bytes: f64,
    latency_ms: Option<f64>,
    overhead_bytes: Option<f64>,
}

fn leg(cell: &Cell, row: &Row) -> Option<(Key, Leg)> {
    let is_one_protocol =
        cell.publish.protocol == cell.subscribe.protocol && cell.publish.qos == cell.subscribe.qos;
    let mut axes = cell.axes.keys();
    let is_plain = axes.all(|axis| !VARIANTS.contains(&axis.as_str()));
    if row.standing != Standing::Valid
        || !cell.link.namespaces
        || cell.fan_out != 1
        || !is_one_protocol
        || !is_plain
    {
        return None;
    }
    let (protocol, medium) = match cell.publish.protocol {
        Protocol::Mqtt => ("mqtt", "stream"),
        Protocol::Coap => ("coap", "datagrams"),
        Protocol::Amqp => ("amqp", "stream"),
        Protocol::Stomp => ("stomp", "stream"),
        _ => return None,
    };
    let Load::Open { rate, .. } = cell.load else {
        return None;
    };
    let point = Point::of(cell, row)?;
    // The client thinks of one connection; our clients here carry all flows over a few.
    let connections = row.more.get("connections_publish").copied();
    let connections = connections.unwrap_or(match cell.driver {
        Driver::Common => 1.0,
        _ => f64::from(cell.load.flows()),
    });
    let connections = connections.max(1.0);
    let situation = [
        point.on(Axis::Payload),
        100.0 * cell.link.loss,
        point.on(Axis::RoundTrip),
        rate * f64::from(cell.load.flows()) / connections,
    ];
    let thousandths = situation.map(|it| (it * 1e3).round() as u64);
    let key = (protocol, medium, cell.publish.qos, thousandths);
    let messages = (row.delivered > 0).then_some(row.delivered as f64)?;
    let bytes = match row.more.get("publish_leg_bytes") {
        Some(bytes) => bytes / (row.sent as f64).max(1.0),
        // Both legs carry the message once and acknowledge it once, and have the same losses.
        None => row.wire_bytes? as f64 / messages / 2.0,
    };
    // Over TCP the system waits on both legs alike. CoAP's two senders have timers of their own: no half of the sum is
    // either's.
    let is_known = medium == "stream" && row.response.count > 0;
    let latency_ms = is_known.then_some(row.response.mean * 1e-3 / 2.0);
    let leg = Leg {
        bytes,
        latency_ms: latency_ms.filter(|it| it.is_finite()),
        overhead_bytes: row.more.get("overhead_bytes").copied(),
    };
    Some((key, leg))
}

fn line(key: &Key, legs: &[Leg], overhead: f64) -> Value {
    let mean = |of: fn(&Leg) -> Option<f64>| {
        let values: Vec<f64> = legs.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let tenths = |it: f64| (it * 10.0).round() / 10.0;
    let (protocol, medium, reliability, situation) = key;
    let mut line = json!({
        "protocol": protocol,
        "medium": medium,
        "reliability": reliability,
        "overhead_bytes": tenths(mean(|leg| leg.overhead_bytes).unwrap_or(overhead)),
    });
    for (name, thousandths) in SITUATION.into_iter().zip(situation) {
        line[name] = json!(*thousandths as f64 / 1e3);
    }
    if let Some(bytes) = mean(|leg| Some(leg.bytes)) {
        line["bytes_per_message"] = json!(tenths(bytes));
    }
    if let Some(latency) = mean(|leg| leg.latency_ms) {
        line["latency_mean_ms"] = json!((latency * 1e3).round() / 1e3);
    }
    line
}

/// Axes whose cells are of another system than the client will meet.
const VARIANTS: [&str; 5] = ["policy", "strategy", "timers", "tcp", "neighbour"];
