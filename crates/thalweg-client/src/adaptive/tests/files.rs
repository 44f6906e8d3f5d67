//! Calibrations as files.

use super::super::Calibration;

#[test]
fn the_one_that_ships_is_read_and_written_the_same() {
    let built_in = Calibration::built_in();
    let shipped =
        Calibration::from_json(include_str!("../../../calibration.json")).expect("it is one");
    assert_eq!(built_in, shipped);
    assert!(
        shipped.table.len() > 50 && shipped.protocols.len() >= 5,
        "it knows something"
    );
    assert_eq!(Calibration::from_json(&shipped.to_json()), Ok(shipped));
}

#[test]
fn mistakes_are_told_by_their_names() {
    let good = Calibration::built_in().to_json();
    let changes = [
        (
            "\"version\": 1",
            "\"version\": 2",
            "`thalweg-calibration` 2",
        ),
        ("\"tcp\"", "\"tpc\"", "`tcp` is missing"),
        (
            "\"segment_bytes\": 1448",
            "\"segment_bytes\": 1448, \"segment_kb\": 1",
            "`segment_kb` is not known in `tcp`",
        ),
        (
            "\"segment_bytes\": 1448",
            "\"segment_bytes\": -1",
            "`segment_bytes` is -1",
        ),
        (
            "\"segment_bytes\": 1448",
            "\"segment_bytes\": \"1448\"",
            "`segment_bytes` is no number",
        ),
        (
            "\"segment_bytes\": 1448",
            "\"segment_bytes\": 1448, \"segment_bytes\": 9",
            "`segment_bytes` is there twice",
        ),
        (
            "\"medium\": \"stream\"",
            "\"medium\": \"smoke\"",
            "`medium` is `smoke`",
        ),
        (
            "\"energy_profile\": \"wifi-feeney\"",
            "\"energy_profile\": \"sun\"",
            "no energy profile `sun`",
        ),
        (
            "\"loss_percent\": 0",
            "\"loss_percent\": null",
            "neither object",
        ),
    ];
    for (from, to, words) in changes {
        assert!(good.contains(from), "{from}");
        let told = Calibration::from_json(&good.replacen(from, to, 1))
            .expect_err(to)
            .to_string();
        assert!(told.contains(words), "{to}: {told}");
    }
    for end in 0..good.len().min(3000) {
        assert!(good.is_char_boundary(end) && Calibration::from_json(&good[..end]).is_err());
    }
    assert!(Calibration::from_json(&"[".repeat(100_000)).is_err());
    assert!(Calibration::from_json(&(good + "x")).is_err());
}
