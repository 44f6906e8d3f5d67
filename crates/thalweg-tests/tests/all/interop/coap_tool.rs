//! `coap-client` of libcoap, Debian's, as used in shells; and tshark's view of its traffic.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_client::Options;
use thalweg_client::blocking::Client;
use thalweg_coap::Code;

use super::command_line::{self, Subscriber};
use super::puppet::{Message, PATIENCE};
use super::relay::Distance;
use super::speaker::broker;
use crate::broker::{Broker, free_port};
use crate::coap_peer::{Ask, Peer};

/// The build with DTLS; Debian has one for each library of it.
const TOOL: &str = "coap-client-openssl";

fn uri(scheme: &str, broker: &Broker, path: &str) -> String {
    format!("{scheme}://{}{path}", broker.coap())
}

/// Runs `coap-client` to its end.
fn run(arguments: &[&str]) -> Output {
    let run = Command::new(TOOL)
        .args(["-B", "10"])
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    run.expect("coap-client runs (Debian package libcoap3-bin)")
}

/// Its output: the payload of the response, or its code if that is an error.
fn ask(arguments: &[&str]) -> Vec<u8> {
    let output = run(arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    [output.stdout, output.stderr].concat()
}

fn text(printed: &[u8]) -> String {
    String::from_utf8_lossy(printed)
        .trim_end_matches('\n')
        .to_owned()
}

/// A `coap-client` that observes; dropping it kills it.
struct Observer {
    child: Child,
    bytes: Receiver<u8>,
}

impl Observer {
    fn start(arguments: &[&str]) -> Self {
        // Into a pipe it would keep what it prints until it has a block of it.
        let mut child = Command::new("stdbuf")
            .args(["-o0", TOOL, "-s", "60", "-w"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("coap-client runs (Debian package libcoap3-bin)");
        let output = child.stdout.take().expect("the pipe was asked for");
        let (to_bytes, bytes) = channel();
        thread::spawn(move || {
            for byte in BufReader::new(output).bytes().map_while(Result::ok) {
                let _ = to_bytes.send(byte);
            }
        });
        Self { child, bytes }
    }

    /// The next payload; with `-w` each ends with a line feed.
    fn receive(&self) -> String {
        let mut line = Vec::new();
        loop {
            match self
                .bytes
                .recv_timeout(PATIENCE)
                .expect("coap-client prints a notification in time")
            {
                b'\n' => return text(&line),
                byte => line.push(byte),
            }
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn coap_client_publishes_and_mosquitto_sub_receives() {
    let Some(broker) = broker() else { return };
    let subscriber = Subscriber::start(
        &broker,
        &["-V", "mqttv5", "-q", "1", "-t", "plant/+/temperature"],
    );
    for (scheme, more) in [
        ("coap", vec![]),
        ("coap", vec!["-N"]),
        ("coap+tcp", vec!["-r"]),
    ] {
        let place = uri(scheme, &broker, "/ps/data/plant/7/temperature");
        let arguments = [
            more.as_slice(),
            &["-m", "put", "-t", "0", "-e", "21.5", &place],
        ]
        .concat();
        assert_eq!(
            text(&ask(&arguments)),
            "",
            "{scheme}: 2.01 and 2.04 say nothing"
        );
        let seen = subscriber.receive();
        assert_eq!(
            (seen.topic.as_str(), seen.payload.as_slice()),
            ("plant/7/temperature", b"21.5".as_slice()),
            "{scheme}"
        );
    }
    // In blocks: 3,000 bytes are three, or 47 of 64.
    let file = broker.folder().join("large");
    let large: Vec<u8> = (0..3000)
        .map(|number: u32| b'a' + u8::try_from(number % 26).expect("small"))
        .collect();
    std::fs::write(&file, &large).expect("the test's folder is writable");
    for size in ["1024", "64"] {
        let place = uri("coap", &broker, "/ps/data/plant/8/temperature");
        ask(&[
            "-m",
            "put",
            "-b",
            size,
            "-f",
            &file.display().to_string(),
            &place,
        ]);
        assert_eq!(subscriber.receive().payload, large, "blocks of {size}");
        assert_eq!(
            text(&ask(&["-m", "get", "-b", size, &place])).as_bytes(),
            large,
            "blocks of {size}"
        );
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn coap_client_observes_what_mosquitto_pub_sends() {
    let Some(broker) = broker() else { return };
    command_line::publish(&broker, &["-q", "1", "-r", "-t", "room/light", "-m", "off"]);
    let place = uri("coap", &broker, "/ps/data/room/light");
    assert_eq!(text(&ask(&["-m", "get", &place])), "off");
    let observer = Observer::start(&[&place]);
    assert_eq!(
        observer.receive(),
        "off",
        "the value that is there comes first"
    );
    for value in ["on", "dimmed"] {
        command_line::publish(&broker, &["-q", "1", "-t", "room/light", "-m", value]);
        assert_eq!(observer.receive(), value);
    }
    command_line::publish(&broker, &["-q", "0", "-t", "room/light", "-m", "off again"]);
    assert_eq!(observer.receive(), "off again");
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn coap_client_finds_reads_and_deletes() {
    let Some(broker) = broker() else { return };
    let core = text(&ask(&[
        "-m",
        "get",
        &uri("coap", &broker, "/.well-known/core?rt=core.ps"),
    ]));
    assert!(core.contains("</ps>") && core.contains("core.ps"), "{core}");
    let place = uri("coap", &broker, "/ps/data/here/now");
    ask(&["-m", "put", "-e", "x", &place]);
    assert_eq!(text(&ask(&["-m", "get", &place])), "x");
    ask(&["-m", "delete", &place]);
    assert!(text(&ask(&["-m", "get", &uri("coap", &broker, "/nowhere")])).starts_with("4.04"));
}

/// Capture for a later analysis by tshark. Made by `dumpcap` itself: tshark would leave one behind when it is killed.
struct Capture {
    child: Child,
    file: std::path::PathBuf,
    port: u16,
}

impl Capture {
    /// `None` without the right to capture.
    fn start(folder: &Path, port: u16) -> Option<Self> {
        let file = folder.join("capture.pcap");
        let mut child = Command::new("dumpcap")
            .args([
                "-i",
                "lo",
                "-a",
                "duration:300",
                "-f",
                &format!("port {port}"),
                "-w",
            ])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let said = BufReader::new(child.stderr.take().expect("the pipe was asked for"));
        // It says so before it does so; the last word comes from the program that captures.
        let mut lines = said.lines().map_while(Result::ok);
        let begun = lines.find(|line| line.contains("Capture started") || line.contains("File:"));
        thread::spawn(move || lines.for_each(drop));
        begun.map(|_| Self { child, file, port })
    }

    /// Ends the capture once it holds an answer to the last request; the frames that a display filter picks.
    fn ask(&self, filter: &str) -> Vec<String> {
        let decode = |transport: &str| format!("{transport}.port=={},coap", self.port);
        let output = Command::new("tshark")
            .args(["-r"])
            .arg(&self.file)
            .args(["-d", &decode("udp"), "-d", &decode("tcp"), "-Y", filter])
            .output()
            .expect("tshark runs");
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn tshark_decodes_all_of_it_without_a_warning() {
    let Some(broker) = broker() else { return };
    let Some(capture) = Capture::start(broker.folder(), broker.coap().port()) else {
        eprintln!("left out: nobody may capture here");
        return;
    };
    let place = uri("coap", &broker, "/ps/data/seen/by/tshark");
    ask(&["-m", "put", "-t", "50", "-e", "{}", &place]);
    let observer = Observer::start(&[&place]);
    assert_eq!(observer.receive(), "{}");
    for value in ["one", "two"] {
        command_line::publish(&broker, &["-q", "1", "-t", "seen/by/tshark", "-m", value]);
        assert_eq!(observer.receive(), value);
    }
    drop(observer);
    ask(&["-m", "get", "-A", "0", &place]);
    ask(&["-m", "get", &uri("coap", &broker, "/.well-known/core")]);
    ask(&["-m", "delete", &place]);
    ask(&["-m", "get", &uri("coap", &broker, "/ps/data/seen/nothing")]);
    ask(&[
        "-m",
        "put",
        "-r",
        "-e",
        "x",
        &uri("coap+tcp", &broker, "/ps/data/seen/by/tshark"),
    ]);
    // The capture is written in blocks: wait until the last conversation is in it.
    let deadline = Instant::now() + PATIENCE;
    while capture.ask("coap && tcp").len() < 4 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(200));
    }
    let messages = capture.ask("coap");
    assert!(messages.len() >= 20, "{messages:#?}");
    // Version 4.0 takes the options of signals over TCP (7.xx) for those of requests.
    let warnings = capture
        .ask("coap && coap.code < 224 && (_ws.malformed || _ws.expert.severity >= 0x600000)");
    assert_eq!(
        warnings,
        Vec::<String>::new(),
        "of {} messages",
        messages.len()
    );
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn coap_client_sends_to_a_queue_and_takes_from_it() {
    let options = Broker::with()
        .coap()
        .set("coap.auto_declare_queues", "true");
    let Some(broker) = options.start_for_queues() else {
        return;
    };
    let place = uri("coap", &broker, "/q/jobs");
    for job in ["first", "second"] {
        ask(&["-m", "post", "-e", job, &place]);
    }
    assert_eq!(text(&ask(&["-m", "get", &place])), "first");
    assert_eq!(text(&ask(&["-m", "get", &place])), "second");
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn messages_of_the_tool_are_those_of_others() {
    let Some(broker) = broker() else { return };
    let subscriber = Subscriber::start(&broker, &["-V", "mqttv5", "-q", "1", "-t", "#"]);
    ask(&[
        "-m",
        "put",
        "-e",
        "x",
        &uri("coap", &broker, "/ps/data/with%20space/%C3%BC"),
    ]);
    assert_eq!(subscriber.receive(), Message::new("with space/ü", "x", 1));
}

/// Blocks, observations and requests in parallel where each answer takes 50 ms: on loopback nothing ever overlaps.
#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn coap_client_works_over_a_network_with_delay() {
    let dtls = free_port();
    let options = Broker::with()
        .queues()
        .coap()
        .file("keys", "writer:\"correct horse\"\n")
        .set("listeners.far.kind", "coap")
        .set("listeners.far.bind", &dtls.to_string())
        .set("listeners.far.transport", "dtls")
        .set("listeners.far.tls.psk_file", "{folder}/keys")
        .set("listeners.far.tls.psk_bytes_min", "1");
    let Some(broker) = options.start_for_queues() else {
        return;
    };
    let one_way = Duration::from_millis(25);
    let plain = format!("coap://{}", Distance::to(broker.coap(), one_way).address());
    let secure = format!("coaps://{}", Distance::to(dtls, one_way).address());
    let large: String = (0..3000)
        .map(|number: u32| char::from(b'a' + (number % 26) as u8))
        .collect();
    let file = broker.folder().join("large");
    std::fs::write(&file, &large).expect("the test's folder is writable");
    let file = file.display().to_string();
    for (base, keys) in [
        (&plain, &[][..]),
        (&secure, &["-u", "writer", "-k", "correct horse"]),
    ] {
        let ask_for = |more: &[&str], path: &str| {
            let place = format!("{base}{path}");
            text(&ask(&[keys, more, &[place.as_str()]].concat()))
        };
        // Ten at once, three blocks each, and all are there.
        thread::scope(|scope| {
            for number in 0..10 {
                let (ask_for, file) = (&ask_for, file.as_str());
                scope.spawn(move || {
                    let path = format!("/ps/data/far/{number}");
                    assert_eq!(
                        ask_for(&["-m", "put", "-b", "1024", "-f", file], &path),
                        "",
                        "{base}{path}"
                    );
                });
            }
        });
        for number in 0..10 {
            assert_eq!(
                ask_for(&["-m", "get"], &format!("/ps/data/far/{number}")),
                large,
                "{base} {number}"
            );
        }
        let place = format!("{base}/ps/data/far/light");
        ask_for(&["-m", "put", "-e", "off"], "/ps/data/far/light");
        let observer = Observer::start(&[keys, &[place.as_str()]].concat());
        assert_eq!(observer.receive(), "off", "{base}");
        for value in ["on", "dimmed", "off again"] {
            command_line::publish(&broker, &["-q", "1", "-t", "far/light", "-m", value]);
            assert_eq!(observer.receive(), value, "{base}");
        }
        drop(observer);
        ask_for(&["-m", "delete"], "/ps/data/far/light");
    }
}

/// The same from one peer: sixteen bodies of three blocks under way at once, by the machine of our client.
#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn bodies_of_one_peer_in_parallel_arrive_over_a_network_with_delay() {
    let Some(broker) = broker() else { return };
    let mut peer = Peer::with_nstart(
        Distance::to(broker.coap(), Duration::from_millis(25)).address(),
        16,
    );
    let large = vec![b'x'; 3000];
    let paths: Vec<String> = (0..16).map(|number| number.to_string()).collect();
    let asks: Vec<[&str; 4]> = paths
        .iter()
        .map(|path| ["ps", "data", "parallel", path.as_str()])
        .collect();
    let asks: Vec<Ask<'_>> = asks
        .iter()
        .map(|path| Ask::of(Code::PUT, path, &large))
        .collect();
    let answers = peer.ask_all(&asks);
    assert!(
        answers.iter().all(|answer| answer.code.is_success()),
        "{answers:?}"
    );
}

/// Bodies of two blocks by our own client, 25 ms each way: 20 of each topic, several at a time, which the broker
/// accepts in order. The duration is printed and not asserted: this machine may be busy. In virtual time it is
/// asserted: `thalweg-client`, `coap::tests::order`.
#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn two_hundred_bodies_of_our_client_arrive_over_a_network_with_delay() {
    let Some(broker) = broker() else { return };
    let one_way = Duration::from_millis(25);
    let mqtt = format!(
        "mqtt://{}",
        Distance::of_streams_to(broker.mqtt(), one_way).address()
    );
    let coap = format!("coap://{}", Distance::to(broker.coap(), one_way).address());
    let took = [mqtt, coap].map(|url| {
        let client = Client::builder()
            .broker(&url)
            .expect("a URL")
            .connect_blocking()
            .expect("it starts");
        let began = Instant::now();
        for number in 0..200 {
            let topic = format!("bodies/{}", number % 10);
            client
                .give(&[b'x'; 2000], "", &topic, &Options::default())
                .expect("there is room");
        }
        client.flush(PATIENCE).expect("all are acknowledged");
        began.elapsed()
    });
    println!(
        "200 bodies of 2,000 B on 10 topics over 25 ms each way: MQTT {:.0?}, CoAP {:.0?}",
        took[0], took[1]
    );
}
