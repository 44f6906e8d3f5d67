//! Links as text: how a server says what it has, at `/.well-known/core` and elsewhere. RFC 6690
//!
//! ```text
//! </sensors/temp>;rt="temperature-c";if="sensor";ct=40,</ps>;rt="core.ps.coll";obs
//! ```

use std::borrow::Cow;
use std::fmt;

/// Writes links to the end of the caller's buffer, with commas between those that this writer wrote.
#[derive(Debug)]
pub struct LinkWriter<'v> {
    out: &'v mut Vec<u8>,
    is_first: bool,
}

impl<'v> LinkWriter<'v> {
    /// A writer that has written nothing.
    pub fn new(out: &'v mut Vec<u8>) -> LinkWriter<'v> {
        LinkWriter {
            out,
            is_first: true,
        }
    }

    /// Begins a link; `target` is a URI or an absolute path in URI syntax, which has no `>`. Attributes follow.
    pub fn link(&mut self, target: &str) -> &mut Self {
        if !std::mem::replace(&mut self.is_first, false) {
            self.out.push(b',');
        }
        self.out.push(b'<');
        self.out.extend(target.bytes().filter(|byte| *byte != b'>'));
        self.out.push(b'>');
        self
    }

    /// An attribute with a text: `name="value"`.
    pub fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        self.out.extend_from_slice(b"=\"");
        for byte in value.bytes() {
            if matches!(byte, b'"' | b'\\') {
                self.out.push(b'\\');
            }
            self.out.push(byte);
        }
        self.out.push(b'"');
        self
    }

    /// An attribute with a number: `name=value`.
    pub fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.name(name);
        self.out.push(b'=');
        self.out.extend_from_slice(value.to_string().as_bytes());
        self
    }

    /// An attribute without a value: `name`.
    pub fn flag(&mut self, name: &str) -> &mut Self {
        self.name(name);
        self
    }

    fn name(&mut self, name: &str) {
        self.out.push(b';');
        self.out.extend_from_slice(name.as_bytes());
    }
}

/// A text that is no list of links, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkError {
    /// The byte from which on it makes no sense.
    pub at: usize,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no link format from byte {} on", self.at)
    }
}

impl std::error::Error for LinkError {}

/// A link of a list; it borrows from the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'b> {
    /// Target of the link, as it is written between `<` and `>`.
    pub target: &'b str,
    /// Everything behind the `>`: it was checked.
    attributes: &'b str,
}

impl<'b> Link<'b> {
    /// Name and value of each attribute, in order; nothing for one without a value.
    pub fn attributes(&self) -> impl Iterator<Item = (&'b str, Option<Cow<'b, str>>)> + use<'b> {
        let mut rest = self.attributes;
        std::iter::from_fn(move || {
            let (name, value, behind) = attribute(rest.trim_start().strip_prefix(';')?)?;
            rest = behind;
            Some((name, value.map(unquoted)))
        })
    }

    /// The value of the first attribute of this name; nothing if there is none, or none with a value.
    pub fn attribute(&self, name: &str) -> Option<Cow<'b, str>> {
        self.attributes().find(|(found, _)| *found == name)?.1
    }

    /// Whether there is an attribute of this name.
    pub fn has(&self, name: &str) -> bool {
        self.attributes().any(|(found, _)| found == name)
    }
}

/// Goes through the links of a text; ends with the first error.
#[derive(Clone, Debug)]
pub struct Links<'b> {
    rest: &'b str,
    len: usize,
    /// A comma was read, and a link must follow.
    owes_link: bool,
}

impl<'b> Links<'b> {
    /// The links of `text`. Line breaks and spaces between them are tolerated.
    pub fn new(text: &'b str) -> Links<'b> {
        Links {
            rest: text.trim(),
            len: text.trim_end().len(),
            owes_link: false,
        }
    }

    fn link(&mut self) -> Option<Link<'b>> {
        let (target, behind) = self.rest.strip_prefix('<')?.split_once('>')?;
        let mut rest = behind;
        while let Some(more) = rest.trim_start().strip_prefix(';') {
            rest = attribute(more)?.2;
        }
        let link = Link {
            target,
            attributes: behind.get(..behind.len() - rest.len())?,
        };
        let rest = rest.trim_start();
        self.owes_link = rest.starts_with(',');
        // Whatever else is there will be no link.
        self.rest = if self.owes_link {
            rest.get(1..)?.trim_start()
        } else {
            rest
        };
        (self.owes_link || self.rest.is_empty()).then_some(link)
    }
}

