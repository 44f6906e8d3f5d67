//! The journal's interface to a file system, and the real one.
//!
//! The journal names no path and opens no file except through these two traits, so that the same code runs on a
//! simulated disk that forgets, tears and fails ([`crate::sim`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder for data that a repair has removed.
pub const QUARANTINE: &str = "quarantine";

/// A directory of files. Names are relative and have no folders but `quarantine/`.
pub trait Disk: Clone + Send + Sync + 'static {
    type File: DiskFile;
    /// Holds the directory for this process until it is dropped.
    type Lock: Send + Sync + 'static;

    /// Names of the files, without those in quarantine.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens for reading only.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Opens for reading and writing.
    fn open_to_write(&self, name: &str) -> io::Result<Self::File>;
    /// Makes a file that must not exist yet; and the quarantine folder, if the name begins with it.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Gives a file another name; a file that had it is gone.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn unlink(&self, name: &str) -> io::Result<()>;
    /// Gives a file of this directory a second name in another one (a backup's).
    fn hard_link(&self, name: &str, to: &Self, to_name: &str) -> io::Result<()>;
    /// Makes creations, renamings and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Takes the directory for this process; `Err(holder)` inside if another has it.
    fn lock(&self) -> io::Result<Result<Self::Lock, String>>;
    /// Free bytes of the file system for this user.
    fn free_bytes(&self) -> io::Result<u64>;
    /// A number that cannot be guessed.
    fn random(&self) -> io::Result<u64>;
    /// Name of a file of this directory in messages.
    fn shown(&self, name: &str) -> String;
}

/// An open file. All offsets are explicit; one handle serves several threads.
pub trait DiskFile: Send + Sync + 'static {
    /// Reads at `offset`; may give less than asked, nothing only at the end.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at `offset`; may take less than given.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes the content durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Length of the file in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Whether the file has another name as well, such as in a backup: then it must not be written again.
    fn is_shared(&self) -> io::Result<bool>;
    /// Gives the file `length` bytes of its own, so that writing them later needs no new ones.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Reads until `into` is full or the file ends; how much it was.
    fn read_full(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes all of `bytes`, however many calls it takes.
    fn write_full(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            match self.write_at(rest, offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A directory that only its owner can look into, and those above it as far as they are not there: messages are for
/// its owner's eyes only.
fn private_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// A directory of the operating system. Files made in it are accessible to their owner only.
#[derive(Clone, Debug)]
pub struct OsDisk {
    path: Arc<Path>,
}

impl OsDisk {
    /// The directory at `path`, made if it is not there.
    pub fn at(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path: PathBuf = path.into();
        if !path.is_dir() {
            private_dir(&path)?;
            // The new directory's own name has to be durable too, or it takes all its files with it.
            if let Some(parent) = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
            {
                File::open(parent)?.sync_all()?;
            }
        }
        Ok(Self { path: path.into() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Disk for OsDisk {
    type File = File;
    type Lock = File;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        File::open(self.of(name))
    }

    fn open_to_write(&self, name: &str) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.of(name))
    }

    fn create(&self, name: &str) -> io::Result<File> {
        if name.starts_with(QUARANTINE) {
            private_dir(&self.of(QUARANTINE))?;
        }
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.of(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if to.starts_with(QUARANTINE) {
            private_dir(&self.of(QUARANTINE))?;
        }
        fs::rename(self.of(from), self.of(to))
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.of(name))
    }

    fn hard_link(&self, name: &str, to: &Self, to_name: &str) -> io::Result<()> {
        fs::hard_link(self.of(name), to.of(to_name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        let quarantine = self.of(QUARANTINE);
        if quarantine.is_dir() {
            File::open(quarantine)?.sync_all()?;
        }
        File::open(&self.path)?.sync_all()
    }

    fn lock(&self) -> io::Result<Result<File, String>> {
        let path = self.of(crate::names::LOCK);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                file.write_all(std::process::id().to_string().as_bytes())?;
                Ok(Ok(file))
            }
            Err(fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only for the message; a holder that is just starting may not have written its number yet.
                let _ = (&mut file).take(32).read_to_string(&mut holder);
                let holder = holder.trim();
                Ok(Err(if holder.is_empty() {
                    "an unknown process".to_owned()
                } else {
                    format!("process {holder}")
                }))
            }
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let about = rustix::fs::statvfs(&*self.path)?;
        Ok(about.f_bavail.saturating_mul(about.f_frsize))
    }

    fn random(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            done += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(u64::from_le_bytes(bytes))
    }

    fn shown(&self, name: &str) -> String {
        if name.is_empty() {
            self.path.display().to_string()
        } else {
            self.of(name).display().to_string()
        }
    }
}

impl DiskFile for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn is_shared(&self) -> io::Result<bool> {
        Ok(self.metadata()?.nlink() > 1)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(self, rustix::fs::FallocateFlags::empty(), 0, length) {
            // Some file systems cannot; then the length at least, and writing may find the disk full.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.set_len(length),
            result => Ok(result?),
        }
    }
}
