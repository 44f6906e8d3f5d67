//! What one key cannot know: settings that contradict each other, lock everybody out or let everybody in.

use super::error::{ConfigError, Origin, Origins};
use super::keys::Key;
use super::kind::{Kind, Value, show_size};
use super::settings::{Bind, Config, Listener};
use super::words::{
    AccessDefault, CertificateIdentity, ClientCertificate, Fsync, ProxyProtocol, TlsVersion,
    Transport,
};

/// Every contradiction in `config`.
pub(super) fn check(config: &Config, origins: &Origins) -> Vec<ConfigError> {
    let mut checks = Checks {
        config,
        origins,
        errors: Vec::new(),
    };
    for (name, listener) in config.enabled_listeners() {
        checks.transport(name, listener);
        checks.tls(name, listener);
        checks.anonymous(name, listener);
    }
    checks.somewhere_to_connect();
    checks.binds();
    checks.admin();
    checks.jwt();
    checks.access();
    checks.journal();
    checks.protocols();
    checks.errors
}

struct Checks<'a> {
    config: &'a Config,
    origins: &'a Origins,
    errors: Vec<ConfigError>,
}

impl Checks<'_> {
    /// Reports a mistake at the first of `keys` that somebody set.
    fn report(&mut self, keys: &[String], what: impl Into<String>, mend: impl Into<String>) {
        let origin = keys
            .iter()
            .map(|key| self.origins.of(key))
            .find(|origin| *origin != Origin::Default);
        self.errors
            .push(ConfigError::new(origin.unwrap_or_default(), what, mend));
    }

    fn transport(&mut self, name: &str, listener: &Listener) {
        let (bind, transport) = (
            format!("listeners.{name}.bind"),
            format!("listeners.{name}.transport"),
        );
        let mismatch = match (&listener.bind, listener.transport) {
            (Bind::Socket(_), Transport::Unix) => {
                Some("the path of a socket, such as \"/run/thalweg.sock\"")
            }
            (Bind::Path(_), Transport::Unix) | (Bind::Socket(_), _) => None,
            (Bind::Path(_), _) => Some("an IP address and port"),
        };
        if let Some(wanted) = mismatch {
            let what = format!(
                "{bind} is \"{}\", but {transport} is {}",
                listener.bind, listener.transport
            );
            self.report(
                &[bind.clone(), transport.clone()],
                what,
                format!("Set {bind} to {wanted}, or change {transport}"),
            );
        }
        if !listener.kind.has_websocket() && listener.transport.is_websocket() {
            let kind = format!("listeners.{name}.kind");
            let what = format!(
                "{kind} is {}, which cannot be spoken over {transport} = {}",
                listener.kind, listener.transport
            );
            self.report(
                &[transport.clone(), kind],
                what,
                format!("Set {transport} to tcp, tls or unix"),
            );
        }
        if listener.transport.is_datagrams() {
            self.datagrams(name, listener);
        }
        if listener.transport == Transport::StartTls {
            self.starttls(name, listener);
        }
        self.curve(name, listener);
        self.proxy(name, listener);
        let path = format!("listeners.{name}.websocket.path");
        if !listener.websocket_path().starts_with('/') {
            let what = format!(
                "{path} is \"{}\", which does not begin with a slash",
                listener.websocket.path
            );
            self.report(
                &[path],
                what,
                format!("Write \"/{}\"", listener.websocket.path),
            );
        }
    }

    fn starttls(&mut self, name: &str, listener: &Listener) {
        let key = |last: &str| format!("listeners.{name}.{last}");
        let (kind, transport) = (key("kind"), key("transport"));
        let asks = key("tls.client_certificate");
        if !listener.kind.has_starttls() {
            let what = format!("{kind} is {}, which has no STARTTLS", listener.kind);
            let mend = format!("Set {transport} to tls");
            self.report(&[transport, kind], what, mend);
        } else if listener.tls.client_certificate != ClientCertificate::None {
            let what = format!("{asks} is set, but clients of starttls show no certificate");
            self.report(
                &[asks],
                what,
                format!("Remove it, or set {transport} to tls"),
            );
        }
    }

    fn curve(&mut self, name: &str, listener: &Listener) {
        let key = |last: &str| format!("listeners.{name}.{last}");
        if listener.queue.is_some() && !listener.kind.has_queue() {
            let (queue, kind) = (key("queue"), key("kind"));
            let what = format!("{kind} is {}, whose clients name queues", listener.kind);
            let mend = format!("Remove {queue}");
            self.report(&[queue, kind], what, mend);
        }
        let curve = &listener.curve;
        let clients = key("curve.clients_file");
        let (one, other) = (key("curve.secret_key"), key("curve.secret_key_file"));
        if !listener.kind.has_curve() && (curve.is_given() || curve.clients_file.is_some()) {
            let kind = key("kind");
            let what = format!("{kind} is {}, which has no CURVE", listener.kind);
            self.report(
                &[kind],
                what,
                format!("Remove {one}, {other} and {clients}"),
            );
        } else if curve.secret_key.is_some() && curve.secret_key_file.is_some() {
            let what = format!("{one} and {other} are both set");
            self.report(&[one, other], what, "Keep one of the two".to_owned());
        } else if !curve.is_given() && curve.clients_file.is_some() {
            let what = format!("{clients} is set, but the broker has no key of its own");
            self.report(&[clients], what, format!("Set {other}, or remove it"));
        }
    }

    fn proxy(&mut self, name: &str, listener: &Listener) {
        let key = |last: &str| format!("listeners.{name}.{last}");
        let (protocol, trusted, identity) = (
            key("proxy_protocol"),
            key("proxy_trusted"),
            key("proxy_identity"),
        );
        let versions = listener.proxy_protocol;
        if listener.proxy_identity && matches!(versions, ProxyProtocol::Off | ProxyProtocol::V1) {
            let what = format!(
                "{identity} is true, but {protocol} is {versions}, which tells of no certificate"
            );
            self.report(
                &[identity, protocol.clone()],
                what,
                format!("Set {protocol} to v2, or remove the other"),
            );
        }
        let is_tcp = matches!(listener.bind, Bind::Socket(_)) && !listener.transport.is_datagrams();
        if versions != ProxyProtocol::Off && is_tcp && listener.proxy_trusted.is_empty() {
            let what = format!(
                "{protocol} is {versions}, and {trusted} names no proxy whose headers are believed"
            );
            let mend =
                format!("Set {trusted} to the addresses of your proxies, such as [\"10.0.0.1\"]");
            self.report(&[protocol], what, mend);
        }
    }

    fn datagrams(&mut self, name: &str, listener: &Listener) {
        let key = |last: &str| format!("listeners.{name}.{last}");
        let transport = listener.transport;
        if !listener.kind.has_datagrams() {
            let what = format!(
                "{} is {}, which cannot be spoken over {} = {transport}",
                key("kind"),
                listener.kind,
                key("transport")
            );
            let mend = format!(
                "Set {} to coap, or {} to tcp",
                key("kind"),
                key("transport")
            );
            self.report(&[key("transport"), key("kind")], what, mend);
        }
        if listener.proxy_protocol != ProxyProtocol::Off {
            let what = format!(
                "{} is set, but {} is {transport}, which has no connections",
                key("proxy_protocol"),
                key("transport")
            );
            self.report(
                &[key("proxy_protocol")],
                what,
                format!("Remove {}", key("proxy_protocol")),
            );
        }
        if transport == Transport::Dtls && listener.tls.minimum_version == TlsVersion::V13 {
            let what = format!(
                "{} is 1.3, but {} is dtls, of which 1.2 is the newest here",
                key("tls.minimum_version"),
                key("transport")
            );
            self.report(
                &[key("tls.minimum_version")],
                what,
                format!("Remove {}", key("tls.minimum_version")),
            );
        }
    }

    fn tls(&mut self, name: &str, listener: &Listener) {
        let key = |last: &str| format!("listeners.{name}.tls.{last}");
        let transport = format!("listeners.{name}.transport");
        let given = [
            ("certificate", listener.tls.certificate.is_some()),
            ("key", listener.tls.key.is_some()),
            ("client_ca", listener.tls.client_ca.is_some()),
            ("client_crl", listener.tls.client_crl.is_some()),
            (
                "client_certificate",
                listener.tls.client_certificate != ClientCertificate::None,
            ),
            ("psk_file", listener.tls.psk_file.is_some()),
        ];
        if listener.tls.psk_file.is_some() && listener.transport != Transport::Dtls {
            let what = format!(
                "{} is set, but {transport} is {}",
                key("psk_file"),
                listener.transport
            );
            self.report(
                &[key("psk_file")],
                what,
                "Keys shared in advance are for dtls only: remove it",
            );
            return;
        }
        if !listener.transport.is_encrypted() {
            // Somebody who names a certificate believes that the listener is encrypted.
            if let Some((last, _)) = given.iter().find(|(_, given)| *given) {
                let what = format!(
                    "{} is set, but {transport} is {}, which is not encrypted",
                    key(last),
                    listener.transport
                );
                let ways = if listener.kind.has_datagrams() {
                    "tls, wss or dtls"
                } else {
                    "tls or wss"
                };
                self.report(
                    &[key(last)],
                    what,
                    format!("Set {transport} to {ways}, or remove the tls keys"),
                );
            }
            return;
        }
        // Where clients have keys, nobody needs a certificate.
        let only_keys =
            listener.tls.psk_file.is_some() && given.iter().take(2).all(|(_, given)| !given);
        for (last, _) in given
            .iter()
            .take(2)
            .filter(|(_, given)| !given && !only_keys)
        {
            let what = format!(
                "{} is missing, and {transport} is {}",
                key(last),
                listener.transport
            );
            self.report(
                std::slice::from_ref(&transport),
                what,
                format!("Set {} to the path of a PEM file", key(last)),
            );
        }
        let asks = listener.tls.client_certificate != ClientCertificate::None;
        if asks && listener.tls.client_ca.is_none() {
            let what = format!(
                "{} is missing, and {} is {}",
                key("client_ca"),
                key("client_certificate"),
                listener.tls.client_certificate
            );
            let mend = format!(
                "Set {} to a PEM file with the authorities that sign client certificates",
                key("client_ca")
            );
            self.report(&[key("client_certificate")], what, mend);
        }
        if !asks && listener.tls.identity != CertificateIdentity::None {
            let what = format!(
                "{} is {}, but clients are not asked for a certificate",
                key("identity"),
                listener.tls.identity
            );
            self.report(
                &[key("identity")],
                what,
                format!("Set {} to optional or required", key("client_certificate")),
            );
        }
    }

    /// The promise of a safe default: beyond this machine, nobody is let in unless somebody said so.
    fn anonymous(&mut self, name: &str, listener: &Listener) {
        if listener.admits_anonymous() || self.config.can_log_in(listener) {
            return;
        }
        let (anonymous, bind) = (
            format!("listeners.{name}.anonymous"),
            format!("listeners.{name}.bind"),
        );
        let what = match listener.anonymous {
            Some(_) => {
                format!(
                    "{anonymous} is false, and no way to log in is configured, so that nobody could connect"
                )
            }
            None if listener.bind.is_local() => format!(
                "listeners.{name}.proxy_protocol is {}, which brings clients of other machines, and no way to log in is \
                 configured",
                listener.proxy_protocol
            ),
            None => format!(
                "{bind} is {}, which other machines can reach, and no way to log in is configured",
                listener.bind
            ),
        };
        let ways = match (listener.kind.has_passwords(), listener.transport) {
            (false, Transport::Udp | Transport::Dtls) => {
                "Set transport = dtls with tls.psk_file or client certificates"
            }
            (false, _) => "Ask for client certificates",
            _ => "Set access.password_file or access.jwt.*, or ask for client certificates",
        };
        let mend = format!("{ways}, or let everybody in with {anonymous} = true");
        self.report(
            &[anonymous, bind, format!("listeners.{name}.proxy_protocol")],
            what,
            mend,
        );
    }

    fn somewhere_to_connect(&mut self) {
        if self.config.enabled_listeners().next().is_none() {
            let keys: Vec<String> = self
                .config
                .listeners
                .keys()
                .map(|name| format!("listeners.{name}.enabled"))
                .collect();
            self.report(
                &keys,
                "No listener is enabled, so that nobody could connect",
                "Enable at least one listener",
            );
        }
    }

    fn binds(&mut self) {
        let mut taken: Vec<(String, Bind, bool)> = Vec::new();
        if self.config.admin.enabled {
            taken.push((
                "admin.bind".into(),
                Bind::Socket(self.config.admin.bind),
                false,
            ));
        }
        let config = self.config;
        for (name, listener) in config.enabled_listeners() {
            let key = format!("listeners.{name}.bind");
            // UDP's ports are not TCP's.
            let datagrams = listener.transport.is_datagrams();
            let here = |(_, place, kind): &&(String, Bind, bool)| {
                *kind == datagrams && place.collides(&listener.bind)
            };
            if let Some((other, place, _)) = taken.iter().find(here) {
                let what = format!(
                    "{key} is {}, and {other} is {place}: both cannot listen there",
                    listener.bind
                );
                let mend = match other.strip_suffix(".bind") {
                    Some(table) => format!("Change one of them, or set {table}.enabled = false"),
                    None => "Change one of them".into(),
                };
                let keys = [key.clone(), other.clone()];
                self.report(&keys, what, mend);
            }
            taken.push((key, listener.bind.clone(), datagrams));
        }
    }

    fn admin(&mut self) {
        let admin = &self.config.admin;
        let has_token = admin.token.is_some() || admin.token_file.is_some();
        if admin.enabled && !admin.bind.ip().is_loopback() && !has_token {
            let what = format!(
                "admin.bind is {}, which other machines can reach, and admin.token is not set",
                admin.bind
            );
            let mend = "Set admin.token (best as THALWEG_ADMIN__TOKEN), or bind to 127.0.0.1, or set admin.enabled = false";
            self.report(&["admin.bind".into()], what, mend);
        }
        for (name, both) in [
            (
                "admin.token",
                admin.token.is_some() && admin.token_file.is_some(),
            ),
            (
                "admin.read_token",
                admin.read_token.is_some() && admin.read_token_file.is_some(),
            ),
        ] {
            if both {
                let file = format!("{name}_file");
                let what = format!("{name} and {file} are both set, but there is one token");
                self.report(&[name.into(), file], what, "Remove one of them");
            }
        }
        let (certificate, key) = ("admin.tls.certificate", "admin.tls.key");
        for (set, missing) in [(certificate, key), (key, certificate)] {
            let given = if set == key {
                &admin.tls.key
            } else {
                &admin.tls.certificate
            };
            if admin.tls.certificate.is_some() != admin.tls.key.is_some() && given.is_some() {
                let what = format!("{set} is set and {missing} is not, but HTTPS needs both");
                self.report(
                    &[set.into()],
                    what,
                    format!("Set {missing}, or remove {set}"),
                );
            }
        }
    }

    fn jwt(&mut self) {
        let jwt = &self.config.access.jwt;
        let (secret, public) = ("access.jwt.secret_file", "access.jwt.public_key_file");
        let wants_secret = jwt.algorithm.is_symmetric();
        match (&jwt.secret_file, &jwt.public_key_file) {
            (Some(_), Some(_)) => {
                let what = format!(
                    "{secret} and {public} are both set, but only one algorithm is accepted"
                );
                self.report(
                    &[secret.into(), public.into()],
                    what,
                    "Remove the one that your tokens are not signed with",
                );
            }
            (Some(_), None) if !wants_secret => {
                let what = format!(
                    "access.jwt.algorithm is {}, which takes a public key, not a secret",
                    jwt.algorithm
                );
                let mend = format!("Set {public} instead of {secret}, or choose HS256");
                self.report(&["access.jwt.algorithm".into(), secret.into()], what, mend);
            }
            (None, Some(_)) if wants_secret => {
                let what = format!(
                    "access.jwt.algorithm is {}, which takes a secret, not a public key",
                    jwt.algorithm
                );
                let mend = format!(
                    "Set access.jwt.algorithm to the key's, such as RS256 or ES256, or set {secret} instead"
                );
                self.report(&["access.jwt.algorithm".into(), public.into()], what, mend);
            }
            (None, None) => {
                let idle = [
                    ("audience", jwt.audience.is_some()),
                    ("issuer", jwt.issuer.is_some()),
                    ("required", jwt.required),
                ];
                let set = idle
                    .iter()
                    .find(|(_, set)| *set)
                    .map(|(last, _)| format!("access.jwt.{last}"));
                if let Some(key) = set {
                    let what = format!("{key} is set, but there is no key to check tokens with");
                    self.report(
                        &[key],
                        what,
                        format!("Set {secret} or {public}, or remove it"),
                    );
                }
            }
            _ => {}
        }
    }

    fn access(&mut self) {
        let access = &self.config.access;
        let tokens_can_have_rules =
            access.jwt.secret_file.is_some() || access.jwt.public_key_file.is_some();
        if access.default == Some(AccessDefault::Deny)
            && access.acl_file.is_none()
            && !tokens_can_have_rules
        {
            let what = "access.default is deny, and there are no rules, so that nobody could publish or subscribe";
            self.report(
                &["access.default".into()],
                what,
                "Set access.acl_file, or access.default to allow",
            );
        }
    }

    /// What the store could not work with: segments that are not made of whole blocks, and a limit that leaves no room to
    /// write while old segments are being cleared.
    fn journal(&mut self) {
        let journal = &self.config.journal;
        if !journal.segment_bytes.is_multiple_of(BLOCK_BYTES) {
            let what = format!(
                "journal.segment_bytes is {}, not a multiple of {}",
                show_size(journal.segment_bytes),
                show_size(BLOCK_BYTES)
            );
            self.report(
                &["journal.segment_bytes".into()],
                what,
                "Write a size such as 16MiB",
            );
        }
        let least = SEGMENTS_LEAST * journal.segment_bytes;
        if let Some(bytes_max) = journal
            .bytes_max
            .filter(|bytes_max| journal.enabled && *bytes_max < least)
        {
            let what = format!(
                "journal.bytes_max is {}, less than {SEGMENTS_LEAST} segments of {} (journal.segment_bytes)",
                show_size(bytes_max),
                show_size(journal.segment_bytes)
            );
            let mend = format!(
                "Set journal.bytes_max to {} or more, or smaller segments",
                show_size(least)
            );
            self.report(
                &["journal.bytes_max".into(), "journal.segment_bytes".into()],
                what,
                mend,
            );
        }
    }
}

