//! Load reports of a member of shared subscriptions to a server.

use std::collections::VecDeque;
use std::time::Duration;

use thalweg_model::Time;
use thalweg_mqtt::load::Report;
use thalweg_mqtt::{ReportRules, Reporter};

use crate::transport::DeliveryId;

/// Received and unsettled messages of shared subscriptions, and the load computed from them.
#[derive(Debug)]
pub(super) struct LoadBook {
    /// Nothing if the server takes no reports, or no subscription is shared.
    reporter: Option<Reporter>,
    open: VecDeque<(DeliveryId, Time)>,
    /// When the last one was settled.
    settled: Time,
    next: Time,
}

impl Default for LoadBook {
    fn default() -> Self {
        LoadBook {
            reporter: None,
            open: VecDeque::new(),
            settled: Time::ZERO,
            next: Time::NEVER,
        }
    }
}

impl LoadBook {
    /// A new connection; with rules, one on which reports are wanted.
    pub(super) fn begin(&mut self, rules: Option<ReportRules>, now: Time) {
        self.open.clear();
        self.settled = now;
        self.reporter = rules.map(|rules| Reporter::new(rules, duration(now)));
        self.plan(now);
    }

    /// Whether reports are on.
    pub(super) fn is_on(&self) -> bool {
        self.reporter.is_some()
    }

    /// A message of a shared subscription has come.
    pub(super) fn received(&mut self, delivery: DeliveryId, now: Time) {
        let Some(reporter) = &mut self.reporter else {
            return;
        };
        reporter.received(duration(now));
        self.open.push_back((delivery, now));
        self.plan(now);
    }

    /// A message was settled. A member that works one by one began with it when the previous one was settled.
    pub(super) fn finished(&mut self, delivery: DeliveryId, now: Time) {
        let Some(reporter) = &mut self.reporter else {
            return;
        };
        let Some(at) = self.open.iter().position(|(open, _)| *open == delivery) else {
            return;
        };
        let Some((_, came)) = self.open.remove(at) else {
            return;
        };
        reporter.started();
        reporter.finished(
            1,
            Duration::from_nanos(now.since(came.max(self.settled)).nanos()),
        );
        self.settled = now;
        self.plan(now);
    }

    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Returns the report that is due now.
    pub(super) fn report(&mut self, now: Time) -> Option<Report> {
        let report = self
            .reporter
            .as_mut()
            .map(|reporter| reporter.report(duration(now)).brief());
        self.plan(now);
        report
    }

    fn plan(&mut self, now: Time) {
        let at = self
            .reporter
            .as_ref()
            .and_then(|reporter| reporter.poll_timeout(duration(now)));
        self.next = at.map_or(Time::NEVER, |at| {
            Time::from_nanos(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))
        });
    }
}

fn duration(time: Time) -> Duration {
    Duration::from_nanos(time.nanos())
}
