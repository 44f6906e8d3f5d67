//! Filters with wildcards: a trie over their levels.

use super::arena::{Arena, NONE};
use super::levels::Levels;
use super::sinks::Sinks;
use super::split_table::SplitTable;
use foldhash::fast::FixedState;
use smallvec::{SmallVec, smallvec};
use std::hash::BuildHasher;

/// Wildcard filters as paths: a node per level, the edges of all nodes in one hash table.
///
/// A match goes down level by level with the set of nodes that fit so far. A node is looked at at most once per match,
/// so a match never costs more than the filters that share its beginning, however the wildcards are arranged.
#[derive(Debug)]
pub(super) struct Trie<S> {
    nodes: Arena<Node<S>>,
    /// Literal levels: from a node and a level's number to the next node.
    edges: SplitTable<Edge>,
    levels: Levels,
    hasher: FixedState,
    filters: usize,
    list_bytes: usize,
}

#[derive(Debug)]
struct Node<S> {
    parent: u32,
    /// What leads here from the parent: the number of a level text, or [`ONE`].
    level: u32,
    /// The node behind `+`.
    one: u32,
    /// Edges that leave here.
    edges: u32,
    /// Of the filter that ends here.
    here: Sinks<S>,
    /// Of the filter that ends here with a further `#`. A node of its own would double what `a/#` costs.
    many: Sinks<S>,
}

#[derive(Debug)]
struct Edge {
    from: u32,
    level: u32,
    to: u32,
}

impl<S: Copy> Trie<S> {
    pub(super) fn new(hasher: FixedState) -> Self {
        let mut nodes = Arena::new();
        // The first value of an arena is named 0, and the root is never removed.
        nodes.add(Node::new(NONE, NONE));
        Trie {
            nodes,
            edges: SplitTable::new(),
            levels: Levels::new(hasher.clone()),
            hasher,
            filters: 0,
            list_bytes: 0,
        }
    }

    /// Adds a sink and returns its position on its filter.
    pub(super) fn insert(&mut self, filter: &str, sink: S) -> usize {
        let (path, many) = split(filter);
        let mut at = ROOT;
        for level in path.into_iter().flat_map(levels_of) {
            at = self.child_or_new(at, level);
        }
        let Some(node) = self.nodes.get_mut(at) else {
            return 0;
        };
        let sinks = node.sinks_mut(many);
        self.filters += sinks.is_empty() as usize;
        self.list_bytes -= sinks.heap_bytes();
        let position = sinks.push(sink);
        self.list_bytes += sinks.heap_bytes();
        position
    }

    /// Removes the sink at `position` of `filter`, and the part of the path that no other filter uses.
    pub(super) fn remove_at(&mut self, filter: &str, position: usize) -> Option<(S, Option<S>)> {
        let (path, many) = split(filter);
        let mut at = self.find(path)?;
        let sinks = self.nodes.get_mut(at)?.sinks_mut(many);
        let before = sinks.heap_bytes();
        let removed = sinks.swap_remove(position)?;
        self.list_bytes = self.list_bytes - before + sinks.heap_bytes();
        self.filters -= sinks.is_empty() as usize;
        // Upwards, as long as a node leads nowhere; the filter's own levels name the edges.
        let mut levels = path.into_iter().flat_map(|path| path.rsplit('/'));
        while let Some(node) = self.nodes.get(at)
            && at != ROOT
            && node.leads_nowhere()
        {
            let (parent, level) = (node.parent, node.level);
            self.nodes.remove(at);
            let Some(text) = levels.next() else { break };
            if level == ONE {
                if let Some(parent) = self.nodes.get_mut(parent) {
                    parent.one = NONE;
                }
            } else {
                self.cut(parent, level);
                self.levels.release(text);
            }
            at = parent;
        }
        Some(removed)
    }

    pub(super) fn sinks(&self, filter: &str) -> &[S] {
        let (path, many) = split(filter);
        match self.find(path).and_then(|at| self.nodes.get(at)) {
            Some(node) if many => node.many.as_slice(),
            Some(node) => node.here.as_slice(),
            None => &[],
        }
    }

    pub(super) fn sinks_mut(&mut self, filter: &str) -> &mut [S] {
        let (path, many) = split(filter);
        match self.find(path).and_then(|at| self.nodes.get_mut(at)) {
            Some(node) => node.sinks_mut(many).as_mut_slice(),
            None => &mut [],
        }
    }

    /// Shows `f` the sinks of all filters that match `address` and returns how many nodes it looked at.
    pub(super) fn for_each_match(&self, address: &str, f: &mut impl FnMut(&S)) -> usize {
        let Some(root) = self.nodes.get(ROOT) else {
            return 0;
        };
        if self.filters == 0 {
            return 1;
        }
        // A filter that begins with a wildcard does not match `$` addresses.
        let reserved = address.starts_with('$');
        if !reserved {
            root.many.as_slice().iter().for_each(&mut *f);
        }
        let mut visited = 1;
        let mut nodes: SmallVec<[(u32, &Node<S>); FRONTIER]> = smallvec![(ROOT, root)];
        let mut next: SmallVec<[(u32, &Node<S>); FRONTIER]> = SmallVec::new();
        let mut first = true;
        for text in address.split('/') {
            // Looked up once per level, not once per node; a text that no filter has leaves only the wildcards.
            let level = self.levels.find(text);
            for &(at, node) in &nodes {
                let literal = match level {
                    Some(level) if node.edges > 0 => self.follow(at, level),
                    _ => NONE,
                };
                let one = if first && reserved { NONE } else { node.one };
                for id in [literal, one] {
                    if let Some(child) = self.nodes.get(id) {
                        child.many.as_slice().iter().for_each(&mut *f);
                        next.push((id, child));
                    }
                }
            }
            visited += next.len();
            std::mem::swap(&mut nodes, &mut next);
            next.clear();
            if nodes.is_empty() {
                return visited;
            }
            first = false;
        }
        for (_, node) in &nodes {
            node.here.as_slice().iter().for_each(&mut *f);
        }
        visited
    }

