//! CoAP: RFC 7252, 7641, 7959, 8323, and the pubsub draft. Concept map: an address = a resource below `/ps/data`, PUT =
//! publish with RetainOp::Set, GET = the last value, Observe = a watch that the machine pulls from, DELETE = RetainOp::Clear,
//! CON = at least once: the answer is held until its batch is safe, NON = at most once.
//!
//! A peer of a socket is no link: links are sockets, and sessions of the kernel are by identity (`identity`). Nothing here
//! calls back: what the kernel says while a front's own code is running waits in `shared` until [`Links::work`].
//!
//! Start reading at `CoapFront::on_datagram` (`datagram`), then `Handler::handle` (`handler`), which is the same for streams.

mod answer;
mod collection;
mod data;
mod data_uri;
mod datagram;
mod desk;
mod handler;
mod hooks;
mod identity;
mod observe;
mod queue;
mod rates;
mod relations;
mod representation;
mod resource;
mod rpc;
mod settings;
mod shared;
mod side;
mod stream;
mod topics;
mod waiting;
mod well_known;

use crate::link::{Front, Links};
use desk::Desk;
use shared::ForAll;
use std::iter::Peekable;
use thalweg_kernel::{Kernel, LinkId};
use thalweg_model::Time;

pub use datagram::CoapFront;
pub use identity::PeerSecurity;
pub use settings::{CoapCounts, CoapSettings, Notify};
pub(crate) use shared::{Shared, Told};
pub use stream::CoapStreamFront;

/// Hands out what fronts were told since this was last called, each its own.
fn work(links: &mut Links, now: Time, kernel: &mut Kernel) {
    // Their work makes new work: values read here are answered at once. It ends, because each request asks once.
    while links.has_work() {
        for word in std::mem::take(&mut links.coap.for_all) {
            for id in links.coap_fronts() {
                let told = match word {
                    ForAll::Surplus(topic) => Told::Surplus(topic),
                    ForAll::Counts(topic) => Told::Counts(topic),
                };
                links.coap.tell(id, told);
            }
        }
        let mut inbox = std::mem::take(&mut links.coap.inbox);
        let mut changed = std::mem::take(&mut links.coap.changed);
        // Each front is called once for all that it was told.
        inbox.make_contiguous().sort_by_key(|(link, _)| *link);
        changed.sort_by_key(|(link, _)| *link);
        hand_out(
            links,
            inbox.drain(..).peekable(),
            changed.drain(..).peekable(),
            now,
            kernel,
        );
        links.coap.keep_buffers(inbox, changed);
    }
}

fn hand_out(
    links: &mut Links,
    mut inbox: Peekable<impl Iterator<Item = (LinkId, Told)>>,
    mut changed: Peekable<impl Iterator<Item = (LinkId, u64)>>,
    now: Time,
    kernel: &mut Kernel,
) {
    let next = |of: Option<LinkId>, other: Option<LinkId>| of.into_iter().chain(other).min();
    while let Some(id) = next(
        inbox.peek().map(|(id, _)| *id),
        changed.peek().map(|(id, _)| *id),
    ) {
        let told =
            std::iter::from_fn(|| inbox.next_if(|(link, _)| *link == id)).map(|(_, told)| told);
        let changed = std::iter::from_fn(|| changed.next_if(|(link, _)| *link == id))
            .map(|(_, cookie)| cookie);
        match links.get(id).map(|link| &link.front) {
            Some(Front::CoapDatagrams(_)) => {
                CoapFront::on_told(links, id, told, changed, now, kernel)
            }
            Some(Front::CoapStream(_)) => {
                CoapStreamFront::on_told(links, id, told, changed, now, kernel)
            }
            Some(Front::CoapDesk) => {
                changed.for_each(drop);
                Desk::on_told(links, id, told, now, kernel);
            }
            // The link is gone.
            _ => {
                told.for_each(drop);
                changed.for_each(drop);
            }
        }
    }
}

fn on_timeout(links: &mut Links, id: LinkId, now: Time, kernel: &mut Kernel) {
    match links.get(id).map(|link| &link.front) {
        Some(Front::CoapDatagrams(_)) => CoapFront::on_timeout(links, id, now, kernel),
        Some(Front::CoapStream(_)) => CoapStreamFront::on_timeout(links, id, now, kernel),
        _ => {}
    }
    if links.coap.next_expiry() <= now {
        Desk::expire(links, now, kernel);
    }
    links.work(now, kernel);
}

/// A link ends: its front ends the sessions that it has opened.
pub(crate) fn close(links: &mut Links, id: LinkId, now: Time, kernel: &mut Kernel) {
    match links.get(id).map(|link| &link.front) {
        Some(Front::CoapDatagrams(_)) => CoapFront::close(links, id, now, kernel),
        Some(Front::CoapStream(_)) => CoapStreamFront::close(links, id, now, kernel),
        _ => {}
    }
}
