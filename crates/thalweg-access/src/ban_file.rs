//! The ban file: clients, users and networks that may not connect, for good or until a moment.
//!
//! ```text
//!  # kind [until=TIME] name
//!  client car-7
//!  user until=2026-12-01T00:00:00Z mallory
//!  address 10.1.2.0/24
//! ```

use super::AccessError;
use super::password_file::{read_text, replace_file};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::str::FromStr;
use thalweg_model::calendar;

/// What a ban names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BanKind {
    /// A client id, as it was chosen.
    Client,
    /// A user who has proven the name.
    User,
    /// An address or a network such as `10.1.2.0/24`, after the PROXY protocol.
    Address,
}

/// A ban file as it was read.
#[derive(Debug, Default)]
pub struct BanFile {
    /// By name; each until a moment, in seconds since 1970.
    clients: HashMap<Box<str>, u64>,
    users: HashMap<Box<str>, u64>,
    /// Networks with the bits that count, of IPv6 or IPv4 mapped into it.
    networks: Vec<(u128, u32, u64)>,
}

/// A line of the file.
struct BanLine<'a> {
    kind: BanKind,
    /// Seconds since 1970; `u64::MAX` is for good.
    until: u64,
    name: &'a str,
}

impl BanKind {
    const ALL: [BanKind; 3] = [BanKind::Client, BanKind::User, BanKind::Address];

    /// As the file has it.
    pub fn name(self) -> &'static str {
        match self {
            BanKind::Client => "client",
            BanKind::User => "user",
            BanKind::Address => "address",
        }
    }
}

impl FromStr for BanKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = BanKind::ALL.into_iter().find(|kind| kind.name() == text);
        kind.ok_or_else(|| format!("{text:?} is not client, user or address"))
    }
}

impl fmt::Display for BanKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl BanFile {
    /// Reads a file; all faults at once.
    pub fn read(path: &Path) -> Result<Self, Vec<AccessError>> {
        let text = read_text(path).map_err(|error| vec![error])?;
        let (mut file, mut errors) = (BanFile::default(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            match BanLine::parse(line).and_then(|line| line.map_or(Ok(()), |line| file.take(&line)))
            {
                Ok(()) => {}
                Err(problem) => errors.push(AccessError::line(path, index + 1, problem, MEND)),
            }
        }
        match errors.is_empty() {
            true => Ok(file),
            false => Err(errors),
        }
    }

    fn take(&mut self, line: &BanLine<'_>) -> Result<(), String> {
        match line.kind {
            BanKind::Client => drop(self.clients.insert(line.name.into(), line.until)),
            BanKind::User => drop(self.users.insert(line.name.into(), line.until)),
            BanKind::Address => {
                let (network, bits) = network(line.name)?;
                self.networks.push((network, bits, line.until));
            }
        }
        Ok(())
    }

    /// What a peer is banned by at a moment, in seconds since 1970.
    pub fn ban_of(
        &self,
        client: &str,
        user: Option<&str>,
        address: Option<IpAddr>,
        unix_seconds: u64,
    ) -> Option<BanKind> {
        let holds = |until: &u64| *until > unix_seconds;
        if self.clients.get(client).is_some_and(holds) {
            Some(BanKind::Client)
        } else if user
            .and_then(|user| self.users.get(user))
            .is_some_and(holds)
        {
            Some(BanKind::User)
        } else {
            address
                .is_some_and(|address| self.bans_address(address, unix_seconds))
                .then_some(BanKind::Address)
        }
    }

    /// Whether a network is banned in which an address is.
    pub fn bans_address(&self, address: IpAddr, unix_seconds: u64) -> bool {
        let bits = mapped(address);
        let mut networks = self.networks.iter();
        networks
            .any(|(network, kept, until)| *until > unix_seconds && bits & mask(*kept) == *network)
    }

    /// Whether any network is named, so that addresses have to be looked up.
    pub fn names_addresses(&self) -> bool {
        !self.networks.is_empty()
    }
}

impl<'a> BanLine<'a> {
    /// None for empty lines and comments.
    fn parse(line: &'a str) -> Result<Option<BanLine<'a>>, String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let kind: BanKind = word.parse()?;
        let (until, name) = match rest.trim().strip_prefix("until=") {
            None => (u64::MAX, rest.trim()),
            Some(rest) => {
                let (time, name) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let until = unix_seconds(time).ok_or_else(|| {
                    format!("{time:?} is not a time such as 2026-12-01T00:00:00Z")
                })?;
                (until, name.trim())
            }
        };
        match name.is_empty() {
            true => Err(format!("{kind} is without a name")),
            false => Ok(Some(BanLine { kind, until, name })),
        }
    }
}

/// Adds a ban to the file, in place of one of the same name; `until` is written as it stands, none is for good. Returns
/// whether there was one.
pub fn add_ban(
    path: &Path,
    kind: BanKind,
    name: &str,
    until: Option<&str>,
) -> Result<bool, AccessError> {
    let until = until.map_or_else(String::new, |until| format!("until={until} "));
    let line = format!("{kind} {until}{name}");
    let problem = match (kind, BanLine::parse(&line)) {
        _ if name.trim() != name || name.contains(char::is_control) => {
            Some("the name has spaces around it or control characters".to_owned())
        }
        (_, Err(problem)) => Some(problem),
        (BanKind::Address, _) => network(name).err(),
        _ => None,
    };
    if let Some(problem) = problem {
        return Err(AccessError::file(path, problem, MEND));
    }
    let (mut text, was_there) = without(path, kind, name)?;
    text += &line;
    text.push('\n');
    replace_file(path, &text)?;
    Ok(was_there)
}

/// Removes a ban. False: there was none.
pub fn remove_ban(path: &Path, kind: BanKind, name: &str) -> Result<bool, AccessError> {
    let (text, was_there) = without(path, kind, name)?;
    if was_there {
        replace_file(path, &text)?;
    }
    Ok(was_there)
}

/// The file without a ban, and whether it was there.
fn without(path: &Path, kind: BanKind, name: &str) -> Result<(String, bool), AccessError> {
    let text = match path.exists() {
        true => read_text(path)?,
        false => String::new(),
    };
    let (mut kept, mut was_there) = (String::new(), false);
    for line in text.lines() {
        let is_it =
            matches!(BanLine::parse(line), Ok(Some(it)) if it.kind == kind && it.name == name);
        was_there |= is_it;
        if !is_it {
            kept += line;
            kept.push('\n');
        }
    }
    Ok((kept, was_there))
}

/// A network and how many of its 128 bits count.
fn network(text: &str) -> Result<(u128, u32), String> {
    let wrong = || format!("{text:?} is not an address or a network such as 10.1.2.0/24");
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| wrong())?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    if bits > most {
        return Err(wrong());
    }
    let kept = 128 - most + bits;
    Ok((mapped(address) & mask(kept), kept))
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => Ipv4Addr::to_ipv6_mapped(&address).to_bits(),
        IpAddr::V6(address) => Ipv6Addr::to_bits(address),
    }
}

