//! Common part of all protocol plugins: [`Plugin`] is a [`Transport`] reduced to the protocol itself.
//!
//! Here, once for all: the course of a connection and its handshake ([`Connection`]), signs of life ([`Liveness`]), questions
//! that wait for answers ([`Pending`]), publishes that wait for acknowledgements and how many may ([`Window`]), the loop over
//! what came, the probe, what is refused before there is a connection or because it is too large, and when there is room again.

mod connection;
mod lanes;
mod liveness;
mod pending;
mod window;

use std::net::SocketAddr;

use thalweg_model::{Reliability, Time};

pub(crate) use self::connection::Connection;
pub(crate) use self::lanes::{Lanes, PluginSettings};
pub(crate) use self::liveness::Liveness;
pub(crate) use self::pending::Pending;
pub(crate) use self::window::{Blame, Window};
use crate::transport::{
    Capabilities, Counters, DeliveryId, Departure, Endpoint, Events, LinkFault, MessageId, Opening,
    Outbound, Output, Refusal, RequestId, SubscribeWish, SubscriptionId, Transport,
};

/// Where a plugin writes while it reads what came or does what is due.
pub(crate) struct Cx<'c> {
    /// Octets for the peer.
    pub(crate) out: &'c mut Vec<u8>,
    /// News for the engine.
    pub(crate) events: &'c mut dyn Events,
}

/// Result of a step of the connection.
pub(crate) type Step<T = ()> = Result<T, LinkFault>;
/// Whether something could be asked of the peer.
pub(crate) type Asked<T = ()> = Result<T, Refusal>;

/// Writes [`Plugin::connection`] and [`Plugin::connection_mut`] of a type that keeps it in `conn`.
macro_rules! has_connection {
    () => {
        fn connection(&self) -> &Connection {
            &self.conn
        }

        fn connection_mut(&mut self) -> &mut Connection {
            &mut self.conn
        }
    };
}
pub(crate) use has_connection;

/// A protocol, on a connection that the kit looks after. Each method is the part of one of [`Transport`] that differs between
/// protocols; `out` is what goes to the peer.
pub(crate) trait Plugin: Send {
    /// The protocol's name, see [`Transport::protocol`].
    const PROTOCOL: &'static str;
    /// The surest publish; what is surer is refused.
    const PUBLISHES: Reliability = Reliability::AtLeastOnce;
    /// The surest subscription; what is surer is refused.
    const SUBSCRIBES: Reliability = Reliability::ExactlyOnce;

    /// Name of [`Plugin::ping`] in errors.
    const QUESTION: &'static str = "a ping";

    /// Memory that serves while one read is taken apart.
    type Scratch: Default;

    fn connection(&self) -> &Connection;
    fn connection_mut(&mut self) -> &mut Connection;

    /// See [`Transport::capabilities`].
    fn offers(&self) -> Capabilities;

    /// Writes what is said first on a new connection; a fault if that cannot be said.
    fn connect(&mut self, opening: &Opening, out: &mut Vec<u8>) -> Step;

    /// Takes one frame from the front of the input and returns its length; nothing if there is no whole one.
    fn step(
        &mut self,
        input: &[u8],
        scratch: &mut Self::Scratch,
        cx: &mut Cx<'_>,
    ) -> Step<Option<usize>>;

    /// See [`Transport::wants_tls`].
    fn begins_tls(&self) -> bool {
        false
    }

    /// See [`Transport::secured`].
    fn on_tls(&mut self, _out: &mut Vec<u8>) {}

