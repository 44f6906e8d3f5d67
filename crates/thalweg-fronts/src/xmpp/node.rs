//! What a node is like (XEP-0060, 5.6, 5.7 and 8.1 to 8.9): its configuration, which is how the broker treats its address, and
//! affiliations, which are the rights of the user who asks.
//!
//! A configuration that asks for what is so anyway is accepted; any other is refused by the name of the field.

use super::XmppFront;
use super::forms::{self, DATA, Field, Is};
use super::pep::Account;
use super::pubsub::{
    BAD_REQUEST, CONFLICT, ERRORS, FORBIDDEN, NOT_ACCEPTABLE, OWNER, PUBSUB, Refused, address_of,
    node,
};
use crate::front::{Cx, Variant};
use std::collections::BTreeSet;
use thalweg_kernel::access::{Access, Permission};
use thalweg_model::{RetainOp, Span};
use thalweg_xmpp::{Element, Stanza, put_attribute};

const NODE_CONFIG: &str = "http://jabber.org/protocol/pubsub#node_config";

const PERSIST: &str = "pubsub#persist_items";
const EXPIRE: &str = "pubsub#item_expire";

/// How a node of the service, or of an account, is to a client with these rights; without an address, one of which no policy
/// speaks.
fn fields(cx: &Cx<'_>, access: &Access, is_personal: bool, address: Option<&str>) -> [Field; 16] {
    let limits = cx.kernel.limits();
    let depth = address.map_or(1, |address| limits.last_value_depth(address));
    let persists = !address.is_some_and(|address| limits.keeps_no_value(address));
    let reads = match (is_personal, access.is_allow_all()) {
        // Who subscribes to a user's presence is a contact. Rules that let fewer read do no harm, but none make a whitelist.
        (true, _) => Is::Choice("presence", &["open"]),
        (false, true) => Is::Choice("open", &[]),
        (false, false) => Is::Choice("whitelist", &[]),
    };
    let writes = match access.is_allow_all() && !is_personal {
        true => "open",
        false => "publishers",
    };
    let (notification, last) = match is_personal {
        true => ("headline", Is::Choice("on_sub_and_presence", &["on_sub"])),
        false => ("normal", Is::Choice("on_sub", &[])),
    };
    [
        ("pubsub#access_model", reads),
        ("pubsub#deliver_notifications", Is::Flag(true)),
        ("pubsub#deliver_payloads", Is::Flag(true)),
        (EXPIRE, Is::Choice("max", &[])),
        ("pubsub#max_items", Is::Count(depth)),
        ("pubsub#node_type", Is::Choice("leaf", &[])),
        ("pubsub#notification_type", Is::Choice(notification, &[])),
        ("pubsub#notify_config", Is::Flag(false)),
        ("pubsub#notify_delete", Is::Flag(true)),
        ("pubsub#notify_retract", Is::Flag(true)),
        ("pubsub#notify_sub", Is::Flag(false)),
        (PERSIST, Is::Flag(persists)),
        ("pubsub#presence_based_delivery", Is::Flag(is_personal)),
        ("pubsub#publish_model", Is::Choice(writes, &[])),
        ("pubsub#purge_offline", Is::Flag(false)),
        ("pubsub#send_last_published_item", last),
    ]
    .map(|(name, is)| Field { name, is })
}

/// What a publish asks for beside its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PublishOptions {
    pub retain: RetainOp,
    pub expires_in: Option<Span>,
}

impl XmppFront {
    fn access(cx: &Cx<'_>) -> Result<Access, Refused> {
        let session = cx.session().ok_or(FORBIDDEN)?;
        cx.kernel.session_access(session).cloned().ok_or(FORBIDDEN)
    }

    /// Fails unless the client may publish to a node, which is the right to create it and to retract what is in it.
    pub(super) fn check_publisher(cx: &Cx<'_>, address: &str) -> Result<(), Refused> {
        match XmppFront::access(cx)?.allows(Permission::Publish, address) {
            true => Ok(()),
            false => Err(FORBIDDEN),
        }
    }

    /// The options of a publish. Two of them are its own, the others are conditions that the node has to meet.
    pub(super) fn publish_options(
        cx: &Cx<'_>,
        account: &Account,
        address: &str,
        payload: Element<'_>,
    ) -> Result<PublishOptions, Refused> {
        let mut options = PublishOptions {
            retain: RetainOp::Set,
            expires_in: None,
        };
        let form = payload
            .child("publish-options", PUBSUB)
            .and_then(|options| options.child("x", DATA));
        let Some(form) = form else {
            return Ok(options);
        };
        let (mut conditions, mut bad) = (Vec::new(), None);
        for (name, value) in forms::submitted(form) {
            match (&*name, value.trim()) {
                (PERSIST, value) => match forms::flag(value) {
                    Some(true) => options.retain = RetainOp::Set,
                    Some(false) => options.retain = RetainOp::None,
                    None => bad = Some(PERSIST),
                },
                (EXPIRE, "max") => options.expires_in = None,
                (EXPIRE, secs) => match secs.parse() {
                    Ok(secs) => options.expires_in = Some(Span::from_secs(secs)),
                    Err(_) => bad = Some(EXPIRE),
                },
                _ => conditions.push((name, value)),
            }
        }
        if let Some(name) = bad {
            return Err(BAD_REQUEST.with("invalid-options", ERRORS).about(name));
        }
        if conditions.is_empty() {
            return Ok(options);
        }
        let access = XmppFront::access(cx)?;
        let fields = fields(cx, &access, account.is_some(), Some(address));
        forms::check(&fields, conditions.into_iter()).map_err(|name| {
            CONFLICT
                .with("precondition-not-met", ERRORS)
                .about(named(name))
        })?;
        Ok(options)
    }

