//! SUBSCRIBE and UNSUBSCRIBE.

use super::address::{TOPIC_EXCHANGE, group_of, topic_address, topic_key};
use super::queues::{Wishes, durable_name};
use super::subscription::{CONSUMER, SUBSCRIPTION_BYTES, Shows, Subscription};
use super::{SUBSCRIPTION_QUEUES, StompFront, TEMPORARY_QUEUES, Trouble};
use crate::address::in_tenant;
use crate::front::{Cx, Variant};
use crate::link::Links;
use std::borrow::Cow;
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_kernel::{
    BindSpec, BindTo, ConsumeSpec, Deleted, Kernel, QueueLimits, QueueSpec, Refusal, SessionId,
    exchange_address, queue_address,
};
use thalweg_model::{PropertyValue, Time};
use thalweg_stomp::{
    AckMode, Destination, DestinationError, Headers, SubscribeFrame, UnsubscribeFrame,
};

/// What is consumed from, and how its messages are shown.
struct Source {
    /// A queue's address, or a group and its filter.
    address: String,
    shows: Shows,
    durable: bool,
}

impl StompFront {
    /// Writes the receipt, if one is asked for: before the first message.
    pub(super) fn on_subscribe(cx: &mut Cx<'_>, frame: &SubscribeFrame<'_>) -> Result<(), Trouble> {
        let Some(session) = cx.session() else {
            return Ok(());
        };
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Ok(());
        };
        front.check_subscribe(frame)?;
        let filter = front.selector_of_consumer(frame)?;
        // The destination is kept twice at the most.
        let texts = 2 * frame.destination.len() + frame.id.as_deref().map_or(0, str::len);
        if !cx
            .links
            .may_keep(cx.id, SUBSCRIPTION_BYTES + texts, cx.kernel)
        {
            return Err(Trouble::refused(
                Refusal::Short,
                &format!("SUBSCRIBE to {}", frame.destination),
            ));
        }
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Ok(());
        };
        if frame.headers.get("x-last-value").as_deref() == Some("only") {
            return StompFront::read_last_value(cx, session, frame);
        }
        let mut wishes = Wishes::read(&frame.headers, &front.tenant)?;
        if wishes.durable.is_none() && is_true(&frame.headers, &["persistent"]) {
            wishes.durable = Some(true);
        }
        let source = StompFront::source(cx, session, frame, wishes)?;
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Ok(());
        };
        let settles = frame.ack != AckMode::Auto;
        let line = front.subscriptions.new_line();
        let spec = ConsumeSpec {
            source: &source.address,
            line,
            consumer: CONSUMER,
            credit: if settles {
                credit(&frame.headers)?.unwrap_or(front.settings.prefetch)
            } else {
                0
            },
            settles,
            exclusive: is_true(
                &frame.headers,
                &["x-exclusive-consumer", "activemq.exclusive"],
            ),
            priority: number(&frame.headers, &["x-priority", "activemq.priority"])?.unwrap_or(0),
            no_local: is_true(&frame.headers, &["no-local", "activemq.noLocal"]),
            filter,
        };
        // Messages may come before `consume` returns.
        front.subscriptions.add(Subscription {
            line,
            id: frame.id.as_deref().map(Into::into),
            destination: (*frame.destination).into(),
            shows: source.shows,
            ack: frame.ack,
            durable: source.durable.then(|| source.address.as_str().into()),
            tag_last: 0,
        });
        StompFront::count_kept(cx);
        let before = StompFront::write_receipt(cx, frame);
        cx.kernel
            .consume(session, &spec, cx.now, cx.links)
            .map_err(|refusal| {
                cx.links.take_back(cx.id, before);
                Trouble::refused(refusal, &format!("SUBSCRIBE to {}", frame.destination))
            })
    }

    /// Writes the receipt if one is asked for; the length of the output before it.
    fn write_receipt(cx: &mut Cx<'_>, frame: &SubscribeFrame<'_>) -> usize {
        let before = StompFront::write(cx.links, cx.id, |front, out| {
            let before = out.len();
            if let Some(receipt) = &frame.receipt {
                front.machine.receipt(receipt, out);
            }
            before
        });
        before.unwrap_or_default()
    }

    /// `x-last-value:only`: one MESSAGE comes, which is the last value or, with `x-last-value:none`, says that there is none,
    /// and no subscription is made.
    fn read_last_value(
        cx: &mut Cx<'_>,
        session: SessionId,
        frame: &SubscribeFrame<'_>,
    ) -> Result<(), Trouble> {
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Ok(());
        };
        let Destination::Topic(topic) = front.parse(&frame.destination)? else {
            return Err(Trouble::new(
                "Invalid destination",
                "only what begins with /topic/ has a last value\n",
            ));
        };
        let mut address = String::new();
        topic_address(topic, front.settings.dialect, &front.tenant, &mut address);
        let ticket = front
            .reads
            .add(frame.id.as_deref().unwrap_or_default(), &frame.destination)?;
        let before = StompFront::write_receipt(cx, frame);
        if cx
            .kernel
            .read_last_value(session, cx.id, ticket, &address, cx.now, cx.links)
        {
            return Ok(());
        }
        cx.links.take_back(cx.id, before);
        if let Some(front) = StompFront::of(cx.links, cx.id) {
            front.reads.take(ticket);
        }
        Err(Trouble::refused(
            Refusal::Denied,
            &format!("SUBSCRIBE to {}", frame.destination),
        ))
    }

    fn check_subscribe(&self, frame: &SubscribeFrame<'_>) -> Result<(), Trouble> {
        self.check_room()?;
        self.check_destination(&frame.destination)?;
        let is_known = match &frame.id {
            Some(id) => self.subscriptions.by_id(id).is_some(),
            None => self
                .subscriptions
                .by_destination(&frame.destination)
                .is_some(),
        };
        if is_known {
            let name = frame.id.as_deref().unwrap_or(&frame.destination);
            let body = format!(
                "there is a subscription '{name}' on this connection already; choose another id\n"
            );
            return Err(Trouble::new("Duplicated subscription identifier", body));
        }
        Ok(())
    }

    /// The selector of a subscription that takes from a queue itself. That of others is its binding's.
    fn selector_of_consumer(
        &self,
        frame: &SubscribeFrame<'_>,
    ) -> Result<Option<Arc<Predicate>>, Trouble> {
        let Some(text) = selector_of(&frame.headers) else {
            return Ok(None);
        };
        let filter = Predicate::parse(&text)
            .map_err(|error| Trouble::new("Invalid selector", format!("{error}\n")))?;
        if self.settings.selectors_refused {
            let body = "the server evaluates no selectors; leave the header out and filter in the client\n";
            return Err(Trouble::new("not_implemented", body));
        }
        let is_of_exchange = group_of(&frame.destination).is_none()
            && matches!(
                self.parse(&frame.destination)?,
                Destination::Topic(_) | Destination::Exchange { .. }
            );
        Ok((!is_of_exchange).then(|| Arc::new(filter)))
    }

    /// Whether there may be one more subscription.
    fn check_room(&self) -> Result<(), Trouble> {
        if self.subscriptions.len() < self.settings.subscriptions_max {
            return Ok(());
        }
        let body = "the connection has as many subscriptions as it may have; end some, or use more connections\n";
        Err(Trouble::new("too many subscriptions", body))
    }

    pub(super) fn check_destination(&self, destination: &str) -> Result<(), Trouble> {
        if destination.len() > self.settings.destination_bytes_max {
            return Err(Trouble::new(
                "Invalid destination",
                "the destination is longer than the server allows\n",
            ));
        }
        Ok(())
    }

    pub(super) fn parse<'a>(&self, destination: &'a str) -> Result<Destination<'a>, Trouble> {
        Destination::parse(destination, self.settings.dialect.of_wire()).map_err(|error| {
            // RabbitMQ says so in short.
            let message = match error {
                DestinationError::UnknownPrefix if !destination.is_empty() => "Unknown destination",
                _ => "Invalid destination",
            };
            Trouble::new(
                message,
                format!("'{destination}' is not a valid destination: {error}\n"),
            )
        })
    }

    /// Finds or makes what is to be consumed from.
    fn source(
        cx: &mut Cx<'_>,
        session: SessionId,
        frame: &SubscribeFrame<'_>,
        wishes: Wishes,
    ) -> Result<Source, Trouble> {
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Err(Trouble::new("gone", ""));
        };
        let (tenant, dialect) = (front.tenant.clone(), front.settings.dialect);
        let text = &*frame.destination;
        if let Some((group, filter)) = group_of(text) {
            let mut address = format!("$g/{group}/");
            in_tenant(&tenant, filter, &mut address);
            return Ok(Source {
                address,
                shows: Shows::Topic,
                durable: false,
            });
        }
        match front.parse(text)? {
            Destination::Topic(filter) => {
                let (key, is_pattern) = topic_key(filter, dialect);
                let shows = if is_pattern {
                    Shows::Topic
                } else {
                    Shows::AsSubscribed
                };
                let exchange = exchange_address(&tenant, TOPIC_EXCHANGE);
                StompFront::bound(cx, session, frame, wishes, (&exchange, &key, shows))
            }
            Destination::Exchange { name, key } => {
                let exchange = exchange_address(&tenant, &name);
                let key = key.unwrap_or_default();
                StompFront::bound(
                    cx,
                    session,
                    frame,
                    wishes,
                    (&exchange, &key, Shows::Exchange),
                )
            }
            Destination::Queue(name) => {
                let address = queue_address(&tenant, &name);
                let is_there = !matches!(
                    cx.kernel.inspect_queue(session, &address),
                    Err(Refusal::NoQueue)
                );
                if !is_there || wishes.are_any {
                    let spec = QueueSpec {
                        address: &address,
                        durable: wishes.durable.unwrap_or(true),
                        exclusive: wishes.exclusive.unwrap_or(false),
                        is_named_by_broker: false,
                        auto_delete: wishes.auto_delete.unwrap_or(false),
                        limits: wishes.limits,
                    };
                    declare(cx.kernel, session, &spec, text, cx.now, cx.links)?;
                }
                let shows = Shows::Queue(address.as_str().into());
                Ok(Source {
                    address,
                    shows,
                    durable: false,
                })
            }
            Destination::AmqQueue(name) => existing(queue_address(&tenant, &name)),
            Destination::ReplyQueue(name) => existing(queue_address(&tenant, name)),
            Destination::TempQueue(_) => {
                let address = StompFront::temporary(cx, session, text)?;
                Ok(Source {
                    address,
                    shows: Shows::AsSubscribed,
                    durable: false,
                })
            }
        }
    }

    /// A queue of the subscription's own, or a durable one that it shares, bound to an exchange.
    #[allow(clippy::too_many_arguments)] // One step of `source`, which has gathered them.
    fn bound(
        cx: &mut Cx<'_>,
        session: SessionId,
        frame: &SubscribeFrame<'_>,
        mut wishes: Wishes,
        (exchange, key, shows): (&str, &str, Shows),
    ) -> Result<Source, Trouble> {
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Err(Trouble::new("gone", ""));
        };
        let durable = front.durable_queue(frame, &wishes)?;
        let is_durable = durable.is_some();
        let is_shared = is_durable || wishes.name.is_some();
        // One without a name from the client is not seen as a queue: its messages leave as a session's do.
        wishes.limits.priority_shares = wishes.name.is_none();
        let name = durable
            .or(wishes.name.map(String::from))
            .unwrap_or_else(|| front.new_name(SUBSCRIPTION_QUEUES, cx.kernel));
        let address = queue_address(&front.tenant, &name);
        let spec = QueueSpec {
            address: &address,
            durable: is_durable,
            exclusive: wishes.exclusive.unwrap_or(!is_shared),
            is_named_by_broker: !is_shared,
            auto_delete: wishes.auto_delete.unwrap_or(!is_durable),
            limits: wishes.limits,
        };
        let existed = declare(
            cx.kernel,
            session,
            &spec,
            &frame.destination,
            cx.now,
            cx.links,
        )?;
        // A new queue of the subscription's own has no other binding; one that is found again may have had another selector.
        let arguments: Vec<_> = selector_of(&frame.headers)
            .map(|text| ("x-filter".into(), PropertyValue::Text((&*text).into())))
            .into_iter()
            .collect();
        let bind = BindSpec {
            exchange,
            to: BindTo::Queue(&address),
            key,
            arguments: &arguments,
        };
        let refused =
            |refusal| Trouble::refused(refusal, &format!("SUBSCRIBE to {}", frame.destination));
        let bound = match existed && is_durable {
            true => cx.kernel.bind_instead(session, &bind, cx.links),
            false => cx.kernel.bind(session, &bind, cx.links),
        };
        bound.map_err(refused)?;
        // A subscriber that comes back has had them.
        if !existed && is_true(&frame.headers, &["x-last-value"]) {
            cx.kernel
                .recall(session, &bind, cx.now, cx.links)
                .map_err(refused)?;
        }
        Ok(Source {
            address,
            shows,
            durable: is_durable,
        })
    }

    /// The name of the queue of a durable subscription, if it is one: as RabbitMQ asks for it, or as ActiveMQ.
    fn durable_queue(
        &self,
        frame: &SubscribeFrame<'_>,
        wishes: &Wishes,
    ) -> Result<Option<String>, Trouble> {
        if let Some(name) = self.durable_of_client(&frame.headers) {
            return Ok(Some(name));
        }
        if wishes.durable != Some(true) {
            return Ok(None);
        }
        if let Some(name) = &wishes.name {
            return Ok(Some(name.to_string()));
        }
        let Some(id) = &frame.id else {
            let body = "durable:true needs an id, by which the subscription is found again\n";
            return Err(Trouble::new("Missing Header", body));
        };
        Ok(Some(durable_name(&[id, &frame.destination])))
    }

    /// ActiveMQ: the client's name and that of the subscription.
    fn durable_of_client(&self, headers: &Headers<'_>) -> Option<String> {
        let client = self.client.as_deref()?;
        let name = first(
            headers,
            &["activemq.subscriptionName", "durable-subscription-name"],
        )?;
        Some(durable_name(&[client, &name]))
    }

    /// The queue that a temporary destination stands for on this connection; made if it is not there.
    pub(super) fn temporary(
        cx: &mut Cx<'_>,
        session: SessionId,
        destination: &str,
    ) -> Result<String, Trouble> {
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Err(Trouble::new("gone", ""));
        };
        if let Some((_, address)) = front
            .temporaries
            .iter()
            .find(|(known, _)| **known == *destination)
        {
            return Ok(address.to_string());
        }
        if front.temporaries.len() >= front.settings.subscriptions_max {
            let body =
                "the connection has as many temporary queues as it may have; use them again\n";
            return Err(Trouble::new("too many temporary queues", body));
        }
        let name = front.new_name(TEMPORARY_QUEUES, cx.kernel);
        let address = queue_address(&front.tenant, &name);
        let limits = QueueLimits {
            priority_shares: true,
            ..QueueLimits::default()
        };
        // It stays when its consumer goes: answers may still come.
        let spec = QueueSpec {
            address: &address,
            durable: false,
            exclusive: true,
            is_named_by_broker: true,
            auto_delete: false,
            limits,
        };
        declare(cx.kernel, session, &spec, destination, cx.now, cx.links)?;
        if let Some(front) = StompFront::of(cx.links, cx.id) {
            front
                .temporaries
                .push((destination.into(), address.as_str().into()));
        }
        Ok(address)
    }

    /// Where answers to `/temp-queue/…` go: its queue, which the peer consumes from now on if it did not yet, under the
    /// destination as the subscription's id.
    pub(super) fn answers_to(
        cx: &mut Cx<'_>,
        session: SessionId,
        destination: &str,
    ) -> Result<String, Trouble> {
        let address = StompFront::temporary(cx, session, destination)?;
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Err(Trouble::new("gone", ""));
        };
        if front.subscriptions.has_destination(destination) {
            return Ok(address);
        }
        front.check_room()?;
        let line = front.subscriptions.new_line();
        front.subscriptions.add(Subscription {
            line,
            id: Some(destination.into()),
            destination: destination.into(),
            shows: Shows::AsSubscribed,
            ack: AckMode::Auto,
            durable: None,
            tag_last: 0,
        });
        let spec = ConsumeSpec {
            source: &address,
            line,
            consumer: CONSUMER,
            credit: 0,
            settles: false,
            exclusive: false,
            priority: 0,
            no_local: false,
            filter: None,
        };
        match cx.kernel.consume(session, &spec, cx.now, cx.links) {
            Ok(()) => Ok(address),
            Err(refusal) => Err(Trouble::refused(refusal, destination)),
        }
    }

    pub(super) fn on_unsubscribe(
        cx: &mut Cx<'_>,
        frame: &UnsubscribeFrame<'_>,
    ) -> Result<(), Trouble> {
        let Some(session) = cx.session() else {
            return Ok(());
        };
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Ok(());
        };
        let found = match (&frame.id, &frame.destination) {
            (Some(id), _) => front.subscriptions.by_id(id),
            (None, Some(destination)) => front.subscriptions.by_destination(destination),
            (None, None) => None,
        };
        let line = found.map(|found| found.line);
        let of_client = front
            .durable_of_client(&frame.headers)
            .map(|name| queue_address(&front.tenant, &name));
        let ended = line.and_then(|line| front.subscriptions.remove(line));
        if ended.is_none() && of_client.is_none() {
            let name = frame
                .id
                .as_deref()
                .or(frame.destination.as_deref())
                .unwrap_or_default();
            let body = format!(
                "UNSUBSCRIBE must refer to an existing subscription. Subscription to {name} not found.\n"
            );
            return Err(Trouble::new("No subscription found", body));
        }
        if let Some(line) = line {
            cx.kernel.close_line(session, line, cx.now, cx.links);
        }
        let forgets = is_true(&frame.headers, &["durable", "persistent"]);
        let durable = ended.and_then(|ended| ended.durable).filter(|_| forgets);
        let Some(queue) = of_client.or(durable.map(String::from)) else {
            return Ok(());
        };
        // The subscription is gone already, so the frame cannot be handled again for the rest.
        let deleted = loop {
            match cx
                .kernel
                .delete_queue(session, &queue, false, false, cx.now, cx.links)
            {
                Ok(Deleted::InPart) => {}
                deleted => break deleted,
            }
        };
        match deleted {
            Ok(_) | Err(Refusal::NoQueue) => Ok(()),
            Err(refusal) => Err(Trouble::refused(
                refusal,
                "UNSUBSCRIBE from a durable subscription",
            )),
        }
    }
}

