//! ACK and NACK.

use super::publish::Handled;
use super::queues::truth;
use super::{StompFront, Trouble};
use crate::front::{Cx, Variant};

use crate::probe::Mark;
use thalweg_kernel::{Settled, Tags, Verdict};

use thalweg_stomp::{AckFrame, AckMode, AckTarget};

/// Which delivery is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// One that is to be settled.
    Settled { line: u16, tag: u64 },
    /// One that is not.
    Unsettled,
}

impl Name {
    /// Reads what [`write_name`](super::deliver::write_name) has written.
    fn parse(text: &str) -> Option<Name> {
        let (line, tag) = text.split_once('-')?;
        let line = line.parse().ok()?;
        match tag.strip_prefix('a') {
            Some(number) => number.parse::<u64>().ok().map(|_| Name::Unsettled),
            None => Some(Name::Settled {
                line,
                tag: tag.parse().ok().filter(|tag| *tag > 0)?,
            }),
        }
    }
}

impl StompFront {
    pub(super) fn on_ack(cx: &mut Cx<'_>, frame: &AckFrame<'_>) -> Result<Handled, Trouble> {
        StompFront::settle(cx, frame, Verdict::Accept)
    }

    pub(super) fn on_nack(cx: &mut Cx<'_>, frame: &AckFrame<'_>) -> Result<Handled, Trouble> {
        let requeues = match frame.headers.get("requeue") {
            Some(value) => truth("requeue", &value)?,
            None => {
                StompFront::of(cx.links, cx.id).is_none_or(|front| front.settings.nack_requeues)
            }
        };
        let verdict = if requeues {
            Verdict::Requeue
        } else {
            Verdict::Reject
        };
        StompFront::settle(cx, frame, verdict)
    }

    fn settle(cx: &mut Cx<'_>, frame: &AckFrame<'_>, verdict: Verdict) -> Result<Handled, Trouble> {
        let Some(session) = cx.session() else {
            return Ok(Handled::Done);
        };
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Ok(Handled::Done);
        };
        let text = match &frame.target {
            AckTarget::Id(name)
            | AckTarget::Message {
                message_id: name, ..
            } => name,
        };
        let unknown = || {
            let body = format!("'{text}' names no message that was delivered on this connection\n");
            Err(Trouble::new("Message not found", body))
        };
        let (line, tag) = match Name::parse(text) {
            Some(Name::Settled { line, tag }) => (line, tag),
            // Some clients acknowledge what needs no acknowledgement.
            Some(Name::Unsettled) => return Ok(Handled::Done),
            None => return unknown(),
        };
        // A subscription that has ended: its unsettled messages were requeued, and this frame comes too late.
        let Some(subscription) = front.subscriptions.get(line) else {
            return Ok(Handled::Done);
        };
        if tag > subscription.tag_last {
            return unknown();
        }
        let tags = Tags::new(tag, subscription.ack == AckMode::Client);
        let settled = match &frame.transaction {
            Some(name) => {
                let transaction = front.transactions.number(name)?;
                cx.kernel
                    .settle_in(session, transaction, line, tags, verdict)
            }
            None => cx
                .kernel
                .settle_line(session, line, tags, verdict, cx.now, cx.links),
        };
        cx.links.mark(Mark::KernelSettle);
        match settled {
            // Settled before, or its queue is gone: nothing is left to be said.
            Settled::Known | Settled::Unknown => Ok(Handled::Done),
            Settled::InPart => {
                if let Some(link) = cx.links.get_mut(cx.id) {
                    // Others have their turn first.
                    link.pause_until = Some(cx.now);
                }
                Ok(Handled::Later)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_read() {
        assert_eq!(
            Name::parse("7-42"),
            Some(Name::Settled { line: 7, tag: 42 })
        );
        assert_eq!(Name::parse("7-a42"), Some(Name::Unsettled));
        for text in [
            "",
            "7",
            "7-",
            "7-0",
            "-1",
            "70000-1",
            "7-1-1",
            "7-a",
            "x-1",
            "7-99999999999999999999",
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }
}
