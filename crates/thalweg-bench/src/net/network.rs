//! A network of three namespaces: made, changed, measured and removed.

use std::fs;
use std::io;
use std::path::Path;

use super::loss::{self, Tally};
use super::meter::{Meter, Wire};
use super::nest;
use super::pump::Pump;
use super::queue;
use super::space::Space;
use super::tools::run;
use super::units::Loss;
use crate::cell::{Engine, Link};

/// Where clients are, in every network.
pub const CLIENT_HOST: &str = "10.80.1.2";
/// Where the broker is, in every network.
pub const BROKER_HOST: &str = "10.80.2.2";

/// Whether the packets of a link go through this process.
pub fn is_emulated(link: &Link) -> bool {
    match link.engine {
        Engine::Kernel => false,
        Engine::Emulator => true,
        // The kernel's jitter lets packets overtake each other, ours does not.
        Engine::Auto => {
            link.is_more_than_rate() && !(link.jitter_ns == 0 && queue::has("netem").is_ok())
        }
    }
}

/// What a network has carried since it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub up: Wire,
    /// Sent by the broker.
    pub down: Wire,
}

impl Reading {
    pub fn sum(&self) -> Wire {
        self.up + self.down
    }
}

/// A network; removed when dropped, unless it was let go.
#[derive(Debug)]
pub struct Network {
    name: String,
    client: Space,
    broker: Space,
    /// The namespace between, where the kernel loses packets.
    between: Space,
    pump: Option<Pump>,
    meters: [Meter; 2],
    stays: bool,
}

impl Network {
    /// Makes it; an emulator draws from the seed. What is left of an earlier one of this name is removed first.
    pub fn up(name: &str, link: &Link, seed: u64) -> io::Result<Network> {
        if !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            || name.is_empty()
            || name.len() > 64
        {
            return Err(io::Error::other(format!(
                "{name}: a network's name is letters, digits and dashes, at most 64"
            )));
        }
        let laid = Self::lay(name, link, seed);
        if laid.is_err() {
            // A network that was made in part is removed.
            let _ = remove(name);
        }
        laid
    }

    fn lay(name: &str, link: &Link, seed: u64) -> io::Result<Network> {
        remove(name)?;
        let [client, between, broker] = names(name);
        let (client, broker) = (Space::make(&client)?, Space::make(&broker)?);
        let (is_emulated, loss) = (is_emulated(link), Loss::percent(link.loss * 100.0));
        if link.bridged && (is_emulated || loss != Loss::NONE || link.is_more_than_rate()) {
            return Err(io::Error::other(
                "a bridge has a rate, and no losses and delays",
            ));
        }
        if link.classes && (is_emulated || link.rate.is_none()) {
            return Err(io::Error::other(
                "only a rate of the kernel has queues with classes",
            ));
        }
        let mut pump = None;
        let between = if is_emulated {
            pump = Some(Pump::start([&client, &broker], DEVICE, link, seed)?);
            for (space, own, other) in [
                (&client, CLIENT_HOST, BROKER_HOST),
                (&broker, BROKER_HOST, CLIENT_HOST),
            ] {
                space.set(&QUIET)?;
                space.batch(&format!(
                    "link set lo up\naddress add {own} peer {other} dev {DEVICE}\n\
                     link set dev {DEVICE} txqueuelen {EMULATED_QUEUE} up\n"
                ))?;
            }
            Space::named(&between)
        } else {
            let between = Space::make(&between)?;
            lay_cables([&client, &broker], &between, link.bridged)?;
            loss::prepare(&between)?;
            loss::set(&between, loss)?;
            queue::set(&between, link)?;
            between
        };
        Network::of(name, [client, between, broker], pump, false)
    }

    /// One that the kernel carries and another process has made.
    pub fn found(name: &str) -> io::Result<Network> {
        let [client, between, broker] = names(name).map(|name| Space::named(&name));
        if !client.is_there() || !broker.is_there() {
            return Err(io::Error::other(format!(
                "there is no network {name}; `thalweg bench net up {name}` makes one"
            )));
        }
        Network::of(name, [client, between, broker], None, true)
    }

    fn of(
        name: &str,
        [client, between, broker]: [Space; 3],
        pump: Option<Pump>,
        stays: bool,
    ) -> io::Result<Network> {
        let is_tun = !between.is_there();
        let meter = |space| Meter::new(space, DEVICE, is_tun);
        Ok(Network {
            name: name.to_owned(),
            meters: [meter(&client)?, meter(&broker)?],
            client,
            broker,
            between,
            pump,
            stays,
        })
    }

    pub fn client(&self) -> &Space {
        &self.client
    }

    /// Where the broker runs.
    pub fn broker(&self) -> &Space {
        &self.broker
    }

