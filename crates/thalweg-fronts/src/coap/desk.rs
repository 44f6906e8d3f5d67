//! The session that the CoAP fronts of a shard and a tenant have in common: topics become known here, and answers to `/rpc`
//! arrive. It has a link of its own, without a peer.

use super::data::bare;
use super::note::{Note, tell, tell_all};
use super::topics::{Applied, TopicId, Topics};
use super::waiting::Hold;
use crate::LoginAnswer;
use crate::address::in_tenant;
use crate::deferred::Effect;
use crate::front::{Cx, Fate, Front, Outbound, Step, Undelivered, Variant};
use crate::link::Links;
use std::collections::{BTreeSet, VecDeque};
use thalweg_kernel::access::Rules;
use thalweg_kernel::{
    Answer, CloseReason, Content, Delivery, Grants, Kernel, LastValueWish, LinkId, ListSpec,
    NameKey, OpenSession, SessionId, Ticket, Wish, home,
};
use thalweg_model::{Message, Reliability, RetainOp, Span, Time};

/// See the module. Its session is that of its link.
pub struct Desk {
    pub(super) tenant: Box<str>,
    nonce: u64,
    key: NameKey,
    pub(super) topics: Topics,
    /// What addresses of answers begin with.
    replies: String,
    /// Answers find the way here from every shard.
    pub(super) is_open: bool,
    /// The topics that existed when it opened have been read; until then no request may be answered with "no such
    /// topic".
    pub(super) is_known: bool,
    /// Topics that were changed before that: the change is newer than the list.
    told_of: BTreeSet<Box<str>>,
    /// Before this time nothing tries again to delete topics that have ended: there was no room to write it down.
    expire_from: Time,
    /// What the kernel has said since it was woken last.
    notes: VecDeque<Effect>,
}

/// How long a topic that has ended stays if there is no room to write that down.
const EXPIRE_AGAIN: Span = Span::from_secs(5);

/// Where topics are kept.
const TOPICS: &str = "$ps/+";

impl Outbound for Desk {
    /// To its own subscriptions. There is always room: it is looked at before outputs are flushed.
    fn deliver(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        _: &mut Vec<u8>,
    ) -> Result<(), Undelivered> {
        self.notes.push_back(Effect::delivered(content, delivery));
        Ok(())
    }

    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>, _: &mut Vec<u8>) {
        self.notes.push_back(Effect::answer(ticket, answer));
    }

    fn disconnect(&mut self, why: CloseReason, _: &mut Vec<u8>) -> Fate {
        self.notes.push_back(Effect::Disconnected(why));
        Fate::LinkStays
    }
}

impl Front for Desk {
    fn step(_: &mut Cx<'_>, _: &[u8]) -> Step {
        Step::Hold
    }

    fn on_login(_: &mut Cx<'_>, _: &str, _: LoginAnswer) {}

    fn on_wake(cx: &mut Cx<'_>) {
        Desk::on_notes(cx.links, cx.id, cx.now, cx.kernel);
    }

    fn on_timer(cx: &mut Cx<'_>) {
        Desk::expire(cx.links, cx.id, cx.now, cx.kernel);
    }

    /// When the next topic ends.
    fn next_timer(&self) -> Time {
        let end = self.topics.next_expiry();
        end.map_or(Time::NEVER, |end| {
            Time::from_secs(end).max(self.expire_from)
        })
    }

    fn defers(&self) -> bool {
        true
    }

    fn holds_each(&self) -> bool {
        true
    }
}

/// A moment as configurations say it: the kernel's time is that since 1970.
pub(super) fn unix_secs(time: Time) -> u64 {
    time.nanos() / 1_000_000_000
}

/// Tells a call of a link from all others.
fn number_of(link: LinkId, call: u64) -> u128 {
    u128::from(link.0) << 64 | u128::from(call)
}

impl Desk {
    /// The desk of a tenant; opens it if there is none. Nothing if the kernel has no room for a session.
    pub(super) fn open(tenant: &str, nonce: u64, cx: &mut Cx<'_>) -> Option<LinkId> {
        let Cx {
            now, kernel, links, ..
        } = cx;
        let is_its = |id: &LinkId| Desk::at(links, *id).is_some_and(|desk| *desk.tenant == *tenant);
        if let Some(id) = links.ids().find(is_its) {
            return Some(id);
        }
        let key = kernel.name_key(nonce);
        let mut replies = String::new();
        let own = key.name("desk", 0) as u64;
        in_tenant(tenant, &format!("$reply/{own:016x}/"), &mut replies);
        let topics = Topics::new(tenant, kernel.shard().0);
        let link = links.open_internal(Desk {
            tenant: tenant.into(),
            nonce,
            key,
            topics,
            replies,
            is_open: false,
            is_known: false,
            told_of: BTreeSet::new(),
            expire_from: Time::ZERO,
            notes: VecDeque::new(),
        });
        if !Desk::open_session(tenant, link, nonce, *now, kernel, links) {
            links.close(link, kernel, *now);
            return None;
        }
        Desk::subscribe(links, link, *now, kernel);
        Some(link)
    }

