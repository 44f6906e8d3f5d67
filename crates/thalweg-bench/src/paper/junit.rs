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
    /// What it is called where it did not pass (`failure`: a statement did not come out, `error`: a trial came to no regular
    /// end, `skipped`: nothing can be said), and why.
    pub end: Option<(&'static str, String)>,
}

impl Case {
    /// Of a statement of a study, in a column.
    pub fn of_ruling(study: &str, name: String, ruling: &Ruling) -> Case {
        let end = match ruling {
            Ruling::Reproduced | Ruling::Under(_) => None,
            Ruling::Not(why) => Some(("failure", why.clone())),
            Ruling::NotJudged(_) | Ruling::NotMeasured => Some(("skipped", ruling.words())),
        };
        Case {
            suite: format!("{study} shapes"),
            name,
            seconds: 0.0,
            end,
        }
    }

    pub fn of_trial(cell: &Cell, row: &Row) -> Case {
        let end = match &row.standing {
            Standing::Valid => None,
            Standing::Invalid(why) => Some(("error", why.clone())),
            other => Some(("skipped", format!("{}: {}", other.word(), other.why()))),
        };
        Case {
            suite: format!("{} trials", cell.experiment),
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
        let count = |kind: &str| {
            let ends = mine.iter().filter_map(|case| case.end.as_ref());
            ends.filter(|end| end.0 == kind).count()
        };
        let _ = writeln!(
            text,
            "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
            escaped(suite),
            mine.len(),
            count("failure"),
            count("error"),
            count("skipped"),
        );
        for case in mine {
            let (name, seconds) = (escaped(&case.name), case.seconds);
            let _ = write!(
                text,
                "<testcase classname=\"{}\" name=\"{name}\" time=\"{seconds:.3}\"",
                escaped(suite)
            );
            let _ = match &case.end {
                None => writeln!(text, "/>"),
                Some((kind, why)) => {
                    writeln!(text, "><{kind} message=\"{}\"/></testcase>", escaped(why))
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
        let case = |name: &str, end: Option<(&'static str, &str)>| Case {
            suite: "E2".to_owned(),
            name: name.to_owned(),
            seconds: 1.5,
            end: end.map(|(kind, why)| (kind, why.to_owned())),
        };
        let text = xml(&[
            case("a", None),
            case("b", Some(("failure", "4 < 5 & \"so\""))),
            case("c", Some(("error", "no broker\u{1}"))),
            case("d", Some(("skipped", "absent"))),
        ]);
        assert!(
            text.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""),
            "{text}"
        );
        assert!(text.contains("4 &lt; 5 &amp; &quot;so&quot;") && !text.contains('\u{1}'));
        assert!(text.contains("<testcase classname=\"E2\" name=\"a\" time=\"1.500\"/>"));
    }
}
