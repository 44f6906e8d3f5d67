//! The energy of a message: **modelled** from processor time, frames and bytes that were measured. No joule is measured.
//!
//! ```text
//!  E = P_cpu · t_cpu · factor  +  Σ frames (b_direction + m_direction · bytes)  +  T_tail · P_tail per awakening
//! ```
//!
//! Coefficients are those of a [`Profile`], with their sources. Frames count as well as bytes: in 802.11 the frame costs
//! more than what is in it, so the pure acknowledgements of TCP decide. As coefficients are uncertain, a rank is told with
//! whether it stays when any of them is half or twice as large.
//!
//! *Knows:* cells, rows, published coefficients. *Must never know:* how anything was measured.

mod profiles;

pub use profiles::{PROFILES, Profile, Side, named};

use crate::cell::{Cell, Load, Row};

/// Where a trial stands among others by modelled energy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank {
    pub profile: &'static str,
    /// Which of the trials, as they were given.
    pub trial: usize,
    /// Modelled microjoules per message, all parts.
    pub energy_uj: f64,
    /// 1 takes least.
    pub rank: usize,
    /// It has this rank with each coefficient halved and doubled, too.
    pub rank_stable: bool,
}

/// Modelled microjoules per message for one profile; none if nothing was delivered or bytes and frames were not counted.
pub fn total(profile: &Profile, cell: &Cell, row: &Row) -> Option<f64> {
    Some(Message::of(cell, row)?.parts(profile).iter().sum())
}

/// Ranks of trials, for all profiles; those without an energy have none.
pub fn ranks(trials: &[(&Cell, &Row)]) -> Vec<Rank> {
    let messages: Vec<(usize, Message)> = trials
        .iter()
        .enumerate()
        .filter_map(|(trial, (cell, row))| Some((trial, Message::of(cell, row)?)))
        .collect();
    PROFILES
        .iter()
        .flat_map(|profile| ranks_of(profile, &messages))
        .collect()
}

fn ranks_of(profile: &'static Profile, messages: &[(usize, Message)]) -> Vec<Rank> {
    let totals = |profile: &Profile| -> Vec<f64> {
        let of = |(_, message): &(usize, Message)| message.parts(profile).iter().sum();
        messages.iter().map(of).collect()
    };
    let plain = totals(profile);
    let places_here = places(&plain);
    let varied: Vec<Vec<usize>> = variations(profile)
        .iter()
        .map(|profile| places(&totals(profile)))
        .collect();
    let rank = |(at, (trial, _)): (usize, &(usize, Message))| Rank {
        profile: &profile.name,
        trial: *trial,
        energy_uj: plain[at],
        rank: places_here[at],
        rank_stable: varied.iter().all(|places| places[at] == places_here[at]),
    };
    messages.iter().enumerate().map(rank).collect()
}

/// 1 for the least; equal ones have the same place.
fn places(totals: &[f64]) -> Vec<usize> {
    totals
        .iter()
        .map(|it| 1 + totals.iter().filter(|other| *other < it).count())
        .collect()
}

/// Each coefficient halved, and doubled.
fn variations(profile: &Profile) -> Vec<Profile> {
    let coefficients: [fn(&mut Profile) -> &mut f64; 7] = [
        |it| &mut it.cpu_w, // and with it the factor: only their product counts
        |it| &mut it.sent_frame_uj,
        |it| &mut it.sent_byte_uj,
        |it| &mut it.received_frame_uj,
        |it| &mut it.received_byte_uj,
        |it| &mut it.tail_w,
        |it| &mut it.memory_w_per_gb,
    ];
    let varied = |of: fn(&mut Profile) -> &mut f64, by: f64| {
        let mut it = profile.clone();
        *of(&mut it) *= by;
        it
    };
    coefficients
        .into_iter()
        .flat_map(|of| [varied(of, 0.5), varied(of, 2.0)])
        .collect()
}

/// What a message took, both legs and both sides; all that a profile needs.
#[derive(Clone, Copy, Debug)]
struct Message {
    client_cpu_s: f64,
    broker_cpu_s: f64,
    /// Frames and bytes from clients to the broker, and back.
    up: (f64, f64),
    down: (f64, f64),
    /// Between two messages of a device.
    period_s: Option<f64>,
    /// Transmissions that come when the radio sleeps again: the first, and repetitions.
    awakenings: f64,
    held_gb_s: f64,
}

impl Message {
    fn of(cell: &Cell, row: &Row) -> Option<Message> {
        let messages = row.delivered as f64;
        if messages <= 0.0 {
            return None;
        }
        let per_message = |of: f64| of / messages;
        let bytes = per_message(row.wire_bytes? as f64);
        let frames = per_message(row.wire_frames? as f64);
        let more = |name: &str| row.more.get(name).map(|it| per_message(*it));
        // A publisher's frames are a subscriber's, in the other direction: half of both legs where they were not
        // counted.
        let sent = |name, all: f64| more(name).unwrap_or(all / 2.0).min(all);
        let up = (
            sent("client_sent_frames", frames),
            sent("client_sent_bytes", bytes),
        );
        let period_s = match &cell.load {
            Load::Open { rate, .. } if *rate > 0.0 => Some(1.0 / rate),
            Load::Closed { .. } if row.sent > 0 => {
                Some(row.seconds * f64::from(cell.load.flows().max(1)) / row.sent as f64)
            }
            _ => None,
        };
        Some(Message {
            client_cpu_s: per_message(row.cpu_client_s),
            broker_cpu_s: per_message(row.cpu_broker_s),
            up,
            down: (frames - up.0, bytes - up.1),
            period_s,
            awakenings: 1.0 + more("retransmitted_frames").unwrap_or(0.0) / 2.0,
            held_gb_s: row.rss_broker_kib as f64 * 1024e-9 * per_message(row.seconds),
        })
    }

    /// Microjoules: processor, frames, bytes, and the tail with the memory that is held.
    fn parts(&self, profile: &Profile) -> [f64; 4] {
        // What clients send a broker receives. On a client's own leg it is the one that sends.
        let (share, cpu_s, sent, received, memory_w) = match profile.side {
            Side::Client => (0.5, self.client_cpu_s * 0.5, self.up, self.down, 0.0),
            Side::Broker => {
                let memory_w = profile.memory_w_per_gb * self.held_gb_s;
                (1.0, self.broker_cpu_s, self.down, self.up, memory_w)
            }
        };
        // A radio that is not asleep yet when the next message comes is not woken.
        let awake_s = self
            .period_s
            .map_or(0.0, |period| period.min(profile.tail_s * self.awakenings));
        [
            1e6 * profile.cpu_w * profile.cpu_factor * cpu_s,
            share * (sent.0 * profile.sent_frame_uj + received.0 * profile.received_frame_uj),
            share * (sent.1 * profile.sent_byte_uj + received.1 * profile.received_byte_uj),
            1e6 * (profile.tail_w * awake_s + memory_w),
        ]
    }
}

#[cfg(test)]
mod tests;
