//! Publishes that wait for an acknowledgement, by packet identifier; also over the connections of one session.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use thalweg_model::Time;
use thalweg_mqtt::QoS;

use crate::transport::{MessageId, RequestId};

/// A publish that waits for an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) purpose: Purpose,
    pub(super) qos: QoS,
    /// PUBREC has come: the message is the server's, and only PUBREL is repeated. [MQTT-4.3.3-4]
    pub(super) is_released: bool,
    pub(super) sent_at: Time,
    /// The connection on which it was last sent.
    pub(super) connection: u32,
    /// Counts what was sent.
    order: u64,
}

/// Purpose of a publish in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Message(MessageId),
    Question(RequestId),
}

#[derive(Debug)]
pub(super) struct Flights {
    by_id: HashMap<u16, Flight, FixedState>,
    /// Those of earlier connections of the session that were not given again yet.
    resumed: HashMap<MessageId, u16, FixedState>,
    order: u64,
    exactly_once: usize,
}

impl Flights {
    pub(super) fn new() -> Self {
        let hasher = FixedState::default();
        Flights {
            by_id: HashMap::with_hasher(hasher.clone()),
            resumed: HashMap::with_hasher(hasher),
            order: 0,
            exactly_once: 0,
        }
    }

    /// Something was sent under this identifier.
    pub(super) fn begin(
        &mut self,
        id: u16,
        purpose: Purpose,
        qos: QoS,
        connection: u32,
        now: Time,
    ) {
        self.order += 1;
        if let Purpose::Message(message) = purpose
            && !self.resumed.is_empty()
        {
            self.resumed.remove(&message);
        }
        let flight = Flight {
            purpose,
            qos,
            is_released: false,
            sent_at: now,
            connection,
            order: self.order,
        };
        let before = self.by_id.insert(id, flight);
        let is_known = before.is_some_and(|before| before.connection == connection);
        self.exactly_once += usize::from(qos == QoS::ExactlyOnce && !is_known);
    }

    pub(super) fn get_mut(&mut self, id: u16) -> Option<&mut Flight> {
        self.by_id.get_mut(&id)
    }

    pub(super) fn end(&mut self, id: u16) -> Option<Flight> {
        let ended = self.by_id.remove(&id);
        let was_counted = ended.is_some_and(|flight| flight.qos == QoS::ExactlyOnce);
        self.exactly_once = self.exactly_once.saturating_sub(usize::from(was_counted));
        ended
    }

    /// The identifier under which an earlier connection of the session sent this message.
    pub(super) fn resumed(&self, message: MessageId) -> Option<u16> {
        self.resumed.get(&message).copied()
    }

    /// Number of QoS 2 publishes of this connection that are not completed.
    pub(super) fn exactly_once(&self) -> usize {
        self.exactly_once
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = u16> + '_ {
        self.by_id.keys().copied()
    }

    /// The session goes on. Returns the identifiers whose PUBREL is to be repeated, in the order of their publishes.
    /// [MQTT-4.4.0-1] [MQTT-4.6.0-4]
    pub(super) fn go_on(&mut self) -> Vec<u16> {
        self.resumed.clear();
        let mut released = Vec::new();
        for (id, flight) in &self.by_id {
            if let Purpose::Message(message) = flight.purpose {
                self.resumed.insert(message, *id);
            }
            if flight.is_released {
                released.push((flight.order, *id));
            }
        }
        released.sort_unstable();
        released.into_iter().map(|(_, id)| id).collect()
    }

    /// The session is gone. Returns the messages that the server had taken before.
    pub(super) fn forget(&mut self) -> Vec<MessageId> {
        self.resumed.clear();
        let taken = self.by_id.values().filter(|flight| flight.is_released);
        let taken = taken.filter_map(|flight| match flight.purpose {
            Purpose::Message(id) => Some(id),
            Purpose::Question(_) => None,
        });
        let taken = taken.collect();
        self.by_id.clear();
        self.exactly_once = 0;
        taken
    }

    /// The connection has ended. Publishes that were not given again during it never will be; requests are not
    /// repeated.
    pub(super) fn connection_ended(&mut self, connection: u32) {
        self.resumed.clear();
        self.by_id.retain(|_, flight| {
            flight.connection == connection && matches!(flight.purpose, Purpose::Message(_))
        });
        self.exactly_once = 0;
    }
}
