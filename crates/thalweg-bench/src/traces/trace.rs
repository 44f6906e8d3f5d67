//! The text of a trace.
//!
//! ```text
//!   # thalweg trace 1                       first line
//!   # class: multimedia                     what it is, for people: KEY: VALUE
//!   # form: messages                        or bins; `form` and `columns` must be there
//!   # columns: at_us source bytes
//!   1200 0 53212                            a message: microseconds from the beginning, ascending; source from 0; bytes
//!
//!   # form: bins
//!   # columns: start_s kind rate_per_s gaps sizes
//!   0 0 348.2 0.0001,0.05,… 36,36,…         what one source of a kind does from there for 15 minutes: messages a second,
//!                                           quantiles of its gaps (mean 1) and of its sizes in bytes, at Quantiles::LEVELS
//! ```
//! Flow `f` is a source of kind `f` modulo kinds. All bins are 900 s long; a bin is told for every kind.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::str::FromStr;

use super::quantiles::Quantiles;

#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Lines of the head: key, value.
    pub about: Vec<(String, String)>,
    pub body: Body,
}

/// What happens in a trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Every message, in the order of times.
    Messages(Vec<Message>),
    /// Distributions: `bins[n][kind]` from 900·n s on.
    Bins(Vec<Vec<Bin>>),
}

/// A message of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Microseconds since the beginning.
    pub at_us: u64,
    pub source: u32,
    pub bytes: u32,
}

/// What a source does in 15 minutes.
#[derive(Clone, Debug, PartialEq)]
pub struct Bin {
    pub rate: f64,
    /// Gaps, with a mean of one.
    pub gaps: Quantiles,
    pub sizes: Quantiles,
}

/// Seconds of a bin.
pub const BIN_S: u64 = 900;

impl Trace {
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{FIRST}")?;
        for (key, value) in &self.about {
            writeln!(out, "# {key}: {value}")?;
        }
        match &self.body {
            Body::Messages(messages) => {
                writeln!(out, "# form: messages\n# columns: {MESSAGES}")?;
                messages.iter().try_for_each(|message| {
                    writeln!(
                        out,
                        "{} {} {}",
                        message.at_us, message.source, message.bytes
                    )
                })
            }
            Body::Bins(bins) => {
                writeln!(out, "# form: bins\n# columns: {BINS}")?;
                for (number, kinds) in bins.iter().enumerate() {
                    for (kind, bin) in kinds.iter().enumerate() {
                        let start = number as u64 * BIN_S;
                        writeln!(
                            out,
                            "{start} {kind} {:.6} {} {}",
                            bin.rate, bin.gaps, bin.sizes
                        )?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Reads a file; what is wrong is told with its line.
    pub fn open(file: &Path) -> Result<Trace, String> {
        let named = |why: String| format!("{}: {why}", file.display());
        let opened = File::open(file).map_err(|error| named(error.to_string()))?;
        Trace::read(&mut BufReader::new(opened)).map_err(named)
    }

    /// The same from its text.
    pub fn read(text: &mut dyn BufRead) -> Result<Trace, String> {
        let mut trace = Trace {
            about: Vec::new(),
            body: Body::Messages(Vec::new()),
        };
        let mut form = String::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.map_err(|error| error.to_string())?;
            let wrong = |what: &str| format!("line {}: {what}", number + 1);
            if number == 0 && line != FIRST {
                return Err(wrong(&format!("a trace begins with {FIRST}")));
            }
            if let Some(comment) = line.strip_prefix('#') {
                match comment.trim().split_once(": ") {
                    Some(("form", "messages")) => form = "messages".to_owned(),
                    Some(("form", "bins")) => {
                        (form, trace.body) = ("bins".to_owned(), Body::Bins(Vec::new()))
                    }
                    Some(("columns", columns))
                        if columns != if form == "bins" { BINS } else { MESSAGES } =>
                    {
                        return Err(wrong(
                            "other columns than this program reads, or no form before them",
                        ));
                    }
                    Some(("columns", _)) | None => {}
                    Some((key, value)) => trace.about.push((key.to_owned(), value.to_owned())),
                }
                continue;
            }
            if form.is_empty() {
                return Err(wrong("its form is missing: messages or bins"));
            }
            trace.body.take(&line).map_err(|what| wrong(&what))?;
        }
        let fault = match &trace.body {
            Body::Messages(messages) if messages.is_empty() => "there is no message in it",
            Body::Bins(bins) if bins.is_empty() => "there is no bin in it",
            Body::Bins(bins) if bins.iter().any(|kinds| kinds.len() != bins[0].len()) => {
                "every kind needs every bin"
            }
            _ => return Ok(trace),
        };
        Err(fault.to_owned())
    }

    /// Sources, or kinds of sources.
    pub fn sources(&self) -> u32 {
        match &self.body {
            Body::Messages(messages) => messages
                .iter()
                .map(|message| message.source + 1)
                .max()
                .unwrap_or(0),
            Body::Bins(bins) => bins.first().map_or(0, |kinds| kinds.len() as u32),
        }
    }
}

impl Body {
    fn take(&mut self, line: &str) -> Result<(), String> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match (self, fields.as_slice()) {
            (Body::Messages(messages), [at, source, bytes]) => {
                let message = Message {
                    at_us: number(at, "time", |_| true)?,
                    source: number(source, "source", |it| *it < SOURCES_MAX)?,
                    bytes: number(bytes, "size up to 16 MB", |it| *it <= BYTES_MAX)?,
                };
                let last = messages.last().map_or(0, |last| last.at_us);
                if last > message.at_us {
                    return Err("it comes before the one above".to_owned());
                }
                messages.push(message);
                Ok(())
            }
            (Body::Bins(bins), [start, kind, rate, gaps, sizes]) => {
                let bin = Bin {
                    rate: number(rate, "rate up to 10 million", |it| (0.0..=1e7).contains(it))?,
                    gaps: Quantiles::read(gaps).ok_or("no quantiles of gaps")?,
                    sizes: Quantiles::read(sizes).ok_or("no quantiles of sizes")?,
                };
                let start: u64 = number(start, "start", |_| true)?;
                let kind: usize = number(kind, "kind", |_| true)?;
                if kind == 0 {
                    bins.push(Vec::new());
                }
                let number = bins.len() as u64;
                match bins.last_mut() {
                    Some(kinds) if start == (number - 1) * BIN_S && kind == kinds.len() => {
                        kinds.push(bin);
                        Ok(())
                    }
                    _ => Err("bins follow each other, and kinds within them".to_owned()),
                }
            }
            _ => Err("another number of fields".to_owned()),
        }
    }
}

fn number<T: FromStr>(text: &str, what: &str, may_be: fn(&T) -> bool) -> Result<T, String> {
    let number = text.parse().ok().filter(may_be);
    number.ok_or_else(|| format!("no {what}"))
}

const FIRST: &str = "# thalweg trace 1";
const MESSAGES: &str = "at_us source bytes";
const BINS: &str = "start_s kind rate_per_s gaps sizes";
/// More is a slip.
const SOURCES_MAX: u32 = 10_000_000;
const BYTES_MAX: u32 = 16_777_216;
