//! A statement of a study, and what became of it twice: with the brokers that the study used, and with ours.

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
        Found {
            figures: "-".to_owned(),
            ruling: Ruling::NotMeasured,
        }
    }

    /// It does not apply to this column; why stands in place of figures.
    pub fn not_asked(why: &str) -> Found {
        Found {
            figures: why.to_owned(),
            ruling: Ruling::NotMeasured,
        }
    }

    /// Figures that are shown and never judged, and why.
    pub fn told(figures: String, why: &str) -> Found {
        Found {
            figures,
            ruling: Ruling::NotJudged(why.to_owned()),
        }
    }

    /// Whether it applies to this column, as far as [`Found::nothing`] tells it from [`Found::not_asked`].
    #[cfg(test)]
    pub fn is_asked(&self) -> bool {
        self.figures == "-"
    }

    /// Figures, and what spoke against the statement, if anything did.
    pub fn judged(figures: String, faults: &[String]) -> Found {
        Found::weighed(figures, faults, &[])
    }

    /// The same, and what the data leave open: one fault refutes; without any, whatever is open keeps it from being judged.
    pub fn weighed(figures: String, faults: &[String], open: &[String]) -> Found {
        let ruling = match (
            figures.is_empty() && faults.is_empty() && open.is_empty(),
            faults.is_empty(),
            open.is_empty(),
        ) {
            (true, ..) => return Found::nothing(),
            (_, false, _) => Ruling::Not(some(faults)),
            (_, true, false) => Ruling::NotJudged(some(open)),
            (_, true, true) => Ruling::Reproduced,
        };
        Found { figures, ruling }
    }

    /// The same, but if it came out then without these parts.
    pub fn without(self, missing: &[String]) -> Found {
        if missing.is_empty() {
            self
        } else {
            self.under(format!("without {}", some(missing)))
        }
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
    /// A statement with its name, its words and the study's figures, and what was found in either column.
    pub fn of(
        id: &'static str,
        what: &'static str,
        paper: &'static str,
        baseline: Found,
        ours: Found,
    ) -> Shape {
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
