//! Tenants: spaces of addresses of their own. A tenant's plain addresses lie below `$t@<tenant>`, its queues below
//! `$q@<tenant>`, its exchanges below `$x@<tenant>`, and its clients' presence below `$presence@<tenant>`; everything else
//! is the default tenant's.

/// The first levels of a tenant's trees, up to its name.
const TREES: [&str; 4] = ["$t@", "$q@", "$x@", "$presence@"];

/// The tenant to which an address or filter belongs; empty for the default one.
pub fn of(text: &str) -> &str {
    let tree = TREES.iter().find_map(|tree| text.strip_prefix(tree));
    tree.map_or("", |rest| {
        rest.split_once('/').map_or(rest, |(tenant, _)| tenant)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_level_names_the_tenant() {
        for (text, tenant) in [
            ("$t@blue/a/b", "blue"),
            ("$t@blue/#", "blue"),
            ("$q@blue/work", "blue"),
            ("$x@blue/logs/a", "blue"),
            ("$x@blue", "blue"),
            ("$presence@blue/pump", "blue"),
            ("$q/work", ""),
            ("$q/a@b", ""),
            ("$SYS@blue/x", ""),
            ("a/$t@blue/x", ""),
            ("#", ""),
            ("", ""),
        ] {
            assert_eq!(of(text), tenant, "{text}");
        }
    }
}
