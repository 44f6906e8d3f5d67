//! What the page of all studies begins with: five numbers and one drawing.

use super::Part;
use super::figures::Figure;
use super::page::VERDICTS;
use crate::cell::Protocol;
use crate::report::document::Tile;
use crate::report::stat::{grouped, short};
use crate::studies::Study;
use crate::studies::group::Group;
use crate::studies::shape::Ruling;

/// The five numbers. Those that were not measured say so.
pub fn tiles(parts: &[(Study, Part)], rulings: &[Ruling]) -> Vec<Tile> {
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
    let came_out = rulings
        .iter()
        .filter(|it| matches!(it, Ruling::Reproduced | Ruling::Under(_)))
        .count();
    let judged = rulings
        .iter()
        .filter(|it| !matches!(it, Ruling::NotMeasured | Ruling::NotJudged(_)))
        .count();
    let others = rulings.len() - judged;
    let group = |study: Study, is_it: &dyn Fn(&Group) -> bool| -> Option<Group> {
        let (_, part) = parts.iter().find(|(of, _)| *of == study)?;
        part.input.groups.iter().find(|group| is_it(group)).cloned()
    };
    let flood = |system: &str, protocol: Protocol| {
        let is_it = |group: &Group| {
            group.cell.experiment == "E1b"
                && (group.cell.system.as_str(), group.cell.publish.protocol) == (system, protocol)
                && group
                    .cell
                    .axes
                    .get("class")
                    .is_some_and(|class| class == "simple")
        };
        Some(group(Study::E1, &is_it)?.delivered_per_s()?.mean)
    };
    let beside = flood("mosquitto", Protocol::Mqtt).map_or("not measured".to_owned(), grouped);
    let lossy = |way: &str| {
        let is_it = |group: &Group| {
            (group.cell.experiment.as_str(), group.cell.system.as_str()) == ("E2b", "thalweg")
                && group.way() == way
                && group.payload() == Some(60)
                && group.loss_percent() == 20.0
        };
        Some(group(Study::E2, &is_it)?.mean_ms()?.mean)
    };
    let coap =
        lossy("CoAP CON").map_or("not measured".to_owned(), |ms| format!("{} ms", short(ms)));
    let round_trip = |protocol: Protocol| {
        let is_it = |group: &Group| {
            (group.cell.experiment.as_str(), group.cell.system.as_str()) == ("E4a", "thalweg")
                && group.cell.publish.protocol == protocol
                && group.payload() == Some(200)
        };
        Some(
            group(Study::E4, &is_it)?
                .stat(|row| (row.response.count > 0).then_some(row.response.p50))?
                .mean,
        )
    };
    let shapes = parts.iter().flat_map(|(_, part)| &part.shapes);
    let wait = shapes
        .map(|(_, shape)| shape)
        .find(|shape| shape.id == "bar, reports");
    vec![
        tile(
            (judged > 0).then(|| format!("{came_out} of {judged}")),
            format!("statements that were judged came out with ours; {others} were not judged or not measured"),
            VERDICTS,
        ),
        tile(
            flood("thalweg", Protocol::Mqtt).map(|rate| format!("{}/s", grouped(rate))),
            format!("messages of 36 B through one broker over MQTT QoS 0, 40 pairs; mosquitto: {beside}"),
            section(Study::E1),
        ),
        tile(
            lossy("MQTT QoS 1").map(|ms| format!("{} ms", short(ms))),
            format!("mean delay of 60 B over MQTT QoS 1 at 20 % loss; CoAP CON: {coap}"),
            section(Study::E2),
        ),
        tile(
            round_trip(Protocol::Mqtt).map(|us| format!("{} us", short(us))),
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
pub fn drawing(parts: &[(Study, Part)]) -> Option<&Figure> {
    let all = || {
        parts
            .iter()
            .flat_map(|(_, part)| &part.figures)
            .filter(|figure| figure.drawing.svg().is_some())
    };
    all()
        .find(|figure| figure.file == "e2a-delay")
        .or_else(|| all().next())
}
