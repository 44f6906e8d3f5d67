//! Where the user properties of outgoing packets come from.

/// A source of user properties for outgoing packets: implemented for slices and vectors of text pairs and for received
/// blocks; a front implements it for its own message type.
pub trait TextPairs {
    /// Calls `each` with every name and value, in order; the same sequence every time.
    fn for_each(&self, each: &mut dyn FnMut(&str, &str));
}

impl std::fmt::Debug for dyn TextPairs + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut map = f.debug_map();
        self.for_each(&mut |name, value| {
            map.entry(&name, &value);
        });
        map.finish()
    }
}

impl<A: AsRef<str>, B: AsRef<str>> TextPairs for [(A, B)] {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        for (name, value) in self {
            each(name.as_ref(), value.as_ref());
        }
    }
}

impl<A: AsRef<str>, B: AsRef<str>> TextPairs for Vec<(A, B)> {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        self.as_slice().for_each(each);
    }
}

impl<A: AsRef<str>, B: AsRef<str>, const N: usize> TextPairs for [(A, B); N] {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        self.as_slice().for_each(each);
    }
}

impl<T: TextPairs + ?Sized> TextPairs for &T {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        (**self).for_each(each);
    }
}
