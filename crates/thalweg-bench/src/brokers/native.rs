//! Small programs in C, which libzmq, Cyclone DDS and libstrophe need: they come with this one as text and are compiled once.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use super::NoBroker;
use super::system::found;

/// Publishers and subscribers of a library that is used in C, and a ZeroMQ proxy: the program, a header of the library, what it
/// is compiled with besides, and Debian's packages.
const PEERS: [(&str, &str, &str, &str); 3] = [
    ("zmqpeer", "zmq.h", "-lzmq", "libzmq3-dev"),
    ("ddspeer", "dds/dds.h", "lab.c -lddsc", DDS_PACKAGES),
    ("xmpppeer", "strophe.h", "-lstrophe", "libstrophe-dev"),
];
const DDS_PACKAGES: &str = "cyclonedds-dev cyclonedds-tools";
const SOURCES: [(&str, &str); 5] = [
    ("zmqpeer.c", include_str!("../../native/zmqpeer.c")),
    ("ddspeer.c", include_str!("../../native/ddspeer.c")),
    ("xmpppeer.c", include_str!("../../native/xmpppeer.c")),
    ("lab.idl", include_str!("../../native/lab.idl")),
    ("peer.h", include_str!("../../native/peer.h")),
];

/// One of [`PEERS`]; compiled if need be, types in IDL first.
pub fn peer(name: &str) -> Result<PathBuf, NoBroker> {
    let unknown = || NoBroker::Failed(io::Error::other(format!("there is no {name}")));
    let known = PEERS.iter().find(|it| it.0 == name);
    let (_, header, rest, packages) = known.ok_or_else(unknown)?;
    let install = format!("apt-get install --no-install-recommends gcc libc6-dev {packages}");
    let absent = || NoBroker::Absent(install.clone());
    made(name, &SOURCES, |folder, program| {
        let folders = ["/usr/include", "/usr/local/include"];
        let has_header = folders
            .iter()
            .any(|it| Path::new(it).join(header).is_file());
        let compiler = found(&["cc", "gcc", "clang"]).filter(|_| has_header);
        let compiler = compiler.ok_or_else(absent)?;
        if rest.contains("lab.c") {
            let idlc = found(&["idlc"]).ok_or_else(absent)?;
            run(Command::new(idlc)
                .args(["-l", "c", "lab.idl"])
                .current_dir(folder))?;
        }
        run(Command::new(compiler)
            .args(["-O2", "-std=gnu11", "-pthread", "-o"])
            .arg(program)
            .arg(format!("{name}.c"))
            .args(rest.split(' '))
            .current_dir(folder))
    })
}

/// Held while a program is made.
static MAKING: Mutex<()> = Mutex::new(());

/// A program by its sources: found where it was made before, or made.
fn made(
    name: &str,
    sources: &[(&str, &str)],
    make: impl Fn(&Path, &Path) -> Result<(), NoBroker>,
) -> Result<PathBuf, NoBroker> {
    let mut hasher = DefaultHasher::new();
    sources.hash(&mut hasher);
    let folder = cache().join(format!("{name}-{:016x}", hasher.finish()));
    let program = folder.join(name);
    // Trials that begin together need it together. A file that one compiler still writes to cannot be run (ETXTBSY).
    let _one_by_one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if program.is_file() {
        return Ok(program);
    }
    // In a folder of its own until it is whole: another process may look for it now, or make it.
    let half = folder.join(format!("half-{}", std::process::id()));
    fs::create_dir_all(&half)?;
    for (file, text) in sources {
        fs::write(half.join(file), text)?;
    }
    let outcome =
        make(&half, &half.join(name)).and_then(|()| Ok(fs::rename(half.join(name), &program)?));
    let _ = fs::remove_dir_all(&half);
    outcome.map(|()| program)
}

fn run(command: &mut Command) -> Result<(), NoBroker> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            let program = command.get_program().to_string_lossy();
            Err(NoBroker::Failed(io::Error::other(format!(
                "{program}: {words}"
            ))))
        }
    }
}

/// Where the user's programs keep what they can make again.
pub(crate) fn cache() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    base.or_else(home)
        .unwrap_or_else(std::env::temp_dir)
        .join("thalweg-bench")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn trials_that_begin_together_make_a_program_once() {
        let text = format!("of process {}", std::process::id());
        let made_times = AtomicUsize::new(0);
        let program = || {
            made("a-test", &[("text", &text)], |folder, program| {
                made_times.fetch_add(1, Ordering::Relaxed);
                Ok(fs::copy(folder.join("text"), program).map(drop)?)
            })
        };
        let all: Vec<PathBuf> = thread::scope(|scope| {
            let makers: Vec<_> = (0..4).map(|_| scope.spawn(program)).collect();
            makers
                .into_iter()
                .map(|it| it.join().expect("it ends").expect("it is made"))
                .collect()
        });
        let contents = fs::read_to_string(&all[0]).expect("it is there");
        let _ = fs::remove_dir_all(all[0].with_file_name(""));
        assert_eq!((contents, made_times.into_inner()), (text.clone(), 1));
        assert!(all.iter().all(|it| *it == all[0]));
    }
}
