//! What AMQP clients must find, over fronts and a kernel in memory.

mod world;

mod connect;
mod consume;
mod errors;
mod properties;
mod publish;
mod transactions;
