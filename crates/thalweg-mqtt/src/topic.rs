//! Topic names and topic filters (§4.7) and shared subscriptions (§4.8).

/// Why a topic name or filter is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicError {
    /// The statement that was broken.
    pub clause: &'static str,
    /// The rule that was broken, for logs.
    pub what: &'static str,
}

impl std::fmt::Display for TopicError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [{}]", self.what, self.clause)
    }
}

impl std::error::Error for TopicError {}

/// Checks a topic name: not empty, no wildcard, no U+0000, at most 65,535 bytes.
pub fn validate_name(name: &str) -> Result<(), TopicError> {
    validate_text(name)?;
    if memchr::memchr2(b'+', b'#', name.as_bytes()).is_some() {
        return Err(NAME_WILDCARD);
    }
    Ok(())
}

/// Checks a topic filter (also the one behind `$share/group/`): not empty, no U+0000, at most 65,535 bytes, wildcards
/// alone in their level, `#` last. `$share` is not treated specially here; see [`ShareFilter::parse`].
pub fn validate_filter(filter: &str) -> Result<(), TopicError> {
    validate_text(filter)?;
    let bytes = filter.as_bytes();
    for at in memchr::memchr2_iter(b'+', b'#', bytes) {
        let opens_level = at == 0 || bytes.get(at - 1) == Some(&b'/');
        let next = bytes.get(at + 1);
        match bytes.get(at) {
            Some(b'#') if !opens_level || next.is_some() => return Err(MULTI_LEVEL),
            Some(b'+') if !opens_level || !matches!(next, None | Some(b'/')) => {
                return Err(SINGLE_LEVEL);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a valid filter contains a wildcard.
pub fn has_wildcard(filter: &str) -> bool {
    memchr::memchr2(b'+', b'#', filter.as_bytes()).is_some()
}

/// `$share/{group}/{filter}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareFilter<'a> {
    /// At least one character, no `/`, `+`, `#`. [MQTT-4.8.2-1]
    pub group: &'a str,
    /// A valid topic filter of at least one character. [MQTT-4.8.2-2]
    pub filter: &'a str,
}

impl<'a> ShareFilter<'a> {
    /// `Ok(None)`: an ordinary filter, not checked here. `Ok(Some)`: a shared subscription whose group and filter are
    /// valid. `Err`: begins with `$share/` but breaks a rule. A bare `$share` is an ordinary filter.
    pub fn parse(filter: &'a str) -> Result<Option<ShareFilter<'a>>, TopicError> {
        let Some(rest) = filter.strip_prefix("$share/") else {
            return Ok(None);
        };
        let (group, filter) = rest.split_once('/').ok_or(SHARE_FILTER)?;
        if group.is_empty() {
            return Err(SHARE_NAME);
        }
        if has_wildcard(group) {
            return Err(SHARE_NAME_CHARACTERS);
        }
        if filter.is_empty() {
            return Err(SHARE_FILTER);
        }
        validate_filter(filter)?;
        Ok(Some(ShareFilter { group, filter }))
    }
}

fn validate_text(text: &str) -> Result<(), TopicError> {
    if text.is_empty() {
        Err(EMPTY)
    } else if text.len() > usize::from(u16::MAX) {
        Err(TOO_LONG)
    } else if memchr::memchr(0, text.as_bytes()).is_some() {
        Err(NUL)
    } else {
        Ok(())
    }
}

const EMPTY: TopicError = TopicError {
    clause: "MQTT-4.7.3-1",
    what: "it is empty",
};
const NUL: TopicError = TopicError {
    clause: "MQTT-4.7.3-2",
    what: "it contains U+0000",
};
const TOO_LONG: TopicError = TopicError {
    clause: "MQTT-4.7.3-3",
    what: "it is longer than 65,535 bytes",
};
const NAME_WILDCARD: TopicError = TopicError {
    clause: "MQTT-4.7.0-1",
    what: "a topic name contains a wildcard",
};
const MULTI_LEVEL: TopicError = TopicError {
    clause: "MQTT-4.7.1-1",
    what: "# is not alone in its level or not the last level",
};
const SINGLE_LEVEL: TopicError = TopicError {
    clause: "MQTT-4.7.1-2",
    what: "+ is not alone in its level",
};
const SHARE_NAME: TopicError = TopicError {
    clause: "MQTT-4.8.2-1",
    what: "the share name is empty",
};
const SHARE_NAME_CHARACTERS: TopicError = TopicError {
    clause: "MQTT-4.8.2-2",
    what: "the share name contains a wildcard",
};
const SHARE_FILTER: TopicError = TopicError {
    clause: "MQTT-4.8.2-2",
    what: "no topic filter follows the share name",
};

#[cfg(test)]
mod tests {
    use super::*;

    /// [MQTT-4.7.0-1] [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-1] [MQTT-4.7.3-2] [MQTT-4.7.3-3]
    /// [MQTT3-4.7.1-1] [MQTT3-4.7.1-2] [MQTT3-4.7.1-3] [MQTT3-4.7.3-1] [MQTT3-4.7.3-2] [MQTT3-4.7.3-3]
    #[test]
    fn filters_and_names_are_judged_by_the_clause_they_break() {
        let clause = |r: Result<(), TopicError>| r.err().map_or("", |e| e.clause);
        for good in [
            "#", "+", "/", "a", "a/#", "+/#", "/+", "+/+", "a/+/b", "$SYS/#", "a//b", " ",
            "$share", "a/$b",
        ] {
            assert_eq!(clause(validate_filter(good)), "", "{good}");
        }
        for (bad, expected) in [
            ("", "MQTT-4.7.3-1"),
            ("a\0", "MQTT-4.7.3-2"),
            ("a#", "MQTT-4.7.1-1"),
            ("#/a", "MQTT-4.7.1-1"),
            ("a/#/b", "MQTT-4.7.1-1"),
            ("##", "MQTT-4.7.1-1"),
            ("a+", "MQTT-4.7.1-2"),
            ("+a/b", "MQTT-4.7.1-2"),
            ("a/b+/c", "MQTT-4.7.1-2"),
            ("+#", "MQTT-4.7.1-2"),
        ] {
            assert_eq!(clause(validate_filter(bad)), expected, "{bad}");
        }
        assert_eq!(clause(validate_filter(&"a".repeat(65_536))), "MQTT-4.7.3-3");
        assert_eq!(clause(validate_name(&"a".repeat(65_535))), "");
        assert_eq!(clause(validate_name("a/b")), "");
        assert_eq!(clause(validate_name("a/#")), "MQTT-4.7.0-1");
        assert_eq!(clause(validate_name("+")), "MQTT-4.7.0-1");
    }

    /// [MQTT-4.8.2-1] [MQTT-4.8.2-2]
    #[test]
    fn shared_filters_need_a_name_and_a_filter() {
        assert_eq!(ShareFilter::parse("a/b"), Ok(None));
        assert_eq!(ShareFilter::parse("$share"), Ok(None));
        assert_eq!(
            ShareFilter::parse("$share/g/a/+"),
            Ok(Some(ShareFilter {
                group: "g",
                filter: "a/+"
            }))
        );
        assert_eq!(
            ShareFilter::parse("$share/g//"),
            Ok(Some(ShareFilter {
                group: "g",
                filter: "/"
            }))
        );
        for (bad, clause) in [
            ("$share/", "MQTT-4.8.2-2"),
            ("$share/g", "MQTT-4.8.2-2"),
            ("$share//a", "MQTT-4.8.2-1"),
            ("$share/g/", "MQTT-4.8.2-2"),
            ("$share/+/a", "MQTT-4.8.2-2"),
            ("$share/#/a", "MQTT-4.8.2-2"),
            ("$share/g/a#", "MQTT-4.7.1-1"),
        ] {
            assert_eq!(
                ShareFilter::parse(bad).map_err(|e| e.clause),
                Err(clause),
                "{bad}"
            );
        }
    }
}
