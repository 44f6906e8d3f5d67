//! Histograms of latencies in HdrHistogram's own formats: they can be merged and plotted by other tools.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

/// What a log has two of: times since a message was to be sent, and since it was sent.
const NAMES: [&str; 2] = ["response", "service"];

/// Reads a log: response and service times in nanoseconds. Says what is broken.
pub fn read_log(log: &[u8]) -> Result<[Histogram<u64>; 2], &'static str> {
    let mut all = [None, None];
    for entry in IntervalLogIterator::new(log) {
        let entry = entry.map_err(|_| "this is no histogram log")?;
        let LogEntry::Interval(interval) = entry else {
            continue;
        };
        let bytes = STANDARD
            .decode(interval.encoded_histogram())
            .map_err(|_| "no base64")?;
        let mut found: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|_| "no V2 histogram")?;
        // One that was read would refuse to take longer times from another.
        found.auto(true);
        let tag = interval.tag().map(|tag| tag.as_str());
        if let Some(at) = NAMES.iter().position(|name| tag == Some(name)) {
            all[at] = Some(found);
        }
    }
    match all {
        [Some(response), Some(service)] => Ok([response, service]),
        _ => Err("response or service is missing"),
    }
}

/// A log of response and service times of a phase that lasted so long.
pub fn log(lasted: Duration, latencies: [&Histogram<u64>; 2]) -> io::Result<Vec<u8>> {
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("thalweg bench; nanoseconds; both histograms are of the measured phase")
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut log, &mut serializer)?;
    for (name, histogram) in NAMES.into_iter().zip(latencies) {
        writer
            .write_histogram(histogram, Duration::ZERO, lasted, Tag::new(name))
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
    }
    drop(writer);
    Ok(log)
}

/// The percentiles in microseconds, as HdrHistogram's programs print them.
pub fn percentiles(histogram: &Histogram<u64>) -> String {
    // A text takes everything: no line of it fails.
    let mut text = format!(
        "{:>14} {:>17} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut count = 0;
    for point in histogram.iter_quantiles(TICKS) {
        let quantile = point.quantile_iterated_to();
        // The last value may be the end of its bucket, beyond anything recorded.
        let value = point.value_iterated_to().min(histogram.max()) as f64 / 1e3;
        count += point.count_since_last_iteration();
        let _ = write!(text, "{value:>14.3} {quantile:>17.12} {count:>10}");
        if quantile >= 1.0 {
            text.push('\n');
            break;
        }
        let _ = writeln!(text, " {:>14.2}", 1.0 / (1.0 - quantile));
    }
    let (mean, sd) = (histogram.mean() / 1e3, histogram.stdev() / 1e3);
    let (max, all) = (histogram.max() as f64 / 1e3, histogram.len());
    let buckets = 64 - histogram.high().leading_zeros().min(63);
    text + &format!(
        "#[Mean    = {mean:>12.3}, StdDeviation   = {sd:>12.3}]\n\
         #[Max     = {max:>12.3}, Total count    = {all:>12}]\n\
         #[Buckets = {buckets:>12}, SubBuckets     = {:>12}]\n",
        2048
    )
}

/// A histogram of these values, which takes any others; 3 significant digits.
pub fn of(values: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).unwrap_or_else(|_| unreachable!("0 to 5 digits"));
    for value in values {
        // It grows.
        let _ = histogram.record(*value);
    }
    histogram
}

/// An empty histogram from 1 to `longest`, with 0 to 5 significant digits.
pub fn up_to(longest: u64, digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, longest, digits)
        .unwrap_or_else(|_| unreachable!("a range, 0 to 5 digits"))
}

/// Each value that was recorded, with how often.
pub fn recorded(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let values = histogram.iter_recorded();
    let value = values.map(|it| (it.value_iterated_to(), it.count_since_last_iteration()));
    value.collect()
}

/// Lines for each halving of what is left above, as HdrHistogram's programs have it.
const TICKS: u32 = 5;
