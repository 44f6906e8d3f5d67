//! From the configuration to the settings of each part.

use crate::access::{AccessSettings, TokenKeySettings, TokenKeySource, TokenSettings};
use crate::config::{self, Config, Words};
use crate::datagram::DatagramSpec;
use crate::journal::JournalSettings;
use crate::listen::{Bind, ListenerSpec};
use crate::lobby::{LobbySettings, SILENCE_MAX};
use crate::protocols;
use crate::shard::buffers_share;
use crate::transport::dtls::{DtlsAcceptor, DtlsFault, DtlsFiles};
use crate::transport::proxy::{ProxyRule, ProxyVersions};
use crate::transport::tls::{
    ClientCertificates, NameFrom, TlsAcceptor, TlsFault, TlsFiles, TlsOldest,
};
use crate::transport::websocket::{OriginRule, WebSocketSettings};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_dtls::ServerLimits as DtlsLimits;
use thalweg_fronts::{AnyFront, FrontSettings, LinksLimits};
use thalweg_kernel::access::Access;
use thalweg_kernel::{ClientIds, GroupPolicy, Limits, OrderKey, Policy, Safety};
use thalweg_model::Span;

/// Settings of a shard. They are sent to its thread, so what is shared within the shard is made there.
#[derive(Clone)]
pub(crate) struct ShardSettings {
    pub(crate) kernel: Limits,
    pub(crate) links: LinksLimits,
    pub(crate) frame_bytes_max: usize,
    pub(crate) connect_timeout: Span,
    pub(crate) pace_max: Span,
    /// The budget of the whole process.
    pub(crate) memory_bytes_max: usize,
    /// What the buffers of all connections may hold.
    pub(crate) buffers_max: usize,
    pub(crate) door: Arc<DoorSettings>,
    listeners: HashMap<Arc<str>, ListenerSettings>,
    /// By what peers of DTLS listeners are known.
    dtls: DtlsAcceptors,
    dtls_limits: DtlsLimits,
}

/// What is spoken on listeners of `kind = "extension"`, by their names.
pub type Extensions = HashMap<String, Arc<dyn FrontSettings>>;

/// Words on each listener of an extension that this program does not have.
pub(crate) fn unknown_extensions(config: &Config, extensions: &Extensions) -> Vec<String> {
    let listeners = config.enabled_listeners();
    let unknown = listeners.filter(|(name, listener)| {
        listener.kind == config::ListenerKind::Extension && !extensions.contains_key(*name)
    });
    let words = unknown.map(|(name, _)| {
        format!(
            "listeners.{name}.kind is extension, and this program has none of that name; set another kind"
        )
    });
    words.collect()
}

/// The files of DTLS listeners, by their names.
pub(crate) type DtlsAcceptors = HashMap<Arc<str>, Arc<DtlsAcceptor>>;

/// What decides on log-ins beside the vault.
#[derive(Default)]
pub(crate) struct DoorSettings {
    /// Whether SCRAM is offered.
    pub(crate) scram: bool,
    /// The listeners that admit peers without credentials.
    pub(crate) open_to_strangers: HashSet<Arc<str>>,
    /// What each listener speaks, as the configuration calls it.
    pub(crate) protocols: HashMap<Arc<str>, &'static str>,
}

/// What differs from listener to listener.
#[derive(Clone)]
struct ListenerSettings {
    fronts: Arc<dyn FrontSettings>,
    /// Peers without credentials are admitted, and none of them needs a check if the rules allow them everything.
    trusts_strangers: bool,
}

