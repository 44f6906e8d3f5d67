//! Common parts of the worlds of queues and of watches: kernels, sessions, drafts and the books of copies.

use thalweg_kernel::access::Access;
use thalweg_kernel::{
    Draft, DropReason, Kernel, Ledger, Limits, LinkId, OpenSession, SessionId, ShardId,
};
use thalweg_model::{Reliability, RetainOp};

/// Somebody with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    pub shard: usize,
    pub session: SessionId,
    pub link: LinkId,
}

pub fn kernels(limits: &Limits, shards: u16) -> Vec<Kernel> {
    (0..shards)
        .map(|shard| Kernel::new(limits.clone(), ShardId(shard), shards, 7))
        .collect()
}

/// A draft without anything special.
pub fn draft<'a>(address: &'a str, text: &'a str) -> Draft<'a> {
    Draft {
        address,
        payload: text.as_bytes(),
        reliability: Reliability::AtMostOnce,
        retain: RetainOp::None,
        expires_in: None,
        priority: 0,
        properties: None,
        ticket: 0,
        native: None,
        stamp: None,
    }
}

/// A new session that ends with its link and may do everything.
pub fn session(client: &str, link: LinkId) -> OpenSession<'_> {
    OpenSession::of_link(client, link, Access::ALL, "none")
}

/// Sums a count of the ledgers.
pub fn sum(kernels: &[Kernel], of: impl Fn(&Ledger) -> u64) -> u64 {
    kernels.iter().map(|kernel| of(kernel.ledger())).sum()
}

pub fn dropped(kernels: &[Kernel], reason: DropReason) -> u64 {
    sum(kernels, |ledger| ledger.dropped[reason as usize])
}

/// Checks that every publish and every copy is accounted for; how many copies wait or are unsettled.
pub fn balance(kernels: &[Kernel]) -> u64 {
    let waiting: usize = kernels.iter().map(|kernel| kernel.totals().waiting).sum();
    let in_flight: usize = kernels.iter().map(|kernel| kernel.totals().in_flight).sum();
    let outstanding = (waiting + in_flight) as u64;
    let came = sum(kernels, |ledger| ledger.routed + ledger.restored);
    let gone = sum(kernels, |ledger| {
        ledger.delivered + ledger.expired + ledger.dropped_total()
    });
    assert_eq!(
        came,
        gone + outstanding,
        "copies: {waiting} wait, {in_flight} unsettled"
    );
    for ledger in kernels.iter().map(Kernel::ledger) {
        let became = ledger.matched + ledger.unmatched + ledger.refused + ledger.repeated;
        assert_eq!(
            ledger.received + ledger.own,
            became,
            "publishes: {ledger:?}"
        );
    }
    outstanding
}
