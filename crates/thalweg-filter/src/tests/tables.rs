//! The tables and examples of JMS 1.1, 3.8.1, and their results in protocols without types.

use super::{Sample, parsed};
use crate::Value::{Bool, Float, Integer, Null, Text};
use crate::evaluate::truth_of;
use crate::{Key, Predicate, Value};

const TRUE: Option<bool> = Some(true);
const FALSE: Option<bool> = Some(false);
const UNKNOWN: Option<bool> = None;

fn truth(text: &str, headers: &[(&str, Value<'_>)]) -> Option<bool> {
    truth_of(parsed(text).condition(), &Sample::of(headers))
}

#[test]
fn and_or_and_not_have_three_values() {
    // Tables 3-4, 3-5, 3-6.
    let values = [(TRUE, Bool(true)), (FALSE, Bool(false)), (UNKNOWN, Null)];
    for (left, a) in values {
        for (right, b) in values {
            let headers = [("a", a), ("b", b)];
            let and = match (left, right) {
                (FALSE, _) | (_, FALSE) => FALSE,
                (TRUE, TRUE) => TRUE,
                _ => UNKNOWN,
            };
            let or = match (left, right) {
                (TRUE, _) | (_, TRUE) => TRUE,
                (FALSE, FALSE) => FALSE,
                _ => UNKNOWN,
            };
            assert_eq!(truth("a AND b", &headers), and);
            assert_eq!(truth("a OR b", &headers), or);
        }
        assert_eq!(truth("NOT a", &[("a", a)]), left.map(|truth| !truth));
        assert_eq!(parsed("a").matches(&Sample::of(&[("a", a)])), left == TRUE);
    }
}

#[test]
fn the_specifications_examples_hold() {
    for (text, headers, expected) in [
        (
            "age BETWEEN 15 AND 19",
            [("age", Integer(17)), ("x", Null)],
            TRUE,
        ),
        (
            "age >= 15 AND age <= 19",
            [("age", Integer(20)), ("x", Null)],
            FALSE,
        ),
        (
            "age NOT BETWEEN 15 AND 19",
            [("age", Integer(20)), ("x", Null)],
            TRUE,
        ),
        (
            "age < 15 OR age > 19",
            [("age", Integer(14)), ("x", Null)],
            TRUE,
        ),
        (
            "Country IN ('UK', 'US', 'France')",
            [("Country", Text("UK")), ("x", Null)],
            TRUE,
        ),
        (
            "Country IN ('UK', 'US', 'France')",
            [("Country", Text("Peru")), ("x", Null)],
            FALSE,
        ),
        (
            "Country NOT IN ('UK')",
            [("Country", Null), ("x", Null)],
            UNKNOWN,
        ),
        (
            "phone LIKE '12%3'",
            [("phone", Text("123")), ("x", Null)],
            TRUE,
        ),
        (
            "phone LIKE '12%3'",
            [("phone", Text("12993")), ("x", Null)],
            TRUE,
        ),
        (
            "phone LIKE '12%3'",
            [("phone", Text("1234")), ("x", Null)],
            FALSE,
        ),
        (
            "word LIKE 'l_se'",
            [("word", Text("lose")), ("x", Null)],
            TRUE,
        ),
        (
            "word LIKE 'l_se'",
            [("word", Text("loose")), ("x", Null)],
            FALSE,
        ),
        (
            "underscored LIKE '\\_%' ESCAPE '\\'",
            [("underscored", Text("_foo")), ("x", Null)],
            TRUE,
        ),
        (
            "underscored LIKE '\\_%' ESCAPE '\\'",
            [("underscored", Text("bar")), ("x", Null)],
            FALSE,
        ),
        (
            "phone NOT LIKE '12%3'",
            [("phone", Text("1234")), ("x", Null)],
            TRUE,
        ),
        ("prop_name IS NULL", [("x", Null), ("y", Null)], TRUE),
        (
            "prop_name IS NOT NULL",
            [("prop_name", Integer(0)), ("y", Null)],
            TRUE,
        ),
        (
            "JMSType IS NULL AND color = 'blue' AND weight > 2500",
            [("color", Text("blue")), ("weight", Integer(2501))],
            TRUE,
        ),
    ] {
        assert_eq!(truth(text, &headers), expected, "{text} {headers:?}");
    }
}

#[test]
fn numbers_are_promoted_and_kinds_are_not_mixed() {
    for (text, value, expected) in [
        ("a = 1.0", Integer(1), TRUE),
        ("a / 2 = 3", Integer(7), TRUE),
        ("a / 2 = 3.5", Float(7.0), TRUE),
        ("a / 0 = 1", Integer(7), UNKNOWN),
        ("-a + 2 * 3 = -1", Integer(7), TRUE),
        ("a + 1 > 9223372036854775807", Integer(i64::MAX), FALSE),
        ("a * 2 > 9223372036854775807", Integer(i64::MAX), TRUE),
        ("a + 1 = 2", Bool(true), UNKNOWN),
        ("a = 1", Bool(true), FALSE),
        ("a <> 1", Bool(true), FALSE),
        ("NOT a = 1", Text("x"), TRUE),
        ("a <> 1", Text("x"), FALSE),
        ("a = 'x'", Integer(1), FALSE),
        ("a LIKE '1'", Integer(1), FALSE),
        ("a", Integer(1), UNKNOWN),
        ("a = b", Text("x"), UNKNOWN),
        // From protocols without types.
        ("a > 2.5", Text("3"), TRUE),
        ("a = 3", Text("3.0"), TRUE),
        ("a = '3'", Text("3.0"), FALSE),
        ("a = '3'", Integer(3), TRUE),
        ("a < 2", Text("inf"), FALSE),
        ("a", Text("TRUE"), TRUE),
        ("a = FALSE", Text("false"), TRUE),
    ] {
        assert_eq!(truth(text, &[("a", value)]), expected, "{text} {value:?}");
    }
}

#[test]
fn like_takes_so_many_steps_and_no_more() {
    let long = "a".repeat(1 << 16);
    let headers = [("a", Text(&long))];
    let pattern = format!("a LIKE '%{}b'", "a".repeat(2000));
    assert_eq!(truth(&pattern, &headers), UNKNOWN);
    assert_eq!(truth("a LIKE '%a'", &headers), TRUE);
    for (pattern, text, expected) in [
        ("", "", true),
        ("%", "", true),
        ("_", "", false),
        ("%ab%ab", "abab", true),
        ("%ab%ab", "ab", false),
        ("a%%_c", "abc", true),
        ("_ö%", "aö", true),
        ("%%%x", "yyx", true),
    ] {
        let text_is = truth(&format!("a LIKE '{pattern}'"), &[("a", Text(text))]);
        assert_eq!(text_is, Some(expected), "{text} LIKE {pattern}");
    }
}

#[test]
fn an_equality_is_found_where_the_condition_needs_it() {
    let field = |name: &str| crate::Field::of(name).expect("a field");
    for (text, expected) in [
        ("a = 1", Some(("a", Key::Number(1.0)))),
        ("'x' = a AND b > 1", Some(("a", Key::Text("x")))),
        (
            "b > 1 AND (c < 2 AND payload.d = TRUE)",
            Some(("payload.d", Key::Bool(true))),
        ),
        ("a = '1'", Some(("a", Key::Number(1.0)))),
        ("a = 1 OR b = 1", None),
        ("NOT a = 1", None),
        ("a = b", None),
        ("a = 1 + 1", None),
    ] {
        let predicate = parsed(text);
        let expected = expected.map(|(name, key)| (field(name), key));
        let found = predicate
            .equality()
            .map(|(field, key)| (field.clone(), key));
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_predicate_costs_what_it_says() {
    let predicate = Predicate::parse("a = 'x' AND b > 1").expect("a filter");
    assert!(predicate.bytes() > size_of::<Predicate>() + predicate.text().len());
}
