//! The bridge's session in a broker, without a domain of DDS.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;
use thalweg_dds::counts::Counts;
use thalweg_dds::frame::{self, Decoded, Retain, Sample, ToBroker};
use thalweg_dds::front::DdsFront;
use thalweg_server::Server;
use thalweg_server::config::Config;

const PAYLOAD_MAX: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn what_comes_with_the_first_bytes_is_handled_when_the_session_is_open() {
    let sets = [
        "listeners.mqtt.bind=127.0.0.1:0",
        "listeners.websocket.enabled=false",
        "journal.enabled=false",
        "shards=1",
    ];
    let read = Config::from_text(None, std::iter::empty(), &sets.map(str::to_owned));
    let server = Server::start(read.expect("the settings are right").0).expect("it starts");
    let counts = Arc::<Counts>::default();
    let front = |nonce| DdsFront::at_stream("dds", PAYLOAD_MAX, nonce, counts.clone());
    let mut stream = server.streams().open("dds", front).expect("it opens");
    let mut frames = Vec::new();
    frame::encode(
        &ToBroker::Publish(Sample {
            is_reliable: true,
            retain: Retain::Set,
            address: "plant/1",
            payload: b"kept",
            ..Sample::default()
        }),
        &mut frames,
    );
    let (address, is_late) = ("plant/1", true);
    frame::encode(&ToBroker::Subscribe { address, is_late }, &mut frames);
    // All in one: nothing that comes later drives the session on.
    stream.write_all(&frames).expect("it is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut input = Vec::new();
    loop {
        let mut some = [0; 1024];
        let count = stream.read(&mut some).expect("the last value comes");
        assert_ne!(count, 0, "the session has ended");
        input.extend_from_slice(&some[..count]);
        match frame::decode_message(&input, PAYLOAD_MAX) {
            Decoded::Frame(message, _) => break assert_eq!(message.sample.payload, b"kept"),
            Decoded::Incomplete => {}
            Decoded::Wrong => panic!("no frame"),
        }
    }
}
