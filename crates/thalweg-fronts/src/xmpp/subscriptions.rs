//! Subscriptions to nodes. One lasts as long as its session.

use super::presence::Contacts;
use super::pubsub::{
    Asked, DATA, FORBIDDEN, INVALID_JID, INVALID_OPTIONS, NO_ROOM, NOT_ACCEPTABLE, NOT_IMPLEMENTED,
    NOT_SUBSCRIBED, PUBSUB, Refused, TOO_MANY, address_of, node, node_of,
};
use super::{OUTPUT_BYTES_MAX, XmppFront};
use crate::front::{Cx, Variant};
use std::collections::BTreeMap;
use thalweg_kernel::{Kernel, LastValueWish, SessionId, Wish};
use thalweg_model::place::{Place, place};
use thalweg_model::{Filter, Reliability, presence};
use thalweg_xmpp::{Element, Jid, Stanza, put_attribute};

/// The group that subscribers of a queue's node are: each of its messages goes to one of them.
const GROUP: &str = "xmpp";

/// What the client has subscribed to.
#[derive(Default)]
pub(super) struct Nodes {
    /// Subscriptions by their node and filter; a node may have several, which differ in depth.
    by_filter: BTreeMap<Box<str>, Subscription>,
    bytes: usize,
}

struct Subscription {
    node: Box<str>,
    /// The kernel's number for it, and, written out, its `subid`.
    number: u32,
}

impl Nodes {
    /// Octets that all take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of a subscription.
    pub(super) fn number(&self, filter: &str) -> Option<u32> {
        self.by_filter.get(filter).map(|known| known.number)
    }

    fn insert(&mut self, filter: &str, node: Box<str>, number: u32) {
        self.bytes += ENTRY_BYTES + node.len() + filter.len();
        let subscription = Subscription { node, number };
        self.by_filter.insert(filter.into(), subscription);
    }

    fn remove(&mut self, filter: &str) {
        if let Some(gone) = self.by_filter.remove(filter) {
            self.bytes -= ENTRY_BYTES + gone.node.len() + filter.len();
        }
    }

    /// Takes over those of a session that has outlived the broker, and returns the greatest of their numbers.
    pub(super) fn restore(
        &mut self,
        contacts: &mut Contacts,
        kernel: &Kernel,
        client: &str,
    ) -> u32 {
        let mut greatest = 0;
        kernel.for_each_subscription(Some(client), |held| {
            // Subscriptions to nodes have numbers.
            if held.id == 0
                && let Some(told) = presence::name_of(&held.filter)
            {
                contacts.insert(&told.name);
                return;
            }
            let below = ["/+", "/#"]
                .iter()
                .find_map(|end| held.filter.strip_suffix(end));
            let node = node_of(below.unwrap_or(&held.filter));
            self.insert(&held.filter, node.into(), held.id);
            greatest = greatest.max(held.id);
        });
        greatest
    }
}

/// What a subscription costs beside its texts.
const ENTRY_BYTES: usize = 128;

impl XmppFront {
    /// The filter of a node and a depth.
    fn filter_of(&self, node: &str, depth: Option<&str>) -> Result<Box<str>, Refused> {
        let mut filter = match self.settings.node_wildcards {
            true => node.to_owned(),
            false => address_of(node).ok_or(NOT_ACCEPTABLE)?,
        };
        match depth {
            None | Some("0") => {}
            Some("1") => filter.push_str("/+"),
            Some("all") => filter.push_str("/#"),
            Some(_) => return Err(INVALID_OPTIONS),
        }
        Filter::from_canonical(&filter).map_err(|_| NOT_ACCEPTABLE)?;
        Ok(filter.into())
    }

    pub(super) fn on_subscribe(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        subscribe: Element<'_>,
        options: Option<Element<'_>>,
    ) -> Result<(), Refused> {
        let session = cx.session().ok_or(FORBIDDEN)?;
        let front = XmppFront::of(cx.links, cx.id).ok_or(FORBIDDEN)?;
        let node = node(subscribe)?;
        front.check_jid(subscribe)?;
        let depth = options.and_then(|options| option(options, "pubsub#subscription_depth"));
        let filter = front.filter_of(&node, depth.as_deref())?;
        let known = front.nodes.number(&filter);
        let number = known.unwrap_or_else(|| {
            front.names += 1;
            front.names
        });
        if known.is_none() {
            front.nodes.insert(&filter, node.into(), number);
            let kept = front.kept_bytes();
            if !cx.links.count_kept(cx.id, kept, cx.kernel) {
                XmppFront::drop_subscription(cx, &filter);
                return Err(NO_ROOM);
            }
        }
        let id = stanza.id().unwrap_or_default().into();
        let asked = XmppFront::subscribe(cx, session, id, &filter, number);
        if asked.is_err() && known.is_none() {
            XmppFront::drop_subscription(cx, &filter);
        }
        asked
    }

    /// How surely something can be delivered: what is not acknowledged, not more than once.
    pub(super) fn reliability(&self) -> Reliability {
        match self.side.management() {
            Some(_) => Reliability::AtLeastOnce,
            None => Reliability::AtMostOnce,
        }
    }

    /// Asks the kernel for a subscription that is in the table.
    pub(super) fn subscribe(
        cx: &mut Cx<'_>,
        session: SessionId,
        id: Box<str>,
        filter: &str,
        number: u32,
    ) -> Result<(), Refused> {
        let front = XmppFront::of(cx.links, cx.id).ok_or(FORBIDDEN)?;
        let asked = Asked::Subscribe {
            id,
            filter: filter.into(),
        };
        let ticket = front.ask(asked).ok_or(NO_ROOM)?;
        let wish = Wish {
            filter,
            group: group_of(filter),
            reliability: front.reliability(),
            no_local: false,
            retain_as_published: false,
            last_values: LastValueWish::Always,
            id: number,
        };
        cx.kernel
            .subscribe(session, ticket, &[wish], cx.now, cx.links);
        Ok(())
    }

