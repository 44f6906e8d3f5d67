//! The elements of one stanza, as places in the octets that it came in.

use crate::PeerFault;
use crate::ns;
use crate::write::{LINE_OR_TAB, REFERENCE, find, put_attribute};
use std::borrow::Cow;

/// Where the elements of a stanza are: what [`Element`] reads. A caller keeps one for all its connections, so that it is
/// allocated once, and clears it behind each stanza.
#[derive(Debug, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    attributes: Vec<Attribute>,
    /// Namespaces by their numbers; 0 is none, 1 that of `xml`.
    uris: Vec<Cow<'static, str>>,
    /// Declarations in force, the inner ones last.
    scopes: Vec<Scope>,
    /// Elements that have not ended.
    open: Vec<u32>,
}

/// Numbers of the namespaces that need no declaration.
const NONE: u32 = 0;
const XML: u32 = 1;
/// Declarations in one stanza, those of the stream included.
const DECLARATIONS_MAX: usize = 256;

/// A place in the octets of the stanza.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    from: u32,
    until: u32,
}

impl Span {
    pub(crate) fn new(from: usize, until: usize) -> Span {
        Span {
            from: from as u32,
            until: until as u32,
        }
    }

    fn of(self, raw: &str) -> &str {
        raw.get(self.from as usize..self.until as usize)
            .unwrap_or_default()
    }

    /// Prefix, empty if there is none, and local part of the name here.
    fn split(self, bytes: &[u8]) -> (&[u8], Span) {
        let name = bytes
            .get(self.from as usize..self.until as usize)
            .unwrap_or_default();
        // Names are too short for memchr.
        match name.iter().position(|octet| *octet == b':') {
            Some(colon) => (
                &name[..colon],
                Span {
                    from: self.from + colon as u32 + 1,
                    ..self
                },
            ),
            None => (&[], self),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// From `<` to behind the last `>`.
    all: Span,
    /// Octets between the tags; empty for an empty element.
    content: Span,
    /// The name and its prefix.
    name: Span,
    /// Where the name begins behind its prefix.
    local: u32,
    uri: u32,
    /// Elements around it, itself included.
    depth: u16,
    /// Elements around the declaration of its namespace; 0 if the stream has it.
    declared: u16,
    /// Its attributes in [`Tree::attributes`], declarations of namespaces included.
    attributes: Span,
    /// The node behind its last descendant.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Attribute {
    /// With its prefix until the element's head is complete, without it afterwards.
    name: Span,
    /// As it came, between its quotation marks.
    value: Span,
    uri: u32,
    /// As [`Node::declared`]; [`NOWHERE`] if it has no prefix.
    declared: u16,
    declares: bool,
}

/// A declaration in force.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    prefix: Cow<'static, [u8]>,
    /// Of its namespace, in [`Tree::uris`].
    number: u32,
    /// Open elements when it was declared, its own included; 0 for those of the stream.
    depth: u32,
}

/// A declaration of a stream's header.
#[derive(Debug)]
pub(crate) struct Declaration {
    prefix: Cow<'static, [u8]>,
    uri: Cow<'static, str>,
}

impl Declaration {
    /// Octets of prefixes and namespaces.
    pub(crate) fn texts(declarations: &[Declaration]) -> usize {
        let texts = declarations.iter();
        texts
            .map(|declared| declared.prefix.len() + declared.uri.len())
            .sum()
    }

    /// Whether it makes [`ns::CLIENT`] the default.
    pub(crate) fn is_client(&self) -> bool {
        self.prefix.is_empty() && self.uri == ns::CLIENT
    }
}

/// A prefix, which costs nothing where it is the one that streams have.
fn kept(prefix: &[u8]) -> Cow<'static, [u8]> {
    match prefix {
        b"" => Cow::Borrowed(b""),
        b"stream" => Cow::Borrowed(b"stream"),
        other => Cow::Owned(other.into()),
    }
}

