//! Prefix filters: a radix tree over the bytes of their prefixes.

use super::allocation_bytes;
use super::arena::{Arena, NONE};
use super::sinks::Sinks;
use super::split_table::SplitTable;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// Prefixes as paths: a node for each one and for each place where two part, the edges of all nodes in one hash table.
///
/// A match follows the address's own bytes, so it looks at no more nodes than the address has bytes, and at no more than
/// there are prefixes that share its beginning, whatever else stands in the tree.
#[derive(Debug)]
pub(super) struct Prefixes<S> {
    nodes: Arena<Node<S>>,
    edges: SplitTable<Edge>,
    hasher: FixedState,
    filters: usize,
    /// Bytes of labels and of lists of sinks.
    heap_bytes: usize,
}

#[derive(Debug)]
struct Node<S> {
    /// What stands between the parent and here; never empty but for the root.
    label: Box<[u8]>,
    parent: u32,
    /// Edges that leave here.
    edges: u32,
    /// Of the prefix that ends here.
    here: Sinks<S>,
}

/// The way from a node to the child whose label begins with `byte`.
#[derive(Debug)]
struct Edge {
    from: u32,
    to: u32,
    byte: u8,
}

impl<S: Copy> Prefixes<S> {
    pub(super) fn new(hasher: FixedState) -> Self {
        let mut nodes = Arena::new();
        // The first value of an arena is named 0, and the root is never removed.
        nodes.add(Node::new(NONE, b""));
        Prefixes {
            nodes,
            edges: SplitTable::new(),
            hasher,
            filters: 0,
            heap_bytes: 0,
        }
    }

    /// Adds a sink and returns its position on its prefix.
    pub(super) fn insert(&mut self, prefix: &str, sink: S) -> usize {
        let (mut at, mut rest) = (ROOT, prefix.as_bytes());
        while let Some(&first) = rest.first() {
            let child = self.follow(at, first);
            let shared = self
                .nodes
                .get(child)
                .map(|node| (common(&node.label, rest), node.label.len()));
            (at, rest) = match shared {
                None => (self.add_child(at, rest), &[][..]),
                Some((shared, len)) if shared == len => (child, &rest[shared..]),
                Some((shared, _)) => (self.split(at, child, shared), &rest[shared..]),
            };
        }
        let Some(node) = self.nodes.get_mut(at) else {
            return 0;
        };
        self.filters += usize::from(node.here.is_empty());
        self.heap_bytes -= node.here.heap_bytes();
        let position = node.here.push(sink);
        self.heap_bytes += node.here.heap_bytes();
        position
    }

    /// Removes the sink at `position` of `prefix`, and whatever of the path leads nowhere then.
    pub(super) fn remove_at(&mut self, prefix: &str, position: usize) -> Option<(S, Option<S>)> {
        let mut at = self.find(prefix)?;
        let node = self.nodes.get_mut(at)?;
        let before = node.here.heap_bytes();
        let removed = node.here.swap_remove(position)?;
        self.heap_bytes = self.heap_bytes - before + node.here.heap_bytes();
        self.filters -= usize::from(node.here.is_empty());
        while let Some(node) = self.nodes.get(at)
            && at != ROOT
            && node.here.is_empty()
            && node.edges == 0
        {
            let (parent, label) = (node.parent, node.label.len());
            if let Some(&first) = node.label.first() {
                self.cut(parent, first);
            }
            self.heap_bytes -= allocation_bytes(label);
            self.nodes.remove(at);
            at = parent;
        }
        Some(removed)
    }

    pub(super) fn sinks(&self, prefix: &str) -> &[S] {
        match self.find(prefix).and_then(|at| self.nodes.get(at)) {
            Some(node) => node.here.as_slice(),
            None => &[],
        }
    }

    pub(super) fn sinks_mut(&mut self, prefix: &str) -> &mut [S] {
        match self.find(prefix).and_then(|at| self.nodes.get_mut(at)) {
            Some(node) => node.here.as_mut_slice(),
            None => &mut [],
        }
    }

