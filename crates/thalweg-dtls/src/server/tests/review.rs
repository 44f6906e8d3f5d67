//! Findings of the review of 2026-11-21, and the points that it confirmed (ADR 0018).

use std::sync::atomic::Ordering;

use super::*;

/// The first hello again, with the cookie that the server asks for: the one datagram that begins a handshake.
fn good_hello(bench: &mut Bench, client: &mut Client) -> Vec<u8> {
    let first = client.out.remove(0);
    for (_, answer) in bench.take(client.address, &first) {
        client.handle_datagram(&answer);
    }
    client.out.remove(0)
}

/// A record made without the keys.
fn foreign(content: u8, epoch: u16, number: u64, fragment: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    write_header(
        &mut record,
        content,
        VERSION_1_2,
        epoch,
        number,
        fragment.len(),
    );
    record.extend_from_slice(fragment);
    record
}

/// Size of a protected Finished with CCM_8: nonce, header, verify_data, tag.
const FINISHED_FRAGMENT: [u8; 8 + 12 + 12 + 8] = [7; 40];

/// 25 hellos of 54 bytes fit where one answer of 44 would; with the headers of IP and UDP the answers would be more.
#[test]
fn many_hellos_in_one_datagram_are_answered_once() {
    let mut bench = Bench::new(ServerLimits::default());
    let client = Client::new(at(HERE), 1, Plan::default());
    let hello = &client.out[0];
    assert_eq!(
        bench.take(at(HERE), &hello.repeat(12)).len(),
        1,
        "in records of their own"
    );
    let messages = hello[13..].repeat(12);
    assert_eq!(
        bench
            .take(at(HERE), &foreign(content::HANDSHAKE, 0, 0, &messages))
            .len(),
        1,
        "in one record"
    );
}

/// RFC 6347 §4.2.1 has the answer begin with the hello's number; §4.1 has no number behind 2^48 - 1.
#[test]
fn a_hello_with_the_last_record_number_does_not_bring_the_next_epoch() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = Client::new(at(HERE), 1, Plan::default());
    let mut hello = good_hello(&mut bench, &mut client);
    for number in [NUMBER_MAX, NUMBER_MAX - 1] {
        hello[5..11].copy_from_slice(&number.to_be_bytes()[2..]);
        for (_, answer) in bench.take(at(HERE), &hello) {
            let mut rest = Reader::new(&answer);
            while let Some(record) = Record::take(&mut rest) {
                assert_eq!(record.epoch, 0);
            }
        }
    }
    assert_eq!(bench.listener.handshakes(), 0);
}

/// RFC 6347 §4.2.8: both are there at once.
#[test]
fn what_comes_in_the_old_association_does_not_spoil_the_new_handshake() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut old = bench.connect(HERE, Plan::default());
    let mut new = Client::new(at(HERE), 2, Plan::default());
    let hello = good_hello(&mut bench, &mut new);
    for (_, answer) in bench.take(at(HERE), &hello) {
        new.handle_datagram(&answer);
    }
    bench.check(&mut old, &psk("dev1"));
    bench.exchange(&mut new);
    assert!(new.is_done, "{:?} {:?}", new.alerts, bench.events);
    bench.check(&mut new, &psk("dev1"));
}

/// RFC 6347 §4.1.2.7: what is not authentic is passed over. Devices that begin again may have datagrams of their former
/// association under way, and strangers may throw anything in.
#[test]
fn what_cannot_be_a_finished_does_not_end_a_handshake() {
    let mut bench = Bench::new(ServerLimits::default());
    for (port, when) in (7001..).zip([0, 1]) {
        let mut client = half_open(&mut bench, port);
        let own = std::mem::take(&mut client.out);
        assert_eq!(own.len(), 2, "ClientKeyExchange and Finished");
        let mut datagrams = own.clone();
        datagrams.insert(when, foreign(content::APPLICATION_DATA, 1, 77, &[3; 60]));
        datagrams.insert(when, foreign(content::ALERT, 1, 78, &FINISHED_FRAGMENT));
        datagrams.insert(when, foreign(content::HANDSHAKE, 1, 79, &[3; 60]));
        client.out = datagrams;
        bench.exchange(&mut client);
        assert!(
            client.is_done,
            "{when}: {:?} {:?}",
            client.alerts, bench.events
        );
    }
}

