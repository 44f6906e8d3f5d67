//! Packs: the few records of old segments that are still needed, put together in one file each. Their places stay
//! what they were.
//!
//! ```text
//! offset  bytes  what (see `head` for what comes before)
//!     32      8  pack number, also in the name
//!     40      8  records
//!     48      8  bytes of this file
//!     56      4  CRC-32C of the table
//!     60      4  zero
//!   4096   16 n  table, by rising place: place (8), offset in this file (4), length (4)
//!            …   the records
//! ```
//!
//! A record that is read back alone carries its own checksum; the table has one here.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use thalweg_journal::{
    Damage, FileFault, OpenError, Place, PlaceSource, ReadError,
    disk::{Disk, DiskFile, QUARANTINE},
    head::{FIELDS_AT, HEAD_BYTES, Head},
};

use crate::names;

/// First bytes of a pack file.
pub const MAGIC: [u8; 8] = *b"THALWPAK";
/// The only version so far.
pub const VERSION: u32 = 1;
/// Length of a line of the table.
pub const LINE_BYTES: usize = 16;
/// Records are written this much at a time.
const WRITE_BYTES: usize = 1 << 20;

/// Contents of a pack's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackHead {
    /// Id of the pack's journal.
    pub journal: u128,
    /// Its number, also in its name.
    pub number: u64,
    /// Number of its records.
    pub records: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// The checksum of the table.
    pub table_crc: u32,
}

impl PackHead {
    /// Reads one back from the first bytes of a file called `number`.
    pub fn read(bytes: &[u8], number: u64) -> Result<Self, FileFault> {
        let head = Head::read(bytes, MAGIC, VERSION)?;
        let at = |field: usize| head.u64_at(FIELDS_AT + field * 8);
        if at(0) != number {
            return Err(FileFault::OtherNumber { number: at(0) });
        }
        let table_crc = head.u32_at(FIELDS_AT + 24);
        Ok(Self {
            journal: head.journal(),
            number,
            records: at(1),
            bytes: at(2),
            table_crc,
        })
    }

    fn sealed(&self) -> Box<[u8; HEAD_BYTES]> {
        let mut head = Head::new(MAGIC, VERSION, self.journal);
        for (at, field) in [self.number, self.records, self.bytes]
            .into_iter()
            .enumerate()
        {
            head.put(FIELDS_AT + at * 8, field.to_le_bytes());
        }
        head.put(FIELDS_AT + 24, self.table_crc.to_le_bytes());
        head.sealed()
    }
}

/// A record of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackEntry {
    /// Where it was written first.
    pub place: u64,
    /// Where it is in the pack.
    pub offset: u32,
    /// Length of the file in bytes.
    pub len: u32,
}

pub struct Pack<F> {
    /// Contents of its head.
    pub head: PackHead,
    file: F,
    table: Vec<PackEntry>,
}

impl<F: DiskFile> Pack<F> {
    /// Opens pack `number` and reads its table.
    pub fn open<D: Disk<File = F>>(disk: &D, number: u64) -> Result<Self, OpenError> {
        let name = names::pack(number);
        let shown = disk.shown(&name);
        let reading = |error| OpenError::Io {
            doing: format!("reading {shown}"),
            error,
        };
        let file = disk.open(&name).map_err(reading)?;
        let length = file.length().map_err(reading)?;
        let mut bytes = [0; HEAD_BYTES];
        let count = file.read_full(&mut bytes, 0).map_err(reading)?;
        let head =
            PackHead::read(bytes.get(..count).unwrap_or_default(), number).map_err(|fault| {
                OpenError::File {
                    file: shown.clone(),
                    fault,
                }
            })?;
        let damaged = |fault: &str| {
            OpenError::Damaged(Damage {
                file: shown.clone(),
                offset: HEAD_BYTES as u64,
                bytes: length.saturating_sub(HEAD_BYTES as u64),
                first_index: 1,
                last_index: None,
                fault: fault.to_owned(),
                quarantine: None,
            })
        };
        let table_bytes = head.records.saturating_mul(LINE_BYTES as u64);
        if length < head.bytes || length < (HEAD_BYTES as u64).saturating_add(table_bytes) {
            return Err(damaged("the file is cut off"));
        }
        let mut bytes = vec![0; table_bytes as usize];
        file.read_full(&mut bytes, HEAD_BYTES as u64)
            .map_err(reading)?;
        if crc32c::crc32c(&bytes) != head.table_crc {
            return Err(damaged("its table does not match its checksum"));
        }
        Ok(Self {
            head,
            file,
            table: bytes.chunks_exact(LINE_BYTES).map(line_of).collect(),
        })
    }

