//! Personal nodes (XEP-0163): the nodes of an account are the addresses below `$pep/USER@DOMAIN`.
//!
//! The user's own clients publish there. A client says by its capabilities (XEP-0115) which nodes it is interested in
//! (`NODE+notify`); it is subscribed to those of its own account and of its contacts ([`presence`](super::presence)).

use super::XmppFront;
use super::deliver::{again, put_delay};
use super::presence::resources;
use super::pubsub::{NOT_ACCEPTABLE, Refused, address_of};
use crate::address::in_tenant;
use crate::front::{Cx, Variant};
use std::borrow::Cow;
use std::collections::BTreeSet;
use thalweg_kernel::{Content, Delivery, LastValueWish, Tag, Wish};
use thalweg_model::place::{Place, place};
use thalweg_model::syntax::{read_level, write_level};
use thalweg_model::{Address, Reliability};
use thalweg_xmpp::{Element, Jid, Stanza, StanzaKind, put_attribute};

/// The first level of the addresses of personal nodes.
const FIRST: &str = "$pep";
const CAPABILITIES: &str = "http://jabber.org/protocol/caps";
const INFO: &str = "http://jabber.org/protocol/disco#info";
/// Behind the name of a node that a client is interested in.
const NOTIFY: &str = "+notify";
/// Nodes that a client may be interested in; of more the first in order are.
const INTERESTS_MAX: usize = 32;
/// What an interest costs beside its name.
const ENTRY_BYTES: usize = 64;

/// The bare address of the account whose nodes a request is about; none: they are the service's.
pub(super) type Account = Option<Box<str>>;

/// Which personal nodes a client gets the items of.
#[derive(Default)]
pub(super) struct Interests {
    nodes: BTreeSet<Box<str>>,
    bytes: usize,
    /// The capabilities that the client has announced last; empty before it has.
    announced: Box<str>,
    /// The id of our request for them, while it is not answered.
    asked: Option<Box<str>>,
    /// Contacts that were accepted, and are to be followed from the next turn on.
    accepted: Vec<Box<str>>,
}

impl Interests {
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.announced.len()
    }

    pub(super) fn accept(&mut self, contact: &str) {
        self.accepted.push(contact.into());
    }

    pub(super) fn has_accepted(&self) -> bool {
        !self.accepted.is_empty()
    }

    /// Takes over a subscription of a session that has outlived the broker, if it is to a personal node.
    pub(super) fn restore(&mut self, filter: &str) {
        if let Some((_, node)) = read(filter) {
            self.insert(&super::pubsub::node_of(node));
        }
    }

    fn insert(&mut self, node: &str) {
        if self.nodes.len() < INTERESTS_MAX && self.nodes.insert(node.into()) {
            self.bytes += ENTRY_BYTES + node.len();
        }
    }
}

/// The address of a personal node; none if it cannot have one.
fn address(tenant: &str, account: &str, node: &str) -> Option<String> {
    let mut address = String::new();
    in_tenant(tenant, FIRST, &mut address);
    for part in [&*write_level(account), &address_of(node)?] {
        address.push('/');
        address.push_str(part);
    }
    Address::check(&address).ok()?;
    Some(address)
}

/// The account and the node, in its canonical form, of an address of a personal node.
fn read(canonical: &str) -> Option<(Cow<'_, str>, &str)> {
    let Place::Plain { address, .. } = place(canonical) else {
        return None;
    };
    let (account, node) = address
        .strip_prefix(FIRST)?
        .strip_prefix('/')?
        .split_once('/')?;
    Some((read_level(account), node))
}

/// The filter of all nodes of an account.
pub(super) fn all_of(tenant: &str, account: &str) -> String {
    let mut filter = String::new();
    in_tenant(tenant, FIRST, &mut filter);
    filter + "/" + &write_level(account) + "/#"
}

/// The node of an address, as the service or the account calls it.
pub(super) fn node_within<'a>(account: &Account, canonical: &'a str) -> &'a str {
    match account {
        Some(_) => read(canonical).map_or(canonical, |(_, node)| node),
        None => canonical,
    }
}

impl XmppFront {
    /// Whose nodes a request to this address is about: the service's or an account's; none if it has none.
    pub(super) fn account_of(&self, to: &str) -> Option<Account> {
        if *to == *self.service {
            return Some(None);
        }
        let jid = match to {
            "" => Jid::parse(&self.address).ok()?.to_bare(),
            to => Jid::parse(to).ok()?,
        };
        let is_account = jid.domain() == &*self.settings.domain
            && jid.local().is_some()
            && jid.resource().is_none();
        is_account.then(|| Some(jid.as_str().into()))
    }

