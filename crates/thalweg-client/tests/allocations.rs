//! Publishing in the steady state allocates nothing at most once, and nothing at least once either.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;

use thalweg_client::engine::{Action, Draft, Engine, EngineSettings, LaneSpec, Role};
use thalweg_client::spool::Memory;
use thalweg_client::transport::{
    Counters, DeliveryId, Departure, LinkFault, Medium, Opening, Refusal, RequestId, Settled,
    SubscribeWish, SubscriptionId, Welcome,
};
use thalweg_client::{
    Capabilities, Endpoint, Events, Outbound, Output, Reliability, Span, Time, Transport,
};

/// Counts what this thread asks for.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it is; the count is a plain cell of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// The least that a protocol can be: the payload as it is, and an acknowledgement by number.
struct Bare {
    endpoint: Endpoint,
    is_up: bool,
}

impl Transport for Bare {
    fn protocol(&self) -> &'static str {
        "bare"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publishes: true,
            subscribes: true,
            reliability_max: Reliability::AtLeastOnce,
            receive_max: Reliability::AtMostOnce,
            stamps: false,
            carries_stamps: false,
            wildcards: false,
            keeps_all: false,
            settles: false,
            wills: false,
            keeps_order: true,
            publishes_in_order: true,
            properties: true,
            lifespan: false,
            priority: false,
            requests: false,
            last_values: false,
            payload_bytes_max: 1 << 20,
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn open(&mut self, _: &Opening, _: SocketAddr, _: Time, _: &mut Output) {}

    fn handle_input(
        &mut self,
        input: &[u8],
        _: Time,
        _: &mut Output,
        events: &mut dyn Events,
    ) -> Result<usize, LinkFault> {
        if !std::mem::replace(&mut self.is_up, true) {
            events.up(&Welcome::default());
        }
        for number in input.chunks_exact(8) {
            let number = number.try_into().map_or(0, u64::from_be_bytes);
            events.settled(number, Settled::Acknowledged);
        }
        Ok(input.len())
    }

    fn poll_timeout(&self) -> Time {
        Time::NEVER
    }

    fn handle_timeout(
        &mut self,
        _: Time,
        _: &mut Output,
        _: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        Ok(())
    }

    fn publish(
        &mut self,
        message: &Outbound<'_>,
        _: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal> {
        out.bytes.extend_from_slice(message.address.as_bytes());
        out.bytes.extend_from_slice(message.payload);
        Ok(if message.reliability == Reliability::AtMostOnce {
            Departure::Gone
        } else {
            Departure::Awaited
        })
    }

    fn subscribe(&mut self, _: &SubscribeWish<'_>, _: Time, _: &mut Output) -> Result<(), Refusal> {
        Err(Refusal::Unsupported("subscriptions"))
    }

    fn unsubscribe(&mut self, _: SubscriptionId, _: Time, _: &mut Output) {}
    fn settle(&mut self, _: DeliveryId, _: Time, _: &mut Output) {}

    fn request(
        &mut self,
        _: RequestId,
        _: &Outbound<'_>,
        _: Time,
        _: &mut Output,
    ) -> Result<(), Refusal> {
        Err(Refusal::Unsupported("requests"))
    }

    fn read(&mut self, _: RequestId, _: &str, _: Time, _: &mut Output) -> Result<(), Refusal> {
        Err(Refusal::Unsupported("last values"))
    }

    fn forget(&mut self, _: RequestId) {}

    fn probe(&mut self, _: Time, _: &mut Output) -> usize {
        0
    }

    fn close(&mut self, _: Time, _: &mut Output) {}

    fn closed(&mut self) {
        self.is_up = false;
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// An engine whose one lane is up.
fn engine() -> Engine {
    let endpoint = Endpoint {
        host: "host".to_owned(),
        port: 1,
        medium: Medium::Stream,
        is_encrypted: false,
        websocket: None,
    };
    let opening = Opening {
        client_id: String::new(),
        user: None,
        password: None,
        session: Span::ZERO,
        will: None,
        keep_alive: Span::ZERO,
    };
    let lane = LaneSpec {
        transport: Box::new(Bare {
            endpoint,
            is_up: false,
        }),
        role: Role::Candidate,
    };
    let spool = Box::new(Memory::new(7));
    let mut engine = Engine::new(
        EngineSettings::new(opening),
        vec![lane],
        spool,
        None,
        7,
        Time::ZERO,
    )
    .expect("memory opens");
    assert_eq!(engine.poll_action(), Some(Action::Connect(0)));
    engine.connected(0, SocketAddr::from(([127, 0, 0, 1], 1)), Time::ZERO);
    engine.handle_input(0, b"", Time::ZERO);
    engine
}

/// Publishes 36 bytes so many times; `acks` takes what the peer acknowledges after each turn of `batch`.
fn publish(engine: &mut Engine, reliability: Reliability, messages: u64, batch: u64) {
    let mut acks = Vec::with_capacity(8 * batch as usize);
    let first = engine.next_id();
    for id in first..first + messages {
        let now = Time::from_nanos(id * 1_000);
        let draft = Draft {
            reliability,
            ..Draft::new(id, "plant/7/boiler/3", &[b'x'; 36])
        };
        engine.publish(&draft, now).expect("there is room");
        acks.extend_from_slice(&id.to_be_bytes());
        if acks.len() == 8 * batch as usize {
            engine.turn(now);
            let written = engine.unwritten(0).len();
            assert!(written >= 36);
            engine.wrote(0, written, now);
            if reliability != Reliability::AtMostOnce {
                engine.handle_input(0, &acks, now);
            }
            acks.clear();
            while engine.poll_notice().is_some() {}
        }
    }
}

#[test]
fn a_steady_flow_allocates_nothing() {
    for (reliability, batch) in [
        (Reliability::AtMostOnce, 1),
        (Reliability::AtMostOnce, 100),
        (Reliability::AtLeastOnce, 1),
        (Reliability::AtLeastOnce, 100),
    ] {
        let mut engine = engine();
        publish(&mut engine, reliability, 5_000, batch);
        let before = allocations();
        publish(&mut engine, reliability, 10_000, batch);
        // The vector of acknowledgements is the test's own.
        assert_eq!(
            allocations() - before,
            1,
            "{reliability:?} in batches of {batch}"
        );
        assert_eq!(engine.counts().published, 15_000);
        assert_eq!(engine.load().messages, 0);
    }
}
