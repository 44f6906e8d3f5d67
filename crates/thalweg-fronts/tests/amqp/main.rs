//! The broker's behaviour for AMQP clients, over fronts and a kernel in memory.

mod script;
mod world;

mod connect;
mod consume;
mod errors;
mod filters;
mod nonsense;
mod properties;
mod publish;
mod transactions;
