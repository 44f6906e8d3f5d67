//! The broker's behaviour for STOMP clients in one situation each, over front and kernel in memory.

mod script;
mod world;

mod connect;
mod limits;
mod properties;
mod queues;
mod settle;
mod topics;
mod transactions;
