//! What a run leaves behind: raw files first, then everything that can be rendered from them again.
//!
//! *Knows:* files and their columns. *Must never know:* how anything was measured.
//!
//! ```text
//!  run.json               what ran, where and when (about)
//!  cells.jsonl            a line per trial, {"cell": …, "row": …}: the truth; a trial is there when its line is whole;
//!                         cells.jsonl.gz where a finished run is kept
//!  trials.csv             the same for people and spreadsheets (columns)
//!  timeseries.csv         key,second,sent,received,response_p50_us,response_p99_us,wire_bytes
//!  resources.csv          key,second,process,cpu_s,rss_kib
//!  messages.csv           key,seq,… a line per message, of studies that keep them
//!  events.jsonl           {"key": …, "at_s": …, "what": …}
//!  latency/NAME.hlog      histograms of response and service, nanoseconds, HdrHistogram V2 (latency)
//!  latency/NAME.hgrm      percentiles of the response, microseconds; NAME.service.hgrm of the service
//!  columns.md             what the columns are and their units
//! ```
//!
//! Whoever is killed leaves whole files behind: all others are written before the line in `cells.jsonl`, and what belongs to
//! no line is dropped when a run is resumed. A power cut is not guarded against.

mod about;
pub mod calls;
mod columns;
mod latency;
pub mod metric;
mod reader;
pub mod summary;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

pub use about::{about, command_line, hash, machine, unix_seconds, write_about};
pub use columns::quoted;
pub use latency::histograms;
pub use reader::{Results, has_trials, read};
pub use writer::Writer;
