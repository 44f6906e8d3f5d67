//! What is wrong with a configuration, where, and how to mend it; and where a good value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// One mistake in the configuration. Its text is a whole answer: the place, what is wrong, how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Where the mistake was made.
    pub origin: Origin,
    /// What is wrong, without a full stop.
    pub what: String,
    /// How to mend it, without a full stop.
    pub mend: String,
}

/// Where a value came from, in the order in which mistakes are read out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A line of the configuration file; line `0` is the file as a whole.
    File {
        /// The file as it was named on the command line.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// The variable of that name.
    Environment(String),
    /// A `--set` on the command line.
    Set,
    #[default]
    Default,
}

/// Origin of each value that was set, by full key name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origins(pub(super) BTreeMap<String, Origin>);

impl Origins {
    /// Where the value of `key` came from.
    pub fn of(&self, key: &str) -> Origin {
        self.0.get(key).cloned().unwrap_or_default()
    }

    /// Whether `key` was set.
    pub fn is_set(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
}

impl ConfigError {
    pub(super) fn new(origin: Origin, what: impl Into<String>, mend: impl Into<String>) -> Self {
        ConfigError {
            origin,
            what: what.into(),
            mend: mend.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Default => f.write_str("configuration")?,
            origin => write!(f, "{origin}")?,
        }
        let end = if self.mend.ends_with('?') { "" } else { "." };
        write!(f, ": {}. {}{end}", self.what, self.mend)
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line: 0 } => write!(f, "{}", path.display()),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Environment(variable) => write!(f, "environment {variable}"),
            Origin::Set => f.write_str("--set"),
        }
    }
}
