//! Release of segments and packs that are no longer needed, and merging so that more of them are not.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::sync::Arc;

use thalweg_journal::{Inventory, Place, ReadError, SegmentInfo, disk::Disk};
use thalweg_records::State;

use crate::pack::{Pack, Packs};

/// One place in this many is looked at closely, to tell many references to one record from many records.
const SAMPLE: u32 = 64;
/// With fewer references than this the sample says nothing.
const SAMPLE_FROM: u64 = 4096;
/// Small packs are put together when there are this many.
const SMALL_PACKS: usize = 8;
/// New packs of one round.
const PACKS_PER_ROUND: usize = 8;

/// When records are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packing {
    /// A segment is packed if less of it is needed.
    pub live_percent_min: u64,
    /// The same when the disk is getting full.
    pub live_percent_min_pressed: u64,
    /// Largest length of a pack (a single record may be longer).
    pub pack_bytes_max: u64,
}

impl Default for Packing {
    fn default() -> Self {
        Self {
            live_percent_min: 25,
            live_percent_min_pressed: 60,
            pack_bytes_max: 64 << 20,
        }
    }
}

/// Files that a round removed and wrote.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Reclaimed {
    /// Segments that held nothing needed any more.
    pub segments_released: u64,
    /// Segments whose records were packed.
    pub segments_packed: u64,
    /// Packs that were written.
    pub packs_written: u64,
    /// Packs that were removed.
    pub packs_removed: u64,
    /// Records that were copied.
    pub records_copied: u64,
    /// Bytes of the removed files.
    pub bytes_copied: u64,
    /// References to places that neither a segment nor a pack has. There should never be any.
    pub lost: u64,
}

impl fmt::Display for Reclaimed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} segments released, {} packed ({} records, {} bytes), {} packs written, {} removed",
            self.segments_released,
            self.segments_packed,
            self.records_copied,
            self.bytes_copied,
            self.packs_written,
            self.packs_removed
        )?;
        if self.lost > 0 {
            write!(
                out,
                ", {} references to records that are nowhere",
                self.lost
            )
        } else {
            Ok(())
        }
    }
}

/// Needed part of a file.
#[derive(Clone, Copy, Default, Debug)]
struct Need {
    /// References to records in it; one record may have many.
    references: u64,
    /// Bytes of the records, once for each reference.
    bytes: u64,
    /// Bytes of the sampled records, each once.
    sampled: u64,
}

impl Need {
    fn add(&mut self, len: u32, is_sampled: bool) {
        self.references += 1;
        self.bytes += u64::from(len);
        self.sampled += if is_sampled { u64::from(len) } else { 0 };
    }

    /// Bytes of the records, as well as we know.
    fn estimate(&self) -> u64 {
        if self.references < SAMPLE_FROM {
            self.bytes
        } else {
            self.bytes.min(self.sampled * u64::from(SAMPLE))
        }
    }

    fn is_less_than(&self, percent: u64, of: u64) -> bool {
        self.estimate().saturating_mul(100) < of.saturating_mul(percent)
    }
}

/// Releases every segment that ends before `before` and holds nothing of `state`, and packs what is left of others.
///
/// Everything is durable where it goes before it is taken away where it was, so that it may stop anywhere.
pub fn reclaim<D: Disk>(
    inventory: &Inventory<D>,
    packs: &Packs<D>,
    state: &State,
    before: Place,
    packing: &Packing,
) -> Result<Reclaimed, ReadError> {
    let open = packs.all();
    let Needs {
        segments,
        of_segments,
        of_packs,
        lost,
    } = needs(state, inventory, &open);
    let done = Reclaimed {
        lost: lost.len() as u64,
        ..Reclaimed::default()
    };
    let mut round = Round {
        inventory,
        packs,
        state,
        packing,
        done,
    };

    let mut sparse = Vec::new();
    let is_pressed = inventory.fill().pressed;
    let percent = if is_pressed {
        packing.live_percent_min_pressed
    } else {
        packing.live_percent_min
    };
    for (segment, need) in segments
        .iter()
        .zip(&of_segments)
        .filter(|(segment, _)| segment.end_place <= before)
    {
        if need.references == 0 {
            round.release(segment)?;
            round.done.segments_released += 1;
        } else if need.is_less_than(percent, segment.bytes_used) {
            sparse.push((*segment, need.estimate()));
        }
    }
    // First what makes room, then what needs some.
    for (pack, _) in open
        .iter()
        .zip(&of_packs)
        .filter(|(_, need)| need.references == 0)
    {
        round.remove(pack.head.number)?;
    }
    round.pack_segments(&sparse)?;
    round.merge_packs(&open, &of_packs)?;
    Ok(round.done)
}

