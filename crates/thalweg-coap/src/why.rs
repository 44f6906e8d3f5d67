//! Errors that a server answers with by itself: diagnostic payloads (RFC 7252 §5.5.2), and for how many seconds a client
//! ought to wait (Max-Age of 5.03, RFC 7252 §5.9.3.4).

/// There is too much to do.
pub(crate) const OVERLOADED_SECONDS: u32 = 10;
/// The client's own requests in blocks are too many: the next one ends within some round trips.
pub(crate) const CROWDED_SECONDS: u32 = 1;

pub(crate) const BLOCK_OPTION: &str = "the Block option is malformed";
pub(crate) const BLOCK_SIZE: &str =
    "the payload does not have the size that its Block1 option says";
pub(crate) const BLOCK_BEYOND: &str = "the body has no such block";
pub(crate) const AFTER: &str = "the message that has to be taken before this one is not here";
pub(crate) const CROWDED: &str = "too many bodies of this client are under way";
pub(crate) const EXCHANGES: &str = "too many requests wait for an answer";
pub(crate) const GAP: &str = "the blocks before this one are not here; begin again with the first";
pub(crate) const HOP_LIMIT: &str = "Hop-Limit 0 is not legal";
pub(crate) const LATE: &str = "the request was not answered in time";
pub(crate) const NOT_KEPT: &str =
    "the body that this block belongs to is not kept any more; ask again";
pub(crate) const RATE: &str = "more requests than this client may send";
pub(crate) const TRANSFERS: &str = "no room for another body in blocks";

pub(crate) fn option(number: u16) -> String {
    format!("option {number} is critical and not supported")
}

pub(crate) fn too_large(most: usize) -> String {
    format!("the body may have {most} bytes at most")
}
