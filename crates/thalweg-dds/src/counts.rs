//! Counters of a bridge: transferred and dropped messages.

use crate::remarks::{Remarks, Unmatched};
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_fronts::{FrontMetric, ShowCount};

/// Counted by the threads of the bridge and by its front; the front shows them.
#[derive(Debug, Default)]
pub struct Counts {
    /// Samples that came in and were published.
    pub published: AtomicU64,
    /// Samples that were written.
    pub written: AtomicU64,
    /// By the access rules of the bridge's user.
    pub denied: AtomicU64,
    /// By the broker, because something is full.
    pub refused: AtomicU64,
    /// Messages that are neither CDR nor JSON of the topic's type.
    pub unreadable: AtomicU64,
    /// Longer than is allowed.
    pub too_long: AtomicU64,
    /// Reliable readers did not acknowledge in time.
    pub slow: AtomicU64,
    /// The topic's last reader had gone.
    pub unread: AtomicU64,
    /// Answers to no request, and requests that were not answered when too many waited.
    pub unanswered: AtomicU64,
    /// Deadlines of writers in which no sample came.
    pub deadlines_missed: AtomicU64,
    /// Writers that did not say in time that they are alive.
    pub silent: AtomicU64,
    /// Endpoints whose peers have not sent the type that they announce.
    pub untyped: AtomicU64,
    /// What there is to say of single endpoints.
    pub remarks: Remarks,
}

static SAMPLES: FrontMetric = FrontMetric {
    name: "thalweg_dds_samples_total",
    label: Some("direction"),
    values: &["in", "out"],
    unit: "samples",
    help: "Samples of DDS writers that were published, and samples written for DDS readers.",
};

static DROPPED: FrontMetric = FrontMetric {
    name: "thalweg_dds_dropped_total",
    label: Some("reason"),
    values: &[
        "denied",
        "refused",
        "unreadable",
        "too-long",
        "slow-reader",
        "no-reader",
        "unanswered",
    ],
    unit: "messages",
    help: "Samples and messages that the DDS bridge dropped, by reason.",
};

static UNMATCHED: FrontMetric = FrontMetric {
    name: "thalweg_dds_unmatched_endpoints_total",
    label: Some("policy"),
    values: &Unmatched::WORDS,
    unit: "endpoints",
    help: "Discovered endpoints that are not bridged, by the policy that no endpoint of the bridge can match, or another reason.",
};

static LOWERED: FrontMetric = FrontMetric {
    name: "thalweg_dds_lowered_readers_total",
    label: None,
    values: &[""],
    unit: "readers",
    help: "Readers that request RELIABLE of a topic whose messages a policy has sent at most once.",
};

static DEADLINES: FrontMetric = FrontMetric {
    name: "thalweg_dds_deadlines_missed_total",
    label: None,
    values: &[""],
    unit: "deadlines",
    help: "Times that writers of DDS did not write as soon as their DEADLINE promises, for each instance.",
};

static SILENT: FrontMetric = FrontMetric {
    name: "thalweg_dds_liveliness_lost_total",
    label: None,
    values: &[""],
    unit: "writers",
    help: "Times that writers of DDS did not say as soon as their LIVELINESS promises that they are alive.",
};

static UNTYPED: FrontMetric = FrontMetric {
    name: "thalweg_dds_untyped_endpoints_total",
    label: None,
    values: &[""],
    unit: "endpoints",
    help: "Endpoints that are bridged as if they announced no type, as it did not come within a second.",
};

impl Counts {
    pub fn add(count: &AtomicU64) {
        Counts::add_many(count, 1);
    }

    pub(crate) fn add_many(count: &AtomicU64, many: usize) {
        count.fetch_add(many as u64, Ordering::Relaxed);
    }

    pub fn get(count: &AtomicU64) -> u64 {
        count.load(Ordering::Relaxed)
    }

    pub(crate) fn show(&self, show: &mut ShowCount<'_>) {
        show(&SAMPLES, "in", Counts::get(&self.published));
        show(&SAMPLES, "out", Counts::get(&self.written));
        for (reason, count) in [
            ("denied", &self.denied),
            ("refused", &self.refused),
            ("unreadable", &self.unreadable),
            ("too-long", &self.too_long),
            ("slow-reader", &self.slow),
            ("no-reader", &self.unread),
            ("unanswered", &self.unanswered),
        ] {
            show(&DROPPED, reason, Counts::get(count));
        }
        for (why, count) in self.remarks.each_count() {
            show(&UNMATCHED, why, count);
        }
        show(&LOWERED, "", self.remarks.lowered_count());
        show(&DEADLINES, "", Counts::get(&self.deadlines_missed));
        show(&SILENT, "", Counts::get(&self.silent));
        show(&UNTYPED, "", Counts::get(&self.untyped));
    }
}
