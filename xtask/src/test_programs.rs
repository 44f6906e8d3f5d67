//! Test programs that cargo has built: where they are, and where they run.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A test program that is built.
#[derive(Debug, PartialEq)]
pub struct TestProgram {
    pub package: String,
    /// Its package and target as cargo takes them, `-p thalweg-kernel --test queues`.
    pub name: String,
    pub file: String,
    /// The folder of its package, in which cargo runs it.
    pub folder: PathBuf,
}

/// The test programs in cargo's messages (`--message-format json`); a crate's own come before those of its `tests` folder.
pub fn built(messages: &str) -> Vec<TestProgram> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs: Vec<TestProgram> = messages.filter_map(|it| program(&it)).collect();
    programs.sort_by_key(|test| (!test.name.ends_with("--lib"), test.name.clone()));
    programs
}

fn program(message: &Value) -> Option<TestProgram> {
    if message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let target = match (&message["target"]["kind"][0], &message["target"]["name"]) {
        (Value::String(kind), _) if kind == "lib" => "--lib".to_owned(),
        (Value::String(kind), Value::String(name)) => format!("--{kind} {name}"),
        _ => return None,
    };
    Some(TestProgram {
        name: format!("-p {package} {target}"),
        package,
        file: message["executable"].as_str()?.to_owned(),
        folder: folder.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_messages_of_cargo() {
        let artifact = |name: &str, kind: &str, is_test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "manifest_path": "/work/crates/thalweg-kernel/Cargo.toml",
                "target": { "kind": [kind], "name": name },
                "profile": { "test": is_test },
                "executable": is_test.then(|| format!("/target/{name}-1")),
            })
            .to_string()
        };
        let messages = [
            artifact("queues", "test", true),
            artifact("thalweg_kernel", "lib", false),
            "no message".to_owned(),
            artifact("thalweg_kernel", "lib", true),
        ];
        let found = built(&messages.join("\n"));
        let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            names,
            ["-p thalweg-kernel --lib", "-p thalweg-kernel --test queues"]
        );
        assert_eq!(found[1].file, "/target/queues-1");
        assert_eq!(found[1].folder, Path::new("/work/crates/thalweg-kernel"));
    }
}
