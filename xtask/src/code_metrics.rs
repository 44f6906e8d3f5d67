//! Counts that say how the code is shaped, as tables: lines, fields that others may write, parameters, recursion.
//!
//! Bodies are parsed, not searched for words. What a macro of ours would expand to is not seen, nor calls through function
//! pointers in fields.

mod calls;
mod harness;
mod krate;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::report::Outcome;
use crate::tidy::forbidden::test_modules;
use crate::tidy::protocols;
use crate::tidy::shape::code_lines;
use crate::tidy::source::{lines_outside_tests, without_strings};
use crate::tidy::tree::Tree;
use calls::Graph;
use krate::Krate;

/// The crate whose rooms are counted one by one, and its façade.
const KERNEL: &str = "crates/thalweg-kernel";
const FACADE: &str = "Kernel";

/// Functions with as many parameters or more are counted, `self` among them.
const PARAMETERS_MANY: usize = 6;

/// Structs with more fields are listed.
const FIELDS_MANY: usize = 15;

pub fn run() -> Outcome {
    let tree = match Tree::of_work_tree(&crate::tree()) {
        Ok(tree) => tree,
        Err(why) => return Outcome::failed(why),
    };
    let tables = |text| {
        Ok(format!(
            "{text}\n{}\n{}",
            protocols::table(&tree),
            harness::table(&tree)?
        ))
    };
    match report(&tree).and_then(tables) {
        Ok(text) => {
            println!("{text}");
            Outcome::passed(1)
        }
        Err(why) => Outcome::failed(why),
    }
}

/// A crate's files: path and text of production code, and code lines of tests.
#[derive(Default)]
struct Files<'t> {
    production: Vec<(&'t str, &'t str, usize)>,
    test_lines: usize,
}

