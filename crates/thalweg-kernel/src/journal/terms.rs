//! What has terms of its own in the journal: queues, exchanges and bindings.
//!
//! There each is a group: a number, a name and a filter. The name says what it is, and no group that sessions share can
//! have it, because such names hold no `/`. The filter is a text of lines: the address first, then one term a line.

use std::fmt::Write;
use thalweg_model::syntax::ONE_LINE;
use thalweg_records::StoredGroup;

pub(crate) const QUEUE: &str = "/queue";
pub(crate) const EXCHANGE: &str = "/exchange";
pub(crate) const BINDING: &str = "/binding";

/// What one of them is, by its name in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoredTerms {
    /// Restored first: bindings need both ends.
    Exchange,
    Queue,
    Binding,
}

impl StoredTerms {
    /// Nothing if it is a group that sessions share, or something else.
    pub(crate) fn of(group: &StoredGroup) -> Option<Self> {
        match &*group.name {
            QUEUE => Some(StoredTerms::Queue),
            EXCHANGE => Some(StoredTerms::Exchange),
            BINDING => Some(StoredTerms::Binding),
            _ => None,
        }
    }
}

/// A text of lines.
#[derive(Default)]
pub(crate) struct TermLines(String);

impl TermLines {
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(name);
        self.0.push('=');
        ONE_LINE.write(value, &mut self.0);
    }

    pub(crate) fn add_number(&mut self, name: &str, value: impl Into<u64>) {
        let mut text = String::new();
        let _ = write!(text, "{}", value.into());
        self.add(name, &text);
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Shows `f` name and value of each line.
pub(crate) fn each_line(text: &str, mut f: impl FnMut(&str, String)) {
    for line in text.split('\n') {
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let mut read = String::new();
        ONE_LINE.read(value, &mut read);
        f(name, read);
    }
}

pub(crate) fn from_hex(text: &str) -> Box<[u8]> {
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        std::str::from_utf8(pair)
            .ok()
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    pairs.iter().filter_map(byte).collect()
}
