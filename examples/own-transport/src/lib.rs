//! Lines over TCP, as a lane of `thalweg-client`.
//!
//! Everything here is without I/O: the client owns the socket and the clock, and says what came and what time it is.
#![forbid(unsafe_code)]

pub mod broker;

use std::collections::HashSet;
use std::net::SocketAddr;

use thalweg_client::transport::{
    Counters, DeliveryId, Departure, LinkFault, Medium, MessageId, Opening, Properties, Refusal,
    RequestId, Settled, SubscribeWish, SubscriptionId, Welcome,
};
use thalweg_client::{
    Capabilities, Endpoint, Events, Inbound, Outbound, Output, Reliability, Span, Time, Transport,
};

/// Largest payload, in bytes.
const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Longest line, in bytes: who sends a longer one does not speak our protocol.
const LINE_BYTES_MAX: usize = 4096;
/// Most messages that may wait for their `OK`.
const AWAITED_MAX: usize = 1000;

/// A lane that speaks lines.
pub struct Lines {
    endpoint: Endpoint,
    is_up: bool,
    /// What was published and not answered yet.
    awaited: HashSet<MessageId>,
    /// Somebody was told to wait for room.
    was_full: bool,
    subscriptions: HashSet<SubscriptionId>,
    /// Silence after which we ask; zero: never.
    keep_alive: Span,
    heard: Time,
    /// When PING left, if it was not answered yet.
    asked: Option<Time>,
}

impl Lines {
    /// A lane to a broker at this host and port.
    pub fn new(host: &str, port: u16) -> Self {
        let endpoint = Endpoint {
            host: host.to_owned(),
            port,
            medium: Medium::Stream,
            is_encrypted: false,
            websocket: None,
        };
        Lines {
            endpoint,
            is_up: false,
            awaited: HashSet::new(),
            was_full: false,
            subscriptions: HashSet::new(),
            keep_alive: Span::ZERO,
            heard: Time::ZERO,
            asked: None,
        }
    }
}

impl Transport for Lines {
    fn protocol(&self) -> &'static str {
        "lines"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publishes: true,
            subscribes: true,
            reliability_max: Reliability::AtLeastOnce,
            // What is lost with a connection is lost.
            receive_max: Reliability::AtMostOnce,
            stamps: false,
            carries_stamps: false,
            wildcards: true,
            keeps_all: true,
            settles: false,
            wills: false,
            keeps_order: true,
            publishes_in_order: true,
            properties: false,
            lifespan: false,
            priority: false,
            requests: false,
            last_values: false,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn open(&mut self, opening: &Opening, _peer: SocketAddr, now: Time, out: &mut Output) {
        self.closed();
        self.keep_alive = opening.keep_alive;
        self.heard = now;
        let name = if is_one_line(&opening.client_id) {
            &opening.client_id
        } else {
            ""
        };
        say(out, &format!("HELLO {name}"));
    }

    fn handle_input(
        &mut self,
        input: &[u8],
        now: Time,
        _out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<usize, LinkFault> {
        let mut consumed = 0;
        loop {
            // What is not whole yet comes again with what follows it.
            let rest = input.get(consumed..).unwrap_or_default();
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                return if rest.len() > LINE_BYTES_MAX {
                    Err(nonsense(rest))
                } else {
                    Ok(consumed)
                };
            };
            let (line, behind) = (
                rest.get(..end).unwrap_or_default(),
                rest.get(end + 1..).unwrap_or_default(),
            );
            let Ok(line) = std::str::from_utf8(line) else {
                return Err(nonsense(line));
            };
            let mut words = line.splitn(4, ' ');
            let (verb, number) = (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
            );
            let mut taken = end + 1;
            match verb {
                "WELCOME" if !self.is_up => {
                    self.is_up = true;
                    events.up(&Welcome::default());
                }
                "OK" | "NO" => {
                    let Some(id) = number.parse().ok().filter(|id| self.awaited.remove(id)) else {
                        return Err(nonsense(line.as_bytes()));
                    };
                    let why = words.collect::<Vec<_>>().join(" ");
                    let refused = || Settled::Refused(Refusal::Denied(why));
                    events.settled(
                        id,
                        if verb == "OK" {
                            Settled::Acknowledged
                        } else {
                            refused()
                        },
                    );
                }
                "SUBBED" => {
                    let Ok(number) = number.parse() else {
                        return Err(nonsense(line.as_bytes()));
                    };
                    if self.subscriptions.contains(&SubscriptionId(number)) {
                        events.subscribed(SubscriptionId(number), Ok(Reliability::AtMostOnce));
                    }
                }
                "MSG" => {
                    let (size, topic) = (
                        words.next().unwrap_or_default(),
                        words.next().unwrap_or_default(),
                    );
                    let (Ok(number), Ok(size)) = (number.parse(), size.parse::<usize>()) else {
                        return Err(nonsense(line.as_bytes()));
                    };
                    if size > PAYLOAD_BYTES_MAX {
                        return Err(nonsense(line.as_bytes()));
                    }
                    let Some(payload) = behind.get(..size).filter(|_| behind.len() > size) else {
                        return Ok(consumed);
                    };
                    taken += size + 1;
                    if self.subscriptions.contains(&SubscriptionId(number)) {
                        events.received(&inbound(SubscriptionId(number), topic, payload));
                    }
                }
                "PONG" => {
                    if let Some(asked) = self.asked.take() {
                        events.round_trip(now.since(asked));
                    }
                }
                _ => return Err(nonsense(line.as_bytes())),
            }
            self.heard = now;
            consumed += taken;
            if self.was_full && self.awaited.len() <= AWAITED_MAX / 2 {
                self.was_full = false;
                events.room();
            }
        }
    }

