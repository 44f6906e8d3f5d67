//! A search for saturation as measurements: at each point the trials that confirmed the highest rate that lasted.

use std::collections::BTreeMap;

use serde_json::Value;

use super::sources::TrialsAndNotes;
use crate::cell::{Cell, Load, Row, Standing};
use crate::saturate;

/// Whether a folder of results is that of a search.
pub fn is_of(about: &Value) -> bool {
    about["saturate"].is_object()
}

/// The trials that confirmed, as loads that go as fast as they can, and what has to be known of them. What a search tried
/// on its way is no measurement of anything else: its rates were chosen by what came out.
pub fn trials(about: &Value, tried: Vec<(Cell, Row)>) -> TrialsAndNotes {
    let mut points: BTreeMap<String, Vec<(Cell, Row)>> = BTreeMap::new();
    for (cell, row) in tried {
        let point = saturate::point_of(&cell);
        points
            .entry(saturate::name_of(&point))
            .or_default()
            .push((cell, row));
    }
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    for it in about["saturation"].as_array().into_iter().flatten() {
        let name = it["point"].as_str().unwrap_or_default();
        let Some(rate) = it["sustained_per_s"].as_f64() else {
            notes.push(format!("{name}: no rate lasted"));
            continue;
        };
        if saturate::is_lower_bound(it["limit"].as_str().unwrap_or_default()) {
            notes.push(format!(
                "{name}: at least this much; what sends, or --most, was the limit"
            ));
        }
        let mut at_it = points.remove(name).unwrap_or_default();
        at_it.retain(|(cell, row)| is_at(cell, row, rate));
        let length = |(cell, _): &(Cell, Row)| cell.phases.measure_ns;
        let longest = at_it.iter().map(length).max();
        let confirmed = at_it.into_iter().filter(|it| Some(length(it)) == longest);
        for (repeat, (cell, row)) in confirmed.enumerate() {
            let flows = cell.load.flows();
            let cell = Cell {
                repeat: repeat as u32,
                load: Load::Flood { flows },
                ..saturate::point_of(&cell)
            };
            found.push((cell, row));
        }
    }
    (found, notes)
}

fn is_at(cell: &Cell, row: &Row, wanted: f64) -> bool {
    let Load::Open { rate, flows, .. } = cell.load else {
        return false;
    };
    let rate = rate * f64::from(flows.max(1));
    row.standing == Standing::Valid && (rate / wanted - 1.0).abs() < 1e-6
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::published::blank_cell;
    use super::*;

    #[test]
    fn what_confirmed_counts_and_not_what_was_tried_on_the_way() {
        let base = Cell {
            load: Load::open(10.0, 4),
            ..blank_cell()
        };
        let tried = |step: usize, rate: f64, is_long: bool, delivered: u64| {
            let mut base = base.clone();
            base.phases.measure_ns = 10_000_000_000;
            base.axes.insert("system.name".to_owned(), "own".to_owned());
            let cell =
                saturate::cell_at(&base, step, rate, is_long, 4_000_000_000).expect("an open loop");
            (
                cell,
                Row {
                    delivered,
                    seconds: 10.0,
                    ..Row::blank(Standing::Valid)
                },
            )
        };
        let about = json!({ "saturate": {}, "saturation": [
            { "point": "system.name=own", "sustained_per_s": 4000.0, "limit": "not valid" },
            { "point": "system.name=other", "sustained_per_s": null, "limit": "loss" },
        ] });
        let all = vec![
            tried(0, 2000.0, false, 20_000),
            tried(1, 4000.0, false, 39_000),
            tried(2, 8000.0, false, 50_000),
            tried(3, 4000.0, true, 40_000),
            tried(4, 4000.0, true, 40_010),
            tried(5, 4000.0, true, 39_990),
        ];
        assert!(is_of(&about) && !is_of(&json!({})));
        let (found, notes) = trials(&about, all);
        let delivered: Vec<u64> = found.iter().map(|(_, row)| row.delivered).collect();
        assert_eq!(delivered, [40_000, 40_010, 39_990]);
        for (repeat, (cell, _)) in found.iter().enumerate() {
            assert_eq!(
                (cell.repeat as usize, &cell.load),
                (repeat, &Load::Flood { flows: 4 })
            );
            assert_eq!(cell.axes.keys().collect::<Vec<_>>(), ["system.name"]);
        }
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(
            notes[0].contains("own: at least") && notes[1].contains("no rate lasted"),
            "{notes:?}"
        );
    }
}
