//! A network namespace with a name.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::tools::run;

/// A network namespace, as `ip netns` keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    name: String,
}

impl Space {
    /// Makes it; one of this name that is left from before is removed first.
    pub fn make(name: &str) -> io::Result<Space> {
        let space = Space {
            name: name.to_owned(),
        };
        if space.is_there() {
            space.remove()?;
        }
        run("ip", &["netns", "add", name], "")?;
        Ok(space)
    }

    /// The one of this name, there or not.
    pub fn named(name: &str) -> Space {
        Space {
            name: name.to_owned(),
        }
    }

    /// Names of all there are.
    pub fn all() -> Vec<String> {
        let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is there.
    pub fn is_there(&self) -> bool {
        self.file().exists()
    }

    /// Removes it, its devices with it as soon as no process is in it.
    pub fn remove(&self) -> io::Result<()> {
        run("ip", &["netns", "del", &self.name], "").map(drop)
    }

    /// Moves this thread into it: what it opens, starts and spawns from now on is there as well. A thread cannot leave
    /// it again.
    pub fn enter(&self) -> io::Result<()> {
        let file = File::open(self.file()).map_err(|error| {
            io::Error::new(error.kind(), format!("no namespace {}: {error}", self.name))
        })?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|error| {
            io::Error::other(format!(
                "the namespace {} cannot be entered: {error}; this needs root",
                self.name
            ))
        })
    }

    /// Does something in it, on a thread of its own, and waits for that.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                self.enter()?;
                work()
            });
            inside
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("what ran in the namespace panicked")))
        })
    }

    /// A command that will run in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Feeds lines to `ip -batch` in it.
    pub fn batch(&self, lines: &str) -> io::Result<()> {
        run("ip", &["-n", &self.name, "-batch", "-"], lines).map(drop)
    }

    /// Says a setting of the network, as a path below `/proc/sys/net`. What this kernel does not have is left out.
    pub fn set(&self, settings: &[(&str, &str)]) -> io::Result<()> {
        self.within(|| {
            for (path, value) in settings {
                let path = Path::new("/proc/sys/net").join(path);
                if path.exists() {
                    fs::write(&path, value).map_err(|error| {
                        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
                    })?;
                }
            }
            Ok(())
        })
    }

    /// Where the kernel shows it.
    pub fn file(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.name)
    }
}

/// Where `ip netns` keeps them.
const FOLDER: &str = "/run/netns";
