//! Networks without root: this program starts itself again in a user namespace, where it is root, a mount namespace, where
//! `ip netns` has a folder of its own, and a network namespace, to which `ip` can come back from others.
//!
//! Nothing is left of them when the program ends, however it does. It has a loopback of its own and reaches nothing else.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::cell::Cell;

/// Starts this program again where it is root, with the same arguments; returns if it is root already, and if that cannot be
/// done. Whatever this process has begun is lost: it is for the very beginning.
pub fn enter() -> Result<(), String> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    is_possible()?;
    let program = std::env::current_exe()
        .map_err(|error| format!("this program is not to be found: {error}"))?;
    let words = std::iter::once(program.into_os_string()).chain(std::env::args_os().skip(1));
    let error = command(words).exec();
    Err(format!("unshare: {error}"))
}

/// The same for cells that need networks: an error if none of them could be measured without. Where some could, the others
/// say why not.
pub fn enter_for(cells: &[Cell]) -> io::Result<()> {
    let count = cells.iter().filter(|cell| cell.link.namespaces).count();
    // HOST:PORT is not to be reached from inside.
    let is_elsewhere = |cell: &Cell| cell.system.contains(':') && !cell.link.namespaces;
    match count > 0 && !cells.iter().any(is_elsewhere) {
        true => enter().or_else(|why| {
            if count < cells.len() {
                Ok(())
            } else {
                Err(io::Error::other(told(&why)))
            }
        }),
        false => Ok(()),
    }
}

/// Whether a user other than root may do that here; if not, why, and what would allow it.
pub fn is_possible() -> Result<(), String> {
    let output = command(["true".into()].into_iter())
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(refused(&said, |path| fs::read_to_string(path).ok()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("unshare is not installed: apt-get install -y util-linux".to_owned())
        }
        Err(error) => Err(format!("unshare: {error}")),
    }
}

/// Why there is no network, if there is no user namespace either.
pub fn told(why: &str) -> String {
    format!("network namespaces need root, or a user namespace, which cannot be made: {why}")
}

/// Whether this is what [`enter`] has started: what had to be done outside has been.
pub fn is_restarted() -> bool {
    std::env::var_os(RESTARTED).is_some()
}

/// Whether root is root of a user namespace only.
pub fn is_inside() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !is_of_all(&map))
}

/// Of the first namespace, which has every user as itself (user_namespaces(7)).
fn is_of_all(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn command(words: impl Iterator<Item = OsString>) -> Command {
    let mut command = Command::new("unshare");
    command
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "--net",
            "--",
            "sh",
            "-c",
            SCRIPT,
            "sh",
        ])
        .args(words)
        .env(RESTARTED, "1");
    command
}

/// What unshare said, and the switch of the system that is behind it.
fn refused(said: &str, read: impl Fn(&str) -> Option<String>) -> String {
    let is_off = |(name, off, _): &&(&str, &str, &str)| {
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        read(&file).is_some_and(|text| text.trim() == *off)
    };
    let remedy = SWITCHES.iter().find(is_off).map_or_else(
        || NO_SWITCH.to_owned(),
        |(name, _, on)| format!("as root: sysctl {name}={on}"),
    );
    let line = said
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("unshare failed");
    format!("{line}; {remedy}")
}

/// What may forbid it: the setting, its value then, and one that allows it.
const SWITCHES: [(&str, &str, &str); 3] = [
    ("user.max_user_namespaces", "0", "10000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
];
const NO_SWITCH: &str =
    "it takes ip (iproute2), and a container has to allow unshare and mount (its seccomp profile)";
const RESTARTED: &str = "THALWEG_BENCH_NESTED";
/// `ip netns` keeps names below /run, which is root's. Where it has a folder already, only that is covered.
const SCRIPT: &str = "there=/run/netns; test -d $there || there=/run; mount -t tmpfs tmpfs $there && \
                      ip link set lo up && exec \"$@\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_switch_that_is_off() {
        let unshare = "\nunshare: unshare failed: No space left on device\n";
        for (switch, value, words) in [
            ("max_user_namespaces", "0", "=10000"),
            ("unprivileged_userns_clone", "0", "_clone=1"),
            ("apparmor_restrict_unprivileged_userns", "1", "_userns=0"),
            ("max_user_namespaces", "9000", "container"),
            ("unprivileged_userns_clone", "1", "container"),
        ] {
            let said = refused(unshare, |path| {
                path.ends_with(switch).then(|| format!("{value}\n"))
            });
            let is_whole = said.starts_with("unshare: unshare failed: No space");
            assert!(is_whole && said.contains(words), "{said}");
        }
    }

    #[test]
    fn root_of_a_namespace_is_told_from_root() {
        assert!(is_of_all("         0          0 4294967295\n"));
        assert!(!is_of_all("         0      65534          1\n"));
        assert!(!is_of_all("0 100000 65536\n"));
    }

    #[test]
    fn networks_are_made_and_gone_without_root() {
        if let Err(why) = is_possible() {
            println!("skipped: {why}");
            return;
        }
        let made =
            "ip netns add thalweg-nested && ip -n thalweg-nested link set lo up && ip netns list";
        let output = command(["sh", "-c", made].map(OsString::from).into_iter())
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if String::from_utf8_lossy(&output.stderr).contains("not found") {
            println!("skipped: there is no ip");
            return;
        }
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(
            said.split_whitespace().next(),
            Some("thalweg-nested"),
            "nobody else's is seen: {said}"
        );
        assert!(!fs::exists("/run/netns/thalweg-nested").expect("it can be asked"));
    }
}
