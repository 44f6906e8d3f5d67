//! Addresses of resources: `coap://host:port/level/level?argument&argument`. RFC 7252 §6, RFC 8323 §8

use std::fmt;

use crate::{Encoder, Options, option};

/// Scheme of a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `coap`: UDP.
    Coap,
    /// `coaps`: DTLS.
    Coaps,
    /// `coap+tcp`.
    CoapTcp,
    /// `coaps+tcp`: TLS.
    CoapsTcp,
    /// `coap+ws`: WebSocket.
    CoapWs,
    /// `coaps+ws`: WebSocket over TLS.
    CoapsWs,
}

impl Scheme {
    /// Every scheme of RFC 7252 and RFC 8323.
    pub const ALL: [Scheme; 6] = [
        Scheme::Coap,
        Scheme::Coaps,
        Scheme::CoapTcp,
        Scheme::CoapsTcp,
        Scheme::CoapWs,
        Scheme::CoapsWs,
    ];

    /// The scheme as a URI begins with it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Coap => "coap",
            Scheme::Coaps => "coaps",
            Scheme::CoapTcp => "coap+tcp",
            Scheme::CoapsTcp => "coaps+tcp",
            Scheme::CoapWs => "coap+ws",
            Scheme::CoapsWs => "coaps+ws",
        }
    }

    /// The port where none is written.
    pub const fn default_port(self) -> u16 {
        match self {
            Scheme::Coap | Scheme::CoapTcp => 5683,
            Scheme::Coaps | Scheme::CoapsTcp => 5684,
            Scheme::CoapWs => 80,
            Scheme::CoapsWs => 443,
        }
    }
}

/// Why a text is no address of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriError {
    /// It begins with none of the schemes and `://`.
    Scheme,
    /// There is no host, or one that can be none.
    Host,
    /// The port is no number of a port.
    Port,
    /// It has a fragment, `#`. RFC 7252 §6.4
    Fragment,
    /// A `%` without two hex digits, or what they spell is no UTF-8.
    PercentEncoding,
    /// A level of the path, or an argument, is longer than an option can be.
    TooLong,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UriError::Scheme => {
                "the address does not begin with coap://, coaps:// or one of their like"
            }
            UriError::Host => "the address has no host, or one that cannot be",
            UriError::Port => "the port is not a number from 1 to 65535",
            UriError::Fragment => "an address of a resource has no fragment",
            UriError::PercentEncoding => {
                "a percent sign is not followed by two hex digits that make sense"
            }
            UriError::TooLong => {
                "a level of the path, an argument or the host is longer than 255 bytes"
            }
        })
    }
}

impl std::error::Error for UriError {}

/// An address in its parts, with nothing escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// Scheme of the URI.
    pub scheme: Scheme,
    /// A name in lower case, or an IP address; one of version 6 without its brackets.
    pub host: String,
    /// The port, written or not.
    pub port: u16,
    /// The levels of the path.
    pub path: Vec<String>,
    /// The arguments of the query.
    pub query: Vec<String>,
}

/// The longest value of Uri-Host, Uri-Path and Uri-Query.
const OPTION_BYTES_MAX: usize = 255;

impl Uri {
    /// Takes a text apart. RFC 7252 §6.4
    pub fn parse(text: &str) -> Result<Uri, UriError> {
        let (scheme, rest) = text.split_once("://").ok_or(UriError::Scheme)?;
        let known = |known: &Scheme| known.as_str().eq_ignore_ascii_case(scheme);
        let scheme = Scheme::ALL
            .into_iter()
            .find(known)
            .ok_or(UriError::Scheme)?;
        if rest.contains('#') {
            return Err(UriError::Fragment);
        }
        let (rest, query) = rest
            .split_once('?')
            .map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (authority, path) = rest
            .split_once('/')
            .map_or((rest, ""), |(authority, path)| (authority, path));
        let (host, port) = authority_of(authority, scheme)?;
        let path = if path.is_empty() {
            Vec::new()
        } else {
            decoded(path.split('/'))?
        };
        let query = query.map_or(Ok(Vec::new()), |query| decoded(query.split('&')))?;
        Ok(Uri {
            scheme,
            host,
            port,
            path,
            query,
        })
    }

