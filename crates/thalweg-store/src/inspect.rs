//! Files of a journal as a person can read them, damage included.

use std::io::{self, Write};

use thalweg_journal::{
    FileFault, Place,
    disk::DiskFile,
    frame::{FrameHeader, HEADER_BYTES, Seed},
    head::{FIELDS_AT, HEAD_BYTES},
    reader::{Expected, Found, FrameReader},
    segment::{self, SegmentHead},
};
use thalweg_model::{Time, calendar};
use thalweg_records::{KeptAs, Record, SessionRecord, SubscriptionRecord, message_at};

use crate::checkpoint::{self, CheckpointHead};
use crate::pack::{self, LINE_BYTES, PackHead, line_of};

/// So much of a payload is shown.
const PAYLOAD_SHOWN: usize = 32;
/// So much of a text is shown.
const TEXT_SHOWN: usize = 120;

/// Findings in a file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Inspected {
    /// Frames, or lines of a pack's table.
    pub entries: u64,
    pub records: u64,
    /// Places where something is wrong.
    pub damages: u64,
}

/// Writes what is in a file of any kind, every record on a line of its own if `records`.
pub fn inspect<F: DiskFile>(file: &F, records: bool, out: &mut dyn Write) -> io::Result<Inspected> {
    let mut bytes = vec![0; HEAD_BYTES];
    let count = file.read_full(&mut bytes, 0)?;
    bytes.truncate(count);
    let number = bytes
        .get(FIELDS_AT..FIELDS_AT + 8)
        .and_then(|field| field.first_chunk().copied());
    let number = u64::from_le_bytes(number.unwrap_or_default());
    let mut show = Show {
        out,
        records,
        found: Inspected::default(),
        kinds: Kinds::default(),
    };
    if bytes.starts_with(&segment::MAGIC) {
        match SegmentHead::read(&bytes, number) {
            Ok(head) => show.segment(file, &head)?,
            Err(fault) => show.bad_head("segment", segment::VERSION, fault)?,
        }
    } else if bytes.starts_with(&checkpoint::MAGIC) {
        match CheckpointHead::read(&bytes, number) {
            Ok(head) => show.checkpoint(file, &head)?,
            Err(fault) => show.bad_head("checkpoint", checkpoint::VERSION, fault)?,
        }
    } else if bytes.starts_with(&pack::MAGIC) {
        match PackHead::read(&bytes, number) {
            Ok(head) => show.pack(file, &head)?,
            Err(fault) => show.bad_head("pack", pack::VERSION, fault)?,
        }
    } else if bytes.iter().all(|byte| *byte == 0) {
        writeln!(
            show.out,
            "a file of {} bytes kept ready for a segment, or an empty one",
            file.length()?
        )?;
    } else {
        writeln!(
            show.out,
            "DAMAGE: this does not begin as a segment, a checkpoint or a pack of a journal does"
        )?;
        show.found.damages += 1;
    }
    Ok(show.found)
}

struct Show<'a> {
    out: &'a mut dyn Write,
    records: bool,
    found: Inspected,
    /// Records of the whole file by kind.
    kinds: Kinds,
}