    /// Whether a node is as this form asks for.
    fn check_config(
        cx: &Cx<'_>,
        account: &Account,
        address: &str,
        configure: Option<Element<'_>>,
    ) -> Result<(), Refused> {
        let form = configure.and_then(|configure| configure.child("x", DATA));
        let Some(form) = form.filter(|form| form.attribute("type").as_deref() != Some("cancel"))
        else {
            return Ok(());
        };
        let access = XmppFront::access(cx)?;
        let fields = fields(cx, &access, account.is_some(), Some(address));
        forms::check(&fields, forms::submitted(form)).map_err(|name| {
            let refused = NOT_ACCEPTABLE.about(named(name));
            match name {
                "pubsub#access_model" => refused.with("unsupported-access-model", ERRORS),
                _ => refused,
            }
        })
    }

    pub(super) fn on_create(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        account: &Account,
        create: Element<'_>,
        configure: Option<Element<'_>>,
    ) -> Result<(), Refused> {
        let instant = XmppFront::of(cx.links, cx.id)
            .map(XmppFront::new_name)
            .unwrap_or_default();
        let named = node(create);
        let is_instant = named.is_err();
        let node = named.unwrap_or_else(|_| format!("instant/{instant}"));
        let address = XmppFront::node_address(cx, account, &node)?;
        XmppFront::check_publisher(cx, &address)?;
        XmppFront::check_config(cx, account, &address, configure)?;
        XmppFront::reply(cx, stanza, |out| {
            // A client is not told a name that it has given. [0060#8.1.1]
            if is_instant {
                out.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'><create").as_bytes());
                put_attribute("node", &node, out);
                out.extend_from_slice(b"/></pubsub>");
            }
        });
        Ok(())
    }

    pub(super) fn on_configure(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        account: &Account,
        configure: Element<'_>,
        is_set: bool,
    ) -> Result<(), Refused> {
        let node = node(configure)?;
        let address = XmppFront::node_address(cx, account, &node)?;
        let access = XmppFront::access(cx)?;
        if is_set {
            XmppFront::check_publisher(cx, &address)?;
            configure.child("x", DATA).ok_or(BAD_REQUEST)?;
            XmppFront::check_config(cx, account, &address, Some(configure))?;
            XmppFront::reply(cx, stanza, |_| {});
            return Ok(());
        }
        if affiliation(&access, &address) == "outcast" {
            return Err(FORBIDDEN);
        }
        let fields = fields(cx, &access, account.is_some(), Some(&address));
        XmppFront::reply(cx, stanza, |out| {
            out.extend_from_slice(format!("<pubsub xmlns='{OWNER}'><configure").as_bytes());
            put_attribute("node", &node, out);
            out.push(b'>');
            forms::put("form", NODE_CONFIG, &fields, out);
            out.extend_from_slice(b"</configure></pubsub>");
        });
        Ok(())
    }

    /// The configuration of nodes that are new.
    pub(super) fn on_default(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        account: &Account,
    ) -> Result<(), Refused> {
        let access = XmppFront::access(cx)?;
        let fields = fields(cx, &access, account.is_some(), None);
        XmppFront::reply(cx, stanza, |out| {
            out.extend_from_slice(format!("<pubsub xmlns='{OWNER}'><default>").as_bytes());
            forms::put("form", NODE_CONFIG, &fields, out);
            out.extend_from_slice(b"</default></pubsub>");
        });
        Ok(())
    }

    /// The client's affiliation with a node, or with all that it has subscribed to.
    pub(super) fn on_affiliations(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        asked: Element<'_>,
    ) -> Result<(), Refused> {
        let access = XmppFront::access(cx)?;
        let front = XmppFront::of(cx.links, cx.id).ok_or(FORBIDDEN)?;
        let nodes: BTreeSet<Box<str>> = match asked.attribute("node") {
            Some(node) => [node.into()].into(),
            None => front.nodes.names().map(Into::into).collect(),
        };
        XmppFront::reply(cx, stanza, |out| {
            out.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'><affiliations>").as_bytes());
            for node in &nodes {
                let Some(address) = address_of(node) else {
                    continue;
                };
                out.extend_from_slice(b"<affiliation");
                put_attribute("node", node, out);
                put_attribute("affiliation", affiliation(&access, &address), out);
                out.extend_from_slice(b"/>");
            }
            out.extend_from_slice(b"</affiliations></pubsub>");
        });
        Ok(())
    }
}

/// What rights on a node are called.
fn affiliation(access: &Access, address: &str) -> &'static str {
    let publishes = access.allows(Permission::Publish, address);
    let subscribes = access.allows(Permission::Subscribe, address)
        && access.allows(Permission::Receive, address);
    match (publishes, subscribes) {
        (true, true) => "publisher",
        (true, false) => "publish-only",
        (false, true) => "member",
        (false, false) => "outcast",
    }
}

/// How a field is called that was refused.
fn named(name: &'static str) -> &'static str {
    match name {
        "" => "a field that nodes do not have",
        "pubsub#access_model" => "pubsub#access_model: the broker's rules say who may read a node",
        name => name,
    }
}
