//! The spool on disk: a journal of entries and settlements.
//!
//! Everything is written at the newest end. The oldest segment is released when nothing in it is unsettled; when room gets
//! short, what is unsettled in the oldest is written again at the newest end first ([`super::room`]). So nothing in a
//! segment ever speaks of a message in a newer one, and the journal always is a stretch without holes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use thalweg_journal::{
    Batch, Disk as FileSystem, Inventory, Journal, Log, LogError, OpenError, Options, OsDisk, Place,
};

use super::records::{self, ENTRY_HEAD_BYTES, Record};
use super::{Recovered, Spool, SpoolError, SpoolStatus, WhenFull};
use crate::transport::MessageId;

/// So many identifiers are given away at a time, each time durably: a process that finds them given away goes on behind.
const RESERVE: u64 = 1 << 16;
/// Most bytes of a message besides its entry: a frame of its own and the record's head.
const OVERHEAD_BYTES: u64 = (48 + 8 + ENTRY_HEAD_BYTES) as u64;
/// Segments that only tidying may fill: otherwise there would be no way out of a full buffer.
const SEGMENTS_KEPT_FREE: u64 = 2;
/// When so many are settled that is written, though not made durable: a process that is killed leaves it to the system.
const SETTLED_LAZY: usize = 64;
/// So many ranges of settled messages go into one frame.
const RANGES_MAX: usize = 128;

/// Settings of a buffer on disk. May differ from one process to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSettings {
    /// Most bytes of its files, at least [`DiskSettings::BYTES_MIN`]. Messages, each counted with 69 bytes more than it
    /// has, may take half of that; the other half keeps the cost of compaction low. One message may take
    /// [`DiskSettings::entry_bytes_max`].
    pub bytes_max: u64,
    /// Action when the disk is full or fails.
    pub when_full: WhenFull,
    /// Go on without what was safe and is damaged now; the damaged bytes are copied to `quarantine/`. Otherwise a damaged
    /// buffer is not opened. A torn end, as a crash leaves it, is no damage.
    pub repair: bool,
}

impl DiskSettings {
    /// The smallest buffer there may be: 1 MiB.
    pub const BYTES_MIN: u64 = 1 << 20;

    /// Room for so many messages that have so many bytes together.
    pub fn for_messages(bytes: usize, messages: usize) -> Self {
        let bytes = (bytes as u64).saturating_add((messages as u64).saturating_mul(OVERHEAD_BYTES));
        DiskSettings {
            bytes_max: bytes.saturating_mul(2).max(Self::BYTES_MIN),
            ..DiskSettings::default()
        }
    }

    /// Size of a file: a sixteenth of the total, up to 8 MiB.
    fn segment_bytes(&self) -> u64 {
        (self.bytes_max / 16).min(8 << 20) & !4095
    }

    /// The longest entry that is taken, in bytes: a quarter of a file, so that what does not fit at its end is never much.
    pub fn entry_bytes_max(&self) -> usize {
        (self.segment_bytes() / 4) as usize
    }

    /// The longest frame of more than one entry.
    pub(super) fn frame_bytes_max(&self) -> usize {
        (self.segment_bytes() / 8) as usize
    }

    /// Above how many bytes of files nothing but tidying may begin another one.
    fn bytes_tight(&self) -> u64 {
        self.bytes_max - SEGMENTS_KEPT_FREE * self.segment_bytes()
    }

    /// Down to how many bytes of files it is worth tidying.
    pub(super) fn bytes_tidy(&self) -> u64 {
        self.bytes_tight() - self.segment_bytes()
    }
}

impl Default for DiskSettings {
    /// 64 MiB, refusing.
    fn default() -> Self {
        DiskSettings {
            bytes_max: 64 << 20,
            when_full: WhenFull::Refuse,
            repair: false,
        }
    }
}