impl Show<'_> {
    fn bad_head(&mut self, kind: &str, known: u32, fault: FileFault) -> io::Result<()> {
        self.found.damages += 1;
        match fault {
            FileFault::OtherVersion { version, .. } => {
                writeln!(
                    self.out,
                    "a {kind} of format {version}; this program reads format {known}"
                )
            }
            _ => writeln!(
                self.out,
                "DAMAGE at offset 0: the head of this {kind} does not match its checksum"
            ),
        }
    }

    fn segment<F: DiskFile>(&mut self, file: &F, head: &SegmentHead) -> io::Result<()> {
        let SegmentHead {
            journal,
            number,
            before,
            epoch,
            moved_bytes,
            ..
        } = head;
        let length = file.length()?;
        writeln!(
            self.out,
            "segment {number:016x} of journal {journal:032x}, {length} bytes, epoch {epoch}"
        )?;
        if before.number == 0 {
            writeln!(self.out, "  the first segment")?;
        } else {
            let (last, bytes) = (before.last_index, before.length);
            writeln!(
                self.out,
                "  after segment {:016x}, which ended at offset {bytes} with frame {last}",
                before.number
            )?;
        }
        if *moved_bytes > 0 {
            writeln!(
                self.out,
                "  its first {moved_bytes} bytes of frames were written again here after an error"
            )?;
        }
        let expected = Expected {
            index: head.first_index(),
            hash: before.hash,
        };
        let place = |offset| Some(head.place(offset));
        let end = self.frames(file, head.seed(), expected, length, &place)?;
        self.sum()?;
        writeln!(
            self.out,
            "  frames end at offset {end}; {} bytes are free or hold what does not count",
            length - end
        )
    }

    fn checkpoint<F: DiskFile>(&mut self, file: &F, head: &CheckpointHead) -> io::Result<()> {
        let (index, replay, length) = (head.index(), head.replay, file.length()?);
        writeln!(
            self.out,
            "checkpoint as of frame {index} of journal {:032x}, {length} bytes",
            replay.journal
        )?;
        writeln!(
            self.out,
            "  replay goes on at place {} with frame {}",
            shown(replay.place),
            replay.index
        )?;
        if length < head.bytes {
            self.damage(
                length,
                &format!("the file is cut off; it had {} bytes", head.bytes),
            )?;
        }
        let expected = Expected { index: 1, hash: 0 };
        self.frames(file, head.seed(), expected, head.bytes.min(length), &|_| {
            None
        })?;
        if self.found.entries != head.frames {
            let words = format!(
                "it has {} frames and should have {}",
                self.found.entries, head.frames
            );
            self.damage(head.bytes.min(length), &words)?;
        }
        self.sum()
    }

    /// Shows frames up to `end`, those behind damage too; where the last one ends.
    fn frames<F: DiskFile>(
        &mut self,
        file: &F,
        seed: Seed,
        mut expected: Expected,
        end: u64,
        place: &dyn Fn(u64) -> Option<Place>,
    ) -> io::Result<u64> {
        let mut reader = FrameReader::new(file, seed, HEAD_BYTES as u64, end);
        let mut last = HEAD_BYTES as u64;
        loop {
            let at = reader.offset();
            let fault = match reader.next(&mut expected)? {
                Found::Frame(at, header, payload) => {
                    self.frame(at, &header, payload, place(at + HEADER_BYTES as u64))?;
                    last = at + header.frame_bytes() as u64;
                    continue;
                }
                Found::End => return Ok(last),
                Found::Fault(fault) => fault,
            };
            // The last frame is followed by zeros or old bytes; only what has frames behind it is damage for certain.
            let Some((next, header)) = reader.next_header(at + 8)? else {
                if !matches!(fault, thalweg_journal::reader::FrameFault::NoHeader) {
                    self.damage(
                        at,
                        &format!("{}; nothing can be recognised behind it", fault.words()),
                    )?;
                }
                return Ok(last);
            };
            let words = format!(
                "{}; frame {} is recognised {} bytes on",
                fault.words(),
                header.index,
                next - at
            );
            self.damage(at, &words)?;
            expected = Expected {
                index: header.index,
                hash: header.prev_hash,
            };
            reader.seek(next);
        }
    }

    fn frame(
        &mut self,
        at: u64,
        header: &FrameHeader,
        payload: &[u8],
        place: Option<Place>,
    ) -> io::Result<()> {
        let mut kinds = Kinds::default();
        let mut lines = Vec::new();
        let mut offset = 0;
        let mut wrong = None;
        while let Some(rest) = payload.get(offset..).filter(|rest| !rest.is_empty()) {
            match Record::decode(rest) {
                Ok((consumed, record)) => {
                    kinds.count(&record);
                    if self.records {
                        lines.push((offset, consumed, describe(&record)));
                    }
                    offset += consumed;
                }
                Err(fault) => {
                    wrong = Some(format!("in its payload from byte {offset} on: {fault}"));
                    break;
                }
            }
        }
        let FrameHeader {
            index,
            epoch,
            shard,
            durable_through,
            ..
        } = header;
        let bytes = payload.len();
        match place {
            Some(place) => writeln!(
                self.out,
                "frame {index} at offset {at}: place {}, shard {shard}, epoch {epoch}, {bytes} bytes, durable through \
                 {durable_through}; {kinds}",
                shown(place)
            )?,
            None => writeln!(
                self.out,
                "frame {index} at offset {at}: {bytes} bytes; {kinds}"
            )?,
        }
        for (offset, len, words) in lines {
            match place {
                Some(place) => writeln!(
                    self.out,
                    "  {} {len:>5}  {words}",
                    shown(place.plus(offset as u64))
                )?,
                None => writeln!(self.out, "  {words}")?,
            }
        }
        if let Some(words) = wrong {
            self.damage(at, &words)?;
        }
        self.found.entries += 1;
        self.found.records += kinds.sum();
        self.kinds.add(&kinds);
        Ok(())
    }

    fn pack<F: DiskFile>(&mut self, file: &F, head: &PackHead) -> io::Result<()> {
        let PackHead {
            journal,
            number,
            records,
            bytes,
            table_crc,
        } = head;
        let length = file.length()?;
        writeln!(
            self.out,
            "pack {number:016x} of journal {journal:032x}, {length} bytes, {records} records"
        )?;
        if length < *bytes {
            self.damage(
                length,
                &format!("the file is cut off; it had {bytes} bytes"),
            )?;
        }
        let table_bytes = records
            .saturating_mul(LINE_BYTES as u64)
            .min(length.saturating_sub(HEAD_BYTES as u64));
        let mut table = vec![0; table_bytes as usize];
        file.read_full(&mut table, HEAD_BYTES as u64)?;
        if crc32c::crc32c(&table) != *table_crc {
            self.damage(HEAD_BYTES as u64, "the table does not match its checksum")?;
        }
        let mut record = Vec::new();
        for line in table.chunks_exact(LINE_BYTES).map(line_of) {
            let inside = u64::from(line.offset) + u64::from(line.len) <= length;
            record.clear();
            record.resize(if inside { line.len as usize } else { 0 }, 0);
            let count = file.read_full(&mut record, u64::from(line.offset))?;
            self.found.entries += 1;
            let sound = if inside && count == record.len() {
                message_at(&record)
                    .map(drop)
                    .map_err(|fault| fault.to_string())
            } else {
                Err("it lies behind the end of the file".to_owned())
            };
            if let Err(words) = sound {
                let place = shown(Place(line.place));
                self.damage(
                    u64::from(line.offset),
                    &format!("the record of place {place}: {words}"),
                )?;
                continue;
            }
            if let Ok((_, record)) = Record::decode(&record) {
                self.found.records += 1;
                self.kinds.count(&record);
                if self.records {
                    writeln!(
                        self.out,
                        "  {} {:>5}  {}",
                        shown(Place(line.place)),
                        line.len,
                        describe(&record)
                    )?;
                }
            }
        }
        self.sum()
    }

    fn sum(&mut self) -> io::Result<()> {
        let Inspected {
            entries, damages, ..
        } = self.found;
        writeln!(self.out, "  {entries} entries: {}", self.kinds)?;
        if damages > 0 {
            writeln!(self.out, "  DAMAGED in {damages} places")
        } else {
            Ok(())
        }
    }

    fn damage(&mut self, offset: u64, words: &str) -> io::Result<()> {
        self.found.damages += 1;
        writeln!(self.out, "DAMAGE at offset {offset}: {words}")
    }
}

