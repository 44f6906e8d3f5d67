//! CoAP: RFC 7252, 7641, 7959, 8323, and the pubsub draft. Concept map: an address = a resource below `/ps/data`, PUT =
//! publish with RetainOp::Set, GET = the last value, Observe = a watch that the machine pulls from, DELETE = RetainOp::Clear,
//! CON = at least once: the answer is held until its batch is safe, NON = at most once.
//!
//! A peer of a socket is no link: links are sockets, and sessions of the kernel are by identity (`identity`). Nothing here
//! calls back: what the kernel says waits with [`Deferred`] until the front is woken.
//!
//! Start reading at `CoapFront::on_datagram` (`datagram`), then `Handler::handle` (`handler`), which is the same for streams.

mod answer;
mod capabilities;
mod collection;
mod data;
mod data_uri;
mod datagram;
mod desk;
mod handler;
mod identity;
mod leisure;
mod note;
mod observe;
mod queue;
mod rates;
mod relations;
mod representation;
mod resource;
mod rpc;
mod settings;
mod side;
mod stream;
mod topics;
mod waiting;
mod well_known;

use crate::Links;
use crate::deferred::Deferred;
use crate::front::{FrontSettings, Variant};
use crate::registry::AnyFront;
use std::sync::Arc;
use thalweg_kernel::LinkId;
use thalweg_kernel::access::Access;

pub use capabilities::COAP;
pub(crate) use capabilities::PROTOCOL;
pub use datagram::CoapFront;
pub(crate) use desk::Desk;
pub use identity::PeerSecurity;
pub use settings::{CoapCounts, CoapSettings, Notify};
pub use stream::CoapStreamFront;

/// What the front of a link has counted, if it is one of CoAP.
pub fn counts(links: &Links, id: LinkId) -> Option<CoapCounts> {
    let datagrams = Deferred::<CoapFront>::at(links, id).and_then(Deferred::front);
    let stream = || Deferred::<CoapStreamFront>::at(links, id)?.front();
    datagrams
        .map(CoapFront::total_counts)
        .or_else(|| stream().map(CoapStreamFront::total_counts))
}

impl From<CoapFront> for AnyFront {
    fn from(front: CoapFront) -> Self {
        Deferred::boxed(Box::new(front)).into()
    }
}

impl From<CoapStreamFront> for AnyFront {
    fn from(front: CoapStreamFront) -> Self {
        Deferred::boxed(Box::new(front)).into()
    }
}

impl FrontSettings for CoapSettings {
    fn stream_front(self: Arc<Self>, nonce: u64, anonymous: Option<Access>) -> Option<AnyFront> {
        Some(CoapStreamFront::new(self, nonce, anonymous).into())
    }

    fn datagram_front(self: Arc<Self>, seed: u64, anonymous: Option<Access>) -> Option<AnyFront> {
        Some(CoapFront::new(self, seed, anonymous).into())
    }
}
