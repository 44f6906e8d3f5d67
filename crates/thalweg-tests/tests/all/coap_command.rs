//! libcoap's clients as commands, as Debian has them: one that asks, and one that observes.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Output of a client: the answer's payload, an error code with text, or the reason for a missing answer.
pub fn ask(client: &str, arguments: &[&str], uri: &str) -> String {
    let output = Command::new(client)
        .args(["-B", "8"])
        .args(arguments)
        .arg(uri)
        .stdin(Stdio::null())
        .output();
    let output = output.unwrap_or_else(|error| {
        panic!("{client} does not run ({error}): install the Debian package libcoap3-bin")
    });
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
        .trim_end()
        .to_owned()
}

/// A client that observes for at most twenty seconds; dropping it kills it.
pub struct Observer {
    child: Child,
    values: Receiver<String>,
}

impl Observer {
    /// Observes a resource whose values end with `>`, and nowhere else: the client prints them without anything between.
    pub fn start(client: &str, arguments: &[&str], uri: &str) -> Self {
        // Into a pipe it would keep what it prints until it has a block of it.
        let mut child = Command::new("stdbuf")
            .args(["-o0", client])
            .args(arguments)
            .args(["-s", "20", "-B", "20", "-m", "get", uri])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("stdbuf runs");
        let mut output = child.stdout.take().expect("the pipe was asked for");
        let (tell, values) = channel();
        thread::spawn(move || {
            let (mut text, mut byte) = (String::new(), [0]);
            while output.read_exact(&mut byte).is_ok() {
                text.push(char::from(byte[0]));
                if byte[0] == b'>' && tell.send(std::mem::take(&mut text)).is_err() {
                    break;
                }
            }
        });
        Self { child, values }
    }

    /// The next value, if it comes in time.
    pub fn value(&self) -> Option<String> {
        self.values.recv_timeout(Duration::from_secs(60)).ok()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
