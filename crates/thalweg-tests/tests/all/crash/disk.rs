//! Disks of a test's own: an ext4 in a file, whose power can be cut, and small or read-only ones in memory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::process::{Home, Process};

/// A stopped process has left the kernel after this: what others write to the disk that the image lies on goes before what it
/// waits for.
const STOPPED_WITHIN: Duration = Duration::from_secs(120);

/// A mounted file system in the folder of a home; dropping it unmounts it.
#[derive(Debug)]
pub struct Disk {
    /// The file it lies in; none for one in memory.
    image: Option<PathBuf>,
    at: PathBuf,
    /// Keeps the folder, which cannot be removed while this is mounted in it.
    _home: Home,
}

impl Disk {
    /// An ext4 of this many MiB in a file beside where it is mounted. An error says why this machine cannot have it.
    pub fn image(home: &Home, mebibytes: u32) -> Result<Self, String> {
        let at = home.folder().join("disk");
        let image = at.with_extension("image");
        let _ = std::fs::remove_file(&image);
        let file = std::fs::File::create(&image)
            .map_err(|error| format!("{}: {error}", image.display()))?;
        file.set_len(u64::from(mebibytes) << 20)
            .map_err(|error| format!("{}: {error}", image.display()))?;
        // Nothing is initialised behind our back: what is in the file is what the broker had synced.
        let lazy = "lazy_itable_init=0,lazy_journal_init=0";
        say(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-E", lazy])
            .arg(&image))?;
        let disk = Self {
            image: Some(image),
            at,
            _home: home.clone(),
        };
        std::fs::create_dir_all(&disk.at).map_err(|error| error.to_string())?;
        disk.mount()?;
        Ok(disk)
    }

    /// One in memory, of this many MiB.
    pub fn memory(home: &Home, mebibytes: u32) -> Result<Self, String> {
        let at = home.folder().join("memory");
        std::fs::create_dir_all(&at).map_err(|error| error.to_string())?;
        let size = format!("size={mebibytes}m");
        say(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&at))?;
        Ok(Self {
            image: None,
            at,
            _home: home.clone(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.at
    }

    /// From now on nothing can be written.
    pub fn read_only(&self) -> Result<(), String> {
        say(Command::new("mount")
            .args(["-o", "remount,ro"])
            .arg(&self.at))
    }

    /// Power goes: what the image holds at this moment is what there is; what the system had not written is gone, and so is
    /// the broker. Then the power comes back.
    ///
    /// The process is stopped first, so that the copy is of one moment: there are no writes between its first and its
    /// last byte, as all requested syncs are complete and no process requests more. An error says what this machine did not do.
    pub fn cut(&self, process: Process) -> Result<String, String> {
        let image = self
            .image
            .as_ref()
            .expect("only an image can lose its power");
        let copy = image.with_extension("copy");
        process.signal("STOP");
        wait_until_stopped(process.pid())?;
        say(Command::new("cp")
            .arg("--sparse=always")
            .arg(image)
            .arg(&copy))?;
        let log = process.kill();
        self.unmount()?;
        std::fs::rename(&copy, image).map_err(|error| error.to_string())?;
        self.mount()?;
        Ok(log)
    }

    fn mount(&self) -> Result<(), String> {
        let image = self.image.as_ref().expect("only an image is mounted again");
        say(Command::new("mount")
            // Else the system syncs every five seconds by itself, and a broker that does not would lose nothing.
            .args(["-o", "loop,commit=300"])
            .arg(image)
            .arg(&self.at))
    }

    fn unmount(&self) -> Result<(), String> {
        // Another process may still have a file open (an indexer, a dying process): a moment later none does.
        let deadline = Instant::now() + STOPPED_WITHIN;
        while let Err(why) = say(Command::new("umount").arg(&self.at)) {
            if Instant::now() >= deadline {
                return Err(why);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = say(Command::new("umount").arg("-l").arg(&self.at));
        let _ = self.image.as_ref().map(std::fs::remove_file);
    }
}

/// All threads of the process have stopped, those too that were waiting for the disk.
fn wait_until_stopped(pid: u32) -> Result<(), String> {
    let deadline = Instant::now() + STOPPED_WITHIN;
    let is_stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with('T'))
    };
    while let Ok(mut tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) {
        if tasks.all(|task| task.is_ok_and(is_stopped)) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(format!("process {pid} does not stop"));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Runs it; an error is what it said.
fn say(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}
