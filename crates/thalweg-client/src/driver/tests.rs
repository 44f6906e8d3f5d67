//! A client as its users have it, whose broker is not there: buffer, end and words.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use thalweg_journal::sim::{Faults, SimDisk};
use thalweg_model::Reliability;

use super::start::start_with;
use crate::blocking::{Client, wait};
use crate::builder::{BufferSettings, ClientBuilder, Via};
use crate::client::ClientError;
use crate::engine::Success;
use crate::events::{Event, EventQueue, Level};
use crate::message::Options;
use crate::spool::{Disk, DiskSettings, Spool, WhenFull};
use crate::subscription::SubscribeOptions;
use crate::ticket::Ticket;
use crate::transport::Will;

/// The URL of a port without a listener.
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
    // The next process finds the messages reported as stored.
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
        // Both are notified when the client has ended, not when it begins to.
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

fn will(address: &str, bytes: usize) -> Will {
    Will {
        address: address.to_owned(),
        payload: vec![b'x'; bytes],
        reliability: Reliability::AtLeastOnce,
        retain: false,
    }
}

#[test]
fn a_will_is_refused_where_no_protocol_carries_it() {
    let with = |other: &str| {
        builder()
            .broker(other)
            .expect("a URL")
            .will(will("gone", 4))
    };
    for (url, protocol) in [
        ("coap://127.0.0.1", "coap"),
        ("coap+tcp://127.0.0.1", "coap"),
        ("amqp://127.0.0.1", "amqp"),
        ("stomp://127.0.0.1", "stomp"),
    ] {
        let refused = with(url).connect().expect_err(url).to_string();
        let words = format!("a will cannot go by {protocol}");
        assert!(refused.starts_with(&words), "{refused}");
        with(url)
            .via(Via::Protocol("mqtt".to_owned()))
            .connect()
            .expect("the others are not taken");
    }
    for bad in [will("a/#", 1), will("", 1), will("a", 65_536)] {
        let refused = builder().will(bad).connect();
        assert!(matches!(refused, Err(ClientError::Invalid(_))));
    }
    builder()
        .will(will("a", 65_535))
        .connect()
        .expect("as long as MQTT says");
}

#[test]
fn at_most_once_is_not_settled_by_hand() {
    let client: Client = builder().connect().expect("a client").into();
    let wish = SubscribeOptions {
        reliability: Reliability::AtMostOnce,
        settle_by_hand: true,
        ..SubscribeOptions::default()
    };
    let refused = client.subscribe("a", wish).expect_err("nothing to settle");
    assert!(
        refused.to_string().contains("cannot be settled by hand"),
        "{refused}"
    );
}

/// Lets one client in by MQTT 5.
fn let_in(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().expect("the client connects");
    let mut head = [0; 2];
    stream.read_exact(&mut head).expect("CONNECT begins");
    let mut rest = vec![0; usize::from(head[1])];
    stream.read_exact(&mut rest).expect("CONNECT is short");
    stream
        .write_all(&[0x20, 3, 0, 0, 0])
        .expect("CONNACK is taken");
    stream
}

#[test]
fn who_wants_to_know_is_told_what_happens_to_connections_and_messages() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let place = listener.local_addr().expect("it is bound").to_string();
    let events = EventQueue::with_outcomes();
    let client: Client = Client::builder()
        .broker(&format!("mqtt://user:secret@{place}"))
        .expect("a URL")
        .backoff(Duration::from_millis(1), Duration::from_millis(2))
        .events(&events)
        .connect()
        .expect("a client")
        .into();
    let next = || wait(events.next()).expect("the client runs");
    let stream = let_in(&listener);
    assert_eq!(
        next(),
        Event::Connected {
            protocol: "mqtt",
            place: place.clone(),
            session_present: false
        }
    );
    // The connection goes, and the listener with it: it is lost once, then not reached.
    drop((stream, listener));
    let lost = next();
    assert!(
        matches!(&lost, Event::Lost { place: at, is_final: false, .. } if *at == place),
        "{lost:?}"
    );
    assert_eq!(lost.level(), Level::Warning);
    let again = next();
    assert!(
        matches!(
            &again,
            Event::NotReached {
                protocol: "mqtt",
                ..
            }
        ),
        "{again:?}"
    );
    let options = Options {
        lifespan: Some(Duration::ZERO),
        ..Options::default()
    };
    let late = client
        .publish_message(b"payload", "", "a", &options)
        .expect("there is room");
    let outcome = loop {
        match next() {
            Event::NotReached { .. } => {}
            other => break other,
        }
    };
    assert!(
        matches!(&outcome, Event::Outcome { ticket, success: Success::Failed, why: Some(_) } if *ticket == late),
        "{outcome:?}"
    );
    client.close(Duration::ZERO).expect("nothing waits");
    let mut rest = Vec::new();
    while let Some(event) = wait(events.next()) {
        rest.push(event);
    }
    rest.extend([lost, again, outcome]);
    for event in rest {
        let line = event.to_string();
        assert!(
            !line.contains("secret") && !line.contains("payload"),
            "{line}"
        );
    }
}

