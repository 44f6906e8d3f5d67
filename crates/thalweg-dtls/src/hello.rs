//! The first messages of a handshake: ClientHello is read, HelloVerifyRequest and ServerHello are written; and the
//! cookies that come before any memory is spent on a peer (RFC 6347 §4.2.1).

use core::net::{IpAddr, SocketAddr};

use ring::hmac;
use subtle::ConstantTimeEq;
use thalweg_wire::{Reader, Span, Time};

use super::message::{HEADER_BYTES, HELLO_VERIFY_REQUEST, write_header as write_message_header};
use super::record::{VERSION_1_0, content, write_header};

/// A ClientHello (RFC 5246 §7.4.1.2, RFC 6347 §4.2.1), as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub struct ClientHello<'m> {
    pub version: u16,
    pub random: &'m [u8; 32],
    pub cookie: &'m [u8],
    session: &'m [u8],
    suites: &'m [u8],
    compression: &'m [u8],
    /// RFC 7627: the master secret is bound to the whole handshake.
    pub extended_master_secret: bool,
    /// The client supports RFC 5746, by extension or by signalling suite.
    pub secure_renegotiation: bool,
    /// The client says which forms of points it understands.
    pub point_formats: bool,
    /// The only form in use is not among them.
    pub compressed_points_only: bool,
    groups: Option<&'m [u8]>,
    signatures: Option<&'m [u8]>,
}

mod extension {
    pub const SUPPORTED_GROUPS: u16 = 10;
    pub const EC_POINT_FORMATS: u16 = 11;
    pub const SIGNATURE_ALGORITHMS: u16 = 13;
    pub const EXTENDED_MASTER_SECRET: u16 = 23;
    pub const RENEGOTIATION_INFO: u16 = 0xff01;
}

/// A ClientHello is shorter than this. Those of OpenSSL and GnuTLS with all they know have 300 bytes; what is longer
/// would only make a stranger's question dear.
const HELLO_BYTES_MAX: usize = 4096;

/// The suite that means "I know RFC 5746".
const RENEGOTIATION_SIGNAL: u16 = 0x00ff;

impl<'m> ClientHello<'m> {
    /// Reads a message's body. The error is what is wrong with it.
    pub fn read(body: &'m [u8]) -> Result<ClientHello<'m>, &'static str> {
        if body.len() > HELLO_BYTES_MAX {
            return Err("too long");
        }
        let mut reader = Reader::new(body);
        let version = reader.u16().ok_or("no version")?;
        let random = reader
            .take(32)
            .and_then(|random| random.first_chunk::<32>())
            .ok_or("no random")?;
        let session = bytes8(&mut reader).ok_or("no session identifier")?;
        let cookie = bytes8(&mut reader).ok_or("no cookie")?;
        let suites = reader.bytes16().ok_or("no cipher suites")?;
        let compression = bytes8(&mut reader).ok_or("no compression methods")?;
        if session.len() > 32
            || suites.is_empty()
            || suites.len() % 2 != 0
            || !compression.contains(&0)
        {
            return Err("a ClientHello without a sense");
        }
        let mut hello = ClientHello {
            version,
            random,
            cookie,
            session,
            suites,
            compression,
            extended_master_secret: false,
            secure_renegotiation: numbers(suites).any(|id| id == RENEGOTIATION_SIGNAL),
            point_formats: false,
            compressed_points_only: false,
            groups: None,
            signatures: None,
        };
        let mut seen = Vec::new();
        if !reader.is_empty() {
            let mut extensions = Reader::new(reader.bytes16().ok_or("extensions are cut short")?);
            while !extensions.is_empty() {
                let kind = extensions.u16().ok_or("an extension is cut short")?;
                let data = extensions.bytes16().ok_or("an extension is cut short")?;
                // RFC 5246 §7.4.1.4. Of those that mean nothing here, twice nothing is nothing.
                if hello.take_extension(kind, data)? {
                    if seen.contains(&kind) {
                        return Err("an extension comes twice");
                    }
                    seen.push(kind);
                }
            }
        }
        if reader.is_empty() {
            Ok(hello)
        } else {
            Err("bytes behind the extensions")
        }
    }