    /// Whether the client may change the nodes of an account.
    pub(super) fn is_owner(&self, account: &str) -> bool {
        self.user().is_some() && self.is_own(account)
    }

    /// The address from which answers of an account, or of the service, come.
    pub(super) fn home(&self, account: &Account) -> Box<str> {
        account.as_ref().unwrap_or(&self.service).clone()
    }

    pub(super) fn node_address(
        cx: &Cx<'_>,
        account: &Account,
        node: &str,
    ) -> Result<String, Refused> {
        let found = match account {
            None => address_of(node),
            Some(account) => XmppFront::at(cx.links, cx.id)
                .and_then(|front| address(&front.settings.tenant, account, node)),
        };
        found.ok_or(NOT_ACCEPTABLE)
    }

    /// Asks a client that has announced other capabilities than before what they are.
    pub(super) fn on_announced(cx: &mut Cx<'_>, presence: Element<'_>) {
        let Some(announced) = presence.child("c", CAPABILITIES) else {
            return;
        };
        let part = |name| announced.attribute(name).unwrap_or_default();
        let node = format!("{}#{}", part("node"), part("ver"));
        XmppFront::write(cx.links, cx.id, |front, out| {
            if *front.interests.announced == *node {
                return;
            }
            let id = front.new_name();
            let attributes = [
                ("type", "get"),
                ("id", &*id),
                ("from", &*front.settings.domain),
                ("to", &*front.address),
            ];
            front.side.put(StanzaKind::Iq, &attributes, out, |out| {
                out.extend_from_slice(format!("<query xmlns='{INFO}'").as_bytes());
                put_attribute("node", &node, out);
                out.extend_from_slice(b"/>");
            });
            front.interests.announced = node.into();
            front.interests.asked = Some(id);
        });
    }

    /// What the client's capabilities are.
    pub(super) fn on_capabilities(cx: &mut Cx<'_>, answer: Stanza<'_>) {
        let id = answer.id().unwrap_or_default();
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        if front.interests.asked.as_deref() != Some(&*id) {
            return;
        }
        front.interests.asked = None;
        let query = answer.payload().filter(|query| query.is("query", INFO));
        let Some(query) = query.filter(|_| answer.type_() == "result") else {
            return;
        };
        let mut wanted = Interests::default();
        for feature in query.children().filter(|child| child.is("feature", INFO)) {
            let name = feature.attribute("var").unwrap_or_default();
            if let Some(node) = name.strip_suffix(NOTIFY).filter(|node| !node.is_empty()) {
                wanted.insert(node);
            }
        }
        XmppFront::set_interests(cx, wanted);
    }

    /// The client is not available any more, and gets no items.
    pub(super) fn forget_interests(cx: &mut Cx<'_>) {
        XmppFront::set_interests(cx, Interests::default());
        if let Some(front) = XmppFront::of(cx.links, cx.id) {
            front.interests = Interests::default();
        }
    }

