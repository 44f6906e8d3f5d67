//! Members of a group that lie about their load, or talk nonsense about it: they stay, others get their messages, and the
//! liar gets no more than three times what is fair.

use std::sync::atomic::AtomicU32;

use super::*;
use crate::groups::line::{Came, MqttConnection};
use crate::groups::log::Log;
use crate::groups::publisher::{Publisher, number};
use crate::groups::worker::{GLANCE, Work, Worker};

const FILTER: &str = "$share/crew/jobs";
const MESSAGES: u32 = 400;

/// PINGREQ with this behind these properties.
fn ping(all: &[u8], report: &[u8]) -> Vec<u8> {
    packet(0xC0, &[&properties(all), report].concat())
}

fn json(waiting: &str, each: &str) -> String {
    format!(r#"{{"msgsInQueue":{waiting},"processingTimePerMsg":{each}}}"#)
}

/// PUBACK with a report.
fn ack_saying(id: u16, report: &str) -> Vec<u8> {
    packet(
        PUBACK,
        &[
            &id.to_be_bytes()[..],
            &[0],
            &properties(&property::user("lb", report)),
        ]
        .concat(),
    )
}

/// Values that no load report may have.
fn nonsense() -> Vec<String> {
    let numbers = [
        "NaN",
        "-1",
        "-1e300",
        "1e300",
        "1e999",
        "99999999999999999999",
        "\"3\"",
        "null",
        "true",
        "[1]",
        "",
    ];
    let mut all: Vec<String> = numbers.iter().map(|number| json(number, number)).collect();
    all.extend([json("0", "-25.0"), json("-3", "25.0"), json("0", "1e300")]);
    all.extend(["", "{", "[", "{}", "\0", "{\"msgsInQueue\":", "null"].map(str::to_owned));
    all.push(format!("{}1{}", "[".repeat(500), "]".repeat(500)));
    all.push(json("1", &"9".repeat(2000)));
    all
}

/// Bodies of PINGREQ that are malformed before the report begins, and unknown units.
fn broken_pings() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        &[0x7F][..],
        &[0x80],
        &[0xFF, 0xFF, 0xFF, 0xFF],
        &[0xFF, 0xFF, 0xFF, 0x7F],
        &[0x05, 0x26, 0x00, 0x04, 0x75],
        &[0x03, 0x26, 0xFF, 0xFF],
        b"\xFF{}",
    ]
    .iter()
    .map(|body| packet(0xC0, body))
    .collect();
    let idle = json("0", "0.01");
    for unit in ["fortnight", "", "s", "MS"] {
        all.push(ping(&property::user("unit", unit), idle.as_bytes()));
    }
    all.push(ping(
        &property::byte(property::PAYLOAD_FORMAT, 1),
        idle.as_bytes(),
    ));
    all
}

/// How a lying member acknowledges a message, and its report.
type Talk = fn(&mut MqttConnection, u16, u32);

fn claims_to_be_idle_in_pings(line: &mut MqttConnection, id: u16, _: u32) {
    for _ in 0..5 {
        line.send(&ping(&[], json("0", "0.01").as_bytes()));
    }
    line.send(&ack(PUBACK, id));
}

fn claims_to_be_idle_in_acks(line: &mut MqttConnection, id: u16, _: u32) {
    line.send(&ack_saying(id, "0;0.01"));
}

fn claims_to_be_idle_at_the_address(line: &mut MqttConnection, id: u16, turn: u32) {
    let report = Publish::new("$load/report", json("0", "0.01")).qos((turn % 2) as u8, 9);
    line.send(&[report.bytes(V5), ack(PUBACK, id)].concat());
}

fn names_the_wrong_unit(line: &mut MqttConnection, id: u16, _: u32) {
    line.send(&ping(
        &property::user("unit", "ns"),
        json("0", "20").as_bytes(),
    ));
    line.send(&ack(PUBACK, id));
}

fn talks_nonsense(line: &mut MqttConnection, id: u16, turn: u32) {
    let (all, broken) = (nonsense(), broken_pings());
    let text = &all[turn as usize % all.len()];
    line.send(&ping(&[], text.as_bytes()));
    line.send(&broken[turn as usize % broken.len()]);
    line.send(&Publish::new("$load/report", text).bytes(V5));
    line.send(&Publish::new("$load/report", text).qos(1, 9).bytes(V5));
    let garbage = [
        "NaN;NaN",
        "-1;-1",
        "1e300;1e300",
        ";",
        "",
        "0;",
        "0;0;0",
        "a;b",
        "18446744073709551616;0",
    ];
    line.send(&ack_saying(id, garbage[turn as usize % garbage.len()]));
}

