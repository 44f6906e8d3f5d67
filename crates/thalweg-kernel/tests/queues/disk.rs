//! The journal of the kernels.

use thalweg_model::Message;
use thalweg_records::{Record, State, message_at};

/// Journal frames at rising places.
#[derive(Default)]
pub struct Disk {
    frames: Vec<(u64, Vec<u8>)>,
    pub state: State,
}

impl Disk {
    pub fn write(&mut self, bytes: Vec<u8>) -> u64 {
        let place = self
            .frames
            .last()
            .map_or(64, |(place, bytes)| place + bytes.len() as u64 + 64);
        self.state.apply_frame(&bytes, place).expect("records");
        assert_eq!(
            self.state.contradictions,
            [],
            "the journal contradicts itself"
        );
        self.frames.push((place, bytes));
        place
    }

    pub fn read(&self, place: u64, len: u32) -> Option<Message> {
        let at = self
            .frames
            .partition_point(|(at, _)| *at <= place)
            .checked_sub(1)?;
        let (at, bytes) = self.frames.get(at)?;
        let offset = (place - at) as usize;
        message_at(bytes.get(offset..offset + len as usize)?).ok()
    }

    /// Number of frames in the journal.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// The process is killed before more than the first `frames` are written.
    pub fn cut(&mut self, frames: usize) {
        self.frames.truncate(frames);
        self.state = self.fold();
    }

    /// The state anew, as a new process folds it, from a checkpoint as well as from the records.
    pub fn fold(&self) -> State {
        let mut state = State::default();
        for (place, bytes) in &self.frames {
            state.apply_frame(bytes, *place).expect("records");
        }
        let (mut copy, mut bytes) = (State::default(), Vec::new());
        state.write(&mut |record: &Record<'_>| record.encode(&mut bytes));
        copy.apply_frame(&bytes, u64::MAX / 2).expect("records");
        assert_eq!(copy, state, "a checkpoint says something else");
        assert_eq!(copy.contradictions, [], "a checkpoint contradicts itself");
        copy
    }
}
