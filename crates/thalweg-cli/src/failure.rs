//! What a command says when it cannot do what it was asked.

use std::fmt;
use std::process::ExitCode;

/// Why a command failed: what happened, how to mend it, and the exit code that says so to scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    what: String,
    mend: Option<String>,
    code: u8,
}

/// The work could not be done.
pub const EXIT_FAILED: u8 = 1;
/// The command line or the configuration is wrong; clap uses the same number.
pub const EXIT_USAGE: u8 = 2;
/// Ctrl-C came before the work was done: 128 + SIGINT, as shells say it.
pub const EXIT_INTERRUPTED: u8 = 130;

impl Failure {
    /// Something happened that the user has to know of.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure {
            what: what.into(),
            mend: None,
            code: EXIT_FAILED,
        }
    }

    /// What to do about it.
    pub fn mend(mut self, mend: impl Into<String>) -> Failure {
        self.mend = Some(mend.into());
        self
    }

    /// Something else that is true.
    pub fn also(mut self, what: impl fmt::Display) -> Failure {
        self.what = format!("{}; {what}", self.what);
        self
    }

    /// Another exit code than 1.
    pub fn code(mut self, code: u8) -> Failure {
        self.code = code;
        self
    }

    /// The user asked for something that cannot be.
    pub fn usage(what: impl Into<String>) -> Failure {
        Failure::new(what).code(EXIT_USAGE)
    }

    /// What happened, without the word that this is an error: for the log, which says so itself.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// For `main`.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        match &self.mend {
            Some(mend) => write!(f, "\n  {mend}"),
            None => Ok(()),
        }
    }
}

impl From<std::io::Error> for Failure {
    /// For output only: whoever opens or reads says which file it was.
    fn from(error: std::io::Error) -> Failure {
        match error.kind() {
            // The reader of our output has seen enough, as `head` does; that is no fault of anybody.
            std::io::ErrorKind::BrokenPipe => Failure::new("the output was closed").code(0),
            _ => Failure::new(format!("the output cannot be written: {error}")),
        }
    }
}

impl Failure {
    /// Whether there is nothing to tell: the work ended early because nobody reads on.
    pub fn is_silent(&self) -> bool {
        self.code == 0
    }
}
