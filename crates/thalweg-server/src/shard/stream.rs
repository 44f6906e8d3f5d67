//! Byte streams: reading, driving, flushing, and who waits for whom.

use super::Shard;
use super::turn::READ_BYTES;
use super::wheel::Deadline;
use crate::clock;
use crate::stages::Span as Stage;
use crate::transport::Transport;
use std::io::{self, Read, Write};
use thalweg_fronts::{Mark, Stopped};
use thalweg_kernel::LinkId;
use thalweg_model::{Span, Time};

/// One read in so many is measured.
const SAMPLE_EVERY: u64 = 64;
/// Output buffers above this are freed when unused.
const FAT_BYTES: usize = 4 << 10;
/// How long a publisher is paused for a shard that does not keep up.
const MAIL_PAUSE: Span = Span::from_millis(1);
/// Bytes a packet that does not fit the common buffer is read by at a time.
const BIG_READ_BYTES: usize = 1 << 20;
/// Room that is too little for more of a large packet.
const BIG_SPARE_BYTES: usize = 64 << 10;

impl Shard {
    /// Reads a connection once and handles what came. Queues it again if there may be more.
    pub(super) fn read_once(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(link) = self.links.get(id) else {
            return;
        };
        if !connection.readable
            || connection.paused_by > 0
            || link.closing
            || link.pause_until.is_some()
        {
            return;
        }
        if link.holds_input() {
            return; // go_on() will queue it again.
        }
        if self.waiting(id) > self.settings.links.output_max {
            // It asks and does not listen: nothing more is read until it has taken the answers.
            return self.hold(id);
        }
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if std::mem::take(&mut connection.held) {
            self.drive_tail(id);
            self.move_home(id);
            return self.queue(id);
        }
        self.counts.reads += 1;
        let sampled = self.counts.reads.is_multiple_of(SAMPLE_EVERY);
        if sampled {
            self.links.probe(clock::nanos);
        }
        let got = match connection.transport {
            Transport::Plain => self.read_plain(id),
            Transport::Filtered(_) => self.read_filtered(id),
        };
        if sampled {
            self.take_probe();
        }
        self.count_buffers(id);
        self.bound_buffers();
        match got {
            Ok(0) => return self.close(id),
            Ok(_) => self.move_home(id),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.readable = false;
                }
                return;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.queue(id),
            Err(error) => {
                tracing::debug!(link = id.0, %error, "closed: the connection failed");
                return self.close(id);
            }
        }
        self.queue(id);
    }

    /// Reads into the common buffer, behind what is left of the last read, and drives it there.
    fn read_plain(&mut self, id: LinkId) -> io::Result<usize> {
        let Some(left) = self
            .connections
            .get_mut(id)
            .map(|connection| connection.tail.len())
        else {
            return Ok(0);
        };
        if left >= READ_BYTES / 2 {
            return self.read_big(id);
        }
        let end = left + self.read_max(READ_BYTES - left);
        // The buffer leaves `self` for the while: driving needs all the rest.
        let mut buffer = std::mem::take(&mut self.buffer);
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(0);
        };
        buffer[..left].copy_from_slice(&connection.tail);
        let before = self.links.is_probing().then(clock::nanos);
        let got = connection.socket.read(&mut buffer[left..end]);
        if let Some(before) = before {
            self.stages.record(Stage::NetRead, clock::nanos() - before);
            self.links.probe(clock::nanos);
        }
        if let Ok(count @ 1..) = got {
            connection.bytes_in += count as u64;
            self.counts.bytes_in += count as u64;
            if left + count < end && !connection.hung_up {
                // A short read has emptied the socket; the next bytes make a new event.
                connection.readable = false;
            }
            connection.tail.clear();
            let have = &buffer[..left + count];
            let used = self.drive(id, have);
            if let Some(connection) = self.connections.get_mut(id) {
                if used < have.len() {
                    connection.tail.extend_from_slice(&have[used..]);
                } else if connection.tail.capacity() > 0 {
                    connection.tail = Vec::new();
                }
            }
        }
        self.buffer = buffer;
        got
    }

    /// A packet larger than the common buffer is gathered in the connection's own.
    fn read_big(&mut self, id: LinkId) -> io::Result<usize> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(0);
        };
        // Seldom, as what is there already is copied each time.
        if connection.tail.capacity() - connection.tail.len() < BIG_SPARE_BYTES {
            connection.tail.reserve(BIG_READ_BYTES);
        }
        let got = connection.socket.read_behind(&mut connection.tail);
        if let Ok(count @ 1..) = got {
            connection.bytes_in += count as u64;
            self.counts.bytes_in += count as u64;
            self.drive_tail(id);
        }
        got
    }

    fn read_filtered(&mut self, id: LinkId) -> io::Result<usize> {
        let most = self.read_max(READ_BYTES);
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(0);
        };
        let Transport::Filtered(filtered) = &mut connection.transport else {
            return Ok(0);
        };
        let got = connection.socket.read(&mut self.buffer[..most])?;
        connection.bytes_in += got as u64;
        self.counts.bytes_in += got as u64;
        if got > 0 && got < most && !connection.hung_up {
            connection.readable = false;
        }
        let result = filtered.handle_input(&self.buffer[..got], &mut connection.tail);
        filtered.take_output(&mut connection.wire);
        let ended = filtered.is_closed();
        let failed = result.is_err();
        if let Err(fault) = result {
            tracing::debug!(link = id.0, %fault, "closing: the transport failed");
        }
        if connection.is_securing {
            self.on_secured(id);
        }
        self.drive_tail(id);
        self.flush(id);
        if failed || ended {
            return Ok(0);
        }
        Ok(got)
    }

    /// Drives what a connection has read before.
    pub(super) fn drive_tail(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if connection.tail.is_empty() || connection.paused_by > 0 {
            return;
        }
        let mut tail = std::mem::take(&mut connection.tail);
        let used = self.drive(id, &tail);
        if let Some(connection) = self.connections.get_mut(id) {
            tail.drain(..used);
            if !tail.is_empty() {
                connection.tail = tail;
            }
        }
    }

    /// Passes packets to front and kernel. Returns how many bytes were processed.
    pub(super) fn drive(&mut self, id: LinkId, bytes: &[u8]) -> usize {
        let mut used = 0;
        loop {
            let driven = self
                .links
                .drive(id, &bytes[used..], self.now, &mut self.kernel);
            used += driven.consumed;
            self.pace(id);
            let awaits_login = driven.stopped == Stopped::Hold && self.holds_input(id);
            self.carry_out();
            self.close_large_batch();
            self.weigh();
            if std::mem::take(&mut self.mail_full) || self.commits.is_behind() {
                self.wait_for_mail(id);
            }
            match driven.stopped {
                Stopped::FlushFirst => {
                    self.flush_dirty();
                    if self
                        .connections
                        .get_mut(id)
                        .is_none_or(|connection| connection.paused_by > 0)
                    {
                        self.hold(id);
                        break;
                    }
                }
                Stopped::NeedMore => break,
                // Answered at once: no event would drive what follows.
                Stopped::Hold if awaits_login && !self.holds_input(id) => {}
                Stopped::Hold => {
                    self.hold(id);
                    break;
                }
                Stopped::Upgrade => {
                    // What came behind the request is not encrypted, and must not be read as if it were.
                    used = bytes.len();
                    self.upgrade(id);
                    break;
                }
                Stopped::Rehome(key) => {
                    let home = super::home_of(key, self.shards.len());
                    if home == usize::from(self.id.0) {
                        continue;
                    }
                    if let Some(connection) = self.connections.get_mut(id) {
                        connection.moves_to = Some(home);
                    }
                    break;
                }
            }
        }
        self.after_drive(id, used);
        used
    }

    /// Pauses a publisher that sends another shard more than it keeps up with.
    fn wait_for_mail(&mut self, id: LinkId) {
        self.counts.paces += 1;
        if let Some(link) = self.links.get_mut(id) {
            let until = self.now + MAIL_PAUSE;
            link.pause_until = Some(link.pause_until.map_or(until, |other| other.max(until)));
        }
    }

    fn holds_input(&self, id: LinkId) -> bool {
        self.links.get(id).is_some_and(|link| link.holds_input())
    }

    fn hold(&mut self, id: LinkId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.held = true;
        }
    }

    fn after_drive(&mut self, id: LinkId, used: usize) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if used > 0 || connection.hears_parts {
            connection.heard_at = now;
        }
        let serial = connection.serial;
        if !connection.silence_watched || !connection.idle_watched {
            self.watch_life(id);
        }
        self.watch_front(id);
        self.watch_member(id);
        self.watch_handshake(id);
        let Some(link) = self.links.get(id) else {
            return;
        };
        if let Some(until) = link.pause_until {
            self.wheel.set(until, id, serial, Deadline::Resume);
        }
        if link.closing {
            if let Some(fault) = link.fault() {
                tracing::debug!(link = id.0, %fault, "closing");
            }
            self.start_closing(id);
        }
    }

    /// Starts the timers that notice a peer that is gone, and that keep the peer from believing so of us.
    pub(super) fn watch_life(&mut self, id: LinkId) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let serial = connection.serial;
        if !connection.silence_watched
            && let Some(max) = self.links.silence_max(id)
        {
            connection.silence_watched = true;
            self.wheel.set(now + max, id, serial, Deadline::Silence);
        }
        if !connection.idle_watched && self.links.get(id).is_some_and(|link| link.is_connected()) {
            connection.idle_watched = true;
            if let Some(max) = self.links.idle_write(id) {
                self.wheel.set(now + max, id, serial, Deadline::Idle);
            }
        }
    }

    /// Starts the timer of a front that has some.
    fn watch_front(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(due) = &mut connection.front_due else {
            return;
        };
        let wanted = self.links.next_timer(id);
        if wanted < *due {
            *due = wanted;
            self.wheel
                .set(wanted, id, connection.serial, Deadline::Front);
        }
    }

    /// Lets a front do what is due.
    pub(super) fn on_front_due(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.front_due = Some(Time::NEVER);
        if self.links.next_timer(id) <= self.now {
            self.links.on_timer(id, self.now, &mut self.kernel);
        }
        self.watch_front(id);
    }

    /// When a peer last showed that it is there. A peer that we do not read cannot show it: while it is paused, it
    /// counts as alive; while it has not taken our answers, what it takes counts.
    pub(super) fn alive_at(&mut self, id: LinkId) -> Time {
        let is_behind = self.waiting(id) > self.settings.links.output_max;
        let may_not_send = self
            .links
            .get(id)
            .is_some_and(|link| link.pause_until.is_some());
        match self.connections.get_mut(id) {
            _ if may_not_send => self.now,
            Some(connection) if is_behind => connection.heard_at.max(connection.sent_at),
            Some(connection) => connection.heard_at,
            None => self.now,
        }
    }

    /// Lets a front send a keep-alive packet if nothing else has been sent for a while. What is still in the output
    /// will be one when the socket takes it.
    pub(super) fn on_idle(&mut self, id: LinkId) {
        let now = self.now;
        let Some(max) = self.links.idle_write(id) else {
            return;
        };
        let is_waiting = self.waiting(id) > 0;
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let (serial, sent_at) = (connection.serial, connection.sent_at);
        if sent_at + max > now {
            return self.wheel.set(sent_at + max, id, serial, Deadline::Idle);
        }
        if !is_waiting {
            self.links.on_idle(id, now);
        }
        self.wheel.set(now + max, id, serial, Deadline::Idle);
    }

    /// Pauses a publisher whose receivers cannot keep up, for as long as they drain fast enough; see
    /// `queue.output_pace_max`.
    fn pace(&mut self, publisher: LinkId) {
        let mut congested = std::mem::take(&mut self.congested);
        self.links.take_congested(&mut congested);
        for &receiver in &congested {
            self.flush(receiver);
            if receiver == publisher || !self.is_above_low(receiver) {
                continue;
            }
            let now = self.now;
            let Some(waits) = self
                .connections
                .get_mut(publisher)
                .map(|publisher| publisher.serial)
            else {
                continue;
            };
            let Some(connection) = self.connections.get_mut(receiver) else {
                continue;
            };
            let known = connection.waiters.contains(&(publisher, waits));
            if connection.slow || known {
                continue;
            }
            connection.waiters.push((publisher, waits));
            if connection.stalled_since.is_none() {
                connection.stalled_since = Some(now);
                self.stalled.push(receiver);
            }
            self.counts.paces += 1;
            if let Some(connection) = self.connections.get_mut(publisher) {
                connection.paused_by += 1;
            }
        }
        self.congested = congested;
    }

    /// Flushes what has piled up, without pausing publishers.
    pub(super) fn relieve(&mut self) {
        let mut congested = std::mem::take(&mut self.congested);
        self.links.take_congested(&mut congested);
        for &receiver in &congested {
            self.flush(receiver);
        }
        self.congested = congested;
        if self.links.should_flush() {
            self.flush_dirty();
        }
    }

    fn waiting(&mut self, id: LinkId) -> usize {
        let wire = self
            .connections
            .get_mut(id)
            .map_or(0, |connection| connection.wire.len() - connection.wire_sent);
        wire + self.links.get(id).map_or(0, |link| link.waiting())
    }

    fn is_above_low(&mut self, id: LinkId) -> bool {
        self.waiting(id) > self.settings.links.output_high / 2
    }

    /// Receivers for which publishers have waited too long: they are not waited for again until they have caught up.
    pub(super) fn give_up_on_stalled(&mut self) {
        let (now, patience) = (self.now, self.settings.pace_max);
        let mut at = 0;
        while let Some(&id) = self.stalled.get(at) {
            let since = self
                .connections
                .get_mut(id)
                .and_then(|connection| connection.stalled_since);
            match since {
                Some(since) if since + patience > now => at += 1,
                Some(_) => {
                    self.stalled.swap_remove(at);
                    self.counts.slow_receivers += 1;
                    if let Some(connection) = self.connections.get_mut(id) {
                        connection.slow = true;
                    }
                    self.end_stall(id);
                }
                None => {
                    self.stalled.swap_remove(at);
                }
            }
        }
    }

    fn end_stall(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.stalled_since = None;
        let waiters = std::mem::take(&mut connection.waiters);
        self.resume_all(waiters);
    }

    pub(super) fn resume_all(&mut self, waiters: Vec<(LinkId, u64)>) {
        for (id, serial) in waiters {
            if let Some(connection) = self
                .connections
                .get_mut(id)
                .filter(|connection| connection.serial == serial)
            {
                connection.paused_by = connection.paused_by.saturating_sub(1);
                if connection.paused_by == 0 {
                    // What was read already is driven by the next read's turn, not here: this may be deep in a flush.
                    connection.readable = true;
                    self.queue(id);
                }
            }
        }
    }

    /// Flushes every link that was written to.
    pub(super) fn flush_dirty(&mut self) {
        loop {
            // What the kernel has told fronts meanwhile becomes output only now. Each time, as flushing lets more through: a front
            // that has been told all that it takes has room again only when that has become output.
            if self.links.has_work() {
                self.links.work(self.now, &mut self.kernel);
                self.carry_out();
            }
            for id in self.links.take_prioritized() {
                self.keep_little(id);
            }
            // Once at least: what is written down asks for a flush, too, and may have made no output.
            let mut dirty = std::mem::take(&mut self.dirty);
            self.links.take_dirty(&mut dirty);
            for &id in &dirty {
                self.flush(id);
            }
            self.dirty = dirty;
            if !self.links.has_dirty() {
                return;
            }
        }
    }

    /// Sends what a link has to send, as far as its socket takes it.
    pub(super) fn flush(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return self.flush_port(id);
        };
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        if connection.blocked {
            return self.count_buffers(id);
        }
        let writes_before = self.counts.writes;
        let sampled = self.counts.writes.is_multiple_of(SAMPLE_EVERY);
        let before = if sampled { clock::nanos() } else { 0 };
        let result = match &mut connection.transport {
            Transport::Plain if connection.wire.is_empty() => {
                let mut sent = 0;
                let result = send(
                    &mut connection.socket,
                    link.sendable(),
                    &mut sent,
                    &mut self.counts.writes,
                );
                connection.bytes_out += sent as u64;
                self.counts.bytes_out += sent as u64;
                if sent > 0 {
                    connection.sent_at = self.now;
                }
                link.advance(sent);
                result
            }
            transport => {
                let count = link.sendable().len();
                if count > 0 {
                    let encoded = match transport {
                        Transport::Plain => {
                            connection.wire.extend_from_slice(link.sendable());
                            Ok(())
                        }
                        Transport::Filtered(filtered) => {
                            filtered.encode(link.sendable(), &mut connection.wire)
                        }
                    };
                    link.advance(count);
                    if let Err(fault) = encoded {
                        tracing::debug!(link = id.0, %fault, "closing: the transport failed");
                        link.closing = true;
                    }
                }
                let sent_before = connection.wire_sent;
                let writes = &mut self.counts.writes;
                let result = send(
                    &mut connection.socket,
                    &connection.wire,
                    &mut connection.wire_sent,
                    writes,
                );
                if connection.wire_sent > sent_before {
                    connection.bytes_out += (connection.wire_sent - sent_before) as u64;
                    self.counts.bytes_out += (connection.wire_sent - sent_before) as u64;
                    connection.sent_at = self.now;
                }
                if connection.wire_sent == connection.wire.len() {
                    connection.wire.clear();
                    connection.wire_sent = 0;
                }
                result
            }
        };
        if sampled {
            self.stages.record(Stage::NetWrite, clock::nanos() - before);
        }
        match result {
            Ok(()) if connection.is_kept_short() && self.counts.writes > writes_before => {
                self.look_for_rest(id)
            }
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => connection.blocked = true,
            Err(error) => {
                tracing::debug!(link = id.0, %error, "closed: the connection failed");
                return self.close(id);
            }
        }
        self.after_flush(id);
    }

    fn after_flush(&mut self, id: LinkId) {
        self.watch_front(id);
        let waiting = self.waiting(id);
        let is_short = self.is_short_of_buffers();
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let low = self.settings.links.output_high.min(link.output_high()) / 2;
        let is_full = connection.is_kept_short() && connection.blocked;
        if waiting == 0 {
            connection.slow = false;
            let is_fat = link.capacity() > FAT_BYTES || connection.wire.capacity() > FAT_BYTES;
            if is_fat && is_short {
                link.give_back();
                connection.wire = Vec::new();
            } else if is_fat && !connection.fat {
                connection.fat = true;
                self.fat.push(id);
            }
            if link.closing {
                return self.close_gently(id);
            }
        } else {
            link.slim_down(low);
        }
        self.count_buffers(id);
        if is_full {
            self.links.on_full(id, &mut self.kernel);
        }
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if waiting <= low {
            if connection.held {
                // It may have been held because it did not take our answers.
                connection.readable = true;
            }
            let held = connection.held;
            if connection.stalled_since.is_some() {
                self.end_stall(id);
            }
            if !is_full {
                self.links.on_drained(id, self.now, &mut self.kernel);
            }
            if held {
                self.queue(id);
            }
        }
    }

    fn take_probe(&mut self) {
        let Some(probe) = self.links.take_probe() else {
            return;
        };
        for (mark, stage) in [
            (Mark::WireDecode, Stage::WireDecode),
            (Mark::FrontIn, Stage::FrontIn),
            (Mark::KernelPublish, Stage::KernelPublish),
            (Mark::FrontOut, Stage::FrontOut),
            (Mark::FrontAck, Stage::FrontAck),
            (Mark::KernelSettle, Stage::KernelSettle),
        ] {
            if let Some(nanos) = probe.average(mark) {
                self.stages.record(stage, nanos);
            }
        }
    }
}

/// Writes `bytes[*sent..]` as far as the socket takes it.
fn send(
    socket: &mut impl Write,
    bytes: &[u8],
    sent: &mut usize,
    writes: &mut u64,
) -> io::Result<()> {
    while *sent < bytes.len() {
        *writes += 1;
        match socket.write(&bytes[*sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *sent += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
