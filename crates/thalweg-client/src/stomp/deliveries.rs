//! Deliveries that are not settled, by the names that the broker gave them.

use crate::transport::DeliveryId;

/// The names of unsettled deliveries. Places are used again, and so is their memory.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Place {
    /// Counts the users of a slot, so that a stale id does not match a new one.
    generation: u32,
    is_taken: bool,
    /// `ack` of MESSAGE.
    name: String,
}

impl Deliveries {
    pub(super) fn add(&mut self, name: &str) -> Option<DeliveryId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.places.push(Place::default());
                u32::try_from(self.places.len() - 1).ok()?
            }
        };
        let place = self.places.get_mut(index as usize)?;
        place.generation = place.generation.wrapping_add(1);
        place.is_taken = true;
        place.name.clear();
        place.name.push_str(name);
        Some(DeliveryId(
            u64::from(place.generation) << 32 | u64::from(index),
        ))
    }

    /// The name of a delivery, which is forgotten; None if it was already.
    pub(super) fn take(&mut self, DeliveryId(id): DeliveryId) -> Option<&str> {
        let (index, generation) = (id as u32, (id >> 32) as u32);
        let place = self.places.get_mut(index as usize)?;
        if !place.is_taken || place.generation != generation {
            return None;
        }
        place.is_taken = false;
        self.free.push(index);
        Some(&place.name)
    }

    /// Forgets all; none of their ids is valid any more.
    pub(super) fn clear(&mut self) {
        for (index, place) in self
            .places
            .iter_mut()
            .enumerate()
            .filter(|(_, place)| place.is_taken)
        {
            place.is_taken = false;
            self.free.push(index as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_back_once_and_places_are_used_again() {
        let mut deliveries = Deliveries::default();
        let (one, two) = (
            deliveries.add("1-1").expect("there is room"),
            deliveries.add("1-2").expect("there is room"),
        );
        assert_eq!(deliveries.take(one), Some("1-1"));
        assert_eq!(deliveries.take(one), None);
        let three = deliveries.add("1-3").expect("there is room");
        assert_eq!(deliveries.take(one), None);
        assert_eq!(deliveries.take(two), Some("1-2"));
        deliveries.clear();
        assert_eq!(deliveries.take(three), None);
        assert_eq!(deliveries.places.len(), 2);
    }
}
