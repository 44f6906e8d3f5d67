//! Requests that wait for answers, and last values that are asked for.

use thalweg_model::{Reliability, Span, Stamp, Time};

use crate::plugin::Pending;
use crate::transport::{Outbound, Properties, RequestId};

/// Everything that was asked on a connection.
#[derive(Debug)]
pub(super) struct Questions {
    /// Precedes the number of a request in its correlation data: it tells our responses from those to an earlier client
    /// with our client identifier.
    nonce: [u8; 4],
    pub(super) way_back: WayBack,
    /// Questions that wait for the way back.
    pub(super) held: Vec<Held>,
    /// By their correlation data.
    pub(super) asked: Pending<Vec<u8>>,
    pub(super) reads: Vec<Read>,
}

/// The subscription through which answers come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WayBack {
    /// There is none; the topic it would have.
    Closed {
        topic: String,
    },
    /// The server was asked for it.
    Asked {
        topic: String,
    },
    Open {
        topic: String,
    },
}

/// A question that has not left.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) request: RequestId,
    address: String,
    payload: Vec<u8>,
    reliability: Reliability,
    lifespan: Span,
    content_type: Option<String>,
    properties: Vec<u8>,
    correlation: Vec<u8>,
    stamp: Option<Stamp>,
}

/// A last value that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) request: RequestId,
    pub(super) address: String,
    /// When there is none if none has come by then; never, as long as the server has not answered.
    pub(super) until: Time,
}

impl Default for WayBack {
    fn default() -> Self {
        WayBack::Closed {
            topic: String::new(),
        }
    }
}

impl Questions {
    pub(super) fn new(nonce: u64) -> Self {
        let [a, b, c, d, ..] = nonce.to_be_bytes();
        Questions {
            nonce: [a, b, c, d],
            way_back: WayBack::default(),
            held: Vec::new(),
            asked: Pending::default(),
            reads: Vec::new(),
        }
    }

    /// A new connection, on which answers come to this topic.
    pub(super) fn begin(&mut self, topic: String) {
        self.way_back = WayBack::Closed { topic };
        self.held.clear();
        self.asked.clear();
        self.reads.clear();
    }

    /// Ties an answer to this question: what the user gave, or as few bytes as do.
    pub(super) fn correlation(&self, request: RequestId, given: Option<&[u8]>) -> Vec<u8> {
        match given {
            Some(given) => given.to_vec(),
            None => {
                let number = request.0.to_be_bytes();
                let zeros = (request.0.leading_zeros() / 8).min(7) as usize;
                let number = number.get(zeros..).unwrap_or_default();
                self.nonce.iter().chain(number).copied().collect()
            }
        }
    }

    /// Nobody waits for the answer to this any more.
    pub(super) fn forget(&mut self, request: RequestId) {
        self.asked.forget(request);
        self.held.retain(|held| held.request != request);
    }

    pub(super) fn topic(&self) -> &str {
        match &self.way_back {
            WayBack::Closed { topic } | WayBack::Asked { topic } | WayBack::Open { topic } => topic,
        }
    }

    /// When something is due here.
    pub(super) fn next(&self) -> Time {
        self.reads
            .iter()
            .map(|read| read.until)
            .min()
            .unwrap_or(Time::NEVER)
    }
}

impl Held {
    pub(super) fn new(request: RequestId, correlation: Vec<u8>, message: &Outbound<'_>) -> Self {
        Held {
            request,
            address: message.address.to_owned(),
            payload: message.payload.to_vec(),
            reliability: message.reliability,
            lifespan: message.lifespan,
            content_type: message.content_type.map(str::to_owned),
            properties: message.properties.0.to_vec(),
            correlation,
            stamp: message.stamp,
        }
    }

    /// The question again, with the way back.
    pub(super) fn message<'h>(&'h self, reply_to: &'h str) -> Outbound<'h> {
        Outbound {
            id: 0,
            address: &self.address,
            payload: &self.payload,
            reliability: self.reliability,
            retain: crate::Retain::No,
            lifespan: self.lifespan,
            priority: 4,
            content_type: self.content_type.as_deref(),
            is_text: false,
            properties: Properties(&self.properties),
            reply_to: Some(reply_to),
            correlation: Some(&self.correlation),
            stamp: self.stamp,
            repeated: false,
        }
    }
}