/// A spool in a directory of its own.
pub struct Disk<D: FileSystem = OsDisk> {
    pub(super) journal: Journal<D>,
    pub(super) inventory: Arc<Inventory<D>>,
    pub(super) settings: DiskSettings,
    publisher: u64,
    recovered: Recovered,
    /// The last identifier that is given away, once what is written next is durable.
    reserved: MessageId,
    /// The last one that is given away on the disk.
    reserved_durable: MessageId,
    /// The reservation written since the last commit.
    written_state: Option<MessageId>,
    /// The number of the newest segment that says who we are, and of the newest that says so durably.
    state_in: u64,
    pub(super) state_durable_in: u64,
    /// All that is not settled, and how many bytes that is.
    pub(super) kept: BTreeMap<MessageId, Kept>,
    kept_bytes: u64,
    /// Number of unsettled entries in each segment, by the segment's number.
    pub(super) held: BTreeMap<u64, u64>,
    /// Settled and not yet written, and where the entry is.
    pub(super) settled: BTreeMap<MessageId, Place>,
    /// Entries that are not written: encoded, one after the other; and where in it each begins.
    gathered: Vec<u8>,
    gathered_ids: Vec<(MessageId, usize)>,
    /// Number of gathered entries that are settled already.
    gathered_dead: usize,
    /// Settlements were written since the last commit.
    has_lazy: bool,
    /// Entries that were written since the last commit.
    uncommitted: Vec<MessageId>,
    /// Gathered entries stay in memory, since they could not be written.
    is_stuck: bool,
    /// So many commits are let pass before the disk is tried again, and so many after the next failure.
    patience: (u32, u32),
    frame: Vec<u8>,
    /// Error of the last commit, or of a write since.
    trouble: String,
    /// Damage that was found on opening; never cleared.
    damage: String,
    has_failed: bool,
}

/// Where an unsettled message is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub len: u32,
    /// None while it is gathered.
    pub place: Option<Place>,
}

impl Disk<OsDisk> {
    /// Opens the buffer in a directory, which is made if it is not there. One process has it at a time.
    pub fn open(directory: impl Into<PathBuf>, settings: DiskSettings) -> Result<Self, SpoolError> {
        let directory: PathBuf = directory.into();
        let shown = directory.display().to_string();
        let disk = OsDisk::at(directory).map_err(|error| {
            SpoolError::Settings(format!(
                "{shown}: {error}. Name a directory in which this user may write"
            ))
        })?;
        Disk::open_on(disk, settings)
    }
}

impl<D: FileSystem> Disk<D> {
    /// The same on any file system.
    pub fn open_on(disk: D, settings: DiskSettings) -> Result<Self, SpoolError> {
        if settings.bytes_max < DiskSettings::BYTES_MIN {
            return Err(SpoolError::Settings(format!(
                "a buffer of {} bytes on disk is too small: give it at least {}",
                settings.bytes_max,
                DiskSettings::BYTES_MIN
            )));
        }
        let options = Options {
            segment_bytes: settings.segment_bytes(),
            spares: 1,
            bytes_max: settings.bytes_max,
            repair: settings.repair,
        };
        let mut found = Found::default();
        let (journal, opening) = Journal::open_oldest(disk.clone(), options, &mut |view| {
            found.take(view.place, view.payload);
        })
        .map_err(opened)?;
        if let Some(fault) = found.fault {
            return Err(SpoolError::Damaged(format!(
                "{}: {fault}. Give the buffer another directory",
                disk.shown("")
            )));
        }
        let (publisher, reserved) = match found.state {
            Some(state) => state,
            None => (random(&disk)?, 0),
        };
        let damage = opening.quarantined.first().map(|first| {
            format!(
                "{} stretches of the buffer were damaged, the first: {first}",
                opening.quarantined.len()
            )
        });
        let highest = found.entries.last_key_value().map_or(0, |(id, _)| *id);
        let reserved = reserved.max(highest);
        let mut spool = Disk {
            inventory: journal.inventory(),
            journal,
            settings,
            publisher,
            recovered: Recovered {
                publisher,
                next_sequence: reserved + 1,
            },
            reserved: reserved + RESERVE,
            reserved_durable: reserved,
            written_state: None,
            state_in: 0,
            state_durable_in: 0,
            kept: BTreeMap::new(),
            kept_bytes: 0,
            held: BTreeMap::new(),
            settled: BTreeMap::new(),
            gathered: Vec::new(),
            gathered_ids: Vec::new(),
            gathered_dead: 0,
            has_lazy: false,
            uncommitted: Vec::new(),
            is_stuck: false,
            patience: (0, 1),
            frame: Vec::new(),
            trouble: String::new(),
            damage: damage.unwrap_or_default(),
            has_failed: false,
        };
        for (id, (place, len)) in found.entries {
            spool.keep(
                id,
                Kept {
                    len,
                    place: Some(place),
                },
            );
        }
        // Publisher id and reserved numbers are durable before any message uses them.
        spool
            .write_gathered()
            .and_then(|()| spool.sync())
            .map_err(written)?;
        spool.tidy();
        Ok(spool)
    }

