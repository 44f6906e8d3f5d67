//! XEP-0060 at `pubsub.DOMAIN`: a node is an address, its items are what it keeps, an item is a message.
//!
//! A node is there before anything is published to it, so that creating one only says its name ([`node`](super::node)).
//! Subscriptions are in [`subscriptions`](super::subscriptions), what reads items is in [`items`](super::items).

use super::chat::TOO_MANY_WAIT;
use super::items::{item_name, put_item};
use super::node::PublishOptions;
use super::pep::{self, Account};
use super::{XmppFront, payload};
use crate::front::{Cx, Variant};
use std::borrow::Cow;
use thalweg_kernel::{Content, Draft, Effects, Outcome};
use thalweg_model::octets as address;
use thalweg_model::place::{Place, place};
use thalweg_model::{Address, Details, Properties, Reliability, RetainOp};
use thalweg_xmpp::{Element, ErrorType, Stanza, StanzaError, StanzaKind, put_attribute, put_head};

pub(super) const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
pub(super) const EVENT: &str = "http://jabber.org/protocol/pubsub#event";
pub(super) const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
pub(super) const ERRORS: &str = "http://jabber.org/protocol/pubsub#errors";

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
        /// The answer is to a change of options, and empty.
        is_change: bool,
    },
    Items {
        id: Box<str>,
        account: Account,
        node: Box<str>,
        /// The items that are wanted; all if there are none.
        wanted: Vec<Box<str>>,
        /// How many, the newest.
        max: usize,
    },
    /// The names of a node's items, for XEP-0030.
    Names {
        id: Box<str>,
        account: Account,
        node: Box<str>,
    },
    /// The last value is to be forgotten if it is the item of this name.
    Retract(Retraction),
    /// The nodes that have items.
    Nodes { id: Box<str>, account: Account },
    /// What became of an item.
    Published(Publishing),
    /// What became of a message to a user.
    Sent {
        question: u64,
        id: Box<str>,
        to: Option<Box<str>>,
    },
}

/// An item that is to be forgotten.
pub(super) struct Retraction {
    pub(super) id: Box<str>,
    pub(super) account: Account,
    pub(super) address: Box<str>,
    pub(super) item: Box<str>,
}

/// A publish that is to be answered.
pub(super) struct Publishing {
    /// Other shards are asked under this number whether they keep it.
    question: u64,
    pub(super) id: Box<str>,
    pub(super) account: Account,
    /// Its node and name, unless something is only to be forgotten.
    item: Option<(Box<str>, Box<str>)>,
}

impl Asked {
    /// Octets of its place in a table.
    const PLACE_BYTES: usize = size_of::<(thalweg_kernel::Ticket, Asked)>();

    /// Octets of memory, its place in a table included.
    pub(super) fn bytes(&self) -> usize {
        self.text_bytes() + Asked::PLACE_BYTES
    }

    fn text_bytes(&self) -> usize {
        let texts = match self {
            Asked::Contact { name, .. } => name.len(),
            Asked::Subscribe { id, filter, .. } => id.len() + filter.len(),
            Asked::Items {
                id, node, wanted, ..
            } => {
                let names: usize = wanted.iter().map(|name| name.len()).sum();
                id.len() + node.len() + names + wanted.capacity() * size_of::<Box<str>>()
            }
            Asked::Names { id, node, .. } => id.len() + node.len(),
            Asked::Retract(Retraction {
                id, address, item, ..
            }) => id.len() + address.len() + item.len(),
            Asked::Nodes { id, .. } => id.len(),
            Asked::Published(Publishing { id, item, .. }) => {
                let item = item.as_ref();
                id.len() + item.map_or(0, |(node, name)| node.len() + name.len())
            }
            Asked::Sent { id, to, .. } => id.len() + to.as_ref().map_or(0, |to| to.len()),
        };
        let account = self.account().map_or(0, |account| account.len());
        account + texts
    }

    /// The account whose node it is about.
    fn account(&self) -> Option<&str> {
        match self {
            Asked::Items { account, .. }
            | Asked::Names { account, .. }
            | Asked::Nodes { account, .. }
            | Asked::Published(Publishing { account, .. })
            | Asked::Retract(Retraction { account, .. }) => account.as_deref(),
            _ => None,
        }
    }

