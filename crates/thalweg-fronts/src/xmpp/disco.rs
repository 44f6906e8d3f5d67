//! Requests to the server itself, and what it and the service say of themselves (XEP-0030, XEP-0092).

use super::pep::{self, Account};
use super::presence::ROSTER;
use super::pubsub::{Asked, PUBSUB};
use super::{XmppFront, rpc};
use crate::front::{Cx, Variant};
use thalweg_kernel::ListSpec;
use thalweg_xmpp::{ErrorType, Stanza, StanzaError, ns, put_attribute, put_text};

const INFO: &str = "http://jabber.org/protocol/disco#info";
pub(super) const ITEMS: &str = "http://jabber.org/protocol/disco#items";
const VERSION: &str = "jabber:iq:version";

/// Features of XEP-0060 that are there.
const PUBSUB_FEATURES: &[&str] = &[
    "access-open",
    "access-whitelist",
    "auto-create",
    "config-node",
    "config-node-max",
    "create-and-configure",
    "create-nodes",
    "delete-items",
    "delete-nodes",
    "instant-nodes",
    "item-ids",
    "last-published",
    "leased-subscription",
    "member-affiliation",
    "outcast-affiliation",
    "persistent-items",
    "publish",
    "publish-only-affiliation",
    "publish-options",
    "publisher-affiliation",
    "purge-nodes",
    "retract-items",
    "retrieve-affiliations",
    "retrieve-default",
    "retrieve-default-sub",
    "retrieve-items",
    "retrieve-subscriptions",
    "subscribe",
    "subscription-options",
];

/// Lists of nodes that a connection may have the kernel put together at a time.
const LISTS_MAX: usize = 4;

impl XmppFront {
    /// A request to the server, to the service or to an account that is none of XEP-0060.
    pub(super) fn on_request(cx: &mut Cx<'_>, stanza: Stanza<'_>, account: &Account) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let is_service = stanza.to().is_some_and(|to| *to == *front.service);
        let is_rpc = stanza.to().is_some_and(|to| front.rpc_node(&to).is_some());
        let settings = front.settings.clone();
        // What a client sends to no address is for the server, and for its account.
        let account = account.as_ref().filter(|_| stanza.to().is_some());
        let is_others = account.is_some_and(|account| !front.is_own(account));
        let is_roster = !is_service && !is_rpc && !is_others;
        let payload = match (stanza.payload(), &*stanza.type_()) {
            (Some(query), "set") if is_roster && query.is("query", ROSTER) => {
                if let Err(refused) = XmppFront::on_roster_set(cx, stanza, query) {
                    XmppFront::reply_error(cx, stanza, refused);
                }
                return;
            }
            (Some(payload), "get") => payload,
            _ => return XmppFront::unavailable(cx, stanza),
        };
        let node = payload.attribute("node").filter(|node| !node.is_empty());
        match (payload.name(), payload.namespace()) {
            ("query", INFO) if is_rpc => XmppFront::reply(cx, stanza, |out| {
                let identity = ("component", "generic", "Requests");
                put_info(identity, &[INFO, ITEMS, VERSION, ns::PING], None, out);
            }),
            ("query", INFO) if account.is_some() => XmppFront::reply(cx, stanza, |out| {
                let identities = [("account", "registered", ""), ("pubsub", "pep", "")];
                let features = pep::features();
                let features: Vec<&str> = features.iter().map(|name| &**name).collect();
                put_infos(&identities, &features, node.as_deref(), out);
            }),
            ("query", INFO) => XmppFront::reply(cx, stanza, |out| match (is_service, node) {
                (true, Some(node)) => {
                    put_info(("pubsub", "leaf", &node), &[PUBSUB], Some(&node), out)
                }
                (true, None) => put_service(out),
                (false, _) => put_server(settings.offline_messages, out),
            }),
            ("query", ITEMS) if (is_service || account.is_some()) && node.is_none() => {
                XmppFront::list_nodes(cx, stanza, account.cloned());
            }
            ("query", ITEMS) if is_service || account.is_some() => {
                let node = node.unwrap_or_default();
                let account = account.cloned();
                if let Err(refused) = XmppFront::on_names(cx, stanza, &account, &node) {
                    XmppFront::reply_error(cx, stanza, refused);
                }
            }
            ("query", ITEMS) => XmppFront::reply(cx, stanza, |out| {
                out.extend_from_slice(format!("<query xmlns='{ITEMS}'>").as_bytes());
                let services = [("Publish-Subscribe", "pubsub."), ("Requests", rpc::SERVICE)];
                let is_server = !is_service && !is_rpc && node.is_none();
                for (name, prefix) in services.into_iter().filter(|_| is_server) {
                    out.extend_from_slice(b"<item");
                    put_attribute("name", name, out);
                    put_attribute("jid", &format!("{prefix}{}", settings.domain), out);
                    out.extend_from_slice(b"/>");
                }
                out.extend_from_slice(b"</query>");
            }),
            ("query", VERSION) if !is_others => XmppFront::reply(cx, stanza, |out| {
                out.extend_from_slice(
                    format!("<query xmlns='{VERSION}'><name>Thalweg</name><version>").as_bytes(),
                );
                put_text(env!("CARGO_PKG_VERSION"), out);
                out.extend_from_slice(b"</version></query>");
            }),
            ("query", ROSTER) if is_roster => XmppFront::put_roster(cx, stanza),
            ("ping", ns::PING) if !is_others => XmppFront::reply(cx, stanza, |_| {}),
            _ => XmppFront::unavailable(cx, stanza),
        }
    }

    fn unavailable(cx: &mut Cx<'_>, stanza: Stanza<'_>) {
        let error = StanzaError::new(ErrorType::Cancel, "service-unavailable");
        XmppFront::reply_error(cx, stanza, error);
    }

    /// The nodes that have items, as far as one answer goes.
    fn list_nodes(cx: &mut Cx<'_>, stanza: Stanza<'_>, account: Account) {
        let (Some(session), Some(front)) = (cx.session(), XmppFront::of(cx.links, cx.id)) else {
            return;
        };
        let max = front.settings.listed_max;
        let id = stanza.id().unwrap_or_default().into();
        let filter = match &account {
            Some(account) => pep::all_of(&front.settings.tenant, account),
            None => "#".to_owned(),
        };
        let lists = (front.asked.values()).filter(|asked| matches!(asked, Asked::Nodes { .. }));
        let ticket = match lists.count() {
            0..LISTS_MAX => front.ask(Asked::Nodes { id, account }),
            _ => None,
        };
        let Some(ticket) = ticket else {
            let error = StanzaError::new(ErrorType::Wait, "resource-constraint");
            return XmppFront::reply_error(cx, stanza, error);
        };
        let filter = &*filter;
        let wanted = ListSpec { filter, max };
        let may = cx
            .kernel
            .list_last_values(session, cx.id, ticket, wanted, cx.now, cx.links);
        if !may {
            XmppFront::forget_asked(cx, ticket);
            XmppFront::reply_error(cx, stanza, StanzaError::new(ErrorType::Auth, "forbidden"));
        }
    }
}

