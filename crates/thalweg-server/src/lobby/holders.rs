//! Which connections are closed when together they hold too much memory.

use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

/// The connections to close so that `excess` bytes become free: always the connection with most of the network that
/// still has most. So one network with many small parts is no better off than one with a large part, and hundreds of
/// peers that hold little each are left alone for the sake of none.
pub(crate) fn holders_to_close<K>(
    holders: impl Iterator<Item = (Option<IpAddr>, usize, K)>,
    excess: usize,
) -> Vec<(Option<IpAddr>, usize, K)> {
    let mut networks = HashMap::new();
    for (network, bytes, key) in holders {
        let (sum, own): &mut (usize, Vec<(usize, K)>) = networks.entry(network).or_default();
        *sum += bytes;
        own.push((bytes, key));
    }
    let mut by_sum: BinaryHeap<(usize, Option<IpAddr>)> = BinaryHeap::new();
    for (network, (sum, own)) in &mut networks {
        own.sort_unstable_by_key(|(bytes, _)| *bytes);
        by_sum.push((*sum, *network));
    }
    let (mut free, mut closed) = (0, Vec::new());
    while free < excess
        && let Some((sum, network)) = by_sum.pop()
    {
        let Some((bytes, key)) = networks.get_mut(&network).and_then(|(_, own)| own.pop()) else {
            continue;
        };
        free += bytes;
        by_sum.push((sum - bytes, network));
        closed.push((network, bytes, key));
    }
    closed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(holders: &[(u8, usize)], excess: usize) -> Vec<usize> {
        let holders = holders.iter().enumerate();
        let holders = holders
            .map(|(at, (network, bytes))| (Some(IpAddr::from([10, 0, 0, *network])), *bytes, at));
        holders_to_close(holders, excess)
            .into_iter()
            .map(|(_, _, at)| at)
            .collect()
    }

    #[test]
    fn the_network_with_most_gives_its_largest_up_first() {
        let holders = [(1, 60), (2, 30), (2, 50), (2, 40), (3, 1)];
        assert_eq!(closed(&holders, 0), [0; 0]);
        assert_eq!(closed(&holders, 1), [2], "120 of the second against 60");
        assert_eq!(closed(&holders, 51), [2, 3]);
        assert_eq!(
            closed(&holders, 100),
            [2, 3, 0],
            "30 of the second are left"
        );
        assert_eq!(closed(&holders, 1_000), [2, 3, 0, 1, 4], "there is no more");
    }
}