impl ShardSettings {
    pub(crate) fn new(
        config: &Config,
        shards: usize,
        dtls: &DtlsAcceptors,
        extensions: &Extensions,
    ) -> Self {
        let listeners = config.enabled_listeners().filter_map(|(name, listener)| {
            // Where client ids are bound to users, the one that a client chose is judged, though it comes without credentials.
            let protocol = protocols::of(listener.kind);
            let is_asked = protocol.chooses_client_ids() && binds_client_ids(config);
            let trusts_strangers = config.admits_strangers(listener) && !is_asked;
            let fronts = match protocol.fronts(config, listener, shards) {
                Some(fronts) => fronts,
                None => extensions.get(name)?.clone(),
            };
            let settings = ListenerSettings {
                fronts,
                trusts_strangers,
            };
            Some((name.into(), settings))
        });
        let output_max = config.queue.output_bytes_max;
        let memory_bytes_max = config
            .limits
            .memory_bytes_max
            .unwrap_or_else(crate::keeper::memory_budget);
        let defaults = LinksLimits::default();
        ShardSettings {
            kernel: kernel_limits(config, shards),
            frame_bytes_max: config.journal.frame_bytes_max,
            links: LinksLimits {
                output_max,
                output_high: defaults.output_high.min(output_max / 2),
                ..defaults
            },
            connect_timeout: config.limits.connect_timeout,
            pace_max: config.queue.output_pace_max,
            memory_bytes_max,
            buffers_max: buffers_share(memory_bytes_max, config.limits.packet_bytes_max),
            door: Arc::new(door_settings(config)),
            listeners: listeners.collect(),
            dtls: dtls.clone(),
            dtls_limits: dtls_limits(config, shards),
        }
    }

    /// A front for a connection of the listener of that name, and whether any byte counts as a sign of its peer's life.
    /// `anonymous` is what peers without credentials may do where they need no check. Nothing if the listener has gone meanwhile.
    pub(crate) fn front(
        &self,
        listener: &str,
        certified: bool,
        nonce: u64,
        anonymous: Option<&Access>,
    ) -> Option<(AnyFront, bool)> {
        let ListenerSettings {
            fronts,
            trusts_strangers,
        } = self.listeners.get(listener)?;
        let anonymous = anonymous.filter(|_| *trusts_strangers && !certified);
        let front = fronts.clone().stream_front(nonce, anonymous.cloned())?;
        Some((front, fronts.hears_parts()))
    }

    /// A front for a socket of the datagram listener of that name. Nothing if the listener has gone meanwhile.
    pub(crate) fn datagram_front(&self, listener: &str, seed: u64) -> Option<AnyFront> {
        // What the anonymous may do is asked for each time: this front outlives changes of the rules.
        self.fronts(listener)?.datagram_front(seed, None)
    }

    /// What the operator decides about a listener's fronts.
    pub(crate) fn fronts(&self, listener: &str) -> Option<Arc<dyn FrontSettings>> {
        Some(self.listeners.get(listener)?.fronts.clone())
    }

    /// Whether a listener lets in peers that offer nothing.
    pub(crate) fn admits_strangers(&self, listener: &str) -> bool {
        self.door.open_to_strangers.contains(listener)
    }

    /// How a listener speaks DTLS, if it does.
    pub(crate) fn dtls(&self, listener: &str) -> Option<(Arc<DtlsAcceptor>, DtlsLimits)> {
        Some((self.dtls.get(listener)?.clone(), self.dtls_limits.clone()))
    }
}

fn kernel_limits(config: &Config, shards: usize) -> Limits {
    let share = |total: usize| total.div_ceil(shards);
    Limits {
        queue_messages_max: config.queue.messages_max,
        queue_bytes_max: config.queue.bytes_max,
        queue_volatile_bytes_max: config.queue.volatile_bytes_max,
        queue_pace_max: config.queue.publisher_pace_max,
        overflow: config.queue.overflow,
        queue_memory_bytes_max: config.queue.memory_bytes_max,
        queue_at_most_once_offline: config.queue.at_most_once_while_offline,
        in_flight_max: config.protocols.in_flight_max(),
        subscriptions_max: config.limits.subscriptions_per_session_max,
        levels_max: config.limits.topic_levels_max,
        address_bytes_max: config.limits.topic_bytes_max,
        session_expiry_max: config.session.expiry_max,
        sessions_max: share(config.session.count_max),
        publish_rate: config.limits.publish_rate.unwrap_or(0),
        publish_bytes_rate: config.limits.publish_bytes_rate.unwrap_or(0),
        retain_enabled: config.retained.enabled,
        retained_messages_max: share(config.retained.messages_max),
        retained_bytes_max: share(config.retained.bytes_max),
        retained_expiry_max: config.retained.expiry_max,
        group_messages_max: config.groups.messages_max,
        group_bytes_max: config.groups.bytes_max,
        group_strategy: config.groups.strategy,
        group_policies: config.groups.policies.iter().map(group_policy).collect(),
        group_settle_timeout: config.groups.settle_timeout.unwrap_or(Span::FOREVER),
        group_adaptive_eviction: config.groups.adaptive_eviction,
        group_redispatch: config.session.redispatch,
        queues_max: config.queues.count_max,
        named_queue_messages_max: config.queues.messages_max,
        named_queue_bytes_max: config.queues.bytes_max,
        named_queue_memory_bytes_max: config.queues.memory_bytes_max,
        exchanges_max: config.queues.exchanges_max,
        bindings_max: config.queues.bindings_max,
        transaction_bytes_max: config.queues.transaction_bytes_max,
        kept_filters: config.last_values.keep.as_slice().into(),
        kept_messages_max: share(config.last_values.messages_max),
        kept_bytes_max: share(config.last_values.bytes_max),
        publishers_max: config.dedup.publishers_max,
        publisher_expiry: config.dedup.expiry,
        presence: config.presence.enabled,
        presence_offline: config.presence.offline.unwrap_or(Span::ZERO),
        presence_offline_max: share(config.presence.offline_max),
        watches_max: config.protocols.observations_max(),
        // The front gives up first, and says so.
        take_settle_timeout: Span::from_secs(config.protocols.take_timeout().secs() + 10),
        journal: config.journal.enabled,
        safety: safety(config.journal.fsync),
        safety_filters: config
            .journal
            .filters
            .iter()
            .map(|(filter, fsync)| (filter.clone(), safety(*fsync)))
            .collect(),
        policies: config.policy.iter().map(policy).collect(),
        rate_buckets_max: share(config.limits.rates_max),
        ledger_prefixes: config
            .ledger
            .prefixes
            .iter()
            .map(|prefix| prefix.as_str().into())
            .collect(),
        // What MQTT clients may do was told to each of them, and is granted connection by connection.
        ..Limits::default()
    }
}

