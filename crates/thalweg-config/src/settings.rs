//! The typed configuration: what the rest of the broker reads. An `Option` is `None` where the setting is off or unlimited.

use std::collections::BTreeMap;
use std::path::PathBuf;

use thalweg_kernel::{GroupStrategy, Overflow};
use thalweg_model::{Filter, Span};

use super::access::{Access, Admin};
use super::choices::*;
use super::listener::Listener;
use super::multicast::{MULTICAST, Multicast};
use super::policy::{GROUP_POLICIES, GroupPolicy, POLICY, Policy};
use super::protocols::Protocols;
use super::section::section;

section! {
    /// The whole configuration, checked.
    pub struct Config {
        /// Directory of the broker's own files, made if it is not there. The journal is in its folder `journal`, and
        /// one process at a time can have it: give each broker a directory of its own, on a local disk. Beside it the
        /// broker keeps a small file (`secret`, mode 0600) once there are passwords and SCRAM, so that restarts do not
        /// tell which users exist. Without the journal a broker that cannot write here says so and runs all the same.
        data_dir: PathBuf = Path, "./thalweg-data", Restart;
        /// Number of shards: threads that each own their share of the connections and sessions. `automatic` (or 0) is
        /// one per two cores, at least one: the other half of the machine is for the kernel's network work.
        shards: Option<usize> = count(1, SHARDS_MAX as u64), "automatic" or "automatic", Restart;
        /// Virtual hosts of AMQP and STOMP clients beside `/`, which is always there. Each has queues, exchanges and
        /// topics of its own; MQTT clients are in `/`. A client that names another one is refused.
        tenants: Vec<String> = NAMES, "", NewConnections;
        /// Quality of service by topic, for every protocol: see policies.md. Of the entries whose `filter` matches a topic
        /// and that set a field the last one counts, and over it nothing else; `thalweg config explain plant/7/x` shows
        /// them. With `lifespan_max`, messages that would live longer, or for ever, expire after that time. With
        /// `priority_min`, messages of a lower priority have this one. With `reliability_min`, what is published at most once
        /// is handled as if it were at least once; `reliability_max` is how reliably subscribers are sent messages at most.
        /// With `last_value`, topics remember their latest
        /// message although it was not retained, as with `last_values.keep` (`keep`), or no message is retained (`off`).
        /// With `last_value_depth`, they keep so many of those messages, for XMPP clients, which see them as items.
        /// `fsync` is what acknowledgements wait for, as with `journal.filters`.
        policy: Vec<Policy> = POLICY, "", Now;
        /// Groups that receivers of our client library join to have messages from datagrams that are sent once for all of them: see
        /// multicast.md. Each is sent what matches its `filters` and what its `user` may receive, by the `interfaces` named and no
        /// others. `group` is a multicast address and port, `name` the last level of the topic `$multicast/<name>`, where its key is
        /// kept: who may receive that can read all that is sent. A datagram may pass `ttl` - 1 routers. No more than `rate_max`
        /// leave per second; what is beyond waits and is dropped as for a slow receiver. Datagrams have `datagram_bytes_max` bytes
        /// at most, messages `packet_bytes_max`. What was sent in the last `history_age_max`, as far as it has
        /// `history_bytes_max` bytes, can be asked for again. A receiver hears something each `heartbeat`, or falls back to its
        /// connection.
        multicast: Vec<Multicast> = MULTICAST, "", Restart;
        in "log." log: Log;
        in "listeners." listeners: BTreeMap<String, Listener>;
        in "admin." admin: Admin;
        in "access." access: Access;
        in "limits." limits: Limits;
        in "queue." queue: Queue;
        in "queues." queues: Queues;
        in "session." session: Session;
        in "retained." retained: Retained;
        in "journal." journal: Journal;
        in "last_values." last_values: LastValues;
        in "dedup." dedup: Dedup;
        in "presence." presence: Presence;
        in "ledger." ledger: Ledger;
        in "groups." groups: Groups;
        in "sys." sys: Sys;
        in "" #[serde(flatten)] protocols: Protocols;
    }

    pub struct Log {
        /// How much is logged. `debug` writes a line per connection and refusal, `trace` one per packet: do not leave
        /// either on under load.
        level: LogLevel = Word(LogLevel::WORDS), "info", Now;
        /// Shape of a log line: `text` for people, `json` (one object per line) for collectors.
        format: LogFormat = Word(LogFormat::WORDS), "text", Restart;
        /// File that log lines are appended to; made with mode 0640. Not set: standard error.
        file: Option<PathBuf> = Path, "", Restart;
    }

    pub struct Limits {
        /// Most connections at once. When reached, new ones are closed at accept. The process's limit on open files
        /// must be as high (ulimit -n).
        connections_max: usize = count(1, 10_000_000), "1000000", NewConnections;
        /// Most connections at once from one IP address, or from one IPv6 /64, on one listener. Keep it off behind NAT
        /// or a proxy without PROXY protocol.
        connections_per_address_max: Option<usize> = count(1, 10_000_000), "off" or "off", NewConnections;
        /// Connections accepted per second on each listener. Those above it wait in the system's accept queue.
        connect_rate: Option<u64> = RATE, "off" or "off", NewConnections;
        /// Time from accept until PROXY header, TLS, WebSocket upgrade and the client's CONNECT (AMQP: everything up to
        /// `connection.open`) must be complete. Then the connection is closed.
        connect_timeout: Span = seconds(1, 3600), "10s", NewConnections;
        /// Connections that may be half-open at once on each listener: in TLS handshake or WebSocket upgrade, before
        /// CONNACK (MQTT), `connection.open-ok` (AMQP), CONNECTED (STOMP) or CSM (CoAP over TCP), so that a storm of
        /// reconnects cannot take memory or time from connected clients. When reached, the address (IPv6: /64) with
        /// most of them gives one up for a new one of an address with fewer: the one that was silent for longest.
        /// Otherwise new ones are closed at accept unless that one was silent for a second.
        handshakes_max: usize = count(1, 1_000_000), "1024", NewConnections;
        /// Most bytes that a peer may send before it is logged in: the CONNECT packet of MQTT with its will, and each
        /// AUTH packet before CONNACK; the CONNECT frame of STOMP. What is longer is refused (MQTT 5: "packet too
        /// large") and the connection closed. The first messages of AMQP (8 KiB) and CoAP over TCP (1152 bytes) have
        /// limits of their own.
        connect_bytes_max: usize = size(4 * KIB, 16 * MIB), "128KiB", Restart;
        /// Longest client id in bytes; longer ones are refused with "client identifier not valid". MQTT allows 65,535,
        /// and promises clients only 23.
        client_id_bytes_max: usize = count(23, 65_535), "1024", NewConnections;
        /// Largest MQTT packet accepted, announced to MQTT 5 clients as Maximum Packet Size. A connection that sends a
        /// larger one is closed.
        packet_bytes_max: usize = PACKET_BYTES, "16MiB", NewConnections;
        /// Most levels (parts between slashes) in a topic or filter.
        topic_levels_max: usize = count(1, 65_536), "128", Now;
        /// Longest topic or filter in bytes. The default is what MQTT can express.
        topic_bytes_max: usize = count(1, 65_535), "65535", NewConnections;
        /// Most subscriptions of one session. Those beyond it are answered with "quota exceeded" (failure in MQTT 3).
        subscriptions_per_session_max: usize = count(1, 10_000_000), "10000", Now;
        /// Publishes per second accepted from each connection. The broker stops reading from a client that is faster;
        /// nothing is dropped.
        publish_rate: Option<u64> = RATE, "off" or "off", NewConnections;
        /// Published bytes per second accepted from each connection. The broker stops reading from a client that is
        /// faster; nothing is dropped.
        publish_bytes_rate: Option<u64> = SIZE_RATE, "off" or "off", NewConnections;
        /// Publishers and topics whose rates by policy are counted at a time. What more come share one count for each rate.
        rates_max: usize = count(1, 100_000_000), "100000", Now;
        /// Memory for what peers have the whole broker keep: messages, and beside them sessions, wills, filters, topic
        /// aliases, queues, bindings, watches and transactions. From nine tenths of it on, messages that could only
        /// wait in memory are refused; a publisher whose protocol has no refusal is not read until there is room.
        /// Transactions have a quarter of it together, and the rest beside messages half, but what is little is let in
        /// beyond that. Clients without a session are refused beyond the budget, if it is not messages alone that fill
        /// it. `automatic` is three quarters of the machine's (or the container's) memory.
        memory_bytes_max: Option<usize> = size(16 * MIB, 64 * TIB), "automatic" or "automatic", Now;
    }

    pub struct Queue {
        /// Most messages that wait for one session. Then `queue.overflow` decides.
        messages_max: usize = count(1, 1_000_000_000), "100000000", Now;
        /// Most bytes that wait for one session. Then `queue.overflow` decides. With a journal, what waits for a
        /// session that outlives its connection is on disk beyond `queue.memory_bytes_max`.
        bytes_max: usize = size(KIB, TIB), "4GiB", Now;
        /// The same for a session whose queue is in memory only: one that ends with its connection, or any if there is
        /// no journal. The smaller of both counts.
        volatile_bytes_max: usize = size(KIB, TIB), "64MiB", Now;
        /// How long publishers of QoS 1 and 2 are slowed for a connected client, a shared subscription or a queue with
        /// a name that is more than half full and from which nothing is taken meanwhile. They are as slow as it is: see
        /// operating.md. 0s switches this off.
        publisher_pace_max: Span = seconds(0, 3600), "10s", Now;
        /// What a full queue does with the next message: drop the one that has waited longest, drop the new one, or
        /// drop it and disconnect the receiver. Each drop is counted with its reason. A new one of QoS 1 or 2 that no
        /// other receiver has got is refused: MQTT 5 0x97, AMQP nack, CoAP 5.03, STOMP ERROR; to MQTT 3 it is not
        /// acknowledged.
        overflow: Overflow = Word(Overflow::WORDS), "drop-newest", Now;
        /// Whether QoS 0 messages wait for sessions that are not connected. MQTT leaves it open; most brokers drop
        /// them.
        at_most_once_while_offline: bool = Flag, "false", Now;
        /// Bytes of one session's waiting messages that are kept in memory; of those beyond it only the place in the
        /// journal is, and they are read back when their turn comes. Without the journal everything is in memory.
        memory_bytes_max: usize = size(KIB, TIB), "1MiB", Now;
        /// Bytes that may wait for a slow client's socket. Beyond it QoS 0 messages for this client are dropped and
        /// counted; QoS 1 and 2 wait in its queue.
        output_bytes_max: usize = size(4 * KIB, GIB), "1MiB", Now;
        /// Longest time that publishers wait for a client whose output is piling up. If it has not drained by then it
        /// counts as slow: publishers do not wait for it until it has caught up, and `queue.*` decide about its
        /// messages. 0s switches waiting off.
        output_pace_max: Span = seconds(0, 1), "20ms", Now;
    }

    pub struct Queues {
        /// Most queues that AMQP and STOMP clients may have declared. Further ones are refused.
        count_max: usize = count(1, 10_000_000), "100000", Now;
        /// Most messages that wait in one queue, whatever limit it was declared with. Further ones are refused: AMQP
        /// publishers that asked for confirmations hear `basic.nack`.
        messages_max: u64 = count(1, 1_000_000_000_000), "10000000", Now;
        /// Most bytes of payload that wait in one queue, likewise.
        bytes_max: u64 = size(KIB, 64 * TIB), "4GiB", Now;
        /// Bytes of one queue's messages that wait in memory; what comes beyond waits on disk and is read back when its
        /// turn comes. For durable queues that were declared without priorities, lengths and a time to live; others are
        /// in memory as a whole. The same bytes of what waits for a shared subscription are in memory, if one of its
        /// members has a session that outlives its connection.
        memory_bytes_max: usize = size(KIB, 64 * TIB), "16MiB", Now;
        /// Most exchanges that clients may have declared. Further ones are refused.
        exchanges_max: usize = count(1, 10_000_000), "10000", Now;
        /// Most bindings of all exchanges together. Further ones are refused.
        bindings_max: usize = count(1, 100_000_000), "1000000", Now;
        /// Most bytes of messages published in transactions that are not committed, over all channels of a connection.
        transaction_bytes_max: usize = size(KIB, TIB), "64MiB", Now;
    }

    pub struct Session {
        /// Longest session expiry that MQTT 5 clients are granted; a longer one is shortened, and CONNACK says so. 0s
        /// ends each session with its connection.
        expiry_max: Span = whole_seconds(0, SECONDS_MAX), "unlimited" or "unlimited", NewConnections;
        /// How long the session of an MQTT 3 client with clean session 0 is kept after it disconnects. MQTT 3 has no
        /// expiry of its own, so that with `never` forgotten clients fill the memory.
        v3_expiry: Span = whole_seconds(1, SECONDS_MAX), "7d" or "never", NewConnections;
        /// Most sessions, connected or not. When reached, clients without a session are refused with "quota exceeded".
        count_max: usize = count(1, 100_000_000), "2000000", NewConnections;
        /// Whether QoS 1 messages of a shared subscription that a client has not acknowledged go to another member as
        /// soon as it disconnects. If not, they wait for its return, the end of its session, or
        /// `groups.settle_timeout`.
        redispatch: bool = Flag, "true", Now;
    }

    pub struct Retained {
        /// Whether retained messages are kept. If not, CONNACK says so to MQTT 5 clients, and a retained publish is
        /// refused.
        enabled: bool = Flag, "true", Now;
        /// Most retained messages. When reached, new topics are not retained; known ones are still replaced.
        messages_max: usize = count(1, 1_000_000_000), "1000000", Now;
        /// Most bytes of retained messages. When reached, messages are not retained; they are still delivered.
        bytes_max: usize = size(KIB, TIB), "256MiB", Now;
        /// How long a retained message is kept at most, whatever expiry it carries.
        expiry_max: Span = whole_seconds(1, SECONDS_MAX), "never" or "never", Now;
    }

    pub struct Journal {
        /// Whether sessions that outlive their connection, what waits for them, and retained messages survive the
        /// process. If not, an acknowledgement means "this process has it", and a restart forgets everything.
        enabled: bool = Flag, "true", Restart;
        /// What an acknowledgement waits for. `always`: for the disk; what is acknowledged survives kill -9 and power
        /// loss. `interval`: for the write, and the disk follows every `journal.fsync_interval`; survives kill -9, and
        /// power loss takes at most the interval. `never`: for the write, and the system decides when the disk follows;
        /// survives kill -9, and power loss may take half a minute. `journal.filters` and `listeners.<name>.fsync` can
        /// say otherwise for some topics and clients.
        fsync: Fsync = Word(Fsync::WORDS), "always", Now;
        /// Time between two syncs where the policy is `interval`: the most that power loss can take.
        fsync_interval: Span = millis(1, 1000), "50ms", Now;
        /// Sync policies of topics, as a table from filters to policies. A message whose topic a filter matches has its
        /// policy, whatever `journal.fsync` and its listener say; if several match, the most durable of them counts
        /// (`always`, then `interval`, then `never`).
        filters: Vec<(Filter, Fsync)> = Policies, "", Now;
        /// Most bytes of journal files. From four fifths of it on (or of the file system, which is the limit with
        /// `off`), QoS 1 and 2 publishes that would have to be kept are refused with "quota exceeded"; MQTT 3 clients,
        /// whose protocol has no refusal, are not read. Deliveries and acknowledgements go on, and make room.
        bytes_max: Option<u64> = size(4 * MIB, 64 * TIB), "off" or "off", Restart;
        /// Length of a segment file, which is made at full length before it is written. Journals with segments of
        /// another length are read all the same.
        segment_bytes: u64 = size(MIB, 64 * MIB), "64MiB", Restart;
        /// Most bytes that the journal writes in one piece. What follows from one message is cut into several pieces if
        /// it is longer; a client whose single message is longer is disconnected. Larger than any message may be,
        /// therefore; less than the default is of use in tests.
        frame_bytes_max: usize = size(MIB, GIB), "1GiB", Restart;
        /// Bytes written to the journal between two checkpoints. A start reads the newest checkpoint and what was
        /// written since: less here is a faster start and more writing.
        checkpoint_bytes: u64 = size(MIB, TIB), "256MiB", Restart;
        /// Time between two checkpoints, if anything was written.
        checkpoint_interval: Span = seconds(1, 86_400), "60s", Restart;
        /// Time that a sync waits for more to come. Batches form by themselves while the disk is busy; a little waiting
        /// can help a slow disk under light load, and delays every acknowledgement.
        max_linger: Span = millis(0, 10), "0s", Restart;
    }

    pub struct LastValues {
        /// Filters of topics that keep their latest message although its publisher did not retain it, for readers that
        /// come later: CoAP clients that GET, retained messages for MQTT subscribers, `x-last-value`. In memory only;
        /// what publishers retain survives a restart, as always.
        keep: Vec<Filter> = FILTERS, "", Now;
        /// Most messages that are kept only because of `last_values.keep`, or because a CoAP client has made a topic of
        /// their address. When reached, further topics keep none; known ones are still replaced.
        messages_max: usize = count(1, 1_000_000_000), "1000000", Now;
        /// Most bytes of these, likewise.
        bytes_max: usize = size(KIB, TIB), "256MiB", Now;
    }

    pub struct Dedup {
        /// Publishers whose message ids are remembered for deduplication; each takes 1 KiB of memory. When more come,
        /// those that were idle for longest are forgotten; a user that has more than half of them makes only its own be
        /// forgotten.
        publishers_max: usize = count(1, 10_000_000), "10000", Now;
        /// A publisher that has sent nothing with a stamp for this long may be forgotten. What it repeats after that is
        /// taken for new.
        expiry: Span = whole_seconds(1, SECONDS_MAX), "7d" or "never", Now;
    }

    pub struct Presence {
        /// Whether the broker publishes which clients come and go: each that has a name gets a retained message at
        /// `$presence/<name>`, which says since when it is online or offline, by which protocol, and why it left. The
        /// name is an MQTT client id that the client chose, or the identity of CoAP over DTLS. The `client-id` of STOMP
        /// and the connection name of AMQP are only claimed and published at `$presence/stomp/<name>` and
        /// `$presence/amqp/<name>`, unless they are the user's name, alone or with a colon and more behind it. In a
        /// virtual host it is at `$presence@<virtual host>/<name>`. Off by default: readers of these topics see who is
        /// connected, and it takes half a KiB for each client and a message whenever one comes or goes. While it is
        /// off, subscribing there is refused. Only the broker may publish there.
        enabled: bool = Flag, "false", NewConnections;
        /// How long it is remembered of a client that it is offline. `off`: the message is delivered to present
        /// subscribers and not retained.
        offline: Option<Span> = seconds(1, 30 * 86_400), "1h" or "off", Now;
        /// Most clients of which it is remembered that they are offline, so that names that come only once do not add
        /// up. Of more nothing stays, as with `off`.
        offline_max: usize = count(0, 10_000_000), "10000", Now;
    }

    pub struct Ledger {
        /// Topic prefixes of whole levels that get books of their own: `plant/a` counts `plant/a` and everything below
        /// it, but for what a longer prefix in the list counts. The books are in the metrics, in /v1/ledger and in
        /// `thalweg ledger`.
        prefixes: Vec<String> = PREFIXES, "", Restart;
    }

    pub struct Groups {
        /// How a shared subscription chooses the member that gets the next message. `adaptive`: the one that is
        /// expected to finish it first, by acknowledgements, load reports and what else the broker measures; messages
        /// wait in the group until a member is about to be free. `round-robin`: each in turn. `random`: by chance.
        /// `sticky`: the same until it cannot take more. `least-outstanding`: the one with fewest unacknowledged
        /// messages. `weighted`: in turn, by the weights that members named. `hash-client`, `hash-topic`: by publisher
        /// or topic, so that what belongs together stays together. `score`: by reports alone, as in the thesis that
        /// introduced them. Other names for the same are understood: `lbect`, `expected-completion-time`, `dynamic`;
        /// `rr`, `round-robin-per-group`, `alternating`, `turn`, `single-active-round-robin`; `local`, `prefer-local`,
        /// `local-only` (by chance: there is one machine); `failover`, `single-active-consumer`; `least-inflight`,
        /// `least-connections`, `least-request`, `least-pending`; `weighted-round-robin`, `wrr`; `hash`,
        /// `hash-clientid`, `hash-publisher`; `hash-address`, `consistent-hash`; `state-aware`; with `_` for `-`, too.
        strategy: GroupStrategy = Strategy, "adaptive", Now;
        /// What holds for some shared subscriptions, by filter: of the entries the first whose `filter` covers the
        /// subscription's own counts, and what it leaves out is as elsewhere. `strategy` and `settle_timeout` are like
        /// the keys of that name. `order` is `publisher` or `topic`: a message goes to no other member while an earlier
        /// one of its publisher, or topic, is unacknowledged; with `off` members decide. `upgrade_qos = true` delivers
        /// QoS 0 publishes with the QoS that members subscribed with, so that slow members are seen and nothing is lost
        /// with them; MQTT has no such rule. A message that members have been given `delivery_limit` times without
        /// acknowledging it is given up at the next time. `dead_letter` is the topic to which messages go that are
        /// given up, that expire while they wait, or that a member refuses (a PUBACK or PUBREC of 0x80 and above, a
        /// reject of AMQP without requeue); `$q/dead` is a queue. Of a shared subscription that takes from a queue the
        /// queue's own limits count.
        policies: Vec<GroupPolicy> = GROUP_POLICIES, "", Now;
        /// Most messages that wait for one shared subscription when no member can take them. Further ones are dropped
        /// and counted; of QoS 1 or 2, and if no other receiver has got them, they are refused as with
        /// `queue.overflow`.
        messages_max: usize = count(1, 1_000_000_000), "100000", Now;
        /// Most bytes that wait for one shared subscription. Further messages are dropped and counted.
        bytes_max: usize = size(KIB, TIB), "64MiB", Now;
        /// Time a member has to acknowledge QoS 1 messages of a shared subscription. Then its connection is closed, if
        /// another member is there that has not fallen silent, too, and what it had goes to others: as long as it is
        /// open MQTT allows no second copy. Work that takes longer needs a longer time, or is done twice. A member that
        /// returns gets one message until it has acknowledged one, and from the second time on waits for that.
        settle_timeout: Option<Span> = SETTLE_TIMEOUT, "30s" or "off", Now;
        /// Whether the strategy `adaptive` closes a member's connection before `groups.settle_timeout`: once it has
        /// acknowledged nothing for 2 seconds and for 30 times as long as its work takes, and others are there. Then a
        /// worker that hangs holds its messages for seconds, and one whose program pauses for 2 seconds (a garbage
        /// collection, one slow job among quick ones) is disconnected and its work done twice. Groups for which
        /// `groups.policies` names a `settle_timeout` keep that.
        adaptive_eviction: bool = Flag, "false", Now;
    }

    pub struct Sys {
        /// Time between two rounds of statistics under $SYS.
        interval: Option<Span> = seconds(1, 86_400), "10s" or "off", Now;
    }
}

