//! Subscriptions: each has a channel of its own, so that what goes wrong with one does not end the others. [§2.2.5: an error
//! of a channel closes it]

use thalweg_amqp::methods::{basic, queue};
use thalweg_amqp::{ClientSide, FieldValue, Method, MethodId, ReplyCode, TableWriter};
use thalweg_model::Reliability;

use super::names::{self, Binding, Source};
use super::refusal_of;
use crate::plugin::{Asked, Cx};
use crate::queues::Session;
use crate::transport::{DeliveryId, Events, Refusal, SubscribeWish, SubscriptionId};

/// The first channel of subscriptions; those before it publish.
const FIRST: u16 = 3;
/// The last: a delivery's name has twelve bits for it.
const LAST: u16 = 0xFFF;
/// The name of the only consumer of a channel.
const CONSUMER_TAG: &str = "s";

/// State that all subscriptions of a connection share.
#[derive(Clone, Debug, Default)]
pub(super) struct Common {
    /// Deliveries of each that may be unsettled; 0: no limit.
    pub(super) prefetch: u16,
    pub(super) session: Session,
    /// The peer is ours: it has groups and last values.
    pub(super) is_thalweg: bool,
}

/// The subscriptions of one connection.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    /// By channel, from [`FIRST`] on.
    places: Vec<Option<Subscription>>,
    /// Counts subscriptions, so that deliveries of one are not taken for those of the next on its channel.
    generation: u8,
}

#[derive(Debug)]
struct Subscription {
    id: SubscriptionId,
    generation: u8,
    stage: Stage,
    source: Source,
    /// The queue that outlives the connection.
    kept: Option<String>,
    /// The queue is there already, and not as we would declare it.
    is_passive: bool,
    settles: bool,
    last_values: bool,
    unsettled: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    /// The channel opens and is not wanted any more.
    Abandoned,
    /// Everything was said; the consumer is not confirmed yet.
    Asked,
    Active,
    Cancelling,
    /// Its deliveries are being settled; then the channel ends.
    Draining,
    Closing,
}

/// Properties of a subscription that a delivery needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiver {
    pub(super) id: SubscriptionId,
    pub(super) delivery: Option<DeliveryId>,
}

impl Subscriptions {
    /// The connection is another one.
    pub(super) fn clear(&mut self) {
        self.places.clear();
    }

    fn get(&mut self, ch: u16) -> Option<&mut Subscription> {
        self.places
            .get_mut(usize::from(ch.checked_sub(FIRST)?))?
            .as_mut()
    }

    fn remove(&mut self, ch: u16) -> Option<Subscription> {
        self.places
            .get_mut(usize::from(ch.checked_sub(FIRST)?))?
            .take()
    }

    fn channel_of(&self, id: SubscriptionId) -> Option<u16> {
        let is_it = |place: &Option<Subscription>| {
            place.as_ref().is_some_and(|it| {
                it.id == id && matches!(it.stage, Stage::Opening | Stage::Asked | Stage::Active)
            })
        };
        self.places
            .iter()
            .position(is_it)
            .map(|at| FIRST + at as u16)
    }

