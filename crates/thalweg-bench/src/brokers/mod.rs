//! Brokers under test: started, configured fairly, pinned, metered and stopped.
//!
//! *Knows:* programs, their configuration files, /proc. *Must never know:* what is sent through them.
//!
//! Fair means: anonymous, nothing on disk unless asked, no limit of a queue, of messages under way or of a rate that the
//! program could drop or hold back messages for, no Nagle. Everything else is the program's own default. What was written is
//! in [`Running::configuration`], for the record.
//!
//! ```text
//!   start ──> Site (folder, host, ports) ──> a recipe of systems.toml: Launch ──> Process ──> Running
//! ```

pub mod calls;
pub(crate) mod guard;
mod launch;
mod meter;
mod native;
mod peers;
mod ports;
mod process;
mod site;
mod system;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

pub(crate) use meter::{family_cpu_s, memory};
pub(crate) use native::cache;
pub use native::peer;
pub use system::System;
pub(crate) use system::found;

use crate::cell::{Cell, Protocol, word};
use crate::net::space::Space;
use process::Process;
use site::Site;

/// A broker that runs; it ends when dropped, and what it has written is removed.
#[derive(Debug, Default)]
pub struct Running {
    addresses: BTreeMap<Protocol, Ends>,
    /// Name and version, as the program says it.
    pub version: String,
    /// Its configuration, whole, as it was written.
    pub configuration: String,
    /// The certificate that it shows, PEM, if it has one of ours.
    pub certificate: Option<PathBuf>,
    /// None if it was started outside the laboratory, or if there is no process.
    process: Option<Process>,
    /// Of peers, who have no process here.
    _ports: Option<ports::Ports>,
}

/// Where publishers and where subscribers connect: the same, except at a ZeroMQ proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    publish: SocketAddr,
    subscribe: SocketAddr,
}

impl From<SocketAddr> for Ends {
    fn from(both: SocketAddr) -> Ends {
        let (publish, subscribe) = (both, both);
        Ends { publish, subscribe }
    }
}

/// What a broker has used since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor seconds, all threads and child processes.
    pub cpu_s: f64,
    pub rss_kib: u64,
    /// Proportional share of memory, KiB.
    pub pss_kib: u64,
    /// Context switches, voluntary and not.
    pub switches: u64,
}

/// Why there is no broker.
#[derive(Debug)]
pub enum NoBroker {
    /// It is not installed; the command that installs it.
    Absent(String),
    /// It did not start.
    Failed(io::Error),
}

impl From<io::Error> for NoBroker {
    fn from(error: io::Error) -> NoBroker {
        NoBroker::Failed(error)
    }
}

impl From<NoBroker> for io::Error {
    fn from(error: NoBroker) -> io::Error {
        match error {
            NoBroker::Absent(remedy) => io::Error::other(format!("there is no broker: {remedy}")),
            NoBroker::Failed(error) => error,
        }
    }
}

/// Starts the broker that a cell asks for, for the protocols of its legs, in `space` or on the loopback; returns when it
/// accepts connections.
///
/// Without a core for the broker it may run where the calling thread may.
pub fn start(cell: &Cell, space: Option<&Space>) -> Result<Running, NoBroker> {
    let wanted = [cell.publish.protocol, cell.subscribe.protocol];
    let Some(system) = System::named(&cell.system) else {
        return elsewhere(&cell.system, &wanted);
    };
    let failed = |why: String| NoBroker::Failed(io::Error::other(why));
    let name = &system.name;
    if let Some(missing) = wanted.iter().find(|protocol| !system.speaks(**protocol)) {
        return Err(failed(format!("{name} does not speak {}", word(*missing))));
    }
    if cell.extras.carrier.is_some() && !["thalweg", "mosquitto"].contains(&name.as_str()) {
        return Err(failed(format!(
            "{name} is not configured for TLS and WebSocket here: start it and name its HOST:PORT"
        )));
    }
    let site = Site::new(cell, space)?;
    let Some(recipe) = &system.launch else {
        return peers::stand_in(system, site);
    };
    let launch = launch::by_recipe(system, recipe, &site)?;
    let version = system.version()?;
    let (addresses, configuration) = (launch.addresses.clone(), launch.configuration.clone());
    let certificate = site.certificate().filter(|path| path.exists());
    let process = Process::start(launch, site).map_err(|error| {
        let said = error.to_string();
        match recipe.lacks.iter().find(|(words, _)| said.contains(*words)) {
            Some((_, remedy)) => NoBroker::Absent(remedy.clone()),
            None => NoBroker::Failed(error),
        }
    })?;
    Ok(Running {
        addresses,
        version,
        configuration,
        certificate,
        process: Some(process),
        ..Running::default()
    })
}

impl Running {
    /// Where it speaks a protocol; for ZMTP, where publishers connect.
    pub fn address(&self, protocol: Protocol) -> Option<SocketAddr> {
        self.addresses.get(&protocol).map(|ends| ends.publish)
    }

    /// Where subscribers connect: at [`Running::address`], except at a ZeroMQ proxy.
    pub fn subscribe_address(&self, protocol: Protocol) -> Option<SocketAddr> {
        self.addresses.get(&protocol).map(|ends| ends.subscribe)
    }

    /// What it has used so far; nothing if it is none of ours. Processor time has a resolution of 10 ms.
    pub fn usage(&self) -> Usage {
        self.process
            .as_ref()
            .map(Process::usage)
            .unwrap_or_default()
    }

