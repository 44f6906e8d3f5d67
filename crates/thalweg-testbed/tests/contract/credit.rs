//! No more is in flight than a receiver allows, whatever happens in whatever order.

use crate::peer::{Delivery, Peer, Place, Protocol, Stage};
use thalweg_kernel::Limits;
use thalweg_testbed::{Random, Settings};

const QUEUE: Place<'_> = Place::Queue("work");
const RUNS: u64 = 12;
const STEPS: usize = 120;

/// Consumers of one queue, each with its unacknowledged messages.
struct Run {
    stage: Stage,
    consumers: Vec<(Peer, Vec<Delivery>)>,
    window: u16,
}

impl Run {
    fn new(protocol: Protocol, random: &mut Random) -> Run {
        let window = 1 + random.below(4) as u16;
        let mut stage = Stage::with(Settings {
            shards: 1 + random.below(3) as u16,
            limits: Limits {
                in_flight_max: window,
                ..Limits::default()
            },
            ..Settings::default()
        });
        stage.bed.mail_order = Some(*random);
        stage.declare("work");
        let mut run = Run {
            stage,
            consumers: Vec::new(),
            window,
        };
        for _ in 0..2 {
            run.connect(protocol);
        }
        run
    }

    fn connect(&mut self, protocol: Protocol) {
        let name = format!("consumer-{}", self.consumers.len());
        let peer = self
            .stage
            .connect_as(protocol, "consumer", &name, self.window);
        self.stage.ask(peer, QUEUE);
        self.consumers.push((peer, Vec::new()));
    }

    /// Takes arrived messages; no consumer may have more than its window.
    fn look(&mut self, after: &str) {
        for (peer, held) in &mut self.consumers {
            held.extend(self.stage.received(*peer));
            assert!(
                held.len() <= usize::from(self.window),
                "{peer:?}: {} in flight of {} after {after}",
                held.len(),
                self.window
            );
        }
    }
}

#[test]
fn the_window_of_a_consumer_is_never_exceeded() {
    for protocol in Protocol::CONSUMERS {
        let mut most = 0;
        for seed in 1..=RUNS {
            let mut random = Random(seed);
            let mut run = Run::new(protocol, &mut random);
            let publisher = run.stage.connect(Protocol::Amqp, "publisher");
            let (mut published, mut settled) = (0, 0);
            for _ in 0..STEPS {
                let at = random.below(run.consumers.len());
                match random.below(6) {
                    0..=2 => {
                        published += 1;
                        run.stage.publish(publisher, QUEUE, &published.to_string());
                        run.look("a publish");
                    }
                    3 | 4 => {
                        let (peer, held) = &mut run.consumers[at];
                        if !held.is_empty() {
                            let delivery = held.remove(random.below(held.len()));
                            run.stage.acknowledge(*peer, &delivery);
                            settled += 1;
                        }
                        run.look("an acknowledgement");
                    }
                    _ if random.one_in(4) => {
                        run.stage.lose(run.consumers[at].0);
                        run.consumers[at].1.clear();
                        let name = format!("again-{}", random.next());
                        let peer = run
                            .stage
                            .connect_as(protocol, "consumer", &name, run.window);
                        run.stage.ask(peer, QUEUE);
                        run.consumers[at].0 = peer;
                        run.look("a new connection");
                    }
                    _ => {}
                }
                let in_flight = run.consumers.iter().map(|(_, held)| held.len()).sum();
                most = usize::max(most, in_flight);
            }
            assert!(published > settled / 2, "{protocol:?}: too little happened");
        }
        assert!(most >= 4, "{protocol:?}: windows were never used");
    }
}
