//! Endpoints that wait for the type that they announce, before they get an opposite.
//!
//! A sample is taken by a reader whose type is known from the first one on: none has to be kept, or comes in another form than
//! the one before.

use crate::announced::{self, Unknown};
use crate::cyclone::{Discovered, Endpoint, Participant};
use crate::mirror::locked;
use crate::name::{self, Role};
use crate::settings::DdsSettings;
use std::time::{Duration, Instant};

/// How long an endpoint waits for its type; after that it is as if it announced none.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Pause between two looks for types.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Endpoints that wait at once.
const WAITING_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct Admission {
    waiting: Vec<(Discovered, Instant)>,
}

impl Admission {
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Of what was discovered now or before, all that need not wait.
    pub(crate) fn admit(
        &mut self,
        discovered: Vec<Discovered>,
        participant: &Participant,
        settings: &DdsSettings,
        now: Instant,
    ) -> Vec<Discovered> {
        let mut admitted = Vec::new();
        for found in discovered {
            let guid = *found.guid();
            self.waiting.retain(|(it, _)| *it.guid() != guid);
            locked(participant.announced()).forget(&guid);
            let has_type = found.endpoint().is_some_and(|it| is_asked(it, settings));
            match has_type && self.waiting.len() < WAITING_MAX {
                true => self.waiting.push((found, now + WAIT_MAX)),
                false => admitted.push(found),
            }
        }
        let mut rest = Vec::new();
        for (found, until) in self.waiting.drain(..) {
            let is_settled = found
                .endpoint()
                .is_none_or(|it| is_settled(it, participant));
            match is_settled || now >= until {
                true => admitted.push(found),
                false => rest.push((found, until)),
            }
        }
        self.waiting = rest;
        admitted
    }
}

/// Whether a peer's type is of use: where values are JSON, and no file describes them. Services are left out, as what stands before
/// their values is part of some peers' types.
fn is_asked(endpoint: &Endpoint, settings: &DdsSettings) -> bool {
    let topic = &endpoint.topic;
    endpoint.type_id.is_some()
        && settings.types.find(&topic.type_name).is_none()
        && name::place_of(&endpoint.qos.partitions, &topic.name, &settings.ros).is_ok_and(|it| {
            it.role == Role::Topic
                && settings.is_bridged(&it.address)
                && settings.is_json(&it.address)
        })
}

/// Whether there is nothing more to wait for.
fn is_settled(endpoint: &Endpoint, participant: &Participant) -> bool {
    let mut announced = locked(participant.announced());
    let (name, guid, by) = (
        &endpoint.topic.type_name,
        endpoint.guid,
        endpoint.participant,
    );
    let Some(id) = endpoint.type_id else {
        return true;
    };
    if announced.join(name, &guid) || announced.is_full(&by) {
        return true;
    }
    match announced::known(&id, &mut |id| participant.described(id)) {
        Ok(known) => announced.insert(name, Some(known), by, guid),
        Err(Unknown::Ever) => {
            tracing::info!(r#type = name, "an announced DDS type is not supported");
            announced.insert(name, None, by, guid);
        }
        Err(Unknown::Yet) => return false,
    }
    true
}
