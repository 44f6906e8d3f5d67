//! Records the calls of kernels on links.

use std::collections::VecDeque;
use thalweg_kernel::{
    Answer, CloseReason, ConsumerEnd, Content, Delivery, Effects, Fetch, LinkId, Observed,
    Recipient, Refusal, Sent, ShardId, ShardMessage, Subscribed, Tag, TakenId, Ticket, WatchEnd,
};
use thalweg_model::{Death, Message, Span};

/// Calls on a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Got {
    pub text: String,
    pub address: String,
    pub line: u16,
    pub consumer: u32,
    pub tag: u64,
    /// It is to be settled.
    pub settles: bool,
    pub deliveries: u32,
    pub left: u64,
    pub expires_in: Option<Span>,
    pub priority: u8,
    pub deaths: Vec<Death>,
    /// It came through a subscription, not out of a queue.
    pub is_delivery: bool,
    /// Rises with whatever comes to any link.
    pub order: u64,
}

/// A message that was taken by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Apart {
    pub id: TakenId,
    pub text: String,
    pub deliveries: u32,
    pub left: u64,
}

/// Deliveries to a link that need no settlement, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Ready(u64, Option<String>),
    Changed(u64),
    Ended(u64, WatchEnd),
    Read(Ticket, Option<String>),
    /// `address=text`, and whether these are all.
    Listed(Ticket, Vec<String>, bool),
    /// Through a subscription; whether as a retained message.
    Delivered(String, bool),
}

/// The text of a message.
pub fn payload(message: &Message) -> String {
    String::from_utf8_lossy(message.payload()).into_owned()
}

#[derive(Default)]
pub struct Link {
    /// Remaining capacity for messages.
    pub room: usize,
    pub events: VecDeque<Event>,
    pub got: VecDeque<Got>,
    /// Consumers that ended: line and number.
    pub ended: Vec<(u16, u32)>,
    /// Whether the protocol can report the end of one line.
    pub ends_lines: bool,
    pub lines_ended: Vec<u16>,
    /// Questions about publishes of its peer, and whether each was refused.
    pub published: Vec<(u64, bool)>,
    pub closed: Option<CloseReason>,
    /// Outcomes of subscriptions, the first filter of each.
    pub subscribed: Vec<Subscribed>,
    pub taken: VecDeque<(Ticket, Result<Option<Apart>, Refusal>)>,
    pub made: VecDeque<(Ticket, Result<(), Refusal>)>,
    /// Its output waits for the journal.
    pub held: bool,
    /// For which batch, when that was said last.
    pub held_in: u64,
    /// Messages larger than this are refused.
    pub bytes_max: usize,
}

impl Link {
    fn take(&mut self, got: Got) -> Sent {
        if self.closed.is_some() {
            return Sent::Gone;
        }
        if got.text.len() > self.bytes_max {
            return Sent::TooLarge;
        }
        if self.room == 0 {
            return Sent::Full;
        }
        self.room -= 1;
        self.got.push_back(got);
        if self.room == 0 {
            Sent::Congested
        } else {
            Sent::Room
        }
    }
}

/// Calls that kernels make.
#[derive(Default)]
pub struct Out {
    pub shard: u16,
    pub links: Vec<Link>,
    pub mails: VecDeque<(ShardId, ShardId, ShardMessage)>,
    pub fetches: Vec<(u16, Fetch)>,
    /// The batch that the last command has written to.
    pub batch_last: u64,
    order: u64,
}

impl Out {
    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    pub fn link(&mut self, link: LinkId) -> &mut Link {
        &mut self.links[link.0 as usize]
    }
}

impl Effects for Out {
    fn deliver(&mut self, link: LinkId, content: &Content<'_>, delivery: &Delivery<'_>) -> Sent {
        let details = content
            .properties()
            .and_then(|properties| properties.details.as_deref());
        let (line, consumer) = match delivery.to {
            Recipient::Subscriber => (0, 0),
            Recipient::Consumer { line, number } => (line, number),
            Recipient::Get { line } => (line, 0),
        };
        let got = Got {
            text: String::from_utf8_lossy(content.payload()).into_owned(),
            address: content.address().into(),
            line,
            consumer,
            tag: delivery.tag,
            settles: delivery.settles,
            deliveries: delivery.deliveries,
            left: delivery.left,
            expires_in: delivery.expires_in,
            priority: content.priority(),
            deaths: details.map_or_else(Vec::new, |details| details.deaths.clone()),
            is_delivery: delivery.to == Recipient::Subscriber,
            order: self.next_order(),
        };
        let link = self.link(link);
        if got.is_delivery {
            let event = Event::Delivered(got.text.clone(), delivery.retain);
            link.events.push_back(event);
        }
        link.take(got)
    }

    fn release(&mut self, _: LinkId, _: Tag) {}

    fn answer(&mut self, link: LinkId, ticket: Ticket, answer: Answer<'_>) {
        let link = self.link(link);
        match answer {
            Answer::Subscribed(outcomes) => link.subscribed.push(outcomes[0]),
            Answer::Taken(taken) => {
                let taken = taken.map(|taken| {
                    taken.map(|taken| Apart {
                        id: taken.id,
                        text: payload(taken.message),
                        deliveries: taken.deliveries,
                        left: taken.left,
                    })
                });
                link.taken.push_back((ticket, taken));
            }
            Answer::QueueMade(made) => link.made.push_back((ticket, made)),
            Answer::Value(value) => {
                let event = Event::Read(ticket, value.map(payload));
                link.events.push_back(event);
            }
            Answer::Values { values, complete } => {
                let shown = |value: &Message| format!("{}={}", value.address(), payload(value));
                let shown = values.iter().map(shown).collect();
                let event = Event::Listed(ticket, shown, complete);
                link.events.push_back(event);
            }
            Answer::Published {
                question,
                is_refused,
            } => link.published.push((question, is_refused)),
            Answer::Unsubscribed(_) => {}
        }
    }

    fn observe(&mut self, link: LinkId, cookie: u64, observed: Observed<'_>) {
        let event = match observed {
            Observed::Ready(value) => Event::Ready(cookie, value.map(payload)),
            Observed::Changed => Event::Changed(cookie),
            Observed::Ended(why) => Event::Ended(cookie, why),
        };
        self.link(link).events.push_back(event);
    }

    fn disconnect(&mut self, link: LinkId, why: CloseReason) {
        self.link(link).closed = Some(why);
    }

    fn consumer_ended(&mut self, link: LinkId, line: u16, ended: ConsumerEnd) -> bool {
        let link = self.link(link);
        match ended {
            ConsumerEnd::QueueGone(consumer) => link.ended.push((line, consumer)),
            ConsumerEnd::NothingCame => link.ended.push((line, 0)),
            ConsumerEnd::Stalled if link.ends_lines => link.lines_ended.push(line),
            ConsumerEnd::Stalled => return false,
        }
        true
    }

    fn hold(&mut self, link: LinkId, batch: u64) {
        let link = self.link(link);
        (link.held, link.held_in) = (true, batch);
    }
}
