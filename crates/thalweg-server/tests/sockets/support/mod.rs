//! Clients, streams and folders of these tests.

pub mod amqp;
pub mod folder;
pub mod own_network;
pub mod pipe;
