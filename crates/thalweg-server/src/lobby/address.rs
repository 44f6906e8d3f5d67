//! How many connections are open: on a listener, and from one network. The count lives as long as its [`Slot`], which
//! travels with the connection to whichever thread closes it.

use crate::access::network_of;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};

/// The counts of one listener. Locked at connect and close only, never per message.
#[derive(Debug, Default)]
pub(super) struct Occupancy {
    open: AtomicUsize,
    /// Open on all listeners together.
    total: Arc<AtomicUsize>,
    by_network: Mutex<HashMap<IpAddr, usize>>,
}

impl Occupancy {
    pub(super) fn new(total: &Arc<AtomicUsize>) -> Occupancy {
        Occupancy {
            total: total.clone(),
            ..Occupancy::default()
        }
    }

    /// Takes a place; `None` when `max` are taken on this listener, or `total_max` on all. Only the lobby takes places,
    /// so that no count can rise between the look and the step.
    pub(super) fn enter(self: &Arc<Self>, max: usize, total_max: usize) -> Option<Slot> {
        if self.open.load(Ordering::Relaxed) >= max
            || self.total.load(Ordering::Relaxed) >= total_max
        {
            return None;
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
        Some(Slot {
            occupancy: self.clone(),
            network: None,
            ended: None,
        })
    }
}

/// A connection's place on its listener. Keep it as long as the socket; dropping it frees the place.
#[derive(Debug)]
pub struct Slot {
    occupancy: Arc<Occupancy>,
    network: Option<IpAddr>,
    /// Told when the connection is closed, if the broker opened it.
    ended: Option<mpsc::Sender<()>>,
}

impl Slot {
    /// The place of a connection that the broker has opened, which counts on no listener. Its end is sent to `ended`.
    pub(crate) fn dialed(ended: mpsc::Sender<()>) -> Slot {
        let occupancy = Occupancy::default();
        occupancy.open.store(1, Ordering::Relaxed);
        occupancy.total.store(1, Ordering::Relaxed);
        Slot {
            occupancy: Arc::new(occupancy),
            network: None,
            ended: Some(ended),
        }
    }

    /// Counts the connection for the network of `address`, too; false when `max` (0: no limit) are open from there.
    pub(super) fn occupy(&mut self, address: IpAddr, max: usize) -> bool {
        if max == 0 || self.network.is_some() {
            return true;
        }
        let mut by_network = self
            .occupancy
            .by_network
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let network = network_of(address);
        let open = by_network.entry(network).or_default();
        if *open >= max {
            return false;
        }
        *open += 1;
        self.network = Some(network);
        true
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(ended) = &self.ended {
            // Fails only if the waiting thread is gone.
            let _ = ended.send(());
        }
        self.occupancy.open.fetch_sub(1, Ordering::Relaxed);
        self.occupancy.total.fetch_sub(1, Ordering::Relaxed);
        let Some(network) = self.network else { return };
        let mut by_network = self
            .occupancy
            .by_network
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = by_network.get_mut(&network) {
            *open -= 1;
            if *open == 0 {
                by_network.remove(&network);
            }
        }
    }
}
