//! A client as its users have it, whose broker is not there: buffer, end and words.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::time::Duration;

use thalweg_journal::sim::{Faults, SimDisk};
use thalweg_model::Reliability;

use super::start::start_with;
use crate::blocking::Client;
use crate::builder::{BufferSettings, ClientBuilder};
use crate::client::ClientError;
use crate::engine::Success;
use crate::message::Options;
use crate::spool::{Disk, DiskSettings, Spool, WhenFull};
use crate::ticket::Ticket;

/// The URL of a port where nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    format!("mqtt://{}", listener.local_addr().expect("it is bound"))
}

fn builder() -> ClientBuilder {
    Client::builder().broker(&nobody()).expect("a URL")
}

const SETTINGS: DiskSettings = DiskSettings {
    bytes_max: 8 << 20,
    when_full: WhenFull::Refuse,
    repair: false,
};

fn on(disk: &SimDisk) -> Client {
    let spool = Disk::open_on(disk.clone(), SETTINGS).expect("the buffer opens");
    start_with(builder(), Box::new(spool))
        .expect("a client")
        .into()
}

fn publish(client: &Client, how: Reliability) -> Ticket {
    let options = Options {
        reliability: how,
        ..Options::default()
    };
    client
        .publish_message(&[7; 300], "", "a/b", &options)
        .expect("there is room")
}

#[test]
fn stored_is_said_of_each_message_and_who_waits_for_a_failed_one_is_told() {
    let disk = SimDisk::new(1);
    let client = on(&disk);
    let first: Vec<Ticket> = (0..50)
        .map(|_| publish(&client, Reliability::AtLeastOnce))
        .collect();
    first
        .iter()
        .for_each(|ticket| client.stored(*ticket).expect("a disk with room"));
    // The disk refuses what is written now.
    disk.plan(Faults {
        full_after: Some(0),
        ..Faults::default()
    });
    let refused: Vec<Ticket> = (0..50)
        .map(|_| publish(&client, Reliability::AtLeastOnce))
        .collect();
    for ticket in &refused {
        let error = client.stored(*ticket).expect_err("the disk is full");
        assert!(
            matches!(&error, ClientError::NotStored(why) if why.contains("failed: ")),
            "{error}"
        );
        assert_eq!(client.is_publish_success(*ticket), Success::Failed);
        assert!(client.why_failed(*ticket).is_some());
    }
    // There is room again: what failed is not stored because something later is.
    disk.plan(Faults::default());
    let once = publish(&client, Reliability::AtMostOnce);
    let later: Vec<Ticket> = (0..50)
        .map(|_| publish(&client, Reliability::ExactlyOnce))
        .collect();
    later
        .iter()
        .for_each(|ticket| client.stored(*ticket).expect("a disk with room"));
    let error = client.stored(once).expect_err("it is never on disk");
    assert!(error.to_string().contains("at least once"), "{error}");
    let all = first.iter().chain(&refused).chain(&later).chain([&once]);
    let said: BTreeSet<u64> = all
        .filter(|ticket| client.is_stored(**ticket))
        .map(|ticket| ticket.0)
        .collect();
    assert!(matches!(
        client.close(Duration::ZERO),
        Err(ClientError::TimedOut)
    ));
    // What was said is what the next process finds.
    let mut found = BTreeSet::new();
    let mut spool = Disk::open_on(disk, SETTINGS).expect("the folder is free");
    spool
        .recover(&mut |id, _| assert!(found.insert(id)))
        .expect("it can be read");
    assert_eq!(said, found);
    assert_eq!(said.len(), first.len() + later.len());
}

#[test]
fn without_a_disk_what_is_given_is_stored_and_what_fails_is_not() {
    let client: Client = builder().connect().expect("a client").into();
    let given = publish(&client, Reliability::AtMostOnce);
    client.stored(given).expect("nothing more is done for it");
    let options = Options {
        lifespan: Some(Duration::ZERO),
        ..Options::default()
    };
    let late = client
        .publish_message(b"x", "", "a", &options)
        .expect("there is room");
    assert_eq!(client.outcome(late, Duration::MAX), Success::Failed);
    assert!(matches!(
        client.stored(late),
        Err(ClientError::NotStored(_))
    ));
}

#[test]
fn whoever_closes_finds_the_folder_free() {
    let folder = std::env::temp_dir().join(format!("thalweg-client-close-{}", std::process::id()));
    for _ in 0..20 {
        let buffer = BufferSettings {
            disk: Some(folder.clone()),
            ..BufferSettings::default()
        };
        let client: Client = builder()
            .buffer(buffer)
            .connect()
            .expect("the folder is free")
            .into();
        publish(&client, Reliability::AtLeastOnce);
        // Both are told when it is over, not when it begins to be.
        let other = client.clone();
        let closer = std::thread::spawn(move || other.close(Duration::ZERO));
        let closed = client.close(Duration::ZERO);
        assert!(
            matches!(closed, Ok(()) | Err(ClientError::TimedOut)),
            "{closed:?}"
        );
        drop(Disk::open(&folder, SETTINGS).expect("the folder is free"));
        let _ = closer.join();
    }
    std::fs::remove_dir_all(folder).expect("it is ours");
}

#[test]
fn a_broker_that_is_not_reached_is_named() {
    let (one, two) = (nobody(), nobody());
    let explained = |client: &Client, place: &str| {
        // Asked until the first attempt has failed: each question is a turn of the client's thread.
        let place = place.trim_start_matches("mqtt://").to_owned();
        loop {
            let words = client.explain().expect("it runs").to_string();
            if words.contains(&format!("mqtt at {place} is not reached: ")) {
                break words;
            }
            std::thread::yield_now();
        }
    };
    let client: Client = Client::builder()
        .broker(&one)
        .expect("a URL")
        .connect()
        .expect("a client")
        .into();
    assert!(explained(&client, &one).contains("there is no other way"));
    let client: Client = Client::builder()
        .broker(&one)
        .and_then(|builder| builder.broker(&two))
        .expect("URLs")
        .connect()
        .expect("a client")
        .into();
    publish(&client, Reliability::AtLeastOnce);
    explained(&client, &one);
    explained(&client, &two);
}

#[test]
fn what_could_never_work_is_refused_in_words() {
    let error = builder()
        .mqtt_version(7)
        .connect()
        .expect_err("there is no such version");
    assert!(
        matches!(&error, ClientError::Settings(words) if words.contains("MQTT version 7")),
        "{error}"
    );
    let dtls = Client::builder()
        .broker("coaps://127.0.0.1")
        .expect("a URL");
    let error = dtls.connect().expect_err("it has no key");
    assert!(
        matches!(&error, ClientError::Settings(words) if words.contains("coaps://127.0.0.1:5684")),
        "{error}"
    );
    let dtls = Client::builder()
        .broker("coaps://127.0.0.1")
        .expect("a URL");
    dtls.psk("pump", [1; 16]).connect().expect("it has a key");
}
