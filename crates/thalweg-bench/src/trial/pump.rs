//! The two sides of a run: one gives messages to a publisher when they are due, one takes what a subscriber has. Each has a
//! thread; where little is sent, both have one.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};

use super::Plan;
use crate::drivers::{Fault, Publisher, Subscriber};
use crate::load::{Gave, Got, Header, Pacer, Sent, SideTable, Times, clock};

/// What the three threads tell each other.
#[derive(Debug)]
pub struct Shared<'a> {
    plan: &'a Plan,
    run: u32,
    copies: u32,
    /// Messages of a flood that may be under way; none where the receiver is another process.
    window: Option<u64>,
    pub(super) times: Times,
    table: SideTable,
    /// Nothing more is sent or received.
    is_over: AtomicBool,
    /// Handed over in all phases.
    sent: AtomicU64,
    /// Came for the first time.
    received: AtomicU64,
    /// Waits for an acknowledgement, or has not left.
    unsettled: AtomicU64,
    /// Nothing will be due any more, and nothing waits to be sent.
    is_sent: AtomicBool,
    /// What went wrong first, and when.
    trouble: Mutex<Option<(u64, Fault)>>,
    is_troubled: AtomicBool,
}

impl<'a> Shared<'a> {
    /// Of a run that begins.
    pub fn new(plan: &'a Plan, run: u32, copies: u32, times: Times) -> Shared<'a> {
        Shared {
            plan,
            run,
            copies,
            window: None,
            times,
            table: SideTable::default(),
            is_over: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            unsettled: AtomicU64::new(0),
            is_sent: AtomicBool::new(false),
            trouble: Mutex::new(None),
            is_troubled: AtomicBool::new(false),
        }
    }

    /// The same, whose flood has at most [`FLOOD_BYTES`] and [`FLOOD_MESSAGES`] under way: what a broker queues behind that
    /// would be counted as lost when the trial ends, or be measured as its latency.
    pub fn bounded(self) -> Shared<'a> {
        let window = FLOOD_BYTES
            .checked_div(self.plan.sizes.mean())
            .unwrap_or(FLOOD_MESSAGES);
        Shared {
            window: Some(window.clamp(FLOOD_MESSAGES_MIN, FLOOD_MESSAGES)),
            ..self
        }
    }

    /// Messages that a flood may send now, having sent so many.
    fn room(&self, sent: u64) -> u64 {
        let came = self.received.load(Ordering::Acquire) / u64::from(self.copies.max(1));
        self.window.map_or(u64::MAX, |window| {
            window.saturating_sub(sent.saturating_sub(came))
        })
    }

    /// Sender and receiver end.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Whether [`Shared::end`] was called.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn fail(&self, fault: Fault) {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert((clock::now(), fault));
        self.is_troubled.store(true, Ordering::Release);
    }

    /// What went wrong, and when.
    pub fn trouble(&self) -> Option<(u64, Fault)> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether something went wrong.
    pub fn is_troubled(&self) -> bool {
        self.is_troubled.load(Ordering::Acquire)
    }

    /// All that was to be sent is sent and acknowledged.
    pub fn is_settled(&self) -> bool {
        self.is_sent.load(Ordering::Acquire) && self.unsettled.load(Ordering::Acquire) == 0
    }

    /// All is sent, acknowledged and received.
    pub fn is_complete(&self) -> bool {
        self.is_settled()
            && self.received.load(Ordering::Acquire)
                >= self.sent.load(Ordering::Acquire) * u64::from(self.copies)
    }
}

/// The sender's thread: `told` are the flows of which a message has come (closed loops at most once), `seen` is shown the
/// books after each turn.
pub fn send(
    pacer: Pacer,
    publisher: &mut dyn Publisher,
    shared: &Shared<'_>,
    told: &Receiver<u32>,
    seen: &mut dyn FnMut(&Sent),
) -> Sent {
    clock::be_exact();
    let mut side = Sending::new(pacer, publisher, shared);
    while !shared.is_over() {
        if let Err(fault) = side.give().and_then(|turn| side.hear(turn, told)) {
            shared.fail(fault);
            break;
        }
        seen(side.pacer.sent());
        if let Some(due) = side.awake_until() {
            while clock::now() < due {
                std::hint::spin_loop();
            }
        }
    }
    side.pacer.into_sent()
}

