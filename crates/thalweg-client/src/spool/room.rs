//! Making room: segments go from the old end.

use thalweg_journal::{Batch, Disk as FileSystem, Log, LogError, Place, SegmentInfo};

use super::disk::Disk;
use super::records;
use crate::transport::MessageId;

impl<D: FileSystem> Disk<D> {
    /// Releases the oldest segments up to the first unsettled entry; if space is short, rewrites the entries of the
    /// oldest. There is no error here: a failed step is repeated later.
    pub(super) fn tidy(&mut self) {
        self.release();
        // Each at most once: what was written again is not looked at again now.
        for oldest in &self.inventory.sealed() {
            let is_enough = self.inventory.fill().bytes_used <= self.settings.bytes_tidy();
            if is_enough || self.rewrite(oldest).is_err() {
                break;
            }
            self.release();
        }
    }

    fn release(&mut self) {
        for segment in self.inventory.sealed() {
            let behind = behind(&segment);
            let is_held = self
                .held
                .first_key_value()
                .is_some_and(|(number, _)| *number < behind);
            if is_held
                || self.state_durable_in < behind
                || self.inventory.release(segment.number).is_err()
            {
                break;
            }
            // Settlements of entries in released segments need not be kept.
            self.settled.retain(|_, place| place.number() >= behind);
        }
    }

    /// Writes the unsettled entries of a segment again, durably.
    fn rewrite(&mut self, segment: &SegmentInfo) -> Result<(), LogError> {
        let behind = behind(segment);
        let here = |place: &Place| place.number() < behind;
        let stay: Vec<(MessageId, Place, u32)> = self
            .kept
            .iter()
            .filter_map(|(id, kept)| kept.place.filter(here).map(|place| (*id, place, kept.len)))
            .collect();
        let frame_bytes = self.settings.frame_bytes_max();
        let mut frame = Vec::new();
        let mut moved: Vec<(MessageId, usize)> = Vec::new();
        let mut entry = Vec::new();
        for (at, (id, place, len)) in stay.iter().enumerate() {
            self.inventory
                .read(*place, *len, &mut entry)
                .map_err(|error| LogError::Unreadable(error.to_string()))?;
            moved.push((*id, records::push_entry(*id, &entry, &mut frame)));
            if frame.len() >= frame_bytes || at + 1 == stay.len() {
                let places = self.journal.append(&[Batch {
                    shard: 0,
                    payload: &frame,
                }])?;
                for (id, at) in moved.drain(..) {
                    if let Some(place) = places.first() {
                        self.placed(id, place.plus(at as u64));
                    }
                }
                frame.clear();
            }
        }
        // A segment may have been begun.
        self.write_state()?;
        self.sync()
    }
}

/// The first number of a segment behind this one.
fn behind(segment: &SegmentInfo) -> u64 {
    segment.number + segment.bytes_file.div_ceil(Place::SPAN).max(1)
}
