//! The receiving end: datagrams in, packets out, and what must be asked for.

use std::collections::BTreeMap;

use thalweg_wire::{Span, Time};

use crate::Description;
use crate::datagram::{Content, Refused, Seal};
use crate::repair::{RANGES_MAX, RepairRequest, datagrams_of};
use crate::stream::{Broken, PacketStream};

/// How a [`Receiver`] takes losses.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverSettings {
    /// Whether it asks for what it has missed; else that is skipped.
    pub is_reliable: bool,
    /// Bytes of datagrams that are held while an earlier one is missing; beyond that the earlier one is given up.
    pub held_bytes_max: usize,
    /// How long a datagram may come late before it counts as lost.
    pub lateness: Span,
    /// How long an answer is waited for; each further time twice as long.
    pub answer_wait: Span,
    /// How often the same datagram is asked for.
    pub attempts: u32,
    /// The silence after which a group counts as out of reach; several times [`Description::heartbeat`].
    pub silence: Span,
}

impl ReceiverSettings {
    /// What suits a local network and a sender with this description.
    pub fn for_group(description: &Description, is_reliable: bool) -> Self {
        ReceiverSettings {
            is_reliable,
            held_bytes_max: 4 << 20,
            lateness: Span::from_millis(20),
            answer_wait: Span::from_millis(250),
            attempts: 5,
            silence: Span::from_nanos(description.heartbeat.nanos().saturating_mul(3)),
        }
    }
}

/// What became of the datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounts {
    /// Datagrams of data that came for the first time.
    pub datagrams: u64,
    /// That had come before, or too late.
    pub duplicates: u64,
    /// That are not of this group's key and epoch.
    pub refused: u64,
    /// Requests for what was lost.
    pub requests: u64,
    /// Datagrams that never came.
    pub lost: u64,
    /// Packets that are complete.
    pub packets: u64,
    /// Messages that the sender has not sent since its first heartbeat was heard: more came than its rate allows, or they
    /// were too large.
    pub unsent: u64,
    /// Places where the stream was no packets, or one longer than the description says.
    pub broken: u64,
}

/// Puts the stream of a group together again.
#[derive(Debug)]
pub struct Receiver {
    seal: Seal,
    settings: ReceiverSettings,
    /// The number of the datagram that continues the stream; `None` before the group was heard.
    next: Option<u64>,
    /// The number after the highest that is known to have been sent.
    end: u64,
    /// The lowest number that can be asked for.
    oldest: u64,
    /// Messages that had not been sent when the first heartbeat was heard.
    unsent_before: Option<u64>,
    /// What came after a gap, by its number.
    held: BTreeMap<u64, Held>,
    held_bytes: usize,
    gap: Option<Gap>,
    is_request_due: bool,
    stream: PacketStream,
    heard_at: Time,
    counts: ReceiverCounts,
    /// Where datagrams are opened.
    text: Vec<u8>,
}

#[derive(Debug)]
struct Held {
    first: Option<usize>,
    piece: Box<[u8]>,
}

/// Datagrams from `next` on are missing.
#[derive(Debug)]
struct Gap {
    /// When it is asked for, or given up.
    due: Time,
    /// How often it was asked for since something of it came.
    asked: u32,
}

impl Receiver {
    /// A receiver that begins with what it hears first.
    pub fn new(description: &Description, settings: ReceiverSettings, now: Time) -> Self {
        Receiver {
            seal: Seal::new(&description.key, description.epoch),
            settings,
            next: None,
            end: 0,
            oldest: 0,
            unsent_before: None,
            held: BTreeMap::new(),
            held_bytes: 0,
            gap: None,
            is_request_due: false,
            stream: PacketStream::new(description.packet_bytes_max as usize),
            heard_at: now,
            counts: ReceiverCounts::default(),
            text: Vec::new(),
        }
    }

    /// The epoch that it understands.
    pub fn epoch(&self) -> u64 {
        self.seal.epoch()
    }

    /// What became of the datagrams so far.
    pub fn counts(&self) -> &ReceiverCounts {
        &self.counts
    }

    /// Whether the sender was heard: from then on, nothing is missed without being counted.
    pub fn has_begun(&self) -> bool {
        self.next.is_some()
    }

    /// When nothing of the sender will have been heard for so long that the group does not seem to reach us.
    pub fn silent_at(&self) -> Time {
        self.heard_at + self.settings.silence
    }

    /// Takes a datagram. Afterwards packets may be ready, and [`Receiver::poll_timeout`] may have changed.
    pub fn on_datagram(&mut self, datagram: &[u8], now: Time) -> Result<(), Refused> {
        let mut text = std::mem::take(&mut self.text);
        let opened = self.seal.open(datagram, &mut text);
        let is_taken = opened.map(|content| self.on_content(&content, now));
        self.text = text;
        is_taken.inspect_err(|_| self.counts.refused += 1)
    }

