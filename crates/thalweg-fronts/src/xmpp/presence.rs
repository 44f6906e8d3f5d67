//! Presence and the roster (RFC 6121): a contact is a name at `$presence`, whatever protocol its bearer speaks.
//!
//! The roster has the names of `xmpp.roster`, and those that the client subscribes to, as long as its session lasts.

use super::XmppFront;
use super::pubsub::{Asked, BAD_REQUEST, NOT_ACCEPTABLE, NOT_FOUND, Refused};
use super::subscriptions::refusal;
use crate::front::{Cx, Variant};
use std::collections::BTreeSet;
use thalweg_kernel::{LastValueWish, Subscribed, Tag, Wish};
use thalweg_model::presence;
use thalweg_xmpp::{
    Again, Element, ErrorType, Jid, Stanza, StanzaError, StanzaKind, ns, put_attribute, put_text,
};

pub(super) const ROSTER: &str = "jabber:iq:roster";
/// Names of the configuration stay.
const NOT_ALLOWED: Refused = StanzaError::new(ErrorType::Cancel, "not-allowed");
/// The resource of contacts, which need one to be available.
const RESOURCE: &str = "thalweg";
/// What a contact costs beside its name.
const CONTACT_BYTES: usize = 64;

/// Whose presence a client is told.
#[derive(Default)]
pub(super) struct Contacts {
    names: BTreeSet<Box<str>>,
    bytes: usize,
}

impl Contacts {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn insert(&mut self, name: &str) -> bool {
        let is_new = self.names.insert(name.into());
        self.bytes += usize::from(is_new) * (CONTACT_BYTES + name.len());
        is_new
    }

    fn remove(&mut self, name: &str) -> bool {
        let was_there = self.names.remove(name);
        self.bytes -= usize::from(was_there) * (CONTACT_BYTES + name.len());
        was_there
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// The contact whose presence is told at an address.
    pub(super) fn at(&self, address: &str) -> Option<&str> {
        let told = presence::name_of(address).filter(|told| told.claimed_in.is_none())?;
        self.names.get(&*told.name).map(|name| &**name)
    }
}

impl XmppFront {
    pub(super) fn on_presence(cx: &mut Cx<'_>, stanza: Stanza<'_>) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let contact = stanza.to().and_then(|to| front.contact_of(&to));
        match (&*stanza.type_(), contact) {
            ("", _) if stanza.to().is_none() => {
                for name in front.settings.clone().roster.iter() {
                    XmppFront::watch(cx, name, false);
                }
                let priority = stanza.element.child("priority", ns::CLIENT);
                let priority = priority.and_then(|priority| priority.text().trim().parse().ok());
                XmppFront::set_available(cx, Some(priority.unwrap_or(0)));
                XmppFront::on_announced(cx, stanza.element);
            }
            ("unavailable", _) if stanza.to().is_none() => {
                XmppFront::forget_interests(cx);
                let Some(front) = XmppFront::of(cx.links, cx.id) else {
                    return;
                };
                let names = std::mem::take(&mut front.contacts).names;
                names.iter().for_each(|name| XmppFront::unwatch(cx, name));
                XmppFront::set_available(cx, None);
            }
            ("subscribe", Some(name)) => XmppFront::watch(cx, &name, true),
            ("unsubscribe", Some(name)) => {
                XmppFront::forget_contact(cx, &name);
                XmppFront::write(cx.links, cx.id, |front, out| {
                    front.put_presence(Some("unsubscribed"), &name, false, None, Again::Copy, out);
                    front.push_roster(&name, "remove", out);
                });
            }
            _ => {}
        }
    }

    /// The name of an address of this domain.
    fn contact_of(&self, address: &str) -> Option<Box<str>> {
        let jid = Jid::parse(address).ok()?;
        (jid.domain() == &*self.settings.domain).then(|| jid.local().map(Into::into))?
    }

    fn address_of_contact(&self, name: &str) -> String {
        format!("{name}@{}", self.settings.domain)
    }

    /// Subscribes to the presence of a name. `answers`: the client has asked for it by a stanza.
    fn watch(cx: &mut Cx<'_>, name: &str, answers: bool) {
        let (Some(session), Some(front)) = (cx.session(), XmppFront::of(cx.links, cx.id)) else {
            return;
        };
        let is_new = front.contacts.insert(name);
        if !is_new && !answers {
            return;
        }
        let filter = presence::address(&front.settings.tenant, name);
        let asked = Asked::Contact {
            name: name.into(),
            answers,
        };
        let reliability = front.reliability();
        let Some(ticket) = front.ask(asked) else {
            front.contacts.remove(name);
            return;
        };
        let wish = Wish {
            filter: &filter,
            group: None,
            reliability,
            no_local: false,
            retain_as_published: false,
            last_values: LastValueWish::Always,
            id: 0,
        };
        let kept = front.kept_bytes();
        cx.links.count_kept(cx.id, kept, cx.kernel);
        cx.kernel
            .subscribe(session, ticket, &[wish], cx.now, cx.links);
    }

    fn unwatch(cx: &mut Cx<'_>, name: &str) {
        let (Some(session), Some(front)) = (cx.session(), XmppFront::of(cx.links, cx.id)) else {
            return;
        };
        let filter = presence::address(&front.settings.tenant, name);
        let kept = front.kept_bytes();
        cx.links.count_kept(cx.id, kept, cx.kernel);
        cx.kernel
            .unsubscribe(session, 0, &[(&filter, None)], cx.now, cx.links);
    }

