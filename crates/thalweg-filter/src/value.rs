//! Values, and how those of protocols without types become numbers and truths.

/// Value of a message's field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// The message has no such field, or nothing that can be compared.
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(&'a str),
}

/// A number in the form in which it came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    pub(crate) fn float(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

impl<'a> Value<'a> {
    /// As a number. Headers of MQTT and STOMP are text, whatever they mean: text that is a number counts as one.
    pub(crate) fn number(self) -> Option<Number> {
        match self {
            Value::Integer(value) => Some(Number::Integer(value)),
            Value::Float(value) => Some(Number::Float(value)),
            Value::Text(text) => number_in(text),
            Value::Null | Value::Bool(_) => None,
        }
    }

    pub(crate) fn truth(self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(value),
            Value::Text(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Value::Text(text) if text.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        }
    }
}

/// Longer text is no number that is written on purpose.
const NUMBER_BYTES_MAX: usize = 64;

fn number_in(text: &str) -> Option<Number> {
    let is_of_one = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    if text.len() > NUMBER_BYTES_MAX || !text.bytes().all(is_of_one) {
        return None;
    }
    match text.parse() {
        Ok(value) => Some(Number::Integer(value)),
        Err(_) => text.parse().ok().map(Number::Float),
    }
}
