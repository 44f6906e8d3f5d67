//! Presence and the roster (RFC 6121): a contact is a name at `$presence`, whatever protocol its bearer speaks.
//!
//! What a client of XMPP says of itself (`away`, priority, capabilities) is at `$presence/NAME/resource/RESOURCE` while it is
//! available: a word for other protocols, and the stanza beside it ([`Letter`]). A contact of another protocol has one resource.
//! Available resources of a user are told of all of them.
//!
//! The roster has the names of `xmpp.roster`, and those that the client subscribes to, as long as its session lasts.

use super::chat::{Letter, NATIVE, write_letter};
use super::pubsub::{Asked, BAD_REQUEST, NOT_ACCEPTABLE, NOT_FOUND, Refused};
use super::subscriptions::refusal;
use super::{DIALECT, XmppFront};
use crate::front::{Cx, Variant};
use std::borrow::Cow;
use std::collections::BTreeSet;
use thalweg_kernel::{Content, Delivery, LastValueWish, Subscribed, Tag, Wish};
use thalweg_model::syntax::{read_level, write_level};
use thalweg_model::{NativeProperties, Properties, presence};
use thalweg_xmpp::{
    Again, Element, ErrorType, Jid, Stanza, StanzaError, StanzaKind, ns, put_attribute, put_text,
};

pub(super) const ROSTER: &str = "jabber:iq:roster";
/// Names of the configuration stay.
const NOT_ALLOWED: Refused = StanzaError::new(ErrorType::Cancel, "not-allowed");
/// Stands between a name and its resources in an address.
const LEVEL: &str = "resource";
/// What a client that is available without `<show/>` is to other protocols.
const AVAILABLE: &str = "available";
/// Octets of a presence stanza: each contact gets them, and they are kept while the client is available.
const PRESENCE_BYTES_MAX: usize = 16 << 10;
const TOO_LARGE: Refused = NOT_ACCEPTABLE.about("a presence may have 16 KiB");
/// The resource of contacts of other protocols, which need one to be available.
const RESOURCE: &str = "thalweg";
/// What a contact costs beside its name.
const CONTACT_BYTES: usize = 64;

/// Whose presence a client is told.
#[derive(Default)]
pub(super) struct Contacts {
    names: BTreeSet<Box<str>>,
    bytes: usize,
}

/// What a client has said of itself last.
#[derive(Clone)]
pub(super) struct Announced {
    /// What a client of another protocol reads: `away`, `available`; empty when it is gone.
    pub(super) word: Box<str>,
    pub(super) letter: Box<[u8]>,
}

impl Announced {
    pub(super) fn bytes(&self) -> usize {
        self.word.len() + self.letter.len()
    }
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

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The contact whose presence is told at an address, and its resource if it is that of one. The client itself is `own`.
    fn at<'a>(
        &self,
        address: &'a str,
        own: Option<&str>,
    ) -> Option<(Cow<'a, str>, Option<Cow<'a, str>>)> {
        if !presence::is_presence(address) {
            return None;
        }
        let told = match presence::name_of(address) {
            Some(told) => (told.claimed_in.is_none()).then_some((told.name, None)),
            None => resource_at(address),
        };
        told.filter(|(name, resource)| {
            self.names.contains(&**name) || resource.is_some() && own == Some(&**name)
        })
    }
}

/// The name and the resource of an address of a resource, below `$presence`.
fn resource_at(address: &str) -> Option<(Cow<'_, str>, Option<Cow<'_, str>>)> {
    let mut levels = address.split('/').skip(1);
    let (name, level, resource) = (levels.next()?, levels.next()?, levels.next()?);
    let is_one = level == LEVEL && levels.next().is_none();
    is_one.then(|| (read_level(name), Some(read_level(resource))))
}

/// The filter of the resources of a name.
pub(super) fn resources(tenant: &str, name: &str) -> String {
    format!("{}/{LEVEL}/+", presence::address(tenant, name))
}

