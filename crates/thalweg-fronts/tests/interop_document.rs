//! `docs/interop.md` says what the capability records say.

use std::path::Path;

/// `UPDATE_DOCS=1 cargo test -p thalweg-fronts documents` writes the file anew.
#[test]
fn documents_tell_what_becomes_of_messages_between_protocols() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/interop.md");
    let document = thalweg_fronts::capabilities::document();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &document).expect("the tree is writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == document, "docs/interop.md is stale: run `cargo xtask docs --bless`");
}
