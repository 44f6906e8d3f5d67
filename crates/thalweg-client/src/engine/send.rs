//! The path from a handle to a lane's output: admission, time of sending, and outcomes.

use thalweg_model::{Reliability, Span, Stamp, Time};

use super::connections::hold_off;
use super::draft::Draft;
use super::interface::{Full, Success};
use super::lane::Lane;
use super::outbox::{Key, Outbox, Place, STAMP_HORIZON, topic_of};
use super::{Core, Engine};
use crate::adaptive::{Chooser, Sent, topic_hash};
use crate::transport::{Capabilities, Departure, Outbound, Refusal};

/// How long a message that the current lane cannot carry waits for another lane to be chosen.
pub(super) const PATIENCE: Span = Span::from_secs(5);

/// Terms under which a lane sends a message.
#[derive(Clone, Copy, Debug)]
struct Terms {
    reliability: Reliability,
    stamp: Option<Stamp>,
    /// Exactly once is the protocol's own affair.
    is_pinned: bool,
}

impl Engine {
    /// Takes a message. It leaves at once or at [`Engine::turn`].
    ///
    /// At most once and nothing before it: it goes straight into the lane's output, and nothing of it is kept.
    pub fn publish(&mut self, draft: &Draft<'_>, now: Time) -> Result<(), Full> {
        let core = &mut self.core;
        core.books.next_id = core.books.next_id.max(draft.id.saturating_add(1));
        core.wants(draft);
        if core.is_closed {
            return Err(Full::Buffer);
        }
        let Some(way) = core.ways.get_mut(draft.way as usize) else {
            core.books.counts.published += 1;
            core.books.tell(
                draft.id,
                Success::Failed,
                Some(Refusal::Unsupported("there is no such destination")),
            );
            return Ok(());
        };
        if draft.reliability == Reliability::AtMostOnce
            && way.gathering.is_empty()
            && let Some(lane) = way.current.and_then(|lane| self.lanes.get_mut(lane))
            && lane.sends_at(&core.settings, now) <= now
            && draft.expires > now
            && way.queue.lets_pass(
                topic_of(draft.address),
                usize::from(draft.priority.min(9)),
                &core.books.outbox,
            )
        {
            let terms = Terms {
                reliability: Reliability::AtMostOnce,
                stamp: None,
                is_pinned: false,
            };
            let chooser = if draft.way == 0 {
                core.chooser.as_mut()
            } else {
                None
            };
            match give(
                lane,
                way.current.unwrap_or(0),
                draft,
                terms,
                false,
                chooser,
                now,
            ) {
                Ok(_) => {
                    core.books.counts.published += 1;
                    core.books.gone(draft.id);
                    return Ok(());
                }
                // It is taken as any other, and meets its fate in order.
                Err(Refusal::Window) => lane.link.has_room = false,
                Err(_) => {}
            }
        }
        let class = usize::from(draft.priority.min(9));
        let key = core
            .books
            .take(draft, |books| match way.oldest(class, &books.outbox) {
                Some((key, is_gathered)) => {
                    let repeated = books.outbox.get(key).is_some_and(|slot| slot.repeated);
                    let (success, why) = ended_in_line(repeated, Refusal::Dropped);
                    if is_gathered {
                        way.gathering.retain(|other| *other != key);
                        books.end(key, success, why, now);
                    } else {
                        books.finish(&mut way.queue, key, success, why, now);
                    }
                    true
                }
                None => false,
            })?;
        core.books.counts.published += 1;
        way.gathering.push(key);
        if draft.expires <= now {
            core.expire(now);
        }
        Ok(())
    }

    /// Gives the messages of a way to its lane, as many as it takes.
    pub(super) fn pump(&mut self, way: usize, now: Time) {
        while let Some((key, why)) = self.pump_until_stuck(way, now) {
            if self.waits_for_another_lane(way, key, now) {
                break;
            }
            if let Some(way) = self.core.ways.get_mut(way) {
                self.core
                    .books
                    .finish(&mut way.queue, key, Success::Failed, Some(why), now);
            }
        }
        let Some(way) = self.core.ways.get_mut(way) else {
            return;
        };
        let lane = way
            .current
            .filter(|_| way.queue.is_waiting())
            .and_then(|lane| self.lanes.get(lane));
        let soonest = lane.map_or(Time::NEVER, |lane| lane.sends_at(&self.core.settings, now));
        // Every message that may be sent has been sent, or waits for an event.
        way.send_at = if soonest > now { soonest } else { Time::NEVER };
    }