fn shown(place: Place) -> String {
    format!("{:x}:{:07x}", place.number(), place.0 % Place::SPAN)
}

/// Number of records of each kind, in the order of their first occurrence.
#[derive(Default)]
struct Kinds(Vec<(&'static str, u64)>);

impl Kinds {
    fn count(&mut self, record: &Record<'_>) {
        self.add_one(kind(record), 1);
    }

    fn add_one(&mut self, kind: &'static str, count: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, known)) => *known += count,
            None => self.0.push((kind, count)),
        }
    }

    fn add(&mut self, other: &Kinds) {
        other
            .0
            .iter()
            .for_each(|(kind, count)| self.add_one(kind, *count));
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

impl std::fmt::Display for Kinds {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return out.write_str("no records");
        }
        for (at, (kind, count)) in self.0.iter().enumerate() {
            write!(out, "{}{count} {kind}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

fn kind(record: &Record<'_>) -> &'static str {
    match record {
        Record::Session(_) => "session",
        Record::SessionEnded { .. } => "session-ended",
        Record::Subscribed(_) => "subscribed",
        Record::Unsubscribed { .. } => "unsubscribed",
        Record::Group { .. } => "group",
        Record::GroupEnded { .. } => "group-ended",
        Record::Delivered { .. } => "delivered",
        Record::Returned { .. } => "returned",
        Record::Message(_) => "message",
        Record::Held { .. } => "held",
        Record::Released { .. } => "released",
        Record::Sent { .. } => "sent",
        Record::Received { .. } => "received",
        Record::Settled { .. } => "settled",
        Record::Removed { .. } => "removed",
        Record::Moved { .. } => "moved",
        Record::Cleared { .. } => "cleared",
        Record::Forgotten { .. } => "forgotten",
        Record::Kept { .. } => "kept",
        Record::Entry { .. } => "entry",
        Record::LastValue { .. } => "last-value",
        Record::Numbers { .. } => "numbers",
        Record::Stamped { .. } => "stamped",
        Record::PublisherForgotten { .. } => "publisher-forgotten",
        Record::Publisher { .. } => "publisher",
    }
}

/// One line about a record; what came from outside is escaped and shortened.
fn describe(record: &Record<'_>) -> String {
    let kind = kind(record);
    match record {
        Record::Session(SessionRecord {
            queue,
            client,
            user,
            expiry,
            expires_at,
            in_flight_max,
            will,
            ..
        }) => {
            let user = user
                .map(|user| format!(", user {}", text(user)))
                .unwrap_or_default();
            let will = will
                .as_ref()
                .map(|will| format!(", will to {}", text(will.body.address)))
                .unwrap_or_default();
            let (expiry, ends) = (expiry.secs(), moment(*expires_at));
            let client = text(client);
            format!(
                "{kind} {queue}: client {client}{user}, expiry {expiry} s, ends {ends}, window {in_flight_max}{will}"
            )
        }
        Record::Subscribed(SubscriptionRecord {
            queue,
            filter,
            group,
            reliability,
            id,
            ..
        }) => {
            format!(
                "{kind} {queue}: {}{}, {reliability:?}, id {id}",
                text(filter),
                in_group(*group)
            )
        }
        Record::Unsubscribed {
            queue,
            filter,
            group,
        } => {
            format!("{kind} {queue}: {}{}", text(filter), in_group(*group))
        }
        Record::Group {
            queue,
            name,
            filter,
        } => format!("{kind} {queue}: {}, filter {}", text(name), text(filter)),
        Record::Message(message) => {
            let mut words = format!(
                "{kind} {} {:?} from {} at {}",
                text(message.body.address),
                message.body.reliability,
                message.publisher,
                moment(message.ingress)
            );
            if message.expires != Time::NEVER {
                words += &format!(", expires {}", moment(message.expires));
            }
            if message.is_last_value {
                words += &format!(", last value: {:?}", message.body.retain);
            }
            if let Some(KeptAs { number, oldest }) = message.kept {
                words += &format!(", kept as {number} from {oldest}");
            }
            if let Some((queue, ticket)) = message.held {
                words += &format!(", held {queue}/{ticket}");
            }
            for reference in message.references.iter() {
                words += &format!(" -> {}#{}", reference.queue, reference.serial);
                if reference.tag != 0 {
                    words += &format!(" tag {}", reference.tag);
                }
            }
            words
                + &format!(
                    "; {} bytes: {}",
                    message.body.payload.len(),
                    payload(message.body.payload)
                )
        }
        Record::Held { queue, ticket } | Record::Released { queue, ticket } => {
            format!("{kind} {queue}: ticket {ticket}")
        }
        Record::Stamped {
            user,
            publisher,
            sequence,
        } => {
            format!("{kind} {publisher:x}-{sequence:x}, user {}", text(user))
        }
        Record::PublisherForgotten { user, publisher } => {
            format!("{kind} {publisher:x}, user {}", text(user))
        }
        Record::Publisher {
            user,
            publisher,
            highest,
            runs,
        } => {
            format!(
                "{kind} {publisher:x}, user {}: up to {highest:x}, runs {runs:?}",
                text(user)
            )
        }
        Record::Sent { queue, serial, tag } => format!("{kind} {queue}#{serial}: tag {tag}"),
        Record::Received { queue, tag } | Record::Settled { queue, tag } => {
            format!("{kind} {queue}: tag {tag}")
        }
        Record::Removed { queue, serial } | Record::Delivered { queue, serial } => {
            format!("{kind} {queue}#{serial}")
        }
        Record::Returned {
            queue,
            serial,
            deliveries,
        } => format!("{kind} {queue}#{serial}, delivered {deliveries} times"),
        Record::Moved {
            from,
            serial,
            to,
            tag,
            redelivered,
            ..
        } => {
            let again = if *redelivered {
                ", may have been delivered"
            } else {
                ""
            };
            format!("{kind} {from}#{serial} to {to}, tag {tag}{again}")
        }
        Record::Cleared { address } => format!("{kind} {}", text(address)),
        Record::Forgotten {
            address,
            first,
            last,
            and_last,
        } => {
            let what = if *and_last {
                ", and the last value"
            } else {
                ""
            };
            format!("{kind} {}: {first} to {last}{what}", text(address))
        }
        Record::Kept {
            address,
            number,
            place,
            len,
        } => format!(
            "{kind} {}: {number} at {}, {len} bytes",
            text(address),
            shown(Place(*place))
        ),
        Record::Entry {
            reference,
            place,
            len,
            expires,
            received,
        } => {
            let (queue, serial, tag) = (reference.queue, reference.serial, reference.tag);
            let at = if *received {
                "received".to_owned()
            } else {
                format!("at {}, {len} bytes", shown(Place(*place)))
            };
            format!(
                "{kind} {queue}#{serial}: tag {tag}, {at}, expires {}",
                moment(*expires)
            )
        }
        Record::LastValue {
            address,
            place,
            len,
        } => {
            format!(
                "{kind} {} at {}, {len} bytes",
                text(address),
                shown(Place(*place))
            )
        }
        Record::Numbers { queue, serial } => {
            format!("{kind}: queues up to {queue}, serials up to {serial}")
        }
        Record::SessionEnded { queue } | Record::GroupEnded { queue } => format!("{kind} {queue}"),
    }
}

fn in_group(group: Option<&str>) -> String {
    group
        .map(|group| format!(" in group {}", text(group)))
        .unwrap_or_default()
}

fn text(text: &str) -> String {
    let mut chars = text.chars();
    let short: String = chars.by_ref().take(TEXT_SHOWN).collect();
    if chars.next().is_none() {
        format!("{short:?}")
    } else {
        format!("{short:?}… ({} bytes)", text.len())
    }
}

fn payload(payload: &[u8]) -> String {
    let short = payload.get(..PAYLOAD_SHOWN).unwrap_or(payload);
    let rest = if short.len() < payload.len() {
        "…"
    } else {
        ""
    };
    format!("\"{}\"{rest}", short.escape_ascii())
}

/// Seconds since 1970, as UTC.
fn moment(moment: Time) -> String {
    if moment == Time::NEVER {
        return "never".to_owned();
    }
    let secs = moment.nanos() / 1_000_000_000;
    let millis = moment.nanos() / 1_000_000 % 1_000;
    calendar::rfc3339(secs, Some(millis))
}
