//! E2a to E2c: delay and bytes of MQTT and CoAP through a link that loses packets (study B).

use super::fragments;
use super::group::{Group, has};
use super::shape::{Evidence, Found, Shape};
use crate::report::stat::{Stat, short};

const LOSSES: [u32; 6] = [0, 5, 10, 15, 20, 25];
/// Sizes of E2c.
const SIZES: [u32; 9] = [20, 60, 200, 600, 1200, 2000, 4000, 8000, 16_000];
/// Ethernet bytes computed from the protocols' rules for 60 bytes without loss, both legs.
const RECKONED_60: [(&str, f64); 5] = [
    ("mqtt-q0", 410.0),
    ("mqtt-q1", 554.0),
    ("mqtt-q2", 834.0),
    ("coap-con", 334.0),
    ("coap-non", 288.0),
];

/// One of the two columns.
#[derive(Clone, Copy)]
struct Column<'g> {
    groups: &'g [Group],
    is_ours: bool,
}

impl<'g> Column<'g> {
    /// The group with these words. Fragments, whose both ends are this laboratory's, and E2a, where something is different, are
    /// found only by their names.
    fn get(self, words: &str) -> Option<&'g Group> {
        let is_it = |group: &&Group| {
            let (system, experiment) = (&group.cell.system, &group.cell.experiment);
            let is_fragments = system == fragments::SYSTEM;
            has(&group.cell, words)
                && experiment.starts_with("E2")
                && words.contains("E2a") == (experiment == "E2a")
                && words.contains(fragments::SYSTEM) == is_fragments
                && (is_fragments || self.is_ours == (system == "thalweg"))
        };
        self.groups.iter().find(is_it)
    }

    fn bytes(self, way: &str, bytes: u32, loss: u32) -> Option<Stat> {
        self.get(&format!("{way} {bytes} {loss}%"))?.wire_bytes()
    }

    /// Of CON in IP fragments.
    fn fragments(self, bytes: u32, loss: u32) -> Option<Stat> {
        self.bytes(fragments::SYSTEM, bytes, loss)
    }

    /// Mean delays of QoS 1 and CON of 60 bytes.
    fn delays(self, mqtt: &str, coap: &str, loss: u32) -> Option<(Stat, Stat)> {
        let delay = |words| self.get(&format!("{words} 60 {loss}%"))?.mean_ms();
        Some((delay(mqtt)?, delay(coap)?))
    }
}

/// What became of S2.0 to S2.6.
pub fn shapes(groups: &[Group]) -> Vec<Shape> {
    let column = |is_ours| Column { groups, is_ours };
    let both = |id, judge: fn(Column<'_>) -> Found| {
        Shape::of(id, judge(column(false)), judge(column(true)))
    };
    vec![
        both("S2.0", delivery),
        both("S2.1", growth),
        both("S2.2", crossing),
        both("S2.3", by_qos),
        both("S2.4", small),
        both("S2.5", large),
        both("S2.6", overhead),
    ]
}

fn delivery(column: Column<'_>) -> Found {
    let mut all = Evidence::default();
    let mut is_confirmed = false;
    for (way, _) in RECKONED_60 {
        let mut least: Option<(f64, u32, String)> = None;
        for loss in LOSSES {
            let group = column.get(&format!("{way} 60 {loss}%"));
            let Some((group, came)) = group.and_then(|it| Some((it, it.delivered_percent()?.mean)))
            else {
                continue;
            };
            let name = group.way();
            if least.as_ref().is_none_or(|(percent, ..)| came < *percent) {
                least = Some((came, loss, name.clone()));
            }
            if way != "coap-non" {
                all.fault(came < 99.5, format!("{name} at {loss} %: {came:.2} %"));
                continue;
            }
            let count: u64 = group.rows.iter().map(|row| row.expected).sum();
            // 99 % of what chance does, and a message more.
            let reach = |part: f64| {
                2.576 * (part * (1.0 - part) / count as f64).sqrt() + 1.0 / count as f64
            };
            let one = 1.0 - f64::from(loss) / 100.0;
            let (both, part) = (one * one, came / 100.0);
            if (part - both).abs() > reach(both) {
                // The broker has a notification confirmed now and then (RFC 7641 §4.5), and the first of each
                // observation to learn the round trip: between one leg that loses and two.
                let is_between = part > both && part < one + reach(one);
                is_confirmed |= is_between;
                let expected = 100.0 * both;
                let words = format!("NON at {loss} %: {came:.1} % came, {expected:.1} expected");
                all.fault(!is_between, words);
            }
        }
        if let Some((percent, loss, name)) = least {
            all.figure(format!("{name} at least {percent:.2} % (at {loss} %)"));
        }
    }
    let found = all.found(", ");
    match is_confirmed {
        true => found.under(
            "NON delivers more than (1 - p)², as some notifications are confirmable: the first of each observation and one in \
             some (RFC 7641 4.5)",
        ),
        false => found,
    }
}

