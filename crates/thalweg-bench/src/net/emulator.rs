//! One direction of an emulated link, without I/O: what is lost, and when the rest comes out.

use std::collections::VecDeque;
use std::time::Duration;

use super::units::Loss;
use crate::cell::Link;
use crate::sim::random::Random;

/// What may wait for a link with a rate: 1,000 full frames, as long as Linux lets an interface's queue become.
pub const QUEUE_BYTES: u64 = 1000 * 1514;
/// How long a packet is held back for another one to overtake it.
pub const HELD_MAX: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub struct Pipe {
    link: Link,
    random: Random,
    /// Another stream, so that packets are lost by the same seed as without reordering and duplication.
    more: Random,
    /// When the sender's side has put the packets before on the wire.
    free_at: Duration,
    last_due: Duration,
    waiting: VecDeque<(Duration, Vec<u8>)>,
    /// One that is to be overtaken.
    held: Option<(Duration, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    came: u64,
    lost: u64,
}

impl Pipe {
    /// An empty one; the same seed loses the same packets.
    pub fn new(link: Link, seed: u64) -> Pipe {
        Pipe {
            link,
            random: Random::new(seed),
            more: Random::new(seed ^ 0x5EED_0DDE),
            free_at: Duration::ZERO,
            last_due: Duration::ZERO,
            waiting: VecDeque::new(),
            held: None,
            spare: Vec::new(),
            came: 0,
            lost: 0,
        }
    }

    /// A packet goes in at `now`.
    pub fn offer(&mut self, packet: &[u8], loss: Loss, now: Duration) {
        self.came += 1;
        // All are drawn for every packet, so that a loss that changes does not change what else happens.
        let (luck, lateness) = (self.random.unit(), self.random.unit());
        let (order, copies) = (self.more.unit(), self.more.unit());
        if luck < loss.part() || self.waiting.len() >= WAITING_MAX {
            self.lost += 1;
            return;
        }
        let Some(due) = self.passes(packet.len(), now, lateness) else {
            self.lost += 1;
            return;
        };
        // Only one is held at a time: the one behind it is not, so that it takes a larger share of those that may be.
        let part = self.link.reorder.min(0.5);
        if self.held.is_none() && order < part / (1.0 - part) {
            self.held = Some((due + HELD_MAX, self.copied(packet)));
        } else {
            self.push(due, packet);
            if let Some((_, overtaken)) = self.held.take() {
                self.waiting.push_back((due, overtaken));
            }
        }
        if copies < self.link.duplicate
            && let Some(due) = self.passes(packet.len(), now, lateness)
        {
            self.push(due, packet);
        }
    }

    /// When a packet will be through; None if there is no room for it.
    fn passes(&mut self, length: usize, now: Duration, lateness: f64) -> Option<Duration> {
        if let Some(rate) = self.link.rate {
            let time =
                |bytes: u64| Duration::from_secs_f64(bytes as f64 * 8.0 / rate.max(1) as f64);
            if self.free_at.saturating_sub(now) > time(QUEUE_BYTES) {
                return None;
            }
            self.free_at = self.free_at.max(now) + time(length as u64 + ETHERNET_HEADER);
        } else {
            self.free_at = now;
        }
        let jitter = Duration::from_nanos(self.link.jitter_ns).mul_f64(lateness);
        let delay = Duration::from_nanos(self.link.delay_ns);
        let due = (self.free_at + delay + jitter).max(self.last_due);
        self.last_due = due;
        Some(due)
    }

    fn push(&mut self, due: Duration, packet: &[u8]) {
        let copy = self.copied(packet);
        self.waiting.push_back((due, copy));
    }

    fn copied(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(packet);
        copy
    }

    /// When the next packet comes out.
    pub fn due(&self) -> Option<Duration> {
        let first = self.waiting.front().map(|(due, _)| *due);
        let held = self.held.as_ref().map(|(due, _)| *due);
        first.into_iter().chain(held).min()
    }

    /// Gives a packet that is due by `now` to `forward`; false if there is none.
    pub fn take(&mut self, now: Duration, forward: &mut dyn FnMut(&[u8])) -> bool {
        if self.due().is_none_or(|due| due > now) {
            return false;
        }
        let first = self.waiting.pop_front_if(|(due, _)| *due <= now);
        let Some((_, packet)) = first.or_else(|| self.held.take()) else {
            return false;
        };
        forward(&packet);
        if self.spare.len() < SPARE_MAX {
            self.spare.push(packet);
        }
        true
    }

    /// Packets that came, and those that were lost: by chance, or because too many waited.
    pub fn counts(&self) -> (u64, u64) {
        (self.came, self.lost)
    }
}

/// More than a second of small packets at the pace an emulator in user space holds; beyond, the tail is lost.
const WAITING_MAX: usize = 100_000;
const SPARE_MAX: usize = 1000;
const ETHERNET_HEADER: u64 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn pipe(seed: u64, change: impl Fn(&mut Link)) -> Pipe {
        let mut link = Link::LOOPBACK;
        change(&mut link);
        Pipe::new(link, seed)
    }

    fn drained(pipe: &mut Pipe) -> Vec<(Duration, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some(due) = pipe.due() {
            let early = due - Duration::from_nanos(1);
            assert!(!pipe.take(early, &mut |_| panic!("before its time")));
            assert!(pipe.take(due, &mut |packet| all.push((due, packet.to_vec()))));
        }
        all
    }

    #[test]
    fn a_packet_comes_out_whole_when_its_delay_is_over() {
        let mut pipe = pipe(1, |link| link.delay_ns = 50_000_000);
        pipe.offer(b"one", Loss::NONE, 5 * MS);
        pipe.offer(b"two", Loss::NONE, 7 * MS);
        let both = [(55 * MS, b"one".to_vec()), (57 * MS, b"two".to_vec())];
        assert_eq!(drained(&mut pipe), both);
    }

    #[test]
    fn a_rate_puts_packets_one_behind_the_other() {
        // 111 bytes and a header are 1,000 bits: 1 ms at 1 Mbit/s.
        let mut pipe = pipe(1, |link| {
            link.rate = Some(1_000_000);
            link.delay_ns = 10_000_000;
        });
        for _ in 0..3 {
            pipe.offer(&[0; 111], Loss::NONE, Duration::ZERO);
        }
        pipe.offer(&[0; 111], Loss::NONE, 20 * MS);
        let times: Vec<Duration> = drained(&mut pipe).into_iter().map(|(due, _)| due).collect();
        assert_eq!(times, [11 * MS, 12 * MS, 13 * MS, 31 * MS]);
    }

    #[test]
    fn jitter_stays_in_its_bounds_and_keeps_the_order() {
        let mut pipe = pipe(3, |link| {
            link.delay_ns = 50_000_000;
            link.jitter_ns = 20_000_000;
        });
        for number in 0..1000_u32 {
            pipe.offer(&number.to_be_bytes(), Loss::NONE, number * MS);
        }
        let all = drained(&mut pipe);
        for (number, (due, packet)) in (0..1000_u32).zip(&all) {
            assert_eq!(packet[..], number.to_be_bytes());
            // It may have waited behind an earlier one that was to be late, which was sent before.
            let times = number * MS + 50 * MS..number * MS + 70 * MS;
            assert!(times.contains(due), "{number}: {due:?}");
        }
    }

    #[test]
    fn loss_is_in_its_binomial_interval_and_the_same_for_the_same_seed() {
        for percent in [0, 5, 10, 15, 20, 25, 100] {
            let lost = |seed| {
                let mut pipe = Pipe::new(Link::LOOPBACK, seed);
                for _ in 0..100_000 {
                    pipe.offer(b"packet", Loss::percent(f64::from(percent)), Duration::ZERO);
                    while pipe.take(Duration::ZERO, &mut |_| {}) {}
                }
                assert_eq!(pipe.counts().0, 100_000);
                pipe.counts().1
            };
            let part = f64::from(percent) / 100.0;
            let spread = (100_000.0 * part * (1.0 - part)).sqrt();
            let off = (lost(7) as f64 - 100_000.0 * part).abs();
            assert!(
                off <= 2.576 * spread,
                "{percent} %: off by {off}, not {spread}"
            );
            assert_eq!(lost(7), lost(7));
        }
    }

    #[test]
    fn a_rate_has_room_for_a_thousand_full_frames() {
        let mut pipe = pipe(1, |link| link.rate = Some(10_000_000));
        for _ in 0..1500 {
            pipe.offer(&[0; 1500], Loss::NONE, Duration::ZERO);
        }
        // One more than a thousand: what is on the wire just now does not wait.
        let left = drained(&mut pipe).len();
        assert_eq!((pipe.counts(), left), ((1500, 499), 1001));
    }

    #[test]
    fn a_packet_that_is_overtaken_comes_right_behind_the_next() {
        let count = 100_000_u32;
        let order = |seed| {
            let mut pipe = pipe(seed, |link| {
                (link.reorder, link.delay_ns) = (0.1, 5_000_000)
            });
            for number in 0..count {
                pipe.offer(&number.to_be_bytes(), Loss::NONE, number * MS);
            }
            let number = |packet: &[u8]| u32::from_be_bytes(packet.try_into().expect("four bytes"));
            let all = drained(&mut pipe).into_iter();
            let numbers: Vec<u32> = all.map(|(_, packet)| number(&packet)).collect();
            numbers
        };
        let numbers = order(1);
        assert_eq!(numbers.len(), count as usize);
        let swapped = numbers.windows(2).filter(|pair| pair[0] == pair[1] + 1);
        let overtaken = swapped.count();
        let off = (overtaken as f64 - 10_000.0).abs();
        let spread = (100_000.0_f64 * 0.1 * 0.9).sqrt();
        assert!(off < 3.0 * spread, "{overtaken}");
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn a_packet_with_nothing_behind_it_is_not_held_for_ever() {
        let mut pipe = pipe(1, |link| link.reorder = 0.5);
        for number in 0..20 {
            let now = number * 100 * MS;
            pipe.offer(b"alone", Loss::NONE, now);
            let all = drained(&mut pipe);
            let in_time = (now..=now + HELD_MAX).contains(&all[0].0);
            assert!(all.len() == 1 && in_time, "{all:?}");
        }
    }

    #[test]
    fn copies_come_beside_what_they_are_copies_of_and_lose_nothing() {
        let lost = |part| {
            let mut pipe = pipe(9, |link| {
                (link.duplicate, link.delay_ns) = (part, 1_000_000)
            });
            for number in 0..10_000_u32 {
                pipe.offer(&number.to_be_bytes(), Loss::percent(10.0), Duration::ZERO);
            }
            (pipe.counts(), drained(&mut pipe))
        };
        let ((came, gone), all) = lost(0.05);
        let doubled = all.windows(2).filter(|pair| pair[0].1 == pair[1].1).count() as u64;
        assert_eq!(all.len() as u64, came - gone + doubled);
        assert!((350..550).contains(&doubled), "{doubled}");
        assert_eq!(lost(0.0).0, (came, gone), "the same packets are lost");
    }
}
