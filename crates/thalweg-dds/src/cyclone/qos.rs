//! Quality of service as Cyclone DDS keeps it.
//!
//! Not by `cyclors::qos`: that gives what C has allocated to the allocator of Rust, which need not be the same.

use super::sertype;
use crate::qos::{Durability, Liveliness, Presentation, Qos};
use cyclors::{dds_qos_t, dds_time_t};
use std::ffi::CString;
use std::ptr;
use std::time::Duration;

const INFINITE: dds_time_t = i64::MAX;
const UNLIMITED: i32 = -1;
/// Longest wait of a write to a slow reliable reader; nanoseconds.
const BLOCKING_MAX: dds_time_t = 100_000_000;
/// The two kinds of history (`dds_history_kind`).
const KEEP_LAST: u32 = 0;
const KEEP_ALL: u32 = 1;
/// Of `dds_ignorelocal_kind`: endpoints of the same participant.
const PARTICIPANT: u32 = 1;
/// The most names or numbers that a list of a policy is read to.
const LIST_MAX: u32 = 1024;

/// Copies what an endpoint was discovered with.
///
/// # Safety
/// `qos` is valid.
pub(super) unsafe fn read(qos: *const dds_qos_t) -> Qos {
    let (mut kind, mut depth, mut number) = (0, 0, 0);
    let (mut one, mut other, mut time) = (false, false, 0);
    // SAFETY: the caller guarantees that `qos` is valid, and there is room for each value. A function that does not
    // find its value writes nothing, and returns false.
    unsafe {
        use cyclors as c;
        Qos {
            is_reliable: c::dds_qget_reliability(qos, &mut kind, &mut time) && kind == 1,
            durability: match c::dds_qget_durability(qos, &mut kind).then_some(kind) {
                None | Some(0) => Durability::Volatile,
                Some(1) => Durability::TransientLocal,
                Some(2) => Durability::Transient,
                Some(_) => Durability::Persistent,
            },
            depth: match c::dds_qget_history(qos, &mut kind, &mut depth) {
                true if kind == KEEP_ALL => 0,
                true => depth.max(1) as u32,
                false => 1,
            },
            late_depth: late_depth_of(qos),
            lifespan: time_of(c::dds_qget_lifespan(qos, &mut time), time),
            deadline: time_of(c::dds_qget_deadline(qos, &mut time), time),
            latency_budget: match c::dds_qget_latency_budget(qos, &mut time) {
                true => time_of(true, time),
                false => Some(Duration::ZERO),
            },
            separation: Duration::ZERO,
            lease: time_of(c::dds_qget_liveliness(qos, &mut kind, &mut time), time),
            liveliness: match c::dds_qget_liveliness(qos, &mut kind, &mut time).then_some(kind) {
                None | Some(0) => Liveliness::Automatic,
                Some(1) => Liveliness::ManualByParticipant,
                Some(_) => Liveliness::ManualByTopic,
            },
            is_exclusive: c::dds_qget_ownership(qos, &mut kind) && kind == 1,
            strength: match c::dds_qget_ownership_strength(qos, &mut number) {
                true => number,
                false => 0,
            },
            by_source_time: c::dds_qget_destination_order(qos, &mut kind) && kind == 1,
            presentation: match c::dds_qget_presentation(qos, &mut kind, &mut one, &mut other) {
                true => Presentation {
                    scope: kind as u8,
                    is_coherent: one,
                    is_ordered: other,
                },
                false => Presentation::default(),
            },
            partitions: partitions_of(qos),
            priority: match c::dds_qget_transport_priority(qos, &mut number) {
                true => number,
                false => 0,
            },
            representations: representations_of(qos),
            samples_max: 0,
        }
    }
}

/// # Safety
/// `qos` is valid.
unsafe fn late_depth_of(qos: *const dds_qos_t) -> u32 {
    let (mut kind, mut depth) = (0, 0);
    let none = ptr::null_mut();
    // SAFETY: the caller vouches for it; what is null is left out.
    let is_there = unsafe {
        cyclors::dds_qget_durability_service(
            qos,
            ptr::null_mut(),
            &mut kind,
            &mut depth,
            none,
            none,
            none,
        )
    };
    match is_there {
        true if kind == KEEP_ALL => 0,
        true => depth.max(1) as u32,
        false => 1,
    }
}

