//! How long a session outlives its link, and what it leaves behind.

use super::{Closing, Will};
use thalweg_model::{Span, Time};

pub(crate) struct Life {
    expiry: Span,
    /// [`Time::NEVER`] while there is a link.
    expires_at: Time,
    will: Option<Box<Will>>,
    /// [`Time::NEVER`] while there is a link, or no will.
    will_due: Time,
}

impl Life {
    /// A link is in force.
    pub(super) fn new(expiry: Span, will: Option<Box<Will>>) -> Self {
        Life {
            expiry,
            expires_at: Time::NEVER,
            will,
            will_due: Time::NEVER,
        }
    }

    /// An earlier run left it without a link, or has just lost it if `expires_at` is [`Time::NEVER`]. A will without a time
    /// begins its delay now.
    pub(crate) fn restored(
        expiry: Span,
        expires_at: Time,
        will: Option<(Box<Will>, Time)>,
        now: Time,
    ) -> Self {
        let expires_at = match expires_at {
            Time::NEVER => now + expiry,
            at => at,
        };
        let due = |will: &Will, due| match due {
            Time::NEVER => (now + will.delay).min(expires_at),
            due => due.min(expires_at),
        };
        let will_due = will
            .as_ref()
            .map_or(Time::NEVER, |(will, at)| due(will, *at));
        Life {
            expiry,
            expires_at,
            will: will.map(|(will, _)| will),
            will_due,
        }
    }

    pub(crate) fn expiry(&self) -> Span {
        self.expiry
    }

    pub(crate) fn expires_at(&self) -> Time {
        self.expires_at
    }

    pub(crate) fn will(&self) -> Option<&Will> {
        self.will.as_deref()
    }

    pub(crate) fn will_due(&self) -> Time {
        self.will_due
    }

    /// The link has ended; `expiry` replaces what was asked for when it began.
    pub(super) fn link_ended(&mut self, how: Closing, expiry: Option<Span>, now: Time) {
        self.expiry = expiry.unwrap_or(self.expiry);
        self.expires_at = now + self.expiry;
        if how == Closing::Clean {
            self.will = None;
        }
        if let Some(will) = &self.will {
            self.will_due = (now + will.delay).min(self.expires_at);
        }
    }

    /// The session ends at this time, whatever its expiry was.
    pub(crate) fn expire_at(&mut self, at: Time) {
        self.expires_at = at;
    }

    pub(super) fn take_will(&mut self) -> Option<Box<Will>> {
        self.will_due = Time::NEVER;
        self.will.take()
    }
}
