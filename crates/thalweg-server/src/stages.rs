//! Where a message's time goes: histograms under the span names of docs/follow-a-publish.md, from samples.

/// The span names, in the order of a message's path. The same words stand in metrics, traces and
/// `docs/follow-a-publish.md`.
pub const SPANS: [&str; 10] = [
    "net.read",
    "wire.decode",
    "front.in",
    "kernel.publish",
    "store.commit",
    "cluster.forward",
    "front.out",
    "front.ack",
    "net.write",
    "kernel.settle",
];

/// One of [`SPANS`] by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// A read of the socket.
    NetRead = 0,
    WireDecode = 1,
    FrontIn = 2,
    /// Access, admission, last value, matching, queues.
    KernelPublish = 3,
    FrontOut = 6,
    FrontAck = 7,
    /// A write to the socket.
    NetWrite = 8,
    KernelSettle = 9,
}

/// Upper bounds of the histogram's buckets, in nanoseconds; the last bucket has none.
pub const BOUNDS_NANOS: [u64; 16] = [
    50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400, 409_600,
    1_638_400, 6_553_600, 26_214_400,
];

#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Samples at or below each bound, and above all of them.
    pub buckets: [u64; BOUNDS_NANOS.len() + 1],
    pub sum_nanos: u64,
    pub count: u64,
}

/// Histograms of one shard. A sample is taken once every few dozen reads, so it costs nothing that shows.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    /// By position in [`SPANS`].
    pub histograms: [Histogram; SPANS.len()],
}

impl Stages {
    pub fn record(&mut self, span: Span, nanos: u64) {
        let histogram = &mut self.histograms[span as usize];
        let bucket = BOUNDS_NANOS
            .iter()
            .position(|bound| nanos <= *bound)
            .unwrap_or(BOUNDS_NANOS.len());
        histogram.buckets[bucket] += 1;
        histogram.sum_nanos += nanos;
        histogram.count += 1;
    }

    /// Adds another shard's samples.
    pub fn merge(&mut self, other: &Stages) {
        for (into, from) in self.histograms.iter_mut().zip(&other.histograms) {
            for (into, from) in into.buckets.iter_mut().zip(&from.buckets) {
                *into += from;
            }
            into.sum_nanos += from.sum_nanos;
            into.count += from.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_enum_agrees_with_the_names() {
        assert_eq!(SPANS[Span::NetRead as usize], "net.read");
        assert_eq!(SPANS[Span::FrontOut as usize], "front.out");
        assert_eq!(SPANS[Span::KernelSettle as usize], "kernel.settle");
    }
}