/// What a presence is to a client of another protocol; empty when there is none any more.
pub(super) fn word_of(stanza: Stanza<'_>) -> &'static str {
    let show = stanza.element.child("show", ns::CLIENT);
    let show = show.map(|show| show.text()).unwrap_or_default();
    let words = ["away", "chat", "dnd", "xa"];
    match stanza.type_().is_empty() {
        false => "",
        true => words
            .into_iter()
            .find(|word| *word == show.trim())
            .unwrap_or(AVAILABLE),
    }
}

/// The properties of a message whose payload is that word.
pub(super) fn properties_of(letter: Box<[u8]>) -> Properties {
    Properties {
        content_type: Some("text/plain".into()),
        native: Some(NativeProperties {
            dialect: NATIVE,
            bytes: letter,
        }),
        ..Properties::default()
    }
}

impl XmppFront {
    pub(super) fn on_presence(cx: &mut Cx<'_>, stanza: Stanza<'_>) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let to = stanza.to();
        let contact = to.as_ref().and_then(|to| front.contact_of(to));
        if stanza.element.raw().len() > PRESENCE_BYTES_MAX {
            return XmppFront::reply_error(cx, stanza, TOO_LARGE);
        }
        match (&*stanza.type_(), contact) {
            ("", None) if to.is_none() => {
                for name in front.settings.clone().roster.iter() {
                    XmppFront::watch(cx, name, false);
                }
                let priority = stanza.element.child("priority", ns::CLIENT);
                let priority = priority.and_then(|priority| priority.text().trim().parse().ok());
                let was_available = XmppFront::set_available(cx, Some(priority.unwrap_or(0)));
                XmppFront::announce(cx, stanza);
                if !was_available {
                    XmppFront::follow_own(cx);
                }
                XmppFront::on_announced(cx, stanza.element);
            }
            ("unavailable", None) if to.is_none() => {
                XmppFront::take_leave(cx, true);
                XmppFront::forget_interests(cx);
                let Some(front) = XmppFront::of(cx.links, cx.id) else {
                    return;
                };
                let names = std::mem::take(&mut front.contacts).names;
                names.iter().for_each(|name| XmppFront::unwatch(cx, name));
                XmppFront::announce(cx, stanza);
                XmppFront::set_available(cx, None);
            }
            ("" | "unavailable", Some(_)) => {
                if let Err(refused) = XmppFront::direct(cx, stanza, &to.unwrap_or_default()) {
                    XmppFront::reply_error(cx, stanza, refused);
                }
            }
            ("subscribe", Some(name)) => XmppFront::watch(cx, &name, true),
            ("unsubscribe", Some(name)) => {
                XmppFront::forget_contact(cx, &name);
                XmppFront::write(cx.links, cx.id, |front, out| {
                    front.put_answer_of_contact("unsubscribed", &name, out);
                    front.push_roster(&name, "remove", out);
                });
            }
            _ => {}
        }
    }

    /// Tells contacts what the client says of itself, or that it is not available any more.
    fn announce(cx: &mut Cx<'_>, stanza: Stanza<'_>) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let is_available = stanza.type_().is_empty();
        if !is_available && front.availability.announced.is_none() {
            return;
        }
        let word = word_of(stanza).into();
        let letter = write_letter([&front.address, "", "", ""], Some(stanza));
        front.availability.announced = Some(Announced { word, letter });
        XmppFront::tell_contacts(cx);
    }

    /// Says again, over this link, what the client has said of itself.
    pub(super) fn tell_contacts(cx: &mut Cx<'_>) {
        let (Some(session), Some(front)) = (cx.session(), XmppFront::of(cx.links, cx.id)) else {
            return;
        };
        let Some(Announced { word, letter }) = front.availability.announced.take() else {
            return;
        };
        let (_, resource) = front.address.split_once('/').unwrap_or_default();
        let level = format!("{LEVEL}/{}", write_level(resource));
        let properties = properties_of(letter.clone());
        if !word.is_empty() {
            let (word, kept) = (word.clone(), letter);
            front.availability.announced = Some(Announced { word, letter: kept });
        }
        let told = (word.as_bytes(), Some(&properties));
        let until = (cx.kernel).describe(session, &level, told, cx.now, cx.links);
        if let (Some(until), Some(link)) = (until, cx.links.get_mut(cx.id)) {
            link.pause_until = Some(until);
        }
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let kept = front.kept_bytes();
        cx.links.count_kept(cx.id, kept, cx.kernel);
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
        let tenant = &front.settings.tenant;
        let filters = [presence::address(tenant, name), resources(tenant, name)];
        let filters = filters.each_ref().map(|filter| (&**filter, None));
        // It is told of its own resources, whoever its contacts are.
        let is_own = front.user() == Some(name);
        let filters = &filters[..filters.len() - usize::from(is_own)];
        let kept = front.kept_bytes();
        cx.links.count_kept(cx.id, kept, cx.kernel);
        cx.kernel.unsubscribe(session, 0, filters, cx.now, cx.links);
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
            self.put_answer_of_contact(answer, name, out);
        }
    }

    /// Tells that a contact has come or gone, or what a resource of it says; whether the address is a contact's.
    pub(super) fn put_contact(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        // What it has subscribed to as a node comes as an item.
        let own = self.user().filter(|_| delivery.subscription_ids.is_empty());
        let Some((name, resource)) = self.contacts.at(content.address(), own) else {
            return false;
        };
        let again = super::deliver::again(delivery.tag as Tag);
        if let Some(resource) = resource {
            self.put_resource(&name, &resource, content, again, out);
            return true;
        }
        let told = std::str::from_utf8(content.payload()).unwrap_or_default();
        let protocol = told
            .split_once("\"protocol\":\"")
            .and_then(|(_, rest)| Some(rest.split_once('"')?.0));
        // A client of XMPP says itself whether it is available.
        let is_here = told.starts_with("{\"state\":\"online\"") && protocol != Some(DIALECT);
        let type_ = (!is_here).then_some("unavailable");
        let from = format!("{}/{RESOURCE}", self.address_of_contact(&name));
        self.put_presence(type_, &from, again, out, |out| {
            if let Some(protocol) = protocol {
                out.extend_from_slice(b"<status>");
                put_text(protocol, out);
                out.extend_from_slice(b"</status>");
            }
        });
        true
    }

    fn put_resource(
        &mut self,
        name: &str,
        resource: &str,
        content: &Content<'_>,
        again: Again,
        out: &mut Vec<u8>,
    ) {
        let native = content.properties().and_then(|all| all.native.as_ref());
        let letter = native.and_then(Letter::read).unwrap_or_default();
        let type_ = content.payload().is_empty().then_some("unavailable");
        let from = format!("{}/{resource}", self.address_of_contact(name));
        self.put_presence(type_, &from, again, out, |out| {
            out.extend_from_slice(letter.content.as_bytes());
        });
    }

    fn put_presence(
        &mut self,
        type_: Option<&str>,
        from: &str,
        again: Again,
        out: &mut Vec<u8>,
        content: impl FnOnce(&mut Vec<u8>),
    ) {
        let attributes = [
            ("from", from),
            ("to", &*self.address),
            ("type", type_.unwrap_or_default()),
        ];
        self.side
            .put_again(again, StanzaKind::Presence, &attributes, out, content);
    }

    fn put_answer_of_contact(&mut self, answer: &str, name: &str, out: &mut Vec<u8>) {
        let from = self.address_of_contact(name);
        self.put_presence(Some(answer), &from, Again::Copy, out, |_| {});
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
        let is_contact = front.contacts.has(&name);
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
        let configured = settings.roster.iter().map(|name| &**name);
        let names: BTreeSet<&str> = configured.chain(front.contacts.names()).collect();
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