    /// What other shards are asked about it.
    pub(super) fn question(&mut self) -> Option<&mut u64> {
        match self {
            Asked::Published(Publishing { question, .. }) | Asked::Sent { question, .. } => {
                Some(question)
            }
            _ => None,
        }
    }
}

/// What a request is refused with.
pub(super) type Refused = StanzaError;

pub(super) const BAD_REQUEST: Refused = StanzaError::new(ErrorType::Modify, "bad-request");
const NODE_REQUIRED: Refused = BAD_REQUEST.with("nodeid-required", ERRORS);
pub(super) const JID_REQUIRED: Refused = BAD_REQUEST.with("jid-required", ERRORS);
pub(super) const INVALID_JID: Refused = BAD_REQUEST.with("invalid-jid", ERRORS);
const ITEM_REQUIRED: Refused = BAD_REQUEST.with("item-required", ERRORS);
pub(super) const CONFLICT: Refused = StanzaError::new(ErrorType::Cancel, "conflict");
pub(super) const NOT_FOUND: Refused = StanzaError::new(ErrorType::Cancel, "item-not-found");
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

/// The error of an action that is not there, by the feature that would be it, or of one that came as `get` in place of `set`.
fn unsupported(action: &str, namespace: &str) -> Refused {
    let feature = match (action, namespace) {
        ("collection" | "associate" | "disassociate", _) => "unsupported feature='collections'",
        (
            "subscriptions" | "affiliations" | "options" | "default" | "items" | "publish",
            PUBSUB,
        )
        | ("retract" | "create" | "subscribe" | "unsubscribe", PUBSUB)
        | ("purge" | "delete" | "default", OWNER) => return BAD_REQUEST,
        _ => return NOT_IMPLEMENTED,
    };
    NOT_IMPLEMENTED.with(feature, ERRORS)
}

/// The canonical address of a node; none if it cannot be one.
pub(super) fn address_of(node: &str) -> Option<String> {
    let canonical = match address::as_it_is(node.as_bytes()) {
        Some(plain) => plain.into(),
        None => {
            let mut canonical = String::with_capacity(node.len());
            address::read(node.as_bytes(), &mut canonical);
            canonical
        }
    };
    Address::check(&canonical).ok()?;
    Some(canonical)
}

/// The node of a canonical address.
pub(super) fn node_of(canonical: &str) -> Cow<'_, str> {
    if !canonical.contains('%') {
        return canonical.into();
    }
    let mut node = Vec::with_capacity(canonical.len());
    address::write(canonical, &mut node);
    String::from_utf8_lossy(&node).into_owned().into()
}

pub(super) fn node(element: Element<'_>) -> Result<String, Refused> {
    match element.attribute("node") {
        Some(node) if !node.is_empty() => Ok(node.into_owned()),
        _ => Err(NODE_REQUIRED),
    }
}

impl XmppFront {
    /// A request to the service, or to an account.
    pub(super) fn on_pubsub(cx: &mut Cx<'_>, stanza: Stanza<'_>, account: &Account) {
        let Some(payload) = stanza.payload() else {
            return XmppFront::reply_error(cx, stanza, BAD_REQUEST);
        };
        let is_set = stanza.type_() == "set";
        let done = match (payload.namespace(), is_set) {
            (PUBSUB | OWNER, _) => {
                let is_alone = payload.children().nth(1).is_none();
                let action = payload.children().find(|child| {
                    is_alone || !matches!(child.name(), "options" | "publish-options" | "configure")
                });
                match action {
                    None => Err(BAD_REQUEST),
                    Some(action) => {
                        XmppFront::on_action(cx, stanza, account, payload, action, is_set)
                    }
                }
            }
            _ => return XmppFront::on_request(cx, stanza, account),
        };
        if let Err(refused) = done {
            XmppFront::reply_error(cx, stanza, refused);
        }
    }

