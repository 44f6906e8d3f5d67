//! Subscriptions, and the mapping of messages to them.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use thalweg_model::Reliability;

use crate::transport::SubscriptionId;

/// Subscription identifiers from here on are not those of the user's subscriptions.
pub(super) const OWN_IDENTIFIERS: u32 = 1 << 27;

/// A subscription of the user.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) subscription: SubscriptionId,
    /// As it is said to the server.
    pub(super) filter: String,
    pub(super) reliability: Reliability,
    pub(super) last_values: bool,
    /// Whether messages of it are shared with others.
    pub(super) is_shared: bool,
    /// Subscription identifier sent to the server; 0: none.
    pub(super) identifier: u32,
    /// SUBACK has come on a connection of this session.
    pub(super) is_confirmed: bool,
}

#[derive(Debug)]
pub(super) struct Subscriptions {
    entries: Vec<Entry>,
    /// Subscription and number of entries by identifier.
    by_identifier: HashMap<u32, (SubscriptionId, u32), FixedState>,
    /// Filters that a session has on the server and the client no longer needs.
    unwanted: Vec<String>,
    /// The session began before this machine: what its identifiers mean is not known.
    pub(super) is_inherited: bool,
}

impl Subscriptions {
    pub(super) fn new() -> Self {
        let by_identifier = HashMap::with_hasher(FixedState::default());
        Subscriptions {
            entries: Vec::new(),
            by_identifier,
            unwanted: Vec::new(),
            is_inherited: false,
        }
    }

    /// Adds one, or takes the place of the one with its name. All that have its filter get its identifier, as they do on
    /// the server: a SUBSCRIBE takes the place of the one before. [MQTT-3.8.4-3]
    pub(super) fn insert(&mut self, entry: Entry) {
        self.entries
            .retain(|other| other.subscription != entry.subscription);
        self.unwanted.retain(|filter| *filter != entry.filter);
        for other in self
            .entries
            .iter_mut()
            .filter(|other| other.filter == entry.filter)
        {
            other.identifier = entry.identifier;
        }
        self.entries.push(entry);
        self.count();
    }

    /// Takes one away. Returns it if no other one has its filter.
    pub(super) fn remove(&mut self, subscription: SubscriptionId) -> Option<Entry> {
        let at = self
            .entries
            .iter()
            .position(|entry| entry.subscription == subscription)?;
        let entry = self.entries.remove(at);
        self.count();
        let is_last = !self
            .entries
            .iter()
            .any(|other| other.filter == entry.filter);
        is_last.then_some(entry)
    }

    /// The filter is unsubscribed as soon as there is a connection.
    pub(super) fn leave_later(&mut self, filter: String) {
        self.unwanted.push(filter);
    }

    /// Returns the filters to unsubscribe now.
    pub(super) fn take_unwanted(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unwanted)
    }

    /// The session is gone.
    pub(super) fn forget_session(&mut self) {
        self.unwanted.clear();
        self.is_inherited = false;
        for entry in &mut self.entries {
            entry.is_confirmed = false;
        }
    }

    pub(super) fn get_mut(&mut self, subscription: SubscriptionId) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .find(|entry| entry.subscription == subscription)
    }

    pub(super) fn of_filter(&self, filter: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.filter == filter)
    }

    /// The subscription that a delivery with this identifier is for; nothing if there are several, or it is not known.
    pub(super) fn owner(&self, identifier: u32) -> Option<SubscriptionId> {
        let (subscription, count) = *self.by_identifier.get(&identifier)?;
        (count == 1 && !self.is_inherited).then_some(subscription)
    }

    /// Whether any subscription asks for last values.
    pub(super) fn want_last_values(&self) -> bool {
        self.entries.iter().any(|entry| entry.last_values)
    }

    /// Whether any is shared.
    pub(super) fn are_shared(&self) -> bool {
        self.entries.iter().any(|entry| entry.is_shared)
    }

    /// Whether a message of this subscription is shared with others; of an unknown one, whether all are.
    pub(super) fn is_shared(&self, subscription: Option<SubscriptionId>) -> bool {
        match subscription {
            Some(wanted) => self
                .entries
                .iter()
                .any(|entry| entry.subscription == wanted && entry.is_shared),
            None => self.are_shared() && self.entries.iter().all(|entry| entry.is_shared),
        }
    }

    fn count(&mut self) {
        self.by_identifier.clear();
        for entry in self.entries.iter().filter(|entry| entry.identifier != 0) {
            let place = self
                .by_identifier
                .entry(entry.identifier)
                .or_insert((entry.subscription, 0));
            *place = (entry.subscription, place.1 + 1);
        }
    }
}
