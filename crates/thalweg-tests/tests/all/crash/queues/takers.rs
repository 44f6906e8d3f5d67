//! Those who take messages out of queues: pushed to them or one by one, with AMQP or STOMP, accepting, rejecting, giving
//! back, and moving on to another queue in transactions.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::amqp::{Amqp, Delivery, Event, TX_COMMIT, TX_ROLLBACK, TX_SELECT, Trouble};
use super::book::{Mark, Tie, Verdict, Wrong, is_rough};
use super::publishers::Mqtt;
use super::stomp::Stomp;
use super::world::World;
use crate::conformance::packet::{self, Packet, Version};
use crate::crash::luck::Luck;

const LISTENING: Duration = Duration::from_millis(4);

/// After so many settlements a round trip shows that they were taken.
const PROVEN_AFTER: usize = 15;

/// Access refused: another client has the queue exclusively.
const ACCESS_REFUSED: u16 = 403;

/// How a consumer gets its messages.
#[derive(Clone, Debug)]
pub struct Manner {
    pub who: &'static str,
    pub queue: usize,
    pub name: &'static str,
    pub prefetch: u16,
    /// Alone, and it gives nothing back: so everything comes in order.
    pub alone: bool,
    /// Rejects each rough message.
    pub rejects: bool,
    /// Probability that it requeues a new message.
    pub requeues: f64,
    /// How long it stays and stays away, in seconds.
    pub stays: (f64, f64),
    pub away: (f64, f64),
}

impl Manner {
    fn verdict(&self, mark: Mark, redelivered: bool, luck: &mut Luck) -> Verdict {
        if self.rejects && is_rough(mark) {
            Verdict::Reject
        } else if !redelivered && luck.chance(self.requeues) {
            Verdict::Requeue
        } else {
            Verdict::Accept
        }
    }

    fn leaves(&self, luck: &mut Luck) -> Instant {
        Instant::now() + Duration::from_secs_f64(luck.between(self.stays))
    }

    fn stay_away(&self, world: &World, luck: &mut Luck) {
        let until = Instant::now() + Duration::from_secs_f64(luck.between(self.away));
        while Instant::now() < until && !world.is_at_rest() {
            std::thread::sleep(LISTENING);
        }
    }

    fn is_leaving(&self, world: &World, leaves: Instant) -> bool {
        world.is_over() || (!world.is_at_rest() && Instant::now() >= leaves)
    }
}

/// Messages that a consumer has, and settlements that are not proven.
struct Hand<'a> {
    world: &'a World,
    manner: &'a Manner,
    tie: Tie,
    /// In their order: when to settle them, and how.
    held: VecDeque<(Instant, String, Mark, Verdict)>,
    unproven: Vec<Mark>,
    leaves: Instant,
}

impl Hand<'_> {
    fn take(&mut self, name: String, redelivered: bool, payload: &[u8], luck: &mut Luck) {
        let Manner {
            who, queue, alone, ..
        } = *self.manner;
        let mut book = self.world.book();
        let mark = if alone {
            book.hear_in_order(who, queue, self.tie, redelivered, payload)
        } else {
            book.hear(who, queue, self.tie, redelivered, payload)
        };
        let Some(mark) = mark else { return };
        let verdict = self.manner.verdict(mark, redelivered, luck);
        // Most are settled at once; some are kept a while, so that a kill finds them here.
        let delay = if luck.chance(0.03) {
            luck.between((0.0, 0.15))
        } else {
            0.0
        };
        self.held.push_back((
            Instant::now() + Duration::from_secs_f64(delay),
            name,
            mark,
            verdict,
        ));
    }

    /// The next whose time has come; the book knows that it is settled.
    fn settle(&mut self) -> Option<(String, Verdict)> {
        let (due, ..) = self.held.front()?;
        if *due > Instant::now() && !self.world.is_at_rest() {
            return None;
        }
        let (_, name, mark, verdict) = self.held.pop_front()?;
        self.world
            .book()
            .settling(self.manner.who, self.manner.queue, mark, verdict);
        if verdict != Verdict::Requeue {
            self.unproven.push(mark);
        }
        Some((name, verdict))
    }

    fn proven(&mut self) {
        let marks = std::mem::take(&mut self.unproven);
        self.world
            .book()
            .taken(self.manner.who, self.manner.queue, &marks, self.tie.life);
    }
}

