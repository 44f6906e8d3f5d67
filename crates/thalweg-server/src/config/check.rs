//! What one key cannot know: settings that contradict each other, lock everybody out or let everybody in.

use super::choices::{Fsync, ProxyProtocol, Transport, Words};
use super::error::{ConfigError, Origins};
use super::kind::KeyKind;
use super::listener::{Bind, Listener};
use super::settings::Config;
use super::units::SIZE;
use crate::access::TokenAlgorithm;
use crate::transport::tls::{ClientCertificates, NameFrom, TlsOldest};
use thalweg_kernel::access::Otherwise;

/// Every contradiction in `config`.
pub(super) fn check(config: &Config, origins: &Origins) -> Vec<ConfigError> {
    let mut checks = Checks {
        config,
        origins,
        errors: Vec::new(),
    };
    for (name, listener) in config.enabled_listeners() {
        let at = format!("listeners.{name}");
        checks.transport(&at, listener);
        checks.proxy_and_curve(&at, listener);
        checks.tls(&at, listener);
        checks.anonymous(&at, listener);
    }
    checks.binds();
    checks.admin();
    checks.access();
    checks.journal();
    for (is_broken, keys, what, mend) in config.protocols.contradictions() {
        let keys: Vec<String> = keys.iter().map(|key| (*key).into()).collect();
        if is_broken {
            checks.report(&keys, what, mend.into());
        }
    }
    checks.errors
}

struct Checks<'a> {
    config: &'a Config,
    origins: &'a Origins,
    errors: Vec<ConfigError>,
}

/// A rule: when it is broken; the keys that can break it; what is wrong; how to mend it.
macro_rules! refuse {
    ($checks:ident, $is_broken:expr; $($key:literal),+; $what:literal; $mend:literal) => {
        if $is_broken {
            $checks.report(&[$(format!($key)),+], format!($what), format!($mend));
        }
    };
}

