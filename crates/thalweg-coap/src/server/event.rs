//! Events for a server's application.

use core::net::SocketAddr;
use std::borrow::Cow;

use crate::{Code, Observe, Options, Token};

/// Names a peer of one machine while it is known; may name another one after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerId(pub(crate) u32);

/// Names a request until it is answered; never another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExchangeId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Names an observation until it ends; never another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RelationId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl RelationId {
    /// As one number, for storage.
    pub const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Back from [`RelationId::number`].
    pub const fn from_number(number: u64) -> Self {
        RelationId {
            index: number as u32,
            generation: (number >> 32) as u32,
        }
    }
}

/// Meaning of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// A request, once: [`ServerSide::respond`](crate::ServerSide::respond) to it now or later, or
    /// [`ServerSide::ignore`](crate::ServerSide::ignore) it.
    Request(Request<'b>),
}

/// A request. The fields for the message layer are decoded; `options` has all options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'b> {
    /// The peer that asks.
    pub peer: PeerId,
    /// Address from which the request came.
    pub from: SocketAddr,
    /// Names the exchange when it is answered.
    pub exchange: ExchangeId,
    /// The method, which may be unknown.
    pub code: Code,
    /// Whether they insist that it arrives.
    pub confirmable: bool,
    /// Token that the peer chose.
    pub token: Token,
    /// Its options; of a request in blocks, those of its last block.
    pub options: Options<'b>,
    /// Its payload, put together if it came in blocks.
    pub payload: Cow<'b, [u8]>,
    /// Observe option of the request.
    pub observe: Option<Observe>,
    /// The observation that this peer has with this token, and its cookie. On [`Observe::Register`] it goes on if the
    /// application calls `observe` with this exchange; on [`Observe::Deregister`] it has ended, and there is no notice.
    pub relation: Option<(RelationId, u64)>,
}

/// An event without a request, or permission for an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// `notify` was refused as busy, and would not be any more: notify of the newest state.
    Ready {
        /// The observation that it concerns.
        relation: RelationId,
        /// The application's identifier of the observation.
        cookie: u64,
    },
    /// No notification was confirmed for as long as `observe` said: notify of the state as it is, changed or not.
    CheckDue {
        /// The observation that it concerns.
        relation: RelationId,
        /// The application's identifier of the observation.
        cookie: u64,
    },
    /// An observation has ended.
    ObservationEnded {
        /// The observation that ended.
        relation: RelationId,
        /// The application's identifier before it ended.
        cookie: u64,
        /// The peer that observed.
        peer: PeerId,
        /// Why the observation ended.
        why: ObservationEnd,
    },
    /// The response of `respond_confirmed` has arrived.
    ResponseConfirmed {
        /// The application's identifier of the response.
        cookie: u64,
    },
    /// The response of `respond_confirmed` has not arrived, as far as can be known.
    ResponseLost {
        /// The application's identifier of the response.
        cookie: u64,
    },
    /// The application took too long; the request has been answered with 5.03.
    ExchangeExpired {
        /// The exchange that was cancelled.
        exchange: ExchangeId,
    },
}

/// Why an observation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObservationEnd {
    /// The observer rejected a notification.
    Reset,
    /// The observer does not acknowledge.
    Silent,
    /// The response to its registration said no.
    Refused,
    /// The transport below reported that the peer is gone.
    PeerGone,
}

/// Result of a call of `notify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Notified {
    /// It is on its way, and confirmable if so.
    Sent {
        /// Whether it is repeated until acknowledged.
        confirmable: bool,
    },
    /// Not now. [`Notice::Ready`] comes when it can be said; keep the newest state until then.
    Busy,
    /// There is no such observation.
    Gone,
}

/// How a notification is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Not confirmable, but now and then: see `ServerSettings::confirm_every`.
    #[default]
    Auto,
    /// Sent as a confirmable message.
    Confirmable,
    /// Confirmable, and of no less worth because there is something newer: it is not replaced, and repeated up to
    /// [`Delivery::INSISTING`] times before it is given up. For observers that want every change.
    Insistent,
    /// Not confirmable, unless the clause of 24 hours or an unproven address demands it.
    NonConfirmable,
}

impl Delivery {
    /// Most transmissions of an insistent notification; the wait does not grow any more after MAX_RETRANSMIT
    /// repetitions. Where every second message is lost with its acknowledgement, one in 65,536 is still given up.
    pub const INSISTING: u8 = 16;
}

/// Why an observation was not begun: respond as to a plain GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObserveRefused {
    /// There is no such exchange any more, or it did not ask.
    NotAsked,
    /// `ServerSettings::relations_max`, or memory.
    TooMany,
    /// `ServerSettings::relations_per_peer`.
    TooManyOfPeer,
}

/// State of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationState {
    /// The peer that observes.
    pub peer: PeerId,
    /// The application's identifier of the observation.
    pub cookie: u64,
    /// Token that the observer chose.
    pub token: Token,
    /// Whether a notification waits for its acknowledgement.
    pub in_flight: bool,
}

macro_rules! counts {
    ($($name:ident $what:literal;)*) => {
        /// Counters of a server since it was created.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ServerCounts {
            $(#[doc = $what] pub $name: u64,)*
        }
        impl ServerCounts {
            /// Name and value of each.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

counts! {
    datagrams "Datagrams that came.";
    requests "Requests that the application got.";
    duplicates "Repeated messages that were answered again or ignored.";
    malformed "Datagrams that were no messages.";
    rejected "Messages that made no sense and were reset or ignored.";
    refused "Requests that the machine itself answered with 4.xx, but for 4.01 with Echo.";
    failed "Requests that the machine itself answered with 5.xx.";
    bad_options "Requests with a critical option that nobody here understands.";
    rate_limited "Requests beyond a peer's rate.";
    overloaded "Requests refused because a limit of exchanges, peers or transfers was reached.";
    echo_demanded "Requests answered with 4.01 and Echo.";
    expired "Requests that the application did not answer in time.";
    peers_displaced "Peers forgotten because others came.";
    remembered_displaced "Answers forgotten before their time because of a limit.";
    transfers_displaced "Requests in blocks forgotten before their time because of a limit.";
    notifications "Notifications sent, repetitions not counted.";
    confirmable "Confirmable messages sent, repetitions not counted.";
    retransmissions "Repetitions sent.";
    timeouts "Confirmable messages given up.";
    resets "Messages of ours that peers rejected.";
    responses_dropped "Separate responses that found no room in a queue.";
}

/// Bytes of memory by purpose: estimates of the allocated sizes, whether used or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerBytes {
    /// Peers and the table that finds them.
    pub peers: usize,
    /// Observations of all peers.
    pub relations: usize,
    /// Messages in flight and waiting.
    pub sendings: usize,
    /// Timers, and notices not yet polled.
    pub timers: usize,
    /// Requests that wait for an answer.
    pub exchanges: usize,
    /// Answers kept for repeated requests.
    pub remembered: usize,
    /// Requests and responses in blocks.
    pub transfers: usize,
}

impl ServerBytes {
    /// The sum of all fields, in bytes.
    pub fn total(&self) -> usize {
        let ServerBytes {
            peers,
            relations,
            sendings,
            timers,
            exchanges,
            remembered,
            transfers,
        } = *self;
        peers + relations + sendings + timers + exchanges + remembered + transfers
    }
}
