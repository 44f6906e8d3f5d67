//! The two sides of a run: one gives messages to a publisher when they are due, one takes what a subscriber has. Each has a
//! thread; where little is sent, both have one.

use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

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
    /// Messages of a flood that may be under way at most; none where the receiver is another process.
    window_max: Option<u64>,
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
    trouble: OnceLock<(u64, Fault)>,
}

impl<'a> Shared<'a> {
    /// Of a run that begins.
    pub fn new(plan: &'a Plan, run: u32, copies: u32, times: Times) -> Shared<'a> {
        Shared {
            plan,
            run,
            copies,
            window_max: None,
            times,
            table: SideTable::default(),
            is_over: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            unsettled: AtomicU64::new(0),
            is_sent: AtomicBool::new(false),
            trouble: OnceLock::new(),
        }
    }

    /// The same, whose flood is ahead of its receivers by [`FLOOD_AHEAD`] at most, and never by more than [`FLOOD_BYTES`] and
    /// [`FLOOD_MESSAGES`]: what a broker queues behind that would be counted as lost when the trial ends, or be measured as
    /// its latency.
    pub fn bounded(self) -> Shared<'a> {
        let most = FLOOD_BYTES
            .checked_div(self.plan.sizes.mean() * u64::from(self.copies.max(1)))
            .unwrap_or(FLOOD_MESSAGES);
        Shared {
            window_max: Some(most.clamp(FLOOD_MESSAGES_MIN, FLOOD_MESSAGES)),
            ..self
        }
    }

    /// Messages that have come to all of their subscribers, on average.
    fn came(&self) -> u64 {
        self.received.load(Ordering::Acquire) / u64::from(self.copies.max(1))
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
        self.trouble.get_or_init(|| (clock::now(), fault));
    }

    /// What went wrong, and when.
    pub fn trouble(&self) -> Option<&(u64, Fault)> {
        self.trouble.get()
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

/// How far a flood may be ahead of its receivers: by what they took in the last [`FLOOD_AHEAD`]. A broker that is slow gets
/// less at once, so that what was sent in the measured phase comes before the end of the drain whatever its rate is.
#[derive(Debug)]
struct Valve {
    window: u64,
    most: u64,
    since: u64,
    came: u64,
}

impl Valve {
    fn new(most: u64, now: u64) -> Valve {
        Valve {
            window: FLOOD_FIRST.min(most),
            most,
            since: now,
            came: 0,
        }
    }

    /// Messages that may be sent now, `sent` and `came` being all so far.
    fn room(&mut self, now: u64, sent: u64, came: u64) -> u64 {
        let lasted = now.saturating_sub(self.since);
        if lasted >= FLOOD_AHEAD {
            let of_it = came.saturating_sub(self.came) as f64 * FLOOD_AHEAD as f64 / lasted as f64;
            self.window = (of_it as u64).clamp(FLOOD_MESSAGES_MIN, self.most);
            (self.since, self.came) = (now, came);
        }
        self.window.saturating_sub(sent.saturating_sub(came))
    }
}

/// The side that sends.
struct Sending<'a> {
    pacer: Pacer,
    publisher: &'a mut dyn Publisher,
    shared: &'a Shared<'a>,
    /// Nanoseconds before a message is due that it stays awake: to wake up takes longer than that.
    spin: u64,
    /// Of a flood whose receivers are in this process.
    valve: Option<Valve>,
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
        let valve = shared
            .window_max
            .filter(|_| pacer.is_flood())
            .map(|most| Valve::new(most, shared.times.begin));
        Sending {
            pacer,
            publisher,
            shared,
            spin,
            valve,
            // Of a payload of the same size only the header is written.
            buffer: shared.plan.body.as_deref().unwrap_or_default().to_vec(),
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
            valve,
            ..
        } = self;
        let (layout, times) = (shared.plan.layout, shared.times);
        let mut is_full = false;
        let mut room = valve.as_mut().map_or(u64::MAX, |valve| {
            valve.room(clock::now(), pacer.sent().all, shared.came())
        });
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
            room = room.saturating_sub(u64::from(gave == Gave::Taken));
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
/// Bytes of payload of a flood under way at once, to all subscribers together.
const FLOOD_BYTES: u64 = 4 << 20;
/// Messages of a flood under way at once.
const FLOOD_MESSAGES: u64 = 40_000;
/// The same, before it is known how quick the broker is.
const FLOOD_FIRST: u64 = 1000;
/// How far a flood may be ahead of its receivers, nanoseconds.
const FLOOD_AHEAD: u64 = 250_000_000;
/// However large messages are, and however slow the broker is.
const FLOOD_MESSAGES_MIN: u64 = 10;
/// How long a flood waits for room before it tries again, nanoseconds.
const FLOOD_LOOK: u64 = 1_000_000;
/// Nanoseconds before a message is due that the sender stays awake.
const SPIN: u64 = 60_000;
/// Messages a second up to which it does (at most an eighth of a core), and up to which one thread is enough for both sides.
const SPIN_RATE_MAX: f64 = 2000.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// What a broker of so many messages a second has under way after some seconds of a flood, and the most of it.
    fn under_way(per_s: u64, most: u64) -> (u64, u64) {
        const STEP: u64 = 1_000_000;
        let mut valve = Valve::new(most, 0);
        let (mut sent, mut came, mut top) = (0_u64, 0.0_f64, 0);
        for step in 0..5_000 {
            sent += valve.room(step * STEP, sent, came as u64);
            top = top.max(sent - came as u64);
            came = (came + per_s as f64 / 1000.0).min(sent as f64);
        }
        (sent - came as u64, top)
    }

    #[test]
    fn a_flood_is_ahead_by_a_quarter_of_a_second_however_quick_the_broker_is() {
        let (of_slow, top) = under_way(4_000, 40_000);
        assert!((900..=1_100).contains(&of_slow), "{of_slow}");
        assert!(top <= 1_100, "{top}");
        let (of_quick, _) = under_way(100_000, 40_000);
        assert!((24_000..=26_000).contains(&of_quick), "{of_quick}");
        // What is quicker than this tool is bounded by the books.
        assert!(under_way(10_000_000, 40_000).1 <= 40_000);
        // A broker that does nothing for a while is asked again.
        assert_eq!(under_way(20, 70).0, FLOOD_MESSAGES_MIN);
    }
}
