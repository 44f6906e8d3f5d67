//! Acknowledgements and resumption (XEP-0198): sessions that outlive their connections.
//!
//! What a client has subscribed to after it has enabled acknowledgements is delivered at least once: each notification is in the
//! kernel's window until the client counts it. With resumption the session is one that outlives its link and, with a journal,
//! the broker. The counts do not outlive the broker. A client that wants to go on with a stream of before is refused then,
//! but what it had subscribed to and not acknowledged comes when it has bound a resource and enabled acknowledgements again.

use super::chat::Availability;
use super::pep::Interests;
use super::presence::Contacts;
use super::pubsub::{Asked, NO_ROOM, Publishing, Retraction};
use super::rpc::Calls;
use super::subscriptions::Nodes;
use super::{DIALECT, XmppFront};
use crate::front::{Cx, Step, Variant};
use std::collections::HashMap;
use thalweg_kernel::{Closing, Kernel, Opened, SessionId, SessionView, Tag, Ticket, Verdict, home};
use thalweg_model::{Reliability, Span};
use thalweg_xmpp::{Jid, Management, StanzaKind};

/// What names of sessions begin with that the kernel has made up.
const MADE_UP: &str = "auto-";

/// A request to go on with an earlier stream.
pub(super) struct Resuming {
    name: Box<str>,
    /// The link is on the shard of that stream's session.
    is_home: bool,
}

/// What one connection leaves to the next of the same stream.
pub(super) struct Estate {
    management: Management,
    nodes: Nodes,
    contacts: Contacts,
    interests: Interests,
    availability: Availability,
    asked: HashMap<Ticket, Asked>,
    calls: Option<Box<Calls>>,
    names: u32,
    nonce: u64,
    address: Box<str>,
}

/// Whether a session that has no link is one that a client of XMPP has left. After a restart it is not known whose it was.
fn is_of_xmpp(kernel: &Kernel, name: &str) -> bool {
    let is_known = |view: &SessionView| {
        view.link.is_none() && matches!(view.dialect, "" | DIALECT) && name.starts_with(MADE_UP)
    };
    let mut is_ours = kernel.session_view(name).as_ref().is_some_and(is_known);
    // XMPP has no second half of an acknowledgement.
    kernel.for_each_subscription(Some(name), |held| {
        is_ours &= held.reliability != Reliability::ExactlyOnce;
    });
    is_ours
}

impl XmppFront {
    pub(super) fn on_acknowledged(cx: &mut Cx<'_>, tags: &[Tag]) {
        let Some(session) = cx.session() else {
            return;
        };
        for tag in tags {
            cx.kernel
                .settle(session, *tag, Verdict::Accept, cx.now, cx.links);
        }
    }

    pub(super) fn on_enable(cx: &mut Cx<'_>, resume: bool) {
        let opened = match resume {
            true => XmppFront::outlive(cx),
            false => None,
        };
        XmppFront::write(cx.links, cx.id, |front, out| {
            let seconds = opened.map_or(0, |(opened, _)| opened.expiry.secs());
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            front.side.enabled(front.resume.as_deref(), seconds, out);
        });
        if let Some((opened, before)) = opened {
            cx.start(opened.session);
            // Now it would not be told that the user has gone and come.
            let (clean, now) = (Closing::Clean, cx.now);
            cx.kernel
                .close_link(before, cx.id, clean, Some(Span::ZERO), now, cx.links);
            XmppFront::tell_contacts(cx);
        }
    }

