//! The configuration before any value has landed. Nothing of this is a default: the key table has those, and loading
//! overwrites every field.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use thalweg_kernel::GroupStrategy;
use thalweg_model::Span;

use super::protocols::{ListenerKind, Protocols};
use super::settings::*;
use super::words::*;

const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Config {
    pub(super) fn blank() -> Self {
        Config {
            data_dir: PathBuf::new(),
            shards: None,
            tenants: Vec::new(),
            log: Log {
                level: LogLevel::Off,
                format: LogFormat::Text,
                file: None,
            },
            listeners: BTreeMap::new(),
            admin: Admin {
                enabled: false,
                bind: NOWHERE,
                unix_socket: None,
                unix_mode: 0,
                token: None,
                token_file: None,
                read_token: None,
                read_token_file: None,
                tls: AdminTls::default(),
            },
            access: Access {
                password_file: None,
                acl_file: None,
                ban_file: None,
                client_ids: ClientIds::Any,
                subscribe_needs_read: false,
                verdict_ttl: Span::ZERO,
                default: None,
                scram: false,
                jwt: Jwt {
                    secret_file: None,
                    public_key_file: None,
                    algorithm: JwtAlgorithm::Hs256,
                    audience: None,
                    issuer: None,
                    user_claim: String::new(),
                    user_must_match: false,
                    acl_claim: String::new(),
                    expiry_required: false,
                    leeway: Span::ZERO,
                    required: false,
                },
            },
            limits: Limits {
                connections_max: 0,
                connections_per_address_max: None,
                connect_rate: None,
                connect_timeout: Span::ZERO,
                handshakes_max: 0,
                connect_bytes_max: 0,
                client_id_bytes_max: 0,
                packet_bytes_max: 0,
                topic_levels_max: 0,
                topic_bytes_max: 0,
                subscriptions_per_session_max: 0,
                publish_rate: None,
                publish_bytes_rate: None,
                memory_bytes_max: None,
            },
            queue: Queue {
                messages_max: 0,
                bytes_max: 0,
                volatile_bytes_max: 0,
                overflow: Overflow::DropNewest,
                publisher_pace_max: Span::ZERO,
                memory_bytes_max: 0,
                at_most_once_while_offline: false,
                output_bytes_max: 0,
                output_pace_max: Span::ZERO,
            },
            queues: Queues {
                count_max: 0,
                messages_max: 0,
                bytes_max: 0,
                memory_bytes_max: 0,
                exchanges_max: 0,
                bindings_max: 0,
                transaction_bytes_max: 0,
            },
            session: Session {
                expiry_max: Span::ZERO,
                v3_expiry: Span::ZERO,
                count_max: 0,
                redispatch: false,
            },
            retained: Retained {
                enabled: false,
                messages_max: 0,
                bytes_max: 0,
                expiry_max: Span::ZERO,
            },
            journal: Journal {
                enabled: false,
                fsync: Fsync::Always,
                fsync_interval: Span::ZERO,
                filters: Vec::new(),
                bytes_max: None,
                segment_bytes: 0,
                frame_bytes_max: 0,
                checkpoint_bytes: 0,
                checkpoint_interval: Span::ZERO,
                max_linger: Span::ZERO,
            },
            last_values: LastValues {
                keep: Vec::new(),
                messages_max: 0,
                bytes_max: 0,
            },
            dedup: Dedup {
                publishers_max: 0,
                expiry: Span::ZERO,
            },
            presence: Presence {
                enabled: false,
                offline: None,
                offline_max: 0,
            },
            ledger: Ledger {
                prefixes: Vec::new(),
            },
            protocols: Protocols::default(),
            groups: Groups {
                // Unlike the default, as everything here is.
                strategy: GroupStrategy::RoundRobin,
                policies: Vec::new(),
                messages_max: 0,
                bytes_max: 0,
                settle_timeout: None,
                adaptive_eviction: false,
            },
            sys: Sys { interval: None },
        }
    }
}

impl Listener {
    pub(super) fn blank() -> Self {
        Listener {
            enabled: false,
            kind: ListenerKind::default(),
            transport: Transport::Tcp,
            bind: Bind::Socket(NOWHERE),
            anonymous: None,
            connections_max: None,
            packet_bytes_max: None,
            publish_rate: None,
            fsync: None,
            proxy_protocol: ProxyProtocol::Off,
            proxy_trusted: Vec::new(),
            proxy_identity: false,
            tls: Tls {
                certificate: None,
                key: None,
                client_ca: None,
                client_crl: None,
                client_certificate: ClientCertificate::None,
                identity: CertificateIdentity::None,
                minimum_version: TlsVersion::V12,
                required: true,
                psk_file: None,
                psk_bytes_min: 0,
            },
            curve: Curve::default(),
            queue: None,
            websocket: WebSocket {
                path: String::new(),
                origins: Vec::new(),
            },
            tcp_keep_alive: None,
            backlog: 0,
            unix_mode: 0,
            receive_buffer: None,
            send_buffer: None,
        }
    }
}
