//! The bridge's end of a topic that others read: it writes what the broker delivers.

use crate::calls::{self, RequestId};
use crate::cdr;
use crate::counts::Counts;
use crate::cyclone::{Guid, KeyHash, SampleKind, Unwritten, Writer};
use crate::frame::{self, Retain};
use crate::key::KeyType;
use crate::mirror::locked;
use crate::name::{self, Role};
use crate::relief::{Relief, Spent};
use crate::types::{JSON_MAX, Known};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg_model::{Span, Time};

/// How long a writer drops samples at once after a reader was too slow: others' samples wait during each attempt.
const GIVE_UP: Duration = Duration::from_millis(500);

/// Bytes of the shortest key that is written alone: Fast DDS 2 takes up to 16 for its hash, and the hash that is sent for none.
const KEY_BYTES_MIN: usize = 20;

/// The key of a topic without one.
const NO_KEY: [u8; KEY_BYTES_MIN] = {
    let mut bytes = [0; KEY_BYTES_MIN];
    bytes[1] = 1;
    bytes
};

/// Lasting writers of a topic without a key whose samples are apart.
const SOURCES_MAX: usize = 1024;

/// Where messages of an address are written.
pub(crate) struct Target {
    writer: Writer,
    role: Role,
    json: Option<Known>,
    /// The type and its key, if instances have addresses and it is known.
    key: Option<(Known, KeyType)>,
    is_keyless: bool,
    /// Lasting writers whose samples the writer keeps apart for late readers.
    sources: Mutex<BTreeSet<KeyHash>>,
    is_xcdr2: bool,
    /// Until then samples are dropped at once; nanoseconds.
    given_up: AtomicU64,
    /// What writes while a reader does not acknowledge.
    relief: Mutex<Option<Relief>>,
    spent: Spent,
}

impl Target {
    /// `json` is the type if values are JSON in the broker, `keyed` if instances have addresses of their own.
    pub(crate) fn of(
        writer: Writer,
        role: Role,
        json: Option<&Known>,
        keyed: Option<&Known>,
        is_keyless: bool,
        spent: Spent,
    ) -> Target {
        Target {
            role,
            json: json.cloned(),
            key: keyed.and_then(|it| Some((it.clone(), KeyType::of(&it.of)?))),
            is_keyless,
            sources: Mutex::default(),
            is_xcdr2: writer.is_xcdr2(),
            writer,
            given_up: AtomicU64::new(0),
            relief: Mutex::new(None),
            spent,
        }
    }

    pub(crate) fn guid(&self) -> Guid {
        self.writer.guid
    }

    pub(crate) fn is_service(&self) -> bool {
        self.role == Role::Request
    }

