//! What the owner of a group and the shards that have members of it send each other (decision 0020).

use crate::access::Access;
use crate::groups::given_back::BackId;
use crate::groups::work_terms::OrderKey;
use std::sync::Arc;
use thalweg_balance::{LoadReport, Step, Terms};
use thalweg_filter::Predicate;
use thalweg_model::{Message, Reliability, Span, Time};

/// Between a group's owner and a shard that has members of it.
#[derive(Debug)]
pub struct GroupMail(Box<Mail>);

#[derive(Debug)]
pub(crate) enum Mail {
    /// To the owner: there is a member, or something about it has changed.
    Seat(Notice),
    /// To the owner: what members said, and what comes back.
    Report(Report),
    /// From the owner: for a member.
    Errand(Errand),
    /// From the owner: a member has been silent for too long, and others are there.
    Evict { sitting: u32 },
}

#[derive(Debug)]
pub(crate) struct Notice {
    pub key: Arc<str>,
    pub filter: Box<str>,
    /// Names the seat: no other of that shard ever had it.
    pub sitting: u32,
    /// Tells its link from earlier ones; nothing if it has none.
    pub opening: Option<u32>,
    /// Errands of another epoch come back.
    pub epoch: u32,
    /// The number of the last errand that had come when this was said.
    pub seen: u64,
    pub client: Arc<str>,
    /// The session's number, which outlives links.
    pub uid: u64,
    pub reliability: Reliability,
    pub terms: Terms,
    pub ordered: Option<OrderKey>,
    pub access: Access,
    /// The content filter of what it takes; all if there is none.
    pub condition: Option<Arc<Predicate>>,
    /// It gets nothing for now.
    pub is_shut: bool,
    /// It was silent before: it gets one message at a time until it settles one.
    pub on_trial: bool,
}

/// What a shard has to say to an owner.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// In the order in which it happened, by the number of the sitting.
    pub said: Vec<(u32, SeatEvent)>,
    /// By group, those to go first first. All of that is over when they come.
    pub copies: Vec<(Arc<str>, Vec<CopyBack>)>,
}

/// Something about a seat.
#[derive(Debug)]
pub(crate) enum SeatEvent {
    /// An errand is settled.
    Done(u64),
    /// An errand, exactly once, has come so far, and when.
    Stepped(u64, Step, Time),
    /// An errand was taken away again, or could not be delivered at all.
    Back(u64),
    /// It can take nothing until it is announced anew.
    Shut,
    /// It has no link any more.
    Down,
    /// It is no longer a member.
    Left,
    /// It has told how it is.
    Load(LoadReport),
    /// What the network takes.
    RoundTrip(Span, Span),
    /// It has not settled something in time.
    Overdue,
}

/// A message for a member.
#[derive(Debug)]
pub(crate) struct Errand {
    pub key: Arc<str>,
    pub sitting: u32,
    pub epoch: u32,
    /// Names it at the owner.
    pub number: u64,
    /// The entry that it is in the owner's queue, if it is written down there: number and serial.
    pub from: (u64, u64),
    /// Its place in line at the owner, which comes back with it.
    pub order: i64,
    pub deliveries: u16,
    /// The owner's; it comes back with the message.
    pub back: BackId,
    pub message: Message,
}

/// A message that comes back.
#[derive(Debug)]
pub(crate) struct CopyBack {
    pub message: Message,
    /// The entry that it is until the owner has it: number and serial, 0 for none.
    pub from: (u64, u64),
    pub deliveries: u16,
    /// The errand, if its member never saw it: the sitting, its number, and its place in line.
    pub errand: Option<(u32, u64, i64)>,
    /// Its member has refused it for good: it is a dead letter of the queue that the group takes from.
    pub is_dead: bool,
    pub refused: Refused,
}

/// What is said of a message by those who gave it back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// The sitting of who has just done so.
    pub by: Option<u32>,
    pub known: BackId,
}

impl GroupMail {
    pub(crate) fn new(mail: Mail) -> Self {
        GroupMail(Box::new(mail))
    }

    pub(crate) fn open(self) -> Mail {
        *self.0
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Mail>()
            + match &*self.0 {
                Mail::Errand(errand) => errand.message.bytes(),
                Mail::Report(report) => {
                    let copies = report.copies.iter().flat_map(|(_, copies)| copies);
                    copies.map(|copy| copy.message.bytes()).sum::<usize>()
                        + report.said.len() * size_of::<(u32, SeatEvent)>()
                }
                _ => 0,
            }
    }
}
