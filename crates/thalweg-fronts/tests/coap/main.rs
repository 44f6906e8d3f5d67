//! The broker's behaviour for CoAP clients in one situation each, over front and kernel in memory.

mod nonsense;
mod stage;
mod world;

mod data;
mod groups;
mod identities;
mod limits;
mod observe;
mod queues;
mod rpc;
mod streams;
mod topics;
