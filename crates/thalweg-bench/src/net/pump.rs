//! Moves packets between two TUN devices through two [`Pipe`]s, one thread for each direction.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use super::emulator::Pipe;
use super::loss::Tally;
use super::space::Space;
use super::units::Loss;
use crate::cell::Link;

/// What the threads and their owner share.
#[derive(Debug, Default)]
struct Board {
    loss: AtomicU32,
    stop: AtomicBool,
    tallies: [(AtomicU64, AtomicU64); 2],
}

/// A running emulator; it ends when dropped.
#[derive(Debug)]
pub struct Pump {
    board: Arc<Board>,
    threads: Vec<JoinHandle<()>>,
}

impl Pump {
    /// Makes a TUN device named `device` in both namespaces, up and without addresses, and begins.
    pub fn start(ends: [&Space; 2], device: &str, link: &Link, seed: u64) -> io::Result<Pump> {
        let board = Arc::new(Board::default());
        let loss = Loss::percent(link.loss * 100.0);
        board.loss.store(loss.as_millionths(), Ordering::Relaxed);
        let mut devices = Vec::new();
        for space in ends {
            let tun = space
                .within(|| {
                    DeviceBuilder::new()
                        .name(device)
                        .layer(Layer::L3)
                        .mtu(MTU)
                        .build_sync()
                })
                .map_err(|error| super::tun::is_there().err().map_or(error, io::Error::other))?;
            tun.set_nonblocking(true)?;
            devices.push(Arc::new(tun));
        }
        let [client, broker] = <[Arc<SyncDevice>; 2]>::try_from(devices)
            .map_err(|_| io::Error::other("two namespaces have two devices"))?;
        let mut threads = Vec::new();
        for (side, from, to) in [
            (0, Arc::clone(&client), Arc::clone(&broker)),
            (1, broker, client),
        ] {
            let board = Arc::clone(&board);
            let pipe = Pipe::new(*link, seed.wrapping_mul(2).wrapping_add(side as u64));
            let carry = move || carry(side, &from, &to, pipe, &board);
            threads.push(
                thread::Builder::new()
                    .name("link".to_owned())
                    .spawn(carry)?,
            );
        }
        Ok(Pump { board, threads })
    }

    /// Changes the loss of both directions, from the next packet on.
    pub fn set_loss(&self, loss: Loss) {
        self.board
            .loss
            .store(loss.as_millionths(), Ordering::Relaxed);
    }

    /// What came from the client's side and from the broker's.
    pub fn tallies(&self) -> [Tally; 2] {
        let [client, broker] = &self.board.tallies;
        [client, broker].map(|(came, lost)| Tally {
            came: came.load(Ordering::Acquire),
            lost: lost.load(Ordering::Relaxed),
        })
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.board.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It ends within a moment, panicked or not.
            let _ = thread.join();
        }
    }
}

/// One direction, until it is told to stop or a device is gone.
fn carry(side: usize, from: &SyncDevice, to: &SyncDevice, mut pipe: Pipe, board: &Board) {
    // Linux lets a sleeper wake up to 50 µs late unless it says that it minds.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1000));
    let begun = Instant::now();
    let mut buffer = vec![0; PACKET_MAX];
    while !board.stop.load(Ordering::Relaxed) {
        while let Ok(length) = from.recv(&mut buffer) {
            let loss = Loss::millionths(board.loss.load(Ordering::Relaxed));
            pipe.offer(
                buffer.get(..length).unwrap_or_default(),
                loss,
                begun.elapsed(),
            );
        }
        // A device whose queue is full loses the packet, as an interface does.
        while pipe.take(begun.elapsed(), &mut |packet| drop(to.send(packet))) {}
        if let Some((came, lost)) = board.tallies.get(side) {
            // Losses first: who sees that a packet came sees whether it was lost.
            lost.store(pipe.counts().1, Ordering::Relaxed);
            came.store(pipe.counts().0, Ordering::Release);
        }
        let wait = pipe.due().map_or(LOOK_UP, |due| {
            due.saturating_sub(begun.elapsed()).min(LOOK_UP)
        });
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: wait.as_nanos() as _,
        };
        let mut devices = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
        match poll(&mut devices, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// How often a thread that has nothing to do looks whether it is to stop; below a second.
const LOOK_UP: Duration = Duration::from_millis(100);
const MTU: u16 = 1500;
const PACKET_MAX: usize = 2048;
