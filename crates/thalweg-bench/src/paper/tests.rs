use std::path::PathBuf;

use super::*;
use crate::cell::{Cell, Quantiles, Row, Standing};
use crate::results::Writer;
use crate::sim::random::Random;
use crate::studies::group::way;
use crate::studies::plan::Budget;

/// A row as a network without faults would give it, by rules of thumb.
fn invented(cell: &Cell, random: &mut Random) -> Row {
    let sent = 400;
    let loss = cell.link.loss;
    let base = match way(&cell.publish).as_str() {
        "MQTT QoS 0" => 290.0,
        "MQTT QoS 1" => 434.0,
        "MQTT QoS 2" => 714.0,
        "CoAP CON" => 214.0,
        _ => 168.0,
    };
    let bytes = crate::studies::group::payload(cell).unwrap_or(60);
    let payload = f64::from(bytes);
    let wire = (base + 2.0 * payload * 1.05) * (1.0 + 1.5 * loss);
    let mean = 300.0 + 4e6 * loss * loss + 20.0 * random.unit();
    let delivered = match way(&cell.publish).as_str() {
        "CoAP NON" => (f64::from(sent) * (1.0 - loss).powi(2)).round() as u64,
        _ => u64::from(sent as u32),
    };
    let quantiles = Quantiles {
        count: delivered,
        mean,
        sd: mean / 3.0,
        p50: mean * 0.9,
        p90: mean * 1.5,
        p99: mean * 2.0,
        p999: mean * 3.0,
        max: mean * 4.0,
    };
    Row {
        intended: 400,
        sent: 400,
        expected: 400,
        delivered,
        lost: 400 - delivered,
        seconds: 2.0,
        payload_bytes: delivered * u64::from(bytes),
        response: quantiles,
        service: quantiles,
        lag_p99_us: 40.0,
        cpu_broker_s: 0.02,
        cpu_client_s: 0.03,
        rss_broker_kib: 20_000,
        switches_broker: 500,
        wire_bytes: Some((wire * delivered as f64) as u64),
        wire_frames: Some(delivered * 6),
        link_lost: Some(((loss * 4000.0) as u64, 4000)),
        more: match cell.experiment.as_str() {
            "E5" => (0..3)
                .flat_map(crate::e5::of_member)
                .chain(["wait_mean_ms".to_owned()])
                .map(|name| (name, 33.0))
                .collect(),
            _ => Default::default(),
        },
        ..Row::blank(Standing::Valid)
    }
}

fn measured(row: Row) -> crate::cell::Measured {
    // A few values: what is tested is not how histograms are written.
    let values = [0.3, 0.9, 2.0].map(|part| (row.response.mean * 1e3 * part) as u64);
    let histogram = thalweg_stats::histograms::of(&values);
    let second = |at: u64| crate::cell::Second {
        sent: 100 + at,
        received: 100,
        response_p99_us: 400.0,
        ..Default::default()
    };
    crate::cell::Measured {
        row,
        response: histogram.clone(),
        service: histogram,
        seconds: (0..8).map(second).collect(),
        events: vec![(0, "broker thalweg: thalweg 0.1.0".to_owned())],
        messages: Default::default(),
    }
}

/// A folder of all studies that is removed with the test.
pub(super) fn folder(name: &str, study: Study, spoil: impl Fn(usize, &mut Row)) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("thalweg-paper-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let cells = study.cells(Budget::Quick, 7);
    let mut writer = Writer::open(&folder, &crate::results::about(study.name(), &cells), false)
        .expect("it can be written");
    let mut random = Random::new(7);
    for (at, cell) in cells.iter().enumerate() {
        let mut row = invented(cell, &mut random);
        spoil(at, &mut row);
        writer
            .write(cell, &measured(row))
            .expect("it can be written");
    }
    writer.finish(false).expect("it can be written");
    folder
}

#[test]
fn every_study_has_a_page_that_needs_nothing_else_and_drawings_that_name_their_axes() {
    for study in Study::ALL {
        // Written once for both: it is much.
        let folder = folder(study.name(), study, |_, _| {});
        assert_page(study, &folder);
        let part = Part::read(&folder).expect("it is there");
        part.figures.iter().for_each(assert_axes);
        let _ = fs::remove_dir_all(&folder);
    }
}

