//! `listeners.<name>.*`: what is spoken where, over what, and with whom.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use thalweg_model::Span;

use super::choices::*;
use super::protocols::ListenerKind;
use super::section::{section, settings};
use thalweg_transport::tls::{ClientCertificates, NameFrom, TlsOldest};

section! {
    pub struct Listener {
        /// Whether the broker opens this listener. The listeners `mqtt`, `websocket`, `amqp`, `stomp`, `coap` and
        /// `coap-tcp` exist without being mentioned; this is how to be rid of one. All but `mqtt` and `websocket` do so
        /// only as long as those two and listeners of your own are not mentioned either: with those, `enabled = true`
        /// is how to have them.
        enabled: bool = Flag, "true", Now;
        /// Protocol spoken on this listener. `mqtt` is 3.1, 3.1.1 and 5.0, distinguished by each client's first packet;
        /// `amqp` is 0-9-1; `stomp` is 1.0, 1.1 and 1.2, distinguished likewise; `coap` is RFC 7252 over UDP and DTLS,
        /// and RFC 8323 over everything else; `zmtp` is 3.0 and 3.1, of ZeroMQ; `xmpp` is 1.0 with XEP-0060;
        /// `extension` is what the program that starts the server speaks there. The built-in listeners `amqp`, `stomp`,
        /// `coap` and `coap-tcp` start as what they are called, and so do `zmtp` and `xmpp`, which are there once they
        /// are mentioned.
        kind: ListenerKind = Word(ListenerKind::WORDS), "mqtt", Restart;
        /// What carries the bytes: plain TCP, TLS, WebSocket, WebSocket over TLS, a Unix socket, for CoAP UDP and DTLS,
        /// or for XMPP `starttls`, which is TCP until the client asks for TLS. The built-in listener `websocket` starts
        /// as `ws` and `coap` as `udp`. AMQP and ZeroMQ have no WebSocket transport.
        transport: Transport = Word(Transport::WORDS), "tcp", Restart;
        /// IP address and port to listen on, or the path of a Unix socket. Must be given, except for the built-in
        /// listeners: `mqtt` has 127.0.0.1:1883, `websocket` 127.0.0.1:8083, `amqp` 127.0.0.1:5672, `stomp`
        /// 127.0.0.1:61613, `coap` and `coap-tcp` 127.0.0.1:5683, of UDP and of TCP, and, once they are mentioned,
        /// `zmtp` 127.0.0.1:5555 and `xmpp` 127.0.0.1:5222. Over TLS (and DTLS) the usual ports are 8883, 8084, 5671,
        /// 61614 and 5684, and STOMP over WebSocket has 15674. Port 0 lets the system choose.
        bind: Bind = BIND, "", Now;
        /// Whether clients without user name, token or certificate are let in. `local` lets them in where only this
        /// machine can connect (loopback addresses and Unix sockets, without `proxy_protocol`); any other listener then
        /// needs authentication configured, or the broker refuses to start. CoAP clients cannot say user name or
        /// password: theirs are certificates, and keys for DTLS (`tls.psk_file`).
        anonymous: Option<bool> = Flag, "local" or "local", NewConnections;
        /// Most connections at once on this listener, within `limits.connections_max`. When reached, new ones are
        /// closed at accept. UDP has none; see `coap.peers_max`.
        connections_max: Option<usize> = count(1, 10_000_000), "off" or "off", NewConnections;
        /// Largest packet accepted on this listener, in place of `limits.packet_bytes_max`; for AMQP, STOMP, CoAP and
        /// ZMTP the largest message, in place of `amqp.message_bytes_max`, `stomp.message_bytes_max`,
        /// `coap.message_bytes_max` and `zmtp.message_bytes_max`; for XMPP the largest stanza, in place of
        /// `xmpp.stanza_bytes_max`.
        packet_bytes_max: Option<usize> = PACKET_BYTES, "inherit" or "inherit", NewConnections;
        /// Publishes per second accepted from each connection of this listener, in place of `limits.publish_rate`; 0 is
        /// no limit. Over UDP it counts for each identity.
        publish_rate: Option<u64> = RATE, "inherit" or "inherit", NewConnections;
        /// What acknowledgements to this listener's clients wait for, in place of `journal.fsync`. A filter of
        /// `journal.filters` that matches a message's topic has the last word.
        fsync: Option<Fsync> = Word(Fsync::WORDS), "inherit" or "inherit", NewConnections;
        /// Whether each connection opens with a PROXY protocol header that names the client's real address, and in
        /// which version. With a value other than `off`, connections without the header are closed.
        proxy_protocol: ProxyProtocol = Word(ProxyProtocol::WORDS), "off", NewConnections;
        /// Addresses of the proxies whose headers are trusted; connections from elsewhere are closed. With
        /// `proxy_protocol` it must name at least one, except on a Unix socket, where `unix_mode` decides who connects.
        proxy_trusted: Vec<IpAddr> = ADDRESSES, "", NewConnections;
        /// Whether the common name of the client certificate that the proxy has verified is the user, without a
        /// password. It is in the PROXY header of version 2 (HAProxy: `send-proxy-v2-ssl-cn`). Set it only where the
        /// proxy alone can connect from the addresses of `proxy_trusted`.
        proxy_identity: bool = Flag, "false", NewConnections;
        /// Time without traffic after which the system asks a TCP peer whether it is still there. It finds vanished
        /// clients that have no keep-alive and no heartbeat of their own.
        tcp_keep_alive: Option<Span> = seconds(1, 32_767), "60s" or "off", Restart;
        /// Connections that may wait in the system's accept queue. The system may cap it (net.core.somaxconn).
        backlog: u32 = count(1, 65_535), "4096", Restart;
        /// Class of service by which routers may tell what the broker sends to clients of this listener: the number that
        /// is written into each IP header (DSCP, RFC 2474). 46 is expedited forwarding, 8 and 1 are for what can wait.
        /// `automatic` leaves it to the system. Unix sockets have none.
        dscp: Option<u8> = count(0, 63), "automatic" or "automatic", Restart;
        /// Permission bits of the Unix socket, in octal.
        unix_mode: u32 = Mode, "0660", Restart;
        /// Bytes of received datagrams that the system keeps for each shard until the broker reads them. What comes
        /// beyond is dropped by the system and counted (`thalweg_datagrams_overflown_total`). The system may cap it
        /// (net.core.rmem_max); `automatic` leaves it to the system. UDP and DTLS only.
        receive_buffer: Option<usize> = size(4 * KIB, GIB), "4MiB" or "automatic", Restart;
        /// Over TCP, bytes that the system holds for one client, those among them that are under way. With little, a message
        /// of a high priority does not wait behind much in the queues of the network, nor does anything else; a client
        /// gets no more than this in one round trip. Over UDP and DTLS, bytes of datagrams that the system takes before
        /// the network has. Then they wait in the broker, up to `queue.output_bytes_max`, and are dropped and counted
        /// beyond. The system may cap it (net.core.wmem_max); `automatic` leaves it to the system. Unix sockets have none.
        send_buffer: Option<usize> = size(4 * KIB, GIB), "automatic" or "automatic", Restart;
        /// Network interfaces on which clients may look for the broker by CoAP's groups of all nodes (224.0.1.187, ff02::fd
        /// and ff05::fd): a non-confirmable GET of /.well-known/core to a group is answered, within `coap.leisure`; nothing
        /// else is. Needs a `bind` to all addresses, at the usual port 5683 if clients are to find it. CoAP over UDP only.
        multicast: Vec<String> = NAMES, "", Restart;
        /// Name of the queue that PUSH sockets of this listener send to and PULL sockets take from, in place of
        /// `zmtp.queue`. ZeroMQ only.
        queue: Option<String> = Text, "", NewConnections;
        in "tls." tls: Tls;
        in "curve." curve: Curve;
        in "websocket." websocket: WebSocket;
    }

    pub struct Tls {
        /// PEM file with the certificate chain, the broker's own certificate first. When this or another of the
        /// listener's files changes on disk, it is taken over within seconds; a reload reads all of them at once.
        certificate: Option<PathBuf> = File, "", NewConnections;
        /// PEM file with the private key of the certificate (PKCS#8, PKCS#1 or SEC1, not encrypted).
        key: Option<PathBuf> = File, "", NewConnections;
        /// PEM file with the authorities that sign client certificates. Needed once `tls.client_certificate` is
        /// `optional` or `required`. If `tls.certificate` has no intermediates, those in this file complete its chain.
        client_ca: Option<PathBuf> = File, "", NewConnections;
        /// PEM file with the revocation lists of those authorities. Not set: no certificate counts as revoked.
        client_crl: Option<PathBuf> = File, "", NewConnections;
        /// Whether clients are asked for a certificate: not at all, verified if they bring one, or refused without.
        client_certificate: ClientCertificates = Word(ClientCertificates::WORDS), "none", NewConnections;
        /// Which part of the client's certificate names the user: the subject's common name, or the first subject
        /// alternative name. `none` leaves the user to what the client says; any other value makes the certificate the
        /// log-in, and no password is asked: AMQP and XMPP clients may use SASL EXTERNAL.
        identity: NameFrom = Word(NameFrom::WORDS), "none", NewConnections;
        /// Oldest TLS version accepted. DTLS is always 1.2.
        minimum_version: TlsOldest = Word(TlsOldest::WORDS), "1.2", NewConnections;
        /// Whether clients of a `starttls` listener have to begin TLS before they log in. If not, only ANONYMOUS and
        /// SCRAM are offered without TLS.
        required: bool = Flag, "true", NewConnections;
        /// File with the keys that DTLS clients share with the broker: `identity:key` per line, the key in hexadecimal
        /// or as text in double quotes. The identity is the user. With it, `tls.certificate` and `tls.key` may be left
        /// out. When it changes on disk, it is read again within seconds; clients whose key was removed must handshake
        /// again.
        psk_file: Option<PathBuf> = File, "", NewConnections;
        /// Least bytes of a key in `tls.psk_file`; a file with a shorter one is refused. A recorded handshake allows
        /// keys to be guessed offline; 16 random bytes cannot be guessed, text has far less entropy per byte.
        psk_bytes_min: usize = count(1, 128), "16", NewConnections;
    }

    #[derive(Default)]
    pub struct Curve {
        /// Secret key of the broker for CURVE of ZeroMQ, 40 characters of Z85 as `zmq.curve_keypair()` makes them. With
        /// a key CURVE is offered beside PLAIN and NULL. Rather name a file, by `curve.secret_key_file`.
        secret_key: Option<String> = Secret, "", NewConnections;
        /// File with that key, and nothing else.
        secret_key_file: Option<PathBuf> = File, "", NewConnections;
        /// File with the public keys of ZeroMQ clients: a key in Z85, a space and a user per line; a line that begins
        /// with `# ` is a comment. Clients with other keys are refused. Without it every key is accepted, and its owner
        /// is anonymous.
        clients_file: Option<PathBuf> = File, "", NewConnections;
    }

    pub struct WebSocket {
        /// HTTP path of the WebSocket upgrade: `automatic` is `/mqtt` for MQTT, `/ws` for STOMP, `/xmpp-websocket` for
        /// XMPP and `/.well-known/coap` for CoAP. `/`, which many clients ask for, works too; requests for other paths
        /// get 404.
        path: String = Text, "automatic" or "automatic", NewConnections;
        /// Origins of the web pages that may connect, such as "https://app.example", beside pages of the host that the
        /// request itself names; `*` is every origin. Pages of other origins get 403. Requests without `Origin` come
        /// from no web page and are not judged. Where clients without credentials are let in on a loopback address,
        /// `Host` must name this machine, too, or the host of one of these origins.
        origins: Vec<String> = ORIGINS, "", NewConnections;
    }
}

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// An IP address and port.
    Socket(SocketAddr),
    /// The path of a Unix socket.
    Path(PathBuf),
}

