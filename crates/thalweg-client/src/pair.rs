//! A lane of one connection and its peer in memory: what the tests of plugins for streams run on.

use thalweg_model::{Reliability, Span, Time};
use thalweg_wire::testkit::Dice;

use crate::transport::{
    DeliveryId, Departure, Endpoint, LinkFault, Medium, Opening, Outbound, Output, Refusal,
    RequestId, Settled, SubscribeWish, SubscriptionId, Transport,
};
use crate::witness::{EventCall, Got, Witness, opening};

/// The other end of a connection, made of the wire crate's other side.
pub(crate) trait FarEnd {
    /// Begins a new connection: what was half said on the old one is gone.
    fn accept(&mut self);
    /// Takes what the lane has written, whole frames only.
    fn hear(&mut self, bytes: &[u8], now: Time);
    /// Bytes that it has written.
    fn out(&mut self) -> &mut Vec<u8>;
}

/// A lane, its peer, and the bytes between them.
pub(crate) struct Pair<L, P> {
    pub(crate) lane: L,
    pub(crate) server: P,
    pub(crate) out: Output,
    pub(crate) witness: Witness,
    pub(crate) now: Time,
    /// From one answer of the peer to the next.
    pub(crate) round_trip: Span,
    /// Bytes that the lane has not understood yet.
    input: Vec<u8>,
    /// Size of the pieces in which bytes reach the lane.
    pub(crate) chunk: Chunk,
    pub(crate) opening: Opening,
    pub(crate) fault: Option<LinkFault>,
    /// Subscriptions ask for last values.
    pub(crate) last_values: bool,
}

/// Says how many bytes come next.
pub(crate) type Chunk = Box<dyn FnMut() -> usize>;

pub(crate) fn endpoint(port: u16, medium: Medium) -> Endpoint {
    Endpoint {
        host: "broker".to_owned(),
        port,
        medium,
        is_encrypted: false,
        websocket: None,
    }
}

impl<L: Transport, P: FarEnd> Pair<L, P> {
    pub(crate) fn of(lane: L, server: P, client_id: &str) -> Self {
        Pair {
            lane,
            server,
            out: Output::default(),
            witness: Witness::default(),
            now: Time::from_secs(1000),
            round_trip: Span::ZERO,
            input: Vec::new(),
            chunk: Box::new(|| usize::MAX),
            opening: opening(client_id),
            fault: None,
            last_values: false,
        }
    }

    /// Begins a connection; nothing of it has reached the peer.
    pub(crate) fn open(&mut self) {
        self.server.accept();
        self.input.clear();
        self.out.clear();
        self.fault = None;
        let peer = ([127, 0, 0, 1], self.lane.endpoint().port).into();
        self.lane.open(&self.opening, peer, self.now, &mut self.out);
    }

    /// The connection is lost, with all that is under way.
    pub(crate) fn lose(&mut self) {
        self.lane.closed();
        self.out.clear();
    }

    /// Delivers what the lane has written.
    pub(crate) fn send(&mut self) -> bool {
        let said = std::mem::take(&mut self.out.bytes);
        self.out.clear();
        self.server.hear(&said, self.now);
        !said.is_empty()
    }

    /// Lets both talk until neither has anything to say, or the lane gives up.
    pub(crate) fn talk(&mut self) {
        loop {
            let has_said = self.send();
            let mut heard = std::mem::take(self.server.out());
            if heard.is_empty() && !has_said {
                return;
            }
            if !heard.is_empty() {
                self.now += self.round_trip;
            }
            while !heard.is_empty() && self.fault.is_none() {
                let chunk = (self.chunk)().clamp(1, heard.len());
                self.input.extend(heard.drain(..chunk));
                let (out, witness) = (&mut self.out, &mut self.witness);
                match self.lane.handle_input(&self.input, self.now, out, witness) {
                    Ok(consumed) => _ = self.input.drain(..consumed),
                    Err(fault) => {
                        self.fault = Some(fault);
                        self.lane.closed();
                    }
                }
            }
        }
    }

    /// Lets both talk until neither has anything to say.
    pub(crate) fn exchange(&mut self) {
        self.talk();
        assert_eq!(self.fault, None);
        assert!(self.input.is_empty(), "half a frame");
    }

    /// Opens a connection and exchanges what follows.
    pub(crate) fn reach(&mut self) {
        self.open();
        self.exchange();
    }

    /// The lane reads these bytes.
    pub(crate) fn handle(&mut self, input: &[u8]) -> Result<usize, LinkFault> {
        self.lane
            .handle_input(input, self.now, &mut self.out, &mut self.witness)
    }

    pub(crate) fn timeout(&mut self) -> Result<(), LinkFault> {
        self.lane
            .handle_timeout(self.now, &mut self.out, &mut self.witness)
    }

