//! A network of a test's own, with an interface of IPv6, whose address is fd77::1: within a network that no router knows (RFC 4193).

use std::process::Command;

const INSIDE: &str = "THALWEG_INSIDE";

/// The interface that is there.
pub const INTERFACE: &str = "cast0";

/// Whether this is the part of a test that runs in a network of its own.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs a test of this program again, in a namespace that has an interface of IPv6: not every system sends multicast of IPv6 on its
/// loopback, and no other network is to hear it. Says so where there are no namespaces.
pub fn run(test: &str) {
    const SETUP: &str = "ip link set lo up && ip link add cast0 type veth peer name cast1 && ip link set cast0 up && \
                         ip link set cast1 up && ip -6 address add fd77::1/64 dev cast0 nodad || exit 77; exec \"$0\" \"$@\"";
    let this = std::env::current_exe().expect("a running program has a path");
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", SETUP])
        .arg(this)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output();
    let (out, err, code) = match output {
        Ok(output) => (output.stdout, output.stderr, output.status.code()),
        Err(error) => return eprintln!("left out: no network namespaces here: {error}"),
    };
    let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    if code == Some(77) || err.starts_with("unshare: ") {
        return eprintln!("left out: no network namespaces here: {err}");
    }
    assert!(code == Some(0) && out.contains("1 passed"), "{out}{err}");
}