#[test]
fn a_connection_that_the_client_ends_is_left_and_not_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let place = listener.local_addr().expect("it is bound").to_string();
    let events = EventQueue::new();
    let client: Client = Client::builder()
        .broker(&format!("mqtt://{place}"))
        .expect("a URL")
        .events(&events)
        .connect()
        .expect("a client")
        .into();
    let stream = let_in(&listener);
    assert!(matches!(wait(events.next()), Some(Event::Connected { .. })));
    client.close(Duration::ZERO).expect("nothing waits");
    let protocol = "mqtt";
    assert_eq!(wait(events.next()), Some(Event::Left { protocol, place }));
    assert_eq!(wait(events.next()), None);
    drop(stream);
}

#[test]
fn a_disk_that_fails_is_told_and_so_is_its_end() {
    let disk = SimDisk::new(1);
    let events = EventQueue::new();
    let spool = Disk::open_on(disk.clone(), SETTINGS).expect("the buffer opens");
    let client: Client = start_with(builder().events(&events), Box::new(spool))
        .expect("a client")
        .into();
    disk.plan(Faults {
        full_after: Some(0),
        ..Faults::default()
    });
    let refused = publish(&client, Reliability::AtLeastOnce);
    client.stored(refused).expect_err("the disk is full");
    let trouble = || loop {
        match wait(events.next()).expect("the client runs") {
            Event::Buffer { trouble } => break trouble,
            Event::NotReached { .. } | Event::Outcome { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(!trouble().is_empty());
    assert!(!client.status().expect("it runs").buffer.trouble.is_empty());

    disk.plan(Faults::default());
    let taken = publish(&client, Reliability::AtLeastOnce);
    client.stored(taken).expect("there is room again");
    assert_eq!(trouble(), "");
    assert_eq!(client.status().expect("it runs").buffer.trouble, "");
}

#[cfg(all(target_os = "linux", feature = "coap"))]
#[test]
fn a_broker_sees_the_class_of_service_that_was_asked_for() {
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
    use std::os::fd::AsRawFd;
    for (dscp, class) in [(None, 0), (Some(46), 46 << 2)] {
        let broker = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
        setsockopt(&broker, sockopt::IpRecvTos, &true).expect("the system tells it");
        let url = format!("coap://{}", broker.local_addr().expect("it is bound"));
        let builder = Client::builder().broker(&url).expect("a URL");
        let builder = match dscp {
            Some(dscp) => builder.dscp(dscp),
            None => builder,
        };
        let client: Client = builder.connect().expect("a client").into();
        publish(&client, Reliability::AtMostOnce);
        let (mut bytes, mut control) = ([0; 1500], nix::cmsg_space!(u8));
        let mut into = [std::io::IoSliceMut::new(&mut bytes)];
        let came = recvmsg::<()>(
            broker.as_raw_fd(),
            &mut into,
            Some(&mut control),
            MsgFlags::empty(),
        )
        .expect("a datagram");
        let told: Vec<_> = came.cmsgs().expect("they are whole").collect();
        assert_eq!(told, [ControlMessageOwned::Ipv4Tos(class)], "{dscp:?}");
    }
    let Err(refused) = builder().dscp(64).connect() else {
        panic!("64 is no class")
    };
    assert!(refused.to_string().contains("0 to 63, not 64"), "{refused}");
}
