//! Channels: what is remembered of each, and how they begin and end.

use super::publish::Memo;
use super::transaction::Transaction;
use super::{AmqpFront, Request};
use crate::front::{Cx, Variant};

use thalweg_amqp::Method;
use thalweg_amqp::methods::channel;

/// One channel. It is a line of the session.
#[derive(Default)]
pub(super) struct Channel {
    pub(super) number: u16,
    pub(super) consumers: Vec<Consumer>,
    pub(super) consumer_last: u32,
    /// Bytes of memory of the consumers, by [`Consumer::bytes`].
    pub(super) consumer_bytes: usize,
    /// Unsettled deliveries that each new consumer may have; 0 is no limit.
    pub(super) prefetch: u16,
    /// The queue that was declared last: an empty name means this one.
    pub(super) queue_last: Box<str>,
    pub(super) mode: Mode,
    /// The queue that is asked for one message tells how often it was delivered.
    pub(super) get_counts: bool,
    /// Last values that were asked for and have not come.
    pub(super) reads: u32,
    /// The queue that stands behind direct reply-to, and its consumer, which it ends with.
    pub(super) reply: Option<(Box<str>, u32)>,
    /// The last publish, so that another like it costs comparisons only.
    pub(super) memo: Option<Box<Memo>>,
}

/// A consumer, as its peer knows it.
pub(super) struct Consumer {
    pub(super) number: u32,
    pub(super) tag: Box<str>,
    /// Its queue's messages tell how often they were delivered.
    pub(super) counts: bool,
}

/// What becomes of publishes and settlements.
#[derive(Default)]
pub(super) enum Mode {
    #[default]
    Plain,
    Confirm {
        published: u64,
        /// The last one that is confirmed or refused.
        confirmed: u64,
    },
    /// They are gathered and happen at once.
    Transaction(Box<Transaction>),
}

/// The channels of a connection, by number.
#[derive(Default)]
pub(super) struct Channels {
    entries: Vec<Channel>,
    /// Place of the one used last.
    last: usize,
}

impl Channels {
    #[inline]
    pub(super) fn get_mut(&mut self, number: u16) -> Option<&mut Channel> {
        match self.entries.get(self.last) {
            Some(channel) if channel.number == number => {}
            _ => self.last = self.place(number).ok()?,
        }
        self.entries.get_mut(self.last)
    }

    pub(super) fn get(&self, number: u16) -> Option<&Channel> {
        match self.entries.get(self.last) {
            Some(channel) if channel.number == number => Some(channel),
            _ => self.entries.get(self.place(number).ok()?),
        }
    }

    fn insert(&mut self, number: u16) {
        if let Err(place) = self.place(number) {
            self.entries.insert(
                place,
                Channel {
                    number,
                    ..Channel::default()
                },
            );
        }
    }

    pub(super) fn remove(&mut self, number: u16) -> Option<Channel> {
        let place = self.place(number).ok()?;
        Some(self.entries.remove(place))
    }

    pub(super) fn clear(&mut self) {
        self.entries = Vec::new();
    }

    /// Bytes of memory of all channels and their consumers.
    fn bytes(&self) -> usize {
        self.entries
            .iter()
            .map(|channel| CHANNEL_BYTES + channel.consumer_bytes)
            .sum()
    }

    fn place(&self, number: u16) -> Result<usize, usize> {
        self.entries
            .binary_search_by_key(&number, |channel| channel.number)
    }
}

impl Channel {
    pub(super) fn consumer(&self, number: u32) -> Option<&Consumer> {
        match self.consumers.as_slice() {
            [only] => (only.number == number).then_some(only),
            consumers => {
                let place = consumers
                    .binary_search_by_key(&number, |consumer| consumer.number)
                    .ok()?;
                consumers.get(place)
            }
        }
    }

    pub(super) fn remove_consumer(&mut self, number: u32) -> Option<Consumer> {
        let place = self
            .consumers
            .binary_search_by_key(&number, |consumer| consumer.number)
            .ok()?;
        if self
            .reply
            .as_ref()
            .is_some_and(|(_, consumer)| *consumer == number)
        {
            self.reply = None;
        }
        let consumer = self.consumers.remove(place);
        self.consumer_bytes -= Consumer::bytes(&consumer.tag);
        Some(consumer)
    }
}

/// What a channel costs by itself, here and as a line of the kernel.
const CHANNEL_BYTES: usize = 512;

impl Consumer {
    /// What one with this tag costs, in the kernel, too.
    pub(super) fn bytes(tag: &str) -> usize {
        256 + tag.len()
    }
}

impl AmqpFront {
    pub(super) fn on_channel_open(cx: &mut Cx<'_>, ch: u16) {
        AmqpFront::write(cx.links, cx.id, |front, out| {
            front.channels.insert(ch);
            front.machine.channel_open_ok(ch, out);
        });
        AmqpFront::count_kept(cx);
    }

    /// Counts the channels and consumers of a connection. Whether there is memory for more is asked before.
    pub(super) fn count_kept(cx: &mut Cx<'_>) {
        if let Some(bytes) = AmqpFront::at(cx.links, cx.id).map(|front| front.channels.bytes()) {
            cx.links.count_kept(cx.id, bytes, cx.kernel);
        }
    }

    pub(super) fn on_channel_close(cx: &mut Cx<'_>, ch: u16) {
        AmqpFront::end_channel(cx, ch);
        AmqpFront::write(cx.links, cx.id, |front, out| {
            front.machine.channel_close_ok(ch, out)
        });
    }

    /// Forgets a channel: what it was given and has not settled goes back, and what it has not committed never happened.
    pub(super) fn end_channel(cx: &mut Cx<'_>, ch: u16) {
        let Some(session) = cx.session() else {
            return;
        };
        if let Some(front) = AmqpFront::of(cx.links, cx.id) {
            front.channels.remove(ch);
            front.asked.retain(|asked| asked.ch != ch);
        }
        AmqpFront::count_kept(cx);
        cx.kernel.abort(session, u32::from(ch), cx.now, cx.links);
        cx.kernel.close_line(session, ch, cx.now, cx.links);
    }
}

impl Request<'_, '_> {
    /// `channel.flow`: consumers are given nothing until the client says so again. `basic.get` is answered all the same.
    pub(super) fn flow(&mut self, flow: channel::Flow) {
        let active = flow.active;
        // What goes on comes behind the answer.
        self.answer(&Method::ChannelFlowOk(channel::FlowOk { active }));
        self.cx
            .kernel
            .pause_line(self.session, self.ch, !active, self.cx.now, self.cx.links);
    }
}