    fn on_action(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        account: &Account,
        payload: Element<'_>,
        action: Element<'_>,
        is_set: bool,
    ) -> Result<(), Refused> {
        let beside = |name| payload.child(name, PUBSUB);
        let front = XmppFront::at(cx.links, cx.id).ok_or(FORBIDDEN)?;
        if let Some(account) = account {
            let is_change = is_set || action.namespace() == OWNER;
            if is_change && !front.is_owner(account) {
                return Err(FORBIDDEN);
            }
        }
        match (action.name(), is_set, action.namespace()) {
            ("publish", true, PUBSUB) => {
                XmppFront::on_publish(cx, stanza, account, payload, action)
            }
            ("retract", true, PUBSUB) => XmppFront::on_retract(cx, stanza, account, action),
            (name @ ("purge" | "delete"), true, OWNER) => {
                XmppFront::forget(cx, stanza, account, action, name)
            }
            ("create", true, PUBSUB) => {
                XmppFront::on_create(cx, stanza, account, action, beside("configure"))
            }
            ("configure", _, OWNER) => XmppFront::on_configure(cx, stanza, account, action, is_set),
            ("default", false, OWNER) => XmppFront::on_default(cx, stanza, account),
            ("items", false, PUBSUB) => XmppFront::on_items(cx, stanza, account, action),
            // A client says by its capabilities what it subscribes to.
            ("subscribe", true, PUBSUB) if account.is_some() => {
                Err(NOT_IMPLEMENTED.with("unsupported feature='subscribe'", ERRORS))
            }
            _ if account.is_some() => Err(NOT_IMPLEMENTED),
            ("default", false, PUBSUB) => XmppFront::on_default_options(cx, stanza),
            ("subscribe", true, PUBSUB) => {
                XmppFront::on_subscribe(cx, stanza, action, beside("options"))
            }
            ("unsubscribe", true, PUBSUB) => XmppFront::on_unsubscribe(cx, stanza, action),
            ("options", _, PUBSUB) => XmppFront::on_options(cx, stanza, action, is_set),
            ("subscriptions", false, PUBSUB) => XmppFront::on_subscriptions(cx, stanza, action),
            ("affiliations", false, PUBSUB) => XmppFront::on_affiliations(cx, stanza, action),
            // Rights are the operator's; nodes have no other owner.
            ("affiliations" | "subscriptions", _, OWNER) => Err(FORBIDDEN),
            (action, _, namespace) => Err(unsupported(action, namespace)),
        }
    }

    // --- messages

    fn on_publish(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        account: &Account,
        payload: Element<'_>,
        publish: Element<'_>,
    ) -> Result<(), Refused> {
        let node = node(publish)?;
        let address = XmppFront::node_address(cx, account, &node)?;
        let options = XmppFront::publish_options(cx, account, &address, payload)?;
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
        let publishing = Publishing {
            question: 0,
            id: stanza.id().unwrap_or_default().into(),
            account: account.clone(),
            item: Some((node.into(), name)),
        };
        XmppFront::publish(cx, publishing, &address, &bytes, options, Some(&properties))
    }

    fn put_published(
        &mut self,
        id: &str,
        account: &Account,
        (node, name): (&str, &str),
        out: &mut Vec<u8>,
    ) {
        let from = self.home(account);
        self.put_answer("result", id, Some(&from), out, |out| {
            put_head("pubsub", PUBSUB, out);
            out.extend_from_slice(b"><publish");
            put_attribute("node", node, out);
            out.extend_from_slice(b"><item");
            put_attribute("id", name, out);
            out.extend_from_slice(b"/></publish></pubsub>");
        });
    }

