//! Latencies on disk, in HdrHistogram's own formats.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;
use thalweg_stats::histograms::{log, percentiles, read_log};
use xxhash_rust::xxh3::xxh3_64;

use super::writer::{named, replace};

/// Response and service times of the trial of that key, in nanoseconds.
pub fn histograms(folder: &Path, key: &str) -> io::Result<[Histogram<u64>; 2]> {
    let file = path(folder, key, "hlog");
    let text = fs::read(&file).map_err(named(&file))?;
    read_log(&text).map_err(|what| io::Error::other(format!("{}: {what}", file.display())))
}

/// Writes a trial's latencies: response and service.
pub fn write(
    folder: &Path,
    key: &str,
    lasted: Duration,
    latencies: [&Histogram<u64>; 2],
) -> io::Result<()> {
    replace(&path(folder, key, "hlog"), &log(lasted, latencies)?)?;
    for (ending, histogram) in ["hgrm", "service.hgrm"].into_iter().zip(latencies) {
        let text = percentiles(histogram);
        replace(&path(folder, key, ending), text.as_bytes())?;
    }
    Ok(())
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

/// A name has 255 bytes at most, and keys are ASCII.
const NAME_CHARS_MAX: usize = 180;
