//! Messages of the broker that came with one read.

use crate::mirror::{Outgoing, locked};
use crate::target::Target;
use std::sync::{Arc, Mutex};

/// Writers that are used, which are still to be flushed, and those of the last address: its messages come one behind the other.
#[derive(Default)]
pub(crate) struct Batch {
    touched: Vec<Arc<Target>>,
    address: String,
    asks: bool,
    targets: Vec<(Arc<Target>, bool)>,
}

impl Batch {
    /// Where messages of an address are written: see [`Outgoing::targets`]. What changes there meanwhile is for messages of later reads.
    pub(crate) fn targets(
        &mut self,
        address: &str,
        asks: bool,
        outgoing: &Mutex<Outgoing>,
    ) -> &[(Arc<Target>, bool)] {
        if self.address != address || self.asks != asks {
            self.targets = locked(outgoing).targets(address, asks);
            (self.address, self.asks) = (address.to_owned(), asks);
            for (target, _) in &self.targets {
                touch(target, &mut self.touched);
            }
        }
        &self.targets
    }

    pub(crate) fn touch(&mut self, target: &Arc<Target>) {
        touch(target, &mut self.touched);
    }

    pub(crate) fn touched(self) -> Vec<Arc<Target>> {
        self.touched
    }
}

fn touch(target: &Arc<Target>, touched: &mut Vec<Arc<Target>>) {
    if !touched.iter().any(|it| Arc::ptr_eq(it, target)) {
        touched.push(target.clone());
    }
}