/// Places that a state needs.
pub(crate) struct Needs {
    /// All segments that are not written any more.
    pub segments: Vec<SegmentInfo>,
    of_segments: Vec<Need>,
    of_packs: Vec<Need>,
    pub lost: Vec<(u64, u32)>,
}

impl Needs {
    /// Whether segment or pack `at` has anything that is needed.
    pub fn segment(&self, at: usize) -> bool {
        self.of_segments
            .get(at)
            .is_some_and(|need| need.references > 0)
    }

    /// The same for a pack.
    pub fn pack(&self, at: usize) -> bool {
        self.of_packs
            .get(at)
            .is_some_and(|need| need.references > 0)
    }
}

/// Needed part of each segment and of each pack, without the current segment.
pub(crate) fn needs<D: Disk>(
    state: &State,
    inventory: &Inventory<D>,
    packs: &[Arc<Pack<D::File>>],
) -> Needs {
    let (segments, written_from) = inventory.layout();
    let mut of_segments = vec![Need::default(); segments.len()];
    let mut of_packs = vec![Need::default(); packs.len()];
    let mut lost = Vec::new();
    let mut sampled = HashSet::new();
    let mut latest = 0;
    for (place, len) in state.live().filter(|(place, _)| *place < written_from.0) {
        let is_sampled = is_sample(place) && sampled.insert(place);
        let need = match holder(&segments, place, &mut latest) {
            Some(at) => of_segments.get_mut(at),
            None => {
                let holder = packs.iter().rposition(|pack| pack.find(place).is_some());
                holder.and_then(|at| of_packs.get_mut(at))
            }
        };
        match need {
            Some(need) => need.add(len, is_sampled),
            None => lost.push((place, len)),
        }
    }
    Needs {
        segments,
        of_segments,
        of_packs,
        lost,
    }
}

/// Segment of a place; usually the one of the previous place.
fn holder(segments: &[SegmentInfo], place: u64, latest: &mut usize) -> Option<usize> {
    let has = |at: usize| {
        segments
            .get(at)
            .is_some_and(|segment| segment.first_place.0 <= place && place < segment.end_place.0)
    };
    if !has(*latest) {
        let at = segments.partition_point(|segment| segment.end_place.0 <= place);
        if !has(at) {
            return None;
        }
        *latest = at;
    }
    Some(*latest)
}

fn is_sample(place: u64) -> bool {
    place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SAMPLE.trailing_zeros()) == 0
}

struct Round<'a, D: Disk> {
    inventory: &'a Inventory<D>,
    packs: &'a Packs<D>,
    state: &'a State,
    packing: &'a Packing,
    done: Reclaimed,
}

