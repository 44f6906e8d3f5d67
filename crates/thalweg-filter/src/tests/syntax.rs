//! Valid and invalid filters.

use super::Dice;
use crate::*;
use Expression::*;

fn parsed(text: &str) -> Expression {
    super::parsed(text).condition().clone()
}

fn header(name: &str) -> Field {
    Field::Header(name.into())
}

fn name(name: &str) -> Expression {
    Name(header(name))
}

fn check(text: &str) -> Result<(), FilterError> {
    Predicate::parse(text).map(drop)
}

fn boxed(expression: Expression) -> Box<Expression> {
    Box::new(expression)
}

fn equal(left: &str, right: i64) -> Expression {
    Compare(Comparison::Equal, boxed(name(left)), boxed(Integer(right)))
}

#[test]
fn and_binds_tighter_than_or_and_not_tighter_than_and() {
    assert_eq!(
        parsed("a = 1 OR NOT b = 2 and c = 3"),
        Or(vec![
            equal("a", 1),
            And(vec![Not(boxed(equal("b", 2))), equal("c", 3)])
        ])
    );
    assert_eq!(
        parsed("(a = 1 or b = 2) AND c = 3"),
        And(vec![Or(vec![equal("a", 1), equal("b", 2)]), equal("c", 3)])
    );
    assert_eq!(
        parsed("a=1 AND b=2 AND c=3"),
        And(vec![equal("a", 1), equal("b", 2), equal("c", 3)])
    );
}

#[test]
fn arithmetic_has_its_usual_order() {
    let Compare(Comparison::Less, sum, _) = parsed("a + 2 * -b < 10.5") else {
        panic!("not a comparison")
    };
    let product = Arithmetic(
        Operator::Times,
        boxed(Integer(2)),
        boxed(Negative(boxed(name("b")))),
    );
    assert_eq!(
        *sum,
        Arithmetic(Operator::Plus, boxed(name("a")), boxed(product))
    );
    let Compare(_, difference, _) = parsed("a - b - c = 0") else {
        panic!("not a comparison")
    };
    let Arithmetic(Operator::Minus, left, _) = *difference else {
        panic!("not a difference")
    };
    assert!(
        matches!(*left, Arithmetic(Operator::Minus, ..)),
        "from the left"
    );
}

#[test]
fn every_test_can_be_negated() {
    let between = Between(Box::new([name("age"), Integer(1), Integer(9)]));
    assert_eq!(parsed("age BETWEEN 1 AND 9"), between);
    assert_eq!(parsed("age NOT BETWEEN 1 AND 9"), Not(boxed(between)));
    let one_of = In(header("c"), vec!["x".into(), "it's".into()]);
    assert_eq!(parsed("c IN ('x', 'it''s')"), one_of);
    assert_eq!(parsed("c not in ('x', 'it''s')"), Not(boxed(one_of)));
    let like = Like {
        field: header("c"),
        pattern: Pattern::new("a\\_%", Some('\\')).expect("a pattern"),
    };
    assert_eq!(parsed("c LIKE 'a\\_%' ESCAPE '\\'"), like);
    assert_eq!(parsed("c NOT LIKE 'a\\_%' ESCAPE '\\'"), Not(boxed(like)));
    assert_eq!(parsed("c IS NULL"), IsNull(header("c")));
    assert_eq!(parsed("c IS NOT NULL"), Not(boxed(IsNull(header("c")))));
}

#[test]
fn names_and_values_take_their_forms() {
    for (text, expected) in [
        ("content-type = 'a'", name("content-type")),
        ("JMSType = 'a'", Name(Field::Own(Own::Kind))),
        ("x_1.y$ = 'a'", name("x_1.y$")),
        ("payload.a.0 = 'a'", Name(Field::Payload("a.0".into()))),
        ("größe = 'a'", name("größe")),
        ("12 = 12", Integer(12)),
        ("12L = 12", Integer(12)),
        ("1.5 = 12", Float(1.5)),
        (".5 = 12", Float(0.5)),
        ("1E-3 = 12", Float(0.001)),
        ("2d = 12", Float(2.0)),
        ("-7 = 12", Integer(-7)),
        ("TRUE = x", Bool(true)),
        ("+7 = 12", Integer(7)),
    ] {
        let Compare(Comparison::Equal, left, _) = parsed(text) else {
            panic!("{text}")
        };
        assert_eq!(*left, expected, "{text}");
    }
    assert_eq!(parsed("flag"), name("flag"));
    assert!(matches!(parsed("a - b = 1"), Compare(_, left, _) if matches!(*left, Arithmetic(..))));
    for (sign, how) in [
        ("=", Comparison::Equal),
        ("<>", Comparison::NotEqual),
        ("<", Comparison::Less),
        ("<=", Comparison::LessOrEqual),
        (">", Comparison::Greater),
        (">=", Comparison::GreaterOrEqual),
    ] {
        assert_eq!(
            parsed(&format!("a{sign}1")),
            Compare(how, boxed(name("a")), boxed(Integer(1)))
        );
    }
}

