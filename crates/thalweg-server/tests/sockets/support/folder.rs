//! A folder of a test's own, and the configuration of a server that keeps its data there.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg_server::config::Config;

/// Removed with what is in it when the test ends.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("thalweg-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        Folder(path)
    }

    /// With the settings that all tests of a program share, and with those of one; `{folder}` in them is this one.
    pub fn configuration(&self, shared: &[&str], sets: &[&str]) -> Config {
        let data = ["data_dir={folder}/data"];
        let all: Vec<String> = [&data, shared, sets]
            .concat()
            .iter()
            .map(|set| set.replace("{folder}", &self.0.display().to_string()))
            .collect();
        let read = Config::from_text(None, std::iter::empty(), &all);
        read.unwrap_or_else(|errors| panic!("{errors:?}")).0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
