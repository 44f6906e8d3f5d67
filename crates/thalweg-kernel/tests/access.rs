//! Rules as a table of verdicts, names that try to reach further, and `covers` against enumeration.

use thalweg_kernel::access::Permission::{Publish, Receive, Subscribe};
use thalweg_kernel::access::{Access, Otherwise, Permission, Permissions, Rule, Rules, covers};
use thalweg_model::Filter;

fn compile(rules: &[Rule], otherwise: Otherwise, client_id: &str, user: Option<&str>) -> Access {
    Rules::new(rules.to_vec(), otherwise)
        .expect("legal patterns")
        .compile(client_id, user)
}

fn check(access: &Access, verdicts: &[(Permission, &str, bool)]) {
    for &(permission, target, expected) in verdicts {
        assert_eq!(
            access.allows(permission, target),
            expected,
            "{permission:?} {target}"
        );
    }
}

#[test]
fn without_a_rule_the_default_holds() {
    let open = compile(&[], Otherwise::Allow, "c", None);
    assert!(open.is_allow_all());
    check(
        &open,
        &[
            (Publish, "a", true),
            (Subscribe, "#", true),
            (Receive, "$SYS/x", true),
        ],
    );
    let closed = compile(&[], Otherwise::Deny, "c", None);
    assert!(!closed.is_allow_all());
    check(
        &closed,
        &[
            (Publish, "a", false),
            (Subscribe, "a", false),
            (Receive, "a", false),
        ],
    );
    assert!(Rules::allow_all().compile("c", None).is_allow_all());
}

#[test]
fn a_rule_speaks_only_about_its_permissions() {
    let rules = [
        Rule::allow(Publish, "in/#"),
        Rule::allow(Permissions::from(Subscribe).with(Receive), "out/+"),
        Rule::allow(Permissions::NONE, "#"),
    ];
    check(
        &compile(&rules, Otherwise::Deny, "c", None),
        &[
            (Publish, "in", true),
            (Publish, "in/a/b", true),
            (Receive, "in/a", false),
            (Subscribe, "in/a", false),
            (Subscribe, "out/a", true),
            (Subscribe, "out/+", true),
            (Subscribe, "out/#", false),
            (Receive, "out/a", true),
            (Receive, "out/a/b", false),
            (Publish, "out/a", false),
        ],
    );
}

#[test]
fn a_denying_rule_wins_wherever_it_stands() {
    let mut rules = vec![
        Rule::allow(Permissions::ALL, "a/#"),
        Rule::deny(Permissions::ALL, "a/secret/#"),
    ];
    for _ in 0..2 {
        for otherwise in [Otherwise::Allow, Otherwise::Deny] {
            check(
                &compile(&rules, otherwise, "c", None),
                &[
                    (Publish, "a/b", true),
                    (Publish, "a/secret", false),
                    (Receive, "a/secret/x", false),
                    (Subscribe, "a/secret/+", false),
                    // Wider than the denied filter: allowed, and messages of the secret part are withheld on delivery.
                    (Subscribe, "a/#", true),
                    (Publish, "elsewhere", otherwise == Otherwise::Allow),
                ],
            );
        }
        rules.reverse();
    }
}

#[test]
fn a_pattern_that_begins_with_a_wildcard_says_nothing_about_reserved_addresses() {
    let access = compile(
        &[Rule::allow(Permissions::ALL, "#")],
        Otherwise::Deny,
        "c",
        None,
    );
    check(
        &access,
        &[
            (Publish, "a", true),
            (Publish, "$SYS/x", false),
            (Subscribe, "$SYS/#", false),
            (Subscribe, "#", true),
        ],
    );
    let access = compile(
        &[Rule::allow(Receive, "$SYS/#")],
        Otherwise::Deny,
        "c",
        None,
    );
    check(&access, &[(Receive, "$SYS/x", true), (Receive, "a", false)]);
}

#[test]
fn keys_of_groups_are_published_by_the_broker_and_read_by_who_is_named() {
    const KEY: &str = "$multicast/poses";
    const REPAIR: &str = "$multicast/poses/repair";
    let open = Rules::allow_all().compile("c", None);
    check(
        &open,
        &[
            (Publish, KEY, false),
            (Publish, REPAIR, true),
            (Receive, KEY, true),
            (Publish, "$multicasts/poses", true),
            (Publish, "a/$multicast/poses", true),
        ],
    );
    // What is allowed in general is not what is sent to a group, of which a rule may deny a part.
    let mut rules = vec![
        Rule::deny(Permissions::ALL, "plant/7/pose"),
        Rule::allow(Permissions::ALL, "#"),
    ];
    let access = compile(&rules, Otherwise::Allow, "c", None);
    check(
        &access,
        &[
            (Receive, "$SYS/x", true),
            (Receive, KEY, false),
            (Subscribe, KEY, false),
            (Subscribe, "$multicast/+", false),
            (Subscribe, "$multicast/#", false),
            (Publish, REPAIR, false),
        ],
    );
    assert!(!access.covers(Receive, "$multicast/#"));
    rules.push(Rule::allow(Permissions::READ, KEY));
    rules.push(Rule::allow(Permissions::ALL, "$multicast/poses/#"));
    let access = compile(&rules, Otherwise::Allow, "c", None);
    check(
        &access,
        &[
            (Receive, KEY, true),
            (Subscribe, KEY, true),
            (Subscribe, "$multicast/+", false),
            (Publish, KEY, false),
            (Publish, REPAIR, true),
            (Receive, "$multicast/others", false),
        ],
    );
}

