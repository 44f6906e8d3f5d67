//! Latencies on disk, in HdrHistogram's own formats: they can be merged and plotted by other tools.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use xxhash_rust::xxh3::xxh3_64;

use super::writer::{named, replace};

/// What each trial has two of: times since it was to be sent, and since it was sent.
const NAMES: [&str; 2] = ["response", "service"];

/// Response and service times of the trial of that key, in nanoseconds.
pub fn histograms(folder: &Path, key: &str) -> io::Result<[Histogram<u64>; 2]> {
    let file = path(folder, key, "hlog");
    let text = fs::read(&file).map_err(named(&file))?;
    let broken = |what: &str| io::Error::other(format!("{}: {what}", file.display()));
    let mut all = [None, None];
    for entry in IntervalLogIterator::new(&text) {
        let entry = entry.map_err(|_| broken("this is no histogram log"))?;
        let LogEntry::Interval(interval) = entry else {
            continue;
        };
        let bytes = STANDARD
            .decode(interval.encoded_histogram())
            .map_err(|_| broken("no base64"))?;
        let mut found: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|_| broken("no V2 histogram"))?;
        // One that was read would refuse to take longer times from another.
        found.auto(true);
        let tag = interval.tag().map(|tag| tag.as_str());
        if let Some(at) = NAMES.iter().position(|name| tag == Some(name)) {
            all[at] = Some(found);
        }
    }
    match all {
        [Some(response), Some(service)] => Ok([response, service]),
        _ => Err(broken("response or service is missing")),
    }
}

/// Writes a trial's latencies: response and service.
pub fn write(
    folder: &Path,
    key: &str,
    lasted: Duration,
    latencies: [&Histogram<u64>; 2],
) -> io::Result<()> {
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    {
        let mut writer = IntervalLogWriterBuilder::new()
            .add_comment("thalweg bench; nanoseconds; both histograms are of the measured phase")
            .with_max_value_divisor(1e6)
            .begin_log_with(&mut log, &mut serializer)?;
        for (name, histogram) in NAMES.into_iter().zip(latencies) {
            writer
                .write_histogram(histogram, Duration::ZERO, lasted, Tag::new(name))
                .map_err(|error| io::Error::other(format!("{error:?}")))?;
        }
    }
    replace(&path(folder, key, "hlog"), &log)?;
    for (ending, histogram) in ["hgrm", "service.hgrm"].into_iter().zip(latencies) {
        let text = percentiles(histogram);
        replace(&path(folder, key, ending), text.as_bytes())?;
    }
    Ok(())
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

/// The name of a trial's files without the ending: its key, shortened where file systems end.
pub fn file_name(key: &str) -> String {
    match key.get(..NAME_CHARS_MAX).filter(|begin| *begin != key) {
        None => key.to_owned(),
        Some(begin) => format!("{begin}-{:016x}", xxh3_64(key.as_bytes())),
    }
}

fn path(folder: &Path, key: &str, ending: &str) -> PathBuf {
    folder
        .join("latency")
        .join(format!("{}.{ending}", file_name(key)))
}

/// Lines for each halving of what is left above, as HdrHistogram's programs have it.
const TICKS: u32 = 5;
/// A name has 255 bytes at most, and keys are ASCII.
const NAME_CHARS_MAX: usize = 180;
