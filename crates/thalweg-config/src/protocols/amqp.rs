//! `amqp.*`: the section of AMQP.

use crate::section::section;
use thalweg_model::Span;

section! {
    pub struct Amqp {
        /// Heartbeat interval proposed to AMQP clients, who may choose another. A peer that says nothing for twice the
        /// interval agreed on is disconnected. 0s proposes none.
        heartbeat: Span = KEEP_ALIVE, "60s", NewConnections;
        /// Largest frame proposed to AMQP clients. Larger messages come in several frames.
        frame_bytes_max: usize = size(4 * KIB, 16 * MIB), "128KiB", NewConnections;
        /// Most channels of one AMQP connection.
        channels_max: u16 = count(1, 65_535), "2047", NewConnections;
        /// Largest body of an AMQP message. A channel on which a larger one is announced is closed.
        message_bytes_max: usize = MESSAGE_BYTES, "16MiB", NewConnections;
        /// Most consumers of one AMQP channel. Further ones are refused.
        consumers_per_channel_max: usize = count(1, 1_000_000), "4096", NewConnections;
    }
}