impl Checks<'_> {
    fn protocols(&mut self) {
        for (keys, what, mend) in self.config.protocols.contradictions() {
            let keys: Vec<String> = keys.iter().map(|key| (*key).into()).collect();
            self.report(&keys, what, mend);
        }
    }
}

impl Config {
    /// Whether a client of `listener` can prove who it is.
    fn can_log_in(&self, listener: &Listener) -> bool {
        self.can_have_name(listener) || self.needs_certificate(listener)
    }

    /// Whether a client of `listener` can be a user with a name.
    fn can_have_name(&self, listener: &Listener) -> bool {
        let by_certificate =
            listener.transport.is_encrypted() && listener.tls.identity != CertificateIdentity::None;
        let by_key = match listener.kind {
            kind if kind.has_curve() => listener.curve.clients_file.is_some(),
            _ => listener.transport == Transport::Dtls && listener.tls.psk_file.is_some(),
        };
        let by_proxy = listener.proxy_protocol != ProxyProtocol::Off && listener.proxy_identity;
        self.takes_passwords(listener) || by_certificate || by_key || by_proxy
    }

    /// A client that had to bring a certificate is no stranger, even if the certificate names no user.
    pub(super) fn needs_certificate(&self, listener: &Listener) -> bool {
        listener.transport.is_encrypted()
            && listener.tls.client_certificate == ClientCertificate::Required
    }