fn growth(column: Column<'_>) -> Found {
    let mut all = Evidence::default();
    for way in ["mqtt-q1", "coap-con"] {
        let mean = |loss: &u32| {
            let group = column.get(&format!("{way} 60 {loss}%"))?;
            Some((*loss, group.mean_ms()?.mean, error_ms(group), group.way()))
        };
        let means: Vec<_> = LOSSES.iter().filter_map(mean).collect();
        let [first, _, .., last] = means.as_slice() else {
            continue;
        };
        let way = &first.3;
        let words = means
            .iter()
            .map(|(_, mean, error, _)| format!("{} ± {}", short(*mean), short(*error)));
        let words: Vec<String> = words.collect();
        all.figure(format!("{way} {} ms", words.join(", ")));
        for ((_, less, one, _), (loss, more, two, _)) in means.iter().zip(means.iter().skip(1)) {
            // Means of so few waits, most of them none, vary.
            all.fault(
                more + one.hypot(*two) < *less,
                format!("{way} is quicker at {loss} % than before it"),
            );
        }
        all.fault(
            last.1 <= first.1 + first.2.hypot(last.2),
            format!("{way} is not slower at {} % than at {} %", last.0, first.0),
        );
    }
    all.found("; ")
}

/// Half of the 95 % interval of a mean response time, by the spread of single messages.
fn error_ms(group: &Group) -> f64 {
    let (count, squares) = group.rows.iter().fold((0.0, 0.0), |(count, squares), row| {
        let of = row.response.count as f64;
        (count + of, squares + of * (row.response.sd * 1e-3).powi(2))
    });
    if count > 0.0 {
        1.96 * (squares / count / count).sqrt()
    } else {
        0.0
    }
}

