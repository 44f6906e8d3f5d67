//! Whether the peer of a stream still lives.

use thalweg_model::{Span, Time};

use crate::transport::LinkFault;

/// How long an answer may take at least.
const PATIENCE: Span = Span::from_secs(5);

/// A peer is asked after silence, and given up when neither its answer nor anything else comes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Liveness {
    /// Silence after which the peer is asked; zero: it never is.
    keep_alive: Span,
    sent: Time,
    heard: Time,
    /// When the question left that was not answered.
    asked: Option<Time>,
}

impl Liveness {
    /// A connection that begins now.
    pub(crate) fn begin(keep_alive: Span, now: Time) -> Self {
        Liveness {
            keep_alive,
            sent: now,
            heard: now,
            asked: None,
        }
    }

    pub(crate) fn set_keep_alive(&mut self, keep_alive: Span) {
        self.keep_alive = keep_alive;
    }

    pub(crate) fn sent(&mut self, now: Time) {
        self.sent = now;
    }

    pub(crate) fn heard(&mut self, now: Time) {
        self.heard = now;
    }

    /// The peer was asked.
    pub(crate) fn asked(&mut self, now: Time) {
        self.sent = now;
        self.asked.get_or_insert(now);
    }

    /// Whether an answer is awaited.
    pub(crate) fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// It has answered; when the question had left.
    pub(crate) fn answered(&mut self) -> Option<Time> {
        self.asked.take()
    }

    /// When [`Liveness::check`] has something to say. Silence of ours lets a server close the connection; silence of its
    /// lets us ask.
    pub(crate) fn due(&self) -> Time {
        if self.keep_alive == Span::ZERO {
            return Time::NEVER;
        }
        match self.asked {
            None => self.sent.min(self.heard) + self.keep_alive,
            Some(at) => (at + self.patience()).min(self.sent + self.keep_alive),
        }
    }

    /// Whether the peer has to be asked now; a fault with these words if it has not answered.
    pub(crate) fn check(&mut self, words: &str, now: Time) -> Result<bool, LinkFault> {
        if self.due() > now {
            return Ok(false);
        }
        if let Some(at) = self.asked
            && at + self.patience() <= now
            && self.heard <= at
        {
            return Err(LinkFault {
                words: words.to_owned(),
                is_final: false,
            });
        }
        // Something was heard, only not the answer: the peer is asked anew.
        self.asked = None;
        Ok(true)
    }

    fn patience(&self) -> Span {
        Span::from_nanos(self.keep_alive.nanos() / 2).max(PATIENCE)
    }
}

/// Signs of life that both ends owe each other, as agreed at the beginning.
#[cfg(any(feature = "amqp", feature = "stomp"))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beats {
    /// Silence of ours after which something is said; zero: none is agreed.
    say_after: Span,
    /// How long the peer may be silent; zero: for ever.
    hear_within: Span,
    said: Time,
    heard: Time,
}

#[cfg(any(feature = "amqp", feature = "stomp"))]
impl Beats {
    /// A connection that begins now, and on which nothing is agreed yet.
    pub(crate) fn begin(now: Time) -> Self {
        Beats {
            said: now,
            heard: now,
            ..Beats::default()
        }
    }

    pub(crate) fn agree(&mut self, say_after: Span, hear_within: Span) {
        (self.say_after, self.hear_within) = (say_after, hear_within);
    }

    pub(crate) fn said(&mut self, now: Time) {
        self.said = now;
    }

    pub(crate) fn heard(&mut self, now: Time) {
        self.heard = now;
    }

    /// When [`Beats::check`] has something to say.
    pub(crate) fn due(&self) -> Time {
        let after = |span: Span, since: Time| match span {
            Span::ZERO => Time::NEVER,
            span => since + span,
        };
        after(self.say_after, self.said).min(after(self.hear_within, self.heard))
    }

    /// Whether something has to be said now; a fault if the peer has been silent for too long.
    pub(crate) fn check(&mut self, now: Time) -> Result<bool, LinkFault> {
        if self.hear_within > Span::ZERO && self.heard + self.hear_within <= now {
            let secs = now.since(self.heard).secs();
            return Err(LinkFault {
                words: format!("the broker has not been heard of for {secs} s"),
                is_final: false,
            });
        }
        Ok(self.say_after > Span::ZERO && self.said + self.say_after <= now)
    }
}
