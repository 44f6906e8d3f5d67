//! How a connection ends: DISCONNECT, ERROR, silence.

use super::{State, StompFront};
use crate::front::{Cx, Variant};

use std::borrow::Cow;
use thalweg_kernel::{Closing, Refusal};
use thalweg_model::Span;

use thalweg_stomp::DisconnectFrame;

/// How long a DISCONNECT waits before it is looked at again.
const ASKED_PAUSE: Span = Span::from_millis(2);

/// Why a frame cannot be dealt with. In STOMP that ends the connection. [1.2#ERROR]
#[derive(Debug)]
pub(super) struct Trouble {
    /// In short; where RabbitMQ has a word for it, that word, because clients look for it.
    message: &'static str,
    /// At length, with what to do.
    body: String,
}

impl Trouble {
    pub(super) fn new(message: &'static str, body: impl Into<String>) -> Self {
        Trouble {
            message,
            body: body.into(),
        }
    }

    /// `what` was refused.
    pub(super) fn refused(refusal: Refusal, what: &str) -> Self {
        let (message, why): (_, Cow<'_, str>) = match refusal {
            Refusal::NoQueue => {
                ("not_found", "there is no such queue; declare it, or use /queue/ in place of /amq/queue/".into())
            }
            Refusal::NoExchange => ("not_found", "there is no such exchange; declare it first".into()),
            Refusal::Denied => ("access_refused", "the access rules do not allow it; ask the operator".into()),
            Refusal::Locked => ("resource_locked", "it belongs to another connection alone".into()),
            Refusal::InUse => ("access_refused", "it has a consumer that wants to be the only one".into()),
            Refusal::NotEmpty => ("precondition_failed", "it is not empty".into()),
            Refusal::Differs(argument) => (
                "precondition_failed",
                format!("it exists with another {argument}; leave the header out, or say what it was declared with")
                    .into(),
            ),
            Refusal::Reserved => {
                ("access_refused", "the name is reserved; choose one that does not begin with amq.".into())
            }
            Refusal::TooMany => ("resource_error", "there are as many as there may be; raise the limit".into()),
            Refusal::Invalid(what) => ("precondition_failed", what.into()),
            Refusal::Full => ("resource_error", "the journal is full; make room on the disk".into()),
            Refusal::Short => ("resource_error", "the broker is short of memory; try again later".into()),
        };
        Trouble::new(
            message,
            format!("{} - {what}: {why}\n", message.to_uppercase()),
        )
    }
}

impl StompFront {
    /// Whether answers wait for other shards; then the link is asked again after a moment.
    pub(super) fn waits_for_others(cx: &mut Cx<'_>) -> bool {
        let waits = StompFront::asked(cx).is_some_and(|all| !all.is_empty());
        if let (true, Some(link)) = (waits, cx.links.get_mut(cx.id)) {
            link.pause_until = Some(cx.now + ASKED_PAUSE);
        }
        waits
    }

    pub(super) fn on_disconnect(cx: &mut Cx<'_>, frame: &DisconnectFrame<'_>) {
        if let Some(receipt) = &frame.receipt {
            StompFront::write(cx.links, cx.id, |front, out| {
                front.machine.receipt(receipt, out)
            });
        }
        StompFront::end(cx, Closing::Clean);
    }

    /// Says what is the matter, and ends the link.
    #[cold]
    pub(super) fn give_up(cx: &mut Cx<'_>, trouble: &Trouble, receipt: Option<&str>) {
        StompFront::write(cx.links, cx.id, |front, out| {
            front
                .machine
                .error(trouble.message, receipt, &trouble.body, out);
            front.fault = Some(format!("{}: {}", trouble.message, trouble.body.trim_end()).into());
        });
        StompFront::end(cx, Closing::Cut);
    }

    /// Ends the link from our side; what is in the output is still sent.
    pub(super) fn end(cx: &mut Cx<'_>, how: Closing) {
        let Some(link) = cx.links.get_mut(cx.id) else {
            return;
        };
        link.closing = true;
        let session = link.session.take();
        if let Some(front) = StompFront::of(cx.links, cx.id) {
            front.state = State::Closed;
        }
        cx.links.mark_dirty(cx.id);
        if let Some(session) = session {
            cx.kernel
                .close_link(session, cx.id, how, None, cx.now, cx.links);
        }
    }
}
