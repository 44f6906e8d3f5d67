//! The operator's policies hold whatever protocol a message was published with.

use crate::peer::{Place, Protocol, Stage};
use thalweg_kernel::{Limits, Policy};
use thalweg_model::{Filter, Span};
use thalweg_testbed::Settings;
use thalweg_testbed::disk::Loss;

#[test]
fn a_lifespan_holds_for_every_protocol_on_every_shard_and_after_a_kill() {
    let policy = Policy {
        lifespan_max: Some(Span::from_secs(30)),
        ..Policy::new(Filter::new("$q/short").expect("a filter"))
    };
    for (protocol, shards) in Protocol::ALL.into_iter().flat_map(|it| [(it, 1), (it, 2)]) {
        let what = format!("{protocol:?}, {shards} shards");
        let mut stage = Stage::with(Settings {
            shards,
            limits: Limits {
                journal: true,
                policies: [policy.clone()].into(),
                ..Limits::default()
            },
            ..Settings::default()
        });
        stage.declare("short");
        stage.declare("long");
        let name = stage.bed.name_on("publisher", usize::from(shards) - 1);
        let publisher = stage.connect_as(protocol, "publisher", &name, 9);
        for queue in ["short", "long"] {
            stage.publish(publisher, Place::Queue(queue), "m");
        }
        stage.bed.run_for(Span::from_secs(20));
        // A PUSH sends at most once, and in memory only.
        if protocol.settles() {
            stage.bed.crash(Loss::Process, shards, |_| ());
        }
        let read = |stage: &mut Stage, queue| {
            let reader = stage.connect(Protocol::Amqp, "reader");
            stage.ask(reader, Place::Queue(queue));
            let bodies = stage.bodies(reader);
            stage.lose(reader);
            bodies
        };
        // It is not settled, and so it is there again.
        assert_eq!(read(&mut stage, "short"), ["m"], "{what}");
        stage.bed.run_for(Span::from_secs(11));
        assert_eq!(read(&mut stage, "short"), [""; 0], "{what}");
        assert_eq!(read(&mut stage, "long"), ["m"], "{what}");
        stage.bed.check();
    }
}
