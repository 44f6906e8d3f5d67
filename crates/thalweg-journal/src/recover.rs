//! Opening: which segments make up the journal, and up to where their frames can be believed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, QUARANTINE};
use crate::error::{Damage, DroppedTail, FileFault, OpenError};
use crate::frame::HEADER_BYTES;
use crate::head::HEAD_BYTES;
use crate::inventory::{Inventory, ReplayFrom, Segment};
use crate::log::{FrameView, Index, Place};
use crate::names;
use crate::options::Options;
use crate::reader::{Expected, Found, FrameFault, FrameReader};
use crate::segment::{Ending, SegmentHead};

/// Results of an opening.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Recovered {
    /// Id of the journal.
    pub journal: u128,
    /// True if there was none and this one was begun.
    pub is_new: bool,
    /// Number of replayed frames.
    pub frames: u64,
    /// Bytes of records in them.
    pub bytes: u64,
    pub epoch: u32,
    /// The last frame there is.
    pub last_index: Index,
    /// The dropped end, if any frame in it could be recognised.
    pub dropped_tail: Option<DroppedTail>,
    /// Damage that a repair skipped. Make a checkpoint at once: until then, the next opening meets it again.
    pub quarantined: Vec<Damage>,
}

/// A journal that was read and can be written on.
pub(crate) struct Recovery<D: Disk> {
    pub inventory: Inventory<D>,
    pub recovered: Recovered,
    pub before: Ending,
    /// The number for the next segment.
    pub number: u64,
    /// Spares that cannot be used: of another size than is wanted now, or unfinished.
    pub unfit: Vec<(String, u64)>,
    /// Segments that are not part of it, to be taken away when the next segment is begun.
    pub superfluous: Vec<(String, u64)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    /// With the first frame there ever was.
    First,
    /// Behind what a checkpoint covers.
    At(ReplayFrom),
    /// With the oldest segment that is there.
    Oldest,
}

impl From<Option<ReplayFrom>> for Start {
    fn from(replay_from: Option<ReplayFrom>) -> Self {
        replay_from.map_or(Self::First, Self::At)
    }
}

/// Reads the journal and shows its frames from `start` on. Changes nothing but what `repair` allows.
pub(crate) fn recover<D: Disk>(
    disk: &D,
    options: Options,
    start: Start,
    show: &mut dyn FnMut(FrameView<'_>),
) -> Result<Recovery<D>, OpenError> {
    let mut replay_from = match start {
        Start::At(from) => Some(from),
        Start::First | Start::Oldest => None,
    };
    let mut walk = Walk {
        disk,
        repair: options.repair,
        expected: Expected { index: 1, hash: 0 },
        recovered: Recovered::default(),
        is_muted: false,
        show,
    };
    let Listing {
        mut files,
        spares,
        unfit,
        highest,
        newest,
        highest_spare,
    } = walk.list(options.segment_bytes)?;
    let journal = one_journal(disk, &files, replay_from)?;
    walk.recovered.journal = match journal {
        Some(journal) => journal,
        None => random_id(disk)?,
    };
    walk.recovered.is_new =
        files.is_empty() && replay_from.is_none() && walk.recovered.quarantined.is_empty();
    walk.recovered.epoch = files
        .values()
        .next_back()
        .map_or(0, |file| file.head.epoch)
        .saturating_add(1);
    let mut superfluous = take_skipped(disk, &mut files)?;
    if let (Start::Oldest, Some(oldest)) = (start, files.values().next()) {
        replay_from = Some(ReplayFrom {
            journal: oldest.head.journal,
            index: oldest.head.first_index(),
            place: oldest.head.place(SegmentHead::FRAMES_AT),
            hash: oldest.head.before.hash,
        });
    }
    let mut before = walk.frames(&files, replay_from)?;

    let newest = disk.shown(&newest);
    for damage in walk
        .recovered
        .quarantined
        .iter_mut()
        .filter(|known| known.first_index == 0 && known.file == newest)
    {
        // Nothing behind it says how many frames it had.
        damage.first_index = before.last_index.wrapping_add(1);
    }

    // A newest segment without any frame that counts is not needed, and openings that fail must not leave a trail of them.
    if let Some(last) = files.last_entry()
        && last.get().head.number == before.number
        && before.length == SegmentHead::FRAMES_AT
        && last.get().head.before.last_index == before.last_index
    {
        let last = last.remove();
        before = last.head.before;
        superfluous.push((names::segment(last.head.number), last.bytes_file));
    }
    let highest = highest.max(replay_from.map_or(0, |from| from.place.number()));
    walk.recovered.last_index = before.last_index;
    let inventory = Inventory::new(
        disk.clone(),
        walk.recovered.journal,
        options,
        spares,
        highest_spare,
    );
    let successors: Vec<u64> = files
        .values()
        .skip(1)
        .map(|file| file.head.before.number)
        .collect();
    for (at, (number, mut file)) in files.into_iter().enumerate() {
        // Nothing says where this one ended, if what came behind it was released; the newest is not sealed yet.
        if successors.get(at).is_some_and(|before| *before != number) {
            file.end = Some(file.bytes_file);
        }
        inventory.add(file);
    }
    Ok(Recovery {
        inventory,
        recovered: walk.recovered,
        before,
        number: highest + 1,
        unfit,
        superfluous,
    })
}

struct Listing<F> {
    files: BTreeMap<u64, Segment<F>>,
    spares: Vec<String>,
    /// Spares that cannot be used, and how long they are.
    unfit: Vec<(String, u64)>,
    /// The highest number that any place may have so far.
    highest: u64,
    /// The newest segment's name, sound or not.
    newest: String,
    /// The highest number of any spare.
    highest_spare: u64,
}

struct Walk<'a, D: Disk> {
    disk: &'a D,
    repair: bool,
    expected: Expected,
    recovered: Recovered,
    /// Set while replaying frames that the checkpoint covers.
    is_muted: bool,
    show: &'a mut dyn FnMut(FrameView<'_>),
}

