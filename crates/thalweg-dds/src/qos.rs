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
    /// Samples kept of each instance for readers that come later, by DURABILITY_SERVICE; 0 keeps all. Only a writer's.
    pub late_depth: u32,
    pub lifespan: Option<Duration>,
    pub deadline: Option<Duration>,
    pub latency_budget: Option<Duration>,
    /// Least time between two samples of an instance that a reader takes.
    pub separation: Duration,
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

/// Samples of an instance that a writer of ours keeps for readers that come later, whatever they request, and that an address keeps of
/// a writer of others: what is kept stays in memory as long as the writer.
const LATE_DEPTH_MAX: u32 = 100;

/// Class of endpoints of one topic for a bridge: samples of one class of writers come in through one reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    pub is_reliable: bool,
    pub is_durable: bool,
    pub is_exclusive: bool,
    /// Not of exclusive writers: one reader arbitrates between them all.
    pub deadline: Option<Duration>,
    /// Writers promise a deadline, or to say that they are alive.
    pub is_watched: bool,
}

impl Qos {
    pub fn class(&self) -> Class {
        Class {
            is_reliable: self.is_reliable,
            is_durable: self.durability > Durability::Volatile,
            is_exclusive: self.is_exclusive,
            deadline: self.deadline.filter(|_| !self.is_exclusive),
            is_watched: !self.is_exclusive && (self.deadline.is_some() || self.lease.is_some()),
        }
    }

    /// Whether a reader requests no more than is kept here.
    pub fn is_servable(&self) -> bool {
        self.durability <= Durability::TransientLocal
    }

    fn takes(&self, kind: Representation) -> bool {
        match &self.representations[..] {
            [] => kind == 0,
            kinds => kinds.contains(&kind),
        }
    }

    /// Request of a reader that matches all writers of this class, whatever else they offer. Whether they are alive is
    /// noticed by what they offer. A deadline shorter than the separation is no request.
    pub fn of_reader_for(writer: &Qos, separation: Duration) -> Qos {
        Qos {
            is_reliable: writer.is_reliable,
            durability: writer.durability.min(Durability::TransientLocal),
            is_exclusive: writer.is_exclusive,
            deadline: writer.class().deadline.filter(|it| *it >= separation),
            separation,
            by_source_time: writer.by_source_time,
            partitions: writer.partitions.clone(),
            samples_max: WAITING_MAX,
            // Whatever its writer chooses: payloads are not looked into here.
            representations: vec![0, 2],
            ..Qos::default()
        }
    }