#[test]
fn what_is_not_a_selector_is_refused_where_it_goes_wrong() {
    for (text, at) in [
        ("", 0),
        ("   ", 3),
        ("a =", 3),
        ("= 1", 0),
        ("a = 1 b", 6),
        ("a = 'x", 4),
        ("(a = 1", 6),
        ("a = 1)", 5),
        ("a = 1 AND", 9),
        ("a == 1", 3),
        ("a ! 1", 2),
        ("a = 1x", 4),
        ("a = 1.2.3", 4),
        ("a = 1.5L", 4),
        ("a = 99999999999999999999", 4),
        ("1", 0),
        ("'text'", 0),
        ("a + 1", 0),
        ("'x' AND b = 1", 4),
        ("'x' + 1 = 2", 8),
        ("a IN ()", 6),
        ("a IN (1)", 6),
        ("a IN ('x'", 9),
        ("1 IN ('x')", 5),
        ("a LIKE b", 7),
        ("a LIKE 'x' ESCAPE 'yz'", 22),
        ("a LIKE 'x' ESCAPE ''", 20),
        ("1 IS NULL", 9),
        ("a IS 1", 5),
        ("a NOT 1", 6),
        ("a BETWEEN 1", 11),
        ("a BETWEEN 'x' AND 'y'", 21),
        ("NOT", 3),
        ("and = 1", 0),
        // JMS 3.8.1.1: texts and truths are equal or not, and nothing is equal to a value of another kind.
        ("a < 'x'", 4),
        ("a >= TRUE", 5),
        ("1 = 'x'", 4),
        ("a = 1 AND (b = 2) = 3", 20),
        ("a LIKE 'x!' ESCAPE '!'", 7),
        ("$nothing = 1", 0),
    ] {
        match Predicate::parse(text) {
            Err(error) => assert_eq!(error.at, at, "{text}: {error}"),
            Ok(selector) => panic!("{text}: {selector:?}"),
        }
    }
}

#[test]
fn length_depth_and_parts_are_bounded() {
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(check(&nested(DEPTH_MAX)), Ok(()));
    assert!(check(&nested(DEPTH_MAX + 1)).is_err());
    assert!(check(&"NOT ".repeat(DEPTH_MAX + 1)).is_err());
    assert!(check(&format!("{}a = 1", "-".repeat(DEPTH_MAX + 1))).is_err());
    // Conditions side by side do not nest.
    assert_eq!(
        check(&format!("(a){}", " AND (a)".repeat(2 * DEPTH_MAX))),
        Ok(())
    );
    let sum = |parts: usize| format!("a{} = 1", "+b".repeat(parts - 2));
    assert_eq!(check(&sum(PARTS_MAX)), Ok(()));
    assert!(check(&sum(PARTS_MAX + 1)).is_err());
    let list = |parts: usize| format!("a IN ('x'{})", ",'x'".repeat(parts - 2));
    assert_eq!(check(&list(PARTS_MAX)), Ok(()));
    assert!(check(&list(PARTS_MAX + 1)).is_err());
    assert!(check(&" ".repeat(BYTES_MAX + 1)).is_err());
}

#[test]
fn no_text_makes_the_reader_panic() {
    const SEED: u64 = 4;
    const PIECES: [&str; 34] = [
        "a", "b-c", " ", "  ", "'", "''", "'x'", "1", "1.", ".5", "1e", "9L", "(", ")", ",", "+",
        "-", "*", "/", "=", "<", ">", "<>", "AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE",
        "IS", "NULL", "ü", "$",
    ];
    let mut dice = Dice::new(SEED);
    let mut understood = 0;
    for _ in 0..100_000 {
        let text: String = (0..dice.below(9))
            .map(|_| PIECES[dice.below(PIECES.len())])
            .collect();
        match Predicate::parse(&text) {
            Ok(_) => understood += 1,
            Err(error) => assert!(error.at <= text.len(), "seed {SEED}: {text}"),
        }
    }
    assert!(
        understood > 1000,
        "the pieces must make some selectors: {understood}"
    );
}