    /// Everything that came has been taken.
    fn after_input(&mut self, _cx: &mut Cx<'_>) {}

    /// When [`Plugin::on_timeout`] has something to do.
    fn next_timeout(&self) -> Time {
        Time::NEVER
    }

    fn on_timeout(&mut self, _cx: &mut Cx<'_>) -> Step {
        Ok(())
    }

    /// Whether a message that had to wait may be sent now.
    fn has_room(&self) -> bool {
        true
    }

    /// There is room again.
    fn on_room(&mut self, cx: &mut Cx<'_>) {
        cx.events.room();
    }

    /// Writes a message. With [`Refusal::Window`] the engine is notified when there is space.
    fn send(&mut self, message: &Outbound<'_>, out: &mut Vec<u8>) -> Asked<Departure>;

    /// See [`Transport::abandon`].
    fn give_up(&mut self, _id: MessageId) {}

    fn begin_subscription(&mut self, wish: &SubscribeWish<'_>, out: &mut Vec<u8>) -> Asked;

    fn end_subscription(&mut self, id: SubscriptionId, out: &mut Vec<u8>);

    /// See [`Transport::settle`].
    fn acknowledge(&mut self, _delivery: DeliveryId, _out: &mut Vec<u8>) {}

    /// See [`Transport::request`].
    fn ask(&mut self, _id: RequestId, _message: &Outbound<'_>, _out: &mut Vec<u8>) -> Asked {
        Err(Refusal::Unsupported(
            "the protocol has no requests to addresses",
        ))
    }

    /// See [`Transport::read`].
    fn ask_value(&mut self, _id: RequestId, _address: &str, _out: &mut Vec<u8>) -> Asked {
        Err(Refusal::Unsupported("the protocol has no last values"))
    }

    /// See [`Transport::forget`].
    fn drop_question(&mut self, _id: RequestId) {}

    /// Writes something small that the peer answers, or nothing; [`Connection::answered`] takes the answer.
    fn ping(&mut self, out: &mut Vec<u8>);

    /// Writes a sign of life, where both ends agreed on them: see [`Liveness::agree`].
    fn heartbeat(&mut self, _out: &mut Vec<u8>) {}

    /// Writes what ends the connection politely, if the protocol has it.
    fn say_goodbye(&mut self, _out: &mut Vec<u8>) {}

    /// The connection has ended: forgets what was tied to it.
    fn reset(&mut self);

    /// Closes datagrams that were written, and writes those that wait elsewhere.
    #[inline]
    fn flush(&mut self, _out: &mut Output) {}

    /// See [`Transport::counters`].
    fn counts(&self) -> Counters {
        Counters::default()
    }
}

/// Flushes the bytes written since `before`, which also count as a sign of life.
#[inline]
fn finish<P: Plugin>(plugin: &mut P, before: usize, out: &mut Output) {
    plugin.flush(out);
    if out.bytes.len() > before {
        let conn = plugin.connection_mut();
        let now = conn.now();
        conn.liveness().sent(now);
    }
}

/// Lets a plugin do something on a connection that is up.
#[inline]
fn when_up<P: Plugin, R>(
    plugin: &mut P,
    now: Time,
    out: &mut Output,
    act: impl FnOnce(&mut P, &mut Vec<u8>) -> Asked<R>,
) -> Asked<R> {
    let conn = plugin.connection_mut();
    conn.at(now);
    if !conn.is_up() {
        return Err(Refusal::NotConnected);
    }
    let before = out.bytes.len();
    let outcome = act(plugin, &mut out.bytes);
    if let Err(Refusal::Window) = outcome {
        plugin.connection_mut().hold();
    }
    finish(plugin, before, out);
    outcome
}

fn tell_room<P: Plugin>(plugin: &mut P, cx: &mut Cx<'_>) {
    let conn = plugin.connection();
    if conn.was_full() && conn.is_up() && plugin.has_room() {
        plugin.connection_mut().take_full();
        plugin.on_room(cx);
    }
}

impl<P: Plugin> Transport for P {
    fn protocol(&self) -> &'static str {
        P::PROTOCOL
    }

    fn capabilities(&self) -> Capabilities {
        let offers = self.offers();
        let payload_bytes_max = self.connection().payload_bytes_max();
        Capabilities {
            payload_bytes_max: offers.payload_bytes_max.min(payload_bytes_max),
            ..offers
        }
    }

    fn endpoint(&self) -> &Endpoint {
        self.connection().endpoint()
    }

    fn open(&mut self, opening: &Opening, peer: SocketAddr, now: Time, out: &mut Output) {
        self.closed();
        self.connection_mut().open(peer, opening.keep_alive, now);
        let outcome = self.connect(opening, &mut out.bytes);
        self.connection_mut().opened(outcome);
        self.flush(out);
    }

    fn wants_tls(&self) -> bool {
        self.begins_tls()
    }

    fn secured(&mut self, out: &mut Output) {
        self.on_tls(&mut out.bytes);
    }

    fn handle_input(
        &mut self,
        input: &[u8],
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<usize, LinkFault> {
        if self.connection().is_closed() {
            return Ok(input.len());
        }
        self.connection_mut().at(now);
        let (before, mut consumed) = (out.bytes.len(), 0);
        let mut scratch = P::Scratch::default();
        let out_bytes = &mut out.bytes;
        let mut cx = Cx {
            out: out_bytes,
            events,
        };
        let outcome = loop {
            let rest = input.get(consumed..).unwrap_or_default();
            match self.step(rest, &mut scratch, &mut cx) {
                Ok(Some(len)) => consumed += len,
                Ok(None) => break Ok(consumed),
                Err(fault) => break Err(fault),
            }
            self.connection_mut().liveness().heard(now);
        };
        if outcome.is_ok() {
            self.after_input(&mut cx);
            tell_room(self, &mut cx);
        }
        finish(self, before, out);
        outcome
    }

    fn poll_timeout(&self) -> Time {
        match self.connection() {
            conn if conn.is_closed() => Time::NEVER,
            conn => conn.due().min(self.next_timeout()),
        }
    }

    fn handle_timeout(
        &mut self,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        let conn = self.connection_mut();
        conn.at(now);
        if let Some(fault) = conn.take_fault() {
            return Err(fault);
        }
        if conn.is_closed() {
            return Ok(());
        }
        let before = out.bytes.len();
        if conn.is_up() && conn.liveness().check(P::QUESTION, now)? {
            if conn.liveness().asks() {
                self.ping(&mut out.bytes);
                self.connection_mut().liveness().asked(now);
            } else {
                self.heartbeat(&mut out.bytes);
            }
        }
        let out_bytes = &mut out.bytes;
        let mut cx = Cx {
            out: out_bytes,
            events,
        };
        let outcome = self.on_timeout(&mut cx);
        tell_room(self, &mut cx);
        finish(self, before, out);
        outcome
    }

    #[inline]
    fn publish(
        &mut self,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal> {
        when_up(self, now, out, |plugin, out| {
            if message.reliability > P::PUBLISHES {
                return Err(Refusal::Unsupported(
                    "the protocol itself has no publish as sure as this",
                ));
            }
            let limit = plugin.connection().payload_bytes_max();
            if message.payload.len() > limit {
                return Err(Refusal::TooLarge { limit });
            }
            plugin.send(message, out)
        })
    }

    fn abandon(&mut self, id: MessageId) {
        self.give_up(id);
    }

    fn subscribe(
        &mut self,
        wish: &SubscribeWish<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        when_up(self, now, out, |plugin, out| {
            if wish.reliability > P::SUBSCRIBES {
                return Err(Refusal::Unsupported(
                    "the protocol has no subscription as sure as this",
                ));
            }
            plugin.begin_subscription(wish, out)
        })
    }

    fn unsubscribe(&mut self, subscription: SubscriptionId, now: Time, out: &mut Output) {
        let before = out.bytes.len();
        self.connection_mut().at(now);
        self.end_subscription(subscription, &mut out.bytes);
        finish(self, before, out);
    }

    #[inline]
    fn settle(&mut self, delivery: DeliveryId, now: Time, out: &mut Output) {
        let before = out.bytes.len();
        self.connection_mut().at(now);
        self.acknowledge(delivery, &mut out.bytes);
        finish(self, before, out);
    }

    fn request(
        &mut self,
        request: RequestId,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        when_up(self, now, out, |plugin, out| {
            let limit = plugin.connection().payload_bytes_max();
            if message.payload.len() > limit {
                return Err(Refusal::TooLarge { limit });
            }
            plugin.ask(request, message, out)
        })
    }

    fn read(
        &mut self,
        request: RequestId,
        address: &str,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        when_up(self, now, out, |plugin, out| {
            plugin.ask_value(request, address, out)
        })
    }

    fn forget(&mut self, request: RequestId) {
        self.drop_question(request);
    }

    fn probe(&mut self, now: Time, out: &mut Output) -> usize {
        let conn = self.connection_mut();
        conn.at(now);
        if !conn.is_up() || conn.liveness().is_asking() {
            return 0;
        }
        // Bytes left over from a call without output do not belong to the ping.
        self.flush(out);
        let before = out.bytes.len();
        self.ping(&mut out.bytes);
        finish(self, before, out);
        let bytes = out.bytes.len() - before;
        if bytes > 0 {
            self.connection_mut().liveness().asked(now);
        }
        bytes
    }

    fn close(&mut self, now: Time, out: &mut Output) {
        let conn = self.connection_mut();
        conn.at(now);
        if !conn.is_closed() {
            self.say_goodbye(&mut out.bytes);
            self.flush(out);
        }
    }

    fn closed(&mut self) {
        self.reset();
        self.connection_mut().close();
    }

    fn counters(&self) -> Counters {
        self.counts()
    }
}
