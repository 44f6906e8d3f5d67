//! Watches, reading last values and remembering them: the same world, in which mail between shards may be slow.

mod keeping;
mod lists;
mod model;
mod presence;
mod reading;
mod replies;
mod rights;
mod shards;
mod watching;
pub mod world;
