//! mosquitto's ACL file, as it is.
//!
//! ```text
//! # before any user: for clients without a user name
//! topic read $SYS/# user roger topic readwrite foo/bar # the access word may be left out if the topic has no space
//! topic deny foo/bar/secret pattern write sensor/%u/%c/data # for all clients, wherever it stands vhost blue # ours:
//! all of a virtual host; read, write, readwrite or deny as for topics
//! ```
//!
//! (A `#` is a comment only at the beginning of a line; the remarks above would not be.) What mosquitto means by it:
//!
//! - Whoever has no line that grants may not: an empty file denies everything (CVE-2018-12550).
//! - `write` is publishing, wills too; `read` is being given a message; `deny` forbids both and wins.
//! - Subscribing is never refused for want of a grant; each message is judged when it is delivered. Two refinements:
//!   a filter that lies wholly under a `deny` is refused, for nothing could ever come of it; and a `$` tree can be
//!   subscribed to only if some `read` line speaks of that tree. `subscribe_needs_read` asks for a grant instead.
//! - Queues (`$q/name`) and exchanges (`$x/name`) are not trees to look into: a line is about what its pattern names. On a
//!   queue `write` is publishing into it, `read` is taking from it; `readwrite` is all of it, and with that declaring,
//!   binding, purging and deleting it. Separate `read` and `write` lines come to the same.
//! - `vhost NAME` is three lines in one: about the topics, the queues and the exchanges of a virtual host, `/` being the
//!   default one, where MQTT clients are. Who is denied all of a virtual host cannot open it.
//! - A wildcard at the beginning does not reach `$` topics: `topic #` says nothing about `$SYS`.
//! - In mosquitto a user's own grant outweighs a *pattern* that denies. Here `deny` wins there too.
//! - `%c` and `%u` in a `topic` line would be plain text for mosquitto; since nobody means that, it is an error here.

use super::AccessError;
use super::password_file::read_text;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use thalweg_kernel::access::{Otherwise, Permission, Permissions, Rule, Rules};
use thalweg_model::{Filter, first_level};

/// An ACL file, read, checked and lowered to the kernel's rules.
#[derive(Debug)]
pub struct AclFile {
    anonymous: Arc<Rules>,
    users: HashMap<Box<str>, Arc<Rules>>,
    /// For users who have no section of their own: the patterns.
    others: Arc<Rules>,
}

impl AclFile {
    /// Reads a file. `subscribe_needs_read`: see the head of this module. `otherwise` holds where no line speaks;
    /// mosquitto knows only [`Otherwise::Deny`].
    pub fn read(
        path: &Path,
        subscribe_needs_read: bool,
        otherwise: Otherwise,
    ) -> Result<Self, Vec<AccessError>> {
        Self::parse(
            &read_text(path).map_err(|error| vec![error])?,
            path,
            subscribe_needs_read,
            otherwise,
        )
    }