/// All tables, as Markdown.
fn report(tree: &Tree) -> Result<String, String> {
    let for_tests = test_modules(tree);
    let mut crates: BTreeMap<String, Files<'_>> = BTreeMap::new();
    for (path, text) in tree.ending(".rs") {
        let Some(folder) = crate_of(path) else {
            continue;
        };
        let files = crates.entry(folder).or_default();
        let all = code_lines(text);
        let outside = match for_tests.contains(path) || path.contains("/src/tests/") {
            true => 0,
            false => production_lines(path, text),
        };
        files.test_lines += all - outside;
        if outside > 0 {
            files.production.push((path, text, outside));
        }
    }
    let mut out = String::from(
        "| crate | code lines | test lines | functions | six or more parameters | `too_many_arguments` allowed | \
         `pub(crate)` fields | `pub(super)` fields | `pub` fields of inner records | of other inner structs | largest cycle of functions | \
         calls not resolved |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut kernel = String::new();
    for (folder, files) in &crates {
        let mut parsed = Vec::new();
        for (path, text, _) in &files.production {
            let file = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
            parsed.push((*path, file));
        }
        let mut krate = Krate::default();
        for (path, file) in &parsed {
            krate.add(path, file);
        }
        let graph = Graph::of(&krate);
        let cycles = graph.cycles();
        let lines: usize = files.production.iter().map(|(_, _, lines)| lines).sum();
        let many = krate
            .functions
            .iter()
            .filter(|function| function.sig.inputs.len() >= PARAMETERS_MANY)
            .count();
        let (of_records, of_others) = krate.inner_fields();
        let structs = || krate.structs.values().flatten();
        let _ = writeln!(
            out,
            "| {} | {lines} | {} | {} | {many} | {} | {} | {} | {of_records} | {of_others} | {} | {} of {} |",
            folder.rsplit('/').next().unwrap_or_default(),
            files.test_lines,
            krate.functions.len(),
            krate.allows,
            structs().map(|found| found.crate_fields).sum::<usize>(),
            structs().map(|found| found.super_fields).sum::<usize>(),
            cycles.first().map_or(1, Vec::len),
            graph.unresolved,
            graph.unresolved + graph.edges,
        );
        if folder == KERNEL {
            kernel = of_kernel(&krate, &cycles, files);
        }
    }
    Ok(format!("{out}\n{kernel}"))
}

/// Figures of the kernel only.
fn of_kernel(krate: &Krate<'_>, cycles: &[Vec<usize>], files: &Files<'_>) -> String {
    let mut out = String::from("| the kernel | |\n|---|---|\n");
    let fields = |name: &str| {
        let found = krate.structs.get(name).into_iter().flatten();
        found.map(|found| found.fields.len()).max().unwrap_or(0)
    };
    let _ = writeln!(out, "| fields of `{FACADE}` | {} |", fields(FACADE));
    let wide: Vec<String> = krate
        .structs
        .keys()
        .filter(|name| *name != FACADE && fields(name) > FIELDS_MANY)
        .map(|name| format!("`{name}` {}", fields(name)))
        .collect();
    let _ = writeln!(
        out,
        "| other structs with more than {FIELDS_MANY} fields | {} |",
        wide.join(", ")
    );
    let verbs = krate.traits.get("Effects").copied().unwrap_or(0);
    let _ = writeln!(out, "| verbs of `Effects` | {verbs} |");
    let assigning = krate.assigning("bytes_held");
    let in_files: BTreeSet<&str> = assigning.iter().map(|function| function.file).collect();
    let _ = writeln!(
        out,
        "| functions that assign `bytes_held` | {} in {} files |",
        assigning.len(),
        in_files.len()
    );
    for cycle in cycles {
        let mut names: Vec<String> = cycle
            .iter()
            .map(|at| krate.functions[*at].title())
            .collect();
        names.sort_unstable();
        let _ = writeln!(out, "| cycle of {} | {} |", names.len(), names.join(", "));
    }
    let mut rooms: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (path, _, lines) in &files.production {
        let room = path.trim_start_matches(KERNEL).trim_start_matches("/src/");
        let room = match room.split_once('/') {
            Some((folder, _)) => format!("{folder}/"),
            None => room.to_owned(),
        };
        let counts = rooms.entry(room).or_default();
        *counts = (counts.0 + lines, counts.1 + 1);
    }
    let mut rooms: Vec<_> = rooms.into_iter().collect();
    rooms.sort_by_key(|(name, (lines, _))| (std::cmp::Reverse(*lines), name.clone()));
    out.push_str("\n| room of the kernel | code lines | files |\n|---|--:|--:|\n");
    for (room, (lines, count)) in rooms {
        let _ = writeln!(out, "| `{room}` | {lines} | {count} |");
    }
    out
}

/// The folder of a file's crate; none for files that belong to no crate of the workspace.
fn crate_of(path: &str) -> Option<String> {
    let mut parts = path.split('/');
    match parts.next()? {
        "crates" => Some(format!("crates/{}", parts.next()?)),
        "xtask" => Some("xtask".to_owned()),
        _ => None,
    }
}

/// Code lines that are not in tests, benches or `#[cfg(test)]` modules.
fn production_lines(path: &str, text: &str) -> usize {
    let bare = without_strings(text);
    let last = lines_outside_tests(path, &bare)
        .last()
        .map_or(0, |(number, _)| number);
    let kept: Vec<&str> = text.lines().take(last).collect();
    code_lines(&kept.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(files: &[(&'static str, &str)]) -> Vec<(&'static str, syn::File)> {
        let parse = |(path, text): &(&'static str, &str)| {
            (*path, syn::parse_file(text).expect("the fixture parses"))
        };
        files.iter().map(parse).collect()
    }

    fn cycles(files: &[(&'static str, &str)]) -> Vec<Vec<String>> {
        let files = parsed(files);
        let mut krate = Krate::default();
        files.iter().for_each(|(path, file)| krate.add(path, file));
        let name_all = |cycle: Vec<usize>| {
            let mut names: Vec<String> = cycle
                .iter()
                .map(|at| krate.functions[*at].title())
                .collect();
            names.sort_unstable();
            names
        };
        Graph::of(&krate)
            .cycles()
            .into_iter()
            .map(name_all)
            .collect()
    }

    const STORE: &str = "
        pub struct Store { kept: Option<Box<Inner>>, many: Vec<Inner> }
        pub struct Inner { back: u8 }
    ";

    #[test]
    fn methods_that_call_each_other_by_self_are_a_cycle() {
        let text = "struct A; impl A { fn x(&self) { self.y() } fn y(&self) { self.z(); } fn z(&self) { self.x() } fn w(&self) { self.x() } }";
        assert_eq!(cycles(&[("a.rs", text)]), [["A::x", "A::y", "A::z"]]);
    }

    #[test]
    fn a_method_of_the_same_name_on_another_type_is_none_of_ours() {
        let text = "
            struct A { b: B } struct B;
            impl A { fn x(&self) { self.y() } fn y(&self) { self.b.x() } }
            impl B { fn x(&self) {} }";
        assert_eq!(cycles(&[("a.rs", text)]), [[""; 0]; 0]);
    }

    #[test]
    fn calls_through_fields_options_and_locals_are_followed() {
        for call in [
            "if let Some(inner) = &self.kept { inner.up(self) }",
            "self.kept.as_ref().unwrap().up(self)",
            "for inner in &self.many { inner.up(self) }",
            "let Store { kept, .. } = self; let Some(inner) = kept else { return }; inner.up(self)",
            "let inner: &Inner = todo(); inner.up(self)",
            "self.inner().up(self)",
            "assert!(self.inner().up(self))",
            "Inner::up(todo(), self)",
            "walk(Inner::up)",
            "match self.inner() { inner => inner.up(self) }",
            "self.many.iter().for_each(|_| self.inner().up(self))",
        ] {
            let text = format!(
                "{STORE} impl Store {{ fn go(&self) {{ {call} }} fn inner(&self) -> &Inner {{ todo() }} }}
                 impl Inner {{ fn up(&self, store: &Store) {{ store.go() }} }}"
            );
            assert_eq!(
                cycles(&[("a.rs", &text)]),
                [["Inner::up", "Store::go"]],
                "{call}"
            );
        }
    }

    #[test]
    fn free_functions_are_found_by_file_and_by_module() {
        let one = "pub fn send(n: u8) { two::send(n) }";
        let two = "pub fn send(n: u8) { one::send(n) } fn other() { send(1) }";
        let found = cycles(&[("src/one.rs", one), ("src/two.rs", two)]);
        assert_eq!(found, [["send", "send"]]);
        let two = "pub fn send(n: u8) { three::send(n) }";
        assert_eq!(cycles(&[("src/one.rs", one), ("src/two.rs", two)]).len(), 0);
    }

    #[test]
    fn a_generic_that_is_bound_by_a_trait_calls_its_implementations() {
        let text = "
            trait Out { fn put(&mut self); }
            struct A; impl A { fn go<E: Out>(&self, out: &mut E) { out.put() } }
            struct B { a: A } impl Out for B { fn put(&mut self) { self.a.go(self) } }";
        assert_eq!(cycles(&[("a.rs", text)]), [["A::go", "B::put"]]);
    }

    #[test]
    fn assignments_fields_and_allows_are_counted_outside_tests() {
        let text = "
            pub struct A { pub(crate) held: u64, pub(super) b: u8, pub c: u8, d: u8 }
            impl A {
                fn one(&mut self) { self.held += 1; }
                #[allow(clippy::too_many_arguments)]
                fn two(&mut self) { if true { self.held = 2; } }
                #[expect(clippy::too_many_arguments, reason = \"hot\")]
                fn reads(&self) -> u64 { self.held + self.held }
            }
            #[cfg(test)]
            mod tests { fn three(a: &mut super::A) { a.held = 3; } }";
        let files = parsed(&[("a.rs", text)]);
        let mut krate = Krate::default();
        files.iter().for_each(|(path, file)| krate.add(path, file));
        let names: Vec<&str> = krate
            .assigning("held")
            .iter()
            .map(|function| function.name.as_str())
            .collect();
        assert_eq!(names, ["one", "two"]);
        let a = &krate.structs["A"][0];
        assert_eq!((a.crate_fields, a.super_fields, a.fields.len()), (1, 1, 4));
        assert_eq!(krate.allows, 2);
    }

    #[test]
    fn public_fields_of_inner_structs_are_counted_and_plain_records_apart() {
        let text = "
            pub struct Public { pub a: u8 }
            struct Record { pub a: u8, pub b: u8 } impl Record { fn sum(&self) -> u8 { self.a + self.b } }
            pub(crate) struct Hides { pub a: u8, b: u8 }
            struct Changed { pub a: u8 } impl Changed { fn raise(&mut self) { self.a += 1; } }";
        let files = parsed(&[("a.rs", text)]);
        let mut krate = Krate::default();
        files.iter().for_each(|(path, file)| krate.add(path, file));
        assert_eq!(krate.inner_fields(), (2, 2));
    }

    #[test]
    fn lines_of_tests_stand_apart() {
        let text = "fn a() {}\n\n// b\nfn c() {}\n#[cfg(test)]\nmod tests {\n    fn d() {}\n}\n";
        let tree = Tree::fixture(&[
            ("crates/x/src/lib.rs", text),
            ("crates/x/tests/y.rs", "fn e() {}\n"),
            ("bindings/z.rs", "fn f() {}\n"),
        ]);
        let report = report(&tree).expect("the fixture parses");
        let row = report.lines().nth(2).unwrap_or_default();
        assert!(row.starts_with("| x | 2 | 5 | 2 |"), "{row}");
    }
}
