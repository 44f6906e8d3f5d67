//! Every metric, declared once: name, kind, unit, labels, meaning, and where its values come from.

use super::gathered::{Gathered, GroupFigures, PortSums, QueueFigures};
use crate::accounts::AccountView;
use MetricKind::{Counter, Gauge, Histogram};
use Read::{Each, EachReal, One, Real, Stages, Waits};
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_kernel::DropReason;
use thalweg_model::Span;
use thalweg_server::{JournalStatus, LoopCounts, MulticastCounts};

/// The type of a metric, as Prometheus has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows while the process runs.
    Counter,
    /// Goes up and down.
    Gauge,
    Histogram,
}

impl MetricKind {
    /// The word in the text format.
    pub fn name(self) -> &'static str {
        match self {
            Counter => "counter",
            Gauge => "gauge",
            Histogram => "histogram",
        }
    }
}

pub struct Metric {
    /// Its name; counters end in `_total`, and units stand before that.
    pub name: &'static str,
    pub kind: MetricKind,
    pub unit: &'static str,
    /// Its label, if it has one.
    pub label: Option<&'static str>,
    /// Meaning of the metric, in one sentence.
    pub help: &'static str,
    /// The `$SYS/broker/…` topic that carries the same value, if there is one.
    pub sys: Option<&'static str>,
    pub(super) read: Read,
}

