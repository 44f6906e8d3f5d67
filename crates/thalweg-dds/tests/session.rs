//! The bridge's session in a broker, without a domain of DDS.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use thalweg_dds::counts::Counts;
use thalweg_dds::frame::{self, Decoded, Retain, Sample, ToBroker};
use thalweg_dds::front::DdsFront;
use thalweg_dds::remarks::Topic;
use thalweg_server::Server;
use thalweg_server::config::Config;

const PAYLOAD_MAX: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

/// A broker, and the bridge's end of a stream to it.
struct Stage {
    server: Server,
    counts: Arc<Counts>,
    stream: UnixStream,
    input: Vec<u8>,
}

impl Stage {
    fn set(more: &[&str]) -> Stage {
        let own = [
            "listeners.mqtt.bind=127.0.0.1:0",
            "listeners.websocket.enabled=false",
            "journal.enabled=false",
            "shards=1",
        ];
        let sets: Vec<String> = own.iter().chain(more).map(|it| (*it).to_owned()).collect();
        let read = Config::from_text(None, std::iter::empty(), &sets);
        let server = Server::start(read.expect("the settings are right").0).expect("it starts");
        let counts = Arc::<Counts>::default();
        let stream = opened(&server, &counts, 0);
        Stage {
            server,
            counts,
            stream,
            input: Vec::new(),
        }
    }

