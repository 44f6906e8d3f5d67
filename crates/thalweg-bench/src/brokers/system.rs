//! The systems there are: their names, what they speak, where they are and what installs them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde::Deserialize;

use super::{NoBroker, native};
use crate::cell::Protocol;

/// A program that can be measured as broker.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Its name in cells.
    pub name: String,
    speaks: Vec<Protocol>,
    /// The command that installs it (Debian).
    pub install: String,
    /// Its program: the first of these that is there, in the path or by its whole name.
    #[serde(default)]
    programs: Vec<String>,
    /// One of ours in C instead.
    native: Option<String>,
    /// The environment variable that may name it.
    variable: Option<String>,
    /// What has to be there besides.
    #[serde(default)]
    needs: Vec<String>,
    /// What it is asked for its version with.
    #[serde(default)]
    version: Vec<String>,
    /// Folders with its version in their name instead, and what they begin with.
    #[serde(default)]
    version_folders: Vec<String>,
    /// Publishers and subscribers have nothing between them.
    #[serde(default)]
    pub is_peers: bool,
    /// How it is started; peers are not.
    pub launch: Option<Recipe>,
}

/// How a system is started.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    pub file: Option<String>,
    pub configuration: String,
    pub when: BTreeMap<String, String>,
    /// The same once for each protocol.
    pub each: BTreeMap<String, String>,
    pub between: String,
    /// What is before each setting of the cell among the arguments; else they are in the configuration.
    pub set: Option<String>,
    pub ports: BTreeMap<String, u16>,
    /// What a protocol needs to be switched on.
    pub plugins: BTreeMap<Protocol, String>,
    /// Further files of its folder.
    pub files: BTreeMap<String, String>,
    pub arguments: Vec<String>,
    pub environment: BTreeMap<String, String>,
    /// A program that has to run beside it, and its arguments.
    pub before: Vec<String>,
    /// What it says when it is ready, besides accepting.
    pub says: Option<String>,
    /// How long it may take, without other work on the machine much less.
    pub patience_s: Option<u64>,
    /// What it says that was built without something, and what makes one with it.
    pub lacks: BTreeMap<String, String>,
    /// What is to be known of it besides what it was told.
    pub note: String,
}

impl System {
    pub fn all() -> &'static [System] {
        #[derive(Deserialize)]
        struct Table {
            system: Vec<System>,
        }
        static ALL: LazyLock<Vec<System>> = LazyLock::new(|| {
            let table = toml::from_str::<Table>(include_str!("systems.toml"));
            table.map_or_else(
                |error| panic!("systems.toml: {error}"),
                |table| table.system,
            )
        });
        &ALL
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<&'static System> {
        System::all().iter().find(|system| system.name == name)
    }

    /// Whether it has a listener for a protocol.
    pub fn speaks(&self, protocol: Protocol) -> bool {
        self.speaks.contains(&protocol)
    }

    pub fn program(&self) -> Result<PathBuf, NoBroker> {
        if let Some(name) = &self.native {
            return native::peer(name);
        }
        let named = self.variable.as_ref().and_then(std::env::var_os);
        let names: Vec<&str> = self.programs.iter().map(String::as_str).collect();
        let beside = || {
            let own = std::env::current_exe().ok()?;
            let mut beside = names.iter().map(|name| own.with_file_name(name));
            beside.find(|file| file.is_file())
        };
        let program = named
            .map(PathBuf::from)
            .or_else(beside)
            .or_else(|| found(&names));
        let has_all = self.needs.iter().all(|name| found(&[name]).is_some());
        let program = program.filter(|_| has_all);
        program.ok_or_else(|| NoBroker::Absent(self.install.clone()))
    }

    /// Name and version as the program says it.
    pub fn version(&self) -> Result<String, NoBroker> {
        let program = self.program()?;
        let of_folders = || {
            self.version_folders
                .iter()
                .find_map(|prefix| folder_of(prefix))
        };
        let text = match self.version_folders.is_empty() {
            true => said(&program, &self.version)?,
            false => of_folders().ok_or_else(|| io::Error::other("no folder has its version"))?,
        };
        let mut lines = text.lines();
        let line = lines.find(|line| line.contains(|c: char| c.is_ascii_digit()));
        let line = line.and_then(|line| line.split(" -- ").next());
        Ok(line.unwrap_or_default().trim().to_owned())
    }
}

/// The first of these programs that is in the path or where Debian keeps servers.
pub(crate) fn found(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .collect();
    let mut files = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.find(|file| file.is_file())
}

/// What a program says, on whichever output, however it ends.
fn said(program: &Path, arguments: &[String]) -> io::Result<String> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).output()?;
    let text = match output.stdout.is_empty() {
        true => output.stderr,
        false => output.stdout,
    };
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The last entry of a folder whose path begins so: name and version.
fn folder_of(prefix: &str) -> Option<String> {
    let (folder, prefix) = prefix.rsplit_once('/')?;
    let entries = fs::read_dir(folder).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let last = names.filter(|name| name.starts_with(prefix)).max()?;
    Some(last.replacen('-', " ", 1))
}
