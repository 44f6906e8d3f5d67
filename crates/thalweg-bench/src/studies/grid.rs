//! The cells of a study as data: `e1.toml` to `e4.toml` have products of ways and axes.
//!
//! A value may be told for each budget, `{ quick = …, standard = …, paper = … }`: what the paper budget does not have is as in
//! the standard one, and what a budget lacks is left out. A way is a system, a protocol with its reliability (and version of MQTT,
//! or window), and a driver if it is not the common one. A value of an axis is what is printed, and what [`put`] does with it;
//! or a table: `is` is printed, the rest is changed in the cell. `without` has points that are left out, by words that they
//! have.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::plan::{self, Budget, phases};
use crate::cell::{Cell, Leg, Protocol, word};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Product {
    experiment: String,
    repeats: u32,
    /// Settle, warm-up, measure and drain in seconds.
    phases: [f64; 4],
    ways: Vec<String>,
    /// What all have that is not as [`plan::cell`] has it.
    #[serde(default)]
    cell: Value,
    axes: Map<String, Value>,
    #[serde(default)]
    without: Vec<String>,
}

/// The cells that a file has for a budget, repeats together; each has a seed of its own.
pub fn cells(text: &str, budget: Budget, seed: u64) -> Result<Vec<Cell>, String> {
    let file: Value = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut cells = Vec::new();
    for product in file["cells"].as_array().into_iter().flatten() {
        let budgets = product["budgets"].as_array();
        if budgets.is_some_and(|some| !some.contains(&json!(word(budget)))) {
            continue;
        }
        let told = told(product, budget).unwrap_or_default();
        let product: Product = serde_json::from_value(told)
            .map_err(|error| format!("{}: {error}", product["experiment"]))?;
        for point in product.points()? {
            cells.extend(plan::repeats(&point, product.repeats, seed));
        }
    }
    Ok(cells)
}

/// What a value is for this budget, if it has it.
fn told(value: &Value, budget: Budget) -> Option<Value> {
    const NAMES: [&str; 3] = ["quick", "standard", "paper"];
    match value {
        Value::Object(map)
            if !map.is_empty() && map.keys().all(|it| NAMES.contains(&it.as_str())) =>
        {
            let own = map.get(&word(budget));
            let longer = map.get("standard").filter(|_| budget == Budget::Paper);
            told(own.or(longer)?, budget)
        }
        Value::Object(map) => {
            let known = map.iter().filter(|(name, _)| *name != "budgets");
            let known =
                known.filter_map(|(name, value)| Some((name.clone(), told(value, budget)?)));
            Some(known.collect())
        }
        Value::Array(all) => Some(all.iter().filter_map(|it| told(it, budget)).collect()),
        other => Some(other.clone()),
    }
}

impl Product {
    fn points(&self) -> Result<Vec<Cell>, String> {
        let mut points = Vec::new();
        for way in &self.ways {
            let mut cell = self.base(way)?;
            merge(&mut cell, &self.cell);
            points.push(cell);
        }
        for (axis, values) in &self.axes {
            let values = values
                .as_array()
                .ok_or_else(|| format!("{axis}: a list is expected"))?;
            let with = |point: &Value| {
                values
                    .iter()
                    .map(|value| on_axis(point, axis, value))
                    .collect::<Vec<_>>()
            };
            points = points.iter().flat_map(with).collect();
        }
        points.retain(|point| {
            let axes = point["axes"].as_object().into_iter().flatten();
            let words: Vec<&str> = axes.filter_map(|(_, word)| word.as_str()).collect();
            let is_it = |out: &String| out.split(' ').all(|word| words.contains(&word));
            !self.without.iter().any(is_it)
        });
        let cell = |point| {
            serde_json::from_value(point).map_err(|error| format!("{}: {error}", self.experiment))
        };
        points.into_iter().map(cell).collect()
    }

