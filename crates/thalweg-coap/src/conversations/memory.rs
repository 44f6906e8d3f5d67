//! Memory of an observer, in bytes.

use super::*;
use crate::dedup::{Again, Key, Remembered};
use crate::endpoint::Sending;
use crate::observe::Relation;
use crate::peer::Peer;

#[test]
fn records_are_small() {
    assert!(size_of::<Peer>() <= 120, "{}", size_of::<Peer>());
    assert!(size_of::<Relation>() <= 88, "{}", size_of::<Relation>());
    assert!(size_of::<Sending>() <= 112, "{}", size_of::<Sending>());
    assert_eq!(size_of::<Option<Peer>>(), size_of::<Peer>());
    assert_eq!(size_of::<Option<Relation>>(), size_of::<Relation>());
}

/// `n` observers, each an address of its own.
fn crowd(n: usize) -> (Bench, Vec<RelationId>) {
    let mut bench = Bench::new(ServerSettings::default());
    let get = message(Type::Confirmable, Code::GET, 7, &[1, 2, 3, 4], |encoder| {
        encoder
            .uint(option::OBSERVE, 0)
            .option(option::URI_PATH, b"t");
    });
    let relations = (0..n)
        .map(|n| {
            let from = SocketAddr::from(([10, (n >> 16) as u8, (n >> 8) as u8, n as u8], 5683));
            let event = bench
                .server
                .handle_datagram(from, &get, bench.now, &mut bench.out);
            let Some(Event::Request(request)) = event else {
                panic!("no request of {n}")
            };
            let relation = bench
                .server
                .observe(request.exchange, n as u64, None, bench.now)
                .expect("room");
            bench.respond(request.exchange, &Response::of(Code::CONTENT));
            bench.out.clear();
            relation
        })
        .collect();
    (bench, relations)
}

#[test]
fn a_hundred_thousand_observers_cost_less_than_300_bytes_each() {
    let (mut bench, relations) = crowd(100_000);
    let idle = bench.server.bytes();
    assert!(
        idle.total() / 100_000 < 300,
        "{} {idle:?}",
        idle.total() / 100_000
    );
    // All of them told at once, confirmably; they share the body, which is too small for a question before it.
    let body = Arc::new(SharedBody::new(Code::CONTENT, &[], &[0; 16]));
    let mut acknowledgements = Vec::new();
    for relation in &relations {
        let notified =
            bench
                .server
                .notify(*relation, &body, Delivery::Auto, bench.now, &mut bench.out);
        assert_eq!(notified, Notified::Sent { confirmable: true });
        for (to, datagram) in bench.out.iter() {
            let mut answer = Vec::new();
            empty(&mut answer, Type::Acknowledgement, decoded(datagram).id);
            acknowledgements.push((to, answer));
        }
        bench.out.clear();
    }
    let flying = bench.server.bytes();
    let each = (flying.total() - idle.total()) / 100_000;
    assert!(each < 180, "{each} for a message in flight: {flying:?}");
    for (from, answer) in &acknowledgements {
        bench
            .server
            .handle_datagram(*from, answer, bench.now, &mut bench.out);
        bench.notices();
    }
    bench.wait(Span::from_secs(5));
    let after = bench.server.bytes();
    assert!(
        after.total() < idle.total() + 100_000 * 10,
        "{idle:?} became {after:?}"
    );
}

#[test]
fn requests_in_the_steady_state_allocate_nothing() {
    let mut bench = Bench::new(ServerSettings {
        remembered_max: 1000,
        ..ServerSettings::default()
    });
    let mut bytes = Vec::new();
    for id in 0..5000_u16 {
        let datagram = put(Type::Confirmable, id, &[0; 60]);
        let request = bench
            .feed(usize::from(id % 10), &datagram)
            .expect("a request");
        bench.respond(request.exchange, &Response::of(Code::CHANGED));
        bench.out.clear();
        if id % 1000 == 999 {
            bytes.push(bench.server.bytes());
        }
    }
    assert_eq!(bytes[2], bytes[4]);
}

#[test]
fn a_remembered_answer_costs_32_bytes_and_its_place_in_the_table() {
    let mut all = Remembered::default();
    for n in 0..100_000_u64 {
        let key = Key {
            peer: n << 20,
            id: 7,
            fingerprint: 9,
        };
        all.insert(
            key,
            Again::Respond(Code::CHANGED),
            &[],
            Time::ZERO,
            1 << 20,
            1 << 20,
        );
    }
    // Rings and tables double; half of the places are empty at worst.
    assert!(all.bytes() / 100_000 <= 56, "{}", all.bytes() / 100_000);
}

#[test]
fn timers_of_what_has_ended_do_not_pile_up() {
    let mut bench = Bench::new(ServerSettings {
        addresses_are_proven: true,
        ..ServerSettings::default()
    });
    let mut most = 0;
    for _ in 0..20_000 {
        let relation = bench.observe(0, &[1]);
        let _ = bench.notify(relation, b"x", Delivery::Confirmable);
        bench
            .server
            .end_observation(relation, None, bench.now, &mut bench.out);
        bench.out.clear();
        most = most.max(bench.server.bytes().timers);
    }
    assert!(most < 100_000, "{most}");
}
