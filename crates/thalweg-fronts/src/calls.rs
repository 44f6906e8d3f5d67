//! Requests of a peer whose protocol gives them no correlation of their own: which one an answer is for.
//!
//! *Knows:* numbers, times, where answers come to. *Must never know:* what a front keeps of a request.

use crate::front::Cx;
use std::collections::BTreeMap;
use thalweg_kernel::{
    ConsumeSpec, NameKey, QueueLimits, QueueSpec, Refusal, SessionId, queue_address,
};
use thalweg_model::Time;

/// What a request costs beside what its front keeps of it.
const ENTRY_BYTES: usize = 96;

/// What a peer has asked and is not answered yet.
pub(crate) struct Calls<T> {
    /// Where answers come to.
    reply_to: Box<str>,
    key: NameKey,
    /// By their numbers, which rise; so do the times at which they are given up.
    waiting: BTreeMap<u64, Call<T>>,
    asked: u64,
    bytes: usize,
}

struct Call<T> {
    due: Time,
    kept: T,
    bytes: usize,
    /// Other shards are asked under this number whether they keep it; 0 if none is.
    question: u64,
}

impl<T> Calls<T> {
    pub(crate) fn new(reply_to: &str, key: NameKey) -> Self {
        Calls {
            reply_to: reply_to.into(),
            key,
            waiting: BTreeMap::new(),
            asked: 0,
            bytes: 0,
        }
    }

    pub(crate) fn reply_to(&self) -> Box<str> {
        self.reply_to.clone()
    }

    /// How many are not answered.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn next_due(&self) -> Time {
        let first = self.waiting.first_key_value();
        first.map_or(Time::NEVER, |(_, call)| call.due)
    }

    /// Its number. `bytes` is what `kept` has on the heap.
    pub(crate) fn add(&mut self, due: Time, kept: T, bytes: usize) -> u64 {
        let bytes = bytes + ENTRY_BYTES;
        self.asked += 1;
        self.bytes += bytes;
        let call = Call {
            due,
            kept,
            bytes,
            question: 0,
        };
        self.waiting.insert(self.asked, call);
        self.asked
    }

    /// Other shards are asked whether they keep it. It may be answered already.
    pub(crate) fn is_asked_of_shards(&mut self, number: u64, question: u64) {
        if let Some(call) = self.waiting.get_mut(&number) {
            call.question = question;
        }
    }

    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        let call = self.waiting.remove(&number)?;
        self.bytes -= call.bytes;
        Some(call.kept)
    }

    /// One that was not answered in time.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<T> {
        let (number, call) = self.waiting.first_key_value()?;
        let number = (call.due <= now).then_some(*number)?;
        self.take(number)
    }

    /// The one that other shards have refused.
    pub(crate) fn take_refused(&mut self, question: u64) -> Option<T> {
        let mut waiting = self.waiting.iter();
        let number = waiting.find_map(|(n, call)| (call.question == question).then_some(*n));
        self.take(number?)
    }

    /// The one that an answer is for.
    pub(crate) fn take_answered(&mut self, correlation: &[u8]) -> Option<T> {
        let text = std::str::from_utf8(correlation).ok()?;
        let number = u64::from_str_radix(text.split_once('-')?.0, 16).ok()?;
        let is_its = self.correlation(number) == text;
        is_its.then(|| self.take(number))?
    }

    /// Text, since not every protocol carries bytes as they are. A responder to one request cannot guess that of
    /// another.
    pub(crate) fn correlation(&self, number: u64) -> String {
        let proof = self.key.name("call", u128::from(number)) as u64;
        format!("{number:x}-{proof:016x}")
    }
}

/// Makes a queue for answers that is the session's own, and takes from it; its address. `name` is hard to guess, and `taker` is the
/// line and the consumer that answers come under.
pub fn take_answers(
    cx: &mut Cx<'_>,
    session: SessionId,
    name: u128,
    taker: (u16, u32),
) -> Result<Box<str>, Refusal> {
    let queue = queue_address("", &format!("amq.gen-{name:032x}"));
    let spec = QueueSpec {
        address: &queue,
        durable: false,
        exclusive: true,
        is_named_by_broker: true,
        auto_delete: true,
        limits: QueueLimits {
            priority_shares: true,
            ..QueueLimits::default()
        },
    };
    cx.kernel.declare_queue(session, &spec, cx.now, cx.links)?;
    let (line, consumer) = taker;
    let consume = ConsumeSpec {
        source: &queue,
        line,
        consumer,
        credit: 0,
        settles: false,
        exclusive: true,
        priority: 0,
        no_local: false,
        filter: None,
    };
    cx.kernel.consume(session, &consume, cx.now, cx.links)?;
    Ok(queue.into())
}