    /// A cell of a way, before anything is changed.
    fn base(&self, way: &str) -> Result<Value, String> {
        let words: Vec<&str> = way.split(' ').collect();
        let (system, leg) = match words.as_slice() {
            [system, leg, ..] => (
                system,
                leg_of(leg).ok_or_else(|| format!("{way}: no such way"))?,
            ),
            _ => return Err(format!("{way}: a system and a protocol are expected")),
        };
        let [settle, warmup, measure, drain] = self.phases;
        let draft = plan::cell(&self.experiment, system, leg)
            .with(|cell| cell.phases = phases(settle, warmup, measure, drain));
        let mut cell = json!(draft.into_cell());
        cell["driver"] = json!(words.get(2).unwrap_or(&"common"));
        Ok(cell)
    }
}

/// `mqtt-q1`, `mqtt3-q1` (MQTT 3.1.1), `mqtt-q2-w1` (one message under way), `coap-con`.
fn leg_of(way: &str) -> Option<Leg> {
    let mut parts = way.split('-');
    let protocol = parts.next()?;
    let name = json!(protocol.trim_end_matches('3'));
    let protocol_of: Protocol = serde_json::from_value(name).ok()?;
    let qos = match parts.next()? {
        "con" => 1,
        "non" => 0,
        qos => qos.strip_prefix('q')?.parse().ok()?,
    };
    let mut leg = Leg::of(protocol_of, qos);
    if protocol.ends_with('3') {
        leg.version = 3;
    }
    if let Some(window) = parts.next() {
        leg.window = window.strip_prefix('w')?.parse().ok()?;
    }
    Some(leg)
}

/// A point with a value of an axis.
fn on_axis(point: &Value, axis: &str, value: &Value) -> Value {
    let mut point = point.clone();
    let mut change = value.as_object().cloned().unwrap_or_default();
    let label = match change.remove("is").unwrap_or_else(|| value.clone()) {
        Value::String(text) => text,
        other => other.to_string(),
    };
    put(&mut point, axis, &label);
    point["axes"][axis] = json!(label);
    merge(&mut point, &Value::Object(change));
    point
}

/// What a cell says where it is on an axis; on others it says nothing else.
fn put(point: &mut Value, axis: &str, label: &str) {
    let digits = label.strip_prefix("1-").unwrap_or(label);
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let number: f64 = digits
        .get(..end)
        .and_then(|it| it.parse().ok())
        .unwrap_or(0.0);
    let whole = json!(number as u64);
    let (places, value): (&[&str], Value) = match axis {
        "payload" => (
            &[
                "/workload/fixed/bytes",
                "/workload/json/bytes",
                "/workload/beside/bytes",
            ],
            whole,
        ),
        "class" => (&["/workload/class/name"], json!(label)),
        "pairs" => (&["/load/replay/flows", "/load/flood/flows"], whole),
        "rate" => (&["/load/open/rate"], json!(number)),
        "interval" => (&["/load/closed/think_ns"], json!(number as u64 * 1_000_000)),
        "loss" => (&["/link/loss"], json!(number / 100.0)),
        "topology" => (&["/fan_out"], whole),
        "driver" => (&["/driver"], json!(label.trim_end_matches("-client"))),
        _ => return,
    };
    for place in places {
        if let Some(there) = point.pointer_mut(place) {
            *there = value.clone();
        }
    }
}

/// Changes what a change names; of workloads and loads there is one, and it replaces another.
fn merge(there: &mut Value, change: &Value) {
    let (Value::Object(there), Value::Object(change)) = (there, change) else {
        return;
    };
    for (key, value) in change {
        let is_other = ["workload", "load"].contains(&key.as_str())
            && value
                .as_object()
                .is_some_and(|it| it.keys().any(|kind| there[key].get(kind).is_none()));
        match there.get_mut(key) {
            Some(old) if old.is_object() && value.is_object() && !is_other => merge(old, value),
            _ => drop(there.insert(key.clone(), value.clone())),
        }
    }
}
