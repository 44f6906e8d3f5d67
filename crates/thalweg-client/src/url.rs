//! Where a broker is: `mqtt://user:password@host:port`, `coap://host/plant/1`, and their kin.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::transport::{Endpoint, Medium};

/// The address of a broker, what is spoken there, and the credentials to use there.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerUrl {
    /// Protocol and medium of the URL.
    pub scheme: Scheme,
    /// A name or an address; an IPv6 address stands here without its brackets. Empty for a Unix socket.
    pub host: String,
    /// The port, the scheme's own if none was written. 0 for a Unix socket.
    pub port: u16,
    /// The HTTP path of a WebSocket, with its query; the scheme's own if none was written. Empty for the others.
    pub path: String,
    /// The path of the Unix socket.
    pub unix: Option<PathBuf>,
    /// Path of an MQTT, CoAP, ZeroMQ, XMPP or DDS URL: `coap://host/a/b` is the topic `a/b`, and so is
    /// `coap://host/ps/data/a/b`.
    pub topic: Option<String>,
    /// Path of an AMQP or STOMP URL: the virtual host (`amqp://host/%2f` is `/`).
    pub virtual_host: Option<String>,
    /// The user name, percent-decoded; it must be UTF-8.
    pub user: Option<String>,
    /// Password, percent-decoded; it may be any bytes.
    pub password: Option<Vec<u8>>,
}

/// Protocol and medium of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// MQTT over TCP: `mqtt`, `tcp`.
    Mqtt,
    /// MQTT over TLS: `mqtts`, `ssl`.
    Mqtts,
    /// MQTT over WebSocket: `ws`.
    Ws,
    /// MQTT over WebSocket over TLS: `wss`.
    Wss,
    /// MQTT over a Unix socket: `unix:///path`, or a path alone.
    MqttUnix,
    /// CoAP over UDP (RFC 7252).
    Coap,
    /// CoAP over DTLS (RFC 7252 §9).
    Coaps,
    /// CoAP over TCP (RFC 8323).
    CoapTcp,
    /// CoAP over TLS (RFC 8323).
    CoapsTcp,
    /// CoAP over WebSocket (RFC 8323).
    CoapWs,
    /// CoAP over WebSocket over TLS (RFC 8323): `coaps+ws`, `coap+wss`.
    CoapsWs,
    /// AMQP 0-9-1 over TCP.
    Amqp,
    /// AMQP 0-9-1 over TLS.
    Amqps,
    /// STOMP over TCP: `stomp`.
    Stomp,
    /// STOMP over TLS: `stomps`.
    Stomps,
    /// STOMP over WebSocket: `stomp+ws`.
    StompWs,
    /// STOMP over WebSocket over TLS: `stomp+wss`, `stomps+ws`.
    StompWss,
    /// ZeroMQ (ZMTP) over TCP.
    Zmtp,
    /// XMPP over TCP, without TLS.
    Xmpp,
    /// XMPP over TLS from the first octet.
    Xmpps,
    /// XMPP over WebSocket (RFC 7395).
    XmppWs,
    /// XMPP over WebSocket over TLS: `xmpp+wss`, `xmpps+ws`.
    XmppWss,
    /// A domain of DDS, whose number stands for the host; the lane is another crate's.
    Dds,
}

/// Properties of a scheme.
struct Row {
    names: &'static [&'static str],
    scheme: Scheme,
    protocol: &'static str,
    /// IANA's port, or for WebSockets the one our listeners use; of CoAP what RFC 8323 §8 says.
    port: u16,
    is_encrypted: bool,
    /// The usual path and the sub-protocol.
    websocket: Option<(&'static str, &'static str)>,
}

const fn row(
    names: &'static [&'static str],
    scheme: Scheme,
    protocol: &'static str,
    port: u16,
    is_encrypted: bool,
) -> Row {
    Row {
        names,
        scheme,
        protocol,
        port,
        is_encrypted,
        websocket: None,
    }
}

const fn websocket(row: Row, path: &'static str, sub_protocol: &'static str) -> Row {
    Row {
        websocket: Some((path, sub_protocol)),
        ..row
    }
}