    /// Replaces the session, which has nothing yet and is to be closed, by one that outlives its link: that of an earlier stream
    /// if the client has asked for it in vain. `None`: it cannot be had.
    fn outlive(cx: &mut Cx<'_>) -> Option<(Opened, SessionId)> {
        let before = cx.session()?;
        let front = XmppFront::of(cx.links, cx.id)?;
        let span = front.settings.resume_max;
        let has_something = front.nodes.bytes() + front.contacts.bytes() + front.interests.bytes()
            > 0
            || front.calls.is_some();
        if span == Span::ZERO || has_something || !front.asked.is_empty() {
            return None;
        }
        let user = front.allowed.as_ref()?.0.clone();
        let (nonce, inherited) = (front.nonce, front.inherits.take());
        let access = cx.kernel.session_access(before)?.clone();
        let name = inherited.unwrap_or_else(|| cx.kernel.unused_client_id(nonce));
        let opened = XmppFront::open_session(cx, &name, span, user, access).ok()?;
        if opened.expiry == Span::ZERO {
            // The kernel lets no session outlive its link.
            return Some((opened, before));
        }
        cx.links.name_front(&name, cx.id);
        let front = XmppFront::of(cx.links, cx.id)?;
        if opened.resumed {
            let XmppFront {
                nodes,
                contacts,
                interests,
                ..
            } = front;
            front.names = nodes.restore(contacts, interests, cx.kernel, &name);
        }
        front.resume = Some(name);
        Some((opened, before))
    }

    pub(super) fn on_resume(cx: &mut Cx<'_>, name: &str) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        // A link moves once.
        if front.has_failed_to_resume {
            return XmppFront::refuse_resumption(cx);
        }
        front.resuming = Some(Resuming {
            name: name.into(),
            is_home: false,
        });
    }

    fn refuse_resumption(cx: &mut Cx<'_>) {
        XmppFront::write(cx.links, cx.id, |front, out| {
            front.has_failed_to_resume = true;
            front.side.resume_failed(out);
        });
    }

    /// Goes on with an earlier stream if the client has asked for that, once the link is where its session is.
    pub(super) fn resume(cx: &mut Cx<'_>) -> Option<Step> {
        let front = XmppFront::of(cx.links, cx.id)?;
        let resuming = front.resuming.as_mut()?;
        if !std::mem::replace(&mut resuming.is_home, true) {
            let home = home(&resuming.name, u16::MAX);
            return Some(Step::Rehome(u64::from(home.0) + 1));
        }
        let name = front.resuming.take()?.name;
        if XmppFront::go_on(cx, &name).is_none() {
            XmppFront::refuse_resumption(cx);
        }
        None
    }

    /// `None`: there is no such stream.
    fn go_on(cx: &mut Cx<'_>, name: &str) -> Option<()> {
        let front = XmppFront::of(cx.links, cx.id)?;
        let (user, access) = front.allowed.clone()?;
        let span = front.settings.resume_max;
        let view = cx.kernel.session_view(name)?;
        if span == Span::ZERO || view.user.as_deref() != user.as_deref() {
            return None;
        }
        let Some(estate) = cx.links.take_earlier(name, cx.id, cx.now) else {
            // It is of an earlier run, or its stream was ended.
            let is_ours = is_of_xmpp(cx.kernel, name);
            let front = XmppFront::of(cx.links, cx.id)?;
            front.inherits = is_ours.then(|| name.into());
            return None;
        };
        let estate = *estate.downcast::<Estate>().ok()?;
        let jid = Jid::parse(&estate.address).ok()?;
        let opened = XmppFront::open_session(cx, name, span, user, access).ok()?;
        let session = opened.session;
        if !opened.resumed {
            // It has ended with its link, and this is another one.
            if let Some(link) = cx.links.get_mut(cx.id) {
                link.session = None;
            }
            let (clean, now) = (Closing::Clean, cx.now);
            cx.kernel
                .close_link(session, cx.id, clean, Some(Span::ZERO), now, cx.links);
            return None;
        }
        cx.links.name_front(name, cx.id);
        let now = cx.now;
        let settled = XmppFront::write(cx.links, cx.id, |front, out| {
            front.resume = Some(name.into());
            front.nodes = estate.nodes;
            front.contacts = estate.contacts;
            front.interests = estate.interests;
            front.availability = estate.availability;
            front.availability.begin(now);
            // What was answered meanwhile is lost, and given up in its time.
            front.calls = estate.calls;
            front.names = estate.names;
            front.nonce = estate.nonce;
            front.address = estate.address;
            front.side.resumed(name, jid, estate.management, out)
        })?;
        match settled {
            // New messages come after those that are sent again.
            Ok(tags) => {
                cx.kernel.link_blocked(session, cx.id);
                XmppFront::on_acknowledged(cx, &tags);
            }
            Err(fault) => {
                XmppFront::fail(cx, &fault);
                return Some(());
            }
        }
        cx.start(session);
        cx.kernel.link_writable(session, cx.id, cx.now, cx.links);
        XmppFront::tell_contacts(cx);
        XmppFront::direct_again(cx, session);
        for asked in estate.asked.into_values() {
            XmppFront::ask_again(cx, session, asked);
        }
        Some(())
    }

