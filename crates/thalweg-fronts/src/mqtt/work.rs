//! What a client says of its work: terms in the user properties of CONNECT and SUBSCRIBE, reports of load in PINGREQ, on
//! acknowledgements and in PUBLISH to `$load/report` (`thalweg_mqtt::load` has the words, docs/protocols/mqtt.md the bytes).
//!
//! Nothing of it can be wrong in a way that ends a connection. It costs a connection that says nothing a pointer.

use super::MqttFront;
use super::publish::Handled;
use crate::front::{Cx, Variant};

use thalweg_kernel::{OrderKey, SettlesWhen, Ticket, WorkTerms};
use thalweg_model::Span;
use thalweg_mqtt::load::{
    CONCURRENCY_PROPERTY, ORDER_PROPERTY, Report, SETTLES_PROPERTY, Unit, WEIGHT_PROPERTY,
};
use thalweg_mqtt::{Load, Properties, Publish, QoS, ReasonCode, Version};

/// What a connection has said of its work.
#[derive(Default)]
pub(super) struct Work {
    /// The terms of CONNECT.
    terms: WorkTerms,
    /// Whether the kernel has them, and how often to expect a report.
    told: bool,
    /// Reports of QoS 2 that wait for their PUBREL.
    held: Vec<Ticket>,
}

/// Reports of QoS 2 that are held at once; beyond that PUBREL is answered with "packet identifier not found".
const HELD_MAX: usize = 64;

/// The terms among the user properties, if there are any, and how many of them are unknown.
pub(super) fn terms_in(properties: &Properties<'_>) -> (Option<WorkTerms>, u64) {
    let mut terms = WorkTerms::default();
    let mut ignored = 0;
    for (name, value) in properties.user_properties() {
        let known = match name {
            CONCURRENCY_PROPERTY => put(&mut terms.concurrency, count(value)),
            WEIGHT_PROPERTY => put(&mut terms.weight, count(value)),
            SETTLES_PROPERTY => put(
                &mut terms.settles,
                match value {
                    "processed" => Some(SettlesWhen::Processed),
                    "received" => Some(SettlesWhen::Received),
                    _ => None,
                },
            ),
            ORDER_PROPERTY => put(
                &mut terms.ordered,
                match value {
                    "key" | "publisher" => Some(OrderKey::Publisher),
                    "topic" => Some(OrderKey::Address),
                    _ => None,
                },
            ),
            _ => true,
        };
        ignored += u64::from(!known);
    }
    ((terms != WorkTerms::default()).then_some(terms), ignored)
}

/// Takes a value if it is one; whether it is.
fn put<T>(into: &mut Option<T>, value: Option<T>) -> bool {
    let known = value.is_some();
    if known {
        *into = value;
    }
    known
}

/// A whole number from 1 to 65,535.
fn count(text: &str) -> Option<u16> {
    text.parse().ok().filter(|count| *count > 0)
}

impl MqttFront {
    /// CONNECT named terms of work; they are passed on when its session is open.
    pub(super) fn hear_terms(cx: &mut Cx<'_>, properties: &Properties<'_>) {
        if properties.is_empty() {
            return;
        }
        let (terms, ignored) = terms_in(properties);
        cx.links.load.terms_ignored += ignored;
        if let (Some(terms), Some(front)) = (terms, MqttFront::of(cx.links, cx.id)) {
            front.work = Some(Box::new(Work {
                terms,
                ..Work::default()
            }));
        }
    }

    /// The session is open: what CONNECT said of its work counts for it.
    pub(super) fn tell_terms_of_connect(cx: &mut Cx<'_>) {
        if MqttFront::of(cx.links, cx.id).is_some_and(|front| front.work.is_some()) {
            MqttFront::tell_terms(cx);
        }
    }

    /// The client works in a group, or reports: what it said with CONNECT counts, and that it will report as often as it
    /// must send something, unless it knows better. A client that does neither costs the kernel nothing.
    pub(super) fn tell_terms(cx: &mut Cx<'_>) {
        let Some(session) = cx.session() else {
            return;
        };
        let Some(front) = MqttFront::of(cx.links, cx.id) else {
            return;
        };
        let keep_alive = front.keep_alive;
        let work = front.work.get_or_insert_default();
        if !work.told {
            work.told = true;
            let report_every = (keep_alive > 0).then(|| Span::from_secs(u64::from(keep_alive)));
            cx.kernel.set_work_terms(
                session,
                None,
                WorkTerms {
                    report_every,
                    ..work.terms
                },
                cx.now,
            );
        }
    }

    /// The client reports its load, in whatever packet.
    #[inline(never)]
    pub(super) fn on_load(cx: &mut Cx<'_>, said: Load) {
        MqttFront::tell_terms(cx);
        if let Some(session) = cx.session() {
            cx.links.report_load(session, said, cx.now, cx.kernel);
        }
    }

    /// A PUBLISH to `$load/report`: not routed, not kept, and not subject to access rules; its sender is the
    /// connection. It is acknowledged like any, whether or not the report is of use.
    #[inline(never)]
    pub(super) fn on_load_publish(cx: &mut Cx<'_>, publish: &Publish<'_>) -> Handled {
        let Some(front) = MqttFront::of(cx.links, cx.id) else {
            return Handled::Done;
        };
        let is_new = publish.qos != QoS::ExactlyOnce || front.hold_report(publish.id);
        if is_new {
            MqttFront::on_load(cx, Report::from_json(publish.payload, Unit::Unsaid));
        }
        MqttFront::write(cx.links, cx.id, |front, out| match publish.qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => front.machine.puback(publish.id, ReasonCode::Success, out),
            QoS::ExactlyOnce => front.machine.pubrec(publish.id, ReasonCode::Success, out),
        });
        Handled::Done
    }

    /// Holds the identifier of a report until it is released; false if it is held already. Only MQTT 5 would see a
    /// difference in the answer to PUBREL.
    fn hold_report(&mut self, ticket: Ticket) -> bool {
        if self.machine.version() != Version::V5 {
            return true;
        }
        let held = &mut self.work.get_or_insert_default().held;
        let is_new = !held.contains(&ticket);
        if is_new && held.len() < HELD_MAX {
            held.push(ticket);
        }
        is_new
    }

    /// Whether a PUBREL is that of a report; it is released.
    #[inline]
    pub(super) fn release_report(&mut self, ticket: Ticket) -> bool {
        let Some(held) = self.work.as_mut().map(|work| &mut work.held) else {
            return false;
        };
        let before = held.len();
        held.retain(|one| *one != ticket);
        held.len() < before
    }
}