fn policy(policy: &config::Policy) -> Policy {
    Policy {
        filter: policy.filter.clone(),
        lifespan_max: policy.lifespan_max,
        priority_min: policy.priority_min,
        reliability_min: policy.reliability_min,
        reliability_max: policy.reliability_max,
        last_value: policy.last_value,
        last_value_depth: policy.last_value_depth,
        safety: policy.fsync.map(safety),
        rate: policy.rate,
        rate_bytes: policy.rate_bytes,
        rate_burst: policy.rate_burst,
        rate_per: policy.rate_per,
        rate_exceed: policy.rate_exceed,
    }
}

fn group_policy(policy: &config::GroupPolicy) -> GroupPolicy {
    GroupPolicy {
        filter: policy.filter.clone(),
        strategy: policy.strategy,
        order: policy.order.and_then(|order| match order {
            config::GroupOrder::Publisher => Some(OrderKey::Publisher),
            config::GroupOrder::Topic => Some(OrderKey::Address),
            config::GroupOrder::Off => None,
        }),
        settle_timeout: policy.settle_timeout,
        upgrade_reliability: policy.upgrade_qos,
        deliveries_max: policy.delivery_limit,
        dead_letter: policy.dead_letter.as_deref().map(Into::into),
    }
}

/// What acknowledgements wait for.
pub(crate) fn safety(fsync: config::Fsync) -> Safety {
    match fsync {
        config::Fsync::Always => Safety::Durable,
        config::Fsync::Interval | config::Fsync::Never => Safety::Written,
    }
}

/// Settings of the journal; none if there is none.
pub(crate) fn journal_settings(config: &Config, repair: bool) -> Option<JournalSettings> {
    let journal = &config.journal;
    journal.enabled.then(|| JournalSettings {
        segment_bytes: journal.segment_bytes,
        frame_bytes_max: journal.frame_bytes_max,
        bytes_max: journal.bytes_max,
        lazy_interval: is_ever_synced(config).then_some(journal.fsync_interval),
        max_linger: journal.max_linger,
        checkpoint_bytes: journal.checkpoint_bytes,
        checkpoint_interval: journal.checkpoint_interval,
        repair,
    })
}

/// Whether any listener or topic promises more than that the system will write it some time.
fn is_ever_synced(config: &Config) -> bool {
    let listeners = config
        .enabled_listeners()
        .map(|(_, listener)| config.fsync(listener));
    let filters = config.journal.filters.iter().map(|(_, fsync)| *fsync);
    std::iter::once(config.journal.fsync)
        .chain(listeners)
        .chain(filters)
        .any(|fsync| fsync != config::Fsync::Never)
}

