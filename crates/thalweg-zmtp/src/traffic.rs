//! Messages and commands after the handshake, the same for both ends.

use crate::command::{self, CANCEL, PING, PONG, SUBSCRIBE};
use crate::curve::{BOXED_COMMAND, Cipher, OVERHEAD};
use crate::frame::{Head, LONG, MORE, put_head};
use crate::{Limits, Message, PeerFault, Version};

/// Octets that a context of PING or PONG may have.
const CONTEXT_LEN_MAX: usize = 16;

/// A message or command of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// A part of a message, which was decrypted and is kept.
    Consumed,
    /// A message with all its frames.
    Message(Message<'b>),
    /// The peer subscribes to messages with this prefix. It counts: as many cancellations end it.
    /// [37#The_Publish-Subscribe_Pattern]
    Subscribe(&'b [u8]),
    /// The end of one subscription.
    Cancel(&'b [u8]),
    /// The peer requests a [`Traffic::pong`] with this context.
    Ping {
        /// Tenths of a second without further input after which the peer is to be considered dead; 0: never.
        ttl: u16,
        /// At most 16 octets.
        context: &'b [u8],
    },
    /// The answer to a PING of ours with this context.
    Pong(&'b [u8]),
    /// A command that RFC 37 does not define for these sockets; may be ignored.
    Unknown {
        /// The command's name: ASCII letters, at most 255.
        name: &'b [u8],
        /// Data after the name.
        data: &'b [u8],
    },
}

/// See [`Traffic::whole_message`].
#[derive(Clone, Copy, Debug)]
pub struct WholeMessage<'b> {
    /// The message as [`Traffic::handle_input`] returns it.
    pub message: Message<'b>,
    /// The body of its first frame.
    pub first: &'b [u8],
    /// The body of its second frame; `None` of a message of one.
    pub second: Option<&'b [u8]>,
}

/// Data that could not be borrowed from the input.
///
/// The caller lends one to [`Traffic::handle_input`]. It need not be kept between calls; keeping it saves allocations.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    bytes: Vec<u8>,
}

impl Gathered {
    /// Bytes of memory that it keeps.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

/// One end of a connection after its handshake: bytes in, events out; verbs append bytes to the caller's buffer.
#[derive(Debug)]
pub struct Traffic {
    command_bytes_max: u64,
    message_bytes_max: u64,
    version: Version,
    /// Whether the peer is a SUB or XSUB.
    peer_subscribes: bool,
    /// Octets of the message at the start of the input whose frames have been looked at.
    seen: usize,
    /// Frames of an unfinished message: those in front of a command that came between them, or decrypted ones.
    partial: Vec<u8>,
    /// Cipher of the frames with CURVE; `None` without it.
    cipher: Option<Box<Cipher>>,
}

impl Traffic {
    pub(crate) fn new(
        limits: &Limits,
        version: Version,
        peer_subscribes: bool,
        cipher: Option<Box<Cipher>>,
    ) -> Self {
        Traffic {
            command_bytes_max: limits.command_bytes_max,
            message_bytes_max: limits.message_bytes_max,
            version,
            peer_subscribes,
            seen: 0,
            partial: Vec::new(),
            cipher,
        }
    }

    /// Bytes of a message of which some frames are kept here and others are to come.
    pub fn gathered_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// The version that the connection speaks.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The next event out of `bytes`. `Ok(None)`: incomplete, nothing consumed; the next call must bring the same bytes
    /// and more, of which only the new frames are looked at. `Ok(Some((consumed, event)))`: the event borrows from
    /// `bytes`, or from `gathered` if it could not. `Err`: close the connection.
    ///
    /// A message comes out when all its frames are there. [37#Messages]
    #[inline]
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
        gathered: &'b mut Gathered,
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        if let Some(whole) = self.whole_message(bytes) {
            let raw = whole.message.raw();
            return Ok(Some((raw.len(), Event::Message(whole.message))));
        }
        if self.cipher.is_some() {
            self.next_encrypted(bytes, gathered)
        } else {
            self.next_event(bytes, gathered)
        }
    }

    /// The message at the start of `bytes` if all of it is there and it is one frame, or a short one and another, as most are:
    /// what [`Traffic::handle_input`] returns for it, at a lower cost. `None` of all else: that decides.
    #[inline]
    pub fn whole_message<'b>(&mut self, bytes: &'b [u8]) -> Option<WholeMessage<'b>> {
        let last = match bytes {
            [MORE, len, ..] => 2 + usize::from(*len),
            _ => 0,
        };
        let (head, len) = match bytes.get(last..)? {
            [0, len, ..] => (2, usize::from(*len)),
            [LONG, rest @ ..] => (9, usize::try_from(long_len(rest)?).ok()?),
            _ => return None,
        };
        let at = last + head;
        let raw = bytes.get(..at.checked_add(len)?)?;
        if !self.is_plain(raw.len()) {
            return None;
        }
        self.seen = 0;
        let (before, body) = (raw.get(..last)?, raw.get(at..)?);
        let (first, second) = match before {
            [_, _, first @ ..] => (first, Some(body)),
            _ => (body, None),
        };
        Some(WholeMessage {
            message: Message::new(raw),
            first,
            second,
        })
    }

    /// Whether frames of so many octets are a message and nothing else.
    #[inline]
    fn is_plain(&self, len: usize) -> bool {
        !self.peer_subscribes
            && self.cipher.is_none()
            && self.partial.is_empty()
            && len as u64 <= self.message_bytes_max
    }

    fn next_event<'b>(
        &mut self,
        bytes: &'b [u8],
        gathered: &'b mut Gathered,
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        let mut at = self.seen.min(bytes.len());
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(head) = Head::decode(rest)? else {
                self.seen = at;
                return Ok(None);
            };
            if head.is_command() {
                return self.command_at(at, head, bytes);
            }
            let message_len = (self.partial.len() + at) as u64 + head.frame_len();
            if message_len > self.message_bytes_max {
                return Err(PeerFault::MESSAGE_TOO_LARGE);
            }
            let end = at + head.frame_len() as usize;
            if end > bytes.len() {
                self.seen = at;
                return Ok(None);
            }
            at = end;
            if !head.has_more() {
                break;
            }
        }
        self.seen = 0;
        let mut raw = bytes.get(..at).unwrap_or_default();
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(raw);
            raw = self.take_partial(gathered);
        }
        Ok(Some((at, self.message(Message::new(raw))?)))
    }

    fn take_partial<'b>(&mut self, gathered: &'b mut Gathered) -> &'b [u8] {
        std::mem::swap(&mut self.partial, &mut gathered.bytes);
        self.partial.clear();
        &gathered.bytes
    }

    /// The next MESSAGE: a command, or a frame of a message.
    fn next_encrypted<'b>(
        &mut self,
        bytes: &[u8],
        gathered: &'b mut Gathered,
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        let (Some(head), Some(cipher)) = (Head::decode(bytes)?, &mut self.cipher) else {
            return Ok(None);
        };
        if head.has_more() {
            return Err(PeerFault::FRAME_FLAGS);
        }
        let len_max = self.message_bytes_max.max(self.command_bytes_max);
        if head.body_len > len_max + OVERHEAD as u64 {
            return Err(PeerFault::MESSAGE_TOO_LARGE);
        }
        let len = head.frame_len() as usize;
        let Some(body) = bytes.get(head.len..len) else {
            return Ok(None);
        };
        let (flags, text) = cipher.open(body)?;
        if flags == BOXED_COMMAND {
            if text.len() as u64 > self.command_bytes_max {
                return Err(PeerFault::COMMAND_TOO_LARGE);
            }
            gathered.bytes.clear();
            text.append_to(&mut gathered.bytes);
            return Ok(Some((len, self.command(&gathered.bytes)?)));
        }
        let at = self.partial.len();
        put_head(flags, text.len(), &mut self.partial);
        if (self.partial.len() + text.len()) as u64 > self.message_bytes_max {
            self.partial.truncate(at);
            return Err(PeerFault::MESSAGE_TOO_LARGE);
        }
        text.append_to(&mut self.partial);
        if flags == MORE {
            return Ok(Some((len, Event::Consumed)));
        }
        let raw = self.take_partial(gathered);
        Ok(Some((len, self.message(Message::new(raw))?)))
    }

    /// The command at `at`, before which the beginning of a message may lie: libzmq sends PING between frames, too.
    fn command_at<'b>(
        &mut self,
        at: usize,
        head: Head,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        if head.body_len > self.command_bytes_max {
            return Err(PeerFault::COMMAND_TOO_LARGE);
        }
        let end = at + head.frame_len() as usize;
        let (Some(before), Some(body)) = (bytes.get(..at), bytes.get(at + head.len..end)) else {
            self.seen = at;
            return Ok(None);
        };
        self.partial.extend_from_slice(before);
        self.seen = 0;
        Ok(Some((end, self.command(body)?)))
    }

    /// A message, or the subscription that it is: RFC 23 writes subscriptions so, and an XSUB of libzmq does it in 3.1, too,
    /// when its user subscribes by sending.
    fn message<'b>(&self, message: Message<'b>) -> Result<Event<'b>, PeerFault> {
        if self.peer_subscribes && message.is_single() {
            let event = match message.frames().next() {
                Some([1, prefix @ ..]) => Event::Subscribe(prefix),
                Some([0, prefix @ ..]) => Event::Cancel(prefix),
                _ => return Ok(Event::Message(message)),
            };
            if message.raw().len() as u64 > self.command_bytes_max {
                return Err(PeerFault::COMMAND_TOO_LARGE);
            }
            return Ok(event);
        }
        Ok(Event::Message(message))
    }

    fn command<'b>(&self, body: &'b [u8]) -> Result<Event<'b>, PeerFault> {
        let (name, data) = command::split(body)?;
        match name {
            SUBSCRIBE | CANCEL if !self.peer_subscribes => Err(PeerFault::NOT_A_SUBSCRIBER),
            SUBSCRIBE => Ok(Event::Subscribe(data)),
            CANCEL => Ok(Event::Cancel(data)),
            PING => match data.split_first_chunk() {
                Some((ttl, context)) if context.len() <= CONTEXT_LEN_MAX => Ok(Event::Ping {
                    ttl: u16::from_be_bytes(*ttl),
                    context,
                }),
                _ => Err(PeerFault::PING),
            },
            PONG if data.len() > CONTEXT_LEN_MAX => Err(PeerFault::PONG),
            PONG => Ok(Event::Pong(data)),
            _ => Ok(Event::Unknown { name, data }),
        }
    }

    /// Sends one frame of a message; `more` of the same message must follow before another message.
    #[inline]
    pub fn frame(&mut self, body: &[u8], more: bool, out: &mut Vec<u8>) {
        let flags = if more { MORE } else { 0 };
        match &mut self.cipher {
            None => {
                put_head(flags, body.len(), out);
                out.extend_from_slice(body);
            }
            Some(cipher) => cipher.seal(flags, &[body], out),
        }
    }

    /// Sends a message as it came from another connection.
    #[inline]
    pub fn forward(&mut self, message: Message<'_>, out: &mut Vec<u8>) {
        match self.cipher {
            None => out.extend_from_slice(message.raw()),
            Some(_) => self.forward_encrypted(message, out),
        }
    }

    /// Sends messages as they came from another connection, one behind the other; false, and nothing is sent, if each has to
    /// be encrypted.
    #[inline]
    pub fn forward_all(&mut self, messages: &[u8], out: &mut Vec<u8>) -> bool {
        if self.cipher.is_none() {
            out.extend_from_slice(messages);
        }
        self.cipher.is_none()
    }

    #[inline(never)]
    fn forward_encrypted(&mut self, message: Message<'_>, out: &mut Vec<u8>) {
        let mut frames = message.frames().peekable();
        while let Some(body) = frames.next() {
            self.frame(body, frames.peek().is_some(), out);
        }
    }

    /// Asks for messages that begin so.
    pub fn subscribe(&mut self, prefix: &[u8], out: &mut Vec<u8>) {
        match self.version {
            Version::V30 => self.old_subscription(1, prefix, out),
            Version::V31 => self.put_command(SUBSCRIBE, &[prefix], out),
        }
    }

    /// Takes back one subscription.
    pub fn cancel(&mut self, prefix: &[u8], out: &mut Vec<u8>) {
        match self.version {
            Version::V30 => self.old_subscription(0, prefix, out),
            Version::V31 => self.put_command(CANCEL, &[prefix], out),
        }
    }

    /// Asks for a sign of life; writes nothing to a 3.0 peer, which need not know the command. `ttl` is in tenths of a
    /// second, 0 for none; a context has at most 16 octets, more are cut.
    pub fn ping(&mut self, ttl: u16, context: &[u8], out: &mut Vec<u8>) {
        if self.version == Version::V31 {
            let context = context.get(..CONTEXT_LEN_MAX).unwrap_or(context);
            self.put_command(PING, &[&ttl.to_be_bytes(), context], out);
        }
    }

    /// Answers a PING with its context.
    pub fn pong(&mut self, context: &[u8], out: &mut Vec<u8>) {
        self.put_command(PONG, &[context], out);
    }

    /// `subscribe = %x00 short-size %d1 subscription`, and `%d0` to cancel. [23#The_Publish-Subscribe_Pattern]
    fn old_subscription(&mut self, kind: u8, prefix: &[u8], out: &mut Vec<u8>) {
        match &mut self.cipher {
            None => {
                put_head(0, 1 + prefix.len(), out);
                out.push(kind);
                out.extend_from_slice(prefix);
            }
            Some(cipher) => cipher.seal(0, &[&[kind], prefix], out),
        }
    }

    fn put_command(&mut self, name: &[u8], data: &[&[u8]], out: &mut Vec<u8>) {
        let Some(cipher) = &mut self.cipher else {
            return command::put(name, data, out);
        };
        let mut body = Vec::with_capacity(command::body_len(name, data));
        command::put_body(name, data, &mut body);
        cipher.seal(BOXED_COMMAND, &[&body], out);
    }
}

/// The length of a long frame, whose head is `LONG` and these bytes.
#[inline]
fn long_len(rest: &[u8]) -> Option<u64> {
    rest.first_chunk().map(|len| u64::from_be_bytes(*len))
}
