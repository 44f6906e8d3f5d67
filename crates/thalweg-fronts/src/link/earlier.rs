//! What fronts leave to another link that goes on where theirs has ended: while their own link is there, and for a while after
//! it is gone.

use super::Links;
use crate::front::Front;
use crate::registry::{AnyFront, each_front};
use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use thalweg_kernel::LinkId;
use thalweg_model::{Span, Time};

/// What [`Front::bequeath`] has given.
pub(crate) type Estate = Box<dyn Any + Send>;

/// Fronts and what they have left, by the names of [`Front::resumable`].
#[derive(Default)]
pub(super) struct EarlierFronts {
    by_name: HashMap<Box<str>, Place>,
    /// The parked ones, by when their time is over.
    by_end: BTreeSet<(Time, Box<str>)>,
}

enum Place {
    Linked(LinkId),
    Parked(Parked),
}

struct Parked {
    estate: Estate,
    until: Time,
    /// Octets that it takes.
    kept: usize,
    /// Batches of the journal that output of the link waited for.
    held: Vec<u64>,
}

impl Links {
    /// From now on a link's front can be found under a name. The link must be resumable by that name.
    pub(crate) fn name_front(&mut self, name: &str, id: LinkId) {
        self.take_place(name);
        self.earlier.by_name.insert(name.into(), Place::Linked(id));
    }

    /// A front is resumable no more.
    pub(crate) fn forget_earlier(&mut self, name: &str) {
        self.take_place(name);
    }

    /// Takes what the front of that name leaves. Output of `heir` waits from now on for what that of its own link waited for.
    pub(crate) fn take_earlier(&mut self, name: &str, heir: LinkId, now: Time) -> Option<Estate> {
        let (estate, held) = match self.take_place(name)? {
            // The broker has not noticed yet that its connection is lost.
            Place::Linked(id) => {
                let link = self.get_mut(id)?;
                let held = link.held.iter().map(|(_, batch)| *batch).collect();
                let estate = each_front!(&mut link.front, front => Front::bequeath(&mut **front))?;
                (estate, held)
            }
            Place::Parked(parked) if parked.until <= now => return None,
            Place::Parked(parked) => (parked.estate, parked.held),
        };
        self.hold_for(heir, held);
        Some(estate)
    }

    fn take_place(&mut self, name: &str) -> Option<Place> {
        let place = self.earlier.by_name.remove(name)?;
        if let Place::Parked(Parked { until, kept, .. }) = &place {
            self.kept -= kept;
            self.earlier.by_end.remove(&(*until, name.into()));
        }
        Some(place)
    }

    /// Keeps what the front of a link that is gone leaves, if it is resumable; `held` are the batches that its output waits for.
    pub(super) fn park(&mut self, id: LinkId, mut front: AnyFront, held: Vec<u64>, now: Time) {
        let resumable = each_front!(&front, front => Front::resumable(&**front));
        let Some((name, span)) = resumable.map(|(name, span)| (Box::<str>::from(name), span))
        else {
            return;
        };
        match self.earlier.by_name.get(&name) {
            Some(Place::Linked(linked)) if *linked == id => self.take_place(&name),
            // Another link has the name.
            _ => return,
        };
        let kept = each_front!(&front, front => Front::kept_bytes(&**front)).unwrap_or_default();
        if span == Span::ZERO {
            return;
        }
        let Some(estate) = each_front!(&mut front, front => Front::bequeath(&mut **front)) else {
            return;
        };
        let until = now + span;
        self.kept += kept;
        self.earlier.by_end.insert((until, name.clone()));
        let parked = Parked {
            estate,
            until,
            kept,
            held,
        };
        self.earlier.by_name.insert(name, Place::Parked(parked));
    }

    /// Drops what was left by links that were lost too long ago. To be called many times a second.
    pub fn sweep(&mut self, now: Time) {
        while let Some((until, name)) = self.earlier.by_end.first()
            && *until <= now
        {
            let name = name.clone();
            self.take_place(&name);
        }
    }

    /// A batch could not be kept: links whose output waited for it cannot be gone on with.
    pub(super) fn drop_held(&mut self, number: u64) {
        let waited =
            |place: &Place| matches!(place, Place::Parked(parked) if parked.held.contains(&number));
        let places = self.earlier.by_name.iter();
        let names: Vec<Box<str>> = places
            .filter(|(_, place)| waited(place))
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            self.take_place(&name);
        }
    }
}