fn door_settings(config: &Config) -> DoorSettings {
    let open = config
        .enabled_listeners()
        .filter(|(_, listener)| config.admits_strangers(listener));
    let protocols = config
        .enabled_listeners()
        .map(|(name, listener)| (name.into(), listener.kind.word()));
    DoorSettings {
        scram: config.access.scram,
        open_to_strangers: open.map(|(name, _)| name.into()).collect(),
        protocols: protocols.collect(),
    }
}

pub(crate) fn binds_client_ids(config: &Config) -> bool {
    config.access.client_ids != ClientIds::Any
}

fn dtls_limits(config: &Config, shards: usize) -> DtlsLimits {
    DtlsLimits {
        peers_max: config.protocols.datagram_peers_max().div_ceil(shards),
        handshakes_max: config.limits.handshakes_max.div_ceil(shards),
        // A handshake's datagrams may be lost, and are sent again after 1, 2, 4, … seconds.
        handshake_timeout: config
            .limits
            .connect_timeout
            .max(DtlsLimits::default().handshake_timeout),
        ..DtlsLimits::default()
    }
}

/// The files that a DTLS listener's peers are known by; words on what is wrong with them.
pub(crate) fn dtls_acceptor(
    name: &str,
    listener: &config::Listener,
) -> Result<Arc<DtlsAcceptor>, String> {
    let fault = |fault: DtlsFault| format!("{fault}; check `listeners.{name}.tls.*`");
    DtlsAcceptor::new(dtls_files(listener))
        .map(Arc::new)
        .map_err(fault)
}

pub(crate) fn dtls_files(listener: &config::Listener) -> DtlsFiles {
    let certificate = match (&listener.tls.certificate, &listener.tls.key) {
        (Some(certificate), Some(key)) => {
            Some(tls_files(listener, certificate.clone(), key.clone()))
        }
        _ => None,
    };
    let key_bytes_min = listener.tls.psk_bytes_min;
    DtlsFiles {
        keys: listener.tls.psk_file.clone(),
        key_bytes_min,
        identity_hint: String::new(),
        certificate,
    }
}

/// The groups that a listener hears, each on these interfaces. A socket of IPv4 hears nothing of IPv6.
fn groups(bind: SocketAddr, listener: &config::Listener) -> Vec<(IpAddr, String)> {
    let groups = listener.kind.groups().iter();
    groups
        .filter(|group| group.is_ipv4() || bind.is_ipv6())
        .flat_map(|group| listener.multicast.iter().map(|name| (*group, name.clone())))
        .collect()
}

/// A datagram listener's sockets.
pub(crate) fn datagram_spec(name: &str, listener: &config::Listener) -> Option<DatagramSpec> {
    match (&listener.bind, listener.transport.is_datagrams()) {
        (config::Bind::Socket(bind), true) => Some(DatagramSpec {
            name: name.into(),
            bind: *bind,
            receive_bytes: listener.receive_buffer,
            send_bytes: listener.send_buffer,
            dscp: listener.dscp,
            groups: groups(*bind, listener),
        }),
        _ => None,
    }
}

pub(crate) fn tenants(config: &Config) -> Box<[Box<str>]> {
    names(&config.tenants)
}

pub(crate) fn names(list: &[String]) -> Box<[Box<str>]> {
    list.iter().map(|name| name.as_str().into()).collect()
}

pub(crate) fn seconds(span: Span) -> u16 {
    u16::try_from(span.secs()).unwrap_or(u16::MAX)
}

/// Settings of the vault, with the files that it reads.
pub(crate) fn access_settings(config: &Config, secret: [u8; 32]) -> AccessSettings {
    let jwt = &config.access.jwt;
    let key_file = jwt
        .secret_file
        .clone()
        .or_else(|| jwt.public_key_file.clone());
    AccessSettings {
        password_file: config.access.password_file.clone(),
        acl_file: config.access.acl_file.clone(),
        ban_file: config.access.ban_file.clone(),
        otherwise: Some(config.access.default_verdict()),
        client_ids: config.access.client_ids,
        subscribe_needs_read: config.access.subscribe_needs_read,
        verdict_ttl: duration(config.access.verdict_ttl),
        scram_secret: Some(secret),
        token: key_file.map(|file| TokenSettings {
            keys: vec![TokenKeySettings {
                id: None,
                algorithm: jwt.algorithm,
                source: TokenKeySource::File(file),
            }],
            issuers: jwt.issuer.iter().cloned().collect(),
            audiences: jwt.audience.iter().cloned().collect(),
            user_claim: jwt.user_claim.clone(),
            acl_claim: jwt.acl_claim.clone(),
            leeway_seconds: jwt.leeway.secs(),
            expiry_required: jwt.expiry_required,
            user_must_match: jwt.user_must_match,
            required: jwt.required,
        }),
        ..AccessSettings::default()
    }
}

