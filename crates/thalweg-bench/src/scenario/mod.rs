//! Scenarios: YAML with units, unknown keys refused, to cells.
//!
//! *Knows:* the keys, their units and defaults ([`shape`]). *Must never know:* how a cell is measured.
//!
//! ```text
//!  text ──> tree ──(budget, --set)──> sweep: a tree for each point ──> shape ──> cells, in an order drawn from the seed
//! ```
//!
//! An axis of `sweep` is a path with the list of what is put there; a mapping replaces the whole mapping that was there. The
//! axis has the last word of its path as name (`loss`), or the whole path where two end alike. Points are the cartesian
//! product. Every repeat measures all points, in an order of its own: what drifts meets all of them alike.

mod assertion;
pub mod command;
mod section;
mod shape;
#[cfg(test)]
mod tests;
mod tree;
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

pub use assertion::{Assertion, Judged};
pub use values::{bytes, one_of, part, time};

use crate::cell::{Cell, Load, Workload};
use crate::sim::random::Random;
use crate::studies::plan::Budget;
use section::{hint, place};
use tree::{Node, NodeKind};
use values::chosen;

#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    /// Names of the axes that are swept.
    pub axes: Vec<String>,
    /// What is to be reported.
    pub metrics: Vec<String>,
    /// What has to come out.
    pub assertions: Vec<Assertion>,
    /// Everything that is to be measured, in its order.
    pub cells: Vec<Cell>,
}

/// Reads a scenario with what `budgets` says of a budget, then `--set`.
pub fn read(
    file: &Path,
    set: &[(String, String)],
    budget: Option<&str>,
) -> Result<Scenario, String> {
    let named = |why: String| format!("{}: {why}", file.display());
    let text = fs::read_to_string(file).map_err(|error| named(error.to_string()))?;
    let mut scenario = parse(&text, set, budget).map_err(named)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    for cell in &mut scenario.cells {
        if let Workload::Trace { file } = &mut cell.workload
            && !Path::new(file.as_str()).exists()
        {
            // As the command line has it, or beside the scenario.
            let beside = folder.join(file.as_str());
            match beside.exists() {
                true => *file = beside.display().to_string(),
                false => {
                    return Err(named(format!(
                        "workload.file: {file}: there is no such trace; `thalweg bench gen` makes one"
                    )));
                }
            }
        }
        if let Some(file) = &mut cell.extras.payload {
            if !Path::new(file.as_str()).exists() {
                *file = folder.join(file.as_str()).display().to_string();
            }
            let found = fs::metadata(file.as_str())
                .map_err(|error| named(format!("workload.payload: {file}: {error}")))?;
            cell.workload = Workload::Fixed {
                bytes: u32::try_from(found.len())
                    .map_err(|_| named(format!("workload.payload: {file}: it is too large")))?,
            };
        }
    }
    Ok(scenario)
}

/// The same from its text.
pub fn parse(
    text: &str,
    set: &[(String, String)],
    budget: Option<&str>,
) -> Result<Scenario, String> {
    let mut scenario = Node::read(text)?;
    let budgets = scenario.take("budgets");
    apply_budget(&mut scenario, budgets.as_ref(), budget)?;
    for (path, value) in set {
        apply_set(&mut scenario, path, value)?;
    }
    let axes = axes(scenario.take("sweep"))?;
    let mut points = Vec::new();
    let (mut frame, mut base) = (None, None);
    for choice in product(&axes) {
        let mut point = scenario.clone();
        let mut values = BTreeMap::new();
        for (axis, value) in axes.iter().zip(&choice) {
            // An error inside of it names the path, and this its line.
            point.set(&axis.path, (*value).clone())?;
            values.insert(axis.name.clone(), value.label());
        }
        let (found, mut cell) = shape::read(&point)?;
        cell.axes.extend(values);
        base.get_or_insert(cell.seed);
        frame.get_or_insert(found);
        points.push(cell);
    }
    let frame = frame.ok_or("sweep: there is no point")?;
    let mut random = Random::new(base.unwrap_or_default());
    let mut cells = Vec::new();
    for repeat in 0..frame.repeats {
        let mut order = points.clone();
        shuffle(&mut order, &mut random);
        cells.extend(order.into_iter().map(|cell| Cell {
            repeat,
            seed: cell.seed.wrapping_add(u64::from(repeat)),
            ..cell
        }));
    }
    check_keys(&cells)?;
    let axes = axes.into_iter().map(|axis| axis.name).collect();
    Ok(Scenario {
        name: frame.name,
        axes,
        metrics: frame.metrics,
        assertions: frame.assertions,
        cells,
    })
}

/// Puts things into an order drawn from a stream (Fisher and Yates).
pub fn shuffle<T>(things: &mut [T], random: &mut Random) {
    for last in (1..things.len()).rev() {
        things.swap(last, (random.draw() % (last as u64 + 1)) as usize);
    }
}

