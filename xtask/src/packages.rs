//! Programs from outside cargo: found, or installed from Debian when we may, or asked for in a sentence.

use std::path::{Path, PathBuf};

use crate::program::Program;

/// A program, or a file by its whole path, and the Debian package that brings it.
type Need = (&'static str, &'static str);

const INTEROP: [Need; 16] = [
    ("curl", "curl"),
    ("mosquitto", "mosquitto"),
    ("mosquitto_pub", "mosquitto-clients"),
    ("mosquitto_sub", "mosquitto-clients"),
    ("python3", "python3-venv"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("javac", "default-jdk-headless"),
    ("mvn", "maven"),
    ("go", "golang"),
    ("coap-client-openssl", "libcoap3-bin"),
    ("tshark", "tshark"),
    ("cc", "gcc"),
    ("/usr/include/czmq.h", "libczmq-dev"),
    ("c++", "g++"),
    (
        "/usr/include/fastdds/dds/topic/TopicDataType.hpp",
        "libfastrtps-dev",
    ),
];

/// Everything the foreign clients need to be built and run.
pub fn for_interop() -> Result<(), String> {
    ensure(&INTEROP)
}

const PYTHON: [Need; 2] = [("python3", "python3-venv"), ("openssl", "openssl")];

/// Packages with which the Python bindings are built and tested; maturin, pytest and paho-mqtt come from PyPI.
pub fn for_python() -> Result<(), String> {
    ensure(&PYTHON)
}

const ORACLE: [Need; 2] = [
    ("rabbitmq-server", "rabbitmq-server"),
    ("epmd", "erlang-base"),
];

/// Everything that recording what RabbitMQ does needs; comparing with the recording needs none of it.
pub fn for_oracle() -> Result<(), String> {
    ensure(&ORACLE)
}

const FAULTS: [Need; 4] = [
    ("strace", "strace"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mount", "mount"),
    ("losetup", "mount"),
];

/// Packages for the tests of a broker's disk: failing system calls, and images to mount.
pub fn for_faults() -> Result<(), String> {
    ensure(&FAULTS)
}

const NETWORK: [Need; 4] = [
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("coap-client-openssl", "libcoap3-bin"),
    ("openssl", "openssl"),
];

/// The same, and packages for the tests of its network: links that lose packets; and external DTLS.
pub fn for_integration() -> Result<(), String> {
    ensure(&[FAULTS, NETWORK].concat())
}

/// Packages with which the bridge to DDS is compiled: cmake for its C library, and bindings to it.
pub fn for_dds() -> Result<(), String> {
    ensure(&[("cmake", "cmake"), (LIBCLANG, "libclang-dev")])
}

/// Whether that is here.
pub fn has_dds() -> bool {
    is_there("cmake") && libclang().is_some()
}

/// No program: a library, with the headers of its compiler beside it.
const LIBCLANG: &str = "libclang";

/// The folder of a libclang that has them, as Debian installs it.
pub fn libclang() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let is_library =
        |name: &str| name.starts_with("libclang") && name.contains(".so") && !name.contains("cpp");
    let has_library = |folder: &Path| {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files
            .map(|it| it.file_name())
            .any(|it| it.to_str().is_some_and(is_library))
    };
    let found = folders
        .filter(|it| it.file_name().to_string_lossy().starts_with("llvm-"))
        .map(|it| it.path().join("lib"));
    let mut found: Vec<PathBuf> = found
        .filter(|it| it.join("clang").is_dir() && has_library(it))
        .collect();
    found.sort();
    found.pop()
}

const COUNTS: [Need; 1] = [("valgrind", "valgrind")];

pub fn for_instruction_counts() -> Result<(), String> {
    ensure(&COUNTS)
}

/// All of these but the bridge's: Debian's programs work through their lists once.
pub fn for_test() -> Result<(), String> {
    let needs: [&[Need]; 6] = [&FAULTS, &NETWORK, &INTEROP, &ORACLE, &PYTHON, &COUNTS];
    ensure(&needs.concat())
}

fn ensure(needs: &[Need]) -> Result<(), String> {
    let mut missing: Vec<&str> = needs
        .iter()
        .filter(|(name, _)| !is_there(name))
        .map(|(_, package)| *package)
        .collect();
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!("install it: apt-get install {}", missing.join(" "));
    if !is_there("apt-get") || !is_root() {
        return Err(format!(
            "{} is missing and this is not a root shell on Debian; {by_hand}",
            missing.join(", ")
        ));
    }
    let apt = |words: &[&str]| {
        Program::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(words)
            .run()
    };
    // Debian starts a service on installation; the tests bring brokers of their own, and port 1883 may be in use.
    let _policy = NoServices::new();
    apt(&["update", "-qq"]).map_err(|why| format!("{why}; {by_hand}"))?;
    apt(&[
        &["install", "-y", "-qq", "--no-install-recommends"],
        missing.as_slice(),
    ]
    .concat())
    .map_err(|why| format!("{why}; {by_hand}"))
}

/// Whether a program of this name is on the path, or where Debian keeps its daemons.
fn is_there(name: &str) -> bool {
    if name == LIBCLANG {
        return libclang().is_some();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .any(|folder| Path::new(folder).join(name).is_file())
}

fn is_root() -> bool {
    Program::new("id")
        .args(["-u"])
        .output()
        .is_ok_and(|(stdout, _)| stdout.trim() == "0")
}

/// While this lives, Debian's packages do not start their services (invoke-rc.d asks `policy-rc.d`; 101 means no).
struct NoServices {
    ours: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl NoServices {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let exists = Path::new(POLICY).exists();
        let written = !exists && std::fs::write(POLICY, "#!/bin/sh\nexit 101\n").is_ok();
        let executable = std::fs::Permissions::from_mode(0o755);
        Self {
            ours: written && std::fs::set_permissions(POLICY, executable).is_ok(),
        }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours {
            let _ = std::fs::remove_file(POLICY);
        }
    }
}
