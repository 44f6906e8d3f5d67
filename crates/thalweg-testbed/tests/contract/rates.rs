//! The operator's rates hold whatever protocol a message is published with, to what is promised of each.

use crate::peer::{Peer, Place, Protocol, Stage, Verdict};
use thalweg_kernel::{DropReason, Exceed, Limits, Policy, RatePer};
use thalweg_model::{Filter, Span};
use thalweg_testbed::Settings;
use thalweg_testbed::disk::Loss;

/// Messages per second, of which four times as many are offered.
const RATE: u64 = 20;
const EXCEEDS: [Exceed; 3] = [Exceed::Throttle, Exceed::Drop, Exceed::Reject];

fn stage(shards: u16, rate: u64, exceed: Exceed) -> Stage {
    let policy = Policy {
        rate: Some(rate),
        rate_burst: Some(Span::from_millis(50)),
        rate_per: Some(RatePer::Address),
        rate_exceed: Some(exceed),
        ..Policy::new(Filter::new("$q/q").expect("a filter"))
    };
    let mut stage = stage_with(shards, policy);
    stage.declare("q");
    stage
}

fn stage_with(shards: u16, policy: Policy) -> Stage {
    Stage::with(Settings {
        shards,
        limits: Limits {
            journal: true,
            policies: [policy].into(),
            ..Limits::default()
        },
        ..Settings::default()
    })
}

fn connect(stage: &mut Stage, protocol: Protocol) -> Peer {
    let shard = stage.bed.shards.len() - 1;
    let name = stage.bed.name_on("publisher", shard);
    let peer = stage.connect_as(protocol, "publisher", &name, u16::MAX);
    stage.confirm(peer);
    peer
}

/// Whether its protocol says that a message was refused, and to a peer that is there afterwards.
fn hears_refusals(protocol: Protocol) -> bool {
    !matches!(protocol, Protocol::Mqtt3 | Protocol::Zmtp)
}

#[test]
fn a_rate_holds_within_two_percent_over_ten_seconds_for_every_protocol() {
    for protocol in Protocol::ALL {
        for (shards, exceed) in [1, 2].into_iter().flat_map(|n| EXCEEDS.map(|it| (n, it))) {
            let what = format!("{protocol:?}, {shards} shards, {exceed:?}");
            let mut stage = stage(shards, RATE, exceed);
            stage.bed.skips_checks = true;
            let mut peer = connect(&mut stage, protocol);
            let mut refused = 0;
            let end = stage.bed.now + Span::from_secs(10);
            while stage.bed.now < end {
                if stage.is_closed(peer) {
                    peer = connect(&mut stage, protocol);
                }
                stage.publish(peer, Place::Queue("q"), "m");
                let verdicts = stage.verdicts(peer);
                refused += verdicts
                    .iter()
                    .filter(|it| **it == Verdict::Refused)
                    .count();
                stage.bed.run_for(Span::from_nanos(12_500_000));
            }
            let queued = stage.bed.total(|totals| totals.waiting);
            let of = 10 * RATE as usize;
            assert!(queued.abs_diff(of) * 50 <= of, "{queued} of {of}: {what}");
            let says = exceed == Exceed::Reject && hears_refusals(protocol);
            // CoAP has no other way to make a publisher wait.
            let is_coap = matches!(protocol, Protocol::Coap | Protocol::CoapStream);
            let is_told = says || exceed == Exceed::Throttle && is_coap;
            assert_eq!(refused > 0, is_told, "{refused}: {what}");
            let dropped = stage
                .bed
                .sum(|kernel| kernel.ledger().dropped[DropReason::OverRate as usize]);
            assert_eq!(dropped > 0, exceed == Exceed::Drop, "{what}");
            stage.bed.check();
        }
    }
}

#[test]
fn what_was_refused_or_dropped_is_not_there_after_a_kill() {
    for protocol in Protocol::ALL.into_iter().filter(|it| hears_refusals(*it)) {
        for (shards, exceed) in [(1, Exceed::Reject), (2, Exceed::Reject), (2, Exceed::Drop)] {
            let mut stage = stage(shards, 1, exceed);
            let peer = connect(&mut stage, protocol);
            stage.publish(peer, Place::Queue("q"), "taken");
            stage.publish(peer, Place::Queue("q"), "beyond");
            stage.bed.crash(Loss::Process, shards, |_| ());
            let reader = stage.connect(Protocol::Amqp, "reader");
            stage.ask(reader, Place::Queue("q"));
            let what = format!("{protocol:?}, {shards} shards, {exceed:?}");
            assert_eq!(stage.bodies(reader), ["taken"], "{what}");
        }
    }
}

