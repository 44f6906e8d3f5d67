//! Drivers: whose client speaks.
//!
//! *Knows:* clients and their protocols. *Must never know:* schedules, books, why something is sent.
//!
//! A driver is a [`Publisher`] and a [`Subscriber`], each used by one thread. What runs in a process of its own, because it
//! is written against a stock library, is a [`program`] instead.

pub mod api;
pub mod bare;
pub mod program;
pub mod socket;
pub mod stock;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use crate::cell::{ALARM_PORT, Cell, Driver, Extras, Leg, Load, Protocol, Workload};
use crate::load::Gave;
use crate::net::CLIENT_HOST;

/// What drivers have to know of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Which trial: part of clients' names.
    pub run: u32,
    /// What else clients' names begin with, so that several processes may have the same run.
    pub role: String,
    /// How it is published.
    pub publish: Leg,
    /// How it is received.
    pub subscribe: Leg,
    /// Where it is published.
    pub publish_at: SocketAddr,
    /// Where it is received.
    pub subscribe_at: SocketAddr,
    /// User name and password, where a broker wants some.
    pub login: Option<(String, String)>,
    /// What only some trials have.
    pub extras: Extras,
    /// PEM file of the authorities to trust; none is the system's.
    pub ca: Option<PathBuf>,
    /// What topics begin with, of publishers and of subscribers: the same, unless something between answers or relays.
    pub prefixes: (String, String),
    /// Flows: each has a topic.
    pub flows: u32,
    /// Subscribers of each topic.
    pub copies: u32,
    /// The address of the interface by which subscribers of the common client join the broker's multicast group; none
    /// subscribes as usual.
    pub multicast: Option<Ipv4Addr>,
    /// Where the first flow is published and received, by connections of its own and of a class of service of its own.
    pub alarms_at: Option<SocketAddr>,
    /// Connections that a driver may share between flows; `bare` has one for each flow and copy.
    pub connections: u32,
    /// The broker keeps what a CoAP observer has not taken yet; others skip states.
    pub keeps_all: bool,
    /// The broker has no topic before something was written there: it cannot be observed until then.
    pub writes_first: bool,
    /// What the dice of clients begin with.
    pub seed: u64,
}

impl Job {
    /// The topic of a flow, for its publisher.
    pub fn publish_topic(&self, flow: u32) -> String {
        format!("{}/{flow}", self.prefixes.0)
    }

    /// The topic of a flow, for its subscribers.
    pub fn subscribe_topic(&self, flow: u32) -> String {
        format!("{}/{flow}", self.prefixes.1)
    }

    /// What the subscribers of these flows subscribe to.
    pub fn filters(&self, flows: impl Iterator<Item = u32>) -> Vec<String> {
        let share = if self.extras.shared {
            "$share/lab/"
        } else {
            ""
        };
        let filter = |flow| format!("{share}{}", self.subscribe_topic(flow));
        match self.extras.wildcard {
            true => vec![format!("{share}{}/+", self.prefixes.1)],
            false => flows.map(filter).collect(),
        }
    }

    pub fn of(cell: &Cell, run: u32, publish_at: SocketAddr, subscribe_at: SocketAddr) -> Job {
        let login = login(cell, std::env::var(PASSWORD).ok());
        Job {
            run,
            role: "lab".to_owned(),
            publish: cell.publish,
            subscribe: cell.subscribe,
            publish_at,
            subscribe_at,
            login,
            extras: cell.extras.clone(),
            ca: cell.extras.ca.as_ref().map(PathBuf::from),
            prefixes: ("lab".to_owned(), "lab".to_owned()),
            flows: cell.load.flows().max(1),
            copies: cell.fan_out.max(1),
            multicast: cell.extras.multicast.then(|| {
                let own = cell.link.namespaces.then(|| CLIENT_HOST.parse().ok());
                own.flatten().unwrap_or(Ipv4Addr::LOCALHOST)
            }),
            alarms_at: (cell.extras.alarms).then(|| SocketAddr::new(subscribe_at.ip(), ALARM_PORT)),
            connections: connections(cell),
            keeps_all: cell.system == "thalweg",
            writes_first: matches!(&*cell.system, "libcoap" | "ejabberd"),
            seed: cell.seed,
        }
    }
}

/// User name and password of all clients.
fn login(cell: &Cell, password: Option<String>) -> Option<(String, String)> {
    match &cell.extras.user {
        Some(user) => Some((user.clone(), password.unwrap_or_default())),
        // RabbitMQ has this user from the beginning, ejabberd wants to hear its domain; others let everybody in.
        None => match &*cell.system {
            "rabbitmq" => Some(("guest".to_owned(), "guest".to_owned())),
            "ejabberd" => Some(("@localhost".to_owned(), String::new())),
            _ => None,
        },
    }
}

/// The environment variable that has the password of a scenario's `system.user`.
pub const PASSWORD: &str = "THALWEG_BENCH_PASSWORD";