impl<'b> Iterator for Links<'b> {
    type Item = Result<Link<'b>, LinkError>;

    fn next(&mut self) -> Option<Result<Link<'b>, LinkError>> {
        if self.rest.is_empty() && !self.owes_link {
            return None;
        }
        let error = LinkError {
            at: self.len - self.rest.len(),
        };
        Some(self.link().ok_or_else(|| {
            (self.rest, self.owes_link) = ("", false);
            error
        }))
    }
}

/// An attribute without its semicolon: name, value as it is written, what follows.
fn attribute(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let text = text.trim_start();
    let end = text.find([';', ',', '=']).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end)?;
    let name = name.trim_end();
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>'))
    {
        return None;
    }
    let Some(rest) = rest.strip_prefix('=') else {
        return Some((name, None, rest));
    };
    let rest = rest.trim_start();
    let len = match rest.strip_prefix('"') {
        Some(quoted) => 1 + quoted_len(quoted)?,
        None => rest.find([';', ',']).unwrap_or(rest.len()),
    };
    let (value, behind) = rest.split_at_checked(len)?;
    Some((name, Some(value.trim_end()), behind))
}

/// Number of bytes up to and including the closing quotation mark.
fn quoted_len(text: &str) -> Option<usize> {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map(|end| end + 1)
}

/// A value without its quotation marks and backslashes.
fn unquoted(value: &str) -> Cow<'_, str> {
    let Some(inner) = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'))
    else {
        return value.into();
    };
    if !inner.contains('\\') {
        return inner.into();
    }
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(c) = characters.next() {
        text.extend(if c == '\\' {
            characters.next()
        } else {
            Some(c)
        });
    }
    text.into()
}

/// Filter of a client for links: one argument of the query, `name=value` or `name=prefix*`. RFC 6690 §4.1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter<'b> {
    name: &'b str,
    value: &'b str,
    /// Whether the value is only how it begins.
    is_prefix: bool,
}

impl<'b> Filter<'b> {
    /// Parses a Uri-Query option; `None` if it is not of that form. Attribute names are not checked here.
    pub fn parse(query: &'b str) -> Option<Filter<'b>> {
        let (name, value) = query.split_once('=').filter(|(name, _)| !name.is_empty())?;
        Some(match value.strip_suffix('*') {
            Some(prefix) => Filter {
                name,
                value: prefix,
                is_prefix: true,
            },
            None => Filter {
                name,
                value,
                is_prefix: false,
            },
        })
    }

    /// Attribute to compare, or `href` for the target.
    pub fn name(&self) -> &'b str {
        self.name
    }

