//! Questions: requests and reads of last values, with an end.

use thalweg_model::{Reliability, Time};

use super::draft::Draft;
use super::interface::Notice;
use super::send::outbound;
use super::{Core, Engine};
use crate::message::Message;
use crate::transport::{Capabilities, Refusal, RequestId};

/// Questions that may wait for their answers at once.
const ASKS_MAX: usize = 4_096;

/// A question of a handle.
#[derive(Debug)]
pub(super) struct Ask {
    pub way: usize,
    what: What,
    deadline: Time,
    /// The lane that was asked.
    lane: Option<usize>,
}

#[derive(Debug)]
enum What {
    /// A request; the message as [`Draft::encode`] has it.
    Request { entry: Vec<u8>, may_repeat: bool },
    /// The last value of an address.
    Read { address: String },
}

impl Ask {
    /// Whether a lane was asked.
    pub fn is_at(&self, lane: usize) -> bool {
        self.lane == Some(lane)
    }

    fn fits(&self, can: &Capabilities) -> bool {
        match self.what {
            What::Request { .. } => can.requests,
            What::Read { .. } => can.last_values,
        }
    }
}

impl Engine {
    /// Publishes a question; [`Notice::Answered`] brings the answer, or that none came before `deadline`. The draft's
    /// identifier counts as one of a message. It is asked again after a lost connection only if its reliability is at least
    /// once.
    pub fn request(&mut self, request: RequestId, draft: &Draft<'_>, deadline: Time, now: Time) {
        self.core.books.next_id = self.core.books.next_id.max(draft.id.saturating_add(1));
        let mut entry = Vec::new();
        if !draft.encode(&mut entry) {
            self.core.answered(
                request,
                Err(Refusal::TooLarge {
                    limit: usize::from(u16::MAX),
                }),
            );
            return;
        }
        let may_repeat = draft.reliability != Reliability::AtMostOnce;
        self.ask(
            request,
            draft.way as usize,
            What::Request { entry, may_repeat },
            deadline,
            now,
        );
    }

    /// Asks for the last value of an address at the brokers of a way.
    pub fn read(&mut self, request: RequestId, way: u32, address: &str, deadline: Time, now: Time) {
        self.ask(
            request,
            way as usize,
            What::Read {
                address: address.to_owned(),
            },
            deadline,
            now,
        );
    }

    fn ask(&mut self, request: RequestId, way: usize, what: What, deadline: Time, now: Time) {
        let refusal = if way >= self.core.ways.len() {
            Some(Refusal::Unsupported("there is no such destination"))
        } else if self.core.asks.len() >= ASKS_MAX {
            Some(Refusal::Window)
        } else {
            None
        };
        if way == 0 {
            let demand = &mut self.core.demand;
            let is_known = if matches!(what, What::Read { .. }) {
                &mut demand.last_values
            } else {
                &mut demand.requests
            };
            self.core.demand_is_new |= !std::mem::replace(is_known, true);
        }
        self.core.asks.insert(
            request,
            Ask {
                way,
                what,
                deadline,
                lane: None,
            },
        );
        if let Some(refusal) = refusal {
            self.core.answered(request, Err(refusal));
        }
        self.core.care_at = now;
    }

    /// Nobody waits for this answer any more.
    pub fn forget(&mut self, request: RequestId, _now: Time) {
        if let Some(lane) = self.core.asks.remove(&request).and_then(|ask| ask.lane)
            && let Some(lane) = self.lanes.get_mut(lane).filter(|lane| lane.link.is_up())
        {
            lane.transport.forget(request);
        }
    }

    /// Asks what can be asked, and ends what has waited long enough.
    pub(super) fn care_for_asks(&mut self, now: Time) {
        let names: Vec<RequestId> = self.core.asks.keys().copied().collect();
        for name in names {
            let Some(ask) = self.core.asks.get(&name) else {
                continue;
            };
            if ask.deadline <= now {
                self.forget(name, now);
                self.core.books.notices.push_back(Notice::Answered {
                    request: name,
                    answer: Err(Refusal::NoAnswer),
                });
                continue;
            }
            self.core.care_at = self.core.care_at.min(ask.deadline);
            if ask.lane.is_none() {
                self.put(name, now);
            }
        }
    }

