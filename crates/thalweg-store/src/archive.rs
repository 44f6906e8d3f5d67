//! Checkpoints and packs in a journal's directory, and the recovery of the state from them.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::sync::Arc;

use thalweg_journal::{
    Damage, Index, Inventory, Journal, OpenError, Options, Place, PlaceSource, ReadError,
    Recovered, ReplayFrom,
    disk::{Disk, QUARANTINE},
    take_lock,
};
use thalweg_records::State;

use crate::checkpoint::{self, CheckpointFault, CheckpointHead};
use crate::names;
use crate::pack::Packs;
use crate::reclaim::{Packing, Reclaimed, needs, reclaim};

/// Most warnings of a kind that are listed.
const WARNINGS_MAX: usize = 10;

/// A journal, opened with its state.
pub struct Loaded<D: Disk> {
    pub journal: Journal<D>,
    /// State after its records.
    pub state: State,
    /// Results of the journal's opening.
    pub recovered: Recovered,
    /// Checkpoints and packs, for the [`Checkpointer`](crate::Checkpointer).
    pub archive: Archive<D>,
    /// Warnings for the operator, in sentences.
    pub warnings: Vec<String>,
}

/// Opens the journal in `disk` and finds the state its records lead to: the newest checkpoint that can be read, and every
/// frame behind it.
pub fn load<D: Disk>(disk: D, options: Options) -> Result<Loaded<D>, OpenError> {
    let lock = take_lock(&disk)?;
    remove_unfinished(&disk)?;
    let mut found = find_checkpoint(&disk, options.repair)?;
    let mut state = std::mem::take(&mut found.state);
    let replay = found.readable.first().map(|head| head.replay);
    let mut unreadable = Vec::new();
    let (journal, mut recovered) =
        Journal::open_locked(disk.clone(), lock, options, replay, &mut |frame| {
            if let Err(fault) = state.apply_frame(frame.payload, frame.place.0) {
                let rest = frame
                    .place
                    .plus(frame.payload.len() as u64)
                    .since(Place(fault.place));
                unreadable.push(Damage {
                    file: disk.shown(&names::segment(Place(fault.place).number())),
                    offset: fault.place % Place::SPAN,
                    bytes: rest.unwrap_or(0),
                    first_index: frame.index,
                    last_index: Some(frame.index),
                    fault: format!("the frame is whole, and its records are not: {fault}"),
                    quarantine: None,
                });
            }
        })?;
    let mut warnings = found.warnings;
    match unreadable.first() {
        Some(damage) if !options.repair => return Err(OpenError::Damaged(damage.clone())),
        _ => recovered.quarantined.append(&mut unreadable),
    }
    let inventory = journal.inventory();
    let packs = Packs::open(
        &disk,
        inventory.journal(),
        options.repair,
        &mut recovered.quarantined,
    )?;
    let packs = Arc::new(packs);
    inventory.add_source(Arc::clone(&packs) as Arc<dyn PlaceSource>);

    let lost = needs(&state, &inventory, &packs.all()).lost;
    if let Some((place, _)) = lost.first().copied() {
        let place = Place(place);
        let damage = Damage {
            file: disk.shown(&names::segment(place.number())),
            offset: place.0 % Place::SPAN,
            bytes: lost.iter().map(|(_, len)| u64::from(*len)).sum(),
            first_index: 0,
            last_index: None,
            fault: format!(
                "{} references to messages that are in no segment and no pack, this the first",
                lost.len()
            ),
            quarantine: None,
        };
        if !options.repair {
            return Err(OpenError::Damaged(damage));
        }
        recovered.quarantined.push(damage);
        let lost: HashSet<u64> = lost.into_iter().map(|(place, _)| place).collect();
        state.forget(|place| lost.contains(&place));
    }
    if state.contradiction_count > 0 {
        warnings.push(format!(
            "{} records contradict what was written before them",
            state.contradiction_count
        ));
        warnings.extend(
            state
                .contradictions
                .iter()
                .take(WARNINGS_MAX)
                .map(ToString::to_string),
        );
    }
    recovered.quarantined.splice(0..0, found.quarantined);

    let mut archive = Archive {
        disk,
        packs,
        checkpoints: found.readable,
        superfluous: found.unreadable,
    };
    if !recovered.quarantined.is_empty() {
        // A skipped fault must not be met again, neither by the next opening nor by the next checkpoint.
        let written = checkpoint::write(&archive.disk, &state, journal.tip());
        let written = written.and_then(|head| archive.keep(head));
        let directory = archive.disk.shown("");
        written.map_err(OpenError::io(format!(
            "writing a checkpoint of what was repaired in {directory}"
        )))?;
    }
    archive.count_bytes(&inventory);
    Ok(Loaded {
        journal,
        state,
        recovered,
        archive,
        warnings,
    })
}

