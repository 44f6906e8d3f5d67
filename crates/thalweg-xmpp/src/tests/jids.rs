//! Addresses, by the tables of RFC 7622, 3.5.

use super::*;

#[test]
fn addresses_have_three_parts() {
    for (text, local, domain, resource) in [
        ("juliet@example.com", Some("juliet"), "example.com", None),
        (
            "juliet@example.com/foo",
            Some("juliet"),
            "example.com",
            Some("foo"),
        ),
        (
            "juliet@example.com/foo bar",
            Some("juliet"),
            "example.com",
            Some("foo bar"),
        ),
        (
            "juliet@example.com/foo@bar",
            Some("juliet"),
            "example.com",
            Some("foo@bar"),
        ),
        (
            "foo\\20bar@example.com",
            Some("foo\\20bar"),
            "example.com",
            None,
        ),
        (
            "fussball@example.com",
            Some("fussball"),
            "example.com",
            None,
        ),
        (
            "fu\u{DF}ball@example.com",
            Some("fu\u{DF}ball"),
            "example.com",
            None,
        ),
        ("\u{3C0}@example.com", Some("\u{3C0}"), "example.com", None),
        (
            "king@example.com/\u{265A}",
            Some("king"),
            "example.com",
            Some("\u{265A}"),
        ),
        ("example.com", None, "example.com", None),
        ("example.com/foobar", None, "example.com", Some("foobar")),
        (
            "a.example.com/b@example.net",
            None,
            "a.example.com",
            Some("b@example.net"),
        ),
        ("a@[::1]/r", Some("a"), "[::1]", Some("r")),
    ] {
        let jid = Jid::parse(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        assert_eq!(
            (jid.local(), jid.domain(), jid.resource()),
            (local, domain, resource)
        );
        assert_eq!(jid.as_str(), text);
        assert_eq!(jid.to_bare().as_str(), jid.bare());
        assert_eq!(jid.is_bare(), resource.is_none());
    }
}

#[test]
fn addresses_have_one_form() {
    for (text, canonical) in [
        ("Juliet@EXAMPLE.com/Foo", "juliet@example.com/Foo"),
        ("\u{3A3}@example.com", "\u{3C3}@example.com"),
        ("a@example.com.", "a@example.com"),
        ("a@b/x\u{A0}y", "a@b/x y"),
        ("a@[0:0::1]", "a@[::1]"),
    ] {
        assert_eq!(Jid::parse(text).expect(text).as_str(), canonical);
    }
}

#[test]
fn what_is_no_address_is_refused_for_its_reason() {
    use JidProblem::*;
    let long = "x".repeat(1024);
    for (text, problem) in [
        ("\"juliet\"@example.com", Local),
        ("foo bar@example.com", Local),
        ("@example.com", Length),
        ("@example.com/", Length),
        ("henry\u{2163}@example.com", Local),
        ("\u{265A}@example.com", Local),
        ("e\u{301}@example.com", Local),
        ("juliet@", Domain),
        ("/foobar", Domain),
        ("juliet@example.com/", Length),
        ("a@b c", Domain),
        ("a@b..c", Domain),
        ("a@[::x]", Domain),
        ("a@b/\u{7}", Resource),
        (&format!("{long}@b"), Length),
        (&format!("a@b/{long}"), Length),
        ("", Domain),
    ] {
        assert_eq!(Jid::parse(text), Err(problem), "{text}");
    }
}
