//! A thread that panics: the process ends, and what was acknowledged is there after a restart. Clients write MQTT by hand.

use crate::support::folder::Folder;
use crate::{PATIENCE, address};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use thalweg_server::config::Config;
use thalweg_server::{EXIT_PANICKED, Server, ServerFailure, StartOptions, end_process_on_panic};

/// Where the child's data is.
const FOLDER: &str = "THALWEG_DEAD_THREADS";

fn start(folder: &Path, options: StartOptions) -> (Server, String) {
    let sets = [
        "shards=2",
        "listeners.mqtt.bind=127.0.0.1:0",
        "listeners.websocket.enabled=false",
    ];
    let mut sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    sets.push(format!("data_dir={}", folder.display()));
    let (config, _) =
        Config::from_text(None, std::iter::empty(), &sets).expect("a legal configuration");
    let server = Server::start_with(config, options).expect("a server");
    let address = address(&server, "mqtt").to_string();
    (server, address)
}

/// Connects with a session that stays.
fn connect(address: &str, id: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    let head = [
        0x10,
        12 + id.len() as u8,
        0,
        4,
        b'M',
        b'Q',
        b'T',
        b'T',
        4,
        0,
        0,
        0,
        0,
        id.len() as u8,
    ];
    stream
        .write_all(&[&head, id.as_bytes()].concat())
        .expect("it leaves");
    let (kind, body) = packet(&mut stream).expect("an answer");
    assert_eq!((kind, body[1]), (0x20, 0), "CONNACK");
    stream
}

/// A packet of less than 128 bytes; nothing at the end of the connection.
fn packet(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    let mut body = vec![0; head[1].into()];
    stream.read_exact(&mut body).ok()?;
    Some((head[0], body))
}

/// Publishes a number with QoS 1; whether it was acknowledged before the connection ended.
fn publish(stream: &mut TcpStream, number: u16) -> bool {
    let head = [0x32, 7, 0, 1, b't'];
    let bytes = [&head[..], &number.to_be_bytes(), &number.to_be_bytes()].concat();
    stream.write_all(&bytes).is_ok()
        && packet(stream) == Some((0x40, number.to_be_bytes().to_vec()))
}

/// A broker's process: says where it listens; one of its shards panics once its input ends.
#[test]
#[ignore = "a child of a_shard_that_panics_ends_the_process_and_what_was_acknowledged_is_kept"]
fn child_whose_shard_panics() {
    end_process_on_panic();
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("the parent names a folder"));
    let (server, address) = start(&folder, StartOptions::default());
    println!("\nADDRESS {address}");
    std::io::stdin()
        .read_to_end(&mut Vec::new())
        .expect("an input");
    server
        .observer()
        .on_shards(|inside| assert_ne!(inside.shard, 1, "two\nlines"));
}

#[test]
fn a_shard_that_panics_ends_the_process_and_what_was_acknowledged_is_kept() {
    let folder = Folder::new("dead-child");
    let mut child = Command::new(std::env::current_exe().expect("a running program has a path"))
        .args([
            "--exact",
            "dead_threads::child_whose_shard_panics",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(FOLDER, &folder.0)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child");
    // Kept to the end: the child may not lose its output.
    let mut lines = BufReader::new(child.stdout.take().expect("its output"))
        .lines()
        .map_while(Result::ok);
    let address = lines
        .find_map(|line| Some(line.strip_prefix("ADDRESS ")?.to_owned()))
        .expect("an address");
    let mut receiver = connect(&address, "receiver");
    receiver
        .write_all(&[0x82, 6, 0, 1, 0, 1, b't', 1])
        .expect("it leaves");
    assert_eq!(packet(&mut receiver), Some((0x90, vec![0, 1, 1])), "SUBACK");
    drop(receiver);
    let mut publisher = connect(&address, "publisher");
    assert!((1..=20).all(|number| publish(&mut publisher, number)));
    // It panics somewhere in the midst of what follows.
    drop(child.stdin.take());
    let acknowledged = (21..u16::MAX)
        .take_while(|number| publish(&mut publisher, *number))
        .last()
        .unwrap_or(20);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(EXIT_PANICKED.into()), "{said}");
    let line = said
        .lines()
        .find(|line| line.contains("panicked"))
        .unwrap_or_else(|| panic!("no reason in: {said}"));
    assert!(
        line.starts_with("error: thread shard-1 panicked at ") && line.contains("dead_threads.rs:"),
        "{line}"
    );
    assert!(line.contains(r"two\nlines"), "{line}");

    let (_server, address) = start(&folder.0, StartOptions::default());
    let mut receiver = connect(&address, "receiver");
    let mut missing: BTreeSet<u16> = (1..=acknowledged).collect();
    while !missing.is_empty() {
        let (kind, body) = packet(&mut receiver).unwrap_or_else(|| panic!("lost: {missing:?}"));
        // Topic, packet identifier, number.
        let &[0, 1, b't', high, low, a, b] = body.as_slice() else {
            panic!("{kind}: {body:?}")
        };
        missing.remove(&u16::from_be_bytes([a, b]));
        receiver
            .write_all(&[0x40, 2, high, low])
            .expect("it leaves");
    }
}

#[test]
fn without_that_hook_the_owner_of_the_server_is_told_of_a_thread_that_panics() {
    let folder = Folder::new("dead-owner");
    let (sender, failures) = mpsc::channel();
    let on_failure = Arc::new(move |failure: &ServerFailure| _ = sender.send(failure.to_string()));
    let options = StartOptions {
        on_failure: Some(on_failure),
        ..StartOptions::default()
    };
    let (server, _) = start(&folder.0, options);
    server.observer().on_shards(|inside| {
        if inside.shard == 1 {
            // Unwinds like a panic, without its message in the test output.
            std::panic::resume_unwind(Box::new("a bug"));
        }
    });
    assert_eq!(
        failures.recv_timeout(PATIENCE).as_deref(),
        Ok("thread shard-1 failed: it panicked")
    );
    server.stop();
}