/// Deeper than any element: what needs no declaration.
const NOWHERE: u16 = u16::MAX;

/// Limits of one element with its content.
pub(crate) struct Bounds {
    pub(crate) attributes_max: usize,
    pub(crate) elements_max: usize,
    pub(crate) depth_max: usize,
}

/// Octets that a tree without a stanza may keep allocated for the next one.
const IDLE_BYTES: usize = 16 << 10;

impl Tree {
    /// Forgets the stanza. Of the memory it keeps what most stanzas need.
    pub fn clear(&mut self) {
        self.uris.clear();
        self.scopes.clear();
        if self.bytes() > IDLE_BYTES {
            *self = Tree::default();
        }
    }

    /// Octets of memory, unused room included.
    pub(crate) fn bytes(&self) -> usize {
        let Tree {
            nodes,
            attributes,
            uris,
            scopes,
            open,
        } = self;
        let texts: usize = uris.iter().map(|uri| uri.len()).sum();
        nodes.capacity() * size_of::<Node>()
            + attributes.capacity() * size_of::<Attribute>()
            + uris.capacity() * size_of::<Cow<'static, str>>()
            + texts
            + scopes.capacity() * size_of::<Scope>()
            + scopes.iter().map(|scope| scope.prefix.len()).sum::<usize>()
            + open.capacity() * size_of::<u32>()
    }

    /// Forgets the stanza; `stream` are the declarations of the stream.
    pub(crate) fn begin(&mut self, stream: &[Declaration]) {
        self.nodes.clear();
        self.attributes.clear();
        self.open.clear();
        self.uris.clear();
        self.uris
            .extend([Cow::Borrowed(""), Cow::Borrowed(ns::XML)]);
        self.scopes.clear();
        for declared in stream {
            let number = self.number_of(&declared.uri, || declared.uri.clone());
            self.scopes.push(Scope {
                prefix: declared.prefix.clone(),
                number,
                depth: 0,
            });
        }
    }

    /// The number of a namespace, of which `own` is a copy.
    fn number_of(&mut self, uri: &str, own: impl FnOnce() -> Cow<'static, str>) -> u32 {
        let found = self.uris.iter().rposition(|known| *known == uri);
        found.unwrap_or_else(|| {
            self.uris.push(own());
            self.uris.len() - 1
        }) as u32
    }

