//! What can be chosen: protocol, quality of service, broker, and whatever else of a cell is not the situation.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cell::{Cell, Driver, Leg, Protocol};
use crate::e2d::plan::ADAPTIVE;
use crate::studies::group;

/// A way to carry messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The broker, or the library where there is none.
    pub system: String,
    pub driver: Driver,
    /// How it is published.
    pub publish: Leg,
    /// How it is received.
    pub subscribe: Leg,
    /// Everything else that was different between cells: policy, strategy, timers, settings of the broker.
    pub variant: BTreeMap<String, String>,
}

impl Choice {
    /// The one that a cell measures.
    pub fn of(cell: &Cell) -> Choice {
        let is_told = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.split(['.', '_', '-', ' '])
                .any(|word| TOLD.split(' ').any(|told| told == word))
        };
        let axes = cell.axes.iter().filter(|(name, _)| !is_told(name));
        let variant = axes
            .chain(&cell.broker_settings)
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        Choice {
            system: cell.system.clone(),
            driver: cell.driver,
            publish: cell.publish,
            subscribe: cell.subscribe,
            variant,
        }
    }

    /// What tells it from others; its order is that of equals.
    pub fn key(&self) -> String {
        format!("{} {:?} {:?}", self.name(), self.publish, self.subscribe)
    }

    /// In words: `MQTT QoS 1 (mosquitto)`.
    pub fn name(&self) -> String {
        if let Some(strategy) = self.strategy() {
            return format!("`{strategy}` ({})", self.system);
        }
        if let Some(goal) = self.adaptive() {
            return format!(
                "our client, choosing MQTT or CoAP for {goal} ({})",
                self.system
            );
        }
        let (publish, subscribe) = (leg_name(&self.publish), leg_name(&self.subscribe));
        let legs = if publish == subscribe {
            publish
        } else {
            format!("{publish} to {subscribe}")
        };
        let beside = match self.driver {
            Driver::Stock if !self.system.is_empty() => ", stock client",
            Driver::Bare => ", bare client",
            _ => "",
        };
        let with: String = self
            .variant
            .iter()
            .map(|(name, value)| match name.as_str() {
                "policy" | "strategy" => format!(", {value}"),
                _ => format!(", {name} {value}"),
            })
            .collect();
        format!("{legs}{with} ({}{beside})", self.system)
    }

    pub fn json(&self) -> Value {
        json!({ "name": self.name(), "system": self.system, "driver": self.driver, "publish": self.publish,
            "subscribe": self.subscribe, "variant": self.variant })
    }

    /// What our client is after, if it is the one that chooses its protocol; its legs are then those that it may choose.
    pub fn adaptive(&self) -> Option<&str> {
        self.variant.get(ADAPTIVE).map(String::as_str)
    }

    /// The strategy of a group, if that is what is chosen.
    pub fn strategy(&self) -> Option<&str> {
        self.variant.get("strategy").map(String::as_str)
    }
}

/// A leg in words.
fn leg_name(leg: &Leg) -> String {
    let name = group::name(leg.protocol);
    let base = match (leg.protocol, leg.qos) {
        (Protocol::Mqtt, qos) => format!("{name} QoS {qos}"),
        (Protocol::Coap, 0) => format!("{name} NON"),
        (Protocol::Coap, _) => format!("{name} CON"),
        (Protocol::Amqp | Protocol::Stomp, 1..) => format!("{name} acknowledged"),
        (Protocol::Dds, 0) => format!("{name} best effort"),
        (Protocol::Dds, _) => format!("{name} reliable"),
        _ => name.to_owned(),
    };
    // One under way is a study's mode and decides over throughput; elsewhere windows are said only if unusual.
    match (leg.protocol, leg.qos, leg.window) {
        (Protocol::Mqtt, 1.., 1) => format!("{base} one at a time"),
        _ => base,
    }
}

/// Words in names of axes that repeat what the cell itself says.
const TOLD: &str = "way size payload bytes loss delay jitter rtt rate speed flows pairs fan fanout protocol publish subscribe \
                    qos window version system driver members neighbour class name con kind";
