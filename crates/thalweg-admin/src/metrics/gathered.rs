//! All that metrics are made of, read at one moment.

use crate::accounts::add_account;
use crate::answer::Fault;
use crate::ask::Asker;
use crate::ledger::{add_ledger, add_totals};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use thalweg_kernel::{Account, GroupCounters, Kernel, Ledger, Totals};
use thalweg_model::{Span, Time};
use thalweg_server::access::LoginCounts;
use thalweg_server::lobby::LobbyCounts;
use thalweg_server::stages::Stages;
use thalweg_server::{
    DatagramCounts, DtlsCounts, FrontCounts, JournalStatus, LoadCounts, LoopCounts,
    MulticastCounts, PacketCounts, PortView,
};

/// The most queues that have series of their own.
pub const QUEUES_SHOWN_MAX: usize = 1_000;

/// The most groups that have series of their own.
pub const GROUPS_SHOWN_MAX: usize = 1_000;

/// Values of the process and its shards.
#[derive(Debug, Default)]
pub struct Gathered {
    pub version: &'static str,
    pub uptime: Duration,
    /// Whether all listeners accept.
    pub ready: bool,
    /// 0 none, 1 waiting copies are dropped, 2 new sessions are refused.
    pub pressure: usize,
    /// Bytes of messages, over all shards that answered.
    pub memory_bytes: usize,
    /// Memory budget in bytes.
    pub memory_bytes_max: usize,
    pub lobby: LobbyCounts,
    /// Multicast groups by name, and what was sent to them.
    pub multicast: Vec<(String, Arc<MulticastCounts>)>,
    /// The counts of log-ins.
    pub logins: LoginCounts,
    pub shards: usize,
    /// The loops of the shards that answered, by shard.
    pub loops: Vec<(u16, LoopCounts)>,
    /// Their books, summed up.
    pub ledger: Ledger,
    /// Their totals, summed up.
    pub totals: Totals,
    /// Their histograms, summed up.
    pub stages: Stages,
    /// Connections that have a session, by listener.
    pub connections: BTreeMap<String, u64>,
    /// The same by protocol and version.
    pub dialects: BTreeMap<&'static str, u64>,
    /// Queues with names, summed up.
    pub queues: QueueSums,
    /// Each of them by its address, unless there are more than [`QUEUES_SHOWN_MAX`].
    pub each_queue: BTreeMap<Arc<str>, QueueFigures>,
    pub groups: GroupFigures,
    /// Each of them as `$share/<name>/<filter>`, unless there are more than [`GROUPS_SHOWN_MAX`].
    pub each_group: BTreeMap<String, GroupFigures>,
    /// Load reports of MQTT clients, members of groups or not.
    pub load: LoadCounts,
    /// The books of each prefix that has some, summed up.
    pub prefixes: BTreeMap<String, Account>,
    /// Sockets of datagrams, by listener, those of all shards summed up.
    pub ports: BTreeMap<String, PortSums>,
    /// Counters of the fronts for the metrics of their protocols.
    pub fronts: FrontCounts,
    /// Packets of connections by protocol.
    pub packets: BTreeMap<&'static str, PacketCounts>,
    /// Status of the journal; `None` if it is switched off.
    pub journal: Option<JournalStatus>,
    /// Resident memory of the process, in bytes; 0 where the system does not say.
    pub resident_bytes: u64,
    /// Processor time of the process, in seconds; 0 where the system does not say.
    pub cpu_seconds: f64,
}

/// The sockets of a datagram listener.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortSums {
    /// Counters of the datagram sockets.
    pub datagrams: DatagramCounts,
    /// Counters of DTLS; zero where it is not configured.
    pub dtls: DtlsCounts,
    /// Peers with which it is spoken now.
    pub dtls_peers: u64,
    /// Datagrams whose peers of DTLS had gone.
    pub dtls_unsent: u64,
}

impl PortSums {
    fn add(&mut self, port: &PortView) {
        self.datagrams.add(&port.datagrams);
        if let Some(DtlsCounts {
            cookies,
            completed,
            failed,
            crowded,
            discarded,
        }) = port.dtls
        {
            self.dtls.cookies += cookies;
            self.dtls.completed += completed;
            self.dtls.failed += failed;
            self.dtls.crowded += crowded;
            self.dtls.discarded += discarded;
        }
        self.dtls_peers += port.dtls_peers as u64;
        self.dtls_unsent += port.dtls_unsent;
    }
}

