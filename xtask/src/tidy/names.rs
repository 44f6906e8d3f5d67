//! Names of types and files say what the thing is.

use super::Breach;
use super::source::code_only;
use super::tree::Tree;

/// Type names that do not describe a value.
const EMPTY: [&str; 6] = ["Said", "Told", "Heard", "Kind", "Line", "Taker"];

/// A file with this name holds whatever did not fit elsewhere.
const EMPTY_FILE: &str = "words.rs";

/// A type is named by what it is: `FrontEvent`, not `Heard`; `AckStatus`, not `Said`.
pub fn names_say_what_a_type_is(tree: &Tree) -> Vec<Breach> {
    let mut found = Vec::new();
    for (path, text) in tree.ending(".rs") {
        if path.ends_with(&format!("/{EMPTY_FILE}")) {
            found.push(Breach::of(path, "name the file by what is in it"));
        }
        let has_one = |text: &str| EMPTY.iter().any(|name| text.contains(name));
        if !has_one(text) {
            continue;
        }
        let code = code_only(text);
        for (number, line) in code.lines().enumerate().filter(|(_, line)| has_one(line)) {
            if let Some(name) = declared(line).filter(|name| EMPTY.contains(name)) {
                let what = format!("`{name}` says nothing: name the type by what it is");
                found.push(Breach::at(path, number + 1, what));
            }
        }
    }
    found
}

/// The name of the type that a line declares.
fn declared(line: &str) -> Option<&str> {
    let mut words = line
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty());
    words.find(|word| ["struct", "enum", "trait", "type", "union"].contains(word))?;
    words.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_say_nothing_are_found() {
        let count = |path, text| names_say_what_a_type_is(&Tree::fixture(&[(path, text)])).len();
        assert_eq!(
            count("crates/x/src/a.rs", "pub(crate) struct Said<'a> {\n"),
            1
        );
        assert_eq!(
            count("crates/x/src/a.rs", "type Told = u8;\nenum Heard {}\n"),
            2
        );
        assert_eq!(
            count("crates/x/src/a.rs", "struct SaidTwice;\n// enum Heard\n"),
            0
        );
        assert_eq!(
            count("crates/x/src/a.rs", "fn f(kind: Kind) {}\n"),
            0,
            "a use"
        );
        assert_eq!(count("crates/x/src/words.rs", ""), 1);
        assert_eq!(count("crates/x/src/keywords.rs", ""), 0);
    }
}
