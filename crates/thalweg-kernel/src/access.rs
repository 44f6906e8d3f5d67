//! Who may publish, subscribe and receive what.

use std::sync::Arc;
use thalweg_model::presence::is_presence;
use thalweg_model::{Filter, FilterError};

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Permission {
    /// Publish to an address (rule files often say `write`).
    Publish = 1,
    /// Subscribe to a filter (`subscribe`).
    Subscribe = 2,
    /// Be given a message that was published to an address (`read`).
    Receive = 4,
}

/// A set of [`Permission`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions(u8);

/// What holds where no rule speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// It is allowed.
    Allow,
    /// It is denied.
    Deny,
}

/// One line of a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether it allows or denies.
    pub allow: bool,
    /// What it speaks about.
    pub permissions: Permissions,
    /// A filter in which `%c` stands for the client id and `%u` for the user name, anywhere within a level.
    pub pattern: Box<str>,
}

/// A rule file, checked: rules and what holds without one. See [`Access`] for how they are judged.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The rules that are alike for all sessions, compiled once and shared.
    common: Arc<Compiled>,
    /// The rules that name the session.
    personal: Vec<Rule>,
    otherwise: Otherwise,
    own: bool,
}

/// What one session may do: [`Rules`] with its names filled in. Cloning shares.
///
/// The verdict does not depend on the order of the rules:
///
/// 1. a rule that denies and applies wins;
/// 2. else a rule that allows and applies wins;
/// 3. else [`Otherwise`] holds.
///
/// A rule *applies* to an address (publish, receive) if its pattern matches the address, and to a filter (subscribe)
/// if its pattern [`covers`] the filter, that is, matches whatever the filter matches. A pattern that begins with a
/// wildcard says nothing about `$` addresses. Denying `secret/#` does not keep anybody from subscribing to the wider `#`:
/// deny receiving as well, which is checked message by message.
///
/// mosquitto 2 judges its rule files the same way (its parser moves `deny` lines to the front), with these differences,
/// which matter when such a file is taken over:
///
/// - it never checks subscribing there; to be as open, add a rule that allows subscribing to `#` and to `$SYS/#`;
/// - its `deny` has no permission words and means all three;
/// - it judges a user's `topic` lines before all `pattern` lines, so there an allowing `topic` beats a denying
///   `pattern`; here it does not;
/// - it shuts out a peer whose names hold `+` or `#` as soon as any `pattern` line exists; here such a peer only gets
///   nothing from the rules that would use that name ([`Rules::compile`]).
#[derive(Clone, Debug)]
pub struct Access {
    /// Nothing to judge if absent: all is allowed.
    judged: Option<Judged>,
    own: bool,
}

#[derive(Clone, Debug)]
struct Judged {
    common: Arc<Compiled>,
    personal: Option<Arc<Compiled>>,
    otherwise: Otherwise,
}

#[derive(Debug, Default)]
struct Compiled {
    deny: Vec<(Permissions, Filter)>,
    allow: Vec<(Permissions, Filter)>,
}

impl Permissions {
    /// None of them.
    pub const NONE: Permissions = Permissions(0);
    /// All three.
    pub const ALL: Permissions = Permissions(7);

    /// This set and `permission`.
    pub const fn with(self, permission: Permission) -> Self {
        Permissions(self.0 | permission as u8)
    }

    /// Whether `permission` is in the set.
    pub const fn contains(self, permission: Permission) -> bool {
        self.0 & permission as u8 != 0
    }
}

impl From<Permission> for Permissions {
    fn from(permission: Permission) -> Self {
        Permissions::NONE.with(permission)
    }
}

impl Rule {
    /// A rule that allows.
    pub fn allow(permissions: impl Into<Permissions>, pattern: &str) -> Self {
        Rule { allow: true, permissions: permissions.into(), pattern: pattern.into() }
    }

    /// A rule that denies.
    pub fn deny(permissions: impl Into<Permissions>, pattern: &str) -> Self {
        Rule { allow: false, permissions: permissions.into(), pattern: pattern.into() }
    }

    fn names_the_session(&self) -> bool {
        self.pattern.contains(CLIENT_ID) || self.pattern.contains(USER)
    }
}

