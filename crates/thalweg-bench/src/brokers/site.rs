//! Where a broker is to run, and how it is to be started.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::ports::Ports;
use super::{Ends, NoBroker};
use crate::cell::{Cell, Protocol};
use crate::net::space::Space;
use crate::net::{BROKER_HOST, CLIENT_HOST};

/// A folder, an address and ports of a broker's own.
#[derive(Debug)]
pub struct Site<'a> {
    /// What is to be measured.
    pub cell: &'a Cell,
    /// Where it is to run.
    pub space: Option<&'a Space>,
    /// Its folder, there already, removed with the broker.
    pub folder: PathBuf,
    pub host: IpAddr,
    /// Ports that it has taken.
    pub ports: Ports,
}

impl<'a> Site<'a> {
    pub fn new(cell: &'a Cell, space: Option<&'a Space>) -> io::Result<Site<'a>> {
        let host: Ipv4Addr = match space {
            Some(_) => BROKER_HOST.parse().map_err(io::Error::other)?,
            None => Ipv4Addr::LOCALHOST,
        };
        let (own, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("thalweg-broker-{own}-{number}"));
        // What there is of an earlier process of this number.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder)?;
        Ok(Site {
            cell,
            space,
            folder,
            host: host.into(),
            ports: Ports::default(),
        })
    }

    /// The address of the far end of the link; the loopback without one.
    pub fn client(&self) -> io::Result<IpAddr> {
        match self.space {
            Some(_) => CLIENT_HOST.parse().map_err(io::Error::other),
            None => Ok(self.host),
        }
    }

    /// A path in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file into its folder; its path.
    pub fn write(&self, name: &str, text: &str) -> io::Result<String> {
        let path = self.path(name);
        fs::write(&path, text)?;
        Ok(text_of(&path))
    }

    /// Makes the certificate that the broker shows for its address and its key; their paths. None if nothing is encrypted.
    pub fn identity(&self) -> Result<Option<(String, String)>, NoBroker> {
        let Some(certificate) = self.certificate() else {
            return Ok(None);
        };
        let key = self.path("broker.key");
        let made = Command::new("openssl")
            .args(OPENSSL.split(' '))
            .arg(format!("subjectAltName=IP:{}", self.host))
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .output()
            .map_err(|_| NoBroker::Absent("apt-get install openssl".to_owned()))?;
        if !made.status.success() {
            let words = String::from_utf8_lossy(&made.stderr).into_owned();
            return Err(NoBroker::Failed(io::Error::other(words)));
        }
        Ok(Some((text_of(&certificate), text_of(&key))))
    }

    /// Where its certificate is, if the cell's connections are encrypted.
    pub fn certificate(&self) -> Option<PathBuf> {
        let carrier = self.cell.extras.carrier?;
        carrier.is_encrypted().then(|| self.path("broker.pem"))
    }

    /// The protocols of the legs, each once.
    pub fn protocols(&self) -> Vec<Protocol> {
        let mut protocols = vec![self.cell.publish.protocol, self.cell.subscribe.protocol];
        protocols.dedup();
        protocols
    }

    /// Addresses for all protocols of the legs: at the usual ports in a namespace, at free ones on the loopback.
    pub fn addresses(&self) -> io::Result<BTreeMap<Protocol, Ends>> {
        let mut addresses = BTreeMap::new();
        for protocol in self.protocols() {
            let usual = match protocol {
                // Where a bridge says that it is ready; its domains have ports of their own.
                Protocol::Mqtt | Protocol::Dds => 1883,
                Protocol::Coap => 5683,
                Protocol::Amqp => 5672,
                Protocol::Stomp => 61613,
                Protocol::Xmpp => 5222,
                Protocol::Zmtp => 5559,
            };
            let mut ends = Ends::from(self.address(usual)?);
            if protocol == Protocol::Zmtp && self.cell.system != "thalweg" {
                ends.subscribe = self.address(usual + 1)?;
            }
            addresses.insert(protocol, ends);
        }
        Ok(addresses)
    }

    /// An address: in a namespace, which is not shared, with the port `usual`; on the loopback with a free one.
    pub fn address(&self, usual: u16) -> io::Result<SocketAddr> {
        let port = match self.space {
            Some(_) => usual,
            None => self.ports.free()?,
        };
        Ok(SocketAddr::new(self.host, port))
    }

    /// Whether the cell asks for messages that survive; `persistence` is the same word for all systems.
    pub fn is_persistent(&self) -> bool {
        self.cell
            .broker_settings
            .get(PERSISTENCE)
            .is_some_and(|value| value == "true")
    }

    /// The settings of the cell in the broker's own words, one for each line.
    pub fn settings(&self, between: &str) -> String {
        let settings = self.cell.broker_settings.iter();
        let settings = settings.filter(|(key, _)| *key != PERSISTENCE);
        settings
            .map(|(key, value)| format!("{key}{between}{value}\n"))
            .collect()
    }
}

/// A path as text; all of ours are.
pub fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A certificate that signs itself, so that it is its own authority. The last argument is the address.
const OPENSSL: &str = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=lab \
-addext basicConstraints=critical,CA:FALSE -addext";
/// The one setting that all systems have.
const PERSISTENCE: &str = "persistence";
static NUMBER: AtomicU32 = AtomicU32::new(0);
