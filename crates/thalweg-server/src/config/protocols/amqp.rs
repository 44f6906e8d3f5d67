//! `amqp.*`: the section of AMQP.

use crate::config::declare::{KIB, MIB, given, keep_alive, keys, message_bytes, prefix};
use crate::config::keys::Key;
use crate::config::keys::Reload::NewConnections;
use crate::config::kind::Kind::{Count, Size};
use crate::config::landing::{Field, Landing, land, protocol};
use thalweg_model::Span;

/// `amqp.*`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Amqp {
    /// Heartbeat interval that is proposed; [`Span::ZERO`] proposes none. In whole seconds.
    pub heartbeat: Span,
    /// Largest frame that is proposed.
    pub frame_bytes_max: usize,
    /// Most channels of one connection.
    pub channels_max: u16,
    /// Largest body of a message.
    pub message_bytes_max: usize,
    /// Most consumers of one channel.
    pub consumers_per_channel_max: usize,
}

keys! {
    protocol amqp.heartbeat: keep_alive(), default "60s", NewConnections;
        "Heartbeat interval proposed to AMQP clients, who may choose another. A peer that says nothing for twice the \
         interval agreed on is disconnected. 0s proposes none.";
    protocol amqp.frame_bytes_max: Size { min: 4 * KIB, max: 16 * MIB }, default "128KiB", NewConnections;
        "Largest frame proposed to AMQP clients. Larger messages come in several frames.";
    protocol amqp.channels_max: Count { min: 1, max: 65_535 }, default "2047", NewConnections;
        "Most channels of one AMQP connection.";
    protocol amqp.message_bytes_max: message_bytes(), default "16MiB", NewConnections;
        "Largest body of an AMQP message. A channel on which a larger one is announced is closed.";
    protocol amqp.consumers_per_channel_max: Count { min: 1, max: 1_000_000 }, default "4096", NewConnections;
        "Most consumers of one AMQP channel. Further ones are refused.";
}
