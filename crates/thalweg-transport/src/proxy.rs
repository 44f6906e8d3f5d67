//! The PROXY protocol, versions 1 and 2: what a load balancer says about the real peer before the first protocol byte.
//! A pure parser over a growing buffer.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// PROXY headers that a listener accepts, and from which addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyRule {
    /// The versions it takes.
    pub versions: ProxyVersions,
    /// Addresses that may send a header: a peer that may send one can claim any address.
    pub trusted: Vec<IpAddr>,
    /// Whether the name of the client certificate in a header is the user.
    pub takes_identity: bool,
}

/// Versions of the header, distinguished by their first bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyVersions {
    #[default]
    Any,
    V1,
    V2,
}

impl ProxyRule {
    /// True if `peer` may send a header. A unix socket has no address: there the file's mode decides.
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        // An IPv4 peer of a socket that listens on `[::]` has a mapped IPv6 address.
        let trusts = |peer: IpAddr| {
            self.trusted
                .iter()
                .any(|trusted| trusted.to_canonical() == peer.to_canonical())
        };
        peer.is_none_or(trusts)
    }

    /// Parses a header at the start of `received`, if it is of a version that this listener takes.
    pub fn parse(&self, received: &[u8]) -> Result<ProxyHeader, ProxyFault> {
        let unwanted = match self.versions {
            ProxyVersions::Any => return parse(received),
            ProxyVersions::V1 => V2_SIGNATURE,
            ProxyVersions::V2 => V1_PREFIX,
        };
        if !received.is_empty() && starts_alike(received, unwanted) {
            return Err(ProxyFault::OtherVersion);
        }
        parse(received)
    }
}

/// Contents of a buffer that starts with a PROXY header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// Not complete: read more, at most [`HEADER_BYTES_MAX`] in all.
    NeedMore,
    /// The header is complete; what follows is the peer's own.
    Done(Proxied),
}

/// Data from the load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxied {
    /// Length of the header in bytes.
    pub consumed: usize,
    /// The real peer; `None` for `UNKNOWN`, `LOCAL` (the balancer's own health check) and unix sockets.
    pub source: Option<SocketAddr>,
    /// The address that the peer connected to; `None` like `source`.
    pub destination: Option<SocketAddr>,
    /// Common name of the client certificate that the balancer verified (sub-TLV 0x22 of the SSL TLV).
    pub certificate_name: Option<String>,
    /// True if the balancer speaks for itself (`LOCAL`): a health check rather than a client.
    pub is_local: bool,
}

/// Why a header is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyFault {
    /// The first bytes are of neither version.
    NoHeader,
    /// The header is of the version that the listener does not take.
    OtherVersion,
    /// The peer is none of those that may send a header.
    Untrusted,
    /// Version 1: longer than 107 bytes, or words that do not fit.
    BadText,
    /// Version 2: a version, command or family that is not defined.
    BadBinary,
    /// Version 2: addresses or TLVs do not fit into the length that the header states.
    BadLength,
    /// Version 2: the stated length is beyond [`HEADER_BYTES_MAX`].
    TooLong,
}

/// Longest header that is read, in bytes: addresses and a few TLVs; a certificate's name among them.
pub const HEADER_BYTES_MAX: usize = 4 * 1024;

/// Parses a header at the start of `received`.
pub fn parse(received: &[u8]) -> Result<ProxyHeader, ProxyFault> {
    if starts_alike(received, V2_SIGNATURE) {
        parse_binary(received)
    } else if starts_alike(received, V1_PREFIX) {
        parse_text(received)
    } else {
        Err(ProxyFault::NoHeader)
    }
}

