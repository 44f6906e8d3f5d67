//! SEND.

use super::address::{reply_address, topic_address};
use super::headers::SendHeaders;
use super::queues::Wishes;
use super::{StompFront, Trouble};
use crate::front::{Cx, Variant};

use crate::probe::Mark;
use crate::stamp;
use std::collections::VecDeque;
use thalweg_kernel::{
    Draft, Gathered, Kernel, Outcome, QueueSpec, Refusal, SessionId, exchange_address,
    queue_address,
};
use thalweg_model::{Reliability, Span, Stamp};
use thalweg_stomp::{Destination, SendFrame};

/// Whether a frame is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handled {
    Done,
    /// It must be handed in again later.
    Later,
    /// Other shards are asked about it.
    Asked,
}

/// A frame whose answer waits for those of other shards.
pub(super) struct Asked {
    /// The number of the question about the last of its messages.
    last: u64,
    /// Its questions have greater numbers.
    before: u64,
    receipt: Option<Box<str>>,
    /// Where its messages go, for the text of an ERROR.
    destination: Box<str>,
    is_refused: bool,
}

/// Frames that wait, in the order of their questions.
#[derive(Default)]
pub(super) struct AllAsked(VecDeque<Asked>);

/// How long a publisher waits while the journal is full. STOMP can refuse only by ending the connection.
pub(super) const FULL_PAUSE: Span = Span::from_millis(200);

/// Where a destination leads, worked out.
pub(super) struct Target {
    /// As the peer writes it.
    destination: String,
    /// What we call it.
    address: String,
    kind: DestinationKind,
}

/// What to do with an unroutable message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DestinationKind {
    Topic,
    /// The queue must be made; or it is another's, and nothing.
    Queue {
        is_made_here: bool,
    },
    /// The exchange may be gone.
    Exchange,
}

impl StompFront {
    #[inline]
    pub(super) fn on_send(cx: &mut Cx<'_>, send: &SendFrame<'_>) -> Handled {
        let Some(session) = cx.session() else {
            return Handled::Done;
        };
        let done = StompFront::publish(cx, session, send);
        if let Ok(Handled::Later) = done {
            if let Some(link) = cx.links.get_mut(cx.id) {
                link.pause_until = Some(cx.now + FULL_PAUSE);
            }
            return Handled::Later;
        }
        let receipt = send.receipt.as_deref();
        if let Ok(Handled::Asked) = done {
            let question = cx.kernel.question();
            StompFront::answer_later(cx, question - 1, question, receipt, &send.destination);
        } else {
            StompFront::answer(cx, receipt, done.map(drop));
        }
        cx.links.mark(Mark::FrontAck);
        Handled::Done
    }

    /// Answers a frame once all questions behind `before` up to `last` are decided.
    #[cold]
    pub(super) fn answer_later(
        cx: &mut Cx<'_>,
        before: u64,
        last: u64,
        receipt: Option<&str>,
        destination: &str,
    ) {
        if let Some(front) = StompFront::of(cx.links, cx.id) {
            let all = front.asked.get_or_insert_default();
            all.0.push_back(Asked {
                last,
                before,
                receipt: receipt.map(Into::into),
                destination: destination.into(),
                is_refused: false,
            });
        }
    }

    pub(super) fn asked<'a>(cx: &'a mut Cx<'_>) -> Option<&'a mut VecDeque<Asked>> {
        let all = StompFront::of(cx.links, cx.id)?.asked.as_deref_mut()?;
        Some(&mut all.0)
    }

    /// Answers frames up to a question that is decided now. Questions are decided in their order.
    pub(super) fn on_decided(cx: &mut Cx<'_>, question: u64, is_refused: bool) {
        if is_refused && let Some(all) = StompFront::asked(cx) {
            let at = all.partition_point(|asked| asked.last < question);
            if let Some(asked) = all.get_mut(at) {
                asked.is_refused |= asked.before < question;
            }
        }
        while let Some(asked) =
            StompFront::asked(cx).and_then(|all| all.pop_front_if(|asked| asked.last <= question))
        {
            let outcome = match asked.is_refused {
                true => Outcome::Refused,
                false => Outcome::Accepted,
            };
            let done = outcome_of(outcome, &asked.destination, true);
            StompFront::answer(cx, asked.receipt.as_deref(), done);
        }
    }

