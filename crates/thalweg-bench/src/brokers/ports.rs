//! Allocation of unused ports.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};

/// Ports of the loopback, given back when dropped.
#[derive(Debug, Default)]
pub struct Ports {
    own: Mutex<Vec<u16>>,
}

impl Ports {
    /// One that is free for TCP and UDP, of those that the system does not hand out to connections meanwhile.
    pub fn free(&self) -> io::Result<u16> {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        // Other processes that look for one as we do begin elsewhere.
        let first = std::process::id() as u16 % COUNT;
        for step in 0..COUNT {
            let port = FIRST + (first + step) % COUNT;
            if !taken.contains(&port) && is_free(port) {
                taken.insert(port);
                self.own
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(port);
                return Ok(port);
            }
        }
        Err(io::Error::other(format!(
            "no free port in {FIRST} to {}",
            FIRST + COUNT - 1
        )))
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        for port in self.own.get_mut().unwrap_or_else(PoisonError::into_inner) {
            taken.remove(port);
        }
    }
}

fn is_free(port: u16) -> bool {
    let at = (Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok()
}

/// Linux hands out 32768 and above.
const FIRST: u16 = 23_000;
const COUNT: u16 = 7000;
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_a_port_twice_until_it_is_given_back() {
        let ports = Ports::default();
        let some: BTreeSet<u16> = (0..50).map(|_| ports.free().expect("a port")).collect();
        assert_eq!(some.len(), 50);
        let others = Ports::default();
        assert!(!some.contains(&others.free().expect("a port")));
    }

    #[test]
    fn a_port_that_somebody_listens_at_is_none() {
        let port = Ports::default().free().expect("a port");
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("it was free");
        assert!(!is_free(port));
    }
}
