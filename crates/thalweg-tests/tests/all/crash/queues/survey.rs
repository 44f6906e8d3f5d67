//! Checks after each start that all durable queues, exchanges and bindings exist, and transient ones do not.

use std::time::{Duration, Instant};

use super::amqp::{Amqp, Terms, Trouble};
use super::book::Wrong;
use super::stomp::Stomp;
use super::world::World;
use crate::crash::ledger;

const NOT_FOUND: u16 = 404;

/// The queue that is not durable, and the one that belongs to the surveyor's connection alone.
const TRANSIENT: &str = "transient";
const OWN: &str = "own";

/// A pause between two looks in one life of the broker.
const PAUSE: Duration = Duration::from_millis(40);

pub type Declare = fn(&mut Amqp) -> Result<(), Trouble>;

/// Objects that are declared durable once and must stay.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Queues, and where their dead letters go.
    pub queues: Vec<(&'static str, Option<&'static str>)>,
    /// Exchanges and their kinds.
    pub exchanges: Vec<(&'static str, &'static str)>,
    pub bindings: Vec<(&'static str, &'static str, &'static str)>,
    /// Durable subscriptions of STOMP, by destination.
    pub subscriptions: Vec<&'static str>,
    /// Whatever else is declared, before all of that.
    pub special: Option<Declare>,
}

impl Topology {
    fn declare(&self, amqp: &mut Amqp, world: &World) -> Result<(), Trouble> {
        if let Some(special) = self.special {
            special(amqp)?;
        }
        for destination in &self.subscriptions {
            let mut stomp = Stomp::open(world.stomp)?;
            stomp.consume(destination, 1)?;
            stomp.close();
        }
        for (name, dead) in &self.queues {
            amqp.declare_queue(name, Terms::Durable, *dead)?;
        }
        for (name, kind) in &self.exchanges {
            amqp.declare_exchange(name, kind, false)?;
        }
        self.bindings
            .iter()
            .try_for_each(|(exchange, queue, key)| amqp.bind(queue, exchange, key))
    }
}

/// Declares everything once, and then looks until the run is over.
pub fn survey(world: &World, topology: &Topology) {
    // In which lives the two queues that end were declared last.
    let mut declared = [0; 2];
    while !world.is_over() {
        let life = world.life();
        let Ok(mut amqp) = Amqp::open(world.amqp) else {
            std::thread::sleep(PAUSE / 4);
            continue;
        };
        if world.life() != life {
            continue;
        }
        let looked = if world.is_open() {
            look(world, topology, &mut amqp, &mut declared, life)
        } else {
            topology.declare(&mut amqp, world).map(|()| world.open())
        };
        match looked {
            Ok(()) => amqp.close(),
            Err(trouble) if World::is_end(&trouble) => {}
            Err(trouble) => {
                world.book().breach(
                    Wrong::Topology,
                    format!("the surveyor in life {life}: {trouble:?}"),
                );
                // So that all others can go on.
                let _ = topology.declare(&mut amqp, world);
            }
        }
        let until = Instant::now() + PAUSE;
        while Instant::now() < until && !world.is_over() {
            std::thread::sleep(PAUSE / 10);
        }
    }
    // Nothing may be left that the broker's books would count.
    if let Ok(mut amqp) = Amqp::open(world.amqp) {
        let _ = amqp.delete_queue(TRANSIENT);
        amqp.close();
    }
}

fn look(
    world: &World,
    topology: &Topology,
    amqp: &mut Amqp,
    declared: &mut [u32; 2],
    life: u32,
) -> Result<(), Trouble> {
    for (name, _) in &topology.queues {
        amqp.look(name)?;
    }
    for (name, kind) in &topology.exchanges {
        amqp.declare_exchange(name, kind, true)?;
    }
    for (exchange, _) in &topology.exchanges {
        look_at_bindings(world, topology, exchange, life);
    }
    for (at, (name, terms)) in [(TRANSIENT, Terms::Transient), (OWN, Terms::Exclusive)]
        .into_iter()
        .enumerate()
    {
        if declared[at] != 0 && declared[at] != life {
            match amqp.look(name) {
                Err(Trouble::Refused(NOT_FOUND, _)) => {}
                Err(trouble) if World::is_end(&trouble) => return Err(trouble),
                other => {
                    let story = format!(
                        "{name} of life {} is there in life {life}: {other:?}",
                        declared[at]
                    );
                    world.book().breach(Wrong::Topology, story);
                }
            }
        }
        if declared[at] != life {
            amqp.declare_queue(name, terms, None)?;
            amqp.publish("", name, b"what ends with its queue");
            amqp.look(name)?;
            declared[at] = life;
        }
    }
    Ok(())
}

fn look_at_bindings(world: &World, topology: &Topology, exchange: &str, life: u32) {
    let Some(list) = ledger::get(world.admin, &format!("/v1/exchanges?exchange={exchange}")) else {
        return;
    };
    if world.life() != life {
        return;
    }
    let text = list.to_string();
    for (_, queue, key) in topology.bindings.iter().filter(|(of, ..)| *of == exchange) {
        if !text.contains(&format!("$q/{queue}\"")) || !text.contains(&format!("\"{key}\"")) {
            let story =
                format!("{exchange} does not lead to {queue} by {key} in life {life}: {text}");
            world.book().breach(Wrong::Topology, story);
        }
    }
}
