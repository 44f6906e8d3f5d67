//! Addresses of XMPP, RFC 7622: `local@domain/resource`.
//!
//! The PRECIS profiles of the RFC need tables of Unicode that this crate does not carry. It accepts a subset: letters
//! of any script in their composed forms (in lower case after `char::to_lowercase`), and printable ASCII without the
//! characters that the RFC excludes. The missing tables let through nothing that the RFC refuses, except a few
//! combinations of vowel signs of Indic scripts. In addition it refuses decomposed forms, full-width forms, and symbols
//! and digits beyond ASCII. Two addresses that are equal by the RFC are equal here.

/// An address in its canonical form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Jid {
    text: Box<str>,
    /// Octets of the local part, without `@`; 0 if there is none.
    local: u16,
    /// Octets before the `/` of the resource, or of all.
    bare: u16,
}

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JidProblem {
    /// A part is empty or longer than 1,023 octets.
    Length,
    /// The local part has a character that it must not have.
    Local,
    /// The domain is neither a host name nor an IP address.
    Domain,
    /// The resource has a control character.
    Resource,
}

impl std::fmt::Display for JidProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            JidProblem::Length => "a part of the address is empty or longer than 1,023 octets",
            JidProblem::Local => {
                "the local part of the address has a character that is not allowed there"
            }
            JidProblem::Domain => "the domain of the address is no host name",
            JidProblem::Resource => "the resource of the address has a control character",
        })
    }
}

impl std::error::Error for JidProblem {}

/// Octets of a part. [7622#3.1]
const PART_MAX: usize = 1023;

impl Jid {
    /// Reads an address in any of its forms.
    pub fn parse(text: &str) -> Result<Jid, JidProblem> {
        // The resource begins at the first slash, whatever it contains; the local part ends at the first @ before it.
        // [7622#3.2]
        // Shorter than what the search of the standard library is made for.
        let find = |sought, text: &str| text.bytes().position(|octet| octet == sought);
        let (bare, resource) = match find(b'/', text) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let (local, domain) = match find(b'@', bare) {
            Some(at) => (Some(&bare[..at]), &bare[at + 1..]),
            None => (None, bare),
        };
        Jid::new(local, domain, resource)
    }

    /// Puts an address together.
    pub fn new(
        local: Option<&str>,
        domain: &str,
        resource: Option<&str>,
    ) -> Result<Jid, JidProblem> {
        let len = |part: Option<&str>| part.map_or(0, |part| part.len() + 1);
        let mut text = String::with_capacity(len(local) + domain.len() + len(resource));
        let mut local_len = 0;
        if let Some(local) = local {
            put_local(local, &mut text)?;
            local_len = part(&text, 0)?;
            text.push('@');
        }
        let from = text.len();
        put_domain(domain, &mut text)?;
        part(&text, from)?;
        let bare = text.len() as u16;
        if let Some(resource) = resource {
            text.push('/');
            put_resource(resource, &mut text)?;
            part(&text, usize::from(bare) + 1)?;
        }
        Ok(Jid {
            text: text.into(),
            local: local_len,
            bare,
        })
    }

    /// The whole address in its canonical form.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The local part before the `@`, if any.
    pub fn local(&self) -> Option<&str> {
        (self.local > 0).then(|| &self.text[..usize::from(self.local)])
    }

    /// Host name or IP address.
    pub fn domain(&self) -> &str {
        let from = match self.local {
            0 => 0,
            local => usize::from(local) + 1,
        };
        &self.text[from..usize::from(self.bare)]
    }

    /// The resource after the `/`, if any.
    pub fn resource(&self) -> Option<&str> {
        self.text.get(usize::from(self.bare) + 1..)
    }

    /// The address without its resource.
    pub fn bare(&self) -> &str {
        &self.text[..usize::from(self.bare)]
    }

    /// Whether there is no resource.
    pub fn is_bare(&self) -> bool {
        self.bare() == self.as_str()
    }

