//! `docs/reference/metrics.md`, from the table.

use super::table::{METRICS, MetricKind};
use super::text::front_kind;
use std::fmt::Write;
use thalweg_kernel::DropReason;
use thalweg_server::lobby::LobbyCounts;
use thalweg_server::protocols;
use thalweg_server::stages::SPANS;

/// The reference in Markdown. `UPDATE_DOCS=1 cargo test -p thalweg-admin documents` (`cargo xtask docs --bless`) writes it
/// to `docs/reference/metrics.md`.
pub fn reference() -> String {
    let mut out = String::from(
        "# Metrics\n\n\
         <!-- Generated from crates/thalweg-admin/src/metrics/table.rs and what fronts declare. To write it anew:\n     \
         UPDATE_DOCS=1 cargo test -p thalweg-admin documents -->\n\n\
         `GET /metrics` on the admin interface (`admin.bind`, by default http://127.0.0.1:7883) answers in Prometheus' text\n\
         format. Where a topic is named, the same value is published there as a last value each `sys.interval`, for watchers\n\
         that only speak MQTT; those names are mosquitto's where the meaning is the same.\n\n\
         | metric | type | unit | meaning | topic |\n|---|---|---|---|---|\n",
    );
    let mut row =
        |name: &str, label: Option<&str>, kind: MetricKind, unit: &str, help: &str, topic: &str| {
            let label = label.map_or(String::new(), |label| format!("{{{label}}}"));
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(
                out,
                "| `{name}{label}` | {} | {unit} | {help} | {topic} |",
                kind.name()
            );
        };
    for metric in METRICS {
        let topic = metric
            .sys
            .map_or(String::new(), |topic| format!("`$SYS/broker/{topic}`"));
        row(
            metric.name,
            metric.label,
            metric.kind,
            metric.unit,
            metric.help,
            &topic,
        );
    }
    for metric in protocols().flat_map(|protocol| protocol.metrics) {
        row(
            metric.name,
            metric.label,
            front_kind(metric),
            metric.unit,
            metric.help,
            "",
        );
    }
    let code = |names: Vec<&str>| {
        names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let drops = code(DropReason::ALL.iter().map(|reason| reason.name()).collect());
    let lobby = code(
        LobbyCounts::default()
            .named()
            .map(|(name, _)| name)
            .collect(),
    );
    let _ = write!(
        out,
        "\n## Labels\n\n\
         - `stage`: {}. `store.commit` has no samples, since it is shared by all messages of a commit: see \
         `thalweg_journal_sync_seconds_total`. `cluster.forward` has none before there is a cluster.\n\
         - `reason` of `thalweg_copies_dropped_total`: {drops}.\n\
         - `reason` of `thalweg_lobby_turned_away_total`: those of the lobby's counters that say why. All of them: {lobby}.\n\n\
         ## How they add up\n\n\
         - Publishes: received + the broker's own (wills, `$SYS`, the admin interface) = matched + unmatched + refused +\n  \
         repeated.\n\
         - Copies: routed + restored = delivered + waiting + in flight + expired + dropped. `GET /v1/ledger` shows the difference as\n  \
         `unaccounted`.\n",
        code(SPANS.to_vec())
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_in_the_documents_is_not_stale() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/metrics.md"
        );
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, reference()).expect("docs/reference can be written");
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            there == reference(),
            "docs/reference/metrics.md is stale: UPDATE_DOCS=1 cargo test -p thalweg-admin documents"
        );
    }
}
