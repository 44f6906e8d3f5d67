//! TLS that begins on a connection that is open (STARTTLS).

use super::Shard;
use crate::transport::{Filtered, Transport, TransportFault};
use thalweg_fronts::LinkSecurity;
use thalweg_kernel::LinkId;

impl Shard {
    /// Puts TLS between the socket and the link of a connection whose peer has asked for it. What was written before leaves as
    /// it is, and what is read from now on is part of the handshake.
    pub(super) fn upgrade(&mut self, id: LinkId) {
        let (Some(connection), Some(link)) = (self.connections.get_mut(id), self.links.get_mut(id))
        else {
            return;
        };
        let acceptor = connection.peer.listener.tls.as_ref();
        let acceptor = acceptor.filter(|_| connection.transport.is_plain());
        let layer = match acceptor.map(|acceptor| acceptor.accept()) {
            Some(Ok(layer)) => layer,
            failed => {
                let fault = failed.and_then(Result::err);
                let fault = fault.unwrap_or(TransportFault::Tls("no certificate".into()));
                tracing::debug!(link = id.0, %fault, "closing: TLS cannot begin");
                link.closing = true;
                return;
            }
        };
        let count = link.sendable().len();
        connection.wire.extend_from_slice(link.sendable());
        link.advance(count);
        connection.transport = Filtered::stack(Some(layer), None);
        connection.is_securing = true;
        debug_assert!(!matches!(connection.transport, Transport::Plain));
    }

    /// Notes what the handshake has shown of the peer, once it is over.
    pub(super) fn on_secured(&mut self, id: LinkId) {
        let (Some(connection), Some(link)) = (self.connections.get_mut(id), self.links.get_mut(id))
        else {
            return;
        };
        let Transport::Filtered(filtered) = &connection.transport else {
            return;
        };
        if filtered.is_handshaking() {
            return;
        }
        connection.is_securing = false;
        if let Some(shown) = filtered.certificate_name() {
            connection.peer.certificate_name = Some(shown);
        }
        link.security = LinkSecurity {
            has_name: connection.peer.certificate_name.is_some(),
            has_binding: filtered.channel_binding().is_some(),
        };
    }
}
