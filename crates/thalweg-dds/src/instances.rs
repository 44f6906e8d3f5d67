//! Instances of a topic that comes in: the level of the address of each.

use crate::cdr;
use crate::cyclone::{KeyHash, Sample, SampleKind};
use crate::key::KeyType;
use crate::name;
use crate::types::Known;
use std::collections::HashMap;

/// Instances of a topic whose levels are remembered.
const LEVELS_MAX: usize = 4096;

/// The levels of the instances of a topic.
pub(crate) struct Instances {
    /// The type and its key, if that is known; else levels are the hashes of keys.
    known: Option<(Known, KeyType)>,
    /// Of keys that were seen.
    levels: HashMap<KeyHash, String>,
}

impl Instances {
    /// Of a topic whose type is this one, if it is known.
    pub(crate) fn of(known: Option<&Known>) -> Instances {
        Instances {
            known: known.and_then(|it| Some((it.clone(), KeyType::of(&it.of)?))),
            levels: HashMap::new(),
        }
    }

    /// Appends the level of the instance of a sample.
    pub(crate) fn push_level(&mut self, sample: &Sample<'_>, address: &mut String) {
        let Some((Known { of, types, .. }, key)) = &self.known else {
            return name::push_key_level(&sample.key, address);
        };
        // All zeros may be that none was sent.
        let is_hashed = sample.key != [0; 16];
        if let Some(level) = self.levels.get(&sample.key).filter(|_| is_hashed) {
            return address.push_str(level);
        }
        let level = match sample.kind {
            SampleKind::Data => {
                let value = cdr::to_json(sample.bytes, of, types).ok();
                value.and_then(|value| key.level(&value))
            }
            // Fast DDS writes the hash and no key.
            SampleKind::Dispose | SampleKind::Unregister => key
                .level_of_payload(sample.bytes, types)
                .or_else(|| key.level_of_hash(&sample.key, types)),
        };
        let level = level.unwrap_or_else(|| {
            let mut level = String::new();
            name::push_key_level(&sample.key, &mut level);
            level
        });
        address.push_str(&level);
        if self.levels.len() >= LEVELS_MAX {
            self.levels.clear();
        }
        self.levels.insert(sample.key, level);
    }
}
