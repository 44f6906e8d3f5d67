//! A journal in memory: batches in the order of submission, some of them written, some of those durable, and the
//! remainder after a crash.

use thalweg_kernel::Batch;
use thalweg_kernel::Safety;
use thalweg_model::Message;
use thalweg_records::{Record, State, message_at};

/// A submitted batch of journal frames.
struct Frame {
    shard: usize,
    number: u64,
    bytes: Vec<u8>,
    place: u64,
}

/// Losses besides the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing that was written.
    Process,
    /// The batches from this one on.
    Power(usize),
}

/// Places between two frames, so that a place that is off by a little is noticed.
const GAP: u64 = 64;

#[derive(Default)]
pub struct Disk {
    frames: Vec<Frame>,
    written: usize,
    durable: usize,
}

impl Disk {
    /// Takes a frame of a batch.
    pub fn submit(&mut self, shard: usize, number: u64, bytes: Vec<u8>) {
        let place = self
            .frames
            .last()
            .map_or(GAP, |last| last.place + last.bytes.len() as u64 + GAP);
        self.frames.push(Frame {
            shard,
            number,
            bytes,
            place,
        });
    }

    /// Number of frames submitted, written and durable.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.frames.len(), self.written, self.durable)
    }

    /// Writes the next frame: whose it is, its number and its place.
    pub fn write(&mut self) -> Option<(usize, u64, u64)> {
        let frame = self.frames.get(self.written)?;
        self.written += 1;
        Some((frame.shard, frame.number, frame.place))
    }

    /// Written frames become durable. Returns whether there were any.
    pub fn sync(&mut self) -> bool {
        let any = self.durable < self.written;
        self.durable = self.written;
        any
    }

    /// The number of a shard's last batch that is as safe as that, of those from `since` on.
    pub fn safe_up_to(&self, shard: usize, safety: Safety, since: usize) -> u64 {
        let count = match safety {
            Safety::Lazy => self.frames.len(),
            Safety::Written => self.written,
            Safety::Durable => self.durable,
        };
        let frames = self.frames.get(since..count).unwrap_or_default();
        frames
            .iter()
            .rev()
            .find(|frame| frame.shard == shard)
            .map_or(0, |frame| frame.number)
    }

    /// Reads a message back.
    pub fn read(&self, place: u64, len: u32) -> Option<Message> {
        let at = self
            .frames
            .partition_point(|frame| frame.place <= place)
            .checked_sub(1)?;
        let frame = self.frames.get(at)?;
        let offset = (place - frame.place) as usize;
        message_at(frame.bytes.get(offset..offset + len as usize)?).ok()
    }

    /// The machine or the process is gone: drops what is lost and says what is left.
    pub fn crash(&mut self, loss: Loss) -> State {
        let left = match loss {
            Loss::Process => self.written,
            Loss::Power(left) => left.clamp(self.durable, self.frames.len()),
        };
        self.frames.truncate(left);
        (self.written, self.durable) = (left, left);
        let mut state = State::default();
        for frame in &self.frames {
            state
                .apply_frame(&frame.bytes, frame.place)
                .expect("records");
        }
        assert_eq!(state.contradictions, [], "the journal contradicts itself");
        for (place, len) in state.live() {
            assert!(
                self.read(place, len).is_some(),
                "there is no message at {place:#x}"
            );
        }
        let mut copy = State::default();
        let mut bytes = Vec::new();
        state.write(&mut |record: &Record<'_>| record.encode(&mut bytes));
        copy.apply_frame(&bytes, u64::MAX / 2).expect("records");
        assert_eq!(copy, state, "a checkpoint says something else");
        assert_eq!(copy.contradictions, [], "a checkpoint contradicts itself");
        state
    }
}