    fn open_session(
        tenant: &str,
        link: LinkId,
        nonce: u64,
        now: Time,
        kernel: &mut Kernel,
        links: &mut Links,
    ) -> bool {
        let client = kernel.unused_client_id(nonce ^ 0x6465_736B);
        // Not the operator's rules: they are for peers.
        let access = Rules::allow_all().into_own().compile("", None);
        let open = OpenSession {
            tenant,
            grants: Grants::of_listener(Some(0), None),
            ..OpenSession::of_link(&client, link, access, "CoAP (topics and answers)")
        };
        let opened = kernel.open_session(open, now, links);
        if let (Ok(opened), Some(link)) = (&opened, links.get_mut(link)) {
            link.session = Some(opened.session);
        }
        opened.is_ok()
    }

    fn filter(&self, of: &str) -> String {
        let mut filter = String::new();
        in_tenant(&self.tenant, of, &mut filter);
        filter
    }

    /// Has everything come here that the desk is for. Topics that there are already are listed afterwards, the first time:
    /// last values that come with a subscription do not say which is the last.
    fn subscribe(links: &mut Links, id: LinkId, now: Time, kernel: &mut Kernel) {
        let (Some(desk), Some(session)) = (Desk::at(links, id), links.session(id)) else {
            return;
        };
        let (topics, counts, replies) = (
            desk.filter(TOPICS),
            desk.filter("$ps/+/+"),
            format!("{}+", desk.replies),
        );
        let is_first = !desk.is_known;
        let wish = |(filter, last_values)| Wish {
            filter,
            group: None,
            reliability: Reliability::AtMostOnce,
            no_local: false,
            retain_as_published: true,
            last_values,
            id: 0,
        };
        let never = LastValueWish::Never;
        let of_topics = if is_first {
            never
        } else {
            LastValueWish::Always
        };
        let wishes = [(&*topics, of_topics), (&*counts, never), (&*replies, never)].map(wish);
        kernel.start(session, now, links);
        kernel.subscribe(session, 1, &wishes, now, links);
    }

    /// Where the answer to a call of a link goes. A responder to one call cannot derive the addresses of others.
    pub(super) fn reply_address(&self, link: LinkId, call: u64) -> String {
        let proof = self.key.name("call", number_of(link, call)) as u64;
        format!("{}{:x}-{call:x}-{proof:016x}", self.replies, link.0)
    }

    /// The call whose answer comes at this address; none if the address is not in use.
    fn call_of(&self, address: &str) -> Option<(LinkId, u64)> {
        let mut parts = address.strip_prefix(&*self.replies)?.splitn(3, '-');
        let link = LinkId(u32::from_str_radix(parts.next()?, 16).ok()?);
        let call = u64::from_str_radix(parts.next()?, 16).ok()?;
        (*self.reply_address(link, call) == *address).then_some((link, call))
    }