    /// The address that a request asks for, which came to `host` and `port` by `scheme`. RFC 7252 §6.5
    pub fn of_request(
        scheme: Scheme,
        host: &str,
        port: u16,
        options: &Options<'_>,
    ) -> Result<Uri, UriError> {
        let text =
            |value: &[u8]| String::from_utf8(value.to_vec()).map_err(|_| UriError::PercentEncoding);
        let host = options
            .get(option::URI_HOST)
            .map_or(Ok(host.to_owned()), text)?;
        if host.is_empty() {
            return Err(UriError::Host);
        }
        let port = options
            .uint(option::URI_PORT)
            .map_or(Ok(port), |port| port.try_into().map_err(|_| UriError::Port))?;
        let path = options
            .all(option::URI_PATH)
            .map(text)
            .collect::<Result<_, _>>()?;
        let query = options
            .all(option::URI_QUERY)
            .map(text)
            .collect::<Result<_, _>>()?;
        Ok(Uri {
            scheme,
            host: host.to_ascii_lowercase(),
            port,
            path,
            query,
        })
    }

    /// Whether the host is an IP address, which requests need not name.
    pub fn host_is_address(&self) -> bool {
        self.host.parse::<core::net::IpAddr>().is_ok()
    }

    /// Writes Uri-Host, unless the host is an IP address. Options of lower numbers must be written before. Uri-Port is
    /// not written: a request is sent to its own port.
    pub fn write_host(&self, encoder: &mut Encoder<'_>) {
        if !self.host_is_address() {
            encoder.option(option::URI_HOST, self.host.as_bytes());
        }
    }

    /// Writes Uri-Path, once for each level.
    pub fn write_path(&self, encoder: &mut Encoder<'_>) {
        for level in &self.path {
            encoder.option(option::URI_PATH, level.as_bytes());
        }
    }

    /// Writes Uri-Query, once for each argument. Content-Format and Max-Age come before it.
    pub fn write_query(&self, encoder: &mut Encoder<'_>) {
        for argument in &self.query {
            encoder.option(option::URI_QUERY, argument.as_bytes());
        }
    }
}

impl fmt::Display for Uri {
    /// The shortest text that [`Uri::parse`] takes apart to the same; a path of one empty level, which is no other
    /// resource than no path, apart. RFC 7252 §6.5
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme.as_str())?;
        match self.host.parse::<core::net::Ipv6Addr>() {
            Ok(_) => write!(f, "[{}]", self.host)?,
            Err(_) => encoded(&self.host, b"", f)?,
        }
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        if self.path.is_empty() {
            f.write_str("/")?;
        }
        for level in &self.path {
            f.write_str("/")?;
            encoded(level, b":@", f)?;
        }
        for (at, argument) in self.query.iter().enumerate() {
            f.write_str(if at == 0 { "?" } else { "&" })?;
            encoded(argument, b":@/?", f)?;
        }
        Ok(())
    }
}

/// Host and port. RFC 3986 §3.2, without user information
fn authority_of(authority: &str, scheme: Scheme) -> Result<(String, u16), UriError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(literal) => {
            let (address, port) = literal.split_once(']').ok_or(UriError::Host)?;
            address
                .parse::<core::net::Ipv6Addr>()
                .map_err(|_| UriError::Host)?;
            (address.to_ascii_lowercase(), port)
        }
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            let (name, port) = authority.split_at_checked(end).ok_or(UriError::Host)?;
            (percent_decoded(name)?.to_ascii_lowercase(), port)
        }
    };
    if host.is_empty() || authority.contains('@') {
        return Err(UriError::Host);
    }
    if host.len() > OPTION_BYTES_MAX {
        return Err(UriError::TooLong);
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => scheme.default_port(),
        None => return Err(UriError::Host),
        Some("") => scheme.default_port(),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or(UriError::Port)?,
        Some(_) => return Err(UriError::Port),
    };
    Ok((host, port))
}

fn decoded<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Vec<String>, UriError> {
    parts
        .map(|part| {
            let text = percent_decoded(part)?;
            if text.len() > OPTION_BYTES_MAX {
                Err(UriError::TooLong)
            } else {
                Ok(text)
            }
        })
        .collect()
}

fn percent_decoded(text: &str) -> Result<String, UriError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
            let (high, low) = digit().zip(digit()).ok_or(UriError::PercentEncoding)?;
            bytes.push((high << 4 | low) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| UriError::PercentEncoding)
}

