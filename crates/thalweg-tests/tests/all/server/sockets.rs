//! Sockets of ZeroMQ on several shards.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::access::{SECRET, token, unix_now};
use super::home::{Home, wait_until};
use super::talker::PATIENCE;
use crate::folder::Folder;

/// So many that each shard has some, whatever the dice say.
const SOCKETS: usize = 40;

/// A socket that has shaken hands, in ZMTP 3.0, by NULL.
fn socket(home: &Home, kind: &str) -> TcpStream {
    log_in(home, kind, None)
}

/// The same, by PLAIN if it has a user and a password.
fn log_in(home: &Home, kind: &str, login: Option<(&str, &str)>) -> TcpStream {
    let mut stream = TcpStream::connect(home.address("zmtp")).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    let mut greeting = [0; 64];
    greeting[..12].copy_from_slice(b"\xFF\0\0\0\0\0\0\0\x01\x7F\x03\0");
    let mechanism = if login.is_some() { b"PLAIN" } else { b"NULL\0" };
    greeting[12..17].copy_from_slice(mechanism);
    stream.write_all(&greeting).expect("it reads");
    let mut command = b"\x05READY".to_vec();
    if let Some((user, password)) = login {
        let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
        let hello = [b"\x05HELLO".to_vec(), text(user), text(password)].concat();
        frame(&mut stream, 4, &hello);
        command = b"\x08INITIATE".to_vec();
    }
    let metadata = [b"\x0BSocket-Type\0\0\0", &[kind.len() as u8][..]].concat();
    let command = [&command, &metadata, kind.as_bytes()].concat();
    if login.is_none() {
        frame(&mut stream, 4, &command);
    }
    stream.read_exact(&mut greeting).expect("a greeting");
    if login.is_some() {
        assert_eq!(receive(&mut stream), (4, b"\x07WELCOME".to_vec()));
        frame(&mut stream, 4, &command);
    }
    let (flags, answer) = receive(&mut stream);
    assert!(flags == 4 && answer.starts_with(b"\x05READY"), "{answer:?}");
    stream
}

fn frame(stream: &mut TcpStream, flags: u8, body: &[u8]) {
    let bytes = [&[flags, body.len() as u8], body].concat();
    stream.write_all(&bytes).expect("it reads");
}

fn receive(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).expect("a frame comes");
    let mut body = vec![0; usize::from(head[1])];
    stream.read_exact(&mut body).expect("a frame comes");
    (head[0], body)
}

#[test]
fn publishers_and_subscribers_of_zeromq_are_on_every_shard_and_meet() {
    let home = Home::new(&["shards=3", "listeners.zmtp.bind=127.0.0.1:0"]);
    let mut subscribers: Vec<TcpStream> = (0..SOCKETS).map(|_| socket(&home, "SUB")).collect();
    for subscriber in &mut subscribers {
        frame(subscriber, 0, b"\x01a/");
    }
    let observer = home.observer();
    let homes = observer.on_shards(|inside| inside.kernel.totals().sessions);
    assert_eq!(homes.iter().sum::<usize>(), SOCKETS);
    assert!(homes.iter().all(|sessions| *sessions > 0), "{homes:?}");
    wait_until("all have subscribed", || {
        let there = observer.on_shards(|inside| inside.kernel.totals().subscriptions);
        there.iter().sum::<usize>() == SOCKETS
    });
    // A ZeroMQ subscription has no answer. MQTT's answer comes when other shards know all earlier subscriptions.
    for number in 0..SOCKETS {
        home.client(&format!("client{number}")).subscribe("b", 0);
    }
    let mut publishers: Vec<TcpStream> = (0..SOCKETS).map(|_| socket(&home, "PUB")).collect();
    for (number, publisher) in publishers.iter_mut().enumerate() {
        frame(publisher, 0, format!("a/{number} text").as_bytes());
        for subscriber in &mut subscribers {
            let message = receive(subscriber);
            assert_eq!(message, (0, format!("a/{number} text").into_bytes()));
        }
    }
}

#[test]
fn those_that_use_the_queue_stay_where_queues_are() {
    let home = Home::new(&["shards=3", "listeners.zmtp.bind=127.0.0.1:0"]);
    let mut pushers: Vec<TcpStream> = (0..SOCKETS).map(|_| socket(&home, "PUSH")).collect();
    let mut puller = socket(&home, "PULL");
    let homes = home
        .observer()
        .on_shards(|inside| inside.kernel.totals().sessions);
    assert!(homes.contains(&(SOCKETS + 1)), "{homes:?}");
    for (number, pusher) in pushers.iter_mut().enumerate() {
        frame(pusher, 0, &[number as u8]);
        assert_eq!(receive(&mut puller), (0, vec![number as u8]));
    }
}

#[test]
fn a_socket_that_has_moved_is_cut_off_when_its_token_ends() {
    let folder = Folder::new();
    folder.write("key", &format!("{SECRET}\n"));
    let sets = [
        "shards=3",
        "access.jwt.secret_file={folder}/key",
        "access.jwt.leeway=0s",
        "listeners.zmtp.anonymous=false",
        "listeners.zmtp.bind=127.0.0.1:0",
    ];
    let home = Home::in_folder(folder, &sets);
    let token = token(&format!(r#"{{"sub":"carol","exp":{}}}"#, unix_now() + 3));
    let login = Some(("carol", &*token));
    let mut sockets: Vec<TcpStream> = (0..8).map(|_| log_in(&home, "PUB", login)).collect();
    for socket in &mut sockets {
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).expect("it is cut off");
    }
}
