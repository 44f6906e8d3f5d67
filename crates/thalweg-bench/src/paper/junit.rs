//! `junit.xml`: one case for each statement of a study and for each trial, for programs that show tests.

use std::fmt::Write as _;

use crate::cell::{Cell, Row, Standing};
use crate::report::document;
use crate::studies::shape::Ruling;

/// What one case came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The suite it belongs to.
    pub suite: String,
    pub name: String,
    /// How long it took.
    pub seconds: f64,
    /// What became of it.
    pub end: End,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    Passed,
    /// A statement did not come out.
    Failed(String),
    /// A trial came to no regular end.
    Broken(String),
    /// Nothing can be said.
    Skipped(String),
}

impl Case {
    /// Of a statement in a column.
    pub fn of_ruling(suite: &str, name: String, ruling: &Ruling) -> Case {
        let end = match ruling {
            Ruling::Reproduced | Ruling::Under(_) => End::Passed,
            Ruling::Not(why) => End::Failed(why.clone()),
            Ruling::NotJudged(_) | Ruling::NotMeasured => End::Skipped(ruling.words()),
        };
        Case {
            suite: suite.to_owned(),
            name,
            seconds: 0.0,
            end,
        }
    }

    pub fn of_trial(suite: &str, cell: &Cell, row: &Row) -> Case {
        let end = match &row.standing {
            Standing::Valid => End::Passed,
            Standing::Invalid(why) => End::Broken(why.clone()),
            other => End::Skipped(format!("{}: {}", other.word(), other.why())),
        };
        Case {
            suite: suite.to_owned(),
            name: cell.key(),
            seconds: row.seconds,
            end,
        }
    }
}

pub fn xml(cases: &[Case]) -> String {
    let mut suites: Vec<&str> = Vec::new();
    for case in cases {
        if !suites.contains(&case.suite.as_str()) {
            suites.push(&case.suite);
        }
    }
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n".to_owned();
    for suite in suites {
        let mine: Vec<&Case> = cases.iter().filter(|case| case.suite == suite).collect();
        let count = |is: fn(&End) -> bool| mine.iter().filter(|case| is(&case.end)).count();
        let _ = writeln!(
            text,
            "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
            escaped(suite),
            mine.len(),
            count(|end| matches!(end, End::Failed(_))),
            count(|end| matches!(end, End::Broken(_))),
            count(|end| matches!(end, End::Skipped(_))),
        );
        for case in mine {
            let (name, seconds) = (escaped(&case.name), case.seconds);
            let _ = write!(
                text,
                "<testcase classname=\"{}\" name=\"{name}\" time=\"{seconds:.3}\"",
                escaped(suite)
            );
            let _ = match &case.end {
                End::Passed => writeln!(text, "/>"),
                End::Failed(why) => {
                    writeln!(text, "><failure message=\"{}\"/></testcase>", escaped(why))
                }
                End::Broken(why) => {
                    writeln!(text, "><error message=\"{}\"/></testcase>", escaped(why))
                }
                End::Skipped(why) => {
                    writeln!(text, "><skipped message=\"{}\"/></testcase>", escaped(why))
                }
            };
        }
        text.push_str("</testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn escaped(text: &str) -> String {
    // XML 1.0 has no other control characters.
    let clean: String = text
        .chars()
        .filter(|c| !c.is_control() || *c == '\n' || *c == '\t')
        .collect();
    document::escaped(&clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_counted_where_it_belongs() {
        let case = |name: &str, end| Case {
            suite: "E2".to_owned(),
            name: name.to_owned(),
            seconds: 1.5,
            end,
        };
        let text = xml(&[
            case("a", End::Passed),
            case("b", End::Failed("4 < 5 & \"so\"".to_owned())),
            case("c", End::Broken("no broker\u{1}".to_owned())),
            case("d", End::Skipped("absent".to_owned())),
        ]);
        assert!(
            text.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""),
            "{text}"
        );
        assert!(text.contains("4 &lt; 5 &amp; &quot;so&quot;") && !text.contains('\u{1}'));
        assert!(text.contains("<testcase classname=\"E2\" name=\"a\" time=\"1.500\"/>"));
    }
}
