//! S5.1 to S5.6: the shapes of the study, each of ten runs by itself, and its second scenario under ours.

use thalweg_bench::sim::table::{Row, study};

/// The one figure that a run may miss: the slow member's longest wait under the study's own algorithm, which is theirs to
/// the letter. Its start is bimodal (the study shows one draw of it, 71 ms; ours are 41 to 133 ms), so one in ten runs has
/// more than 120 ms.
const MISSED_BY_ONE: &str = "longest wait of the slow one, worst run";

#[test]
fn the_shapes_of_the_study_come_out_in_every_run() {
    let rows = study(10);
    rows.iter().for_each(|row| println!("{row}"));
    let missed = rows.iter().filter(|row| row.is_missed());
    let missed: Vec<String> = missed
        .filter(|row| row.figure != MISSED_BY_ONE)
        .map(Row::to_string)
        .collect();
    assert!(missed.is_empty(), "seeds 101 to 110: {missed:#?}");
    let mut within = rows.iter();
    let within = within.find(|row| row.figure.starts_with("runs whose longest wait"));
    let within = within.expect("a row").ours;
    assert!(within >= 90.0, "{within} % of the runs");
}