/// Settings of the lobby, with limits and listeners.
pub(crate) fn lobby_settings(config: &Config) -> LobbySettings {
    LobbySettings {
        connections_max: config.limits.connections_max,
        handshakes_max: config.limits.handshakes_max,
        silence_max: SILENCE_MAX,
        connect_timeout: duration(config.limits.connect_timeout),
        connect_bytes_max: config.limits.connect_bytes_max,
        bytes_max: config
            .limits
            .memory_bytes_max
            .unwrap_or_else(crate::keeper::memory_budget)
            / 8,
    }
}

/// A listener's specification; words on what is wrong with its files.
pub(crate) fn listener_spec(
    config: &Config,
    name: &str,
    listener: &config::Listener,
) -> Result<ListenerSpec, String> {
    let bind = match &listener.bind {
        config::Bind::Socket(address) => Bind::Tcp(*address),
        config::Bind::Path(path) => Bind::Unix {
            path: path.clone(),
            mode: listener.unix_mode,
        },
    };
    protocols::of(listener.kind).check(listener)?;
    let limits = &config.limits;
    let connect_rate = limits.connect_rate.unwrap_or(0);
    let connect_rate = u32::try_from(connect_rate).unwrap_or(u32::MAX);
    Ok(ListenerSpec {
        proxy: proxy_rule(listener),
        tls: if listener.transport.is_encrypted() {
            Some(Arc::new(tls_acceptor(name, listener)?))
        } else {
            None
        },
        tls_later: listener.transport == config::Transport::StartTls,
        websocket: listener
            .transport
            .is_websocket()
            .then(|| Arc::new(websocket_settings(config, listener))),
        connections_max: listener.connections_max.unwrap_or(limits.connections_max),
        connections_per_address_max: limits.connections_per_address_max.unwrap_or(0),
        connects_per_second_max: connect_rate,
        connects_burst: connect_rate.max(1),
        backlog: listener.backlog,
        keepalive: listener.tcp_keep_alive.map(duration),
        dscp: listener.dscp,
        send_bytes: listener.send_buffer,
        shard_completes_handshake: protocols::of(listener.kind).completes_handshake_on_shard(),
        ..ListenerSpec::new(name, bind, protocols::of(listener.kind).route())
    })
}

fn websocket_settings(config: &Config, listener: &config::Listener) -> WebSocketSettings {
    let defaults = WebSocketSettings {
        paths: vec![listener.websocket_path().into(), "/".into()],
        origins: OriginRule {
            origins: listener.websocket.origins.clone(),
            local_hosts_only: listener.is_local() && listener.admits_anonymous(),
        },
        ..Default::default()
    };
    protocols::of(listener.kind).websocket(config, listener, defaults)
}

fn proxy_rule(listener: &config::Listener) -> Option<ProxyRule> {
    let versions = match listener.proxy_protocol {
        config::ProxyProtocol::Off => return None,
        config::ProxyProtocol::V1 => ProxyVersions::V1,
        config::ProxyProtocol::V2 => ProxyVersions::V2,
        config::ProxyProtocol::Any => ProxyVersions::Any,
    };
    Some(ProxyRule {
        versions,
        trusted: listener.proxy_trusted.clone(),
        takes_identity: listener.proxy_identity,
    })
}

fn tls_acceptor(name: &str, listener: &config::Listener) -> Result<TlsAcceptor, String> {
    let tls = &listener.tls;
    let (Some(certificate), Some(key)) = (tls.certificate.clone(), tls.key.clone()) else {
        return Err("an encrypted listener needs tls.certificate and tls.key".into());
    };
    let files = tls_files(listener, certificate, key);
    TlsAcceptor::new(files).map_err(|fault| format!("{fault}; {}", tls_mend(name, &fault)))
}

