//! Endpoints that wait for the type that they announce, before they get an opposite.
//!
//! A sample is taken by a reader whose type is known from the first one on: none has to be kept, or comes in another form than
//! the one before.

use crate::announced::{self, Unknown};
use crate::counts::Counts;
use crate::cyclone::{Discovered, Endpoint, Participant, Topic};
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
        counts: &Counts,
        now: Instant,
    ) -> Vec<Discovered> {
        for found in &discovered {
            locked(participant.announced()).forget(found.guid());
        }
        let is_asked = |it: &Endpoint| is_asked(it, settings);
        let is_settled = |it: &Endpoint| is_settled(it, participant);
        self.admit_by(discovered, is_asked, is_settled, counts, now)
    }

    fn admit_by(
        &mut self,
        discovered: Vec<Discovered>,
        is_asked: impl Fn(&Endpoint) -> bool,
        is_settled: impl Fn(&Endpoint) -> bool,
        counts: &Counts,
        now: Instant,
    ) -> Vec<Discovered> {
        let mut admitted = Vec::new();
        for found in discovered {
            let guid = *found.guid();
            self.waiting.retain(|(it, _)| *it.guid() != guid);
            match found.endpoint().filter(|it| is_asked(it)) {
                Some(_) if self.waiting.len() < WAITING_MAX => {
                    self.waiting.push((found, now + WAIT_MAX));
                }
                of => {
                    if let Some(untyped) = of {
                        note_untyped(untyped, counts);
                    }
                    admitted.push(found);
                }
            }
        }
        let mut rest = Vec::new();
        for (found, until) in self.waiting.drain(..) {
            let waits = found.endpoint().filter(|it| !is_settled(it));
            match waits {
                Some(_) if now < until => rest.push((found, until)),
                of => {
                    if let Some(untyped) = of {
                        note_untyped(untyped, counts);
                    }
                    admitted.push(found);
                }
            }
        }
        self.waiting = rest;
        admitted
    }
}

/// The type of an endpoint did not come: the library asks for it once.
fn note_untyped(endpoint: &Endpoint, counts: &Counts) {
    let Topic {
        name, type_name, ..
    } = &endpoint.topic;
    tracing::info!(
        topic = name,
        r#type = type_name,
        "a peer has not sent the DDS type that it announces"
    );
    Counts::add(&counts.untyped);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(number: u8) -> Discovered {
        Discovered::Writer(Endpoint {
            guid: [number; 16],
            participant: [0; 16],
            topic: Topic {
                name: "Pose".into(),
                type_name: "Pose".into(),
                is_keyless: true,
            },
            qos: crate::qos::Qos::default(),
            type_id: Some([number; 14]),
        })
    }

    #[test]
    fn an_endpoint_whose_type_does_not_come_is_admitted_after_a_second_and_counted() {
        let (counts, mut admission) = (Counts::default(), Admission::default());
        let start = Instant::now();
        let mut admit = |found, is_settled: fn(&Endpoint) -> bool, now| {
            let admitted = admission.admit_by(found, |_| true, is_settled, &counts, now);
            (
                admitted,
                admission.is_waiting(),
                Counts::get(&counts.untyped),
            )
        };
        let both = vec![writer(1), writer(2)];
        assert_eq!(admit(both, |_| false, start), (vec![], true, 0));
        let early = start + WAIT_MAX - LOOK_EVERY;
        let is_first = |it: &Endpoint| it.guid[0] == 1;
        assert_eq!(admit(vec![], is_first, early), (vec![writer(1)], true, 0));
        let end = start + WAIT_MAX;
        assert_eq!(admit(vec![], |_| false, end), (vec![writer(2)], false, 1));
    }
}
