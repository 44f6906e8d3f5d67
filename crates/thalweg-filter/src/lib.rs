//! Content filters: conditions on a message, in the part of SQL-92 that JMS knows as selectors, over headers, the
//! broker's own fields and fields of JSON and CBOR payloads. `docs/filters.md` is the language's page.
//!
//! ```text
//!  condition  = and { OR and }            and   = not { AND not }        not = [ NOT ] test
//!  test       = sum [ compare sum | [NOT] BETWEEN sum AND sum | [NOT] IN (text, …) | [NOT] LIKE text [ESCAPE text]
//!                   | IS [NOT] NULL ]
//!  sum        = product { (+|-) product } product = sign { (*|/) sign }  sign = [+|-] atom
//!  atom       = name | number | 'text' | TRUE | FALSE | ( condition )
//! ```
//!
//! *Knows:* texts, values, payload bytes. *Must never know:* a protocol, a message, a subscriber.

#![forbid(unsafe_code)]

mod cbor;
mod document;
mod evaluate;
mod field;
mod index;
mod json;
mod parse;
mod pattern;
mod syntax;
#[cfg(test)]
mod tests;
mod token;
mod value;

pub use document::Document;
pub use evaluate::Subject;
pub use field::{Field, Own};
pub use index::{Index, Key};
pub use pattern::Pattern;
pub use syntax::{Comparison, Expression, FilterError, Operator};
pub use value::Value;

/// Longest filter, in bytes.
pub const BYTES_MAX: usize = 4096;
/// Most parentheses, signs and NOTs inside each other.
pub const DEPTH_MAX: usize = 32;
/// Most parts; it bounds how deep a tree can be that grows without parentheses.
pub const PARTS_MAX: usize = 512;

/// A content filter, ready to be asked about messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate {
    text: Box<str>,
    condition: Expression,
}

impl Predicate {
    /// Reads a filter. The error names the byte where it goes wrong.
    pub fn parse(text: &str) -> Result<Predicate, FilterError> {
        let condition = parse::condition(text)?;
        let text = text.into();
        Ok(Predicate { text, condition })
    }

    /// Returns a filter that is true of no message.
    pub fn never() -> Predicate {
        let (text, condition) = ("FALSE".into(), Expression::Bool(false));
        Predicate { text, condition }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn condition(&self) -> &Expression {
        &self.condition
    }

    /// Whether the condition is true of a message: neither false nor unknown.
    pub fn matches(&self, subject: &impl Subject) -> bool {
        evaluate::truth_of(&self.condition, subject) == Some(true)
    }

    /// A field that must have a certain value for the condition to be true, if there is one.
    pub fn equality(&self) -> Option<(&Field, Key<'_>)> {
        index::equality(&self.condition)
    }

    /// Bytes of memory held, an estimate on the high side.
    pub fn bytes(&self) -> usize {
        // No part is written with less than a byte.
        size_of::<Self>() + self.text.len() * (1 + size_of::<Expression>() / 2)
    }
}