/// The receiver's thread: it tells `tell` the flow of each message that has come, and shows `seen` the books now and then.
pub fn receive(
    got: Got,
    subscriber: &mut dyn Subscriber,
    shared: &Shared<'_>,
    tell: Option<Sender<u32>>,
    seen: &mut dyn FnMut(&Got),
) -> Got {
    clock::be_exact();
    let mut side = Receiving {
        got,
        subscriber,
        shared,
        tell,
    };
    while !shared.is_over() {
        let heard = side.hear(clock::now() + LOOK_UP);
        seen(&side.got);
        if let Err(fault) = heard {
            shared.fail(fault);
            break;
        }
    }
    side.got
}

/// One thread for both sides of a small open load: on a machine of two cores a second one takes the broker's place now and
/// then, and that is the 99th percentile of a round trip.
pub fn send_and_receive(
    pacer: Pacer,
    publisher: &mut dyn Publisher,
    got: Got,
    subscriber: &mut dyn Subscriber,
    shared: &Shared<'_>,
) -> (Sent, Got) {
    clock::be_exact();
    let (_, told) = channel();
    let mut sending = Sending::new(pacer, publisher, shared);
    let mut receiving = Receiving {
        got,
        subscriber,
        shared,
        tell: None,
    };
    let mut round = || {
        let turn = sending.give()?;
        sending.hear(Turn { until: 0, ..turn }, &told)?;
        wait_for_any(
            [sending.publisher.bell(), receiving.subscriber.bell()],
            turn.until,
        )?;
        receiving.hear(0)?;
        // It stays awake as the sender's thread does, and looks whether something comes meanwhile.
        if let Some(due) = sending.awake_until() {
            while clock::now() < due {
                receiving.hear(0)?;
            }
        }
        Ok(())
    };
    while !shared.is_over() {
        if let Err(fault) = round() {
            shared.fail(fault);
            break;
        }
    }
    (sending.pacer.into_sent(), receiving.got)
}

/// Whether one thread is enough: there is time between messages, and the clients have no threads of their own.
pub fn is_for_one(
    plan: &Plan,
    copies: u32,
    publisher: &dyn Publisher,
    subscriber: &dyn Subscriber,
) -> bool {
    plan.rate()
        .is_some_and(|rate| rate * f64::from(copies) <= SPIN_RATE_MAX)
        && publisher.bell().is_some()
        && subscriber.bell().is_some()
}

fn wait_for_any(bells: [Option<BorrowedFd<'_>>; 2], until: u64) -> Result<(), Fault> {
    let left = until.saturating_sub(clock::now());
    let mut all: Vec<PollFd<'_>> = bells
        .into_iter()
        .flatten()
        .map(|bell| PollFd::from_borrowed_fd(bell, PollFlags::IN))
        .collect();
    match poll(&mut all, Some(&clock::timespec(left))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(format!("waiting: {error}")),
    }
}

/// How long a publisher may listen, and whether it comes back for every acknowledgement.
#[derive(Clone, Copy)]
struct Turn {
    until: u64,
    listens: bool,
}

/// The side that sends.
struct Sending<'a> {
    pacer: Pacer,
    publisher: &'a mut dyn Publisher,
    shared: &'a Shared<'a>,
    /// Nanoseconds before a message is due that it stays awake: to wake up takes longer than that.
    spin: u64,
    buffer: Vec<u8>,
    through: Vec<u32>,
}

