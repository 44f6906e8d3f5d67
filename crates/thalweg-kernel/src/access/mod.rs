//! Access rules: which session may publish, subscribe to and receive what.

pub(crate) mod change;
pub(crate) mod client_ids;
use std::sync::Arc;
use thalweg_model::filter::prefix_of;
use thalweg_model::presence::is_presence;
use thalweg_model::{Filter, FilterError, Message, tenant};

/// What a session asks to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Permission {
    /// Publish to an address (rule files often say `write`).
    Publish = 1,
    /// Subscribe to a filter (`subscribe`).
    Subscribe = 2,
    /// Be given a message that was published to an address (`read`).
    Receive = 4,
    // 8 is taken in the written form of rules: see `ALLOWS`.
    /// Take messages out of the queue of an address.
    Take = 16,
    /// Declare, bind, unbind, purge and delete the queue or exchange of an address.
    Configure = 32,
}

/// A set of [`Permission`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions(u8);

/// What holds where no rule speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// What no rule mentions is allowed: the state without a rule file.
    Allow,
    /// What no rule mentions is denied: the state with one, unless the operator says otherwise.
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
/// 3. else [`Otherwise`] holds; below `$multicast` everything is denied: who may read the key of a group can read all that is
///    sent to it, whatever other rules deny them.
///
/// A rule *applies* to an address (all but subscribe) if its pattern matches the address, and to a filter (subscribe)
/// if its pattern [`covers`] the filter, that is, matches whatever the filter matches. A pattern that begins with a
/// wildcard says nothing about `$` addresses. Denying `secret/#` does not prevent a subscription to the wider `#`: deny
/// receiving as well, which is checked message by message.
///
/// mosquitto 2 judges its rule files the same way (its parser moves `deny` lines to the front), with these differences,
/// which matter when such a file is taken over:
///
/// - it never checks subscribing there; to be as open, add a rule that allows subscribing to `#` and to `$SYS/#`;
/// - its `deny` has no permission words and means all of them;
/// - it judges a user's `topic` lines before all `pattern` lines, so there an allowing `topic` beats a denying
///   `pattern`; here it does not;
/// - it shuts out a peer whose names hold `+` or `#` as soon as any `pattern` line exists; here such a peer only gets
///   nothing from the rules that would use that name ([`Rules::compile`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Nothing to judge if absent: all is allowed within the tenant.
    judged: Option<Judged>,
    own: bool,
    /// The tenant whose addresses it is about; `None` for the default one.
    tenant: Option<Arc<String>>,
    /// See [`Access::of_generation`].
    generation: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Judged {
    common: Arc<Compiled>,
    personal: Option<Arc<Compiled>>,
    otherwise: Otherwise,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Compiled {
    deny: Vec<(Permissions, Filter)>,
    allow: Vec<(Permissions, Filter)>,
}

impl Permissions {
    /// The empty set, to build others from.
    pub const NONE: Permissions = Permissions(0);
    /// Every permission there is: what `readwrite` and `deny` mean in rule files.
    pub const ALL: Permissions = Permissions(1 | 2 | 4 | 16 | 32);
    /// What `read` means in rule files: subscribe and receive, and take what waits in queues.
    pub const READ: Permissions = Permissions(2 | 4 | 16);

    /// This set and `permission`.
    pub const fn with(self, permission: Permission) -> Self {
        Permissions(self.0 | permission as u8)
    }

    /// What a set from the time before there was [`Permission::Take`] means now: who might receive might take, and all
    /// there was is all there is.
    fn with_take(self) -> Self {
        const ALL_BEFORE: u8 = 1 | 2 | 4;
        match self.0 {
            all if all & ALL_BEFORE == ALL_BEFORE => Permissions::ALL,
            _ if self.contains(Permission::Receive) => self.with(Permission::Take),
            _ => self,
        }
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
        Rule {
            allow: true,
            permissions: permissions.into(),
            pattern: pattern.into(),
        }
    }

    /// A rule that denies.
    pub fn deny(permissions: impl Into<Permissions>, pattern: &str) -> Self {
        Rule {
            allow: false,
            permissions: permissions.into(),
            pattern: pattern.into(),
        }
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
        Ok(Rules {
            common: Arc::new(common),
            personal,
            otherwise,
            own: false,
        })
    }

    /// No rules: everything is allowed.
    pub fn allow_all() -> Self {
        Rules {
            common: Arc::default(),
            personal: Vec::new(),
            otherwise: Otherwise::Allow,
            own: false,
        }
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
            return Access {
                own: self.own,
                ..Access::ALL
            };
        }
        let personal = (!personal.is_empty()).then(|| Arc::new(personal));
        let judged = Judged {
            common: self.common.clone(),
            personal,
            otherwise: self.otherwise,
        };
        Access {
            judged: Some(judged),
            own: self.own,
            ..Access::ALL
        }
    }
}