    /// Namespace declarations in force, for elements after a stream's header.
    pub(crate) fn take_scopes(&mut self) -> Vec<Declaration> {
        let scopes = std::mem::take(&mut self.scopes).into_iter();
        let declared = scopes.map(|scope| Declaration {
            uri: self
                .uris
                .get(scope.number as usize)
                .cloned()
                .unwrap_or_default(),
            prefix: scope.prefix,
        });
        declared.collect()
    }

    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// The name of the element that was opened last and has not ended.
    pub(crate) fn open_name<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let Span { from, until } = self.nodes.get(*self.open.last()? as usize)?.name;
        bytes.get(from as usize..until as usize)
    }

    /// A head begins: `<name`, of which the name is at `name`.
    pub(crate) fn open(
        &mut self,
        name: std::ops::Range<usize>,
        bounds: &Bounds,
    ) -> Result<(), PeerFault> {
        if self.open.len() >= bounds.depth_max {
            return Err(PeerFault::TOO_DEEP);
        }
        if self.nodes.len() >= bounds.elements_max {
            return Err(PeerFault::TOO_MANY_ELEMENTS);
        }
        let attributes = self.attributes.len();
        let name = Span::new(name.start, name.end);
        self.open.push(self.nodes.len() as u32);
        self.nodes.push(Node {
            all: Span {
                from: name.from.saturating_sub(1),
                until: 0,
            },
            content: Span::default(),
            name,
            local: name.from,
            uri: NONE,
            depth: self.open.len() as u16,
            declared: 0,
            attributes: Span::new(attributes, attributes),
            next: 0,
        });
        Ok(())
    }

    /// An attribute of the head: `slice` is `name='value'`, and perhaps spaces before it, at `from`. `declared` is its value
    /// without escapes.
    pub(crate) fn attribute(
        &mut self,
        slice: &[u8],
        from: usize,
        name_len: usize,
        declared: &str,
        bounds: &Bounds,
    ) -> Result<(), PeerFault> {
        let spaces = slice
            .iter()
            .take_while(|octet| octet.is_ascii_whitespace())
            .count();
        let behind = spaces + name_len;
        let quote = memchr::memchr2(b'\'', b'"', slice.get(behind..).unwrap_or_default());
        let value_from = behind + quote.unwrap_or(0) + 1;
        let value = Span::new(
            from + value_from,
            from + slice.len().saturating_sub(1).max(value_from),
        );
        let written = slice.get(spaces..behind).unwrap_or_default();
        let name = Span::new(from + spaces, from + behind);
        self.attribute_at((written, name), (declared, value), bounds)
    }

    /// The same, where it is known where name and value are.
    pub(crate) fn attribute_at(
        &mut self,
        (written, name): (&[u8], Span),
        (declared, value): (&str, Span),
        bounds: &Bounds,
    ) -> Result<(), PeerFault> {
        let Some(node) = self
            .open
            .last()
            .and_then(|at| self.nodes.get_mut(*at as usize))
        else {
            return Ok(());
        };
        let first = node.attributes.from as usize;
        if self.attributes.len() - first >= bounds.attributes_max {
            return Err(PeerFault::TOO_MANY_ATTRIBUTES);
        }
        let prefix: Option<&[u8]> = match written {
            b"xmlns" => Some(b""),
            _ => written.strip_prefix(b"xmlns:"),
        };
        if let Some(prefix) = prefix {
            if self.uris.len() >= DECLARATIONS_MAX || self.scopes.len() >= DECLARATIONS_MAX {
                return Err(PeerFault::TOO_MANY_ATTRIBUTES);
            }
            let depth = self.open.len() as u32;
            let mut of_this_head = self
                .scopes
                .iter()
                .rev()
                .take_while(|scope| scope.depth == depth);
            if of_this_head.any(|scope| *scope.prefix == *prefix) {
                return Err(PeerFault::DUPLICATE);
            }
            let number = self.number_of(declared, || match ns::known(declared) {
                Some(known) => Cow::Borrowed(known),
                None => Cow::Owned(declared.into()),
            });
            self.scopes.push(Scope {
                prefix: kept(prefix),
                number,
                depth,
            });
        }
        self.attributes.push(Attribute {
            name,
            value,
            uri: NONE,
            declared: NOWHERE,
            declares: prefix.is_some(),
        });
        Ok(())
    }

    /// The head ends before `content`.
    pub(crate) fn head_end(&mut self, bytes: &[u8], content: usize) -> Result<(), PeerFault> {
        let Some(&at) = self.open.last() else {
            return Ok(());
        };
        let node = self.nodes[at as usize];
        let (prefix, local) = node.name.split(bytes);
        let (uri, declared) = self.resolve(prefix)?;
        let first = node.attributes.from as usize;
        for index in first..self.attributes.len() {
            let attribute = self.attributes[index];
            let (prefix, local) = attribute.name.split(bytes);
            if !attribute.declares && !prefix.is_empty() {
                // An attribute without a prefix is in no namespace.
                let (uri, declared) = self.resolve(prefix)?;
                self.attributes[index] = Attribute {
                    name: local,
                    uri,
                    declared,
                    ..attribute
                };
            }
        }
        let name_of = |attribute: &Attribute| {
            let Span { from, until } = attribute.name;
            (attribute.uri, bytes.get(from as usize..until as usize))
        };
        let attributes = &self.attributes[first..];
        let is_double = |(index, attribute): (usize, &Attribute)| {
            !attribute.declares
                && attributes[..index]
                    .iter()
                    .any(|other| name_of(other) == name_of(attribute))
        };
        if attributes.iter().enumerate().any(is_double) {
            return Err(PeerFault::DUPLICATE);
        }
        let until = self.attributes.len() as u32;
        let node = &mut self.nodes[at as usize];
        node.uri = uri;
        node.declared = declared;
        node.local = local.from;
        node.attributes.until = until;
        node.content.from = content as u32;
        Ok(())
    }

    /// The namespace that a prefix stands for, and the depth of its declaration.
    fn resolve(&self, prefix: &[u8]) -> Result<(u32, u16), PeerFault> {
        if prefix == b"xml" {
            return Ok((XML, NOWHERE));
        }
        let found = self
            .scopes
            .iter()
            .rev()
            .find(|scope| *scope.prefix == *prefix);
        match found {
            Some(scope) => Ok((scope.number, scope.depth as u16)),
            None if prefix.is_empty() => Ok((NONE, 0)),
            None => Err(PeerFault::PREFIX),
        }
    }

    /// The element that was opened last ends: its end tag is `tag`, empty if its head is all there is of it.
    pub(crate) fn close(&mut self, tag: std::ops::Range<usize>) {
        let depth = self.open.len() as u32;
        while self.scopes.last().is_some_and(|scope| scope.depth == depth) {
            self.scopes.pop();
        }
        let next = self.nodes.len() as u32;
        if let Some(at) = self.open.pop() {
            let node = &mut self.nodes[at as usize];
            node.content.until = (tag.start as u32).max(node.content.from);
            node.all.until = tag.end as u32;
            node.next = next;
        }
    }

    /// The stanza in `raw`, or, within a stream's header, the header.
    pub(crate) fn root<'b>(&'b self, raw: &'b str) -> Element<'b> {
        Element {
            tree: self,
            raw,
            at: 0,
        }
    }
}