const SCHEMES: [Row; 23] = [
    row(&["mqtt", "tcp"], Scheme::Mqtt, "mqtt", 1883, false),
    row(&["mqtts", "ssl"], Scheme::Mqtts, "mqtt", 8883, true),
    websocket(
        row(&["ws"], Scheme::Ws, "mqtt", 8083, false),
        "/mqtt",
        "mqtt",
    ),
    websocket(
        row(&["wss"], Scheme::Wss, "mqtt", 8084, true),
        "/mqtt",
        "mqtt",
    ),
    row(&["unix", "mqtt+unix"], Scheme::MqttUnix, "mqtt", 0, false),
    row(&["coap"], Scheme::Coap, "coap", 5683, false),
    row(&["coaps"], Scheme::Coaps, "coap", 5684, true),
    row(&["coap+tcp"], Scheme::CoapTcp, "coap", 5683, false),
    row(&["coaps+tcp"], Scheme::CoapsTcp, "coap", 5684, true),
    websocket(
        row(&["coap+ws"], Scheme::CoapWs, "coap", 80, false),
        "/.well-known/coap",
        "coap",
    ),
    websocket(
        row(
            &["coaps+ws", "coap+wss"],
            Scheme::CoapsWs,
            "coap",
            443,
            true,
        ),
        "/.well-known/coap",
        "coap",
    ),
    row(&["amqp"], Scheme::Amqp, "amqp", 5672, false),
    row(&["amqps"], Scheme::Amqps, "amqp", 5671, true),
    row(&["stomp"], Scheme::Stomp, "stomp", 61613, false),
    row(
        &["stomps", "stomp+ssl"],
        Scheme::Stomps,
        "stomp",
        61614,
        true,
    ),
    websocket(
        row(&["stomp+ws"], Scheme::StompWs, "stomp", 15674, false),
        "/ws",
        "v12.stomp",
    ),
    websocket(
        row(
            &["stomp+wss", "stomps+ws"],
            Scheme::StompWss,
            "stomp",
            15673,
            true,
        ),
        "/ws",
        "v12.stomp",
    ),
    row(&["zmtp"], Scheme::Zmtp, "zmtp", 5555, false),
    row(&["xmpp"], Scheme::Xmpp, "xmpp", 5222, false),
    row(&["xmpps"], Scheme::Xmpps, "xmpp", 5223, true),
    websocket(
        row(&["xmpp+ws"], Scheme::XmppWs, "xmpp", 5280, false),
        "/xmpp-websocket",
        "xmpp",
    ),
    websocket(
        row(
            &["xmpp+wss", "xmpps+ws"],
            Scheme::XmppWss,
            "xmpp",
            5281,
            true,
        ),
        "/xmpp-websocket",
        "xmpp",
    ),
    row(&["dds"], Scheme::Dds, "dds", 0, false),
];

impl Scheme {
    fn row(self) -> &'static Row {
        // Every scheme has a row; a test goes through all.
        SCHEMES
            .iter()
            .find(|row| row.scheme == self)
            .unwrap_or(&SCHEMES[0])
    }

    /// `mqtt`, `coap`, `amqp`, `stomp`, `zmtp`, `xmpp` or `dds`.
    pub fn protocol(self) -> &'static str {
        self.row().protocol
    }

    /// Returns the scheme as it is written in a URL.
    pub fn name(self) -> &'static str {
        self.row().names.first().copied().unwrap_or_default()
    }

    /// The port used when none is written.
    pub fn port(self) -> u16 {
        self.row().port
    }

    /// Whether TLS is spoken, or DTLS.
    pub fn is_encrypted(self) -> bool {
        self.row().is_encrypted
    }

    /// Whether a WebSocket is spoken.
    pub fn is_websocket(self) -> bool {
        self.row().websocket.is_some()
    }

    /// Whether there are datagrams and not a stream.
    pub fn is_datagrams(self) -> bool {
        matches!(self, Scheme::Coap | Scheme::Coaps)
    }
}

/// Not the address of a broker; the words say what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UrlError {}

