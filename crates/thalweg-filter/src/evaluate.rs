//! Result of a filter for a message: true, false, or unknown where the message lacks a field (SQL-92, JMS 3.8.1.2).

use crate::Field;
use crate::syntax::{Comparison, Expression, Operator};
use crate::value::{Number, Value};
use std::cmp::Ordering;

/// A message, as a filter asks about it.
pub trait Subject {
    /// Value of this field in the message; [`Value::Null`] if it has none.
    fn value(&self, field: &Field) -> Value<'_>;
}

/// Comparisons of characters that one question may cost in all its LIKEs; what takes more is unknown.
const STEPS_MAX: u32 = 1 << 18;

pub(crate) fn truth_of(condition: &Expression, subject: &impl Subject) -> Option<bool> {
    let mut run = Run {
        subject,
        steps: STEPS_MAX,
    };
    run.truth(condition)
}

struct Run<'s, S> {
    subject: &'s S,
    steps: u32,
}

impl<'s, S: Subject> Run<'s, S> {
    fn truth(&mut self, condition: &'s Expression) -> Option<bool> {
        match condition {
            Expression::And(parts) => self.join(parts, false),
            Expression::Or(parts) => self.join(parts, true),
            Expression::Not(inner) => self.truth(inner).map(|truth| !truth),
            Expression::Compare(how, left, right) => {
                compare(*how, self.value(left), self.value(right))
            }
            Expression::Between(parts) => {
                let [value, low, high] = &**parts;
                let value = self.value(value);
                let above = compare(Comparison::GreaterOrEqual, value, self.value(low));
                let below = compare(Comparison::LessOrEqual, value, self.value(high));
                and(above, below)
            }
            Expression::In(field, texts) => match self.subject.value(field) {
                Value::Null => None,
                Value::Text(text) => Some(texts.iter().any(|known| **known == *text)),
                _ => Some(false),
            },
            Expression::Like { field, pattern } => match self.subject.value(field) {
                Value::Null => None,
                Value::Text(text) => pattern.matches(text, &mut self.steps),
                _ => Some(false),
            },
            Expression::IsNull(field) => Some(self.subject.value(field) == Value::Null),
            Expression::Bool(value) => Some(*value),
            Expression::Name(field) => self.subject.value(field).truth(),
            Expression::Text(_)
            | Expression::Integer(_)
            | Expression::Float(_)
            | Expression::Arithmetic(..)
            | Expression::Negative(_) => None,
        }
    }

    /// AND, which one false part decides, or OR, which one true part does.
    fn join(&mut self, parts: &'s [Expression], decides: bool) -> Option<bool> {
        let mut joined = Some(!decides);
        for part in parts {
            match self.truth(part) {
                Some(truth) if truth == decides => return Some(decides),
                Some(_) => {}
                None => joined = None,
            }
        }
        joined
    }

    fn value(&mut self, expression: &'s Expression) -> Value<'s> {
        match expression {
            Expression::Name(field) => self.subject.value(field),
            Expression::Text(text) => Value::Text(text),
            Expression::Integer(value) => Value::Integer(*value),
            Expression::Float(value) => Value::Float(*value),
            Expression::Arithmetic(how, left, right) => {
                let (left, right) = (self.value(left).number(), self.value(right).number());
                match (left, right) {
                    (Some(left), Some(right)) => arithmetic(*how, left, right),
                    _ => Value::Null,
                }
            }
            Expression::Negative(inner) => match self.value(inner).number() {
                Some(value) => arithmetic(Operator::Minus, Number::Integer(0), value),
                None => Value::Null,
            },
            condition => self.truth(condition).map_or(Value::Null, Value::Bool),
        }
    }
}

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// Whole numbers stay whole, as in Java; where that is not possible the result is a float.
fn arithmetic(how: Operator, left: Number, right: Number) -> Value<'static> {
    if let (Number::Integer(left), Number::Integer(right)) = (left, right) {
        let whole = match how {
            Operator::Plus => left.checked_add(right),
            Operator::Minus => left.checked_sub(right),
            Operator::Times => left.checked_mul(right),
            Operator::Over if right == 0 => return Value::Null,
            Operator::Over => left.checked_div(right),
        };
        if let Some(whole) = whole {
            return Value::Integer(whole);
        }
    }
    let (left, right) = (left.float(), right.float());
    Value::Float(match how {
        Operator::Plus => left + right,
        Operator::Minus => left - right,
        Operator::Times => left * right,
        Operator::Over => left / right,
    })
}

/// Values of different kinds are neither equal nor unequal (JMS 3.8.1.1).
fn compare(how: Comparison, left: Value<'_>, right: Value<'_>) -> Option<bool> {
    use Comparison::*;
    let is_equality = matches!(how, Equal | NotEqual);
    let order = match (left, right) {
        (Value::Null, _) | (_, Value::Null) => return None,
        (Value::Bool(_), _) | (_, Value::Bool(_)) if is_equality => {
            match (left.truth(), right.truth()) {
                (Some(left), Some(right)) => Some(left.cmp(&right)),
                _ => None,
            }
        }
        (Value::Text(left), Value::Text(right)) if is_equality => Some(left.cmp(right)),
        _ => match (left.number(), right.number()) {
            (Some(Number::Integer(left)), Some(Number::Integer(right))) => Some(left.cmp(&right)),
            (Some(left), Some(right)) => match left.float().partial_cmp(&right.float()) {
                // A value that is not a number, as 0.0 / 0.0, is unequal to all (IEEE 754).
                None => return Some(matches!(how, NotEqual)),
                order => order,
            },
            _ => None,
        },
    };
    Some(order.is_some_and(|order| match how {
        Equal => order == Ordering::Equal,
        NotEqual => order != Ordering::Equal,
        Less => order == Ordering::Less,
        LessOrEqual => order != Ordering::Greater,
        Greater => order == Ordering::Greater,
        GreaterOrEqual => order != Ordering::Less,
    }))
}