/// An element, borrowed from the input.
#[derive(Clone, Copy)]
pub struct Element<'b> {
    tree: &'b Tree,
    raw: &'b str,
    at: usize,
}

impl std::fmt::Debug for Element<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{{}}}{}", self.namespace(), self.raw())
    }
}

/// Stands for an element that is not there.
const NOTHING: Node = Node {
    all: Span { from: 0, until: 0 },
    content: Span { from: 0, until: 0 },
    name: Span { from: 0, until: 0 },
    local: 0,
    uri: NONE,
    depth: 0,
    declared: 0,
    attributes: Span { from: 0, until: 0 },
    next: 0,
};

impl<'b> Element<'b> {
    fn node(self) -> &'b Node {
        self.tree.nodes.get(self.at).unwrap_or(&NOTHING)
    }

    /// The name without its prefix.
    pub fn name(self) -> &'b str {
        let Node { local, name, .. } = *self.node();
        Span {
            from: local,
            ..name
        }
        .of(self.raw)
    }

    /// The namespace; empty if it has none.
    pub fn namespace(self) -> &'b str {
        self.tree.uri(self.node().uri)
    }

    /// Whether this is its name in this namespace.
    pub fn is(self, name: &str, namespace: &str) -> bool {
        self.name() == name && self.namespace() == namespace
    }

    /// Its attributes but for declarations of namespaces.
    pub fn attributes(self) -> Attributes<'b> {
        let Span { from, until } = self.node().attributes;
        Attributes {
            element: self,
            range: from as usize..until as usize,
        }
    }

    /// The value of the attribute of this name in no namespace.
    pub fn attribute(self, name: &str) -> Option<Cow<'b, str>> {
        self.value(NONE, name)
    }

    /// Its attribute `xml:lang`.
    pub fn lang(self) -> Option<Cow<'b, str>> {
        self.value(XML, "lang")
    }

    fn value(self, uri: u32, name: &str) -> Option<Cow<'b, str>> {
        let Element { tree, raw, .. } = self;
        let Span { from, until } = self.node().attributes;
        let all = tree.attributes.get(from as usize..until as usize)?;
        let is_named = |attribute: &&Attribute| {
            !attribute.declares && attribute.uri == uri && attribute.name.of(raw) == name
        };
        let found = all.iter().find(is_named)?;
        Some(unescape(found.value.of(raw), false))
    }

    /// The elements directly in it.
    pub fn children(self) -> Children<'b> {
        Children {
            element: self,
            next: self.at + 1,
            end: self.node().next as usize,
        }
    }

    /// The first element directly in it that has this name.
    pub fn child(self, name: &str, namespace: &str) -> Option<Element<'b>> {
        self.children().find(|child| child.is(name, namespace))
    }

    /// All elements in it, in the order of their heads.
    pub fn descendants(self) -> Descendants<'b> {
        Descendants(Children {
            element: self,
            next: self.at + 1,
            end: self.node().next as usize,
        })
    }

    /// The text directly in it, without escapes.
    pub fn text(self) -> Cow<'b, str> {
        let mut text = Cow::Borrowed("");
        let mut from = self.node().content.from;
        let mut add = |until: u32, from: u32| {
            let piece = unescape(Span { from, until }.of(self.raw), true);
            if text.is_empty() {
                text = piece;
            } else if !piece.is_empty() {
                text.to_mut().push_str(&piece);
            }
        };
        for child in self.children() {
            let Span { from: start, until } = child.node().all;
            add(start, from);
            from = until;
        }
        add(self.node().content.until, from);
        text
    }

    /// The element as it came. Its names may need declarations of elements around it: see [`Element::put`].
    pub fn raw(self) -> &'b str {
        self.node().all.of(self.raw)
    }

    /// Content between its tags, as received.
    pub fn content(self) -> &'b str {
        self.node().content.of(self.raw)
    }

    /// Prefix and namespace of the names in it whose declarations are around it; some come more than once.
    fn inherited(self) -> impl Iterator<Item = (&'b str, &'b str)> {
        let Element { tree, raw, at } = self;
        let depth = self.node().depth;
        let nodes = tree
            .nodes
            .get(at..self.node().next as usize)
            .unwrap_or_default();
        let names = nodes.iter().filter(move |node| node.declared < depth);
        let names = names.map(move |node| {
            let until = node.local.saturating_sub(1).max(node.name.from);
            (Span { until, ..node.name }, node.uri)
        });
        let first = nodes
            .first()
            .map_or(0, |node| node.attributes.from as usize);
        let last = nodes
            .last()
            .map_or(0, |node| node.attributes.until as usize);
        let attributes = tree.attributes.get(first..last).unwrap_or_default();
        let attributes = attributes
            .iter()
            .filter(move |attribute| attribute.declared < depth);
        let attributes = attributes.map(move |attribute| {
            // The prefix stands before the colon before the name.
            let until = attribute.name.from.saturating_sub(1);
            let before = raw.get(..until as usize).unwrap_or_default();
            let from = before
                .rfind(|c: char| c.is_ascii_whitespace())
                .map_or(0, |at| at + 1);
            (
                Span {
                    from: from as u32,
                    until,
                },
                attribute.uri,
            )
        });
        names
            .chain(attributes)
            .map(move |(prefix, uri)| (prefix.of(raw), tree.uri(uri)))
    }

    /// Whether [`Element::raw`] means the same wherever it stands.
    pub fn is_self_contained(self) -> bool {
        self.inherited().next().is_none()
    }

    /// Appends the element so that it means the same wherever it stands: as it came, with the declarations that it lacks.
    pub fn put(self, out: &mut Vec<u8>) {
        let raw = self.raw();
        let name = self.node().name;
        let head = (name.until - self.node().all.from) as usize;
        let (before, behind) = raw.split_at_checked(head).unwrap_or((raw, ""));
        out.extend_from_slice(before.as_bytes());
        // Most need no more than one.
        let (mut last, mut before) = (None, Vec::new());
        for (prefix, uri) in self.inherited() {
            if last == Some(prefix) || before.contains(&prefix) {
                continue;
            }
            before.extend(last.replace(prefix));
            match prefix {
                "" => put_attribute("xmlns", uri, out),
                prefix => put_attribute(&format!("xmlns:{prefix}"), uri, out),
            }
        }
        out.extend_from_slice(behind.as_bytes());
    }
}

