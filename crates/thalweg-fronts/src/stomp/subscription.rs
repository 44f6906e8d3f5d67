//! The subscriptions of a connection, by line.

use thalweg_stomp::AckMode;

/// A subscription is the only consumer of its line, and this is its number.
pub(super) const CONSUMER: u32 = 1;

pub(super) struct Subscription {
    /// The scope of its delivery numbers.
    pub(super) line: u16,
    /// The peer's name for it; a peer that speaks 1.0 may have given none.
    pub(super) id: Option<Box<str>>,
    /// The destination, as the peer wrote it.
    pub(super) destination: Box<str>,
    /// What MESSAGE says in `destination`.
    pub(super) shows: Shows,
    pub(super) ack: AckMode,
    /// The queue that outlives the connection and ends with UNSUBSCRIBE, if the peer asks for it there.
    pub(super) durable: Option<Box<str>>,
    /// The last delivery that is to be settled.
    pub(super) tag_last: u64,
}

impl Subscription {
    /// What it costs, in the kernel, too.
    fn bytes(&self) -> usize {
        let texts = [&self.id, &self.durable]
            .into_iter()
            .flatten()
            .map(|text| text.len())
            .sum::<usize>();
        let shows = match &self.shows {
            Shows::Queue(name) => name.len(),
            _ => 0,
        };
        SUBSCRIPTION_BYTES + texts + self.destination.len() + shows
    }
}

/// What a subscription costs beside its texts.
pub(super) const SUBSCRIPTION_BYTES: usize = 512;

/// What MESSAGE says in `destination`.
pub(super) enum Shows {
    AsSubscribed,
    /// What SUBSCRIBE said, if the message was sent to this queue; the topic or the exchange, if it came from there.
    Queue(Box<str>),
    /// The topic, as `/topic/…`.
    Topic,
    /// The exchange and the key, as `/exchange/…`.
    Exchange,
}

/// The subscriptions of a connection. Lines rise, so that what is said of a line that is gone is known as such.
#[derive(Default)]
pub(super) struct Subscriptions {
    by_line: Vec<Subscription>,
    line_last: u16,
    /// Bytes of memory of all.
    pub(super) bytes: usize,
}

impl Subscriptions {
    pub(super) fn len(&self) -> usize {
        self.by_line.len()
    }

    /// A line that is not in use. There are fewer subscriptions than lines.
    pub(super) fn new_line(&mut self) -> u16 {
        loop {
            self.line_last = self.line_last.wrapping_add(1);
            if self.line_last != 0 && self.at(self.line_last).is_err() {
                return self.line_last;
            }
        }
    }

    pub(super) fn add(&mut self, subscription: Subscription) {
        if let Err(at) = self.at(subscription.line) {
            self.bytes += subscription.bytes();
            self.by_line.insert(at, subscription);
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, line: u16) -> Option<&mut Subscription> {
        let at = self.at(line).ok()?;
        self.by_line.get_mut(at)
    }

    pub(super) fn get(&self, line: u16) -> Option<&Subscription> {
        self.by_line.get(self.at(line).ok()?)
    }

    pub(super) fn remove(&mut self, line: u16) -> Option<Subscription> {
        let at = self.at(line).ok()?;
        let subscription = self.by_line.remove(at);
        self.bytes -= subscription.bytes();
        Some(subscription)
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&Subscription> {
        self.by_line
            .iter()
            .find(|subscription| subscription.id.as_deref() == Some(id))
    }

    /// For peers that give no ids.
    pub(super) fn by_destination(&self, destination: &str) -> Option<&Subscription> {
        self.by_line.iter().find(|subscription| {
            subscription.id.is_none() && *subscription.destination == *destination
        })
    }

    pub(super) fn has_destination(&self, destination: &str) -> bool {
        self.by_line
            .iter()
            .any(|subscription| *subscription.destination == *destination)
    }

    fn at(&self, line: u16) -> Result<usize, usize> {
        // Nearly always there is one.
        if let [only] = &self.by_line[..]
            && only.line == line
        {
            return Ok(0);
        }
        self.by_line
            .binary_search_by_key(&line, |subscription| subscription.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(line: u16) -> Subscription {
        Subscription {
            line,
            id: Some(line.to_string().into()),
            destination: "/queue/q".into(),
            shows: Shows::AsSubscribed,
            ack: AckMode::Auto,
            durable: None,
            tag_last: 0,
        }
    }

    #[test]
    fn lines_are_used_again_only_when_all_were_used() {
        let mut all = Subscriptions::default();
        for expected in 1..=3 {
            let line = all.new_line();
            assert_eq!(line, expected);
            all.add(subscription(line));
        }
        assert!(all.remove(2).is_some() && all.get(2).is_none() && all.by_id("3").is_some());
        all.line_last = u16::MAX - 1;
        for expected in [u16::MAX, 2, 4] {
            let line = all.new_line();
            assert_eq!(line, expected);
            all.add(subscription(line));
        }
        assert!(
            all.by_line
                .is_sorted_by_key(|subscription| subscription.line)
        );
    }
}
