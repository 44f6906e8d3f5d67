//! Whether there are TUN devices for us, which emulated links are made of.

use std::fs::File;
use std::io;

/// If not, why, and what would give us some.
pub fn is_there() -> Result<(), String> {
    match File::options().read(true).write(true).open(FILE) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(format!(
            "{FILE} is root's alone, and links are emulated with it; as root: chmod 666 {FILE}"
        )),
        Err(error) => Err(format!(
            "links are emulated with TUN devices, and {FILE}: {error}; as root: modprobe tun"
        )),
    }
}

const FILE: &str = "/dev/net/tun";