fn hand<'a>(world: &'a World, manner: &'a Manner, tie: Tie, luck: &mut Luck) -> Hand<'a> {
    Hand {
        world,
        manner,
        tie,
        held: VecDeque::new(),
        unproven: Vec::new(),
        leaves: manner.leaves(luck),
    }
}

pub fn pushed(world: &World, manner: &Manner, mut luck: Luck) {
    while !world.is_over() {
        let open = || {
            let mut amqp = Amqp::open(world.amqp)?;
            match amqp.consume(manner.name, manner.prefetch, manner.alone) {
                // Its last connection is not known to be gone.
                Err(Trouble::Refused(ACCESS_REFUSED, _)) if manner.alone => Err(Trouble::Gone),
                other => other.map(|()| amqp),
            }
        };
        let Some((amqp, tie)) = world.connect(manner.who, open) else {
            continue;
        };
        let ended = take_pushed(hand(world, manner, tie, &mut luck), amqp, &mut luck);
        world.disconnected(manner.who, tie, ended);
        manner.stay_away(world, &mut luck);
    }
}

fn take_pushed(mut hand: Hand, mut amqp: Amqp, luck: &mut Luck) -> Result<(), Trouble> {
    while !hand.manner.is_leaving(hand.world, hand.leaves) {
        let mut patience = LISTENING;
        while let Some(event) = amqp.event(patience)? {
            patience = Duration::ZERO;
            match event {
                Event::Deliver(Delivery {
                    tag,
                    redelivered,
                    body,
                    ..
                }) => {
                    hand.take(tag.to_string(), redelivered, &body, luck);
                }
                other => hand
                    .world
                    .book()
                    .breach(Wrong::Refused, format!("{} got {other:?}", hand.manner.who)),
            }
        }
        // Accepted ones in a row are sometimes settled together.
        let mut row: Option<u64> = None;
        let together = luck.chance(0.5);
        while let Some((name, verdict)) = hand.settle() {
            let tag: u64 = name.parse().expect("we wrote it");
            match verdict {
                Verdict::Accept if together => row = Some(tag),
                Verdict::Accept => amqp.ack(tag, false),
                _ => {
                    row.take().into_iter().for_each(|tag| amqp.ack(tag, true));
                    amqp.reject(tag, verdict == Verdict::Requeue);
                }
            }
        }
        row.into_iter().for_each(|tag| amqp.ack(tag, true));
        if hand.unproven.len() >= PROVEN_AFTER
            || (hand.world.is_at_rest() && !hand.unproven.is_empty())
        {
            amqp.look(hand.manner.name)?;
            hand.proven();
        }
    }
    hand.world.book().disconnected(hand.tie);
    if luck.chance(0.4) {
        amqp.close()
    } else {
        amqp.drop_dead()
    }
    Ok(())
}

/// AMQP, one by one.
pub fn asked_for(world: &World, manner: &Manner, mut luck: Luck) {
    while !world.is_over() {
        let Some((amqp, tie)) = world.connect(manner.who, || Amqp::open(world.amqp)) else {
            continue;
        };
        let ended = take_asked_for(hand(world, manner, tie, &mut luck), amqp, &mut luck);
        world.disconnected(manner.who, tie, ended);
        manner.stay_away(world, &mut luck);
    }
}

