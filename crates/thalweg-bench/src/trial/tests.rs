use std::sync::atomic::AtomicBool;

use super::*;
use crate::calibrate::fake::{Fake, Fate};
use crate::cell::{Driver, Leg, Link, Protocol, Workload};
use crate::studies::plan::{self, phases};

const MS: u64 = 1_000_000;

/// Two flows of 100 messages a second for half a second at a broker that does everything at once; and what is different.
fn cell(fake: &Fake, change: impl FnOnce(&mut Cell)) -> Cell {
    let leg = Leg::of(Protocol::Mqtt, 0);
    let cell = plan::cell("tests", &fake.address().to_string(), leg).open(100.0, 2);
    let cell = cell.with(|cell| {
        (cell.driver, cell.phases) = (Driver::Bare, phases(0.0, 0.1, 0.5, 30.0));
    });
    cell.with(change).into_cell()
}

fn fake() -> Fake {
    Fake::start(Box::new(|_, _, now| Fate::At(now))).expect("a port is free")
}

fn measure(cell: &Cell) -> Measured {
    run(cell, &AtomicBool::new(false))
}

/// How many messages of a cell's schedule are due in the measured phase.
fn due(cell: &Cell) -> u64 {
    let plan = Plan::of(cell).expect("it is a plan");
    let schedule = plan.schedule().expect("it has one");
    let counts = schedule.filter(|item| item.at >= cell.phases.warmup_ns);
    counts.count() as u64
}

/// How busy this machine is must not decide whether a test holds.
fn is_whole(row: &Row) -> bool {
    let standing = &row.standing;
    matches!(standing, Standing::Valid | Standing::GeneratorLimited(_))
}

fn is_invalid(row: &Row) -> bool {
    matches!(row.standing, Standing::Invalid(_))
}

fn both(cell: &mut Cell, leg: Leg) {
    (cell.publish, cell.subscribe) = (leg, leg);
}

#[test]
fn every_message_of_the_measured_phase_comes_once_by_every_driver_and_quality() {
    let fake = fake();
    for driver in [Driver::Bare, Driver::Common] {
        for (qos, version) in [(0, 5), (1, 3), (1, 5), (2, 5)] {
            let cell = cell(&fake, |cell| {
                let leg = Leg::of(Protocol::Mqtt, qos);
                both(cell, Leg { version, ..leg });
                (cell.driver, cell.fan_out) = (driver, 2);
            });
            let measured = measure(&cell);
            let (row, due) = (&measured.row, due(&cell));
            assert!(is_whole(row), "{driver:?} {qos}: {:?}", row.standing);
            assert_eq!((row.intended, row.sent, row.expected), (due, due, 2 * due));
            let arrived = (row.delivered, row.lost, row.duplicates, row.reordered);
            assert_eq!(arrived, (2 * due, 0, 0, 0));
            assert_eq!((row.unacknowledged, row.payload_bytes), (0, 120 * due));
            let counts = (row.response.count, measured.service.len());
            assert_eq!(counts, (row.delivered, row.delivered));
            let is_longer = row.response.mean >= row.service.mean;
            assert!(is_longer && row.service.p50 > 0.0, "{row:?}");
            let all = row.more["delivered_all_phases"];
            let seconds = measured.seconds.iter().map(|second| second.received);
            assert_eq!(seconds.sum::<u64>() as f64, all);
            assert!(all > row.delivered as f64);
        }
    }
}

#[test]
fn times_of_small_messages_are_in_the_table_and_json_is_json() {
    let fake = fake();
    for workload in [
        Workload::Fixed { bytes: 4 },
        Workload::Fixed { bytes: 20 },
        Workload::Json { bytes: 200 },
    ] {
        let cell = cell(&fake, |cell| cell.workload = workload);
        let row = measure(&cell).row;
        assert_eq!((row.delivered, row.lost), (due(&cell), 0), "{cell:?}");
    }
    let cell = cell(&fake, |cell| cell.workload = Workload::Fixed { bytes: 3 });
    assert!(is_invalid(&measure(&cell).row));
}

#[test]
fn a_closed_loop_has_one_message_of_a_flow_under_way() {
    let fake = fake();
    for (driver, qos) in [(Driver::Bare, 0), (Driver::Bare, 1), (Driver::Common, 2)] {
        let cell = cell(&fake, |cell| {
            let leg = Leg::of(Protocol::Mqtt, qos);
            both(cell, Leg { window: 1, ..leg });
            cell.driver = driver;
            cell.load = Load::Closed {
                think_ns: 10 * MS,
                flows: 2,
            };
        });
        let row = measure(&cell).row;
        // Not more than the pause allows, and all of them there.
        assert!((2..=102).contains(&row.sent), "{row:?}");
        let arrived = (row.delivered, row.lost, row.duplicates, row.reordered);
        assert_eq!(arrived, (row.sent, 0, 0, 0));
    }
}

