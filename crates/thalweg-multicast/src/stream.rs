//! The stream of packets of MQTT that the pieces of datagrams are.

use thalweg_mqtt::ServerSide;

/// Whole packets, and behind them the beginning of one.
#[derive(Debug)]
pub(crate) struct PacketStream {
    bytes: Vec<u8>,
    /// Where the next packet to be handed out begins.
    taken: usize,
    /// Where the whole packets end.
    whole: usize,
    /// Whether the next piece continues the bytes.
    is_joined: bool,
    packet_bytes_max: usize,
}

/// The bytes are no packets, or one is too long. What follows is passed over up to where a packet begins.
pub(crate) struct Broken;

impl PacketStream {
    pub(crate) fn new(packet_bytes_max: usize) -> Self {
        PacketStream {
            bytes: Vec::new(),
            taken: 0,
            whole: 0,
            is_joined: false,
            packet_bytes_max,
        }
    }

    /// A piece never comes: what is not whole never will be.
    pub(crate) fn part(&mut self) {
        self.bytes.truncate(self.whole);
        self.is_joined = false;
    }

    /// Appends a piece, in which a packet begins at `first`, and returns how many packets are whole with it.
    pub(crate) fn append(&mut self, first: Option<usize>, piece: &[u8]) -> Result<u64, Broken> {
        let piece = match (self.is_joined, first) {
            (true, _) => piece,
            (false, None) => return Ok(0),
            (false, Some(at)) => piece.get(at..).unwrap_or_default(),
        };
        self.is_joined = true;
        self.bytes.drain(..self.taken);
        self.whole -= self.taken;
        self.taken = 0;
        self.bytes.extend_from_slice(piece);
        let mut count = 0;
        loop {
            let rest = &self.bytes[self.whole..];
            match ServerSide::frame_len(rest) {
                Some(length) if length > self.packet_bytes_max => break,
                Some(length) if length <= rest.len() => {
                    count += 1;
                    self.whole += length;
                }
                Some(_) => return Ok(count),
                None if rest.len() < HEADER_BYTES_MAX => return Ok(count),
                None => break,
            }
        }
        self.part();
        Err(Broken)
    }

    /// The next packet, once it is whole.
    pub(crate) fn next_packet(&mut self) -> Option<&[u8]> {
        let ready = self.bytes.get(self.taken..self.whole)?;
        let length = ServerSide::frame_len(ready)?;
        self.taken += length;
        ready.get(..length)
    }
}

/// Of the type and the longest encoding of a length.
const HEADER_BYTES_MAX: usize = 5;
