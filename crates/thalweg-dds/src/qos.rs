//! Quality of service of an endpoint: the requested or offered one (DDS 1.4 §2.2.3), and the one that an endpoint of
//! ours needs in order to match.

use std::time::Duration;

/// How long a writer's samples are kept for late readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    #[default]
    Volatile,
    /// As long as the writer is there.
    TransientLocal,
    /// Kept by a service, which Cyclone DDS does not have.
    Transient,
    /// Kept by a service across restarts, which Cyclone DDS does not have.
    Persistent,
}

/// Liveliness: the side that asserts that a writer is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Liveliness {
    #[default]
    Automatic,
    ManualByParticipant,
    ManualByTopic,
}

/// Presentation of samples of a group of topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Presentation {
    /// 0: instance, 1: topic, 2: group.
    pub scope: u8,
    pub is_coherent: bool,
    pub is_ordered: bool,
}

/// A data representation: 0 is XCDR1, 2 is XCDR2.
pub type Representation = i16;

/// The policies that matter to a bridge. `None` is an infinite time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    pub is_reliable: bool,
    pub durability: Durability,
    /// Samples kept of each instance; 0 keeps all.
    pub depth: u32,
    /// Samples kept of each instance for readers that come later; 0 keeps all. Only a writer's.
    pub late_depth: u32,
    pub lifespan: Option<Duration>,
    pub deadline: Option<Duration>,
    pub latency_budget: Option<Duration>,
    pub liveliness: Liveliness,
    pub lease: Option<Duration>,
    pub is_exclusive: bool,
    pub strength: i32,
    pub by_source_time: bool,
    pub presentation: Presentation,
    pub partitions: Vec<String>,
    pub priority: i32,
    /// In the order of preference; empty if nothing was said, which is XCDR1.
    pub representations: Vec<Representation>,
    /// Samples that wait in a reader; 0 is no limit.
    pub samples_max: u32,
}

/// Samples that wait in a reader of ours until they are taken: then a reliable writer waits, and others lose samples.
const WAITING_MAX: u32 = 16_384;

/// Class of endpoints of one topic for a bridge: samples of one class of writers come in through one reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    pub is_reliable: bool,
    pub is_durable: bool,
    pub is_exclusive: bool,
}

impl Qos {
    pub fn class(&self) -> Class {
        Class {
            is_reliable: self.is_reliable,
            is_durable: self.durability > Durability::Volatile,
            is_exclusive: self.is_exclusive,
        }
    }

    /// Request of a reader that matches all writers of this class, whatever else they offer.
    pub fn of_reader_for(writer: &Qos) -> Qos {
        Qos {
            is_reliable: writer.is_reliable,
            durability: writer.durability.min(Durability::TransientLocal),
            is_exclusive: writer.is_exclusive,
            by_source_time: writer.by_source_time,
            partitions: writer.partitions.clone(),
            samples_max: WAITING_MAX,
            // Whatever its writer chooses: payloads are not looked into here.
            representations: vec![0, 2],
            ..Qos::default()
        }
    }

    /// Offer of a writer that matches all these readers; `None` if no writer can.
    pub fn of_writer_for<'a>(readers: impl IntoIterator<Item = &'a Qos>) -> Option<Qos> {
        let mut readers = readers.into_iter();
        let first = readers.next()?;
        let mut offer = Qos {
            is_reliable: true,
            durability: Durability::TransientLocal,
            late_depth: first.depth,
            latency_budget: Some(Duration::ZERO),
            ..first.clone()
        };
        offer.depth = 0;
        offer.samples_max = 0;
        let is_first_kind = |kind: Representation, reader: &Qos| match &reader.representations[..] {
            [] => kind == 0,
            kinds => kinds.contains(&kind),
        };
        offer.representations.truncate(1);
        let kind = offer.representations.first().copied().unwrap_or(0);
        for reader in std::iter::once(first).chain(readers) {
            if reader.is_exclusive != offer.is_exclusive
                || reader.durability > Durability::TransientLocal
                || !is_first_kind(kind, reader)
            {
                return None;
            }
            offer.deadline = shorter(offer.deadline, reader.deadline);
            offer.lease = shorter(offer.lease, reader.lease);
            offer.liveliness = offer.liveliness.max(reader.liveliness);
            offer.by_source_time |= reader.by_source_time;
            offer.presentation = Presentation {
                scope: offer.presentation.scope.max(reader.presentation.scope),
                is_coherent: offer.presentation.is_coherent | reader.presentation.is_coherent,
                is_ordered: offer.presentation.is_ordered | reader.presentation.is_ordered,
            };
            offer.late_depth = match (offer.late_depth, reader.depth) {
                (0, _) | (_, 0) => 0,
                (one, other) => one.max(other),
            };
        }
        Some(offer)
    }
}

fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> Qos {
        Qos {
            depth: 1,
            ..Qos::default()
        }
    }

    #[test]
    fn a_writer_offers_what_the_most_demanding_reader_requests() {
        let second = Duration::from_secs(1);
        let strict = Qos {
            is_reliable: true,
            durability: Durability::TransientLocal,
            deadline: Some(second),
            lease: Some(second * 3),
            liveliness: Liveliness::ManualByTopic,
            depth: 7,
            ..reader()
        };
        let offer = Qos::of_writer_for([&reader(), &strict]).expect("they agree");
        assert!(offer.is_reliable && offer.durability == Durability::TransientLocal);
        assert_eq!(
            (offer.deadline, offer.lease),
            (Some(second), Some(second * 3))
        );
        assert_eq!(offer.liveliness, Liveliness::ManualByTopic);
        assert_eq!((offer.late_depth, offer.depth), (7, 0));
        let all = Qos {
            depth: 0,
            ..reader()
        };
        assert_eq!(
            Qos::of_writer_for([&strict, &all])
                .expect("they agree")
                .late_depth,
            0
        );
    }

    #[test]
    fn no_writer_serves_readers_that_exclude_each_other() {
        let exclusive = Qos {
            is_exclusive: true,
            ..reader()
        };
        let persistent = Qos {
            durability: Durability::Persistent,
            ..reader()
        };
        let newer = Qos {
            representations: vec![2],
            ..reader()
        };
        assert!(Qos::of_writer_for([&reader(), &exclusive]).is_none());
        assert!(Qos::of_writer_for([&persistent]).is_none());
        assert!(Qos::of_writer_for([&reader(), &newer]).is_none());
        assert_eq!(
            Qos::of_writer_for([&newer]).expect("alone").representations,
            [2]
        );
    }

    #[test]
    fn a_reader_requests_no_more_than_its_writer_offers() {
        let writer = Qos {
            durability: Durability::Persistent,
            deadline: Some(Duration::from_secs(1)),
            ..Qos::default()
        };
        let request = Qos::of_reader_for(&writer);
        assert_eq!(request.durability, Durability::TransientLocal);
        assert!(!request.is_reliable && request.deadline.is_none());
    }
}