/// Writes `text` percent-encoded, except for RFC 3986's allowed characters without `&`, and those in `free`.
fn encoded(text: &str, free: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for byte in text.bytes() {
        let is_sub_delimiter = b"!$'()*+,;=".contains(&byte);
        // In a path `&` stands for itself; escaped it means the same.
        if byte.is_ascii_alphanumeric()
            || b"-._~".contains(&byte)
            || is_sub_delimiter
            || free.contains(&byte)
        {
            write!(f, "{}", char::from(byte))?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, u16, Vec<String>, Vec<String>) {
        let uri = Uri::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        (uri.host, uri.port, uri.path, uri.query)
    }

    #[test]
    fn the_examples_of_the_specification_are_one_resource() {
        // RFC 7252 §6.3
        for text in [
            "coap://example.com:5683/~sensors/temp.xml",
            "coap://EXAMPLE.com/%7Esensors/temp.xml",
            "coap://EXAMPLE.com:/%7esensors/temp.xml",
        ] {
            let uri = Uri::parse(text).expect("an address");
            assert_eq!(uri.to_string(), "coap://example.com/~sensors/temp.xml");
        }
    }

    #[test]
    fn addresses_come_apart() {
        let strings = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| text.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            parts("coap://[2001:DB8::2:1]"),
            ("2001:db8::2:1".into(), 5683, vec![], vec![])
        );
        assert_eq!(parts("coaps://a/"), ("a".into(), 5684, vec![], vec![]));
        assert_eq!(
            parts("coap+ws://a?b"),
            ("a".into(), 80, vec![], strings(&["b"]))
        );
        assert_eq!(
            parts("coaps+tcp://a//?"),
            ("a".into(), 5684, strings(&["", ""]), strings(&[""]))
        );
        // RFC 7252 appendix B
        let (host, port, path, query) = parts("coap://198.51.100.1:61616//%2F//?%2F%2F&?%26");
        assert_eq!((host.as_str(), port), ("198.51.100.1", 61616));
        assert_eq!(
            (path, query),
            (strings(&["", "/", "", ""]), strings(&["//", "?&"]))
        );
        assert_eq!(parts("coap://%e3%83%86.example/").0, "テ.example");
    }

    #[test]
    fn what_is_no_address_says_why() {
        let long = format!("coap://a/{}", "x".repeat(256));
        for (text, error) in [
            ("http://a/", UriError::Scheme),
            ("/a", UriError::Scheme),
            ("coap:///a", UriError::Host),
            ("coap://[::1/a", UriError::Host),
            ("coap://[::g]/a", UriError::Host),
            ("coap://[::1]5/a", UriError::Host),
            ("coap://user@a/", UriError::Host),
            ("coap://a:0/", UriError::Port),
            ("coap://a:65536/", UriError::Port),
            ("coap://a:+1/", UriError::Port),
            ("coap://a/b#c", UriError::Fragment),
            ("coap://a/%4", UriError::PercentEncoding),
            ("coap://a/%ff", UriError::PercentEncoding),
            ("coap://a/%+1", UriError::PercentEncoding),
            (&long, UriError::TooLong),
        ] {
            assert_eq!(Uri::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn options_and_text_are_the_same_address() {
        let uri =
            Uri::parse("coap://example.net/%E2%98%83/a%26b;c/%2F?x=1&y=%26").expect("an address");
        let mut bytes = Vec::new();
        let mut encoder = Encoder::body(&mut bytes);
        uri.write_host(&mut encoder);
        uri.write_path(&mut encoder);
        uri.write_query(&mut encoder);
        let (options, _) = Options::decode(&bytes).expect("options");
        let again = Uri::of_request(Scheme::Coap, "192.0.2.1", 5683, &options);
        assert_eq!(again.as_ref(), Ok(&uri));
        assert_eq!(
            uri.to_string(),
            "coap://example.net/%E2%98%83/a%26b;c/%2F?x=1&y=%26"
        );
        let elsewhere =
            Uri::of_request(Scheme::CoapsTcp, "::1", 7, &Options::EMPTY).expect("an address");
        assert_eq!(elsewhere.to_string(), "coaps+tcp://[::1]:7/");
    }
}