    /// Changes the loss of both directions in one step.
    pub fn set_loss(&self, loss: Loss) -> io::Result<()> {
        match &self.pump {
            Some(pump) => pump.set_loss(loss),
            None if self.between.is_there() => loss::set(&self.between, loss)?,
            None => {
                return Err(io::Error::other(format!(
                    "the link of {} is emulated by another process, which alone can change it",
                    self.name
                )));
            }
        }
        Ok(())
    }

    /// Bytes and frames that both sides have sent.
    pub fn reading(&self) -> io::Result<Reading> {
        let [client, broker] = &self.meters;
        Ok(Reading {
            up: client.sent()?,
            down: broker.sent()?,
        })
    }

    /// Packets that came to the link from the client's side and from the broker's, and were lost. None where another
    /// process emulates it.
    pub fn tallies(&self) -> io::Result<Option<[Tally; 2]>> {
        match &self.pump {
            Some(pump) => Ok(Some(pump.tallies())),
            None if self.between.is_there() => loss::tallies(&self.between).map(Some),
            None => Ok(None),
        }
    }

    /// Packets lost by the link and packets that came to it, both directions together.
    pub fn lost(&self) -> io::Result<Option<(u64, u64)>> {
        let both = |[up, down]: [Tally; 2]| (up.lost + down.lost, up.came + down.came);
        Ok(self.tallies()?.map(both))
    }

    /// Packets that never came to the link, because the sender's interface was full: an emulator that is too slow for what
    /// it is given. What is measured then does not count.
    pub fn overflow(&self) -> io::Result<u64> {
        let [client, broker] = &self.meters;
        Ok(client.dropped()? + broker.dropped()?)
    }

    /// Whether a process emulates its link.
    pub fn is_emulated(&self) -> bool {
        self.pump.is_some() || !self.between.is_there()
    }

    /// It stays when this is dropped. An emulated one still loses its link.
    pub fn let_go(&mut self) {
        self.stays = true;
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if !self.stays {
            self.pump = None;
            let _ = remove(&self.name);
        }
    }
}

/// Removes what there is of a network, also one of an earlier process.
pub fn remove(name: &str) -> io::Result<()> {
    for space in names(name).map(|name| Space::named(&name)) {
        if space.is_there() {
            space.remove()?;
        }
    }
    Ok(())
}

/// Names of the networks there are.
pub fn all() -> Vec<String> {
    let name_of =
        |space: &String| Some(space.strip_prefix(PREFIX)?.strip_suffix("-ep")?.to_owned());
    Space::all().iter().filter_map(name_of).collect()
}

/// A unique name, from which [`sweep`] can tell whether its process still runs.
pub fn name_of_ours(word: &str) -> String {
    format!("{}-{word}", std::process::id())
}

/// Removes networks of processes that were killed before they could.
pub fn sweep() {
    for name in all() {
        let owner = name
            .split('-')
            .next()
            .and_then(|number| number.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            let _ = remove(&name);
        }
    }
}

/// Whether a network can be made here; if not, why.
pub fn is_possible() -> Result<(), String> {
    let is_root = rustix::process::geteuid().is_root();
    match (
        is_root,
        run("ip", &["netns", "list"], ""),
        run("nft", &["--version"], ""),
    ) {
        (false, ..) => Err(match nest::is_possible() {
            Ok(()) => "network namespaces need root, or a user namespace; this command makes none"
                .to_owned(),
            Err(why) => nest::told(&why),
        }),
        (true, Err(error), _) | (true, _, Err(error)) => Err(error.to_string()),
        (true, Ok(_), Ok(_)) => match fs::exists("/dev/net/tun") {
            Ok(true) => Ok(()),
            _ => Err("this kernel has no TUN devices".to_owned()),
        },
    }
}

fn names(name: &str) -> [String; 3] {
    ["ep", "rt", "br"].map(|part| format!("{PREFIX}{name}-{part}"))
}