    #[inline]
    fn publish(
        cx: &mut Cx<'_>,
        session: SessionId,
        send: &SendFrame<'_>,
    ) -> Result<Handled, Trouble> {
        let mut said = SendHeaders::read(&send.headers, cx.now)?;
        if let Some(reply_to) = said.reply_to.take() {
            let address = StompFront::reply_to(cx, session, &reply_to)?;
            said.properties.reply_to = Some(address.into());
        }
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Ok(Handled::Done);
        };
        front.check_user(&said)?;
        let target = match front.target.take() {
            Some(target) if target.destination == *send.destination => target,
            other => StompFront::find_target(cx, session, send, other)?,
        };
        let stamp = stamp::take(&mut said.properties, session, cx.kernel);
        let published = StompFront::publish_to(cx, session, send, &said, stamp, &target);
        if let Some(front) = StompFront::of(cx.links, cx.id) {
            front.target = Some(target);
        }
        published
    }

    #[allow(clippy::too_many_arguments)] // The end of a chain that gathers exactly these.
    fn publish_to(
        cx: &mut Cx<'_>,
        session: SessionId,
        send: &SendFrame<'_>,
        said: &SendHeaders<'_>,
        stamp: Option<Stamp>,
        target: &Target,
    ) -> Result<Handled, Trouble> {
        let is_waited_for =
            said.is_persistent || send.receipt.is_some() || send.transaction.is_some();
        let draft = || Draft {
            address: &target.address,
            payload: send.body,
            reliability: if is_waited_for {
                Reliability::AtLeastOnce
            } else {
                Reliability::AtMostOnce
            },
            retain: said.retain,
            expires_in: said.expires_in,
            priority: said.priority,
            properties: (!said.properties.is_empty()).then_some(&said.properties),
            ticket: 0,
            native: None,
            stamp,
        };
        if let Some(name) = &send.transaction {
            let number = StompFront::of(cx.links, cx.id)
                .map(|front| front.transactions.number(name))
                .transpose()?;
            let Some(number) = number else {
                return Ok(Handled::Done);
            };
            return match cx
                .kernel
                .publish_in(session, number, &draft(), &[], 0, cx.now)
            {
                Gathered::In => Ok(Handled::Done),
                Gathered::Short => {
                    let body = format!(
                        "the broker is short of memory; transaction '{name}' was rolled back\n"
                    );
                    Err(Trouble::new("resource_error", body))
                }
                Gathered::TooLarge | Gathered::Nowhere => {
                    let body = format!(
                        "with '{name}' the open transactions are too large; COMMIT earlier\n"
                    );
                    Err(Trouble::new("transaction too large", body))
                }
            };
        }
        let mut published = cx.publish(session, draft());
        if published == Outcome::NoMatch {
            match target.kind {
                DestinationKind::Topic
                | DestinationKind::Queue {
                    is_made_here: false,
                } => {}
                DestinationKind::Queue { is_made_here: true } => {
                    // The queue was deleted meanwhile.
                    StompFront::make_queue(cx, session, send, &target.address)?;
                    published = cx.publish(session, draft());
                }
                DestinationKind::Exchange => {
                    check_exchange(cx.kernel, session, &target.address, &send.destination)?
                }
            }
        }
        match published {
            Outcome::Full => Ok(Handled::Later),
            Outcome::Asked => Ok(Handled::Asked),
            outcome => {
                outcome_of(outcome, &send.destination, is_waited_for).map(|()| Handled::Done)
            }
        }
    }

    /// A client may not publish with another user's name.
    fn check_user(&self, said: &SendHeaders<'_>) -> Result<(), Trouble> {
        let user = said
            .properties
            .details
            .as_ref()
            .and_then(|details| details.user_id.as_deref());
        match user {
            Some(user) if self.login.as_deref() != Some(user) => {
                let login = self.login.as_deref().unwrap_or_default();
                let body = format!(
                    "user_id property set to '{user}' but authenticated user was '{login}'\n"
                );
                Err(Trouble::new("precondition_failed", body))
            }
            _ => Ok(()),
        }
    }

    fn reply_to(cx: &mut Cx<'_>, session: SessionId, reply_to: &str) -> Result<String, Trouble> {
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Ok(String::new());
        };
        let dialect = front.settings.dialect;
        if let Ok(Destination::TempQueue(_)) = Destination::parse(reply_to, dialect.of_wire()) {
            return StompFront::answers_to(cx, session, reply_to);
        }
        let in_exchange = |exchange: &str, key: &str, out: &mut String| {
            // An exchange that is not there yet may be when the answer comes; one that can never be gives no address.
            let _ = cx.kernel.address_in(exchange, key, out);
        };
        Ok(reply_address(reply_to, dialect, &front.tenant, in_exchange))
    }

    /// Works out where the destination leads, into `spare` if there is one.
    #[allow(clippy::too_many_arguments)] // A step of `publish`.
    fn find_target(
        cx: &mut Cx<'_>,
        session: SessionId,
        send: &SendFrame<'_>,
        spare: Option<Box<Target>>,
    ) -> Result<Box<Target>, Trouble> {
        let new = || {
            Box::new(Target {
                destination: String::new(),
                address: String::new(),
                kind: DestinationKind::Topic,
            })
        };
        let mut target = spare.unwrap_or_else(new);
        let Target {
            destination,
            address,
            kind,
        } = &mut *target;
        destination.clear();
        address.clear();
        destination.push_str(&send.destination);
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Ok(target);
        };
        front.check_destination(&send.destination)?;
        *kind = match front.parse(&send.destination)? {
            Destination::Topic(topic) => {
                topic_address(topic, front.settings.dialect, &front.tenant, address);
                DestinationKind::Topic
            }
            Destination::Queue(name) => {
                *address = queue_address(&front.tenant, &name);
                StompFront::make_queue(cx, session, send, address)?;
                DestinationKind::Queue { is_made_here: true }
            }
            Destination::AmqQueue(name) => {
                *address = queue_address(&front.tenant, &name);
                DestinationKind::Queue {
                    is_made_here: false,
                }
            }
            Destination::ReplyQueue(name) => {
                *address = queue_address(&front.tenant, name);
                DestinationKind::Queue {
                    is_made_here: false,
                }
            }
            Destination::TempQueue(_) => {
                *address = StompFront::temporary(cx, session, &send.destination)?;
                DestinationKind::Queue {
                    is_made_here: false,
                }
            }
            Destination::Exchange { name, key } => {
                let exchange = exchange_address(&front.tenant, &name);
                cx.kernel
                    .address_in(&exchange, key.as_deref().unwrap_or_default(), address)
                    .map_err(|refusal| {
                        Trouble::refused(refusal, &format!("SEND to {}", send.destination))
                    })?;
                DestinationKind::Exchange
            }
        };
        Ok(target)
    }

    /// Makes the queue of `/queue/…` unless there is one, which then keeps its properties.
    fn make_queue(
        cx: &mut Cx<'_>,
        session: SessionId,
        send: &SendFrame<'_>,
        address: &str,
    ) -> Result<(), Trouble> {
        if !matches!(
            cx.kernel.inspect_queue(session, address),
            Err(Refusal::NoQueue)
        ) {
            return Ok(());
        }
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Ok(());
        };
        let wishes = Wishes::read(&send.headers, &front.tenant)?;
        let spec = QueueSpec {
            address,
            durable: wishes.durable.unwrap_or(true),
            exclusive: wishes.exclusive.unwrap_or(false),
            is_named_by_broker: false,
            auto_delete: wishes.auto_delete.unwrap_or(false),
            limits: wishes.limits,
        };
        match cx.kernel.declare_queue(session, &spec, cx.now, cx.links) {
            Ok(_) => Ok(()),
            Err(refusal) => Err(Trouble::refused(
                refusal,
                &format!("the queue of {}", send.destination),
            )),
        }
    }
}

