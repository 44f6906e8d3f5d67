//! How methods are named: by numbers on the wire, by words in logs.

use std::fmt;

use crate::methods::TRAITS;

/// Class and method id; zero for both where no method is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodId {
    /// Class id.
    pub class: u16,
    /// Method id within the class.
    pub method: u16,
}

/// Which side sends a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Server,
    Both,
}

impl MethodId {
    /// No method.
    pub const NONE: MethodId = MethodId::new(0, 0);

    /// The method with these numbers.
    pub const fn new(class: u16, method: u16) -> Self {
        MethodId { class, method }
    }

    /// Its name, such as `basic.publish`, if there is such a method.
    pub fn name(self) -> Option<&'static str> {
        self.traits().map(|(_, name, _, _)| *name)
    }

    /// Whether this side sends it.
    pub(crate) fn is_sent_by(self, side: Sender) -> bool {
        self.traits().is_some_and(|(_, _, sender, _)| *sender == side || *sender == Sender::Both)
    }

    /// Whether content follows.
    pub(crate) fn has_content(self) -> bool {
        self.traits().is_some_and(|(_, _, _, content)| *content)
    }

    fn traits(self) -> Option<&'static (MethodId, &'static str, Sender, bool)> {
        let at = TRAITS.binary_search_by_key(&self, |(id, ..)| *id).ok()?;
        TRAITS.get(at)
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