    fn set_interests(cx: &mut Cx<'_>, wanted: Interests) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let Ok(own) = Jid::parse(&front.address) else {
            return;
        };
        let before = std::mem::replace(&mut front.interests.nodes, wanted.nodes);
        front.interests.bytes = wanted.bytes;
        let contacts = front.contacts.names().map(|name| front.jid_of(name));
        let accounts: Vec<Box<str>> = std::iter::once(own.bare().into()).chain(contacts).collect();
        let nodes = &front.interests.nodes;
        let ended: Vec<Box<str>> = before.difference(nodes).cloned().collect();
        let begun: Vec<Box<str>> = nodes.difference(&before).cloned().collect();
        let kept = front.kept_bytes();
        cx.links.count_kept(cx.id, kept, cx.kernel);
        XmppFront::unfollow(cx, &accounts, &ended);
        XmppFront::follow(cx, &accounts, &begun);
    }

    /// Subscribes to what accepted contacts say, and to their nodes.
    pub(super) fn follow_accepted(cx: &mut Cx<'_>) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let mut accepted = std::mem::take(&mut front.interests.accepted);
        accepted.retain(|name| front.contacts.has(name));
        if accepted.is_empty() {
            return;
        }
        let tenant = &front.settings.tenant;
        let resources = accepted.iter().map(|name| resources(tenant, name));
        let (resources, reliability) = (resources.collect::<Vec<_>>(), front.reliability());
        let accounts: Vec<_> = accepted.iter().map(|name| front.jid_of(name)).collect();
        let nodes: Vec<_> = front.interests.nodes.iter().cloned().collect();
        XmppFront::subscribe_all(cx, &resources, LastValueWish::Always, reliability);
        XmppFront::follow(cx, &accounts, &nodes);
    }

    /// Subscribes to what all resources of the user say, among which is what this one has said.
    pub(super) fn follow_own(cx: &mut Cx<'_>) {
        let Some(front) = XmppFront::at(cx.links, cx.id) else {
            return;
        };
        let own = front
            .user()
            .map(|user| resources(&front.settings.tenant, user));
        let reliability = front.reliability();
        XmppFront::subscribe_all(cx, own.as_slice(), LastValueWish::Always, reliability);
    }

    /// The client has one contact less.
    pub(super) fn unfollow_contact(cx: &mut Cx<'_>, name: &str) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let account = front.jid_of(name);
        let nodes: Vec<_> = front.interests.nodes.iter().cloned().collect();
        XmppFront::unfollow(cx, &[account], &nodes);
    }

    fn jid_of(&self, name: &str) -> Box<str> {
        format!("{name}@{}", self.settings.domain).into()
    }

    fn filters(&self, accounts: &[Box<str>], nodes: &[Box<str>]) -> Vec<String> {
        let of = |account| {
            let tenant = &self.settings.tenant;
            nodes
                .iter()
                .filter_map(move |node| address(tenant, account, node))
        };
        accounts.iter().flat_map(|account| of(account)).collect()
    }

    /// Subscribes to these nodes of these accounts. What the rules deny, or is too much, is not there.
    fn follow(cx: &mut Cx<'_>, accounts: &[Box<str>], nodes: &[Box<str>]) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let (filters, reliability) = (front.filters(accounts, nodes), front.reliability());
        XmppFront::subscribe_all(cx, &filters, LastValueWish::IfNew, reliability);
    }

    fn subscribe_all(
        cx: &mut Cx<'_>,
        filters: &[String],
        last_values: LastValueWish,
        reliability: Reliability,
    ) {
        let Some(session) = cx.session() else {
            return;
        };
        let wish = |filter| Wish {
            filter,
            group: None,
            reliability,
            no_local: false,
            retain_as_published: false,
            last_values,
            id: 0,
        };
        let wishes: Vec<Wish<'_>> = filters.iter().map(|filter| wish(filter)).collect();
        if !wishes.is_empty() {
            cx.kernel.subscribe(session, 0, &wishes, cx.now, cx.links);
        }
    }

    fn unfollow(cx: &mut Cx<'_>, accounts: &[Box<str>], nodes: &[Box<str>]) {
        let (Some(session), Some(front)) = (cx.session(), XmppFront::of(cx.links, cx.id)) else {
            return;
        };
        let filters = front.filters(accounts, nodes);
        let filters: Vec<_> = filters.iter().map(|filter| (&**filter, None)).collect();
        if !filters.is_empty() {
            cx.kernel
                .unsubscribe(session, 0, &filters, cx.now, cx.links);
        }
    }

    /// Writes the item of a personal node; none if the message is no such item. One that the client has dropped from its interests
    /// meanwhile goes out as well: a delivery that is not written keeps all behind it.
    #[cold]
    pub(super) fn put_personal(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let (account, node) = read(content.address())?;
        let attributes = [
            ("from", &*account),
            ("to", &*self.address),
            ("type", "headline"),
        ];
        let again = again(delivery.tag as Tag);
        self.side
            .put_again(again, StanzaKind::Message, &attributes, out, |out| {
                XmppFront::put_event(content, node, out);
                if delivery.deliveries > 0 || delivery.retain {
                    put_delay(content, &account, out);
                }
            });
        Some(())
    }
}

/// What an account says of itself: [`PEP_FEATURES`] of XEP-0060, and that it is one.
pub(super) fn features() -> Vec<String> {
    let pubsub = PEP_FEATURES
        .iter()
        .map(|name| format!("{}#{name}", super::pubsub::PUBSUB));
    let others = [INFO, super::disco::ITEMS, super::pubsub::PUBSUB];
    others.map(String::from).into_iter().chain(pubsub).collect()
}

/// Features of XEP-0060 that accounts have.
const PEP_FEATURES: &[&str] = &[
    "access-open",
    "access-presence",
    "auto-create",
    "auto-subscribe",
    "config-node",
    "config-node-max",
    "create-and-configure",
    "create-nodes",
    "delete-items",
    "delete-nodes",
    "filtered-notifications",
    "item-ids",
    "last-published",
    "persistent-items",
    "presence-notifications",
    "publish",
    "publish-options",
    "purge-nodes",
    "retract-items",
    "retrieve-default",
    "retrieve-items",
];
