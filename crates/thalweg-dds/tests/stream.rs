//! A bridge whose stream to the broker ends in the test: what of a domain it passes on, and in which order.
#![cfg(feature = "cyclone")]

use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_dds::bridge::Bridge;
use thalweg_dds::counts::Counts;
use thalweg_dds::cyclone::{Participant, Reader, SampleKind, Topic, Unwritten, Writer};
use thalweg_dds::frame::{self, Decoded, ToBroker};
use thalweg_dds::qos::Qos;
use thalweg_dds::settings::DdsSettings;
use thalweg_server::config::Config;

const PAYLOAD_MAX: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
const ROUNDS_MAX: usize = 3000;
const MOMENT: Duration = Duration::from_millis(10);

fn until(mut is_so: impl FnMut() -> bool) {
    let is_so_now = |_| {
        let is_so = is_so();
        if !is_so {
            std::thread::sleep(MOMENT);
        }
        is_so
    };
    assert!((0..ROUNDS_MAX).any(is_so_now), "never");
}

/// The broker's end of streams, of which the bridge has one at a time.
#[derive(Clone, Default)]
struct Broker {
    next: Arc<Mutex<Option<UnixStream>>>,
    refused: Arc<AtomicUsize>,
}

impl Broker {
    fn connect(&self) -> io::Result<UnixStream> {
        let next = self.next.lock().expect("no test has failed").take();
        next.ok_or_else(|| {
            self.refused.fetch_add(1, Ordering::SeqCst);
            ErrorKind::WouldBlock.into()
        })
    }

    /// Lets the bridge connect.
    fn accept(&self) -> Connection {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        ours.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        *self.next.lock().expect("no test has failed") = Some(theirs);
        Connection {
            stream: ours,
            input: Vec::new(),
        }
    }

    /// How often the bridge found nothing to connect to: once more, and it knows that it has no connection.
    fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }
}

struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
}

impl Connection {
    /// The topic and the number of the next sample.
    fn next(&mut self) -> (String, u32) {
        loop {
            match frame::decode(&self.input, PAYLOAD_MAX) {
                Decoded::Frame(frame, length) => {
                    let published = match frame {
                        ToBroker::Publish(sample) => Some((
                            sample.address.to_owned(),
                            u32::from_le_bytes(sample.payload[4..8].try_into().expect("four")),
                        )),
                        _ => None,
                    };
                    self.input.drain(..length);
                    if let Some(published) = published {
                        return published;
                    }
                }
                Decoded::Incomplete => {
                    let mut some = [0; 4096];
                    let count = self.stream.read(&mut some).expect("it comes in time");
                    assert_ne!(count, 0, "the bridge has ended");
                    self.input.extend_from_slice(&some[..count]);
                }
                Decoded::Wrong => panic!("no frame"),
            }
        }
    }
}

/// A bridge, and a participant beside it.
struct Stage {
    // Dropped in this order.
    near: Participant,
    _bridge: Bridge,
    broker: Broker,
}

impl Stage {
    fn set(domain: u32) -> Stage {
        let sets = [format!("dds.domain={domain}")];
        let read = Config::from_text(None, std::iter::empty(), &sets);
        let (config, _) = read.expect("the settings are right");
        let settings = DdsSettings::of(&config.protocols.dds).expect("they can be used");
        let near = Participant::new(&settings.xml(), &settings.types).expect("it joins");
        let broker = Broker::default();
        let connect = broker.clone();
        let connect = Box::new(move || connect.connect());
        let bridge = Bridge::start(settings, Arc::<Counts>::default(), connect);
        Stage {
            near,
            _bridge: bridge.expect("it joins"),
            broker,
        }
    }

    /// A reliable writer that the bridge reads.
    fn writer(&self, topic: &str) -> Writer {
        let of = Topic {
            name: topic.into(),
            type_name: topic.into(),
            is_keyless: true,
        };
        let offer = Qos {
            is_reliable: true,
            representations: vec![0],
            ..Qos::default()
        };
        let writer = self.near.writer(&of, &offer).expect("a writer");
        until(|| writer.opposites() == 1);
        writer
    }
}

fn write(writer: &Writer, number: u32, size: usize) {
    let mut bytes = vec![0, 1, 0, 0];
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.resize(size, 0);
    // On a busy machine it waits for acknowledgements.
    until(|| match writer.write(SampleKind::Data, &bytes, [0; 16]) {
        Ok(()) => true,
        Err(Unwritten::Slow) => false,
        Err(Unwritten::Failed(error)) => panic!("{error}"),
    });
    writer.flush();
}

#[test]
fn what_is_written_while_there_is_no_connection_comes_with_the_next_one() {
    const SIZE: usize = 8;
    let stage = Stage::set(155);
    let writer = stage.writer("Seldom");
    let mut connection = stage.broker.accept();
    let mut number = 0;
    for _ in 0..5 {
        // Samples that come seldom are taken where they arrive, and some of these while the connection ends.
        write(&writer, number, SIZE);
        assert_eq!(connection.next(), ("Seldom".into(), number));
        let before = stage.broker.refused();
        drop(connection);
        until(|| {
            number += 1;
            write(&writer, number, SIZE);
            stage.broker.refused() > before
        });
        // From here on nothing may be lost, nor come twice.
        let safe = number + 1;
        for _ in 0..3 {
            number += 1;
            write(&writer, number, SIZE);
        }
        connection = stage.broker.accept();
        let mut came = Vec::new();
        while came.last() != Some(&number) {
            came.push(connection.next().1);
        }
        assert!(came.is_sorted_by(|one, next| one < next), "{came:?}");
        assert!(
            came.ends_with(&Vec::from_iter(safe..=number)),
            "from {safe} on: {came:?}"
        );
        number += 1;
    }
}

#[test]
fn a_topic_of_which_much_waits_does_not_hold_up_another() {
    const SIZE: usize = 1024;
    const MANY: u32 = 8000;
    let stage = Stage::set(156);
    let (much, little) = (stage.writer("Much"), stage.writer("Little"));
    let mut connection = stage.broker.accept();
    write(&little, 0, SIZE);
    assert_eq!(connection.next(), ("Little".into(), 0));
    // Nothing is read, so that most of it waits in the reader.
    for number in 0..MANY {
        write(&much, number, SIZE);
    }
    write(&little, 1, SIZE);
    let least = MANY as usize / 2 * SIZE;
    until(|| Reader::waiting_bytes() >= least && little.is_acknowledged());
    let mut before = 0;
    while connection.next() != ("Little".into(), 1) {
        before += 1;
    }
    assert!(before < MANY / 4, "{before} of the other came before it");
    for number in before..MANY {
        assert_eq!(connection.next(), ("Much".into(), number));
    }
}
