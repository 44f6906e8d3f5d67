//! Bindings that lead some messages on and not others: what their arguments ask for.

use super::binding::Binding;
use crate::publish::subject::Subject;
use crate::verdict::Refusal;
use thalweg_filter::Predicate;
use thalweg_model::{Properties, PropertyValue};

impl Binding {
    /// Whether it leads on some messages of its key and not others.
    pub(super) fn compares(&self) -> bool {
        self.compares_headers || self.predicate.is_some()
    }

    pub(super) fn is_for(&self, subject: &Subject<'_>) -> bool {
        (!self.compares_headers || matches(&self.arguments, subject.properties()))
            && self
                .predicate
                .as_ref()
                .is_none_or(|predicate| predicate.matches(subject))
    }

    pub(super) fn predicate_cost(&self) -> usize {
        self.predicate
            .as_ref()
            .map_or(0, |predicate| predicate.bytes())
    }
}

/// The argument that is a content filter.
const FILTER: &str = "x-filter";

/// The content filter among a binding's arguments.
pub(crate) fn predicate_of(
    arguments: &[(Box<str>, PropertyValue)],
) -> Result<Option<Predicate>, Refusal> {
    let bad = |_| Refusal::Invalid("x-filter is no filter");
    match arguments.iter().find(|(name, _)| **name == *FILTER) {
        None => Ok(None),
        Some((_, PropertyValue::Text(text))) => Predicate::parse(text).map(Some).map_err(bad),
        Some(_) => Err(Refusal::Invalid("x-filter must be text")),
    }
}

/// How many of a binding's arguments must be found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    All,
    Any,
    AllWithX,
    AnyWithX,
}

pub(super) fn rule_of(arguments: &[(Box<str>, PropertyValue)]) -> Option<Rule> {
    match arguments.iter().find(|(name, _)| **name == *"x-match") {
        None => Some(Rule::All),
        Some((_, PropertyValue::Text(rule))) => match &**rule {
            "all" => Some(Rule::All),
            "any" => Some(Rule::Any),
            "all-with-x" => Some(Rule::AllWithX),
            "any-with-x" => Some(Rule::AnyWithX),
            _ => None,
        },
        Some(_) => None,
    }
}

/// Whether a message's properties are what a binding's arguments ask for. An empty text asks for presence only.
fn matches(arguments: &[(Box<str>, PropertyValue)], properties: Option<&Properties>) -> bool {
    let Some(rule) = rule_of(arguments) else {
        return false;
    };
    let with_x = matches!(rule, Rule::AllWithX | Rule::AnyWithX);
    let mut counted = arguments.iter().filter(|(name, _)| {
        !matches!(&**name, "x-match" | FILTER) && (with_x || !name.starts_with("x-"))
    });
    let user = properties.map_or(&[][..], |properties| &properties.user);
    let is_there = |(name, wanted): &(Box<str>, PropertyValue)| {
        user.iter().any(|(known, value)| {
            known == name && (value == wanted || *wanted == PropertyValue::Nothing)
        })
    };
    match rule {
        Rule::All | Rule::AllWithX => counted.all(is_there),
        Rule::Any | Rule::AnyWithX => counted.any(is_there),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_compared_by_the_rule() {
        let text =
            |name: &str, value: &str| (Box::<str>::from(name), PropertyValue::Text(value.into()));
        let said = |user: Vec<(Box<str>, PropertyValue)>| Properties {
            user,
            ..Properties::default()
        };
        let message = said(vec![text("a", "1"), text("b", "2"), text("x-c", "3")]);
        for (rule, arguments, expected) in [
            ("all", vec![text("a", "1"), text("b", "2")], true),
            ("all", vec![text("a", "1"), text("b", "3")], false),
            ("any", vec![text("a", "0"), text("b", "2")], true),
            ("any", vec![text("x-c", "3")], false),
            ("any-with-x", vec![text("x-c", "3")], true),
            ("all", vec![text("x-c", "nothing")], true),
            ("all", vec![("a".into(), PropertyValue::Nothing)], true),
            ("all", vec![("d".into(), PropertyValue::Nothing)], false),
        ] {
            let mut arguments = arguments;
            arguments.push(text("x-match", rule));
            assert_eq!(
                matches(&arguments, Some(&message)),
                expected,
                "{arguments:?}"
            );
        }
        assert!(matches(&[], None), "no arguments ask for nothing");
    }
}
