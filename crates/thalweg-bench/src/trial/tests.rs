use std::sync::atomic::AtomicBool;

use super::*;
use crate::calibrate::fake::{AtOnce, Fake, Fate, Service};
use crate::cell::{Driver, Extras, Leg, Link, Phases, Protocol, Workload};

const MS: u64 = 1_000_000;

/// Two flows of 100 messages a second for half a second at a broker that does everything at once.
fn cell(fake: &Fake) -> Cell {
    let leg = Leg::of(Protocol::Mqtt, 0);
    Cell {
        experiment: "tests".to_owned(),
        seed: 1,
        system: fake.address().to_string(),
        driver: Driver::Bare,
        publish: leg,
        subscribe: leg,
        workload: Workload::Fixed { bytes: 60 },
        load: Load::Open {
            rate: 100.0,
            flows: 2,
            arrivals: "periodic".to_owned(),
        },
        phases: Phases {
            settle_ns: 0,
            warmup_ns: 100 * MS,
            measure_ns: 500 * MS,
            drain_ns: 30_000 * MS,
        },
        ..Cell::blank()
    }
}

fn fake() -> Fake {
    Fake::start(Box::new(AtOnce)).expect("a port is free")
}

/// How many messages of a cell's schedule are due in the measured phase.
fn due(cell: &Cell) -> u64 {
    let schedule = Plan::of(cell)
        .expect("it is a plan")
        .schedule()
        .expect("it has one");
    schedule
        .filter(|item| item.at >= cell.phases.warmup_ns)
        .count() as u64
}

/// How busy this machine is must not decide whether a test holds.
fn is_whole(measured: &Measured) -> bool {
    matches!(
        measured.row.standing,
        Standing::Valid | Standing::GeneratorLimited(_)
    )
}

