//! The systems there are: their names, what they speak, where they are and what installs them.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{NoBroker, native, thalweg};
use crate::cell::Protocol;

/// A program that can be measured as broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Thalweg,
    Mosquitto,
    /// RabbitMQ, with its plugins for MQTT and STOMP.
    Rabbitmq,
    /// ejabberd: XMPP with publish-subscribe (XEP-0060).
    Ejabberd,
    /// nats-server, its MQTT side.
    Nats,
    ZmqProxy,
    /// No broker: subscribers of libzmq connect to its publishers.
    ZmqPeers,
    /// No broker: Eclipse Cyclone DDS.
    CycloneDds,
    Libcoap,
}

impl System {
    pub const ALL: [System; 9] = [
        System::Thalweg,
        System::Mosquitto,
        System::Rabbitmq,
        System::Ejabberd,
        System::Nats,
        System::ZmqProxy,
        System::ZmqPeers,
        System::CycloneDds,
        System::Libcoap,
    ];

    /// Its name in cells.
    pub fn name(self) -> &'static str {
        match self {
            System::Thalweg => "thalweg",
            System::Mosquitto => "mosquitto",
            System::Rabbitmq => "rabbitmq",
            System::Ejabberd => "ejabberd",
            System::Nats => "nats",
            System::ZmqProxy => "zmq-proxy",
            System::ZmqPeers => "zmq-peers",
            System::CycloneDds => "cyclonedds",
            System::Libcoap => "libcoap",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<System> {
        System::ALL.into_iter().find(|system| system.name() == name)
    }

    /// Whether it has a listener for a protocol.
    pub fn speaks(self, protocol: Protocol) -> bool {
        use Protocol::{Amqp, Coap, Dds, Mqtt, Stomp, Xmpp, Zmtp};
        match self {
            System::Thalweg => matches!(protocol, Mqtt | Coap | Amqp | Stomp | Zmtp | Xmpp | Dds),
            System::Mosquitto | System::Nats => protocol == Mqtt,
            System::Rabbitmq => matches!(protocol, Amqp | Mqtt | Stomp),
            System::Ejabberd => protocol == Xmpp,
            System::ZmqProxy | System::ZmqPeers => protocol == Zmtp,
            System::CycloneDds => protocol == Dds,
            System::Libcoap => protocol == Coap,
        }
    }

    /// The command that installs it (Debian).
    pub fn install(self) -> &'static str {
        match self {
            System::Thalweg => {
                "put thalweg beside thalweg-bench or into PATH, or set THALWEG_BIN to it"
            }
            System::Mosquitto => "apt-get install --no-install-recommends mosquitto",
            System::Rabbitmq => "apt-get install --no-install-recommends rabbitmq-server",
            System::Ejabberd => "apt-get install --no-install-recommends ejabberd",
            System::Nats => "apt-get install --no-install-recommends nats-server",
            System::ZmqProxy | System::ZmqPeers => {
                "apt-get install --no-install-recommends gcc libc6-dev libzmq3-dev"
            }
            System::CycloneDds => {
                "apt-get install --no-install-recommends gcc libc6-dev cyclonedds-dev cyclonedds-tools"
            }
            System::Libcoap => "apt-get install --no-install-recommends libcoap3-bin",
        }
    }

    pub fn program(self) -> Result<PathBuf, NoBroker> {
        let found = match self {
            System::Thalweg => thalweg::program(),
            System::Mosquitto => found(&["mosquitto"]),
            // The one in /usr/sbin changes the user; the script beside the libraries does not.
            System::Rabbitmq => Some(PathBuf::from("/usr/lib/rabbitmq/bin/rabbitmq-server"))
                .filter(|path| path.exists()),
            // Its own script changes the user, so that only the place of its libraries is taken from it.
            System::Ejabberd => found(&["ejabberdctl"]).and_then(|_| found(&["erl"])),
            System::Nats => std::env::var_os("NATS_SERVER")
                .map(PathBuf::from)
                .or_else(|| found(&["nats-server"])),
            System::ZmqProxy | System::ZmqPeers => return native::zmq_peer(),
            System::CycloneDds => return native::dds_peer(),
            System::Libcoap => found(&["coap-server-notls", "coap-server"]),
        };
        found.ok_or_else(|| NoBroker::Absent(self.install().to_owned()))
    }

    /// Whether publishers and subscribers have nothing between them.
    pub fn is_peers(self) -> bool {
        matches!(self, System::ZmqPeers | System::CycloneDds)
    }

    /// Name and version as the program says it.
    pub fn version(self) -> Result<String, NoBroker> {
        let program = self.program()?;
        let text = match self {
            System::Thalweg => said(&program, &["--version"]),
            System::Mosquitto => said(&program, &["-h"]),
            // To ask it would start an Erlang system.
            System::Rabbitmq => folder_of("/usr/lib/rabbitmq/lib", "rabbitmq_server-"),
            System::Ejabberd => folder_of("/usr/lib/x86_64-linux-gnu", "ejabberd-")
                .or_else(|_| folder_of("/usr/lib/aarch64-linux-gnu", "ejabberd-")),
            System::Nats => said(&program, &["--version"]),
            System::ZmqProxy | System::ZmqPeers | System::CycloneDds => {
                said(&program, &["version"])
            }
            // It has no option for that, but says it when it takes one that it does not know.
            System::Libcoap => said(&program, &["-?"]),
        }?;
        let line = text
            .lines()
            .find(|line| line.contains(|c: char| c.is_ascii_digit()))
            .unwrap_or_default();
        Ok(line
            .split(" -- ")
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned())
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The first of these programs that is in the path or where Debian keeps servers.
pub(crate) fn found(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|file| file.is_file())
}

/// What a program says, on whichever output, however it ends.
fn said(program: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    let text = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The first entry of a folder that begins so, which is name and version.
fn folder_of(folder: &str, prefix: &str) -> io::Result<String> {
    let names = fs::read_dir(folder)?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort_unstable();
    names
        .pop()
        .map(|name| name.replacen('-', " ", 1))
        .ok_or_else(|| io::Error::other(format!("{folder}: no {prefix}")))
}