    /// False: it means nothing here.
    fn take_extension(&mut self, kind: u16, data: &'m [u8]) -> Result<bool, &'static str> {
        match kind {
            extension::SUPPORTED_GROUPS => {
                self.groups = Some(list16(data).ok_or("supported_groups is malformed")?)
            }
            extension::SIGNATURE_ALGORITHMS => {
                self.signatures = Some(list16(data).ok_or("signature_algorithms is malformed")?);
            }
            extension::EC_POINT_FORMATS => {
                let mut reader = Reader::new(data);
                let list = bytes8(&mut reader)
                    .filter(|_| reader.is_empty())
                    .ok_or("ec_point_formats is malformed")?;
                (self.point_formats, self.compressed_points_only) = (true, !list.contains(&0));
            }
            extension::EXTENDED_MASTER_SECRET if data.is_empty() => {
                self.extended_master_secret = true
            }
            extension::EXTENDED_MASTER_SECRET => return Err("extended_master_secret is malformed"),
            extension::RENEGOTIATION_INFO => {
                // Not empty would mean that an association is being renegotiated (RFC 5746 §3.6).
                if data != [0] {
                    return Err("renegotiation_info is not empty in a first handshake");
                }
                self.secure_renegotiation = true;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The suites, the client's favourite first.
    pub fn suites(&self) -> impl Iterator<Item = u16> + use<'m> {
        numbers(self.suites)
    }

    /// The groups, the client's favourite first. A client without the extension gets the one that RFC 7252 §9.1.3.2
    /// makes mandatory.
    pub fn groups(&self) -> impl Iterator<Item = u16> + use<'m> {
        numbers(self.groups.unwrap_or(&[0, 23]))
    }

    /// The signatures that the client understands. RFC 5246 §7.4.1.4.1 would have one that says nothing understand
    /// SHA-1; here it gets SHA-256.
    pub fn signatures(&self) -> impl Iterator<Item = u16> + use<'m> {
        numbers(self.signatures.unwrap_or(&[4, 3, 4, 1]))
    }
}

/// A vector with a length of one byte.
pub fn bytes8<'m>(reader: &mut Reader<'m>) -> Option<&'m [u8]> {
    let length = reader.u8()?;
    reader.take(usize::from(length))
}

/// A vector of 16-bit numbers that fills its extension.
fn list16(data: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(data);
    let list = reader.bytes16()?;
    (reader.is_empty() && list.len() % 2 == 0 && !list.is_empty()).then_some(list)
}

pub fn numbers(list: &[u8]) -> impl Iterator<Item = u16> + use<'_> {
    list.as_chunks::<2>()
        .0
        .iter()
        .map(|pair| u16::from_be_bytes(*pair))
}

/// Appends a ServerHello's body: DTLS 1.2, no session to resume, no compression.
pub fn write_server_hello(
    out: &mut Vec<u8>,
    random: &[u8; 32],
    suite: u16,
    elliptic: bool,
    to: &ClientHello,
) {
    out.extend_from_slice(&super::record::VERSION_1_2.to_be_bytes());
    out.extend_from_slice(random);
    out.push(0);
    out.extend_from_slice(&suite.to_be_bytes());
    out.push(0);
    let start = out.len();
    out.extend_from_slice(&[0, 0]);
    let mut extension = |kind: u16, data: &[u8]| {
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        out.extend_from_slice(data);
    };
    if to.secure_renegotiation {
        extension(extension::RENEGOTIATION_INFO, &[0]);
    }
    if to.extended_master_secret {
        extension(extension::EXTENDED_MASTER_SECRET, &[]);
    }
    if elliptic && to.point_formats {
        // Uncompressed points only (RFC 8422 §5.2).
        extension(extension::EC_POINT_FORMATS, &[1, 0]);
    }
    let length = out.len() - start - 2;
    if length == 0 {
        out.truncate(start);
    } else {
        out[start..start + 2].copy_from_slice(&(length as u16).to_be_bytes());
    }
}