impl<D: Disk> Walk<'_, D> {
    /// Opens every segment and reads its head.
    fn list(&mut self, segment_bytes: u64) -> Result<Listing<D::File>, OpenError> {
        let directory = self.disk.shown("");
        let mut listing = Listing {
            files: BTreeMap::new(),
            spares: Vec::new(),
            unfit: Vec::new(),
            highest: 0,
            newest: String::new(),
            highest_spare: 0,
        };
        for name in self
            .disk
            .list()
            .map_err(OpenError::io(format!("listing {directory}")))?
        {
            if let Some(number) = names::number_in(&name, names::SPARE) {
                listing.highest_spare = listing.highest_spare.max(number);
                let file = self.open(&name)?;
                let bytes = self.length(&file, &name)?;
                let is_shared = file
                    .is_shared()
                    .map_err(OpenError::io(format!("looking at {name}")))?;
                // One that a backup has a link to must not be written: we died before we removed it.
                if bytes == segment_bytes && !is_shared {
                    listing.spares.push(name);
                } else {
                    listing.unfit.push((name, bytes));
                }
            } else if name.starts_with(names::SEGMENT) {
                let Some(number) =
                    names::number_in(&name, names::SEGMENT).filter(|number| *number > 0)
                else {
                    return Err(OpenError::File {
                        file: self.disk.shown(&name),
                        fault: FileFault::Foreign,
                    });
                };
                // Names of equal length are in the order of their numbers.
                listing.newest = listing.newest.max(name.clone());
                let file = self.open(&name)?;
                let bytes_file = self.length(&file, &name)?;
                let span = bytes_file.div_ceil(Place::SPAN).max(1);
                listing.highest = listing.highest.max(number.saturating_add(span - 1));
                if let Some(head) = self.head(&file, &name, number, bytes_file)? {
                    if bytes_file < head.bytes_file {
                        // Nothing of ours cuts a file, and behind the cut may have been what says that something is missing.
                        self.damage(
                            cut_short(self.disk.shown(&name), bytes_file, head.bytes_file),
                            None,
                        )?;
                    }
                    let segment = Segment {
                        head,
                        file: Arc::new(file),
                        bytes_file,
                        end: None,
                        last_index: None,
                    };
                    listing.files.insert(number, segment);
                }
            }
        }
        listing.spares.sort_unstable();
        Ok(listing)
    }

    /// The head of a segment; nothing if it is damaged and was taken out.
    fn head(
        &mut self,
        file: &D::File,
        name: &str,
        number: u64,
        bytes_file: u64,
    ) -> Result<Option<SegmentHead>, OpenError> {
        let mut bytes = [0; HEAD_BYTES];
        let shown = self.disk.shown(name);
        let count = file
            .read_full(&mut bytes, 0)
            .map_err(OpenError::io(format!("reading {shown}")))?;
        match SegmentHead::read(bytes.get(..count).unwrap_or_default(), number) {
            Ok(head) => Ok(Some(head)),
            Err(FileFault::Damaged) if self.repair => {
                let to = format!("{QUARANTINE}/{name}");
                let moved = self
                    .disk
                    .rename(name, &to)
                    .and_then(|()| self.disk.sync_dir());
                moved.map_err(OpenError::io(format!("moving {shown} to {QUARANTINE}/")))?;
                self.recovered.quarantined.push(Damage {
                    file: shown,
                    offset: 0,
                    bytes: bytes_file,
                    first_index: 0,
                    last_index: None,
                    fault: "the head of the file does not match its checksum".to_owned(),
                    quarantine: Some(self.disk.shown(&to)),
                });
                Ok(None)
            }
            Err(fault) => Err(OpenError::File { file: shown, fault }),
        }
    }

    /// Walks through all frames from `replay_from` on; where the journal ends.
    fn frames(
        &mut self,
        files: &BTreeMap<u64, Segment<D::File>>,
        replay_from: Option<ReplayFrom>,
    ) -> Result<Ending, OpenError> {
        let mut offset = SegmentHead::FRAMES_AT;
        let mut first = files.keys().next().copied();
        if let Some(from) = replay_from {
            self.expected = Expected {
                index: from.index,
                hash: from.hash,
            };
            // The newest segment that begins no later; a segment without frames begins where its successor does.
            let holder = files
                .values()
                .rev()
                .find(|segment| segment.head.first_index() <= from.index);
            first = holder.map(|segment| segment.head.number).or(first);
            if let Some(segment) = holder
                && let Some(at) = from.place.since(segment.head.place(0))
                && (SegmentHead::FRAMES_AT..=segment.bytes_file).contains(&at)
            {
                offset = at;
            }
        }
        let mut ending = Ending {
            number: 0,
            length: 0,
            last_index: self.expected.index.saturating_sub(1),
            hash: self.expected.hash,
        };
        let Some(first) = first else {
            if replay_from.is_some() {
                let number = replay_from.map_or(0, |from| from.place.number());
                self.damage(self.missing_segment(number, None), None)?;
            }
            return Ok(ending);
        };
        for (number, segment) in files.range(first..) {
            let head = &segment.head;
            let begins = Expected {
                index: head.first_index(),
                hash: head.before.hash,
            };
            let in_the_middle = *number == first && offset > SegmentHead::FRAMES_AT;
            let next = files
                .range(number + 1..)
                .next()
                .map(|(_, next)| &next.head.before);
            if !in_the_middle && begins.index < self.expected.index {
                // The segment in which replay should go on is not there.
                if next.is_none() {
                    ending = self.covered(segment)?;
                }
                continue;
            }
            if !in_the_middle && begins != self.expected {
                let last = begins.index.saturating_sub(1);
                self.damage(self.missing_segment(head.before.number, Some(last)), None)?;
                self.expected = begins;
            }
            ending = match next.filter(|before| before.number == *number) {
                Some(before) => self.sealed(segment, offset, before)?,
                None => self.open_ended(segment, offset, next.is_none())?,
            };
            offset = SegmentHead::FRAMES_AT;
        }
        Ok(ending)
    }

    /// The newest segment, if it ends before the frame where replay should go on.
    fn covered(&mut self, segment: &Segment<D::File>) -> Result<Ending, OpenError> {
        self.damage(self.missing_segment(segment.head.number + 1, None), None)?;
        let goes_on = self.expected;
        self.expected = Expected {
            index: segment.head.first_index(),
            hash: segment.head.before.hash,
        };
        self.is_muted = true;
        let ending = self.open_ended(segment, SegmentHead::FRAMES_AT, true);
        self.is_muted = false;
        self.expected = goes_on;
        Ok(Ending {
            last_index: goes_on.index.saturating_sub(1),
            hash: goes_on.hash,
            ..ending?
        })
    }

    /// Frames of a segment whose successor says where it ended: all of them are durable.
    fn sealed(
        &mut self,
        segment: &Segment<D::File>,
        offset: u64,
        end: &Ending,
    ) -> Result<Ending, OpenError> {
        let ends = Expected {
            index: end.last_index.wrapping_add(1),
            hash: end.hash,
        };
        let mut reader = FrameReader::new(&*segment.file, segment.head.seed(), offset, end.length);
        while let Some((at, fault)) = self.run(segment, &mut reader)? {
            let resumes = self.resume(segment, &mut reader, at)?;
            let last_index = resumes.map_or(end.last_index, |(_, expected)| {
                expected.index.saturating_sub(1)
            });
            let until = resumes.map_or(end.length, |(until, _)| until);
            let damage = self.stretch(segment, at, until, last_index, &fault);
            self.damage(damage, Some((segment, at, until)))?;
            match resumes {
                Some((until, expected)) => {
                    self.expected = expected;
                    reader.seek(until);
                }
                None => self.expected = ends,
            }
            if resumes.is_none() {
                return Ok(*end);
            }
        }
        if self.expected != ends {
            let fault = "frames are missing at its end".to_owned();
            let at = reader.offset();
            let damage = self.stretch(
                segment,
                at,
                end.length,
                end.last_index,
                &FrameFault::NoHeader,
            );
            self.damage(Damage { fault, ..damage }, None)?;
            self.expected = ends;
        }
        Ok(*end)
    }

    /// Frames of a segment that nothing says the end of: the newest, of which the last frames may be torn, or one whose
    /// successor is missing.
    fn open_ended(
        &mut self,
        segment: &Segment<D::File>,
        offset: u64,
        is_newest: bool,
    ) -> Result<Ending, OpenError> {
        let mut reader = FrameReader::new(
            &*segment.file,
            segment.head.seed(),
            offset,
            segment.bytes_file,
        );
        while let Some((at, fault)) = self.run(segment, &mut reader)? {
            let tail = self.tail(segment, &mut reader, at)?;
            let resumes = self.resume(segment, &mut reader, at)?;
            if !is_newest && resumes.is_none() {
                // The next existing segment shows how many frames are missing.
                reader.seek(at);
                break;
            }
            if is_newest && tail.durable_through < self.expected.index {
                reader.seek(at);
                // Neither this frame nor any behind it was ever confirmed as durable.
                if tail.frames_seen > 0 {
                    self.recovered.dropped_tail = Some(DroppedTail {
                        file: self.shown(segment),
                        offset: at,
                        first_index: self.expected.index,
                        frames_seen: tail.frames_seen,
                        bytes: tail.end.saturating_sub(at),
                        fault: fault.words(),
                    });
                }
                break;
            }
            let until = resumes.map_or(tail.end, |(until, _)| until);
            let last_index = resumes.map_or(tail.durable_through, |(_, expected)| {
                expected.index.saturating_sub(1)
            });
            let damage = self.stretch(segment, at, until, last_index, &fault);
            self.damage(damage, Some((segment, at, until)))?;
            reader.seek(until);
            match resumes {
                Some((_, expected)) => self.expected = expected,
                None => {
                    // The numbers of lost frames are not given to others.
                    self.expected = Expected {
                        index: last_index.wrapping_add(1),
                        hash: 0,
                    };
                    break;
                }
            }
        }
        // The frames may be in memory only, if the process died and the machine did not.
        let syncing = || format!("syncing {}", self.shown(segment));
        segment.file.sync_data().map_err(|error| OpenError::Io {
            doing: syncing(),
            error,
        })?;
        Ok(Ending {
            number: segment.head.number,
            length: reader.offset(),
            last_index: self.expected.index.wrapping_sub(1),
            hash: self.expected.hash,
        })
    }

    /// Replays frames up to the first fault; returns its place and kind.
    fn run(
        &mut self,
        segment: &Segment<D::File>,
        reader: &mut FrameReader<'_, D::File>,
    ) -> Result<Option<(u64, FrameFault)>, OpenError> {
        loop {
            let at = reader.offset();
            match reader
                .next(&mut self.expected)
                .map_err(|error| self.reading(segment, error))?
            {
                Found::Frame(..) if self.is_muted => {}
                Found::Frame(at, header, payload) => {
                    self.recovered.frames += 1;
                    self.recovered.bytes += payload.len() as u64;
                    (self.show)(FrameView {
                        index: header.index,
                        epoch: header.epoch,
                        shard: header.shard,
                        place: segment.head.place(at + HEADER_BYTES as u64),
                        payload,
                    });
                }
                Found::End => return Ok(None),
                Found::Fault(fault) => return Ok(Some((at, fault))),
            }
        }
    }

    /// Describes the recognisable frames after a fault.
    fn tail(
        &self,
        segment: &Segment<D::File>,
        reader: &mut FrameReader<'_, D::File>,
        at: u64,
    ) -> Result<Tail, OpenError> {
        let mut tail = Tail {
            durable_through: 0,
            frames_seen: 0,
            end: at,
        };
        let mut from = at;
        while let Some((found, header)) = reader
            .next_header(from)
            .map_err(|error| self.reading(segment, error))?
        {
            tail.durable_through = tail.durable_through.max(header.durable_through);
            tail.frames_seen += 1;
            tail.end = (found + header.frame_bytes() as u64).min(segment.bytes_file);
            from = found + HEADER_BYTES as u64;
        }
        Ok(tail)
    }

    /// Finds the first whole frame after a fault that comes later than the missing one: its place, and the properties
    /// expected there.
    fn resume(
        &self,
        segment: &Segment<D::File>,
        reader: &mut FrameReader<'_, D::File>,
        at: u64,
    ) -> Result<Option<(u64, Expected)>, OpenError> {
        let mut from = at;
        while let Some((found, header)) = reader
            .next_header(from)
            .map_err(|error| self.reading(segment, error))?
        {
            let mut expected = Expected {
                index: header.index,
                hash: header.prev_hash,
            };
            let resumes = expected;
            if header.index >= self.expected.index
                && (found > at || header.index > self.expected.index)
            {
                reader.seek(found);
                let next = reader
                    .next(&mut expected)
                    .map_err(|error| self.reading(segment, error))?;
                if matches!(next, Found::Frame(..)) {
                    return Ok(Some((found, resumes)));
                }
            }
            from = found + HEADER_BYTES as u64;
        }
        Ok(None)
    }

    /// Lists a damage and keeps a copy of the bytes, if that is allowed; otherwise this is the end.
    fn damage(
        &mut self,
        mut damage: Damage,
        stretch: Option<(&Segment<D::File>, u64, u64)>,
    ) -> Result<(), OpenError> {
        if !self.repair {
            return Err(OpenError::Damaged(damage));
        }
        let same_file = self
            .recovered
            .quarantined
            .iter_mut()
            .find(|known| known.file == damage.file);
        if let (None, Some(known)) = (stretch, same_file.filter(|known| known.first_index == 0)) {
            // Its head was damaged; now we know what was in it.
            (known.first_index, known.last_index) = (damage.first_index, damage.last_index);
            return Ok(());
        }
        if let Some((segment, at, until)) = stretch {
            damage.quarantine = Some(self.copy_out(segment, at, until)?);
        }
        self.recovered.quarantined.push(damage);
        Ok(())
    }

    fn copy_out(
        &self,
        segment: &Segment<D::File>,
        at: u64,
        until: u64,
    ) -> Result<String, OpenError> {
        let name = format!(
            "{QUARANTINE}/{}.{at:08x}",
            names::segment(segment.head.number)
        );
        let shown = self.disk.shown(&name);
        // An earlier repair that got no further than this left the same bytes there.
        let _ = self.disk.unlink(&name);
        let copying = self.disk.create(&name).and_then(|copy| {
            let mut buffer = vec![0; 1 << 20];
            let mut from = at;
            while from < until {
                let wanted = buffer.len().min((until - from) as usize);
                let count = segment
                    .file
                    .read_full(buffer.get_mut(..wanted).unwrap_or_default(), from)?;
                if count == 0 {
                    break;
                }
                copy.write_full(buffer.get(..count).unwrap_or_default(), from - at)?;
                from += count as u64;
            }
            copy.sync_data()?;
            self.disk.sync_dir()
        });
        copying.map_err(OpenError::io(format!("copying damaged bytes to {shown}")))?;
        Ok(shown)
    }

    fn stretch(
        &self,
        segment: &Segment<D::File>,
        at: u64,
        until: u64,
        last_index: Index,
        fault: &FrameFault,
    ) -> Damage {
        Damage {
            file: self.shown(segment),
            offset: at,
            bytes: until.saturating_sub(at),
            first_index: self.expected.index,
            last_index: Some(last_index.max(self.expected.index)),
            fault: fault.words(),
            quarantine: None,
        }
    }

    fn missing_segment(&self, number: u64, last_index: Option<Index>) -> Damage {
        Damage {
            file: self.disk.shown(&names::segment(number)),
            offset: 0,
            bytes: 0,
            first_index: self.expected.index,
            last_index,
            fault: "the file that had them is not there, or does not fit to its neighbours"
                .to_owned(),
            quarantine: None,
        }
    }

    fn open(&self, name: &str) -> Result<D::File, OpenError> {
        self.disk
            .open(name)
            .map_err(OpenError::io(format!("opening {}", self.disk.shown(name))))
    }

    fn length(&self, file: &D::File, name: &str) -> Result<u64, OpenError> {
        file.length().map_err(OpenError::io(format!(
            "asking for the length of {}",
            self.disk.shown(name)
        )))
    }

    fn reading(&self, segment: &Segment<D::File>, error: std::io::Error) -> OpenError {
        OpenError::Io {
            doing: format!("reading {}", self.shown(segment)),
            error,
        }
    }

    fn shown(&self, segment: &Segment<D::File>) -> String {
        self.disk.shown(&names::segment(segment.head.number))
    }
}

