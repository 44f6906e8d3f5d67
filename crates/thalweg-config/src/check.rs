//! What one key cannot know: settings that contradict each other, lock everybody out or let everybody in. The conditions are here,
//! and what is said of them in `rules.toml`, by name.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::choices::{Fsync, ProxyProtocol, Transport};
use super::error::{ConfigError, Origins};
use super::kind::KeyKind;
use super::listener::{Bind, Listener};
use super::settings::Config;
use super::units::SIZE;
use thalweg_access::TokenAlgorithm;
use thalweg_kernel::access::Otherwise;
use thalweg_transport::tls::{ClientCertificates, NameFrom, TlsOldest};

static RULES: LazyLock<BTreeMap<String, Rule>> =
    LazyLock::new(|| toml::from_str(include_str!("rules.toml")).expect("every test reads it"));

/// What is said where a rule is broken.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Rule {
    /// The keys that can break it.
    keys: Vec<String>,
    what: String,
    mend: String,
}

struct Checks<'a> {
    config: &'a Config,
    origins: &'a Origins,
    /// What texts name in braces: values of keys and, by names of their own, what only a condition knows.
    words: BTreeMap<String, String>,
    errors: Vec<ConfigError>,
}

/// Rules by name: when each is broken, and words of its own, which hold for those that follow, too.
macro_rules! refuse {
    ($checks:ident; $($rule:literal if $is_broken:expr $(, $name:ident = $value:expr)*;)+) => {$(
        $($checks.words.insert(stringify!($name).into(), $value.to_string());)*
        $checks.refuse($is_broken, $rule);
    )+};
}

impl<'a> Checks<'a> {
    fn new(config: &'a Config, origins: &'a Origins) -> Self {
        let (words, errors) = (config.values(), Vec::new());
        Checks {
            config,
            origins,
            words,
            errors,
        }
    }

    /// Reports a broken rule at the first of its keys that is set.
    fn refuse(&mut self, is_broken: bool, rule: &str) {
        let rule = &RULES[rule];
        if is_broken {
            let mut keys = rule.keys.iter().map(|key| self.filled(key));
            let first = keys.find(|key| self.origins.is_set(key));
            let origin = self.origins.of(&first.unwrap_or_default());
            let (what, mend) = (self.filled(&rule.what), self.filled(&rule.mend));
            self.errors.push(ConfigError::new(origin, what, mend));
        }
    }

    /// `text` with words in place of their names in braces, of which those that begin with a dot are keys of the listener.
    fn filled(&self, text: &str) -> String {
        let fill = |(at, part): (usize, &str)| match part.strip_prefix('.') {
            // What stands between braces is every second part.
            _ if at % 2 == 0 => part.to_owned(),
            Some(key) => self.filled(&format!("{{{}.{key}}}", self.words["at"])),
            None => self.words[part].trim_matches('"').to_owned(),
        };
        text.split(['{', '}']).enumerate().map(fill).collect()
    }

