//! The records themselves and their encoding.
//!
//! A record is a kind (one byte), a length (varint, of what follows it) and its fields: numbers are varints (LEB128),
//! texts and byte strings a varint length and the bytes, moments milliseconds since 1970 (0 for never; an expiry is
//! rounded up, so that nothing expires early), spans milliseconds rounded up. A message record carries its own CRC-32C
//! (little-endian) behind the length, over everything behind it, because it is read back alone when it waits on disk; all
//! others are covered by their frame's. The fields of each kind, in their order, stand in `encode.rs`.

use std::borrow::Cow;
use std::fmt;
use thalweg_model::{Properties, Reliability, RetainOp, Span, Time};

/// Something that has changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Record<'a> {
    /// A session was opened, resumed, left or changed: all that is known of it but subscriptions and queue.
    Session(SessionRecord<'a>),
    /// A session is gone with all it had.
    SessionEnded { queue: u64 },
    /// A subscription is new or has changed.
    Subscribed(SubscriptionRecord<'a>),
    /// A subscription is gone.
    Unsubscribed {
        queue: u64,
        filter: &'a str,
        /// The group it was shared with.
        group: Option<&'a str>,
    },
    /// A group that holds entries of its own exists from now on.
    Group {
        queue: u64,
        name: &'a str,
        filter: &'a str,
    },
    /// A group holds entries no longer; what it had is gone.
    GroupEnded { queue: u64 },
    /// A message was accepted: for queues, as a last value, and as held from its publisher.
    Message(Message<'a>),
    /// An exactly-once message of a publisher was accepted that had no receiver.
    Held {
        queue: u64,
        /// Its number for the message.
        ticket: u16,
    },
    /// The publisher will not repeat it.
    Released {
        queue: u64,
        /// Its number for the message.
        ticket: u16,
    },
    /// A waiting entry of a session was given a tag, to be sent.
    Sent {
        queue: u64,
        serial: u64,
        /// Its tag from now on.
        tag: u16,
    },
    /// The receiver has an exactly-once entry; only its release is still to be confirmed.
    Received { queue: u64, tag: u16 },
    /// An entry that was sent is settled.
    Settled { queue: u64, tag: u16 },
    /// An entry, named by its serial, has ended: settled through a member of its group, expired, dropped, or moved to
    /// another shard.
    Removed {
        /// The session or group.
        queue: u64,
        serial: u64,
    },
    /// An entry changed its queue: from a group to a member or back. Its serial stays, and with it its place in line.
    /// With a member it has the group's number from then on, in a group none.
    Moved {
        from: u64,
        serial: u64,
        /// Where it is now.
        to: u64,
        /// Its tag there, 0 while it waits.
        tag: u16,
        /// It may have been delivered before.
        redelivered: bool,
        /// Terms of the member's subscription: its reliability and its identifier (0 for none). A group has none, nor
        /// have older journals.
        grant: Option<(Reliability, u32)>,
    },
    /// A waiting entry came back from receivers that did not settle it, so often by now.
    Returned {
        queue: u64,
        serial: u64,
        deliveries: u16,
    },
    /// Entries of a group up to this serial may have been delivered to members that end with their links.
    Delivered {
        queue: u64,
        /// The last of them.
        serial: u64,
    },
    /// The last value of an address is forgotten, and with it all earlier ones.
    Cleared { address: &'a str },
    /// Kept messages of an address that keeps several are forgotten: those with these numbers.
    Forgotten {
        address: &'a str,
        first: u64,
        last: u64,
        /// Whether there is no last value any more either.
        and_last: bool,
    },
    /// An entry whose message is elsewhere; checkpoints only.
    Entry {
        reference: Reference<'a>,
        /// Where the message's record begins.
        place: u64,
        /// Length of that record in bytes.
        len: u32,
        expires: Time,
        /// Its receiver has it (see [`Record::Received`]); then there is no message any more and `place` is 0.
        received: bool,
    },
    /// A last value whose message is elsewhere; checkpoints only.
    LastValue {
        address: &'a str,
        /// Where the message's record begins.
        place: u64,
        /// Length of that record in bytes.
        len: u32,
    },
    /// A kept message of an address that keeps several; checkpoints only.
    Kept {
        address: &'a str,
        number: u64,
        /// Where the message's record begins.
        place: u64,
        /// Length of that record in bytes.
        len: u32,
    },
    /// A message of a publisher was taken; what it led to is written in the same batch.
    Stamped {
        /// The publisher's user, empty if it did not say who it is.
        user: &'a str,
        publisher: u64,
        /// Its number for the message.
        sequence: u64,
    },
    /// Nothing is known of a publisher any more.
    PublisherForgotten { user: &'a str, publisher: u64 },
    /// Accepted messages of a publisher; checkpoints only.
    Publisher {
        user: &'a str,
        publisher: u64,
        highest: u64,
        /// From it on downwards, as [`Sequences::runs`](crate::Sequences::runs) has it.
        runs: Cow<'a, [u64]>,
    },
    /// Numbers up to these have been used; checkpoints only.
    Numbers {
        /// The highest queue number.
        queue: u64,
        serial: u64,
    },
}

/// A session, as it is written down.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRecord<'a> {
    pub queue: u64,
    /// The name under which it is found again.
    pub client: &'a str,
    pub user: Option<&'a str>,
    /// How long it outlives its link.
    pub expiry: Span,
    /// When it ends; never while it has a link.
    pub expires_at: Time,
    /// Unsettled deliveries its receiver allowed last.
    pub in_flight_max: u16,
    /// Its tenant and rights of its own, as `Access::written` has them; empty in the
    /// default tenant if the rule files decide.
    pub access: &'a [u8],
    /// The will of the session.
    pub will: Option<WillRecord<'a>>,
}

/// A will, as it is written down.
#[derive(Clone, Debug, PartialEq)]
pub struct WillRecord<'a> {
    pub body: BodyRecord<'a>,
    /// Delay after the loss of the link.
    pub delay: Span,
    /// When it is due; never while the session has a link.
    pub due: Time,
    /// Lifespan from the time of publishing.
    pub expires_in: Option<Span>,
}

/// A subscription, as it is written down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubscriptionRecord<'a> {
    pub queue: u64,
    pub filter: &'a str,
    /// The group it is shared with.
    pub group: Option<&'a str>,
    /// The most reliable it is granted.
    pub reliability: Reliability,
    /// Leave out what the session publishes itself.
    pub no_local: bool,
    /// Show the publisher's retain flag.
    pub retain_as_published: bool,
    /// Its identifier, 0 for none.
    pub id: u32,
    /// The content filter that messages must pass, as it was written.
    pub condition: Option<&'a str>,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct BodyRecord<'a> {
    pub address: &'a str,
    pub payload: &'a [u8],
    /// Reliability requested by the publisher.
    pub reliability: Reliability,
    /// Effect of the publish on the last value.
    pub retain: RetainOp,
    /// Higher goes first where a queue orders by it.
    pub priority: u8,
    pub properties: Option<Cow<'a, Properties>>,
}

/// A message, as it is written down.
#[derive(Clone, Debug, PartialEq)]
pub struct Message<'a> {
    pub body: BodyRecord<'a>,
    pub expires: Time,
    /// When the broker received it.
    pub ingress: Time,
    pub publisher: u64,
    /// It has become the last value of its address (or cleared it, if that is what its retain operation says).
    pub is_last_value: bool,
    /// Its place among the last values of an address that keeps several.
    pub kept: Option<KeptAs>,
    /// The publisher's session and its number for the message, while it may repeat it.
    pub held: Option<(u64, u16)>,
    /// The queues it is in.
    pub references: Cow<'a, [Reference<'a>]>,
}

/// The place of a message among the kept ones of its address. Numbers of an address rise; the message that was there before it
/// kept several has the number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptAs {
    pub number: u64,
    /// The lowest number that is still kept.
    pub oldest: u64,
}

/// An entry of a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reference<'a> {
    /// The session or group.
    pub queue: u64,
    pub serial: u64,
    /// Its tag, 0 while it waits.
    pub tag: u16,
    /// Reliability of the delivery to this receiver.
    pub reliability: Reliability,
    /// The receiver sees that it is a last value.
    pub retain: bool,
    /// It may have been delivered before.
    pub redelivered: bool,
    /// The number of the group it came through, 0 for none.
    pub group: u64,
    /// The subscriptions that matched.
    pub subscription_ids: Cow<'a, [u32]>,
}

/// Bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFault {
    /// Where in the input.
    pub at: usize,
    pub what: &'static str,
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no record at byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for RecordFault {}
