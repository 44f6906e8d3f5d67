//! A statement of a study, and what became of it twice: with the brokers that the study used, and with ours.

use crate::report::study::Ruling;

/// A statement of a study and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Its name in EXPERIMENTS 5.
    pub id: &'static str,
    /// What it says.
    pub what: &'static str,
    /// The study's own figures.
    pub paper: &'static str,
    /// With the systems of the study, or their stand-ins.
    pub baseline: Found,
    /// With ours.
    pub ours: Found,
}

/// What was found in one of the two columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Figures.
    pub figures: String,
    /// Whether it came out.
    pub ruling: Ruling,
}

impl Found {
    /// Nothing was measured that it could be judged by.
    pub fn nothing() -> Found {
        Found { figures: "-".to_owned(), ruling: Ruling::NotMeasured }
    }

    /// It does not apply to this column; why stands in place of figures.
    pub fn not_asked(why: &str) -> Found {
        Found { figures: why.to_owned(), ruling: Ruling::NotMeasured }
    }

    /// Figures, and what spoke against the statement, if anything did.
    pub fn judged(figures: String, faults: &[String]) -> Found {
        let ruling = match faults.is_empty() {
            true => Ruling::Reproduced,
            false => Ruling::Not(faults.join("; ")),
        };
        Found { figures, ruling }
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

impl Shape {
    /// Whether anything that was measured speaks against it in our column.
    pub fn failed(&self) -> bool {
        matches!(self.ours.ruling, Ruling::Not(_))
    }
}