impl Access {
    /// Everything is allowed; what [`Rules::compile`] returns when nothing can be denied.
    pub const ALL: Access = Access {
        judged: None,
        own: false,
        tenant: None,
        generation: 0,
    };

    /// The same rights, as the operator's rules of a generation have granted them: once there is a later one, no session is
    /// opened with them. Rights of generation 0 do not age.
    pub fn of_generation(self, generation: u32) -> Self {
        Access { generation, ..self }
    }

    /// The same rights, of a client of a tenant: all other tenants' addresses are out of reach, whatever the rules say.
    /// The default tenant's name is empty.
    pub fn in_tenant(self, tenant: &str) -> Self {
        Access {
            tenant: (!tenant.is_empty()).then(|| Arc::new(tenant.to_owned())),
            ..self
        }
    }

    /// The tenant; the default one's name is empty.
    pub fn tenant(&self) -> &str {
        self.tenant.as_deref().map_or("", String::as_str)
    }

    /// Whether the rules let a client open a tenant's virtual host: some rule grants something in it, or everything is
    /// allowed that no rule denies and none denies all of it. The default tenant's is open unless all of it is denied: its
    /// topics, its queues and its exchanges.
    pub fn may_open(&self, tenant: &str) -> bool {
        let Some(judged) = &self.judged else {
            return true;
        };
        let denies = |all: &str| {
            judged.lists().any(|list| {
                list.deny
                    .iter()
                    .any(|(_, pattern)| covers(pattern.as_str(), all))
            })
        };
        if tenant.is_empty() {
            return !["#", "$q/#", "$x/#"].into_iter().all(denies);
        }
        if denies(&format!("$t@{tenant}/#")) {
            return false;
        }
        let is_of = |(_, pattern): &(Permissions, Filter)| tenant::of(pattern.as_str()) == tenant;
        judged.otherwise == Otherwise::Allow
            || judged.lists().any(|list| list.allow.iter().any(is_of))
    }