/// One connection publishes for all flows of a small load, as a gateway does; more of them where one connection would be
/// the limit: RabbitMQ serves each by one process of its virtual machine.
pub fn connections(cell: &Cell) -> u32 {
    let flows = cell.load.flows().max(1);
    if matches!(cell.workload, Workload::Beside { .. }) {
        // Neighbours share the link, not a sender.
        return flows;
    }
    match &cell.load {
        Load::Open { rate, flows, .. } if rate * f64::from(*flows) <= SHARED_RATE_MAX => 1,
        Load::Closed { .. } => 1,
        _ => flows.min(CONNECTIONS_MAX),
    }
}

/// Messages a second that one connection carries for all flows.
const SHARED_RATE_MAX: f64 = 1000.0;
/// Each has a thread in the common client.
const CONNECTIONS_MAX: u32 = 8;

/// What went wrong, in words; the trial is over.
pub type Fault = String;

pub trait Publisher: Send {
    /// Gives a message of a flow; it leaves in [`Publisher::turn`] at the latest. [`Gave::Full`] if the window is used up, or
    /// what was given before has not left.
    fn publish(&mut self, flow: u32, payload: &[u8]) -> Result<Gave, Fault>;

    /// Sends what is gathered, then reads acknowledgements until `until` (nanoseconds of the clock; 0 is now). With
    /// `listens` it returns as soon as one has come or there is room; without it may, too. `through` is called with the
    /// flow of each message that is acknowledged.
    fn turn(
        &mut self,
        until: u64,
        listens: bool,
        through: &mut dyn FnMut(u32),
    ) -> Result<(), Fault>;

    /// What is readable when something has come; none if threads of the client's own wait for it.
    fn bell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Messages that wait for an acknowledgement, or have not left yet.
    fn unsettled(&self) -> u64;

    /// Messages that should be acknowledged and are not, failed ones among them; 0 where nothing is acknowledged.
    fn unacknowledged(&self) -> u64;

    /// What else can be counted, by name.
    fn counts(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// A message that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Which of the topic's subscribers has it, from 0.
    pub copy: u32,
    pub topic: &'a str,
    pub payload: &'a [u8],
    /// When it came, nanoseconds of the clock.
    pub at: u64,
}

pub trait Subscriber: Send {
    /// Waits until something comes, at most until `until`, and tells everything that is there.
    fn receive(&mut self, until: u64, hear: &mut dyn FnMut(Received<'_>)) -> Result<(), Fault>;

    /// What is readable when something has come; none if threads of the client's own wait for it.
    fn bell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Messages that the client has thrown away because they were not taken in time.
    fn overflow(&self) -> u64 {
        0
    }

    /// Why what came does not count although nothing failed.
    fn objection(&self) -> Option<Fault> {
        None
    }

    /// What else can be counted, by name.
    fn counts(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Connects a publisher for a job.
pub fn publisher(driver: Driver, job: &Job) -> Result<Box<dyn Publisher>, Fault> {
    match driver {
        Driver::Common => Ok(Box::new(api::Publishing::connect(job)?)),
        Driver::Bare => Ok(Box::new(bare::Publishing::connect(job)?)),
        Driver::Stock => Err("a stock library runs in a process of its own".to_owned()),
    }
}

/// Connects subscribers for a job; all subscriptions stand when it returns.
pub fn subscriber(driver: Driver, job: &Job) -> Result<Box<dyn Subscriber>, Fault> {
    match driver {
        Driver::Common => Ok(Box::new(api::Subscribing::connect(job)?)),
        Driver::Bare => Ok(Box::new(bare::Subscribing::connect(job)?)),
        Driver::Stock => Err("a stock library runs in a process of its own".to_owned()),
    }
}

/// Whether a driver speaks a protocol; if not, why.
pub fn speaks(driver: Driver, protocol: Protocol) -> Result<(), String> {
    match (driver, protocol) {
        (Driver::Stock, _) | (_, Protocol::Mqtt) => Ok(()),
        (Driver::Common, _) if api::scheme(protocol).is_ok() => Ok(()),
        (Driver::Common, _) => {
            let why = format!("the common client does not speak {protocol:?} yet");
            Err(format!("{why}; `driver: stock` may"))
        }
        (Driver::Bare, _) => Err("the bare driver speaks MQTT only".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::plan;

    #[test]
    fn a_user_of_the_scenario_goes_before_that_of_the_system() {
        let of = |system: &str, user: Option<&str>, password: Option<&str>| {
            let cell = plan::cell("E9", system, plan::mqtt(0)).into_cell();
            let extras = Extras {
                user: user.map(str::to_owned),
                ..Extras::default()
            };
            login(&Cell { extras, ..cell }, password.map(str::to_owned))
        };
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        for (system, user, password, login) in [
            ("thalweg", None, Some("secret"), None),
            ("rabbitmq", None, None, pair("guest", "guest")),
            (
                "rabbitmq",
                Some("lab"),
                Some("secret"),
                pair("lab", "secret"),
            ),
            ("127.0.0.1:1883", Some("lab"), None, pair("lab", "")),
        ] {
            assert_eq!(of(system, user, password), login, "{system}");
        }
    }
}
