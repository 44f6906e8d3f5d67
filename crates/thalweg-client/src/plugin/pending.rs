//! Questions that wait for their answers.

use std::borrow::Borrow;

use crate::transport::{Events, Refusal, RequestId};

/// Requests in flight, each by the key in its answer: correlation data, or an id.
#[derive(Debug)]
pub(crate) struct Pending<K>(Vec<(K, RequestId)>);

impl<K> Default for Pending<K> {
    fn default() -> Self {
        Pending(Vec::new())
    }
}

impl<K> Pending<K> {
    pub(crate) fn add(&mut self, key: K, request: RequestId) {
        self.0.push((key, request));
    }

    /// The question that this answers; it waits no more.
    pub(crate) fn take<Q: PartialEq + ?Sized>(&mut self, key: &Q) -> Option<RequestId>
    where
        K: Borrow<Q>,
    {
        let at = self.0.iter().position(|(known, _)| known.borrow() == key)?;
        Some(self.0.swap_remove(at).1)
    }

    /// The answer is not wanted any more; whether it was awaited.
    pub(crate) fn forget(&mut self, request: RequestId) -> bool {
        let before = self.0.len();
        self.0.retain(|(_, waiting)| *waiting != request);
        self.0.len() < before
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Nothing is answered any more, for this reason.
    pub(crate) fn fail(&mut self, why: &Refusal, events: &mut dyn Events) {
        for (_, request) in self.0.drain(..) {
            events.answered(request, Err(why.clone()));
        }
    }
}