fn take_asked_for(mut hand: Hand, mut amqp: Amqp, luck: &mut Luck) -> Result<(), Trouble> {
    while !hand.manner.is_leaving(hand.world, hand.leaves) {
        match amqp.get(hand.manner.name)? {
            Some(Delivery {
                tag,
                redelivered,
                body,
                ..
            }) => hand.take(tag.to_string(), redelivered, &body, luck),
            None => std::thread::sleep(LISTENING),
        }
        while let Some((name, verdict)) = hand.settle() {
            let tag: u64 = name.parse().expect("we wrote it");
            match verdict {
                Verdict::Accept => amqp.ack(tag, false),
                _ => amqp.reject(tag, verdict == Verdict::Requeue),
            }
        }
        if hand.unproven.len() >= PROVEN_AFTER {
            amqp.look(hand.manner.name)?;
            hand.proven();
        }
    }
    hand.world.book().disconnected(hand.tie);
    if luck.chance(0.4) {
        amqp.close()
    } else {
        amqp.drop_dead()
    }
    Ok(())
}

/// STOMP, `client-individual`.
pub fn by_stomp(world: &World, manner: &Manner, mut luck: Luck) {
    while !world.is_over() {
        let open = || {
            let mut stomp = Stomp::open(world.stomp)?;
            stomp.consume(manner.name, u32::from(manner.prefetch))?;
            Ok(stomp)
        };
        let Some((stomp, tie)) = world.connect(manner.who, open) else {
            continue;
        };
        let ended = take_by_stomp(hand(world, manner, tie, &mut luck), stomp, &mut luck);
        world.disconnected(manner.who, tie, ended);
        manner.stay_away(world, &mut luck);
    }
}

fn take_by_stomp(mut hand: Hand, mut stomp: Stomp, luck: &mut Luck) -> Result<(), Trouble> {
    while !hand.manner.is_leaving(hand.world, hand.leaves) {
        let mut patience = LISTENING;
        while let Some(frame) = stomp.message(patience)? {
            patience = Duration::ZERO;
            hand.take(
                frame.header("ack").to_owned(),
                frame.redelivered(),
                &frame.body,
                luck,
            );
        }
        while let Some((name, verdict)) = hand.settle() {
            match verdict {
                Verdict::Accept if hand.unproven.len() >= PROVEN_AFTER => {
                    stomp.call("ACK", &[("id", &name)], b"")?;
                    hand.proven();
                }
                Verdict::Accept => stomp.ack(&name),
                _ => stomp.reject(&name, verdict == Verdict::Requeue),
            }
        }
    }
    hand.world.book().disconnected(hand.tie);
    if luck.chance(0.4) {
        stomp.close()
    } else {
        stomp.drop_dead()
    }
    Ok(())
}

/// MQTT, as a member of a group that takes from the queue, with a session that outlives its connection. MQTT does not
/// mark earlier deliveries to others, and keeps no order there.
pub fn by_mqtt(world: &World, manner: &Manner, mut luck: Luck) {
    while !world.is_over() {
        let open = || {
            let mut mqtt = Mqtt::open(
                world,
                &packet::Connect::new(Version::V311, manner.who).clean(false),
            )?;
            let filter = format!("$share/group/$q/{}", manner.name);
            mqtt.send(&packet::subscribe(Version::V311, 1, &[], &[(&filter, 1)]));
            Ok(mqtt)
        };
        let Some((mqtt, tie)) = world.connect(manner.who, open) else {
            continue;
        };
        let ended = take_by_mqtt(hand(world, manner, tie, &mut luck), mqtt, &mut luck);
        world.disconnected(manner.who, tie, ended);
        manner.stay_away(world, &mut luck);
    }
}

