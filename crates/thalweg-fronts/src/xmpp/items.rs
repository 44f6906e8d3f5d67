//! The items of a node, which are the messages that its address keeps: how they are read, named and written.

use super::XmppFront;
use super::pep::Account;
use super::pubsub::{
    Asked, BAD_REQUEST, FORBIDDEN, NO_ROOM, NOT_FOUND, PUBSUB, Refused, Retraction, node,
};
use crate::front::{Cx, Variant};
use crate::xmpp::payload;
use std::borrow::Cow;
use thalweg_model::{Details, Message, Properties};
use thalweg_xmpp::{Element, Stanza, put_attribute};

impl XmppFront {
    pub(super) fn on_items(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        account: &Account,
        items: Element<'_>,
    ) -> Result<(), Refused> {
        let node = node(items)?;
        let address = XmppFront::node_address(cx, account, &node)?;
        let wanted = items.children().filter_map(|item| item.attribute("id"));
        let max = match items.attribute("max_items") {
            Some(max) => max.parse().map_err(|_| BAD_REQUEST)?,
            None => usize::MAX,
        };
        let asked = Asked::Items {
            id: stanza.id().unwrap_or_default().into(),
            account: account.clone(),
            node: node.into(),
            wanted: wanted.map(Into::into).collect(),
            max,
        };
        XmppFront::read(cx, &address, asked)
    }

    /// The names of a node's items.
    pub(super) fn on_names(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        account: &Account,
        node: &str,
    ) -> Result<(), Refused> {
        let address = XmppFront::node_address(cx, account, node)?;
        let asked = Asked::Names {
            id: stanza.id().unwrap_or_default().into(),
            account: account.clone(),
            node: node.into(),
        };
        XmppFront::read(cx, &address, asked)
    }

    pub(super) fn read(cx: &mut Cx<'_>, address: &str, asked: Asked) -> Result<(), Refused> {
        let session = cx.session().ok_or(FORBIDDEN)?;
        let front = XmppFront::of(cx.links, cx.id).ok_or(FORBIDDEN)?;
        let ticket = front.ask(asked).ok_or(NO_ROOM)?;
        let may = cx
            .kernel
            .read_kept(session, cx.id, ticket, address, cx.now, cx.links);
        if !may {
            XmppFront::forget_asked(cx, ticket);
            return Err(FORBIDDEN);
        }
        Ok(())
    }

    /// An item that is to be retracted was looked for.
    pub(super) fn on_looked_at(
        &mut self,
        retraction: Retraction,
        values: &[Message],
        out: &mut Vec<u8>,
    ) {
        let is_there = values.iter().any(|value| {
            let properties = value.properties().map(crate::native::neutral);
            item_name(properties.as_deref()) == &*retraction.item
        });
        if is_there {
            self.retracting.push(retraction);
        } else {
            let Retraction { id, account, .. } = retraction;
            self.put_result(&id, &account, Some(NOT_FOUND), out);
        }
    }

    /// What a node keeps, as its items.
    pub(super) fn put_items(
        &mut self,
        id: &str,
        (account, node): (&Account, &str),
        wanted: &[Box<str>],
        values: &[Message],
        out: &mut Vec<u8>,
    ) {
        let from = self.home(account);
        self.put_long_answer(id, Some(&from), out, |_, room, out| {
            out.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'><items").as_bytes());
            put_attribute("node", node, out);
            out.push(b'>');
            for (name, message) in named(values) {
                if wanted.is_empty() || wanted.iter().any(|wanted| **wanted == *name) {
                    (out.len() + message.payload().len() <= room).then_some(())?;
                    let properties = message.properties().map(crate::native::neutral);
                    put_item(&name, message.payload(), properties.as_deref(), out);
                }
            }
            out.extend_from_slice(b"</items></pubsub>");
            Some(())
        });
    }

    /// The names of a node's items.
    pub(super) fn put_names(
        &mut self,
        id: &str,
        (account, node): (&Account, &str),
        values: &[Message],
        out: &mut Vec<u8>,
    ) {
        let from = self.home(account);
        self.put_answer("result", id, Some(&from), out, |out| {
            out.extend_from_slice(b"<query xmlns='http://jabber.org/protocol/disco#items'");
            put_attribute("node", node, out);
            out.push(b'>');
            for (name, _) in named(values) {
                out.extend_from_slice(b"<item");
                put_attribute("jid", &from, out);
                put_attribute("name", &name, out);
                out.extend_from_slice(b"/>");
            }
            out.extend_from_slice(b"</query>");
        });
    }
}

/// Messages with the names of their items. The newest of those without a name is called as notifications call it, others by when
/// they came.
fn named(values: &[Message]) -> impl Iterator<Item = (Cow<'_, str>, &Message)> {
    let name = |message: &Message| {
        let properties = message.properties().map(crate::native::neutral);
        let details = properties.as_deref()?.details.as_deref()?;
        Some(details.message_id.as_deref()?.to_owned())
    };
    let newest = values.iter().rposition(|message| name(message).is_none());
    let (mut before, mut same) = (None, 0);
    values.iter().enumerate().map(move |(at, message)| {
        let name = match name(message) {
            Some(name) => name.into(),
            None if Some(at) == newest => Details::UNNAMED.into(),
            None => {
                let came = message.ingress().nanos();
                same = if before == Some(came) { same + 1 } else { 0 };
                before = Some(came);
                format!("{}-{came}-{same}", Details::UNNAMED).into()
            }
        };
        (name, message)
    })
}

/// The name of an item; XEP-0060, 12.20, names the one of a publisher that gave it none.
pub(super) fn item_name(properties: Option<&Properties>) -> &str {
    let details = properties.and_then(|properties| properties.details.as_ref());
    details
        .and_then(|details| details.message_id.as_deref())
        .unwrap_or(Details::UNNAMED)
}

pub(super) fn put_item(
    name: &str,
    content: &[u8],
    properties: Option<&Properties>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"<item");
    put_attribute("id", name, out);
    out.push(b'>');
    let media_type = properties.and_then(|properties| properties.content_type.as_deref());
    payload::write(content, media_type, out);
    out.extend_from_slice(b"</item>");
}