    /// Whether a link with this target and these attributes is wanted.
    pub fn matches<'x>(
        &self,
        target: &str,
        attributes: impl IntoIterator<Item = (&'x str, &'x str)>,
    ) -> bool {
        if self.name == "href" {
            return self.fits(target);
        }
        // Some attributes are lists, and one of the list is enough.
        let is_list = matches!(self.name, "rt" | "if" | "rel" | "rev" | "ct");
        attributes.into_iter().any(|(name, value)| {
            name == self.name
                && (self.fits(value) || is_list && value.split(' ').any(|one| self.fits(one)))
        })
    }

    /// Whether a link that was read is wanted.
    pub fn matches_link(&self, link: &Link<'_>) -> bool {
        match self.name {
            "href" => self.matches(link.target, []),
            _ => link
                .attributes()
                .any(|(name, value)| self.matches("", [(name, &*value.unwrap_or_default())])),
        }
    }

    fn fits(&self, text: &str) -> bool {
        if self.is_prefix {
            text.starts_with(self.value)
        } else {
            text == self.value
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "</sensors>;ct=40;title=\"Sensor, \\\"Index\\\"\",\n</sensors/temp>;rt=\"temperature-c core.s\";if=sensor;obs,\
        <coap://[::1]/x?a,b;c>; rel = alternate ;sz=1024";

    fn read(text: &str) -> Result<Vec<Link<'_>>, LinkError> {
        Links::new(text).collect()
    }

    #[test]
    fn a_list_is_read_as_it_is_written() {
        let links = read(LIST).expect("it is a list");
        let targets: Vec<_> = links.iter().map(|link| link.target).collect();
        assert_eq!(
            targets,
            ["/sensors", "/sensors/temp", "coap://[::1]/x?a,b;c"]
        );
        assert_eq!(
            links[0].attribute("title").as_deref(),
            Some("Sensor, \"Index\"")
        );
        assert_eq!(links[0].attribute("ct").as_deref(), Some("40"));
        let names: Vec<_> = links[1].attributes().map(|(name, _)| name).collect();
        assert_eq!(names, ["rt", "if", "obs"]);
        assert!(links[1].has("obs") && links[1].attribute("obs").is_none() && !links[0].has("obs"));
        assert_eq!(links[2].attribute("rel").as_deref(), Some("alternate"));
        assert_eq!(links[2].attribute("sz").as_deref(), Some("1024"));
        assert_eq!(read(" "), Ok(vec![]));
    }

    #[test]
    fn what_is_no_list_ends_where_it_goes_wrong() {
        for (text, at) in [
            ("x", 0),
            ("<a", 0),
            ("<a>x", 0),
            ("<a>,", 4),
            ("<a>;", 0),
            ("<a>;=1", 0),
            ("<a>;b=\"c", 0),
            ("<a>;b=\"c\\\"", 0),
            ("<a>,,<b>", 4),
            ("<a>;b=\"c\"d", 0),
            ("<a>, <b>;c d=1", 5),
        ] {
            assert_eq!(read(text), Err(LinkError { at }), "{text}");
            assert!(Links::new(text).count() <= 2, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        let mut writer = LinkWriter::new(&mut out);
        writer
            .link("/ps")
            .text("rt", "core.ps.coll")
            .flag("obs")
            .number("ct", 40);
        writer.link("/ps/data/größe").text("title", "a\"b\\c,;<>");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(
            text,
            "</ps>;rt=\"core.ps.coll\";obs;ct=40,</ps/data/größe>;title=\"a\\\"b\\\\c,;<>\""
        );
        let links = read(&text).expect("a list");
        assert_eq!(links[1].attribute("title").as_deref(), Some("a\"b\\c,;<>"));
    }

    #[test]
    fn filters_find_links_by_attribute_and_by_target() {
        let links = read(LIST).expect("it is a list");
        let wanted = |query| {
            let filter = Filter::parse(query).expect("a filter");
            links
                .iter()
                .map(|link| u8::from(filter.matches_link(link)))
                .collect::<Vec<_>>()
        };
        assert_eq!(wanted("rt=temperature-c"), [0, 1, 0]);
        assert_eq!(wanted("rt=core.s"), [0, 1, 0]);
        assert_eq!(wanted("rt=core*"), [0, 1, 0]);
        assert_eq!(wanted("rt=core"), [0, 0, 0]);
        assert_eq!(wanted("rt=temperature-c core.s"), [0, 1, 0]);
        assert_eq!(wanted("href=/sensors*"), [1, 1, 0]);
        assert_eq!(wanted("href=/sensors"), [1, 0, 0]);
        assert_eq!(wanted("title=Sensor"), [0, 0, 0]);
        assert_eq!(wanted("title=Sensor*"), [1, 0, 0]);
        assert_eq!(wanted("obs="), [0, 1, 0]);
        assert_eq!(wanted("ct=*"), [1, 0, 0]);
        for query in ["", "=x", "rt"] {
            assert_eq!(Filter::parse(query), None);
        }
    }
}