impl Rules {
    /// Checks the patterns and compiles the rules that are alike for all; an error comes with the index of its rule.
    pub fn new(rules: Vec<Rule>, otherwise: Otherwise) -> Result<Self, (usize, FilterError)> {
        let mut common = Compiled::default();
        let mut personal = Vec::new();
        for (index, rule) in rules.into_iter().enumerate() {
            let filter = Filter::new(&rule.pattern).map_err(|error| (index, error))?;
            match rule.names_the_session() {
                true => personal.push(rule),
                false => common.add(rule.allow, rule.permissions, filter),
            }
        }
        Ok(Rules { common: Arc::new(common), personal, otherwise, own: false })
    }

    /// No rules: everything is allowed.
    pub fn allow_all() -> Self {
        Rules { common: Arc::default(), personal: Vec::new(), otherwise: Otherwise::Allow, own: false }
    }

    /// The same rules, marked as what one peer brought itself, in a token for instance: they stay in force when the
    /// operator's rules change.
    pub fn into_own(self) -> Self {
        Rules { own: true, ..self }
    }

    /// Fills in the names of a session. What rules say about a name that the session does not have (no user, an empty
    /// name) they do not say at all.
    ///
    /// A name is chosen by the peer, so it must never reach further than the one level it stands in:
    ///
    /// - a name that holds `+`, `#` or NUL makes the rule match nothing, for no address has such a level;
    /// - a name that holds `/`, or that would make the first level begin with `$` where the pattern's does not, makes
    ///   a rule that allows match nothing; a rule that denies takes it literally. Doubt never grants.
    pub fn compile(&self, client_id: &str, user: Option<&str>) -> Access {
        let mut personal = Compiled::default();
        for rule in &self.personal {
            if let Some(filter) = fill_in(rule, client_id, user.unwrap_or("")) {
                personal.add(rule.allow, rule.permissions, filter);
            }
        }
        let nothing_denied = self.common.deny.is_empty() && personal.deny.is_empty();
        if self.otherwise == Otherwise::Allow && nothing_denied {
            return Access { judged: None, own: self.own };
        }
        let personal = (!personal.is_empty()).then(|| Arc::new(personal));
        let judged = Judged { common: self.common.clone(), personal, otherwise: self.otherwise };
        Access { judged: Some(judged), own: self.own }
    }
}

impl Access {
    /// Everything is allowed; what [`Rules::compile`] returns when nothing can be denied.
    pub const ALL: Access = Access { judged: None, own: false };

    /// Whether the peer brought the rules itself; see [`Rules::into_own`].
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// The rules the peer brought itself, in a form that [`Access::from_own_rules`] understands; nothing if the operator's
    /// rules decide.
    pub fn own_rules(&self) -> Vec<u8> {
        let Some(judged) = self.judged.as_ref().filter(|_| self.own) else {
            return if self.own { vec![ALLOW_ALL] } else { Vec::new() };
        };
        let mut bytes = vec![if judged.otherwise == Otherwise::Allow { ALLOW_ALL } else { DENY_ALL }];
        for compiled in std::iter::once(&judged.common).chain(&judged.personal) {
            for (allow, list) in [(0, &compiled.deny), (ALLOWS, &compiled.allow)] {
                for (permissions, filter) in list {
                    bytes.push(permissions.0 | allow);
                    // A filter has at most 65,535 bytes.
                    bytes.extend_from_slice(&(filter.as_str().len() as u16).to_le_bytes());
                    bytes.extend_from_slice(filter.as_str().as_bytes());
                }
            }
        }
        bytes
    }

    /// What [`Access::own_rules`] wrote; `None` for anything else.
    pub fn from_own_rules(bytes: &[u8]) -> Option<Access> {
        let (&first, mut rest) = bytes.split_first()?;
        let otherwise = match first {
            ALLOW_ALL if rest.is_empty() => return Some(Access { judged: None, own: true }),
            ALLOW_ALL => Otherwise::Allow,
            DENY_ALL => Otherwise::Deny,
            _ => return None,
        };
        let mut common = Compiled::default();
        while let Some((&head, tail)) = rest.split_first() {
            let (len, tail) = tail.split_first_chunk::<2>()?;
            let (text, tail) = tail.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
            let filter = Filter::new(std::str::from_utf8(text).ok()?).ok()?;
            common.add(head & ALLOWS != 0, Permissions(head & Permissions::ALL.0), filter);
            rest = tail;
        }
        Some(Access { judged: Some(Judged { common: Arc::new(common), personal: None, otherwise }), own: true })
    }

