//! Places of connections: bounded, and a silent connection cannot keep a probe out.
//!
//! When all places are taken, the connection that has been idle longest gives its place to the newcomer. A connection is
//! idle while no request of it is being answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// The connections that are open.
#[derive(Clone)]
pub(crate) struct Places {
    open: Arc<Mutex<Open>>,
    max: usize,
}

#[derive(Default)]
struct Open {
    next: u64,
    /// Orders what connections last did.
    moment: u64,
    connections: HashMap<u64, Connection>,
}

struct Connection {
    /// Requests that are being answered.
    busy: u32,
    /// When the last request began or ended, or the connection came.
    active_at: u64,
    end: Arc<Notify>,
}

/// A connection's place. Dropping it frees it.
pub(crate) struct Place {
    places: Places,
    id: u64,
    end: Arc<Notify>,
}

/// A request that is being answered; its connection keeps its place meanwhile.
pub(crate) struct Busy {
    places: Places,
    id: u64,
}

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Places {
            open: Arc::default(),
            max,
        }
    }

    /// A place for a newcomer; `None` if every connection has a request that is being answered.
    pub(crate) fn take(&self) -> Option<Place> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.connections.len() >= self.max {
            let idle = open
                .connections
                .iter()
                .filter(|(_, connection)| connection.busy == 0);
            let oldest = idle
                .min_by_key(|(_, connection)| connection.active_at)
                .map(|(id, _)| *id)?;
            if let Some(connection) = open.connections.remove(&oldest) {
                connection.end.notify_one();
            }
        }
        open.next += 1;
        let id = open.next;
        let end = Arc::new(Notify::new());
        let active_at = open.tick();
        open.connections.insert(
            id,
            Connection {
                busy: 0,
                active_at,
                end: end.clone(),
            },
        );
        Some(Place {
            places: self.clone(),
            id,
            end,
        })
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut Connection)) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let active_at = open.tick();
        if let Some(connection) = open.connections.get_mut(&id) {
            connection.active_at = active_at;
            change(connection);
        }
    }
}

impl Open {
    fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }
}

impl Place {
    /// Returns when the place was given to another request.
    pub(crate) async fn lost(&self) {
        self.end.notified().await;
    }

    /// Marks the connection busy until the guard is dropped. For use by its requests, so it does not borrow the place.
    pub(crate) fn marker(&self) -> impl Fn() -> Busy + Send + Clone + 'static {
        let (places, id) = (self.places.clone(), self.id);
        move || {
            places.change(id, |connection| connection.busy += 1);
            Busy {
                places: places.clone(),
                id,
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self
            .places
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open.connections.remove(&self.id);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.places.change(self.id, |connection| {
            connection.busy = connection.busy.saturating_sub(1)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_lost(place: &Place) -> bool {
        let lost = std::pin::pin!(place.lost());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        lost.poll(&mut context).is_ready()
    }

    #[test]
    fn the_connection_that_was_idle_longest_gives_its_place_to_a_newcomer() {
        let places = Places::new(3);
        let [first, second, third] = [(); 3].map(|()| places.take().expect("a place is free"));
        drop(first.marker()());
        let busy = second.marker()();
        let fourth = places.take().expect("an idle connection gives way");
        assert!(is_lost(&third), "it did nothing since the others did");
        assert!(!is_lost(&first) && !is_lost(&second) && !is_lost(&fourth));
        drop(busy);
        drop(fourth);
        let _fifth = places.take().expect("one left");
        assert!(!is_lost(&first) && !is_lost(&second));
    }

    #[test]
    fn connections_whose_requests_are_being_answered_keep_their_places() {
        let places = Places::new(2);
        let [first, second] = [(); 2].map(|()| places.take().expect("a place is free"));
        let _busy = (first.marker()(), second.marker()());
        assert!(places.take().is_none());
        assert!(!is_lost(&first) && !is_lost(&second));
    }
}
