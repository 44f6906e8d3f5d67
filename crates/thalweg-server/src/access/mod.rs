//! Who may connect, and what they may then do.
//!
//! *Knows:* password files, ACL files, tokens, SCRAM, and how to turn all of them into one answer: a [`Login`] with
//! compiled [`Rules`](thalweg_kernel::access::Rules), or a [`Refusal`]. *Must never know:* a connection, a packet or a
//! reason code; fronts translate [`RefusalReason`]. Start reading at [`Vault::check`].

mod error;
mod login;
mod pool;
mod settings;
mod vault;

pub use error::AccessError;
pub use login::{Login, LoginRequest, Refusal, RefusalReason};
pub use pool::{Full, Reply, VAULT_QUEUE_LIMIT_DEFAULT, VAULT_THREADS_DEFAULT, VaultPool};
pub use settings::{AccessSettings, TokenAlgorithm, TokenKeySettings, TokenKeySource, TokenSettings};
pub use vault::{Moment, Vault};
