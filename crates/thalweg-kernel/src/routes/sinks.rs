//! The sinks of one filter.

/// A list of sinks that needs no allocation for the usual one.
#[derive(Debug, Default)]
pub(super) enum Sinks<S> {
    #[default]
    None,
    One(S),
    /// Two or more. Boxed so that the enum is two words and not four: nearly all filters have one sink.
    Many(Box<List<S>>),
}

#[derive(Debug)]
pub(super) struct List<S>(Vec<S>);

impl<S: Copy> Sinks<S> {
    pub(super) fn as_slice(&self) -> &[S] {
        match self {
            Sinks::None => &[],
            Sinks::One(sink) => std::slice::from_ref(sink),
            Sinks::Many(list) => &list.0,
        }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [S] {
        match self {
            Sinks::None => &mut [],
            Sinks::One(sink) => std::slice::from_mut(sink),
            Sinks::Many(list) => &mut list.0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Sinks::None)
    }

    /// Adds a sink at the end and returns its position.
    pub(super) fn push(&mut self, sink: S) -> usize {
        match self {
            Sinks::None => {
                *self = Sinks::One(sink);
                0
            }
            Sinks::One(first) => {
                *self = Sinks::Many(Box::new(List(vec![*first, sink])));
                1
            }
            Sinks::Many(list) => {
                list.0.push(sink);
                list.0.len() - 1
            }
        }
    }

    /// Removes the sink at `position`, which the last one takes. Returns it and the one that moved there, if one did.
    pub(super) fn swap_remove(&mut self, position: usize) -> Option<(S, Option<S>)> {
        let sink = *self.as_slice().get(position)?;
        match self {
            Sinks::None | Sinks::One(_) => {
                *self = Sinks::None;
                Some((sink, None))
            }
            Sinks::Many(list) => {
                list.0.swap_remove(position);
                let moved = list.0.get(position).copied();
                if let [last] = list.0[..] {
                    *self = Sinks::One(last);
                } else if list.0.len() < list.0.capacity() / 4 {
                    list.0.shrink_to(list.0.len() * 2);
                }
                Some((sink, moved))
            }
        }
    }

    /// Bytes outside of this value.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Sinks::None | Sinks::One(_) => 0,
            Sinks::Many(list) => {
                super::allocation_bytes(size_of::<List<S>>())
                    + super::allocation_bytes(list.0.capacity() * size_of::<S>())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_with_one_sink_costs_two_words() {
        assert_eq!(size_of::<Sinks<u64>>(), 16);
        assert_eq!(size_of::<Sinks<(u32, u32)>>(), 16);
    }

    #[test]
    fn removal_tells_which_sink_took_the_place() {
        let mut sinks = Sinks::default();
        for (position, sink) in ['a', 'b', 'c', 'd'].into_iter().enumerate() {
            assert_eq!(sinks.push(sink), position);
        }
        assert_eq!(sinks.swap_remove(1), Some(('b', Some('d'))));
        assert_eq!(sinks.swap_remove(2), Some(('c', None)));
        assert_eq!(sinks.swap_remove(2), None);
        assert_eq!(sinks.swap_remove(0), Some(('a', Some('d'))));
        assert_eq!(sinks.as_slice(), ['d']);
        assert_eq!(sinks.heap_bytes(), 0);
        assert_eq!(sinks.swap_remove(0), Some(('d', None)));
        assert!(sinks.is_empty());
    }
}
