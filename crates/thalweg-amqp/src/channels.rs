//! The channels of one connection (§4.3): a short sorted list, the last one used found at once.

use crate::gathering::Gathering;

#[derive(Debug)]
pub(crate) struct Channel {
    number: u16,
    pub(crate) state: ChannelState,
    /// A message of which something is missing.
    pub(crate) gathering: Option<Box<Gathering>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelState {
    /// We asked for it and have no answer.
    Opening,
    Open,
    /// We closed it: until the peer confirms, all else from it is ignored.
    Closing,
}

#[derive(Debug, Default)]
pub(crate) struct Channels {
    entries: Vec<Channel>,
    /// Place of the one used last.
    last: usize,
}

impl Channels {
    #[inline]
    pub(crate) fn get(&mut self, number: u16) -> Option<&mut Channel> {
        match self.entries.get(self.last) {
            Some(channel) if channel.number == number => {}
            _ => self.last = self.place(number).ok()?,
        }
        self.entries.get_mut(self.last)
    }

    pub(crate) fn state(&self, number: u16) -> Option<ChannelState> {
        let channel = match self.entries.get(self.last) {
            Some(channel) if channel.number == number => channel,
            _ => self.entries.get(self.place(number).ok()?)?,
        };
        Some(channel.state)
    }

    #[inline]
    pub(crate) fn is_open(&self, number: u16) -> bool {
        self.state(number) == Some(ChannelState::Open)
    }

    /// Replaces one with the same number.
    pub(crate) fn insert(&mut self, number: u16, state: ChannelState) {
        let channel = Channel {
            number,
            state,
            gathering: None,
        };
        match self.place(number) {
            Ok(place) => {
                if let Some(old) = self.entries.get_mut(place) {
                    *old = channel;
                }
            }
            Err(place) => self.entries.insert(place, channel),
        }
    }

    pub(crate) fn remove(&mut self, number: u16) -> Option<Channel> {
        let place = self.place(number).ok()?;
        Some(self.entries.remove(place))
    }

    /// Removes all channels and their content.
    pub(crate) fn clear(&mut self) {
        self.entries = Vec::new();
    }

    fn place(&self, number: u16) -> Result<usize, usize> {
        self.entries
            .binary_search_by_key(&number, |channel| channel.number)
    }
}
