//! XEP-0060 at `pubsub.DOMAIN`: a node is an address, its items are its last value, an item is a message.
//!
//! A node is there before anything is published to it, so that creating one only says its name. A subscription lasts as
//! long as the connection. `pubsub#subscription_depth` of XEP-0248 makes it one to what is below the node.

use super::presence::Contacts;
use super::{XmppFront, payload};
use crate::front::{Cx, Variant};
use std::collections::BTreeMap;
use thalweg_kernel::{Draft, Kernel, LastValueWish, Outcome, SessionId, Wish};
use thalweg_model::octets as address;
use thalweg_model::place::{Place, place};
use thalweg_model::{
    Address, Details, Filter, Message, Properties, Reliability, RetainOp, presence,
};
use thalweg_xmpp::{Element, ErrorType, Jid, Stanza, StanzaError, Tree, put_attribute};

pub(super) const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
pub(super) const EVENT: &str = "http://jabber.org/protocol/pubsub#event";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
const ERRORS: &str = "http://jabber.org/protocol/pubsub#errors";
const DATA: &str = "jabber:x:data";

/// The name of an item whose publisher gave it none, XEP-0060, 12.20.
const CURRENT: &str = "current";

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

/// A request that waits for the kernel's answer.
pub(super) enum Asked {
    /// The presence of a name.
    Contact {
        name: Box<str>,
        /// The client has sent a stanza for it, which has an answer.
        answers: bool,
    },
    Subscribe {
        id: Box<str>,
        filter: Box<str>,
    },
    Items {
        id: Box<str>,
        node: Box<str>,
        /// The items that are wanted; all if there are none.
        wanted: Vec<Box<str>>,
    },
    /// The nodes that have items.
    Nodes {
        id: Box<str>,
    },
}

/// What a request is refused with.
pub(super) type Refused = StanzaError;

const BAD_REQUEST: Refused = StanzaError::new(ErrorType::Modify, "bad-request");
const NODE_REQUIRED: Refused = BAD_REQUEST.with("nodeid-required", ERRORS);
const INVALID_JID: Refused = BAD_REQUEST.with("invalid-jid", ERRORS);
const ITEM_REQUIRED: Refused = BAD_REQUEST.with("item-required", ERRORS);
const INVALID_PAYLOAD: Refused = BAD_REQUEST.with("invalid-payload", ERRORS);
const INVALID_OPTIONS: Refused = BAD_REQUEST.with("invalid-options", ERRORS);
const FORBIDDEN: Refused = StanzaError::new(ErrorType::Auth, "forbidden");
const NOT_ACCEPTABLE: Refused = StanzaError::new(ErrorType::Modify, "not-acceptable");
const TOO_MANY: Refused =
    StanzaError::new(ErrorType::Wait, "policy-violation").with("too-many-subscriptions", ERRORS);
pub(super) const NO_ROOM: Refused = StanzaError::new(ErrorType::Wait, "resource-constraint");
const NOT_SUBSCRIBED: Refused =
    StanzaError::new(ErrorType::Cancel, "unexpected-request").with("not-subscribed", ERRORS);
const NOT_IMPLEMENTED: Refused = StanzaError::new(ErrorType::Cancel, "feature-not-implemented");

/// The canonical address of a node; none if it cannot be one.
fn address_of(node: &str) -> Option<String> {
    let mut canonical = String::with_capacity(node.len());
    address::read(node.as_bytes(), &mut canonical);
    Address::check(&canonical).ok()?;
    Some(canonical)
}

/// The node of a canonical address.
fn node_of(canonical: &str) -> String {
    let mut node = Vec::with_capacity(canonical.len());
    address::write(canonical, &mut node);
    String::from_utf8_lossy(&node).into_owned()
}

fn node(element: Element<'_>) -> Result<String, Refused> {
    match element.attribute("node") {
        Some(node) if !node.is_empty() => Ok(node.into_owned()),
        _ => Err(NODE_REQUIRED),
    }
}

impl XmppFront {
    /// A request to the service.
    pub(super) fn on_pubsub(cx: &mut Cx<'_>, stanza: Stanza<'_>) {
        let Some(payload) = stanza.payload() else {
            return XmppFront::reply_error(cx, stanza, BAD_REQUEST);
        };
        let is_set = stanza.type_() == "set";
        let done = match (payload.namespace(), is_set) {
            (PUBSUB | OWNER, _) => {
                let options = payload.child("options", PUBSUB);
                let action = payload.children().find(|child| {
                    !matches!(child.name(), "options" | "publish-options" | "configure")
                        || payload.children().count() == 1
                });
                match action {
                    None => Err(BAD_REQUEST),
                    Some(action) => XmppFront::on_action(cx, stanza, action, options, is_set),
                }
            }
            _ => return XmppFront::on_request(cx, stanza),
        };
        if let Err(refused) = done {
            XmppFront::reply_error(cx, stanza, refused);
        }
    }