impl From<&str> for UrlError {
    fn from(words: &str) -> UrlError {
        UrlError(words.to_owned())
    }
}

impl Default for BrokerUrl {
    /// The default address of `thalweg serve`.
    fn default() -> Self {
        BrokerUrl::at(Scheme::Mqtt, "127.0.0.1")
    }
}

impl BrokerUrl {
    /// A broker at the scheme's own port.
    pub fn at(scheme: Scheme, host: &str) -> BrokerUrl {
        BrokerUrl {
            scheme,
            host: host.to_owned(),
            port: scheme.port(),
            path: scheme
                .row()
                .websocket
                .map_or_else(String::new, |(path, _)| path.to_owned()),
            unix: None,
            topic: None,
            virtual_host: None,
            user: None,
            password: None,
        }
    }

    /// A broker at a Unix socket.
    pub fn at_unix(path: PathBuf) -> BrokerUrl {
        BrokerUrl {
            unix: Some(path),
            ..BrokerUrl::at(Scheme::MqttUnix, "")
        }
    }

    /// Value of a `Host` header: the port is left out where the scheme of HTTP implies it (RFC 9110 §7.2).
    pub fn host_header(&self) -> String {
        self.endpoint().host_header()
    }

    /// Where to connect to.
    pub fn endpoint(&self) -> Endpoint {
        let row = self.scheme.row();
        Endpoint {
            host: self.host.clone(),
            port: self.port,
            medium: match &self.unix {
                Some(path) => Medium::Unix(path.clone()),
                None if self.scheme.is_datagrams() => Medium::Datagrams,
                None => Medium::Stream,
            },
            is_encrypted: row.is_encrypted,
            websocket: row
                .websocket
                .map(|(_, sub_protocol)| (self.path.clone(), sub_protocol)),
        }
    }
}

impl Endpoint {
    /// Value of a `Host` header: the port is left out where the scheme of HTTP implies it (RFC 9110 §7.2).
    pub fn host_header(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match (self.is_encrypted, self.port) {
            (false, 80) | (true, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl FromStr for BrokerUrl {
    type Err = UrlError;

    /// Without a scheme it is MQTT; a text that begins with `/` is the path of a Unix socket.
    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.starts_with('/') {
            return Ok(BrokerUrl::at_unix(text.into()));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("mqtt", text));
        let row = SCHEMES
            .iter()
            .find(|row| {
                row.names
                    .iter()
                    .any(|name| name.eq_ignore_ascii_case(scheme))
            })
            .ok_or_else(|| UrlError(format!("`{scheme}` is not one of {}", scheme_names())))?;
        if row.scheme == Scheme::MqttUnix {
            return match rest.starts_with('/') {
                true => Ok(BrokerUrl::at_unix(text_of(percent_decoded(rest)?)?.into())),
                false => {
                    Err("a Unix socket needs an absolute path: unix:///run/thalweg.sock".into())
                }
            };
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        // A password may contain an unescaped `@`; a host cannot.
        let (credentials, host_port) = match authority.rsplit_once('@') {
            Some((credentials, host_port)) => (Some(credentials), host_port),
            None => (None, authority),
        };
        let (host, port) = split_port(host_port)?;
        if let Some(letter) = host.chars().find(|letter| is_no_letter_of_hosts(*letter)) {
            return Err(UrlError(format!(
                "the host `{host}` contains {letter:?}, which no host name or address does"
            )));
        }
        if host.is_empty() {
            return Err(UrlError(format!(
                "there is no host in it; write {}://HOST:PORT",
                row.scheme.name()
            )));
        }
        let mut url = BrokerUrl::at(row.scheme, host);
        url.port = port.unwrap_or(url.port);
        if let Some((user, password)) = credentials.map(|both| {
            both.split_once(':')
                .map_or((both, None), |(u, p)| (u, Some(p)))
        }) {
            url.user = Some(text_of(percent_decoded(user)?)?);
            url.password = password.map(percent_decoded).transpose()?;
        }
        url.take_path(path)?;
        Ok(url)
    }
}

impl BrokerUrl {
    /// Interprets the path by the scheme.
    fn take_path(&mut self, path: &str) -> Result<(), UrlError> {
        if path.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err("the path contains a space or a control character".into());
        }
        let inner = path.strip_prefix('/').unwrap_or_default();
        if inner.is_empty() {
            return Ok(());
        }
        if self.scheme.is_websocket() {
            self.path = path.to_owned();
            return Ok(());
        }
        if inner.contains(['?', '#']) {
            return Err("a query or fragment has no meaning here".into());
        }
        let decoded = text_of(percent_decoded(inner)?)?;
        match self.scheme.protocol() {
            // The whole path names it, and a slash in it is written %2f, as RabbitMQ's clients have it.
            "amqp" | "stomp" if inner.contains('/') => {
                return Err("a slash in the name of a virtual host is written %2f".into());
            }
            "amqp" | "stomp" => self.virtual_host = Some(decoded),
            // Our broker has the data of topics below /ps/data.
            "coap" => {
                self.topic = Some(
                    decoded
                        .strip_prefix("ps/data/")
                        .unwrap_or(&decoded)
                        .to_owned(),
                )
            }
            _ => self.topic = Some(decoded),
        }
        Ok(())
    }
}

/// Characters that neither a name nor an address can contain; all others are left to the resolver.
fn is_no_letter_of_hosts(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control() || "\"#<>?@[\\]^`{|}".contains(letter)
}

fn scheme_names() -> String {
    let names: Vec<&str> = SCHEMES
        .iter()
        .flat_map(|row| row.names.first())
        .copied()
        .collect();
    names.join(", ")
}

/// For messages to people: without the credentials.
impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.unix {
            return write!(f, "unix://{}", path.display());
        }
        match self.host.contains(':') {
            _ if self.port == 0 => write!(f, "{}://{}", self.scheme.name(), self.host),
            true => write!(f, "{}://[{}]:{}", self.scheme.name(), self.host, self.port),
            false => write!(f, "{}://{}:{}", self.scheme.name(), self.host, self.port),
        }
    }
}

impl fmt::Debug for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BrokerUrl").field(&self.to_string()).finish()
    }
}