/// Makes and checks cookies. A cookie is a MAC over the peer's address, the time and the fields that RFC 6347 §4.2.1
/// requires in both hellos of a client, so no state has to be kept, and a peer that cannot receive at its address gets
/// no further.
#[derive(Debug)]
pub struct Cookies {
    key: hmac::Key,
}

pub const COOKIE_BYTES: usize = 16;

/// A cookie is good in the period in which it was made and in the next one.
const PERIOD: Span = Span::from_secs(60);

impl Cookies {
    pub fn new(secret: &[u8; 32]) -> Cookies {
        Cookies {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
        }
    }

    pub fn is_good(&self, from: SocketAddr, hello: &ClientHello, now: Time) -> bool {
        let period = now.nanos() / PERIOD.nanos();
        let good = |period: u64| bool::from(hello.cookie.ct_eq(&self.make(from, hello, period)));
        good(period) || period.checked_sub(1).is_some_and(good)
    }

    /// Appends a datagram with a HelloVerifyRequest. It is shorter than any ClientHello. Both numbers are the
    /// ClientHello's: there is no memory to take others from (RFC 6347 §4.2.1).
    pub fn ask(
        &self,
        from: SocketAddr,
        hello: &ClientHello,
        record: u64,
        sequence: u16,
        now: Time,
        out: &mut Vec<u8>,
    ) {
        let cookie = self.make(from, hello, now.nanos() / PERIOD.nanos());
        let length = 2 + 1 + COOKIE_BYTES;
        write_header(
            out,
            content::HANDSHAKE,
            VERSION_1_0,
            0,
            record,
            HEADER_BYTES + length,
        );
        write_message_header(out, HELLO_VERIFY_REQUEST, length, sequence, 0, length);
        out.extend_from_slice(&VERSION_1_0.to_be_bytes());
        out.push(COOKIE_BYTES as u8);
        out.extend_from_slice(&cookie);
    }

    fn make(&self, from: SocketAddr, hello: &ClientHello, period: u64) -> [u8; COOKIE_BYTES] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&period.to_be_bytes());
        update_with_address(&mut context, &from);
        context.update(&hello.version.to_be_bytes());
        context.update(hello.random);
        for part in [hello.session, hello.suites, hello.compression] {
            context.update(&(part.len() as u16).to_be_bytes());
            context.update(part);
        }
        let mut cookie = [0; COOKIE_BYTES];
        cookie.copy_from_slice(&context.sign().as_ref()[..COOKIE_BYTES]);
        cookie
    }
}

