//! Filters made by chance, asked about messages made by chance, against an evaluator that follows the specification word by
//! word and has neither trees of ours nor short cuts.

use super::{Dice, Sample, parsed};
use crate::evaluate::truth_of;
use crate::{Index, Predicate, Value};

const SEED: u64 = 23;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const TEXTS: [&str; 5] = ["", "x", "xy", "1", "true"];

/// A condition: its text, and its result for a message.
type Truth = Box<dyn Fn(&Message) -> Option<bool>>;
type Gives = Box<dyn Fn(&Message) -> Value<'static>>;
type Message = [Value<'static>; 4];

fn value(dice: &mut Dice) -> Value<'static> {
    match dice.below(6) {
        0 => Value::Null,
        1 => Value::Bool(dice.below(2) == 0),
        2 | 3 => Value::Integer(dice.below(5) as i64 - 2),
        4 => Value::Float(dice.below(6) as f64 / 2.0 - 1.0),
        _ => Value::Text(TEXTS[dice.below(TEXTS.len())]),
    }
}

fn number(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(value as f64),
        Value::Float(value) => Some(value),
        Value::Text("1") => Some(1.0),
        _ => None,
    }
}

fn truth(value: Value<'_>) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(value),
        Value::Text("true") => Some(true),
        _ => None,
    }
}

fn name(dice: &mut Dice) -> (String, Gives) {
    let at = dice.below(NAMES.len());
    (NAMES[at].into(), Box::new(move |message| message[at]))
}

fn sum(dice: &mut Dice, depth: usize) -> (String, Gives) {
    match dice.below(if depth == 0 { 3 } else { 5 }) {
        0 => {
            let value = dice.below(4) as i64;
            (value.to_string(), Box::new(move |_| Value::Integer(value)))
        }
        1 | 2 => name(dice),
        _ => {
            let ((left, a), (right, b)) = (sum(dice, depth - 1), sum(dice, depth - 1));
            let sign = ["+", "-", "*", "/"][dice.below(4)];
            let gives = move |message: &Message| {
                let (a, b) = (a(message), b(message));
                let are_whole = ![a, b].iter().any(|it| matches!(it, Value::Float(_)));
                match (number(a), number(b), sign) {
                    (Some(a), Some(b), "+") => of(a + b, are_whole),
                    (Some(a), Some(b), "-") => of(a - b, are_whole),
                    (Some(a), Some(b), "*") => of(a * b, are_whole),
                    (Some(_), Some(0.0), _) if are_whole => Value::Null,
                    (Some(a), Some(b), _) if are_whole => of((a / b).trunc(), true),
                    (Some(a), Some(b), _) => of(a / b, false),
                    _ => Value::Null,
                }
            };
            (format!("({left} {sign} {right})"), Box::new(gives))
        }
    }
}

fn of(value: f64, is_whole: bool) -> Value<'static> {
    match is_whole {
        true => Value::Integer(value as i64),
        false => Value::Float(value),
    }
}

fn compared(sign: &str, left: Value<'_>, right: Value<'_>) -> Option<bool> {
    if left == Value::Null || right == Value::Null {
        return None;
    }
    let is_equality = matches!(sign, "=" | "<>");
    if is_equality && (matches!(left, Value::Bool(_)) || matches!(right, Value::Bool(_))) {
        let (Some(left), Some(right)) = (truth(left), truth(right)) else {
            return Some(false);
        };
        return Some((left == right) == (sign == "="));
    }
    if let (true, Value::Text(left), Value::Text(right)) = (is_equality, left, right) {
        return Some((left == right) == (sign == "="));
    }
    let (Some(left), Some(right)) = (number(left), number(right)) else {
        return Some(false);
    };
    Some(match sign {
        "=" => left == right,
        "<>" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    })
}

