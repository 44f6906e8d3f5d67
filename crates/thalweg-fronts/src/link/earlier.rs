//! Fronts that another link may go on with: while their own link is there, and for a while after it is gone.

use super::Links;
use crate::front::Front;
use crate::registry::{AnyFront, each_front};
use std::collections::HashMap;
use thalweg_kernel::LinkId;
use thalweg_model::Time;

/// Fronts by the names of [`Front::resumable`].
#[derive(Default)]
pub(super) struct EarlierFronts {
    by_name: HashMap<Box<str>, Place>,
    /// Those whose time is over are looked for when there are so many.
    swept_at: usize,
}

enum Place {
    Linked(LinkId),
    Parked {
        front: AnyFront,
        until: Time,
        /// What it keeps for its peer, in octets.
        kept: usize,
    },
}

/// A front of an earlier link.
pub(crate) enum Earlier {
    /// The link is still there.
    Linked(LinkId),
    Parked(AnyFront),
}

/// Below so many parked fronts none is looked for.
const SWEPT_LEAST: usize = 64;

impl Links {
    /// From now on a link's front can be found under a name. The link must be resumable by that name.
    pub(crate) fn name_front(&mut self, name: &str, id: LinkId) {
        let place = Place::Linked(id);
        if let Some(Place::Parked { kept, .. }) = self.earlier.by_name.insert(name.into(), place) {
            self.kept -= kept;
        }
    }

    /// Takes a front by its name.
    pub(crate) fn take_earlier(&mut self, name: &str, now: Time) -> Option<Earlier> {
        match self.earlier.by_name.remove(name)? {
            Place::Linked(id) => Some(Earlier::Linked(id)),
            Place::Parked { front, until, kept } => {
                self.kept -= kept;
                (now < until).then_some(Earlier::Parked(front))
            }
        }
    }

    /// Keeps the front of a link that is gone, if it is resumable.
    pub(super) fn park(&mut self, front: AnyFront, kept: usize, now: Time) {
        let resumable = each_front!(&front, front => Front::resumable(&**front));
        let Some((name, span)) = resumable.map(|(name, span)| (Box::from(name), span)) else {
            return;
        };
        self.sweep(now);
        self.kept += kept;
        let until = now + span;
        let place = Place::Parked { front, until, kept };
        if let Some(Place::Parked { kept, .. }) = self.earlier.by_name.insert(name, place) {
            self.kept -= kept;
        }
    }

    fn sweep(&mut self, now: Time) {
        let EarlierFronts { by_name, swept_at } = &mut self.earlier;
        if by_name.len() < (*swept_at).max(SWEPT_LEAST) {
            return;
        }
        let mut gone = 0;
        by_name.retain(|_, place| match place {
            Place::Parked { until, kept, .. } if *until <= now => {
                gone += *kept;
                false
            }
            _ => true,
        });
        *swept_at = 2 * by_name.len();
        self.kept -= gone;
    }
}