#[test]
fn a_subscriber_has_its_rate_within_two_percent_over_ten_seconds_in_every_protocol() {
    for protocol in Protocol::ALL {
        // Subscribers of AMQP and STOMP take from queues, of which nothing is dropped, and observers have the latest value.
        let may_lose = !matches!(
            protocol,
            Protocol::Amqp | Protocol::Stomp | Protocol::Coap | Protocol::CoapStream
        );
        for (shards, exceed) in [1, 2].into_iter().flat_map(|n| EXCEEDS.map(|it| (n, it))) {
            let what = format!("{protocol:?}, {shards} shards, {exceed:?}");
            let policy = Policy {
                rate: Some(RATE),
                rate_burst: Some(Span::from_millis(50)),
                rate_per: Some(RatePer::Subscriber),
                rate_exceed: Some(exceed),
                ..Policy::new(Filter::new("a/#").expect("a filter"))
            };
            let mut stage = stage_with(shards, policy);
            stage.bed.skips_checks = true;
            let publisher = connect(&mut stage, Protocol::Mqtt5);
            let reader = stage.connect(protocol, "reader");
            stage.ask(reader, Place::Address("a/b"));
            let mut got = 0;
            let end = stage.bed.now + Span::from_secs(10);
            while stage.bed.now < end {
                stage.publish(publisher, Place::Address("a/b"), "m");
                stage.bed.run_for(Span::from_nanos(12_500_000));
                let received = stage.received(reader);
                got += received.len();
                received.iter().for_each(|it| stage.acknowledge(reader, it));
            }
            let of = 10 * RATE as usize;
            assert!(got.abs_diff(of) * 50 <= of, "{got} of {of}: {what}");
            let dropped = stage
                .bed
                .sum(|kernel| kernel.ledger().dropped[DropReason::OverRate as usize]);
            let is_dropped = may_lose && exceed != Exceed::Throttle;
            assert_eq!(dropped > 0, is_dropped, "{what}");
            stage.bed.check();
        }
    }
}

#[test]
fn who_takes_from_a_queue_has_its_rate_in_every_protocol_and_another_has_the_rest() {
    for protocol in Protocol::ALL {
        // A GET of CoAP asks for one message.
        if matches!(protocol, Protocol::Coap | Protocol::CoapStream) {
            continue;
        }
        let policy = Policy {
            rate: Some(RATE),
            rate_burst: Some(Span::from_millis(50)),
            rate_per: Some(RatePer::Subscriber),
            rate_exceed: Some(Exceed::Drop),
            ..Policy::new(Filter::new("$q/#").expect("a filter"))
        };
        let mut stage = stage_with(2, policy);
        stage.bed.skips_checks = true;
        stage.declare("q");
        let publisher = connect(&mut stage, Protocol::Mqtt5);
        let readers = ["one", "other"].map(|name| stage.connect(protocol, name));
        for reader in readers {
            stage.ask(reader, Place::Queue("q"));
        }
        let mut got = [0; 2];
        let end = stage.bed.now + Span::from_secs(10);
        while stage.bed.now < end {
            stage.publish(publisher, Place::Queue("q"), "m");
            stage.bed.run_for(Span::from_nanos(12_500_000));
            for (got, reader) in got.iter_mut().zip(readers) {
                let received = stage.received(reader);
                *got += received.len();
                received.iter().for_each(|it| stage.acknowledge(reader, it));
            }
        }
        let of = 10 * RATE as usize;
        let is_met = |got: &usize| got.abs_diff(of) * 50 <= of;
        assert!(got.iter().all(is_met), "{got:?} of {of}: {protocol:?}");
        let waiting = stage.bed.total(|totals| totals.waiting);
        assert_eq!(waiting + got[0] + got[1], 800, "{got:?}: {protocol:?}");
        stage.bed.check();
    }
}