    /// As [`Engine::pump`]; returns the first message that this lane cannot carry, and why.
    fn pump_until_stuck(&mut self, way_number: usize, now: Time) -> Option<(Key, Refusal)> {
        let Engine { lanes, core } = self;
        let way = core.ways.get_mut(way_number)?;
        let several = way.lanes.len() > 1;
        let lane_number = way.current.filter(|_| way.quiet_until.is_none())?;
        let lane = lanes.get_mut(lane_number)?;
        let host = lane.link.host;
        let mut only_class = None;
        while lane.sends_at(&core.settings, now) <= now {
            let books = &mut core.books;
            let next = match only_class {
                None => way.queue.next(&books.outbox),
                Some(class) => way.queue.next_of(class, &books.outbox),
            };
            let Some((key, class)) = next else { break };
            let Some(slot) = books.outbox.get(key) else {
                break;
            };
            if slot.expires <= now {
                let (success, why) = ended_in_line(slot.repeated, Refusal::Expired);
                books.finish(&mut way.queue, key, success, why, now);
                continue;
            }
            if slot.repeated
                && slot.reliability == Reliability::ExactlyOnce
                && slot.host != host
                && slot.host != 0
            {
                // Another broker cannot know whether the first one has it.
                books.finish(&mut way.queue, key, Success::Unknown, None, now);
                continue;
            }
            let Some((draft, _)) = Draft::decode(&slot.entry) else {
                books.finish(&mut way.queue, key, Success::Failed, None, now);
                continue;
            };
            let stamp = Stamp {
                publisher: books.publisher,
                sequence: slot.sequence,
            };
            let capabilities = &lane.link.capabilities;
            let terms = terms(
                &draft,
                capabilities,
                stamp,
                (several || books.is_lasting()) && way_number == 0,
            );
            let (repeated, topic, sent_before) = (slot.repeated, slot.topic, slot.sent);
            let outcome = match terms {
                Err(why) => Err(why),
                Ok(terms) => {
                    if terms.stamp.is_some()
                        && let Some(class) = class_of_lowest(&mut books.outbox, key, way_number)
                    {
                        match class {
                            // It comes back here with the message that must not fall behind any more.
                            Some(class) if only_class != Some(class) => {
                                only_class = Some(class);
                                continue;
                            }
                            // The entry is in flight, or waits for one that is.
                            _ => break,
                        }
                    }
                    let Some((draft, _)) = books
                        .outbox
                        .get(key)
                        .and_then(|slot| Draft::decode(&slot.entry))
                    else {
                        break;
                    };
                    let chooser = if way_number == 0 {
                        core.chooser.as_mut()
                    } else {
                        None
                    };
                    give(lane, lane_number, &draft, terms, repeated, chooser, now)
                        .map(|departure| (departure, terms))
                }
            };
            only_class = None;
            match outcome {
                Ok((departure, terms)) => {
                    let is_awaited = departure == Departure::Awaited;
                    if repeated && sent_before != Time::ZERO {
                        books.counts.repeated += 1;
                    }
                    if let Some(slot) = books.outbox.get_mut(key).filter(|_| is_awaited) {
                        slot.place = Place::UnderWay(lane_number as u32);
                        slot.sent = now;
                        slot.pinned_to = terms.is_pinned.then_some(lane_number as u32);
                        if slot.host == 0 {
                            slot.host = host;
                        }
                        lane.link.flight.push_back(key);
                        lane.link.pinned += usize::from(terms.is_pinned);
                    } else {
                        books.end(key, Success::Unknown, None, now);
                    }
                    way.queue.pop(class, topic, is_awaited, &books.outbox);
                }
                Err(Refusal::Window) => {
                    lane.link.has_room = false;
                    break;
                }
                Err(Refusal::NotConnected) => break,
                Err(Refusal::Busy(_) | Refusal::NoAnswer) => {
                    hold_off(&mut lane.link, &core.settings, now);
                    break;
                }
                Err(why) => return Some((key, why)),
            }
        }
        None
    }

    /// Whether a message that the lane of the hour cannot carry may wait, as the chooser may take another one.
    fn waits_for_another_lane(&mut self, way_number: usize, key: Key, now: Time) -> bool {
        let Engine { lanes, core } = self;
        let Some(way) = core.ways.get_mut(way_number) else {
            return false;
        };
        if core.chooser.is_none() || way_number != 0 {
            return false;
        }
        let Some((draft, _)) = core
            .books
            .outbox
            .get(key)
            .and_then(|slot| Draft::decode(&slot.entry))
        else {
            return false;
        };
        let stamp = Stamp {
            publisher: 0,
            sequence: 0,
        };
        let can = |lane: &usize| {
            let other = lanes
                .get(*lane)
                .filter(|other| !other.link.is_final && Some(*lane) != way.current);
            other.is_some_and(|other| terms(&draft, &other.link.capabilities, stamp, true).is_ok())
        };
        if !way.lanes.iter().any(can) {
            return false;
        }
        let since = match way.stuck {
            Some((other, since)) if other == key => since,
            _ => now,
        };
        way.stuck = Some((key, since));
        since + PATIENCE > now
    }

