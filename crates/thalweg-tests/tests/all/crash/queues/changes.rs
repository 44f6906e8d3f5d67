//! One who makes, fills, empties, binds and deletes queues, and knows after each start what must be there: what was
//! answered has happened, what was not may have.

use std::time::{Duration, Instant};

use super::amqp::{Amqp, CONFIRM_SELECT, Event, Terms, Trouble};
use super::book::Wrong;
use super::publishers::Way;
use super::world::{ANSWERED_WITHIN, World};
use crate::crash::luck::Luck;

const NAMES: [&str; 4] = ["change-0", "change-1", "change-2", "change-3"];
const EXCHANGE: &str = "events";
const NOT_FOUND: u16 = 404;

/// A queue: nothing, or how many messages wait and whether the exchange leads to it.
type State = Option<(u32, bool)>;

/// Properties of a queue that may vary.
type Possible = Vec<State>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Declare,
    Delete,
    Purge,
    Fill(u32),
    Bind,
    Unbind,
}

impl Change {
    /// Result of a change; `None` if this queue does not allow it.
    fn of(self, state: State) -> Option<State> {
        let (count, bound) = state.unwrap_or_default();
        match self {
            Change::Declare => state.is_none().then_some(Some((0, false))),
            _ if state.is_none() => None,
            Change::Delete => Some(None),
            Change::Purge => Some(Some((0, bound))),
            Change::Fill(more) => Some(Some((count + more, bound))),
            Change::Bind => Some(Some((count, true))),
            Change::Unbind => Some(Some((count, false))),
        }
    }
}

pub fn changer(world: &World, who: &str, _: &[Way], mut luck: Luck) {
    let mut possible: [Possible; NAMES.len()] = std::array::from_fn(|_| vec![None]);
    while !world.is_at_rest() {
        let open = || {
            let mut amqp = Amqp::open(world.amqp)?;
            amqp.call(CONFIRM_SELECT)?;
            Ok(amqp)
        };
        let Some((amqp, tie)) = world.connect(who, open) else {
            continue;
        };
        let ended = change_all(world, amqp, &mut possible, &mut luck);
        world.disconnected(who, tie, ended);
    }
    // Nothing may be left that the broker's books would count.
    if let Ok(mut amqp) = Amqp::open(world.amqp) {
        for name in NAMES {
            let _ = amqp.delete_queue(name);
        }
        amqp.close();
    }
}

fn change_all(
    world: &World,
    mut amqp: Amqp,
    possible: &mut [Possible; NAMES.len()],
    luck: &mut Luck,
) -> Result<(), Trouble> {
    let mut tag = 0;
    for (name, states) in NAMES.into_iter().zip(possible.iter_mut()) {
        check(world, &mut amqp, name, states, &mut tag)?;
    }
    while !world.is_at_rest() {
        let at = luck.below(NAMES.len());
        let state = possible[at][0];
        let more = 1 + luck.below(20) as u32;
        let changes = [
            Change::Declare,
            Change::Delete,
            Change::Purge,
            Change::Fill(more),
            Change::Fill(1),
            Change::Bind,
            Change::Unbind,
        ];
        let change = changes[luck.below(changes.len())];
        let Some(after) = change.of(state) else {
            continue;
        };
        // Until the answer is there, and if it never comes.
        let steps = if let Change::Fill(more) = change {
            more
        } else {
            1
        };
        let between = (1..steps).filter_map(|part| Change::Fill(part).of(state));
        possible[at] = std::iter::once(state)
            .chain(between)
            .chain([after])
            .collect();
        world.book().note(
            "changer",
            format_args!("> {change:?} {} {state:?}", NAMES[at]),
        );
        perform(&mut amqp, NAMES[at], change, &mut tag)?;
        world.book().note(
            "changer",
            format_args!("done {change:?} {} {after:?}", NAMES[at]),
        );
        possible[at] = vec![after];
        if luck.chance(0.1) {
            check(world, &mut amqp, NAMES[at], &mut possible[at], &mut tag)?;
        }
        std::thread::sleep(Duration::from_secs_f64(luck.between((0.0, 0.006))));
    }
    amqp.close();
    Ok(())
}

fn perform(amqp: &mut Amqp, name: &str, change: Change, tag: &mut u64) -> Result<(), Trouble> {
    match change {
        Change::Declare => amqp.declare_queue(name, Terms::Durable, None),
        Change::Delete => amqp.delete_queue(name),
        Change::Purge => amqp.purge_queue(name),
        Change::Bind => amqp.bind(name, EXCHANGE, name),
        Change::Unbind => amqp.unbind(name, EXCHANGE, name),
        Change::Fill(more) => {
            (0..more).for_each(|_| amqp.publish("", name, b"one of many"));
            *tag += u64::from(more);
            confirmed(amqp, *tag).map(drop)
        }
    }
}

/// Waits for all confirmations up to this. Whether a message came back.
fn confirmed(amqp: &mut Amqp, tag: u64) -> Result<bool, Trouble> {
    let until = Instant::now() + ANSWERED_WITHIN;
    let mut returned = false;
    loop {
        match amqp.event(until.saturating_duration_since(Instant::now()))? {
            Some(Event::Ack(up_to, _)) if up_to >= tag => return Ok(returned),
            Some(Event::Returned(_)) => returned = true,
            Some(_) => {}
            None => return Err(Trouble::Silent),
        }
    }
}

/// Checks that a queue is in one of the allowed states.
fn check(
    world: &World,
    amqp: &mut Amqp,
    name: &str,
    states: &mut Possible,
    tag: &mut u64,
) -> Result<(), Trouble> {
    let state = match amqp.look(name) {
        Ok(count) => {
            // A message shows the exchange's bindings; it stays in the queue if it arrives. Whether it did is unknown
            // until it is confirmed.
            let with_probe = states
                .iter()
                .flatten()
                .filter(|(known, bound)| *known == count && *bound);
            let with_probe: Vec<State> = with_probe
                .map(|(count, bound)| Some((count + 1, *bound)))
                .collect();
            states.extend(with_probe);
            amqp.publish(EXCHANGE, name, b"a probe");
            *tag += 1;
            let returned = confirmed(amqp, *tag)?;
            Some((count, !returned))
        }
        Err(Trouble::Refused(NOT_FOUND, _)) => {
            // The channel is a new one.
            amqp.call(CONFIRM_SELECT)?;
            *tag = 0;
            None
        }
        Err(trouble) => return Err(trouble),
    };
    let mut book = world.book();
    book.note("changer", format_args!("{name} is {state:?}"));
    if !states.contains(&state) {
        book.breach(
            Wrong::Topology,
            format!("{name} is {state:?} where it may be {states:?} (messages, bound)"),
        );
    }
    *states = vec![state.map(|(count, bound)| (count + u32::from(bound), bound))];
    Ok(())
}
