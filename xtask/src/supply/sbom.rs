//! A CycloneDX 1.5 bill of materials: what is linked into a program, where it comes from, and what needs what.

use super::{packages, text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The bill of the package `program`: everything it is built from, without what only tests need.
pub fn of(program: &str, metadata: &Value, lock: &str) -> Result<Value, String> {
    let by_id: BTreeMap<&str, &Value> = packages(metadata)
        .iter()
        .map(|package| (text(package, "id"), package))
        .collect();
    let root = by_id
        .values()
        .find(|package| text(package, "name") == program);
    let root = text(
        root.ok_or(format!("cargo metadata knows no package {program}"))?,
        "id",
    );
    let needs = needs(metadata);
    let checksums = checksums(lock)?;

    let mut reached = BTreeSet::from([root]);
    let mut to_visit = vec![root];
    while let Some(id) = to_visit.pop() {
        for &needed in needs.get(id).into_iter().flatten() {
            if reached.insert(needed) {
                to_visit.push(needed);
            }
        }
    }
    let url = |id: &str| {
        by_id
            .get(id)
            .map_or_else(String::new, |package| purl(package))
    };
    let component = |package: &Value| {
        let kind = if text(package, "id") == root {
            "application"
        } else {
            "library"
        };
        let mut component = json!({
            "type": kind,
            "bom-ref": purl(package),
            "name": text(package, "name"),
            "version": text(package, "version"),
            "purl": purl(package),
            "licenses": [{ "expression": text(package, "license").replace('/', " OR ") }],
        });
        let key = (
            text(package, "name").to_owned(),
            text(package, "version").to_owned(),
        );
        if let Some(checksum) = checksums.get(&key) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    };
    let libraries = reached
        .iter()
        .filter(|id| **id != root)
        .filter_map(|id| by_id.get(id));
    let depends = |id: &&str| {
        let on: Vec<String> = needs
            .get(id)
            .into_iter()
            .flatten()
            .map(|id| url(id))
            .collect();
        json!({ "ref": url(id), "dependsOn": on })
    };
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(by_id[root]) },
        "components": libraries.map(|package| component(package)).collect::<Vec<_>>(),
        "dependencies": reached.iter().map(depends).collect::<Vec<_>>(),
    }))
}

/// By package, the packages that it is linked with or built by.
fn needs(metadata: &Value) -> BTreeMap<&str, BTreeSet<&str>> {
    let nodes = metadata["resolve"]["nodes"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let is_built_with = |needed: &&Value| {
        let kinds = needed["dep_kinds"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        kinds
            .iter()
            .any(|kind| kind["kind"].as_str() != Some("dev"))
    };
    let of = |node: &'_ Value| -> Vec<String> {
        let deps = node["deps"].as_array().map_or(&[][..], Vec::as_slice);
        deps.iter()
            .filter(is_built_with)
            .map(|needed| text(needed, "pkg").to_owned())
            .collect()
    };
    let ids: BTreeSet<&str> = nodes.iter().map(|node| text(node, "id")).collect();
    nodes
        .iter()
        .map(|node| {
            (
                text(node, "id"),
                of(node)
                    .iter()
                    .filter_map(|id| ids.get(id.as_str()).copied())
                    .collect(),
            )
        })
        .collect()
}

/// SHA-256 of each package of a registry, by name and version, from `Cargo.lock`.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>, String> {
    let lock: toml::Table = lock
        .parse()
        .map_err(|error| format!("Cargo.lock: {error}"))?;
    let packages = lock
        .get("package")
        .and_then(|packages| packages.as_array())
        .cloned()
        .unwrap_or_default();
    let text = |package: &toml::Value, key: &str| {
        package
            .get(key)
            .and_then(|text| text.as_str())
            .map(str::to_owned)
    };
    Ok(packages
        .iter()
        .filter_map(|package| {
            Some((
                (text(package, "name")?, text(package, "version")?),
                text(package, "checksum")?,
            ))
        })
        .collect())
}

/// A package's URL: <https://github.com/package-url/purl-spec>, type `cargo`.
fn purl(package: &Value) -> String {
    format!(
        "pkg:cargo/{}@{}",
        text(package, "name"),
        text(package, "version")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_has_what_is_linked_and_not_what_only_tests_need() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let needs = |pkg: &str, kind: Value| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package("program"), package("linked"), package("deep"), package("tests"), package("other")],
            "resolve": { "nodes": [
                { "id": "program", "deps": [needs("linked", Value::Null), needs("tests", json!("dev"))] },
                { "id": "linked", "deps": [needs("deep", json!("build"))] },
                { "id": "deep", "deps": [] },
                { "id": "tests", "deps": [] },
                { "id": "other", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"deep\"\nversion = \"1.0.0\"\nchecksum = \"ab12\"\n";
        let bill = of("program", &metadata, lock).expect("the program is there");
        let names: Vec<_> = packages_of(&bill)
            .iter()
            .map(|component| text(component, "name"))
            .collect();
        assert_eq!(names, ["deep", "linked"]);
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "ab12");
        assert_eq!(
            bill["components"][1]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        assert_eq!(
            bill["dependencies"][2],
            json!({ "ref": "pkg:cargo/program@1.0.0", "dependsOn": ["pkg:cargo/linked@1.0.0"] })
        );
        assert!(of("nothing", &metadata, lock).is_err());
    }

    fn packages_of(bill: &Value) -> &[Value] {
        bill["components"].as_array().map_or(&[], Vec::as_slice)
    }
}
