//! What peers say of consumers and of what these were given.

use std::sync::Arc;
use thalweg_filter::Predicate;

/// A consumer, as a session announces it.
#[derive(Clone, Debug)]
pub struct ConsumeSpec<'a> {
    /// A queue's address, or `$g/<name>/<filter>` to be a member of a group.
    pub source: &'a str,
    /// The line it belongs to.
    pub line: u16,
    /// Names it in its line; not 0.
    pub consumer: u32,
    /// Unsettled messages it may have; 0 for no bound of its own.
    pub credit: u32,
    /// It settles what it is given; else that is settled when it is sent.
    pub settles: bool,
    /// It wants to be the only one.
    pub exclusive: bool,
    /// Higher ones are served first.
    pub priority: i32,
    /// It does not want what its own session publishes. Such messages are passed over.
    pub no_local: bool,
    /// It is given only what passes; the rest is for others.
    pub filter: Option<Arc<Predicate>>,
}

/// Which messages of a line are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tags {
    /// The one of this tag.
    One(u64),
    /// All up to the one of this tag.
    UpTo(u64),
    All,
}

impl Tags {
    /// What a peer means that says a tag and whether it means several: tag 0 is no message's, and means all then.
    #[inline]
    pub fn new(tag: u64, multiple: bool) -> Self {
        match (tag, multiple) {
            (_, false) => Tags::One(tag),
            (0, true) => Tags::All,
            (_, true) => Tags::UpTo(tag),
        }
    }
}
