//! Valid packets with random damage, through both decoders: nothing panics, nothing is read twice or past its end.
//! The fuzz targets in `/fuzz` do the same with a guided generator.

use thalweg_wire::testkit::{Dice, Mark, Side, parse_transcript};

use super::*;

const ROUNDS: usize = 200_000;
const SEED: u64 = 20_261_120;

fn damage(packet: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let at = dice.below(packet.len());
        let byte = match dice.below(4) {
            0 => 0,
            1 => 0xFF,
            _ => dice.throw() as u8,
        };
        match dice.below(6) {
            0 => packet.truncate(at),
            1 => packet.insert(at, byte),
            2 if at < packet.len() => {
                packet.remove(at);
            }
            3 => packet.push(byte),
            _ => {
                if let Some(old) = packet.get_mut(at) {
                    *old = if dice.below(2) == 0 {
                        byte
                    } else {
                        *old ^ 1 << dice.below(8)
                    };
                }
            }
        }
    }
}

/// Touches everything an event borrows.
fn read(event: &impl std::fmt::Debug) -> usize {
    use std::fmt::Write;
    struct Count(usize);
    impl Write for Count {
        fn write_str(&mut self, s: &str) -> std::fmt::Result {
            self.0 += s.len();
            Ok(())
        }
    }
    let mut count = Count(0);
    write!(count, "{event:?}").expect("counting cannot fail");
    count.0
}

fn feed_server(server: &mut ServerSide, input: &[u8]) {
    let mut rest = input;
    let mut out = Vec::new();
    loop {
        match server.handle_input(rest) {
            Ok(Some((consumed, event))) => {
                assert!(consumed > 0 && consumed <= rest.len());
                assert!(read(&event) > 0);
                match &event {
                    Event::Connect(_) => server.connack(&ConnAck::default(), &mut out),
                    Event::Subscribe(s) => assert!(s.filters().count() > 0),
                    Event::Unsubscribe(u) => assert!(u.filters().count() > 0),
                    Event::Publish(p) => {
                        assert!(!p.topic.as_str().is_empty());
                        assert_eq!(p.properties.is_empty(), p.properties.iter().count() == 0);
                    }
                    _ => {}
                }
                rest = &rest[consumed..];
            }
            Ok(None) => break,
            Err(fault) => {
                server.fault(&fault, &mut out);
                break;
            }
        }
    }
}

fn feed_client(client: &mut ClientSide, input: &[u8]) {
    let mut rest = input;
    loop {
        match client.handle_input(rest) {
            Ok(Some((consumed, event))) => {
                assert!(consumed > 0 && consumed <= rest.len());
                assert!(read(&event) > 0);
                rest = &rest[consumed..];
            }
            Ok(None) => break,
            Err(fault) => {
                client.fault(&fault, &mut Vec::new());
                break;
            }
        }
    }
}

#[test]
fn damaged_packets_are_faults_or_events_and_never_a_panic() {
    let mut dice = Dice::new(SEED);
    let lines: Vec<_> = transcripts::ALL
        .iter()
        .flat_map(|(_, text)| parse_transcript(text).expect("it parses"))
        .filter(|line| !matches!(line.mark, Mark::Faulty(_)))
        .collect();
    for round in 0..ROUNDS {
        let line = &lines[dice.below(lines.len())];
        let mut packet = line.bytes.clone();
        damage(&mut packet, &mut dice);
        let version = [Version::V31, Version::V311, Version::V5][round % 3];
        let _ = peek_connect(&packet, 1 << 16);
        if line.side == Side::Client && packet.first().is_some_and(|first| first >> 4 == 1) {
            feed_server(&mut ServerSide::new(limits()), &packet);
        } else {
            let limits = ServerLimits {
                load_reports: round % 2 == 0,
                ..limits()
            };
            let connect = ConnectOut {
                version,
                client_id: "c",
                ..ConnectOut::default()
            };
            let (mut client, mut server) = pair(&connect, limits);
            feed_server(&mut server, &packet);
            feed_client(&mut client, &packet);
        }
        if line.side == Side::Server && packet.first().is_some_and(|first| first >> 4 == 2) {
            let mut client = ClientSide::new(1 << 20);
            client
                .connect(
                    &ConnectOut {
                        version,
                        ..ConnectOut::default()
                    },
                    &mut Vec::new(),
                )
                .expect("fits");
            feed_client(&mut client, &packet);
        }
    }
}
