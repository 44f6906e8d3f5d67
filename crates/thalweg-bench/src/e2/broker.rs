//! A broker in a network's namespace: a process of its own with MQTT and CoAP.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::brokers::guard::Guard;
use crate::net::{BROKER_HOST, Network};

/// A broker; it ends when dropped.
#[derive(Debug)]
pub struct Broker {
    child: Child,
    guard: Option<Guard>,
    folder: PathBuf,
}

impl Broker {
    /// Starts `program serve` in the network, and waits until it is ready.
    pub fn start(program: &Path, network: &Network) -> io::Result<Broker> {
        let folder = std::env::temp_dir().join(format!("thalweg-bench-{}", network.name()));
        fs::create_dir_all(&folder)?;
        let config = folder.join("thalweg.toml");
        fs::write(&config, SETTINGS.replace("HOST", BROKER_HOST))?;
        // A process begins in the namespace of the thread that starts it.
        let mut child = network.broker().within(|| {
            Command::new(program)
                .arg("serve")
                .arg("--config")
                .arg(&config)
                .arg("--data")
                .arg(folder.join("data"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                // Ctrl-C is for us.
                .process_group(0)
                .spawn()
        })?;
        let stderr = child.stderr.take();
        let guard = Some(Guard::of_group(child.id(), &folder)?);
        let broker = Broker {
            child,
            guard,
            folder,
        };
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            for line in stderr
                .into_iter()
                .flat_map(|stderr| BufReader::new(stderr).lines().map_while(Result::ok))
            {
                // The receiver is gone after the first lines.
                let _ = tell.send(line);
            }
        });
        let mut said = Vec::new();
        loop {
            match told.recv_timeout(READY_WITHIN) {
                Ok(line) if line.contains("ready") => return Ok(broker),
                Ok(line) => said.push(line),
                Err(_) => {
                    return Err(io::Error::other(format!(
                        "the broker did not start: {}",
                        said.join("; ")
                    )));
                }
            }
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.guard = None;
        // It keeps nothing that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

const READY_WITHIN: Duration = Duration::from_secs(60);
/// Nothing on disk, no other traffic on the wire. To one observer of fifty topics goes more than one notification at
/// once: with RFC 7252's NSTART of 1 and first wait of 2 s, five messages a second at 20 % loss wait in the broker for
/// minutes.
const SETTINGS: &str = "\
shards = 1
listeners.websocket.enabled = false
listeners.mqtt.bind = \"HOST:1883\"
listeners.mqtt.anonymous = true
listeners.coap.bind = \"HOST:5683\"
listeners.coap.anonymous = true
coap.observations_per_peer_max = 65535
coap.nstart = 64
coap.adaptive_timeout = true
admin.enabled = false
journal.enabled = false
sys.interval = \"off\"
";