    /// What was asked over an earlier connection, whose answer is lost with it.
    fn ask_again(cx: &mut Cx<'_>, session: SessionId, asked: Asked) {
        match asked {
            Asked::Subscribe {
                id,
                filter,
                is_change,
            } => {
                // The table is empty, and so there is room.
                _ = XmppFront::subscribe(cx, session, (id, is_change), &filter);
            }
            // Nothing waits for it but an answer that says what the presence itself says.
            Asked::Contact { .. } => {}
            Asked::Sent { id, to, .. } => {
                XmppFront::write(cx.links, cx.id, |front, out| {
                    front.put_error(StanzaKind::Message, &id, to.as_deref(), NO_ROOM, out);
                });
            }
            Asked::Items { id, account, .. }
            | Asked::Names { id, account, .. }
            | Asked::Nodes { id, account }
            | Asked::Published(Publishing { id, account, .. })
            | Asked::Retract(Retraction { id, account, .. }) => {
                XmppFront::write(cx.links, cx.id, |front, out| {
                    let from = front.home(&account);
                    front.put_answer("error", &id, Some(&from), out, |out| NO_ROOM.put(out));
                });
            }
        }
    }

    /// What the next connection of the stream needs; this one has nothing of it any more.
    pub(super) fn bequeath(&mut self) -> Option<Estate> {
        self.resume = None;
        if self.is_over() {
            return None;
        }
        Some(Estate {
            management: self.side.suspend()?,
            nodes: std::mem::take(&mut self.nodes),
            contacts: std::mem::take(&mut self.contacts),
            interests: std::mem::take(&mut self.interests),
            availability: std::mem::take(&mut self.availability),
            asked: {
                self.asked_bytes = 0;
                std::mem::take(&mut self.asked)
            },
            calls: self.calls.take(),
            names: self.names,
            nonce: self.nonce,
            address: self.address.clone(),
        })
    }

    /// Octets that are kept for the client.
    pub(super) fn kept_bytes(&self) -> usize {
        self.nodes.bytes()
            + self.contacts.bytes()
            + self.interests.bytes()
            + self.availability.bytes()
            + self.asked_bytes
            + self.calls.as_ref().map_or(0, |calls| calls.bytes())
            + self.side.management().map_or(0, Management::memory)
    }

    /// Whether the client has left too much of what it was answered unacknowledged.
    pub(super) fn is_behind(&self) -> bool {
        let most = self.settings.unacknowledged_bytes_max;
        let management = self.side.management();
        management.is_some_and(|management| management.bytes() > most)
    }

    /// Ends the stream of a client that does not acknowledge what it is answered.
    pub(super) fn watch_unacknowledged(cx: &mut Cx<'_>) {
        let Some(front) = XmppFront::at(cx.links, cx.id) else {
            return;
        };
        if front.side.management().is_none() || front.is_over() {
            return;
        }
        let is_over = front.is_behind();
        let kept = front.kept_bytes();
        if is_over || !cx.links.count_kept(cx.id, kept, cx.kernel) {
            let why = "too many answers are not acknowledged";
            XmppFront::say(cx, |side, out| side.refuse("policy-violation", why, out));
            XmppFront::give_up(cx, why);
        }
    }
}