    /// Whether [`allows`](Access::allows) is always true, but for what nobody may.
    pub fn is_allow_all(&self) -> bool {
        self.judged.is_none()
    }

    /// Whether `permission` is given for `target`: a canonical address, or for [`Permission::Subscribe`] a canonical
    /// filter without any `$share/group/` in front. Whatever the rules say, nobody may publish where it is told who is here.
    #[inline]
    pub fn allows(&self, permission: Permission, target: &str) -> bool {
        if permission == Permission::Publish && is_presence(target) {
            return false;
        }
        self.judged.as_ref().is_none_or(|judged| judged.allows(permission, target))
    }
}

impl Judged {
    fn allows(&self, permission: Permission, target: &str) -> bool {
        let Judged { common, personal, otherwise } = self;
        let lists = || std::iter::once(common).chain(personal);
        let applies = |list: &[(Permissions, Filter)]| {
            list.iter().any(|(permissions, pattern)| {
                permissions.contains(permission)
                    && match permission {
                        Permission::Subscribe => covers(pattern.as_str(), target),
                        Permission::Publish | Permission::Receive => pattern.matches(target),
                    }
            })
        };
        if lists().any(|compiled| applies(&compiled.deny)) {
            return false;
        }
        *otherwise == Otherwise::Allow || lists().any(|compiled| applies(&compiled.allow))
    }
}

impl Compiled {
    fn add(&mut self, allow: bool, permissions: Permissions, filter: Filter) {
        if allow { &mut self.allow } else { &mut self.deny }.push((permissions, filter));
    }

    fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }
}

/// Whether every address that `filter` matches is matched by `pattern` too. Both are canonical filters.
///
/// It never says so wrongly. It denies it in one odd case: `/+/#` does cover `/#`, if one knows that an address is not
/// empty.
pub fn covers(pattern: &str, filter: &str) -> bool {
    let wild = |level: &str| level == "+" || level == "#";
    let first = |text: &str| wild(thalweg_model::first_level(text));
    if first(pattern) && filter.starts_with('$') {
        return false;
    }
    // An address has at least one level, so a lone `#` asks for no more than `+/#` does.
    let filter = if filter == "#" { "+/#" } else { filter };
    let mut wanted = filter.split('/');
    for level in pattern.split('/') {
        let covered = match (level, wanted.next()) {
            ("#", _) => return true,
            (_, None | Some("#")) => false,
            ("+", Some(_)) => true,
            (text, Some(level)) => text == level,
        };
        if !covered {
            return false;
        }
    }
    wanted.next().is_none()
}

/// A rule's pattern for one session, if it matches anything ([`Rules::compile`] has the law).
fn fill_in(rule: &Rule, client_id: &str, user: &str) -> Option<Filter> {
    for (place, name) in [(CLIENT_ID, client_id), (USER, user)] {
        let unusable = name.is_empty() || name.contains(['+', '#', '\0']) || (rule.allow && name.contains('/'));
        if unusable && rule.pattern.contains(place) {
            return None;
        }
    }
    let mut filled = String::with_capacity(rule.pattern.len() + client_id.len() + user.len());
    // One pass, so that a client id `%u` stays what it is.
    let mut rest = &*rule.pattern;
    while let Some(at) = rest.find('%') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let (text, taken) = match rest.get(..2) {
            Some(CLIENT_ID) => (client_id, 2),
            Some(USER) => (user, 2),
            _ => ("%", 1),
        };
        filled.push_str(text);
        rest = &rest[taken..];
    }
    filled.push_str(rest);
    if rule.allow && filled.starts_with('$') && !rule.pattern.starts_with('$') {
        return None;
    }
    Filter::new(&filled).ok()
}

/// Stands for the client id in a pattern.
const CLIENT_ID: &str = "%c";

/// Stands for the user name in a pattern.
const USER: &str = "%u";

/// First byte of written rules: what holds where none speaks.
const ALLOW_ALL: u8 = 1;
const DENY_ALL: u8 = 2;
/// Beside the permissions of a written rule: it allows.
const ALLOWS: u8 = 8;