fn condition(dice: &mut Dice, depth: usize) -> (String, Truth) {
    match dice.below(if depth == 0 { 6 } else { 11 }) {
        0 => {
            let (text, gives) = name(dice);
            (text, Box::new(move |message| truth(gives(message))))
        }
        1 => {
            let (name, gives) = name(dice);
            let wanted = TEXTS[dice.below(TEXTS.len())];
            let sign = ["=", "<>"][dice.below(2)];
            let says = move |message: &Message| compared(sign, gives(message), Value::Text(wanted));
            (format!("{name} {sign} '{wanted}'"), Box::new(says))
        }
        2 => {
            let (name, gives) = name(dice);
            let is_negated = dice.below(2) == 0;
            let says = move |message: &Message| Some((gives(message) == Value::Null) != is_negated);
            let not = if is_negated { "NOT " } else { "" };
            (format!("{name} IS {not}NULL"), Box::new(says))
        }
        3 => {
            let (name, gives) = name(dice);
            let is_negated = dice.below(2) == 0;
            let says = move |message: &Message| match gives(message) {
                Value::Null => None,
                Value::Text(text) => Some(matches!(text, "x" | "1") != is_negated),
                _ => Some(is_negated),
            };
            let not = if is_negated { "NOT " } else { "" };
            (format!("{name} {not}IN ('x', '1')"), Box::new(says))
        }
        4 => {
            let (name, gives) = name(dice);
            let says = move |message: &Message| match gives(message) {
                Value::Null => None,
                Value::Text(text) => Some(text.starts_with('x') && text.len() < 3),
                _ => Some(false),
            };
            let pattern = ["'x%'", "'%x%'"][dice.below(2)];
            (format!("{name} LIKE {pattern}"), Box::new(says))
        }
        5 => {
            let ((value, it), (low, from), (high, to)) = (sum(dice, 1), sum(dice, 1), sum(dice, 1));
            let says = move |message: &Message| {
                let value = it(message);
                let above = compared(">=", value, from(message));
                let below = compared("<=", value, to(message));
                match (above, below) {
                    (Some(true), Some(true)) => Some(true),
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    _ => None,
                }
            };
            (format!("{value} BETWEEN {low} AND {high}"), Box::new(says))
        }
        6 | 7 => {
            let ((left, a), (right, b)) = (sum(dice, 2), sum(dice, 2));
            let sign = ["=", "<>", "<", "<=", ">", ">="][dice.below(6)];
            let says = move |message: &Message| compared(sign, a(message), b(message));
            (format!("{left} {sign} {right}"), Box::new(says))
        }
        8 => {
            let (text, says) = condition(dice, depth - 1);
            let not = move |message: &Message| says(message).map(|truth| !truth);
            (format!("NOT ({text})"), Box::new(not))
        }
        which => {
            let ((left, a), (right, b)) = (condition(dice, depth - 1), condition(dice, depth - 1));
            let is_and = which == 9;
            let says = move |message: &Message| match (a(message), b(message)) {
                (Some(truth), _) | (_, Some(truth)) if truth != is_and => Some(truth),
                (Some(_), Some(_)) => Some(is_and),
                _ => None,
            };
            let word = if is_and { "AND" } else { "OR" };
            (format!("({left}) {word} ({right})"), Box::new(says))
        }
    }
}

fn headers(message: &Message) -> Vec<(&'static str, Value<'static>)> {
    NAMES.into_iter().zip(*message).collect()
}

#[test]
fn filters_say_what_the_specification_says() {
    let mut dice = Dice::new(SEED);
    let mut said = [0; 3];
    for round in 0..20_000 {
        let (text, says) = condition(&mut dice, 3);
        let predicate = parsed(&text);
        for _ in 0..5 {
            let message: Message = std::array::from_fn(|_| value(&mut dice));
            let expected = says(&message);
            let sample = Sample::of(&headers(&message));
            let found = truth_of(predicate.condition(), &sample);
            assert_eq!(
                found, expected,
                "seed {SEED} round {round}: {text} of {message:?}"
            );
            said[expected.map_or(2, usize::from)] += 1;
        }
    }
    assert!(said.iter().all(|times| *times > 5_000), "{said:?}");
}

#[test]
fn the_index_leaves_out_no_filter_that_is_true() {
    let mut dice = Dice::new(SEED);
    let mut shown = 0;
    for _ in 0..200 {
        let predicates: Vec<Predicate> = (0..40)
            .map(|_| {
                let (name, number) = (NAMES[dice.below(4)], dice.below(4));
                let (more, _) = condition(&mut dice, 1);
                parsed(&match dice.below(4) {
                    0 => format!("{name} = {number} AND ({more})"),
                    1 => format!("{name} = '{}'", TEXTS[dice.below(5)]),
                    2 => format!("{name} = TRUE"),
                    _ => more,
                })
            })
            .collect();
        let mut index = Index::default();
        for (at, predicate) in predicates.iter().enumerate() {
            index.insert(Some(predicate), at);
        }
        for _ in 0..20 {
            let message: Message = std::array::from_fn(|_| value(&mut dice));
            let sample = Sample::of(&headers(&message));
            let mut candidates = Vec::new();
            index.candidates(&sample, |at| candidates.push(*at));
            shown += candidates.len();
            candidates.sort_unstable();
            assert!(
                candidates.windows(2).all(|pair| pair[0] < pair[1]),
                "each once"
            );
            for (at, predicate) in predicates.iter().enumerate() {
                assert!(
                    !predicate.matches(&sample) || candidates.contains(&at),
                    "{}",
                    predicate.text()
                );
            }
        }
    }
    assert!(
        shown < 200 * 20 * 40 / 2,
        "the index must leave many out: {shown}"
    );
}