#[test]
fn idle_connections_are_there_until_the_end() {
    let fake = fake();
    let row = measure(&cell(&fake, |cell| cell.extras.idle = 25)).row;
    let found = (row.more["idle_connections"], row.lost);
    assert_eq!(found, (25.0, 0), "{row:?}");
    assert!(row.more["idle_connects_per_s"] > 0.0);
    let row = measure(&cell(&fake, |_| {})).row;
    assert!(!row.more.contains_key("idle_connections"), "not asked for");
}

#[test]
fn a_flood_has_neither_gaps_nor_repetitions() {
    let fake = fake();
    for driver in [Driver::Bare, Driver::Common] {
        let cell = cell(&fake, |cell| {
            both(cell, Leg::of(Protocol::Mqtt, 1));
            cell.driver = driver;
            cell.load = Load::Flood { flows: 3 };
            cell.phases = phases(0.0, 0.0, 0.2, 30.0);
        });
        let row = measure(&cell).row;
        assert!(row.sent > 100, "{row:?}");
        let wrong = (row.duplicates, row.reordered, row.unacknowledged);
        assert_eq!((row.delivered, wrong), (row.sent, (0, 0, 0)), "{row:?}");
    }
}

/// A window of 40,000 messages kept 20 s of this broker's work under way.
#[test]
fn a_flood_arrives_at_a_slow_broker_too() {
    // One message after the other.
    let mut free = 0;
    let service = move |_: &str, _: u64, now: u64| {
        free = now.max(free) + MS / 2;
        Fate::At(free)
    };
    let fake = Fake::start(Box::new(service)).expect("a port is free");
    let row = measure(&cell(&fake, |cell| {
        cell.load = Load::Flood { flows: 3 };
        cell.phases = phases(0.0, 0.3, 0.7, 10.0);
    }))
    .row;
    assert!(is_whole(&row) && row.sent > 0, "{row:?}");
    assert_eq!((row.delivered, row.lost), (row.sent, 0), "{row:?}");
}

/// A cell of an hour.
fn endless(fake: &Fake) -> Cell {
    cell(fake, |cell| cell.phases = phases(0.0, 0.0, 3600.0, 0.0))
}

#[test]
fn a_trial_that_is_stopped_hands_over_what_it_has() {
    let fake = fake();
    let (cell, stop) = (endless(&fake), AtomicBool::new(false));
    let row = thread::scope(|scope| {
        let trial = scope.spawn(|| run(&cell, &stop).row);
        thread::sleep(std::time::Duration::from_millis(600));
        stop.store(true, Ordering::Relaxed);
        trial.join().expect("it does not panic")
    });
    assert_eq!(row.standing, Standing::Invalid("interrupted".to_owned()));
    assert!(row.seconds < 3600.0);
}

#[test]
fn a_broker_that_is_not_there_or_goes_away_makes_a_trial_invalid() {
    let address = fake().address();
    let fake = fake();
    let gone = cell(&fake, |cell| cell.system = address.to_string());
    let row = measure(&gone).row;
    assert!(is_invalid(&row), "{:?}", row.standing);
    let unknown = cell(&fake, |cell| cell.publish.protocol = Protocol::Dds);
    assert!(is_invalid(&measure(&unknown).row));
    let cell = endless(&fake);
    let row = thread::scope(|scope| {
        let trial = scope.spawn(|| measure(&cell).row);
        thread::sleep(std::time::Duration::from_millis(300));
        drop(fake);
        trial.join().expect("it does not panic")
    });
    assert!(is_invalid(&row), "{:?}", row.standing);
}

/// Protocols of both legs against a broker of its own, in namespaces.
#[test]
#[ignore = "needs root and THALWEG_BIN"]
fn the_common_client_measures_every_protocol_in_namespaces() {
    use Protocol::{Amqp, Coap, Mqtt, Stomp, Xmpp};
    for (publish, subscribe, loss) in [
        (Mqtt, Mqtt, 0.0),
        (Coap, Coap, 0.0),
        (Amqp, Amqp, 0.0),
        (Stomp, Stomp, 0.0),
        (Xmpp, Xmpp, 0.0),
        (Mqtt, Coap, 0.0),
        (Mqtt, Mqtt, 0.1),
    ] {
        let cell = cell(&fake(), |cell| {
            (cell.system, cell.driver) = ("thalweg".to_owned(), Driver::Common);
            (cell.publish, cell.subscribe) = (Leg::of(publish, 1), Leg::of(subscribe, 1));
            (cell.link, cell.link.loss) = (Link::CABLE, loss);
            cell.phases = phases(0.5, 0.0, 2.0, 30.0);
            cell.load = Load::open(20.0, 5);
        });
        let measured = measure(&cell);
        let row = &measured.row;
        println!("{publish:?} to {subscribe:?} at {loss}: {row:?}");
        assert!(is_whole(row), "{:?}", row.standing);
        let arrived = (row.intended, row.delivered, row.lost, row.unacknowledged);
        assert_eq!(arrived, (200, 200, 0, 0));
        let has_causes = row.more.contains_key("publish_leg_bytes");
        assert!(has_causes, "{:?}", measured.events);
        assert!(row.wire_bytes > Some(200 * 60));
        let link = row.link_lost.expect("it is counted");
        assert_eq!(link.0 > 0, loss > 0.0);
    }
}