    /// A lane that had a message before another one got it has acknowledged it.
    pub(super) fn acknowledged_late(&mut self, key: Key, now: Time) {
        let Some(slot) = self.core.books.outbox.get(key) else {
            return;
        };
        let (place, way) = (slot.place, slot.way as usize);
        if let Place::UnderWay(lane) = place
            && let Some(it) = self.lanes.get_mut(lane as usize)
        {
            it.link.landed(key.id);
            it.transport.abandon(key.id);
        }
        if let Some(way) = self.core.ways.get_mut(way) {
            self.core
                .books
                .finish(&mut way.queue, key, Success::Acknowledged, None, now);
        }
    }

    /// Tells the chooser what is asked for, if that has changed.
    pub(super) fn tell_demand(&mut self, _now: Time) {
        if std::mem::take(&mut self.core.demand_is_new)
            && let Some(chooser) = &mut self.core.chooser
        {
            chooser.demand(&self.core.demand);
        }
    }
}

impl Core {
    /// Commits the messages since the last turn to the spool, then queues them.
    pub(super) fn commit(&mut self, now: Time) {
        let mut first = true;
        for way in &mut self.ways {
            if std::mem::take(&mut first) {
                self.books.commit(&mut way.gathering, now);
            }
            for key in way.gathering.drain(..) {
                way.queue.push(key, &self.books.outbox);
            }
        }
    }

    /// Messages whose time is over while they wait.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some(key) = self.books.outbox.pop_expired(now) {
            let Some(slot) = self
                .books
                .outbox
                .get(key)
                .filter(|slot| slot.place == Place::Waiting)
            else {
                continue;
            };
            let (success, why) = ended_in_line(slot.repeated, Refusal::Expired);
            if let Some(way) = self.ways.get_mut(slot.way as usize) {
                way.gathering.retain(|other| *other != key);
                self.books.finish(&mut way.queue, key, success, why, now);
            }
        }
    }

    /// A message that a lane has waits again.
    pub(super) fn take_back(&mut self, way: usize, lane: usize, key: Key, now: Time) {
        let Some(way) = self.ways.get_mut(way) else {
            return;
        };
        let Some(slot) = self.books.outbox.get_mut(key) else {
            return;
        };
        if slot.place != Place::UnderWay(lane as u32) {
            return;
        }
        slot.repeated = true;
        if slot.reliability == Reliability::AtMostOnce || slot.expires <= now {
            self.books
                .finish(&mut way.queue, key, Success::Unknown, None, now);
            return;
        }
        slot.place = Place::Waiting;
        let topic = slot.topic;
        way.queue.put_back(key, topic, &self.books.outbox);
    }

    /// Ends the wait of exactly-once messages whose connection lost its state, or whose lane was replaced: their
    /// arrival is unknown, and sending them again could duplicate them.
    pub(super) fn unpin(&mut self, way: usize, is_lost: impl Fn(u32) -> bool, now: Time) {
        let waits = |slot: &super::outbox::Slot| {
            slot.way as usize == way
                && slot.place == Place::Waiting
                && slot.pinned_to.is_some_and(&is_lost)
        };
        let lost: Vec<Key> = self
            .books
            .outbox
            .iter()
            .filter(|(_, slot)| waits(slot))
            .map(|(key, _)| key)
            .collect();
        let Some(way) = self.ways.get_mut(way) else {
            return;
        };
        for key in lost {
            self.books
                .finish(&mut way.queue, key, Success::Unknown, None, now);
        }
    }

    /// Notes what a message needs of a lane.
    fn wants(&mut self, draft: &Draft<'_>) {
        if self.chooser.is_none() || draft.way != 0 {
            return;
        }
        let demand = &mut self.demand;
        let grown = draft.reliability > demand.reliability
            || draft.payload.len() > demand.payload_bytes_max
            || (draft.priority != 4 && !demand.priority)
            || (!demand.properties
                && (draft.content_type.is_some() || !draft.properties.is_empty()));
        if grown {
            demand.reliability = demand.reliability.max(draft.reliability);
            demand.payload_bytes_max = demand.payload_bytes_max.max(draft.payload.len());
            demand.priority |= draft.priority != 4;
            demand.properties |= draft.content_type.is_some() || !draft.properties.is_empty();
            self.demand_is_new = true;
        }
    }
}

