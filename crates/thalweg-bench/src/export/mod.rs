//! `thalweg bench export`: a folder of results in forms that other programs read.
//!
//! *Knows:* folders of results, the four forms. *Must never know:* how anything was measured.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use serde_json::json;
use thalweg_stats::histograms::percentiles;

use crate::cell::{Cell, valid};
use crate::command::Outcome;
use crate::results::metric::{METRICS, Unit};
use crate::results::{Results, histograms, quoted, read};

/// `thalweg bench export …`
#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    /// Folder of results, as `--out` named it
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Format of the output
    #[arg(long, value_name = "FORM", value_enum)]
    pub format: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For Prometheus and its kin: a gauge for each figure, a sample for each valid trial; seconds, bytes, parts of one
    Openmetrics,
    /// One document: run.json and all trials
    Json,
    /// Percentiles of the response of each point in microseconds, its repeats merged
    Hgrm,
    /// A line for each trial, a column for each axis and figure
    Csv,
}

/// Exports to `out`.
pub fn run(args: &ExportArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let found = read(&args.dir)?;
    match args.format {
        Form::Openmetrics => openmetrics(&found, out),
        Form::Json => {
            let trials: Vec<_> = found
                .trials
                .iter()
                .map(|(cell, row)| json!({ "cell": cell, "row": row }))
                .collect();
            writeln!(
                out,
                "{}",
                serde_json::to_string_pretty(&json!({ "about": found.about, "trials": trials }))?
            )
        }
        Form::Hgrm => hgrm(&args.dir, &found, out),
        Form::Csv => csv(&found, out),
    }?;
    Ok(match valid(&found.trials).next() {
        Some(_) => Outcome::Done,
        None => Outcome::Invalid,
    })
}

fn openmetrics(found: &Results, out: &mut dyn Write) -> io::Result<()> {
    for metric in METRICS {
        let (suffix, factor, _) = forms(metric.unit);
        let name = format!("thalweg_bench_{}{suffix}", metric.name);
        let mut is_begun = false;
        for (cell, row) in valid(&found.trials) {
            let Some(value) = (metric.of)(cell, row).filter(|value| value.is_finite()) else {
                continue;
            };
            if !is_begun {
                writeln!(out, "# TYPE {name} gauge")?;
                if let Some(unit) = suffix.strip_prefix('_') {
                    writeln!(out, "# UNIT {name} {unit}")?;
                }
                writeln!(out, "# HELP {name} {}", metric.meaning)?;
                is_begun = true;
            }
            writeln!(out, "{name}{{{}}} {}", labels(cell), value * factor)?;
        }
    }
    writeln!(out, "# EOF")
}