    /// What is allowed and costs something that its author may not have meant to pay, a sentence each. `config check`
    /// says them, and the start logs them.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.durability_warnings();
        warnings.extend(self.access_warnings());
        warnings
    }

    /// Doors that stand open beside a lock, and rules that can never apply.
    fn access_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let open = self
            .enabled_listeners()
            .filter(|(_, listener)| listener.anonymous.is_none() && listener.is_local());
        let open: Vec<String> = open.map(|(name, _)| format!("listeners.{name}")).collect();
        if self.has_authentication() && !open.is_empty() {
            let ways = if self.access.password_file.is_some() {
                "access.password_file"
            } else {
                "access.jwt"
            };
            warnings.push(format!(
                "{ways} is set, and clients without credentials are let in from this machine by {}: set `anonymous` there \
                 to false, or to true if that is meant",
                open.join(", ")
            ));
        }
        if self.access.acl_file.is_some()
            && !self
                .enabled_listeners()
                .any(|(_, listener)| self.can_have_name(listener))
        {
            warnings.push(
                "access.acl_file is set, and no way to log in is: every client is anonymous whatever user name it sends, \
                 and `user` lines never apply; set access.password_file or access.jwt.*"
                    .into(),
            );
        }
        warnings
    }

    fn durability_warnings(&self) -> Vec<String> {
        let journal = &self.journal;
        if !journal.enabled {
            return vec![NO_JOURNAL.into()];
        }
        let broker = (journal.fsync == Fsync::Never).then(|| "journal.fsync is never".to_owned());
        let listeners = self
            .enabled_listeners()
            .filter(|(_, listener)| listener.fsync == Some(Fsync::Never));
        let listeners = listeners.map(|(name, _)| format!("listeners.{name}.fsync is never"));
        let filters = journal
            .filters
            .iter()
            .filter(|(_, policy)| *policy == Fsync::Never);
        let filters =
            filters.map(|(filter, _)| format!("journal.filters has \"{filter}\" = \"never\""));
        let never = broker
            .into_iter()
            .chain(listeners)
            .chain(filters)
            .map(|which| format!("{which}: {NEVER}"));
        never.chain(self.frame_warning()).collect()
    }

    /// What the largest message that a listener takes does to a journal that cannot write it in one piece.
    fn frame_warning(&self) -> Option<String> {
        let sizes = self
            .enabled_listeners()
            .map(|(name, listener)| (self.packet_bytes_max(listener), name));
        let (largest, name) = sizes.max_by_key(|(bytes, _)| *bytes)?;
        let frame = self.journal.frame_bytes_max;
        (frame < largest + RECORD_BYTES).then(|| {
            format!(
                "journal.frame_bytes_max is {}, and listeners.{name} takes messages of {}: a client that sends one which does \
                 not fit is disconnected; raise journal.frame_bytes_max to {}, or lower the limit of messages",
                show_size(frame as u64),
                show_size(largest as u64),
                show_size((largest + RECORD_BYTES).next_multiple_of(1 << 20) as u64)
            )
        })
    }

    /// The files that the configuration names and that cannot be opened for reading. `config check` and the start ask.
    pub fn unreadable_files(&self, origins: &Origins) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        for key in Key::all().filter(|key| key.kind == Kind::File) {
            for listener in self.places(key) {
                let enabled = listener
                    .and_then(|name| self.listeners.get(name))
                    .is_none_or(|listener| listener.enabled);
                if let (Some(Value::Path(path)), true) = (key.read(self, listener), enabled)
                    && let Err(error) = std::fs::File::open(&path)
                {
                    let full = key.full_name(listener);
                    let what = format!(
                        "{full} is {}, which cannot be read: {error}",
                        path.display()
                    );
                    errors.push(ConfigError::new(origins.of(&full), what, MEND_UNREADABLE));
                }
            }
        }
        errors
    }

    /// The listeners for which `key` has a value; one `None` for keys of the broker.
    pub(super) fn places(&self, key: &Key) -> Vec<Option<&str>> {
        if key.is_per_listener() {
            self.listeners
                .keys()
                .map(|name| Some(name.as_str()))
                .collect()
        } else {
            vec![None]
        }
    }
}

/// What files are made of.
const BLOCK_BYTES: u64 = 4096;

/// One is written, one is being cleared, and one each is spare and in reserve.
const SEGMENTS_LEAST: u64 = 4;

const NO_JOURNAL: &str =
    "journal.enabled is false: what is acknowledged is in memory only, and a restart forgets it";

/// What a record in the journal has beside a message's payload: address and properties.
const RECORD_BYTES: usize = 256 << 10;

const NEVER: &str =
    "what is acknowledged survives the process, but a power cut may take up to half a minute of it";

const MEND_UNREADABLE: &str = "Make the file readable for the user that the broker runs as, or change the path; \
                               relative paths in a file start at that file's directory";