/// `PROXY TCP4 source destination port port CRLF` (specification §2.1).
fn parse_text(received: &[u8]) -> Result<ProxyHeader, ProxyFault> {
    let window = received.get(..V1_BYTES_MAX).unwrap_or(received);
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return if received.len() < V1_BYTES_MAX {
            Ok(ProxyHeader::NeedMore)
        } else {
            Err(ProxyFault::BadText)
        };
    };
    let line = window
        .get(..end)
        .and_then(|line| std::str::from_utf8(line).ok())
        .ok_or(ProxyFault::BadText)?;
    let mut proxied = Proxied {
        consumed: end + 2,
        ..Proxied::default()
    };
    let mut words = line.split(' ').skip(1);
    let family = words.next().ok_or(ProxyFault::BadText)?;
    if family == "UNKNOWN" {
        // The rest of the line is to be ignored.
        return Ok(ProxyHeader::Done(proxied));
    }
    let words: Vec<&str> = words.collect();
    let [source, destination, source_port, destination_port] = words.as_slice() else {
        return Err(ProxyFault::BadText);
    };
    let source = endpoint(family, source, source_port).ok_or(ProxyFault::BadText)?;
    let destination = endpoint(family, destination, destination_port).ok_or(ProxyFault::BadText)?;
    (proxied.source, proxied.destination) = (Some(source), Some(destination));
    Ok(ProxyHeader::Done(proxied))
}

fn endpoint(family: &str, address: &str, port: &str) -> Option<SocketAddr> {
    let address = match family {
        "TCP4" => IpAddr::V4(address.parse().ok()?),
        "TCP6" => IpAddr::V6(address.parse().ok()?),
        _ => return None,
    };
    // Rust's parser takes a leading `+`; the header's grammar has digits only.
    if !port.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(SocketAddr::new(address, port.parse().ok()?))
}