    /// Takes the answer to a request.
    pub fn on_answer(&mut self, answer: &[u8], now: Time) -> Result<(), Refused> {
        let before = self.next;
        for datagram in datagrams_of(answer) {
            self.on_datagram(datagram, now)?;
        }
        // An answer has not room for everything.
        if self.next > before
            && let Some(gap) = &mut self.gap
        {
            gap.due = now;
            self.on_timer(now);
        }
        Ok(())
    }

    fn on_content(&mut self, content: &Content<'_>, now: Time) {
        self.heard_at = now;
        match *content {
            Content::Heartbeat {
                next,
                oldest,
                unsent,
            } => {
                let before = *self.unsent_before.get_or_insert(unsent);
                self.counts.unsent = self.counts.unsent.max(unsent.saturating_sub(before));
                self.next.get_or_insert(next);
                self.end = self.end.max(next);
                self.oldest = self.oldest.max(oldest);
            }
            Content::Data {
                number,
                first,
                piece,
            } => {
                let next = *self.next.get_or_insert(number);
                self.end = self.end.max(number + 1);
                if number < next || self.held.contains_key(&number) {
                    self.counts.duplicates += 1;
                    return;
                }
                self.counts.datagrams += 1;
                if number == next {
                    self.append(first, piece);
                    self.advance_to(number + 1);
                } else {
                    let piece = Box::from(piece);
                    self.held_bytes += held_bytes_of(&piece);
                    self.held.insert(number, Held { first, piece });
                    while self.held_bytes > self.settings.held_bytes_max {
                        self.skip();
                    }
                }
            }
        }
        self.look_for_gap(now);
    }

    /// The stream continues at `number`, with what is held from there on.
    fn advance_to(&mut self, number: u64) {
        let mut next = number;
        while let Some(held) = self.held.remove(&next) {
            self.held_bytes -= held_bytes_of(&held.piece);
            self.append(held.first, &held.piece);
            next += 1;
        }
        self.next = Some(next);
        self.gap = None;
    }

    /// Gives up what is missing up to the first datagram that is held, or up to the end.
    fn skip(&mut self) {
        let to = self.held.keys().next().copied().unwrap_or(self.end);
        self.skip_to(to);
    }

    fn skip_to(&mut self, number: u64) {
        self.counts.lost += number - self.next.unwrap_or(number);
        // The rest of the last packet is among what is lost.
        self.stream.part();
        self.advance_to(number);
    }

    fn look_for_gap(&mut self, now: Time) {
        let is_behind = self.next.is_some_and(|next| next < self.end);
        if is_behind && self.gap.is_none() {
            self.gap = Some(Gap {
                due: now + self.settings.lateness,
                asked: 0,
            });
        }
    }

    /// When [`Receiver::on_timer`] is to be called.
    pub fn poll_timeout(&self) -> Time {
        self.gap.as_ref().map_or(Time::NEVER, |gap| gap.due)
    }

    /// Gives up or asks for what is due.
    pub fn on_timer(&mut self, now: Time) {
        while let (Some(next), Some(gap)) = (self.next, &mut self.gap)
            && gap.due <= now
        {
            if self.settings.is_reliable && gap.asked < self.settings.attempts {
                // What the sender has no longer got never comes.
                let held = self.held.keys().next().copied().unwrap_or(self.end);
                if next < self.oldest {
                    let to = self.oldest.min(held);
                    self.skip_to(to);
                } else {
                    gap.asked += 1;
                    let wait = self.settings.answer_wait.nanos().max(1);
                    let times = 1 << (gap.asked - 1).min(16);
                    gap.due = now + Span::from_nanos(wait.saturating_mul(times));
                    self.is_request_due = true;
                    return;
                }
            } else {
                self.skip();
            }
            self.look_for_gap(now);
        }
    }

    /// What is to be asked for now.
    pub fn poll_request(&mut self) -> Option<RepairRequest> {
        if !std::mem::take(&mut self.is_request_due) {
            return None;
        }
        let mut ranges = Vec::new();
        let mut from = self.next?;
        let held = self.held.keys().copied();
        for number in held.chain([self.end]) {
            if from < number && ranges.len() < RANGES_MAX {
                ranges.push(from..=number - 1);
            }
            // The end may be the highest number.
            from = number.saturating_add(1);
        }
        if ranges.is_empty() {
            return None;
        }
        self.counts.requests += 1;
        Some(RepairRequest {
            epoch: self.seal.epoch(),
            ranges,
        })
    }

    /// Only a holder of the key who is not the sender breaks the stream.
    fn append(&mut self, first: Option<usize>, piece: &[u8]) {
        match self.stream.append(first, piece) {
            Ok(packets) => self.counts.packets += packets,
            Err(Broken) => self.counts.broken += 1,
        }
    }

    /// The next packet, whole: a PUBLISH that `Publish::decode` of the crate of MQTT reads.
    pub fn next_packet(&mut self) -> Option<&[u8]> {
        self.stream.next_packet()
    }
}

/// With what a place in the map takes.
fn held_bytes_of(piece: &[u8]) -> usize {
    piece.len() + 64
}