    /// The kernel has answered a subscription to a presence.
    pub(super) fn put_watched(
        &mut self,
        name: &str,
        answers: bool,
        subscribed: Subscribed,
        out: &mut Vec<u8>,
    ) {
        let refused: Option<Refused> = refusal(subscribed);
        match refused {
            Some(_) => _ = self.contacts.remove(name),
            None => self.interests.accept(name),
        }
        if answers {
            let (answer, in_roster) = match refused {
                None => ("subscribed", "to"),
                Some(_) => ("unsubscribed", "none"),
            };
            self.push_roster(name, in_roster, out);
            self.put_presence(Some(answer), name, false, None, Again::Copy, out);
        }
    }

    /// Tells that a contact has come or gone.
    pub(super) fn put_contact(&mut self, name: &str, payload: &[u8], tag: Tag, out: &mut Vec<u8>) {
        let told = std::str::from_utf8(payload).unwrap_or_default();
        let is_here = told.starts_with("{\"state\":\"online\"");
        let status = told
            .split_once("\"protocol\":\"")
            .and_then(|(_, rest)| Some(rest.split_once('"')?.0));
        let type_ = (!is_here).then_some("unavailable");
        let again = super::deliver::again(tag);
        self.put_presence(type_, name, true, status, again, out);
    }

    fn put_presence(
        &mut self,
        type_: Option<&str>,
        name: &str,
        is_full: bool,
        status: Option<&str>,
        again: Again,
        out: &mut Vec<u8>,
    ) {
        let mut from = self.address_of_contact(name);
        if is_full {
            from += &format!("/{RESOURCE}");
        }
        let attributes = [
            Some(("from", &*from)),
            Some(("to", &*self.address)),
            type_.map(|type_| ("type", type_)),
        ];
        let attributes: Vec<(&str, &str)> = attributes.into_iter().flatten().collect();
        self.side
            .put_again(again, StanzaKind::Presence, &attributes, out, |out| {
                if let Some(status) = status {
                    out.extend_from_slice(b"<status>");
                    put_text(status, out);
                    out.extend_from_slice(b"</status>");
                }
            });
    }

    fn push_roster(&mut self, name: &str, subscription: &str, out: &mut Vec<u8>) {
        let (id, contact) = (self.new_name(), self.address_of_contact(name));
        let attributes = [("type", "set"), ("id", &*id), ("to", &*self.address)];
        self.side.put(StanzaKind::Iq, &attributes, out, |out| {
            out.extend_from_slice(format!("<query xmlns='{ROSTER}'>").as_bytes());
            put_item(&contact, name, subscription, out);
            out.extend_from_slice(b"</query>");
        });
    }

    /// A change of the roster. A name is in it while the client subscribes to its presence; what a client calls it is not kept.
    pub(super) fn on_roster_set(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        query: Element<'_>,
    ) -> Result<(), Refused> {
        let front = XmppFront::of(cx.links, cx.id).ok_or(BAD_REQUEST)?;
        let mut items = query.children();
        let (Some(item), None) = (items.next(), items.next()) else {
            return Err(BAD_REQUEST);
        };
        let contact = item.attribute("jid").ok_or(BAD_REQUEST)?;
        let name = front.contact_of(&contact).ok_or(NOT_ACCEPTABLE)?;
        let is_configured = front.settings.roster.contains(&name);
        let is_contact = front.contacts.names.contains(&name);
        let is_removal = item.attribute("subscription").as_deref() == Some("remove");
        let subscription = match (is_removal, is_configured, is_contact) {
            (true, true, _) => return Err(NOT_ALLOWED),
            (true, false, false) => return Err(NOT_FOUND),
            (true, false, true) => "remove",
            (false, false, false) => "none",
            (false, ..) => "to",
        };
        if is_removal {
            XmppFront::forget_contact(cx, &name);
        }
        XmppFront::reply(cx, stanza, |_| {});
        XmppFront::write(cx.links, cx.id, |front, out| {
            front.push_roster(&name, subscription, out);
        });
        Ok(())
    }

    fn forget_contact(cx: &mut Cx<'_>, name: &str) {
        let front = XmppFront::of(cx.links, cx.id);
        if front.is_some_and(|front| front.contacts.remove(name)) {
            XmppFront::unwatch(cx, name);
            XmppFront::unfollow_contact(cx, name);
        }
    }

    /// The roster: configured names, and those that the client has subscribed to.
    pub(super) fn put_roster(cx: &mut Cx<'_>, stanza: Stanza<'_>) {
        let Some(front) = XmppFront::at(cx.links, cx.id) else {
            return;
        };
        let settings = front.settings.clone();
        let names: BTreeSet<&Box<str>> = settings
            .roster
            .iter()
            .chain(&front.contacts.names)
            .collect();
        let mut list = format!("<query xmlns='{ROSTER}'>").into_bytes();
        for name in names {
            put_item(&front.address_of_contact(name), name, "to", &mut list);
        }
        list.extend_from_slice(b"</query>");
        XmppFront::reply(cx, stanza, |out| out.extend_from_slice(&list));
    }
}

fn put_item(address: &str, name: &str, subscription: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<item");
    put_attribute("jid", address, out);
    put_attribute("name", name, out);
    put_attribute("subscription", subscription, out);
    out.extend_from_slice(b"/>");
}
