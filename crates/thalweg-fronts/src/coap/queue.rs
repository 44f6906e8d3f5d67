//! `/q/<name>`: POST puts into a queue, GET takes one message out of it.
//!
//! With `filter=` it takes the first that passes. What is taken goes out in a confirmable response of its own, and is gone when that is acknowledged; if it never is, the
//! message goes back. A GET that is repeated is another GET: it takes another message, as a second worker would.

use super::answer::{Answer, session_ended};
use super::data::{content_format, refusal_of};
use super::handler::{Done, Handler, Request};
use super::identity::IdentityId;
use super::representation::{Representation, format_of, media_type_of};
use super::resource::{Wishes, user_properties};
use super::side::Side;
use super::waiting::{Hold, KeptPut, Waiting};
use crate::front::Cx;
use crate::stamp;
use thalweg_coap::{Block, Code, ExchangeId, Response, Value, option};
use thalweg_kernel::{Draft, Outcome, Refusal, TakenId, Ticket, Verdict, queue_address};
use thalweg_model::{
    Message, Properties, PropertyValue, Reliability, RetainOp, STAMP_PROPERTY, Span, Stamp, Time,
};

impl<S: Side> Handler<S> {
    pub(super) fn on_queue(&mut self, name: &str, request: &Request<'_>, cx: &mut Cx<'_>) -> Done {
        let queue = queue_address(&self.settings.tenant, name);
        match request.code {
            Code::POST => self.put_into(&queue, request, cx),
            Code::GET => self.take_from(&queue, request, cx),
            _ => Err(Answer::words(
                Code::METHOD_NOT_ALLOWED,
                "a queue knows POST and GET",
            )),
        }
    }

    fn put_into(&mut self, queue: &str, request: &Request<'_>, cx: &mut Cx<'_>) -> Done {
        let wishes = Wishes::read(&request.options)?;
        self.check_rate(request, cx.now)?;
        let stamp = stamp::read(wishes.stamp, cx.kernel);
        let properties = properties_of(&wishes, request, stamp, cx);
        let draft = Draft {
            address: queue,
            payload: request.payload,
            reliability: reliability_of(&wishes, request),
            retain: RetainOp::None,
            expires_in: expiry_of(&wishes, request),
            priority: wishes.priority,
            properties: properties.as_ref(),
            ticket: 0,
            native: None,
            stamp,
        };
        let (reliability, expires_in, priority) =
            (draft.reliability, draft.expires_in, draft.priority);
        let (batch, outcome) = self.publish_for(request.identity, request.session, draft, cx);
        if outcome != Outcome::NoMatch || !self.settings.auto_declare_queues {
            return self.after_put_into(request.exchange, batch, outcome, cx);
        }
        let put = KeptPut {
            identity: request.identity.0,
            condition: None,
            address: queue.into(),
            payload: request.payload.into(),
            reliability,
            retain: RetainOp::None,
            expires_in,
            priority,
            properties,
            stamp,
        };
        let waiting = Waiting::MakeQueue {
            exchange: request.exchange,
            put: Box::new(put),
        };
        let ticket = self.wait(waiting, cx.now)?;
        let Cx {
            now, kernel, links, ..
        } = cx;
        kernel
            .make_queue(
                request.session,
                self.link,
                ticket,
                (queue, None),
                *now,
                *links,
            )
            .map_err(|refusal| {
                self.waiting.take(ticket);
                Answer::of_refusal(&refusal)
            })
    }

    /// A queue that was missing is there, or cannot be.
    pub(super) fn on_queue_made(
        &mut self,
        ticket: Ticket,
        made: Result<(), Refusal>,
        cx: &mut Cx<'_>,
    ) {
        let Some(Waiting::MakeQueue { exchange, put }) = self.waiting.take(ticket) else {
            return;
        };
        let identity = IdentityId(put.identity);
        let done = match (made, self.identities.session(identity)) {
            (Err(refusal), _) => Err(Answer::of_refusal(&refusal)),
            (Ok(()), None) => Err(session_ended()),
            (Ok(()), Some(session)) => {
                let (batch, outcome) = self.publish_for(identity, session, put.draft(), cx);
                self.after_put_into(exchange, batch, outcome, cx)
            }
        };
        if let Err(answer) = done {
            self.respond(exchange, &answer, cx.now);
        }
    }

    fn after_put_into(
        &mut self,
        exchange: ExchangeId,
        batch: Option<Hold>,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) -> Done {
        match (outcome, refusal_of(outcome)) {
            (Outcome::NoMatch, _) => Err(Answer::of_refusal(&Refusal::NoQueue)),
            (_, Some(answer)) => Err(answer),
            (_, None) => {
                self.finish(exchange, Answer::of(Code::CHANGED), batch, cx);
                Ok(())
            }
        }
    }

