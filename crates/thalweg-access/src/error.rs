//! What is wrong with an access file or key, in words for its author.

use std::fmt;
use std::path::{Path, PathBuf};

/// A fault in a password file, ACL file or token key: where it is, what is wrong and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessError {
    /// The file; empty when the fault lies in the settings themselves.
    pub path: PathBuf,
    /// The line, counted from 1; none when the whole file is at fault.
    pub line: Option<usize>,
    pub problem: String,
    /// What to do about it.
    pub mend: String,
}

impl AccessError {
    /// A fault of a whole file.
    pub fn file(path: &Path, problem: impl Into<String>, mend: impl Into<String>) -> Self {
        AccessError {
            path: path.into(),
            line: None,
            problem: problem.into(),
            mend: mend.into(),
        }
    }

    /// A fault of one line.
    pub fn line(
        path: &Path,
        line: usize,
        problem: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        AccessError {
            path: path.into(),
            line: Some(line),
            problem: problem.into(),
            mend: mend.into(),
        }
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.as_os_str().is_empty() {
            write!(f, "{}", self.path.display())?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}; {}", self.problem, self.mend)
    }
}

impl std::error::Error for AccessError {}
