//! Where protocols and the kernel meet: one module per protocol translates its events into the kernel's commands, and the
//! kernel's effects into its packets.
//!
//! *Knows:* the wire crates and the kernel, and is the only crate that knows both. *Must never know:* a socket, a file, a
//! clock. A front never authorizes, settles, counts credit or touches another connection: the kernel does, for all alike.
//!
//! Start reading at [`Links::drive`]: bytes come in there; [`Links`] also carries out the kernel's
//! [`Effects`](thalweg_kernel::Effects) by writing into the links' output buffers, which the server flushes.
#![forbid(unsafe_code)]

pub mod address;
pub mod amqp;
pub mod calls;
pub mod capabilities;
pub mod coap;
mod deferred;
mod front;
mod link;
mod load;
mod login;
pub mod mqtt;
pub mod native;
mod probe;
mod protocol;
mod registry;
pub mod service;
mod stamp;
pub mod stomp;
pub mod xmpp;
pub mod zmtp;

pub use coap::PeerSecurity;
pub use deferred::{Deferred, DeferredFront, Delivered, Effect, Extension, Left};
pub use front::{
    ConsumerFate, Cx, Datagram, Fate, Front, FrontSettings, Outbound, Step, Undelivered, Variant,
};
pub use link::{Driven, Link, LinkSecurity, Links, LinksLimits, PacketCounts, Stopped};
pub use load::LoadCounts;
pub use login::{LoginAnswer, LoginAsk, LoginRefusal};
pub use probe::{Mark, Probe};
pub use protocol::{FrontCounts, FrontMetric, Protocol, ShowCount};
pub use registry::{AnyFront, protocols};
pub use thalweg_coap::Datagrams;