/// Whether the exchange of an address is still there.
fn check_exchange(
    kernel: &Kernel,
    session: SessionId,
    address: &str,
    destination: &str,
) -> Result<(), Trouble> {
    let mut slashes = address.match_indices('/');
    let end = slashes.nth(1).map_or(address.len(), |(at, _)| at);
    // What `amq.topic` publishes to names no exchange, and that one is always there.
    let Some(exchange) = address
        .get(..end)
        .filter(|exchange| exchange.starts_with("$x"))
    else {
        return Ok(());
    };
    match kernel.inspect_exchange(session, exchange) {
        Err(refusal @ Refusal::NoExchange) => {
            Err(Trouble::refused(refusal, &format!("SEND to {destination}")))
        }
        _ => Ok(()),
    }
}

/// The error that answers a publish; none if it is accepted or has no receiver.
pub(super) fn outcome_of(
    outcome: Outcome,
    destination: &str,
    is_waited_for: bool,
) -> Result<(), Trouble> {
    match outcome {
        Outcome::Accepted | Outcome::NoMatch | Outcome::Asked => Ok(()),
        Outcome::Denied => Err(Trouble::new(
            "access_refused",
            format!("ACCESS_REFUSED - write access to {destination} refused\n"),
        )),
        Outcome::BadAddress => {
            let body = format!(
                "'{destination}' is longer or deeper than an address may be, or holds what none may\n"
            );
            Err(Trouble::new("Invalid destination", body))
        }
        Outcome::Full | Outcome::Refused if is_waited_for => {
            let body = format!("{destination} is full and takes nothing; try again later\n");
            Err(Trouble::new("resource_error", body))
        }
        Outcome::OverRate(_) if is_waited_for => {
            let body = format!("{destination} takes no more at this rate; send more slowly\n");
            Err(Trouble::new("resource_error", body))
        }
        // The same as being dropped, and counted so.
        Outcome::Full | Outcome::Refused | Outcome::OverRate(_) => Ok(()),
    }
}