impl Tree {
    fn uri(&self, number: u32) -> &str {
        self.uris.get(number as usize).map_or("", |uri| uri)
    }
}

/// Name, namespace and value of attributes.
#[derive(Clone, Debug)]
pub struct Attributes<'b> {
    element: Element<'b>,
    range: std::ops::Range<usize>,
}

impl<'b> Iterator for Attributes<'b> {
    type Item = (&'b str, &'b str, Cow<'b, str>);

    fn next(&mut self) -> Option<Self::Item> {
        let Element { tree, raw, .. } = self.element;
        loop {
            let attribute = tree.attributes.get(self.range.next()?)?;
            if !attribute.declares {
                let value = unescape(attribute.value.of(raw), false);
                return Some((attribute.name.of(raw), tree.uri(attribute.uri), value));
            }
        }
    }
}

/// Elements directly in one.
#[derive(Clone, Debug)]
pub struct Children<'b> {
    element: Element<'b>,
    next: usize,
    end: usize,
}

impl<'b> Iterator for Children<'b> {
    type Item = Element<'b>;

    fn next(&mut self) -> Option<Element<'b>> {
        if self.next >= self.end {
            return None;
        }
        let child = Element {
            at: self.next,
            ..self.element
        };
        self.next = (child.node().next as usize).max(self.next + 1);
        Some(child)
    }
}