    pub(crate) fn publish(&mut self, message: &Outbound<'_>) -> Result<Departure, Refusal> {
        self.lane.publish(message, self.now, &mut self.out)
    }

    /// Publishes a message that the lane must take.
    pub(crate) fn must_publish(&mut self, message: &Outbound<'_>) {
        self.publish(message).expect("it goes");
    }

    pub(crate) fn subscribe(
        &mut self,
        id: u32,
        filter: &str,
        reliability: Reliability,
    ) -> Result<(), Refusal> {
        let wish = SubscribeWish {
            subscription: SubscriptionId(id),
            filter,
            reliability,
            last_values: self.last_values,
        };
        self.lane.subscribe(&wish, self.now, &mut self.out)
    }

    /// Asks for a subscription; the lane must take it.
    pub(crate) fn must_subscribe(&mut self, id: u32, filter: &str, reliability: Reliability) {
        self.subscribe(id, filter, reliability)
            .expect("it can be said");
    }

    /// A subscription that stands.
    pub(crate) fn subscribed(&mut self, id: u32, filter: &str) {
        self.must_subscribe(id, filter, Reliability::AtLeastOnce);
        self.exchange();
        assert_eq!(
            self.witness.take(),
            [EventCall::Subscribed(SubscriptionId(id), Ok(()))]
        );
    }

    pub(crate) fn unsubscribe(&mut self, id: u32) {
        self.lane
            .unsubscribe(SubscriptionId(id), self.now, &mut self.out);
    }

    pub(crate) fn settle(&mut self, delivery: DeliveryId) {
        self.lane.settle(delivery, self.now, &mut self.out);
    }

    /// Settles what came and is to be settled.
    pub(crate) fn settle_all(&mut self, told: &[EventCall]) {
        for told in told {
            if let EventCall::Received(got) = told
                && let Some(delivery) = got.delivery
            {
                self.settle(delivery);
            }
        }
    }

    pub(crate) fn request(&mut self, id: u64, message: &Outbound<'_>) -> Result<(), Refusal> {
        self.lane
            .request(RequestId(id), message, self.now, &mut self.out)
    }

    /// Asks a question that the lane must take.
    pub(crate) fn must_request(&mut self, id: u64, message: &Outbound<'_>) {
        self.request(id, message).expect("it can be asked");
    }

    pub(crate) fn read(&mut self, id: u64, address: &str) {
        self.lane
            .read(RequestId(id), address, self.now, &mut self.out)
            .expect("it can be asked");
    }

    pub(crate) fn received(&mut self) -> Vec<Got> {
        self.exchange();
        self.witness.take_received()
    }

    /// The one message that came.
    pub(crate) fn received_one(&mut self) -> Got {
        let [got] = <[Got; 1]>::try_from(self.received()).expect("one message");
        got
    }
}

pub(crate) fn acknowledged(ids: impl IntoIterator<Item = u64>) -> Vec<EventCall> {
    ids.into_iter()
        .map(|id| EventCall::Settled(id, Settled::Acknowledged))
        .collect()
}

/// Checks that a conversation has the same events however the bytes of the peer are cut: at random, and once, behind
/// each of the first `cuts` bytes.
pub(crate) fn cuts_change_nothing(cuts: usize, run: impl Fn(Chunk) -> Vec<EventCall>) {
    let whole = run(Box::new(|| usize::MAX));
    assert_eq!(run(Box::new(|| 1)), whole, "byte by byte");
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let told = run(Box::new(move || 1 + dice.below(60)));
        assert_eq!(told, whole, "seed {seed}");
    }
    for cut in 1..cuts {
        let mut left = cut;
        let chunk = move || match std::mem::take(&mut left) {
            0 => usize::MAX,
            first => first,
        };
        assert_eq!(run(Box::new(chunk)), whole, "cut at {cut}");
    }
}

/// Damages what a peer says in a thousand ways. A lane may give up, and nothing else; it does so at least 300 times.
pub(crate) fn nonsense_ends_a_connection_at_worst<L: Transport, P: FarEnd>(
    good: &[u8],
    prepared: impl Fn() -> Pair<L, P>,
) {
    let mut gave_up = 0;
    for seed in 0..1000 {
        let mut dice = Dice::new(seed);
        let mut bytes = good.to_vec();
        for _ in 0..1 + dice.below(4) {
            let at = dice.below(bytes.len());
            match dice.below(3) {
                0 => bytes[at] = dice.below(256) as u8,
                1 => _ = bytes.remove(at),
                _ => bytes.insert(at, dice.below(256) as u8),
            }
        }
        gave_up += usize::from(prepared().handle(&bytes).is_err());
    }
    assert!(gave_up > 300, "{gave_up}");
}
