//! Whether the peer of a stream still lives.

use thalweg_model::{Span, Time};

use crate::transport::LinkFault;

/// Shortest timeout of an answer.
const PATIENCE: Span = Span::from_secs(5);

/// When a peer is asked for a sign of life, when it gets one of ours, and when it is given up.
///
/// Either end may owe signs of life as agreed at the beginning (AMQP, STOMP: [`Liveness::agree`]), or silence is broken by a
/// question that the peer answers ([`Liveness::begin`]). A question also measures the round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Liveness {
    /// Silence of either side after which the peer is asked; zero: it never is.
    ask_after: Span,
    /// Silence of ours after which the peer gets a sign of life; zero: none is agreed.
    say_after: Span,
    /// Longest silence of the peer; zero: unlimited.
    hear_within: Span,
    sent: Time,
    heard: Time,
    /// When the question left that was not answered.
    asked: Option<Time>,
}

impl Liveness {
    /// A connection that begins now. A peer that is silent for `keep_alive` is asked; zero: it never is.
    pub(crate) fn begin(keep_alive: Span, now: Time) -> Self {
        Liveness {
            ask_after: keep_alive,
            sent: now,
            heard: now,
            ..Liveness::default()
        }
    }

    /// Changes the silence after which the peer is asked; zero: it never is.
    pub(crate) fn set_keep_alive(&mut self, keep_alive: Span) {
        self.ask_after = keep_alive;
    }

    /// Both ends send signs of life without being asked, in these intervals.
    pub(crate) fn agree(&mut self, say_after: Span, hear_within: Span) {
        self.ask_after = Span::ZERO;
        (self.say_after, self.hear_within) = (say_after, hear_within);
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

    /// Whether silence is broken by a question, not by a mere sign of life.
    pub(crate) fn asks(&self) -> bool {
        self.ask_after > Span::ZERO
    }

    /// The peer has answered; returns when the question had left.
    pub(crate) fn answered(&mut self) -> Option<Time> {
        self.asked.take()
    }

    /// When [`Liveness::check`] has something to say. Silence of ours lets a server close the connection; silence of its
    /// lets us ask.
    pub(crate) fn due(&self) -> Time {
        let after = |span: Span, since: Time| match span {
            Span::ZERO => Time::NEVER,
            span => since + span,
        };
        let agreed = after(self.say_after, self.sent).min(after(self.hear_within, self.heard));
        let asks = match self.asked.filter(|_| self.asks()) {
            None => after(self.ask_after, self.sent.min(self.heard)),
            Some(at) => (at + self.patience()).min(after(self.ask_after, self.sent)),
        };
        agreed.min(asks)
    }

    /// Whether the peer has to be asked now, or to get a sign of life; a fault if it has been silent for too long, or has
    /// not answered this question.
    pub(crate) fn check(&mut self, question: &str, now: Time) -> Result<bool, LinkFault> {
        if self.due() > now {
            return Ok(false);
        }
        let is_silent = self.hear_within > Span::ZERO && self.heard + self.hear_within <= now;
        let is_mute = self
            .asked
            .is_some_and(|at| self.asks() && at + self.patience() <= now && self.heard <= at);
        if is_silent {
            let secs = now.since(self.heard).secs();
            let words = format!("the broker has not been heard of for {secs} s");
            return Err(LinkFault::temporary(words));
        }
        if is_mute {
            let words = format!("the broker has not answered {question}");
            return Err(LinkFault::temporary(words));
        }
        if self.asks() {
            // Other input arrived, but not the answer: send a new ping.
            self.asked = None;
        }
        Ok(true)
    }

    fn patience(&self) -> Span {
        Span::from_nanos(self.ask_after.nanos() / 2).max(PATIENCE)
    }
}