    /// Reads a file's text; `path` is only named in errors.
    pub fn parse(
        text: &str,
        path: &Path,
        subscribe_needs_read: bool,
        otherwise: Otherwise,
    ) -> Result<Self, Vec<AccessError>> {
        let (mut sections, mut errors) = (Sections::default(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            if let Err((problem, mend)) = sections.take_line(line, subscribe_needs_read) {
                errors.push(AccessError::line(path, index + 1, problem, mend));
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let common = (!subscribe_needs_read).then(|| Rule::allow(Permission::Subscribe, "#"));
        let lower = |own: &[Rule]| {
            let rules = own
                .iter()
                .chain(&sections.patterns)
                .chain(&common)
                .cloned()
                .collect();
            let rules = Rules::new(rules, otherwise);
            // Every line was checked alone; this is said for the case that the kernel becomes stricter than that.
            rules.map(Arc::new).map_err(|(_, error)| {
                vec![AccessError::file(
                    path,
                    format!("the rules do not compile: {error}"),
                    "simplify the topics",
                )]
            })
        };
        Ok(AclFile {
            anonymous: lower(&sections.anonymous)?,
            others: lower(&[])?,
            users: sections
                .users
                .iter()
                .map(|(user, own)| Ok((user.clone(), lower(own)?)))
                .collect::<Result<_, Vec<AccessError>>>()?,
        })
    }

    /// What a user may do; none is the anonymous.
    pub fn rules(&self, user: Option<&str>) -> &Arc<Rules> {
        match user {
            None => &self.anonymous,
            Some(user) => self.users.get(user).unwrap_or(&self.others),
        }
    }
}

#[derive(Default)]
struct Sections {
    anonymous: Vec<Rule>,
    users: HashMap<Box<str>, Vec<Rule>>,
    patterns: Vec<Rule>,
    /// Whose section this is; none before the first `user` line.
    current: Option<Box<str>>,
}

impl Sections {
    /// The rules of whose section this is.
    fn section(&mut self) -> &mut Vec<Rule> {
        match &self.current {
            None => &mut self.anonymous,
            Some(user) => self.users.entry(user.clone()).or_default(),
        }
    }

    fn take_line(
        &mut self,
        line: &str,
        subscribe_needs_read: bool,
    ) -> Result<(), (String, String)> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim_start();
        match word {
            "user" if rest.is_empty() => Err((
                "the user name is missing".into(),
                "write `user NAME`".into(),
            )),
            "user" => {
                // A second section of the same user goes on with the first.
                self.users.entry(rest.into()).or_default();
                self.current = Some(rest.into());
                Ok(())
            }
            "vhost" => {
                let (access, name) = access_and_vhost(rest)?;
                let section = self.section();
                trees_of(name)
                    .iter()
                    .for_each(|tree| access.lower(tree, subscribe_needs_read, section));
                Ok(())
            }
            "topic" => {
                let (access, topic) = access_and_topic(word, rest)?;
                if topic.contains("%c") || topic.contains("%u") {
                    return Err((
                        format!("\"{topic}\" has %c or %u, which `topic` lines do not fill in"),
                        "write `pattern` instead of `topic`".into(),
                    ));
                }
                access.lower(topic, subscribe_needs_read, self.section());
                Ok(())
            }
            "pattern" => {
                let (access, topic) = access_and_topic(word, rest)?;
                access.lower(topic, subscribe_needs_read, &mut self.patterns);
                Ok(())
            }
            _ => Err((
                format!("\"{word}\" begins no ACL line"),
                "use `topic`, `vhost`, `user`, `pattern` or `#`".into(),
            )),
        }
    }
}

/// The access word and the name behind `vhost`.
fn access_and_vhost(rest: &str) -> Result<(AccessWord, &str), (String, String)> {
    let (access, name) = match rest.split_once(char::is_whitespace) {
        None => (Some(AccessWord::ReadWrite), rest),
        Some((word, name)) => (AccessWord::parse(word), name.trim_start()),
    };
    let is_name = name == "/" || !(name.is_empty() || name.contains(['/', '+', '#', '%']));
    match access {
        Some(access) if is_name && AccessWord::parse(name).is_none() => Ok((access, name)),
        _ => {
            let mend = "write `vhost NAME` or `vhost deny NAME`, with read, write, readwrite or deny, and / for the default one";
            Err((format!("\"{rest}\" names no virtual host"), mend.into()))
        }
    }
}

/// What there is in a virtual host: topics, queues, exchanges.
fn trees_of(vhost: &str) -> [String; 3] {
    match vhost {
        "/" => ["#".into(), "$q/#".into(), "$x/#".into()],
        name => ["t", "q", "x"].map(|kind| format!("${kind}@{name}/#")),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AccessWord {
    Read,
    Write,
    ReadWrite,
    Deny,
}

impl AccessWord {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "read" => Some(AccessWord::Read),
            "write" => Some(AccessWord::Write),
            "readwrite" => Some(AccessWord::ReadWrite),
            "deny" => Some(AccessWord::Deny),
            _ => None,
        }
    }

    fn lower(self, topic: &str, subscribe_needs_read: bool, rules: &mut Vec<Rule>) {
        match self {
            AccessWord::Deny => rules.push(Rule::deny(Permissions::ALL, topic)),
            AccessWord::Write => rules.push(Rule::allow(Permission::Publish, topic)),
            AccessWord::Read => rules.push(Rule::allow(Permissions::READ, topic)),
            AccessWord::ReadWrite => rules.push(Rule::allow(Permissions::ALL, topic)),
        }
        let tree = first_level(topic);
        let reads = matches!(self, AccessWord::Read | AccessWord::ReadWrite);
        let is_open = tree.starts_with('$') && !tree.contains('%') && !is_of_queues(tree);
        if reads && !subscribe_needs_read && is_open {
            rules.push(Rule::allow(Permission::Subscribe, &format!("{tree}/#")));
        }
    }
}

/// Whether a tree is that of the queues or exchanges of a tenant: each entry there has an owner.
fn is_of_queues(tree: &str) -> bool {
    ["$q", "$x"].iter().any(|kind| {
        tree.strip_prefix(kind)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
    })
}

/// Splits what stands behind `topic` or `pattern`. As in mosquitto the first word is the access word if another
/// follows, and the topic itself if none does.
fn access_and_topic<'a>(
    keyword: &str,
    rest: &'a str,
) -> Result<(AccessWord, &'a str), (String, String)> {
    let (access, topic) = match rest.split_once(char::is_whitespace) {
        None => (AccessWord::ReadWrite, rest),
        Some((word, topic)) => {
            let access = AccessWord::parse(word).ok_or_else(|| {
                let mend =
                    format!("use read, write, readwrite or deny, or `{keyword} readwrite {rest}`");
                (format!("\"{word}\" is not an access word"), mend)
            })?;
            (access, topic.trim_start())
        }
    };
    if topic.is_empty() || (rest == topic && AccessWord::parse(topic).is_some()) {
        return Err((
            "the topic is missing".into(),
            format!("write `{keyword} read some/topic`"),
        ));
    }
    match Filter::check(topic) {
        Ok(()) => Ok((access, topic)),
        Err(error) => Err((
            format!("\"{topic}\" is not a topic filter: {error}"),
            "correct the topic".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# anonymous
topic read $SYS/#
topic public/#

user roger
topic foo/bar
topic read with space/#
topic readwrite deny/me/not
topic deny foo/bar/secret/#
\ttopic readwrite foo/bar/#
user sensor 7
topic write data/+
pattern write bridges/%c/state
pattern readwrite home/%u/#
pattern deny home/%u/locked
user roger
topic write more
";

    use Permission::{Publish, Receive, Subscribe};

    #[track_caller]
    fn check(user: Option<&str>, permission: Permission, target: &str, expected: bool) {
        let file = AclFile::parse(FILE, Path::new("acl"), false, Otherwise::Deny).expect("legal");
        let access = file.rules(user).compile("c1", user);
        assert_eq!(
            access.allows(permission, target),
            expected,
            "{user:?} {permission:?} {target}"
        );
    }

    #[test]
    fn the_lines_before_any_user_are_for_the_anonymous_only() {
        check(None, Receive, "$SYS/uptime", true);
        check(None, Publish, "$SYS/uptime", false);
        check(None, Publish, "public/x", true);
        check(None, Receive, "other", false);
        check(Some("roger"), Receive, "$SYS/uptime", false);
        check(Some("roger"), Publish, "public/x", false);
    }

    #[test]
    fn users_have_their_own_sections() {
        let roger = Some("roger");
        check(roger, Publish, "foo/bar", true);
        check(roger, Receive, "foo/bar", true);
        check(roger, Receive, "with space/x", true);
        check(roger, Publish, "with space/x", false);
        check(roger, Publish, "deny/me/not", true);
        check(roger, Publish, "more", true); // a second section goes on with the first
        check(Some("sensor 7"), Publish, "data/1", true);
        check(Some("sensor 7"), Receive, "data/1", false);
        check(Some("sensor 7"), Publish, "more", false);
    }

    #[test]
    fn deny_wins_wherever_it_stands() {
        check(Some("roger"), Publish, "foo/bar/open", true);
        check(Some("roger"), Publish, "foo/bar/secret/x", false);
        check(Some("roger"), Receive, "foo/bar/secret", false);
        check(Some("ann"), Publish, "home/ann/locked", false);
    }

    #[test]
    fn patterns_hold_for_everybody_and_fill_in_names() {
        for user in [None, Some("roger"), Some("ann")] {
            check(user, Publish, "bridges/c1/state", true);
            check(user, Publish, "bridges/c2/state", false);
        }
        check(Some("ann"), Receive, "home/ann/lamp", true);
        check(Some("ann"), Receive, "home/roger/lamp", false);
        check(None, Receive, "home//lamp", false); // the anonymous have no %u
        check(Some("+"), Receive, "home/ann/lamp", false); // CVE-2017-7650
        check(Some("#"), Receive, "home/ann/lamp", false);
        check(Some("a/b"), Receive, "home/a/b/lamp", false);
    }

    #[test]
    fn subscribing_is_judged_at_delivery_unless_nothing_could_come_of_it() {
        check(Some("roger"), Subscribe, "#", true);
        check(Some("roger"), Subscribe, "nothing/here", true);
        check(Some("roger"), Subscribe, "foo/bar/secret/+", false);
        check(Some("roger"), Subscribe, "$SYS/#", false);
        check(None, Subscribe, "$SYS/broker/+", true);
        let strict = AclFile::parse(FILE, Path::new("acl"), true, Otherwise::Deny).expect("legal");
        let roger = strict.rules(Some("roger")).compile("c1", Some("roger"));
        for (filter, expected) in [
            ("foo/bar/+", true),
            ("foo/#", false),
            ("#", false),
            ("with space/#", true),
        ] {
            assert_eq!(roger.allows(Subscribe, filter), expected, "{filter}");
        }
    }

    #[test]
    fn a_line_about_one_queue_is_about_that_queue_alone() {
        use Permission::{Configure, Take};
        let text = "user a\ntopic readwrite $q/a\ntopic read $q/rw\ntopic write $q/rw\ntopic read $q/r\ntopic write $q/w\ntopic read $x/e/#\n";
        let file = AclFile::parse(text, Path::new("acl"), false, Otherwise::Deny).expect("legal");
        let access = file.rules(Some("a")).compile("c1", Some("a"));
        for (permission, allowed) in [
            (Publish, &["$q/a", "$q/w"][..]),
            (Subscribe, &["$q/a", "$q/r", "$x/e/k", "$x/e/#"]),
            (Receive, &["$q/a", "$q/r", "$x/e/k"]),
            (Take, &["$q/a", "$q/r", "$x/e/k"]),
            (Configure, &["$q/a"]),
        ] {
            for address in ["$q/a", "$q/b", "$q/r", "$q/w", "$x/e/k", "$x/f/k"] {
                assert_eq!(
                    access.allows(permission, address),
                    allowed.contains(&address),
                    "{permission:?} {address}"
                );
            }
            let configures = ["$q/a", "$q/rw"];
            assert!(
                configures.iter().all(|queue| access.may_configure(queue))
                    && !access.may_configure("$q/r")
            );
            for filter in ["$q/#", "$x/#"] {
                assert!(
                    !access.covers(permission, filter) && !access.allows(Subscribe, filter),
                    "{permission:?}"
                );
            }
        }
    }

    #[test]
    fn an_empty_file_denies_everything() {
        let file = AclFile::parse("# nothing\n\n", Path::new("acl"), false, Otherwise::Deny)
            .expect("legal");
        for user in [None, Some("roger")] {
            let access = file.rules(user).compile("c1", user);
            assert!(!access.allows(Publish, "a") && !access.allows(Receive, "a"));
        }
    }

    #[test]
    fn every_fault_is_reported_with_its_line_and_a_way_to_mend_it() {
        let table = [
            ("topics read a", "\"topics\" begins no ACL line"),
            ("topic", "the topic is missing"),
            ("topic read", "the topic is missing"),
            (
                "topic foo bar",
                "\"foo\" is not an access word; use read, write, readwrite or deny, or `topic readwrite foo bar`",
            ),
            (
                "topic read a/#/b",
                "is not a topic filter: # must stand alone in the last level",
            ),
            ("topic a+", "+ must stand alone"),
            ("topic read home/%u", "write `pattern` instead of `topic`"),
            ("user", "the user name is missing"),
            ("pattern", "write `pattern read some/topic`"),
        ];
        for (line, expected) in table {
            let errors = AclFile::parse(
                &format!("\n{line}\n"),
                Path::new("acl"),
                false,
                Otherwise::Deny,
            )
            .expect_err(line);
            let text = errors[0].to_string();
            assert!(
                text.starts_with("acl:2: ") && text.contains(expected),
                "{line}: {text}"
            );
        }
        let all: String = table.iter().map(|(line, _)| format!("{line}\n")).collect();
        assert_eq!(
            AclFile::parse(&all, Path::new("acl"), false, Otherwise::Deny)
                .expect_err("faulty")
                .len(),
            table.len()
        );
    }

    #[test]
    fn a_virtual_host_is_granted_or_denied_in_one_line() {
        let text = "\
user ada
vhost blue
user bob
vhost read blue
user eve
topic readwrite #
vhost deny blue
user svc
vhost deny /
vhost blue
";
        let file = AclFile::parse(text, Path::new("acl"), false, Otherwise::Deny).expect("legal");
        let of = |user: &str, vhost: &str| {
            file.rules(Some(user))
                .compile("c", Some(user))
                .in_tenant(vhost)
        };
        for (user, vhost, opens, publishes, takes, configures) in [
            ("ada", "blue", true, true, true, true),
            ("bob", "blue", true, false, true, false),
            ("eve", "blue", false, false, false, false),
            ("svc", "blue", true, true, true, true),
            ("ada", "red", false, false, false, false),
        ] {
            let access = of(user, vhost);
            let (topic, queue) = (format!("$t@{vhost}/x"), format!("$q@{vhost}/x"));
            let found = (
                access.may_open(vhost),
                access.allows(Publish, &topic),
                access.allows(Permission::Take, &queue),
            );
            assert_eq!(found, (opens, publishes, takes), "{user} {vhost}");
            assert_eq!(
                access.may_configure(&format!("$x@{vhost}/x")),
                configures,
                "{user} {vhost}"
            );
        }
        // The default one is open to all who are not denied all of it.
        let default = ["ada", "eve", "svc"].map(|user| of(user, "").may_open(""));
        assert_eq!(default, [true, true, false]);
        assert!(
            of("ada", "blue").allows(Subscribe, "$t@blue/#")
                && of("bob", "blue").allows(Subscribe, "$t@blue/+")
        );
        for line in [
            "vhost",
            "vhost deny",
            "vhost all blue",
            "vhost a/b",
            "vhost #",
            "vhost %u",
        ] {
            assert!(
                AclFile::parse(line, Path::new("acl"), false, Otherwise::Deny).is_err(),
                "{line}"
            );
        }
    }
}