    /// Handles the effects on its session.
    fn on_notes(links: &mut Links, id: LinkId, now: Time, kernel: &mut Kernel) {
        while let Some(note) = Desk::of(links, id).and_then(|desk| desk.notes.pop_front()) {
            match note {
                Effect::Subscribed(..) | Effect::Unsubscribed(..) => {
                    let session = links.session(id);
                    if let (Some(desk), Some(session)) = (Desk::of(links, id), session) {
                        desk.is_open = true;
                        let filter = desk.filter(TOPICS);
                        if !desk.is_known {
                            let list = ListSpec {
                                filter: &filter,
                                max: usize::MAX,
                            };
                            kernel.list_last_values(session, id, 0, list, now, links);
                        }
                    }
                }
                Effect::Values(_, values, complete) => {
                    Desk::on_listed(links, id, values, complete, now, kernel)
                }
                Effect::Delivered(delivered) => {
                    Desk::on_message(links, id, delivered.message, kernel)
                }
                Effect::Disconnected(_) => Desk::open_again(links, id, now, kernel),
                _ => {}
            }
        }
        Desk::announce(links, id, now, kernel);
    }

    /// These topics there were when the desk opened.
    fn on_listed(
        links: &mut Links,
        id: LinkId,
        values: Vec<Message>,
        is_complete: bool,
        now: Time,
        kernel: &mut Kernel,
    ) {
        let Some(desk) = Desk::of(links, id) else {
            return;
        };
        desk.is_known = true;
        let told_of = std::mem::take(&mut desk.told_of);
        for message in values
            .into_iter()
            .filter(|message| !told_of.contains(message.address()))
        {
            Desk::on_message(links, id, message, kernel);
        }
        if !is_complete {
            // More than a list can have: the others come one by one.
            Desk::subscribe(links, id, now, kernel);
        }
    }

    /// An operator has ended its session. Without one this shard would not be notified of topics any more.
    fn open_again(links: &mut Links, id: LinkId, now: Time, kernel: &mut Kernel) {
        let Some(desk) = Desk::of(links, id) else {
            return;
        };
        desk.is_open = false;
        let (tenant, nonce) = (desk.tenant.clone(), desk.nonce);
        if Desk::open_session(&tenant, id, nonce, now, kernel, links) {
            Desk::subscribe(links, id, now, kernel);
        }
    }

    fn on_message(links: &mut Links, id: LinkId, message: Message, kernel: &mut Kernel) {
        let Some(desk) = Desk::of(links, id) else {
            return;
        };
        let address = message.address();
        if let Some((link, call)) = desk.call_of(address) {
            return tell(links, link, Note::Reply { call, message });
        }
        let mut prefix = String::new();
        in_tenant(&desk.tenant, "$ps/", &mut prefix);
        let Some(rest) = address.strip_prefix(&*prefix) else {
            return;
        };
        let payload = Some(message.payload()).filter(|payload| !payload.is_empty());
        match rest.split_once('/') {
            Some((topic, shard)) => {
                // Two shards may have given the last seat away at the same moment.
                if desk.topics.apply_count(topic, shard, message.payload())
                    && let Some(topic) = desk.topics.find(topic).map(|(topic, _)| topic)
                    && desk.topics.surplus(topic) > 0
                {
                    tell_all(links, || Note::Surplus(topic));
                }
            }
            // A message that does not decode is its publisher's mistake, and changes nothing.
            None => {
                if !desk.is_known {
                    desk.told_of.insert(address.into());
                }
                if let Ok(applied) = desk.topics.apply(rest, payload) {
                    let topic = desk.topics.find(rest).map(|(topic, _)| topic);
                    Desk::on_applied(links, id, &applied, topic, kernel);
                }
            }
        }
    }

