//! Headers as a peer wrote them, and as we write them.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::Version;
use crate::escape;

/// The headers of a received frame, in order. They borrow from the frame and are taken apart when asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Headers<'b> {
    /// The lines, each with its line feed; every one is known to have a colon and valid escapes.
    lines: &'b str,
    /// Version whose escapes the lines have; 1.0 if they have none.
    version: Version,
}

impl<'b> Headers<'b> {
    pub(crate) const fn new(lines: &'b str, version: Version) -> Self {
        Headers { lines, version }
    }

    /// Every header in order, repeated names included: earlier values of a name count, later ones are its history.
    /// [1.2#Repeated_Header_Entries]
    pub fn iter(&self) -> HeaderIter<'b> {
        HeaderIter {
            rest: self.lines,
            version: self.version,
        }
    }

    /// The headers that count: the first of each name. Takes longer than [`Headers::iter`].
    pub fn iter_first(&self) -> impl Iterator<Item = (Cow<'b, str>, Cow<'b, str>)> {
        let all = *self;
        self.iter()
            .enumerate()
            .filter(move |(at, (name, _))| !all.iter().take(*at).any(|(n, _)| n == *name))
            .map(|p| p.1)
    }

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<Cow<'b, str>> {
        self.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }
}

impl<'b> IntoIterator for Headers<'b> {
    type Item = (Cow<'b, str>, Cow<'b, str>);
    type IntoIter = HeaderIter<'b>;

    fn into_iter(self) -> HeaderIter<'b> {
        self.iter()
    }
}

impl std::fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Walks over [`Headers`].
#[derive(Clone, Debug)]
pub struct HeaderIter<'b> {
    rest: &'b str,
    version: Version,
}

impl<'b> Iterator for HeaderIter<'b> {
    type Item = (Cow<'b, str>, Cow<'b, str>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let end = memchr::memchr(b'\n', self.rest.as_bytes())?;
        let (line, rest) = (self.rest.get(..end)?, self.rest.get(end + 1..)?);
        self.rest = rest;
        let line = line.strip_suffix('\r').unwrap_or(line);
        let colon = memchr::memchr(b':', line.as_bytes())?;
        let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?);
        Some((
            unescaped(name, self.version),
            unescaped(value, self.version),
        ))
    }
}

/// Undoes escapes that are known to be valid.
#[inline]
pub(crate) fn unescaped(raw: &str, version: Version) -> Cow<'_, str> {
    escape::unescape(raw, version).unwrap_or(Cow::Borrowed(raw))
}

/// Writes the further headers of a frame, straight into the output and with the escapes of the connection.
#[derive(Debug)]
pub struct HeaderWriter<'o> {
    out: &'o mut Vec<u8>,
    version: Version,
}

impl<'o> HeaderWriter<'o> {
    pub(crate) fn begin(command: crate::Command, version: Version, out: &'o mut Vec<u8>) -> Self {
        out.extend_from_slice(command.name().as_bytes());
        out.push(b'\n');
        HeaderWriter {
            out,
            version: if command.is_plain() {
                Version::V10
            } else {
                version
            },
        }
    }

    /// A header. Left out if this version of the protocol cannot say it: NUL, an empty name, and in 1.0 a line feed or
    /// a colon in the name. `false`: it was left out.
    pub fn put(&mut self, name: &str, value: &str) -> bool {
        let sayable = escape::can_say(name, value, self.version);
        if sayable {
            escape::put(name, self.version, self.out);
            self.value(value);
        }
        sayable
    }

    /// A header whose value can be written: a number, a truth and the like.
    pub fn put_display(&mut self, name: &str, value: impl std::fmt::Display) -> bool {
        let sayable = escape::can_say(name, "", self.version);
        if sayable {
            escape::put(name, self.version, self.out);
            self.out.push(b':');
            let _ = write!(
                Escaped {
                    out: self.out,
                    version: self.version
                },
                "{value}"
            );
            self.out.push(b'\n');
        }
        sayable
    }

    /// Several headers, each as [`HeaderWriter::put`].
    pub fn extend<'h>(&mut self, headers: impl IntoIterator<Item = (&'h str, &'h str)>) {
        for (name, value) in headers {
            self.put(name, value);
        }
    }

    /// A header of ours: its name needs no escape, and it is never left out.
    #[inline]
    pub(crate) fn ours(&mut self, name: &str, value: &str) {
        self.out.extend_from_slice(name.as_bytes());
        self.value(value);
    }

    /// A header of ours that may be absent.
    #[inline]
    pub(crate) fn maybe(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.ours(name, value);
        }
    }

    /// A header of ours with a number.
    #[inline]
    pub(crate) fn number(&mut self, name: &str, mut value: usize) {
        let mut digits = [0; 20];
        let mut len = 0;
        // From the back; there is always at least one digit.
        for place in digits.iter_mut().rev() {
            *place = b'0' + (value % 10) as u8;
            value /= 10;
            len += 1;
            if value == 0 {
                break;
            }
        }
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b':');
        self.out
            .extend_from_slice(digits.get(digits.len() - len..).unwrap_or_default());
        self.out.push(b'\n');
    }

    pub(crate) fn heart_beat(&mut self, (can, wants): (u32, u32)) {
        let _ = self.put_display("heart-beat", format_args!("{can},{wants}"));
    }

    #[inline]
    fn value(&mut self, value: &str) {
        self.out.push(b':');
        escape::put(value, self.version, self.out);
        self.out.push(b'\n');
    }

    /// Ends the headers, and the frame behind this body.
    #[inline]
    pub(crate) fn end(self, body: &[u8]) {
        self.out.reserve(body.len() + 2);
        self.out.push(b'\n');
        self.out.extend_from_slice(body);
        self.out.push(0);
    }
}

struct Escaped<'o> {
    out: &'o mut Vec<u8>,
    version: Version,
}

impl std::fmt::Write for Escaped<'_> {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        escape::put(s, self.version, self.out);
        Ok(())
    }
}