    /// Whether the peer brought the rules itself; see [`Rules::into_own`].
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// The tenant, and the rules the peer brought itself, in a form that [`Access::restored`] understands; nothing if it is
    /// the default tenant and the operator's rules decide.
    pub fn written(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !self.tenant().is_empty() {
            bytes.push(IN_TENANT);
            // Part of addresses, so it is no longer than those may be.
            bytes.extend_from_slice(&(self.tenant().len() as u16).to_le_bytes());
            bytes.extend_from_slice(self.tenant().as_bytes());
        }
        if !self.own {
            return bytes;
        }
        let Some(judged) = &self.judged else {
            bytes.push(ALLOW_ALL);
            return bytes;
        };
        bytes.push(if judged.otherwise == Otherwise::Allow {
            ALLOW_ALL
        } else {
            DENY_ALL
        });
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

    /// What [`Access::written`] wrote, with the operator's rules where the peer brought none.
    pub fn restored(bytes: &[u8], operators: impl FnOnce() -> Access) -> Access {
        let (tenant, own) = split_tenant(bytes).unwrap_or(("", bytes));
        Access::from_own_rules(own)
            .unwrap_or_else(operators)
            .in_tenant(tenant)
    }

    /// `None` if these are no rules.
    fn from_own_rules(bytes: &[u8]) -> Option<Access> {
        let (&first, mut rest) = bytes.split_first()?;
        let otherwise = match first {
            ALLOW_ALL | ALLOW_ALL_BEFORE_TAKE if rest.is_empty() => {
                return Some(Access {
                    own: true,
                    ..Access::ALL
                });
            }
            ALLOW_ALL | ALLOW_ALL_BEFORE_TAKE => Otherwise::Allow,
            DENY_ALL | DENY_ALL_BEFORE_TAKE => Otherwise::Deny,
            _ => return None,
        };
        let is_before_take = matches!(first, ALLOW_ALL_BEFORE_TAKE | DENY_ALL_BEFORE_TAKE);
        let mut common = Compiled::default();
        while let Some((&head, tail)) = rest.split_first() {
            let (len, tail) = tail.split_first_chunk::<2>()?;
            let (text, tail) = tail.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
            let filter = Filter::new(std::str::from_utf8(text).ok()?).ok()?;
            let permissions = Permissions(head & Permissions::ALL.0);
            common.add(
                head & ALLOWS != 0,
                if is_before_take {
                    permissions.with_take()
                } else {
                    permissions
                },
                filter,
            );
            rest = tail;
        }
        let judged = Some(Judged {
            common: Arc::new(common),
            personal: None,
            otherwise,
        });
        Some(Access {
            judged,
            own: true,
            ..Access::ALL
        })
    }

    /// Whether [`allows`](Access::allows) is always true, except for addresses that are the broker's alone or another
    /// tenant's.
    pub fn is_allow_all(&self) -> bool {
        self.judged.is_none()
    }

    /// Whether `permission` is given for `target`: a canonical address, or for [`Permission::Subscribe`] a canonical
    /// filter without any `$share/group/` in front. Independently of the rules, only the broker publishes presence, keys of
    /// multicast groups and below `$SYS`, and addresses of another tenant are always denied.
    #[inline]
    pub fn allows(&self, permission: Permission, target: &str) -> bool {
        if (target.as_bytes().first() == Some(&b'$') || self.tenant.is_some())
            && self.is_out_of_reach(permission, target)
        {
            return false;
        }
        self.judged
            .as_ref()
            .is_none_or(|judged| judged.allows(permission, target))
    }

    /// Whether these rights permit to declare, bind, unbind, purge and delete the queue or exchange of an address: they
    /// do if they permit both to publish to it and to receive from it.
    pub fn may_configure(&self, address: &str) -> bool {
        self.allows(Permission::Configure, address)
            || (self.allows(Permission::Publish, address) && self.allows(Permission::Take, address))
    }

    /// Whether `permission` is given for every address that `filter` matches, as far as rules can tell without an address:
    /// a denial of some of them is not seen.
    pub fn covers(&self, permission: Permission, filter: &str) -> bool {
        let applies = |list: &[(Permissions, Filter)]| {
            list.iter().any(|(given, pattern)| {
                given.contains(permission) && covers(pattern.as_str(), filter)
            })
        };
        if self.is_out_of_reach(permission, filter) {
            return false;
        }
        self.judged
            .as_ref()
            .is_none_or(|judged| judged.decides(filter, applies))
    }

    /// Whether a message may be delivered: the right to receive is needed for its address and for each address under
    /// which it was published before (see [`Details::origins`](thalweg_model::Details::origins)).
    #[inline]
    pub fn may_receive(&self, message: &Message) -> bool {
        self.is_allow_all()
            || (self.allows(Permission::Receive, message.address())
                && self.may_receive_from(message.origins()))
    }

    /// Whether messages may be delivered that were published to these addresses first.
    pub(crate) fn may_receive_from(&self, origins: &[Box<str>]) -> bool {
        origins
            .iter()
            .all(|origin| self.allows(Permission::Receive, origin))
    }

    #[cold]
    fn is_out_of_reach(&self, permission: Permission, target: &str) -> bool {
        let is_brokers = permission == Permission::Publish && is_brokers(target);
        is_brokers || tenant::of(target) != self.tenant()
    }
}

impl Judged {
    fn lists(&self) -> impl Iterator<Item = &Arc<Compiled>> {
        std::iter::once(&self.common).chain(&self.personal)
    }

