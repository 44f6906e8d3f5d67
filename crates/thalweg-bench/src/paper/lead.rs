//! What the page of all studies begins with: five numbers and one drawing.

use super::Part;
use super::figures::Figure;
use super::page::VERDICTS;
use crate::report::document::Tile;
use crate::report::stat::{grouped, short};
use crate::studies::Study;
use crate::studies::group::find;
use crate::studies::shape::Ruling;

/// The five numbers. Those that were not measured say so.
pub fn tiles(parts: &[(Study, Part)]) -> Vec<Tile> {
    let shapes = || {
        parts
            .iter()
            .flat_map(|(_, part)| &part.shapes)
            .map(|(_, shape)| shape)
    };
    let count = |is: fn(&Ruling) -> bool| shapes().filter(|it| is(&it.ours.ruling)).count();
    let tile = |number: Option<String>, words: String, section: &str| Tile {
        number,
        words,
        section: section.to_owned(),
    };
    // What has no section of its own is in the verdicts.
    let section = |study: Study| match parts.iter().any(|(of, _)| *of == study) {
        true => study.title(),
        false => VERDICTS,
    };
    let came_out = count(|it| matches!(it, Ruling::Reproduced | Ruling::Under(_)));
    let judged = count(|it| !matches!(it, Ruling::NotMeasured | Ruling::NotJudged(_)));
    let others = shapes().count() - judged;
    let found = |words: &str| {
        let mut parts = parts.iter();
        parts.find_map(|(_, part)| find(&part.input.groups, words))
    };
    let flood = |system: &str| {
        let group = found(&format!("E1b {system} simple mqtt-q0"))?;
        Some(group.delivered_per_s()?.mean)
    };
    let lossy = |way: &str| {
        let group = found(&format!("E2b thalweg {way} 60 20%"))?;
        Some(group.mean_ms()?.mean)
    };
    let round_trip = || {
        let group = found("E4a thalweg mqtt-q1 200")?;
        let median = group.stat(|row| (row.response.count > 0).then_some(row.response.p50));
        Some(median?.mean)
    };
    let or_not = |number: Option<String>| number.unwrap_or("not measured".to_owned());
    let beside = or_not(flood("mosquitto").map(grouped));
    let coap = or_not(lossy("coap-con").map(|ms| format!("{} ms", short(ms))));
    let wait = shapes().find(|shape| shape.id == "bar, reports");
    vec![
        tile(
            (judged > 0).then(|| format!("{came_out} of {judged}")),
            format!("statements that were judged came out with ours; {others} were not judged or not measured"),
            VERDICTS,
        ),
        tile(
            flood("thalweg").map(|rate| format!("{}/s", grouped(rate))),
            format!("messages of 36 B through one broker over MQTT QoS 0, 40 pairs; mosquitto: {beside}"),
            section(Study::E1),
        ),
        tile(
            lossy("mqtt-q1").map(|ms| format!("{} ms", short(ms))),
            format!("mean delay of 60 B over MQTT QoS 1 at 20 % loss; CoAP CON: {coap}"),
            section(Study::E2),
        ),
        tile(
            round_trip().map(|us| format!("{} us", short(us))),
            "median round trip of 200 B over MQTT QoS 1, one at a time".to_owned(),
            section(Study::E4),
        ),
        tile(
            wait.filter(|shape| shape.ours.ruling != Ruling::NotMeasured)
                .map(|shape| shape.ours.figures.clone()),
            "mean wait in a group of members of 25, 25 and 50 ms with the adaptive strategy; thesis: 27.4 ms"
                .to_owned(),
            section(Study::E5),
        ),
    ]
}

/// The drawing: delay against loss, or else the first there is.
pub fn drawing(parts: &[(Study, Part)]) -> Option<(&Figure, String)> {
    let figures = parts.iter().flat_map(|(_, part)| &part.figures);
    let all = || figures.clone().filter(|figure| figure.svg.is_some());
    let delay = all().find(|figure| figure.file == "e2a-delay");
    let figure = delay.or_else(|| all().next())?;
    Some((figure, figure.svg.clone()?))
}