/// The admin interface's end of TLS, if it has a certificate.
pub(crate) fn admin_tls(config: &Config) -> Result<Option<Arc<TlsAcceptor>>, String> {
    let tls = &config.admin.tls;
    let (true, Some(certificate), Some(key)) = (
        config.admin.enabled,
        tls.certificate.clone(),
        tls.key.clone(),
    ) else {
        return Ok(None);
    };
    let files = TlsFiles {
        certificate,
        key,
        client_ca: None,
        client_crl: None,
        client_certificates: ClientCertificates::None,
        name_from: NameFrom::Nowhere,
        oldest: TlsOldest::V12,
    };
    let acceptor = TlsAcceptor::new(files);
    acceptor
        .map(|acceptor| Some(Arc::new(acceptor)))
        .map_err(|fault| format!("{fault}; check `admin.tls.*`"))
}

fn tls_files(listener: &config::Listener, certificate: PathBuf, key: PathBuf) -> TlsFiles {
    let tls = &listener.tls;
    TlsFiles {
        certificate,
        key,
        client_ca: tls.client_ca.clone(),
        client_crl: tls.client_crl.clone(),
        client_certificates: tls.client_certificate,
        name_from: tls.identity,
        oldest: tls.minimum_version,
    }
}

fn tls_mend(name: &str, fault: &TlsFault) -> String {
    let key = |last: &str| format!("listeners.{name}.tls.{last}");
    match fault {
        TlsFault::Unreadable { .. } => {
            format!("make it readable for this user, or change {}", key("*"))
        }
        TlsFault::Nothing { .. } | TlsFault::Unusable { .. } => {
            format!("set {} to the right file", key("*"))
        }
        TlsFault::KeyMismatch { .. } => {
            format!(
                "set {} and {} to files that belong together",
                key("certificate"),
                key("key")
            )
        }
        TlsFault::NoAuthority => format!("set {}", key("client_ca")),
        TlsFault::Setup(_) => format!("check {}", key("*")),
    }
}

/// What a WebSocket message may have beside one packet of the largest size.
pub(crate) const FRAMING_BYTES: usize = 1 << 16;

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_kernel::GroupStrategy;

    fn config(sets: &[&str]) -> Config {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Config::from_text(None, std::iter::empty(), &sets)
            .unwrap_or_else(|errors| panic!("{errors:?}"))
            .0
    }

    #[test]
    fn every_listener_has_a_front_of_its_protocol_and_one_that_is_gone_has_none() {
        let settings =
            ShardSettings::new(&config(&[]), 2, &DtlsAcceptors::new(), &Extensions::new());
        let front = |listener: &str| settings.front(listener, false, 1, None);
        assert!(matches!(front("mqtt"), Some((AnyFront::Mqtt(_), false))));
        assert!(matches!(
            front("websocket"),
            Some((AnyFront::Mqtt(_), false))
        ));
        assert!(matches!(front("amqp"), Some((AnyFront::Amqp(_), true))));
        assert!(matches!(front("stomp"), Some((AnyFront::Stomp(_), true))));
        assert!(matches!(
            front("coap-tcp"),
            Some((AnyFront::CoapStream(_), true))
        ));
        assert!(front("gone").is_none());
        assert!(matches!(
            settings.datagram_front("coap", 1),
            Some(AnyFront::CoapDatagrams(_))
        ));
        assert!(settings.datagram_front("mqtt", 1).is_none());
    }

    #[test]
    fn policies_of_groups_reach_the_kernel_in_their_order() {
        let policies = "groups.policies=[{ filter = 'a/+', order = 'topic', settle_timeout = 'off' }, { filter = 'a/#', \
                        strategy = 'wrr', order = 'off', upgrade_qos = true }]";
        let limits = kernel_limits(&config(&["groups.strategy=score", policies]), 1);
        assert_eq!(limits.group_strategy, GroupStrategy::Score);
        let [one, all] = &*limits.group_policies else {
            panic!("{:?}", limits.group_policies)
        };
        assert_eq!(
            (one.filter.as_str(), one.strategy, one.order),
            ("a/+", None, Some(OrderKey::Address))
        );
        assert_eq!(
            (one.settle_timeout, one.upgrade_reliability),
            (Some(Span::FOREVER), None)
        );
        assert_eq!(
            (all.filter.as_str(), all.strategy, all.order),
            ("a/#", Some(GroupStrategy::Weighted), None)
        );
        assert_eq!(
            (all.settle_timeout, all.upgrade_reliability),
            (None, Some(true))
        );
    }
}
