//! Whom a group would give a message to, in words.

use crate::Kernel;
use crate::groups::seats::Chosen;
use crate::groups::view::{GroupMemberView, GroupView};
use crate::ids::{GroupId, SessionId};
use crate::publish::subject::Subject;
use std::fmt::Write;
use std::sync::Arc;
use thalweg_balance::Signal;
use thalweg_model::{Message, Properties, Reliability, RetainOp, Span, Time};

impl Kernel {
    /// What would become of a message to that address that must be settled, with a payload and properties if content filters
    /// are to be asked; `publisher` is its publisher's number. False if it is for no member.
    pub(crate) fn explain_group(
        &mut self,
        group_id: GroupId,
        (address, sample): (&str, Option<(&[u8], &Properties)>),
        publisher: u64,
        now: Time,
    ) -> Option<(bool, Arc<str>, String)> {
        let payload = sample.map_or(&b""[..], |(payload, _)| payload);
        let properties = sample.map(|(_, properties)| Box::new(properties.clone()));
        let (reliability, retain) = (Reliability::AtLeastOnce, RetainOp::None);
        let message = Message::new(
            address,
            payload,
            reliability,
            retain,
            Time::NEVER,
            now,
            publisher,
            properties,
        );
        let is_selected = self.is_selected_by(group_id);
        let is_for_it = sample.is_none() || self.is_for_group(group_id, &message);
        let is_in_line = self.is_in_line(group_id, now);
        let is_ordered = self.is_ordered(group_id, now);
        let group = self.groups.get(group_id)?;
        let view = self.view_group(group, now);
        let (key, is_fed, owner) = (group.key().clone(), group.feed().is_some(), group.owner());
        let mut said = String::new();
        if owner != self.env.shard() {
            let _ = write!(said, "shard {} chooses", owner.0);
        } else if group.everybody().next().is_none() {
            said.push_str("nothing: there is no member");
        } else if is_fed {
            said.push_str("it takes from its queue, when a member has room");
        } else if is_selected && sample.is_none() {
            said.push_str("it goes to a member whose filter it passes, or to none");
        } else if !is_for_it {
            said.push_str("it passes no member's filter");
        } else if let (Some(oldest), true, false) = (view.oldest, is_in_line, is_ordered) {
            let _ = write!(
                said,
                "it waits behind {} others, the first of them for {}",
                view.waiting,
                of(oldest)
            );
            let _ = write!(said, ": {}", why_later(&view));
        } else {
            let chosen = self.choose_member(group_id, &message, false, &[], now);
            // Nothing was sent: no key is bound by this.
            self.order_changed(group_id);
            match chosen {
                Chosen::Member(member) => {
                    let client = self.member_client(member.session)?;
                    let seat = view.seats.iter().find(|seat| seat.client == client);
                    let _ = write!(
                        said,
                        "it goes to {client}: {}",
                        seat.map_or_else(String::new, |seat| why(&view, seat))
                    );
                }
                Chosen::Bound => said.push_str(
                    "it waits: earlier messages of its key are with a member that has no room",
                ),
                Chosen::Later if self.are_over_rate(group_id, &message, now) => {
                    said.push_str("it waits: the members are over their rate");
                }
                Chosen::Later => {
                    let _ = write!(said, "it waits: {}", why_later(&view));
                }
                Chosen::Nobody => said.push_str(self.why_nobody(group_id, address)),
            }
        }
        let online = view.seats.iter().filter(|seat| seat.online).count();
        let _ = write!(
            said,
            "; {}, {} members here, {online} with a link",
            view.strategy.name(),
            view.members
        );
        let _ = write!(said, ", {} waiting", view.waiting);
        let subject = sample.map(|sample| Subject::of_sample(address, sample));
        let selectors = self.groups.get(group_id)?.selectors().into_iter();
        self.say_filters(&mut said, selectors, subject.as_ref());
        Some((is_for_it, key, said))
    }

    /// Whether no member with a link has room for a message in its rate.
    fn are_over_rate(&mut self, group_id: GroupId, message: &Message, now: Time) -> bool {
        let (toll, group) = (self.toll(message, now), self.groups.get(group_id));
        let mut members = group.into_iter().flat_map(|group| group.everybody());
        toll.is_some_and(|toll| {
            members.all(|it| {
                !self.member_is_there(it.session) || !self.can_pay(Some(&toll), it.session)
            })
        })
    }

    fn why_nobody(&self, group_id: GroupId, address: &str) -> &'static str {
        let Some(group) = self.groups.get(group_id) else {
            return "";
        };
        if !self.has_member_allowed_at(group_id, address) {
            return "it is dropped: no member may receive it";
        }
        let all = group.everybody().map(|member| member.session);
        let there: Vec<SessionId> = all.filter(|id| self.member_is_there(*id)).collect();
        if there.is_empty() {
            return "it waits: no member has a link; at most once it is dropped";
        }
        if there.iter().all(|id| self.member_is_on_trial(*id)) {
            return "it waits: the members were silent before and have to settle one message first";
        }
        if there.iter().all(|id| self.member_is_full(*id)) {
            return "it waits: the members' outputs are full";
        }
        "it waits: the members have as many unsettled messages as they allow"
    }
}

fn why(view: &GroupView, seat: &GroupMemberView) -> String {
    let has = match seat.unsettled {
        0 => "it has nothing to settle".to_owned(),
        count => format!("it has {count} to settle"),
    };
    let Some((signal, service)) = seat.signal.zip(seat.service) else {
        return if view.ordered.is_some() {
            format!("its key is there; {has}")
        } else {
            has
        };
    };
    let source = match signal {
        Signal::Acknowledges => "as its settlements show",
        Signal::Reports => "as it reports",
        Signal::Silent => "as others take, for it shows nothing",
    };
    format!(
        "it will be done first; a message takes it {}, {source}; {has}",
        of(service)
    )
}

/// Why a message waits that some member could have.
fn why_later(view: &GroupView) -> String {
    let here = || view.seats.iter().filter(|seat| seat.online);
    if here().count() == 0 {
        return "no member has a link".to_owned();
    }
    match here().find(|seat| seat.unsettled == 0 && !seat.suspended) {
        Some(idle) => {
            format!(
                "others will be done with all that waits before {} would be with one message",
                idle.client
            )
        }
        None => {
            "the members are at work, and it goes to the first that is about to be free".to_owned()
        }
    }
}

fn of(span: Span) -> String {
    match span.nanos() {
        nanos if nanos < 1_000_000 => format!("{} µs", nanos / 1_000),
        nanos if nanos < 10_000_000_000 => format!("{} ms", nanos / 1_000_000),
        nanos => format!("{} s", nanos / 1_000_000_000),
    }
}