    /// Whether a subscription is for the client itself.
    fn check_jid(&self, element: Element<'_>) -> Result<(), Refused> {
        let jid = element
            .attribute("jid")
            .and_then(|jid| Jid::parse(&jid).ok());
        match jid {
            Some(jid) if self.is_own(jid.as_str()) => Ok(()),
            _ => Err(INVALID_JID),
        }
    }

    pub(super) fn on_unsubscribe(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        unsubscribe: Element<'_>,
    ) -> Result<(), Refused> {
        let session = cx.session().ok_or(FORBIDDEN)?;
        let front = XmppFront::of(cx.links, cx.id).ok_or(FORBIDDEN)?;
        let node = node(unsubscribe)?;
        front.check_jid(unsubscribe)?;
        let subid = unsubscribe.attribute("subid");
        let is_meant = |subscription: &Subscription| {
            *subscription.node == *node
                && subid
                    .as_ref()
                    .is_none_or(|subid| subscription.number.to_string() == **subid)
        };
        let by_filter = front.nodes.by_filter.iter();
        let meant: Vec<Box<str>> = by_filter
            .filter(|(_, subscription)| is_meant(subscription))
            .map(|(filter, _)| filter.clone())
            .collect();
        if meant.is_empty() {
            return Err(NOT_SUBSCRIBED);
        }
        let filters: Vec<(&str, Option<&str>)> = meant
            .iter()
            .map(|filter| (&**filter, group_of(filter)))
            .collect();
        cx.kernel
            .unsubscribe(session, 0, &filters, cx.now, cx.links);
        for filter in &meant {
            XmppFront::drop_subscription(cx, filter);
        }
        XmppFront::reply(cx, stanza, |_| {});
        Ok(())
    }

    fn drop_subscription(cx: &mut Cx<'_>, filter: &str) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        front.nodes.remove(filter);
        let kept = front.kept_bytes();
        cx.links.count_kept(cx.id, kept, cx.kernel);
    }

    pub(super) fn on_subscriptions(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        asked: Element<'_>,
    ) -> Result<(), Refused> {
        let of = asked.attribute("node");
        let (id, from) = (stanza.id().unwrap_or_default(), stanza.to());
        XmppFront::write(cx.links, cx.id, |front, out| {
            front.put_long_answer(&id, from.as_deref(), out, |front, room, out| {
                out.extend_from_slice(
                    format!("<pubsub xmlns='{PUBSUB}'><subscriptions>").as_bytes(),
                );
                let of = |node: &str| of.as_ref().is_none_or(|of| **of == *node);
                let meant = front.nodes.by_filter.values();
                for subscription in meant.filter(|subscription| of(&subscription.node)) {
                    (out.len() <= room.min(OUTPUT_BYTES_MAX)).then_some(())?;
                    put_subscription(subscription, &front.address, out);
                }
                out.extend_from_slice(b"</subscriptions></pubsub>");
                Some(())
            });
        });
        Ok(())
    }

    /// A request to subscribe was granted, or refused.
    pub(super) fn put_subscribed(
        &mut self,
        id: &str,
        filter: &str,
        refused: Option<Refused>,
        out: &mut Vec<u8>,
    ) {
        let service = self.service.clone();
        let mut answer = Vec::new();
        match (refused, self.nodes.by_filter.get(filter)) {
            (None, Some(subscription)) => {
                answer.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'>").as_bytes());
                put_subscription(subscription, &self.address, &mut answer);
                answer.extend_from_slice(b"</pubsub>");
                self.put_answer("result", id, Some(&service), out, |out| {
                    out.extend_from_slice(&answer);
                });
            }
            (refused, _) => {
                // It goes with the next change of its table.
                self.nodes.remove(filter);
                let error = refused.unwrap_or(NO_ROOM);
                self.put_answer("error", id, Some(&service), out, |out| error.put(out));
            }
        }
    }
}

/// The group by which a filter is subscribed to: that of a queue's node.
fn group_of(filter: &str) -> Option<&'static str> {
    matches!(place(filter), Place::Queue { .. }).then_some(GROUP)
}

/// What a kernel says of a subscription, as an error.
pub(super) fn refusal(subscribed: thalweg_kernel::Subscribed) -> Option<Refused> {
    use thalweg_kernel::Subscribed::*;
    match subscribed {
        Granted(_) => None,
        Denied => Some(FORBIDDEN),
        TooMany => Some(TOO_MANY),
        BadFilter => Some(NOT_ACCEPTABLE),
        NoShared | NoWildcards => Some(NOT_IMPLEMENTED),
    }
}

fn put_subscription(subscription: &Subscription, jid: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<subscription");
    put_attribute("node", &subscription.node, out);
    put_attribute("jid", jid, out);
    put_attribute("subid", &subscription.number.to_string(), out);
    put_attribute("subscription", "subscribed", out);
    out.extend_from_slice(b"/>");
}

/// The value of a field of a form.
fn option(options: Element<'_>, name: &str) -> Option<String> {
    let fields = options.child("x", DATA)?.children();
    let mut named = fields.filter(|field| field.attribute("var").as_deref() == Some(name));
    let value = named.next()?.child("value", DATA)?;
    Some(value.text().trim().to_owned())
}