    fn take_from(&mut self, queue: &str, request: &Request<'_>, cx: &mut Cx<'_>) -> Done {
        let block = request.options.uint(option::BLOCK2).and_then(Block::decode);
        if block.is_some_and(|block| block.number > 0) {
            // The rest of a message that went back meanwhile.
            return Err(Answer::words(
                Code::REQUEST_ENTITY_INCOMPLETE,
                "that message is gone: take it again",
            ));
        }
        if self.takes.len() >= self.settings.takes_max {
            return Err(Answer::later(
                Code::SERVICE_UNAVAILABLE,
                1,
                "too many messages are taken and not acknowledged",
            ));
        }
        let filter = Wishes::read(&request.options)?.content_filter()?;
        let identity = request.identity.0;
        let ticket = self.wait(
            Waiting::Take {
                exchange: request.exchange,
                identity,
            },
            cx.now,
        )?;
        let Cx {
            now, kernel, links, ..
        } = cx;
        let wanted = (queue, filter);
        match kernel.take_apart(request.session, self.link, ticket, wanted, *now, *links) {
            Ok(()) => Ok(()),
            Err(refusal) => {
                self.waiting.take(ticket);
                Err(Answer::of_refusal(&refusal))
            }
        }
    }

    /// A message was taken, or there is none.
    pub(super) fn on_taken(
        &mut self,
        ticket: Ticket,
        taken: Result<Option<(TakenId, Message)>, Refusal>,
        cx: &mut Cx<'_>,
    ) {
        let now = cx.now;
        let Some(Waiting::Take { exchange, identity }) = self.waiting.take(ticket) else {
            if let Ok(Some((id, _))) = taken {
                self.settle(id, Verdict::Requeue, cx);
            }
            return;
        };
        let (id, message) = match taken {
            Ok(Some(taken)) => taken,
            Ok(None) => {
                return self.respond(
                    exchange,
                    &Answer::words(Code::NOT_FOUND, "the queue has no message for this request"),
                    now,
                );
            }
            Err(refusal) => return self.respond(exchange, &Answer::of_refusal(&refusal), now),
        };
        let format = message
            .properties()
            .and_then(format_of)
            .map(|format| (option::CONTENT_FORMAT, u32::from(format)));
        // What is left of its life; the message goes to no other consumer, so without an expiry it is fresh for ever.
        let life = (message.expires() != Time::NEVER).then(|| {
            let secs = Representation::of(&message, 0, now).max_age_secs;
            (option::MAX_AGE, secs)
        });
        let options: Vec<_> = [format, life]
            .into_iter()
            .flatten()
            .map(|(n, value)| (n, Value::Uint(value)))
            .collect();
        let response = Response {
            code: Code::CONTENT,
            options: &options,
            payload: message.payload(),
        };
        self.take_last += 1;
        let cookie = self.take_last;
        self.takes.insert(cookie, (id, identity));
        self.identities.hold(IdentityId(identity));
        self.counts.takes += 1;
        if !self
            .side
            .respond_confirmed(exchange, cookie, &response, now)
        {
            self.on_take_ended(cookie, false, cx);
        }
    }

    /// The peer that took a message has acknowledged it, or has not.
    pub(super) fn on_take_ended(&mut self, cookie: u64, is_confirmed: bool, cx: &mut Cx<'_>) {
        let Some((id, identity)) = self.takes.remove(&cookie) else {
            return;
        };
        self.identities.let_go(IdentityId(identity));
        self.counts.takes_returned += u64::from(!is_confirmed);
        self.settle(
            id,
            if is_confirmed {
                Verdict::Accept
            } else {
                Verdict::Requeue
            },
            cx,
        );
    }

    fn settle(&mut self, taken: TakenId, verdict: Verdict, cx: &mut Cx<'_>) {
        let Cx {
            now, kernel, links, ..
        } = cx;
        kernel.settle_taken(taken, verdict, *now, *links);
    }
}

/// What a request says of its message beside the payload; its stamp as receivers may see it.
pub(super) fn properties_of(
    wishes: &Wishes<'_>,
    request: &Request<'_>,
    stamp: Option<Stamp>,
    cx: &Cx<'_>,
) -> Option<Properties> {
    let format = content_format(request);
    if format.is_none() && !wishes.has_user_properties && stamp.is_none() {
        return None;
    }
    let property = |(name, value): (&str, &str)| (name.into(), PropertyValue::Text(value.into()));
    // To receivers it is one of the user properties, as it is for publishers who have such; and nothing else is.
    let others = user_properties(&request.options).filter(|(name, _)| *name != STAMP_PROPERTY);
    let mut user: Vec<_> = others.map(property).collect();
    let shown = stamp.map(|stamp| cx.kernel.mask_stamp(request.session, stamp).to_string());
    user.extend(shown.map(|stamp| (STAMP_PROPERTY.into(), PropertyValue::Text(stamp.into()))));
    let content_type = format.map(|format| media_type_of(format).into());
    let properties = Properties {
        content_type,
        user,
        ..Properties::default()
    };
    (!properties.is_empty()).then_some(properties)
}

/// How surely a request wants its message delivered.
pub(super) fn reliability_of(wishes: &Wishes<'_>, request: &Request<'_>) -> Reliability {
    match wishes.qos {
        Some(0) => Reliability::AtMostOnce,
        Some(1) => Reliability::AtLeastOnce,
        Some(_) => Reliability::ExactlyOnce,
        None if request.confirmable => Reliability::AtLeastOnce,
        None => Reliability::AtMostOnce,
    }
}

/// How long a request's message is worth delivering.
pub(super) fn expiry_of(wishes: &Wishes<'_>, request: &Request<'_>) -> Option<Span> {
    let secs = wishes
        .expiry_secs
        .or_else(|| request.options.uint(option::MAX_AGE));
    secs.map(|secs| Span::from_secs(u64::from(secs)))
}
