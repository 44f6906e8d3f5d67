//! What roles take on the command line.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::Args;
use thalweg_client::{BrokerUrl, Scheme};

use crate::cell::{Cell, Driver, Leg, Load, Phases, Protocol, Workload};
use crate::drivers::{Job, speaks};
use crate::load::header::PAYLOAD_MIN;
use crate::load::schedule::Arrivals;
use crate::net::units;
use crate::scenario::one_of;

/// What all roles take.
#[derive(Clone, Debug, Args)]
pub struct RoleArgs {
    /// The broker, such as mqtt://127.0.0.1, coap://broker, amqp://guest:guest@broker:5672
    #[arg(value_name = "URL")]
    pub url: BrokerUrl,
    /// 0 at most once, 1 at least once, 2 exactly once
    #[arg(short, long, value_name = "QOS", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub qos: u8,
    /// Version of MQTT: 3 (3.1.1) or 5
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = mqtt_version)]
    pub version: u8,
    /// Messages of a flow under way without acknowledgement
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub window: u32,
    /// Whose client speaks: common (this product's), or bare (MQTT only, as fast as it goes)
    #[arg(long, value_name = "DRIVER", default_value = "common", value_parser = |text: &str| one_of(text, &DRIVERS))]
    pub driver: Driver,
    /// Flows: topics lab/0, lab/1, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub flows: u32,
    /// Bytes of a payload; 28 or more, unless publisher and subscriber are one process
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "60B")]
    pub size: usize,
    /// A number that tells this run's messages from those of others; both sides have to name the same
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub run: u32,
    /// Ends after this time; else after Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub duration: Option<Duration>,
    /// Ends after so many messages
    #[arg(short, long, value_name = "N")]
    pub count: Option<u64>,
    /// What everything random is drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print each second as a line of JSON
    #[arg(long)]
    pub json: bool,
    /// Print only the summary, not each second
    #[arg(long)]
    pub quiet: bool,
}

/// `thalweg bench pub`
#[derive(Clone, Debug, Args)]
pub struct PubArgs {
    /// What all roles take.
    #[command(flatten)]
    pub role: RoleArgs,
    /// When messages are due.
    #[command(flatten)]
    pub pace: PaceArgs,
}

/// `thalweg bench sub`
#[derive(Clone, Debug, Args)]
pub struct SubArgs {
    /// What all roles take.
    #[command(flatten)]
    pub role: RoleArgs,
    /// Subscribers of each topic
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub copies: u32,
}

/// `thalweg bench ping`
#[derive(Clone, Debug, Args)]
pub struct PingArgs {
    /// What all roles take.
    #[command(flatten)]
    pub role: RoleArgs,
    /// Where answers are received, if that is not where questions are published: another protocol, another broker
    #[arg(long, value_name = "URL")]
    pub back: Option<BrokerUrl>,
    /// When messages are due.
    #[command(flatten)]
    pub pace: PaceArgs,
}

/// `thalweg bench pong`
#[derive(Clone, Debug, Args)]
pub struct PongArgs {
    /// What all roles take.
    #[command(flatten)]
    pub role: RoleArgs,
    /// Where answers are published, if that is not where questions are received
    #[arg(long, value_name = "URL")]
    pub back: Option<BrokerUrl>,
}

/// `thalweg bench relay`
#[derive(Clone, Debug, Args)]
pub struct RelayArgs {
    /// What all roles take.
    #[command(flatten)]
    pub role: RoleArgs,
    /// Where everything is published that is received at the first URL
    #[arg(value_name = "TO")]
    pub to: BrokerUrl,
}

/// When messages are due.
#[derive(Clone, Debug, Args)]
pub struct PaceArgs {
    /// Messages a second of each flow, such as 100/s, by a schedule that does not move. Default: 1/s
    #[arg(long, value_name = "RATE", value_parser = units::frequency, conflicts_with_all = ["flood", "closed"])]
    pub rate: Option<f64>,
    /// How they follow each other
    #[arg(long, value_enum, default_value = "periodic")]
    pub arrivals: Arrivals,
    /// As fast as it goes
    #[arg(long, conflicts_with = "count")]
    pub flood: bool,
    /// The next one this long after the one before is through
    #[arg(long, value_name = "PAUSE", value_parser = units::span, conflicts_with_all = ["flood", "count"])]
    pub closed: Option<Duration>,
}