#[test]
fn names_are_filled_in_anywhere_within_a_level() {
    let rules = [
        Rule::allow(Publish, "dev/%c/state"),
        Rule::allow(Receive, "user-%u/x%c%%u/#"),
        Rule::allow(Receive, "%"),
        Rule::allow(Receive, "100%/%é"),
    ];
    let access = compile(&rules, Otherwise::Deny, "c1", Some("ann"));
    check(
        &access,
        &[
            (Publish, "dev/c1/state", true),
            (Publish, "dev/c2/state", false),
            (Publish, "dev/%c/state", false),
            (Receive, "user-ann/xc1%ann/y", true),
            (Receive, "%", true),
            (Receive, "100%/%é", true),
        ],
    );
    // A name that looks like a placeholder is a name.
    let access = compile(
        &[Rule::allow(Publish, "dev/%c")],
        Otherwise::Deny,
        "%u",
        Some("ann"),
    );
    check(
        &access,
        &[(Publish, "dev/%u", true), (Publish, "dev/ann", false)],
    );
}

#[test]
fn a_name_never_reaches_further_than_its_level() {
    let rules = [
        Rule::allow(Permissions::ALL, "dev/%c/#"),
        Rule::allow(Permissions::ALL, "%u/#"),
    ];
    for name in ["+", "#", "a+", "+/+", "a/b", "a#", "\0", ""] {
        let access = compile(&rules, Otherwise::Deny, name, Some(name));
        for target in [
            "dev",
            "dev/a",
            "dev/a/b",
            "dev/a/b/c",
            "dev//x",
            "a",
            "a/b",
            "a/b/c",
            "+",
            "#",
            "+/+",
            "/x",
            "dev/+/#",
        ] {
            for permission in [Publish, Receive, Subscribe] {
                assert!(
                    !access.allows(permission, target),
                    "{name:?} {permission:?} {target}"
                );
            }
        }
    }
    // Nor into the reserved addresses, unless the rule itself goes there.
    let access = compile(&rules, Otherwise::Deny, "$SYS", Some("$SYS"));
    check(
        &access,
        &[(Receive, "$SYS/x", false), (Receive, "dev/$SYS/x", true)],
    );
    let access = compile(
        &[Rule::allow(Receive, "$%u/x")],
        Otherwise::Deny,
        "c",
        Some("SYS"),
    );
    check(&access, &[(Receive, "$SYS/x", true)]);
}

#[test]
fn a_name_cannot_slip_out_of_a_denying_rule() {
    let rules = [Rule::deny(Permissions::ALL, "%c/%u/#")];
    let access = compile(&rules, Otherwise::Allow, "a/b", Some("u"));
    check(
        &access,
        &[(Publish, "a/b/u/x", false), (Publish, "a/u", true)],
    );
    let access = compile(&rules, Otherwise::Allow, "$SYS", Some("u"));
    check(&access, &[(Publish, "$SYS/u/x", false)]);
    // No address has such a level, so there is nothing to deny.
    assert!(compile(&rules, Otherwise::Allow, "+", Some("u")).is_allow_all());
    assert!(compile(&rules, Otherwise::Allow, "c", None).is_allow_all());
}

#[test]
fn a_pattern_that_is_no_filter_is_refused_with_its_place() {
    let rules = vec![Rule::allow(Publish, "a/#"), Rule::allow(Publish, "a/#/%c")];
    assert_eq!(
        Rules::new(rules, Otherwise::Deny)
            .err()
            .map(|(index, _)| index),
        Some(1)
    );
}