fn split_port(text: &str) -> Result<(&str, Option<u16>), UrlError> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => inner
            .split_once(']')
            .ok_or("the bracket of the IPv6 address is not closed")?,
        None if text.matches(':').count() > 1 => {
            return Err(UrlError(format!(
                "an IPv6 address needs brackets, such as [{text}]:1883"
            )));
        }
        None => text.find(':').map_or((text, ""), |at| text.split_at(at)),
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        None => return Err(UrlError(format!("`{rest}` follows the address"))),
        Some(port) => match port.parse::<u16>() {
            Ok(port) if port > 0 => Some(port),
            _ => {
                return Err(UrlError(format!(
                    "`{port}` is not a port; ports are 1 to 65535"
                )));
            }
        },
    };
    Ok((host, port))
}

fn percent_decoded(text: &str) -> Result<Vec<u8>, UrlError> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, others @ ..] = rest {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let hex = rest.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        match byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => bytes.push(byte),
            None => return Err("a `%` is not followed by two hex digits; write %25 for `%`".into()),
        }
        rest = rest.get(2..).unwrap_or_default();
    }
    Ok(bytes)
}

fn text_of(bytes: Vec<u8>) -> Result<String, UrlError> {
    String::from_utf8(bytes).map_err(|_| "the user name or the path is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> BrokerUrl {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn every_scheme_has_its_port_and_its_way() {
        for (row, (text, port, encrypted, websocket)) in SCHEMES.iter().zip([
            ("mqtt://b", 1883, false, false),
            ("mqtts://b", 8883, true, false),
            ("ws://b", 8083, false, true),
            ("wss://b", 8084, true, true),
            ("unix:///run/b", 0, false, false),
            ("coap://b", 5683, false, false),
            ("coaps://b", 5684, true, false),
            ("coap+tcp://b", 5683, false, false),
            ("coaps+tcp://b", 5684, true, false),
            ("coap+ws://b", 80, false, true),
            ("coap+wss://b", 443, true, true),
            ("amqp://b", 5672, false, false),
            ("amqps://b", 5671, true, false),
            ("stomp://b", 61613, false, false),
            ("stomps://b", 61614, true, false),
            ("stomp+ws://b", 15674, false, true),
            ("stomps+ws://b", 15673, true, true),
            ("zmtp://b", 5555, false, false),
        ]) {
            let url = parse(text);
            let endpoint = url.endpoint();
            assert_eq!((url.scheme, url.port), (row.scheme, port), "{text}");
            assert_eq!(
                (endpoint.is_encrypted, endpoint.websocket.is_some()),
                (encrypted, websocket),
                "{text}"
            );
            assert_eq!(
                endpoint.medium == Medium::Datagrams,
                matches!(text, "coap://b" | "coaps://b"),
                "{text}"
            );
        }
    }

    #[test]
    fn urls_are_taken_apart() {
        for (text, host, port) in [
            ("broker:1234", "broker", 1234),
            ("MQTTS://broker", "broker", 8883),
            ("mqtt://[::1]", "::1", 1883),
            ("coap://[fe80::1]:7", "fe80::1", 7),
        ] {
            let url = parse(text);
            assert_eq!((url.host.as_str(), url.port), (host, port), "{text}");
        }
        for (text, user, password) in [
            ("mqtt://alice@b", "alice", None),
            ("amqp://a%40b:p@:%2F@b", "a@b", Some(b"p@:/".to_vec())),
            ("mqtt://:%ff@b", "", Some(vec![0xff])),
        ] {
            let url = parse(text);
            assert_eq!(
                (url.user.as_deref(), url.password),
                (Some(user), password),
                "{text}"
            );
        }
        assert_eq!(parse("/run/b.sock").unix, Some("/run/b.sock".into()));
    }

    #[test]
    fn a_path_is_what_it_is_to_its_scheme() {
        assert_eq!(parse("wss://broker:443/a/b?c").path, "/a/b?c");
        assert_eq!(parse("ws://broker/").path, "/mqtt");
        assert_eq!(parse("coap+ws://broker").path, "/.well-known/coap");
        assert_eq!(parse("coap://host/a/b%20c").topic.as_deref(), Some("a/b c"));
        assert_eq!(
            parse("coap://host/ps/data/a/b").topic.as_deref(),
            Some("a/b")
        );
        assert_eq!(
            parse("mqtt://host/ps/data/a").topic.as_deref(),
            Some("ps/data/a")
        );
        assert_eq!(parse("coap://host/").topic, None);
        assert_eq!(parse("amqp://host/%2f").virtual_host.as_deref(), Some("/"));
        assert_eq!(
            parse("stomp://host/blue").virtual_host.as_deref(),
            Some("blue")
        );
    }

    #[test]
    fn what_is_not_a_url_is_refused_in_words() {
        for (text, words) in [
            ("http://broker", "not one of mqtt, mqtts"),
            ("mqtt://", "no host"),
            ("coap://:5683", "coap://HOST:PORT"),
            ("mqtt://b:0", "1 to 65535"),
            ("mqtt://b:99999", "1 to 65535"),
            ("mqtt://::1", "needs brackets"),
            ("mqtt://[::1", "not closed"),
            ("mqtt://[::1]x", "follows"),
            ("mqtt://a%4@b", "two hex digits"),
            ("mqtt://a%+1@b", "two hex digits"),
            ("mqtt://%ff@b", "not UTF-8"),
            ("ws://b/a b", "space"),
            ("mqtt://a b", "contains ' '"),
            ("a\tb", "contains '\\t'"),
            ("coap://a?b", "contains '?'"),
            ("coap://b/a?b", "query"),
            ("amqp://b/a/b", "%2f"),
            ("unix://b", "absolute path"),
        ] {
            let error = text.parse::<BrokerUrl>().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let url = parse("wss://alice:secret@[::1]:443/x");
        assert_eq!(url.to_string(), "wss://[::1]:443");
        assert_eq!(format!("{url:?}"), "BrokerUrl(\"wss://[::1]:443\")");
        assert_eq!(url.host_header(), "[::1]");
    }
}
