//! The supply chain: licences, bans and sources of every dependency against `deny.toml`, and a bill of materials.
//!
//! The rules are in cargo-deny's format, and this reads the part that needs no network, so that the test command depends
//! on no tool that it would have to build first.

mod sbom;

use crate::program::Program;
use crate::report::Outcome;
use serde_json::Value;
use spdx::{Expression, LicenseReq, Licensee, ParseMode};

/// Where the bill of materials is written, below the root of the tree.
const SBOM: &str = "target/thalweg.cdx.json";

/// Checks all packages of `Cargo.lock` and writes the bill of materials of the program `thalweg`.
pub fn run() -> Outcome {
    match checked() {
        Ok(outcome) => outcome,
        Err(why) => Outcome::failed(why),
    }
}

fn checked() -> Result<Outcome, String> {
    let read = |name: &str| {
        std::fs::read_to_string(crate::tree().join(name))
            .map_err(|error| format!("cannot read {name}: {error}"))
    };
    let rules = Rules::parse(&read("deny.toml")?)?;
    let metadata = ["metadata", "--format-version", "1", "--locked"];
    // No other step builds from this lock file, which goes stale when a crate of ours gets or loses a dependency.
    Program::cargo(metadata)
        .args(["--manifest-path", "fuzz/Cargo.toml"])
        .output()?;
    let (metadata, _) = Program::cargo(metadata).output()?;
    let metadata: Value =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let mut outcome = Outcome::default();
    let packages = packages(&metadata);
    packages
        .iter()
        .flat_map(|package| rules.faults(package))
        .for_each(|fault| outcome.fail(fault));
    let bill = sbom::of("thalweg", &metadata, &read("Cargo.lock")?)?;
    std::fs::write(crate::tree().join(SBOM), format!("{bill:#}\n"))
        .map_err(|error| format!("{SBOM}: {error}"))?;
    println!(
        "{} packages checked against deny.toml; bill of materials in {SBOM}",
        packages.len()
    );
    if outcome.failed == 0 {
        outcome.passed = 1;
    }
    Ok(outcome)
}

fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

/// The rules of `deny.toml` that can be judged without a network.
struct Rules {
    licences: Vec<Licensee>,
    banned: Vec<String>,
    registries: Vec<String>,
}

impl Rules {
    fn parse(toml: &str) -> Result<Self, String> {
        let toml: toml::Table = toml
            .parse()
            .map_err(|error| format!("deny.toml: {error}"))?;
        let list = |section: &str, key: &str| {
            toml.get(section)
                .and_then(|section| section.get(key))
                .and_then(|list| list.as_array())
                .ok_or(format!("deny.toml: [{section}] has no list `{key}`"))
        };
        let licence = |name: &toml::Value| {
            Licensee::parse(name.as_str().unwrap_or_default())
                .map_err(|error| format!("deny.toml: {name}: {error}"))
        };
        let texts = |list: &[toml::Value]| {
            list.iter()
                .filter_map(|text| text.as_str().map(str::to_owned))
                .collect()
        };
        let name = |ban: &toml::Value| {
            ban.get("crate")
                .and_then(|name| name.as_str())
                .map(str::to_owned)
        };
        Ok(Self {
            licences: list("licenses", "allow")?
                .iter()
                .map(licence)
                .collect::<Result<_, _>>()?,
            banned: list("bans", "deny")?
                .iter()
                .map(|ban| name(ban).ok_or(format!("deny.toml: {ban} names no crate")))
                .collect::<Result<_, _>>()?,
            registries: texts(list("sources", "allow-registry")?),
        })
    }

    /// Faults of one package of `cargo metadata`.
    fn faults(&self, package: &Value) -> Vec<String> {
        let (name, version) = (text(package, "name"), text(package, "version"));
        let mut faults = Vec::new();
        if let Err(why) = self.judge_licence(text(package, "license")) {
            faults.push(format!("{name} {version}: {why}"));
        }
        if self.banned.iter().any(|banned| banned == name) {
            faults.push(format!(
                "{name} {version} is banned by deny.toml; `cargo tree -i {name}` shows who needs it"
            ));
        }
        // A package of this workspace has no source.
        if let Some(source) = package["source"].as_str()
            && !self
                .registries
                .iter()
                .any(|registry| source == format!("registry+{registry}"))
        {
            faults.push(format!(
                "{name} {version} comes from {source}, which deny.toml does not allow"
            ));
        }
        faults
    }

    fn judge_licence(&self, expression: &str) -> Result<(), String> {
        // Lax: packages of before 2020 write `MIT/Apache-2.0`.
        let parsed = Expression::parse_mode(expression, ParseMode::LAX).map_err(|error| {
            format!(
                "its licence `{expression}` cannot be read: {}",
                error.reason
            )
        })?;
        let allowed = |needed: &LicenseReq| {
            self.licences
                .iter()
                .any(|licence| licence.satisfies(needed))
        };
        match parsed.evaluate(allowed) {
            true => Ok(()),
            false => Err(format!(
                "its licence `{expression}` is not allowed by deny.toml"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

    fn rules() -> Rules {
        Rules::parse(include_str!("../../deny.toml")).expect("the rules of this tree can be read")
    }

    fn faults(name: &str, license: &str, source: Value) -> usize {
        rules()
            .faults(
                &json!({ "name": name, "version": "1.0.0", "license": license, "source": source }),
            )
            .len()
    }

    #[test]
    fn one_permissive_licence_is_enough_and_each_of_several_joined_by_and_is_needed() {
        for (licence, expected) in [
            ("MIT", 0),
            ("MIT/Apache-2.0", 0),
            ("LGPL-2.1-or-later OR MIT", 0),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", 0),
            ("GPL-3.0-only", 1),
            ("MIT AND GPL-2.0-only", 1),
            ("", 1),
            ("see the file", 1),
        ] {
            assert_eq!(
                faults("some", licence, json!(CRATES_IO)),
                expected,
                "{licence}"
            );
        }
    }

    #[test]
    fn a_banned_package_and_one_from_elsewhere_are_refused() {
        assert_eq!(faults("openssl-sys", "MIT", json!(CRATES_IO)), 1);
        assert_eq!(
            faults("some", "MIT", json!("git+https://example.invalid/some")),
            1
        );
        assert_eq!(
            faults(
                "some",
                "MIT",
                json!("registry+https://example.invalid/index")
            ),
            1
        );
        assert_eq!(faults("ours", "MIT", Value::Null), 0);
    }

    #[test]
    fn rules_that_say_nothing_are_an_error() {
        assert!(Rules::parse("").is_err());
        assert!(
            Rules::parse("[licenses]\nallow = [\"no licence\"]\n[bans]\ndeny = []\n[sources]\nallow-registry = []")
                .is_err()
        );
    }
}