/// All queues and exchanges.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueSums {
    pub count: u64,
    pub figures: QueueFigures,
    /// Exchanges there are, those that are always there included.
    pub exchanges: u64,
    /// Bindings of all exchanges.
    pub bindings: u64,
}

/// Contents of a queue, or of all together.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueFigures {
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Messages given to consumers and not settled.
    pub unsettled: u64,
    pub consumers: u64,
}

/// Activity of a group, or of all together.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupFigures {
    pub members: u64,
    /// Those that are connected.
    pub members_online: u64,
    /// Those that get nothing for now.
    pub suspended: u64,
    /// Messages that wait for any member.
    pub waiting: u64,
    pub waiting_bytes: u64,
    /// Messages given to members and not settled.
    pub unsettled: u64,
    /// Age of the message that has waited longest.
    pub oldest: Span,
    /// Outcomes of its messages.
    pub counters: GroupCounters,
}

/// Answer of one shard.
struct Part {
    shard: u16,
    counts: LoopCounts,
    ledger: Ledger,
    totals: Totals,
    stages: Stages,
    held: usize,
    connections: BTreeMap<String, u64>,
    dialects: BTreeMap<&'static str, u64>,
    queues: QueueSums,
    each_queue: BTreeMap<Arc<str>, QueueFigures>,
    groups: GroupFigures,
    each_group: BTreeMap<String, GroupFigures>,
    load: LoadCounts,
    prefixes: Vec<(String, Account)>,
    ports: Vec<PortView>,
    fronts: FrontCounts,
    packets: Vec<(&'static str, PacketCounts)>,
}

impl Gathered {
    pub(crate) async fn gather(asker: &Asker) -> Result<Self, Fault> {
        let said = asker.all(|inside| {
            let mut connections = BTreeMap::new();
            let mut dialects = BTreeMap::new();
            inside.kernel.for_each_session(|session| {
                if let Some(connection) =
                    session.link.and_then(|link| inside.connections.view(link))
                {
                    *connections.entry(connection.listener).or_insert(0) += 1;
                    *dialects.entry(session.dialect).or_insert(0) += 1;
                }
            });
            let (queues, each_queue) = queues_of(inside.kernel);
            let (groups, each_group) = groups_of(inside.kernel, inside.now);
            Part {
                shard: inside.shard,
                counts: inside.counts,
                ledger: inside.kernel.ledger().clone(),
                totals: inside.kernel.totals(),
                stages: inside.stages.clone(),
                held: inside.kernel.memory_held()
                    + inside.links.kept_bytes()
                    + inside.connections.buffered(),
                connections,
                dialects,
                queues,
                each_queue,
                groups,
                each_group,
                load: inside.links.load_counts(),
                ports: inside.ports.views().collect(),
                fronts: inside.links.front_counts(),
                packets: inside.links.packets().collect(),
                prefixes: inside
                    .kernel
                    .accounts()
                    .map(|(prefix, account)| (prefix.to_owned(), account.clone()))
                    .collect(),
            }
        });
        let observer = asker.observer();
        let mut gathered = Gathered {
            version: observer.version(),
            uptime: observer.uptime(),
            ready: observer.is_ready(),
            pressure: observer.pressure(),
            memory_bytes_max: observer.memory_bytes_max(),
            lobby: observer.lobby(),
            multicast: observer.multicast().to_vec(),
            logins: observer.logins(),
            shards: observer.shard_count(),
            journal: observer.journal(),
            resident_bytes: resident_bytes().unwrap_or(0),
            cpu_seconds: cpu_seconds().unwrap_or(0.0),
            ..Gathered::default()
        };
        for part in said.await?.answers {
            gathered.loops.push((part.shard, part.counts));
            add_ledger(&mut gathered.ledger, &part.ledger);
            add_totals(&mut gathered.totals, &part.totals);
            gathered.stages.merge(&part.stages);
            gathered.memory_bytes += part.held;
            for (listener, count) in part.connections {
                *gathered.connections.entry(listener).or_insert(0) += count;
            }
            for (dialect, count) in part.dialects {
                *gathered.dialects.entry(dialect).or_insert(0) += count;
            }
            for port in &part.ports {
                gathered
                    .ports
                    .entry(port.listener.clone())
                    .or_default()
                    .add(port);
            }
            gathered.fronts.merge(&part.fronts);
            for (protocol, counts) in part.packets {
                *gathered.packets.entry(protocol).or_default() += counts;
            }
            gathered.queues.add(&part.queues);
            gathered.each_queue.extend(part.each_queue);
            gathered.groups.add(&part.groups);
            for (group, figures) in part.each_group {
                gathered.each_group.entry(group).or_default().add(&figures);
            }
            gathered.load += part.load;
            for (prefix, account) in part.prefixes {
                add_account(gathered.prefixes.entry(prefix).or_default(), &account);
            }
        }
        // Each shard lists one more than are shown, so that this says whether any has more.
        if gathered.each_group.len() > GROUPS_SHOWN_MAX {
            gathered.each_group.clear();
        }
        Ok(gathered)
    }
}

/// The queues of one shard. Nothing of each if there are too many: a server that stores the metrics would store all of them.
fn queues_of(kernel: &Kernel) -> (QueueSums, BTreeMap<Arc<str>, QueueFigures>) {
    let (mut sums, mut each) = (QueueSums::default(), BTreeMap::new());
    if !kernel.has_queues() {
        return (sums, each);
    }
    kernel.for_each_queue(|queue| {
        let figures = QueueFigures {
            messages: queue.messages as u64,
            bytes: queue.bytes,
            unsettled: queue.unsettled as u64,
            consumers: queue.consumers as u64,
        };
        sums.count += 1;
        sums.figures.add(&figures);
        if each.len() <= QUEUES_SHOWN_MAX {
            each.insert(queue.address, figures);
        }
    });
    if each.len() > QUEUES_SHOWN_MAX {
        each.clear();
    }
    kernel.for_each_exchange(|exchange| {
        sums.exchanges += 1;
        sums.bindings += exchange.bindings.len() as u64;
    });
    (sums, each)
}

/// The groups of one shard. Nothing of each if there are too many, as for queues.
fn groups_of(kernel: &Kernel, now: Time) -> (GroupFigures, BTreeMap<String, GroupFigures>) {
    let (mut sums, mut each) = (GroupFigures::default(), BTreeMap::new());
    kernel.for_each_group(now, |group| {
        let figures = GroupFigures {
            members: group.members as u64,
            members_online: group.seats.iter().filter(|seat| seat.online).count() as u64,
            suspended: group.seats.iter().filter(|seat| seat.suspended).count() as u64,
            waiting: group.waiting as u64,
            waiting_bytes: group.waiting_bytes as u64,
            unsettled: group.seats.iter().map(|seat| seat.unsettled as u64).sum(),
            oldest: group.oldest.unwrap_or(Span::ZERO),
            counters: group.counters,
        };
        sums.add(&figures);
        if each.len() <= GROUPS_SHOWN_MAX {
            each.insert(format!("$share/{}/{}", group.name, group.filter), figures);
        }
    });
    // Those that have ended count, too: counters do not fall.
    sums.counters = kernel.group_sums();
    (sums, each)
}

impl GroupFigures {
    fn add(&mut self, other: &GroupFigures) {
        self.members += other.members;
        self.members_online += other.members_online;
        self.suspended += other.suspended;
        self.waiting += other.waiting;
        self.waiting_bytes += other.waiting_bytes;
        self.unsettled += other.unsettled;
        self.oldest = self.oldest.max(other.oldest);
        self.counters += other.counters;
    }
}

impl QueueSums {
    fn add(&mut self, other: &QueueSums) {
        self.count += other.count;
        self.figures.add(&other.figures);
        self.exchanges += other.exchanges;
        self.bindings += other.bindings;
    }
}

impl QueueFigures {
    fn add(&mut self, other: &QueueFigures) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.unsettled += other.unsettled;
        self.consumers += other.consumers;
    }
}

/// Linux, proc(5): the second figure of `statm` counts resident pages, which are 4 KiB on the machines we build for.
fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

/// Linux, proc(5): figures 14 and 15 of `stat` count user and system time in ticks, 100 a second. The second figure is
/// a name in brackets that may hold blanks.
fn cpu_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let mut figures = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let user: u64 = figures.nth(11)?.parse().ok()?;
    let system: u64 = figures.next()?.parse().ok()?;
    Some((user + system) as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_says_what_the_process_uses() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
        assert!(cpu_seconds().is_some());
    }
}