/// Durability that a shard's batches wait for.
pub struct Commits {
    /// Handed over and not complete, oldest first.
    open: std::collections::VecDeque<Open>,
    /// Where the journal was when this process began.
    since: usize,
    /// All batches up to this one are as safe as they asked.
    safe: u64,
    completed: u64,
    /// By shard: how many reliable mails it was sent, and up to which it says that they are safe.
    mailed: Vec<u64>,
    stored: Vec<u64>,
    /// Mails of others that are as safe as our batch of this number, or, if what they ask was asked of others, complete with
    /// it: batch, shard, mail, and which of the two.
    owed: Vec<(u64, usize, u64, bool)>,
}

struct Open {
    number: u64,
    safety: Safety,
    is_empty: bool,
    needs: Vec<u64>,
    is_safe: bool,
}

impl Commits {
    pub fn new(shards: usize, disk: &Disk) -> Self {
        let (since, ..) = disk.counts();
        Commits {
            open: std::collections::VecDeque::new(),
            since,
            safe: 0,
            completed: 0,
            mailed: vec![0; shards],
            stored: vec![0; shards],
            owed: Vec::new(),
        }
    }

    /// Numbers a reliable mail.
    pub fn number_mail(&mut self, to: usize) -> u64 {
        self.mailed[to] += 1;
        self.mailed[to]
    }

    /// A batch is submitted.
    pub fn hand_over(&mut self, shard: usize, batch: Batch, disk: &mut Disk) {
        let Batch {
            number,
            frame,
            bytes,
            safety,
        } = batch;
        let is_empty = bytes.is_empty();
        let needs = self.mailed.clone();
        self.open.push_back(Open {
            number,
            safety,
            is_empty,
            needs,
            is_safe: false,
        });
        if !is_empty {
            disk.submit(shard, frame, bytes);
        }
    }

    /// A mail of another shard was handled while this batch was being gathered.
    pub fn owe(&mut self, batch: u64, shard: usize, mail: u64, forwarded: bool) {
        self.owed.push((batch, shard, mail, forwarded));
    }

    /// The other shard has everything up to this mail as safe as was asked.
    pub fn on_stored(&mut self, by: usize, mail: u64) {
        self.stored[by] = self.stored[by].max(mail);
    }

    /// Looks at what has become safe: whom to tell up to which mail. A shard tells when its batch is *safe*, and not
    /// only when it is complete: two shards that have mailed each other would wait for each other for ever.
    pub fn look(
        &mut self,
        shard: usize,
        disk: &Disk,
        gathering: u64,
        gathers_nothing: bool,
    ) -> Vec<(usize, u64)> {
        if self.open.is_empty() && self.owed.is_empty() {
            return Vec::new();
        }
        for open in &mut self.open {
            open.is_safe |= open.is_empty
                || open.safety == Safety::Lazy
                || disk.safe_up_to(shard, open.safety, self.since) >= open.number;
            if !open.is_safe {
                break;
            }
            self.safe = open.number;
        }
        let safe = if gathers_nothing && self.safe + 1 == gathering {
            gathering
        } else {
            self.safe
        };
        let (confirmed, owed) =
            std::mem::take(&mut self.owed)
                .into_iter()
                .partition(|(batch, _, _, forwarded)| match forwarded {
                    true => *batch <= self.completed,
                    false => *batch <= safe,
                });
        self.owed = owed;
        confirmed
            .into_iter()
            .map(|(_, shard, mail, _): (u64, usize, u64, bool)| (shard, mail))
            .collect()
    }

    /// The last batch that is complete now, if any is.
    pub fn complete(&mut self) -> Option<u64> {
        let mut completed = None;
        while let Some(open) = self.open.front()
            && open.is_safe
            && open
                .needs
                .iter()
                .zip(&self.stored)
                .all(|(needs, stored)| needs <= stored)
        {
            completed = Some(open.number);
            self.completed = open.number;
            self.open.pop_front();
        }
        completed
    }

    /// Completes everything at once, which is wrong; the simulation must notice.
    pub fn complete_blindly(&mut self) -> Option<u64> {
        let last = self.open.back().map(|open| open.number);
        self.completed = last.unwrap_or(self.completed);
        self.open.clear();
        last
    }

    pub fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }
}
