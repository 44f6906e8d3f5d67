//! Both books together: a row.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::{Got, Sent};
use crate::cell::{Quantiles, Row, Second, Standing};

/// The sender's and the receivers' books of a trial.
#[derive(Clone, Debug)]
pub struct Books {
    pub sent: Sent,
    pub got: Got,
}

impl Books {
    /// What the row says of messages; what else it says is left at nothing.
    pub fn row(&self, fan_out: u32, standing: Standing) -> Row {
        let (sent, got) = (&self.sent, &self.got);
        let expected = sent.sent * u64::from(fan_out);
        let counts = [
            ("held_back", sent.held_back),
            ("strangers", got.strangers),
            ("sent_all_phases", sent.all),
            ("delivered_all_phases", got.all),
        ];
        let more = counts.map(|(name, count)| (name.to_owned(), count as f64));
        let mut more = BTreeMap::from(more);
        if let Some(beside) = &got.beside {
            for (part, of) in ["before", "during", "after"].into_iter().zip(&beside.parts) {
                let found = quantiles(of);
                let figures = [
                    ("mean", found.mean),
                    ("sd", found.sd),
                    ("p90", found.p90),
                    ("p99", found.p99),
                ];
                for (what, value) in figures {
                    more.insert(format!("{part}_burst_{what}_us"), value);
                }
            }
            // Never is no number: then it is not there.
            let recovered = beside.recovered().map(|after| after as f64 / 1e6);
            more.extend(recovered.map(|after| ("recovery_ms".to_owned(), after)));
            more.insert("bursts_delivered".to_owned(), beside.bursts.0 as f64);
            more.insert("burst_bytes_delivered".to_owned(), beside.bursts.1 as f64);
        }
        Row {
            intended: sent.intended,
            sent: sent.sent,
            expected,
            delivered: got.delivered,
            lost: expected.saturating_sub(got.delivered),
            duplicates: got.duplicates,
            reordered: got.reordered,
            late: got.late,
            payload_bytes: got.payload_bytes,
            response: quantiles(&got.response),
            service: quantiles(&got.service),
            lag_p99_us: sent.lag.value_at_quantile(0.99) as f64 / 1e3,
            more,
            ..Row::blank(standing)
        }
    }

    /// What the rows of seconds say of messages.
    pub fn seconds(&self) -> Vec<Second> {
        let count = self.sent.seconds.len().max(self.got.seconds.len());
        let second = |number: usize| {
            let got = self.got.seconds.get(number);
            let quantile =
                |q: f64| got.map_or(0.0, |got| got.response.value_at_quantile(q) as f64 / 1e3);
            Second {
                sent: self.sent.seconds.get(number).copied().unwrap_or(0),
                received: got.map_or(0, |got| got.received),
                response_p50_us: quantile(0.5),
                response_p99_us: quantile(0.99),
                ..Second::default()
            }
        };
        (0..count).map(second).collect()
    }
}

/// A histogram of nanoseconds in short.
pub fn quantiles(of: &Histogram<u64>) -> Quantiles {
    if of.is_empty() {
        return Quantiles::default();
    }
    let at = |q: f64| of.value_at_quantile(q) as f64 / 1e3;
    Quantiles {
        count: of.len(),
        mean: of.mean() / 1e3,
        sd: of.stdev() / 1e3,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: of.max() as f64 / 1e3,
    }
}
