//! CURVE: boxes, the handshake that is made of them, and the cipher after it. [RFC 25 and 26]
//!
//! The primitives are external: X25519 of `curve25519-dalek`, XSalsa20 and Poly1305 of RustCrypto. Their combination as
//! in NaCl (`boxes`) and the commands are implemented here.

mod boxes;
mod cipher;
mod client;
mod keys;
mod server;

pub use boxes::connection_seed;
pub use client::CurveClient;
pub use keys::{KeyPair, key_from_z85, key_to_z85};
pub use server::CurveServer;

pub(crate) use cipher::{BOXED_COMMAND, Cipher, OVERHEAD};
pub(crate) use client::Hello;
pub(crate) use server::Cookie;

use boxes::BoxKey;
