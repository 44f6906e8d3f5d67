//! Where a broker is: `mqtt://user:password@host:port` and its encrypted and WebSocket kin.

use std::fmt;
use std::str::FromStr;

/// The address of a broker, with the credentials to use there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerUrl {
    /// What carries the bytes.
    pub scheme: Scheme,
    /// A name or an address; an IPv6 address stands here without its brackets.
    pub host: String,
    /// The port, the scheme's own if none was written.
    pub port: u16,
    /// The HTTP path of a WebSocket; `/mqtt` if none was written. Unused by the others.
    pub path: String,
    /// User name, percent-decoded.
    pub user: Option<String>,
    /// Password, percent-decoded; it may be any bytes.
    pub password: Option<Vec<u8>>,
}

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// TCP.
    Mqtt,
    /// TLS over TCP.
    Mqtts,
    /// WebSocket over TCP.
    Ws,
    /// WebSocket over TLS over TCP.
    Wss,
}

impl Scheme {
    const ALL: [(&'static str, Scheme); 6] = [
        ("mqtt", Scheme::Mqtt),
        ("tcp", Scheme::Mqtt),
        ("mqtts", Scheme::Mqtts),
        ("ssl", Scheme::Mqtts),
        ("ws", Scheme::Ws),
        ("wss", Scheme::Wss),
    ];

    /// The port used when none is written: IANA's for MQTT, and those our WebSocket listeners use by habit.
    const fn port(self) -> u16 {
        match self {
            Scheme::Mqtt => 1883,
            Scheme::Mqtts => 8883,
            Scheme::Ws => 8083,
            Scheme::Wss => 8084,
        }
    }

    /// Whether TLS is spoken.
    pub const fn is_encrypted(self) -> bool {
        matches!(self, Scheme::Mqtts | Scheme::Wss)
    }

    /// Whether a WebSocket is spoken.
    pub const fn is_websocket(self) -> bool {
        matches!(self, Scheme::Ws | Scheme::Wss)
    }
}

impl Default for BrokerUrl {
    /// What `thalweg serve` listens on when nothing is configured.
    fn default() -> Self {
        BrokerUrl {
            scheme: Scheme::Mqtt,
            host: "127.0.0.1".into(),
            port: Scheme::Mqtt.port(),
            path: "/mqtt".into(),
            user: None,
            password: None,
        }
    }
}

impl FromStr for BrokerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("mqtt", text));
        let scheme = Scheme::ALL
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(scheme))
            .map(|(_, scheme)| *scheme)
            .ok_or_else(|| format!("`{scheme}` is not one of mqtt, mqtts, ws and wss"))?;
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        // A password may contain an unescaped `@`; a host cannot.
        let (credentials, host_port) = match authority.rsplit_once('@') {
            Some((credentials, host_port)) => (Some(credentials), host_port),
            None => (None, authority),
        };
        let (user, password) = match credentials.map(|c| c.split_once(':').map_or((c, None), |(u, p)| (u, Some(p)))) {
            Some((user, password)) => {
                (Some(text_of(percent_decoded(user)?)?), password.map(percent_decoded).transpose()?)
            }
            None => (None, None),
        };
        let (host, port) = split_port(host_port)?;
        if host.is_empty() {
            return Err("there is no host in it; write mqtt://HOST:PORT".into());
        }
        let path = match path {
            "" | "/" => "/mqtt",
            path if path.contains(|letter: char| letter.is_whitespace() || letter.is_control()) => {
                return Err("the path contains a space or a control character".into());
            }
            path => path,
        };
        Ok(BrokerUrl {
            scheme,
            host: host.to_owned(),
            port: port.unwrap_or(scheme.port()),
            path: path.to_owned(),
            user,
            password,
        })
    }
}

