//! Where a message leads beside its receivers: to the queues of its route, and by exchanges to other addresses.

use crate::Kernel;
use crate::access::is_brokers;
use crate::effects::Effects;
use crate::ids::QueueId;
use crate::publish::cause::Cause;
use crate::publish::crowd::is_kept_anyway;
use crate::publish::pipeline::Draft;
use crate::publish::subject::Subject;
use crate::routes::cached::{NO_LOCAL, Receiver, Route};
use thalweg_model::{Message, Properties, RetainOp, Time};

/// What queues made of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queued {
    /// There was one that wanted it.
    pub wanted: bool,
    pub refused: bool,
}

/// How deep a comparison may lead to another.
const DEPTH_MAX: usize = 16;

impl Kernel {
    /// Puts a message into all queues of a route, once each. What is written down of it the caller sees to.
    pub(crate) fn spread_to_queues<E: Effects>(
        &mut self,
        route: &Route,
        message: &Message,
        subject: Option<&Subject<'_>>,
        cause: &Cause,
        now: Time,
        fx: &mut E,
    ) -> Queued {
        if let ([queue], []) = (route.queues(), &route.onward().conditional[..]) {
            return Queued {
                wanted: true,
                refused: self.accept(*queue, message, now, fx),
            };
        }
        let mut queues = route.queues().to_vec();
        let mut redirected: Vec<String> = Vec::new();
        if let (false, Some(subject)) = (route.onward().conditional.is_empty(), subject) {
            let mut seen = route
                .onward()
                .conditional
                .iter()
                .map(|(_, address)| address.to_string())
                .collect();
            self.compare_all(
                route,
                subject,
                &mut queues,
                &mut redirected,
                &mut seen,
                DEPTH_MAX,
            );
            // The route itself leads to these already.
            let known = route.onward().redirects.iter().chain(&route.onward().also);
            redirected.retain(|to| {
                to != message.address() && !known.clone().any(|known| **known == **to)
            });
        }
        let mut queued = Queued {
            wanted: !queues.is_empty(),
            refused: false,
        };
        if queued.wanted {
            self.sessions.crowd.note_further(0, true);
        }
        for queue in queues {
            queued.refused |= self.accept(queue, message, now, fx);
        }
        for address in redirected {
            queued.wanted |= self.spread_redirected(&address, message, cause, now, fx);
        }
        queued
    }

    /// The queues to which bindings lead that ask what a message says, and where else.
    fn compare_all(
        &mut self,
        route: &Route,
        subject: &Subject<'_>,
        queues: &mut Vec<QueueId>,
        redirected: &mut Vec<String>,
        seen: &mut Vec<String>,
        depth: usize,
    ) {
        let compared = self.compare(route, subject);
        for queue in compared.queues {
            if !queues.contains(&queue) {
                queues.push(queue);
            }
        }
        for address in compared.next {
            if depth == 0 || address.is_empty() || is_brokers(&address) || seen.contains(&address) {
                continue;
            }
            seen.push(address.clone());
            let next = self.route(&address);
            for &queue in next.queues() {
                if !queues.contains(&queue) {
                    queues.push(queue);
                }
            }
            if next.wants_more_than_queues() && !redirected.contains(&address) {
                redirected.push(address);
            }
            for address in &next.onward().redirects {
                if !redirected.iter().any(|known| **known == **address) {
                    redirected.push(address.to_string());
                }
            }
            if !next.onward().conditional.is_empty() {
                self.compare_all(&next, subject, queues, redirected, seen, depth - 1);
            }
        }
    }

    /// Copies for sessions and groups that want what another exchange leads to: to them it is published there, and they
    /// must be allowed to receive from where it comes as well.
    pub(crate) fn spread_redirected<E: Effects>(
        &mut self,
        address: &str,
        message: &Message,
        cause: &Cause,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let mut properties = message.properties().cloned().unwrap_or_default();
        properties.add_origin(message.address());
        self.spread_copy(address, message, Some(properties), cause, now, fx)
    }

    /// The same with these properties: those of the original, where its publisher has published it to this address as well.
    pub(crate) fn spread_copy<E: Effects>(
        &mut self,
        address: &str,
        message: &Message,
        properties: Option<Properties>,
        cause: &Cause,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let route = self.route(address);
        let expires = route.expires(message.expires(), now);
        let message = &moved(
            message,
            address,
            properties,
            (message.retain(), expires),
            now,
        );
        let draft = Draft::again(message, now);
        // What the queues of the original have of it is written down with that.
        let others = self.journal.take_references();
        let own = self.own_receiver(message.publisher(), &route);
        let is_own =
            |receiver: &Receiver| receiver.flags & NO_LOCAL != 0 && own == Some(receiver.session);
        let receivers = route.receivers().iter().filter(|it| !is_own(it)).count();
        let further = receivers + route.groups().len();
        let is_unasked = cause.question == 0 && !route.shards().is_empty();
        (self.sessions.crowd).note_further(further, is_unasked || is_kept_anyway(&route));
        let subject = route
            .is_conditional()
            .then(|| Subject::of_message(message, self.env.neutral()));
        let (said, kept) = ((&draft, subject.as_ref()), &mut Some(message.clone()));
        let is_selected = self.spread_to_all(own, &route, said, kept, now, fx);
        if let Some(cell) = route.cell() {
            self.offer_to_cell(cell, message, None, fx);
        }
        self.spread_beyond(&route, message, cause, now, fx);
        if self.journal.has_references() {
            // Under its own address, so it is another message to the journal.
            self.persist_kept(message, cause.safety);
        }
        self.journal.set_references(others);
        is_selected || route.wants_unconditionally()
    }
}

/// A message under another address; its publisher is the same.
pub(crate) fn moved(
    message: &Message,
    address: &str,
    properties: Option<Properties>,
    (retain, expires): (RetainOp, Time),
    now: Time,
) -> Message {
    let (payload, reliability, publisher) = (
        message.payload(),
        message.reliability(),
        message.publisher(),
    );
    let properties = properties.map(Box::new);
    Message::new(
        address,
        payload,
        reliability,
        retain,
        expires,
        now,
        publisher,
        properties,
    )
    .with_priority(message.priority())
}
