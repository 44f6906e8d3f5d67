//! Subscriptions to nodes, with their options (XEP-0060, 6). One lasts as long as its session, or as its lease.

use super::forms::{self, DATA, Field, Is};
use super::pep::Interests;
use super::presence::Contacts;
use super::pubsub::{
    Asked, BAD_REQUEST, ERRORS, EVENT, FORBIDDEN, INVALID_JID, INVALID_OPTIONS, JID_REQUIRED,
    NO_ROOM, NOT_ACCEPTABLE, NOT_IMPLEMENTED, NOT_SUBSCRIBED, PUBSUB, Refused, TOO_MANY,
    address_of, node, node_of,
};
use super::{OUTPUT_BYTES_MAX, XmppFront, datetime};
use crate::front::{Cx, Variant};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_filter::{FilterError, Predicate};
use thalweg_kernel::access::Permission;
use thalweg_kernel::{Kernel, LastValueWish, SessionId, Wish};
use thalweg_model::place::{Place, place};
use thalweg_model::{Filter, Reliability, Time, presence};
use thalweg_xmpp::{Element, Jid, Stanza, StanzaKind, put_attribute};

/// The group that subscribers of a queue's node are: each of its messages goes to one of them.
pub(super) const GROUP: &str = "xmpp";

/// What the client has subscribed to.
#[derive(Default)]
pub(super) struct Nodes {
    /// Subscriptions by their node and filter; a node may have several, which differ in depth.
    by_filter: BTreeMap<Box<str>, Subscription>,
    bytes: usize,
    /// When the first lease is over; not later than that.
    expiry_next: Option<Time>,
}

struct Subscription {
    node: Box<str>,
    /// The kernel's number for it, and, written out, its `subid`.
    number: u32,
    options: Options,
    /// What the kernel granted last.
    offered: Reliability,
}

