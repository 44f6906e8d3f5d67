//! The broker's own secret: 32 random bytes in the data directory, so that what is derived from it is the same after a
//! restart. Only the broker's user may read it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thalweg_kernel::StampKey;

/// The secret that the last run kept in `data_dir`, or a new one that is not kept yet.
pub(crate) fn recall(data_dir: &Path) -> [u8; 32] {
    let kept = fs::read(file_in(data_dir))
        .ok()
        .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    kept.unwrap_or_else(|| {
        let mut secret = [0; 32];
        crate::random::fill(&mut secret);
        secret
    })
}

/// Keeps the secret in `data_dir`, which is made if it is not there. A broker that cannot runs all the same, and says
/// what it costs.
pub(crate) fn keep(data_dir: &Path, secret: &[u8; 32]) {
    let file = file_in(data_dir);
    if fs::read(&file).is_ok_and(|kept| kept == secret) {
        return;
    }
    if let Err(error) = write(data_dir, &file, secret) {
        tracing::warn!(
            "data_dir {} is not writable: {error}; the broker runs, but after a restart an attacker can tell which SCRAM \
             users exist, and clients do not recognize stamped messages of before. Make the directory writable for this user, or name another with --data",
            data_dir.display()
        );
    }
}

/// The key that hides publishers' numbers from receivers: the same in each run that recalls the secret.
pub(crate) fn stamp_key(secret: &[u8; 32]) -> StampKey {
    let mac = ring::hmac::sign(
        &ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret),
        b"stamps",
    );
    StampKey::new(std::array::from_fn(|at| mac.as_ref()[at]))
}

fn write(data_dir: &Path, file: &Path, secret: &[u8; 32]) -> io::Result<()> {
    fs::create_dir_all(data_dir)?;
    // Under another name first: a crash must not leave half a secret.
    let fresh = file.with_extension("new");
    let mut open = OpenOptions::new();
    open.write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)?
        .write_all(secret)?;
    fs::rename(&fresh, file)
}

fn file_in(data_dir: &Path) -> PathBuf {
    data_dir.join("secret")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::certificates::Folder;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_secret_that_was_kept_is_recalled_and_only_the_owner_may_read_it() {
        let folder = Folder::new();
        let data_dir = folder.file("made/at/need");
        let secret = recall(&data_dir);
        assert!(!data_dir.exists());
        keep(&data_dir, &secret);
        assert_eq!(recall(&data_dir), secret);
        let mode = fs::metadata(file_in(&data_dir))
            .expect("it was written")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_key_of_stamps_is_of_the_secret() {
        let keys = [[1; 32], [2; 32], [1; 32]].map(|secret| stamp_key(&secret));
        assert!(keys[0] == keys[2] && keys[0] != keys[1]);
    }

    #[test]
    fn half_a_secret_is_none() {
        let folder = Folder::new();
        folder.write("secret", "short");
        let data_dir = folder.file("");
        assert_ne!(recall(&data_dir), recall(&data_dir));
    }
}