    /// Offer of a writer that matches these readers; but for those that do not take the data representation that most of
    /// them take.
    pub fn of_writer_for<'a>(readers: impl Iterator<Item = &'a Qos> + Clone) -> Option<Qos> {
        let takers = |kind: &Representation| readers.clone().filter(|it| it.takes(*kind)).count();
        // XCDR1, the last one, if as many take either.
        let kind = [2, 0].into_iter().max_by_key(takers)?;
        let mut readers = readers.filter(|it| it.takes(kind));
        let first = readers.next()?;
        let mut offer = Qos {
            is_reliable: true,
            durability: Durability::TransientLocal,
            late_depth: first.depth_if_late(),
            latency_budget: Some(Duration::ZERO),
            ..first.clone()
        };
        offer.depth = 0;
        offer.samples_max = 0;
        offer.representations = vec![kind];
        for reader in readers {
            offer.deadline = shorter(offer.deadline, reader.deadline);
            offer.lease = shorter(offer.lease, reader.lease);
            offer.liveliness = offer.liveliness.max(reader.liveliness);
            offer.by_source_time |= reader.by_source_time;
            offer.presentation = Presentation {
                scope: offer.presentation.scope.max(reader.presentation.scope),
                is_coherent: offer.presentation.is_coherent | reader.presentation.is_coherent,
                is_ordered: offer.presentation.is_ordered | reader.presentation.is_ordered,
            };
            offer.late_depth = offer.late_depth.max(reader.depth_if_late());
        }
        Some(offer)
    }

    /// Samples of an instance that a writer keeps for this reader to have when it comes late. One that asks for none gets none,
    /// however many it keeps itself; a writer always keeps one.
    fn depth_if_late(&self) -> u32 {
        match (self.durability, self.depth) {
            (Durability::Volatile, _) => 1,
            (_, 0) => LATE_DEPTH_MAX,
            (_, depth) => depth.min(LATE_DEPTH_MAX),
        }
    }

    /// Samples of an instance that this writer has for a reader that comes later. Some libraries go by HISTORY, as DDS says, and
    /// some by DURABILITY_SERVICE.
    pub fn depth_for_late(&self) -> u16 {
        let depths = [self.depth, self.late_depth].map(|it| match it {
            0 => LATE_DEPTH_MAX,
            depth => depth.min(LATE_DEPTH_MAX),
        });
        match self.durability {
            Durability::Volatile => 1,
            _ => depths[0].max(depths[1]) as u16,
        }
    }

    /// Whether this offer is of a data representation that a reader takes; it fits in all else.
    pub fn is_taken_by(&self, reader: &Qos) -> bool {
        self.representations.iter().any(|kind| reader.takes(*kind))
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
        let offer = Qos::of_writer_for([&reader(), &strict].into_iter()).expect("they agree");
        assert!(offer.is_reliable && offer.durability == Durability::TransientLocal);
        assert_eq!(
            (offer.deadline, offer.lease),
            (Some(second), Some(second * 3))
        );
        assert_eq!(offer.liveliness, Liveliness::ManualByTopic);
        assert_eq!((offer.late_depth, offer.depth), (7, 0));
    }

    #[test]
    fn a_writer_keeps_what_late_readers_request_and_no_end_of_it() {
        let reader = |durability, depth| Qos {
            durability,
            depth,
            ..Qos::default()
        };
        let (live, late) = (Durability::Volatile, Durability::TransientLocal);
        for (readers, kept) in [
            // Of a reader without history for late ones, what it keeps itself is no concern of the writer's.
            (vec![reader(live, 0)], 1),
            (vec![reader(live, 7)], 1),
            (vec![reader(late, 7)], 7),
            (vec![reader(live, 0), reader(late, 3)], 3),
            (vec![reader(late, 3), reader(late, 5)], 5),
            (vec![reader(late, 0), reader(late, 5)], LATE_DEPTH_MAX),
            (vec![reader(late, u32::MAX)], LATE_DEPTH_MAX),
        ] {
            let offer = Qos::of_writer_for(readers.iter()).expect("they agree");
            assert_eq!(offer.late_depth, kept, "{readers:?}");
        }
    }

    #[test]
    fn a_lasting_writer_has_the_larger_of_its_two_depths_for_who_comes_late() {
        let writer = |durability, depth, late_depth| Qos {
            durability,
            depth,
            late_depth,
            ..Qos::default()
        };
        let lasting = Durability::TransientLocal;
        for (writer, kept) in [
            (writer(Durability::Volatile, 7, 7), 1),
            (writer(lasting, 1, 1), 1),
            (writer(lasting, 7, 1), 7),
            (writer(lasting, 1, 5), 5),
            (writer(lasting, 1, u32::MAX), 100),
            (writer(lasting, 0, 1), 100),
        ] {
            assert_eq!(writer.depth_for_late(), kept, "{writer:?}");
        }
    }

    #[test]
    fn a_writer_is_for_the_readers_that_take_its_representation() {
        let of = |kinds: &[Representation]| Qos {
            representations: kinds.to_vec(),
            ..reader()
        };
        let (old, new, both) = (of(&[]), of(&[2]), of(&[0, 2]));
        let kind_for = |readers: &[&Qos]| {
            let offer = Qos::of_writer_for(readers.iter().copied());
            offer.expect("a reader is served").representations
        };
        assert_eq!(kind_for(&[&old]), [0]);
        assert_eq!(kind_for(&[&new]), [2]);
        assert_eq!(kind_for(&[&both]), [0]);
        assert_eq!(kind_for(&[&both, &new]), [2]);
        assert_eq!(kind_for(&[&both, &old]), [0]);
        assert_eq!(kind_for(&[&new, &old, &new]), [2]);
        let offer = Qos::of_writer_for([&old, &new].into_iter()).expect("one of them");
        assert!(offer.is_taken_by(&old) && !offer.is_taken_by(&new));
        assert!(Qos::of_writer_for([].into_iter()).is_none());
    }

    #[test]
    fn nobody_serves_what_is_kept_by_a_service() {
        for (durability, is_servable) in [
            (Durability::Volatile, true),
            (Durability::TransientLocal, true),
            (Durability::Transient, false),
            (Durability::Persistent, false),
        ] {
            let it = Qos {
                durability,
                ..reader()
            };
            assert_eq!(it.is_servable(), is_servable);
        }
    }

    #[test]
    fn a_reader_requests_no_more_than_its_writer_offers() {
        let writer = Qos {
            durability: Durability::Persistent,
            deadline: Some(Duration::from_secs(1)),
            ..Qos::default()
        };
        let request = Qos::of_reader_for(&writer, Duration::ZERO);
        assert_eq!(request.durability, Durability::TransientLocal);
        assert!(!request.is_reliable && request.deadline == writer.deadline);
        let rare = Qos::of_reader_for(&writer, Duration::from_secs(2));
        assert!(rare.deadline.is_none() && rare.separation == Duration::from_secs(2));
        let exclusive = Qos {
            is_exclusive: true,
            ..writer
        };
        assert!(
            Qos::of_reader_for(&exclusive, Duration::ZERO)
                .deadline
                .is_none()
        );
    }
}
