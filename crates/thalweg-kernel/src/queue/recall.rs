//! Last values come into a queue that was just bound.

use super::binding::filter_of;
use super::spec::{ExchangeKind, Refusal};
use crate::Kernel;
use crate::access::Permission;
use crate::effects::Effects;
use crate::ids::SessionId;
use crate::last_value::ScanCursor;
use std::collections::VecDeque;
use thalweg_model::{Filter, Time};

/// Last values that one call brings at the most.
const RECALLED_MAX: u64 = 100_000;

impl Kernel {
    /// Puts the last values of all addresses that a key of an exchange wants into a queue, as if they were published now to
    /// that queue alone; how many. Of last values only those of this shard; with several shards, others have the rest.
    pub fn recall<E: Effects>(
        &mut self,
        id: SessionId,
        queue: &str,
        exchange: &str,
        key: &str,
        now: Time,
        fx: &mut E,
    ) -> Result<u64, Refusal> {
        let index = self.find_queue(queue).ok_or(Refusal::NoQueue)?;
        self.may_use_queue(id, index)?;
        let (kind, _) = self.exchange_kind(exchange).ok_or(Refusal::NoExchange)?;
        if kind == ExchangeKind::Headers {
            return Err(Refusal::Invalid("an exchange that compares headers has no last values"));
        }
        let (filter, pattern) = filter_of(exchange, kind, key);
        let session = self.sessions.get(id).ok_or(Refusal::Denied)?;
        if Filter::check(&filter).is_err() || !session.access.allows(Permission::Subscribe, &filter) {
            return Err(Refusal::Denied);
        }
        let (mut cursor, mut count) = (ScanCursor::default(), 0);
        loop {
            let mut found = VecDeque::new();
            let done = self.look(&filter, &mut cursor, now, &mut found);
            for message in found {
                let is_meant =
                    pattern.as_deref().is_none_or(|it| super::binding::pattern_matches(it, message.address()));
                if !is_meant {
                    continue;
                }
                count += 1;
                self.accept(index, &message, now, fx);
                if !self.pending_references.is_empty() {
                    self.persist_kept(&message, false, self.limits.safety, fx);
                }
            }
            if done || count >= RECALLED_MAX {
                break;
            }
        }
        if self.has_queue_work() {
            self.after_queues(now, fx);
        }
        Ok(count)
    }
}
