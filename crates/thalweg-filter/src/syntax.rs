//! The tree of a filter, and why a text is none.

use crate::{Field, Pattern};

/// A part of a filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// Field of the message to read.
    Name(Field),
    Text(Box<str>),
    Integer(i64),
    Float(f64),
    Bool(bool),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
    Compare(Comparison, Box<Expression>, Box<Expression>),
    Arithmetic(Operator, Box<Expression>, Box<Expression>),
    /// A number with the other sign.
    Negative(Box<Expression>),
    /// `value BETWEEN low AND high`.
    Between(Box<[Expression; 3]>),
    /// `name IN ('a', 'b')`.
    In(Field, Vec<Box<str>>),
    /// `name LIKE 'pattern'`.
    Like {
        field: Field,
        pattern: Pattern,
    },
    /// `name IS NULL`.
    IsNull(Field),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How two numbers are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    Plus,
    Minus,
    Times,
    Over,
}

/// Why a text is not a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FilterError {
    /// Where, in bytes from its start.
    pub at: usize,
    /// The error, as half a sentence.
    pub what: &'static str,
}

impl std::fmt::Display for FilterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the filter is wrong at byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for FilterError {}