const DRIVERS: [(&str, Driver); 2] = [("common", Driver::Common), ("bare", Driver::Bare)];

impl PaceArgs {
    /// As a cell says it.
    pub fn load(&self, flows: u32) -> Load {
        let think_ns = self.closed.map(|pause| pause.as_nanos() as u64);
        match (self.flood, think_ns) {
            (true, _) => Load::Flood { flows },
            (false, Some(think_ns)) => Load::Closed { think_ns, flows },
            (false, None) => Load::Open {
                rate: self.rate.unwrap_or(1.0),
                flows,
                arrivals: self.arrivals,
            },
        }
    }
}

impl RoleArgs {
    /// As a leg of a cell.
    pub fn leg(&self, url: &BrokerUrl) -> Result<Leg, String> {
        let protocol = protocol(url)?;
        speaks(self.driver, protocol)?;
        Ok(Leg {
            protocol,
            qos: self.qos,
            version: self.version,
            window: self.window.max(1),
        })
    }

    /// As a cell: what is published where, received where, and when.
    pub fn cell(
        &self,
        publish: &BrokerUrl,
        subscribe: &BrokerUrl,
        load: Load,
        copies: u32,
    ) -> Result<Cell, String> {
        let bytes = u32::try_from(self.size).map_err(|_| "a payload is too large".to_owned())?;
        if self.size < PAYLOAD_MIN {
            let least = format!("a payload has at least {PAYLOAD_MIN} bytes");
            return Err(format!("{least}: the number of its message"));
        }
        let lasts = self.duration.map(|duration| duration.as_nanos() as u64);
        Ok(Cell {
            experiment: "role".to_owned(),
            seed: self.seed,
            system: publish.host.clone(),
            driver: self.driver,
            publish: self.leg(publish)?,
            subscribe: self.leg(subscribe)?,
            workload: Workload::Fixed { bytes },
            load,
            phases: Phases {
                settle_ns: 0,
                warmup_ns: 0,
                measure_ns: lasts.unwrap_or(FOR_EVER),
                drain_ns: DRAIN,
            },
            fan_out: copies,
            ..Cell::blank()
        })
    }

    pub fn job(
        &self,
        cell: &Cell,
        publish: &BrokerUrl,
        subscribe: &BrokerUrl,
        role: &str,
    ) -> Result<Job, String> {
        let mut job = Job::of(cell, self.run, address(publish)?, address(subscribe)?);
        let login = |url: &BrokerUrl| {
            let password = url.password.as_deref().unwrap_or_default();
            let password = String::from_utf8_lossy(password).into_owned();
            Some((url.user.clone()?, password))
        };
        job.login = login(publish).or_else(|| login(subscribe));
        // Only our own broker can do that, and it says so.
        job.keeps_all = false;
        job.role = role.to_owned();
        Ok(job)
    }
}

/// The protocol of a URL.
pub fn protocol(url: &BrokerUrl) -> Result<Protocol, String> {
    match url.scheme {
        Scheme::Mqtt => Ok(Protocol::Mqtt),
        Scheme::Coap => Ok(Protocol::Coap),
        Scheme::Amqp => Ok(Protocol::Amqp),
        Scheme::Stomp => Ok(Protocol::Stomp),
        other => Err(format!(
            "{other:?} is not measured: mqtt, coap, amqp or stomp"
        )),
    }
}

fn address(url: &BrokerUrl) -> Result<SocketAddr, String> {
    let host = url.host.as_str();
    let found = (host, url.port).to_socket_addrs();
    let mut found = found.map_err(|error| format!("{host}: {error}"))?;
    found.next().ok_or_else(|| format!("{host} has no address"))
}

fn mqtt_version(text: &str) -> Result<u8, String> {
    match text {
        "3" | "3.1.1" | "4" => Ok(3),
        "5" => Ok(5),
        _ => Err(format!("{text}: 3 (for 3.1.1) or 5")),
    }
}

/// Nanoseconds; half of what there is, so that something can be added.
const FOR_EVER: u64 = u64::MAX / 2;
/// For what is under way when a role ends.
const DRAIN: u64 = 5_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let of = |text: &str| protocol(&text.parse().expect("a URL"));
        assert_eq!(
            (of("coap://x"), of("amqp://x")),
            (Ok(Protocol::Coap), Ok(Protocol::Amqp))
        );
        assert!(of("wss://x").is_err());
    }
}
