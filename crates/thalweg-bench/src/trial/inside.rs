//! A trial whose clients are threads of this process.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;

use super::meters::{Metered, Threads, Watch};
use super::pump::{Shared, is_for_one, receive, send, send_and_receive};
use super::{Played, Stage, before};
use crate::cell::Link;
use crate::drivers::bare::Idle;
use crate::drivers::{self, Fault};
use crate::load::{Books, Got, Times, clock};

/// Connects, settles, measures, drains.
pub fn play(stage: &Stage<'_>, others: &BTreeSet<u32>) -> Result<Played, Fault> {
    let Stage { cell, job, .. } = stage;
    let begun = clock::now();
    let idle = Idle::connect(job, cell.extras.idle)?;
    let idled = clock::now();
    let before = before::play(stage)?;
    let connecting = clock::now();
    let mut subscriber = drivers::subscriber(cell.driver, job)?;
    let subscribed = clock::now();
    let mut publisher = drivers::publisher(cell.driver, job)?;
    let connected = clock::now();
    clock::wait(connected + cell.phases.settle_ns, stage.stop);

    let times = Times::new(clock::now() + HEAD_START, &cell.phases);
    let shared = Shared::new(stage.plan, job.run, cell.copies(), times).bounded();
    let pacer = stage.plan.pacer(times, None);
    let books = Got::new(times, job.flows, cell.copies()).beside(stage.plan.beside(times));
    // A closed loop at most once goes on when the message has come to its first subscriber.
    let (tell, told) = channel();
    let tell = (pacer.is_closed() && job.publish.qos == 0).then_some(tell);
    let threads = Threads::since(others, stage.network.is_some());
    let (of_sender, of_receiver, ours) = (publisher.as_mut(), subscriber.as_mut(), &shared);
    let (sent, got, (metered, ended)) = thread::scope(|scope| {
        let panicked = |_| "a thread of the trial panicked".to_owned();
        let (watched, sent, got);
        if is_for_one(stage.plan, job.copies, of_sender, of_receiver) {
            let both =
                scope.spawn(move || send_and_receive(pacer, of_sender, books, of_receiver, ours));
            watched = watch(stage, ours, threads);
            shared.end();
            (sent, got) = both.join().map_err(panicked)?;
        } else {
            let sending = scope.spawn(move || send(pacer, of_sender, ours, &told, &mut |_| {}));
            let receiving =
                scope.spawn(move || receive(books, of_receiver, ours, tell, &mut |_| {}));
            watched = watch(stage, ours, threads);
            shared.end();
            (sent, got) = (
                sending.join().map_err(panicked)?,
                receiving.join().map_err(panicked)?,
            );
        }
        Ok::<_, Fault>((sent, got, watched))
    })?;
    let mut counts = vec![
        ("subscribe_us", (subscribed - connecting) as f64 / 1e3),
        ("connect_us", (connected - subscribed) as f64 / 1e3),
    ];
    if cell.extras.idle > 0 {
        let seconds = (idled - begun).max(1) as f64 / 1e9;
        counts.push(("idle_connections", idle.open() as f64));
        counts.push(("idle_connects_per_s", f64::from(cell.extras.idle) / seconds));
    }
    counts.extend(before);
    counts.extend(publisher.counts());
    counts.extend(subscriber.counts());
    let trouble = shared.trouble();
    let phase = |at: u64, words: &str| (at.saturating_sub(times.begin), words.to_owned());
    let mut events = vec![
        phase(times.begin, "the warm-up begins"),
        phase(times.measure, "the measured phase begins"),
        phase(times.end, "the drain begins"),
        phase(ended, "the drain is over"),
    ];
    events.extend(trouble.map(|(at, words)| phase(*at, words)));
    Ok(Played {
        books: Books { sent, got },
        times,
        metered,
        unacknowledged: if job.publish.qos > 0 {
            publisher.unacknowledged()
        } else {
            0
        },
        overflow: subscriber.overflow(),
        counts,
        events,
        interrupted: stage
            .stop
            .load(Ordering::Relaxed)
            .then_some(ended)
            .filter(|_| !shared.is_complete()),
        trouble: trouble
            .map(|(_, words)| words.clone())
            .or_else(|| subscriber.objection()),
    })
}

/// This thread: meters each second, until all has come or the drain is over. Returns when that was, too.
fn watch(stage: &Stage<'_>, shared: &Shared<'_>, threads: Threads) -> (Metered, u64) {
    let mut watch = Watch::new(stage, threads, shared.times);
    let mut complete_since = None;
    let linger = linger(&stage.cell.link);
    let ended = loop {
        let now = watch.look();
        let is_stopped = stage.stop.load(Ordering::Relaxed) || shared.trouble().is_some();
        if is_stopped || now >= shared.times.give_up {
            break now;
        }
        if now >= shared.times.end && shared.is_complete() {
            // Something that comes again is to be seen.
            if now >= *complete_since.get_or_insert(now) + linger {
                break now;
            }
        } else {
            complete_since = None;
        }
        clock::sleep_until(watch.look_at(now));
    };
    (watch.end(ended, "self"), ended)
}

/// How long is waited for more after everything has come.
fn linger(link: &Link) -> u64 {
    let base = if link.loss > 0.0 {
        LINGER_LOSSY
    } else {
        LINGER
    };
    base + 4 * (link.delay_ns + link.jitter_ns)
}

/// Between the moment at which threads are started and the beginning of the warm-up, nanoseconds.
const HEAD_START: u64 = 100_000_000;
const LINGER: u64 = 100_000_000;
const LINGER_LOSSY: u64 = 1_000_000_000;