    /// Shows `f` the sinks of all prefixes of `address` and returns how many nodes it looked at.
    pub(super) fn for_each_match(&self, address: &str, f: &mut impl FnMut(&S)) -> usize {
        if self.filters == 0 {
            return 0;
        }
        let (mut at, mut rest, mut visited) = (ROOT, address.as_bytes(), 0);
        while let Some(node) = self.nodes.get(at) {
            visited += 1;
            let Some(below) = rest.strip_prefix(&*node.label) else {
                break;
            };
            // The empty prefix does not match `$` addresses.
            if at != ROOT || !address.starts_with('$') {
                node.here.as_slice().iter().for_each(&mut *f);
            }
            rest = below;
            at = match rest.first() {
                Some(&first) if node.edges > 0 => self.follow(at, first),
                _ => NONE,
            };
        }
        visited
    }

    /// Shows `f` every filter, as its canonical rendering, with its sinks.
    pub(super) fn for_each(&self, f: &mut impl FnMut(&str, &[S])) {
        for (id, node) in self.nodes.iter() {
            if node.here.is_empty() {
                continue;
            }
            let mut labels = Vec::new();
            let mut at = id;
            while let Some(node) = self.nodes.get(at) {
                labels.push(&*node.label);
                at = node.parent;
            }
            labels.reverse();
            // Only whole texts were inserted.
            let mut filter = String::from_utf8_lossy(&labels.concat()).into_owned();
            filter.push(thalweg_model::filter::PREFIX_END);
            f(&filter, node.here.as_slice());
        }
    }

    pub(super) fn filters(&self) -> usize {
        self.filters
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.bytes() + self.edges.bytes() + self.heap_bytes
    }

    fn find(&self, prefix: &str) -> Option<u32> {
        let (mut at, mut rest) = (ROOT, prefix.as_bytes());
        while let Some(&first) = rest.first() {
            at = self.follow(at, first);
            rest = rest.strip_prefix(&*self.nodes.get(at)?.label)?;
        }
        Some(at)
    }

    fn follow(&self, from: u32, byte: u8) -> u32 {
        self.edges
            .find(edge_hash(&self.hasher, from, byte), |edge| {
                edge.from == from && edge.byte == byte
            })
            .map_or(NONE, |edge| edge.to)
    }

    fn add_child(&mut self, from: u32, label: &[u8]) -> u32 {
        let child = self.nodes.add(Node::new(from, label));
        self.heap_bytes += allocation_bytes(label.len());
        self.link(from, child, label);
        child
    }

    /// Puts a node between `child` and its parent, where their labels part, and returns it.
    fn split(&mut self, parent: u32, child: u32, shared: usize) -> u32 {
        let Some(node) = self.nodes.get_mut(child) else {
            return parent;
        };
        let label = std::mem::take(&mut node.label);
        let (above, below) = label.split_at(shared);
        node.label = below.into();
        self.heap_bytes -= allocation_bytes(label.len());
        self.heap_bytes += allocation_bytes(below.len());
        if let Some(&first) = above.first() {
            self.cut(parent, first);
        }
        let middle = self.add_child(parent, above);
        if let Some(node) = self.nodes.get_mut(child) {
            node.parent = middle;
        }
        self.link(middle, child, below);
        middle
    }

    fn link(&mut self, from: u32, to: u32, label: &[u8]) {
        let Some(&byte) = label.first() else { return };
        let hasher = &self.hasher;
        let edge = Edge { from, to, byte };
        self.edges
            .insert(edge_hash(hasher, from, byte), edge, |edge| {
                edge_hash(hasher, edge.from, edge.byte)
            });
        if let Some(node) = self.nodes.get_mut(from) {
            node.edges += 1;
        }
    }

    fn cut(&mut self, from: u32, byte: u8) {
        let hasher = &self.hasher;
        let removed = self.edges.remove(
            edge_hash(hasher, from, byte),
            |edge| edge.from == from && edge.byte == byte,
            |edge| edge_hash(hasher, edge.from, edge.byte),
        );
        if let (Some(_), Some(node)) = (removed, self.nodes.get_mut(from)) {
            node.edges -= 1;
        }
    }
}

impl<S> Node<S> {
    fn new(parent: u32, label: &[u8]) -> Self {
        Node {
            label: label.into(),
            parent,
            edges: 0,
            here: Sinks::None,
        }
    }
}

/// How many bytes two texts begin with alike.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn edge_hash(hasher: &FixedState, from: u32, byte: u8) -> u64 {
    hasher.hash_one(u64::from(from) << 8 | u64::from(byte))
}

/// Every path begins here.
const ROOT: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_one_sink_fits_in_48_bytes() {
        assert_eq!(size_of::<Node<(u32, u32)>>(), 40);
    }
}
