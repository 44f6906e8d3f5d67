//! What an interface has sent, exactly: the kernel's own counters.

use std::fs::File;
use std::io;
use std::ops::{Add, Sub};
use std::os::unix::fs::FileExt;

use serde::Serialize;

use super::space::Space;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wire {
    /// Bytes of Ethernet frames, header included, padding and checksum not.
    pub bytes: u64,
    pub frames: u64,
}

impl Add for Wire {
    type Output = Wire;
    fn add(self, other: Wire) -> Wire {
        Wire {
            bytes: self.bytes + other.bytes,
            frames: self.frames + other.frames,
        }
    }
}

impl Sub for Wire {
    type Output = Wire;
    fn sub(self, other: Wire) -> Wire {
        Wire {
            bytes: self.bytes.saturating_sub(other.bytes),
            frames: self.frames.saturating_sub(other.frames),
        }
    }
}

/// Reads the counters of one device in one namespace, again and again, from anywhere.
#[derive(Debug)]
pub struct Meter {
    /// Opened inside: a file of /proc/net stays with the namespace that it was opened in.
    counters: File,
    device: &'static str,
    /// Bytes of a frame that the device does not count: what a TUN device has no header for.
    missing: u64,
}

impl Meter {
    /// Of `device` in `space`.
    pub fn new(space: &Space, device: &'static str, is_tun: bool) -> io::Result<Meter> {
        let counters = space.within(|| File::open("/proc/thread-self/net/dev"))?;
        Ok(Meter {
            counters,
            device,
            missing: if is_tun { ETHERNET_HEADER } else { 0 },
        })
    }

    /// What it has sent since it is there.
    pub fn sent(&self) -> io::Result<Wire> {
        let (wire, _) = self.row()?;
        Ok(Wire {
            bytes: wire.bytes + wire.frames * self.missing,
            ..wire
        })
    }

    /// Frames that it was to send and had no room for.
    pub fn dropped(&self) -> io::Result<u64> {
        Ok(self.row()?.1)
    }

    fn row(&self) -> io::Result<(Wire, u64)> {
        let mut text = vec![0; TABLE_MAX];
        let mut length = 0;
        while let Some(room) = text.get_mut(length..).filter(|room| !room.is_empty()) {
            match self.counters.read_at(room, length as u64)? {
                0 => break,
                read => length += read,
            }
        }
        let text = String::from_utf8_lossy(text.get(..length).unwrap_or_default());
        sent_of(&text, self.device).ok_or_else(|| {
            io::Error::other(format!("no device {} among the counters", self.device))
        })
    }
}

/// The transmit counters of a device in the table of /proc/net/dev: eight columns received, eight transmitted.
fn sent_of(table: &str, device: &str) -> Option<(Wire, u64)> {
    let row = table
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    let mut columns = row.split_ascii_whitespace().map(str::parse);
    let bytes = columns.nth(8)?.ok()?;
    let frames = columns.next()?.ok()?;
    let dropped = columns.nth(1)?.ok()?;
    Some((Wire { bytes, frames }, dropped))
}

const ETHERNET_HEADER: u64 = 14;
/// Two devices have less than a tenth of this.
const TABLE_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmit_counters_begin_at_the_ninth_column() {
        let table = "Inter-|   Receive                                                |  Transmit\n \
                     face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n    \
                     lo:       1       2    0    0    0     0          0         0        3       4    0    0    0     0       0          0\n  \
                     link: 5 6 0 0 0 0 0 0 700 8 0 9 0 0 0 0\n";
        assert_eq!(
            sent_of(table, "link"),
            Some((
                Wire {
                    bytes: 700,
                    frames: 8
                },
                9
            ))
        );
        assert_eq!(sent_of(table, "lin"), None);
        assert_eq!(sent_of(table, "eth0"), None);
    }
}