    /// Whether [`Running::usage`] says something.
    pub fn is_metered(&self) -> bool {
        self.process.is_some()
    }

    /// Its process, if it was started here.
    fn process(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::id)
    }
}

/// One that runs: `HOST:PORT`, or `PROTOCOL=HOST:PORT,…` where legs differ.
fn elsewhere(text: &str, wanted: &[Protocol]) -> Result<Running, NoBroker> {
    let unknown = || {
        let names: Vec<&str> = System::all().iter().map(|it| it.name.as_str()).collect();
        NoBroker::Failed(io::Error::other(format!(
            "{text}: a system is one of {}, or HOST:PORT",
            names.join(", ")
        )))
    };
    let mut addresses = BTreeMap::new();
    for &protocol in wanted {
        let name = word(protocol);
        let part = text
            .split(',')
            .find_map(|part| part.strip_prefix(name.as_str())?.strip_prefix('='))
            .unwrap_or(text);
        if !part.contains(':') || part.contains('=') {
            return Err(unknown());
        }
        let address = part.to_socket_addrs()?.next().ok_or_else(unknown)?;
        addresses.insert(protocol, address.into());
    }
    Ok(Running {
        addresses,
        version: text.to_owned(),
        ..Running::default()
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::cell::Leg;
    use crate::studies::plan;

    /// A cell of which only the system and its protocol matter here.
    fn cell(system: &str, protocol: Protocol) -> Cell {
        let cell = plan::cell("brokers", system, Leg::of(protocol, 1)).open(1.0, 1);
        cell.with(|cell| cell.cpus = (Some(0), None)).into_cell()
    }

    /// Starts, looks at and stops a broker for each protocol that it speaks; says so if it is not there.
    fn comes_and_goes(system: &str) {
        use Protocol::{Amqp, Coap, Mqtt, Stomp, Xmpp, Zmtp};
        let speaks = |it: &Protocol| System::named(system).is_some_and(|named| named.speaks(*it));
        for protocol in [Mqtt, Coap, Amqp, Stomp, Xmpp, Zmtp]
            .into_iter()
            .filter(speaks)
        {
            let begun = Instant::now();
            let running = match start(&cell(system, protocol), None) {
                Ok(running) => running,
                Err(NoBroker::Absent(install)) => {
                    println!("skipped: {system} is not installed; {install}");
                    return;
                }
                Err(NoBroker::Failed(error)) => panic!("{system}: {error}"),
            };
            let address = running.address(protocol).expect("it was asked for");
            let (version, took) = (&running.version, begun.elapsed());
            println!("{version}: {} at {address} after {took:?}", word(protocol));
            assert!(version.contains(|c: char| c.is_ascii_digit()), "{version}");
            let configuration = &running.configuration;
            let port = address.port().to_string();
            assert!(configuration.contains(&port), "{configuration}");
            let used = running.usage();
            let has_memory = used.rss_kib > 500 && used.pss_kib > 0;
            assert!(has_memory && used.switches > 0, "{used:?}");
            let folder = running.process.as_ref().map(Process::folder);
            drop(running);
            assert!(!folder.expect("it is ours").exists());
            let is_gone = || std::net::TcpStream::connect_timeout(&address, PATIENCE).is_err();
            assert!(protocol == Coap || is_gone(), "it is still there");
        }
    }

    const PATIENCE: Duration = Duration::from_secs(1);

    #[test]
    fn small_brokers_come_and_go() {
        for system in ["thalweg", "mosquitto", "nats", "zmq-proxy", "libcoap"] {
            comes_and_goes(system);
        }
    }

    #[test]
    #[ignore = "RabbitMQ takes half a minute, each time"]
    fn rabbitmq_comes_and_goes() {
        comes_and_goes("rabbitmq");
    }

    #[test]
    #[ignore = "ejabberd takes ten seconds"]
    fn ejabberd_comes_and_goes() {
        comes_and_goes("ejabberd");
    }

    #[test]
    fn nobody_is_asked_for_what_he_does_not_speak() {
        let told = start(&cell("mosquitto", Protocol::Coap), None).err();
        assert_eq!(words(told), "mosquitto does not speak coap");
    }

    fn words(why: Option<NoBroker>) -> String {
        match why {
            Some(NoBroker::Failed(error)) => error.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_broker_that_runs_elsewhere_is_taken_as_it_is() {
        let wanted = [Protocol::Mqtt, Protocol::Coap];
        let port = |address: Option<SocketAddr>| address.map(|address| address.port());
        let one = elsewhere("127.0.0.1:1883", &wanted).expect("an address");
        assert_eq!(port(one.address(Protocol::Coap)), Some(1883));
        assert!(one.address(Protocol::Amqp).is_none() && !one.is_metered());
        let both = "mqtt=127.0.0.1:1883,coap=127.0.0.1:5683";
        let two = elsewhere(both, &wanted).expect("two addresses");
        assert_eq!(port(two.address(Protocol::Coap)), Some(5683));
        assert_eq!(port(two.subscribe_address(Protocol::Mqtt)), Some(1883));
    }

    #[test]
    fn what_is_no_system_is_told_with_the_names_of_those_there_are() {
        for wrong in ["mosquito", "mqtt=127.0.0.1:1883", "127.0.0.1"] {
            let told = words(elsewhere(wrong, &[Protocol::Coap]).err());
            assert!(told.contains("mosquitto, rabbitmq"), "{told}");
        }
    }
}
