//! JSON (RFC 8259), as far as fields need it.

use crate::document::{Leaf, Nodes};
use std::borrow::Cow;

/// Reads all of a payload; `None` if it is not JSON.
pub(crate) fn read<'p>(payload: &'p [u8], nodes: &mut Nodes<'p>) -> Option<()> {
    let mut reader = Reader {
        text: std::str::from_utf8(payload).ok()?,
        at: 0,
    };
    reader.space();
    reader.value(Cow::Borrowed(""), nodes)?;
    reader.space();
    (reader.at == payload.len()).then_some(())
}

struct Reader<'p> {
    text: &'p str,
    at: usize,
}

impl<'p> Reader<'p> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str, leaf: Leaf<'p>) -> Option<Leaf<'p>> {
        self.text.get(self.at..)?.starts_with(word).then(|| {
            self.at += word.len();
            leaf
        })
    }

    fn value(&mut self, key: Cow<'p, str>, nodes: &mut Nodes<'p>) -> Option<()> {
        let leaf = match self.peek()? {
            b'{' => return self.all_of(key, Leaf::Map, b'}', nodes),
            b'[' => return self.all_of(key, Leaf::List, b']', nodes),
            b'"' => Leaf::Text(self.string()?),
            b't' => self.word("true", Leaf::Bool(true))?,
            b'f' => self.word("false", Leaf::Bool(false))?,
            b'n' => self.word("null", Leaf::Null)?,
            _ => self.number()?,
        };
        nodes.push(key, leaf)
    }

    fn all_of(
        &mut self,
        key: Cow<'p, str>,
        kind: Leaf<'p>,
        last: u8,
        nodes: &mut Nodes<'p>,
    ) -> Option<()> {
        self.at += 1;
        let place = nodes.open(key, kind)?;
        self.space();
        if !self.take(last) {
            loop {
                self.space();
                let mut key = Cow::Borrowed("");
                if last == b'}' {
                    key = self.string()?;
                    self.space();
                    self.take(b':').then_some(())?;
                    self.space();
                }
                self.value(key, nodes)?;
                self.space();
                if self.take(last) {
                    break;
                }
                self.take(b',').then_some(())?;
            }
        }
        nodes.close(place);
        Some(())
    }

    fn string(&mut self) -> Option<Cow<'p, str>> {
        self.take(b'"').then_some(())?;
        let mut read = Cow::Borrowed("");
        loop {
            let rest = self.text.get(self.at..)?;
            let special = |byte: u8| byte == b'"' || byte == b'\\' || byte < b' ';
            let len = rest.bytes().position(special)?;
            let plain = &rest[..len];
            if read.is_empty() {
                read = Cow::Borrowed(plain);
            } else {
                read.to_mut().push_str(plain);
            }
            self.at += len + 1;
            match rest.as_bytes()[len] {
                b'"' => return Some(read),
                b'\\' => {
                    let c = self.escaped()?;
                    read.to_mut().push(c);
                }
                _ => return None,
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit()?;
                let units = match first {
                    0xd800..=0xdbff => {
                        self.word("\\u", Leaf::Null)?;
                        vec![first, self.unit()?]
                    }
                    _ => vec![first],
                };
                char::decode_utf16(units).next()?.ok()?
            }
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u16::from_str_radix(digits, 16).ok()
    }

    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    fn number(&mut self) -> Option<Leaf<'p>> {
        let (from, mut is_whole) = (self.at, true);
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            is_whole = false;
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            is_whole = false;
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        let digits = self.text.get(from..self.at)?;
        match digits.parse() {
            Ok(value) if is_whole => Some(Leaf::Integer(value)),
            _ => digits.parse().ok().map(Leaf::Float),
        }
    }
}