    fn listener(&mut self, listener: &Listener) {
        let (kind, transport, bind) = (listener.kind, listener.transport, &listener.bind);
        let (is_unix, is_path) = (transport == Transport::Unix, matches!(bind, Bind::Path(_)));
        let (is_dtls, datagrams) = (transport == Transport::Dtls, transport.is_datagrams());
        let everywhere = matches!(bind, Bind::Socket(address) if address.ip().is_unspecified());
        let hears_groups = transport == Transport::Udp && everywhere;
        let proxy = listener.proxy_protocol;
        let tells_identity = matches!(proxy, ProxyProtocol::V2 | ProxyProtocol::Any);
        let trusts = is_path || datagrams || !listener.proxy_trusted.is_empty();
        let (curve, has_curve) = (&listener.curve, kind.has_curve());
        let (given, clients) = (curve.is_given(), curve.clients_file.is_some());
        let both = curve.secret_key.is_some() && curve.secret_key_file.is_some();
        refuse! { self;
            "bind-is-no-path" if is_unix && !is_path;
            "bind-is-a-path" if is_path && !is_unix;
            "no-websocket" if transport.is_websocket() && !kind.has_websocket();
            "no-datagrams" if datagrams && !kind.has_datagrams();
            "proxy-of-datagrams" if datagrams && proxy != ProxyProtocol::Off;
            "hears-no-groups" if !listener.multicast.is_empty() && !hears_groups;
            "dtls-too-new" if is_dtls && listener.tls.minimum_version == TlsOldest::V13;
            "no-starttls" if transport == Transport::StartTls && !kind.has_starttls();
            "path-without-slash" if !listener.websocket_path().starts_with('/');
            "no-queue" if listener.queue.is_some() && !kind.has_queue();
            "no-curve" if !has_curve && (given || clients);
            "curve-keys-twice" if has_curve && both;
            "curve-without-key" if has_curve && !given && clients;
            "proxy-tells-no-identity" if listener.proxy_identity && !tells_identity;
            "proxy-not-trusted" if proxy != ProxyProtocol::Off && !trusts;
        }
    }

    fn tls(&mut self, listener: &Listener) {
        let (transport, tls) = (listener.transport, &listener.tls);
        let (certificate, key) = (tls.certificate.is_some(), tls.key.is_some());
        let psk = tls.psk_file.is_some();
        let asks = tls.client_certificate != ClientCertificates::None;
        // A listener with a certificate is meant to be encrypted.
        let given = [
            ("certificate", certificate),
            ("key", key),
            ("client_ca", tls.client_ca.is_some()),
            ("client_crl", tls.client_crl.is_some()),
            ("client_certificate", asks),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given);
        let ways = match listener.kind.has_datagrams() {
            true => "tls, wss or dtls",
            false => "tls or wss",
        };
        let stray_psk = psk && transport != Transport::Dtls;
        let encrypted = transport.is_encrypted() && !stray_psk;
        let plain = !transport.is_encrypted() && !stray_psk;
        // Where clients have keys, no certificate is needed.
        let needs_certificate = encrypted && (!psk || certificate || key);
        refuse! { self;
            "psk-without-dtls" if stray_psk;
            "tls-without-encryption" if plain && given.is_some(), given = given.unwrap_or_default().0, ways = ways;
            "no-certificate" if needs_certificate && !certificate;
            "no-key" if needs_certificate && !key;
            "no-client-ca" if encrypted && asks && tls.client_ca.is_none();
            "identity-not-asked-for" if encrypted && !asks && tls.identity != NameFrom::Nowhere;
        }
    }

    /// The promise of a safe default: beyond this machine, clients are let in only if the operator said so.
    fn anonymous(&mut self, listener: &Listener) {
        let ways = match (
            listener.kind.has_passwords(),
            listener.transport.is_datagrams(),
        ) {
            (true, _) => "Set access.password_file or access.jwt.*, or ask for client certificates",
            (_, true) => "Set transport = dtls with tls.psk_file or client certificates",
            _ => "Ask for client certificates",
        };
        let is_shut = !listener.admits_anonymous() && !self.config.can_log_in(listener);
        let (is_said, is_local) = (listener.anonymous.is_some(), listener.bind.is_local());
        refuse! { self;
            "shut" if is_shut && is_said, ways = ways;
            "shut-behind-proxy" if is_shut && !is_said && is_local;
            "shut-to-other-machines" if is_shut && !is_said && !is_local;
        }
    }