impl Config {
    /// How many shards to start on a machine with `cores` cores: the setting, or one per two cores, at least one.
    pub fn shard_count(&self, cores: usize) -> usize {
        self.shards.unwrap_or(cores / 2).clamp(1, SHARDS_MAX)
    }

    /// The listeners to open, by name.
    pub fn enabled_listeners(&self) -> impl Iterator<Item = (&str, &Listener)> {
        let all = self.listeners.iter();
        let all = all.map(|(name, listener)| (name.as_str(), listener));
        all.filter(|(_, listener)| listener.enabled)
    }

    /// How many publishes per second a connection of `listener` may send; `None` is unlimited.
    pub fn publish_rate(&self, listener: &Listener) -> Option<u64> {
        let rate = listener.publish_rate.or(self.limits.publish_rate);
        rate.filter(|rate| *rate > 0)
    }

    /// What acknowledgements to peers of `listener` wait for, where no topic filter has a policy of its own.
    pub fn fsync(&self, listener: &Listener) -> Fsync {
        listener.fsync.unwrap_or(self.journal.fsync)
    }

    /// Whether `listener` lets in peers that offer neither password nor token, nor a certificate with a name: where it
    /// admits anonymous peers, and where a certificate without a name is the only credential.
    pub fn admits_strangers(&self, listener: &Listener) -> bool {
        listener.admits_anonymous()
            || (self.needs_certificate(listener) && !self.takes_passwords(listener))
    }

    /// Whether a peer of `listener` can log in by what it says: CoAP has no word for a user name or a password.
    pub(super) fn takes_passwords(&self, listener: &Listener) -> bool {
        listener.kind.has_passwords() && self.has_authentication()
    }

    /// Whether anything is configured that can tell one user from another by what CONNECT carries.
    pub fn has_authentication(&self) -> bool {
        let jwt = &self.access.jwt;
        let by_token = jwt.secret_file.is_some() || jwt.public_key_file.is_some();
        by_token || self.access.password_file.is_some()
    }
}

impl Journal {
    /// The policy that a topic's filters give it, over listener and broker: of all that match, the most durable.
    pub fn filter_policy(&self, address: &str) -> Option<Fsync> {
        let matches = |(filter, _): &&(Filter, Fsync)| filter.matches(address);
        let matching = self.filters.iter().filter(matches);
        matching.map(|(_, policy)| *policy).min()
    }
}

pub const SHARDS_MAX: usize = 64;