/// Removes what a crash left of checkpoints and packs that were being written.
fn remove_unfinished<D: Disk>(disk: &D) -> Result<(), OpenError> {
    let names = disk
        .list()
        .map_err(OpenError::io(format!("listing {}", disk.shown(""))))?;
    let is_unfinished = |name: &&String| {
        let finished = name.strip_suffix(names::NEW);
        let kinds = [names::CHECKPOINT, names::PACK];
        finished.is_some_and(|finished| {
            kinds
                .iter()
                .any(|kind| names::number_in(finished, kind).is_some())
        })
    };
    for name in names.iter().filter(is_unfinished) {
        let doing = || format!("removing {}, which was never finished", disk.shown(name));
        disk.unlink(name).map_err(OpenError::io(doing()))?;
    }
    Ok(())
}

/// Checkpoints that were found.
#[derive(Default)]
struct Found {
    state: State,
    readable: Vec<CheckpointHead>,
    unreadable: Vec<String>,
    warnings: Vec<String>,
    quarantined: Vec<Damage>,
}

/// Reads the newest checkpoint that can be read.
fn find_checkpoint<D: Disk>(disk: &D, repair: bool) -> Result<Found, OpenError> {
    let mut found = Found::default();
    let mut damages = Vec::new();
    for index in checkpoint::list(disk)? {
        if found.readable.is_empty() {
            match checkpoint::read(disk, index) {
                Ok((head, state)) => {
                    found.readable.push(head);
                    found.state = state;
                }
                Err(CheckpointFault::Refused(error)) => return Err(error),
                Err(CheckpointFault::Damaged(damage)) => {
                    damages.push(damage);
                    found.unreadable.push(names::checkpoint(index));
                }
            }
        } else if let Ok(head) = checkpoint::check(disk, index) {
            found.readable.push(head);
        } else {
            found.unreadable.push(names::checkpoint(index));
        }
    }
    if !found.readable.is_empty() {
        let words = |damage: Damage| {
            format!("{damage}. An older checkpoint was used, and nothing is missing")
        };
        found.warnings.extend(damages.into_iter().map(words));
        return Ok(found);
    }
    let Some(newest) = damages.first().cloned() else {
        return Ok(found);
    };
    if !repair {
        return Err(OpenError::Damaged(newest));
    }
    for (name, mut damage) in std::mem::take(&mut found.unreadable)
        .into_iter()
        .zip(damages)
    {
        let to = format!("{QUARANTINE}/{name}");
        let moved = disk.rename(&name, &to).and_then(|()| disk.sync_dir());
        moved.map_err(OpenError::io(format!(
            "moving {} to {QUARANTINE}/",
            disk.shown(&name)
        )))?;
        damage.quarantine = Some(disk.shown(&to));
        found.quarantined.push(damage);
    }
    Ok(found)
}

/// Why a checkpoint was not made, or what was not needed not taken away. Nothing is lost; it is tried again.
#[derive(Clone, Debug)]
pub struct CheckpointError {
    /// The step that failed, and the error.
    pub words: String,
    /// There was no room.
    pub is_full: bool,
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.words)
    }
}

impl std::error::Error for CheckpointError {}

impl From<ReadError> for CheckpointError {
    fn from(error: ReadError) -> Self {
        let is_full =
            matches!(&error, ReadError::Io { error, .. } if thalweg_journal::is_full(error));
        Self {
            words: error.to_string(),
            is_full,
        }
    }
}

impl CheckpointError {
    pub(crate) fn io(doing: String) -> impl FnOnce(io::Error) -> Self {
        move |error| Self {
            is_full: thalweg_journal::is_full(&error),
            words: format!("{doing}: {error}"),
        }
    }
}

/// Checkpoints and packs of a directory.
pub struct Archive<D: Disk> {
    disk: D,
    packs: Arc<Packs<D>>,
    /// Those that can be read, newest first.
    checkpoints: Vec<CheckpointHead>,
    /// Checkpoints that cannot be read; removed when there are two others.
    superfluous: Vec<String>,
}