/// How the values of a metric are read.
pub(super) enum Read {
    One(fn(&Gathered) -> u64),
    Real(fn(&Gathered) -> f64),
    /// One whole number for each value of the label.
    Each(fn(&Gathered, &mut Show<'_>)),
    /// One real number for each value of the label.
    EachReal(fn(&Gathered, &mut ShowReal<'_>)),
    /// The histograms of the stages.
    Stages,
    /// The histogram of how long messages waited in groups.
    Waits,
}

/// Takes a label's value and the metric's.
pub(super) type Show<'a> = dyn FnMut(&str, u64) + 'a;

/// The same for real numbers.
pub(super) type ShowReal<'a> = dyn FnMut(&str, f64) + 'a;

macro_rules! metrics {
    ($($kind:ident $name:literal $([$label:literal])? in $unit:literal $(sys $sys:literal)?: $help:literal = $read:expr;)*) => {
        &[$(Metric {
            name: $name,
            kind: $kind,
            unit: $unit,
            label: metrics!(@maybe $($label)?),
            help: $help,
            sys: metrics!(@maybe $($sys)?),
            read: $read,
        },)*]
    };
    (@maybe) => { None };
    (@maybe $text:literal) => { Some($text) };
}

/// All metrics, in the order in which they are shown.
pub static METRICS: &[Metric] = metrics! {
    // The process.
    Gauge "thalweg_build_info"["version"] in "always 1" sys "version":
        "The version of the program, as a label."
        = Each(|g, show| show(g.version, 1));
    Gauge "thalweg_uptime_seconds" in "seconds" sys "uptime":
        "Time since the start."
        = Real(|g| g.uptime.as_secs_f64());
    Gauge "thalweg_ready" in "0 or 1":
        "Whether every listener accepts."
        = One(|g| u64::from(g.ready));
    Gauge "thalweg_shards" in "shards":
        "Shards there are."
        = One(|g| g.shards as u64);
    Gauge "thalweg_shards_answering" in "shards":
        "Shards that answered this scrape; what the others know is missing from all sums."
        = One(|g| g.loops.len() as u64);
    Gauge "process_resident_memory_bytes" in "bytes":
        "Resident memory of the process."
        = One(|g| g.resident_bytes);
    Counter "process_cpu_seconds_total" in "seconds":
        "Processor time of the process, user and system."
        = Real(|g| g.cpu_seconds);

    // Publishes: received + by the broker itself = matched + unmatched + refused + repeated.
    Counter "thalweg_publishes_received_total" in "messages" sys "publish/messages/received":
        "Publishes received from clients."
        = One(|g| g.ledger.received);
    Counter "thalweg_publishes_received_bytes_total" in "bytes" sys "publish/bytes/received":
        "Bytes of their payloads."
        = One(|g| g.ledger.received_bytes);
    Counter "thalweg_publishes_matched_total" in "messages":
        "Publishes that matched a receiver, wills and the broker's own among them."
        = One(|g| g.ledger.matched);
    Counter "thalweg_publishes_unmatched_total" in "messages":
        "Publishes that matched no receiver."
        = One(|g| g.ledger.unmatched);
    Counter "thalweg_publishes_refused_total" in "messages":
        "Publishes refused by access rules or limits."
        = One(|g| g.ledger.refused);
    Counter "thalweg_publishes_refused_over_rate_total" in "messages":
        "Of these, publishes beyond the rate that a policy gives their topic."
        = One(|g| g.ledger.refused_over_rate);
    Counter "thalweg_publishes_throttled_total" in "messages":
        "Publishes beyond such a rate that were taken, and whose publishers had to wait."
        = One(|g| g.ledger.throttled);
    Counter "thalweg_publishes_repeated_total" in "messages":
        "Publishes that were repeated and not routed again: of exactly-once messages, and with stamps that were known."
        = One(|g| g.ledger.repeated);
    Counter "thalweg_stamps_repeated_total" in "messages":
        "Of these, publishes whose stamp was taken before."
        = One(|g| g.ledger.repeated_stamps);
    Counter "thalweg_stamps_outdated_total" in "messages":
        "Of these, publishes whose stamp is so far behind its publisher's highest that it is taken for a repetition."
        = One(|g| g.ledger.outdated_stamps);
    Counter "thalweg_stamps_damaged_total" in "messages":
        "Publishes with a stamp that could not be read and was ignored."
        = One(|g| g.ledger.damaged_stamps);
    Gauge "thalweg_stamp_publishers" in "publishers":
        "Publishers that are known by their stamps."
        = One(|g| g.totals.publishers as u64);
    Counter "thalweg_retained_refused_total" in "messages":
        "Last values refused by their home shard after their publisher was answered."
        = One(|g| g.ledger.retain_refused);

    // Copies: routed + restored = delivered + waiting + in flight + expired + dropped.
    Counter "thalweg_copies_routed_total" in "copies":
        "Copies made for receivers."
        = One(|g| g.ledger.routed);
    Counter "thalweg_copies_restored_total" in "copies":
        "Copies that the run before left behind, waiting or in flight."
        = One(|g| g.ledger.restored);
    Counter "thalweg_copies_delivered_total" in "copies" sys "publish/messages/sent":
        "Copies delivered: QoS 0 in the receiver's output, QoS 1 and 2 acknowledged."
        = One(|g| g.ledger.delivered);
    Counter "thalweg_copies_delivered_bytes_total" in "bytes" sys "publish/bytes/sent":
        "Bytes of their payloads."
        = One(|g| g.ledger.delivered_bytes);
    Counter "thalweg_copies_expired_total" in "copies" sys "publish/messages/expired":
        "Copies whose time ran out before they left."
        = One(|g| g.ledger.expired);
    Counter "thalweg_copies_dropped_total"["reason"] in "copies" sys "publish/messages/dropped":
        "Copies dropped, by reason; the topic carries the sum."
        = Each(|g, show| DropReason::ALL.iter().zip(g.ledger.dropped).for_each(|(reason, n)| show(reason.name(), n)));
    Counter "thalweg_copies_redelivered_total" in "copies":
        "Copies sent again after a reconnect or a time limit."
        = One(|g| g.ledger.redelivered);
    Gauge "thalweg_copies_waiting" in "copies":
        "Copies that wait in queues of sessions and groups."
        = One(|g| g.totals.waiting as u64);
    Gauge "thalweg_copies_in_flight" in "copies" sys "messages/inflight":
        "Copies sent and not yet acknowledged."
        = One(|g| g.totals.in_flight as u64);
    Gauge "thalweg_copies_queued" in "copies" sys "messages/stored":
        "Copies that wait or are in flight."
        = One(|g| (g.totals.waiting + g.totals.in_flight) as u64);
    Gauge "thalweg_queued_bytes" in "bytes":
        "Bytes of messages that wait or are in flight."
        = One(|g| g.totals.queued_bytes as u64);

    // The same by prefix of the topic, for those in ledger.prefixes.
    Counter "thalweg_prefix_copies_routed_total"["prefix"] in "copies":
        "Copies of messages whose topic has this prefix (of several in ledger.prefixes, the longest), made for receivers."
        = Each(|g, show| each_prefix(g, show, |account| account.routed));
    Counter "thalweg_prefix_copies_restored_total"["prefix"] in "copies":
        "Those that the run before left behind."
        = Each(|g, show| each_prefix(g, show, |account| account.restored));
    Counter "thalweg_prefix_copies_delivered_total"["prefix"] in "copies":
        "Those that were delivered."
        = Each(|g, show| each_prefix(g, show, |account| account.delivered));
    Counter "thalweg_prefix_copies_expired_total"["prefix"] in "copies":
        "Those whose time ran out."
        = Each(|g, show| each_prefix(g, show, |account| account.expired));
    Counter "thalweg_prefix_copies_dropped_total"["prefix"] in "copies":
        "Those that were dropped, for any reason; /v1/ledger?prefix= names the reasons."
        = Each(|g, show| each_prefix(g, show, |account| account.dropped));
    Gauge "thalweg_prefix_copies_queued"["prefix"] in "copies":
        "Those that wait or are in flight."
        = Each(|g, show| each_prefix(g, show, |account| account.queued));

    // Between shards.
    Counter "thalweg_shard_forwarded_total" in "messages":
        "Messages handed to other shards, one per message and shard."
        = One(|g| g.ledger.forwarded);
    Counter "thalweg_shard_arrived_total" in "messages":
        "Messages that came from other shards."
        = One(|g| g.ledger.arrived);

    // All metrics of the broker.
    Gauge "thalweg_sessions" in "sessions" sys "clients/total":
        "Sessions, connected or not."
        = One(|g| g.totals.sessions as u64);
    Gauge "thalweg_sessions_online" in "sessions" sys "clients/connected":
        "Sessions that are connected."
        = One(|g| g.totals.sessions_online as u64);
    Gauge "thalweg_sessions_offline" in "sessions" sys "clients/disconnected":
        "Sessions that are not connected."
        = One(|g| g.totals.sessions.saturating_sub(g.totals.sessions_online) as u64);
    Counter "thalweg_sessions_expired_total" in "sessions" sys "clients/expired":
        "Sessions that ended because they were not connected for too long."
        = One(|g| g.ledger.sessions_expired);
    Gauge "thalweg_connections"["listener"] in "connections":
        "Connections that have a session, by listener."
        = Each(|g, show| g.connections.iter().for_each(|(listener, count)| show(listener, *count)));
    Gauge "thalweg_protocol_connections"["protocol"] in "connections":
        "Connections that have a session, by protocol and version."
        = Each(|g, show| g.dialects.iter().for_each(|(dialect, count)| show(dialect, *count)));
    Gauge "thalweg_subscriptions" in "subscriptions" sys "subscriptions/count":
        "Subscriptions."
        = One(|g| g.totals.subscriptions as u64);
    Counter "thalweg_subscriptions_downgraded_total" in "subscriptions":
        "Subscriptions that were granted less than they asked for because of a policy."
        = One(|g| g.ledger.subscriptions_downgraded);
    Gauge "thalweg_groups" in "groups":
        "Shared subscriptions; one with members on several shards counts on each."
        = One(|g| g.totals.groups as u64);
    Gauge "thalweg_retained_messages" in "messages" sys "retained messages/count":
        "Last values."
        = One(|g| g.totals.retained as u64);
    Gauge "thalweg_kept_messages" in "messages":
        "Messages of topics that keep several, their last values among them."
        = One(|g| g.totals.kept_messages as u64);
    Gauge "thalweg_retained_bytes" in "bytes":
        "Bytes of last values, and of what topics keep beside them."
        = One(|g| g.totals.retained_bytes as u64);

    // Shared subscriptions: all together, and each as long as there are not too many.
    Gauge "thalweg_groups_members" in "members":
        "Members of all shared subscriptions, connected or not."
        = One(|g| g.groups.members);
    Gauge "thalweg_groups_members_online" in "members":
        "Those that are connected."
        = One(|g| g.groups.members_online);
    Gauge "thalweg_groups_members_suspended" in "members":
        "Those that get nothing for now, because they have stalled or say that they are stuck."
        = One(|g| g.groups.suspended);
    Gauge "thalweg_groups_waiting" in "messages":
        "Messages that wait in shared subscriptions for any member: their lag."
        = One(|g| g.groups.waiting);
    Gauge "thalweg_groups_waiting_bytes" in "bytes":
        "Their bytes."
        = One(|g| g.groups.waiting_bytes);
    Gauge "thalweg_groups_unsettled" in "messages":
        "Messages given to members and not acknowledged."
        = One(|g| g.groups.unsettled);
    Gauge "thalweg_groups_oldest_wait_seconds" in "seconds":
        "How long the message has waited that has waited longest."
        = Real(|g| seconds(g.groups.oldest));
    Counter "thalweg_groups_arrived_total" in "messages":
        "Messages that came to shared subscriptions."
        = One(|g| g.groups.counters.arrived);
    Counter "thalweg_groups_choices_total"["choice"] in "choices":
        "What was decided of a message: it went to a member, was held until one is free that is worth waiting for, or no member could have it."
        = Each(|g, show| {
            show("member", g.groups.counters.chosen);
            show("held", g.groups.counters.held);
            show("nobody", g.groups.counters.nobody);
        });
    Counter "thalweg_groups_settled_total" in "messages":
        "Messages that members acknowledged."
        = One(|g| g.groups.counters.settled);
    Counter "thalweg_groups_returned_total" in "messages":
        "Messages that came back from members that had stalled or gone, and went to others."
        = One(|g| g.groups.counters.returned);
    Counter "thalweg_groups_stalls_total" in "connections":
        "Members whose connections were closed because they had stalled."
        = One(|g| g.groups.counters.stalls);
    Counter "thalweg_groups_expired_total" in "messages":
        "Messages whose time ran out while they waited."
        = One(|g| g.groups.counters.expired);
    Counter "thalweg_groups_dropped_total" in "messages":
        "Messages dropped because a shared subscription was full."
        = One(|g| g.groups.counters.dropped);
    Counter "thalweg_groups_reports_total"["verdict"] in "reports":
        "Members' reports of their load: those that were believed, and those that could not be true."
        = Each(|g, show| {
            show("believed", g.groups.counters.reports);
            show("refused", g.groups.counters.reports_refused);
        });
    Counter "thalweg_load_reports_total"["verdict"] in "reports":
        "Reports of load by MQTT clients, in groups or not, each counted once: those that may be true, and those that could not be read or cannot be true."
        = Each(|g, show| {
            show("taken", g.load.taken);
            show("refused", g.load.refused);
        });
    Counter "thalweg_load_terms_ignored_total" in "properties":
        "User properties of CONNECT and SUBSCRIBE that begin with lb- and have an invalid value."
        = One(|g| g.load.terms_ignored);
    Histogram "thalweg_groups_wait_seconds" in "seconds":
        "How long messages waited in shared subscriptions; those that went on at once are not among them."
        = Waits;
    Gauge "thalweg_group_waiting"["group"] in "messages":
        "Messages that wait in each, by $share/name/filter; nothing if there are more than 1,000."
        = Each(|g, show| each_group(g, show, |group| group.waiting));
    Gauge "thalweg_group_oldest_wait_seconds"["group"] in "seconds":
        "How long the first of them has waited, likewise."
        = EachReal(|g, show| g.each_group.iter().for_each(|(group, figures)| show(group, seconds(figures.oldest))));
    Gauge "thalweg_group_members_online"["group"] in "members":
        "Members of each that are connected, likewise."
        = Each(|g, show| each_group(g, show, |group| group.members_online));
    Gauge "thalweg_group_unsettled"["group"] in "messages":
        "Messages given to members of each and not acknowledged, likewise."
        = Each(|g, show| each_group(g, show, |group| group.unsettled));
    Counter "thalweg_group_arrived_total"["group"] in "messages":
        "Messages that came to each, likewise."
        = Each(|g, show| each_group(g, show, |group| group.counters.arrived));
    Counter "thalweg_group_chosen_total"["group"] in "messages":
        "Messages that went to members of each, likewise."
        = Each(|g, show| each_group(g, show, |group| group.counters.chosen));
    Counter "thalweg_group_returned_total"["group"] in "messages":
        "Messages that came back from members of each, likewise."
        = Each(|g, show| each_group(g, show, |group| group.counters.returned));
    Counter "thalweg_group_stalls_total"["group"] in "connections":
        "Members of each whose connections were closed because they had stalled, likewise."
        = Each(|g, show| each_group(g, show, |group| group.counters.stalls));

    // Queues with names.
    Gauge "thalweg_queues" in "queues":
        "Queues that AMQP and STOMP clients have declared."
        = One(|g| g.queues.count);
    Gauge "thalweg_queues_messages" in "messages":
        "Messages that wait in all of them."
        = One(|g| g.queues.figures.messages);
    Gauge "thalweg_queues_payload_bytes" in "bytes":
        "Bytes of their payloads."
        = One(|g| g.queues.figures.bytes);
    Gauge "thalweg_queues_unsettled" in "messages":
        "Messages given to consumers and not settled."
        = One(|g| g.queues.figures.unsettled);
    Gauge "thalweg_queues_consumers" in "consumers":
        "Consumers of all queues."
        = One(|g| g.queues.figures.consumers);
    Gauge "thalweg_exchanges" in "exchanges":
        "Exchanges, those that are always there included."
        = One(|g| g.queues.exchanges);
    Gauge "thalweg_bindings" in "bindings":
        "Bindings of all exchanges."
        = One(|g| g.queues.bindings);
    Gauge "thalweg_queue_messages"["queue"] in "messages":
        "Messages that wait in each queue, by its address; nothing if there are more than 1,000 queues."
        = Each(|g, show| each_queue(g, show, |queue| queue.messages));
    Gauge "thalweg_queue_unsettled"["queue"] in "messages":
        "Those that were given to consumers and are not settled, likewise."
        = Each(|g, show| each_queue(g, show, |queue| queue.unsettled));
    Gauge "thalweg_queue_consumers"["queue"] in "consumers":
        "Consumers of each queue, likewise."
        = Each(|g, show| each_queue(g, show, |queue| queue.consumers));

    // Memory.
    Gauge "thalweg_memory_held_bytes" in "bytes" sys "store/messages/bytes":
        "Bytes of all that peers have the broker keep: messages, sessions, wills, filters, queues, transactions, buffers."
        = One(|g| g.memory_bytes as u64);
    Gauge "thalweg_memory_limit_bytes" in "bytes":
        "The budget for them, limits.memory_bytes_max."
        = One(|g| g.memory_bytes_max as u64);
    Gauge "thalweg_pressure_level" in "level":
        "How short memory is: 0 not at all, 1 what would wait in memory is refused, 2 nothing more is kept but little."
        = One(|g| g.pressure as u64);

    // The journal; all 0 if it is switched off.
    Gauge "thalweg_journal_enabled" in "0 or 1":
        "Whether there is a journal."
        = One(|g| u64::from(g.journal.is_some()));
    Gauge "thalweg_journal_failed" in "0 or 1":
        "Whether writing has failed for good; nothing is acknowledged any more, and the process ends."
        = One(|g| journal(g, |it| u64::from(it.state == "failed")));
    Gauge "thalweg_journal_pressure_level" in "level":
        "How short disk is: 0 not at all, 1 new messages that would have to be kept are refused, 2 nothing can be written."
        = One(|g| journal(g, |it| match it.state { "pressed" => 1, "full" => 2, _ => 0 }));
    Counter "thalweg_journal_written_bytes_total" in "bytes":
        "Bytes of records written."
        = One(|g| journal(g, |it| it.bytes));
    Counter "thalweg_journal_frames_total" in "frames":
        "Frames written: each holds what one shard had to keep at the end of a turn."
        = One(|g| journal(g, |it| it.frames));
    Counter "thalweg_journal_writes_total" in "system calls":
        "Writes; frames by writes is how many batches go in one."
        = One(|g| journal(g, |it| it.groups));
    Counter "thalweg_journal_syncs_total" in "system calls":
        "Times that what was written was forced to stable storage."
        = One(|g| journal(g, |it| it.syncs));
    Counter "thalweg_journal_sync_seconds_total" in "seconds":
        "Time spent doing that; by syncs, what the disk takes for one."
        = Real(|g| g.journal.as_ref().map_or(0.0, |it| it.sync_seconds));
    Gauge "thalweg_journal_used_bytes" in "bytes":
        "Bytes of the files that hold records."
        = One(|g| journal(g, |it| it.bytes_used));
    Gauge "thalweg_journal_spare_bytes" in "bytes":
        "Bytes of the files kept ready for coming records."
        = One(|g| journal(g, |it| it.bytes_spare));
    Gauge "thalweg_journal_limit_bytes" in "bytes":
        "Most bytes there may be: journal.bytes_max, or what the file system has for us if that is less."
        = One(|g| journal(g, |it| it.bytes_limit));
    Counter "thalweg_journal_checkpoints_total" in "checkpoints":
        "Checkpoints made because they were due."
        = One(|g| journal(g, |it| it.checkpoints));
    Counter "thalweg_journal_checkpoint_seconds_total" in "seconds":
        "Time spent on them."
        = Real(|g| g.journal.as_ref().map_or(0.0, |it| it.checkpoint_seconds));
    Gauge "thalweg_journal_checkpoint_bytes" in "bytes":
        "Length of the last one."
        = One(|g| journal(g, |it| it.checkpoint_bytes));
    Counter "thalweg_journal_fetched_total" in "messages":
        "Messages read back from disk because their turn came."
        = One(|g| journal(g, |it| it.fetched));
    Counter "thalweg_journal_unreadable_total" in "messages":
        "Messages that could not be read back and are lost; each is in the log."
        = One(|g| journal(g, |it| it.unreadable));
    Gauge "thalweg_journal_recovered_frames" in "frames":
        "Frames that this start read."
        = One(|g| journal(g, |it| it.recovered_frames));
    Gauge "thalweg_journal_recovery_seconds" in "seconds":
        "Time that it took."
        = Real(|g| g.journal.as_ref().map_or(0.0, |it| it.recovery_seconds));
    Gauge "thalweg_journal_dropped_tail_frames" in "frames":
        "Frames at the end that this start found torn and dropped; they were never acknowledged."
        = One(|g| journal(g, |it| it.dropped_tail_frames));
    Gauge "thalweg_journal_quarantined" in "stretches":
        "Damaged stretches that this start set aside because of --repair."
        = One(|g| journal(g, |it| it.quarantined));

    // The lobby.
    Counter "thalweg_lobby_accepted_total" in "connections":
        "Connections accepted, refused ones included."
        = One(|g| g.lobby.accepted);
    Counter "thalweg_lobby_admitted_total" in "connections":
        "Connections handed over to a shard."
        = One(|g| g.lobby.delivered);
    Counter "thalweg_lobby_turned_away_total"["reason"] in "connections":
        "Connections refused, failed or given up before they came to a shard, by reason."
        = Each(turned_away);
    Counter "thalweg_logins_refused_total"["reason"] in "log-ins":
        "Log-ins refused, by reason."
        = Each(|g, show| g.logins.by_reason.iter().for_each(|(reason, count)| show(reason, *count)));
    Counter "thalweg_logins_refused_by_protocol_total"["protocol"] in "log-ins":
        "Log-ins refused, by protocol."
        = Each(|g, show| g.logins.by_protocol.iter().for_each(|(protocol, count)| show(protocol, *count)));
    Gauge "thalweg_logins_waiting" in "log-ins":
        "Log-ins that wait for a password or token to be verified."
        = One(|g| g.logins.waiting);
    Gauge "thalweg_lobby_waiting" in "connections":
        "Connections in handshake, or whose client is not known yet."
        = One(|g| g.lobby.waiting);
    Counter "thalweg_lobby_pauses_total" in "pauses":
        "Times that a listener paused because of its connect rate."
        = One(|g| g.lobby.paused_by_rate);
    Counter "thalweg_lobby_unrouted_total" in "connections":
        "Connections handed over although their first bytes were not of the listener's protocol."
        = One(|g| g.lobby.unrouted);

    // Datagrams.
    Counter "thalweg_datagrams_received_total"["listener"] in "datagrams":
        "Datagrams received."
        = Each(|g, show| each_port(g, show, |port| port.datagrams.received));
    Counter "thalweg_datagrams_received_bytes_total"["listener"] in "bytes":
        "Bytes of their payloads."
        = Each(|g, show| each_port(g, show, |port| port.datagrams.received_bytes));
    Counter "thalweg_datagram_receive_calls_total"["listener"] in "system calls":
        "System calls that brought some; each brings many under load."
        = Each(|g, show| each_port(g, show, |port| port.datagrams.receive_calls));
    Counter "thalweg_datagrams_overflown_total"["listener"] in "datagrams":
        "Datagrams that the system dropped because they were not read in time, as far as it has said."
        = Each(|g, show| each_port(g, show, |port| port.datagrams.overflown));
    Counter "thalweg_datagrams_banned_total"["listener"] in "datagrams":
        "Datagrams received and dropped because access.ban_file bans where they came from."
        = Each(|g, show| each_port(g, show, |port| port.datagrams.banned));
    Counter "thalweg_datagrams_sent_total"["listener"] in "datagrams":
        "Datagrams sent."
        = Each(|g, show| each_port(g, show, |port| port.datagrams.sent));
    Counter "thalweg_datagrams_sent_bytes_total"["listener"] in "bytes":
        "Bytes of their payloads."
        = Each(|g, show| each_port(g, show, |port| port.datagrams.sent_bytes));
    Counter "thalweg_datagram_send_calls_total"["listener"] in "system calls":
        "System calls that sent some; each sends many under load."
        = Each(|g, show| each_port(g, show, |port| port.datagrams.send_calls));
    Gauge "thalweg_datagrams_waiting"["listener"] in "datagrams":
        "Datagrams that the system does not take yet."
        = Each(|g, show| each_port(g, show, |port| port.datagrams.waiting));
    Counter "thalweg_datagrams_unsent_total"["reason"] in "datagrams":
        "Datagrams dropped instead of sent, by reason."
        = Each(each_unsent);
    Gauge "thalweg_dtls_peers"["listener"] in "peers":
        "Peers with which DTLS is spoken."
        = Each(|g, show| each_port(g, show, |port| port.dtls_peers));
    Counter "thalweg_dtls_handshakes_total"["outcome"] in "handshakes":
        "DTLS handshakes: completed, failed, turned away because there were too many, and first messages that were answered with a cookie."
        = Each(each_handshake);
    Counter "thalweg_dtls_records_discarded_total" in "records":
        "DTLS records of no association, replayed or not authentic."
        = One(|g| g.ports.values().map(|port| port.dtls.discarded).sum());

    // Multicast groups.
    Counter "thalweg_multicast_messages_total"["group"] in "messages":
        "Messages that were sent to a multicast group."
        = Each(|g, show| each_multicast(g, show, |counts| &counts.messages));
    Counter "thalweg_multicast_datagrams_total"["group"] in "datagrams":
        "Datagrams in which they were sent, heartbeats among them; each interface counts."
        = Each(|g, show| each_multicast(g, show, |counts| &counts.datagrams));
    Counter "thalweg_multicast_bytes_total"["group"] in "bytes":
        "Bytes of these datagrams."
        = Each(|g, show| each_multicast(g, show, |counts| &counts.bytes));
    Counter "thalweg_multicast_unsent_total"["group"] in "datagrams":
        "Datagrams that the system did not take."
        = Each(|g, show| each_multicast(g, show, |counts| &counts.unsent));
    Counter "thalweg_multicast_repairs_total"["group"] in "requests":
        "Requests for lost datagrams that were answered."
        = Each(|g, show| each_multicast(g, show, |counts| &counts.repairs));
    Counter "thalweg_multicast_repaired_total"["group"] in "datagrams":
        "Datagrams that were sent again in these answers."
        = Each(|g, show| each_multicast(g, show, |counts| &counts.repaired));
    Counter "thalweg_multicast_refused_total"["group"] in "requests":
        "Requests that were not answered: no requests, without a reply address, or too many at a time."
        = Each(|g, show| each_multicast(g, show, |counts| &counts.refused));

    // Protocols. Those that only one of them has are declared by its front.
    Counter "thalweg_packets_received_total"["protocol"] in "packets":
        "Packets, frames or messages of connections that were received and handled."
        = Each(|g, show| g.packets.iter().for_each(|(protocol, counts)| show(protocol, counts.received)));
    Counter "thalweg_packets_sent_total"["protocol"] in "packets":
        "Packets, frames or messages that were written to connections."
        = Each(|g, show| g.packets.iter().for_each(|(protocol, counts)| show(protocol, counts.sent)));

    // The shards' loops.
    Counter "thalweg_shard_turns_total"["shard"] in "turns":
        "Turns of the event loop."
        = Each(|g, show| each_loop(g, show, |counts| counts.turns));
    Counter "thalweg_shard_reads_total"["shard"] in "system calls":
        "Reads of sockets."
        = Each(|g, show| each_loop(g, show, |counts| counts.reads));
    Counter "thalweg_shard_writes_total"["shard"] in "system calls":
        "Writes to sockets."
        = Each(|g, show| each_loop(g, show, |counts| counts.writes));
    Counter "thalweg_shard_sleeps_total"["shard"] in "system calls":
        "Times that the loop slept."
        = Each(|g, show| each_loop(g, show, |counts| counts.sleeps));
    Counter "thalweg_shard_paces_total"["shard"] in "pauses":
        "Publishers paused for a congested receiver."
        = Each(|g, show| each_loop(g, show, |counts| counts.paces));
    Counter "thalweg_shard_slow_receivers_total"["shard"] in "connections":
        "Receivers that did not drain in time."
        = Each(|g, show| each_loop(g, show, |counts| counts.slow_receivers));
    Counter "thalweg_shard_buffers_closed_total"["shard"] in "connections":
        "Connections closed because their buffers were the largest when those of all were over their share of \
         limits.memory_bytes_max."
        = Each(|g, show| each_loop(g, show, |counts| counts.buffers_closed));

    // Where a message's time goes.
    Histogram "thalweg_stage_seconds"["stage"] in "seconds":
        "Time per stage of a message's path, from samples; stages are named as in docs/follow-a-publish.md."
        = Stages;
};

fn each_multicast(g: &Gathered, show: &mut Show<'_>, pick: fn(&MulticastCounts) -> &AtomicU64) {
    for (group, counts) in &g.multicast {
        show(group, pick(counts).load(Ordering::Relaxed));
    }
}

fn each_port(g: &Gathered, show: &mut Show<'_>, pick: impl Fn(&PortSums) -> u64) {
    g.ports
        .iter()
        .for_each(|(listener, port)| show(listener, pick(port)));
}

fn each_unsent(g: &Gathered, show: &mut Show<'_>) {
    let sum = |pick: fn(&PortSums) -> u64| g.ports.values().map(pick).sum();
    show(
        "too_many_waiting",
        sum(|port| port.datagrams.unsent_waiting),
    );
    show("too_large", sum(|port| port.datagrams.unsent_too_large));
    show("unreachable", sum(|port| port.datagrams.unsent_unreachable));
    show("peer_gone", sum(|port| port.dtls_unsent));
    show("banned", sum(|port| port.datagrams.unsent_banned));
    show("other", sum(|port| port.datagrams.unsent_other));
}

fn each_handshake(g: &Gathered, show: &mut Show<'_>) {
    let sum = |pick: fn(&PortSums) -> u64| g.ports.values().map(pick).sum();
    show("completed", sum(|port| port.dtls.completed));
    show("failed", sum(|port| port.dtls.failed));
    show("crowded", sum(|port| port.dtls.crowded));
    show("cookie", sum(|port| port.dtls.cookies));
}

/// Everything the lobby counts under a name that says why, so that a new reason shows without a change here.
fn turned_away(g: &Gathered, show: &mut Show<'_>) {
    const NOT_REASONS: [&str; 5] = [
        "accepted",
        "delivered",
        "waiting",
        "paused_by_rate",
        "unrouted",
    ];
    g.lobby
        .named()
        .filter(|(name, _)| !NOT_REASONS.contains(name))
        .for_each(|(name, count)| show(name, count));
}

fn each_prefix(g: &Gathered, show: &mut Show<'_>, pick: fn(&AccountView) -> u64) {
    g.prefixes
        .iter()
        .for_each(|(prefix, account)| show(prefix, pick(&AccountView::new(account))));
}

fn each_queue(g: &Gathered, show: &mut Show<'_>, pick: fn(&QueueFigures) -> u64) {
    g.each_queue
        .iter()
        .for_each(|(address, figures)| show(address, pick(figures)));
}

fn each_group(g: &Gathered, show: &mut Show<'_>, pick: fn(&GroupFigures) -> u64) {
    g.each_group
        .iter()
        .for_each(|(group, figures)| show(group, pick(figures)));
}

fn seconds(span: Span) -> f64 {
    span.nanos() as f64 / 1e9
}

fn journal(g: &Gathered, pick: fn(&JournalStatus) -> u64) -> u64 {
    g.journal.as_ref().map_or(0, pick)
}

fn each_loop(g: &Gathered, show: &mut Show<'_>, pick: fn(&LoopCounts) -> u64) {
    g.loops
        .iter()
        .for_each(|(shard, counts)| show(&shard.to_string(), pick(counts)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_follow_the_conventions() {
        let mut seen = HashSet::new();
        let mut topics = HashSet::new();
        for metric in METRICS {
            let name = metric.name;
            assert!(seen.insert(name), "{name} is declared twice");
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
                "{name}"
            );
            assert_eq!(
                name.ends_with("_total"),
                metric.kind == Counter,
                "{name}: counters, and only they, end in _total"
            );
            let base = name.trim_end_matches("_total");
            for unit in ["bytes", "seconds"] {
                assert_eq!(
                    metric.unit == unit,
                    base.ends_with(unit),
                    "{name}: its unit is {}",
                    metric.unit
                );
            }
            assert!(
                metric.help.ends_with('.') && !metric.help.contains(['\n', '\\']),
                "{name}: help is a sentence"
            );
            if let Some(topic) = metric.sys {
                assert!(topics.insert(topic), "{topic} is declared twice");
            }
        }
    }

    #[test]
    fn the_broker_publishes_the_topics_that_the_table_names_and_no_others() {
        let code = include_str!("../../../thalweg-server/src/sys.rs");
        for topic in METRICS.iter().filter_map(|metric| metric.sys) {
            let is_there = code.contains(&format!("\"{topic}\""))
                || code.contains(&format!("$SYS/broker/{topic}\""));
            assert!(
                is_there,
                "$SYS/broker/{topic} is not published by thalweg-server/src/sys.rs"
            );
        }
        let added = code
            .split("add(\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next());
        for topic in added {
            assert!(
                METRICS.iter().any(|metric| metric.sys == Some(topic)),
                "$SYS/broker/{topic} is not in the table"
            );
        }
    }
}