    fn binds(&mut self) {
        let config = self.config;
        // A participant of DDS connects without one.
        let is_deaf = config.enabled_listeners().next().is_none() && !config.protocols.dds.enabled;
        let keys = config.listeners.keys();
        let mut keys = keys.map(|name| format!("listeners.{name}.enabled"));
        let first = keys.find(|key| self.origins.is_set(key));
        refuse! { self; "no-listener" if is_deaf, first = first.unwrap_or_default(); }
        // UDP's ports are not TCP's.
        let mut taken = Vec::new();
        if config.admin.enabled {
            taken.push(("admin".to_owned(), Bind::Socket(config.admin.bind), false));
        }
        for (name, listener) in config.enabled_listeners() {
            let (bind, datagrams) = (&listener.bind, listener.transport.is_datagrams());
            let at = format!("listeners.{name}");
            let mut others = taken.iter().filter(|(.., kind)| *kind == datagrams);
            if let Some((other, place, _)) = others.find(|(_, place, _)| place.collides(bind)) {
                refuse! { self; "bind-taken" if true, at = at, other = other, place = place; }
            }
            taken.push((at, bind.clone(), datagrams));
        }
    }

    fn admin_and_access(&mut self) {
        let (admin, access) = (&self.config.admin, &self.config.access);
        let jwt = &access.jwt;
        let is_open = admin.enabled && !admin.bind.ip().is_loopback();
        let (token, in_file) = (admin.token.is_some(), admin.token_file.is_some());
        let (certificate, key) = (admin.tls.certificate.is_some(), admin.tls.key.is_some());
        let (secret, public) = (jwt.secret_file.is_some(), jwt.public_key_file.is_some());
        let takes_secret = jwt.algorithm == TokenAlgorithm::Hs256;
        let idle = [
            ("audience", jwt.audience.is_some()),
            ("issuer", jwt.issuer.is_some()),
            ("required", jwt.required),
        ];
        let idle = idle.into_iter().find(|(_, is_set)| *is_set);
        let has_rules = access.acl_file.is_some() || secret || public;
        refuse! { self;
            "admin-open" if is_open && !token && !in_file;
            "token-twice" if token && in_file;
            "read-token-twice" if admin.read_token.is_some() && admin.read_token_file.is_some();
            "admin-without-key" if certificate && !key;
            "admin-without-certificate" if key && !certificate;
            "jwt-keys-twice" if secret && public;
            "jwt-needs-public-key" if secret && !public && !takes_secret;
            "jwt-needs-secret" if !secret && public && takes_secret;
            "jwt-without-key" if idle.is_some() && !secret && !public, idle = idle.unwrap_or_default().0;
            "deny-without-rules" if access.default == Some(Otherwise::Deny) && !has_rules;
        }
    }

    /// What the store could not work with: segments that are not made of whole blocks, and a limit that leaves no room to
    /// write while old segments are being cleared.
    fn journal(&mut self) {
        let journal = &self.config.journal;
        // One is written, one is being cleared, and one each is spare and in reserve.
        let least = 4 * journal.segment_bytes;
        let is_small = journal.bytes_max.is_some_and(|most| most < least);
        refuse! { self;
            "uneven-segments" if !journal.segment_bytes.is_multiple_of(4096);
            "few-segments" if journal.enabled && is_small, least = SIZE.show(least);
        }
    }

    /// Acknowledgements that a power cut can make untrue, and messages that the journal cannot write in one piece.
    fn durability(&mut self) {
        let (config, journal) = (self.config, &self.config.journal);
        refuse! { self; "no-journal" if !journal.enabled; }
        let is_never = |fsync| journal.enabled && fsync == Some(Fsync::Never);
        refuse! { self; "never-synced" if is_never(Some(journal.fsync)); }
        for (name, listener) in config.enabled_listeners() {
            refuse! { self; "never-synced-at-listener" if is_never(listener.fsync), name = name; }
        }
        for (filter, fsync) in &journal.filters {
            refuse! { self; "never-synced-by-filter" if is_never(Some(*fsync)), filter = filter; }
        }
        for policy in &config.policy {
            refuse! { self; "never-synced-by-policy" if is_never(policy.fsync), filter = policy.filter; }
        }
        let sizes = config.enabled_listeners();
        let sizes = sizes.map(|(name, listener)| (config.packet_bytes_max(listener), name));
        let (largest, name) = sizes.max().unwrap_or_default();
        // What a record has beside a message's payload: address and properties.
        let needed = largest + (256 << 10);
        refuse! { self;
            "small-frames" if journal.enabled && journal.frame_bytes_max < needed, name = name,
                largest = SIZE.show(largest as u64), needed = SIZE.show(needed.next_multiple_of(1 << 20) as u64);
        }
    }

