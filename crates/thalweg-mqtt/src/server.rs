//! The server's end of a connection.

use crate::*;

/// What this server allows each of its clients.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Largest packet taken, in bytes with its header; announced as Maximum Packet Size.
    pub packet_bytes_max: u32,
    /// Highest inbound topic alias.
    pub topic_alias_max: u16,
    /// Highest outbound topic alias, whatever more the client allows.
    pub topic_alias_out_max: u16,
    /// Unacknowledged inbound QoS 1 and 2 publishes of a v5 client.
    pub receive_max: u16,
    /// Longest client identifier, in bytes.
    pub client_id_bytes_max: u16,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            packet_bytes_max: 1 << 20,
            topic_alias_max: 64,
            topic_alias_out_max: 64,
            receive_max: 1024,
            client_id_bytes_max: u16::MAX,
        }
    }
}

/// The server's end of one connection: bytes in, events out; verbs append bytes to the caller's buffer.
#[derive(Debug)]
pub struct ServerSide {
    limits: ServerLimits,
    version: Version,
}

/// What a client said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// First packet. Boxed: it is twenty times the size of the others, and once per connection.
    Connect(Box<Connect<'b>>),
    /// A message.
    Publish(Publish<'b>),
    /// Answer to our QoS 1 PUBLISH.
    PubAck {
        /// Packet identifier.
        id: u16,
        /// Outcome.
        reason: ReasonCode,
    },
    /// First answer to our QoS 2 PUBLISH.
    PubRec {
        /// Packet identifier.
        id: u16,
        /// Outcome.
        reason: ReasonCode,
    },
    /// The client releases its QoS 2 PUBLISH.
    PubRel {
        /// Packet identifier.
        id: u16,
        /// Outcome.
        reason: ReasonCode,
    },
    /// Last answer to our QoS 2 PUBLISH.
    PubComp {
        /// Packet identifier.
        id: u16,
        /// Outcome.
        reason: ReasonCode,
    },
    /// New subscriptions.
    Subscribe(Subscribe<'b>),
    /// No more subscriptions.
    Unsubscribe(Unsubscribe<'b>),
    /// Still there?
    PingReq,
    /// Goodbye.
    Disconnect(Disconnect<'b>),
    /// A step of enhanced authentication.
    Auth(Auth<'b>),
}

/// A packet does not fit the peer's Maximum Packet Size; nothing was written. [MQTT-3.1.2-24]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// What it would have taken, in bytes.
    pub packet_bytes: usize,
    /// What the peer takes, in bytes.
    pub packet_bytes_max: u32,
}

impl ServerSide {
    /// A machine that waits for CONNECT.
    pub fn new(limits: ServerLimits) -> Self {
        ServerSide { limits, version: Version::V311 }
    }

    /// The limits given to [`ServerSide::new`].
    pub fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    /// The version of CONNECT; 3.1.1 until then.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The next packet out of `bytes`. `Ok(None)`: incomplete, nothing consumed. `Ok(Some((consumed, event)))`: the
    /// event borrows from `bytes` only, so the machine can be used while the event is held.
    #[inline]
    pub fn handle_input<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        let _ = bytes;
        Ok(None)
    }

    /// How many bytes the frame at the start of `bytes` has in all, as soon as its header is complete.
    pub fn frame_len(bytes: &[u8]) -> Option<usize> {
        let _ = bytes;
        None
    }

    /// Answers CONNECT; fixes the negotiated limits. Session present is cleared with an error. [MQTT-3.2.2-6]
    pub fn connack(&mut self, a: &ConnAck<'_>, out: &mut Vec<u8>) {
        let _ = (a, out);
    }

    /// Acknowledges a QoS 1 publish.
    #[inline]
    pub fn puback(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        let _ = (id, reason, out);
    }

    /// First answer to a QoS 2 publish; with an error also the last.
    pub fn pubrec(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        let _ = (id, reason, out);
    }

    /// Releases our QoS 2 publish.
    pub fn pubrel(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        let _ = (id, reason, out);
    }

    /// Last answer to a QoS 2 publish.
    pub fn pubcomp(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        let _ = (id, reason, out);
    }

    /// Answers SUBSCRIBE: one code per filter. For MQTT 3 every failure becomes 0x80.
    pub fn suback(&mut self, id: u16, codes: &[ReasonCode], out: &mut Vec<u8>) {
        let _ = (id, codes, out);
    }

    /// Answers UNSUBSCRIBE: one code per filter; MQTT 3 carries none.
    pub fn unsuback(&mut self, id: u16, codes: &[ReasonCode], out: &mut Vec<u8>) {
        let _ = (id, codes, out);
    }

    /// Answers PINGREQ.
    pub fn pingresp(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0xD0, 0]);
    }

    /// A step of enhanced authentication (MQTT 5; writes nothing otherwise).
    pub fn auth(&mut self, reason: ReasonCode, method: &str, data: Option<&[u8]>, out: &mut Vec<u8>) {
        let _ = (reason, method, data, out);
    }

    /// Ends the connection in words (MQTT 5, after CONNACK; writes nothing otherwise).
    pub fn disconnect(&mut self, reason: ReasonCode, props: &DisconnectProps<'_>, out: &mut Vec<u8>) {
        let _ = (reason, props, out);
    }

    /// Sends a message. `Err`: larger than the client takes, nothing written. [MQTT-3.1.2-25]
    #[inline]
    pub fn publish(&mut self, p: &PublishOut<'_>, out: &mut Vec<u8>) -> Result<(), TooLarge> {
        let _ = (p, out);
        Ok(())
    }

    /// Whether `frame_bytes` bytes of a ready-made packet fit the client's Maximum Packet Size. Ask before sending a
    /// `plain` frame verbatim.
    #[inline]
    pub fn fits(&self, frame_bytes: usize) -> bool {
        let _ = frame_bytes;
        true
    }

    /// Says goodbye after a fault, or after a refusal by the kernel: CONNACK before the connection is accepted,
    /// DISCONNECT after that for MQTT 5, nothing for MQTT 3. Close the connection afterwards.
    pub fn fault(&mut self, f: &PeerFault, out: &mut Vec<u8>) {
        let _ = (f, out);
    }
}
