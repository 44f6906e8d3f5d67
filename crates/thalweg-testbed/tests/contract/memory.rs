//! A client that does not read neither fills the memory nor delays others.

use crate::peer::{Place, Protocol, Stage};
use thalweg_coap::stream::StreamSettings;
use thalweg_fronts::LinksLimits;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Limits, MemoryView, Pressure};
use thalweg_testbed::{Settings, Testbed};

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

/// Connections of CoAP whose requests in blocks never end.
#[test]
fn requests_in_blocks_are_counted_and_refused_when_memory_is_short() {
    const BLOCKS: usize = 64;
    let mut bed = Testbed::new(Settings::default());
    let kept = |bed: &Testbed| bed.shards[0].links.kept_bytes();
    let peers: Vec<_> = (0..10)
        .map(|_| {
            let who = bed.open_coap(0, Some(Access::ALL));
            let settings = StreamSettings::default();
            bed.says(who, |client, up| client.csm(settings, up));
            who
        })
        .collect();
    let before = kept(&bed);
    for number in 0..BLOCKS {
        let block = "x".repeat(1024);
        for who in &peers {
            let line = format!("PUT /ps/data/a block1={number}+/1024 : {block}");
            bed.says(*who, |client, up| up.extend(client.request(&line)));
        }
    }
    let codes = |bed: &mut Testbed| -> Vec<String> {
        let heard = peers.iter().flat_map(|who| bed.client(*who).heard());
        heard.map(|heard| heard.code.to_string()).collect()
    };
    let answers = codes(&mut bed);
    assert!(answers.iter().all(|code| code == "2.31"), "{answers:?}");
    let all = peers.len() * BLOCKS * 1024;
    assert!(
        kept(&bed) - before >= all,
        "{} of {all}",
        kept(&bed) - before
    );
    let view = MemoryView {
        pressure: Pressure::None,
        budget: all,
        beside_elsewhere: kept(&bed),
    };
    bed.shards[0].kernel.set_memory(view);
    let block = "x".repeat(1024);
    let line = format!("PUT /ps/data/a block1={BLOCKS}+/1024 : {block}");
    for who in &peers {
        bed.says(*who, |client, up| up.extend(client.request(&line)));
    }
    let answers = codes(&mut bed);
    assert_eq!(answers, ["5.03"; 10]);
    assert!(kept(&bed) - before < all / 8, "they are forgotten");
    // A body of one block keeps nothing.
    let line = "PUT /ps/data/a : short";
    bed.says(peers[0], |client, up| up.extend(client.request(line)));
    let answers = codes(&mut bed);
    assert!(answers[0].starts_with("2.0"), "{answers:?}");
    for who in &peers {
        bed.lose(*who);
    }
    assert_eq!(kept(&bed), 0, "nothing is kept for who is gone");
}
