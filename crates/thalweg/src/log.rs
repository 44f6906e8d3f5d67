//! The log of `thalweg serve`, as `log.*` wants it.

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::sync::Mutex;

use thalweg_server::config::{Log, LogFormat, LogLevel};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::failure::Failure;

/// Changes the level of a log that is in use.
pub struct Level(reload::Handle<LevelFilter, Registry>);

impl Level {
    /// From now on this much is logged.
    pub fn set(&self, level: LogLevel) {
        // It fails when the log is gone, at the end of the program.
        let _ = self.0.reload(filter(level));
    }
}

/// Starts the log of this process.
pub fn start(log: &Log) -> Result<Level, Failure> {
    let (level, handle) = reload::Layer::new(filter(log.level));
    let (writer, is_colored) = match &log.file {
        None => (BoxMakeWriter::new(std::io::stderr), std::io::stderr().is_terminal()),
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
                Failure::new(format!("the log file {} cannot be written: {error}", path.display()))
                    .mend("Change log.file, or leave it out to log to standard error")
            })?;
            (BoxMakeWriter::new(Mutex::new(file)), false)
        }
    };
    let lines = fmt::layer().with_writer(writer).with_ansi(is_colored).with_target(false);
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry()
        .with(level)
        .with(lines)
        .try_init()
        .map_err(|error| Failure::new(format!("the log cannot be started: {error}")))?;
    Ok(Level(handle))
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