/// Signature, version and command, family and transport, length, addresses, TLVs (specification §2.2).
fn parse_binary(received: &[u8]) -> Result<ProxyHeader, ProxyFault> {
    let Some(&[version_and_command, family, high, low]) =
        received.get(12..16).and_then(|four| four.first_chunk())
    else {
        return Ok(ProxyHeader::NeedMore);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if 16 + length > HEADER_BYTES_MAX {
        return Err(ProxyFault::TooLong);
    }
    if version_and_command >> 4 != 2 {
        return Err(ProxyFault::BadBinary);
    }
    let Some(body) = received.get(16..16 + length) else {
        return Ok(ProxyHeader::NeedMore);
    };
    let mut proxied = Proxied {
        consumed: 16 + length,
        ..Proxied::default()
    };
    match version_and_command & 0x0F {
        // LOCAL: addresses are to be discarded, the connection's own count.
        0x0 => {
            proxied.is_local = true;
            return Ok(ProxyHeader::Done(proxied));
        }
        0x1 => {}
        _ => return Err(ProxyFault::BadBinary),
    }
    let addresses = match family {
        0x11 | 0x12 => {
            let (source, destination) = endpoints_v4(body).ok_or(ProxyFault::BadLength)?;
            (proxied.source, proxied.destination) = (Some(source), Some(destination));
            12
        }
        0x21 | 0x22 => {
            let (source, destination) = endpoints_v6(body).ok_or(ProxyFault::BadLength)?;
            (proxied.source, proxied.destination) = (Some(source), Some(destination));
            36
        }
        // Unix sockets: two paths of 108 bytes.
        0x31 | 0x32 => 216,
        // UNSPEC: the receiver ignores addresses and may ignore TLVs; their place is not defined.
        0x00 => return Ok(ProxyHeader::Done(proxied)),
        _ => return Err(ProxyFault::BadBinary),
    };
    let tlvs = body.get(addresses..).ok_or(ProxyFault::BadLength)?;
    each_tlv(tlvs, |kind, value| {
        if kind == PP2_TYPE_SSL {
            proxied.certificate_name = certificate_name(value)?;
        }
        Ok(())
    })?;
    Ok(ProxyHeader::Done(proxied))
}

fn endpoints_v4(body: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let source: &[u8; 4] = body.first_chunk()?;
    let destination: &[u8; 4] = body.get(4..)?.first_chunk()?;
    let &[a, b, c, d] = body.get(8..)?.first_chunk()?;
    let (source_port, destination_port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    Some((
        (*source, source_port).into(),
        (*destination, destination_port).into(),
    ))
}

fn endpoints_v6(body: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let source: &[u8; 16] = body.first_chunk()?;
    let destination: &[u8; 16] = body.get(16..)?.first_chunk()?;
    let &[a, b, c, d] = body.get(32..)?.first_chunk()?;
    let (source_port, destination_port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    Some((
        (*source, source_port).into(),
        (*destination, destination_port).into(),
    ))
}

/// One byte of flags, four of the verification's result, then sub-TLVs (specification §2.2.6). The name counts only if
/// the peer showed a certificate in this session's connection and the balancer verified it (result 0).
fn certificate_name(ssl: &[u8]) -> Result<Option<String>, ProxyFault> {
    let Some((&[flags, verified @ ..], sub_tlvs)) = ssl.split_first_chunk::<5>() else {
        return Err(ProxyFault::BadLength);
    };
    let mut name = None;
    each_tlv(sub_tlvs, |kind, value| {
        if kind == PP2_SUBTYPE_SSL_CN {
            name = String::from_utf8(value.to_vec())
                .ok()
                .filter(|name| !name.is_empty());
        }
        Ok(())
    })?;
    let shown = flags & (PP2_CLIENT_CERT_CONN | PP2_CLIENT_CERT_SESS) != 0;
    Ok(name.filter(|_| shown && verified == [0; 4]))
}

fn each_tlv<'a>(
    mut rest: &'a [u8],
    mut visit: impl FnMut(u8, &'a [u8]) -> Result<(), ProxyFault>,
) -> Result<(), ProxyFault> {
    while !rest.is_empty() {
        let (&[kind, high, low], after) =
            rest.split_first_chunk::<3>().ok_or(ProxyFault::BadLength)?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (value, next) = after
            .split_at_checked(length)
            .ok_or(ProxyFault::BadLength)?;
        visit(kind, value)?;
        rest = next;
    }
    Ok(())
}

/// True if one is the beginning of the other.
fn starts_alike(received: &[u8], signature: &[u8]) -> bool {
    let shared = received.len().min(signature.len());
    received.get(..shared) == signature.get(..shared)
}

impl fmt::Display for ProxyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProxyFault::NoHeader => {
                "no header: this listener has `proxy` on, so only a load balancer that sends one may connect"
            }
            ProxyFault::OtherVersion => "the header is of the version that this listener does not take",
            ProxyFault::Untrusted => "the peer is none of those that may send a header (`proxy_trusted`)",
            ProxyFault::BadText => "malformed version 1 line",
            ProxyFault::BadBinary => "unknown version, command or address family in a version 2 header",
            ProxyFault::BadLength => "the length of a version 2 header does not fit what is in it",
            ProxyFault::TooLong => "the header is longer than 4096 bytes",
        })
    }
}

impl std::error::Error for ProxyFault {}

