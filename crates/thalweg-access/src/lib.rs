//! Authentication and rights: which peers may connect, and what they may do then.
//!
//! *Knows:* password files, ACL files, tokens, SCRAM, and how to turn all of them into one answer: a [`Login`] with
//! compiled [`Rules`](thalweg_kernel::access::Rules), or a [`Refusal`]. *Must never know:* a connection, a packet or a
//! reason code; fronts translate [`RefusalReason`]. Start reading at [`Vault::check`].
#![forbid(unsafe_code)]

mod acl_file;
mod ban_file;
mod error;
mod failures;
mod fair_queue;
mod jwt;
mod jwt_signature;
mod login;
mod password_file;
mod password_hash;
mod pool;
mod settings;
mod vault;
mod verdict_cache;

pub use acl_file::AclFile;
pub use ban_file::{BanFile, BanKind, add_ban, remove_ban};
pub use error::AccessError;
pub use fair_queue::network_of;
pub use jwt::{TokenClaims, TokenError, TokenKeys};
pub use login::{Login, LoginRequest, Refusal, RefusalReason, cut};
pub use password_file::{
    PasswordFile, add_password, add_scram_verifier, delete_user, hash_password, user_name_problem,
};
pub use password_hash::PasswordHash;
pub use pool::{
    LoginCounts, PeerState, Reply, VAULT_QUEUE_LIMIT_DEFAULT, VAULT_THREADS_DEFAULT, VaultPool,
    Work,
};
pub use settings::{
    AccessSettings, TokenAlgorithm, TokenKeySettings, TokenKeySource, TokenSettings,
};
pub use vault::{Moment, Users, Vault};