/// All texts of up to `depth` levels out of `levels`.
fn texts(levels: &[&str], depth: usize) -> Vec<String> {
    let mut all: Vec<String> = levels.iter().map(|level| level.to_string()).collect();
    let mut last = all.clone();
    for _ in 1..depth {
        last = last
            .iter()
            .flat_map(|text| levels.iter().map(move |level| format!("{text}/{level}")))
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

#[test]
fn covers_is_what_enumerating_addresses_says() {
    // `z` is in no filter and stands for all texts that are not; depth one more than any filter's, for `#`. The empty
    // text is no address but is included: `covers` need not know that `/#` cannot match it.
    let addresses = texts(&["", "a", "az", "z", "$", "$z"], 4);
    let filters: Vec<Filter> = texts(&["", "a", "$", "+", "#"], 3)
        .iter()
        .filter_map(|text| Filter::new(text).ok())
        .collect();
    let matched: Vec<Vec<bool>> = filters
        .iter()
        .map(|filter| {
            addresses
                .iter()
                .map(|address| filter.matches(address))
                .collect()
        })
        .collect();
    assert!(filters.len() > 80);
    let prefixes: Vec<Filter> = texts(&["", "a", "az", "$"], 3)
        .iter()
        .filter_map(|text| Filter::prefix(text).ok())
        .collect();
    assert!(prefixes.len() > 60);
    let matched_by_prefixes = prefixes.iter().map(|prefix| {
        addresses
            .iter()
            .map(|address| prefix.matches(address))
            .collect()
    });
    let all: Vec<(&Filter, Vec<bool>)> = filters
        .iter()
        .zip(matched.iter().cloned())
        .chain(prefixes.iter().zip(matched_by_prefixes))
        .collect();
    for (pattern, by_pattern) in filters.iter().zip(&matched) {
        for (filter, by_filter) in &all {
            let expected = by_filter
                .iter()
                .zip(by_pattern)
                .all(|(filter, pattern)| *pattern || !filter);
            assert_eq!(
                covers(pattern.as_str(), filter.as_str()),
                expected,
                "{pattern} covers {filter}"
            );
        }
    }
}

#[test]
fn covers_in_examples() {
    for (pattern, filter, expected) in [
        ("a/#", "a/+/b", true),
        ("a/+", "a/#", false),
        ("a/#", "a", true),
        ("a/+", "a/b", true),
        ("a/b", "a/+", false),
        ("#", "#", true),
        ("+/#", "#", true),
        ("+", "#", false),
        ("#", "$SYS/#", false),
        ("a/+/#", "a/#", false),
        ("a/#", "a/#", true),
        ("a/b/#", "a/b/+/c/#", true),
        ("a/#", "a/b\0", true),
        ("a/#", "a\0", false),
        ("a/b/#", "a/b\0", false),
        ("a/b/#", "a/b/\0", true),
        ("#", "\0", true),
        ("#", "$SYS/\0", false),
    ] {
        assert_eq!(
            covers(pattern, filter),
            expected,
            "{pattern} covers {filter}"
        );
    }
}

/// Rules as they were written by a broker of before `Take`: what holds otherwise, then permissions, length and pattern.
fn written_before_take(otherwise: u8, rules: &[(u8, &str)]) -> Vec<u8> {
    let rule = |(head, pattern): &(u8, &str)| {
        [&[*head, pattern.len() as u8, 0], pattern.as_bytes()].concat()
    };
    [
        &[otherwise][..],
        &rules.iter().flat_map(rule).collect::<Vec<u8>>(),
    ]
    .concat()
}

#[test]
fn rules_of_before_there_was_taking_let_receivers_take() {
    const ALLOWS: u8 = 8;
    let rules = [
        (ALLOWS | 2 | 4, "$q/read"),
        (ALLOWS | 1, "$q/write"),
        (ALLOWS | 7, "$q/all"),
        (7, "$q/denied"),
    ];
    let operators = || panic!("the peer brought its own");
    let access = Access::restored(&written_before_take(2, &rules), operators);
    let takes = |access: &Access| {
        ["$q/read", "$q/write", "$q/all", "$q/denied"]
            .map(|queue| access.allows(Permission::Take, queue))
    };
    assert_eq!(takes(&access), [true, false, true, false]);
    assert_eq!(
        ["$q/read", "$q/all"].map(|queue| access.may_configure(queue)),
        [false, true]
    );
    assert!(
        !takes(&Access::restored(
            &written_before_take(1, &rules),
            operators
        ))[3],
        "a denial was of everything"
    );
    assert!(Access::restored(&[1], operators).is_allow_all());
    // The written form is explicit now.
    let receives = Rule::allow(Permissions::NONE.with(Receive), "$q/read");
    let access = Rules::new(vec![receives], Otherwise::Deny)
        .expect("legal")
        .into_own()
        .compile("c", None);
    assert_eq!(
        takes(&Access::restored(&access.written(), operators)),
        [false; 4]
    );
    assert_eq!(
        Access::restored(&access.written(), operators).written(),
        access.written()
    );
}

#[test]
fn a_tenant_is_written_with_the_rights_and_comes_back() {
    let rules = || {
        Rules::new(
            vec![Rule::allow(Permissions::ALL, "$t@blue/#")],
            Otherwise::Deny,
        )
        .expect("legal")
    };
    let operators = || rules().compile("c", None);
    for rights in [
        Access::ALL,
        Rules::allow_all().into_own().compile("c", None),
        rules().into_own().compile("c", None),
    ] {
        for tenant in ["", "blue"] {
            let access = rights.clone().in_tenant(tenant);
            let restored = Access::restored(&access.written(), operators);
            assert_eq!(
                (restored.tenant(), restored.is_own()),
                (tenant, access.is_own())
            );
            assert_eq!(restored.allows(Publish, "$t@blue/x"), tenant == "blue");
        }
    }
    assert_eq!(
        Access::restored(&[3, 200, 0, b'x'], operators).tenant(),
        "",
        "half a name is none"
    );
}