    /// What follows from a topic's being new, other or gone.
    pub(super) fn on_applied(
        links: &mut Links,
        id: LinkId,
        applied: &Applied,
        topic: Option<TopicId>,
        kernel: &mut Kernel,
    ) {
        let Some(desk) = Desk::at(links, id) else {
            return;
        };
        let is_home = |address: &str| home(address, kernel.shards()) == kernel.shard();
        match applied {
            Applied::New => {
                let (Some(id), Some(topic)) =
                    (topic, topic.and_then(|topic| desk.topics.get(topic)))
                else {
                    return;
                };
                let address = topic.address.clone();
                if topic.configuration.max_subscribers.is_some() {
                    tell_all(links, || Note::Counts(id));
                }
                // One shard says it to all.
                if let Some(address) = address.filter(|address| is_home(address)) {
                    kernel.keep_last(&address, true);
                }
            }
            Applied::Gone(Some(address)) if is_home(address) => {
                kernel.keep_last(address, false);
            }
            Applied::Changed => {
                let limits = |topic: &TopicId| {
                    desk.topics
                        .get(*topic)
                        .is_some_and(|topic| topic.configuration.max_subscribers.is_some())
                };
                // Those who came before there was a topic may have no seats.
                if let Some(topic) = topic.filter(limits) {
                    tell_all(links, || Note::Counts(topic));
                }
            }
            _ => {}
        }
    }

    /// Publishes to the other shards how many observers here the topics have that limit them.
    pub(super) fn announce(links: &mut Links, id: LinkId, now: Time, kernel: &mut Kernel) {
        let session = links.session(id);
        let (Some(desk), Some(session)) = (Desk::of(links, id), session) else {
            return;
        };
        for (topic, count) in desk.topics.take_announcements() {
            let Some(desk) = Desk::at(links, id) else {
                return;
            };
            let (address, text) = (desk.topics.counted_at(topic), count.to_string());
            let draft = bare(
                &address,
                text.as_bytes(),
                RetainOp::None,
                Reliability::AtMostOnce,
            );
            kernel.publish(session, draft, now, links);
        }
    }

    /// Deletes topics whose time is over, as a peer would.
    fn expire(links: &mut Links, id: LinkId, now: Time, kernel: &mut Kernel) {
        let (Some(desk), Some(session)) = (Desk::at(links, id), links.session(id)) else {
            return;
        };
        let ended: Vec<TopicId> = desk.topics.expired(unix_secs(now)).collect();
        for topic in ended {
            if Desk::delete(links, id, topic, session, now, kernel).is_err()
                && let Some(desk) = Desk::of(links, id)
            {
                desk.expire_from = now + EXPIRE_AGAIN;
            }
        }
    }

    /// Clears a topic's value and its configuration; what the answer must wait for, or that it may not be.
    pub(super) fn delete(
        links: &mut Links,
        id: LinkId,
        topic: TopicId,
        session: SessionId,
        now: Time,
        kernel: &mut Kernel,
    ) -> Result<Option<Hold>, thalweg_kernel::Outcome> {
        let Some(desk) = Desk::at(links, id) else {
            return Ok(None);
        };
        let data = desk
            .topics
            .get(topic)
            .and_then(|topic| topic.address.clone());
        let kept_at = desk.topics.kept_at(topic);
        let mut batch = None;
        for address in data.iter().chain([&kept_at]) {
            links.take_hold();
            let draft = bare(address, &[], RetainOp::Clear, Reliability::AtLeastOnce);
            let outcome = kernel.publish(session, draft, now, links).outcome;
            if super::answer::Answer::of_outcome(outcome).is_some() {
                return Err(outcome);
            }
            // Nothing else waits for what is cleared, so it cannot be refused.
            batch = batch.max(links.take_hold().map(Hold::Batch));
        }
        if let Some(desk) = Desk::of(links, id)
            && let Ok(applied) = desk.topics.apply(topic.as_str(), None)
        {
            Desk::on_applied(links, id, &applied, None, kernel);
        }
        Ok(batch)
    }
}
