//! Who does not read does not fill the memory, and holds up nobody else.

use crate::peer::{Place, Protocol, Stage};
use thalweg_fronts::LinksLimits;
use thalweg_kernel::Limits;
use thalweg_testbed::Settings;

const ADDRESS: Place<'_> = Place::Address("a/b");
const QUEUE_BYTES: usize = 64 << 10;
const OUTPUT_BYTES: usize = 64 << 10;
const MESSAGES: usize = 1000;

#[test]
fn who_does_not_read_does_not_fill_the_memory() {
    for protocol in Protocol::ALL {
        let mut stage = Stage::with(Settings {
            limits: Limits {
                queue_bytes_max: QUEUE_BYTES,
                queue_pace_max: thalweg_model::Span::ZERO,
                named_queue_bytes_max: QUEUE_BYTES as u64,
                ..Limits::default()
            },
            outputs: LinksLimits {
                output_high: OUTPUT_BYTES / 2,
                output_max: OUTPUT_BYTES,
                ..LinksLimits::default()
            },
            ..Settings::default()
        });
        stage.bed.skips_pauses = true;
        let publisher = stage.connect(Protocol::Mqtt5, "publisher");
        let quick = stage.connect(Protocol::Mqtt5, "quick");
        let slow = stage.connect(protocol, "slow");
        for peer in [quick, slow] {
            stage.ask(peer, ADDRESS);
            stage.bodies(peer);
        }
        stage.fall_silent(slow);
        let body = "x".repeat(1000);
        let (mut held_most, mut waiting_most, mut quick_got) = (0, 0, 0);
        for number in 0..MESSAGES {
            stage.publish(publisher, ADDRESS, &format!("{number} {body}"));
            for delivery in stage.received(quick) {
                quick_got += 1;
                stage.acknowledge(quick, &delivery);
            }
            held_most = held_most.max(stage.bed.sum(|kernel| kernel.bytes_held() as u64));
            waiting_most = waiting_most.max(stage.waiting(slow));
        }
        assert_eq!(quick_got, MESSAGES, "{protocol:?} holds up another");
        // Messages that left for the output are held until they are settled.
        let bound = (2 * QUEUE_BYTES + 2 * OUTPUT_BYTES) as u64;
        assert!(held_most < bound, "{protocol:?}: {held_most} bytes held");
        assert!(
            waiting_most < OUTPUT_BYTES + 4096,
            "{protocol:?}: {waiting_most} bytes of output"
        );
        stage.read_again(slow);
        if protocol != Protocol::Coap {
            let bodies = stage.bodies(slow);
            assert!(
                (1..MESSAGES).contains(&bodies.len()),
                "{protocol:?}: {} of {MESSAGES} were kept",
                bodies.len()
            );
        }
    }
}