    /// Writes a message; false, and it is counted, if that is not possible. `level` is that of the instance, `id` stands before
    /// requests and answers.
    pub(crate) fn write(
        &self,
        message: &frame::Sample<'_>,
        level: Option<&str>,
        id: Option<RequestId>,
        counts: &Counts,
        now: Time,
    ) -> bool {
        let dropped = |reason| {
            Counts::add(reason);
            false
        };
        if now.nanos() < self.given_up.load(Ordering::Relaxed) {
            return dropped(&counts.slow);
        }
        // Of a topic without a key each lasting writer has samples of its own for late readers.
        let source = match (self.is_keyless, level, message.source) {
            (false, ..) | (_, Some(_), _) | (.., "") => None,
            (.., source) => Some(name::key_of(source)),
        };
        let written = if message.retain == Retain::Ends {
            // To readers such a topic is one instance, which goes on.
            let Some(key) = source.filter(|it| locked(&self.sources).remove(it)) else {
                return true;
            };
            self.put(SampleKind::Unregister, &NO_KEY, key, now)
        } else if message.retain == Retain::Clear {
            let all = level
                .is_none()
                .then(|| std::mem::take(&mut *locked(&self.sources)));
            for key in all.into_iter().flatten() {
                // What is written after it says what becomes of the topic.
                let _ = self.put(SampleKind::Unregister, &NO_KEY, key, now);
            }
            let payload = match (self.is_keyless, &self.key, level) {
                (true, ..) => Some(NO_KEY.to_vec()),
                (_, Some((known, key)), Some(level)) => {
                    key.payload(level, &known.types, self.is_xcdr2)
                }
                // The key itself would have to be written, and of it only the hash is known.
                _ => None,
            };
            let Some(mut payload) = payload else {
                return dropped(&counts.unreadable);
            };
            payload.resize(payload.len().max(KEY_BYTES_MIN), 0);
            let kind = match (self.is_keyless, level) {
                // To readers the topic is one instance, which goes on with what others say.
                (true, Some(_)) => SampleKind::Unregister,
                _ => SampleKind::Dispose,
            };
            self.put(kind, &payload, self.hash_of(level), now)
        } else {
            let bytes = match &self.json {
                Some(of) if !cdr::is_encapsulated(message.payload) => {
                    self.bytes_of(message.payload, of)
                }
                _ => None,
            };
            let bytes = bytes.as_deref().unwrap_or(message.payload);
            if !cdr::is_encapsulated(bytes) {
                return dropped(&counts.unreadable);
            }
            let of_value = self.key.as_ref().map(|(known, key)| {
                let value = cdr::to_json(bytes, &known.of, &known.types).ok();
                value.and_then(|value| key.level(&value))
            });
            // The value decides, whatever the address has.
            let level = of_value.as_ref().map_or(level, Option::as_deref);
            let source = source.filter(|it| {
                let mut sources = locked(&self.sources);
                let has_room = sources.len() < SOURCES_MAX;
                sources.contains(it) || has_room && sources.insert(*it)
            });
            let key = source.unwrap_or_else(|| self.hash_of(level));
            let joined = id.and_then(|id| calls::joined(id, bytes));
            let bytes = joined.as_deref().unwrap_or(bytes);
            self.put(SampleKind::Data, bytes, key, now)
        };
        match written {
            Ok(()) => {
                Counts::add(&counts.written);
                true
            }
            Err(Unwritten::Slow) => {
                let until = now + Span::from_nanos(GIVE_UP.as_nanos() as u64);
                self.given_up.store(until.nanos(), Ordering::Relaxed);
                dropped(&counts.slow)
            }
            Err(Unwritten::Failed(error)) => {
                tracing::debug!(address = message.address, %error, "a sample was not written");
                dropped(&counts.refused)
            }
        }
    }

    /// The hash of the key of the instance that a level says; other participants have the same where the type is known.
    fn hash_of(&self, level: Option<&str>) -> KeyHash {
        let known = |level| self.key.as_ref().and_then(|(_, key)| key.hash(level));
        level.map_or([0; 16], |level| {
            known(level).unwrap_or_else(|| name::key_of(level))
        })
    }

    fn bytes_of(&self, text: &[u8], known: &Known) -> Option<Vec<u8>> {
        if text.len() > JSON_MAX {
            return None;
        }
        let value = match text {
            // A request or an answer that says nothing.
            [] if self.role != Role::Topic => serde_json::Value::Null,
            text => serde_json::from_slice(text).ok()?,
        };
        cdr::from_json(&value, &known.of, &known.types, self.is_xcdr2).ok()
    }

    /// Writes a sample; beside the writer while a reader holds that up.
    fn put(
        &self,
        kind: SampleKind,
        bytes: &[u8],
        key: KeyHash,
        now: Time,
    ) -> Result<(), Unwritten> {
        let mut relief = locked(&self.relief);
        if let Some(beside) = &mut *relief {
            if !beside.is_over(&self.writer, now) {
                return beside.write(kind, bytes, key, now);
            }
            *relief = None;
        }
        match self.writer.write(kind, bytes, key) {
            Err(Unwritten::Slow) => {
                let mut beside = Relief::beside(&self.writer, bytes.len(), &self.spent, now)?;
                tracing::info!(writer = ?self.writer.guid, "a DDS reader does not acknowledge");
                let written = beside.write(kind, bytes, key, now);
                *relief = Some(beside);
                written
            }
            written => written,
        }
    }

    /// Goes back to the writer once it is held up no longer; whether it is held up.
    pub(crate) fn tend(&self, now: Time) -> bool {
        let mut relief = locked(&self.relief);
        if let Some(found) = &mut *relief
            && found.is_over(&self.writer, now)
        {
            *relief = None;
        }
        relief.is_some()
    }

    pub(crate) fn flush(&self) {
        self.writer.flush();
        if let Some(relief) = &*locked(&self.relief) {
            relief.flush();
        }
    }
}
