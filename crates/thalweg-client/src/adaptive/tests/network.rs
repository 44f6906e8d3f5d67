//! A network of packets in virtual time: TCP with timers, SACK and windows, CoAP with exchanges and blocks, a link that
//! loses and delays. None of the chooser's formulas is used here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use thalweg_model::Span;

use super::super::NetworkReading;

pub(super) type Micros = u64;

pub(super) const SECOND: Micros = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A segment reaches the other end.
    Segment {
        to_client: bool,
        frame: Frame,
    },
    TcpTimer {
        client: bool,
        armed: u64,
    },
    AckTimer {
        client: bool,
        armed: u64,
    },
    Request {
        exchange: usize,
    },
    Answer {
        exchange: usize,
    },
    CoapTimer {
        exchange: usize,
        attempt: u32,
    },
}

/// Contents of a TCP segment; `sack` and `sent` are numbers of transmissions, as RACK has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Frame {
    start: u64,
    end: u64,
    ack: u64,
    sack: u64,
    sent: u64,
}

/// Outcome of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fate {
    pub(super) lane: usize,
    pub(super) published: Micros,
    pub(super) arrived: Option<Micros>,
    pub(super) given: Micros,
    pub(super) settled: Option<Micros>,
    pub(super) gave_up: bool,
}

/// Frames and bytes of a lane, Ethernet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wire {
    pub(super) frames_up: u64,
    pub(super) frames_down: u64,
    pub(super) bytes_up: u64,
    pub(super) bytes_down: u64,
}