#[test]
fn every_message_of_the_measured_phase_comes_once_by_every_driver_and_quality() {
    let fake = fake();
    for driver in [Driver::Bare, Driver::Common] {
        for (qos, version) in [(0, 5), (1, 3), (1, 5), (2, 5)] {
            let leg = Leg {
                protocol: Protocol::Mqtt,
                qos,
                version,
                window: 20,
            };
            let cell = Cell {
                driver,
                publish: leg,
                subscribe: leg,
                fan_out: 2,
                ..cell(&fake)
            };
            let measured = run(&cell, &AtomicBool::new(false));
            let row = &measured.row;
            assert!(is_whole(&measured), "{driver:?} {qos}: {:?}", row.standing);
            assert_eq!(
                (row.intended, row.sent, row.expected),
                (due(&cell), due(&cell), 2 * due(&cell))
            );
            assert_eq!(
                (row.delivered, row.lost, row.duplicates, row.reordered),
                (2 * due(&cell), 0, 0, 0)
            );
            assert_eq!(
                (row.unacknowledged, row.payload_bytes),
                (0, 120 * due(&cell))
            );
            assert_eq!(
                (row.response.count, measured.service.len()),
                (row.delivered, row.delivered)
            );
            assert!(
                row.response.mean >= row.service.mean && row.service.p50 > 0.0,
                "{row:?}"
            );
            let all = row.more["delivered_all_phases"];
            assert_eq!(
                measured
                    .seconds
                    .iter()
                    .map(|second| second.received)
                    .sum::<u64>() as f64,
                all
            );
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
        let cell = Cell {
            workload: workload.clone(),
            ..cell(&fake)
        };
        let measured = run(&cell, &AtomicBool::new(false));
        assert_eq!(
            (measured.row.delivered, measured.row.lost),
            (due(&cell), 0),
            "{workload:?}"
        );
    }
    let cell = Cell {
        workload: Workload::Fixed { bytes: 3 },
        ..cell(&fake)
    };
    assert!(matches!(
        run(&cell, &AtomicBool::new(false)).row.standing,
        Standing::Invalid(_)
    ));
}

#[test]
fn a_closed_loop_has_one_message_of_a_flow_under_way() {
    let fake = fake();
    for (driver, qos) in [(Driver::Bare, 0), (Driver::Bare, 1), (Driver::Common, 2)] {
        let leg = Leg {
            protocol: Protocol::Mqtt,
            qos,
            version: 5,
            window: 1,
        };
        let load = Load::Closed {
            think_ns: 10 * MS,
            flows: 2,
        };
        let cell = Cell {
            driver,
            publish: leg,
            subscribe: leg,
            load,
            ..cell(&fake)
        };
        let row = run(&cell, &AtomicBool::new(false)).row;
        // Not more than the pause allows, and all of them there.
        assert!((2..=102).contains(&row.sent), "{row:?}");
        assert_eq!(
            (row.delivered, row.lost, row.duplicates, row.reordered),
            (row.sent, 0, 0, 0)
        );
    }
}

#[test]
fn idle_connections_are_there_until_the_end() {
    let fake = fake();
    let extras = Extras {
        idle: 25,
        ..Extras::default()
    };
    let row = run(
        &Cell {
            extras,
            ..cell(&fake)
        },
        &AtomicBool::new(false),
    )
    .row;
    assert_eq!(
        (row.more["idle_connections"], row.lost),
        (25.0, 0),
        "{row:?}"
    );
    assert!(row.more["idle_connects_per_s"] > 0.0);
    let row = run(&cell(&fake), &AtomicBool::new(false)).row;
    assert!(!row.more.contains_key("idle_connections"), "nobody asked");
}

#[test]
fn a_flood_has_neither_gaps_nor_repetitions() {
    let fake = fake();
    for driver in [Driver::Bare, Driver::Common] {
        let leg = Leg::of(Protocol::Mqtt, 1);
        let phases = Phases {
            settle_ns: 0,
            warmup_ns: 0,
            measure_ns: 200 * MS,
            drain_ns: 30_000 * MS,
        };
        let cell = Cell {
            driver,
            publish: leg,
            subscribe: leg,
            load: Load::Flood { flows: 3 },
            phases,
            ..cell(&fake)
        };
        let row = run(&cell, &AtomicBool::new(false)).row;
        assert!(row.sent > 100, "{row:?}");
        assert_eq!(
            (
                row.delivered,
                row.duplicates,
                row.reordered,
                row.unacknowledged
            ),
            (row.sent, 0, 0, 0),
            "{row:?}"
        );
    }
}

/// One message after the other, each for so long.
struct Slow {
    takes: u64,
    free: u64,
}

impl Service for Slow {
    fn serve(&mut self, _: &str, _: u64, now: u64) -> Fate {
        self.free = now.max(self.free) + self.takes;
        Fate::At(self.free)
    }
}

/// A window of 40,000 messages kept 20 s of this broker's work under way.
#[test]
fn a_flood_arrives_at_a_slow_broker_too() {
    let fake = Fake::start(Box::new(Slow {
        takes: MS / 2,
        free: 0,
    }))
    .expect("a port is free");
    let cell = Cell {
        load: Load::Flood { flows: 3 },
        phases: Phases {
            settle_ns: 0,
            warmup_ns: 300 * MS,
            measure_ns: 700 * MS,
            drain_ns: 10_000 * MS,
        },
        ..cell(&fake)
    };
    let measured = run(&cell, &AtomicBool::new(false));
    let row = &measured.row;
    assert!(is_whole(&measured), "{:?}", row.standing);
    assert!(row.sent > 0, "{row:?}");
    assert_eq!((row.delivered, row.lost), (row.sent, 0), "{row:?}");
}

/// A cell of an hour.
fn endless(fake: &Fake) -> Cell {
    let phases = Phases {
        settle_ns: 0,
        warmup_ns: 0,
        measure_ns: 3_600_000 * MS,
        drain_ns: 0,
    };
    Cell {
        phases,
        ..cell(fake)
    }
}

#[test]
fn a_trial_that_is_stopped_hands_over_what_it_has() {
    let fake = fake();
    let cell = endless(&fake);
    let stop = AtomicBool::new(false);
    let measured = thread::scope(|scope| {
        let trial = scope.spawn(|| run(&cell, &stop));
        thread::sleep(std::time::Duration::from_millis(600));
        stop.store(true, Ordering::Relaxed);
        trial.join().expect("it does not panic")
    });
    assert_eq!(
        measured.row.standing,
        Standing::Invalid("interrupted".to_owned())
    );
    assert!(measured.row.seconds < 3600.0);
}

#[test]
fn a_broker_that_is_not_there_or_goes_away_makes_a_trial_invalid() {
    let address = fake().address();
    let gone = Cell {
        system: address.to_string(),
        ..cell(&fake())
    };
    let row = run(&gone, &AtomicBool::new(false)).row;
    assert!(
        matches!(row.standing, Standing::Invalid(_)),
        "{:?}",
        row.standing
    );
    let fake = fake();
    let cell = endless(&fake);
    let row = thread::scope(|scope| {
        let trial = scope.spawn(|| run(&cell, &AtomicBool::new(false)).row);
        thread::sleep(std::time::Duration::from_millis(300));
        drop(fake);
        trial.join().expect("it does not panic")
    });
    assert!(
        matches!(row.standing, Standing::Invalid(_)),
        "{:?}",
        row.standing
    );
    let unknown = Cell {
        publish: Leg {
            protocol: Protocol::Dds,
            ..cell.publish
        },
        ..cell
    };
    assert!(matches!(
        run(&unknown, &AtomicBool::new(false)).row.standing,
        Standing::Invalid(_)
    ));
}

/// Protocols of both legs against a broker of its own, in namespaces.
#[test]
#[ignore = "needs root and THALWEG_BIN"]
fn the_common_client_measures_every_protocol_in_namespaces() {
    let of = |protocol: Protocol| Leg::of(protocol, 1);
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
        let fake = fake();
        let mut cell = Cell {
            system: "thalweg".to_owned(),
            driver: Driver::Common,
            ..cell(&fake)
        };
        (cell.publish, cell.subscribe) = (of(publish), of(subscribe));
        cell.link = Link {
            namespaces: true,
            loss,
            ..cell.link
        };
        cell.phases = Phases {
            settle_ns: 500 * MS,
            warmup_ns: 0,
            measure_ns: 2000 * MS,
            drain_ns: 30_000 * MS,
        };
        cell.load = Load::Open {
            rate: 20.0,
            flows: 5,
            arrivals: "periodic".to_owned(),
        };
        let measured = run(&cell, &AtomicBool::new(false));
        let row = &measured.row;
        println!(
            "{publish:?} to {subscribe:?} at {loss}: {:?}\n  {} of {} came, {} unacknowledged; response {:.0}/{:.0}/{:.0} us; service p50 {:.0} us; \
             lag p99 {:.0} us; {:?} bytes {:?} frames, link {:?}; broker {:.2} s {} KiB, client {:.2} s; {:?}",
            row.standing,
            row.delivered,
            row.intended,
            row.unacknowledged,
            row.response.p50,
            row.response.p99,
            row.response.max,
            row.service.p50,
            row.lag_p99_us,
            row.wire_bytes
                .map(|bytes| bytes as f64 / row.delivered as f64),
            row.wire_frames
                .map(|frames| frames as f64 / row.delivered as f64),
            row.link_lost,
            row.cpu_broker_s,
            row.rss_broker_kib,
            row.cpu_client_s,
            row.more,
        );
        assert!(is_whole(&measured), "{:?}", row.standing);
        assert_eq!(
            (row.intended, row.delivered, row.lost, row.unacknowledged),
            (200, 200, 0, 0)
        );
        assert!(
            row.more.contains_key("publish_leg_bytes"),
            "{:?}",
            measured.events
        );
        assert!(row.wire_bytes > Some(200 * 60) && row.link_lost.is_some());
        assert_eq!(row.link_lost.is_some_and(|(lost, _)| lost > 0), loss > 0.0);
    }
}