/// Outcome of a message that ends while it waits.
fn ended_in_line(repeated: bool, why: Refusal) -> (Success, Option<Refusal>) {
    // One that had left before may have arrived.
    if repeated {
        (Success::Unknown, None)
    } else {
        (Success::Failed, Some(why))
    }
}

/// If a message's stamp lies too far above the lowest unsettled one: the priority of that one, if it waits in this way.
fn class_of_lowest(outbox: &mut Outbox, key: Key, way: usize) -> Option<Option<usize>> {
    let sequence = outbox.get(key)?.sequence;
    let (lowest, lowest_key) = outbox.lowest_stamp()?;
    if lowest_key == key || sequence <= lowest + STAMP_HORIZON {
        return None;
    }
    let slot = outbox.get(lowest_key)?;
    Some(
        (slot.place == Place::Waiting && slot.way as usize == way)
            .then_some(usize::from(slot.class)),
    )
}

/// Terms under which a lane with these capabilities sends a message.
fn terms(
    draft: &Draft<'_>,
    can: &Capabilities,
    stamp: Stamp,
    may_repeat: bool,
) -> Result<Terms, Refusal> {
    if draft.payload.len() > can.payload_bytes_max {
        return Err(Refusal::TooLarge {
            limit: can.payload_bytes_max,
        });
    }
    let stamp_if = |is: bool| (is && stamp.sequence != 0).then_some(stamp);
    let at_least = can.reliability_max >= Reliability::AtLeastOnce;
    match draft.reliability {
        Reliability::AtMostOnce => Ok(Terms {
            reliability: Reliability::AtMostOnce,
            stamp: None,
            is_pinned: false,
        }),
        Reliability::AtLeastOnce if at_least => Ok(Terms {
            reliability: Reliability::AtLeastOnce,
            stamp: stamp_if(can.stamps && may_repeat),
            is_pinned: false,
        }),
        // The broker recognizes repetitions: at least once is enough, and any lane to it may repeat.
        Reliability::ExactlyOnce if at_least && can.stamps => {
            // In the protocol's own words where it has some: then its receivers have it exactly once, too.
            let reliability = can.reliability_max.max(Reliability::AtLeastOnce);
            Ok(Terms {
                reliability,
                stamp: stamp_if(true),
                is_pinned: false,
            })
        }
        Reliability::ExactlyOnce if can.reliability_max == Reliability::ExactlyOnce => Ok(Terms {
            reliability: Reliability::ExactlyOnce,
            stamp: None,
            is_pinned: true,
        }),
        Reliability::ExactlyOnce => Err(Refusal::Unsupported("exactly once")),
        Reliability::AtLeastOnce => Err(Refusal::Unsupported("at least once")),
    }
}

/// Gives a message to a lane's transport.
fn give(
    lane: &mut Lane,
    number: usize,
    draft: &Draft<'_>,
    terms: Terms,
    repeated: bool,
    chooser: Option<&mut Chooser>,
    now: Time,
) -> Result<Departure, Refusal> {
    let message = outbound(draft, terms.reliability, terms.stamp, repeated, now);
    let before = lane.out.bytes.len();
    let departure = lane.transport.publish(&message, now, &mut lane.out)?;
    let wire_bytes = lane.out.bytes.len().saturating_sub(before);
    let link = &mut lane.link;
    if departure == Departure::Gone {
        link.gone_at = Some(now);
    }
    link.throttle.sent(now);
    link.batcher.arrived(wire_bytes, draft.priority >= 9, now);
    if let Some(chooser) = chooser {
        let topic_hash = topic_hash(draft.address);
        let sent = Sent {
            payload_bytes: draft.payload.len(),
            reliability: draft.reliability,
            wire_bytes,
            topic_hash,
        };
        chooser.sent(number, &sent, now);
    }
    Ok(departure)
}

/// A draft as transports see it.
pub(super) fn outbound<'m>(
    draft: &Draft<'m>,
    reliability: Reliability,
    stamp: Option<Stamp>,
    repeated: bool,
    now: Time,
) -> Outbound<'m> {
    Outbound {
        id: draft.id,
        address: draft.address,
        payload: draft.payload,
        reliability,
        retain: draft.retain,
        lifespan: if draft.expires == Time::NEVER {
            Span::FOREVER
        } else {
            draft.expires.since(now)
        },
        priority: draft.priority,
        content_type: draft.content_type,
        is_text: draft.is_text,
        properties: draft.properties,
        reply_to: draft.reply_to,
        correlation: draft.correlation,
        stamp,
        repeated,
    }
}