/// Before there are keys a server cannot tell a Finished from similar bytes: the client sends its own again.
#[test]
fn a_false_finished_that_comes_early_does_not_end_a_handshake() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = half_open(&mut bench, 7001);
    client
        .out
        .insert(0, foreign(content::HANDSHAKE, 1, 5, &FINISHED_FRAGMENT));
    bench.exchange(&mut client);
    assert!(client.is_done, "{:?} {:?}", client.alerts, bench.events);
}

/// A client with a certificate has no key to be wrong about, so this was not its own (RFC 6347 §4.1.2.7).
#[test]
fn nothing_that_is_not_authentic_ends_a_handshake_with_certificates() {
    let mut bench = Bench::with_certificate(Wanted::Required);
    let certificate = Some(sensor_7());
    let mut client = Client::new(
        at(HERE),
        1,
        Plan {
            suites: vec![0xc0ae],
            certificate,
            ..Plan::default()
        },
    );
    let hello = good_hello(&mut bench, &mut client);
    for (_, answer) in bench.take(at(HERE), &hello) {
        client.handle_datagram(&answer);
    }
    let last = client.out.len() - 1;
    client
        .out
        .insert(last, foreign(content::HANDSHAKE, 1, 5, &FINISHED_FRAGMENT));
    bench.exchange(&mut client);
    assert!(client.is_done, "{:?} {:?}", client.alerts, bench.events);
}

/// Its Finished has number 0, as that of the association before it had.
#[test]
fn a_wrong_key_is_told_beside_an_old_association_too() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut old = bench.connect(HERE, Plan::default());
    let mut wrong = Client::new(
        at(HERE),
        2,
        Plan {
            key: b"wrong".to_vec(),
            ..Plan::default()
        },
    );
    bench.exchange(&mut wrong);
    assert_eq!(
        (wrong.is_done, &wrong.alerts[..]),
        (false, &[(alert::FATAL, alert::DECRYPT_ERROR)][..])
    );
    assert_eq!(bench.listener.handshakes(), 0);
    bench.check(&mut old, &psk("dev1"));
}

/// A cookie is valid for two minutes, also for an attacker who has left the address since and spoofs it now: a
/// handshake that was aborted by an alert (which need not be authenticated) must not be answered by a new flight for
/// the same hello at once.
#[test]
fn giving_up_does_not_bring_more_handshakes_than_waiting() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = Client::new(at(HERE), 1, Plan::default());
    let hello = good_hello(&mut bench, &mut client);
    let alert = foreign(
        content::ALERT,
        0,
        9,
        &[alert::FATAL, alert::HANDSHAKE_FAILURE],
    );
    let mut flights = 0;
    for _ in 0..100 {
        flights += bench.take(at(HERE), &hello).len();
        bench.take(at(HERE), &alert);
    }
    assert!((1..=4).contains(&flights), "{flights}");
    assert!(bench.listener.counts().crowded >= 96);
    bench.tick(Span::from_secs(10));
    assert_eq!(
        bench.take(at(HERE), &hello).len(),
        1,
        "a client that means well gets in again"
    );
    bench.exchange(&mut Client::new(at("127.0.0.1:7002"), 1, Plan::default()));
    assert_eq!(bench.listener.peers(), 1, "another one is not held up");
}

#[test]
fn an_address_with_many_ports_does_not_keep_others_out() {
    for flooder in [["10.0.0.1", "10.0.0.1"], ["[2001:db8::1]", "[2001:db8::2]"]] {
        let mut bench = Bench::new(ServerLimits {
            handshakes_max: 10,
            ..ServerLimits::default()
        });
        for port in 1..=30 {
            let mut client = Client::new(
                at(&format!("{}:{port}", flooder[port % 2])),
                1,
                Plan::default(),
            );
            let hello = good_hello(&mut bench, &mut client);
            bench.take(client.address, &hello);
        }
        assert_eq!(bench.listener.handshakes(), 10);
        let mut other = Client::new(at("10.0.0.2:1"), 1, Plan::default());
        bench.exchange(&mut other);
        assert!(other.is_done, "{flooder:?}");
        assert_eq!(
            (bench.listener.handshakes(), bench.listener.peers()),
            (9, 1)
        );
    }
}

/// A device may have no randomness when it starts. Only a copy of the very same hello, cookie included, is a copy.
#[test]
fn a_device_that_says_the_same_random_after_a_restart_gets_in() {
    let mut bench = Bench::new(ServerLimits::default());
    bench.connect(HERE, Plan::default());
    bench.tick(Span::from_secs(120));
    let mut again = bench.connect(HERE, Plan::default());
    bench.check(&mut again, &psk("dev1"));
}