const V1_PREFIX: &[u8] = b"PROXY ";
/// The longest line with its CRLF (specification §2.1).
const V1_BYTES_MAX: usize = 107;
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const PP2_TYPE_SSL: u8 = 0x20;
const PP2_SUBTYPE_SSL_CN: u8 = 0x22;
const PP2_CLIENT_CERT_CONN: u8 = 0x02;
const PP2_CLIENT_CERT_SESS: u8 = 0x04;

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the header one byte at a time: every proper prefix needs more, the whole is done, bytes behind it stay.
    fn check(header: &[u8]) -> Proxied {
        for end in 0..header.len() {
            assert_eq!(
                parse(&header[..end]),
                Ok(ProxyHeader::NeedMore),
                "after {end} of {} bytes",
                header.len()
            );
        }
        let followed = [header, b"\x10\x0c\0\x04MQTT"].concat();
        match parse(&followed) {
            Ok(ProxyHeader::Done(proxied)) => {
                assert_eq!(proxied.consumed, header.len());
                proxied
            }
            other => panic!("{other:?}"),
        }
    }

    fn v2(version_and_command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut header = V2_SIGNATURE.to_vec();
        header.extend([version_and_command, family]);
        header.extend((body.len() as u16).to_be_bytes());
        header.extend(body);
        header
    }

    fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
        let mut tlv = vec![kind];
        tlv.extend((value.len() as u16).to_be_bytes());
        tlv.extend(value);
        tlv
    }

    const V4: &[u8] = &[192, 0, 2, 7, 198, 51, 100, 9, 0xAB, 0xCD, 0x07, 0x5B];

    #[test]
    fn version_1_lines_give_both_addresses() {
        let table = [
            (
                "PROXY TCP4 192.0.2.7 198.51.100.9 43981 1883\r\n",
                "192.0.2.7:43981",
                "198.51.100.9:1883",
            ),
            (
                "PROXY TCP6 2001:db8::7 ::1 1 65535\r\n",
                "[2001:db8::7]:1",
                "[::1]:65535",
            ),
        ];
        for (line, source, destination) in table {
            let proxied = check(line.as_bytes());
            assert_eq!(proxied.source, Some(source.parse().unwrap()));
            assert_eq!(proxied.destination, Some(destination.parse().unwrap()));
        }
    }

    #[test]
    fn version_1_unknown_names_nobody_whatever_follows() {
        for line in [
            "PROXY UNKNOWN\r\n",
            "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n",
        ] {
            assert_eq!(check(line.as_bytes()).source, None);
        }
    }

    #[test]
    fn malformed_version_1_lines_are_faults() {
        let long = format!("PROXY UNKNOWN {}", "x".repeat(107));
        let table = [
            "PROXY TCP4 192.0.2.7 198.51.100.9 43981\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.9 43981 1883 1\r\n",
            "PROXY TCP4 192.0.2.7  198.51.100.9 43981 1883\r\n",
            "PROXY TCP4 2001:db8::7 ::1 1 2\r\n",
            "PROXY TCP6 192.0.2.7 198.51.100.9 1 2\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.9 65536 1883\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.9 +1 1883\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.9 -1 1883\r\n",
            "PROXY UDP4 192.0.2.7 198.51.100.9 1 2\r\n",
            "PROXY \r\n",
            &long,
        ];
        for line in table {
            assert_eq!(parse(line.as_bytes()), Err(ProxyFault::BadText), "{line}");
        }
        assert_eq!(parse(b"PROXY TCP4 \xff\r\n"), Err(ProxyFault::BadText));
    }

    #[test]
    fn version_2_headers_give_both_addresses() {
        let proxied = check(&v2(0x21, 0x11, V4));
        assert_eq!(proxied.source, Some("192.0.2.7:43981".parse().unwrap()));
        assert_eq!(
            proxied.destination,
            Some("198.51.100.9:1883".parse().unwrap())
        );
        let mut v6 = [0; 36];
        (v6[15], v6[31], v6[33], v6[35]) = (1, 2, 3, 4);
        let proxied = check(&v2(0x21, 0x21, &v6));
        assert_eq!(proxied.source, Some("[::1]:3".parse().unwrap()));
        assert_eq!(proxied.destination, Some("[::2]:4".parse().unwrap()));
    }

    #[test]
    fn version_2_local_unspecified_and_unix_name_nobody() {
        assert!(check(&v2(0x20, 0x11, V4)).is_local);
        for header in [
            v2(0x20, 0x11, V4),
            v2(0x20, 0, b""),
            v2(0x21, 0, b"whatever"),
            v2(0x21, 0x31, &[0; 216]),
        ] {
            assert_eq!(check(&header).source, None);
        }
    }

    #[test]
    fn the_name_in_a_verified_client_certificate_is_found_among_other_tlvs() {
        let ssl = |flags: u8, verified: u8, name: &[u8]| {
            let mut value = vec![flags, 0, 0, 0, verified];
            value.extend(tlv(0x21, b"TLSv1.3"));
            value.extend(tlv(0x22, name));
            [
                V4,
                &tlv(0x01, b"h2"),
                &tlv(0x20, &value),
                &tlv(0x04, &[0; 9]),
            ]
            .concat()
        };
        let name = |body: &[u8]| check(&v2(0x21, 0x11, body)).certificate_name;
        assert_eq!(name(&ssl(0x03, 0, b"pump-7")).as_deref(), Some("pump-7"));
        assert_eq!(name(&ssl(0x05, 0, b"pump-7")).as_deref(), Some("pump-7"));
        assert_eq!(
            name(&ssl(0x01, 0, b"pump-7")),
            None,
            "no certificate was shown"
        );
        assert_eq!(name(&ssl(0x03, 1, b"pump-7")), None, "it was not verified");
        assert_eq!(name(&ssl(0x03, 0, b"")), None);
        assert_eq!(name(&ssl(0x03, 0, b"\xff")), None);
    }

    #[test]
    fn malformed_version_2_headers_are_faults() {
        let table: [(Vec<u8>, ProxyFault); 10] = [
            (v2(0x11, 0x11, V4), ProxyFault::BadBinary),
            (v2(0x22, 0x11, V4), ProxyFault::BadBinary),
            (v2(0x21, 0x41, V4), ProxyFault::BadBinary),
            (v2(0x21, 0x13, V4), ProxyFault::BadBinary),
            (v2(0x21, 0x11, &V4[..11]), ProxyFault::BadLength),
            (v2(0x21, 0x21, V4), ProxyFault::BadLength),
            (v2(0x21, 0x31, &[0; 215]), ProxyFault::BadLength),
            (
                v2(0x21, 0x11, &[V4, &[0x20, 0]].concat()),
                ProxyFault::BadLength,
            ),
            (
                v2(0x21, 0x11, &[V4, &[0x20, 0, 9, 1]].concat()),
                ProxyFault::BadLength,
            ),
            (v2(0x21, 0x11, &[0; HEADER_BYTES_MAX]), ProxyFault::TooLong),
        ];
        for (header, fault) in table {
            assert_eq!(parse(&header), Err(fault), "{header:?}");
        }
        let short_ssl = [V4, &tlv(0x20, &[3, 0])].concat();
        assert_eq!(
            parse(&v2(0x21, 0x11, &short_ssl)),
            Err(ProxyFault::BadLength)
        );
    }

    #[test]
    fn a_rule_takes_its_version_only_and_trusts_whom_it_names() {
        let text = b"PROXY UNKNOWN\r\n".to_vec();
        let binary = v2(0x20, 0, b"");
        let trusted = vec!["192.0.2.1".parse().unwrap()];
        let rule = |versions| ProxyRule {
            versions,
            trusted: trusted.clone(),
            takes_identity: false,
        };
        for (versions, taken, other) in [
            (ProxyVersions::V1, &text, &binary),
            (ProxyVersions::V2, &binary, &text),
        ] {
            assert!(matches!(
                rule(versions).parse(taken),
                Ok(ProxyHeader::Done(_))
            ));
            assert_eq!(rule(versions).parse(other), Err(ProxyFault::OtherVersion));
            assert_eq!(rule(versions).parse(b""), Ok(ProxyHeader::NeedMore));
        }
        let rule = rule(ProxyVersions::Any);
        assert!(rule.trusts(Some("192.0.2.1".parse().unwrap())) && rule.trusts(None));
        assert!(!rule.trusts(Some("192.0.2.2".parse().unwrap())));
        assert!(rule.trusts(Some("::ffff:192.0.2.1".parse().unwrap())));
        assert!(
            !ProxyRule::default().trusts(Some("192.0.2.2".parse().unwrap())),
            "nobody is listed"
        );
    }

    #[test]
    fn what_is_no_header_is_known_at_the_first_byte_that_differs() {
        for bytes in [
            &b"\x10"[..],
            b"GET / HTTP/1.1\r\n",
            b"PROXX",
            b"\r\n\r\n\x01",
            b"PROXYTCP4",
        ] {
            assert_eq!(parse(bytes), Err(ProxyFault::NoHeader), "{bytes:?}");
        }
        assert_eq!(parse(b""), Ok(ProxyHeader::NeedMore));
    }
}