impl Checks<'_> {
    /// Reports a mistake at the first of `keys` that is set.
    fn report(&mut self, keys: &[String], what: String, mend: String) {
        let first = keys.iter().find(|key| self.origins.is_set(key));
        let origin = first.map(|key| self.origins.of(key)).unwrap_or_default();
        self.errors.push(ConfigError::new(origin, what, mend));
    }

    fn transport(&mut self, at: &str, listener: &Listener) {
        let (kind, transport, bind) = (listener.kind, listener.transport, &listener.bind);
        let is_unix = transport == Transport::Unix;
        let is_socket = matches!(bind, Bind::Socket(_));
        let wanted = match is_unix {
            true => "the path of a socket, such as \"/run/thalweg.sock\"",
            false => "an IP address and port",
        };
        refuse!(self, is_unix == is_socket; "{at}.bind", "{at}.transport";
            "{at}.bind is \"{bind}\", but {at}.transport is {transport}";
            "Set {at}.bind to {wanted}, or change {at}.transport");
        refuse!(self, transport.is_websocket() && !kind.has_websocket(); "{at}.transport", "{at}.kind";
            "{at}.kind is {kind}, which cannot be spoken over {at}.transport = {transport}";
            "Set {at}.transport to tcp, tls or unix");
        let datagrams = transport.is_datagrams();
        refuse!(self, datagrams && !kind.has_datagrams(); "{at}.transport", "{at}.kind";
            "{at}.kind is {kind}, which cannot be spoken over {at}.transport = {transport}";
            "Set {at}.kind to coap, or {at}.transport to tcp");
        refuse!(self, datagrams && listener.proxy_protocol != ProxyProtocol::Off; "{at}.proxy_protocol";
            "{at}.proxy_protocol is set, but {at}.transport is {transport}, which has no connections";
            "Remove {at}.proxy_protocol");
        let everywhere = matches!(bind, Bind::Socket(address) if address.ip().is_unspecified());
        let hears_groups = transport == Transport::Udp && everywhere;
        refuse!(self, !listener.multicast.is_empty() && !hears_groups; "{at}.multicast", "{at}.transport", "{at}.bind";
            "{at}.multicast names interfaces, but {at} is {transport} at {bind}, which hears nothing that is sent to a group";
            "Set {at}.transport to udp and {at}.bind to \"0.0.0.0:5683\" or \"[::]:5683\", or remove {at}.multicast");
        let newest = listener.tls.minimum_version == TlsOldest::V13;
        refuse!(self, transport == Transport::Dtls && newest; "{at}.tls.minimum_version";
            "{at}.tls.minimum_version is 1.3, but {at}.transport is dtls, of which 1.2 is the newest here";
            "Remove {at}.tls.minimum_version");
        refuse!(self, transport == Transport::StartTls && !kind.has_starttls(); "{at}.transport", "{at}.kind";
            "{at}.kind is {kind}, which has no STARTTLS";
            "Set {at}.transport to tls");
        let path = listener.websocket_path();
        refuse!(self, !path.starts_with('/'); "{at}.websocket.path";
            "{at}.websocket.path is \"{path}\", which does not begin with a slash";
            "Write \"/{path}\"");
    }

    fn proxy_and_curve(&mut self, at: &str, listener: &Listener) {
        let (kind, curve, proxy) = (listener.kind, &listener.curve, listener.proxy_protocol);
        refuse!(self, listener.queue.is_some() && !kind.has_queue(); "{at}.queue", "{at}.kind";
            "{at}.kind is {kind}, whose clients name queues";
            "Remove {at}.queue");
        let (has_curve, clients) = (kind.has_curve(), curve.clients_file.is_some());
        refuse!(self, !has_curve && (curve.is_given() || clients); "{at}.kind";
            "{at}.kind is {kind}, which has no CURVE";
            "Remove {at}.curve.secret_key, {at}.curve.secret_key_file and {at}.curve.clients_file");
        let both = curve.secret_key.is_some() && curve.secret_key_file.is_some();
        refuse!(self, has_curve && both; "{at}.curve.secret_key", "{at}.curve.secret_key_file";
            "{at}.curve.secret_key and {at}.curve.secret_key_file are both set";
            "Keep one of the two");
        refuse!(self, has_curve && !curve.is_given() && clients; "{at}.curve.clients_file";
            "{at}.curve.clients_file is set, but the broker has no key of its own";
            "Set {at}.curve.secret_key_file, or remove it");
        let names = matches!(proxy, ProxyProtocol::V2 | ProxyProtocol::Any);
        refuse!(self, listener.proxy_identity && !names; "{at}.proxy_identity", "{at}.proxy_protocol";
            "{at}.proxy_identity is true, but {at}.proxy_protocol is {proxy}, which tells of no certificate";
            "Set {at}.proxy_protocol to v2, or remove the other");
        let is_tcp = matches!(listener.bind, Bind::Socket(_)) && !listener.transport.is_datagrams();
        let trusts = !is_tcp || !listener.proxy_trusted.is_empty();
        refuse!(self, proxy != ProxyProtocol::Off && !trusts; "{at}.proxy_protocol";
            "{at}.proxy_protocol is {proxy}, and {at}.proxy_trusted names no proxy whose headers are trusted";
            "Set {at}.proxy_trusted to the addresses of your proxies, such as [\"10.0.0.1\"]");
    }

    fn tls(&mut self, at: &str, listener: &Listener) {
        let (transport, tls) = (listener.transport, &listener.tls);
        let asks = listener.asks_for_certificates();
        let (has_certificate, has_key) = (tls.certificate.is_some(), tls.key.is_some());
        let has_psk = tls.psk_file.is_some();
        // A listener with a certificate is meant to be encrypted.
        let given = [
            ("certificate", has_certificate),
            ("key", has_key),
            ("client_ca", tls.client_ca.is_some()),
            ("client_crl", tls.client_crl.is_some()),
            ("client_certificate", asks),
        ];
        if has_psk && transport != Transport::Dtls {
            refuse!(self, true; "{at}.tls.psk_file";
                "{at}.tls.psk_file is set, but {at}.transport is {transport}";
                "Keys shared in advance are for dtls only: remove it");
        } else if !transport.is_encrypted() {
            let ways = match listener.kind.has_datagrams() {
                true => "tls, wss or dtls",
                false => "tls or wss",
            };
            if let Some((last, _)) = given.iter().find(|(_, given)| *given) {
                refuse!(self, true; "{at}.tls.{last}";
                    "{at}.tls.{last} is set, but {at}.transport is {transport}, which is not encrypted";
                    "Set {at}.transport to {ways}, or remove the tls keys");
            }
        } else {
            // Where clients have keys, no certificate is needed.
            let only_keys = has_psk && !has_certificate && !has_key;
            for (last, given) in &given[..2] {
                refuse!(self, !given && !only_keys; "{at}.transport";
                    "{at}.tls.{last} is missing, and {at}.transport is {transport}";
                    "Set {at}.tls.{last} to the path of a PEM file");
            }
            let (certificates, identity) = (tls.client_certificate.word(), tls.identity.word());
            refuse!(self, asks && tls.client_ca.is_none(); "{at}.tls.client_certificate";
                "{at}.tls.client_ca is missing, and {at}.tls.client_certificate is {certificates}";
                "Set {at}.tls.client_ca to a PEM file with the authorities that sign client certificates");
            refuse!(self, !asks && tls.identity != NameFrom::Nowhere; "{at}.tls.identity";
                "{at}.tls.identity is {identity}, but clients are not asked for a certificate";
                "Set {at}.tls.client_certificate to optional or required");
        }
    }

    /// The promise of a safe default: beyond this machine, clients are let in only if the operator said so.
    fn anonymous(&mut self, at: &str, listener: &Listener) {
        let (bind, proxy) = (&listener.bind, listener.proxy_protocol);
        let reason = match listener.anonymous {
            Some(_) => format!("{at}.anonymous is false"),
            None if bind.is_local() => {
                let others = "which brings clients of other machines";
                format!("{at}.proxy_protocol is {proxy}, {others}")
            }
            None => format!("{at}.bind is {bind}, which other machines can reach"),
        };
        let shut = ", so no client could connect";
        let so = listener.anonymous.map_or("", |_| shut);
        let ways = match listener.transport {
            _ if listener.kind.has_passwords() => {
                "Set access.password_file or access.jwt.*, or ask for client certificates"
            }
            transport if transport.is_datagrams() => {
                "Set transport = dtls with tls.psk_file or client certificates"
            }
            _ => "Ask for client certificates",
        };
        let is_shut = !listener.admits_anonymous() && !self.config.can_log_in(listener);
        refuse!(self, is_shut; "{at}.anonymous", "{at}.bind", "{at}.proxy_protocol";
            "{reason}, and no way to log in is configured{so}";
            "{ways}, or let everybody in with {at}.anonymous = true");
    }

    fn binds(&mut self) {
        let config = self.config;
        // A participant of DDS connects without one.
        if config.enabled_listeners().next().is_none() && !config.protocols.dds.enabled {
            let keys = config.listeners.keys();
            let keys = keys.map(|name| format!("listeners.{name}.enabled"));
            let what = "No listener is enabled, so no client could connect";
            let mend = "Enable at least one listener, or dds.enabled";
            self.report(&keys.collect::<Vec<_>>(), what.into(), mend.into());
        }
        // UDP's ports are not TCP's.
        let mut taken = Vec::new();
        if config.admin.enabled {
            taken.push(("admin".to_owned(), Bind::Socket(config.admin.bind), false));
        }
        for (name, listener) in config.enabled_listeners() {
            let (bind, datagrams) = (&listener.bind, listener.transport.is_datagrams());
            let at = format!("listeners.{name}");
            let mut others = taken.iter().filter(|(_, _, kind)| *kind == datagrams);
            if let Some((other, place, _)) = others.find(|(_, place, _)| place.collides(bind)) {
                refuse!(self, true; "{at}.bind", "{other}.bind";
                    "{at}.bind is {bind}, and {other}.bind is {place}: both cannot listen there";
                    "Change one of them, or set {other}.enabled = false");
            }
            taken.push((at, bind.clone(), datagrams));
        }
    }

    fn admin(&mut self) {
        let (admin, bind) = (&self.config.admin, self.config.admin.bind);
        let is_open = admin.enabled && !bind.ip().is_loopback();
        let (token, in_file) = (admin.token.is_some(), admin.token_file.is_some());
        refuse!(self, is_open && !token && !in_file; "admin.bind";
            "admin.bind is {bind}, which other machines can reach, and admin.token is not set";
            "Set admin.token (best as THALWEG_ADMIN__TOKEN), or bind to 127.0.0.1, or set admin.enabled = false");
        let read = admin.read_token.is_some() && admin.read_token_file.is_some();
        for (name, both) in [
            ("admin.token", token && in_file),
            ("admin.read_token", read),
        ] {
            refuse!(self, both; "{name}", "{name}_file";
                "{name} and {name}_file are both set, but there is one token";
                "Remove one of them");
        }
        let (certificate, key) = (admin.tls.certificate.is_some(), admin.tls.key.is_some());
        let (set, missing) = match certificate {
            true => ("admin.tls.certificate", "admin.tls.key"),
            false => ("admin.tls.key", "admin.tls.certificate"),
        };
        refuse!(self, certificate != key; "{set}";
            "{set} is set and {missing} is not, but HTTPS needs both";
            "Set {missing}, or remove {set}");
    }

    fn access(&mut self) {
        let (access, jwt) = (&self.config.access, &self.config.access.jwt);
        let algorithm = jwt.algorithm.word();
        let takes_secret = jwt.algorithm == TokenAlgorithm::Hs256;
        let (secret, public) = (jwt.secret_file.is_some(), jwt.public_key_file.is_some());
        refuse!(self, secret && public; "access.jwt.secret_file", "access.jwt.public_key_file";
            "access.jwt.secret_file and access.jwt.public_key_file are both set, but only one algorithm is accepted";
            "Remove the one that your tokens are not signed with");
        refuse!(self, secret && !public && !takes_secret; "access.jwt.algorithm", "access.jwt.secret_file";
            "access.jwt.algorithm is {algorithm}, which takes a public key, not a secret";
            "Set access.jwt.public_key_file instead of access.jwt.secret_file, or choose HS256");
        refuse!(self, !secret && public && takes_secret; "access.jwt.algorithm", "access.jwt.public_key_file";
            "access.jwt.algorithm is {algorithm}, which takes a secret, not a public key";
            "Set access.jwt.algorithm to the key's, such as RS256 or ES256, or set access.jwt.secret_file instead");
        let idle = [
            ("audience", jwt.audience.is_some()),
            ("issuer", jwt.issuer.is_some()),
            ("required", jwt.required),
        ];
        if let Some((last, _)) = idle.iter().find(|(_, is_set)| *is_set) {
            refuse!(self, !secret && !public; "access.jwt.{last}";
                "access.jwt.{last} is set, but there is no key to check tokens with";
                "Set access.jwt.secret_file or access.jwt.public_key_file, or remove it");
        }
        let has_rules = access.acl_file.is_some() || secret || public;
        refuse!(self, access.default == Some(Otherwise::Deny) && !has_rules; "access.default";
            "access.default is deny, and there are no rules, so no client could publish or subscribe";
            "Set access.acl_file, or access.default to allow");
    }

    /// What the store could not work with: segments that are not made of whole blocks, and a limit that leaves no room to
    /// write while old segments are being cleared.
    fn journal(&mut self) {
        let journal = &self.config.journal;
        let segment = SIZE.show(journal.segment_bytes);
        refuse!(self, !journal.segment_bytes.is_multiple_of(4096); "journal.segment_bytes";
            "journal.segment_bytes is {segment}, not a multiple of 4KiB";
            "Write a size such as 16MiB");
        // One is written, one is being cleared, and one each is spare and in reserve.
        let least = 4 * journal.segment_bytes;
        let bytes_max = journal.bytes_max.unwrap_or(u64::MAX);
        let (most, wanted) = (SIZE.show(bytes_max), SIZE.show(least));
        refuse!(self, journal.enabled && bytes_max < least; "journal.bytes_max", "journal.segment_bytes";
            "journal.bytes_max is {most}, less than 4 segments of {segment} (journal.segment_bytes)";
            "Set journal.bytes_max to {wanted} or more, or smaller segments");
    }
}

