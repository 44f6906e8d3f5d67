//! E2a to E2c: delay and bytes of MQTT and CoAP through a link that loses packets (study B).

use super::fragments;
use super::group::Group;
use super::shape::{Evidence, Found, Shape};
use crate::report::stat::{Stat, short};

pub const LOSSES: [f64; 6] = [0.0, 5.0, 10.0, 15.0, 20.0, 25.0];
/// Sizes of E2c.
pub const SIZES: [u32; 9] = [20, 60, 200, 600, 1200, 2000, 4000, 8000, 16_000];
/// Ethernet bytes computed from the protocols' rules for 60 bytes without loss, both legs: QoS 0, 1, 2, CON, NON.
pub const RECKONED_60: [(&str, f64); 5] = [
    ("MQTT QoS 0", 410.0),
    ("MQTT QoS 1", 554.0),
    ("MQTT QoS 2", 834.0),
    ("CoAP CON", 334.0),
    ("CoAP NON", 288.0),
];
/// One of the two columns.
#[derive(Clone, Copy)]
struct Column<'g> {
    groups: &'g [Group],
    is_ours: bool,
}

impl<'g> Column<'g> {
    fn get(self, way: &str, bytes: u32, loss: f64) -> Option<&'g Group> {
        self.all().find(|group| {
            group.way() == way
                && group.payload() == Some(bytes)
                && group.loss_percent() == loss
                && group.cell.experiment != "E2a"
        })
    }

    fn variant(self, way: &str, axis: &str, loss: f64) -> Option<&'g Group> {
        self.all().find(|group| {
            group.way() == way
                && group.loss_percent() == loss
                && group.cell.experiment == "E2a"
                && group.cell.axes.contains_key(axis)
        })
    }

    fn all(self) -> impl Iterator<Item = &'g Group> {
        self.groups
            .iter()
            .filter(|group| group.cell.experiment.starts_with("E2"))
            .filter(move |group| (group.cell.system == "thalweg") == self.is_ours)
            .filter(|group| group.cell.system != fragments::SYSTEM)
    }

    /// Bytes of CON in IP fragments, whose both ends are this laboratory's.
    fn fragments(self, bytes: u32, loss: f64) -> Option<Stat> {
        let of = self
            .groups
            .iter()
            .filter(|it| it.cell.system == fragments::SYSTEM);
        let mut at = of.filter(|it| (it.payload(), it.loss_percent()) == (Some(bytes), loss));
        at.next()?.wire_bytes()
    }

    fn bytes(self, way: &str, bytes: u32, loss: f64) -> Option<Stat> {
        self.get(way, bytes, loss)?.wire_bytes()
    }

    fn delay(self, way: &str, loss: f64) -> Option<Stat> {
        self.get(way, 60, loss)?.mean_ms()
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
        let mut least: Option<(f64, f64)> = None;
        for loss in LOSSES {
            let Some(group) = column.get(way, 60, loss) else {
                continue;
            };
            let Some(came) = group.delivered_percent() else {
                continue;
            };
            if least.is_none_or(|(percent, _)| came.mean < percent) {
                least = Some((came.mean, loss));
            }
            if way != "CoAP NON" {
                let words = format!("{way} at {loss} %: {:.2} %", came.mean);
                all.fault(came.mean < 99.5, words);
                continue;
            }
            let count: u64 = group.rows.iter().map(|row| row.expected).sum();
            let through = 1.0 - loss / 100.0;
            // 99 % of what chance does, and a message more.
            let reach = |part: f64| {
                2.576 * (part * (1.0 - part) / count as f64).sqrt() + 1.0 / count as f64
            };
            let (both, one) = (through * through, through);
            let part = came.mean / 100.0;
            if (part - both).abs() > reach(both) {
                // The broker has a notification confirmed now and then (RFC 7641 §4.5), and the first of each
                // observation to learn the round trip: between one leg that loses and two.
                let is_between = part > both && part < one + reach(one);
                is_confirmed |= is_between;
                let (came, expected) = (came.mean, 100.0 * both);
                let words = format!("NON at {loss} %: {came:.1} % came, {expected:.1} expected");
                all.fault(!is_between, words);
            }
        }
        if let Some((percent, loss)) = least {
            all.figure(format!("{way} at least {percent:.2} % (at {loss} %)"));
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
    for way in ["MQTT QoS 1", "CoAP CON"] {
        let means: Vec<(f64, f64, f64)> = LOSSES
            .iter()
            .filter_map(|loss| {
                let group = column.get(way, 60, *loss)?;
                Some((*loss, group.mean_ms()?.mean, error_ms(group)))
            })
            .collect();
        let [first, .., last] = means.as_slice() else {
            continue;
        };
        if means.len() < 3 {
            continue;
        }
        let words: Vec<String> = means
            .iter()
            .map(|(_, mean, error)| format!("{} ± {}", short(*mean), short(*error)))
            .collect();
        all.figure(format!("{way} {} ms", words.join(", ")));
        for pair in means.windows(2) {
            let [(_, less, one), (loss, more, two)] = pair else {
                continue;
            };
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
    let pair = |loss| {
        Some((
            column.delay("MQTT QoS 1", loss)?,
            column.delay("CoAP CON", loss)?,
        ))
    };
    let (Some(none), Some(much)) = (pair(0.0), pair(25.0)) else {
        return Found::nothing();
    };
    let words = |(mqtt, coap): (Stat, Stat)| {
        format!("MQTT {}, CoAP {} ms", short(mqtt.mean), short(coap.mean))
    };
    let mut figures = format!("0 %: {}; 25 %: {}", words(none), words(much));
    // Under which conditions CoAP is quicker, and under which it is not.
    let (mut quicker, mut slower, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let mut weigh = |condition: String, (mqtt, coap): (Stat, Stat)| match mqtt.exceeds(&coap) {
        Some(true) => quicker.push(condition),
        Some(false) => slower.push(condition),
        None => open.push(format!("{condition}: the intervals overlap")),
    };
    let waits = if column.is_ours {
        "waits that follow the round trip"
    } else {
        "RFC 7252's waits"
    };
    weigh(format!("{waits}, 25 %"), much);
    for loss in [20.0, 25.0] {
        let variant = |way, axis| column.variant(way, axis, loss)?.mean_ms();
        let pair = |mqtt, coap| Some((mqtt?, coap?));
        let quick = pair(variant("MQTT QoS 1", "rate"), variant("CoAP CON", "rate"));
        if let Some(both) = quick {
            figures += &format!("; {loss} %, one flow of 10/s: {}", words(both));
            weigh(format!("one flow of 10/s, {loss} %"), both);
        }
        let patient = "a broker with RFC 7252's waits";
        if let Some(both) = pair(
            column.delay("MQTT QoS 1", loss),
            variant("CoAP CON", "timer"),
        ) {
            figures += &format!("; {loss} %, {patient}: CoAP {} ms", short(both.1.mean));
            weigh(format!("{patient}, {loss} %"), both);
        }
    }
    let mut all = Evidence::default();
    all.figure(figures);
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
    match slower.is_empty() {
        true => found,
        false => found.under(format!(
            "CoAP is quicker with: {}; not with: {}",
            quicker.join(", "),
            slower.join(", ")
        )),
    }
}

/// "As quick": within this.
const MARGIN_MS: f64 = 2.0;

fn by_qos(column: Column<'_>) -> Found {
    let at = |loss| {
        let of = |way| Some(column.bytes(way, 60, loss)?.mean);
        Some([of("MQTT QoS 0")?, of("MQTT QoS 1")?, of("MQTT QoS 2")?])
    };
    let Some(none) = at(0.0) else {
        return Found::nothing();
    };
    let words = |values: [f64; 3]| {
        values
            .iter()
            .rev()
            .map(|value| format!("{value:.0}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut all = Evidence::default();
    all.figure(format!("QoS 2, 1, 0: {} B without loss", words(none)));
    let mut more = Vec::new();
    for ((way, reckoned), ours) in RECKONED_60.iter().zip(none) {
        // Reckoned are two pure acknowledgements of TCP, one on each leg. A receiver that is slow to answer, or not slow
        // enough, sends more of them, of 66 bytes each.
        let acks = column.get(way, 60, 0.0).and_then(|group| {
            group.stat(|row| Some(row.more.get("ack_frames")? / row.delivered.max(1) as f64))
        });
        let extra = acks.map_or(0.0, |acks| (acks.mean - 2.0).max(0.0));
        if extra >= 0.05 {
            more.push(format!("{way} {extra:.1}"));
        }
        let off = (ours - 66.0 * extra) / reckoned - 1.0;
        let words = format!("{way} is {:+.0} % off what is reckoned", 100.0 * off);
        all.fault(off.abs() > NEAR, words);
    }
    if !more.is_empty() {
        all.figure(format!(
            "of which pure acknowledgements beyond the two reckoned: {}",
            more.join(", ")
        ));
    }
    for (loss, values) in [(0.0, Some(none)), (5.0, at(5.0))] {
        let Some(values) = values else { continue };
        if loss > 0.0 {
            all.figure(format!("{} at {loss} %", words(values)));
        }
        all.fault(
            !values.is_sorted_by(|a, b| a < b),
            format!("another order at {loss} %"),
        );
    }
    all.found("; ")
}

/// "Near": within this part.
const NEAR: f64 = 0.10;

fn small(column: Column<'_>) -> Found {
    let mut all = Evidence::default();
    for loss in LOSSES {
        let of = |way| column.bytes(way, 60, loss);
        let (Some(mqtt), Some(coap)) = (of("MQTT QoS 1"), of("CoAP CON")) else {
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
    for loss in [10.0, 15.0, 20.0, 25.0] {
        let of = |way| column.bytes(way, 2000, loss);
        let (Some(mqtt), Some(fragments)) = (of("MQTT QoS 1"), column.fragments(2000, loss)) else {
            continue;
        };
        all.figure(format!(
            "{loss} %: {:.0} and {:.0} B",
            mqtt.mean, fragments.mean
        ));
        all.compared(
            fragments.exceeds(&mqtt),
            format!("QoS 1 takes more at {loss} %"),
            format!("the intervals overlap at {loss} %"),
        );
        blocks.extend(of("CoAP CON").map(|blocks| format!("{:.0} B at {loss} %", blocks.mean)));
    }
    all.found_as(|figures| {
        let mut text = format!("QoS 1 and fragments: {}", figures.join(", "));
        if !blocks.is_empty() {
            text += &format!(
                "; block-wise (RFC 7959) a lost packet costs one block, not the message: CON {}",
                blocks.join(", ")
            );
        }
        let crossing = LOSSES.into_iter().find(|loss| {
            let of = |way| Some(column.bytes(way, 600, *loss)?.mean);
            of("MQTT QoS 1")
                .zip(of("CoAP CON"))
                .is_some_and(|(mqtt, coap)| mqtt < coap)
        });
        if column.get("CoAP CON", 600, 25.0).is_some() {
            text += &crossing.map_or(
                "; 600 B: QoS 1 never takes less (reckoned: from about 15 % on)".to_owned(),
                |loss| format!("; 600 B: QoS 1 takes less from {loss} % on (reckoned: about 15 %)"),
            );
        }
        text
    })
}

fn overhead(column: Column<'_>) -> Found {
    let mut all = Evidence::default();
    let of = |way: &str, size: u32| Some(column.bytes(way, size, 0.0)?.mean / f64::from(size));
    let along = |ratios: &[(u32, f64)]| {
        let words = |(size, ratio): &(u32, f64)| format!("{size} B {ratio:.2}");
        ratios.iter().map(words).collect::<Vec<_>>().join(", ")
    };
    let ratios = |of: &dyn Fn(u32) -> Option<f64>| -> Vec<(u32, f64)> {
        let ratio = |size| Some((size, of(size)?));
        SIZES.into_iter().filter_map(ratio).collect()
    };
    let mqtt = ratios(&|size| of("MQTT QoS 1", size));
    // Above a block of 1,024 bytes the study's CON goes in fragments.
    let con = ratios(&|size| match size {
        0..=1024 => of("CoAP CON", size),
        _ => Some(column.fragments(size, 0.0)?.mean / f64::from(size)),
    });
    let mut is_known = false;
    for (way, ratios) in [("QoS 1", mqtt), ("CON, in fragments above 1,024 B", con)] {
        if ratios.len() < 3 {
            continue;
        }
        is_known = true;
        all.figure(format!("{way}: {}", along(&ratios)));
        all.fault(
            !ratios.is_sorted_by(|a, b| a.1 > b.1),
            format!("{way} does not fall all along"),
        );
        let is_off =
            |(size, ratio): &(u32, f64)| *size == 16_000 && (ratio / AT_16_KB - 1.0).abs() > NEAR;
        all.fault(
            ratios.last().is_some_and(is_off),
            format!("{way} at 16 kB is not near {AT_16_KB}"),
        );
    }
    let blocks = ratios(&|size| of("CoAP CON", size).filter(|_| size > 1024));
    if !blocks.is_empty() && is_known {
        all.figure(format!(
            "block-wise, which the study had not, stays at what a block costs: {}",
            along(&blocks)
        ));
    }
    all.found("; ")
}

/// Reckoned for QoS 1, both legs.
const AT_16_KB: f64 = 2.16;