#[test]
fn a_key_that_changes_during_a_handshake_is_a_wrong_key() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = half_open(&mut bench, 7001);
    bench.renew("dev1:\"new\"\n");
    bench.exchange(&mut client);
    assert_eq!(
        (client.is_done, &client.alerts[..]),
        (false, &[(alert::FATAL, alert::DECRYPT_ERROR)][..])
    );
    assert_eq!(
        (
            bench.listener.peers.addresses(),
            bench.listener.counts().failed
        ),
        (0, 1)
    );
}

/// The product of the lists must not be what a hello costs.
#[test]
fn a_hello_with_lists_of_thousands_costs_no_more_than_its_length() {
    let certificate = ServerIdentity::new(Wanted::None);
    let asked = certificate.asked.clone();
    let mut bench = Bench::with(ServerLimits::default(), Some(certificate));
    for entries in [4000, 900] {
        let address = at(&format!("127.0.0.1:{}", 7000 + entries));
        let mut body = VERSION_1_2.to_be_bytes().to_vec();
        body.extend_from_slice(&[9; 32]);
        body.extend_from_slice(&[0, 0]);
        body.extend_from_slice(&(2 * entries as u16).to_be_bytes());
        body.extend_from_slice(&[0xc0, 0x2b].repeat(entries));
        body.extend_from_slice(&[1, 0]);
        body.extend_from_slice(&(2 * entries as u16 + 6).to_be_bytes());
        body.extend_from_slice(&[0, 13]);
        body.extend_from_slice(&(2 * entries as u16 + 2).to_be_bytes());
        body.extend_from_slice(&(2 * entries as u16).to_be_bytes());
        body.extend_from_slice(&[0xee, 0xee].repeat(entries));
        let datagram = |body: &[u8]| {
            let mut message = Vec::new();
            message::write_header(&mut message, CLIENT_HELLO, body.len(), 0, 0, body.len());
            message.extend_from_slice(body);
            foreign(content::HANDSHAKE, 0, 0, &message)
        };
        if let Some((_, asked)) = bench.take(address, &datagram(&body)).first() {
            body.splice(
                34 + 1..34 + 2,
                [&[16][..], &asked[asked.len() - 16..]].concat(),
            );
        }
        bench.take(address, &datagram(&body));
        assert_eq!(bench.listener.handshakes(), 0);
    }
    assert!(
        bench.refusal().contains("no cipher suite"),
        "{}",
        bench.refusal()
    );
    // The longer hello is longer than hellos may be; in the other one the same suite stands 900 times.
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// Only what is protected is a Finished, so what is not does not stand in its way.
#[test]
fn an_injected_message_does_not_take_the_place_of_finished() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = half_open(&mut bench, 7001);
    let mut message = Vec::new();
    message::write_header(&mut message, message::CERTIFICATE_VERIFY, 40, 3, 0, 1);
    message.push(0);
    client
        .out
        .insert(0, foreign(content::HANDSHAKE, 0, 50, &message));
    bench.exchange(&mut client);
    assert!(client.is_done, "{:?} {:?}", client.alerts, bench.events);
}

/// RFC 5288 §3, RFC 6655 §3: a nonce serves once. It is salt, epoch and number, so no number may serve twice, whatever
/// is sent again, and it must be what is sent.
#[test]
fn no_record_number_serves_twice_in_an_association() {
    for suite in PSK_SUITES {
        let mut bench = Bench::new(ServerLimits::default());
        let plan = Plan {
            suites: vec![suite],
            ..Plan::default()
        };
        let mut client = Client::new(at(HERE), 1, plan);
        let mut sent = Vec::new();
        let mut lost = 3;
        for round in 0..10 {
            for datagram in std::mem::take(&mut client.out) {
                for (_, answer) in bench.take(at(HERE), &datagram) {
                    let mut rest = Reader::new(&answer);
                    while let Some(record) =
                        Record::take(&mut rest).filter(|record| record.epoch == 1)
                    {
                        sent.push((record.number, record.fragment[..8].to_vec()));
                    }
                    // Behind a ChangeCipherSpec of the other epoch.
                    let protected = answer
                        .windows(5)
                        .position(|bytes| bytes == [22, 0xfe, 0xfd, 0, 1]);
                    if let Some(record) =
                        protected.and_then(|at| Record::take(&mut Reader::new(&answer[at..])))
                    {
                        sent.push((record.number, record.fragment[..8].to_vec()));
                        lost -= 1;
                        if lost >= 0 {
                            continue;
                        }
                    }
                    client.handle_datagram(&answer);
                }
            }
            if round > 2 && !client.is_done {
                client.send();
            }
        }
        assert!(client.is_done);
        let mut datagram = Vec::new();
        bench
            .listener
            .encrypt(at(HERE), b"text", &mut datagram)
            .unwrap();
        let record = Record::take(&mut Reader::new(&datagram)).unwrap();
        sent.push((record.number, record.fragment[..8].to_vec()));
        assert_eq!(
            sent.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4],
            "{suite:x}"
        );
        for (number, explicit) in sent {
            assert_eq!(explicit, (1 << 48 | number).to_be_bytes());
        }
    }
}

