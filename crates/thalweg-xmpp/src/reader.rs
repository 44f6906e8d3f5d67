//! A stream that is read: its header, what is in it, its end.

use crate::tree::{Bounds, Declaration};
use crate::write::MESSAGE_END;
use crate::{Element, PeerFault, Tree, ns, whole};
use rxml::error::EndOrError;
use rxml::{Parse, RawEvent, RawParser, WithOptions};
use std::borrow::Cow;

/// Limits of this end for its peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Octets of the header and of each element before the log-in, whose sender is not known yet.
    pub handshake_bytes_max: usize,
    /// Octets of a stanza afterwards; 10,000 are the least that RFC 6120 allows.
    pub stanza_bytes_max: usize,
    /// Octets of a name or of an attribute's value.
    pub token_bytes_max: usize,
    /// Elements within one another, the stanza included.
    pub depth_max: usize,
    /// Attributes and declarations of one element.
    pub attributes_max: usize,
    /// Elements of one stanza.
    pub elements_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            handshake_bytes_max: 8 << 10,
            stanza_bytes_max: 1 << 20,
            token_bytes_max: 8 << 10,
            depth_max: 64,
            attributes_max: 64,
            elements_max: 4096,
        }
    }
}

/// Framing of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// One document that lasts as long as the stream. [6120#4.2]
    #[default]
    Document,
    /// A document for each stanza, which ends with [`MESSAGE_END`](crate::MESSAGE_END): for WebSocket. [7395#3.3]
    Elements,
}

/// Header of a peer's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamHeader<'b> {
    /// The domain that a client requests, or the client's address as the server sees it.
    pub to: Option<Cow<'b, str>>,
    /// The domain of the server, or the client's claimed address.
    pub from: Option<Cow<'b, str>>,
    /// The server's name for the stream.
    pub id: Option<Cow<'b, str>>,
}

/// An item read from a stream.
pub(crate) enum Item<'b> {
    Header(StreamHeader<'b>),
    Element(Element<'b>),
    /// Spaces between stanzas: a sign of life.
    Space,
    End,
}

#[derive(Debug)]
pub(crate) struct Reader {
    parser: RawParser,
    framing: Framing,
    bounds: Bounds,
    token_bytes_max: usize,
    /// Octets of an element.
    bytes_max: usize,
    /// Octets of the header: each stanza costs a copy of its declarations.
    header_bytes_max: usize,
    /// Elements of a stanza behind the log-in.
    elements_max: usize,
    /// Octets of the caller's that the parser has seen.
    scanned: usize,
    /// Octets of the caller's that its events were made from.
    position: usize,
    /// The element that is incomplete; empty between two.
    tree: Tree,
    /// Declarations of the header.
    stream: Vec<Declaration>,
    has_header: bool,
    /// The message has had its element and must end.
    message_ends: bool,
}

impl std::fmt::Debug for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bounds")
    }
}

/// Elements of the header and of each element before the log-in.
const HANDSHAKE_ELEMENTS_MAX: usize = 128;

fn parser(token_bytes_max: usize) -> RawParser {
    RawParser::with_options(rxml::Options {
        max_token_length: token_bytes_max,
        ..rxml::Options::default()
    })
}

impl Reader {
    pub(crate) fn new(limits: &Limits, framing: Framing) -> Self {
        Reader {
            parser: parser(limits.token_bytes_max),
            framing,
            bounds: Bounds {
                attributes_max: limits.attributes_max,
                elements_max: limits.elements_max.min(HANDSHAKE_ELEMENTS_MAX),
                depth_max: limits.depth_max.min(usize::from(u16::MAX - 1)),
            },
            elements_max: limits.elements_max,
            token_bytes_max: limits.token_bytes_max,
            bytes_max: limits.handshake_bytes_max,
            header_bytes_max: limits.handshake_bytes_max,
            scanned: 0,
            position: 0,
            tree: Tree::default(),
            stream: Vec::new(),
            has_header: false,
            message_ends: false,
        }
    }

    /// Another stream begins on the same connection.
    pub(crate) fn restart(&mut self) {
        self.parser = parser(self.token_bytes_max);
        (self.scanned, self.position) = (0, 0);
        self.stream.clear();
        self.has_header = false;
    }