    /// The address without its resource, as an address.
    pub fn to_bare(&self) -> Jid {
        Jid {
            text: self.bare().into(),
            ..*self
        }
    }
}

impl std::fmt::Display for Jid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::fmt::Debug for Jid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Jid({})", self.text)
    }
}

/// The length of the part that begins at `from` and ends `text`.
fn part(text: &str, from: usize) -> Result<u16, JidProblem> {
    match text.len() - from {
        len @ 1..=PART_MAX => Ok(len as u16),
        _ => Err(JidProblem::Length),
    }
}

/// Whether a character beyond ASCII is in the subset: a letter that is no compatibility form of another.
fn is_plain_letter(character: char) -> bool {
    let is_form = matches!(character,
        // Ordinals, jamos, letter-like symbols, numbers, letters in circles.
        '\u{AA}' | '\u{BA}' | '\u{1100}'..='\u{11FF}' | '\u{2100}'..='\u{218F}' | '\u{2460}'..='\u{24FF}'
        // Jamos and ideographs for compatibility, ligatures and presentation forms, half-width and full-width forms.
        | '\u{3131}'..='\u{318E}' | '\u{F900}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFF}' | '\u{FF00}'..='\u{FFEF}'
        // Mathematical letters, and more ideographs.
        | '\u{1D400}'..='\u{1D7FF}' | '\u{1F100}'..='\u{1F1FF}' | '\u{2F800}'..='\u{2FA1F}');
    character.is_alphabetic() && !is_form
}

/// Appends a letter in lower case; false if that is not in the subset.
fn put_letter(character: char, out: &mut String) -> bool {
    out.extend(character.to_lowercase());
    let mut lower = character.to_lowercase();
    is_plain_letter(character) && lower.all(|c| c.is_ascii_lowercase() || is_plain_letter(c))
}

/// Whether a part is its own canonical form at first sight, as most are.
fn is_canonical(part: &str) -> bool {
    let is_common = |octet| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    part.bytes().all(is_common)
}

fn put_local(local: &str, out: &mut String) -> Result<(), JidProblem> {
    if is_canonical(local) {
        out.push_str(local);
        return Ok(());
    }
    for character in local.chars() {
        match character {
            // [7622#3.3.1]
            '"' | '&' | '\'' | '/' | ':' | '<' | '>' | '@' => return Err(JidProblem::Local),
            '!'..='~' => out.push(character.to_ascii_lowercase()),
            _ if put_letter(character, out) => {}
            _ => return Err(JidProblem::Local),
        }
    }
    Ok(())
}

fn put_domain(domain: &str, out: &mut String) -> Result<(), JidProblem> {
    // "the trailing dot ... MUST be stripped" [7622#3.2]
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    if let Some(address) = domain
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        let address: core::net::Ipv6Addr = address.parse().map_err(|_| JidProblem::Domain)?;
        out.push_str(&format!("[{address}]"));
        return Ok(());
    }
    if domain
        .split('.')
        .any(|label| label.is_empty() || label.len() > 63 && label.is_ascii())
    {
        return Err(JidProblem::Domain);
    }
    if is_canonical(domain) {
        out.push_str(domain);
        return Ok(());
    }
    for character in domain.chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' => {
                out.push(character.to_ascii_lowercase());
            }
            _ if !character.is_ascii() && put_letter(character, out) => {}
            _ => return Err(JidProblem::Domain),
        }
    }
    Ok(())
}

/// The resource keeps its case, and may have spaces and symbols. [7622#3.4]
fn put_resource(resource: &str, out: &mut String) -> Result<(), JidProblem> {
    if is_canonical(resource) {
        out.push_str(resource);
        return Ok(());
    }
    for character in resource.chars() {
        match character {
            _ if character.is_control() => return Err(JidProblem::Resource),
            // Other spaces map to the one of ASCII.
            _ if character.is_whitespace() => out.push(' '),
            _ if !crate::is_xml_text(character.encode_utf8(&mut [0; 4])) => {
                return Err(JidProblem::Resource);
            }
            _ => out.push(character),
        }
    }
    Ok(())
}
