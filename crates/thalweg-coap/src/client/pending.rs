//! A request that has not ended.

use core::net::SocketAddr;

use thalweg_wire::Time;

use crate::slots::NONE;
use crate::{Block, Code, Options, RequestId, Sequence, Token};

/// Next event that a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The response to the last message.
    ExpectResponse,
    Observing,
    /// The response to its deregistration.
    ExpectEnd,
    ExpectPong,
}

/// A request in progress: everything needed to send its next part, and the response received so far.
#[derive(Debug)]
pub(crate) struct Pending {
    pub peer: u32,
    pub to: SocketAddr,
    pub token: Token,
    /// The token of requests for further blocks of a notification: the other one belongs to the observation.
    /// RFC 7959 §3.4
    pub fetch_token: Option<Token>,
    pub code: Code,
    pub is_confirmable: bool,
    pub wants_observe: bool,
    pub keeps_all: bool,
    pub phase: Phase,
    /// The confirmable message in flight.
    pub sending: u32,
    /// The id of the last message that was sent for it.
    pub id: u16,
    /// The application's options, as they are on the wire.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
    /// The Echo value that the server demands, and how many it has asked for.
    pub echo: Vec<u8>,
    pub echoes: u8,
    /// Where in the payload the block begins that was sent last, and the size of blocks.
    pub sent: usize,
    pub size_exponent: u8,
    /// The response as far as it has come in blocks, its ETag, and how often it changed meanwhile.
    pub body: Vec<u8>,
    pub tag: [u8; 8],
    pub tag_len: u8,
    pub restarts: u8,
    /// Whether a body is being put together.
    pub is_gathering: bool,
    pub newest: Option<(Sequence, Time)>,
    /// The requests before and behind it in an order that the peer keeps.
    pub before: Option<RequestId>,
    pub behind: Option<RequestId>,
    /// Whether its blocks carry its token as a Request-Tag: those of another body to the same place are under way.
    pub has_request_tag: bool,
    /// Whether its end has been sent, or waits for NSTART: what comes behind it can name it.
    pub is_said: bool,
    /// Whether its end waits until the one before is said or over.
    pub is_held: bool,
    /// Whether it was refused because the one before was missing.
    pub was_refused: bool,
    /// Whether the last message named the one before.
    pub names_before: bool,
    /// The one before ended and was not taken.
    pub is_broken: bool,
    /// Whether the next one may be taken when this one ends.
    pub ends_well: bool,
    /// When it has waited long enough, or registers again.
    pub deadline: Time,
    /// When its timer comes up.
    pub timer_at: Time,
}

impl Pending {
    /// Nothing sent, nothing there.
    pub fn new(peer: u32, to: SocketAddr, token: Token, code: Code, phase: Phase) -> Self {
        Pending {
            peer,
            to,
            token,
            fetch_token: None,
            code,
            is_confirmable: true,
            wants_observe: false,
            keeps_all: false,
            phase,
            sending: NONE,
            id: 0,
            options: Vec::new(),
            payload: Vec::new(),
            echo: Vec::new(),
            echoes: 0,
            sent: 0,
            size_exponent: Block::SIZE_EXPONENT_MAX,
            body: Vec::new(),
            tag: [0; 8],
            tag_len: 0,
            restarts: 0,
            is_gathering: false,
            newest: None,
            before: None,
            behind: None,
            has_request_tag: false,
            is_said: false,
            is_held: false,
            was_refused: false,
            names_before: false,
            is_broken: false,
            ends_well: true,
            deadline: Time::NEVER,
            timer_at: Time::NEVER,
        }
    }

    /// The size of blocks.
    pub fn block_size(&self) -> usize {
        16 << self.size_exponent
    }

    /// Whether the payload goes in blocks.
    pub fn is_in_blocks(&self) -> bool {
        self.payload.len() > self.block_size() || self.sent > 0
    }

    /// The block of the payload that begins at `sent`, and whether it is the last.
    pub fn part(&self) -> (Option<Block>, &[u8]) {
        if !self.is_in_blocks() {
            return (None, &self.payload);
        }
        let end = self.payload.len().min(self.sent + self.block_size());
        let number = (self.sent / self.block_size()) as u32;
        let block = Block {
            number,
            more: end < self.payload.len(),
            size_exponent: self.size_exponent,
        };
        (
            Some(block),
            self.payload.get(self.sent..end).unwrap_or_default(),
        )
    }

    /// Whether blocks with these options belong to the body that is being put together.
    pub fn has_tag(&self, options: &Options<'_>) -> bool {
        let tag = options.get(crate::option::ETAG).unwrap_or_default();
        self.tag.get(..usize::from(self.tag_len)) == Some(tag)
    }

    /// Begins a body with the tag of these options.
    pub fn begin_body(&mut self, options: &Options<'_>) {
        let tag = options.get(crate::option::ETAG).unwrap_or_default();
        self.body.clear();
        self.is_gathering = true;
        self.tag_len = tag.len() as u8;
        if let Some(place) = self.tag.get_mut(..tag.len()) {
            place.copy_from_slice(tag);
        }
    }
}
