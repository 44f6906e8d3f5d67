//! What the server does with links that are sockets of datagrams, and with the fronts' common work.

use super::datagram::CoapFront;
use super::settings::{CoapCounts, CoapSettings};
use super::{PeerSecurity, Told};
use crate::LoginAnswer;
use crate::link::{Front, Links};
use core::net::SocketAddr;
use std::sync::Arc;
use thalweg_coap::Datagrams;
use thalweg_kernel::{Kernel, LinkId};
use thalweg_model::Time;

impl Links {
    /// Handles what a socket received, each datagram with where it came from and what is known of who sent it.
    pub fn handle_datagrams<'d>(
        &mut self,
        id: LinkId,
        datagrams: impl Iterator<Item = (SocketAddr, PeerSecurity<'d>, &'d [u8])>,
        now: Time,
        kernel: &mut Kernel,
    ) {
        CoapFront::handle(self, id, datagrams, now, kernel);
    }

    /// Swaps the datagrams of a socket that may leave now with `spare`, which should be empty. Answers that wait for the
    /// journal are not among them.
    pub fn take_datagrams(&mut self, id: LinkId, spare: &mut Datagrams) {
        if let Some(Front::CoapDatagrams(front)) = self.get_mut(id).map(|link| &mut link.front) {
            let was_stalled = front.take_output(spare);
            if was_stalled {
                self.coap.tell(id, Told::Room);
            }
        }
    }

    /// When [`Links::on_datagram_timeout`] wants to be called for a socket.
    pub fn datagram_timeout(&self, id: LinkId) -> Time {
        match self.get(id).map(|link| &link.front) {
            Some(Front::CoapDatagrams(front)) => front.poll_timeout().min(self.coap.next_expiry()),
            Some(Front::CoapStream(front)) => front.poll_timeout().min(self.coap.next_expiry()),
            _ => Time::NEVER,
        }
    }

    /// Does what is due on a socket. For streams, too: [`Links::datagram_timeout`] says when.
    pub fn on_datagram_timeout(&mut self, id: LinkId, now: Time, kernel: &mut Kernel) {
        super::on_timeout(self, id, now, kernel);
    }

    /// Nobody is at an address any more: what below the datagrams knew its peer says so.
    pub fn on_peer_gone(&mut self, id: LinkId, from: SocketAddr, now: Time, kernel: &mut Kernel) {
        CoapFront::on_peer_gone(self, id, from, now, kernel);
    }

    /// The answer to a [`LoginAsk::Proven`]; with `""`, to one that named nobody.
    pub fn on_proven(
        &mut self,
        id: LinkId,
        identity: &str,
        answer: LoginAnswer,
        now: Time,
        kernel: &mut Kernel,
    ) {
        CoapFront::on_proven(self, id, identity, answer, now, kernel);
    }

    /// What CoAP fronts count; nothing for others.
    pub fn coap_counts(&self, id: LinkId) -> Option<CoapCounts> {
        match &self.get(id)?.front {
            Front::CoapDatagrams(front) => Some(front.counts()),
            Front::CoapStream(front) => Some(front.counts()),
            _ => None,
        }
    }

    /// Other settings for a socket, which never closes, and so never sees them otherwise.
    pub fn set_coap_settings(&mut self, id: LinkId, settings: Arc<CoapSettings>) {
        if let Some(Front::CoapDatagrams(front)) = self.get_mut(id).map(|link| &mut link.front) {
            front.set_settings(settings);
        }
    }

    /// Lets fronts go on with what they were told since this was last called. To be called before outputs are flushed.
    #[inline]
    pub fn work(&mut self, now: Time, kernel: &mut Kernel) {
        if self.has_work() {
            super::work(self, now, kernel);
        }
    }

    /// Whether [`Links::work`] would do anything.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.coap.has_work()
    }

    /// What the current command has asked to be held on a link of CoAP: the batch that its answer must wait for.
    #[inline]
    pub(crate) fn take_hold(&mut self) -> Option<u64> {
        self.coap.hold.take()
    }
}
