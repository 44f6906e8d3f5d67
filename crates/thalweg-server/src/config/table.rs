//! The table of keys: every setting of the broker, declared once and nowhere else.

use thalweg_model::Span;

use super::declare::{
    GIB, KIB, MIB, NANO, SETTLE_TIMEOUT, TIB, expiry, given, keep_alive, keys, message_bytes,
    packet_bytes, prefix, seconds,
};
use super::keys::Key;
use super::keys::Reload::{NewConnections, Now, Restart};
use super::kind::Kind::{
    Addresses, Bind, Count, Dials, Duration, File, Filters, Flag, GroupPolicies, Mode, Names,
    Origins, Path, Policies, Prefixes, Rate, Size, SizeRate, Socket, Strategy, Text, Word,
};
use super::landing::{Field, Landing, broker, land, listener};
use super::settings::SHARDS_MAX;
use super::words::*;

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
         DTLS, or for XMPP `starttls`, which is TCP until the client asks for TLS. The built-in listener `websocket` starts as `ws` and `coap` as `udp`. AMQP has no WebSocket transport.";
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
    listener websocket.path: Text, default "automatic" none "automatic", NewConnections;
        "HTTP path of the WebSocket upgrade: `automatic` is `/mqtt` for MQTT, `/ws` for STOMP and `/.well-known/coap` for \
         CoAP. `/`, which many clients ask for, works too; requests for other paths get 404.";
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

    broker mqtt.receive_maximum: Count { min: 1, max: 65_535 }, default "1024", NewConnections;
        "QoS 1 and 2 messages that an MQTT 5 client may have on the way to us without an answer.";
    broker mqtt.inflight_max: Count { min: 1, max: 65_535 }, default "1024", NewConnections;
        "QoS 1 and 2 messages on the way to a client without an answer. MQTT 5 clients can lower it by Receive \
         Maximum; MQTT 3 clients cannot say, so lower it here for small devices.";
    broker mqtt.topic_alias_maximum: Count { min: 0, max: 65_535 }, default "64", NewConnections;
        "Topic aliases that an MQTT 5 client may use towards us. Each costs memory for one topic per connection; 0 \
         offers none.";
    broker mqtt.topic_alias_out_max: Count { min: 0, max: 65_535 }, default "16", NewConnections;
        "Topic aliases that we use towards an MQTT 5 client that allows them; 0 uses none.";
    broker mqtt.keep_alive_max: keep_alive(), default "0s", NewConnections;
        "Longest keep-alive that MQTT 5 clients may ask for; a longer one is replaced by this in CONNACK. MQTT 3 \
         clients keep theirs. 0s accepts any.";
    broker mqtt.keep_alive_default: keep_alive(), default "0s", NewConnections;
        "Keep-alive for MQTT 5 clients that ask for none; CONNACK says so. 0s leaves them without, so that a vanished \
         peer is found out only by TCP.";
    broker mqtt.maximum_qos: Count { min: 0, max: 2 }, default "2", NewConnections;
        "Highest QoS accepted and granted.";
    broker mqtt.shared_subscriptions: Flag, default "true", NewConnections;
        "Whether clients may share subscriptions ($share/group/filter). MQTT 3 clients may too.";
    broker mqtt.wildcard_subscriptions: Flag, default "true", NewConnections;
        "Whether clients may subscribe with `+` and `#`.";
    broker mqtt.subscription_identifiers: Flag, default "true", NewConnections;
        "Whether MQTT 5 clients may attach identifiers to their subscriptions.";
    broker mqtt.response_information: Text, default "", NewConnections;
        "Response Information for MQTT 5 clients that ask for it, usually a topic prefix that the client may \
         receive answers under. Not set: none.";
    broker mqtt.server_reference: Text, default "", NewConnections;
        "Address of another server. If set, new clients are not served here: MQTT 5 clients are sent there with \
         \"use another server\", MQTT 3 clients refused with \"server unavailable\".";
    broker mqtt.load_reports: Word(LoadReports::WORDS), default "announced", NewConnections;
        "Whether MQTT 5 clients that are members of shared subscriptions may report in PINGREQ how much they have to do. \
         `announced` says so to every client when it connects (user property `x-lb-report`) and takes reports from all; \
         `off` treats such a packet as what it is to the specification, malformed. Reports in PUBACK and to `$load/report` \
         need no leave.";

    broker amqp.heartbeat: keep_alive(), default "60s", NewConnections;
        "Heartbeat interval proposed to AMQP clients, who may choose another. A peer that says nothing for twice the \
         interval agreed on is disconnected. 0s proposes none.";
    broker amqp.frame_bytes_max: Size { min: 4 * KIB, max: 16 * MIB }, default "128KiB", NewConnections;
        "Largest frame proposed to AMQP clients. Larger messages come in several frames.";
    broker amqp.channels_max: Count { min: 1, max: 65_535 }, default "2047", NewConnections;
        "Most channels of one AMQP connection.";
    broker amqp.message_bytes_max: message_bytes(), default "16MiB", NewConnections;
        "Largest body of an AMQP message. A channel on which a larger one is announced is closed.";
    broker amqp.consumers_per_channel_max: Count { min: 1, max: 1_000_000 }, default "4096", NewConnections;
        "Most consumers of one AMQP channel. Further ones are refused.";

    broker stomp.dialect: Word(StompDialect::WORDS), default "rabbitmq", NewConnections;
        "How STOMP clients write destinations. `rabbitmq`: /queue/name, /topic/a.b with * and #, /exchange/name/key, \
         /amq/queue/name. `activemq`: /queue/name, /topic/a.b with * and >. `slash`: /queue/name, and for topics \
         levels between slashes as in MQTT, with + and #.";
    broker stomp.hosts: Names { max: 1000 }, default "", NewConnections;
        "Names of this machine that STOMP clients may send as `host` without meaning a tenant. `localhost`, addresses \
         and names with a dot count as such anyhow, unless they are in `tenants`.";
    broker stomp.nack_requeues: Flag, default "true", NewConnections;
        "Whether a message that a STOMP client refuses with NACK goes back into its queue, if the frame does not say \
         itself with `requeue`. If not, it is dead-lettered or dropped.";
    broker stomp.selectors_refused: Flag, default "false", NewConnections;
        "Whether SUBSCRIBE with a `selector` is refused. Selectors are not evaluated yet, so that otherwise such a \
         subscriber gets everything, as from RabbitMQ.";
    broker stomp.heart_beat: Duration { min: Span::ZERO, max: Span::from_secs(3600), step: Span::from_millis(1) },
        default "10s", NewConnections;
        "How often we are ready to give STOMP clients a sign of life, and how often we want one from them. It counts \
         only for clients that offer or want some themselves. 0s is never.";
    broker stomp.message_bytes_max: message_bytes(), default "16MiB", NewConnections;
        "Largest body of a STOMP frame. A client that sends a larger one gets ERROR and is disconnected.";
    broker stomp.headers_max: Count { min: 10, max: 65_536 }, default "128", NewConnections;
        "Most headers of one STOMP frame.";
    broker stomp.head_bytes_max: Size { min: KIB, max: 16 * MIB }, default "64KiB", NewConnections;
        "Most bytes of command and headers of one STOMP frame together.";
    broker stomp.prefetch: Count { min: 0, max: 4_294_967_295 }, default "0", NewConnections;
        "Most unacknowledged messages of a STOMP subscription that does not say itself with `prefetch-count`. 0 is no \
         limit.";
    broker stomp.subscriptions_max: Count { min: 1, max: 65_535 }, default "1024", NewConnections;
        "Most subscriptions of one STOMP connection.";
    broker stomp.transactions_max: Count { min: 1, max: 65_536 }, default "64", NewConnections;
        "Most open transactions of one STOMP connection.";

    broker zmtp.high_water: Count { min: 0, max: 10_000_000 }, default "1000", NewConnections;
        "Messages that wait for a ZeroMQ subscriber that does not keep up, beside what is in its output (`queue.output_bytes_max`). \
         Beyond that the newest is dropped, and counted as `queue_full`. 0: none waits.";
    broker zmtp.last_value: Flag, default "false", NewConnections;
        "Whether a subscription of a ZeroMQ client brings the last values (MQTT: retained messages) of the addresses that \
         begin with its prefix.";
    broker zmtp.retain: Filters { max: 100 }, default "", NewConnections;
        "Topic filters: what a ZeroMQ client publishes at such a topic becomes its last value, as a retained message of MQTT does. \
         With `zmtp.last_value` it is a last value cache.";
    broker zmtp.invert_matching: Flag, default "false", NewConnections;
        "Whether a ZeroMQ subscriber gets what begins with none of its prefixes, in place of what begins with one. As with \
         ZMQ_INVERT_MATCHING of a PUB, the SUB must set that, too.";
    broker zmtp.header_frame: Flag, default "false", NewConnections;
        "Whether messages of PUB, SUB, PUSH and PULL sockets have a frame of properties before the payload, to and from the broker: \
         a line `name:value` for each. `content-type`, `correlation`, `reply-to`, `expiry` (seconds) and `priority` are what other \
         protocols call so; other names are user properties. Without it ZeroMQ has none.";
    broker zmtp.queue: Text, default "zmtp", NewConnections;
        "Name of the queue that PUSH sockets send to and PULL sockets take from. ZeroMQ has no names for that; clients of other \
         protocols use the queue by this one. It is made when the first of them connects.";
    broker zmtp.durable: Flag, default "false", NewConnections;
        "Whether what PUSH sockets send to the queue outlives the broker, as far as it was written down: ZeroMQ has no \
         acknowledgements. It costs what persistent messages cost.";
    broker zmtp.service: Text, default "$q/zmtp-requests", NewConnections;
        "Where requests of REQ and DEALER sockets go that name no address, and what REP and ROUTER sockets serve that name none. \
         `$q/<name>` is a queue, in which requests wait for a worker.";
    broker zmtp.request_timeout: seconds(1, 86_400), default "30s", NewConnections;
        "How long a request of a ZeroMQ client is worth answering. An answer that comes later is dropped, because ZeroMQ has no \
         word for a request that failed.";
    broker zmtp.requests_max: Count { min: 1, max: 1_000_000 }, default "1000", NewConnections;
        "Requests of one ZeroMQ connection that wait for their answers. What is asked beyond that is dropped, and counted as \
         refused.";
    broker zmtp.worker_window: Count { min: 1, max: 10_000 }, default "1", NewConnections;
        "Requests that a ROUTER socket or a worker of Majordomo has at once. With more than one, a frame before the empty one \
         tells them apart; the worker sends it back with the answer. A REP socket has one.";
    broker zmtp.connect: Dials { max: 100 }, default "", Restart;
        "Peers of ZeroMQ that bind, to which the broker connects, by tcp or ipc. `as` is the broker's end: `sub` takes what a PUB \
         publishes (what begins with one of `subscribe`; all, if that is left out), `pub` publishes to a SUB, `pull` puts what a \
         PUSH sends into `zmtp.queue`, `push` gives a PULL what is in it, `dealer` asks a REP or ROUTER what is asked at `service`, \
         and `router` answers a REQ or DEALER. The peer has the rights of `user` (`zmtp`). A connection that ends is opened \
         again after a tenth of a second, then after twice as long each time, up to half a minute; `identity` is the broker's \
         routing id each time.";
    broker zmtp.heart_beat: Duration { min: Span::ZERO, max: Span::from_secs(3600), step: Span::from_millis(1) },
        default "30s", NewConnections;
        "How often a ZeroMQ client of ZMTP 3.1 is asked for a sign of life (PING). One that sends nothing for three times as \
         long is disconnected. 0s is never. What a client asks for by a time to live in its own PING comes first.";
    broker zmtp.message_bytes_max: message_bytes(), default "16MiB", NewConnections;
        "Largest message of a ZeroMQ client, all its frames together. A client that sends a larger one is disconnected.";
    broker zmtp.subscription_bytes_max: Size { min: 64, max: 64 * KIB }, default "4KiB", NewConnections;
        "Longest prefix that a ZeroMQ client may subscribe to. A client that sends a longer one is disconnected.";

    broker xmpp.domain: Text, default "localhost", NewConnections;
        "Domain of all XMPP addresses: a client is `user@domain/resource`, the publish-subscribe service `pubsub.domain`. A \
         client that asks for another domain is refused (host-unknown).";
    broker xmpp.node_wildcards: Flag, default "false", NewConnections;
        "Whether `+` and `#` in the name of a node that an XMPP client subscribes to are wildcards, as in MQTT. Otherwise they \
         are letters, and `pubsub#subscription_depth` subscribes to what is below a node.";
    broker xmpp.plaintext_passwords: Flag, default "false", NewConnections;
        "Whether XMPP clients may send passwords (PLAIN) over connections without TLS: for tests on one machine.";
    broker xmpp.resume_max: seconds(0, 7 * 86_400), default "300s" none "off", NewConnections;
        "How long the session of an XMPP client outlives its connection, if the client asks for resumption (XEP-0198). With the \
         journal it outlives the broker, too. Not longer than `session.expiry_max`.";
    broker xmpp.scram: Flag, default "false", NewConnections;
        "Whether SCRAM-SHA-256 is offered to XMPP clients, with TLS and without. Most clients try it first and nothing else if it \
         fails, so every user needs a SCRAM entry in `access.password_file`. Needs `access.scram`.";
    broker xmpp.stanza_bytes_max: Size { min: 10_000, max: 256 * MIB }, default "1MiB", NewConnections;
        "Largest stanza of an XMPP client. A client that sends a larger one is disconnected (policy-violation). Before the \
         log-in it is 8 KiB.";

    broker coap.ack_timeout: Duration { min: Span::from_millis(10), max: Span::from_secs(3600), step: NANO },
        default "2s", Now;
        "Time that a confirmable CoAP message waits for its acknowledgement before it is sent again; each repetition \
         waits twice as long. This is ACK_TIMEOUT of RFC 7252; lower it for fast networks only.";
    broker coap.ack_random_percent: Count { min: 100, max: 1000 }, default "150", Now;
        "The first wait is up to this many percent of `coap.ack_timeout`, by chance, so that what was lost together is \
         not repeated together. This is ACK_RANDOM_FACTOR, times 100.";
    broker coap.max_retransmit: Count { min: 0, max: 20 }, default "4", Now;
        "How often a confirmable CoAP message is sent again. An observer that acknowledges none of them is forgotten. \
         This is MAX_RETRANSMIT.";
    broker coap.adaptive_timeout: Flag, default "true", Now;
        "Whether the first wait follows the measured round trip to a peer, from 100 ms on, instead of being \
         `coap.ack_timeout`, which then is for peers of whom nothing is known. A message is sent again as often as fits \
         into the time that RFC 7252 gives it (45 s), each wait twice the one before. Where a quarter of all datagrams \
         is lost, an observer hears of a change after 0.3 s on average, not after 4 s. If not, waits are those of RFC 7252.";
    broker coap.nstart: Count { min: 1, max: 255 }, default "1", Now;
        "Confirmable CoAP messages on the way to one peer at once. Further ones wait. This is NSTART; RFC 7252 allows \
         more than 1 only with congestion control of another kind.";
    broker coap.probing_rate: Count { min: 1, max: 1_000_000_000 }, default "1", Now;
        "Bytes per second, on average, that are sent to a CoAP peer that does not answer at all. This is PROBING_RATE.";
    broker coap.queue: Count { min: 1, max: 65_535 }, default "1", Now;
        "Changes of a topic that wait for a CoAP observer. 1 is what CoAP promises: the latest state, and states in \
         between may be left out. With more, up to so many are notified in order; of more than that the oldest are left \
         out and counted. Observers can ask for another number with `?queue=`.";
    broker coap.queue_max: Count { min: 1, max: 65_535 }, default "1024", Now;
        "The most that an observer can ask for.";
    broker coap.notifications: Word(CoapNotifications::WORDS), default "auto", Now;
        "Which CoAP notifications are confirmable: those of messages that are delivered at least once (`auto`), all \
         (`con`), or as few as RFC 7641 allows (`non`). Clients can say otherwise with `?qos=`.";
    broker coap.observer_check: Duration { min: Span::from_secs(1), max: Span::from_secs(86_400), step: Span::from_secs(1) },
        default "24h", Now;
        "At least this often a notification is confirmable, so that an observer that has gone is found out. RFC 7641 \
         asks for a day or less.";
    broker coap.observe_empty: Flag, default "true", Now;
        "Whether a topic that has no value yet can be observed. If not, GET with Observe is answered with 4.04 like GET.";
    broker coap.auto_create: Flag, default "true", Now;
        "Whether a PUT to a topic that no client has made is a publish all the same. If not, it is answered with 4.04, \
         as the draft of CoAP publish-subscribe says.";
    broker coap.auto_declare_queues: Flag, default "false", Now;
        "Whether a POST to a queue that does not exist makes it. If not, it is answered with 4.04.";
    broker coap.plain_paths: Flag, default "true", Now;
        "Whether `/ps/a/b` means the topic a/b where no CoAP topic has that path: the form that clients of EMQX use. \
         `/ps/data/a/b` always does.";
    broker coap.discovery: Flag, default "true", Now;
        "Whether /.well-known/core tells clients what there is. If not, it is answered with 4.04, and a client must \
         have a topic's path.";
    broker coap.notify_etag: Flag, default "false", Now;
        "Whether notifications that fit one message have an ETag as well, at five bytes each. Those in blocks always have \
         one.";
    broker coap.max_age: seconds(0, 4_294_967_295), default "60s", Now;
        "How long what does not expire is called fresh (Max-Age). Caches may answer with it for so long, and observers \
         that hear nothing for longer register again.";
    broker coap.message_bytes_max: Size { min: 64, max: 512 * MIB }, default "1MiB", Now;
        "Largest body of a CoAP request, all blocks together. A larger one is answered with 4.13.";
    broker coap.max_block_size: Count { min: 16, max: 1024 }, default "1024", Now;
        "Largest block of CoAP block-wise transfer: a power of two. Bodies that are longer come and go in several. Clients \
         can ask for smaller ones.";
    broker coap.transfers_bytes_max: Size { min: KIB, max: TIB }, default "64MiB", Now;
        "Bytes of request bodies of which not all blocks have come, on each listener. When reached, new ones are \
         answered with 5.03.";
    broker coap.peers_max: Count { min: 1, max: 100_000_000 }, default "262144", Now;
        "CoAP peers that are remembered on each listener. When reached, those that observe nothing and wait for nothing \
         make room, the longest silent first; if there are none, new ones are answered with 5.03.";
    broker coap.observations_max: Count { min: 1, max: 100_000_000 }, default "1000000", Now;
        "Most observations on each listener. Further ones are answered without Observe.";
    broker coap.observations_per_peer_max: Count { min: 1, max: 65_535 }, default "256", Now;
        "Most observations of one CoAP peer, likewise.";
    broker coap.request_rate: Rate, default "off" none "off", Now;
        "Requests per second accepted from one CoAP peer. Those beyond are answered with 4.29 if they are confirmable, \
         and else not at all.";
    broker coap.amplification_factor: Count { min: 1, max: 255 }, default "3", Now;
        "How many times its request's size an answer may have for a peer that has not shown that it is where it seems to \
         be (RFC 9175). Longer answers go in small blocks until it has. With DTLS there is no limit.";
    broker coap.echo: Word(CoapEcho::WORDS), default "auto", Now;
        "Whether a peer that wants to observe must show by Echo (RFC 9175) that it is where it seems to be: never, \
         always, or while more than half of `coap.peers_max` is taken. Unless never, a peer that sends more than half \
         of the bodies in blocks that it may send at once must do so, too.";
    broker coap.duplicates_max: Count { min: 1, max: 100_000_000 }, default "524288", Now;
        "Answers remembered on each listener, so that a repeated request is not carried out twice. When reached, the \
         oldest are forgotten and counted; otherwise each is kept for 247 seconds.";
    broker coap.duplicates_bytes_max: Size { min: KIB, max: TIB }, default "16MiB", Now;
        "Bytes of options and payloads of these, likewise.";
    broker coap.topics_max: Count { min: 1, max: 100_000_000 }, default "100000", Now;
        "Most topics that CoAP clients may have made. Further ones are answered with 5.03.";
    broker coap.rpc_timeout: seconds(1, 3600), default "30s", Now;
        "How long the answer to a request through `/rpc` is waited for. Then it is answered with 5.04.";
    broker coap.take_timeout: seconds(1, 86_400), default "120s", Now;
        "How long a message that a CoAP client took from a queue may go unacknowledged. Then it goes back.";
    broker coap.idle_timeout: seconds(1, 86_400), default "off" none "off", NewConnections;
        "How long a CoAP client over TCP, TLS or WebSocket may say nothing. After half of that it is asked by a Ping, which \
         every client answers; so this finds those that are gone. `tcp_keep_alive` of the listener does so, too.";

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
