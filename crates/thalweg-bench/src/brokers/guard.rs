//! Ends what this process has started, even if this process is killed.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A shell that waits for the end of this process and then ends a process group. Dropped, it does nothing.
///
/// It waits at a pipe whose other end only this process has: the kernel closes that however the process ends. (PR_SET_PDEATHSIG
/// would not do: it is about the thread that started a broker, and that is gone before the broker is ready.)
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Guards a process group, and removes folders after it.
    pub fn of_group<'f>(
        group: u32,
        folders: impl IntoIterator<Item = &'f PathBuf>,
    ) -> io::Result<Guard> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "sh", &format!("-{group}")])
            .args(folders);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Ctrl-C is for us, and what a terminal kills with us is not this.
        command.process_group(0).current_dir("/").spawn().map(Guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Before its pipe is closed: to drop it ends the group.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SCRIPT: &str = r#"read -r nothing; kill -s KILL -- "$1"; shift; rm -rf -- "$@""#;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::time::{Duration, Instant};

    use super::*;

    /// Two minutes: far longer than the test may take.
    fn broker() -> Child {
        Command::new("sleep")
            .arg("120")
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .expect("sleep")
    }

    #[test]
    fn a_group_is_ended_when_the_pipe_is_closed_and_left_alone_when_the_guard_is_dropped() {
        let folder = std::env::temp_dir().join(format!("thalweg-guard-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let mut broker = broker();
        drop(Guard::of_group(broker.id(), [&folder]).expect("it starts"));
        assert!(
            broker.try_wait().expect("a child").is_none() && folder.exists(),
            "a guard that was dropped is none"
        );
        let mut guard = Guard::of_group(broker.id(), [&folder]).expect("it starts");
        drop(guard.0.stdin.take());
        assert!(!broker.wait().expect("a child").success());
        assert!(guard.0.wait().expect("a child").success() && !folder.exists());
    }

    /// The laboratory of the test below: it starts a broker, says so, and waits to be killed.
    #[test]
    #[ignore = "started by a_laboratory_that_is_killed_takes_its_broker_with_it"]
    fn laboratory() {
        let mut broker = Command::new("sleep")
            .arg("120")
            .process_group(0)
            .stderr(Stdio::inherit())
            .spawn()
            .expect("sleep");
        let _guard = Guard::of_group(broker.id(), []).expect("it starts");
        eprintln!("started {}", broker.id());
        let _ = io::stdin().read(&mut [0]);
        let _ = broker.wait();
    }

    #[test]
    fn a_laboratory_that_is_killed_takes_its_broker_with_it() {
        let program = std::env::current_exe().expect("this test");
        let name = "brokers::guard::tests::laboratory";
        let mut laboratory = Command::new(program)
            .args(["--exact", name, "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = laboratory.stderr.take().expect("it is piped");
        let mut text = Vec::new();
        while !text.ends_with(b"\n") || !text.windows(8).any(|part| part == b"started ") {
            let mut byte = [0];
            assert_eq!(
                said.read(&mut byte).expect("a pipe"),
                1,
                "{}",
                String::from_utf8_lossy(&text)
            );
            text.extend(byte);
        }
        laboratory.kill().expect("SIGKILL");
        laboratory.wait().expect("a child");
        // The broker has the pipe, too: it ends with the broker, or after two minutes.
        let begun = Instant::now();
        said.read_to_end(&mut text).expect("a pipe");
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the broker was left running"
        );
    }
}