/// All 48 bits used up, nothing is sent any more: not with a number that has served.
#[test]
fn an_association_without_numbers_is_silent() {
    let mut bench = Bench::new(ServerLimits::default());
    bench.connect(HERE, Plan::default());
    let place = bench.listener.peers.place(&at(HERE)).unwrap();
    bench
        .listener
        .peers
        .association(place)
        .unwrap()
        .skip_to(NUMBER_MAX);
    let mut datagram = Vec::new();
    bench
        .listener
        .encrypt(at(HERE), b"text", &mut datagram)
        .unwrap();
    let length = datagram.len();
    assert_eq!(
        bench.listener.encrypt(at(HERE), b"text", &mut datagram),
        Err(NotSent)
    );
    assert_eq!(datagram.len(), length);
    let mut out = Output::default();
    bench.listener.close(at(HERE), &mut out);
    assert_eq!(out.datagrams().count(), 0);
}

/// RFC 5246 §7.4.9, §7.1: what is in force since ChangeCipherSpec protects Finished, and it protects nothing before it.
#[test]
fn finished_is_protected_and_no_message_before_it_is() {
    let mut bench = Bench::with_certificate(Wanted::Required);
    let certificate = sensor_7();
    for (turned, completes) in [
        (FINISHED, false),
        (message::CERTIFICATE_VERIFY, false),
        (0, true),
    ] {
        let mut plan = Plan {
            suites: vec![0xc02b],
            certificate: Some(certificate.clone()),
            ..Plan::default()
        };
        plan.twists_wire = Some(std::rc::Rc::new(move |whole, protected| {
            vec![(
                content::HANDSHAKE,
                protected != (whole[0] == turned),
                whole.to_vec(),
            )]
        }));
        let mut client = Client::new(at(HERE), 1, plan);
        bench.exchange(&mut client);
        assert_eq!(
            (client.is_done, bench.listener.peers()),
            (completes, usize::from(completes)),
            "{turned}"
        );
        bench.tick(Span::from_secs(31));
    }
}

/// RFC 5246 §6.2.1
#[test]
fn a_text_that_is_longer_than_a_record_may_be_is_not_taken() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = bench.connect(HERE, Plan::default());
    client.send_text(&[0; PLAIN_MAX + 1]);
    bench.exchange(&mut client);
    assert!(bench.texts.is_empty());
    bench.check(&mut client, &psk("dev1"));
}

/// RFC 7252 §9.1: the front must be notified that a peer has gone, or it would send its responses to the next peer at
/// that address.
#[test]
fn when_the_files_are_others_all_peers_are_told_and_the_front_is() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut clients: Vec<_> = ["127.0.0.1:7001", "127.0.0.1:7002"]
        .map(|at| bench.connect(at, Plan::default()))
        .into();
    bench.events.clear();
    let mut out = Output::default();
    bench.listener.end_all(&mut out);
    for (client, (to, datagram)) in clients.iter_mut().zip(out.datagrams()) {
        assert_eq!(to, client.address);
        client.handle_datagram(datagram);
        assert_eq!(client.alerts, [(alert::WARNING, alert::CLOSE_NOTIFY)]);
    }
    let closed = |client: &Client| Event::Closed {
        peer: client.address,
        why: Ended::KeyChanged,
    };
    assert_eq!(out.events(), clients.iter().map(closed).collect::<Vec<_>>());
    assert_eq!(bench.listener.peers.addresses(), 0);
}
