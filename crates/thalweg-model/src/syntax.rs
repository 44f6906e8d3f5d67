//! Syntax of levels and wildcards: pure text to text, exact both ways.
//!
//! The canonical rendering of [`Address`](crate::Address) joins levels by `/`. A protocol with another separator has
//! another [`Syntax`]. Text of a level that would be misread is written `%HH` ([`Codes`]). Whatever is written in a
//! syntax comes back in it byte for byte.

use std::borrow::Cow;

/// Bytes that must not stand in a level as they are, and how they are written.
///
/// A byte of the set is written `%HH` in upper-case digits. A `%` that would then be read as the beginning of such a
/// code is written `%25`, which means: if any number of `25` and then a code of the set follow it. Nothing else is
/// touched, so text that merely holds `%` stays as it is, and each text has exactly one written form.
#[derive(Clone, Copy, Debug)]
pub struct Codes(&'static [u8]);

/// The codes of text that must stay on one line.
pub const ONE_LINE: Codes = Codes(b"\n");

/// The codes of the canonical rendering.
pub const CANONICAL: Codes = Codes(b"/+#\0");

impl Codes {
    /// Appends a level as it is written.
    pub fn write(self, level: &str, out: &mut String) {
        let bytes = level.as_bytes();
        let mut plain = 0;
        for (at, byte) in bytes.iter().enumerate() {
            let written = if self.0.contains(byte) {
                Some(hex(*byte))
            } else if *byte == b'%' && self.begins_code(&bytes[at..]) {
                Some(*b"%25")
            } else {
                None
            };
            if let Some(written) = written {
                // Cut at an ASCII byte: both sides are whole characters.
                out.push_str(&level[plain..at]);
                out.extend(written.map(char::from));
                plain = at + 1;
            }
        }
        out.push_str(&level[plain..]);
    }

    /// Appends what a written level says.
    pub fn read(self, written: &str, out: &mut String) {
        let bytes = written.as_bytes();
        let (mut plain, mut at) = (0, 0);
        while at < bytes.len() {
            if bytes[at] != b'%' || !self.begins_code(&bytes[at..]) {
                at += 1;
                continue;
            }
            out.push_str(&written[plain..at]);
            // `begins_code` has seen that two digits follow.
            let byte = code_of(&bytes[at..]).unwrap_or(b'%');
            out.push(char::from(byte));
            at += 3;
            plain = at;
        }
        out.push_str(&written[plain..]);
    }

    /// Whether this begins with `%`, any number of `25` and a code of the set.
    fn begins_code(self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while let Some(byte) = code_of(rest) {
            if self.0.contains(&byte) {
                return true;
            }
            // `%25`: what stands behind it is read as if the `%` stood directly before it.
            let Some(behind) = rest.get(2..).filter(|_| byte == b'%') else {
                return false;
            };
            rest = behind;
        }
        false
    }
}

/// The byte that `%HH` or, inside a row of `25`, `5HH` stands for.
fn code_of(bytes: &[u8]) -> Option<u8> {
    let [_, high, low, ..] = bytes else {
        return None;
    };
    Some(digit(*high)? << 4 | digit(*low)?)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

fn hex(byte: u8) -> [u8; 3] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [
        b'%',
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]
}

/// A protocol's syntax of levels and wildcards.
#[derive(Clone, Copy, Debug)]
pub struct Syntax {
    separator: char,
    one: &'static str,
    many: &'static str,
    codes: Codes,
}

/// Dots, as keys of topic exchanges have them: `a.b`, `*`, `#`.
pub const DOTTED: Syntax = Syntax {
    separator: '.',
    one: "*",
    many: "#",
    codes: Codes(b"."),
};
/// The same where a slash parts something else: it is written `%2F`.
pub const DOTTED_WITHOUT_SLASH: Syntax = Syntax {
    separator: '.',
    one: "*",
    many: "#",
    codes: Codes(b"./"),
};
/// Dots with another wildcard: `a.b`, `*`, `>`.
pub const DOTTED_ARROW: Syntax = Syntax {
    separator: '.',
    one: "*",
    many: ">",
    codes: Codes(b"."),
};
/// Slashes: `a/b`, `+`, `#`.
pub const SLASHED: Syntax = Syntax {
    separator: '/',
    one: "+",
    many: "#",
    codes: Codes(b"/"),
};

impl Syntax {
    /// Appends the canonical address of a peer's publish.
    pub fn read_address(self, text: &str, out: &mut String) {
        let mut level_read = String::new();
        for (at, level) in text.split(self.separator).enumerate() {
            if at > 0 {
                out.push('/');
            }
            self.read_literal(level, &mut level_read, out);
        }
    }

    /// Appends a canonical address as the peer would have written it to publish there.
    pub fn write_address(self, canonical: &str, out: &mut String) {
        let mut level_read = String::new();
        for (at, level) in canonical.split('/').enumerate() {
            if at > 0 {
                out.push(self.separator);
            }
            self.write_literal(level, &mut level_read, out);
        }
    }

    /// Appends the canonical filter (`+`, `#`) of a peer's subscription. A level that is exactly `%HH` of a wildcard
    /// means that character. The kernel checks whether the filter is legal.
    pub fn read_filter(self, text: &str, out: &mut String) {
        let mut level_read = String::new();
        for (at, level) in text.split(self.separator).enumerate() {
            if at > 0 {
                out.push('/');
            }
            if level == self.one {
                out.push('+');
            } else if level == self.many {
                out.push('#');
            } else if let Some(wildcard) = self.escaped_wildcard(level) {
                self.read_literal(&wildcard, &mut level_read, out);
            } else {
                self.read_literal(level, &mut level_read, out);
            }
        }
    }

    /// Appends a canonical filter as the peer would have written it.
    pub fn write_filter(self, canonical: &str, out: &mut String) {
        let (mut level_read, mut literal) = (String::new(), String::new());
        for (at, level) in canonical.split('/').enumerate() {
            if at > 0 {
                out.push(self.separator);
            }
            match level {
                "+" => out.push_str(self.one),
                "#" => out.push_str(self.many),
                _ => {
                    literal.clear();
                    self.write_literal(level, &mut level_read, &mut literal);
                    if literal == self.one || literal == self.many {
                        out.extend(literal.bytes().flat_map(hex).map(char::from));
                    } else if self.escaped_wildcard(&literal).is_some() {
                        // The level is the code itself: one more `25` tells it from the character.
                        out.push_str("%25");
                        out.push_str(&literal[1..]);
                    } else {
                        out.push_str(&literal);
                    }
                }
            }
        }
    }

    /// Character of a level that is exactly `%HH` of a wildcard, with any number of `25` before the digits.
    fn escaped_wildcard(self, level: &str) -> Option<Cow<'static, str>> {
        let mut rest = level.strip_prefix('%')?;
        let mut depth = 0_usize;
        loop {
            for wildcard in [self.one, self.many] {
                let code = wildcard.bytes().next().map(hex)?;
                if rest.as_bytes() == &code[1..] {
                    return Some(match depth {
                        0 => Cow::Borrowed(wildcard),
                        _ => Cow::Owned(format!("%{}{rest}", "25".repeat(depth - 1))),
                    });
                }
            }
            rest = rest.strip_prefix("25")?;
            depth += 1;
        }
    }

    fn read_literal(self, level: &str, level_read: &mut String, out: &mut String) {
        if is_plain(level) {
            return out.push_str(level);
        }
        level_read.clear();
        self.codes.read(level, level_read);
        CANONICAL.write(level_read, out);
    }

    fn write_literal(self, level: &str, level_read: &mut String, out: &mut String) {
        if is_plain(level) {
            return out.push_str(level);
        }
        level_read.clear();
        CANONICAL.read(level, level_read);
        self.codes.write(level_read, out);
    }
}

/// Whether a level reads the same in every syntax.
fn is_plain(level: &str) -> bool {
    !level
        .bytes()
        .any(|byte| matches!(byte, b'%' | b'.' | b'/' | b'+' | b'#' | 0))
}

/// Appends the key whose words are these levels.
pub fn write_key(words: &str, out: &mut String) {
    for (at, word) in words.split('/').enumerate() {
        if at > 0 {
            out.push('.');
        }
        CANONICAL.read(word, out);
    }
}

/// Text of a level of a canonical address in this syntax.
pub fn read_level(level: &str) -> Cow<'_, str> {
    if !level.contains('%') {
        return Cow::Borrowed(level);
    }
    let mut read = String::with_capacity(level.len());
    CANONICAL.read(level, &mut read);
    Cow::Owned(read)
}

/// A text as one level of a canonical address.
pub fn write_level(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len() + 8);
    CANONICAL.write(text, &mut written);
    Cow::Owned(written)
}
