//! How ZeroMQ's lanes behave.

/// How ZeroMQ's lanes behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZmtpSettings {
    /// Largest payload that is sent, in bytes. A peer that takes less ends the connection; Thalweg takes messages of 1 MiB,
    /// address included.
    pub payload_bytes_max: usize,
    /// Largest message that is taken, in bytes.
    pub message_bytes_max: usize,
    /// What ends the address in a message of one frame.
    pub separators: Vec<u8>,
}

impl Default for ZmtpSettings {
    fn default() -> Self {
        ZmtpSettings {
            payload_bytes_max: 960 << 10,
            message_bytes_max: 16 << 20,
            separators: b" \0|".to_vec(),
        }
    }
}
