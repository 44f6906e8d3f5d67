//! Index of many filters: finds those that may be true of a message, by the values that they require, and those that
//! require none.

use crate::evaluate::Subject;
use crate::syntax::{Comparison, Expression};
use crate::value::Value;
use crate::{Field, Predicate};
use hashbrown::HashMap;

/// A value that a field must have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Key<'a> {
    Text(&'a str),
    Number(f64),
    Bool(bool),
}

/// The first equality that the condition cannot be true without.
pub(crate) fn equality(condition: &Expression) -> Option<(&Field, Key<'_>)> {
    match condition {
        Expression::And(parts) => parts.iter().find_map(equality),
        Expression::Compare(Comparison::Equal, left, right) => match (&**left, &**right) {
            (Expression::Name(field), value) | (value, Expression::Name(field)) => {
                Some((field, key_of(value)?))
            }
            _ => None,
        },
        _ => None,
    }
}

fn key_of(value: &Expression) -> Option<Key<'_>> {
    match value {
        // Text that is a number equals that number, too: it is filed where both are found.
        Expression::Text(text) => {
            let value = Value::Text(text);
            let number = value.number().map(|number| Key::Number(number.float()));
            Some(
                number
                    .or(value.truth().map(Key::Bool))
                    .unwrap_or(Key::Text(text)),
            )
        }
        Expression::Integer(value) => Some(Key::Number(*value as f64)),
        Expression::Float(value) => Some(Key::Number(*value)),
        Expression::Bool(value) => Some(Key::Bool(*value)),
        _ => None,
    }
}

/// Entries filed under filters, found by their required values.
#[derive(Clone, Debug)]
pub struct Index<T> {
    /// One for each field that an equality names.
    fields: Vec<(Field, Values<T>)>,
    /// Under filters without an equality.
    rest: Vec<T>,
}

#[derive(Clone, Debug)]
struct Values<T> {
    texts: HashMap<Box<str>, Vec<T>, foldhash::fast::RandomState>,
    /// By the bits of the number.
    numbers: HashMap<u64, Vec<T>, foldhash::fast::RandomState>,
    bools: [Vec<T>; 2],
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Index {
            fields: Vec::new(),
            rest: Vec::new(),
        }
    }
}

impl<T> Index<T> {
    /// Files `item` under a filter; without one it is found for every message.
    pub fn insert(&mut self, predicate: Option<&Predicate>, item: T) {
        let Some((field, key)) = predicate.and_then(Predicate::equality) else {
            return self.rest.push(item);
        };
        let at = match self.fields.iter().position(|(known, _)| known == field) {
            Some(at) => at,
            None => {
                let values = Values {
                    texts: HashMap::default(),
                    numbers: HashMap::default(),
                    bools: [Vec::new(), Vec::new()],
                };
                self.fields.push((field.clone(), values));
                self.fields.len() - 1
            }
        };
        let values = &mut self.fields[at].1;
        match key {
            Key::Text(text) => values.texts.entry(text.into()).or_default().push(item),
            Key::Number(number) => values.numbers.entry(bits(number)).or_default().push(item),
            Key::Bool(value) => values.bools[usize::from(value)].push(item),
        }
    }

    /// Shows `found` whatever was filed under a filter that may be true of the message, and some for which it is not.
    pub fn candidates(&self, subject: &impl Subject, mut found: impl FnMut(&T)) {
        for (field, values) in &self.fields {
            let value = subject.value(field);
            if let Value::Text(text) = value {
                values
                    .texts
                    .get(text)
                    .into_iter()
                    .flatten()
                    .for_each(&mut found);
            }
            if !values.numbers.is_empty()
                && let Some(number) = value.number()
            {
                let same = values.numbers.get(&bits(number.float()));
                same.into_iter().flatten().for_each(&mut found);
            }
            if let Some(truth) = value.truth() {
                values.bools[usize::from(truth)].iter().for_each(&mut found);
            }
        }
        self.rest.iter().for_each(found);
    }
}

/// Both zeros are the same number.
fn bits(number: f64) -> u64 {
    (number + 0.0).to_bits()
}