fn take_by_mqtt(mut hand: Hand, mut mqtt: Mqtt, luck: &mut Luck) -> Result<(), Trouble> {
    // State that a PINGRESP will confirm.
    let mut asked = Vec::new();
    while !hand.manner.is_leaving(hand.world, hand.leaves) {
        let mut patience = LISTENING;
        while let Some(packet) = mqtt.packet(patience)? {
            patience = Duration::ZERO;
            match packet {
                Packet::Publish(message) if message.qos != 1 => {
                    let story = format!(
                        "{}: QoS {}, dup {}, of a subscription to QoS 1",
                        hand.manner.who, message.qos, message.dup
                    );
                    hand.world.book().breach(Wrong::Refused, story);
                }
                Packet::Publish(message) => {
                    hand.take(message.id.to_string(), true, &message.payload, luck)
                }
                Packet::Pingresp => {
                    let marks = std::mem::take(&mut asked);
                    hand.world.book().taken(
                        hand.manner.who,
                        hand.manner.queue,
                        &marks,
                        hand.tie.life,
                    );
                }
                Packet::Suback { codes, .. } if codes == [1] => {}
                other => hand
                    .world
                    .book()
                    .breach(Wrong::Refused, format!("{} got {other:?}", hand.manner.who)),
            }
        }
        while let Some((name, _)) = hand.settle() {
            mqtt.send(&packet::ack(
                packet::PUBACK,
                name.parse().expect("we wrote it"),
            ));
        }
        if asked.is_empty() && hand.unproven.len() >= PROVEN_AFTER {
            asked = std::mem::take(&mut hand.unproven);
            mqtt.send(&packet::pingreq());
        }
    }
    hand.world.book().disconnected(hand.tie);
    if luck.chance(0.4) {
        mqtt.send(&packet::disconnect());
    }
    Ok(())
}

/// Takes from one queue and puts into another, both in one transaction; without another it only settles in it.
pub fn mover(world: &World, manner: &Manner, to: Option<&'static str>, mut luck: Luck) {
    while !world.is_over() {
        let open = || {
            let mut amqp = Amqp::open(world.amqp)?;
            amqp.call(TX_SELECT)?;
            amqp.consume(manner.name, manner.prefetch, false)?;
            Ok(amqp)
        };
        let Some((amqp, tie)) = world.connect(manner.who, open) else {
            continue;
        };
        let ended = move_all(hand(world, manner, tie, &mut luck), amqp, to, &mut luck);
        world.disconnected(manner.who, tie, ended);
        manner.stay_away(world, &mut luck);
    }
}

fn move_all(hand: Hand, mut amqp: Amqp, to: Option<&str>, luck: &mut Luck) -> Result<(), Trouble> {
    let Manner { who, queue, .. } = *hand.manner;
    while !hand.manner.is_leaving(hand.world, hand.leaves) {
        let mut taken = Vec::new();
        let count = 1 + luck.below(6);
        while taken.len() < count {
            let Some(event) = amqp.event(LISTENING)? else {
                break;
            };
            let mut book = hand.world.book();
            match event {
                Event::Deliver(Delivery {
                    tag,
                    redelivered,
                    body,
                    ..
                }) => {
                    taken.extend(
                        book.hear(who, queue, hand.tie, redelivered, &body)
                            .map(|mark| (tag, mark, body)),
                    );
                }
                other => book.breach(Wrong::Refused, format!("{who} got {other:?}")),
            }
        }
        if taken.is_empty() {
            continue;
        }
        let put = |amqp: &mut Amqp| {
            for (tag, _, body) in &taken {
                to.into_iter().for_each(|to| amqp.publish("", to, body));
                amqp.ack(*tag, false);
            }
        };
        if luck.chance(0.1) {
            put(&mut amqp);
            amqp.call(TX_ROLLBACK)?;
        }
        put(&mut amqp);
        let marks: Vec<Mark> = taken.iter().map(|(_, mark, _)| *mark).collect();
        for mark in &marks {
            hand.world
                .book()
                .settling(who, queue, *mark, Verdict::Accept);
        }
        amqp.call(TX_COMMIT)?;
        hand.world.book().sealed(who, queue, &marks);
    }
    hand.world.book().disconnected(hand.tie);
    if luck.chance(0.4) {
        amqp.close()
    } else {
        amqp.drop_dead()
    }
    Ok(())
}