fn assert_page(study: Study, folder: &Path) {
    let found = render(folder).expect("it can be rendered");
    let html = fs::read_to_string(folder.join("report.html")).expect("there is a page");
    for word in ["<script", "http://", "https://", "src=", "NaN", "url("] {
        assert!(!html.contains(word), "{}: {word}", study.name());
    }
    assert!(html.matches("<svg").count() >= 3, "{}", study.name());
    for file in ["summary.md", "junit.xml", "shapes.json"] {
        assert!(folder.join(file).exists(), "{file}");
    }
    let tables = fs::read_dir(folder.join("figures"))
        .expect("there are tables")
        .count();
    assert!(
        tables >= html.matches("<svg").count(),
        "each drawing has its table"
    );
    assert!(found.summary.contains("| S"), "{}", found.summary);
}

/// What stands beside an axis that counts, or has names.
const WITHOUT_UNIT: [&str; 5] = [
    "strategy",
    "step",
    "pairs of publisher and subscriber",
    "system and protocol",
    "way",
];
const UNITS: [&str; 9] = [
    ", us",
    ", ms",
    ", s",
    ", %",
    ", B",
    ", characters",
    "B / ",
    "/s",
    "us/message",
];

/// Each axis has a name with its unit, and no word leaves the drawing.
fn assert_axes(figure: &Figure) {
    let Some(svg) = &figure.svg else { return };
    let texts: Vec<&str> = svg
        .split("<text ")
        .skip(1)
        .filter_map(|it| it.split("</text>").next())
        .collect();
    let names: Vec<&str> = texts
        .iter()
        .filter(|it| it.starts_with("class=\"name\""))
        .filter_map(|it| it.split('>').nth(1))
        .collect();
    assert_eq!(names.len(), 2, "{}", figure.file);
    for name in names {
        let is_named = UNITS.iter().any(|unit| name.contains(unit)) || WITHOUT_UNIT.contains(&name);
        assert!(
            is_named || name == "Ethernet bytes / payload bytes",
            "{}: an axis is called {name:?}",
            figure.file
        );
    }
    for text in texts {
        let Some((at, words)) = text.split_once('>') else {
            continue;
        };
        let number = |key: &str| at.split_once(key)?.1.split('"').next()?.parse::<f64>().ok();
        let Some(x) = number(" x=\"").or_else(|| number("x=\"").filter(|_| at.starts_with("x=\"")))
        else {
            continue;
        };
        let wide = svg::small_width(words);
        let from = match () {
            () if at.contains("\"end\"") => x - wide,
            () if at.contains("\"middle\"") => x - wide / 2.0,
            () => x,
        };
        // Widths are reckoned, and generously.
        assert!(
            from > -6.0 && from + wide < svg::WIDTH + 6.0,
            "{}: {words:?} leaves the drawing",
            figure.file
        );
    }
}

#[test]
fn letters_can_be_read_where_a_phone_shows_a_drawing() {
    // A phone of 400 px has 376 for a drawing: `measure/report_pages.py` asks Chromium the same.
    let rules: Vec<&str> = crate::report::document::STYLE
        .split('}')
        .filter(|rule| rule.contains("svg.chart text"))
        .collect();
    let sizes: Vec<f64> = rules
        .iter()
        .filter_map(|rule| {
            rule.split_once("font-size:")?
                .1
                .split("px")
                .next()?
                .parse()
                .ok()
        })
        .collect();
    assert!(sizes.len() >= 4, "{rules:?}");
    assert!(
        sizes.iter().all(|size| size * 376.0 / svg::WIDTH >= 9.0),
        "{sizes:?}"
    );
}