    fn free(&mut self, channel_max: u16) -> Option<u16> {
        let at = self
            .places
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.places.len());
        let ch = u16::try_from(at).ok()?.checked_add(FIRST)?;
        if ch > channel_max.min(LAST) {
            return None;
        }
        if at == self.places.len() {
            self.places.push(None);
        }
        Some(ch)
    }

    pub(super) fn begin(
        &mut self,
        wish: &SubscribeWish<'_>,
        common: &Common,
        machine: &mut ClientSide,
        out: &mut Vec<u8>,
    ) -> Asked {
        let source = names::source(wish.filter)?;
        let taken = self.places.iter().flatten();
        let taken = taken.filter_map(|it| it.kept.as_deref());
        let kept = match source {
            Source::Bound(_) => common.session.queue(wish.filter, taken),
            _ => None,
        };
        let Some(ch) = self.free(machine.channel_max()) else {
            return Err(Refusal::Denied(
                "a connection has no more channels than these subscriptions have".to_owned(),
            ));
        };
        self.generation = self.generation.wrapping_add(1);
        machine.channel_open(ch, out);
        let subscription = Subscription {
            id: wish.subscription,
            generation: self.generation,
            stage: Stage::Opening,
            source,
            kept,
            is_passive: false,
            settles: wish.reliability != Reliability::AtMostOnce,
            last_values: wish.last_values,
            unsettled: 0,
        };
        if let Some(place) = self.places.get_mut(usize::from(ch - FIRST)) {
            *place = Some(subscription);
        }
        Ok(())
    }

    /// A channel is open: says everything that the subscription needs.
    pub(super) fn on_open(
        &mut self,
        ch: u16,
        common: &Common,
        machine: &mut ClientSide,
        out: &mut Vec<u8>,
    ) {
        let Some(it) = self.get(ch) else { return };
        if it.stage != Stage::Opening {
            return it.close(ch, machine, out);
        }
        it.stage = Stage::Asked;
        it.ask(ch, common, machine, out);
    }

    /// A consumer is confirmed: from here on messages come.
    pub(super) fn on_consume_ok(&mut self, ch: u16, events: &mut dyn Events) {
        if let Some(it) = self.get(ch)
            && it.stage == Stage::Asked
        {
            it.stage = Stage::Active;
            let granted = if it.settles {
                Reliability::AtLeastOnce
            } else {
                Reliability::AtMostOnce
            };
            events.subscribed(it.id, Ok(granted));
        }
    }

    /// Ends a subscription. Its earlier deliveries can still be settled.
    pub(super) fn end(&mut self, id: SubscriptionId, machine: &mut ClientSide, out: &mut Vec<u8>) {
        let Some(ch) = self.channel_of(id) else {
            return;
        };
        let Some(it) = self.get(ch) else { return };
        if it.stage == Stage::Opening {
            it.stage = Stage::Abandoned;
            return;
        }
        it.stage = Stage::Cancelling;
        let cancel = basic::Cancel {
            consumer_tag: CONSUMER_TAG,
            no_wait: false,
        };
        machine.method(ch, &Method::BasicCancel(cancel), out);
    }

    /// A consumer has ended as we wanted.
    pub(super) fn on_cancel_ok(&mut self, ch: u16, machine: &mut ClientSide, out: &mut Vec<u8>) {
        let Some(it) = self.get(ch) else { return };
        if it.stage != Stage::Cancelling {
            return;
        }
        it.stage = Stage::Draining;
        if let Some(queue) = &it.kept {
            let delete = queue::Delete {
                queue,
                if_unused: true,
                no_wait: true,
                ..queue::Delete::default()
            };
            machine.method(ch, &Method::QueueDelete(delete), out);
        }
        it.end_if_settled(ch, machine, out);
    }

    /// A consumer has ended because its queue has.
    pub(super) fn on_cancel(&mut self, ch: u16, machine: &mut ClientSide, cx: &mut Cx<'_>) {
        let Some(it) = self.get(ch) else { return };
        let why = Refusal::Busy("the subscription's queue is gone".to_owned());
        it.tell_end(why.clone(), why, cx.events);
        it.stage = Stage::Draining;
        it.end_if_settled(ch, machine, cx.out);
    }

    /// The peer has closed a channel and the machine has confirmed that.
    pub(super) fn on_closed_by_peer(
        &mut self,
        ch: u16,
        (code, text, cause): (u16, &str, MethodId),
        machine: &mut ClientSide,
        cx: &mut Cx<'_>,
    ) {
        let Some(it) = self.get(ch) else { return };
        let is_declared_otherwise =
            code == ReplyCode::PreconditionFailed.code() && cause == queue::Declare::ID;
        if it.stage == Stage::Asked && is_declared_otherwise && !it.is_passive && it.kept.is_some()
        {
            // An earlier session of another length has left it; take it as it is.
            it.is_passive = true;
            it.stage = Stage::Opening;
            return machine.channel_open(ch, cx.out);
        }
        // Whatever it was, an active one did work before.
        let busy = Refusal::Busy(text.to_owned());
        it.tell_end(refusal_of(code, text), busy, cx.events);
        self.remove(ch);
    }

    /// Handles a channel that we close because of the peer's error.
    pub(super) fn on_fault(&mut self, ch: u16, why: &Refusal, events: &mut dyn Events) {
        let Some(it) = self.get(ch) else { return };
        it.tell_end(why.clone(), why.clone(), events);
        it.stage = Stage::Closing;
    }

    /// A channel that we closed is closed.
    pub(super) fn on_close_ok(&mut self, ch: u16) {
        self.remove(ch);
    }

    /// Returns the subscription that a delivery belongs to.
    #[inline]
    pub(super) fn receiver(&mut self, ch: u16, tag: u64) -> Option<Receiver> {
        let it = self.get(ch)?;
        let delivery = it.settles.then(|| name(ch, it.generation, tag));
        it.unsettled += u32::from(it.settles);
        Some(Receiver {
            id: it.id,
            delivery,
        })
    }

    /// Settles a delivery on its channel.
    #[inline]
    pub(super) fn settle(
        &mut self,
        delivery: DeliveryId,
        machine: &mut ClientSide,
        out: &mut Vec<u8>,
    ) {
        let (ch, generation, tag) = parts(delivery);
        let Some(it) = self
            .get(ch)
            .filter(|it| it.generation == generation && it.unsettled > 0)
        else {
            return;
        };
        machine.ack(ch, tag, false, out);
        it.unsettled -= 1;
        if it.stage == Stage::Draining {
            it.end_if_settled(ch, machine, out);
        }
    }
}

