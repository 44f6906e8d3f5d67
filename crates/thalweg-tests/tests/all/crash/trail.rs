//! Every packet of a run, a line each, in a file: from it a breach gets its story. It goes when nothing was wrong.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::book::Moment;

/// Lines of a story at the most; a message that is repeated for minutes has no better story for it.
const LINES_MAX: usize = 60;

#[derive(Debug)]
pub struct Trail {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Trail {
    pub fn new(path: PathBuf) -> Self {
        let file =
            File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self {
            path,
            file: BufWriter::with_capacity(1 << 16, file),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn note(&mut self, at: Moment, who: &str, what: std::fmt::Arguments) {
        writeln!(self.file, "{} {who} {what}", seconds(at)).expect("the trail can be written");
    }

    /// The lines that hold `needle`.
    pub fn lines_with(&mut self, needle: &str) -> String {
        self.file.flush().expect("the trail can be written");
        let lines = BufReader::new(File::open(&self.path).expect("the trail is there"))
            .lines()
            .map_while(Result::ok);
        let mut story = String::new();
        for line in lines
            .filter(|line| line.contains(needle) && !line.contains(" BREACH "))
            .take(LINES_MAX)
        {
            story += &format!("      {line}\n");
        }
        story
    }

    pub fn forget(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A moment as a person reads it.
pub fn seconds(at: Moment) -> String {
    format!("{:.6}", at as f64 / 1e9)
}
