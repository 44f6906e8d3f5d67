//! What a subscription has from a group, and when it has to be had otherwise.

use std::collections::VecDeque;
use std::net::SocketAddr;

use thalweg_model::{Filter, Reliability, Span, Time};
use thalweg_mqtt::Publish;
use thalweg_multicast::{Description, Receiver, ReceiverCounts, ReceiverSettings};

use crate::client::GroupCounts;
use crate::message::Message;
use crate::mqtt::inbound::message_of;
use crate::transport::Inbound;

/// How long a description may take after the broker was asked for it.
const DESCRIBED_WITHIN: Span = Span::from_secs(5);

/// What a [`Feed`] wants to be done.
#[derive(Debug, PartialEq)]
pub(crate) enum Want {
    /// Receive the datagrams of this group.
    Join(SocketAddr),
    /// Receive them no longer.
    Leave,
    /// Publish a request for lost datagrams at an address, and give the answer back.
    Ask(String, String),
    Deliver(Message),
    /// The group is heard: the subscription stands.
    Stand,
    /// Subscribe as usual, for this reason.
    FallBack(String),
}

/// One subscription by a group.
#[derive(Debug)]
pub(crate) struct Feed {
    filter: Filter,
    reliability: Reliability,
    state: State,
    is_standing: bool,
    /// Of the receivers before.
    past: ReceiverCounts,
    wants: VecDeque<Want>,
    properties: Vec<u8>,
}

#[derive(Debug)]
enum State {
    /// A description is awaited, until then.
    Learning(Time),
    Joined(Box<(Description, Receiver)>),
    /// It was given up.
    Over,
}

impl Feed {
    /// Of a filter; `reliability` is [`Reliability::AtMostOnce`] if losses are not repaired.
    pub(crate) fn new(filter: Filter, reliability: Reliability) -> Feed {
        Feed {
            filter,
            reliability,
            state: State::Learning(Time::NEVER),
            is_standing: false,
            past: ReceiverCounts::default(),
            wants: VecDeque::new(),
            properties: Vec::new(),
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Want> {
        self.wants.pop_front()
    }

    /// Whether it receives by multicast.
    pub(crate) fn is_standing(&self) -> bool {
        self.is_standing && matches!(self.state, State::Joined(_))
    }

    pub(crate) fn counts(&self) -> GroupCounts {
        let now = match &self.state {
            State::Joined(it) => *it.1.counts(),
            State::Learning(_) | State::Over => ReceiverCounts::default(),
        };
        GroupCounts {
            datagrams: self.past.datagrams + now.datagrams,
            duplicates: self.past.duplicates + now.duplicates,
            refused: self.past.refused + now.refused,
            requests: self.past.requests + now.requests,
            lost: self.past.lost + now.lost,
            unsent: self.past.unsent + now.unsent,
            dropped: 0,
        }
    }

    fn keep_counts(&mut self) {
        let sum = self.counts();
        (self.past.datagrams, self.past.duplicates) = (sum.datagrams, sum.duplicates);
        (self.past.refused, self.past.requests) = (sum.refused, sum.requests);
        (self.past.lost, self.past.unsent) = (sum.lost, sum.unsent);
    }

    /// Everything else by an ordinary subscription.
    pub(crate) fn fall_back(&mut self, why: impl Into<String>) {
        if matches!(self.state, State::Over) {
            return;
        }
        self.keep_counts();
        if matches!(self.state, State::Joined(_)) {
            self.wants.push_back(Want::Leave);
        }
        self.state = State::Over;
        self.wants.push_back(Want::FallBack(why.into()));
    }

    /// The broker was asked for the description.
    pub(crate) fn asked(&mut self, now: Time) {
        if let State::Learning(until @ Time::NEVER) = &mut self.state {
            *until = now + DESCRIBED_WITHIN;
        }
    }

    /// The group's last value came.
    pub(crate) fn described(&mut self, payload: &[u8], now: Time) {
        if payload.is_empty() {
            return self.fall_back("the broker has the group no longer");
        }
        let description = match Description::from_json(payload) {
            Ok(description) => description,
            Err(why) => return self.fall_back(why.to_string()),
        };
        let before = match &self.state {
            State::Over => return,
            State::Joined(it) if it.0.epoch == description.epoch => return,
            State::Joined(it) => Some(it.0.group),
            State::Learning(_) => None,
        };
        let covers = |filter: &String| {
            Filter::new(filter).is_ok_and(|filter| filter.covers(self.filter.as_str()))
        };
        if !description.filters.iter().any(covers) {
            return self.fall_back("the group does not carry all that the filter asks for");
        }
        self.keep_counts();
        if before != Some(description.group) {
            self.wants.extend(before.map(|_| Want::Leave));
            self.wants.push_back(Want::Join(description.group));
        }
        let is_reliable = self.reliability != Reliability::AtMostOnce;
        let settings = ReceiverSettings::for_group(&description, is_reliable);
        let receiver = Receiver::new(&description, settings, now);
        self.state = State::Joined(Box::new((description, receiver)));
    }

    /// A datagram came to the group's address. What is none of the group's is counted and passed over.
    pub(crate) fn datagram(&mut self, datagram: &[u8], now: Time) {
        if let State::Joined(it) = &mut self.state {
            let _ = it.1.on_datagram(datagram, now);
            self.take();
        }
    }

    /// The answer to a request came.
    pub(crate) fn answered(&mut self, answer: &[u8], now: Time) {
        if let State::Joined(it) = &mut self.state {
            // Of an epoch that is over, or cut off: the rest is asked for again.
            let _ = it.1.on_answer(answer, now);
            self.take();
        }
    }

    /// When [`Feed::timer`] is to be called.
    pub(crate) fn timeout(&self) -> Time {
        match &self.state {
            State::Learning(until) => *until,
            State::Joined(it) => it.1.poll_timeout().min(it.1.silent_at()),
            State::Over => Time::NEVER,
        }
    }

    pub(crate) fn timer(&mut self, now: Time) {
        match &mut self.state {
            State::Learning(until) if *until <= now => {
                self.fall_back("the broker does not describe the group");
            }
            State::Joined(it) if it.1.silent_at() <= now => {
                self.fall_back("nothing of the group is heard");
            }
            State::Joined(it) => {
                it.1.on_timer(now);
                self.take();
            }
            State::Learning(_) | State::Over => {}
        }
    }

    /// Takes out of the receiver what is ready.
    fn take(&mut self) {
        let State::Joined(it) = &mut self.state else {
            return;
        };
        let (description, receiver) = &mut **it;
        if receiver.has_begun() && !self.is_standing {
            self.is_standing = true;
            self.wants.push_back(Want::Stand);
        }
        while let Some(packet) = receiver.next_packet() {
            let Ok(Some((_, publish))) = Publish::decode(packet, u32::MAX) else {
                continue;
            };
            if self.filter.matches(publish.topic.as_str()) {
                let inbound = Inbound {
                    reliability: self.reliability,
                    ..message_of(&publish, &mut self.properties)
                };
                self.wants.push_back(Want::Deliver(Message::new(&inbound)));
            }
        }
        if let Some(request) = receiver.poll_request() {
            let address = description.repair.clone();
            self.wants.push_back(Want::Ask(address, request.to_json()));
        }
    }
}
