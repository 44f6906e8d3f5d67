//! The client's end of all conversations over one datagram socket.

mod event;
mod settings;

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_wire::Time;

pub use event::*;
pub use settings::ClientSettings;

use crate::Datagrams;

/// The client's end of all conversations over one datagram socket: requests go out, responses and notifications come
/// in; block-wise transfers both ways and repetitions are the machine's.
///
/// Call [`ClientSide::poll_event`] until nothing comes after each call of `handle_datagram` and `handle_timeout`.
#[derive(Debug)]
pub struct ClientSide {
    settings: Arc<ClientSettings>,
}

impl ClientSide {
    /// A machine without peers. `seed` chooses message ids and tokens: nobody outside should know it.
    pub fn new(settings: Arc<ClientSettings>, seed: u64) -> Self {
        let _ = seed;
        ClientSide { settings }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Arc<ClientSettings> {
        &self.settings
    }

    /// Sends a request, or queues it behind others to the same peer.
    pub fn request(
        &mut self,
        to: SocketAddr,
        request: &RequestOut<'_>,
        now: Time,
        out: &mut Datagrams,
    ) -> Result<RequestId, RequestRefused> {
        let _ = (to, request, now, out);
        Err(RequestRefused::TooMany)
    }

    /// Asks whether somebody is there: an empty confirmable message, for which the answer is a reset.
    pub fn ping(&mut self, to: SocketAddr, now: Time, out: &mut Datagrams) -> Result<RequestId, RequestRefused> {
        let _ = (to, now, out);
        Err(RequestRefused::TooMany)
    }

    /// Ends a request or an observation.
    pub fn cancel(&mut self, request: RequestId, how: Cancel, now: Time, out: &mut Datagrams) {
        let _ = (request, how, now, out);
    }

    /// Registers an observation again, with the same token. RFC 7641 §3.3.1
    pub fn register_again(&mut self, request: RequestId, now: Time, out: &mut Datagrams) {
        let _ = (request, now, out);
    }

    /// Takes one datagram. The event borrows from the datagram only.
    pub fn handle_datagram<'b>(
        &mut self,
        from: SocketAddr,
        datagram: &'b [u8],
        now: Time,
        out: &mut Datagrams,
    ) -> Option<ClientEvent<'b>> {
        let _ = (from, datagram, now, out);
        None
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Datagrams) {
        let _ = (now, out);
    }

    /// When something will be due; [`Time::NEVER`] if nothing will.
    pub fn poll_timeout(&self) -> Time {
        Time::NEVER
    }

    /// What happened without a datagram that says so.
    pub fn poll_event(&mut self) -> Option<ClientNotice> {
        None
    }
}
