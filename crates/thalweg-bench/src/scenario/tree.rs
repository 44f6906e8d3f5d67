//! YAML as a tree that knows its lines. Scalars stay text: what they mean is said by who reads them.

use saphyr_parser::{Event, Parser};

use super::section::place;

/// A piece of YAML.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it begins, from 1; 0 for what was given on the command line.
    pub line: usize,
    pub kind: NodeKind,
}

/// What a piece is.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// `60B`
    Scalar(String),
    /// `[a, b]`
    List(Vec<Node>),
    /// `{a: b}`, in its order.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Reads a document. Anchors, aliases and tags are refused, and so are keys that come twice.
    pub fn read(text: &str) -> Result<Node, String> {
        let mut parser = Events {
            parser: Parser::new_from_str(text),
            depth: 0,
        };
        let mut found = None;
        loop {
            let (event, line) = parser.next()?;
            match event {
                Event::StreamStart
                | Event::DocumentStart(_)
                | Event::DocumentEnd
                | Event::Nothing => {}
                Event::StreamEnd => break,
                _ if found.is_some() => return Err(format!("line {line}: a second document")),
                event => found = Some(parser.node(event, line)?),
            }
        }
        found.ok_or_else(|| "there is nothing in it".to_owned())
    }

    /// What a mapping has.
    pub fn entries(&self, path: &str) -> Result<&[(String, Node)], String> {
        match &self.kind {
            NodeKind::Map(entries) => Ok(entries),
            _ => Err(format!("{path}{}: a mapping is expected", place(self))),
        }
    }

    /// What a list has.
    pub fn list(&self, path: &str) -> Result<&[Node], String> {
        match &self.kind {
            NodeKind::List(nodes) => Ok(nodes),
            _ => Err(format!("{path}{}: a list is expected", place(self))),
        }
    }

    /// Puts something at a path; mappings on the way are made.
    pub fn set(&mut self, path: &str, value: Node) -> Result<(), String> {
        let (key, rest) = path
            .split_once('.')
            .map_or((path, None), |(key, rest)| (key, Some(rest)));
        let NodeKind::Map(entries) = &mut self.kind else {
            return Err(format!(
                "{path}: there is a value, not a mapping, before it"
            ));
        };
        let at = entries.iter().position(|(name, _)| name == key);
        match (rest, at.and_then(|at| entries.get_mut(at))) {
            (None, Some((_, node))) => *node = value,
            (None, None) => entries.push((key.to_owned(), value)),
            (Some(rest), Some((_, node))) => node.set(rest, value)?,
            (Some(rest), None) => {
                let mut node = Node {
                    line: value.line,
                    kind: NodeKind::Map(Vec::new()),
                };
                node.set(rest, value)?;
                entries.push((key.to_owned(), node));
            }
        }
        Ok(())
    }

    /// Takes a key out of a mapping.
    pub fn take(&mut self, key: &str) -> Option<Node> {
        let NodeKind::Map(entries) = &mut self.kind else {
            return None;
        };
        let at = entries.iter().position(|(name, _)| name == key)?;
        Some(entries.remove(at).1)
    }

    /// The values below a mapping, each with its path: `coap.nstart` in `{coap: {nstart: 32}}` as in `{coap.nstart: 32}`.
    pub fn leaves(entries: &[(String, Node)]) -> Vec<(String, String)> {
        let below = |(name, node): &(String, Node)| match &node.kind {
            NodeKind::Map(entries) => Node::leaves(entries)
                .into_iter()
                .map(|(path, value)| (format!("{name}.{path}"), value))
                .collect(),
            _ => vec![(name.clone(), node.label())],
        };
        entries.iter().flat_map(below).collect()
    }

    /// As a name in tables: `mqtt,qos2` for `{publish: mqtt, qos: 2}`, `coap,con` for `{publish: coap, con: true}`.
    pub fn label(&self) -> String {
        match &self.kind {
            NodeKind::Scalar(text) => text.clone(),
            NodeKind::List(nodes) => nodes.iter().map(Node::label).collect::<Vec<_>>().join(","),
            NodeKind::Map(entries) => entries
                .iter()
                .map(|(key, node)| labelled(key, node))
                .collect::<Vec<_>>()
                .join(","),
        }
    }
}

/// Words speak for themselves, numbers and switches need their name.
fn labelled(key: &str, node: &Node) -> String {
    let text = node.label();
    match text.as_str() {
        "true" => key.to_owned(),
        "false" => format!("no-{key}"),
        _ if text.starts_with(|c: char| c.is_ascii_digit()) => format!("{key}{text}"),
        _ => text,
    }
}

struct Events<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    depth: usize,
}

impl<'a> Events<'a> {
    fn next(&mut self) -> Result<(Event<'a>, usize), String> {
        match self.parser.next() {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(error)) => Err(format!("line {}: {}", error.marker().line(), error.info())),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    fn node(&mut self, event: Event<'a>, line: usize) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("line {line}: more than {DEPTH_MAX} levels"));
        }
        let kind = match event {
            Event::Scalar(text, _, 0, None) => NodeKind::Scalar(text.into_owned()),
            Event::SequenceStart(0, None) => {
                let mut nodes = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, line) => nodes.push(self.node(event, line)?),
                    }
                }
                NodeKind::List(nodes)
            }
            Event::MappingStart(0, None) => NodeKind::Map(self.entries()?),
            _ => {
                return Err(format!(
                    "line {line}: anchors, aliases and tags are not taken"
                ));
            }
        };
        self.depth -= 1;
        Ok(Node { line, kind })
    }

    fn entries(&mut self) -> Result<Vec<(String, Node)>, String> {
        let mut entries: Vec<(String, Node)> = Vec::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, _) => return Ok(entries),
                (Event::Scalar(key, ..), line) if entries.iter().any(|(name, _)| *name == *key) => {
                    return Err(format!("line {line}: {key} comes twice"));
                }
                (Event::Scalar(key, ..), _) => key.into_owned(),
                (_, line) => return Err(format!("line {line}: a key is a word")),
            };
            let (event, line) = self.next()?;
            entries.push((key, self.node(event, line)?));
        }
    }
}

/// Scenarios have four levels.
const DEPTH_MAX: usize = 16;