impl<D: Disk> Round<'_, D> {
    fn release(&self, segment: &SegmentInfo) -> Result<(), ReadError> {
        self.inventory
            .release(segment.number)
            .map_err(ReadError::io(format!(
                "releasing segment {:016x}",
                segment.number
            )))
    }

    /// Packs what is left of sparse segments, several at a time, and releases them.
    fn pack_segments(&mut self, sparse: &[(SegmentInfo, u64)]) -> Result<(), ReadError> {
        let mut rest = sparse;
        for _ in 0..PACKS_PER_ROUND {
            let count = first_that_fit(
                rest.iter().map(|(_, bytes)| *bytes),
                self.packing.pack_bytes_max,
            );
            let (group, others) = rest.split_at(count.min(rest.len()));
            rest = others;
            if group.is_empty() {
                break;
            }
            let group: Vec<SegmentInfo> = group.iter().map(|(segment, _)| *segment).collect();
            let mut latest = 0;
            let needed = self.needed(|place| holder(&group, place, &mut latest).is_some());
            self.write_packs(&needed)?;
            for segment in &group {
                self.release(segment)?;
            }
            self.done.segments_packed += group.len() as u64;
        }
        Ok(())
    }

    /// Puts sparse and small packs together.
    fn merge_packs(
        &mut self,
        open: &[Arc<Pack<D::File>>],
        needs: &[Need],
    ) -> Result<(), ReadError> {
        let (mut merged, mut small) = (Vec::new(), Vec::new());
        for (pack, need) in open
            .iter()
            .zip(needs)
            .filter(|(_, need)| need.references > 0)
        {
            if need.is_less_than(
                50,
                pack.head
                    .bytes
                    .saturating_sub(thalweg_journal::head::HEAD_BYTES as u64),
            ) {
                merged.push((Arc::clone(pack), need.estimate()));
            } else if pack.head.bytes < self.packing.pack_bytes_max / SMALL_PACKS as u64 {
                small.push((Arc::clone(pack), need.estimate()));
            }
        }
        if small.len() >= SMALL_PACKS || (!merged.is_empty() && !small.is_empty()) {
            merged.append(&mut small);
        }
        let count = first_that_fit(
            merged.iter().map(|(_, bytes)| *bytes),
            self.packing.pack_bytes_max,
        );
        merged.truncate(count);
        if merged.is_empty() {
            return Ok(());
        }
        // Newest first: a record in two packs is needed in the newer one only, and found there.
        let needed = self.needed(|place| {
            if merged.iter().all(|(pack, _)| pack.find(place).is_none()) {
                return false;
            }
            let newest = open.iter().rev().find(|pack| pack.find(place).is_some());
            newest.is_some_and(|newest| merged.iter().any(|(pack, _)| Arc::ptr_eq(pack, newest)))
        });
        self.write_packs(&needed)?;
        for (pack, _) in &merged {
            self.remove(pack.head.number)?;
        }
        Ok(())
    }

    /// The records of the state whose places are wanted, each once, by rising place.
    fn needed(&self, mut is_wanted: impl FnMut(u64) -> bool) -> Vec<(u64, u32)> {
        let mut needed: Vec<(u64, u32)> = self
            .state
            .live()
            .filter(|(place, _)| is_wanted(*place))
            .collect();
        needed.sort_unstable();
        needed.dedup_by_key(|(place, _)| *place);
        needed
    }

    fn write_packs(&mut self, records: &[(u64, u32)]) -> Result<(), ReadError> {
        let mut rest = records;
        while !rest.is_empty() {
            let lengths = rest
                .iter()
                .map(|(_, len)| u64::from(*len) + crate::pack::LINE_BYTES as u64);
            let count = first_that_fit(lengths, self.packing.pack_bytes_max);
            let (these, others) = rest.split_at(count.min(rest.len()));
            rest = others;
            let inventory = self.inventory;
            let head = self.packs.write(these, &mut |place, len, into| {
                inventory.read(place, len, into)
            })?;
            self.done.packs_written += 1;
            self.done.records_copied += head.records;
            self.done.bytes_copied += these.iter().map(|(_, len)| u64::from(*len)).sum::<u64>();
        }
        Ok(())
    }

    fn remove(&mut self, number: u64) -> Result<(), ReadError> {
        match self.packs.remove(number) {
            Ok(()) => self.done.packs_removed += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(ReadError::io(format!("removing pack {number:016x}"))(error)),
        }
        Ok(())
    }
}

/// Number of packs from the front that are together no longer than `bytes_max`; one at least, if there is one.
fn first_that_fit(lengths: impl Iterator<Item = u64>, bytes_max: u64) -> usize {
    let mut sum = 0u64;
    let mut count = 0;
    for length in lengths {
        sum = sum.saturating_add(length);
        if count > 0 && sum > bytes_max {
            break;
        }
        count += 1;
    }
    count
}
