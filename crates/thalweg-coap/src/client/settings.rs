//! Settings of a client, and its limits for servers.

use thalweg_wire::Span;

use crate::{Block, Transmission};

/// Limits and behaviour of a [`ClientSide`](crate::ClientSide).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// Repetition of confirmable messages.
    pub transmission: Transmission,
    /// Requests and observations at a time.
    pub requests_max: usize,
    /// Confirmable requests to one peer that wait for NSTART.
    pub waiting_per_peer: u8,
    /// Peers that are known at a time. A new one displaces one that nothing is going on with.
    pub peers_max: usize,
    /// Longest time of a response after the request was acknowledged, or sent if it is not confirmable. It starts again
    /// with each block.
    pub response_within: Span,
    /// SZX of the largest blocks to send, and to ask for.
    pub block_exponent_max: u8,
    /// Bytes that a response may have.
    pub response_bytes_max: usize,
    /// Whether an observation registers again when its last notification is older than its Max-Age and some seconds.
    pub register_again: bool,
    /// Options that the application understands; a response with another critical one is rejected. RFC 7252 §5.4.1
    pub understood_options: Vec<u16>,
    /// Bytes of a token, 1 to 8. Four are hard to guess for an off-path attacker (RFC 7252 §5.3.1); DTLS makes guessing
    /// useless.
    pub token_bytes: u8,
    /// Bytes that may go to a peer that has not answered before `probing_rate` holds them back. RFC 7252 §4.7
    pub probing_allowance: u32,
}

impl Default for ClientSettings {
    fn default() -> Self {
        ClientSettings {
            transmission: Transmission::default(),
            requests_max: 65_536,
            waiting_per_peer: 255,
            peers_max: 65_536,
            response_within: Span::from_secs(93),
            block_exponent_max: Block::SIZE_EXPONENT_MAX,
            response_bytes_max: 1 << 20,
            register_again: true,
            understood_options: Vec::new(),
            token_bytes: 4,
            probing_allowance: 4096,
        }
    }
}