    /// Number of unsettled messages.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether every message is settled.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    fn keep(&mut self, id: MessageId, kept: Kept) {
        self.kept_bytes += u64::from(kept.len) + OVERHEAD_BYTES;
        if let Some(place) = kept.place {
            *self.held.entry(place.number()).or_default() += 1;
        }
        if let Some(old) = self.kept.insert(id, kept) {
            self.let_go(old);
        }
    }

    fn let_go(&mut self, old: Kept) {
        self.kept_bytes -= u64::from(old.len) + OVERHEAD_BYTES;
        if let Some(place) = old.place {
            self.release_hold(place);
        }
    }

    fn release_hold(&mut self, place: Place) {
        if let Some(count) = self.held.get_mut(&place.number()) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&place.number());
            }
        }
    }

    /// Notes where a message is now.
    pub(super) fn placed(&mut self, id: MessageId, place: Place) {
        let old = self.kept.get_mut(&id).map(|kept| kept.place.replace(place));
        if old.is_some() {
            *self.held.entry(place.number()).or_default() += 1;
        }
        if let Some(Some(old)) = old {
            self.release_hold(old);
        }
    }

    /// Whether nothing but tidying may begin another segment.
    fn is_tight(&self) -> bool {
        self.inventory.fill().bytes_used > self.settings.bytes_tight()
    }

    /// Whether an entry can be taken.
    fn admit(&self, id: MessageId, entry: &[u8]) -> Result<(), SpoolError> {
        if self.has_failed && self.settings.when_full == WhenFull::Refuse {
            return Err(SpoolError::Failed(self.trouble.clone()));
        }
        let limit = self.settings.entry_bytes_max();
        if entry.len() > limit {
            return Err(SpoolError::TooLarge {
                bytes: entry.len(),
                limit,
            });
        }
        if self.kept_bytes + entry.len() as u64 + OVERHEAD_BYTES > self.settings.bytes_max / 2 {
            return Err(SpoolError::Full(format!(
                "{}: the buffer is full: {} messages wait, and half of its {} bytes are for them. It takes more when the \
                 network is back or messages expire",
                self.inventory.disk().shown(""),
                self.kept.len(),
                self.settings.bytes_max
            )));
        }
        // An entry in memory only must not use identifiers that are not reserved on the disk.
        if self.is_stuck && id > self.reserved_durable {
            return Err(SpoolError::Full(format!(
                "{} (and no more messages are kept in memory only)",
                self.trouble
            )));
        }
        Ok(())
    }

    /// Writes gathered entries and settlements, not yet durably. After an error they are still gathered.
    fn write_gathered(&mut self) -> Result<(), LogError> {
        if self.gathered_dead > 0 {
            self.drop_dead();
        }
        let gathered = std::mem::take(&mut self.gathered);
        let ids = std::mem::take(&mut self.gathered_ids);
        let begin = |at: usize| {
            ids.get(at)
                .map_or(gathered.len(), |(_, entry)| entry - ENTRY_HEAD_BYTES)
        };
        let is_tight = !ids.is_empty() && self.is_tight();
        let mut done = 0;
        let mut result = Ok(());
        while result.is_ok() && (done < ids.len() || self.has_notes()) {
            let mut end = done;
            while end < ids.len()
                && !is_tight
                && (end == done || begin(end + 1) - begin(done) <= self.settings.frame_bytes_max())
            {
                end += 1;
            }
            if is_tight && !self.has_notes() {
                result = Err(LogError::Full(format!(
                    "{}: the buffer's files have reached their {} bytes",
                    self.inventory.disk().shown(""),
                    self.settings.bytes_max
                )));
                break;
            }
            let entries = gathered.get(begin(done)..begin(end)).unwrap_or_default();
            result = self.write_frame(entries, begin(done), ids.get(done..end).unwrap_or_default());
            if result.is_ok() {
                done = end;
            }
        }
        // The rest, as if it had been gathered alone.
        let from = begin(done);
        self.gathered_ids = ids
            .iter()
            .skip(done)
            .map(|(id, at)| (*id, at - from))
            .collect();
        self.gathered = gathered;
        self.gathered.drain(..from);
        result
    }

    /// Whether there is something to be written beside entries.
    fn has_notes(&self) -> bool {
        !self.settled.is_empty() || self.reserved > self.reserved_written()
    }

    /// Writes one frame: publisher and reservation, if changed; settlements; and entries, whose places in `gathered`
    /// begin at `base`.
    fn write_frame(
        &mut self,
        entries: &[u8],
        base: usize,
        ids: &[(MessageId, usize)],
    ) -> Result<(), LogError> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        let has_state = self.reserved > self.reserved_written();
        if has_state {
            records::push_state(self.publisher, self.reserved, &mut frame);
        }
        let (ranges, through) = self.settled_ranges();
        if !ranges.is_empty() {
            records::push_settled(&ranges, &mut frame);
        }
        let head = frame.len();
        frame.extend_from_slice(entries);
        let places = self.journal.append(&[Batch {
            shard: 0,
            payload: &frame,
        }]);
        self.frame = frame;
        let Some(place) = places?.first().copied() else {
            return Err(LogError::Full("no room for a frame".into()));
        };
        for (id, at) in ids {
            self.placed(*id, place.plus((head + at - base) as u64));
            self.uncommitted.push(*id);
        }
        if let Some(through) = through {
            self.settled = self.settled.split_off(&(through + 1));
        }
        if has_state {
            self.written_state = Some(self.reserved);
            self.state_in = place.number();
        }
        if place.number() != self.state_in {
            self.write_state()
        } else {
            Ok(())
        }
    }

    /// Says in the newest segment who we are, so that older ones may go.
    pub(super) fn write_state(&mut self) -> Result<(), LogError> {
        let mut state = Vec::with_capacity(32);
        records::push_state(self.publisher, self.reserved, &mut state);
        match self.journal.append(&[Batch {
            shard: 0,
            payload: &state,
        }]) {
            Ok(places) => {
                self.written_state = Some(self.reserved);
                self.state_in = places.first().map_or(self.state_in, |place| place.number());
                Ok(())
            }
            // Then older segments stay for now.
            Err(LogError::Full(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn reserved_written(&self) -> MessageId {
        self.written_state.unwrap_or(self.reserved_durable)
    }

    /// Makes durable what was written.
    pub(super) fn sync(&mut self) -> Result<(), LogError> {
        self.journal.commit()?;
        self.reserved_durable = self.reserved_written();
        self.written_state = None;
        self.state_durable_in = self.state_in;
        self.uncommitted.clear();
        self.has_lazy = false;
        if let Some(words) = self.journal.take_mended() {
            self.trouble = words;
        }
        Ok(())
    }

    /// The first of the settled ones as ranges, and the last of those. A gap between two of them that has no kept entry
    /// is empty, so the range may cover it.
    fn settled_ranges(&self) -> (Vec<(MessageId, MessageId)>, Option<MessageId>) {
        let mut ranges: Vec<(MessageId, MessageId)> = Vec::new();
        for id in self.settled.keys().copied() {
            let is_all = ranges.len() == RANGES_MAX;
            match ranges.last_mut() {
                Some((_, last)) if self.kept.range(*last..=id).next().is_none() => *last = id,
                _ if is_all => break,
                _ => ranges.push((id, id)),
            }
        }
        let through = ranges.last().map(|(_, last)| *last);
        (ranges, through)
    }

    /// Forgets what was taken since the last commit.
    fn forget_uncommitted(&mut self) {
        for (id, _) in std::mem::take(&mut self.gathered_ids) {
            if let Some(old) = self.kept.remove(&id) {
                self.let_go(old);
            }
        }
        self.gathered.clear();
        self.gathered_dead = 0;
        for id in std::mem::take(&mut self.uncommitted) {
            // It is in a file, and may be found there: so it has to be said that it does not count.
            self.settled(id);
        }
    }

    /// Writing did not work: what was gathered stays in memory, or is forgotten.
    fn could_not_write(&mut self, error: LogError) -> Result<(), SpoolError> {
        let error = written(error);
        self.has_failed |= matches!(error, SpoolError::Failed(_));
        self.trouble = error.to_string();
        if self.settings.when_full == WhenFull::Refuse {
            self.forget_uncommitted();
            return Err(error);
        }
        self.is_stuck = true;
        let (_, next) = self.patience;
        self.patience = (next, (next * 2).min(64));
        Ok(())
    }

    /// Removes settled entries from the gathered ones.
    fn drop_dead(&mut self) {
        let mut left = Vec::with_capacity(self.gathered.len());
        let entries = self.gathered_ids.iter().filter_map(|(id, at)| {
            let kept = self.kept.get(id).filter(|kept| kept.place.is_none())?;
            let entry = self.gathered.get(*at..*at + kept.len as usize)?;
            Some((*id, records::push_entry(*id, entry, &mut left)))
        });
        self.gathered_ids = entries.collect();
        self.gathered = left;
        self.gathered_dead = 0;
    }

    /// Number of messages that are in memory although they should be on the disk.
    fn unsaved(&self) -> usize {
        let lost = if self.has_failed {
            self.uncommitted.len()
        } else {
            0
        };
        if self.is_stuck || self.has_failed {
            self.gathered_ids.len() - self.gathered_dead + lost
        } else {
            0
        }
    }
}

impl<D: FileSystem> Spool for Disk<D> {
    fn append(&mut self, id: MessageId, entry: &[u8]) -> Result<(), SpoolError> {
        self.admit(id, entry)?;
        if id.saturating_add(RESERVE / 2) > self.reserved {
            self.reserved = id.saturating_add(RESERVE);
        }
        // Many entries in one turn: a frame of sufficient length is written now. An error is reported by the commit.
        if !self.is_stuck
            && self.gathered.len() + entry.len() > self.settings.frame_bytes_max()
            && let Err(error) = self.write_gathered()
        {
            self.trouble = error.to_string();
        }
        let at = records::push_entry(id, entry, &mut self.gathered);
        self.gathered_ids.push((id, at));
        self.keep(
            id,
            Kept {
                len: entry.len() as u32,
                place: None,
            },
        );
        Ok(())
    }

    fn settled(&mut self, id: MessageId) {
        let Some(old) = self.kept.remove(&id) else {
            return;
        };
        self.let_go(old);
        if let Some(place) = old.place {
            self.settled.insert(id, place);
            if self.settled.len() >= SETTLED_LAZY
                && self.gathered_ids.is_empty()
                && !self.is_stuck
                && !self.has_failed
            {
                // An error is reported by the commit.
                let _ = self.write_gathered();
                self.has_lazy = true;
            }
            return;
        }
        self.gathered_dead += 1;
        if self.gathered_dead * 2 > self.gathered_ids.len() {
            self.drop_dead();
        }
    }

    fn commit(&mut self) -> Result<(), SpoolError> {
        if self.is_stuck && self.patience.0 > 0 {
            self.patience.0 -= 1;
            return Ok(());
        }
        if !self.gathered_ids.is_empty() && self.is_tight() {
            self.tidy();
        }
        // The commit sets its own error; a disk that failed for good is not tried again.
        if !self.has_failed {
            self.trouble.clear();
        }
        if let Err(error) = self.write_gathered().and_then(|()| self.sync()) {
            return self.could_not_write(error);
        }
        self.is_stuck = false;
        self.patience = (0, 1);
        self.tidy();
        Ok(())
    }

    fn recover(&mut self, each: &mut dyn FnMut(MessageId, &[u8])) -> Result<Recovered, SpoolError> {
        let mut entry = Vec::new();
        for (id, kept) in &self.kept {
            let Some(place) = kept.place else { continue };
            let read = self.inventory.read(place, kept.len, &mut entry);
            read.map_err(|error| SpoolError::Damaged(error.to_string()))?;
            each(*id, &entry);
        }
        Ok(self.recovered)
    }

    fn is_lasting(&self) -> bool {
        true
    }

    fn is_dirty(&self) -> bool {
        !self.settled.is_empty() || self.has_lazy || self.is_stuck
    }

    fn is_behind(&self) -> bool {
        self.is_stuck
    }

    fn status(&self) -> SpoolStatus {
        let fill = self.inventory.fill();
        let unsaved = self.unsaved() as u64;
        SpoolStatus {
            bytes_used: fill.bytes_used + fill.bytes_spare,
            bytes_max: self.settings.bytes_max,
            kept: (self.kept.len() as u64).saturating_sub(unsaved),
            unsaved,
            trouble: self.trouble().to_owned(),
        }
    }

    fn trouble(&self) -> &str {
        if self.trouble.is_empty() {
            &self.damage
        } else {
            &self.trouble
        }
    }
}

impl<D: FileSystem> Drop for Disk<D> {
    /// An orderly end leaves on record what is settled, and that all of it was durable.
    fn drop(&mut self) {
        if !self.has_failed {
            let _ = self.commit();
            let _ = self.journal.mark();
        }
    }
}

/// Contents of the frames that an opening has read.
#[derive(Default)]
struct Found {
    state: Option<(u64, MessageId)>,
    entries: BTreeMap<MessageId, (Place, u32)>,
    fault: Option<&'static str>,
}

impl Found {
    fn take(&mut self, frame: Place, payload: &[u8]) {
        let read = records::read(payload, &mut |record| match record {
            Record::State {
                publisher,
                reserved,
            } => self.state = Some((publisher, reserved)),
            Record::Entry { id, at, entry } => {
                self.entries
                    .insert(id, (frame.plus(at as u64), entry.len() as u32));
            }
            Record::Settled { first, last } => {
                // Not one by one: a range says nothing of how many were in it.
                while let Some((id, _)) = self.entries.range(first..=last.max(first)).next() {
                    let id = *id;
                    self.entries.remove(&id);
                }
            }
        });
        if let Err(fault) = read {
            self.fault.get_or_insert(fault);
        }
    }
}

fn random<D: FileSystem>(disk: &D) -> Result<u64, SpoolError> {
    disk.random().map_err(|error| {
        SpoolError::Settings(format!("asking the system for a random number: {error}"))
    })
}

fn opened(error: OpenError) -> SpoolError {
    match error {
        OpenError::Locked { directory, holder } => SpoolError::Locked(format!(
            "{directory}: {holder} has this buffer open. Each client needs a directory of its own"
        )),
        OpenError::Damaged(damage) => SpoolError::Damaged(format!(
            "{damage}. They were safe, so the buffer is not opened without them by itself: set `repair`, and the damaged \
             bytes are put aside"
        )),
        OpenError::Full { directory, error } => SpoolError::Full(format!(
            "{directory}: no room for the smallest segment ({error}). Make room on this disk"
        )),
        OpenError::File { .. } | OpenError::OtherJournal { .. } => {
            SpoolError::Damaged(error.to_string())
        }
        _ => SpoolError::Settings(error.to_string()),
    }
}

fn written(error: LogError) -> SpoolError {
    match error {
        LogError::Full(words) => SpoolError::Full(words),
        error => SpoolError::Failed(error.to_string()),
    }
}
