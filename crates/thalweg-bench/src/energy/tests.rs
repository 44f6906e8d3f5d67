use super::*;
use crate::recommend::published::blank_cell;

/// A message of which both legs took so much.
fn trial(bytes: u64, frames: u64, cpu_client_us: f64) -> (Cell, Row) {
    let cell = Cell {
        load: Load::open(1.0, 1),
        ..blank_cell()
    };
    let row = Row {
        delivered: 1000,
        sent: 1000,
        seconds: 1000.0,
        wire_bytes: Some(1000 * bytes),
        wire_frames: Some(1000 * frames),
        cpu_client_s: cpu_client_us * 1e-3,
        cpu_broker_s: 0.02,
        rss_broker_kib: 10_240,
        ..Row::blank(crate::cell::Standing::Valid)
    };
    (cell, row)
}

/// Processor, frames, bytes and tail.
fn parts((cell, row): &(Cell, Row), profile: &str) -> [f64; 4] {
    let message = Message::of(cell, row).expect("it was counted");
    message.parts(named(profile).expect("it is there"))
}

/// Computed from the protocols' rules: 554 bytes at QoS 1 and 334 with CON, half of them at the device.
#[test]
fn a_telosb_takes_half_a_millijoule_for_qos_1_and_a_third_for_con() {
    let [qos1, con] = [(554, 6), (334, 4)].map(|(bytes, frames)| {
        let (cell, row) = trial(bytes, frames, 0.0);
        total(named("telosb").expect("it is there"), &cell, &row).expect("it was counted")
    });
    assert!((450.0..550.0).contains(&qos1), "{qos1} uJ");
    assert!((270.0..330.0).contains(&con), "{con} uJ");
}

/// Five to nine frames of 0.3 to 0.4 mJ for a message: the frames decide, not what is in them.
#[test]
fn frames_decide_in_80211() {
    for (bytes, frames) in [(554, 8), (834, 14), (334, 4)] {
        let [_, in_frames, in_bytes, _] = parts(&trial(bytes, frames, 0.0), "wifi-feeney");
        assert!(in_frames > 3.0 * in_bytes, "{in_frames} and {in_bytes}");
        let each = in_frames / (frames as f64 / 2.0);
        assert!((300.0..400.0).contains(&each), "{each}");
    }
}

#[test]
fn pure_acknowledgements_decide_the_rank_and_bytes_alone_would_not() {
    // The same bytes in more frames.
    let (few, many) = (trial(600, 4, 0.0), trial(590, 8, 0.0));
    let ranks = ranks(&[(&few.0, &few.1), (&many.0, &many.1)]);
    let of = |profile: &str, trial| {
        let it = ranks
            .iter()
            .find(|it| it.profile == profile && it.trial == trial)
            .expect("all are ranked");
        (it.rank, it.rank_stable)
    };
    assert_eq!(
        (of("wifi-feeney", 0), of("wifi-feeney", 1)),
        ((1, true), (2, true))
    );
    // A sensor's radio pays for bytes only, and its processor did nothing: stable as well, the other way round.
    assert_eq!((of("telosb", 0), of("telosb", 1)), ((2, true), (1, true)));
}

/// One has fewer bytes, the other takes less time: which is better depends on coefficients that are known to a factor
/// of two at best.
#[test]
fn a_rank_that_depends_on_a_coefficient_says_so() {
    let (computes, sends) = (trial(400, 4, 80.0), trial(520, 4, 10.0));
    let ranks = ranks(&[(&computes.0, &computes.1), (&sends.0, &sends.1)]);
    assert!(
        ranks
            .iter()
            .filter(|it| it.profile == "telosb")
            .all(|it| !it.rank_stable),
        "{ranks:?}"
    );
    let cloud: Vec<_> = ranks.iter().filter(|it| it.profile == "cloud").collect();
    assert!(
        cloud.iter().all(|it| it.rank_stable) && cloud[0].rank == 1,
        "{cloud:?}"
    );
}

#[test]
fn parts_add_up_and_follow_the_formula() {
    let (cell, row) = trial(554, 8, 40.0);
    for profile in PROFILES.iter() {
        let sum: f64 = parts(&(cell.clone(), row.clone()), &profile.name)
            .iter()
            .sum();
        assert!((sum - total(profile, &cell, &row).expect("counted")).abs() < 1e-9);
    }
    let mut often = trial(554, 8, 0.0);
    often.0.load = Load::open(100.0, 1);
    let once = (cell, row);
    for (trial, profile, part, expected) in [
        // 20 us of this machine are 7.5 ms of an MSP430 with 5.49 mW.
        (&once, "telosb", 0, 41.175),
        // Two frames each way at the device.
        (&once, "wifi-feeney", 1, 2.0 * (420.0 + 330.0)),
        // One awakening of 200 ms at 3.7 mW; a radio that is awake is not woken.
        (&once, "android-wifi", 3, 740.0),
        (&often, "android-wifi", 3, 37.0),
        // 3.6 uJ for each byte, 10 MiB for a second at 0.445 W/GB, 20 us of a processor.
        (&once, "cloud", 2, 1994.4),
        (&once, "cloud", 3, 1e6 * 0.392 * 1.135 * 0.010_485_76),
    ] {
        let found = parts(trial, profile)[part];
        assert!((found - expected).abs() < 1e-6, "{profile} {part}: {found}");
    }
}

#[test]
fn what_was_not_counted_has_no_energy() {
    let (cell, row) = trial(554, 8, 0.0);
    let without = |change: fn(&mut Row)| {
        let mut row = row.clone();
        change(&mut row);
        ranks(&[(&cell, &row)])
    };
    assert!(without(|row| row.wire_frames = None).is_empty());
    assert!(without(|row| row.wire_bytes = None).is_empty());
    assert!(without(|row| row.delivered = 0).is_empty());
    assert_eq!(without(|_| {}).len(), PROFILES.len());
}

/// The client's calibration has the same coefficients.
#[test]
fn the_clients_profiles_are_these() {
    let shipped: serde_json::Value =
        serde_json::from_str(include_str!("../../../thalweg-client/calibration.json"))
            .expect("it is JSON");
    let theirs = shipped["energy"].as_array().expect("a list");
    assert_eq!(theirs.len(), 4);
    for theirs in theirs {
        let ours = named(theirs["profile"].as_str().expect("a name")).expect("we have it");
        let pairs = [
            ("sent_frame_uj", ours.sent_frame_uj),
            ("sent_byte_uj", ours.sent_byte_uj),
            ("received_frame_uj", ours.received_frame_uj),
            ("received_byte_uj", ours.received_byte_uj),
        ];
        for (name, it) in pairs {
            let their = theirs[name].as_f64().expect("a number");
            assert!(
                (it - their).abs() <= 0.01 * their,
                "{} {name}: {it}, {their}",
                ours.name
            );
        }
    }
}