impl Config {
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
        let open = self.enabled_listeners();
        let open = open.filter(|(_, listener)| listener.anonymous.is_none() && listener.is_local());
        let open: Vec<String> = open.map(|(name, _)| format!("listeners.{name}")).collect();
        if self.has_authentication() && !open.is_empty() {
            let ways = match self.access.password_file {
                Some(_) => "access.password_file",
                None => "access.jwt",
            };
            warnings.push(format!(
                "{ways} is set, and clients without credentials are let in from this machine by {}: set `anonymous` there \
                 to false, or to true if that is meant",
                open.join(", ")
            ));
        }
        let can_have_name = |(_, listener): (_, &Listener)| self.can_have_name(listener);
        if self.access.acl_file.is_some() && !self.enabled_listeners().any(can_have_name) {
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
            let lost = "what is acknowledged is in memory only, and a restart forgets it";
            return vec![format!("journal.enabled is false: {lost}")];
        }
        let is_never = |fsync| fsync == Some(Fsync::Never);
        let mut never = Vec::new();
        if journal.fsync == Fsync::Never {
            never.push("journal.fsync is never".to_owned());
        }
        let listeners = self
            .enabled_listeners()
            .filter(|(_, listener)| is_never(listener.fsync));
        never.extend(listeners.map(|(name, _)| format!("listeners.{name}.fsync is never")));
        let filters = journal
            .filters
            .iter()
            .filter(|(_, policy)| *policy == Fsync::Never);
        never.extend(
            filters.map(|(filter, _)| format!("journal.filters has \"{filter}\" = \"never\"")),
        );
        let policies = self.policy.iter().filter(|policy| is_never(policy.fsync));
        never
            .extend(policies.map(|policy| {
                format!("the policy of \"{}\" has fsync = \"never\"", policy.filter)
            }));
        let lost = "what is acknowledged survives the process, but a power cut may take up to half a minute of it";
        let warnings = never.into_iter().map(|which| format!("{which}: {lost}"));
        warnings.chain(self.frame_warning()).collect()
    }

    /// What the largest message that a listener takes does to a journal that cannot write it in one piece.
    fn frame_warning(&self) -> Option<String> {
        let sizes = self.enabled_listeners();
        let sizes = sizes.map(|(name, listener)| (self.packet_bytes_max(listener), name));
        let (largest, name) = sizes.max_by_key(|(bytes, _)| *bytes)?;
        // What a record has beside a message's payload: address and properties.
        let (frame, needed) = (self.journal.frame_bytes_max, largest + (256 << 10));
        (frame < needed).then(|| {
            format!(
                "journal.frame_bytes_max is {}, and listeners.{name} takes messages of {}: a client that sends one which does \
                 not fit is disconnected; raise journal.frame_bytes_max to {}, or lower the limit of messages",
                SIZE.show(frame as u64),
                SIZE.show(largest as u64),
                SIZE.show(needed.next_multiple_of(1 << 20) as u64)
            )
        })
    }

    /// The files that the configuration names and that cannot be opened for reading. `config check` and the start ask.
    pub fn unreadable_files(&self, origins: &Origins) -> Vec<ConfigError> {
        let mend = "Make the file readable for the user that the broker runs as, or change the path; relative paths in a file \
                    start at that file's directory";
        let mut errors = Vec::new();
        for entry in self.entries() {
            let is_used = |name: &str| self.listeners[name].enabled;
            if matches!(entry.key.kind, KeyKind::File)
                && entry.listener.is_none_or(is_used)
                && let Some(path) = entry.value.as_str()
                && let Err(error) = std::fs::File::open(path)
            {
                let what = format!("{} is {path}, which cannot be read: {error}", entry.name);
                errors.push(ConfigError::new(origins.of(&entry.name), what, mend));
            }
        }
        errors
    }
}