/// For messages to people: without the credentials.
impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl BrokerUrl {
    /// What a `Host` header says: the port is left out where the scheme of HTTP implies it (RFC 9110 §7.2).
    pub fn host_header(&self) -> String {
        match (self.scheme, self.port) {
            (Scheme::Ws, 80) | (Scheme::Wss, 443) if self.host.contains(':') => format!("[{}]", self.host),
            (Scheme::Ws, 80) | (Scheme::Wss, 443) => self.host.clone(),
            _ => self.to_string(),
        }
    }
}

fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => inner.split_once(']').ok_or("the bracket of the IPv6 address is not closed")?,
        None if text.matches(':').count() > 1 => {
            return Err(format!("an IPv6 address needs brackets, such as [{text}]:1883"));
        }
        None => text.find(':').map_or((text, ""), |at| text.split_at(at)),
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        None => return Err(format!("`{rest}` follows the address")),
        Some(port) => match port.parse::<u16>() {
            Ok(port) if port > 0 => Some(port),
            _ => return Err(format!("`{port}` is not a port; ports are 1 to 65535")),
        },
    };
    Ok((host, port))
}

fn percent_decoded(text: &str) -> Result<Vec<u8>, String> {
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
            None => return Err("a `%` in user or password is not followed by two hex digits; write %25 for `%`".into()),
        }
        rest = rest.get(2..).unwrap_or_default();
    }
    Ok(bytes)
}

fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| "the user name is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (Scheme, String, u16, String, Option<String>, Option<Vec<u8>>) {
        let url: BrokerUrl = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        (url.scheme, url.host, url.port, url.path, url.user, url.password)
    }

    #[test]
    fn urls_are_taken_apart() {
        let none = (None, None);
        let table = [
            ("mqtt://broker", Scheme::Mqtt, "broker", 1883, "/mqtt", none.clone()),
            ("broker:1234", Scheme::Mqtt, "broker", 1234, "/mqtt", none.clone()),
            ("MQTTS://broker", Scheme::Mqtts, "broker", 8883, "/mqtt", none.clone()),
            ("ws://broker/", Scheme::Ws, "broker", 8083, "/mqtt", none.clone()),
            ("wss://broker:443/a/b?c", Scheme::Wss, "broker", 443, "/a/b?c", none.clone()),
            ("mqtt://[::1]", Scheme::Mqtt, "::1", 1883, "/mqtt", none.clone()),
            ("mqtt://[fe80::1]:7", Scheme::Mqtt, "fe80::1", 7, "/mqtt", none.clone()),
            ("mqtt://alice@b", Scheme::Mqtt, "b", 1883, "/mqtt", (Some("alice".to_owned()), None)),
            (
                "mqtt://a%40b:p@:%2F@b",
                Scheme::Mqtt,
                "b",
                1883,
                "/mqtt",
                (Some("a@b".to_owned()), Some(b"p@:/".to_vec())),
            ),
            ("mqtt://:%ff@b", Scheme::Mqtt, "b", 1883, "/mqtt", (Some(String::new()), Some(vec![0xff]))),
        ];
        for (text, scheme, host, port, path, (user, password)) in table {
            assert_eq!(parts(text), (scheme, host.to_owned(), port, path.to_owned(), user, password), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_url_is_refused_in_words() {
        let table = [
            ("http://broker", "not one of mqtt"),
            ("mqtt://", "no host"),
            ("mqtt://:1883", "no host"),
            ("mqtt://b:0", "1 to 65535"),
            ("mqtt://b:99999", "1 to 65535"),
            ("mqtt://::1", "needs brackets"),
            ("mqtt://[::1", "not closed"),
            ("mqtt://[::1]x", "follows"),
            ("mqtt://a%4@b", "two hex digits"),
            ("mqtt://a%+1@b", "two hex digits"),
            ("mqtt://%ff@b", "not UTF-8"),
            ("ws://b/a b", "space"),
        ];
        for (text, words) in table {
            let error = text.parse::<BrokerUrl>().expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let url: BrokerUrl = "wss://alice:secret@[::1]:443/x".parse().expect("legal");
        assert_eq!(url.to_string(), "[::1]:443");
        assert_eq!(url.host_header(), "[::1]");
    }
}
