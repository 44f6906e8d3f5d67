//! Installs the foreign clients below `target/interop`: pinned versions from each language's own registry, and Debian's czmq
//! and Fast DDS.
//!
//! A stamp beside each library holds what it was made from, so a second run does nothing, and a changed pin or puppet is
//! built anew.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::program::Program;

const MAVEN_COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// Installs whatever is missing or stale.
pub fn install() -> Result<(), String> {
    for (language, build) in [
        ("python", python as fn(&Path, &Path) -> _),
        ("javascript", javascript),
        ("java", java),
        ("go", go),
        ("c", c),
        ("cpp", cpp),
        ("rust", rust),
    ] {
        let sources = crate::tree()
            .join("crates/thalweg-tests/interop")
            .join(language);
        let folder = crate::tree().join("target/interop").join(language);
        let stamp = stamp_of(&sources)?;
        let stamp_file = folder.join("stamp");
        if fs::read_to_string(&stamp_file).is_ok_and(|old| old == stamp) {
            continue;
        }
        println!(
            "installing the {language} clients into {}",
            folder.display()
        );
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        build(&sources, &folder).map_err(|why| {
            format!(
                "the {language} clients cannot be installed (is the registry reachable?): {why}"
            )
        })?;
        fs::write(&stamp_file, stamp)
            .map_err(|error| format!("{}: {error}", stamp_file.display()))?;
    }
    Ok(())
}

/// A virtual environment of wheels whose hashes are pinned. The puppets run from the tree.
fn python(sources: &Path, folder: &Path) -> Result<(), String> {
    Program::new("python3")
        .args(["-m", "venv"])
        .args([folder])
        .run()?;
    Program::new(&text(&folder.join("bin/python")))
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "-r",
        ])
        .args([sources.join("requirements.txt")])
        .run()
}

/// Node looks for libraries beside the program, so the puppet is copied to them.
fn javascript(sources: &Path, folder: &Path) -> Result<(), String> {
    for path in files(sources)? {
        let name = path.file_name().ok_or("a file has a name")?;
        fs::copy(&path, folder.join(name))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Program::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
        .folder(folder)
        .run()
}

/// Maven fetches the jars, javac compiles the puppet; no other Maven plug-in is needed.
fn java(sources: &Path, folder: &Path) -> Result<(), String> {
    // Maven makes a `target` beside its pom; the tree stays clean.
    let pom = folder.join("pom.xml");
    fs::copy(sources.join("pom.xml"), &pom)
        .map_err(|error| format!("{}: {error}", pom.display()))?;
    let output = format!("-DoutputDirectory={}", folder.join("lib").display());
    Program::new("mvn")
        .args(["-q", "-B", "-f"])
        .args([&pom])
        .args([MAVEN_COPY, &output])
        .run()?;
    Program::new("javac")
        .args(["-cp", &format!("{}/*", folder.join("lib").display()), "-d"])
        .args([folder.join("classes")])
        .args(["HivemqPeer.java", "JeromqPeer.java"].map(|name| sources.join(name)))
        .run()
}

/// A program per library; go.sum pins every module's hash. Nothing is optimised, and nothing is for a debugger: that is a third
/// of the work.
fn go(sources: &Path, folder: &Path) -> Result<(), String> {
    Program::new("go")
        .env("CGO_ENABLED", "0")
        .args(["build", "-mod=readonly", "-buildvcs=false"])
        .args(["-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w", "-o"])
        .args([
            &format!("{}/", folder.display()),
            "./paho3",
            "./paho5",
            "./amqp091",
            "./coap",
            "./zmq4",
        ])
        .folder(sources)
        .run()
        .map_err(|why| {
            format!("{why} (go.mod asks for Go 1.24; Debian 12's is older, see https://go.dev/dl)")
        })
}

/// Libraries of Debian's; the program is ours.
fn c(sources: &Path, folder: &Path) -> Result<(), String> {
    Program::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([folder.join("czmq_peer"), sources.join("czmq_peer.c")])
        .args(["-lczmq", "-lzmq"])
        .run()
}

/// Debian's Fast DDS, which ROS 2 speaks DDS with unless it is told otherwise.
fn cpp(sources: &Path, folder: &Path) -> Result<(), String> {
    Program::new("c++")
        .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([
            folder.join("fastdds_peer"),
            sources.join("fastdds_peer.cpp"),
        ])
        .args(["-lfastrtps"])
        .run()
}

/// A workspace of its own, with a lock file of its own.
fn rust(sources: &Path, folder: &Path) -> Result<(), String> {
    Program::cargo(["build", "--quiet", "--locked"])
        .env("CARGO_TARGET_DIR", &text(&folder.join("target")))
        .folder(sources)
        .run()
}

/// Where the participant of Fast DDS is.
pub fn fastdds_program() -> String {
    text(&crate::tree().join("target/interop/cpp/fastdds_peer"))
}

/// Where Python with the clients' libraries is.
pub fn python_program() -> String {
    text(&crate::tree().join("target/interop/python/bin/python"))
}

fn stamp_of(sources: &Path) -> Result<String, String> {
    let mut hasher = DefaultHasher::new();
    for path in files(sources)? {
        path.hash(&mut hasher);
        fs::read(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?
            .hash(&mut hasher);
    }
    Ok(format!("{:016x}\n", hasher.finish()))
}

/// All files below a folder, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry
            .map_err(|error| format!("{}: {error}", folder.display()))?
            .path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A path as text.
pub fn text(path: &Path) -> String {
    path.display().to_string()
}
