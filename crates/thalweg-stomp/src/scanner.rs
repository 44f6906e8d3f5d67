//! Where a frame ends, found piece by piece: nothing is looked at twice, however the bytes arrive.
//!
//! ```text
//!  COMMAND LF
//!  name:value LF        any number; CR before LF is tolerated
//!  LF
//!  body NUL             content-length bytes, or up to the first NUL
//! ```

use crate::escape;
use crate::headers::{Headers, unescaped};
use crate::known::{Found, Known};
use crate::version::parse_number;
use crate::{Command, PeerFault, Version};
use std::borrow::Cow;

/// Limits of a frame, part by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Longest first line, in bytes.
    pub command_bytes_max: u32,
    /// Longest header line, in bytes as they arrive.
    pub header_bytes_max: u32,
    /// Most headers that a frame may have.
    pub headers_max: u32,
    /// Largest head, all lines together.
    pub head_bytes_max: u32,
    /// Largest body of a frame, in bytes.
    pub body_bytes_max: u32,
}

impl Default for FrameLimits {
    fn default() -> Self {
        FrameLimits {
            command_bytes_max: 64,
            header_bytes_max: 8 << 10,
            headers_max: 128,
            head_bytes_max: 64 << 10,
            body_bytes_max: 1 << 20,
        }
    }
}

/// A complete frame whose headers are well-formed.
pub(crate) struct Frame<'s, 'b> {
    pub(crate) command: Command,
    pub(crate) version: Version,
    pub(crate) headers: Headers<'b>,
    pub(crate) body: &'b [u8],
    /// From the command to the NUL.
    pub(crate) whole: &'b [u8],
    head: &'b str,
    /// The version whose escapes the headers have; 1.0 if they have none.
    escapes: Version,
    found: &'s Found,
}

impl<'b> Frame<'_, 'b> {
    /// The value of a known header. In 1.0 without the space behind the colon: the examples of that specification have
    /// one, and so do clients written after them; later versions forbid to trim. [1.2#Value_Encoding]
    #[inline]
    pub(crate) fn get(&self, known: Known) -> Option<Cow<'b, str>> {
        let raw = self.head.get(self.found.place(known)?)?;
        let is_padded = self.version == Version::V10 && !self.command.is_plain();
        Some(unescaped(
            if is_padded { unpadded(raw) } else { raw },
            self.escapes,
        ))
    }

    /// The value of a header of CONNECT, which is read in this version.
    pub(crate) fn get_plain(&self, known: Known, version: Version) -> Option<Cow<'b, str>> {
        let raw = self.head.get(self.found.place(known)?)?;
        Some(Cow::Borrowed(if version == Version::V10 {
            unpadded(raw)
        } else {
            raw
        }))
    }

    #[inline]
    pub(crate) fn required(
        &self,
        known: Known,
        fault: PeerFault,
    ) -> Result<Cow<'b, str>, PeerFault> {
        self.get(known).ok_or(fault)
    }
}

/// Number of bytes of the frame at the start of the buffer that have been scanned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scanner {
    /// Everything before this has been looked at.
    seen: usize,
    /// Where the current line starts.
    line: usize,
    command: Option<Command>,
    headers: u32,
    found: Found,
    /// Where the first header starts.
    headers_start: usize,
    /// Where the body starts; 0 until the head is complete.
    body: usize,
    /// Bytes of the body, if the frame says.
    body_len: Option<usize>,
}

impl Scanner {
    /// Forgets everything: the buffer starts with something else now.
    #[inline]
    pub(crate) fn reset(&mut self) {
        let Scanner {
            seen,
            line,
            command,
            headers,
            found,
            headers_start,
            body,
            body_len,
        } = self;
        (*seen, *line, *command, *headers) = (0, 0, None, 0);
        (*headers_start, *body, *body_len) = (0, 0, None);
        found.clear();
    }

    /// Where the value of a header lies that has been seen so far.
    pub(crate) fn place(&self, known: Known) -> Option<std::ops::Range<usize>> {
        self.found.place(known)
    }

    /// The command, as soon as its line has been seen.
    pub(crate) fn command(&self) -> Option<Command> {
        self.command
    }

    /// Returns the frame at the start of `bytes`, or `None` if it is incomplete: then the next call must bring the same
    /// bytes and more. `admit` checks the command as soon as its line is complete. Errors are found at the same place
    /// however the bytes arrive.
    #[inline]
    pub(crate) fn frame<'s, 'b>(
        &'s mut self,
        bytes: &'b [u8],
        limits: &FrameLimits,
        version: Version,
        admit: impl Fn(Option<Command>) -> Result<Command, PeerFault>,
    ) -> Result<Option<Frame<'s, 'b>>, PeerFault> {
        if self.seen > bytes.len() {
            self.reset();
        }
        if self.body == 0 && !self.scan_head(bytes, limits, admit)? {
            return Ok(None);
        }
        let Some(body_end) = self.scan_body(bytes, limits)? else {
            return Ok(None);
        };
        let (Some(command), Some(head), Some(body), Some(whole)) = (
            self.command,
            bytes.get(..self.body),
            bytes.get(self.body..body_end),
            bytes.get(..=body_end),
        ) else {
            return Ok(None);
        };
        let head = utf8(head)?;
        // Hardly any frame has escapes, which need not be looked for again then. CONNECT and CONNECTED have none, for they
        // come before the version.
        let is_plain = memchr::memchr(b'\\', head.as_bytes()).is_none();
        let escapes = if is_plain { Version::V10 } else { version };
        if escapes != Version::V10 && !escape::is_valid(head.as_bytes(), escapes) {
            return Err(PeerFault::HEADER_ESCAPE);
        }
        let headers = Headers::new(head.get(self.headers_start..).unwrap_or_default(), escapes);
        Ok(Some(Frame {
            command,
            version,
            headers,
            body,
            whole,
            head,
            escapes,
            found: &self.found,
        }))
    }

