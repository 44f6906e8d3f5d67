//! The admin interface: what operators see of a running broker and may do to it, over HTTP.
//!
//! *Knows:* the server's [`Observer`](thalweg_server::Observer), HTTP and JSON. *Must never know:* a protocol's packets.
//! It runs on threads of its own and asks the shards by mail; a shard that is busy is left out of an answer and never
//! waited for.
//!
//! Start reading at `routes.rs`, the table of paths, then `gate.rs`, what every request must pass. One file is one path;
//! `metrics/table.rs` declares every metric once. `docs/admin-api.md` describes what callers see.
#![forbid(unsafe_code)]

mod accounts;
mod answer;
mod ask;
mod configuration;
mod connections;
mod exchanges;
mod front_page;
mod gate;
mod groups;
mod health;
mod journal;
mod ledger;
mod limits;
mod listeners;
mod listing;
pub mod metrics;
mod overview;
mod places;
mod publish;
mod queues;
mod retained;
mod routes;
mod serve;
mod sessions;
mod subscriptions;
mod trace;

pub use gate::{BODY_BYTES_MAX, REQUEST_TIMEOUT, REQUESTS_MAX};
pub use listing::{LIMIT_DEFAULT, LIMIT_MAX};
pub use serve::{AdminHandle, AdminSettings, AdminTokens, CONNECTIONS_MAX, start};