    fn on_action(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        action: Element<'_>,
        options: Option<Element<'_>>,
        is_set: bool,
    ) -> Result<(), Refused> {
        match (action.name(), is_set) {
            ("publish", true) => XmppFront::on_publish(cx, stanza, action),
            ("retract", true) => {
                action.child("item", PUBSUB).ok_or(ITEM_REQUIRED)?;
                XmppFront::forget(cx, stanza, action)
            }
            ("purge" | "delete", true) => XmppFront::forget(cx, stanza, action),
            ("create", true) => XmppFront::on_create(cx, stanza, action),
            ("subscribe", true) => XmppFront::on_subscribe(cx, stanza, action, options),
            ("unsubscribe", true) => XmppFront::on_unsubscribe(cx, stanza, action),
            ("items", false) => XmppFront::on_items(cx, stanza, action),
            ("subscriptions", false) => XmppFront::on_subscriptions(cx, stanza, action),
            ("configure" | "default", _) => {
                Err(NOT_IMPLEMENTED.with("unsupported feature='config-node'", ERRORS))
            }
            ("affiliations", _) => {
                Err(NOT_IMPLEMENTED.with("unsupported feature='retrieve-affiliations'", ERRORS))
            }
            ("options", _) => {
                Err(NOT_IMPLEMENTED.with("unsupported feature='subscription-options'", ERRORS))
            }
            _ => Err(NOT_IMPLEMENTED),
        }
    }

    // --- messages

    fn on_publish(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        publish: Element<'_>,
    ) -> Result<(), Refused> {
        let node = node(publish)?;
        let address = address_of(&node).ok_or(NOT_ACCEPTABLE)?;
        let mut items = publish.children().filter(|child| child.is("item", PUBSUB));
        let item = items.next().ok_or(ITEM_REQUIRED)?;
        if items.next().is_some() || item.children().count() > 1 {
            return Err(INVALID_PAYLOAD);
        }
        let name = match item.attribute("id") {
            Some(id) if !id.is_empty() => id.into(),
            _ => XmppFront::of(cx.links, cx.id)
                .map(XmppFront::new_name)
                .unwrap_or_default(),
        };
        let mut bytes = Vec::new();
        let mut content_type = None;
        if let Some(element) = item.children().next() {
            content_type = payload::read(element, &mut bytes).ok_or(INVALID_PAYLOAD)?;
        }
        let properties = Properties {
            content_type,
            details: Some(Box::new(Details {
                message_id: Some(name.clone()),
                ..Details::default()
            })),
            ..Properties::default()
        };
        XmppFront::publish(cx, &address, &bytes, RetainOp::Set, Some(&properties))?;
        XmppFront::reply(cx, stanza, |out| {
            out.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'><publish").as_bytes());
            put_attribute("node", &node, out);
            out.extend_from_slice(b"><item");
            put_attribute("id", &name, out);
            out.extend_from_slice(b"/></publish></pubsub>");
        });
        Ok(())
    }

    fn publish(
        cx: &mut Cx<'_>,
        address: &str,
        payload: &[u8],
        retain: RetainOp,
        properties: Option<&Properties>,
    ) -> Result<(), Refused> {
        let session = cx.session().ok_or(FORBIDDEN)?;
        let draft = Draft {
            retain,
            properties,
            ..Draft::new(address, payload, Reliability::AtLeastOnce)
        };
        match cx.publish(session, draft) {
            Outcome::Accepted | Outcome::NoMatch => Ok(()),
            Outcome::Denied => Err(FORBIDDEN),
            Outcome::BadAddress => Err(NOT_ACCEPTABLE),
            Outcome::Full | Outcome::Refused => Err(NO_ROOM),
        }
    }

    /// Retract, purge and delete: the node's last value is forgotten.
    fn forget(cx: &mut Cx<'_>, stanza: Stanza<'_>, action: Element<'_>) -> Result<(), Refused> {
        let address = address_of(&node(action)?).ok_or(NOT_ACCEPTABLE)?;
        XmppFront::publish(cx, &address, b"", RetainOp::Clear, None)?;
        XmppFront::reply(cx, stanza, |_| {});
        Ok(())
    }

    fn on_create(cx: &mut Cx<'_>, stanza: Stanza<'_>, create: Element<'_>) -> Result<(), Refused> {
        let instant = XmppFront::of(cx.links, cx.id)
            .map(XmppFront::new_name)
            .unwrap_or_default();
        let node = node(create).unwrap_or_else(|_| format!("instant/{instant}"));
        address_of(&node).ok_or(NOT_ACCEPTABLE)?;
        XmppFront::reply(cx, stanza, |out| {
            out.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'><create").as_bytes());
            put_attribute("node", &node, out);
            out.extend_from_slice(b"/></pubsub>");
        });
        Ok(())
    }

