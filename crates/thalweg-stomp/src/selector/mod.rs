//! Selectors: the conditions, in a part of SQL-92, that subscribers put in the header `selector`. The specification
//! does not know them; JMS does, and brokers and clients have carried them over.
//!
//! Here a selector is read and checked. What it says of a message is worked out elsewhere.
//!
//! ```text
//!  condition  = and { OR and }            and   = not { AND not }        not = [ NOT ] test
//!  test       = sum [ compare sum | [NOT] BETWEEN sum AND sum | [NOT] IN (text, …) | [NOT] LIKE text [ESCAPE text]
//!                   | IS [NOT] NULL ]
//!  sum        = product { (+|-) product } product = sign { (*|/) sign }  sign = [+|-] atom
//!  atom       = name | number | 'text' | TRUE | FALSE | ( condition )
//! ```

mod parse;
#[cfg(test)]
mod tests;
mod token;

/// Longest selector, in bytes.
pub const BYTES_MAX: usize = 4096;
/// Most parentheses, signs and NOTs inside each other.
pub const DEPTH_MAX: usize = 32;
/// Most parts; it bounds how deep a tree can be that grows without parentheses.
pub const PARTS_MAX: usize = 512;

/// A selector, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    /// The condition.
    pub condition: Expression,
}

impl Selector {
    /// Reads a selector.
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        parse::condition(text).map(|condition| Selector { condition })
    }
}

/// Whether this is a selector.
pub fn check(text: &str) -> Result<(), SelectorError> {
    Selector::parse(text).map(drop)
}

/// A part of a selector. Names are those of headers.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// The value of a header.
    Name(Box<str>),
    /// Text.
    Text(Box<str>),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Float(f64),
    /// TRUE or FALSE.
    Bool(bool),
    /// All of these.
    And(Vec<Expression>),
    /// Any of these.
    Or(Vec<Expression>),
    /// The opposite.
    Not(Box<Expression>),
    /// Two values compared.
    Compare(Comparison, Box<Expression>, Box<Expression>),
    /// Two numbers combined.
    Arithmetic(Operator, Box<Expression>, Box<Expression>),
    /// A number with the other sign.
    Negative(Box<Expression>),
    /// `value BETWEEN low AND high`.
    Between(Box<[Expression; 3]>),
    /// `name IN ('a', 'b')`.
    In(Box<str>, Vec<Box<str>>),
    /// `name LIKE 'pattern'`: `%` is any text, `_` any character.
    Like {
        /// The header.
        name: Box<str>,
        /// The pattern.
        pattern: Box<str>,
        /// What takes the meaning from the character behind it.
        escape: Option<char>,
    },
    /// `name IS NULL`.
    IsNull(Box<str>),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`.
    Equal,
    /// `<>`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
}

/// How two numbers are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `+`.
    Plus,
    /// `-`.
    Minus,
    /// `*`.
    Times,
    /// `/`.
    Over,
}

/// Why a text is not a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SelectorError {
    /// Where, in bytes from its start.
    pub at: usize,
    /// What is wrong, as half a sentence.
    pub what: &'static str,
}

impl std::fmt::Display for SelectorError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the selector is wrong at byte {}: {}",
            self.at, self.what
        )
    }
}

impl std::error::Error for SelectorError {}
