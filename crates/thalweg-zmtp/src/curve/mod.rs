//! CURVE: boxes, the handshake that is made of them, and the cipher of what follows. [RFC 25 and 26]
//!
//! The primitives are others': X25519 of `curve25519-dalek`, XSalsa20 and Poly1305 of RustCrypto. What is ours is how NaCl
//! puts them together (`boxes`), and the commands.

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