    /// What other shards say of a publish is known.
    pub(super) fn on_decided(cx: &mut Cx<'_>, question: u64, is_refused: bool) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let found = front.asked.iter_mut().find_map(|(ticket, asked)| {
            let of = asked.question()?;
            (*of == question).then_some(*ticket)
        });
        let Some(ticket) = found else { return };
        match front.take_asked(ticket) {
            Some(Asked::Published(publishing)) => {
                XmppFront::end_publish(cx, publishing, is_refused);
            }
            Some(Asked::Sent { id, to, .. }) if is_refused => {
                XmppFront::write(cx.links, cx.id, |front, out| {
                    let to = to.as_deref();
                    front.put_error(StanzaKind::Message, &id, to, TOO_MANY_WAIT, out);
                });
            }
            _ => {}
        }
    }

    /// A request waits for what other shards say of what was published for it. So does whatever says that the request was counted.
    pub(super) fn ask_others(cx: &mut Cx<'_>, mut asked: Asked) {
        if let Some(question) = asked.question() {
            *question = cx.kernel.question();
        }
        cx.links.hold(cx.id, cx.kernel.batch_number());
        if let Some(front) = XmppFront::of(cx.links, cx.id) {
            front.ask(asked);
        }
    }

    fn end_publish(cx: &mut Cx<'_>, publishing: Publishing, is_refused: bool) {
        let Publishing {
            id, account, item, ..
        } = publishing;
        XmppFront::write(cx.links, cx.id, |front, out| match (is_refused, item) {
            (true, _) => front.put_result(&id, &account, Some(NO_ROOM), out),
            (false, None) => front.put_result(&id, &account, None, out),
            (false, Some((node, name))) => {
                front.put_published(&id, &account, (&node, &name), out);
            }
        });
    }

    /// Publishes and answers, once other shards have said what became of it.
    fn publish(
        cx: &mut Cx<'_>,
        publishing: Publishing,
        address: &str,
        payload: &[u8],
        options: PublishOptions,
        properties: Option<&Properties>,
    ) -> Result<(), Refused> {
        let session = cx.session().ok_or(FORBIDDEN)?;
        let asked = Asked::Published(publishing);
        XmppFront::check_room(cx, asked.text_bytes())?;
        let draft = Draft {
            retain: options.retain,
            expires_in: options.expires_in,
            properties,
            ..Draft::new(address, payload, Reliability::AtLeastOnce)
        };
        match cx.publish(session, draft) {
            Outcome::Accepted | Outcome::NoMatch => {
                if let Asked::Published(publishing) = asked {
                    XmppFront::end_publish(cx, publishing, false);
                }
                Ok(())
            }
            Outcome::Asked => {
                XmppFront::ask_others(cx, asked);
                Ok(())
            }
            Outcome::Denied => Err(FORBIDDEN),
            Outcome::BadAddress => Err(NOT_ACCEPTABLE),
            Outcome::Full | Outcome::Refused | Outcome::OverRate(_) => Err(NO_ROOM),
        }
    }

    /// Whether there is room for a request that may have to wait, with texts of so many octets.
    pub(super) fn check_room(cx: &mut Cx<'_>, text_bytes: usize) -> Result<(), Refused> {
        let front = XmppFront::of(cx.links, cx.id).ok_or(FORBIDDEN)?;
        let may_ask = front.may_ask(text_bytes + Asked::PLACE_BYTES);
        may_ask.then_some(()).ok_or(NO_ROOM)
    }

    /// Clears the last value and answers the request of this id. `how` is the element by which XEP-0060 notifies subscribers.
    fn clear(
        cx: &mut Cx<'_>,
        (id, account): (&str, &Account),
        address: &str,
        how: &str,
        item: Option<&str>,
    ) -> Result<(), Refused> {
        let properties = Properties {
            details: Some(Box::new(Details {
                kind: Some(how.into()),
                message_id: item.map(Into::into),
                ..Details::default()
            })),
            ..Properties::default()
        };
        let options = PublishOptions {
            retain: RetainOp::Clear,
            expires_in: None,
        };
        let publishing = Publishing {
            question: 0,
            id: id.into(),
            account: account.clone(),
            item: None,
        };
        XmppFront::publish(cx, publishing, address, b"", options, Some(&properties))
    }

    /// The address of a node that has items: a queue has none.
    fn address_of_items(
        cx: &Cx<'_>,
        account: &Account,
        action: Element<'_>,
    ) -> Result<String, Refused> {
        let address = XmppFront::node_address(cx, account, &node(action)?)?;
        match place(&address) {
            Place::Queue { .. } => {
                Err(NOT_IMPLEMENTED.with("unsupported feature='persistent-items'", ERRORS))
            }
            _ => Ok(address),
        }
    }

    /// Purges or deletes a node.
    fn forget(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        account: &Account,
        action: Element<'_>,
        how: &str,
    ) -> Result<(), Refused> {
        let address = XmppFront::address_of_items(cx, account, action)?;
        let id = stanza.id().unwrap_or_default();
        XmppFront::clear(cx, (&id, account), &address, how, None)
    }

    /// The last value is looked at first: if it is another item, nothing is forgotten.
    fn on_retract(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        account: &Account,
        retract: Element<'_>,
    ) -> Result<(), Refused> {
        let item = retract.child("item", PUBSUB).ok_or(ITEM_REQUIRED)?;
        let item = item.attribute("id").ok_or(ITEM_REQUIRED)?;
        let address = XmppFront::address_of_items(cx, account, retract)?;
        XmppFront::check_publisher(cx, &address)?;
        let asked = Asked::Retract(Retraction {
            id: stanza.id().unwrap_or_default().into(),
            account: account.clone(),
            address: address.as_str().into(),
            item: item.as_ref().into(),
        });
        if XmppFront::read(cx, &address, asked) == Err(FORBIDDEN) {
            // Who cannot see what is there can still make it go.
            let id = stanza.id().unwrap_or_default();
            let asked = (&*id, account);
            XmppFront::clear(cx, asked, &address, Details::RETRACT, Some(&item))?;
        }
        Ok(())
    }

    /// Forgets items that were found.
    pub(super) fn retract(cx: &mut Cx<'_>) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        for retraction in std::mem::take(&mut front.retracting) {
            let Retraction {
                id,
                account,
                address,
                item,
            } = retraction;
            let done =
                XmppFront::clear(cx, (&id, &account), &address, Details::RETRACT, Some(&item));
            if let Err(refused) = done {
                XmppFront::write(cx.links, cx.id, |front, out| {
                    front.put_result(&id, &account, Some(refused), out);
                });
            }
        }
    }

    pub(super) fn put_result(
        &mut self,
        id: &str,
        account: &Account,
        refused: Option<Refused>,
        out: &mut Vec<u8>,
    ) {
        let from = self.home(account);
        match refused {
            None => self.put_answer("result", id, Some(&from), out, |_| {}),
            Some(error) => {
                self.put_answer("error", id, Some(&from), out, |out| error.put(out));
            }
        }
    }

    pub(super) fn forget_asked(cx: &mut Cx<'_>, ticket: thalweg_kernel::Ticket) {
        if let Some(front) = XmppFront::of(cx.links, cx.id) {
            front.take_asked(ticket);
        }
    }

    // --- what is written

    /// The content of a notification about the node of this canonical address.
    pub(super) fn put_event(content: &Content<'_>, canonical: &str, out: &mut Vec<u8>) {
        let properties = content.properties().map(crate::native::neutral);
        let properties = properties.as_deref();
        let is_gone = content.retain() == RetainOp::Clear && content.payload().is_empty();
        let details = properties.and_then(|properties| properties.details.as_ref());
        let all = match details.and_then(|details| details.kind.as_deref()) {
            Some(all @ ("purge" | "delete")) if is_gone => all,
            _ => "items",
        };
        put_head("event", EVENT, out);
        out.extend_from_slice(b"><");
        out.extend_from_slice(all.as_bytes());
        put_attribute("node", &node_of(canonical), out);
        if all != "items" {
            return out.extend_from_slice(b"/></event>");
        }
        out.push(b'>');
        let name = item_name(properties);
        if is_gone {
            out.extend_from_slice(b"<retract");
            put_attribute("id", name, out);
            out.extend_from_slice(b"/>");
        } else {
            put_item(name, content.payload(), properties, out);
        }
        out.extend_from_slice(b"</items></event>");
    }

    /// Nodes that have items, by their addresses.
    pub(super) fn put_nodes<'m>(
        &mut self,
        id: &str,
        account: &Account,
        addresses: impl Iterator<Item = &'m str>,
        out: &mut Vec<u8>,
    ) {
        let from = self.home(account);
        self.put_long_answer(id, Some(&from), out, |_, room, out| {
            out.extend_from_slice(b"<query xmlns='http://jabber.org/protocol/disco#items'>");
            for address in addresses {
                (out.len() <= room).then_some(())?;
                out.extend_from_slice(b"<item");
                put_attribute("jid", &from, out);
                let node = pep::node_within(account, address);
                put_attribute("node", &node_of(node), out);
                out.extend_from_slice(b"/>");
            }
            out.extend_from_slice(b"</query>");
            Some(())
        });
    }
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