    fn poll_timeout(&self) -> Time {
        match (self.keep_alive, self.asked) {
            (Span::ZERO, _) => Time::NEVER,
            (keep_alive, None) => self.heard + keep_alive,
            (keep_alive, Some(asked)) => asked + keep_alive,
        }
    }

    fn handle_timeout(
        &mut self,
        now: Time,
        out: &mut Output,
        _events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        if now < self.poll_timeout() {
            return Ok(());
        }
        if self.asked.is_some() || !self.is_up {
            return Err(LinkFault {
                words: "the broker does not answer".to_owned(),
                is_final: false,
            });
        }
        self.probe(now, out);
        Ok(())
    }

    fn publish(
        &mut self,
        message: &Outbound<'_>,
        _now: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal> {
        if !self.is_up {
            return Err(Refusal::NotConnected);
        }
        if !is_one_line(message.address) {
            return Err(Refusal::Address);
        }
        if message.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Refusal::TooLarge {
                limit: PAYLOAD_BYTES_MAX,
            });
        }
        let departure = match message.reliability {
            Reliability::AtMostOnce => Departure::Gone,
            Reliability::AtLeastOnce => Departure::Awaited,
            Reliability::ExactlyOnce => return Err(Refusal::Unsupported("lines may come twice")),
        };
        if departure == Departure::Awaited {
            if self.awaited.len() >= AWAITED_MAX {
                self.was_full = true;
                return Err(Refusal::Window);
            }
            self.awaited.insert(message.id);
        }
        let number = if departure == Departure::Gone {
            "-".to_owned()
        } else {
            message.id.to_string()
        };
        say(
            out,
            &format!("PUB {number} {} {}", message.payload.len(), message.address),
        );
        out.bytes.extend_from_slice(message.payload);
        out.bytes.push(b'\n');
        Ok(departure)
    }

    fn subscribe(
        &mut self,
        wish: &SubscribeWish<'_>,
        _now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if !self.is_up {
            return Err(Refusal::NotConnected);
        }
        if !is_one_line(wish.filter) || wish.filter.contains('+') {
            return Err(Refusal::Address);
        }
        self.subscriptions.insert(wish.subscription);
        say(out, &format!("SUB {} {}", wish.subscription.0, wish.filter));
        Ok(())
    }

    fn unsubscribe(&mut self, subscription: SubscriptionId, _now: Time, out: &mut Output) {
        if self.subscriptions.remove(&subscription) {
            say(out, &format!("UNSUB {}", subscription.0));
        }
    }

    // Nothing that comes asks to be settled.
    fn settle(&mut self, _: DeliveryId, _: Time, _: &mut Output) {}

    fn request(
        &mut self,
        _: RequestId,
        _: &Outbound<'_>,
        _: Time,
        _: &mut Output,
    ) -> Result<(), Refusal> {
        Err(Refusal::Unsupported("lines have no questions"))
    }

    fn read(&mut self, _: RequestId, _: &str, _: Time, _: &mut Output) -> Result<(), Refusal> {
        Err(Refusal::Unsupported("lines have no last values"))
    }

    fn forget(&mut self, _: RequestId) {}

    fn probe(&mut self, now: Time, out: &mut Output) -> usize {
        if !self.is_up || self.asked.is_some() {
            return 0;
        }
        self.asked = Some(now);
        say(out, "PING");
        "PING\n".len()
    }

    // Who has nothing more to say just goes.
    fn close(&mut self, _: Time, _: &mut Output) {}

    fn closed(&mut self) {
        self.is_up = false;
        self.awaited.clear();
        self.was_full = false;
        self.subscriptions.clear();
        self.asked = None;
    }

    fn counters(&self) -> Counters {
        // TCP repeats, and the system counts that.
        Counters::default()
    }
}

fn say(out: &mut Output, line: &str) {
    out.bytes.extend_from_slice(line.as_bytes());
    out.bytes.push(b'\n');
}

fn is_one_line(text: &str) -> bool {
    text.len() < LINE_BYTES_MAX / 2 && !text.contains(['\n', '\r'])
}

fn nonsense(bytes: &[u8]) -> LinkFault {
    let shown = bytes
        .get(..40.min(bytes.len()))
        .unwrap_or_default()
        .escape_ascii();
    LinkFault {
        words: format!("the broker does not speak lines: {shown}"),
        is_final: true,
    }
}

fn inbound<'m>(subscription: SubscriptionId, address: &'m str, payload: &'m [u8]) -> Inbound<'m> {
    Inbound {
        subscription: Some(subscription),
        delivery: None,
        address,
        payload,
        reliability: Reliability::AtMostOnce,
        is_last_value: false,
        repeated: false,
        lifespan: Span::FOREVER,
        content_type: None,
        properties: Properties::default(),
        reply_to: None,
        correlation: None,
        stamp: None,
    }
}