fn crossing(column: Column<'_>) -> Found {
    let plain = |loss| column.delays("mqtt-q1", "coap-con", loss);
    let (Some(none), Some(much)) = (plain(0), plain(25)) else {
        return Found::nothing();
    };
    let words = |(mqtt, coap): (Stat, Stat)| {
        format!("MQTT {}, CoAP {} ms", short(mqtt.mean), short(coap.mean))
    };
    let mut figures = vec![format!("0 %: {}; 25 %: {}", words(none), words(much))];
    // Under which conditions CoAP is quicker, and under which it is not.
    let (mut quicker, mut slower, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let mut weigh = |condition: String, (mqtt, coap): (Stat, Stat)| match mqtt.exceeds(&coap) {
        Some(true) => quicker.push(condition),
        Some(false) => slower.push(condition),
        None => open.push(format!("{condition}: the intervals overlap")),
    };
    let waits = match column.is_ours {
        true => "waits that follow the round trip",
        false => "RFC 7252's waits",
    };
    weigh(format!("{waits}, 25 %"), much);
    for loss in [20, 25] {
        if let Some(both) = column.delays("E2a mqtt-q1 10/s", "E2a coap-con 10/s", loss) {
            figures.push(format!("{loss} %, one flow of 10/s: {}", words(both)));
            weigh(format!("one flow of 10/s, {loss} %"), both);
        }
        let patient = "a broker with RFC 7252's waits";
        if let Some(both) = column.delays("mqtt-q1", "E2a coap-con rfc7252", loss) {
            let coap = short(both.1.mean);
            figures.push(format!("{loss} %, {patient}: CoAP {coap} ms"));
            weigh(format!("{patient}, {loss} %"), both);
        }
    }
    let mut all = Evidence::default();
    all.figure(figures.join("; "));
    if none.0.mean > none.1.mean + MARGIN_MS {
        let words = format!("without loss CoAP is quicker by more than {MARGIN_MS} ms");
        match none.0.exceeds(&none.1) {
            Some(true) => all.fault(true, words),
            _ => open.push(format!("{words}, within the intervals")),
        }
    }
    all.fault(
        quicker.is_empty() && open.is_empty(),
        "CoAP is never quicker at 20 or 25 % in what was measured",
    );
    open.into_iter().for_each(|words| all.open(words));
    let found = all.found("");
    if slower.is_empty() {
        return found;
    }
    let (quicker, slower) = (quicker.join(", "), slower.join(", "));
    found.under(format!(
        "CoAP is quicker with: {quicker}; not with: {slower}"
    ))
}

/// "As quick": within this.
const MARGIN_MS: f64 = 2.0;

fn by_qos(column: Column<'_>) -> Found {
    let at = |loss| {
        let of = |way| Some(column.bytes(way, 60, loss)?.mean);
        Some([of("mqtt-q0")?, of("mqtt-q1")?, of("mqtt-q2")?])
    };
    let Some(none) = at(0) else {
        return Found::nothing();
    };
    let words = |[qos0, qos1, qos2]: [f64; 3]| format!("{qos2:.0}, {qos1:.0}, {qos0:.0}");
    let mut all = Evidence::default();
    all.figure(format!("QoS 2, 1, 0: {} B without loss", words(none)));
    let mut more = Vec::new();
    for ((way, reckoned), ours) in RECKONED_60.iter().zip(none) {
        // Reckoned are two pure acknowledgements of TCP, one on each leg. A receiver that is slow to answer, or not slow
        // enough, sends more of them, of 66 bytes each.
        let group = column.get(&format!("{way} 60 0%"));
        let acks = group.and_then(|group| {
            group.stat(|row| Some(row.more.get("ack_frames")? / row.delivered.max(1) as f64))
        });
        let way = group.map(Group::way).unwrap_or_default();
        let extra = acks.map_or(0.0, |acks| (acks.mean - 2.0).max(0.0));
        if extra >= 0.05 {
            more.push(format!("{way} {extra:.1}"));
        }
        let off = (ours - 66.0 * extra) / reckoned - 1.0;
        let words = format!("{way} is {:+.0} % off what is reckoned", 100.0 * off);
        all.fault(off.abs() > NEAR, words);
    }
    if !more.is_empty() {
        let words = "of which pure acknowledgements beyond the two reckoned";
        all.figure(format!("{words}: {}", more.join(", ")));
    }
    for (loss, values) in [(0, Some(none)), (5, at(5))] {
        let Some(values) = values else { continue };
        if loss > 0 {
            all.figure(format!("{} at {loss} %", words(values)));
        }
        let is_ordered = values.is_sorted_by(|a, b| a < b);
        all.fault(!is_ordered, format!("another order at {loss} %"));
    }
    all.found("; ")
}

/// "Near": within this part.
const NEAR: f64 = 0.10;

fn small(column: Column<'_>) -> Found {
    let mut all = Evidence::default();
    for loss in LOSSES {
        let of = |way| column.bytes(way, 60, loss);
        let (Some(mqtt), Some(coap)) = (of("mqtt-q1"), of("coap-con")) else {
            continue;
        };
        all.figure(format!("{:.2} at {loss} %", mqtt.mean / coap.mean));
        all.compared(
            mqtt.exceeds(&coap),
            format!("CON takes as many or more at {loss} %"),
            format!("the intervals overlap at {loss} %"),
        );
    }
    all.found_as(|figures| format!("times fewer: {}", figures.join(", ")))
}

fn large(column: Column<'_>) -> Found {
    let (mut all, mut blocks) = (Evidence::default(), Vec::new());
    for loss in [10, 15, 20, 25] {
        let of = |way| column.bytes(way, 2000, loss);
        let (Some(mqtt), Some(fragments)) = (of("mqtt-q1"), column.fragments(2000, loss)) else {
            continue;
        };
        let both = (mqtt.mean, fragments.mean);
        all.figure(format!("{loss} %: {:.0} and {:.0} B", both.0, both.1));
        all.compared(
            fragments.exceeds(&mqtt),
            format!("QoS 1 takes more at {loss} %"),
            format!("the intervals overlap at {loss} %"),
        );
        blocks.extend(of("coap-con").map(|blocks| format!("{:.0} B at {loss} %", blocks.mean)));
    }
    all.found_as(|figures| {
        let mut text = format!("QoS 1 and fragments: {}", figures.join(", "));
        if !blocks.is_empty() {
            text += &format!(
                "; block-wise (RFC 7959) a lost packet costs one block, not the message: CON {}",
                blocks.join(", ")
            );
        }
        let is_less = |loss: &u32| {
            let of = |way| Some(column.bytes(way, 600, *loss)?.mean);
            of("mqtt-q1").is_some_and(|mqtt| of("coap-con").is_some_and(|coap| mqtt < coap))
        };
        if column.get("coap-con 600 25%").is_some() {
            text += &LOSSES.into_iter().find(is_less).map_or(
                "; 600 B: QoS 1 never takes less (reckoned: from about 15 % on)".to_owned(),
                |loss| format!("; 600 B: QoS 1 takes less from {loss} % on (reckoned: about 15 %)"),
            );
        }
        text
    })
}

fn overhead(column: Column<'_>) -> Found {
    let mut all = Evidence::default();
    // Bytes on the wire for each of the payload, by size.
    let ratios = |of: &dyn Fn(u32) -> Option<Stat>| -> Vec<(u32, f64)> {
        let ratio = |size| Some((size, of(size)?.mean / f64::from(size)));
        SIZES.into_iter().filter_map(ratio).collect()
    };
    let along = |ratios: &[(u32, f64)]| {
        let words = |(size, ratio): &(u32, f64)| format!("{size} B {ratio:.2}");
        ratios.iter().map(words).collect::<Vec<_>>().join(", ")
    };
    // Above a block of 1,024 bytes the study's CON goes in fragments.
    let con = |size| match size {
        0..=1024 => column.bytes("coap-con", size, 0),
        _ => column.fragments(size, 0),
    };
    let mut is_known = false;
    for (way, ratios) in [
        ("QoS 1", ratios(&|size| column.bytes("mqtt-q1", size, 0))),
        ("CON, in fragments above 1,024 B", ratios(&con)),
    ] {
        if ratios.len() < 3 {
            continue;
        }
        is_known = true;
        all.figure(format!("{way}: {}", along(&ratios)));
        let falls = ratios.is_sorted_by(|a, b| a.1 > b.1);
        all.fault(!falls, format!("{way} does not fall all along"));
        let is_off =
            |(size, ratio): &(u32, f64)| *size == 16_000 && (ratio / AT_16_KB - 1.0).abs() > NEAR;
        all.fault(
            ratios.last().is_some_and(is_off),
            format!("{way} at 16 kB is not near {AT_16_KB}"),
        );
    }
    let mut blocks = ratios(&|size| column.bytes("coap-con", size, 0));
    blocks.retain(|(size, _)| *size > 1024);
    if !blocks.is_empty() && is_known {
        let words = "block-wise, which the study had not, stays at what a block costs";
        all.figure(format!("{words}: {}", along(&blocks)));
    }
    all.found("; ")
}

/// Reckoned for QoS 1, both legs.
const AT_16_KB: f64 = 2.16;
