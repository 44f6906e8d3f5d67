//! Ids of methods: numbers on the wire, names in logs.

use std::fmt;

use crate::methods::NAMES;

/// Class and method id; zero for both where no method is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodId {
    /// Class id, as in the specification.
    pub class: u16,
    /// Method id within the class.
    pub method: u16,
}

/// The side that sends a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Server,
    Both,
}

impl MethodId {
    /// An id that no method has.
    pub const NONE: MethodId = MethodId::new(0, 0);

    /// The method with these numbers.
    pub const fn new(class: u16, method: u16) -> Self {
        MethodId { class, method }
    }

    /// Its name, such as `basic.publish`, if there is such a method.
    pub fn name(self) -> Option<&'static str> {
        let at = NAMES.binary_search_by_key(&self, |(id, _)| *id).ok()?;
        NAMES.get(at).map(|(_, name)| *name)
    }
}

impl fmt::Display for MethodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "class {}, method {}", self.class, self.method),
        }
    }
}