/// A code over an address.
pub fn update_with_address(context: &mut hmac::Context, address: &SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => context.update(&ip.to_ipv6_mapped().octets()),
        IpAddr::V6(ip) => context.update(&ip.octets()),
    }
    context.update(&address.port().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello<'m>(random: &'m [u8; 32], cookie: &'m [u8]) -> ClientHello<'m> {
        ClientHello {
            version: 0xfefd,
            random,
            cookie,
            session: &[],
            suites: &[0xc0, 0xa8],
            compression: &[0],
            extended_master_secret: true,
            secure_renegotiation: true,
            point_formats: false,
            compressed_points_only: false,
            groups: None,
            signatures: None,
        }
    }

    #[test]
    fn a_cookie_is_good_for_its_address_its_random_and_two_minutes_at_most() {
        let cookies = Cookies::new(&[1; 32]);
        let (here, there) = (
            "127.0.0.1:5000".parse().unwrap(),
            "127.0.0.1:5001".parse().unwrap(),
        );
        let (random, at) = ([3; 32], Time::from_secs(60 * 7 + 59));
        let mut datagram = Vec::new();
        cookies.ask(here, &hello(&random, b""), 5, 0, at, &mut datagram);
        assert_eq!(datagram.len(), 44);
        let cookie = datagram.split_off(44 - COOKIE_BYTES);
        let good = |from, random: &[u8; 32], cookie: &[u8], now| {
            cookies.is_good(from, &hello(random, cookie), now)
        };
        assert!(
            good(here, &random, &cookie, at)
                && good(here, &random, &cookie, at + Span::from_secs(60))
        );
        assert!(
            !good(here, &random, &cookie, at + Span::from_secs(61)),
            "too old"
        );
        assert!(!good(there, &random, &cookie, at), "another peer's");
        assert!(!good(here, &[4; 32], &cookie, at), "another hello's");
        for changed in [
            ClientHello {
                version: 0xfeff,
                ..hello(&random, &cookie)
            },
            ClientHello {
                session: &[1],
                ..hello(&random, &cookie)
            },
            ClientHello {
                suites: &[0xc0, 0xa4],
                ..hello(&random, &cookie)
            },
            ClientHello {
                compression: &[0, 1],
                ..hello(&random, &cookie)
            },
        ] {
            assert!(
                !cookies.is_good(here, &changed, at),
                "RFC 6347 §4.2.1: a hello that changed {changed:?}"
            );
        }
        assert!(!good(here, &random, &cookie[..15], at), "cut short");
        assert!(!good(here, &random, b"", at), "none");
        assert!(
            !Cookies::new(&[2; 32]).is_good(here, &hello(&random, &cookie), at),
            "another server's"
        );
    }

    #[test]
    fn a_hello_cut_short_anywhere_is_refused() {
        let mut body = vec![0xfe, 0xfd];
        body.extend_from_slice(&[9; 32]);
        body.extend_from_slice(&[0, 0, 0, 4, 0xc0, 0xa8, 0, 0xff, 1, 0]);
        let without_extensions = body.len();
        body.extend_from_slice(&[0, 12, 0, 10, 0, 4, 0, 2, 0, 29, 0, 23, 0, 0]);
        let read = ClientHello::read(&body).unwrap();
        assert!(read.extended_master_secret && read.secure_renegotiation && !read.point_formats);
        assert_eq!(
            (read.suites().collect(), read.groups().collect()),
            (vec![0xc0a8, 0xff], vec![29])
        );
        for len in 0..body.len() {
            assert_eq!(
                ClientHello::read(&body[..len]).is_ok(),
                len == without_extensions,
                "{len}"
            );
        }
    }

    #[test]
    fn extensions_that_come_twice_or_say_what_they_must_not_are_refused() {
        let mut start = vec![0xfe, 0xfd];
        start.extend_from_slice(&[9; 32]);
        start.extend_from_slice(&[0, 0, 0, 2, 0xc0, 0xa8, 1, 0]);
        let with = |extensions: &[u8]| {
            [
                &start[..],
                &(extensions.len() as u16).to_be_bytes(),
                extensions,
            ]
            .concat()
        };
        for (extensions, good) in [
            (&[0, 23, 0, 0][..], true),
            // RFC 5246 §7.4.1.4
            (&[0, 23, 0, 0, 0, 23, 0, 0], false),
            (&[0, 77, 0, 0, 0, 77, 0, 0], true),
            // RFC 7627 §5.1
            (&[0, 23, 0, 1, 0], false),
            // RFC 8422 §5.1.2
            (&[0, 11, 0, 2, 1, 0], true),
            (&[0, 11, 0, 2, 2, 0], false),
            (&[0, 11, 0, 0], false),
            // RFC 5746 §3.6
            (&[0xff, 1, 0, 1, 0], true),
            (&[0xff, 1, 0, 2, 1, 7], false),
        ] {
            assert_eq!(
                ClientHello::read(&with(extensions)).is_ok(),
                good,
                "{extensions:?}"
            );
        }
        let compressed = with(&[0, 11, 0, 2, 1, 1]);
        assert!(
            ClientHello::read(&compressed)
                .unwrap()
                .compressed_points_only
        );
        let long: Vec<u8> = [0, 77, 0x0f, 0].into_iter().chain([0; 0x0f00]).collect();
        assert!(ClientHello::read(&with(&long)).is_ok());
        assert!(ClientHello::read(&with(&[&long[..], &long].concat())).is_err());
    }
}