/// Category, type and name of an identity, and its features.
fn put_info(
    identity: (&str, &str, &str),
    features: &[&str],
    node: Option<&str>,
    out: &mut Vec<u8>,
) {
    put_infos(&[identity], features, node, out);
}

fn put_infos(
    identities: &[(&str, &str, &str)],
    features: &[&str],
    node: Option<&str>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(format!("<query xmlns='{INFO}'").as_bytes());
    if let Some(node) = node {
        put_attribute("node", node, out);
    }
    out.push(b'>');
    for (category, type_, name) in identities {
        out.extend_from_slice(b"<identity");
        let attributes = [("category", category), ("type", type_), ("name", name)];
        for (attribute, value) in attributes.iter().filter(|(_, value)| !value.is_empty()) {
            put_attribute(attribute, value, out);
        }
        out.extend_from_slice(b"/>");
    }
    for feature in features {
        out.extend_from_slice(b"<feature");
        put_attribute("var", feature, out);
        out.extend_from_slice(b"/>");
    }
    out.extend_from_slice(b"</query>");
}

fn put_server(keeps_messages: bool, out: &mut Vec<u8>) {
    let mut features = vec![INFO, ITEMS, VERSION, ns::PING];
    if keeps_messages {
        features.push("msgoffline");
    }
    put_info(("server", "im", "Thalweg"), &features, None, out);
}

fn put_service(out: &mut Vec<u8>) {
    let names: Vec<String> = PUBSUB_FEATURES
        .iter()
        .map(|name| format!("{PUBSUB}#{name}"))
        .collect();
    let mut features = vec![INFO, ITEMS, VERSION, ns::PING, PUBSUB];
    features.extend(names.iter().map(|name| &**name));
    put_info(("pubsub", "service", "Thalweg"), &features, None, out);
}
