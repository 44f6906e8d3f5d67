//! A payload, read once: its fields in the order in which they stand, each with the place behind all that is in it.

use crate::value::Value;
use crate::{cbor, json};
use std::borrow::Cow;

/// A JSON or CBOR payload whose fields can be asked for by path.
#[derive(Clone, Debug, Default)]
pub struct Document<'p> {
    nodes: Vec<Node<'p>>,
}

#[derive(Clone, Debug)]
struct Node<'p> {
    /// Name of the field; empty for list items and the whole document.
    key: Cow<'p, str>,
    leaf: Leaf<'p>,
    /// The place behind everything within it.
    end: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Leaf<'p> {
    /// Also what cannot be compared: bytes, undefined.
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(Cow<'p, str>),
    Map,
    List,
}

/// Longer payloads are not read.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// Payloads with more fields, counted at all depths, are not read.
const NODES_MAX: usize = 4096;
/// Deeper payloads are not read.
const DEPTH_MAX: usize = 32;

impl<'p> Document<'p> {
    /// Reads a payload. If it is neither JSON nor CBOR, incomplete, or beyond the limits, it has no fields; nor has a
    /// value that is no map and no list.
    pub fn read(payload: &'p [u8]) -> Self {
        let mut nodes = Nodes::default();
        let read = match payload {
            _ if payload.len() > PAYLOAD_BYTES_MAX => None,
            // A map or a list of CBOR, or one of the tags that may stand before it; no JSON begins like that.
            [0x80..=0xdb, ..] => cbor::read(payload, &mut nodes),
            _ => json::read(payload, &mut nodes),
        };
        match read {
            Some(()) => Document { nodes: nodes.all },
            None => Document::default(),
        }
    }

    /// The value at a path of keys and positions with dots between them.
    pub fn value(&self, path: &str) -> Value<'_> {
        self.find(path)
            .map_or(Value::Null, |node| match &node.leaf {
                Leaf::Null | Leaf::Map | Leaf::List => Value::Null,
                Leaf::Bool(value) => Value::Bool(*value),
                Leaf::Integer(value) => Value::Integer(*value),
                Leaf::Float(value) => Value::Float(*value),
                Leaf::Text(text) => Value::Text(text),
            })
    }

    fn find(&self, path: &str) -> Option<&Node<'p>> {
        let mut at = 0;
        for step in path.split('.') {
            let parent = self.nodes.get(at)?;
            let end = parent.end as usize;
            let mut left = match parent.leaf {
                Leaf::Map => None,
                Leaf::List => Some(step.parse::<usize>().ok()?),
                _ => return None,
            };
            at += 1;
            loop {
                if at >= end {
                    return None;
                }
                let node = self.nodes.get(at)?;
                match &mut left {
                    None if *node.key == *step => break,
                    Some(0) => break,
                    Some(left) => *left -= 1,
                    None => {}
                }
                at = node.end as usize;
            }
        }
        self.nodes.get(at)
    }
}

/// The fields of a payload while it is read.
#[derive(Default)]
pub(crate) struct Nodes<'p> {
    all: Vec<Node<'p>>,
    depth: usize,
}

impl<'p> Nodes<'p> {
    /// Adds a value that has nothing within it. `None` if there are too many.
    pub(crate) fn push(&mut self, key: Cow<'p, str>, leaf: Leaf<'p>) -> Option<()> {
        let end = self.all.len() as u32 + 1;
        (self.all.len() < NODES_MAX).then(|| self.all.push(Node { key, leaf, end }))
    }

    /// Adds a map or list; what is added before [`Nodes::close`] is within it.
    pub(crate) fn open(&mut self, key: Cow<'p, str>, leaf: Leaf<'p>) -> Option<usize> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let at = self.all.len();
        self.push(key, leaf)?;
        Some(at)
    }

    pub(crate) fn close(&mut self, at: usize) {
        self.depth -= 1;
        let end = self.all.len() as u32;
        if let Some(node) = self.all.get_mut(at) {
            node.end = end;
        }
    }
}