#[test]
fn what_does_not_count_is_told_and_not_drawn() {
    let folder = folder("invalid", Study::E2, |at, row| {
        if at % 3 == 0 {
            row.standing = Standing::Invalid("the moon".to_owned());
            row.response.mean = 123_456_789.0;
        }
    });
    render(&folder).expect("it can be rendered");
    let html = fs::read_to_string(folder.join("report.html")).expect("there is a page");
    assert!(html.contains("the moon") && html.contains("What does not count"));
    for table in fs::read_dir(folder.join("figures")).expect("there are tables") {
        let text = fs::read_to_string(table.expect("a file").path()).expect("text");
        assert!(
            !text.contains("123456.789"),
            "an invalid row is drawn: {text}"
        );
    }
    let junit = fs::read_to_string(folder.join("junit.xml")).expect("there is one");
    assert!(junit.contains("<error message=\"the moon\"/>"));
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn bytes_as_reckoned_pass_and_others_fail() {
    let good = folder("bytes", Study::E2, |_, _| {});
    let part = Part::read(&good).expect("it is there");
    let verdict = |part: &Part, id: &str| {
        let (_, shape) = part
            .shapes
            .iter()
            .find(|(_, shape)| shape.id == id)
            .expect("there is one");
        shape.ours.ruling.name()
    };
    assert_eq!(
        ["S2.0", "S2.3", "S2.4"].map(|id| verdict(&part, id)),
        ["under-condition"; 3],
        "one repeat each"
    );
    let _ = fs::remove_dir_all(&good);
    let bad = folder("no-bytes", Study::E2, |_, row| {
        row.wire_bytes = Some(row.delivered * 500)
    });
    let part = Part::read(&bad).expect("it is there");
    assert_eq!(["S2.3", "S2.4"].map(|id| verdict(&part, id)), ["not"; 2]);
    assert_eq!(outcome(&[&part]), Outcome::ShapeFailed);
    let _ = fs::remove_dir_all(&bad);
    let none = folder("nothing", Study::E2, |_, row| {
        row.standing = Standing::Absent("apt-get".to_owned())
    });
    let part = Part::read(&none).expect("it is there");
    assert_eq!(verdict(&part, "S2.4"), "not-measured");
    assert_eq!(outcome(&[&part]), Outcome::Invalid);
    let _ = fs::remove_dir_all(&none);
}

#[test]
fn all_studies_are_on_one_page() {
    let e2 = folder("all-e2", Study::E2, |_, _| {});
    let whole = std::env::temp_dir().join(format!("thalweg-paper-all-{}", std::process::id()));
    let _ = fs::remove_dir_all(&whole);
    fs::create_dir_all(&whole).expect("it can be made");
    let about = json!({ "suite": "all", "budget": "quick", "seed": 7, "failed": [{ "suite": "E4", "why": "no <root>" }] });
    crate::results::write_about(&whole, &about).expect("it can be written");
    fs::rename(&e2, whole.join("E2")).expect("it can be moved");
    let e5 = folder("all-e5", Study::E5, |_, _| {});
    // Messages are read where they were kept.
    let mut lines = "key,seq,t_intended_us,t_taken_us,member\n".to_owned();
    for cell in Study::E5.cells(Budget::Quick, 7) {
        lines += &format!("{},0,1000000,1002000,0\n", cell.key());
    }
    fs::write(e5.join("messages.csv"), lines).expect("it can be written");
    fs::rename(&e5, whole.join("E5")).expect("it can be moved");
    let e5 = whole.join("E5");
    render(&whole).expect("it can be rendered");
    let html = fs::read_to_string(whole.join("report.html")).expect("there is a page");
    for words in [
        "S2.3",
        "S5.2",
        "no &lt;root&gt;",
        "who got how much",
        "mean wait, second by second",
        "adaptive+qos1: each message",
        "E5: every cell beside the limit",
        "E2b: bytes on the wire",
    ] {
        assert!(html.contains(words), "{words}");
    }
    // Five numbers and one drawing before anything else, tables folded, what was not measured said and grey.
    let (head, rest) = html.split_once("<nav>").expect("it has contents");
    let tiles = head
        .split("class=\"tiles\"")
        .nth(1)
        .expect("it begins with numbers");
    assert_eq!(
        (tiles.matches("<b>").count(), head.matches("<svg").count()),
        (5, 1)
    );
    assert!(
        tiles.contains("class=\"grey\"") && tiles.contains("<b>not measured</b>"),
        "{tiles}"
    );
    assert!(
        rest.contains(
            "<details><summary>E2: MQTT and CoAP through a link that loses packets. Ours:"
        )
    );
    for link in tiles
        .split("href=\"#")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
    {
        assert!(html.contains(&format!("<h2 id=\"{link}\"")), "{link}");
    }
    for file in [
        "junit.xml",
        "shapes.json",
        "E5/figures/e5-shares.csv",
        "E2/report.html",
        "E5/report.html",
    ] {
        assert!(whole.join(file).exists(), "{file}");
    }
    // Published without histograms and messages: their drawings are those of the tables.
    let waits = fs::read_to_string(e5.join("figures/e5-waits.csv")).expect("there is one");
    fs::remove_file(e5.join("messages.csv")).expect("it is there");
    fs::remove_dir_all(e5.join("latency")).expect("it is there");
    render(&whole).expect("it can be rendered without messages");
    let html = fs::read_to_string(whole.join("report.html")).expect("there is a page");
    assert!(html.contains("mean wait, second by second"));
    assert_eq!(
        fs::read_to_string(e5.join("figures/e5-waits.csv")).expect("there is one"),
        waits
    );
    let _ = fs::remove_dir_all(&whole);
}