/// Cables to a router, or to a bridge that makes one Ethernet of both; the queues behind the link are those of its ports.
fn lay_cables(spaces: [&Space; 2], between: &Space, is_bridged: bool) -> io::Result<()> {
    if is_bridged {
        let bridge = "link add name bridge type bridge mcast_snooping 0\nlink set dev bridge up\n";
        between.batch(bridge)?;
    }
    for (space, side, number) in [
        (spaces[0], loss::SIDES[0], 1),
        (spaces[1], loss::SIDES[1], 2),
    ] {
        let name = space.name();
        let at = |net: u8, host: u8| {
            let card = format!("02:80:00:00:0{net}:0{host}");
            (format!("10.80.{net}.{host}"), card)
        };
        let ((own, own_card), (router, router_card)) = (at(number, 2), at(number, 1));
        // One segment at most leaves a socket at once: else what the link loses, and counts, would be 64 kB "packets".
        between.batch(&format!(
            "link add name {side} address {router_card} gso_max_segs 1 type veth peer name {DEVICE} address {own_card} \
             gso_max_segs 1 netns {name}\n"
        ))?;
        between.set(&QUIET)?;
        space.set(&QUIET)?;
        // Neighbours are told, so that the link carries and loses nothing but what is measured.
        let (there, (next, next_card), bits, route) = match is_bridged {
            true => (
                format!("link set dev {side} master bridge up\n"),
                at(3 - number, 2),
                16,
                format!("224.0.0.0/4 dev {DEVICE}"),
            ),
            false => (
                format!(
                    "address add {router}/24 dev {side}\nlink set dev {side} up\n\
                     neighbour replace {own} lladdr {own_card} dev {side} nud permanent\n"
                ),
                at(number, 1),
                24,
                format!("default via {router}"),
            ),
        };
        between.batch(&there)?;
        space.batch(&format!(
            "link set lo up\naddress add {own}/{bits} dev {DEVICE}\nlink set dev {DEVICE} up\n\
             neighbour replace {next} lladdr {next_card} dev {DEVICE} nud permanent\nroute add {route}\n"
        ))?;
    }
    match is_bridged {
        true => Ok(()),
        false => between.set(&[("ipv4/ip_forward", "1")]),
    }
}

/// No traffic of the system's own, and no connection inherits what an earlier one measured.
const QUIET: [(&str, &str); 3] = [
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
    ("ipv4/tcp_no_metrics_save", "1"),
];
/// Packets that wait for the emulator at most. With the usual 500, one moment without it loses some.
const EMULATED_QUEUE: u32 = 10_000;
/// The interface of both ends.
pub const DEVICE: &str = "wire";
const PREFIX: &str = "thalweg-";

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::time::Duration;

    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::cell::ALARM_CLASS;

    /// A network, where there may be one.
    fn up(word: &str, link: &Link) -> Option<Network> {
        match is_possible() {
            Ok(()) => Some(Network::up(&name_of_ours(word), link, 1).expect("a network")),
            Err(why) => {
                println!("skipped: {why}");
                None
            }
        }
    }

    /// A socket that does not wait for ever.
    fn listener(host: impl std::net::ToSocketAddrs) -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(host)?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(socket)
    }

    #[test]
    fn a_bridge_carries_multicasts_and_only_a_rate() {
        let link = Link {
            bridged: true,
            rate: Some(95_000_000),
            ..Link::LOOPBACK
        };
        let Some(network) = up("bridge", &link) else {
            return;
        };
        let group = Ipv4Addr::new(239, 255, 80, 1);
        let listener = network.broker().within(|| {
            let socket = listener((Ipv4Addr::UNSPECIFIED, PORT))?;
            socket.join_multicast_v4(&group, &BROKER_HOST.parse().expect("an address"))?;
            Ok(socket)
        });
        let send = || UdpSocket::bind((CLIENT_HOST, 0))?.send_to(b"to all", (group, PORT));
        assert_eq!(network.client().within(send).expect("it is sent"), 6);
        let heard = listener.expect("a socket").recv(&mut [0; 16]);
        assert_eq!(heard.expect("it comes"), 6);
        let lossy = Link { loss: 0.01, ..link };
        assert!(Network::up(&name_of_ours("lossy-bridge"), &lossy, 1).is_err());
    }

    #[test]
    fn a_queue_with_classes_lets_alarms_go_first() {
        let order = |classes: bool| {
            let link = Link {
                rate: Some(1_000_000),
                classes,
                ..Link::LOOPBACK
            };
            let network = up("classes", &link)?;
            let receiver = network.client().within(|| listener((CLIENT_HOST, PORT)));
            let send = || {
                let [others, alarms] = [0, ALARM_CLASS].map(|class| {
                    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
                    socket.set_tos_v4(u32::from(class) << 2)?;
                    Ok::<UdpSocket, io::Error>(socket.into())
                });
                let (others, alarms) = (others?, alarms?);
                // 11 ms each at this rate, so that they wait when the alarm comes.
                for _ in 0..20 {
                    others.send_to(&[0; 1400], (CLIENT_HOST, PORT))?;
                }
                alarms.send_to(b"alarm", (CLIENT_HOST, PORT))
            };
            network.broker().within(send).expect("they are sent");
            let receiver = receiver.expect("a socket");
            let mut sizes = (0..21).map(|_| receiver.recv(&mut [0; 1500]).expect("it comes"));
            sizes.position(|size| size == 5)
        };
        let (Some(without), Some(with)) = (order(false), order(true)) else {
            return;
        };
        assert!(without == 20 && with < 10, "{without} and {with}");
        let endless = Link {
            classes: true,
            ..Link::LOOPBACK
        };
        assert!(Network::up(&name_of_ours("no-queue"), &endless, 1).is_err());
    }

    const PORT: u16 = 7480;
}
