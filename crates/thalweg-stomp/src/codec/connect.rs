//! CONNECT, or STOMP: the client's first frame. Never escaped.

use std::borrow::Cow;

use crate::known::Known;
use crate::scanner::Frame;
use crate::version::{VERSIONS, parse_heart_beat};
use crate::{Command, HeaderWriter, Headers, PeerFault, Version};

/// A CONNECT or STOMP frame as received; borrows from the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectFrame<'b> {
    /// The highest version that both sides speak.
    pub version: Version,
    /// The virtual host. Required since 1.1, and yet left out by clients in wide use; so it is optional here.
    pub host: Option<Cow<'b, str>>,
    /// User name, from header `login`.
    pub login: Option<Cow<'b, str>>,
    /// Password, from header `passcode`.
    pub passcode: Option<Cow<'b, str>>,
    /// Shortest interval of the client's heart-beats, and the interval that it requests of the server: milliseconds, 0
    /// never. See [`crate::heart_beats`].
    pub heart_beat: (u32, u32),
    /// Everything, e.g. `client-id`.
    pub headers: Headers<'b>,
}

impl<'b> ConnectFrame<'b> {
    pub(crate) fn decode(frame: &Frame<'_, 'b>) -> Result<Self, PeerFault> {
        let accept = frame.get(Known::AcceptVersion);
        let version =
            Version::negotiate(accept.as_deref()).ok_or(PeerFault::VERSION_UNSUPPORTED)?;
        let heart_beat = match frame.get(Known::HeartBeat) {
            Some(value) => parse_heart_beat(&value).ok_or(PeerFault::HEART_BEAT)?,
            None => (0, 0),
        };
        Ok(ConnectFrame {
            version,
            host: frame.get_plain(Known::Host, version),
            login: frame.get_plain(Known::Login, version),
            passcode: frame.get_plain(Known::Passcode, version),
            heart_beat,
            headers: frame.headers,
        })
    }
}

/// Headers of a CONNECT to be written.
#[derive(Clone, Copy, Debug)]
pub struct ConnectOut<'a> {
    /// The lowest version that will do.
    pub lowest: Version,
    /// The highest version that will do.
    pub highest: Version,
    /// Name of the virtual host.
    pub host: &'a str,
    /// User name, from header `login`.
    pub login: Option<&'a str>,
    /// Password, from header `passcode`.
    pub passcode: Option<&'a str>,
    /// Shortest interval of our heart-beats, and the interval that we request: milliseconds, 0 never.
    pub heart_beat: (u32, u32),
    /// Further headers, e.g. `client-id`.
    pub headers: &'a [(&'a str, &'a str)],
}

impl Default for ConnectOut<'_> {
    fn default() -> Self {
        ConnectOut {
            lowest: Version::V10,
            highest: Version::V12,
            host: "/",
            login: None,
            passcode: None,
            heart_beat: (0, 0),
            headers: &[],
        }
    }
}

impl ConnectOut<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut w = HeaderWriter::begin(Command::Connect, Version::V10, out);
        // Three names of three letters and two commas: a range of versions is a range of this text.
        let (first, last) = (self.lowest as usize * 4, self.highest as usize * 4 + 3);
        w.ours(
            "accept-version",
            VERSIONS.get(first..last).unwrap_or(self.highest.name()),
        );
        w.ours("host", self.host);
        w.maybe("login", self.login);
        w.maybe("passcode", self.passcode);
        w.heart_beat(self.heart_beat);
        w.extend(self.headers.iter().copied());
        w.end(&[]);
    }
}