/// Elements anywhere in one.
#[derive(Clone, Debug)]
pub struct Descendants<'b>(Children<'b>);

impl<'b> Iterator for Descendants<'b> {
    type Item = Element<'b>;

    fn next(&mut self) -> Option<Element<'b>> {
        let Children { element, next, end } = &mut self.0;
        (*next < *end).then(|| {
            *next += 1;
            Element {
                at: *next - 1,
                ..*element
            }
        })
    }
}

/// Text or a value without references, CDATA sections and line ends of others. It was checked when it came.
fn unescape(raw: &str, is_text: bool) -> Cow<'_, str> {
    let special = match is_text {
        true => REFERENCE,
        false => REFERENCE | LINE_OR_TAB,
    };
    let Some(first) = find(raw.as_bytes(), special) else {
        return Cow::Borrowed(raw);
    };
    let mut text = String::with_capacity(raw.len());
    let (plain, mut rest) = raw.split_at(first);
    text.push_str(plain);
    while let Some(character) = rest.chars().next() {
        if let Some(section) = rest.strip_prefix("<![CDATA[") {
            let (section, behind) = section.split_once("]]>").unwrap_or((section, ""));
            let section = section.replace("\r\n", "\n");
            text.extend(section.chars().map(|c| if c == '\r' { '\n' } else { c }));
            rest = behind;
            continue;
        }
        let mut len = character.len_utf8();
        match character {
            '&' => {
                let (name, _) = rest[1..].split_once(';').unwrap_or((&rest[1..], ""));
                len = (name.len() + 2).min(rest.len());
                text.extend(reference(name));
            }
            '\r' if is_text => {
                text.push('\n');
                if rest.as_bytes().get(1) == Some(&b'\n') {
                    len = 2;
                }
            }
            '\r' => {
                text.push(' ');
                if rest.as_bytes().get(1) == Some(&b'\n') {
                    len = 2;
                }
            }
            '\n' | '\t' if !is_text => text.push(' '),
            _ => text.push(character),
        }
        rest = &rest[len..];
    }
    Cow::Owned(text)
}

fn reference(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "apos" => Some('\''),
        "quot" => Some('"'),
        _ => {
            let number = name.strip_prefix('#')?;
            let number = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(number.ok()?)
        }
    }
}
