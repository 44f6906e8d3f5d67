//! A group whose network does what the input says and whose sender may send anything: its stream is the input. What the
//! receiver yields is whole packets, and what it holds is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_mqtt::{Publish, ServerSide};
use thalweg_multicast::{
    Description, Receiver, ReceiverSettings, RepairRequest, Sender, SenderSettings,
};
use thalweg_wire::{Span, Time};

fuzz_target!(|input: &[u8]| {
    let key = [5; 32];
    let description = Description {
        group: "239.0.0.1:7500".parse().expect("an address"),
        epoch: 1,
        key,
        filters: Vec::new(),
        repair: String::new(),
        heartbeat: Span::from_millis(100),
        packet_bytes_max: 200,
    };
    let settings = SenderSettings {
        epoch: 1,
        key,
        datagram_bytes_max: 60,
        history_bytes_max: 1000,
        history_age_max: Span::from_millis(500),
        heartbeat: Span::from_millis(100),
    };
    if let Ok(read) = Description::from_json(input) {
        assert_eq!(Description::from_json(read.to_json().as_bytes()), Ok(read));
    }
    if let Ok(read) = RepairRequest::from_json(input) {
        assert_eq!(
            RepairRequest::from_json(read.to_json().as_bytes()),
            Ok(read)
        );
    }
    let mut now = Time::ZERO;
    let mut sender = Sender::new(&settings, now);
    let is_reliable = input.len().is_multiple_of(2);
    let receiver_settings = ReceiverSettings {
        held_bytes_max: 500,
        ..ReceiverSettings::for_group(&description, is_reliable)
    };
    let mut receiver = Receiver::new(&description, receiver_settings, now);
    let _ = receiver.on_datagram(input, now);
    let _ = receiver.on_answer(input, now);
    let mut late = Vec::new();
    let mut stream_bytes = 0;
    for piece in input.chunks(7) {
        let (&choice, piece) = piece.split_first().expect("a chunk is not empty");
        now += Span::from_millis(u64::from(choice % 8) * 10);
        sender.push(piece, now);
        if choice & 8 != 0 {
            sender.flush(now);
        }
        sender.on_timer(now);
        while let Some(datagram) = sender.poll_transmit() {
            match choice >> 4 {
                0..=9 => _ = receiver.on_datagram(datagram, now),
                10..=12 => late.push(datagram.to_vec()),
                13 => {
                    let mut damaged = datagram.to_vec();
                    damaged[usize::from(choice) % datagram.len()] ^= 0x10;
                    assert!(receiver.on_datagram(&damaged, now).is_err());
                }
                _ => {}
            }
        }
        if choice & 0x10 != 0 {
            for datagram in late.drain(..) {
                let _ = receiver.on_datagram(&datagram, now);
            }
        }
        if receiver.poll_timeout() <= now {
            receiver.on_timer(now);
        }
        if let Some(request) = receiver.poll_request() {
            let mut answer = Vec::new();
            sender.repair(&request, 200, now, &mut answer);
            assert!(answer.len() <= 200);
            let _ = receiver.on_answer(&answer, now);
        }
        while let Some(packet) = receiver.next_packet() {
            assert_eq!(ServerSide::frame_len(packet), Some(packet.len()));
            let _ = Publish::decode(packet, 200);
            stream_bytes += packet.len();
        }
    }
    let counts = receiver.counts();
    assert!(stream_bytes <= input.len() && counts.datagrams <= input.len() as u64);
});