    fn decides(&self, target: &str, applies: impl Fn(&[(Permissions, Filter)]) -> bool) -> bool {
        if self.lists().any(|compiled| applies(&compiled.deny)) {
            return false;
        }
        (self.otherwise == Otherwise::Allow && of_groups(target).is_none())
            || self.lists().any(|compiled| applies(&compiled.allow))
    }

    fn allows(&self, permission: Permission, target: &str) -> bool {
        self.decides(target, |list| {
            list.iter().any(|(permissions, pattern)| {
                permissions.contains(permission)
                    && match permission {
                        Permission::Subscribe => covers(pattern.as_str(), target),
                        _ => pattern.matches(target),
                    }
            })
        })
    }
}

/// Whether an address lies where only the broker publishes: where it tells of itself, of its clients, and of the keys of
/// multicast groups.
pub(crate) fn is_brokers(address: &str) -> bool {
    let is_system = |rest: &str| rest.is_empty() || rest.starts_with('/');
    is_presence(address)
        || address.strip_prefix("$SYS").is_some_and(is_system)
        || is_group_key(address)
}

/// Whether an address is that of a multicast group's description, with its key.
pub fn is_group_key(address: &str) -> bool {
    of_groups(address).is_some_and(|name| !name.contains('/'))
}

/// What stands behind the first level where keys of multicast groups are, of an address or a filter.
fn of_groups(target: &str) -> Option<&str> {
    target.strip_prefix("$multicast/")
}

impl Compiled {
    fn add(&mut self, allow: bool, permissions: Permissions, filter: Filter) {
        if allow {
            &mut self.allow
        } else {
            &mut self.deny
        }
        .push((permissions, filter));
    }

    fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }
}

/// Whether every address that `filter` matches is matched by `pattern` too. Both are canonical filters, the pattern of
/// levels.
///
/// It never says so wrongly. It denies it in one odd case: `/+/#` does cover `/#`, if one knows that an address is not
/// empty. A prefix `a/b` is covered by what covers `a/+/#`: what it reaches has one level more than stands before its last
/// separator, or several.
pub fn covers(pattern: &str, filter: &str) -> bool {
    let wild = |level: &str| level == "+" || level == "#";
    let first = |text: &str| wild(thalweg_model::first_level(text));
    if first(pattern) && filter.starts_with('$') {
        return false;
    }
    // An address has at least one level, so a lone `#` asks for no more than `+/#` does.
    let filter = if filter == "#" { "+/#" } else { filter };
    let (filter, rest) = match prefix_of(filter) {
        None => (Some(filter), None),
        Some(prefix) => (prefix.rsplit_once('/').map(|(above, _)| above), Some("+/#")),
    };
    let mut wanted = [filter, rest]
        .into_iter()
        .flatten()
        .flat_map(|part| part.split('/'));
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

/// The tenant that what was written begins with, and what stands behind it.
fn split_tenant(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (&IN_TENANT, rest) = bytes.split_first()? else {
        return None;
    };
    let (len, rest) = rest.split_first_chunk::<2>()?;
    let (tenant, own) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
    Some((std::str::from_utf8(tenant).ok()?, own))
}

/// A rule's pattern for one session, if it matches anything ([`Rules::compile`] has the law).
fn fill_in(rule: &Rule, client_id: &str, user: &str) -> Option<Filter> {
    for (place, name) in [(CLIENT_ID, client_id), (USER, user)] {
        let unusable = name.is_empty()
            || name.contains(['+', '#', '\0'])
            || (rule.allow && name.contains('/'));
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

/// First byte of written rules: what holds where none speaks. The lower numbers are of the time before
/// [`Permission::Take`].
const ALLOW_ALL_BEFORE_TAKE: u8 = 1;
const DENY_ALL_BEFORE_TAKE: u8 = 2;
const ALLOW_ALL: u8 = 5;
const DENY_ALL: u8 = 6;
/// First byte before those, with a tenant's name behind it.
const IN_TENANT: u8 = 3;
/// Beside the permissions of a written rule: it allows.
const ALLOWS: u8 = 8;
