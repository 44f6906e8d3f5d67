//! The engine in a simulated world. [`world`] is made to be used again.

mod broker;
mod datagrams;
mod dice;
mod seeds;
mod settling;
mod stories;
mod subscribing;
mod transport;
mod wire;
mod world;
