//! XEP-0060 at `pubsub.DOMAIN`: a node is an address, its items are its last value, an item is a message.
//!
//! A node is there before anything is published to it, so that creating one only says its name. A subscription lasts as
//! long as the connection. `pubsub#subscription_depth` of XEP-0248 makes it one to what is below the node.

use super::{XmppFront, payload};
use crate::front::{Cx, Variant};
use thalweg_kernel::{Draft, Outcome};
use thalweg_model::octets as address;
use thalweg_model::{Address, Details, Message, Properties, Reliability, RetainOp};
use thalweg_xmpp::{Element, ErrorType, Stanza, StanzaError, put_attribute};

pub(super) const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
pub(super) const EVENT: &str = "http://jabber.org/protocol/pubsub#event";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
const ERRORS: &str = "http://jabber.org/protocol/pubsub#errors";
pub(super) const DATA: &str = "jabber:x:data";

/// The name of an item whose publisher gave it none, XEP-0060, 12.20.
const CURRENT: &str = "current";

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

impl Asked {
    /// Octets of memory, its place in a table included.
    pub(super) fn bytes(&self) -> usize {
        let texts = match self {
            Asked::Contact { name, .. } => name.len(),
            Asked::Subscribe { id, filter } => id.len() + filter.len(),
            Asked::Items { id, node, wanted } => {
                let names: usize = wanted.iter().map(|name| name.len()).sum();
                id.len() + node.len() + names + wanted.capacity() * size_of::<Box<str>>()
            }
            Asked::Nodes { id } => id.len(),
        };
        texts + size_of::<(thalweg_kernel::Ticket, Asked)>()
    }
}

/// What a request is refused with.
pub(super) type Refused = StanzaError;

const BAD_REQUEST: Refused = StanzaError::new(ErrorType::Modify, "bad-request");
const NODE_REQUIRED: Refused = BAD_REQUEST.with("nodeid-required", ERRORS);
pub(super) const INVALID_JID: Refused = BAD_REQUEST.with("invalid-jid", ERRORS);
const ITEM_REQUIRED: Refused = BAD_REQUEST.with("item-required", ERRORS);
const INVALID_PAYLOAD: Refused = BAD_REQUEST.with("invalid-payload", ERRORS);
pub(super) const INVALID_OPTIONS: Refused = BAD_REQUEST.with("invalid-options", ERRORS);
pub(super) const FORBIDDEN: Refused = StanzaError::new(ErrorType::Auth, "forbidden");
pub(super) const NOT_ACCEPTABLE: Refused = StanzaError::new(ErrorType::Modify, "not-acceptable");
pub(super) const TOO_MANY: Refused =
    StanzaError::new(ErrorType::Wait, "policy-violation").with("too-many-subscriptions", ERRORS);
pub(super) const NO_ROOM: Refused = StanzaError::new(ErrorType::Wait, "resource-constraint");
pub(super) const NOT_SUBSCRIBED: Refused =
    StanzaError::new(ErrorType::Cancel, "unexpected-request").with("not-subscribed", ERRORS);
pub(super) const NOT_IMPLEMENTED: Refused =
    StanzaError::new(ErrorType::Cancel, "feature-not-implemented");

/// The canonical address of a node; none if it cannot be one.
pub(super) fn address_of(node: &str) -> Option<String> {
    let mut canonical = String::with_capacity(node.len());
    address::read(node.as_bytes(), &mut canonical);
    Address::check(&canonical).ok()?;
    Some(canonical)
}

/// The node of a canonical address.
pub(super) fn node_of(canonical: &str) -> String {
    let mut node = Vec::with_capacity(canonical.len());
    address::write(canonical, &mut node);
    String::from_utf8_lossy(&node).into_owned()
}

pub(super) fn node(element: Element<'_>) -> Result<String, Refused> {
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
                let is_alone = payload.children().nth(1).is_none();
                let action = payload.children().find(|child| {
                    is_alone || !matches!(child.name(), "options" | "publish-options" | "configure")
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
            front.take_asked(ticket);
        }
    }

    // --- what is written

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
        self.put_long_answer(id, Some(&service), out, |_, room, out| {
            out.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'><items").as_bytes());
            put_attribute("node", node, out);
            out.push(b'>');
            if let Some(message) = value {
                (message.payload().len() <= room).then_some(())?;
                let properties = message.properties().map(crate::native::neutral);
                let name = item_name(properties.as_deref());
                if wanted.is_empty() || wanted.iter().any(|wanted| **wanted == *name) {
                    put_item(name, message.payload(), properties.as_deref(), out);
                }
            }
            out.extend_from_slice(b"</items></pubsub>");
            Some(())
        });
    }

    /// The content of a notification.
    pub(super) fn put_event(
        canonical: &str,
        payload: &[u8],
        properties: Option<&Properties>,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(format!("<event xmlns='{EVENT}'><items").as_bytes());
        put_attribute("node", &node_of(canonical), out);
        out.push(b'>');
        let properties = properties.map(crate::native::neutral);
        let name = item_name(properties.as_deref());
        put_item(name, payload, properties.as_deref(), out);
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
        self.put_long_answer(id, Some(&service), out, |front, room, out| {
            out.extend_from_slice(b"<query xmlns='http://jabber.org/protocol/disco#items'>");
            for address in addresses {
                (out.len() <= room).then_some(())?;
                out.extend_from_slice(b"<item");
                put_attribute("jid", &front.service, out);
                put_attribute("node", &node_of(address), out);
                out.extend_from_slice(b"/>");
            }
            out.extend_from_slice(b"</query>");
            Some(())
        });
    }
}

fn item_name(properties: Option<&Properties>) -> &str {
    let details = properties.and_then(|properties| properties.details.as_ref());
    details
        .and_then(|details| details.message_id.as_deref())
        .unwrap_or(CURRENT)
}

fn put_item(name: &str, content: &[u8], properties: Option<&Properties>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<item");
    put_attribute("id", name, out);
    out.push(b'>');
    let media_type = properties.and_then(|properties| properties.content_type.as_deref());
    payload::write(content, media_type, out);
    out.extend_from_slice(b"</item>");
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
