//! Whose a client's name is ([ADR 0028](../../../docs/adr/0028-names-belong-to-users.md)).

/// Which names a user's clients may bear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientIds {
    /// Any name that no session of another user has.
    #[default]
    Any,
    /// The user's name and no other.
    User,
    /// The user's name, or that with a colon and whatever else behind it, but no further colon.
    Prefix,
}

impl ClientIds {
    /// Whether a client of this user may bear this name. Without a user it may only where all may.
    pub fn allow(self, name: &str, user: Option<&str>) -> bool {
        match self {
            ClientIds::Any => true,
            ClientIds::User => user == Some(name),
            ClientIds::Prefix => user == Some(owner_of(name)),
        }
    }
}

/// The one user that a name can belong to, where names begin with it: what stands before the last colon. The last one
/// decides, so that `a:b:c` is `a:b`'s and not `a`'s as well.
pub(crate) fn owner_of(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(owner, _)| owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_one_user_at_the_most() {
        let users = ["a", "b", "a:b", "a:", "", "ab"];
        for (name, user, prefix) in [
            ("a", Some("a"), Some("a")),
            ("a:b", Some("a:b"), Some("a")),
            ("a:b:c", None, Some("a:b")),
            ("a:", Some("a:"), Some("a")),
            ("a::x", None, Some("a:")),
            ("ab", Some("ab"), Some("ab")),
            ("a-b", None, None),
            ("A", None, None),
        ] {
            for (rule, owner) in [(ClientIds::User, user), (ClientIds::Prefix, prefix)] {
                let allowed: Vec<&str> = users
                    .into_iter()
                    .filter(|user| rule.allow(name, Some(user)))
                    .collect();
                assert_eq!(allowed, Vec::from_iter(owner), "{rule:?} {name}");
                assert!(!rule.allow(name, None), "{rule:?} {name}");
            }
            assert!(ClientIds::Any.allow(name, None));
        }
    }
}