    /// The peer is known: from now on elements may have so many octets.
    pub(crate) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.bounds.elements_max = self.elements_max;
    }

    /// Whether no part of an element has been read.
    pub(crate) fn is_between(&self) -> bool {
        self.scanned == 0
    }

    /// Octets of memory that the header takes, and the places of an element that is incomplete.
    pub(crate) fn bytes(&self) -> usize {
        self.tree.bytes() + Declaration::texts(&self.stream)
    }

    /// The next item, and its octets. `Ok(None)`: incomplete, nothing consumed; the next call must bring the same octets and
    /// more. `tree` is the caller's; it belongs to the element that is returned.
    pub(crate) fn next<'b>(
        &mut self,
        bytes: &'b [u8],
        tree: &'b mut Tree,
    ) -> Result<Option<(usize, Item<'b>)>, PeerFault> {
        if self.scanned == 0 {
            if self.framing == Framing::Elements {
                match bytes.first() {
                    Some(&MESSAGE_END) => {
                        self.message_ends = false;
                        return Ok(Some((1, Item::Space)));
                    }
                    Some(octet) if self.message_ends && !octet.is_ascii_whitespace() => {
                        return Err(PeerFault::TWO_ELEMENTS);
                    }
                    _ => {}
                }
            }
            let spaces = bytes
                .iter()
                .take_while(|octet| octet.is_ascii_whitespace())
                .count();
            if spaces > 0 {
                return Ok(Some((spaces, Item::Space)));
            }
            if bytes.is_empty() {
                return Ok(None);
            }
        }
        let (len, found) = match self.read_whole(bytes, tree) {
            Some(len) => (len, Found::Element),
            None => match self.parse(bytes, tree)? {
                Some(parsed) => parsed,
                None => return Ok(None),
            },
        };
        let raw = bytes.get(..len).unwrap_or_default();
        let raw = simdutf8::basic::from_utf8(raw).map_err(|_| PeerFault::MALFORMED)?;
        let mut used = len;
        if self.framing == Framing::Elements {
            self.message_ends = bytes.get(len) != Some(&MESSAGE_END);
            used += usize::from(!self.message_ends);
        }
        let item = match (found, self.framing) {
            (Found::End, _) => Item::End,
            (Found::Header, _) => {
                self.stream = tree.take_scopes();
                self.has_header = true;
                if !self.stream.iter().any(Declaration::is_client) {
                    return Err(PeerFault::HEADER);
                }
                Item::Header(header(tree.root(raw), "stream", ns::STREAMS)?)
            }
            (Found::Element, Framing::Document) => Item::Element(tree.root(raw)),
            (Found::Element, Framing::Elements) => {
                let element = tree.root(raw);
                match element.is("close", ns::FRAMING) {
                    true => Item::End,
                    false if self.has_header => Item::Element(element),
                    false => {
                        self.has_header = true;
                        Item::Header(header(element, "open", ns::FRAMING)?)
                    }
                }
            }
        };
        Ok(Some((used, item)))
    }

    /// Reads an element past the parser, which stays between two; its length. `None`: it is not read yet.
    fn read_whole(&self, bytes: &[u8], tree: &mut Tree) -> Option<usize> {
        if self.scanned > 0 || !self.has_header {
            return None;
        }
        tree.begin(&self.stream);
        let most = bytes.get(..self.bytes_max).unwrap_or(bytes);
        whole::read(most, self.token_bytes_max, &self.bounds, tree)
    }

    /// Goes on with an item, whose first octets may be known already; its length.
    fn parse(
        &mut self,
        bytes: &[u8],
        tree: &mut Tree,
    ) -> Result<Option<(usize, Found)>, PeerFault> {
        if self.scanned == 0 {
            self.tree = std::mem::take(tree);
            self.tree.begin(&self.stream);
        }
        let bytes_max = match self.has_header {
            true => self.bytes_max,
            false => self.header_bytes_max,
        };
        // One octet more than may be, which shows that there are too many.
        let until = bytes.len().min(bytes_max.saturating_add(1));
        let found = loop {
            let mut rest = bytes.get(self.scanned..until).unwrap_or_default();
            let parsed = self.parser.parse(&mut rest, false);
            self.scanned = until - rest.len();
            match parsed {
                Ok(Some(event)) => {
                    if let Some(found) = self.on_event(&event, bytes)? {
                        break found;
                    }
                }
                Ok(None) => return Err(PeerFault::MALFORMED),
                Err(EndOrError::NeedMoreData) if self.scanned > bytes_max => {
                    return Err(PeerFault::STANZA_TOO_LARGE);
                }
                Err(EndOrError::NeedMoreData) => return Ok(None),
                Err(EndOrError::Error(error)) => {
                    let seen = bytes.get(..self.scanned).unwrap_or_default();
                    return Err(fault_of(&error, seen));
                }
            }
        };
        let len = self.position;
        debug_assert_eq!(len, self.scanned);
        if len > bytes_max {
            return Err(PeerFault::STANZA_TOO_LARGE);
        }
        (self.scanned, self.position) = (0, 0);
        *tree = std::mem::take(&mut self.tree);
        if len == bytes.len() {
            self.parser.release_temporaries();
        }
        if self.framing == Framing::Elements {
            self.parser = parser(self.token_bytes_max);
        }
        Ok(Some((len, found)))
    }

    fn on_event(&mut self, event: &RawEvent, bytes: &[u8]) -> Result<Option<Found>, PeerFault> {
        let from = self.position;
        let until = from + event.metrics().len();
        self.position = until;
        let is_header = self.framing == Framing::Document && !self.has_header;
        let name_len = |(prefix, local): &rxml::RawQName| {
            local.len() + prefix.as_ref().map_or(0, |prefix| prefix.len() + 1)
        };
        match event {
            RawEvent::XmlDeclaration(..) => {}
            RawEvent::ElementHeadOpen(_, name) => {
                self.tree
                    .open(until.saturating_sub(name_len(name))..until, &self.bounds)?;
            }
            RawEvent::Attribute(_, name, value) => {
                let slice = bytes.get(from..until).unwrap_or_default();
                self.tree
                    .attribute(slice, from, name_len(name), value, &self.bounds)?;
            }
            RawEvent::ElementHeadClose(_) => {
                self.tree.head_end(bytes, until)?;
                if is_header {
                    // A stream that ends where it begins.
                    if bytes.get(..until).is_some_and(|head| head.ends_with(b"/>")) {
                        return Err(PeerFault::HEADER);
                    }
                    return Ok(Some(Found::Header));
                }
            }
            RawEvent::ElementFoot(_) if self.tree.depth() == 0 => return Ok(Some(Found::End)),
            RawEvent::ElementFoot(_) => {
                self.tree.close(from..until);
                if self.tree.depth() == 0 {
                    return Ok(Some(Found::Element));
                }
            }
            RawEvent::Text(..) if self.tree.depth() == 0 => return Err(PeerFault::TEXT),
            RawEvent::Text(..) => {}
        }
        Ok(None)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Header,
    Element,
    End,
}