impl Listener {
    /// Whether peers without credentials are let in: the setting, or only where no stranger can reach us.
    pub fn admits_anonymous(&self) -> bool {
        self.anonymous.unwrap_or_else(|| self.is_local())
    }

    /// Whether only this machine can reach the listener. Behind a proxy the clients are elsewhere.
    pub fn is_local(&self) -> bool {
        self.bind.is_local() && self.proxy_protocol == ProxyProtocol::Off
    }
}

impl Curve {
    /// Whether there is a key, so that CURVE is offered.
    pub fn is_given(&self) -> bool {
        self.secret_key.is_some() || self.secret_key_file.is_some()
    }
}

impl Bind {
    /// Whether two sockets cannot both be opened. Port 0 is a different port each time.
    pub(super) fn collides(&self, other: &Bind) -> bool {
        let (Bind::Socket(one), Bind::Socket(other)) = (self, other) else {
            return self == other;
        };
        let is_all = one.ip().is_unspecified() || other.ip().is_unspecified();
        let is_same = one.is_ipv4() == other.is_ipv4() && (is_all || one.ip() == other.ip());
        is_same && one.port() == other.port() && one.port() != 0
    }

    /// Whether it is a loopback address or a Unix socket.
    pub fn is_local(&self) -> bool {
        match self {
            Bind::Socket(address) => address.ip().is_loopback(),
            Bind::Path(_) => true,
        }
    }
}

impl std::fmt::Display for Bind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bind::Socket(address) => write!(f, "{address}"),
            Bind::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

settings! {
    [] Bind: |it| it.to_string().into(), |value| {
        let socket = value.as_str()?.parse().map(Bind::Socket);
        Some(socket.unwrap_or_else(|_| Bind::Path(value.as_str().unwrap_or_default().into())))
    };
}
