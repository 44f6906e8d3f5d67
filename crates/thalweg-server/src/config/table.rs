//! The table of keys: every setting of the broker, declared once and nowhere else.

use thalweg_model::Span;

use super::declare::{
    GIB, KIB, MIB, NANO, SETTLE_TIMEOUT, TIB, expiry, given, keys, packet_bytes, prefix, seconds,
};
use super::keys::Key;
use super::keys::Reload::{NewConnections, Now, Restart};
use super::kind::Kind::{
    Addresses, Bind, Count, Duration, File, Filters, Flag, GroupPolicies, Mode, Names, Origins,
    Path, Policies, Prefixes, Rate, Size, SizeRate, Socket, Strategy, Text, Word,
};
use super::landing::{Field, Landing, broker, land, listener};
use super::protocols::{self, ListenerKind};
use super::settings::SHARDS_MAX;
use super::words::*;

/// Every key: the broker's and its listeners', then those of each protocol.
pub(super) fn all() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().chain(protocols::KEYS.into_iter().flatten())
}

keys! {
    broker data_dir: Path, default "./thalweg-data", Restart;
        "Directory of the broker's own files, made if it is not there. The journal is in its folder `journal`, and one \
         process at a time can have it: give each broker a directory of its own, on a local disk. Beside it the broker \
         keeps a small file (`secret`, mode 0600) once there are passwords and SCRAM, so that restarts do not tell \
         which users exist. Without the journal a broker that cannot write here says so and runs all the same.";
    broker shards: Count { min: 1, max: SHARDS_MAX as u64 }, default "automatic" none "automatic", Restart;
        "Number of shards: threads that each own their share of the connections and sessions. `automatic` (or 0) is \
         one per two cores, at least one: the other half of the machine is for the kernel's network work.";

    broker tenants: Names { max: 1000 }, default "", NewConnections;
        "Virtual hosts of AMQP and STOMP clients beside `/`, which is always there. Each has queues, exchanges and \
         topics of its own; MQTT clients are in `/`. A client that names another one is refused.";

    broker log.level: Word(LogLevel::WORDS), default "info", Now;
        "How much is logged. `debug` writes a line per connection and refusal, `trace` one per packet: do not leave \
         either on under load.";
    broker log.format: Word(LogFormat::WORDS), default "text", Restart;
        "Shape of a log line: `text` for people, `json` (one object per line) for collectors.";
    broker log.file: Path, default "", Restart;
        "File that log lines are appended to; made with mode 0640. Not set: standard error.";

    listener enabled: Flag, default "true", Now;
        "Whether the broker opens this listener. The listeners `mqtt`, `websocket`, `amqp`, `stomp`, `coap` and \
         `coap-tcp` exist without being mentioned; this is how to be rid of one. All but `mqtt` and `websocket` do so \
         only as long as those two and listeners of your own are not mentioned either: with those, `enabled = true` is \
         how to have them.";
    listener kind: Word(ListenerKind::WORDS), default "mqtt", Restart;
        "Protocol spoken on this listener. `mqtt` is 3.1, 3.1.1 and 5.0, distinguished by each client's first \
         packet; `amqp` is 0-9-1; `stomp` is 1.0, 1.1 and 1.2, distinguished likewise; `coap` is RFC 7252 over \
         UDP and DTLS, and RFC 8323 over everything else; `zmtp` is 3.0 and 3.1, of ZeroMQ; `xmpp` is 1.0 with \
         XEP-0060; `extension` is what the program that starts the server speaks there. The built-in listeners \
         `amqp`, `stomp`, `coap` and `coap-tcp` start as what they are called, and so do `zmtp` and `xmpp`, which \
         are there once they are mentioned.";
    listener transport: Word(Transport::WORDS), default "tcp", Restart;
        "What carries the bytes: plain TCP, TLS, WebSocket, WebSocket over TLS, a Unix socket, for CoAP UDP and \
         DTLS, or for XMPP `starttls`, which is TCP until the client asks for TLS. The built-in listener `websocket` starts as `ws` and `coap` as `udp`. AMQP and ZeroMQ have no WebSocket transport.";
    listener bind: Bind, default "", Now;
        "IP address and port to listen on, or the path of a Unix socket. Must be given, except for the built-in \
         listeners: `mqtt` has 127.0.0.1:1883, `websocket` 127.0.0.1:8083, `amqp` 127.0.0.1:5672, `stomp` \
         127.0.0.1:61613, `coap` and `coap-tcp` 127.0.0.1:5683, of UDP and of TCP, and, once they are mentioned, `zmtp` \
         127.0.0.1:5555 and `xmpp` 127.0.0.1:5222. Over TLS (and DTLS) the usual \
         ports are 8883, 8084, 5671, 61614 and 5684, and STOMP over WebSocket has 15674. Port 0 lets the system \
         choose.";
    listener anonymous: Flag, default "local" none "local", NewConnections;
        "Whether clients without user name, token or certificate are let in. `local` lets them in where only this \
         machine can connect (loopback addresses and Unix sockets, without `proxy_protocol`); any other listener then needs \
         authentication configured, or the broker refuses to start. CoAP clients cannot say user name or password: theirs are \
         certificates, and keys for DTLS (`tls.psk_file`).";
    listener connections_max: Count { min: 1, max: 10_000_000 }, default "off" none "off", NewConnections;
        "Most connections at once on this listener, within `limits.connections_max`. When reached, new ones are \
         closed at accept. UDP has none; see `coap.peers_max`.";
    listener packet_bytes_max: packet_bytes(), default "inherit" none "inherit", NewConnections;
        "Largest packet accepted on this listener, in place of `limits.packet_bytes_max`; for AMQP, STOMP, CoAP and \
         ZMTP the largest message, in place of `amqp.message_bytes_max`, `stomp.message_bytes_max`, \
         `coap.message_bytes_max` and `zmtp.message_bytes_max`; for XMPP the largest stanza, in place of \
         `xmpp.stanza_bytes_max`.";
    listener publish_rate: Rate, default "inherit" none "inherit", NewConnections;
        "Publishes per second accepted from each connection of this listener, in place of `limits.publish_rate`; 0 \
         is no limit. Over UDP it counts for each identity.";
    listener fsync: Word(Fsync::WORDS), default "inherit" none "inherit", NewConnections;
        "What acknowledgements to this listener's clients wait for, in place of `journal.fsync`. A filter of \
         `journal.filters` that matches a message's topic has the last word.";
    listener proxy_protocol: Word(ProxyProtocol::WORDS), default "off", NewConnections;
        "Whether each connection opens with a PROXY protocol header that names the client's real address, and in \
         which version. With a value other than `off`, connections without the header are closed.";
    listener proxy_trusted: Addresses, default "", NewConnections;
        "Addresses of the proxies whose headers are believed; connections from elsewhere are closed. With \
         `proxy_protocol` it must name at least one, except on a Unix socket, where `unix_mode` decides who connects.";
    listener proxy_identity: Flag, default "false", NewConnections;
        "Whether the common name of the client certificate that the proxy has verified is the user, without a \
         password. It is in the PROXY header of version 2 (HAProxy: `send-proxy-v2-ssl-cn`). Set it only where the \
         proxy alone can connect from the addresses of `proxy_trusted`.";
    listener tcp_keep_alive: seconds(1, 32_767), default "60s" none "off", Restart;
        "Time without traffic after which the system asks a TCP peer whether it is still there. It finds vanished \
         clients that have no keep-alive and no heartbeat of their own.";
    listener backlog: Count { min: 1, max: 65_535 }, default "4096", Restart;
        "Connections that may wait in the system's accept queue. The system may cap it (net.core.somaxconn).";
    listener unix_mode: Mode, default "0660", Restart;
        "Permission bits of the Unix socket, in octal.";
    listener receive_buffer: Size { min: 4 * KIB, max: GIB }, default "4MiB" none "automatic", Restart;
        "Bytes of received datagrams that the system keeps for each shard until the broker reads them. What comes \
         beyond is dropped by the system and counted (`thalweg_datagrams_overflown_total`). The system may cap it \
         (net.core.rmem_max); `automatic` leaves it to the system. UDP and DTLS only.";
    listener send_buffer: Size { min: 4 * KIB, max: GIB }, default "automatic" none "automatic", Restart;
        "Bytes of datagrams that the system takes before the network has. Then they wait in the broker, up to \
         `queue.output_bytes_max`, and are dropped and counted beyond. The system may cap it (net.core.wmem_max). UDP \
         and DTLS only.";
    listener tls.certificate: File, default "", NewConnections;
        "PEM file with the certificate chain, the broker's own certificate first. When this or another of the \
         listener's files changes on disk, it is taken over within seconds; a reload reads all of them at once.";
    listener tls.key: File, default "", NewConnections;
        "PEM file with the private key of the certificate (PKCS#8, PKCS#1 or SEC1, not encrypted).";
    listener tls.client_ca: File, default "", NewConnections;
        "PEM file with the authorities that sign client certificates. Needed once `tls.client_certificate` is \
         `optional` or `required`. If `tls.certificate` has no intermediates, those in this file complete its chain.";
    listener tls.client_crl: File, default "", NewConnections;
        "PEM file with the revocation lists of those authorities. Not set: no certificate counts as revoked.";
    listener tls.client_certificate: Word(ClientCertificate::WORDS), default "none", NewConnections;
        "Whether clients are asked for a certificate: not at all, verified if they bring one, or refused without.";
    listener tls.identity: Word(CertificateIdentity::WORDS), default "none", NewConnections;
        "Which part of the client's certificate names the user: the subject's common name, or the first subject \
         alternative name. `none` leaves the user to what the client says; any other value makes the certificate \
         the log-in, and no password is asked: AMQP clients may use SASL EXTERNAL.";
    listener tls.minimum_version: Word(TlsVersion::WORDS), default "1.2", NewConnections;
        "Oldest TLS version accepted. DTLS is always 1.2.";
    listener tls.required: Flag, default "true", NewConnections;
        "Whether clients of a `starttls` listener have to begin TLS before they log in. If not, only ANONYMOUS and SCRAM are \
         offered without TLS.";
    listener tls.psk_file: File, default "", NewConnections;
        "File with the keys that DTLS clients share with the broker: `identity:key` per line, the key in hexadecimal \
         or as text in double quotes. The identity is the user. With it, `tls.certificate` and `tls.key` may be left \
         out. When it changes on disk, it is read again within seconds; clients whose key was removed must handshake \
         again.";
    listener tls.psk_bytes_min: Count { min: 1, max: 128 }, default "16", NewConnections;
        "Least bytes of a key in `tls.psk_file`; a file with a shorter one is refused. A recorded handshake allows \
         keys to be guessed offline; 16 random bytes cannot be guessed, text has far less entropy per byte.";
    listener curve.secret_key: Text, default "" secret true, NewConnections;
        "Secret key of the broker for CURVE of ZeroMQ, 40 characters of Z85 as `zmq.curve_keypair()` makes them. With a key CURVE \
         is offered beside PLAIN and NULL. Rather name a file, by `curve.secret_key_file`.";
    listener curve.secret_key_file: File, default "", NewConnections;
        "File with that key, and nothing else.";
    listener curve.clients_file: File, default "", NewConnections;
        "File with the public keys of ZeroMQ clients: a key in Z85, a space and a user per line; a line that begins with `# ` is a comment. Clients \
         with other keys are refused. Without it every key is accepted, and its owner is anonymous.";
    listener queue: Text, default "", NewConnections;
        "Name of the queue that PUSH sockets of this listener send to and PULL sockets take from, in place of `zmtp.queue`. ZeroMQ \
         only.";
    listener websocket.path: Text, default "automatic" none "automatic", NewConnections;
        "HTTP path of the WebSocket upgrade: `automatic` is `/mqtt` for MQTT, `/ws` for STOMP, `/xmpp-websocket` for XMPP and \
         `/.well-known/coap` for CoAP. `/`, which many clients ask for, works too; requests for other paths get 404.";
    listener websocket.origins: Origins { max: 1000 }, default "", NewConnections;
        "Origins of the web pages that may connect, such as \"https://app.example\", beside pages of the host that the \
         request itself names; `*` is every origin. Pages of other origins get 403. Requests without `Origin` come from \
         no web page and are not judged. Where clients without credentials are let in on a loopback address, `Host` must \
         name this machine, too, or the host of one of these origins.";

    broker admin.enabled: Flag, default "true", Restart;
        "Whether the admin HTTP interface is served: /metrics, /healthz, /readyz and /v1.";
    broker admin.bind: Socket, default "127.0.0.1:7883", Restart;
        "IP address and port of the admin HTTP interface. Beyond loopback it needs `admin.token` or \
         `admin.token_file`, and should have `admin.tls.certificate`.";
    broker admin.unix_socket: Path, default "", Restart;
        "Path of a Unix socket on which the admin interface is served as well. A process that may open it has the role \
         `admin` without a token.";
    broker admin.unix_mode: Mode, default "0600", Restart;
        "Permission bits of `admin.unix_socket`, in octal.";
    broker admin.token: Text, default "" secret true, Restart;
        "Bearer token of the role `admin`, which may ask and change everything. Better set through the environment \
         (THALWEG_ADMIN__TOKEN) or as `admin.token_file` than in a file that others can read. Without a token, every \
         process on this machine has that role, unless log-in is configured (`access.password_file`, `access.acl_file` \
         or `access.jwt.*`): then only /healthz and /readyz are answered on `admin.bind`.";
    broker admin.token_file: File, default "", Restart;
        "File whose first line is the token of the role `admin`, in place of `admin.token`.";
    broker admin.read_token: Text, default "" secret true, Restart;
        "Bearer token of the role `read`, which may ask everything and change nothing; for metrics and dashboards.";
    broker admin.read_token_file: File, default "", Restart;
        "File whose first line is the token of the role `read`, in place of `admin.read_token`.";
    broker admin.tls.certificate: File, default "", Restart;
        "PEM file with the certificate chain of the admin interface; with `admin.tls.key` it speaks HTTPS on \
         `admin.bind`. A renewed file is taken over within seconds.";
    broker admin.tls.key: File, default "", Restart;
        "PEM file with the private key of `admin.tls.certificate`.";

    broker access.password_file: File, default "", Now;
        "File with users and password hashes, one `user:hash` per line: argon2id, or the hashes of \
         mosquitto_passwd. Setting it turns on log-in by password.";
    broker access.acl_file: File, default "", Now;
        "File with the rules for who may publish and subscribe where, in mosquitto's format, with %c for the client \
         id and %u for the user name.";
    broker access.ban_file: File, default "", Now;
        "File with client ids, users and networks that may not connect, one `client ID`, `user NAME` or `address NETWORK` per \
         line, with `until=TIME` before the name for a time; `thalweg ban` writes it. Connections that a new line names end \
         at once. Datagrams are not refused by address.";
    broker access.default: Word(AccessDefault::WORDS), default "automatic" none "automatic", Now;
        "What happens to an action that no rule of `access.acl_file` mentions. `automatic` denies it when there is \
         such a file and allows it when there is none. With `deny` and no file, only tokens that carry rules can do \
         anything.";
    broker access.client_ids: Word(ClientIds::WORDS), default "any", NewConnections;
        "Which client ids a user's MQTT clients may have. `user`: the user's name only, so one connection at a time. \
         `prefix`: that, or the user's name, a colon and whatever else has no colon (`ada`, `ada:phone`); for log-ins \
         that groups of devices share. Others are refused (MQTT 5: 0x85, MQTT 3: return code 2), the anonymous may \
         send an empty client id only, and a session under a client id that the broker makes up ends with its \
         connection. With `any` a client id belongs to the user whose session has it, as long as that lives.";
    broker access.subscribe_needs_read: Flag, default "false", Now;
        "Whether a subscription is refused unless the client may read everything its filter can match. If not, \
         subscriptions are accepted and each message is judged before it is delivered, as in mosquitto. Two kinds of \
         filters are refused all the same: those that lie wholly under a `deny` line, and those of a `$` tree \
         (`$SYS/#`) of which no `read` line speaks.";
    broker access.verdict_ttl: Duration { min: Span::ZERO, max: Span::from_secs(86_400), step: NANO },
        default "10m", Now;
        "How long the verdict on a password is remembered, so that a storm of reconnects does not pay for hashing each \
         time, and returning clients are accepted at once during a guessing attack. A reload that changes the rules or \
         the passwords forgets all. 0s remembers none.";
    broker access.scram: Flag, default "true", NewConnections;
        "Whether MQTT 5 clients may log in with SCRAM-SHA-256, where the password never crosses the network. Needs \
         SCRAM entries in `access.password_file`; without them it has no effect.";
    broker access.jwt.secret_file: File, default "", Now;
        "File with the secret shared with the token issuer, for HS256: at least 32 bytes. Setting it turns on log-in \
         by JSON Web Token, sent as the password.";
    broker access.jwt.public_key_file: File, default "", Now;
        "PEM file with the token issuer's public key, for all other algorithms. Setting it turns on log-in by JSON \
         Web Token, sent as the password.";
    broker access.jwt.algorithm: Word(JwtAlgorithm::WORDS), default "HS256", Now;
        "The one signature algorithm accepted. A token cannot choose another.";
    broker access.jwt.audience: Text, default "", Now;
        "Value that a token's `aud` claim must contain. Not set: not checked.";
    broker access.jwt.issuer: Text, default "", Now;
        "Value that a token's `iss` claim must have. Not set: not checked.";
    broker access.jwt.user_claim: Text, default "sub", Now;
        "Claim of the token that names the user.";
    broker access.jwt.user_must_match: Flag, default "true", Now;
        "Whether a user name sent beside the token must be the token's user.";
    broker access.jwt.acl_claim: Text, default "thalweg_acl", Now;
        "Claim of the token that may carry the client's rules, as {\"publish\": [filters], \"subscribe\": [filters]}. \
         A token that has it is not looked up in `access.acl_file`.";
    broker access.jwt.expiry_required: Flag, default "true", Now;
        "Whether tokens without an `exp` claim are refused.";
    broker access.jwt.leeway: Duration { min: Span::ZERO, max: Span::from_secs(3600), step: Span::from_secs(1) },
        default "5s", Now;
        "Difference between the clocks of broker and token issuer that is forgiven in `exp` and `nbf`.";
    broker access.jwt.required: Flag, default "false", Now;
        "Whether every password must be a token, so that `access.password_file` accepts no log-in, by SCRAM neither.";

    broker limits.connections_max: Count { min: 1, max: 10_000_000 }, default "1000000", NewConnections;
        "Most connections at once. When reached, new ones are closed at accept. The process's limit on open files \
         must be as high (ulimit -n).";
    broker limits.connections_per_address_max: Count { min: 1, max: 10_000_000 },
        default "off" none "off", NewConnections;
        "Most connections at once from one IP address, or from one IPv6 /64, on one listener. Keep it off behind NAT or a \
         proxy without PROXY protocol.";
    broker limits.connect_rate: Rate, default "off" none "off", NewConnections;
        "Connections accepted per second on each listener. Those above it wait in the system's accept queue.";
    broker limits.connect_timeout: seconds(1, 3600), default "10s", NewConnections;
        "Time from accept until PROXY header, TLS, WebSocket upgrade and the client's CONNECT (AMQP: everything up to \
         `connection.open`) must be complete. Then the connection is closed.";
    broker limits.handshakes_max: Count { min: 1, max: 1_000_000 }, default "1024", NewConnections;
        "Connections that may be half-open at once on each listener: in TLS handshake or WebSocket upgrade, before CONNACK \
         (MQTT), `connection.open-ok` (AMQP), CONNECTED (STOMP) or CSM (CoAP over TCP), so that a storm of reconnects cannot take memory or time from connected clients. When reached, the address (IPv6: /64) \
         with most of them gives one up for a new one of an address with fewer: the one that was silent for longest. \
         Otherwise new ones are closed at accept unless that one was silent for a second.";
    broker limits.connect_bytes_max: Size { min: 4 * KIB, max: 16 * MIB }, default "128KiB", Restart;
        "Most bytes that a peer may send before it is logged in: the CONNECT packet of MQTT with its will, and each AUTH \
         packet before CONNACK; the CONNECT frame of STOMP. What is longer is refused (MQTT 5: \"packet too large\") and \
         the connection closed. The first messages of AMQP (8 KiB) and CoAP over TCP (1152 bytes) have limits of their own.";
    broker limits.client_id_bytes_max: Count { min: 23, max: 65_535 }, default "1024", NewConnections;
        "Longest client id in bytes; longer ones are refused with \"client identifier not valid\". MQTT allows \
         65,535, and promises clients only 23.";
    broker limits.packet_bytes_max: packet_bytes(), default "16MiB", NewConnections;
        "Largest MQTT packet accepted, announced to MQTT 5 clients as Maximum Packet Size. A connection that sends a \
         larger one is closed.";
    broker limits.topic_levels_max: Count { min: 1, max: 65_536 }, default "128", Now;
        "Most levels (parts between slashes) in a topic or filter.";
    broker limits.topic_bytes_max: Count { min: 1, max: 65_535 }, default "65535", NewConnections;
        "Longest topic or filter in bytes. The default is what MQTT can express.";
    broker limits.subscriptions_per_session_max: Count { min: 1, max: 10_000_000 }, default "10000", Now;
        "Most subscriptions of one session. Those beyond it are answered with \"quota exceeded\" (failure in MQTT \
         3).";
    broker limits.publish_rate: Rate, default "off" none "off", NewConnections;
        "Publishes per second accepted from each connection. The broker stops reading from a client that is faster; \
         nothing is dropped.";
    broker limits.publish_bytes_rate: SizeRate, default "off" none "off", NewConnections;
        "Published bytes per second accepted from each connection. The broker stops reading from a client that is \
         faster; nothing is dropped.";
    broker limits.memory_bytes_max: Size { min: 16 * MIB, max: 64 * TIB },
        default "automatic" none "automatic", Now;
        "Memory for what peers have the whole broker keep: messages, and beside them sessions, wills, filters, topic \
         aliases, queues, bindings, watches and transactions. From nine tenths of it on, messages that could only wait \
         in memory are refused; a publisher whose protocol has no refusal is not read until there is room. \
         Transactions have a quarter of it together, and the rest beside messages half, but what is little is let in \
         beyond that. Clients without a session are refused beyond the budget, if it is not messages alone that fill \
         it. `automatic` is three quarters of the machine's (or the container's) memory.";

    broker queue.messages_max: Count { min: 1, max: 1_000_000_000 }, default "100000000", Now;
        "Most messages that wait for one session. Then `queue.overflow` decides.";
    broker queue.bytes_max: Size { min: KIB, max: TIB }, default "4GiB", Now;
        "Most bytes that wait for one session. Then `queue.overflow` decides. With a journal, what waits for a session that \
         outlives its connection is on disk beyond `queue.memory_bytes_max`.";
    broker queue.volatile_bytes_max: Size { min: KIB, max: TIB }, default "64MiB", Now;
        "The same for a session whose queue is in memory only: one that ends with its connection, or any if there is no \
         journal. The smaller of both counts.";
    broker queue.publisher_pace_max: Duration { min: Span::ZERO, max: Span::from_secs(3600), step: NANO },
        default "10s", Now;
        "How long publishers of QoS 1 and 2 are slowed for a connected client, a shared subscription or a queue with a \
         name that is more than half full and from which nothing is taken meanwhile. They are as slow as it is: see \
         operating.md. 0s switches this off.";
    broker queue.overflow: Word(Overflow::WORDS), default "drop-newest", Now;
        "What a full queue does with the next message: drop the one that has waited longest, drop the new one, or drop \
         it and disconnect the receiver. Each drop is counted with its reason. A new one of QoS 1 or 2 that no other \
         receiver has got is refused: MQTT 5 0x97, AMQP nack, CoAP 5.03, STOMP ERROR; to MQTT 3 it is not \
         acknowledged.";
    broker queue.at_most_once_while_offline: Flag, default "false", Now;
        "Whether QoS 0 messages wait for sessions that are not connected. MQTT leaves it open; most brokers drop \
         them.";
    broker queue.memory_bytes_max: Size { min: KIB, max: TIB }, default "1MiB", Now;
        "Bytes of one session's waiting messages that are kept in memory; of those beyond it only the place in the \
         journal is, and they are read back when their turn comes. Without the journal everything is in memory.";
    broker queue.output_bytes_max: Size { min: 4 * KIB, max: GIB }, default "1MiB", Now;
        "Bytes that may wait for a slow client's socket. Beyond it QoS 0 messages for this client are dropped and \
         counted; QoS 1 and 2 wait in its queue.";
    broker queue.output_pace_max: Duration { min: Span::ZERO, max: Span::from_secs(1), step: NANO },
        default "20ms", Now;
        "Longest time that publishers wait for a client whose output is piling up. If it has not drained by then it \
         counts as slow: publishers do not wait for it until it has caught up, and `queue.*` decide about its \
         messages. 0s switches waiting off.";

    broker queues.count_max: Count { min: 1, max: 10_000_000 }, default "100000", Now;
        "Most queues that AMQP and STOMP clients may have declared. Further ones are refused.";
    broker queues.messages_max: Count { min: 1, max: 1_000_000_000_000 }, default "10000000", Now;
        "Most messages that wait in one queue, whatever limit it was declared with. Further ones are refused: AMQP \
         publishers that asked for confirmations hear `basic.nack`.";
    broker queues.bytes_max: Size { min: KIB, max: 64 * TIB }, default "4GiB", Now;
        "Most bytes of payload that wait in one queue, likewise.";
    broker queues.memory_bytes_max: Size { min: KIB, max: 64 * TIB }, default "16MiB", Now;
        "Bytes of one queue's messages that wait in memory; what comes beyond waits on disk and is read back when its turn \
         comes. For durable queues that were declared without priorities, lengths and a time to live; others are in memory \
         as a whole. The same bytes of what waits for a shared subscription are in memory, if one of its members has a \
         session that outlives its connection.";
    broker queues.exchanges_max: Count { min: 1, max: 10_000_000 }, default "10000", Now;
        "Most exchanges that clients may have declared. Further ones are refused.";
    broker queues.bindings_max: Count { min: 1, max: 100_000_000 }, default "1000000", Now;
        "Most bindings of all exchanges together. Further ones are refused.";
    broker queues.transaction_bytes_max: Size { min: KIB, max: TIB }, default "64MiB", Now;
        "Most bytes of messages published in transactions that are not committed, over all channels of a connection.";

    broker session.expiry_max: expiry(0), default "unlimited" none "unlimited", NewConnections;
        "Longest session expiry that MQTT 5 clients are granted; a longer one is shortened, and CONNACK says so. 0s \
         ends each session with its connection.";
    broker session.v3_expiry: expiry(1), default "7d" none "never", NewConnections;
        "How long the session of an MQTT 3 client with clean session 0 is kept after it disconnects. MQTT 3 has no \
         expiry of its own, so that with `never` forgotten clients fill the memory.";
    broker session.count_max: Count { min: 1, max: 100_000_000 }, default "2000000", NewConnections;
        "Most sessions, connected or not. When reached, clients without a session are refused with \"quota \
         exceeded\".";
    broker session.redispatch: Flag, default "true", Now;
        "Whether QoS 1 messages of a shared subscription that a client has not acknowledged go to another member as \
         soon as it disconnects. If not, they wait for its return, the end of its session, or \
         `groups.settle_timeout`.";

    broker retained.enabled: Flag, default "true", Now;
        "Whether retained messages are kept. If not, CONNACK says so to MQTT 5 clients, and a retained publish is \
         refused.";
    broker retained.messages_max: Count { min: 1, max: 1_000_000_000 }, default "1000000", Now;
        "Most retained messages. When reached, new topics are not retained; known ones are still replaced.";
    broker retained.bytes_max: Size { min: KIB, max: TIB }, default "256MiB", Now;
        "Most bytes of retained messages. When reached, messages are not retained; they are still delivered.";
    broker retained.expiry_max: expiry(1), default "never" none "never", Now;
        "How long a retained message is kept at most, whatever expiry it carries.";

    broker journal.enabled: Flag, default "true", Restart;
        "Whether sessions that outlive their connection, what waits for them, and retained messages survive the \
         process. If not, an acknowledgement means \"this process has it\", and a restart forgets everything.";
    broker journal.fsync: Word(Fsync::WORDS), default "always", Now;
        "What an acknowledgement waits for. `always`: for the disk; what is acknowledged survives kill -9 and power \
         loss. `interval`: for the write, and the disk follows every `journal.fsync_interval`; survives kill -9, and \
         power loss takes at most the interval. `never`: for the write, and the system decides when the disk follows; \
         survives kill -9, and power loss may take half a minute. `journal.filters` and `listeners.<name>.fsync` can \
         say otherwise for some topics and clients.";
    broker journal.fsync_interval: Duration { min: Span::from_millis(1), max: Span::from_secs(1), step: NANO },
        default "50ms", Now;
        "Time between two syncs where the policy is `interval`: the most that power loss can take.";
    broker journal.filters: Policies, default "", Now;
        "Sync policies of topics, as a table from filters to policies. A message whose topic a filter matches has its \
         policy, whatever `journal.fsync` and its listener say; if several match, the most durable of them counts \
         (`always`, then `interval`, then `never`).";
    broker journal.bytes_max: Size { min: 4 * MIB, max: 64 * TIB }, default "off" none "off", Restart;
        "Most bytes of journal files. From four fifths of it on (or of the file system, which is the limit with \
         `off`), QoS 1 and 2 publishes that would have to be kept are refused with \"quota exceeded\"; MQTT 3 clients, \
         whose protocol has no refusal, are not read. Deliveries and acknowledgements go on, and make room.";
    broker journal.segment_bytes: Size { min: MIB, max: 64 * MIB }, default "64MiB", Restart;
        "Length of a segment file, which is made at full length before it is written. Journals with segments of \
         another length are read all the same.";
    broker journal.frame_bytes_max: Size { min: MIB, max: GIB }, default "1GiB", Restart;
        "Most bytes that the journal writes in one piece. What follows from one message is cut into several pieces if it is \
         longer; a client whose single message is longer is disconnected. Larger than any message may be, therefore; less \
         than the default is of use in tests.";
    broker journal.checkpoint_bytes: Size { min: MIB, max: TIB }, default "256MiB", Restart;
        "Bytes written to the journal between two checkpoints. A start reads the newest checkpoint and what was \
         written since: less here is a faster start and more writing.";
    broker journal.checkpoint_interval: seconds(1, 86_400), default "60s", Restart;
        "Time between two checkpoints, if anything was written.";
    broker journal.max_linger: Duration { min: Span::ZERO, max: Span::from_millis(10), step: NANO },
        default "0s", Restart;
        "Time that a sync waits for more to come. Batches form by themselves while the disk is busy; a little waiting \
         can help a slow disk under light load, and delays every acknowledgement.";

    broker last_values.keep: Filters { max: 100 }, default "", Now;
        "Filters of topics that keep their latest message although its publisher did not retain it, for readers that \
         come later: CoAP clients that GET, retained messages for MQTT subscribers, `x-last-value`. In memory only; \
         what publishers retain survives a restart, as always.";
    broker last_values.messages_max: Count { min: 1, max: 1_000_000_000 }, default "1000000", Now;
        "Most messages that are kept only because of `last_values.keep`, or because a CoAP client has made a topic of \
         their address. When reached, further topics keep none; known ones are still replaced.";
    broker last_values.bytes_max: Size { min: KIB, max: TIB }, default "256MiB", Now;
        "Most bytes of these, likewise.";

    broker dedup.publishers_max: Count { min: 1, max: 10_000_000 }, default "10000", Now;
        "Publishers whose message ids are remembered for deduplication; each takes 1 KiB of memory. When more come, \
         those that were idle for longest are forgotten; a user that has more than half of them makes only its own be \
         forgotten.";
    broker dedup.expiry: expiry(1), default "7d" none "never", Now;
        "A publisher that has sent nothing with a stamp for this long may be forgotten. What it repeats after that is \
         taken for new.";

    broker presence.enabled: Flag, default "false", NewConnections;
        "Whether the broker publishes which clients come and go: each that has a name gets a retained message at \
         `$presence/<name>`, which says since when it is online or offline, by which protocol, and why it left. The \
         name is an MQTT client id that the client chose, or the identity of CoAP over DTLS. The `client-id` of STOMP \
         and the connection name of AMQP are only claimed and published at `$presence/stomp/<name>` and \
         `$presence/amqp/<name>`, unless they are the user's name, alone or with a colon and more behind it. In a \
         virtual host it is at `$presence@<virtual host>/<name>`. Off by default: readers of these topics see who is \
         connected, and it takes half a KiB for each client and a message whenever one comes or goes. While it is off, \
         subscribing there is refused. Only the broker may publish there.";
    broker presence.offline: seconds(1, 30 * 86_400), default "1h" none "off", Now;
        "How long it is remembered of a client that it is offline. `off`: the message is delivered to present \
         subscribers and not retained.";
    broker presence.offline_max: Count { min: 0, max: 10_000_000 }, default "10000", Now;
        "Most clients of which it is remembered that they are offline, so that names that come only once do not add up. Of \
         more nothing stays, as with `off`.";

    broker ledger.prefixes: Prefixes { max: 1000 }, default "", Restart;
        "Topic prefixes of whole levels that get books of their own: `plant/a` counts `plant/a` and everything below \
         it, but for what a longer prefix in the list counts. The books are in the metrics, in /v1/ledger and in \
         `thalweg ledger`.";

    broker groups.strategy: Strategy, default "adaptive", Now;
        "How a shared subscription chooses the member that gets the next message. `adaptive`: the one that is expected \
         to finish it first, by acknowledgements, load reports and what else the broker measures; messages wait in the \
         group until a member is about to be free. `round-robin`: each in turn. `random`: by chance. `sticky`: the \
         same until it cannot take more. `least-outstanding`: the one with fewest unacknowledged messages. `weighted`: \
         in turn, by the weights that members named. `hash-client`, `hash-topic`: by publisher or topic, so that what \
         belongs together stays together. `score`: by reports alone, as in the thesis that introduced them. Other \
         names for the same are understood: `lbect`, `expected-completion-time`, `dynamic`; `rr`, \
         `round-robin-per-group`, `alternating`, `turn`, `single-active-round-robin`; `local`, `prefer-local`, \
         `local-only` (by chance: there is one machine); `failover`, `single-active-consumer`; `least-inflight`, \
         `least-connections`, `least-request`, `least-pending`; `weighted-round-robin`, `wrr`; `hash`, \
         `hash-clientid`, `hash-publisher`; `hash-address`, `consistent-hash`; `state-aware`; with `_` for `-`, too.";
    broker groups.policies: GroupPolicies { max: 1000 }, default "", Now;
        "What holds for some shared subscriptions, by filter: of the entries the first whose `filter` covers the \
         subscription's own counts, and what it leaves out is as elsewhere. `strategy` and `settle_timeout` are like the \
         keys of that name. `order` is `publisher` or `topic`: a message goes to no other member while an earlier \
         one of its publisher, or topic, is unacknowledged; with `off` members decide. `upgrade_qos = true` delivers \
         QoS 0 publishes with the QoS that members subscribed with, so that slow members are seen and nothing is lost \
         with them; MQTT has no such rule. A message that members have been given `delivery_limit` times without \
         acknowledging it is given up at the next time. `dead_letter` is the topic to which messages go that are given \
         up, that expire while they wait, or that a member refuses (a PUBACK or PUBREC of 0x80 and above, a reject of \
         AMQP without requeue); `$q/dead` is a queue. Of a shared subscription that takes from a queue the queue's \
         own limits count.";
    broker groups.messages_max: Count { min: 1, max: 1_000_000_000 }, default "100000", Now;
        "Most messages that wait for one shared subscription when no member can take them. Further ones are dropped \
         and counted; of QoS 1 or 2, and if no other receiver has got them, they are refused as with `queue.overflow`.";
    broker groups.bytes_max: Size { min: KIB, max: TIB }, default "64MiB", Now;
        "Most bytes that wait for one shared subscription. Further messages are dropped and counted.";
    broker groups.settle_timeout: SETTLE_TIMEOUT, default "30s" none "off", Now;
        "Time a member has to acknowledge QoS 1 messages of a shared subscription. Then its connection is closed, if \
         another member is there that has not fallen silent, too, and what it had goes to others: as long as it is \
         open MQTT allows no second copy. Work that takes longer needs a longer time, or is done twice. A member that \
         returns gets one message until it has acknowledged one, and from the second time on waits for that.";
    broker groups.adaptive_eviction: Flag, default "false", Now;
        "Whether the strategy `adaptive` closes a member's connection before `groups.settle_timeout`: once it has \
         acknowledged nothing for 2 seconds and for 30 times as long as its work takes, and others are there. Then a \
         worker that hangs holds its messages for seconds, and one whose program pauses for 2 seconds (a garbage \
         collection, one slow job among quick ones) is disconnected and its work done twice. Groups for which \
         `groups.policies` names a `settle_timeout` keep that.";

    broker sys.interval: seconds(1, 86_400), default "10s" none "off", Now;
        "Time between two rounds of statistics under $SYS.";
}