/// What a client can choose of a subscription.
#[derive(Clone)]
struct Options {
    /// Off: the kernel has no such subscription meanwhile.
    delivers: bool,
    /// The end of its lease.
    expires: Time,
    /// The content filter that items must pass.
    filter: Option<Arc<Predicate>>,
    /// How surely items are to come; nothing for as surely as the stream can.
    asked: Option<Reliability>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            delivers: true,
            expires: Time::NEVER,
            filter: None,
            asked: None,
        }
    }
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

    /// The nodes, each at least once.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_filter
            .values()
            .map(|subscription| &*subscription.node)
    }

    /// When [`XmppFront::end_leases`] has something to do.
    pub(super) fn expiry_next(&self) -> Time {
        self.expiry_next.unwrap_or(Time::NEVER)
    }

    fn insert(&mut self, filter: &str, node: Box<str>, number: u32) {
        self.bytes += ENTRY_BYTES + node.len() + filter.len();
        let subscription = Subscription {
            node,
            number,
            options: Options::default(),
            offered: Reliability::AtMostOnce,
        };
        self.by_filter.insert(filter.into(), subscription);
    }

    fn set_options(&mut self, filter: &str, options: Options) {
        let next = self.expiry_next().min(options.expires);
        if let Some(subscription) = self.by_filter.get_mut(filter) {
            self.bytes += options.bytes();
            self.bytes -= std::mem::replace(&mut subscription.options, options).bytes();
            self.expiry_next = Some(next);
        }
    }

    fn set_offered(&mut self, filter: &str, offered: Reliability) {
        if let Some(subscription) = self.by_filter.get_mut(filter) {
            subscription.offered = offered;
        }
    }

    /// Filters whose lease is over.
    fn expired(&mut self, now: Time) -> Vec<Box<str>> {
        let expires = |subscription: &Subscription| subscription.options.expires;
        let (ended, left): (Vec<_>, Vec<_>) = self
            .by_filter
            .iter()
            .partition(|(_, subscription)| expires(subscription) <= now);
        let next = left
            .iter()
            .map(|(_, subscription)| expires(subscription))
            .min();
        let ended = ended.iter().map(|(filter, _)| (*filter).clone()).collect();
        self.expiry_next = next;
        ended
    }

    fn remove(&mut self, filter: &str) {
        if let Some(gone) = self.by_filter.remove(filter) {
            self.bytes -= ENTRY_BYTES + gone.node.len() + filter.len() + gone.options.bytes();
        }
    }

    /// The filters of a node's subscriptions, of the one with this `subid` if it is given.
    fn meant<'s>(&'s self, node: &'s str, subid: Option<&'s str>) -> impl Iterator<Item = &'s str> {
        let is_meant = move |subscription: &Subscription| {
            *subscription.node == *node
                && subid.is_none_or(|subid| subscription.number.to_string() == subid)
        };
        self.by_filter
            .iter()
            .filter(move |(_, subscription)| is_meant(subscription))
            .map(|(filter, _)| &**filter)
    }

    /// Takes over those of a session that has outlived the broker, and returns the greatest of their numbers.
    pub(super) fn restore(
        &mut self,
        contacts: &mut Contacts,
        interests: &mut Interests,
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
            // Those of the user's own addresses come with its presence.
            if held.id == 0 {
                interests.restore(&held.filter);
                return;
            }
            let below = ["/+", "/#"]
                .iter()
                .find_map(|end| held.filter.strip_suffix(end));
            let node = node_of(below.unwrap_or(&held.filter));
            self.insert(&held.filter, node.into(), held.id);
            let options = Options {
                filter: held.condition,
                // Only a stream that can have more is left.
                asked: Some(held.reliability).filter(|it| *it == Reliability::AtMostOnce),
                ..Options::default()
            };
            self.set_options(&held.filter, options);
            self.set_offered(&held.filter, held.offered);
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
        // "the JIDs do not match" [0060#6.1.3.1]
        front.check_jid(subscribe, INVALID_JID)?;
        let form = options.and_then(|options| options.child("x", DATA));
        let (depth, options) = read_options(form, Options::default(), cx.now)?;
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
        let id = stanza.id().unwrap_or_default();
        let asked = XmppFront::choose(cx, session, (id.into(), false), &filter, options);
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
        (id, is_change): (Box<str>, bool),
        filter: &str,
    ) -> Result<(), Refused> {
        let front = XmppFront::of(cx.links, cx.id).ok_or(FORBIDDEN)?;
        let known = front.nodes.by_filter.get(filter).ok_or(NOT_SUBSCRIBED)?;
        let (number, most) = (known.number, front.reliability());
        let Options {
            filter: condition,
            asked,
            ..
        } = known.options.clone();
        let request = Asked::Subscribe {
            id,
            filter: filter.into(),
            is_change,
        };
        let ticket = front.ask(request).ok_or(NO_ROOM)?;
        let wish = Wish {
            filter,
            group: group_of(filter),
            reliability: asked.map_or(most, |asked| asked.min(most)),
            no_local: false,
            retain_as_published: false,
            last_values: LastValueWish::Always,
            id: number,
        };
        cx.kernel
            .subscribe_if(session, ticket, &[wish], condition, cx.now, cx.links);
        Ok(())
    }

    /// Gives a subscription that is in the table these options, and answers the request `id`.
    fn choose(
        cx: &mut Cx<'_>,
        session: SessionId,
        (id, is_change): (Box<str>, bool),
        filter: &str,
        options: Options,
    ) -> Result<(), Refused> {
        let access = cx.kernel.session_access(session).ok_or(FORBIDDEN)?;
        let may = access.allows(Permission::Subscribe, filter);
        let front = XmppFront::of(cx.links, cx.id).ok_or(FORBIDDEN)?;
        let subscription = front.nodes.by_filter.get(filter).ok_or(NOT_SUBSCRIBED)?;
        let before = subscription.options.clone();
        if !options.delivers && !may {
            return Err(FORBIDDEN);
        }
        front.nodes.set_options(filter, options.clone());
        let kept = front.kept_bytes();
        if !cx.links.count_kept(cx.id, kept, cx.kernel) {
            XmppFront::put_back(cx, filter, before);
            return Err(NO_ROOM);
        }
        let is_as_before =
            before.delivers && (&before.filter, before.asked) == (&options.filter, options.asked);
        if options.delivers && !(is_change && is_as_before) {
            let asked = XmppFront::subscribe(cx, session, (id, is_change), filter);
            if asked.is_err() {
                XmppFront::put_back(cx, filter, before);
            }
            asked
        } else {
            if !options.delivers {
                let filters = [(filter, group_of(filter))];
                cx.kernel
                    .unsubscribe(session, 0, &filters, cx.now, cx.links);
            }
            XmppFront::write(cx.links, cx.id, |front, out| {
                front.put_subscribed(&id, filter, is_change, Ok(None), out);
            });
            Ok(())
        }
    }

    /// Gives a subscription the options that it had before a change that was refused.
    fn put_back(cx: &mut Cx<'_>, filter: &str, before: Options) {
        if let Some(front) = XmppFront::of(cx.links, cx.id) {
            front.nodes.set_options(filter, before);
            let kept = front.kept_bytes();
            cx.links.count_kept(cx.id, kept, cx.kernel);
        }
    }

    /// The filter of the subscription that a request is about.
    fn filter_meant(&self, request: Element<'_>) -> Result<Box<str>, Refused> {
        let node = node(request)?;
        // [0060#6.2.3.3], [0060#6.3.4.2]
        self.check_jid(request, FORBIDDEN)?;
        let subid = request.attribute("subid");
        let mut meant = self.nodes.meant(&node, subid.as_deref());
        match (meant.next(), meant.next()) {
            (None, _) if self.nodes.meant(&node, None).next().is_none() => Err(NOT_SUBSCRIBED),
            (None, _) => Err(NOT_ACCEPTABLE.with("invalid-subid", ERRORS)),
            (Some(_), Some(_)) => Err(BAD_REQUEST.with("subid-required", ERRORS)),
            (Some(filter), None) => Ok(filter.into()),
        }
    }

    pub(super) fn on_options(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        request: Element<'_>,
        is_set: bool,
    ) -> Result<(), Refused> {
        let session = cx.session().ok_or(FORBIDDEN)?;
        let front = XmppFront::of(cx.links, cx.id).ok_or(FORBIDDEN)?;
        let filter = front.filter_meant(request)?;
        let subscription = front.nodes.by_filter.get(&filter).ok_or(NOT_SUBSCRIBED)?;
        let (before, depth) = (subscription.options.clone(), depth_of(&filter));
        let offered = subscription.offered;
        if is_set {
            let form = request.child("x", DATA).ok_or(INVALID_OPTIONS)?;
            let (wanted, options) = read_options(Some(form), before, cx.now)?;
            if wanted.is_some_and(|wanted| wanted != depth) {
                return Err(INVALID_OPTIONS.about(DEPTH));
            }
            let id = stanza.id().unwrap_or_default();
            return XmppFront::choose(cx, session, (id.into(), true), &filter, options);
        }
        XmppFront::reply(cx, stanza, |out| {
            out.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'><options").as_bytes());
            for name in ["node", "jid", "subid"] {
                if let Some(value) = request.attribute(name) {
                    put_attribute(name, &value, out);
                }
            }
            out.push(b'>');
            forms::put(
                "form",
                SUBSCRIBE_OPTIONS,
                &before.fields(depth, offered),
                out,
            );
            out.extend_from_slice(b"</options></pubsub>");
        });
        Ok(())
    }

    /// The options of subscriptions that are new.
    pub(super) fn on_default_options(cx: &mut Cx<'_>, stanza: Stanza<'_>) -> Result<(), Refused> {
        let front = XmppFront::of(cx.links, cx.id).ok_or(FORBIDDEN)?;
        let fields = Options::default().fields("0", front.reliability());
        XmppFront::reply(cx, stanza, |out| {
            out.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'><default>").as_bytes());
            forms::put("form", SUBSCRIBE_OPTIONS, &fields, out);
            out.extend_from_slice(b"</default></pubsub>");
        });
        Ok(())
    }

    /// Ends subscriptions whose lease is over, and says so.
    pub(super) fn end_leases(cx: &mut Cx<'_>) {
        let (Some(session), Some(front)) = (cx.session(), XmppFront::of(cx.links, cx.id)) else {
            return;
        };
        for filter in front.nodes.expired(cx.now) {
            let filters = [(&*filter, group_of(&filter))];
            cx.kernel
                .unsubscribe(session, 0, &filters, cx.now, cx.links);
            XmppFront::write(cx.links, cx.id, |front, out| {
                let Some(ended) = front.nodes.by_filter.get(&filter) else {
                    return;
                };
                let attributes = [("from", &*front.service), ("to", &*front.address)];
                let side = &mut front.side;
                side.put(StanzaKind::Message, &attributes, out, |out| {
                    out.extend_from_slice(format!("<event xmlns='{EVENT}'>").as_bytes());
                    put_subscription(ended, &front.address, "none", out);
                    out.extend_from_slice(b"</event>");
                });
            });
            XmppFront::drop_subscription(cx, &filter);
        }
    }

    /// Fails unless a subscription is the client's own; with `others` if it is another address's.
    fn check_jid(&self, element: Element<'_>, others: Refused) -> Result<(), Refused> {
        let jid = element.attribute("jid").ok_or(JID_REQUIRED)?;
        let jid = Jid::parse(&jid).map_err(|_| INVALID_JID)?;
        self.is_own(jid.as_str()).then_some(()).ok_or(others)
    }

    pub(super) fn on_unsubscribe(
        cx: &mut Cx<'_>,
        stanza: Stanza<'_>,
        unsubscribe: Element<'_>,
    ) -> Result<(), Refused> {
        let session = cx.session().ok_or(FORBIDDEN)?;
        let front = XmppFront::of(cx.links, cx.id).ok_or(FORBIDDEN)?;
        let filter = front.filter_meant(unsubscribe)?;
        let filters = [(&*filter, group_of(&filter))];
        cx.kernel
            .unsubscribe(session, 0, &filters, cx.now, cx.links);
        XmppFront::drop_subscription(cx, &filter);
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
                    put_subscription(subscription, &front.address, "subscribed", out);
                }
                out.extend_from_slice(b"</subscriptions></pubsub>");
                Some(())
            });
        });
        Ok(())
    }

    /// Answers a request to subscribe, or to change options, with what the kernel granted if it was asked, or with an error. The
    /// answer has the options if items come less surely than was asked for [0060#6.3.7].
    pub(super) fn put_subscribed(
        &mut self,
        id: &str,
        filter: &str,
        is_change: bool,
        granted: Result<Option<Reliability>, Refused>,
        out: &mut Vec<u8>,
    ) {
        let service = self.service.clone();
        if let Ok(Some(offered)) = granted {
            self.nodes.set_offered(filter, offered);
        }
        let most = self.reliability();
        match (granted, self.nodes.by_filter.get(filter)) {
            (Ok(granted), Some(subscription)) => {
                let Subscription {
                    options, offered, ..
                } = subscription;
                let is_less = granted.is_some() && *offered < options.asked.unwrap_or(most);
                let mut answer = Vec::new();
                if !is_change {
                    put_subscription(subscription, &self.address, "subscribed", &mut answer);
                }
                if is_less {
                    let fields = options.fields(depth_of(filter), *offered);
                    answer.extend_from_slice(b"<options>");
                    forms::put("result", SUBSCRIBE_OPTIONS, &fields, &mut answer);
                    answer.extend_from_slice(b"</options>");
                }
                self.put_answer("result", id, Some(&service), out, |out| {
                    if !answer.is_empty() {
                        out.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'>").as_bytes());
                        out.extend_from_slice(&answer);
                        out.extend_from_slice(b"</pubsub>");
                    }
                });
            }
            (granted, _) => {
                // It goes with the next change of its table.
                self.nodes.remove(filter);
                let error = granted.err().unwrap_or(NO_ROOM);
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

fn put_subscription(subscription: &Subscription, jid: &str, state: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<subscription");
    put_attribute("node", &subscription.node, out);
    put_attribute("jid", jid, out);
    put_attribute("subid", &subscription.number.to_string(), out);
    put_attribute("subscription", state, out);
    let expires = subscription.options.expires;
    if expires != Time::NEVER {
        put_attribute("expiry", &moment(expires), out);
    }
    out.extend_from_slice(b"/>");
}

const SUBSCRIBE_OPTIONS: &str = "http://jabber.org/protocol/pubsub#subscribe_options";
const DELIVER: &str = "pubsub#deliver";
const EXPIRE: &str = "pubsub#expire";
const DEPTH: &str = "pubsub#subscription_depth";
/// The content filter; the same name as AMQP's argument.
const FILTER: &str = "x-filter";
/// How surely items come.
const RELIABILITY: &str = "x-reliability";
const RELIABILITIES: [&str; 2] = ["at-most-once", "at-least-once"];

impl Options {
    /// Octets of what it has beside its place in the table.
    fn bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, |filter| filter.bytes())
    }

    fn fields(&self, depth: &'static str, offered: Reliability) -> [Field; 8] {
        let expires = match self.expires {
            Time::NEVER => String::new(),
            expires => moment(expires),
        };
        let filter = self.filter.as_ref().map_or("", |it| it.text()).to_owned();
        let reliability = match offered {
            Reliability::AtMostOnce => Is::Choice(RELIABILITIES[0], &[RELIABILITIES[1]]),
            _ => Is::Choice(RELIABILITIES[1], &[RELIABILITIES[0]]),
        };
        [
            (DELIVER, Is::Flag(self.delivers)),
            ("pubsub#digest", Is::Flag(false)),
            (EXPIRE, Is::Text(expires.into())),
            ("pubsub#include_body", Is::Flag(false)),
            (DEPTH, Is::Choice(depth, &[])),
            ("pubsub#subscription_type", Is::Choice("items", &[])),
            (FILTER, Is::Text(filter.into())),
            (RELIABILITY, reliability),
        ]
        .map(|(name, is)| Field { name, is })
    }
}

/// The depth of a filter, as XEP-0248 says it.
fn depth_of(filter: &str) -> &'static str {
    match filter {
        _ if filter.ends_with("/+") => "1",
        _ if filter.ends_with("/#") => "all",
        _ => "0",
    }
}