impl<'a> Sending<'a> {
    fn new(pacer: Pacer, publisher: &'a mut dyn Publisher, shared: &'a Shared<'a>) -> Sending<'a> {
        // Where there is time between messages only.
        let spin = shared
            .plan
            .rate()
            .filter(|rate| *rate <= SPIN_RATE_MAX)
            .map_or(0, |_| SPIN);
        Sending {
            pacer,
            publisher,
            shared,
            spin,
            buffer: Vec::new(),
            through: Vec::new(),
        }
    }

    /// Gives what is due.
    fn give(&mut self) -> Result<Turn, Fault> {
        let Sending {
            pacer,
            publisher,
            shared,
            buffer,
            spin,
            ..
        } = self;
        let (layout, times) = (shared.plan.layout, shared.times);
        let mut is_full = false;
        let mut room = if pacer.is_flood() {
            shared.room(pacer.sent().all)
        } else {
            u64::MAX
        };
        let given = pacer.turn(&mut clock::now, &mut |item, now| {
            if room == 0 {
                is_full = true;
                return Ok(Gave::Full);
            }
            let header = Header {
                run: shared.run,
                flow: item.flow,
                seq: item.seq,
                intended: item.at,
                sent: now,
            };
            layout.write(&header, item.size as usize, buffer);
            if layout.needs_table(item.size as usize) {
                shared.table.put(&header);
            }
            let gave = publisher.publish(item.flow, buffer)?;
            is_full |= gave == Gave::Full;
            room -= u64::from(gave == Gave::Taken);
            Ok(gave)
        });
        given.map_err(publishing)?;
        let now = clock::now();
        let until = match pacer.is_flood() && now >= times.begin && now < times.end {
            true if is_full => now + FLOOD_LOOK,
            true => 0,
            false => pacer
                .next_at()
                .map_or(now + LOOK_UP, |at| at.saturating_sub(*spin))
                .min(now + LOOK_UP),
        };
        Ok(Turn {
            until,
            listens: is_full || pacer.awaits(),
        })
    }

    /// Sends it, listens, and keeps the books.
    fn hear(&mut self, turn: Turn, told: &Receiver<u32>) -> Result<(), Fault> {
        let Sending {
            pacer,
            publisher,
            shared,
            through,
            ..
        } = self;
        publisher
            .turn(turn.until, turn.listens, &mut |flow| through.push(flow))
            .map_err(publishing)?;
        let now = clock::now();
        match pacer.is_closed() {
            true => through
                .drain(..)
                .chain(told.try_iter())
                .for_each(|flow| pacer.through(flow, now)),
            false => through.clear(),
        }
        shared.sent.store(pacer.sent().all, Ordering::Release);
        if pacer.is_done(now) {
            shared
                .unsettled
                .store(publisher.unsettled(), Ordering::Release);
            shared.is_sent.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Until when it does not sleep, if something is due so soon.
    fn awake_until(&self) -> Option<u64> {
        let (now, due) = (clock::now(), self.pacer.next_at()?);
        (due > now && due - now <= self.spin).then_some(due)
    }
}

fn publishing(fault: Fault) -> Fault {
    format!("publishing: {fault}")
}

/// The side that receives.
struct Receiving<'a> {
    got: Got,
    subscriber: &'a mut dyn Subscriber,
    shared: &'a Shared<'a>,
    tell: Option<Sender<u32>>,
}

impl Receiving<'_> {
    /// Takes what is there, and waits for something until then if there is nothing.
    fn hear(&mut self, until: u64) -> Result<(), Fault> {
        let Receiving {
            got,
            subscriber,
            shared,
            tell,
        } = self;
        let (layout, run) = (shared.plan.layout, shared.run);
        let heard = subscriber.receive(until, &mut |message| {
            match layout.read(run, message.topic, message.payload, &shared.table) {
                Some(header) => {
                    let is_first =
                        got.came(message.copy, &header, message.payload.len(), message.at);
                    if let Some(tell) = tell.as_ref().filter(|_| is_first && message.copy == 0) {
                        // The sender outlives this thread.
                        let _ = tell.send(header.flow);
                    }
                }
                None => got.stranger(),
            }
        });
        shared.received.store(got.all, Ordering::Release);
        heard.map_err(|fault| format!("receiving: {fault}"))
    }
}

/// How often threads look whether it is over, nanoseconds.
pub const LOOK_UP: u64 = 20_000_000;
/// Bytes of payload of a flood under way at once.
const FLOOD_BYTES: u64 = 4 << 20;
/// Messages of a flood under way at once: a second of a broker that carries 40,000 a second.
const FLOOD_MESSAGES: u64 = 40_000;
/// However large they are.
const FLOOD_MESSAGES_MIN: u64 = 40;
/// How long a flood waits for room before it tries again, nanoseconds.
const FLOOD_LOOK: u64 = 1_000_000;
/// Nanoseconds before a message is due that the sender stays awake.
const SPIN: u64 = 60_000;
/// Messages a second up to which it does (at most an eighth of a core), and up to which one thread is enough for both sides.
const SPIN_RATE_MAX: f64 = 2000.0;