/// The state as of a frame.
pub(crate) struct Folded {
    pub state: State,
    pub replay: ReplayFrom,
    /// Frames that the newest checkpoint does not include.
    pub frames: u64,
}

impl<D: Disk> Archive<D> {
    pub fn newest(&self) -> Option<CheckpointHead> {
        self.checkpoints.first().copied()
    }

    pub fn packs(&self) -> &Arc<Packs<D>> {
        &self.packs
    }

    /// The state as of frame `through`, from the newest checkpoint and the frames behind it.
    pub(crate) fn fold(
        &self,
        inventory: &Inventory<D>,
        through: Index,
    ) -> Result<Folded, CheckpointError> {
        let (mut state, from) = match self.newest() {
            None => (State::default(), ReplayFrom::start(inventory.journal())),
            Some(newest) => match checkpoint::read(&self.disk, newest.index()) {
                Ok((head, state)) => (state, head.replay),
                Err(fault) => {
                    return Err(CheckpointError {
                        words: fault.to_string(),
                        is_full: false,
                    });
                }
            },
        };
        let mut fault = None;
        let replay = inventory.read_frames(from, through, &mut |frame| {
            if fault.is_none() {
                fault = state.apply_frame(frame.payload, frame.place.0).err();
            }
        })?;
        match fault {
            Some(fault) => Err(CheckpointError {
                words: format!("folding records: {fault}"),
                is_full: false,
            }),
            None => Ok(Folded {
                state,
                replay,
                frames: replay.index.saturating_sub(from.index),
            }),
        }
    }

    /// Writes a checkpoint of the folded state, unless it is the newest one already.
    pub(crate) fn checkpoint(
        &mut self,
        folded: &Folded,
    ) -> Result<CheckpointHead, CheckpointError> {
        if let Some(newest) = self
            .newest()
            .filter(|newest| newest.index() == folded.replay.index.wrapping_sub(1))
        {
            return Ok(newest);
        }
        let mut written = checkpoint::write(&self.disk, &folded.state, folded.replay);
        if let Err(error) = &written
            && thalweg_journal::is_full(error)
            && let Some(older) = self.checkpoints.get(1).copied()
        {
            // The newer one was read to make this one, so that the older is the first thing to give up.
            let _ = self.disk.unlink(&older.name());
            self.checkpoints.truncate(1);
            written = checkpoint::write(&self.disk, &folded.state, folded.replay);
        }
        let doing = format!("writing a checkpoint in {}", self.disk.shown(""));
        let head = written.map_err(CheckpointError::io(doing.clone()))?;
        self.keep(head).map_err(CheckpointError::io(doing))?;
        Ok(head)
    }

    /// Keeps a new checkpoint and the one before it, and no others.
    fn keep(&mut self, head: CheckpointHead) -> io::Result<()> {
        self.superfluous.retain(|name| *name != head.name());
        self.checkpoints
            .retain(|known| known.index() != head.index());
        self.checkpoints.insert(0, head);
        if self.checkpoints.len() < 2 {
            return Ok(());
        }
        let old = self.checkpoints.split_off(2);
        let names = old
            .iter()
            .map(CheckpointHead::name)
            .chain(self.superfluous.drain(..));
        for name in names {
            match self.disk.unlink(&name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.disk.sync_dir()
    }

    /// Takes away what neither the state nor the older checkpoint needs. If there was no room for a new one, the only
    /// one there is will do: it was read a moment ago.
    pub(crate) fn reclaim(
        &self,
        inventory: &Inventory<D>,
        state: &State,
        packing: &Packing,
        is_full: bool,
    ) -> Result<Reclaimed, CheckpointError> {
        let only = self.checkpoints.first().filter(|_| is_full);
        let done = match self.checkpoints.get(1).or(only) {
            Some(older) => reclaim(inventory, &self.packs, state, older.replay.place, packing)?,
            None => Reclaimed::default(),
        };
        self.count_bytes(inventory);
        Ok(done)
    }

    fn count_bytes(&self, inventory: &Inventory<D>) {
        let checkpoints: u64 = self.checkpoints.iter().map(|head| head.bytes).sum();
        inventory.set_other_bytes(checkpoints + self.packs.bytes());
    }
}
