//! The words and signs of a filter.

use crate::{Comparison, FilterError, Operator};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Name(&'a str),
    Word(Word),
    Text(Box<str>),
    Integer(i64),
    Float(f64),
    Compare(Comparison),
    Operator(Operator),
    Open,
    Close,
    Comma,
    End,
}

/// Words with a meaning; letters of either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    And,
    Or,
    Not,
    Between,
    In,
    Like,
    Escape,
    Is,
    Null,
    True,
    False,
}

const WORDS: [(&str, Word); 11] = [
    ("and", Word::And),
    ("or", Word::Or),
    ("not", Word::Not),
    ("between", Word::Between),
    ("in", Word::In),
    ("like", Word::Like),
    ("escape", Word::Escape),
    ("is", Word::Is),
    ("null", Word::Null),
    ("true", Word::True),
    ("false", Word::False),
];

/// Reads tokens one after the other.
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Tokens { text, at: 0 }
    }

    /// The next token and where it starts; at the end, [`Token::End`] for ever.
    pub(super) fn next(&mut self) -> Result<(usize, Token<'a>), FilterError> {
        let rest = self.rest().trim_start();
        self.at = self.text.len() - rest.len();
        let start = self.at;
        let Some(first) = rest.chars().next() else {
            return Ok((start, Token::End));
        };
        let (token, len) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            '+' => (Token::Operator(Operator::Plus), 1),
            '-' => (Token::Operator(Operator::Minus), 1),
            '*' => (Token::Operator(Operator::Times), 1),
            '/' => (Token::Operator(Operator::Over), 1),
            '=' => (Token::Compare(Comparison::Equal), 1),
            '<' if rest.starts_with("<>") => (Token::Compare(Comparison::NotEqual), 2),
            '<' if rest.starts_with("<=") => (Token::Compare(Comparison::LessOrEqual), 2),
            '<' => (Token::Compare(Comparison::Less), 1),
            '>' if rest.starts_with(">=") => (Token::Compare(Comparison::GreaterOrEqual), 2),
            '>' => (Token::Compare(Comparison::Greater), 1),
            '\'' => text(rest).ok_or(FilterError {
                at: start,
                what: "a text does not end",
            })?,
            '0'..='9' | '.' => number(rest).ok_or(FilterError {
                at: start,
                what: "a number is not one",
            })?,
            c if is_name_start(c) => name(rest),
            _ => {
                return Err(FilterError {
                    at: start,
                    what: "a character has no meaning here",
                });
            }
        };
        self.at += len;
        Ok((start, token))
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }
}

/// Java's rule for names, roughly; and `-`, which half of all header names have, if a letter or digit follows: so
/// `a-b` is a name and `a - b` a difference.
fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

fn name(rest: &str) -> (Token<'_>, usize) {
    let mut end = 0;
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let follows = chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
        if !(is_name_start(c) || c.is_numeric() || matches!(c, '-' | '.') && follows) {
            break;
        }
        end = at + c.len_utf8();
    }
    let name = rest.get(..end).unwrap_or_default();
    let word = WORDS
        .iter()
        .find(|(word, _)| name.eq_ignore_ascii_case(word));
    (
        word.map_or(Token::Name(name), |(_, word)| Token::Word(*word)),
        end,
    )
}

/// `'text'`, in which `''` is one quote.
fn text(rest: &str) -> Option<(Token<'_>, usize)> {
    let mut value = String::new();
    let mut at = 1;
    loop {
        let tail = rest.get(at..)?;
        let quote = tail.find('\'')?;
        value.push_str(tail.get(..quote)?);
        at += quote + 1;
        if !rest.get(at..)?.starts_with('\'') {
            return Some((Token::Text(value.into()), at));
        }
        value.push('\'');
        at += 1;
    }
}

/// `12`, `12L`, `1.5`, `.5`, `1e3`, `1.5E-3d`.
fn number(rest: &str) -> Option<(Token<'_>, usize)> {
    let bytes = rest.as_bytes();
    let mut end = 0;
    let mut whole = true;
    while let Some(byte) = bytes.get(end) {
        let signed = matches!(byte, b'+' | b'-')
            && matches!(bytes.get(end.wrapping_sub(1)), Some(b'e' | b'E'));
        match byte {
            b'0'..=b'9' => {}
            b'.' | b'e' | b'E' => whole = false,
            _ if signed => {}
            _ => break,
        }
        end += 1;
    }
    let digits = rest.get(..end)?;
    let suffix = bytes.get(end).map(u8::to_ascii_lowercase);
    let (token, len) = match suffix {
        Some(b'l') if whole => (Token::Integer(digits.parse().ok()?), end + 1),
        Some(b'd' | b'f') => (Token::Float(digits.parse().ok()?), end + 1),
        _ if whole => (Token::Integer(digits.parse().ok()?), end),
        _ => (Token::Float(digits.parse().ok()?), end),
    };
    // `12abc` is neither a number nor a name.
    let is_glued = rest
        .get(len..)?
        .chars()
        .next()
        .is_some_and(|c| is_name_start(c) || c.is_numeric());
    (!is_glued).then_some((token, len))
}