    fn says(&mut self, all: &[ToBroker<'_>]) {
        say(&mut self.stream, all);
    }

    /// The payload of the next message.
    fn hears(&mut self) -> String {
        self.hears_whole().2
    }

    /// The next message: whether it is a last value, its source and its payload.
    fn hears_whole(&mut self) -> (Retain, String, String) {
        self.hears_of(|it| {
            let payload = String::from_utf8_lossy(it.payload).into_owned();
            (it.retain, it.source.to_owned(), payload)
        })
    }

    fn hears_of<T>(&mut self, of: impl Fn(&Sample<'_>) -> T) -> T {
        loop {
            match frame::decode_message(&self.input, PAYLOAD_MAX) {
                Decoded::Frame(message, length) => {
                    let heard = of(&message.sample);
                    self.input.drain(..length);
                    return heard;
                }
                Decoded::Incomplete => {}
                Decoded::Wrong => panic!("no frame"),
            }
            let mut some = [0; 1024];
            let count = self.stream.read(&mut some).expect("it comes in time");
            assert_ne!(count, 0, "the session has ended");
            self.input.extend_from_slice(&some[..count]);
        }
    }
}

/// The broker's end is that of the bridge into this domain.
fn opened(server: &Server, counts: &Arc<Counts>, domain: u32) -> UnixStream {
    let speaker = format!("dds {domain}");
    let front = |nonce| DdsFront::at_stream("dds", &speaker, PAYLOAD_MAX, nonce, counts.clone());
    let stream = server.streams().open("dds", front).expect("it opens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn say(stream: &mut UnixStream, all: &[ToBroker<'_>]) {
    let mut frames = Vec::new();
    for it in all {
        assert!(frame::encode(it, &mut frames));
    }
    stream.write_all(&frames).expect("it is open");
}

#[test]
fn what_comes_with_the_first_bytes_is_handled_when_the_session_is_open() {
    let mut stage = Stage::set(&[]);
    // All in one: nothing that comes later drives the session on.
    stage.says(&[
        ToBroker::Publish(Sample {
            is_reliable: true,
            retain: Retain::Set,
            address: "plant/1",
            payload: b"kept",
            ..Sample::default()
        }),
        ToBroker::Subscribe {
            address: "plant/1",
            is_late: true,
        },
    ]);
    assert_eq!(stage.hears(), "kept");
}

#[test]
fn a_topic_of_which_something_is_promised_has_a_presence() {
    let mut stage = Stage::set(&["presence.enabled=true"]);
    let (address, is_late) = ("$presence/dds/#", true);
    stage.says(&[ToBroker::Subscribe { address, is_late }]);
    // Two readers know of the topic: it is there while one of them says so.
    let known = |is_silent: bool| {
        let address = "plant/1".to_owned();
        Some(Topic { address, is_silent })
    };
    let online = r#""state":"online","protocol":"DDS""#;
    for (reader, topic, words) in [
        (1, known(false), online),
        (1, known(true), r#""why":"silent""#),
        (1, known(false), online),
        (2, known(false), online),
        // The other one stays.
        (2, None, online),
        (1, None, r#""why":"goodbye""#),
    ] {
        stage.counts.remarks.set_topic(reader, topic);
        stage.says(&[ToBroker::Settled(0)]);
        let heard = stage.hears();
        assert!(heard.contains(words), "{heard}");
    }
}

#[test]
fn what_waits_for_a_session_comes_however_much_it_is() {
    let mut stage = Stage::set(&["mqtt.inflight_max=20000"]);
    let sample = |payload| {
        ToBroker::Publish(Sample {
            is_reliable: true,
            retain: Retain::Set,
            address: "a",
            payload,
            ..Sample::default()
        })
    };
    let (address, is_late) = ("a", true);
    stage.says(&[sample(b"here"), ToBroker::Subscribe { address, is_late }]);
    assert_eq!(stage.hears(), "here");
    // At once, so that they wait for the session; several times what it is told of before it is flushed, and what is written of
    // that fits into the stream.
    let payloads: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    let samples: Vec<ToBroker<'_>> = payloads.iter().map(|it| sample(it.as_bytes())).collect();
    let mut other = opened(&stage.server, &stage.counts, 0);
    say(&mut other, &samples);
    for payload in payloads {
        assert_eq!(stage.hears(), payload);
    }
}

#[test]
fn samples_that_differ_in_their_payloads_alone_come_as_they_were_sent_and_in_order() {
    const MANY: usize = 1000;
    const TYPE: &str = "application/x-cdr";
    let mut stage = Stage::set(&[]);
    let payloads: Vec<String> = (0..MANY)
        .map(|number| "x".repeat(number % 7) + &number.to_string())
        .collect();
    let sample = |number: usize, is_reliable| {
        ToBroker::Publish(Sample {
            is_reliable,
            address: "a",
            content_type: TYPE,
            payload: payloads[number].as_bytes(),
            ..Sample::default()
        })
    };
    let wish = ToBroker::Subscribe {
        address: "a",
        is_late: false,
    };
    // Once it hears of this it has subscribed; of what it publishes there it hears nothing.
    let kept = ToBroker::Publish(Sample {
        is_reliable: true,
        retain: Retain::Set,
        address: "b",
        payload: b"here",
        ..Sample::default()
    });
    let all = [wish, sample(0, false), sample(1, false), kept];
    stage.says(&all);
    stage.says(&[ToBroker::Subscribe {
        address: "b",
        is_late: true,
    }]);
    assert_eq!(stage.hears(), "here");
    let mut far = opened(&stage.server, &stage.counts, 1);
    for (reliable, least) in [(MANY, MANY / 2), (50, 0)] {
        let samples: Vec<_> = (0..MANY)
            .map(|number| sample(number, number % reliable == reliable - 1))
            .collect();
        // Behind one that was delivered, as what is noted before leaves first.
        say(&mut far, &[sample(0, false)]);
        assert_eq!(stage.hears(), payloads[0]);
        say(&mut far, &samples);
        let mut as_sent = 0;
        for payload in &payloads {
            let (heard, content_type) = stage.hears_of(|it| {
                let payload = String::from_utf8_lossy(it.payload).into_owned();
                (payload, it.content_type.to_owned())
            });
            assert_eq!(heard, *payload);
            as_sent += usize::from(content_type == TYPE);
        }
        assert!(
            as_sent >= least,
            "{as_sent} of {MANY} with one reliable of {reliable}"
        );
    }
    assert_eq!(Counts::get(&stage.counts.published), 5 + 2 * MANY as u64);
}

#[test]
fn who_follows_an_address_is_told_which_source_ends_and_nothing_twice() {
    let mut stage = Stage::set(&[]);
    let (address, is_late) = ("a", true);
    let said = |source, retain, payload| {
        ToBroker::Publish(Sample {
            is_reliable: true,
            retain,
            keeps: 2,
            address,
            source,
            payload,
            ..Sample::default()
        })
    };
    // Once it hears of the other address it has subscribed to both.
    let other = Sample {
        is_reliable: true,
        retain: Retain::Set,
        address: "b",
        payload: b"here",
        ..Sample::default()
    };
    stage.says(&[
        ToBroker::Subscribe { address, is_late },
        ToBroker::Publish(other),
        ToBroker::Subscribe {
            address: "b",
            is_late,
        },
    ]);
    assert_eq!(stage.hears(), "here");
    let mut far = opened(&stage.server, &stage.counts, 1);
    say(
        &mut far,
        &[
            said("one", Retain::Lasting, b"1"),
            said("two", Retain::Lasting, b"2"),
            ToBroker::Withdraw {
                address,
                source: "two",
            },
            // As it is for those who read one value.
            said("one", Retain::No, b"1"),
            said("one", Retain::Lasting, b"3"),
        ],
    );
    for (retain, source, payload) in [
        (Retain::Set, "one", "1"),
        (Retain::Set, "two", "2"),
        (Retain::Ends, "two", ""),
        (Retain::Set, "one", "3"),
    ] {
        let expected = (retain, source.to_owned(), payload.to_owned());
        assert_eq!(stage.hears_whole(), expected);
    }
}