impl Wire {
    pub(super) fn bytes(&self) -> f64 {
        (self.bytes_up + self.bytes_down) as f64
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CoapTimers {
    /// After 2 to 3 s, doubled.
    #[default]
    Rfc7252,
    /// After the round trip and at least 100 to 150 ms, doubled: as our lane does.
    Measured,
}

/// Lane 0 is MQTT-like over TCP, lane 1 CoAP over UDP.
#[derive(Default)]
pub(super) struct Network {
    pub(super) now: Micros,
    pub(super) loss: f64,
    pub(super) delay: Micros,
    timers: CoapTimers,
    random: u64,
    order: u64,
    events: BinaryHeap<Reverse<(Micros, u64, Event)>>,
    pub(super) wire: [Wire; 2],
    pub(super) fates: Vec<Fate>,
    /// Messages whose settlement has not been reported yet.
    pub(super) settled: Vec<usize>,
    client: End,
    server: End,
    /// Ends of messages in the client's stream, and which they are; what the client awaits.
    boundaries: VecDeque<(u64, usize)>,
    awaited: VecDeque<usize>,
    answered: u64,
    exchanges: Vec<Exchange>,
    /// Per topic: messages that wait or are under way, the first of them.
    topics: BTreeMap<u32, VecDeque<usize>>,
    pub(super) confirmable: u64,
    pub(super) retransmissions: u64,
    /// Round trips of exchanges that were answered before they were repeated, not told yet.
    pub(super) round_trips: Vec<Micros>,
}

/// One end of a TCP connection.
#[derive(Default)]
struct End {
    next: u64,
    acked: u64,
    unsent: u64,
    segments: Vec<Segment>,
    window: f64,
    backoff: u32,
    srtt: f64,
    timer: u64,
    armed: bool,
    /// The timer is that of a tail loss probe; one was sent since the last acknowledgement.
    is_probe: bool,
    has_probed: bool,
    clock: u64,
    received: u64,
    islands: BTreeMap<u64, u64>,
    newest: u64,
    owes: u32,
    ack_timer: u64,
    data_segments: u64,
    repeated: u64,
    needless: u64,
    bytes: u64,
    frames: u64,
}

#[derive(Clone, Copy)]
struct Segment {
    start: u64,
    end: u64,
    sent: u64,
    at: Micros,
    is_there: bool,
    times: u32,
}

#[derive(Default)]
struct Exchange {
    message: usize,
    topic: u32,
    request_bytes: u64,
    answer_bytes: u64,
    first_wait: Micros,
    began: Micros,
    attempt: u32,
    is_over: bool,
    /// Nothing of the message was sent yet.
    is_first: bool,
    blocks_left: u32,
    payload_left: u64,
}

const SEGMENT: u64 = 1448;
const HEADER: u64 = 66;
const MQTT_OVERHEAD: u64 = 54;
const COAP_OVERHEAD: u64 = 41;
const BLOCK: u64 = 1024;

impl Network {
    pub(super) fn new(delay: Micros, timers: CoapTimers, seed: u64) -> Self {
        let end = || End {
            window: 10.0,
            ..End::default()
        };
        Network {
            delay,
            timers,
            random: seed,
            client: end(),
            server: end(),
            ..Network::default()
        }
    }

    /// Publishes at least once; returns what was written.
    pub(super) fn publish(&mut self, lane: usize, payload: u64, topic: u32) -> u64 {
        let message = self.fates.len();
        self.fates.push(Fate {
            lane,
            published: self.now,
            given: self.now,
            ..Fate::default()
        });
        if lane == 0 {
            let bytes = payload + MQTT_OVERHEAD;
            self.client.unsent += bytes;
            let end = self.client.next + self.client.unsent;
            self.boundaries.push_back((end, message));
            self.awaited.push_back(message);
            self.tcp_send(true);
            return bytes;
        }
        let queue = self.topics.entry(topic).or_default();
        queue.push_back(message);
        let is_first = queue.len() == 1;
        let blocks = payload.div_ceil(BLOCK).max(1) as u32;
        self.exchanges.push(Exchange {
            message,
            topic,
            answer_bytes: 50 + if blocks > 1 { 3 } else { 0 },
            is_first: true,
            blocks_left: blocks,
            payload_left: payload,
            ..Exchange::default()
        });
        if is_first {
            self.coap_block(self.exchanges.len() - 1);
        }
        payload + COAP_OVERHEAD
    }

    /// The counters of the client's system for its connection.
    pub(super) fn tcp(&self) -> NetworkReading {
        let (client, server) = (&self.client, &self.server);
        NetworkReading {
            round_trip: Span::from_nanos(client.srtt as Micros * 1000),
            sent_segments: client.data_segments,
            retransmitted_segments: client.repeated,
            duplicate_segments: client.needless,
            frames_sent: client.frames,
            frames_received: server.frames,
            bytes_sent: client.bytes,
            bytes_received: server.bytes,
            ..NetworkReading::default()
        }
    }

    pub(super) fn run_until(&mut self, until: Micros) {
        while self.events.peek().is_some_and(|next| next.0.0 <= until)
            && let Some(Reverse((at, _, event))) = self.events.pop()
        {
            self.now = at;
            self.happen(event);
        }
        self.now = until;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Segment { to_client, frame } => self.segment(to_client, frame),
            Event::TcpTimer { client, armed } => self.tcp_timer(client, armed),
            Event::AckTimer { client, armed } => {
                let it = self.end(client);
                if it.ack_timer == armed && it.owes > 0 {
                    self.tcp_ack(client);
                }
            }
            Event::Request { exchange } => self.coap_request(exchange),
            Event::Answer { exchange } => self.coap_answer(exchange),
            Event::CoapTimer { exchange, attempt } => {
                let it = &mut self.exchanges[exchange];
                if it.is_over || it.attempt != attempt {
                    return;
                }
                let attempts_max = match self.timers {
                    CoapTimers::Rfc7252 => 4,
                    CoapTimers::Measured => 8,
                };
                if attempt == attempts_max {
                    it.is_over = true;
                    let message = it.message;
                    self.fates[message].gave_up = true;
                    self.coap_next(exchange);
                } else {
                    it.attempt += 1;
                    self.retransmissions += 1;
                    self.coap_transmit(exchange);
                }
            }
        }
    }

    fn end(&mut self, client: bool) -> &mut End {
        if client {
            &mut self.client
        } else {
            &mut self.server
        }
    }

    fn at(&mut self, at: Micros, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    pub(super) fn chance(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A frame leaves; it may arrive.
    fn frame(&mut self, lane: usize, up: bool, bytes: u64, event: Event) {
        let wire = &mut self.wire[lane];
        if up {
            (wire.frames_up, wire.bytes_up) = (wire.frames_up + 1, wire.bytes_up + bytes);
        } else {
            (wire.frames_down, wire.bytes_down) = (wire.frames_down + 1, wire.bytes_down + bytes);
        }
        if self.chance() >= self.loss {
            // 200 us for the link and the peer.
            self.at(self.now + self.delay + 200, event);
        }
    }

    // TCP.

    fn tcp_send(&mut self, client: bool) {
        loop {
            let now = self.now;
            let it = self.end(client);
            let under_way = it.segments.iter().filter(|s| !s.is_there).count() as f64;
            if it.unsent == 0 || under_way >= it.window {
                break;
            }
            let bytes = it.unsent.min(SEGMENT);
            it.clock += 1;
            let segment = Segment {
                start: it.next,
                end: it.next + bytes,
                sent: it.clock,
                at: now,
                is_there: false,
                times: 1,
            };
            it.next += bytes;
            it.unsent -= bytes;
            it.segments.push(segment);
            self.tcp_transmit(client, segment);
        }
        self.tcp_arm(client, false);
    }

    fn tcp_transmit(&mut self, client: bool, segment: Segment) {
        self.tcp_frame(client, segment.start, segment.end, segment.sent);
    }

    fn tcp_ack(&mut self, client: bool) {
        let start = self.end(client).next;
        self.tcp_frame(client, start, start, 0);
    }

    fn tcp_frame(&mut self, client: bool, start: u64, end: u64, sent: u64) {
        let it = self.end(client);
        it.data_segments += u64::from(end > start);
        it.frames += 1;
        it.bytes += end - start;
        it.owes = 0;
        let frame = Frame {
            start,
            end,
            ack: it.received,
            sack: it.newest,
            sent,
        };
        let to_client = !client;
        let event = Event::Segment { to_client, frame };
        self.frame(0, client, end - start + HEADER, event);
    }

    fn tcp_arm(&mut self, client: bool, again: bool) {
        let now = self.now;
        let it = self.end(client);
        if it.segments.is_empty() {
            it.armed = false;
            it.timer += 1;
            return;
        }
        if it.armed && !again {
            return;
        }
        it.armed = true;
        it.timer += 1;
        // RFC 8985 §7.2, as Linux does it: with one segment under way the peer may delay its acknowledgement, so the probe comes
        // no sooner than the repetition; with more of them after two round trips and two ticks.
        let under_way = it.segments.iter().filter(|s| !s.is_there).count();
        it.is_probe = !it.has_probed && it.backoff == 0 && under_way > 1;
        let wait = match it.is_probe {
            true => 2.0 * it.srtt + 8_000.0,
            false => (200_000.0 + it.srtt) * f64::from(1u32 << it.backoff.min(9)),
        };
        let armed = it.timer;
        self.at(now + wait as Micros, Event::TcpTimer { client, armed });
    }

    fn tcp_timer(&mut self, client: bool, armed: u64) {
        let it = self.end(client);
        if it.timer != armed || it.segments.is_empty() {
            return;
        }
        if it.is_probe {
            it.has_probed = true;
            let last = it.segments.iter().rposition(|segment| !segment.is_there);
            self.tcp_repeat(client, last.unwrap_or(0));
        } else {
            it.backoff += 1;
            it.window = 1.0;
            self.tcp_repeat(client, 0);
        }
        self.tcp_arm(client, true);
    }

    fn tcp_repeat(&mut self, client: bool, index: usize) {
        let now = self.now;
        let it = self.end(client);
        it.clock += 1;
        let clock = it.clock;
        let Some(segment) = it.segments.get_mut(index) else {
            return;
        };
        (segment.sent, segment.at, segment.times) = (clock, now, segment.times + 1);
        let copy = *segment;
        it.repeated += 1;
        self.tcp_transmit(client, copy);
    }

    fn segment(&mut self, to_client: bool, frame: Frame) {
        let Frame {
            start,
            end,
            ack,
            sack,
            sent,
        } = frame;
        let now = self.now;
        let it = self.end(to_client);
        // Acknowledgement: cumulative, and the newest transmission that has come.
        let mut has_news = ack > it.acked;
        it.acked = it.acked.max(ack);
        let mut round_trip = None;
        it.segments.retain_mut(|segment| {
            if segment.sent == sack && !segment.is_there {
                segment.is_there = true;
                // Of a repeated segment it is no sample, and does not end the doubling. RFC 6298 §5.7
                has_news |= segment.times == 1;
                round_trip = Some((now - segment.at) as f64);
            }
            segment.end > ack
        });
        if let Some(sample) = round_trip {
            it.srtt = if it.srtt == 0.0 {
                sample
            } else {
                it.srtt * 0.875 + sample * 0.125
            };
        }
        if has_news {
            (it.backoff, it.has_probed) = (0, false);
            it.window = (it.window + 1.0).min(100.0);
            // RACK: what was sent before the newest that has come is lost, if it was not seen.
            let lost: Vec<usize> = (0..it.segments.len())
                .filter(|&i| !it.segments[i].is_there && it.segments[i].sent < sack)
                .collect();
            if !lost.is_empty() {
                it.window = (it.window * 0.7).max(2.0);
            }
            for index in lost {
                self.tcp_repeat(to_client, index);
            }
            self.tcp_arm(to_client, true);
            self.tcp_send(to_client);
        }
        if end == start {
            return;
        }
        let it = self.end(to_client);
        it.newest = it.newest.max(sent);
        let is_old = end <= it.received;
        it.islands.insert(start, end);
        while let Some((&from, &to)) = it.islands.first_key_value() {
            if from > it.received {
                break;
            }
            it.received = it.received.max(to);
            it.islands.remove(&from);
        }
        it.owes += 1;
        let in_order = it.islands.is_empty();
        if is_old {
            self.end(!to_client).needless += 1;
        }
        if to_client {
            let settled = self.client.received / 4;
            while let Some(&message) = self.awaited.front() {
                if self.answered >= settled {
                    break;
                }
                self.answered += 1;
                self.fates[message].settled = Some(now);
                self.settled.push(message);
                self.awaited.pop_front();
            }
        } else {
            let mut answers = 0;
            while let Some(&(end, message)) = self.boundaries.front() {
                if end > self.server.received {
                    break;
                }
                self.fates[message].arrived = Some(now);
                self.boundaries.pop_front();
                answers += 1;
            }
            if answers > 0 {
                self.server.unsent += 4 * answers;
                self.tcp_send(false);
            }
        }
        let it = self.end(to_client);
        if it.owes >= 2 || it.owes > 0 && (is_old || !in_order) {
            self.tcp_ack(to_client);
        } else if it.owes > 0 {
            it.ack_timer += 1;
            let (client, armed) = (to_client, it.ack_timer);
            self.at(now + 40_000, Event::AckTimer { client, armed });
        }
    }

    // CoAP.

    fn coap_block(&mut self, exchange: usize) {
        let least = match self.timers {
            CoapTimers::Rfc7252 => 2_000_000,
            CoapTimers::Measured => (2 * self.delay + 1_000).max(100_000),
        };
        let wait = least + (self.chance() * least as f64 / 2.0) as Micros;
        let it = &mut self.exchanges[exchange];
        let payload = it.payload_left.min(BLOCK);
        it.request_bytes = payload + COAP_OVERHEAD + 42 + if it.answer_bytes > 50 { 3 } else { 0 };
        (it.first_wait, it.attempt, it.began) = (wait, 0, self.now);
        let (message, is_first) = (it.message, std::mem::take(&mut it.is_first));
        if is_first {
            self.fates[message].given = self.now;
        }
        self.confirmable += 1;
        self.coap_transmit(exchange);
    }

    fn coap_transmit(&mut self, exchange: usize) {
        let it = &self.exchanges[exchange];
        let (bytes, attempt) = (it.request_bytes, it.attempt);
        let due = self.now + (it.first_wait << attempt);
        self.frame(1, true, bytes, Event::Request { exchange });
        self.at(due, Event::CoapTimer { exchange, attempt });
    }

    fn coap_request(&mut self, exchange: usize) {
        let it = &self.exchanges[exchange];
        let (bytes, message, is_last) = (it.answer_bytes, it.message, it.blocks_left == 1);
        if is_last {
            let now = self.now;
            self.fates[message].arrived.get_or_insert(now);
        }
        self.frame(1, false, bytes, Event::Answer { exchange });
    }

    fn coap_answer(&mut self, exchange: usize) {
        let it = &mut self.exchanges[exchange];
        if it.is_over {
            return;
        }
        if it.attempt == 0 {
            self.round_trips.push(self.now - it.began);
        }
        it.blocks_left -= 1;
        it.payload_left -= it.payload_left.min(BLOCK);
        if it.blocks_left > 0 {
            // The next block is an exchange of its own, so that late answers and timers of this one are known as such.
            it.is_over = true;
            let next = Exchange {
                attempt: 0,
                is_over: false,
                first_wait: 0,
                request_bytes: 0,
                ..*it
            };
            self.exchanges.push(next);
            self.coap_block(self.exchanges.len() - 1);
            return;
        }
        it.is_over = true;
        let message = it.message;
        self.fates[message].settled = Some(self.now);
        self.settled.push(message);
        self.coap_next(exchange);
    }

    fn coap_next(&mut self, exchange: usize) {
        let topic = self.exchanges[exchange].topic;
        let Some(queue) = self.topics.get_mut(&topic) else {
            return;
        };
        queue.pop_front();
        let Some(&message) = queue.front() else {
            return;
        };
        let waits = |it: &Exchange| it.message == message && !it.is_over;
        if let Some(next) = self.exchanges.iter().position(waits) {
            self.coap_block(next);
        }
    }
}