/// Labels of a sample; values are escaped as OpenMetrics has it.
fn labels(cell: &Cell) -> String {
    let escaped = |text: &str| {
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let name = |text: &str| {
        text.chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect::<String>()
    };
    let mut labels = vec![
        format!("experiment=\"{}\"", escaped(&cell.experiment)),
        format!("system=\"{}\"", escaped(&cell.system)),
        format!("repeat=\"{}\"", cell.repeat),
    ];
    labels.extend(
        cell.axes
            .iter()
            .map(|(axis, value)| format!("axis_{}=\"{}\"", name(axis), escaped(value))),
    );
    labels.join(",")
}

fn hgrm(dir: &Path, found: &Results, out: &mut dyn Write) -> io::Result<()> {
    let mut points: Vec<(String, Histogram<u64>)> = Vec::new();
    for (cell, _) in valid(&found.trials) {
        let name = format!("{} {}", cell.experiment, cell.point());
        let name = name.trim().to_owned();
        let [response, _] = histograms(dir, &cell.key())?;
        match points.iter_mut().find(|(other, _)| *other == name) {
            // Percentiles of several trials are never averaged.
            Some((_, all)) => all
                .add(response)
                .map_err(|error| io::Error::other(format!("{name}: {error:?}")))?,
            None => points.push((name, response)),
        }
    }
    for (name, histogram) in &points {
        writeln!(
            out,
            "# {name}: response, microseconds\n{}",
            percentiles(histogram)
        )?;
    }
    Ok(())
}

fn csv(found: &Results, out: &mut dyn Write) -> io::Result<()> {
    let axes: BTreeSet<&String> = found
        .trials
        .iter()
        .flat_map(|(cell, _)| cell.axes.keys())
        .collect();
    let mut head = ["experiment", "system", "repeat", "verdict"]
        .map(str::to_owned)
        .to_vec();
    head.extend(axes.iter().map(|axis| format!("axis.{axis}")));
    head.extend(METRICS.iter().map(|metric| named(metric.name, metric.unit)));
    let mut line = |fields: Vec<String>| {
        let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
        writeln!(out, "{}", fields.join(","))
    };
    line(head)?;
    for (cell, row) in &found.trials {
        let (experiment, system) = (cell.experiment.clone(), cell.system.clone());
        let verdict = row.standing.word().to_owned();
        let mut fields = vec![experiment, system, cell.repeat.to_string(), verdict];
        fields.extend(
            axes.iter()
                .map(|axis| cell.axes.get(*axis).cloned().unwrap_or_default()),
        );
        fields.extend(METRICS.iter().map(|metric| {
            let value = (metric.of)(cell, row).filter(|value| value.is_finite());
            value.map_or_else(String::new, |value| {
                ((value * 1e6).round() / 1e6).to_string()
            })
        }));
        line(fields)?;
    }
    Ok(())
}

/// Of a unit: the end of a sample's name and what makes seconds, bytes and parts of one, and the end of a column's name.
fn forms(unit: Unit) -> (&'static str, f64, &'static str) {
    match unit {
        Unit::Micros => ("_seconds", 1e-6, "_us"),
        Unit::Bytes => ("_bytes", 1.0, "_bytes"),
        Unit::Kibibytes => ("_bytes", 1024.0, "_kib"),
        Unit::Part => ("_ratio", 1.0, "_part"),
        Unit::PerSecond => ("_per_second", 1.0, "_per_s"),
        Unit::Count | Unit::Number => ("", 1.0, ""),
    }
}

/// A column with its unit: `p99_us`.
fn named(name: &str, unit: Unit) -> String {
    match forms(unit) {
        _ if unit == Unit::Bytes && name.contains("bytes") => name.to_owned(),
        (.., end) => format!("{name}{end}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{Folder, cell, measured};
    use crate::results::{Writer, about};

    fn exported(format: Form) -> String {
        let folder = Folder::new(&format!("export-{format:?}"));
        let cells = [cell("60B", 0), cell("60B", 1), cell("2,5 \"kB\"", 0)];
        let mut writer =
            Writer::open(&folder.0, &about("test", &cells), false).expect("a new folder");
        for (cell, scale) in cells.iter().zip([1, 3, 2]) {
            writer.write(cell, &measured(scale)).expect("writable");
        }
        let mut out = Vec::new();
        run(
            &ExportArgs {
                dir: folder.0.clone(),
                format,
            },
            &mut out,
        )
        .expect("a folder");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn openmetrics_has_types_units_and_an_end() {
        let text = exported(Form::Openmetrics);
        assert!(text.ends_with("# EOF\n"));
        let sample = "thalweg_bench_p50_seconds{experiment=\"test\",system=\"thalweg\",repeat=\"0\",axis_size=\"60B\"} 0.000001";
        assert!(
            text.contains(sample) && text.contains("axis_size=\"2,5 \\\"kB\\\"\""),
            "{text}"
        );
        assert_eq!(text.matches("# TYPE thalweg_bench_lost gauge").count(), 1);
        // Each figure has one block.
        let names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .collect();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
    }

    #[test]
    fn repeats_are_merged_and_not_averaged() {
        let text = exported(Form::Hgrm);
        assert!(
            text.contains("# test size=60B: response")
                && text.contains("Total count    =          200]"),
            "{text}"
        );
        // 100 values up to 2 µs and 100 up to 6: the greatest is of the second repeat.
        assert!(text.contains("#[Max     =        6.00"), "{text}");
    }

    #[test]
    fn a_table_has_a_column_for_each_axis_and_a_document_has_all() {
        let text = exported(Form::Csv);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("experiment,system,repeat,verdict,axis.size,mean_us,p50_us"),
            "{}",
            lines[0]
        );
        assert!(
            lines.len() == 4 && lines[3].contains("\"2,5 \"\"kB\"\"\""),
            "{text}"
        );
        assert!(
            lines[0].contains(",bytes_per_msg,") && lines[0].contains(",rss_kib,"),
            "{}",
            lines[0]
        );
        let document: serde_json::Value =
            serde_json::from_str(&exported(Form::Json)).expect("JSON");
        assert_eq!(document["trials"].as_array().map(Vec::len), Some(3));
        assert_eq!(document["about"]["name"], "test");
    }
}
