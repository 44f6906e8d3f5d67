//! Connections that the broker opens to peers that bind.

use super::{ZmtpFront, ZmtpSettings};
use crate::AnyFront;
use crate::front::FrontSettings;
use std::sync::Arc;
use thalweg_kernel::access::Access;
use thalweg_zmtp::SocketType;

/// A peer that binds, and what the broker is to it.
#[derive(Clone, Debug)]
pub struct ZmtpDial {
    pub settings: Arc<ZmtpSettings>,
    /// The broker's end; the peer's is what goes with it.
    pub socket_type: SocketType,
    /// Whose rights the peer has.
    pub user: Box<str>,
    /// The broker's routing id, which a ROUTER knows it by after a reconnect, too; empty for none.
    pub identity: Box<[u8]>,
    /// What is wanted of a publisher.
    pub prefixes: Vec<Box<[u8]>>,
    /// What a server is asked for; empty for the configured service.
    pub service: Box<[u8]>,
}

impl FrontSettings for ZmtpDial {
    fn stream_front(self: Arc<Self>, _: u64, _: Option<Access>) -> Option<AnyFront> {
        None
    }

    fn dialed_front(self: Arc<Self>, nonce: u64) -> Option<AnyFront> {
        Some(ZmtpFront::dialed(self, nonce).into())
    }
}
