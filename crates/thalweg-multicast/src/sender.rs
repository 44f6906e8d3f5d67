//! The sending end: packets in, datagrams out, some of which are kept for those who have missed them.

use std::collections::VecDeque;

use thalweg_wire::{Span, Time};

use crate::KEY_BYTES;
use crate::datagram::{Content, LARGEST, OVERHEAD_BYTES, Seal};
use crate::repair::{RepairRequest, put};

/// Bounds and names of a [`Sender`].
#[derive(Clone)]
pub struct SenderSettings {
    /// A number that no earlier start had; by chance.
    pub epoch: u64,
    /// Never used before: the numbers, which are nonces, begin again with each start.
    pub key: [u8; KEY_BYTES],
    /// The largest datagram, in bytes; at most 65,507.
    pub datagram_bytes_max: usize,
    /// Bytes of datagrams that are kept for repair.
    pub history_bytes_max: usize,
    /// For how long they are kept.
    pub history_age_max: Span,
    /// The longest time in which nothing is sent.
    pub heartbeat: Span,
}

/// Packs packets into numbered datagrams.
#[derive(Debug)]
pub struct Sender {
    seal: Seal,
    piece_bytes_max: usize,
    history_bytes_max: usize,
    history_age_max: Span,
    heartbeat: Span,
    /// What the next datagram has so far.
    piece: Vec<u8>,
    first: Option<usize>,
    /// The number of the next datagram.
    next: u64,
    /// The datagrams before `next`, oldest first.
    kept: VecDeque<(Time, Vec<u8>)>,
    kept_bytes: usize,
    /// How many of the last of `kept` have not been handed out.
    unsent: usize,
    /// The number of the next heartbeat.
    beats: u64,
    /// The heartbeat made last, and whether it has still to be handed out.
    beat: Vec<u8>,
    is_beat_unsent: bool,
    beat_at: Time,
    beaten_at: Time,
    /// Messages that were never sent, as far as is known.
    unsent_messages: u64,
    /// Time from the next heartbeat to the one after it. It doubles, so that the loss of a last datagram shows soon.
    pause: Span,
}

impl Sender {
    /// A sender that has sent nothing; its first heartbeat is due at once.
    pub fn new(settings: &SenderSettings, now: Time) -> Self {
        Sender {
            seal: Seal::new(&settings.key, settings.epoch),
            piece_bytes_max: settings
                .datagram_bytes_max
                .clamp(OVERHEAD_BYTES + 1, LARGEST)
                - OVERHEAD_BYTES,
            history_bytes_max: settings.history_bytes_max,
            history_age_max: settings.history_age_max,
            heartbeat: settings.heartbeat,
            piece: Vec::new(),
            first: None,
            next: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            unsent: 0,
            beats: 0,
            beat: Vec::new(),
            is_beat_unsent: false,
            beat_at: now,
            beaten_at: now,
            unsent_messages: 0,
            pause: settings.heartbeat,
        }
    }

    /// Takes a whole PUBLISH packet. It leaves with the datagrams that are full, its end with what follows or with
    /// [`Sender::flush`].
    pub fn push(&mut self, packet: &[u8], now: Time) {
        if !packet.is_empty() {
            self.first.get_or_insert(self.piece.len());
        }
        let mut rest = packet;
        while !rest.is_empty() {
            let room = self.piece_bytes_max - self.piece.len();
            let (now_in, later) = rest.split_at(room.min(rest.len()));
            self.piece.extend_from_slice(now_in);
            rest = later;
            if self.piece.len() == self.piece_bytes_max {
                self.flush(now);
            }
        }
    }

    /// Ends the datagram that is being filled: nothing more is ready.
    pub fn flush(&mut self, now: Time) {
        if self.piece.is_empty() {
            return;
        }
        let content = Content::Data {
            number: self.next,
            first: self.first.take(),
            piece: &self.piece,
        };
        let datagram = self.seal.seal(&content, self.next);
        self.piece.clear();
        self.next += 1;
        self.kept_bytes += datagram.len();
        self.kept.push_back((now, datagram));
        self.unsent += 1;
        self.pause = Span::from_nanos(self.heartbeat.nanos() / 16);
        // Also where there is always data.
        self.beat_at = (now + self.pause).min(self.beaten_at + self.heartbeat);
        self.trim(now);
    }

    /// So many messages have been dropped since the epoch began, before they came here. Heartbeats say so.
    pub fn set_unsent_messages(&mut self, count: u64) {
        self.unsent_messages = count;
    }

    /// The next datagram to be sent.
    pub fn poll_transmit(&mut self) -> Option<&[u8]> {
        if self.unsent > 0 {
            let at = self.kept.len() - self.unsent;
            self.unsent -= 1;
            return self.kept.get(at).map(|(_, datagram)| &**datagram);
        }
        std::mem::take(&mut self.is_beat_unsent).then_some(&*self.beat)
    }

    /// When [`Sender::on_timer`] is to be called.
    pub fn poll_timeout(&self) -> Time {
        self.beat_at
    }

    /// Makes a heartbeat if one is due.
    pub fn on_timer(&mut self, now: Time) {
        if now < self.beat_at {
            return;
        }
        self.flush(now);
        self.trim(now);
        self.beat = self.beat();
        self.beaten_at = now;
        self.is_beat_unsent = true;
        self.pause = self.pause.max(PAUSE_MIN);
        self.beat_at = now + self.pause;
        self.pause = Span::from_nanos(self.pause.nanos().saturating_mul(2)).min(self.heartbeat);
    }

    /// Appends the answer to a request: a heartbeat, and of what was asked for, as far as it is still there, at most
    /// `bytes_max` bytes. Returns how many datagrams of data these are.
    pub fn repair(
        &mut self,
        request: &RepairRequest,
        bytes_max: usize,
        now: Time,
        answer: &mut Vec<u8>,
    ) -> usize {
        self.trim(now);
        let start = answer.len();
        put(&self.beat(), answer);
        if request.epoch != self.seal.epoch() {
            return 0;
        }
        let (oldest, sent) = (self.oldest(), self.next - self.unsent as u64);
        let mut count = 0;
        for range in &request.ranges {
            let end = range.end().saturating_add(1).min(sent);
            for number in (*range.start()).max(oldest)..end {
                let Some((_, datagram)) = self.kept.get((number - oldest) as usize) else {
                    break;
                };
                if answer.len() - start + 2 + datagram.len() > bytes_max {
                    return count;
                }
                put(datagram, answer);
                count += 1;
            }
        }
        count
    }

    /// A number that no heartbeat had, and where the data is.
    fn beat(&mut self) -> Vec<u8> {
        let content = Content::Heartbeat {
            // What has not been handed out cannot have been lost.
            next: self.next - self.unsent as u64,
            oldest: self.oldest(),
            unsent: self.unsent_messages,
        };
        let number = self.beats;
        self.beats += 1;
        self.seal.seal(&content, number)
    }

    /// The number of the oldest datagram that is kept.
    fn oldest(&self) -> u64 {
        self.next - self.kept.len() as u64
    }

    /// Drops what is beyond the bounds and has been sent.
    fn trim(&mut self, now: Time) {
        while self.kept.len() > self.unsent
            && let Some((at, datagram)) = self.kept.front()
            && (self.kept_bytes > self.history_bytes_max || now.since(*at) > self.history_age_max)
        {
            self.kept_bytes -= datagram.len();
            self.kept.pop_front();
        }
    }
}

/// Whatever the settings say, there is time between two heartbeats.
const PAUSE_MIN: Span = Span::from_millis(1);
