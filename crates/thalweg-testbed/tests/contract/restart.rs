//! After a restart a message is flagged if it had been delivered, and not otherwise.

use crate::peer::{Peer, Place, Protocol, Stage};
use std::collections::BTreeSet;
use thalweg_kernel::Limits;
use thalweg_model::Span;
use thalweg_testbed::Settings;
use thalweg_testbed::disk::Loss;

const QUEUE: Place<'_> = Place::Queue("work");
const COUNT: usize = 20;

/// A queue of as many messages, and a client that is at another shard than the queue if its protocol lets it.
fn stage(protocol: Protocol, shards: u16) -> (Stage, Peer) {
    let mut stage = Stage::with(Settings {
        shards,
        limits: Limits {
            journal: true,
            ..Limits::default()
        },
        ..Settings::default()
    });
    stage.declare("work");
    let publisher = stage.connect(Protocol::Amqp, "publisher");
    for number in 0..COUNT {
        stage.publish(publisher, QUEUE, &number.to_string());
    }
    let shard = (stage.bed.queue_shard() + 1) % usize::from(shards);
    let name = stage.bed.name_on("taker", shard);
    let taker = stage.connect_as(protocol, "taker", &name, 3);
    (stage, taker)
}

/// Asks for messages and settles none. Those that were sent.
fn take(stage: &mut Stage, taker: Peer) -> BTreeSet<String> {
    match taker.protocol {
        Protocol::Coap | Protocol::CoapStream => {
            // It settles by acknowledging the response, or by anything it says after having read it.
            stage.fall_silent(taker);
            stage.ask(taker, QUEUE);
            BTreeSet::from(["0".to_owned()])
        }
        _ => {
            stage.ask(taker, QUEUE);
            stage.bodies(taker).into_iter().collect()
        }
    }
}

/// All that waits, settled as it comes: bodies, and whether each came flagged.
fn take_all(stage: &mut Stage, reader: Peer) -> Vec<(String, bool)> {
    let mut all = Vec::new();
    stage.ask(reader, QUEUE);
    for _ in 0..2 * COUNT {
        for delivery in stage.received(reader) {
            stage.acknowledge(reader, &delivery);
            all.push((delivery.body, delivery.redelivered));
        }
        stage.bed.run_for(Span::from_millis(10));
    }
    all
}

#[test]
fn a_restart_flags_what_was_delivered_by_any_protocol_on_any_shard() {
    let takers = Protocol::ALL.into_iter().filter(|it| it.settles());
    for (taker, shards) in takers.flat_map(|taker| [(taker, 1), (taker, 2)]) {
        let readers = Protocol::CONSUMERS.into_iter();
        for reader in readers.filter(|it| it.marks_redeliveries()) {
            let (mut stage, peer) = stage(taker, shards);
            let had = take(&mut stage, peer);
            assert!(!had.is_empty(), "{taker:?} got nothing");
            stage.bed.crash(Loss::Process, shards, |_| ());
            // Messages sent to a member's session stay assigned to it until that ends.
            stage.bed.run_for(Span::from_secs(7200));
            let reader_peer = stage.connect(reader, "reader");
            let got = take_all(&mut stage, reader_peer);
            let what = format!("{taker:?}, {shards} shards, {reader:?}; {had:?} had left: {got:?}");
            assert_eq!(got.len(), COUNT, "{what}");
            let flagged = got.iter().filter(|(_, flagged)| *flagged);
            let flagged: BTreeSet<String> = flagged.map(|(body, _)| body.clone()).collect();
            assert!(had.is_subset(&flagged), "{what}");
            assert!(flagged.len() <= 2 * had.len(), "{what}");
        }
    }
}

#[test]
fn nothing_is_sent_before_the_journal_says_that_it_may_have_been() {
    let takers = Protocol::ALL.into_iter().filter(|it| it.settles());
    for (taker, shards) in takers.flat_map(|taker| [(taker, 1), (taker, 2)]) {
        let what = format!("{taker:?}, {shards} shards");
        let (mut stage, peer) = stage(taker, shards);
        stage.bed.is_disk_manual = true;
        stage.ask(peer, QUEUE);
        assert_eq!(stage.bodies(peer), [""; 0], "{what}");
        stage.bed.crash(Loss::Power(0), shards, |_| ());
        stage.bed.is_disk_manual = false;
        stage.bed.run_for(Span::from_secs(7200));
        let reader = stage.connect(Protocol::Amqp, "reader");
        let got = take_all(&mut stage, reader);
        assert!(got.iter().all(|(_, flagged)| !flagged), "{what}: {got:?}");
        assert_eq!(got.len(), COUNT, "{what}");
    }
}
