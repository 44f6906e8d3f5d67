//! How bytes become protocol bytes: the layers of `thalweg-transport` for streams, and DTLS for datagrams.

pub mod dtls;

#[cfg(test)]
pub(crate) use thalweg_transport::certificates;
pub use thalweg_transport::{
    CHANNEL_BINDING_BYTES, Filtered, Transport, TransportFault, client, proxy, tls, websocket,
};
