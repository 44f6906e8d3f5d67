//! Events and commands of a client.

use core::net::SocketAddr;
use std::borrow::Cow;

use crate::{Code, OptionOut, Options};

/// Names a request or an observation until it ends; never another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A request that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOut<'r> {
    /// Method code of the request.
    pub code: Code,
    /// Whether it is repeated until it is acknowledged.
    pub confirmable: bool,
    /// Options in ascending order of their numbers, without Observe, Block1, Block2 and Size1: these are the machine's.
    pub options: &'r [OptionOut<'r>],
    /// The whole payload; it goes in blocks if it is larger than one.
    pub payload: &'r [u8],
    /// Whether to observe: GET and FETCH.
    pub observe: bool,
}

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestRefused {
    /// `ClientSettings::requests_max`, `ClientSettings::peers_max`, or the queue to this peer.
    TooMany,
    /// The peer does not answer, and this would be more than it may be probed with. RFC 7252 §4.7
    Probing,
    /// More blocks than can be numbered, or options that do not fit into a datagram.
    TooLarge,
}

/// How to end a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cancel {
    /// Without a word: what still comes is rejected, which ends an observation as well. RFC 7641 §3.6
    Forget,
    /// An observation is deregistered: GET with Observe 1 and the same token. The response to that comes as
    /// [`ClientEvent::Response`].
    Deregister,
}

/// Meaning of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent<'b> {
    /// The answer to a request, which has ended by that.
    Response(ResponseIn<'b>),
    /// The state of something that is observed: the first one, or a newer one. Older ones do not come out.
    Notification(ResponseIn<'b>),
}

/// A response or a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseIn<'b> {
    /// The request of ours that it answers.
    pub request: RequestId,
    /// Where it came from.
    pub from: SocketAddr,
    /// Response code, such as 2.05.
    pub code: Code,
    /// Whether it came with the acknowledgement of a request: of an observation, the state at its registration, first or
    /// again, rather than a change.
    pub is_piggybacked: bool,
    /// Its options; of a response in blocks, those of its last block.
    pub options: Options<'b>,
    /// Its payload, put together if it came in blocks.
    pub payload: Cow<'b, [u8]>,
}

/// An event that no datagram reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientNotice {
    /// A request was acknowledged; its response will come separately.
    Acknowledged {
        /// The request of ours that it concerns.
        request: RequestId,
    },
    /// The answer to a ping.
    Pong {
        /// The request of ours that it concerns.
        request: RequestId,
    },
    /// A request or observation has ended without an answer.
    Failed {
        /// The request of ours that it concerns.
        request: RequestId,
        /// Why no response can come.
        why: Failure,
    },
}

/// Why a request ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// It was not acknowledged in time.
    Unacknowledged,
    /// It was acknowledged, but no response came in time.
    NoResponse,
    /// The peer rejected it.
    Reset,
    /// A request that it has to come after was not taken. The peer has not taken this one either.
    Order,
    /// The response is larger than `ClientSettings::response_bytes_max`, or its blocks do not fit together.
    Body,
}