    /// Looks at lines until the blank one; `false`: it has not come yet.
    #[inline]
    fn scan_head(
        &mut self,
        bytes: &[u8],
        limits: &FrameLimits,
        admit: impl Fn(Option<Command>) -> Result<Command, PeerFault>,
    ) -> Result<bool, PeerFault> {
        loop {
            let (line_max, too_long) = match self.command {
                None => (limits.command_bytes_max, PeerFault::COMMAND_TOO_LONG),
                Some(_) => (limits.header_bytes_max, PeerFault::HEADER_TOO_LONG),
            };
            // Nothing beyond the longest line is looked at, so that a fault does not depend on how much has arrived.
            let window_end = self
                .line
                .saturating_add(line_max as usize)
                .saturating_add(1)
                .min(bytes.len());
            let unseen = bytes.get(self.seen..window_end).unwrap_or_default();
            let Some(at) = memchr::memchr2(b'\n', 0, unseen) else {
                self.seen = window_end;
                return if window_end - self.line > line_max as usize {
                    Err(too_long)
                } else {
                    Ok(false)
                };
            };
            let end = self.seen + at;
            if unseen.get(at) == Some(&0) {
                return Err(PeerFault::NUL_IN_HEAD);
            }
            let start = self.line;
            let line = bytes.get(start..end).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.seen = end + 1;
            self.line = end + 1;
            if end >= limits.head_bytes_max as usize {
                return Err(PeerFault::HEAD_TOO_LARGE);
            }
            if self.command.is_none() {
                self.command = Some(admit(Command::from_bytes(line))?);
                self.headers_start = self.line;
            } else if line.is_empty() {
                self.end_head(bytes, limits)?;
                return Ok(true);
            } else {
                self.header(line, start, limits)?;
            }
        }
    }

    #[inline]
    fn header(&mut self, line: &[u8], start: usize, limits: &FrameLimits) -> Result<(), PeerFault> {
        self.headers += 1;
        if self.headers > limits.headers_max {
            return Err(PeerFault::HEADERS_TOO_MANY);
        }
        let colon = memchr::memchr(b':', line).ok_or(PeerFault::HEADER_WITHOUT_COLON)?;
        if colon == 0 {
            return Err(PeerFault::HEADER_WITHOUT_NAME);
        }
        let name = line.get(..colon).unwrap_or_default();
        self.found.note(name, start + colon + 1, start + line.len());
        Ok(())
    }

    #[inline]
    fn end_head(&mut self, bytes: &[u8], limits: &FrameLimits) -> Result<(), PeerFault> {
        if let Some(place) = self.found.place(Known::ContentLength) {
            let len = bytes
                .get(place)
                .and_then(parse_number)
                .ok_or(PeerFault::CONTENT_LENGTH)?;
            if len > 0 && !self.command.is_some_and(Command::has_body) {
                return Err(PeerFault::BODY_FORBIDDEN);
            }
            if len > u64::from(limits.body_bytes_max) {
                return Err(PeerFault::BODY_TOO_LARGE);
            }
            self.body_len = Some(len as usize);
        }
        self.body = self.line;
        Ok(())
    }

    /// Where the NUL behind the body is, if it has come.
    #[inline]
    fn scan_body(
        &mut self,
        bytes: &[u8],
        limits: &FrameLimits,
    ) -> Result<Option<usize>, PeerFault> {
        if let Some(len) = self.body_len {
            let end = self.body + len;
            return match bytes.get(end) {
                None => Ok(None),
                Some(0) => Ok(Some(end)),
                Some(_) => Err(PeerFault::CONTENT_LENGTH_WRONG),
            };
        }
        let window_end = self
            .body
            .saturating_add(limits.body_bytes_max as usize)
            .saturating_add(1)
            .min(bytes.len());
        let unseen = bytes.get(self.seen..window_end).unwrap_or_default();
        let nul = memchr::memchr(0, unseen);
        let body = unseen
            .get(..nul.unwrap_or(unseen.len()))
            .unwrap_or_default();
        // Clients that end every frame with an empty line too many do exist.
        if !self.command.is_some_and(Command::has_body)
            && !body.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
        {
            return Err(PeerFault::BODY_FORBIDDEN);
        }
        match nul {
            Some(at) => Ok(Some(self.seen + at)),
            None if window_end - self.body > limits.body_bytes_max as usize => {
                Err(PeerFault::BODY_TOO_LARGE)
            }
            None => {
                self.seen = window_end;
                Ok(None)
            }
        }
    }
}

/// Without spaces at the start.
pub(crate) fn unpadded(value: &str) -> &str {
    value.trim_start_matches(' ')
}

/// Number of bytes at the start that stand between frames: line ends, which are heart-beats or which some clients add
/// to every frame, and extra NULs of other clients.
#[inline]
pub(crate) fn line_ends(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take_while(|byte| matches!(byte, b'\r' | b'\n' | 0))
        .count()
}

/// Short heads are the rule, and for them the standard library beats a choice of vector instructions.
// As a call it would be 2 % of a SEND.
#[inline(always)]
fn utf8(bytes: &[u8]) -> Result<&str, PeerFault> {
    if bytes.len() < 64 {
        std::str::from_utf8(bytes).map_err(|_| PeerFault::HEADER_UTF8)
    } else {
        simdutf8::basic::from_utf8(bytes).map_err(|_| PeerFault::HEADER_UTF8)
    }
}
