//! The lobby's thread: one poll, many listeners, a slab of waiting connections.

use std::io;
use std::sync::{Arc, mpsc};

use mio::{Poll, Token, Waker};

use super::{Command, Deliver, LobbyCounters, LobbySettings};
use crate::listen::Listener;

pub(super) struct Turns {
    poll: Poll,
    waker: Arc<Waker>,
    settings: LobbySettings,
    deliver: Box<dyn Deliver>,
    counters: Arc<LobbyCounters>,
    commands: mpsc::Receiver<Command>,
}

impl Turns {
    pub(super) fn new(
        settings: LobbySettings,
        deliver: Box<dyn Deliver>,
        counters: Arc<LobbyCounters>,
        commands: mpsc::Receiver<Command>,
    ) -> io::Result<Turns> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), Token(usize::MAX))?);
        Ok(Turns { poll, waker, settings, deliver, counters, commands })
    }

    pub(super) fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    pub(super) fn add(&mut self, _listener: Listener) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn run(self) {
        while !matches!(self.commands.recv(), Ok(Command::Stop) | Err(_)) {}
    }
}