/// A member that does `work` for a message, and talks.
fn liar(broker: SocketAddr, work: Work, talk: Talk, log: &Log) -> Worker {
    let mut line = MqttConnection::connect(broker, &Connect::new(V5, "liar"));
    assert!(line.subscribe(FILTER, 1));
    let log = log.clone();
    Worker::run(move |stop| {
        let mut turn = 0;
        while !stop.load(Ordering::Relaxed) {
            match line.next(GLANCE) {
                Came::Packet(Packet::Publish(message)) => {
                    log.taken("liar", number(&message.payload), message.dup);
                    work.do_it("liar", &log);
                    turn += 1;
                    talk(&mut line, message.id, turn);
                    log.settled(number(&message.payload));
                }
                Came::Packet(Packet::Pingresp | Packet::Ack { .. }) | Came::Nothing => {}
                other => panic!("the liar got {other:?}"),
            }
        }
        assert!(line.until_pong().is_some(), "it was not cut off");
    })
}

/// So many messages for a liar and others; how many each got.
fn shares(
    victim: &Victim,
    work: Work,
    talk: Talk,
    others: usize,
    others_work: Duration,
) -> (usize, usize) {
    let (address, log) = (victim.broker.mqtt(), Log::default());
    let honest: Vec<Worker> = (0..others)
        .map(|number| {
            Worker::start(
                address,
                &format!("honest{number}"),
                FILTER,
                others_work,
                &log,
            )
        })
        .collect();
    let liar = liar(address, work, talk, &log);
    let mut publisher = Publisher::new(address, "jobs");
    publisher.publish_until(&log, 2 * others, |count| count >= MESSAGES);
    log.wait_for_all(MESSAGES);
    let entries = log.read();
    let (lies, all) = (entries.share("liar"), entries.all.len());
    println!("liar {lies} of {all}: {:?}", entries.shares());
    drop(entries);
    liar.stop();
    honest.into_iter().for_each(Worker::stop);
    (lies, all)
}

#[test]
fn a_slow_member_that_lies_or_talks_nonsense_stays_and_gets_little() {
    let Some(victim) = Victim::with(Broker::with()) else {
        return;
    };
    for (what, talk) in [
        ("idle in pings", claims_to_be_idle_in_pings as Talk),
        ("idle in acknowledgements", claims_to_be_idle_in_acks),
        ("idle at the address", claims_to_be_idle_at_the_address),
        ("wrong unit", names_the_wrong_unit),
        ("nonsense", talks_nonsense),
    ] {
        // A fifth of the speed of each of two others: a share of 1 in 11 is fair.
        let (lies, all) = shares(&victim, Work::Behind(10), talk, 2, Duration::from_millis(5));
        assert!(lies * 11 <= 3 * all, "{what}: {lies} of {all}");
    }
    assert!(victim.figure("thalweg_groups_reports_total") > 0);
    victim.assert_unharmed("members that lie", 48 << 10);
}

#[test]
#[ignore = "counts on answers within a millisecond, which a machine with much else to do does not give"]
fn a_member_that_acknowledges_at_once_and_claims_to_be_idle_does_not_take_all() {
    let Some(victim) = Victim::with(Broker::with()) else {
        return;
    };
    for talk in [
        claims_to_be_idle_in_pings as Talk,
        claims_to_be_idle_in_acks,
    ] {
        // One of ten.
        let (lies, all) = shares(
            &victim,
            Duration::ZERO.into(),
            talk,
            9,
            Duration::from_millis(10),
        );
        assert!(lies * 10 <= 3 * all, "{lies} of {all}");
    }
    victim.assert_unharmed("members that claim to have done it", 48 << 10);
}

#[test]
fn a_flood_of_reports_costs_those_who_send_it() {
    let Some(victim) = Victim::with(Broker::with()) else {
        return;
    };
    let (address, log) = (victim.broker.mqtt(), Log::default());
    let worker = Worker::start(address, "worker", FILTER, Duration::from_millis(1), &log);
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let reports = again_and_again(3, move |_, luck| {
        let name = format!("reporter{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut line = MqttConnection::connect(address, &Connect::new(V5, &name));
        assert!(line.subscribe(FILTER, 0));
        let (all, broken) = (nonsense(), broken_pings());
        // A second's worth of one that reports a thousand times a second.
        for _ in 0..20 {
            let burst: Vec<u8> = (0..50)
                .flat_map(|_| match luck.below(4) {
                    0 => broken[luck.below(broken.len())].clone(),
                    1 => ping(&[], all[luck.below(all.len())].as_bytes()),
                    2 => ping(&[], json("0", "0.01").as_bytes()),
                    _ => Publish::new("$load/report", &all[luck.below(all.len())]).bytes(V5),
                })
                .collect();
            line.send(&burst);
            assert!(line.until_pong().is_some(), "{name} was cut off");
        }
        if luck.below(4) == 0 {
            line.send(&packet(0xC0, &vec![b'{'; 2_000_000]));
            assert!(line.until_pong().is_some(), "{name} was cut off");
        }
        line.leave();
    });
    println!("{} reports", reports * 1000);
    let mut publisher = Publisher::new(address, "jobs");
    publisher.publish_until(&log, 5, |count| count >= 50);
    log.wait_for_all(50);
    worker.stop();
    victim.assert_unharmed("a flood of reports", 64 << 10);
}