    /// Doors that stand open beside a lock, and rules that can never apply.
    fn open_doors(&mut self) {
        let config = self.config;
        let open = config.enabled_listeners();
        let open = open.filter(|(_, listener)| listener.anonymous.is_none() && listener.is_local());
        let open: Vec<String> = open.map(|(name, _)| format!("listeners.{name}")).collect();
        let ways = match config.access.password_file {
            Some(_) => "access.password_file",
            None => "access.jwt",
        };
        let has_names = config
            .enabled_listeners()
            .any(|(_, listener)| config.can_have_name(listener));
        refuse! { self;
            "open-beside-log-in" if config.has_authentication() && !open.is_empty(), ways = ways, open = open.join(", ");
            "rules-without-log-in" if config.access.acl_file.is_some() && !has_names;
        }
    }
}

impl Config {
    /// The rules that settings break together, each at the first of its keys that is set.
    pub(super) fn contradictions(&self, origins: &Origins) -> Vec<ConfigError> {
        let mut checks = Checks::new(self, origins);
        for (name, listener) in self.enabled_listeners() {
            let at = format!("listeners.{name}");
            checks.words.insert("at".into(), at);
            checks.listener(listener);
            checks.tls(listener);
            checks.anonymous(listener);
        }
        checks.binds();
        checks.admin_and_access();
        checks.journal();
        for (is_broken, rule) in self.protocols.contradictions() {
            checks.refuse(is_broken, rule);
        }
        checks.errors
    }

    /// What is allowed and costs something that its author may not have meant to pay, a sentence each. `config check`
    /// says them, and the start logs them.
    pub fn warnings(&self) -> Vec<String> {
        let origins = Origins::default();
        let mut checks = Checks::new(self, &origins);
        checks.durability();
        checks.open_doors();
        checks
            .errors
            .into_iter()
            .map(|warning| warning.what)
            .collect()
    }

    /// The files that the configuration names and that cannot be opened for reading. `config check` and the start ask.
    pub fn unreadable_files(&self, origins: &Origins) -> Vec<ConfigError> {
        let mut checks = Checks::new(self, origins);
        for entry in self.entries() {
            let is_used = |name: &str| self.listeners[name].enabled;
            if matches!(entry.key.kind, KeyKind::File)
                && entry.listener.is_none_or(is_used)
                && let Some(path) = entry.value.as_str()
                && let Err(error) = std::fs::File::open(path)
            {
                refuse! { checks; "unreadable" if true, name = entry.name, path = path, error = error; }
            }
        }
        checks.errors
    }

    /// Whether a client of `listener` can prove who it is.
    fn can_log_in(&self, listener: &Listener) -> bool {
        self.can_have_name(listener) || self.needs_certificate(listener)
    }

    /// Whether a client of `listener` can be a user with a name.
    fn can_have_name(&self, listener: &Listener) -> bool {
        let (transport, tls) = (listener.transport, &listener.tls);
        let by_certificate = transport.is_encrypted() && tls.identity != NameFrom::Nowhere;
        let by_key = match listener.kind.has_curve() {
            true => listener.curve.clients_file.is_some(),
            false => transport == Transport::Dtls && tls.psk_file.is_some(),
        };
        let by_proxy = listener.proxy_protocol != ProxyProtocol::Off && listener.proxy_identity;
        self.takes_passwords(listener) || by_certificate || by_key || by_proxy
    }

    /// A client that had to bring a certificate is no stranger, even if the certificate names no user.
    pub(super) fn needs_certificate(&self, listener: &Listener) -> bool {
        let is_encrypted = match listener.transport {
            Transport::StartTls => listener.tls.required,
            transport => transport.is_encrypted(),
        };
        is_encrypted && listener.tls.client_certificate == ClientCertificates::Required
    }
}
