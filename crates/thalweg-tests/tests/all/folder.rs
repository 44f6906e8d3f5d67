//! Folders of tests, below `target/tmp`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty folder. Dropping it removes it with its contents; a test that fails keeps it and prints its path.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        Folder::named("test")
    }

    /// A folder whose name begins with `name`.
    pub fn named(name: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // An earlier process of the same number may have been killed.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("target/tmp is writable");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("the folder is writable");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the folder of the failed test is {}", self.0.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