impl Cell {
    /// Messages a second that it publishes and delivers together, if that can be said before.
    pub fn rate(&self) -> Option<f64> {
        match self.load {
            Load::Open { rate, flows, .. } => {
                Some(rate * f64::from(flows) * f64::from(1 + self.fan_out))
            }
            Load::Closed { .. } | Load::Replay { .. } | Load::Flood { .. } => None,
        }
    }

    /// How long a trial takes, seconds; the drain counts as half, for it ends when nothing is missing.
    pub fn lasts(&self) -> f64 {
        let phases = self.phases;
        (phases.settle_ns + phases.warmup_ns + phases.measure_ns + phases.drain_ns / 2) as f64 / 1e9
    }
}

/// A thing that varies.
struct Axis {
    name: String,
    path: String,
    values: Vec<Node>,
}

fn apply_budget(
    scenario: &mut Node,
    budgets: Option<&Node>,
    budget: Option<&str>,
) -> Result<(), String> {
    let entries = budgets.map_or(Ok(&[][..]), |budgets| budgets.entries("budgets"))?;
    for (name, node) in entries {
        chosen::<Budget>(name).map_err(|why| format!("budgets{}: {why}", place(node)))?;
    }
    let Some(budget) = budget else { return Ok(()) };
    let found = entries.iter().find(|(name, _)| name == budget);
    let unsaid = || format!("budgets.{budget}: this scenario says nothing of it");
    let (_, node) = found.ok_or_else(unsaid)?;
    let changes = node.entries(&format!("budgets.{budget}"))?;
    changes
        .iter()
        .try_for_each(|(path, value)| put(scenario, path, value.clone()))
}

fn apply_set(scenario: &mut Node, path: &str, value: &str) -> Result<(), String> {
    let mut value = Node::read(value).map_err(|why| format!("--set {path}={value}: {why}"))?;
    value.line = 0;
    put(scenario, path, value)
}

/// `sweep.` has paths as keys; whatever is set is swept no longer.
fn put(scenario: &mut Node, path: &str, value: Node) -> Result<(), String> {
    if let Some(axis) = path.strip_prefix("sweep.") {
        let mut sweep = scenario.take("sweep").unwrap_or(Node {
            line: 0,
            kind: NodeKind::Map(Vec::new()),
        });
        sweep.take(axis);
        if let NodeKind::Map(entries) = &mut sweep.kind {
            entries.push((axis.to_owned(), value));
        }
        return scenario.set("sweep", sweep);
    }
    if let Some(mut sweep) = scenario.take("sweep") {
        sweep.take(path);
        scenario.set("sweep", sweep)?;
    }
    scenario.set(path, value)
}

fn axes(sweep: Option<Node>) -> Result<Vec<Axis>, String> {
    let Some(sweep) = sweep else {
        return Ok(Vec::new());
    };
    let entries = sweep.entries("sweep")?;
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let lasts: Vec<String> = entries.iter().map(|(path, _)| last(path)).collect();
    let mut axes = Vec::new();
    for (path, node) in entries {
        let root = path.split('.').next().unwrap_or_default();
        if !SWEPT.contains(&root) {
            let (place, hint) = (place(node), hint(root, &SWEPT));
            return Err(format!("sweep.{path}{place}: it cannot be swept; {hint}"));
        }
        let values = node.list(&format!("sweep.{path}"))?.to_vec();
        if values.is_empty() {
            return Err(format!("sweep.{path}{}: the list is empty", place(node)));
        }
        let (path, end) = (path.clone(), last(path));
        let name = match lasts.iter().filter(|other| **other == end).count() {
            1 => end,
            _ => path.clone(),
        };
        axes.push(Axis { name, path, values });
    }
    Ok(axes)
}

/// All choices of one value of each axis.
fn product(axes: &[Axis]) -> Vec<Vec<&Node>> {
    axes.iter().fold(vec![Vec::new()], |choices, axis| {
        let with = |choice: &Vec<_>, value| choice.iter().copied().chain([value]).collect();
        let all = |choice| axis.values.iter().map(move |value| with(choice, value));
        choices.iter().flat_map(all).collect()
    })
}

/// Two cells of a name would overwrite each other's files.
fn check_keys(cells: &[Cell]) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    for cell in cells {
        if let Some(other) = seen.insert(cell.key(), cell) {
            return Err(format!(
                "sweep: {:?} and {:?} have one name, {}",
                other.axes,
                cell.axes,
                cell.key()
            ));
        }
    }
    Ok(())
}

/// What may stand in `sweep`.
const SWEPT: [&str; 6] = [
    "topology", "system", "protocol", "workload", "load", "phases",
];
