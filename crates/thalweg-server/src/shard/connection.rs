//! A connection as the shard's driver sees it: socket, transport, and what waits on either side of them.

use crate::access::network_of;
use crate::lobby::{HalfOpen, PeerInfo, Slot, Socket};
use crate::transport::Transport;
use std::net::{IpAddr, SocketAddr};
use thalweg_kernel::LinkId;
use thalweg_model::{Span, Time};

/// A socket and its buffers. The protocol machine is in [`thalweg_fronts::Links`] under the same number.
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    pub(crate) transport: Transport,
    pub(crate) peer: PeerInfo,
    /// Tells it from later connections with the same number.
    pub(crate) serial: u64,
    /// Protocol bytes that are not a whole packet yet, or must wait.
    pub(crate) tail: Vec<u8>,
    /// Wire bytes to send, behind a transport that changes bytes.
    pub(crate) wire: Vec<u8>,
    pub(crate) wire_sent: usize,
    /// The socket may have bytes for us.
    pub(crate) readable: bool,
    /// The peer has closed its side, or the socket has failed: read until the end even after a short read.
    pub(crate) hung_up: bool,
    /// The socket took less than we had.
    pub(crate) blocked: bool,
    /// Some of `tail` was not handled because it had to wait.
    pub(crate) held: bool,
    /// It is in the list of connections to read.
    pub(crate) queued: bool,
    /// How many congested links its reading waits for.
    pub(crate) paused_by: u32,
    /// The shard that it moves to as soon as nothing of it is being handled.
    pub(crate) moves_to: Option<usize>,
    /// Connections whose reading waits for this one's output to drain.
    pub(crate) waiters: Vec<(LinkId, u64)>,
    /// When publishers began to wait for this one.
    pub(crate) stalled_since: Option<Time>,
    /// When the credentials end that it last showed.
    pub(crate) login_ends: Time,
    /// It did not drain in time: publishers do not wait for it until it has drained wholly.
    pub(crate) slow: bool,
    /// A timer for silence runs.
    pub(crate) silence_watched: bool,
    /// The front was asked for its keep-alive interval; a timer runs if it has one.
    pub(crate) idle_watched: bool,
    /// Any received byte counts as a sign of life, not only a whole packet.
    pub(crate) hears_parts: bool,
    /// TLS has begun within the stream, and its handshake is not known to be over.
    pub(crate) is_securing: bool,
    /// Its front has timers of its own, and when the earliest that is set fires.
    pub(crate) front_due: Option<Time>,
    /// Its session is a member of a shared subscription, as far as has been noticed.
    pub(crate) shares: bool,
    /// It is sent messages with priorities.
    pub(crate) prioritized: bool,
    /// The shortest round trip of the network that was measured.
    pub(crate) round_trip: Span,
    /// Its output buffer is large; it is freed when it was not used for a while.
    pub(crate) fat: bool,
    /// When a whole packet last came.
    pub(crate) heard_at: Time,
    /// When bytes were last sent.
    pub(crate) sent_at: Time,
    pub(crate) since: Time,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Bytes in its buffers, as [`Connections::buffered`] counts them.
    pub(crate) buffered: usize,
    /// Its place among the handshakes, until it is complete.
    pub(crate) half_open: Option<HalfOpen>,
    /// Frees the connection's place in its listener's count when dropped.
    pub(crate) _slot: Slot,
}

/// All connections of a shard, by link number.
#[derive(Default)]
pub struct Connections {
    list: Vec<Option<Box<Connection>>>,
    buffered: usize,
}

/// A connection, as operators see it.
#[derive(Clone, Debug)]
pub struct ConnectionView {
    /// Where it comes from; nothing for a unix socket.
    pub peer: Option<SocketAddr>,
    pub listener: String,
    /// `tcp` or `unix`, with `+tls` and `+websocket`.
    pub transport: &'static str,
    pub since: Time,
    /// When a whole packet last came.
    pub heard_at: Time,
    /// Bytes received, as they were on the wire.
    pub bytes_in: u64,
    /// Bytes sent, as they were on the wire.
    pub bytes_out: u64,
    /// The socket does not take what we have.
    pub blocked: bool,
    /// It did not drain within `queue.output_pace_max`.
    pub slow: bool,
}

impl Connection {
    /// Whether its socket is given nothing more as long as it has not sent what it has.
    pub(crate) fn is_kept_short(&self) -> bool {
        self.shares || self.prioritized
    }
}

impl Connections {
    pub(crate) fn insert(&mut self, id: LinkId, connection: Connection) {
        let at = id.0 as usize;
        if at >= self.list.len() {
            self.list.resize_with(at + 1, || None);
        }
        self.list[at] = Some(Box::new(connection));
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: LinkId) -> Option<&mut Connection> {
        self.list.get_mut(id.0 as usize)?.as_deref_mut()
    }

    pub(crate) fn remove(&mut self, id: LinkId) -> Option<Box<Connection>> {
        let connection = self.list.get_mut(id.0 as usize)?.take()?;
        self.buffered -= connection.buffered;
        Some(connection)
    }

    /// Bytes in the buffers of all: input that is not a whole packet yet or must wait, and output that the peers have not
    /// taken.
    pub fn buffered(&self) -> usize {
        self.buffered
    }

    /// Counts a connection's buffers as they are now; `in_link` is what its link has.
    pub(crate) fn count_buffers(&mut self, id: LinkId, in_link: usize) {
        let Some(connection) = self.get_mut(id) else {
            return;
        };
        let in_transport = connection.transport.buffered();
        let bytes = connection.tail.len() + connection.wire.len() + in_transport + in_link;
        let before = std::mem::replace(&mut connection.buffered, bytes);
        self.buffered = self.buffered + bytes - before;
    }

    /// Those with anything in their buffers: where each comes from, how much there is, and which it is.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (Option<IpAddr>, usize, LinkId)> + '_ {
        let there = self.list.iter().enumerate();
        let there =
            there.filter_map(|(at, connection)| Some((LinkId(at as u32), connection.as_deref()?)));
        there
            .filter(|(_, connection)| connection.buffered > 0)
            .map(|(id, connection)| {
                (
                    connection
                        .peer
                        .address
                        .map(|address| network_of(address.ip())),
                    connection.buffered,
                    id,
                )
            })
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = LinkId> + use<> {
        let there = self
            .list
            .iter()
            .enumerate()
            .filter(|(_, c)| c.is_some())
            .map(|(at, _)| LinkId(at as u32));
        there.collect::<Vec<_>>().into_iter()
    }

    /// A connection by its link.
    pub fn view(&self, id: LinkId) -> Option<ConnectionView> {
        let connection = self.list.get(id.0 as usize)?.as_deref()?;
        let unix = matches!(connection.socket, Socket::Unix(_));
        let spec = &connection.peer.listener;
        let has_tls = spec.tls.is_some() && !(spec.tls_later && connection.transport.is_plain());
        Some(ConnectionView {
            peer: connection.peer.address,
            listener: spec.name.to_string(),
            transport: match (unix, has_tls, spec.websocket.is_some()) {
                (true, ..) => "unix",
                (_, false, false) => "tcp",
                (_, true, false) => "tcp+tls",
                (_, false, true) => "tcp+websocket",
                (_, true, true) => "tcp+tls+websocket",
            },
            since: connection.since,
            heard_at: connection.heard_at,
            bytes_in: connection.bytes_in,
            bytes_out: connection.bytes_out,
            blocked: connection.blocked,
            slow: connection.slow,
        })
    }
}