/// # Safety
/// `qos` is valid.
unsafe fn partitions_of(qos: *const dds_qos_t) -> Vec<String> {
    let (mut count, mut names) = (0, ptr::null_mut());
    // SAFETY: the list and each of its texts are copies of ours, which are freed by C's allocator.
    unsafe {
        if !cyclors::dds_qget_partition(qos, &mut count, &mut names) || names.is_null() {
            return Vec::new();
        }
        let mut partitions = Vec::new();
        for at in 0..count as usize {
            let name = *names.add(at);
            if at < LIST_MAX as usize {
                partitions.push(sertype::text(name));
            }
            cyclors::dds_free(name.cast());
        }
        cyclors::dds_free(names.cast());
        partitions
    }
}

/// # Safety
/// `qos` is valid.
unsafe fn representations_of(qos: *const dds_qos_t) -> Vec<i16> {
    let (mut count, mut kinds) = (0, ptr::null_mut());
    // SAFETY: as above.
    unsafe {
        if !cyclors::dds_qget_data_representation(qos, &mut count, &mut kinds) || kinds.is_null() {
            return Vec::new();
        }
        let found = std::slice::from_raw_parts(kinds, count.min(LIST_MAX) as usize).to_vec();
        cyclors::dds_free(kinds.cast());
        found
    }
}

/// A copy for Cyclone DDS, which is deleted with it.
pub(super) struct Native(pub(super) *mut dds_qos_t);

impl Native {
    /// Never communicates with endpoints of its own participant.
    pub(super) fn of(qos: &Qos) -> Native {
        let limit = |max: u32| match max {
            0 => UNLIMITED,
            max => i32::try_from(max).unwrap_or(UNLIMITED),
        };
        let history = |depth: u32| match depth {
            0 => (KEEP_ALL, 1),
            depth => (KEEP_LAST, i32::try_from(depth).unwrap_or(i32::MAX)),
        };
        let kind = qos.durability as u32;
        // Names of partitions were terminated texts when they were discovered.
        let partitions = qos.partitions.iter().map(String::as_str);
        let texts: Vec<CString> = partitions.flat_map(CString::new).collect();
        let mut names: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        let representations = match &qos.representations[..] {
            [] => &[0],
            kinds => kinds,
        };
        let (history_kind, depth) = history(qos.depth);
        let late_depth = i32::try_from(qos.late_depth).unwrap_or(i32::MAX);
        let Presentation {
            scope,
            is_coherent,
            is_ordered,
        } = qos.presentation;
        // SAFETY: `made` is valid and ours; everything is copied into it.
        unsafe {
            use cyclors as c;
            let made = c::dds_create_qos();
            c::dds_qset_reliability(made, qos.is_reliable.into(), BLOCKING_MAX);
            c::dds_qset_durability(made, kind);
            c::dds_qset_history(made, history_kind, depth);
            if qos.durability > Durability::Volatile {
                let all = UNLIMITED;
                c::dds_qset_durability_service(
                    made,
                    0,
                    KEEP_LAST,
                    late_depth.max(1),
                    all,
                    all,
                    all,
                );
            }
            c::dds_qset_resource_limits(made, limit(qos.samples_max), UNLIMITED, UNLIMITED);
            c::dds_qset_lifespan(made, nanos(qos.lifespan));
            c::dds_qset_deadline(made, nanos(qos.deadline));
            c::dds_qset_time_based_filter(made, nanos(Some(qos.separation)));
            c::dds_qset_latency_budget(made, nanos(qos.latency_budget));
            c::dds_qset_liveliness(made, qos.liveliness as u32, nanos(qos.lease));
            c::dds_qset_ownership(made, qos.is_exclusive.into());
            c::dds_qset_ownership_strength(made, qos.strength);
            c::dds_qset_destination_order(made, qos.by_source_time.into());
            c::dds_qset_presentation(made, scope.into(), is_coherent, is_ordered);
            c::dds_qset_transport_priority(made, qos.priority);
            if !names.is_empty() {
                c::dds_qset_partition(made, names.len() as u32, names.as_mut_ptr());
            }
            let count = representations.len() as u32;
            c::dds_qset_data_representation(made, count, representations.as_ptr());
            c::dds_qset_writer_batching(made, true);
            // A writer of ours that ends says nothing of the instances: those of the broker go on.
            c::dds_qset_writer_data_lifecycle(made, false);
            c::dds_qset_ignorelocal(made, PARTICIPANT);
            Native(made)
        }
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: it came from `dds_create_qos` and has no other owner.
        unsafe { cyclors::dds_delete_qos(self.0) };
    }
}

fn time_of(is_there: bool, nanos: dds_time_t) -> Option<Duration> {
    (is_there && nanos != INFINITE).then(|| Duration::from_nanos(nanos.max(0) as u64))
}

fn nanos(time: Option<Duration>) -> dds_time_t {
    let nanos = time.map(|it| i64::try_from(it.as_nanos()).unwrap_or(INFINITE));
    nanos.unwrap_or(INFINITE)
}
