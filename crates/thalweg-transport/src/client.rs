//! The client's end of the same filters.

#[cfg(feature = "tls")]
pub use crate::connector::{TlsClientFiles, TlsConnector, authorities};
#[cfg(feature = "websocket")]
pub use crate::upgrade::websocket;