fn moment(time: Time) -> String {
    datetime::write(time.nanos() / 1_000_000_000)
}

/// The depth that a form asks for, and the options of `before` as it changes them.
fn read_options(
    form: Option<Element<'_>>,
    before: Options,
    now: Time,
) -> Result<(Option<String>, Options), Refused> {
    let (mut depth, mut options) = (None, before.clone());
    let mut others = Vec::new();
    for (name, value) in form.into_iter().flat_map(forms::submitted) {
        match (&*name, value.trim()) {
            (DEPTH, wanted) => depth = Some(wanted.to_owned()),
            (DELIVER, wanted) => {
                options.delivers = forms::flag(wanted).ok_or(INVALID_OPTIONS.about(DELIVER))?;
            }
            (EXPIRE, "") => options.expires = Time::NEVER,
            (EXPIRE, wanted) => {
                let expires = datetime::read(wanted).map(Time::from_secs);
                options.expires = expires
                    .filter(|expires| *expires > now)
                    .ok_or(INVALID_OPTIONS.about(EXPIRE))?;
            }
            (RELIABILITY, wanted) if wanted == RELIABILITIES[0] => {
                options.asked = Some(Reliability::AtMostOnce);
            }
            (RELIABILITY, wanted) if wanted == RELIABILITIES[1] => {
                options.asked = Some(Reliability::AtLeastOnce);
            }
            (RELIABILITY, _) => return Err(INVALID_OPTIONS.about(RELIABILITY)),
            (FILTER, "") => options.filter = None,
            (FILTER, wanted) => {
                let read = Predicate::parse(wanted);
                let refused = |error: FilterError| {
                    INVALID_OPTIONS
                        .about("x-filter is not a filter")
                        .at(error.at, error.what)
                };
                options.filter = Some(Arc::new(read.map_err(refused)?));
            }
            _ => others.push((name, value)),
        }
    }
    forms::check(
        &before.fields("0", Reliability::AtMostOnce),
        others.into_iter(),
    )
    .map_err(|name| match name {
        "" => INVALID_OPTIONS.about("a field that subscriptions do not have"),
        name => INVALID_OPTIONS.about(name),
    })?;
    Ok((depth, options))
}
