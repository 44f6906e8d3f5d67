//! The log of `thalweg serve`, as `log.*` wants it.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use thalweg_server::config::{Log, LogFormat, LogLevel};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
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
        None => (BoxMakeWriter::new(io::stderr), io::stderr().is_terminal()),
        Some(path) => {
            let file = open(path).map_err(|error| {
                Failure::new(format!(
                    "the log file {} cannot be written: {error}",
                    path.display()
                ))
                .mend("Change log.file, or leave it out to log to standard error")
            })?;
            (BoxMakeWriter::new(Mutex::new(file)), false)
        }
    };
    let lines = fmt::layer().with_ansi(is_colored).with_target(false);
    let lines = match log.format {
        LogFormat::Text => lines
            .with_writer(OneLine {
                inner: writer,
                is_colored,
            })
            .boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_writer(writer).boxed(),
    };
    tracing_subscriber::registry()
        .with(level)
        .with(lines)
        .try_init()
        .map_err(|error| Failure::new(format!("the log cannot be started: {error}")))?;
    Ok(Level(handle))
}

/// Opens a log file for appending. A new one is for its owner and group: names of clients and users are in it.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o640)
        .open(path)
}

/// Makes every event one line of bounded length, whatever text of peers is in it.
struct OneLine<M> {
    inner: M,
    /// Escape sequences are ours then; those in values are escaped by the formatter.
    is_colored: bool,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for OneLine<M> {
    type Writer = OneLine<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        OneLine {
            inner: self.inner.make_writer(),
            is_colored: self.is_colored,
        }
    }
}

impl<W: Write> Write for OneLine<W> {
    /// Takes a whole event, which is what the formatter writes at once.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let mut line = String::with_capacity(event.len());
        for letter in text.trim_end_matches('\n').chars() {
            if line.len() >= LINE_BYTES_MAX {
                line.push('…');
                break;
            }
            match letter {
                '\u{1b}' if self.is_colored => line.push(letter),
                // Line and paragraph separators, and what changes the direction of the rest of the line.
                '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    _ = write!(line, "{}", letter.escape_unicode())
                }
                letter if letter.is_control() => line.extend(letter.escape_default()),
                letter => line.push(letter),
            }
        }
        line.push('\n');
        self.inner.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Length of a line of the text format.
const LINE_BYTES_MAX: usize = 8 << 10;

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What one event with a client's name in it looks like.
    fn logged(client: &str) -> String {
        let written = Sink::default();
        let sink = written.clone();
        let writer = OneLine {
            inner: move || sink.clone(),
            is_colored: false,
        };
        let lines = fmt::layer()
            .with_ansi(false)
            .with_target(false)
            .with_writer(writer);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::warn!(%client, "refused {client}");
        });
        let written = written.0.lock().expect("nobody panics");
        String::from_utf8(written.clone()).expect("text")
    }

    #[test]
    fn text_of_peers_cannot_make_a_line_of_its_own() {
        for forged in [
            "a\n2026-01-01T00:00:00Z ERROR forged",
            "a\r\nforged",
            "a\u{2028}forged",
            "a\u{202e}b\u{1b}[2Jc\0",
        ] {
            let line = logged(forged);
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(
                !line.trim_end().contains(|letter: char| letter.is_control()),
                "{line}"
            );
            assert!(!line.contains(['\u{2028}', '\u{202e}']), "{line}");
        }
        assert!(logged("pump-7 äöü").ends_with("refused pump-7 äöü client=pump-7 äöü\n"));
        assert!(logged(&"x".repeat(100_000)).len() < LINE_BYTES_MAX + 10);
    }

    #[test]
    fn a_new_log_file_is_not_for_everybody() {
        let path = std::env::temp_dir().join(format!("thalweg-log-{}", std::process::id()));
        let file = open(&path).expect("the temporary folder is writable");
        let mode = file.metadata().expect("it is open").permissions().mode();
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(mode & 0o137, 0, "{mode:o}");
    }
}
