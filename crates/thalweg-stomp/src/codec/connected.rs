//! CONNECTED: the server's first frame. Never escaped.

use std::borrow::Cow;

use crate::known::Known;
use crate::scanner::Frame;
use crate::version::parse_heart_beat;
use crate::{Command, HeaderWriter, Headers, PeerFault, Version};

/// A CONNECTED as received; borrows from the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectedFrame<'b> {
    /// The version of everything from here on.
    pub version: Version,
    /// The server's name for this connection.
    pub session: Option<Cow<'b, str>>,
    /// The server's name and version.
    pub server: Option<Cow<'b, str>>,
    /// Shortest interval of the server's heart-beats, and the interval that it requests: milliseconds, 0 never.
    pub heart_beat: (u32, u32),
    /// User name under which the server has logged us in; not in the specification.
    pub user: Option<Cow<'b, str>>,
    /// All headers of the frame, those above included.
    pub headers: Headers<'b>,
}

impl<'b> ConnectedFrame<'b> {
    pub(crate) fn decode(frame: &Frame<'_, 'b>) -> Result<Self, PeerFault> {
        let version = match frame.get(Known::Version) {
            Some(name) => Version::from_name(name.trim()).ok_or(PeerFault::VERSION_UNASKED)?,
            None => Version::V10,
        };
        let heart_beat = match frame.get(Known::HeartBeat) {
            Some(value) => parse_heart_beat(&value).ok_or(PeerFault::HEART_BEAT)?,
            None => (0, 0),
        };
        Ok(ConnectedFrame {
            version,
            session: frame.get(Known::Session),
            server: frame.get(Known::Server),
            heart_beat,
            user: frame.get(Known::UserName),
            headers: frame.headers,
        })
    }
}

/// CONNECTED as written; the machine adds the version.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectedOut<'a> {
    /// Our name for this connection.
    pub session: Option<&'a str>,
    /// `name/version`.
    pub server: Option<&'a str>,
    /// Shortest interval of our heart-beats, and the interval that we request: milliseconds, 0 never.
    pub heart_beat: (u32, u32),
    /// User name of the client, as `user-name`.
    pub user: Option<&'a str>,
    /// Headers that the specification does not know: names of letters, digits and hyphens, and their values.
    pub further: &'a [(&'a str, &'a str)],
}

impl ConnectedOut<'_> {
    /// `version` and `heart-beat` are always there, in 1.0 too: a client in wide use takes the latter apart unseen.
    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let mut w = HeaderWriter::begin(Command::Connected, version, out);
        w.ours("version", version.name());
        w.heart_beat(self.heart_beat);
        w.maybe("session", self.session);
        w.maybe("server", self.server);
        w.maybe("user-name", self.user);
        self.further
            .iter()
            .for_each(|(name, value)| w.maybe(name, Some(*value)));
        w.end(&[]);
    }
}