    /// Shows `f` every filter with its sinks.
    pub(super) fn for_each(&self, f: &mut impl FnMut(&str, &[S])) {
        let texts = self.levels.by_id();
        let mut path = Vec::new();
        let mut filter = String::new();
        for (id, node) in self.nodes.iter() {
            if node.here.is_empty() && node.many.is_empty() {
                continue;
            }
            path.clear();
            let mut at = id;
            while let Some(node) = self.nodes.get(at)
                && at != ROOT
            {
                path.push(if node.level == ONE {
                    "+"
                } else {
                    texts.get(node.level as usize).unwrap_or(&"")
                });
                at = node.parent;
            }
            filter.clear();
            for (index, level) in path.iter().rev().enumerate() {
                if index > 0 {
                    filter.push('/');
                }
                filter.push_str(level);
            }
            if !node.here.is_empty() {
                f(&filter, node.here.as_slice());
            }
            if !node.many.is_empty() {
                filter.push_str(if path.is_empty() { "#" } else { "/#" });
                f(&filter, node.many.as_slice());
            }
        }
    }

    pub(super) fn filters(&self) -> usize {
        self.filters
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.bytes() + self.edges.bytes() + self.levels.bytes() + self.list_bytes
    }

    fn find(&self, path: Option<&str>) -> Option<u32> {
        let mut at = ROOT;
        for level in path.into_iter().flat_map(levels_of) {
            at = match level {
                "+" => self.nodes.get(at)?.one,
                text => self.follow(at, self.levels.find(text)?),
            };
        }
        (at != NONE).then_some(at)
    }

    fn follow(&self, from: u32, level: u32) -> u32 {
        let hash = edge_hash(&self.hasher, from, level);
        self.edges
            .find(hash, |edge| edge.from == from && edge.level == level)
            .map_or(NONE, |edge| edge.to)
    }

    fn child_or_new(&mut self, at: u32, level: &str) -> u32 {
        if level == "+" {
            let child = self.nodes.get(at).map_or(NONE, |node| node.one);
            if child != NONE {
                return child;
            }
            let child = self.nodes.add(Node::new(at, ONE));
            if let Some(node) = self.nodes.get_mut(at) {
                node.one = child;
            }
            return child;
        }
        if let Some(number) = self.levels.find(level) {
            let child = self.follow(at, number);
            if child != NONE {
                return child;
            }
        }
        let number = self.levels.hold(level);
        let child = self.nodes.add(Node::new(at, number));
        let hasher = &self.hasher;
        let edge = Edge {
            from: at,
            level: number,
            to: child,
        };
        self.edges
            .insert(edge_hash(hasher, at, number), edge, |edge| {
                edge_hash(hasher, edge.from, edge.level)
            });
        if let Some(node) = self.nodes.get_mut(at) {
            node.edges += 1;
        }
        child
    }

    fn cut(&mut self, from: u32, level: u32) {
        let hasher = &self.hasher;
        let removed = self.edges.remove(
            edge_hash(hasher, from, level),
            |edge| edge.from == from && edge.level == level,
            |edge| edge_hash(hasher, edge.from, edge.level),
        );
        if let (Some(_), Some(node)) = (removed, self.nodes.get_mut(from)) {
            node.edges -= 1;
        }
    }
}

impl<S: Copy> Node<S> {
    fn new(parent: u32, level: u32) -> Self {
        Node {
            parent,
            level,
            one: NONE,
            edges: 0,
            here: Sinks::None,
            many: Sinks::None,
        }
    }

    fn sinks_mut(&mut self, many: bool) -> &mut Sinks<S> {
        if many { &mut self.many } else { &mut self.here }
    }

    fn leads_nowhere(&self) -> bool {
        self.here.is_empty() && self.many.is_empty() && self.edges == 0 && self.one == NONE
    }
}

fn edge_hash(hasher: &FixedState, from: u32, level: u32) -> u64 {
    hasher.hash_one(u64::from(from) << 32 | u64::from(level))
}

/// A filter without its `#`, and whether it had one. The lone `#` leaves no path, not even one empty level.
fn split(filter: &str) -> (Option<&str>, bool) {
    if filter == "#" {
        return (None, true);
    }
    match filter.strip_suffix("/#") {
        Some(path) => (Some(path), true),
        None => (Some(filter), false),
    }
}

fn levels_of(path: &str) -> std::str::Split<'_, char> {
    path.split('/')
}

/// Every path begins here.
const ROOT: u32 = 0;

/// Stands for `+` where a level's number would.
const ONE: u32 = NONE - 1;

/// Nodes that may fit at the same time before a match allocates.
const FRONTIER: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_small_sinks_fits_in_48_bytes() {
        assert_eq!(size_of::<Node<u64>>(), 48);
        assert_eq!(size_of::<Edge>(), 12);
    }
}