    /// Its records, by rising place.
    pub fn table(&self) -> &[PackEntry] {
        &self.table
    }

    /// The record at `place`, if it is here.
    pub fn find(&self, place: u64) -> Option<PackEntry> {
        // Most places that are asked for are newer than any pack.
        if self.table.last().is_none_or(|last| last.place < place) {
            return None;
        }
        let at = self
            .table
            .binary_search_by_key(&place, |line| line.place)
            .ok()?;
        self.table.get(at).copied()
    }

    pub fn read(&self, line: PackEntry, into: &mut Vec<u8>) -> io::Result<()> {
        into.clear();
        into.resize(line.len as usize, 0);
        let count = self.file.read_full(into, u64::from(line.offset))?;
        if count == line.len as usize {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

/// Moves a damaged pack to quarantine; nothing if it is not damage that is wrong with it.
fn set_aside<D: Disk>(
    disk: &D,
    number: u64,
    error: &OpenError,
) -> Result<Option<Damage>, OpenError> {
    let name = names::pack(number);
    let mut damage = match error {
        OpenError::Damaged(damage) => damage.clone(),
        OpenError::File {
            fault: FileFault::Damaged | FileFault::Foreign,
            file,
        } => Damage {
            file: file.clone(),
            offset: 0,
            bytes: HEAD_BYTES as u64,
            first_index: 1,
            last_index: None,
            fault: "its head is damaged".to_owned(),
            quarantine: None,
        },
        _ => return Ok(None),
    };
    let to = format!("{QUARANTINE}/{name}");
    let moved = disk.rename(&name, &to).and_then(|()| disk.sync_dir());
    moved.map_err(OpenError::io(format!(
        "moving {} to {QUARANTINE}/",
        disk.shown(&name)
    )))?;
    damage.quarantine = Some(disk.shown(&to));
    Ok(Some(damage))
}

pub(crate) fn line_of(bytes: &[u8]) -> PackEntry {
    let number = |from: usize, to: usize| {
        let bytes = bytes.get(from..to).unwrap_or_default();
        bytes
            .iter()
            .rev()
            .fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    PackEntry {
        place: number(0, 8),
        offset: number(8, 12) as u32,
        len: number(12, 16) as u32,
    }
}

/// Reads the record that begins at a place and is so long.
pub type Fetch<'a> = dyn FnMut(Place, u32, &mut Vec<u8>) -> Result<(), ReadError> + 'a;

/// All packs of a directory, in which [`Inventory::read`](crate::Inventory::read) looks for places that are in no
/// segment.
pub struct Packs<D: Disk> {
    disk: D,
    journal: u128,
    /// By rising number. The newest is asked first.
    packs: RwLock<Vec<Arc<Pack<D::File>>>>,
}

impl<D: Disk> Packs<D> {
    /// Opens all packs there are in a directory whose journal is `journal`. With `repair`, damaged ones go to
    /// quarantine, and into `damages`.
    pub fn open(
        disk: &D,
        journal: u128,
        repair: bool,
        damages: &mut Vec<Damage>,
    ) -> Result<Self, OpenError> {
        let names = disk
            .list()
            .map_err(OpenError::io(format!("listing {}", disk.shown(""))))?;
        let mut numbers: Vec<u64> = names
            .iter()
            .filter_map(|name| names::number_in(name, names::PACK))
            .collect();
        numbers.sort_unstable();
        let mut packs = Vec::with_capacity(numbers.len());
        for number in numbers {
            let pack = match Pack::open(disk, number) {
                Ok(pack) => pack,
                Err(error) if repair && let Some(damage) = set_aside(disk, number, &error)? => {
                    damages.push(damage);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if pack.head.journal != journal {
                let file = disk.shown(&names::pack(number));
                return Err(OpenError::OtherJournal {
                    file,
                    its: pack.head.journal,
                    ours: journal,
                });
            }
            packs.push(Arc::new(pack));
        }
        Ok(Self {
            disk: disk.clone(),
            journal,
            packs: RwLock::new(packs),
        })
    }

    /// The packs, by rising number.
    pub fn all(&self) -> Vec<Arc<Pack<D::File>>> {
        self.packs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Bytes of all packs together.
    pub fn bytes(&self) -> u64 {
        self.all().iter().map(|pack| pack.head.bytes).sum()
    }

    /// Writes a pack of these records, by rising place, each once, as `fetch` reads them; durable, and found from now on.
    pub fn write(
        &self,
        records: &[(u64, u32)],
        fetch: &mut Fetch<'_>,
    ) -> Result<PackHead, ReadError> {
        let number = self.all().last().map_or(1, |pack| pack.head.number + 1);
        let name = names::pack(number);
        let new = format!("{name}{}", names::NEW);
        let writing = || ReadError::io(format!("writing {}", self.disk.shown(&name)));
        // Remains of a failed attempt.
        let _ = self.disk.unlink(&new);
        let file = self.disk.create(&new).map_err(writing())?;
        let finished = self
            .write_file(&file, number, records, fetch)
            .and_then(|head| {
                file.sync_data()
                    .and_then(|()| self.disk.rename(&new, &name))
                    .map_err(writing())?;
                Ok(head)
            });
        let head = match finished {
            Ok(head) => head,
            Err(error) => {
                let _ = self.disk.unlink(&new);
                return Err(error);
            }
        };
        self.disk.sync_dir().map_err(writing())?;
        // Through the front door, so that what was written is known to be readable before anything is released.
        let pack = Pack::open(&self.disk, number).map_err(|error| ReadError::Io {
            doing: format!("reading {} back", self.disk.shown(&name)),
            error: io::Error::other(error.to_string()),
        })?;
        self.packs
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::new(pack));
        Ok(head)
    }

    fn write_file(
        &self,
        file: &D::File,
        number: u64,
        records: &[(u64, u32)],
        fetch: &mut Fetch<'_>,
    ) -> Result<PackHead, ReadError> {
        let writing =
            || ReadError::io(format!("writing {}", self.disk.shown(&names::pack(number))));
        let mut table = Vec::with_capacity(records.len() * LINE_BYTES);
        let mut offset = HEAD_BYTES as u64 + (records.len() * LINE_BYTES) as u64;
        for (place, len) in records {
            let Ok(short) = u32::try_from(offset) else {
                return Err(writing()(io::Error::other("more than a pack can hold")));
            };
            table.extend_from_slice(&place.to_le_bytes());
            table.extend_from_slice(&short.to_le_bytes());
            table.extend_from_slice(&len.to_le_bytes());
            offset += u64::from(*len);
        }
        let head = PackHead {
            journal: self.journal,
            number,
            records: records.len() as u64,
            bytes: offset,
            table_crc: crc32c::crc32c(&table),
        };
        let (mut at, mut record) = (HEAD_BYTES as u64, Vec::new());
        let mut buffer = table;
        for (place, len) in records {
            fetch(Place(*place), *len, &mut record)?;
            buffer.extend_from_slice(&record);
            if buffer.len() >= WRITE_BYTES {
                file.write_full(&buffer, at).map_err(writing())?;
                at += buffer.len() as u64;
                buffer.clear();
            }
        }
        file.write_full(&buffer, at)
            .and_then(|()| file.write_full(&head.sealed()[..], 0))
            .map_err(writing())?;
        Ok(head)
    }

    /// Nothing in pack `number` is needed, or all of it is elsewhere too: removes it.
    pub fn remove(&self, number: u64) -> io::Result<()> {
        self.disk.unlink(&names::pack(number))?;
        self.packs
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|pack| pack.head.number != number);
        Ok(())
    }
}

impl<D: Disk> PlaceSource for Packs<D> {
    fn read(&self, place: Place, len: u32, into: &mut Vec<u8>) -> Result<bool, ReadError> {
        let packs = self.packs.read().unwrap_or_else(PoisonError::into_inner);
        let found = packs
            .iter()
            .rev()
            .find_map(|pack| Some((Arc::clone(pack), pack.find(place.0)?)));
        drop(packs);
        let Some((pack, line)) = found else {
            return Ok(false);
        };
        let shown = self.disk.shown(&names::pack(pack.head.number));
        if line.len != len {
            return Err(ReadError::Damaged(Damage {
                file: shown,
                offset: u64::from(line.offset),
                bytes: u64::from(len),
                first_index: 0,
                last_index: None,
                fault: format!("the record there has {} bytes, not {len}", line.len),
                quarantine: None,
            }));
        }
        pack.read(line, into)
            .map_err(ReadError::io(format!("reading {shown}")))?;
        Ok(true)
    }
}