fn cut_short(file: String, bytes: u64, bytes_made: u64) -> Damage {
    Damage {
        file,
        offset: bytes,
        bytes: bytes_made - bytes,
        first_index: 0,
        last_index: None,
        fault: format!("the file was made {bytes_made} bytes long and has {bytes}"),
        quarantine: None,
    }
}

/// Remains after a fault in the newest segment.
struct Tail {
    /// The highest index that any of it says was durable.
    durable_through: Index,
    frames_seen: u64,
    /// Where the last recognised frame ends.
    end: u64,
}

/// The id that all files have, if there are any.
fn one_journal<D: Disk>(
    disk: &D,
    files: &BTreeMap<u64, Segment<D::File>>,
    replay_from: Option<ReplayFrom>,
) -> Result<Option<u128>, OpenError> {
    let newest = files
        .values()
        .next_back()
        .map(|segment| segment.head.journal);
    let ours = replay_from.map(|from| from.journal).or(newest);
    for segment in files.values() {
        if let Some(ours) = ours.filter(|ours| *ours != segment.head.journal) {
            let file = disk.shown(&names::segment(segment.head.number));
            return Err(OpenError::OtherJournal {
                file,
                its: segment.head.journal,
                ours,
            });
        }
    }
    Ok(ours)
}

/// Takes out the segments that a later head skips: it names an earlier one as the one before it. They were begun where
/// that one was begun too, and nothing in them counted.
fn take_skipped<D: Disk>(
    disk: &D,
    files: &mut BTreeMap<u64, Segment<D::File>>,
) -> Result<Vec<(String, u64)>, OpenError> {
    let mut skipped = Vec::new();
    let mut later: Option<Ending> = None;
    for (number, segment) in files.iter().rev() {
        match later.filter(|before| *number > before.number) {
            None => later = Some(segment.head.before),
            Some(before) if before == segment.head.before => skipped.push(*number),
            // A file may have been put back after a repair that went on without it. It is not ours to remove.
            Some(_) => {
                let file = disk.shown(&names::segment(*number));
                return Err(OpenError::File {
                    file,
                    fault: FileFault::OutOfPlace,
                });
            }
        }
    }
    let taken = skipped
        .into_iter()
        .filter_map(|number| files.remove(&number));
    Ok(taken
        .map(|segment| (names::segment(segment.head.number), segment.bytes_file))
        .collect())
}

fn random_id<D: Disk>(disk: &D) -> Result<u128, OpenError> {
    let number = || {
        disk.random()
            .map_err(OpenError::io("asking the system for a random number"))
    };
    Ok(u128::from(number()?) << 64 | u128::from(number()?))
}

/// Reads a journal without opening it for writing: the same checks, and nothing is changed unless `repair` is set.
pub fn verify<D: Disk>(
    disk: &D,
    options: Options,
    replay_from: Option<ReplayFrom>,
    show: &mut dyn FnMut(FrameView<'_>),
) -> Result<Recovered, OpenError> {
    recover(disk, options, replay_from.into(), show).map(|recovery| recovery.recovered)
}
