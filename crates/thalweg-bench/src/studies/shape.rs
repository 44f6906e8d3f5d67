//! A statement of a study, and what became of it twice: with the brokers that the study used, and with ours.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// What studies say, in words.
static STATEMENTS: LazyLock<Vec<Statement>> = LazyLock::new(|| {
    let file: BTreeMap<String, Vec<Statement>> =
        toml::from_str(include_str!("statements.toml")).expect("a test reads it");
    file.into_values().flatten().collect()
});

#[derive(Deserialize)]
struct Statement {
    id: String,
    what: String,
    /// The study's own figures.
    paper: String,
}

/// Whether something came out.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    Reproduced,
    Under(String),
    /// It did not, and why.
    Not(String),
    /// It was measured, and the data do not tell; why.
    NotJudged(String),
    /// There is nothing to judge.
    NotMeasured,
}

impl Ruling {
    /// As it is written.
    pub fn words(&self) -> String {
        match self {
            Ruling::Reproduced => "reproduced".to_owned(),
            Ruling::Under(condition) => format!("reproduced under a condition: {condition}"),
            Ruling::Not(why) => format!("not reproduced: {why}"),
            Ruling::NotJudged(why) => format!("not judged: {why}"),
            Ruling::NotMeasured => "not measured".to_owned(),
        }
    }

    /// Its name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Ruling::Reproduced => "reproduced",
            Ruling::Under(_) => "under-condition",
            Ruling::Not(_) => "not",
            Ruling::NotJudged(_) => "not-judged",
            Ruling::NotMeasured => "not-measured",
        }
    }
}

/// A statement of a study and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Its name, such as `S2.2`.
    pub id: &'static str,
    pub what: &'static str,
    /// The study's own figures.
    pub paper: &'static str,
    /// With the systems of the study, or their stand-ins.
    pub baseline: Found,
    pub ours: Found,
}

/// What was found in one of the two columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub figures: String,
    /// Whether it came out.
    pub ruling: Ruling,
}

impl Found {
    /// Nothing was measured that it could be judged by.
    pub fn nothing() -> Found {
        Found::not_asked("-")
    }

    /// It does not apply to this column; why stands in place of figures.
    pub fn not_asked(why: &str) -> Found {
        let (figures, ruling) = (why.to_owned(), Ruling::NotMeasured);
        Found { figures, ruling }
    }

    /// Figures that are shown and never judged, and why.
    pub fn told(figures: String, why: &str) -> Found {
        let ruling = Ruling::NotJudged(why.to_owned());
        Found { figures, ruling }
    }

    /// Whether it applies to this column, as far as [`Found::nothing`] tells it from [`Found::not_asked`].
    #[cfg(test)]
    pub fn is_asked(&self) -> bool {
        self.figures == "-"
    }

    /// The same, but if it came out then only under this condition.
    pub fn under(self, condition: impl Into<String>) -> Found {
        let ruling = match self.ruling {
            Ruling::Reproduced => Ruling::Under(condition.into()),
            Ruling::Under(other) => Ruling::Under(format!("{other}; {}", condition.into())),
            other => other,
        };
        Found { ruling, ..self }
    }
}

/// What speaks for and against a statement, gathered while its data are gone through.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    figures: Vec<String>,
    faults: Vec<String>,
    open: Vec<String>,
    missing: Vec<String>,
}

impl Evidence {
    pub fn figure(&mut self, words: impl Into<String>) {
        self.figures.push(words.into());
    }

    /// If it is so, it refutes the statement.
    pub fn fault(&mut self, is_so: bool, words: impl Into<String>) {
        self.faults.extend(is_so.then(|| words.into()));
    }

    /// The data do not tell.
    pub fn open(&mut self, words: impl Into<String>) {
        self.open.push(words.into());
    }

    /// A part that the statement is judged without.
    pub fn missing(&mut self, words: impl Into<String>) {
        self.missing.push(words.into());
    }

    /// A comparison that holds, is broken, or is left open by the intervals of its repeats.
    pub fn compared(
        &mut self,
        holds: Option<bool>,
        broken: impl Into<String>,
        open: impl Into<String>,
    ) {
        match holds {
            Some(holds) => self.fault(!holds, broken),
            None => self.open(open),
        }
    }

    /// The same: what is left open is so within the intervals.
    pub fn weighed(&mut self, holds: Option<bool>, words: &str) {
        self.compared(holds, words, format!("{words}, within the intervals"));
    }

    /// The verdict: one fault refutes; without any, whatever is open keeps the statement from being judged.
    pub fn found(self, between: &str) -> Found {
        self.found_as(|figures| figures.join(between))
    }

    /// The same, its figures in other words.
    pub fn found_as(self, figures: impl FnOnce(&[String]) -> String) -> Found {
        let ruling = match (self.faults.as_slice(), self.open.as_slice()) {
            ([], []) if self.figures.is_empty() => return Found::nothing(),
            ([], []) => Ruling::Reproduced,
            ([], open) => Ruling::NotJudged(some(open)),
            (faults, _) => Ruling::Not(some(faults)),
        };
        let figures = figures(&self.figures);
        let found = Found { figures, ruling };
        match self.missing.as_slice() {
            [] => found,
            missing => found.under(format!("without {}", some(missing))),
        }
    }
}

/// The first few of them in words.
fn some(words: &[String]) -> String {
    let shown = words.get(..SHOWN_MAX).unwrap_or(words).join("; ");
    match words.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// So many are told one by one.
const SHOWN_MAX: usize = 4;

impl Shape {
    /// A statement by its name, and what was found in either column.
    pub fn of(id: &'static str, baseline: Found, ours: Found) -> Shape {
        let known = STATEMENTS.iter().find(|it| it.id == id);
        let (what, paper) = known.map_or(("", ""), |it| (&it.what, &it.paper));
        Shape {
            id,
            what,
            paper,
            baseline,
            ours,
        }
    }

    /// Whether anything that was measured speaks against it in our column.
    pub fn failed(&self) -> bool {
        matches!(self.ours.ruling, Ruling::Not(_))
    }
}
