//! Tests of both ends.

mod elements;
mod jids;
mod properties;

use crate::*;

fn limits() -> Limits {
    Limits {
        handshake_bytes_max: 600,
        stanza_bytes_max: 1000,
        token_bytes_max: 200,
        depth_max: 6,
        attributes_max: 8,
        elements_max: 20,
    }
}

/// Text and elements of one document.
fn parse<'b>(text: &'b str, tree: &'b mut Tree) -> Element<'b> {
    parse_document(text.as_bytes(), &Limits::default(), tree).unwrap_or_else(|| panic!("{text}"))
}