    fn on_items(cx: &mut Cx<'_>, stanza: Stanza<'_>, items: Element<'_>) -> Result<(), Refused> {
        let node = node(items)?;
        let address = address_of(&node).ok_or(NOT_ACCEPTABLE)?;
        let session = cx.session().ok_or(FORBIDDEN)?;
        let wanted = items.children().filter_map(|item| item.attribute("id"));
        let asked = Asked::Items {
            id: stanza.id().unwrap_or_default().into(),
            node: node.into(),
            wanted: wanted.map(Into::into).collect(),
        };
        let front = XmppFront::of(cx.links, cx.id).ok_or(FORBIDDEN)?;
        let ticket = front.ask(asked).ok_or(NO_ROOM)?;
        let may = cx
            .kernel
            .read_last_value(session, cx.id, ticket, &address, cx.now, cx.links);
        if !may {
            XmppFront::forget_asked(cx, ticket);
            return Err(FORBIDDEN);
        }
        Ok(())
    }

    pub(super) fn forget_asked(cx: &mut Cx<'_>, ticket: thalweg_kernel::Ticket) {
        if let Some(front) = XmppFront::of(cx.links, cx.id) {
            front.asked.remove(&ticket);
        }
    }

    // --- subscriptions

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

    fn on_subscribe(
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

    fn on_unsubscribe(
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

    fn on_subscriptions(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        asked: Element<'_>,
    ) -> Result<(), Refused> {
        let of = asked.attribute("node");
        let (id, from) = (stanza.id().unwrap_or_default(), stanza.to());
        XmppFront::write(cx.links, cx.id, |front, out| {
            let mut list = format!("<pubsub xmlns='{PUBSUB}'><subscriptions>").into_bytes();
            for subscription in front.nodes.by_filter.values() {
                if of.as_ref().is_none_or(|of| **of == *subscription.node) {
                    put_subscription(subscription, &front.address, &mut list);
                }
            }
            list.extend_from_slice(b"</subscriptions></pubsub>");
            front.put_answer("result", &id, from.as_deref(), out, |out| {
                out.extend_from_slice(&list)
            });
        });
        Ok(())
    }

    // --- what is written

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

    /// The last value of a node, as its items.
    pub(super) fn put_items(
        &mut self,
        id: &str,
        node: &str,
        wanted: &[Box<str>],
        value: Option<&Message>,
        out: &mut Vec<u8>,
    ) {
        let service = self.service.clone();
        let mut tree = std::mem::take(&mut self.written);
        self.put_answer("result", id, Some(&service), out, |out| {
            out.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'><items").as_bytes());
            put_attribute("node", node, out);
            out.push(b'>');
            if let Some(message) = value {
                let properties = message.properties().map(crate::native::neutral);
                let name = item_name(properties.as_deref());
                if wanted.is_empty() || wanted.iter().any(|wanted| **wanted == *name) {
                    put_item(
                        name,
                        message.payload(),
                        properties.as_deref(),
                        &mut tree,
                        out,
                    );
                }
            }
            out.extend_from_slice(b"</items></pubsub>");
        });
        self.written = tree;
    }

    /// The content of a notification.
    pub(super) fn put_event(
        canonical: &str,
        payload: &[u8],
        properties: Option<&Properties>,
        tree: &mut Tree,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(format!("<event xmlns='{EVENT}'><items").as_bytes());
        put_attribute("node", &node_of(canonical), out);
        out.push(b'>');
        let properties = properties.map(crate::native::neutral);
        let name = item_name(properties.as_deref());
        put_item(name, payload, properties.as_deref(), tree, out);
        out.extend_from_slice(b"</items></event>");
    }

    /// Nodes that have items, by their addresses.
    pub(super) fn put_nodes<'m>(
        &mut self,
        id: &str,
        addresses: impl Iterator<Item = &'m str>,
        out: &mut Vec<u8>,
    ) {
        let service = self.service.clone();
        self.put_answer("result", id, Some(&service), out, |out| {
            out.extend_from_slice(b"<query xmlns='http://jabber.org/protocol/disco#items'>");
            for address in addresses {
                out.extend_from_slice(b"<item");
                put_attribute("jid", &service, out);
                put_attribute("node", &node_of(address), out);
                out.extend_from_slice(b"/>");
            }
            out.extend_from_slice(b"</query>");
        });
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

fn item_name(properties: Option<&Properties>) -> &str {
    let details = properties.and_then(|properties| properties.details.as_ref());
    details
        .and_then(|details| details.message_id.as_deref())
        .unwrap_or(CURRENT)
}

fn put_item(
    name: &str,
    content: &[u8],
    properties: Option<&Properties>,
    tree: &mut Tree,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"<item");
    put_attribute("id", name, out);
    out.push(b'>');
    let media_type = properties.and_then(|properties| properties.content_type.as_deref());
    payload::write(content, media_type, tree, out);
    out.extend_from_slice(b"</item>");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_addresses_and_come_back() {
        for (node, canonical) in [
            ("plant/line-7/temperature", "plant/line-7/temperature"),
            ("a+b#", "a%2Bb%23"),
            ("100%", "100%"),
            ("%2B", "%252B"),
            ("princely_musings", "princely_musings"),
            ("/a//", "/a//"),
        ] {
            assert_eq!(address_of(node).as_deref(), Some(canonical));
            assert_eq!(node_of(canonical), node);
        }
        assert_eq!(address_of(""), None);
    }
}
