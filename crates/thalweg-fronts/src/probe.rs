//! Where one message's time goes. Off most of the time; the server switches it on for a sample.

/// The ends of stages, in the order in which a message passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// An event has been decoded.
    WireDecode,
    /// It has become a command.
    FrontIn,
    /// The kernel has something to deliver.
    KernelDeliver,
    /// A delivery has been encoded.
    FrontOut,
    /// The kernel is done with the command.
    KernelPublish,
    /// The publisher's acknowledgement has been encoded.
    FrontAck,
    /// The kernel is done with a receiver's acknowledgement.
    KernelSettle,
}

/// Nanoseconds spent in each stage since it was switched on, and how often the stage ended.
///
/// A stage's time is the time since the mark before, whichever that was: what the kernel does between two deliveries
/// counts as the kernel's, what a front does in a delivery as the front's.
#[derive(Clone, Debug)]
pub struct Probe {
    clock: fn() -> u64,
    last: u64,
    spent: [u64; 7],
    times: [u64; 7],
    /// A sample of a few messages is enough; a read may bring thousands.
    marks_left: u32,
}

/// How many ends of stages one probe measures.
const MARKS_MAX: u32 = 24;

impl Probe {
    pub(crate) fn new(clock: fn() -> u64) -> Self {
        Probe {
            clock,
            last: clock(),
            spent: [0; 7],
            times: [0; 7],
            marks_left: MARKS_MAX,
        }
    }

    #[cold]
    pub(crate) fn mark(&mut self, mark: Mark) {
        if self.marks_left == 0 {
            return;
        }
        self.marks_left -= 1;
        let now = (self.clock)();
        self.spent[mark as usize] += now.saturating_sub(self.last);
        self.times[mark as usize] += 1;
        // Read once more: the clock itself must not count.
        self.last = (self.clock)();
    }

    /// The average time of a stage, if it ended at all. The kernel's share of deliveries is part of
    /// [`Mark::KernelPublish`].
    pub fn average(&self, mark: Mark) -> Option<u64> {
        let times = self.times[mark as usize];
        let delivering = if mark == Mark::KernelPublish {
            self.spent[Mark::KernelDeliver as usize]
        } else {
            0
        };
        (times > 0).then(|| (self.spent[mark as usize] + delivering) / times)
    }
}