/// Twelve bits of channel, eight of generation, forty-four of tag: 17 million million deliveries of one subscription.
#[inline]
fn name(ch: u16, generation: u8, tag: u64) -> DeliveryId {
    DeliveryId(u64::from(ch & LAST) << 52 | u64::from(generation) << 44 | tag & ((1 << 44) - 1))
}

#[inline]
fn parts(DeliveryId(name): DeliveryId) -> (u16, u8, u64) {
    (
        (name >> 52) as u16,
        (name >> 44) as u8,
        name & ((1 << 44) - 1),
    )
}

impl Subscription {
    /// Tells that it has ended by itself: for one reason if it has not begun, for another if it has.
    fn tell_end(&self, unbegun: Refusal, begun: Refusal, events: &mut dyn Events) {
        match self.stage {
            Stage::Opening | Stage::Asked => events.subscribed(self.id, Err(unbegun)),
            Stage::Active => events.unsubscribed(self.id, begun),
            _ => {}
        }
    }

    /// Writes all methods of a subscription without waiting for replies: in a pipelined declare, bind and consume an
    /// empty queue name means the queue declared last. [§1.7.2.1]
    fn ask(&self, ch: u16, common: &Common, machine: &mut ClientSide, out: &mut Vec<u8>) {
        let mut say = |method: Method<'_>| machine.method(ch, &method, out);
        if self.settles && common.prefetch > 0 {
            let qos = basic::Qos {
                prefetch_size: 0,
                prefetch_count: common.prefetch,
                global: false,
            };
            say(Method::BasicQos(qos));
        }
        let queue = match &self.source {
            Source::Queue(name) => name,
            Source::Group { name, .. } if common.is_thalweg => name,
            Source::Group { name, inner } => match &**inner {
                Source::Queue(queue) => queue,
                Source::Bound(binding) => {
                    // Others have no groups; a queue that several take from is much the same.
                    let lives_on = common.session.lives_on();
                    let declare = queue::Declare {
                        queue: name,
                        durable: lives_on,
                        auto_delete: !lives_on,
                        ..queue::Declare::default()
                    };
                    self.declare(declare, binding, common, &mut say);
                    name
                }
                // There is no group of a group, see `source`.
                Source::Group { .. } => return,
            },
            Source::Bound(binding) => {
                let name = self.kept.as_deref().unwrap_or_default();
                let is_kept = self.kept.is_some();
                let declare = queue::Declare {
                    queue: name,
                    passive: self.is_passive,
                    durable: is_kept,
                    exclusive: !is_kept,
                    auto_delete: !is_kept,
                    ..queue::Declare::default()
                };
                self.declare(declare, binding, common, &mut say);
                name
            }
        };
        let consume = basic::Consume {
            queue,
            consumer_tag: CONSUMER_TAG,
            no_ack: !self.settles,
            ..basic::Consume::default()
        };
        say(Method::BasicConsume(consume));
    }

    /// Declares a queue, which expires if it is durable, and binds it.
    fn declare(
        &self,
        declare: queue::Declare<'_>,
        binding: &Binding,
        common: &Common,
        say: &mut impl FnMut(Method<'_>),
    ) {
        let (queue, mut buffer) = (declare.queue, Vec::new());
        let mut arguments = TableWriter::new(&mut buffer);
        if let Some(millis) = common.session.expires().filter(|_| declare.durable) {
            arguments.value("x-expires", FieldValue::I64(millis as i64));
        }
        let arguments = arguments.finish();
        say(Method::QueueDeclare(queue::Declare {
            arguments,
            ..declare
        }));
        let mut buffer = Vec::new();
        let mut arguments = TableWriter::new(&mut buffer);
        if self.last_values && common.is_thalweg {
            arguments.bool("x-last-value", true);
        }
        let arguments = arguments.finish();
        let (exchange, routing_key) = (binding.exchange.as_str(), binding.key.as_str());
        say(Method::QueueBind(queue::Bind {
            queue,
            exchange,
            routing_key,
            arguments,
            ..queue::Bind::default()
        }));
    }

    fn end_if_settled(&mut self, ch: u16, machine: &mut ClientSide, out: &mut Vec<u8>) {
        if self.unsettled == 0 {
            self.close(ch, machine, out);
        }
    }

    fn close(&mut self, ch: u16, machine: &mut ClientSide, out: &mut Vec<u8>) {
        self.stage = Stage::Closing;
        let success = ReplyCode::ReplySuccess;
        machine.channel_close(ch, success, "not wanted any more", MethodId::NONE, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_named_by_channel_generation_and_tag() {
        for (ch, generation, tag) in [(3, 0, 1), (0xFFF, 255, (1 << 44) - 1), (17, 9, 123_456_789)]
        {
            assert_eq!(parts(name(ch, generation, tag)), (ch, generation, tag));
        }
    }
}