fn mask(bits: u32) -> u128 {
    u128::MAX.checked_shl(128 - bits).unwrap_or(0)
}

/// Reads a time of RFC 3339 in UTC and whole seconds.
fn unix_seconds(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, between: char| -> Option<[u64; 3]> {
        let mut parts = text.split(between).map(|part| part.parse().ok());
        let found = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(found)
    };
    calendar::unix_secs(numbers(date, '-')?, numbers(time, ':')?)
}

const MEND: &str = "write a line such as `client car-7`, `user mallory` or `address 10.1.2.0/24`, with \
                    `until=2026-12-01T00:00:00Z` before the name for a time";

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> std::path::PathBuf {
        let name = format!("thalweg-bans-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("the folder is writable");
        path
    }

    #[test]
    fn clients_users_and_networks_are_banned_for_their_time() {
        let path = file(
            "read",
            "# who\nclient car 7\nuser until=2026-12-01T00:00:00Z mallory\naddress 10.1.2.0/24\naddress 2001:db8::/32\n",
        );
        let bans = BanFile::read(&path).expect("legal");
        let end = unix_seconds("2026-12-01T00:00:00Z").expect("a time");
        let of =
            |client, user, address: &str, now| bans.ban_of(client, user, address.parse().ok(), now);
        assert_eq!(of("car 7", None, "", 0), Some(BanKind::Client));
        assert_eq!(of("car", Some("mallory"), "", end - 1), Some(BanKind::User));
        assert_eq!(of("car", Some("mallory"), "", end), None);
        assert_eq!(of("a", None, "10.1.2.255", 0), Some(BanKind::Address));
        assert_eq!(of("a", None, "::ffff:10.1.2.9", 0), Some(BanKind::Address));
        assert_eq!(of("a", None, "2001:db8:1::1", 0), Some(BanKind::Address));
        assert_eq!(of("a", Some("b"), "10.1.3.0", 0), None);
        let _ = std::fs::remove_file(&path);
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:00:00Z", Some(951_825_600)),
            ("2026-11-26T16:50:00Z", Some(1_795_711_800)),
            ("2026-13-01T00:00:00Z", None),
            ("2026-12-01", None),
        ] {
            assert_eq!(unix_seconds(text), seconds, "{text}");
        }
    }

    #[test]
    fn lines_that_make_no_sense_are_named() {
        let path = file(
            "wrong",
            "clients a\nuser\naddress 10.0.0.0/33\nclient until=tomorrow x\n",
        );
        let errors = BanFile::read(&path).expect_err("four mistakes");
        assert_eq!(
            errors
                .iter()
                .filter_map(|error| error.line)
                .collect::<Vec<_>>(),
            [1, 2, 3, 4]
        );
        let _ = std::fs::remove_file(&path);
    }

    #[test]
    fn a_ban_is_added_replaced_and_removed() {
        let path = file("edit", "# mine\nclient a\n");
        let until = "2030-01-01T00:00:00Z";
        assert_eq!(add_ban(&path, BanKind::Client, "a", Some(until)), Ok(true));
        assert_eq!(add_ban(&path, BanKind::Address, "::1", None), Ok(false));
        let text = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(
            text,
            format!("# mine\nclient until={until} a\naddress ::1\n")
        );
        assert!(add_ban(&path, BanKind::Address, "here", None).is_err());
        assert_eq!(remove_ban(&path, BanKind::Client, "a"), Ok(true));
        assert_eq!(remove_ban(&path, BanKind::Client, "a"), Ok(false));
        let _ = std::fs::remove_file(&path);
    }
}