    fn put(&mut self, name: RequestId, now: Time) {
        let Some(ask) = self.core.asks.get_mut(&name) else {
            return;
        };
        let Some(way) = self.core.ways.get(ask.way) else {
            return;
        };
        let can = |lane: usize| {
            self.lanes
                .get(lane)
                .is_some_and(|lane| ask.fits(&lane.link.capabilities))
        };
        let is_up = |lane: usize| self.lanes.get(lane).is_some_and(|lane| lane.link.is_up());
        let fit: Vec<usize> = way
            .current
            .into_iter()
            .chain(way.lanes.iter().copied())
            .filter(|lane| can(*lane))
            .collect();
        let Some(lane) = fit.iter().copied().find(|lane| is_up(*lane)) else {
            match fit.first().copied() {
                Some(lane) => {
                    self.connect(lane, now);
                    if let Some(closed) = self.lanes.get(lane).filter(|lane| !lane.link.is_open()) {
                        self.core.care_at = self.core.care_at.min(closed.link.retry_at);
                    }
                }
                // The peer's capabilities are certain only after the connection is open.
                None if way.lanes.iter().any(|lane| is_up(*lane)) => {
                    let what = match ask.what {
                        What::Request { .. } => "requests",
                        What::Read { .. } => "reading last values",
                    };
                    self.core.answered(name, Err(Refusal::Unsupported(what)));
                }
                None => {}
            }
            return;
        };
        let Some(at) = self.lanes.get_mut(lane) else {
            return;
        };
        let asked = match &ask.what {
            What::Request { entry, .. } => match Draft::decode(entry) {
                Some((draft, _)) => {
                    // A request is never a repetition: it has no stamp, and is sent at least once where the lane can.
                    let reliability = draft.reliability.min(Reliability::AtLeastOnce);
                    let message = outbound(&draft, reliability, None, false, now);
                    at.transport.request(name, &message, now, &mut at.out)
                }
                None => Err(Refusal::Address),
            },
            What::Read { address } => at.transport.read(name, address, now, &mut at.out),
        };
        match asked {
            Ok(()) => ask.lane = Some(lane),
            Err(Refusal::Window | Refusal::NotConnected | Refusal::Busy(_)) => {
                self.core.care_at = self.core.care_at.min(now + super::TICK);
            }
            Err(why) => self.core.answered(name, Err(why)),
        }
    }

    /// A lane's connection was lost: what was asked there is asked again where that does no harm.
    pub(super) fn asks_lost(&mut self, lane: usize, now: Time) {
        let lost: Vec<RequestId> = self
            .core
            .asks
            .iter()
            .filter(|(_, ask)| ask.is_at(lane))
            .map(|(name, _)| *name)
            .collect();
        for name in lost {
            let Some(ask) = self.core.asks.get_mut(&name) else {
                continue;
            };
            ask.lane = None;
            if matches!(
                ask.what,
                What::Request {
                    may_repeat: false,
                    ..
                }
            ) {
                self.core.answered(name, Err(Refusal::NotConnected));
            }
        }
        self.core.care_at = now;
    }
}

impl Core {
    /// The address whose last value a question asks for; empty if it asks for something else.
    pub(super) fn address_read(&self, request: RequestId) -> &str {
        match self.asks.get(&request).map(|ask| &ask.what) {
            Some(What::Read { address }) => address,
            _ => "",
        }
    }

    pub(super) fn answered(
        &mut self,
        request: RequestId,
        answer: Result<Option<Message>, Refusal>,
    ) {
        if self.asks.remove(&request).is_some() {
            self.books
                .notices
                .push_back(Notice::Answered { request, answer });
        }
    }
}