fn header<'b>(
    root: Element<'b>,
    name: &str,
    namespace: &str,
) -> Result<StreamHeader<'b>, PeerFault> {
    if !root.is(name, namespace) {
        return Err(PeerFault::HEADER);
    }
    let version = root.attribute("version");
    if !version
        .as_deref()
        .is_some_and(|version| version.starts_with("1."))
    {
        return Err(PeerFault::VERSION);
    }
    Ok(StreamHeader {
        to: root.attribute("to"),
        from: root.attribute("from"),
        id: root.attribute("id"),
    })
}

fn fault_of(error: &rxml::Error, seen: &[u8]) -> PeerFault {
    match error {
        _ if seen.ends_with(b"<!D") => PeerFault::RESTRICTED,
        rxml::Error::RestrictedXml(_) | rxml::Error::UndeclaredEntity => PeerFault::RESTRICTED,
        rxml::Error::UndeclaredNamespacePrefix(_) => PeerFault::PREFIX,
        rxml::Error::DuplicateAttribute => PeerFault::DUPLICATE,
        _ => PeerFault::MALFORMED,
    }
}

/// Reads `text` as one element, by the limits of a stream: what is `None` is no XML that XMPP allows.
pub fn parse_document<'b>(
    text: &'b [u8],
    limits: &Limits,
    tree: &'b mut Tree,
) -> Option<Element<'b>> {
    let mut reader = Reader::new(limits, Framing::Elements);
    reader.set_bytes_max(limits.stanza_bytes_max);
    reader.has_header = true;
    if !text.starts_with(b"<") {
        return None;
    }
    match reader.next(text, tree) {
        Ok(Some((len, Item::Element(element)))) if len == text.len() => Some(element),
        _ => None,
    }
}