fn existing(address: String) -> Result<Source, Trouble> {
    let shows = Shows::Queue(address.as_str().into());
    Ok(Source {
        address,
        shows,
        durable: false,
    })
}

/// Declares a queue; whether it was there already.
fn declare(
    kernel: &mut Kernel,
    session: SessionId,
    spec: &QueueSpec<'_>,
    destination: &str,
    now: Time,
    links: &mut Links,
) -> Result<bool, Trouble> {
    match kernel.declare_queue(session, spec, now, links) {
        Ok(status) => Ok(status.existed),
        Err(refusal) => Err(Trouble::refused(
            refusal,
            &format!("the queue of {destination}"),
        )),
    }
}

/// What the messages of a subscription must say, if SUBSCRIBE says so.
fn selector_of<'b>(headers: &Headers<'b>) -> Option<Cow<'b, str>> {
    headers
        .get("selector")
        .filter(|text| !text.trim().is_empty())
}

/// How many deliveries may be unsettled, if SUBSCRIBE says.
fn credit(headers: &Headers<'_>) -> Result<Option<u32>, Trouble> {
    number(headers, &["prefetch-count", "activemq.prefetchSize"])
}

fn first<'b>(headers: &Headers<'b>, names: &[&str]) -> Option<Cow<'b, str>> {
    names.iter().find_map(|name| headers.get(name))
}

fn is_true(headers: &Headers<'_>, names: &[&str]) -> bool {
    first(headers, names).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
}

fn number<N: std::str::FromStr>(
    headers: &Headers<'_>,
    names: &[&str],
) -> Result<Option<N>, Trouble> {
    let Some(value) = first(headers, names) else {
        return Ok(None);
    };
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => {
            let body = format!(
                "header '{}' is '{value}', but should be a whole number\n",
                names.join("' or '")
            );
            Err(Trouble::new("precondition_failed", body))
        }
    }
}
